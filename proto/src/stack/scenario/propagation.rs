//! How signals weaken with distance, and what happens to those that overlap.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::loss::LossConfig;
use crate::base::phy::Mode;
use crate::base::{Bitrate, Phy};

/// Noise over 20 MHz with a noise figure of 6 dB, in dBm (`radio.md` 4.2).
const NOISE_DBM: f64 = -95.0;
/// Default of `preamble_db` for all modulations but DSSS, in decibels.
const PREAMBLE_DB: f64 = 4.0;

/// How signals weaken with distance (`radio.md` 4). A `[[link]]` overrides it for its two nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PropagationConfig {
    /// Model. Default: `"free-space"` if nodes have positions, else `"links"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<PropagationKind>,
    /// Path loss exponent (`log-distance`): 2 in free space, 3 to 4 near the ground.
    pub exponent: f64,
    /// Loss at the reference distance, in decibels (`log-distance`).
    pub reference_db: f64,
    /// The reference distance, in metres (`log-distance`).
    pub reference_m: f64,
    /// Shadowing: standard deviation of a normally distributed gain, in decibels (`log-distance`).
    /// Each direction between two nodes has one gain for the whole run, of at most three standard
    /// deviations.
    pub shadowing_db: f64,
    /// Carrier frequency (`free-space`, `two-ray`). Default: 2437 or 5200 by the band of the
    /// radios, and 914 in `two-ray`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency_mhz: Option<f64>,
    /// Height of all antennas above the ground, in metres (`two-ray`).
    pub height_m: f64,
    /// Distance up to which frames can be decoded, in metres (`range`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_m: Option<f64>,
    /// Distance up to which frames are sensed, in metres (`range`). Default: `receive_m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sense_m: Option<f64>,
    /// Received power, in dBm: of every pair (`fixed`), or of pairs up to `receive_m` apart
    /// (`range`). Beyond `receive_m` it is `radio.sense_dbm`.
    pub signal_dbm: f64,
    /// Loss between nodes that no `[[link]]` joins.
    pub loss: LossConfig,
    /// `[least, most]`, in place of `loss`: each direction between two nodes loses frames
    /// independently with a probability of its own, drawn uniformly between the two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_spread: Option<[f64; 2]>,
    /// Seed of `shadowing_db` and `loss_spread`, which do not depend on the seed of the run.
    pub seed: u64,
}

impl Default for PropagationConfig {
    fn default() -> Self {
        Self {
            kind: None,
            exponent: 3.0,
            reference_db: 40.0,
            reference_m: 1.0,
            shadowing_db: 0.0,
            frequency_mhz: None,
            height_m: 1.5,
            receive_m: None,
            sense_m: None,
            signal_dbm: -60.0,
            loss: LossConfig::default(),
            loss_spread: None,
            seed: 1,
        }
    }
}

impl PropagationConfig {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A model of propagation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PropagationKind {
    /// Only the `[[link]]`s carry anything: they are the loss matrix.
    Links,
    /// Friis: 20 dB per decade of distance.
    FreeSpace,
    /// `exponent` times 10 dB per decade of distance, and shadowing.
    LogDistance,
    /// Free space up to the distance 4 pi h^2 / lambda, 40 dB per decade beyond, as in ns-2. The
    /// default settings are those of the ns-2 radio, with ranges of 100 and 220 m.
    TwoRay,
    /// A constant power up to `receive_m`, another up to `sense_m`, nothing beyond.
    Range,
    /// The same power between every pair at any distance.
    Fixed,
}

impl PropagationKind {
    /// The name of the model in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Links => "links",
            Self::FreeSpace => "free-space",
            Self::LogDistance => "log-distance",
            Self::TwoRay => "two-ray",
            Self::Range => "range",
            Self::Fixed => "fixed",
        }
    }
}

/// What happens to signals that overlap at a receiver (`radio.md` 4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum InterferenceConfig {
    /// Signals are compared in pairs: a frame survives a later one that is weaker by
    /// `radio.capture_db`; any other overlap destroys both.
    Threshold {},
    /// Signals add up; the errors of a frame follow from its ratio to the sum (SINR), moment by
    /// moment.
    Sinr(SinrSettings),
}

impl Default for InterferenceConfig {
    fn default() -> Self {
        Self::Threshold {}
    }
}

impl InterferenceConfig {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Settings of receivers under summed interference.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SinrSettings {
    /// Thermal noise over the channel, with the noise figure of the receiver, in dBm. Default: -95
    /// over 20 MHz, and 3 dB more or less for each doubling or halving of the width that a frame
    /// takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noise_dbm: Option<f64>,
    /// How far a preamble must stand above noise and interference to be detected, in decibels.
    /// Default: 4; 1 for frames of DSSS, whose slowest rate needs no more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preamble_db: Option<f64>,
    /// Weakest preamble that is detected, in dBm; never less than the `receive_dbm` of the radio,
    /// which is the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preamble_min_dbm: Option<f64>,
    /// Error curves.
    pub curve: CurveConfig,
}

impl SinrSettings {
    /// How far the preamble of a frame must stand out, in decibels: it is detected where a frame at
    /// the slowest rate of its modulation can be received (`radio.md` 4.2).
    pub fn preamble_db(&self, phy: &Phy, rate: Bitrate) -> f64 {
        let slowest = match phy.mode(rate) {
            Mode::Ofdm(_) | Mode::Wire => PREAMBLE_DB,
            _ => Mode::Dbpsk.sensitivity_dbm() - NOISE_DBM,
        };
        self.preamble_db.unwrap_or(slowest)
    }

    /// Noise over the channel that frames of a PHY take, in dBm.
    pub fn noise_dbm(&self, phy: &Phy) -> f64 {
        self.noise_dbm.unwrap_or(NOISE_DBM + phy.noise_db())
    }
}

impl Default for SinrSettings {
    fn default() -> Self {
        let curve = CurveConfig::default();
        Self { noise_dbm: None, preamble_db: None, preamble_min_dbm: None, curve }
    }
}

/// A family of error curves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CurveConfig {
    /// Closed forms for each modulation and code.
    #[default]
    Stock,
    /// Logistic curves, which fall from losing all to losing nothing within 5 dB around the
    /// sensitivity of each rate.
    Logistic,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::PhyKind;

    #[test]
    fn a_preamble_of_dsss_stands_out_by_1_db_and_others_by_4() {
        let of = |kind, mixed| {
            let phy = Phy { kind, mixed, ..Phy::default() };
            let rates = [phy.basic_rates()[0], *phy.rates().last().expect("rates")];
            rates.map(|rate| SinrSettings::default().preamble_db(&phy, rate))
        };
        assert_eq!(of(PhyKind::B, false), [1.0; 2]);
        assert_eq!(of(PhyKind::G, true), [1.0, 4.0]);
        for kind in [PhyKind::G, PhyKind::A, PhyKind::N, PhyKind::Ac, PhyKind::Wire] {
            assert_eq!(of(kind, false), [4.0; 2], "{kind:?}");
        }
        let given = SinrSettings { preamble_db: Some(7.0), ..SinrSettings::default() };
        assert_eq!(given.preamble_db(&Phy::default(), Phy::default().rates()[0]), 7.0);
    }
}
