//! From a scenario to what each node needs: numbers, radios, neighbours, routes.

use std::collections::{BTreeMap, VecDeque};

use super::config::{LinkConfig, StackConfig};
use super::scenario::{RadioConfig, RadioLinkConfig, Scenario};
use crate::base::{AddressPlan, Bitrate, Duration, NodeId, RadioId, RadioSpec};
use crate::link::PeerSpec;
use crate::routing::fixed::NextHop;

/// Speed of light in air, in kilometres per second.
const LIGHT_KM_PER_S: f64 = 299_702.0;

/// A network made concrete.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Nodes in the order of the scenario.
    pub nodes: Vec<NodePlan>,
    /// Directed hops, two for each radio link, in the order of the scenario.
    pub hops: Vec<Hop>,
}

/// What one node needs to run.
#[derive(Clone, Debug)]
pub struct NodePlan {
    /// Number.
    pub node: NodeId,
    /// Name.
    pub name: String,
    /// Addresses.
    pub addresses: AddressPlan,
    /// Stack.
    pub stack: StackConfig,
    /// Radios.
    pub radios: Vec<RadioPlan>,
    /// Neighbours.
    pub peers: Vec<PeerSpec>,
    /// Their names.
    pub peer_names: BTreeMap<NodeId, String>,
    /// Routes.
    pub next_hops: BTreeMap<NodeId, NextHop>,
}

/// One radio.
#[derive(Clone, Debug)]
pub struct RadioPlan {
    /// What links must know of it.
    pub spec: RadioSpec,
    /// Its settings.
    pub config: RadioConfig,
    /// Bit-rate of acknowledgements.
    pub ack_rate: Bitrate,
    /// How long after a frame's end its acknowledgement may begin to arrive.
    pub ack_timeout: Duration,
    /// Whether it waits for a busy medium.
    pub carrier_sense: bool,
}

/// One direction of a radio link.
#[derive(Clone, Debug)]
pub struct Hop {
    /// Transmitter.
    pub from: (NodeId, RadioId),
    /// Receiver.
    pub to: (NodeId, RadioId),
    /// Propagation delay.
    pub delay: Duration,
    /// Index of the link in the scenario.
    pub link: usize,
    /// Whether this is the direction from the second end to the first.
    pub back: bool,
}

impl Scenario {
    /// The number of a node.
    pub fn node_id(&self, name: &str) -> Option<NodeId> {
        let index = self.node.iter().position(|node| node.name == name)?;
        Some(NodeId(index as u16 + 1))
    }

    /// The name of a node.
    pub fn node_name(&self, node: NodeId) -> Option<&str> {
        let index = usize::from(node.0).checked_sub(1)?;
        self.node.get(index).map(|node| node.name.as_str())
    }

    /// The network made concrete.
    ///
    /// Panics if the scenario has [`Scenario::problems`].
    pub fn plan(&self) -> Plan {
        let problems = self.problems();
        assert!(problems.is_empty(), "a scenario with problems cannot be planned: {problems:?}");
        let nodes = (1..=self.node.len()).map(|number| self.plan_node(NodeId(number as u16)));
        let hops =
            self.link.iter().enumerate().flat_map(|(index, link)| self.plan_hops(index, link));
        Plan { nodes: nodes.collect(), hops: hops.collect() }
    }

    fn plan_node(&self, node: NodeId) -> NodePlan {
        let peers = self.neighbours(node);
        let name = |node: NodeId| self.node_name(node).unwrap_or_default().to_owned();
        NodePlan {
            node,
            name: name(node),
            peer_names: peers.iter().map(|peer| (*peer, name(*peer))).collect(),
            addresses: AddressPlan(self.subnet),
            stack: self.stack.clone(),
            radios: vec![self.plan_radio(node)],
            peers: peers.into_iter().map(|node| PeerSpec { node, radio: RadioId(0) }).collect(),
            next_hops: self.next_hops(node),
        }
    }

