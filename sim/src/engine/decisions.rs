//! Collects the decisions of the nodes' layers, for the trace.

use std::collections::VecDeque;

use farhop_proto::base::{Instant, NodeId, Trace};
use serde_json::Value;

/// One decision.
pub(super) struct Decision {
    /// True time.
    pub(super) at: Instant,
    pub(super) node: NodeId,
    /// The layer's record: an object with its name in `event`.
    pub(super) event: Value,
}

/// Decisions that have not been written yet, and the node and time of the next ones.
pub(super) struct Decisions {
    now: Instant,
    node: NodeId,
    made: VecDeque<Decision>,
}

impl Default for Decisions {
    fn default() -> Self {
        Self { now: Instant::ZERO, node: NodeId(0), made: VecDeque::new() }
    }
}

impl Decisions {
    /// Attributes the decisions that follow to the node with index `node`, at the true time `now`.
    pub(super) fn of(&mut self, node: usize, now: Instant) -> &mut dyn Trace {
        (self.now, self.node) = (now, NodeId(node as u16 + 1));
        self
    }

    pub(super) fn poll_decision(&mut self) -> Option<Decision> {
        self.made.pop_front()
    }
}

impl Trace for Decisions {
    fn record(&mut self, _now: Instant, event: &dyn erased_serde::Serialize) {
        let event = serde_json::to_value(event).expect("events are plain data");
        self.made.push_back(Decision { at: self.now, node: self.node, event });
    }
}
