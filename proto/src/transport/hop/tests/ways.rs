//! Routes that blocks keep to, and what happens when these form a loop or lead nowhere.

use super::block::Phase;
use super::*;

const FAR: NodeId = NodeId(5);
const RADIO: RadioId = RadioId(0);

/// Tells a node the route to the last one that routing has.
fn tell_way(row: &mut Row, node: u16, via: u16) {
    let (now, route) = (row.now, Route { via: NodeId(via), hops: 2 });
    row.hop(node).on_route(now, FAR, route, RADIO);
}

/// Five nodes; blocks from the first to the last have just taken these routes.
fn row_with_ways(ways: [(u16, u16); 4]) -> Row {
    let mut row = Row::new(5, small_config(), Harm::default(), 1);
    let begin = Instant::ZERO + MINUTE;
    row.run_until(begin);
    for (node, via) in ways {
        tell_way(&mut row, node, via);
        let taken = row.hop(node).take_way(begin, FAR);
        assert_eq!(taken, Some(NodeId(via)));
    }
    row
}

/// Less than the time after which a source asks for a block.
const AT_ONCE: Duration = Duration::from_secs(4);

#[test]
fn blocks_leave_circles_of_old_ways_at_once() {
    let circles = [
        [(1, 2), (2, 3), (3, 2), (4, 5)],
        [(1, 2), (2, 3), (3, 4), (4, 2)],
        [(1, 2), (2, 3), (3, 4), (4, 1)],
    ];
    for circle in circles {
        let within = |node: &u16| circle.iter().any(|(_, via)| via == node) && *node != FAR.0;
        for (newer_at, length) in (1..=4).filter(within).flat_map(|at| [(at, 14_000), (at, 900)]) {
            let mut row = row_with_ways(circle);
            tell_way(&mut row, newer_at, FAR.0);
            let arrives = row.send(flow(1), FAR.0, &[length], AT_ONCE);
            assert!(arrives, "{circle:?}, another way at {newer_at}, {length} bytes");
            assert_eq!(row.delivered.len(), 1);
        }
    }
}

#[test]
fn a_circle_without_another_way_is_asked_around_seldom_and_left_once_there_is_one() {
    let circle = [(1, 2), (2, 3), (3, 4), (4, 2)];
    let mut row = row_with_ways(circle);
    assert!(!row.send(flow(1), FAR.0, &[900], MINUTE), "it leads nowhere");
    // Every five seconds the source asks, and that goes around twice: a request and an answer for
    // each hop.
    assert!((60..12 * 2 * 10).contains(&row.messages), "{}", row.messages);
    row.run_until(Instant::ZERO + MINUTE * 10);
    tell_way(&mut row, 3, FAR.0);
    row.send_on(&[900], FAR.0, Duration::from_secs(6));
    assert_eq!(row.delivered.len(), 1);
}

#[test]
fn a_block_that_comes_again_after_as_many_hops_is_in_no_circle() {
    let mut row = row_with_ways([(1, 2), (2, 4), (3, 4), (4, 5)]);
    // The last node hears nothing, so the block waits at the fourth.
    row.deaf = Some(FAR);
    row.push(flow(1), 0, FAR.0, 14_000, true);
    let later = row.now + Duration::from_secs(1);
    row.run_until(later);
    tell_way(&mut row, 4, 1);
    let block = BlockId { flow: flow(1), number: 0 };
    let shape = row.hop(4).blocks[&block].shape;
    assert_eq!(shape.hops_made, 2);
    let mut next_hop_after = |hops_made: u8, crc: u32| {
        let shape = Shape { hops_made, crc, ..shape };
        row.hop(4).on_request(later, asks_for(block, 3, shape, later));
        row.hop(4).next_hop(FAR)
    };
    assert_eq!(next_hop_after(3, shape.crc), Some(FAR));
    assert_eq!(next_hop_after(200, shape.crc ^ 1), Some(FAR), "it is another one");
    assert_eq!(next_hop_after(5, shape.crc), Some(NodeId(1)), "five hops are a circle");
    next_hop_after(255, shape.crc);
    next_hop_after(255, shape.crc);
}

