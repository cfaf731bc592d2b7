//! One radio as a receiver: what it senses, which arriving frames it can decode, and when its
//! medium is busy.
//!
//! Two models of overlapping signals plug in here (`radio.md` 4): [`threshold`] compares signals
//! pairwise, [`sinr`] adds them up. A sending radio of the same node on an overlapping channel
//! makes the medium busy and may destroy a reception (`radio.md` 6).

mod ear;
mod rare;
mod sinr;
mod spans;
mod threshold;

use farhop_proto::base::{Dbm, Duration, Instant, Rng};
use farhop_proto::stack::SinrSettings;

pub(super) use self::ear::{Ear, Turn};
use self::rare::Rare;
use self::sinr::Sinr;
pub(super) use self::sinr::{Errors, Weakest};
use self::threshold::Threshold;
use super::air::{Air, TxId};
use super::chip::{Chip, Phase};
use super::config::{ChipConfig, Interference};
use super::links::{Hearer, Reach};
use super::loss::Fate;
use super::power::Power;
use super::transmission::TransmissionKind;

/// A reception that passed, as a whole or for some of its MPDUs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reception {
    pub(super) tx: TxId,
    pub(super) link: u32,
    pub(super) signal: Dbm,
    /// When its preamble began to arrive.
    pub(super) start: Instant,
    /// A bit for each MPDU that passed, the first in the lowest bit.
    pub(super) decoded: u64,
    /// Those of them that the driver drops after the card has acknowledged them.
    pub(super) dropped: u64,
}

/// What the losses of its link leave of a reception.
#[derive(Clone, Copy, Debug, Default)]
struct Survivors {
    /// As in [`Reception::decoded`].
    decoded: u64,
    /// As in [`Reception::dropped`].
    dropped: u64,
    /// The driver dropped some before the card acknowledged them; this is no reception error.
    is_unanswered: bool,
}

/// How a reception ended.
#[derive(Clone, Copy, Debug)]
enum Ended {
    /// The receiver was locked on to it and it passed, apart from the losses of its link.
    Passed(Reception),
    /// The receiver was locked on to it, and it failed.
    Failed(TxId),
    /// The receiver was not locked on to it; it was only sensed.
    Unheard,
    /// Too weak to be sensed: a part of the noise.
    Unsensed,
}

/// The receiver of one radio. The fields that every frame needs come first.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Receiver {
    model: Model,
    /// Sending radios of the same node that are so loud that nothing can be received.
    deafening: Rare<TxId>,
    rng: Rng,
}

#[derive(Debug)]
enum Model {
    Threshold(Threshold),
    Sinr(Sinr),
}

impl Receiver {
    pub(super) fn new(interference: Interference, rng: Rng) -> Self {
        let model = match interference {
            Interference::Threshold => Model::Threshold(Threshold::default()),
            Interference::Sinr(_) => Model::Sinr(Sinr::default()),
        };
        Self { deafening: Rare::default(), model, rng }
    }

    /// The ear of a radio.
    ///
    /// Under summed interference, its threshold is low enough to sense every preamble that is
    /// detected, i.e. that is as strong as noise and the settings require.
    pub(super) fn ear(config: &ChipConfig, sinr: Option<(&SinrSettings, &Weakest)>) -> Ear {
        // A receiver that has read a header takes the medium for busy to the end of the frame (IEEE
        // 802.11-2012, 18.3.12), so whatever it may lock on to counts, at any power.
        let least = |(sinr, weakest): (&SinrSettings, &Weakest)| {
            let given = sinr.preamble_min_dbm.map(Dbm::from_f64);
            let given = Power::of(given.unwrap_or(config.receive_threshold));
            let preamble = weakest.to(config).max(given);
            preamble.min(Power::of(config.sense_threshold))
        };
        let sense = sinr.map_or(Power::LEAST, least);
        Ear::new(sense, config.carrier_sense)
    }

