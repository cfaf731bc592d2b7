//! The plain link: it gives frames directly to the chip, which does CSMA/CA and retransmits.
//!
//! It has one queue for each radio (`plain/radio`), drop-tail or RED, or one for each access
//! category if the card supports them (802.11e). It adds no header of its own. Frames in the chip
//! count as queued, so that the packets of a node never exceed its queue.

mod neighbour;
mod radio;

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::neighbour::{CALL_ATTEMPTS, Neighbour};
use self::radio::RadioQueue;
use super::queue::{QueueConfig, Red, Verdict};
use super::{AirTimes, Link, LinkStatus, NeighbourStatus, bare_packet};
use crate::base::{
    AccessCategory, AckPolicy, Cx, DropCause, EtherType, FlowId, Frame, FrameDone, FrameDown,
    FrameOutcome, FrameUp, Frames, Instant, Lane, Layer, NodeId, Packet, PacketDone, PacketOutcome,
    PacketUp, Packets, RadioId, RadioSpec, ReceivedFrame, Room, RoomBelow, Seed, TxOptions, UnitId,
    UnitIds, Wanted, named,
};
use crate::wire::ip::{self, Ecn};

/// Neighbours whose status the link keeps; further ones are served, but not listed.
const NEIGHBOURS: usize = 256;
/// Initial capacity of buffers: in a large network most never hold more.
const USUAL: usize = 1;

/// Configuration of `link/plain`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PlainConfig {
    /// Most packets in the queue of a radio; with `edca`, in the queue of each access category.
    /// Sources without a rate keep the queue full; half as many packets of other sources are then
    /// accepted beyond this limit.
    pub queue_packets: usize,
    /// Queue discipline: which packets are accepted while there is room.
    #[serde(skip_serializing_if = "QueueConfig::is_default")]
    pub queue: QueueConfig,
    /// Whether the receiving card acknowledges frames, and the sending card repeats them until it
    /// has. Otherwise each frame is sent once.
    #[serde(skip_serializing_if = "is_true")]
    pub mac_ack: bool,
}

fn is_true(flag: &bool) -> bool {
    *flag
}

impl Default for PlainConfig {
    fn default() -> Self {
        Self { queue_packets: 50, queue: QueueConfig::default(), mac_ack: true }
    }
}

/// The link at one node.
#[derive(Debug)]
pub struct Plain {
    node: NodeId,
    limit: usize,
    mac_ack: bool,
    radios: Vec<RadioQueue>,
    up: VecDeque<PacketUp>,
    outstanding: VecDeque<Outstanding>,
    /// Packets that wait to be sent a second time.
    once_more: Vec<UnitId>,
    ids: UnitIds,
    /// Sorted by their keys; there are few.
    neighbours: Vec<((NodeId, RadioId), Neighbour)>,
    air: AirTimes,
    counters: Counters,
    drops: BTreeMap<DropCause, u64>,
}

/// A frame that the chip has.
#[derive(Debug)]
struct Outstanding {
    id: UnitId,
    /// `None` for a frame that the layer below requested.
    packet: Option<UnitId>,
    to: Option<NodeId>,
    radio: RadioId,
    access: AccessCategory,
    waits: bool,
    bytes: usize,
    /// Whether the radio makes all its attempts.
    is_tried_fully: bool,
    /// A copy of the packet if it belongs to a call and is sent again after the chip has given it
    /// up.
    again: Option<Box<Packet>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    frames_sent: u64,
    frames_acked: u64,
    frames_failed: u64,
    frames_not_sent: u64,
    frames_unknown: u64,
    frames_received: u64,
    frames_overheard: u64,
    retransmissions: u64,
    unknown_done: u64,
    sent_again: u64,
    malformed_protocol: u64,
}

