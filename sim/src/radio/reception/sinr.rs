//! Summed interference (`radio.md` 4.2), with the receiver of ns-3's stock PHY: it locks on to the
//! strongest preamble of a detection window and stays locked to the end. The success of the header
//! and of each MPDU is the product over the spans in which the power on the air is constant.
//!
//! Neither the end of a detection window nor the end of a header is an event. Nothing depends on
//! them until the power on the air changes, so they are evaluated just before that, with the power
//! up to then, and at the latest at the end of the frame.

use farhop_proto::base::{Bitrate, Dbm, Duration, Instant, Phy, PhyKind, Rng};
use farhop_proto::stack::SinrSettings;

use super::super::air::{Air, TxId};
use super::super::chip::Chip;
use super::super::config::ChipConfig;
use super::super::error;
use super::super::links::{Hearer, Reach};
use super::super::power::Power;
use super::super::queue::Order;
use super::super::transmission::Mpdu;
use super::rare::Rare;
use super::spans::{Part, Span, Spans};
use super::{Ended, Model, Receiver, Reception};

/// The window in which a preamble is detected.
const DETECTION: Duration = Duration::from_micros(4);

/// The most bits that a frame can have.
const MOST_BITS: f64 = 8.0 * 65_535.0;

/// The least power at which a preamble is detected over noise alone, for each kind of radio.
#[derive(Debug, Default)]
pub(in crate::radio) struct Weakest {
    kinds: Vec<(Phy, u16)>,
    least: Vec<Power>,
}

impl Weakest {
    /// Computed for all kinds among these radios.
    pub(in crate::radio) fn of(sinr: &SinrSettings, radios: &[ChipConfig]) -> Self {
        let mut kinds: Vec<(Phy, u16)> = Vec::new();
        for ChipConfig { phy, channel, .. } in radios {
            if phy.kind != PhyKind::Wire && !kinds.contains(&(*phy, *channel)) {
                kinds.push((*phy, *channel));
            }
        }
        let least = kinds.iter().map(|(own, channel)| {
            let near = kinds.iter().filter(|(_, other)| other == channel);
            let needed = near.flat_map(|(phy, _)| {
                let rates = phy.rates_for(own).into_iter().chain(phy.basic_rates().iter().copied());
                let known = rates.filter(|rate| own.decodes(phy, *rate));
                known.map(|rate| needs(*phy, phy.narrowed(rate, own.width), sinr))
            });
            let powers = needed.map(|(noise, ratio)| noise.times(ratio));
            powers.reduce(Power::min).unwrap_or(Power::LEAST)
        });
        let least = least.collect();
        Self { kinds, least }
    }

    /// The least power for `radio`, over all frames on its channel that it can decode.
    pub(super) fn to(&self, radio: &ChipConfig) -> Power {
        let kind = self.kinds.iter().position(|kind| *kind == (radio.phy, radio.channel));
        kind.map_or(Power::LEAST, |kind| self.least[kind])
    }
}

/// The noise over the channel that a frame takes, and the least ratio of its preamble to noise and
/// interference.
fn needs(phy: Phy, rate: Bitrate, sinr: &SinrSettings) -> (Power, f64) {
    let noise = Dbm::from_f64(sinr.noise_dbm(&phy.sent(rate).0));
    (Power::of(noise), libm::pow(10.0, sinr.preamble_db(&phy, rate) / 10.0))
}

/// A receiver under summed interference. The fields that a clear frame needs come first.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Sinr {
    state: State,
    /// Preambles that began in the detection window of another one, in the order of their starts.
    others: Rare<Candidate>,
    spans: Spans,
    /// Frames on their way that were missed, and so do not count as collisions.
    missed: Rare<TxId>,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Free,
    /// In the detection window of this preamble.
    Detecting(Candidate),
    Locked(Locked),
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    start: Instant,
    power: Power,
    /// Place of the end of its window in the order of events.
    order: Order,
    tx: TxId,
    link: u32,
    signal: Dbm,
}

#[derive(Clone, Copy, Debug)]
struct Locked {
    frame: Candidate,
    is_header_judged: bool,
    /// Destroyed by a sending radio of the same node.
    is_spoilt: bool,
}

