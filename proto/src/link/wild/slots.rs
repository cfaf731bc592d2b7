//! The slot schedule of the radios of one channel: phases, loose synchronisation, start-up
//! (`wildnet.md` 5, 6, 12).
//!
//! A send slot starts at `tsend` and lasts `T`; its first part is the guard, in which nothing is
//! sent. A receive slot follows. During a slot the sender is the master: a stamp says how long
//! after the start of its slot the preamble of its frame went on air, so the slot began here at
//! `trecv = t2 - delta`, and our own starts at `trecv + T`. Of the stamps of several neighbours
//! in one receive slot the latest counts; a node in step moves by at most `T / 4` at a time.
//!
//! Differs from the sheet in one thing: where no stamp comes, a node runs on with the length of
//! the cycle that it has learned (`2 T` and the way there and back), not with `2 T`; so the error
//! after a lost stamp stays below the propagation delay instead of being twice that.

use crate::base::{Duration, Instant, Rng};

/// Cycles of listening at the start.
const LISTEN_CYCLES: u64 = 4;
/// Cycles without a stamp after which the next one counts in full.
const STALE_CYCLES: u64 = 4;
/// Cycles without any frame of a neighbour after which a node is out of step. More than the four
/// of the sheet: at half the frames lost, an idle neighbour, who sends two frames in a slot, is
/// not heard for four cycles in one case of 256, and the learned cycle holds much longer.
pub(super) const SILENT_CYCLES: u64 = 8;

/// What the schedule is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nobody heard yet; the next send slot starts by itself, at random.
    Start,
    /// Not sending.
    Receive,
    /// Sending.
    Send,
}

/// What happened to the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotEvent {
    /// A send slot began: its guard is over.
    Began,
    /// A send slot ended.
    Ended,
    /// So many send slots passed before the node woke up.
    Missed(u64),
}

/// What a stamp did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stamp {
    /// Later than the slot is long: the neighbour has another slot length.
    TooLong,
    /// The node was in step and moved, or would have moved, by this much, in nanoseconds.
    Held(i64),
    /// The node was not in step and took over the neighbour's.
    Taken {
        /// Whether that cut a send slot short.
        cut: bool,
    },
}

/// The schedule.
#[derive(Debug)]
pub(super) struct Slots {
    length: Duration,
    guard: Duration,
    phase: Phase,
    number: u16,
    /// Start of the current send slot, or of the next while not sending.
    start: Instant,
    /// Where `start` would be without the stamps of this receive slot.
    free: Instant,
    /// The latest start that a stamp asked for, since the last send slot began.
    asked: Option<Instant>,
    /// What a cycle takes beyond `2 T`, learned, in nanoseconds.
    excess: i64,
    /// When the last stamp came, and what start it asked for; nothing while out of step.
    stamped: Option<(Instant, Instant)>,
    heard: Instant,
    rng: Rng,
    is_born: bool,
}

impl Slots {
    pub(super) fn new(length: Duration, guard: Duration, rng: Rng) -> Self {
        Self {
            length,
            guard,
            phase: Phase::Start,
            number: 0,
            start: Instant::ZERO,
            free: Instant::ZERO,
            asked: None,
            excess: 0,
            stamped: None,
            heard: Instant::ZERO,
            rng,
            is_born: false,
        }
    }

    /// When the phase ends.
    pub(super) fn due(&self) -> Instant {
        match self.phase {
            _ if !self.is_born => Instant::ZERO,
            Phase::Send => self.end(),
            Phase::Start | Phase::Receive => self.start + self.guard,
        }
    }

    /// Start of the current send slot, or of the next.
    pub(super) fn start(&self) -> Instant {
        self.start
    }

    /// End of the current send slot, or of the next.
    pub(super) fn end(&self) -> Instant {
        self.start + self.length
    }

