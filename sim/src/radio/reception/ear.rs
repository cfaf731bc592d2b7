//! What a radio senses, in one cache line.
//!
//! Most of those who hear a frame have nothing to send and cannot decode it: the frame only comes
//! and goes. In a network of ten thousand radios that is most of all work. So the ears of all
//! radios stand side by side, and it is done here without a look at the rest of the radio.

use farhop_proto::base::{Duration, Instant};

use super::super::power::Power;

/// What becomes of the medium for a radio with carrier sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::radio) enum Turn {
    Busy,
    Idle,
}

/// What a radio senses.
#[derive(Debug)]
#[repr(align(64))]
pub(in crate::radio) struct Ear {
    /// All signals at the antenna, as far as they count.
    ambient: Power,
    /// What makes the medium busy; nothing at all while a sibling sends.
    sense: Power,
    /// Its value otherwise.
    threshold: Power,
    /// Since when the medium is busy, where it is.
    busy_since: Instant,
    /// When it last became idle, as a radio with carrier sense knows it.
    pub(in crate::radio) idle_since: Instant,
    /// Sum of the busy times that have ended.
    pub(in crate::radio) busy: Duration,
    /// When the own transmission ends, while there is one.
    tx_until: Instant,
    is_sending: bool,
    /// What is being received suffers from energy that comes and goes.
    pub(in crate::radio) is_receiving: bool,
    /// A backoff stops when the medium becomes busy, and goes on when it is idle.
    pub(in crate::radio) is_waiting: bool,
    /// There is nothing to send and no backoff to count. No signal changes that.
    pub(in crate::radio) is_at_rest: bool,
    has_carrier_sense: bool,
    /// Transmitting radios of the same node on overlapping channels.
    siblings: u16,
}

impl Ear {
    pub(in crate::radio) fn new(sense: Power, has_carrier_sense: bool) -> Self {
        let sense = sense.max(Power::LEAST);
        Self {
            ambient: Power::ZERO,
            sense,
            threshold: sense,
            busy_since: Instant::ZERO,
            idle_since: Instant::ZERO,
            busy: Duration::ZERO,
            tx_until: Instant::ZERO,
            is_sending: false,
            // Until the radio has said that it does not care.
            is_receiving: true,
            is_waiting: true,
            is_at_rest: false,
            has_carrier_sense,
            siblings: 0,
        }
    }

    /// Any of it, so that all of it is at hand.
    pub(in crate::radio) fn fetch(&self) -> u64 {
        self.busy_since.as_nanos()
    }

    /// All signals at the antenna.
    pub(in crate::radio) fn ambient(&self) -> Power {
        self.ambient
    }

    /// When the own transmission ends, while there is one.
    pub(in crate::radio) fn tx_until(&self) -> Option<Instant> {
        self.is_sending.then_some(self.tx_until)
    }

    /// Whether there is something on the air, the own transmission not counted.
    fn is_sensing(&self) -> bool {
        self.ambient >= self.sense
    }

    /// Whether the medium is busy as far as this radio cares.
    pub(in crate::radio) fn is_busy(&self) -> bool {
        self.is_sending || (self.has_carrier_sense && self.is_sensing())
    }

    /// Whether a radio of the same node sends.
    pub(super) fn has_sibling(&self) -> bool {
        self.siblings > 0
    }

    /// A signal comes, or goes.
    #[inline]
    pub(in crate::radio) fn hear(
        &mut self,
        now: Instant,
        power: Power,
        is_end: bool,
    ) -> Option<Turn> {
        let was_sensing = self.is_sensing();
        if is_end {
            self.ambient -= power;
        } else {
            self.ambient += power;
        }
        self.turn(now, was_sensing)
    }

    /// A radio of the same node begins to send, or ends.
    pub(super) fn hear_sibling(&mut self, now: Instant, is_end: bool) -> Option<Turn> {
        let was_sensing = self.is_sensing();
        if is_end {
            self.siblings -= 1;
        } else {
            self.siblings += 1;
        }
        self.sense = if self.siblings == 0 { self.threshold } else { Power::ZERO };
        self.turn(now, was_sensing)
    }

    /// Without branches: whether a signal changes anything is as good as drawn by lot, and wrong
    /// guesses of a processor cost more than all of this.
    #[inline]
    fn turn(&mut self, now: Instant, was_sensing: bool) -> Option<Turn> {
        let is_sensing = self.is_sensing();
        let is_turn = (is_sensing != was_sensing) & !self.is_sending;
        let is_idle = is_turn & !is_sensing;
        let passed = if is_idle { now.since(self.busy_since) } else { Duration::ZERO };
        self.busy += passed;
        self.busy_since = if is_turn & is_sensing { now } else { self.busy_since };
        self.idle_since = if is_idle & self.has_carrier_sense { now } else { self.idle_since };
        let turn = if is_sensing { Turn::Busy } else { Turn::Idle };
        (is_turn & self.has_carrier_sense).then_some(turn)
    }

    /// The own transmitter starts.
    pub(in crate::radio) fn start_sending(&mut self, now: Instant, until: Instant) {
        if !self.is_sensing() && !self.is_sending {
            self.busy_since = now;
        }
        (self.is_sending, self.tx_until) = (true, until);
    }

    /// The own transmitter stops.
    pub(in crate::radio) fn stop_sending(&mut self, now: Instant) {
        self.is_sending = false;
        if !self.is_sensing() {
            self.busy += now.since(self.busy_since);
        }
    }
}
