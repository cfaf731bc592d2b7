//! The fuzz targets: a function for each decoder and each state machine that takes bytes from the
//! air, before and after they are authenticated. `fuzz/` drives them with libFuzzer; an ordinary
//! test runs the committed corpus.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use bytes::Bytes;
use farhop_proto::base::{
    AddressPlan, Bitrate, Cx, DatagramUp, Duration, EtherType, FlowId, Frame, FrameDown, FrameUp,
    Identity, Instant, Layer, NodeId, Packet, PacketDone, PacketOutcome, PacketUp, Phy, RadioId,
    RadioSpec, ReceivedFrame, ReceivedPacket, Room, Seed, TxOptions, UnitId,
};
use farhop_proto::link::PeerSpec;
use farhop_proto::link::harq::{Harq, HarqConfig};
use farhop_proto::link::plain::{Plain, PlainConfig};
use farhop_proto::link::secure::{Secure, SecureSpec, SecurityConfig};
use farhop_proto::link::wild::{Wild, WildConfig};
use farhop_proto::routing::olsr::{Olsr, OlsrConfig};
use farhop_proto::routing::{Routing as _, Signing};
use farhop_proto::transport::hop::{Hop, HopConfig, Keep};
use farhop_proto::wire;
use farhop_proto::wire::hop::{BlockId, FlowKey, Refusal};

/// A function that takes any bytes and must neither panic nor hang.
pub type Target = fn(&[u8]);

/// All targets, by the names of their folders in `fuzz/corpus`.
pub const TARGETS: [(&str, Target); 12] = [
    ("radiotap", radiotap),
    ("ieee80211", ieee80211),
    ("secure", secure),
    ("carrier", carrier),
    ("wild", wild),
    ("wild_link", wild_link),
    ("plain_link", plain_link),
    ("hop", hop),
    ("harq", harq),
    ("harq_link", harq_link),
    ("ip", ip),
    ("olsr", olsr),
];

/// Before authentication: what a card in monitor mode receives.
pub fn radiotap(bytes: &[u8]) {
    let _ = wire::radiotap::parse(bytes);
}

/// Before authentication: an 802.11 frame.
pub fn ieee80211(bytes: &[u8]) {
    let _ = wire::ieee80211::decode(&Bytes::copy_from_slice(bytes));
}

/// Before authentication: frames for a node that has keys in common with one neighbour and is asked
/// for new ones by another. The first byte of each frame gives its sender, receiver, protocol and
/// delay, the second its length.
pub fn secure(bytes: &[u8]) {
    let mut node = with_keys();
    let mut now = Instant::ZERO + Duration::from_secs(1);
    let mut rest = bytes;
    while let [how, length, behind @ ..] = rest {
        let (payload, behind) = behind.split_at(behind.len().min(usize::from(*length)));
        let from = NodeId(u16::from(how & 3) + 1);
        let to = (how & 4 == 0).then_some(NodeId(1));
        let protocol = if how & 8 == 0 { EtherType::SEALED } else { EtherType::FARHOP };
        let mut cx = Cx::new(now);
        node.handle_rx(&mut cx, received(from, to, protocol, payload));
        drain(&mut node, now);
        now += Duration::from_millis(u64::from(how >> 4) * 40);
        node.handle_timeout(&mut Cx::new(now));
        drain(&mut node, now);
        rest = behind;
    }
}

/// After authentication: the key messages of a neighbour.
pub fn carrier(bytes: &[u8]) {
    if let Some((said, frame)) = wire::secure::decode_carrier(bytes) {
        let mut again = vec![0, 0];
        said.iter().for_each(|said| said.append(&mut again));
        assert_eq!(again.len() + frame.len(), bytes.len(), "all bytes are accounted for");
        assert_eq!(again[2..], bytes[2..again.len()], "and mean themselves");
    }
}

/// After authentication: a frame of `wild`, and what its code blocks decode to.
pub fn wild(bytes: &[u8]) {
    let bytes = Bytes::copy_from_slice(bytes);
    if let Ok(decoded) = wire::wild::decode(&bytes) {
        let _ = wire::wild::decode_unit(&decoded.body);
    }
    let _ = wire::wild::decode_unit(&bytes);
}

