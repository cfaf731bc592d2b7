//! Recorded transmissions of a stranger, repeated without their contents.

use std::collections::VecDeque;

use farhop_proto::base::{Bitrate, Duration, EtherType, Instant, NodeId};
use serde::{Deserialize, Serialize};

use super::{Record, Shot};

/// A transmission that a stranger made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// When it began.
    pub at: Instant,
    /// Air time.
    pub air_time: Duration,
    /// Bit-rate.
    pub rate: Bitrate,
    /// Payload length, in bytes.
    pub bytes: usize,
}

/// Repeats transmissions as noise.
#[derive(Clone, Debug, Default)]
pub struct Script(VecDeque<Sent>);

impl Script {
    /// Repeats `sent`, which is in the order of time.
    pub fn new(sent: impl IntoIterator<Item = Sent>) -> Self {
        Self(sent.into_iter().collect())
    }

    /// When the next transmission begins.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.0.front().map(|sent| sent.at)
    }

    /// The transmission that is due, if any.
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
