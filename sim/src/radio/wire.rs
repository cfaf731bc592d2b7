//! The port of a wire: full duplex, one frame after another at the rate of the line, no contention
//! and no acknowledgement (the abstract links of `loss-tolerant.md`, gateways).
//!
//! A frame takes the time of its payload and arrives after the delay of its link, unless the loss
//! process of the link takes it. All that hear the port are its far ends.

use farhop_proto::base::{Duration, FrameOutcome, FrameUp, Instant, ReceivedFrame};

use super::air::{Air, Hearer, Timer, TxId};
use super::chip::Chip;
use super::loss::Fate;
use super::transmission::{Transmission, TransmissionKind};

impl Chip {
    /// Sends the next frame if the line is free.
    pub(super) fn send_on_wire(&mut self, air: &mut Air, now: Instant) {
        if self.is_transmitting() || !self.is_up {
            return;
        }
        while let Some(out) = self.functions[0].queue.front_mut() {
            let options = out.frame.options;
            if let Some(at) = options.not_before.filter(|at| *at > now) {
                air.set_timer(self.index, Timer::Access, at);
                return;
            }
            let rate = options.rate.unwrap_or(self.config.rate);
            let length = self.config.phy.air_time(out.frame.payload.len(), rate);
            let end = now + length;
            if options.deadline.is_some_and(|deadline| end > deadline) {
                self.end_frame(air, now, 0, 0, FrameOutcome::Late);
                continue;
            }
            (out.attempts, out.sent, out.spent) = (1, 1, length);
            let kind = TransmissionKind::Data {
                id: out.frame.id,
                to: out.frame.to,
                protocol: out.frame.protocol,
                payload: out.frame.payload.clone(),
                wants_ack: false,
                sequence: 0,
                attempt: 1,
                access: None,
                window: None,
            };
            self.stats.attempts += 1;
            self.stats.air_data += length;
            self.stats.busy += length;
            self.tx_until = Some(end);
            air.set_timer(self.index, Timer::TxEnd, end);
            let (radio, from) = (self.index, self.config.node);
            let nav = Duration::ZERO;
            air.transmit(Transmission { radio, from, start: now, end, rate, nav, kind });
            return;
        }
    }

    /// The last bit of a frame has left.
    pub(super) fn on_wire_sent(&mut self, air: &mut Air, now: Instant) {
        self.end_frame(air, now, 0, 0, FrameOutcome::Sent);
        self.send_on_wire(air, now);
    }

    /// The last bit of a frame has arrived.
    pub(super) fn on_wire_arrival(
        &mut self,
        air: &mut Air,
        now: Instant,
        hearer: &Hearer,
        tx: TxId,
    ) {
        let transmission = air.transmission(tx);
        let TransmissionKind::Data { to, protocol, payload, .. } = &transmission.kind else {
            unreachable!("a wire carries only data");
        };
        if !self.is_up || to.is_some_and(|to| to != self.config.node) || air.is_cut_off(tx) {
            return;
        }
        let length = transmission.end - transmission.start;
        let started = Instant::from_nanos(now.as_nanos().saturating_sub(length.as_nanos()));
        let frame = ReceivedFrame {
            radio: self.config.radio,
            from: transmission.from,
            to: *to,
            protocol: *protocol,
            payload: payload.clone(),
            started,
            rate: transmission.rate,
            signal: None,
            bits: 0,
        };
        let fate = air.fate(hearer.link, tx, started);
        if fate != Fate::Ok || !air.links[hearer.link as usize].is_up {
            self.stats.lost += 1;
            return;
        }
        self.stats.received += 1;
        air.report(self.index, now, FrameUp::Received(frame));
    }
}
