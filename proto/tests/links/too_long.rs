//! A device that takes no long frames: what is too long for it is dropped, and the rest goes on.

use std::cell::Cell;
use std::rc::Rc;

use farhop_proto::base::{DropCause, Duration, Instant, NodeId, RadioSpec, Rng, Seed};
use farhop_proto::link::blindfec::{BlindFec, BlindFecConfig};
use farhop_proto::link::harq::{ArqConfig, Harq, HarqConfig};
use farhop_proto::link::plain::{Plain, PlainConfig};
use farhop_proto::link::two_p::{TwoP, TwoPConfig};
use farhop_proto::link::wild::{Recovery, Wild, WildConfig};
use farhop_proto::link::{Link, PeerSpec};
use farhop_proto::stack::LinkConfig;
use farhop_testkit::{OnAir, Pair, PairConfig, Source};

/// Payload of the longest frame that is taken, in bytes.
const LONGEST: usize = 400;

fn secs(seconds: f64) -> Instant {
    Instant::ZERO + Duration::from_secs_f64(seconds)
}

/// Sends three long packets among short ones. All short ones have to come, and soon, but for those
/// that rode with long ones.
fn drops_what_is_too_long<L: Link>(
    riders: usize,
    build: impl Fn(NodeId, &[RadioSpec], PeerSpec) -> L,
) -> Pair<L> {
    let config = PairConfig { longest: Some(LONGEST), half_duplex: false, ..PairConfig::default() };
    let mut pair =
        Pair::build(config, |node, radio, peer| build(node, std::slice::from_ref(radio), peer));
    let source = |flow, bytes, every_ms, until| Source {
        bytes,
        every: Duration::from_millis(every_ms),
        from: secs(1.0),
        ..Source::saturated(0, flow, secs(until))
    };
    pair.add(source(1, 1_400, 500, 2.4));
    pair.add(source(2, 100, 50, 3.0));
    pair.run_until(secs(3.5));
    let count = |flow| (pair.ledger.sent(0, flow), pair.ledger.received(0, flow).len());
    assert_eq!((count(1), count(2)), ((3, 0), (40, 40 - riders)));
    assert_eq!(pair.ledger.open(), 0, "every packet ended");
    let status = pair.status(0);
    assert_eq!(status.drops.get(&DropCause::TooLong), Some(&(3 + riders as u64)), "{status:?}");
    pair
}

/// The longest frame of full packets one way and short ones the other, with losses.
fn longest_seen<L: Link>(build: impl Fn(NodeId, &[RadioSpec], PeerSpec) -> L) -> usize {
    let seen = Rc::new(Cell::new(0));
    let note = Rc::clone(&seen);
    let loss = Box::new(move |rng: &mut Rng, on_air: &OnAir<'_>| {
        note.set(note.get().max(on_air.frame.payload.len()));
        rng.chance(0.2)
    });
    let config = PairConfig { loss, half_duplex: false, ..PairConfig::default() };
    let mut pair =
        Pair::build(config, |node, radio, peer| build(node, std::slice::from_ref(radio), peer));
    pair.add(Source::saturated(0, 1, secs(5.0)));
    pair.add(Source { bytes: 60, ..Source::saturated(0, 2, secs(5.0)) });
    pair.add(Source { bytes: 60, ..Source::saturated(1, 1, secs(5.0)) });
    pair.run_until(secs(6.0));
    seen.get()
}

