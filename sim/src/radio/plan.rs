//! Planning of an exchange: its frames, rate and air time, what answers the data and what precedes
//! it (IEEE 802.11-1999 9.2.5, 802.11-2007 7.1.4 and 9.9.1.4).
//!
//! In a TXOP the Duration field of a frame also covers the next exchange, if the next frame is
//! known (single protection).

use farhop_proto::base::phy::{ACK_BYTES, BLOCK_ACK_REQUEST_BYTES, Mode, RTS_BYTES, mpdu_bytes};
use farhop_proto::base::{AckPolicy, Bitrate, Duration, Frame, Instant, NodeId, PhyKind};
use farhop_proto::stack::Protection;

use super::chip::Chip;

/// The frame of an exchange that is sent next, or is on the air.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Rts,
    CtsToSelf,
    Data,
    /// A request for a block acknowledgement.
    Request,
}

/// The answer that the data asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awaited {
    Nothing,
    Ack,
    BlockAck,
}

/// An exchange of the function that has the air.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    pub(super) owner: usize,
    pub(super) step: Step,
    pub(super) awaited: Awaited,
    pub(super) to: Option<NodeId>,
    /// Rate of the data or of the request.
    pub(super) rate: Bitrate,
    pub(super) air_time: Duration,
    /// From the end of the data to the end of its answer, without propagation.
    pub(super) response: Duration,
    /// Frames in the data; 0 for a request.
    pub(super) mpdus: usize,
    /// Attempt number for the rate control, from 1; 0 for a request.
    pub(super) attempt: u8,
    /// Its first frame names its own rate.
    pub(super) has_own_rate: bool,
    /// The data is longer than the RTS threshold.
    pub(super) is_long: bool,
    /// End of the TXOP.
    pub(super) until: Instant,
    /// How much its Duration field covered beyond its own answer.
    pub(super) covered: Duration,
}

impl Chip {
    /// Length of a frame with header and check sequence, in bytes.
    pub(super) fn mpdu_bytes(&self, frame: &Frame) -> usize {
        mpdu_bytes(self.is_qos(frame), frame.payload.len())
    }

    /// Whether a frame has the header of QoS data.
    pub(super) fn is_qos(&self, frame: &Frame) -> bool {
        frame.options.ack == AckPolicy::NoAck
            || self.config.edca.is_some()
            || matches!(self.config.phy.kind, PhyKind::N | PhyKind::Ac)
    }

    /// The attempt number, for the rate control, of the next attempt at the head of a function.
    /// Under an agreement, unacknowledged frames are repeated beside new ones, so attempts count
    /// from the last exchange in which anything was acknowledged.
    fn attempt(&self, index: usize, is_answered: bool) -> u8 {
        let function = &self.functions[index];
        let head = function.head();
        let failed = match head.frame.to {
            Some(to) if is_answered && self.rates.agrees(&self.config, to) => {
                function.originators.get(&to).map_or(0, |peer| peer.unanswered)
            }
            // Attempts that failed at the announcement say nothing about the rate.
            _ if self.rates.keeps_rate() => head.sent,
            _ => head.attempts,
        };
        failed.saturating_add(1)
    }

    /// The rate of the frame at the head of a function for the given attempt.
    fn rate_of_head(&mut self, now: Instant, index: usize, attempt: u8) -> Bitrate {
        let head = self.functions[index].head();
        let options = head.frame.options;
        let (chosen, to) = (options.rate.or(head.rate), head.frame.to);
        let rate = match (chosen, to) {
            (Some(rate), _) => rate,
            (None, Some(to)) if options.ack == AckPolicy::NoAck => self.rates.lowest_for(to),
            (None, Some(to)) => self.rates.rate(now, to, attempt),
            (None, None) if options.ack == AckPolicy::Normal => self.config.broadcast_rate,
            (None, None) => self.config.rate,
        };
        match self.rates.width_to(to) {
            Some(width) => self.config.phy.narrowed(rate, width),
            None => rate,
        }
    }

    /// Plans the next exchange of a function, without what precedes its data. An A-MPDU is as large
    /// as fits into `most`, but has at least one frame.
    pub(super) fn plan(&mut self, now: Instant, index: usize, most: Duration) -> Exchange {
        let sifs = self.config.phy.sifs();
        if let Some(request) = self.functions[index].requests.front() {
            // The rates that the rate control has found may not hold any more.
            let rate = self.config.ack_rate(self.rates.lowest_for(request.to));
            return Exchange {
                owner: index,
                step: Step::Request,
                awaited: Awaited::BlockAck,
                to: Some(request.to),
                rate,
                air_time: self.config.phy.air_time(BLOCK_ACK_REQUEST_BYTES, rate),
                response: sifs + self.config.block_ack_air_time(rate),
                mpdus: 0,
                attempt: 0,
                has_own_rate: false,
                is_long: false,
                until: now + most,
                covered: Duration::ZERO,
            };
        }
        let head = self.functions[index].head();
        let to = head.frame.to;
        let is_answered = to.is_some() && head.frame.options.ack == AckPolicy::Normal;
        let attempt = self.attempt(index, is_answered);
        let rate = self.rate_of_head(now, index, attempt);
        let head = self.functions[index].head();
        let has_own_rate = head.frame.options.rate.is_some();
        let bytes = self.mpdu_bytes(&head.frame);
        let (mut mpdus, mut psdu) = (1, self.config.phy.psdu_bytes(bytes, rate));
        if is_answered && self.config.aggregates() && self.config.phy.mcs(rate).is_some() {
            let response = sifs + self.config.block_ack_air_time(rate);
            let size = self.gather(now, index, rate, most.saturating_sub(response));
            if size.mpdus() > 1 {
                (mpdus, psdu) = (size.mpdus(), size.bytes());
            }
        }
        let (awaited, response) = match mpdus {
            _ if !is_answered => (Awaited::Nothing, Duration::ZERO),
            1 => (Awaited::Ack, sifs + self.config.ack_air_time(rate)),
            _ => (Awaited::BlockAck, sifs + self.config.block_ack_air_time(rate)),
        };
        Exchange {
            owner: index,
            step: Step::Data,
            awaited,
            to,
            rate,
            air_time: self.config.phy.air_time(psdu, rate),
            response,
            mpdus,
            attempt,
            has_own_rate,
            is_long: to.is_some() && self.config.rts_threshold.is_some_and(|most| psdu > most),
            until: now + most,
            covered: Duration::ZERO,
        }
    }

