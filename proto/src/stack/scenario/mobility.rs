//! How nodes move.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How nodes move. Those with a `path_m` of their own follow it whatever stands here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MobilityConfig {
    /// The model for nodes without a path.
    pub kind: MobilityKind,
    /// Least and most of a pause before each walk, in seconds (`random-walk`).
    pub pause_s: [f64; 2],
    /// Least and most of the speed of each walk, in metres per second (`random-walk`).
    pub speed_m_per_s: [f64; 2],
    /// How often the links of nodes that move are brought up to date, in milliseconds. Those of
    /// nodes that stand are computed once.
    pub refresh_ms: f64,
}

impl Default for MobilityConfig {
    fn default() -> Self {
        Self {
            kind: MobilityKind::Static,
            pause_s: [0.0, 1.0],
            speed_m_per_s: [1.0, 10.0],
            refresh_ms: 100.0,
        }
    }
}

impl MobilityConfig {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A model of movement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MobilityKind {
    /// Nodes stand where they are.
    #[default]
    Static,
    /// Each node pauses, then walks straight to a uniformly random point of `[area]`, and again
    /// (`rain.md` 6).
    RandomWalk,
}
