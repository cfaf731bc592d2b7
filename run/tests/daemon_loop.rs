//! Stacks on devices, driven by the daemon's loop: packets of one host come out at the other.

use std::cell::Cell;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::rc::Rc;
use std::thread::{self, JoinHandle};
use std::time::Duration as StdDuration;

use farhop_proto::base::{AccessCategory, Duration, Frame, FrameUp, Instant, RadioId, Room, Seed};
use farhop_proto::link::plain::PlainConfig;
use farhop_proto::link::wild::WildConfig;
use farhop_proto::stack::{
    LinkConfig, NodeConfig, NodePlan, RadioLinkConfig, Scenario, StackConfig,
};
use farhop_proto::wire::ip;
use farhop_run::daemon::driver::Driver;
use farhop_run::daemon::host::SocketHost;
use farhop_run::daemon::{DaemonOptions, DeviceChoice, device_spec, with_blocks};
use farhop_run::device::channel::{self, Channel};
use farhop_run::device::tun;
use farhop_run::device::udp::{Udp, UdpSpec};
use farhop_run::device::{Clock, Device, DeviceStatus};
use rustix::event::PollFlags;

/// How long a packet may take on a busy machine before a test gives up.
const PATIENCE: StdDuration = StdDuration::from_secs(20);

fn scenario(link: LinkConfig) -> Scenario {
    let node = |name: &str| NodeConfig { name: name.into(), ..NodeConfig::default() };
    Scenario {
        name: "pair".into(),
        duration_s: 1.0,
        stack: StackConfig { link, ..StackConfig::default() },
        node: vec![node("a"), node("b")],
        link: vec![RadioLinkConfig {
            between: ["a".into(), "b".into()],
            signal_dbm: Some(-60.0),
            ..RadioLinkConfig::default()
        }],
        ..Scenario::default()
    }
}

fn plans(link: LinkConfig) -> [NodePlan; 2] {
    scenario(link).plan().nodes.try_into().expect("two nodes")
}

fn plain() -> LinkConfig {
    LinkConfig::Plain(PlainConfig::default())
}

/// A UDP packet from node `from` to node `to`.
fn packet(from: u8, to: u8, tag: u8) -> Vec<u8> {
    let mut out = Vec::new();
    let (src, dst) = (Ipv4Addr::new(10, 66, 0, from), Ipv4Addr::new(10, 66, 0, to));
    ip::put_ipv4(&mut out, src, dst, ip::UDP, 208);
    out.extend_from_slice(&[0, 9, 0, 9, 0, 208, 0, 0]);
    out.extend_from_slice(&[tag; 200]);
    out
}

#[test]
fn a_loop_that_is_stopped_for_long_has_stood_still() {
    let [plan, _] = plans(LinkConfig::Wild(WildConfig::default()));
    let mut driver = Driver::build(&plan, Seed(1), Clock::start());
    driver.wait(&[]).expect("a wait");
    driver.turn().expect("a turn");
    assert_eq!(driver.standstills(), None);
    driver.wait(&[]).expect("a wait");
    thread::sleep(StdDuration::from_millis(1_500));
    driver.turn().expect("a turn");
    let stood = driver.standstills().expect("it did");
    assert_eq!(stood.times, 1);
    assert!(stood.longest_s > 1.0, "{stood:?}");
}

/// A daemon's loop in a thread, until its stop socket is closed. Returns its count of turns.
fn spawn(
    plan: NodePlan,
    port: UnixDatagram,
    stop: UnixStream,
    open: impl FnOnce(&NodePlan, Clock) -> Box<dyn Device> + Send + 'static,
) -> JoinHandle<u64> {
    thread::spawn(move || {
        let clock = Clock::start();
        let mut driver = Driver::build(&plan, Seed(1), clock);
        driver.add_radio(RadioId(0), open(&plan, clock));
        driver.set_host(Box::new(SocketHost::new(port).expect("a port")));
        while !driver.wait(&[(stop.as_fd(), PollFlags::IN)]).expect("a wait") {
            driver.turn().expect("a turn");
        }
        driver.stats().turns
    })
}

fn free_address() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.local_addr().expect("an address")
}

