//! One node between two neighbours: what a pair of nodes cannot show.

use bytes::Bytes;

use super::*;
use crate::base::{
    EtherType, FlowId, Frame, FrameDone, FrameOutcome, Gap, PacketOutcome, Phy, RadioId,
    ReceivedFrame, Seq, TxOptions, UnitId, Wanted,
};
use crate::wire::wild::{
    BulkAck, FULL_LENGTH, Header, Kind, TurnEntry, Turns, UNIT_HEAD_BYTES, decode, encode, flag,
};
use crate::wire::{bundle, ip};

mod star;

const T: Duration = Duration::from_millis(20);

fn at(micros: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(micros)
}

fn radio(id: u8, channel: u16) -> RadioSpec {
    RadioSpec { id: RadioId(id), channel, ..RadioSpec::of(Phy::default()) }
}

/// Node 1 with a radio for each of nodes 2 and 3.
fn node(channels: [u16; 2]) -> Wild {
    let radios = [radio(0, channels[0]), radio(1, channels[1])];
    let peer = |node, radio| PeerSpec { node: NodeId(node), radio: RadioId(radio) };
    let peers = [peer(2, 0), peer(3, 1)];
    let mut wild = Wild::build(&WildConfig::default(), NodeId(1), &radios, &peers, Seed(1));
    wild.handle_timeout(&mut Cx::new(Instant::ZERO));
    wild
}

/// The first frame of a neighbour in its slot `slot`.
fn data_of(from: u16, slot: u16, delta_us: u32) -> Header {
    Header {
        kind: Kind::Data,
        flags: flag::FIRST_IN_SLOT | flag::TAKES_PARTS,
        flow: FlowId(1),
        seq: Seq(u32::from(from) * 1_000),
        flow_seq: 0,
        attempt: 0,
        slot,
        delta_us,
        incarnation: 1,
        coded: None,
        base_offset: 0,
        protocol: EtherType::IPV4,
        cluster: 0,
        length: FULL_LENGTH,
        demand: 0,
    }
}

/// A data frame of a neighbour, the first of its slot. Its preamble arrives at `started`, which was
/// `delta_us` after its slot began.
fn hears(wild: &mut Wild, from: u16, started: Instant, delta_us: u32, ours: bool) {
    let header = data_of(from, 1, delta_us);
    comes(wild, (from, from as u8 - 2), started, &header, ours);
}

/// A frame of a neighbour arrives at one of the node's radios.
fn comes(
    wild: &mut Wild,
    (from, radio_id): (u16, u8),
    started: Instant,
    header: &Header,
    ours: bool,
) {
    let is_beacon = header.kind == Kind::Idle;
    let slot_us = (T.as_micros() as u32).to_be_bytes();
    let frame = ReceivedFrame {
        radio: RadioId(radio_id),
        from: NodeId(from),
        to: (!is_beacon).then_some(NodeId(if ours { 1 } else { 9 })),
        protocol: EtherType::FARHOP,
        payload: encode(header, &[], if is_beacon { &slot_us } else { b"payload" }),
        started,
        rate: radio(0, 1).rate,
        signal: None,
        bits: 0,
    };
    let event = if ours { FrameUp::Received(frame) } else { FrameUp::Overheard(frame) };
    wild.handle_rx(&mut Cx::new(started + Duration::from_micros(300)), event);
}

/// A packet of flow 1 for node 2.
pub(super) fn packet(payload: impl Into<Bytes>) -> Packet {
    Packet {
        id: UnitId(1),
        radio: RadioId(0),
        to: Some(NodeId(2)),
        flow: FlowId(1),
        protocol: EtherType::IPV4,
        payload: payload.into(),
        options: TxOptions::default(),
        order: None,
    }
}

fn offers(wild: &mut Wild, to: u16, id: u64) {
    let (radio, to) = (RadioId(to as u8 - 2), Some(NodeId(to)));
    let packet = Packet { id: UnitId(id), radio, to, ..packet(vec![0; 1_000]) };
    wild.handle_tx(&mut Cx::new(at(0)), packet);
}

