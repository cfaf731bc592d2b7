//! The slot schedule of the radios of one channel: phases, loose synchronisation, start-up
//! (`wildnet.md` 5, 6, 12).
//!
//! A send slot starts at `tsend` and lasts `T`; its first part is the guard, in which nothing is
//! sent. A receive slot follows. During a slot the sender is the master: the stamp in its frame
//! says how long after the start of its slot (`delta`) the frame's preamble went on air. Its slot
//! therefore began here at `trecv = t2 - delta`, and our own slot starts at `trecv + T`. If several
//! neighbours send stamps in one receive slot, the latest start counts; a neighbour whose stamp was
//! lost counts with the start that its earlier stamps predict. A node in step moves its start by at
//! most `T / 4` at a time, but as far as necessary after four cycles without a stamp.
//!
//! A node that begins by itself draws a cluster number, which all nodes that follow it repeat.
//! Where two clusters meet, the one with the higher number takes over the schedule of the other, so
//! that a network that began in several places ends up in step. Two neighbours that send at the
//! same time never hear each other. A node that misses a neighbour therefore listens in some of its
//! send slots. It begins others at a random time, because the stamp is in the first frame, and this
//! frame might otherwise always arrive while the neighbour, whose slot overlaps ours, sends or
//! hears others. For the same reason later frames carry a stamp too, which is only as exact as the
//! plan.
//!
//! This differs from the sheet in one point: without a stamp, a node continues with the cycle
//! length that it has learned (`2 T` and the round-trip propagation delay) instead of `2 T`. The
//! error after a lost stamp thus stays below the propagation delay instead of being twice that. If
//! there is one neighbour, the distance in the scenario is its first guess; where nodes move, the
//! largest one, which may be too long until stamps have come.

mod excess;

use std::collections::BTreeMap;

use self::excess::Excess;
use crate::base::{Duration, Instant, NodeId, Rng};

/// Cycles in which a node only listens after it has started.
const LISTEN_CYCLES: u64 = 4;
/// After this many cycles without a stamp the next one counts in full.
pub(super) const STALE_CYCLES: u64 = 4;
/// While a neighbour is missing, a node listens in one of this many of its send slots ...
const LISTEN_OF: u64 = 4;
/// ... and once it has been missing for `LISTEN_SLOTS` slots, in one of `LISTEN_RARELY_OF`.
const LISTEN_SLOTS: u32 = 32;
const LISTEN_RARELY_OF: u64 = 16;
/// Likewise the node begins at a random time in one of `MOVE_OF` of its send slots, and later in
/// one of `MOVE_RARELY_OF`.
const MOVE_OF: u64 = 2;
const MOVE_RARELY_OF: u64 = 8;
/// After this many cycles without any frame of a neighbour a node is out of step. The sheet has
/// four. But if half of the frames are lost, an idle neighbour, which sends two frames in a slot,
/// is not heard for four cycles in one case of 256, and the learned cycle stays accurate for much
/// longer.
pub(super) const SILENT_CYCLES: u64 = 8;

/// State of the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No neighbour heard yet; the next send slot starts by itself, at a random time.
    Start,
    /// Not sending.
    Receive,
    /// Sending.
    Send,
}

/// An event of the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotEvent {
    /// A send slot began: its guard is over.
    Began,
    /// A send slot ended.
    Ended,
    /// This many send slots passed before the node woke up.
    Missed(u64),
    /// A send slot is being spent listening.
    Listened,
}

/// How long after the start of its slot a frame went on air, according to its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delta {
    /// From the first frame of a slot.
    Exact(Duration),
    /// From a later frame: computed before the random gaps were drawn.
    Planned(Duration),
}

