//! Path loss: how signals weaken with distance (`radio.md` 4.1 and 4.2).
//!
//! Below the reference distance of a model, the signal is as strong as at that distance.

use std::f64::consts::PI;

use crate::base::{Band, Rng};
use crate::stack::scenario::{PropagationKind, Scenario};

/// Speed of light in vacuum, in metres per second: wavelengths are defined with it.
const LIGHT_M_PER_S: f64 = 299_792_458.0;
/// Carrier frequency of ns-2's radio, in MHz.
const NS2_MHZ: f64 = 914.0;
/// Upper bound of the reach of a signal, in metres.
const FARTHEST_M: f64 = 1e7;

/// A propagation model with its settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PathLoss {
    /// Friis.
    FreeSpace {
        /// Wavelength, in metres.
        wavelength_m: f64,
    },
    /// `reference_db` at the reference distance, and `exponent` times 10 dB per decade.
    LogDistance {
        /// Exponent.
        exponent: f64,
        /// Loss at the reference distance, in decibels.
        reference_db: f64,
        /// Reference distance, in metres.
        reference_m: f64,
    },
    /// Friis up to the cross-over distance 4 pi h^2 / lambda, then a path gain of (h / d)^4.
    TwoRay {
        /// Wavelength, in metres.
        wavelength_m: f64,
        /// Height of the antennas, in metres.
        height_m: f64,
    },
    /// One power up to a distance, another one up to a second distance.
    Range {
        /// Distance up to which the first power holds, in metres.
        receive_m: f64,
        /// Distance up to which the second power holds, in metres.
        sense_m: f64,
        /// The first power, in dBm.
        receive_dbm: f64,
        /// The second power, in dBm.
        sense_dbm: f64,
    },
    /// The same power everywhere.
    Fixed {
        /// This power, in dBm.
        signal_dbm: f64,
    },
}

impl PathLoss {
    /// The model of a scenario for radios in a band; `None` if only its links carry anything.
    pub fn build(scenario: &Scenario, band: Band) -> Option<Self> {
        let config = &scenario.propagation;
        let wavelength =
            |default_mhz: f64| LIGHT_M_PER_S / (config.frequency_mhz.unwrap_or(default_mhz) * 1e6);
        Some(match scenario.propagation_kind() {
            PropagationKind::Links => return None,
            PropagationKind::FreeSpace => {
                let mhz = match band {
                    Band::Ghz2 => 2437.0,
                    Band::Ghz5 => 5200.0,
                };
                Self::FreeSpace { wavelength_m: wavelength(mhz) }
            }
            PropagationKind::LogDistance => Self::LogDistance {
                exponent: config.exponent,
                reference_db: config.reference_db,
                reference_m: config.reference_m,
            },
            PropagationKind::TwoRay => {
                Self::TwoRay { wavelength_m: wavelength(NS2_MHZ), height_m: config.height_m }
            }
            PropagationKind::Range => {
                let receive_m = config.receive_m.unwrap_or_default();
                let receive_dbm = config.signal_dbm;
                let sense_dbm = scenario.radio.sense_dbm.unwrap_or(receive_dbm - 3.0);
                let sense_m = config.sense_m.unwrap_or(receive_m);
                Self::Range { receive_m, sense_m, receive_dbm, sense_dbm }
            }
            PropagationKind::Fixed => Self::Fixed { signal_dbm: config.signal_dbm },
        })
    }

    /// Whether the received power depends on the power that is sent.
    pub(in crate::stack) const fn weakens(&self) -> bool {
        !matches!(self, Self::Range { .. } | Self::Fixed { .. })
    }

    /// The power that an antenna without gain receives at a distance, in dBm; `None` if there is
    /// none.
    pub fn received(&self, sent_dbm: f64, distance_m: f64) -> Option<f64> {
        let loss = match *self {
            Self::FreeSpace { wavelength_m } => friis_db(wavelength_m, distance_m),
            Self::LogDistance { exponent, reference_db, reference_m } => {
                let ratio = (distance_m / reference_m).max(1.0);
                reference_db + 10.0 * exponent * libm::log10(ratio)
            }
            Self::TwoRay { wavelength_m, height_m } => {
                let crossover = 4.0 * PI * height_m * height_m / wavelength_m;
                if distance_m <= crossover {
                    friis_db(wavelength_m, distance_m)
                } else {
                    40.0 * libm::log10(distance_m / height_m)
                }
            }
            Self::Range { receive_m, sense_m, receive_dbm, sense_dbm } => {
                return match distance_m {
                    near if near <= receive_m => Some(receive_dbm),
                    far if far <= sense_m => Some(sense_dbm),
                    _ => None,
                };
            }
            Self::Fixed { signal_dbm } => return Some(signal_dbm),
        };
        Some(sent_dbm - loss)
    }

    /// The distance in metres beyond which a signal of `sent_dbm` is weaker than `floor_dbm`; found
    /// by bisection, because every model decreases with distance.
    pub fn reach_m(&self, sent_dbm: f64, floor_dbm: f64) -> f64 {
        if let Self::Range { receive_m, sense_m, .. } = *self {
            return receive_m.max(sense_m);
        }
        let is_heard = |distance: f64| {
            self.received(sent_dbm, distance).is_some_and(|received| received >= floor_dbm)
        };
        let (mut near, mut far) = (0.0, FARTHEST_M);
        if is_heard(far) {
            return far;
        }
        for _ in 0..50 {
            let middle = (near + far) / 2.0;
            if is_heard(middle) {
                near = middle;
            } else {
                far = middle;
            }
        }
        far
    }
}

/// Loss in free space, in decibels, at least 0.
fn friis_db(wavelength_m: f64, distance_m: f64) -> f64 {
    let ratio = 4.0 * PI * distance_m / wavelength_m;
    20.0 * libm::log10(ratio.max(1.0))
}

/// A standard normal random number (Box and Muller).
pub fn gaussian(rng: &mut Rng) -> f64 {
    let (radius, angle) = (1.0 - rng.uniform(), rng.uniform());
    (-2.0 * libm::log(radius)).sqrt() * libm::cos(2.0 * PI * angle)
}
