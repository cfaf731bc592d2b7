//! Room under a link: how many frames a device may hold, and for how long it will be busy.
//!
//! If a device reports transmit status, the echo of a frame makes room for another. Otherwise a
//! frame is assumed to need its computed air time, and a full send buffer means that there is no
//! room. In both cases only a few frames are outstanding, so that what is sent next is decided
//! late. If access categories have queues of their own (802.11e), each may hold as many, so that
//! voice does not wait for best effort.

use std::collections::VecDeque;

use farhop_proto::base::phy::{ACK_BYTES, mpdu_bytes};
use farhop_proto::base::{
    AccessCategory, AckPolicy, Duration, Frame, FrameDone, FrameOutcome, Instant, RadioSpec, Room,
};
use serde::Serialize;

/// Most frames that a device holds. With aggregation it holds two aggregates.
const FRAMES: usize = 8;
/// Most air time that a device holds: hosts are late by less than this in 99 of 100 cases.
const AIR: Duration = Duration::from_millis(8);
/// How long after its expected end a frame's echo may come.
const ECHO_LIMIT: Duration = Duration::from_millis(100);
/// The same if an access category may have to wait for others.
const ECHO_LIMIT_EDCA: Duration = Duration::from_secs(1);
/// How many sequence numbers of given-up frames are kept, to recognise late echoes.
const GIVEN_UP: usize = 32;
/// How long after its send buffer was full a device is tried again.
const FULL_PAUSE: Duration = Duration::from_micros(500);
/// How long after its deadline a frame may end: less than any guard, but more than the time from
/// the link's decision to the hand-over.
const SLACK: Duration = Duration::from_micros(250);

/// Shortest time between two log entries about frames that are too long.
const TELL: Duration = Duration::from_secs(60);

/// Counters of the frames that went through a gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GateStats {
    /// Frames handed to the device.
    pub frames_sent: u64,
    /// Frames that were not sent because they would have ended after their deadlines.
    pub frames_late: u64,
    /// Frames that were not sent because they are longer than the device accepts.
    pub frames_too_long: u64,
    /// Length of the longest of these, in bytes.
    pub longest_not_taken: usize,
    /// Frames that were handed over so late that they ended after their slot and its guard.
    pub frames_outside_slot: u64,
    /// Slots in which that happened.
    pub slots_overrun: u64,
    /// Times that the device accepted no more.
    pub buffer_full: u64,
    /// Echoes of transmit status that were received.
    pub echoes: u64,
    /// Frames whose echo did not come in time.
    pub echoes_missing: u64,
    /// Echoes that came after their frames were given up.
    pub echoes_late: u64,
    /// Frames whose echo came after the end of their slot and its guard, though they were handed
    /// over in time: they had waited in the device.
    pub echoes_after_slot: u64,
}

impl GateStats {
    /// Adds the counters of an earlier gate.
    pub(super) fn add(&mut self, earlier: &Self) {
        self.frames_sent += earlier.frames_sent;
        self.frames_late += earlier.frames_late;
        self.frames_too_long += earlier.frames_too_long;
        self.longest_not_taken = self.longest_not_taken.max(earlier.longest_not_taken);
        self.frames_outside_slot += earlier.frames_outside_slot;
        self.slots_overrun += earlier.slots_overrun;
        self.buffer_full += earlier.buffer_full;
        self.echoes += earlier.echoes;
        self.echoes_missing += earlier.echoes_missing;
        self.echoes_late += earlier.echoes_late;
        self.echoes_after_slot += earlier.echoes_after_slot;
    }
}

/// A frame that the device has.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    id: farhop_proto::base::UnitId,
    sequence: u16,
    ack: AckPolicy,
    queue: usize,
    /// Air time of one attempt, without the gap before it and the answer.
    air: Duration,
    /// When it is expected to be done.
    ends: Instant,
    handed_over: Instant,
    /// When its slot and the guard after it are over; `None` if it was handed over too late for
    /// that.
    slot_over: Option<Instant>,
}

/// Times of one attempt at a frame. For a frame in an aggregate, `air` is its share of the whole
/// exchange, and the others are zero.
#[derive(Clone, Copy, Debug)]
struct Cost {
    /// Mean gap before the frame.
    gap: Duration,
    air: Duration,
    /// The acknowledgement, with the gap before it.
    answer: Duration,
}

/// A queue of the device.
#[derive(Clone, Copy, Debug, Default)]
struct Queue {
    frames: usize,
    busy_until: Instant,
    /// The earliest time at which all frames could have been sent, without any gaps.
    on_air_until: Instant,
}

