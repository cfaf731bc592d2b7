//! Hop: blocks made reliable hop by hop (Hop, NSDI 2009; `hop.md`).
//!
//! A node holds one machine for all flows, its own and those that pass through. A large block goes
//! to the next hop in rounds: it is asked what it has (BSYN), answers with one bit for each frame
//! (BACK), and gets what is missing, until nothing is. A relay passes on what it has before all of
//! it is there, by default where both hops do not share the air. There is no end-to-end rate
//! control: a node that has not passed on its block takes no other of the flow, and so the brake
//! goes back hop by hop to the source.
//!
//! Nothing is acknowledged that is not safe: at its destination a block is complete once the owner
//! of the machine [accepts](Hop::accept) it, at a relay, if blocks are kept on disk, once it
//! [is kept](Hop::handle_kept).
//!
//! | file | what stands there |
//! |---|---|
//! | `mod` | the caller's side, timers |
//! | `admit` | requests of neighbours; whom the node hears next |
//! | `reception` | whose blocks it takes at present |
//! | `receive` | other messages of neighbours; what becomes of whole blocks |
//! | `send` | transfers to next hops, turns among them |
//! | `path` | how fast frames go to a neighbour where no radio holds anything back |
//! | `pace` | how much is sent before the next request |
//! | `gap` | gaps for those who wait for little |
//! | `listen` | gaps for those whom the sender of a transfer does not hear |
//! | `call` | short bursts and gaps beside calls |
//! | `asking` | whether blocks of ours have arrived |
//! | `answers` | how long neighbours take to answer |
//! | `reach` | ways, and which neighbours are there |
//! | `out` | messages and frames on their way to the radio |
//! | `held` | blocks in and out, and who makes room |
//! | `park` | blocks whose bytes are on disk alone |
//! | `block`, `bits` | one block, and which of its frames are there |
//! | `port` | the end of a flow: bytes of an application into blocks and back |

mod admit;
mod answers;
mod asking;
mod away;
mod bits;
mod block;
mod call;
mod config;
mod gap;
mod held;
mod listen;
mod out;
mod pace;
mod park;
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
use self::gap::Gaps;
use self::held::Writing;
use self::listen::Listen;
use self::out::{InRadio, Message};
use self::pace::Pace;
pub use self::path::PathStatus;
use self::path::{Inflow, Path};
pub use self::port::{HopPort, Role, frames_of, key_of};
use self::reach::{Reach, Stranded};
use self::receive::{Arrivals, Over};
use self::reception::Reception;
use self::turns::Outlet;
use self::ways::{Route, Ways};
use crate::base::{
    AddressPlan, Bitrate, Cx, DatagramUp, DropCause, Duration, Instant, Name, NodeId,
    PacketOutcome, RadioId, Rng, UnitId, UnitIds, named,
};
use crate::wire::hop::{BlockId, CONTROL_PORT, DATA_PORT, FlowKey, Refusal};
use crate::wire::udp;

/// Set in the ids of our datagrams, so that their ends are told from those of others.
const OURS: u64 = 1 << 62;
/// Blocks that a node holds at most.
const BLOCKS: usize = 2_048;

/// What came whole, for the application of a flow. It is to be [accepted](Hop::accept) or
/// [refused](Hop::refuse).
#[derive(Debug)]
pub struct Delivery {
    /// The block; those of a flow come in their order.
    pub id: BlockId,
    /// What it is.
    pub shape: Shape,
    /// The bytes, frame by frame.
    pub frames: Vec<Bytes>,
}

/// The destination has a block that began here, or refuses its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// The block.
    pub id: BlockId,
    /// Its bytes.
    pub bytes: u32,
    /// Why the flow is refused, if it is.
    pub refusal: Option<Refusal>,
}

/// What is to be kept where it survives the node, and what no longer is.
#[derive(Clone, Debug)]
pub enum Keep {
    /// To be kept, and [confirmed](Hop::handle_kept).
    Put(Whole),
    /// No longer needed.
    Drop(BlockId),
    /// Wanted back: its bytes are [no longer in memory](Hop::handle_got).
    Get(BlockId),
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    frames_sent: u64,
    frames_too_long: u64,
    frames_received: u64,
    frames_again: u64,
    frames_forwarded: u64,
    blocks_forwarded: u64,
    requests: u64,
    answers: u64,
    withheld: u64,
    pauses: u64,
    gaps: u64,
    gaps_asked: u64,
    calls_told: u64,
    held_back: u64,
    virtual_requests: u64,
    blocks_passed_on: u64,
    blocks_delivered: u64,
    blocks_refused: u64,
    corrupt: u64,
    malformed: u64,
    unknown: u64,
    contradictions: u64,
    out_of_hops: u64,
    let_go: u64,
    expired: u64,
    parked: u64,
    no_memory: u64,
    not_kept: u64,
    flows_forgotten: u64,
    messages_dropped: u64,
}

