//! Turns a scenario into what each node needs: numbers, radios, neighbours, routes.

mod phases;
mod routes;
mod search;
mod topology;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::config::{LinkConfig, StackConfig};
use super::scenario::{DeviceConfig, FlowConfig, LossConfig, RadioConfig, Scenario};
use super::space::{Space, Thresholds};
use crate::base::{
    AddressPlan, Bitrate, Dbm, Duration, Networks, NodeId, PhyKind, RadioId, RadioSpec,
};
use crate::link::secure::SecurityConfig;
use crate::link::wild::Turn;
use crate::link::{PeerSpec, Way};
use crate::routing::NextHop;
use crate::transport::hop::{Below, HopConfig, Wire};

use phases::Stacks;
pub(super) use phases::channels_that_help;
use routes::all_routes;
pub(super) use search::Search;
use topology::RadioUse;
pub(super) use topology::{LINK_SIGNAL_DBM, Topology};

/// A network with everything that a scenario leaves implicit worked out.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Nodes in the order of the scenario.
    pub nodes: Vec<NodePlan>,
    /// Directed hops: first two for each link in the order of the scenario, there and back, then
    /// those between nodes at positions that hear each other.
    pub hops: Vec<Hop>,
    /// Positions of the nodes that have one, unless only links carry anything.
    pub space: Option<Space>,
    /// The nodes whose common radios are the sites of the space, in the order of the sites.
    pub sites: Vec<NodeId>,
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
    /// Networks behind nodes.
    pub networks: Arc<Networks>,
    /// Stack.
    pub stack: Arc<StackConfig>,
    /// How its frames are protected, if they are.
    pub security: Option<Arc<SecurityConfig>>,
    /// Settings of flows of blocks, if there are any in the network.
    pub hop: Option<Arc<HopConfig>>,
    /// Radios.
    pub radios: Vec<RadioPlan>,
    /// When each radio may send, where the link has slots.
    pub turns: Vec<Turn>,
    /// How frames go to and from neighbours under `wild`, for those where that differs from this
    /// node's own radio.
    pub ways: Vec<Way>,
    /// Neighbours that hear this node and are heard by it.
    pub peers: Vec<PeerSpec>,
    /// Routes.
    pub next_hops: BTreeMap<NodeId, NextHop>,
    /// Names of all nodes, in their order.
    names: Arc<[String]>,
}

/// One radio.
#[derive(Clone, Debug)]
pub struct RadioPlan {
    /// What links need to know of it.
    pub spec: RadioSpec,
    /// Its settings.
    pub config: Arc<RadioConfig>,
    /// Bit-rate of acknowledgements.
    pub ack_rate: Bitrate,
    /// Bit-rate of broadcast routing messages, unless the routing settings give one.
    pub control_rate: Bitrate,
    /// Slot time.
    pub slot: Duration,
    /// How long after a frame's end its acknowledgement may begin to arrive.
    pub ack_timeout: Duration,
    /// Whether its frames are on an air, where others hear them and defer to them. Frames on a wire
    /// are not, nor are those of a daemon's device that takes all at once.
    pub has_air: bool,
    /// Whether it defers to a busy medium.
    pub carrier_sense: bool,
    /// Which signals it decodes, senses and ignores.
    pub thresholds: Thresholds,
    /// Propagation delay of the longest hop over which it can be received.
    pub longest: Duration,
}

/// One direction between two radios that the receiver hears.
#[derive(Clone, Debug)]
pub struct Hop {
    /// Transmitter.
    pub from: (NodeId, RadioId),
    /// Receiver.
    pub to: (NodeId, RadioId),
    /// Propagation delay.
    pub delay: Duration,
    /// Received power.
    pub signal: Dbm,
    /// Losses on the way.
    pub loss: Arc<LossConfig>,
    /// Whether data can be decoded: the signal is strong enough, the channel is the same, and the
    /// receiver knows a rate of the sender.
    pub usable: bool,
}

/// Which destinations need routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Routes {
    /// All nodes.
    All,
    /// The ends of the scenario's flows, and the nodes on the paths between them.
    OfFlows,
}

