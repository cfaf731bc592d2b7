//! Hop: transport of blocks that are made reliable hop by hop (Hop, NSDI 2009; `hop.md`).
//!
//! A node has one state machine, [`Hop`], for all flows that begin, end or pass there. It transfers
//! a large block to the next hop in rounds: it asks which frames the next hop has (a request,
//! BSYN), gets one bit for each frame (the answer, BACK), and sends the missing ones, until none is
//! missing. A relay passes on the frames that it has before the block is complete, by default where
//! the two hops do not share an air. There is no end-to-end rate control: a node that has not
//! passed on its block takes no other of the same flow, so backpressure reaches the source hop by
//! hop.
//!
//! Nothing is acknowledged before it is safe: at its destination once the owner of the machine
//! [accepts](Hop::accept) it, and at any node that keeps blocks on disk once it [is
//! kept](Hop::handle_kept) or the next hop has it.
//!
//! | file | contents |
//! |---|---|
//! | `mod`, `timers` | the interface for the owner of the machine; what is due when |
//! | `admit` | requests of neighbours; which neighbour is answered next |
//! | `reception` | the neighbours whose blocks are being received |
//! | `receive` | other messages of neighbours; complete blocks |
//! | `send`, `turns` | transfers to next hops; which block's frame is sent next |
//! | `path` | pacing to a neighbour where no radio limits the rate |
//! | `pace` | how much is sent before the next request; pauses |
//! | `gap` | gaps for small blocks that somebody waits for |
//! | `listen` | gaps for nodes that the sender of a transfer does not hear |
//! | `call` | short bursts and gaps beside calls |
//! | `asking` | requests for the destination's acknowledgement |
//! | `answers` | how long neighbours take to answer |
//! | `reach`, `away` | which neighbours are there |
//! | `ways` | the routes that blocks take |
//! | `out` | messages and frames on their way to the radio |
//! | `held`, `park` | blocks that are held, and what makes room; blocks that are only on disk |
//! | `block`, `bits` | one block; which of its frames are there |
//! | `port` | a flow end: bytes of an application become blocks, and blocks become bytes |

mod admit;
mod answers;
mod asking;
mod away;
mod bits;
mod block;
mod call;
mod config;
mod counters;
mod gap;
mod held;
mod listen;
mod out;
mod pace;
mod park;
mod past;
mod path;
mod port;
mod reach;
mod receive;
mod reception;
mod send;
#[cfg(test)]
mod tests;
mod timers;
mod turns;
mod ways;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;

use self::admit::Waiting;
use self::answers::Answers;
use self::away::Away;
use self::block::Block;
pub use self::block::{SMALL_BYTES, Shape, Whole};
use self::call::Calls;
pub use self::config::{
    Ahead, BATCH, Below, Durable, HOPS, HopConfig, NextHop, Schedule, Wire, Withhold,
};
use self::counters::Counters;
use self::gap::Gaps;
use self::held::Writing;
use self::listen::Listen;
use self::out::{InRadio, Message};
use self::pace::Pace;
use self::past::PastFlows;
pub use self::past::{PAST_IN_ALL, PAST_OF_ONE};
pub use self::path::PathStatus;
use self::path::{Inflow, Path};
pub use self::port::{HopPort, Role, frames_of, key_of};
use self::reach::{Reach, Stranded};
use self::receive::{Arrivals, Over};
use self::reception::Reception;
use self::turns::Outlet;
use self::ways::{Route, Ways};
use crate::base::{
    AddressPlan, Bitrate, Cx, DatagramUp, DropCause, Duration, Instant, NodeId, PacketOutcome,
    RadioId, Rng, UnitId, UnitIds,
};
use crate::wire::hop::{BlockId, CONTROL_PORT, DATA_PORT, FlowKey, Refusal};
use crate::wire::udp;

/// Set in the ids of our datagrams, so that their outcomes are told from those of others.
const OURS: u64 = 1 << 62;
/// Most blocks that a node holds.
const BLOCKS: usize = 2_048;

/// A complete block for the application of a flow, to be [accepted](Hop::accept) or
/// [refused](Hop::refuse).
#[derive(Debug)]
pub struct Delivery {
    /// The block. Those of a flow are delivered in order.
    pub id: BlockId,
    /// Its destination, size and checksum.
    pub shape: Shape,
    /// The bytes, frame by frame.
    pub frames: Vec<Bytes>,
}

