//! Networks of nodes that broadcast to each other without delay.

use std::net::SocketAddrV4;
use std::sync::Arc;

use bytes::Bytes;

use super::flood::FLOW;
use super::receive::messages;
use super::*;
use crate::base::{
    Destination, EtherType, FlowId, Identity, Overflow, ReceivedPacket, TxOptions, UnitId,
};
use crate::wire::olsr::{self, Body, Hello, Message, Neighbour, Topology};
use crate::wire::{ip, udp};

/// Nodes 1 to n, and the share of packets that is lost between each two; `None` where there is no
/// link.
struct Net {
    nodes: Vec<Olsr>,
    loss: BTreeMap<(u16, u16), f64>,
    now: Instant,
    rng: Rng,
    /// IP packets that arrived at their destinations: where, and from which neighbour.
    arrived: Vec<(NodeId, NodeId)>,
    /// Topology messages that were sent, with their senders.
    overheard: Vec<(NodeId, Message)>,
}

fn key(node: u16) -> Identity {
    Identity::from_secret([node as u8; 32])
}

fn signing(node: u16, count: u16) -> Signing {
    let keys = (1..=count).map(|node| (NodeId(node), key(node).public())).collect();
    Signing { identity: key(node), keys: Arc::new(keys) }
}

fn olsr(node: u16, seed: u64) -> Olsr {
    let config = OlsrConfig::default();
    let plan = AddressPlan::default();
    Olsr::build(&config, NodeId(node), plan, &[(RadioId(0), None)], Seed(seed))
}

impl Net {
    fn new(count: u16, links: &[(u16, u16)]) -> Self {
        let loss = links.iter().flat_map(|&(a, b)| [((a, b), 0.0), ((b, a), 0.0)]).collect();
        Self {
            nodes: (1..=count).map(|node| olsr(node, 1)).collect(),
            loss,
            now: Instant::ZERO,
            rng: Seed(1).stream("net"),
            arrived: Vec::new(),
            overheard: Vec::new(),
        }
    }

    fn with_keys(mut self) -> Self {
        let count = self.nodes.len() as u16;
        for node in 1..=count {
            self.node(node).set_signing(signing(node, count));
        }
        self
    }

    /// A chain of nodes.
    fn chain(count: u16) -> Self {
        Self::new(count, &(1..count).map(|node| (node, node + 1)).collect::<Vec<_>>())
    }

    fn node(&mut self, node: u16) -> &mut Olsr {
        &mut self.nodes[usize::from(node) - 1]
    }

    fn set_loss(&mut self, a: u16, b: u16, loss: f64) {
        self.loss.insert((a, b), loss);
        self.loss.insert((b, a), loss);
    }

    fn cut(&mut self, a: u16, b: u16) {
        self.loss.remove(&(a, b));
        self.loss.remove(&(b, a));
    }

    fn run(&mut self, seconds: u64) {
        let end = self.now + Duration::from_secs(seconds);
        while let Some(at) = self.nodes.iter().filter_map(Olsr::poll_timeout).min()
            && at <= end
        {
            self.now = self.now.max(at);
            for index in 0..self.nodes.len() {
                let mut cx = Cx::new(self.now);
                if self.nodes[index].poll_timeout().is_some_and(|due| due <= self.now) {
                    self.nodes[index].handle_timeout(&mut cx);
                }
                assert!(self.nodes[index].poll_timeout().is_none_or(|due| due > self.now));
            }
            self.settle();
        }
        self.now = end;
    }

    fn settle(&mut self) {
        let mut has_moved = true;
        while std::mem::take(&mut has_moved) {
            for from in 1..=self.nodes.len() as u16 {
                let mut cx = Cx::new(self.now);
                while let Some(packet) = self.node(from).poll_tx(&mut cx, &|_| Room::UNLIMITED) {
                    has_moved = true;
                    self.deliver(NodeId(from), &packet);
                }
                while let Some(event) = self.node(from).poll_rx(&mut cx) {
                    if let DatagramUp::Received { via, .. } = event {
                        self.arrived.push((NodeId(from), via));
                    }
                }
            }
        }
    }

