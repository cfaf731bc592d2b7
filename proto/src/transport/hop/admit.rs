//! Requests of neighbours (BSYN), and which of them is answered next.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::block::{Block, End, Phase, Shape};
use super::out::Message;
use super::receive::Arrivals;
use super::reception::Reception;
use super::{Ahead, Hop, Withhold};
use crate::base::{Duration, Instant, NodeId};
use crate::wire::hop::{BlockId, FlowKey, Refusal};

/// How long after its last request a neighbour still counts as waiting. If it has many blocks that
/// wait, it asks for one of them at a time, every second and a half.
const STILL_WAITING: Duration = Duration::from_millis(1_700);
/// After this time without a frame or a request, an incomplete block no longer holds up others.
pub(super) const SILENT: Duration = Duration::from_secs(5);
/// Blocks of up to this part of a full one are short: they cost those that wait little.
const SHORT: u32 = 4;
/// Probability that the flow that has had least is preferred, where flows have spells. Otherwise
/// flows that began last, or have far to go, would wait for all the others.
const LEAST_FIRST: f64 = 0.4;
/// How long after passing on a block a node does so again for a virtual request. Otherwise two
/// nodes that take each other for the next hop would ask each other as fast as the air allows.
const VIRTUAL_APART: Duration = Duration::from_millis(250);
/// Most requests that may wait; others are heard when they are repeated.
const WAITERS: usize = 64;

/// A request of a neighbour that wants to send a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) block: BlockId,
    pub(super) via: NodeId,
    pub(super) round: u16,
    pub(super) is_virtual: bool,
    pub(super) shape: Shape,
    pub(super) signal_db: f64,
    pub(super) since: Instant,
    pub(super) heard: Instant,
}

impl Hop {
    pub(super) fn on_request(&mut self, now: Instant, asks: Waiting) {
        let Waiting { block: id, shape, is_virtual, .. } = asks;
        let is_possible = shape.is_possible()
            && shape.cost() <= self.config.memory_bytes / 2
            && shape.opens == (id.number == 0)
            // The number of the next block has to be one.
            && id.number < u32::MAX;
        if !is_possible {
            self.counters.contradictions += 1;
            return;
        }
        self.on_block_from(now, asks.via, &id, shape.destination);
        if id.flow.source == self.node {
            // Routes changed, and a block of ours comes back. The answer is that all of it is here,
            // or its sender would offer it for ever. We have the block until it has arrived.
            self.answer(asks);
            let is_same = |block: &Block| block.shape.is_same(&shape);
            if self.blocks.get(&id).is_some_and(is_same) && self.comes_around(now, &asks) {
                self.go_on(now, id, true);
            }
            return;
        }
        self.on_small_request(now, &asks);
        if self.is_over(&asks) {
            self.answer(asks);
            return;
        }
        if shape.destination == self.node && self.is_settled(now, &asks) {
            return;
        }
        if self.blocks.get(&id).is_some_and(|block| !block.shape.is_same(&shape)) {
            self.counters.contradictions += 1;
            // The source restarted and uses the number again. What was acknowledged stays.
            let is_stuck =
                |block: &Block| block.end == End::Given || (block.is_open() && block.is_complete());
            if self.blocks.get(&id).is_some_and(is_stuck) {
                return;
            }
            self.remove(id);
        }
        if let Some(block) = self.blocks.get_mut(&id) {
            block.used = now;
            block.shape.is_early &= shape.is_early;
            // It may have come over a longer route before.
            block.shape.hops_left = block.shape.hops_left.max(shape.hops_left);
            if block.is_complete() {
                return self.answer_whole(now, asks);
            }
        }
        if shape.destination != self.node && shape.hops_left == 0 {
            // It stays with its sender, and may take another route.
            self.counters.out_of_hops += 1;
            return;
        }
        if !is_virtual {
            self.on_another_round(asks.via, &shape, asks.round);
        }
        self.take_or_withhold(now, asks);
    }

