//! The sending side of one neighbour: sliding window, selective retransmission (`wildnet.md` 3, 4).
//!
//! A bulk acknowledgement covers the packets that were sent in slots that ended before the
//! neighbour's slot began: those that it does not contain are lost; packets sent later are in
//! flight. Without an acknowledgement nothing counts as lost at first, but after three silent
//! cycles everything does that was sent before the last cycle.

use std::collections::VecDeque;

use bytes::Bytes;

use super::recovery::Estimate;
use crate::base::{Duration, Instant, Packet, PacketDone, PacketOutcome, Seq};
use crate::wire::wild::BulkAck;

/// After this many cycles without an acknowledgement, packets count as lost.
const SILENT_CYCLES: u64 = 3;
/// Send slots whose frame counts are remembered until an acknowledgement reports on them.
const SLOTS: usize = 8;
/// One part in this many of the window is closed to the lowest priority: otherwise a bulk flow
/// whose packets are lost again and again would block all others.
const KEPT_PART: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Sent; its fate is unknown.
    Flight,
    /// To be sent again.
    Lost,
    /// Acknowledged or given up.
    Finished,
}

/// A packet that has been sent at least once.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) packet: Packet,
    pub(super) flow_seq: u16,
    /// Transmissions so far.
    pub(super) attempts: u8,
    /// Most retransmissions that the packet itself allows.
    most_retries: u8,
    pub(super) class: usize,
    level: usize,
    air_time: Duration,
    state: State,
    /// End of the slot of the last transmission; a cycle later if the neighbour's card has
    /// acknowledged it, because that card may hold the packet back until an earlier frame arrives.
    until: Instant,
}

/// Properties of a packet that is sent for the first time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) flow_seq: u16,
    pub(super) class: usize,
    /// Level of the class.
    pub(super) level: usize,
    /// Most retries that the packet allows; its class may allow fewer.
    pub(super) most_retries: u8,
    /// End of the current slot.
    pub(super) until: Instant,
}

/// The packets of one level that are to be repeated.
#[derive(Clone, Copy, Debug, Default)]
struct Lost {
    count: usize,
    bytes: usize,
    /// No packet before this index of the window is one of them.
    from: usize,
}

impl Lost {
    fn remove(&mut self, entry: &Entry) {
        self.count -= 1;
        self.bytes -= entry.packet.payload.len();
    }
}

#[derive(Clone, Copy, Debug)]
struct SentSlot {
    number: u16,
    until: Instant,
    frames: u32,
    /// How many of them the neighbour's card has acknowledged.
    acked: u32,
}

/// Counters of one sender.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SenderCounters {
    pub(super) acks: u64,
    pub(super) acks_refused: u64,
    pub(super) abandoned: u64,
    pub(super) delivered_bytes: u64,
}

/// The sending side of one neighbour.
#[derive(Debug)]
pub(super) struct Sender {
    base: Seq,
    window: VecDeque<Entry>,
    limit: usize,
    cycle: Duration,
    /// Places of the window that are closed to the lowest level.
    kept: usize,
    lost: Vec<Lost>,
    /// Number of the neighbour's slot in which the last acknowledgement was sent.
    ack_slot: Option<u16>,
    /// The last sequence that it acknowledged with all before it. The window may begin later:
    /// the neighbour does not know yet what was given up.
    ack_cum: Seq,
    acked: Instant,
    slots: VecDeque<SentSlot>,
    pub(super) estimate: Estimate,
    /// Packets given up so far, by class.
    pub(super) abandoned: Vec<u64>,
    pub(super) counters: SenderCounters,
}

