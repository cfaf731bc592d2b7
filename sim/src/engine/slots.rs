//! How far slots are from where they should be, by the true time, which no node knows.

use std::collections::BTreeMap;

use farhop_proto::base::{Duration, Instant, NodeId};
use farhop_proto::link::{LinkStatus, SlotStatus};
use farhop_proto::stack::{Hop, Plan};

use super::world::World;

/// How long a link must have been in step before errors count: what a cycle takes is learned then.
const SETTLED: Duration = Duration::from_secs(1);

/// The largest error of each direction of a link so far, while both ends took it to be in step:
/// between the moment at which the end of the sender's slot comes to the neighbour and the start of
/// the neighbour's own.
#[derive(Debug)]
pub(super) struct SlotErrors {
    delays: BTreeMap<[NodeId; 2], Duration>,
    /// Since when both ends of a direction are in step.
    in_step: BTreeMap<[NodeId; 2], Instant>,
    largest: BTreeMap<[NodeId; 2], Duration>,
}

impl SlotErrors {
    /// Nothing where no link has slots.
    pub(super) fn build(plan: &Plan) -> Option<Self> {
        let has_slots = plan.nodes.iter().any(|node| node.stack.link.has_schedule());
        let delay = |hop: &Hop| ([hop.from.0, hop.to.0], hop.delay);
        let delays = || plan.hops.iter().filter(|hop| hop.usable).map(delay).collect();
        let (in_step, largest) = (BTreeMap::new(), BTreeMap::new());
        has_slots.then(|| Self { delays: delays(), in_step, largest })
    }

    /// Looks at all nodes as they are now.
    pub(super) fn sample(&mut self, now: Instant, world: &World) {
        let status = |node: usize| {
            let node = &world.nodes[node];
            let ends = |slot: &SlotStatus| node.true_time(node.local(now) + slot.ends_in);
            let link = node.stack.link_status(node.local(now));
            let ends: Vec<Instant> = link.slots.iter().map(ends).collect();
            (link, ends)
        };
        let all: Vec<(LinkStatus, Vec<Instant>)> = (0..world.nodes.len()).map(status).collect();
        // What a node does on the radio to a neighbour with which it is in step, and until when.
        let slot_of = |node: NodeId, neighbour: NodeId| {
            let (link, ends) = all.get(usize::from(node.0) - 1)?;
            let up = link.neighbours.iter().find(|other| other.node == neighbour && other.up)?;
            let slot = link.slots.iter().position(|slot| slot.radio == up.radio)?;
            Some((&*link.slots[slot].phase, ends[slot]))
        };
        for ([from, to], delay) in &self.delays {
            let (Some(sender), Some(receiver)) = (slot_of(*from, *to), slot_of(*to, *from)) else {
                self.in_step.remove(&[*from, *to]);
                continue;
            };
            let since = *self.in_step.entry([*from, *to]).or_insert(now);
            let (("send", sent), ("receive", start)) = (sender, receiver) else { continue };
            if now.since(since) < SETTLED {
                continue;
            }
            let arrives = sent + *delay;
            let error = start.since(arrives) + arrives.since(start);
            let largest = self.largest.entry([*from, *to]).or_default();
            *largest = error.max(*largest);
        }
    }

    /// The error of one direction, if it was ever seen.
    pub(super) fn of(&self, from: NodeId, to: NodeId) -> Option<Duration> {
        self.largest.get(&[from, to]).copied()
    }
}
