//! The clock of a radio against that of its node: what to do when the two come apart.

use crate::base::{Duration, Instant};

/// A frame is told so long after its end at most, and not before its start; else its timestamp is
/// of another clock.
const PATIENCE: Duration = Duration::from_millis(50);
/// Timestamps may be ahead by so much, in nanoseconds.
const AHEAD: i64 = 1_000_000;

/// Puts the timestamps of one radio on the clock of the node.
///
/// The device does so too, where there is one; this is for clocks that jump.
#[derive(Debug, Default)]
pub(super) struct RadioClock {
    /// What is added to timestamps, in nanoseconds.
    offset: i64,
    /// Since when timestamps have been impossible.
    wrong_since: Option<Instant>,
}

impl RadioClock {
    /// The start of a frame of `air` of air time that is told now, on the node's clock; nothing if
    /// its timestamp is impossible. After `patience` with impossible ones only, the radio's
    /// clock has jumped, and counts from where it is.
    pub(super) fn started(
        &mut self,
        now: Instant,
        stamp: Instant,
        air: Duration,
        patience: Duration,
    ) -> Option<Instant> {
        let is_possible = |started: Instant| {
            let age = now.signed_since(started);
            age >= -AHEAD && age <= (air + PATIENCE).as_nanos() as i64
        };
        let started = stamp.offset(self.offset);
        if is_possible(started) {
            self.wrong_since = None;
            return Some(started);
        }
        let since = *self.wrong_since.get_or_insert(now);
        if now.since(since) < patience {
            return None;
        }
        self.wrong_since = None;
        let started = now.saturating_sub(air);
        self.offset = started.signed_since(stamp);
        Some(started)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_jumped_counts_after_a_while() {
        let ms = Duration::from_millis;
        let (mut clock, start) = (RadioClock::default(), Instant::ZERO + ms(10_000));
        let air = ms(1);
        let mut told = |after: Duration, jump: i64| {
            let began = start + after;
            clock.started(began + air, began.offset(jump), air, ms(160)).map(|at| at.since(start))
        };
        assert_eq!(told(ms(0), 0), Some(ms(0)));
        assert_eq!(told(ms(40), 1_000_000_000), None);
        assert_eq!(told(ms(120), 1_000_000_000), None);
        assert_eq!(told(ms(200), 1_000_000_000), Some(ms(200)));
        assert_eq!(told(ms(240), 1_000_000_000), Some(ms(240)));
        // And back.
        assert_eq!(told(ms(280), 0), None);
        assert_eq!(told(ms(440), 0), Some(ms(440)));
    }
}
