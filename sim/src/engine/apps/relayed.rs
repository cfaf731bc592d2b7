//! TCP hop by hop: one connection for each hop of a flow, and an application on each relay that
//! passes the bytes on (`hop.md` 10). Relays either copy bytes as they come, through an unbounded
//! buffer, or store a whole bundle before they pass it on.
//!
//! Bundles are sent as over the TCP convergence layer (RFC 7242): both ends begin with a contact
//! header, the bundle follows in segments, and the receiver acknowledges each segment. There is no
//! custody transfer, and an interrupted bundle is sent again from its beginning.

use bytes::Bytes;
use farhop_proto::base::{Cx, Duration, FlowId, Instant, Lane, Layer as _, Message, MessageUp};
use farhop_proto::stack::{AnyTransport, FlowConfig, Onward, RelayConfig, RelayMode, Stack};
use farhop_proto::transport::tcp::{Tcp, TcpConfig};

use super::bulk::{self, WRITE_BYTES, ZEROS};
use super::{App, Ends, Net};
use crate::engine::report::FlowReport;
use crate::engine::world::Node;

/// First local port of the connecting ends; each connection has its own.
const FIRST_PORT: u16 = 30_000;
/// How long an application waits for a route, or before it reconnects after a failure.
const PATIENCE: Duration = Duration::from_secs(5);
/// Contact header: "dtn!", version, flags, keepalive, and the name of the node.
const CONTACT_BYTES: u64 = 24;
/// The primary block of a bundle, with the names of its ends.
const BUNDLE_BYTES: u64 = 100;
/// Type and length before each segment.
const SEGMENT_BYTES: u64 = 3;
/// An acknowledgement: type and acknowledged length.
const ACK_BYTES: u64 = 5;

/// One of the flow's connections, between two applications.
struct Section {
    nodes: [usize; 2],
    source: FlowId,
    sink: FlowId,
    written: u64,
    got: u64,
    /// Bytes that the sink has written: its contact header and acknowledgements of segments.
    answered: u64,
    is_finished: bool,
}

/// A step that is scheduled.
#[derive(Clone, Copy)]
enum Step {
    /// Connect onward from the last node that was reached, or from the source.
    Open,
    /// Replace the last connection by a new one.
    Reopen,
}

/// A flow over applications on relays.
pub(super) struct Relayed {
    config: RelayConfig,
    tcp: TcpConfig,
    bytes: Option<u64>,
    /// The nodes with a relay, if the scenario names them.
    at: Vec<usize>,
    ends: [usize; 2],
    port: u16,
    opened: u16,
    sections: Vec<Section>,
    next: Option<(Instant, Step)>,
    /// When everything that relays have received is stored.
    stored: Instant,
    is_stopped: bool,
    /// A connection of a stream has failed: nothing more gets through.
    is_broken: bool,
    delivered: u64,
    completed: Option<Instant>,
}

impl Relayed {
    pub(super) fn build(config: &FlowConfig, place: &dyn Fn(&str) -> usize) -> Self {
        let relay = config.relay.clone().unwrap_or_default();
        Self {
            at: relay.at.iter().map(|name| place(name)).collect(),
            config: relay,
            tcp: config.tcp_config(),
            bytes: config.bytes,
            ends: [0; 2],
            port: 0,
            opened: 0,
            sections: Vec::new(),
            next: None,
            stored: Instant::ZERO,
            is_stopped: false,
            is_broken: false,
            delivered: 0,
            completed: None,
        }
    }

    fn is_bundle(&self) -> bool {
        self.config.mode == RelayMode::Bundle
    }

    /// The bytes that each connection carries; `None` if the flow is unbounded.
    fn whole(&self) -> Option<u64> {
        let bytes = self.bytes?;
        if !self.is_bundle() {
            return Some(bytes);
        }
        let segments = (bytes + BUNDLE_BYTES).div_ceil(u64::from(self.config.segment_bytes));
        Some(CONTACT_BYTES + BUNDLE_BYTES + bytes + segments * SEGMENT_BYTES)
    }

    /// How many of the first `bytes` bytes of a connection are payload of the application.
    fn payload(&self, bytes: u64) -> u64 {
        if !self.is_bundle() {
            return bytes;
        }
        let payload = u64::from(self.config.segment_bytes);
        let segment = SEGMENT_BYTES + payload;
        let bytes = bytes.saturating_sub(CONTACT_BYTES);
        let (whole, part) = (bytes / segment, bytes % segment);
        (whole * payload + part.saturating_sub(SEGMENT_BYTES)).saturating_sub(BUNDLE_BYTES)
    }

