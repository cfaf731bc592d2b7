//! Hop: blocks made reliable hop by hop (Hop, NSDI 2009; `hop.md`).
//!
//! A node holds one machine for all flows, its own and those that pass through. A large block goes
//! to the next hop in rounds: it is asked what it has (BSYN), answers with one bit for each frame
//! (BACK), and gets what is missing, until nothing is. A relay passes on what it has before all of
//! it is there. There is no end-to-end rate control: a node that has not passed on its block takes
//! no other of the flow, and so the brake goes back hop by hop to the source.
//!
//! | file | what stands there |
//! |---|---|
//! | `mod` | the caller's side, timers, what goes down |
//! | `receive` | what messages of neighbours do; whom the node hears next |
//! | `send` | transfers to next hops, turns among them |
//! | `block`, `bits` | one block, and which of its frames are there |
//! | `port` | the end of a flow: bytes of an application into blocks and back |

mod bits;
mod block;
mod config;
mod port;
mod receive;
mod send;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddrV4;

use bytes::Bytes;

use self::block::{Block, End, Phase, Shape};
pub use self::config::{HopConfig, Withhold};
pub use self::port::{HopPort, Role, key_of};
use self::receive::{Arrivals, Reception, Waiting};
use crate::base::{
    AccessCategory, AckPolicy, AddressPlan, Bitrate, Cx, Datagram, DatagramUp, Destination, FlowId,
    Instant, Lane, Name, NodeId, PacketOutcome, Rng, RoomBelow, TxOptions, UnitId, UnitIds, named,
};
use crate::wire::hop::{self as wire, BlockId, Body, FlowKey, Header};
use crate::wire::udp;

/// Set in the ids of our datagrams, so that their ends are told from those of others.
const OURS: u64 = 1 << 62;
/// Hops that a block may make (`hop.md` 2).
const HOPS: u8 = 50;
/// Messages that may wait to be sent; what comes then is dropped, and asked for again.
const MESSAGES: usize = 1_024;
/// Turns of frames that the radio may hold.
const TURNS_IN_RADIO: u32 = 2;
/// How often the destination's acknowledgement is sent again to a hop that does not take it.
const ARRIVED_TRIES: u8 = 4;

/// A message that waits to be sent. Answers are made when they leave, so that they are fresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    Request { block: BlockId },
    Answer { block: BlockId, to: NodeId, round: u16, shape: Shape },
    Arrived { block: BlockId, shape: Shape, tries: u8 },
}

/// What of ours the radio has.
#[derive(Clone, Copy, Debug)]
enum InRadio {
    Frame(BlockId),
    Message(Message),
}

/// What came whole, for the application of a flow.
#[derive(Debug)]
pub struct Delivery {
    /// The flow.
    pub flow: FlowKey,
    /// The bytes, frame by frame.
    pub frames: Vec<Bytes>,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    frames_sent: u64,
    frames_received: u64,
    frames_again: u64,
    requests: u64,
    answers: u64,
    withheld: u64,
    held_back: u64,
    virtual_requests: u64,
    blocks_passed_on: u64,
    blocks_delivered: u64,
    corrupt: u64,
    malformed: u64,
    unknown: u64,
    contradictions: u64,
    out_of_hops: u64,
    let_go: u64,
    messages_dropped: u64,
}

/// The machine of a node.
#[derive(Debug)]
pub struct Hop {
    node: NodeId,
    plan: AddressPlan,
    config: HopConfig,
    /// The last known next hop to each destination.
    routes: BTreeMap<NodeId, NodeId>,
    blocks: BTreeMap<BlockId, Block>,
    /// Flows that pass through and have not come down to L since they reached H.
    braked: BTreeSet<FlowKey>,
    /// Flows that end here.
    arrivals: BTreeMap<FlowKey, Arrivals>,
    reception: Option<Reception>,
    waiting: Vec<Waiting>,
    messages: VecDeque<Message>,
    in_radio: BTreeMap<UnitId, InRadio>,
    frames_in_radio: u32,
    /// Blocks with frames to send, the one whose turn it is first.
    turns: VecDeque<BlockId>,
    /// Frames that are left of the turn.
    turn_left: u16,
    delivered: VecDeque<Delivery>,
    arrived: VecDeque<(BlockId, u64)>,
    ids: UnitIds,
    rng: Rng,
    memory: u64,
    counters: Counters,
}

impl Hop {
    /// The machine at `node`.
    pub fn build(config: HopConfig, node: NodeId, plan: AddressPlan, rng: Rng) -> Self {
        Self {
            node,
            plan,
            turn_left: config.turn_frames,
            config,
            routes: BTreeMap::new(),
            blocks: BTreeMap::new(),
            braked: BTreeSet::new(),
            arrivals: BTreeMap::new(),
            reception: None,
            waiting: Vec::new(),
            messages: VecDeque::new(),
            in_radio: BTreeMap::new(),
            frames_in_radio: 0,
            turns: VecDeque::new(),
            delivered: VecDeque::new(),
            arrived: VecDeque::new(),
            ids: UnitIds::default(),
            rng,
            memory: 0,
            counters: Counters::default(),
        }
    }

