//! Receptions: of neighbours that share an air, a node takes large blocks from one at a time.

use std::collections::BTreeMap;

use super::Hop;
use super::admit::{SILENT, Waiting};
use super::out::Message;
use crate::base::{Duration, Instant, NodeId};
use crate::wire::hop::BlockId;

/// How long a node waits for a neighbour that falls silent in the midst of a block.
const HOLD: Duration = Duration::from_millis(500);
/// How long it waits, while others wait too, for the next request of a neighbour whose block is
/// complete: the turn of another sender on air, and an answer.
const NEXT: Duration = Duration::from_millis(20);
/// Over a link with a schedule, blocks that come at the same time may take this part of the memory.
const TURNS_PART: u64 = 4;

/// The neighbour from which a node takes large blocks over one air.
#[derive(Clone, Debug)]
pub(super) struct Reception {
    pub(super) via: NodeId,
    /// Blocks under way. If there is none, the neighbour has a moment to ask for its next block, so
    /// that it takes part in the choice: it could not ask before.
    blocks: BTreeMap<BlockId, Answered>,
    heard: Instant,
    /// When a frame that was not here came last, or a block was taken.
    advanced: Instant,
}

/// Answers for a block under way that the link does not acknowledge, so that nobody repeats a lost
/// one.
#[derive(Clone, Copy, Debug, Default)]
struct Answered {
    /// When the first answer left, if nothing of the block had come before.
    first: Option<Instant>,
    /// When an answer is repeated, and which.
    again: Option<(Instant, Message)>,
}

impl Reception {
    pub(super) fn of(via: NodeId, now: Instant) -> Self {
        Self { via, blocks: BTreeMap::new(), heard: now, advanced: now }
    }

    /// Whether the neighbour has a moment to ask for its next block.
    pub(super) fn is_about_to_ask(&self) -> bool {
        self.blocks.is_empty()
    }

    pub(super) fn has(&self, block: BlockId) -> bool {
        self.blocks.contains_key(&block)
    }

    /// The neighbour asks for a block.
    pub(super) fn on_request(&mut self, now: Instant, block: BlockId) {
        self.heard = now;
        if !self.has(block) {
            self.advanced = now;
        }
        self.blocks.entry(block).or_default().again = None;
    }

    /// A frame of a block has come. Returns the time since the first answer for it.
    pub(super) fn on_frame(&mut self, now: Instant, block: BlockId) -> Option<Duration> {
        self.heard = now;
        let answered = self.blocks.insert(block, Answered::default());
        Some(now.since(answered?.first?))
    }

    /// A frame that was not here has come.
    pub(super) fn on_progress(&mut self, now: Instant) {
        self.advanced = now;
    }

    /// When the neighbour will have been silent for too long, or have asked in vain: it must not
    /// keep others waiting by requests alone.
    pub(super) fn deadline(&self) -> Instant {
        match self.blocks.is_empty() {
            true => self.heard + NEXT,
            false => (self.heard + HOLD).min(self.advanced + SILENT),
        }
    }

    /// When something is to be done.
    pub(super) fn poll_timeout(&self) -> Instant {
        let again = self.blocks.values().filter_map(|answered| answered.again);
        again.map(|(due, _)| due).min().map_or(self.deadline(), |due| due.min(self.deadline()))
    }
}

impl Hop {
    /// Whether a neighbour may send another block beside those that it is sending: no other
    /// neighbour of its air waits, and it has no more in flight than usual.
    pub(super) fn may_join(&self, reception: &Reception, asks: &Waiting) -> bool {
        let air = self.air(asks.via);
        let is_no_rival = |other: &Waiting| other.via == asks.via || self.air(other.via) != air;
        let count = reception.blocks.len();
        let has_place = count < self.in_flight(asks.via) as usize || self.is_open(asks.via);
        reception.via == asks.via && count > 0 && has_place && self.waiting.iter().all(is_no_rival)
    }

    /// Whether blocks of several neighbours may come at the same time: a schedule gives each its
    /// turn on air, and together the blocks leave memory for others.
    pub(super) fn has_turns_for(&self, reception: &Reception, asks: &Waiting) -> bool {
        let of_all = asks.shape.cost() * (reception.blocks.len() as u64 + 1);
        self.below.has_schedule && of_all <= self.config.memory_bytes / TURNS_PART
    }

    /// A block is complete, or was dropped.
    pub(super) fn end_reception(&mut self, id: BlockId) {
        let waited = self.waited();
        self.receptions.retain(|air, reception| {
            reception.blocks.remove(&id);
            !reception.blocks.is_empty() || waited.contains(air)
        });
    }

    /// An answer was sent that the link does not acknowledge, so nobody repeats it if it is lost.
    /// The neighbour asks again, but may have learned to ask seldom while it was not answered.
    pub(super) fn on_answer_out(&mut self, now: Instant, answer: Message, to: NodeId) {
        let Message::Answer { block, .. } = answer else { return };
        let due = now + self.answers.wait(to);
        let taken = self.receptions.values_mut().filter(|one| one.via == to);
        if let Some(answered) = taken.filter_map(|one| one.blocks.get_mut(&block)).next() {
            // Only before the first frame: later answers may leave while frames come for an earlier
            // one.
            if self.blocks.get(&block).is_some_and(|block| block.have.count() == 0) {
                answered.first.get_or_insert(now);
            }
            answered.again = Some((due, answer));
        }
    }

    /// Repeats answers to which nothing has come, and takes others in place of neighbours that have
    /// been silent for too long.
    pub(super) fn watch_receptions(&mut self, now: Instant) {
        let before = self.receptions.len();
        self.receptions.retain(|_, reception| reception.deadline() > now);
        let is_fewer = self.receptions.len() < before;
        let all = self.receptions.values_mut().flat_map(|one| one.blocks.values_mut());
        let due = all.filter_map(|answered| answered.again.take_if(|(due, _)| *due <= now));
        let due: Vec<Message> = due.map(|(_, answer)| answer).collect();
        due.into_iter().for_each(|answer| self.queue(answer));
        if is_fewer {
            self.admit_next(now);
        }
    }
}
