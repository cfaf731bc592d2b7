//! UDP flows: constant rate or saturating, and on-off sources that send and are silent in turn.

use farhop_proto::base::{Bitrate, Duration, FlowId, Instant, Rng};
use farhop_proto::stack::{AnyTransport, FlowConfig, OnOffConfig};
use farhop_proto::transport::udp::{Sample, Udp, UdpConfig};

use super::{App, Net, draw};
use crate::engine::report::{Distribution, FlowReport};
use crate::engine::world::Node;

/// A source and a sink of datagrams.
pub(super) struct Datagrams {
    rate: Option<Bitrate>,
    size: usize,
    nodes: [usize; 2],
    source: FlowId,
    sink: FlowId,
    pauses: Option<Pauses>,
}

/// The turns of an on-off source.
struct Pauses {
    config: OnOffConfig,
    rng: Rng,
    sending: bool,
    due: Instant,
}

impl Pauses {
    fn next(&mut self) -> Duration {
        let mean = if self.sending { self.config.on_s } else { self.config.off_s };
        match self.config.exponential {
            true => draw::exponential(&mut self.rng, mean),
            false => Duration::from_secs_f64(mean),
        }
    }
}

impl Datagrams {
    /// At the rate of the flow, or as much as there is room for.
    pub(super) fn constant(config: &FlowConfig) -> Self {
        Self::paced(config.rate_mbps.map(Bitrate::from_mbps), config.size_bytes)
    }

    /// With payloads of `size` bytes.
    pub(super) fn paced(rate: Option<Bitrate>, size: usize) -> Self {
        let (source, sink) = (FlowId(0), FlowId(0));
        Self { rate, size, nodes: [0; 2], source, sink, pauses: None }
    }

    /// At the rate of the flow now and then.
    pub(super) fn on_off(config: &FlowConfig, rng: Rng) -> Self {
        let pauses = Pauses {
            config: config.on_off.unwrap_or_default(),
            rng,
            sending: true,
            due: Instant::MAX,
        };
        Self { pauses: Some(pauses), ..Self::constant(config) }
    }

    /// What the sink measures.
    pub(super) fn sink<'a>(&self, nodes: &'a [Node]) -> Option<&'a Udp> {
        match nodes[self.nodes[1]].stack.flows.transport(self.sink)? {
            AnyTransport::Udp(udp) => Some(udp),
            AnyTransport::Tcp(_) | AnyTransport::Hop(_) => None,
        }
    }

    /// One-way delays, in milliseconds. The clocks of both ends are the world's to know: the offset
    /// between them is taken out.
    pub(super) fn delays_ms(&self, nodes: &[Node], end: Instant) -> Vec<f64> {
        let Some(udp) = self.sink(nodes) else { return Vec::new() };
        let [from, to] = self.nodes.map(|node| nodes[node].local(end));
        let offset_us = to.signed_since(from) / 1_000;
        let delay = |sample: &Sample| (sample.delay_us - offset_us) as f64 / 1e3;
        udp.samples().iter().map(delay).collect()
    }

    fn with_source(&self, net: &mut Net<'_>, act: impl FnOnce(&mut Udp)) {
        if let AnyTransport::Udp(udp) = net.transport_mut(self.nodes[0], self.source) {
            act(udp);
        }
        net.world.mark_due(self.nodes[0]);
    }
}

impl App for Datagrams {
    fn start(&mut self, net: &mut Net<'_>) {
        let ends = net.ends();
        let source = UdpConfig::Source { rate: self.rate, size: self.size, bytes: None };
        self.nodes = ends.nodes;
        self.source =
            net.add(ends, 0, None, |end| AnyTransport::Udp(Box::new(Udp::build(source, end))));
        self.sink = net.add(ends, 1, None, |end| {
            AnyTransport::Udp(Box::new(Udp::build(UdpConfig::Sink, end)))
        });
        if let Some(pauses) = &mut self.pauses {
            pauses.due = net.now + pauses.next();
        }
    }

    fn poll_timeout(&self) -> Instant {
        self.pauses.as_ref().map_or(Instant::MAX, |pauses| pauses.due)
    }

    fn handle_timeout(&mut self, net: &mut Net<'_>) {
        let Some(pauses) = self.pauses.as_mut().filter(|pauses| pauses.due <= net.now) else {
            return;
        };
        pauses.sending = !pauses.sending;
        pauses.due = net.now + pauses.next().max(Duration::from_nanos(1));
        let sending = pauses.sending;
        let local = net.world.nodes[self.nodes[0]].local(net.now);
        self.with_source(net, |udp| if sending { udp.resume() } else { udp.pause(local) });
    }

    fn begin_measure(&mut self, net: &mut Net<'_>) {
        if let AnyTransport::Udp(udp) = net.transport_mut(self.nodes[1], self.sink) {
            udp.begin_measure();
        }
    }

    fn stop(&mut self, net: &mut Net<'_>) {
        self.pauses = None;
        self.with_source(net, Udp::stop);
    }

    fn delivered(&self, nodes: &[Node]) -> u64 {
        let sink = nodes[self.nodes[1]].stack.flows.transport(self.sink);
        sink.map_or(0, |end| end.get().delivered_bytes())
    }

    fn report(&self, nodes: &[Node], end: Instant, report: &mut FlowReport) {
        let source = nodes[self.nodes[0]].stack.flows.transport(self.source);
        if let Some(source) = source {
            report.sent_bytes = source.get().status().sent_bytes;
        }
        let Some(udp) = self.sink(nodes) else { return };
        let jitter = udp.samples().iter().map(|sample| f64::from(sample.jitter_us) / 1e3);
        report.loss = udp.loss();
        report.delay_ms = Distribution::of(&mut self.delays_ms(nodes, end));
        report.jitter_ms = Distribution::of(&mut jitter.collect::<Vec<f64>>());
    }
}
