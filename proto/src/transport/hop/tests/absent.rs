//! Neighbours for which a link keeps what it is given.

use super::*;

/// A flow of node 2, which has a neighbour on each side.
fn of_2(local: u32) -> FlowKey {
    FlowKey { source: NodeId(2), local }
}

fn later(row: &mut Row, ms: u64) {
    let end = row.now + Duration::from_millis(ms);
    row.run_until(end);
}

#[test]
fn frames_that_a_link_keeps_for_a_neighbour_hold_up_none_for_another() {
    let mut row = Row::new(3, small_config(), Harm::default(), 1);
    row.kept_for = Some(NodeId(3));
    (1..=3).for_each(|local| row.push(of_2(local), 0, 3, 8_000, true));
    later(&mut row, 4_000);
    row.push(of_2(4), 0, 1, 14_000, true);
    later(&mut row, 2_000);
    assert_eq!(row.delivered.len(), 1, "to node 1");
    row.kept_for = None;
    later(&mut row, 10_000);
    assert_eq!(row.delivered.len(), 4, "once the link carries them");
}

#[test]
fn messages_to_a_neighbour_that_is_gone_hold_up_none_to_another() {
    let mut row = Row::new(3, small_config(), Harm::default(), 1);
    row.deaf = Some(NodeId(3));
    (1..=300).for_each(|local| row.push(of_2(local), 0, 3, 900, true));
    later(&mut row, 60_000);
    (row.deaf, row.kept_for) = (None, Some(NodeId(3)));
    later(&mut row, 60_000);
    row.push(of_2(301), 0, 1, 14_000, true);
    row.push(flow(1), 0, 2, 14_000, true);
    later(&mut row, 2_000);
    let arrived: Vec<FlowKey> = row.arrived.iter().map(|arrived| arrived.id.flow).collect();
    assert!(arrived.contains(&of_2(301)) && arrived.contains(&flow(1)), "{arrived:?}");
}

#[test]
fn a_small_block_is_answered_for_after_however_many_rounds() {
    let mut row = Row::new(2, small_config(), Harm::default(), 1);
    row.deaf = Some(NodeId(2));
    row.push(flow(1), 0, 2, 900, true);
    later(&mut row, 100);
    let (now, id) = (row.now, BlockId { flow: flow(1), number: 0 });
    let block = row.hop(1).blocks.get_mut(&id).expect("it has not arrived");
    block.transfer.as_mut().expect("it is offered").round = u16::MAX;
    row.hop(1).end_round(now, id);
    row.deaf = None;
    later(&mut row, 5_000);
    assert_eq!(row.arrived.len(), 1);
}