/// Decides when frames go to one device, and tracks those that it has.
#[derive(Debug)]
pub struct TxGate {
    spec: RadioSpec,
    has_echo: bool,
    outstanding: VecDeque<Outstanding>,
    given_up: VecDeque<u16>,
    /// One for each access category; without 802.11e only the first is used.
    queues: [Queue; AccessCategory::COUNT],
    full_until: Instant,
    last_overrun: Instant,
    /// When the log was last told that frames are too long.
    told: Option<Instant>,
    stats: GateStats,
}

impl TxGate {
    /// The gate of a radio. Without echoes, frames of all categories are assumed to be sent one
    /// after the other.
    pub fn build(spec: RadioSpec, has_echo: bool) -> Self {
        Self {
            spec: RadioSpec { edca: spec.edca && has_echo, ..spec },
            has_echo,
            outstanding: VecDeque::with_capacity(FRAMES),
            given_up: VecDeque::with_capacity(GIVEN_UP),
            queues: Default::default(),
            full_until: Instant::ZERO,
            last_overrun: Instant::ZERO,
            told: None,
            stats: GateStats::default(),
        }
    }

    fn queue_of(&self, access: AccessCategory) -> usize {
        if self.spec.edca { access as usize } else { 0 }
    }

    /// How much the device would accept now for an access category.
    pub fn room(&self, now: Instant, access: AccessCategory) -> Room {
        let queue = &self.queues[self.queue_of(access)];
        if now < self.full_until || queue.busy_until.since(now) >= AIR {
            return Room::NONE;
        }
        let most =
            if self.spec.aggregates() { 2 * usize::from(self.spec.aggregate) } else { FRAMES };
        Room::units(most.saturating_sub(queue.frames))
    }

    /// Whether a frame would end in time if it were handed over now. If not, it is counted as late.
    pub fn is_in_time(&mut self, now: Instant, frame: &Frame) -> bool {
        let busy_until = self.queues[self.queue_of(frame.options.access)].busy_until;
        let Cost { gap, air, answer } = self.cost(frame);
        let end = busy_until.max(now) + gap + air + answer;
        let in_time = frame.options.deadline.is_none_or(|deadline| end <= deadline + SLACK);
        self.stats.frames_late += u64::from(!in_time);
        in_time
    }

    /// Notes a frame that the device accepted; `after` is the time after the call.
    pub fn on_sent(&mut self, after: Instant, frame: &Frame, sequence: u16, guard: Duration) {
        let Cost { gap, air, answer } = self.cost(frame);
        let busy = air + answer;
        let queue = self.queue_of(frame.options.access);
        let ends = self.queues[queue].busy_until.max(after) + gap + busy;
        let mut slot_over = frame.options.deadline.map(|deadline| deadline + SLACK + guard);
        if let Some(deadline) = frame.options.deadline.filter(|_| slot_over < Some(ends)) {
            slot_over = None;
            self.stats.frames_outside_slot += 1;
            if self.last_overrun != deadline {
                self.last_overrun = deadline;
                self.stats.slots_overrun += 1;
            }
        }
        self.stats.frames_sent += 1;
        let own = &mut self.queues[queue];
        own.frames += 1;
        own.busy_until = ends;
        own.on_air_until = own.on_air_until.max(after) + busy;
        let (id, ack) = (frame.id, frame.options.ack);
        self.outstanding.push_back(Outstanding {
            id,
            sequence,
            ack,
            queue,
            air,
            ends,
            handed_over: after,
            slot_over,
        });
    }

    /// Notes a frame that needs no air time.
    pub fn on_passed(&mut self) {
        self.stats.frames_sent += 1;
    }

    /// Notes that the device accepted no more.
    pub fn on_full(&mut self, now: Instant) {
        self.stats.buffer_full += 1;
        self.full_until = now + FULL_PAUSE;
    }

    /// Notes a frame of `bytes` bytes that is longer than the device accepts. Returns whether to
    /// log it.
    pub fn on_too_long(&mut self, now: Instant, bytes: usize) -> bool {
        self.stats.frames_too_long += 1;
        self.stats.longest_not_taken = self.stats.longest_not_taken.max(bytes);
        let is_due = self.told.is_none_or(|told| told + TELL <= now);
        if is_due {
            self.told = Some(now);
        }
        is_due
    }