    /// Answers a request for a block that is complete here: its sender has nothing to send.
    fn answer_whole(&mut self, now: Instant, asks: Waiting) {
        let Waiting { block: id, via, round, is_virtual, shape, .. } = asks;
        let block = self.blocks.get_mut(&id).expect("the caller has looked");
        block.asked = Some((via, round));
        if !is_virtual {
            self.on_whole(via, &shape, round);
        }
        self.answer(asks);
        let is_at_once = self.comes_around(now, &asks);
        if is_virtual || is_at_once {
            self.go_on(now, id, is_at_once);
        }
    }

    /// Answers a request for a block that is not complete here, or lets it wait.
    fn take_or_withhold(&mut self, now: Instant, asks: Waiting) {
        let Waiting { block: id, shape, .. } = asks;
        let is_ours = self.receptions.values().any(|reception| reception.has(id));
        let is_next = |one: &Reception| one.is_about_to_ask() && one.via == asks.via;
        let air = self.air(asks.via);
        if self.receptions.get(&air).is_some_and(is_next) && !shape.is_small() {
            self.receptions.remove(&air);
            self.wait(asks);
            self.admit_next(now);
        } else if is_ours || self.may_take(now, &asks) {
            self.waiting.retain(|other| other.block != id);
            self.take(now, asks);
        } else {
            self.counters.withheld += 1;
            self.wait(asks);
        }
    }

    /// Whether a block has passed here and is over; whoever asks is then answered that all of it is
    /// here. A virtual request in the first round means that its source has missed the
    /// destination's acknowledgement, which is sent again. If somebody has offered the block as new
    /// since it was over, its source may have begun anew with the same number and the same bytes;
    /// then the block is taken once more. A request in a later round is no new offer: its sender
    /// has not heard that the block is over.
    fn is_over(&mut self, asks: &Waiting) -> bool {
        let Waiting { block: id, shape, round, is_virtual, .. } = *asks;
        if !self.over.has(id, shape.crc) {
            if shape.opens {
                self.over.forget_flow(id.flow);
            }
            return false;
        }
        match (is_virtual && round == 1, self.over.became(id)) {
            (true, Some(refusal)) => {
                let shape = shape.answered();
                self.queue(Message::Arrived { block: id, shape, refusal, tries: 0 });
            }
            (true, None) => {
                self.over.forget(id);
                return false;
            }
            (false, _) if round == 1 => self.over.on_offer(id),
            (false, _) => {}
        }
        true
    }

    /// Whether a block for this node needs no transfer now: it was accepted, or its flow is
    /// refused, which the sender is told; or it came before the first block of its flow.
    fn is_settled(&mut self, now: Instant, asks: &Waiting) -> bool {
        let Waiting { block: id, shape, .. } = *asks;
        if !self.recall(now, asks) {
            return true;
        }
        let known = self.arrivals.get(&id.flow);
        let is_new = known.is_none();
        if shape.opens && known.is_none_or(|flow| flow.opened != shape.crc) {
            // A source that restarted uses the numbers of flows again.
            self.abandon(id.flow);
            if is_new && !self.make_room_for_flow(now, id.flow.source) {
                return self.turn_away(asks);
            }
            self.arrivals.insert(id.flow, Arrivals::resumed(shape.crc, 0, now));
        } else if known.is_none() && shape.is_early {
            // The first block is on its way as well, and will be here before this request is
            // repeated.
            return true;
        } else if known.is_none() {
            // The flow was opened before this node restarted, or was forgotten.
            if !self.make_room_for_flow(now, id.flow.source) {
                return self.turn_away(asks);
            }
            self.counters.blocks_refused += 1;
            self.arrivals.insert(id.flow, Arrivals::refused(Refusal::Unknown, now));
        }
        let flow = self.arrivals.get_mut(&id.flow).expect("it was put there");
        flow.used = now;
        let refusal = flow.refusal;
        let is_settled = refusal.is_some() || id.number < flow.accepted;
        if is_settled {
            self.answer(*asks);
            let shape = shape.answered();
            self.queue(Message::Arrived { block: id, shape, refusal, tries: 0 });
        }
        is_settled
    }

