//! What messages of neighbours do, and whom the node hears next.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::block::{Block, End, Shape};
use super::{Delivery, Hop, Message, Withhold};
use crate::base::{Dbm, Duration, Instant, NodeId};
use crate::wire::hop::{self as wire, BlockId, Body, FlowKey, Header};
use crate::wire::udp;

/// How long a node waits for a neighbour whose block it takes, and which is silent.
const HOLD: Duration = Duration::from_millis(500);
/// How long ago a neighbour may have asked to be still waiting: it asks every half second.
const STILL_WAITING: Duration = Duration::from_millis(600);
/// Neighbours that may wait; more are heard when they ask again.
const WAITERS: usize = 64;
/// What a radio hears of nothing, for signals over noise in decibels.
const NOISE_DBM: f64 = -95.0;
/// Blocks of a flow that may have come before the one that is next.
const EARLY: usize = 256;

/// A flow that ends here.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// The number of the next block for the application.
    next: u32,
    /// Blocks that came before their turn.
    early: BTreeMap<u32, Vec<Bytes>>,
}

/// The one block that a node takes at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reception {
    block: BlockId,
    heard: Instant,
}

impl Reception {
    /// When the neighbour has been silent for too long.
    pub(super) fn deadline(&self) -> Instant {
        self.heard + HOLD
    }
}

/// A neighbour that wants to send a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    block: BlockId,
    via: NodeId,
    round: u16,
    shape: Shape,
    signal_db: f64,
    since: Instant,
    heard: Instant,
}

impl Hop {
    /// An IP packet with a message.
    pub(super) fn on_packet(&mut self, now: Instant, packet: &Bytes, signal: Option<Dbm>) {
        let message = udp::decode(packet).ok().map(|(_, range)| packet.slice(range));
        let Some(Ok((header, body))) = message.map(|message| wire::decode(&message)) else {
            self.counters.malformed += 1;
            return;
        };
        let Header { block: id, via, .. } = header;
        match body {
            Body::Data { frame, payload } => self.on_data(now, id, &header, frame, payload),
            Body::Request { round, is_virtual, length, crc } => {
                let shape = Shape {
                    destination: header.destination,
                    frames: header.frames,
                    length,
                    crc,
                    hops_left: header.hops_left.saturating_sub(1),
                    hops_made: header.hops_made.saturating_add(1),
                };
                let over_noise = |signal: Dbm| signal.as_f64() - NOISE_DBM;
                let signal_db = signal.map_or(1.0, over_noise).max(1.0);
                let (since, heard) = (now, now);
                let asks = Waiting { block: id, via, round, shape, signal_db, since, heard };
                self.on_request(now, asks, is_virtual);
            }
            Body::Answer { round, bits } => self.on_answer(now, id, via, round, &bits),
            Body::Arrived => self.on_arrived(id, &header),
        }
    }

    fn on_request(&mut self, now: Instant, asks: Waiting, is_virtual: bool) {
        let Waiting { block: id, shape, .. } = asks;
        let is_possible = u64::from(shape.length) <= self.config.memory_bytes
            && shape.length >= u32::from(shape.frames)
            && id.flow.source != self.node;
        if !is_possible {
            self.counters.contradictions += 1;
            return;
        }
        let is_past = self.arrivals.get(&id.flow).is_some_and(|flow| id.number < flow.next);
        if is_past && shape.destination == self.node {
            self.answer(asks);
            return self.queue(Message::Arrived { block: id, shape, tries: 0 });
        }
        if let Some(block) = self.blocks.get_mut(&id) {
            let same = |own: &Shape| (own.frames, own.length, own.crc, own.destination);
            if same(&block.shape) != same(&shape) {
                self.counters.contradictions += 1;
                return;
            }
            block.used = now;
            if block.is_complete() {
                self.answer(asks);
                return if is_virtual {
                    self.on_virtual(now, id)
                };
            }
        }
        let is_ours = self.reception.is_some_and(|reception| reception.block == id);
        if is_ours || self.may_take(&asks) {
            self.waiting.retain(|other| other.block != id);
            self.take(now, asks);
        } else {
            self.wait(asks);
        }
    }