/// The destination has accepted a block that began here, or refuses its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// The block.
    pub id: BlockId,
    /// Its length in bytes.
    pub bytes: u32,
    /// Why the flow is refused, if it is.
    pub refusal: Option<Refusal>,
}

/// An instruction for storage that survives the node, such as a disk.
#[derive(Clone, Debug)]
pub enum Keep {
    /// Store a block, and [confirm](Hop::handle_kept) that it is safe.
    Put(Whole),
    /// Delete a block: it is no longer needed.
    Drop(BlockId),
    /// Read a block back, and [hand it over](Hop::handle_got): its bytes are no longer in memory.
    Get(BlockId),
}

/// The state machine of block transport at one node.
#[derive(Debug)]
pub struct Hop {
    node: NodeId,
    plan: AddressPlan,
    config: HopConfig,
    /// The radio's most robust bit-rate, for a message after one that the radio gave up.
    sure_rate: Option<Bitrate>,
    /// Neighbours to which the radio gave up the last message at its own bit-rate.
    unsure: BTreeSet<NodeId>,
    /// Whether blocks are kept in storage that survives the node.
    keeps: bool,
    /// Memory that is left to whoever stores blocks.
    left_memory: u64,
    /// Until when that storage counts as full.
    full_until: Instant,
    below: Below,
    /// The air over which each neighbour is reached, as far as that is known.
    airs: BTreeMap<NodeId, usize>,
    /// The routes that blocks take, and those that routing has now.
    ways: Ways,
    blocks: BTreeMap<BlockId, Block>,
    /// Those that are still to be passed on, or to be given to the application.
    open: BTreeSet<BlockId>,
    /// Flows through this node that reached H and have not come down to L since.
    braked: BTreeSet<FlowKey>,
    /// See [`Hop::take_pressed`].
    is_pressed: bool,
    /// Blocks that passed here and are over.
    over: Over,
    /// Flows that end here.
    arrivals: BTreeMap<FlowKey, Arrivals>,
    /// Flows that ended here and made room for others.
    past: PastFlows,
    /// Receptions under way, by the air that they come over.
    receptions: BTreeMap<Option<usize>, Reception>,
    waiting: Vec<Waiting>,
    messages: VecDeque<Message>,
    in_radio: BTreeMap<UnitId, InRadio>,
    /// Neighbours that are away.
    away: Away,
    /// By flow, the one block whose end-to-end acknowledgement is being asked for: a silent
    /// neighbour does not get requests for many.
    asking: BTreeMap<FlowKey, BlockId>,
    /// The radio that reaches each next hop.
    radios: BTreeMap<NodeId, RadioId>,
    outlets: BTreeMap<RadioId, Outlet>,
    /// Share of our frames that each neighbour receives, a moving average over rounds.
    delivery: BTreeMap<NodeId, f64>,
    /// How many answers a block to or from each neighbour has to wait for, a moving average.
    waits: BTreeMap<NodeId, f64>,
    answers: Answers,
    /// Time from the next hop's acknowledgement of a block of ours to its arrival, by destination:
    /// a moving average.
    arrival_time: BTreeMap<NodeId, Duration>,
    /// Neighbours for which the radio does not report whether they got the last message.
    unacknowledged: BTreeSet<NodeId>,
    /// Whether each neighbour is there, and whether it gets our requests.
    reach: BTreeMap<NodeId, Reach>,
    stranded: Stranded,
    pace: BTreeMap<NodeId, Pace>,
    paths: BTreeMap<NodeId, Path>,
    inflows: BTreeMap<NodeId, Inflow>,
    gaps: Gaps,
    listen: Listen,
    calls: Calls,
    delivered: VecDeque<Delivery>,
    arrived: VecDeque<Arrived>,
    keep: VecDeque<Keep>,
    ids: UnitIds,
    rng: Rng,
    /// Bytes of memory that are set aside for blocks.
    memory: u64,
    /// Blocks that are being stored: neither confirmed yet, nor failed.
    writing: BTreeMap<BlockId, Writing>,
    /// Part of `memory` that is [reserved](Hop::reserve), by flow.
    reserved: BTreeMap<FlowKey, u64>,
    counters: Counters,
}

