//! Gaps that a node asks for, for neighbours that the sender of a transfer does not hear.

use super::*;

/// A flow of node 3, the neighbour of node 2 that node 1 does not hear.
fn other(local: u32) -> FlowKey {
    FlowKey { source: NodeId(3), local }
}

fn config() -> HopConfig {
    HopConfig { block_bytes: Some(210_000), ..HopConfig::default() }
}

/// Node 1 begins a block of 150 frames for node 2 this long after a small block of another flow.
fn beside_small(config: HopConfig, small: FlowKey, wait: Duration) -> Row {
    let mut row = Row::new(3, config, Harm::default(), 1);
    row.push(small, 0, 2, 4_000, true);
    row.push(flow(1), 0, 2, 7_000, false);
    row.run_until(row.now + wait);
    assert!(row.delivered.iter().any(|(id, _)| id.flow == small), "the small one is there");
    row.first_frames.clear();
    row.push(flow(1), 1, 2, 210_000, true);
    row
}

/// How often node 2 asks for a gap, how many node 1 leaves, and its longest pause.
fn gaps(config: HopConfig, small: FlowKey, wait: Duration) -> (u64, u64, Duration) {
    let mut row = beside_small(config, small, wait);
    row.run_until(row.now + Duration::from_secs(5));
    assert!(row.first_frames.len() >= 150, "a block of 150 frames");
    let pauses = row.first_frames.windows(2).map(|pair| pair[1].since(pair[0]));
    let longest = pauses.max().unwrap_or(Duration::ZERO);
    (row.count(2, "gaps_asked"), row.count(1, "gaps"), longest)
}

#[test]
fn a_node_asks_for_a_gap_where_somebody_else_has_little_to_send() {
    let (soon, late) = (Duration::from_secs(1), Duration::from_secs(11));
    let (asked, left, longest) = gaps(config(), other(2), soon);
    assert!(asked > 0 && left == asked, "{asked} asked for, {left} left");
    assert!(longest >= Duration::from_millis(40), "{longest:?}");
    let off = HopConfig { interactive_gap_ms: 0.0, ..config() };
    for (config, small, wait, why) in [
        (off, other(2), soon, "not wanted"),
        (config(), flow(2), soon, "the sender's own, whom nobody drowns"),
        (config(), other(2), late, "nobody has waited for a while"),
    ] {
        let (asked, left, longest) = gaps(config, small, wait);
        assert_eq!((asked, left), (0, 0), "{why}");
        assert!(longest < Duration::from_millis(40), "{why}: {longest:?}");
    }
}

#[test]
fn what_was_asked_for_in_vain_is_asked_for_when_the_node_listens() {
    let mut row = beside_small(config(), other(2), Duration::from_secs(1));
    row.run_until(row.now + Duration::from_secs(1));
    // As if it were drowned, so that the waits between its requests have grown.
    row.deaf = Some(NodeId(2));
    row.push(other(3), 0, 2, 4_000, true);
    row.run_until(row.now + Duration::from_millis(4_050));
    row.deaf = None;
    row.push(flow(4), 0, 2, 7_000, false);
    row.push(flow(4), 1, 2, 210_000, true);
    let is_there = |row: &Row| row.delivered.iter().any(|(id, _)| id.flow == other(3));
    let begun = row.now;
    while !is_there(&row) && row.now < begun + Duration::from_secs(2) {
        row.run_until(row.now + Duration::from_millis(1));
    }
    let waited = row.now.since(begun);
    assert!(waited < Duration::from_millis(120), "{waited:?}");
}

#[test]
fn a_neighbour_that_always_listens_leaves_air_for_others() {
    let mut row = Row::new(3, config(), Harm::default(), 1);
    row.push(flow(1), 0, 2, 7_000, false);
    row.run_until(row.now + Duration::from_secs(1));
    row.push(flow(1), 1, 2, 210_000, true);
    // Alone it takes a fifth of a second.
    let end = row.now + Duration::from_millis(400);
    while row.now < end {
        let now = row.now;
        row.hop(1).on_listen(now, NodeId(2));
        row.run_until(now + Duration::from_millis(5));
    }
    let large = BlockId { flow: flow(1), number: 1 };
    assert!(row.delivered.iter().any(|(id, _)| *id == large), "the block is there");
}

#[test]
fn a_neighbour_that_always_listens_is_not_asked_all_the_time() {
    let mut row = Row::new(3, config(), Harm::default(), 1);
    row.deaf = Some(NodeId(2));
    row.push(other(2), 0, 2, 4_000, true);
    let end = row.now + Duration::from_secs(1);
    while row.now < end {
        let now = row.now;
        row.hop(3).on_listen(now, NodeId(2));
        row.run_until(now + Duration::from_millis(1));
    }
    let requests = row.count(3, "requests");
    assert!((50..=110).contains(&requests), "{requests} requests in a second");
}
