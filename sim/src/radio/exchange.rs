//! The exchanges of a function that has the air: RTS and CTS, data and its answer, the consequences
//! of a failure, and the next exchange of a TXOP (IEEE 802.11-1999 9.2.5 to 9.2.8, 802.11-2007
//! 9.9.1.4 to 9.9.1.6, `radio.md` 2 and 3).
//!
//! A TXOP continues after SIFS as long as the whole next exchange fits into what is left of it, and
//! ends with the first failed attempt. An internal collision counts as a failure of the short retry
//! limit, as a failed RTS would.

use farhop_proto::base::phy::{ACK_BYTES, RTS_BYTES};
use farhop_proto::base::{AckPolicy, Bitrate, Duration, FrameOutcome, Instant};

use super::air::{Air, Timer};
use super::chip::{Chip, Phase};
use super::edcaf::{Outgoing, Wait};
use super::plan::{Awaited, Exchange, Step};
use super::rate::Trial;
use super::transmission::{Answer, TransmissionKind};

/// After this many failures in a row without a data frame of another radio, a sender assumes that
/// it is alone.
const QUIET_FAILURES: u8 = 8;

impl Chip {
    /// A function takes the air: starts its first exchange.
    pub(super) fn begin(&mut self, air: &mut Air, now: Instant, index: usize) {
        if self.put_off_late_requests(now, index) {
            return self.contend(air, now, index);
        }
        let txop = self.functions[index].params.txop;
        let most = if txop.is_zero() { Instant::MAX.since(now) } else { txop };
        let most = most.min(self.time_left(now, index));
        let mut exchange = self.plan(now, index, most);
        let mut step = self.first_step(&exchange);
        if exchange.mpdus > 1 {
            let announcement = self.announcement(&exchange, step);
            if announcement + exchange.air_time + exchange.response > most {
                // Plans again with as many frames as fit into the TXOP after the announcement.
                self.land(&exchange);
                let until = exchange.until;
                exchange = self.plan(now, index, most.saturating_sub(announcement));
                exchange.until = until;
                step = self.first_step(&exchange);
            }
        }
        if self.is_late(&exchange, now + self.announcement(&exchange, step)) {
            self.end_late(air, now, index);
            self.contend(air, now, index);
            return;
        }
        exchange.step = step;
        let function = &mut self.functions[index];
        (function.wait, function.at) = (Wait::Serving, Instant::MAX);
        if function.is_drawing(self.config.gap) {
            function.backoff = None;
        }
        if self.is_busy(air) {
            self.stop_late_backoffs(air, now);
        } else {
            self.on_busy(air, now);
        }
        self.exchange = Some(exchange);
        self.cancel_access(air);
        self.settle_internal_collisions(air, now, index);
        self.count_attempt(&exchange);
        self.send_step(air, now);
    }

    /// The frame at the head of a function would end after its deadline. It ends as late, and with
    /// it all frames that were sent before and have no later deadline, so that one request tells
    /// their receiver that none of them will come again.
    fn end_late(&mut self, air: &mut Air, now: Instant, index: usize) {
        let deadline = self.functions[index].head().frame.options.deadline;
        self.end_frame(air, now, index, 0, FrameOutcome::Late);
        let is_late = |out: &Outgoing| {
            out.sent > 0 && out.frame.options.deadline.is_some_and(|at| Some(at) <= deadline)
        };
        while let Some(place) = self.functions[index].queue.iter().position(is_late) {
            self.end_frame(air, now, index, place, FrameOutcome::Late);
        }
    }

    /// Counts an attempt at the frames of an exchange.
    fn count_attempt(&mut self, exchange: &Exchange) {
        if exchange.step == Step::Request {
            return;
        }
        // Each attempt of an aggregate has other frames and a rate of its own.
        exchange.to.into_iter().for_each(|to| self.rates.on_attempt(to));
        let keeps_rate = self.rates.keeps_rate() && exchange.mpdus == 1;
        let rate = keeps_rate.then_some(exchange.rate);
        self.each_in_flight(exchange, |out| {
            out.attempts = out.attempts.saturating_add(1);
            out.rate = out.rate.or(rate);
        });
    }

