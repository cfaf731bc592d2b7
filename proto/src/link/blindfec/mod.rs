//! Blind erasure coding: N frames are sent for every K packets, nothing is acknowledged, and
//! nothing adapts to the loss. Digital video links of model aircraft work this way; here it is a
//! baseline.
//!
//! The code is that of `link/wild`. A block that is not full in time is closed with a proportional
//! share of parity. The receiver delivers packets in order: what follows a gap waits until its
//! block is decoded, until the next block begins, or until a time-out.

mod receiver;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::receiver::Receiver;
use super::code::Encoder;
use super::queue::places;
use super::{AirTimes, Link, LinkStatus, NeighbourStatus, OTHER_LINK, lacks_keys};
use crate::base::{
    AccessCategory, AckPolicy, Bitrate, Cx, DropCause, Duration, EtherType, FlowId, Frame,
    FrameDone, FrameDown, FrameOutcome, FrameUp, Frames, Instant, Lane, Layer, NodeId, Packet,
    PacketDone, PacketOutcome, PacketUp, Packets, RadioId, RadioSpec, ReceivedFrame,
    ReceivedPacket, Room, RoomBelow, Seed, Seq, TxOptions, UnitId, UnitIds, named,
};
use crate::wire::blindfec::{Header, decode, encode};
use crate::wire::wild::{UnitHead, encode_unit};

/// Most neighbours that are sent to; further ones are not served. As many are remembered that were
/// heard; if there are more, the one that has been silent longest is forgotten.
const NEIGHBOURS: usize = 256;
/// Packets behind a gap wait this many times as long as a block stays open.
const PATIENCE: u64 = 2;

/// Configuration of `link/blindfec`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BlindFecConfig {
    /// Data packets of a full block (K).
    pub data_packets: u8,
    /// Frames of a full block (N), data and parity together.
    pub all_packets: u8,
    /// How long a block stays open for further packets, in milliseconds.
    pub close_ms: f64,
    /// Most packets in the queue of a radio.
    pub queue_packets: usize,
}

impl Default for BlindFecConfig {
    fn default() -> Self {
        Self { data_packets: 8, all_packets: 12, close_ms: 20.0, queue_packets: 50 }
    }
}

impl BlindFecConfig {
    /// Parity frames of a block with `packets` packets.
    fn parity(&self, packets: usize) -> usize {
        let most = usize::from(self.all_packets.saturating_sub(self.data_packets));
        (packets * most).div_ceil(usize::from(self.data_packets).max(1))
    }

    fn close(&self) -> Duration {
        Duration::from_secs_f64(self.close_ms / 1e3)
    }
}

/// The addressee of frames: a neighbour on one radio, or all of them.
type Target = (RadioId, Option<NodeId>);

/// The origin of frames: who sent over which radio, and whether to all. Broadcast blocks are
/// numbered separately.
type Source = (RadioId, NodeId, bool);

/// The link at one node.
#[derive(Debug)]
pub struct BlindFec {
    config: BlindFecConfig,
    node: NodeId,
    radios: Vec<Port>,
    waiting: VecDeque<Packet>,
    /// Frames that the layer below wants to be sent.
    wanted: VecDeque<Target>,
    senders: BTreeMap<Target, Sender>,
    receivers: BTreeMap<Source, (Receiver, Heard)>,
    /// Neighbours whose last frame belonged to another link protocol.
    strangers: BTreeSet<(RadioId, NodeId)>,
    up: VecDeque<PacketUp>,
    outstanding: VecDeque<(UnitId, Target, Option<UnitId>)>,
    ids: UnitIds,
    seed: Seed,
    incarnation: Option<u8>,
    air: AirTimes,
    counters: Counters,
    drops: BTreeMap<DropCause, u64>,
}

/// A radio, and the number of packets that wait for it.
#[derive(Clone, Copy, Debug)]
struct Port {
    id: RadioId,
    waiting: usize,
}