    /// Handles the transmit status of a frame. Echoes come in the order of the frames. Some drivers
    /// renumber QoS frames, so an echo with an unknown number is taken for that of the oldest
    /// frame.
    pub fn on_echo(
        &mut self,
        now: Instant,
        sequence: u16,
        failed: bool,
        retries: u8,
    ) -> Option<FrameDone> {
        self.stats.echoes += 1;
        let known = self.outstanding.iter().position(|frame| frame.sequence == sequence);
        if known.is_none() && self.given_up.contains(&sequence) {
            self.stats.echoes_late += 1;
            return None;
        }
        let frame = self.outstanding.remove(known.unwrap_or(0))?;
        let queue = &mut self.queues[frame.queue];
        queue.frames -= 1;
        if queue.frames == 0 {
            // Drivers that report before the frame can have been on air must not shorten its time.
            queue.busy_until = queue.busy_until.min(now.max(queue.on_air_until));
        }
        self.stats.echoes_after_slot += u64::from(frame.slot_over.is_some_and(|over| now > over));
        let outcome = match frame.ack {
            AckPolicy::NoAck => FrameOutcome::Sent,
            AckPolicy::Normal if failed => FrameOutcome::Failed,
            AckPolicy::Normal => FrameOutcome::Acked(0),
        };
        let attempts = retries.saturating_add(1);
        Some(FrameDone {
            id: frame.id,
            outcome,
            attempts,
            air_time: frame.air * u64::from(attempts),
        })
    }

