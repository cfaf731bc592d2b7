//! Error curves around measured sensitivities (`radio.md` 4.2): a logistic of the ratio in decibels
//! that rises from nothing to all within 5 dB, as links of real cards do, whose losses follow from
//! more than white noise.
//!
//! The sheet lists, for each rate, the power at which a tenth of frames of 1,024 bytes is lost;
//! over its noise of -95 dBm that is a ratio. An MCS has the sensitivity of the older mode with its
//! modulation and code; 64-QAM 5/6 and 256-QAM go on in steps of 2 dB and 4 dB.

use farhop_proto::base::phy::Mode;

/// Bits of the frames for which sensitivities are given.
const FRAME_BITS: f64 = 8.0 * 1024.0;
/// From 1% to 99% of frames, in decibels.
const WIDTH_DB: f64 = 5.0;

/// The ratio in decibels at which a tenth of frames is lost: sensitivity over -95 dBm.
fn sensitivity_db(mode: Mode) -> f64 {
    let ofdm = match mode {
        Mode::Dbpsk => return 1.0,
        Mode::Dqpsk => return 4.0,
        Mode::Cck5 => return 6.0,
        Mode::Cck11 => return 10.0,
        Mode::Wire => return f64::NEG_INFINITY,
        Mode::Ofdm(ofdm) => ofdm,
    };
    match (ofdm.bits_per_subcarrier, ofdm.code) {
        (1, (1, _)) => 5.0,
        (1, _) => 6.0,
        (2, (1, _)) => 8.0,
        (2, _) => 10.0,
        (4, (1, _)) => 13.0,
        (4, _) => 16.0,
        (6, (2, _)) => 20.0,
        (6, (3, _)) => 22.0,
        (6, _) => 24.0,
        (_, (3, _)) => 28.0,
        _ => 30.0,
    }
}

/// Logarithm of the success of a bit.
pub(super) fn ln_success(mode: Mode, ratio: f64) -> f64 {
    let steepness = 2.0 * libm::log(99.0) / WIDTH_DB;
    let middle = sensitivity_db(mode) - libm::log(9.0) / steepness;
    let above = 10.0 * libm::log10(ratio) - middle;
    -libm::log1p(libm::exp(-steepness * above)) / FRAME_BITS
}