/// Two daemons over UDP; gives what a test holds of them.
fn udp_pair(link: LinkConfig) -> ([UnixDatagram; 2], [UnixStream; 2], [JoinHandle<u64>; 2]) {
    let addresses = [free_address(), free_address()];
    let mut plans = plans(link).into_iter().enumerate();
    let mut hosts = Vec::new();
    let mut stops = Vec::new();
    let threads = std::array::from_fn(|_| {
        let (index, plan) = plans.next().expect("two plans");
        let (host, port) = UnixDatagram::pair().expect("a pair");
        let (stop, stopped) = UnixStream::pair().expect("a pair");
        host.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        hosts.push(host);
        stops.push(stop);
        let peer = (farhop_proto::base::NodeId(2 - index as u16), addresses[1 - index]);
        spawn(plan, port, stopped, move |plan, clock| {
            let spec = device_spec(plan, &plan.radios[0], clock, tun::MTU);
            let is_paced = plan.slot().is_some();
            let udp = UdpSpec { bind: addresses[index], peers: [peer].into(), is_paced };
            Box::new(Udp::open(&udp, spec).expect("a socket"))
        })
    });
    (hosts.try_into().expect("two"), stops.try_into().expect("two"), threads)
}

fn receive(host: &UnixDatagram) -> Vec<u8> {
    let mut buffer = [0; 2048];
    let length = host.recv(&mut buffer).expect("a packet in time");
    buffer[..length].to_vec()
}

/// Sends until an answer comes: the first packets may find the links not in step yet.
fn first_through(from: &UnixDatagram, to: &UnixDatagram, packet: &[u8]) -> Vec<u8> {
    to.set_read_timeout(Some(StdDuration::from_millis(100))).expect("a time-out");
    let mut buffer = [0; 2048];
    let length = (0..200)
        .find_map(|_| {
            from.send(packet).expect("a packet sent");
            to.recv(&mut buffer).ok()
        })
        .expect("a packet in time");
    to.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    buffer[..length].to_vec()
}

#[test]
fn packets_cross_two_daemons_over_udp_and_back() {
    let (hosts, stops, threads) = udp_pair(plain());
    assert_eq!(first_through(&hosts[0], &hosts[1], &packet(1, 2, 7)), packet(1, 2, 7));
    hosts[1].send(&packet(2, 1, 8)).expect("a packet sent");
    assert_eq!(receive(&hosts[0]), packet(2, 1, 8));
    drop(stops);
    for thread in threads {
        let turns = thread.join().expect("a loop that ends");
        assert!(turns < 2_000, "the loop does not spin: {turns} turns for a few packets");
    }
}

#[test]
fn slots_carry_packets_in_both_directions_and_in_order() {
    let (hosts, stops, threads) = udp_pair(LinkConfig::Wild(WildConfig::default()));
    first_through(&hosts[0], &hosts[1], &packet(1, 2, 0));
    for tag in 1..=20 {
        hosts[0].send(&packet(1, 2, tag)).expect("a packet sent");
        hosts[1].send(&packet(2, 1, tag)).expect("a packet sent");
    }
    for (host, from, to) in [(&hosts[1], 1, 2), (&hosts[0], 2, 1)] {
        let mut tag = 1;
        while tag <= 20 {
            let got = receive(host);
            // What was sent to get in step may come late.
            if got != packet(from, to, 0) {
                assert_eq!(got, packet(from, to, tag));
                tag += 1;
            }
        }
    }
    drop(stops);
    for thread in threads {
        thread.join().expect("a loop that ends");
    }
}

#[test]
fn two_loops_in_one_thread_carry_packets_over_a_channel() {
    let clock = Clock::start();
    let plans = plans(plain());
    let specs = plans.each_ref().map(|plan| device_spec(plan, &plan.radios[0], clock, tun::MTU));
    let [first, second] = specs;
    let (a, b) = channel::pair(first, second).expect("a pair");
    let mut devices = [Some(a), Some(b)];
    let mut hosts = Vec::new();
    let mut drivers: Vec<_> = (0..2)
        .map(|index| {
            let (host, port) = UnixDatagram::pair().expect("a pair");
            host.set_nonblocking(true).expect("a socket");
            hosts.push(host);
            let mut driver = Driver::build(&plans[index], Seed(1), clock);
            driver.add_radio(RadioId(0), Box::new(devices[index].take().expect("a device")));
            driver.set_host(Box::new(SocketHost::new(port).expect("a port")));
            driver
        })
        .collect();
    // Each loop has something to wait on: the packet, then the bell of the channel.
    for tag in 0..100 {
        hosts[0].send(&packet(1, 2, tag)).expect("a packet sent");
        drivers[0].wait(&[]).expect("a wait");
        drivers[0].turn().expect("a turn");
        drivers[1].wait(&[]).expect("a wait");
        drivers[1].turn().expect("a turn");
        assert_eq!(receive(&hosts[1]), packet(1, 2, tag));
    }
    let status = drivers[1].devices().remove(0);
    assert_eq!((status.kind, status.frames_received), ("channel", 100));
    assert_eq!(drivers[1].host().expect("a host").stats.to_host, 100);
}

