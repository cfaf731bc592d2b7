//! Records which transmissions the radios of one node decoded, for captures at that node.

use std::collections::VecDeque;

use farhop_proto::base::{Instant, NodeId};

use super::transmission::Transmission;

/// The end of a transmission that a radio had locked on to. A radio notices no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The radio that sent it.
    pub from: usize,
    /// When the sender began to transmit it.
    pub start: Instant,
    /// A bit for each MPDU that passed its check, the first in the lowest bit.
    pub decoded: u64,
}

/// The arrivals at one node that have not been polled yet.
#[derive(Debug)]
pub(super) struct Heard {
    node: NodeId,
    arrivals: VecDeque<Arrival>,
}

impl Heard {
    /// Records the arrivals at `node` from now on.
    pub(super) fn of(node: NodeId) -> Self {
        Self { node, arrivals: VecDeque::new() }
    }

    /// Records what a radio of `node` decoded of a transmission, if that node is the recorded one.
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
