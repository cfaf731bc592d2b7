//! The sending side of A-MPDUs and block acknowledgements (IEEE 802.11-2012 9.12 and 9.21).
//!
//! The agreement with each neighbour is assumed to exist, with a window of 64 frames. Frames that
//! the block acknowledgement does not cover are repeated in the next A-MPDU, together with new ones
//! as far as the window allows. Without a block acknowledgement the whole attempt has failed. After
//! a frame is given up, a request moves the receiver's window past it; another request follows if
//! earlier frames were still pending. A request that is itself given up is owed: it is sent before
//! the next new frame for that neighbour, or as soon as the neighbour acknowledges something from
//! any function. Headers have no HT control field. The air time of an aggregate is split evenly
//! among its frames.

use farhop_proto::base::phy::AmpduSize;
use farhop_proto::base::{
    AccessCategory, AckPolicy, Bitrate, Duration, FrameOutcome, Instant, NodeId,
};

use super::air::{Air, Timer};
use super::chip::Chip;
use super::config::ACCESS;
use super::edcaf::{Edcaf, Request, Wait};
use super::plan::Exchange;
use super::recipient::{NUMBERS, WINDOW, distance, is_before};
use super::transmission::{Answer, Mpdu, TransmissionKind};

impl Chip {
    /// The access category of a function.
    pub(super) fn access_of(&self, index: usize) -> AccessCategory {
        if self.config.edca.is_some() { ACCESS[index] } else { AccessCategory::default() }
    }

    /// Marks the frames of a function's next A-MPDU: those for the receiver of its first frame, up
    /// to all limits and to an air time of `most`. A single frame is not marked.
    pub(super) fn gather(
        &mut self,
        now: Instant,
        index: usize,
        rate: Bitrate,
        most: Duration,
    ) -> AmpduSize {
        let phy = self.config.phy;
        let limit = self.config.aggregate;
        let mut size = phy.ampdu(rate);
        let to = self.functions[index].head().frame.to.expect("aggregates have a receiver");
        let start = self.functions[index].window_start(to);
        let mut next = self.functions[index].originators.get(&to).map_or(0, |peer| peer.next);
        for place in 0..self.functions[index].queue.len() {
            let out = &self.functions[index].queue[place];
            let options = out.frame.options;
            if out.frame.to != Some(to) || options.ack != AckPolicy::Normal {
                continue;
            }
            let number = if out.sent > 0 { out.sequence } else { next };
            let is_held_back = out.attempts == 0 && options.not_before.is_some_and(|at| at > now);
            let differs = options.rate.is_some_and(|own| own != rate);
            let bytes = self.mpdu_bytes(&out.frame);
            if is_held_back
                || differs
                || size.mpdus() >= limit
                || distance(start, number) >= WINDOW
                || !phy.has_room(size, bytes, rate)
            {
                break;
            }
            let mut larger = size;
            larger.push(bytes);
            if size.mpdus() > 0 && phy.air_time(larger.bytes(), rate) > most {
                break;
            }
            if out.sent == 0 {
                next = (next + 1) % NUMBERS;
            }
            size = larger;
            self.functions[index].queue[place].is_in_flight = true;
        }
        if size.mpdus() <= 1 {
            self.functions[index].queue[0].is_in_flight = false;
        }
        size
    }

    /// Unmarks the frames of an exchange, which no longer are part of an A-MPDU.
    pub(super) fn land(&mut self, exchange: &Exchange) {
        if exchange.mpdus > 1 {
            let queue = &mut self.functions[exchange.owner].queue;
            queue.iter_mut().for_each(|out| out.is_in_flight = false);
        }
    }

    /// Assigns a frame its sequence number, at its first transmission.
    pub(super) fn number(&mut self, index: usize, place: usize, is_agreed: bool) {
        let function = &mut self.functions[index];
        let out = &mut function.queue[place];
        out.sequence = match out.frame.to {
            Some(to) if is_agreed => {
                let peer = function.originators.entry(to).or_default();
                peer.deadline = out.frame.options.deadline;
                let number = peer.next;
                peer.next = (number + 1) % NUMBERS;
                number
            }
            _ => {
                function.sequence = (function.sequence + 1) % NUMBERS;
                function.sequence
            }
        };
    }

    /// Builds the A-MPDU of an exchange, whose frames have been counted as sent.
    pub(super) fn aggregate(&mut self, air: &mut Air, exchange: &Exchange) -> TransmissionKind {
        let phy = self.config.phy;
        let mut mpdus = air.spare.pop().unwrap_or_default();
        let mut size = phy.ampdu(exchange.rate);
        let to = exchange.to.expect("aggregates have a receiver");
        for place in 0..self.functions[exchange.owner].queue.len() {
            let out = &self.functions[exchange.owner].queue[place];
            if !out.is_in_flight {
                continue;
            }
            if out.sent == 1 {
                self.number(exchange.owner, place, true);
            }
            let out = &self.functions[exchange.owner].queue[place];
            let bytes = self.mpdu_bytes(&out.frame);
            let first = size.push(bytes);
            mpdus.push(Mpdu {
                id: out.frame.id,
                protocol: out.frame.protocol,
                payload: out.frame.payload.clone(),
                sequence: out.sequence,
                attempt: out.sent,
                bytes,
                from: phy.byte_time(first, exchange.rate),
                until: phy.byte_end(first + bytes, exchange.rate).min(exchange.air_time),
            });
        }
        self.stats.aggregated += mpdus.len() as u64;
        let window = self.functions[exchange.owner].window_start(to);
        TransmissionKind::Ampdu { to, access: self.access_of(exchange.owner), mpdus, window }
    }

