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
    /// Whether most topology messages go a few hops only (fish eye): far nodes need to know the way
    /// here less exactly, and the flooding of many nodes fills the air.
    pub fish_eye: bool,
    /// HELLOs of which the share that arrived is the quality of a link. Of ten, as in olsrd, the
    /// share varies by chance so much that routes change all the time where much is lost. Once
    /// five in a row are missing only the last ten count.
    pub window: u8,
    /// How gladly this node sends on what others flood: 0 never, 3 usually, 7 always.
    pub willingness: u8,
    /// How many neighbours are to send on what this node floods to each node two hops away. With
    /// one, as the RFC has it, a lost broadcast is lost for all behind it.
    pub relays: u8,
    /// Least time between two computations of routes, in seconds.
    pub recompute_s: f64,
    /// Bit-rate of its messages. If it is not given, the lowest basic rate; with a card, and where
    /// signals weaken with distance and the rate of data is fixed, one that is heard as far as
    /// data. Links with slots send them at the rate of everything else.
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
            fish_eye: true,
            window: 32,
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

    /// Hops that the topology message of this number goes, as in olsrd.
    pub(super) fn reach(&self, number: u16) -> u8 {
        const REACH: [u8; 8] = [2, 8, 2, 16, 2, 8, 2, u8::MAX];
        if self.fish_eye { REACH[usize::from(number) % REACH.len()] } else { u8::MAX }
    }

    /// How long a topology message is believed. Up to 16 hops away every fourth comes.
    pub(super) fn tc_validity(&self) -> Duration {
        let rarer = if self.fish_eye { 4 } else { 1 };
        self.tc() * u64::from(self.tc_hold) * rarer
    }

    pub(super) fn recompute(&self) -> Duration {
        Duration::from_secs_f64(self.recompute_s)
    }
}
