//! The blocks that a node holds, and which of them make room for others.

use super::block::{self, Block, End, Shape};
use super::park::Place;
use super::{BLOCKS, Hop, Keep, admit};
use crate::base::Instant;
use crate::wire::hop::{BlockId, FlowKey};

/// Most hops for each of which room for a block is reserved.
const CLASSES: u64 = 8;
/// More hops than any block makes.
const ANY: u64 = u64::MAX;

/// A block that is being stored.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Writing {
    /// Pending writes: the block may have been dropped and have come again.
    times: u32,
    /// Memory of copies that were dropped meanwhile: their bytes stay until they are written. If
    /// they did not count, memory would be unlimited where links are faster than the disk.
    cost: u64,
}

/// How much blocks may fill.
struct Limits {
    /// Bytes of memory.
    memory: u64,
    /// Bytes on disk, where blocks are kept.
    disk: u64,
    /// Number of blocks.
    blocks: usize,
}

/// Whether a block is incomplete, and nothing of it has come for a long time.
fn is_left(now: Instant, block: &Block) -> bool {
    block.used + admit::SILENT <= now && !block.is_complete()
}

impl Hop {
    /// Whether it takes another block of `bytes` bytes of a flow that begins here. At most H + 1
    /// blocks of a flow wait to be passed on (`hop.md` 6), which may happen before the destination
    /// has taken the flow. There must be memory for the shortest frames; with longer ones, a block
    /// leaves almost as much free as it takes, so that many transfers do not keep small blocks from
    /// being sent. A flow that has blocks here leaves room for one that has none, and the more
    /// blocks it has, the more room. Blocks that were passed on and have not arrived count too.
    pub fn has_room(&self, now: Instant, flow: FlowKey, bytes: usize) -> bool {
        let (mut open, mut count, mut held) =
            (0, 0, self.reserved.get(&flow).copied().unwrap_or(0));
        let mut via = None;
        for (_, block) in self.of_flow(flow) {
            via = via.or_else(|| self.next_hop(block.shape.destination));
            (open, count) = (open + u32::from(block.is_open()), count + 1);
            held += block.cost();
        }
        let next = block::most_cost(bytes);
        let left = held.min(next).max(held / 4);
        let limits = self.limits(0);
        let fits = |memory: u64, blocks: usize| {
            let blocks = blocks + self.reserved.len() + count / 4;
            memory + next + left <= limits.memory && blocks < limits.blocks
        };
        open <= self.high_low(self.beside(None, via))[0]
            && (fits(self.memory, self.blocks.len()) || {
                let may_go = |(id, block): &(&BlockId, &Block)| {
                    let may_go = self.may_go(now, id, block) && !self.writing.contains_key(id);
                    may_go || self.park_rank(id, block).is_some()
                };
                let freed: u64 =
                    self.blocks.iter().filter(may_go).map(|(_, block)| block.cost()).sum();
                fits(self.memory - freed, self.blocks.len() - self.cached(now).count())
            })
    }

    /// The same for a block that is fetched first: memory is set aside until the next block of the
    /// flow is [pushed](Hop::push), or until it is [released](Hop::release). A flow has one such
    /// reservation at a time.
    pub fn reserve(&mut self, now: Instant, flow: FlowKey, bytes: usize) -> bool {
        let has_room = self.has_room(now, flow, bytes);
        if has_room {
            let cost = block::most_cost(bytes);
            self.release(flow);
            self.make_room(now, cost);
            self.reserved.insert(flow, cost);
            self.memory += cost;
        }
        has_room
    }

    /// Releases the memory that was reserved for a flow.
    pub fn release(&mut self, flow: FlowKey) {
        self.memory -= self.reserved.remove(&flow).unwrap_or(0);
    }

    /// The blocks of a flow, in order.
    pub(super) fn of_flow(&self, flow: FlowKey) -> impl Iterator<Item = (&BlockId, &Block)> {
        let at = |number| BlockId { flow, number };
        self.blocks.range(at(0)..=at(u32::MAX))
    }

    /// The open blocks of a flow, in order: there are few, however many others are kept.
    pub(super) fn open_of(&self, flow: FlowKey) -> impl Iterator<Item = (&BlockId, &Block)> {
        let at = |number| BlockId { flow, number };
        self.open.range(at(0)..=at(u32::MAX)).map(|id| (id, &self.blocks[id]))
    }

