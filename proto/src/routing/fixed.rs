//! Fixed routes: every destination has a next hop from the start and keeps it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::forward::{Forwarder, NextHop, Routes};
use super::{Routing, RoutingStatus, Signing};
use crate::base::{
    AddressPlan, Cx, Datagram, DatagramUp, Datagrams, Instant, Lane, Layer, Networks, NodeId,
    Packet, PacketUp, Packets, PublicKey, RadioId, Room, RoomBelow,
};

/// The protocol at one node.
#[derive(Debug)]
pub struct Fixed {
    routes: FixedRoutes,
    forwarder: Forwarder,
}

/// Most neighbours whose radio is remembered.
const HEARD: usize = 1_024;

#[derive(Debug)]
struct FixedRoutes {
    /// In order of the destinations.
    all: Box<[(NodeId, NextHop)]>,
    /// The radio, if all routes have the same one.
    radio: Option<RadioId>,
    /// The radio over which a neighbour was last heard, if it is another one.
    heard: BTreeMap<NodeId, RadioId>,
}

impl FixedRoutes {
    fn build(next_hops: BTreeMap<NodeId, NextHop>) -> Self {
        let first = next_hops.values().next().map(|hop| hop.radio);
        let radio = first.filter(|radio| next_hops.values().all(|hop| hop.radio == *radio));
        Self { all: next_hops.into_iter().collect(), radio, heard: BTreeMap::new() }
    }

    fn on_heard(&mut self, from: NodeId, radio: RadioId) {
        if self.radio == Some(radio) {
            if !self.heard.is_empty() {
                self.heard.remove(&from);
            }
        } else if self.heard.len() < HEARD || self.heard.contains_key(&from) {
            self.heard.insert(from, radio);
        }
    }
}

impl Routes for FixedRoutes {
    fn to_node(&self, node: NodeId) -> Option<NextHop> {
        let index = self.all.binary_search_by_key(&node, |route| route.0);
        index.ok().map(|index| self.all[index].1)
    }

    fn to_neighbour(&self, node: NodeId) -> Option<NextHop> {
        // A neighbour may be known only as the next hop to others.
        let all = || self.all.iter().map(|route| route.1);
        let known = self.to_node(node).filter(|hop| hop.via == node);
        let known = known.or_else(|| all().find(|hop| hop.via == node));
        // Routes there and back may differ: a node that is no next hop here may have us as its next
        // hop.
        known.or_else(|| {
            let radio = self.heard.get(&node).copied().or(self.radio)?;
            Some(NextHop { via: node, radio, hops: 1 })
        })
    }

    fn nearest(&self, nodes: &[NodeId]) -> Option<NodeId> {
        let hops = |node: &NodeId| self.to_node(*node).map(|hop| (hop.hops, *node));
        nodes.iter().filter_map(hops).min().map(|(_, node)| node)
    }
}

impl Fixed {
    /// The protocol at `node` with its routes.
    pub fn build(node: NodeId, plan: AddressPlan, next_hops: BTreeMap<NodeId, NextHop>) -> Self {
        let routes = FixedRoutes::build(next_hops);
        Self { routes, forwarder: Forwarder::new(node, plan) }
    }

    /// Reads something of each part, so that it is in the cache.
    pub(crate) fn fetch(&self) -> u64 {
        let route = self.routes.all.first().map_or(0, |(_, hop)| hop.via.0);
        u64::from(route) ^ self.forwarder.fetch()
    }

    /// Tells the layer above the next hop to each destination.
    pub fn announce(&mut self) {
        let next_hop = |(dst, hop): &(NodeId, NextHop)| {
            let NextHop { via, radio, hops } = *hop;
            DatagramUp::NextHop { dst: *dst, via, radio, hops }
        };
        self.forwarder.up.extend(self.routes.all.iter().map(next_hop));
    }
}

impl Layer for Fixed {
    type Above = Datagrams;
    type Below = Packets;

    fn handle_rx(&mut self, _cx: &mut Cx<'_>, event: PacketUp) {
        if let PacketUp::Received(packet) = &event {
            self.routes.on_heard(packet.from, packet.radio);
        }
        self.forwarder.handle_rx(event, &self.routes);
    }

    fn poll_rx(&mut self, _cx: &mut Cx<'_>) -> Option<DatagramUp> {
        self.forwarder.up.pop_front()
    }

    fn room(&self, lane: Lane) -> Room {
        self.forwarder.room(lane, &self.routes)
    }

