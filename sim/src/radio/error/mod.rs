//! Error curves (`radio.md` 4.2): the success of a bit against the ratio of signal to noise and
//! interference, in tables, so that a frame needs no transcendental function.
//!
//! A table holds the logarithm of the success at 64 points of each octave. The exponent and the
//! upper mantissa bits of the ratio are the index, and the table is interpolated linearly between
//! two points; for a frame of 1,500 bytes the error is less than half a percent. The curves
//! themselves are in [`stock`] and [`logistic`].
//!
//! The ratio is taken over the whole channel, equally for every stream: the gain of a second
//! antenna and the power split between streams are left out, as both depend on the antennas.

mod logistic;
mod stock;
#[cfg(test)]
mod tests;

use std::sync::OnceLock;

use farhop_proto::base::phy::{Format, Mode, Ofdm};
use farhop_proto::base::{Bitrate, Phy};
use farhop_proto::stack::CurveConfig;

/// Mantissa bits of a ratio that count as part of the index.
const FINE_BITS: u32 = 6;
/// The range of the tables: ratios from 2^-8 (-24 dB) to 2^16 (48 dB).
const LOWEST: i32 = -8;
const HIGHEST: i32 = 16;
const OCTAVES: usize = (HIGHEST - LOWEST) as usize;
/// Points in an octave.
const FINE: usize = 1 << FINE_BITS;
/// Points that are computed together. A point takes up to 10 us, and most runs meet few ratios.
const STRETCH: usize = 8;
/// Mantissa bits of a double below those of the index.
const REST_BITS: u32 = 52 - FINE_BITS;

/// A guessed bit is right half of the time, so a success is never lower, whatever a bound says.
const GUESS: f64 = 0.5;

/// Success of bits of one mode against the ratio of signal to noise and interference.
#[derive(Debug)]
pub(super) struct ErrorCurve {
    mode: Mode,
    kind: CurveConfig,
    /// Points that were needed so far.
    stretches: [OnceLock<Stretch>; OCTAVES * FINE / STRETCH],
}

/// The logarithm of the success of a bit at the points of a stretch, rising, and at the first point
/// of the next stretch.
type Stretch = Box<[f64; STRETCH + 1]>;

impl ErrorCurve {
    fn new(mode: Mode, kind: CurveConfig) -> Self {
        Self { mode, kind, stretches: [const { OnceLock::new() }; OCTAVES * FINE / STRETCH] }
    }

    fn point(&self, index: usize) -> f64 {
        let ratio = ratio_of(index);
        let ln = match (self.mode, self.kind) {
            (Mode::Wire, _) => 0.0,
            (mode, CurveConfig::Stock) => stock::ln_success(mode, ratio),
            (mode, CurveConfig::Logistic) => logistic::ln_success(mode, ratio),
        };
        ln.max(libm::log(GUESS)).min(0.0)
    }

    /// The least ratio of the table from which on the logarithm of the success of a bit is at least
    /// `ln`.
    pub(super) fn reaches(&self, ln: f64) -> f64 {
        let (mut below, mut above) = (0, OCTAVES * FINE);
        while below < above {
            let middle = usize::midpoint(below, above);
            if self.point(middle) >= ln {
                above = middle;
            } else {
                below = middle + 1;
            }
        }
        ratio_of(above)
    }

    /// The values at a point and at the next one.
    #[inline]
    fn pair(&self, index: usize) -> [f64; 2] {
        let (stretch, place) = (index / STRETCH, index % STRETCH);
        let points = self.stretches[stretch].get_or_init(|| {
            let mut points = Box::new([0.0; STRETCH + 1]);
            for (place, point) in points.iter_mut().enumerate() {
                *point = self.point(stretch * STRETCH + place);
            }
            // Rounding must not make the curve fall where success is nearly certain.
            for place in (0..STRETCH).rev() {
                points[place] = points[place].min(points[place + 1]);
            }
            points
        });
        [points[place], points[place + 1]]
    }

