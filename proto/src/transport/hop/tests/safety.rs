//! Nothing is acknowledged that is not safe, and nodes go on after a restart.

use super::*;

fn keeping(nodes: u16) -> Row {
    let mut row = Row::new(nodes, small_config(), Harm::default(), 1);
    row.nodes.iter_mut().for_each(Hop::keep_blocks);
    row
}

fn later(row: &mut Row, ms: u64) {
    let end = row.now + Duration::from_millis(ms);
    row.run_until(end);
}

/// What the machine of node 2 wants stored, and what it no longer does.
fn kept(row: &mut Row) -> (Vec<Whole>, Vec<BlockId>) {
    let (mut put, mut dropped) = (Vec::new(), Vec::new());
    while let Some(keep) = row.hop(2).poll_keep() {
        match keep {
            Keep::Put(whole) => put.push(whole),
            Keep::Drop(id) => dropped.push(id),
            Keep::Get(id) => panic!("{id:?} is in memory"),
        }
    }
    (put, dropped)
}

#[test]
fn a_relay_acknowledges_a_block_once_it_is_kept() {
    let mut row = keeping(3);
    row.deaf = Some(NodeId(3));
    row.push(flow(1), 0, 3, 5_000, true);
    later(&mut row, 2_000);
    assert_eq!(row.count(1, "blocks_passed_on"), 0);
    let (put, _) = kept(&mut row);
    assert_eq!(put.len(), 1);
    row.hop(2).handle_kept(put[0].id);
    later(&mut row, 100);
    assert_eq!(row.count(1, "blocks_passed_on"), 1);
    row.deaf = None;
    later(&mut row, 1_000);
    row.assert_delivered(flow(1), &[5_000]);
}

#[test]
fn what_has_arrived_is_kept_no_longer() {
    let mut row = keeping(3);
    row.push(flow(1), 0, 3, 5_000, true);
    later(&mut row, 50);
    let (put, _) = kept(&mut row);
    row.hop(2).handle_kept(put[0].id);
    later(&mut row, 2_000);
    assert_eq!(kept(&mut row).1, [put[0].id]);
    assert_eq!(row.count(2, "blocks_held"), 0);
}

#[test]
fn a_relay_that_begins_anew_goes_on_with_what_it_kept() {
    let mut row = keeping(3);
    row.deaf = Some(NodeId(3));
    row.push(flow(1), 0, 3, 5_000, true);
    later(&mut row, 50);
    let (put, _) = kept(&mut row);
    row.restart(2);
    row.deaf = None;
    let now = row.now;
    row.hop(2).restore(now, put[0].clone());
    // Its source is gone for good.
    row.nodes[0] = row.machine(1);
    later(&mut row, 2_000);
    row.assert_delivered(flow(1), &[5_000]);
}

#[test]
fn a_destination_that_begins_anew_takes_no_block_twice() {
    let mut row = Row::new(2, small_config(), Harm::default(), 1);
    assert!(row.send(flow(1), 2, &[100, 9_000], MINUTE));
    let opened = crc32fast::hash(&text(BlockId { flow: flow(1), number: 0 }, 100));
    row.restart(2);
    let now = row.now;
    row.hop(2).restore_arrivals(now, flow(1), (opened, 2), false);
    row.push(flow(1), 1, 2, 9_000, false);
    later(&mut row, 1_000);
    row.push(flow(1), 2, 2, 9_000, true);
    later(&mut row, 1_000);
    row.assert_delivered(flow(1), &[100, 9_000, 9_000]);
    assert_eq!(row.arrived.len(), 4, "the source hears of the second one again");
}

#[test]
fn a_destination_that_begins_anew_forgets_flows_that_are_over_before_others() {
    let mut row = Row::new(2, small_config(), Harm::default(), 1);
    let now = row.now;
    for local in 0..1_024 {
        row.hop(2).restore_arrivals(now, flow(local), (0, 2), local > 0);
    }
    assert!(row.send(flow(2_000), 2, &[100], MINUTE));
    assert_eq!(row.count(2, "flows_forgotten"), 1);
    assert!(row.hop(2).arrivals.contains_key(&flow(0)), "more of it may come");
}

#[test]
fn a_flow_that_made_room_for_others_is_not_delivered_again() {
    for asked in [0, 1] {
        let mut row = Row::new(2, small_config(), Harm::default(), 1);
        assert!(row.send(flow(1), 2, &[100, 9_000], MINUTE));
        let now = row.now;
        for local in 0..1_023 {
            let other = FlowKey { source: NodeId(3), local };
            row.hop(2).restore_arrivals(now, other, (0, 2), true);
        }
        assert!(row.send(flow(2), 2, &[100], MINUTE));
        assert!(!row.hop(2).arrivals.contains_key(&flow(1)));
        // The source has not heard that its blocks arrived.
        row.restart(1);
        row.arrived.clear();
        for (number, length) in [(0, 100), (1, 9_000)].into_iter().skip(asked) {
            row.push(flow(1), number, 2, length, number == 1);
        }
        later(&mut row, 2_000);
        assert_eq!(row.arrived.len(), 2 - asked);
        assert!(row.arrived.iter().all(|one| one.refusal.is_none()));
        assert_eq!(row.delivered.len(), 3);
    }
}

