//! LL-HARQ and LL-ARQ: a packet is cut into units, and lost units are repaired. LL-HARQ sends
//! parity: first as many units as are likely to be lost, and more on demand. LL-ARQ, a baseline,
//! sends units again. `loss-tolerant.md` 3 and 4.
//!
//! Each unit is one frame. On a wire, frames follow each other without gaps, as on the paper's
//! link. A radio loses each frame independently, and sends them in one TXOP if it has TXOPs.
//! Several units with separate checksums in one frame would save preambles, but need a card that
//! delivers damaged frames. On a radio, fewer and larger units than the 20 of the paper are
//! therefore better.
//!
//! This differs from the sheet in what is reported: not blocks but bursts, by their numbers, so
//! that the sender learns of a burst that was lost entirely as soon as of any other. Each report is
//! sent four times in all, and a sender that misses one asks for it (a *probe*). Where frames are
//! protected, the packet is sealed before it is cut ([`Cx::seal`]). A complete packet that does not
//! open was forged in part, and its units are requested again.

mod config;
mod estimate;
mod receiver;
mod send;
mod sender;
mod status;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub use config::{ArqConfig, HarqConfig, Resend, Rfec, Sigma};

use self::config::Settings;
use self::receiver::Receiver;
use self::sender::Sender;
use self::status::Counters;
use super::queue::{QueueConfig, Red, Verdict, free};
use super::{AirTimes, bare_packet};
use crate::base::{
    Cx, Dbm, DropCause, EtherType, FlowId, FrameDone, FrameDown, FrameOutcome, FrameUp, Frames,
    Instant, Lane, Layer, NodeId, Packet, PacketDone, PacketOutcome, PacketUp, Packets, RadioId,
    RadioSpec, ReceivedFrame, ReceivedPacket, Room, RoomBelow, Seed, UnitId, UnitIds, Wanted,
};
use crate::wire::harq::{Decoded, decode, is_carried};
use crate::wire::ip::{self, Ecn};

/// Most neighbours that are sent to or heard; further ones are not served.
const NEIGHBOURS: usize = 256;

/// The integer closest to `near` whose lower half is `number`.
fn expand(number: u32, near: u64) -> u64 {
    near.wrapping_add_signed(i64::from(number.wrapping_sub(near as u32) as i32))
}

/// A neighbour of one radio.
type Key = (RadioId, NodeId);

/// The link at one node.
#[derive(Debug)]
pub struct Harq {
    kind: &'static str,
    limit: usize,
    node: NodeId,
    radios: Vec<RadioQueue>,
    peers: BTreeMap<Key, Peer>,
    /// Neighbours to which something other than new packets may have to be sent.
    busy: BTreeSet<Key>,
    up: VecDeque<PacketUp>,
    outstanding: VecDeque<(UnitId, (RadioId, Option<NodeId>), Given)>,
    ids: UnitIds,
    seed: Seed,
    incarnation: Option<u16>,
    air: AirTimes,
    counters: Counters,
    drops: BTreeMap<DropCause, u64>,
}

#[derive(Debug)]
struct RadioQueue {
    radio: RadioId,
    settings: Settings,
    waiting: VecDeque<Packet>,
    red: Option<Red>,
    /// The burst that is being sent.
    burst: Option<(NodeId, u64)>,
}

#[derive(Debug)]
struct Peer {
    sender: Sender,
    receiver: Option<Receiver>,
    wants_carrier: bool,
    /// The radio has a report for it; further reports wait for the next frame of feedback.
    is_reporting: bool,
    heard: Option<Instant>,
    signal: Option<Dbm>,
    /// Whether it no longer answers probes.
    is_gone: bool,
    /// Whether its last frame belonged to another link protocol.
    has_other_link: bool,
}

impl Peer {
    /// Whether nothing has been heard for so long that others should not wait because of it.
    fn is_in_the_way(&self) -> bool {
        self.is_gone || self.sender.is_in_the_way()
    }
}

