//! The air: transmissions on their way, what every radio senses of them, and all future events.
//!
//! A transmission passes along the list of its radio's hearers twice, with its start and with its
//! end; its own radio handles the end before them. It has one place in the event queue, which moves
//! on from delay to delay, so that hearers at the same distance cost no further event, and then
//! from the start to the end. It has two places only if it ends at some hearers before it begins at
//! others. For a hearer that only senses it, nothing but that radio's ear is touched. A
//! transmission keeps the list of hearers that it set out with, so links may change meanwhile.
//! Transmissions live in a slab and are freed when their end has passed the last hearer.

use std::collections::VecDeque;
use std::rc::Rc;

use farhop_proto::base::{Bitrate, Dbm, Duration, FrameUp, Instant, NodeId, Phy, PhyKind, Seed};
use farhop_proto::stack::SinrSettings;

use super::config::{Interference, MediumConfig};
use super::heard::Heard;
use super::links::{Hearer, Link, Links, Reach, weakest};
use super::loss::{Exposed, Fate, FateRecord};
use super::medium::MediumEvent;
use super::queue::{EventQueue, Order};
use super::reception::{Ear, Errors, Receiver, Weakest};
use super::transmission::{Mpdu, Transmission};

/// The timers of one radio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// The end of the gap, the backoff or the SIFS within an exchange, or a frame's `not_before`
    /// time.
    Access,
    /// It is too late for an answer to arrive.
    AckTimeout,
    /// SIFS after a frame that asks for an answer.
    Reply,
    /// Nothing has followed an overheard RTS.
    Nav,
}

/// Number of timers of each radio.
pub(super) const TIMERS: usize = 4;

impl Timer {
    pub(super) const ALL: [Self; TIMERS] = [Self::Access, Self::AckTimeout, Self::Reply, Self::Nav];
}

/// Index in [`Held::order`] of the end at the transmitter; 0 and 1 are the start and the end.
const OWN: usize = 2;

/// Index of a transmission in the slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TxId(u32);

#[derive(Debug)]
struct Held {
    transmission: Transmission,
    hearers: Rc<[Hearer]>,
    /// How many hearers the start and the end have passed.
    passed: [u32; 2],
    /// Their places in the order of events, and that of the end at the transmitter.
    order: [Order; 3],
    /// The end has passed the transmitter, or the transmitter was switched off before it.
    has_left: bool,
    /// The end may arrive before the start has passed all hearers, so both need an event.
    is_split: bool,
    /// The start has passed all hearers, and the event is that of the end.
    is_ending: bool,
    /// Index of its mode in `Air::errors`, under summed interference.
    mode: u32,
    /// The weakest signal at which it can be decoded, if that depends on the rate.
    weakest: Dbm,
    /// The transmitter was switched off before the end.
    is_cut_off: bool,
}

impl Held {
    fn sent_at(&self, is_end: bool) -> Instant {
        if is_end { self.transmission.end } else { self.transmission.start }
    }

    /// When the start or the end reaches its next stop (a hearer, or for the end first the
    /// transmitter), and its place in the order of events.
    fn next_edge(&self, is_end: bool) -> Option<(Instant, Order)> {
        if is_end && !self.has_left {
            return Some((self.transmission.end, self.order[OWN]));
        }
        let hearer = self.hearers.get(self.passed[usize::from(is_end)] as usize)?;
        Some((self.sent_at(is_end) + hearer.delay, self.order[usize::from(is_end)]))
    }
}

/// A hearer whose radio must handle a start or an end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    /// Its position in the list of hearers.
    pub(super) place: u32,
    /// The medium becomes busy with the start, or idle with the end.
    pub(super) is_turn: bool,
    /// The signal itself matters too, not only that the medium turns busy or idle.
    pub(super) is_signal: bool,
}

/// The hearers of a group whose radios must handle a start or an end.
#[derive(Debug)]
pub(super) struct Calls {
    list: [Call; Self::MOST],
    count: usize,
}

