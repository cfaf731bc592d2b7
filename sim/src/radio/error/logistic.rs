//! Error curves around measured sensitivities (`radio.md` 4.2): a logistic of the ratio in decibels
//! that rises from nothing to all within 5 dB, as links of real cards do, whose losses follow from
//! more than white noise.
//!
//! The sheet lists, for each rate, the power at which a tenth of frames of 1,024 bytes is lost;
//! over its noise of -95 dBm that is a ratio.

use farhop_proto::base::phy::Mode;

/// Bits of the frames for which sensitivities are given.
const FRAME_BITS: f64 = 8.0 * 1024.0;
/// From 1% to 99% of frames, in decibels.
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