/// All frames that the node gives down at `now`, if each radio accepts all of them.
fn drain(wild: &mut Wild, now: Instant) -> Vec<Frame> {
    let mut cx = Cx::new(now);
    let unit = |wild: &mut Wild, cx: &mut Cx<'_>| match wild.poll_tx(cx, &|_| Room::UNLIMITED) {
        Some(FrameDown::Frame(frame)) => Some(frame),
        _ => None,
    };
    std::iter::from_fn(|| unit(wild, &mut cx)).collect()
}

#[test]
fn radios_of_one_channel_share_their_slots_and_the_latest_neighbour_counts() {
    let mut wild = node([1, 1]);
    hears(&mut wild, 2, at(101_000), 1_000, true);
    hears(&mut wild, 3, at(101_700), 1_000, true);
    offers(&mut wild, 2, 1);
    offers(&mut wild, 3, 2);
    let start = at(100_700) + T;
    let opens = start + WildConfig::default().guard();
    assert_eq!(wild.poll_timeout(), Some(opens));
    assert!(drain(&mut wild, opens.offset(-1)).is_empty(), "in the guard");
    let frames = drain(&mut wild, opens);
    let mut told: Vec<_> = frames.iter().map(|frame| (frame.radio.0, frame.to)).collect();
    told.sort_unstable();
    // After its only packet, each neighbour gets two more copies of the acknowledgement.
    assert_eq!(told.len(), 6);
    told.dedup();
    assert_eq!(told, [(0, Some(NodeId(2))), (1, Some(NodeId(3)))]);
    for (place, frame) in frames.iter().enumerate() {
        let decoded = decode(&frame.payload).expect("a frame of ours");
        assert_eq!(frame.options.deadline, Some(start + T));
        let is_first = frames[..place].iter().all(|before| before.radio != frame.radio);
        assert_eq!(decoded.header.has(flag::FIRST_IN_SLOT), is_first, "each radio has its stamp");
        if !is_first {
            continue;
        }
        assert_eq!(decoded.header.delta_us, 1_500);
        let ack = decoded.ack.expect("what was heard is acknowledged");
        assert_eq!((ack.cum.0 % 1_000, ack.received), (0, 1));
    }
    assert!(drain(&mut wild, start + T).is_empty(), "after the slot");
}

#[test]
fn radios_of_two_channels_run_by_themselves() {
    let mut wild = node([1, 6]);
    hears(&mut wild, 2, at(101_000), 1_000, true);
    hears(&mut wild, 3, at(108_000), 1_000, true);
    offers(&mut wild, 2, 1);
    offers(&mut wild, 3, 2);
    let guard = WildConfig::default().guard();
    let first = drain(&mut wild, at(100_000) + T + guard);
    assert!(!first.is_empty() && first.iter().all(|frame| frame.radio == RadioId(0)));
    let second = drain(&mut wild, at(107_000) + T + guard);
    assert!(!second.is_empty() && second.iter().all(|frame| frame.radio == RadioId(1)));
}

#[test]
fn a_stamp_that_was_only_overheard_sets_the_step() {
    let mut wild = node([1, 1]);
    hears(&mut wild, 2, at(101_000), 1_000, false);
    assert_eq!(wild.poll_timeout(), Some(at(100_000) + T + WildConfig::default().guard()));
    let status = wild.status(at(102_000));
    assert!(status.neighbours[0].up && !status.neighbours[1].up);
    assert_eq!(status.counters["overheard"], 1);
}

#[test]
fn late_frames_come_first_in_the_next_slot_and_use_no_attempt() {
    let mut wild = node([1, 1]);
    hears(&mut wild, 2, at(101_000), 1_000, true);
    offers(&mut wild, 2, 1);
    offers(&mut wild, 2, 2);
    let opens = at(100_000) + T + WildConfig::default().guard();
    let given = drain(&mut wild, opens);
    for frame in &given {
        let (id, outcome, air_time) = (frame.id, FrameOutcome::Late, Duration::ZERO);
        let done = FrameDone { id, outcome, attempts: 0, air_time };
        wild.handle_rx(&mut Cx::new(opens), FrameUp::Done(done));
    }
    assert_eq!(wild.status(opens).counters["frames_late"], given.len() as u64);
    let again: Vec<_> = drain(&mut wild, opens)
        .iter()
        .map(|frame| decode(&frame.payload).expect("a frame of ours").header)
        .filter(|header| header.kind == Kind::Data)
        .map(|header| (header.attempt, header.flow_seq, header.has(flag::FIRST_IN_SLOT)))
        .collect();
    assert_eq!(again, [(0, 0, true), (0, 1, false)]);
}

