//! Settings of `transport/hop`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::block::cost;
use crate::base::{Duration, RadioId};
use crate::wire::hop as wire;

/// Most hops that a block may make (`hop.md` 2).
pub const HOPS: u8 = 50;
/// Bytes of a block where routes do not change, unless set (`hop.md` 1).
const BLOCK_BYTES: u32 = 1 << 20;
/// The same where routes may change.
const CHANGING_BLOCK_BYTES: u32 = 1 << 18;
/// A block of a stream or of datagrams is closed this long after its first byte, even if it is not
/// full (`hop.md` 9).
pub const BATCH: Duration = Duration::from_millis(500);

/// Properties of the link below on which block transport depends.
#[derive(Clone, Debug)]
pub struct Below {
    /// Whether the link or its radios repair losses (radios do so with aggregates), and report the
    /// outcome of a frame several rounds after it was sent.
    pub repairs: bool,
    /// Whether radios send by a schedule of the link. Then a relay that receives and sends at once
    /// on one air does not collide with nodes that it cannot hear.
    pub has_schedule: bool,
    /// Frames of blocks that a radio should hold, where two turns are not enough: as many as it
    /// carries until the link reports the outcome of the first.
    pub frames: BTreeMap<RadioId, u32>,
    /// Frames of blocks that a radio with slots carries in a cycle, the time that an answer takes.
    pub in_cycle: BTreeMap<RadioId, u32>,
    /// Radios that are wires, or have no air for another reason.
    pub wires: BTreeMap<RadioId, Wire>,
    /// The air of each radio, with the numbers that `Hop::set_airs` gets for neighbours: in a gap,
    /// nothing is sent on an air that others share. Wires are not listed, because nobody overhears
    /// them.
    pub airs: BTreeMap<RadioId, usize>,
    /// Length of a cycle, of a link that keeps its frames for neighbours that are gone.
    pub cycle: Option<Duration>,
}

/// Properties of a wire, or of another device whose frames are on no air.
#[derive(Clone, Copy, Debug)]
pub struct Wire {
    /// Time that a frame of a block takes; `None` over a path of unknown capacity.
    pub frame: Option<Duration>,
    /// Twice its known delay.
    pub round_trip: Duration,
}

impl Default for Below {
    /// One radio that sends whenever it can, and reports when a frame is out.
    fn default() -> Self {
        Self {
            repairs: false,
            has_schedule: false,
            frames: BTreeMap::new(),
            in_cycle: BTreeMap::new(),
            wires: BTreeMap::new(),
            airs: [(RadioId(0), 0)].into(),
            cycle: None,
        }
    }
}

