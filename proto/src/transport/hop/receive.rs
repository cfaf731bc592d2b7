//! Messages of neighbours other than requests, and what becomes of complete blocks.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::admit::Waiting;
use super::bits::Bits;
use super::block::{Block, End, Shape, Whole};
use super::out::Message;
use super::pace::Round;
use super::path::Lap;
use super::{Arrived, Delivery, Hop, Keep, NextHop};
use crate::base::{Dbm, Duration, Instant, NodeId};
use crate::wire::hop::{self as wire, BlockId, Body, FlowKey, Header, Refusal};
use crate::wire::udp;

/// Noise floor, to compute signal over noise.
const NOISE_DBM: f64 = -95.0;
/// Most flows that end here and are remembered.
const FLOWS: usize = 1_024;
/// Most flows of one source that are not over, so that it leaves some to others.
const OF_ONE: usize = FLOWS / 2;
/// A flow that was silent for this long gives way to others, although more of it may come.
const FORSAKEN: Duration = Duration::from_secs(24 * 3_600);
/// Most blocks that passed here and are over which are remembered.
const REMEMBERED: usize = 1_024;

/// A flow that ends here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrivals {
    /// Checksum of its first block, which distinguishes the flow from others with the same number.
    pub(super) opened: u32,
    /// The number of the next block for the application.
    pub(super) next: u32,
    /// Blocks before this number were accepted; all, if the flow is refused.
    pub(super) accepted: u32,
    /// Why the flow is refused, if it is.
    pub(super) refusal: Option<Refusal>,
    /// Whether its last block was accepted, or the flow is refused: such flows are forgotten first.
    pub(super) is_over: bool,
    pub(super) used: Instant,
}

impl Arrivals {
    pub(super) fn resumed(opened: u32, next: u32, now: Instant) -> Self {
        let (refusal, is_over) = (None, false);
        Self { opened, next, accepted: next, refusal, is_over, used: now }
    }

    pub(super) fn refused(why: Refusal, now: Instant) -> Self {
        Self::over(0, Some(why), now)
    }

    pub(super) fn over(opened: u32, refusal: Option<Refusal>, now: Instant) -> Self {
        let (next, accepted) = (u32::MAX, u32::MAX);
        Self { opened, next, accepted, refusal, is_over: true, used: now }
    }
}

/// Blocks that passed here and are over: the destination has them, or refuses their flow. A node
/// that has not heard of that, because it was away or on another route, may still offer them.
#[derive(Debug, Default)]
pub(super) struct Over {
    blocks: BTreeMap<BlockId, Past>,
    /// All of them, the oldest first, and some that were forgotten.
    order: VecDeque<BlockId>,
}

/// What is known of a block that is over.
#[derive(Clone, Copy, Debug)]
struct Past {
    crc: u32,
    refusal: Option<Refusal>,
    /// Whether somebody has offered it as new since then.
    is_offered: bool,
}

impl Over {
    fn put(&mut self, id: BlockId, crc: u32, refusal: Option<Refusal>) {
        self.blocks.insert(id, Past { crc, refusal, is_offered: false });
        self.order.push_back(id);
        if self.order.len() > REMEMBERED {
            let oldest = self.order.pop_front();
            oldest.map(|id| self.blocks.remove(&id));
        }
    }

    pub(super) fn has(&self, id: BlockId, crc: u32) -> bool {
        self.blocks.get(&id).is_some_and(|past| past.crc == crc)
    }

    /// Somebody offers a block as new.
    pub(super) fn on_offer(&mut self, id: BlockId) {
        if let Some(past) = self.blocks.get_mut(&id) {
            past.is_offered = true;
        }
    }

    /// The destination's reply about a block that nobody has offered since it was over:
    /// `Some(None)` if it was accepted.
    pub(super) fn became(&self, id: BlockId) -> Option<Option<Refusal>> {
        self.blocks.get(&id).filter(|past| !past.is_offered).map(|past| past.refusal)
    }

    pub(super) fn forget(&mut self, id: BlockId) {
        self.blocks.remove(&id);
    }

    pub(super) fn forget_flow(&mut self, flow: FlowKey) {
        self.blocks.retain(|id, _| id.flow != flow);
    }
}

