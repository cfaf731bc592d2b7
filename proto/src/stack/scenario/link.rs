//! Links between two nodes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::is_zero;
use super::loss::LossConfig;
use super::radio_override::RadioOverride;

/// A link between two nodes. What is not given follows from the positions of its ends, if both have
/// one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RadioLinkConfig {
    /// Names of its two ends.
    pub between: [String; 2],
    /// Length, in kilometres. Default: the distance between the ends, or 0 if they have no
    /// positions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance_km: Option<f64>,
    /// Delay in addition to that of the length, in milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub delay_ms: f64,
    /// Loss from the first end to the second, and back unless `loss_back` is given. Default:
    /// `propagation.loss` between nodes with positions, else none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<LossConfig>,
    /// Loss from the second end to the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_back: Option<LossConfig>,
    /// Received power at either end, in dBm. Default: by the positions of the ends. For a link with
    /// a `radio` that gives `tx_power_dbm`, `antenna_gain_dbi` or `cable_loss_db`: by its length
    /// and `propagation`. Where neither applies: -60.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal_dbm: Option<f64>,
    /// Highest bit-rate of data over the link in both directions, in Mb/s (`wild`), so that a far
    /// station of a star does not slow down the others. Data goes at the highest rate that both
    /// radios know and that is not above this, or else at their lowest. Default: the rates of the
    /// radios.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_mbps: Option<f64>,
    /// Gives the link a radio of its own at each end (a directional antenna, a wire), whose
    /// settings override those of `[radio]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub radio: Option<RadioOverride>,
}
