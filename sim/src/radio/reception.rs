//! One radio as a receiver: which of the frames that arrive can be decoded, and what follows.
//!
//! The rules are those of ns-2 (`radio.md` 4.1): one frame occupies the receiver. A later frame
//! that is weaker by the capture threshold passes unheard, any other destroys both, and the
//! receiver is occupied until the later end. No sum of interference, no capture by a later frame.

use farhop_proto::base::{Dbm, Duration, FrameOutcome, FrameUp, Instant, ReceivedFrame};

use super::air::{Air, Timer, TxId};
use super::chip::{Chip, Phase, Reply};
use super::config::EifsRule;
use super::transmission::TransmissionKind;

/// A preamble that is hit within this time of its start is not locked on to (ns-3's detector).
const LOCK: Duration = Duration::from_micros(4);

/// The frame that occupies a receiver.
#[derive(Clone, Copy, Debug)]
pub(super) struct Occupant {
    link: usize,
    tx: TxId,
    start: Instant,
    end: Instant,
    signal: Dbm,
    /// Nothing has destroyed it so far.
    is_intact: bool,
    /// The receiver locked on to its preamble.
    is_locked: bool,
}

impl Occupant {
    /// Whether the receiver locked on to it, and it began no later than `limit`.
    pub(super) fn was_locked_by(&self, limit: Instant) -> bool {
        self.is_locked && self.start <= limit
    }
}

/// A frame that starts while another occupies the receiver.
struct Overlap {
    link: usize,
    tx: TxId,
    length: Duration,
    signal: Dbm,
    is_deaf: bool,
}

impl Chip {
    /// The start of a frame arrives.
    pub(super) fn on_signal_start(&mut self, air: &mut Air, now: Instant, link: usize, tx: TxId) {
        if self.config.carrier_sense && !self.is_busy() {
            self.on_busy(air, now);
        }
        self.note_busy(now);
        self.signals += 1;
        if !self.is_up {
            return;
        }
        // Frames that only touch do not overlap, whichever of the two events comes first.
        if let Some(ended) = self.occupant.take_if(|current| current.end <= now) {
            self.on_reception_end(air, now, ended);
        }
        let transmission = air.transmission(tx);
        let length = transmission.end - transmission.start;
        let is_deaf = self.tx_until.is_some_and(|until| until > now);
        if self.occupant.is_none() {
            if is_deaf {
                self.stats.missed += 1;
                self.stats.air_collided += length;
            }
            let is_clear = !is_deaf && !air.links[link].loss.is_too_weak();
            self.occupant = Some(Occupant {
                link,
                tx,
                start: now,
                end: now + length,
                signal: air.links[link].signal,
                is_intact: is_clear,
                is_locked: is_clear,
            });
            return;
        }
        self.on_overlap(now, Overlap { link, tx, length, signal: air.links[link].signal, is_deaf });
    }

    /// The start of a frame arrives while another occupies the receiver.
    fn on_overlap(&mut self, now: Instant, overlap: Overlap) {
        let Overlap { link, tx, length, signal, is_deaf } = overlap;
        let current = self.occupant.as_mut().expect("something to overlap with");
        if current.signal.above(signal) >= self.config.capture_db {
            self.stats.captures += 1;
            return;
        }
        if current.is_intact {
            current.is_intact = false;
            self.stats.collisions += 1;
            self.stats.air_collided += current.end - current.start;
        }
        if now.since(current.start) < LOCK {
            current.is_locked = false;
        }
        let end = now + length;
        if end > current.end {
            // The reception that was locked on to still fails at its own end.
            let failed = current.is_locked || self.config.eifs == EifsRule::Always;
            if failed {
                self.error_at = Some(current.end);
            }
            let (is_intact, is_locked) = (false, false);
            *current = Occupant { link, tx, start: now, end, signal, is_intact, is_locked };
        }
        if is_deaf {
            self.stats.missed += 1;
        } else {
            self.stats.collisions += 1;
        }
        self.stats.air_collided += length;
    }

    /// The own transmitter starts, and takes the antenna from what was being received.
    pub(super) fn on_own_start(&mut self, now: Instant) {
        if let Some(occupant) = &mut self.occupant
            && occupant.end > now
        {
            if occupant.is_intact {
                self.stats.missed += 1;
                self.stats.air_collided += occupant.end.since(occupant.start);
            }
            occupant.is_intact = false;
            occupant.is_locked = false;
            if self.error_at.is_some_and(|at| at > now) {
                self.error_at = None;
            }
        }
    }