impl Hop {
    /// Handles an IP packet with a message.
    pub(super) fn on_packet(
        &mut self,
        now: Instant,
        via: NodeId,
        packet: &Bytes,
        signal: Option<Dbm>,
    ) {
        let message = udp::decode(packet).ok().map(|(_, range)| packet.slice(range));
        let Some(Ok((header, body))) = message.map(|message| wire::decode(&message)) else {
            self.counters.malformed += 1;
            return;
        };
        let via = match self.config.next_hop {
            NextHop::Raw if header.via != via => {
                self.counters.contradictions += 1;
                return;
            }
            NextHop::Raw => via,
            NextHop::Ip => {
                if matches!(body, Body::Data { .. }) && header.via != via {
                    self.counters.frames_forwarded += 1;
                    let block = self.blocks.get_mut(&header.block);
                    block.into_iter().for_each(|block| block.is_forwarded = true);
                }
                header.via
            }
        };
        let id = header.block;
        match body {
            Body::Data { frame, payload } => {
                self.on_path_arrival(now, via);
                self.on_data(now, id, &header, frame, payload);
            }
            Body::Request { round, is_virtual, length, crc } => {
                let shape = shape_of(&header, length, crc);
                let over_noise = |signal: Dbm| signal.as_f64() - NOISE_DBM;
                let signal_db = signal.map_or(1.0, over_noise).max(1.0);
                let (since, heard) = (now, now);
                let block = id;
                let asks =
                    Waiting { block, via, round, is_virtual, shape, signal_db, since, heard };
                self.on_request(now, asks);
            }
            Body::Answer { round, bits } => self.on_answer(now, id, via, round, &bits),
            Body::Arrived { crc, refusal } => {
                self.on_arrived(now, id, shape_of(&header, 0, crc), refusal);
            }
            Body::Listen => self.on_listen(now, via),
            Body::Call => _ = self.on_call_nearby(now, via, header.hops_left),
        }
    }

    fn on_data(&mut self, now: Instant, id: BlockId, header: &Header, frame: u16, payload: Bytes) {
        let Some(block) = self.blocks.get_mut(&id) else {
            self.counters.frames_unknown += 1;
            return;
        };
        if block.shape.frames != header.frames || !block.can_have(frame, payload.len()) {
            self.counters.contradictions += 1;
            return;
        }
        block.used = now;
        let reception = self.receptions.values_mut().find(|one| one.has(id));
        let is_large = reception.is_some();
        if let Some((via, Some(took))) = reception.map(|one| (one.via, one.on_frame(now, id))) {
            self.answers.on_round_trip(via, took);
        }
        if !block.put(frame, payload) {
            self.counters.frames_again += 1;
            return;
        }
        let is_complete = block.is_complete();
        self.counters.frames_received += 1;
        let reception = self.receptions.values_mut().find(|one| one.has(id));
        reception.into_iter().for_each(|one| one.on_progress(now));
        if is_large {
            self.on_large_frame(now, header.via, id);
        }
        if is_complete {
            self.on_complete(now, id);
        } else {
            self.forward(now, id.flow);
            self.on_more(now, id);
        }
    }

    fn on_complete(&mut self, now: Instant, id: BlockId) {
        let block = self.blocks.get_mut(&id).expect("the caller has looked");
        if !block.verify() {
            self.counters.corrupt += 1;
            return;
        }
        self.counters.blocks_forwarded += u64::from(block.is_forwarded);
        let is_here = block.shape.destination == self.node;
        if is_here {
            self.deliver(id.flow);
        } else {
            block.pack();
        }
        self.keep(id);
        if !is_here {
            self.forward(now, id.flow);
            self.on_more(now, id);
        }
        self.end_reception(id);
        self.admit_next(now);
    }

    /// Stores a complete block that is to be passed on, or that waits for earlier blocks of its
    /// flow: without an acknowledgement it would hold those up.
    fn keep(&mut self, id: BlockId) {
        let Some(block) = self.blocks.get_mut(&id).filter(|block| block.is_open()) else { return };
        block.is_safe = !self.keeps;
        if self.keeps {
            let (shape, frames) = (block.shape, block.data.clone());
            self.begin_writing(id);
            self.keep.push_back(Keep::Put(Whole { id, shape, frames }));
        }
    }

