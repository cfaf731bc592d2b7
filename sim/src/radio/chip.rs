//! One radio: its access functions and what they share, the transmitter and what comes and goes
//! between it and its node. When it may send is in `access`, how in `exchange` and `aggregate`,
//! what it hears in `reception`, how it answers in `respond`.

use std::collections::BTreeMap;

use farhop_proto::base::{
    AccessCategory, AckPolicy, Bitrate, Duration, FrameDone, FrameDown, FrameOutcome, FrameUp,
    Instant, NodeId, Rng, Seed, UnitId,
};

use super::air::{Air, Timer};
use super::config::{AcParams, ChipConfig, EifsRule, Interference};
use super::edcaf::{Edcaf, Wait};
use super::plan::Exchange;
use super::rate::Rates;
use super::reception::{Attention, Ear, Receiver};
use super::recipient::Recipient;
use super::respond::Reply;
use super::stats::ChipStats;
use super::transmission::{Transmission, TransmissionKind};

/// What the transmitter does for the exchange that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// There is none.
    Free,
    /// A frame of it is on air.
    Sending,
    /// SIFS before its next frame.
    Pausing,
    /// An answer is awaited.
    Awaiting {
        /// The last moment for the answer to begin.
        limit: Instant,
        /// The time-out is over, but something that began in time is still arriving.
        is_over: bool,
    },
}

/// One radio.
#[derive(Debug)]
pub(super) struct Chip {
    /// What it senses, ahead of all else.
    pub(super) ear: Ear,
    pub(super) index: usize,
    pub(super) config: ChipConfig,
    /// What EIFS adds to the interframe space.
    pub(super) after_error: Duration,
    pub(super) rng: Rng,
    pub(super) is_up: bool,
    /// Access functions in rising priority; one alone without EDCA.
    pub(super) functions: Vec<Edcaf>,
    pub(super) rates: Rates,
    /// The exchange of the function that has the air.
    pub(super) exchange: Option<Exchange>,
    pub(super) phase: Phase,
    /// When the own transmission ends, while there is one.
    pub(super) tx_until: Option<Instant>,
    pub(super) last_tx_end: Instant,
    pub(super) receiver: Receiver,
    /// When the last exchange was settled: acknowledged, or given up waiting.
    pub(super) settled_at: Instant,
    pub(super) nav_until: Instant,
    /// When the RTS ended that the NAV is from.
    pub(super) announced_at: Instant,
    /// The end of the last frame in error, after which EIFS applies.
    pub(super) error_at: Option<Instant>,
    pub(super) reply: Option<Reply>,
    pub(super) reply_bits: u16,
    pub(super) reply_accept: bool,
    /// What has arrived under agreements, by the sender's radio and access category.
    pub(super) recipients: BTreeMap<(usize, AccessCategory), Recipient>,
    pub(super) stats: ChipStats,
}

impl Chip {
    /// To be called when anything was done to it but to its ear.
    pub(super) fn settle(&mut self) {
        let is_idle = self.is_up
            && self.tx_until.is_none()
            && self.exchange.is_none()
            && self.phase == Phase::Free
            && self.config.eifs != EifsRule::Always
            && self.receiver.is_free()
            && self.functions.iter().all(Edcaf::is_at_rest);
        self.ear.attention = if is_idle { Attention::Idle } else { Attention::Engaged };
    }

    pub(super) fn new(
        index: usize,
        config: ChipConfig,
        interference: Interference,
        seed: Seed,
    ) -> Self {
        let stream =
            |what| seed.stream(&format!("node/{}/radio/{}/{what}", config.node.0, config.radio.0));
        Self {
            ear: Receiver::ear(&config, interference),
            index,
            after_error: config.eifs().saturating_sub(config.difs()),
            rng: stream("backoff"),
            is_up: true,
            functions: functions(&config),
            rates: Rates::build(config.rate_control, config.phy, config.rate, stream("rate")),
            exchange: None,
            phase: Phase::Free,
            tx_until: None,
            last_tx_end: Instant::ZERO,
            receiver: Receiver::new(interference, stream("reception")),
            settled_at: Instant::ZERO,
            nav_until: Instant::ZERO,
            announced_at: Instant::ZERO,
            error_at: None,
            reply: None,
            reply_bits: 0,
            reply_accept: true,
            recipients: BTreeMap::new(),
            stats: ChipStats::default(),
            config,
        }
    }

    /// The function of an access category.
    fn function_of(&self, access: AccessCategory) -> usize {
        if self.config.edca.is_some() { access as usize } else { 0 }
    }

    pub(super) fn room(&self, access: AccessCategory) -> usize {
        let used = self.functions[self.function_of(access)].queue.len();
        if self.is_up { self.config.queue_frames.saturating_sub(used) } else { 0 }
    }