    fn plan_radio(&self, node: NodeId) -> RadioPlan {
        let config = self.radio.clone();
        let (phy, rate) = (config.phy(), config.rate());
        let longest = self
            .link
            .iter()
            .filter(|link| link.between.iter().any(|name| self.node_id(name) == Some(node)))
            .map(RadioLinkConfig::propagation)
            .max()
            .unwrap_or_default();
        // The round trip, SIFS, and a slot for the answer to be noticed (radio.md 2.5 and 8).
        let for_distance = longest * 2 + phy.sifs() + phy.slot();
        let timeout = config.ack_timeout_us.map(|micros| Duration::from_secs_f64(micros / 1e6));
        RadioPlan {
            spec: RadioSpec { id: RadioId(0), phy, rate, gap: config.gap, channel: config.channel },
            ack_rate: config.ack_rate_mbps.map_or(phy.control_rate(rate), Bitrate::from_mbps),
            ack_timeout: timeout.unwrap_or(for_distance),
            carrier_sense: config
                .carrier_sense
                .unwrap_or(!matches!(self.stack.link, LinkConfig::Wild(_))),
            config,
        }
    }

    fn plan_hops(&self, index: usize, link: &RadioLinkConfig) -> [Hop; 2] {
        let [first, second] = link
            .between
            .each_ref()
            .map(|name| (self.node_id(name).expect("the scenario has no problems"), RadioId(0)));
        let hop = |from, to, back| Hop { from, to, delay: link.propagation(), link: index, back };
        [hop(first, second, false), hop(second, first, true)]
    }

    fn neighbours(&self, node: NodeId) -> Vec<NodeId> {
        let other = |link: &RadioLinkConfig| {
            let [a, b] = link.between.each_ref().map(|name| self.node_id(name));
            if a == Some(node) {
                b
            } else if b == Some(node) {
                a
            } else {
                None
            }
        };
        self.link.iter().filter_map(other).collect()
    }

    /// The next hop from `node` to every node it can reach, by fewest hops; among equals, by the
    /// order of the links in the scenario.
    pub fn next_hops(&self, node: NodeId) -> BTreeMap<NodeId, NextHop> {
        let mut found: BTreeMap<NodeId, NextHop> = BTreeMap::new();
        let mut edge: VecDeque<NodeId> = [node].into();
        while let Some(at) = edge.pop_front() {
            let so_far = found.get(&at).copied();
            for next in self.neighbours(at) {
                if next == node || found.contains_key(&next) {
                    continue;
                }
                let hop = so_far.map_or(NextHop { via: next, radio: RadioId(0), hops: 1 }, |hop| {
                    NextHop { hops: hop.hops.saturating_add(1), ..hop }
                });
                found.insert(next, hop);
                edge.push_back(next);
            }
        }
        found
    }
}

impl Plan {
    /// The plan of a node by its name.
    pub fn node(&self, name: &str) -> Option<&NodePlan> {
        self.nodes.iter().find(|node| node.name == name)
    }
}

impl NodePlan {
    /// What the link protocol must know of the radios.
    pub fn radio_specs(&self) -> Vec<RadioSpec> {
        self.radios.iter().map(|radio| radio.spec).collect()
    }

    /// Length of a slot and its guard, where the link has slots.
    pub fn slot(&self) -> Option<(Duration, Duration)> {
        match &self.stack.link {
            LinkConfig::Wild(wild) => Some((wild.slot(), wild.guard())),
            LinkConfig::Plain(_) => None,
        }
    }
}

impl RadioLinkConfig {
    /// Propagation delay.
    pub fn propagation(&self) -> Duration {
        Duration::from_secs_f64(self.distance_km / LIGHT_KM_PER_S)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::NodeConfig;

    fn chain(length: usize) -> Scenario {
        let name = |index: usize| format!("n{index}");
        Scenario {
            name: "chain".into(),
            duration_s: 1.0,
            node: (0..length)
                .map(|index| NodeConfig { name: name(index), ..NodeConfig::default() })
                .collect(),
            link: (1..length)
                .map(|index| RadioLinkConfig {
                    between: [name(index - 1), name(index)],
                    distance_km: 80.0,
                    signal_dbm: -60.0,
                    ..RadioLinkConfig::default()
                })
                .collect(),
            ..Scenario::default()
        }
    }

    #[test]
    fn routes_lead_along_the_chain() {
        let plan = chain(4).plan();
        let hop = plan.nodes[0].next_hops[&NodeId(4)];
        assert_eq!((hop.via, hop.hops), (NodeId(2), 3));
        assert_eq!(plan.nodes[2].next_hops[&NodeId(1)].via, NodeId(2));
        assert_eq!(plan.hops.len(), 6);
    }

    #[test]
    fn the_ack_timeout_covers_the_longest_link() {
        let plan = chain(2).plan();
        assert_eq!(plan.hops[0].delay.as_micros(), 266);
        assert_eq!(plan.nodes[0].radios[0].ack_timeout.as_micros(), 2 * 266 + 30 + 1);
    }
}
