//! The sending side of one neighbour. Packets become blocks, blocks are sent in bursts of units,
//! and the report of a burst ends its block or requests another burst.
//!
//! A burst is the set of units that a block sends at once. Bursts have numbers of their own, so
//! that the receiver can report a burst that was lost entirely, whatever block it belonged to.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::config::{Resend, Scheme, Settings};
use super::estimate::{Estimate, Patience};
use super::expand;
use crate::base::{
    Duration, EtherType, Instant, Packet, PacketDone, PacketOutcome, TxOptions, UnitId,
};
use crate::link::code::parity_of;
use crate::wire::harq::{GIVEN_UP, MAX_PARITY, Probe, Report, UNKNOWN, Unit, WINDOW};

/// Most unreported bursts; the receiver remembers more.
const UNREPORTED: usize = 512;
/// Greatest distance between the oldest unreported burst and the newest burst.
const BURSTS: u64 = 960;
/// Limits of unanswered probes in a row. After `SILENT`, only probes are sent to a neighbour. After
/// `IN_THE_WAY`, packets that wait for it make room for others. After `PROBES`, it counts as gone.
const SILENT: u32 = 3;
const IN_THE_WAY: u32 = 5;
const PROBES: u32 = 8;

/// A packet that is being sent.
#[derive(Debug)]
struct Block {
    packet: UnitId,
    /// Length of the packet's payload before it was sealed, in bytes.
    bytes: usize,
    data: Bytes,
    protocol: EtherType,
    k: u8,
    unit_bytes: usize,
    /// Parity units in the first burst, and in all bursts so far.
    first_parity: u8,
    parity: u8,
    attempts: u8,
    needs: u8,
    lacks: u32,
    air: Duration,
    options: TxOptions,
}

impl Block {
    fn data_unit(&self, index: usize) -> &[u8] {
        let end = |index: usize| (index * self.unit_bytes).min(self.data.len());
        &self.data[end(index)..end(index + 1)]
    }

    fn unit(&self, index: u8) -> Vec<u8> {
        let k = usize::from(self.k);
        match usize::from(index).checked_sub(k) {
            None => {
                let mut unit = self.data_unit(index.into()).to_vec();
                unit.resize(self.unit_bytes, 0);
                unit
            }
            Some(parity) => {
                parity_of((0..k).map(|index| self.data_unit(index)), parity, self.unit_bytes)
            }
        }
    }

    fn pad(&self) -> u8 {
        (usize::from(self.k) * self.unit_bytes - self.data.len()) as u8
    }

    fn done(&self, outcome: PacketOutcome) -> PacketDone {
        PacketDone { id: self.packet, outcome, attempts: self.attempts, air_time: self.air }
    }
}

/// Units of a block that are sent at once.
#[derive(Debug)]
struct Burst {
    block: u64,
    is_first: bool,
    units: Vec<u8>,
    given: usize,
    ended: usize,
    /// When the last of its units left the radio.
    over: Option<Instant>,
}

/// A unit to be sent.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) header: Unit,
    pub(super) body: Vec<u8>,
    pub(super) options: TxOptions,
}

/// Counters of the sender, for the status.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sent {
    pub(super) delivered: u64,
    pub(super) failed: u64,
    pub(super) bytes: u64,
    /// Bursts of the packets that were delivered or failed.
    pub(super) bursts: u64,
}

