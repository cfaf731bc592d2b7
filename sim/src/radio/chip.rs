//! One radio as a transmitter: its queue, attempts, acknowledgements and time-outs (IEEE
//! 802.11-1999 9.2, `radio.md` 2). When it may send is in `access`, what it hears in `reception`.

use std::collections::VecDeque;

use farhop_proto::base::phy::{DATA_HEADER_BYTES, FCS_BYTES, LLC_SNAP_BYTES, QOS_CONTROL_BYTES};
use farhop_proto::base::{
    AckPolicy, Bitrate, Duration, Frame, FrameDone, FrameDown, FrameOutcome, FrameUp, Instant,
    NodeId, Rng, Seed, UnitId,
};

use super::air::{Air, Timer};
use super::config::{ChipConfig, Interference};
use super::reception::Receiver;
use super::stats::ChipStats;
use super::transmission::{Transmission, TransmissionKind};

/// What the radio does with the frame at the head of its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// There is none.
    Idle,
    /// It must not go yet.
    Deferred,
    /// It waits for the medium, its gap and its backoff.
    Contending,
    /// It is on air.
    Sending,
    /// Its acknowledgement is awaited.
    AwaitingAck {
        /// The last moment for the acknowledgement to begin.
        limit: Instant,
        /// The time-out is over, but something that began in time is still arriving.
        is_over: bool,
    },
}

/// An acknowledgement that is due.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reply {
    pub(super) to_radio: usize,
    pub(super) to: NodeId,
    pub(super) rate: Bitrate,
    pub(super) accept: bool,
}

/// One radio.
#[derive(Debug)]
pub(super) struct Chip {
    pub(super) index: usize,
    pub(super) config: ChipConfig,
    pub(super) difs: Duration,
    pub(super) eifs: Duration,
    pub(super) rng: Rng,
    pub(super) is_up: bool,
    /// Frames to send; the first is in service unless the phase is idle.
    pub(super) queue: VecDeque<Frame>,
    pub(super) phase: Phase,
    /// Transmissions of the frame in service.
    pub(super) attempts: u8,
    /// Air time of the frame in service, all attempts and acknowledgements.
    spent: Duration,
    sequence: u16,
    pub(super) window: u32,
    /// Slots left, while a backoff is under way.
    pub(super) backoff: Option<u32>,
    /// When the own transmission ends, while there is one.
    pub(super) tx_until: Option<Instant>,
    pub(super) last_tx_end: Instant,
    pub(super) receiver: Receiver,
    /// When the medium last became idle, as this radio senses it.
    pub(super) idle_since: Instant,
    /// When the last exchange was settled: acknowledged, or given up waiting.
    pub(super) settled_at: Instant,
    pub(super) nav_until: Instant,
    /// The end of the last frame in error, after which EIFS applies.
    pub(super) error_at: Option<Instant>,
    pub(super) busy_since: Instant,
    pub(super) reply: Option<Reply>,
    reply_bits: u16,
    pub(super) reply_accept: bool,
    pub(super) stats: ChipStats,
}

impl Chip {
    pub(super) fn new(
        index: usize,
        config: ChipConfig,
        interference: Interference,
        seed: Seed,
    ) -> Self {
        let stream =
            |what| seed.stream(&format!("node/{}/radio/{}/{what}", config.node.0, config.radio.0));
        let (smallest, _) = config.phy.contention_window();
        Self {
            index,
            difs: config.difs(),
            eifs: config.eifs(),
            rng: stream("backoff"),
            is_up: true,
            queue: VecDeque::with_capacity(config.queue_frames.min(64)),
            phase: Phase::Idle,
            attempts: 0,
            spent: Duration::ZERO,
            sequence: 0,
            window: smallest,
            backoff: None,
            tx_until: None,
            last_tx_end: Instant::ZERO,
            receiver: Receiver::new(&config, interference, stream("reception")),
            idle_since: Instant::ZERO,
            settled_at: Instant::ZERO,
            nav_until: Instant::ZERO,
            error_at: None,
            busy_since: Instant::ZERO,
            reply: None,
            reply_bits: 0,
            reply_accept: true,
            stats: ChipStats::default(),
            config,
        }
    }

    pub(super) fn room(&self) -> usize {
        if self.is_up { self.config.queue_frames.saturating_sub(self.queue.len()) } else { 0 }
    }

    pub(super) fn handle_frame(&mut self, air: &mut Air, now: Instant, frame: FrameDown) {
        match frame {
            FrameDown::Frame(frame) => {
                assert!(self.room() > 0, "a frame for a radio that has no room");
                self.queue.push_back(frame);
                if self.phase == Phase::Idle {
                    self.contend(air, now);
                }
            }
            FrameDown::ReplyState { bits, accept, .. } => {
                self.reply_bits = bits;
                self.reply_accept = accept;
            }
            FrameDown::Cancel(id) => self.cancel(air, now, id),
        }
    }

