//! The closed set of protocols for each role: an enum that gives access to the role as a trait
//! object.

use crate::base::{Bitrate, RadioSpec, Seed};
use crate::link::blindfec::BlindFec;
use crate::link::harq::Harq;
use crate::link::plain::Plain;
use crate::link::snoop::Snoop;
use crate::link::two_p::TwoP;
use crate::link::wild::Wild;
use crate::link::wired::Wired;
use crate::link::{Link, PeerSpec};
use crate::routing::Routing;
use crate::routing::fixed::Fixed;
use crate::routing::olsr::Olsr;
use crate::transport::Transport;
use crate::transport::hop::HopPort;
use crate::transport::tcp::Tcp;
use crate::transport::udp::Udp;

use super::config::{LinkConfig, RoutingConfig};
use super::plan::NodePlan;

/// Any link protocol.
#[derive(Debug)]
pub enum AnyLink {
    /// `link/plain`.
    Plain(Box<Plain>),
    /// `link/wild`.
    Wild(Box<Wild>),
    /// `link/two_p`.
    TwoP(Box<TwoP>),
    /// `link/blindfec`.
    BlindFec(Box<BlindFec>),
    /// `link/harq`.
    Harq(Box<Harq>),
    /// A scheduled link on the radios of a node and `link/plain` on its wires.
    Wired(Box<Wired>),
    /// One of the others, wrapped in `link/snoop`.
    Snoop(Box<Snoop>),
}

impl AnyLink {
    /// The link of a node.
    pub fn build(plan: &NodePlan, seed: Seed) -> Self {
        let link = Self::by_radios(plan, seed);
        match &plan.stack.snoop {
            Some(config) => {
                let depth = plan.stack.link.snoop_depth();
                Self::Snoop(Box::new(Snoop::build(config, depth, link.into_link())))
            }
            None => link,
        }
    }

    fn into_link(self) -> Box<dyn Link + Send> {
        match self {
            Self::Plain(link) => link,
            Self::Wild(link) => link,
            Self::TwoP(link) => link,
            Self::BlindFec(link) => link,
            Self::Harq(link) => link,
            Self::Wired(link) => link,
            Self::Snoop(link) => link,
        }
    }

    /// The link of the radios, combined with that of the wires if the node has both.
    fn by_radios(plan: &NodePlan, seed: Seed) -> Self {
        let (wires, radios): (Vec<RadioSpec>, Vec<RadioSpec>) =
            plan.radio_specs().into_iter().partition(|spec| plan.is_wire_beside_slots(spec));
        if wires.is_empty() {
            return Self::bare(plan, &radios, seed);
        }
        let plain = Plain::build(&plan.stack.of_wires(&wires), plan.node, &wires, seed);
        if radios.is_empty() {
            return Self::Plain(Box::new(plain));
        }
        let on_wires = wires.iter().map(|spec| spec.id).collect();
        let link = Self::bare(plan, &radios, seed).into_link();
        Self::Wired(Box::new(Wired::build(link, plain, on_wires)))
    }

    /// The configured link over these radios.
    fn bare(plan: &NodePlan, radios: &[RadioSpec], seed: Seed) -> Self {
        let is_there = |peer: &&PeerSpec| radios.iter().any(|spec| spec.id == peer.radio);
        let peers: Vec<PeerSpec> = plan.peers.iter().filter(is_there).copied().collect();
        match &plan.stack.link {
            LinkConfig::Plain(config) => {
                Self::Plain(Box::new(Plain::build(config, plan.node, radios, seed)))
            }
            LinkConfig::Wild(config) => {
                let mut wild = Wild::build(config, plan.node, radios, &peers, seed);
                wild.set_turns(&plan.turns);
                wild.set_ways(config, &plan.ways);
                Self::Wild(Box::new(wild))
            }
            LinkConfig::BlindFec(config) => {
                Self::BlindFec(Box::new(BlindFec::build(config, plan.node, radios, seed)))
            }
            LinkConfig::Harq(config) => {
                Self::Harq(Box::new(Harq::build(config, plan.node, radios, seed)))
            }
            LinkConfig::Arq(config) => {
                Self::Harq(Box::new(Harq::build_arq(config, plan.node, radios, seed)))
            }
            LinkConfig::TwoP(config) => {
                let two_p = TwoP::build(config, plan.node, radios, &peers, seed);
                Self::TwoP(Box::new(two_p))
            }
        }
    }

