//! TCP Westwood+ (Grieco and Mascolo 2004): after a loss, the window is the estimated bandwidth
//! times the minimum round-trip time, instead of half of the window before.
//!
//! As in Linux (`tcp_westwood`), there is one sample of the acknowledged bytes per round trip (at
//! least 50 ms), which passes two first-order filters. The threshold is taken from the estimate
//! when a loss is found, where Linux takes half the window and corrects it at the end of recovery.

use super::congestion::{Controller, Sample};
use crate::base::{Duration, Instant};

/// The round-trip time before the first sample.
const INITIAL_RTT: Duration = Duration::from_secs(20);
/// Shortest time that a sample covers.
const LEAST_SPAN: Duration = Duration::from_millis(50);

/// State of one sender.
#[derive(Clone, Debug)]
pub(super) struct Westwood {
    /// Bytes a second after the first filter, and after both; `None` before the first sample.
    estimates: Option<(u64, u64)>,
    /// Start of the sample, and the bytes acknowledged in it.
    begin: Option<Instant>,
    bytes: u64,
    una: u64,
    /// Bytes that duplicate acknowledgements counted for and that are not acknowledged cumulatively
    /// yet.
    accounted: u64,
    rtt: Duration,
    least_rtt: Duration,
    renew_least: bool,
}

impl Default for Westwood {
    fn default() -> Self {
        Self {
            estimates: None,
            begin: None,
            bytes: 0,
            una: 0,
            accounted: 0,
            rtt: INITIAL_RTT,
            least_rtt: INITIAL_RTT,
            renew_least: true,
        }
    }
}

impl Westwood {
    /// Bytes that an acknowledgement counts for. A duplicate counts for one segment, which the next
    /// cumulative acknowledgement does not count again.
    fn acked_bytes(&mut self, una: u64, mss: u64) -> u64 {
        let mut bytes = una.saturating_sub(self.una);
        self.una = una;
        if bytes == 0 {
            self.accounted += mss;
            return mss;
        }
        if bytes > mss {
            let counted = self.accounted.min(bytes - mss);
            self.accounted = self.accounted.saturating_sub(bytes);
            bytes -= counted;
        }
        bytes
    }

    fn filter(&mut self, sample: u64) {
        let smooth = |before: u64, new: u64| (7 * before + new) / 8;
        self.estimates = Some(match self.estimates {
            // As in Linux, the first sample that counts anything fills the filter.
            None | Some((0, 0)) => (sample, sample),
            Some((first, second)) => {
                let first = smooth(first, sample);
                (first, smooth(second, first))
            }
        });
    }

    fn on_round_trip(&mut self, rtt: Option<Duration>) {
        if let Some(rtt) = rtt {
            self.rtt = rtt;
            self.least_rtt = if self.renew_least { rtt } else { self.least_rtt.min(rtt) };
            self.renew_least = false;
        }
    }

    /// Bandwidth estimate, in bytes a second.
    fn bandwidth(&self) -> u64 {
        self.estimates.map_or(0, |(_, second)| second)
    }
}

impl Controller for Westwood {
    fn on_sample(&mut self, _window: &mut super::congestion::Window, sample: &Sample) {
        let Some(begin) = self.begin else {
            // The first acknowledgement begins the first sample.
            (self.begin, self.una) = (Some(sample.now), sample.una);
            return self.on_round_trip(sample.rtt);
        };
        let span = sample.now.since(begin);
        if span > self.rtt.max(LEAST_SPAN) {
            self.filter(self.bytes * 1_000_000 / span.as_micros().max(1));
            (self.begin, self.bytes) = (Some(sample.now), 0);
        }
        self.bytes += self.acked_bytes(sample.una, sample.mss.into());
        self.on_round_trip(sample.rtt);
    }

    fn threshold(&mut self, _basis: u32, mss: u32) -> u32 {
        let pipe = u128::from(self.bandwidth()) * u128::from(self.least_rtt.as_micros());
        (pipe / 1_000_000 / u128::from(mss.max(1))).clamp(2, 1 << 24) as u32
    }