    /// Remembers a flow that is over, about whose block somebody asks again. An early block belongs
    /// to a new flow with the same number, as the source knows nothing of the old one. Returns
    /// false if too many flows are under way: the source will ask again.
    fn recall(&mut self, now: Instant, asks: &Waiting) -> bool {
        let Waiting { block: BlockId { flow, .. }, shape, .. } = *asks;
        if self.arrivals.contains_key(&flow) || (shape.is_early && !shape.opens) {
            return true;
        }
        if let Some(past) = self.past.take(now, flow, shape.opens.then_some(shape.crc)) {
            if !self.make_room_for_flow(now, flow.source) {
                self.past.put(flow, &past);
                return false;
            }
            self.arrivals.insert(flow, past);
        }
        true
    }

    /// Refuses a flow for which there is no room, without remembering it. Returns true: the block
    /// needs no transfer.
    fn turn_away(&mut self, asks: &Waiting) -> bool {
        self.counters.blocks_refused += 1;
        let shape = asks.shape.answered();
        let refusal = Some(Refusal::Full);
        self.queue(Message::Arrived { block: asks.block, shape, refusal, tries: 0 });
        true
    }

    /// Passes a block on as if it had just come, after a virtual request of its source, or because
    /// it came back in a loop.
    fn go_on(&mut self, now: Instant, id: BlockId, is_at_once: bool) {
        let block = &self.blocks[&id];
        let asked_of = block
            .transfer
            .as_ref()
            .map(|transfer| matches!(transfer.phase, Phase::Asked { .. }).then_some(transfer.via));
        let is_off_way = |via: Option<NodeId>| self.is_off_way(via, block.shape.destination);
        match (block.end, asked_of) {
            // Only a transfer that waits for an answer moves to the new route. One that is sending
            // goes on to where it began; its next request takes the new route.
            (End::Open | End::PassedOn { .. }, Some(via)) if is_off_way(via) => self.ask(now, id),
            (End::PassedOn { at }, None)
                if is_at_once || at + VIRTUAL_APART <= now || is_off_way(block.passed_to) =>
            {
                self.begin_transfer(now, id, true);
            }
            (End::Open | End::PassedOn { .. }, Some(_)) if is_at_once => {
                self.blocks.get_mut(&id).expect("it was there").goes_around = true;
            }
            (End::Open, _) => self.forward(now, id.flow),
            (End::PassedOn { .. } | End::Given, _) => {}
        }
    }

    /// Whether a block may be taken now.
    fn may_take(&mut self, now: Instant, asks: &Waiting) -> bool {
        let beside = self.receptions.get(&self.air(asks.via));
        let is_free = asks.shape.is_small()
            || self.config.withhold == Withhold::Never
            || beside.is_none_or(|reception| {
                self.may_join(reception, asks) || self.has_turns_for(reception, asks)
            });
        if !is_free || self.blocks.contains_key(&asks.block) {
            return is_free;
        }
        if self.is_in_vain(now, asks) || !self.lets_pass(now, asks) {
            self.counters.held_back += 1;
            return false;
        }
        let has_room = self.make_room_for_transit(now, &asks.shape);
        self.counters.no_memory += u64::from(!has_room);
        has_room
    }

    /// The airs over which neighbours wait.
    pub(super) fn waited(&self) -> BTreeSet<Option<usize>> {
        self.waiting.iter().map(|asks| self.air(asks.via)).collect()
    }

