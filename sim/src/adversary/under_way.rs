//! Hostile frames on their way, so that their receptions can be told from those of others.

use std::collections::VecDeque;

use bytes::Bytes;
use farhop_proto::base::{Duration, Instant, ReceivedFrame};

/// The longest that a frame is on its way after it left, for forgetting it then.
const ON_ITS_WAY: Duration = Duration::from_millis(20);

/// Hostile frames on their way. They bear no mark on the air: each is known by where its bytes
/// stand in memory, which is nowhere else while it is under way.
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

    /// Which one a reception is of; `None` for frames of nodes.
    pub fn position(&self, frame: &ReceivedFrame) -> Option<usize> {
        let place = |payload: &Bytes| (payload.as_ptr(), payload.len());
        let is_same = |hostile: &HostileFrame| place(&hostile.payload) == place(&frame.payload);
        (!frame.payload.is_empty()).then(|| self.0.iter().position(is_same))?
    }

    /// Somebody took one for true. Returns whether it is the first to do so.
    pub fn on_accepted(&mut self, position: usize) -> bool {
        !std::mem::replace(&mut self.0[position].is_accepted, true)
    }
}
