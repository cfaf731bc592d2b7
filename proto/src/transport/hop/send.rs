//! Transfers to next hops.

use std::collections::{BTreeMap, BTreeSet};

use super::admit::SILENT;
use super::bits::Bits;
use super::block::{Block, End, Phase, Shape, Transfer};
use super::out::Message;
use super::pace::Round;
use super::path::Lap;
use super::{Hop, NextHop};
use crate::base::{Duration, Instant, NodeId, RadioId};
use crate::wire::hop::{BlockId, Body, FlowKey};

/// Shortest time after which a neighbour is asked again.
pub(super) const LEAST_WAIT: Duration = Duration::from_millis(6);
/// Longest time between two requests for one block (500 ms in `hop.md` 3).
pub(super) const LONGEST_WAIT: Duration = Duration::from_millis(1_500);
/// How often a neighbour that has answered for a block is asked before the wait grows.
pub(super) const QUICK_TRIES: u32 = 6;
/// The same for one that has not, and may withhold its answer.
pub(super) const FIRST_TRIES: u32 = 3;
/// The same for urgent blocks: it lasts a second at least.
const URGENT_TRIES: u32 = 20;
/// Answers that a block has to wait for if no frame is lost: one before the first frame and one
/// after the last.
const LEAST_WAITS: u16 = 2;
/// Most such answers that count.
const MOST_WAITS: u16 = 16;
/// Weight of a round in the moving averages of a neighbour.
const ROUND_WEIGHT: f64 = 0.25;

impl Hop {
    /// Tells it over which air each neighbour is reached. Of neighbours that share an air, large
    /// blocks are taken from one at a time. By default, an incomplete block is passed on only to a
    /// neighbour that does not share the air that the rest comes over.
    pub fn set_airs(&mut self, airs: BTreeMap<NodeId, usize>) {
        self.airs = airs;
    }

    /// The air over which a neighbour is reached. All neighbours for which it is unknown count as
    /// one air.
    pub(super) fn air(&self, neighbour: NodeId) -> Option<usize> {
        self.airs.get(&neighbour).copied()
    }

    /// The air that a radio sends on; `None` for a wire.
    pub(super) fn air_of(&self, radio: RadioId) -> Option<usize> {
        self.below.airs.get(&radio).copied()
    }

    /// Starts the transfer of the next block of a flow, if it is time to.
    pub(super) fn forward(&mut self, now: Instant, flow: FlowKey) {
        let own = self.node;
        let (mut next, mut under_way) = (None, 0);
        for (id, block) in self.open_of(flow) {
            // An incomplete block whose sender fell silent holds up no other.
            let is_silent = !block.is_complete() && block.used + SILENT <= now;
            if block.shape.destination == own || is_silent {
                continue;
            }
            if let Some(transfer) = &block.transfer {
                under_way += 1;
                // A relay that does not answer for this block takes none behind it either, so the
                // next one waits for that answer, unless answers take long.
                let is_new = transfer.round == 1 && matches!(transfer.phase, Phase::Asked { .. });
                let is_withheld = is_new
                    && transfer.via != block.shape.destination
                    && self.beside(None, Some(transfer.via)) == 0;
                if under_way >= self.in_flight(transfer.via) || is_withheld {
                    return;
                }
                continue;
            }
            if block.is_complete() || self.may_go_in_part(*id, block) {
                next = Some(*id);
                break;
            }
        }
        if let Some(id) = next {
            self.begin_transfer(now, id, false);
        }
    }

    /// How many blocks of a flow may be under way from and to these neighbours beside the one that
    /// is passed on: as many as fill the waits for answers, and at least one if the two neighbours
    /// are on different airs.
    pub(super) fn beside(&self, from: Option<NodeId>, to: Option<NodeId>) -> u32 {
        let frames = |via: NodeId| {
            self.in_wait(via) * self.waits.get(&via).copied().unwrap_or(LEAST_WAITS.into())
        };
        let blocks = self.config.blocks_of([from, to].into_iter().flatten().map(frames).sum());
        let is_apart = from.zip(to).is_some_and(|(from, to)| self.air(from) != self.air(to));
        blocks.max(is_apart.into())
    }

