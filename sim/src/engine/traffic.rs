//! Traffic: the flows of a scenario as flow ends in the stacks, fed and measured.

use std::net::SocketAddrV4;

use bytes::Bytes;
use farhop_proto::base::{
    Bitrate, Cx, FlowId, Instant, Lane, Layer as _, Message, MessageUp, NodeId,
};
use farhop_proto::stack::{AnyTransport, FlowConfig, FlowKind, Scenario, Stack};
use farhop_proto::transport::tcp::{FlowEnd, Tcp};
use farhop_proto::transport::udp::{Udp, UdpConfig};

use super::world::World;

/// Bytes that a bulk source writes at once.
const WRITE_BYTES: usize = 32 * 1024;
/// What bulk sources send.
static ZEROS: [u8; WRITE_BYTES] = [0; WRITE_BYTES];
/// First port of the flows; each has one of its own.
const FIRST_PORT: u16 = 5001;

/// One flow of the scenario.
pub(super) struct Flow {
    pub(super) config: FlowConfig,
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) start: Instant,
    pub(super) stop: Instant,
    /// Names of its ends in the stacks of `from` and `to`, once it has started.
    pub(super) ends: Option<(FlowId, FlowId)>,
    left_to_write: u64,
    is_open: bool,
    is_measured: bool,
    pub(super) delivered: u64,
    pub(super) last_delivery: Option<Instant>,
    pub(super) bins: Vec<u64>,
}

/// All flows.
pub(super) struct Traffic {
    pub(super) flows: Vec<Flow>,
    /// For each node, the flows that begin and end there, by their name in its stack.
    at_node: Vec<Vec<usize>>,
    now: Instant,
}

impl Traffic {
    pub(super) fn build(scenario: &Scenario) -> Self {
        let index = |name: &str| {
            let node = scenario.node_id(name).expect("the scenario has no problems");
            usize::from(node.0) - 1
        };
        let at = |secs: f64| Instant::ZERO + farhop_proto::base::Duration::from_secs_f64(secs);
        let flow = |config: &FlowConfig| Flow {
            from: index(&config.from),
            to: index(&config.to),
            start: at(config.start_s),
            stop: at(config.stop_s.unwrap_or(scenario.duration_s)),
            ends: None,
            left_to_write: config.bytes.unwrap_or(u64::MAX),
            is_open: false,
            is_measured: false,
            delivered: 0,
            last_delivery: None,
            bins: Vec::new(),
            config: config.clone(),
        };
        Self {
            flows: scenario.flow.iter().map(flow).collect(),
            at_node: vec![Vec::new(); scenario.node.len()],
            now: Instant::ZERO,
        }
    }

    /// The next time at which a flow starts or stops.
    pub(super) fn poll_timeout(&self) -> Instant {
        let next = |flow: &Flow| match (flow.ends, flow.is_measured) {
            (None, _) => flow.start,
            (Some(_), true) => flow.stop,
            (Some(_), false) => Instant::MAX,
        };
        self.flows.iter().map(next).min().unwrap_or(Instant::MAX)
    }

    /// Starts and stops what is due.
    pub(super) fn handle_timeout(&mut self, now: Instant, world: &mut World) {
        self.now = now;
        for index in 0..self.flows.len() {
            let flow = &self.flows[index];
            if flow.ends.is_none() && flow.start <= now {
                self.start(index, world);
            } else if flow.is_measured && flow.stop <= now {
                let flow = &mut self.flows[index];
                flow.sample(world);
                flow.is_open = false;
                flow.is_measured = false;
                if let Some((source, _)) = flow.ends
                    && let Some(AnyTransport::Udp(udp)) =
                        world.nodes[flow.from].stack.flows.transport_mut(source)
                {
                    udp.stop();
                }
            }
        }
    }

