//! Frames that are longer than a device takes.

use super::*;
use crate::transport::hop::block::Phase;

/// Pushes a block of a flow in frames of so many bytes.
fn push(row: &mut Row, local: u32, frame_bytes: usize, to: u16) {
    let id = BlockId { flow: flow(local), number: 0 };
    let (now, frames) = (row.now, frames_of(&text(id, 100_000), frame_bytes));
    row.hop(1).push(now, id, NodeId(to), true, frames);
}

fn run_for(row: &mut Row, seconds: u64) {
    let end = row.now + Duration::from_secs(seconds);
    row.run_until(end);
}

#[test]
fn a_block_that_a_device_does_not_take_stands_in_nobodys_way_and_goes_on_once_it_does() {
    let mut row = Row::new(2, HopConfig::default(), Harm::default(), 1);
    row.longest = 1_000;
    (1..=3).for_each(|local| push(&mut row, local, 1_400, 2));
    run_for(&mut row, 60);
    // Two turns of each are handed down before the first frame comes back, every five seconds.
    let (tried, requests) = (row.refused, row.count(1, "requests"));
    assert!(tried <= 3 * 13 * 12 && requests < 20, "{tried} frames and {requests} requests");
    assert_eq!(row.count(1, "frames_too_long"), tried as u64);
    push(&mut row, 4, 500, 2);
    run_for(&mut row, 1);
    row.assert_delivered(flow(4), &[100_000]);
    row.longest = usize::MAX;
    run_for(&mut row, 7);
    (1..=3).for_each(|local| row.assert_delivered(flow(local), &[100_000]));
}

#[test]
fn a_datagram_with_a_whole_frame_is_as_long_as_settings_say() {
    let mut row = Row::new(2, HopConfig::default(), Harm::default(), 1);
    row.longest = row.config.datagram_bytes();
    push(&mut row, 1, 1_400, 2);
    run_for(&mut row, 1);
    row.assert_delivered(flow(1), &[100_000]);
    row.longest -= 1;
    push(&mut row, 2, 1_400, 2);
    run_for(&mut row, 1);
    assert!(row.count(1, "frames_too_long") > 0);
}

#[test]
fn such_a_block_takes_another_way_once_there_is_one() {
    let mut row = Row::new(2, HopConfig::default(), Harm::default(), 1);
    row.longest = 1_000;
    push(&mut row, 1, 1_400, 2);
    run_for(&mut row, 1);
    let event = DatagramUp::NextHop { dst: NodeId(2), via: NodeId(3), radio: RadioId(0), hops: 2 };
    let now = row.now;
    row.hop(1).handle_rx(&mut Cx::new(now), event);
    row.nodes.push(row.machine(3));
    run_for(&mut row, 6);
    let id = BlockId { flow: flow(1), number: 0 };
    let transfer = row.hop(1).blocks[&id].transfer.as_ref().expect("it is under way");
    assert_eq!(transfer.via, NodeId(3));
}

/// A row of two, 20 ms after a block of node 1 began to pass to node 2.
fn under_way() -> (Row, BlockId) {
    let mut row = Row::new(2, HopConfig::default(), Harm::default(), 1);
    push(&mut row, 1, 1_400, 2);
    row.run_until(row.now + Duration::from_millis(20));
    (row, BlockId { flow: flow(1), number: 0 })
}

#[test]
fn what_the_old_way_does_not_take_does_not_hold_up_the_new_one() {
    let (mut row, id) = under_way();
    let (now, hop) = (row.now, row.hop(1));
    let frame = hop.in_radio.iter().find(|(_, what)| matches!(what, InRadio::Frame(..)));
    let frame = *frame.expect("one is on its way").0;
    let transfer = hop.blocks.get_mut(&id).and_then(|block| block.transfer.as_mut());
    transfer.expect("it is under way").go_over(NodeId(3));
    let refused = DatagramUp::Dropped { id: frame, cause: DropCause::TooLong };
    hop.handle_rx(&mut Cx::new(now), refused);
    let transfer = hop.blocks[&id].transfer.as_ref().expect("it is still under way");
    assert_eq!(transfer.phase, Phase::Sending);
}

#[test]
fn a_block_that_was_put_off_has_one_turn_a_round() {
    let (mut row, id) = under_way();
    let (now, hop) = (row.now, row.hop(1));
    assert_eq!(hop.turns_of(id), 1);
    hop.put_off(now, id, NodeId(2));
    hop.end_pauses(now + Duration::from_secs(6));
    assert_eq!(hop.turns_of(id), 1);
}
