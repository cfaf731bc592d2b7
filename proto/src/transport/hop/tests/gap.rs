//! Gaps beside interactive traffic.

use super::*;

/// How often node 1 sends no frame for the length of a gap, while it sends one block to the last of
/// so many nodes, after it had blocks of these lengths of another flow.
fn gaps(nodes: u16, config: HopConfig, lengths: &[usize]) -> usize {
    let mut row = Row::new(nodes, config, Harm::default(), 1);
    assert!(row.send(flow(2), nodes, lengths, Duration::from_secs(10)));
    row.push(flow(1), 0, nodes, 7_000, false);
    row.run_until(row.now + Duration::from_secs(1));
    row.first_frames.clear();
    row.push(flow(1), 1, nodes, 210_000, true);
    row.run_until(row.now + Duration::from_secs(5));
    assert!(row.first_frames.len() >= 150, "a block of 150 frames");
    let long = |pair: &[Instant]| pair[1].since(pair[0]) >= Duration::from_millis(30);
    row.first_frames.windows(2).filter(|pair| long(pair)).count()
}

fn config() -> HopConfig {
    HopConfig { block_bytes: Some(210_000), interactive_gap_ms: 30.0, ..HopConfig::default() }
}

#[test]
fn a_node_leaves_gaps_where_small_blocks_pass_that_it_may_drown() {
    const SMALL: [usize; 1] = [4_000];
    assert_eq!(gaps(4, config(), &SMALL), 3, "one after every 48 frames of 150");
    assert_eq!(gaps(4, config(), &[7_000, 5_000]), 3, "12 KB are little too");
    assert_eq!(gaps(3, config(), &SMALL), 0, "all hear each other");
    assert_eq!(gaps(4, HopConfig { interactive_gap_ms: 0.0, ..config() }, &SMALL), 0, "not wanted");
    let transfer = [7_000, 14_000, 4_000];
    assert_eq!(gaps(4, config(), &transfer), 0, "a transfer begins and ends with a small block");
}

/// A row whose node 1 begins a large block this long after a small one of another flow.
fn beside_small(wait: Duration) -> Row {
    let mut row = Row::new(4, config(), Harm::default(), 1);
    row.push(flow(2), 0, 4, 4_000, true);
    row.push(flow(1), 0, 4, 7_000, false);
    row.run_until(row.now + wait);
    row.first_frames.clear();
    row.push(flow(1), 1, 4, 210_000, true);
    row
}

#[test]
fn small_blocks_go_in_a_gap_and_do_not_prolong_it() {
    let mut row = beside_small(Duration::from_secs(1));
    let until = |row: &mut Row| row.hop(1).gaps.poll_timeout();
    while until(&mut row).is_none() {
        row.run_until(row.now + Duration::from_millis(1));
    }
    let end = until(&mut row);
    assert_eq!(row.first_frames.len(), 48);
    row.push(flow(3), 0, 4, 4_000, true);
    row.run_until(row.now + Duration::from_millis(20));
    assert_eq!(until(&mut row), end, "it is not over, and no longer than it was");
    assert_eq!(row.first_frames.len(), 48 + 3, "the frames of the small block");
}

#[test]
fn a_large_block_comes_however_many_small_ones_pass() {
    let mut row = beside_small(Duration::from_secs(1));
    for local in 3..503 {
        row.push(flow(local), 0, 4, 4_000, true);
        row.run_until(row.now + Duration::from_millis(10));
    }
    let large = BlockId { flow: flow(1), number: 1 };
    assert!(row.delivered.iter().any(|(id, _)| *id == large), "it is there after 5 s");
}

#[test]
fn there_is_no_gap_once_nobody_has_waited_for_a_while() {
    let mut row = beside_small(Duration::from_secs(11));
    row.run_until(row.now + Duration::from_secs(5));
    let longest = row.first_frames.windows(2).map(|pair| pair[1].since(pair[0])).max();
    assert!(longest.is_some_and(|longest| longest < Duration::from_millis(30)), "{longest:?}");
}

#[test]
fn a_node_leaves_the_air_alone_for_no_longer_than_it_has_used_it() {
    // 48 frames of a millisecond are over long before 200 ms, as at a high bit-rate before 40.
    let config = HopConfig { interactive_gap_ms: 200.0, block_bytes: Some(840_000), ..config() };
    let mut row = Row::new(4, config, Harm::default(), 1);
    row.push(flow(2), 0, 4, 4_000, true);
    row.push(flow(1), 0, 4, 7_000, false);
    row.run_until(row.now + Duration::from_secs(1));
    row.first_frames.clear();
    row.push(flow(1), 1, 4, 840_000, true);
    row.run_until(row.now + Duration::from_secs(5));
    let long = |pair: &&[Instant]| pair[1].since(pair[0]) >= Duration::from_millis(200);
    let gaps: Vec<_> = row.first_frames.windows(2).filter(long).collect();
    assert_eq!(gaps.len(), 2, "600 frames take 600 ms");
    for pair in gaps.windows(2) {
        assert!(pair[1][0].since(pair[0][1]) >= Duration::from_millis(180), "{pair:?}");
    }
}

#[test]
fn a_small_block_goes_in_a_gap_before_a_large_one_of_its_own_flow() {
    let mut row = beside_small(Duration::from_secs(1));
    while row.hop(1).gaps.poll_timeout().is_none() {
        row.run_until(row.now + Duration::from_millis(1));
    }
    assert_eq!(row.first_frames.len(), 48);
    row.push(flow(1), 2, 4, 4_000, true);
    row.run_until(row.now + Duration::from_millis(20));
    assert_eq!(row.first_frames.len(), 48 + 3, "only the frames of the small block");
    row.run_until(row.now + Duration::from_secs(5));
    assert!([1, 2].iter().all(|number| row.arrived.iter().any(|one| one.id.number == *number)));
}
