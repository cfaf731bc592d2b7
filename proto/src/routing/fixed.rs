//! Fixed routes: every destination has its next hop from the start and keeps it.
//!
//! Adds no header: a datagram is an IP packet, and each relay looks at its destination address.
//! The hop limit is decremented at relays (RFC 1812, 5.3.1; RFC 8200, 3).

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::{RouteStatus, Routing, RoutingStatus};
use crate::base::{
    AddressPlan, Cx, Datagram, DatagramUp, Datagrams, Destination, DropCause, EtherType, Instant,
    Lane, Layer, NodeId, Packet, PacketUp, Packets, RadioId, ReceivedPacket, Room, RoomBelow,
    TxOptions, UnitId, UnitIds,
};
use crate::wire::ip;

/// Packets of this node that may wait for room below, for each lane.
const LANE_PACKETS: usize = 1;

/// Set in the ids of packets that come from other nodes; our own keep the id of their datagram.
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

/// The protocol at one node.
#[derive(Debug)]
pub struct Fixed {
    node: NodeId,
    plan: AddressPlan,
    /// In the order of the destinations.
    next_hops: Box<[(NodeId, NextHop)]>,
    out: VecDeque<Outgoing>,
    up: VecDeque<DatagramUp>,
    transit_ids: UnitIds,
    forwarded: u64,
    drops: BTreeMap<DropCause, u64>,
}

#[derive(Debug)]
struct Outgoing {
    packet: Packet,
    transit: bool,
}

impl Fixed {
    /// The protocol at `node` with its routes.
    pub fn build(node: NodeId, plan: AddressPlan, next_hops: BTreeMap<NodeId, NextHop>) -> Self {
        Self {
            node,
            plan,
            next_hops: next_hops.into_iter().collect(),
            out: VecDeque::with_capacity(LANE_PACKETS),
            up: VecDeque::with_capacity(LANE_PACKETS),
            transit_ids: UnitIds::default(),
            forwarded: 0,
            drops: BTreeMap::new(),
        }
    }

    /// Something of each part of it, so that it is at hand.
    pub(crate) fn fetch(&self) -> u64 {
        let route = self.next_hops.first().map_or(0, |(_, hop)| hop.via.0);
        u64::from(route) ^ self.out.len() as u64 ^ self.up.len() as u64 ^ self.forwarded
    }

    /// Tells the layer above the next hop to each destination.
    pub fn announce(&mut self) {
        let next_hop = |(dst, hop): &(NodeId, NextHop)| {
            let NextHop { via, hops, .. } = *hop;
            DatagramUp::NextHop { dst: *dst, via, hops }
        };
        self.up.extend(self.next_hops.iter().map(next_hop));
    }

    fn route(&self, to: Destination) -> Option<NextHop> {
        let (Destination::End(node) | Destination::NextHop(node)) = to;
        let index = self.next_hops.binary_search_by_key(&node, |route| route.0);
        let hop = index.ok().map(|index| self.next_hops[index].1);
        if matches!(to, Destination::End(_)) {
            return hop;
        }
        // A neighbour may be known as the way to others alone.
        let all = || self.next_hops.iter().map(|route| route.1);
        hop.filter(|hop| hop.via == node).or_else(|| all().find(|hop| hop.via == node))
    }

    fn count_drop(&mut self, cause: DropCause) {
        *self.drops.entry(cause).or_default() += 1;
    }

    fn on_received(&mut self, packet: ReceivedPacket) {
        if !matches!(packet.protocol, EtherType::IPV4 | EtherType::IPV6) {
            return self.count_drop(DropCause::Malformed);
        }
        let Some(dst) = ip::destination(&packet.payload) else {
            return self.count_drop(DropCause::Malformed);
        };
        match self.plan.node(dst) {
            Some(node) if node == self.node => {
                let ReceivedPacket { from: via, payload, signal, .. } = packet;
                self.up.push_back(DatagramUp::Received { via, payload, signal });
            }
            Some(node) => self.on_transit(node, packet),
            None if dst.is_multicast() => {
                let ReceivedPacket { from: via, payload, signal, .. } = packet;
                self.up.push_back(DatagramUp::Received { via, payload, signal });
            }
            None => self.count_drop(DropCause::NoRoute),
        }
    }

