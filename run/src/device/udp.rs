//! UDP datagrams to neighbours at known addresses; a broadcast is sent to each of them.
//!
//! Frames need not wait for air. Unless the socket is paced like the radio that it stands for, it
//! accepts what it is given, and hands it to the kernel in trains at the end of a turn.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::BorrowedFd;

use bytes::Bytes;
use farhop_proto::base::{
    AccessCategory, Duration, Frame, FrameDone, FrameOutcome, FrameUp, Instant, NodeId, Room,
};
use socket2::SockAddr;

use super::datagrams::{Datagrams, TRAIN_BYTES, TRAIN_DATAGRAMS};
use super::tunnel::{HEADER_BYTES, Tunnel};
use super::{Device, DeviceSpec, DeviceStatus, named, unsent};

/// Bytes of a block in a frame that fits into a datagram with an MTU of 1,500. To these come IPv6
/// and UDP (48), our header (8), the seal (24), and inside it IPv4, UDP and the header of blocks
/// (52).
pub(crate) const SEALED_FRAME_BYTES: u16 = 1_368;
/// Most frames that wait for the kernel.
const WAITING: usize = 256;
/// Most addresses of the host that an error message lists.
const LISTED: usize = 8;

/// The addresses of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpSpec {
    /// Address that it is bound to.
    pub bind: SocketAddr,
    /// Addresses of the neighbours.
    pub peers: BTreeMap<NodeId, SocketAddr>,
    /// Whether it sends no faster than the radio would.
    pub is_paced: bool,
}

/// A UDP socket that stands for a radio.
#[derive(Debug)]
pub struct Udp {
    tunnel: Tunnel,
    socket: Datagrams,
    bound: SocketAddr,
    peers: BTreeMap<NodeId, (SocketAddr, SockAddr)>,
    is_paced: bool,
    waiting: VecDeque<Waiting>,
    last_stranger: Option<SocketAddr>,
}

/// A frame that waits to be sent to a neighbour.
#[derive(Debug)]
struct Waiting {
    to: NodeId,
    header: [u8; HEADER_BYTES],
    payload: Bytes,
}

impl Waiting {
    fn length(&self) -> usize {
        HEADER_BYTES + self.payload.len()
    }
}

impl Udp {
    /// Binds the socket.
    ///
    /// Fails if the host does not have the address, or its port is taken.
    pub fn open(udp: &UdpSpec, spec: DeviceSpec) -> io::Result<Self> {
        let UdpSpec { bind, ref peers, is_paced } = *udp;
        let socket = UdpSocket::bind(bind).map_err(|error| explain(&error, bind))?;
        let peer = |(node, address): (&NodeId, &SocketAddr)| (*node, (*address, (*address).into()));
        Ok(Self {
            tunnel: Tunnel::build(spec),
            bound: socket.local_addr()?,
            socket: Datagrams::new(socket)?,
            peers: peers.iter().map(peer).collect(),
            is_paced,
            waiting: VecDeque::with_capacity(WAITING),
            last_stranger: None,
        })
    }

    /// Queues a frame for [`Udp::transmit`], a broadcast once for each neighbour.
    fn put(&mut self, frame: Frame) {
        let (header, payload) = (self.tunnel.header(&frame), frame.payload);
        match frame.to {
            Some(to) if self.peers.contains_key(&to) => {
                self.waiting.push_back(Waiting { to, header, payload });
            }
            None if !self.peers.is_empty() => {
                let wait = |to: &NodeId| Waiting { to: *to, header, payload: payload.clone() };
                self.waiting.extend(self.peers.keys().map(wait));
            }
            _ => self.tunnel.count_failed("no-address"),
        }
    }

    /// Sends the waiting frames; `None` if the kernel accepts no more. Unreachable neighbours are
    /// counted, and are no error.
    fn transmit(&mut self) -> Option<()> {
        while let Some(first) = self.waiting.front() {
            let (to, each) = (first.to, first.length());
            let count = self.train();
            let mut parts = Vec::with_capacity(2 * count);
            for frame in self.waiting.range(..count) {
                parts.extend([IoSlice::new(&frame.header), IoSlice::new(&frame.payload)]);
            }
            let (_, address) = &self.peers[&to];
            let mut outcome = self.socket.send(address, &parts, each);
            if outcome.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
            {
                // The error is of an earlier datagram, and kept this one from being sent.
                self.tunnel.count_failed("unreachable");
                outcome = self.socket.send(address, &parts, each);
            }
            match outcome {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(_) => (0..count).for_each(|_| self.tunnel.count_failed("unreachable")),
                Ok(()) => {}
            }
            self.waiting.drain(..count);
        }
        Some(())
    }