#[test]
fn a_packet_whose_frame_the_device_never_takes_is_dropped_and_the_window_moves_on() {
    let mut wild = node([1, 1]);
    hears(&mut wild, 2, at(101_000), 1_000, true);
    offers(&mut wild, 2, 1);
    offers(&mut wild, 2, 2);
    let opens = at(100_000) + T + WildConfig::default().guard();
    let mut cx = Cx::new(opens);
    while wild.poll_rx(&mut cx).is_some() {}
    let data =
        |frame: &&Frame| decode(&frame.payload).expect("a frame of ours").header.kind == Kind::Data;
    let given = drain(&mut wild, opens);
    let sent: Vec<_> = given.iter().filter(data).collect();
    let outcomes = [FrameOutcome::TooLong, FrameOutcome::Late];
    for (frame, outcome) in sent.into_iter().zip(outcomes) {
        let done = FrameDone { id: frame.id, outcome, attempts: 0, air_time: Duration::ZERO };
        wild.handle_rx(&mut cx, FrameUp::Done(done));
    }
    let cause = DropCause::TooLong;
    let event = wild.poll_rx(&mut cx);
    assert!(matches!(event, Some(PacketUp::Dropped { id: UnitId(1), cause: DropCause::TooLong })));
    let status = wild.status(opens);
    assert_eq!((status.drops[&cause], status.counters["frames_too_long"]), (1, 1));
    let again = drain(&mut wild, opens);
    let again: Vec<_> = again.iter().filter(data).collect();
    let header = decode(&again[0].payload).expect("a frame of ours").header;
    assert_eq!((again.len(), header.flow_seq, header.base_offset), (1, 1, 0));
}

#[test]
fn what_fits_into_no_slot_is_refused() {
    let config = WildConfig { slot_ms: 2.0, guard_ms: 1.0, ..WildConfig::default() };
    let peer = PeerSpec { node: NodeId(2), radio: RadioId(0) };
    let mut wild = Wild::build(&config, NodeId(1), &[radio(0, 1)], &[peer], Seed(1));
    offers(&mut wild, 2, 1);
    assert!(matches!(
        wild.poll_rx(&mut Cx::new(at(0))),
        Some(PacketUp::Dropped { id: UnitId(1), cause: DropCause::TooLong })
    ));
    let lane = Lane { to: Some(NodeId(9)), ..Lane::default() };
    assert!(wild.room(lane).is_none());
}

#[test]
fn a_broadcast_goes_to_each_neighbour_and_ends_once() {
    let config = WildConfig { slot_ms: 2.0, guard_ms: 1.0, ..WildConfig::default() };
    let peer = |node| PeerSpec { node: NodeId(node), radio: RadioId(0) };
    let mut wild = Wild::build(&config, NodeId(1), &[radio(0, 1)], &[peer(2), peer(3)], Seed(1));
    let mut cx = Cx::new(at(0));
    assert!(wild.room(Lane::default()).is_none(), "nobody is heard");
    wild.peers.iter_mut().for_each(|peer| peer.is_up = true);
    let packet = |id, bytes: usize| Packet { id: UnitId(id), to: None, ..packet(vec![0; bytes]) };
    assert!(!wild.room(Lane::default()).is_none());
    // Each copy is too long for a slot.
    wild.handle_tx(&mut cx, packet(1, 1_000));
    let ended = std::iter::from_fn(|| wild.poll_rx(&mut cx)).count();
    assert_eq!((ended, wild.status(at(0)).drops[&DropCause::TooLong]), (1, 2));
    wild.handle_tx(&mut cx, packet(2, 40));
    let queued = |node: usize| wild.peers[node].queue.len();
    assert_eq!((queued(0), queued(1)), (1, 1));
    // One neighbour is gone: its copy is dropped, and the packet ends with the other copy.
    wild.drop_copies(0);
    assert_eq!((wild.peers[0].queue.len(), wild.peers[1].queue.len()), (0, 1));
    assert!(wild.poll_rx(&mut cx).is_none());
    wild.drop_copies(1);
    assert!(matches!(wild.poll_rx(&mut cx), Some(PacketUp::Dropped { id: UnitId(2), .. })));
}