    /// Takes back a frame that has not been on air; one that has ends by itself.
    fn cancel(&mut self, air: &mut Air, now: Instant, id: UnitId) {
        let Some(place) = self.queue.iter().position(|frame| frame.id == id) else { return };
        if place == 0 {
            if self.attempts == 0 && matches!(self.phase, Phase::Deferred | Phase::Contending) {
                air.cancel_timer(self.index, Timer::Access);
                self.finish(air, now, FrameOutcome::Cancelled);
            }
            return;
        }
        self.queue.remove(place);
        self.stats.frames += 1;
        self.stats.cancelled += 1;
        let done = FrameDone {
            id,
            outcome: FrameOutcome::Cancelled,
            attempts: 0,
            air_time: Duration::ZERO,
        };
        air.report(self.index, now, FrameUp::Done(done));
    }

    /// Something begins at the antenna, for the time that the medium was busy.
    pub(super) fn note_busy(&mut self, now: Instant) {
        if !self.receiver.is_sensing() && !self.is_transmitting() {
            self.busy_since = now;
        }
    }

    /// Something has ended at the antenna.
    pub(super) fn note_idle(&mut self, now: Instant) {
        if !self.receiver.is_sensing() && !self.is_transmitting() {
            self.stats.busy += now.since(self.busy_since);
        }
    }

    /// The frame in service may go.
    pub(super) fn on_access(&mut self, air: &mut Air, now: Instant) {
        if self.phase == Phase::Deferred {
            self.contend(air, now);
            return;
        }
        if self.is_transmitting() {
            // An acknowledgement left at this very moment; the frame goes after it.
            self.backoff = self.backoff.map(|_| 0);
            return;
        }
        let frame = self.head();
        let (rate, air_time) = self.rate_and_air_time(frame);
        let (end, is_qos) = (now + air_time, frame.options.ack == AckPolicy::NoAck);
        if is_qos && frame.options.deadline.is_some_and(|deadline| end > deadline) {
            self.finish(air, now, FrameOutcome::Late);
            return;
        }
        let wants_ack = !is_qos && frame.to.is_some();
        let nav = if wants_ack {
            self.config.phy.sifs() + self.config.ack_air_time(rate)
        } else {
            Duration::ZERO
        };
        if self.is_drawing(self.head()) {
            self.backoff = None;
        }
        if self.attempts == 0 {
            self.sequence = (self.sequence + 1) & 0xfff;
        } else {
            self.stats.retries += 1;
        }
        self.attempts += 1;
        self.stats.attempts += 1;
        self.stats.air_data += air_time;
        if self.attempts > 1 {
            self.stats.air_retries += air_time;
        }
        self.spent += air_time;
        self.phase = Phase::Sending;
        let frame = self.head();
        let kind = TransmissionKind::Data {
            id: frame.id,
            to: frame.to,
            protocol: frame.protocol,
            payload: frame.payload.clone(),
            wants_ack,
            sequence: self.sequence,
            attempt: self.attempts,
            nav,
        };
        self.transmit(air, now, end, rate, kind);
    }

    /// How a frame goes: the header is that of QoS data where there is no acknowledgement.
    fn rate_and_air_time(&self, frame: &Frame) -> (Bitrate, Duration) {
        let options = frame.options;
        let is_qos = options.ack == AckPolicy::NoAck;
        let rate = options.rate.unwrap_or(if frame.to.is_none() && !is_qos {
            self.config.broadcast_rate
        } else {
            self.config.rate
        });
        let header = DATA_HEADER_BYTES + if is_qos { QOS_CONTROL_BYTES } else { 0 };
        let bytes = header + LLC_SNAP_BYTES + frame.payload.len() + FCS_BYTES;
        (rate, self.config.phy.air_time(bytes, rate))
    }

    /// The acknowledgement is due, whatever the medium.
    pub(super) fn on_reply(&mut self, air: &mut Air, now: Instant) {
        let reply = self.reply.take().expect("a reply is due");
        if self.is_transmitting() {
            self.stats.acks_suppressed += 1;
            return;
        }
        let rate = self.config.ack_rate(reply.rate);
        let air_time = self.config.ack_air_time(reply.rate);
        self.stats.acks_sent += 1;
        self.stats.air_ack += air_time;
        let kind = TransmissionKind::Ack {
            to_radio: reply.to_radio,
            to: reply.to,
            bits: self.reply_bits,
            accept: reply.accept,
        };
        self.transmit(air, now, now + air_time, rate, kind);
    }

    fn transmit(
        &mut self,
        air: &mut Air,
        now: Instant,
        end: Instant,
        rate: Bitrate,
        kind: TransmissionKind,
    ) {
        if !self.is_busy() {
            self.on_busy(air, now);
        }
        self.note_busy(now);
        self.tx_until = Some(end);
        self.on_own_start(air, now);
        air.set_timer(self.index, Timer::TxEnd, end);
        let (radio, from) = (self.index, self.config.node);
        air.transmit(Transmission { radio, from, start: now, end, rate, kind });
    }

