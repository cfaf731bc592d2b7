//! How long neighbours take to answer.

use std::collections::BTreeMap;

use super::send::{LEAST_WAIT, LONGEST_WAIT};
use crate::base::{Duration, NodeId};

/// How long an answer is waited for at first where none has come yet; later it is three times as
/// long as answers took, within limits. Each time it is half as long again. At 1 Mb/s a request and
/// its answer take 4 ms.
pub(super) const FIRST_WAIT: Duration = Duration::from_millis(50);

/// What is known of each neighbour.
#[derive(Debug, Default)]
pub(super) struct Answers(BTreeMap<NodeId, Times>);

#[derive(Clone, Copy, Debug, Default)]
struct Times {
    /// How long answers took, a moving average; nothing if all came to requests that were repeated,
    /// so that they may be to either.
    mean: Option<Duration>,
    /// The least time from the first request to an answer, or from an answer to what it asks for.
    /// It is no less than the way to the neighbour and back takes.
    least: Option<Duration>,
}

impl Answers {
    /// An answer came so long after it was asked for, and that once.
    pub(super) fn on_answer(&mut self, via: NodeId, took: Duration) {
        let mean = &mut self.0.entry(via).or_default().mean;
        *mean = Some(mean.map_or(took, |mean| (mean * 7 + took) / 8));
    }

    /// An answer came so long after it was asked for first, and perhaps again, or what an answer
    /// asks for after it was given first.
    pub(super) fn on_round_trip(&mut self, via: NodeId, took: Duration) {
        let least = &mut self.0.entry(via).or_default().least;
        *least = Some(least.map_or(took, |least| least.min(took)));
    }

    /// How long an answer of a neighbour is waited for. If it takes longer than requests are apart,
    /// all are repeated until the wait is as long.
    pub(super) fn wait(&self, via: NodeId) -> Duration {
        let Some(Times { mean, least }) = self.0.get(&via) else { return FIRST_WAIT };
        let at_first = || least.map_or(FIRST_WAIT, |least| FIRST_WAIT.max(least * 3 / 2));
        mean.map_or_else(at_first, |mean| mean * 3).clamp(LEAST_WAIT, LONGEST_WAIT)
    }

    /// How long its answers take, if that is known.
    pub(super) fn mean(&self, via: NodeId) -> Option<Duration> {
        self.0.get(&via)?.mean
    }

    /// How long the way to a neighbour and back takes, as far as that is known.
    pub(super) fn round_trip(&self, via: NodeId) -> Option<Duration> {
        self.0.get(&via)?.least
    }
}
