//! What the radios of one node make of the frames that reach them, for whoever captures there.

use std::collections::VecDeque;

use farhop_proto::base::{Instant, NodeId};

use super::transmission::Transmission;

/// The end of a transmission that a radio had locked on to. Of others a radio knows nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The radio that sent it.
    pub from: usize,
    /// When it sent it.
    pub start: Instant,
    /// A bit for each MPDU that passed its check, the first in the lowest.
    pub decoded: u64,
}

/// The arrivals at one node that nobody has taken yet.
#[derive(Debug)]
pub(super) struct Heard {
    node: NodeId,
    arrivals: VecDeque<Arrival>,
}

impl Heard {
    /// Those at a node from now on.
    pub(super) fn of(node: NodeId) -> Self {
        Self { node, arrivals: VecDeque::new() }
    }

    /// What a radio of `node` has made of a transmission.
    pub(super) fn add(&mut self, node: NodeId, transmission: &Transmission, decoded: u64) {
        if node == self.node {
            let &Transmission { radio: from, start, .. } = transmission;
            self.arrivals.push_back(Arrival { from, start, decoded });
        }
    }

    pub(super) fn poll(&mut self) -> Option<Arrival> {
        self.arrivals.pop_front()
    }
}
