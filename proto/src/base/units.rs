//! Units of measure as types, for those that are calculated with.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::time::Duration;

/// A bit-rate in bits per second, and the form in which it is sent if that is not the sender's own
/// ([`Phy::rates_for`](super::Phy::rates_for)). Rates are ordered by bits per second, then by form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bitrate(u64);

/// Low bits of a [`Bitrate`] that hold its form, below its bits per second.
const FORM_BITS: u32 = 8;

impl Bitrate {
    /// A rate of `bps` bits per second.
    pub const fn from_bps(bps: u64) -> Self {
        Self(bps << FORM_BITS)
    }

    /// A rate in units of 100 kb/s: 55 is 5.5 Mb/s.
    pub const fn from_100kbps(units: u64) -> Self {
        Self::from_bps(units * 100_000)
    }

    /// A rate of `mbps` Mb/s, to the nearest bit per second.
    pub fn from_mbps(mbps: f64) -> Self {
        Self::from_bps((mbps * 1e6 + 0.5) as u64)
    }

    /// Bits per second.
    pub const fn bps(self) -> u64 {
        self.0 >> FORM_BITS
    }

    /// Mb/s.
    pub fn mbps(self) -> f64 {
        self.bps() as f64 / 1e6
    }

    /// The number of the form in which it is sent; 0 is the sender's own.
    pub const fn form(self) -> u8 {
        self.0 as u8
    }

    /// The same bits per second in another form.
    pub(super) const fn in_form(self, form: u8) -> Self {
        Self(self.bps() << FORM_BITS | form as u64)
    }

    /// The index of the first rate in `rates`, in rising order, that is at least as fast as this
    /// one; the last index if there is none.
    pub fn place_in(self, rates: impl ExactSizeIterator<Item = Self>) -> usize {
        let last = rates.len().saturating_sub(1);
        rates.take_while(|known| known.bps() < self.bps()).count().min(last)
    }

    /// The time that `bytes` bytes take, rounded up to whole nanoseconds.
    pub const fn time(self, bytes: u64) -> Duration {
        Duration::from_nanos((bytes * 8_000_000_000).div_ceil(self.bps()))
    }
}

impl fmt::Display for Bitrate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} Mb/s", self.mbps())
    }
}

/// Power relative to one milliwatt, in hundredths of a decibel, so that it has a total order and
/// the same bytes on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Dbm(i32);

impl Dbm {
    /// `dbm` dBm, to the nearest hundredth.
    pub fn from_f64(dbm: f64) -> Self {
        Self((dbm * 100.0).round() as i32)
    }

    /// `dbm` dBm.
    pub const fn new(dbm: i32) -> Self {
        Self(dbm * 100)
    }

    /// dBm.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / 100.0
    }

    /// This power reduced by `db` decibels, to the nearest hundredth.
    pub fn weaker_by(self, db: f64) -> Self {
        Self(self.0 - (db * 100.0).round() as i32)
    }

    /// How many decibels this power is above `other`.
    pub fn above(self, other: Self) -> f64 {
        f64::from(self.0 - other.0) / 100.0
    }
}