    /// How many of the first waiting frames form a train.
    fn train(&self) -> usize {
        let (mut count, mut bytes) = (0, 0);
        let Some((to, each)) = self.waiting.front().map(|first| (first.to, first.length())) else {
            return 0;
        };
        for frame in self.waiting.iter().take(TRAIN_DATAGRAMS) {
            let length = frame.length();
            if count > 0 && (frame.to != to || length > each || bytes + length > TRAIN_BYTES) {
                break;
            }
            (count, bytes) = (count + 1, bytes + length);
            if length < each {
                break;
            }
        }
        count
    }

    /// Sends a frame that uses air time of its radio.
    fn send_paced(&mut self, frame: Frame, out: &mut Vec<FrameUp>) -> Option<Frame> {
        let now = self.tunnel.spec.clock.now();
        if !self.tunnel.gate.is_in_time(now, &frame) {
            out.push(unsent(&frame, FrameOutcome::Late));
            return None;
        }
        self.put(frame.clone());
        let copies = self.waiting.len();
        if self.transmit().is_none() {
            self.tunnel.gate.on_full(now);
            let left = std::mem::take(&mut self.waiting).len();
            if left == copies {
                return Some(frame);
            }
            // Some neighbours have it, and must not get it twice.
            (0..left).for_each(|_| self.tunnel.count_failed("send-buffer"));
        }
        let (after, guard) = (self.tunnel.spec.clock.now(), self.tunnel.spec.guard);
        self.tunnel.gate.on_sent(after, &frame, 0, guard);
        None
    }
}

impl Device for Udp {
    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.fd()
    }

    fn receive(&mut self, out: &mut Vec<FrameUp>) -> io::Result<bool> {
        let (now, before) = (self.tunnel.spec.clock.now(), out.len());
        let (tunnel, peers, stranger) = (&mut self.tunnel, &self.peers, &mut self.last_stranger);
        let received = self.socket.receive(|train| {
            if peers.values().any(|(peer, _)| Some(*peer) == train.from) {
                out.extend(train.datagrams().filter_map(|datagram| tunnel.take(datagram, now)));
            } else {
                *stranger = train.from;
                tunnel.count("stranger");
            }
        });
        match received {
            // An earlier datagram reached nobody: the neighbour's daemon does not run.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            Err(error) => Err(named(error, &self.bound.to_string())),
            // Frames of ours are counted by who takes them.
            Ok(is_all) => Ok(is_all && out.len() == before),
        }
    }

    fn room(&self, now: Instant, access: AccessCategory) -> Room {
        let room = self.tunnel.gate.room(now, access);
        if self.is_paced || room.is_none() {
            return room;
        }
        Room::units(WAITING.saturating_sub(self.waiting.len()))
    }

    fn send(&mut self, frame: Frame, out: &mut Vec<FrameUp>) -> io::Result<Option<Frame>> {
        if self.is_paced {
            return Ok(self.send_paced(frame, out));
        }
        let (id, outcome) = (frame.id, FrameOutcome::Sent);
        self.put(frame);
        self.tunnel.gate.on_passed();
        // The frame waits only for the end of the turn, and not for air.
        out.push(FrameUp::Done(FrameDone { id, outcome, attempts: 1, air_time: Duration::ZERO }));
        Ok(None)
    }

    fn flush(&mut self) {
        if !self.waiting.is_empty() && self.transmit().is_none() {
            self.tunnel.gate.on_full(self.tunnel.spec.clock.now());
        }
    }

    fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        self.tunnel.gate.poll_timeout(now)
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Vec<FrameUp>) {
        while let Some(done) = self.tunnel.gate.poll_done(now) {
            out.push(FrameUp::Done(done));
        }
    }

    fn status(&self) -> DeviceStatus {
        DeviceStatus {
            last_stranger: self.last_stranger,
            ..self.tunnel.status("udp", self.bound.to_string())
        }
    }
}

