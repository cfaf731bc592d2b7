//! Settings of `transport/hop`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::block::cost;
use crate::base::{Duration, RadioId};
use crate::wire::hop as wire;

/// Hops that a block may make (`hop.md` 2).
pub const HOPS: u8 = 50;
/// Bytes of a block if nothing else is set (`hop.md` 1).
const BLOCK_BYTES: u32 = 1 << 20;
/// The same where routes may change.
const CHANGING_BLOCK_BYTES: u32 = 1 << 18;
/// So long after its first byte a block of a stream or of datagrams is closed, however much is in
/// it (`hop.md` 9).
pub const BATCH: Duration = Duration::from_millis(500);

/// What blocks must know of the link below.
#[derive(Clone, Debug)]
pub struct Below {
    /// Whether it or its radios repair losses by themselves (radios do so where frames go many in a
    /// transmission), and tell the end of a frame rounds after it was sent.
    pub repairs: bool,
    /// Whether radios send by a schedule of its own: relays that receive and send at once on one
    /// air do not collide then with nodes that they cannot hear.
    pub has_schedule: bool,
    /// Frames of blocks that a radio is to have at a time, where two turns are not enough: as many
    /// as it carries until the link tells the end of the first.
    pub frames: BTreeMap<RadioId, u32>,
    /// Frames of blocks that a radio with slots carries in a cycle: an answer takes one.
    pub in_cycle: BTreeMap<RadioId, u32>,
    /// Radios that are wires, or have no air for another reason.
    pub wires: BTreeMap<RadioId, Wire>,
    /// The air of each radio, as neighbours have them (`Hop::set_airs`): nobody sends on one while
    /// others that share it are to have a gap. Wires are not there: nobody is heard over them.
    pub airs: BTreeMap<RadioId, usize>,
    /// How long a cycle takes, of a link that keeps what it has for neighbours that are gone.
    pub cycle: Option<Duration>,
}

/// What blocks must know of a wire, or of another device whose frames are on no air.
#[derive(Clone, Copy, Debug)]
pub struct Wire {
    /// How long a frame of a block takes; nothing where that depends on a path of which nobody
    /// knows what it carries.
    pub frame: Option<Duration>,
    /// Twice the delay that is known of it.
    pub round_trip: Duration,
}

impl Default for Below {
    /// One radio that sends as it likes, and says when a frame has gone.
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

/// Settings of `transport/hop`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HopConfig {
    /// Bytes of a block. The hops of a way share the air by blocks, so that somebody who waits for
    /// little beside a transfer waits less with smaller ones; each costs its requests and answers.
    /// If it is not given, 1 MiB, as in the paper, and 256 KiB over routes that may change
    /// (`olsr`): a block of which a part has passed to one neighbour begins anew with another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_bytes: Option<u32>,
    /// Bytes of a block in one frame.
    pub frame_bytes: u16,
    /// Frames of a turn of the scheduler, which the radio may send in one TXOP.
    pub turn_frames: u16,
    /// Blocks of a flow that a node sends to the next hop at a time; the later ones fill the
    /// waiting for answers about the first, as far as the next hop takes them. The paper has one.
    /// If it is not given, two, and over a link with a schedule, a wire, or a device that takes all
    /// at once, one more than what it carries while a block waits for its answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<u32>,
    /// Whether a node passes on what it has of a block before all of it is there. If it is not
    /// given, where the neighbour that it comes from and the one that it goes to do not share the
    /// air: by wire, over devices that take all at once, over radios on channels apart, and where a
    /// link with a schedule has radios send in slots apart. On one channel else, relays that
    /// receive and send at once collide with nodes that they cannot hear.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<bool>,
    /// Blocks of a flow that a node holds and has not passed on, at which it takes no more (H).
    /// Over a link with a schedule, a wire, or a device that takes all at once, and where a block
    /// goes on over another air than it comes over, H and L are one more than is set, or as many as
    /// they carry while a block waits for its answers: while one goes on the next comes.
    pub high_blocks: u32,
    /// Those at which it takes some again (L).
    pub low_blocks: u32,
    /// When a relay takes blocks of a flow beyond the first that it has not passed on.
    pub ahead: Ahead,
    /// Whom a node hears first, of those that want to send it a block.
    pub withhold: Withhold,
    /// Blocks of a flow after which it stands in line anew. Of those that wait, a node mostly hears
    /// the flow with the fewest hops, and of several the one that is furthest in its spell, so that
    /// flows end one after the other and not all at last; two times in five it hears the one that
    /// has had least, so that none waits for all others. What is much smaller than a block takes
    /// part in the choice all the same. With 0 a choice of `withhold` is for one block, as in the
    /// paper.
    pub spell_blocks: u32,
    /// How transfers to several neighbours share the air.
    pub schedule: Schedule,
    /// Whether a sender holds back when hardly anything of what it sent has come: somebody whom it
    /// cannot hear sends at the same time.
    pub yields: bool,
    /// How long a node leaves the air alone after every 48 frames of blocks, in milliseconds, while
    /// somebody waits for small ones that pass it, and their way has three hops or more to one
    /// side: a request is not heard while somebody sends who does not hear its sender. It is never
    /// for longer than the radio was busy with blocks since the last gap: where 48 frames are sent
    /// sooner, more of them go first. A neighbour that hears others who wait, and takes our blocks,
    /// asks for such a moment too. 0 for no gaps; there are none over what has no air, nor where
    /// the link has a schedule, and radios on channels apart have their own.
    pub interactive_gap_ms: f64,
    /// How long a node leaves the air alone after every three frames of blocks, in milliseconds,
    /// while packets of a call, or of anything else that is no block, fail here or nearby: one is
    /// lost if somebody who does not hear its sender sends for longer than the radio tries. At high
    /// bit-rates more frames go first, until the radio was busy for two thirds of that; 0 for no
    /// gaps.
    pub call_gap_ms: f64,
    /// How a message for the next hop of a block gets there.
    pub next_hop: NextHop,
    /// Bit-rate of requests and answers, in Mb/s. If it is not given, they go as data does, which
    /// is soon over where somebody hidden leaves the air for a moment only, and one that the radio
    /// has given up is followed by one at the bit-rate of the radio's acknowledgements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_mbps: Option<f64>,
    /// How long a source waits for the destination's acknowledgement at most, in seconds. Over
    /// devices that acknowledge nothing, where it may be lost, it asks for it once it should be
    /// here.
    pub end_to_end_s: f64,
    /// Memory for blocks, in bytes. Where they are kept on disk those that nobody sends now leave
    /// it for others, first those that were passed on; else those are let go.
    pub memory_bytes: u64,
    /// Where a block must be before a daemon acknowledges it. The simulator has memory alone.
    pub durable: Durable,
    /// Disk for blocks, in bytes, where they are kept there; those that were passed on are let go
    /// for others.
    pub disk_bytes: u64,
    /// How long a relay holds a block whose destination does not tell that it has it, in hours: its
    /// source has it as long as it wants it there, and sends it again. The paper counts hops alone,
    /// so that blocks for a node that never comes back would fill relays for ever.
    pub relay_hours: f64,
    /// How long a daemon may hear nothing of the other end of a stream before it gives the stream
    /// up, in seconds. The simulator has no streams.
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
    /// These settings where routes stay as they are, or may change.
    pub fn over_routes(mut self, may_change: bool) -> Self {
        let bytes = if may_change { CHANGING_BLOCK_BYTES } else { BLOCK_BYTES };
        self.block_bytes.get_or_insert(bytes);
        self
    }