#[derive(Debug)]
struct Sender {
    next_block: u16,
    open: Option<(Encoder, Instant)>,
    parity: VecDeque<(Header, Bytes)>,
    /// The bit-rate that the last packet asked for: whoever hears that must hear the parity too.
    rate: Option<Bitrate>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Heard {
    at: Instant,
    bytes: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    data_sent: u64,
    parity_sent: u64,
    overheard: u64,
    malformed: u64,
}

impl BlindFec {
    /// The link at `node` with its radios.
    pub fn build(config: &BlindFecConfig, node: NodeId, radios: &[RadioSpec], seed: Seed) -> Self {
        Self {
            config: config.clone(),
            node,
            radios: radios.iter().map(|radio| Port { id: radio.id, waiting: 0 }).collect(),
            waiting: VecDeque::new(),
            wanted: VecDeque::new(),
            senders: BTreeMap::new(),
            receivers: BTreeMap::new(),
            strangers: BTreeSet::new(),
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
    fn incarnation(&mut self, now: Instant) -> u8 {
        let name = format!("node/{}/blindfec/{}", self.node.0, now.as_nanos());
        let seed = self.seed;
        *self.incarnation.get_or_insert_with(|| seed.stream(&name).next_u64() as u8)
    }

    fn on_received(&mut self, now: Instant, frame: ReceivedFrame) {
        let (from, is_own) = ((frame.radio, frame.from), frame.protocol == EtherType::FARHOP);
        if is_own && frame.payload.is_empty() {
            // It carried a message of the layer below.
            return;
        }
        let decoded = decode(&frame.payload).ok().filter(|_| is_own);
        let Some((header, unit)) = decoded else {
            self.counters.malformed += 1;
            // If a neighbour merely protects its frames, the keys (or their absence) tell.
            if frame.protocol != EtherType::SEALED && self.strangers.len() < NEIGHBOURS {
                self.strangers.insert(from);
            }
            return;
        };
        self.strangers.remove(&from);
        let key = (frame.radio, frame.from, frame.to.is_none());
        if !self.receivers.contains_key(&key) && self.receivers.len() >= 2 * NEIGHBOURS {
            let silent = self.receivers.iter().min_by_key(|(_, (_, heard))| heard.at);
            let silent = silent.map(|(key, _)| *key);
            silent.and_then(|key| self.receivers.remove(&key));
        }
        let patience = self.config.close() * PATIENCE;
        let new = || (Receiver::new(&header, patience), Heard::default());
        let (receiver, heard) = self.receivers.entry(key).or_insert_with(new);
        heard.at = now;
        let mut out = Vec::new();
        receiver.on_frame(now, &header, unit, &mut out);
        self.give_up(key, out);
    }

    fn give_up(&mut self, key: Source, out: Vec<(UnitHead, Bytes)>) {
        let (radio, from, _) = key;
        for (head, payload) in out {
            if let Some((_, heard)) = self.receivers.get_mut(&key) {
                heard.bytes += payload.len() as u64;
            }
            let (flow, protocol) = (head.flow, head.protocol);
            let (signal, rate) = (None, None);
            let packet = ReceivedPacket { radio, from, flow, protocol, payload, signal, rate };
            self.up.push_back(PacketUp::Received(packet));
        }
    }

    fn on_done(&mut self, done: FrameDone) {
        let found = self.outstanding.binary_search_by_key(&done.id, |frame| frame.0);
        let Some((_, to, packet)) = found.ok().and_then(|at| self.outstanding.remove(at)) else {
            return;
        };
        let air = self.air.of(to.0, to.1);
        *if packet.is_some() { &mut air.data } else { &mut air.coding } += done.air_time;
        let Some(id) = packet else { return };
        let outcome = match done.outcome {
            FrameOutcome::Sent | FrameOutcome::Unknown => PacketOutcome::Sent,
            FrameOutcome::TooLong => return self.drop_packet(id, DropCause::TooLong),
            _ => PacketOutcome::Failed,
        };
        let (attempts, air_time) = (done.attempts, done.air_time);
        self.up.push_back(PacketUp::Done(PacketDone { id, outcome, attempts, air_time }));
    }

    /// Closes the open block to an addressee: its parity is then due.
    fn close(&mut self, to: Target, incarnation: u8) {
        let Some(sender) = self.senders.get_mut(&to) else { return };
        let Some((block, _)) = sender.open.take() else { return };
        let k = block.len() as u8;
        let units = block.parity(self.config.parity(block.len()));
        for (place, unit) in (k..).zip(units) {
            let header = Header { incarnation, block: block.id, index: place, k: Some(k) };
            sender.parity.push_back((header, unit));
        }
    }

    /// Turns a packet into a frame and adds it to the open block.
    fn data(&mut self, now: Instant, packet: Packet) -> Frame {
        let incarnation = self.incarnation(now);
        let to = (packet.radio, packet.to);
        let new = || Sender { next_block: 0, open: None, parity: VecDeque::new(), rate: None };
        let sender = self.senders.entry(to).or_insert_with(new);
        sender.rate = packet.options.rate;
        if sender.open.is_none() {
            sender.open = Some((Encoder::new(sender.next_block), now));
            sender.next_block = sender.next_block.wrapping_add(1);
        }
        let (block, _) = sender.open.as_mut().expect("it is open now");
        let index = block.len() as u8;
        let (flow, protocol) = (packet.flow, packet.protocol);
        let head = UnitHead { seq: Seq(index.into()), flow, flow_seq: 0, protocol };
        block.push(&head, &packet.payload);
        let header = Header { incarnation, block: block.id, index, k: None };
        if block.len() >= usize::from(self.config.data_packets) {
            self.close(to, incarnation);
        }
        self.counters.data_sent += 1;
        let payload = encode(&header, &encode_unit(&head, &packet.payload));
        self.give(to, payload, Some(packet.id), packet.options)
    }

    fn give(
        &mut self,
        (radio, to): Target,
        payload: Bytes,
        packet: Option<UnitId>,
        options: TxOptions,
    ) -> Frame {
        let id = self.ids.next_id();
        self.outstanding.push_back((id, (radio, to), packet));
        let options = TxOptions {
            // All in one category: frames of a later block must not overtake those of an earlier
            // one.
            access: AccessCategory::default(),
            ack: AckPolicy::NoAck,
            attempts: Some(1),
            ..options
        };
        let flow = if payload.is_empty() { FlowId::CONTROL } else { FlowId(0) };
        Frame { id, radio, to, flow, protocol: EtherType::FARHOP, payload, options }
    }

    /// Packets for a neighbour without keys may take half of a queue, so that others have room.
    fn drop_without_keys(&mut self, below: &RoomBelow<'_>) {
        let is_stuck = |packet: &Packet| packet.to.is_some() && lacks_keys(below, packet.lane());
        for index in 0..self.radios.len() {
            let Port { id, waiting } = self.radios[index];
            let first = self.waiting.iter().position(|packet| packet.radio == id);
            let has_many = 2 * waiting > self.config.queue_packets;
            if let Some(at) = first.filter(|at| has_many && is_stuck(&self.waiting[*at])) {
                let packet = self.take(at);
                self.drop_packet(packet.id, DropCause::QueueFull);
            }
        }
    }

    /// Removes a packet from the queue.
    fn take(&mut self, at: usize) -> Packet {
        let packet = self.waiting.remove(at).expect("it waits there");
        let port = self.radios.iter_mut().find(|port| port.id == packet.radio);
        port.expect("packets wait for radios that there are").waiting -= 1;
        packet
    }

    fn drop_packet(&mut self, id: UnitId, cause: DropCause) {
        *self.drops.entry(cause).or_default() += 1;
        self.up.push_back(PacketUp::Dropped { id, cause });
    }

    fn due(&self) -> Instant {
        let close = self.config.close();
        let open = self.senders.values().filter_map(|sender| sender.open.as_ref());
        let closes = open.map(|(_, opened)| *opened + close);
        let waits = self.receivers.values().map(|(receiver, _)| receiver.due());
        closes.chain(waits).min().unwrap_or(Instant::MAX)
    }
}

fn lane((radio, to): Target) -> Lane {
    Lane { radio, to, ..Lane::default() }
}

impl Layer for BlindFec {
    type Above = Packets;
    type Below = Frames;

    fn handle_rx(&mut self, cx: &mut Cx<'_>, event: FrameUp) {
        match event {
            FrameUp::Received(frame) => self.on_received(cx.now, frame),
            FrameUp::Overheard(_) => self.counters.overheard += 1,
            FrameUp::Done(done) => self.on_done(done),
            FrameUp::Wanted(wanted) => {
                let target = (wanted.radio, Some(wanted.to));
                if !self.wanted.contains(&target) && self.wanted.len() < NEIGHBOURS {
                    self.wanted.push_back(target);
                }
            }
        }
    }

    fn poll_rx(&mut self, _cx: &mut Cx<'_>) -> Option<PacketUp> {
        self.up.pop_front()
    }

    fn room(&self, lane: Lane) -> Room {
        let port = self.radios.iter().find(|port| port.id == lane.radio);
        match port.filter(|_| lane.to != Some(self.node)) {
            Some(port) => {
                let limit = self.config.queue_packets;
                let here = self.waiting.iter().filter(|packet| packet.radio == lane.radio);
                let others = || here.filter(|packet| !packet.options.overflow.waits()).count();
                Room::units(places(limit, port.waiting, others, lane))
            }
            None => Room::NONE,
        }
    }

    fn handle_tx(&mut self, _cx: &mut Cx<'_>, packet: Packet) {
        let to = (packet.radio, packet.to);
        let is_served = self.senders.contains_key(&to) || self.senders.len() < NEIGHBOURS;
        let has_room = !self.room(packet.lane()).is_none();
        let port = self.radios.iter_mut().find(|port| port.id == packet.radio);
        let Some(port) = port.filter(|_| is_served) else {
            return self.drop_packet(packet.id, DropCause::NoRoute);
        };
        if !has_room {
            return self.drop_packet(packet.id, DropCause::QueueFull);
        }
        if packet.payload.len() > usize::from(u16::MAX) {
            return self.drop_packet(packet.id, DropCause::TooLong);
        }
        port.waiting += 1;
        self.waiting.push_back(packet);
    }

    fn poll_tx(&mut self, cx: &mut Cx<'_>, below: &RoomBelow<'_>) -> Option<FrameDown> {
        let has_room = |to: &Target| !below(lane(*to)).is_none();
        let control = |to: &Target| Lane { flow: FlowId::CONTROL, ..lane(*to) };
        if let Some(at) = self.wanted.iter().position(|to| !below(control(to)).is_none()) {
            let to = self.wanted.remove(at)?;
            return Some(FrameDown::Frame(self.give(to, Bytes::new(), None, TxOptions::default())));
        }
        let is_due =
            |(to, sender): &(&Target, &mut Sender)| !sender.parity.is_empty() && has_room(to);
        if let Some((to, sender)) = self.senders.iter_mut().find(is_due) {
            let (to, (header, unit)) = (*to, sender.parity.pop_front()?);
            let options = TxOptions { rate: sender.rate, ..TxOptions::default() };
            self.counters.parity_sent += 1;
            let payload = encode(&header, &unit);
            return Some(FrameDown::Frame(self.give(to, payload, None, options)));
        }
        let may_go = |packet: &Packet| {
            let access = AccessCategory::default();
            !below(Lane { access, ..packet.lane() }).is_none()
        };
        let Some(at) = self.waiting.iter().position(may_go) else {
            self.drop_without_keys(below);
            return None;
        };
        let packet = self.take(at);
        Some(FrameDown::Frame(self.data(cx.now, packet)))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Some(self.due()).filter(|due| *due < Instant::MAX)
    }

    fn handle_timeout(&mut self, cx: &mut Cx<'_>) {
        let (now, close) = (cx.now, self.config.close());
        let incarnation = self.incarnation(now);
        let is_due = |sender: &Sender| {
            sender.open.as_ref().is_some_and(|(_, opened)| *opened + close <= now)
        };
        let due: Vec<Target> =
            self.senders.iter().filter(|(_, s)| is_due(s)).map(|(to, _)| *to).collect();
        due.into_iter().for_each(|to| self.close(to, incarnation));
        let keys: Vec<Source> = self.receivers.keys().copied().collect();
        for key in keys {
            let mut out = Vec::new();
            if let Some((receiver, _)) = self.receivers.get_mut(&key) {
                receiver.on_timeout(now, &mut out);
            }
            self.give_up(key, out);
        }
    }
}

impl Link for BlindFec {
    fn heeds_overheard(&self) -> bool {
        false
    }

    fn status(&self, now: Instant) -> LinkStatus {
        let sum = |of: fn(&Receiver) -> u64| self.receivers.values().map(|(r, _)| of(r)).sum();
        let mut heard: BTreeMap<(RadioId, NodeId), Option<Heard>> =
            self.strangers.iter().map(|from| (*from, None)).collect();
        for ((radio, node, _), (_, part)) in &self.receivers {
            let whole = heard.entry((*radio, *node)).or_default().get_or_insert_default();
            *whole = Heard { at: whole.at.max(part.at), bytes: whole.bytes + part.bytes };
        }
        let neighbour = |((radio, node), heard): ((RadioId, NodeId), Option<Heard>)| {
            let is_stranger = self.strangers.contains(&(radio, node));
            NeighbourStatus {
                kind: None,
                node,
                radio,
                up: !is_stranger,
                heard_ago: heard.map(|heard| now.since(heard.at)),
                sync_error_ns: None,
                loss: None,
                loss_so_far: None,
                coding_rate: f64::from(self.config.all_packets)
                    / f64::from(self.config.data_packets)
                    - 1.0,
                has_bursts: None,
                classes: Vec::new(),
                queue_packets: self.waiting.iter().filter(|p| p.to == Some(node)).count(),
                sent_bytes: 0,
                received_bytes: heard.map_or(0, |heard| heard.bytes),
                signal_dbm: None,
                refused: is_stranger.then(|| OTHER_LINK.into()),
            }
        };
        LinkStatus {
            kind: "blindfec".into(),
            slots: Vec::new(),
            neighbours: heard.into_iter().map(neighbour).collect(),
            air: self.air.clone(),
            counters: named([
                ("data_sent", self.counters.data_sent),
                ("coded_sent", self.counters.parity_sent),
                ("decoded", sum(|receiver| receiver.decoded)),
                ("late", sum(|receiver| receiver.late)),
                ("malformed", self.counters.malformed + sum(|receiver| receiver.malformed)),
                ("overheard", self.counters.overheard),
            ]),
            drops: self.drops.clone(),
        }
    }
}
