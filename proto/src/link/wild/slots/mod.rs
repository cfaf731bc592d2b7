//! The slot schedule of the radios of one channel: phases, loose synchronisation, start-up
//! (`wildnet.md` 5, 6, 12).
//!
//! A send slot starts at `tsend` and lasts `T`; its first part is the guard, in which nothing is
//! sent. A receive slot follows. During a slot the sender is the master: a stamp says how long
//! after the start of its slot the preamble of its frame went on air, so the slot began here at
//! `trecv = t2 - delta`, and our own starts at `trecv + T`. Of the stamps of several neighbours
//! in one receive slot the latest counts, and of one whose stamp was lost, where it would have
//! been; a node in step moves by at most `T / 4` at a time, or as far as it takes after four
//! cycles without a stamp.
//!
//! Nodes that begin by themselves draw the number of a cluster, which whoever follows them repeats.
//! Where two clusters meet, the one with the higher number takes over the schedule of the other; so
//! a network that began in many places ends in one step. Two neighbours who send at the same time
//! hear nothing of each other: a node that misses a neighbour listens in some of its send slots. It
//! begins others of them at another time: the stamp is in the first frame, which else may always
//! come when the neighbour, whose slot overlaps with ours, sends or hears others. For the same
//! reason later frames tell it too, as exactly as they are planned.
//!
//! Differs from the sheet in one thing: where no stamp comes, a node runs on with the length of
//! the cycle that it has learned (`2 T` and the way there and back), not with `2 T`; so the error
//! after a lost stamp stays below the propagation delay instead of being twice that.

mod excess;

use std::collections::BTreeMap;

use self::excess::Excess;
use crate::base::{Duration, Instant, NodeId, Rng};

/// Cycles of listening at the start.
const LISTEN_CYCLES: u64 = 4;
/// Cycles without a stamp after which the next one counts in full.
pub(super) const STALE_CYCLES: u64 = 4;
/// While a neighbour is missing, a node listens in one of so many of its send slots.
const LISTEN_OF: u64 = 4;
/// After so many slots without it, more rarely.
const LISTEN_SLOTS: u32 = 32;
const LISTEN_RARELY_OF: u64 = 16;
/// Meanwhile it begins at another time in one of so many of its send slots, and later in one of
/// `MOVE_RARELY_OF`.
const MOVE_OF: u64 = 2;
const MOVE_RARELY_OF: u64 = 8;
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
    /// A send slot is spent listening.
    Listened,
}

/// How long after the start of its slot a frame went on air, as its sender tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delta {
    /// Of the first frame of a slot.
    Exact(Duration),
    /// Of a later one, before gaps were drawn.
    Planned(Duration),
}

/// What a stamp did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stamp {
    /// Later than the slot is long: the neighbour has another slot length.
    TooLong,
    /// Of a cluster that follows ours, as soon as it hears of it.
    Foreign,
    /// Not exact, and better is known.
    Planned,
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
    /// Length of the current send slot, or of the last.
    own: Duration,
    /// Length of the neighbours' slot, as the last stamp that counted tells it.
    theirs: Duration,
    /// Start of the current send slot, or of the next while not sending.
    start: Instant,
    /// Start of the last send slot.
    sent_from: Instant,
    /// Where `start` would be without the stamps of this receive slot.
    free: Instant,
    /// The latest start that a stamp asked for, since the last send slot began.
    asked: Option<Instant>,
    excess: Excess,
    /// When the last stamp came; nothing while out of step.
    stamped: Option<Instant>,
    /// When the last stamp of each neighbour came, and what start it asked for.
    stamps: BTreeMap<NodeId, (Instant, Instant)>,
    heard: Instant,
    rng: Rng,
    is_born: bool,
    /// Those who are in step with this node have the same.
    cluster: u8,
    /// Whether the stamps of this receive slot came after a long time without any.
    was_stale: bool,
    /// Whether the stamp that this node came into step by was not exact, and none was since.
    is_as_planned: bool,
    /// Whether a neighbour is missing, and in how many slots it has been.
    missing: Option<u32>,
}

impl Slots {
    pub(super) fn new(length: Duration, guard: Duration, rng: Rng) -> Self {
        Self {
            length,
            guard,
            phase: Phase::Start,
            number: 0,
            own: length,
            theirs: length,
            start: Instant::ZERO,
            sent_from: Instant::ZERO,
            free: Instant::ZERO,
            asked: None,
            excess: Excess::default(),
            stamped: None,
            stamps: BTreeMap::new(),
            heard: Instant::ZERO,
            rng,
            is_born: false,
            cluster: 0,
            was_stale: false,
            is_as_planned: false,
            missing: None,
        }
    }

