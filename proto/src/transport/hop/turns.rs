//! Whose frame is sent next (`hop.md` 8): blocks take turns on each radio separately, so that a
//! slow radio does not hold up another.

use std::collections::VecDeque;

use super::block::{Block, Phase};
use super::park::Place;
use super::{Hop, Schedule};
use crate::base::{Instant, NodeId, RadioId};
use crate::wire::hop::BlockId;

/// Least share of delivered frames that turns are computed from.
const LEAST_DELIVERY: f64 = 0.05;

/// What is sent over one radio.
#[derive(Debug, Default)]
pub(super) struct Outlet {
    /// Blocks with frames to send; the first has its turn.
    turns: VecDeque<BlockId>,
    /// Frames that were sent in this turn.
    turn_used: u16,
    /// Frames that the radio has.
    pub(super) frames: u32,
}

impl Outlet {
    fn end_turn(&mut self) {
        self.turns.pop_front();
        self.turn_used = 0;
    }

    /// Whether a block has frames for this radio.
    pub(super) fn has_turns(&self) -> bool {
        !self.turns.is_empty()
    }
}

impl Hop {
    /// The radio that reaches a neighbour.
    pub(super) fn radio_of(&self, via: NodeId) -> RadioId {
        self.radios.get(&via).copied().unwrap_or_default()
    }

    /// The next hop of a block that is being transferred.
    fn via_of(&self, id: &BlockId) -> Option<NodeId> {
        Some(self.blocks.get(id)?.transfer.as_ref()?.via)
    }

    /// Frames of blocks that the radios of an air have.
    pub(super) fn frames_on(&self, air: usize) -> u32 {
        let on_air = self.outlets.iter().filter(|(radio, _)| self.air_of(**radio) == Some(air));
        on_air.map(|(radio, outlet)| outlet.frames - self.away.frames(*radio)).sum()
    }

    /// The neighbour whose turn it is on a radio.
    pub(super) fn first_of(&self, radio: RadioId) -> Option<NodeId> {
        self.outlets.get(&radio)?.turns.iter().find_map(|id| self.via_of(id))
    }

    /// A block has frames to send from now on. If it already waits for a turn since before a pause,
    /// it gets no second one.
    pub(super) fn give_turn(&mut self, id: BlockId) {
        let Some(via) = self.via_of(&id) else { return };
        let outlet = self.outlets.entry(self.radio_of(via)).or_default();
        if !outlet.turns.contains(&id) {
            outlet.turns.push_back(id);
        }
    }

    /// How many turns a block waits for.
    #[cfg(test)]
    pub(super) fn turns_of(&self, id: BlockId) -> usize {
        let all = self.outlets.values().flat_map(|outlet| &outlet.turns);
        all.filter(|turn| **turn == id).count()
    }

    /// A neighbour is reached over another radio from now on.
    pub(super) fn give_turns_again(&mut self, via: NodeId) {
        let is_sent = |(_, block): &(&BlockId, &Block)| {
            let transfer = block.transfer.as_ref();
            transfer.is_some_and(|it| it.via == via && it.phase == Phase::Sending)
        };
        let sent: Vec<BlockId> = self.blocks.iter().filter(is_sent).map(|(id, _)| *id).collect();
        sent.into_iter().for_each(|id| self.give_turn(id));
    }

    /// The next frame for a radio, of the block whose turn it is, or of small blocks only.
    pub(super) fn next_frame(
        &mut self,
        now: Instant,
        radio: RadioId,
        only_small: bool,
    ) -> Option<(BlockId, u16)> {
        let air = self.air_of(radio);
        if air.is_some_and(|air| self.is_before_gap(now, air)) {
            return None;
        }
        let is_gap = only_small || air.is_some_and(|air| self.is_gap(air));
        // In each cycle of turns, a transfer gets a credit of at least `LEAST_DELIVERY`, so this
        // ends.
        while !is_gap || self.small_first(radio) {
            let id = self.oldest_of_first(now, radio, is_gap)?;
            let frame = self.frame_of(id, radio);
            let is_new = self.outlets[&radio].turn_used == 0;
            let is_begun = frame.is_some() && (!is_new || self.may_begin_turn(id, radio));
            let turn_frames = self.config.turn_frames;
            let outlet = self.outlets.get_mut(&radio)?;
            outlet.turn_used += u16::from(is_begun);
            if !is_begun || outlet.turn_used >= turn_frames {
                outlet.end_turn();
                if frame.is_some() {
                    outlet.turns.push_back(id);
                }
            }
            if is_begun {
                return frame.map(|frame| (id, frame));
            }
        }
        None
    }