impl Plain {
    /// The link at `node` with its radios.
    pub fn build(config: &PlainConfig, node: NodeId, radios: &[RadioSpec], seed: Seed) -> Self {
        let queue = |spec: &RadioSpec| RadioQueue::build(config, node, spec, seed);
        Self {
            node,
            limit: config.queue_packets,
            mac_ack: config.mac_ack,
            radios: radios.iter().map(queue).collect(),
            up: VecDeque::with_capacity(USUAL),
            outstanding: VecDeque::with_capacity(USUAL),
            once_more: Vec::new(),
            ids: UnitIds::default(),
            neighbours: Vec::new(),
            air: AirTimes::default(),
            counters: Counters::default(),
            drops: BTreeMap::new(),
        }
    }

    /// Reads something of each part of the link, so that it is in the cache.
    pub(crate) fn fetch(&self) -> u64 {
        let queue = self.radios.first().map_or(0, |queue| queue.length(AccessCategory::default()));
        let neighbour = self.neighbours.first().map_or(0, |(_, neighbour)| neighbour.attempts);
        let last = self.neighbours.last().map_or(0, |(_, neighbour)| neighbour.attempts);
        let sent = self.outstanding.front().map_or(0, |frame| frame.id.0);
        let air = self.air.iter().next().map_or(0, |time| time.shares.data.as_nanos());
        let rest = self.up.len() as u64 ^ air ^ self.counters.frames_sent;
        queue as u64 ^ neighbour ^ last ^ sent ^ rest ^ self.counters.unknown_done
    }

    fn queue(&self, radio: RadioId) -> Option<&RadioQueue> {
        self.radios.iter().find(|queue| queue.radio == radio)
    }

    fn neighbour(&mut self, node: NodeId, radio: RadioId) -> Option<&mut Neighbour> {
        let key = (node, radio);
        let index = match self.neighbours.binary_search_by_key(&key, |entry| entry.0) {
            Ok(index) => index,
            Err(_) if self.neighbours.len() >= NEIGHBOURS => return None,
            Err(index) => {
                self.neighbours.reserve_exact(1);
                self.neighbours.insert(index, (key, Neighbour::default()));
                index
            }
        };
        Some(&mut self.neighbours[index].1)
    }

    fn on_received(&mut self, now: Instant, frame: ReceivedFrame) {
        self.counters.frames_received += 1;
        // An empty frame of this link contains no packet.
        let is_other = frame.protocol == EtherType::FARHOP && !frame.payload.is_empty();
        if let Some(neighbour) = self.neighbour(frame.from, frame.radio) {
            neighbour.has_other_link = is_other;
            neighbour.heard = Some(now);
            neighbour.signal = frame.signal.or(neighbour.signal);
            neighbour.received_bytes += if is_other { 0 } else { frame.payload.len() as u64 };
            if neighbour.end_failures() {
                let (node, radio) = (frame.from, frame.radio);
                self.up.push_back(PacketUp::Neighbour { node, radio, up: true });
            }
        }
        if is_other {
            self.counters.malformed_protocol += 1;
            return;
        }
        self.up.push_back(bare_packet(frame));
    }

