//! Two links, with keys between them and the air, and strangers that change frames on the air.

use bytes::Bytes;

use super::*;
use crate::base::{Bitrate, Duration, Frame, Gap, Identity, Phy, PhyKind, Rng, TxOptions};
use crate::link::secure::{Keys, Secure, SecureSpec, SecurityConfig};
use crate::link::{Link, PeerSpec};
use crate::wire::harq::{UNIT_HEADER_BYTES, Unit, encode_unit};

/// Duration of a unit.
const UNIT: Duration = Duration::from_micros(50);

struct Node {
    id: NodeId,
    link: Harq,
    secure: Secure,
    came: Vec<Bytes>,
    done: Vec<PacketDone>,
}

impl Node {
    fn new(id: u16, other: u16) -> Self {
        let phy = Phy { kind: PhyKind::Wire, ..Phy::default() };
        let rate = Bitrate::from_mbps(10.0);
        let radio = RadioSpec { rate, gap: Gap::Sifs, seal_bytes: 24, ..RadioSpec::of(phy) };
        let secure = SecureSpec {
            node: NodeId(id),
            identity: Identity::from_secret([id as u8; 32]),
            entropy: [id as u8; 32],
            config: SecurityConfig::default(),
            peers: vec![PeerSpec { node: NodeId(other), radio: RadioId(0) }],
            keys: std::sync::Arc::new(
                [(NodeId(other), Identity::from_secret([other as u8; 32]).public())].into(),
            ),
        };
        Self {
            id: NodeId(id),
            link: Harq::build(&HarqConfig::default(), NodeId(id), &[radio], Seed(id.into())),
            secure: Secure::build(secure),
            came: Vec::new(),
            done: Vec::new(),
        }
    }

    /// Delivers a frame from the air.
    fn take(&mut self, now: Instant, from: NodeId, frame: &Frame) {
        let rate = Bitrate::from_mbps(10.0);
        let event = FrameUp::Received(ReceivedFrame {
            radio: RadioId(0),
            from,
            to: frame.to,
            protocol: frame.protocol,
            payload: frame.payload.clone(),
            started: now - UNIT,
            rate,
            signal: None,
            bits: 0,
        });
        self.secure.handle_rx(&mut Cx::new(now), event);
        self.raise(now);
    }

    fn raise(&mut self, now: Instant) {
        let mut cx = Cx::new(now);
        while let Some(event) = self.secure.poll_rx(&mut cx) {
            let keys = Keys::new(&mut self.secure);
            self.link.handle_rx(&mut cx.with_seal(&keys), event);
        }
        while let Some(event) = self.link.poll_rx(&mut cx) {
            match event {
                PacketUp::Received(packet) => self.came.push(packet.payload),
                PacketUp::Done(done) => self.done.push(done),
                _ => {}
            }
        }
    }

    /// The next frame, sealed or tagged.
    fn give(&mut self, now: Instant) -> Option<Frame> {
        let mut cx = Cx::new(now);
        if self.secure.poll_timeout().is_some_and(|due| due <= now) {
            self.secure.handle_timeout(&mut cx);
        }
        if self.link.poll_timeout().is_some_and(|due| due <= now) {
            self.link.handle_timeout(&mut cx);
        }
        self.raise(now);
        let unit = {
            let keys = Keys::new(&mut self.secure);
            let room = |lane| keys.room(lane, Room::UNLIMITED);
            self.link.poll_tx(&mut cx.with_seal(&keys), &room)?
        };
        self.secure.handle_tx(&mut cx, unit);
        let Some(FrameDown::Frame(frame)) = self.secure.poll_tx(&mut cx, &|_| Room::UNLIMITED)
        else {
            return None;
        };
        let (id, outcome) = (frame.id, FrameOutcome::Sent);
        let done = FrameDone { id, outcome, attempts: 1, air_time: UNIT };
        self.link.handle_rx(&mut cx, FrameUp::Done(done));
        Some(frame)
    }

    fn counter(&self, name: &str, now: Instant) -> u64 {
        self.link.status(now).counters[name]
    }

    fn rejected(&self, reason: &str, now: Instant) -> u64 {
        self.secure.status(now).rejected.get(reason).copied().unwrap_or(0)
    }
}

/// Two nodes, between which a stranger decides what becomes of each frame.
struct Link2 {
    nodes: [Node; 2],
    now: Instant,
    heard: Vec<Frame>,
    rng: Rng,
}

fn packet(id: u64) -> Bytes {
    let mut bytes = vec![0x45; 1040];
    bytes[8..16].copy_from_slice(&id.to_be_bytes());
    bytes.into()
}

impl Link2 {
    fn new() -> Self {
        let nodes = [Node::new(1, 2), Node::new(2, 1)];
        let (now, heard) = (Instant::ZERO + Duration::from_secs(1), Vec::new());
        let mut link = Self { nodes, now, heard, rng: Seed(3).stream("stranger") };
        link.run(200, &mut |_, frame, _| vec![frame.clone()]);
        assert!(link.nodes[0].secure.status(link.now).peers[0].since.is_some(), "keys are shared");
        link
    }