impl Scenario {
    /// The number of a node, by its name.
    pub fn node_id(&self, name: &str) -> Option<NodeId> {
        let index = self.node.iter().position(|node| node.name == name)?;
        Some(NodeId(index as u16 + 1))
    }

    /// The name of a node.
    pub fn node_name(&self, node: NodeId) -> Option<&str> {
        let index = usize::from(node.0).checked_sub(1)?;
        self.node.get(index).map(|node| node.name.as_str())
    }

    /// The network worked out, with a route from every node to every node that it can reach: the
    /// fewest hops; among equals the fewest expected transmissions, by the losses of the links;
    /// then the order of the links in the scenario.
    ///
    /// Panics if the scenario has [`Scenario::problems`].
    pub fn plan(&self) -> Plan {
        self.plan_with(Routes::All)
    }

    /// The network worked out, with only those routes that the flows of the scenario need.
    ///
    /// Panics if the scenario has [`Scenario::problems`].
    pub fn plan_for_flows(&self) -> Plan {
        self.plan_with(Routes::OfFlows)
    }

    fn plan_with(&self, routes: Routes) -> Plan {
        let topology = self.topology().unwrap_or_else(|problems| {
            panic!("a scenario with problems cannot be planned: {problems:?}")
        });
        let scenario = self.expanded();
        let (turns, rows) = match scenario.stack.link {
            LinkConfig::Wild(_) => (topology.turns(), topology.rows()),
            _ => (Vec::new(), BTreeSet::new()),
        };
        let names: Arc<[String]> = scenario.node.iter().map(|node| node.name.clone()).collect();
        let networks = Arc::new(scenario.networks());
        let stacks = Stacks::build(&scenario, &topology, &turns, &rows);
        let has_blocks = scenario.flow.iter().any(FlowConfig::has_blocks);
        let has_blocks = has_blocks || scenario.stack.hop.is_some();
        let hop = has_blocks.then(|| Arc::new(scenario.stack.of_blocks()));
        let has_one_phy = has_one_phy(&topology);
        let security = scenario.security.clone().filter(SecurityConfig::is_on).map(Arc::new);
        let nodes = (1..=scenario.node.len()).map(|number| {
            let node = NodeId(number as u16);
            let radios = topology.radios[number - 1].iter().enumerate();
            let peer = |step: &topology::Step| PeerSpec { node: step.node, radio: step.radio };
            let devices: Vec<&DeviceConfig> = scenario.node[number - 1].all_devices().collect();
            // Drivers do not aggregate injected frames. And where several radios of a node share a
            // channel, an acknowledgement would be sent while another one listens.
            let is_card = |id: usize| matches!(devices.get(id), Some(DeviceConfig::Monitor { .. }));
            let aggregates = |id: usize, radio: &RadioUse| {
                scenario.stack.link.is_acknowledged_by_radios()
                    && !is_card(id)
                    && !rows.contains(&(node, radio.config.channel))
            };
            let radio_plan = |(id, radio): (usize, &RadioUse)| {
                let control_rate = control_rate(radio, has_one_phy, is_card(id));
                scenario.plan_radio(id, radio, aggregates(id, radio), control_rate)
            };
            NodePlan {
                node,
                name: names[number - 1].clone(),
                addresses: AddressPlan(scenario.subnet),
                networks: Arc::clone(&networks),
                stack: stacks.of_node(node),
                security: security.clone(),
                hop: hop.clone(),
                radios: radios.map(radio_plan).collect(),
                turns: turns.get(number - 1).cloned().unwrap_or_default(),
                ways: Vec::new(),
                peers: topology.steps(node).iter().map(peer).collect(),
                next_hops: BTreeMap::new(),
                names: Arc::clone(&names),
            }
        });
        let mut nodes: Vec<NodePlan> = nodes.collect();
        if matches!(scenario.stack.link, LinkConfig::Wild(_)) {
            add_ways(&topology, &mut nodes);
        }
        match routes {
            Routes::All => all_routes(&topology, &mut nodes),
            Routes::OfFlows => scenario.flow_routes(&topology, &mut nodes),
        }
        Plan { nodes, hops: topology.hops, space: topology.space, sites: topology.sites }
    }