    /// The end of a frame arrives.
    pub(super) fn on_signal_end(&mut self, air: &mut Air, now: Instant, link: usize, tx: TxId) {
        self.signals = self.signals.checked_sub(1).expect("a frame ends after its start");
        self.note_idle(now);
        let current = self.occupant.take_if(|current| current.tx == tx && current.link == link);
        // The medium counts as busy until what the frame says is known: NAV, EIFS.
        let becomes_idle = self.config.carrier_sense && !self.is_busy();
        if becomes_idle {
            self.idle_since = now;
        }
        if let Some(occupant) = current {
            self.on_reception_end(air, now, occupant);
        }
        if becomes_idle && self.is_up {
            self.on_idle(air, now);
        }
    }

    fn on_reception_end(&mut self, air: &mut Air, now: Instant, occupant: Occupant) {
        let link = &mut air.links[occupant.link];
        let length = occupant.end - occupant.start;
        let is_lost = occupant.is_intact && (link.loss.lost(occupant.start, length) || !link.is_up);
        if is_lost {
            self.stats.lost += 1;
        }
        if occupant.is_intact && !is_lost && !air.is_cut_off(occupant.tx) {
            self.error_at = None;
            self.on_received(air, now, &occupant);
        } else if occupant.is_locked || self.config.eifs == EifsRule::Always {
            self.error_at = Some(now);
        }
        if let Phase::AwaitingAck { is_over: true, .. } = self.phase {
            self.on_attempt_failed(air, now);
        }
    }

    /// A frame was received without error.
    fn on_received(&mut self, air: &mut Air, now: Instant, occupant: &Occupant) {
        let transmission = air.transmission(occupant.tx);
        let length = transmission.end - transmission.start;
        match &transmission.kind {
            TransmissionKind::Ack { to_radio, bits, accept, .. } => {
                if *to_radio != self.index {
                    return;
                }
                let outcome =
                    if *accept { FrameOutcome::Acked(*bits) } else { FrameOutcome::Nacked(*bits) };
                match self.phase {
                    Phase::AwaitingAck { limit, .. } if occupant.start <= limit => {
                        self.on_acknowledged(air, now, length, outcome);
                    }
                    _ => self.stats.acks_late += 1,
                }
            }
            TransmissionKind::Data { .. } => self.on_data(air, now, occupant),
        }
    }

    fn on_data(&mut self, air: &mut Air, now: Instant, occupant: &Occupant) {
        let transmission = air.transmission(occupant.tx);
        let TransmissionKind::Data {
            to, protocol, payload, wants_ack, sequence, attempt, nav, ..
        } = &transmission.kind
        else {
            unreachable!("only data frames come here");
        };
        let link = &air.links[occupant.link];
        let is_ours = to.is_none_or(|to| to == self.config.node && link.is_addressed);
        let is_reported = is_ours || self.config.overhear;
        let (wants_ack, sequence, attempt) = (*wants_ack, *sequence, *attempt);
        if !is_ours && wants_ack {
            self.nav_until = self.nav_until.max(now + *nav);
        }
        let frame = is_reported.then(|| ReceivedFrame {
            radio: self.config.radio,
            from: transmission.from,
            to: *to,
            protocol: *protocol,
            payload: payload.clone(),
            started: occupant.start,
            rate: transmission.rate,
            signal: Some(link.signal),
            bits: 0,
        });
        let accept = self.reply_accept;
        if is_ours && wants_ack {
            self.reply = Some(Reply {
                to_radio: transmission.radio,
                to: transmission.from,
                rate: transmission.rate,
                accept,
            });
            air.set_timer(self.index, Timer::Reply, now + self.config.phy.sifs());
        }
        if !is_ours {
            self.stats.overheard += 1;
        } else if wants_ack && !accept {
            // Refused: it comes again as a frame that was not seen before.
            return;
        } else {
            let link = &mut air.links[occupant.link];
            if attempt > 1 && link.last_sequence == Some(sequence) {
                self.stats.duplicates += 1;
                return;
            }
            link.last_sequence = Some(sequence);
            self.stats.received += 1;
        }
        if let Some(frame) = frame {
            let event = if is_ours { FrameUp::Received(frame) } else { FrameUp::Overheard(frame) };
            air.report(self.index, now, event);
        }
    }
}
