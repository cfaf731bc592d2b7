//! How far slots are from where they should be, by the true time, which no node knows.

use std::collections::BTreeMap;

use farhop_proto::base::{Duration, Instant, NodeId};
use farhop_proto::link::SlotStatus;
use farhop_proto::stack::{Hop, LinkConfig, NodePlan, Plan};

use super::world::World;

/// How often nodes are looked at: twice in a slot of the usual length.
const PERIOD: Duration = Duration::from_millis(10);
/// How long a link must have been in step before errors count: what a cycle takes is learned then.
const SETTLED: Duration = Duration::from_secs(1);
/// With more nodes it would take a part of the time of a run that is felt.
const MOST_NODES: usize = 64;

/// What a node does in its slots, and until when.
type Doing<'a> = (&'a str, Instant);

/// The errors of the slots of both directions of each link, while both ends take it to be in step:
/// between the moment at which the end of the sender's slot comes to the neighbour and the start of
/// the neighbour's own.
#[derive(Debug)]
pub(super) struct SlotErrors {
    next: Instant,
    directions: BTreeMap<[NodeId; 2], Direction>,
}

#[derive(Debug)]
struct Direction {
    delay: Duration,
    /// Since when both ends are in step.
    in_step: Option<Instant>,
    /// When the sender's slot ends, and the error as it was last seen: until then stamps may still
    /// mend it.
    latest: Option<(Instant, Duration)>,
    largest: Option<Duration>,
}

impl SlotErrors {
    /// Nothing where no link is in step with others, or nodes are many.
    pub(super) fn build(plan: &Plan) -> Option<Self> {
        let is_wild = |node: &NodePlan| matches!(node.stack.link, LinkConfig::Wild(_));
        let has_slots = plan.nodes.iter().any(is_wild);
        let direction = |hop: &Hop| {
            let direction =
                Direction { delay: hop.delay, in_step: None, latest: None, largest: None };
            ([hop.from.0, hop.to.0], direction)
        };
        let directions = || plan.hops.iter().filter(|hop| hop.usable).map(direction).collect();
        let is_small = plan.nodes.len() <= MOST_NODES;
        (has_slots && is_small)
            .then(|| Self { next: Instant::ZERO + PERIOD, directions: directions() })
    }

    /// When [`Self::handle_timeout`] is due.
    pub(super) fn poll_timeout(&self) -> Instant {
        self.next
    }

    /// Looks at all nodes as they are now.
    pub(super) fn handle_timeout(&mut self, now: Instant, world: &World) {
        self.next = now + PERIOD;
        let of_node = |node: usize| {
            let node = &world.nodes[node];
            let local = node.local(now);
            let end = |slot: &SlotStatus| node.true_time(local + slot.ends_in);
            let slots = node.stack.slots(local).into_iter();
            slots.map(|(slot, peers)| (end(&slot), slot, peers)).collect::<Vec<_>>()
        };
        let all: Vec<_> = (0..world.nodes.len()).map(of_node).collect();
        // What a node does on the radio to a neighbour with which it is in step, and until when.
        let slot_of = |node: NodeId, neighbour: NodeId| {
            let slots = all.get(usize::from(node.0) - 1)?;
            let (end, slot, _) = slots.iter().find(|(_, _, peers)| peers.contains(&neighbour))?;
            Some((&*slot.phase, *end))
        };
        for ([from, to], direction) in &mut self.directions {
            let both = slot_of(*from, *to).zip(slot_of(*to, *from));
            direction.look(now, both);
        }
    }

    /// The largest error of one direction, if one was ever seen.
    pub(super) fn of(&self, from: NodeId, to: NodeId) -> Option<Duration> {
        self.directions.get(&[from, to])?.largest
    }
}

impl Direction {
    /// What sender and receiver do now, and until when; nothing where they are not in step.
    fn look(&mut self, now: Instant, both: Option<(Doing<'_>, Doing<'_>)>) {
        let Some((sender, receiver)) = both else {
            (self.in_step, self.latest) = (None, None);
            return;
        };
        let since = *self.in_step.get_or_insert(now);
        if now.since(since) < SETTLED {
            return;
        }
        let latest = match (sender, receiver) {
            (("send", sent), ("receive", start)) => {
                let arrives = sent + self.delay;
                Some((sent, start.since(arrives) + arrives.since(start)))
            }
            _ => None,
        };
        // The last look at a slot tells when the neighbour's began.
        if let Some((sent, error)) = self.latest
            && sent <= now
        {
            self.largest = Some(self.largest.map_or(error, |largest| largest.max(error)));
            self.latest = None;
        }
        self.latest = latest.or(self.latest);
    }
}