    fn handle_tx(&mut self, _cx: &mut Cx<'_>, datagram: Datagram) {
        self.forwarder.handle_tx(datagram, &self.routes);
    }

    fn poll_tx(&mut self, _cx: &mut Cx<'_>, below: &RoomBelow<'_>) -> Option<Packet> {
        self.forwarder.poll_tx(below)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn handle_timeout(&mut self, _cx: &mut Cx<'_>) {}
}

impl Routing for Fixed {
    fn set_networks(&mut self, networks: Arc<Networks>) {
        self.forwarder.set_networks(networks);
    }

    /// Nothing is flooded.
    fn set_signing(&mut self, _signing: Signing) {}

    fn set_keys(&mut self, _cx: &mut Cx<'_>, _keys: &BTreeMap<NodeId, PublicKey>) {}

    fn status(&self, _now: Instant) -> RoutingStatus {
        let routes = self.routes.all.iter().map(|(to, hop)| (to, hop, None));
        self.forwarder.status("fixed", &self.routes, routes)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use bytes::Bytes;

    use super::*;
    use crate::base::{
        Destination, DropCause, EtherType, FlowId, Overflow, RadioId, ReceivedPacket, TxOptions,
        UnitId,
    };
    use crate::wire::ip;

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
        assert_eq!(relay.status(Instant::ZERO).forwarded, 1);
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
        assert_eq!(relay.status(Instant::ZERO).drops[&DropCause::QueueFull], 1);
    }

    fn networks(behind: &[(u16, &str)]) -> Arc<Networks> {
        let behind = behind.iter().map(|(node, text)| (NodeId(*node), text.parse().unwrap()));
        Arc::new(Networks::build(AddressPlan::default(), behind))
    }

    #[test]
    fn what_is_for_a_network_goes_to_the_nearest_node_before_it() {
        let hop = |via, hops| NextHop { via: NodeId(via), radio: RadioId(0), hops };
        let routes = [(NodeId(1), hop(1, 1)), (NodeId(3), hop(3, 1)), (NodeId(4), hop(3, 2))];
        let mut relay = Fixed::build(ME, AddressPlan::default(), routes.into());
        relay.set_networks(networks(&[
            (4, "192.168.7.0/24"),
            (3, "192.168.7.0/24"),
            (1, "192.168.0.0/16"),
            (2, "172.16.0.0/12"),
            (9, "0.0.0.0/0"),
        ]));
        let mut to = |address: [u8; 4]| {
            relay.handle_rx(&mut cx(), received(ip_packet(address.into())));
            let up = relay.poll_rx(&mut cx()).is_some();
            let packet = relay.poll_tx(&mut cx(), &|_| Room::UNLIMITED);
            (up, packet.map(|packet| (packet.to.expect("a neighbour").0, packet.payload[8])))
        };
        assert_eq!(to([192, 168, 7, 9]), (false, Some((3, 63))), "one hop is nearer than two");
        assert_eq!(to([192, 168, 8, 9]), (false, Some((1, 63))));
        assert_eq!(to([172, 16, 0, 1]), (true, None), "it is behind this node");
        assert_eq!(to([192, 0, 2, 1]), (false, None), "nobody knows the way");
        assert_eq!(to([10, 66, 0, 0]), (false, None), "no node has that address");
        let status = relay.status(Instant::ZERO);
        let drops = [DropCause::NoRoute, DropCause::Foreign].map(|cause| status.drops[&cause]);
        assert_eq!(drops, [1, 1]);
        let before = status.networks.iter().map(|network| network.before.map(|node| node.0));
        assert_eq!(before.collect::<Vec<_>>(), [Some(3), Some(1), Some(2), None]);
    }

    #[test]
    fn our_own_packet_for_a_network_that_is_behind_us_goes_nowhere() {
        let mut relay = relay();
        relay.set_networks(networks(&[(2, "192.168.7.0/24"), (3, "192.168.7.0/24")]));
        let address = Ipv4Addr::new(192, 168, 7, 1);
        let network = networks(&[(2, "192.168.7.0/24")]).find(address.into()).expect("it is one");
        let to = Destination::Network(network);
        relay.handle_tx(&mut cx(), Datagram { to, ..to_neighbour(3) });
        assert!(relay.poll_tx(&mut cx(), &|_| Room::UNLIMITED).is_none(), "it would come back");
        assert_eq!(relay.status(Instant::ZERO).drops[&DropCause::NoRoute], 1);
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
                options: TxOptions { overflow: Overflow::Wait, ..TxOptions::default() },
            };
            assert!(!relay.room(Lane { flow: FlowId(flow), ..Lane::default() }).is_none());
            relay.handle_tx(&mut cx(), datagram);
        }
        assert!(relay.room(Lane { flow: FlowId(1), ..Lane::default() }).is_none());
        let only_flow_2 = |lane: Lane| Room::units(usize::from(lane.flow == FlowId(2)));
        let packet = relay.poll_tx(&mut cx(), &only_flow_2).expect("the flow that has room");
        assert_eq!((packet.id, packet.to), (UnitId(2), Some(NodeId(3))));
    }

    fn to_neighbour(node: u16) -> Datagram {
        Datagram {
            id: UnitId(1),
            to: Destination::NextHop(NodeId(node)),
            flow: FlowId(1),
            payload: ip_packet(Ipv4Addr::new(10, 66, 0, node as u8)),
            options: TxOptions::default(),
        }
    }

    #[test]
    fn our_own_packet_that_does_not_wait_is_lost_without_room_and_the_next_is_asked_for_with_it() {
        let mut relay = relay();
        let lane = Lane { flow: FlowId(1), ..Lane::default() };
        relay.handle_tx(&mut cx(), to_neighbour(3));
        assert!(relay.poll_tx(&mut cx(), &|_| Room::NONE).is_none());
        let lost = relay.poll_rx(&mut cx());
        let cause = DropCause::QueueFull;
        assert!(matches!(lost, Some(DatagramUp::Dropped { cause: of, .. }) if of == cause));
        assert!(relay.room(lane).is_none(), "no second one is made in vain");
        // A packet of another node finds the place that has become free.
        relay.handle_rx(&mut cx(), received(ip_packet(Ipv4Addr::new(10, 66, 0, 3))));
        let packet = relay.poll_tx(&mut cx(), &|_| Room::units(1)).expect("the other's");
        assert_ne!(packet.id, UnitId(1));
        assert!(!relay.room(lane).is_none());
        assert_eq!(relay.status(Instant::ZERO).drops[&cause], 1);
    }

    #[test]
    fn a_neighbour_is_answered_though_no_route_leads_by_it() {
        let mut relay = relay();
        relay.handle_tx(&mut cx(), to_neighbour(4));
        let packet = relay.poll_tx(&mut cx(), &|_| Room::UNLIMITED).expect("a packet");
        assert_eq!(packet.to, Some(NodeId(4)));
    }

    #[test]
    fn where_there_are_several_radios_it_goes_by_the_one_that_heard_the_neighbour() {
        let hop = |via, radio| NextHop { via: NodeId(via), radio: RadioId(radio), hops: 1 };
        let routes = [(NodeId(1), hop(1, 0)), (NodeId(3), hop(3, 1))];
        let mut relay = Fixed::build(ME, AddressPlan::default(), routes.into());
        assert_eq!(relay.routes.to_neighbour(NodeId(4)), None);
        relay.routes.on_heard(NodeId(4), RadioId(1));
        assert_eq!(relay.routes.to_neighbour(NodeId(4)), Some(hop(4, 1)));
        assert_eq!(relay.routes.to_node(NodeId(4)), None);
        // All routes of this one lead over one of its radios.
        let mut relay = Fixed::build(ME, AddressPlan::default(), [routes[0]].into());
        for radio in [1, 0, 1] {
            relay.routes.on_heard(NodeId(4), RadioId(radio));
            assert_eq!(relay.routes.to_neighbour(NodeId(4)), Some(hop(4, radio)));
        }
    }

    #[test]
    fn unknown_addresses_and_rubbish_are_counted() {
        let mut relay = relay();
        relay.handle_rx(&mut cx(), received(ip_packet(Ipv4Addr::new(10, 66, 0, 9))));
        relay.handle_rx(&mut cx(), received(ip_packet(Ipv4Addr::new(192, 0, 2, 9))));
        relay.handle_rx(&mut cx(), received(Bytes::from_static(b"rubbish")));
        let status = relay.status(Instant::ZERO);
        let causes = [DropCause::NoRoute, DropCause::Foreign, DropCause::Malformed];
        assert_eq!(causes.map(|cause| status.drops[&cause]), [1, 1, 1]);
        assert_eq!(status.foreign, Some(Ipv4Addr::new(192, 0, 2, 9).into()));
    }
}
