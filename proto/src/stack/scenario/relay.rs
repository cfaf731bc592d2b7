//! Relays of TCP connections: applications on the nodes between the ends of a flow.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The relays of a `relayed` flow. By default every node on the route has one, which copies what
/// arrives to the next TCP connection ("stitched").
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RelayConfig {
    /// When a relay passes on what it has.
    pub mode: RelayMode,
    /// The nodes with a relay in the order of the route, for example one gateway (split TCP).
    /// Default: every node on the route.
    pub at: Vec<String>,
    /// Transport from the relay to the end of the flow: TCP, or blocks as behind a proxy. Blocks
    /// need `stream` and exactly one relay.
    pub onward: Onward,
    /// Bytes of a segment, each of which is acknowledged (`bundle`).
    pub segment_bytes: u32,
    /// Speed at which a relay stores a bundle, in megabytes per second (`bundle`).
    pub storage_mb_per_s: f64,
}

impl Default for RelayConfig {
    fn default() -> Self {
        Self {
            mode: RelayMode::Stream,
            at: Vec::new(),
            onward: Onward::Tcp,
            segment_bytes: 4_096,
            storage_mb_per_s: 20.0,
        }
    }
}

/// When a relay passes on what it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RelayMode {
    /// At once, with an unbounded buffer.
    #[default]
    Stream,
    /// When it has stored everything: the file is one bundle, in segments that are acknowledged
    /// over the connection (DTN over the TCP convergence layer, RFC 7242).
    Bundle,
}

/// Transport from a relay on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Onward {
    /// TCP.
    #[default]
    Tcp,
    /// Blocks, made reliable hop by hop.
    Hop,
}
