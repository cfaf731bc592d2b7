//! The wild link over a lossy pipe: what `wildnet.md` 13 asks for, as short stories.

use farhop_proto::base::{Duration, Instant, NodeId, PacketOutcome, RadioSpec, Seed, TxOptions};
use farhop_proto::link::wild::{Recovery, Wild, WildConfig};
use farhop_proto::link::{Link, PeerSpec};
use farhop_testkit::{Clock, Pair, PairConfig, Source};

fn secs(seconds: f64) -> Instant {
    Instant::ZERO + Duration::from_secs_f64(seconds)
}

fn link(config: &WildConfig, node: NodeId, radio: &RadioSpec, peer: PeerSpec) -> Wild {
    Wild::build(config, node, std::slice::from_ref(radio), &[peer], Seed(7))
}

fn pair(config: WildConfig, pipe: PairConfig) -> Pair<Wild> {
    Pair::build(pipe, |node, radio, peer| link(&config, node, radio, peer))
}

fn counter(pair: &Pair<Wild>, end: usize, name: &str) -> u64 {
    pair.status(end).counters[name]
}

/// Both directions saturated for `seconds`; Mb/s of payload, each.
fn saturate(pair: &mut Pair<Wild>, seconds: f64) -> [f64; 2] {
    for end in [0, 1] {
        pair.add(Source::saturated(end, 1, secs(seconds)));
    }
    pair.run_until(secs(seconds));
    [0, 1].map(|end| pair.ledger.received(end, 1).len() as f64 * 12_000.0 / seconds / 1e6)
}

#[test]
fn opposing_flows_share_the_air_without_collision() {
    let mut pair = pair(WildConfig::default(), PairConfig::default());
    let rates = saturate(&mut pair, 10.0);
    pair.ledger.assert_at_most_once();
    pair.ledger.assert_in_order();
    assert!(rates.iter().all(|rate| *rate > 3.5), "{rates:?} Mb/s");
    assert!(pair.overlaps < 3, "{} frames overlapped", pair.overlaps);
    println!("{rates:?} {:#?}", pair.status(0));
}