impl Sender {
    /// A window of `limit` packets for classes with `levels` priorities.
    pub(super) fn new(limit: usize, levels: usize, cycle: Duration, estimate: Estimate) -> Self {
        Self {
            base: Seq(0),
            window: VecDeque::new(),
            limit,
            cycle,
            kept: if levels > 1 { limit / KEPT_PART } else { 0 },
            lost: vec![Lost::default(); levels],
            ack_slot: None,
            ack_cum: Seq(0).sub(1),
            acked: Instant::ZERO,
            slots: VecDeque::with_capacity(SLOTS),
            abandoned: vec![0; estimate.classes()],
            estimate,
            counters: SenderCounters::default(),
        }
    }

    /// Sets the first sequence number, before anything is sent.
    pub(super) fn start_at(&mut self, seq: Seq) {
        assert!(self.window.is_empty(), "packets are under way");
        (self.base, self.ack_cum) = (seq, seq.sub(1));
    }

    /// Sets how long it takes until everything that was sent could have been acknowledged.
    pub(super) fn set_cycle(&mut self, cycle: Duration) {
        self.cycle = cycle;
    }

    /// The first sequence number that may still be repeated.
    pub(super) fn base(&self) -> Seq {
        self.base
    }

    /// The next sequence number to be assigned.
    pub(super) fn next(&self) -> Seq {
        self.base.add(self.window.len() as u32)
    }

    /// Width of the window, in packets.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Whether a new packet of a level may be sent.
    pub(super) fn has_room(&self, level: usize) -> bool {
        let kept = if level + 1 == self.lost.len() { self.kept } else { 0 };
        self.window.len() + kept < self.limit
    }

    /// Packets that were sent and are not finished.
    pub(super) fn unfinished(&self) -> usize {
        self.window.iter().filter(|entry| entry.state != State::Finished).count()
    }

    /// Packets that are to be repeated.
    pub(super) fn lost(&self) -> usize {
        self.lost.iter().map(|lost| lost.count).sum()
    }

    /// Bytes of these packets.
    pub(super) fn lost_bytes(&self) -> usize {
        self.lost.iter().map(|lost| lost.bytes).sum()
    }

    /// Whether a packet of a level is to be repeated.
    pub(super) fn has_lost(&self, level: usize) -> bool {
        self.lost[level].count > 0
    }

    /// The oldest packet of a level that is to be repeated.
    pub(super) fn oldest_lost(&mut self, level: usize) -> Option<(Seq, &Entry)> {
        let lost = &mut self.lost[level];
        if lost.count == 0 {
            return None;
        }
        let is_one = |entry: &Entry| entry.state == State::Lost && entry.level == level;
        while !is_one(&self.window[lost.from]) {
            lost.from += 1;
        }
        Some((self.base.add(lost.from as u32), &self.window[lost.from]))
    }

    /// Most retransmissions of a packet at the current loss.
    fn retries(&self, entry: &Entry) -> u8 {
        entry.most_retries.min(self.estimate.retries(entry.class))
    }

    /// Packets of a class that were sent and are not finished.
    pub(super) fn unfinished_of(&self, class: usize) -> usize {
        let is_one = |entry: &&Entry| entry.state != State::Finished && entry.class == class;
        self.window.iter().filter(is_one).count()
    }

    fn index(&self, seq: Seq) -> Option<usize> {
        let index = usize::try_from(seq.distance(self.base)).ok()?;
        (index < self.window.len()).then_some(index)
    }

    /// Adds a packet that is sent for the first time now; returns its sequence number.
    pub(super) fn push(&mut self, packet: Packet, terms: Terms) -> Seq {
        let seq = self.next();
        let Terms { flow_seq, class, level, most_retries, until } = terms;
        let (air_time, state) = (Duration::ZERO, State::Flight);
        if self.window.is_empty() {
            // Silence is measured from the first packet that could have been acknowledged.
            self.acked = self.acked.max(until);
        }
        self.window.push_back(Entry {
            packet,
            flow_seq,
            attempts: 1,
            most_retries,
            class,
            level,
            air_time,
            state,
            until,
        });
        seq
    }

