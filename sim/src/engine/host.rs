//! Late hosts: processes that wake up after their timers, and frames that take time from the host
//! to the radio.

use std::collections::VecDeque;

use farhop_proto::base::{FrameDown, Instant, Rng, Seed};
use farhop_proto::stack::{NodePlan, RadioPlan};

use super::clock::Quantiles;

/// The delays of a node's host.
pub(super) struct Host {
    pub(super) rng: Rng,
    /// For each radio; empty if no radio waits for its host.
    departures: Vec<Departures>,
}

/// Frames on their way from the host to one radio.
struct Departures {
    delay: Quantiles,
    frames: VecDeque<(Instant, FrameDown)>,
    last: Instant,
}

impl Host {
    /// The host of a node; `None` if it is never late.
    pub(super) fn build(node: &NodePlan, is_woken_late: bool, seed: Seed) -> Option<Box<Self>> {
        let departures = |radio: &RadioPlan| Departures {
            delay: Quantiles::build(radio.config.departure.points()),
            frames: VecDeque::new(),
            last: Instant::ZERO,
        };
        let is_slow = node.radios.iter().any(|radio| !radio.config.departure.is_none());
        (is_woken_late || is_slow).then(|| {
            Box::new(Self {
                rng: seed.stream(&format!("node/{}/host", node.node.0)),
                departures: node.radios.iter().filter(|_| is_slow).map(departures).collect(),
            })
        })
    }

    /// Number of frames on their way to a radio of the node.
    pub(super) fn frames(&self, radio: usize) -> usize {
        self.departures.get(radio).map_or(0, |waiting| waiting.frames.len())
    }

    /// Whether frames take time to get to a radio.
    pub(super) fn delays(&self, radio: usize) -> bool {
        self.departures.get(radio).is_some_and(|waiting| !waiting.delay.is_zero())
    }

    /// Delays a frame for a radio. Frames do not overtake each other.
    pub(super) fn handle_frame(&mut self, now: Instant, radio: usize, frame: FrameDown) {
        let waiting = &mut self.departures[radio];
        let at = now + waiting.delay.at(self.rng.uniform());
        waiting.last = waiting.last.max(at);
        waiting.frames.push_back((waiting.last, frame));
    }

    /// The next frame that has reached its radio, and the index of the radio at the node.
    pub(super) fn poll_frame(&mut self, now: Instant) -> Option<(usize, FrameDown)> {
        self.departures.iter_mut().enumerate().find_map(|(radio, waiting)| {
            let (_, frame) = waiting.frames.pop_front_if(|frame| frame.0 <= now)?;
            Some((radio, frame))
        })
    }

    /// When the next frame reaches its radio.
    pub(super) fn poll_timeout(&self) -> Instant {
        let first = self.departures.iter().filter_map(|waiting| waiting.frames.front());
        first.fold(Instant::MAX, |next, (at, _)| next.min(*at))
    }
}
