//! Routing: what carries datagrams over the packets of links.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::base::{
    Cx, Datagrams, DropCause, Identity, Instant, Layer, Name, NodeId, Packets, PublicKey, RadioId,
};

pub mod fixed;
mod forward;
pub mod olsr;

pub use forward::NextHop;

/// A routing protocol.
pub trait Routing: Layer<Above = Datagrams, Below = Packets> {
    /// Signs from now on what is flooded, and believes nothing that is not signed by its
    /// originator. To be called before anything else.
    fn set_signing(&mut self, signing: Signing);

    /// Believes the holders of these keys and no others from now on.
    fn set_keys(&mut self, cx: &mut Cx<'_>, keys: &BTreeMap<NodeId, PublicKey>);

    /// What it knows and did, for `status` and reports.
    fn status(&self, now: Instant) -> RoutingStatus;
}

/// What flooded control is signed and checked with.
#[derive(Debug)]
pub struct Signing {
    /// The own keys.
    pub identity: Identity,
    /// The keys of all nodes that are trusted.
    pub keys: Arc<BTreeMap<NodeId, PublicKey>>,
}

/// What a routing protocol knows and did.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RoutingStatus {
    /// Protocol.
    pub kind: Name,
    /// Routes in use.
    pub routes: Vec<RouteStatus>,
    /// Nodes that there is no route to any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_known: Vec<NodeId>,
    /// Who is heard, where the protocol listens.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub neighbours: Vec<NeighbourStatus>,
    /// Datagrams forwarded for others.
    pub forwarded: u64,
    /// Datagrams dropped, by cause.
    pub drops: BTreeMap<DropCause, u64>,
    /// Where the last packet of a neighbour was to go that is for no address of this network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign: Option<IpAddr>,
    /// What else the protocol counts.
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
    /// Expected transmissions of a packet on the way, where they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etx: Option<f64>,
}

/// A neighbour as a routing protocol hears it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NeighbourStatus {
    /// The neighbour.
    pub node: NodeId,
    /// The radio.
    pub radio: RadioId,
    /// Share of its messages that arrive here, 0 to 1.
    pub lq: f64,
    /// Share of ours that arrive there, as it says, 0 to 1.
    pub nlq: f64,
    /// Expected transmissions of a packet; nothing if it does not hear us.
    pub etx: Option<f64>,
    /// Whether it is asked to send on what this node floods.
    pub is_relay: bool,
}
