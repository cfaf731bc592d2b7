//! Flows with random ends.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Many flows with random ends. Each has two different nodes that are not relays of the flow, with
/// a path between them unless moving nodes may find one later.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandomEnds {
    /// Number of flows.
    pub count: u64,
    /// The layout whose nodes are the ends. Default: all nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub among: Option<String>,
    /// Each flow starts at a uniformly random time in this span from `start_s` on, in seconds.
    #[serde(default)]
    pub start_within_s: f64,
    /// Most hops between the ends, so that traffic stays local in a large network. Default: any
    /// number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hops: Option<u8>,
    /// Seed of the draws, which do not depend on the seed of the run.
    #[serde(default = "one")]
    pub seed: u64,
}

fn one() -> u64 {
    1
}