    /// A block was stored, and is safe.
    pub fn handle_kept(&mut self, id: BlockId) {
        self.end_writing(id);
        let Some(block) = self.blocks.get_mut(&id).filter(|block| block.is_complete()) else {
            // It was dropped in the meantime.
            self.keep.push_back(Keep::Drop(id));
            return;
        };
        block.is_safe = true;
        let shape = block.shape;
        if let Some((to, round)) = block.asked {
            self.queue(Message::Answer { block: id, to, round, shape });
        }
    }

    /// Gives the application the complete blocks that are next in the flow.
    pub(super) fn deliver(&mut self, flow: FlowKey) {
        let Some(arrivals) = self.arrivals.get_mut(&flow) else { return };
        loop {
            let id = BlockId { flow, number: arrivals.next };
            let Some(block) = self.blocks.get_mut(&id) else { return };
            if !block.is_complete() || block.end != End::Open {
                return;
            }
            block.end = End::Given;
            self.open.remove(&id);
            arrivals.next += 1;
            let frames = std::mem::take(&mut block.data);
            self.delivered.push_back(Delivery { id, shape: block.shape, frames });
        }
    }

    /// The application accepts a block that it was given, and with it all before it in the flow.
    pub fn accept(&mut self, now: Instant, id: BlockId) {
        let is_given = |block: &Block| block.end == End::Given;
        let Some(flow) = self.arrivals.get_mut(&id.flow) else { return };
        let Some(block) = self.blocks.get(&id).filter(|block| is_given(block)) else { return };
        flow.accepted = id.number + 1;
        flow.is_over |= block.shape.finishes;
        self.counters.blocks_delivered += 1;
        self.settle_given(now, id, None);
    }

    /// The application refuses the flow of a block that it was given, from that block on.
    pub fn refuse(&mut self, now: Instant, id: BlockId, why: Refusal) {
        if let Some(flow) = self.arrivals.get_mut(&id.flow) {
            *flow = Arrivals { opened: flow.opened, ..Arrivals::refused(why, now) };
            self.counters.blocks_refused += 1;
            self.settle_given(now, id, Some(why));
            self.abandon(id.flow);
        }
    }

    /// Tells the previous hop and the source what became of a block.
    fn settle_given(&mut self, now: Instant, id: BlockId, refusal: Option<Refusal>) {
        let Some(block) = self.remove(id) else { return };
        let shape = block.shape;
        self.stop_waiting(id, shape.crc);
        if let Some((to, round)) = block.asked {
            self.queue(Message::Answer { block: id, to, round, shape });
        }
        let shape = shape.answered();
        self.queue(Message::Arrived { block: id, shape, refusal, tries: 0 });
        self.admit_next(now);
    }

    /// Whether another flow of a source may end here. If there are too many in all, or of this
    /// source, one that is over is forgotten, or else one that is forsaken; of several, the one
    /// that was silent for longest. New flows do not drive out others.
    pub(super) fn make_room_for_flow(&mut self, now: Instant, source: NodeId) -> bool {
        let is_own = |key: &FlowKey, flow: &Arrivals| key.source == source && !flow.is_over;
        let own = self.arrivals.iter().filter(|(key, flow)| is_own(key, flow)).count();
        if own < OF_ONE && self.arrivals.len() < FLOWS {
            return true;
        }
        let may_go = |(key, flow): &(&FlowKey, &Arrivals)| {
            (own < OF_ONE || is_own(key, flow)) && (flow.is_over || flow.used + FORSAKEN <= now)
        };
        let old = self.arrivals.iter().filter(may_go);
        let oldest = old.min_by_key(|(_, flow)| (!flow.is_over, flow.used)).map(|(key, _)| *key);
        if let Some(oldest) = oldest {
            self.counters.flows_forgotten += 1;
            if let Some(arrivals) = self.arrivals.remove(&oldest) {
                self.past.put(oldest, &arrivals);
            }
            self.abandon(oldest);
        }
        oldest.is_some()
    }

