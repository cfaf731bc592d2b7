//! How the congestion window grows and is reduced: the part of a sender that differs between Reno
//! and its successors (RFC 5681, 3.1), counted in segments as in Linux.

use super::config::{Congestion, TcpConfig};
use super::cubic::Cubic;
use super::westwood::Westwood;
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

impl Window {
    /// Whether the sender is in slow start.
    pub(super) fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Grows by one for each of `segments`, up to the threshold; returns those that are left.
    pub(super) fn slow_start(&mut self, segments: u32) -> u32 {
        let grown = (self.cwnd + segments).min(self.ssthresh);
        let left = segments - (grown - self.cwnd);
        self.cwnd = grown;
        left
    }

    /// Grows by one for each `per` segments (`tcp_cong_avoid_ai`).
    pub(super) fn avoid(&mut self, segments: u32, per: u32) {
        if self.count >= per {
            self.count = 0;
            self.cwnd += 1;
        }
        self.count += segments;
        if self.count >= per {
            let steps = self.count / per;
            self.count -= steps * per;
            self.cwnd += steps;
        }
    }
}

/// What a controller gets from an acknowledgement outside recovery.
#[derive(Clone, Copy, Debug)]
pub(super) struct Acked {
    pub(super) now: Instant,
    /// Segments newly delivered, or 1 where acknowledgements are counted.
    pub(super) segments: u32,
}

/// What a controller gets from every acknowledgement, also during recovery.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) now: Instant,
    /// Round-trip time of the segment sent last among those newly acknowledged.
    pub(super) rtt: Option<Duration>,
    /// All below this is acknowledged.
    pub(super) una: u64,
    /// All below this was sent.
    pub(super) nxt: u64,
    /// Payload of a full segment, in bytes.
    pub(super) mss: u32,
}

/// A congestion controller.
pub(super) trait Controller {
    /// Takes measurements; called for every acknowledgement, before losses are detected.
    fn on_sample(&mut self, _window: &mut Window, _sample: &Sample) {}
    /// Grows the window for an acknowledgement outside recovery.
    fn on_acked(&mut self, window: &mut Window, acked: &Acked) {
        let segments = match window.in_slow_start() {
            true => window.slow_start(acked.segments),
            false => acked.segments,
        };
        if segments > 0 {
            window.avoid(segments, window.cwnd);
        }
    }
    /// The threshold after a loss or a mark; `basis` is what counts as the window before.
    fn threshold(&mut self, basis: u32, mss: u32) -> u32;
    /// A retransmission time-out has reduced the window.
    fn on_timeout(&mut self) {}
    /// Sending restarts after a time with nothing in flight.
    fn on_restart(&mut self, _now: Instant, _idle: Duration) {}
    /// The window after a reduction that turned out needless.
    fn undone(&self, window: &Window, before: u32) -> u32 {
        window.cwnd.max(before)
    }
}

/// RFC 5681.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reno;

impl Controller for Reno {
    fn threshold(&mut self, basis: u32, _mss: u32) -> u32 {
        (basis / 2).max(2)
    }
}

/// The controller of one sender.
#[derive(Clone, Debug)]
pub(super) enum AnyController {
    Reno(Reno),
    Cubic(Cubic),
    Westwood(Westwood),
}

impl AnyController {
    pub(super) fn build(config: &TcpConfig) -> Self {
        match config.congestion {
            Congestion::Reno => Self::Reno(Reno),
            Congestion::Cubic => Self::Cubic(Cubic::new(config.tick)),
            Congestion::Westwood => Self::Westwood(Westwood::default()),
        }
    }

    fn get_mut(&mut self) -> &mut dyn Controller {
        match self {
            Self::Reno(reno) => reno,
            Self::Cubic(cubic) => cubic,
            Self::Westwood(westwood) => westwood,
        }
    }
}

impl Controller for AnyController {
    fn on_sample(&mut self, window: &mut Window, sample: &Sample) {
        self.get_mut().on_sample(window, sample);
    }

    fn on_acked(&mut self, window: &mut Window, acked: &Acked) {
        self.get_mut().on_acked(window, acked);
    }

    fn threshold(&mut self, basis: u32, mss: u32) -> u32 {
        self.get_mut().threshold(basis, mss)
    }

    fn on_timeout(&mut self) {
        self.get_mut().on_timeout();
    }

    fn on_restart(&mut self, now: Instant, idle: Duration) {
        self.get_mut().on_restart(now, idle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grow(window: &mut Window, acks: u32, segments: u32) {
        let acked = Acked { now: Instant::ZERO, segments };
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