    /// Visits the frames of an exchange.
    fn each_in_flight(&mut self, exchange: &Exchange, mut visit: impl FnMut(&mut Outgoing)) {
        let queue = &mut self.functions[exchange.owner].queue;
        if exchange.mpdus == 1 {
            visit(queue.front_mut().expect("a frame is in service"));
        } else {
            let in_flight = queue.iter_mut().filter(|out| out.is_in_flight);
            in_flight.take(exchange.mpdus).for_each(visit);
        }
    }

    fn send_step(&mut self, air: &mut Air, now: Instant) {
        let exchange = self.exchange.expect("an exchange is under way");
        self.phase = Phase::Sending;
        let data = exchange.air_time + exchange.response;
        let (phy, sifs) = (self.config.phy, self.config.phy.sifs());
        let rate = self.announcing_rate(exchange.rate);
        match exchange.step {
            Step::Data => self.send_data(air, now, &exchange),
            Step::Rts => {
                let to = exchange.to.expect("only frames for one receiver are announced");
                let nav = sifs + self.config.ack_air_time(rate) + sifs + data;
                self.stats.rts_sent += 1;
                let length = phy.air_time(RTS_BYTES, rate);
                self.send_control(air, now, length, (rate, nav), TransmissionKind::Rts { to });
            }
            Step::CtsToSelf => {
                let (to_radio, to) = (self.index, self.node);
                let answer = Answer { to_radio, to, bits: 0, accept: true };
                let length = phy.air_time(ACK_BYTES, rate);
                let kind = TransmissionKind::Cts(answer);
                self.stats.cts_sent += 1;
                self.send_control(air, now, length, (rate, sifs + data), kind);
            }
            Step::Request => {
                let to = exchange.to.expect("a request has a receiver");
                let access = self.access_of(exchange.owner);
                let start = self.functions[exchange.owner].window_start(to);
                let kind = TransmissionKind::BlockAckRequest { to, access, start };
                let (length, rate) = (exchange.air_time, exchange.rate);
                self.stats.block_ack_requests += 1;
                self.send_control(air, now, length, (rate, exchange.response), kind);
            }
        }
    }

    /// Sends a control frame that begins an exchange or announces its data.
    fn send_control(
        &mut self,
        air: &mut Air,
        now: Instant,
        length: Duration,
        (rate, nav): (Bitrate, Duration),
        kind: TransmissionKind,
    ) {
        self.stats.air_control += length;
        if let Some(exchange) = self.exchange.filter(|exchange| exchange.mpdus > 0)
            && let Some(head) = self.functions[exchange.owner].queue.front_mut()
        {
            head.spent += length;
        }
        self.transmit(air, now, now + length, (rate, nav), kind);
    }

    fn send_data(&mut self, air: &mut Air, now: Instant, exchange: &Exchange) {
        let covered = self.following(now, exchange);
        let nav = exchange.response + covered;
        if let Some(exchange) = &mut self.exchange {
            exchange.covered = covered;
        }
        let share = exchange.air_time / exchange.mpdus as u64;
        let (mut sent, mut retries) = (0, 0);
        self.each_in_flight(exchange, |out| {
            out.spent += share;
            out.sent = out.sent.saturating_add(1);
            sent += 1;
            retries += u64::from(out.sent > 1);
        });
        self.stats.attempts += sent;
        self.stats.retries += retries;
        self.stats.air_data += exchange.air_time;
        self.stats.air_retries += share * retries;
        let kind = if exchange.mpdus == 1 {
            self.single(exchange)
        } else {
            self.stats.aggregates += 1;
            self.aggregate(air, exchange)
        };
        self.transmit(air, now, now + exchange.air_time, (exchange.rate, nav), kind);
    }

