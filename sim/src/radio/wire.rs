//! The end of a wire: frames follow each other at its rate, in both directions at once, without
//! contention and acknowledgement (`loss-tolerant.md`: the abstract links; gateways).

use std::collections::VecDeque;

use farhop_proto::base::{
    Duration, Frame, FrameDone, FrameDown, FrameOutcome, FrameUp, Instant, ReceivedFrame, UnitId,
};
use farhop_proto::stack::LinkOverhead;

use super::air::{Air, Timer, TxId};
use super::config::ChipConfig;
use super::links::{Hearer, Reach};
use super::loss::Fate;
use super::stats::ChipStats;
use super::transmission::{Transmission, TransmissionKind};

/// One end of a wire.
#[derive(Debug)]
pub(super) struct Wire {
    index: usize,
    config: ChipConfig,
    pub(super) is_up: bool,
    /// When it was last switched on.
    up_since: Instant,
    /// Frames to send; the first is under way if `is_sending`.
    queue: VecDeque<Frame>,
    is_sending: bool,
    sequence: u16,
    pub(super) stats: ChipStats,
}

impl Wire {
    pub(super) fn new(index: usize, config: ChipConfig) -> Self {
        Self {
            index,
            config,
            is_up: true,
            up_since: Instant::ZERO,
            queue: VecDeque::new(),
            is_sending: false,
            sequence: 0,
            stats: ChipStats::default(),
        }
    }

    pub(super) fn room(&self) -> usize {
        if self.is_up { self.config.queue_frames.saturating_sub(self.queue.len()) } else { 0 }
    }

    pub(super) fn handle_frame(&mut self, air: &mut Air, now: Instant, frame: FrameDown) {
        match frame {
            FrameDown::Frame(frame) => {
                assert!(self.room() > 0, "a frame for a wire that has no room");
                self.queue.push_back(frame);
                self.send_next(air, now);
            }
            // There is no acknowledgement that could carry this state.
            FrameDown::ReplyState { .. } => {}
            FrameDown::Cancel(id) => self.cancel(air, now, id),
        }
    }

    fn cancel(&mut self, air: &mut Air, now: Instant, id: UnitId) {
        let waiting = usize::from(self.is_sending);
        let place = self.queue.iter().skip(waiting).position(|frame| frame.id == id);
        if let Some(frame) = place.and_then(|place| self.queue.remove(place + waiting)) {
            self.stats.cancelled += 1;
            self.end(air, now, &frame, FrameOutcome::Cancelled, Duration::ZERO);
        }
    }

    fn send_next(&mut self, air: &mut Air, now: Instant) {
        let Some(frame) = self.queue.front().filter(|_| !self.is_sending) else { return };
        if let Some(not_before) = frame.options.not_before.filter(|time| *time > now) {
            air.set_timer(self.index, Timer::Access, not_before);
            return;
        }
        let rate = frame.options.rate.unwrap_or(self.config.rate);
        let end = now + self.air_time(frame);
        let kind = TransmissionKind::Data {
            id: frame.id,
            to: frame.to,
            protocol: frame.protocol,
            payload: frame.payload.clone(),
            wants_ack: false,
            sequence: self.sequence,
            attempt: 1,
            access: None,
            window: None,
        };
        self.is_sending = true;
        self.sequence = (self.sequence + 1) & 0xfff;
        self.stats.attempts += 1;
        self.stats.air_data += end - now;
        let (radio, from) = (self.index, self.config.node);
        let nav = Duration::ZERO;
        air.transmit(Transmission { radio, from, start: now, end, rate, nav, kind });
    }

    fn air_time(&self, frame: &Frame) -> Duration {
        let rate = frame.options.rate.unwrap_or(self.config.rate);
        let free = match self.config.link_overhead {
            LinkOverhead::Counted => 0,
            LinkOverhead::Free | LinkOverhead::Lossy => usize::from(frame.options.overhead),
        };
        self.config.phy.air_time(frame.payload.len().saturating_sub(free), rate)
    }

    /// The `not_before` time of the first frame has come.
    pub(super) fn on_access(&mut self, air: &mut Air, now: Instant) {
        self.send_next(air, now);
    }

    pub(super) fn on_tx_end(&mut self, air: &mut Air, now: Instant) {
        self.is_sending = false;
        let frame = self.queue.pop_front().expect("a frame is under way");
        let air_time = self.air_time(&frame);
        self.stats.sent += 1;
        self.end(air, now, &frame, FrameOutcome::Sent, air_time);
        self.send_next(air, now);
    }

    fn end(
        &mut self,
        air: &mut Air,
        now: Instant,
        frame: &Frame,
        outcome: FrameOutcome,
        air_time: Duration,
    ) {
        self.stats.frames += 1;
        let attempts = u8::from(outcome == FrameOutcome::Sent);
        let done = FrameDone { id: frame.id, outcome, attempts, air_time };
        air.report(self.index, now, FrameUp::Done(done));
    }

    /// A frame has arrived in full.
    pub(super) fn on_signal_end(&mut self, air: &mut Air, now: Instant, hearer: &Hearer, tx: TxId) {
        let transmission = air.transmission(tx);
        let length = transmission.end - transmission.start;
        if !self.is_up || now - length < self.up_since {
            return;
        }
        let TransmissionKind::Data { to, protocol, payload, .. } = &transmission.kind else {
            unreachable!("a wire carries only data");
        };
        let frame = ReceivedFrame {
            radio: self.config.radio,
            from: transmission.from,
            to: *to,
            protocol: *protocol,
            payload: payload.clone(),
            started: now - length,
            rate: transmission.rate,
            signal: None,
            bits: 0,
        };
        let is_cut_off = air.is_cut_off(tx);
        let Reach::Decodable(link) = hearer.reach else { return };
        let fate = match self.config.link_overhead {
            LinkOverhead::Free if length.is_zero() => Fate::Ok,
            _ => air.fate(link, tx, frame.started, 0),
        };
        let has_arrived = air.links.get(link).is_up && !is_cut_off;
        if has_arrived && fate == Fate::Ok {
            air.tell_heard(self.config.node, tx, 1);
        }
        if matches!(fate, Fate::Dropped | Fate::Unanswered) {
            self.stats.driver_drops += 1;
            return;
        }
        if fate != Fate::Ok || !has_arrived {
            self.stats.lost += 1;
            return;
        }
        if frame.to.is_none_or(|to| to == self.config.node) {
            self.stats.received += 1;
            air.report(self.index, now, FrameUp::Received(frame));
        } else {
            self.stats.overheard += 1;
        }
    }

    pub(super) fn set_up(&mut self, air: &mut Air, now: Instant, up: bool) {
        if up == self.is_up {
            return;
        }
        self.is_up = up;
        if up {
            self.up_since = now;
            return;
        }
        for timer in Timer::ALL {
            air.cancel_timer(self.index, timer);
        }
        if std::mem::take(&mut self.is_sending) {
            air.cut_off(self.index, now);
        }
        while let Some(frame) = self.queue.pop_front() {
            self.stats.failures += 1;
            self.end(air, now, &frame, FrameOutcome::Failed, Duration::ZERO);
        }
    }
}
