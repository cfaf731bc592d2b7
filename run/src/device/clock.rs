//! The node's clock on an operating system: `CLOCK_BOOTTIME` since the program started; and the
//! time of day relative to it. It goes on while the host is suspended, so that keys expire.

use std::time::Duration as StdDuration;

use farhop_proto::base::{Duration, Instant};
use rustix::time::{ClockId, clock_gettime};

/// The node's clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start_nanos: i128,
}

/// The clock's time at its start, so that a stamp from before the start is not negative.
const EPOCH_NANOS: i128 = 10_000_000_000;

fn nanos(clock: ClockId) -> i128 {
    let time = clock_gettime(clock);
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Self {
        Self { start_nanos: nanos(ClockId::Boottime) }
    }

    /// A clock that all processes of a lab share: it started with the machine.
    pub fn of_the_machine() -> Self {
        Self { start_nanos: 0 }
    }

    /// The time now.
    pub fn now(&self) -> Instant {
        let since = nanos(ClockId::Boottime) - self.start_nanos;
        Instant::from_nanos((since + EPOCH_NANOS).max(0) as u64)
    }

    /// How far the clock of kernel time stamps (`CLOCK_REALTIME`) is ahead of this one, in
    /// nanoseconds. It changes when the time of day is set, so it is read again for each batch.
    pub fn realtime_offset(&self) -> i128 {
        nanos(ClockId::Realtime) - nanos(ClockId::Boottime) + self.start_nanos - EPOCH_NANOS
    }
}

/// When the host was started, in nanoseconds by the present time of day. It changes when that is
/// set, and hardly otherwise. `None` if reading the clocks took so long that the readings do not
/// belong together.
pub(crate) fn time_of_start() -> Option<i128> {
    const LONG_NANOS: i128 = 10_000_000;
    let boottime = nanos(ClockId::Boottime);
    let realtime = nanos(ClockId::Realtime);
    (nanos(ClockId::Boottime) - boottime < LONG_NANOS).then_some(realtime - boottime)
}

/// How long a frame may have waited for its reader, as where the program was stopped. A host
/// without a battery for its clock sets that forward by months soon after its start.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Converts a kernel time stamp to the node's clock; `now` if there is none. The result is never
/// after `now`, and not long before it: the time of day may have been set, back or forward, between
/// the stamp and the reading of `offset`.
pub(crate) fn arrived(stamp: Option<StdDuration>, offset: i128, now: Instant) -> Instant {
    let Some(stamp) = stamp else { return now };
    let nanos = stamp.as_nanos() as i128 - offset;
    let waited = i128::from(now.as_nanos()) - nanos;
    match (0..=i128::from(LONGEST_WAIT.as_nanos())).contains(&waited) {
        true => Instant::from_nanos(nanos.max(0) as u64),
        false => now,
    }
}

/// A span as system calls take it.
pub(crate) fn timespec(span: Duration) -> rustix::time::Timespec {
    rustix::time::Timespec {
        tv_sec: (span.as_nanos() / 1_000_000_000) as i64,
        tv_nsec: (span.as_nanos() % 1_000_000_000) as i64,
    }
}

/// Number of slices in the window of [`StampFilter`].
const SLICES: usize = 4;
/// Length of a slice: short enough that a drift of 50 ppm moves the minimum by at most 100 us.
const SLICE: Duration = Duration::from_millis(500);
/// How far a sample must be from the others to mean that the radio's clock was set.
const JUMP_NANOS: i64 = 100_000_000;
/// How many samples in a row must be late alike to mean that the radio's clock was set back. A host
/// that was stopped looks the same for a frame or two.
const SUSPECTS: u32 = 3;

/// Converts a radio's time stamps to the node's clock.
///
/// The radio stamps a frame's arrival by its own clock; the host learns of it some time after the
/// frame's end. The smallest difference between the two in the last two seconds is the offset of
/// the clocks plus the shortest delay to the host; late wake-ups only make single differences
/// larger.
#[derive(Clone, Debug, Default)]
pub struct StampFilter {
    slices: [Option<i64>; SLICES],
    begun: Instant,
    /// The smallest of the recent samples that were far too late, and their number.
    suspect: Option<(i64, u32)>,
    jumps: u64,
}

