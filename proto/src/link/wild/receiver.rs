//! The receiving side of one neighbour: duplicates, bulk acknowledgement, order, decoding
//! (`wildnet.md` 3, 4, 7.2).
//!
//! A packet after a gap in its flow waits until the gap is filled, until the sender's window has
//! passed the gap, or until the patience is over. It is then delivered; what was missing is
//! delivered late if it still arrives. The patience grows with the time between the slots in which
//! the sender is heard, or gets an acknowledgement: in a large star, a station has a turn only once
//! in several cycles. A new incarnation of the sender is believed only after two
//! frames in a row, so that one damaged or old frame cannot reset the window.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::config::InOrder;
use crate::base::{Bitrate, Dbm, Duration, EtherType, FlowId, Instant, Seq};
use crate::link::code::Decoder;
use crate::wire::bundle::{self, Piece, Ride};
use crate::wire::wild::{BulkAck, Header, Kind, MAX_ACK_BITS, UnitHead, decode_unit};

/// Code blocks that are kept: two for each class, its open one and an earlier one whose parity is
/// late, but at least `LEAST_BLOCKS`.
const LEAST_BLOCKS: usize = 8;
const BLOCKS_OF_CLASS: usize = 2;
/// Flows whose order is tracked.
const FLOWS: usize = 1_024;
/// Number of unexpected frames in a row that prove a restart.
const STRANGE_FRAMES: u8 = 2;
/// The patience follows the longest of this many times between slots. A time of more than
/// `MOST_CYCLES` was not between turns: nothing was heard, or there was nothing to say.
const GAPS: usize = 4;
const MOST_CYCLES: u64 = 16;
/// How far behind a sequence number may lie and still belong to the same incarnation.
const BACK: i32 = 1 << 16;
/// How far ahead it may lie: the sender may have given up packets while it was not heard.
const AHEAD: i32 = 1 << 20;

/// A received packet.
#[derive(Clone, Debug)]
pub(super) struct Arrival {
    pub(super) head: UnitHead,
    /// Whether it waits for earlier packets.
    pub(super) is_ordered: bool,
    pub(super) payload: Bytes,
    pub(super) signal: Option<Dbm>,
    pub(super) rate: Option<Bitrate>,
}

/// What a header implies about its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The sender continues as before, or is new.
    Accepted,
    /// The header does not fit; it is ignored until another one confirms it.
    Strange,
    /// The sender has restarted.
    Restarted,
}

/// Counters of one receiver.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReceiverCounters {
    pub(super) duplicates: u64,
    pub(super) beyond_window: u64,
    pub(super) skipped: u64,
    pub(super) decoded: u64,
    pub(super) impatient: u64,
}

#[derive(Debug)]
struct Held {
    since: Instant,
    arrival: Arrival,
}

#[derive(Debug)]
struct FlowIn {
    expected: Option<u16>,
    held: VecDeque<Held>,
    used: Instant,
}

/// The receiving side of one neighbour.
#[derive(Debug)]
pub(super) struct Receiver {
    in_order: InOrder,
    cycle: Duration,
    /// Patience with a sender that is heard in each cycle.
    patience: Duration,
    /// The slots in which the sender was heard, and those in which it was sent an acknowledgement.
    heard: Turns,
    told: Turns,
    incarnation: Option<u8>,
    strange: u8,
    /// All packets up to this one were received or given up; none before the first frame.
    cum: Option<Seq>,
    /// Whether packet `cum + 1 + i` was received.
    bits: VecDeque<bool>,
    slot: u16,
    slot_received: u16,
    flows: BTreeMap<FlowId, FlowIn>,
    /// Flows with packets that wait.
    holding: Vec<FlowId>,
    blocks: VecDeque<Decoder>,
    most_blocks: usize,
    pub(super) counters: ReceiverCounters,
}