    /// Marks a lost packet as sent again.
    pub(super) fn repeat(&mut self, seq: Seq, until: Instant) {
        let index = self.index(seq).expect("a packet in the window");
        let entry = &mut self.window[index];
        assert!(entry.state == State::Lost, "only what is lost is repeated");
        entry.state = State::Flight;
        entry.attempts += 1;
        entry.until = until;
        self.lost[entry.level].remove(entry);
    }

    /// Adds the air time of a transmission.
    pub(super) fn on_sent(&mut self, seq: Seq, air_time: Duration) {
        if let Some(index) = self.index(seq) {
            self.window[index].air_time += air_time;
        }
    }

    /// The neighbour's card has acknowledged a frame of slot `number`, which contained this packet,
    /// if any.
    pub(super) fn on_acked_by_card(&mut self, number: u16, seq: Option<Seq>) {
        if let Some(slot) = self.slots.iter_mut().rfind(|slot| slot.number == number) {
            slot.acked += 1;
        }
        let Some(index) = seq.and_then(|seq| self.index(seq)) else { return };
        self.window[index].until += self.cycle;
    }

    /// A transmission did not take place: the packet is to be sent before all newer ones, and the
    /// attempt does not count.
    pub(super) fn on_late(&mut self, seq: Seq) {
        let Some(index) = self.index(seq) else { return };
        let entry = &mut self.window[index];
        if entry.state == State::Flight {
            entry.attempts -= 1;
            self.set_lost(index);
        }
    }

    /// A transmission did not take place because the frame is too long, and never will: the packet
    /// is given up.
    pub(super) fn on_too_long(&mut self, seq: Seq, done: &mut Vec<PacketDone>) {
        let Some(index) = self.index(seq) else { return };
        let entry = &mut self.window[index];
        if entry.state == State::Flight {
            entry.attempts -= 1;
            self.finish(index, PacketOutcome::Failed, done);
            self.slide();
        }
    }

    fn set_lost(&mut self, index: usize) {
        let entry = &mut self.window[index];
        entry.state = State::Lost;
        let lost = &mut self.lost[entry.level];
        lost.count += 1;
        lost.bytes += entry.packet.payload.len();
        lost.from = lost.from.min(index);
    }

    /// A send slot begins.
    pub(super) fn on_slot(&mut self, number: u16, until: Instant) {
        if self.slots.len() == SLOTS {
            self.slots.pop_front();
        }
        self.slots.push_back(SentSlot { number, until, frames: 0, acked: 0 });
    }

    /// A frame to the neighbour was given down in the current slot, of a kind that the neighbour
    /// counts.
    pub(super) fn on_frame(&mut self) {
        if let Some(slot) = self.slots.back_mut() {
            slot.frames += 1;
        }
    }

    /// A frame of slot `number` was not sent after all.
    pub(super) fn on_frame_late(&mut self, number: u16) {
        if let Some(slot) = self.slots.iter_mut().rfind(|slot| slot.number == number) {
            slot.frames = slot.frames.saturating_sub(1);
        }
    }

    /// Evaluates a bulk acknowledgement from the neighbour's slot `slot`. It covers what was sent
    /// in slots that ended at `horizon` or earlier. Packets that end are added to `done`. Returns
    /// how many packets were found lost.
    pub(super) fn on_ack(
        &mut self,
        now: Instant,
        ack: &BulkAck,
        slot: u16,
        horizon: Instant,
        done: &mut Vec<PacketDone>,
    ) -> usize {
        if self.ack_slot == Some(slot) {
            // A copy: only one acknowledgement is built per slot.
            return 0;
        }
        if ack.cum.is_before(self.ack_cum) || !ack.cum.is_before(self.next()) {
            self.counters.acks_refused += 1;
            return 0;
        }
        (self.ack_slot, self.ack_cum) = (Some(slot), ack.cum);
        self.acked = now;
        self.counters.acks += 1;
        self.on_report(ack, horizon);
        let mut found = 0;
        for index in 0..self.window.len() {
            let entry = &self.window[index];
            if entry.state == State::Finished {
                continue;
            }
            if ack.has(self.base.add(index as u32)) {
                self.finish(index, PacketOutcome::Delivered, done);
            } else if entry.state == State::Flight && entry.until <= horizon {
                found += 1;
                self.on_lost(index, done);
            }
        }
        self.slide();
        found
    }

