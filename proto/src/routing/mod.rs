//! Routing protocols, which carry datagrams over the packets of links.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::base::{
    Cx, Datagrams, DropCause, Identity, Instant, Layer, Name, Networks, NodeId, Packets, Prefix,
    PublicKey, RadioId,
};

pub mod fixed;
mod forward;
pub mod olsr;

pub use forward::NextHop;

/// A routing protocol.
pub trait Routing: Layer<Above = Datagrams, Below = Packets> {
    /// Routes packets to these networks too. To be called before anything else.
    fn set_networks(&mut self, networks: Arc<Networks>);

    /// Signs flooded messages from now on, and accepts only those signed by their originator. To be
    /// called before anything else.
    fn set_signing(&mut self, signing: Signing);

    /// Accepts messages of the holders of these keys, and of no others, from now on.
    fn set_keys(&mut self, cx: &mut Cx<'_>, keys: &BTreeMap<NodeId, PublicKey>);

    /// Its knowledge and counters, for `status` and reports.
    fn status(&self, now: Instant) -> RoutingStatus;
}

/// Keys with which flooded messages are signed and checked.
#[derive(Debug)]
pub struct Signing {
    /// The node's own keys.
    pub identity: Identity,
    /// The keys of all nodes that are trusted.
    pub keys: Arc<BTreeMap<NodeId, PublicKey>>,
}

/// Knowledge and counters of a routing protocol.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RoutingStatus {
    /// Name of the protocol.
    pub kind: Name,
    /// Routes in use.
    pub routes: Vec<RouteStatus>,
    /// Networks behind nodes, the longest prefixes first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<NetworkStatus>,
    /// Nodes to which there was a route, and is none now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_known: Vec<NodeId>,
    /// Neighbours that are heard, if the protocol listens to them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub neighbours: Vec<NeighbourStatus>,
    /// Datagrams forwarded for others.
    pub forwarded: u64,
    /// Datagrams dropped, by cause.
    pub drops: BTreeMap<DropCause, u64>,
    /// The last destination address of a packet from a neighbour that belongs to no node of this
    /// network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign: Option<IpAddr>,
    /// Other counters of the protocol.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<Name, u64>,
}

/// A route to one destination.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RouteStatus {
    /// Destination.
    pub to: NodeId,
    /// Next hop.
    pub via: NodeId,
    /// Hops to the destination.
    pub hops: u8,
    /// Expected transmissions of a packet along the route (ETX), if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etx: Option<f64>,
}

/// A network behind nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkStatus {
    /// Its addresses.
    pub network: Prefix,
    /// The node to which packets for it go; `None` without a route to any node before it.
    pub before: Option<NodeId>,
}

/// A neighbour as a routing protocol hears it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NeighbourStatus {
    /// The neighbour.
    pub node: NodeId,
    /// The radio.
    pub radio: RadioId,
    /// Share of its messages that arrive here, 0 to 1 (LQ).
    pub lq: f64,
    /// Share of our messages that arrive there, as it reports, 0 to 1 (NLQ).
    pub nlq: f64,
    /// Expected transmissions of a packet over this link (ETX); `None` if it does not hear us.
    pub etx: Option<f64>,
    /// Whether it is asked to forward what this node floods (multipoint relay).
    pub is_relay: bool,
}
