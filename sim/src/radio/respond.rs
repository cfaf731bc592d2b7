//! What a radio does with a received frame: answers, NAV, duplicate detection, delivery (IEEE
//! 802.11-1999 9.2.5, 9.2.8, 9.2.9; 802.11-2012 9.21).

use bytes::Bytes;
use farhop_proto::base::{
    AccessCategory, Bitrate, Duration, EtherType, FrameUp, Instant, NodeId, PhyKind, ReceivedFrame,
};

use super::air::{Air, Timer};
use super::chip::{Chip, Phase};
use super::plan::{Awaited, Step};
use super::reception::Reception;
use super::recipient::{Arrived, Recipient};
use super::transmission::{Answer, Mpdu, Transmission, TransmissionKind};

/// An answer that is due.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reply {
    to_radio: usize,
    to: NodeId,
    /// Rate of the frame that is answered.
    rate: Bitrate,
    accept: bool,
    /// Duration field of the frame that is answered.
    nav: Duration,
    /// The link over which that frame came.
    link: u32,
    kind: ReplyKind,
}

#[derive(Clone, Copy, Debug)]
enum ReplyKind {
    Ack,
    Cts,
    BlockAck { access: AccessCategory, start: u16, map: u64 },
}

/// Facts about a received frame that do not depend on its kind.
#[derive(Clone, Copy)]
struct Heard {
    from_radio: usize,
    from: NodeId,
    rate: Bitrate,
    nav: Duration,
    link: u32,
    is_ours: bool,
}

impl Chip {
    /// A frame was received without error, or at least one of its MPDUs was.
    pub(super) fn on_received(&mut self, air: &mut Air, now: Instant, reception: Reception) {
        // Whatever follows an overheard RTS shows that its reserved time is used.
        if std::mem::take(&mut self.has_nav_timer) {
            air.cancel_timer(self.index, Timer::Nav);
        }
        let transmission = air.transmission(reception.tx);
        let is_addressed = air.links.get(reception.link).is_addressed;
        let to = transmission.to();
        let heard = Heard {
            from_radio: transmission.radio,
            from: transmission.from,
            rate: self.rate_of(air, transmission),
            nav: transmission.nav,
            link: reception.link,
            is_ours: to.is_none_or(|to| to == self.node && is_addressed),
        };
        match &transmission.kind {
            TransmissionKind::Data { .. } => self.on_data(air, now, reception, heard),
            TransmissionKind::Ampdu { .. } => self.on_ampdu(air, now, reception, heard),
            TransmissionKind::Ack(answer) => {
                let answer = *answer;
                if !self.is_for_us(now, &answer, heard) {
                } else if self.is_awaiting(reception, Awaited::Ack) {
                    self.on_acknowledged(air, now, &answer);
                } else {
                    self.stats.acks_late += 1;
                }
            }
            TransmissionKind::BlockAck { answer, start, map, .. } => {
                let (answer, score) = (*answer, (*start, *map));
                if !self.is_for_us(now, &answer, heard) {
                } else if self.is_awaiting(reception, Awaited::BlockAck) {
                    self.on_block_ack(air, now, &answer, score);
                } else {
                    self.stats.acks_late += 1;
                }
            }
            TransmissionKind::Cts(answer) => {
                let answer = *answer;
                if self.is_for_us(now, &answer, heard)
                    && self.is_in_time(reception)
                    && self.exchange.is_some_and(|exchange| exchange.step == Step::Rts)
                {
                    self.on_clear_to_send(air, now, &answer);
                }
            }
            TransmissionKind::Rts { .. } => self.on_rts(air, now, heard),
            TransmissionKind::BlockAckRequest { access, start, .. } => {
                let (access, start) = (*access, *start);
                self.on_request(air, now, heard, access, start);
            }
        }
    }

    /// Reserves the medium for `nav` from now on, for an exchange that radio `holder` began.
    pub(super) fn set_nav(&mut self, now: Instant, nav: Duration, holder: usize) {
        if !nav.is_zero() && now + nav > self.nav_until {
            (self.nav_until, self.nav_holder) = (now + nav, holder as u32);
        }
    }

    /// Whether an answer is for this radio; if not, sets the NAV by its Duration field.
    fn is_for_us(&mut self, now: Instant, answer: &Answer, heard: Heard) -> bool {
        let is_ours = answer.to_radio == self.index;
        if !is_ours {
            self.set_nav(now, heard.nav, answer.to_radio);
        }
        is_ours
    }

    fn is_in_time(&self, reception: Reception) -> bool {
        matches!(self.phase, Phase::Awaiting { limit, .. } if reception.start <= limit)
    }

    fn is_awaiting(&self, reception: Reception, awaited: Awaited) -> bool {
        let is_it = self.exchange.is_some_and(|exchange| {
            exchange.awaited == awaited && matches!(exchange.step, Step::Data | Step::Request)
        });
        is_it && self.is_in_time(reception)
    }