/// How the parts of a frame fail under noise and interference.
#[derive(Clone, Copy, Debug)]
pub(in crate::radio) struct Errors {
    preamble: Duration,
    plcp: Duration,
    header: Part,
    header_bits: f64,
    payload: Part,
    /// Time without bits at the end of the frame.
    silence: Duration,
    /// From this ratio on, neither header nor payload fails.
    certain: f64,
    rate: Bitrate,
    /// Noise over the channel that the frame takes.
    noise: Power,
    /// Least ratio of its preamble to noise and interference.
    preamble_ratio: f64,
}

impl Errors {
    /// For frames of `phy` at `rate`.
    pub(in crate::radio) fn of(phy: Phy, rate: Bitrate, sinr: &SinrSettings) -> Self {
        let (header, header_bits) = error::for_header(phy, rate, sinr.curve);
        let header = Part::new(header, header_bits);
        let payload = Part::new(error::for_mode(phy, rate, sinr.curve), MOST_BITS);
        let (noise, preamble_ratio) = needs(phy, rate, sinr);
        Self {
            preamble: phy.preamble(rate),
            plcp: phy.plcp(rate),
            silence: phy.silence(rate),
            certain: header.certain.max(payload.certain),
            header,
            header_bits,
            payload,
            rate,
            noise,
            preamble_ratio,
        }
    }

    /// Whether noise alone never destroys a frame of this power, and its preamble is detected.
    fn is_clear(&self, power: Power) -> bool {
        let ratio = power.ratio(self.noise);
        ratio >= self.preamble_ratio && ratio >= self.certain
    }

    /// Noise and interference against a frame of this power, which is part of `ambient`.
    fn rest(&self, ambient: Power, power: Power) -> Power {
        self.noise.with(ambient.without(power))
    }

    fn payload_bits(&self, length: Duration) -> f64 {
        length.as_secs_f64() * self.rate.bps() as f64
    }
}

impl Sinr {
    /// Touches each part of it, so that it is in the cache.
    pub(super) fn fetch(&self) -> u64 {
        u64::from(self.is_free()) ^ u64::from(self.others.is_empty())
    }

    /// Whether it receives nothing.
    pub(super) fn is_free(&self) -> bool {
        matches!(self.state, State::Free)
    }

    /// Locks on to a preamble whose window is over, if it is strong enough.
    pub(super) fn detect(&mut self, air: &Air, ambient: Power, now: Instant) {
        self.detect_if(air, ambient, |frame| frame.start + DETECTION <= now);
    }

    /// The power on the air changes with the start or the end of a signal. Evaluates first what
    /// depends on `ambient`, the power up to now.
    #[inline]
    pub(super) fn on_change(
        &mut self,
        air: &Air,
        ambient: Power,
        now: Instant,
        (tx, is_end): (TxId, bool),
    ) {
        if !self.is_free() {
            self.on_change_under_way(air, ambient, now, (tx, is_end));
        }
    }

    fn on_change_under_way(
        &mut self,
        air: &Air,
        ambient: Power,
        now: Instant,
        (tx, is_end): (TxId, bool),
    ) {
        match self.state {
            State::Free => {}
            State::Detecting(_) => {
                let order = air.order(tx, is_end);
                let locked = self.detect_if(air, ambient, |frame| {
                    let over = frame.start + DETECTION;
                    over < now || (over == now && frame.order < order)
                });
                if let Some(rest) = locked {
                    self.spans.push(Span { until: now, rest });
                }
            }
            State::Locked(_) => self.close_span(air, now, ambient),
        }
    }

    /// Ends the window of a preamble if it `is_over`. Returns the noise and interference against it
    /// if the receiver locks on to it.
    #[inline]
    fn detect_if(
        &mut self,
        air: &Air,
        ambient: Power,
        is_over: impl Fn(&Candidate) -> bool,
    ) -> Option<Power> {
        while let State::Detecting(frame) = self.state
            && is_over(&frame)
        {
            let is_strongest =
                self.others.as_slice().iter().all(|other| other.power <= frame.power);
            let errors = air.errors(frame.tx);
            let rest = errors.rest(ambient, frame.power);
            if is_strongest && frame.power.ratio(rest) >= errors.preamble_ratio {
                self.others.clear();
                self.spans.begin(frame.power.over(errors.certain));
                self.state =
                    State::Locked(Locked { frame, is_header_judged: false, is_spoilt: false });
                return Some(rest);
            }
            self.next_candidate();
        }
        None
    }

