//! A tree of long links on one channel: every link finds step, and no frame comes to a node that
//! sends.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::Bytes;
use farhop_proto::base::{Duration, Frame, Instant, NodeId, Phy, Preamble, RadioSpec, Rng, Seed};
use farhop_proto::link::wild::{Wild, WildConfig};
use farhop_proto::link::{NeighbourStatus, PeerSpec};
use farhop_testkit::{Clock, Network, Span};

const NODES: usize = 24;

fn secs(seconds: f64) -> Instant {
    Instant::ZERO + Duration::from_secs_f64(seconds)
}

fn radio() -> RadioSpec {
    RadioSpec::of(Phy { preamble: Preamble::Short, ..Phy::default() })
}

/// A tree of 24 nodes with links of up to 90 km, clocks that are up to 50 ppm wrong, and one in
/// twenty of the frames lost that bring a stamp.
fn tree(seed: u64) -> Network<Wild> {
    let mut rng = Seed(seed).stream("tree");
    let spans: Vec<Span> = (1..NODES)
        .map(|node| {
            // Not all on one: whoever comes may hang on one of the last six.
            let above = node - 1 - rng.below(node.min(6) as u64) as usize;
            let delay = Duration::from_micros(3 + rng.below(300));
            Span { ends: [above, node], delay }
        })
        .collect();
    let clocks: Vec<Clock> = (0..NODES)
        .map(|_| Clock {
            offset_ns: rng.below(3_000_000_000),
            drift_ppb: rng.below(100_000) as i64 - 50_000,
        })
        .collect();
    let lives = Cell::new(0);
    let make = move |node: NodeId, radios: &[RadioSpec], peers: &[PeerSpec]| {
        lives.set(lives.get() + 1);
        let config = WildConfig { guard_ms: 1.0, ..WildConfig::default() };
        Wild::build(&config, node, radios, peers, Seed(seed * 1_000 + lives.get()))
    };
    let has_stamp = |frame: &Frame| frame.payload[1] & 1 != 0;
    let loss = move |rng: &mut Rng, frame: &Frame| has_stamp(frame) && rng.chance(0.05);
    Network::build(radio(), &clocks, &spans, Box::new(make), Box::new(loss))
}

/// When all links were in step, in seconds after `from`; checked every 100 ms for `most` seconds.
fn in_step_after(network: &mut Network<Wild>, from: f64, most: f64) -> f64 {
    for tenth in 1..=(most * 10.0) as u32 {
        let after = f64::from(tenth) / 10.0;
        network.run_until(secs(from + after));
        if network.is_in_step() {
            return after;
        }
    }
    panic!("not in step {most} s after {from} s");
}

#[test]
fn a_tree_of_24_nodes_finds_one_step_and_no_slots_overlap() {
    for seed in 1..=3 {
        let mut network = tree(seed);
        let found = in_step_after(&mut network, 0.0, 8.0);
        network.run_until(secs(found + 1.0));
        let before = (network.overlaps.len(), network.received);
        network.run_until(secs(found + 3.0));
        let (overlaps, received) = (network.overlaps.len() - before.0, network.received - before.1);
        println!("seed {seed}: in step after {found} s, {received} frames, {overlaps} overlaps");
        assert!(network.is_in_step() && received > 15_000, "{received}");
        assert_eq!(overlaps, 0, "seed {seed}: {:?}", &network.overlaps[before.0..]);
    }
}

#[test]
fn any_node_of_a_tree_may_restart() {
    let mut network = tree(5);
    in_step_after(&mut network, 0.0, 8.0);
    let mut at = 10.0;
    network.run_until(secs(at));
    for node in (0..NODES).step_by(5) {
        let before = network.overlaps.len();
        network.restart(node);
        let found = in_step_after(&mut network, at, 3.0);
        network.run_until(secs(at + found + 1.0));
        let disturbed = network.overlaps.len() - before;
        let calm = network.overlaps.len();
        at += found + 2.0;
        network.run_until(secs(at));
        println!("node {node}: back after {found} s, {disturbed} overlaps meanwhile");
        assert!(network.is_in_step(), "after the restart of {node}");
        assert_eq!(network.overlaps.len(), calm, "after the restart of {node}");
    }
}

#[test]
fn who_was_refused_is_heard_again_though_it_has_something_to_say_in_each_slot() {
    let span = |from| Span { ends: [from, from + 1], delay: Duration::from_micros(100) };
    let heard = Rc::new(RefCell::new(Bytes::new()));
    let beacon = Rc::clone(&heard);
    let make = |node: NodeId, radios: &[RadioSpec], peers: &[PeerSpec]| {
        Wild::build(&WildConfig::default(), node, radios, peers, Seed(7))
    };
    let loss = move |_: &mut Rng, frame: &Frame| {
        if frame.to.is_none() {
            *heard.borrow_mut() = frame.payload.clone();
        }
        false
    };
    let clocks = [Clock::default(); 3];
    let mut network =
        Network::build(radio(), &clocks, &[span(0), span(1)], Box::new(make), Box::new(loss));
    let found = in_step_after(&mut network, 0.0, 8.0);
    network.run_until(secs(found + 1.0));
    // The last bytes of a beacon are the length of its node's slots.
    let mut forged = beacon.borrow().to_vec();
    let length = forged.len();
    forged[length - 4..].copy_from_slice(&30_000_u32.to_be_bytes());
    network.inject(1, 2, forged.into());
    let refused = |network: &Network<Wild>| {
        let of_it = |peer: &NeighbourStatus| peer.node == NodeId(3);
        let neighbours = network.status(1).neighbours;
        neighbours.into_iter().find(of_it).expect("a neighbour").refused
    };
    assert_eq!(refused(&network).as_deref(), Some("slot-length"));
    network.run_until(secs(found + 8.0));
    assert_eq!(refused(&network), None);
    let before = network.packets.clone();
    network.run_until(secs(found + 9.0));
    assert!(network.is_in_step());
    let came: Vec<u64> = (0..3).map(|node| network.packets[node] - before[node]).collect();
    assert!(came.iter().all(|packets| *packets > 100), "{came:?}");
}
