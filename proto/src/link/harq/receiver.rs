//! The receiving side of one neighbour: it assembles units, reports bursts, and delivers packets in
//! order.
//!
//! Frames of one radio do not overtake each other. A unit of another burst therefore ends the burst
//! before it, and bursts in between of which nothing arrived are reported as such. Units that the
//! air delivers out of order nevertheless are used, but do not count in reports.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::{Bytes, BytesMut};

use super::expand;
use crate::base::{Cx, Duration, EtherType, Instant, NodeId};
use crate::link::code::recover;
use crate::wire::harq::{GIVEN_UP, Probe, Report, UNKNOWN, Unit, WINDOW};

/// Reports that are kept for a sender that did not receive them.
const REMEMBERED: u64 = 1024;
/// Most lost bursts that one frame can cause to be reported: as far as a sender goes beyond its
/// oldest unreported burst, including probes.
const GAP: u64 = REMEMBERED - 1;
/// Most reports in one frame.
const REPORTS: usize = 64;
/// Earlier reports that are repeated with new ones.
const HISTORY: u64 = 3;
/// Earlier incarnations of the neighbour that are remembered, because recordings of them may
/// arrive.
const RETIRED: usize = 4;
/// How long they are remembered: as long as frames of an earlier session can still be accepted.
const RETIRED_FOR: Duration = Duration::from_secs(180);
/// A neighbour that was heard within this time continues as before.
const LIVE: Duration = Duration::from_millis(100);
/// Approximate limit of the bytes of units in open blocks.
const MOST_BYTES: usize = 2 << 20;
/// How long packets wait behind a missing one while nothing is heard: longer than a sender asks for
/// reports.
const PATIENCE: Duration = Duration::from_secs(5);
/// Expanded numbers begin here, so that smaller ones than the first can be represented.
const ORIGIN: u64 = 1 << 32;

/// A complete packet of the neighbour.
pub(super) type Whole = (EtherType, Bytes);

/// A block that is incomplete, or waits for earlier blocks.
#[derive(Debug)]
struct Incoming {
    k: u8,
    pad: u8,
    unit_bytes: usize,
    data: Vec<Option<Bytes>>,
    parity: Vec<(usize, Bytes)>,
    whole: Option<Whole>,
    /// When its first unit began to arrive, or would have.
    began: Instant,
}

impl Incoming {
    fn came(&self) -> usize {
        self.data.iter().flatten().count() + self.parity.len()
    }

    fn needs(&self) -> u8 {
        if self.whole.is_some() { 0 } else { self.k - self.came().min(self.k.into()) as u8 }
    }

    fn lacks(&self) -> u32 {
        let missing = self.data.iter().enumerate().filter(|(_, unit)| unit.is_none());
        missing.fold(0, |lacks, (index, _)| lacks | 1 << index)
    }

    /// The content of a block of which enough units have arrived.
    fn join(&self) -> Bytes {
        let holes = self.data.iter().enumerate().filter(|(_, unit)| unit.is_none());
        let missing: Vec<usize> = holes.map(|(index, _)| index).collect();
        let come = self.data.iter().enumerate();
        let data = come.filter_map(|(index, unit)| Some((index, &unit.as_ref()?[..])));
        let found = match missing.is_empty() {
            true => Vec::new(),
            false => recover(&missing, data, &self.parity),
        };
        let mut found = found.iter();
        let mut out = BytesMut::with_capacity(self.data.len() * self.unit_bytes);
        for unit in &self.data {
            let unit = unit.as_ref().or_else(|| found.next());
            out.extend_from_slice(unit.expect("each hole was filled"));
        }
        out.truncate(out.len() - usize::from(self.pad));
        out.freeze()
    }
}

/// The burst that is arriving.
#[derive(Clone, Copy, Debug)]
struct Open {
    block: u64,
    came: u8,
    /// How many more units the last one announced.
    left: u8,
}

