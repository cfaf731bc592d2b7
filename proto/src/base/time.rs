//! Time as a value: nanoseconds from the start of the run.
//!
//! This is not `std::time::Instant`, which has no zero and no serialised form, and reads a clock. A
//! node's `Instant` is on its own clock; only the simulator's world knows the true time.

use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Rem, Sub, SubAssign};

use serde::{Deserialize, Serialize};

/// A point in time, in nanoseconds from the start of the run.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Instant(u64);

/// A span of time in nanoseconds, never negative.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Duration(u64);

impl Instant {
    /// The start of the run.
    pub const ZERO: Self = Self(0);
    /// A time that never comes.
    pub const MAX: Self = Self(u64::MAX);

    /// The instant `nanos` nanoseconds after the start.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the start.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The span from `earlier` to here, zero if `earlier` is in fact later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }

    /// The signed distance from `other` to here, in nanoseconds.
    pub const fn signed_since(self, other: Self) -> i64 {
        self.0.wrapping_sub(other.0) as i64
    }

    /// This instant moved by a signed number of nanoseconds, limited to the range of the type.
    pub const fn offset(self, nanos: i64) -> Self {
        Self(self.0.saturating_add_signed(nanos))
    }

    /// This instant moved back by `span`, at most to the start of the run.
    pub const fn saturating_sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

/// The sooner of two times, either of which may never come.
#[inline]
pub fn sooner(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

impl Duration {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// The longest span.
    pub const MAX: Self = Self(u64::MAX);

    /// A span of `nanos` nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// A span of `micros` microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros * 1_000)
    }

    /// A span of `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// A span of `secs` seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * 1_000_000_000)
    }

    /// A span of `secs` seconds, to the nearest nanosecond; negative and NaN give zero.
    pub fn from_secs_f64(secs: f64) -> Self {
        Self((secs * 1e9 + 0.5) as u64)
    }

    /// Nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole microseconds.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Milliseconds.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Whether the span is empty.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// The difference; zero if `other` is longer.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The span times a factor, which must not be negative.
    pub fn mul_f64(self, factor: f64) -> Self {
        Self((self.0 as f64 * factor + 0.5) as u64)
    }

    /// How many times `part` fits into this span; zero if `part` is zero.
    pub const fn div_duration(self, part: Self) -> u64 {
        match self.0.checked_div(part.0) {
            Some(times) => times,
            None => 0,
        }
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

/// Panics if the result lies before the start of the run.
impl Sub<Duration> for Instant {
    type Output = Self;
    fn sub(self, span: Duration) -> Self {
        Self(self.0.checked_sub(span.0).expect("an instant before the start of the run"))
    }
}

/// Panics if `earlier` is later: use [`Instant::since`] where that can happen.
impl Sub for Instant {
    type Output = Duration;
    fn sub(self, earlier: Self) -> Duration {
        Duration(self.0.checked_sub(earlier.0).expect("a negative duration"))
    }
}

impl Add for Duration {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Duration {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Duration {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.checked_sub(other.0).expect("a negative duration"))
    }
}

impl SubAssign for Duration {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Mul<u64> for Duration {
    type Output = Self;
    fn mul(self, times: u64) -> Self {
        Self(self.0 * times)
    }
}

impl Div<u64> for Duration {
    type Output = Self;
    fn div(self, parts: u64) -> Self {
        Self(self.0 / parts)
    }
}

impl Rem for Duration {
    type Output = Self;
    fn rem(self, other: Self) -> Self {
        Self(self.0 % other.0)
    }
}

impl std::iter::Sum for Duration {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, |sum, span| sum + span)
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09} s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} ms", self.as_millis_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_round_to_the_nearest_nanosecond() {
        assert_eq!(Duration::from_secs_f64(0.02), Duration::from_millis(20));
        assert_eq!(Duration::from_secs_f64(-1.0), Duration::ZERO);
        assert_eq!(Duration::from_secs_f64(f64::NAN), Duration::ZERO);
    }

    #[test]
    fn offsets_stop_at_the_ends() {
        assert_eq!(Instant::from_nanos(5).offset(-9), Instant::ZERO);
        assert_eq!(Instant::MAX.offset(1), Instant::MAX);
        assert_eq!(Instant::from_nanos(5).signed_since(Instant::from_nanos(9)), -4);
    }
}
