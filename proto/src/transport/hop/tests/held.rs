//! Room for blocks, and which blocks leave room for others.

use super::*;

/// Memory for nine blocks that begin here, beside those that pass.
const MUCH: u64 = 270_000;

#[test]
fn relays_that_are_full_of_what_has_to_go_through_each_other_go_on() {
    let config = HopConfig {
        memory_bytes: 12 * 16_000,
        high_blocks: 100,
        ahead: Ahead::Always,
        ..small_config()
    };
    let mut row = Row::new(4, config, Harm::default(), 1);
    let back = FlowKey { source: NodeId(4), local: 1 };
    assert!(row.send(flow(1), 4, &[100], MINUTE) && row.send(back, 1, &[100], MINUTE));
    row.cut = Some([NodeId(2), NodeId(3)]);
    for number in 1..=8 {
        row.push(flow(1), number, 4, 14_000, number == 8);
        row.push(back, number, 1, 14_000, number == 8);
    }
    let healed = row.now + Duration::from_secs(20);
    row.run_until(healed);
    row.cut = None;
    let end = row.now + MINUTE;
    row.run_until(end);
    assert_eq!(row.arrived.len(), 18);
}

#[test]
fn transfers_that_fill_the_memory_leave_some_for_what_is_small() {
    let config = HopConfig { memory_bytes: MUCH, ..small_config() };
    let mut row = Row::new(3, config, Harm::default(), 1);
    row.deaf = Some(NodeId(2));
    let mut local = 1;
    while row.has_room(1, flow(local), 14_000) {
        row.push(flow(local), 0, 3, 14_000, false);
        local += 1;
    }
    assert!((8..=10).contains(&local), "{} transfers", local - 1);
    assert!(row.has_room(1, flow(local), 4_000));
    row.push(flow(local), 0, 3, 4_000, true);
    // Room for eight blocks that come from elsewhere is left.
    assert!(row.count(1, "memory_held") <= MUCH - 8 * 14_000);
}

#[test]
fn two_nodes_full_of_what_has_to_go_through_the_other_both_go_on() {
    let config = HopConfig { memory_bytes: 80_000, high_blocks: 100, ..small_config() };
    let mut row = Row::new(4, config, Harm::default(), 1);
    // The blocks after the first fill the rest.
    let lengths: Vec<usize> = [10_500].into_iter().chain([2_000; 99]).collect();
    let mut both = [2, 3].map(|node| (FlowKey { source: NodeId(node), local: 1 }, 0));
    for _ in 0..2_000 {
        for (flow, pushed) in &mut both {
            while let Some(length) = lengths.get(*pushed).copied()
                && row.has_room(flow.source.0, *flow, length)
            {
                let (number, to) = (*pushed as u32, if flow.source.0 == 2 { 4 } else { 1 });
                *pushed += 1;
                row.push(*flow, number, to, length, *pushed == lengths.len());
            }
        }
        let later = row.now + Duration::from_millis(20);
        row.run_until(later);
    }
    both.iter().for_each(|(flow, _)| row.assert_delivered(*flow, &lengths));
}

#[test]
fn a_flow_that_has_many_blocks_here_leaves_room_for_one_that_has_none() {
    let config = HopConfig { memory_bytes: MUCH, high_blocks: 100, ..small_config() };
    let mut row = Row::new(3, config, Harm::default(), 1);
    row.deaf = Some(NodeId(2));
    let mut number = 0;
    while row.has_room(1, flow(1), 14_000) {
        row.push(flow(1), number, 3, 14_000, false);
        number += 1;
    }
    assert!((5..=7).contains(&number), "{number} blocks");
    assert!(row.has_room(1, flow(2), 14_000));
}

#[test]
fn memory_for_blocks_that_are_fetched_first_is_given_once() {
    let config = HopConfig { memory_bytes: MUCH, ..small_config() };
    let mut row = Row::new(3, config, Harm::default(), 1);
    row.deaf = Some(NodeId(2));
    let now = row.now;
    let reserved = (1..).take_while(|local| row.hop(1).reserve(now, flow(*local), 14_000));
    let reserved = reserved.count() as u32;
    assert!((3..=5).contains(&reserved), "{reserved} flows");
    (1..reserved).for_each(|local| row.push(flow(local), 0, 3, 14_000, false));
    row.hop(1).release(flow(reserved));
    let held = row.count(1, "memory_held");
    assert!(held < u64::from(reserved) * 15_500, "{held} bytes");
    assert!(row.has_room(1, flow(reserved), 14_000));
}

#[test]
fn a_part_of_a_block_whose_rest_does_not_come_waits_for_nothing_and_may_go() {
    let mut row = Row::new(3, small_config(), Harm { loss: 0.5, ..Harm::default() }, 1);
    row.push(flow(1), 0, 3, 14_000, false);
    while row.count(2, "frames_received") < 3 {
        let later = row.now + Duration::from_millis(1);
        row.run_until(later);
    }
    row.deaf = Some(NodeId(2));
    let blocks = |row: &mut Row| {
        let now = row.now;
        let hop = row.hop(2);
        (hop.waiting(now).count(), hop.cached(now).count())
    };
    assert_eq!(blocks(&mut row), (1, 0));
    let later = row.now + Duration::from_secs(8);
    row.run_until(later);
    assert_eq!(blocks(&mut row), (0, 1));
    assert_eq!(row.hop(2).clear_cache(later, false), 1);
    assert_eq!(row.count(2, "memory_held"), 0);
}