/// A card whose send buffer is full for the first two times that a frame is offered.
struct Reluctant {
    card: Channel,
    clock: Clock,
    refused: u32,
    full_until: Instant,
    /// When it wants to be called; none after `full_until`, if this is none.
    due: Rc<Cell<Option<Instant>>>,
}

impl Device for Reluctant {
    fn fd(&self) -> BorrowedFd<'_> {
        self.card.fd()
    }

    fn receive(&mut self, out: &mut Vec<FrameUp>) -> io::Result<bool> {
        self.card.receive(out)
    }

    fn room(&self, now: Instant, access: AccessCategory) -> Room {
        if now < self.full_until { Room::NONE } else { self.card.room(now, access) }
    }

    fn send(&mut self, frame: Frame, out: &mut Vec<FrameUp>) -> io::Result<Option<Frame>> {
        self.refused = (self.refused + 1) % 3;
        if self.refused == 0 {
            return self.card.send(frame, out);
        }
        self.full_until = self.clock.now() + Duration::from_micros(100);
        Ok(Some(frame))
    }

    fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        self.due.get().or((now < self.full_until).then_some(self.full_until))
    }

    fn handle_timeout(&mut self, _now: Instant, _out: &mut Vec<FrameUp>) {}

    fn status(&self) -> DeviceStatus {
        self.card.status()
    }
}

#[test]
fn what_a_full_card_does_not_take_waits_for_it_and_is_not_lost() {
    let clock = Clock::start();
    let plans = plans(plain());
    let specs = plans.each_ref().map(|plan| device_spec(plan, &plan.radios[0], clock, tun::MTU));
    let [first, second] = specs;
    let (card, mut far) = channel::pair(first, second).expect("a pair");
    let (full_until, due) = (Instant::ZERO, Rc::default());
    let card = Reluctant { card, clock, refused: 0, full_until, due };
    let (host, port) = UnixDatagram::pair().expect("a pair");
    let mut driver = Driver::build(&plans[0], Seed(1), clock);
    driver.add_radio(RadioId(0), Box::new(card));
    driver.set_host(Box::new(SocketHost::new(port).expect("a port")));
    let (mut out, mut tags) = (Vec::new(), Vec::new());
    for tag in 0..40 {
        host.send(&packet(1, 2, tag)).expect("a packet sent");
    }
    // Of three offers one is accepted.
    for _ in 0..1_000 {
        driver.wait(&[]).expect("a wait");
        driver.turn().expect("a turn");
        far.receive(&mut out).expect("a channel");
        tags.extend(out.drain(..).filter_map(|event| match event {
            FrameUp::Received(frame) => frame.payload.last().copied(),
            _ => None,
        }));
        if tags.len() == 40 {
            break;
        }
    }
    assert_eq!(tags, (0..40).collect::<Vec<_>>());
}

#[test]
fn what_was_due_before_the_loop_began_is_not_late() {
    let clock = Clock::start();
    let [plan, _] = plans(LinkConfig::Wild(WildConfig::default()));
    let mut driver = Driver::build(&plan, Seed(1), clock);
    for _ in 0..3 {
        driver.wait(&[]).expect("a wait");
        driver.turn().expect("a turn");
    }
    let wakeups = driver.wakeups();
    assert_eq!(wakeups.timer, 3);
    assert!(wakeups.worst_us < 9e6, "the clock starts at 10 s: {wakeups:?}");
}

