//! The ratio of a frame to noise and interference over its time, and whether its bits pass.

use farhop_proto::base::{Instant, Rng};

use super::super::error::ErrorCurve;
use super::rare::Rare;

/// Below this, the logarithm of a success is certainty.
const CERTAIN: f64 = -1e-12;

/// The ratio over time since the lock. Most frames have but one span, and that stands here.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Spans {
    last: Option<Span>,
    earlier: Rare<Span>,
    /// The least of the ratios.
    worst: f64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) until: Instant,
    /// Signal over noise and interference.
    pub(super) ratio: f64,
}

impl Spans {
    pub(super) fn clear(&mut self) {
        self.earlier.clear();
        self.last = None;
        self.worst = f64::INFINITY;
    }

    pub(super) fn push(&mut self, span: Span) {
        self.worst = self.worst.min(span.ratio);
        match &mut self.last {
            // Somebody has only looked, or what came and went at once was equally strong.
            Some(last) if last.ratio == span.ratio => last.until = span.until,
            last => {
                if let Some(before) = last.replace(span) {
                    self.earlier.push(before);
                }
            }
        }
    }

    /// Whether bits that are spread evenly from `from` to `until` pass.
    #[inline]
    pub(super) fn pass(
        &self,
        (from, until): (Instant, Instant),
        part: &Part,
        bits: impl FnOnce() -> f64,
        rng: &mut Rng,
    ) -> bool {
        if self.worst >= part.certain {
            return true;
        }
        let ln = self.ln_success(from, until, bits(), part);
        ln >= CERTAIN || (ln > -40.0 && is_below_exp(rng.uniform(), ln))
    }

    /// The logarithm of the probability that such bits pass.
    fn ln_success(&self, from: Instant, until: Instant, bits: f64, part: &Part) -> f64 {
        let per_nano = bits / until.since(from).as_nanos().max(1) as f64;
        let mut at = from;
        let mut sum = 0.0;
        for span in self.earlier.as_slice().iter().chain(&self.last) {
            if span.until <= at {
                continue;
            }
            let end = span.until.min(until);
            if span.ratio < part.certain {
                let bits = end.since(at).as_nanos() as f64 * per_nano;
                sum += bits * part.curve.ln_success_per_bit(span.ratio);
            }
            at = end;
            if at >= until {
                break;
            }
        }
        sum
    }
}

/// Whether a number is below e to a power that is not positive. That lies between the first sums of
/// its series, which nearly always settle it.
fn is_below_exp(number: f64, power: f64) -> bool {
    let low = 1.0 + power;
    number < low || (number < low + 0.5 * power * power && number < libm::exp(power))
}

/// How a part of a frame fails.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    curve: &'static ErrorCurve,
    /// From this ratio on it does not fail, as long as it may be.
    pub(super) certain: f64,
}

impl Part {
    pub(super) fn new(curve: &'static ErrorCurve, most_bits: f64) -> Self {
        Self { curve, certain: curve.reaches(0.5 * CERTAIN / most_bits.max(1.0)) }
    }
}
