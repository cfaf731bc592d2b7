//! The air: what is on its way, what all radios sense of it, and their future events.
//!
//! A transmission passes twice along the list of those who hear its radio, with its start and with
//! its end, which its own radio is told of first. It has one place in the event queue, which moves
//! on from delay to delay, so that hearers at one distance cost no further event, and from the
//! start to the end; two only where it is over at some before it begins at others. Where a hearer
//! only senses it, its ear is all that is touched. Transmissions keep the list that they set out
//! with, so that links may change meanwhile; they live in a slab and are freed when their end has
//! passed the last hearer.

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
    /// The end of the gap or the backoff, or the time before which a frame must not go.
    Access,
    /// No acknowledgement can come any more.
    AckTimeout,
    /// SIFS after a frame that wants an acknowledgement.
    Reply,
    /// Nothing has followed an overheard RTS.
    Nav,
}

/// Timers of each radio.
pub(super) const TIMERS: usize = 4;

impl Timer {
    pub(super) const ALL: [Self; TIMERS] = [Self::Access, Self::AckTimeout, Self::Reply, Self::Nav];
}

/// The order of the end at the transmitter, behind those of the start and of the end.
const OWN: usize = 2;

/// Names a transmission in the slab.
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
    /// The end has passed the transmitter, or never will, since that was switched off.
    has_left: bool,
    /// The end is there before the start has passed all, so that both need an event.
    is_split: bool,
    /// The start has passed all hearers, and the event is that of the end.
    is_ending: bool,
    /// Which of the modes met so far it has, where interference adds up.
    mode: u32,
    /// The weakest signal of it that can be decoded, where that hangs on the rate.
    weakest: Dbm,
    /// The transmitter was switched off before the end.
    is_cut_off: bool,
}

impl Held {
    fn sent_at(&self, is_end: bool) -> Instant {
        if is_end { self.transmission.end } else { self.transmission.start }
    }

    /// When the start or the end reaches the next hearer, or the end the transmitter, and the place
    /// of that in the order of events.
    fn next_edge(&self, is_end: bool) -> Option<(Instant, Order)> {
        if is_end && !self.has_left {
            return Some((self.transmission.end, self.order[OWN]));
        }
        let hearer = self.hearers.get(self.passed[usize::from(is_end)] as usize)?;
        Some((self.sent_at(is_end) + hearer.delay, self.order[usize::from(is_end)]))
    }
}

/// One of those whose radios have to know of a start or an end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    /// Its place in the list of hearers.
    pub(super) place: u32,
    /// The medium has become busy with the start, or idle with the end.
    pub(super) is_turn: bool,
    /// There is more to it than that.
    pub(super) is_signal: bool,
}

/// Those of a group of hearers whose radios have to know of a start or an end.
#[derive(Debug)]
pub(super) struct Calls {
    list: [Call; Self::MOST],
    count: usize,
}

impl Calls {
    /// Of a larger group the rest follows as if it stood behind.
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
    /// By radio; those of wires hear nothing.
    ears: Vec<Ear>,
    pub(super) links: Links,
    slab: Vec<Held>,
    free: Vec<u32>,
    /// Empty lists for the frames of an A-MPDU.
    pub(super) spare: Vec<Vec<Mpdu>>,
    pub(super) reports: VecDeque<MediumEvent>,
    pub(super) is_recording: bool,
    pub(super) recorded: VecDeque<Transmission>,
    /// What became of frames, while that is recorded.
    pub(super) fates: Option<VecDeque<FateRecord>>,
    /// What one node makes of what arrives, while that is wanted.
    pub(super) heard: Option<Heard>,
    pub(super) frames_on_air: u64,
    /// Starts and ends that have reached each of their hearers, counted for each.
    pub(super) passes: u64,
    pub(super) trace_hash: u64,
    /// How the modes met so far fail.
    errors: Vec<(Phy, Bitrate, Errors)>,
    /// How receivers judge them, where interference adds up.
    sinr: SinrSettings,
    /// No weaker preamble is detected there, whatever the noise.
    pub(super) preamble_min: Dbm,
    /// Energy that nobody senses counts too, as interference.
    sums_energy: bool,
    /// Some receivers compare signals with what their rate asks for.
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

    /// What a radio senses.
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

    /// Whether all frames come over a link that can be decoded, and nobody wants to know.
    pub(super) fn loses_nothing(&self, link: u32) -> bool {
        let link = self.links.get(link);
        link.loss.is_none() && link.is_up && self.fates.is_none() && self.heard.is_none()
    }