impl Hop {
    /// The machine at `node`. After a message that the radio gave up, the next one goes at `rate`,
    /// unless `control_mbps` is set.
    pub fn build(
        config: HopConfig,
        node: NodeId,
        plan: AddressPlan,
        rate: Option<Bitrate>,
        rng: Rng,
    ) -> Self {
        Self {
            node,
            plan,
            sure_rate: rate,
            unsure: BTreeSet::new(),
            config,
            keeps: false,
            full_until: Instant::ZERO,
            below: Below::default(),
            airs: BTreeMap::new(),
            ways: Ways::default(),
            blocks: BTreeMap::new(),
            open: BTreeSet::new(),
            braked: BTreeSet::new(),
            is_pressed: false,
            over: Over::default(),
            arrivals: BTreeMap::new(),
            past: PastFlows::default(),
            receptions: BTreeMap::new(),
            waiting: Vec::new(),
            messages: VecDeque::new(),
            in_radio: BTreeMap::new(),
            away: Away::default(),
            asking: BTreeMap::new(),
            radios: BTreeMap::new(),
            outlets: BTreeMap::new(),
            delivery: BTreeMap::new(),
            waits: BTreeMap::new(),
            answers: Answers::default(),
            arrival_time: BTreeMap::new(),
            unacknowledged: BTreeSet::new(),
            reach: BTreeMap::new(),
            stranded: Stranded::default(),
            pace: BTreeMap::new(),
            paths: BTreeMap::new(),
            inflows: BTreeMap::new(),
            gaps: Gaps::default(),
            listen: Listen::default(),
            calls: Calls::default(),
            delivered: VecDeque::new(),
            arrived: VecDeque::new(),
            keep: VecDeque::new(),
            ids: UnitIds::default(),
            rng,
            memory: 0,
            writing: BTreeMap::new(),
            reserved: BTreeMap::new(),
            left_memory: 0,
            counters: Counters::default(),
        }
    }

    /// Has blocks stored: those that [`Hop::poll_keep`] gives must be confirmed before a neighbour
    /// is told that they are complete.
    pub fn keep_blocks(&mut self) {
        self.keeps = true;
    }

    /// Leaves some of the memory for blocks to whoever stores them: what is being written is there
    /// twice.
    pub fn leave_memory(&mut self, bytes: u64) {
        self.left_memory = bytes;
    }

    /// Describes the link below. By default, it is one radio that sends whenever it can, and
    /// reports when a frame is out.
    pub fn set_below(&mut self, below: Below) {
        self.below = below;
    }

    /// Its node.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Its settings.
    pub fn config(&self) -> &HopConfig {
        &self.config
    }

    /// Whether a received IP packet is for it, by the UDP port.
    pub fn accepts(packet: &[u8]) -> bool {
        let port = udp::header(packet).map(|header| header.destination);
        matches!(port, Some(CONTROL_PORT | DATA_PORT))
    }

    /// Whether an outcome with this id is that of a datagram of the machine.
    pub fn is_its_own(id: UnitId) -> bool {
        id.0 & OURS != 0
    }

    /// Takes a block of a flow that begins here, as frames. Number 0 opens the flow, and `finishes`
    /// marks the last block.
    ///
    /// Panics if there is no frame, or more than 65,535.
    pub fn push(
        &mut self,
        now: Instant,
        id: BlockId,
        destination: NodeId,
        finishes: bool,
        frames: Vec<Bytes>,
    ) {
        self.push_whole(now, Whole::build(id, destination, finishes, frames));
    }

    /// The same for a block that was built before because it is stored elsewhere too.
    pub fn push_whole(&mut self, now: Instant, whole: Whole) {
        let Whole { id, mut shape, frames } = whole;
        shape.is_early = self.is_early(id);
        self.release(id.flow);
        self.make_room(now, shape.cost());
        self.insert(id, Block::whole(shape, frames, now));
        self.forward(now, id.flow);
    }

    /// Whether a block that begins here is sent before the first of its flow has arrived.
    fn is_early(&self, id: BlockId) -> bool {
        let first = BlockId { number: 0, ..id };
        id.flow.source == self.node && id.number > 0 && self.blocks.contains_key(&first)
    }

    /// Drops all blocks of a flow, and the memory that is reserved for it.
    pub fn abandon(&mut self, flow: FlowKey) {
        self.release(flow);
        let own: Vec<BlockId> = self.of_flow(flow).map(|(id, _)| *id).collect();
        own.into_iter().for_each(|id| _ = self.remove(id));
    }