    /// The logarithm of the success of a bit at a ratio that is not negative. Beyond the ends of
    /// the table the value at the nearest end applies.
    #[inline]
    pub(super) fn ln_success_per_bit(&self, sinr: f64) -> f64 {
        let bits = sinr.to_bits() as i64;
        let index = (bits >> REST_BITS) - index_base();
        if index < 0 {
            return self.pair(0)[0];
        }
        let index = index as usize;
        if index >= OCTAVES * FINE {
            return self.pair(OCTAVES * FINE - 1)[1];
        }
        let rest = (bits & ((1 << REST_BITS) - 1)) as f64 * (1.0 / (1_u64 << REST_BITS) as f64);
        let [low, high] = self.pair(index);
        low + rest * (high - low)
    }
}

const fn index_base() -> i64 {
    ((1023 + LOWEST) as i64) << FINE_BITS
}

/// The ratio at a point of the table.
fn ratio_of(index: usize) -> f64 {
    f64::from_bits(((index as i64 + index_base()) << REST_BITS) as u64)
}

/// Number of curves of one kind: 4 of DSSS and CCK, each pair of constellation and code rate, a
/// wire.
const CURVES: usize = 16;

/// Index of the curve of a mode.
fn place(mode: Mode) -> usize {
    let ofdm = match mode {
        Mode::Dbpsk => return 0,
        Mode::Dqpsk => return 1,
        Mode::Cck5 => return 2,
        Mode::Cck11 => return 3,
        Mode::Wire => return 4,
        Mode::Ofdm(ofdm) => ofdm,
    };
    match (ofdm.bits_per_subcarrier, ofdm.code) {
        (1, (1, _)) => 5,
        (1, _) => 6,
        (2, (1, _)) => 7,
        (2, _) => 8,
        (4, (1, _)) => 9,
        (4, _) => 10,
        (6, (2, _)) => 11,
        (6, (3, _)) => 12,
        (6, _) => 13,
        (_, (3, _)) => 14,
        _ => 15,
    }
}

fn for_place(mode: Mode, kind: CurveConfig) -> &'static ErrorCurve {
    static TABLES: [[OnceLock<ErrorCurve>; CURVES]; 2] =
        [const { [const { OnceLock::new() }; CURVES] }; 2];
    TABLES[kind as usize][place(mode)].get_or_init(|| ErrorCurve::new(mode, kind))
}

/// The curve of data at a rate of a PHY. Equal modes share one table.
pub(super) fn for_mode(phy: Phy, rate: Bitrate, kind: CurveConfig) -> &'static ErrorCurve {
    for_place(phy.mode(rate), kind)
}

/// The curve and the number of bits of the header between the preamble of a frame at `rate` and its
/// data: the PLCP header of DSSS at 1 Mb/s, or at 2 Mb/s with the short preamble; L-SIG; L-SIG and
/// HT-SIG; L-SIG and VHT-SIG-A and B. Training fields have no bits.
pub(super) fn for_header(phy: Phy, rate: Bitrate, kind: CurveConfig) -> (&'static ErrorCurve, f64) {
    match phy.mode(rate) {
        Mode::Wire => (for_place(Mode::Wire, kind), 0.0),
        Mode::Ofdm(ofdm) => {
            let bits = match ofdm.format {
                Format::NonHt => 24.0,
                Format::Ht => 24.0 + 48.0,
                Format::Vht => 24.0 + 48.0 + 26.0,
            };
            let header =
                Ofdm { format: Format::NonHt, bits_per_subcarrier: 1, code: (1, 2), ..ofdm };
            (for_place(Mode::Ofdm(header), kind), bits)
        }
        _ => {
            let is_short = phy.plcp(rate).as_micros() == 96;
            (for_place(if is_short { Mode::Dqpsk } else { Mode::Dbpsk }, kind), 48.0)
        }
    }
}
