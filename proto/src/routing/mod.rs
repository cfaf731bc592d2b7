//! Routing: what carries datagrams over the packets of links.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::base::{Datagrams, DropCause, Layer, Name, NodeId, Packets};

pub mod fixed;

/// A routing protocol.
pub trait Routing: Layer<Above = Datagrams, Below = Packets> {
    /// What it knows and did, for `status` and reports.
    fn status(&self) -> RoutingStatus;
}

/// What a routing protocol knows and did.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RoutingStatus {
    /// Protocol.
    pub kind: Name,
    /// Routes in use.
    pub routes: Vec<RouteStatus>,
    /// Datagrams forwarded for others.
    pub forwarded: u64,
    /// Datagrams dropped, by cause.
    pub drops: BTreeMap<DropCause, u64>,
}

/// A route to one destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteStatus {
    /// Destination.
    pub to: NodeId,
    /// Next hop.
    pub via: NodeId,
    /// Hops to the destination.
    pub hops: u8,
}