    /// An RTS was received.
    fn on_rts(&mut self, air: &mut Air, now: Instant, heard: Heard) {
        if heard.is_ours {
            // A radio whose NAV is set leaves an RTS unanswered, unless the RTS comes from the
            // holder of the TXOP that set it.
            let is_of_txop = self.nav_holder == heard.from_radio as u32;
            if self.nav_until <= now || is_of_txop || !self.config.carrier_sense {
                self.answer(air, now, heard, ReplyKind::Cts);
            }
            return;
        }
        if now + heard.nav <= self.nav_until {
            return;
        }
        self.set_nav(now, heard.nav, heard.from_radio);
        self.announced_at = now;
        // If no answer follows, the data does not come either, and the medium is free again.
        let phy = &self.config.phy;
        let round_trip = self.config.ack_timeout.saturating_sub(phy.sifs() + self.config.slot);
        let cts = self.config.ack_air_time(heard.rate);
        let unused = (phy.sifs() + self.config.slot) * 2 + cts + round_trip;
        self.has_nav_timer = true;
        air.set_timer(self.index, Timer::Nav, now + unused);
    }

    /// The time has passed in which data should have followed an overheard RTS (802.11-1999
    /// 9.2.5.4).
    pub(super) fn on_nav_unused(&mut self, air: &mut Air, now: Instant) {
        self.has_nav_timer = false;
        let has_failed = self.error_at.is_some_and(|at| at > self.announced_at);
        if has_failed || self.was_locked_by(air, now, now) {
            return;
        }
        self.stats.nav_resets += 1;
        self.nav_until = now;
        self.resume(air, now);
    }

    /// A block acknowledgement request: the sender has given up the frames before `start`.
    fn on_request(
        &mut self,
        air: &mut Air,
        now: Instant,
        heard: Heard,
        access: AccessCategory,
        start: u16,
    ) {
        if !heard.is_ours {
            self.set_nav(now, heard.nav, heard.from_radio);
            return;
        }
        let radio = self.index;
        let recipient = self
            .recipients
            .entry((heard.from_radio, access))
            .or_insert_with(|| Recipient::new(start));
        let mut drops = 0;
        let mut up = |frame| drops += hand_up(air, now, radio, frame);
        recipient.follow(start, &mut up);
        recipient.move_to(start, &mut up);
        self.stats.driver_drops += drops;
        let (start, map) = recipient.score();
        self.answer(air, now, heard, ReplyKind::BlockAck { access, start, map });
    }

    /// The rate of a decodable frame in terms of this radio's own PHY.
    #[inline]
    fn rate_of(&self, air: &Air, transmission: &Transmission) -> Bitrate {
        let (rate, phy) = (transmission.rate, &self.config.phy);
        // Rates without an MCS are the same for all PHYs.
        match (phy.kind, rate.form()) {
            (PhyKind::N | PhyKind::Ac, _) | (_, 1..) => {
                phy.received(&air.links.phy(transmission.radio), rate)
            }
            _ => rate,
        }
    }

    /// Schedules an answer after SIFS.
    fn answer(&mut self, air: &mut Air, now: Instant, heard: Heard, kind: ReplyKind) {
        self.reply = Some(Reply {
            to_radio: heard.from_radio,
            to: heard.from,
            rate: heard.rate,
            accept: self.reply_accept,
            nav: heard.nav,
            link: heard.link,
            kind,
        });
        air.set_timer(self.index, Timer::Reply, now + self.config.phy.sifs());
    }

    /// Sends the answer that is due, whether or not the medium is busy.
    pub(super) fn on_reply(&mut self, air: &mut Air, now: Instant) {
        let reply = self.reply.take().expect("a reply is due");
        if self.is_transmitting(air) {
            self.stats.acks_suppressed += 1;
            return;
        }
        let rate = self.config.ack_rate(reply.rate);
        let Reply { to_radio, to, accept, .. } = reply;
        let answer = Answer { to_radio, to, bits: self.reply_bits, accept };
        let (air_time, kind) = match reply.kind {
            ReplyKind::Ack => {
                self.stats.acks_sent += 1;
                (self.config.ack_air_time(reply.rate), TransmissionKind::Ack(answer))
            }
            ReplyKind::Cts => {
                self.stats.cts_sent += 1;
                (self.config.ack_air_time(reply.rate), TransmissionKind::Cts(answer))
            }
            ReplyKind::BlockAck { access, start, map } => {
                self.stats.block_acks_sent += 1;
                let kind = TransmissionKind::BlockAck { answer, access, start, map };
                (self.config.block_ack_air_time(reply.rate), kind)
            }
        };
        match reply.kind {
            ReplyKind::Cts => self.stats.air_control += air_time,
            _ => self.stats.air_ack += air_time,
        }
        air.links.get_mut(reply.link).answered += air_time;
        let nav = reply.nav.saturating_sub(self.config.phy.sifs() + air_time);
        self.transmit(air, now, now + air_time, (rate, nav), kind);
    }

