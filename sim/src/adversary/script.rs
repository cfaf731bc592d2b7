//! The same transmissions again, with nothing in them.

use std::collections::VecDeque;

use farhop_proto::base::{Bitrate, Duration, EtherType, Instant, NodeId};
use serde::{Deserialize, Serialize};

use super::{Record, Shot};

/// A transmission that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// Its start.
    pub at: Instant,
    /// How long it was on air.
    pub air_time: Duration,
    /// Bit-rate.
    pub rate: Bitrate,
    /// Bytes of the payload.
    pub bytes: usize,
}

/// Repeats transmissions as noise.
#[derive(Clone, Debug, Default)]
pub struct Script(VecDeque<Sent>);

impl Script {
    /// From what was sent, in the order of time.
    pub fn new(sent: impl IntoIterator<Item = Sent>) -> Self {
        Self(sent.into_iter().collect())
    }

    /// When the next one begins.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.0.front().map(|sent| sent.at)
    }

    /// The transmission that begins now.
    pub fn poll_shot(&mut self, now: Instant) -> Option<Shot> {
        let sent = self.0.pop_front_if(|sent| sent.at <= now)?;
        let frame = Record {
            from: NodeId(0),
            to: None,
            protocol: EtherType(0),
            payload: vec![0; sent.bytes].into(),
            rate: sent.rate,
        };
        Some(Shot { kind: None, frame, air_time: sent.air_time })
    }
}
