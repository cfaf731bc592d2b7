//! Messages that no honest neighbour sends.

use proptest::prelude::*;

use super::*;
use crate::wire::hop::{self as wire, Body, Header, Refusal};

fn header(id: BlockId, frames: u16) -> Header {
    Header {
        block: id,
        destination: NodeId(2),
        via: NodeId(1),
        frames,
        hops_left: 50,
        hops_made: 0,
        opens: id.number == 0,
        finishes: false,
        is_early: false,
    }
}

/// Node 1 says something to node 2.
fn says(row: &mut Row, header: &Header, body: &Body) {
    let mut front = wire::encode(header, body);
    if let Body::Data { payload, .. } = body {
        front.extend(payload);
    }
    says_bytes(row, &front);
}

fn says_bytes(row: &mut Row, message: &[u8]) {
    let socket = |node| {
        let address = AddressPlan::default().ipv4(NodeId(node));
        std::net::SocketAddrV4::new(address, wire::CONTROL_PORT)
    };
    let payload = udp::encode(socket(1), socket(2), message, &[]);
    let event = DatagramUp::Received { via: NodeId(1), payload, signal: None };
    let mut cx = Cx::new(row.now);
    row.hop(2).handle_rx(&mut cx, event);
}

fn request(crc: u32, length: u32) -> Body {
    Body::Request { round: 1, is_virtual: false, length, crc }
}

fn two() -> Row {
    Row::new(2, small_config(), Harm::default(), 1)
}

#[test]
fn a_sender_that_opens_a_hundred_thousand_blocks_costs_no_more_than_the_limit() {
    let mut row = two();
    for number in 0..100_000_u32 {
        let flow = FlowKey { source: NodeId(1), local: number >> 4 };
        let id = BlockId { flow, number: number & 15 };
        says(&mut row, &header(id, 5), &request(number, 7_000));
    }
    assert!(row.count(2, "blocks_held") <= 2_048);
    assert!(row.count(2, "memory_held") <= row.config.memory_bytes);
    assert!(row.hop(2).arrivals.len() <= 1_024 && row.hop(2).waiting.len() <= 64);
    assert!(row.count(2, "no_memory") + row.count(2, "let_go") > 0);
}

#[test]
fn flows_that_one_source_opens_without_end_drive_out_none_of_others() {
    let mut row = two();
    let of = |source, local| FlowKey { source: NodeId(source), local };
    let open = |row: &mut Row, flow: FlowKey| {
        let id = BlockId { flow, number: 0 };
        says(row, &header(id, 1), &request(flow.local, 100));
    };
    let quiet = of(5, 7);
    open(&mut row, quiet);
    row.now += Duration::from_secs(60);
    (0..3_000).for_each(|local| open(&mut row, of(1, local)));
    open(&mut row, of(6, 1));
    let arrivals = &row.hop(2).arrivals;
    assert!(arrivals.contains_key(&quiet) && arrivals.contains_key(&of(6, 1)));
    assert_eq!(arrivals.keys().filter(|key| key.source == NodeId(1)).count(), 512);
    assert_eq!(row.count(2, "blocks_refused"), 3_000 - 512);
    // A source that says nothing more of its flows does not keep their places for ever.
    row.now += Duration::from_secs(86_401);
    open(&mut row, of(1, 5_000));
    assert!(row.hop(2).arrivals.contains_key(&of(1, 5_000)));
}

#[test]
fn nothing_is_left_of_the_brake_of_a_flow_that_ends_without_a_word() {
    let mut row = Row::new(3, small_config(), Harm::default(), 1);
    row.deaf = Some(NodeId(3));
    row.push(flow(1), 0, 3, 100, false);
    let end = row.now + Duration::from_secs(1);
    row.run_until(end);
    let id = BlockId { flow: flow(1), number: 1 };
    says(&mut row, &Header { destination: NodeId(3), ..header(id, 5) }, &request(1, 7_000));
    assert!(row.hop(2).braked.contains(&flow(1)));
    row.deaf = None;
    let end = row.now + Duration::from_secs(10);
    row.run_until(end);
    row.assert_delivered(flow(1), &[100]);
    assert!(row.hop(2).braked.is_empty());
}