    /// Bytes of a whole block.
    pub fn bytes_of_block(&self) -> u32 {
        self.block_bytes.unwrap_or(BLOCK_BYTES)
    }

    /// How far a block of this number is in the spell of its flow.
    pub(super) fn in_spell(&self, number: u32) -> u32 {
        number.checked_rem(self.spell_blocks).unwrap_or(0)
    }

    /// Memory that a whole block of frames as long as they are here needs.
    pub(crate) fn block_cost(&self) -> u64 {
        cost(self.bytes_of_block().into(), self.block_frames().into())
    }

    /// Frames of a whole block.
    fn block_frames(&self) -> u32 {
        self.bytes_of_block().div_ceil(self.frame_bytes.max(1).into())
    }

    /// Blocks of so many frames.
    pub(super) fn blocks_of(&self, frames: f64) -> u32 {
        (frames / f64::from(self.block_frames())).ceil() as u32
    }

    /// Bytes of an IP packet with a whole frame of a block.
    pub fn datagram_bytes(&self) -> usize {
        const IPV4_AND_UDP_BYTES: usize = 28;
        IPV4_AND_UDP_BYTES + wire::HEADER_BYTES + usize::from(self.frame_bytes)
    }

    /// Whether frames go to the address of the next hop, which routing leads to.
    pub fn goes_by_address(&self) -> bool {
        self.next_hop == NextHop::Ip
    }

    /// How long a source waits for the destination's acknowledgement.
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

/// When a relay takes blocks of a flow beyond the first that it has not passed on, up to H.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Ahead {
    /// While the next hop is gone: else they would take the air of the way onward. A link with a
    /// schedule has one in any case.
    #[default]
    Gone,
    /// Always, as in the paper.
    Always,
}

/// Which of the neighbours that wait a node answers next (`hop.md` 7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Withhold {
    /// None waits: every request is answered at once.
    Never,
    /// The one that has waited longest.
    Fifo,
    /// The one with the strongest signal.
    BestLink,
    /// One by lot, with chances in proportion to signal over noise in decibels.
    #[default]
    WeightedSignal,
}

/// How transfers share the air (`hop.md` 8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// All have turns alike.
    #[default]
    RoundRobin,
    /// Turns are in proportion to the share of frames that the next hop receives.
    ProportionalFair,
}

/// How messages get to the next hop of a block (`hop.md` 9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NextHop {
    /// They go to the neighbour itself, and to another one as soon as the route is another.
    #[default]
    Raw,
    /// They go to the address of the neighbour that was on the route when the block was first
    /// offered, and are forwarded to it if that is no neighbour any more: what the paper's own
    /// implementation did.
    Ip,
}

/// Where a block is safe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Durable {
    /// On disk: it survives the loss of power.
    #[default]
    Fsync,
    /// With the kernel: it survives the end of the daemon.
    PageCache,
    /// In the memory of the daemon.
    Memory,
}
