//! Adversaries: strangers that send attack traffic.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::is_zero;
use super::space::Position;

/// A stranger's radio. It sends without regard for others: it does not wait for a free medium, does
/// not repeat frames, and hears nothing while it sends.
///
/// It is beside a node (`near`) or at a position (`position_m`); with neither, it is next to every
/// radio of its channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AdversaryConfig {
    /// Name: letters, digits and `-`, at most 32; no node and no other adversary has it.
    pub name: String,
    /// The node that it is beside: it hears what that node hears, and whoever hears that node hears
    /// it. Nothing is lost on the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near: Option<String>,
    /// Its position, in metres: `[x, y]` or `[x, y, z]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position_m: Option<Position>,
    /// Strength of its signal at everybody who hears it, in dBm. Default: as strong as the nodes'
    /// signals there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal_dbm: Option<f64>,
    /// Share of the time that it is on air, 0 to 1.
    pub duty: f64,
    /// Kinds of frames that it sends, mixed at random. Default: all kinds.
    #[serde(default = "AdversaryKind::all", skip_serializing_if = "is_all")]
    pub kinds: Vec<AdversaryKind>,
    /// When it begins, in seconds from the start of the run.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub from_s: f64,
    /// When it ends, in seconds from the start of the run. Default: the end of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_s: Option<f64>,
    /// Most frames that it sends. Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<u64>,
    /// Whether it sends mere noise: every check sequence is wrong, so nobody can decode it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub as_noise: bool,
}

impl Default for AdversaryConfig {
    fn default() -> Self {
        Self {
            name: String::new(),
            near: None,
            position_m: None,
            signal_dbm: None,
            duty: 0.0,
            kinds: AdversaryKind::all(),
            from_s: 0.0,
            to_s: None,
            frames: None,
            as_noise: false,
        }
    }
}

fn is_all(kinds: &Vec<AdversaryKind>) -> bool {
    *kinds == AdversaryKind::all()
}

/// A kind of attack frame.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum AdversaryKind {
    /// Random bytes after the first bytes of a plausible frame.
    Flood,
    /// Frames that it heard, unchanged: at once, and much later.
    Replay,
    /// Frames that it heard, with one to three bits changed.
    BitFlip,
    /// Frames that it heard one after the other, in another order.
    Reorder,
    /// Plausible frames of its own making, of every type and under every node's name: slot stamps,
    /// acknowledgements, data, parity, handshakes, IP packets.
    Forge,
    /// Handshake messages that it heard, to their receivers and to others.
    RecordedHandshakes,
    /// Handshakes with a key that the nodes no longer trust.
    RevokedKey,
}

impl AdversaryKind {
    /// Every kind.
    pub const ALL: [Self; 7] = [
        Self::Flood,
        Self::Replay,
        Self::BitFlip,
        Self::Reorder,
        Self::Forge,
        Self::RecordedHandshakes,
        Self::RevokedKey,
    ];

    /// Every kind, as a list.
    pub fn all() -> Vec<Self> {
        Self::ALL.to_vec()
    }

    /// The name, as files write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flood => "flood",
            Self::Replay => "replay",
            Self::BitFlip => "bit-flip",
            Self::Reorder => "reorder",
            Self::Forge => "forge",
            Self::RecordedHandshakes => "recorded-handshakes",
            Self::RevokedKey => "revoked-key",
        }
    }
}