#[test]
fn a_destination_that_begins_anew_still_knows_what_ended_long_ago() {
    let mut row = Row::new(2, small_config(), Harm::default(), 1);
    let now = row.now;
    let opened = |bytes| crc32fast::hash(&text(BlockId { flow: flow(1), number: 0 }, bytes));
    for (bytes, is_refused) in [(100, false), (101, true)] {
        row.hop(2).restore_past(now, flow(1), (opened(bytes), is_refused));
        row.restart(1);
        row.arrived.clear();
        row.push(flow(1), 0, 2, bytes, false);
        later(&mut row, 1_000);
        let refusals: Vec<_> = row.arrived.iter().map(|one| one.refusal).collect();
        assert_eq!(refusals, [is_refused.then_some(Refusal::Unsaid)]);
        row.restart(2);
    }
    assert!(row.delivered.is_empty());
    let now = row.now;
    row.hop(2).restore_past(now, flow(1), (opened(100), false));
    row.restart(1);
    assert!(row.send(flow(1), 2, &[102], MINUTE), "another flow has its number now");
}

#[test]
fn a_destination_that_has_forgotten_a_flow_refuses_it() {
    let mut row = Row::new(3, small_config(), Harm::default(), 1);
    assert!(row.send(flow(1), 3, &[100], MINUTE));
    row.restart(3);
    row.push(flow(1), 1, 3, 9_000, true);
    later(&mut row, 2_000);
    assert_eq!(row.arrived.last().map(|one| one.refusal), Some(Some(Refusal::Unknown)));
    row.assert_delivered(flow(1), &[100]);
}

#[test]
fn a_flow_that_no_application_takes_is_refused() {
    let mut row = Row::new(3, small_config(), Harm::default(), 1);
    row.unwanted.insert(flow(1));
    row.push(flow(1), 0, 3, 100, false);
    later(&mut row, 1_000);
    assert_eq!(row.arrived.first().map(|one| one.refusal), Some(Some(Refusal::Unwanted)));
    assert!(row.delivered.is_empty());
}

#[test]
fn a_destination_that_begins_anew_still_refuses_what_it_refused_and_nothing_else() {
    let mut row = Row::new(3, small_config(), Harm::default(), 1);
    let opened = crc32fast::hash(&text(BlockId { flow: flow(1), number: 0 }, 100));
    let now = row.now;
    row.hop(3).restore_refused(now, flow(1), opened);
    row.push(flow(1), 0, 3, 100, false);
    later(&mut row, 1_000);
    assert_eq!(row.arrived.first().map(|one| one.refusal), Some(Some(Refusal::Unsaid)));
    assert!(row.delivered.is_empty());
    assert!(row.send(flow(1), 3, &[101], MINUTE), "another flow has its number now");
}

#[test]
fn a_source_that_begins_anew_under_an_old_number_opens_another_flow() {
    let mut row = Row::new(3, small_config(), Harm::default(), 1);
    assert!(row.send(flow(1), 3, &[100, 9_000], MINUTE));
    row.restart(1);
    row.arrived.clear();
    assert!(row.send(flow(1), 3, &[101, 9_000], MINUTE));
    assert_eq!(row.delivered.len(), 4);
}

#[test]
fn a_block_that_comes_before_its_turn_is_kept_and_does_not_stand_in_the_way() {
    let mut row = keeping(2);
    assert!(row.send(flow(1), 2, &[100], MINUTE));
    row.push(flow(1), 2, 2, 9_000, true);
    later(&mut row, 100);
    let (put, _) = kept(&mut row);
    assert_eq!((put.len(), row.count(1, "blocks_passed_on")), (1, 0));
    row.hop(2).handle_kept(put[0].id);
    later(&mut row, 500);
    assert_eq!(row.count(1, "blocks_passed_on"), 1, "acknowledged by the hop, not by the flow");
    assert_eq!(row.delivered.len(), 1);
    row.push(flow(1), 1, 2, 9_000, false);
    later(&mut row, 1_000);
    row.assert_delivered(flow(1), &[100, 9_000, 9_000]);
    assert_eq!(kept(&mut row).1, [put[0].id]);
}

#[test]
fn an_application_that_does_not_accept_stops_its_flow_until_it_does() {
    let mut row = Row::new(3, small_config(), Harm::default(), 1);
    let lengths = [5_000, 14_000, 14_000, 14_000, 14_000, 14_000, 14_000];
    assert!(!row.send(flow(1), 3, &lengths[..1], Duration::ZERO));
    later(&mut row, 1_000);
    row.is_slow = true;
    assert!(!row.send_on(&lengths, 3, MINUTE));
    let given: Vec<u32> = row.delivered.iter().map(|(id, _)| id.number).collect();
    assert_eq!(given, [0, 1], "one that was not accepted, as H allows");
    row.is_slow = false;
    let now = row.now;
    row.hop(3).accept(now, BlockId { flow: flow(1), number: 1 });
    assert!(row.send_on(&lengths, 3, MINUTE));
    row.assert_delivered(flow(1), &lengths);
}

#[test]
fn a_request_that_comes_late_does_not_bring_back_what_has_arrived() {
    let harm = Harm { repeat: 0.5, spread_ms: 40, ..Harm::default() };
    // Frames that a request overtakes look like frames that met somebody.
    let config = HopConfig { yields: false, ..small_config() };
    let mut row = Row::new(5, config, harm, 3);
    let lengths = [500; 30];
    assert!(row.send(flow(1), 5, &lengths, MINUTE));
    assert!(row.now < Instant::ZERO + Duration::from_secs(10), "{:?}", row.now);
    row.assert_delivered(flow(1), &lengths);
    later(&mut row, 1_000);
    let held: Vec<u64> = (2..=4).map(|node| row.count(node, "blocks_held")).collect();
    assert_eq!(held, [0, 0, 0]);
}
