//! When a radio may send: interframe spaces, backoff, post-backoff, internal collisions (IEEE
//! 802.11-1999 9.2, 802.11-2007 9.9.1, `radio.md` 2 and 3).
//!
//! A backoff is one event at its end. When the medium becomes busy, the event is cancelled and the
//! elapsed slots are computed from the time. A radio whose backoff ends at the very moment at which
//! a signal arrives has not sensed it yet, and sends. All functions of a radio share one event, at
//! the earliest of their times.

use farhop_proto::base::{Gap, Instant};
use farhop_proto::stack::FirstAccess;

use super::air::{Air, Timer};
use super::chip::Chip;
use super::edcaf::Wait;

impl Chip {
    /// Whether this radio's transmitter is on.
    pub(super) fn is_transmitting(&self, air: &Air) -> bool {
        air.ear(self.index).tx_until().is_some()
    }

    /// Whether the medium is busy for this radio.
    pub(super) fn is_busy(&self, air: &Air) -> bool {
        air.ear(self.index).is_busy()
    }

    /// When the interframe space begins, if the medium stays idle: after the last exchange, NAV and
    /// EIFS.
    fn gap_start(&self, air: &Air) -> Instant {
        let since = air.ear(self.index).idle_since().max(self.settled_at);
        self.announced_end().map_or(since, |end| end.max(since))
    }

    /// When the NAV and an EIFS wait (without the DIFS in it) end; `None` for a radio without
    /// carrier sense.
    fn announced_end(&self) -> Option<Instant> {
        let error = self.error_at.map_or(Instant::ZERO, |at| at + self.after_error);
        self.config.carrier_sense.then(|| self.nav_until.max(error))
    }

    /// Puts the next frame of a function into service, or the frame in service into its next
    /// attempt.
    pub(super) fn contend(&mut self, air: &mut Air, now: Instant, index: usize) {
        let function = &mut self.functions[index];
        function.at = Instant::MAX;
        if function.is_empty() {
            function.wait = Wait::Idle;
        } else if let Some(at) = function.not_before().filter(|at| *at > now) {
            function.wait = Wait::Deferred;
            function.at = at;
        } else {
            function.wait = Wait::Contending;
            if function.is_drawing(self.config.gap) {
                self.take_up_backoff(air, now, index);
            }
            self.plan_access(air, now, index);
        }
        self.arm(air, now);
    }

    /// A frame that finds the medium idle for long enough is sent at once; any other draws a
    /// backoff. The standard and ns-3 differ on what is long enough, see [`FirstAccess`].
    fn take_up_backoff(&mut self, air: &Air, now: Instant, index: usize) {
        let gap_end = self.gap_start(air) + self.functions[index].aifs;
        let is_free = !self.is_busy(air) && self.exchange.is_none() && now >= gap_end;
        let over = |slots: u32| gap_end + self.config.slot * u64::from(slots);
        match self.functions[index].backoff {
            Some(slots) if is_free && now >= over(slots) => self.functions[index].backoff = None,
            None if !(is_free || self.is_idle_enough(air, now)) => self.draw_backoff(index),
            _ => {}
        }
    }

    /// Whether the medium is idle at this moment, if the configuration asks for no more.
    fn is_idle_enough(&self, air: &Air, now: Instant) -> bool {
        self.config.first_access == FirstAccess::WhenIdle
            && !self.is_busy(air)
            && self.exchange.is_none()
            && now >= self.nav_until
    }

    /// Computes when a function may send, provided that the medium is idle.
    fn plan_access(&mut self, air: &Air, now: Instant, index: usize) {
        let function = &self.functions[index];
        if function.wait != Wait::Contending || self.exchange.is_some() || self.is_busy(air) {
            return;
        }
        let gap_end = self.gap_start(air) + function.aifs;
        let at = if function.is_drawing(self.config.gap) {
            let slots = function.backoff.unwrap_or(0);
            gap_end + self.config.slot * u64::from(slots)
        } else if self.config.gap == Gap::Sifs
            && air.ear(self.index).idle_since() == self.last_tx_end
        {
            let short = self.last_tx_end.max(self.settled_at) + self.config.phy.sifs();
            let announced = self.announced_end().map(|end| end + function.aifs);
            announced.map_or(short, |end| end.max(short))
        } else {
            gap_end
        };
        self.functions[index].at = at.max(now);
    }