    fn on_done(&mut self, now: Instant, done: FrameDone) {
        let Some(mut frame) = self.take_outstanding(done.id) else {
            self.counters.unknown_done += 1;
            return;
        };
        if let Some(queue) = self.radios.iter_mut().find(|queue| queue.radio == frame.radio) {
            queue.on_left(now, frame.access, frame.waits);
        }
        let outcome = self.outcome(done.outcome);
        let has_failed = outcome == PacketOutcome::Failed && done.attempts > 0;
        let goes_again = has_failed && self.goes_again(&mut frame, done.attempts);
        let repeats = u64::from(done.attempts.saturating_sub(1));
        self.counters.retransmissions += repeats;
        if done.attempts > 0 {
            let first = done.air_time / u64::from(done.attempts);
            let air = self.air.of(frame.radio, frame.to);
            air.data += first;
            air.retransmission += done.air_time.saturating_sub(first);
        }
        if let Some(neighbour) = frame.to.and_then(|to| self.neighbour(to, frame.radio)) {
            // It is unknown whether unacknowledged frames arrived.
            let is_known = outcome != PacketOutcome::Sent;
            neighbour.attempts += if is_known { u64::from(done.attempts) } else { 0 };
            neighbour.sent_bytes +=
                if outcome == PacketOutcome::Failed { 0 } else { frame.bytes as u64 };
            if outcome == PacketOutcome::Delivered {
                neighbour.delivered += 1;
                neighbour.acknowledged = Some(now);
                neighbour.end_failures();
            } else if has_failed && !goes_again {
                let is_gone = neighbour.on_failed(now, done.attempts, frame.is_tried_fully);
                // A node that does not hear this one may be sending without a pause.
                let is_other = frame.packet.is_some() && !frame.waits && frame.is_tried_fully;
                let drowned = frame.to.filter(|_| is_other && neighbour.is_drowned());
                self.up.extend(drowned.map(PacketUp::Drowned));
                self.up.extend(frame.to.filter(|_| is_gone).map(|node| PacketUp::Neighbour {
                    node,
                    radio: frame.radio,
                    up: false,
                }));
            }
        }
        let Some(id) = frame.packet else { return };
        if goes_again {
            return;
        }
        if done.outcome == FrameOutcome::TooLong {
            return self.count_drop(id, DropCause::TooLong);
        }
        let (attempts, air_time) = (done.attempts, done.air_time);
        self.up.push_back(PacketUp::Done(PacketDone { id, outcome, attempts, air_time }));
    }

    /// Queues a packet of a call again that the chip gave up: whatever spoiled all attempts may
    /// have ended. It does not do so for a neighbour that is gone, which would use up all the air
    /// time.
    fn goes_again(&mut self, frame: &mut Outstanding, attempts: u8) -> bool {
        let Some(packet) = frame.again.take() else { return false };
        let Some(to) = packet.to else { return false };
        let is_gone = self
            .neighbour(to, frame.radio)
            .is_none_or(|known| known.failures > 0 && (known.is_gone || known.delivered == 0));
        let queue = self.radios.iter_mut().find(|queue| queue.radio == frame.radio);
        let Some(queue) = queue.filter(|_| !is_gone) else { return false };
        self.once_more.push(packet.id);
        queue.on_entered(frame.access, frame.waits);
        queue.waiting.push_front(*packet);
        self.counters.sent_again += 1;
        if attempts >= CALL_ATTEMPTS {
            self.up.push_back(PacketUp::Drowned(to));
        }
        true
    }

    /// A copy of the packet if it is to be sent again after the chip has given it up.
    fn again(&mut self, packet: &Packet) -> Option<Box<Packet>> {
        let is_second = self.once_more.iter().position(|id| *id == packet.id);
        if let Some(index) = is_second {
            self.once_more.swap_remove(index);
            return None;
        }
        let TxOptions { access, attempts, .. } = packet.options;
        // Most packets are not voice, and their payloads are no longer in the cache.
        let may_be = self.mac_ack && attempts.is_none() && access == AccessCategory::Voice;
        (may_be && ip::is_of_call(&packet.payload)).then(|| Box::new(packet.clone()))
    }

    /// Frames nearly always end in their order.
    fn take_outstanding(&mut self, id: UnitId) -> Option<Outstanding> {
        if self.outstanding.front()?.id == id {
            return self.outstanding.pop_front();
        }
        let found = self.outstanding.binary_search_by_key(&id, |frame| frame.id);
        self.outstanding.remove(found.ok()?)
    }

    fn on_wanted(&mut self, wanted: Wanted) {
        let queue = self.radios.iter_mut().find(|queue| queue.radio == wanted.radio);
        let Some(queue) = queue else { return };
        if !queue.wanted.contains(&wanted.to) && queue.wanted.len() < NEIGHBOURS {
            queue.wanted.push_back(wanted.to);
        }
    }