    /// The node that the next connection leads to; `None` without a route.
    fn next_place(&self, net: &Net<'_>, from: usize) -> Option<usize> {
        if !self.at.is_empty() {
            let place = self.at.get(self.sections.len()).copied();
            return Some(place.unwrap_or(self.ends[1]));
        }
        let node = &net.world.nodes[from];
        let routes = node.stack.status(node.local(net.now)).routing.routes;
        let route = routes.iter().find(|route| usize::from(route.to.0) == self.ends[1] + 1)?;
        Some(usize::from(route.via.0) - 1)
    }

    fn open(&mut self, net: &mut Net<'_>) {
        let from = self.sections.last().map_or(self.ends[0], |section| section.nodes[1]);
        let Some(to) = self.next_place(net, from) else {
            self.next = Some((net.now + PATIENCE, Step::Open));
            return;
        };
        let section = self.connect(net, [from, to], None);
        self.sections.push(section);
    }

    fn reopen(&mut self, net: &mut Net<'_>) {
        let Some(old) = self.sections.pop() else { return };
        let section = self.connect(net, old.nodes, Some([old.source, old.sink]));
        self.sections.push(section);
    }

    fn connect(
        &mut self,
        net: &mut Net<'_>,
        nodes: [usize; 2],
        old: Option<[FlowId; 2]>,
    ) -> Section {
        // Each connection has a new port, so that no segments of an old one are taken for its own.
        let ports = [FIRST_PORT + self.opened, self.port];
        self.opened = (self.opened + 1) % FIRST_PORT;
        let ends = Ends { nodes, ports };
        let old = old.map_or([None; 2], |old| old.map(Some));
        if self.config.onward == Onward::Hop && nodes[1] == self.ends[1] {
            let (source, sink) = bulk::add_blocks(net, Ends { nodes, ports: [self.port; 2] });
            return Section {
                nodes,
                source,
                sink,
                written: 0,
                got: 0,
                answered: 0,
                is_finished: false,
            };
        }
        let [caller, listener] = [self.tcp.clone(), self.tcp.clone()];
        let connect = |end| AnyTransport::Tcp(Box::new(Tcp::connect(caller, end)));
        let listen = |end| AnyTransport::Tcp(Box::new(Tcp::listen(listener, end)));
        let source = net.add(ends, 0, old[0], connect);
        let sink = net.add(ends, 1, old[1], listen);
        Section { nodes, source, sink, written: 0, got: 0, answered: 0, is_finished: false }
    }

    /// Bytes that the source of a section can write now, whatever room its transport has.
    fn to_write(&self, index: usize) -> u64 {
        let all = self.whole().unwrap_or(u64::MAX);
        let is_copy = index > 0 && !self.is_bundle();
        let there = if is_copy { self.sections[index - 1].got } else { all };
        let is_over = index == 0 && (self.is_stopped || self.is_broken);
        if is_over { 0 } else { there - self.sections[index].written }
    }

    /// Bytes of acknowledgements that the sink of a section has to write.
    fn to_answer(&self, index: usize) -> u64 {
        if !self.is_bundle() {
            return 0;
        }
        let got = self.sections[index].got;
        let segment = u64::from(self.config.segment_bytes) + SEGMENT_BYTES;
        let segments = got.saturating_sub(CONTACT_BYTES) / segment;
        let is_whole = self.whole().is_some_and(|whole| got >= whole);
        let last = u64::from(is_whole);
        CONTACT_BYTES + (segments + last) * ACK_BYTES - self.sections[index].answered
    }

    /// An end at a node that could write: its section, whether it is the source, and how many
    /// bytes.
    fn writable(&self, node: usize, stack: &Stack) -> Option<(usize, bool, u64)> {
        let has_room = |flow| !stack.flows.room(Lane { flow, ..Lane::default() }).is_none();
        self.sections.iter().enumerate().find_map(|(index, section)| {
            let is_source = section.nodes[0] == node && !section.is_finished;
            if is_source && self.to_write(index) > 0 && has_room(section.source) {
                return Some((index, true, self.to_write(index)));
            }
            let is_sink = section.nodes[1] == node && self.to_answer(index) > 0;
            (is_sink && has_room(section.sink)).then(|| (index, false, self.to_answer(index)))
        })
    }

    fn on_bytes(&mut self, index: usize, now: Instant, bytes: u64) {
        let whole = self.whole().unwrap_or(u64::MAX);
        let section = &mut self.sections[index];
        section.got += bytes;
        let (is_whole, is_last) = (section.got >= whole, section.nodes[1] == self.ends[1]);
        if self.is_bundle() {
            let speed = self.config.storage_mb_per_s * 1e6;
            self.stored = self.stored.max(now) + Duration::from_secs_f64(bytes as f64 / speed);
        }
        match (self.is_bundle(), is_last) {
            (false, true) => self.delivered += bytes,
            (true, true) if is_whole => self.delivered = self.bytes.unwrap_or_default(),
            (true, false) if is_whole => self.next = Some((self.stored, Step::Open)),
            _ => {}
        }
        if is_whole && is_last {
            self.completed.get_or_insert(now);
        }
    }