    /// A radio of a node had locked on to a transmission that has ended now.
    pub(super) fn tell_heard(&mut self, node: NodeId, tx: TxId, decoded: u64) {
        if let Some(heard) = &mut self.heard {
            heard.add(node, &self.slab[tx.0 as usize].transmission, decoded);
        }
    }

    /// What the losses of a link make of a transmission that began to arrive at `start`, or of one
    /// of its MPDUs. The first of those has the preamble and the header of all.
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
            // On a wire only what takes time counts, which may not be all of a frame.
            _ => (seconds * transmission.rate.bps() as f64 / 8.0 + 0.5) as u32,
        };
        // Short MPDUs may begin in one symbol: a recorded fate is found again by its time.
        let start = start + from + Duration::from_nanos(place as u64);
        let frame = Exposed { start, length, plcp, bytes, rate: transmission.rate };
        let from = transmission.radio;
        let Link { to, loss, .. } = self.links.get_mut(link);
        let fate = loss.as_mut().map_or(Fate::Ok, |loss| loss.lost(&frame));
        if let Some(fates) = &mut self.fates {
            fates.push_back(FateRecord { from, to: *to as usize, at: frame.start, fate });
        }
        fate
    }

    /// How a transmission fails under interference.
    pub(super) fn errors(&self, tx: TxId) -> &Errors {
        &self.errors[self.slab[tx.0 as usize].mode as usize].2
    }

    /// The place of a mode among those met so far.
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

    /// Whose transmission it is that ends now, before anybody else knows of that.
    pub(super) fn leave(&mut self, tx: TxId, is_end: bool) -> Option<usize> {
        let held = &mut self.slab[tx.0 as usize];
        (is_end && !std::mem::replace(&mut held.has_left, true)).then_some(held.transmission.radio)
    }

    /// Sets the event at which a start or an end reaches the next hearer.
    fn set_edge(&mut self, tx: TxId, is_end: bool) {
        let held = &self.slab[tx.0 as usize];
        let second = usize::from(is_end && held.is_split);
        let handle = self.ears.len() * TIMERS + tx.0 as usize * 2 + second;
        match held.next_edge(is_end) {
            Some((at, order)) => self.queue.set_in_order(handle, at, order),
            None => self.queue.cancel(handle),
        }
    }

    /// Which start or end the event of a handle is; `None` for the timer of a radio.
    pub(super) fn edge(&self, handle: usize) -> Option<(TxId, bool)> {
        let place = handle.checked_sub(self.ears.len() * TIMERS)?;
        let is_end = place % 2 == 1 || self.slab[place / 2].is_ending;
        Some((TxId((place / 2) as u32), is_end))
    }

    /// Whether the start or the end of a transmission has reached nobody yet.
    pub(super) fn is_first(&self, tx: TxId, is_end: bool) -> bool {
        let held = &self.slab[tx.0 as usize];
        if is_end { !held.has_left } else { held.passed[0] == 0 }
    }

    /// Those whom a transmission reaches.
    pub(super) fn hearers(&self, tx: TxId) -> &Rc<[Hearer]> {
        &self.slab[tx.0 as usize].hearers
    }

    /// The place of a start or an end in the order of events.
    pub(super) fn order(&self, tx: TxId, is_end: bool) -> Order {
        self.slab[tx.0 as usize].order[usize::from(is_end)]
    }

    /// Lets a start or an end reach the hearers at `at`, which are those at one distance. Whose
    /// radio has to know goes to `calls`; for the others it was all done.
    ///
    /// Whether a radio has to know is as good as drawn by lot, so that is written down without
    /// branches. What a radio does then touches no other ear.
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

    /// Has a start or an end go on from those whom it has reached. Returns when it reaches the
    /// next, if that is no later than `until` and before all other events; else it has an event
    /// for that. A transmission that has passed all is forgotten.
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
            let held = &mut self.slab[tx.0 as usize];
            let spare = held.transmission.forget_payload();
            self.spare.extend(spare);
            self.free.push(tx.0);
        }
        None
    }

    /// Ends what a radio has on air now: its transmitter was switched off. Nobody can decode it.
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
            self.set_edge(TxId(slot as u32), true);
        }
    }

    /// The weakest signal of a transmission that can be decoded, where that hangs on its rate.
    pub(super) fn weakest(&self, tx: TxId) -> Dbm {
        self.slab[tx.0 as usize].weakest
    }

    /// Whether a transmission was cut off.
    pub(super) fn is_cut_off(&self, tx: TxId) -> bool {
        self.slab[tx.0 as usize].is_cut_off
    }

    /// Folds a transmission into the hash that tells whether two runs were the same.
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
