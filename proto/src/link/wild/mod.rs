//! WiLDNet's link: time slots, bulk acknowledgement, adaptive erasure coding (`wildnet.md`).
//!
//! `slots` decides when a radio may send, with one schedule for all radios of a channel. `turns`
//! divides a slot among the neighbours that share one radio. `sender` and `receiver` keep the
//! window of each neighbour, and `recovery` decides how much is coded. This module joins them:
//! `send` chooses the next frame, `packets` chooses its content, and `receive` evaluates the frames
//! that arrive.
//!
//! Three things follow from sans-IO. Frames are chosen only when the driver asks, so that a stamp
//! is as fresh as possible. The deadline of every frame is the end of its slot, and the driver
//! returns the frame as `Late` if it would pass that. The stamp says when the frame's preamble is
//! expected on air: the time of the call plus the mean gap that the radio leaves before the frame.

mod beacon;
mod class;
mod classify;
mod clock;
mod config;
mod cycle;
mod done;
mod fair;
mod grants;
mod habit;
mod packets;
mod parts;
mod peer;
mod port;
mod queue;
mod receive;
mod receiver;
mod recovery;
mod riders;
mod send;
mod sender;
mod shares;
mod slots;
mod status;
mod turns;

use std::collections::{BTreeMap, VecDeque};

pub use classify::{AddressRange, ClassConfig, Preset};
pub use config::{InOrder, Lengths, Recovery, Retries, WildConfig};
pub use recovery::{SLOTS as LOSS_SLOTS, parity, residual, retries};
pub use turns::Turn;

use self::class::{Classes, UsualQueue};
use self::parts::Parts;
use self::peer::Peer;
use self::port::{Port, Toward, alone};
use self::receiver::Receiver;
use self::riders::Riders;
use self::send::Outstanding;
use self::slots::{Phase, SlotEvent, Slots};
use self::status::Counters;
use super::code::MAX_DATA;
use super::{Link, LinkStatus, PeerSpec, SlotStatus, Way};
use crate::base::{
    AckPolicy, Cx, DropCause, Duration, FrameDown, FrameUp, Frames, Instant, Lane, Layer, NodeId,
    Packet, PacketDone, PacketUp, Packets, RadioId, RadioSpec, Room, RoomBelow, Seed, Seq, UnitIds,
};
use crate::link::AirTimes;
use crate::link::copies::Copies;
use crate::wire::wild::HEADER_BYTES;

/// Lanes (queues of flows) of a node, shared out among its neighbours; each neighbour has at least
/// `LEAST_LANES`.
const LANES: usize = 1_024;
const LEAST_LANES: usize = 64;
/// Longest IP packet, in bytes.
const FULL_PACKET_BYTES: usize = 1_500;
/// Bounds of a flow's queue, in packets, where the configuration does not set its length.
const SHORTEST_QUEUE: usize = 64;
const LONGEST_QUEUE: usize = 4_096;
/// A TCP flow's queue holds at most this many slots of full packets: TCP fills any queue, and at
/// low rates 64 packets take seconds to cross a row of nodes.
const TCP_QUEUE_SLOTS: usize = 8;
/// A packet for a neighbour that is gone is dropped once it has waited this long, at the latest
/// after twice this time.
const GONE_AGE: Duration = Duration::from_secs(2);
/// TCP packets are dropped as well once the neighbour has been gone for longer than this: TCP can
/// still use old segments, but some of the connections no longer exist.
const TCP_GONE_AGE: Duration = Duration::from_secs(60);
/// Most bytes of an acknowledgement besides its bitmap.
const ACK_BYTES: usize = 10;

/// The link at one node.
#[derive(Debug)]
pub struct Wild {
    settings: Settings,
    groups: Vec<Group>,
    peers: Vec<Peer>,
    up: VecDeque<PacketUp>,
    copies: Copies,
    riders: Riders,
    parts: Parts,
    outstanding: VecDeque<Outstanding>,
    ids: UnitIds,
    seed: Seed,
    node: NodeId,
    /// Drawn at the first call, so that it differs after a restart.
    incarnation: Option<u8>,
    timeout: Instant,
    air: AirTimes,
    counters: Counters,
    drops: BTreeMap<DropCause, u64>,
}