    /// The slot counter.
    pub(super) fn number(&self) -> u16 {
        self.number
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether a frame may be given down now.
    pub(super) fn is_open(&self, now: Instant) -> bool {
        self.phase == Phase::Send && now < self.end()
    }

    /// Whether the schedule follows that of a neighbour who is still heard.
    pub(super) fn is_in_step(&self, now: Instant) -> bool {
        self.stamped.is_some() && now.since(self.heard) <= self.length * 2 * SILENT_CYCLES
    }

    /// Begins a send slot now, if the node is not in step and not sending: somebody waits for an
    /// answer. Returns whether it did.
    pub(super) fn begin(&mut self, now: Instant) -> bool {
        if self.is_in_step(now) || self.phase == Phase::Send {
            return false;
        }
        self.is_born = true;
        self.phase = Phase::Send;
        self.start = now;
        self.free = now;
        self.number = self.number.wrapping_add(1);
        self.asked = None;
        true
    }

    /// A frame of a neighbour came, with a stamp or without.
    pub(super) fn on_heard(&mut self, now: Instant) {
        if self.is_in_step(now) {
            self.heard = now;
        }
    }

    /// Goes on by one event, if it is time. To be called until it gives nothing.
    pub(super) fn advance(&mut self, now: Instant) -> Option<SlotEvent> {
        if !self.is_born {
            self.is_born = true;
            self.start = now + self.length * 2 * LISTEN_CYCLES + self.random();
            self.free = self.start;
        }
        if now < self.due() {
            return None;
        }
        if self.phase == Phase::Send {
            self.on_end(now);
            return Some(SlotEvent::Ended);
        }
        if now >= self.end() {
            return Some(SlotEvent::Missed(self.skip(now)));
        }
        self.phase = Phase::Send;
        self.number = self.number.wrapping_add(1);
        self.asked = None;
        Some(SlotEvent::Began)
    }

    fn cycle(&self) -> i64 {
        self.length.as_nanos() as i64 * 2 + self.excess
    }

    /// Up to a cycle, drawn.
    fn random(&mut self) -> Duration {
        Duration::from_nanos(self.rng.below(self.length.as_nanos() * 2 + 1))
    }

    fn on_end(&mut self, now: Instant) {
        if self.is_in_step(now) {
            self.phase = Phase::Receive;
            self.free = self.start.offset(self.cycle());
            self.start = self.free;
            if let Some(asked) = self.asked {
                self.hold(asked, false);
            }
        } else {
            self.stamped = None;
            // The draw differs each time, so two nodes whose slots overlap do not stay so.
            self.phase = Phase::Start;
            self.start = self.end() + self.length + self.random();
            self.free = self.start;
        }
    }

    /// Passes over the send slots that are over; returns how many.
    fn skip(&mut self, now: Instant) -> u64 {
        let mut missed = 0;
        while now >= self.end() {
            self.start = self.start.offset(self.cycle());
            missed += 1;
        }
        self.number = self.number.wrapping_add(missed as u16);
        self.free = self.start;
        self.asked = None;
        missed
    }

    /// Moves the next start as near to `asked` as a node in step may, or all the way if its last
    /// stamp is stale; returns the whole distance.
    fn hold(&mut self, asked: Instant, is_stale: bool) -> i64 {
        let most = self.length.as_nanos() as i64 / if is_stale { 1 } else { 4 };
        let error = asked.signed_since(self.free);
        self.start = self.free.offset(error.clamp(-most, most));
        error
    }

    /// Takes the stamp `delta` of a frame whose preamble began at `started`.
    pub(super) fn on_stamp(&mut self, now: Instant, started: Instant, delta: Duration) -> Stamp {
        if delta > self.length {
            return Stamp::TooLong;
        }
        let asked = started.offset(-(delta.as_nanos() as i64)) + self.length;
        let Some((stamped, before)) = self.stamped.filter(|_| self.is_in_step(now)) else {
            return self.take(now, asked);
        };
        self.heard = now;
        let free = match self.phase {
            Phase::Send => self.start.offset(self.cycle()),
            Phase::Start | Phase::Receive => self.free,
        };
        // A stamp that is told late belongs to the receive slot before.
        let asked = match asked.signed_since(free) {
            early if early < -(self.length.as_nanos() as i64) => asked.offset(self.cycle()),
            _ => asked,
        };
        if self.asked.is_none() {
            self.learn(asked.signed_since(before));
        }
        let asked = self.asked.map_or(asked, |other| other.max(asked));
        self.asked = Some(asked);
        self.stamped = Some((now, asked));
        if self.phase != Phase::Send {
            self.hold(asked, now.since(stamped) > self.length * 2 * STALE_CYCLES);
        }
        Stamp::Held(asked.signed_since(free))
    }

    /// Learns the length of a cycle from two stamps some cycles apart.
    ///
    /// Not from the error of our own schedule: that mixes in the errors of earlier cycles, and
    /// two nodes which follow each other's errors swing.
    fn learn(&mut self, apart: i64) {
        let two_slots = self.length.as_nanos() as i64 * 2;
        let cycles = (apart + two_slots / 2) / two_slots;
        if (1..=STALE_CYCLES as i64).contains(&cycles) {
            let excess = apart / cycles - two_slots;
            let most = two_slots / 16;
            self.excess = (self.excess + (excess - self.excess) / 4).clamp(-most, most);
        }
    }

    fn take(&mut self, now: Instant, asked: Instant) -> Stamp {
        let cut = self.phase == Phase::Send;
        self.is_born = true;
        self.phase = Phase::Receive;
        self.heard = now;
        self.excess = 0;
        self.start = asked;
        self.skip(now);
        self.free = self.start;
        self.asked = Some(self.start);
        self.stamped = Some((now, self.start));
        Stamp::Taken { cut }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Seed;

    const T: Duration = Duration::from_millis(20);

    fn slots(name: &str) -> Slots {
        Slots::new(T, Duration::from_millis(1), Seed(1).stream(name))
    }

    fn at(micros: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(micros)
    }

    /// A schedule that took over a slot of a neighbour which began at 1 s.
    fn in_step() -> Slots {
        let mut slots = slots("in step");
        assert_eq!(slots.advance(Instant::ZERO), None);
        let stamp = slots.on_stamp(at(1_001_500), at(1_001_000), Duration::from_millis(1));
        // The self-started slot was due long ago in this story, but nobody called.
        assert_eq!(stamp, Stamp::Taken { cut: false });
        slots
    }

    #[test]
    fn a_node_listens_for_four_cycles_and_a_random_time() {
        let mut slots = slots("alone");
        assert_eq!(slots.advance(at(5)), None);
        let wait = slots.start().since(at(5));
        assert!(wait >= T * 8 && wait <= T * 10, "{wait}");
        assert_eq!(slots.advance(slots.due()), Some(SlotEvent::Began));
        let first_end = slots.end();
        assert_eq!(slots.advance(first_end), Some(SlotEvent::Ended));
        assert_eq!(slots.phase(), Phase::Start);
        let again = slots.start().since(first_end);
        assert!(again >= T && again <= T * 3, "{again}");
    }

    #[test]
    fn our_slot_starts_when_the_neighbours_ends() {
        let mut slots = in_step();
        assert_eq!(slots.start(), at(1_020_000));
        assert!(!slots.is_open(at(1_020_999)));
        assert_eq!(slots.advance(at(1_021_000)), Some(SlotEvent::Began));
        assert!(slots.is_open(at(1_021_000)) && slots.is_open(at(1_039_999)));
        assert!(!slots.is_open(at(1_040_000)));
        assert_eq!(slots.advance(at(1_040_000)), Some(SlotEvent::Ended));
        assert_eq!(slots.start(), at(1_060_000));
    }

    #[test]
    fn the_latest_of_two_masters_counts_and_moves_by_a_quarter_slot_at_most() {
        let mut slots = in_step();
        slots.advance(at(1_021_000));
        slots.advance(at(1_040_000));
        let delta = Duration::from_millis(1);
        assert_eq!(slots.on_stamp(at(1_041_300), at(1_041_200), delta), Stamp::Held(200_000));
        assert_eq!(slots.on_stamp(at(1_041_400), at(1_041_100), delta), Stamp::Held(200_000));
        assert_eq!(slots.start(), at(1_060_200));
        assert_eq!(slots.on_stamp(at(1_051_000), at(1_050_900), delta), Stamp::Held(9_900_000));
        assert_eq!(slots.start(), at(1_065_000));
    }

    #[test]
    fn a_late_wake_up_uses_what_is_left_or_passes_over() {
        let mut slots = in_step();
        assert_eq!(slots.advance(at(1_039_000)), Some(SlotEvent::Began));
        assert_eq!(slots.advance(at(1_041_000)), Some(SlotEvent::Ended));
        assert_eq!(slots.advance(at(1_130_000)), Some(SlotEvent::Missed(2)));
        assert_eq!(slots.start(), at(1_140_000));
        assert_eq!(slots.number(), 3);
    }

    #[test]
    fn a_stamp_longer_than_the_slot_is_of_another_network() {
        let mut slots = in_step();
        let stamp = slots.on_stamp(at(1_041_300), at(1_041_200), Duration::from_millis(21));
        assert_eq!(stamp, Stamp::TooLong);
    }

    #[test]
    fn a_lost_stamp_costs_no_step_once_the_cycle_is_learned() {
        let mut slots = in_step();
        let way = Duration::from_micros(534);
        let cycle = T * 2 + way;
        for round in 0..60 {
            assert_eq!(slots.advance(slots.due()), Some(SlotEvent::Began));
            assert_eq!(slots.advance(slots.due()), Some(SlotEvent::Ended));
            let ideal = at(1_020_000) + cycle * (round + 1);
            if round < 40 || round % 3 == 0 {
                let heard = ideal.saturating_sub(T) + Duration::from_millis(1);
                slots.on_stamp(heard, heard, Duration::from_millis(1));
            }
            if round > 30 {
                let error = slots.start().signed_since(ideal).abs();
                assert!(error < 10_000, "{error} ns off in round {round}");
            }
        }
    }
}
