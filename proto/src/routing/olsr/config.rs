//! Settings of OLSR.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::base::Duration;

/// Settings of `routing/olsr`. Intervals and willingness default to the values of RFC 3626, section
/// 18.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OlsrConfig {
    /// Time between HELLOs, in seconds.
    pub hello_s: f64,
    /// HELLO intervals without a HELLO after which a neighbour is lost. Three, the value of the
    /// RFC, are missed by chance on a bad link every other minute. Long before the last of ten is
    /// missed, the quality of the link is so low that any other route is taken.
    pub hello_hold: u8,
    /// Time between topology messages, in seconds.
    pub tc_s: f64,
    /// Topology message intervals without such a message after which what a node reported is
    /// forgotten; four times as many with `fish_eye`. Three, the value of the RFC, are lost in a
    /// row where broadcasts meet the traffic of hidden nodes. Keeping a report for longer does no
    /// harm: a link counts only while its other end reports it too.
    pub tc_hold: u8,
    /// Whether most topology messages are sent only a few hops far (fish eye): distant nodes need
    /// less exact routes to this one, and the flooding of many nodes fills the air.
    pub fish_eye: bool,
    /// Over how many HELLOs the share that arrives is measured, which is the quality of a link; at
    /// most 32. Over ten, as in olsrd, it varies by chance so much that routes change all the time
    /// where much is lost. Once five in a row are missing, only the last ten count.
    pub window: u8,
    /// How readily this node forwards what others flood: 0 never, 3 normally, 7 always.
    pub willingness: u8,
    /// How many neighbours are asked to forward what this node floods to each node two hops away.
    /// With one, as in the RFC, a lost broadcast is lost for all nodes behind it.
    pub relays: u8,
    /// Least time between two computations of routes, in seconds. When the link reports that a
    /// neighbour is gone, they are computed at once.
    pub recompute_s: f64,
    /// Bit-rate of OLSR's messages, in Mb/s. Default: the lowest basic rate. With a card, and where
    /// signals weaken with distance and data has a fixed rate: a rate that is heard as far as data.
    /// Links with slots send these messages at the rate of everything else.
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
    /// Largest `window`.
    pub const MOST_WINDOW: u8 = 32;

    pub(super) fn hello(&self) -> Duration {
        Duration::from_secs_f64(self.hello_s)
    }

    pub(super) fn tc(&self) -> Duration {
        Duration::from_secs_f64(self.tc_s)
    }

    /// Hops that the topology message with this number goes, as in olsrd.
    pub(super) fn reach(&self, number: u16) -> u8 {
        const REACH: [u8; 8] = [2, 8, 2, 16, 2, 8, 2, u8::MAX];
        if self.fish_eye { REACH[usize::from(number) % REACH.len()] } else { u8::MAX }
    }

    /// How long a topology message is believed. With fish eye, every fourth one reaches nodes up to
    /// 16 hops away.
    pub(super) fn tc_validity(&self) -> Duration {
        let rarer = if self.fish_eye { 4 } else { 1 };
        self.tc() * u64::from(self.tc_hold) * rarer
    }

    pub(super) fn recompute(&self) -> Duration {
        Duration::from_secs_f64(self.recompute_s)
    }
}