    fn offer(&mut self, ids: std::ops::Range<u64>) {
        for id in ids {
            let packet = Packet {
                id: UnitId(id),
                radio: RadioId(0),
                to: Some(NodeId(2)),
                flow: FlowId(0),
                protocol: EtherType::IPV4,
                payload: packet(id),
                options: TxOptions::default(),
                order: None,
            };
            assert!(!self.nodes[0].link.room(packet.lane()).is_none());
            self.nodes[0].link.handle_tx(&mut Cx::new(self.now), packet);
        }
    }

    /// Runs for the duration of `units` units; `stranger` decides what each frame becomes.
    fn run(&mut self, units: usize, stranger: &mut Stranger<'_>) {
        for _ in 0..units {
            self.now += UNIT;
            for from in [0, 1] {
                let Some(frame) = self.nodes[from].give(self.now) else { continue };
                self.heard.push(frame.clone());
                let sender = self.nodes[from].id;
                for changed in stranger(sender, &frame, &mut self.rng) {
                    self.nodes[1 - from].take(self.now, sender, &changed);
                }
            }
        }
    }

    fn assert_all_came(&self, count: u64) {
        let came: Vec<&Bytes> = self.nodes[1].came.iter().collect();
        assert_eq!(came.len() as u64, count);
        (0..).zip(came).for_each(|(id, payload)| assert_eq!(*payload, packet(id)));
        assert!(self.nodes[0].done.iter().all(|done| done.outcome == PacketOutcome::Delivered));
    }
}

type Stranger<'a> = dyn FnMut(NodeId, &Frame, &mut Rng) -> Vec<Frame> + 'a;

fn with_payload(frame: &Frame, payload: Vec<u8>) -> Frame {
    Frame { payload: payload.into(), ..frame.clone() }
}

#[test]
fn a_sealed_packet_costs_24_bytes_and_its_units_six_each() {
    let mut link = Link2::new();
    link.heard.clear();
    link.offer(0..1);
    link.run(100, &mut |_, frame, _| vec![frame.clone()]);
    link.assert_all_came(1);
    let units: Vec<usize> = link.heard.iter().map(|frame| frame.payload.len()).collect();
    // 1,064 bytes are 20 units of 54.
    assert_eq!(units[..20], [54 + UNIT_HEADER_BYTES + 6; 20]);
    assert_eq!(link.heard[0].options.overhead as usize, UNIT_HEADER_BYTES + 6);
}