/// The configuration, converted to the types that the link works with.
#[derive(Clone, Debug)]
struct Settings {
    slot: Duration,
    least: Duration,
    most: Duration,
    guard: Duration,
    overhead: Duration,
    in_order: InOrder,
    acks_ride: bool,
    frame_bytes: Option<u16>,
    block: usize,
    classes: Classes,
}

impl Settings {
    fn new(config: &WildConfig) -> Self {
        Self {
            slot: config.slot(),
            least: config.slot_least(),
            most: config.slot_most(),
            guard: config.guard(),
            overhead: Duration::from_secs_f64(config.overhead_us / 1e6),
            in_order: config.in_order,
            acks_ride: config.acks_ride,
            frame_bytes: config.frame_bytes,
            block: usize::from(config.block_packets).clamp(1, MAX_DATA),
            classes: Classes::build(config),
        }
    }

    /// A receiver of what a neighbour sends, which is configured as this node.
    fn receiver(&self) -> Receiver {
        let attempts = u64::from(self.classes.most_retries()) + 1;
        Receiver::new(self.in_order, self.slot * 2, attempts, self.classes.all().len())
    }
}

/// The radios of one channel, which share their slots.
#[derive(Debug)]
struct Group {
    channel: u16,
    slots: Slots,
    ports: Vec<Port>,
}

impl Wild {
    /// The link at `node` with its radios and its neighbours.
    ///
    /// Panics if a neighbour is assigned to a radio that the node does not have.
    pub fn build(
        config: &WildConfig,
        node: NodeId,
        radios: &[RadioSpec],
        peers: &[PeerSpec],
        seed: Seed,
    ) -> Self {
        let settings = Settings::new(config);
        let mut groups: Vec<Group> = Vec::new();
        for spec in radios {
            let port = Port::build(*spec, &settings);
            match groups.iter_mut().find(|group| group.channel == spec.channel) {
                Some(group) => group.ports.push(port),
                None => {
                    let rng = seed.stream(&format!("node/{}/wild/{}", node.0, spec.channel));
                    let slots = Slots::new(settings.slot, settings.guard, rng);
                    groups.push(Group { channel: spec.channel, slots, ports: vec![port] });
                }
            }
        }
        let mut all = Vec::with_capacity(peers.len());
        for (index, spec) in peers.iter().enumerate() {
            let place = place(&groups, spec);
            let port = &mut groups[place.0].ports[place.1];
            port.peers.join(index, Duration::ZERO);
            all.push(new_peer(config, &settings, (*spec, place), &port.spec, peers.len()));
        }
        for (index, group) in groups.iter_mut().enumerate() {
            group.expect_cycle(all.iter().filter(|peer: &&Peer| peer.place.0 == index).count());
        }
        Self {
            settings,
            groups,
            peers: all,
            up: VecDeque::new(),
            copies: Copies::default(),
            riders: Riders::default(),
            parts: Parts::default(),
            outstanding: VecDeque::new(),
            ids: UnitIds::default(),
            seed,
            node,
            incarnation: None,
            timeout: Instant::ZERO,
            air: AirTimes::default(),
            counters: Counters::default(),
            drops: BTreeMap::new(),
        }
    }

    /// The number that tells this incarnation of the node from earlier ones. It is drawn from the
    /// time of the first call, because a node that restarts has the same seed.
    fn incarnation(&mut self, now: Instant) -> u8 {
        if let Some(incarnation) = self.incarnation {
            return incarnation;
        }
        let name = format!("node/{}/wild/incarnation/{}", self.node.0, now.as_nanos());
        let mut rng = self.seed.stream(&name);
        let incarnation = rng.next_u64() as u8;
        self.incarnation = Some(incarnation);
        for peer in &mut self.peers {
            peer.sender.start_at(Seq(rng.next_u64() as u32));
        }
        incarnation
    }

