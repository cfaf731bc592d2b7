//! Upsets of a daemon's time: the process stood still, or the time of day was set.

use farhop_proto::base::{Duration, Instant};
use serde::Serialize;

use crate::device::time_of_start;
use crate::lateness::STANDSTILL;

/// The time of day was set if it moved by more than this against the node's clock. What NTP
/// corrects gradually moves all clocks alike.
const SETTING_NANOS: u128 = 100_000_000;

/// A kind of upset, and how often it happened.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Upset {
    /// How often it happened.
    pub times: u64,
    /// The longest, in seconds.
    pub longest_s: f64,
    /// How long ago the last one ended, in seconds.
    pub last_ago_s: f64,
}

/// The same while it is being counted.
#[derive(Clone, Copy, Debug, Default)]
struct Noted {
    times: u64,
    longest: Duration,
    last: Instant,
}

impl Noted {
    fn add(&mut self, now: Instant, length: Duration) {
        *self = Self { times: self.times + 1, longest: self.longest.max(length), last: now };
    }

    fn told(&self, now: Instant) -> Option<Upset> {
        (self.times > 0).then(|| Upset {
            times: self.times,
            longest_s: self.longest.as_secs_f64(),
            last_ago_s: now.since(self.last).as_secs_f64(),
        })
    }
}

/// Detects both kinds of upset.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Upsets {
    standstills: Noted,
    settings: Noted,
    /// When the host was started, by the time of day.
    start: Option<i128>,
}

impl Upsets {
    /// Notes a timer that was due at `due` and fired at `now`: a process that was stopped is late,
    /// and so is one whose host was suspended.
    pub(super) fn on_timer(&mut self, due: Instant, now: Instant) {
        // Several timers may have become due in one standstill: it counts once.
        let length = now.since(due.max(self.standstills.last));
        if length > STANDSTILL {
            self.stood_still(now, length);
        }
    }

    /// Compares the time of day with the node's clock.
    pub(super) fn look(&mut self, now: Instant) {
        if let Some(start) = time_of_start() {
            self.compare(now, start);
        }
    }

    fn compare(&mut self, now: Instant, start: i128) {
        let Some(before) = self.start.replace(start) else { return };
        let moved = start - before;
        if moved.unsigned_abs() > SETTING_NANOS {
            let nanos = u64::try_from(moved.unsigned_abs()).unwrap_or(u64::MAX);
            let length = Duration::from_nanos(nanos);
            let way = if moved > 0 { "forward" } else { "back" };
            tracing::info!("the time of day was set {way} by {:.1} s", length.as_secs_f64());
            self.settings.add(now, length);
        }
    }

    fn stood_still(&mut self, now: Instant, length: Duration) {
        tracing::warn!(
            "stood still for {:.1} s: it was stopped or suspended, or had no processor time",
            length.as_secs_f64()
        );
        self.standstills.add(now, length);
    }

    /// Standstills of the process; `None` if there were none.
    pub(super) fn standstills(&self, now: Instant) -> Option<Upset> {
        self.standstills.told(now)
    }

    /// Changes of the time of day; `None` if there were none.
    pub(super) fn settings(&self, now: Instant) -> Option<Upset> {
        self.settings.told(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn who_was_stopped_is_late_for_all_that_was_due_and_stood_still_once() {
        let mut upsets = Upsets::default();
        upsets.on_timer(at(20), at(21));
        assert_eq!(upsets.standstills(at(21)), None, "a second may be the machine's");
        for due in [30, 31, 32] {
            upsets.on_timer(at(due), at(42));
        }
        upsets.on_timer(at(50), at(53));
        let told = Upset { times: 2, longest_s: 12.0, last_ago_s: 7.0 };
        assert_eq!(upsets.standstills(at(60)), Some(told));
        assert_eq!(upsets.settings(at(60)), None);
    }

    #[test]
    fn a_time_of_day_that_was_set_is_noted_and_one_that_runs_on_is_not() {
        let mut upsets = Upsets::default();
        let seconds = |seconds: i128| seconds * 1_000_000_000;
        upsets.compare(at(20), seconds(1_000));
        upsets.compare(at(21), seconds(1_000) + 50_000_000);
        upsets.compare(at(22), seconds(1_000) + 60_000_000);
        assert_eq!(upsets.settings(at(22)), None);
        upsets.compare(at(23), seconds(400));
        upsets.compare(at(24), seconds(401));
        let set = upsets.settings(at(24)).expect("it was set");
        assert_eq!((set.times, set.last_ago_s), (2, 0.0));
        assert!((set.longest_s - 600.06).abs() < 1e-6, "{set:?}");
    }

    #[test]
    fn clocks_that_nobody_touches_say_the_same_twice() {
        let mut upsets = Upsets::default();
        for now in 20..30 {
            upsets.look(at(now));
        }
        assert!(upsets.start.is_some());
        assert_eq!((upsets.standstills(at(30)), upsets.settings(at(30))), (None, None));
    }
}
