//! LL-HARQ and LL-ARQ: a packet is cut into units, and what is lost of them is made up for by
//! parity, in as many units as are likely to be lost and once more on demand (LL-HARQ), or by
//! sending units again (LL-ARQ, a baseline). `loss-tolerant.md` 3 and 4.
//!
//! One unit is one frame: on a wire they stand back to back as on the paper's link, and a radio
//! loses each by itself, in one TXOP where it has them. Units of one frame with checksums of their
//! own would spare preambles, but need a card that hands up damaged frames. A radio is therefore
//! better served by fewer and larger units than the 20 of the paper.
//!
//! Differs from the sheet: what is reported is not a block but a burst, by its number, so that the
//! sender learns of a burst of which nothing came as soon as of any other; reports are told four
//! times in all, and a sender that misses one asks (a *probe*). Where frames are protected the packet
//! is sealed before it is cut ([`Cx::seal`]), and what does not open when it is complete was forged
//! in part and is asked for anew.

mod config;
mod estimate;
mod receiver;
mod sender;
mod status;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;

pub use config::{ArqConfig, HarqConfig, Resend, Rfec, Sigma};

use self::config::Settings;
use self::receiver::Receiver;
use self::sender::{Outgoing, Sender};
use self::status::Counters;
use super::queue::{QueueConfig, Red, Verdict};
use super::{AirShares, bare_packet};
use crate::base::{
    AckPolicy, Cover, Cx, Dbm, DropCause, Duration, EtherType, FlowId, Frame, FrameDone, FrameDown,
    FrameOutcome, FrameUp, Frames, Instant, Lane, Layer, NodeId, Packet, PacketDone, PacketOutcome,
    PacketUp, Packets, RadioId, RadioSpec, ReceivedFrame, ReceivedPacket, Room, RoomBelow, Seed,
    TxOptions, UnitId, UnitIds, Wanted,
};
use crate::wire::harq::{
    Decoded, UNIT_HEADER_BYTES, decode, encode_feedback, encode_probe, encode_unit, is_carried,
};
use crate::wire::ip::{self, Ecn};

/// Neighbours that are sent to or heard; those beyond are not served.
const NEIGHBOURS: usize = 256;

/// The whole number nearest to `near` whose lower half is `number`.
fn expand(number: u32, near: u64) -> u64 {
    near.wrapping_add_signed(i64::from(number.wrapping_sub(near as u32) as i32))
}

/// A neighbour of one radio.
type Key = (RadioId, NodeId);

/// The link at one node.
#[derive(Debug)]
pub struct Harq {
    kind: &'static str,
    settings: Settings,
    limit: usize,
    node: NodeId,
    radios: Vec<RadioQueue>,
    peers: BTreeMap<Key, Peer>,
    /// Neighbours to whom there is something to say beside new packets.
    busy: BTreeSet<Key>,
    up: VecDeque<PacketUp>,
    outstanding: VecDeque<(UnitId, Given)>,
    ids: UnitIds,
    seed: Seed,
    incarnation: Option<u16>,
    air: AirShares,
    counters: Counters,
    drops: BTreeMap<DropCause, u64>,
}

#[derive(Debug)]
struct RadioQueue {
    radio: RadioId,
    waiting: VecDeque<Packet>,
    red: Option<Red>,
    /// The burst that is going out.
    burst: Option<(NodeId, u64)>,
}

#[derive(Debug)]
struct Peer {
    sender: Sender,
    receiver: Option<Receiver>,
    wants_carrier: bool,
    heard: Option<Instant>,
    signal: Option<Dbm>,
}

/// What a frame that a radio has was for.
#[derive(Clone, Copy, Debug)]
enum Given {
    Unit {
        to: Key,
        burst: u64,
        use_of_air: UseOfAir,
    },
    /// A packet for all.
    Packet(UnitId),
    Control,
}

#[derive(Clone, Copy, Debug)]
enum UseOfAir {
    Data,
    Parity,
    Repair,
}

impl Harq {
    /// LL-HARQ at `node` with its radios.
    pub fn build(config: &HarqConfig, node: NodeId, radios: &[RadioSpec], seed: Seed) -> Self {
        let queue = (config.queue_packets, &config.queue);
        Self::new("harq", config.into(), queue, node, radios, seed)
    }