    /// The destination has accepted a block, or refuses its flow.
    fn on_arrived(&mut self, now: Instant, id: BlockId, shape: Shape, refusal: Option<Refusal>) {
        let is_ours = id.flow.source == self.node;
        self.stop_waiting(id, shape.crc);
        let Some(block) = self.blocks.get(&id) else {
            self.counters.unknown += u64::from(is_ours);
            return if !is_ours {
                self.pass_back(id, shape, refusal);
            };
        };
        // Only nodes that had the block know its checksum. A block of ours that was never offered
        // cannot have arrived.
        if block.shape.crc != shape.crc || (is_ours && !block.was_sent()) {
            self.counters.contradictions += 1;
            return;
        }
        let (bytes, end, destination) = (block.shape.length, block.end, block.shape.destination);
        if let Some(transfer) = block.transfer.as_ref().filter(|_| refusal.is_none()) {
            // So all frames that were sent have come. A destination that is the next hop says so in
            // this way, in place of an answer.
            let round = Round::of(&transfer.sent, &transfer.sent);
            let (via, lap) = (transfer.via, Lap { began: transfer.began, asked: None });
            self.on_path_round(now, via, round, lap);
            self.on_round_end(via, round);
        }
        self.remove(id);
        if is_ours {
            let took = match end {
                End::PassedOn { at } => now.since(at),
                End::Open | End::Given => Duration::ZERO,
            };
            self.on_arrival_time(destination, took);
            self.settle_early(id.flow);
            if refusal.is_none() {
                self.before_have_arrived(id);
            }
            self.arrived.push_back(Arrived { id, bytes, refusal });
        } else {
            self.over.put(id, shape.crc, refusal);
            self.pass_back(id, shape, refusal);
            if id.number == 0 && refusal.is_some() {
                self.let_go_of_early(id.flow);
            }
        }
        self.forward(now, id.flow);
        self.admit_next(now);
    }

    /// Drops the early blocks of a flow that passes here and was refused: the destination knows
    /// nothing of them, and would never answer.
    fn let_go_of_early(&mut self, flow: FlowKey) {
        let is_early = |(_, block): &(&BlockId, &Block)| block.shape.is_early;
        let early: Vec<BlockId> = self.of_flow(flow).filter(is_early).map(|(id, _)| *id).collect();
        early.into_iter().for_each(|id| _ = self.remove(id));
    }

    /// The destination takes a flow that begins here, or refuses it: its blocks are no longer
    /// early.
    fn settle_early(&mut self, flow: FlowKey) {
        let first = BlockId { flow, number: 0 };
        let last = BlockId { flow, number: u32::MAX };
        self.blocks.range_mut(first..=last).for_each(|(_, block)| block.shape.is_early = false);
    }

    /// The destination has accepted a block that begins here, and so all earlier ones of its flow,
    /// whose acknowledgements were lost or are still on the way. If each had to be asked for, these
    /// waits would slow down a path that loses some of them.
    fn before_have_arrived(&mut self, id: BlockId) {
        let before = self.of_flow(id.flow).take_while(|(other, _)| **other < id);
        let sent: Vec<BlockId> =
            before.filter(|(_, block)| block.was_sent()).map(|(id, _)| *id).collect();
        for id in sent {
            if let Some(block) = self.remove(id) {
                let bytes = block.shape.length;
                self.arrived.push_back(Arrived { id, bytes, refusal: None });
            }
        }
    }

    /// Passes an end-to-end acknowledgement on towards the source.
    fn pass_back(&mut self, id: BlockId, shape: Shape, refusal: Option<Refusal>) {
        if shape.hops_left == 0 {
            self.counters.out_of_hops += 1;
            return;
        }
        self.queue(Message::Arrived { block: id, shape, refusal, tries: 0 });
    }

    /// The bits of an answer: which frames of a block are here now. `None` if that is no longer
    /// known, or must not be said yet.
    pub(super) fn bits_of(&self, id: BlockId, shape: Shape) -> Option<Bytes> {
        let is_past =
            |flow: FlowKey| self.arrivals.get(&flow).is_some_and(|flow| id.number < flow.accepted);
        let is_ours = id.flow.source == self.node;
        let is_over = is_ours || self.over.has(id, shape.crc);
        if is_over || (shape.destination == self.node && is_past(id.flow)) {
            return Some(Bits::all(shape.frames).write());
        }
        let block = self.blocks.get(&id)?;
        let is_sayable = !block.is_complete() || block.is_sayable();
        is_sayable.then(|| block.have.write())
    }
}

/// The shape of a message's block, as this node would pass it on.
fn shape_of(header: &Header, length: u32, crc: u32) -> Shape {
    Shape {
        destination: header.destination,
        frames: header.frames,
        length,
        crc,
        hops_left: header.hops_left.saturating_sub(1),
        hops_made: header.hops_made.saturating_add(1),
        opens: header.opens,
        finishes: header.finishes,
        is_early: header.is_early,
    }
}