    /// A source asks for the destination's acknowledgement: the block goes on from here as if it
    /// had just come.
    fn on_virtual(&mut self, now: Instant, id: BlockId) {
        let block = self.blocks.get_mut(&id).expect("the caller has looked");
        let (shape, is_idle) = (block.shape, block.transfer.is_none());
        match block.end {
            End::PassedOn { .. } if is_idle => self.begin_transfer(now, id, true),
            End::Delivered => self.queue(Message::Arrived { block: id, shape, tries: 0 }),
            End::PassedOn { .. } | End::Open => {}
        }
    }

    /// Whether a new block is taken now.
    fn may_take(&mut self, asks: &Waiting) -> bool {
        let is_free = asks.shape.is_small()
            || self.config.withhold == Withhold::Never
            || self.reception.is_none();
        is_free && (self.blocks.contains_key(&asks.block) || self.lets_pass(asks))
    }

    /// Whether the flow has passed on enough of what came before (`hop.md` 6).
    fn lets_pass(&mut self, asks: &Waiting) -> bool {
        if asks.shape.destination == self.node {
            let early = self.arrivals.get(&asks.block.flow).map_or(0, |flow| flow.early.len());
            return early < EARLY;
        }
        let flow = asks.block.flow;
        let held = self.of_flow(flow).filter(|(_, block)| block.is_open()).count() as u32;
        let is_braked = self.braked.contains(&flow);
        if held >= self.config.high_blocks || (is_braked && held > self.config.low_blocks) {
            self.braked.insert(flow);
            self.counters.held_back += 1;
            return false;
        }
        self.braked.remove(&flow);
        true
    }

    fn take(&mut self, now: Instant, asks: Waiting) {
        let Waiting { block: id, shape, round, .. } = asks;
        self.blocks.entry(id).or_insert_with(|| Block::empty(shape, now));
        if !shape.is_small() {
            self.reception = Some(Reception { block: id, heard: now });
        }
        // The frames of a small one are on their way already.
        if !(shape.is_small() && round == 1) {
            self.answer(asks);
        }
    }

    fn answer(&mut self, asks: Waiting) {
        let Waiting { block, via: to, round, shape, .. } = asks;
        self.queue(Message::Answer { block, to, round, shape });
    }

    fn wait(&mut self, asks: Waiting) {
        self.counters.withheld += 1;
        if let Some(known) = self.waiting.iter_mut().find(|other| other.block == asks.block) {
            *known = Waiting { since: known.since, ..asks };
        } else if self.waiting.len() < WAITERS {
            self.waiting.push(asks);
        }
    }

    /// Hears the next of those that wait (`hop.md` 7).
    pub(super) fn admit_next(&mut self, now: Instant) {
        if self.reception.is_some() {
            return;
        }
        self.waiting.retain(|asks| asks.heard + STILL_WAITING >= now);
        let mut fit: Vec<usize> = Vec::new();
        for index in 0..self.waiting.len() {
            let asks = self.waiting[index];
            if self.may_take(&asks) {
                fit.push(index);
            }
        }
        let waiting = &self.waiting;
        let chosen = match self.config.withhold {
            Withhold::Never | Withhold::Fifo => {
                fit.into_iter().min_by_key(|index| waiting[*index].since)
            }
            Withhold::BestLink => fit
                .into_iter()
                .max_by(|a, b| waiting[*a].signal_db.total_cmp(&waiting[*b].signal_db)),
            Withhold::WeightedSignal => {
                let sum: f64 = fit.iter().map(|index| waiting[*index].signal_db).sum();
                let mut left = self.rng.uniform() * sum;
                let last = fit.last().copied();
                let hit = fit.into_iter().find(|index| {
                    left -= waiting[*index].signal_db;
                    left < 0.0
                });
                hit.or(last)
            }
        };
        if let Some(index) = chosen {
            let asks = self.waiting.remove(index);
            self.take(now, asks);
        }
    }