/// How often there is a turn.
#[derive(Debug, Default)]
struct Turns {
    last: Option<Instant>,
    /// The times between the latest ones, in cycles.
    gaps: VecDeque<u64>,
}

impl Turns {
    fn on_turn(&mut self, now: Instant, cycle: Duration) {
        let Some(last) = self.last.replace(now) else { return };
        let cycles = (now.since(last) + cycle / 2).as_nanos() / cycle.as_nanos();
        if cycles > MOST_CYCLES {
            return;
        }
        if self.gaps.len() == GAPS {
            self.gaps.pop_front();
        }
        self.gaps.push_back(cycles);
    }

    /// The longest time between the latest turns; at least one cycle.
    fn cycles(&self) -> u64 {
        self.gaps.iter().copied().max().unwrap_or_default().max(1)
    }
}

impl Receiver {
    /// For a sender with `classes` classes that makes up to `attempts` attempts, one in each cycle
    /// in which it has a turn.
    pub(super) fn new(in_order: InOrder, cycle: Duration, attempts: u64, classes: usize) -> Self {
        Self {
            in_order,
            cycle,
            // An attempt whose acknowledgement is lost takes another cycle.
            patience: cycle * 2 * attempts,
            heard: Turns::default(),
            told: Turns::default(),
            incarnation: None,
            strange: 0,
            cum: None,
            bits: VecDeque::new(),
            slot: 0,
            slot_received: 0,
            flows: BTreeMap::new(),
            holding: Vec::new(),
            blocks: VecDeque::new(),
            most_blocks: (BLOCKS_OF_CLASS * classes).max(LEAST_BLOCKS),
            counters: ReceiverCounters::default(),
        }
    }

    /// Checks the header of any frame of the neighbour. If the sender has restarted, packets that
    /// waited from its earlier incarnation are added to `out`.
    pub(super) fn on_header(&mut self, header: &Header, out: &mut Vec<Arrival>) -> Verdict {
        let is_beacon = header.kind == Kind::Idle;
        let is_near = is_beacon
            || self.cum.is_none_or(|cum| (-BACK..AHEAD).contains(&header.seq.distance(cum)));
        let is_same = self.incarnation.is_none_or(|known| known == header.incarnation);
        let mut verdict = Verdict::Accepted;
        if !(is_near && is_same) {
            self.strange += 1;
            if self.strange < STRANGE_FRAMES {
                return Verdict::Strange;
            }
            self.reset(out);
            verdict = Verdict::Restarted;
        }
        self.strange = 0;
        self.incarnation = Some(header.incarnation);
        verdict
    }

    /// Whether a frame is of another incarnation of its sender than the one that is believed.
    pub(super) fn is_of_another_life(&self, header: &Header) -> bool {
        self.incarnation.is_some_and(|known| known != header.incarnation)
    }

    fn reset(&mut self, out: &mut Vec<Arrival>) {
        for flow in std::mem::take(&mut self.holding) {
            let held = self.flows.get_mut(&flow).map(|flow| std::mem::take(&mut flow.held));
            out.extend(held.into_iter().flatten().map(|held| held.arrival));
        }
        self.flows.clear();
        self.cum = None;
        self.bits.clear();
        self.blocks.clear();
        (self.heard, self.told) = Default::default();
    }

    /// Counts a frame for this node, and advances past what its sender has given up.
    pub(super) fn on_frame(&mut self, now: Instant, header: &Header, out: &mut Vec<Arrival>) {
        if self.cum.is_some() && self.slot == header.slot {
            self.slot_received = self.slot_received.saturating_add(1);
        } else {
            self.slot = header.slot;
            self.slot_received = 1;
            self.heard.on_turn(now, self.cycle);
        }
        let passed = header.base().sub(1);
        let Some(cum) = self.cum else {
            self.cum = Some(passed);
            return;
        };
        let ahead = passed.distance(cum);
        if ahead <= 0 {
            return;
        }
        let known = (ahead as usize).min(self.bits.len());
        let came = self.bits.drain(..known).filter(|came| *came).count();
        self.counters.skipped += ahead as u64 - came as u64;
        self.cum = Some(passed);
        self.slide();
        self.release_passed(now, out);
    }

