//! Whole daemons in network namespaces: kernel sockets over TUN, radiotap over veth, between them
//! a small air that answers as a card does. Needs the right to make namespaces.

use std::fs::File;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration as StdDuration;

use farhop_proto::base::{Bitrate, Dbm, Phy, Rng, Seed};
use farhop_proto::link::wild::WildConfig;
use farhop_proto::stack::{
    LinkConfig, NodeConfig, NodePlan, RadioLinkConfig, Scenario, StackConfig,
};
use farhop_proto::wire::radiotap::{self, Echo, Reception};
use farhop_run::daemon::{self, DaemonOptions, DeviceChoice, query, socket_path};
use farhop_run::device::{Clock, FRAME_BYTES, PacketSocket};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use serde_json::Value;

const MBPS_11: Bitrate = Bitrate::from_100kbps(110);
/// How long the daemons may take on a busy machine before the test gives up.
const PATIENCE: StdDuration = StdDuration::from_secs(30);

fn plans() -> [NodePlan; 2] {
    let node = |name: &str| NodeConfig { name: name.into(), ..NodeConfig::default() };
    let scenario = Scenario {
        name: "pair".into(),
        duration_s: 1.0,
        stack: StackConfig {
            link: LinkConfig::Wild(WildConfig::default()),
            ..StackConfig::default()
        },
        node: vec![node("a"), node("b")],
        link: vec![RadioLinkConfig {
            between: ["a".into(), "b".into()],
            signal_dbm: Some(-60.0),
            ..RadioLinkConfig::default()
        }],
        ..Scenario::default()
    };
    scenario.plan().nodes.try_into().expect("two nodes")
}

fn ip(arguments: &str) -> Result<(), String> {
    let output = Command::new("ip").args(arguments.split_whitespace()).output();
    let output = output.map_err(|error| format!("ip: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("ip {arguments}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

/// Gives the calling thread a namespace of its own; returns the file that stands for it.
fn namespace() -> Result<PathBuf, String> {
    farhop_run::device::os::unshare(UnshareFlags::NEWNET)
        .map_err(|error| format!("no network namespace: {error}"))?;
    let thread = rustix::thread::gettid().as_raw_nonzero();
    Ok(format!("/proc/{}/task/{thread}/ns/net", std::process::id()).into())
}

/// A daemon in a namespace of its own.
struct Node {
    /// The namespace, to go into, and its path.
    namespace: File,
    path: PathBuf,
    stop: Option<UnixStream>,
    thread: Option<thread::JoinHandle<anyhow::Result<()>>>,
}

impl Node {
    /// Starts a daemon whose radio is at the other end of the veth `outside` of this namespace.
    fn start(plan: NodePlan, outside: &str, dir: &Path) -> Result<Self, String> {
        let (told, tell) = mpsc::channel();
        let (go, gone) = mpsc::channel::<()>();
        let (stop, stopped) = UnixStream::pair().map_err(|error| error.to_string())?;
        let dir = dir.to_owned();
        let thread = thread::spawn(move || {
            told.send(namespace()).expect("a test that listens");
            gone.recv().expect("a test that goes on");
            let device = DeviceChoice::Monitor { interface: "radio".into() };
            daemon::run(DaemonOptions {
                plan,
                seed: Seed(1),
                devices: vec![device],
                security: None,
                tun: "farhop0".into(),
                runtime_dir: Some(dir),
                state_dir: None,
                stop: Some(OwnedFd::from(stopped)),
                is_service: false,
            })
        });
        let path = tell.recv().map_err(|error| error.to_string())??;
        let namespace = File::open(&path).map_err(|error| error.to_string())?;
        let node = Self { namespace, path, stop: Some(stop), thread: Some(thread) };
        node.plug(outside)?;
        go.send(()).map_err(|error| error.to_string())?;
        Ok(node)
    }

    /// Gives the node a radio at the other end of a new veth.
    fn plug(&self, outside: &str) -> Result<(), String> {
        let path = self.path.display();
        ip(&format!("link add {outside} type veth peer name radio netns {path}"))?;
        ip(&format!("link set {outside} mtu 2400 up"))?;
        inside(&self.namespace, || ip("link set radio mtu 2400 up"))
    }

    /// A UDP socket in the node's namespace.
    fn socket(&self, address: &str) -> UdpSocket {
        inside(&self.namespace, || {
            let socket = UdpSocket::bind(address).expect("an address of the node");
            socket.set_read_timeout(Some(StdDuration::from_millis(200))).expect("a time-out");
            socket
        })
    }

    fn end(mut self) {
        self.stop = None;
        let thread = self.thread.take().expect("a daemon that runs");
        thread.join().expect("no panic").expect("a clean end");
    }
}

/// Does something in another namespace.
fn inside<T: Send>(namespace: &File, action: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(std::os::fd::AsFd::as_fd(namespace), kind)
                .expect("a namespace");
            action()
        });
        thread.join().expect("no panic")
    })
}

