//! Round-trip times and the retransmission time-out (RFC 6298), by default as Linux computes it.
//!
//! Linux differs from the RFC: the deviation is the largest of the last round trip, decays only
//! once per round trip, grows slowly when samples fall, and is never below the minimum RTO, so that
//! RTO >= SRTT + 200 ms (`tcp_rtt_estimator`).

use super::config::{TcpConfig, Tick};
use crate::base::{Duration, Instant};

/// How long a minimum stays the minimum (`net.ipv4.tcp_min_rtt_wlen`).
const MINIMUM_LIFE: Duration = Duration::from_secs(300);

/// The time-out after a handshake that had to be repeated and brought no sample (RFC 6298, 5.7;
/// `TCP_TIMEOUT_FALLBACK`).
const FALLBACK: Duration = Duration::from_secs(3);

/// The estimator of one sender.
#[derive(Clone, Debug)]
pub(super) struct RttEstimator {
    linux: bool,
    tick: Tick,
    min_rto: i64,
    max_rto: Duration,
    /// Nanoseconds; zero before the first sample.
    srtt: i64,
    /// Four times the mean deviation, over the last samples.
    deviation: i64,
    deviation_max: i64,
    /// What the time-out adds to `srtt`.
    variance: i64,
    round_end: u64,
    rto: Duration,
    backoff: u32,
    minimum: Minimum,
}

/// The minimum of the last 300 to 600 seconds, kept in two halves.
#[derive(Clone, Copy, Debug)]
struct Minimum {
    before: Duration,
    current: Duration,
    since: Instant,
}

impl RttEstimator {
    pub(super) fn build(config: &TcpConfig) -> Self {
        Self {
            linux: config.linux_timers,
            tick: config.tick,
            min_rto: config.min_rto.as_nanos() as i64,
            max_rto: config.max_rto,
            srtt: 0,
            deviation: 0,
            deviation_max: 0,
            variance: 0,
            round_end: 0,
            rto: config.initial_rto,
            backoff: 0,
            minimum: Minimum {
                before: Duration::MAX,
                current: Duration::MAX,
                since: Instant::ZERO,
            },
        }
    }

    /// A SYN was lost, and the handshake brought no sample.
    pub(super) fn on_syn_lost(&mut self) {
        self.rto = self.rto.max(FALLBACK);
    }

    /// Takes a sample; `una` and `nxt` show where a round trip ends.
    pub(super) fn on_sample(&mut self, sample: Duration, una: u64, nxt: u64) {
        let sample = (sample.as_nanos() as i64).max(1);
        if self.linux {
            self.on_linux_sample(sample, una, nxt);
            let rto = Duration::from_nanos((self.srtt + self.variance) as u64);
            // What backoff doubles is in ticks already.
            self.rto = self.tick.whole(rto).min(self.max_rto);
        } else {
            self.on_rfc_sample(sample);
            let rto = (self.srtt + self.variance).max(self.min_rto);
            self.rto = Duration::from_nanos(rto as u64).min(self.max_rto);
        }
        self.backoff = 0;
    }

    fn on_rfc_sample(&mut self, sample: i64) {
        if self.srtt == 0 {
            self.srtt = sample;
            self.variance = 2 * sample;
        } else {
            self.variance += (self.srtt - sample).abs() - self.variance / 4;
            self.srtt += (sample - self.srtt) / 8;
        }
    }

    fn on_linux_sample(&mut self, sample: i64, una: u64, nxt: u64) {
        if self.srtt == 0 {
            self.srtt = sample;
            self.deviation = 2 * sample;
            self.variance = self.deviation.max(self.min_rto);
            self.deviation_max = self.variance;
            self.round_end = nxt;
            return;
        }
        let error = sample - self.srtt;
        self.srtt = (self.srtt + error / 8).max(1);
        let mut step = error.abs() - self.deviation / 4;
        // A fall of the round-trip time must not raise the time-out at once.
        if error < 0 && step > 0 {
            step /= 8;
        }
        self.deviation += step;
        if self.deviation > self.deviation_max {
            self.deviation_max = self.deviation;
            self.variance = self.variance.max(self.deviation_max);
        }
        if una > self.round_end {
            if self.deviation_max < self.variance {
                self.variance -= (self.variance - self.deviation_max) / 4;
            }
            self.round_end = nxt;
            self.deviation_max = self.min_rto;
        }
    }

    /// Takes a sample that delayed acknowledgements cannot have lengthened.
    pub(super) fn on_minimum(&mut self, now: Instant, sample: Duration) {
        if now.since(self.minimum.since) > MINIMUM_LIFE {
            let (before, since) = (self.minimum.current, now);
            self.minimum = Minimum { before, current: Duration::MAX, since };
        }
        self.minimum.current = self.minimum.current.min(sample);
    }

    /// The minimum of recent round-trip times; `Duration::MAX` before the first sample.
    pub(super) fn minimum(&self) -> Duration {
        self.minimum.before.min(self.minimum.current)
    }

    /// Smoothed round-trip time; zero before the first sample.
    pub(super) fn smoothed(&self) -> Duration {
        Duration::from_nanos(self.srtt as u64)
    }

    /// The time-out, with its backoff.
    pub(super) fn rto(&self) -> Duration {
        let backed = self.rto.as_nanos().saturating_mul(1 << self.backoff.min(20));
        Duration::from_nanos(backed).min(self.max_rto)
    }

    /// Doubles the time-out until the next sample.
    pub(super) fn back_off(&mut self) {
        self.backoff += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(config: &TcpConfig, samples_ms: &[u64]) -> Duration {
        let mut rtt = RttEstimator::build(config);
        for (round, sample) in samples_ms.iter().enumerate() {
            rtt.on_sample(Duration::from_millis(*sample), round as u64 + 1, round as u64 + 1);
        }
        rtt.rto()
    }

    #[test]
    fn the_time_out_of_linux_stays_200_ms_above_a_steady_round_trip() {
        assert_eq!(after(&TcpConfig::linux(), &[40; 1]), Duration::from_millis(240));
        assert_eq!(after(&TcpConfig::linux(), &[40; 50]), Duration::from_millis(240));
    }

    #[test]
    fn the_time_out_of_the_rfc_has_a_floor_only() {
        // First sample: 40 + 4 * 20; later the deviation fades and the floor of 200 ms holds.
        assert_eq!(after(&TcpConfig::classic(), &[100; 1]), Duration::from_millis(300));
        assert_eq!(after(&TcpConfig::classic(), &[40; 50]), Duration::from_millis(200));
    }

    #[test]
    fn a_falling_round_trip_does_not_raise_the_time_out() {
        let steady = after(&TcpConfig::linux(), &[800; 60]);
        let mut samples = [800; 61];
        samples[60] = 100;
        assert!(after(&TcpConfig::linux(), &samples) <= steady);
    }

    #[test]
    fn backoff_doubles_until_the_next_sample() {
        let mut rtt = RttEstimator::build(&TcpConfig::linux());
        rtt.back_off();
        rtt.back_off();
        assert_eq!(rtt.rto(), Duration::from_secs(4));
        rtt.on_sample(Duration::from_millis(10), 1, 1);
        assert_eq!(rtt.rto(), Duration::from_millis(212), "in whole ticks");
    }
}
