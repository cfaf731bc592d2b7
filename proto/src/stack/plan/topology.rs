//! Which radios a scenario has, and which of them hear each other.
//!
//! A node has a common radio, number 0, if it has a position, a link without a radio of its own, or
//! no link at all. Each link with a radio of its own adds one at either end, in the order of the
//! file.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::Hop;
use super::search::Search;
use crate::base::{Bitrate, Dbm, Duration, NodeId, RadioId};
use crate::stack::config::LinkConfig;
use crate::stack::scenario::{LossConfig, RadioConfig, RadioLinkConfig, RadioOverride, Scenario};
use crate::stack::space::{LIGHT_M_PER_S, Site, Space, Thresholds};

/// Upper bound of the expected transmissions of a link: a thousand, in thousandths.
const MOST_MILLI_ETX: u32 = 1_000_000;
/// Received power of links for which none is given, in dBm.
pub(in crate::stack) const LINK_SIGNAL_DBM: f64 = -60.0;
/// Settings of `[radio]` that do not apply to the radio of a link, because they belong to the
/// common air.
const OF_THE_AIR: [&str; 3] = ["receive_dbm", "sense_dbm", "floor_dbm"];

/// A radio of a node.
#[derive(Clone, Debug)]
pub(in crate::stack) struct RadioUse {
    pub(super) config: Arc<RadioConfig>,
    pub(super) thresholds: Thresholds,
    /// Delay of the longest hop over which it can be received; with moving nodes, of the longest
    /// that is ever possible.
    pub(super) longest: Duration,
}

/// A hop to a neighbour that hears this node and is heard by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) node: NodeId,
    pub(super) radio: RadioId,
    /// Expected transmissions of a frame until it is acknowledged (ETX), in thousandths.
    pub(super) milli_etx: u32,
}

impl Step {
    /// Whether next to nothing gets across and is acknowledged, by the losses in the settings.
    pub(super) fn is_dead(&self) -> bool {
        self.milli_etx >= MOST_MILLI_ETX
    }
}

/// The radios of a scenario and who hears whom.
#[derive(Clone, Debug)]
pub(in crate::stack) struct Topology {
    /// By node.
    pub(super) radios: Vec<Vec<RadioUse>>,
    pub(super) hops: Vec<Hop>,
    /// The link protocol, which determines which radios send in slots.
    link: LinkConfig,
    /// Highest bit-rates of links that have one, by transmitter and receiving node.
    rates: BTreeMap<((NodeId, RadioId), NodeId), Bitrate>,
    pub(super) space: Option<Space>,
    /// The nodes whose common radios are the sites of the space.
    pub(super) sites: Vec<NodeId>,
    steps: Vec<Step>,
    /// Where the steps of each node begin in `steps`.
    first_step: Vec<u32>,
}

/// The index of a node in lists of all nodes.
pub(super) fn index(node: NodeId) -> usize {
    usize::from(node.0) - 1
}

impl Topology {
    /// No more directed hops than this are kept, because each takes memory.
    pub(in crate::stack) const MOST_HOPS: usize = 6_000_000;

    /// The topology of a scenario without layouts; if it is crowded, without steps.
    pub(in crate::stack) fn build(scenario: &Scenario) -> Self {
        let names: BTreeMap<&str, NodeId> =
            (1..).zip(&scenario.node).map(|(id, node)| (&*node.name, NodeId(id))).collect();
        let ends = scenario.link.iter().map(|link| {
            link.between.each_ref().map(|name| *names.get(&**name).expect("names were checked"))
        });
        let ends: Vec<[NodeId; 2]> = ends.collect();
        let mut topology = Self {
            radios: vec![Vec::new(); scenario.node.len()],
            hops: Vec::new(),
            link: scenario.stack.link.clone(),
            rates: BTreeMap::new(),
            space: Space::build(scenario),
            sites: Vec::new(),
            steps: Vec::new(),
            first_step: Vec::new(),
        };
        topology.add_common_radios(scenario, &ends);
        topology.place(scenario);
        topology.add_links(scenario, &ends);
        topology.add_heard(&ends, scenario);
        if topology.is_crowded() {
            return topology;
        }
        topology.stretch(scenario);
        topology.line_up();
        topology
    }