    /// When something last happened to the open blocks of this flow; `None` if it has none.
    pub fn heard_of(&self, flow: FlowKey) -> Option<Instant> {
        self.open_of(flow).map(|(_, block)| block.used).max()
    }

    /// About how many bytes of a flow that begins here are beyond this node and not acknowledged by
    /// the destination: frames that the next hop is known to have, and of those sent since then the
    /// share that usually arrives (none before its first answer). They count half if the next hop
    /// is not the destination.
    pub fn under_way(&self, flow: FlowKey) -> u64 {
        let bytes = |(_, block): (&BlockId, &Block)| {
            let Block { shape, transfer, end, .. } = block;
            let share = match (end, transfer) {
                (End::Open, None) => 0.0,
                (End::Open, Some(transfer)) => {
                    let has_answered = self.answers.round_trip(transfer.via).is_some();
                    let unknown = if has_answered { 1.0 } else { 0.0 };
                    let rate = self.delivery.get(&transfer.via).copied().unwrap_or(unknown);
                    let out = u32::from(transfer.sent.count()).saturating_sub(transfer.in_radio);
                    let there = f64::from(transfer.theirs.count()) + f64::from(out) * rate;
                    there / f64::from(shape.frames)
                }
                (End::PassedOn { .. } | End::Given, _) => 1.0,
            };
            let is_last_hop = self.next_hop(shape.destination) == Some(shape.destination);
            let weight = if is_last_hop { share } else { share / 2.0 };
            (weight * f64::from(shape.length)) as u64
        };
        self.of_flow(flow).map(bytes).sum()
    }

    /// Blocks of other nodes that may be dropped: those that the next hop has, and incomplete ones
    /// that fell silent, of which nothing was acknowledged.
    pub fn cached(&self, now: Instant) -> impl Iterator<Item = (&BlockId, &Shape)> {
        let may_go = move |(id, block): &(&BlockId, &Block)| self.may_go(now, id, block);
        self.blocks.iter().filter(may_go).map(|(id, block)| (id, &block.shape))
    }

    /// All other blocks, which wait to be passed on or to arrive.
    pub fn waiting(&self, now: Instant) -> impl Iterator<Item = (&BlockId, &Shape)> {
        let waits = move |(id, block): &(&BlockId, &Block)| !self.may_go(now, id, block);
        self.blocks.iter().filter(waits).map(|(id, block)| (id, &block.shape))
    }

    fn may_go(&self, now: Instant, id: &BlockId, block: &Block) -> bool {
        id.flow.source != self.node && (block.is_spare() || is_left(now, block))
    }

    /// Drops all that is [cached](Hop::cached), and with `all` every other block that only passes
    /// through: its source still has it. Returns how many blocks were dropped.
    pub fn clear_cache(&mut self, now: Instant, all: bool) -> usize {
        let may_go = |(id, block): &(&BlockId, &Block)| {
            self.may_go(now, id, block) || (all && self.is_passing(id, block))
        };
        let cached: Vec<BlockId> = self.blocks.iter().filter(may_go).map(|(id, _)| *id).collect();
        cached.iter().for_each(|id| _ = self.remove(*id));
        cached.len()
    }

    /// Whether a block neither begins nor ends here.
    fn is_passing(&self, id: &BlockId, block: &Block) -> bool {
        id.flow.source != self.node && block.shape.destination != self.node
    }

    /// When such a block is dropped because of its age.
    pub(super) fn expiry(&self, (id, block): (&BlockId, &Block)) -> Option<Instant> {
        self.is_passing(id, block).then(|| block.came + self.config.relay_time())
    }

    /// Drops those that have been here for too long.
    pub(super) fn expire(&mut self, now: Instant) {
        let is_old = |entry: &(&BlockId, &Block)| self.expiry(*entry).is_some_and(|at| at <= now);
        let old: Vec<BlockId> = self.blocks.iter().filter(is_old).map(|(id, _)| *id).collect();
        for id in old {
            self.counters.expired += 1;
            self.remove(id);
        }
    }

    /// A block is being stored.
    pub(super) fn begin_writing(&mut self, id: BlockId) {
        self.writing.entry(id).or_default().times += 1;
    }

