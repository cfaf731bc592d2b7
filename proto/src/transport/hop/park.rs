//! Parking: the bytes of blocks that nobody is sending leave memory when other blocks need it, and
//! are read back from disk before they are sent (`hop.md` 9).

use super::admit::Waiting;
use super::block::{Block, End, Phase};
use super::send::QUICK_TRIES;
use super::{Hop, Keep, Whole};
use crate::base::{Duration, Instant};
use crate::wire::hop::BlockId;

/// How long a transfer pauses for which there is no memory.
const NO_MEMORY_PAUSE: Duration = Duration::from_millis(200);

/// How long a disk counts as full after it could not store a block.
const FULL: Duration = Duration::from_secs(10);

/// Where the bytes of a complete block are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In memory; if the block is safe, also in storage.
    Memory,
    /// Only in storage.
    Kept,
    /// Being read back, with memory set aside.
    Coming,
}

impl Hop {
    /// Whether the bytes of a block may leave memory, and how soon (the lowest rank first): first
    /// those of blocks that the next hop has, then of those without a transfer, then of those whose
    /// next hop does not answer.
    pub(super) fn park_rank(&self, id: &BlockId, block: &Block) -> Option<u8> {
        let is_kept = self.keeps && block.is_safe && id.flow.source != self.node;
        let is_whole = block.place == Place::Memory && block.is_complete();
        if !is_kept || !is_whole || block.shape.destination == self.node {
            return None;
        }
        let is_silent = |phase| matches!(phase, Phase::Asked { tries, .. } if tries > QUICK_TRIES);
        match &block.transfer {
            None if block.end == End::Open => Some(1),
            None => Some(0),
            Some(transfer) => (transfer.in_radio == 0 && is_silent(transfer.phase)).then_some(2),
        }
    }

    /// Parks one block of the lowest rank, the least recently used one. Returns whether there was
    /// one.
    pub(super) fn park_one(&mut self) -> bool {
        let rank = |(id, block)| Some((self.park_rank(id, block)?, block.used, *id));
        let Some((.., id)) = self.blocks.iter().filter_map(rank).min() else { return false };
        self.move_to(id, Place::Kept);
        self.counters.parked += 1;
        true
    }

    /// Frees the memory of a block's bytes, or sets memory aside for them again.
    fn move_to(&mut self, id: BlockId, place: Place) {
        let block = self.blocks.get_mut(&id).expect("the caller has looked");
        self.memory -= block.cost();
        (block.place, block.data) = (place, Vec::new());
        self.memory += block.cost();
    }

    /// Bytes of other nodes' blocks that are in storage, or will be.
    pub(super) fn kept_bytes(&self) -> u64 {
        let is_kept = |(id, block): &(&BlockId, &Block)| {
            id.flow.source != self.node && block.is_complete() && block.end != End::Given
        };
        let length = |(_, block): (&BlockId, &Block)| u64::from(block.shape.length);
        self.blocks.iter().filter(is_kept).map(length).sum()
    }

    /// A block could not be stored. It is not acknowledged, and may come again.
    pub fn handle_not_kept(&mut self, now: Instant, id: BlockId) {
        self.full_until = now + FULL;
        self.end_writing(id);
        // Once the next hop or the application has it, it need not be stored.
        if self.blocks.get(&id).is_some_and(|block| block.is_open() && !block.is_safe) {
            self.counters.not_kept += 1;
            self.remove(id);
        }
    }

    /// Whether a large block would come in vain because the disk is full. One that the application
    /// here is given at once need not be stored by this machine.
    pub(super) fn is_in_vain(&self, now: Instant, asks: &Waiting) -> bool {
        let arrivals = self.arrivals.get(&asks.block.flow);
        let is_next = arrivals.is_some_and(|flow| flow.next == asks.block.number);
        now < self.full_until && !asks.shape.is_small() && !is_next
    }

    /// Sends frames of a block. If its bytes are not in memory, they are read back first; if there
    /// is no memory for them, the transfer pauses.
    pub(super) fn begin_sending(&mut self, now: Instant, id: BlockId) {
        let Some(block) = self.blocks.get_mut(&id) else { return };
        let cost = block.shape.cost();
        let Some(transfer) = &mut block.transfer else { return };
        transfer.phase = Phase::Sending;
        match block.place {
            Place::Memory => return self.give_turn(id),
            Place::Coming => return,
            Place::Kept => {}
        }
        // This never drops the block itself: with a transfer it is not spare.
        if !self.make_memory(now, cost) {
            let block = self.blocks.get_mut(&id).expect("it has a transfer");
            if let Some(transfer) = &mut block.transfer {
                transfer.phase = Phase::Paused { until: now + NO_MEMORY_PAUSE };
            }
            return;
        }
        self.move_to(id, Place::Coming);
        self.keep.push_back(Keep::Get(id));
    }

    /// Takes the bytes of a block that were asked for; without them, or if they are wrong, the
    /// block is dropped as if it had never come.
    pub fn handle_got(&mut self, now: Instant, id: BlockId, whole: Option<Whole>) {
        let Some(block) = self.blocks.get_mut(&id).filter(|one| one.place == Place::Coming) else {
            return;
        };
        let whole = whole.filter(|whole| whole.shape.is_same(&block.shape));
        block.data = whole.map_or(Vec::new(), |whole| whole.frames);
        block.place = Place::Memory;
        let frames = usize::from(block.shape.frames);
        if block.data.len() != frames || !block.verify() {
            self.counters.corrupt += 1;
            self.remove(id);
            return;
        }
        if matches!(&block.transfer, Some(transfer) if transfer.phase == Phase::Sending) {
            self.give_turn(id);
            self.on_round(now, id);
        }
    }
}