/// The purpose of a frame that a radio has.
#[derive(Clone, Copy, Debug)]
enum Given {
    Unit {
        burst: u64,
        use_of_air: UseOfAir,
    },
    /// A packet for all neighbours.
    Packet(UnitId),
    Feedback,
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
        Self::new("harq", &|radio| config.over(radio), queue, (node, radios), seed)
    }

    /// LL-ARQ at `node` with its radios.
    pub fn build_arq(config: &ArqConfig, node: NodeId, radios: &[RadioSpec], seed: Seed) -> Self {
        let queue = (config.queue_packets, &config.queue);
        Self::new("arq", &|radio| config.over(radio), queue, (node, radios), seed)
    }

    fn new(
        kind: &'static str,
        settings_over: &dyn Fn(&RadioSpec) -> Settings,
        (limit, queue): (usize, &QueueConfig),
        (node, radios): (NodeId, &[RadioSpec]),
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
            settings: settings_over(spec),
            waiting: VecDeque::new(),
            red: red(spec.id),
            burst: None,
        };
        Self {
            kind,
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
            air: AirTimes::default(),
            counters: Counters::default(),
            drops: BTreeMap::new(),
        }
    }

    /// The number that tells this run of the node from earlier ones.
    fn incarnation(&mut self, now: Instant) -> u16 {
        let name = format!("node/{}/harq/{}", self.node.0, now.as_nanos());
        let seed = self.seed;
        *self.incarnation.get_or_insert_with(|| seed.stream(&name).next_u64() as u16)
    }

    fn peer(&mut self, key: Key) -> Option<&mut Peer> {
        if !self.peers.contains_key(&key) && self.peers.len() >= NEIGHBOURS {
            // Whoever was never heard or sent a packet may be there in name alone.
            let is_name = |(_, peer): &(&Key, &Peer)| peer.heard.is_none() && peer.sender.is_new();
            let name = *self.peers.iter().find(is_name)?.0;
            self.peers.remove(&name);
            self.busy.remove(&name);
        }
        let settings = self.radios.iter().find(|queue| queue.radio == key.0)?.settings;
        let new = || Peer {
            sender: Sender::new(settings),
            receiver: None,
            wants_carrier: false,
            is_reporting: false,
            heard: None,
            signal: None,
            is_gone: false,
            has_other_link: false,
        };
        Some(self.peers.entry(key).or_insert_with(new))
    }

    fn on_received(&mut self, cx: &mut Cx<'_>, frame: ReceivedFrame) {
        let (now, key) = (cx.now, (frame.radio, frame.from));
        let Some(peer) = self.peer(key) else { return };
        let is_own = frame.protocol == EtherType::FARHOP;
        let decoded = if is_own { decode(&frame.payload).ok() } else { None };
        // Broadcasts are sent unchanged. An empty frame carried a message of the layer below.
        let is_empty = is_own && frame.payload.is_empty();
        let is_known = is_empty || if frame.to.is_none() { !is_own } else { decoded.is_some() };
        peer.has_other_link = !is_known;
        if !is_known {
            self.counters.malformed += 1;
            return;
        }
        (peer.heard, peer.signal) = (Some(now), frame.signal.or(peer.signal));
        if std::mem::take(&mut peer.is_gone) {
            let (node, radio) = (frame.from, frame.radio);
            self.up.push_back(PacketUp::Neighbour { node, radio, up: true });
        }
        if frame.to.is_none() && !is_empty {
            return self.up.push_back(bare_packet(frame));
        }
        match decoded {
            None => {}
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

    /// Handles a unit or a probe.
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
        let Some(numbers) = decoded.numbers() else { return };
        if !receiver.accepts(cx, incarnation, numbers) {
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

    /// Delivers the complete packets of a neighbour to the layer above.
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
        let Some((_, to, given)) = found.ok().and_then(|at| self.outstanding.remove(at)) else {
            return;
        };
        let (is_sent, is_too_long) =
            (done.outcome.went_out(), done.outcome == FrameOutcome::TooLong);
        self.counters.frames_not_sent += u64::from(!is_sent);
        let air = self.air.of(to.0, to.1);
        let share = match given {
            Given::Unit { use_of_air: UseOfAir::Data, .. } | Given::Packet(_) => &mut air.data,
            Given::Unit { use_of_air: UseOfAir::Parity, .. } => &mut air.coding,
            Given::Unit { use_of_air: UseOfAir::Repair, .. } => &mut air.retransmission,
            Given::Feedback | Given::Control => &mut air.acknowledgement,
        };
        *share += done.air_time;
        match given {
            Given::Unit { burst, .. } => {
                let Some(key) = to.1.map(|node| (to.0, node)) else { return };
                let Some(peer) = self.peers.get_mut(&key) else { return };
                if !is_too_long {
                    return peer.sender.on_unit_done(now, burst, done.air_time);
                }
                // The radio would not accept any of its units.
                let dropped = peer.sender.drop_packet_of(burst);
                dropped.into_iter().for_each(|id| self.count_drop(id, DropCause::TooLong));
                self.busy.insert(key);
            }
            Given::Packet(id) if is_too_long => self.count_drop(id, DropCause::TooLong),
            Given::Packet(id) => {
                let outcome = if is_sent { PacketOutcome::Sent } else { PacketOutcome::Failed };
                let (attempts, air_time) = (done.attempts, done.air_time);
                self.up.push_back(PacketUp::Done(PacketDone { id, outcome, attempts, air_time }));
            }
            Given::Feedback => {
                let peer = to.1.and_then(|node| self.peers.get_mut(&(to.0, node)));
                peer.into_iter().for_each(|peer| peer.is_reporting = false);
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
        let holds_back =
            |queue: &RadioQueue| queue.red.as_ref().is_some_and(|red| red.holds_back(lane));
        match queue.filter(|queue| lane.to != Some(self.node) && !holds_back(queue)) {
            Some(queue) => {
                let free = free(self.limit, &queue.waiting, lane);
                let most = match lane.to.map(|to| (lane.radio, to)) {
                    Some(key) if self.peers.get(&key).is_some_and(Peer::is_in_the_way) => {
                        (self.limit / 2).saturating_sub(self.waiting_for(key))
                    }
                    _ => usize::MAX,
                };
                Room::units(free.min(most))
            }
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
            let cause = if has_room { DropCause::Early } else { DropCause::QueueFull };
            return self.count_drop(packet.id, cause);
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
        let reds = self.radios.iter().filter_map(|queue| queue.red.as_ref()?.due());
        self.peers.values().filter_map(due).chain(reds).min()
    }

    fn handle_timeout(&mut self, cx: &mut Cx<'_>) {
        let reds = self.radios.iter_mut().filter_map(|queue| queue.red.as_mut());
        reds.for_each(|red| red.on_timeout(cx.now));
        let keys: Vec<Key> = self.peers.keys().copied().collect();
        for key in keys {
            let Some(peer) = self.peers.get_mut(&key) else { continue };
            let mut done = Vec::new();
            if peer.sender.on_timeout(cx.now, &mut done) && !peer.is_gone {
                peer.is_gone = true;
                let (radio, node) = key;
                self.up.push_back(PacketUp::Neighbour { node, radio, up: false });
            }
            if let Some(receiver) = &mut peer.receiver {
                receiver.on_timeout(cx.now);
            }
            self.finish(key, done);
            self.give_up(key);
            self.drop_silent(key);
        }
    }
}

#[cfg(test)]
mod tests;