/// An air between the two radios; true ends it.
fn start_air() -> (Arc<AtomicBool>, thread::JoinHandle<()>) {
    let stop = Arc::new(AtomicBool::new(false));
    let sockets = ["air0", "air1"].map(open);
    let air = thread::spawn({
        let stop = stop.clone();
        move || run_air(&sockets, &stop)
    });
    (stop, air)
}

fn end_air((stop, air): (Arc<AtomicBool>, thread::JoinHandle<()>)) {
    stop.store(true, Ordering::Relaxed);
    air.join().expect("no panic");
}

fn open(name: &str) -> PacketSocket {
    PacketSocket::open(name, None).expect("a veth")
}

/// Waits until what a daemon says of its device is so.
fn wait_for(path: &Path, what: &str, is_so: impl Fn(&Value) -> bool) {
    (0..200)
        .find(|_| {
            thread::sleep(StdDuration::from_millis(50));
            query(path).is_ok_and(|status| is_so(&status["devices"][0]))
        })
        .unwrap_or_else(|| panic!("no daemon whose device {what}"));
}

/// Answers each injected frame with an echo and hands it to the other radio; loses every tenth.
fn run_air(sockets: &[PacketSocket; 2], stop: &AtomicBool) {
    let clock = Clock::start();
    let (mut buffer, mut out) = (vec![0; FRAME_BYTES], Vec::new());
    let mut frames = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        let mut is_idle = true;
        for (from, socket) in sockets.iter().enumerate() {
            while let Ok(Some(arrival)) = socket.receive(&mut buffer) {
                let packet = &buffer[..arrival.length];
                let Ok(tap) = radiotap::parse(packet) else { continue };
                if arrival.outgoing || tap.tx_flags.is_none() {
                    continue;
                }
                is_idle = false;
                frames += 1;
                let retries = 0;
                out.clear();
                radiotap::put_echo(
                    &mut out,
                    &Echo { phy: Phy::default(), rate: MBPS_11, failed: true, retries },
                );
                out.extend_from_slice(&packet[tap.length..]);
                socket.send(&out).expect("a veth");
                if frames.is_multiple_of(10) {
                    continue;
                }
                // The radio's clock is an hour ahead.
                let tsft_us = clock.now().as_nanos() / 1_000 + 3_600_000_000;
                let (rate, signal) = (MBPS_11, Some(Dbm::new(-60)));
                out.clear();
                let phy = Phy::default();
                let reception = Reception {
                    tsft_us,
                    phy,
                    rate,
                    channel: 1,
                    signal,
                    antenna: None,
                    ampdu: None,
                };
                radiotap::put_reception(&mut out, &reception);
                out.extend_from_slice(&packet[tap.length..]);
                sockets[1 - from].send(&out).expect("a veth");
            }
        }
        if is_idle {
            thread::sleep(StdDuration::from_micros(200));
        }
    }
}

/// Sends numbered packets until all have been seen at the other end.
fn exchange(from: &UdpSocket, to: &UdpSocket, address: &str, count: u8) {
    let mut seen = vec![false; usize::from(count)];
    let mut buffer = [0; 2048];
    for _ in 0..PATIENCE.as_millis() / 200 {
        for tag in 0..count {
            if !seen[usize::from(tag)] {
                from.send_to(&[tag; 1000], address).expect("a packet sent");
            }
        }
        while seen.contains(&false)
            && let Ok(length) = to.recv(&mut buffer)
        {
            assert_eq!(length, 1000);
            seen[usize::from(buffer[0])] = true;
        }
        if !seen.contains(&false) {
            return;
        }
    }
    panic!("{} of {count} packets came", seen.iter().filter(|seen| **seen).count());
}