    fn deliver(&mut self, from: NodeId, packet: &Packet) {
        let received = ReceivedPacket {
            radio: RadioId(0),
            from,
            flow: packet.flow,
            protocol: packet.protocol,
            payload: packet.payload.clone(),
            signal: None,
            rate: None,
        };
        if let Some(Ok(messages)) = messages(&received) {
            let topology = |message: &Message| matches!(message.body, Body::Topology(_));
            let found = messages.into_iter().filter(topology).map(|message| (from, message));
            self.overheard.extend(found);
        }
        let hears = |to: u16| packet.to.is_none_or(|wanted| wanted == NodeId(to));
        for to in 1..=self.nodes.len() as u16 {
            if let Some(loss) = self.loss.get(&(from.0, to)).copied()
                && hears(to)
                && !self.rng.chance(loss)
            {
                let event = PacketUp::Received(received.clone());
                let mut cx = Cx::new(self.now);
                self.node(to).handle_rx(&mut cx, event);
            }
        }
    }

    /// Makes a node that says nothing else send a topology message.
    fn inject(&mut self, from: u16, message: Bytes) {
        let payload = olsr::packet(1, &[message]);
        let plan = AddressPlan::default();
        let at = |address| SocketAddrV4::new(address, olsr::PORT);
        let packet = Packet {
            id: UnitId(0),
            radio: RadioId(0),
            to: None,
            flow: FLOW,
            protocol: EtherType::IPV4,
            payload: udp::encode(
                at(plan.ipv4(NodeId(from))),
                at(Ipv4Addr::BROADCAST),
                &payload,
                &[],
            ),
            options: TxOptions::default(),
            order: None,
        };
        self.deliver(NodeId(from), &packet);
        self.settle();
    }

    /// The route from a node to another: one next hop after the other.
    fn path(&self, from: u16, to: u16) -> Option<Vec<u16>> {
        let mut path = vec![from];
        while path[path.len() - 1] != to {
            let at = &self.nodes[usize::from(path[path.len() - 1]) - 1];
            path.push(at.table.to_node(NodeId(to))?.via.0);
            assert!(path.len() <= self.nodes.len(), "a loop: {path:?}");
        }
        Some(path)
    }

    fn counters(&self, node: u16) -> Counters {
        self.nodes[usize::from(node) - 1].counters
    }
}

#[test]
fn a_chain_finds_its_ends() {
    let mut net = Net::chain(6);
    net.run(30);
    assert_eq!(net.path(1, 6), Some(vec![1, 2, 3, 4, 5, 6]));
    assert_eq!(net.path(6, 1), Some(vec![6, 5, 4, 3, 2, 1]));
}

#[test]
fn of_more_neighbours_than_a_hello_has_room_for_all_are_heard_of() {
    let links: Vec<(u16, u16)> = (2..=201).map(|leaf| (1, leaf)).collect();
    let mut net = Net::new(201, &links);
    net.run(40);
    let is_cut = |leaf: &u16| net.path(*leaf, 1) != Some(vec![*leaf, 1]);
    let cut: Vec<u16> = (2..=201).filter(is_cut).collect();
    assert!(cut.is_empty(), "{cut:?} have no link");
}

#[test]
fn of_more_neighbours_than_a_topology_message_has_room_for_all_have_routes() {
    let links: Vec<(u16, u16)> = (2..=201).map(|leaf| (1, leaf)).collect();
    let mut net = Net::new(201, &links);
    net.run(40);
    for from in [2, 100, 201] {
        let is_cut = |to: &u16| *to != from && net.path(from, *to) != Some(vec![from, 1, *to]);
        let cut: Vec<u16> = (2..=201).filter(is_cut).collect();
        assert!(cut.is_empty(), "{cut:?} have no route from {from}");
    }
}

