//! The top of a node's stack: the flow ends that run here, and the port to the host's own IP stack
//! (the TUN device of a daemon).

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::any::AnyTransport;
use super::ends::Ends;
use crate::base::{
    AddressPlan, Cx, Datagram, DatagramUp, Datagrams, Dbm, Destination, FlowId, Instant, Lane,
    Layer, Message, MessageUp, Messages, Networks, NodeId, PacketDone, Room, RoomBelow, TxOptions,
    UnitIds, sooner,
};
use crate::transport::hop::{Hop, HopPort};
use crate::wire::hop::Refusal;
use crate::wire::ip;

/// Most IP packets that wait for the host to take them.
const HOST_PACKETS: usize = 1024;

/// Counters of what passed the top of a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowsStats {
    /// IP packets taken from the host and the flows here.
    pub sent: u64,
    /// IP packets given to the host or the flows here.
    pub received: u64,
    /// Packets of the host, or of a transport without backpressure, that were dropped for lack of
    /// room.
    pub queue_full: u64,
    /// Packets from the host for an address that no node has, and no network behind nodes.
    pub no_node: u64,
    /// Multicast and broadcast packets from the host: they go nowhere, and nobody waits for them.
    #[serde(default)]
    pub multicast: u64,
    /// Packets for the host that it did not take in time.
    pub host_full: u64,
}

/// The flow ends of a node, and its port to the host.
///
/// A [`FlowId`] identifies a flow end: its number in the order of addition, from 0.
#[derive(Debug)]
pub struct Flows {
    plan: AddressPlan,
    networks: Arc<Networks>,
    ends: Ends,
    /// Packets between the stack and the host; `None` until there is one.
    host: Option<Box<HostPort>>,
    /// The machine for flows of blocks; `None` if there are none.
    hop: Option<Box<Hop>>,
    /// Whether blocks are moved to and from the machine by a caller outside, not by the flow ends.
    is_hop_outside: bool,
    /// Whether no blocks are carried for now. The machine then still learns routes, because each is
    /// announced only once.
    is_hop_shut: bool,
    ids: UnitIds,
    turn: usize,
    /// The flow end whose blocks are taken first: the one after the last that gave one.
    hop_turn: usize,
    /// The end that took the last packet: the next one is most likely for it too.
    latest: usize,
    /// Whether an end or the host may have something to send, whatever the room below.
    may_sink: bool,
    /// Whether an end holds a datagram for which there was no room.
    is_holding: bool,
    stats: FlowsStats,
}

/// Packets between the stack and the host.
#[derive(Debug, Default)]
struct HostPort {
    from: VecDeque<Datagram>,
    to: VecDeque<Bytes>,
}

impl Flows {
    /// The top of a stack, without flows.
    pub fn build(plan: AddressPlan) -> Self {
        Self {
            plan,
            networks: Arc::default(),
            ends: Ends::new(),
            host: None,
            hop: None,
            is_hop_outside: false,
            is_hop_shut: false,
            ids: UnitIds::default(),
            turn: 0,
            hop_turn: 0,
            latest: 0,
            may_sink: false,
            is_holding: false,
            stats: FlowsStats::default(),
        }
    }

    /// Routes packets of the host to these networks too.
    pub(super) fn set_networks(&mut self, networks: Arc<Networks>) {
        self.networks = networks;
    }

    /// Reads a word from each part of the first ends, see [`super::Stack::fetch`].
    pub(super) fn fetch(&self) -> u64 {
        let ends = self.ends.iter().take(2);
        ends.fold(self.stats.sent, |sum, end| sum ^ end.fetch())
    }

    /// The id that the next flow end will have.
    ///
    /// Panics if there are so many ends that no id is left.
    pub fn next_flow(&self) -> FlowId {
        let next = u16::try_from(self.ends.len()).map(FlowId);
        let next = next.ok().filter(|flow| *flow != FlowId::CONTROL);
        next.expect("fewer flow ends at a node than there are ids")
    }

    /// Adds a flow end that was built with the id [`Flows::next_flow`]. Its packets are marked with
    /// a differentiated services code point (RFC 2474).
    pub fn add(&mut self, transport: AnyTransport, dscp: u8) {
        self.ends.add(transport, dscp);
        self.may_sink = true;
    }