    /// Touches each part of it, so that it is in the cache.
    pub(super) fn fetch(&self) -> u64 {
        let model = match &self.model {
            Model::Threshold(_) => 0,
            Model::Sinr(sinr) => sinr.fetch(),
        };
        model ^ u64::from(self.deafening.is_empty())
    }

    /// Whether it receives nothing, so that changes of power do not matter to it.
    pub(super) fn is_free(&self) -> bool {
        match &self.model {
            // Every signal is compared with every other, so all of them matter.
            Model::Threshold(_) => false,
            Model::Sinr(sinr) => sinr.is_free(),
        }
    }

    /// Drops what it was receiving.
    pub(super) fn reset(&mut self) {
        match &mut self.model {
            Model::Threshold(threshold) => threshold.go_deaf(),
            Model::Sinr(sinr) => sinr.forget(),
        }
    }
}

impl Chip {
    /// Whether the receiver is locked on to a frame that began no later than `limit`.
    pub(super) fn was_locked_by(&mut self, air: &Air, now: Instant, limit: Instant) -> bool {
        let Receiver { model, rng, .. } = &mut self.receiver;
        match model {
            Model::Threshold(threshold) => threshold.was_locked_by(limit),
            Model::Sinr(sinr) => {
                let ambient = air.ear(self.index).ambient();
                sinr.detect(air, ambient, now);
                sinr.was_locked_by(air, ambient, now, limit, rng)
            }
        }
    }

    /// The start of a signal arrives; the ear has sensed it already. Returns whether more than the
    /// receiver may have changed.
    #[inline]
    pub(super) fn on_signal_start(
        &mut self,
        air: &mut Air,
        now: Instant,
        (hearer, turn): (&Hearer, Option<Turn>),
        tx: TxId,
    ) -> bool {
        if let Reach::Sibling(overlap) = hearer.reach {
            self.on_sibling_start(air, now, overlap, tx);
            return true;
        }
        let ear = air.ear(self.index);
        let (before, is_waiting) = (ear.ambient().without(hearer.power), ear.is_waiting);
        let is_sending = ear.tx_until().is_some();
        if let Model::Sinr(sinr) = &mut self.receiver.model {
            sinr.on_change(air, before, now, (tx, false));
        }
        let is_busy = turn == Some(Turn::Busy) && is_waiting;
        if is_busy {
            self.on_sensed(air, now);
        }
        match self.receiver.model {
            Model::Threshold(_) => {
                self.on_threshold_start(air, now, hearer, tx);
                true
            }
            _ if !self.is_up => is_busy,
            Model::Sinr(_) => {
                let is_deaf = is_sending || self.is_deaf(air);
                self.on_sinr_start(air, now, hearer, tx, is_deaf);
                is_busy
            }
        }
    }

    /// Another radio of the node begins to send.
    #[cold]
    fn on_sibling_start(&mut self, air: &mut Air, now: Instant, overlap: f32, tx: TxId) {
        if self.receiver.rng.chance(f64::from(overlap)) {
            self.receiver.deafening.push(tx);
            self.on_deafened(air, now);
        }
        let turn = air.ear_mut(self.index).hear_sibling(now, false);
        if turn == Some(Turn::Busy) && air.ear(self.index).is_waiting {
            self.on_busy(air, now);
        }
    }