/// The effect of a stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stamp {
    /// Its delta is longer than the slot: the neighbour is configured with another slot length.
    TooLong,
    /// Ignored: it is from a cluster that will follow ours as soon as it hears of it.
    Foreign,
    /// Ignored: it is not exact, and this node already knows better.
    Planned,
    /// The node was in step; its start moved, or would have moved, by this many nanoseconds.
    Held(i64),
    /// The node was not in step, or in a higher cluster, and took over the neighbour's schedule.
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
    /// Length of the current send slot, or of the last one.
    own: Duration,
    /// Length of the neighbours' slot, according to the last stamp that counted.
    theirs: Duration,
    /// Start of the current send slot; while not sending, of the next one.
    start: Instant,
    /// Start of the last send slot.
    sent_from: Instant,
    /// What `start` would be without the stamps of the current receive slot.
    free: Instant,
    /// The latest start that a stamp asked for, since the last send slot began.
    asked: Option<Instant>,
    excess: Excess,
    /// When the last stamp arrived; none while out of step.
    stamped: Option<Instant>,
    /// For each neighbour: when its last exact stamp arrived, and which start it asked for.
    stamps: BTreeMap<NodeId, (Instant, Instant)>,
    heard: Instant,
    rng: Rng,
    is_born: bool,
    /// Number of the cluster: the same for all nodes that are in step with this one.
    cluster: u8,
    /// Whether the stamps of this receive slot ended a long time without stamps.
    was_stale: bool,
    /// Whether the node came into step by a stamp that was not exact, and has had no exact one
    /// since.
    is_as_planned: bool,
    /// The number of cycles for which a neighbour has been missing; none if all are there.
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

    /// The cluster number.
    pub(super) fn cluster(&self) -> u8 {
        self.cluster
    }

    /// Called once in a cycle; says whether a neighbour has not been heard lately or is not in step
    /// with this node.
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

    /// Start of the current send slot; while not sending, of the next one.
    pub(super) fn start(&self) -> Instant {
        self.start
    }

    /// End of the current send slot; while not sending, of the next one.
    pub(super) fn end(&self) -> Instant {
        self.start + self.own
    }

    /// Length of the current send slot, or of the last one.
    pub(super) fn own(&self) -> Duration {
        self.own
    }

    /// Length of the neighbours' slots.
    pub(super) fn theirs(&self) -> Duration {
        self.theirs
    }

    /// Sets the length of the send slot that has just begun, or of the next one.
    pub(super) fn set_own(&mut self, length: Duration) {
        self.own = length;
    }

    /// Sets the length of the neighbours' next slot, where this node decides it.
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

    /// True with a probability of 1 in `of`.
    pub(super) fn draws(&mut self, of: u64) -> bool {
        self.rng.below(of) == 0
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether the schedule follows a neighbour that is still heard.
    pub(super) fn is_in_step(&self, now: Instant) -> bool {
        self.stamped.is_some() && now.since(self.heard) <= self.length * 2 * SILENT_CYCLES
    }

    /// Begins a send slot at once because somebody waits for an answer, unless the node is in step
    /// or already sending. Returns whether it began one.
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

    /// Handles a frame of a neighbour, with or without a stamp. Returns whether that neighbour is
    /// in step with this node.
    pub(super) fn on_heard(&mut self, now: Instant, cluster: u8, length: Duration) -> bool {
        let is_ours = cluster == self.cluster && self.is_in_step(now);
        if is_ours {
            self.heard = now;
            if self.phase != Phase::Send && self.asked.is_none() && length != self.theirs {
                // The stamp of this slot was lost, but every frame tells the length of the current
                // slot.
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

    /// Draws whether the send slot that begins is spent listening.
    fn listens(&mut self, now: Instant) -> bool {
        self.draws_while_missing(now, LISTEN_OF, LISTEN_RARELY_OF)
    }

    /// Draws whether a radio that misses a neighbour begins its next slot at a random time.
    pub(super) fn draws_to_move(&mut self, now: Instant) -> bool {
        self.draws_while_missing(now, MOVE_OF, MOVE_RARELY_OF)
    }

    /// A random duration of up to `most`.
    pub(super) fn drawn(&mut self, most: Duration) -> Duration {
        Duration::from_nanos(self.rng.below(most.as_nanos() + 1))
    }

    /// While a neighbour is missing: true once in `of` draws, after a long time once in
    /// `rarely_of`.
    fn draws_while_missing(&mut self, now: Instant, of: u64, rarely_of: u64) -> bool {
        let Some(slots) = self.missing.filter(|_| self.is_in_step(now)) else { return false };
        self.draws(if slots < LISTEN_SLOTS { of } else { rarely_of })
    }

    /// Advances by one event if one is due. To be called until it returns none.
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

    /// A random duration of up to a cycle.
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
            // A new draw each time, so that two nodes whose slots overlap do not stay that way.
            self.phase = Phase::Start;
            self.start = self.end() + self.length + self.random();
            self.free = self.start;
        }
    }

    /// Skips the send slots that are over; returns how many there were.
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

    /// Moves the next start as close to `asked` as a node in step may; all the way if there were no
    /// stamps for long.
    fn hold(&mut self, asked: Instant) {
        let most = self.length.as_nanos() as i64 / if self.was_stale { 1 } else { 4 };
        let error = asked.signed_since(self.free);
        self.start = self.free.offset(error.clamp(-most, most));
    }

    /// Evaluates the stamp of a frame of the neighbour `from` in `cluster`, whose preamble began at
    /// `started` and whose slot is `length` long. A stamp that is not exact counts only if it
    /// announces a cluster to follow, and after that until an exact one arrives.
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
        // The learned cycle is more exact than a planned time, however old its last stamp is.
        if !(is_exact || self.is_as_planned) {
            return Stamp::Planned;
        }
        self.heard = now;
        self.on_length(length);
        let free = match self.phase {
            Phase::Send => self.start.offset(self.cycle()),
            Phase::Start | Phase::Receive => self.free,
        };
        // A stamp that is reported late belongs to an earlier receive slot.
        let cycle = self.cycle();
        let off = asked.signed_since(free);
        let asked = asked.offset(-(off + cycle.div_euclid(2)).div_euclid(cycle) * cycle);
        if is_exact && let Some((_, before)) = self.stamps.insert(from, (now, asked)) {
            // Between two stamps that are more than a cycle apart, slots may have had other
            // lengths.
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

    /// The latest start that any neighbour asks for, in the cycle in which one asks for `asked`. A
    /// neighbour that was not heard in this cycle asks for what its recent stamps predict, so that
    /// its slot is not sent over.
    fn latest(&self, now: Instant, asked: Instant) -> Instant {
        let (cycle, fresh) = (self.cycle(), self.length * 2 * STALE_CYCLES);
        let lately = self.stamps.values().filter(|(came, _)| now.since(*came) <= fresh);
        let in_cycle = |(_, other): &(Instant, Instant)| {
            let cycles = (asked.signed_since(*other) + cycle / 2).div_euclid(cycle);
            other.offset(cycles * cycle)
        };
        lately.map(in_cycle).fold(asked, Instant::max)
    }

    /// Applies the neighbours' slot length from a stamp; of several stamps the longest length
    /// counts.
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
        self.excess.forget();
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
