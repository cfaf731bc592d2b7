//! Who sends while who listens: the two phases of nodes that share a channel in time slots.
//!
//! All radios of a node on one channel send in the same slot. So the nodes of a channel must split
//! into two halves with no link inside either half: the graph must be bipartite (`wildnet.md` 6). A
//! ring of an odd number of nodes is not; another channel for one of its links opens it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::topology::{RadioUse, Step, Topology};
use crate::base::{Duration, NodeId, PhyKind, RadioId};
use crate::link::wild::{Lengths, Turn};
use crate::stack::config::{LinkConfig, StackConfig};
use crate::stack::scenario::{NodeConfig, RadioConfig, Scenario};

/// Channels that do not overlap, by band: those that are proposed for a link.
const APART_24_GHZ: [u16; 3] = [1, 6, 11];
const APART_5_GHZ: [u16; 8] = [36, 40, 44, 48, 149, 153, 157, 161];
/// The same for wide channels, by their centres.
const APART_40_MHZ: [u16; 4] = [38, 46, 151, 159];
const APART_80_MHZ: [u16; 5] = [42, 155, 58, 106, 122];
/// The highest channel of 2.4 GHz.
const LAST_24_GHZ: u16 = 14;

/// A ring of an odd number of nodes on one channel, which cannot be split into two phases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::stack) struct OddRing {
    pub(in crate::stack) channel: u16,
    /// The ring, each node once.
    pub(in crate::stack) nodes: Vec<NodeId>,
}

/// A node on a channel: all its radios there send in the same slot.
pub(in crate::stack) type Place = (NodeId, u16);

/// The stack settings of a network's nodes, which differ only in the lengths of their slots.
pub(super) struct Stacks<'a> {
    topology: &'a Topology,
    turns: &'a [Vec<Turn>],
    rows: &'a BTreeSet<Place>,
    by_lengths: BTreeMap<Lengths, Arc<StackConfig>>,
}

impl<'a> Stacks<'a> {
    pub(super) fn build(
        scenario: &Scenario,
        topology: &'a Topology,
        turns: &'a [Vec<Turn>],
        rows: &'a BTreeSet<Place>,
    ) -> Self {
        let aired = topology.radios().filter(|(_, radio)| radio.phy != PhyKind::Wire);
        let slowed = topology.slowed().map(|(_, radio)| radio.packet_on_air());
        let on_air = aired.map(|(_, radio)| radio.packet_on_air()).chain(slowed).max();
        let on_air = on_air.unwrap_or_default();
        let way = match scenario.node.iter().any(NodeConfig::has_udp) {
            true => None,
            false => Some(topology.longest_way().map_or(Duration::ZERO, |(_, way)| way)),
        };
        let with = |lengths: Lengths| {
            let mut stack = scenario.stack.clone();
            if let LinkConfig::Wild(wild) = &mut stack.link {
                *wild = wild.with_lengths(lengths, on_air, way);
            }
            (lengths, Arc::new(stack))
        };
        let by_lengths = [Lengths::Equal, Lengths::Pair, Lengths::Star].map(with).into();
        Self { topology, turns, rows, by_lengths }
    }

    pub(super) fn of_node(&self, node: NodeId) -> Arc<StackConfig> {
        let number = usize::from(node.0) - 1;
        let turns = self.turns.get(number).into_iter().flatten();
        let radios = self.topology.radios[number].iter().zip(turns);
        let aired = radios.filter(|(radio, _)| radio.config.phy != PhyKind::Wire);
        let lengths = aired.map(|(radio, turn)| match turn {
            _ if self.rows.contains(&(node, radio.config.channel)) => Lengths::Equal,
            Turn::Part { .. } => Lengths::Equal,
            Turn::Whole => Lengths::Pair,
            Turn::Grants { .. } | Turn::Granted => Lengths::Star,
        });
        Arc::clone(&self.by_lengths[&lengths.max().unwrap_or(Lengths::Equal)])
    }
}

impl Topology {
    fn radio_of(&self, node: NodeId, step: &Step) -> &RadioUse {
        &self.radios[usize::from(node.0) - 1][usize::from(step.radio.0)]
    }

    /// The neighbours of a node over radios of one channel, without wires, which share nothing.
    fn neighbours(&self, (node, channel): Place) -> impl Iterator<Item = NodeId> {
        let is_there = move |step: &&Step| {
            let config = &self.radio_of(node, step).config;
            config.channel == channel && config.phy != PhyKind::Wire
        };
        self.steps(node).iter().filter(is_there).map(|step| step.node)
    }

