//! How many datagrams a source had made at what time: a sink does not know of those after the last
//! that arrived.

use crate::base::{Duration, Instant};

/// Most marks; beyond that, every second one is dropped.
const MARKS: usize = 256;
/// Time between two marks, at first.
const STEP: Duration = Duration::from_millis(20);

/// Time after which a datagram counts as lost if none has arrived.
const UNKNOWN: Duration = Duration::from_secs(1);
/// Shortest such time if others have arrived.
const LEAST: Duration = Duration::from_millis(20);

/// How long a datagram may be under way before it counts as lost: twice the longest of these delays
/// of others, within limits.
pub fn under_way(delays_ms: &[f64]) -> Duration {
    let longest = delays_ms.iter().copied().reduce(f64::max);
    longest.map_or(UNKNOWN, |longest| Duration::from_secs_f64(longest.max(0.0) / 500.0).max(LEAST))
}

/// The growing number of datagrams that a source has made.
#[derive(Clone, Debug)]
pub struct Made {
    /// Times with the number at that time, at least a step apart.
    marks: Vec<(Instant, u64)>,
    last: (Instant, u64),
    step: Duration,
}

impl Default for Made {
    fn default() -> Self {
        Self { marks: Vec::new(), last: (Instant::ZERO, 0), step: STEP }
    }
}

impl Made {
    /// Notes that there are `count` datagrams at `now`, which never goes back.
    pub fn note(&mut self, now: Instant, count: u64) {
        self.last = (now, count);
        if self.marks.last().is_some_and(|(at, _)| now < *at + self.step) {
            return;
        }
        if self.marks.len() >= MARKS {
            let mut index = 0;
            self.marks.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.step = self.step * 2;
        }
        self.marks.push((now, count));
    }

    /// How many there are now.
    pub fn count(&self) -> u64 {
        self.last.1
    }

    /// How many there were at a time, or fewer by at most what was made in about a hundredth of the
    /// whole time.
    pub fn by(&self, at: Instant) -> u64 {
        if at >= self.last.0 {
            return self.last.1;
        }
        let passed = self.marks.partition_point(|(mark, _)| *mark <= at);
        passed.checked_sub(1).map_or(0, |index| self.marks[index].1)
    }
}