    fn on_data(&mut self, air: &mut Air, now: Instant, reception: Reception, heard: Heard) {
        let TransmissionKind::Data {
            to,
            protocol,
            payload,
            wants_ack,
            sequence,
            attempt,
            access,
            window,
            ..
        } = &air.transmission(reception.tx).kind
        else {
            unreachable!("only data frames come here");
        };
        let is_to_all = to.is_none();
        let (wants_ack, sequence, attempt) = (*wants_ack, *sequence, *attempt);
        let (access, window) = (*access, *window);
        let is_reported = heard.is_ours || self.overhears;
        let frame = is_reported.then(|| ReceivedFrame {
            to: *to,
            protocol: *protocol,
            payload: payload.clone(),
            ..self.received(reception, heard)
        });
        if !heard.is_ours {
            self.set_nav(now, heard.nav, heard.from_radio);
            self.overheard += 1;
            if let Some(frame) = frame {
                air.report(self.index, now, FrameUp::Overheard(frame));
            }
            return;
        }
        if is_to_all {
            // It may belong to a TXOP that continues.
            self.set_nav(now, heard.nav, heard.from_radio);
        }
        if wants_ack {
            self.answer(air, now, heard, ReplyKind::Ack);
            if !self.reply_accept {
                // Refused: a repetition must count as a frame that was not seen before.
                return;
            }
        }
        let frame = frame.filter(|_| reception.dropped & 1 == 0);
        if let (Some(window), Some(access)) = (window, access) {
            self.take_up(air, now, heard, (access, window), (sequence, frame));
            return;
        }
        let link = air.links.get_mut(reception.link);
        let last = &mut link.last_sequence[access.unwrap_or_default() as usize];
        if attempt > 1 && *last == Some(sequence) {
            self.stats.duplicates += 1;
            return;
        }
        *last = Some(sequence);
        self.stats.received += 1;
        self.stats.driver_drops += hand_up(air, now, self.index, frame);
    }

    /// The part of a received frame that follows from its reception, without its contents.
    fn received(&self, reception: Reception, heard: Heard) -> ReceivedFrame {
        ReceivedFrame {
            radio: self.radio,
            from: heard.from,
            to: None,
            protocol: EtherType(0),
            payload: Bytes::new(),
            started: reception.start,
            rate: heard.rate,
            signal: Some(reception.signal),
            bits: 0,
        }
    }

    fn on_ampdu(&mut self, air: &mut Air, now: Instant, reception: Reception, heard: Heard) {
        if !heard.is_ours {
            self.set_nav(now, heard.nav, heard.from_radio);
        }
        let TransmissionKind::Ampdu { to, access, window, .. } =
            &air.transmission(reception.tx).kind
        else {
            unreachable!("only A-MPDUs come here");
        };
        let (to, key) = (*to, (*access, *window));
        if heard.is_ours && !self.reply_accept {
            // Refused as a whole: all of it will be repeated.
            let kind = ReplyKind::BlockAck { access: key.0, start: 0, map: 0 };
            self.answer(air, now, heard, kind);
            return;
        }
        let count = air.transmission(reception.tx).mpdus().len();
        for place in (0..count).filter(|place| reception.decoded >> place & 1 == 1) {
            if !heard.is_ours && !self.overhears {
                self.overheard += 1;
                continue;
            }
            let Mpdu { sequence, protocol, payload, .. } =
                &air.transmission(reception.tx).mpdus()[place];
            let (sequence, frame) = (
                *sequence,
                ReceivedFrame {
                    to: Some(to),
                    protocol: *protocol,
                    payload: payload.clone(),
                    ..self.received(reception, heard)
                },
            );
            if heard.is_ours {
                let frame = (reception.dropped >> place & 1 == 0).then_some(frame);
                self.take_up(air, now, heard, key, (sequence, frame));
            } else {
                self.overheard += 1;
                air.report(self.index, now, FrameUp::Overheard(frame));
            }
        }
        if heard.is_ours {
            let recipient = &self.recipients[&(heard.from_radio, key.0)];
            let (start, map) = recipient.score();
            self.answer(air, now, heard, ReplyKind::BlockAck { access: key.0, start, map });
        }
    }

    /// Hands a frame to its block acknowledgement agreement, and delivers the frames that are now
    /// in order.
    fn take_up(
        &mut self,
        air: &mut Air,
        now: Instant,
        heard: Heard,
        (access, window): (AccessCategory, u16),
        (number, frame): (u16, Arrived),
    ) {
        let radio = self.index;
        let recipient = self
            .recipients
            .entry((heard.from_radio, access))
            .or_insert_with(|| Recipient::new(window));
        let mut drops = 0;
        let mut up = |frame| drops += hand_up(air, now, radio, frame);
        recipient.follow(window, &mut up);
        if recipient.take(number, frame, &mut up) {
            self.stats.received += 1;
        } else {
            self.stats.duplicates += 1;
        }
        self.stats.driver_drops += drops;
    }
}

/// Delivers a frame for this node; `None` is a frame that the driver drops after the card has
/// acknowledged it. Returns the number of drops, 0 or 1.
fn hand_up(air: &mut Air, now: Instant, radio: usize, frame: Arrived) -> u64 {
    let is_dropped = frame.is_none();
    if let Some(frame) = frame {
        air.report(radio, now, FrameUp::Received(frame));
    }
    u64::from(is_dropped)
}
