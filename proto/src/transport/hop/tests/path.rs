//! Paths of unknown capacity.

use super::*;

/// Frames of a block of a megabyte.
const FRAMES: f64 = 749.0;

/// A row of nodes whose devices accept everything at once. Paths between them let a frame through
/// every `each_us`, hold `queue` of them, and are `wire_ms` long.
fn row(nodes: u16, (each_us, queue): (u64, u64), wire_ms: u64, loss: f64) -> Row {
    let narrow = Some(Narrow { each: Duration::from_micros(each_us), queue });
    let harm = Harm { loss, wire_ms: Some(wire_ms), narrow, ..Harm::default() };
    let mut row = Row::new(nodes, HopConfig::default(), harm, 1);
    let open = Wire { frame: None, round_trip: Duration::ZERO };
    let below =
        Below { wires: [(RadioId(0), open)].into(), airs: BTreeMap::new(), ..Below::default() };
    for node in &mut row.nodes {
        node.set_below(below.clone());
        node.set_airs((1..=nodes).map(|other| (NodeId(other), other.into())).collect());
    }
    row
}

/// The share of the path's capacity that a file of so many blocks gets, and the share of its frames
/// that the path drops.
fn shares(row: &mut Row, blocks: usize) -> (f64, f64) {
    let (to, lengths) = (row.nodes.len() as u16, vec![1 << 20; blocks]);
    assert!(row.send(flow(1), to, &lengths, Duration::from_secs(600)));
    row.assert_delivered(flow(1), &lengths);
    let frame = row.harm.narrow.expect("it is narrow").each.as_secs_f64();
    let least = blocks as f64 * FRAMES * frame / (1.0 - row.harm.loss);
    let sent: u64 = (1..to).map(|node| row.count(node, "frames_sent")).sum();
    (least / row.now.since(Instant::ZERO).as_secs_f64(), row.drowned as f64 / sent as f64)
}

#[test]
fn a_path_is_filled_and_not_flooded() {
    // 20 Mb/s and 200 Mb/s, there and back in 20 ms and in 100 ms.
    let cases = [(2, (555, 70), 10), (2, (555, 300), 50), (3, (555, 70), 10), (2, (56, 1_000), 10)];
    for (nodes, narrow, wire_ms) in cases {
        let case = format!("{nodes} nodes, {narrow:?}, {wire_ms} ms");
        let blocks = if narrow.0 < 100 { 100 } else { 20 };
        let (got, drowned) = shares(&mut row(nodes, narrow, wire_ms, 0.0), blocks);
        assert!(got > 0.75, "{case}: {got:.2} of it");
        // Sent all at once, three of four frames find no room.
        assert!(drowned < 0.3, "{case}: {drowned:.2} of the frames find no room");
    }
}

#[test]
fn what_is_lost_by_chance_is_not_taken_for_congestion() {
    for (loss, least) in [(0.2, 0.75), (0.5, 0.48)] {
        let of_seed = |seed| {
            let mut row = row(2, (555, 70), 10, loss);
            row.rng = Seed(seed).stream("air");
            shares(&mut row, 12)
        };
        let all: Vec<(f64, f64)> = (1..=8).map(of_seed).collect();
        let mean = |of: fn(&(f64, f64)) -> f64| all.iter().map(of).sum::<f64>() / 8.0;
        let (got, drowned) = (mean(|one| one.0), mean(|one| one.1));
        assert!(got > least, "{got:.2} of what {loss} leaves: {all:?}");
        assert!(drowned < 0.25, "{loss}: {drowned:.2} of the frames find no room: {all:?}");
    }
}

#[test]
fn an_acknowledgement_that_is_lost_on_its_way_is_not_missed() {
    let mut row = row(3, (56, 1_000), 20, 0.2);
    let lengths = vec![1 << 20; 100];
    assert!(row.send(flow(1), 3, &lengths, Duration::from_secs(60)));
    row.assert_delivered(flow(1), &lengths);
    let all = row.now.since(Instant::ZERO);
    // One of three acknowledgements is lost; the next one covers it.
    let asked = row.count(1, "virtual_requests");
    assert!(asked < 20 && all < Duration::from_secs(15), "{asked} questions, {all:?}");
}

#[test]
fn a_path_that_carries_less_for_a_time_is_filled_again_after_it() {
    let mut row = row(2, (55, 200), 5, 0.0);
    let lengths = vec![1 << 20; 400];
    let narrow = row.harm.narrow.expect("it is narrow");
    row.send(flow(1), 2, &lengths, Duration::from_secs(3));
    let before = row.delivered.len();
    // A twentieth of it: a megabyte in 0.8 s.
    row.harm.narrow = Some(Narrow { each: narrow.each * 20, ..narrow });
    row.send_on(&lengths, 2, Duration::from_secs(16));
    let during = row.delivered.len() - before;
    assert!((13..=20).contains(&during), "{during} blocks in 16 s");
    row.harm.narrow = Some(narrow);
    row.send_on(&lengths, 2, Duration::from_secs(4));
    let after = row.delivered.len() - before - during;
    assert!(
        after > before / 2,
        "{before} blocks in the 3 s before and {after} in the 4 s after it"
    );
}

#[test]
fn a_path_over_which_no_frame_comes_is_not_sent_more_and_more() {
    // As behind a tunnel for shorter datagrams: requests and answers come.
    let mut row = row(2, (555, 70), 10, 0.0);
    row.longest_that_comes = Some(1_000);
    row.send(flow(1), 2, &[1 << 20; 4], Duration::from_secs(5));
    let at_first = row.count(1, "frames_sent");
    row.send_on(&[1 << 20; 4], 2, Duration::from_secs(60));
    let rate = (row.count(1, "frames_sent") - at_first) / 60;
    assert!(rate < 1_000, "{rate} frames a second, of which the path carries 1,800");
    assert!(row.delivered.is_empty());
}