    pub(super) fn handle_frame(&mut self, air: &mut Air, now: Instant, frame: FrameDown) {
        match frame {
            FrameDown::Frame(frame) => {
                let access = frame.options.access;
                assert!(self.room(access) > 0, "a frame for a radio that has no room");
                let index = self.function_of(access);
                let function = &mut self.functions[index];
                if let Some(to) = frame.to {
                    function.pay_request(to);
                }
                function.push(frame);
                if function.wait == Wait::Idle {
                    self.contend(air, now, index);
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
        for index in 0..self.functions.len() {
            let function = &self.functions[index];
            let Some(place) = function.queue.iter().position(|out| out.frame.id == id) else {
                continue;
            };
            let out = &function.queue[place];
            let is_serving = place == 0 && function.wait == Wait::Serving;
            if out.attempts > 0 || out.is_in_flight || is_serving {
                return;
            }
            self.end_frame(air, now, index, place, FrameOutcome::Cancelled);
            if place == 0 {
                self.contend(air, now, index);
            }
            return;
        }
    }

    /// Something begins at the antenna, for the time that the medium was busy.
    pub(super) fn note_busy(&mut self, now: Instant) {
        if !self.ear.is_sensing() && !self.is_transmitting() {
            self.ear.busy_since = now;
        }
    }

    /// Something has ended at the antenna.
    pub(super) fn note_idle(&mut self, now: Instant) {
        if !self.ear.is_sensing() && !self.is_transmitting() {
            self.ear.busy += now.since(self.ear.busy_since);
        }
    }

    pub(super) fn transmit(
        &mut self,
        air: &mut Air,
        now: Instant,
        end: Instant,
        (rate, nav): (Bitrate, Duration),
        kind: TransmissionKind,
    ) {
        let from = self.config.node;
        self.transmit_as(air, now, end, (rate, nav), (from, kind));
    }

    /// Sends under the name of a node, be it the own one or not.
    pub(super) fn transmit_as(
        &mut self,
        air: &mut Air,
        now: Instant,
        end: Instant,
        (rate, nav): (Bitrate, Duration),
        (from, kind): (NodeId, TransmissionKind),
    ) {
        if !self.is_busy() {
            self.on_busy(air, now);
        }
        self.note_busy(now);
        self.tx_until = Some(end);
        self.on_own_start(air, now);
        air.set_timer(self.index, Timer::TxEnd, end);
        let radio = self.index;
        air.transmit(Transmission { radio, from, start: now, end, rate, nav, kind });
    }

    pub(super) fn on_tx_end(&mut self, air: &mut Air, now: Instant) {
        self.tx_until = None;
        self.last_tx_end = now;
        self.note_idle(now);
        let is_idle = !self.is_busy();
        if is_idle {
            self.ear.idle_since = now;
        }
        if self.phase == Phase::Sending {
            self.on_step_sent(air, now);
        } else if is_idle {
            self.resume(air, now);
        }
    }

    /// Ends a frame of a function.
    pub(super) fn end_frame(
        &mut self,
        air: &mut Air,
        now: Instant,
        index: usize,
        place: usize,
        outcome: FrameOutcome,
    ) {
        let function = &mut self.functions[index];
        let out = function.queue.remove(place).expect("a frame that ends is in its queue");
        if let Some(to) = out.frame.to.filter(|_| out.attempts > 0) {
            let is_agreed = self.config.aggregates() && out.frame.options.ack == AckPolicy::Normal;
            if outcome == FrameOutcome::Failed && is_agreed && out.sent > 0 {
                function.ask_to_move_on(to);
            }
        }
        self.count(outcome);
        let done =
            FrameDone { id: out.frame.id, outcome, attempts: out.attempts, air_time: out.spent };
        air.report(self.index, now, FrameUp::Done(done));
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
            self.ear.idle_since = now;
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
        self.phase = Phase::Free;
        self.exchange = None;
        self.receiver.reset();
        self.reply = None;
        self.error_at = None;
        self.nav_until = now;
        self.recipients.clear();
        for index in 0..self.functions.len() {
            while !self.functions[index].queue.is_empty() {
                self.end_frame(air, now, index, 0, FrameOutcome::Failed);
            }
            self.functions[index].reset();
        }
    }
}

/// The access functions of a radio.
fn functions(config: &ChipConfig) -> Vec<Edcaf> {
    let (cw_min, cw_max) = config.phy.contention_window();
    let room = config.queue_frames;
    match &config.edca {
        None => {
            let params = AcParams { aifsn: 2, cw_min, cw_max, txop: Duration::ZERO };
            vec![Edcaf::new(params, config.difs(), false, room)]
        }
        Some(categories) => {
            let aifs =
                |params: &AcParams| config.phy.sifs() + config.slot * u64::from(params.aifsn);
            let function = |params: &AcParams| Edcaf::new(*params, aifs(params), true, room);
            categories.iter().map(function).collect()
        }
    }
}