fn asks_for(block: BlockId, via: u16, shape: Shape, now: Instant) -> Waiting {
    let (via, round, is_virtual) = (NodeId(via), 1, false);
    Waiting { block, via, round, is_virtual, shape, signal_db: 20.0, since: now, heard: now }
}

#[test]
fn a_small_block_whose_way_is_left_while_its_frames_go_out_arrives() {
    let mut row = row_with_ways([(1, 2), (2, 3), (3, 4), (4, 5)]);
    row.deaf = Some(NodeId(3));
    let block = BlockId { flow: flow(1), number: 0 };
    row.push(flow(1), 0, FAR.0, 3_000, true);
    let phase = |row: &mut Row| {
        let transfer = row.hop(2).blocks.get(&block).and_then(|block| block.transfer.as_ref());
        transfer.map(|transfer| transfer.phase)
    };
    while phase(&mut row) != Some(Phase::Sending) {
        let next = row.now + Duration::from_micros(500);
        row.run_until(next);
    }
    tell_way(&mut row, 2, FAR.0);
    let now = row.now;
    row.hop(2).on_lost(now, NodeId(3));
    let shape = row.hop(2).blocks[&block].shape;
    let asks = Waiting { is_virtual: true, ..asks_for(block, 1, shape, now) };
    row.hop(2).on_request(now, asks);
    let end = row.now + AT_ONCE;
    row.run_until(end);
    assert_eq!(row.delivered.len(), 1);
}

#[test]
fn what_waits_for_a_neighbour_that_becomes_gone_goes_where_routing_leads() {
    const FLOWS: u32 = 300;
    let mut row = row_with_ways([(1, 2), (2, 3), (3, 4), (4, 5)]);
    row.deaf = Some(NodeId(2));
    tell_way(&mut row, 1, FAR.0);
    (1..=FLOWS).for_each(|local| row.push(flow(local), 0, FAR.0, 900, true));
    let end = row.now + Duration::from_secs(7);
    row.run_until(end);
    assert_eq!(row.delivered.len(), FLOWS as usize);
}

#[test]
fn a_neighbour_that_is_heard_and_takes_nothing_is_left() {
    let mut row = row_with_ways([(1, 2), (2, 3), (3, 4), (4, 5)]);
    // It keeps sending all the time.
    row.deaf = Some(NodeId(2));
    tell_way(&mut row, 1, 5);
    row.push(flow(1), 0, FAR.0, 14_000, true);
    let heard = |row: &mut Row| {
        let now = row.now;
        row.hop(1).on_heard(now, NodeId(2));
    };
    for tenth in 1..=80 {
        heard(&mut row);
        let until = row.now + Duration::from_millis(100);
        row.run_until(until);
        if !row.delivered.is_empty() {
            assert!((45..75).contains(&tenth), "after {tenth} tenths of a second");
            return;
        }
    }
    panic!("it waits for routing to have had another way for long");
}

#[test]
fn a_question_for_one_block_makes_no_other_overdue() {
    let mut row = row_with_ways([(1, 2), (2, 5), (3, 5), (4, 5)]);
    row.deaf = Some(FAR);
    tell_way(&mut row, 1, 3);
    let begin = row.now;
    // On the old route the radio reports what arrived, on the new one it does not.
    row.hop(1).unacknowledged.insert(NodeId(3));
    for (local, at_ms) in [(1, 26_000), (2, 28_000)] {
        row.run_until(begin + Duration::from_millis(at_ms));
        row.push(flow(local), 0, FAR.0, 14_000, true);
    }
    row.run_until(begin + Duration::from_secs(30));
    let has = |row: &mut Row, local| {
        row.hop(1).blocks[&BlockId { flow: flow(local), number: 0 }].passed_to
    };
    assert_eq!([1, 2].map(|local| has(&mut row, local)), [Some(NodeId(2)); 2]);
    // The first block is asked for after five seconds, over the new route.
    row.run_until(begin + Duration::from_secs(32));
    assert_eq!(row.hop(1).next_hop(FAR), Some(NodeId(3)));
}