    /// See [`super::Stack::fetch`].
    pub(super) fn fetch(&self) -> u64 {
        match self {
            Self::Plain(link) => link.fetch(),
            Self::Wild(_) | Self::TwoP(_) | Self::BlindFec(_) | Self::Harq(_) => 0,
            Self::Wired(_) | Self::Snoop(_) => 0,
        }
    }

    /// The link, as its role.
    pub fn get(&self) -> &dyn Link {
        match self {
            Self::Plain(link) => &**link,
            Self::Wild(link) => &**link,
            Self::TwoP(link) => &**link,
            Self::BlindFec(link) => &**link,
            Self::Harq(link) => &**link,
            Self::Wired(link) => &**link,
            Self::Snoop(link) => &**link,
        }
    }

    /// The link, to drive it.
    pub fn get_mut(&mut self) -> &mut dyn Link {
        match self {
            Self::Plain(link) => &mut **link,
            Self::Wild(link) => &mut **link,
            Self::TwoP(link) => &mut **link,
            Self::BlindFec(link) => &mut **link,
            Self::Harq(link) => &mut **link,
            Self::Wired(link) => &mut **link,
            Self::Snoop(link) => &mut **link,
        }
    }
}

/// Any routing protocol.
#[derive(Debug)]
pub enum AnyRouting {
    /// `routing/fixed`.
    Fixed(Fixed),
    /// `routing/olsr`.
    Olsr(Box<Olsr>),
}

impl AnyRouting {
    /// The routing of a node.
    pub fn build(plan: &NodePlan, seed: Seed) -> Self {
        match &plan.stack.routing {
            RoutingConfig::Fixed {} => {
                let next_hops = plan.next_hops.clone();
                let mut fixed = Fixed::build(plan.node, plan.addresses, next_hops);
                if plan.hop.is_some() {
                    fixed.announce();
                }
                Self::Fixed(fixed)
            }
            RoutingConfig::Olsr(config) => {
                let radios = plan.control_rates(config.rate_mbps.map(Bitrate::from_mbps));
                let olsr = Olsr::build(config, plan.node, plan.addresses, &radios, seed);
                Self::Olsr(Box::new(olsr))
            }
        }
    }

    /// See [`super::Stack::fetch`].
    pub(super) fn fetch(&self) -> u64 {
        match self {
            Self::Fixed(routing) => routing.fetch(),
            Self::Olsr(_) => 0,
        }
    }

    /// The routing, as its role.
    pub fn get(&self) -> &dyn Routing {
        match self {
            Self::Fixed(routing) => routing,
            Self::Olsr(routing) => &**routing,
        }
    }

    /// The routing, to drive it.
    pub fn get_mut(&mut self) -> &mut dyn Routing {
        match self {
            Self::Fixed(routing) => routing,
            Self::Olsr(routing) => &mut **routing,
        }
    }
}

/// Any transport: one end of a flow.
#[derive(Debug)]
pub enum AnyTransport {
    /// `transport/tcp`.
    Tcp(Box<Tcp>),
    /// `transport/udp`.
    Udp(Box<Udp>),
    /// An end of a flow of blocks; its state machine is shared by the whole node.
    Hop(Box<HopPort>),
}

impl AnyTransport {
    /// See [`super::Stack::fetch`].
    pub(super) fn fetch(&self) -> u64 {
        match self {
            Self::Tcp(_) => 0,
            Self::Udp(transport) => transport.fetch(),
            // Its state is in the node's machine.
            Self::Hop(_) => 0,
        }
    }

    /// The transport, as its role.
    pub fn get(&self) -> &dyn Transport {
        match self {
            Self::Tcp(transport) => &**transport,
            Self::Udp(transport) => &**transport,
            Self::Hop(port) => &**port,
        }
    }

    /// The transport, to drive it.
    pub fn get_mut(&mut self) -> &mut dyn Transport {
        match self {
            Self::Tcp(transport) => &mut **transport,
            Self::Udp(transport) => &mut **transport,
            Self::Hop(port) => &mut **port,
        }
    }

    /// Whether it waits for room below. A host's TCP does not: what its interface has no room for
    /// is lost.
    pub(super) const fn is_backpressured(&self) -> bool {
        match self {
            Self::Tcp(_) => false,
            Self::Udp(_) | Self::Hop(_) => true,
        }
    }
}
