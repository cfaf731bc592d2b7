//! One radio: its access functions, and the transmitter, the receiver and the interface to the node
//! that they share. When it may send is in `access`, how it sends in `exchange` and `aggregate`,
//! reception in `reception`, and its answers in `respond`.

use std::collections::BTreeMap;
use std::sync::Arc;

use farhop_proto::base::{
    AccessCategory, AckPolicy, Bitrate, Duration, FrameDone, FrameDown, FrameOutcome, FrameUp,
    Instant, NodeId, RadioId, Rng, Seed, UnitId,
};

use super::air::{Air, Timer};
use super::config::{AcParams, ChipConfig, EifsRule, Interference};
use super::edcaf::{Edcaf, Wait};
use super::plan::Exchange;
use super::rate::Rates;
use super::reception::Receiver;
use super::recipient::Recipient;
use super::respond::Reply;
use super::stats::ChipStats;
use super::transmission::{Transmission, TransmissionKind};

/// State of the transmitter within the exchange that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No exchange is under way.
    Free,
    /// A frame of the exchange is on air.
    Sending,
    /// SIFS before the next frame of the exchange.
    Pausing,
    /// An answer is awaited.
    Awaiting {
        /// The latest time at which the answer may begin to arrive.
        limit: Instant,
        /// The time-out has passed, but a frame that began in time is still arriving.
        is_over: bool,
    },
}

/// One radio. The fields that a frame for others needs come first, so that they lie in the first
/// and third cache lines; for the same reason some settings are copied out of `config`.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Chip {
    pub(super) receiver: Receiver,
    pub(super) index: usize,
    pub(super) node: NodeId,
    pub(super) radio: RadioId,
    pub(super) is_up: bool,
    /// A timer runs that resets the NAV if nothing follows an overheard RTS.
    pub(super) has_nav_timer: bool,
    /// EIFS follows every frame that was not decoded, so the end of each one matters.
    pub(super) heeds_all: bool,
    /// Frames for others are reported.
    pub(super) overhears: bool,
    pub(super) nav_until: Instant,
    /// The radio that began the exchange which the NAV protects.
    pub(super) nav_holder: u32,
    pub(super) phase: Phase,
    /// The end of the last frame in error, after which EIFS applies.
    pub(super) error_at: Option<Instant>,
    /// Data frames for others received without error; not counted in `stats`.
    pub(super) overheard: u64,
    /// Shared by all radios with equal settings; its node and radio number are therefore blank.
    pub(super) config: Arc<ChipConfig>,
    /// When the access event is due; [`Instant::MAX`] if none is set.
    pub(super) access_at: Instant,
    /// The exchange of the function that has the air.
    pub(super) exchange: Option<Exchange>,
    /// Access functions in rising priority; a single one without EDCA.
    pub(super) functions: Vec<Edcaf>,
    /// When the last exchange ended: acknowledged, or given up after the time-out.
    pub(super) settled_at: Instant,
    pub(super) last_tx_end: Instant,
    /// When it was last switched on.
    pub(super) up_since: Instant,
    /// Count of data frames heard from others when the last attempt failed.
    pub(super) heard_before: u64,
    pub(super) reply_accept: bool,
    pub(super) reply_bits: u16,
    /// Failures in a row since a data frame of another radio was last heard.
    pub(super) lone_failures: u8,
    pub(super) stats: ChipStats,
    /// How much longer EIFS is than DIFS.
    pub(super) after_error: Duration,
    pub(super) reply: Option<Reply>,
    pub(super) rng: Rng,
    pub(super) rates: Rates,
    /// End of the RTS that set the NAV.
    pub(super) announced_at: Instant,
    /// Receiving sides of block acknowledgement agreements, by the sender's radio and access
    /// category.
    pub(super) recipients: BTreeMap<(usize, AccessCategory), Recipient>,
}

impl Chip {
    /// Updates the flags in this radio's ear. To be called after every change to the radio.
    pub(super) fn settle(&self, air: &mut Air) {
        let is_still = self.functions.iter().all(Edcaf::is_at_rest);
        let is_free = self.exchange.is_none();
        let ear = air.ear_mut(self.index);
        ear.is_waiting = is_free & !is_still & ear.has_carrier_sense;
        ear.is_at_rest = is_free & is_still;
        ear.is_receiving = self.is_receiving();
    }

    /// The same when only the receiver has changed.
    pub(super) fn settle_receiver(&self, air: &mut Air) {
        air.ear_mut(self.index).is_receiving = self.is_receiving();
    }

    /// Whether changes of the power on the air matter to the receiver.
    fn is_receiving(&self) -> bool {
        // All terms are evaluated: a branch on any one of them would be mispredicted too often.
        !self.is_up
            | !self.receiver.is_free()
            | self.heeds_all
            | matches!(self.phase, Phase::Awaiting { is_over: true, .. })
    }

    /// Touches the fields that a frame for others needs, so that they are in the cache.
    pub(super) fn fetch(&self) -> u64 {
        self.receiver.fetch() ^ self.nav_until.as_nanos() ^ self.overheard
    }