    fn add_common_radios(&mut self, scenario: &Scenario, ends: &[[NodeId; 2]]) {
        let own = Arc::new(scenario.radio.clone());
        let thresholds = scenario.thresholds(&own);
        let mut has_common: Vec<bool> =
            scenario.node.iter().map(|node| node.place().is_some()).collect();
        let mut has_link = vec![false; scenario.node.len()];
        for (link, ends) in scenario.link.iter().zip(ends) {
            for end in ends {
                has_link[index(*end)] = true;
                has_common[index(*end)] |= link.radio.is_none();
            }
        }
        for (node, config) in scenario.node.iter().enumerate() {
            if !has_common[node] && has_link[node] {
                continue;
            }
            let (config, thresholds) = match &config.radio {
                None => (Arc::clone(&own), thresholds),
                Some(radio) => {
                    let config = Arc::new(radio.over(&own));
                    let thresholds = scenario.thresholds(&config);
                    (config, thresholds)
                }
            };
            self.radios[node].push(RadioUse { config, thresholds, longest: Duration::ZERO });
        }
    }

    /// Puts the common radios of all nodes with positions into the space.
    fn place(&mut self, scenario: &Scenario) {
        let Some(space) = &mut self.space else { return };
        let mut sites = Vec::new();
        for (node, config) in scenario.node.iter().enumerate() {
            if let Some(at_m) = config.place() {
                sites.push(Site::build(scenario, &self.radios[node][0].config, at_m));
                self.sites.push(NodeId(node as u16 + 1));
            }
        }
        space.put(sites);
    }

    fn add_links(&mut self, scenario: &Scenario, ends: &[[NodeId; 2]]) {
        for (link, ends) in scenario.link.iter().zip(ends) {
            let budget = scenario.budget_dbm(link, *ends);
            let radios = match &link.radio {
                None => [RadioId(0); 2],
                Some(radio) => {
                    let radio = self.link_radio(scenario, radio, budget.is_some());
                    ends.map(|end| {
                        let radios = &mut self.radios[index(end)];
                        radios.push(radio.clone());
                        RadioId((radios.len() - 1) as u8)
                    })
                }
            };
            let [a, b] = [0, 1].map(|end| (ends[end], radios[end]));
            let there = link.loss.clone().unwrap_or_else(|| self.default_loss(scenario, ends));
            let there = Arc::new(there);
            let back = link.loss_back.clone().map_or_else(|| Arc::clone(&there), Arc::new);
            let delay = scenario.propagation_of(link, *ends);
            for (from, to, loss) in [(a, b, there), (b, a, back)] {
                if let Some(mbps) = link.rate_mbps {
                    self.rates.insert((from, to.0), Bitrate::from_mbps(mbps));
                }
                let signal = self.link_signal(link, budget, from.0, to.0);
                self.add_hop(Hop { from, to, delay, signal, loss, usable: false });
            }
        }
    }

    fn link_radio(&self, scenario: &Scenario, radio: &RadioOverride, has_budget: bool) -> RadioUse {
        let mut config = radio.over(&scenario.radio);
        for (key, value) in OF_THE_AIR.into_iter().zip([
            &mut config.receive_dbm,
            &mut config.sense_dbm,
            &mut config.floor_dbm,
        ]) {
            if !radio.has(key) {
                *value = None;
            }
        }
        let least = |given: Option<f64>| given.unwrap_or(-120.0);
        let thresholds = match has_budget {
            true => scenario.thresholds(&config),
            false => Thresholds {
                receive: least(config.receive_dbm),
                data: least(config.receive_dbm),
                by_rate: false,
                sense: least(config.sense_dbm),
                floor: least(config.floor_dbm),
            },
        };
        RadioUse { config: Arc::new(config), thresholds, longest: Duration::ZERO }
    }

