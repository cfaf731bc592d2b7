//! How the congestion window grows and by how much it is cut: the part of a sender that differs
//! between Reno and its successors (RFC 5681, 3.1), counted in segments as Linux does.

use super::config::Congestion;
use crate::base::{Duration, Instant};

/// A slow start threshold that was never set.
pub(super) const NO_THRESHOLD: u32 = 0x7fff_ffff;

/// The window of one sender, in segments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) cwnd: u32,
    pub(super) ssthresh: u32,
    /// Segments acknowledged since the window last grew in congestion avoidance.
    pub(super) count: u32,
}

/// What an acknowledgement tells a controller.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "bandwidth estimators read what Reno does not")]
pub(super) struct Acked {
    pub(super) now: Instant,
    /// Segments newly delivered, or 1 where acknowledgements are counted.
    pub(super) segments: u32,
    /// The least round-trip time, `Duration::MAX` if unknown.
    pub(super) min_rtt: Duration,
}

/// A congestion controller.
pub(super) trait Controller {
    /// Whether slow start goes on.
    fn in_slow_start(&self, window: &Window) -> bool {
        window.cwnd < window.ssthresh
    }
    /// Grows the window for an acknowledgement outside recovery.
    fn on_acked(&mut self, window: &mut Window, acked: &Acked);
    /// The threshold after a loss, from what counts as the window before.
    fn threshold(&self, basis: u32) -> u32;
    /// The window when a cut turns out needless.
    fn undone(&self, window: &Window, before: u32) -> u32 {
        window.cwnd.max(before)
    }
}

/// RFC 5681.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reno;

impl Controller for Reno {
    fn on_acked(&mut self, window: &mut Window, acked: &Acked) {
        let mut segments = acked.segments;
        if self.in_slow_start(window) {
            let grown = (window.cwnd + segments).min(window.ssthresh);
            segments -= grown - window.cwnd;
            window.cwnd = grown;
        }
        if segments == 0 {
            return;
        }
        if window.count >= window.cwnd {
            window.count = 0;
            window.cwnd += 1;
        }
        window.count += segments;
        if window.count >= window.cwnd {
            let steps = window.count / window.cwnd;
            window.count -= steps * window.cwnd;
            window.cwnd += steps;
        }
    }

    fn threshold(&self, basis: u32) -> u32 {
        (basis / 2).max(2)
    }
}

/// The controller of one sender.
#[derive(Clone, Debug)]
pub(super) enum AnyController {
    Reno(Reno),
}

impl AnyController {
    pub(super) fn build(congestion: Congestion) -> Self {
        match congestion {
            Congestion::Reno => Self::Reno(Reno),
        }
    }
}

impl Controller for AnyController {
    fn on_acked(&mut self, window: &mut Window, acked: &Acked) {
        match self {
            Self::Reno(reno) => reno.on_acked(window, acked),
        }
    }

    fn threshold(&self, basis: u32) -> u32 {
        match self {
            Self::Reno(reno) => reno.threshold(basis),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grow(window: &mut Window, acks: u32, segments: u32) {
        let acked = Acked { now: Instant::ZERO, segments, min_rtt: Duration::MAX };
        for _ in 0..acks {
            Reno.on_acked(window, &acked);
        }
    }

    #[test]
    fn slow_start_doubles_and_avoidance_adds_one_per_window() {
        let mut window = Window { cwnd: 10, ssthresh: 20, count: 0 };
        grow(&mut window, 5, 2);
        assert_eq!(window.cwnd, 20);
        grow(&mut window, 10, 2);
        assert_eq!(window.cwnd, 21);
        grow(&mut window, 21, 1);
        assert_eq!(window.cwnd, 22);
    }

    #[test]
    fn what_slow_start_leaves_of_an_ack_counts_in_avoidance() {
        let mut window = Window { cwnd: 10, ssthresh: 12, count: 0 };
        grow(&mut window, 1, 8);
        assert_eq!((window.cwnd, window.count), (12, 6));
    }
}