#[test]
fn a_block_whose_checksum_is_wrong_is_not_delivered_and_can_come_again() {
    let mut row = two();
    let id = BlockId { flow: flow(1), number: 0 };
    let data = |byte: u8| Body::Data { frame: 0, payload: vec![byte; 100].into() };
    let crc = crc32fast::hash(&[7; 100]);
    says(&mut row, &header(id, 1), &request(crc, 100));
    says(&mut row, &header(id, 1), &data(8));
    assert_eq!(row.count(2, "corrupt"), 1);
    says(&mut row, &header(id, 1), &data(7));
    row.settle();
    assert_eq!(row.delivered, [(id, vec![7; 100])]);
}

#[test]
fn a_message_that_was_changed_is_counted_and_dropped() {
    let mut row = two();
    let id = BlockId { flow: flow(1), number: 0 };
    let mut message = wire::encode(&header(id, 1), &request(1, 100));
    message[9] ^= 1;
    says_bytes(&mut row, &message);
    assert_eq!((row.count(2, "malformed"), row.count(2, "blocks_held")), (1, 0));
}

#[test]
fn acknowledgements_of_blocks_that_nobody_sent_change_nothing() {
    let mut row = two();
    let key = FlowKey { source: NodeId(2), local: 1 };
    let id = BlockId { flow: key, number: 0 };
    let answer = Body::Answer { round: 1, bits: vec![0xff].into() };
    let arrived = |crc| Body::Arrived { crc, refusal: None };
    says(&mut row, &header(id, 4), &answer);
    says(&mut row, &header(id, 4), &arrived(1));
    assert_eq!(row.count(2, "unknown"), 2);
    row.push(key, 0, 1, 5_000, true);
    says(&mut row, &header(id, 4), &arrived(1));
    let wrong = Body::Answer { round: 1, bits: vec![0xff, 0xff].into() };
    says(&mut row, &header(id, 16), &wrong);
    assert_eq!(row.count(2, "contradictions"), 2, "no checksum, and bits for another length");
    assert_eq!((row.count(2, "blocks_held"), row.arrived.len()), (1, 0));
}

#[test]
fn nobody_speaks_for_another_node() {
    let mut row = two();
    let id = BlockId { flow: flow(1), number: 0 };
    let header = Header { via: NodeId(3), ..header(id, 1) };
    says(&mut row, &header, &request(1, 100));
    assert_eq!((row.count(2, "contradictions"), row.count(2, "blocks_held")), (1, 0));
}

#[test]
fn a_block_that_has_made_fifty_hops_goes_no_further() {
    let mut row = Row::new(3, small_config(), Harm::default(), 1);
    let id = BlockId { flow: flow(1), number: 0 };
    let header = Header { hops_left: 1, destination: NodeId(3), ..header(id, 1) };
    says(&mut row, &header, &request(crc32fast::hash(b"x"), 1));
    says(&mut row, &header, &Body::Data { frame: 0, payload: Bytes::from_static(b"x") });
    assert_eq!(row.count(2, "out_of_hops"), 1);
}

proptest! {
    #[test]
    fn no_message_makes_a_node_fall(
        kinds in prop::collection::vec((0..5_u8, any::<[u16; 6]>(), any::<bool>()), 1..60)
    ) {
        let mut row = Row::new(3, small_config(), Harm::default(), 1);
        row.push(FlowKey { source: NodeId(2), local: 1 }, 0, 3, 5_000, false);
        for (kind, [a, b, frames, number, length, to], flag) in kinds {
            let key = FlowKey { source: NodeId(a % 4), local: (b % 2).into() };
            let id = BlockId { flow: key, number: u32::from(number % 3) };
            let frames = frames % 9 + 1;
            let plain = header(id, frames);
            let header = Header { destination: NodeId(to % 5), finishes: flag, ..plain };
            let bytes = |length: usize| Bytes::from(vec![0xff; length]);
            let body = match kind {
                0 => {
                    let payload = bytes(usize::from(length % 1_500));
                    Body::Data { frame: number % frames, payload }
                }
                1 => {
                    let (round, length) = (number, length.into());
                    Body::Request { round, is_virtual: flag, length, crc: 0 }
                }
                2 => Body::Answer { round: number % 3, bits: bytes(wire::bits_bytes(frames)) },
                3 => {
                    let refusal = flag.then_some(Refusal::Full);
                    Body::Arrived { crc: u32::from(length), refusal }
                }
                _ => {
                    let next = row.now + Duration::from_millis(length.into());
                    row.run_until(next);
                    continue;
                }
            };
            says(&mut row, &header, &body);
        }
        let end = row.now + Duration::from_secs(5);
        row.run_until(end);
    }
}

