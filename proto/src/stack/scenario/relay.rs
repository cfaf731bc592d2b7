//! TCP from hop to hop through applications on relays.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The applications on the way of a `relayed` flow. Without any key it is TCP hop by hop through
/// relays that copy ("stitched").
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RelayConfig {
    /// When a relay passes on what it has.
    pub mode: RelayMode,
    /// The nodes with a relay, in their order, for example one gateway (split TCP); every node on
    /// the route if none is given.
    pub at: Vec<String>,
    /// What goes on from the first relay to the end (`stream`, with one relay): TCP, or blocks as
    /// behind a proxy.
    pub onward: Onward,
    /// Bytes of a segment that is acknowledged by itself (`bundle`).
    pub segment_bytes: u32,
    /// How fast a relay stores a bundle, in megabytes per second (`bundle`).
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
    /// At once; its buffer has no bound.
    #[default]
    Stream,
    /// When all of it is stored: the file is one bundle, in segments that are acknowledged over
    /// the connection (DTN over the TCP convergence layer, RFC 7242).
    Bundle,
}

/// What goes on from a relay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Onward {
    /// TCP.
    #[default]
    Tcp,
    /// Blocks, made reliable hop by hop.
    Hop,
}