    /// The number that those in step with this node share.
    pub(super) fn cluster(&self) -> u8 {
        self.cluster
    }

    /// Whether a neighbour has not been heard lately, or is in step with others than this node.
    pub(super) fn set_missing(&mut self, is_missing: bool) {
        self.missing = is_missing.then_some(self.missing.unwrap_or(0).saturating_add(1));
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
        self.start + self.own
    }

    /// Length of the current send slot, or of the last.
    pub(super) fn own(&self) -> Duration {
        self.own
    }

    /// Length of the neighbours' slots.
    pub(super) fn theirs(&self) -> Duration {
        self.theirs
    }

    /// Sets the length of the send slot that has just begun, or of the next.
    pub(super) fn set_own(&mut self, length: Duration) {
        self.own = length;
    }

    /// Sets the length of the slot in which the neighbours will answer, where that is this node's
    /// to say.
    pub(super) fn set_theirs(&mut self, length: Duration) {
        self.theirs = length;
    }

    /// The slot counter.
    pub(super) fn number(&self) -> u16 {
        self.number
    }

    /// Start of the last send slot.
    pub(super) fn sent_from(&self) -> Instant {
        self.sent_from
    }

    /// One time in `of`, by chance.
    pub(super) fn draws(&mut self, of: u64) -> bool {
        self.rng.below(of) == 0
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase
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
        self.begin_cluster();
        self.own = self.length;
        self.phase = Phase::Send;
        self.start = now;
        self.sent_from = now;
        self.free = now;
        self.number = self.number.wrapping_add(1);
        self.asked = None;
        true
    }

    /// A frame of a neighbour came, with a stamp or without. Returns whether that neighbour is in
    /// step with this node.
    pub(super) fn on_heard(&mut self, now: Instant, cluster: u8, length: Duration) -> bool {
        let is_ours = cluster == self.cluster && self.is_in_step(now);
        if is_ours {
            self.heard = now;
            if self.phase != Phase::Send && self.asked.is_none() && length != self.theirs {
                // The stamp was lost, but how long the slot is that runs every frame tells.
                let longer = length.as_nanos() as i64 - self.theirs.as_nanos() as i64;
                self.theirs = length;
                self.free = self.free.offset(longer);
                self.start = self.free;
            }
        }
        is_ours
    }

    fn begin_cluster(&mut self) {
        self.cluster = self.rng.next_u64() as u8;
    }

    /// Whether the send slot that begins is to be spent listening.
    fn listens(&mut self, now: Instant) -> bool {
        self.draws_while_missing(now, LISTEN_OF, LISTEN_RARELY_OF)
    }

    /// Whether a radio that misses a neighbour begins at another time than it may in this slot.
    pub(super) fn draws_to_move(&mut self, now: Instant) -> bool {
        self.draws_while_missing(now, MOVE_OF, MOVE_RARELY_OF)
    }

    /// Up to `most`, drawn.
    pub(super) fn drawn(&mut self, most: Duration) -> Duration {
        Duration::from_nanos(self.rng.below(most.as_nanos() + 1))
    }

    /// One time in `of`, or after long in `rarely_of`, while a neighbour is missing.
    fn draws_while_missing(&mut self, now: Instant, of: u64, rarely_of: u64) -> bool {
        let Some(slots) = self.missing.filter(|_| self.is_in_step(now)) else { return false };
        self.draws(if slots < LISTEN_SLOTS { of } else { rarely_of })
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
        if self.phase == Phase::Start {
            self.begin_cluster();
            self.own = self.length;
        }
        self.number = self.number.wrapping_add(1);
        self.sent_from = self.start;
        self.asked = None;
        self.was_stale = false;
        if self.listens(now) {
            self.start = self.start.offset(self.cycle());
            self.free = self.start;
            return Some(SlotEvent::Listened);
        }
        self.phase = Phase::Send;
        Some(SlotEvent::Began)
    }

    fn cycle(&self) -> i64 {
        (self.own + self.theirs).as_nanos() as i64 + self.excess.nanos()
    }

    /// Up to a cycle, drawn.
    fn random(&mut self) -> Duration {
        self.drawn(self.length * 2)
    }

