//! Error curves around measured sensitivities (`radio.md` 4.2): a logistic function of the ratio in
//! decibels that rises from 1% to 99% of frames within 5 dB, as links of real cards do, whose
//! losses are not caused by white noise alone.
//!
//! `radio.md` lists, for each rate, the power at which a tenth of frames of 1,024 bytes is lost;
//! with its noise of -95 dBm this is a ratio.

use farhop_proto::base::phy::Mode;

/// Bits of the frames that the sensitivities are given for.
const FRAME_BITS: f64 = 8.0 * 1024.0;
/// From 1% to 99% of frames received, in decibels.
const WIDTH_DB: f64 = 5.0;

/// Noise over 20 MHz, in dBm.
const NOISE_DBM: f64 = -95.0;

/// Logarithm of the success of a bit.
pub(super) fn ln_success(mode: Mode, ratio: f64) -> f64 {
    let steepness = 2.0 * libm::log(99.0) / WIDTH_DB;
    let middle = mode.sensitivity_dbm() - NOISE_DBM - libm::log(9.0) / steepness;
    let above = 10.0 * libm::log10(ratio) - middle;
    -libm::log1p(libm::exp(-steepness * above)) / FRAME_BITS
}