/// Settings of block transport (`transport/hop`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HopConfig {
    /// Bytes of a block. Default: 1 MiB as in the paper, and 256 KiB over routes that may change
    /// (`olsr`), because a block that has partly passed to one neighbour begins anew with another.
    /// The hops of a route share the air block by block, so small messages beside a transfer wait
    /// less with smaller blocks; but each block costs requests and answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_bytes: Option<u32>,
    /// Bytes of a block that one frame carries.
    pub frame_bytes: u16,
    /// Frames that a transfer sends in one turn, which the radio may put into one TXOP.
    pub turn_frames: u16,
    /// Blocks of a flow that a node sends to the next hop at the same time. The later ones use the
    /// time in which answers about the first are awaited, as far as the next hop takes them. The
    /// paper has one. Default: two; over a link with a schedule, a wire, or a device that accepts
    /// everything at once, one more than it carries while a block waits for its answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<u32>,
    /// Whether a node passes on the frames of a block before it has all of them. Default: only if
    /// the neighbour that it comes from and the neighbour that it goes to do not share the air, as
    /// with wires, devices that accept everything at once, radios on separate channels, and links
    /// with a schedule whose radios send in separate slots. On one channel, a relay that receives
    /// and sends at the same time collides with nodes that it cannot hear.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<bool>,
    /// Blocks of a flow that a node may hold without having passed them on: once it has this many
    /// it takes no more (H). Over a link with a schedule, a wire, or a device that accepts
    /// everything at once, and where a block leaves over another air than it came over, H and L are
    /// higher by one, or by as many blocks as are carried while a block waits for its answers, so
    /// that the next block comes in while one goes out.
    pub high_blocks: u32,
    /// Once this many or fewer of these blocks are left, the node takes more of the flow (L).
    pub low_blocks: u32,
    /// When a relay takes further blocks of a flow while it still has one to pass on.
    pub ahead: Ahead,
    /// Which neighbour a node answers first, if several want to send it a block.
    pub withhold: Withhold,
    /// Blocks in a spell of a flow, after which the flow queues again. Of the waiting neighbours, a
    /// node usually prefers the flow with the fewest hops, and among several the one furthest in
    /// its spell, so that flows finish one after the other and not all at the end. In two of five
    /// choices it prefers the flow that has had least, so that no flow waits for all others. Blocks
    /// of at most a quarter of the full size take part in every choice. `withhold` decides among
    /// the preferred ones. With 0 it decides alone, for each block, as in the paper.
    pub spell_blocks: u32,
    /// How transfers to several neighbours share the air.
    pub schedule: Schedule,
    /// Whether a sender pauses after a round of which hardly anything arrived: a node that it
    /// cannot hear is probably sending at the same time.
    pub yields: bool,
    /// Length of gaps for small blocks, in milliseconds; 0 for no gaps. While somebody waits for
    /// small blocks that pass a node, the node sends nothing else for this time after every 48
    /// frames of blocks whose route has at least three hops behind or before the node. Otherwise,
    /// requests are lost while a node sends that does not hear their sender. A gap is never longer
    /// than the radio was busy with blocks before it: where 48 frames take less time, more of them
    /// are sent first. A neighbour that receives our blocks and hears others who wait asks for a
    /// gap too. There are no gaps on wires and over links with a schedule, and radios on separate
    /// channels have separate gaps.
    pub interactive_gap_ms: f64,
    /// Length of gaps beside calls, in milliseconds; 0 for no gaps. While packets of a call, or of
    /// anything else that is not a block, fail here or nearby, a node sends nothing for this time
    /// after every three frames of blocks. Otherwise, a packet is lost if a node that does not hear
    /// its sender sends for longer than the radio retries. At high bit-rates more frames are sent
    /// first, until the radio was busy for two thirds of this time.
    pub call_gap_ms: f64,
    /// How the messages and frames of a block are addressed to its next hop.
    pub next_hop: NextHop,
    /// Bit-rate of requests and answers, in Mb/s. Default: that of data, because such a message is
    /// short enough for the moments in which a hidden sender leaves the air idle. After a message
    /// that the radio gave up, the next one is sent at the bit-rate of the radio's
    /// acknowledgements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_mbps: Option<f64>,
    /// Longest time that a source waits for the destination's acknowledgement before it asks for
    /// it, in seconds. Over devices that acknowledge nothing, where it may be lost, the source
    /// already asks when the acknowledgement is due.
    pub end_to_end_s: f64,
    /// Memory for blocks, in bytes. To make room, the bytes of blocks that nobody is sending leave
    /// memory where they are also on disk, first those of blocks that were passed on. Then blocks
    /// that were passed on are dropped.
    pub memory_bytes: u64,
    /// Where a block must be stored before a daemon acknowledges it. The simulator has only memory.
    pub durable: Durable,
    /// Disk space for blocks, in bytes, where they are kept on disk. To make room, blocks that were
    /// passed on are dropped.
    pub disk_bytes: u64,
    /// How long a relay holds a block whose arrival the destination does not acknowledge, in hours.
    /// Its source keeps the block as long as it wants it delivered, and sends it again. The paper
    /// only counts hops, so blocks for a node that never comes back would stay in relays for ever.
    pub relay_hours: f64,
    /// How long a daemon may hear nothing from the other end of a stream before it gives up the
    /// stream, in seconds. The simulator has no streams.
    pub silence_s: f64,
}

impl Default for HopConfig {
    fn default() -> Self {
        Self {
            block_bytes: None,
            frame_bytes: 1_400,
            turn_frames: 6,
            in_flight: None,
            pipeline: None,
            high_blocks: 1,
            low_blocks: 0,
            ahead: Ahead::Gone,
            withhold: Withhold::WeightedSignal,
            spell_blocks: 16,
            schedule: Schedule::RoundRobin,
            yields: true,
            interactive_gap_ms: 40.0,
            call_gap_ms: 4.0,
            next_hop: NextHop::Raw,
            control_mbps: None,
            end_to_end_s: 5.0,
            memory_bytes: 64 << 20,
            durable: Durable::Fsync,
            disk_bytes: 1 << 30,
            relay_hours: 168.0,
            silence_s: 60.0,
        }
    }
}