/// Explains why a socket cannot be bound to this address, and what to do.
fn explain(error: &io::Error, bind: SocketAddr) -> io::Error {
    let help = match error.kind() {
        io::ErrorKind::AddrNotAvailable => {
            let own = own_addresses(bind.is_ipv4());
            let has = if own.is_empty() { String::new() } else { format!(" (it has {own})") };
            let ip = bind.ip();
            format!("no interface of this host has {ip}{has}: put an address of this host into")
        }
        io::ErrorKind::AddrInUse => format!(
            "another program of this host has the UDP port {}: end it, or put another port into",
            bind.port()
        ),
        io::ErrorKind::PermissionDenied => format!(
            "no right to the port {}: run as root, or put a port from 1024 on into",
            bind.port()
        ),
        _ => return named(io::Error::new(error.kind(), error.to_string()), &bind.to_string()),
    };
    io::Error::new(error.kind(), format!("{bind}: {help} `bind` ({error})"))
}

/// Addresses of this host, without those of the loopback, as the kernel lists them.
fn own_addresses(is_ipv4: bool) -> String {
    let read = |file| fs::read_to_string(file).unwrap_or_default();
    if is_ipv4 {
        ipv4_of(&read("/proc/net/fib_trie"))
    } else {
        ipv6_of(&read("/proc/net/if_inet6"))
    }
}

/// The local addresses in a `fib_trie`: the line below an address says what it is.
fn ipv4_of(trie: &str) -> String {
    let mut found = BTreeSet::new();
    let lines = trie.lines().zip(trie.lines().skip(1));
    for (line, _) in lines.filter(|(_, below)| below.contains("/32 host LOCAL")) {
        let address = line.trim_start_matches([' ', '|', '-', '+']);
        found.extend(address.parse::<Ipv4Addr>().ok().filter(|address| !address.is_loopback()));
    }
    listed(found)
}

/// The addresses in an `if_inet6`: each line begins with 32 digits.
fn ipv6_of(table: &str) -> String {
    let address = |line: &str| {
        let bits = u128::from_str_radix(line.split_whitespace().next()?, 16).ok()?;
        Some(Ipv6Addr::from_bits(bits)).filter(|address| !address.is_loopback())
    };
    listed(table.lines().filter_map(address).collect())
}