    fn on_data(&mut self, now: Instant, id: BlockId, header: &Header, frame: u16, payload: Bytes) {
        let Some(block) = self.blocks.get_mut(&id) else {
            self.counters.unknown += 1;
            return;
        };
        if block.shape.frames != header.frames {
            self.counters.contradictions += 1;
            return;
        }
        let bytes = payload.len() as u64;
        block.used = now;
        if let Some(reception) = self.reception.as_mut().filter(|one| one.block == id) {
            reception.heard = now;
        }
        if !block.put(frame, payload) {
            self.counters.frames_again += 1;
            return;
        }
        self.counters.frames_received += 1;
        self.memory += bytes;
        if block.is_complete() {
            self.on_complete(now, id);
        } else {
            self.forward(now, id.flow);
            self.on_more(now, id);
        }
    }

    fn on_complete(&mut self, now: Instant, id: BlockId) {
        let block = self.blocks.get_mut(&id).expect("the caller has looked");
        let bytes = block.bytes();
        if !block.verify() {
            self.counters.corrupt += 1;
            self.memory -= bytes;
            return;
        }
        if block.shape.destination == self.node {
            self.deliver(id);
        } else {
            self.forward(now, id.flow);
            self.on_more(now, id);
        }
        if self.reception.is_some_and(|reception| reception.block == id) {
            self.reception = None;
        }
        self.let_go();
        self.admit_next(now);
    }

    /// A block is whole at its destination: it goes to the application when its turn has come.
    fn deliver(&mut self, id: BlockId) {
        let block = self.remove(id).expect("the caller has looked");
        self.counters.blocks_delivered += 1;
        let flow = self.arrivals.entry(id.flow).or_default();
        flow.early.insert(id.number, block.data);
        while let Some(frames) = flow.early.remove(&flow.next) {
            flow.next += 1;
            self.delivered.push_back(Delivery { flow: id.flow, frames });
        }
        let shape = block.shape;
        if id.number >= flow.next {
            let mut early = Block::empty(shape, block.used);
            (early.have, early.end) = (super::bits::Bits::all(shape.frames), End::Delivered);
            self.blocks.insert(id, early);
        } else {
            let next = flow.next;
            self.blocks.retain(|other, _| other.flow != id.flow || other.number >= next);
        }
        self.queue(Message::Arrived { block: id, shape, tries: 0 });
    }

    /// The destination has a block.
    fn on_arrived(&mut self, id: BlockId, header: &Header) {
        let is_ours = id.flow.source == self.node;
        let is_spare = self.blocks.get(&id).is_some_and(|block| is_ours || block.is_spare());
        let block = if is_spare { self.remove(id) } else { None };
        if is_ours {
            if let Some(block) = block {
                self.arrived.push_back((id, u64::from(block.shape.length)));
            }
            return;
        }
        if header.hops_left == 0 {
            self.counters.out_of_hops += 1;
            return;
        }
        let shape = Shape {
            destination: header.destination,
            frames: header.frames,
            length: 0,
            crc: 0,
            hops_left: header.hops_left - 1,
            hops_made: header.hops_made.saturating_add(1),
        };
        self.queue(Message::Arrived { block: id, shape, tries: 0 });
    }

    /// The bits of an answer: what is there of a block now; nothing if that is no longer known.
    pub(super) fn bits_of(&self, id: BlockId, shape: Shape) -> Option<Bytes> {
        let is_past =
            |flow: FlowKey| self.arrivals.get(&flow).is_some_and(|flow| id.number < flow.next);
        if shape.destination == self.node && is_past(id.flow) {
            return Some(super::bits::Bits::all(shape.frames).write());
        }
        self.blocks.get(&id).map(|block| block.have.write())
    }
}