    /// Sets the access event to the earliest time of all functions.
    fn arm(&mut self, air: &mut Air, now: Instant) {
        if self.exchange.is_some() {
            return;
        }
        let at = self.functions.iter().map(|function| function.at).min().unwrap_or(Instant::MAX);
        if at == Instant::MAX {
            self.cancel_access(air);
        } else if self.access_at != at.max(now) {
            self.set_access(air, at.max(now));
        }
    }

    /// Sets the access event.
    pub(super) fn set_access(&mut self, air: &mut Air, at: Instant) {
        self.access_at = at;
        air.set_timer(self.index, Timer::Access, at);
    }

    pub(super) fn cancel_access(&mut self, air: &mut Air) {
        if self.access_at != Instant::MAX {
            self.access_at = Instant::MAX;
            air.cancel_timer(self.index, Timer::Access);
        }
    }

    /// Lets the backoffs of all functions run, once the medium is idle.
    pub(super) fn resume(&mut self, air: &mut Air, now: Instant) {
        for index in 0..self.functions.len() {
            self.plan_access(air, now, index);
        }
        self.arm(air, now);
    }

    pub(super) fn draw_backoff(&mut self, index: usize) {
        let slots = u64::from(self.functions[index].draw(&mut self.rng));
        self.stats.backoff_slots += slots;
        self.stats.backoff += self.config.slot * slots;
    }

    /// The medium becomes busy by another radio's signal, which is noticed only after aCCATime
    /// (802.11-2012 18.3.10.6 for OFDM).
    pub(super) fn on_sensed(&mut self, air: &mut Air, now: Instant) {
        self.stop_backoffs(air, now, now + self.config.cca);
    }

    /// The medium becomes busy by this radio's own transmission, which is known at once.
    pub(super) fn on_busy(&mut self, air: &mut Air, now: Instant) {
        self.stop_backoffs(air, now, now);
    }

    /// Stops backoffs that do not end by the time `noticed`, and takes off the slots elapsed until
    /// then.
    fn stop_backoffs(&mut self, air: &mut Air, now: Instant, noticed: Instant) {
        if self.exchange.is_some() {
            return;
        }
        let (gap_start, slot) = (self.gap_start(air), self.config.slot);
        for function in &mut self.functions {
            let is_waiting = function.wait == Wait::Contending;
            if is_waiting && function.at <= noticed {
                continue;
            }
            function.freeze(noticed, gap_start + function.aifs, slot);
            if is_waiting {
                function.at = Instant::MAX;
            }
        }
        self.arm(air, now);
    }

    /// An own transmission begins before another radio's signal is noticed, so backoffs that would
    /// have ended in between stop too.
    pub(super) fn stop_late_backoffs(&mut self, air: &Air, now: Instant) {
        let (gap_start, slot) = (self.gap_start(air), self.config.slot);
        for function in &mut self.functions {
            let is_running = function.at > now && function.at != Instant::MAX;
            if is_running && function.wait == Wait::Contending {
                function.freeze(now, gap_start + function.aifs, slot);
                function.at = Instant::MAX;
            }
        }
    }

    /// The access event is due.
    pub(super) fn on_access(&mut self, air: &mut Air, now: Instant) {
        self.access_at = Instant::MAX;
        if self.exchange.is_some() {
            self.on_pause_end(air, now);
            return;
        }
        let mut is_new = false;
        for index in 0..self.functions.len() {
            let function = &self.functions[index];
            if function.at <= now && function.wait == Wait::Deferred {
                self.contend(air, now, index);
                is_new = true;
            }
        }
        if is_new {
            return;
        }
        if self.is_transmitting(air) {
            // An acknowledgement left at this very moment; the frame is sent after it.
            for function in self.functions.iter_mut().filter(|function| function.at <= now) {
                function.backoff = function.backoff.map(|_| 0);
                function.at = Instant::MAX;
            }
            self.arm(air, now);
            return;
        }
        let ready = |index: &usize| self.functions[*index].at <= now;
        let winner = (0..self.functions.len()).rev().find(ready);
        self.begin(air, now, winner.expect("the event is at the time of a function"));
    }

    /// Other functions of this radio that would have sent at the same moment suffer an internal
    /// collision.
    pub(super) fn settle_internal_collisions(
        &mut self,
        air: &mut Air,
        now: Instant,
        winner: usize,
    ) {
        for index in 0..winner {
            let function = &self.functions[index];
            if function.wait == Wait::Contending && function.at <= now {
                self.on_internal_collision(air, now, index);
            }
        }
    }
}