fn listed<T: ToString>(addresses: BTreeSet<T>) -> String {
    let addresses: Vec<String> = addresses.iter().take(LISTED).map(ToString::to_string).collect();
    addresses.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Clock;
    use farhop_proto::base::phy::Phy;
    use farhop_proto::base::{EtherType, FlowId, RadioId, RadioSpec, TxOptions, UnitId};

    fn spec(node: u16) -> DeviceSpec {
        DeviceSpec {
            node: NodeId(node),
            radio: RadioSpec::of(Phy::default()),
            guard: Duration::ZERO,
            transmit_status: false,
            attempts: 1,
            longest: 1_500,
            clock: Clock::start(),
        }
    }

    fn frame(to: Option<NodeId>, number: u8, bytes: usize) -> Frame {
        Frame {
            id: UnitId(u64::from(number)),
            radio: RadioId(0),
            to,
            flow: FlowId(0),
            protocol: EtherType::IPV4,
            payload: vec![number; bytes].into(),
            options: TxOptions::default(),
        }
    }

    /// Node 1 with its neighbours 2 and 3, which have its address.
    fn neighbours() -> (Udp, [Udp; 2]) {
        let port = || {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
            socket.local_addr().expect("it is bound")
        };
        let [own, second, third] = [port(), port(), port()];
        let open = |node, bind, peers| {
            let udp = UdpSpec { bind, peers, is_paced: false };
            Udp::open(&udp, spec(node)).expect("a socket")
        };
        let peers = [(NodeId(2), second), (NodeId(3), third)].into();
        let of = |node, bind| open(node, bind, [(NodeId(1), own)].into());
        (open(1, own, peers), [of(2, second), of(3, third)])
    }

    fn received(device: &mut Udp, count: usize) -> Vec<(u8, usize)> {
        let mut up = Vec::new();
        for _ in 0..10_000 {
            device.receive(&mut up).expect("a socket");
            if up.len() >= count {
                break;
            }
            std::thread::yield_now();
        }
        let frame = |event: &FrameUp| match event {
            FrameUp::Received(frame) => (frame.payload[0], frame.payload.len()),
            other => panic!("{other:?}"),
        };
        up.iter().map(frame).collect()
    }

    #[test]
    fn frames_of_a_turn_come_in_their_order_and_those_for_all_at_each_neighbour() {
        let (mut device, [mut second, mut third]) = neighbours();
        let sent = [(1, 900), (2, 900), (3, 400), (4, 900), (5, 1_200), (6, 10), (7, 10)];
        let mut up = Vec::new();
        for (number, bytes) in sent {
            let to = (number != 4).then_some(NodeId(2));
            device.send(frame(to, number, bytes), &mut up).expect("a socket");
        }
        assert_eq!(up.len(), sent.len(), "each has left as far as the link can know");
        assert!(!device.room(device.tunnel.spec.clock.now(), AccessCategory::default()).is_none());
        device.flush();
        assert_eq!(received(&mut second, sent.len()), sent);
        assert_eq!(received(&mut third, 1), [(4, 900)]);
    }

    #[test]
    fn frames_that_could_not_be_sent_are_not_counted_as_frames_of_others() {
        // There is no route to this address from the loopback.
        let far = "192.0.2.7:4850".parse().expect("an address");
        let bind = "127.0.0.1:0".parse().expect("an address");
        let udp = UdpSpec { bind, peers: [(NodeId(2), far)].into(), is_paced: false };
        let mut device = Udp::open(&udp, spec(1)).expect("a socket");
        for (to, number) in [(2, 0), (2, 1), (9, 2)] {
            device.send(frame(Some(NodeId(to)), number, 100), &mut Vec::new()).expect("a socket");
        }
        device.flush();
        let status = device.status();
        assert_eq!(status.failed, [("no-address", 1), ("unreachable", 2)].into());
        assert!(status.dropped.is_empty(), "{:?}", status.dropped);
        let both = device.status().after(&status);
        assert_eq!(both.failed.get("no-address"), Some(&2), "it was opened anew");
    }

    #[test]
    fn a_device_that_is_not_flushed_has_room_for_some_frames_alone() {
        let (mut device, _others) = neighbours();
        for _ in 0..WAITING {
            assert!(!device.room(Instant::ZERO, AccessCategory::default()).is_none());
            device.send(frame(Some(NodeId(2)), 1, 100), &mut Vec::new()).expect("a socket");
        }
        assert!(device.room(Instant::ZERO, AccessCategory::default()).is_none());
        device.flush();
        assert!(!device.room(Instant::ZERO, AccessCategory::default()).is_none());
    }

    #[test]
    fn an_address_of_another_host_and_a_taken_port_are_told_apart() {
        let open = |bind: SocketAddr| {
            let udp = UdpSpec { bind, peers: BTreeMap::new(), is_paced: false };
            Udp::open(&udp, spec(1)).expect_err("it cannot be bound").to_string()
        };
        let foreign = open("192.0.2.77:4850".parse().expect("an address"));
        assert!(foreign.contains("no interface of this host has 192.0.2.77"), "{foreign}");
        let holder = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let bound = holder.local_addr().expect("it is bound");
        let taken = open(bound);
        let port = format!("another program of this host has the UDP port {}", bound.port());
        assert!(taken.contains(&port) && taken.contains("`bind`"), "{taken}");
    }

    #[test]
    fn addresses_of_the_host_are_read_as_the_kernel_writes_them() {
        let trie = "Local:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 10.1.0.0\n        /16 link UNICAST\n\
                    |-- 10.1.0.5\n        /32 host LOCAL\n     |-- 127.0.0.1\n        \
                    /32 host LOCAL\n     |-- 10.1.255.255\n        /32 link BROADCAST\n";
        assert_eq!(ipv4_of(trie), "10.1.0.5");
        let table = "00000000000000000000000000000001 01 80 10 80       lo\n\
                     20010db8000000000000000000000007 02 40 00 80     eth0\n";
        assert_eq!(ipv6_of(table), "2001:db8::7");
    }
}
