//! Runs the flows of a scenario, with two threads each. Threads with kernel sockets enter the
//! network namespace of their end: a socket stays in the namespace in which it was made.

mod tcp;

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration as StdDuration, Instant as WallClock};

use farhop_proto::base::{AddressPlan, Instant};
use farhop_proto::stack::{FlowConfig, FlowKind, Scenario};
use farhop_proto::transport::udp::{Made, under_way};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use socket2::SockRef;

use super::{LabError, blocks};

/// Port of the first flow; each flow has its own.
const FIRST_PORT: u16 = 5001;
/// Bytes that are written or read at once.
const CHUNK: usize = 64 * 1024;
/// Length of the bins of goodput over time.
pub(super) const BIN: StdDuration = StdDuration::from_millis(100);
/// How long a read or write may block before the thread checks whether to stop.
const LOOK: StdDuration = StdDuration::from_millis(100);
/// Number and time at the beginning of a datagram, in bytes.
const FRONT: usize = 16;

/// Measurements of a flow.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    pub(super) sent_bytes: u64,
    pub(super) delivered_bytes: u64,
    /// Bytes that were delivered before the measurement began.
    pub(super) before_bytes: u64,
    /// Duration of the measured part, in seconds.
    pub(super) span_s: f64,
    /// How long the file took, in seconds, if all of it arrived.
    pub(super) completed_s: Option<f64>,
    /// Bytes delivered by the end of each bin, from the start of the run.
    pub(super) bins: Vec<u64>,
    pub(super) retransmissions: Option<u64>,
    pub(super) udp: Option<UdpMeasured>,
}

/// Measurements of a UDP flow.
#[derive(Clone, Debug, Default)]
pub(super) struct UdpMeasured {
    made: Made,
    /// The highest number that arrived, plus one.
    pub(super) expected: u64,
    /// First number that counts since the measurement began, and how many of those arrived.
    from: u64,
    pub(super) received: u64,
    /// When the flow ended.
    ended: Instant,
    pub(super) delays_ms: Vec<f64>,
    pub(super) jitters_ms: Vec<f64>,
}

impl UdpMeasured {
    /// Share of datagrams that were lost. Those of the last moments, which may still be on their
    /// way, do not count.
    pub(super) fn loss(&self) -> Option<f64> {
        let made = self.made.by(self.ended.saturating_sub(under_way(&self.delays_ms)));
        let all = self.expected.max(made).saturating_sub(self.from).max(self.received);
        (all > 0).then(|| 1.0 - self.received as f64 / all as f64)
    }
}

/// A flow while it runs.
struct Running {
    config: FlowConfig,
    shared: Arc<Shared>,
    has_started: bool,
    threads: Vec<JoinHandle<io::Result<()>>>,
    bins: Vec<u64>,
    /// Bytes delivered when the measurement began.
    at_measure: Option<u64>,
    /// Bytes delivered when the flow's time was over, and the time of that.
    at_stop: Option<(u64, Instant)>,
}

/// State shared between the two ends of a flow and the lab.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) stop: AtomicBool,
    pub(super) sent: AtomicU64,
    pub(super) delivered: AtomicU64,
    retransmissions: AtomicU64,
    /// Time of the last byte of a file, in nanoseconds after the flow's start; 0 before that.
    pub(super) finished: AtomicU64,
    udp: Mutex<UdpMeasured>,
}

/// The nodes of a lab, as programs on them need to know them.
pub(super) struct Nodes<'a> {
    /// Process ids of the nodes.
    pub(super) pids: Vec<u32>,
    /// Folder with their control sockets.
    pub(super) dir: &'a Path,
}

