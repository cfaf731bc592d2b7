//! The sender's only timer: time-out, probe, reordering window or zero window probe (RFC 6298; RFC
//! 9293, 3.8.6.1), and what happens when it fires.

use super::sender::{Sender, Timer};
use super::transmit::Deferral;
use crate::base::{Duration, Instant};

impl Sender {
    /// Sets the timer after progress: for a probe if one is possible, else for the time-out.
    pub(super) fn restart_timer(&mut self, now: Instant) {
        if !self.schedule_probe(now, true) {
            self.rearm_rto(now);
        }
    }

    /// Starts the time-out. If a shorter timer replaced it, it counts from the head's transmission
    /// (`tcp_rearm_rto`).
    pub(super) fn rearm_rto(&mut self, now: Instant) {
        let Some(head) = self.board.front() else {
            self.timer = None;
            return;
        };
        let rto = self.rtt.rto();
        let wait = match self.timer {
            Some((Timer::Reorder | Timer::Probe, _)) => {
                (head.sent + rto).since(now).max(Duration::from_millis(1))
            }
            _ => rto,
        };
        self.arm(Timer::Rto, now, wait);
    }

    /// Sets the timer.
    pub(super) fn arm(&mut self, timer: Timer, now: Instant, wait: Duration) {
        self.timer = Some((timer, self.tick.due(now, wait)));
    }

    pub(super) fn start_persist(&mut self, now: Instant) {
        if !matches!(self.timer, Some((Timer::Persist, _))) {
            self.arm(Timer::Persist, now, self.rtt.rto());
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        let Some((timer, due)) = self.timer else { return };
        if due > now {
            return;
        }
        self.timer = None;
        self.deferral = Deferral::Allowed;
        match timer {
            Timer::Rto => self.on_rto(now),
            Timer::Probe => self.on_probe_timer(now),
            Timer::Reorder => self.on_reorder_timer(now),
            Timer::Persist => {
                if self.has_more() && self.board.packets_out() == 0 {
                    self.persist_probe = true;
                    self.rtt.back_off();
                    self.start_persist(now);
                }
            }
        }
    }

    fn on_rto(&mut self, now: Instant) {
        if self.board.packets_out() == 0 {
            return;
        }
        self.counts.timeouts += 1;
        if self.timeouts >= self.retries {
            self.failed = true;
            return;
        }
        self.enter_loss(now);
        self.timeouts += 1;
        self.rtt.back_off();
        self.arm(Timer::Rto, now, self.rtt.rto());
    }
}
