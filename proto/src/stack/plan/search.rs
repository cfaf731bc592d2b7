//! Shortest paths over the links of a scenario.

use super::topology::{Step, Topology, index};
use crate::base::NodeId;

/// How a node is reached.
#[derive(Clone, Copy, Debug, Default)]
struct Reached {
    /// The search that last reached it.
    number: u32,
    /// Hops to the destination.
    hops: u16,
    /// Transmissions on the best of the shortest ways, in thousandths.
    milli_etx: u32,
}

/// A search for shortest paths, whose memory is used again.
#[derive(Clone, Debug, Default)]
pub(in crate::stack) struct Search {
    reached: Vec<Reached>,
    number: u32,
    /// Who was reached, in this order.
    order: Vec<NodeId>,
}

impl Search {
    /// Finds the hops to `to` from all of `from` that lead there, and from whoever is nearer; from
    /// everybody if `from` is empty. A way leads over links that lose all where no other one does.
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

    /// Goes on from the first `most` who were reached, over dead steps or over the others, until
    /// none of `from` is missing. Returns how many are then.
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
            // All that are as far as the farthest may be on a way to it that is as short.
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

    /// The first step from a node on the best of the shortest ways, by the order of the links where
    /// several are as good.
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