/// A bare acknowledgement of TCP, or a segment with data.
fn tcp(id: u64, flow: u16, data: usize) -> Packet {
    let (src, dst) = ([10, 66, 0, 1].into(), [10, 66, 0, 2].into());
    let mut payload = Vec::new();
    ip::put_ipv4(&mut payload, src, dst, ip::TCP, 20 + data);
    let mut segment = vec![0; 20 + data];
    (segment[12], segment[13]) = (5 << 4, 0x10);
    payload.extend(segment);
    Packet { id: UnitId(id), flow: FlowId(flow), ..packet(payload) }
}

#[test]
fn acknowledgements_and_short_packets_ride_with_data_and_end_with_it() {
    let mut wild = node([1, 1]);
    hears(&mut wild, 2, at(101_000), 1_000, true);
    let opens = at(100_000) + T + WildConfig::default().guard();
    while wild.poll_rx(&mut Cx::new(opens)).is_some() {}
    let mut cx = Cx::new(opens);
    for (id, flow, data) in [(1, 1, 1_000), (2, 2, 0), (3, 3, 0), (4, 2, 500), (5, 6, 20)] {
        wild.handle_tx(&mut cx, tcp(id, flow, data));
    }
    let bodies: Vec<_> = drain(&mut wild, opens)
        .iter()
        .map(|frame| decode(&frame.payload).expect("a frame of ours"))
        .filter(|decoded| decoded.header.kind == Kind::Data)
        .map(|decoded| (decoded.header.protocol, decoded.body))
        .collect();
    assert_eq!(bodies.len(), 2, "two frames for five packets");
    assert_eq!((bodies[0].0, bodies[1].0), (EtherType::FARHOP, EtherType::IPV4));
    let pieces = bundle::decode(&bodies[0].1).expect("a bundle of ours");
    let rides = |piece: &bundle::Piece| piece.ride.map(|ride| (ride.flow.0, ride.number));
    let pieces: Vec<_> = pieces.iter().map(|piece| (piece.bytes.len(), rides(piece))).collect();
    let expected =
        [(1_040, None), (40, Some((2, None))), (40, Some((3, None))), (60, Some((6, Some(0))))];
    assert_eq!(pieces, expected, "only what is no bare acknowledgement has a number");
    let (outcome, attempts, air_time) = (PacketOutcome::Delivered, 2, Duration::from_micros(9));
    wild.end(vec![PacketDone { id: UnitId(1), outcome, attempts, air_time }]);
    let ended: Vec<_> = std::iter::from_fn(|| wild.poll_rx(&mut cx))
        .filter_map(|event| match event {
            PacketUp::Done(done) => Some((done.id.0, done.outcome, done.air_time.as_nanos())),
            _ => None,
        })
        .collect();
    assert_eq!(ended, [(1, outcome, 9_000), (2, outcome, 0), (3, outcome, 0), (5, outcome, 0)]);
}

#[test]
fn the_first_frame_of_a_slot_is_stamped_as_going_at_once() {
    let delta = |gap| {
        let radios = [RadioSpec { gap, ..radio(0, 1) }];
        let peers = [PeerSpec { node: NodeId(2), radio: RadioId(0) }];
        let mut wild = Wild::build(&WildConfig::default(), NodeId(1), &radios, &peers, Seed(1));
        wild.handle_timeout(&mut Cx::new(Instant::ZERO));
        hears(&mut wild, 2, at(101_000), 1_000, true);
        let opens = at(100_000) + T + WildConfig::default().guard();
        offers(&mut wild, 2, 1);
        let first = drain(&mut wild, opens).swap_remove(0);
        decode(&first.payload).expect("a frame of ours").header.delta_us
    };
    let guard = WildConfig::default().guard().as_micros() as u32;
    assert_eq!([Gap::Backoff, Gap::Difs, Gap::Sifs].map(delta), [guard; 3]);
}

