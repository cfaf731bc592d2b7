//! Ways: the routes that blocks take. Blocks keep to theirs although routing has another one,
//! because a block that has partly passed to one neighbour begins anew with another, and routing's
//! measurements vary beside traffic. (The paper's relays take the newest source route that they
//! have seen, `hop.md` 4.)

use std::collections::BTreeMap;

use super::admit::Waiting;
use super::{Hop, NextHop};
use crate::base::{Duration, Instant, NodeId};
use crate::wire::hop::BlockId;

/// How long routing must not have had the route in use before blocks change to the one that routing
/// has then, unless the next hop is gone. A route that no block has taken for this long is not
/// kept.
const KEPT: Duration = Duration::from_secs(30);
/// The same if routing's route has fewer hops: nodes have moved, or have just started.
const KEPT_IF_LONGER: Duration = Duration::from_secs(5);

/// A route to a destination.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route {
    /// The next hop.
    pub(super) via: NodeId,
    /// Hops to the destination.
    pub(super) hops: u8,
}

/// The route that blocks to a destination take.
#[derive(Clone, Copy, Debug)]
struct Way {
    route: Route,
    /// When the last block took it.
    used: Option<Instant>,
    /// Routing's route if it is another one, and since when routing has not had the one in use.
    newer: Option<(Route, Instant)>,
}

/// Known routes, by destination.
#[derive(Debug, Default)]
pub(super) struct Ways(BTreeMap<NodeId, Way>);

impl Ways {
    /// The route that blocks to a destination take.
    pub(super) fn route(&self, to: NodeId) -> Option<Route> {
        self.0.get(&to).map(|way| way.route)
    }

    /// The next hop that routing has now, for messages, which lose nothing by a change of route.
    pub(super) fn newest(&self, to: NodeId) -> Option<NodeId> {
        let way = self.0.get(&to)?;
        Some(way.newer.map_or(way.route, |(route, _)| route).via)
    }

    /// Routing now has this route to a destination.
    fn on_route(&mut self, now: Instant, to: NodeId, route: Route) {
        let way = self.0.entry(to).or_insert(Way { route, used: None, newer: None });
        if way.route.via == route.via {
            (way.route, way.newer) = (route, None);
        } else {
            let since = way.newer.map_or(now, |(_, since)| since);
            way.newer = Some((route, since));
        }
    }

    /// Changes to routing's route if it is time to, or if the one in use is lost.
    pub(super) fn settle(&mut self, now: Instant, to: NodeId, is_lost: bool) {
        let Some(way) = self.0.get_mut(&to) else { return };
        if let Some((route, since)) = way.newer {
            let is_idle = way.used.is_none_or(|used| used + KEPT <= now);
            let kept = if route.hops < way.route.hops { KEPT_IF_LONGER } else { KEPT };
            if is_lost || is_idle || since + kept <= now {
                *way = Way { route, newer: None, ..*way };
            }
        }
    }

    /// Destinations to which blocks go over a neighbour.
    fn over(&self, via: NodeId) -> Vec<NodeId> {
        let over = self.0.iter().filter(|(_, way)| way.route.via == via);
        over.map(|(to, _)| *to).collect()
    }

    fn on_used(&mut self, now: Instant, to: NodeId) {
        if let Some(way) = self.0.get_mut(&to) {
            way.used = Some(now);
        }
    }
}

impl Hop {
    /// The next hop of blocks to a destination.
    pub(super) fn next_hop(&self, to: NodeId) -> Option<NodeId> {
        self.ways.route(to).map(|route| route.via)
    }

    /// Hops to a destination; 0 if no route was ever known.
    pub(super) fn hops_to(&self, to: NodeId) -> u8 {
        self.ways.route(to).map_or(0, |route| route.hops)
    }

    /// The next hop of a block that is sent now.
    pub(super) fn take_way(&mut self, now: Instant, to: NodeId) -> Option<NodeId> {
        self.settle_way(now, to);
        self.ways.on_used(now, to);
        self.next_hop(to)
    }

    /// Takes a route to a destination from routing.
    pub(super) fn learn_way(&mut self, now: Instant, to: NodeId, route: Route) {
        self.ways.on_route(now, to, route);
        self.settle_way(now, to);
    }

    /// A neighbour offers a block. If this neighbour would also be the next hop, or the block began
    /// here, routes form a loop: one of them is outdated.
    pub(super) fn on_block_from(&mut self, now: Instant, via: NodeId, id: &BlockId, to: NodeId) {
        if self.next_hop(to) == Some(via) || id.flow.source == self.node {
            self.ways.settle(now, to, true);
        }
    }

