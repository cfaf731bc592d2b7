//! The plain link: frames go straight to the chip, which does CSMA/CA and retries.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of `link/plain`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PlainConfig {
    /// Packets in the drop-tail queue.
    pub queue_packets: usize,
}

impl Default for PlainConfig {
    fn default() -> Self {
        Self { queue_packets: 50 }
    }
}