    fn on_transit(&mut self, dst: NodeId, packet: ReceivedPacket) {
        let Some(hop) = self.route(Destination::End(dst)) else {
            return self.count_drop(DropCause::NoRoute);
        };
        let Some(payload) = ip::forwarded(&packet.payload) else {
            return self.count_drop(DropCause::HopLimit);
        };
        self.forwarded += 1;
        let id = UnitId(self.transit_ids.next_id().0 | TRANSIT);
        let packet = self.packet(id, hop, ip::flow(&payload), payload, TxOptions::default());
        self.out.push_back(Outgoing { packet, transit: true });
    }

    fn packet(
        &self,
        id: UnitId,
        hop: NextHop,
        flow: crate::base::FlowId,
        payload: Bytes,
        options: TxOptions,
    ) -> Packet {
        let protocol = if payload.first().is_some_and(|b| b >> 4 == 6) {
            EtherType::IPV6
        } else {
            EtherType::IPV4
        };
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
}

fn is_transit(id: UnitId) -> bool {
    id.0 & TRANSIT != 0
}

impl Layer for Fixed {
    type Above = Datagrams;
    type Below = Packets;

    fn handle_rx(&mut self, _cx: &mut Cx<'_>, event: PacketUp) {
        match event {
            PacketUp::Received(packet) => self.on_received(packet),
            PacketUp::Done(done) if is_transit(done.id) => {}
            PacketUp::Done(done) => self.up.push_back(DatagramUp::Done(done)),
            PacketUp::Dropped { id, cause } => {
                self.count_drop(cause);
                if !is_transit(id) {
                    self.up.push_back(DatagramUp::Dropped { id, cause });
                }
            }
            PacketUp::Neighbour { .. } | PacketUp::LinkSample(_) => {}
        }
    }

    fn poll_rx(&mut self, _cx: &mut Cx<'_>) -> Option<DatagramUp> {
        self.up.pop_front()
    }

    /// Room on the lane of a flow, whatever its neighbour: the caller does not know the route.
    fn room(&self, lane: Lane) -> Room {
        let waiting =
            self.out.iter().filter(|out| !out.transit && out.packet.flow == lane.flow).count();
        Room::units(LANE_PACKETS.saturating_sub(waiting))
    }

    fn handle_tx(&mut self, _cx: &mut Cx<'_>, datagram: Datagram) {
        let Some(hop) = self.route(datagram.to) else {
            self.count_drop(DropCause::NoRoute);
            let (id, cause) = (datagram.id, DropCause::NoRoute);
            return self.up.push_back(DatagramUp::Dropped { id, cause });
        };
        let packet =
            self.packet(datagram.id, hop, datagram.flow, datagram.payload, datagram.options);
        self.out.push_back(Outgoing { packet, transit: false });
    }

