//! How long neighbours take to answer.

use std::collections::BTreeMap;

use super::send::{LEAST_WAIT, LONGEST_WAIT};
use crate::base::{Duration, NodeId};

/// How long an answer is waited for at first if none has come yet; later it is three times as long
/// as answers took, within limits. After some repetitions each wait is half as long again. At 1
/// Mb/s a request and its answer take 4 ms.
pub(super) const FIRST_WAIT: Duration = Duration::from_millis(50);

/// Times of each neighbour.
#[derive(Debug, Default)]
pub(super) struct Answers(BTreeMap<NodeId, Times>);

#[derive(Clone, Copy, Debug, Default)]
struct Times {
    /// How long answers took, a moving average; `None` if all requests were repeated, so that
    /// nobody knows which of them was answered.
    mean: Option<Duration>,
    /// The shortest time from the first request to an answer, or from an answer to the frames that
    /// it asks for: at least the round-trip time.
    least: Option<Duration>,
}

impl Answers {
    /// An answer came this long after its request, which was not repeated.
    pub(super) fn on_answer(&mut self, via: NodeId, took: Duration) {
        let mean = &mut self.0.entry(via).or_default().mean;
        *mean = Some(mean.map_or(took, |mean| (mean * 7 + took) / 8));
    }

    /// An answer came this long after the first request for it, or a frame this long after the
    /// first answer that asks for it.
    pub(super) fn on_round_trip(&mut self, via: NodeId, took: Duration) {
        let least = &mut self.0.entry(via).or_default().least;
        *least = Some(least.map_or(took, |least| least.min(took)));
    }

    /// How long to wait for an answer of a neighbour. Where answers take longer than requests are
    /// apart, all requests are repeated, until the wait follows the shortest round trip.
    pub(super) fn wait(&self, via: NodeId) -> Duration {
        let Some(Times { mean, least }) = self.0.get(&via) else { return FIRST_WAIT };
        let at_first = || least.map_or(FIRST_WAIT, |least| FIRST_WAIT.max(least * 3 / 2));
        mean.map_or_else(at_first, |mean| mean * 3).clamp(LEAST_WAIT, LONGEST_WAIT)
    }

    /// How long its answers take, if that is known.
    pub(super) fn mean(&self, via: NodeId) -> Option<Duration> {
        self.0.get(&via)?.mean
    }

    /// The round-trip time to a neighbour, as far as it is known.
    pub(super) fn round_trip(&self, via: NodeId) -> Option<Duration> {
        self.0.get(&via)?.least
    }
}
