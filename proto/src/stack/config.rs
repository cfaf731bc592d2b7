//! Stack settings in a scenario file: one enum for each role; each variant is a protocol with its
//! settings.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scenario::{RadioConfig, RateControl};
use crate::base::{Duration, PhyKind, RadioSpec};
use crate::link::blindfec::BlindFecConfig;
use crate::link::harq::{ArqConfig, HarqConfig};
use crate::link::plain::PlainConfig;
use crate::link::queue::QueueConfig;
use crate::link::snoop::SnoopConfig;
use crate::link::two_p::TwoPConfig;
use crate::link::wild::WildConfig;
use crate::routing::olsr::OlsrConfig;
use crate::transport::hop::HopConfig;
use crate::wire::secure::UNIT_SEAL_BYTES;
use crate::wire::wild::UNIT_HEAD_BYTES;
use crate::wire::{blindfec, harq};

/// The stack of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StackConfig {
    /// Link protocol.
    pub link: LinkConfig,
    /// Queue of wires, in a network whose radios send in slots (`wild`, `two-p`). Wires do not;
    /// their link is `plain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wires: Option<WiresConfig>,
    /// Local recovery of lost TCP segments (Snoop) at every node that sends, around the link: a
    /// baseline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snoop: Option<SnoopConfig>,
    /// Routing protocol.
    pub routing: RoutingConfig,
    /// Settings of flows of blocks (`kind = "hop"`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hop: Option<HopConfig>,
}

impl StackConfig {
    /// Settings of blocks, adapted to whether routes may change.
    pub fn of_blocks(&self) -> HopConfig {
        let may_change = matches!(self.routing, RoutingConfig::Olsr(_));
        self.hop.clone().unwrap_or_default().over_routes(may_change)
    }
}

/// Queue of wires in a network whose radios send in slots.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WiresConfig {
    /// Most packets in the queue. Default: as many as a wire sends in four slots, 50 to 4,096.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_packets: Option<usize>,
    /// Which packets the queue accepts while it has room.
    #[serde(skip_serializing_if = "QueueConfig::is_default")]
    pub queue: QueueConfig,
}

/// Largest default length of the queue of wires, in packets.
const LONGEST_QUEUE: usize = 4_096;
/// Longest IP packet, in bytes.
const FULL_PACKET_BYTES: usize = 1_500;

impl StackConfig {
    /// The link of these wires of a node. Its queue is long because radios release what they
    /// received once per slot, in a burst, and so the acknowledgements that let TCP send.
    pub(super) fn of_wires(&self, wires: &[RadioSpec]) -> PlainConfig {
        let usual = PlainConfig::default();
        let WiresConfig { queue_packets, queue } = self.wires.clone().unwrap_or_default();
        let in_slots = |spec: &RadioSpec| {
            (self.link.slot() * 4).div_duration(spec.phy.air_time(FULL_PACKET_BYTES, spec.rate))
        };
        let most = wires.iter().map(in_slots).max().unwrap_or(0) as usize;
        let queue_packets =
            queue_packets.unwrap_or_else(|| most.clamp(usual.queue_packets, LONGEST_QUEUE));
        PlainConfig { queue_packets, queue, ..usual }
    }
}

/// The link protocol and its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum LinkConfig {
    /// Frames go straight to the chip, which does CSMA/CA and retries.
    Plain(PlainConfig),
    /// Time slots, bulk acknowledgements and adaptive coding (WiLDNet).
    Wild(WildConfig),
    /// Phases that end with markers, no retransmission (2P): a baseline.
    #[serde(rename = "two-p")]
    TwoP(TwoPConfig),
    /// N frames for every K packets, whatever is lost: a baseline.
    BlindFec(BlindFecConfig),
    /// Packets in units, with as much parity as is likely to be lost, and more on request
    /// (LL-HARQ).
    Harq(HarqConfig),
    /// Packets in units, repeated until all have arrived (LL-ARQ): a baseline.
    Arq(ArqConfig),
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self::Plain(PlainConfig::default())
    }
}

impl LinkConfig {
    /// Whether the link schedules its radios, which then do not wait for a free medium.
    pub const fn has_schedule(&self) -> bool {
        matches!(self, Self::Wild(_) | Self::TwoP(_))
    }

    /// Whether the link schedules radios of one kind. A wire carries both directions at once and
    /// has no slots.
    pub fn has_schedule_over(&self, kind: PhyKind) -> bool {
        self.has_schedule() && kind != PhyKind::Wire
    }