    fn poll_tx(&mut self, _cx: &mut Cx<'_>, below: &RoomBelow<'_>) -> Option<Packet> {
        let mut index = 0;
        while let Some(out) = self.out.get(index) {
            if !below(out.packet.lane()).is_none() {
                return self.out.remove(index).map(|out| out.packet);
            }
            if out.transit {
                // The link owns the buffer of the node: what it has no room for is lost here.
                self.out.remove(index);
                self.count_drop(DropCause::QueueFull);
            } else {
                index += 1;
            }
        }
        None
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn handle_timeout(&mut self, _cx: &mut Cx<'_>) {}
}

impl Routing for Fixed {
    fn status(&self) -> RoutingStatus {
        let route =
            |&(to, hop): &(NodeId, NextHop)| RouteStatus { to, via: hop.via, hops: hop.hops };
        RoutingStatus {
            kind: "fixed".into(),
            routes: self.next_hops.iter().map(route).collect(),
            forwarded: self.forwarded,
            drops: self.drops.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::FlowId;
    use std::net::Ipv4Addr;

    const ME: NodeId = NodeId(2);

    fn relay() -> Fixed {
        let hop = |via| NextHop { via: NodeId(via), radio: RadioId(0), hops: 1 };
        Fixed::build(ME, AddressPlan::default(), [(NodeId(1), hop(1)), (NodeId(3), hop(3))].into())
    }

    fn ip_packet(to: Ipv4Addr) -> Bytes {
        let mut packet = Vec::new();
        ip::put_ipv4(&mut packet, Ipv4Addr::new(10, 66, 0, 1), to, ip::UDP, 8);
        packet.extend_from_slice(&[0, 7, 0, 7, 0, 8, 0, 0]);
        packet.into()
    }

    fn received(payload: Bytes) -> PacketUp {
        PacketUp::Received(ReceivedPacket {
            radio: RadioId(0),
            from: NodeId(1),
            flow: FlowId(0),
            protocol: EtherType::IPV4,
            payload,
            signal: None,
            rate: None,
        })
    }

    fn cx() -> Cx<'static> {
        Cx::new(Instant::ZERO)
    }

    #[test]
    fn a_relay_sends_on_with_one_hop_less() {
        let mut relay = relay();
        relay.handle_rx(&mut cx(), received(ip_packet(Ipv4Addr::new(10, 66, 0, 3))));
        let packet = relay.poll_tx(&mut cx(), &|_| Room::UNLIMITED).expect("a packet");
        assert_eq!((packet.to, packet.payload[8]), (Some(NodeId(3)), 63));
        assert_eq!(relay.status().forwarded, 1);
    }

    #[test]
    fn what_is_for_this_node_goes_up() {
        let mut relay = relay();
        relay.handle_rx(&mut cx(), received(ip_packet(Ipv4Addr::new(10, 66, 0, 2))));
        assert!(matches!(relay.poll_rx(&mut cx()), Some(DatagramUp::Received { .. })));
        assert!(relay.poll_tx(&mut cx(), &|_| Room::UNLIMITED).is_none());
    }

    #[test]
    fn a_relay_without_room_below_drops_and_counts() {
        let mut relay = relay();
        relay.handle_rx(&mut cx(), received(ip_packet(Ipv4Addr::new(10, 66, 0, 3))));
        assert!(relay.poll_tx(&mut cx(), &|_| Room::NONE).is_none());
        assert!(relay.poll_tx(&mut cx(), &|_| Room::UNLIMITED).is_none());
        assert_eq!(relay.status().drops[&DropCause::QueueFull], 1);
    }

    #[test]
    fn our_own_packets_wait_for_room_without_blocking_another_flow() {
        let mut relay = relay();
        for (flow, to) in [(1, 1), (2, 3)] {
            let datagram = Datagram {
                id: UnitId(flow.into()),
                to: Destination::End(NodeId(to)),
                flow: FlowId(flow),
                payload: ip_packet(Ipv4Addr::new(10, 66, 0, to as u8)),
                options: TxOptions::default(),
            };
            assert!(!relay.room(Lane { flow: FlowId(flow), ..Lane::default() }).is_none());
            relay.handle_tx(&mut cx(), datagram);
        }
        assert!(relay.room(Lane { flow: FlowId(1), ..Lane::default() }).is_none());
        let only_flow_2 = |lane: Lane| Room::units(usize::from(lane.flow == FlowId(2)));
        let packet = relay.poll_tx(&mut cx(), &only_flow_2).expect("the flow that has room");
        assert_eq!((packet.id, packet.to), (UnitId(2), Some(NodeId(3))));
    }

    #[test]
    fn unknown_addresses_and_rubbish_are_counted() {
        let mut relay = relay();
        relay.handle_rx(&mut cx(), received(ip_packet(Ipv4Addr::new(10, 66, 0, 9))));
        relay.handle_rx(&mut cx(), received(ip_packet(Ipv4Addr::new(192, 0, 2, 9))));
        relay.handle_rx(&mut cx(), received(Bytes::from_static(b"rubbish")));
        let drops = relay.status().drops;
        assert_eq!((drops[&DropCause::NoRoute], drops[&DropCause::Malformed]), (2, 1));
    }
}