    fn on_end(&mut self, now: Instant) {
        if self.is_in_step(now) {
            self.phase = Phase::Receive;
            self.free = self.start.offset(self.cycle());
            self.start = self.free;
            if let Some(asked) = self.asked {
                self.hold(asked);
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

    /// Moves the next start as near to `asked` as a node in step may, or all the way if the stamps
    /// before were long ago.
    fn hold(&mut self, asked: Instant) {
        let most = self.length.as_nanos() as i64 / if self.was_stale { 1 } else { 4 };
        let error = asked.signed_since(self.free);
        self.start = self.free.offset(error.clamp(-most, most));
    }

    /// Takes the stamp of a frame `from` a neighbour, of a cluster, whose preamble began at
    /// `started`. One that is not exact counts where it tells of a cluster that is to be followed,
    /// and until an exact one comes.
    pub(super) fn on_stamp(
        &mut self,
        now: Instant,
        (from, started): (NodeId, Instant),
        delta: Delta,
        cluster: u8,
        length: Duration,
    ) -> Stamp {
        let is_exact = matches!(delta, Delta::Exact(_));
        let (Delta::Exact(delta) | Delta::Planned(delta)) = delta;
        if delta > length {
            return Stamp::TooLong;
        }
        let asked = started.offset(-(delta.as_nanos() as i64)) + length;
        let Some(stamped) = self.stamped.filter(|_| self.is_in_step(now)) else {
            if !is_exact {
                return Stamp::Planned;
            }
            self.theirs = length;
            return self.take(now, (from, asked), (cluster, is_exact));
        };
        if cluster > self.cluster {
            return if is_exact { Stamp::Foreign } else { Stamp::Planned };
        }
        if cluster < self.cluster {
            self.theirs = length;
            return self.take(now, (from, asked), (cluster, is_exact));
        }
        // Without stamps for long, the learned cycle is still more exact than what was planned.
        if !(is_exact || self.is_as_planned) {
            return Stamp::Planned;
        }
        self.heard = now;
        self.on_length(length);
        let free = match self.phase {
            Phase::Send => self.start.offset(self.cycle()),
            Phase::Start | Phase::Receive => self.free,
        };
        // A stamp that is told late belongs to a receive slot before.
        let cycle = self.cycle();
        let off = asked.signed_since(free);
        let asked = asked.offset(-(off + cycle.div_euclid(2)).div_euclid(cycle) * cycle);
        if is_exact && let Some((_, before)) = self.stamps.insert(from, (now, asked)) {
            // Slots of other lengths may have been between two stamps that are further apart.
            let is_even = self.own == self.length && self.theirs == self.length;
            let slots = (self.own + self.theirs).as_nanos() as i64;
            self.excess.learn(asked.signed_since(before), slots, is_even);
        }
        let asked = self.latest(now, asked);
        self.asked = Some(asked);
        let is_stale = now.since(stamped) > self.length * 2 * STALE_CYCLES;
        self.was_stale |= is_stale || self.is_as_planned;
        self.is_as_planned = !is_exact;
        self.stamped = Some(now);
        if self.phase != Phase::Send {
            self.hold(asked);
        }
        Stamp::Held(asked.signed_since(free))
    }

    /// The latest start that a neighbour asks for in the cycle in which one asks for `asked`. Who
    /// was not heard in it asks for what it did lately: it is not to be sent over.
    fn latest(&self, now: Instant, asked: Instant) -> Instant {
        let (cycle, fresh) = (self.cycle(), self.length * 2 * STALE_CYCLES);
        let lately = self.stamps.values().filter(|(came, _)| now.since(*came) <= fresh);
        let in_cycle = |(_, other): &(Instant, Instant)| {
            let cycles = (asked.signed_since(*other) + cycle / 2).div_euclid(cycle);
            other.offset(cycles * cycle)
        };
        lately.map(in_cycle).fold(asked, Instant::max)
    }

    /// A stamp tells how long the neighbours' slot is; of several the longest counts.
    fn on_length(&mut self, length: Duration) {
        let length = if self.asked.is_some() { length.max(self.theirs) } else { length };
        let longer = length.as_nanos() as i64 - self.theirs.as_nanos() as i64;
        self.theirs = length;
        if self.phase != Phase::Send {
            self.free = self.free.offset(longer);
        }
    }

    fn take(
        &mut self,
        now: Instant,
        (from, asked): (NodeId, Instant),
        (cluster, is_exact): (u8, bool),
    ) -> Stamp {
        let cut = self.phase == Phase::Send;
        self.cluster = cluster;
        self.is_born = true;
        self.phase = Phase::Receive;
        self.heard = now;
        self.excess = Excess::default();
        self.start = asked;
        self.skip(now);
        self.free = self.start;
        self.asked = Some(self.start);
        self.stamped = Some(now);
        self.is_as_planned = !is_exact;
        self.stamps.clear();
        if is_exact {
            self.stamps.insert(from, (now, self.start));
        }
        Stamp::Taken { cut }
    }
}

#[cfg(test)]
mod tests;
