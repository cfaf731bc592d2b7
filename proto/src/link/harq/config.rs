//! Settings of LL-HARQ and LL-ARQ.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::base::{PhyKind, RadioSpec};
use crate::link::queue::QueueConfig;

/// Units of a packet over a wire: those of the paper (`loss-tolerant.md` 1).
const OVER_WIRE: u8 = 20;
/// Over a radio, where each is a frame with a preamble and a backoff of its own, which take longer
/// than a twentieth of a packet: 4 carry two to four times as much there, whatever is lost.
const OVER_RADIO: u8 = 4;

/// Settings of LL-HARQ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HarqConfig {
    /// Units that a packet is sent as at first, data and parity together; 2 to 32. If it is not
    /// given, 20 over wires and 4 over radios.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub units: Option<u8>,
    /// Bursts of a packet at most, the first included.
    pub attempts: u8,
    /// Weight of a packet's loss in the estimates.
    pub alpha: f64,
    /// Where the standard deviation of the loss of units comes from.
    pub sigma: Sigma,
    /// How many units answer a report that some are missing.
    pub rfec: Rfec,
    /// The estimate of loss before anything was measured, 0 to 1.
    pub initial_loss: f64,
    /// Packets that a radio's queue holds at most.
    pub queue_packets: usize,
    /// Which packets it takes while there is room.
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

/// Where the standard deviation of the loss of units comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sigma {
    /// Measured: the moving average of the squared distance from the mean.
    #[default]
    Ewma,
    /// Computed, as if units were lost independently.
    Binomial,
}

/// How many units answer a report that X are missing, beside as many as the parity at first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rfec {
    /// X over the share that arrives if the loss is one standard deviation above its mean.
    #[default]
    MuSigma,
    /// X over the share that arrives.
    Mu,
}

/// Settings of LL-ARQ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ArqConfig {
    /// Units that a packet is cut into, 1 to 32. If it is not given, 20 over wires and 4 over
    /// radios.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub units: Option<u8>,
    /// Bursts of a packet at most, the first included.
    pub attempts: u8,
    /// What is sent again.
    pub resend: Resend,
    /// Packets that a radio's queue holds at most.
    pub queue_packets: usize,
    /// Which packets it takes while there is room.
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

/// What LL-ARQ sends again of a packet of which units are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Resend {
    /// All units; the receiver keeps those that it has.
    #[default]
    All,
    /// The missing units.
    Missing,
}

/// What both have in common, and how they differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Settings {
    pub(super) units: u8,
    pub(super) attempts: u8,
    pub(super) scheme: Scheme,
}

/// What makes up for lost units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scheme {
    /// Parity, before and after the loss.
    Parity { alpha: f64, sigma: Sigma, rfec: Rfec, initial_loss: f64 },
    /// The units once more.
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