    fn places(&self) -> Vec<Place> {
        let nodes = (1..=self.len()).map(|number| NodeId(number as u16));
        let all = nodes.flat_map(|node| {
            self.steps(node).iter().map(move |step| (node, self.radio_of(node, step)))
        });
        let aired = all.filter(|(_, radio)| radio.config.phy != PhyKind::Wire);
        let mut places: Vec<Place> =
            aired.map(|(node, radio)| (node, radio.config.channel)).collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    /// All radios, with their nodes.
    pub(in crate::stack) fn radios(&self) -> impl Iterator<Item = (NodeId, &RadioConfig)> {
        (1..)
            .map(NodeId)
            .zip(&self.radios)
            .flat_map(|(node, radios)| radios.iter().map(move |radio| (node, &*radio.config)))
    }

    /// Of the radios that send in slots, the one with the longest propagation delay to a neighbour,
    /// and that delay.
    pub(in crate::stack) fn longest_way(&self) -> Option<(NodeId, Duration)> {
        let of = |radios: &Vec<RadioUse>| {
            let scheduled = radios.iter().filter(|radio| self.has_slots(radio));
            scheduled.map(|radio| radio.longest).max()
        };
        let all = (1..).map(NodeId).zip(self.radios.iter().map(of));
        all.filter_map(|(node, way)| Some((node, way?))).max_by_key(|(_, way)| *way)
    }

    /// A node with a radio in slots that has several neighbours.
    pub(in crate::stack) fn shared_radio(&self) -> Option<NodeId> {
        (1..).map(NodeId).take(self.radios.len()).find(|node| {
            let mut seen = BTreeMap::new();
            let has_slots = |step: &&Step| self.has_slots(self.radio_of(*node, step));
            let mut steps = self.steps(*node).iter().filter(has_slots);
            steps.any(|step| *seen.entry(step.radio).or_insert(step.node) != step.node)
        })
    }

    /// Pairs of radios of one node whose channels overlap but are not the same.
    pub(in crate::stack) fn overlaps(&self) -> Vec<(NodeId, &RadioConfig, &RadioConfig)> {
        let mut found = Vec::new();
        for (node, radios) in (1..).map(NodeId).zip(&self.radios) {
            for (at, second) in radios.iter().map(|radio| &radio.config).enumerate() {
                let do_disturb = |first: &&RadioConfig| {
                    let (from, to) = (first.channel, second.channel);
                    from != to && second.phy().overlap(to, &first.phy(), from) > 0.0
                };
                let before = radios[..at].iter().map(|radio| &*radio.config);
                found.extend(before.filter(do_disturb).map(|first| (node, first, &**second)));
            }
        }
        found
    }

    /// For each channel that cannot be split, a ring of an odd number of nodes.
    pub(in crate::stack) fn odd_rings(&self) -> Vec<OddRing> {
        let mut rings: BTreeMap<u16, OddRing> = BTreeMap::new();
        // For each place, its distance from where the search began, and the node before it.
        let mut reached: BTreeMap<Place, (u32, NodeId)> = BTreeMap::new();
        for start in self.places() {
            if reached.contains_key(&start) || rings.contains_key(&start.1) {
                continue;
            }
            reached.insert(start, (0, start.0));
            let mut edge: VecDeque<NodeId> = [start.0].into();
            while let Some(node) = edge.pop_front() {
                let steps = reached[&(node, start.1)].0;
                for next in self.neighbours((node, start.1)) {
                    match reached.get(&(next, start.1)) {
                        None => {
                            reached.insert((next, start.1), (steps + 1, node));
                            edge.push_back(next);
                        }
                        Some((other, _)) if (other ^ steps) & 1 == 0 => {
                            let nodes = ring(&reached, start.1, node, next);
                            rings.entry(start.1).or_insert(OddRing { channel: start.1, nodes });
                        }
                        Some(_) => {}
                    }
                }
                if rings.contains_key(&start.1) {
                    break;
                }
            }
        }
        rings.into_values().collect()
    }
}

type Station = (NodeId, RadioId);

impl Topology {
    /// When each radio may send in the slot of its node, by node and radio: radios that one radio
    /// receives take turns.
    ///
    /// Slots may have lengths of their own between two nodes and in a star. Where a node has
    /// several radios on a channel, its neighbours there would have slots of different lengths, and
    /// it could follow only one of them. So all nodes joined with such a node have equal slots, of
    /// one part.
    pub(in crate::stack) fn turns(&self) -> Vec<Vec<Turn>> {
        let mut turns: Vec<Vec<Turn>> =
            self.radios.iter().map(|radios| vec![Turn::Whole; radios.len()]).collect();
        let heard = self.two_way_hops();
        let several = |station: &Station| heard[station].len() > 1;
        let mut set = |station: &Station, turn: Turn| {
            turns[usize::from(station.0.0) - 1][usize::from(station.1.0)] = turn;
        };
        let rows = self.rows();
        let place = |(node, radio): &Station| {
            let radios = &self.radios[usize::from(node.0) - 1];
            (*node, radios[usize::from(radio.0)].config.channel)
        };
        let mut known: BTreeMap<Station, u8> = BTreeMap::new();
        for (station, neighbours) in &heard {
            if several(station) && !neighbours.iter().any(several) {
                set(station, Turn::Grants { splits: !rows.contains(&place(station)) });
                neighbours.iter().for_each(|neighbour| set(neighbour, Turn::Granted));
                known.extend(neighbours.iter().map(|neighbour| (*neighbour, 0)));
            }
        }
        for start in heard.keys() {
            if known.contains_key(start) {
                continue;
            }
            let group = number_apart(&heard, *start, &mut known);
            let count = group.iter().map(|station| known[station] + 1).max().unwrap_or(1);
            for station in group.iter().filter(|_| count > 1) {
                set(station, Turn::Part { index: known[station], count });
            }
        }
        for (number, turns) in turns.iter_mut().enumerate() {
            for (turn, radio) in turns.iter_mut().zip(&self.radios[number]) {
                let place = (NodeId(number as u16 + 1), radio.config.channel);
                let is_aired = radio.config.phy != PhyKind::Wire;
                if *turn == Turn::Whole && is_aired && rows.contains(&place) {
                    *turn = Turn::Part { index: 0, count: 1 };
                }
            }
        }
        turns
    }