    /// LL-ARQ at `node` with its radios.
    pub fn build_arq(config: &ArqConfig, node: NodeId, radios: &[RadioSpec], seed: Seed) -> Self {
        let queue = (config.queue_packets, &config.queue);
        Self::new("arq", config.into(), queue, node, radios, seed)
    }

    fn new(
        kind: &'static str,
        settings: Settings,
        (limit, queue): (usize, &QueueConfig),
        node: NodeId,
        radios: &[RadioSpec],
        seed: Seed,
    ) -> Self {
        let red = |radio: RadioId| match queue {
            QueueConfig::DropTail => None,
            QueueConfig::Red(red) => {
                let name = format!("node/{}/red/{}", node.0, radio.0);
                Some(Red::build(*red, seed.stream(&name)))
            }
        };
        let queue = |spec: &RadioSpec| RadioQueue {
            radio: spec.id,
            waiting: VecDeque::new(),
            red: red(spec.id),
            burst: None,
        };
        Self {
            kind,
            settings,
            limit,
            node,
            radios: radios.iter().map(queue).collect(),
            peers: BTreeMap::new(),
            busy: BTreeSet::new(),
            up: VecDeque::new(),
            outstanding: VecDeque::new(),
            ids: UnitIds::default(),
            seed,
            incarnation: None,
            air: AirShares::default(),
            counters: Counters::default(),
            drops: BTreeMap::new(),
        }
    }

    /// Tells this run of the node from those before it.
    fn incarnation(&mut self, now: Instant) -> u16 {
        let name = format!("node/{}/harq/{}", self.node.0, now.as_nanos());
        let seed = self.seed;
        *self.incarnation.get_or_insert_with(|| seed.stream(&name).next_u64() as u16)
    }

    fn peer(&mut self, key: Key) -> Option<&mut Peer> {
        if !self.peers.contains_key(&key) && self.peers.len() >= NEIGHBOURS {
            return None;
        }
        let settings = self.settings;
        let new = || Peer {
            sender: Sender::new(settings),
            receiver: None,
            wants_carrier: false,
            heard: None,
            signal: None,
        };
        Some(self.peers.entry(key).or_insert_with(new))
    }

    fn on_received(&mut self, cx: &mut Cx<'_>, frame: ReceivedFrame) {
        let (now, key) = (cx.now, (frame.radio, frame.from));
        let Some(peer) = self.peer(key) else { return };
        (peer.heard, peer.signal) = (Some(now), frame.signal.or(peer.signal));
        if frame.to.is_none() {
            return self.up.push_back(bare_packet(frame));
        }
        let decoded = match frame.protocol {
            EtherType::FARHOP => decode(&frame.payload).ok(),
            _ => None,
        };
        match decoded {
            None => self.counters.malformed += 1,
            Some((incarnation, Decoded::Feedback(reports))) => {
                if self.incarnation != Some(incarnation) {
                    self.counters.other_incarnation += 1;
                    return;
                }
                let mut done = Vec::new();
                if let Some(peer) = self.peers.get_mut(&key) {
                    peer.sender.on_feedback(now, &reports, &mut done);
                }
                self.finish(key, done);
            }
            Some((incarnation, decoded)) => self.on_units(cx, key, incarnation, decoded, &frame),
        }
    }

    /// Takes a unit or a probe.
    fn on_units(
        &mut self,
        cx: &mut Cx<'_>,
        key: Key,
        incarnation: u16,
        decoded: Decoded,
        frame: &ReceivedFrame,
    ) {
        let Some(peer) = self.peers.get_mut(&key) else { return };
        let receiver = peer.receiver.get_or_insert_with(|| Receiver::new(incarnation));
        if !receiver.accepts(cx.now, incarnation) {
            self.counters.other_incarnation += 1;
            return;
        }
        match decoded {
            Decoded::Unit(unit, body) => {
                receiver.on_unit(cx, key.1, (&unit, body), frame.started);
            }
            Decoded::Probe(probe) => receiver.on_probe(cx.now, &probe),
            Decoded::Feedback(_) => {}
        }
        if receiver.owes_feedback() {
            self.busy.insert(key);
        }
        self.give_up(key);
    }

