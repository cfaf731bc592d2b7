//! Requests for the destination's acknowledgement: the source of a block asks whether it has
//! arrived if it does not hear of it (virtual retransmission; `hop.md` 5).

use super::Hop;
use super::block::{Block, End, Phase};
use super::send::FIRST_TRIES;
use crate::base::{Duration, Instant, NodeId};
use crate::wire::hop::BlockId;

/// Shortest wait where the source asks early: a relay passes on such a request four times a second.
const SOONEST: Duration = Duration::from_millis(300);
/// Wait where nothing has arrived at the destination yet.
const AT_FIRST: Duration = Duration::from_secs(1);
/// Wait as a multiple of the time in which blocks usually arrive.
const TIMES_USUAL: u64 = 4;

impl Hop {
    /// When to ask whether a block of ours has arrived; `None` if it is not to be asked for now.
    pub(super) fn asks_for_arrival_at(&self, id: &BlockId, block: &Block) -> Option<Instant> {
        let End::PassedOn { at } = block.end else { return None };
        self.waits_for_arrival(id, block).then(|| at + self.arrival_wait(block))
    }

    /// How long to wait for the destination's acknowledgement. If the next hop acknowledges
    /// nothing, it may well be lost: it is asked for once it is due, and then at intervals that
    /// double.
    fn arrival_wait(&self, block: &Block) -> Duration {
        let most = self.config.end_to_end();
        let destination = block.shape.destination;
        let via = block.passed_to.or_else(|| self.next_hop(destination));
        if !via.is_some_and(|via| self.unacknowledged.contains(&via)) {
            return most;
        }
        let usual = self.arrival_time.get(&destination).map(|mean| *mean * TIMES_USUAL);
        let wait = usual.map_or(AT_FIRST, |usual| usual.max(SOONEST));
        (wait.min(most) * (1 << u64::from(block.times_asked.min(16)))).min(most)
    }

    /// A block of ours arrived this long after the next hop had it.
    pub(super) fn on_arrival_time(&mut self, destination: NodeId, took: Duration) {
        let mean = self.arrival_time.entry(destination).or_insert(took);
        *mean = (*mean * 7 + took) / 8;
    }

    /// Whether a block of ours is with the next hop, and its acknowledgement may be asked for.
    fn waits_for_arrival(&self, id: &BlockId, block: &Block) -> bool {
        let is_out = block.transfer.is_none() && matches!(block.end, End::PassedOn { .. });
        // An early block cannot arrive before the first of its flow, which is asked for instead.
        let may_be_there = is_out && !block.shape.is_early;
        may_be_there && id.flow.source == self.node && self.may_ask_for(id)
    }

    /// Whether the acknowledgement of a block may be asked for: for one block of a flow at a time.
    /// If the next hop does not answer for that block, it gives way to an older one at once, and to
    /// any other after a few tries: the next hop may withhold the answer until it has that other
    /// block.
    fn may_ask_for(&self, id: &BlockId) -> bool {
        let Some(asked) = self.asking.get(&id.flow) else { return true };
        let transfer = self.blocks.get(asked).and_then(|block| block.transfer.as_ref());
        match transfer.map(|transfer| transfer.phase) {
            _ if asked == id => true,
            Some(Phase::Asked { tries, .. }) => id < asked || tries > FIRST_TRIES,
            _ => false,
        }
    }

    /// Asks for this block in place of any other of its flow. Returns whether it may.
    pub(super) fn begin_asking(&mut self, now: Instant, id: BlockId) -> bool {
        if !self.may_ask_for(&id) {
            return false;
        }
        let other = self.asking.insert(id.flow, id).filter(|other| *other != id);
        if let Some(block) = other.and_then(|other| self.blocks.get_mut(&other)) {
            (block.transfer, block.end) = (None, End::PassedOn { at: now });
            block.goes_around = false;
        }
        true
    }

    /// Asks for blocks that should have arrived, one of each flow at a time (`hop.md` 5). Asking
    /// for one may make others overdue, so this is repeated until none is.
    pub(super) fn ask_for_arrivals(&mut self, now: Instant) {
        loop {
            let is_overdue = |(id, block): &(&BlockId, &Block)| {
                self.asks_for_arrival_at(id, block).is_some_and(|due| due <= now)
            };
            let overdue: Vec<BlockId> =
                self.blocks.iter().filter(is_overdue).map(|(id, _)| *id).collect();
            if overdue.is_empty() {
                return;
            }
            self.ask_for(now, overdue);
        }
    }

    fn ask_for(&mut self, now: Instant, overdue: Vec<BlockId>) {
        for id in overdue {
            if !self.may_ask_for(&id) {
                continue;
            }
            self.counters.virtual_requests += 1;
            if let Some(block) = self.blocks.get_mut(&id) {
                block.times_asked = block.times_asked.saturating_add(1);
                (block.hops, block.straight_hops) = (0, 0);
            }
            self.begin_transfer(now, id, true);
            // Without a route it is tried again later.
            let block = self.blocks.get_mut(&id).filter(|block| block.transfer.is_none());
            if let Some(block) = block {
                block.end = End::PassedOn { at: now };
            }
        }
    }

    /// The acknowledgement of this block is no longer asked for.
    pub(super) fn end_asking(&mut self, id: BlockId) {
        if self.asking.get(&id.flow) == Some(&id) {
            self.asking.remove(&id.flow);
        }
    }
}