/// Runs the flows until the end of the scenario. `tick` is called with the seconds passed, and ends
/// the run by failing.
pub(super) fn run(
    scenario: &Scenario,
    nodes: &Nodes<'_>,
    tick: &mut dyn FnMut(f64) -> Result<(), LabError>,
) -> Result<Vec<Measured>, LabError> {
    let begin = WallClock::now();
    let mut flows: Vec<Running> = scenario
        .flow
        .iter()
        .map(|config| Running {
            config: config.clone(),
            shared: Arc::default(),
            has_started: false,
            threads: Vec::new(),
            bins: Vec::new(),
            at_measure: None,
            at_stop: None,
        })
        .collect();
    let outcome = drive(scenario, nodes, begin, &mut flows, tick);
    for flow in &flows {
        flow.shared.stop.store(true, Ordering::Relaxed);
    }
    let ended: Result<Vec<Measured>, LabError> =
        flows.into_iter().map(|flow| flow.finish(scenario)).collect();
    outcome.and(ended)
}

fn drive(
    scenario: &Scenario,
    nodes: &Nodes<'_>,
    begin: WallClock,
    flows: &mut [Running],
    tick: &mut dyn FnMut(f64) -> Result<(), LabError>,
) -> Result<(), LabError> {
    let mut next_bin = BIN;
    loop {
        let elapsed = begin.elapsed();
        for (index, flow) in flows.iter_mut().enumerate() {
            if !flow.has_started && elapsed.as_secs_f64() >= flow.config.start_s {
                flow.start(scenario, nodes, index);
            }
            if flow.at_measure.is_none() && elapsed.as_secs_f64() >= flow.measure_from(scenario) {
                flow.at_measure = Some(flow.begin_measure());
            }
            let stop = flow.config.stop_s.unwrap_or(scenario.duration_s);
            if elapsed.as_secs_f64() >= stop && flow.at_stop.is_none() {
                let delivered = flow.shared.delivered.load(Ordering::Relaxed);
                flow.at_stop = Some((delivered, Instant::from_nanos(monotonic_nanos())));
                flow.shared.stop.store(true, Ordering::Relaxed);
            }
            flow.check()?;
        }
        while elapsed >= next_bin {
            for flow in flows.iter_mut() {
                flow.bins.push(flow.shared.delivered.load(Ordering::Relaxed));
            }
            next_bin += BIN;
        }
        if elapsed.as_secs_f64() >= scenario.duration_s {
            return Ok(());
        }
        tick(elapsed.as_secs_f64())?;
        let stops = flows.iter().map(|flow| flow.config.stop_s.unwrap_or(scenario.duration_s));
        let begins = flows.iter().map(|flow| flow.measure_from(scenario));
        let due = stops.chain(begins).chain(flows.iter().map(|flow| flow.config.start_s));
        let due = due.filter(|due| *due > elapsed.as_secs_f64()).fold(f64::INFINITY, f64::min);
        let due = next_bin.min(StdDuration::from_secs_f64(due.min(scenario.duration_s)));
        thread::sleep(due.saturating_sub(begin.elapsed()));
    }
}

impl Running {
    fn start(&mut self, scenario: &Scenario, nodes: &Nodes<'_>, index: usize) {
        let node = |name: &str| scenario.node_id(name).expect("the scenario has no problems");
        let (from, to) = (node(&self.config.from), node(&self.config.to));
        let plan = AddressPlan(scenario.subnet);
        let port = FIRST_PORT + index as u16;
        let address = SocketAddr::from((plan.ipv4(to), port));
        let pid = |node: farhop_proto::base::NodeId| nodes.pids[usize::from(node.0) - 1];
        self.has_started = true;
        let (receiver, sender) = match self.config.kind {
            FlowKind::Tcp => (tcp::receiver as End, tcp::sender as End),
            FlowKind::Udp => (udp_receiver as End, udp_sender as End),
            FlowKind::Hop => return self.start_blocks(index, nodes.dir),
            kind => unreachable!("flows of kind {} were refused", kind.name()),
        };
        // A source without a rate offers the most that the radio could send: a TUN interface holds
        // nobody back, and the node drops what it has no room for.
        let fastest = || scenario.plan().nodes[0].radios[0].spec.rate.mbps();
        self.config.rate_mbps = self.config.rate_mbps.or_else(|| Some(fastest()));
        for (end, pid) in [(receiver, pid(to)), (sender, pid(from))] {
            self.spawn(move |config, shared| {
                enter(pid)?;
                end(config, address, shared)
            });
        }
    }