    /// The block acknowledgement has arrived.
    pub(super) fn on_block_ack(
        &mut self,
        air: &mut Air,
        now: Instant,
        answer: &Answer,
        (start, map): (u16, u64),
    ) {
        air.cancel_timer(self.index, Timer::AckTimeout);
        self.stats.block_acks_received += 1;
        self.settled_at = now;
        let exchange = self.exchange.expect("an exchange is under way");
        if exchange.mpdus == 0 {
            let function = &mut self.functions[exchange.owner];
            if let Some(request) = function.requests.pop_front() {
                function.on_request_answered(request.to);
            }
            self.on_answered(air, now, &exchange);
            self.end_exchange(air, now, &exchange, true);
            return;
        }
        let (mut place, mut left, mut acked, mut any_given_up) = (0, exchange.mpdus, 0, false);
        while left > 0 {
            let out = &mut self.functions[exchange.owner].queue[place];
            if !std::mem::take(&mut out.is_in_flight) {
                place += 1;
                continue;
            }
            left -= 1;
            let bit = distance(start, out.sequence);
            if bit < WINDOW && map >> bit & 1 == 1 {
                acked += 1;
                let outcome = FrameOutcome::Acked(answer.bits);
                self.end_frame(air, now, exchange.owner, place, outcome);
                continue;
            }
            let class = usize::from(exchange.is_long);
            out.failed[class] = out.failed[class].saturating_add(1);
            if out.is_exhausted(&self.config) {
                self.end_frame(air, now, exchange.owner, place, FrameOutcome::Failed);
                any_given_up = true;
            } else {
                place += 1;
            }
        }
        self.on_trial(now, &exchange, acked, acked > 0 || any_given_up);
        self.on_answered(air, now, &exchange);
        self.end_exchange(air, now, &exchange, true);
    }

    /// The receiver of an exchange has answered, so it is reachable: requests owed to it are sent
    /// next, because frames that it has acknowledged may be held there behind frames that were
    /// given up.
    pub(super) fn on_answered(&mut self, air: &mut Air, now: Instant, exchange: &Exchange) {
        let to = exchange.to.filter(|to| self.rates.agrees(&self.config, *to));
        let Some(to) = to else { return };
        for index in 0..self.functions.len() {
            let function = &mut self.functions[index];
            function.pay_request(to);
            let is_waiting = matches!(function.wait, Wait::Idle | Wait::Deferred);
            if is_waiting && !function.requests.is_empty() {
                self.contend(air, now, index);
            }
        }
    }

    /// Puts off requests of a function that would begin at `start`, too late for their deadline.
    /// After the deadline of its frames there is time for one request and the gap before it, so
    /// that it does not disturb whoever sends next. Returns whether any were put off.
    pub(super) fn put_off_late_requests(&mut self, start: Instant, index: usize) -> bool {
        let Edcaf { requests, originators, params, .. } = &mut self.functions[index];
        let slots = u64::from(params.aifsn) + u64::from(params.cw_min);
        let gap = self.config.phy.sifs() + self.config.slot * slots;
        let before = requests.len();
        while let Some(request) = requests.front()
            && let Some(peer) = originators.get_mut(&request.to)
            && peer.deadline.is_some_and(|deadline| start > deadline + gap)
        {
            peer.owes_request = true;
            requests.pop_front();
        }
        requests.len() < before
    }

    /// A request was not answered. Returns whether it is given up.
    pub(super) fn on_request_failed(&mut self, index: usize) -> bool {
        let most = self.config.attempts.max(1);
        let function = &mut self.functions[index];
        let request = function.requests.front_mut().expect("a request is in service");
        request.failed = request.failed.saturating_add(1);
        let is_given_up = request.failed >= most;
        if is_given_up {
            let to = request.to;
            function.requests.pop_front();
            function.originators.entry(to).or_default().owes_request = true;
        }
        is_given_up
    }
}

impl Edcaf {
    /// A frame under the agreement with `to` is given up: the receiver must be told not to wait for
    /// it.
    pub(super) fn give_up(&mut self, to: NodeId, number: u16) {
        let peer = self.originators.entry(to).or_default();
        let is_last = peer.given_up.is_none_or(|last| is_before(last, number));
        peer.given_up = if is_last { Some(number) } else { peer.given_up };
        self.ask_to_move_on(to);
    }

    fn ask_to_move_on(&mut self, to: NodeId) {
        if self.requests.iter().all(|request| request.to != to) {
            self.requests.push_back(Request { to, failed: 0 });
        }
    }

    /// The receiver has moved its window as far as the frames that it may still get allow.
    fn on_request_answered(&mut self, to: NodeId) {
        let start = self.window_start(to);
        let peer = self.originators.entry(to).or_default();
        peer.owes_request = false;
        peer.given_up = peer.given_up.filter(|number| !is_before(*number, start));
    }

    /// Queues a request to a neighbour if one is owed, or if the window start has passed a frame
    /// that was given up while earlier frames were still pending. It is sent before the frames in
    /// the queue.
    pub(super) fn pay_request(&mut self, to: NodeId) {
        let start = self.window_start(to);
        let Some(peer) = self.originators.get_mut(&to) else { return };
        let is_owed = std::mem::take(&mut peer.owes_request);
        if is_owed || peer.given_up.is_some_and(|number| is_before(number, start)) {
            self.ask_to_move_on(to);
        }
    }
}
