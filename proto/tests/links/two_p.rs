//! Stories of 2P: two ends over a pipe that loses what it is told to.

use bytes::Bytes;
use farhop_proto::base::{Duration, EtherType, Instant, Seed};
use farhop_proto::link::two_p::{TwoP, TwoPConfig};
use farhop_testkit::{Loss, Pair, PairConfig, Source};

fn secs(seconds: f64) -> Instant {
    Instant::ZERO + Duration::from_secs_f64(seconds)
}

fn pair(loss: Loss) -> Pair<TwoP> {
    let config = PairConfig { loss, ..PairConfig::default() };
    Pair::build(config, |node, radio, peer| {
        let config = TwoPConfig::default();
        TwoP::build(&config, node, std::slice::from_ref(radio), &[peer], Seed(3))
    })
}

/// Phases of one end and time-outs of both, in ten seconds.
fn phases(loss: Loss) -> (f64, f64) {
    let mut pair = pair(loss);
    pair.add(Source::saturated(0, 1, secs(10.0)));
    pair.add(Source::saturated(1, 1, secs(10.0)));
    pair.run_until(secs(10.0));
    let count = |end: usize, name: &str| pair.status(end).counters[name] as f64;
    (count(0, "phases"), count(0, "timeouts") + count(1, "timeouts"))
}

#[test]
fn phases_alternate_and_last_as_long_as_they_should() {
    let (phases, timeouts) = phases(Box::new(|_, _| false));
    assert!((phases - 250.0).abs() < 5.0, "{phases} phases of 20 ms in turn in 10 s");
    assert!(timeouts <= 3.0, "{timeouts} time-outs beside those of the start");
}

#[test]
fn each_lost_marker_costs_five_milliseconds() {
    let p = 0.2;
    let is_marker = |protocol: EtherType| protocol == EtherType::FARHOP;
    let loss: Loss = Box::new(move |rng, on_air| is_marker(on_air.frame.protocol) && rng.chance(p));
    let (phases, timeouts) = phases(loss);
    // A cycle is two phases and, for each lost marker, the rest of the time-out.
    let idle_ms = 10_000.0 / (2.0 * phases) - 20.0;
    assert!((idle_ms - p * 5.0).abs() < 0.4, "{idle_ms} ms idle a phase");
    assert!((timeouts / (2.0 * phases) - p).abs() < 0.08, "{timeouts} time-outs");
}

/// Two ends begin at random, some of them nearly together, at distances at which their markers
/// come into each other's last frame, into the gap behind it, or cross. Sending in step would
/// lose all; a few phases at the start may be.
#[test]
fn ends_that_begin_together_come_apart() {
    for seed in 0..400 {
        let config = PairConfig {
            delay: Duration::from_micros(seed % 8 * 80),
            wake_late: Duration::from_micros(seed % 5 * 300),
            chip_frames: 1 + seed as usize % 3,
            seed: Seed(seed),
            ..PairConfig::default()
        };
        let mut pair = Pair::build(config, |node, radio, peer| {
            let config = TwoPConfig::default();
            TwoP::build(&config, node, std::slice::from_ref(radio), &[peer], Seed(seed))
        });
        for end in [0, 1] {
            pair.add(Source { from: secs(0.3), ..Source::saturated(end, 1, secs(1.5)) });
        }
        pair.run_until(secs(5.0));
        let came: usize = [0, 1].map(|end| pair.ledger.received(end, 1).len()).iter().sum();
        let sent: usize = [0, 1].map(|end| pair.ledger.sent(end, 1)).iter().sum();
        assert!(came * 10 > sent * 7, "seed {seed}: {came} of {sent} packets came");
    }
}

#[test]
fn a_neighbour_with_another_link_is_named_and_not_up() {
    let mut pair = pair(Box::new(|_, _| false));
    pair.set_silent(0, true);
    pair.run_until(secs(1.0));
    pair.inject_as(1, EtherType::FARHOP, Bytes::from_static(&[0x20; 40]));
    let neighbour = pair.status(1).neighbours[0].clone();
    assert_eq!((neighbour.refused.as_deref(), neighbour.up), (Some("link-protocol"), false));
    pair.set_silent(0, false);
    pair.run_for(0.2);
    let neighbour = pair.status(1).neighbours[0].clone();
    assert_eq!((neighbour.refused, neighbour.up), (None, true));
}