    pub(super) fn on_tx_end(&mut self, air: &mut Air, now: Instant) {
        self.tx_until = None;
        self.last_tx_end = now;
        self.note_idle(now);
        let is_idle = !self.is_busy();
        if is_idle {
            self.idle_since = now;
        }
        if self.phase == Phase::Sending {
            let frame = self.head();
            if frame.to.is_some() && frame.options.ack == AckPolicy::Normal {
                let rate = frame.options.rate.unwrap_or(self.config.rate);
                let limit = now + self.config.ack_timeout;
                self.phase = Phase::AwaitingAck { limit, is_over: false };
                let notice = self.config.phy.plcp(self.config.ack_rate(rate));
                air.set_timer(self.index, Timer::AckTimeout, limit + notice);
            } else {
                self.finish(air, now, FrameOutcome::Sent);
            }
        } else if is_idle {
            self.set_access(air, now);
        }
    }

    /// The acknowledgement has arrived, `air_time` long.
    pub(super) fn on_acknowledged(
        &mut self,
        air: &mut Air,
        now: Instant,
        air_time: Duration,
        outcome: FrameOutcome,
    ) {
        air.cancel_timer(self.index, Timer::AckTimeout);
        self.stats.acks_received += 1;
        self.spent += air_time;
        self.settled_at = now;
        self.finish(air, now, outcome);
    }

    /// No acknowledgement has begun in time.
    pub(super) fn on_ack_timeout(&mut self, air: &mut Air, now: Instant) {
        let Phase::AwaitingAck { limit, .. } = self.phase else {
            unreachable!("the time-out runs only while an acknowledgement is awaited");
        };
        if self.receiver.was_locked_by(now, limit) {
            self.phase = Phase::AwaitingAck { limit, is_over: true };
        } else {
            self.on_attempt_failed(air, now);
        }
    }

    pub(super) fn on_attempt_failed(&mut self, air: &mut Air, now: Instant) {
        self.settled_at = now;
        let most = self.head().options.attempts.unwrap_or(self.config.attempts).max(1);
        if self.attempts >= most {
            self.finish(air, now, FrameOutcome::Failed);
            return;
        }
        if self.config.exponential_backoff {
            let (_, largest) = self.config.phy.contention_window();
            self.window = (2 * self.window + 1).min(largest);
        }
        self.draw_backoff();
        self.contend(air, now);
    }

    /// Ends the frame in service, and takes up the next.
    fn finish(&mut self, air: &mut Air, now: Instant, outcome: FrameOutcome) {
        let frame = self.queue.pop_front().expect("a frame is in service");
        let done =
            FrameDone { id: frame.id, outcome, attempts: self.attempts, air_time: self.spent };
        let was_on_air = self.attempts > 0;
        self.attempts = 0;
        self.spent = Duration::ZERO;
        self.count(outcome);
        (self.window, _) = self.config.phy.contention_window();
        if was_on_air && self.is_drawing(&frame) {
            self.draw_backoff();
        }
        air.report(self.index, now, FrameUp::Done(done));
        self.contend(air, now);
    }

    fn count(&mut self, outcome: FrameOutcome) {
        self.stats.frames += 1;
        let counter = match outcome {
            FrameOutcome::Sent => &mut self.stats.sent,
            FrameOutcome::Acked(_) => &mut self.stats.acknowledged,
            FrameOutcome::Nacked(_) => &mut self.stats.refused,
            FrameOutcome::Failed | FrameOutcome::Unknown => &mut self.stats.failures,
            FrameOutcome::Cancelled => &mut self.stats.cancelled,
            FrameOutcome::Late => &mut self.stats.late,
        };
        *counter += 1;
    }

    pub(super) fn set_up(&mut self, air: &mut Air, now: Instant, up: bool) {
        if up == self.is_up {
            return;
        }
        self.is_up = up;
        if up {
            self.idle_since = now;
            return;
        }
        for timer in Timer::ALL {
            air.cancel_timer(self.index, timer);
        }
        if self.is_transmitting() {
            self.tx_until = None;
            self.last_tx_end = now;
            self.note_idle(now);
            air.cut_off(self.index, now);
        }
        self.phase = Phase::Idle;
        self.receiver.reset();
        self.reply = None;
        self.backoff = None;
        self.error_at = None;
        self.nav_until = now;
        (self.window, _) = self.config.phy.contention_window();
        let (mut attempts, mut air_time) = (self.attempts, self.spent);
        (self.attempts, self.spent) = (0, Duration::ZERO);
        while let Some(frame) = self.queue.pop_front() {
            let outcome = FrameOutcome::Failed;
            self.count(outcome);
            let done = FrameDone { id: frame.id, outcome, attempts, air_time };
            air.report(self.index, now, FrameUp::Done(done));
            (attempts, air_time) = (0, Duration::ZERO);
        }
    }
}