    /// Packets for a neighbour without keys may take half of a queue, so that others have room. To
    /// be called if no queue has a packet that may be sent.
    fn drop_without_keys(&mut self, below: &RoomBelow<'_>) {
        for index in 0..self.radios.len() {
            if let Some(packet) = self.radios[index].pop_without_keys(self.limit, below) {
                self.count_drop(packet.id, DropCause::QueueFull);
            }
        }
    }

    /// A frame without a packet, before all others, to which the layer below adds its message.
    fn carrier(&mut self, below: &RoomBelow<'_>) -> Option<Frame> {
        let (flow, access) = (FlowId::CONTROL, AccessCategory::BestEffort);
        let lane = |queue: &RadioQueue, to| {
            let (radio, to) = (queue.radio, Some(to));
            Lane { radio, to, flow, access, ..Lane::default() }
        };
        let (queue, at) = self.radios.iter_mut().find_map(|queue| {
            let has_room = |to: &NodeId| !below(lane(queue, *to)).is_none();
            let at = queue.wanted.iter().position(has_room)?;
            Some((queue, at))
        })?;
        let to = queue.wanted.remove(at);
        let (id, radio) = (self.ids.next_id(), queue.radio);
        queue.on_entered(access, false);
        self.outstanding.push_back(Outstanding {
            id,
            packet: None,
            to,
            radio,
            access,
            waits: false,
            bytes: 0,
            is_tried_fully: true,
            again: None,
        });
        let (protocol, payload) = (EtherType::FARHOP, Bytes::new());
        let options = TxOptions { access, ..TxOptions::default() };
        Some(Frame { id, radio, to, flow, protocol, payload, options })
    }

    fn outcome(&mut self, outcome: FrameOutcome) -> PacketOutcome {
        let (counter, outcome) = match outcome {
            FrameOutcome::Sent => (&mut self.counters.frames_sent, PacketOutcome::Sent),
            FrameOutcome::Acked(_) => (&mut self.counters.frames_acked, PacketOutcome::Delivered),
            FrameOutcome::Failed | FrameOutcome::Nacked(_) => {
                (&mut self.counters.frames_failed, PacketOutcome::Failed)
            }
            FrameOutcome::Late | FrameOutcome::Cancelled | FrameOutcome::TooLong => {
                (&mut self.counters.frames_not_sent, PacketOutcome::Failed)
            }
            // Most likely it was sent; nothing more is known.
            FrameOutcome::Unknown => (&mut self.counters.frames_unknown, PacketOutcome::Sent),
        };
        *counter += 1;
        outcome
    }

    fn count_drop(&mut self, id: UnitId, cause: DropCause) {
        self.once_more.retain(|other| *other != id);
        *self.drops.entry(cause).or_default() += 1;
        self.up.push_back(PacketUp::Dropped { id, cause });
    }
}

impl Layer for Plain {
    type Above = Packets;
    type Below = Frames;

    fn handle_rx(&mut self, cx: &mut Cx<'_>, event: FrameUp) {
        match event {
            FrameUp::Received(frame) => self.on_received(cx.now, frame),
            FrameUp::Overheard(_) => self.counters.frames_overheard += 1,
            FrameUp::Done(done) => self.on_done(cx.now, done),
            FrameUp::Wanted(wanted) => self.on_wanted(wanted),
        }
    }

    fn poll_rx(&mut self, _cx: &mut Cx<'_>) -> Option<PacketUp> {
        self.up.pop_front()
    }

    fn room(&self, lane: Lane) -> Room {
        let Some(queue) = self.queue(lane.radio).filter(|_| lane.to != Some(self.node)) else {
            return Room::NONE;
        };
        Room::units(queue.places(self.limit, lane))
    }

