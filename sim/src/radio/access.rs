//! When a radio may send: interframe spaces, backoff, post-backoff (IEEE 802.11-1999 9.2,
//! `radio.md` 2).
//!
//! The backoff is one event at its end. When the medium becomes busy the event is cancelled, and
//! the slots that had passed are computed from the time. A radio whose backoff ends at the very
//! moment at which a signal arrives has not heard it yet, and sends.

use farhop_proto::base::{AckPolicy, Frame, Gap, Instant};

use super::air::{Air, Timer};
use super::chip::{Chip, Phase};

impl Chip {
    /// Whether the own transmitter is on.
    pub(super) fn is_transmitting(&self) -> bool {
        self.tx_until.is_some()
    }

    /// Whether the medium is busy as far as this radio cares.
    pub(super) fn is_busy(&self) -> bool {
        self.is_transmitting() || (self.config.carrier_sense && self.receiver.is_sensing())
    }

    /// The head of the queue. Only called where the phase says that there is one.
    pub(super) fn head(&self) -> &Frame {
        self.queue.front().expect("a frame is in service")
    }

    /// Whether a frame goes by the rules of contention: gap, draw, post-backoff.
    pub(super) fn is_drawing(&self, frame: &Frame) -> bool {
        frame.options.ack == AckPolicy::Normal || self.config.gap == Gap::Backoff
    }

    /// When the interframe space before the frame in service is over, if the medium stays idle.
    fn gap_end(&self, is_short: bool) -> Instant {
        let since = self.idle_since.max(self.settled_at);
        let mut end = since + if is_short { self.config.phy.sifs() } else { self.difs };
        if self.config.carrier_sense {
            end = end.max(self.nav_until + self.difs);
            if let Some(error_at) = self.error_at {
                end = end.max(error_at + self.eifs);
            }
        }
        end
    }

    /// Takes the next frame into service, or the one in service into the next attempt.
    pub(super) fn contend(&mut self, air: &mut Air, now: Instant) {
        let Some(frame) = self.queue.front() else {
            self.phase = Phase::Idle;
            return;
        };
        if self.attempts == 0
            && let Some(not_before) = frame.options.not_before
            && not_before > now
        {
            self.phase = Phase::Deferred;
            air.set_timer(self.index, Timer::Access, not_before);
            return;
        }
        self.phase = Phase::Contending;
        if self.is_drawing(frame) {
            let gap_end = self.gap_end(false);
            let is_free = !self.is_busy() && now >= gap_end;
            match self.backoff {
                Some(slots) if is_free && now >= gap_end + self.config.slot * u64::from(slots) => {
                    self.backoff = None;
                }
                None if !is_free => self.draw_backoff(),
                _ => {}
            }
        }
        self.set_access(air, now);
    }

    /// Sets the event at which the frame in service goes, if the medium is idle.
    pub(super) fn set_access(&mut self, air: &mut Air, now: Instant) {
        if self.phase != Phase::Contending || self.is_busy() {
            return;
        }
        let at = if self.is_drawing(self.head()) {
            self.gap_end(false) + self.config.slot * u64::from(self.backoff.unwrap_or(0))
        } else {
            let is_short = self.config.gap == Gap::Sifs && self.idle_since == self.last_tx_end;
            self.gap_end(is_short)
        };
        air.set_timer(self.index, Timer::Access, at.max(now));
    }

    /// Draws from the contention window; counted from the end of the gap.
    pub(super) fn draw_backoff(&mut self) {
        let slots = self.rng.below(u64::from(self.window) + 1);
        self.backoff = Some(slots as u32);
        self.stats.backoff_slots += slots;
        self.stats.backoff += self.config.slot * slots;
    }

    /// The medium becomes busy: the backoff stops, with the slots that have passed taken off.
    pub(super) fn on_busy(&mut self, air: &mut Air, now: Instant) {
        let is_waiting = self.phase == Phase::Contending;
        if is_waiting && air.timer(self.index, Timer::Access).is_some_and(|at| at <= now) {
            return;
        }
        if let Some(slots) = self.backoff {
            let passed = now.since(self.gap_end(false)).div_duration(self.config.slot);
            let is_over = now >= self.gap_end(false) && passed >= u64::from(slots);
            self.backoff = if is_over { None } else { Some(slots - passed as u32) };
        }
        if is_waiting {
            air.cancel_timer(self.index, Timer::Access);
        }
    }

    /// The medium becomes idle.
    pub(super) fn on_idle(&mut self, air: &mut Air, now: Instant) {
        self.idle_since = now;
        self.set_access(air, now);
    }
}
