//! Forwarding: what every routing protocol does with datagrams once the next hop is known.
//!
//! It adds no header: a datagram is an IP packet, and each relay looks at its destination address.
//! Relays decrement the hop limit (RFC 1812, 5.3.1; RFC 8200, 3).

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;

use super::{NetworkStatus, RouteStatus, RoutingStatus};
use crate::base::{
    AccessCategory, AddressPlan, Datagram, DatagramUp, Destination, DropCause, EtherType, FlowId,
    Lane, Network, NetworkId, Networks, NodeId, Overflow, Packet, PacketOutcome, PacketUp, RadioId,
    ReceivedPacket, Room, RoomBelow, TxOptions, UnitId, UnitIds,
};
use crate::wire::ip;

/// Packets of this node that may wait for room below, for each lane.
const LANE_PACKETS: usize = 1;

/// Bit in the ids of packets that come from other nodes, or from the protocol itself; packets of
/// our datagrams keep the datagram's id.
const TRANSIT: u64 = 1 << 63;

/// The next hop of a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// The neighbour.
    pub via: NodeId,
    /// The radio that reaches it.
    pub radio: RadioId,
    /// Hops to the destination.
    pub hops: u8,
}

/// The routes of a protocol.
pub(super) trait Routes {
    /// The next hop of what is for a node.
    fn to_node(&self, node: NodeId) -> Option<NextHop>;

    /// The radio of a neighbour, and the neighbour itself as the next hop.
    fn to_neighbour(&self, node: NodeId) -> Option<NextHop>;

    /// The nearest of some nodes to which there is a route.
    fn nearest(&self, nodes: &[NodeId]) -> Option<NodeId>;
}

/// Datagrams on their way through a node.
#[derive(Debug)]
pub(super) struct Forwarder {
    pub(super) node: NodeId,
    /// Shared by all nodes of a simulation, with their address plan.
    networks: Arc<Networks>,
    out: VecDeque<Outgoing>,
    /// Lanes and flows for which no more datagrams are requested.
    held_back: Vec<HeldBack>,
    pub(super) up: VecDeque<DatagramUp>,
    transit_ids: UnitIds,
    forwarded: u64,
    drops: BTreeMap<DropCause, u64>,
    /// The destination of the last packet for a foreign address; boxed, as there is hardly ever
    /// one.
    foreign: Option<Box<IpAddr>>,
}

/// Datagrams that are not requested, because they would be lost like the one before.
#[derive(Debug)]
enum HeldBack {
    /// Those of a lane without room, until it has some again.
    Full(Lane),
    /// Those of a flow that can wait and has no route to this destination, as long as there is
    /// none.
    Unrouted(FlowId, Destination),
}

#[derive(Debug)]
struct Outgoing {
    packet: Packet,
    /// It came from another node, and is unchanged.
    transit: bool,
}

impl Outgoing {
    /// Decrements the hop limit; returns whether the packet may be sent on.
    fn lower_hop_limit(&mut self) -> bool {
        let payload = ip::forwarded(std::mem::take(&mut self.packet.payload));
        let may_go = payload.is_some();
        self.packet.payload = payload.unwrap_or_default();
        may_go
    }
}

impl Forwarder {
    pub(super) fn new(node: NodeId, plan: AddressPlan) -> Self {
        Self {
            node,
            networks: Arc::new(Networks::build(plan, [])),
            out: VecDeque::with_capacity(LANE_PACKETS),
            held_back: Vec::new(),
            up: VecDeque::with_capacity(LANE_PACKETS),
            transit_ids: UnitIds::default(),
            forwarded: 0,
            drops: BTreeMap::new(),
            foreign: None,
        }
    }

    pub(super) fn plan(&self) -> AddressPlan {
        self.networks.plan()
    }

    pub(super) fn set_networks(&mut self, networks: Arc<Networks>) {
        self.networks = networks;
    }

    /// The next hop of a datagram.
    fn hop(&self, to: Destination, routes: &impl Routes) -> Option<NextHop> {
        match to {
            Destination::End(node) => routes.to_node(node),
            Destination::Network(network) => routes.to_node(self.before(network, routes)?),
            Destination::NextHop(node) | Destination::Around(node) => routes.to_neighbour(node),
        }
    }

    /// The nearest other node before a network; none if this node is before it too.
    fn before(&self, network: NetworkId, routes: &impl Routes) -> Option<NodeId> {
        let nodes = self.networks.nodes(network);
        if nodes.contains(&self.node) { None } else { routes.nearest(nodes) }
    }