    /// When [`TxGate::poll_done`] or [`TxGate::room`] next changes by itself.
    pub fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        let oldest = self.outstanding.front().map(|frame| self.given_up(frame));
        let full = (now < self.full_until).then_some(self.full_until);
        let busy = self.queues.iter().map(|queue| queue.busy_until);
        let air = busy
            .filter(|until| until.since(now) >= AIR)
            .map(|until| until.saturating_sub(AIR) + Duration::from_nanos(1));
        air.chain(oldest).chain(full).min()
    }

    fn given_up(&self, frame: &Outstanding) -> Instant {
        let limit = if self.spec.edca { ECHO_LIMIT_EDCA } else { ECHO_LIMIT };
        if self.has_echo { frame.handed_over.max(frame.ends) + limit } else { frame.ends }
    }

    /// The next frame that must have been sent by now, or whose echo did not come in time.
    pub fn poll_done(&mut self, now: Instant) -> Option<FrameDone> {
        let oldest = self.outstanding.front()?;
        if self.given_up(oldest) > now {
            return None;
        }
        let frame = self.outstanding.pop_front()?;
        self.queues[frame.queue].frames -= 1;
        let outcome = match (self.has_echo, frame.ack) {
            (false, AckPolicy::NoAck) => FrameOutcome::Sent,
            _ => FrameOutcome::Unknown,
        };
        if self.has_echo {
            self.stats.echoes_missing += 1;
            self.given_up.truncate(GIVEN_UP - 1);
            self.given_up.push_front(frame.sequence);
        }
        Some(FrameDone { id: frame.id, outcome, attempts: 1, air_time: frame.air })
    }

    /// The counters so far.
    pub fn stats(&self) -> GateStats {
        self.stats
    }

    /// The expected times of one attempt at a frame.
    fn cost(&self, frame: &Frame) -> Cost {
        let (spec, phy) = (&self.spec, &self.spec.phy);
        let is_answered = frame.options.ack == AckPolicy::Normal;
        if spec.aggregates() && is_answered && frame.to.is_some() {
            // The frame goes into an aggregate with others to its neighbour, and is sealed already.
            let rate = frame.options.rate.unwrap_or(spec.rate);
            let bytes = frame.payload.len().saturating_sub(spec.seal_bytes);
            let air = RadioSpec { rate, ..*spec }.share(bytes);
            return Cost { gap: Duration::ZERO, air, answer: Duration::ZERO };
        }
        let rate = frame.options.rate.unwrap_or(spec.rate);
        let mpdu = mpdu_bytes(!is_answered, frame.payload.len());
        let air = phy.air_time(phy.psdu_bytes(mpdu, rate), rate);
        let (gap, answer) = match is_answered {
            true => {
                (spec.drawn_gap(), phy.sifs() + phy.air_time(ACK_BYTES, phy.control_rate(rate)))
            }
            false => (spec.mean_gap(), Duration::ZERO),
        };
        Cost { gap, air, answer }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use farhop_proto::base::{
        Bitrate, EtherType, FlowId, NodeId, Phy, PhyKind, RadioId, TxOptions, UnitId,
    };

    const ACCESS: AccessCategory = AccessCategory::BestEffort;

    fn spec() -> RadioSpec {
        RadioSpec::of(Phy::default())
    }

    fn frame(id: u64, deadline: Option<Instant>) -> Frame {
        let options = TxOptions { ack: AckPolicy::NoAck, deadline, ..TxOptions::default() };
        Frame {
            id: UnitId(id),
            radio: RadioId(0),
            to: Some(NodeId(2)),
            flow: FlowId(0),
            protocol: EtherType::FARHOP,
            payload: Bytes::from_static(&[0; 1528]),
            options,
        }
    }

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1_000)
    }

    #[test]
    fn few_frames_and_little_air_time_are_outstanding() {
        let mut gate = TxGate::build(spec(), true);
        let mut sent = 0;
        while !gate.room(at(0), ACCESS).is_none() {
            gate.on_sent(at(0), &frame(sent, None), sent as u16, Duration::ZERO);
            sent += 1;
        }
        assert_eq!(sent, 6, "6 frames of 1.38 ms pass 8 ms");
        let done = gate.on_echo(at(1_400), 0, false, 0).expect("the first frame");
        assert_eq!((done.id, done.outcome), (UnitId(0), FrameOutcome::Sent));
        assert!(!gate.room(at(1_400), ACCESS).is_none());
    }

    #[test]
    fn frames_that_go_many_in_a_transmission_take_their_share_of_it() {
        let phy = Phy { kind: PhyKind::N, ..Phy::default() };
        let spec = RadioSpec { aggregate: 64, ..RadioSpec::of(phy) };
        let sent = |ack: AckPolicy| {
            let mut gate = TxGate::build(spec, false);
            let mut sent = 0;
            while !gate.room(at(0), ACCESS).is_none() {
                let options = TxOptions { ack, ..TxOptions::default() };
                let frame = Frame { options, ..frame(sent, None) };
                assert!(gate.is_in_time(at(0), &frame));
                gate.on_sent(at(0), &frame, sent as u16, Duration::ZERO);
                sent += 1;
            }
            sent
        };
        assert_eq!(sent(AckPolicy::Normal), 40, "40 frames of 200 us pass 8 ms");
        assert_eq!(sent(AckPolicy::NoAck), 31, "31 frames of 266 us do");
    }

    #[test]
    fn voice_does_not_wait_for_the_room_of_best_effort() {
        let mut gate = TxGate::build(RadioSpec { edca: true, ..spec() }, true);
        let mut sent = 0;
        while !gate.room(at(0), ACCESS).is_none() {
            gate.on_sent(at(0), &frame(sent, None), sent as u16, Duration::ZERO);
            sent += 1;
        }
        assert!(!gate.room(at(0), AccessCategory::Voice).is_none());
        let mut voice = frame(sent, None);
        voice.options.access = AccessCategory::Voice;
        gate.on_sent(at(0), &voice, sent as u16, Duration::ZERO);
        // Its echo comes first, and frees only its own queue.
        let done = gate.on_echo(at(1_400), sent as u16, false, 0).expect("the last frame");
        assert_eq!(done.id, UnitId(sent));
        assert!(gate.room(at(0), ACCESS).is_none());
        assert_eq!(gate.room(at(1_400), AccessCategory::Voice).units, FRAMES);
    }

    #[test]
    fn an_echo_that_comes_too_early_frees_no_air() {
        let mut gate = TxGate::build(spec(), true);
        let mut sent = 0;
        while gate.room(at(0), ACCESS).units > 0 && sent < 100 {
            gate.on_sent(at(0), &frame(sent, None), sent as u16, Duration::ZERO);
            gate.on_echo(at(0), sent as u16, false, 0).expect("an echo at once");
            sent += 1;
        }
        assert_eq!(sent, 7, "7 frames of 1.33 ms without their gaps pass 8 ms");
    }

    #[test]
    fn air_time_is_that_of_the_frame_at_its_own_rate_and_has_no_gap() {
        let mut gate = TxGate::build(spec(), true);
        let slow = Bitrate::from_100kbps(10);
        for (id, rate) in [(0, None), (1, Some(slow))] {
            let options = TxOptions { rate, ..frame(id, None).options };
            let frame = Frame { options, ..frame(id, None) };
            gate.on_sent(at(0), &frame, id as u16, Duration::ZERO);
        }
        let mut air = |id| gate.on_echo(at(50_000), id, false, 0).expect("an echo").air_time;
        let bytes = mpdu_bytes(true, 1528);
        assert_eq!(air(0), spec().phy.air_time(bytes, spec().rate));
        assert_eq!(air(1), spec().phy.air_time(bytes, slow));
    }

    #[test]
    fn without_echo_a_frame_is_through_after_its_air_time() {
        let mut gate = TxGate::build(spec(), false);
        gate.on_sent(at(0), &frame(7, None), 0, Duration::ZERO);
        let due = gate.poll_timeout(at(0)).expect("a deadline");
        assert_eq!(due, Instant::ZERO + spec().unacknowledged(1528));
        assert!(gate.poll_done(at(1_000)).is_none());
        assert_eq!(gate.poll_done(due).map(|done| done.outcome), Some(FrameOutcome::Sent));
    }

    #[test]
    fn an_echo_that_never_comes_is_given_up() {
        let mut gate = TxGate::build(spec(), true);
        gate.on_sent(at(0), &frame(7, None), 0, Duration::ZERO);
        assert!(gate.poll_done(at(50_000)).is_none());
        let done = gate.poll_done(at(110_000)).expect("given up");
        assert_eq!((done.outcome, gate.stats().echoes_missing), (FrameOutcome::Unknown, 1));
    }

    #[test]
    fn an_echo_that_comes_after_all_does_not_end_another_frame() {
        let mut gate = TxGate::build(spec(), true);
        gate.on_sent(at(0), &frame(7, None), 1, Duration::ZERO);
        assert!(gate.poll_done(at(110_000)).is_some());
        gate.on_sent(at(110_000), &frame(8, None), 2, Duration::ZERO);
        assert!(gate.on_echo(at(111_000), 1, false, 0).is_none());
        assert_eq!(gate.stats().echoes_late, 1);
        assert_eq!(gate.on_echo(at(112_000), 2, false, 0).map(|done| done.id), Some(UnitId(8)));
    }

    #[test]
    fn a_frame_that_waited_in_the_device_until_its_slot_was_over_is_seen() {
        let mut gate = TxGate::build(spec(), true);
        let (deadline, guard) = (at(5_000), Duration::from_millis(1));
        for sequence in [1, 2] {
            gate.on_sent(at(0), &frame(sequence, Some(deadline)), sequence as u16, guard);
        }
        gate.on_echo(at(2_000), 1, false, 0);
        gate.on_echo(at(9_000), 2, false, 0);
        let stats = gate.stats();
        assert_eq!((stats.frames_outside_slot, stats.echoes_after_slot), (0, 1));
    }

    #[test]
    fn a_frame_that_would_pass_its_deadline_is_late() {
        let mut gate = TxGate::build(spec(), true);
        let end = Instant::ZERO + spec().unacknowledged(1528);
        assert!(gate.is_in_time(at(0), &frame(1, Some(end))));
        assert!(!gate.is_in_time(at(300), &frame(1, Some(end))));
        assert_eq!(gate.stats().frames_late, 1);
    }

    #[test]
    fn a_slot_is_overrun_once_however_many_frames_leave_late() {
        let mut gate = TxGate::build(spec(), true);
        let (end, guard) = (at(1_000), Duration::from_millis(1));
        for id in 0..3 {
            gate.on_sent(at(5_000), &frame(id, Some(end)), id as u16, guard);
        }
        let stats = gate.stats();
        assert_eq!((stats.frames_outside_slot, stats.slots_overrun), (3, 1));
    }

    #[test]
    fn that_frames_are_too_long_is_told_once_a_minute_and_makes_no_pause() {
        let mut gate = TxGate::build(spec(), false);
        let told = [0, 1, 59, 60, 61].map(|second| gate.on_too_long(at(second * 1_000_000), 1_600));
        assert_eq!(told, [true, false, false, true, false]);
        let stats = gate.stats();
        assert_eq!((stats.frames_too_long, stats.longest_not_taken), (5, 1_600));
        assert!(!gate.room(at(61_000_000), ACCESS).is_none());
    }

    #[test]
    fn a_full_buffer_makes_a_short_pause() {
        let mut gate = TxGate::build(spec(), false);
        gate.on_full(at(0));
        assert!(gate.room(at(100), ACCESS).is_none());
        assert!(!gate.room(gate.poll_timeout(at(100)).expect("a deadline"), ACCESS).is_none());
    }
}
