//! Laws that every link keeps, over a lossy pipe with arbitrary settings: packets come at most
//! once and in the order of their flow, each ends once, what there was room for is not dropped,
//! and a deadline is never behind. `Pair` asserts the last three at every step.

use farhop_proto::base::{AckPolicy, Duration, Instant, NodeId, Seed, TxOptions};
use farhop_proto::link::Link;
use farhop_proto::link::blindfec::{BlindFec, BlindFecConfig};
use farhop_proto::link::harq::{ArqConfig, Harq, HarqConfig, Resend};
use farhop_proto::link::plain::{Plain, PlainConfig};
use farhop_proto::link::two_p::{TwoP, TwoPConfig};
use farhop_proto::link::wild::{InOrder, Recovery, Retries, Wild, WildConfig};
use farhop_testkit::{Clock, Pair, PairConfig, Source};
use proptest::prelude::*;

fn secs(seconds: f64) -> Instant {
    Instant::ZERO + Duration::from_secs_f64(seconds)
}

#[derive(Clone, Debug)]
struct Pipe {
    loss: f64,
    delay_us: u64,
    duplicate: f64,
    reorder: f64,
    late_us: u64,
    drift_ppb: [i64; 2],
    offset_ns: u64,
    chip_frames: usize,
    seed: u64,
}

impl Pipe {
    fn config(&self) -> PairConfig {
        let clock = |end: usize| Clock {
            offset_ns: self.offset_ns * end as u64,
            drift_ppb: self.drift_ppb[end],
        };
        PairConfig {
            delay: Duration::from_micros(self.delay_us),
            clocks: [clock(0), clock(1)],
            duplicate: self.duplicate,
            reorder: self.reorder,
            wake_late: Duration::from_micros(self.late_us),
            chip_frames: self.chip_frames,
            seed: Seed(self.seed),
            ..PairConfig::with_loss(self.loss)
        }
    }
}

fn pipes() -> impl Strategy<Value = Pipe> {
    let drift = -50_000_i64..=50_000;
    (
        (0.0..0.4, 0_u64..600, 0.0..0.2, 0.0..0.1, 0_u64..1_500),
        ([drift.clone(), drift], 0_u64..2_000_000_000, 1_usize..4, any::<u64>()),
    )
        .prop_map(|((loss, delay_us, duplicate, reorder, late_us), rest)| {
            let (drift_ppb, offset_ns, chip_frames, seed) = rest;
            Pipe {
                loss,
                delay_us,
                duplicate,
                reorder,
                late_us,
                drift_ppb,
                offset_ns,
                chip_frames,
                seed,
            }
        })
}

fn sources() -> impl Strategy<Value = Vec<Source>> {
    let source = (0_usize..2, 1_u16..4, 20_usize..1_500, 0_u64..8).prop_map(
        |(end, flow, bytes, every_ms)| Source {
            bytes,
            every: Duration::from_millis(every_ms),
            from: secs(0.2),
            ..Source::saturated(end, flow, secs(1.5))
        },
    );
    proptest::collection::vec(source, 1..5)
}

fn recoveries() -> impl Strategy<Value = Recovery> {
    prop_oneof![
        Just(Recovery::Fec),
        Just(Recovery::Arq),
        Just(Recovery::BurstFec),
        Just(Recovery::FecOnRetransmit),
    ]
}