#[test]
fn a_datagram_takes_the_path_and_the_last_hop_hands_it_up() {
    let mut net = Net::chain(3);
    net.run(30);
    let plan = AddressPlan::default();
    let mut packet = Vec::new();
    ip::put_ipv4(&mut packet, plan.ipv4(NodeId(1)), plan.ipv4(NodeId(3)), ip::UDP, 8);
    packet.extend_from_slice(&[0, 7, 0, 7, 0, 8, 0, 0]);
    let datagram = Datagram {
        id: UnitId(1),
        to: Destination::End(NodeId(3)),
        flow: FlowId(0),
        payload: packet.into(),
        options: TxOptions { overflow: Overflow::Wait, ..TxOptions::default() },
    };
    let mut cx = Cx::new(net.now);
    net.node(1).handle_tx(&mut cx, datagram);
    net.settle();
    assert_eq!(net.arrived, [(NodeId(3), NodeId(2))]);
}

#[test]
fn what_is_for_a_network_goes_to_the_nearest_node_before_it_that_can_be_reached() {
    let mut net = Net::chain(5);
    let plan = AddressPlan::default();
    let behind = [1, 5].map(|node| (NodeId(node), "192.168.7.0/24".parse().expect("a prefix")));
    let networks = Arc::new(Networks::build(plan, behind));
    net.nodes.iter_mut().for_each(|node| node.set_networks(Arc::clone(&networks)));
    net.run(30);
    let address = Ipv4Addr::new(192, 168, 7, 9);
    let to = Destination::Network(networks.find(address.into()).expect("it is one"));
    let send = |net: &mut Net, from: u16| {
        let mut packet = Vec::new();
        ip::put_ipv4(&mut packet, plan.ipv4(NodeId(from)), address, ip::UDP, 8);
        packet.extend_from_slice(&[0, 7, 0, 7, 0, 8, 0, 0]);
        let (id, flow, payload) = (UnitId(1), FlowId(0), packet.into());
        let datagram = Datagram { id, to, flow, payload, options: TxOptions::default() };
        let mut cx = Cx::new(net.now);
        net.node(from).handle_tx(&mut cx, datagram);
        net.settle();
        std::mem::take(&mut net.arrived)
    };
    assert_eq!(send(&mut net, 2), [(NodeId(1), NodeId(2))]);
    assert_eq!(send(&mut net, 4), [(NodeId(5), NodeId(4))]);
    net.cut(4, 5);
    net.run(60);
    assert_eq!(send(&mut net, 4), [(NodeId(1), NodeId(2))], "the other one is left");
}

#[test]
fn two_good_hops_are_taken_rather_than_a_bad_one() {
    let mut net = Net::new(3, &[(1, 2), (2, 3), (1, 3)]);
    net.set_loss(1, 3, 0.5);
    net.run(60);
    assert_eq!(net.path(1, 3), Some(vec![1, 2, 3]));
    let status = net.nodes[0].status(net.now);
    let to = |node| status.neighbours.iter().find(|at| at.node == NodeId(node)).copied();
    let (good, bad) = (to(2).expect("a neighbour"), to(3).expect("a neighbour"));
    assert!((good.lq, good.nlq) == (1.0, 1.0) && good.etx == Some(1.0), "{good:?}");
    assert!((0.2..0.8).contains(&bad.lq), "{bad:?}");
    assert!(bad.etx.is_none_or(|etx| etx > 1.5), "{bad:?}");
}

#[test]
fn a_neighbour_that_hears_little_learns_by_another_what_is_flooded() {
    // Node 4 is behind node 1, of which node 3 hears one packet in five.
    let mut net = Net::new(4, &[(4, 1), (1, 2), (2, 3), (1, 3)]);
    net.set_loss(1, 3, 0.8);
    net.run(60);
    let mut known = 0;
    for _ in 0..300 {
        net.run(2);
        known += usize::from(net.path(3, 4) == Some(vec![3, 2, 1, 4]));
    }
    assert!(known > 290, "{known} of 300");
}

