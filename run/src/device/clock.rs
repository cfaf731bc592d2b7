//! The node's clock on an operating system: `CLOCK_MONOTONIC` since the program started, and what
//! other clocks say on it.

use std::time::Duration as StdDuration;

use farhop_proto::base::{Duration, Instant};
use rustix::time::{ClockId, clock_gettime};

/// The node's clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start_nanos: i128,
}

/// Where the node's clock stands at its start: a stamp from before it must have a place too.
const EPOCH_NANOS: i128 = 10_000_000_000;

fn nanos(clock: ClockId) -> i128 {
    let time = clock_gettime(clock);
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Self {
        Self { start_nanos: nanos(ClockId::Monotonic) }
    }

    /// A clock that all processes of a lab can share: it started with the machine.
    pub fn of_the_machine() -> Self {
        Self { start_nanos: 0 }
    }

    /// The time now.
    pub fn now(&self) -> Instant {
        self.on_monotonic(nanos(ClockId::Monotonic))
    }

    fn on_monotonic(&self, nanos: i128) -> Instant {
        Instant::from_nanos((nanos - self.start_nanos + EPOCH_NANOS).max(0) as u64)
    }

    /// How far the clock of kernel time stamps (`CLOCK_REALTIME`) is ahead of this one, in
    /// nanoseconds. It changes where the time of day is set, so it is asked for each batch.
    pub fn realtime_offset(&self) -> i128 {
        nanos(ClockId::Realtime) - nanos(ClockId::Monotonic) + self.start_nanos - EPOCH_NANOS
    }
}

/// The time of a kernel time stamp on the node's clock.
pub(crate) fn from_realtime(stamp: StdDuration, offset: i128) -> Instant {
    Instant::from_nanos((stamp.as_nanos() as i128 - offset).max(0) as u64)
}

/// A span as the system calls want it.
pub(crate) fn timespec(span: Duration) -> rustix::time::Timespec {
    rustix::time::Timespec {
        tv_sec: (span.as_nanos() / 1_000_000_000) as i64,
        tv_nsec: (span.as_nanos() % 1_000_000_000) as i64,
    }
}

/// Slices of the window of [`StampFilter`].
const SLICES: usize = 4;
/// Length of one slice: short enough that a drift of 50 ppm moves the minimum by 100 us at most.
const SLICE: Duration = Duration::from_millis(500);
/// A sample this far from the others means that the radio's clock was set.
const JUMP_NANOS: i64 = 100_000_000;

/// Puts a radio's time stamps on the node's clock.
///
/// The radio tells when a frame arrived on its own clock; the host learns of it some time after the
/// frame's end. The smallest difference of the two in the last two seconds is the difference of the
/// clocks plus the shortest way to the host; late wake-ups only make single differences larger.
#[derive(Clone, Debug, Default)]
pub struct StampFilter {
    slices: [Option<i64>; SLICES],
    begun: Instant,
    jumps: u64,
}

impl StampFilter {
    /// Takes the radio's time of a frame's end and the host's time of its arrival, and gives the
    /// offset in nanoseconds that turns radio time into node time.
    pub fn offset(&mut self, radio_end_nanos: u64, host: Instant) -> i64 {
        let sample = (host.as_nanos() as i64).wrapping_sub(radio_end_nanos as i64);
        while host.since(self.begun) >= SLICE {
            self.slices.rotate_right(1);
            self.slices[0] = None;
            self.begun += SLICE;
            if host.since(self.begun) >= SLICE * SLICES as u64 {
                self.slices = [None; SLICES];
                self.begun = host;
            }
        }
        let smallest = self.slices.iter().flatten().min().copied();
        if smallest.is_some_and(|smallest| sample.wrapping_sub(smallest).abs() > JUMP_NANOS) {
            self.slices = [None; SLICES];
            self.jumps += 1;
        }
        let slice = self.slices[0].get_or_insert(sample);
        *slice = sample.min(*slice);
        self.slices.iter().flatten().min().copied().unwrap_or(sample)
    }

    /// How often the radio's clock was found to be set.
    pub fn jumps(&self) -> u64 {
        self.jumps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farhop_proto::base::Seed;

    /// Feeds a frame every 10 ms; the host is 60 us late, or up to 3 ms in one case of ten.
    fn errors_us(seconds: u64, radio_ppm: i64, jump_at: Option<u64>) -> Vec<f64> {
        let mut filter = StampFilter::default();
        let mut rng = Seed(3).stream("jitter");
        let mut errors = Vec::new();
        for step in 0..seconds * 100 {
            let true_nanos = 20_000_000_000 + step * 10_000_000;
            let drift = true_nanos as i64 / 1_000_000 * radio_ppm;
            let jump = if jump_at.is_some_and(|at| step >= at * 100) { 1_000_000_000 } else { 0 };
            let radio = (true_nanos as i64 + 777_000_000 + drift + jump) as u64;
            let late = if rng.chance(0.1) { rng.below(3_000_000) } else { 0 } + 60_000;
            let host = Instant::from_nanos(true_nanos + late);
            let stamp = radio as i64 + filter.offset(radio, host);
            errors.push((stamp - true_nanos as i64) as f64 / 1e3);
        }
        errors
    }

    #[test]
    fn late_wakeups_do_not_move_the_stamps() {
        let errors = errors_us(20, 0, None);
        assert!(errors[10..].iter().all(|error| (error - 60.0).abs() < 1.0), "{errors:?}");
    }

    #[test]
    fn a_drift_of_50_ppm_costs_at_most_100_us() {
        for ppm in [-50, 50] {
            let errors = errors_us(20, ppm, None);
            let worst = errors[100..].iter().map(|error| (error - 60.0).abs()).fold(0.0, f64::max);
            assert!(worst <= 101.0, "{ppm} ppm: {worst} us");
        }
    }

    #[test]
    fn a_jump_of_the_radios_clock_is_followed_at_once() {
        let errors = errors_us(10, 0, Some(5));
        assert!(errors[520..].iter().all(|error| (error - 60.0).abs() < 1.0));
    }
}