    /// A connection has failed. The transfer of a whole bundle begins anew; a stream is broken.
    fn on_failed(&mut self, index: usize, now: Instant) {
        let is_under_way = self.whole().is_none_or(|whole| self.sections[index].got < whole);
        let is_newest = index + 1 == self.sections.len();
        // Of a stream, nothing is lost with a connection that carried nothing yet.
        let may_begin_anew = match self.is_bundle() {
            true => is_under_way,
            false => index > 0 && self.sections[index].got == 0,
        };
        if is_newest && may_begin_anew {
            self.next = Some((now + PATIENCE, Step::Reopen));
        } else if !self.is_bundle() && is_under_way {
            self.is_broken = true;
        }
    }
}

impl App for Relayed {
    fn start(&mut self, net: &mut Net<'_>) {
        (self.ends, self.port) = ([net.from, net.to], net.port);
        self.open(net);
    }

    fn poll_timeout(&self) -> Instant {
        self.next.map_or(Instant::MAX, |(at, _)| at)
    }

    fn handle_timeout(&mut self, net: &mut Net<'_>) {
        match self.next.take().map(|(_, step)| step) {
            Some(Step::Open) => self.open(net),
            Some(Step::Reopen) => self.reopen(net),
            None => {}
        }
    }

    fn writes(&self) -> bool {
        true
    }

    fn relays(&self) -> Vec<usize> {
        self.sections.iter().flat_map(|section| section.nodes).collect()
    }

    fn feed(&mut self, node: usize, cx: &mut Cx<'_>, stack: &mut Stack) {
        while let Some((index, is_source, bytes)) = self.writable(node, stack) {
            let bytes = bytes.min(WRITE_BYTES as u64);
            let (whole, is_bundle) = (self.whole(), self.is_bundle());
            let section = &mut self.sections[index];
            let flow = if is_source { section.source } else { section.sink };
            let written = if is_source { &mut section.written } else { &mut section.answered };
            *written += bytes;
            // Connections for bundles stay open.
            let finish = is_source && !is_bundle && Some(section.written) == whole;
            section.is_finished |= finish;
            let payload = Bytes::from_static(&ZEROS).slice(..bytes as usize);
            stack.flows.handle_tx(cx, Message { flow, payload, finish });
        }
    }

    fn can_feed(&self, node: usize, stack: &Stack) -> bool {
        self.writable(node, stack).is_some()
    }

    fn on_event(&mut self, node: usize, now: Instant, event: &MessageUp) {
        let (MessageUp::Connected(flow)
        | MessageUp::Received { flow, .. }
        | MessageUp::Finished(flow)
        | MessageUp::Reset(flow)) = event;
        let is_end = |section: &Section| {
            (section.nodes[0] == node && section.source == *flow)
                || (section.nodes[1] == node && section.sink == *flow)
        };
        let Some(index) = self.sections.iter().position(is_end) else { return };
        let section = &self.sections[index];
        let is_sink = section.nodes[1] == node && section.sink == *flow;
        let is_last = section.nodes[1] == self.ends[1];
        match event {
            MessageUp::Connected(_) if is_sink && !is_last && !self.is_bundle() => {
                self.next = Some((now, Step::Open));
            }
            MessageUp::Received { payload, .. } if is_sink => {
                self.on_bytes(index, now, payload.len() as u64);
            }
            MessageUp::Reset(_) => self.on_failed(index, now),
            _ => {}
        }
    }

    fn stop(&mut self, _net: &mut Net<'_>) {
        self.is_stopped = true;
        self.next = None;
    }

    fn delivered(&self, _nodes: &[Node]) -> u64 {
        self.delivered
    }

    fn delivers_at_once(&self) -> bool {
        self.is_bundle()
    }

    fn completed(&self) -> Option<Instant> {
        self.completed
    }

    fn report(&self, nodes: &[Node], _end: Instant, report: &mut FlowReport) {
        let status = |section: &Section| {
            let source = nodes[section.nodes[0]].stack.flows.transport(section.source)?;
            Some(source.get().status())
        };
        let all: Vec<_> = self.sections.iter().filter_map(status).collect();
        report.sent_bytes = all.first().map_or(0, |status| self.payload(status.sent_bytes));
        let again = |status: &farhop_proto::transport::TransportStatus| {
            status.counters.get("retransmissions").copied()
        };
        report.retransmissions = Some(all.iter().filter_map(again).sum());
    }
}