    /// Frames of blocks that the radio to a neighbour carries during one wait for an answer; 0
    /// where it contends with others for the air.
    fn in_wait(&self, via: NodeId) -> f64 {
        let radio = self.radio_of(via);
        let in_cycle = self.below.in_cycle.get(&radio).map(|frames| f64::from(*frames));
        let on_wire = || {
            let wire = self.below.wires.get(&radio)?;
            let wait = self.answers.round_trip(via).unwrap_or_default().max(wire.round_trip);
            let frame = self.frame_time(via, wire)?;
            Some((wait.as_secs_f64() / frame.as_secs_f64()).max(1.0))
        };
        in_cycle.or_else(on_wire).unwrap_or_default()
    }

    /// A block to or from a neighbour is complete, in this round.
    pub(super) fn on_whole(&mut self, neighbour: NodeId, shape: &Shape, round: u16) {
        // Small blocks do not wait for answers.
        if !shape.is_small() {
            let mean = self.waits.entry(neighbour).or_insert(LEAST_WAITS.into());
            let waits = f64::from(round.clamp(LEAST_WAITS, MOST_WAITS));
            *mean += ROUND_WEIGHT * (waits - *mean);
        }
    }

    /// A block to or from a neighbour needs another round: others will need as many.
    pub(super) fn on_another_round(&mut self, neighbour: NodeId, shape: &Shape, round: u16) {
        if !shape.is_small() {
            let mean = self.waits.entry(neighbour).or_insert(LEAST_WAITS.into());
            *mean = mean.max(round.min(MOST_WAITS).into());
        }
    }

    /// H and L of a flow that has so many blocks beside the one that is passed on.
    pub(super) fn high_low(&self, beside: u32) -> [u32; 2] {
        [self.config.high_blocks, self.config.low_blocks].map(|at| at.saturating_add(beside))
    }

    /// Blocks of a flow that are sent to a neighbour at the same time.
    pub(super) fn in_flight(&self, via: NodeId) -> u32 {
        self.config.in_flight.unwrap_or_else(|| 1 + self.beside(None, Some(via)).max(1))
    }

    /// Whether an incomplete block may be passed on while the rest of it comes: a relay that sends
    /// and receives at once on one air collides with nodes that it cannot hear.
    fn may_go_in_part(&self, id: BlockId, block: &Block) -> bool {
        let is_apart = || {
            let from = self.receptions.values().find(|reception| reception.has(id))?.via;
            let to = self.next_hop(block.shape.destination)?;
            Some(self.air(from)? != self.air(to)?)
        };
        let has_turn = block.have.count() >= self.config.turn_frames;
        let is_taken_apart = || self.below.has_schedule || is_apart().unwrap_or_default();
        has_turn && self.config.pipeline.unwrap_or_else(is_taken_apart)
    }

    /// Starts the next transfer of every flow.
    pub(super) fn forward_all(&mut self, now: Instant) {
        let flows: BTreeSet<FlowKey> = self.blocks.keys().map(|id| id.flow).collect();
        flows.into_iter().for_each(|flow| self.forward(now, flow));
    }

    /// Offers a block to the next hop; does nothing if no route was ever known.
    pub(super) fn begin_transfer(&mut self, now: Instant, id: BlockId, is_virtual: bool) {
        let Some(shape) = self.blocks.get(&id).map(|block| block.shape) else { return };
        let Some(via) = self.take_way(now, shape.destination) else { return };
        let most = self.round_frames(via);
        if is_virtual && !self.begin_asking(now, id) {
            return;
        }
        // The frames of a small block follow its request, which is not answered in the first round;
        // but those for a neighbour that is gone would wait in the radio.
        let is_small = shape.is_small() && !is_virtual;
        let is_at_once = is_small && !self.is_gone(via);
        let Some(block) = self.blocks.get_mut(&id) else { return };
        let frames = block.shape.frames;
        block.used = now;
        block.transfer = Some(Transfer {
            via,
            round: if is_small && !is_at_once { 2 } else { 1 },
            theirs: Bits::none(frames),
            sent: Bits::none(frames),
            cursor: 0,
            most,
            began: now,
            in_radio: 0,
            phase: Phase::Asked { first: now, since: now, due: now, tries: 0 },
            is_answered: false,
            is_virtual,
            credit: 0.0,
        });
        self.ask(now, id);
        if is_at_once && self.blocks.get(&id).is_some_and(|block| block.transfer.is_some()) {
            self.begin_sending(now, id);
        }
    }

