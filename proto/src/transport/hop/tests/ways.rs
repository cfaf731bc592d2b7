//! Ways that blocks keep to, and what they do when these lead in a circle or nowhere.

use super::*;

const FAR: NodeId = NodeId(5);
const RADIO: RadioId = RadioId(0);

/// Tells a node the way to the last one that routing has.
fn tell_way(row: &mut Row, node: u16, via: u16) {
    let (now, route) = (row.now, Route { via: NodeId(via), hops: 2 });
    row.hop(node).on_route(now, FAR, route, RADIO);
}

/// Five nodes, of which blocks from the first to the last have just taken these ways.
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

/// Sends a block from the first node to the last. Returns whether the source knows of it in a time
/// in which it does not ask for it.
fn arrives_at_once(row: &mut Row) -> bool {
    row.send(flow(1), FAR.0, &[14_000], Duration::from_secs(4))
}

#[test]
fn blocks_leave_circles_of_old_ways_at_once() {
    let circles = [
        [(1, 2), (2, 3), (3, 2), (4, 5)],
        [(1, 2), (2, 3), (3, 4), (4, 2)],
        [(1, 2), (2, 3), (3, 4), (4, 1)],
    ];
    for circle in circles {
        let mut stands = row_with_ways(circle);
        assert!(!arrives_at_once(&mut stands), "{circle:?} leads nowhere");
        let within = |node: &u16| circle.iter().any(|(_, via)| via == node) && *node != FAR.0;
        for newer_at in (1..=4).filter(within) {
            let mut row = row_with_ways(circle);
            tell_way(&mut row, newer_at, FAR.0);
            assert!(arrives_at_once(&mut row), "{circle:?}, another way at {newer_at}");
            assert_eq!(row.delivered.len(), 1);
        }
    }
}

#[test]
fn a_block_that_is_offered_from_elsewhere_after_as_many_hops_is_in_no_circle() {
    let mut row = row_with_ways([(1, 2), (2, 4), (3, 4), (4, 5)]);
    // The last one hears nothing, so that the block waits at the fourth.
    row.deaf = Some(FAR);
    row.push(flow(1), 0, FAR.0, 14_000, true);
    let later = row.now + Duration::from_secs(1);
    row.run_until(later);
    tell_way(&mut row, 4, 1);
    let shape = row.hop(4).blocks[&BlockId { flow: flow(1), number: 0 }].shape;
    assert_eq!(shape.hops_made, 2);
    let asks = |via: u16, hops_made: u8| Waiting {
        block: BlockId { flow: flow(1), number: 0 },
        via: NodeId(via),
        round: 1,
        is_virtual: false,
        shape: Shape { hops_made, ..shape },
        signal_db: 20.0,
        since: later,
        heard: later,
    };
    row.hop(4).on_request(later, asks(3, 3));
    assert_eq!(row.hop(4).next_hop(FAR), Some(FAR));
    row.hop(4).on_request(later, asks(3, 4));
    assert_eq!(row.hop(4).next_hop(FAR), Some(NodeId(1)), "four hops are a circle");
}

#[test]
fn a_neighbour_that_is_heard_and_takes_nothing_is_left() {
    let mut row = row_with_ways([(1, 2), (2, 3), (3, 4), (4, 5)]);
    // It sends on all the while.
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
