//! A network of many links in virtual time: long links on one channel, with a radio at each end of
//! each.
//!
//! The rules of the air are those of [`crate::Pair`], with one more: a node that sends with one
//! radio hears nothing with its others. Every frame that arrives at a node while it sends is an
//! overlap, and is counted with its time.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use farhop_proto::base::{
    AckPolicy, Cx, Duration, EtherType, FlowId, Frame, FrameDone, FrameDown, FrameOutcome, FrameUp,
    Instant, Lane, NodeId, Packet, PacketUp, RadioId, RadioSpec, ReceivedFrame, Rng, Room, Seed,
    TxOptions, UnitIds,
};
use farhop_proto::link::{Link, LinkStatus, PeerSpec};

use crate::Clock;

/// Frames that a chip holds.
const CHIP_FRAMES: usize = 2;
/// Default queue of a link for each lane, in packets.
const QUEUE_PACKETS: usize = 64;
/// Packets that are kept waiting in each lane.
const WAITING: usize = 8;
/// Payload of each packet, in bytes.
const PACKET_BYTES: usize = 1_200;

/// A link: its ends and its propagation delay.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// The nodes at its ends, from 0.
    pub ends: [usize; 2],
    /// Propagation delay.
    pub delay: Duration,
}

/// Makes the link layer of a node, from its radios and neighbours.
pub type Make<L> = Box<dyn Fn(NodeId, &[RadioSpec], &[PeerSpec]) -> L>;
/// Decides whether a frame is lost.
pub type FrameLoss = Box<dyn FnMut(&mut Rng, &Frame) -> bool>;

enum Event {
    /// The node, and the index of its radio.
    Done(usize, usize, FrameDone),
    /// The node and its radio, and the start and the air time of the frame.
    Arrived(usize, RadioId, Frame, Instant, Duration),
}

struct Node<L> {
    link: L,
    clock: Clock,
    radios: Vec<RadioSpec>,
    peers: Vec<PeerSpec>,
    held: Vec<usize>,
    busy_until: Vec<Instant>,
    /// When its radios sent lately.
    on_air: VecDeque<(Instant, Instant)>,
}

/// Keeps some packets waiting in a link for each of its neighbours.
pub fn keep_waiting(link: &mut impl Link, cx: &mut Cx<'_>, peers: &[PeerSpec], ids: &mut UnitIds) {
    for peer in peers {
        let (to, flow) = (Some(peer.node), FlowId(1));
        let lane = Lane { radio: peer.radio, to, flow, ..Lane::default() };
        let full = QUEUE_PACKETS - WAITING;
        for _ in full..link.room(lane).units {
            let packet = Packet {
                id: ids.next_id(),
                radio: peer.radio,
                to,
                flow,
                protocol: EtherType::IPV4,
                payload: Bytes::from_static(&[0; PACKET_BYTES]),
                options: TxOptions::default(),
                order: None,
            };
            link.handle_tx(cx, packet);
        }
    }
}

/// A network.
pub struct Network<L> {
    /// Frames that arrived while their receiver was sending: when, and at which node.
    pub overlaps: Vec<(Instant, usize)>,
    /// Number of frames received.
    pub received: u64,
    /// Number of packets received, for each node.
    pub packets: Vec<u64>,
    nodes: Vec<Node<L>>,
    spans: Vec<Span>,
    make: Make<L>,
    loss: FrameLoss,
    events: BTreeMap<(Instant, u64), Event>,
    event_count: u64,
    ids: UnitIds,
    rng: Rng,
    now: Instant,
}

fn node_id(node: usize) -> NodeId {
    NodeId(node as u16 + 1)
}

impl<L: Link> Network<L> {
    /// A network with a node for each clock; `radio` is used at every end.
    pub fn build(
        radio: RadioSpec,
        clocks: &[Clock],
        spans: &[Span],
        make: Make<L>,
        loss: FrameLoss,
    ) -> Self {
        let node = |(at, clock): (usize, &Clock)| {
            let others = spans.iter().filter(|span| span.ends.contains(&at));
            let others = others.map(|span| span.ends[usize::from(span.ends[0] == at)]);
            let peers: Vec<PeerSpec> = others
                .enumerate()
                .map(|(id, other)| PeerSpec { node: node_id(other), radio: RadioId(id as u8) })
                .collect();
            let radios: Vec<RadioSpec> =
                peers.iter().map(|peer| RadioSpec { id: peer.radio, ..radio }).collect();
            let link = make(node_id(at), &radios, &peers);
            let (held, busy_until) = (vec![0; peers.len()], vec![Instant::ZERO; peers.len()]);
            let on_air = VecDeque::new();
            Node { link, clock: *clock, radios, peers, held, busy_until, on_air }
        };
        Self {
            overlaps: Vec::new(),
            received: 0,
            packets: vec![0; clocks.len()],
            nodes: clocks.iter().enumerate().map(node).collect(),
            spans: spans.to_vec(),
            make,
            loss,
            events: BTreeMap::new(),
            event_count: 0,
            ids: UnitIds::default(),
            rng: Seed(1).stream("network"),
            now: Instant::ZERO,
        }
    }

    /// The status of a node's link layer.
    pub fn status(&self, node: usize) -> LinkStatus {
        let node = &self.nodes[node];
        node.link.status(node.clock.local(self.now))
    }

    /// Whether every link is in step at both ends.
    pub fn is_in_step(&self) -> bool {
        (0..self.nodes.len()).all(|node| self.status(node).neighbours.iter().all(|peer| peer.up))
    }

    /// Restarts a node.
    pub fn restart(&mut self, node: usize) {
        let Node { link, radios, peers, .. } = &mut self.nodes[node];
        *link = (self.make)(node_id(node), radios, peers);
    }

