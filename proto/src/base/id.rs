//! Identifiers of what crosses the boundaries of the stack.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::boundary::Overflow;

/// A name in a status or a report: a constant when it is made, a string when it is read back.
pub type Name = std::borrow::Cow<'static, str>;

/// Counters by their names.
pub fn named<const N: usize>(counters: [(&'static str, u64); N]) -> BTreeMap<Name, u64> {
    counters.into_iter().map(|(name, count)| (name.into(), count)).collect()
}

/// A node of the network, numbered from 1 in the order of the scenario file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub u16);

/// A radio of one node, numbered from 0.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct RadioId(pub u8);

/// A flow as its source numbers it: a hash of the 5-tuple or a configured class; 0 is the default.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct FlowId(pub u16);

impl FlowId {
    /// The flow of frames that carry messages of a layer below the link ([`Wanted`]). No flow of
    /// packets has this number.
    ///
    /// [`Wanted`]: super::boundary::Wanted
    pub const CONTROL: Self = Self(u16::MAX);
}

/// One unit (frame, packet, datagram) at one boundary of one node; unique there for the whole run.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct UnitId(pub u64);

/// EDCA access category (IEEE 802.11-2007, 9.1.3.1), in rising priority.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum AccessCategory {
    /// AC_BK.
    Background,
    /// AC_BE.
    #[default]
    BestEffort,
    /// AC_VI.
    Video,
    /// AC_VO.
    Voice,
}

impl AccessCategory {
    /// Number of categories.
    pub const COUNT: usize = 4;

    /// The category of packets with this DSCP, as recommended by RFC 8325, 4.3, and for code point
    /// 1 by RFC 8622.
    pub const fn of_dscp(dscp: u8) -> Self {
        match dscp {
            // CS7 and CS6, expedited forwarding and admitted voice.
            56 | 48 | 46 | 44 => Self::Voice,
            // Signalling, AF4x, CS4, AF3x, CS3.
            40 | 34 | 36 | 38 | 32 | 26 | 28 | 30 | 24 => Self::Video,
            // Lower effort and CS1.
            1 | 8 => Self::Background,
            _ => Self::BestEffort,
        }
    }
}

/// The key by which room is counted. With credits for each neighbour only, flows in opposite
/// directions can block each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane {
    /// The radio that sends the unit.
    pub radio: RadioId,
    /// The neighbour, or `None` for broadcast.
    pub to: Option<NodeId>,
    /// The flow.
    pub flow: FlowId,
    /// The access category.
    pub access: AccessCategory,
    /// What happens to the unit if there is no room.
    pub overflow: Overflow,
}

/// Hands out [`UnitId`]s, starting from 1.
#[derive(Clone, Debug, Default)]
pub struct UnitIds(u64);

impl UnitIds {
    /// The next id, which was not given out before.
    pub fn next_id(&mut self) -> UnitId {
        self.0 += 1;
        UnitId(self.0)
    }
}
