//! The top of a node's stack: the flow ends that run here, and the port to the host's own IP stack
//! (the TUN device of a daemon).

use std::collections::VecDeque;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::any::AnyTransport;
use crate::base::{
    AddressPlan, Cx, Datagram, DatagramUp, Datagrams, Destination, FlowId, Instant, Lane, Layer,
    Message, MessageUp, Messages, Room, RoomBelow, TxOptions, UnitIds,
};
use crate::wire::ip;

/// IP packets for the host that may wait to be taken.
const HOST_PACKETS: usize = 1024;

/// What passed the top of a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowsStats {
    /// IP packets taken from the host and the flows here.
    pub sent: u64,
    /// IP packets given to the host or the flows here.
    pub received: u64,
    /// Of what the host or a transport that knows no backpressure sent, dropped for lack of room.
    pub queue_full: u64,
    /// From the host, for an address that no node has.
    pub no_node: u64,
    /// For the host, which did not take them in time.
    pub host_full: u64,
}

/// The flow ends of a node, and its port to the host.
///
/// A flow end is named by [`FlowId`] in the order in which it was added, from 0.
#[derive(Debug)]
pub struct Flows {
    plan: AddressPlan,
    ends: Vec<End>,
    from_host: VecDeque<Datagram>,
    to_host: VecDeque<Bytes>,
    ids: UnitIds,
    turn: usize,
    stats: FlowsStats,
}

#[derive(Debug)]
struct End {
    transport: AnyTransport,
    held: Option<Datagram>,
}

impl Flows {
    /// The top of a stack without flows.
    pub fn build(plan: AddressPlan) -> Self {
        Self {
            plan,
            ends: Vec::new(),
            from_host: VecDeque::new(),
            to_host: VecDeque::new(),
            ids: UnitIds::default(),
            turn: 0,
            stats: FlowsStats::default(),
        }
    }

    /// The name that the next flow end will have.
    pub fn next_flow(&self) -> FlowId {
        FlowId(self.ends.len() as u16)
    }

    /// Adds a flow end, built with the name [`Flows::next_flow`].
    pub fn add(&mut self, transport: AnyTransport) {
        self.ends.push(End { transport, held: None });
    }

    /// Puts a flow end, built with the name `flow`, in the place of an old one.
    ///
    /// Panics if there is no such end.
    pub fn replace(&mut self, flow: FlowId, transport: AnyTransport) {
        let end = self.ends.get_mut(usize::from(flow.0)).expect("an end to be replaced");
        *end = End { transport, held: None };
    }

    /// A flow end.
    pub fn transport(&self, flow: FlowId) -> Option<&AnyTransport> {
        self.ends.get(usize::from(flow.0)).map(|end| &end.transport)
    }

    /// A flow end, to be told something.
    pub fn transport_mut(&mut self, flow: FlowId) -> Option<&mut AnyTransport> {
        self.ends.get_mut(usize::from(flow.0)).map(|end| &mut end.transport)
    }

    /// Takes an IP packet of the host's own stack. It is dropped at the end of the turn if its
    /// lane has no room.
    pub fn handle_ip(&mut self, packet: Bytes) {
        let Some(node) = ip::destination(&packet).and_then(|addr| self.plan.node(addr)) else {
            self.stats.no_node += 1;
            return;
        };
        let datagram = Datagram {
            id: self.ids.next_id(),
            to: Destination::End(node),
            flow: ip::flow(&packet),
            payload: packet,
            options: TxOptions::default(),
        };
        self.from_host.push_back(datagram);
    }

    /// Gives the next IP packet for the host's own stack.
    pub fn poll_ip(&mut self) -> Option<Bytes> {
        self.to_host.pop_front()
    }

    /// Drops what the host and transports without backpressure sent and nobody had room for, as a
    /// full interface queue does. Returns whether there was anything.
    pub(super) fn drop_unsent(&mut self) -> bool {
        let mut dropped = self.from_host.len() as u64;
        self.from_host.clear();
        for end in &mut self.ends {
            dropped += u64::from(end.held.take().is_some());
        }
        self.stats.queue_full += dropped;
        dropped > 0
    }

    /// What passed.
    pub fn stats(&self) -> FlowsStats {
        self.stats
    }

    fn on_received(&mut self, cx: &mut Cx<'_>, via: crate::base::NodeId, payload: Bytes) {
        self.stats.received += 1;
        let end = self.ends.iter_mut().find(|end| end.transport.get().accepts(&payload));
        if let Some(end) = end {
            end.transport.get_mut().handle_rx(cx, DatagramUp::Received { via, payload });
        } else if self.to_host.len() < HOST_PACKETS {
            self.to_host.push_back(payload);
        } else {
            self.stats.host_full += 1;
        }
    }
}

/// The lane of a datagram as far as it is known above routing: its flow.
fn lane(datagram: &Datagram) -> Lane {
    Lane { flow: datagram.flow, ..Lane::default() }
}

impl Layer for Flows {
    type Above = Messages;
    type Below = Datagrams;

    fn handle_rx(&mut self, cx: &mut Cx<'_>, event: DatagramUp) {
        match event {
            DatagramUp::Received { via, payload } => self.on_received(cx, via, payload),
            DatagramUp::NextHop { .. } => {
                for end in &mut self.ends {
                    end.transport.get_mut().handle_rx(cx, event.clone());
                }
            }
            // No transport of today asks what became of a single datagram.
            DatagramUp::Done(_) | DatagramUp::Dropped { .. } => {}
        }
    }

    fn poll_rx(&mut self, cx: &mut Cx<'_>) -> Option<MessageUp> {
        self.ends.iter_mut().find_map(|end| end.transport.get_mut().poll_rx(cx))
    }

    fn room(&self, lane: Lane) -> Room {
        self.transport(lane.flow).map_or(Room::NONE, |transport| transport.get().room(lane))
    }

    fn handle_tx(&mut self, cx: &mut Cx<'_>, message: Message) {
        let end = self.ends.get_mut(usize::from(message.flow.0));
        let end = end.expect("a message for a flow that was added");
        end.transport.get_mut().handle_tx(cx, message);
    }

    fn poll_tx(&mut self, cx: &mut Cx<'_>, below: &RoomBelow<'_>) -> Option<Datagram> {
        let has_room = |datagram: &Datagram| !below(lane(datagram)).is_none();
        if let Some(index) = self.from_host.iter().position(has_room) {
            self.stats.sent += 1;
            return self.from_host.remove(index);
        }
        for _ in 0..self.ends.len() {
            self.turn = (self.turn + 1) % self.ends.len();
            let end = &mut self.ends[self.turn];
            let found = end.held.take().or_else(|| {
                let unlimited = |_| Room::UNLIMITED;
                let room: &RoomBelow<'_> =
                    if end.transport.is_backpressured() { below } else { &unlimited };
                let mut datagram = end.transport.get_mut().poll_tx(cx, room)?;
                datagram.id = self.ids.next_id();
                Some(datagram)
            });
            match found {
                Some(datagram) if has_room(&datagram) => {
                    self.stats.sent += 1;
                    return Some(datagram);
                }
                held => end.held = held,
            }
        }
        None
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.ends.iter().filter_map(|end| end.transport.get().poll_timeout()).min()
    }

    fn handle_timeout(&mut self, cx: &mut Cx<'_>) {
        for end in &mut self.ends {
            if end.transport.get().poll_timeout().is_some_and(|due| due <= cx.now) {
                end.transport.get_mut().handle_timeout(cx);
            }
        }
    }
}
