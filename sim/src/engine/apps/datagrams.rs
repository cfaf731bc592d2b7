//! UDP flows: sources of constant rate, saturated sources, and on-off sources.

use farhop_proto::base::{Bitrate, Duration, FlowId, Instant, Rng};
use farhop_proto::stack::{AnyTransport, FlowConfig, OnOffConfig};
use farhop_proto::transport::udp::{Sample, Udp, UdpConfig, under_way};

use super::{App, Net, draw};
use crate::engine::report::{Distribution, FlowReport};
use crate::engine::world::Node;

/// A source of datagrams and its sink.
pub(super) struct Datagrams {
    rate: Option<Bitrate>,
    size: usize,
    nodes: [usize; 2],
    source: FlowId,
    sink: FlowId,
    pauses: Option<Pauses>,
}

/// How the datagrams of a flow arrived.
pub(super) struct Measured {
    pub(super) received: u64,
    pub(super) sent: u64,
    /// One-way delays; only of each 2^n-th datagram if there are very many.
    pub(super) delays_ms: Vec<f64>,
}

impl Measured {
    /// Share of the datagrams that did not arrive; `None` if there were none.
    fn loss(&self) -> Option<f64> {
        (self.sent > 0).then(|| 1.0 - self.received as f64 / self.sent as f64)
    }
}

/// The on and off periods of a source.
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
    /// Sends at the rate of the flow, or saturated if it has none.
    pub(super) fn constant(config: &FlowConfig) -> Self {
        Self::paced(config.rate_mbps.map(Bitrate::from_mbps), config.size_bytes)
    }

    /// Sends payloads of `size` bytes at `rate`, or saturated without one.
    pub(super) fn paced(rate: Option<Bitrate>, size: usize) -> Self {
        let (source, sink) = (FlowId(0), FlowId(0));
        Self { rate, size, nodes: [0; 2], source, sink, pauses: None }
    }

    /// Sends at the rate of the flow during its on periods.
    pub(super) fn on_off(config: &FlowConfig, rng: Rng) -> Self {
        let pauses = Pauses {
            config: config.on_off.unwrap_or_default(),
            rng,
            sending: true,
            due: Instant::MAX,
        };
        Self { pauses: Some(pauses), ..Self::constant(config) }
    }

    /// The source and the sink.
    fn ends<'a>(&self, nodes: &'a [Node]) -> Option<[&'a Udp; 2]> {
        let end = |node: usize, flow| match nodes[node].stack.flows.transport(flow)? {
            AnyTransport::Udp(udp) => Some(&**udp),
            AnyTransport::Tcp(_) | AnyTransport::Hop(_) => None,
        };
        Some([end(self.nodes[0], self.source)?, end(self.nodes[1], self.sink)?])
    }

    /// How the measured datagrams arrived. Those of the last moments may still be on their way, and
    /// count only if they or later ones arrived.
    pub(super) fn measured(&self, nodes: &[Node], end: Instant) -> Option<Measured> {
        let [source, sink] = self.ends(nodes)?;
        let delays_ms = self.delays_ms(nodes, sink);
        let until = end.saturating_sub(under_way(&delays_ms));
        let made = source.made_by(nodes[self.nodes[0]].local(until));
        let (received, sent) = sink.measured(made);
        Some(Measured { received, sent, delays_ms })
    }

    /// One-way delays, in milliseconds. Each is corrected by the offset between the clocks of both
    /// ends when the datagram arrived, which only the simulator knows.
    fn delays_ms(&self, nodes: &[Node], sink: &Udp) -> Vec<f64> {
        let [from, to] = self.nodes.map(|node| &nodes[node]);
        let delay = |sample: &Sample| {
            let came = Instant::from_nanos(u64::from(sample.at_cs) * 10_000_000);
            let at = to.true_time(came);
            let offset_us = to.local(at).signed_since(from.local(at)) / 1_000;
            (sample.delay_us - offset_us) as f64 / 1e3
        };
        sink.samples().iter().map(delay).collect()
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
        self.with_source(net, |udp| if sending { udp.resume(local) } else { udp.pause(local) });
    }

    fn begin_measure(&mut self, net: &mut Net<'_>) {
        let now = net.world.nodes[self.nodes[0]].local(net.now);
        let ends = self.ends(&net.world.nodes);
        let made = ends.map_or(0, |[source, _]| source.made_by(now));
        if let AnyTransport::Udp(udp) = net.transport_mut(self.nodes[1], self.sink) {
            udp.begin_measure(made);
        }
    }

    fn stop(&mut self, net: &mut Net<'_>) {
        self.pauses = None;
        let now = net.world.nodes[self.nodes[0]].local(net.now);
        self.with_source(net, |udp| udp.stop(now));
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
        let Some([_, sink]) = self.ends(nodes) else { return };
        let jitter = sink.samples().iter().map(|sample| f64::from(sample.jitter_us) / 1e3);
        report.jitter_ms = Distribution::of(&mut jitter.collect::<Vec<f64>>());
        if let Some(mut measured) = self.measured(nodes, end) {
            report.loss = measured.loss();
            report.delay_ms = Distribution::of(&mut measured.delays_ms);
        }
    }
}
