//! Settings of radios, and of the hosts that drive them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::base::{Gap, PhyKind, Preamble};

/// Settings of a radio.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RadioConfig {
    /// PHY.
    pub phy: PhyKind,
    /// DSSS preamble.
    pub preamble: Preamble,
    /// Bit-rate of data, in Mb/s; the highest of the PHY if it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_mbps: Option<f64>,
    /// Bit-rate of acknowledgements, in Mb/s; the highest basic rate not above the data if it is
    /// not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_rate_mbps: Option<f64>,
    /// Most transmissions of an acknowledged frame, the first included.
    pub attempts: u8,
    /// How long after a frame's end its acknowledgement may begin to arrive, in microseconds; set
    /// for the longest link of the radio if it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_timeout_us: Option<f64>,
    /// Gap before frames without MAC acknowledgement.
    pub gap: Gap,
    /// Whether the contention window doubles after each failed attempt.
    pub exponential_backoff: bool,
    /// Whether the radio waits for a busy medium; off under `wild` if it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carrier_sense: Option<bool>,
    /// Channel number.
    pub channel: u16,
    /// A frame survives others that are at least this much weaker, in decibels.
    pub capture_db: f64,
    /// Whether the radio reports the end of each frame; without it the daemon goes by air time.
    pub transmit_status: bool,
}

impl Default for RadioConfig {
    fn default() -> Self {
        Self {
            phy: PhyKind::B,
            preamble: Preamble::Short,
            rate_mbps: None,
            ack_rate_mbps: None,
            attempts: 7,
            ack_timeout_us: None,
            gap: Gap::Backoff,
            exponential_backoff: true,
            carrier_sense: None,
            channel: 1,
            capture_db: 10.0,
            transmit_status: true,
        }
    }
}

/// How late a host wakes up and hands its frames to the radio. Each is a list of points of the
/// distribution, `[fraction, microseconds]`, rising; between them it is linear.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HostConfig {
    /// From the time a timer is due to the time the host acts.
    pub wake_us: Vec<[f64; 2]>,
    /// From the time the host hands a frame over to the time the radio has it.
    pub submit_us: Vec<[f64; 2]>,
}

impl HostConfig {
    /// Whether the host is never late.
    pub fn is_default(&self) -> bool {
        self.wake_us.is_empty() && self.submit_us.is_empty()
    }
}