#[test]
fn the_last_number_of_a_flow_that_is_refused_is_not_delivered_either() {
    let mut row = two();
    let id = BlockId { flow: flow(1), number: u32::MAX };
    let payload = vec![7; 100];
    says(&mut row, &header(id, 1), &request(crc32fast::hash(&payload), 100));
    says(&mut row, &header(id, 1), &Body::Data { frame: 0, payload: payload.into() });
    row.settle();
    assert_eq!((row.delivered.len(), row.count(2, "blocks_held")), (0, 0));
}

#[test]
fn no_block_has_the_last_number() {
    let mut row = two();
    let last = BlockId { flow: flow(1), number: u32::MAX };
    let now = row.now;
    row.hop(2).restore_arrivals(now, flow(1), (0, u32::MAX), true);
    says(&mut row, &header(last, 1), &request(1, 10));
    assert_eq!((row.count(2, "contradictions"), row.count(2, "blocks_held")), (1, 0));
}

#[test]
fn a_relay_lets_go_of_what_came_before_the_first_block_of_a_flow_that_is_refused() {
    let mut row = Row::new(3, small_config(), Harm::default(), 1);
    row.unwanted.insert(flow(1));
    let id = BlockId { flow: flow(1), number: 1 };
    let payload = vec![7; 100];
    let early = Header { destination: NodeId(3), is_early: true, ..header(id, 1) };
    says(&mut row, &early, &request(crc32fast::hash(&payload), 100));
    says(&mut row, &early, &Body::Data { frame: 0, payload: payload.into() });
    assert_eq!(row.count(2, "blocks_held"), 1);
    row.push(flow(1), 0, 3, 100, false);
    let end = row.now + Duration::from_secs(5);
    row.run_until(end);
    assert_eq!(row.arrived.first().map(|one| one.refusal), Some(Some(Refusal::Unwanted)));
    assert_eq!(row.count(2, "blocks_held"), 0, "nobody asks for it any more");
}

#[test]
fn a_block_that_its_application_has_not_accepted_yet_is_not_replaced_by_another() {
    let mut row = two();
    assert!(row.send(flow(1), 2, &[100], MINUTE));
    row.is_slow = true;
    row.push(flow(1), 1, 2, 900, true);
    let end = row.now + Duration::from_secs(1);
    row.run_until(end);
    assert_eq!(row.delivered.len(), 2);
    let id = BlockId { flow: flow(1), number: 1 };
    says(&mut row, &header(id, 5), &request(77, 7_000));
    row.hop(2).accept(end, id);
    row.run_until(end + Duration::from_secs(1));
    assert_eq!(row.arrived.len(), 2, "its source hears of it");
}

#[test]
fn who_asks_again_and_again_and_sends_nothing_holds_up_others_for_seconds_only() {
    let mut row = Row::new(3, small_config(), Harm::default(), 1);
    let id = BlockId { flow: FlowKey { source: NodeId(9), local: 1 }, number: 0 };
    let ask = |row: &mut Row| says(row, &header(id, 10), &request(77, 14_000));
    ask(&mut row);
    let from_3 = FlowKey { source: NodeId(3), local: 1 };
    row.push(from_3, 0, 2, 14_000, true);
    let mut end = row.now;
    for _ in 0..25 {
        end += Duration::from_millis(400);
        row.run_until(end);
        ask(&mut row);
    }
    let arrived: Vec<FlowKey> = row.arrived.iter().map(|arrived| arrived.id.flow).collect();
    assert_eq!(arrived, [from_3]);
}