    /// Reads something of each part, so that it is in the cache.
    pub(super) fn fetch(&self) -> u64 {
        self.out.len() as u64 ^ self.up.len() as u64 ^ self.forwarded
    }

    fn count_drop(&mut self, cause: DropCause) {
        *self.drops.entry(cause).or_default() += 1;
    }

    /// Handles an event of the link.
    pub(super) fn handle_rx(&mut self, mut event: PacketUp, routes: &impl Routes) {
        // Most packets are for other nodes: they are not moved, and only the payload is taken.
        if let PacketUp::Received(packet) = &mut event
            && !self.is_for_us(packet, routes)
        {
            return;
        }
        match event {
            PacketUp::Received(ReceivedPacket { from: via, payload, signal, .. }) => {
                self.up.push_back(DatagramUp::Received { via, payload, signal });
            }
            PacketUp::Done(done) => {
                if done.outcome == PacketOutcome::Failed {
                    self.count_drop(DropCause::Retries);
                }
                if !is_transit(done.id) {
                    self.up.push_back(DatagramUp::Done(done));
                }
            }
            // The link has counted it.
            PacketUp::Dropped { id, .. } if is_transit(id) => {}
            PacketUp::Dropped { id, cause } => {
                self.up.push_back(DatagramUp::Dropped { id, cause });
            }
            PacketUp::Drowned(to) => self.up.push_back(DatagramUp::Drowned(to)),
            PacketUp::Neighbour { .. } | PacketUp::LinkSample(_) => {}
        }
    }

    /// Whether a packet is for this node; others are sent on or dropped.
    fn is_for_us(&mut self, packet: &mut ReceivedPacket, routes: &impl Routes) -> bool {
        let is_ip = matches!(packet.protocol, EtherType::IPV4 | EtherType::IPV6);
        let Some(dst) = ip::destination(&packet.payload).filter(|_| is_ip) else {
            self.count_drop(DropCause::Malformed);
            return false;
        };
        match self.plan().node(dst) {
            Some(node) if node == self.node => true,
            Some(node) => {
                let payload = std::mem::take(&mut packet.payload);
                self.on_transit(Destination::End(node), payload, routes);
                false
            }
            None if dst.is_multicast() => true,
            None => self.is_for_us_beyond(dst, packet, routes),
        }
    }

    /// Whether a packet for an address that no node has is for this node, whose host passes it on
    /// to its network.
    fn is_for_us_beyond(
        &mut self,
        dst: IpAddr,
        packet: &mut ReceivedPacket,
        routes: &impl Routes,
    ) -> bool {
        let Some(network) = self.networks.find(dst) else {
            self.foreign = Some(Box::new(dst));
            self.count_drop(DropCause::Foreign);
            return false;
        };
        let is_for_us = self.networks.nodes(network).contains(&self.node);
        if !is_for_us {
            let payload = std::mem::take(&mut packet.payload);
            self.on_transit(Destination::Network(network), payload, routes);
        }
        is_for_us
    }

    fn on_transit(&mut self, dst: Destination, payload: Bytes, routes: &impl Routes) {
        let Some(hop) = self.hop(dst, routes) else {
            return self.count_drop(DropCause::NoRoute);
        };
        let (id, flow) = (self.transit_id(), ip::flow(&payload));
        // Its sender cannot be held back, and learns of a loss sooner if the oldest packet is
        // dropped.
        let options = TxOptions { overflow: Overflow::DropHead, ..TxOptions::default() };
        let packet = packet_to(id, hop, flow, payload, options);
        self.out.push_back(Outgoing { packet, transit: true });
    }

    /// An id for a packet whose outcome nobody above needs to hear.
    pub(super) fn transit_id(&mut self) -> UnitId {
        UnitId(self.transit_ids.next_id().0 | TRANSIT)
    }

    /// Room for a flow: over the radio of the neighbour, or over any radio if the caller does not
    /// know the route.
    pub(super) fn room(&self, lane: Lane, routes: &impl Routes) -> Room {
        let radio = lane.to.and_then(|to| routes.to_neighbour(to));
        let radio = radio.map(|hop| hop.radio);
        let is_of = |other: &Lane| {
            other.flow == lane.flow && radio.is_none_or(|radio| radio == other.radio)
        };
        let is_held_back = |held: &HeldBack| match held {
            HeldBack::Full(full) => is_of(full),
            HeldBack::Unrouted(flow, to) => {
                *flow == lane.flow && lane.to.is_none() && self.hop(*to, routes).is_none()
            }
        };
        if self.held_back.iter().any(is_held_back) {
            return Room::NONE;
        }
        let waiting = self.out.iter().filter(|out| !out.transit && is_of(&out.packet.lane()));
        Room::units(LANE_PACKETS.saturating_sub(waiting.count()))
    }