    /// Replaces a flow end by one that was built with the id `flow`.
    ///
    /// Panics if there is no such end.
    pub fn replace(&mut self, flow: FlowId, transport: AnyTransport, dscp: u8) {
        self.ends.replace(usize::from(flow.0), transport, dscp);
        self.may_sink = true;
    }

    /// Adds the machine for flows of blocks.
    pub(super) fn set_hop(&mut self, hop: Hop) {
        self.hop = Some(Box::new(hop));
    }

    /// Starts carrying blocks, or stops. After a stop it may start again, if no block came before
    /// the stop.
    pub fn carry_blocks(&mut self, are_carried: bool) {
        self.is_hop_shut = !are_carried;
        self.may_sink = true;
    }

    /// The machine for flows of blocks; `None` while none are carried.
    pub fn hop(&self) -> Option<&Hop> {
        self.hop.as_deref().filter(|_| !self.is_hop_shut)
    }

    fn hop_mut(&mut self) -> Option<&mut Hop> {
        self.hop.as_deref_mut().filter(|_| !self.is_hop_shut)
    }

    /// The same machine, for a caller that moves blocks to and from it in place of the flow ends.
    pub fn hop_outside(&mut self) -> Option<&mut Hop> {
        self.is_hop_outside = true;
        self.may_sink = true;
        self.hop_mut()
    }

    /// Moves blocks between the machine and the flow ends.
    fn settle_hop(&mut self, now: Instant) {
        let Some(hop) = self.hop.as_mut().filter(|_| !self.is_hop_outside) else { return };
        let (first, count) = (self.hop_turn, self.ends.len());
        for index in (first..first + count).map(|index| index % count) {
            while let Some(port) = self.ends.port(index)
                && port.waiting().is_some_and(|(flow, bytes)| hop.has_room(now, flow, bytes))
                && let Some((id, to, is_last, frames)) = port.poll_block()
            {
                self.ends.on_block_taken(index);
                hop.push(now, id, to, is_last, frames);
                self.hop_turn = index + 1;
            }
        }
        while let Some(delivery) = hop.poll_delivery() {
            let id = delivery.id;
            let Some(port) = self.ends.wake_port(id.flow, HopPort::sink_of) else {
                hop.refuse(now, id, Refusal::Unwanted);
                continue;
            };
            self.stats.received += 1;
            port.handle_delivery(delivery);
            hop.accept(now, id);
        }
        while let Some(arrived) = hop.poll_arrived() {
            if let Some(port) = self.ends.wake_port(arrived.id.flow, HopPort::source_of) {
                port.handle_arrived(arrived);
            }
        }
    }

    /// Handles an event for the machine.
    fn handle_hop(&mut self, cx: &mut Cx<'_>, event: DatagramUp) {
        if let Some(hop) = &mut self.hop {
            hop.handle_rx(cx, event);
            self.may_sink = true;
            self.settle_hop(cx.now);
        }
    }

    /// A flow end.
    pub fn transport(&self, flow: FlowId) -> Option<&AnyTransport> {
        self.ends.get(usize::from(flow.0))
    }

    /// A flow end, to hand it something.
    pub fn transport_mut(&mut self, flow: FlowId) -> Option<&mut AnyTransport> {
        self.wake(usize::from(flow.0))
    }

    /// A flow end that is handed something, after which it may have something to give.
    fn wake(&mut self, index: usize) -> Option<&mut AnyTransport> {
        let transport = self.ends.wake(index)?;
        self.may_sink = true;
        Some(transport)
    }

    /// Whether there are so many flow ends that [`Flows::poll_roomier`] lists them.
    pub fn are_many(&self) -> bool {
        self.ends.are_many()
    }

    /// Gives the next flow end, of many, that may have more room for messages than when it was
    /// given last.
    pub fn poll_roomier(&mut self) -> Option<FlowId> {
        self.ends.poll_roomier().map(|index| FlowId(index as u16))
    }

    /// Whether there may be something new to send.
    pub(super) fn may_sink(&self) -> bool {
        self.may_sink
    }