/// Counters of the receiver, for the status.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Got {
    pub(super) packets: u64,
    pub(super) bytes: u64,
    /// Blocks that were recovered with parity.
    pub(super) decoded: u64,
    /// Complete blocks that did not open: they are not what the neighbour sealed.
    pub(super) refused: u64,
    /// Units that contradict others of their block, have impossible numbers, or exceed
    /// `MOST_BYTES`.
    pub(super) malformed: u64,
    /// Units of bursts that had ended.
    pub(super) late: u64,
    /// Bytes of units that arrived after their block was complete: of first bursts, and of later
    /// ones.
    pub(super) surplus: [u64; 2],
    /// Blocks that were skipped because nothing was heard any more.
    pub(super) impatient: u64,
    /// Sums over all packets: the time from the arrival of the first unit until the packet was
    /// complete, and until it was delivered.
    pub(super) decode_us: u64,
    pub(super) order_us: u64,
    /// Units and probes that changed the state.
    pub(super) heeded: u64,
}

/// The receiving side of one neighbour.
#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) incarnation: u16,
    retired: VecDeque<(u16, Instant)>,
    /// The newest burst that is known; it is arriving while `open` is set.
    newest: u64,
    open: Option<Open>,
    reports: BTreeMap<u64, Report>,
    /// The first burst whose report has not been sent.
    told: u64,
    /// The neighbour asks for reports from this burst on.
    asked: Option<u64>,
    blocks: BTreeMap<u64, Incoming>,
    /// The next block to be delivered.
    next: u64,
    /// Earlier blocks that were skipped without the sender's knowledge.
    skipped: BTreeSet<u64>,
    heard: Instant,
    up: VecDeque<Whole>,
    pub(super) got: Got,
}

impl Receiver {
    pub(super) fn new(incarnation: u16) -> Self {
        Self {
            incarnation,
            retired: VecDeque::new(),
            newest: 0,
            open: None,
            reports: BTreeMap::new(),
            told: 0,
            asked: None,
            blocks: BTreeMap::new(),
            next: 0,
            skipped: BTreeSet::new(),
            heard: Instant::ZERO,
            up: VecDeque::new(),
            got: Got::default(),
        }
    }

    /// Whether a frame of this incarnation counts. The current incarnation does, and so does a new
    /// one, which resets the receiver.
    ///
    /// Without keys, anybody can pretend to be the neighbour. The receiver is then also reset by
    /// numbers that are too old for any sender, and by an incarnation that was over, but only if
    /// the current sender has fallen silent: the real neighbour goes on.
    pub(super) fn accepts(&mut self, cx: &Cx<'_>, incarnation: u16, numbers: (u32, u32)) -> bool {
        let (now, is_same) = (cx.now, incarnation == self.incarnation);
        if is_same && (cx.is_sealed() || !self.is_behind(numbers)) {
            return true;
        }
        self.retired.retain(|(_, at)| now.since(*at) < RETIRED_FOR);
        let is_live = self.newest != 0 && now.since(self.heard) < LIVE;
        let is_over = |(known, _): &(u16, Instant)| *known == incarnation;
        if is_live || (cx.is_sealed() && self.retired.iter().any(is_over)) {
            return is_same;
        }
        self.skip_to(now, u64::MAX);
        let mut retired = std::mem::take(&mut self.retired);
        retired.truncate(RETIRED - 1);
        retired.push_front((self.incarnation, now));
        let (up, got) = (std::mem::take(&mut self.up), self.got);
        *self = Self { retired, up, got, ..Self::new(incarnation) };
        true
    }

    /// Whether the numbers of a burst and of the oldest open block are further back than a sender
    /// that has come as far as is known could use.
    fn is_behind(&self, (burst, base): (u32, u32)) -> bool {
        let is_old = expand(burst, self.newest) + 2 * REMEMBERED < self.newest;
        let is_passed = expand(base, self.next.max(ORIGIN)) + u64::from(WINDOW) < self.next;
        self.newest != 0 && (is_old || is_passed)
    }

    /// The next packet in order.
    pub(super) fn poll(&mut self) -> Option<Whole> {
        self.up.pop_front()
    }

    /// Handles a unit that began to arrive at `started`.
    pub(super) fn on_unit(
        &mut self,
        cx: &Cx<'_>,
        from: NodeId,
        (unit, body): (&Unit, Bytes),
        started: Instant,
    ) {
        let burst = self.burst_number(unit.burst);
        let block = expand(unit.block, self.next.max(ORIGIN));
        if self.is_impossible(cx.now, burst, block.saturating_sub(unit.back.into())) {
            return;
        }
        self.skip_to(cx.now, block - u64::from(unit.back));
        if burst > self.newest {
            self.close_until(burst);
            self.open = Some(Open { block, came: 0, left: u8::MAX });
        }
        let is_new = match &mut self.open {
            Some(open) if burst == self.newest && (open.came == 0 || unit.left < open.left) => {
                (open.came, open.left) = (open.came.saturating_add(1), unit.left);
                true
            }
            _ => {
                self.got.late += 1;
                false
            }
        };
        let is_used = self.take(cx, from, (block, unit, body), started, is_new);
        if unit.left == 0 && burst == self.newest {
            self.close();
        }
        if is_new || is_used {
            self.heard = cx.now;
            self.got.heeded += 1;
        }
    }