/// After authentication: a sequence of frames of a neighbour for `wild`, each preceded by a byte
/// for its delay and one for its length.
pub fn wild_link(bytes: &[u8]) {
    let peers = [peer(2)];
    let radios = [radio()];
    let link = Wild::build(&WildConfig::default(), NodeId(1), &radios, &peers, Seed(1));
    frames_for(link, bytes);
}

/// After authentication: the same for `plain`.
pub fn plain_link(bytes: &[u8]) {
    let link = Plain::build(&PlainConfig::default(), NodeId(1), &[radio()], Seed(1));
    frames_for(link, bytes);
}

/// After authentication: a sequence of block messages for a node between two others. The first byte
/// of each gives its sender, whether its checksum is corrected, what becomes of complete blocks,
/// and the delay of the next message; the second its length.
pub fn hop(bytes: &[u8]) {
    let config =
        HopConfig { block_bytes: Some(14_000), memory_bytes: 1 << 20, ..HopConfig::default() };
    let plan = AddressPlan::default();
    let mut node = Hop::build(config, NodeId(2), plan, None, Seed(1).stream("hop"));
    node.keep_blocks();
    let mut now = Instant::ZERO;
    for dst in [NodeId(1), NodeId(3)] {
        let event = DatagramUp::NextHop { dst, via: dst, radio: RadioId(0), hops: 1 };
        node.handle_rx(&mut Cx::new(now), event);
    }
    let own = BlockId { flow: FlowKey { source: NodeId(2), local: 0 }, number: 0 };
    node.push(now, own, NodeId(3), true, vec![Bytes::from_static(&[1; 100])]);
    let mut rest = bytes;
    while let [how, length, behind @ ..] = rest {
        let (message, behind) = behind.split_at(behind.len().min(usize::from(*length)));
        let mut message = message.to_vec();
        if how & 1 == 0 && message.len() >= wire::hop::HEADER_BYTES {
            message[22..24].fill(0);
            let sum = wire::ip::checksum(0, &message);
            message[22..24].copy_from_slice(&sum.to_be_bytes());
        }
        let via = NodeId(if how & 2 == 0 { 1 } else { 3 });
        let socket = |node| SocketAddrV4::new(plan.ipv4(node), wire::hop::CONTROL_PORT);
        let payload = wire::udp::encode(socket(via), socket(NodeId(2)), &message, &[]);
        let event = DatagramUp::Received { via, payload, signal: None };
        node.handle_rx(&mut Cx::new(now), event);
        drain_hop(&mut node, now, how & 4 == 0);
        now += Duration::from_millis(u64::from(how >> 4) * 40);
        node.handle_timeout(&mut Cx::new(now));
        drain_hop(&mut node, now, how & 8 == 0);
        assert!(node.counters()["memory_held"] <= 1 << 20, "memory has a limit");
        rest = behind;
    }
}

/// Sends what is ready, and takes complete blocks.
fn drain_hop(node: &mut Hop, now: Instant, is_wanted: bool) {
    let mut cx = Cx::new(now);
    while let Some(datagram) = node.poll_tx(&mut cx, &|_| Room::units(8)) {
        let (id, outcome) = (datagram.id, PacketOutcome::Sent);
        let done = PacketDone { id, outcome, attempts: 1, air_time: Duration::ZERO };
        node.handle_rx(&mut cx, DatagramUp::Done(done));
    }
    while let Some(delivery) = node.poll_delivery() {
        if is_wanted {
            node.accept(now, delivery.id);
        } else {
            node.refuse(now, delivery.id, Refusal::Unwanted);
        }
    }
    while let Some(keep) = node.poll_keep() {
        if let Keep::Put(whole) = keep {
            node.handle_kept(whole.id);
        }
    }
    while node.poll_arrived().is_some() {}
}