/// The machine of a node.
#[derive(Debug)]
pub struct Hop {
    node: NodeId,
    plan: AddressPlan,
    config: HopConfig,
    /// The surest bit-rate of the radio, for requests and answers that it has given up.
    sure_rate: Option<Bitrate>,
    /// Neighbours for which the radio gave up the last message at its own bit-rate.
    unsure: BTreeSet<NodeId>,
    /// Whether blocks are kept where they survive the node.
    keeps: bool,
    /// Until when it is taken for granted that no more of them can be.
    full_until: Instant,
    below: Below,
    /// Which air each neighbour is reached over; it is not known of others.
    airs: BTreeMap<NodeId, usize>,
    /// The ways that blocks take, and those that routing has.
    ways: Ways,
    blocks: BTreeMap<BlockId, Block>,
    /// Those of them that are to be passed on, or to be given to the application.
    open: BTreeSet<BlockId>,
    /// Flows that pass through and have not come down to L since they reached H.
    braked: BTreeSet<FlowKey>,
    /// See [`Hop::take_pressed`].
    is_pressed: bool,
    /// Blocks that passed here and are over.
    over: Over,
    /// Flows that end here.
    arrivals: BTreeMap<FlowKey, Arrivals>,
    /// By the air that they come over.
    receptions: BTreeMap<Option<usize>, Reception>,
    waiting: Vec<Waiting>,
    messages: VecDeque<Message>,
    in_radio: BTreeMap<UnitId, InRadio>,
    /// Neighbours that are away.
    away: Away,
    /// The block of each flow for which only the end-to-end acknowledgement is asked at present: a
    /// neighbour that is silent is not asked for many.
    asking: BTreeMap<FlowKey, BlockId>,
    /// The radio that reaches each next hop.
    radios: BTreeMap<NodeId, RadioId>,
    outlets: BTreeMap<RadioId, Outlet>,
    /// Share of our frames that each neighbour receives, a moving average over rounds.
    delivery: BTreeMap<NodeId, f64>,
    /// How often a block that goes to or comes from each neighbour waits for an answer until it is
    /// there, a moving average.
    waits: BTreeMap<NodeId, f64>,
    answers: Answers,
    /// How long after the next hop has them blocks of ours arrive, by destination: a moving
    /// average.
    arrival_time: BTreeMap<NodeId, Duration>,
    /// Neighbours of which the radio does not say whether they got the last message.
    unacknowledged: BTreeSet<NodeId>,
    /// Whether each neighbour is there, and takes anything.
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
    /// Memory that is set aside for blocks.
    memory: u64,
    /// Blocks that are to be kept and of which it was not said yet whether they are.
    writing: BTreeMap<BlockId, Writing>,
    /// What of it is [reserved](Hop::reserve), by flow.
    reserved: BTreeMap<FlowKey, u64>,
    counters: Counters,
}

