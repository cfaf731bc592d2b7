//! Applications: the traffic that flows of a scenario generate above their transports.
//!
//! An application owns flow ends in the stacks of two nodes. It receives their events and writes
//! when there is room; whatever it starts later, it starts from its own timer.

mod bulk;
mod datagrams;
mod draw;
mod relayed;
mod voip;
mod web;

use std::net::SocketAddrV4;

use farhop_proto::base::{Cx, FlowId, Instant, MessageUp, NodeId, Seed};
use farhop_proto::stack::{AnyTransport, FlowConfig, FlowKind, Stack};
use farhop_proto::transport::tcp::FlowEnd;

use super::report::FlowReport;
use super::world::{Node, World};

/// The application of one flow.
pub(super) trait App {
    /// Starts it; called once.
    fn start(&mut self, net: &mut Net<'_>);
    /// When [`App::handle_timeout`] is due, in true time.
    fn poll_timeout(&self) -> Instant {
        Instant::MAX
    }
    /// Does what is due.
    fn handle_timeout(&mut self, _net: &mut Net<'_>) {}
    /// Whether it ever writes in [`App::feed`]; asked when it starts.
    fn writes(&self) -> bool {
        false
    }
    /// Further nodes, besides the two ends, at which it writes now.
    fn relays(&self) -> Vec<usize> {
        Vec::new()
    }
    /// Writes as much as its ends at `node` have room for.
    fn feed(&mut self, _node: usize, _cx: &mut Cx<'_>, _stack: &mut Stack) {}
    /// Whether it could write at `node` now.
    fn can_feed(&self, _node: usize, _stack: &Stack) -> bool {
        false
    }
    /// Takes an event of one of its ends.
    fn on_event(&mut self, _node: usize, _now: Instant, _event: &MessageUp) {}
    /// Begins the measurement anew.
    fn begin_measure(&mut self, _net: &mut Net<'_>) {}
    /// Sends nothing new from now on.
    fn stop(&mut self, net: &mut Net<'_>);
    /// Payload bytes that the receiving application got.
    fn delivered(&self, nodes: &[Node]) -> u64;
    /// Whether nothing of a transfer counts as delivered before all of it is.
    fn delivers_at_once(&self) -> bool {
        false
    }
    /// When the last byte of a transfer of known length arrived.
    fn completed(&self) -> Option<Instant> {
        None
    }
    /// Adds its results to the report of its flow.
    fn report(&self, nodes: &[Node], end: Instant, report: &mut FlowReport);
}

/// What an application acts on: its two nodes, and the world around them.
pub(super) struct Net<'a> {
    pub(super) world: &'a mut World,
    /// For each node, the flow of the scenario that owns each of its flow ends.
    pub(super) owners: &'a mut [Vec<usize>],
    /// Number of the flow in the scenario.
    pub(super) flow: usize,
    pub(super) now: Instant,
    /// Indices of the sending and the receiving node.
    pub(super) from: usize,
    pub(super) to: usize,
    /// Port of the flow.
    pub(super) port: u16,
    /// DSCP mark of its packets.
    pub(super) dscp: u8,
}

/// Both ends of a connection: their nodes and ports.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    pub(super) nodes: [usize; 2],
    pub(super) ports: [u16; 2],
}

impl Net<'_> {
    /// The ends of the flow, `from` first, both on the port of the flow.
    fn ends(&self) -> Ends {
        Ends { nodes: [self.from, self.to], ports: [self.port; 2] }
    }

    /// Adds an end at `ends.nodes[side]`, or replaces an `old` one.
    fn add(
        &mut self,
        ends: Ends,
        side: usize,
        old: Option<FlowId>,
        build: impl FnOnce(FlowEnd) -> AnyTransport,
    ) -> FlowId {
        let (node, peer) = (ends.nodes[side], ends.nodes[1 - side]);
        let addresses = self.world.addresses;
        let id = |node: usize| NodeId(node as u16 + 1);
        let socket = |node, port| SocketAddrV4::new(addresses.ipv4(id(node)), port);
        let flows = &mut self.world.nodes[node].stack.flows;
        let flow = old.unwrap_or_else(|| flows.next_flow());
        let transport = build(FlowEnd {
            flow,
            to: id(peer),
            local: socket(node, ends.ports[side]),
            remote: socket(peer, ends.ports[1 - side]),
        });
        if old.is_some() {
            flows.replace(flow, transport, self.dscp);
        } else {
            flows.add(transport, self.dscp);
            debug_assert_eq!(self.owners[node].len(), usize::from(flow.0));
            self.owners[node].push(self.flow);
        }
        self.world.mark_due(node);
        flow
    }

    fn transport_mut(&mut self, node: usize, flow: FlowId) -> &mut AnyTransport {
        let found = self.world.nodes[node].stack.flows.transport_mut(flow);
        found.expect("an application knows its own ends")
    }
}

/// Builds the application of a flow; `place` maps the name of a node to its index.
pub(super) fn build(
    config: &FlowConfig,
    index: usize,
    seed: Seed,
    place: &dyn Fn(&str) -> usize,
) -> Box<dyn App> {
    let rng = seed.stream(&format!("flow/{index}"));
    match config.kind {
        FlowKind::Tcp | FlowKind::Hop => Box::new(bulk::Bulk::build(config)),
        FlowKind::Relayed => Box::new(relayed::Relayed::build(config, place)),
        FlowKind::Udp => Box::new(datagrams::Datagrams::constant(config)),
        FlowKind::OnOff => Box::new(datagrams::Datagrams::on_off(config, rng)),
        FlowKind::Web => Box::new(web::Web::build(config, rng)),
        FlowKind::Voip => Box::new(voip::Voip::build(config)),
    }
}