    /// A neighbour of a radio; if it is none of that radio, one of another radio.
    fn peer_index(&self, radio: RadioId, node: NodeId) -> Option<usize> {
        let mut all = self.peers.iter();
        let exact = all.position(|peer| peer.spec == PeerSpec { node, radio });
        exact.or_else(|| self.peers.iter().position(|peer| peer.spec.node == node))
    }

    /// Advances the schedules to the present.
    fn advance(&mut self, cx: &mut Cx<'_>) {
        if cx.now < self.timeout {
            return;
        }
        self.incarnation(cx.now);
        for group in 0..self.groups.len() {
            while let Some(event) = self.groups[group].slots.advance(cx.now) {
                match event {
                    SlotEvent::Began => self.on_slot_began(cx, group),
                    SlotEvent::Ended => {}
                    SlotEvent::Listened => self.on_slot_listened(cx, group),
                    SlotEvent::Missed(slots) => self.counters.slots_missed += slots,
                }
            }
        }
        self.set_timeout(cx.now);
    }

    fn set_timeout(&mut self, now: Instant) {
        let due = self.groups.iter().map(|group| group.slots.due()).min();
        let ports = self.groups.iter().flat_map(|group| &group.ports);
        let opens = ports.map(|port| port.opens).filter(|opens| *opens > now).min();
        let closing = self.places().filter_map(|place| self.closing(now, place)).min();
        self.timeout = due.into_iter().chain(opens).chain(closing).min().unwrap_or(Instant::MAX);
    }

    /// The places of all ports: group and port.
    fn places(&self) -> impl Iterator<Item = (usize, usize)> {
        let groups = self.groups.iter().enumerate();
        groups.flat_map(|(group, it)| (0..it.ports.len()).map(move |port| (group, port)))
    }

    fn count_drop(&mut self, packet: Packet, cause: DropCause) {
        *self.drops.entry(cause).or_default() += 1;
        if self.copies.has_ended(packet.id) {
            self.up.push_back(PacketUp::Dropped { id: packet.id, cause });
        }
    }

    /// Reports packets that have ended to the layer above.
    fn end(&mut self, done: Vec<PacketDone>) {
        let ended = self.ended(done);
        self.up.extend(ended.into_iter().map(PacketUp::Done));
    }

    /// All packets that end together with these numbered ones: their riders, the packets that were
    /// spread over bundles, and broadcasts whose last copy has ended.
    fn ended(&mut self, mut done: Vec<PacketDone>) -> Vec<PacketDone> {
        for index in 0..done.len() {
            done.extend(self.riders.end(&done[index]));
        }
        let mut ended = Vec::with_capacity(done.len());
        done.into_iter().for_each(|done| self.parts.end(done, &mut ended));
        ended.retain(|done| self.copies.has_ended(done.id));
        ended
    }

    /// The neighbours of a radio that are up.
    fn all_by(&self, radio: RadioId) -> impl Iterator<Item = &Peer> {
        self.peers.iter().filter(move |peer| peer.spec.radio == radio && peer.is_up)
    }

    /// Drops the copies of broadcasts that wait for a neighbour that is gone: they would be useless
    /// when it is back, and until then they would take the room of other packets.
    fn drop_copies(&mut self, index: usize) {
        let copies = &self.copies;
        let gone = self.peers[index].queue.remove_all(|packet| copies.is_one(packet.id));
        gone.into_iter().for_each(|packet| self.count_drop(packet, DropCause::NoRoute));
    }