impl Hop {
    /// The machine at `node`, whose requests go at `rate` where the radio's own bit-rate fails,
    /// unless its settings say otherwise.
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
            counters: Counters::default(),
        }
    }

    /// Has its blocks kept: what [`Hop::poll_keep`] gives is to be confirmed before a neighbour is
    /// told that a block is complete.
    pub fn keep_blocks(&mut self) {
        self.keeps = true;
    }

    /// Tells it of the link below: else it is one whose radios send as they like, and say when a
    /// frame is out.
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

    /// Whether a received IP packet is for it.
    pub fn accepts(packet: &[u8]) -> bool {
        let port = udp::header(packet).map(|header| header.destination);
        matches!(port, Some(CONTROL_PORT | DATA_PORT))
    }

    /// Whether the end of a datagram is of one of its own.
    pub fn is_its_own(id: UnitId) -> bool {
        id.0 & OURS != 0
    }

    /// Takes a block of a flow that begins here, frame by frame; number 0 opens the flow, and
    /// `finishes` says that it is the last.
    ///
    /// Panics if it is empty, or has more than 65,535 frames.
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

    /// The same for a block that was built before, to be kept elsewhere as well.
    pub fn push_whole(&mut self, now: Instant, whole: Whole) {
        let Whole { id, mut shape, frames } = whole;
        shape.is_early = self.is_early(id);
        self.release(id.flow);
        self.make_room(now, shape.cost());
        self.insert(id, Block::whole(shape, frames, now));
        self.forward(now, id.flow);
    }

    /// Whether a block that begins here follows one that opens its flow and has not arrived.
    fn is_early(&self, id: BlockId) -> bool {
        let first = BlockId { number: 0, ..id };
        id.flow.source == self.node && id.number > 0 && self.blocks.contains_key(&first)
    }

    /// Drops all blocks of a flow that begins here.
    pub fn abandon(&mut self, flow: FlowKey) {
        self.release(flow);
        let own: Vec<BlockId> = self.of_flow(flow).map(|(id, _)| *id).collect();
        own.into_iter().for_each(|id| _ = self.remove(id));
    }

    /// Takes a block that was kept, after the node began anew.
    pub fn restore(&mut self, now: Instant, whole: Whole) {
        let Whole { id, mut shape, frames } = whole;
        shape.is_early = match id.flow.source == self.node {
            true => self.is_early(id),
            false => shape.is_early,
        };
        let mut block = Block::whole(shape, frames, now);
        let is_here = shape.destination == self.node;
        let flow = self.arrivals.get(&id.flow).filter(|_| is_here);
        // One that is for this node was accepted, or waits for others of its flow.
        let is_over = is_here && flow.is_none_or(|flow| id.number < flow.accepted);
        // What begins here was taken from a program, which has it no more.
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

    /// Tells what was accepted of a flow that ends here, after the node began anew: its first
    /// block has the checksum `opened`, and `next` is the number of the one that is next. One of
    /// which the last block was accepted `is_over`.
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

    /// Tells of a flow that was [refused](Hop::refuse), after the node began anew: without that its
    /// first block, which a relay may still have, would begin it once more.
    pub fn restore_refused(&mut self, now: Instant, flow: FlowKey, opened: u32) {
        self.arrivals.insert(flow, Arrivals { opened, ..Arrivals::refused(Refusal::Unsaid, now) });
    }

    /// Gives what came whole for an application here, in the order of its flow.
    pub fn poll_delivery(&mut self) -> Option<Delivery> {
        self.delivered.pop_front()
    }

    /// Gives a block of ours that its destination has, or whose flow it refuses.
    pub fn poll_arrived(&mut self) -> Option<Arrived> {
        self.arrived.pop_front()
    }

    /// Gives what is to be kept where it survives the node; nothing unless blocks are kept.
    pub fn poll_keep(&mut self) -> Option<Keep> {
        self.keep.pop_front()
    }

    /// Whether [`Hop::poll_delivery`], [`Hop::poll_arrived`] or [`Hop::poll_keep`] has something.
    pub fn has_news(&self) -> bool {
        !(self.delivered.is_empty() && self.arrived.is_empty() && self.keep.is_empty())
    }

    /// Takes an event of routing.
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

    /// What it counted, and what it holds now, by name.
    pub fn counters(&self) -> BTreeMap<Name, u64> {
        let all = &self.counters;
        named([
            ("blocks_held", self.blocks.len() as u64),
            ("memory_held", self.memory),
            ("frames_sent", all.frames_sent),
            ("frames_too_long", all.frames_too_long),
            ("frames_received", all.frames_received),
            ("frames_again", all.frames_again),
            ("frames_forwarded", all.frames_forwarded),
            ("blocks_forwarded", all.blocks_forwarded),
            ("requests", all.requests),
            ("answers", all.answers),
            ("withheld", all.withheld),
            ("pauses", all.pauses),
            ("gaps", all.gaps),
            ("gaps_asked", all.gaps_asked),
            ("calls_told", all.calls_told),
            ("held_back", all.held_back),
            ("virtual_requests", all.virtual_requests),
            ("blocks_passed_on", all.blocks_passed_on),
            ("blocks_delivered", all.blocks_delivered),
            ("blocks_refused", all.blocks_refused),
            ("corrupt", all.corrupt),
            ("malformed", all.malformed),
            ("unknown", all.unknown),
            ("contradictions", all.contradictions),
            ("out_of_hops", all.out_of_hops),
            ("let_go", all.let_go),
            ("expired", all.expired),
            ("parked", all.parked),
            ("no_memory", all.no_memory),
            ("not_kept", all.not_kept),
            ("flows_forgotten", all.flows_forgotten),
            ("messages_dropped", all.messages_dropped),
        ])
    }
}