    fn handle_tx(&mut self, cx: &mut Cx<'_>, mut packet: Packet) {
        let has_room = !self.room(packet.lane()).is_none();
        let queue = self.radios.iter_mut().find(|queue| queue.radio == packet.radio);
        let Some(queue) = queue else {
            return self.count_drop(packet.id, DropCause::NoRoute);
        };
        let access = packet.options.access;
        let length = queue.length(access);
        let verdict = match queue.red_of(access) {
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
        queue.push(packet);
    }

    fn poll_tx(&mut self, _cx: &mut Cx<'_>, below: &RoomBelow<'_>) -> Option<FrameDown> {
        if self.radios.iter().all(RadioQueue::has_nothing) {
            return None;
        }
        if let Some(frame) = self.carrier(below) {
            return Some(FrameDown::Frame(frame));
        }
        let Some((queue, at)) = self.radios.iter_mut().find_map(|queue| {
            let at = queue.next_place(below)?;
            Some((queue, at))
        }) else {
            self.drop_without_keys(below);
            return None;
        };
        let packet = match at {
            0 => queue.waiting.pop_front()?,
            at => queue.waiting.remove(at)?,
        };
        let id = self.ids.next_id();
        let again = self.again(&packet);
        self.outstanding.push_back(Outstanding {
            id,
            again,
            packet: Some(packet.id),
            to: packet.to,
            radio: packet.radio,
            access: packet.options.access,
            waits: packet.options.overflow.waits(),
            bytes: packet.payload.len(),
            is_tried_fully: packet.options.attempts.is_none(),
        });
        let ack = if self.mac_ack { packet.options.ack } else { AckPolicy::NoAck };
        Some(FrameDown::Frame(Frame {
            id,
            radio: packet.radio,
            to: packet.to,
            flow: packet.flow,
            protocol: packet.protocol,
            payload: packet.payload,
            options: TxOptions { ack, ..packet.options },
        }))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.radios.iter().flat_map(RadioQueue::reds).filter_map(Red::due).min()
    }

    fn handle_timeout(&mut self, cx: &mut Cx<'_>) {
        let reds = self.radios.iter_mut().flat_map(RadioQueue::reds_mut);
        reds.for_each(|red| red.on_timeout(cx.now));
    }
}

impl Link for Plain {
    fn heeds_overheard(&self) -> bool {
        false
    }

    fn status(&self, now: Instant) -> LinkStatus {
        let counters = &self.counters;
        let red = |of: fn(&Red) -> u64| self.radios.iter().flat_map(RadioQueue::reds).map(of).sum();
        LinkStatus {
            kind: "plain".into(),
            slots: Vec::new(),
            neighbours: self
                .neighbours
                .iter()
                .map(|entry| self.neighbour_status(entry, now))
                .collect(),
            air: self.air.clone(),
            counters: named([
                ("frames_sent", counters.frames_sent),
                ("frames_acked", counters.frames_acked),
                ("frames_failed", counters.frames_failed),
                ("frames_not_sent", counters.frames_not_sent),
                ("frames_unknown", counters.frames_unknown),
                ("frames_received", counters.frames_received),
                ("overheard", counters.frames_overheard),
                ("retransmissions", counters.retransmissions),
                ("frames_unknown_done", counters.unknown_done),
                ("sent_again", counters.sent_again),
                ("malformed_protocol", counters.malformed_protocol),
                ("red_marked", red(|red| red.marked)),
                ("red_dropped", red(|red| red.dropped)),
            ]),
            drops: self.drops.clone(),
        }
    }
}

impl Plain {
    fn neighbour_status(
        &self,
        &((node, radio), ref neighbour): &((NodeId, RadioId), Neighbour),
        now: Instant,
    ) -> NeighbourStatus {
        let waiting = self.queue(radio).map_or(0, |queue| {
            queue.waiting.iter().filter(|packet| packet.to == Some(node)).count()
        });
        let is_of_it = |frame: &&Outstanding| (frame.radio, frame.to) == (radio, Some(node));
        let with_chip = self.outstanding.iter().filter(is_of_it).count();
        neighbour.status(now, (node, radio), waiting + with_chip)
    }
}
