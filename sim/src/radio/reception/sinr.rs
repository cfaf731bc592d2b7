//! Summed interference (`radio.md` 4.2), with the receiver of ns-3's stock PHY: it locks on to the
//! strongest preamble of a detection window, stays locked to the end, and the success of the header
//! and of each MPDU is the product over the spans in which the power on the air does not change.
//!
//! Neither the end of a detection window nor the end of a header is an event. Until the power on
//! the air changes nothing depends on them, so they are made up for before it does, with the power
//! that there was: at the latest at the end of the frame.

use farhop_proto::base::{Bitrate, Dbm, Duration, Instant, Phy, Rng};

use super::super::air::{Air, Hearer, Reach, TxId};
use super::super::chip::Chip;
use super::super::config::{CurveKind, SinrConfig};
use super::super::error::{self, ErrorCurve};
use super::super::power::Power;
use super::super::queue::Order;
use super::super::transmission::Mpdu;
use super::{Ended, Model, Reception};

/// The window in which a preamble is detected.
const DETECTION: Duration = Duration::from_micros(4);

/// Below this, the logarithm of a success is certainty.
const CERTAIN: f64 = -1e-12;

/// A receiver under summed interference.
#[derive(Debug)]
pub(super) struct Sinr {
    noise: Power,
    preamble_min: Dbm,
    /// Least ratio of a preamble to noise and interference.
    preamble_ratio: f64,
    /// Preambles in their detection window, in the order of their starts.
    candidates: Vec<Candidate>,
    locked: Option<Locked>,
    /// The ratio over time since the lock, each until the time of its entry.
    spans: Vec<Span>,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    tx: TxId,
    link: u32,
    start: Instant,
    power: Power,
    signal: Dbm,
    /// Place of the end of its window in the order of events.
    order: Order,
}

#[derive(Clone, Copy, Debug)]
struct Locked {
    frame: Candidate,
    header_end: Instant,
    is_header_judged: bool,
    /// Drowned by another radio of the node.
    is_spoilt: bool,
    errors: Errors,
}

/// How the parts of a frame fail.
#[derive(Clone, Copy, Debug)]
pub(in crate::radio) struct Errors {
    preamble: Duration,
    plcp: Duration,
    header: &'static ErrorCurve,
    header_bits: f64,
    payload: &'static ErrorCurve,
    rate: Bitrate,
}

impl Errors {
    /// Of a frame at `rate`.
    pub(in crate::radio) fn of(phy: Phy, rate: Bitrate, curve: CurveKind) -> Self {
        let (header, header_bits) = error::for_header(phy, rate, curve);
        Self {
            preamble: phy.preamble(rate),
            plcp: phy.plcp(rate),
            header,
            header_bits,
            payload: error::for_mode(phy, rate, curve),
            rate,
        }
    }

    fn payload_bits(&self, length: Duration) -> f64 {
        length.as_secs_f64() * self.rate.bps() as f64
    }
}

#[derive(Clone, Copy, Debug)]
struct Span {
    until: Instant,
    /// Signal over noise and interference.
    ratio: f64,
}

impl Sinr {
    pub(super) fn new(config: SinrConfig) -> Self {
        Self {
            noise: Power::of(config.noise),
            preamble_min: config.preamble_min,
            preamble_ratio: libm::pow(10.0, config.preamble_snr_db / 10.0),
            candidates: Vec::new(),
            locked: None,
            spans: Vec::new(),
        }
    }

    /// Whether nothing is being received.
    pub(super) fn is_free(&self) -> bool {
        self.locked.is_none() && self.candidates.is_empty()
    }

    fn ratio(&self, ambient: Power, power: Power) -> f64 {
        let mut rest = self.noise;
        rest += ambient.without(power);
        power.ratio(rest)
    }

    /// Locks on to a preamble whose window is over, if it is fit for that.
    pub(super) fn detect(&mut self, air: &Air, ambient: Power, now: Instant) {
        self.detect_if(air, ambient, |frame| frame.start + DETECTION <= now);
    }

    /// The same before an event of this place in the order of those of this moment.
    pub(super) fn detect_before(&mut self, air: &Air, ambient: Power, now: Instant, order: Order) {
        self.detect_if(air, ambient, |frame| {
            let over = frame.start + DETECTION;
            over < now || (over == now && frame.order < order)
        });
    }

    fn detect_if(&mut self, air: &Air, ambient: Power, is_over: impl Fn(&Candidate) -> bool) {
        while self.candidates.first().is_some_and(&is_over) {
            let frame = self.candidates.remove(0);
            let is_strongest = self.candidates.iter().all(|other| other.power <= frame.power);
            if !is_strongest || self.ratio(ambient, frame.power) < self.preamble_ratio {
                continue;
            }
            self.candidates.clear();
            self.spans.clear();
            let errors = air.errors(frame.tx);
            self.locked = Some(Locked {
                frame,
                header_end: frame.start + errors.plcp,
                is_header_judged: false,
                is_spoilt: false,
                errors,
            });
        }
    }

    /// Ends the span in which the power on the air did not change.
    pub(super) fn close_span(&mut self, now: Instant, ambient: Power) {
        if let Some(locked) = &self.locked {
            let ratio = self.ratio(ambient, locked.frame.power);
            self.spans.push(Span { until: now, ratio });
        }
    }

