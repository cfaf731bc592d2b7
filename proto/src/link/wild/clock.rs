//! Relates the clock of a radio to that of its node, and handles jumps of the radio's clock.

use crate::base::{Duration, Instant};

/// A frame is reported at most this long after its end, and never before its start. A timestamp
/// that contradicts this is of another clock.
const PATIENCE: Duration = Duration::from_millis(50);
/// Timestamps may be ahead of the node's clock by this much, in nanoseconds.
const AHEAD: i64 = 1_000_000;

/// Frames of which the one that was reported soonest says how far a clock jumped.
const SETTLING: u8 = 16;

/// Converts the timestamps of one radio to the clock of the node.
///
/// Where there is a device, it already does so; this is for clocks that jump.
#[derive(Debug, Default)]
pub(super) struct RadioClock {
    /// Added to timestamps, in nanoseconds.
    offset: i64,
    /// Since when all timestamps have been impossible.
    wrong_since: Option<Instant>,
    /// How many more frames may lower the offset: the one that set it may have been reported late.
    settling: u8,
}

impl RadioClock {
    /// When a frame that is reported now, with `air` of air time, began on the node's clock; none
    /// if its timestamp is impossible. After `patience` with nothing but impossible timestamps the
    /// radio's clock is taken to have jumped, and the offset is set anew.
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
        if self.settling > 0 {
            self.settling -= 1;
            self.offset = self.offset.min(now.saturating_sub(air).signed_since(stamp));
        }
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
        self.settling = SETTLING;
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

    #[test]
    fn a_frame_that_was_reported_late_does_not_set_the_clock_for_long() {
        let ms = Duration::from_millis;
        let (mut clock, start) = (RadioClock::default(), Instant::ZERO + ms(10_000));
        let mut told = |after: u64, late: u64, jump: i64| {
            let began = start + ms(after);
            let now = began + ms(1) + ms(late);
            let started = clock.started(now, began.offset(jump), ms(1), ms(160));
            started.map(|at| at.signed_since(began) / 1_000_000)
        };
        assert_eq!(told(0, 0, 0), Some(0));
        assert_eq!((told(40, 0, 1_000_000_000), told(240, 7, 1_000_000_000)), (None, Some(7)));
        let late = [3, 9, 0, 5].map(|late| told(280 + late, late, 1_000_000_000));
        assert_eq!(late, [3, 3, 0, 0].map(Some));
        (0..20).for_each(|at| _ = told(400 + at, 2, 1_000_000_000));
        // Once settled, a clock that drifts is left alone.
        assert_eq!(told(500, 0, 1_001_000_000), Some(1));
    }
}