    fn next_candidate(&mut self) {
        self.state = self.others.pop_front().map_or(State::Free, State::Detecting);
    }

    /// Ends a span of constant power.
    fn close_span(&mut self, air: &Air, now: Instant, ambient: Power) {
        if let State::Locked(locked) = &self.state {
            let rest = air.errors(locked.frame.tx).rest(ambient, locked.frame.power);
            self.spans.push(Span { until: now, rest });
        }
    }

    /// Draws once whether the header passes, after its end. If it fails, the receiver is free
    /// again.
    #[inline]
    fn judge_header(&mut self, air: &Air, now: Instant, rng: &mut Rng) {
        if let State::Locked(Locked { is_header_judged: false, .. }) = &self.state {
            self.judge_open_header(air, now, rng);
        }
    }

    fn judge_open_header(&mut self, air: &Air, now: Instant, rng: &mut Rng) {
        let State::Locked(Locked { frame, is_header_judged, .. }) = &mut self.state else { return };
        let errors = air.errors(frame.tx);
        let (from, until) = (frame.start + errors.preamble, frame.start + errors.plcp);
        if until > now {
            return;
        }
        let power = frame.power;
        if self.spans.pass(power, (from, until), &errors.header, || errors.header_bits, rng) {
            *is_header_judged = true;
        } else {
            self.state = State::Free;
        }
    }

    pub(super) fn was_locked_by(
        &mut self,
        air: &Air,
        ambient: Power,
        now: Instant,
        limit: Instant,
        rng: &mut Rng,
    ) -> bool {
        self.close_span(air, now, ambient);
        self.judge_header(air, now, rng);
        self.frame().is_some_and(|frame| frame.start <= limit)
    }

    /// The frame that is being received, or whose preamble is being detected.
    fn frame(&self) -> Option<&Candidate> {
        match &self.state {
            State::Free => None,
            State::Detecting(frame) => Some(frame),
            State::Locked(locked) => Some(&locked.frame),
        }
    }

    pub(super) fn reset(&mut self) {
        self.others.clear();
        self.state = State::Free;
    }

    /// Drops the current reception. Returns whether there was any.
    pub(super) fn drop_reception(&mut self) -> bool {
        let dropped = self.frame().map(|frame| frame.tx);
        self.reset();
        dropped.into_iter().for_each(|tx| self.missed.push(tx));
        dropped.is_some()
    }

    /// Whether a frame that ends now was missed.
    fn was_missed(&mut self, tx: TxId) -> bool {
        let before = self.missed.as_slice().len();
        self.missed.retain(|missed| *missed != tx);
        self.missed.as_slice().len() < before
    }

    /// Forgets everything, as the radio was switched off.
    pub(super) fn forget(&mut self) {
        self.reset();
        self.missed.clear();
    }

    /// Destroys the current reception. Returns whether there was anything to destroy.
    pub(super) fn spoil(&mut self) -> bool {
        match &mut self.state {
            State::Locked(locked) => {
                let is_new = !std::mem::replace(&mut locked.is_spoilt, true);
                if is_new {
                    self.missed.push(locked.frame.tx);
                }
                is_new
            }
            _ => {
                self.reset();
                false
            }
        }
    }

    /// Fast path at the end of a frame that had constant power on the air and is too clear to fail:
    /// the same result as [`Self::on_change`] and [`Self::end`]. `ambient` is the power up to now.
    #[inline]
    pub(super) fn end_if_clear(
        &mut self,
        air: &Air,
        ambient: Power,
        now: Instant,
        tx: TxId,
    ) -> Option<Reception> {
        let State::Detecting(frame) = &self.state else { return None };
        if frame.tx != tx || frame.start + DETECTION >= now || !self.others.is_empty() {
            return None;
        }
        let errors = air.errors(tx);
        let ratio = frame.power.ratio(errors.rest(ambient, frame.power));
        let is_clear = ratio >= errors.preamble_ratio && ratio >= errors.certain;
        if !is_clear || !air.transmission(tx).mpdus().is_empty() {
            return None;
        }
        let Candidate { link, start, signal, .. } = *frame;
        self.state = State::Free;
        Some(Reception { tx, link, start, signal, decoded: 1, dropped: 0 })
    }

