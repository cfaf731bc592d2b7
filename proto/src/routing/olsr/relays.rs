//! The choice of multipoint relays, which forward what this node floods (RFC 3626, section 8.3).

use std::collections::BTreeMap;

use super::links::Links;
use super::paths::Cost;
use crate::base::{Instant, NodeId};

/// Willingness of a node that never relays.
const WILL_NEVER: u8 = 0;
/// Willingness of a node that always does.
const WILL_ALWAYS: u8 = 7;

/// Chooses relays so that each node two hops away is reached by `coverage` of them, or by all
/// neighbours that reach it. Among neighbours that reach equally many nodes, willingness decides,
/// then the better link. A neighbour that is better reached over another one counts as two hops
/// away, because it misses many of our broadcasts.
pub(super) fn choose(
    links: &Links,
    now: Instant,
    node: NodeId,
    coverage: u8,
    is_direct: impl Fn(NodeId) -> bool,
) -> Vec<NodeId> {
    let best = links.best(now);
    let mut reached: BTreeMap<NodeId, Vec<NodeId>> = BTreeMap::new();
    let mut willing: BTreeMap<NodeId, u8> = BTreeMap::new();
    for ((neighbour, _), link) in links.all().filter(|(_, link)| link.is_symmetric(now)) {
        if link.willingness == WILL_NEVER {
            continue;
        }
        willing.insert(neighbour, link.willingness);
        let is_near = |far: &NodeId| best.contains_key(far) && is_direct(*far);
        let far = link.neighbours.iter().filter(|far| **far != node && !is_near(far));
        reached.entry(neighbour).or_default().extend(far);
    }
    for far in reached.values_mut() {
        // Several radios do not reach them any better.
        far.sort_unstable();
        far.dedup();
    }
    let mut wanted: BTreeMap<NodeId, u8> = BTreeMap::new();
    for far in reached.values().flatten() {
        let count = wanted.entry(*far).or_default();
        *count = (*count + 1).min(coverage.max(1));
    }
    let mut relays = Vec::new();
    let mut take = |relay: NodeId, wanted: &mut BTreeMap<NodeId, u8>, far: &[NodeId]| {
        relays.push(relay);
        for node in far {
            wanted.entry(*node).and_modify(|count| *count = count.saturating_sub(1));
        }
    };
    for relay in willing.iter().filter(|(_, will)| **will >= WILL_ALWAYS).map(|(node, _)| *node) {
        let far = reached.remove(&relay).expect("whoever is willing was asked");
        take(relay, &mut wanted, &far);
    }
    loop {
        let gain = |far: &[NodeId]| far.iter().filter(|node| wanted[*node] > 0).count();
        let cost = |relay: &NodeId| best.get(relay).map_or(Cost::MOST, |best| best.0);
        let better = |(relay, far): &(&NodeId, &Vec<NodeId>)| {
            (gain(far), willing[*relay], std::cmp::Reverse(cost(relay)), std::cmp::Reverse(**relay))
        };
        let Some((relay, far)) = reached.iter().max_by_key(better) else { break };
        if gain(far) == 0 {
            break;
        }
        let relay = *relay;
        let far = reached.remove(&relay).expect("it was found");
        take(relay, &mut wanted, &far);
    }
    relays
}
