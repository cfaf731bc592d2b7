//! Strangers in the air that send what they should not.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::is_zero;
use super::space::Position;

/// A stranger's radio, which sends without regard for anybody: it neither waits for a free medium
/// nor repeats, and while it sends it hears nothing.
///
/// It stands beside a node (`near`), at a place (`position_m`), or, where nothing is said, next to
/// every radio of its channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AdversaryConfig {
    /// Name: letters, digits and `-`, at most 32; no node has it.
    pub name: String,
    /// The node that it stands beside: it hears what that node hears, and is heard by whoever
    /// hears that node. Nothing is lost on the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near: Option<String>,
    /// Where it stands, in metres: `[x, y]` or `[x, y, z]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position_m: Option<Position>,
    /// How strong its signal is at whoever hears it, in dBm; as strong as that of others if it is
    /// not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal_dbm: Option<f64>,
    /// Share of the time that it is on air, 0 to 1.
    pub duty: f64,
    /// What it sends: all of these, in turns at random; everything if none are given.
    #[serde(default = "AdversaryKind::all", skip_serializing_if = "is_all")]
    pub kinds: Vec<AdversaryKind>,
    /// When it begins, in seconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub from_s: f64,
    /// When it ends, in seconds; with the run if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_s: Option<f64>,
    /// Most frames that it sends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<u64>,
    /// Nobody can decode what it sends: every check sequence is wrong.
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

/// What a stranger sends.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum AdversaryKind {
    /// Random bytes behind the first bytes of a frame that could be.
    Flood,
    /// Frames that it heard, as they were: right away, and much later.
    Replay,
    /// Frames that it heard, with one to three bits changed.
    BitFlip,
    /// Frames that it heard one after the other, in another order.
    Reorder,
    /// Frames of its own making of every type, each field of which could be, under every node's
    /// name: stamps of slots, acknowledgements, data, parity, handshakes, IP packets.
    Forge,
    /// Messages of handshakes that it heard, to whom they were for and to others.
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

    /// Every kind, as a list of its own.
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