    /// Updates the loss estimate with what the acknowledgement says about our slots.
    fn on_report(&mut self, ack: &BulkAck, horizon: Instant) {
        while let Some(slot) = self.slots.front().filter(|slot| slot.until <= horizon).copied() {
            match slot.number.wrapping_sub(ack.slot) as i16 {
                0 => self.estimate.on_slot(slot.frames, slot.acked.max(ack.received.into())),
                // The neighbour has heard nothing since an earlier slot.
                1.. => self.estimate.on_slot(slot.frames, slot.acked),
                _ => {}
            }
            self.slots.pop_front();
        }
    }

    fn on_lost(&mut self, index: usize, done: &mut Vec<PacketDone>) {
        let entry = &self.window[index];
        if entry.attempts > self.retries(entry) {
            self.finish(index, PacketOutcome::Failed, done);
        } else {
            self.set_lost(index);
        }
    }

    fn finish(&mut self, index: usize, outcome: PacketOutcome, done: &mut Vec<PacketDone>) {
        let entry = &mut self.window[index];
        if entry.state == State::Lost {
            self.lost[entry.level].remove(entry);
        }
        entry.state = State::Finished;
        match outcome {
            PacketOutcome::Delivered => {
                self.counters.delivered_bytes += entry.packet.payload.len() as u64;
            }
            PacketOutcome::Sent | PacketOutcome::Failed => {
                self.counters.abandoned += 1;
                self.abandoned[entry.class] += 1;
            }
        }
        entry.packet.payload = Bytes::new();
        let (id, attempts, air_time) = (entry.packet.id, entry.attempts, entry.air_time);
        done.push(PacketDone { id, outcome, attempts, air_time });
    }

    fn slide(&mut self) {
        while self.window.front().is_some_and(|entry| entry.state == State::Finished) {
            self.window.pop_front();
            self.base = self.base.add(1);
            for lost in &mut self.lost {
                lost.from = lost.from.saturating_sub(1);
            }
        }
    }