    /// Its settings.
    pub fn config(&self) -> &HopConfig {
        &self.config
    }

    /// Whether a received IP packet is for it.
    pub fn accepts(packet: &[u8]) -> bool {
        let port = |(header, _): (udp::Header, _)| header.destination;
        matches!(udp::decode(packet).map(port), Ok(wire::CONTROL_PORT | wire::DATA_PORT))
    }

    /// Whether the end of a datagram is of one of its own.
    pub fn is_its_own(id: UnitId) -> bool {
        id.0 & OURS != 0
    }

    /// Whether it takes another block of a flow that begins here (`hop.md` 6: H + 1 in its queue).
    pub fn has_room(&self, flow: FlowKey) -> bool {
        let open = self.of_flow(flow).filter(|(_, block)| block.is_open()).count() as u32;
        open < self.config.high_blocks.saturating_add(1) && self.memory < self.config.memory_bytes
    }

    /// Takes a block of a flow that begins here, frame by frame.
    ///
    /// Panics if it is empty, or has more than 65,535 frames.
    pub fn push(&mut self, now: Instant, id: BlockId, destination: NodeId, frames: Vec<Bytes>) {
        let mut hash = crc32fast::Hasher::new();
        frames.iter().for_each(|frame| hash.update(frame));
        let shape = Shape {
            destination,
            frames: u16::try_from(frames.len()).expect("a block of at most 65,535 frames"),
            length: frames.iter().map(|frame| frame.len() as u32).sum(),
            crc: hash.finalize(),
            hops_left: HOPS,
            hops_made: 0,
        };
        assert!(shape.frames > 0, "a block has a frame");
        let mut block = Block::empty(shape, now);
        for (number, frame) in frames.into_iter().enumerate() {
            block.put(number as u16, frame);
        }
        self.memory += block.bytes();
        self.blocks.insert(id, block);
        self.let_go();
        self.forward(now, id.flow);
    }

    /// Gives what came whole for an application here, in the order of its flow.
    pub fn poll_delivery(&mut self) -> Option<Delivery> {
        self.delivered.pop_front()
    }

    /// Gives a block of ours that its destination has, and its bytes.
    pub fn poll_arrived(&mut self) -> Option<(BlockId, u64)> {
        self.arrived.pop_front()
    }

    /// Takes an event of routing.
    pub fn handle_rx(&mut self, cx: &mut Cx<'_>, event: DatagramUp) {
        match event {
            DatagramUp::Received { payload, signal, .. } => {
                self.on_packet(cx.now, &payload, signal);
            }
            DatagramUp::Done(done) => {
                self.on_out(cx.now, done.id, done.outcome != PacketOutcome::Failed);
            }
            DatagramUp::Dropped { id, .. } => self.on_out(cx.now, id, false),
            DatagramUp::NextHop { dst, via, .. } => {
                self.routes.insert(dst, via);
                self.forward_all(cx.now);
            }
        }
    }

    /// The next datagram, on a lane with room.
    pub fn poll_tx(&mut self, cx: &mut Cx<'_>, below: &RoomBelow<'_>) -> Option<Datagram> {
        let has_room = |flow| !below(Lane { flow, ..Lane::default() }).is_none();
        if has_room(CONTROL_FLOW) {
            while let Some(message) = self.messages.pop_front() {
                if let Some(datagram) = self.message(cx.now, message) {
                    return Some(datagram);
                }
            }
        }
        let most = TURNS_IN_RADIO * u32::from(self.config.turn_frames);
        if self.frames_in_radio < most && has_room(DATA_FLOW) {
            return self.next_frame(cx.now);
        }
        None
    }

    /// Whether there may be something to send.
    pub fn may_send(&self) -> bool {
        !self.messages.is_empty() || !self.turns.is_empty()
    }

