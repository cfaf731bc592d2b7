//! What a radio senses, in one cache line.
//!
//! Most hearers of a frame have nothing to send and cannot decode it: for them, power only rises
//! and falls. In a network of ten thousand radios this is most of the work. So the ears of all
//! radios are stored side by side, and this is done without touching the rest of the radio.

use std::hint::select_unpredictable;

use farhop_proto::base::{Duration, Instant};

use super::super::power::Power;

/// How the medium changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::radio) enum Turn {
    Busy,
    Idle,
}

impl Turn {
    /// How the medium changes with the start or the end of a signal, if it does.
    pub(in crate::radio) fn of(is_turn: bool, is_end: bool) -> Option<Self> {
        is_turn.then_some(if is_end { Self::Idle } else { Self::Busy })
    }
}

/// The sensing state of one radio.
#[derive(Debug)]
#[repr(align(64))]
pub(in crate::radio) struct Ear {
    /// Sum of all signals at the antenna that count.
    ambient: Power,
    /// The least power that makes the medium busy; zero while the radio or a sibling sends.
    sense: Power,
    /// The value of `sense` otherwise.
    threshold: Power,
    /// When the medium last became idle, and when it last became busy.
    since: [Instant; 2],
    /// Sum of the busy periods that have ended.
    busy_nanos: u64,
    /// When the own transmission ends or ended. Without carrier sense, the medium is idle from then
    /// on.
    tx_until: Instant,
    is_sending: bool,
    /// Changes of power matter to the receiver.
    pub(in crate::radio) is_receiving: bool,
    /// A backoff must stop when the medium becomes busy, and resume when it becomes idle.
    pub(in crate::radio) is_waiting: bool,
    /// There is nothing to send and no backoff to count, which no signal changes.
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
            // True until the radio says otherwise.
            is_receiving: true,
            is_waiting: has_carrier_sense,
            is_at_rest: false,
            has_carrier_sense,
            siblings: 0,
        }
    }

    /// Touches it, so that all of it is in the cache.
    pub(in crate::radio) fn fetch(&self) -> u64 {
        self.busy_nanos
    }

    /// Total of the busy periods that have ended.
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

    /// Whether the medium is busy by signals or own transmissions.
    fn is_sensing(&self) -> bool {
        self.ambient >= self.sense
    }

    /// Whether the medium is busy for this radio.
    pub(in crate::radio) fn is_busy(&self) -> bool {
        self.is_sending || (self.has_carrier_sense && self.is_sensing())
    }

    /// When the medium last became idle for this radio.
    pub(in crate::radio) fn idle_since(&self) -> Instant {
        if self.has_carrier_sense { self.since[IDLE] } else { self.tx_until }
    }

    /// Sets the medium idle from now on.
    pub(in crate::radio) fn rest(&mut self, now: Instant) {
        (self.since[IDLE], self.tx_until) = (now, now);
    }

    /// Whether a radio of the same node sends.
    pub(super) fn has_sibling(&self) -> bool {
        self.siblings > 0
    }

    /// A signal begins or ends. Returns whether the medium becomes busy or idle with it.
    ///
    /// Without branches: whether a signal changes anything is as unpredictable as a coin toss, and
    /// mispredictions cost more than all of this.
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

    /// A radio of the same node begins or ends to send.
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

    /// Notes that the medium becomes idle or busy, if `is_turn`.
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