/// After authentication: a frame of `harq`, which must encode to the same bytes again.
pub fn harq(bytes: &[u8]) {
    use wire::harq::{Decoded, decode, encode_feedback, encode_probe, encode_unit};
    let bytes = Bytes::copy_from_slice(bytes);
    let Ok((incarnation, decoded)) = decode(&bytes) else { return };
    let again = match decoded {
        Decoded::Unit(unit, body) => encode_unit(incarnation, &unit, &body),
        Decoded::Probe(probe) => encode_probe(incarnation, &probe),
        Decoded::Feedback(reports) => encode_feedback(incarnation, &reports),
    };
    assert_eq!(again, bytes, "all bytes mean something");
}

/// After authentication: frames of a neighbour for `harq`, while packets for it are in flight.
/// Feedback is changed to refer to them.
pub fn harq_link(bytes: &[u8]) {
    let config = HarqConfig { initial_loss: 0.3, ..HarqConfig::default() };
    let mut link = Harq::build(&config, NodeId(1), &[radio()], Seed(1));
    let mut cx = Cx::new(Instant::ZERO);
    (1..=3).for_each(|id| link.handle_tx(&mut cx, packet(id)));
    let Some(FrameDown::Frame(unit)) = link.poll_tx(&mut cx, &|_| Room::units(8)) else {
        panic!("there is something to send");
    };
    let mut bytes = bytes.to_vec();
    let mut at = 0;
    while let Some([_, length, kind, run @ ..]) = bytes.get_mut(at..) {
        if *kind & 15 == 4 && run.len() >= 2 {
            run[..2].copy_from_slice(&unit.payload[1..3]);
        }
        at += 2 + usize::from(*length);
    }
    frames_for(link, &bytes);
}

/// After authentication: an IP packet, its UDP or TCP contents, and its forwarding.
pub fn ip(bytes: &[u8]) {
    let packet = Bytes::copy_from_slice(bytes);
    let _ = wire::ip::destination(&packet);
    let _ = wire::ip::flow(&packet);
    let _ = wire::ip::payload(&packet);
    let _ = wire::udp::decode(&packet);
    let _ = wire::tcp::decode(&packet);
    let _ = wire::ip::forwarded(packet);
}

/// After authentication: a sequence of routing packets of a neighbour, for a node with or without
/// keys. Each is preceded by a byte for its delay and one for its length.
pub fn olsr(bytes: &[u8]) {
    let Some((first, mut rest)) = bytes.split_first() else { return };
    let plan = AddressPlan::default();
    let radios = [(RadioId(0), None)];
    let config = OlsrConfig::default();
    let mut node = Olsr::build(&config, NodeId(1), plan, &radios, Seed(1));
    if first & 1 == 1 {
        let key = |node: u8| Identity::from_secret([node; 32]);
        let keys = Arc::new([(NodeId(2), key(2).public())].into());
        node.set_signing(Signing { identity: key(1), keys });
    }
    let at = |address| SocketAddrV4::new(address, wire::olsr::PORT);
    let (from, to) = (at(plan.ipv4(NodeId(2))), at(Ipv4Addr::BROADCAST));
    let mut now = Instant::ZERO;
    while let [wait, length, behind @ ..] = rest {
        let (payload, behind) = behind.split_at(behind.len().min(usize::from(*length)));
        now += Duration::from_millis(u64::from(*wait) * 20);
        let mut cx = Cx::new(now);
        node.handle_rx(
            &mut cx,
            PacketUp::Received(ReceivedPacket {
                radio: RadioId(0),
                from: NodeId(2),
                flow: FlowId(0),
                protocol: EtherType::IPV4,
                payload: wire::udp::encode(from, to, payload, &[]),
                signal: None,
                rate: None,
            }),
        );
        while node.poll_timeout().is_some_and(|due| due <= now) {
            node.handle_timeout(&mut cx);
        }
        while node.poll_rx(&mut cx).is_some() {}
        while node.poll_tx(&mut cx, &|_| Room::units(8)).is_some() {}
        rest = behind;
    }
}

fn packet(id: u64) -> Packet {
    Packet {
        id: UnitId(id),
        radio: RadioId(0),
        to: Some(NodeId(2)),
        flow: FlowId(0),
        protocol: EtherType::IPV4,
        payload: Bytes::from_static(&[0x45; 100]),
        options: TxOptions::default(),
        order: None,
    }
}