impl Calls {
    /// A larger group is passed in parts of this size.
    const MOST: usize = 16;

    pub(super) const fn new() -> Self {
        Self { list: [Call { place: 0, is_turn: false, is_signal: false }; Self::MOST], count: 0 }
    }

    pub(super) fn as_slice(&self) -> &[Call] {
        &self.list[..self.count]
    }
}

/// The air and its events.
#[derive(Debug)]
pub(super) struct Air {
    pub(super) queue: EventQueue,
    /// By radio; those of wires sense nothing.
    ears: Vec<Ear>,
    pub(super) links: Links,
    slab: Vec<Held>,
    free: Vec<u32>,
    /// Empty lists for the frames of A-MPDUs, for reuse.
    pub(super) spare: Vec<Vec<Mpdu>>,
    pub(super) reports: VecDeque<MediumEvent>,
    pub(super) is_recording: bool,
    pub(super) recorded: VecDeque<Transmission>,
    /// Fates of frames, if they are recorded.
    pub(super) fates: Option<VecDeque<FateRecord>>,
    /// Arrivals at one node, if they are recorded.
    pub(super) heard: Option<Heard>,
    pub(super) frames_on_air: u64,
    /// Starts and ends that have passed all their hearers, counted once for each hearer.
    pub(super) passes: u64,
    pub(super) trace_hash: u64,
    /// Error curves of the modes met so far, under summed interference.
    errors: Vec<(Phy, Bitrate, Errors)>,
    /// Settings of the receivers under summed interference.
    sinr: SinrSettings,
    /// The weakest preamble that any receiver detects under summed interference, whatever the
    /// noise.
    pub(super) preamble_min: Dbm,
    /// Signals too weak to be sensed count too, as interference.
    sums_energy: bool,
    /// Some receivers need a stronger signal for higher rates.
    receives_by_rate: bool,
}

impl Air {
    /// Panics if a link names a radio that does not exist, or leads from a radio to itself.
    pub(super) fn new(config: &MediumConfig, seed: Seed) -> Self {
        let sinr = match config.interference {
            Interference::Sinr(sinr) => Some(sinr),
            Interference::Threshold => None,
        };
        let given = sinr.and_then(|sinr| sinr.preamble_min_dbm);
        let weakest = sinr.map(|sinr| Weakest::of(&sinr, &config.radios)).unwrap_or_default();
        let summed = sinr.as_ref().map(|sinr| (sinr, &weakest));
        Self {
            queue: EventQueue::new(config.radios.len() * TIMERS),
            ears: config.radios.iter().map(|radio| Receiver::ear(radio, summed)).collect(),
            links: Links::new(config, seed),
            slab: Vec::new(),
            free: Vec::new(),
            spare: Vec::new(),
            reports: VecDeque::new(),
            is_recording: false,
            recorded: VecDeque::new(),
            fates: None,
            heard: None,
            frames_on_air: 0,
            passes: 0,
            trace_hash: 0xcbf2_9ce4_8422_2325,
            errors: Vec::new(),
            sinr: sinr.unwrap_or_default(),
            preamble_min: given.map_or(Dbm::new(-1_000), Dbm::from_f64),
            sums_energy: sinr.is_some(),
            receives_by_rate: sinr.is_none()
                && config.radios.iter().any(|radio| radio.receives_by_rate),
        }
    }

    /// The sensing state of a radio.
    pub(super) fn ear(&self, radio: usize) -> &Ear {
        &self.ears[radio]
    }

    pub(super) fn ear_mut(&mut self, radio: usize) -> &mut Ear {
        &mut self.ears[radio]
    }

    pub(super) fn set_timer(&mut self, radio: usize, timer: Timer, at: Instant) {
        self.queue.set(radio * TIMERS + timer as usize, at);
    }

    pub(super) fn cancel_timer(&mut self, radio: usize, timer: Timer) {
        self.queue.cancel(radio * TIMERS + timer as usize);
    }

