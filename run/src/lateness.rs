//! How late a process wakes up, by which everything that runs in real time has to be judged.

use farhop_proto::base::{Duration, Instant};
use serde::{Deserialize, Serialize};

/// A wake-up later than this counts as late.
const LATE: Duration = Duration::from_millis(1);
/// A process that wakes up later than this stood still: every neighbour has noticed.
pub(crate) const STANDSTILL: Duration = Duration::from_secs(1);

/// Wake-ups by timers, and how late they were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WakeupStats {
    /// All wake-ups by timers.
    pub timer: u64,
    /// Wake-ups more than 1 ms late.
    pub late_1ms: u64,
    /// Wake-ups later than the guard of the slots.
    pub late_guard: u64,
    /// Wake-ups more than 1 s late.
    pub late_1s: u64,
    /// The latest wake-up, in microseconds after its timer.
    pub worst_us: f64,
}

/// Counts wake-ups by how late they are.
#[derive(Clone, Copy, Debug)]
pub struct Wakeups {
    guard: Duration,
    stats: WakeupStats,
}

impl Wakeups {
    /// A count for slots with this guard.
    pub fn build(guard: Duration) -> Self {
        Self { guard, stats: WakeupStats::default() }
    }

    /// Counts a wake-up whose timer was due at `due` and that came at `now`.
    pub fn on_timer(&mut self, due: Instant, now: Instant) {
        let late = now.since(due);
        self.stats.timer += 1;
        self.stats.late_1ms += u64::from(late > LATE);
        self.stats.late_guard += u64::from(late > self.guard);
        self.stats.late_1s += u64::from(late > STANDSTILL);
        self.stats.worst_us = self.stats.worst_us.max(late.as_nanos() as f64 / 1e3);
    }

    /// The counts so far.
    pub fn stats(&self) -> WakeupStats {
        self.stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wakeups_are_counted_by_how_late_they_are() {
        let mut wakeups = Wakeups::build(Duration::from_micros(1_500));
        let at = |micros: u64| Instant::from_nanos(micros * 1_000);
        for late in [50, 1_200, 1_800, 2_000_000] {
            wakeups.on_timer(at(10_000), at(10_000 + late));
        }
        let stats = wakeups.stats();
        assert_eq!((stats.timer, stats.late_1ms), (4, 3));
        assert_eq!((stats.late_guard, stats.late_1s), (2, 1));
        assert!((stats.worst_us - 2e6).abs() < 1e-9);
    }
}
