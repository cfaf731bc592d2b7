//! Places strangers: a radio on the medium for each, and links to those who hear it.

use farhop_proto::base::{Dbm, Duration, NodeId, PhyKind, RadioId};
use farhop_proto::stack::{AdversaryConfig, Plan, Scenario};

use super::{Setup, Stranger};
use crate::radio::{AirLink, ChipConfig, LossModel, MediumConfig};

/// Propagation delay to a radio that the stranger stands beside.
const BESIDE: Duration = Duration::from_nanos(10);
/// Signal if nothing says how strong it is, in dBm: the same as for links that do not say.
const SIGNAL_DBM: f64 = -60.0;

/// A stranger and its radio.
#[derive(Debug)]
pub struct Placed {
    /// Index of its radio on the medium.
    pub radio: usize,
    /// Its behaviour.
    pub setup: Setup,
}

/// Adds radios and links for the strangers of a scenario to the medium, in their order, after the
/// radios of the nodes. `scenario` is the expanded one that `plan` was made from. With `as_noise`,
/// nobody can decode what they send, as if every stranger had this setting.
///
/// Panics if the scenario has problems.
pub fn place(
    scenario: &Scenario,
    plan: &Plan,
    medium: &mut MediumConfig,
    as_noise: bool,
) -> Vec<Placed> {
    let nodes = medium.radios.len();
    let mut placed = Vec::with_capacity(scenario.adversary.len());
    for (number, config) in scenario.adversary.iter().enumerate() {
        let loss = match as_noise || config.as_noise {
            true => LossModel::Bernoulli { p: 1.0 },
            false => LossModel::None,
        };
        placed.push(place_one((number, config), nodes, plan, medium, &loss));
    }
    placed
}

fn place_one(
    (number, config): (usize, &AdversaryConfig),
    nodes: usize,
    plan: &Plan,
    medium: &mut MediumConfig,
    loss: &LossModel,
) -> Placed {
    let neighbours = match (&config.near, &config.position_m) {
        (Some(near), _) => beside(near, plan, nodes, medium),
        (None, Some(position)) => around(position.0, plan, nodes, medium),
        (None, None) => everybody(plan, nodes, medium),
    };
    let like = neighbours.like;
    let radio = medium.radios.len();
    let model = &medium.radios[like];
    medium.radios.push(ChipConfig {
        // A number that no node has.
        node: NodeId(u16::MAX - number as u16),
        radio: RadioId(0),
        carrier_sense: false,
        overhear: true,
        ..model.clone()
    });
    for Neighbour { radio: other, delay, heard, hears } in neighbours.list {
        let sent = config.signal_dbm.map_or(heard, Dbm::from_f64);
        let there = AirLink { from: radio, to: other, delay, signal: sent, loss: loss.clone() };
        let back = AirLink { from: other, to: radio, delay, signal: hears, loss: LossModel::None };
        medium.links.extend([there, back]);
    }
    let ChipConfig { phy, rate, .. } = medium.radios[radio];
    let setup = Setup {
        config: config.clone(),
        phy,
        rate,
        nodes: plan.nodes.iter().map(|node| node.node).collect(),
        addresses: plan.nodes[0].addresses,
        old_key: None,
    };
    Placed { radio, setup }
}

/// A radio that hears a stranger and is heard by it.
struct Neighbour {
    radio: usize,
    delay: Duration,
    /// Signal of the stranger at this radio.
    heard: Dbm,
    /// Signal of this radio at the stranger.
    hears: Dbm,
}

/// The radios around a stranger.
struct Neighbours {
    /// The radio whose PHY, channel and rate the stranger has.
    like: usize,
    list: Vec<Neighbour>,
}

/// Every radio of the same kind on the channel of the first one.
fn everybody(plan: &Plan, nodes: usize, medium: &MediumConfig) -> Neighbours {
    let is_radio = |radio: &usize| medium.radios[*radio].phy.kind != PhyKind::Wire;
    let like = (0..nodes).find(is_radio).unwrap_or_default();
    let signal = plan.hops.first().map_or(Dbm::from_f64(SIGNAL_DBM), |hop| hop.signal);
    let list = (0..nodes)
        .filter(|radio| is_radio(radio) && is_alike(medium, *radio, like))
        .map(|radio| Neighbour { radio, delay: BESIDE, heard: signal, hears: signal })
        .collect();
    Neighbours { like, list }
}

/// A node, those who hear it, and those whom it hears.
fn beside(near: &str, plan: &Plan, nodes: usize, medium: &MediumConfig) -> Neighbours {
    let node = plan.node(near).expect("the scenario has no problems").node;
    let is_its = |radio: &usize| {
        let config = &medium.radios[*radio];
        config.node == node && config.phy.kind != PhyKind::Wire
    };
    let like = (0..nodes).find(is_its).expect("a node with more than wires");
    let mut list: Vec<Neighbour> = Vec::new();
    for link in medium.links.iter().filter(|link| link.from == like) {
        let back = medium.links.iter().find(|other| (other.from, other.to) == (link.to, like));
        list.push(Neighbour {
            radio: link.to,
            delay: link.delay,
            heard: link.signal,
            hears: back.map_or(link.signal, |back| back.signal),
        });
    }
    let loudest = list.iter().map(|neighbour| neighbour.heard).max();
    let signal = loudest.unwrap_or(Dbm::from_f64(SIGNAL_DBM));
    list.push(Neighbour { radio: like, delay: BESIDE, heard: signal, hears: signal });
    list.retain(|neighbour| neighbour.radio < nodes && is_alike(medium, neighbour.radio, like));
    Neighbours { like, list }
}

/// Those who would hear a radio like that of the first node with a place, if it stood at `at_m`.
fn around(at_m: [f64; 3], plan: &Plan, nodes: usize, medium: &MediumConfig) -> Neighbours {
    let (Some(space), Some(first)) = (&plan.space, plan.sites.first()) else {
        return everybody(plan, nodes, medium);
    };
    let radio_of = |node: NodeId| {
        let is_common = |radio: &usize| {
            let config = &medium.radios[*radio];
            config.node == node && config.radio == RadioId(0)
        };
        (0..nodes).find(is_common).expect("every node has a radio")
    };
    let mut space = space.clone();
    let mut sites = space.sites().to_vec();
    let own = sites.len();
    let site = farhop_proto::stack::Site { at_m, ..sites[0] };
    sites.push(site);
    space.put(sites);
    let neighbour = |(index, node): (usize, &NodeId)| {
        let (heard, hears) = (space.heard(own, index)?, space.heard(index, own)?);
        let (delay, radio) = (heard.delay.max(BESIDE), radio_of(*node));
        Some(Neighbour { radio, delay, heard: heard.signal, hears: hears.signal })
    };
    let list = plan.sites.iter().enumerate().filter_map(neighbour).collect();
    Neighbours { like: radio_of(*first), list }
}

/// Whether two radios have the same channel and kind of PHY.
fn is_alike(medium: &MediumConfig, one: usize, other: usize) -> bool {
    let (one, other) = (&medium.radios[one], &medium.radios[other]);
    one.channel == other.channel && one.phy.kind == other.phy.kind
}

impl Placed {
    /// Builds the stranger itself.
    pub fn build(self, seed: farhop_proto::base::Seed) -> Stranger {
        Stranger::build(self.setup, seed)
    }
}