    pub(super) fn report(&mut self, radio: usize, at: Instant, event: FrameUp) {
        self.reports.push_back(MediumEvent { radio, at, event });
    }

    pub(super) fn transmission(&self, tx: TxId) -> &Transmission {
        &self.slab[tx.0 as usize].transmission
    }

    /// Whether a link can be decoded and never loses a frame, and no records are kept.
    pub(super) fn loses_nothing(&self, link: u32) -> bool {
        let link = self.links.get(link);
        link.loss.is_none() && link.is_up && self.fates.is_none() && self.heard.is_none()
    }

    /// Records the end of a transmission that a radio of `node` had locked on to.
    pub(super) fn tell_heard(&mut self, node: NodeId, tx: TxId, decoded: u64) {
        if let Some(heard) = &mut self.heard {
            heard.add(node, &self.slab[tx.0 as usize].transmission, decoded);
        }
    }

    /// Draws the fate of a transmission that began to arrive at `start`, or of one of its MPDUs,
    /// from the losses of a link. The first MPDU includes the preamble and the header of all.
    pub(super) fn fate(&mut self, link: u32, tx: TxId, start: Instant, place: usize) -> Fate {
        if self.fates.is_none() && self.links.get(link).loss.is_none() {
            return Fate::Ok;
        }
        let transmission = &self.slab[tx.0 as usize].transmission;
        let whole = transmission.end - transmission.start;
        let phy = self.links.phy(transmission.radio);
        let is_wire = phy.kind == PhyKind::Wire;
        let plcp = phy.plcp(transmission.rate).min(whole);
        let mpdu = transmission.mpdus().get(place);
        let span = mpdu.map(|mpdu| (mpdu.from, mpdu.until));
        let (from, until) = match span {
            None => (Duration::ZERO, whole),
            Some((_, until)) if place == 0 => (Duration::ZERO, until),
            Some(span) => span,
        };
        let plcp = if place == 0 { plcp } else { Duration::ZERO };
        let length = until.saturating_sub(from);
        let seconds = length.saturating_sub(plcp).as_secs_f64();
        let bytes = match mpdu.map(|mpdu| mpdu.bytes).or_else(|| transmission.mpdu_bytes()) {
            Some(bytes) if !is_wire => bytes as u32,
            // On a wire only bytes that take air time count, which may be fewer than the frame has.
            _ => (seconds * transmission.rate.bps() as f64 / 8.0 + 0.5) as u32,
        };
        // Short MPDUs may begin in the same symbol; times must differ, as a recorded fate is found
        // by its time.
        let start = start + from + Duration::from_nanos(place as u64);
        // A frame that takes no time on a wire ends when the next begins.
        let start =
            if whole.is_zero() { start.saturating_sub(Duration::from_nanos(1)) } else { start };
        let frame = Exposed { start, length, plcp, bytes, rate: transmission.rate };
        let from = transmission.radio;
        let Link { to, loss, .. } = self.links.get_mut(link);
        let fate = loss.as_mut().map_or(Fate::Ok, |loss| loss.lost(&frame));
        if let Some(fates) = &mut self.fates {
            fates.push_back(FateRecord { from, to: *to as usize, at: frame.start, fate });
        }
        fate
    }

    /// How the parts of a transmission fail under interference.
    pub(super) fn errors(&self, tx: TxId) -> &Errors {
        &self.errors[self.slab[tx.0 as usize].mode as usize].2
    }

    /// Index of a mode in `errors`; adds it if it is new.
    fn mode(&mut self, phy: Phy, rate: Bitrate) -> u32 {
        let known = self.errors.iter().position(|known| (known.1, known.0) == (rate, phy));
        known.unwrap_or_else(|| {
            self.errors.push((phy, rate, Errors::of(phy, rate, &self.sinr)));
            self.errors.len() - 1
        }) as u32
    }