    /// Takes an IP packet from the host's own IP stack. It is dropped at the end of the turn if its
    /// lane has no room.
    pub fn handle_ip(&mut self, packet: Bytes) {
        let to = ip::destination(&packet);
        // Every host looks for routers and announces its groups on every interface.
        if to.is_some_and(|addr| self.plan.is_of_many(addr)) {
            self.stats.multicast += 1;
            return;
        }
        let node = |addr| self.plan.node(addr).map(Destination::End);
        let beyond = |addr| self.networks.find(addr).map(Destination::Network);
        let Some(to) = to.and_then(|addr| node(addr).or_else(|| beyond(addr))) else {
            self.stats.no_node += 1;
            return;
        };
        let datagram = Datagram {
            id: self.ids.next_id(),
            to,
            flow: ip::flow(&packet),
            payload: packet,
            options: TxOptions::default(),
        };
        self.host.get_or_insert_default().from.push_back(datagram);
        self.may_sink = true;
    }

    /// Gives the next IP packet for the host's own IP stack.
    pub fn poll_ip(&mut self) -> Option<Bytes> {
        self.host.as_mut()?.to.pop_front()
    }

    /// Drops packets of the host and of transports without backpressure for which there was no
    /// room, as a full interface queue does. Returns whether there were any.
    pub(super) fn drop_unsent(&mut self) -> bool {
        if self.host.is_none() && !self.is_holding {
            return false;
        }
        let from_host = self.host.as_mut().map_or(0, |host| host.from.drain(..).len());
        let mut dropped = from_host as u64;
        if std::mem::take(&mut self.is_holding) {
            dropped += self.ends.drop_held();
        }
        self.stats.queue_full += dropped;
        self.may_sink |= dropped > 0;
        dropped > 0
    }

    /// What passed so far.
    pub fn stats(&self) -> FlowsStats {
        let refused = |end: &AnyTransport| match end {
            AnyTransport::Udp(udp) => udp.refused(),
            _ => 0,
        };
        let refused = self.ends.iter().map(refused).sum::<u64>();
        FlowsStats { queue_full: self.stats.queue_full + refused, ..self.stats }
    }

    /// Gives the next datagram of the flow ends, which take turns.
    #[inline(never)]
    fn poll_ends(&mut self, cx: &mut Cx<'_>, below: &RoomBelow<'_>) -> Option<Datagram> {
        let last = self.turn;
        let mut at = last;
        while let Some(index) = self.ends.next_to_sink(at, last) {
            let datagram = match self.ends.take_held(index) {
                Some(held) => Some(held),
                None => self.ends.poll_tx(index, cx, below).map(|mut datagram| {
                    datagram.id = self.ids.next_id();
                    datagram
                }),
            };
            if let Some(datagram) = datagram {
                if !below(lane(&datagram)).is_none() {
                    self.stats.sent += 1;
                    self.turn = index;
                    return Some(datagram);
                }
                self.ends.hold(index, datagram);
                self.is_holding = true;
            }
            if index == last {
                break;
            }
            at = index;
        }
        self.ends.sum_up();
        self.may_sink = false;
        None
    }

    fn on_received(&mut self, cx: &mut Cx<'_>, via: NodeId, payload: Bytes, signal: Option<Dbm>) {
        // What is for a host behind this node is not for this node, whatever its port.
        let is_beyond = || {
            let network = |address| self.networks.find(address);
            !self.networks.all().is_empty() && ip::destination(&payload).and_then(network).is_some()
        };
        if self.hop().is_some() && Hop::accepts(&payload) && !is_beyond() {
            return self.handle_hop(cx, DatagramUp::Received { via, payload, signal });
        }
        self.stats.received += 1;
        if let Some(index) = self.ends.accepting(&payload, self.latest) {
            self.latest = index;
            let transport = self.wake(index).expect("it was found");
            transport.get_mut().handle_rx(cx, DatagramUp::Received { via, payload, signal });
            return;
        }
        let to_host = &mut self.host.get_or_insert_default().to;
        if to_host.len() < HOST_PACKETS {
            to_host.push_back(payload);
        } else {
            self.stats.host_full += 1;
        }
    }
}

/// The lane of a datagram, as far as it is known above routing: its flow.
fn lane(datagram: &Datagram) -> Lane {
    Lane { flow: datagram.flow, ..Lane::default() }
}