#[test]
fn a_shorter_slot_of_a_neighbour_is_followed_though_its_stamp_was_lost() {
    let mut wild = node([1, 6]);
    hears(&mut wild, 2, at(101_000), 1_000, true);
    wild.handle_timeout(&mut Cx::new(at(140_000)));
    let header = Header { flags: 0, length: FULL_LENGTH / 4, ..data_of(2, 2, 0) };
    comes(&mut wild, (2, 0), at(143_000), &header, true);
    let guard = WildConfig::default().guard();
    assert_eq!(wild.groups[0].slots.start(), at(145_000));
    assert_eq!(wild.groups[0].slots.due(), at(145_000) + guard);
    assert!(wild.poll_timeout() <= Some(at(145_000) + guard), "{:?}", wild.poll_timeout());
}

/// The frames of node 1 with packets for node 2 in one slot, with the length and the flags of the
/// pieces in them. Node 2 joins parts if `takes_parts`.
fn filled(takes_parts: bool) -> Vec<Vec<(usize, bool, bool)>> {
    let config = WildConfig { frame_bytes: Some(2_304), ..WildConfig::default() };
    let peer = PeerSpec { node: NodeId(2), radio: RadioId(0) };
    let mut wild = Wild::build(&config, NodeId(1), &[radio(0, 1)], &[peer], Seed(1));
    wild.handle_timeout(&mut Cx::new(Instant::ZERO));
    let flags = flag::FIRST_IN_SLOT | if takes_parts { flag::TAKES_PARTS } else { 0 };
    comes(&mut wild, (2, 0), at(101_000), &Header { flags, ..data_of(2, 1, 1_000) }, true);
    (1..=40).for_each(|id| offers(&mut wild, 2, id));
    let opens = at(100_000) + T + config.guard();
    let mut frames = Vec::new();
    for step in 0..40 {
        let now = opens + Duration::from_micros(500) * step;
        let given = drain(&mut wild, now);
        let long = given.iter().filter(|frame| frame.payload.len() > 200).count();
        assert!(long < if takes_parts { 3 } else { 4 }, "no more than 3 ms and what goes on air");
        for frame in &given {
            let (id, outcome, air_time) = (frame.id, FrameOutcome::Sent, Duration::ZERO);
            let done = FrameDone { id, outcome, attempts: 1, air_time };
            wild.handle_rx(&mut Cx::new(now), FrameUp::Done(done));
        }
        frames.extend(given);
    }
    let data = frames.iter().map(|frame| decode(&frame.payload).expect("a frame of ours"));
    data.filter(|decoded| decoded.header.kind == Kind::Data)
        .map(|decoded| match decoded.header.protocol {
            EtherType::FARHOP => {
                assert!(decoded.body.len() + HEADER_BYTES + 8 <= 2_304);
                let pieces = bundle::decode(&decoded.body).expect("a bundle of ours");
                pieces.iter().map(|it| (it.bytes.len(), it.is_rest, it.goes_on)).collect()
            }
            _ => vec![(decoded.body.len(), false, false)],
        })
        .collect()
}

#[test]
fn a_broadcast_that_is_longer_than_a_filled_frame_goes_by_itself() {
    let config = WildConfig { frame_bytes: Some(600), ..WildConfig::default() };
    let peer = |node| PeerSpec { node: NodeId(node), radio: RadioId(0) };
    let mut wild = Wild::build(&config, NodeId(1), &[radio(0, 1)], &[peer(2), peer(3)], Seed(1));
    wild.handle_timeout(&mut Cx::new(Instant::ZERO));
    for from in [2, 3] {
        comes(&mut wild, (from, 0), at(101_000), &data_of(from, 1, 1_000), true);
    }
    let packet = Packet { to: None, ..tcp(1, 5, 1_200) };
    wild.handle_tx(&mut Cx::new(at(102_000)), packet);
    let opens = at(100_000) + T + config.guard();
    let long = drain(&mut wild, opens).iter().filter(|frame| frame.payload.len() > 1_200).count();
    assert_eq!(long, 2, "one to each neighbour");
}