    /// When [`Hop::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let of_block = |(id, block): (&BlockId, &Block)| match (&block.transfer, block.end) {
            (Some(transfer), _) => match transfer.phase {
                Phase::Asked { due, .. } => Some(due),
                Phase::Sending => None,
            },
            (None, End::PassedOn { at }) if id.flow.source == self.node => {
                Some(at + self.config.end_to_end())
            }
            (None, _) => None,
        };
        let blocks = self.blocks.iter().filter_map(of_block);
        blocks.chain(self.reception.as_ref().map(Reception::deadline)).min()
    }

    /// Asks again what was not answered, and goes on without those that fell silent.
    pub fn handle_timeout(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now;
        let is_due = |block: &Block| match block.transfer.as_ref().map(|transfer| transfer.phase) {
            Some(Phase::Asked { due, .. }) => due <= now,
            _ => false,
        };
        let due: Vec<BlockId> =
            self.blocks.iter().filter(|(_, block)| is_due(block)).map(|(id, _)| *id).collect();
        due.into_iter().for_each(|id| self.ask(now, id));
        let wait = self.config.end_to_end();
        let is_overdue = |(id, block): &(&BlockId, &Block)| {
            let waits = id.flow.source == self.node && block.transfer.is_none();
            waits && matches!(block.end, End::PassedOn { at } if at + wait <= now)
        };
        let overdue: Vec<BlockId> =
            self.blocks.iter().filter(is_overdue).map(|(id, _)| *id).collect();
        for id in overdue {
            self.counters.virtual_requests += 1;
            self.begin_transfer(now, id, true);
        }
        if self.reception.as_ref().is_some_and(|reception| reception.deadline() <= now) {
            self.reception = None;
            self.admit_next(now);
        }
    }

    /// What it counted, by name.
    pub fn counters(&self) -> BTreeMap<Name, u64> {
        let all = &self.counters;
        named([
            ("frames_sent", all.frames_sent),
            ("frames_received", all.frames_received),
            ("frames_again", all.frames_again),
            ("requests", all.requests),
            ("answers", all.answers),
            ("withheld", all.withheld),
            ("held_back", all.held_back),
            ("virtual_requests", all.virtual_requests),
            ("blocks_passed_on", all.blocks_passed_on),
            ("blocks_delivered", all.blocks_delivered),
            ("corrupt", all.corrupt),
            ("malformed", all.malformed),
            ("unknown", all.unknown),
            ("contradictions", all.contradictions),
            ("out_of_hops", all.out_of_hops),
            ("let_go", all.let_go),
            ("messages_dropped", all.messages_dropped),
        ])
    }

    /// The blocks of a flow, in their order.
    fn of_flow(&self, flow: FlowKey) -> impl Iterator<Item = (&BlockId, &Block)> {
        let at = |number| BlockId { flow, number };
        self.blocks.range(at(0)..=at(u32::MAX))
    }

    fn queue(&mut self, message: Message) {
        if self.messages.len() < MESSAGES {
            self.messages.push_back(message);
        } else {
            self.counters.messages_dropped += 1;
        }
    }

    /// Lets go of what others have, the oldest first, until the rest fits.
    fn let_go(&mut self) {
        while self.memory > self.config.memory_bytes {
            let own = self.node;
            let spare = self.blocks.iter().filter(|(id, block)| {
                // A source keeps its blocks until their destination has them.
                block.is_spare() && id.flow.source != own && block.end != End::Delivered
            });
            let Some(oldest) = spare.min_by_key(|(_, block)| block.used).map(|(id, _)| *id) else {
                return;
            };
            self.counters.let_go += 1;
            self.remove(oldest);
        }
    }

    fn remove(&mut self, id: BlockId) -> Option<Block> {
        let block = self.blocks.remove(&id)?;
        self.memory -= block.bytes();
        Some(block)
    }

    /// A message as it goes out, unless it has become pointless.
    fn message(&mut self, now: Instant, message: Message) -> Option<Datagram> {
        let (block, to, shape, body) = match message {
            Message::Request { block } => self.request(block)?,
            Message::Answer { block, to, round, shape } => {
                let bits = self.bits_of(block, shape)?;
                self.counters.answers += 1;
                (block, to, shape, Body::Answer { round, bits })
            }
            Message::Arrived { block, shape, .. } => {
                let to = *self.routes.get(&block.flow.source)?;
                (block, to, shape, Body::Arrived)
            }
        };
        let options = TxOptions {
            access: AccessCategory::Voice,
            ack: AckPolicy::Normal,
            rate: Some(Bitrate::from_mbps(self.config.control_mbps)),
            ..TxOptions::default()
        };
        let content = wire::encode(&self.header(block, shape), &body);
        let _ = now;
        Some(self.datagram(
            to,
            wire::CONTROL_PORT,
            options,
            &content,
            &[],
            InRadio::Message(message),
        ))
    }

    fn header(&self, block: BlockId, shape: Shape) -> Header {
        Header {
            block,
            destination: shape.destination,
            via: self.node,
            frames: shape.frames,
            hops_left: shape.hops_left,
            hops_made: shape.hops_made,
        }
    }

    fn datagram(
        &mut self,
        to: NodeId,
        port: u16,
        options: TxOptions,
        front: &[u8],
        rest: &[u8],
        what: InRadio,
    ) -> Datagram {
        let id = UnitId(self.ids.next_id().0 | OURS);
        self.in_radio.insert(id, what);
        let socket = |node| SocketAddrV4::new(self.plan.ipv4(node), port);
        let payload = udp::encode(socket(self.node), socket(to), front, rest);
        let flow = if port == wire::DATA_PORT { DATA_FLOW } else { CONTROL_FLOW };
        Datagram { id, to: Destination::NextHop(to), flow, payload, options }
    }
}

/// The lane of messages about blocks, and that of frames of blocks.
const CONTROL_FLOW: FlowId = FlowId(wire::CONTROL_PORT);
const DATA_FLOW: FlowId = FlowId(wire::DATA_PORT);