#[test]
fn no_frame_is_longer_than_settings_say() {
    let radio = PairConfig::default().radio;
    let check = |config: LinkConfig, seen: usize, most_less: usize| {
        let longest = config.longest_frame(&radio, 1_500);
        assert!((seen..=seen + most_less).contains(&longest), "{config:?}: {seen}, {longest}");
    };
    let plain = PlainConfig::default();
    let seen = longest_seen(|node, radios, _| Plain::build(&plain, node, radios, Seed(1)));
    check(LinkConfig::Plain(plain), seen, 0);
    let two_p = TwoPConfig::default();
    let seen =
        longest_seen(|node, radios, peer| TwoP::build(&two_p, node, radios, &[peer], Seed(1)));
    check(LinkConfig::TwoP(two_p), seen, 0);
    let blind = BlindFecConfig::default();
    let seen = longest_seen(|node, radios, _| BlindFec::build(&blind, node, radios, Seed(1)));
    check(LinkConfig::BlindFec(blind), seen, 0);
    let harq = HarqConfig::default();
    let seen = longest_seen(|node, radios, _| Harq::build(&harq, node, radios, Seed(1)));
    check(LinkConfig::Harq(harq), seen, 80);
    let arq = ArqConfig::default();
    let seen = longest_seen(|node, radios, _| Harq::build_arq(&arq, node, radios, Seed(1)));
    check(LinkConfig::Arq(arq), seen, 0);
    for (frame_bytes, acks_ride, recovery) in [
        (None, true, Recovery::Arq),
        (None, true, Recovery::FecOnRetransmit),
        (None, false, Recovery::Fec),
        (Some(2_304), true, Recovery::Arq),
    ] {
        let wild = WildConfig { frame_bytes, acks_ride, recovery, ..WildConfig::default() };
        let seen =
            longest_seen(|node, radios, peer| Wild::build(&wild, node, radios, &[peer], Seed(1)));
        check(LinkConfig::Wild(wild), seen, 100);
    }
}

#[test]
fn plain_counts_it_as_not_sent() {
    let pair = drops_what_is_too_long(0, |node, radios, _| {
        Plain::build(&PlainConfig::default(), node, radios, Seed(1))
    });
    assert_eq!(pair.status(0).counters["frames_not_sent"], 3);
}

#[test]
fn wild_tries_it_once() {
    for (acks_ride, riders) in [(false, 0), (true, 1)] {
        let config = WildConfig { acks_ride, ..WildConfig::default() };
        let pair = drops_what_is_too_long(riders, |node, radios, peer| {
            Wild::build(&config, node, radios, &[peer], Seed(1))
        });
        let counters = pair.status(0).counters;
        assert_eq!((counters["frames_too_long"], counters["abandoned"]), (3, 3));
    }
}

#[test]
fn wild_puts_frames_together_that_the_device_takes() {
    let longest = Some(LONGEST);
    let config = PairConfig { longest, half_duplex: false, ..PairConfig::default() };
    let wild = WildConfig { frame_bytes: Some(2_304), ..WildConfig::default() };
    let mut pair = Pair::build(config, |node, radio, peer| {
        Wild::build(&wild, node, std::slice::from_ref(radio), &[peer], Seed(1))
    });
    let every = Duration::from_millis(100);
    pair.add(Source { every, from: secs(1.0), ..Source::saturated(0, 1, secs(5.95)) });
    pair.run_until(secs(7.0));
    let (sent, received) = (pair.ledger.sent(0, 1), pair.ledger.received(0, 1).len());
    assert_eq!(sent, 50);
    assert!(received >= 40, "{received}: each refused frame makes the next an eighth shorter");
    assert_eq!(pair.ledger.open(), 0, "every packet ended");
    let (status, dropped) = (pair.status(0), (sent - received) as u64);
    let too_long = status.drops.get(&DropCause::TooLong).copied().unwrap_or(0);
    // One of which another part came after that ends as not delivered.
    assert!((1..=dropped).contains(&too_long), "{too_long} of {dropped}");
}

#[test]
fn harq_gives_up_a_packet_whose_units_are_too_long() {
    let config = HarqConfig { units: Some(2), ..HarqConfig::default() };
    drops_what_is_too_long(0, |node, radios, _| Harq::build(&config, node, radios, Seed(1)));
    let config = ArqConfig { units: Some(2), ..ArqConfig::default() };
    drops_what_is_too_long(0, |node, radios, _| Harq::build_arq(&config, node, radios, Seed(1)));
}

#[test]
fn two_p_and_blindfec_drop_it() {
    drops_what_is_too_long(0, |node, radios, peer| {
        TwoP::build(&TwoPConfig::default(), node, radios, &[peer], Seed(1))
    });
    drops_what_is_too_long(0, |node, radios, _| {
        BlindFec::build(&BlindFecConfig::default(), node, radios, Seed(1))
    });
}