#[test]
fn of_ten_thousand_units_with_flipped_bits_none_is_believed() {
    let mut link = Link2::new();
    let mut flipped: u64 = 0;
    for round in 0..26 {
        link.offer(round * 20..(round + 1) * 20);
        link.run(420, &mut |_, frame, rng| {
            let mut bytes = frame.payload.to_vec();
            for _ in 0..=rng.below(3) {
                let bit = rng.below(bytes.len() as u64 * 8) as usize;
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            if bytes == frame.payload {
                return vec![frame.clone()];
            }
            flipped += 1;
            vec![with_payload(frame, bytes), frame.clone()]
        });
    }
    link.assert_all_came(520);
    assert!(flipped > 10_000, "{flipped}");
    let refused = |node: &Node| -> u64 {
        let reasons = ["forged", "no-key", "malformed", "other-version"];
        let more = ["handshake-forged", "handshake-replayed", "clear"];
        reasons.iter().chain(&more).map(|reason| node.rejected(reason, link.now)).sum()
    };
    assert_eq!(link.nodes.iter().map(refused).sum::<u64>(), flipped);
    assert_eq!(link.nodes[1].counter("refused", link.now), 0);
    assert_eq!(link.nodes[0].counter("rfec_bytes", link.now), 0, "nothing was asked for again");
}

#[test]
fn units_and_feedback_that_come_again_change_nothing() {
    let mut link = Link2::new();
    let mut recorded: Vec<(NodeId, Frame)> = Vec::new();
    for round in 0..10 {
        link.offer(round * 20..(round + 1) * 20);
        link.run(420, &mut |from, frame, rng| {
            recorded.push((from, frame.clone()));
            let again = recorded.iter().filter(|(sender, _)| *sender == from);
            let again: Vec<&Frame> = again.map(|(_, frame)| frame).collect();
            let drawn = rng.below(again.len() as u64) as usize;
            let last = again.len().saturating_sub(2);
            vec![frame.clone(), frame.clone(), again[drawn].clone(), again[last].clone()]
        });
    }
    link.assert_all_came(200);
    let [there, back] = &link.nodes;
    assert_eq!(there.counter("rfec_bytes", link.now) + there.counter("pfec_bytes", link.now), 0);
    assert_eq!(there.counter("packets_delivered", link.now), 200);
    assert!(back.counter("late", link.now) > 8_000, "recordings came");
    // 4,000 units, counted once each, and reports once each.
    assert_eq!(back.link.heeded(), 4_000);
    assert!(there.link.heeded() <= 200);
}

#[test]
fn what_does_not_open_is_refused_and_the_units_are_forgotten() {
    let mut link = Link2::new();
    link.offer(0..1);
    let mut units = Vec::new();
    link.run(1, &mut |_, frame, _| {
        units.push(frame.clone());
        Vec::new()
    });
    // The first unit of the block with another body, inserted after the check of its tag.
    let [_, _, body @ .., _, _, _, _] = &units[0].payload[..] else { panic!("a unit") };
    let Ok((incarnation, Decoded::Unit(unit, body))) = decode(&Bytes::copy_from_slice(body)) else {
        panic!("a unit of the link");
    };
    let payload = encode_unit(incarnation, &Unit { ..unit }, &vec![0xee; body.len()]);
    let event = ReceivedFrame {
        radio: RadioId(0),
        from: NodeId(1),
        to: Some(NodeId(2)),
        protocol: EtherType::FARHOP,
        payload,
        started: link.now - UNIT,
        rate: Bitrate::from_mbps(10.0),
        signal: None,
        bits: 0,
    };
    link.nodes[1].link.handle_rx(&mut Cx::new(link.now), FrameUp::Received(event));
    link.run(300, &mut |_, frame, _| vec![frame.clone()]);
    link.assert_all_came(1);
    assert_eq!(link.nodes[1].counter("refused", link.now), 1);
    assert_eq!(link.nodes[0].done[0].attempts, 2);
}

#[test]
fn gathered_units_make_no_frame() {
    let mut link = Link2::new();
    link.heard.clear();
    link.offer(0..1);
    // Nothing arrives; the stranger hears all of it.
    link.run(20, &mut |_, _, _| Vec::new());
    let bodies = link.heard.iter().map(|frame| &frame.payload[2 + UNIT_HEADER_BYTES..]);
    let whole: Vec<u8> = bodies.flat_map(|body| &body[..body.len() - 4]).copied().collect();
    let mut gathered = with_payload(&link.heard[0], whole[..1064].to_vec());
    gathered.protocol = EtherType::SEALED;
    let (now, before) = (link.now, link.nodes[1].rejected("malformed", link.now));
    link.nodes[1].take(now, NodeId(1), &gathered);
    assert_eq!(link.nodes[1].rejected("malformed", now), before + 1);
    link.run(20_000, &mut |_, frame, _| vec![frame.clone()]);
    link.assert_all_came(1);
}

/// The content of a tagged frame of the link.
fn said(frame: &Frame) -> Option<Decoded> {
    let [_, _, body @ .., _, _, _, _] = &frame.payload[..] else { return None };
    decode(&Bytes::copy_from_slice(body)).ok().map(|(_, decoded)| decoded)
}

#[test]
fn a_probe_that_tells_of_a_failed_packet_is_sent_until_it_comes() {
    let mut link = Link2::new();
    link.offer(0..2);
    let mut lost = 0;
    // Lost: the first packet, and the first probe that tells the receiver not to wait for it.
    link.run(20_000, &mut |_, frame, _| match said(frame) {
        Some(Decoded::Unit(unit, _)) if unit.block == 0 => Vec::new(),
        Some(Decoded::Probe(probe)) if probe.base > 0 && lost == 0 => {
            lost += 1;
            Vec::new()
        }
        _ => vec![frame.clone()],
    });
    assert_eq!((lost, link.nodes[0].done.len()), (1, 2));
    assert_eq!(link.nodes[1].came, [packet(1)]);
    // The receiver reports this probe, so that it is not repeated forever.
    let sent = link.nodes[0].counter("probes_sent", link.now);
    link.run(20_000, &mut |_, frame, _| vec![frame.clone()]);
    assert_eq!(link.nodes[0].counter("probes_sent", link.now), sent);
}

#[test]
fn without_keys_a_forged_frame_stops_a_neighbour_for_a_moment_only() {
    let mut link = Link2::new();
    let seconds = |count| Instant::ZERO + Duration::from_secs(count);
    let mut receiver = Receiver::new(1);
    let mut take = |now: Instant, incarnation: u16, number: u32| {
        let cx = Cx::new(now);
        let unit = Unit {
            is_first: true,
            burst: number,
            block: number,
            back: 0,
            index: 0,
            k: 1,
            left: 0,
            pad: 0,
            protocol: EtherType::IPV4,
        };
        let is_accepted = receiver.accepts(&cx, incarnation, (number, number));
        if is_accepted {
            receiver.on_unit(&cx, NodeId(1), (&unit, packet(0)), now);
        }
        is_accepted && receiver.poll().is_some()
    };
    assert!(take(seconds(1), 1, 5));
    // Numbers that are far from the neighbour's, and another incarnation.
    assert!(take(seconds(2), 1, 1 << 20));
    assert!(!take(seconds(2), 1, 6) && take(seconds(3), 1, 7));
    assert!(take(seconds(4), 2, 9));
    assert!(!take(seconds(4), 1, 8) && take(seconds(5), 1, 9));
    // With keys, only the neighbour can do this, and only once.
    let keys = Keys::new(&mut link.nodes[1].secure);
    assert!(!receiver.accepts(&Cx::new(seconds(6)).with_seal(&keys), 2, (9, 9)));
}