    /// Lets a broadcast that claims to be of `from` arrive at its neighbour `at`.
    pub fn inject(&mut self, at: usize, from: usize, payload: Bytes) {
        let node = &mut self.nodes[at];
        let peer = node.peers.iter().find(|peer| peer.node == node_id(from));
        let frame = ReceivedFrame {
            radio: peer.expect("a neighbour").radio,
            from: node_id(from),
            to: None,
            protocol: EtherType::FARHOP,
            payload,
            started: node.clock.local(self.now),
            rate: node.radios[0].rate,
            signal: None,
            bits: 0,
        };
        let mut cx = Cx::new(node.clock.local(self.now));
        node.link.handle_rx(&mut cx, FrameUp::Received(frame));
        self.turn(at);
    }

    /// Runs until the true time `until`.
    pub fn run_until(&mut self, until: Instant) {
        while let Some(next) = self.next_time().filter(|next| *next <= until) {
            self.now = next;
            while let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= next)
            {
                let event = entry.remove();
                let node = self.on_event(event);
                self.turn(node);
            }
            for node in 0..self.nodes.len() {
                let local = self.nodes[node].clock.local(self.now);
                let link = &mut self.nodes[node].link;
                if link.poll_timeout().is_some_and(|due| due <= local) {
                    link.handle_timeout(&mut Cx::new(local));
                    self.turn(node);
                }
            }
        }
        self.now = until;
    }

    fn next_time(&self) -> Option<Instant> {
        let event = self.events.first_key_value().map(|((at, _), _)| *at);
        let wake = |node: &Node<L>| Some(node.clock.true_time(node.link.poll_timeout()?));
        self.nodes.iter().filter_map(wake).chain(event).min().map(|at| at.max(self.now))
    }

    /// Handles an event; returns the node that it concerns.
    fn on_event(&mut self, event: Event) -> usize {
        match event {
            Event::Done(at, radio, done) => {
                let node = &mut self.nodes[at];
                node.held[radio] -= 1;
                let mut cx = Cx::new(node.clock.local(self.now));
                node.link.handle_rx(&mut cx, FrameUp::Done(done));
                at
            }
            Event::Arrived(at, radio, frame, started, air) => {
                let node = &mut self.nodes[at];
                let ends = started + air;
                if node.on_air.iter().any(|(from, until)| *from < ends && *until > started) {
                    self.overlaps.push((self.now, at));
                    return at;
                }
                self.received += 1;
                let from = node.peers[usize::from(radio.0)].node;
                let received = ReceivedFrame {
                    radio,
                    from,
                    to: frame.to,
                    protocol: frame.protocol,
                    payload: frame.payload,
                    started: node.clock.local(started),
                    rate: node.radios[0].rate,
                    signal: None,
                    bits: 0,
                };
                let mut cx = Cx::new(node.clock.local(self.now));
                node.link.handle_rx(&mut cx, FrameUp::Received(received));
                at
            }
        }
    }

    /// Moves everything that can move at one node.
    fn turn(&mut self, at: usize) {
        loop {
            let node = &mut self.nodes[at];
            let mut cx = Cx::new(node.clock.local(self.now));
            while let Some(event) = node.link.poll_rx(&mut cx) {
                self.packets[at] += u64::from(matches!(event, PacketUp::Received(_)));
            }
            let Node { link, held, clock, peers, .. } = &mut self.nodes[at];
            keep_waiting(link, &mut Cx::new(clock.local(self.now)), peers, &mut self.ids);
            let room = |lane: Lane| Room::units(CHIP_FRAMES - held[usize::from(lane.radio.0)]);
            let Some(unit) = link.poll_tx(&mut Cx::new(clock.local(self.now)), &room) else {
                return;
            };
            let FrameDown::Frame(frame) = unit else { panic!("only frames are sent here") };
            self.transmit(at, frame);
        }
    }

    fn transmit(&mut self, at: usize, frame: Frame) {
        assert_eq!(frame.options.ack, AckPolicy::NoAck, "no MAC acknowledgements here");
        let radio = usize::from(frame.radio.0);
        let node = &mut self.nodes[at];
        let spec = node.radios[radio];
        let air = spec.phy.air_time(spec.mpdu_bytes(frame.payload.len()), spec.rate);
        let start = node.busy_until[radio].max(self.now) + spec.mean_gap();
        let end = start + air;
        let (id, attempts, mut outcome) = (frame.id, 1, FrameOutcome::Sent);
        if frame.options.deadline.is_some_and(|deadline| node.clock.local(end) > deadline) {
            outcome = FrameOutcome::Late;
        } else {
            node.busy_until[radio] = end;
            node.on_air.push_back((start, end));
            if node.on_air.len() > 64 {
                node.on_air.pop_front();
            }
        }
        let is_sent = outcome == FrameOutcome::Sent;
        let done = FrameDone { id, outcome, attempts, air_time: air };
        node.held[radio] += 1;
        self.schedule(if is_sent { end } else { self.now }, Event::Done(at, radio, done));
        if is_sent && !(self.loss)(&mut self.rng, &frame) {
            let to = self.nodes[at].peers[radio].node;
            let other = usize::from(to.0) - 1;
            let span = self.spans.iter().find(|s| s.ends.contains(&at) && s.ends.contains(&other));
            let started = start + span.expect("a link between neighbours").delay;
            let back = self.nodes[other].peers.iter().find(|peer| peer.node == node_id(at));
            let radio = back.expect("a link has two ends").radio;
            self.schedule(started + air, Event::Arrived(other, radio, frame, started, air));
        }
    }

    fn schedule(&mut self, at: Instant, event: Event) {
        self.event_count += 1;
        self.events.insert((at, self.event_count), event);
    }
}