    /// The networks behind nodes.
    fn networks(&self) -> Networks {
        let behind = self.node.iter().zip(1..).flat_map(|(node, number)| {
            node.networks.iter().map(move |prefix| (NodeId(number), *prefix))
        });
        Networks::build(AddressPlan(self.subnet), behind)
    }

    /// What sealing adds to each frame, in bytes.
    fn seal_bytes(&self) -> usize {
        self.security.as_ref().map_or(0, SecurityConfig::seal_bytes)
    }

    fn plan_radio(
        &self,
        id: usize,
        radio: &RadioUse,
        aggregates: bool,
        control_rate: Bitrate,
    ) -> RadioPlan {
        let config = Arc::clone(&radio.config);
        let (phy, rate) = (config.phy(), config.rate());
        let micros = |micros: f64| Duration::from_secs_f64(micros / 1e6);
        let has_schedule = self.stack.link.has_schedule_over(phy.kind);
        let slot = config.slot();
        // The round trip, SIFS, and a slot to notice the answer (radio.md 2.5 and 8).
        let for_distance = radio.longest * 2 + phy.sifs() + slot;
        RadioPlan {
            spec: RadioSpec {
                id: RadioId(id as u8),
                phy,
                rate,
                gap: config.gap,
                contention: config.contention(),
                channel: config.channel,
                seal_bytes: self.seal_bytes(),
                edca: config.edca,
                aggregate: match phy.ampdu_limits() {
                    Some(_) if aggregates => config.aggregate,
                    _ => 1,
                },
                way: radio.longest,
            },
            ack_rate: phy.ack_rate(config.ack_rate_mbps.map(Bitrate::from_mbps), rate),
            control_rate,
            slot,
            ack_timeout: config.ack_timeout_us.map_or(for_distance, micros),
            has_air: phy.kind != PhyKind::Wire,
            carrier_sense: config.carrier_sense.unwrap_or(!has_schedule),
            thresholds: radio.thresholds,
            longest: radio.longest,
            config,
        }
    }
}

/// Whether all radios on air have the same PHY.
fn has_one_phy(topology: &Topology) -> bool {
    let all = topology.radios.iter().flatten().map(|radio| radio.config.phy());
    let mut phys = all.filter(|phy| phy.kind != PhyKind::Wire);
    phys.next().is_none_or(|first| phys.all(|phy| phy == first))
}

/// Adds how frames go to and from neighbours with other radios, over links with rates, and over
/// hops shorter than the longest where each transmission waits for its acknowledgement.
fn add_ways(topology: &Topology, nodes: &mut [NodePlan]) {
    for hop in topology.hops.iter().filter(|hop| hop.usable) {
        let spec = |(node, radio): (NodeId, RadioId)| {
            nodes[usize::from(node.0) - 1].radios[usize::from(radio.0)].spec
        };
        let (theirs, own, most) = (spec(hop.from), spec(hop.to), topology.most_rate(hop));
        let is_alike = (RadioSpec { id: own.id, way: own.way, ..theirs }) == own;
        let has_way = !own.aggregates() || [own.way, theirs.way] == [hop.delay; 2];
        if most.is_none() && is_alike && has_way {
            continue;
        }
        let peer = PeerSpec { node: hop.from.0, radio: hop.to.1 };
        if let (Some(there), Some(back)) = (own.toward(&theirs, most), theirs.toward(&own, most)) {
            let [there, back] = [there, back].map(|spec| RadioSpec { way: hop.delay, ..spec });
            nodes[usize::from(hop.to.0.0) - 1].ways.push(Way { peer, there, back });
        }
    }
}