    /// The first acknowledgement of a slot is sent.
    pub(super) fn on_told(&mut self, now: Instant) {
        self.told.on_turn(now, self.cycle);
    }

    /// How long a packet waits for those before it.
    fn patience(&self) -> Duration {
        self.patience * self.heard.cycles().max(self.told.cycles())
    }

    fn slide(&mut self) {
        let Some(cum) = self.cum.as_mut() else { return };
        while self.bits.front() == Some(&true) {
            self.bits.pop_front();
            *cum = cum.add(1);
        }
    }

    /// Adds a packet. Packets that may be delivered now are added to `out`, in order.
    pub(super) fn on_data(&mut self, now: Instant, arrival: Arrival, out: &mut Vec<Arrival>) {
        let Some(cum) = self.cum else { return };
        let ahead = arrival.head.seq.distance(cum);
        // Of a forged unit it may be any number.
        let index = ahead.wrapping_sub(1) as usize;
        if ahead <= 0 || self.bits.get(index) == Some(&true) {
            self.counters.duplicates += 1;
            return;
        }
        if index >= MAX_ACK_BITS {
            self.counters.beyond_window += 1;
            return;
        }
        if self.bits.len() <= index {
            self.bits.resize(index + 1, false);
        }
        self.bits[index] = true;
        self.slide();
        // Everything that arrived in a frame is recorded before any of it is delivered: then the
        // rest of the frame is never missing.
        let (riders, free): (Vec<_>, Vec<_>) =
            riders(&arrival).into_iter().partition(|rider| rider.is_ordered);
        let keys: Vec<FlowId> = riders.into_iter().map(|rider| self.hold(now, rider)).collect();
        if arrival.is_ordered {
            let key = self.hold(now, arrival);
            self.release(now, key, out);
        } else {
            out.push(arrival);
        }
        out.extend(free);
        keys.into_iter().for_each(|key| self.release(now, key, out));
        self.release_passed(now, out);
    }

    /// Adds a packet to the order of its flow, or of the link. Returns which that is.
    fn hold(&mut self, now: Instant, arrival: Arrival) -> FlowId {
        let key = match self.in_order {
            InOrder::Link => FlowId(0),
            // The sender decides whether a packet is in order; it may have a class that we do not
            // have.
            InOrder::Flow | InOrder::None => arrival.head.flow,
        };
        if self.flows.len() >= FLOWS && !self.flows.contains_key(&key) {
            self.forget_idle_flow();
        }
        // The first packet of a flow waits for nothing.
        let first = (self.in_order != InOrder::Link && arrival.head.flow_seq == 0).then_some(0);
        let new = FlowIn { expected: first, held: VecDeque::new(), used: now };
        let flow = self.flows.entry(key).or_insert(new);
        flow.used = now;
        let seq = arrival.head.seq;
        if flow.held.is_empty() {
            self.holding.push(key);
        }
        // Several packets may ride in one frame: they have its number, and keep their order in it.
        let at = flow.held.iter().rposition(|held| !held.arrival.head.seq.is_after(seq));
        flow.held.insert(at.map_or(0, |at| at + 1), Held { since: now, arrival });
        key
    }

    fn forget_idle_flow(&mut self) {
        let idle = self.flows.iter().filter(|(_, flow)| flow.held.is_empty());
        if let Some(key) = idle.min_by_key(|(_, flow)| flow.used).map(|(key, _)| *key) {
            self.flows.remove(&key);
        }
    }