    /// Hands up what a neighbour's packets have become.
    fn give_up(&mut self, key: Key) {
        let Some(peer) = self.peers.get_mut(&key) else { return };
        let Some(receiver) = &mut peer.receiver else { return };
        while let Some((protocol, payload)) = receiver.poll() {
            let ((radio, from), signal) = (key, peer.signal);
            let flow = FlowId(0);
            let packet =
                ReceivedPacket { radio, from, flow, protocol, payload, signal, rate: None };
            self.up.push_back(PacketUp::Received(packet));
        }
    }

    fn finish(&mut self, key: Key, done: Vec<PacketDone>) {
        self.up.extend(done.into_iter().map(PacketUp::Done));
        self.busy.insert(key);
    }

    fn on_done(&mut self, now: Instant, done: FrameDone) {
        let found = self.outstanding.binary_search_by_key(&done.id, |frame| frame.0);
        let Some((_, given)) = found.ok().and_then(|at| self.outstanding.remove(at)) else {
            return;
        };
        let is_sent = !matches!(done.outcome, FrameOutcome::Late | FrameOutcome::Cancelled);
        self.counters.frames_not_sent += u64::from(!is_sent);
        let share = match given {
            Given::Unit { use_of_air: UseOfAir::Data, .. } | Given::Packet(_) => &mut self.air.data,
            Given::Unit { use_of_air: UseOfAir::Parity, .. } => &mut self.air.coding,
            Given::Unit { use_of_air: UseOfAir::Repair, .. } => &mut self.air.retransmission,
            Given::Control => &mut self.air.acknowledgement,
        };
        *share += done.air_time;
        match given {
            Given::Unit { to, burst, .. } => {
                if let Some(peer) = self.peers.get_mut(&to) {
                    peer.sender.on_unit_done(now, burst, done.air_time);
                }
            }
            Given::Packet(id) => {
                let outcome = if is_sent { PacketOutcome::Sent } else { PacketOutcome::Failed };
                let (attempts, air_time) = (done.attempts, done.air_time);
                self.up.push_back(PacketUp::Done(PacketDone { id, outcome, attempts, air_time }));
            }
            Given::Control => {}
        }
    }

    fn on_wanted(&mut self, wanted: Wanted) {
        let key = (wanted.radio, wanted.to);
        if let Some(peer) = self.peer(key) {
            peer.wants_carrier = true;
            self.busy.insert(key);
        }
    }

    fn count_drop(&mut self, id: UnitId, cause: DropCause) {
        *self.drops.entry(cause).or_default() += 1;
        self.up.push_back(PacketUp::Dropped { id, cause });
    }

    fn give(&mut self, key: Key, given: Given, payload: Bytes, options: TxOptions) -> Frame {
        let (radio, to) = (key.0, Some(key.1));
        let id = self.ids.next_id();
        self.outstanding.push_back((id, given));
        let (flow, protocol) = (FlowId(0), EtherType::FARHOP);
        Frame { id, radio, to, flow, protocol, payload, options }
    }

    /// What a layer below wants to say, or feedback.
    fn urgent(&mut self, below: &RoomBelow<'_>) -> Option<Frame> {
        let keys: Vec<Key> = self.busy.iter().copied().collect();
        for key in keys {
            let Some(peer) = self.peers.get_mut(&key) else { continue };
            let control = Lane { flow: FlowId::CONTROL, ..lane(key) };
            if peer.wants_carrier && !below(control).is_none() {
                peer.wants_carrier = false;
                let mut frame = self.give(key, Given::Control, Bytes::new(), TxOptions::default());
                frame.flow = FlowId::CONTROL;
                return Some(frame);
            }
            let has_room = !below(lane(key)).is_none();
            let receiver = peer.receiver.as_mut().filter(|r| has_room && r.owes_feedback());
            if let Some(receiver) = receiver {
                let (incarnation, reports) = (receiver.incarnation, receiver.feedback());
                if !reports.is_empty() {
                    self.counters.feedback_sent += 1;
                    return Some(self.control(key, encode_feedback(incarnation, &reports)));
                }
            }
            let sender = &peer.sender;
            let owes = peer.receiver.as_ref().is_some_and(Receiver::owes_feedback);
            if !owes && !peer.wants_carrier && !sender.owes_probe() && !sender.may_repair() {
                self.busy.remove(&key);
            }
        }
        None
    }

