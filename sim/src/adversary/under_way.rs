//! Hostile frames on their way, to tell their receptions from those of other frames.

use std::collections::VecDeque;

use bytes::Bytes;
use farhop_proto::base::{Duration, Instant, ReceivedFrame};

/// How long after its end a frame is forgotten: it arrives sooner.
const ON_ITS_WAY: Duration = Duration::from_millis(20);

/// Hostile frames on their way. They are not marked on the air: a frame is recognized by the
/// address of its payload in memory, which is unique while the payload is kept here.
#[derive(Debug, Default)]
pub struct UnderWay(VecDeque<HostileFrame>);

#[derive(Debug)]
struct HostileFrame {
    until: Instant,
    payload: Bytes,
    is_accepted: bool,
}

impl UnderWay {
    /// A frame begins. Positions found before are no longer valid.
    pub fn on_begin(&mut self, now: Instant, air_time: Duration, payload: Bytes) {
        while self.0.pop_front_if(|frame| frame.until < now).is_some() {}
        let until = now + air_time + ON_ITS_WAY;
        self.0.push_back(HostileFrame { until, payload, is_accepted: false });
    }

    /// The position of the hostile frame that was received; `None` if the frame is a node's.
    pub fn position(&self, frame: &ReceivedFrame) -> Option<usize> {
        let place = |payload: &Bytes| (payload.as_ptr(), payload.len());
        let is_same = |hostile: &HostileFrame| place(&hostile.payload) == place(&frame.payload);
        (!frame.payload.is_empty()).then(|| self.0.iter().position(is_same))?
    }

    /// A node accepted a frame. Returns whether it is the first to do so.
    pub fn on_accepted(&mut self, position: usize) -> bool {
        !std::mem::replace(&mut self.0[position].is_accepted, true)
    }
}