    /// Puts a transmission on the air.
    pub(super) fn transmit(&mut self, transmission: Transmission) {
        self.frames_on_air += 1;
        self.fold(&transmission);
        if self.is_recording {
            self.recorded.push_back(transmission.clone());
        }
        let hearers = Rc::clone(self.links.hearers(transmission.radio, transmission.rate));
        let own = self.queue.take_order();
        let order = [self.queue.take_order(), self.queue.take_order(), own];
        let phy = self.links.phy(transmission.radio);
        let mode = if self.sums_energy { self.mode(phy, transmission.rate) } else { 0 };
        let weakest = match self.receives_by_rate {
            true => weakest(&phy, transmission.rate),
            false => Dbm::new(-1_000),
        };
        let length = transmission.end - transmission.start;
        let held = Held {
            is_split: hearers.last().is_some_and(|last| last.delay >= length),
            is_ending: hearers.is_empty(),
            has_left: false,
            transmission,
            hearers,
            passed: [0, 0],
            order,
            mode,
            weakest,
            is_cut_off: false,
        };
        let (is_split, is_ending) = (held.is_split, held.is_ending);
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slab[slot as usize] = held;
                slot
            }
            None => {
                self.slab.push(held);
                self.queue.grow(self.ears.len() * TIMERS + self.slab.len() * 2);
                self.slab.len() as u32 - 1
            }
        };
        self.set_edge(TxId(slot), is_ending);
        if is_split {
            self.set_edge(TxId(slot), true);
        }
    }

    /// At the first call for the end of a transmission, returns its own radio, which handles the
    /// end before the hearers do.
    pub(super) fn leave(&mut self, tx: TxId, is_end: bool) -> Option<usize> {
        let held = &mut self.slab[tx.0 as usize];
        (is_end && !std::mem::replace(&mut held.has_left, true)).then_some(held.transmission.radio)
    }

    /// Sets the event at which a start or an end reaches its next stop, or removes it after the
    /// last.
    fn set_edge(&mut self, tx: TxId, is_end: bool) {
        let held = &self.slab[tx.0 as usize];
        let second = usize::from(is_end && held.is_split);
        let handle = self.ears.len() * TIMERS + tx.0 as usize * 2 + second;
        match held.next_edge(is_end) {
            Some((at, order)) => self.queue.set_in_order(handle, at, order),
            None => self.queue.cancel(handle),
        }
    }

    /// The transmission of an event, and whether it is its end; `None` for the timer of a radio.
    pub(super) fn edge(&self, handle: usize) -> Option<(TxId, bool)> {
        let place = handle.checked_sub(self.ears.len() * TIMERS)?;
        let is_end = place % 2 == 1 || self.slab[place / 2].is_ending;
        Some((TxId((place / 2) as u32), is_end))
    }

    /// Whether the start or the end of a transmission has not reached anybody yet.
    pub(super) fn is_first(&self, tx: TxId, is_end: bool) -> bool {
        let held = &self.slab[tx.0 as usize];
        if is_end { !held.has_left } else { held.passed[0] == 0 }
    }

    /// Those whom a transmission reaches, nearest first.
    pub(super) fn hearers(&self, tx: TxId) -> &Rc<[Hearer]> {
        &self.slab[tx.0 as usize].hearers
    }

    /// The place of a start or an end in the order of events.
    pub(super) fn order(&self, tx: TxId, is_end: bool) -> Order {
        self.slab[tx.0 as usize].order[usize::from(is_end)]
    }

    /// Lets a start or an end reach the hearers at `at`, that is, those at one distance. `calls`
    /// becomes the list of hearers whose radios must handle it; for the others, all is done here.
    ///
    /// Whether a radio must handle it is as unpredictable as a coin toss, so the code avoids
    /// branches. A radio that handles it touches no other ear.
    pub(super) fn pass(&mut self, tx: TxId, is_end: bool, at: Instant, calls: &mut Calls) {
        if is_end {
            self.pass_on::<true>(tx, at, calls);
        } else {
            self.pass_on::<false>(tx, at, calls);
        }
    }

    #[inline(never)]
    fn pass_on<const IS_END: bool>(&mut self, tx: TxId, at: Instant, calls: &mut Calls) {
        let held = &mut self.slab[tx.0 as usize];
        let delay = at.since(held.sent_at(IS_END));
        let passed = &mut held.passed[usize::from(IS_END)];
        let ears = &mut self.ears[..];
        let Calls { list, count } = calls;
        let (mut place, mut called) = (*passed, 0);
        let until = held.hearers.len().min(place as usize + Calls::MOST);
        for hearer in &held.hearers[place as usize..until] {
            if hearer.delay != delay {
                break;
            }
            let ear = &mut ears[hearer.radio as usize];
            let is_signal = !matches!(hearer.reach, Reach::Energy) | ear.is_receiving;
            let is_turn = ear.hear::<IS_END>(at, hearer.power);
            list[called % Calls::MOST] = Call { place, is_turn, is_signal };
            called += usize::from(is_signal | (is_turn & ear.is_waiting));
            place += 1;
        }
        (*passed, *count) = (place, called);
    }

    /// Moves a start or an end on from the hearers that it has reached. Returns when it reaches the
    /// next, if that is no later than `until` and before all other events; otherwise it sets an
    /// event for that time. A transmission whose end has passed everybody is freed.
    pub(super) fn go_on(&mut self, tx: TxId, is_end: bool, until: Instant) -> Option<Instant> {
        let held = &mut self.slab[tx.0 as usize];
        if let Some((next, order)) = held.next_edge(is_end) {
            if next <= until && self.queue.would_be_next(next, order) {
                return Some(next);
            }
            self.set_edge(tx, is_end);
            return None;
        }
        self.passes += held.hearers.len() as u64;
        held.is_ending |= !is_end && !held.is_split;
        let is_ending = held.is_ending;
        self.set_edge(tx, is_end || is_ending);
        if is_end {
            self.free(tx);
        }
        None
    }

    /// Places for transmissions, taken or free.
    #[cfg(test)]
    pub(super) fn places(&self) -> usize {
        self.slab.len()
    }

    /// Makes room for another transmission in the place of one whose end has passed everybody.
    fn free(&mut self, tx: TxId) {
        let spare = self.slab[tx.0 as usize].transmission.forget_payload();
        self.spare.extend(spare);
        self.free.push(tx.0);
    }

    /// Ends what a radio has on air, as its transmitter was switched off. Nobody can decode it.
    pub(super) fn cut_off(&mut self, radio: usize, now: Instant) {
        for slot in 0..self.slab.len() {
            let held = &mut self.slab[slot];
            if held.transmission.radio != radio || held.has_left {
                continue;
            }
            held.has_left = true;
            if held.transmission.end > now {
                held.transmission.end = now;
                held.is_cut_off = true;
                held.is_split |= !held.is_ending;
            }
            let is_unheard = held.next_edge(true).is_none();
            self.set_edge(TxId(slot as u32), true);
            if is_unheard {
                self.free(TxId(slot as u32));
            }
        }
    }

    /// The weakest signal at which a transmission can be decoded, if that depends on its rate.
    pub(super) fn weakest(&self, tx: TxId) -> Dbm {
        self.slab[tx.0 as usize].weakest
    }

    /// Whether a transmission was cut off.
    pub(super) fn is_cut_off(&self, tx: TxId) -> bool {
        self.slab[tx.0 as usize].is_cut_off
    }

    /// Folds a transmission into the hash by which two runs are compared.
    fn fold(&mut self, transmission: &Transmission) {
        let kind = transmission.fingerprint();
        let words =
            [transmission.start.as_nanos(), transmission.end.as_nanos(), transmission.radio as u64];
        for word in words.into_iter().chain([kind]) {
            self.trace_hash =
                (self.trace_hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
    }
}
