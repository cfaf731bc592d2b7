//! Radio links.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::loss::LossConfig;

/// A radio link between two nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RadioLinkConfig {
    /// The names of its ends.
    pub between: [String; 2],
    /// Length, in kilometres.
    #[serde(default)]
    pub distance_km: f64,
    /// Loss from the first end to the second, and back if `loss_back` is not given.
    #[serde(default)]
    pub loss: LossConfig,
    /// Loss from the second end to the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_back: Option<LossConfig>,
    /// Received power at either end, in dBm.
    #[serde(default = "default_signal")]
    pub signal_dbm: f64,
}

fn default_signal() -> f64 {
    -60.0
}