#[test]
fn what_coding_alone_repairs_does_not_wait_for_a_turn_that_never_comes() {
    let config = WildConfig { recovery: Recovery::Fec, ..WildConfig::default() };
    let peer = PeerSpec { node: NodeId(2), radio: RadioId(0) };
    let mut wild = Wild::build(&config, NodeId(1), &[radio(0, 1)], &[peer], Seed(1));
    // 3.5 ms, and a packet with its parity takes 5 and more.
    wild.set_turns(&[Turn::Part { index: 0, count: 4 }]);
    wild.handle_timeout(&mut Cx::new(Instant::ZERO));
    comes(&mut wild, (2, 0), at(101_000), &data_of(2, 1, 1_000), true);
    (0..64).for_each(|_| wild.peers[0].sender.estimate.on_slot(20, 14));
    assert!(wild.peers[0].sender.estimate.parity(0, 1) >= 3);
    (1..=20).for_each(|id| offers(&mut wild, 2, id));
    let frames = drain(&mut wild, at(100_000) + T + config.guard());
    let is_data =
        |frame: &&Frame| decode(&frame.payload).expect("a frame of ours").header.kind == Kind::Data;
    assert_eq!(frames.iter().filter(is_data).count(), 3);
}

#[test]
fn a_block_stays_open_while_the_slot_has_time_for_more_and_its_parity_still_fits() {
    let config = WildConfig { recovery: Recovery::Fec, ..WildConfig::default() };
    let peer = PeerSpec { node: NodeId(2), radio: RadioId(0) };
    let mut wild = Wild::build(&config, NodeId(1), &[radio(0, 1)], &[peer], Seed(1));
    wild.handle_timeout(&mut Cx::new(Instant::ZERO));
    comes(&mut wild, (2, 0), at(101_000), &data_of(2, 1, 1_000), true);
    (0..64).for_each(|_| wild.peers[0].sender.estimate.on_slot(20, 14));
    let coded = |frames: Vec<Frame>| -> Vec<_> {
        let headers = frames.iter().map(|frame| decode(&frame.payload).expect("of ours").header);
        headers.filter_map(|header| Some((header.kind, header.coded?))).collect()
    };
    let mut now = at(100_000) + T + config.guard();
    for id in 1..=3 {
        offers(&mut wild, 2, id);
        let sent = coded(drain(&mut wild, now));
        let [(Kind::Data, place)] = sent[..] else { panic!("one packet: {sent:?}") };
        assert_eq!(u64::from(place.index) + 1, id, "all in one block");
        now += Duration::from_millis(3);
    }
    let (mut parity, closes) = (Vec::new(), wild.groups[0].ports[0].closes);
    while let Some(due) = wild.poll_timeout().filter(|due| *due < closes) {
        wild.handle_timeout(&mut Cx::new(due));
        parity.extend(coded(drain(&mut wild, due)));
        now = due;
    }
    assert!(parity.iter().all(|(kind, place)| (*kind, place.k) == (Kind::Fec, 3)));
    assert_eq!(parity.len(), wild.peers[0].sender.estimate.parity(0, 3));
    assert!(parity.len() > 1 && wild.groups[0].ports[0].busy_until <= closes);
    // Four packets, and what a block of four wants, would have fitted no longer.
    let of_four = (wild.peers[0].sender.estimate.parity(0, 4) + 1) as u64;
    let four = wild.frame_air(0)(1_000 + UNIT_HEAD_BYTES) * of_four;
    assert!(now + four + packets::WAKES_LATE > closes);
}

#[test]
fn frames_are_filled_with_packets_and_parts_of_packets() {
    let frames = filled(true);
    println!("{frames:?}");
    assert_eq!(frames[0].len(), 3, "{:?}", frames[0]);
    assert_eq!(frames[0][0], (1_000, false, false));
    assert!(frames[0][2].2 && frames[1][0].1, "what does not fit goes on in the next");
    assert_eq!(frames[0][2].0 + frames[1][0].0, 1_000);
    let sum = |frames: &[Vec<(usize, bool, bool)>]| -> usize {
        frames.iter().flatten().map(|piece| piece.0).sum()
    };
    let whole = filled(false);
    assert!(whole.iter().all(|frame| frame[..] == [(1_000, false, false)]), "{whole:?}");
    let gain = sum(&frames) as f64 / sum(&whole) as f64;
    assert!(gain > 1.15, "{gain}");
}

