//! Frames of strangers on the emulated air, and the receptions of them.

use farhop_proto::base::{FrameUp, Instant};
use farhop_sim::adversary::{Genuine, UnderWay};
use farhop_sim::radio::{Injected, Medium, MediumEvent};
use serde::{Deserialize, Serialize};

/// Counters of strangers' frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostileStats {
    /// Frames that were sent on the air.
    pub sent: u64,
    /// Frames that came while the one before was still on the air.
    pub refused: u64,
    /// Receptions of them by nodes, as the addressed node or by overhearing.
    pub heard: u64,
}

/// The strangers' side of the air.
#[derive(Debug)]
pub(super) struct Hostile {
    /// Index of the first stranger's radio; `None` without strangers.
    strangers: Option<usize>,
    genuine: Genuine,
    under_way: UnderWay,
    stats: HostileStats,
}

impl Hostile {
    pub(super) fn build(strangers: Option<usize>) -> Self {
        let (genuine, under_way, stats) = Default::default();
        Self { strangers, genuine, under_way, stats }
    }

    /// Sends a frame on the air now.
    pub(super) fn send(
        &mut self,
        medium: &mut Medium,
        now: Instant,
        radio: usize,
        frame: Injected,
    ) {
        let (air_time, payload) = (frame.air_time, frame.payload.clone());
        if medium.inject(now, radio, frame) {
            self.stats.sent += 1;
            self.under_way.on_begin(now, air_time, payload);
        } else {
            self.stats.refused += 1;
        }
    }

    /// By which antenna a node receives a frame: the third (2) for exact copies of frames that the
    /// node had missed, the second (1) for all else of strangers, such as forgeries and copies of
    /// frames that it had received, and the first (0) for everything that nodes send.
    pub(super) fn antenna_of(&mut self, event: &MediumEvent) -> u8 {
        let (FrameUp::Received(frame) | FrameUp::Overheard(frame)) = &event.event else {
            return 0;
        };
        let Some(strangers) = self.strangers else { return 0 };
        if event.radio >= strangers {
            self.genuine.on_sent(frame);
            return 0;
        }
        if self.under_way.position(frame).is_none() {
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