    /// The first step of an exchange that begins with contention.
    pub(super) fn first_step(&self, exchange: &Exchange) -> Step {
        match exchange.step {
            Step::Data if exchange.is_long => Step::Rts,
            Step::Data if self.is_protected(exchange.rate) => Step::CtsToSelf,
            step => step,
        }
    }

    /// The first step of an exchange that follows another one of the same TXOP. It needs no RTS if
    /// its receiver acknowledged the frame before with an answer whose Duration field covers the
    /// whole exchange (`following`), which has told everyone around the receiver; this holds for
    /// single frames only. 802.11b stations do not decode those answers, so protection stays.
    pub(super) fn next_step(&self, exchange: &Exchange, before: &Exchange) -> Step {
        let sifs = self.config.phy.sifs();
        match self.first_step(exchange) {
            Step::Rts
                if exchange.to == before.to
                    && !self.is_protected(exchange.rate)
                    && before.awaited == Awaited::Ack
                    && before.covered >= sifs + exchange.air_time + exchange.response =>
            {
                Step::Data
            }
            step => step,
        }
    }

    /// Whether 802.11b stations must be kept silent by a CTS-to-self.
    fn is_protected(&self, rate: Bitrate) -> bool {
        self.config.protection == Protection::CtsToSelf
            && matches!(self.config.phy.mode(rate), Mode::Ofdm(_))
    }

    /// The rate of the RTS or CTS-to-self that announces data.
    pub(super) fn announcing_rate(&self, rate: Bitrate) -> Bitrate {
        if self.is_protected(rate) {
            self.config.phy.control_rate(Bitrate::from_100kbps(110))
        } else {
            self.config.ack_rate(rate)
        }
    }

    /// Duration of the announcement before the data, with the pauses after its frames.
    pub(super) fn announcement(&self, exchange: &Exchange, step: Step) -> Duration {
        let (phy, sifs) = (&self.config.phy, self.config.phy.sifs());
        let rate = self.announcing_rate(exchange.rate);
        match step {
            Step::Rts => {
                phy.air_time(RTS_BYTES, rate) + sifs + self.config.ack_air_time(rate) + sifs
            }
            Step::CtsToSelf => phy.air_time(ACK_BYTES, rate) + sifs,
            Step::Data | Step::Request => Duration::ZERO,
        }
    }

    /// Whether the exchange that begins at `start` would end after the deadline of its first frame.
    pub(super) fn is_late(&self, exchange: &Exchange, start: Instant) -> bool {
        let end = start + exchange.air_time + exchange.response;
        self.deadline(exchange.owner).is_some_and(|deadline| end > deadline)
    }

    /// The deadline of the frame at the head of a function, if it is what goes next.
    fn deadline(&self, index: usize) -> Option<Instant> {
        let function = &self.functions[index];
        let head = function.queue.front().filter(|_| function.requests.is_empty())?;
        head.frame.options.deadline
    }

    /// How long an exchange of a function that begins at `start` may take to end before the
    /// deadline of its first frame.
    pub(super) fn time_left(&self, start: Instant, index: usize) -> Duration {
        self.deadline(index).map_or(Duration::MAX, |deadline| deadline.since(start))
    }

    /// How much the Duration field of data covers beyond its answer: the next exchange of the TXOP,
    /// if the next frame is known and fits.
    pub(super) fn following(&self, now: Instant, exchange: &Exchange) -> Duration {
        let function = &self.functions[exchange.owner];
        if function.params.txop.is_zero() || exchange.mpdus != 1 {
            return Duration::ZERO;
        }
        let Some(next) = function.queue.get(1) else { return Duration::ZERO };
        let (frame, sifs) = (&next.frame, self.config.phy.sifs());
        if frame.options.not_before.is_some_and(|at| at > now) {
            return Duration::ZERO;
        }
        let rate = frame.options.rate.or(next.rate).unwrap_or_else(|| match frame.to {
            Some(to) if frame.options.ack == AckPolicy::NoAck => self.rates.lowest_for(to),
            Some(to) if exchange.to != Some(to) => self.rates.guess(to),
            _ => exchange.rate,
        });
        let psdu = self.config.phy.psdu_bytes(self.mpdu_bytes(frame), rate);
        let mut length = sifs + self.config.phy.air_time(psdu, rate);
        if frame.to.is_some() && frame.options.ack == AckPolicy::Normal {
            length += sifs + self.config.ack_air_time(rate);
        }
        let end = now + exchange.air_time + exchange.response + length;
        if end <= exchange.until { length } else { Duration::ZERO }
    }
}