/// The sending side of one neighbour.
#[derive(Debug)]
pub(super) struct Sender {
    pub(super) settings: Settings,
    pub(super) estimate: Estimate,
    patience: Patience,
    next_block: u64,
    next_burst: u64,
    blocks: BTreeMap<u64, Block>,
    /// Bursts that have not been reported.
    bursts: BTreeMap<u64, Burst>,
    /// Blocks that need another burst.
    again: VecDeque<u64>,
    /// Whether missing reports are to be asked for.
    asks: bool,
    /// Whether the receiver must be told that it waits for a packet that will not arrive.
    owes_base: bool,
    /// The last probe that told it, and when it was sent; until a report of it or of a later burst
    /// arrives.
    told: Option<(u64, Instant)>,
    asked: u32,
    asked_at: Instant,
    /// The probe whose report measures how long feedback takes, and when it was sent.
    probed: Option<(u64, Instant)>,
    /// Bursts before this one may have been sent while nobody was there, so their complete loss
    /// says nothing about later ones. After a start this applies to all bursts until a unit of one
    /// is reported as received.
    heard_from: u64,
    pub(super) sent: Sent,
    /// Frames of feedback with new reports.
    pub(super) heeded: u64,
}

impl Sender {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            settings,
            estimate: Estimate::new(&settings),
            patience: Patience::default(),
            next_block: 0,
            next_burst: 0,
            blocks: BTreeMap::new(),
            bursts: BTreeMap::new(),
            again: VecDeque::new(),
            asks: false,
            owes_base: false,
            told: None,
            asked: 0,
            asked_at: Instant::ZERO,
            probed: None,
            heard_from: u64::MAX,
            sent: Sent::default(),
            heeded: 0,
        }
    }

    /// The oldest unfinished block.
    fn base(&self) -> u64 {
        self.blocks.first_key_value().map_or(self.next_block, |(block, _)| *block)
    }

    /// Whether nothing was ever sent.
    pub(super) fn is_new(&self) -> bool {
        self.next_block == 0 && self.next_burst == 0
    }

    /// Unfinished packets.
    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Whether another burst may begin.
    fn may_burst(&self) -> bool {
        let oldest = self.bursts.first_key_value().map_or(self.next_burst, |(burst, _)| *burst);
        self.asked < SILENT && self.bursts.len() < UNREPORTED && self.next_burst - oldest < BURSTS
    }

    /// Whether another packet may begin.
    pub(super) fn may_start(&self) -> bool {
        self.next_block - self.base() < u64::from(WINDOW) && self.may_burst()
    }

    /// Whether nothing has been heard for so long that others should not wait because of this
    /// neighbour.
    pub(super) fn is_in_the_way(&self) -> bool {
        self.asked >= IN_THE_WAY
    }

    /// Whether a block needs another burst, and may send it.
    pub(super) fn may_repair(&self) -> bool {
        !self.again.is_empty() && self.may_burst()
    }

    pub(super) fn owes_probe(&self) -> bool {
        self.asks || self.owes_base
    }

    /// Begins to send a packet; `data` is its content as it is sent. Returns the number of its
    /// burst.
    pub(super) fn start(&mut self, packet: &Packet, data: Bytes) -> u64 {
        let units = self.settings.units;
        let parity = match self.settings.scheme {
            Scheme::Parity { .. } => self.estimate.parity(),
            Scheme::Repeat(_) => 0,
        };
        let k = units - parity;
        let block = Block {
            packet: packet.id,
            bytes: packet.payload.len(),
            unit_bytes: data.len().div_ceil(k.into()).max(1),
            data,
            protocol: packet.protocol,
            k,
            first_parity: parity,
            parity,
            attempts: 0,
            needs: k,
            lacks: u32::MAX,
            air: Duration::ZERO,
            options: packet.options,
        };
        let number = self.next_block;
        self.next_block += 1;
        self.blocks.insert(number, block);
        self.burst(number, (0..units).collect())
    }

    /// Begins the next burst of a block that needs one.
    pub(super) fn repair(&mut self) -> Option<u64> {
        let number = self.again.pop_front()?;
        let block = self.blocks.get_mut(&number).expect("only blocks that are left wait");
        let units = match self.settings.scheme {
            Scheme::Repeat(Resend::All) => (0..block.k).collect(),
            Scheme::Repeat(Resend::Missing) => {
                (0..block.k).filter(|index| block.lacks >> index & 1 == 1).collect()
            }
            Scheme::Parity { .. } => {
                let count = self.estimate.repair(block.needs, block.first_parity);
                let first = block.k + block.parity;
                block.parity = block.parity.saturating_add(count).min(MAX_PARITY);
                (first..block.k + block.parity).collect()
            }
        };
        Some(self.burst(number, units))
    }

    fn burst(&mut self, block: u64, units: Vec<u8>) -> u64 {
        assert!(!units.is_empty(), "a burst of nothing");
        let known = self.blocks.get_mut(&block).expect("its block is there");
        known.attempts += 1;
        let is_first = known.attempts == 1;
        let burst = Burst { block, is_first, units, given: 0, ended: 0, over: None };
        let number = self.next_burst;
        self.next_burst += 1;
        self.bursts.insert(number, burst);
        // Units tell the base too, and their reports are asked for until they arrive.
        (self.owes_base, self.told) = (false, None);
        number
    }

    /// Whether units of a burst remain to be sent.
    pub(super) fn is_going(&self, burst: u64) -> bool {
        self.bursts.get(&burst).is_some_and(|known| known.given < known.units.len())
    }

    /// The next unit of a burst.
    pub(super) fn next_unit(&mut self, number: u64) -> Option<Outgoing> {
        let base = self.base();
        let burst = self.bursts.get_mut(&number)?;
        let index = *burst.units.get(burst.given)?;
        burst.given += 1;
        let block = self.blocks.get(&burst.block)?;
        let header = Unit {
            is_first: burst.is_first,
            burst: number as u32,
            block: burst.block as u32,
            back: (burst.block - base) as u16,
            index,
            k: block.k,
            left: (burst.units.len() - burst.given) as u8,
            pad: block.pad(),
            protocol: block.protocol,
        };
        let options = TxOptions { burst: burst.given > 1, ..block.options };
        Some(Outgoing { header, body: block.unit(index), options })
    }

    /// A unit has left the radio, or was not sent.
    pub(super) fn on_unit_done(&mut self, now: Instant, burst: u64, air: Duration) {
        let Some(burst) = self.bursts.get_mut(&burst) else { return };
        burst.ended += 1;
        if burst.ended == burst.units.len() {
            burst.over = Some(now);
        }
        if let Some(block) = self.blocks.get_mut(&burst.block) {
            block.air += air;
        }
    }

    /// A probe that asks for missing reports.
    pub(super) fn probe(&mut self, now: Instant) -> Probe {
        if std::mem::take(&mut self.owes_base) {
            self.told = Some((self.next_burst, now));
        }
        self.asks = false;
        let asks = self.bursts.first_key_value().map_or(self.next_burst, |(burst, _)| *burst);
        let burst = self.next_burst;
        self.next_burst += 1;
        self.probed.get_or_insert((burst, now));
        Probe { burst: burst as u32, base: self.base() as u32, asks: asks as u32 }
    }

    /// Evaluates feedback. Packets that have ended are added to `out`.
    pub(super) fn on_feedback(
        &mut self,
        now: Instant,
        reports: &[Report],
        out: &mut Vec<PacketDone>,
    ) {
        let before = self.bursts.len();
        for report in reports {
            let number = expand(report.burst, self.next_burst);
            if self.told.is_some_and(|(probe, _)| (probe..self.next_burst).contains(&number)) {
                (self.told, self.asked) = (None, 0);
            }
            if let Some((probe, went)) = self.probed.take_if(|(probe, _)| *probe <= number)
                && probe == number
            {
                self.patience.on_sample(now.since(went));
            }
            let Some(burst) = self.bursts.remove(&number) else { continue };
            self.asked = 0;
            // Otherwise an earlier report may have been lost, and the time would not be that of
            // feedback.
            if let Some(over) = burst.over.filter(|over| self.asked_at <= *over) {
                self.patience.on_sample(now.since(over));
            }
            if report.came > 0 && self.heard_from == u64::MAX {
                self.heard_from = number;
            }
            if burst.is_first && (report.came > 0 || number >= self.heard_from) {
                self.estimate.on_sample(report.came, burst.units.len());
            }
            self.on_report(burst.block, report, out);
        }
        self.heeded += u64::from(self.bursts.len() < before);
    }

    fn on_report(&mut self, number: u64, report: &Report, out: &mut Vec<PacketDone>) {
        let block = self.blocks.get_mut(&number).expect("a block outlives its bursts");
        match report.needs {
            0 => return self.finish(number, PacketOutcome::Delivered, out),
            GIVEN_UP => return self.finish(number, PacketOutcome::Failed, out),
            UNKNOWN => {}
            needs => {
                block.needs = needs.min(block.k);
                // A report that names no units would leave nothing to send.
                let all = u32::MAX >> (32 - u32::from(block.k));
                let lacks = report.lacks & all;
                block.lacks = if lacks == 0 { all } else { lacks };
            }
        }
        let has_parity = match self.settings.scheme {
            Scheme::Parity { .. } => block.parity < MAX_PARITY,
            Scheme::Repeat(_) => true,
        };
        if block.attempts < self.settings.attempts && has_parity {
            self.again.push_back(number);
        } else {
            self.finish(number, PacketOutcome::Failed, out);
        }
    }

    fn finish(&mut self, number: u64, outcome: PacketOutcome, out: &mut Vec<PacketDone>) {
        let block = self.blocks.remove(&number).expect("it was there");
        self.sent.bursts += u64::from(block.attempts);
        if outcome == PacketOutcome::Delivered {
            self.sent.delivered += 1;
            self.sent.bytes += block.bytes as u64;
        } else {
            self.sent.failed += 1;
            // The receiver waits for this block until it is told otherwise.
            self.owes_base = true;
        }
        out.push(block.done(outcome));
    }

    /// Gives up the packet of a burst; returns its id if it was unfinished.
    pub(super) fn drop_packet_of(&mut self, burst: u64) -> Option<UnitId> {
        let block = self.bursts.remove(&burst)?.block;
        let mut done = Vec::new();
        self.finish(block, PacketOutcome::Failed, &mut done);
        done.pop().map(|done| done.id)
    }

    /// Gives up all unfinished packets.
    pub(super) fn fail_all(&mut self, out: &mut Vec<PacketDone>) {
        self.bursts.clear();
        self.again.clear();
        // No reports are left to ask for: only new packets will show whether the neighbour is
        // there.
        (self.told, self.asked) = (None, 0);
        let blocks: Vec<u64> = self.blocks.keys().copied().collect();
        blocks.into_iter().for_each(|block| self.finish(block, PacketOutcome::Failed, out));
    }

    /// When the next probe is due: for the oldest unreported burst, or to repeat the last base.
    pub(super) fn due(&self) -> Option<Instant> {
        let since = match self.bursts.first_key_value() {
            Some((_, oldest)) => oldest.over?,
            None => self.told?.1,
        };
        Some(since.max(self.asked_at) + self.patience.time(self.asked))
    }

    /// Prepares a probe if one is due. Returns whether the neighbour counts as gone.
    pub(super) fn on_timeout(&mut self, now: Instant, out: &mut Vec<PacketDone>) -> bool {
        if self.due().is_none_or(|due| due > now) {
            return false;
        }
        self.asked_at = now;
        self.asked += 1;
        self.asks = true;
        if self.asked >= SILENT {
            self.heard_from = self.next_burst;
        }
        let is_gone = self.asked > PROBES;
        if is_gone {
            // It is probed until it answers.
            self.owes_base = true;
            let is_over = |burst: &Burst| burst.over.is_some();
            let over = self.bursts.extract_if(.., |_, burst| is_over(burst));
            let blocks: Vec<u64> = over.map(|(_, burst)| burst.block).collect();
            blocks.into_iter().for_each(|block| self.finish(block, PacketOutcome::Failed, out));
        }
        is_gone
    }
}