    /// Feedback or a probe: repeated by the card where it can.
    fn control(&mut self, key: Key, payload: Bytes) -> Frame {
        let overhead = payload.len() as u16;
        let options = TxOptions { cover: Cover::Tagged, overhead, ..TxOptions::default() };
        self.give(key, Given::Control, payload, options)
    }

    /// The next frame of a radio: of the burst that goes out, else a probe, a burst that repairs,
    /// a new packet.
    fn next_frame(
        &mut self,
        cx: &Cx<'_>,
        radio: usize,
        incarnation: u16,
        below: &RoomBelow<'_>,
    ) -> Option<Frame> {
        if let Some((to, burst)) = self.radios[radio].burst {
            let key = (self.radios[radio].radio, to);
            let options = self.peers.get(&key).and_then(|peer| peer.sender.options(burst));
            if let Some(options) = options {
                let lane = Lane { access: options.access, ..lane(key) };
                return (!below(lane).is_none()).then(|| self.unit(key, burst, incarnation))?;
            }
            self.radios[radio].burst = None;
        }
        let id = self.radios[radio].radio;
        let here: Vec<Key> = self.busy.iter().copied().filter(|key| key.0 == id).collect();
        for key in here {
            let Some(peer) = self.peers.get_mut(&key) else { continue };
            if below(lane(key)).is_none() {
                continue;
            }
            if peer.sender.may_repair() {
                let burst = peer.sender.repair()?;
                self.radios[radio].burst = Some((key.1, burst));
                return self.unit(key, burst, incarnation);
            }
            if peer.sender.owes_probe() {
                let probe = encode_probe(incarnation, &peer.sender.probe());
                self.counters.probes_sent += 1;
                return Some(self.control(key, probe));
            }
        }
        self.next_packet(cx, radio, incarnation, below)
    }

    /// Begins the first packet that may go.
    fn next_packet(
        &mut self,
        cx: &Cx<'_>,
        radio: usize,
        incarnation: u16,
        below: &RoomBelow<'_>,
    ) -> Option<Frame> {
        let may_go = |packet: &Packet| {
            let key = packet.to.map(|to| (packet.radio, to));
            let peer = key.and_then(|key| self.peers.get(&key));
            let lane = Lane { flow: FlowId(0), ..packet.lane() };
            !below(lane).is_none() && peer.is_none_or(|peer| peer.sender.may_start())
        };
        let at = self.radios[radio].waiting.iter().position(may_go)?;
        let queue = &mut self.radios[radio];
        let packet = queue.waiting.remove(at)?;
        let length = queue.waiting.len();
        if let Some(red) = &mut queue.red {
            red.on_left(cx.now, length);
        }
        let Some(to) = packet.to else { return Some(self.whole(packet)) };
        let key = (packet.radio, to);
        let sealed = cx.seal(to, packet.protocol, &packet.payload);
        let (Some(data), Some(peer)) = (sealed, self.peer(key)) else {
            self.counters.not_sealed += 1;
            let (id, outcome) = (packet.id, PacketOutcome::Failed);
            let air_time = Duration::ZERO;
            let done = PacketDone { id, outcome, attempts: 0, air_time };
            self.up.push_back(PacketUp::Done(done));
            return self.next_packet(cx, radio, incarnation, below);
        };
        let burst = peer.sender.start(&packet, data);
        self.radios[radio].burst = Some((to, burst));
        self.unit(key, burst, incarnation)
    }

    /// A packet for all goes as it is: nobody could report what is missing.
    fn whole(&mut self, packet: Packet) -> Frame {
        let id = self.ids.next_id();
        self.outstanding.push_back((id, Given::Packet(packet.id)));
        Frame {
            id,
            radio: packet.radio,
            to: None,
            flow: FlowId(0),
            protocol: packet.protocol,
            payload: packet.payload,
            options: packet.options,
        }
    }