    /// Whether the flow has passed on enough of its earlier blocks (`hop.md` 6).
    fn lets_pass(&mut self, now: Instant, asks: &Waiting) -> bool {
        let flow = asks.block.flow;
        let via = self.next_hop(asks.shape.destination);
        let beside = self.beside(Some(asks.via), via);
        let [high, low] = self.high_low(beside);
        if asks.shape.destination == self.node {
            // An application that is slow to accept stops its flow. Blocks that come before their
            // turn, or while it is slow, leave half of the memory for blocks that are next. Blocks
            // that applications were given and have not accepted leave half of it for those that
            // pass through.
            let next = self.arrivals.get(&flow).map_or(0, |flow| flow.next);
            let is_given = |(_, block): &(&BlockId, &Block)| block.end == End::Given;
            let given = self.of_flow(flow).filter(is_given).count() as u32;
            let is_next = asks.block.number == next && given == 0;
            let (cost, half) = (asks.shape.cost(), self.config.memory_bytes / 2);
            // Small blocks, such as answers and openings, get past programs that do not read.
            let reserve = if is_next && asks.shape.is_small() { half / 2 } else { 0 };
            let is_full = self.given_memory() + cost > half + reserve;
            let may_wait = is_next || self.memory + cost <= half;
            self.is_pressed |= is_next && is_full;
            return given <= high && may_wait && !is_full;
        }
        let counts = |block: &Block| block.is_complete() || now <= block.used + SILENT;
        let mut open = self.open_of(flow).filter(|(_, block)| counts(block)).map(|(id, _)| *id);
        let oldest = open.next();
        let held = u32::from(oldest.is_some()) + open.count() as u32;
        // Later blocks may wait at the destination for this one.
        if oldest.is_some_and(|oldest| asks.block < oldest) {
            return true;
        }
        let is_braked = self.braked.contains(&flow);
        if held >= high || (is_braked && held > low) {
            self.braked.insert(flow);
            return false;
        }
        self.braked.remove(&flow);
        // Otherwise further blocks would take air time from the onward hop.
        held < 1 + beside
            || self.config.ahead == Ahead::Always
            || via.is_none_or(|via| self.is_gone(via))
    }

    /// Ends the brake of a flow that has no open block left.
    pub(super) fn end_brake(&mut self, flow: FlowKey) {
        if self.open_of(flow).next().is_none() {
            self.braked.remove(&flow);
        }
    }

    /// Whether, since the last call, applications that do not accept their blocks have kept others
    /// from getting theirs.
    pub fn take_pressed(&mut self) -> bool {
        std::mem::take(&mut self.is_pressed)
    }

    /// Memory of blocks that applications were given and have not accepted.
    fn given_memory(&self) -> u64 {
        let given = self.blocks.values().filter(|block| block.end == End::Given);
        given.map(|block| block.shape.cost()).sum()
    }

    fn take(&mut self, now: Instant, asks: Waiting) {
        let Waiting { block: id, via, shape, round, is_virtual, .. } = asks;
        if !self.blocks.contains_key(&id) {
            self.insert(id, Block::empty(shape, now));
        }
        if !shape.is_small() {
            let fresh = || Reception::of(via, now);
            self.receptions.entry(self.air(via)).or_insert_with(fresh).on_request(now, id);
        }
        // The frames of a small block are already on their way, unless its sender did not know that
        // it is missing.
        if !shape.is_small() || round > 1 || is_virtual {
            self.answer(asks);
        }
    }

    fn answer(&mut self, asks: Waiting) {
        let Waiting { block, via: to, round, shape, .. } = asks;
        self.queue(Message::Answer { block, to, round, shape });
    }

    /// A block is over: whoever waits to send it no longer needs to.
    pub(super) fn stop_waiting(&mut self, id: BlockId, crc: u32) {
        self.waiting.retain(|asks| asks.block != id || asks.shape.crc != crc);
    }

    fn wait(&mut self, asks: Waiting) {
        if let Some(known) = self.waiting.iter_mut().find(|other| other.block == asks.block) {
            *known = Waiting { since: known.since, ..asks };
        } else if self.waiting.len() < WAITERS {
            self.waiting.push(asks);
        }
    }