/// The bit-rate of broadcast messages: the lowest. Where that is heard farther than data, as with a
/// card, routes would use neighbours that data does not reach; so there it is the highest rate that
/// all know and that is heard as far as data.
fn control_rate(radio: &RadioUse, has_one_phy: bool, is_card: bool) -> Bitrate {
    let phy = radio.config.phy();
    let lowest = phy.basic_rates()[0];
    let is_heard_farther = is_card || radio.thresholds.data > radio.thresholds.receive;
    if !has_one_phy || !is_heard_farther {
        return lowest;
    }
    let least = |rate: &Bitrate| phy.sensitivity_dbm(*rate);
    let of_data = least(&radio.config.rate());
    let as_far = phy.legacy_rates().iter().copied().filter(|rate| least(rate) <= of_data);
    as_far.max_by(|a, b| least(a).total_cmp(&least(b))).unwrap_or(lowest)
}

impl Plan {
    /// The plan of a node by its name.
    pub fn node(&self, name: &str) -> Option<&NodePlan> {
        self.nodes.iter().find(|node| node.name == name)
    }
}

impl NodePlan {
    /// What the link protocol needs to know of the radios.
    pub fn radio_specs(&self) -> Vec<RadioSpec> {
        self.radios.iter().map(|radio| radio.spec).collect()
    }

    /// Whether a radio is a wire in a network whose other radios send in slots.
    pub(super) fn is_wire_beside_slots(&self, spec: &RadioSpec) -> bool {
        let link = &self.stack.link;
        link.has_schedule() && !link.has_schedule_over(spec.phy.kind)
    }

    /// The radios that send in slots.
    fn scheduled(&self) -> impl Iterator<Item = &RadioPlan> {
        let link = &self.stack.link;
        self.radios.iter().filter(|radio| link.has_schedule_over(radio.spec.phy.kind))
    }

    /// Whether any radio sends in slots.
    fn has_schedule(&self) -> bool {
        self.scheduled().next().is_some()
    }

    /// The bit-rate of messages of transports to neighbours: that of the radio's acknowledgements,
    /// without which nothing works anyway; the lowest of several radios. `None` where a radio or
    /// the link chooses.
    pub fn response_rate(&self) -> Option<Bitrate> {
        let sure = |radio: &RadioPlan| match radio.spec.phy.mixed {
            // 802.11b cannot decode the OFDM acknowledgements of OFDM.
            true => radio.spec.phy.control_rate(Bitrate::from_100kbps(110)),
            false => radio.ack_rate,
        };
        let lowest = self.radios.iter().map(sure).min_by_key(|rate| rate.bps())?;
        let is_known = |radio: &RadioPlan| radio.spec.phy.basic_rates().contains(&lowest);
        let is_ours = !self.has_schedule() && self.radios.iter().all(is_known);
        is_ours.then_some(lowest)
    }

    /// The bit-rate of broadcast messages of each radio: the one asked for or the usual one; `None`
    /// where the link chooses the time and the rate of all frames.
    pub fn control_rates(&self, asked: Option<Bitrate>) -> Vec<(RadioId, Option<Bitrate>)> {
        let rate = |radio: &RadioPlan| {
            let has_schedule = self.stack.link.has_schedule_over(radio.spec.phy.kind);
            (!has_schedule).then(|| asked.unwrap_or(radio.control_rate))
        };
        self.radios.iter().map(|radio| (radio.spec.id, rate(radio))).collect()
    }

    /// The air over which each neighbour is reached. If two neighbours have different airs, one can
    /// be heard while we send to the other. Radios on overlapping channels share an air; a
    /// neighbour over a radio without air has one of its own. Neighbours that several radios reach
    /// are left out.
    pub fn airs(&self) -> BTreeMap<NodeId, usize> {
        let (airs, beyond) = (self.airs_of_radios(), self.radios.len());
        let air = |(index, peer): (usize, &PeerSpec)| {
            (peer.node, airs.get(&peer.radio).copied().unwrap_or(beyond + index))
        };
        let ways = |node: NodeId| self.peers.iter().filter(|peer| peer.node == node).count();
        let peers = self.peers.iter().enumerate().filter(|(_, peer)| ways(peer.node) == 1);
        peers.map(air).collect()
    }