    /// Needs no namespace: the control sockets of daemons can be reached from everywhere.
    fn start_blocks(&mut self, index: usize, dir: &Path) {
        let ends = blocks::Ends::build(&self.config, index, dir);
        let same = ends.clone();
        self.spawn(move |config, shared| blocks::receive(config, &ends, shared));
        self.spawn(move |config, shared| blocks::send(config, &same, shared));
    }

    fn spawn(&mut self, end: impl FnOnce(&FlowConfig, &Shared) -> io::Result<()> + Send + 'static) {
        let (config, shared) = (self.config.clone(), self.shared.clone());
        self.threads.push(thread::spawn(move || end(&config, &shared)));
    }

    /// When the measurement of the flow begins, in seconds.
    fn measure_from(&self, scenario: &Scenario) -> f64 {
        let from = self.config.measure_from_s.or(scenario.measure_from_s).unwrap_or(0.0);
        from.max(self.config.start_s)
    }

    /// Begins the measurement; returns the bytes that were delivered before.
    fn begin_measure(&self) -> u64 {
        let mut udp = self.shared.udp.lock().expect("no holder panics");
        let UdpMeasured { made, expected, .. } = std::mem::take(&mut *udp);
        let from = made.count();
        *udp = UdpMeasured { made, expected, from, ..UdpMeasured::default() };
        self.shared.delivered.load(Ordering::Relaxed)
    }

    /// Fails if an end of the flow has failed.
    fn check(&mut self) -> Result<(), LabError> {
        let over = self.threads.iter().position(JoinHandle::is_finished);
        if let Some(index) = over {
            let thread = self.threads.remove(index);
            let panicked = || Err(io::Error::other("its thread panicked"));
            thread.join().unwrap_or_else(|_| panicked()).map_err(|error| self.failed(error))?;
        }
        Ok(())
    }

    fn failed(&self, error: io::Error) -> LabError {
        LabError::Flow { name: farhop_sim::engine::flow_name(&self.config), error }
    }

    fn finish(mut self, scenario: &Scenario) -> Result<Measured, LabError> {
        // Threads that wait for blocks end only with the daemons.
        let is_over =
            |thread: &JoinHandle<_>| self.config.kind != FlowKind::Hop || thread.is_finished();
        let threads = std::mem::take(&mut self.threads);
        for thread in threads.into_iter().filter(is_over) {
            let result = thread.join();
            result
                .unwrap_or_else(|_| Err(io::Error::other("its thread panicked")))
                .map_err(|error| self.failed(error))?;
        }
        let shared = &self.shared;
        let stop = self.config.stop_s.unwrap_or(scenario.duration_s);
        let finished = shared.finished.load(Ordering::Relaxed) as f64 / 1e9;
        let mut delivered = shared.delivered.load(Ordering::Relaxed);
        let is_tcp = self.config.kind == FlowKind::Tcp;
        let from = self.measure_from(scenario);
        let start = self.config.start_s;
        let until = if finished > 0.0 { start + finished } else { stop };
        // A flow that ended before its measurement began is measured from its start.
        let (span_s, before_bytes) = match until <= from {
            true => (until - start, 0),
            false => (until - from, self.at_measure.unwrap_or(0)),
        };
        let mut udp = std::mem::take(&mut *shared.udp.lock().expect("no holder panics"));
        let now = Instant::from_nanos(monotonic_nanos());
        (delivered, udp.ended) = self.at_stop.unwrap_or((delivered, now));
        Ok(Measured {
            sent_bytes: shared.sent.load(Ordering::Relaxed),
            delivered_bytes: delivered,
            before_bytes,
            span_s,
            completed_s: (finished > 0.0).then_some(finished),
            bins: self.bins,
            retransmissions: is_tcp.then(|| shared.retransmissions.load(Ordering::Relaxed)),
            udp: (self.config.kind == FlowKind::Udp).then_some(udp),
        })
    }
}