    /// Once in a cycle: checks for silence. Returns how many packets were found lost.
    pub(super) fn on_cycle(&mut self, now: Instant, done: &mut Vec<PacketDone>) -> usize {
        if self.window.is_empty() || now.since(self.acked) <= self.cycle * SILENT_CYCLES {
            return 0;
        }
        self.acked = now;
        let mut found = 0;
        for index in 0..self.window.len() {
            let entry = &self.window[index];
            if entry.state == State::Flight && entry.until + self.cycle <= now {
                found += 1;
                self.on_lost(index, done);
            }
        }
        self.slide();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::{Recovery, Retries};
    use super::super::recovery::Rules;
    use super::*;
    use crate::base::{EtherType, FlowId, NodeId, RadioId, TxOptions, UnitId};

    const CYCLE: Duration = Duration::from_millis(40);

    fn at(cycle: u64) -> Instant {
        Instant::ZERO + CYCLE * cycle
    }

    fn sender(start: u32) -> Sender {
        let (recovery, retries) = (Recovery::Arq, Retries::Fixed(10));
        let rules = Rules { recovery, target: 0.01, retries, most: 10 };
        let mut sender = Sender::new(128, 2, CYCLE, Estimate::new(vec![rules; 2], 10));
        sender.start_at(Seq(start));
        sender
    }

    fn sends(sender: &mut Sender, id: u64, retries: u8, cycle: u64) -> Seq {
        let terms =
            Terms { flow_seq: 0, class: 0, level: 0, most_retries: retries, until: at(cycle) };
        sends_of(sender, id, terms)
    }

    fn sends_of(sender: &mut Sender, id: u64, terms: Terms) -> Seq {
        let packet = Packet {
            id: UnitId(id),
            radio: RadioId(0),
            to: Some(NodeId(2)),
            flow: FlowId(1),
            protocol: EtherType::IPV4,
            payload: Bytes::from_static(b"payload"),
            options: TxOptions::default(),
            order: None,
        };
        sender.push(packet, terms)
    }

    fn ack(cum: Seq, bits: &'static [u8]) -> BulkAck {
        let nbits = bits.len() as u16 * 8;
        BulkAck { cum, nbits, bits: Bytes::from_static(bits), slot: 0, received: 0 }
    }

    fn ids(done: &[PacketDone], outcome: PacketOutcome) -> Vec<u64> {
        done.iter().filter(|done| done.outcome == outcome).map(|done| done.id.0).collect()
    }

    #[test]
    fn holes_are_repeated_oldest_first_and_the_rest_is_finished() {
        let mut sender = sender(u32::MAX - 2);
        let seqs: Vec<Seq> = (1..=6).map(|id| sends(&mut sender, id, 3, 1)).collect();
        let mut done = Vec::new();
        let found = sender.on_ack(at(1), &ack(seqs[0], &[0b0001_0010]), 1, at(1), &mut done);
        assert_eq!((found, ids(&done, PacketOutcome::Delivered)), (3, vec![1, 3, 6]));
        assert_eq!(sender.base(), seqs[1]);
        for expected in [seqs[1], seqs[3], seqs[4]] {
            let seq = sender.oldest_lost(0).expect("a hole").0;
            assert_eq!(seq, expected);
            sender.repeat(seq, at(2));
        }
        assert!(!sender.has_lost(0));
        assert_eq!(sender.next(), Seq(3), "repeats take no new number");
    }

    #[test]
    fn a_copy_of_an_acknowledgement_is_no_refused_one() {
        let mut sender = sender(0);
        let seqs: Vec<Seq> = (1..=4).map(|id| sends(&mut sender, id, 3, 1)).collect();
        // Bits acknowledge the others, so that the window slides beyond its sequence.
        let bulk = ack(seqs[0], &[0b111]);
        (0..3).for_each(|_| _ = sender.on_ack(at(2), &bulk, 2, at(2), &mut Vec::new()));
        assert_eq!((sender.counters.acks, sender.counters.acks_refused), (1, 0));
    }

    #[test]
    fn what_was_sent_after_the_acknowledgement_is_in_flight() {
        let mut sender = sender(0);
        let first = sends(&mut sender, 1, 3, 1);
        sends(&mut sender, 2, 3, 2);
        let mut done = Vec::new();
        assert_eq!(sender.on_ack(at(1), &ack(first.sub(1), &[]), 1, at(1), &mut done), 1);
        assert_eq!(sender.oldest_lost(0).expect("a hole").0, first);
    }

    #[test]
    fn a_lost_acknowledgement_is_repaired_by_the_next() {
        let mut sender = sender(0);
        let seqs: Vec<Seq> = (1..=4).map(|id| sends(&mut sender, id, 3, 1)).collect();
        let mut done = Vec::new();
        sender.on_ack(at(2), &ack(seqs[3], &[]), 2, at(2), &mut done);
        assert_eq!(ids(&done, PacketOutcome::Delivered), [1, 2, 3, 4]);
        assert_eq!(sender.unfinished(), 0);
    }

    #[test]
    fn the_retry_limit_of_each_packet_is_kept() {
        let mut sender = sender(0);
        let none = sends(&mut sender, 1, 0, 1);
        let one = sends(&mut sender, 2, 1, 1);
        let mut done = Vec::new();
        sender.on_ack(at(1), &ack(none.sub(1), &[]), 1, at(1), &mut done);
        assert_eq!(ids(&done, PacketOutcome::Failed), [1]);
        assert_eq!(sender.base(), one);
        sender.repeat(one, at(2));
        sender.on_ack(at(2), &ack(none, &[]), 2, at(2), &mut done);
        assert_eq!(ids(&done, PacketOutcome::Failed), [1, 2]);
        assert_eq!(done[1].attempts, 2);
    }

    #[test]
    fn a_late_frame_uses_no_attempt() {
        let mut sender = sender(0);
        let seq = sends(&mut sender, 1, 0, 1);
        sender.on_late(seq);
        assert_eq!(sender.oldest_lost(0).expect("to be sent").1.attempts, 0);
        sender.repeat(seq, at(2));
        assert_eq!(sender.window[0].attempts, 1);
    }

    #[test]
    fn silence_loses_nothing_for_three_cycles() {
        let mut sender = sender(0);
        sends(&mut sender, 1, 3, 1);
        let mut done = Vec::new();
        let found: Vec<usize> =
            (2..=6).map(|cycle| sender.on_cycle(at(cycle), &mut done)).collect();
        assert_eq!(found, [0, 0, 0, 1, 0]);
    }

    #[test]
    fn the_neighbour_may_not_know_yet_what_was_given_up() {
        let mut sender = sender(10);
        let mut done = Vec::new();
        let begin = |sender: &mut Sender, slot: u16| {
            sender.on_slot(slot, at(slot.into()));
            sender.on_frame();
            sends(sender, slot.into(), 0, slot.into());
        };
        begin(&mut sender, 1);
        let nothing = BulkAck { slot: 0, received: 0, ..ack(Seq(9), &[]) };
        assert_eq!(sender.on_ack(at(1), &nothing, 1, at(1), &mut done), 1);
        // The next slot is lost too, which would have told of the new base.
        begin(&mut sender, 2);
        assert_eq!(sender.on_ack(at(2), &nothing, 2, at(2), &mut done), 1);
        assert_eq!(ids(&done, PacketOutcome::Failed), [1, 2]);
        assert_eq!((sender.counters.acks, sender.counters.acks_refused), (2, 0));
        assert!(sender.slots.is_empty(), "both count for the loss");
        // It never goes back.
        assert_eq!(sender.on_ack(at(3), &ack(Seq(8), &[0b1]), 3, at(3), &mut done), 0);
        assert_eq!(sender.counters.acks_refused, 1);
    }

    #[test]
    fn an_acknowledgement_of_another_incarnation_is_refused() {
        let mut sender = sender(1_000);
        sends(&mut sender, 1, 3, 1);
        let mut done = Vec::new();
        for cum in [5, 998, 1_001, 0x8000_0000] {
            sender.on_ack(at(1), &ack(Seq(cum), &[0xff]), 1, at(1), &mut done);
        }
        assert!(done.is_empty());
        assert_eq!(sender.counters.acks_refused, 4);
    }

    #[test]
    fn each_level_repeats_its_own_and_the_last_leaves_room_to_the_first() {
        let mut sender = sender(0);
        let terms = |level, cycle| Terms {
            flow_seq: 0,
            class: level,
            level,
            most_retries: 9,
            until: at(cycle),
        };
        let mut id = 0;
        while sender.has_room(1) {
            sends_of(&mut sender, id, terms(1, 1));
            id += 1;
        }
        assert_eq!(id, 112);
        let first = sends_of(&mut sender, id, terms(0, 1));
        sender.on_ack(at(1), &ack(Seq(0).sub(1), &[]), 1, at(1), &mut Vec::new());
        assert_eq!(sender.oldest_lost(0).expect("the last that was sent").0, first);
        sender.repeat(first, at(2));
        assert!(sender.oldest_lost(0).is_none());
        assert_eq!(sender.oldest_lost(1).expect("a bulk packet").0, Seq(0));
        assert_eq!((sender.unfinished_of(0), sender.unfinished_of(1)), (1, 112));
    }
}