    /// Answers the next of those that wait, over each air (`hop.md` 7).
    pub(super) fn admit_next(&mut self, now: Instant) {
        self.waited().into_iter().for_each(|air| self.admit_next_over(now, air));
    }

    fn admit_next_over(&mut self, now: Instant, air: Option<usize>) {
        let is_about_to_ask = |one: &Reception| one.is_about_to_ask() && one.deadline() > now;
        if self.receptions.get(&air).is_some_and(is_about_to_ask) {
            return;
        }
        self.waiting.retain(|asks| asks.heard + STILL_WAITING >= now);
        let mut fit: Vec<usize> = Vec::new();
        for index in 0..self.waiting.len() {
            let asks = self.waiting[index];
            if self.air(asks.via) == air && self.may_take(now, &asks) {
                fit.push(index);
            }
        }
        let preferred = self.preferred(&fit);
        if let Some(chosen) = self.choose(&preferred) {
            // The blocks of a flow are taken in order.
            let flow = self.waiting[chosen].block.flow;
            let same = fit.into_iter().filter(|index| self.waiting[*index].block.flow == flow);
            let index = same.min_by_key(|index| self.waiting[*index].block).unwrap_or(chosen);
            let asks = self.waiting.remove(index);
            self.take(now, asks);
        }
    }

    /// Those of the requests `fit`, by index, that are preferred where flows have spells.
    pub(super) fn preferred(&mut self, fit: &[usize]) -> Vec<usize> {
        if fit.len() < 2 || self.config.spell_blocks == 0 {
            return fit.to_vec();
        }
        match self.rng.uniform() < LEAST_FIRST {
            true => self.least(fit),
            false => self.furthest(fit),
        }
    }

    /// Those with the fewest hops from source to destination, of these the furthest in their
    /// spells, and all short blocks. All nodes of a route see the same numbers, so they prefer the
    /// same flows without coordination.
    pub(super) fn furthest(&self, fit: &[usize]) -> Vec<usize> {
        self.foremost(fit, |Waiting { block, shape, .. }| {
            let left = self.hops_to(shape.destination);
            (Reverse(shape.hops_made.saturating_add(left)), self.config.in_spell(block.number))
        })
    }

    /// Those whose flows have had the fewest blocks so far, and all short blocks.
    pub(super) fn least(&self, fit: &[usize]) -> Vec<usize> {
        self.foremost(fit, |asks| Reverse(asks.block.number))
    }

    /// Those with the highest rank, and all short blocks.
    fn foremost<R: Ord>(&self, fit: &[usize], rank: impl Fn(&Waiting) -> R) -> Vec<usize> {
        let short = self.config.bytes_of_block() / SHORT;
        let is_short = |index: usize| self.waiting[index].shape.length <= short;
        let rank = |index: usize| rank(&self.waiting[index]);
        let long = fit.iter().copied().filter(|index| !is_short(*index));
        let highest = long.map(rank).max();
        let stays = |index: &usize| is_short(*index) || Some(rank(*index)) == highest;
        fit.iter().copied().filter(stays).collect()
    }

    /// Chooses one of the requests `fit` as `withhold` says.
    pub(super) fn choose(&mut self, fit: &[usize]) -> Option<usize> {
        let (fit, waiting) = (fit.iter().copied(), &self.waiting);
        let signal = |index: usize| waiting[index].signal_db;
        match self.config.withhold {
            Withhold::Never | Withhold::Fifo => fit.min_by_key(|index| waiting[*index].since),
            Withhold::BestLink => fit.max_by(|a, b| signal(*a).total_cmp(&signal(*b))),
            Withhold::WeightedSignal => {
                let sum: f64 = fit.clone().map(signal).sum();
                let mut left = self.rng.uniform() * sum;
                let hit = fit.clone().find(|index| {
                    left -= signal(*index);
                    left < 0.0
                });
                hit.or(fit.last())
            }
        }
    }
}
