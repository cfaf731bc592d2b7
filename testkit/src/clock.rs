//! The clock of one node: an offset and a rate against the true time.

use farhop_proto::base::Instant;

/// A clock with an offset and a wrong rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// What it shows at true time zero, in nanoseconds.
    pub offset_ns: u64,
    /// How much too fast it runs, in parts per 10^9.
    pub drift_ppb: i64,
}

impl Clock {
    /// The time on the clock at a true time.
    pub fn local(&self, at: Instant) -> Instant {
        let run = i128::from(at.as_nanos()) * i128::from(1_000_000_000 + self.drift_ppb);
        Instant::from_nanos(self.offset_ns + (run / 1_000_000_000) as u64)
    }

    /// The first true time at which the clock shows `local` or more.
    pub fn true_time(&self, local: Instant) -> Instant {
        let run = local.as_nanos().saturating_sub(self.offset_ns);
        let rate = i128::from(1_000_000_000 + self.drift_ppb);
        let at = (i128::from(run) * 1_000_000_000 + rate - 1) / rate;
        Instant::from_nanos(at as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_back_is_the_first_moment() {
        let clock = Clock { offset_ns: 1_000_000_007, drift_ppb: -50_000 };
        for local in [0, 1_000_000_007, 1_000_000_008, 99_123_456_789] {
            let local = Instant::from_nanos(local);
            let at = clock.true_time(local);
            assert!(clock.local(at) >= local);
            let before = at.offset(-1);
            assert!(before == at || clock.local(before) < local);
        }
    }
}
