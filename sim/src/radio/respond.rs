//! What a radio does with a frame that it received: acknowledgement, NAV, duplicates, delivery
//! (IEEE 802.11-1999 9.2.5, 9.2.8, 9.2.9).

use farhop_proto::base::{FrameOutcome, FrameUp, Instant, ReceivedFrame};

use super::air::{Air, Timer};
use super::chip::{Chip, Phase, Reply};
use super::reception::Reception;
use super::transmission::TransmissionKind;

impl Chip {
    /// A frame was received without error.
    pub(super) fn on_received(&mut self, air: &mut Air, now: Instant, reception: Reception) {
        let transmission = air.transmission(reception.tx);
        let length = transmission.end - transmission.start;
        match &transmission.kind {
            TransmissionKind::Ack { to_radio, bits, accept, .. } => {
                if *to_radio != self.index {
                    return;
                }
                let outcome =
                    if *accept { FrameOutcome::Acked(*bits) } else { FrameOutcome::Nacked(*bits) };
                match self.phase {
                    Phase::AwaitingAck { limit, .. } if reception.start <= limit => {
                        self.on_acknowledged(air, now, length, outcome);
                    }
                    _ => self.stats.acks_late += 1,
                }
            }
            TransmissionKind::Data { .. } => self.on_data(air, now, reception),
        }
    }

    fn on_data(&mut self, air: &mut Air, now: Instant, reception: Reception) {
        let transmission = air.transmission(reception.tx);
        let TransmissionKind::Data {
            to, protocol, payload, wants_ack, sequence, attempt, nav, ..
        } = &transmission.kind
        else {
            unreachable!("only data frames come here");
        };
        let link = &air.links[reception.link as usize];
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
            started: reception.start,
            rate: transmission.rate,
            signal: Some(reception.signal),
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
            let link = &mut air.links[reception.link as usize];
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