    /// Whether a number is further ahead than a sender that is heard could have come. Only a short
    /// tag protects these numbers. A sender that has not been heard for a while may have any.
    fn is_impossible(&mut self, now: Instant, burst: u64, base: u64) -> bool {
        let is_live = self.heard != Instant::ZERO && now.since(self.heard) < LIVE;
        let is_ahead = burst > self.newest + 2 * REMEMBERED
            || base > self.next.max(ORIGIN) + u64::from(WINDOW);
        self.got.malformed += u64::from(is_live && is_ahead);
        is_live && is_ahead
    }

    fn burst_number(&mut self, burst: u32) -> u64 {
        if self.newest == 0 {
            // Bursts that were sent before the first contact are reported as lost.
            let number = ORIGIN + u64::from(burst);
            self.newest = number - u64::from(burst).min(REMEMBERED - 1) - 1;
            self.told = self.newest + 1;
            return number;
        }
        expand(burst, self.newest)
    }

    /// Adds a unit to its block. Returns whether the block did not have it yet.
    fn take(
        &mut self,
        cx: &Cx<'_>,
        from: NodeId,
        (number, unit, body): (u64, &Unit, Bytes),
        started: Instant,
        is_new: bool,
    ) -> bool {
        let bytes = body.len() as u64;
        let surplus = &mut self.got.surplus[usize::from(!unit.is_first)];
        if number < self.next {
            if is_new && !self.skipped.contains(&number) {
                *surplus += bytes;
            }
            return false;
        }
        assert!(number - self.next < u64::from(WINDOW), "what is behind the window was skipped");
        // The first burst sends its units in the order of their indices.
        let before = cx.now.since(started) * u64::from(unit.index);
        let before = if unit.is_first { before } else { Duration::ZERO };
        let held = self.blocks.len() * usize::from(unit.k) * body.len();
        if held > MOST_BYTES && !self.blocks.contains_key(&number) {
            self.got.malformed += 1;
            return false;
        }
        let block = self.blocks.entry(number).or_insert_with(|| Incoming {
            k: unit.k,
            pad: unit.pad,
            unit_bytes: body.len(),
            data: vec![None; unit.k.into()],
            parity: Vec::new(),
            whole: None,
            began: Instant::from_nanos(started.as_nanos().saturating_sub(before.as_nanos())),
        });
        if block.whole.is_some() {
            *surplus += if is_new { bytes } else { 0 };
            return false;
        }
        if (block.k, block.pad, block.unit_bytes) != (unit.k, unit.pad, body.len()) {
            self.got.malformed += 1;
            return false;
        }
        match usize::from(unit.index).checked_sub(block.k.into()) {
            None if block.data[usize::from(unit.index)].is_some() => {
                *surplus += if is_new { bytes } else { 0 };
                return false;
            }
            None => block.data[usize::from(unit.index)] = Some(body),
            Some(parity) if block.parity.iter().any(|(known, _)| *known == parity) => return false,
            Some(parity) => block.parity.push((parity, body)),
        }
        if block.needs() == 0 {
            self.complete(cx, from, number, unit.protocol);
        }
        true
    }

    /// A block has enough units. If it does not open, one of them was forged and all are requested
    /// again.
    fn complete(&mut self, cx: &Cx<'_>, from: NodeId, number: u64, protocol: EtherType) {
        let block = self.blocks.get_mut(&number).expect("it has just grown");
        self.got.decoded += u64::from(!block.parity.is_empty());
        block.whole = cx.open(from, protocol, block.join());
        block.data.iter_mut().for_each(|unit| *unit = None);
        block.parity.clear();
        if block.whole.is_none() {
            self.got.refused += 1;
            return;
        }
        self.got.decode_us += cx.now.since(block.began).as_micros();
        self.give_up(cx.now);
    }