    /// The places that are joined, over radios of one channel, with a node that has several radios
    /// there.
    pub(in crate::stack) fn rows(&self) -> BTreeSet<Place> {
        let has_several = |place: &Place| {
            let on_it = self.steps(place.0).iter().filter(|step| {
                let config = &self.radio_of(place.0, step).config;
                config.channel == place.1 && config.phy != PhyKind::Wire
            });
            on_it.map(|step| step.radio).collect::<BTreeSet<RadioId>>().len() > 1
        };
        let mut edge: VecDeque<Place> = self.places().into_iter().filter(has_several).collect();
        let mut rows: BTreeSet<Place> = edge.iter().copied().collect();
        while let Some(place) = edge.pop_front() {
            let joined = self.neighbours(place).map(|node| (node, place.1));
            edge.extend(joined.filter(|next| rows.insert(*next)));
        }
        rows
    }

    /// Whether slots may have lengths of their own anywhere.
    pub(in crate::stack) fn has_lengths(&self) -> bool {
        let turns = self.turns();
        self.two_way_hops().keys().any(|(node, radio)| {
            let turn = turns[usize::from(node.0) - 1][usize::from(radio.0)];
            matches!(turn, Turn::Whole | Turn::Grants { splits: true })
        })
    }

    /// The radios that have a part of a slot, each with the number of parts.
    pub(in crate::stack) fn parts(&self) -> Vec<(u8, &RadioConfig)> {
        let turns = self.turns();
        let all = turns.iter().flatten().zip(self.radios.iter().flatten());
        all.filter_map(|(turn, radio)| match turn {
            Turn::Part { count, .. } => Some((*count, &*radio.config)),
            Turn::Whole | Turn::Grants { .. } | Turn::Granted => None,
        })
        .collect()
    }