    /// The end of a signal arrives; the ear has sensed it already. Returns whether more than the
    /// receiver may have changed.
    #[inline]
    pub(super) fn on_signal_end(
        &mut self,
        air: &mut Air,
        now: Instant,
        (hearer, turn): (&Hearer, Option<Turn>),
        tx: TxId,
    ) -> bool {
        let mut ended = None;
        // The radio may act on the idle medium only after the contents of the frame (NAV, EIFS) are
        // known.
        let (turn, is_at_rest) = if let Reach::Sibling(_) = hearer.reach {
            self.receiver.deafening.retain(|loud| *loud != tx);
            let ear = air.ear_mut(self.index);
            (ear.hear_sibling(now, true), ear.is_at_rest)
        } else {
            let ear = air.ear(self.index);
            let (before, is_at_rest) = (ear.ambient().with(hearer.power), ear.is_at_rest);
            let Receiver { model, rng, .. } = &mut self.receiver;
            ended = match model {
                Model::Threshold(threshold) => threshold.end(now, tx),
                Model::Sinr(sinr) => Some(match sinr.end_if_clear(air, before, now, tx) {
                    Some(reception) => Ended::Passed(reception),
                    None => {
                        sinr.on_change(air, before, now, (tx, true));
                        sinr.end(air, now, tx, rng)
                    }
                }),
            };
            if self.is_up && matches!(ended, Some(Ended::Failed(_) | Ended::Unheard)) {
                self.on_unreceived(air, now, hearer, tx);
            }
            if self.heeds_all
                && hearer.signal < self.config.sense_threshold
                && matches!(ended, Some(Ended::Unheard))
            {
                ended = Some(Ended::Unsensed);
            }
            (turn, is_at_rest)
        };
        let mut is_touched = false;
        if let Some(ended) = ended.filter(|ended| self.concerns(ended))
            && !self.passes_by(air, now, &ended)
        {
            self.on_reception_end(air, now, ended);
            is_touched = true;
        }
        if turn == Some(Turn::Idle) && self.is_up && !is_at_rest && self.config.carrier_sense {
            self.resume(air, now);
            is_touched = true;
        }
        is_touched && !is_at_rest
    }

    /// A frame that was not received has ended. The threshold model has counted it already, when it
    /// was destroyed.
    fn on_unreceived(&mut self, air: &mut Air, now: Instant, hearer: &Hearer, tx: TxId) {
        if let Model::Sinr(_) = self.receiver.model {
            self.on_sinr_lost(air, now, hearer, tx);
        }
    }

    /// Whether the radio must act on the end of a reception.
    fn concerns(&self, ended: &Ended) -> bool {
        !matches!(ended, Ended::Unheard | Ended::Unsensed)
            || (self.heeds_all && self.is_up && matches!(ended, Ended::Unheard))
            || matches!(self.phase, Phase::Awaiting { is_over: true, .. })
    }

    /// Fast path for frames for others, which are nearly all: if only the NAV of a received frame
    /// matters, sets that and returns true.
    fn passes_by(&mut self, air: &Air, now: Instant, ended: &Ended) -> bool {
        let Ended::Passed(Reception { tx, link, .. }) = *ended else { return false };
        let transmission = air.transmission(tx);
        let (is_for_others, is_data, holder) = match &transmission.kind {
            TransmissionKind::Data { to: Some(to), .. } => {
                (*to != self.node && !self.overhears, true, transmission.radio)
            }
            TransmissionKind::Ack(answer) => {
                (answer.to_radio != self.index, false, answer.to_radio)
            }
            _ => (false, false, 0),
        };
        let is_usual = !self.has_nav_timer
            && !matches!(self.phase, Phase::Awaiting { is_over: true, .. })
            && air.loses_nothing(link)
            && !air.is_cut_off(tx);
        if is_for_others && is_usual {
            self.error_at = None;
            self.set_nav(now, transmission.nav, holder);
            self.overheard += u64::from(is_data);
        }
        is_for_others && is_usual
    }

    /// The medium becomes busy or idle by energy alone.
    pub(super) fn on_turn(&mut self, air: &mut Air, now: Instant, turn: Turn) {
        match turn {
            Turn::Busy => self.on_sensed(air, now),
            Turn::Idle => self.resume(air, now),
        }
    }