#[test]
fn topology_crosses_many_lossy_hops() {
    let mut net = Net::chain(8);
    for node in 1..8 {
        net.set_loss(node, node + 1, 0.3);
    }
    net.run(120);
    assert_eq!(net.path(1, 8).map(|path| path.len()), Some(8));
}

#[test]
fn only_relays_send_on() {
    // Node 1 hears 2, 3 and 4, and each of them hears 5: one of them would be enough, and three are
    // asked.
    let links = [(1, 2), (1, 3), (1, 4), (2, 5), (3, 5), (4, 5), (2, 3), (3, 4), (2, 4)];
    let sent_on = |relays| {
        let mut net = Net::new(5, &links);
        net.nodes.iter_mut().for_each(|node| node.config.relays = relays);
        net.run(100);
        assert!(net.path(1, 5).is_some());
        (2..=4).map(|node| net.counters(node).sent_on).sum::<u64>()
    };
    let (one, three) = (sent_on(1), sent_on(3));
    assert!(one * 2 < three, "{one} and {three} messages sent on");
}

#[test]
fn a_way_around_a_cut_is_found_and_the_last_known_next_hop_is_kept() {
    let mut net = Net::new(4, &[(1, 2), (2, 3), (3, 4), (4, 1)]);
    net.run(30);
    assert_eq!(net.path(1, 2), Some(vec![1, 2]));
    net.cut(1, 2);
    net.run(30);
    assert_eq!(net.path(1, 2), Some(vec![1, 4, 3, 2]));
    net.cut(4, 1);
    net.run(30);
    assert_eq!(net.path(1, 2), None);
    let status = net.nodes[0].status(net.now);
    assert_eq!(status.last_known, [NodeId(2), NodeId(3), NodeId(4)]);
    let hop = net.nodes[0].table.to_neighbour(NodeId(4));
    assert_eq!(hop.map(|hop| hop.via), Some(NodeId(4)));
}

#[test]
fn routes_are_computed_no_more_often_than_allowed() {
    let mut net = Net::chain(5);
    for node in 1..5 {
        net.set_loss(node, node + 1, 0.4);
    }
    net.run(90);
    let most = 90 / 3 + 1;
    for node in 1..=5 {
        assert!(net.counters(node).computed <= most);
    }
}

#[test]
fn nodes_with_keys_find_each_other_and_believe_no_other_signature() {
    let mut net = Net::chain(4).with_keys();
    net.run(30);
    assert_eq!(net.path(1, 4), Some(vec![1, 2, 3, 4]));
    // Node 2 holds keys and invents a neighbour of 4, first signed by itself, then unsigned.
    let plan = AddressPlan::default();
    let neighbours = vec![Neighbour { address: plan.ipv4(NodeId(9)), lq: 255, nlq: 255 }];
    for counter in [Some(1_000_000), None] {
        let neighbours = neighbours.clone();
        let forged = Message {
            validity: Duration::from_secs(15),
            originator: plan.ipv4(NodeId(4)),
            ttl: 255,
            hops: 1,
            seq: 60_000,
            body: Body::Topology(Topology { ansn: 60_000, reach: u8::MAX, neighbours, counter }),
            bytes: Bytes::new(),
        };
        net.inject(2, forged.encode(Some(&key(2))));
    }
    assert_eq!((net.counters(1).forged, net.counters(1).unsigned), (1, 1));
    net.run(10);
    assert_eq!(net.path(1, 4), Some(vec![1, 2, 3, 4]));
}

#[test]
fn a_recording_of_a_far_node_changes_nothing() {
    let mut net = Net::chain(3).with_keys();
    net.run(30);
    let recording = net.overheard.iter().find(|(_, message)| message.hops == 1);
    let recording = recording.expect("2 sends on").1.clone();
    assert_eq!(recording.originator, AddressPlan::default().ipv4(NodeId(3)));
    net.cut(2, 3);
    net.run(60);
    assert_eq!(net.path(1, 3), None);
    let before = net.counters(1).topologies_new;
    net.inject(2, recording.bytes);
    net.run(10);
    assert_eq!((net.path(1, 3), net.counters(1).forged), (None, 0));
    let own = net.counters(2).topologies_sent;
    assert!(net.counters(1).topologies_new - before <= own, "only what 2 says itself is new");
}