    /// Delivers what may be delivered of one flow: the next packet of the flow, and packets that
    /// have nothing missing before them.
    fn release(&mut self, now: Instant, key: FlowId, out: &mut Vec<Arrival>) {
        let Some(cum) = self.cum else { return };
        let (by_number, patience) = (self.in_order != InOrder::Link, self.patience());
        let Some(flow) = self.flows.get_mut(&key) else { return };
        while let Some(held) = flow.held.front() {
            let head = &held.arrival.head;
            let is_next = by_number && flow.expected == Some(head.flow_seq);
            let is_overdue = now.since(held.since) > patience;
            if !is_next && head.seq.is_after(cum) && !is_overdue {
                break;
            }
            flow.expected = Some(head.flow_seq.wrapping_add(1));
            self.counters.impatient += u64::from(is_overdue && !is_next && head.seq.is_after(cum));
            out.extend(flow.held.pop_front().map(|held| held.arrival));
        }
        if flow.held.is_empty() {
            self.holding.retain(|other| *other != key);
        }
    }

    fn release_passed(&mut self, now: Instant, out: &mut Vec<Arrival>) {
        let mut index = 0;
        while let Some(key) = self.holding.get(index).copied() {
            self.release(now, key, out);
            if self.holding.get(index) == Some(&key) {
                index += 1;
            }
        }
    }

    /// Delivers what has waited too long.
    pub(super) fn on_cycle(&mut self, now: Instant, out: &mut Vec<Arrival>) {
        self.release_passed(now, out);
    }

    /// Adds a data packet to its code block. Returns what this decodes.
    pub(super) fn on_coded(&mut self, header: &Header, arrival: &Arrival) -> Vec<Bytes> {
        let Some(coded) = header.coded else { return Vec::new() };
        let block = self.block(coded.block);
        block.on_data(coded.index, arrival.head, arrival.payload.clone());
        block.recover()
    }

    /// Adds parity to its code block. Returns what this decodes.
    pub(super) fn on_parity(&mut self, header: &Header, unit: Bytes) -> Vec<Bytes> {
        let Some(coded) = header.coded else { return Vec::new() };
        let block = self.block(coded.block);
        block.on_parity(coded.k, coded.index, unit);
        block.recover()
    }

    /// Adds decoded packets as if they had been received.
    pub(super) fn on_units(
        &mut self,
        now: Instant,
        units: Vec<Bytes>,
        is_ordered: bool,
        out: &mut Vec<Arrival>,
    ) {
        for (head, payload) in units.iter().filter_map(decode_unit) {
            self.counters.decoded += 1;
            let arrival = Arrival { head, is_ordered, payload, signal: None, rate: None };
            self.on_data(now, arrival, out);
        }
    }

    fn block(&mut self, id: u16) -> &mut Decoder {
        let index = self.blocks.iter().rposition(|block| block.id == id).unwrap_or_else(|| {
            if self.blocks.len() == self.most_blocks {
                let done = self.blocks.iter().position(Decoder::is_complete);
                self.blocks.remove(done.unwrap_or(0));
            }
            self.blocks.push_back(Decoder::new(id));
            self.blocks.len() - 1
        });
        &mut self.blocks[index]
    }

    /// The bulk acknowledgement of everything received; none before the first frame.
    pub(super) fn ack(&self) -> Option<BulkAck> {
        let cum = self.cum?;
        let nbits = self.bits.len();
        let mut bits = vec![0; nbits.div_ceil(8)];
        for (index, _) in self.bits.iter().enumerate().filter(|(_, came)| **came) {
            bits[index / 8] |= 1 << (index % 8);
        }
        let (slot, received) = (self.slot, self.slot_received);
        Some(BulkAck { cum, nbits: nbits as u16, bits: bits.into(), slot, received })
    }
}