    /// A neighbour offers a block that is complete here. If the block has come back in a loop, its
    /// route is left. Returns whether it is to go on at once, so that the next node sees the loop
    /// too: once for each time that it came straight from its source.
    pub(super) fn comes_around(&mut self, now: Instant, asks: &Waiting) -> bool {
        let Waiting { block: id, shape, .. } = *asks;
        let Some(block) = self.blocks.get_mut(&id).filter(|block| block.was_sent()) else {
            return false;
        };
        // Over another route, without a loop, it has made about as many hops.
        let is_circle = shape.hops_made > block.hops.saturating_add(1);
        let is_first = block.hops == block.straight_hops;
        if shape.hops_made < block.hops {
            block.straight_hops = shape.hops_made;
        }
        block.hops = shape.hops_made;
        if is_circle {
            self.ways.settle(now, shape.destination, true);
        }
        is_circle && is_first
    }

    /// Whether a block is with, or on its way to, a next hop that is no longer on its route.
    pub(super) fn is_off_way(&self, via: Option<NodeId>, to: NodeId) -> bool {
        let way = self.next_hop(to).zip(via);
        self.config.next_hop == NextHop::Raw && way.is_some_and(|(way, via)| way != via)
    }

    /// A neighbour is gone, or does not get our requests: blocks change from routes over it to
    /// those that routing has, and those that wait for it are offered there.
    pub(super) fn on_lost(&mut self, now: Instant, node: NodeId) {
        for to in self.ways.over(node) {
            self.ways.settle(now, to, true);
        }
        let is_raw = self.config.next_hop == NextHop::Raw;
        self.ask_elsewhere(now, |_, via, is_gone| via == node && (is_raw || is_gone));
    }

    /// Changes to routing's route if it is time to, or if the next hop is gone.
    fn settle_way(&mut self, now: Instant, to: NodeId) {
        let is_lost = self.next_hop(to).is_some_and(|via| self.is_gone(via));
        self.ways.settle(now, to, is_lost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAR: NodeId = NodeId(9);

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn route(via: u16, hops: u8) -> Route {
        Route { via: NodeId(via), hops }
    }

    /// A route over node 1, of three hops, which a block has just taken.
    fn ways() -> Ways {
        let mut ways = Ways::default();
        ways.on_route(at(0), FAR, route(1, 3));
        ways.on_used(at(100), FAR);
        ways
    }

    fn via(ways: &mut Ways, seconds: u64, is_lost: bool) -> u16 {
        ways.on_used(at(seconds), FAR);
        ways.settle(at(seconds), FAR, is_lost);
        ways.route(FAR).expect("it is known").via.0
    }

    #[test]
    fn a_way_in_use_is_left_once_routing_has_had_another_for_long() {
        let mut ways = ways();
        ways.on_route(at(100), FAR, route(2, 3));
        assert_eq!([101, 129, 130].map(|now| via(&mut ways, now, false)), [1, 1, 2]);
    }

    #[test]
    fn one_that_comes_and_goes_is_not_taken() {
        let mut ways = ways();
        for now in (100..200).step_by(20) {
            ways.on_route(at(now), FAR, route(2, 3));
            assert_eq!(via(&mut ways, now + 9, false), 1);
            ways.on_route(at(now + 10), FAR, route(1, 3));
        }
        assert_eq!(via(&mut ways, 200, true), 1, "there is no other");
    }

    #[test]
    fn one_that_routing_has_had_no_more_for_long_is_left_though_the_others_take_turns() {
        let mut ways = ways();
        for now in (100..130).step_by(5) {
            ways.on_route(at(now), FAR, route(2 + now as u16 % 2, 3));
            assert_eq!(via(&mut ways, now + 4, false), 1);
        }
        assert_eq!(via(&mut ways, 130, false), 3);
    }

    #[test]
    fn a_shorter_one_is_taken_soon_and_any_at_once_if_its_next_hop_is_gone_or_no_block_takes_it() {
        let mut shorter = ways();
        shorter.on_route(at(100), FAR, route(2, 2));
        assert_eq!([104, 105].map(|now| via(&mut shorter, now, false)), [1, 2]);
        let mut lost = ways();
        lost.on_route(at(100), FAR, route(2, 4));
        assert_eq!([false, true].map(|is_lost| via(&mut lost, 101, is_lost)), [1, 2]);
        let mut idle = ways();
        idle.on_route(at(130), FAR, route(2, 4));
        idle.settle(at(130), FAR, false);
        assert_eq!(idle.route(FAR).map(|route| route.via), Some(NodeId(2)));
    }
}