    fn unit(&mut self, key: Key, burst: u64, incarnation: u16) -> Option<Frame> {
        let Outgoing { header, body, options } =
            self.peers.get_mut(&key)?.sender.next_unit(burst)?;
        let bytes = body.len() as u64;
        let (sum, use_of_air) = match header.is_first {
            true if header.index < header.k => (&mut self.counters.data_bytes, UseOfAir::Data),
            true => (&mut self.counters.pfec_bytes, UseOfAir::Parity),
            false => (&mut self.counters.rfec_bytes, UseOfAir::Repair),
        };
        *sum += bytes;
        self.counters.units_sent += 1;
        let options = TxOptions {
            ack: AckPolicy::NoAck,
            attempts: Some(1),
            cover: Cover::Tagged,
            overhead: UNIT_HEADER_BYTES as u16,
            ..options
        };
        let given = Given::Unit { to: key, burst, use_of_air };
        Some(self.give(key, given, encode_unit(incarnation, &header, &body), options))
    }
}

fn lane((radio, to): Key) -> Lane {
    Lane { radio, to: Some(to), ..Lane::default() }
}

impl Layer for Harq {
    type Above = Packets;
    type Below = Frames;

    fn handle_rx(&mut self, cx: &mut Cx<'_>, event: FrameUp) {
        match event {
            FrameUp::Received(frame) => self.on_received(cx, frame),
            FrameUp::Overheard(_) => self.counters.overheard += 1,
            FrameUp::Done(done) => self.on_done(cx.now, done),
            FrameUp::Wanted(wanted) => self.on_wanted(wanted),
        }
    }

    fn poll_rx(&mut self, _cx: &mut Cx<'_>) -> Option<PacketUp> {
        self.up.pop_front()
    }

    fn room(&self, lane: Lane) -> Room {
        let queue = self.radios.iter().find(|queue| queue.radio == lane.radio);
        match queue.filter(|_| lane.to != Some(self.node)) {
            Some(queue) => Room::units(self.limit.saturating_sub(queue.waiting.len())),
            None => Room::NONE,
        }
    }

    fn handle_tx(&mut self, cx: &mut Cx<'_>, mut packet: Packet) {
        let has_room = !self.room(packet.lane()).is_none();
        let is_served = packet.to.is_none_or(|to| self.peer((packet.radio, to)).is_some());
        let queue = self.radios.iter_mut().find(|queue| queue.radio == packet.radio);
        let Some(queue) = queue.filter(|_| is_served) else {
            return self.count_drop(packet.id, DropCause::NoRoute);
        };
        if !is_carried(packet.protocol) {
            return self.count_drop(packet.id, DropCause::Malformed);
        }
        if packet.payload.len() > usize::from(u16::MAX) {
            return self.count_drop(packet.id, DropCause::TooLong);
        }
        let length = queue.waiting.len();
        let verdict = match &mut queue.red {
            Some(red) => red.judge(cx.now, length, &packet.payload),
            None => Verdict::Take,
        };
        if verdict == Verdict::Drop || !has_room {
            return self.count_drop(packet.id, DropCause::QueueFull);
        }
        if verdict == Verdict::Mark {
            packet.payload = ip::with_ecn(packet.payload, Ecn::Ce);
        }
        queue.waiting.push_back(packet);
    }

    fn poll_tx(&mut self, cx: &mut Cx<'_>, below: &RoomBelow<'_>) -> Option<FrameDown> {
        let incarnation = self.incarnation(cx.now);
        if let Some(frame) = self.urgent(below) {
            return Some(FrameDown::Frame(frame));
        }
        let mut radios = 0..self.radios.len();
        let frame = radios.find_map(|radio| self.next_frame(cx, radio, incarnation, below))?;
        Some(FrameDown::Frame(frame))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let due = |peer: &Peer| {
            let receiver = peer.receiver.as_ref().and_then(Receiver::due);
            [peer.sender.due(), receiver].into_iter().flatten().min()
        };
        self.peers.values().filter_map(due).min()
    }

    fn handle_timeout(&mut self, cx: &mut Cx<'_>) {
        let keys: Vec<Key> = self.peers.keys().copied().collect();
        for key in keys {
            let Some(peer) = self.peers.get_mut(&key) else { continue };
            let mut done = Vec::new();
            peer.sender.on_timeout(cx.now, &mut done);
            if let Some(receiver) = &mut peer.receiver {
                receiver.on_timeout(cx.now);
            }
            self.finish(key, done);
            self.give_up(key);
        }
    }
}

#[cfg(test)]
mod tests;