fn flood(socket: &PacketSocket, rng: &mut Rng, count: usize) {
    let mut packet = Vec::new();
    for _ in 0..count {
        packet.clear();
        let length = 14 + rng.below(300) as usize;
        packet.extend((0..length).map(|_| rng.next_u64() as u8));
        // Half with a radiotap header that holds.
        if rng.chance(0.5) {
            packet[..8].copy_from_slice(&[0, 0, 8, 0, 0, 0, 0, 0]);
        }
        while !socket.send(&packet).expect("a veth") {
            thread::yield_now();
        }
    }
}

fn counters(value: &Value) -> u64 {
    value.as_object().expect("counters").values().filter_map(Value::as_u64).sum()
}

fn run_two_daemons(dir: &Path) -> Result<(), String> {
    File::open("/dev/net/tun").map_err(|error| format!("/dev/net/tun: {error}"))?;
    namespace()?;
    let [a, b] = plans();
    let nodes = [Node::start(a, "air0", dir)?, Node::start(b, "air1", dir)?];
    let (air, flooder) = (start_air(), open("air1"));
    let paths = ["a", "b"].map(|name| socket_path(dir, name));
    paths.iter().for_each(|path| wait_for(path, "answers", |_| true));
    let ends = [nodes[0].socket("10.66.0.1:9000"), nodes[1].socket("10.66.0.2:9000")];
    exchange(&ends[0], &ends[1], "10.66.0.2:9000", 20);
    exchange(&ends[1], &ends[0], "10.66.0.1:9000", 20);
    let six = nodes[0].socket("[fd66:6172:686f:70::1]:9001");
    let six_too = nodes[1].socket("[fd66:6172:686f:70::2]:9001");
    exchange(&six, &six_too, "[fd66:6172:686f:70::2]:9001", 5);

    let before = query(&paths[1]).expect("an answer");
    flood(&flooder, &mut Seed(1).stream("flood"), 50_000);
    exchange(&ends[0], &ends[1], "10.66.0.2:9000", 20);
    let after = query(&paths[1]).expect("an answer");
    let dropped = counters(&after["devices"][0]["dropped"]);
    // The kernel may drop some of the flood before the daemon sees it.
    assert!(dropped > 1_000, "{}", after["devices"][0]);
    let grown = |key: &str| after[key].as_u64().expect("kB") - before[key].as_u64().expect("kB");
    assert!(grown("memory_kb") < 4_096, "{} kB", grown("memory_kb"));

    let device = &after["devices"][0];
    assert_eq!(device["capabilities"]["hardware_timestamps"], true, "{device}");
    assert_eq!(device["clock_jumps"], 0, "{device}");
    let sent = &device["sent"];
    assert!(sent["echoes"].as_u64() > Some(0), "{sent}");
    assert!(after["wakeups"]["timer"].as_u64() > Some(0), "{after}");
    assert_eq!(after["name"], "b");

    // A card is unplugged and comes back; programs here keep their sockets.
    end_air(air);
    drop(flooder);
    ip("link del air1")?;
    wait_for(&paths[1], "is gone", |device| device["is_gone"] == true);
    nodes[1].plug("air1")?;
    let air = start_air();
    wait_for(&paths[1], "is back", |device| device["is_gone"] == false);
    exchange(&ends[0], &ends[1], "10.66.0.2:9000", 20);
    exchange(&ends[1], &ends[0], "10.66.0.1:9000", 20);

    nodes.into_iter().for_each(Node::end);
    end_air(air);
    assert!(paths.iter().all(|path| !path.exists()), "sockets go with their daemons");
    Ok(())
}

#[test]
fn kernel_sockets_talk_over_two_daemons_through_loss_and_a_flood_of_junk() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().to_owned();
    // A thread of its own: its namespace goes with it.
    let result = thread::spawn(move || run_two_daemons(&path)).join().expect("no panic");
    if let Err(reason) = result {
        farhop_testkit::skip(reason);
    }
}