    /// A signal ends. Returns how its reception ended.
    #[inline]
    pub(super) fn end(&mut self, air: &Air, now: Instant, tx: TxId, rng: &mut Rng) -> Ended {
        if self.is_free() {
            return Ended::Unheard;
        }
        self.judge_header(air, now, rng);
        let locked = match self.state {
            State::Locked(locked) if locked.frame.tx == tx => locked,
            _ => {
                self.cut_off(tx);
                return Ended::Unheard;
            }
        };
        let decoded = if locked.is_spoilt { 0 } else { self.decoded(air, now, &locked.frame, rng) };
        self.state = State::Free;
        let Candidate { link, start, signal, .. } = locked.frame;
        match decoded {
            0 => Ended::Failed(tx),
            _ => Ended::Passed(Reception { tx, link, start, signal, decoded, dropped: 0 }),
        }
    }

    /// A signal that ends within its preamble cannot be detected any more.
    fn cut_off(&mut self, tx: TxId) {
        if let State::Detecting(first) = self.state {
            self.others.retain(|other| other.tx != tx);
            if first.tx == tx {
                self.next_candidate();
            }
        }
    }

    /// A bit for each MPDU that passes, the first in the lowest bit.
    fn decoded(&self, air: &Air, now: Instant, frame: &Candidate, rng: &mut Rng) -> u64 {
        let errors = air.errors(frame.tx);
        let mpdus = air.transmission(frame.tx).mpdus();
        if mpdus.is_empty() {
            let from = frame.start + errors.plcp;
            let length = now.since(from).saturating_sub(errors.silence);
            let bits = || errors.payload_bits(length);
            return u64::from(self.spans.pass(
                frame.power,
                (from, from + length),
                &errors.payload,
                bits,
                rng,
            ));
        }
        let passes = |mpdu: &Mpdu, rng: &mut Rng| {
            let (from, until) = (frame.start + mpdu.from, frame.start + mpdu.until);
            let bits = || mpdu.bytes as f64 * 8.0;
            self.spans.pass(frame.power, (from, until), &errors.payload, bits, rng)
        };
        mpdus
            .iter()
            .enumerate()
            .fold(0, |decoded, (place, mpdu)| decoded | u64::from(passes(mpdu, rng)) << place)
    }
}

impl Chip {
    /// Counts a frame that was not received as a collision, unless noise alone may have destroyed
    /// it, or the radio was down when it began.
    pub(super) fn on_sinr_lost(&mut self, air: &mut Air, now: Instant, hearer: &Hearer, tx: TxId) {
        let Hearer { power, signal, reach: Reach::Decodable(link), .. } = *hearer else { return };
        let was_missed = match &mut self.receiver.model {
            Model::Sinr(sinr) => sinr.was_missed(tx),
            Model::Threshold(_) => false,
        };
        let is_clear = signal >= air.preamble_min && air.errors(tx).is_clear(power);
        let transmission = air.transmission(tx);
        let length = transmission.end - transmission.start;
        let was_down = now - length < self.up_since;
        if air.is_cut_off(tx) || !is_clear || was_down {
            return;
        }
        self.stats.collisions += u64::from(!was_missed);
        self.on_collided(air, (tx, Some(link)), length);
    }

    /// The start of a signal arrives; its power has been added already.
    #[inline]
    pub(super) fn on_sinr_start(
        &mut self,
        air: &mut Air,
        now: Instant,
        hearer: &Hearer,
        tx: TxId,
        is_deaf: bool,
    ) {
        let Receiver { model, rng, .. } = &mut self.receiver;
        let Model::Sinr(sinr) = model else { return };
        sinr.judge_header(air, now, rng);
        let Hearer { power, signal, reach, .. } = *hearer;
        let Reach::Decodable(link) = reach else { return };
        if signal < air.preamble_min {
            return;
        }
        if is_deaf {
            self.stats.missed += 1;
            sinr.missed.push(tx);
            return;
        }
        let order = air.queue.take_order();
        let candidate = Candidate { tx, link, start: now, power, signal, order };
        match sinr.state {
            State::Free => sinr.state = State::Detecting(candidate),
            State::Detecting(_) => sinr.others.push(candidate),
            State::Locked(_) => {}
        }
    }
}