    /// The frame at the head of a function as a transmission of its own.
    fn single(&mut self, exchange: &Exchange) -> TransmissionKind {
        let index = exchange.owner;
        let agrees = |to| self.rates.agrees(&self.config, to);
        let is_agreed = exchange.awaited == Awaited::Ack && exchange.to.is_some_and(agrees);
        if self.functions[index].head().sent == 1 {
            self.number(index, 0, is_agreed);
        }
        let function = &self.functions[index];
        let head = function.head();
        // Numbers under an agreement belong to the function, so its access category counts,
        // whatever category the frame asks for.
        let access = if is_agreed { self.access_of(index) } else { head.frame.options.access };
        TransmissionKind::Data {
            id: head.frame.id,
            to: head.frame.to,
            protocol: head.frame.protocol,
            payload: head.frame.payload.clone(),
            wants_ack: exchange.awaited != Awaited::Nothing,
            sequence: head.sequence,
            attempt: head.sent,
            access: self.is_qos(&head.frame).then_some(access),
            window: exchange.to.filter(|_| is_agreed).map(|to| function.window_start(to)),
        }
    }

    /// The transmission of a step has ended.
    pub(super) fn on_step_sent(&mut self, air: &mut Air, now: Instant) {
        let exchange = self.exchange.expect("an exchange is under way");
        match (exchange.step, exchange.awaited) {
            (Step::CtsToSelf, _) => self.on_announced(air, now),
            (Step::Data, Awaited::Nothing) => {
                let is_drawing = self.functions[exchange.owner].is_drawing(self.config.gap);
                self.end_frame(air, now, exchange.owner, 0, FrameOutcome::Sent);
                self.end_exchange(air, now, &exchange, is_drawing);
            }
            (step, _) => {
                let rate = match step {
                    Step::Rts => self.announcing_rate(exchange.rate),
                    _ => exchange.rate,
                };
                let limit = now + self.config.ack_timeout;
                self.phase = Phase::Awaiting { limit, is_over: false };
                let notice = self.config.phy.rx_start_delay(self.config.ack_rate(rate));
                air.set_timer(self.index, Timer::AckTimeout, limit + notice);
            }
        }
    }

    /// The data has been announced, and follows after SIFS.
    fn on_announced(&mut self, air: &mut Air, now: Instant) {
        if let Some(exchange) = &mut self.exchange {
            exchange.step = Step::Data;
        }
        self.pause(air, now);
    }

    /// Waits SIFS before the next frame of the exchange or of the TXOP.
    fn pause(&mut self, air: &mut Air, now: Instant) {
        self.phase = Phase::Pausing;
        self.set_access(air, now + self.config.phy.sifs());
    }

    pub(super) fn on_pause_end(&mut self, air: &mut Air, now: Instant) {
        if self.is_transmitting(air) {
            // An acknowledgement to another radio began at this very moment.
            self.on_attempt_failed(air, now);
        } else {
            self.send_step(air, now);
        }
    }

    /// The CTS has arrived: the receiver has reserved the medium.
    pub(super) fn on_clear_to_send(&mut self, air: &mut Air, now: Instant, answer: &Answer) {
        air.cancel_timer(self.index, Timer::AckTimeout);
        self.stats.cts_received += 1;
        let exchange = self.exchange.expect("an exchange is under way");
        if answer.accept {
            // The RTS was the short frame of this exchange, and succeeded (802.11-2012 9.3.4.4).
            self.each_in_flight(&exchange, |out| out.failed[0] = 0);
            self.on_announced(air, now);
        } else {
            self.settled_at = now;
            self.land(&exchange);
            self.end_frame(air, now, exchange.owner, 0, FrameOutcome::Nacked(answer.bits));
            self.end_exchange(air, now, &exchange, true);
        }
    }