    /// Drops what has waited too long for a neighbour that is gone: when it is back it needs recent
    /// packets, and those of an old call or video would be sent first. Packets that were already
    /// sent once stay. TCP packets stay longer: with them TCP continues at once, whereas its own
    /// retransmission timer may be as long as the outage.
    fn expire(&mut self, now: Instant, index: usize) {
        let peer = &mut self.peers[index];
        if peer.is_up {
            peer.expires = None;
            return;
        }
        let Some(due) = peer.expires else {
            peer.queue.mark();
            peer.expires = Some(now + GONE_AGE);
            return;
        };
        if now >= due {
            peer.expires = Some(now + GONE_AGE);
            let tcp_too = peer.heard.is_none_or(|heard| now.since(heard) > TCP_GONE_AGE);
            let expired = peer.queue.expire(tcp_too);
            expired.into_iter().for_each(|packet| self.count_drop(packet, DropCause::NoRoute));
        }
    }

    /// Sets how frames travel to and from neighbours for which this node's own radio settings do
    /// not apply. To be called before anything is sent.
    pub fn set_ways(&mut self, config: &WildConfig, ways: &[Way]) {
        for Way { peer: spec, there, back } in ways {
            let found = self.peers.iter().position(|peer| peer.spec == *spec);
            let Some(index) = found else { continue };
            let (place, all) = (self.peers[index].place, self.peers.len());
            self.port_mut(place).set_toward(index, *there, back.phy);
            let peer = new_peer(config, &self.settings, (*spec, place), there, all);
            self.peers[index] = Peer { radio: Some(Box::new(*back)), ..peer };
        }
    }

    /// Air time that a frame with `bytes` bytes of packets needs in a slot or turn in which nothing
    /// else is sent, if it also carries the longest acknowledgement.
    fn air_beside_ack(&self, index: usize, bytes: usize) -> Duration {
        let peer = &self.peers[index];
        let ack = ack_bytes(peer.sender.limit());
        let spec = self.port(peer.place).to(Toward::Many(index));
        alone(spec, HEADER_BYTES + ack + bytes) + self.settings.overhead
    }

    /// Whether a packet of `bytes` bytes fits into every slot or turn that is meant for a packet:
    /// it may have to be repeated in a shorter one than it was first sent in.
    fn fits_any_slot(&self, index: usize, bytes: usize) -> bool {
        let peer = &self.peers[index];
        let sure = self.port(peer.place).surest(&self.settings, peer.sender.limit());
        bytes <= usize::from(u16::MAX) && self.air_beside_ack(index, bytes) <= sure
    }
}

/// Longest acknowledgement of a window of `window` packets, in bytes.
fn ack_bytes(window: usize) -> usize {
    ACK_BYTES + window.div_ceil(8)
}

/// Most retransmissions that a packet itself allows; the configuration may allow fewer.
fn retries_of(packet: &Packet) -> u8 {
    match (packet.options.ack, packet.options.attempts) {
        (AckPolicy::NoAck, _) => 0,
        (AckPolicy::Normal, attempts) => attempts.unwrap_or(u8::MAX).saturating_sub(1),
    }
}

/// A new neighbour, one of `all`, to which `radio` sends.
fn new_peer(
    config: &WildConfig,
    settings: &Settings,
    (spec, place): (PeerSpec, (usize, usize)),
    radio: &RadioSpec,
    all: usize,
) -> Peer {
    let lanes = (LANES / all.max(1)).max(LEAST_LANES);
    let limits = (config.window(radio), queue(config, radio));
    let mut peer = Peer::new(spec, place, settings, limits, lanes);
    if radio.aggregates() {
        peer.sender.estimate.expect_repeats_below();
    }
    peer
}

fn place(groups: &[Group], spec: &PeerSpec) -> (usize, usize) {
    let port = |group: &Group| group.ports.iter().position(|port| port.spec.id == spec.radio);
    groups
        .iter()
        .enumerate()
        .find_map(|(index, group)| Some((index, port(group)?)))
        .expect("a neighbour on a radio of this node")
}

