//! Noise and interference over the time of a frame, and whether the frame's bits pass.
//!
//! Spans store powers, not ratios: of most frames only the worst ratio is ever needed.

use farhop_proto::base::{Instant, Rng};

use super::super::error::ErrorCurve;
use super::super::power::Power;
use super::rare::Rare;

/// A success whose logarithm is above this is certain.
const CERTAIN: f64 = -1e-12;

/// Noise and interference since the lock. Most frames have a single span, which is stored inline.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Spans {
    last: Option<Span>,
    earlier: Rare<Span>,
    /// Noise and interference up to this power cause no bit errors, so such spans are merged.
    harmless: Power,
    /// The highest of all spans.
    most: Power,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) until: Instant,
    /// Noise and interference.
    pub(super) rest: Power,
}

impl Spans {
    /// Forgets all spans, as the receiver locks on to a frame to which power up to `harmless` does
    /// no harm.
    pub(super) fn begin(&mut self, harmless: Power) {
        self.earlier.clear();
        self.harmless = harmless;
        self.last = None;
        self.most = Power::ZERO;
    }

    pub(super) fn push(&mut self, span: Span) {
        self.most = self.most.max(span.rest);
        match &mut self.last {
            Some(last) if last.rest.max(span.rest) <= self.harmless => *last = span,
            // The power did not change: this was only a query, or signals that came and went were
            // equally strong.
            Some(last) if last.rest == span.rest => last.until = span.until,
            last => {
                if let Some(before) = last.replace(span) {
                    self.earlier.push(before);
                }
            }
        }
    }

    /// Draws whether bits of a frame of this power, spread evenly from `from` to `until`, pass.
    #[inline]
    pub(super) fn pass(
        &self,
        power: Power,
        (from, until): (Instant, Instant),
        part: &Part,
        bits: impl FnOnce() -> f64,
        rng: &mut Rng,
    ) -> bool {
        if power.ratio(self.most) >= part.certain {
            return true;
        }
        let ln = self.ln_success(power, (from, until), bits(), part);
        ln >= CERTAIN || (ln > -40.0 && is_below_exp(rng.uniform(), ln))
    }

    /// The logarithm of the probability that these bits pass.
    fn ln_success(
        &self,
        power: Power,
        (from, until): (Instant, Instant),
        bits: f64,
        part: &Part,
    ) -> f64 {
        let per_nano = bits / until.since(from).as_nanos().max(1) as f64;
        let mut at = from;
        let mut sum = 0.0;
        for span in self.earlier.as_slice().iter().chain(&self.last) {
            if span.until <= at {
                continue;
            }
            let end = span.until.min(until);
            let ratio = power.ratio(span.rest);
            if ratio < part.certain {
                let bits = end.since(at).as_nanos() as f64 * per_nano;
                sum += bits * part.curve.ln_success_per_bit(ratio);
            }
            at = end;
            if at >= until {
                break;
            }
        }
        sum
    }
}

/// Whether `number` is below e to `power`, which is not positive. The first partial sums of the
/// series are bounds that nearly always decide it without `exp`.
fn is_below_exp(number: f64, power: f64) -> bool {
    let low = 1.0 + power;
    number < low || (number < low + 0.5 * power * power && number < libm::exp(power))
}

/// How one part of a frame fails.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    curve: &'static ErrorCurve,
    /// From this ratio on it does not fail, whatever its length.
    pub(super) certain: f64,
}

impl Part {
    pub(super) fn new(curve: &'static ErrorCurve, most_bits: f64) -> Self {
        Self { curve, certain: curve.reaches(0.5 * CERTAIN / most_bits.max(1.0)) }
    }
}

#[cfg(test)]
mod tests {
    use farhop_proto::base::{Bitrate, Dbm, Phy, Seed};

    use super::*;
    use crate::radio::error;
    use farhop_proto::stack::CurveConfig;

    #[test]
    fn spans_that_make_no_bit_fail_are_one_and_change_nothing() {
        let (phy, power) = (Phy::default(), Power::of(Dbm::new(-60)));
        let rate = Bitrate::from_mbps(11.0);
        let part = Part::new(error::for_mode(phy, rate, CurveConfig::Stock), 1e5);
        let mut rng = Seed(3).stream("spans");
        let (mut merged, mut passes) = (0, 0);
        for _ in 0..200 {
            let [mut all, mut few] = [Power::ZERO, power.over(part.certain)].map(|harmless| {
                let mut spans = Spans::default();
                spans.begin(harmless);
                spans
            });
            for until in 1..=20 {
                let until = Instant::from_nanos(until * 50_000);
                // Around the harmless power for this signal, with some repetitions.
                let dbm = -78.0 + rng.below(14) as f64;
                let span = Span { until, rest: Power::of(Dbm::from_f64(dbm)) };
                all.push(span);
                few.push(span);
            }
            merged += all.earlier.as_slice().len() - few.earlier.as_slice().len();
            let over = (Instant::from_nanos(120_000), Instant::from_nanos(970_000));
            let ln = |spans: &Spans| spans.ln_success(power, over, 1e4, &part);
            assert_eq!(ln(&all), ln(&few));
            passes += u32::from(ln(&all) > -1.0);
        }
        assert!(merged > 100, "{merged} spans fewer");
        assert!((10..190).contains(&passes), "{passes} frames of 200 are likely to pass");
    }
}