impl StampFilter {
    /// Takes the end of a frame by the radio's clock and its arrival by the host's, and returns the
    /// offset in nanoseconds that converts radio time to node time.
    pub fn offset(&mut self, radio_end_nanos: u64, host: Instant) -> i64 {
        let sample = (host.as_nanos() as i64).wrapping_sub(radio_end_nanos as i64);
        // Otherwise the slices would not move until that time.
        self.begun = self.begun.min(host);
        while host.since(self.begun) >= SLICE {
            self.slices.rotate_right(1);
            self.slices[0] = None;
            self.begun += SLICE;
            if host.since(self.begun) >= SLICE * SLICES as u64 {
                self.slices = [None; SLICES];
                self.begun = host;
            }
        }
        let Some(smallest) = self.slices.iter().flatten().min().copied() else {
            self.suspect = None;
            return *self.slices[0].insert(sample);
        };
        // The host cannot learn of a frame before its end, so a sample far too small is a jump.
        let excess = sample.wrapping_sub(smallest);
        if excess.unsigned_abs() > JUMP_NANOS as u64 {
            let confirmed = if excess < 0 { Some(sample) } else { self.on_suspect(sample) };
            let Some(offset) = confirmed else { return smallest };
            *self = Self { begun: self.begun, jumps: self.jumps + 1, ..Self::default() };
            return *self.slices[0].insert(offset);
        }
        self.suspect = None;
        let slice = self.slices[0].get_or_insert(sample);
        *slice = sample.min(*slice);
        sample.min(smallest)
    }

    /// Notes a sample that is far too late. Returns the smallest such sample once there are enough.
    fn on_suspect(&mut self, sample: i64) -> Option<i64> {
        let alike = |(suspect, _): &(i64, u32)| {
            sample.wrapping_sub(*suspect).unsigned_abs() <= JUMP_NANOS as u64
        };
        let (suspect, count) = self.suspect.filter(alike).unwrap_or((sample, 0));
        let (suspect, count) = (suspect.min(sample), count + 1);
        self.suspect = Some((suspect, count));
        (count >= SUSPECTS).then_some(suspect)
    }

    /// How many times the radio's clock jumped.
    pub fn jumps(&self) -> u64 {
        self.jumps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farhop_proto::base::Seed;

    /// Feeds one frame every 10 ms; the host is 60 us late, in one of ten cases up to 3 ms more.
    fn errors_us(seconds: u64, radio_ppm: i64, jump: Option<(u64, i64)>) -> Vec<f64> {
        let mut filter = StampFilter::default();
        let mut rng = Seed(3).stream("jitter");
        let mut errors = Vec::new();
        for step in 0..seconds * 100 {
            let true_nanos = 20_000_000_000 + step * 10_000_000;
            let drift = true_nanos as i64 / 1_000_000 * radio_ppm;
            let jump = jump.filter(|(at, _)| step >= at * 100).map_or(0, |(_, jump)| jump);
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
    fn a_time_of_day_that_is_set_brings_nothing_from_the_future() {
        let now = Instant::from_nanos(20_000_000_000);
        let at = |seconds| Some(StdDuration::from_secs(seconds));
        assert_eq!(arrived(at(1_019), 1_000_000_000_000, now), now - Duration::from_secs(1));
        assert_eq!(arrived(at(900_000), 1_000_000_000_000, now), now);
        assert_eq!(arrived(at(1_019), 50_000_000_000_000, now), now, "set forward by months");
        assert_eq!(arrived(None, 0, now), now);
        // After a host time that was once a year ahead, drift is still followed.
        let mut filter = StampFilter::default();
        let year = Duration::from_secs(31_536_000);
        filter.offset(1_000, now + year);
        let mut offsets = (0..1_000_u64).map(|step| {
            let host = now + Duration::from_millis(10) * step;
            filter.offset(20_000_000_000 + step * 9_999_500, host)
        });
        let (first, last) = (offsets.nth(400), offsets.last());
        let moved = last.zip(first).map(|(last, first)| last - first);
        assert!(moved.is_some_and(|moved| moved > 200_000), "{moved:?} ns of 300,000");
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
        for jump in [1_000_000_000, -1_000_000_000] {
            let errors = errors_us(10, 0, Some((5, jump)));
            let after = &errors[520..];
            assert!(after.iter().all(|error| (error - 60.0).abs() < 1.0), "{jump}: {after:?}");
        }
    }

    #[test]
    fn a_host_that_was_stopped_for_a_moment_is_no_jump() {
        let mut filter = StampFilter::default();
        let mut offset = |at_ms: u64, late_ms: u64| {
            let at = 20_000_000_000 + at_ms * 1_000_000;
            filter.offset(at, Instant::from_nanos(at + late_ms * 1_000_000 + 60_000))
        };
        for at in (0..1_000).step_by(10) {
            assert_eq!(offset(at, 0), 60_000);
        }
        assert_eq!([offset(1_000, 400), offset(1_010, 390), offset(1_020, 0)], [60_000; 3]);
        assert_eq!(filter.jumps(), 0);
    }
}