    /// The acknowledgement has arrived.
    pub(super) fn on_acknowledged(&mut self, air: &mut Air, now: Instant, answer: &Answer) {
        air.cancel_timer(self.index, Timer::AckTimeout);
        self.stats.acks_received += 1;
        self.settled_at = now;
        let exchange = self.exchange.expect("an exchange is under way");
        self.on_trial(now, &exchange, 1, true);
        let outcome = if answer.accept {
            FrameOutcome::Acked(answer.bits)
        } else {
            FrameOutcome::Nacked(answer.bits)
        };
        self.end_frame(air, now, exchange.owner, 0, outcome);
        // Only now no earlier frame may be in the way of a request that is owed.
        self.on_answered(air, now, &exchange);
        self.end_exchange(air, now, &exchange, true);
    }

    /// The acknowledgement time-out: no answer has begun in time, unless a frame that may be it is
    /// still arriving.
    pub(super) fn on_ack_timeout(&mut self, air: &mut Air, now: Instant) {
        let Phase::Awaiting { limit, .. } = self.phase else {
            unreachable!("the time-out runs only while an answer is awaited");
        };
        if self.was_locked_by(air, now, limit) {
            self.phase = Phase::Awaiting { limit, is_over: true };
        } else {
            self.on_attempt_failed(air, now);
        }
    }

    /// The current attempt has failed.
    pub(super) fn on_attempt_failed(&mut self, air: &mut Air, now: Instant) {
        self.settled_at = now;
        self.phase = Phase::Free;
        let exchange = self.exchange.take().expect("an exchange is under way");
        let owner = exchange.owner;
        let is_given_up = match exchange.step {
            Step::Request => self.on_request_failed(owner),
            Step::Rts | Step::CtsToSelf => {
                self.stats.cts_missing += 1;
                self.give_back(air, now, &exchange, 0)
            }
            Step::Data => {
                let class = usize::from(exchange.is_long);
                let is_given_up = self.give_back(air, now, &exchange, class);
                self.on_trial(now, &exchange, 0, is_given_up);
                is_given_up
            }
        };
        self.after_failure(owner, is_given_up);
        self.contend(air, now, owner);
        self.resume(air, now);
    }

    /// Reports the result of an attempt to the rate control.
    pub(super) fn on_trial(
        &mut self,
        now: Instant,
        exchange: &Exchange,
        acked: u32,
        is_last: bool,
    ) {
        let Some(to) = exchange.to else { return };
        if self.rates.agrees(&self.config, to) {
            let peer = self.functions[exchange.owner].originators.entry(to).or_default();
            let unanswered = peer.unanswered.saturating_add(1);
            peer.unanswered = if acked > 0 || is_last { 0 } else { unanswered };
        }
        // The result at a rate that the frame itself named says nothing about our choice.
        if !exchange.has_own_rate {
            let Exchange { rate, attempt, .. } = *exchange;
            let trial = Trial { rate, sent: exchange.mpdus as u32, acked, attempt, is_last };
            self.rates.on_trial(now, to, trial);
        }
    }

    fn after_failure(&mut self, index: usize, is_given_up: bool) {
        let is_quiet = self.is_quiet();
        if is_given_up {
            self.functions[index].narrow();
        } else if self.config.exponential_backoff && !(is_quiet && self.config.quiet_backoff) {
            self.functions[index].widen();
        }
        self.draw_backoff(index);
    }

    /// Counts failures since a data frame of another radio was last heard; returns whether there
    /// are many.
    fn is_quiet(&mut self) -> bool {
        let heard = self.stats.received + self.stats.duplicates + self.overheard;
        let is_alone = std::mem::replace(&mut self.heard_before, heard) == heard;
        self.lone_failures = if is_alone { self.lone_failures.saturating_add(1) } else { 0 };
        self.lone_failures > QUIET_FAILURES
    }

