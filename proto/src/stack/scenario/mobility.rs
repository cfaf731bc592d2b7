//! How nodes move.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How nodes move. Nodes with a `path_m` follow it regardless.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MobilityConfig {
    /// Model for nodes without a `path_m`.
    pub kind: MobilityKind,
    /// Shortest and longest pause before each walk, in seconds (`random-walk`).
    pub pause_s: [f64; 2],
    /// Lowest and highest speed of a walk, in metres per second (`random-walk`).
    pub speed_m_per_s: [f64; 2],
    /// How often the links of moving nodes are recomputed, in milliseconds. Links between nodes
    /// that do not move are computed once.
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
    /// Nodes stay where they are.
    #[default]
    Static,
    /// Each node pauses, then walks straight to a uniformly random point of `[area]`, and repeats
    /// this (`rain.md` 6).
    RandomWalk,
}
