//! Frames of strangers on the emulated air, and which receptions are of them.

use std::collections::VecDeque;

use bytes::Bytes;
use farhop_proto::base::{Duration, FrameUp, Instant};
use farhop_sim::adversary::Genuine;
use farhop_sim::radio::{Injected, Medium, MediumEvent};
use serde::{Deserialize, Serialize};

/// The longest that a frame is on its way, for forgetting it after that.
const ON_ITS_WAY: Duration = Duration::from_millis(20);

/// What strangers did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostileStats {
    /// Frames that went on air.
    pub sent: u64,
    /// Frames that came while the one before was still on air.
    pub refused: u64,
    /// Receptions of them by nodes to whom they were addressed, or that overheard them.
    pub heard: u64,
}

/// Hostile frames under way, known by where their bytes stand in memory.
#[derive(Debug)]
pub(super) struct Hostile {
    /// The first radio that is no node's; nothing where all are.
    strangers: Option<usize>,
    genuine: Genuine,
    in_flight: VecDeque<(Instant, Bytes)>,
    stats: HostileStats,
}

impl Hostile {
    pub(super) fn build(strangers: Option<usize>) -> Self {
        let (genuine, in_flight, stats) = Default::default();
        Self { strangers, genuine, in_flight, stats }
    }

    /// Puts a frame on the air now.
    pub(super) fn send(
        &mut self,
        medium: &mut Medium,
        now: Instant,
        radio: usize,
        frame: Injected,
    ) {
        while self.in_flight.pop_front_if(|(until, _)| *until < now).is_some() {}
        let (until, payload) = (now + frame.air_time + ON_ITS_WAY, frame.payload.clone());
        if medium.inject(now, radio, frame) {
            self.stats.sent += 1;
            self.in_flight.push_back((until, payload));
        } else {
            self.stats.refused += 1;
        }
    }

    /// By which antenna a node gets what its radio reports. For what strangers made up, and for
    /// copies of what the node had got, that is the second; for exact copies of frames that it had
    /// missed the third. Everything else comes by the first.
    pub(super) fn antenna_of(&mut self, event: &MediumEvent) -> u8 {
        let (FrameUp::Received(frame) | FrameUp::Overheard(frame)) = &event.event else {
            return 0;
        };
        let Some(strangers) = self.strangers else { return 0 };
        if event.radio >= strangers {
            self.genuine.on_sent(frame);
            return 0;
        }
        let is_same = |(_, payload): &(Instant, Bytes)| {
            let place = (payload.as_ptr(), payload.len());
            !payload.is_empty() && place == (frame.payload.as_ptr(), frame.payload.len())
        };
        if !self.in_flight.iter().any(is_same) {
            self.genuine.on_received(event.radio, frame);
            return 0;
        }
        self.stats.heard += 1;
        if self.genuine.has_missed(event.radio, frame) { 2 } else { 1 }
    }

    pub(super) fn stats(&self) -> HostileStats {
        self.stats
    }
}