    /// A block was stored, or could not be.
    pub(super) fn end_writing(&mut self, id: BlockId) {
        let Some(writing) = self.writing.get_mut(&id) else { return };
        writing.times -= 1;
        if writing.times == 0 {
            self.memory -= writing.cost;
            self.writing.remove(&id);
        }
    }

    pub(super) fn insert(&mut self, id: BlockId, block: Block) {
        if block.is_open() {
            self.open.insert(id);
        }
        self.mark_interactive(block.used, id, &block.shape);
        self.memory += block.cost();
        if let Some(old) = self.blocks.insert(id, block) {
            self.memory -= old.cost();
        }
    }

    pub(super) fn remove(&mut self, id: BlockId) -> Option<Block> {
        let block = self.blocks.remove(&id)?;
        self.open.remove(&id);
        self.end_brake(id.flow);
        match self.writing.get_mut(&id) {
            Some(writing) => writing.cost += block.cost(),
            None => self.memory -= block.cost(),
        }
        self.end_reception(id);
        self.end_asking(id);
        if self.keeps && block.is_safe && id.flow.source != self.node {
            self.keep.push_back(Keep::Drop(id));
        }
        Some(block)
    }

    /// Makes room for another block of `cost` bytes. First, bytes that are also in storage leave
    /// memory. Then blocks are dropped: those that the next hop has, the oldest first (`hop.md` 4),
    /// then incomplete ones that fell silent, of which nothing was acknowledged. Returns whether it
    /// fits.
    pub(super) fn make_room(&mut self, now: Instant, cost: u64) -> bool {
        self.free(now, cost, &self.limits(ANY))
    }

    /// The same for a block of a neighbour: blocks that begin here leave room for it, blocks that
    /// have made fewer hops for those that have made more, and all for blocks that end here. Two
    /// nodes that are full of blocks for each other could otherwise never go on (structured buffer
    /// pools: Merlin and Schweitzer, Deadlock Avoidance in Store-and-Forward Networks, 1980).
    pub(super) fn make_room_for_transit(&mut self, now: Instant, shape: &Shape) -> bool {
        let is_here = shape.destination == self.node;
        let made = if is_here { ANY } else { shape.hops_made.into() };
        self.free(now, shape.cost(), &self.limits(made))
    }

    /// What blocks that have made so many hops may fill: they leave room for one block for each
    /// further hop, up to `CLASSES` and to half of the space beside one block.
    fn limits(&self, made: u64) -> Limits {
        let of = |limit: u64, block: u64| {
            let classes = (limit.saturating_sub(block) / 2 / block).min(CLASSES);
            limit - classes.saturating_sub(made) * block
        };
        let block = self.config.block_cost();
        Limits {
            memory: of(self.config.memory_bytes.saturating_sub(self.left_memory), block),
            disk: of(self.config.disk_bytes, block),
            blocks: of(BLOCKS as u64, 1) as usize,
        }
    }

    /// The same for the bytes of a block that is already held: it needs memory only.
    pub(super) fn make_memory(&mut self, now: Instant, cost: u64) -> bool {
        let limits = Limits { disk: u64::MAX, blocks: usize::MAX, ..self.limits(ANY) };
        self.free(now, cost, &limits)
    }

    fn free(&mut self, now: Instant, cost: u64, limits: &Limits) -> bool {
        while self.memory + cost > limits.memory && self.park_one() {}
        loop {
            let fills_disk = || self.keeps && self.kept_bytes().saturating_add(cost) > limits.disk;
            let is_crowded = self.blocks.len() >= limits.blocks || fills_disk();
            let is_full = self.memory + cost > limits.memory;
            if !is_crowded && !is_full {
                return true;
            }
            let rank = |(id, block): &(&BlockId, &Block)| {
                let is_other = id.flow.source != self.node;
                // It frees no memory if its bytes are not there, or are still being written.
                let is_bare = block.place == Place::Kept || self.writing.contains_key(id);
                let helps = is_crowded || !is_bare;
                match block.is_spare() {
                    _ if !is_other || !helps => None,
                    true => Some((0, block.used)),
                    false if is_left(now, block) => Some((1, block.used)),
                    false => None,
                }
            };
            let all = self.blocks.iter().filter_map(|entry| Some((rank(&entry)?, *entry.0)));
            let Some((_, oldest)) = all.min() else { return false };
            self.counters.let_go += 1;
            self.remove(oldest);
        }
    }
}
