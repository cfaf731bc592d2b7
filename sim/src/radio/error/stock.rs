//! Error curves in closed form: ns-3's DSSS model and its NIST model of OFDM. (The default of
//! ns-3.37 for OFDM is curves from tables, which need 3 to 4 dB less.)
//!
//! DSSS: differential BPSK and QPSK in white noise over 22 MHz (Proakis, Digital Communications).
//! CCK: the 16 code words at 5.5 Mb/s are biorthogonal signals, the 256 at 11 Mb/s two such sets at
//! half the energy (Pursley and Royster, IEEE Trans. Communications 57(2), 2009). OFDM: the uncoded
//! bit error rate of each constellation, then the union bound of the convolutional code with hard
//! decisions, from the Chernoff bound of each error weight (Henderson, Pei, Ferrari, Validation of
//! OFDM error rate model in ns-3, 2010); weights of the K = 7 code and its puncturings after
//! Haccoun and Begin (IEEE Trans. Communications 37(11), 1989).

use farhop_proto::base::phy::{Mode, Ofdm};

/// Bandwidth of DSSS, and its symbol rates per second.
const DSSS_HZ: f64 = 22e6;
const BARKER_SYMBOLS: f64 = 1e6;
const CCK_SYMBOLS: f64 = 1.375e6;

/// Distance spectrum of a convolutional code: the number of wrong bits on all paths at each
/// distance, from the free distance upwards in steps of `step`.
struct Spectrum {
    free: i32,
    step: i32,
    weights: &'static [f64],
}

const HALF: Spectrum = Spectrum {
    free: 10,
    step: 2,
    weights: &[
        36.0,
        211.0,
        1_404.0,
        11_633.0,
        77_433.0,
        502_690.0,
        3_322_763.0,
        21_292_910.0,
        134_365_911.0,
    ],
};
const TWO_THIRDS: Spectrum = Spectrum {
    free: 6,
    step: 1,
    weights: &[
        3.0,
        70.0,
        285.0,
        1_276.0,
        6_160.0,
        27_128.0,
        117_019.0,
        498_860.0,
        2_103_891.0,
        8_784_123.0,
    ],
};
const THREE_QUARTERS: Spectrum = Spectrum {
    free: 5,
    step: 1,
    weights: &[
        42.0,
        201.0,
        1_492.0,
        10_469.0,
        62_935.0,
        379_644.0,
        2_253_373.0,
        13_073_811.0,
        75_152_755.0,
        428_005_675.0,
    ],
};
const FIVE_SIXTHS: Spectrum = Spectrum {
    free: 4,
    step: 1,
    weights: &[
        92.0,
        528.0,
        8_694.0,
        79_453.0,
        792_114.0,
        7_375_573.0,
        67_884_974.0,
        610_875_423.0,
        5_427_275_376.0,
        47_664_215_639.0,
    ],
};

/// Logarithm of the success of a bit.
pub(super) fn ln_success(mode: Mode, ratio: f64) -> f64 {
    match mode {
        Mode::Dbpsk => ln_not(0.5 * libm::exp(-ratio * DSSS_HZ / BARKER_SYMBOLS)),
        Mode::Dqpsk => ln_not(dqpsk(ratio * DSSS_HZ / BARKER_SYMBOLS / 2.0)),
        Mode::Cck5 => ln_not(biorthogonal(ratio * DSSS_HZ / CCK_SYMBOLS / 2.0)) / 4.0,
        Mode::Cck11 => 2.0 * ln_not(biorthogonal(ratio * DSSS_HZ / CCK_SYMBOLS / 4.0)) / 8.0,
        Mode::Ofdm(ofdm) => ln_not(coded(ofdm, uncoded(ofdm.bits_per_subcarrier, ratio))),
        Mode::Wire => 0.0,
    }
}

/// Logarithm of the probability that something does not happen.
fn ln_not(probability: f64) -> f64 {
    libm::log1p(-probability.clamp(0.0, 1.0))
}

/// Bit error rate of differential QPSK: the usual approximation, by the energy of a bit over the
/// noise.
fn dqpsk(energy: f64) -> f64 {
    use std::f64::consts::{PI, SQRT_2};
    let factor = (SQRT_2 + 1.0) / libm::sqrt(8.0 * PI * SQRT_2);
    factor / libm::sqrt(energy) * libm::exp(-(2.0 - SQRT_2) * energy)
}

/// Symbol error rate of 16 biorthogonal signals whose energy over the noise is `energy`: to be
/// right, the correct one of 8 branches, whose mean is `beta`, must exceed the other 7 in absolute
/// value. Integrated by Simpson's rule over the range in which the density is not negligible.
fn biorthogonal(energy: f64) -> f64 {
    const STEPS: usize = 256;
    const FAR: f64 = 9.0;
    /// From here on the error function is 1 to the last digit.
    const CERTAIN: f64 = 6.0 * std::f64::consts::SQRT_2;
    let beta = libm::sqrt(2.0 * energy);
    let (low, high) = (-beta.min(FAR), FAR);
    let step = (high - low) / STEPS as f64;
    let others = |x: f64| {
        let one = libm::erf((x + beta) / std::f64::consts::SQRT_2);
        let three = one * one * one;
        three * three * one
    };
    let norm = libm::sqrt(2.0 * std::f64::consts::PI);
    let density = |x: f64| libm::exp(-x * x / 2.0) / norm;
    // Integrates the error and not the success, so that small errors keep their digits.
    let mut error = 0.0;
    for index in 0..=STEPS {
        let x = low + step * index as f64;
        if x + beta >= CERTAIN {
            break;
        }
        let weight = match index {
            0 | STEPS => 1.0,
            _ if index % 2 == 1 => 4.0,
            _ => 2.0,
        };
        error += weight * (1.0 - others(x)) * density(x);
    }
    let below = 0.5 * libm::erfc(-low / std::f64::consts::SQRT_2);
    error * step / 3.0 + below
}

/// Bit error rate of a constellation before decoding.
fn uncoded(bits: u8, ratio: f64) -> f64 {
    match bits {
        1 => 0.5 * libm::erfc(libm::sqrt(ratio)),
        2 => 0.5 * libm::erfc(libm::sqrt(ratio / 2.0)),
        _ => {
            let points = f64::from(1_u32 << bits);
            let one = libm::erfc(libm::sqrt(ratio * 3.0 / (2.0 * (points - 1.0))));
            // One wrong bit for each wrong symbol on either axis.
            2.0 * (1.0 - 1.0 / libm::sqrt(points)) * one / f64::from(bits)
        }
    }
}

/// Bit error rate after decoding.
fn coded(ofdm: Ofdm, error: f64) -> f64 {
    let spectrum = match ofdm.code {
        (1, _) => &HALF,
        (2, _) => &TWO_THIRDS,
        (3, _) => &THREE_QUARTERS,
        _ => &FIVE_SIXTHS,
    };
    let chernoff = libm::sqrt(4.0 * error * (1.0 - error));
    let mut power = libm::pow(chernoff, f64::from(spectrum.free));
    let growth = libm::pow(chernoff, f64::from(spectrum.step));
    let mut sum = 0.0;
    for weight in spectrum.weights {
        sum += weight * power;
        power *= growth;
    }
    sum / (2.0 * f64::from(ofdm.code.0))
}
