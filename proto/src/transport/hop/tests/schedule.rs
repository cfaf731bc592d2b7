//! Links that say when radios send, and that repair losses.

use super::*;

/// A row of nodes over links with a schedule.
fn row(nodes: u16, block_bytes: u32, below: Below) -> Row {
    let config = HopConfig { block_bytes: Some(block_bytes), ..HopConfig::default() };
    let mut row = Row::new(nodes, config, Harm::default(), 1);
    row.nodes.iter_mut().for_each(|node| node.set_below(below.clone()));
    row
}

const SCHEDULE: Below = Below {
    repairs: false,
    has_schedule: true,
    frames: BTreeMap::new(),
    in_cycle: BTreeMap::new(),
    wires: BTreeMap::new(),
    airs: BTreeMap::new(),
    cycle: None,
};

/// A schedule under which the radio holds so many frames.
fn holding(frames: u32) -> Below {
    Below { frames: [(RadioId(0), frames)].into(), ..SCHEDULE }
}

/// How many frames of a block of 100 go to the radio at once.
fn at_once(below: Below) -> usize {
    let mut row = row(2, 140_000, below);
    row.push(flow(1), 0, 2, 140_000, true);
    row.run_until(row.now + Duration::from_secs(5));
    row.assert_delivered(flow(1), &[140_000]);
    let first = row.first_frames[0];
    row.first_frames.iter().filter(|at| **at == first).count()
}

#[test]
fn a_link_has_two_turns_of_frames_or_what_it_carries_until_it_tells_their_end() {
    assert_eq!(at_once(Below::default()), 12);
    assert_eq!(at_once(holding(40)), 40);
    assert_eq!(at_once(holding(3)), 12, "two turns in any case");
}

#[test]
fn a_link_that_repairs_losses_is_left_to() {
    for repairs in [false, true] {
        let mut row = row(2, 140_000, Below { repairs, ..SCHEDULE });
        row.push(flow(1), 0, 2, 140_000, true);
        row.run_until(row.now + Duration::from_secs(5));
        row.assert_delivered(flow(1), &[140_000]);
        assert_eq!(row.acknowledged, if repairs { 100 } else { 0 });
    }
}

#[test]
fn where_radios_take_turns_a_relay_passes_on_parts_and_takes_beside_what_a_cycle_carries() {
    let carrying = |frames| Below { in_cycle: [(RadioId(0), frames)].into(), ..SCHEDULE };
    // For both neighbours, before the first frame and after the last, in blocks of 100.
    for (below, parts, held) in
        [(Below::default(), 0, 1), (carrying(1), 30, 2), (carrying(70), 30, 4)]
    {
        let mut row = row(3, 140_000, below);
        (0..6).for_each(|number| row.push(flow(1), number, 3, 140_000, number == 5));
        while row.count(2, "frames_received") < 60 {
            row.run_until(row.now + Duration::from_millis(1));
        }
        let passed_on = row.count(3, "frames_received");
        assert!((parts..parts + 40).contains(&passed_on), "{passed_on} frames");
        // The way on is gone: no more blocks leave this node.
        row.cut = Some([NodeId(2), NodeId(3)]);
        row.run_until(row.now + Duration::from_secs(1));
        assert_eq!(row.hop(2).open_of(flow(1)).count(), held);
    }
}

#[test]
fn where_radios_take_turns_several_neighbours_are_heard_at_once() {
    let of_3 = FlowKey { source: NodeId(3), ..flow(1) };
    let withheld = |below: Below, memory_bytes: u64| {
        let config = HopConfig { block_bytes: Some(140_000), memory_bytes, ..HopConfig::default() };
        let mut row = Row::new(3, config, Harm::default(), 1);
        row.nodes.iter_mut().for_each(|node| node.set_below(below.clone()));
        row.push(flow(1), 0, 2, 140_000, true);
        row.push(of_3, 0, 2, 140_000, true);
        row.run_until(row.now + Duration::from_secs(5));
        row.assert_delivered(flow(1), &[140_000]);
        row.assert_delivered(of_3, &[140_000]);
        row.count(2, "withheld")
    };
    assert!(withheld(Below::default(), 64 << 20) > 0, "on one air one after the other");
    assert_eq!(withheld(SCHEDULE, 64 << 20), 0);
    assert!(withheld(SCHEDULE, 1 << 20) > 0, "two of them are more than a fourth of the memory");
}
