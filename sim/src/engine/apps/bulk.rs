//! Bulk transfers, saturated or of a given length, over TCP or in blocks.

use bytes::Bytes;
use farhop_proto::base::{Cx, FlowId, Instant, Lane, Layer as _, Message, MessageUp, NodeId};
use farhop_proto::stack::{AnyTransport, FlowConfig, FlowKind, Stack};
use farhop_proto::transport::hop::{HopPort, Role, key_of};
use farhop_proto::transport::tcp::{FlowEnd, Tcp, TcpConfig};

use super::{App, Ends, Net};
use crate::engine::report::FlowReport;
use crate::engine::world::Node;

/// The most bytes that a source writes at once.
pub(super) const WRITE_BYTES: usize = 32 * 1024;
/// The payload.
pub(super) static ZEROS: [u8; WRITE_BYTES] = [0; WRITE_BYTES];

/// The transport of a transfer.
#[derive(Clone)]
enum Carrier {
    Tcp(TcpConfig),
    Blocks,
}

/// One connection from the sending node, saturated or with a given number of bytes.
pub(super) struct Bulk {
    bytes: Option<u64>,
    carrier: Carrier,
    nodes: [usize; 2],
    source: FlowId,
    sink: FlowId,
    left: u64,
    is_open: bool,
    got: u64,
    completed: Option<Instant>,
}

impl Bulk {
    pub(super) fn build(config: &FlowConfig) -> Self {
        Self {
            bytes: config.bytes,
            carrier: match config.kind {
                FlowKind::Hop => Carrier::Blocks,
                _ => Carrier::Tcp(config.tcp_config()),
            },
            nodes: [0; 2],
            source: FlowId(0),
            sink: FlowId(0),
            left: config.bytes.unwrap_or(u64::MAX),
            is_open: false,
            got: 0,
            completed: None,
        }
    }
}

/// Adds the ends of a flow of blocks. Returns the source and the sink.
pub(super) fn add_blocks(net: &mut Net<'_>, ends: Ends) -> (FlowId, FlowId) {
    let machine = net.world.nodes[ends.nodes[0]].stack.flows.hop();
    let config = machine.expect("the plan has it").config().clone();
    let [source, _] = ends.nodes.map(|node| NodeId(node as u16 + 1));
    let port = |role, end: FlowEnd| {
        let key = key_of(source, end.local);
        AnyTransport::Hop(Box::new(HopPort::build(&config, end.flow, role, key, end.to)))
    };
    let from = net.add(ends, 0, None, |end| port(Role::Source, end));
    (from, net.add(ends, 1, None, |end| port(Role::Sink, end)))
}

impl App for Bulk {
    fn start(&mut self, net: &mut Net<'_>) {
        let ends = net.ends();
        self.nodes = ends.nodes;
        match self.carrier.clone() {
            Carrier::Tcp(tcp) => {
                let (caller, listener) = (tcp.clone(), tcp);
                let connect = |end| AnyTransport::Tcp(Box::new(Tcp::connect(caller, end)));
                let listen = |end| AnyTransport::Tcp(Box::new(Tcp::listen(listener, end)));
                self.source = net.add(ends, 0, None, connect);
                self.sink = net.add(ends, 1, None, listen);
            }
            Carrier::Blocks => (self.source, self.sink) = add_blocks(net, ends),
        }
        self.is_open = true;
    }

    fn writes(&self) -> bool {
        true
    }

    fn feed(&mut self, node: usize, cx: &mut Cx<'_>, stack: &mut Stack) {
        while self.can_feed(node, stack) {
            let bytes = self.left.min(WRITE_BYTES as u64);
            self.left -= if self.bytes.is_some() { bytes } else { 0 };
            let finish = self.left == 0;
            let payload = Bytes::from_static(&ZEROS).slice(..bytes as usize);
            stack.flows.handle_tx(cx, Message { flow: self.source, payload, finish });
            self.is_open = !finish;
        }
    }

    fn can_feed(&self, node: usize, stack: &Stack) -> bool {
        let lane = Lane { flow: self.source, ..Lane::default() };
        self.is_open && node == self.nodes[0] && !stack.flows.room(lane).is_none()
    }

    fn on_event(&mut self, node: usize, now: Instant, event: &MessageUp) {
        if let MessageUp::Received { payload, .. } = event
            && node == self.nodes[1]
        {
            self.got += payload.len() as u64;
            if self.bytes.is_some_and(|bytes| self.got >= bytes) {
                self.completed.get_or_insert(now);
            }
        }
    }

    fn stop(&mut self, _net: &mut Net<'_>) {
        self.is_open = false;
    }

    fn delivered(&self, nodes: &[Node]) -> u64 {
        let sink = nodes[self.nodes[1]].stack.flows.transport(self.sink);
        sink.map_or(0, |end| end.get().delivered_bytes())
    }

    fn completed(&self) -> Option<Instant> {
        self.completed
    }

    fn report(&self, nodes: &[Node], _end: Instant, report: &mut FlowReport) {
        let source = nodes[self.nodes[0]].stack.flows.transport(self.source);
        if let Some(source) = source {
            let status = source.get().status();
            report.sent_bytes = status.sent_bytes;
            report.retransmissions = status.counters.get("retransmissions").copied();
        }
    }
}