impl Layer for Flows {
    type Above = Messages;
    type Below = Datagrams;

    fn handle_rx(&mut self, cx: &mut Cx<'_>, event: DatagramUp) {
        match event {
            DatagramUp::Received { via, payload, signal } => {
                self.on_received(cx, via, payload, signal);
            }
            DatagramUp::Drowned(_) => self.handle_hop(cx, event),
            DatagramUp::NextHop { .. } => {
                for index in 0..self.ends.len() {
                    let transport = self.wake(index).expect("an end of ours");
                    transport.get_mut().handle_rx(cx, event.clone());
                }
                self.handle_hop(cx, event);
            }
            DatagramUp::Done(PacketDone { id, .. }) | DatagramUp::Dropped { id, .. } => {
                // Flow ends do not ask what became of a single datagram.
                if Hop::is_its_own(id) {
                    self.handle_hop(cx, event);
                }
            }
        }
    }

    #[inline]
    fn poll_rx(&mut self, cx: &mut Cx<'_>) -> Option<MessageUp> {
        let event = self.ends.poll_rx(cx);
        self.may_sink |= event.is_some();
        event
    }

    fn room(&self, lane: Lane) -> Room {
        self.transport(lane.flow).map_or(Room::NONE, |transport| transport.get().room(lane))
    }

    fn handle_tx(&mut self, cx: &mut Cx<'_>, message: Message) {
        let transport = self.transport_mut(message.flow);
        let transport = transport.expect("a message for a flow that was added");
        transport.get_mut().handle_tx(cx, message);
        self.settle_hop(cx.now);
    }