    /// Asks the next hop which frames it has.
    pub(super) fn ask(&mut self, now: Instant, id: BlockId) {
        let Some(block) = self.blocks.get(&id).filter(|block| block.transfer.is_some()) else {
            return;
        };
        let way = self.take_way(now, block.shape.destination);
        let block = self.blocks.get_mut(&id).expect("it was there");
        let transfer = block.transfer.as_mut().expect("it was there");
        let is_heard = !matches!(transfer.phase, Phase::Asked { tries, .. } if tries > QUICK_TRIES);
        // The route may have changed.
        if self.config.next_hop == NextHop::Raw || !is_heard {
            transfer.go_over(way.unwrap_or(transfer.via));
        }
        let (first, tries) = match transfer.phase {
            Phase::Asked { first, tries, .. } => (first, tries + 1),
            Phase::Sending | Phase::Paused { .. } => {
                // The first request of a small block is not answered: frames follow it.
                let is_small = block.shape.is_small();
                transfer.round = transfer.round.max(if is_small { 2 } else { 1 });
                (now, 1)
            }
        };
        let usual = self.answers.wait(transfer.via);
        // A neighbour that has answered for the block withholds nothing for it: silence is a loss
        // then.
        let quick = match transfer.round {
            _ if block.shape.is_urgent(id.number) => URGENT_TRIES,
            1 => FIRST_TRIES,
            _ => QUICK_TRIES,
        };
        let grown = tries.saturating_sub(quick).min(16);
        let wait = (0..grown).fold(usual, |wait, _| wait * 3 / 2).min(LONGEST_WAIT);
        let via = transfer.via;
        transfer.phase = Phase::Asked { first, since: now, due: now + wait, tries };
        self.ask_by_turns(now, id, via);
        if !self.is_tried(via) {
            self.queue(Message::Request { block: id });
        }
    }

    /// Asks again, unless the rest of the block no longer comes, or the block is gone: another one
    /// that was begun in the meantime may have needed its memory.
    pub(super) fn ask_again(&mut self, now: Instant, id: BlockId) {
        let Some(block) = self.blocks.get_mut(&id) else { return };
        if !block.is_complete() && block.used + SILENT <= now {
            (block.transfer, block.goes_around) = (None, false);
            self.end_asking(id);
            // Another block of its flow may have waited for it.
            self.forward(now, id.flow);
        } else {
            self.ask(now, id);
        }
    }

    /// The request of a transfer, as it goes out.
    pub(super) fn request(&mut self, id: BlockId) -> Option<(BlockId, NodeId, Shape, Body)> {
        let block = self.blocks.get(&id)?;
        let transfer = block.transfer.as_ref()?;
        self.counters.requests += 1;
        let Shape { length, crc, .. } = block.shape;
        let (round, is_virtual) = (transfer.round, transfer.is_virtual);
        let shape = Shape { hops_made: block.hops, ..block.shape };
        Some((id, transfer.via, shape, Body::Request { round, is_virtual, length, crc }))
    }

    /// The next hop told which frames it has.
    pub(super) fn on_answer(
        &mut self,
        now: Instant,
        id: BlockId,
        via: NodeId,
        round: u16,
        bits: &[u8],
    ) {
        let Some(block) = self.blocks.get_mut(&id) else {
            self.counters.unknown += 1;
            return;
        };
        let Some(theirs) = Bits::read(block.shape.frames, bits) else {
            self.counters.contradictions += 1;
            return;
        };
        let Some(transfer) = &mut block.transfer else { return };
        if transfer.via != via || transfer.round != round {
            return;
        }
        // It has frames that were never here: another node has sent it the whole block.
        if theirs.is_full() && !block.have.is_full() {
            return;
        }
        transfer.is_answered = true;
        if let Some(reach) = self.reach.get_mut(&via) {
            reach.refusing = None;
        }
        let lap = Lap::of(transfer);
        if let Phase::Asked { first, tries: 1, .. } = transfer.phase {
            self.answers.on_answer(via, now.since(first));
        }
        if let Some((first, _)) = lap.asked {
            self.answers.on_round_trip(via, now.since(first));
        }
        let round = Round::of(&transfer.sent, &theirs);
        if round.sent > 0 {
            let rate = round.share();
            let mean = self.delivery.entry(via).or_insert(1.0);
            *mean += ROUND_WEIGHT * (rate - *mean);
        }
        if theirs.is_full() {
            let (shape, waits) = (block.shape, transfer.round);
            if !transfer.is_virtual {
                self.on_whole(via, &shape, waits);
            }
            // The answer may have waited until the block was safe there.
            self.on_path_round(now, via, round, Lap { asked: None, ..lap });
            self.on_round_end(via, round);
            return self.on_passed_on(now, id);
        }
        if !matches!(transfer.phase, Phase::Asked { .. }) {
            return;
        }
        (transfer.theirs, transfer.sent) = (theirs, Bits::none(block.shape.frames));
        transfer.cursor = 0;
        self.on_path_round(now, via, round, lap);
        let pause = self.on_round_end(via, round);
        self.begin_round(now, id, via, pause);
    }

