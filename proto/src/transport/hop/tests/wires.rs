//! Wires: nothing is acknowledged below, and answers may take long.

use super::*;

/// A row of nodes. The later ones are reached over wires of unknown length that carry a frame in a
/// millisecond.
fn row(nodes: u16, loss: f64, wire_ms: u64) -> Row {
    let config = HopConfig { block_bytes: Some(140_000), ..HopConfig::default() };
    let harm = Harm { loss, wire_ms: Some(wire_ms), ..Harm::default() };
    let mut row = Row::new(nodes, config, harm, 1);
    let wire = Wire { frame: Some(Duration::from_millis(1)), round_trip: Duration::ZERO };
    let wires =
        Below { wires: [(RadioId(0), wire)].into(), airs: BTreeMap::new(), ..Below::default() };
    for node in &mut row.nodes {
        node.set_below(wires.clone());
        node.set_airs((1..=nodes).map(|other| (NodeId(other), other.into())).collect());
    }
    row
}

/// How long a file of so many blocks of 100 frames takes, in seconds.
fn seconds(row: &mut Row, to: u16, blocks: usize) -> f64 {
    let lengths = vec![140_000; blocks];
    assert!(row.send(flow(1), to, &lengths, Duration::from_secs(600)));
    row.assert_delivered(flow(1), &lengths);
    row.now.since(Instant::ZERO).as_secs_f64()
}

#[test]
fn a_wire_whose_length_nobody_has_told_is_filled() {
    // Twice 200 ms pass for each block of 100 ms.
    for nodes in [2, 3] {
        let took = seconds(&mut row(nodes, 0.0, 100), nodes, 100);
        assert!((10.0..14.0).contains(&took), "100 blocks over {nodes} nodes in {took} s");
    }
}

#[test]
fn what_a_relay_has_passed_on_does_not_come_again_when_its_acknowledgement_is_lost() {
    let mut row = row(4, 0.3, 0);
    seconds(&mut row, 4, 40);
    assert!(row.count(1, "virtual_requests") > 0, "some are lost");
    for relay in [2, 3] {
        assert_eq!(row.count(relay, "frames_received"), 4_000, "relay {relay}");
    }
}

#[test]
fn an_acknowledgement_of_the_destination_that_is_lost_is_asked_for_once_it_should_be_here() {
    const FILES: u32 = 40;
    let mut row = row(3, 0.2, 5);
    for local in 1..=FILES {
        assert!(row.send(flow(local), 3, &[900], Duration::from_secs(60)));
    }
    // A third of the acknowledgements is lost. By default, a source waits 5 s for them.
    let mean = row.now.since(Instant::ZERO).as_secs_f64() / f64::from(FILES);
    assert!(mean < 0.6, "{mean} s a file");
}
