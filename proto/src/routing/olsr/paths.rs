//! The routes with the fewest expected transmissions, over all that is known of the network (RFC
//! 3626, section 10).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::super::forward::NextHop;
use crate::base::{NodeId, RadioId};

/// Expected transmissions (ETX): thousandths of 1 / (LQ * NLQ).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cost(u32);

impl Cost {
    pub(super) const MOST: Self = Self(u32::MAX);

    /// The cost of a link; `None` if nothing arrives in one direction.
    pub(super) fn of(lq: u8, nlq: u8) -> Option<Self> {
        let both = u32::from(lq) * u32::from(nlq);
        (both > 0).then(|| Self(255 * 255 * 1_000 / both))
    }

    /// The number of transmissions.
    pub(super) fn etx(self) -> f64 {
        f64::from(self.0) / 1e3
    }

    fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// Neighbours that each node reports, in order.
pub(super) type Edges<'a> = BTreeMap<NodeId, &'a [(NodeId, Cost)]>;

/// The cost of a link from `a` to `b`: both ends must report it, and the higher cost counts. A link
/// that only one end reports may be a lie.
fn agreed(edges: &Edges<'_>, a: NodeId, b: NodeId, cost: Cost) -> Option<Cost> {
    let back = edges.get(&b)?;
    let place = back.binary_search_by_key(&a, |edge| edge.0).ok()?;
    Some(cost.max(back[place].1))
}

/// The next hop and the cost to every node that can be reached. Among routes of equal cost the one
/// with fewer hops is taken, then the one over the neighbour with the lower number.
pub(super) fn shortest(
    node: NodeId,
    best: &BTreeMap<NodeId, (Cost, RadioId)>,
    edges: &Edges<'_>,
) -> BTreeMap<NodeId, (NextHop, Cost)> {
    let mut found: BTreeMap<NodeId, (NextHop, Cost)> = BTreeMap::new();
    let mut queue = BinaryHeap::new();
    for (neighbour, (cost, radio)) in best {
        queue.push(Reverse((*cost, 1_u8, *neighbour, *radio, *neighbour)));
    }
    while let Some(Reverse((cost, hops, via, radio, at))) = queue.pop() {
        if at == node || found.contains_key(&at) {
            continue;
        }
        found.insert(at, (NextHop { via, radio, hops }, cost));
        for (next, edge) in edges.get(&at).copied().unwrap_or_default() {
            if let Some(edge) = agreed(edges, at, *next, *edge)
                && !found.contains_key(next)
            {
                queue.push(Reverse((cost.plus(edge), hops.saturating_add(1), via, radio, *next)));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(lq: u8) -> Cost {
        Cost::of(lq, 255).expect("a link that delivers")
    }

    /// Node 1 has links to 2 and 3, and both to 4; the link from 2 to 4 is bad.
    fn edges(two: u8) -> Vec<(NodeId, Vec<(NodeId, Cost)>)> {
        let to =
            |edges: &[(u16, u8)]| edges.iter().map(|(n, lq)| (NodeId(*n), cost(*lq))).collect();
        vec![
            (NodeId(2), to(&[(1, 255), (4, two)])),
            (NodeId(3), to(&[(1, 200), (4, 200)])),
            (NodeId(4), to(&[(2, 255), (3, 200), (5, 255)])),
        ]
    }

    fn from_one(edges: &[(NodeId, Vec<(NodeId, Cost)>)]) -> BTreeMap<NodeId, (NextHop, Cost)> {
        let edges = edges.iter().map(|(node, all)| (*node, &all[..])).collect();
        let radio = RadioId(0);
        let best = [(NodeId(2), (cost(255), radio)), (NodeId(3), (cost(200), radio))].into();
        shortest(NodeId(1), &best, &edges)
    }

    #[test]
    fn the_path_with_fewer_transmissions_is_taken() {
        assert_eq!(from_one(&edges(250))[&NodeId(4)].0.via, NodeId(2));
        let found = from_one(&edges(80));
        assert_eq!((found[&NodeId(4)].0.via, found[&NodeId(4)].0.hops), (NodeId(3), 2));
    }

    #[test]
    fn a_link_that_only_one_end_knows_is_not_used() {
        assert!(!from_one(&edges(250)).contains_key(&NodeId(5)));
    }
}