    /// Whether a radio chooses the bit-rates. A schedule is calculated for one rate, which the link
    /// names.
    pub fn chooses_rates(&self, radio: &RadioConfig) -> bool {
        radio.rate_control != RateControl::Fixed && !self.has_schedule_over(radio.phy)
    }

    /// Length of the longest slot; zero without a schedule.
    fn slot(&self) -> Duration {
        match self {
            Self::Wild(wild) => wild.slot_most(),
            Self::TwoP(two_p) => two_p.phase(),
            Self::Plain(_) | Self::BlindFec(_) | Self::Harq(_) | Self::Arq(_) => Duration::ZERO,
        }
    }

    /// Whether the link repairs losses by itself, round by round.
    pub const fn repairs(&self) -> bool {
        matches!(self, Self::Wild(_)) || self.has_units()
    }

    /// Whether radios may acknowledge its frames, one by one or as an aggregate.
    pub const fn is_acknowledged_by_radios(&self) -> bool {
        match self {
            Self::Plain(plain) => plain.mac_ack,
            Self::Wild(_) => true,
            Self::TwoP(_) | Self::BlindFec(_) | Self::Harq(_) | Self::Arq(_) => false,
        }
    }

    /// Whether it divides packets into units.
    pub const fn has_units(&self) -> bool {
        matches!(self, Self::Harq(_) | Self::Arq(_))
    }

    /// How many packets Snoop hands to the link at a time unless the settings say it: few, because
    /// retransmissions cannot overtake them, but without limit for links that send many at once.
    pub(super) const fn snoop_depth(&self) -> usize {
        match self {
            Self::Plain(_) | Self::Harq(_) | Self::Arq(_) => 4,
            Self::Wild(_) | Self::TwoP(_) | Self::BlindFec(_) => usize::MAX,
        }
    }

    /// Whether it carries broadcast packets.
    pub const fn has_broadcast(&self) -> bool {
        !matches!(self, Self::TwoP(_))
    }

    /// Length behind LLC/SNAP of the longest frame that a radio sends for packets of up to `packet`
    /// bytes, including the seal if frames are sealed. At most half of the units are assumed to be
    /// parity.
    pub fn longest_frame(&self, radio: &RadioSpec, packet: usize) -> usize {
        let sealed = packet + radio.seal_bytes;
        let tag = if radio.seal_bytes > 0 { UNIT_SEAL_BYTES } else { 0 };
        let unit = |of: u8| sealed.div_ceil(of.max(1).into()) + harq::UNIT_HEADER_BYTES + tag;
        match self {
            Self::Plain(_) | Self::TwoP(_) => sealed,
            Self::Wild(wild) => wild.longest_frame(radio, packet) + radio.seal_bytes,
            Self::BlindFec(_) => blindfec::HEADER_BYTES + UNIT_HEAD_BYTES + sealed,
            Self::Harq(harq) => unit(harq.units_over(radio) / 2),
            Self::Arq(arq) => unit(arq.units_over(radio)),
        }
    }

    /// Length of the longest frame that holds one packet of `packet` bytes and nothing else,
    /// likewise.
    pub fn packet_frame(&self, radio: &RadioSpec, packet: usize) -> usize {
        match self {
            Self::Wild(wild) => wild.single_frame(radio, packet) + radio.seal_bytes,
            _ => self.longest_frame(radio, packet),
        }
    }

    /// The name of the protocol in files.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Plain(_) => "plain",
            Self::Wild(_) => "wild",
            Self::TwoP(_) => "two-p",
            Self::BlindFec(_) => "blindfec",
            Self::Harq(_) => "harq",
            Self::Arq(_) => "arq",
        }
    }
}

/// The routing protocol and its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum RoutingConfig {
    /// Shortest paths over the links of the scenario, fixed for the whole run. Links that always
    /// lose everything are used only where there is no other way.
    Fixed {},
    /// Every node learns the topology and uses the path with the fewest expected transmissions
    /// (ETX).
    Olsr(OlsrConfig),
}

impl RoutingConfig {
    /// The name of the protocol in files.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Fixed {} => "fixed",
            Self::Olsr(_) => "olsr",
        }
    }

    /// Whether nodes flood what they know, so that each must know the keys of all.
    pub const fn floods(&self) -> bool {
        matches!(self, Self::Olsr(_))
    }
}

impl Default for RoutingConfig {
    fn default() -> Self {
        Self::Fixed {}
    }
}
