//! Stories of links of units.

use bytes::Bytes;
use farhop_proto::base::{Duration, EtherType, Instant, Seed};
use farhop_proto::link::harq::{Harq, HarqConfig};
use farhop_testkit::{Pair, PairConfig, Source};

fn secs(seconds: f64) -> Instant {
    Instant::ZERO + Duration::from_secs_f64(seconds)
}

fn pair(loss: f64) -> Pair<Harq> {
    // Carrier sense is not modelled here.
    let pipe = PairConfig { half_duplex: false, ..PairConfig::with_loss(loss) };
    let config = HarqConfig { attempts: 6, ..HarqConfig::default() };
    Pair::build(pipe, |node, radio, _| {
        Harq::build(&config, node, std::slice::from_ref(radio), Seed(node.0.into()))
    })
}

#[test]
fn a_packet_by_itself_is_repaired_without_another_behind_it() {
    let mut pair = pair(0.3);
    let every = Duration::from_millis(500);
    pair.add(Source { bytes: 600, every, ..Source::saturated(0, 1, secs(20.0)) });
    pair.run_until(secs(23.0));
    let (came, sent) = (pair.ledger.received(0, 1).len(), pair.ledger.sent(0, 1));
    assert!(came == sent && sent >= 39, "{came} of {sent}");
    pair.ledger.assert_in_order();
    let counters = pair.status(0).counters;
    assert!(counters["probes_sent"] > 0 && counters["packets_failed"] == 0, "{counters:?}");
}

#[test]
fn a_neighbour_that_falls_silent_is_given_up_and_met_again() {
    let mut pair = pair(0.1);
    pair.add(Source { bytes: 600, ..Source::saturated(0, 1, secs(30.0)) });
    pair.run_until(secs(2.0));
    assert!(pair.status(0).neighbours[0].up);
    pair.set_silent(1, true);
    pair.run_until(secs(14.0));
    let status = pair.status(0);
    assert!(!status.neighbours[0].up && status.counters["packets_failed"] > 0);
    let before = pair.ledger.received(0, 1).len();
    pair.set_silent(1, false);
    pair.run_until(secs(30.0));
    assert!(pair.status(0).neighbours[0].up);
    assert!(pair.ledger.received(0, 1).len() > 2 * before);
    pair.ledger.assert_in_order();
    pair.ledger.assert_at_most_once();
}

#[test]
fn a_node_that_restarts_is_understood_at_once() {
    let mut pair = pair(0.1);
    pair.add(Source { bytes: 600, ..Source::saturated(0, 1, secs(9.0)) });
    pair.add(Source { bytes: 600, ..Source::saturated(1, 2, secs(9.0)) });
    pair.run_until(secs(3.0));
    let radio = PairConfig::default().radio;
    let config = HarqConfig { attempts: 6, ..HarqConfig::default() };
    let new = Harq::build(&config, farhop_proto::base::NodeId(2), &[radio], Seed(77));
    pair.replace(1, new);
    let before = [(0, 1), (1, 2)].map(|(end, flow)| pair.ledger.received(end, flow).len());
    pair.run_until(secs(9.0));
    let after = [(0, 1), (1, 2)].map(|(end, flow)| pair.ledger.received(end, flow).len());
    for (before, after) in before.into_iter().zip(after) {
        assert!(after > 11 * before / 4, "{before} in 3 s, {after} in 9 s");
    }
}

#[test]
fn a_neighbour_with_another_link_is_named_and_not_up() {
    let mut pair = pair(0.0);
    pair.add(Source { bytes: 600, from: secs(2.0), ..Source::saturated(0, 1, secs(3.0)) });
    pair.run_until(secs(1.0));
    pair.inject_as(1, EtherType::FARHOP, Bytes::from_static(&[0x20; 40]));
    let neighbour = pair.status(1).neighbours[0].clone();
    assert_eq!((neighbour.refused.as_deref(), neighbour.up), (Some("link-protocol"), false));
    pair.run_until(secs(3.0));
    let neighbour = pair.status(1).neighbours[0].clone();
    assert_eq!((neighbour.refused, neighbour.up), (None, true));
}
