//! A host that is late: processes that wake up after their timers, and frames that take their time
//! to the radio.

use std::collections::VecDeque;

use farhop_proto::base::{FrameDown, Instant, Rng, Seed};
use farhop_proto::stack::{NodePlan, RadioPlan};

use super::clock::Quantiles;

/// The host of a node, if it is late in any way.
pub(super) struct Host {
    pub(super) rng: Rng,
    /// For each radio; nothing where none of them waits for its host.
    departures: Vec<Departures>,
}

/// Frames on their way from the host to a radio.
struct Departures {
    delay: Quantiles,
    frames: VecDeque<(Instant, FrameDown)>,
    last: Instant,
}

impl Host {
    /// The host of a node; none if it is never late.
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

    /// Frames on their way to a radio of the node.
    pub(super) fn frames(&self, radio: usize) -> usize {
        self.departures.get(radio).map_or(0, |waiting| waiting.frames.len())
    }

    /// Whether frames are under way to a radio for some time.
    pub(super) fn delays(&self, radio: usize) -> bool {
        self.departures.get(radio).is_some_and(|waiting| !waiting.delay.is_zero())
    }

    /// Takes a frame for a radio that it delays. Frames do not overtake each other.
    pub(super) fn handle_frame(&mut self, now: Instant, radio: usize, frame: FrameDown) {
        let waiting = &mut self.departures[radio];
        let at = now + waiting.delay.at(self.rng.uniform());
        waiting.last = waiting.last.max(at);
        waiting.frames.push_back((waiting.last, frame));
    }

    /// Gives the next frame that has come to its radio, and the radio.
    pub(super) fn poll_frame(&mut self, now: Instant) -> Option<(usize, FrameDown)> {
        self.departures.iter_mut().enumerate().find_map(|(radio, waiting)| {
            let (_, frame) = waiting.frames.pop_front_if(|frame| frame.0 <= now)?;
            Some((radio, frame))
        })
    }

    /// When the next frame comes to its radio.
    pub(super) fn poll_timeout(&self) -> Instant {
        let first = self.departures.iter().filter_map(|waiting| waiting.frames.front());
        first.fold(Instant::MAX, |next, (at, _)| next.min(*at))
    }
}
