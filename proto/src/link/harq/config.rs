//! Configuration of LL-HARQ and LL-ARQ.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::base::{PhyKind, RadioSpec};
use crate::link::queue::QueueConfig;

/// Units of a packet over a wire, as in the paper (`loss-tolerant.md` 1).
const OVER_WIRE: u8 = 20;
/// Units of a packet over a radio. Each is a frame with a preamble and a backoff of its own, which
/// take longer than a twentieth of a packet: 4 units carry two to four times as much there, at any
/// loss.
const OVER_RADIO: u8 = 4;

/// Configuration of LL-HARQ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HarqConfig {
    /// Units in the first burst of a packet, data and parity together; 2 to 32. Default: 20 over
    /// wires and 4 over radios.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub units: Option<u8>,
    /// Most bursts of a packet, including the first.
    pub attempts: u8,
    /// Weight of a packet's loss in the moving averages, 0 to 1.
    pub alpha: f64,
    /// How the standard deviation of the loss of units is determined.
    pub sigma: Sigma,
    /// How many units are sent when a report says that some are missing.
    pub rfec: Rfec,
    /// Estimate of the loss of units before anything was measured, 0 to 1.
    pub initial_loss: f64,
    /// Most packets in the queue of a radio.
    pub queue_packets: usize,
    /// Queue discipline: which packets are accepted while there is room.
    #[serde(skip_serializing_if = "QueueConfig::is_default")]
    pub queue: QueueConfig,
}

impl Default for HarqConfig {
    fn default() -> Self {
        Self {
            units: None,
            attempts: 2,
            alpha: 0.005,
            sigma: Sigma::Ewma,
            rfec: Rfec::MuSigma,
            initial_loss: 0.0,
            queue_packets: 50,
            queue: QueueConfig::default(),
        }
    }
}

/// How the standard deviation of the loss of units is determined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sigma {
    /// Measured: the moving average of the squared distance from the mean.
    #[default]
    Ewma,
    /// Computed, as if units were lost independently.
    Binomial,
}

/// How many units are sent when a report says that X units are missing. As many units as the first
/// burst had parity are added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rfec {
    /// X divided by the share of units that arrives if the loss is one standard deviation above its
    /// mean.
    #[default]
    MuSigma,
    /// X divided by the share of units that arrives at the mean loss.
    Mu,
}

/// Configuration of LL-ARQ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ArqConfig {
    /// Units that a packet is cut into, 1 to 32. Default: 20 over wires and 4 over radios.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub units: Option<u8>,
    /// Most bursts of a packet, including the first.
    pub attempts: u8,
    /// Which units are sent again if some are missing.
    pub resend: Resend,
    /// Most packets in the queue of a radio.
    pub queue_packets: usize,
    /// Queue discipline: which packets are accepted while there is room.
    #[serde(skip_serializing_if = "QueueConfig::is_default")]
    pub queue: QueueConfig,
}

impl Default for ArqConfig {
    fn default() -> Self {
        Self {
            units: None,
            attempts: 15,
            resend: Resend::All,
            queue_packets: 50,
            queue: QueueConfig::default(),
        }
    }
}

/// What LL-ARQ sends again if units of a packet are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Resend {
    /// All units; the receiver keeps those that it has.
    #[default]
    All,
    /// Only the missing units.
    Missing,
}

/// The configuration of both links in one form.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Settings {
    pub(super) units: u8,
    pub(super) attempts: u8,
    pub(super) scheme: Scheme,
}

/// How lost units are repaired.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scheme {
    /// By parity, in the first burst and after losses.
    Parity { alpha: f64, sigma: Sigma, rfec: Rfec, initial_loss: f64 },
    /// By repeating units.
    Repeat(Resend),
}

impl HarqConfig {
    /// Units of a packet over a radio.
    pub fn units_over(&self, radio: &RadioSpec) -> u8 {
        units_over(self.units, radio)
    }

    pub(super) fn over(&self, radio: &RadioSpec) -> Settings {
        let Self { attempts, alpha, sigma, rfec, initial_loss, .. } = *self;
        let scheme = Scheme::Parity { alpha, sigma, rfec, initial_loss };
        Settings { units: self.units_over(radio), attempts, scheme }
    }
}

impl ArqConfig {
    /// Units of a packet over a radio.
    pub fn units_over(&self, radio: &RadioSpec) -> u8 {
        units_over(self.units, radio)
    }

    pub(super) fn over(&self, radio: &RadioSpec) -> Settings {
        let Self { attempts, resend, .. } = *self;
        let scheme = Scheme::Repeat(resend);
        Settings { units: self.units_over(radio), attempts, scheme }
    }
}

fn units_over(given: Option<u8>, radio: &RadioSpec) -> u8 {
    given.unwrap_or(if radio.phy.kind == PhyKind::Wire { OVER_WIRE } else { OVER_RADIO })
}