    /// Takes back a stored block after a restart of the node.
    pub fn restore(&mut self, now: Instant, whole: Whole) {
        let Whole { id, mut shape, frames } = whole;
        shape.is_early = match id.flow.source == self.node {
            true => self.is_early(id),
            false => shape.is_early,
        };
        let mut block = Block::whole(shape, frames, now);
        let is_here = shape.destination == self.node;
        let flow = self.arrivals.get(&id.flow).filter(|_| is_here);
        // A block for this node was accepted, or waits for earlier ones of its flow.
        let is_over = is_here && flow.is_none_or(|flow| id.number < flow.accepted);
        // A block that begins here is taken in any case: its program no longer has it.
        let has_room = self.make_room(now, shape.cost()) || id.flow.source == self.node;
        if is_over || !block.verify() || !has_room {
            self.counters.corrupt += u64::from(!is_over);
            self.keep.push_back(Keep::Drop(id));
            return;
        }
        self.insert(id, block);
        self.deliver(id.flow);
        self.forward(now, id.flow);
    }

    /// Restores what was accepted of a flow that ends here, after a restart of the node. Its first
    /// block has the checksum `opened`, the next block has the number `next`, and the flow
    /// `is_over` if its last block was accepted.
    pub fn restore_arrivals(
        &mut self,
        now: Instant,
        flow: FlowKey,
        (opened, next): (u32, u32),
        is_over: bool,
    ) {
        let arrivals = Arrivals { is_over, ..Arrivals::resumed(opened, next, now) };
        self.arrivals.insert(flow, arrivals);
    }

    /// Restores that a flow was [refused](Hop::refuse), after a restart of the node. Otherwise its
    /// first block, which a relay may still have, would open it once more.
    pub fn restore_refused(&mut self, now: Instant, flow: FlowKey, opened: u32) {
        self.arrivals.insert(flow, Arrivals { opened, ..Arrivals::refused(Refusal::Unsaid, now) });
    }

    /// Restores, after a restart of the node, that a flow to it ended long ago: its last block was
    /// accepted, or it was [refused](Hop::refuse). Those that ended first must come first, and all
    /// before [`Hop::restore_arrivals`] and [`Hop::restore_refused`].
    pub fn restore_past(&mut self, now: Instant, flow: FlowKey, (opened, is_refused): (u32, bool)) {
        let refusal = is_refused.then_some(Refusal::Unsaid);
        self.past.put(flow, &Arrivals::over(opened, refusal, now));
    }

    /// Gives the next complete block for an application here; those of a flow come in order.
    pub fn poll_delivery(&mut self) -> Option<Delivery> {
        self.delivered.pop_front()
    }

    /// Gives a block of ours that its destination has accepted, or whose flow it refuses.
    pub fn poll_arrived(&mut self) -> Option<Arrived> {
        self.arrived.pop_front()
    }

    /// Gives the next instruction for the storage; there is none unless blocks are kept.
    pub fn poll_keep(&mut self) -> Option<Keep> {
        self.keep.pop_front()
    }

    /// Whether [`Hop::poll_delivery`], [`Hop::poll_arrived`] or [`Hop::poll_keep`] has something.
    pub fn has_news(&self) -> bool {
        !(self.delivered.is_empty() && self.arrived.is_empty() && self.keep.is_empty())
    }

    /// Handles an event of routing.
    pub fn handle_rx(&mut self, cx: &mut Cx<'_>, event: DatagramUp) {
        match event {
            DatagramUp::Received { via, payload, signal } => {
                self.on_heard(cx.now, via);
                self.on_packet(cx.now, via, &payload, signal);
            }
            DatagramUp::Done(done) => self.on_out(cx.now, done.id, done.outcome),
            DatagramUp::Dropped { id, cause: DropCause::TooLong } => self.on_too_long(cx.now, id),
            DatagramUp::Dropped { id, .. } => self.on_out(cx.now, id, PacketOutcome::Failed),
            DatagramUp::Drowned(to) => self.on_drowned(cx.now, to),
            DatagramUp::NextHop { dst, via, radio, hops } => {
                self.on_route(cx.now, dst, Route { via, hops }, radio);
                self.forward_all(cx.now);
            }
        }
    }

    /// Whether there may be something to send.
    pub fn may_send(&self) -> bool {
        !self.messages.is_empty() || self.outlets.values().any(Outlet::has_turns)
    }
}