    fn on_reception_end(&mut self, air: &mut Air, now: Instant, ended: Ended) {
        let always = self.heeds_all;
        if let Ended::Failed(tx) = ended {
            air.tell_heard(self.node, tx, 0);
        }
        match ended {
            Ended::Passed(reception) => match self.survivors(air, reception) {
                None if !always => {}
                None => self.error_at = Some(now),
                Some(Survivors { decoded: 0, is_unanswered, .. }) => {
                    self.error_at = (!is_unanswered).then_some(now);
                }
                Some(Survivors { decoded, dropped, .. }) => {
                    self.error_at = None;
                    self.on_received(air, now, Reception { decoded, dropped, ..reception });
                }
            },
            Ended::Unsensed => {}
            Ended::Unheard if !always => {}
            Ended::Failed(_) | Ended::Unheard => self.error_at = Some(now),
        }
        if let Phase::Awaiting { limit, is_over: true } = self.phase
            && !self.was_locked_by(air, now, limit)
        {
            self.on_attempt_failed(air, now);
        }
    }

    /// What the losses of its link leave of a reception; `None` if its preamble was lost, so that
    /// the receiver never noticed it.
    fn survivors(&mut self, air: &mut Air, reception: Reception) -> Option<Survivors> {
        let Reception { tx, link, start, decoded, .. } = reception;
        if air.is_cut_off(tx) {
            return Some(Survivors::default());
        }
        let mut left = Survivors { decoded, ..Survivors::default() };
        if air.loses_nothing(link) {
            return Some(left);
        }
        let is_for_us = air.transmission(tx).is_data_for(self.node);
        let count = air.transmission(tx).mpdus().len().max(1);
        left.decoded &= u64::MAX >> (64 - count);
        for place in 0..count {
            let fate = match air.fate(link, tx, start, place) {
                Fate::Preamble if place == 0 => {
                    self.stats.lost += count as u64;
                    self.stats.lost_preambles += 1;
                    return None;
                }
                // Only the first MPDU has the preamble.
                Fate::Preamble => Fate::Crc,
                Fate::Dropped | Fate::Unanswered if !is_for_us => Fate::Ok,
                fate => fate,
            };
            let mpdu = left.decoded & 1 << place;
            if fate == Fate::Crc || !air.links.get(link).is_up {
                self.stats.lost += u64::from(mpdu != 0);
                left.decoded &= !mpdu;
            } else if fate == Fate::Dropped {
                left.dropped |= mpdu;
            } else if fate == Fate::Unanswered && mpdu != 0 {
                self.stats.driver_drops += 1;
                left.is_unanswered = true;
                left.decoded &= !mpdu;
            }
        }
        if air.links.get(link).is_up {
            air.tell_heard(self.node, tx, left.decoded);
        }
        Some(left)
    }

    /// Whether a sending radio of the same node drowns what begins to arrive.
    fn is_deaf(&self, air: &Air) -> bool {
        air.ear(self.index).has_sibling() && !self.receiver.deafening.is_empty()
    }

    /// The own transmitter starts, which ends any reception.
    pub(super) fn on_own_start(&mut self, air: &mut Air, now: Instant) {
        match &mut self.receiver.model {
            Model::Threshold(_) => self.on_threshold_own_start(air, now),
            Model::Sinr(sinr) => {
                sinr.detect(air, air.ear(self.index).ambient(), now);
                if sinr.drop_reception() {
                    self.stats.missed += 1;
                }
            }
        }
    }

    /// Counts a frame that another signal destroyed, for its link if it could have been decoded and
    /// is no answer: the air time of answers is counted apart.
    fn on_collided(&mut self, air: &mut Air, (tx, link): (TxId, Option<u32>), length: Duration) {
        self.stats.air_collided += length;
        if let Some(link) = link
            && air.transmission(tx).is_asked_of(self.node)
            && air.links.get(link).is_addressed
        {
            air.links.get_mut(link).collided += length;
        }
    }

    /// A sending radio of the same node destroys the current reception.
    fn on_deafened(&mut self, air: &Air, now: Instant) {
        let lost = match &mut self.receiver.model {
            Model::Threshold(threshold) => threshold.spoil(now),
            Model::Sinr(sinr) => {
                sinr.detect(air, air.ear(self.index).ambient(), now);
                sinr.spoil()
            }
        };
        if lost {
            self.stats.missed += 1;
        }
    }
}