#[test]
fn a_node_that_starts_anew_is_believed_again_within_seconds() {
    let mut net = Net::chain(4).with_keys();
    net.run(200);
    let before = net.nodes[3].signed;
    assert!(before > 30);
    *net.node(4) = olsr(4, 2);
    net.node(4).set_signing(signing(4, 4));
    net.run(20);
    assert!(net.nodes[3].signed > before, "it goes on where it was");
    assert!(net.counters(3).answered > 0);
    assert_eq!(net.path(1, 4), Some(vec![1, 2, 3, 4]));
}

#[test]
fn a_node_without_keys_that_starts_anew_is_believed_again_as_soon() {
    let mut net = Net::chain(4);
    net.run(200);
    let before = net.nodes[2].message_seq;
    assert!(before > 100);
    *net.node(3) = olsr(3, 2);
    net.run(12);
    assert!(net.nodes[2].message_seq > before, "it goes on where it was");
    assert!(net.counters(2).answered + net.counters(4).answered > 0);
    assert_eq!(net.path(1, 4), Some(vec![1, 2, 3, 4]));
}

#[test]
fn a_node_whose_key_is_revoked_has_no_routes() {
    let mut net = Net::chain(4).with_keys();
    net.run(30);
    let keys = (1..=3).map(|node| (NodeId(node), key(node).public())).collect();
    let mut cx = Cx::new(net.now);
    net.node(1).set_keys(&mut cx, &keys);
    assert_eq!(net.path(1, 4), None, "at once");
    net.run(10);
    assert_eq!(net.path(1, 4), None);
    assert_eq!(net.path(1, 3), Some(vec![1, 2, 3]));
    assert!(net.counters(1).no_key > 0);
}

#[test]
fn hellos_in_another_name_and_rubbish_are_counted() {
    let mut net = Net::chain(2);
    net.run(10);
    net.set_loss(9, 1, 0.0);
    net.inject(9, hello_of_2(1, 2).encode(None));
    net.inject(9, Bytes::from_static(b"rubbish of some length"));
    let counters = net.counters(1);
    assert_eq!((counters.false_name, counters.malformed), (1, 1));
}

#[test]
fn a_message_to_a_neighbour_that_is_not_known_holds_up_none_to_others() {
    let mut net = Net::chain(2);
    net.run(10);
    let (to, flow) = (Destination::NextHop(NodeId(9)), FlowId(7));
    let options = TxOptions { overflow: Overflow::Wait, ..TxOptions::default() };
    let datagram = Datagram { id: UnitId(1), to, flow, payload: Bytes::new(), options };
    let mut cx = Cx::new(net.now);
    net.node(1).handle_tx(&mut cx, datagram);
    assert!(!net.node(1).room(Lane { flow, ..Lane::default() }).is_none());
}

#[test]
fn who_says_another_interval_each_time_may_say_no_more_hellos() {
    let mut net = Net::chain(2);
    net.run(10);
    let before = net.counters(1).overflow;
    for seq in 1..=20 {
        net.inject(2, hello_of_2(seq, 2 + u64::from(seq % 2)).encode(None));
    }
    assert!(net.counters(1).overflow - before >= 18, "{}", net.counters(1).overflow);
}

/// A HELLO of node 2 that announces one every so many seconds.
fn hello_of_2(seq: u16, seconds: u64) -> Message {
    Message {
        validity: Duration::from_secs(6),
        originator: AddressPlan::default().ipv4(NodeId(2)),
        ttl: 1,
        hops: 0,
        seq,
        body: Body::Hello(Hello {
            interval: Duration::from_secs(seconds),
            willingness: 3,
            neighbours: Vec::new(),
        }),
        bytes: Bytes::new(),
    }
}