/// Default length of a flow's queue, in packets: four slots of full packets. A TCP flow has two
/// cycles of packets under way and waits for repetitions; with a shorter queue it leaves slots
/// empty on fast radios and where slots are long. On slow radios eight slots suffice: over four
/// nodes at 2 Mb/s, TCP stood still after its slow start for 5.4 s with 64 packets, and for 1.5 s
/// with eight slots of packets. Other flows may send many short packets at once.
fn queue(config: &WildConfig, radio: &RadioSpec) -> UsualQueue {
    let capacity = config.packets_a_slot(radio, config.slot_most(), FULL_PACKET_BYTES) as usize;
    let packets = (4 * capacity).clamp(SHORTEST_QUEUE, LONGEST_QUEUE);
    UsualQueue { packets, of_tcp: packets.min(TCP_QUEUE_SLOTS * capacity.max(1)) }
}

impl Layer for Wild {
    type Above = Packets;
    type Below = Frames;

    fn handle_rx(&mut self, cx: &mut Cx<'_>, event: FrameUp) {
        self.advance(cx);
        match event {
            FrameUp::Received(frame) => self.on_frame(cx, frame, true),
            FrameUp::Overheard(frame) => self.on_frame(cx, frame, false),
            FrameUp::Done(done) => self.on_done(cx, done),
            FrameUp::Wanted(wanted) => self.on_wanted(cx, wanted),
        }
    }

    fn poll_rx(&mut self, _cx: &mut Cx<'_>) -> Option<PacketUp> {
        self.up.pop_front()
    }

    /// Free places in the queue of the flow; for a broadcast, in the fullest queue of all
    /// neighbours; none for unknown neighbours. For a packet that drops the oldest one, that place
    /// counts as free.
    fn room(&self, lane: Lane) -> Room {
        let of = |peer: &Peer| peer.queue.room(lane.flow, lane.overflow);
        let units = match lane.to {
            Some(node) => self.peer_index(lane.radio, node).map(|index| of(&self.peers[index])),
            None => self.all_by(lane.radio).map(of).min(),
        };
        units.map_or(Room::NONE, Room::units)
    }

    fn handle_tx(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        if packet.to.is_none() {
            let to: Vec<NodeId> = self.all_by(packet.radio).map(|peer| peer.spec.node).collect();
            if to.is_empty() {
                return self.count_drop(packet, DropCause::NoRoute);
            }
            self.copies.begin(packet.id, to.len());
            for node in to {
                self.handle_tx(cx, Packet { to: Some(node), ..packet.clone() });
            }
            return;
        }
        let Some(index) = packet.to.and_then(|node| self.peer_index(packet.radio, node)) else {
            return self.count_drop(packet, DropCause::NoRoute);
        };
        if !self.fits_any_slot(index, packet.payload.len()) {
            return self.count_drop(packet, DropCause::TooLong);
        }
        self.peers[index].used = Some(cx.now);
        if let Some(packet) = self.peers[index].queue.push(packet, cx.now) {
            self.count_drop(packet, DropCause::QueueFull);
        }
    }

    fn poll_tx(&mut self, cx: &mut Cx<'_>, below: &RoomBelow<'_>) -> Option<FrameDown> {
        self.advance(cx);
        for group in 0..self.groups.len() {
            if self.groups[group].slots.phase() != Phase::Send {
                continue;
            }
            for port in 0..self.groups[group].ports.len() {
                let radio = &self.groups[group].ports[port];
                if !radio.is_open(cx.now) || radio.is_ahead(cx.now, &self.settings) {
                    continue;
                }
                if let Some(frame) = self.next_frame(cx, (group, port), below) {
                    return Some(FrameDown::Frame(frame));
                }
            }
        }
        None
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Some(self.timeout)
    }

    fn handle_timeout(&mut self, cx: &mut Cx<'_>) {
        self.advance(cx);
    }
}

impl Link for Wild {
    fn status(&self, now: Instant) -> LinkStatus {
        self.link_status(now)
    }

    fn slots(&self, now: Instant) -> Vec<(SlotStatus, Vec<NodeId>)> {
        self.slots_in_step(now)
    }
}

#[cfg(test)]
mod tests;