    /// The air of each radio that has one.
    fn airs_of_radios(&self) -> BTreeMap<RadioId, usize> {
        let count = self.radios.len();
        let spec = |radio: usize| &self.radios[radio].spec;
        let mut airs: Vec<usize> = (0..count).collect();
        for (a, b) in (0..count).flat_map(|b| (0..b).map(move |a| (a, b))) {
            if spec(a).overlaps(spec(b)) {
                let (from, to) = (airs[b], airs[a]);
                airs.iter_mut().filter(|air| **air == from).for_each(|air| *air = to);
            }
        }
        let radios = self.radios.iter().zip(airs).filter(|(radio, _)| radio.has_air);
        radios.map(|(radio, air)| (radio.spec.id, air)).collect()
    }

    /// The names of all nodes.
    pub fn names(&self) -> BTreeMap<NodeId, String> {
        (1..).map(NodeId).zip(self.names.iter().cloned()).collect()
    }

    /// The names of the neighbours.
    pub fn peer_names(&self) -> BTreeMap<NodeId, String> {
        let name = |node: NodeId| self.names[usize::from(node.0) - 1].clone();
        self.peers.iter().map(|peer| (peer.node, name(peer.node))).collect()
    }

    /// What blocks need to know of the link.
    pub fn below_blocks(&self) -> Below {
        let link = &self.stack.link;
        let frame = self.hop.as_ref().map_or(0, |hop| hop.datagram_bytes());
        // The end of a frame is known in the neighbour's slot. Until then our slot passes, with the
        // retransmissions for the one before.
        let carried = |radio: &RadioPlan, during: Duration| {
            during.div_duration(radio.spec.share(frame)) as u32
        };
        let in_a_cycle = |radio: &RadioPlan| {
            let slot = self.slot().filter(|_| link.has_schedule_over(radio.spec.phy.kind));
            slot.map(|(slot, _)| carried(radio, slot * 2))
        };
        // One transmission is on air and the next waits behind it. The queue keeps places for other
        // frames of the node.
        let in_aggregates = |radio: &RadioPlan| match (radio.spec.aggregate, link) {
            (0 | 1, _) => None,
            (frames, LinkConfig::Plain(plain)) => {
                Some((2 * u32::from(frames)).min(plain.queue_packets as u32 * 3 / 4))
            }
            (frames, _) => Some(2 * u32::from(frames)),
        };
        let by_radio = |frames: &dyn Fn(&RadioPlan) -> Option<u32>| {
            self.radios.iter().filter_map(|it| Some((it.spec.id, frames(it)?))).collect()
        };
        let frames = by_radio(&|radio| in_a_cycle(radio).or_else(|| in_aggregates(radio)));
        let in_cycle = by_radio(&|radio| Some(in_a_cycle(radio)?.max(1)));
        let on_wire = |radio: &RadioPlan| {
            let is_wire = radio.spec.phy.kind == PhyKind::Wire;
            let frame = is_wire.then(|| radio.spec.share(frame));
            let round_trip = if is_wire { radio.longest * 2 } else { Duration::ZERO };
            (!radio.has_air).then_some((radio.spec.id, Wire { frame, round_trip }))
        };
        let wires = self.radios.iter().filter_map(on_wire).collect();
        let has_aggregates = self.radios.iter().any(|radio| radio.spec.aggregate > 1);
        let has_schedule = self.has_schedule();
        let is_plain = link.has_schedule() && !has_schedule;
        let repairs = (link.repairs() && !is_plain) || has_aggregates;
        let cycle = self.slot().map(|(slot, _)| slot * 2);
        let airs = self.airs_of_radios();
        Below { repairs, has_schedule, frames, in_cycle, wires, airs, cycle }
    }

    /// Length of a slot and of its guard, if any radio has slots of `wild`.
    pub fn slot(&self) -> Option<(Duration, Duration)> {
        match &self.stack.link {
            LinkConfig::Wild(wild) if self.has_schedule() => Some((wild.slot(), wild.guard())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
