//! Web pages: a main object, then embedded objects over a few connections at a time, each object
//! over its own TCP connection, and a reading time before the next page.
//!
//! Sizes and numbers follow 3GPP TR 25.892, A.3.2 (the same as in 3GPP2 C.R1002): object sizes are
//! lognormal with heavy tails, numbers of embedded objects are Pareto.

use bytes::Bytes;
use farhop_proto::base::{
    Cx, Duration, FlowId, Instant, Lane, Layer as _, Message, MessageUp, Rng,
};
use farhop_proto::stack::{AnyTransport, FlowConfig, Stack, WebConfig};
use farhop_proto::transport::tcp::{Tcp, TcpConfig};

use super::bulk::{WRITE_BYTES, ZEROS};
use super::{App, Ends, Net, draw};
use crate::engine::report::{Distribution, FlowReport, ObjectsReport};
use crate::engine::world::Node;

/// First port of a reader's connections, and the number of ports.
const FIRST_PORT: u16 = 20_000;
const PORTS: u16 = 40_000;
/// Largest object, in bytes.
const MOST_BYTES: f64 = 2e6;

/// The step of a page that is next or under way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Page,
    Parse,
    Embedded,
}

/// A reader at the flow's `to`, and a server at its `from`.
pub(super) struct Web {
    config: WebConfig,
    tcp: TcpConfig,
    rng: Rng,
    server: usize,
    reader: usize,
    connections: Vec<Connection>,
    opened: u16,
    step: Step,
    due: Instant,
    page_began: Instant,
    /// An object of the current page did not arrive.
    page_failed: bool,
    /// Embedded objects of the current page that have not been requested yet.
    unasked: u32,
    delivered: u64,
    measured_from: Instant,
    stopped: bool,
    failed: u64,
    object_ms: Vec<f64>,
    page_ms: Vec<f64>,
}

/// The connection of one object.
struct Connection {
    port: u16,
    at_reader: FlowId,
    at_server: FlowId,
    began: Instant,
    request_left: u64,
    /// Bytes that the server still has to write, and that the reader still has to get.
    to_write: u64,
    to_get: u64,
    /// The reader has got the object, or will not get it.
    answered: bool,
    /// Whether each end has closed or failed. If both have, the entry can be reused.
    over: [bool; 2],
}

impl Connection {
    fn wants_to_write(&self) -> bool {
        self.request_left == 0 && self.to_write > 0 && !self.over[1]
    }
}

impl Web {
    pub(super) fn build(config: &FlowConfig, rng: Rng) -> Self {
        Self {
            config: config.web.unwrap_or_default(),
            tcp: config.tcp_config(),
            rng,
            server: 0,
            reader: 0,
            connections: Vec::new(),
            opened: 0,
            step: Step::Page,
            due: Instant::MAX,
            page_began: Instant::ZERO,
            page_failed: false,
            unasked: 0,
            delivered: 0,
            measured_from: Instant::ZERO,
            stopped: false,
            failed: 0,
            object_ms: Vec::new(),
            page_ms: Vec::new(),
        }
    }

    fn main_bytes(&mut self) -> u64 {
        draw::lognormal(&mut self.rng, 8.35, 1.37, 100.0..=MOST_BYTES) as u64
    }

    fn embedded_bytes(&mut self) -> u64 {
        draw::lognormal(&mut self.rng, 6.17, 2.36, 50.0..=MOST_BYTES) as u64
    }

    /// Number of embedded objects of a page: 5.6 on average, 53 at most.
    fn embedded_objects(&mut self) -> u32 {
        libm::round(draw::pareto(&mut self.rng, 1.1, 2.0, 55.0) - 2.0) as u32
    }