/// The packets that ride in a packet, each as a packet of its own flow.
fn riders(host: &Arrival) -> Vec<Arrival> {
    if host.head.protocol != EtherType::FARHOP {
        return Vec::new();
    }
    let pieces = bundle::decode(&host.payload).unwrap_or_default().into_iter();
    let arrival = |Piece { protocol, bytes, ride, .. }| {
        let Ride { flow, number } = ride?;
        let head = UnitHead { flow, protocol, flow_seq: number.unwrap_or(0), ..host.head };
        Some(Arrival { head, is_ordered: number.is_some(), payload: bytes, ..host.clone() })
    };
    pieces.filter_map(arrival).collect()
}

/// What identifies a packet in a data frame.
pub(super) fn unit_head(header: &Header) -> UnitHead {
    let protocol: EtherType = header.protocol;
    UnitHead { seq: header.seq, flow: header.flow, flow_seq: header.flow_seq, protocol }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::code::Encoder;
    use crate::wire::wild::Coded;

    const NOW: Instant = Instant::from_nanos(1);
    const CYCLE: Duration = Duration::from_millis(50);

    fn header(seq: u32, base: u32) -> Header {
        Header {
            kind: Kind::Data,
            flags: 0,
            flow: FlowId(1),
            seq: Seq(seq),
            flow_seq: 0,
            attempt: 0,
            slot: 4,
            delta_us: 0,
            incarnation: 9,
            coded: None,
            base_offset: seq.wrapping_sub(base) as u16,
            protocol: EtherType::IPV4,
            cluster: 0,
            length: 64,
            demand: 0,
        }
    }

    struct Story(Receiver);

    impl Story {
        fn new(in_order: InOrder) -> Self {
            Self(Receiver::new(in_order, CYCLE, 5, 1))
        }

        /// A packet arrives; returns the sequence numbers that are delivered.
        fn gets(&mut self, seq: u32, base: u32, flow: u16, flow_seq: u16) -> Vec<u32> {
            let mut header = header(seq, base);
            (header.flow, header.flow_seq) = (FlowId(flow), flow_seq);
            let mut out = Vec::new();
            assert_eq!(self.0.on_header(&header, &mut out), Verdict::Accepted);
            self.0.on_frame(NOW, &header, &mut out);
            let head = unit_head(&header);
            let is_ordered = self.0.in_order != InOrder::None;
            let (signal, rate) = (None, None);
            let arrival = Arrival { head, is_ordered, payload: Bytes::new(), signal, rate };
            self.0.on_data(NOW, arrival, &mut out);
            out.iter().map(|arrival| arrival.head.seq.0).collect()
        }
    }

    #[test]
    fn a_gap_in_one_flow_does_not_hold_back_another() {
        let mut story = Story::new(InOrder::Flow);
        assert_eq!(story.gets(10, 10, 1, 0), [10]);
        assert_eq!(story.gets(12, 10, 1, 2), [0; 0]);
        assert_eq!(story.gets(13, 10, 2, 0), [13]);
        assert_eq!(story.gets(14, 10, 1, 3), [0; 0]);
        assert_eq!(story.gets(11, 10, 1, 1), [11, 12, 14]);
    }

    #[test]
    fn order_of_the_link_holds_back_all_flows() {
        let mut story = Story::new(InOrder::Link);
        assert_eq!(story.gets(10, 10, 1, 0), [10]);
        assert_eq!(story.gets(12, 10, 2, 0), [0; 0]);
        assert_eq!(story.gets(11, 10, 1, 1), [11, 12]);
    }

    #[test]
    fn what_has_no_order_waits_for_nothing_beside_what_has() {
        let mut story = Story::new(InOrder::Flow);
        assert_eq!(story.gets(10, 10, 1, 0), [10]);
        assert_eq!(story.gets(13, 10, 1, 2), [0; 0]);
        let head = UnitHead { seq: Seq(12), flow: FlowId(2), ..unit_head(&header(12, 10)) };
        let (payload, signal, rate) = (Bytes::new(), None, None);
        let voice = Arrival { head, is_ordered: false, payload, signal, rate };
        let mut out = Vec::new();
        story.0.on_data(NOW, voice, &mut out);
        assert_eq!(out.len(), 1, "the flag of the frame counts");
        assert_eq!(story.gets(11, 10, 1, 1), [11, 13]);
    }

    #[test]
    fn what_rides_waits_for_its_own_flow_and_not_for_that_of_its_host() {
        let mut story = Story::new(InOrder::Flow);
        assert_eq!(story.gets(10, 10, 1, 0), [10]);
        let rides = |flow, number| Piece {
            ride: Some(Ride { flow: FlowId(flow), number }),
            ..Piece::whole(EtherType::IPV4, Bytes::from_static(b"short"))
        };
        let mut bundle_comes = |seq: u32, flow_seq: u16, riders: &[Piece]| {
            let host =
                UnitHead { flow_seq, protocol: EtherType::FARHOP, ..unit_head(&header(seq, 10)) };
            let (payload, signal, rate) = (bundle::encode(riders), None, None);
            let host = Arrival { head: host, is_ordered: true, payload, signal, rate };
            let mut out = Vec::new();
            story.0.on_data(NOW, host, &mut out);
            out.iter().map(|it| (it.head.flow.0, it.head.flow_seq)).collect::<Vec<_>>()
        };
        // All hosts wait for 11; in flow 2 the third and fourth packet wait for the second.
        assert_eq!(bundle_comes(12, 2, &[rides(2, Some(0)), rides(3, None)]), [(3, 0), (2, 0)]);
        assert_eq!(bundle_comes(14, 4, &[rides(2, Some(2)), rides(2, Some(3))]), []);
        assert_eq!(bundle_comes(13, 3, &[rides(2, Some(1))]), [(2, 1), (2, 2), (2, 3)]);
        assert_eq!(bundle_comes(11, 1, &[]), [(1, 1), (1, 2), (1, 3), (1, 4)]);
        // The late packets of one frame are delivered together, before those that already waited.
        assert_eq!(bundle_comes(16, 6, &[rides(2, Some(6))]), []);
        let late = bundle_comes(15, 5, &[rides(2, Some(4)), rides(2, Some(5))]);
        assert_eq!(late, [(1, 5), (1, 6), (2, 4), (2, 5), (2, 6)]);
    }

    #[test]
    fn without_order_nothing_waits_and_nothing_comes_twice() {
        let mut story = Story::new(InOrder::None);
        assert_eq!(story.gets(12, 10, 1, 2), [12]);
        assert_eq!(story.gets(12, 10, 1, 2), [0; 0]);
        assert_eq!(story.gets(10, 10, 1, 0), [10]);
        assert_eq!(story.gets(10, 10, 1, 0), [0; 0]);
        assert_eq!(story.0.counters.duplicates, 2);
    }

    #[test]
    fn each_class_may_have_a_block_open() {
        let classes = 10;
        let mut receiver = Receiver::new(InOrder::Flow, CYCLE, 5, classes);
        let coded = |block, index| Header {
            coded: Some(Coded { block, index, k: 2 }),
            ..header(10 + u32::from(index), 10)
        };
        let unit = |index| (unit_head(&coded(0, index)), Bytes::from_static(b"unit"));
        let mut encoder = Encoder::new(0);
        [0, 1].map(unit).iter().for_each(|(head, payload)| encoder.push(head, payload));
        let parity = encoder.parity(1).remove(0);
        let (head, payload) = unit(0);
        let arrival = Arrival { head, is_ordered: true, payload, signal: None, rate: None };
        for block in 0..classes as u16 {
            assert!(receiver.on_coded(&coded(block, 0), &arrival).is_empty());
        }
        for block in 0..classes as u16 {
            let units = receiver.on_parity(&coded(block, 2), parity.clone());
            assert_eq!(units.len(), 1, "of block {block}");
        }
    }

    #[test]
    fn what_the_sender_gave_up_is_passed() {
        let mut story = Story::new(InOrder::Flow);
        assert_eq!(story.gets(10, 10, 1, 0), [10]);
        assert_eq!(story.gets(13, 10, 1, 3), [0; 0]);
        assert_eq!(story.gets(14, 13, 1, 4), [13, 14]);
        assert_eq!(story.0.counters.skipped, 2);
    }

    #[test]
    fn patience_ends() {
        let mut story = Story::new(InOrder::Flow);
        story.gets(10, 10, 1, 0);
        story.gets(12, 10, 1, 2);
        let mut out = Vec::new();
        story.0.on_cycle(NOW + Duration::from_millis(400), &mut out);
        assert!(out.is_empty());
        story.0.on_cycle(NOW + Duration::from_millis(501), &mut out);
        assert_eq!(out.len(), 1);
        assert_eq!(story.gets(11, 10, 1, 1), [11], "late, but not lost");
    }

    #[test]
    fn patience_follows_how_often_the_sender_has_a_turn() {
        let mut story = Story::new(InOrder::Flow);
        story.gets(10, 10, 1, 0);
        let mut out = Vec::new();
        let turns = |turn: u32| (NOW + CYCLE * 4 * u64::from(turn), turn as u16);
        for (now, slot) in (1..=4).map(turns) {
            story.0.on_frame(now, &Header { slot, ..header(11, 10) }, &mut out);
        }
        story.gets(12, 10, 1, 2);
        story.0.on_cycle(NOW + CYCLE * 39, &mut out);
        assert!(out.is_empty(), "ten turns, of four cycles each, are not over");
        story.0.on_cycle(NOW + CYCLE * 41, &mut out);
        assert_eq!(out.len(), 1);
        // The same where acknowledgements have a turn in every fourth cycle; a pause is no turn.
        let mut story = Story::new(InOrder::Flow);
        for cycles in [0, 4, 8, 90] {
            story.0.on_told(NOW + CYCLE * cycles);
        }
        story.gets(10, 10, 1, 0);
        story.gets(12, 10, 1, 2);
        out.clear();
        story.0.on_cycle(NOW + CYCLE * 39, &mut out);
        assert!(out.is_empty());
        story.0.on_cycle(NOW + CYCLE * 41, &mut out);
        assert_eq!(out.len(), 1);
    }

    #[test]
    fn the_acknowledgement_spans_the_wrap() {
        let mut story = Story::new(InOrder::None);
        let base = u32::MAX - 1;
        for step in [0, 1, 3, 10, 11] {
            story.gets(base.wrapping_add(step), base, 1, 0);
        }
        let ack = story.0.ack().expect("frames came");
        assert_eq!((ack.cum, ack.nbits, ack.slot, ack.received), (Seq(u32::MAX), 10, 4, 5));
        let came: Vec<u32> =
            (0..14).filter(|step| ack.has(Seq(base.wrapping_add(*step)))).collect();
        assert_eq!(came, [0, 1, 3, 10, 11]);
    }

    #[test]
    fn a_restart_is_believed_after_two_frames() {
        let mut story = Story::new(InOrder::Flow);
        story.gets(10, 10, 1, 0);
        story.gets(12, 10, 1, 2);
        let mut out = Vec::new();
        let other = Header { incarnation: 8, ..header(5_000_000, 5_000_000) };
        assert_eq!(story.0.on_header(&other, &mut out), Verdict::Strange);
        story.gets(13, 10, 1, 3);
        assert_eq!(story.0.on_header(&other, &mut out), Verdict::Strange);
        assert!(out.is_empty());
        assert_eq!(story.0.on_header(&other, &mut out), Verdict::Restarted);
        assert_eq!(out.len(), 2, "what waited for the old one goes up");
        story.0.on_frame(NOW, &other, &mut out);
        assert_eq!(story.0.ack().expect("a frame came").cum, Seq(4_999_999));
    }
}