    /// Counts a failure against each frame of an exchange, and ends the frames that have no
    /// attempts left. Returns whether there were any.
    fn give_back(
        &mut self,
        air: &mut Air,
        now: Instant,
        exchange: &Exchange,
        class: usize,
    ) -> bool {
        self.each_in_flight(exchange, |out| {
            out.failed[class] = out.failed[class].saturating_add(1);
        });
        let (mut place, mut left, mut any) = (0, exchange.mpdus, false);
        while left > 0 {
            let out = &mut self.functions[exchange.owner].queue[place];
            if exchange.mpdus > 1 && !std::mem::take(&mut out.is_in_flight) {
                place += 1;
                continue;
            }
            left -= 1;
            if out.is_exhausted(&self.config) {
                self.end_frame(air, now, exchange.owner, place, FrameOutcome::Failed);
                any = true;
            } else {
                place += 1;
            }
        }
        any
    }

    /// A function of higher priority sends at the moment at which this one would have sent.
    pub(super) fn on_internal_collision(&mut self, air: &mut Air, now: Instant, index: usize) {
        self.stats.internal_collisions += 1;
        let is_given_up = if self.functions[index].requests.is_empty() {
            let head = self.functions[index].queue.front_mut().expect("a frame is in service");
            let options = head.frame.options;
            let is_answered = head.frame.to.is_some() && options.ack == AckPolicy::Normal;
            if is_answered {
                // As if its RTS had failed: counts as a failure of a short frame.
                head.failed[0] = head.failed[0].saturating_add(1);
            }
            // Unacknowledged frames have no failure count.
            let is_exhausted = is_answered && head.is_exhausted(&self.config);
            if is_exhausted {
                self.end_frame(air, now, index, 0, FrameOutcome::Failed);
            }
            is_exhausted
        } else {
            self.on_request_failed(index)
        };
        self.functions[index].backoff = None;
        self.after_failure(index, is_given_up);
        self.contend(air, now, index);
    }

    /// An exchange has succeeded: the TXOP continues, or the function draws and contends anew.
    pub(super) fn end_exchange(
        &mut self,
        air: &mut Air,
        now: Instant,
        exchange: &Exchange,
        is_drawing: bool,
    ) {
        self.phase = Phase::Free;
        self.functions[exchange.owner].narrow();
        if is_drawing && self.goes_on(air, now, exchange) {
            return;
        }
        self.exchange = None;
        if is_drawing {
            self.draw_backoff(exchange.owner);
        }
        self.contend(air, now, exchange.owner);
        self.resume(air, now);
    }

    /// Begins the next exchange of a TXOP, if one fits. Returns whether it did.
    fn goes_on(&mut self, air: &mut Air, now: Instant, before: &Exchange) -> bool {
        let owner = before.owner;
        if self.functions[owner].params.txop.is_zero() {
            return false;
        }
        let start = now + self.config.phy.sifs();
        let most = before.until.since(start.min(before.until));
        loop {
            self.put_off_late_requests(start, owner);
            let most = most.min(self.time_left(start, owner));
            let function = &self.functions[owner];
            let is_deferred = || function.not_before().is_some_and(|at| at > start);
            if function.is_empty() || is_deferred() || !function.is_drawing(self.config.gap) {
                return false;
            }
            let mut exchange = self.plan(start, owner, most);
            let mut step = self.next_step(&exchange, before);
            let mut announcement = self.announcement(&exchange, step);
            if exchange.mpdus > 1 && announcement + exchange.air_time + exchange.response > most {
                self.land(&exchange);
                exchange = self.plan(start, owner, most.saturating_sub(announcement));
                step = self.next_step(&exchange, before);
                announcement = self.announcement(&exchange, step);
            }
            if self.is_late(&exchange, start + announcement) {
                self.end_late(air, now, owner);
                continue;
            }
            if announcement + exchange.air_time + exchange.response > most {
                self.land(&exchange);
                return false;
            }
            self.stats.bursts += 1;
            let exchange = Exchange { until: before.until, step, ..exchange };
            self.exchange = Some(exchange);
            self.count_attempt(&exchange);
            self.pause(air, now);
            return true;
        }
    }
}