#[test]
fn what_something_else_held_back_for_long_is_not_late() {
    let clock = Clock::start();
    let plans = plans(plain());
    let specs = plans.each_ref().map(|plan| device_spec(plan, &plan.radios[0], clock, tun::MTU));
    let [first, second] = specs;
    let (card, _far) = channel::pair(first, second).expect("a pair");
    let (full_until, due) = (Instant::ZERO, Rc::<Cell<_>>::default());
    let card = Reluctant { card, clock, refused: 0, full_until, due: due.clone() };
    let mut driver = Driver::build(&plans[0], Seed(1), clock);
    driver.add_radio(RadioId(0), Box::new(card));
    let begun = driver.now();
    let step = Duration::from_millis(10);
    for turn in 1..=150 {
        due.set(Some(begun + step * turn));
        driver.wait(&[]).expect("a wait");
        driver.turn().expect("a turn");
    }
    // As a block of which it is asked whether it arrived, once the one before has.
    due.set(Some(begun));
    driver.wait(&[]).expect("a wait");
    driver.turn().expect("a turn");
    let wakeups = driver.wakeups();
    assert!(wakeups.timer >= 150, "{wakeups:?}");
    assert_eq!((wakeups.late_1s, driver.standstills()), (0, None), "{wakeups:?}");
}

#[test]
fn a_node_whose_store_cannot_be_opened_carries_no_blocks_until_it_can() {
    let clock = Clock::start();
    let [plan, _] = plans(plain()).map(with_blocks);
    let mut driver = Driver::build(&plan, Seed(1), clock);
    let dir = tempfile::tempdir().expect("a directory");
    let store = dir.path().join("blocks.redb");
    std::fs::write(&store, "no store").expect("it can be written");
    let refused = driver.keep_blocks(Some(dir.path()), &plan).expect_err("it is none");
    let status = driver.blocks_status();
    assert_eq!(status.trouble, Some(format!("{refused:#}")));
    assert!(!status.are_carried && driver.blocks().is_none() && !driver.is_due_to_keep());
    assert!(driver.stack_status().hop.is_none(), "what comes would be acknowledged");
    let again = |driver: &mut Driver| {
        let end = std::time::Instant::now() + PATIENCE;
        while std::time::Instant::now() < end {
            match driver.keep_again(dir.path(), &plan) {
                Some(outcome) => return outcome,
                None => thread::sleep(StdDuration::from_millis(1)),
            }
        }
        panic!("it is opened in time")
    };
    let refused = again(&mut driver).expect_err("it is none still");
    let status = driver.blocks_status();
    assert_eq!(status.trouble, Some(format!("{refused:#}")));
    assert!(driver.stack_status().hop.is_none() && !driver.is_due_to_keep());
    std::fs::remove_file(&store).expect("it is there");
    again(&mut driver).expect("a new one");
    let status = driver.blocks_status();
    assert!(status.are_carried && status.trouble.is_none() && driver.blocks().is_some());
    driver.turn().expect("a turn");
}

#[test]
fn a_flood_from_the_host_is_dropped_and_counted_and_does_not_stop_the_loop() {
    let (hosts, stops, threads) = udp_pair(plain());
    first_through(&hosts[0], &hosts[1], &packet(1, 2, 0));
    let flood = hosts[0].try_clone().expect("a socket");
    let flood = thread::spawn(move || {
        for _ in 0..20_000 {
            flood.send(&packet(1, 2, 1)).expect("a packet sent");
        }
    });
    hosts[1].send(&packet(2, 1, 9)).expect("a packet sent");
    assert_eq!(receive(&hosts[0]), packet(2, 1, 9));
    flood.join().expect("a flood that ends");
    drop(stops);
    for thread in threads {
        thread.join().expect("a loop that ends");
    }
}

#[test]
fn a_node_without_a_device_is_explained() {
    let mut scenario = scenario(plain());
    let error = DaemonOptions::from_scenario(&scenario, "a").expect_err("no device");
    assert!(error.to_string().contains("no device for node 'a'"), "{error}");
    let error = DaemonOptions::from_scenario(&scenario, "c").expect_err("no node");
    assert!(error.to_string().contains("no node 'c' in the scenario; it has a, b"), "{error}");
    scenario.node[0].device =
        Some(farhop_proto::stack::DeviceConfig::Monitor { interface: "mon0".into() });
    let options = DaemonOptions::from_scenario(&scenario, "a").expect("options");
    assert_eq!(options.devices, [DeviceChoice::Monitor { interface: "mon0".into() }]);
}