    /// Puts the oldest block of the flow whose turn it is first, in a gap the oldest small one:
    /// later ones are for the time in which it waits.
    fn oldest_of_first(&mut self, now: Instant, radio: RadioId, is_gap: bool) -> Option<BlockId> {
        if self.is_open_radio(radio) {
            self.skip_paths_that_are_full(now, radio)?;
        }
        let turns = &self.outlets.get(&radio)?.turns;
        let first = *turns.front()?;
        let may_go = |id: &BlockId| id.flow == first.flow && (!is_gap || self.is_small(id));
        let same = turns.iter().enumerate().filter(|(_, id)| may_go(id));
        let (index, oldest) = same.min_by_key(|(_, id)| id.number).map(|(at, id)| (at, *id))?;
        self.outlets.get_mut(&radio)?.turns.swap(0, index);
        Some(oldest)
    }

    /// Puts a block first whose path can take a frame now, if there is one.
    fn skip_paths_that_are_full(&mut self, now: Instant, radio: RadioId) -> Option<()> {
        let mut at = 0;
        while let Some(via) = self.via_of(self.outlets.get(&radio)?.turns.get(at)?)
            && !self.may_go_to(now, via)
        {
            at += 1;
        }
        if at > 0 {
            let outlet = self.outlets.get_mut(&radio)?;
            outlet.turns.rotate_left(at);
            outlet.turn_used = 0;
        }
        Some(())
    }

    /// Puts a small block before the others that have turns on a radio. Returns whether there is
    /// one.
    fn small_first(&mut self, radio: RadioId) -> bool {
        let turns = self.outlets.get(&radio).map(|outlet| &outlet.turns);
        let index = turns.and_then(|turns| turns.iter().position(|id| self.is_small(id)));
        if let Some(index) = index.filter(|index| *index > 0)
            && let Some(outlet) = self.outlets.get_mut(&radio)
        {
            outlet.turns.swap(0, index);
            outlet.turn_used = 0;
        }
        index.is_some()
    }

    /// Whether a transfer has its turn, or lets others go first whose next hops receive more.
    fn may_begin_turn(&mut self, id: BlockId, radio: RadioId) -> bool {
        let turns = &self.outlets[&radio].turns;
        if self.config.schedule == Schedule::RoundRobin || turns.len() == 1 {
            return true;
        }
        let of = |via: NodeId| self.delivery.get(&via).copied().unwrap_or(1.0).max(LEAST_DELIVERY);
        let vias = turns.iter().filter_map(|id| self.via_of(id));
        let best = vias.map(of).fold(LEAST_DELIVERY, f64::max);
        let share = self.via_of(&id).map_or(1.0, of) / best;
        let transfer = self.blocks.get_mut(&id).and_then(|block| block.transfer.as_mut());
        let Some(transfer) = transfer else { return true };
        transfer.credit += share;
        // A whole turn, but for rounding.
        let is_enough = transfer.credit > 1.0 - 1e-9;
        if is_enough {
            transfer.credit -= 1.0;
        }
        is_enough
    }

    /// A frame that the next hop of a block is missing, if this radio reaches it.
    fn frame_of(&mut self, id: BlockId, radio: RadioId) -> Option<u16> {
        if self.radio_of(self.via_of(&id)?) != radio {
            return None;
        }
        let block = self.blocks.get_mut(&id).filter(|block| block.place == Place::Memory)?;
        let transfer = block.transfer.as_mut().filter(|one| one.phase == Phase::Sending)?;
        if u32::from(transfer.sent.count()) >= transfer.most {
            return None;
        }
        let others = [&transfer.theirs, &transfer.sent];
        // Before the cursor, there is something only if frames came late: one search is enough.
        let found = block.have.next_beyond(transfer.cursor, others);
        let frame = found.or_else(|| block.have.next_beyond(0, others))?;
        transfer.cursor = frame;
        Some(frame)
    }
}
