//! Received power as an integer, so that sums are exact.
//!
//! Interference is a running sum to which signals are added and from which they are subtracted
//! again; with floating point, rounding errors would remain. Power is therefore counted in units of
//! 10^-19 W: a signal at -110 dBm is exact to 1 part in 100,000. Signals above 0 dBm, at which no
//! receiver distinguishes anything, count as 0 dBm; sums of 900 such signals fit.

use std::ops::{AddAssign, SubAssign};

use farhop_proto::base::Dbm;

/// Watts in one unit.
const UNIT: f64 = 1e-19;
/// The strongest level that a signal counts as.
const MOST_DBM: f64 = 0.0;

/// Received power in units of 10^-19 W.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Power(u64);

impl Power {
    pub(super) const ZERO: Self = Self(0);
    /// One unit: the power of every signal if signals do not add up.
    pub(super) const LEAST: Self = Self(1);

    pub(super) fn of(dbm: Dbm) -> Self {
        Self((libm::pow(10.0, dbm.as_f64().min(MOST_DBM) / 10.0) * 1e-3 / UNIT) as u64)
    }

    /// This power and `other`.
    pub(super) const fn with(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }

    /// The rest after `other`, which must be part of it, is subtracted.
    pub(super) const fn without(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }

    /// Slightly less than this power divided by `ratio`: this power is surely `ratio` times the
    /// result.
    pub(super) fn over(self, ratio: f64) -> Self {
        // The margin covers rounding of the quotient and of ratios.
        Self((self.0.cast_signed() as f64 / ratio * (1.0 - 1e-9)) as u64)
    }

    /// Slightly less than this power times `ratio`.
    pub(super) fn times(self, ratio: f64) -> Self {
        Self((self.0.cast_signed() as f64 * ratio * (1.0 - 1e-9)) as u64)
    }

    /// The ratio of this power to another.
    pub(super) fn ratio(self, other: Self) -> f64 {
        // Signed integers are converted to floating point by a single instruction.
        self.0.cast_signed() as f64 / other.0.max(1).cast_signed() as f64
    }
}

impl AddAssign for Power {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl SubAssign for Power {
    fn sub_assign(&mut self, other: Self) {
        self.0 -= other.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_come_back_to_where_they_began() {
        let mut sum = Power::of(Dbm::new(-93));
        let before = sum;
        let signals = [-60, -73, -110, 10, -81].map(|dbm| Power::of(Dbm::new(dbm)));
        for signal in signals {
            sum += signal;
        }
        for signal in [3, 0, 4, 1, 2].map(|index: usize| signals[index]) {
            sum -= signal;
        }
        assert_eq!(sum, before);
    }

    #[test]
    fn what_is_stronger_than_any_receiver_takes_is_as_strong_as_that() {
        let most = Power::of(Dbm::new(0));
        assert_eq!(Power::of(Dbm::new(60)), most);
        let mut sum = Power::ZERO;
        (0..900).for_each(|_| sum += most);
        assert!(sum.ratio(most) > 899.0 && sum.over(2.0) > most && most.times(900.0) < sum);
    }

    #[test]
    fn ratios_are_those_of_decibels() {
        let ratio = Power::of(Dbm::new(-60)).ratio(Power::of(Dbm::new(-72)));
        assert!((10.0 * ratio.log10() - 12.0).abs() < 1e-3, "{ratio}");
    }
}