/// Runs the sources, then lets the links finish. Something has to come.
fn run<L: Link>(mut pair: Pair<L>, sources: &[Source]) -> Pair<L> {
    for source in sources {
        pair.add(*source);
    }
    pair.run_until(secs(1.5));
    // The longest queue is three flows of 64 packets, each repeated up to ten times.
    pair.run_for(8.0);
    pair.ledger.assert_at_most_once();
    // Sources of one flow count more than once, on both sides of the comparison.
    let total = |count: &dyn Fn(&Source) -> usize| sources.iter().map(count).sum::<usize>();
    let came = total(&|source| pair.ledger.received(source.end, source.flow).len());
    let sent = total(&|source| pair.ledger.sent(source.end, source.flow));
    assert!(sent > 100 && came > sent / 5, "{came} of {sent} packets came");
    pair
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(24)
    })]

    #[test]
    fn wild_keeps_the_laws(
        pipe in pipes(),
        sources in sources(),
        recovery in recoveries(),
        slot_ms in 8.0..40.0_f64,
        retries in 0_u8..=11,
        block_packets in 1_u8..=32,
    ) {
        let defaults = WildConfig::default();
        let retries = if retries > 10 { Retries::Auto } else { Retries::Fixed(retries) };
        let config = WildConfig { recovery, slot_ms, retries, block_packets, ..defaults };
        let pair = Pair::build(pipe.config(), |node, radio, peer| {
            Wild::build(&config, node, std::slice::from_ref(radio), &[peer], Seed(pipe.seed))
        });
        let pair = run(pair, &sources);
        if pair.status(0).counters["impatient"] + pair.status(1).counters["impatient"] == 0 {
            pair.ledger.assert_in_order();
        }
        prop_assert_eq!(pair.ledger.open(), 0, "every packet ended");
    }

    #[test]
    fn wild_without_order_still_brings_nothing_twice(pipe in pipes(), sources in sources()) {
        let config = WildConfig { in_order: InOrder::None, ..WildConfig::default() };
        let pair = Pair::build(pipe.config(), |node, radio, peer| {
            Wild::build(&config, node, std::slice::from_ref(radio), &[peer], Seed(pipe.seed))
        });
        prop_assert_eq!(run(pair, &sources).ledger.open(), 0, "every packet ended");
    }

    #[test]
    fn two_p_keeps_the_laws(pipe in pipes(), sources in sources(), phase_ms in 8.0..40.0_f64) {
        // Nothing numbers its frames: what the air doubles comes twice.
        let pipe = Pipe { duplicate: 0.0, reorder: 0.0, ..pipe };
        let config = TwoPConfig { phase_ms, ..TwoPConfig::default() };
        let pair = Pair::build(pipe.config(), |node, radio, peer| {
            TwoP::build(&config, node, std::slice::from_ref(radio), &[peer], Seed(pipe.seed))
        });
        let pair = run(pair, &sources);
        pair.ledger.assert_in_order();
        prop_assert_eq!(pair.ledger.open(), 0, "every packet ended");
    }

    #[test]
    fn blindfec_keeps_the_laws(
        pipe in pipes(),
        sources in sources(),
        data_packets in 1_u8..=32,
        parity in 0_u8..=8,
    ) {
        // Carrier sense is not modelled here.
        let all_packets = data_packets + parity;
        let config = BlindFecConfig { data_packets, all_packets, ..BlindFecConfig::default() };
        let config_of_pair = PairConfig { half_duplex: false, ..pipe.config() };
        let pair = Pair::build(config_of_pair, |node, radio, _| {
            BlindFec::build(&config, node, std::slice::from_ref(radio), Seed(pipe.seed))
        });
        let pair = run(pair, &sources);
        pair.ledger.assert_in_order();
        prop_assert_eq!(pair.ledger.open(), 0, "every packet ended");
    }

    #[test]
    fn harq_keeps_the_laws(
        pipe in pipes(),
        sources in sources(),
        units in 2_u8..=20,
        attempts in 1_u8..=4,
    ) {
        // Carrier sense is not modelled here.
        let config = HarqConfig { units: Some(units), attempts, ..HarqConfig::default() };
        let config_of_pair = PairConfig { half_duplex: false, ..pipe.config() };
        let pair = Pair::build(config_of_pair, |node, radio, _| {
            Harq::build(&config, node, std::slice::from_ref(radio), Seed(pipe.seed))
        });
        let pair = run(pair, &sources);
        pair.ledger.assert_in_order();
        prop_assert_eq!(pair.ledger.open(), 0, "every packet ended");
    }

    #[test]
    fn arq_keeps_the_laws(pipe in pipes(), sources in sources(), units in 1_u8..=20, all: bool) {
        let resend = if all { Resend::All } else { Resend::Missing };
        let config = ArqConfig { units: Some(units), resend, ..ArqConfig::default() };
        let config_of_pair = PairConfig { half_duplex: false, ..pipe.config() };
        let pair = Pair::build(config_of_pair, |node, radio, _| {
            Harq::build_arq(&config, node, std::slice::from_ref(radio), Seed(pipe.seed))
        });
        let pair = run(pair, &sources);
        pair.ledger.assert_in_order();
        prop_assert_eq!(pair.ledger.open(), 0, "every packet ended");
    }

    #[test]
    fn plain_keeps_the_laws(pipe in pipes(), sources in sources(), queue_packets in 1_usize..60) {
        // The chip drops duplicates and does not swap frames; carrier sense is not modelled here.
        let pipe = Pipe { duplicate: 0.0, reorder: 0.0, ..pipe };
        let config = PairConfig { half_duplex: false, ..pipe.config() };
        let pair = Pair::build(config, |node, radio, _| {
            let config = PlainConfig { queue_packets, ..PlainConfig::default() };
            Plain::build(&config, node, std::slice::from_ref(radio), Seed(1))
        });
        let pair = run(pair, &sources);
        pair.ledger.assert_in_order();
        prop_assert_eq!(pair.ledger.open(), 0, "every packet ended");
    }
}

#[test]
fn plain_counts_what_the_chip_holds_as_queued() {
    let pair = Pair::build(PairConfig::default(), |node, radio, _| {
        let config = PlainConfig { queue_packets: 5, ..PlainConfig::default() };
        Plain::build(&config, node, std::slice::from_ref(radio), Seed(1))
    });
    let mut pair = pair;
    pair.add(Source::saturated(0, 1, secs(1.0)));
    pair.run_until(secs(0.5));
    // One more than the queue has been taken only when one has ended.
    let under_way = pair.ledger.open();
    assert_eq!(under_way, 5);
    assert_eq!(pair.status(0).neighbours[0].node, NodeId(2));
}

#[test]
fn plain_tells_the_loss_of_what_was_to_be_acknowledged() {
    let config = PairConfig { half_duplex: false, ..PairConfig::with_loss(0.3) };
    let mut pair = Pair::build(config, |node, radio, _| {
        Plain::build(&PlainConfig::default(), node, std::slice::from_ref(radio), Seed(1))
    });
    let options = TxOptions { ack: AckPolicy::NoAck, attempts: Some(1), ..TxOptions::default() };
    pair.add(Source { options, ..Source::saturated(0, 1, secs(1.0)) });
    pair.run_until(secs(2.0));
    let without = pair.status(0).neighbours[0].clone();
    assert_eq!(without.loss, None, "nobody knows what came");
    assert!(without.sent_bytes > 100_000, "{} bytes", without.sent_bytes);
    pair.add(Source { from: secs(2.0), ..Source::saturated(0, 2, secs(5.0)) });
    pair.run_until(secs(6.0));
    let loss = pair.status(0).neighbours[0].loss.expect("it is known now");
    assert!((loss - 0.3).abs() < 0.05, "{loss}");
}