    /// Sends the frames that the next hop is missing, after a pause if there is to be one.
    fn begin_round(&mut self, now: Instant, id: BlockId, via: NodeId, pause: Duration) {
        let is_paused = pause > Duration::ZERO;
        let most = self.round_frames(via).min(self.path_frames(now, via));
        let block = self.blocks.get_mut(&id).expect("it was there");
        if let Some(transfer) = &mut block.transfer {
            transfer.most = most;
            if is_paused {
                transfer.phase = Phase::Paused { until: now + pause };
            }
        }
        if !is_paused {
            self.begin_sending(now, id);
            self.on_round(now, id);
            self.forward(now, id.flow);
        }
    }

    fn on_passed_on(&mut self, now: Instant, id: BlockId) {
        let block = self.blocks.get_mut(&id).expect("the caller has looked");
        if block.is_open() {
            self.counters.blocks_passed_on += 1;
        }
        block.passed_to = block.transfer.take().map(|transfer| transfer.via);
        block.end = End::PassedOn { at: now };
        let is_there = block.passed_to == Some(block.shape.destination);
        let goes_around = std::mem::take(&mut block.goes_around) && !is_there;
        let (shape, asked) = (block.shape, block.asked.filter(|_| !block.is_safe));
        self.open.remove(&id);
        self.end_brake(id.flow);
        if let Some((to, round)) = asked {
            self.queue(Message::Answer { block: id, to, round, shape });
        }
        self.end_asking(id);
        if goes_around {
            self.begin_transfer(now, id, true);
        }
        self.forward(now, id.flow);
        // The flow may no longer be braked.
        self.admit_next(now);
    }

    /// New frames are here: they are sent too if the block is being passed on.
    pub(super) fn on_more(&mut self, now: Instant, id: BlockId) {
        let Some(block) = self.blocks.get(&id) else { return };
        let turn = u32::from(self.config.turn_frames);
        let is_sending =
            block.transfer.as_ref().is_some_and(|transfer| transfer.phase == Phase::Sending);
        let is_worth_it = block.is_complete() || block.ready() >= turn;
        if is_sending && is_worth_it {
            self.give_turn(id);
        }
        self.on_round(now, id);
    }

    /// A frame of a block has left the radio.
    pub(super) fn on_frame_out(&mut self, now: Instant, id: BlockId) {
        let transfer = self.blocks.get_mut(&id).and_then(|block| block.transfer.as_mut());
        if let Some(transfer) = transfer {
            transfer.in_radio = transfer.in_radio.saturating_sub(1);
        }
        self.on_round(now, id);
    }

    /// Ends the round once all frames that are here were sent and have left the radio.
    pub(super) fn on_round(&mut self, now: Instant, id: BlockId) {
        let Some(block) = self.blocks.get_mut(&id) else { return };
        let is_idle =
            |transfer: &Transfer| transfer.phase == Phase::Sending && transfer.in_radio == 0;
        if !block.transfer.as_ref().is_some_and(is_idle) {
            return;
        }
        let is_whole = block.is_complete() && block.ready() == 0;
        let Some(transfer) = &block.transfer else { return };
        if is_whole || u32::from(transfer.sent.count()) >= transfer.most {
            self.end_round(now, id);
        }
    }

    /// Asks which of the frames that were sent are missing.
    pub(super) fn end_round(&mut self, now: Instant, id: BlockId) {
        let Some(block) = self.blocks.get_mut(&id) else { return };
        if let Some(transfer) = &mut block.transfer {
            // A request in round 0 or 1 for a small block is not answered.
            transfer.round = transfer.round.checked_add(1).unwrap_or(2);
            let (shape, via, round) = (block.shape, transfer.via, transfer.round);
            self.on_another_round(via, &shape, round);
            self.ask(now, id);
        }
    }
}