    /// The loss of a link that gives none: between nodes with positions, that of nodes without a
    /// link.
    fn default_loss(&self, scenario: &Scenario, ends: &[NodeId; 2]) -> LossConfig {
        let is_placed = ends.iter().all(|end| scenario.node[index(*end)].place().is_some());
        match &self.space {
            Some(_) if is_placed => scenario.propagation.loss.clone(),
            _ => LossConfig::default(),
        }
    }

    fn link_signal(
        &self,
        link: &RadioLinkConfig,
        budget: Option<f64>,
        from: NodeId,
        to: NodeId,
    ) -> Dbm {
        let site = |node| self.sites.binary_search(&node).ok();
        let by_place = || {
            let space = self.space.as_ref().filter(|_| link.radio.is_none())?;
            space.signal_dbm(site(from)?, site(to)?)
        };
        Dbm::from_f64(link.signal_dbm.or(budget).or_else(by_place).unwrap_or(LINK_SIGNAL_DBM))
    }

    /// Adds the hops between radios at positions that no link joins.
    fn add_heard(&mut self, ends: &[[NodeId; 2]], scenario: &Scenario) {
        let Some(space) = self.space.take() else { return };
        let is_common = |(link, _): &(&RadioLinkConfig, _)| link.radio.is_none();
        let linked: BTreeSet<[NodeId; 2]> = scenario
            .link
            .iter()
            .zip(ends)
            .filter(is_common)
            .flat_map(|(_, [a, b])| [[*a, *b], [*b, *a]])
            .collect();
        let mut candidates = Vec::new();
        for site in 0..self.sites.len() {
            let from = self.sites[site];
            let sites = std::mem::take(&mut self.sites);
            space.hearers(site, &mut candidates, &mut |heard| {
                let to = sites[heard.by];
                if !linked.contains(&[from, to]) {
                    let loss = space.loss(site, heard.by);
                    let [from, to] = [from, to].map(|node| (node, RadioId(0)));
                    let (delay, signal) = (heard.delay, heard.signal);
                    self.add_hop(Hop { from, to, delay, signal, loss, usable: false });
                }
            });
            self.sites = sites;
            if self.is_crowded() {
                break;
            }
        }
        self.hops.shrink_to_fit();
        self.space = Some(space);
    }

    /// Where nodes move, any two may come to be as far apart as they can decode each other.
    fn stretch(&mut self, scenario: &Scenario) {
        let Some(space) = self.space.as_ref().filter(|_| scenario.has_movers()) else { return };
        let receive = |node: &NodeId| self.radios[index(*node)][0].thresholds.data;
        let least = self.sites.iter().map(receive).fold(f64::MAX, f64::min);
        let farthest_m = space.decodable_m(least).min(scenario.span_m());
        let delay = Duration::from_secs_f64(farthest_m / LIGHT_M_PER_S);
        for node in &self.sites {
            let longest = &mut self.radios[index(*node)][0].longest;
            *longest = delay.max(*longest);
        }
    }

    fn add_hop(&mut self, hop: Hop) {
        let needed = self.needed_dbm(&hop);
        let usable = needed.is_some_and(|needed| hop.signal >= Dbm::from_f64(needed));
        if usable {
            for end in [hop.from, hop.to] {
                let longest = &mut self.radios[index(end.0)][usize::from(end.1.0)].longest;
                *longest = hop.delay.max(*longest);
            }
        }
        self.hops.push(Hop { usable, ..hop });
    }

    /// The signal that data over a hop needs, in dBm; `None` if its radios do not fit together.
    fn needed_dbm(&self, hop: &Hop) -> Option<f64> {
        let radio = |end: (NodeId, RadioId)| &self.radios[index(end.0)][usize::from(end.1.0)];
        let (source, sink) = (radio(hop.from), radio(hop.to));
        let (phy, theirs) = (source.config.phy(), sink.config.phy());
        let own = source.config.rate();
        let rate = match (&self.link, self.most_rate(hop)) {
            // A 2P radio sends to all neighbours at one rate.
            (LinkConfig::TwoP(_), _) => theirs.decodes(&phy, own).then_some(own),
            (_, Some(most)) => phy.rate_under(&theirs, own.min(most)),
            (_, None) => phy.rate_for(&theirs, own),
        };
        let rate = rate.filter(|_| source.config.channel == sink.config.channel)?;
        let Thresholds { receive, data, .. } = sink.thresholds;
        // A threshold that depends on the rate depends on the sender's rate.
        Some(match data > receive {
            true if self.link.chooses_rates(&source.config) => receive,
            true => phy.sensitivity_dbm(rate),
            false => data,
        })
    }

