//! Memory first, then the disk (`hop.md` 9): the bytes of blocks that nobody sends now leave memory
//! when others need it, and are asked for again when they are to go out.

use super::admit::Waiting;
use super::block::{Block, End, Phase};
use super::send::QUICK_TRIES;
use super::{Hop, Keep, Whole};
use crate::base::{Duration, Instant};
use crate::wire::hop::BlockId;

/// After this time it is tried again to get memory for a block that is to go out.
const NO_MEMORY_PAUSE: Duration = Duration::from_millis(200);

/// So long a disk that could not keep a block is taken to be full.
const FULL: Duration = Duration::from_secs(10);

/// Where the bytes of a whole block are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In memory, and where it is kept as well if it is safe.
    Memory,
    /// Only where it is kept.
    Kept,
    /// Asked for, with memory set aside.
    Coming,
}

impl Hop {
    /// Whether the bytes of a block may leave memory, and the lower the sooner: first those of
    /// blocks that others have, then of those that nobody sends, then of those whose next hop says
    /// nothing.
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

    /// Has the bytes of one block leave memory, of equals that which has mattered least lately.
    /// Returns whether there was one.
    pub(super) fn park_one(&mut self) -> bool {
        let rank = |(id, block)| Some((self.park_rank(id, block)?, block.used, *id));
        let Some((.., id)) = self.blocks.iter().filter_map(rank).min() else { return false };
        self.move_to(id, Place::Kept);
        self.counters.parked += 1;
        true
    }

    /// The bytes of a block that is here leave memory, or have memory set aside again.
    fn move_to(&mut self, id: BlockId, place: Place) {
        let block = self.blocks.get_mut(&id).expect("the caller has looked");
        self.memory -= block.cost();
        (block.place, block.data) = (place, Vec::new());
        self.memory += block.cost();
    }

    /// Bytes of blocks of others that are kept, or are to be.
    pub(super) fn kept_bytes(&self) -> u64 {
        let is_kept = |(id, block): &(&BlockId, &Block)| {
            id.flow.source != self.node && block.is_complete() && block.end != End::Given
        };
        let length = |(_, block): (&BlockId, &Block)| u64::from(block.shape.length);
        self.blocks.iter().filter(is_kept).map(length).sum()
    }

    /// A block that was to be kept cannot be: it is not acknowledged, and may come again.
    pub fn handle_not_kept(&mut self, now: Instant, id: BlockId) {
        self.full_until = now + FULL;
        self.end_writing(id);
        // One that the next hop or the application got in the meantime needs no keeping.
        if self.blocks.get(&id).is_some_and(|block| block.is_open() && !block.is_safe) {
            self.counters.not_kept += 1;
            self.remove(id);
        }
    }

    /// Whether a large block would come in vain, because the disk is full. One that the application
    /// here is given at once is not for the disk of this machine.
    pub(super) fn is_in_vain(&self, now: Instant, asks: &Waiting) -> bool {
        let arrivals = self.arrivals.get(&asks.block.flow);
        let is_next = arrivals.is_some_and(|flow| flow.next == asks.block.number);
        now < self.full_until && !asks.shape.is_small() && !is_next
    }

    /// Sends frames of a block: at once if its bytes are here. If not, they are asked for, or the
    /// transfer pauses while there is no memory for them.
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
        // It must not be let go to make room for itself: with a transfer it is not spare.
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

    /// The bytes of a block that were asked for, or that they cannot be read: then it is as if the
    /// block had never come.
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
