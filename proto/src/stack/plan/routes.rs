//! Fixed routes: those that flows need, or all.

use std::collections::BTreeMap;

use super::search::Search;
use super::topology::Topology;
use super::{NodePlan, Scenario};
use crate::base::NodeId;
use crate::routing::NextHop;
use crate::stack::scenario::{FlowConfig, FlowKind};
use crate::transport::hop::HopConfig;

impl Scenario {
    /// Adds the routes between the ends of each flow, in both directions.
    pub(super) fn flow_routes(&self, topology: &Topology, nodes: &mut [NodePlan]) {
        let names: BTreeMap<&str, NodeId> =
            (1..).zip(&self.node).map(|(id, node)| (&*node.name, NodeId(id))).collect();
        let mut wanted: BTreeMap<NodeId, Vec<NodeId>> = BTreeMap::new();
        for flow in &self.flow {
            let relays = flow.relay.iter().flat_map(|relay| &relay.at);
            let places = [&flow.from].into_iter().chain(relays).chain([&flow.to]);
            let places: Vec<NodeId> = places.map(|name| names[&**name]).collect();
            for [from, to] in places.array_windows().copied() {
                wanted.entry(to).or_default().push(from);
                wanted.entry(from).or_default().push(to);
            }
        }
        let mut search = Search::default();
        for (to, mut from) in wanted {
            from.sort_unstable();
            from.dedup();
            search.toward(topology, to, &from);
            for source in from {
                add_path(topology, &search, source, to, nodes);
            }
        }
        // Relays send packets of their own to each other.
        let hop = self.stack.hop.as_ref();
        let goes_by_address = hop.is_some_and(HopConfig::goes_by_address);
        let has_steps = |flow: &&FlowConfig| match flow.kind {
            FlowKind::Relayed => flow.relay.as_ref().is_none_or(|relay| relay.at.is_empty()),
            _ => flow.has_blocks() && goes_by_address,
        };
        for flow in self.flow.iter().filter(has_steps) {
            add_steps(topology, names[&*flow.from], names[&*flow.to], nodes);
        }
    }
}

/// Adds one-hop routes between neighbours along a route, in both directions.
fn add_steps(topology: &Topology, from: NodeId, to: NodeId, nodes: &mut [NodePlan]) {
    let mut at = from;
    while let Some(hop) = nodes[usize::from(at.0) - 1].next_hops.get(&to).copied() {
        for (node, peer) in [(at, hop.via), (hop.via, at)] {
            let steps = topology.steps(node).iter();
            let radio = steps.filter(|step| step.node == peer).map(|step| step.radio).next();
            let radio = radio.expect("neighbours hear each other");
            let one = NextHop { via: peer, radio, hops: 1 };
            nodes[usize::from(node.0) - 1].next_hops.entry(peer).or_insert(one);
        }
        at = hop.via;
    }
}

/// Adds routes from every node to every other.
pub(super) fn all_routes(topology: &Topology, nodes: &mut [NodePlan]) {
    let mut search = Search::default();
    for number in 1..=nodes.len() {
        let to = NodeId(number as u16);
        search.toward(topology, to, &[]);
        for source in 1..=nodes.len() {
            add_path(topology, &search, NodeId(source as u16), to, nodes);
        }
    }
}

/// Adds the routes along the path that was found from a node to a destination. Where the path
/// reaches a node with a route, the rest is there already.
fn add_path(
    topology: &Topology,
    search: &Search,
    from: NodeId,
    to: NodeId,
    nodes: &mut [NodePlan],
) {
    let mut at = from;
    while at != to {
        let Some(hops) = search.hops(at) else { return };
        let routes = &mut nodes[usize::from(at.0) - 1].next_hops;
        if routes.contains_key(&to) {
            return;
        }
        let step = search.step(topology, at).expect("whoever was reached has a way");
        let hops = u8::try_from(hops).unwrap_or(u8::MAX);
        routes.insert(to, NextHop { via: step.node, radio: step.radio, hops });
        at = step.node;
    }
}