    /// The logarithm of the probability that `bits` bits that are spread evenly from `from` to
    /// `until` pass.
    fn ln_success(&self, from: Instant, until: Instant, bits: f64, curve: &ErrorCurve) -> f64 {
        let per_nano = bits / until.since(from).as_nanos().max(1) as f64;
        let mut at = from;
        let mut sum = 0.0;
        for span in &self.spans {
            if span.until <= at {
                continue;
            }
            let end = span.until.min(until);
            let bits = end.since(at).as_nanos() as f64 * per_nano;
            sum += bits * curve.ln_success_per_bit(span.ratio);
            at = end;
            if at >= until {
                break;
            }
        }
        sum
    }

    /// Whether the frame passed its header, judged once.
    fn passes_header(&mut self, rng: &mut Rng) -> bool {
        let Some(Locked { frame, header_end, is_header_judged: false, errors, .. }) = self.locked
        else {
            return true;
        };
        let from = frame.start + errors.preamble;
        let ln = self.ln_success(from, header_end, errors.header_bits, errors.header);
        let passes = draw(ln, rng);
        match &mut self.locked {
            Some(locked) if passes => locked.is_header_judged = true,
            locked => *locked = None,
        }
        passes
    }

    /// Frees the receiver if its header has ended and failed.
    fn judge_header(&mut self, now: Instant, rng: &mut Rng) {
        if self.locked.is_some_and(|locked| !locked.is_header_judged && locked.header_end <= now) {
            self.passes_header(rng);
        }
    }

    pub(super) fn was_locked_by(
        &mut self,
        ambient: Power,
        now: Instant,
        limit: Instant,
        rng: &mut Rng,
    ) -> bool {
        self.close_span(now, ambient);
        self.judge_header(now, rng);
        self.locked.is_some_and(|locked| locked.frame.start <= limit)
            || self.candidates.first().is_some_and(|candidate| candidate.start <= limit)
    }

    pub(super) fn reset(&mut self) {
        self.candidates.clear();
        self.locked = None;
    }

    /// Drops what is being received; returns how long it has lasted, if there was anything.
    pub(super) fn drop_reception(&mut self, now: Instant) -> Option<Duration> {
        let locked = self.locked.take().map(|locked| locked.frame);
        let dropped = locked.or(self.candidates.first().copied());
        self.candidates.clear();
        dropped.map(|frame| now.since(frame.start))
    }

    /// Destroys what is being received. Returns whether there was anything to destroy.
    pub(super) fn spoil(&mut self) -> bool {
        self.candidates.clear();
        let spoil = |locked: &mut Locked| std::mem::replace(&mut locked.is_spoilt, true);
        self.locked.as_mut().map(spoil) == Some(false)
    }

    /// A signal ends: how, if the receiver was locked on to it.
    pub(super) fn end(
        &mut self,
        now: Instant,
        (tx, mpdus): (TxId, &[Mpdu]),
        rng: &mut Rng,
    ) -> Option<Ended> {
        self.judge_header(now, rng);
        let Some(locked) = self.locked.filter(|locked| locked.frame.tx == tx) else {
            // It was cut off in its preamble.
            self.candidates.retain(|candidate| candidate.tx != tx);
            return Some(Ended::Unheard);
        };
        let decoded = if locked.is_spoilt { 0 } else { self.decoded(now, &locked, mpdus, rng) };
        self.locked = None;
        let Candidate { link, start, signal, .. } = locked.frame;
        Some(match decoded {
            0 => Ended::Failed,
            _ => Ended::Passed(Reception { tx, link, start, signal, decoded }),
        })
    }

    /// A bit for each MPDU that passes.
    fn decoded(&self, now: Instant, locked: &Locked, mpdus: &[Mpdu], rng: &mut Rng) -> u64 {
        if !mpdus.is_empty() {
            let start = locked.frame.start;
            let passes = |mpdu: &Mpdu, rng: &mut Rng| {
                let (from, until) = (start + mpdu.from, start + mpdu.until);
                let bits = mpdu.bytes as f64 * 8.0;
                draw(self.ln_success(from, until, bits, locked.errors.payload), rng)
            };
            return mpdus
                .iter()
                .enumerate()
                .fold(0, |decoded, (place, mpdu)| decoded | u64::from(passes(mpdu, rng)) << place);
        }
        let from = locked.header_end;
        let bits = locked.errors.payload_bits(now.since(from));
        u64::from(draw(self.ln_success(from, now, bits, locked.errors.payload), rng))
    }
}

/// Whether something with this logarithm of its probability happens.
fn draw(ln: f64, rng: &mut Rng) -> bool {
    ln >= CERTAIN || (ln > -40.0 && rng.chance(libm::exp(ln)))
}

impl Chip {
    /// The start of a signal arrives, and its power has been added.
    pub(super) fn on_sinr_start(&mut self, air: &mut Air, now: Instant, hearer: &Hearer, tx: TxId) {
        let is_deaf = self.is_transmitting(air) || !self.receiver.deafening.is_empty();
        let Model::Sinr(sinr) = &mut self.receiver.model else { return };
        sinr.judge_header(now, &mut self.receiver.rng);
        let Hearer { power, signal, reach, .. } = *hearer;
        let Reach::Decodable(link) = reach else { return };
        if signal < sinr.preamble_min {
            return;
        }
        if is_deaf {
            self.stats.missed += 1;
        } else if sinr.locked.is_some() {
            self.stats.collisions += 1;
        } else {
            let order = air.queue.take_order();
            sinr.candidates.push(Candidate { tx, link, start: now, power, signal, order });
        }
    }
}