    /// The signal of the best hop from one node to another and the signal that it needs, both in
    /// dBm, if all are too weak; `None` if there is none, or another reason.
    pub(in crate::stack) fn weakness(&self, from: NodeId, to: NodeId) -> Option<(f64, f64)> {
        let between = self.hops.iter().filter(|hop| (hop.from.0, hop.to.0) == (from, to));
        let best = between.max_by_key(|hop| hop.signal)?;
        let (signal, needed) = (best.signal.as_f64(), self.needed_dbm(best)?);
        (signal < needed).then_some((signal, needed))
    }

    /// The highest rate of data over a hop, if its link has one.
    pub(super) fn most_rate(&self, hop: &Hop) -> Option<Bitrate> {
        self.rates.get(&(hop.from, hop.to.0)).copied()
    }

    /// The radios at the rates of links that have one, each with its node.
    pub(in crate::stack) fn slowed(&self) -> impl Iterator<Item = (NodeId, RadioConfig)> + '_ {
        // There may be very many hops.
        let hops = if self.rates.is_empty() { &[] } else { &self.hops[..] };
        hops.iter().filter(|hop| hop.usable).filter_map(|hop| {
            let (most, (node, radio)) = (self.most_rate(hop)?, hop.from);
            let config = &self.radios[index(node)][usize::from(radio.0)].config;
            let phy = config.phy();
            let theirs = &self.radios[index(hop.to.0)][usize::from(hop.to.1.0)].config;
            let rate = phy.rate_under(&theirs.phy(), config.rate().min(most))?;
            let (sent, rate) = phy.sent(rate);
            let slowed = RadioConfig {
                phy: sent.kind,
                width_mhz: sent.width.mhz(),
                streams: sent.streams,
                rate_mbps: Some(rate.mbps()),
                mcs: None,
                ..RadioConfig::clone(config)
            };
            Some((node, slowed))
        })
    }

    /// Whether a radio sends in slots.
    pub(super) fn has_slots(&self, radio: &RadioUse) -> bool {
        self.link.has_schedule_over(radio.config.phy)
    }

    /// Makes the steps of each node from the hops that are usable in both directions, because data
    /// needs its acknowledgement.
    fn line_up(&mut self) {
        let expected = self.milli_etx();
        let two_way = self.hops.iter().zip(expected);
        let two_way: Vec<(&Hop, u32)> =
            two_way.filter_map(|(hop, milli_etx)| Some((hop, milli_etx?))).collect();
        let mut first = vec![0_u32; self.radios.len() + 1];
        for (hop, _) in &two_way {
            first[index(hop.from.0) + 1] += 1;
        }
        for node in 0..self.radios.len() {
            first[node + 1] += first[node];
        }
        let mut next = first.clone();
        let none = Step { node: NodeId(0), radio: RadioId(0), milli_etx: 0 };
        let mut steps = vec![none; two_way.len()];
        for (hop, milli_etx) in two_way {
            let place = &mut next[index(hop.from.0)];
            steps[*place as usize] = Step { node: hop.to.0, radio: hop.from.1, milli_etx };
            *place += 1;
        }
        (self.steps, self.first_step) = (steps, first);
    }

    /// Expected transmissions over each hop that has a way back, in thousandths.
    fn milli_etx(&self) -> Vec<Option<u32>> {
        let end = |(node, radio): (NodeId, RadioId)| u64::from(node.0) << 8 | u64::from(radio.0);
        // Both directions have one key, so that sorting puts them side by side. Searching for each
        // way back among millions of hops would miss the cache at every step.
        let key = |hop: &Hop| {
            let (from, to) = (end(hop.from), end(hop.to));
            from.min(to) << 24 | from.max(to)
        };
        let usable = self.hops.iter().enumerate().filter(|(_, hop)| hop.usable);
        let mut keys: Vec<(u64, u32)> =
            usable.map(|(index, hop)| (key(hop), index as u32)).collect();
        keys.sort_unstable();
        let mut expected = vec![None; self.hops.len()];
        for [(there_key, there), (back_key, back)] in keys.array_windows() {
            if there_key == back_key {
                let both = [there, back].map(|index| *index as usize);
                let [there, back] = both.map(|index| self.mean_loss(&self.hops[index]));
                let milli_etx = milli_etx(there, back);
                for index in both {
                    expected[index] = Some(milli_etx);
                }
            }
        }
        expected
    }

    /// The long-run loss of the sender's frames over a hop, as far as the settings tell.
    fn mean_loss(&self, hop: &Hop) -> f64 {
        let config = |(node, radio): (NodeId, RadioId)| {
            &self.radios[index(node)][usize::from(radio.0)].config
        };
        let (source, theirs) = (config(hop.from), config(hop.to).phy());
        let (phy, own) = (source.phy(), source.rate());
        let rate = match self.most_rate(hop) {
            Some(most) => phy.rate_under(&theirs, own.min(most)),
            None => phy.rate_for(&theirs, own),
        };
        hop.loss.mean(rate.unwrap_or(own))
    }

    /// The steps to the neighbours of a node: its links in the order of the file, then whoever else
    /// hears it.
    pub(super) fn steps(&self, node: NodeId) -> &[Step] {
        let range = [index(node), index(node) + 1].map(|at| self.first_step[at] as usize);
        &self.steps[range[0]..range[1]]
    }

    /// The number of radios of a node.
    pub(in crate::stack) fn radios_of(&self, node: NodeId) -> usize {
        self.radios[index(node)].len()
    }

    /// The neighbours that a node reaches over a radio.
    pub(in crate::stack) fn reached(
        &self,
        node: NodeId,
        radio: RadioId,
    ) -> impl Iterator<Item = NodeId> {
        self.steps(node).iter().filter(move |step| step.radio == radio).map(|step| step.node)
    }

    /// Whether there are more hops than are kept.
    pub(in crate::stack) fn is_crowded(&self) -> bool {
        self.hops.len() > Self::MOST_HOPS
    }

    /// Whether one of two nodes hears the other.
    pub(in crate::stack) fn hear_each_other(&self, a: NodeId, b: NodeId) -> bool {
        self.hops.iter().any(|hop| [(a, b), (b, a)].contains(&(hop.from.0, hop.to.0)))
    }

    /// The number of nodes.
    pub(super) fn len(&self) -> usize {
        self.radios.len()
    }

    /// The nodes at most so many hops from a node, without itself, in rising order.
    pub(in crate::stack) fn within(&self, node: NodeId, hops: u8) -> Vec<NodeId> {
        let mut found: BTreeSet<NodeId> = [node].into();
        let mut edge: VecDeque<(NodeId, u8)> = [(node, 0)].into();
        while let Some((at, far)) = edge.pop_front() {
            if far == hops {
                break;
            }
            for step in self.steps(at) {
                if found.insert(step.node) {
                    edge.push_back((step.node, far + 1));
                }
            }
        }
        found.remove(&node);
        found.into_iter().collect()
    }

    /// Hops of the shortest path from one node to another, if there is one.
    pub(in crate::stack) fn hops(&self, routes: &mut Search, a: NodeId, b: NodeId) -> Option<u16> {
        routes.toward(self, b, &[a]);
        routes.hops(a)
    }
}

/// Expected transmissions of a frame until it is acknowledged, in thousandths, with these losses
/// there and back (ETX: De Couto and others 2003).
fn milli_etx(there: f64, back: f64) -> u32 {
    let arrives = (1.0 - there) * (1.0 - back);
    (1e3 / arrives).min(f64::from(MOST_MILLI_ETX)) as u32
}
