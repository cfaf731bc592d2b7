//! Links between two nodes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::is_zero;
use super::loss::LossConfig;
use super::radio_override::RadioOverride;

/// A link between two nodes. What it does not say follows from the positions of its ends, where
/// both have one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RadioLinkConfig {
    /// The names of its ends.
    pub between: [String; 2],
    /// Length, in kilometres; 0 if it is not given and does not follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance_km: Option<f64>,
    /// Delay beside that of the distance, in milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub delay_ms: f64,
    /// Loss from the first end to the second, and back if `loss_back` is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<LossConfig>,
    /// Loss from the second end to the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_back: Option<LossConfig>,
    /// Received power at either end, in dBm. If it is not given it follows from the positions of
    /// the ends; over radios of the link's own from the length and `propagation`, if they say
    /// `tx_power_dbm`, `antenna_gain_dbi` or `cable_loss_db`. Else it is -60.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal_dbm: Option<f64>,
    /// Highest bit-rate of data over it either way, in Mb/s, under `wild`: a far station of a star
    /// need not slow down the others. Data goes at the best rate that both know and that is not
    /// above it, or else the lowest; at those of the radios if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_mbps: Option<f64>,
    /// Gives the link a radio of its own at each end (a directional antenna, a wire), with these
    /// settings in the place of those of `[radio]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub radio: Option<RadioOverride>,
}