    /// For each radio in slots, the radios that it hears and that hear it.
    fn two_way_hops(&self) -> BTreeMap<Station, Vec<Station>> {
        let has_slots = |(node, radio): Station| {
            self.has_slots(&self.radios[usize::from(node.0) - 1][usize::from(radio.0)])
        };
        let usable = self.hops.iter().filter(|hop| hop.usable && has_slots(hop.from));
        let hops: BTreeSet<(Station, Station)> = usable.map(|hop| (hop.from, hop.to)).collect();
        let mut heard: BTreeMap<Station, Vec<Station>> = BTreeMap::new();
        for (from, to) in hops.iter().filter(|(from, to)| hops.contains(&(*to, *from))) {
            heard.entry(*from).or_default().push(*to);
        }
        heard
    }
}

/// Numbers the radios that are joined to `start` by common receivers, so that no two with a common
/// receiver have the same number. Returns these radios.
fn number_apart(
    heard: &BTreeMap<Station, Vec<Station>>,
    start: Station,
    known: &mut BTreeMap<Station, u8>,
) -> Vec<Station> {
    let rivals = |station: Station| {
        let others = heard[&station].iter().flat_map(|receiver| &heard[receiver]);
        others.copied().filter(move |other| *other != station)
    };
    let mut seen: BTreeSet<Station> = [start].into();
    let mut edge: VecDeque<Station> = [start].into();
    while let Some(station) = edge.pop_front() {
        edge.extend(rivals(station).filter(|other| seen.insert(*other)));
    }
    let group: Vec<Station> = seen.into_iter().collect();
    for station in &group {
        let taken: BTreeSet<u8> =
            rivals(*station).filter_map(|other| known.get(&other).copied()).collect();
        let free = (0..u8::MAX).find(|number| !taken.contains(number)).unwrap_or(u8::MAX - 1);
        known.insert(*station, free);
    }
    group
}

/// The ring that is closed by an edge between `a` and `b`, with the paths that led to them.
fn ring(
    reached: &BTreeMap<Place, (u32, NodeId)>,
    channel: u16,
    a: NodeId,
    b: NodeId,
) -> Vec<NodeId> {
    let (mut left, mut right) = (vec![a], vec![b]);
    let before = |node: NodeId| reached[&(node, channel)].1;
    // Both are equally far from the start, so their paths meet after equally many steps.
    while left.last() != right.last() {
        for way in [&mut left, &mut right] {
            way.push(before(*way.last().expect("a way has a node")));
        }
    }
    right.pop();
    right.reverse();
    left.extend(right);
    left
}

/// Proposes links of a channel to move to other channels, so that no channel has a ring of an odd
/// number, as far as is known here. Of several proposals the one with the fewest changes comes
/// first.
///
/// `links` are the links of the network in the order of the file, with their channels, which are
/// `width_mhz` wide.
pub(in crate::stack) fn channels_that_help(
    links: &[([NodeId; 2], u16)],
    channel: u16,
    width_mhz: u16,
) -> Vec<Vec<(usize, u16)>> {
    let choice = match (channel <= LAST_24_GHZ, width_mhz) {
        (true, 0..=22) => &APART_24_GHZ[..],
        (true, _) => &[],
        (false, 0..=20) => &APART_5_GHZ,
        (false, 21..=40) => &APART_40_MHZ,
        (false, _) => &APART_80_MHZ,
    };
    let is_apart = |other: &&u16| other.abs_diff(channel) * 5 >= width_mhz;
    let others: Vec<u16> = choice.iter().filter(is_apart).copied().collect();
    [closing_links(links, channel, &others), links_by_bits(links, channel, &others)]
        .into_iter()
        .flatten()
        .collect()
}

/// Moves each link that closes an odd ring to the first channel on which it does not; `None` if
/// some link finds no such channel.
fn closing_links(
    links: &[([NodeId; 2], u16)],
    channel: u16,
    others: &[u16],
) -> Option<Vec<(usize, u16)>> {
    let mut halves = Halves::default();
    let mut closing = Vec::new();
    for (index, (ends, on)) in links.iter().enumerate() {
        if !halves.join(*on, *ends) && *on == channel {
            closing.push(index);
        }
    }
    let mut change = |index: usize| {
        let fits = others.iter().find(|other| halves.join(**other, links[index].0));
        fits.map(|other| (index, *other))
    };
    closing.into_iter().map(&mut change).collect()
}

/// Moves each link of the channel by the lowest bit in which the numbers of its ends differ: on
/// each channel that bit separates the halves. So four channels suffice for sixteen nodes, however
/// they are joined.
fn links_by_bits(
    links: &[([NodeId; 2], u16)],
    channel: u16,
    others: &[u16],
) -> Option<Vec<(usize, u16)>> {
    let of_channel = links.iter().enumerate().filter(|(_, (_, on))| *on == channel);
    let nodes: BTreeSet<NodeId> = of_channel.clone().flat_map(|(_, (ends, _))| *ends).collect();
    let numbers: BTreeMap<NodeId, usize> = nodes.into_iter().zip(0..).collect();
    let bit = |[a, b]: &[NodeId; 2]| (numbers[a] ^ numbers[b]).trailing_zeros() as usize;
    let changed = of_channel.filter(|(_, (ends, _))| bit(ends) > 0);
    changed.map(|(index, (ends, _))| Some((index, *others.get(bit(ends) - 1)?))).collect()
}

/// Which nodes of a channel are joined, and whether they are in the same half (a union-find with
/// parity).
#[derive(Default)]
struct Halves(BTreeMap<Place, (NodeId, bool)>);

impl Halves {
    /// The root of all nodes that are joined with a node, and whether the node is in the other half
    /// than the root.
    fn root(&self, channel: u16, mut node: NodeId) -> (NodeId, bool) {
        let mut is_other = false;
        while let Some((above, flips)) = self.0.get(&(node, channel)) {
            is_other ^= flips;
            node = *above;
        }
        (node, is_other)
    }

    /// Joins two nodes that must be in different halves. Returns whether that is possible.
    fn join(&mut self, channel: u16, ends: [NodeId; 2]) -> bool {
        let [(a, left), (b, right)] = ends.map(|end| self.root(channel, end));
        if a == b {
            return left != right;
        }
        self.0.insert((a, channel), (b, left == right));
        true
    }
}