    fn on_timeout(&mut self) {
        self.renew_least = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::tcp::congestion::Window;

    fn feed(westwood: &mut Westwood, ms: u64, una: u64, rtt_ms: u64) {
        let mut window = Window { cwnd: 10, ssthresh: 10, count: 0 };
        let sample = Sample {
            now: Instant::ZERO + Duration::from_millis(ms),
            rtt: (rtt_ms > 0).then(|| Duration::from_millis(rtt_ms)),
            una,
            nxt: una,
            mss: 1_000,
        };
        westwood.on_sample(&mut window, &sample);
    }

    #[test]
    fn samples_pass_two_filters_once_a_round_trip() {
        let mut westwood = Westwood::default();
        feed(&mut westwood, 0, 1_000, 100);
        feed(&mut westwood, 50, 11_000, 100);
        assert_eq!(westwood.estimates, None);
        // 10,000 bytes in 125 ms: 80,000 B/s start both filters.
        feed(&mut westwood, 125, 16_000, 100);
        assert_eq!(westwood.estimates, Some((80_000, 80_000)));
        feed(&mut westwood, 200, 36_000, 100);
        // 25,000 bytes in 125 ms: 200,000 B/s. (7 * 80,000 + 200,000) / 8 = 95,000, and
        // (7 * 80,000 + 95,000) / 8 = 81,875.
        feed(&mut westwood, 250, 36_000, 0);
        assert_eq!(westwood.estimates, Some((95_000, 81_875)));
        // 81,875 B/s for 100 ms are 8.2 segments.
        assert_eq!(westwood.threshold(64, 1_000), 8);
    }

    #[test]
    fn a_sample_covers_50_ms_at_least() {
        let mut westwood = Westwood::default();
        feed(&mut westwood, 0, 0, 10);
        feed(&mut westwood, 20, 5_000, 10);
        feed(&mut westwood, 50, 6_000, 10);
        assert_eq!(westwood.estimates, None);
        feed(&mut westwood, 60, 6_000, 10);
        assert_eq!(westwood.estimates, Some((100_000, 100_000)));
    }

    #[test]
    fn duplicates_count_a_segment_each_and_the_next_advance_counts_the_rest() {
        let mut westwood = Westwood { una: 10_000, ..Westwood::default() };
        let counted =
            [10_000, 10_000, 10_000, 20_000, 21_000].map(|una| westwood.acked_bytes(una, 1_000));
        assert_eq!(counted, [1_000, 1_000, 1_000, 7_000, 1_000]);
        assert_eq!(westwood.accounted, 0);
    }

    #[test]
    fn a_sample_of_nothing_does_not_begin_the_estimate() {
        let mut westwood = Westwood::default();
        feed(&mut westwood, 0, 1_000, 100);
        // The next acknowledgement comes a round trip later: until then nothing was counted.
        feed(&mut westwood, 105, 3_000, 100);
        feed(&mut westwood, 210, 23_000, 100);
        assert_eq!(westwood.bandwidth(), 2_000 * 1_000_000 / 105_000);
    }

    #[test]
    fn the_first_round_trip_counts_as_the_least_one() {
        let mut westwood = Westwood::default();
        feed(&mut westwood, 0, 1_000, 40);
        assert_eq!(westwood.least_rtt, Duration::from_millis(40));
        feed(&mut westwood, 1, 2_000, 60);
        assert_eq!(westwood.least_rtt, Duration::from_millis(40));
    }

    #[test]
    fn the_least_round_trip_is_measured_anew_after_a_time_out() {
        let mut westwood = Westwood::default();
        feed(&mut westwood, 0, 0, 0);
        feed(&mut westwood, 1, 1_000, 80);
        feed(&mut westwood, 2, 2_000, 90);
        assert_eq!(westwood.least_rtt, Duration::from_millis(80));
        westwood.on_timeout();
        feed(&mut westwood, 3, 3_000, 95);
        assert_eq!(westwood.least_rtt, Duration::from_millis(95));
        assert_eq!(Westwood::default().threshold(64, 1_000), 2);
    }
}