impl HopConfig {
    /// These settings, with the default block size for routes that may change or do not.
    pub fn over_routes(mut self, may_change: bool) -> Self {
        let bytes = if may_change { CHANGING_BLOCK_BYTES } else { BLOCK_BYTES };
        self.block_bytes.get_or_insert(bytes);
        self
    }

    /// Bytes of a full block.
    pub fn bytes_of_block(&self) -> u32 {
        self.block_bytes.unwrap_or(BLOCK_BYTES)
    }

    /// Position of the block with this number in the spell of its flow.
    pub(super) fn in_spell(&self, number: u32) -> u32 {
        number.checked_rem(self.spell_blocks).unwrap_or(0)
    }

    /// Bytes of memory that a full block needs, with frames of the length that is set.
    pub(crate) fn block_cost(&self) -> u64 {
        cost(self.bytes_of_block().into(), self.block_frames().into())
    }

    /// Frames of a full block.
    fn block_frames(&self) -> u32 {
        self.bytes_of_block().div_ceil(self.frame_bytes.max(1).into())
    }

    /// Full blocks that so many frames make, rounded up.
    pub(super) fn blocks_of(&self, frames: f64) -> u32 {
        (frames / f64::from(self.block_frames())).ceil() as u32
    }

    /// Bytes of an IP packet with a full frame of a block.
    pub fn datagram_bytes(&self) -> usize {
        const IPV4_AND_UDP_BYTES: usize = 28;
        IPV4_AND_UDP_BYTES + wire::HEADER_BYTES + usize::from(self.frame_bytes)
    }

    /// Whether frames are sent to the IP address of the next hop, which routing then forwards.
    pub fn goes_by_address(&self) -> bool {
        self.next_hop == NextHop::Ip
    }

    /// Longest time that a source waits for the destination's acknowledgement.
    pub fn end_to_end(&self) -> Duration {
        Duration::from_secs_f64(self.end_to_end_s)
    }

    /// How long a relay holds a block.
    pub(super) fn relay_time(&self) -> Duration {
        Duration::from_secs_f64(self.relay_hours * 3_600.0)
    }

    /// How long the other end of a stream may be silent.
    pub fn silence(&self) -> Duration {
        Duration::from_secs_f64(self.silence_s)
    }
}

/// When a relay takes further blocks of a flow, up to H, while it still has one to pass on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Ahead {
    /// Only while the next hop is gone: otherwise they would take air time from the onward hop.
    /// Where `high_blocks` is raised (wires, links with a schedule, separate airs), the blocks that
    /// it is raised by are always taken.
    #[default]
    Gone,
    /// Always, as in the paper.
    Always,
}

/// Which of the waiting neighbours a node answers next (`hop.md` 7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Withhold {
    /// No neighbour waits: every request is answered at once.
    Never,
    /// The one that has waited longest.
    Fifo,
    /// The one with the strongest signal.
    BestLink,
    /// One at random, with a probability in proportion to its signal-to-noise ratio in decibels.
    #[default]
    WeightedSignal,
}

/// How transfers share the air (`hop.md` 8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// All have equal turns.
    #[default]
    RoundRobin,
    /// Turns are in proportion to the share of frames that the next hop receives.
    ProportionalFair,
}

/// How messages and frames are addressed to the next hop of a block (`hop.md` 9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NextHop {
    /// They go to the neighbour itself, and to another one as soon as the block's route changes.
    #[default]
    Raw,
    /// They go to the IP address of the neighbour that was on the route when the block was first
    /// offered, and are forwarded to it if it is no longer a neighbour, as in the paper's own
    /// implementation.
    Ip,
}

/// Where a block must be stored to be safe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Durable {
    /// On disk: it survives a power failure.
    #[default]
    Fsync,
    /// In the kernel's page cache: it survives the end of the daemon.
    PageCache,
    /// In the daemon's memory.
    Memory,
}