#[test]
fn for_what_is_to_be_repeated_as_much_is_asked_as_it_takes() {
    let config = WildConfig { frame_bytes: Some(2_304), ..WildConfig::default() };
    let peer = PeerSpec { node: NodeId(2), radio: RadioId(0) };
    let mut wild = Wild::build(&config, NodeId(1), &[radio(0, 1)], &[peer], Seed(1));
    wild.handle_timeout(&mut Cx::new(Instant::ZERO));
    comes(&mut wild, (2, 0), at(101_000), &data_of(2, 1, 1_000), true);
    (1..=2).for_each(|id| offers(&mut wild, 2, id));
    let opens = at(100_000) + T + config.guard();
    let filled = drain(&mut wild, opens).swap_remove(0);
    assert!(filled.payload.len() > 2_000, "both packets in one frame");
    let (id, outcome, air_time) = (filled.id, FrameOutcome::Late, Duration::ZERO);
    let done = FrameDone { id, outcome, attempts: 0, air_time };
    wild.handle_rx(&mut Cx::new(opens), FrameUp::Done(done));
    let air = radio(0, 1).unacknowledged(filled.payload.len());
    let demand = u64::from(wild.demand(0));
    assert!(T / 64 * demand >= air && T / 64 * (demand - 1) < air, "{demand} for {air}");
}

#[test]
fn a_carrier_is_none_of_the_frames_by_which_loss_is_measured() {
    let mut wild = node([1, 6]);
    hears(&mut wild, 2, at(101_000), 1_000, true);
    let wanted = Wanted { radio: RadioId(0), to: NodeId(2), bytes: 60, is_answer: false };
    wild.handle_rx(&mut Cx::new(at(102_000)), FrameUp::Wanted(wanted));
    let opens = at(100_000) + T + WildConfig::default().guard();
    let frames = drain(&mut wild, opens);
    let headers = frames.iter().map(|frame| decode(&frame.payload).expect("ours").header);
    let (carriers, counted): (Vec<_>, Vec<_>) =
        headers.partition(|header: &Header| header.kind == Kind::Idle);
    assert_eq!((carriers.len(), counted.len()), (1, 2));
    let (slot, received) = (counted[0].slot, counted.len() as u16);
    let cum = counted[0].seq.sub(1);
    let ack = BulkAck { cum, nbits: 0, bits: Bytes::new(), slot, received };
    let later = opens + T;
    wild.peers[0].sender.on_ack(later, &ack, 2, later, &mut Vec::new());
    assert_eq!(wild.peers[0].sender.estimate.loss_so_far(), Some(0.0));
}

#[test]
fn received_bytes_are_those_of_the_packets_that_go_up() {
    let mut wild = node([1, 6]);
    let whole = |text| bundle::Piece::whole(EtherType::IPV4, Bytes::from_static(text));
    let ride = Some(bundle::Ride { flow: FlowId(7), number: None });
    let pieces = [whole(b"host"), bundle::Piece { ride, ..whole(b"rider") }];
    let header = Header { protocol: EtherType::FARHOP, ..data_of(2, 1, 1_000) };
    let event = FrameUp::Received(ReceivedFrame {
        radio: RadioId(0),
        from: NodeId(2),
        to: Some(NodeId(1)),
        protocol: EtherType::FARHOP,
        payload: encode(&header, &[], &bundle::encode(&pieces)),
        started: at(101_000),
        rate: radio(0, 1).rate,
        signal: None,
        bits: 0,
    });
    let mut cx = Cx::new(at(101_300));
    wild.handle_rx(&mut cx, event);
    let up: usize = std::iter::from_fn(|| wild.poll_rx(&mut cx))
        .filter_map(|event| match event {
            PacketUp::Received(packet) => Some(packet.payload.len()),
            _ => None,
        })
        .sum();
    assert_eq!((up, wild.peers[0].received_bytes), (9, 9));
}