    fn start(&mut self, index: usize, world: &mut World) {
        let flow = &mut self.flows[index];
        let port = FIRST_PORT + index as u16;
        let plan = world.nodes[flow.from].plan.addresses;
        let address = |node: usize| SocketAddrV4::new(plan.ipv4(node_id(node)), port);
        let (from, to) = (flow.from, flow.to);
        let end = |flow: FlowId, local: usize, remote: usize| FlowEnd {
            flow,
            to: node_id(remote),
            local: address(local),
            remote: address(remote),
        };
        let source = world.nodes[from].stack.flows.next_flow();
        let sink = world.nodes[to].stack.flows.next_flow();
        let config = &flow.config;
        let ends = (end(source, from, to), end(sink, to, from));
        let (sender, receiver) = match config.kind {
            FlowKind::Tcp => {
                let tcp = config.tcp_config();
                let listener = AnyTransport::Tcp(Box::new(Tcp::listen(tcp.clone(), ends.1)));
                (AnyTransport::Tcp(Box::new(Tcp::connect(tcp, ends.0))), listener)
            }
            _ => {
                let source = UdpConfig::Source {
                    rate: config.rate_mbps.map(Bitrate::from_mbps),
                    size: config.size_bytes,
                    bytes: None,
                };
                let sink = AnyTransport::Udp(Box::new(Udp::build(UdpConfig::Sink, ends.1)));
                (AnyTransport::Udp(Box::new(Udp::build(source, ends.0))), sink)
            }
        };
        world.nodes[from].stack.flows.add(sender);
        world.nodes[to].stack.flows.add(receiver);
        flow.ends = Some((source, sink));
        flow.is_open = config.kind == FlowKind::Tcp;
        flow.is_measured = true;
        for node in [from, to] {
            self.at_node[node].push(index);
            world.mark_due(node);
        }
    }

    /// Writes what the sources at a node have and their transports have room for.
    pub(super) fn feed(&mut self, node: usize, cx: &mut Cx<'_>, stack: &mut Stack) {
        for index in &self.at_node[node] {
            let flow = &mut self.flows[*index];
            let Some((source, _)) = flow.ends.filter(|_| flow.is_open && flow.from == node) else {
                continue;
            };
            let lane = Lane { flow: source, ..Lane::default() };
            while flow.is_open && !stack.flows.room(lane).is_none() {
                let bytes = flow.left_to_write.min(WRITE_BYTES as u64);
                flow.left_to_write -= if flow.config.bytes.is_some() { bytes } else { 0 };
                let finish = flow.left_to_write == 0;
                let payload = Bytes::from_static(&ZEROS).slice(..bytes as usize);
                stack.flows.handle_tx(cx, Message { flow: source, payload, finish });
                flow.is_open = !finish;
            }
        }
    }

    /// Takes what came for the applications at a node. Returns whether a source can write again.
    pub(super) fn collect(&mut self, node: usize, cx: &mut Cx<'_>, stack: &mut Stack) -> bool {
        while let Some(event) = stack.flows.poll_rx(cx) {
            if let MessageUp::Received { flow, .. } = event {
                let is_sink = |index: &&usize| {
                    let candidate = &self.flows[**index];
                    candidate.to == node && candidate.ends.is_some_and(|ends| ends.1 == flow)
                };
                if let Some(index) = self.at_node[node].iter().find(is_sink) {
                    self.flows[*index].last_delivery = Some(self.now);
                }
            }
        }
        self.at_node[node].iter().any(|index| {
            let flow = &self.flows[*index];
            flow.is_open
                && flow.from == node
                && flow.ends.is_some_and(|(source, _)| {
                    !stack.flows.room(Lane { flow: source, ..Lane::default() }).is_none()
                })
        })
    }

    /// Sets the true time that deliveries are counted at.
    pub(super) fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    /// Closes a bin of the series over time.
    pub(super) fn close_bin(&mut self, world: &World) {
        for flow in &mut self.flows {
            flow.sample(world);
            flow.bins.push(flow.delivered);
        }
    }
}

impl Flow {
    /// Reads what the receiving end has given to its application.
    fn sample(&mut self, world: &World) {
        if let Some((_, sink)) = self.ends.filter(|_| self.is_measured)
            && let Some(end) = world.nodes[self.to].stack.flows.transport(sink)
        {
            self.delivered = end.get().delivered_bytes();
        }
    }

    /// Payload over the time that the flow had, in Mb/s: until its last byte if it had a number of
    /// them and all came, else until it stopped.
    pub(super) fn goodput_mbps(&self, end: Instant) -> f64 {
        let complete = self.config.bytes.is_some_and(|bytes| self.delivered >= bytes);
        let until = if complete { self.last_delivery.unwrap_or(end) } else { self.stop.min(end) };
        let span = until.since(self.start).as_secs_f64();
        if span > 0.0 { self.delivered as f64 * 8.0 / span / 1e6 } else { 0.0 }
    }
}

fn node_id(index: usize) -> NodeId {
    NodeId(index as u16 + 1)
}