fn peer(node: u16) -> PeerSpec {
    PeerSpec { node: NodeId(node), radio: RadioId(0) }
}

fn radio() -> RadioSpec {
    RadioSpec::of(Phy::default())
}

fn received(from: NodeId, to: Option<NodeId>, protocol: EtherType, payload: &[u8]) -> FrameUp {
    FrameUp::Received(ReceivedFrame {
        radio: RadioId(0),
        from,
        to,
        protocol,
        payload: Bytes::copy_from_slice(payload),
        started: Instant::ZERO,
        rate: Bitrate::from_mbps(11.0),
        signal: None,
        bits: 0,
    })
}

fn frames_for(mut link: impl Layer<Below = farhop_proto::base::Frames>, bytes: &[u8]) {
    let mut now = Instant::ZERO;
    let mut rest = bytes;
    while let [wait, length, behind @ ..] = rest {
        let (payload, behind) = behind.split_at(behind.len().min(usize::from(*length)));
        now += Duration::from_micros(u64::from(*wait) * 300);
        let mut cx = Cx::new(now);
        link.handle_rx(&mut cx, received(NodeId(2), Some(NodeId(1)), EtherType::FARHOP, payload));
        while link.poll_rx(&mut cx).is_some() {}
        while link.poll_tx(&mut cx, &|_| Room::units(8)).is_some() {}
        link.handle_timeout(&mut cx);
        rest = behind;
    }
}

fn node(id: u16, others: &[u16]) -> Secure {
    let key = |node: &u16| (NodeId(*node), Identity::from_secret([*node as u8; 32]).public());
    Secure::build(SecureSpec {
        node: NodeId(id),
        identity: Identity::from_secret([id as u8; 32]),
        entropy: [id as u8; 32],
        config: SecurityConfig::default(),
        peers: others.iter().map(|node| peer(*node)).collect(),
        keys: Arc::new(others.iter().map(key).collect()),
    })
}

fn carry(secure: &mut Secure, to: u16, now: Instant) -> Option<Bytes> {
    let mut cx = Cx::new(now);
    let frame = Frame {
        id: UnitId(1),
        radio: RadioId(0),
        to: Some(NodeId(to)),
        flow: FlowId::CONTROL,
        protocol: EtherType::FARHOP,
        payload: Bytes::new(),
        options: TxOptions::default(),
    };
    secure.handle_tx(&mut cx, FrameDown::Frame(frame));
    match secure.poll_tx(&mut cx, &|_| Room::UNLIMITED)? {
        FrameDown::Frame(frame) => Some(frame.payload),
        _ => None,
    }
}

/// Node 1, which has keys in common with node 2, and knows the key of node 3.
fn with_keys() -> Secure {
    let (mut a, mut b) = (node(1, &[2, 3]), node(2, &[1]));
    let mut cx = Cx::new(Instant::ZERO);
    a.handle_timeout(&mut cx);
    b.handle_timeout(&mut cx);
    for _ in 0..3 {
        let there = carry(&mut a, 2, cx.now).expect("something to say");
        b.handle_rx(&mut cx, received(NodeId(1), Some(NodeId(2)), EtherType::SEALED, &there));
        let back = carry(&mut b, 1, cx.now).expect("something to say");
        a.handle_rx(&mut cx, received(NodeId(2), Some(NodeId(1)), EtherType::SEALED, &back));
    }
    a
}

/// Takes everything that the layer hands up or down, and the key messages that it wants carried.
fn drain(secure: &mut Secure, now: Instant) {
    let mut cx = Cx::new(now);
    while let Some(event) = secure.poll_rx(&mut cx) {
        assert!(!matches!(event, FrameUp::Received(_)), "a forged frame went up");
        if let FrameUp::Wanted(wanted) = event {
            let _ = carry(secure, wanted.to.0, now);
        }
    }
    while secure.poll_tx(&mut cx, &|_| Room::UNLIMITED).is_some() {}
}