type End = fn(&FlowConfig, SocketAddr, &Shared) -> io::Result<()>;

/// Moves this thread into the network namespace of a process.
fn enter(pid: u32) -> io::Result<()> {
    let namespace = fs::File::open(format!("/proc/{pid}/ns/net"))?;
    Ok(move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?)
}

fn is_pause(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

/// The flow's code point as sockets take it: above the ECN bits, which belong to the kernel.
fn tos(config: &FlowConfig) -> u32 {
    u32::from(config.dscp()) << 2
}

fn monotonic_nanos() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn udp_sender(config: &FlowConfig, address: SocketAddr, shared: &Shared) -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    SockRef::from(&socket).set_tos_v4(tos(config))?;
    socket.connect(address)?;
    let mut payload = vec![0; config.size_bytes.max(FRONT)];
    let bps = config.rate_mbps.expect("every flow was given a rate at its start") * 1e6;
    let gap = StdDuration::from_secs_f64(payload.len() as f64 * 8.0 / bps);
    let begin = WallClock::now();
    for number in 0_u64.. {
        let due = gap.saturating_mul(u32::try_from(number).unwrap_or(u32::MAX));
        // In steps: a slow flow would hold up the end of the lab.
        let left = || due.saturating_sub(begin.elapsed());
        while !left().is_zero() && !shared.stop.load(Ordering::Relaxed) {
            thread::sleep(left().min(LOOK));
        }
        if shared.stop.load(Ordering::Relaxed) {
            break;
        }
        payload[..8].copy_from_slice(&number.to_be_bytes());
        let now = monotonic_nanos();
        payload[8..FRONT].copy_from_slice(&now.to_be_bytes());
        let mut udp = shared.udp.lock().expect("no holder panics");
        udp.made.note(Instant::from_nanos(now), number + 1);
        drop(udp);
        match socket.send(&payload) {
            Ok(length) => {
                shared.sent.fetch_add(length as u64, Ordering::Relaxed);
            }
            // Nobody listens yet, or the interface's queue is full: the datagram is lost.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
            Err(error) if is_pause(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn udp_receiver(_: &FlowConfig, address: SocketAddr, shared: &Shared) -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, address.port()))?;
    socket.set_read_timeout(Some(LOOK))?;
    let mut buffer = vec![0; CHUNK];
    let mut last: Option<f64> = None;
    let mut jitter = 0.0_f64;
    while !shared.stop.load(Ordering::Relaxed) {
        let length = match socket.recv(&mut buffer) {
            Ok(length) if length >= FRONT => length,
            Ok(_) => continue,
            Err(error) if is_pause(&error) => continue,
            Err(error) => return Err(error),
        };
        let word =
            |at: usize| u64::from_be_bytes(buffer[at..at + 8].try_into().expect("eight bytes"));
        let delay = monotonic_nanos().saturating_sub(word(8)) as f64 / 1e6;
        // RFC 3550, 6.4.1.
        if let Some(last) = last.replace(delay) {
            jitter += ((delay - last).abs() - jitter) / 16.0;
        }
        shared.delivered.fetch_add(length as u64, Ordering::Relaxed);
        let mut udp = shared.udp.lock().expect("no holder panics");
        udp.expected = udp.expected.max(word(0) + 1);
        udp.received += u64::from(word(0) >= udp.from);
        udp.delays_ms.push(delay);
        udp.jitters_ms.push(jitter);
    }
    Ok(())
}
