//! Settings of OLSR.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::base::Duration;

/// Settings of `routing/olsr`. The defaults are those of RFC 3626, section 18, where it has them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OlsrConfig {
    /// Time between HELLOs, in seconds.
    pub hello_s: f64,
    /// HELLOs without one of which a neighbour is lost. Three, as the RFC has it, are lost by
    /// chance on a bad link every other minute; long before the last of ten its quality is so low
    /// that any other path is taken.
    pub hello_hold: u8,
    /// Time between topology messages, in seconds.
    pub tc_s: f64,
    /// Topology messages without one of which what a node said is forgotten. Three, as the RFC has
    /// it, are lost in a row where broadcasts meet the traffic of hidden nodes. What is kept for
    /// longer does no harm: a link counts only while its other end tells of it too.
    pub tc_hold: u8,
    /// HELLOs of which the share that arrived is the quality of a link.
    pub window: u8,
    /// How gladly this node sends on what others flood: 0 never, 3 usually, 7 always.
    pub willingness: u8,
    /// How many neighbours are to send on what this node floods to each node two hops away. With
    /// one, as the RFC has it, a lost broadcast is lost for all behind it.
    pub relays: u8,
    /// Least time between two computations of routes, in seconds.
    pub recompute_s: f64,
    /// Bit-rate of its messages; the lowest basic rate if it is not given. Links with slots send
    /// them at the rate of everything else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_mbps: Option<f64>,
}

impl Default for OlsrConfig {
    fn default() -> Self {
        Self {
            hello_s: 2.0,
            hello_hold: 10,
            tc_s: 5.0,
            tc_hold: 6,
            window: 10,
            willingness: 3,
            relays: 3,
            recompute_s: 3.0,
            rate_mbps: None,
        }
    }
}

impl OlsrConfig {
    /// Most HELLOs in a window.
    pub const MOST_WINDOW: u8 = 32;

    pub(super) fn hello(&self) -> Duration {
        Duration::from_secs_f64(self.hello_s)
    }

    pub(super) fn tc(&self) -> Duration {
        Duration::from_secs_f64(self.tc_s)
    }

    pub(super) fn recompute(&self) -> Duration {
        Duration::from_secs_f64(self.recompute_s)
    }
}