    fn poll_tx(&mut self, cx: &mut Cx<'_>, below: &RoomBelow<'_>) -> Option<Datagram> {
        let has_room = |datagram: &Datagram| !below(lane(datagram)).is_none();
        if let Some(host) = &mut self.host
            && let Some(index) = host.from.iter().position(has_room)
        {
            self.stats.sent += 1;
            return host.from.remove(index);
        }
        if let Some(datagram) = self.hop_mut().and_then(|hop| hop.poll_tx(cx, below)) {
            self.stats.sent += 1;
            return Some(datagram);
        }
        if self.ends.may_sink() {
            return self.poll_ends(cx, below);
        }
        self.may_sink = false;
        None
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Instant> {
        sooner(self.hop().and_then(Hop::poll_timeout), self.ends.poll_timeout())
    }

    fn handle_timeout(&mut self, cx: &mut Cx<'_>) {
        if self.ends.handle_timeout(cx) {
            self.may_sink = true;
        }
        if let Some(hop) = self.hop_mut() {
            hop.handle_timeout(cx);
            self.may_sink = true;
            self.settle_hop(cx.now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::base::{NodeId, RadioId, Seed};
    use crate::transport::hop::{HopConfig, Role};
    use crate::transport::tcp::FlowEnd;
    use crate::transport::udp::{Udp, UdpConfig};
    use crate::wire::hop::{BlockId, FlowKey};

    fn one_source() -> Flows {
        let mut flows = Flows::build(AddressPlan::default());
        let socket = |node: u8| std::net::SocketAddrV4::new([10, 66, 0, node].into(), 4_000);
        let (flow, to) = (flows.next_flow(), NodeId(2));
        let end = FlowEnd { flow, to, local: socket(1), remote: socket(2) };
        let source = UdpConfig::Source { rate: None, size: 100, bytes: None };
        flows.add(AnyTransport::Udp(Box::new(Udp::build(source, end))), 0);
        flows
    }

    fn source(flows: &mut Flows) -> &mut Udp {
        match flows.transport_mut(FlowId(0)) {
            Some(AnyTransport::Udp(source)) => source,
            other => panic!("{other:?} is not the source"),
        }
    }

    #[test]
    fn an_end_with_nothing_to_give_is_asked_again_once_it_was_told_something() {
        let (mut flows, mut cx) = (one_source(), Cx::new(Instant::ZERO));
        source(&mut flows).pause(Instant::ZERO);
        assert!(flows.poll_tx(&mut cx, &|_| Room::UNLIMITED).is_none());
        assert!(!flows.may_sink());
        source(&mut flows).resume(Instant::ZERO);
        assert!(flows.may_sink());
        assert!(flows.poll_tx(&mut cx, &|_| Room::UNLIMITED).is_some());
    }

    #[test]
    fn an_end_that_found_no_room_is_asked_again_without_being_told_anything() {
        let (mut flows, mut cx) = (one_source(), Cx::new(Instant::ZERO));
        assert!(flows.poll_tx(&mut cx, &|_| Room::NONE).is_none());
        assert!(flows.poll_tx(&mut cx, &|_| Room::UNLIMITED).is_some());
    }

    #[test]
    fn what_the_host_sends_to_groups_or_to_all_is_no_drop() {
        let mut flows = Flows::build(AddressPlan::default());
        let packet = |to: &str| {
            let mut packet = vec![0; 40];
            match to.parse().expect("an address") {
                IpAddr::V4(to) => {
                    packet[0] = 0x45;
                    packet[16..20].copy_from_slice(&to.octets());
                }
                IpAddr::V6(to) => {
                    packet[0] = 0x60;
                    packet[24..].copy_from_slice(&to.octets());
                }
            }
            Bytes::from(packet)
        };
        let of_many = ["ff02::2", "ff02::16", "224.0.0.1", "255.255.255.255", "10.66.255.255"];
        for to in of_many.into_iter().chain(["2001:db8::1", "10.67.255.255"]) {
            flows.handle_ip(packet(to));
        }
        assert_eq!((flows.stats().multicast, flows.stats().no_node), (5, 2));
        assert!(!flows.may_sink());
    }

    #[test]
    fn a_route_that_was_told_while_no_blocks_were_carried_is_known_once_they_are() {
        let (plan, rng) = (AddressPlan::default(), Seed(1).stream("hop"));
        let (mut flows, mut cx) = (Flows::build(plan), Cx::new(Instant::ZERO));
        flows.set_hop(Hop::build(HopConfig::default(), NodeId(1), plan, None, rng));
        flows.hop_outside();
        flows.carry_blocks(false);
        flows.handle_rx(
            &mut cx,
            DatagramUp::NextHop { dst: NodeId(2), via: NodeId(2), radio: RadioId(0), hops: 1 },
        );
        assert!(flows.hop().is_none() && flows.hop_outside().is_none());
        flows.carry_blocks(true);
        let hop = flows.hop_outside().expect("it was set");
        let id = BlockId { flow: FlowKey { source: NodeId(1), local: 7 }, number: 0 };
        hop.push(cx.now, id, NodeId(2), true, vec![Bytes::from_static(b"all of it")]);
        assert!(flows.poll_tx(&mut cx, &|_| Room::UNLIMITED).is_some(), "it knows no way");
        flows.carry_blocks(false);
        assert!(flows.poll_tx(&mut cx, &|_| Room::UNLIMITED).is_none());
        assert_eq!(flows.poll_timeout(), None);
    }

    #[test]
    fn ends_have_their_blocks_taken_in_turns_where_memory_holds_one() {
        let config =
            HopConfig { block_bytes: Some(8_191), memory_bytes: 20_000, ..HopConfig::default() };
        let (plan, rng) = (AddressPlan::default(), Seed(1).stream("hop"));
        let mut flows = Flows::build(plan);
        flows.set_hop(Hop::build(config.clone(), NodeId(1), plan, None, rng));
        let key = |flow: FlowId| FlowKey { source: NodeId(1), local: flow.0.into() };
        let all = [0, 1, 2].map(FlowId);
        for flow in all {
            let port = HopPort::build(&config, flow, Role::Source, key(flow), NodeId(2));
            flows.add(AnyTransport::Hop(Box::new(port)), 0);
        }
        let mut turns = Vec::new();
        for _ in 0..6 {
            for flow in all {
                let message = Message { flow, payload: vec![1; 8_191].into(), finish: false };
                flows.handle_tx(&mut Cx::new(Instant::ZERO), message);
            }
            let hop = flows.hop.as_mut().expect("it was set");
            let taken = all.into_iter().find(|flow| hop.heard_of(key(*flow)).is_some());
            let taken = taken.expect("there is room for one");
            hop.abandon(key(taken));
            turns.push(taken.0);
        }
        assert_eq!(turns, [0, 1, 2, 0, 1, 2]);
    }
}
