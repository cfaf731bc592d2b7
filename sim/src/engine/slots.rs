//! Measures how far slots are misaligned, by true time, which no node knows.

use std::collections::BTreeMap;

use farhop_proto::base::{Duration, Instant, NodeId};
use farhop_proto::link::SlotStatus;
use farhop_proto::stack::{Hop, LinkConfig, NodePlan, Plan};

use super::world::World;

/// How often nodes are inspected: twice in a slot of the default length.
const PERIOD: Duration = Duration::from_millis(10);
/// They are also inspected this long before a receiver's own slot begins: until then it may learn
/// how long the sender's slot is.
const BEFORE: Duration = Duration::from_micros(1);
/// How long a link must have been in step before errors count; meanwhile it learns its cycle.
const SETTLED: Duration = Duration::from_secs(1);
/// With more nodes, this would take a noticeable part of the run time, so it is off.
const MOST_NODES: usize = 64;

/// What a node does in its current slot, and until when.
type Doing<'a> = (&'a str, Instant);

/// The slot errors of both directions of each link, while both ends are in step: the time between
/// the arrival of the end of the sender's slot at the neighbour and the start of the neighbour's
/// own slot.
#[derive(Debug)]
pub(super) struct SlotErrors {
    next: Instant,
    directions: BTreeMap<[NodeId; 2], Direction>,
}

#[derive(Debug)]
struct Direction {
    delay: Duration,
    /// Since when both ends have been in step.
    in_step: Option<Instant>,
    /// When the sender's slot ends, and the error at the last inspection; stamps may still correct
    /// it until then.
    latest: Option<(Instant, Duration)>,
    largest: Option<Duration>,
}

impl SlotErrors {
    /// `None` if no link has slots, or there are too many nodes.
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

    /// Inspects all nodes.
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
        // What a node does on the radio to a neighbour that it is in step with, and until when.
        let slot_of = |node: NodeId, neighbour: NodeId| {
            let slots = all.get(usize::from(node.0) - 1)?;
            let (end, slot, _) = slots.iter().find(|(_, _, peers)| peers.contains(&neighbour))?;
            Some((&*slot.phase, *end))
        };
        for ([from, to], direction) in &mut self.directions {
            let both = slot_of(*from, *to).zip(slot_of(*to, *from));
            if let Some((_, ("receive", start))) = both
                && start > now + BEFORE * 2
            {
                self.next = self.next.min(start - BEFORE);
            }
            direction.look(now, both);
        }
    }

    /// The largest error of one direction, if one was ever seen.
    pub(super) fn of(&self, from: NodeId, to: NodeId) -> Option<Duration> {
        self.directions.get(&[from, to])?.largest
    }
}

impl Direction {
    /// Takes what sender and receiver do now, and until when; `None` if they are not in step.
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
        // The last inspection of a slot has the best estimate of when the neighbour's slot began.
        if let Some((sent, error)) = self.latest
            && sent <= now
        {
            self.largest = Some(self.largest.map_or(error, |largest| largest.max(error)));
            self.latest = None;
        }
        self.latest = latest.or(self.latest);
    }
}