    /// Requests an object over a new connection.
    fn ask(&mut self, net: &mut Net<'_>, bytes: u64) {
        // Segments of an earlier connection on the same ports must not reach this one, so that one
        // is replaced.
        let port = FIRST_PORT + self.opened;
        self.opened = (self.opened + 1) % PORTS;
        let is_over = |connection: &Connection| connection.over == [true; 2];
        let same = self.connections.iter().position(|old| is_over(old) && old.port == port);
        let place = same.or_else(|| self.connections.iter().position(is_over));
        let old = place.map(|place| &self.connections[place]);
        let old = old.map(|old| (old.at_reader, old.at_server));
        let ends = Ends { nodes: [net.to, net.from], ports: [port, net.port] };
        let (client, listener) = (self.tcp.clone(), self.tcp.clone());
        let at_reader = net.add(ends, 0, old.map(|old| old.0), |end| {
            AnyTransport::Tcp(Box::new(Tcp::connect(client, end)))
        });
        let at_server = net.add(ends, 1, old.map(|old| old.1), |end| {
            AnyTransport::Tcp(Box::new(Tcp::listen(listener, end)))
        });
        let request = u64::from(self.config.request_bytes);
        let reader = net.world.nodes[net.to].local(net.now);
        let payload = Bytes::from(vec![0; request as usize]);
        let message = Message { flow: at_reader, payload, finish: false };
        net.world.nodes[net.to].stack.flows.handle_tx(&mut Cx::new(reader), message);
        let connection = Connection {
            port,
            at_reader,
            at_server,
            began: net.now,
            request_left: request,
            to_write: bytes,
            to_get: bytes,
            answered: false,
            over: [false; 2],
        };
        match place {
            Some(place) => self.connections[place] = connection,
            None => self.connections.push(connection),
        }
    }

    fn open(&self) -> u32 {
        self.connections.iter().filter(|connection| !connection.answered).count() as u32
    }

    fn on_answered(&mut self, index: usize, now: Instant, whole: bool) {
        let connection = &mut self.connections[index];
        if std::mem::replace(&mut connection.answered, true) || self.stopped {
            return;
        }
        self.page_failed |= !whole;
        if connection.began >= self.measured_from {
            self.failed += u64::from(!whole);
            if whole {
                self.object_ms.push(now.since(connection.began).as_millis_f64());
            }
        }
        match self.step {
            Step::Parse => self.due = now + draw::exponential(&mut self.rng, self.config.parse_s),
            Step::Embedded if self.unasked > 0 => self.due = now,
            Step::Embedded if self.open() == 0 => self.end_page(now),
            _ => {}
        }
    }

    fn end_page(&mut self, now: Instant) {
        if self.page_began >= self.measured_from && !self.page_failed {
            self.page_ms.push(now.since(self.page_began).as_millis_f64());
        }
        self.step = Step::Page;
        let think = draw::exponential(&mut self.rng, self.config.think_s);
        self.due = now + think.max(Duration::from_nanos(1));
    }

    /// Index of the connection of a flow end at a node, and its side: 0 for the reader, 1 for the
    /// server.
    fn find(&self, node: usize, flow: FlowId) -> Option<(usize, usize)> {
        let side = usize::from(node == self.server);
        let same = |connection: &Connection| {
            flow == if side == 0 { connection.at_reader } else { connection.at_server }
        };
        Some((self.connections.iter().position(same)?, side))
    }

    fn on_bytes(&mut self, index: usize, side: usize, now: Instant, bytes: u64) {
        let connection = &mut self.connections[index];
        if side == 1 {
            connection.request_left = connection.request_left.saturating_sub(bytes);
            return;
        }
        connection.to_get = connection.to_get.saturating_sub(bytes);
        self.delivered += bytes;
        if connection.to_get == 0 {
            self.on_answered(index, now, true);
        }
    }
}

impl App for Web {
    fn start(&mut self, net: &mut Net<'_>) {
        (self.server, self.reader) = (net.from, net.to);
        self.due = net.now;
    }

    fn poll_timeout(&self) -> Instant {
        self.due
    }

    fn handle_timeout(&mut self, net: &mut Net<'_>) {
        if self.due > net.now {
            return;
        }
        self.due = Instant::MAX;
        match self.step {
            Step::Page => {
                (self.page_began, self.page_failed) = (net.now, false);
                self.step = Step::Parse;
                let bytes = self.main_bytes();
                self.ask(net, bytes);
            }
            Step::Parse => {
                self.step = Step::Embedded;
                self.unasked = self.embedded_objects();
                if self.unasked == 0 {
                    return self.end_page(net.now);
                }
                self.handle_embedded(net);
            }
            Step::Embedded => self.handle_embedded(net),
        }
    }