    /// The same for what a frame of its own needs.
    pub(super) fn fetch_sender(&self) -> u64 {
        let function = &self.functions[0];
        let head = function.queue.front().map_or(0, |out| u64::from(out.attempts));
        let ends = function.at.as_nanos() ^ function.aifs.as_nanos() ^ self.last_tx_end.as_nanos();
        head ^ ends ^ self.stats.frames ^ self.stats.attempts ^ self.stats.received
    }

    pub(super) fn new(
        index: usize,
        (node, radio): (NodeId, RadioId),
        config: Arc<ChipConfig>,
        interference: Interference,
        seed: Seed,
    ) -> Self {
        let stream = |what| seed.stream(&format!("node/{}/radio/{}/{what}", node.0, radio.0));
        Self {
            index,
            after_error: config.eifs().saturating_sub(config.difs()),
            rng: stream("backoff"),
            is_up: true,
            heeds_all: config.eifs == EifsRule::Always,
            overhears: config.overhear,
            functions: functions(&config),
            rates: Rates::build(&config, stream("rate")),
            access_at: Instant::MAX,
            exchange: None,
            phase: Phase::Free,
            up_since: Instant::ZERO,
            last_tx_end: Instant::ZERO,
            heard_before: 0,
            lone_failures: 0,
            receiver: Receiver::new(interference, stream("reception")),
            settled_at: Instant::ZERO,
            nav_until: Instant::ZERO,
            nav_holder: u32::MAX,
            announced_at: Instant::ZERO,
            has_nav_timer: false,
            node,
            radio,
            error_at: None,
            overheard: 0,
            reply: None,
            reply_bits: 0,
            reply_accept: true,
            recipients: BTreeMap::new(),
            stats: ChipStats::default(),
            config,
        }
    }

    /// Index of the function that serves an access category.
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
                // Unacknowledged frames have no place in the sequence of an agreement.
                if let Some(to) = frame.to.filter(|_| frame.options.ack == AckPolicy::Normal) {
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

    /// Takes back a frame that has not been on air; a frame that has been ends by itself.
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

    pub(super) fn transmit(
        &mut self,
        air: &mut Air,
        now: Instant,
        end: Instant,
        (rate, nav): (Bitrate, Duration),
        kind: TransmissionKind,
    ) {
        let from = self.node;
        self.transmit_as(air, now, end, (rate, nav), (from, kind));
    }

    /// Sends with `from` as the transmitter address, which may be that of another node.
    pub(super) fn transmit_as(
        &mut self,
        air: &mut Air,
        now: Instant,
        end: Instant,
        (rate, nav): (Bitrate, Duration),
        (from, kind): (NodeId, TransmissionKind),
    ) {
        if !self.is_busy(air) {
            self.on_busy(air, now);
        }
        air.ear_mut(self.index).start_sending(now, end);
        self.on_own_start(air, now);
        let radio = self.index;
        air.transmit(Transmission { radio, from, start: now, end, rate, nav, kind });
    }

    pub(super) fn on_tx_end(&mut self, air: &mut Air, now: Instant) {
        self.last_tx_end = now;
        let ear = air.ear_mut(self.index);
        ear.stop_sending(now);
        let is_idle = !ear.is_busy();
        if is_idle {
            ear.rest(now);
        }
        if self.phase == Phase::Sending {
            self.on_step_sent(air, now);
        } else if is_idle {
            self.resume(air, now);
        }
    }

    /// Ends the frame at `place` in the queue of a function, and reports its outcome.
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
            let is_agreed =
                out.frame.options.ack == AckPolicy::Normal && self.rates.agrees(&self.config, to);
            use FrameOutcome::{Failed, Late, Nacked};
            let is_missing = matches!(outcome, Failed | Late | Nacked(_));
            if is_missing && is_agreed && out.sent > 0 {
                function.give_up(to, out.sequence);
            }
        }
        self.count(outcome);
        // An unanswered RTS says nothing about the frame, so transmissions of the frame itself
        // count, unless there were none.
        let attempts = out.sent.max(u8::from(out.attempts > 0));
        let done = FrameDone { id: out.frame.id, outcome, attempts, air_time: out.spent };
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
            FrameOutcome::TooLong => unreachable!("a chip takes frames of any length"),
        };
        *counter += 1;
    }

    pub(super) fn set_up(&mut self, air: &mut Air, now: Instant, up: bool) {
        if up == self.is_up {
            return;
        }
        self.is_up = up;
        if up {
            self.up_since = now;
            air.ear_mut(self.index).rest(now);
            return;
        }
        for timer in Timer::ALL {
            air.cancel_timer(self.index, timer);
        }
        self.access_at = Instant::MAX;
        self.has_nav_timer = false;
        if self.is_transmitting(air) {
            self.last_tx_end = now;
            air.ear_mut(self.index).stop_sending(now);
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
    match &config.edca {
        None => {
            let params = AcParams { aifsn: 2, cw_min, cw_max, txop: Duration::ZERO };
            vec![Edcaf::new(params, config.difs(), false)]
        }
        Some(categories) => {
            let aifs =
                |params: &AcParams| config.phy.sifs() + config.slot * u64::from(params.aifsn);
            let function = |params: &AcParams| Edcaf::new(*params, aifs(params), true);
            categories.iter().map(function).collect()
        }
    }
}
