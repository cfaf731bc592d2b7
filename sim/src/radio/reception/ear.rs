//! What a radio senses, in one cache line.
//!
//! Most of those who hear a frame have nothing to send and cannot decode it: the frame only comes
//! and goes. In a network of ten thousand radios that is most of all work. So the ears of all
//! radios stand side by side, and it is done here without a look at the rest of the radio.

use std::hint::select_unpredictable;

use farhop_proto::base::{Duration, Instant};

use super::super::power::Power;

/// What becomes of the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::radio) enum Turn {
    Busy,
    Idle,
}

impl Turn {
    /// What a signal does that comes or ends, if the medium turns with it.
    pub(in crate::radio) fn of(is_turn: bool, is_end: bool) -> Option<Self> {
        is_turn.then_some(if is_end { Self::Idle } else { Self::Busy })
    }
}

/// What a radio senses.
#[derive(Debug)]
#[repr(align(64))]
pub(in crate::radio) struct Ear {
    /// All signals at the antenna, as far as they count.
    ambient: Power,
    /// What makes the medium busy; nothing at all while the radio or a sibling sends.
    sense: Power,
    /// Its value otherwise.
    threshold: Power,
    /// Since when the medium is idle, or was last, and since when it is busy.
    since: [Instant; 2],
    /// Sum of the busy times that have ended.
    busy_nanos: u64,
    /// When the own transmission ends, or has ended: where energy does not count, the medium is
    /// idle from then on.
    tx_until: Instant,
    is_sending: bool,
    /// What is being received suffers from energy that comes and goes.
    pub(in crate::radio) is_receiving: bool,
    /// A backoff stops when the medium becomes busy, and goes on when it is idle.
    pub(in crate::radio) is_waiting: bool,
    /// There is nothing to send and no backoff to count. No signal changes that.
    pub(in crate::radio) is_at_rest: bool,
    pub(in crate::radio) has_carrier_sense: bool,
    /// Transmitting radios of the same node on overlapping channels.
    siblings: u16,
}

/// Places in [`Ear::since`].
const IDLE: usize = 0;
const BUSY: usize = 1;

impl Ear {
    pub(in crate::radio) fn new(sense: Power, has_carrier_sense: bool) -> Self {
        let sense = sense.max(Power::LEAST);
        Self {
            ambient: Power::ZERO,
            sense,
            threshold: sense,
            since: [Instant::ZERO; 2],
            busy_nanos: 0,
            tx_until: Instant::ZERO,
            is_sending: false,
            // Until the radio has said that it does not care.
            is_receiving: true,
            is_waiting: has_carrier_sense,
            is_at_rest: false,
            has_carrier_sense,
            siblings: 0,
        }
    }

    /// Any of it, so that all of it is at hand.
    pub(in crate::radio) fn fetch(&self) -> u64 {
        self.busy_nanos
    }

    /// How long the medium was busy, as far as that is over.
    pub(in crate::radio) fn busy(&self) -> Duration {
        Duration::from_nanos(self.busy_nanos)
    }

    /// All signals at the antenna.
    pub(in crate::radio) fn ambient(&self) -> Power {
        self.ambient
    }

    /// When the own transmission ends, while there is one.
    pub(in crate::radio) fn tx_until(&self) -> Option<Instant> {
        self.is_sending.then_some(self.tx_until)
    }

    /// Whether there is something on the air, the own transmission counted.
    fn is_sensing(&self) -> bool {
        self.ambient >= self.sense
    }

    /// Whether the medium is busy as far as this radio cares.
    pub(in crate::radio) fn is_busy(&self) -> bool {
        self.is_sending || (self.has_carrier_sense && self.is_sensing())
    }

    /// When the medium last became idle, as far as this radio cares.
    pub(in crate::radio) fn idle_since(&self) -> Instant {
        if self.has_carrier_sense { self.since[IDLE] } else { self.tx_until }
    }

    /// The medium counts as idle from now on.
    pub(in crate::radio) fn rest(&mut self, now: Instant) {
        (self.since[IDLE], self.tx_until) = (now, now);
    }

    /// Whether a radio of the same node sends.
    pub(super) fn has_sibling(&self) -> bool {
        self.siblings > 0
    }

    /// A signal comes, or goes. Returns whether the medium becomes busy with that, or idle.
    ///
    /// Without branches: whether a signal changes anything is as good as drawn by lot, and wrong
    /// guesses of a processor cost more than all of this.
    #[inline]
    pub(in crate::radio) fn hear<const IS_END: bool>(
        &mut self,
        now: Instant,
        power: Power,
    ) -> bool {
        let was_sensing = self.is_sensing();
        self.ambient = if IS_END { self.ambient.without(power) } else { self.ambient.with(power) };
        let is_turn = self.is_sensing() != was_sensing;
        self.turn::<IS_END>(now, is_turn);
        is_turn
    }

    /// A radio of the same node begins to send, or ends.
    pub(super) fn hear_sibling(&mut self, now: Instant, is_end: bool) -> Option<Turn> {
        let was_sensing = self.is_sensing();
        if is_end {
            self.siblings -= 1;
        } else {
            self.siblings += 1;
        }
        self.set_sense();
        let is_turn = self.is_sensing() != was_sensing;
        if is_end {
            self.turn::<true>(now, is_turn);
        } else {
            self.turn::<false>(now, is_turn);
        }
        Turn::of(is_turn, is_end)
    }

    /// The medium becomes idle or busy, if this is a turn.
    #[inline]
    fn turn<const IS_IDLE: bool>(&mut self, now: Instant, is_turn: bool) {
        if IS_IDLE {
            let passed = now.as_nanos().wrapping_sub(self.since[BUSY].as_nanos());
            self.busy_nanos += select_unpredictable(is_turn, passed, 0);
            self.since[IDLE] = select_unpredictable(is_turn, now, self.since[IDLE]);
        } else {
            self.since[BUSY] = select_unpredictable(is_turn, now, self.since[BUSY]);
        }
    }

    fn set_sense(&mut self) {
        let is_drowned = self.is_sending || self.siblings > 0;
        self.sense = if is_drowned { Power::ZERO } else { self.threshold };
    }

    /// The own transmitter starts.
    pub(in crate::radio) fn start_sending(&mut self, now: Instant, until: Instant) {
        if !self.is_sensing() {
            self.since[BUSY] = now;
        }
        (self.is_sending, self.tx_until) = (true, until);
        self.set_sense();
    }

    /// The own transmitter stops.
    pub(in crate::radio) fn stop_sending(&mut self, now: Instant) {
        (self.is_sending, self.tx_until) = (false, now);
        self.set_sense();
        if !self.is_sensing() {
            self.busy_nanos += now.since(self.since[BUSY]).as_nanos();
        }
    }
}