    /// Takes a datagram of this node.
    pub(super) fn handle_tx(&mut self, datagram: Datagram, routes: &impl Routes) {
        let Some(hop) = self.hop(datagram.to, routes) else {
            self.count_drop(DropCause::NoRoute);
            let is_of_flow = matches!(datagram.to, Destination::End(_) | Destination::Network(_));
            if is_of_flow && datagram.options.overflow.waits() {
                let flow = datagram.flow;
                self.held_back
                    .retain(|held| !matches!(held, HeldBack::Unrouted(of, _) if *of == flow));
                self.held_back.push(HeldBack::Unrouted(datagram.flow, datagram.to));
            }
            let (id, cause) = (datagram.id, DropCause::NoRoute);
            return self.up.push_back(DatagramUp::Dropped { id, cause });
        };
        let is_for_all = matches!(datagram.to, Destination::Around(_));
        let packet = packet_to(datagram.id, hop, datagram.flow, datagram.payload, datagram.options);
        let to = packet.to.filter(|_| !is_for_all);
        self.out.push_back(Outgoing { packet: Packet { to, ..packet }, transit: false });
    }

    /// Gives the next packet for which there is room.
    pub(super) fn poll_tx(&mut self, below: &RoomBelow<'_>) -> Option<Packet> {
        self.held_back.retain(|held| match held {
            HeldBack::Full(lane) => below(*lane).is_none(),
            HeldBack::Unrouted(..) => true,
        });
        let mut index = 0;
        while let Some(out) = self.out.get_mut(index) {
            let transit = out.transit;
            if !below(out.packet.lane()).is_none() {
                let has_hops_left = !transit || out.lower_hop_limit();
                let out = match index {
                    0 => self.out.pop_front(),
                    _ => self.out.remove(index),
                };
                if has_hops_left {
                    self.forwarded += u64::from(transit);
                    return out.map(|out| out.packet);
                }
                self.count_drop(DropCause::HopLimit);
            } else if out.packet.options.overflow.waits() {
                index += 1;
            } else {
                // The queue of the node is in the link: a packet for which the link has no room is
                // lost here. Packets of this node do not wait here either, or they would take the
                // places of packets from others.
                let lost = self.out.remove(index).expect("it was found");
                self.count_drop(DropCause::QueueFull);
                if !transit {
                    self.held_back.push(HeldBack::Full(lost.packet.lane()));
                    let (id, cause) = (lost.packet.id, DropCause::QueueFull);
                    self.up.push_back(DatagramUp::Dropped { id, cause });
                }
            }
        }
        None
    }

    /// The status of the forwarder, with the routes of a protocol.
    pub(super) fn status<'a>(
        &self,
        kind: &'static str,
        known: &impl Routes,
        routes: impl Iterator<Item = (&'a NodeId, &'a NextHop, Option<f64>)>,
    ) -> RoutingStatus {
        let route = |(to, hop, etx): (&NodeId, &NextHop, Option<f64>)| RouteStatus {
            to: *to,
            via: hop.via,
            hops: hop.hops,
            etx,
        };
        let network = |network: &Network| NetworkStatus {
            network: network.prefix,
            before: match network.nodes.contains(&self.node) {
                true => Some(self.node),
                false => known.nearest(&network.nodes),
            },
        };
        RoutingStatus {
            kind: kind.into(),
            routes: routes.map(route).collect(),
            forwarded: self.forwarded,
            drops: self.drops.clone(),
            networks: self.networks.all().iter().map(network).collect(),
            foreign: self.foreign.as_deref().copied(),
            ..RoutingStatus::default()
        }
    }
}

/// A packet in the access category that its transport chose, or in that of its DSCP.
fn packet_to(
    id: UnitId,
    hop: NextHop,
    flow: FlowId,
    payload: Bytes,
    mut options: TxOptions,
) -> Packet {
    if options.access == AccessCategory::default() {
        options.access = ip::dscp(&payload).map_or(options.access, AccessCategory::of_dscp);
    }
    let is_ipv6 = payload.first().is_some_and(|byte| byte >> 4 == 6);
    let protocol = if is_ipv6 { EtherType::IPV6 } else { EtherType::IPV4 };
    Packet {
        id,
        radio: hop.radio,
        to: Some(hop.via),
        flow,
        protocol,
        payload,
        options,
        order: None,
    }
}

fn is_transit(id: UnitId) -> bool {
    id.0 & TRANSIT != 0
}
