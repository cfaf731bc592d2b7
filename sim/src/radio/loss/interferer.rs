//! A hidden transmitter at a constant packet rate, which the sender does not hear (`radio.md` 5.4).
//! It destroys the frames that it overlaps: the preamble if it is on the air before the header
//! ends, otherwise the payload.
//!
//! Its packets come at equal intervals, from a random time on; each waits for the one before it,
//! for DIFS and for a backoff. It does not hear the sender either.

use std::collections::VecDeque;

use farhop_proto::base::{Duration, Instant, Phy, Rng};

use super::{Exposed, Fate};

/// Configuration of a hidden interferer.
#[derive(Clone, Debug, PartialEq)]
pub struct Interferer {
    /// Time from one packet to the next.
    pub interval: Duration,
    /// Air time of each packet.
    pub air_time: Duration,
    /// Its PHY, which determines the gaps between its packets.
    pub phy: Phy,
}

impl Interferer {
    /// Long-run loss of frames of this length, as long as the interferer keeps up with its packets.
    pub(super) fn mean(&self, length: Duration) -> f64 {
        let exposed = length + self.air_time;
        (exposed.as_secs_f64() / self.interval.as_secs_f64()).min(1.0)
    }
}

/// The interferer's transmissions over time.
#[derive(Clone, Debug)]
pub(super) struct Interference {
    model: Interferer,
    /// When its next packet comes.
    next: Instant,
    /// When the last frame that was drawn ends.
    last_end: Instant,
    /// Starts and ends of its frames, up to the first one beyond the last frame that was judged.
    on_air: VecDeque<(Instant, Instant)>,
}

impl Interference {
    pub(super) fn new(model: &Interferer, rng: &mut Rng) -> Self {
        assert!(!model.interval.is_zero(), "packets without an interval");
        let next = Instant::ZERO + model.interval.mul_f64(rng.uniform());
        Self { model: model.clone(), next, last_end: Instant::ZERO, on_air: VecDeque::new() }
    }

    pub(super) fn fate(&mut self, frame: &Exposed, rng: &mut Rng) -> Fate {
        let end = frame.start + frame.length;
        self.skip_silence(frame.start);
        while self.on_air.back().is_none_or(|(start, _)| *start < end) {
            self.transmit(rng);
            while self.on_air.front().is_some_and(|(_, end)| *end <= frame.start) {
                self.on_air.pop_front();
            }
        }
        let header_end = frame.start + frame.plcp;
        let overlaps = |until: Instant| {
            let is_hit = |(start, end): &(Instant, Instant)| *start < until && *end > frame.start;
            self.on_air.iter().any(is_hit)
        };
        if frame.plcp > Duration::ZERO && overlaps(header_end) {
            Fate::Preamble
        } else if overlaps(end) {
            Fate::Crc
        } else {
            Fate::Ok
        }
    }

    fn transmit(&mut self, rng: &mut Rng) {
        let (smallest, _) = self.model.phy.contention_window();
        let backoff = self.model.phy.slot() * rng.below(u64::from(smallest) + 1);
        let start = self.next.max(self.last_end + self.model.phy.difs()) + backoff;
        self.last_end = start + self.model.air_time;
        self.on_air.push_back((start, self.last_end));
        self.next += self.model.interval;
    }

    /// Skips packets long before the frame to be judged instead of drawing each of them.
    fn skip_silence(&mut self, at: Instant) {
        const KEPT: u64 = 64;
        let behind = at.since(self.next).div_duration(self.model.interval);
        let keeps_up = self.on_air.back().is_none_or(|(start, _)| *start < at);
        if keeps_up && behind > 2 * KEPT {
            self.next += self.model.interval * (behind - KEPT);
            self.on_air.clear();
        }
    }
}