    /// Delivers complete blocks that are next in order.
    fn give_up(&mut self, now: Instant) {
        while let Some(entry) = self.blocks.first_entry() {
            if *entry.key() != self.next || entry.get().whole.is_none() {
                return;
            }
            let block = entry.remove();
            self.next += 1;
            self.give(now, block);
        }
    }

    fn give(&mut self, now: Instant, block: Incoming) {
        let Some(whole) = block.whole else { return };
        self.got.packets += 1;
        self.got.bytes += whole.1.len() as u64;
        self.got.order_us += now.since(block.began).as_micros();
        self.up.push_back(whole);
    }

    /// The sender has finished all blocks before `base`.
    fn skip_to(&mut self, now: Instant, base: u64) {
        if base > self.next {
            let rest = self.blocks.split_off(&base);
            let over = std::mem::replace(&mut self.blocks, rest);
            over.into_values().for_each(|block| self.give(now, block));
            self.next = base;
            self.skipped.clear();
        } else if !self.skipped.is_empty() {
            self.skipped = self.skipped.split_off(&base);
        }
        self.give_up(now);
    }

    /// Ends the burst that is arriving; the next one has the number `burst`.
    fn close_until(&mut self, burst: u64) {
        self.close();
        let first = (self.newest + 1).max(burst.saturating_sub(GAP));
        for lost in first..burst {
            let number = lost as u32;
            let report = Report { burst: number, came: 0, needs: UNKNOWN, lacks: u32::MAX };
            self.remember(lost, report);
        }
        self.newest = burst;
    }

    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        let (needs, lacks) = match self.blocks.get(&open.block) {
            _ if self.skipped.contains(&open.block) => (GIVEN_UP, 0),
            _ if open.block < self.next => (0, 0),
            Some(block) => (block.needs(), block.lacks()),
            None => (UNKNOWN, u32::MAX),
        };
        let report = Report { burst: self.newest as u32, came: open.came, needs, lacks };
        self.remember(self.newest, report);
    }

    fn remember(&mut self, burst: u64, report: Report) {
        self.reports.insert(burst, report);
        while self.reports.len() as u64 > REMEMBERED {
            self.reports.pop_first();
        }
    }

    /// Handles a probe and reports it. A replayed one changes nothing.
    pub(super) fn on_probe(&mut self, now: Instant, probe: &Probe) {
        let burst = self.burst_number(probe.burst);
        let base = expand(probe.base, self.next.max(ORIGIN));
        if burst <= self.newest || self.is_impossible(now, burst, base) {
            return;
        }
        self.heard = now;
        self.got.heeded += 1;
        self.close_until(burst);
        self.remember(burst, Report { burst: probe.burst, came: 0, needs: 0, lacks: 0 });
        self.asked = Some(expand(probe.asks, self.newest));
        self.skip_to(now, base);
    }

    /// Whether there is something to report.
    pub(super) fn owes_feedback(&self) -> bool {
        self.asked.is_some() || self.reports.last_key_value().is_some_and(|(b, _)| *b >= self.told)
    }

    /// The reports for a frame of feedback.
    pub(super) fn feedback(&mut self) -> Vec<Report> {
        let usual = self.told.saturating_sub(HISTORY);
        let first = self.asked.take().map_or(usual, |asked| asked.min(usual));
        let reports = self.reports.range(first..).take(REPORTS);
        let (numbers, reports): (Vec<u64>, Vec<Report>) = reports.unzip();
        if let Some(last) = numbers.last() {
            self.told = last + 1;
        }
        reports
    }

    /// When packets have waited long enough for a missing one.
    pub(super) fn due(&self) -> Option<Instant> {
        (!self.blocks.is_empty()).then(|| self.heard + PATIENCE)
    }

    pub(super) fn on_timeout(&mut self, now: Instant) {
        if self.due().is_none_or(|due| due > now) {
            return;
        }
        let end = self.blocks.last_key_value().expect("there are some").0 + 1;
        let is_open = |number: &u64| self.blocks.get(number).is_none_or(|b| b.whole.is_none());
        let open: Vec<u64> = (self.next..end).filter(is_open).collect();
        self.got.impatient += open.len() as u64;
        self.skip_to(now, end);
        self.skipped.extend(open);
    }
}