    fn writes(&self) -> bool {
        true
    }

    fn feed(&mut self, node: usize, cx: &mut Cx<'_>, stack: &mut Stack) {
        if node != self.server {
            return;
        }
        for connection in self.connections.iter_mut().filter(|one| one.wants_to_write()) {
            let lane = Lane { flow: connection.at_server, ..Lane::default() };
            while connection.to_write > 0 && !stack.flows.room(lane).is_none() {
                let bytes = connection.to_write.min(WRITE_BYTES as u64);
                connection.to_write -= bytes;
                let finish = connection.to_write == 0;
                let payload = Bytes::from_static(&ZEROS).slice(..bytes as usize);
                stack.flows.handle_tx(cx, Message { flow: lane.flow, payload, finish });
            }
        }
    }

    fn can_feed(&self, node: usize, stack: &Stack) -> bool {
        let has_room = |connection: &Connection| {
            let lane = Lane { flow: connection.at_server, ..Lane::default() };
            connection.wants_to_write() && !stack.flows.room(lane).is_none()
        };
        node == self.server && self.connections.iter().any(has_room)
    }

    fn on_event(&mut self, node: usize, now: Instant, event: &MessageUp) {
        match event {
            MessageUp::Received { flow, payload } => {
                if let Some((index, side)) = self.find(node, *flow) {
                    self.on_bytes(index, side, now, payload.len() as u64);
                }
            }
            MessageUp::Finished(flow) | MessageUp::Reset(flow) => {
                if let Some((index, side)) = self.find(node, *flow) {
                    let connection = &mut self.connections[index];
                    connection.over[side] = true;
                    // The other end may never hear of it, as one at which nothing has arrived.
                    if matches!(event, MessageUp::Reset(_)) {
                        connection.over = [true; 2];
                    }
                    self.on_answered(index, now, false);
                }
            }
            _ => {}
        }
    }

    fn begin_measure(&mut self, net: &mut Net<'_>) {
        self.measured_from = net.now;
    }

    fn stop(&mut self, _net: &mut Net<'_>) {
        self.stopped = true;
        self.due = Instant::MAX;
    }

    fn delivered(&self, _nodes: &[Node]) -> u64 {
        self.delivered
    }

    fn report(&self, _nodes: &[Node], _end: Instant, report: &mut FlowReport) {
        report.sent_bytes = self.delivered;
        report.objects = Some(ObjectsReport {
            count: self.object_ms.len() as u64,
            failed: self.failed,
            completion_ms: Distribution::of(&mut self.object_ms.clone()),
            pages: self.page_ms.len() as u64,
            page_ms: Distribution::of(&mut self.page_ms.clone()),
        });
    }
}

impl Web {
    /// Requests embedded objects, as many at a time as there are connections.
    fn handle_embedded(&mut self, net: &mut Net<'_>) {
        while self.unasked > 0 && self.open() < self.config.connections {
            self.unasked -= 1;
            let bytes = self.embedded_bytes();
            self.ask(net, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use farhop_proto::base::Seed;

    use super::*;

    #[test]
    fn objects_have_the_published_means() {
        let mut web = Web::build(&FlowConfig::default(), Seed(1).stream("web"));
        let mean = |draw: &mut dyn FnMut() -> f64| (0..200_000).map(|_| draw()).sum::<f64>() / 2e5;
        let main = mean(&mut || web.main_bytes() as f64);
        assert!((main / 10_710.0 - 1.0).abs() < 0.03, "{main}");
        let embedded = mean(&mut || web.embedded_bytes() as f64);
        assert!((embedded / 7_758.0 - 1.0).abs() < 0.10, "{embedded}");
        let number = mean(&mut || f64::from(web.embedded_objects()));
        assert!((number / 5.64 - 1.0).abs() < 0.03, "{number}");
    }
}
