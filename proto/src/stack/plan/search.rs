//! Shortest paths over the links of a scenario.

use super::topology::{Step, Topology, index};
use crate::base::NodeId;

/// How the search reached a node.
#[derive(Clone, Copy, Debug, Default)]
struct Reached {
    /// The search that last reached it.
    number: u32,
    /// Hops to the destination.
    hops: u16,
    /// Expected transmissions on the best of the shortest paths, in thousandths.
    milli_etx: u32,
}

/// A search for shortest paths that reuses its memory.
#[derive(Clone, Debug, Default)]
pub(in crate::stack) struct Search {
    reached: Vec<Reached>,
    number: u32,
    /// The nodes that were reached, in this order.
    order: Vec<NodeId>,
}

impl Search {
    /// Finds the hops to `to` from all of `from` that have a path, and from all nodes that are
    /// nearer; from all nodes if `from` is empty. A path uses links that lose everything only where
    /// there is no other.
    pub(super) fn toward(&mut self, topology: &Topology, to: NodeId, from: &[NodeId]) {
        self.reached.resize(topology.len(), Reached::default());
        self.number += 1;
        self.order.clear();
        self.order.push(to);
        self.reached[index(to)] = Reached { number: self.number, hops: 0, milli_etx: 0 };
        let mut missing = from.iter().filter(|node| **node != to).count();
        loop {
            missing = self.spread(topology, (from, missing), false, usize::MAX);
            let known = self.order.len();
            if missing == 0 && !from.is_empty() {
                return;
            }
            missing = self.spread(topology, (from, missing), true, known);
            if self.order.len() == known {
                return;
            }
        }
    }

    /// Expands the first `most` nodes that were reached, over dead steps or over the others, until
    /// none of `from` is missing. Returns how many still are.
    fn spread(
        &mut self,
        topology: &Topology,
        (from, mut missing): (&[NodeId], usize),
        dead: bool,
        most: usize,
    ) -> usize {
        let (mut last, mut next) = (0, 0);
        while let Some(at) = self.order.get(next).copied().filter(|_| next < most) {
            next += 1;
            let Reached { hops, milli_etx, .. } = self.reached[index(at)];
            // Nodes as far away as the farthest may still improve equally short paths to it.
            if missing == 0 && !from.is_empty() && hops >= last {
                break;
            }
            let hops = hops.saturating_add(1);
            for step in topology.steps(at).iter().filter(|step| step.is_dead() == dead) {
                let place = &mut self.reached[index(step.node)];
                let milli_etx = milli_etx.saturating_add(step.milli_etx);
                if place.number == self.number {
                    if place.hops == hops {
                        place.milli_etx = place.milli_etx.min(milli_etx);
                    }
                    continue;
                }
                *place = Reached { number: self.number, hops, milli_etx };
                self.order.push(step.node);
                if missing > 0 && from.contains(&step.node) {
                    (missing, last) = (missing - 1, hops);
                }
            }
        }
        missing
    }

    /// The first step from a node on the best of the shortest paths; among equals, the first in the
    /// order of the links.
    pub(super) fn step<'a>(&self, topology: &'a Topology, from: NodeId) -> Option<&'a Step> {
        let hops = self.hops(from)?.checked_sub(1)?;
        let nearer = |step: &&Step| self.hops(step.node) == Some(hops);
        let etx =
            |step: &&Step| self.reached[index(step.node)].milli_etx.saturating_add(step.milli_etx);
        topology.steps(from).iter().filter(nearer).min_by_key(etx)
    }

    /// Hops from a node to the destination, if it was reached.
    pub(super) fn hops(&self, node: NodeId) -> Option<u16> {
        let reached = self.reached.get(index(node))?;
        (reached.number == self.number).then_some(reached.hops)
    }
}
