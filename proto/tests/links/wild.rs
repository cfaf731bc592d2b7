//! The wild link over a lossy pipe: what `wildnet.md` 13 asks for, as short stories.

use std::cell::RefCell;
use std::rc::Rc;

use farhop_proto::base::{
    Duration, EtherType, Instant, NodeId, PacketOutcome, RadioSpec, Rng, Seed, TxOptions,
};
use farhop_proto::link::PeerSpec;
use farhop_proto::link::wild::{Recovery, Retries, Wild, WildConfig};
use farhop_testkit::{Clock, OnAir, Pair, PairConfig, Source};

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
}

#[test]
fn ten_percent_loss_costs_little_more_than_ten_percent() {
    let mut pair = pair(WildConfig::default(), PairConfig::with_loss(0.1));
    let rates = saturate(&mut pair, 20.0);
    pair.ledger.assert_at_most_once();
    pair.ledger.assert_in_order();
    assert!(rates.iter().all(|rate| *rate > 3.5), "{rates:?} Mb/s");
    assert_eq!(counter(&pair, 0, "coded_sent"), 0, "independent losses are no bursts");
    let loss = pair.status(0).neighbours[0].loss.expect("acknowledgements came");
    assert!((loss - 0.1).abs() < 0.08, "loss {loss}");
}

#[test]
fn all_packets_come_once_and_in_order_at_half_the_frames_lost() {
    let mut pair = pair(
        WildConfig { retries: Retries::Fixed(40), ..WildConfig::default() },
        PairConfig::with_loss(0.5),
    );
    saturate(&mut pair, 5.0);
    pair.run_for(4.0);
    pair.ledger.assert_at_most_once();
    pair.ledger.assert_in_order();
    pair.ledger.assert_all_came();
    assert_eq!(pair.ledger.open(), 0, "every packet ended");
}

/// A link that fills its frames with parts of packets.
fn filling(retries: u8) -> WildConfig {
    let retries = Retries::Fixed(retries);
    let recovery = Recovery::Arq;
    WildConfig { frame_bytes: Some(2_304), retries, recovery, ..WildConfig::default() }
}

#[test]
fn frames_of_parts_carry_more_and_every_packet_comes_once_and_in_order() {
    for loss in [0.0, 0.3] {
        let mut pairs = [
            pair(WildConfig { frame_bytes: None, ..filling(40) }, PairConfig::with_loss(loss)),
            pair(filling(40), PairConfig::with_loss(loss)),
        ];
        let [whole, parts] = pairs.each_mut().map(|pair| {
            let rates = saturate(pair, 5.0);
            pair.run_for(4.0);
            pair.ledger.assert_at_most_once();
            pair.ledger.assert_in_order();
            pair.ledger.assert_all_came();
            assert_eq!(pair.ledger.open(), 0, "every packet ended");
            rates.iter().sum::<f64>()
        });
        println!("loss {loss}: {whole:.2} Mb/s by packets, {parts:.2} by parts");
        assert!(counter(&pairs[1], 0, "frames_filled") > 500);
        assert_eq!(counter(&pairs[1], 1, "parts_torn"), 0);
        assert!(parts > 1.05 * whole, "{parts} and {whole}");
    }
}

#[test]
fn what_is_given_up_tears_no_other_packet() {
    let mut pair = pair(filling(0), PairConfig::with_loss(0.3));
    saturate(&mut pair, 5.0);
    pair.run_for(4.0);
    pair.ledger.assert_at_most_once();
    pair.ledger.assert_in_order();
    assert_eq!(pair.ledger.open(), 0, "every packet ended");
    assert!(counter(&pair, 1, "parts_torn") > 100);
    let came = pair.ledger.received(0, 1).len() as f64 / pair.ledger.sent(0, 1) as f64;
    assert!((0.4..0.7).contains(&came), "most packets are in two frames: {came}");
}

#[test]
fn what_remains_lost_is_the_loss_to_the_power_of_all_attempts() {
    for (p, retries) in [(0.3, 0_u8), (0.3, 1), (0.3, 2), (0.5, 3)] {
        let recovery = Recovery::Arq;
        let config =
            WildConfig { retries: Retries::Fixed(retries), recovery, ..WildConfig::default() };
        // Only data is lost: a lost acknowledgement causes a repetition that was not needed.
        let is_data = |bytes: &[u8]| bytes[0] & 0x0f == 1;
        let loss = Box::new(move |rng: &mut Rng, on: &OnAir<'_>| {
            rng.chance(p) && is_data(&on.frame.payload) && on.at > secs(1.0)
        });
        let mut pair = pair(config, PairConfig { loss, ..PairConfig::default() });
        pair.add(Source { bytes: 200, from: secs(1.0), ..Source::saturated(0, 1, secs(40.0)) });
        pair.run_until(secs(42.0));
        let sent = pair.ledger.sent(0, 1) as f64;
        let lost = 1.0 - pair.ledger.received(0, 1).len() as f64 / sent;
        let expected = (0..=retries).fold(1.0, |product, _| product * p);
        let sigma = (expected * (1.0 - expected) / sent).sqrt();
        assert!((lost - expected).abs() < 4.0 * sigma, "{lost} instead of {expected}, {sigma}");
        let failed = pair.ledger.ended(PacketOutcome::Failed) as f64 / sent;
        assert!((failed - lost).abs() < 1e-9, "reported {failed}, lost {lost}");
    }
}

#[test]
fn the_retry_limit_of_a_flow_is_its_own() {
    let config = WildConfig { recovery: Recovery::Arq, ..WildConfig::default() };
    let mut pair = pair(config, PairConfig::with_loss(0.3));
    let once = TxOptions { attempts: Some(1), ..TxOptions::default() };
    let every = Duration::from_millis(5);
    let source =
        Source { every, bytes: 300, from: secs(1.0), ..Source::saturated(0, 1, secs(31.0)) };
    pair.add(source);
    pair.add(Source { flow: 2, options: once, ..source });
    pair.run_until(secs(33.0));
    pair.ledger.assert_in_order();
    let came = |flow| pair.ledger.received(0, flow).len() as f64 / pair.ledger.sent(0, flow) as f64;
    assert!(came(1) > 0.999, "{}", came(1));
    assert!((came(2) - 0.7).abs() < 0.04, "{}", came(2));
}

#[test]
fn no_frame_passes_the_end_of_its_slot() {
    // The driver would say Late if a planned frame passed the end; with gaps as planned and no
    // wake-up late, none may.
    for bytes in [60, 700, 1_500] {
        let mut pair = pair(WildConfig::default(), PairConfig::default());
        for end in [0, 1] {
            pair.add(Source { bytes, ..Source::saturated(end, 1, secs(3.0)) });
        }
        pair.run_until(secs(3.0));
        for end in [0, 1] {
            assert_eq!(counter(&pair, end, "frames_late"), 0, "{bytes} bytes");
        }
    }
}

#[test]
fn late_wake_ups_cost_part_of_a_slot_and_no_packet() {
    let wake_late = Duration::from_millis(4);
    let mut pair = pair(WildConfig::default(), PairConfig { wake_late, ..PairConfig::default() });
    let rates = saturate(&mut pair, 10.0);
    pair.ledger.assert_in_order();
    assert!(rates.iter().all(|rate| *rate > 3.0), "{rates:?} Mb/s");
    let lost = counter(&pair, 0, "retransmissions");
    assert!(lost < 30, "{lost} repeated");
}

#[test]
fn steps_stay_within_the_delay_when_first_frames_are_lost() {
    for p in [0.0, 0.2, 0.5] {
        let loss = Box::new(move |rng: &mut Rng, on: &OnAir<'_>| {
            rng.chance(p) && on.frame.payload[1] & 1 != 0
        });
        let mut pair = pair(WildConfig::default(), PairConfig { loss, ..PairConfig::default() });
        for end in [0, 1] {
            pair.add(Source::saturated(end, 1, secs(20.0)));
        }
        pair.run_until(secs(3.0));
        let mut worst = 0;
        for tenth in 30..200 {
            pair.run_until(secs(f64::from(tenth) / 10.0));
            for end in [0, 1] {
                let error = pair.status(end).neighbours[0].sync_error_ns.unwrap_or(0);
                worst = worst.max(error.unsigned_abs());
            }
        }
        assert!(worst <= 267_000, "{worst} ns off with {p} of the stamps lost");
        assert_eq!(counter(&pair, 0, "steps_taken").max(counter(&pair, 1, "steps_taken")), 1);
    }
}

#[test]
fn coding_spends_nothing_where_nothing_is_lost() {
    for recovery in [Recovery::Fec, Recovery::BurstFec, Recovery::FecOnRetransmit] {
        let lossy = |rng: &mut Rng, on: &OnAir<'_>| rng.chance(0.2) && on.at < secs(5.0);
        let pipe = PairConfig { loss: Box::new(lossy), ..PairConfig::default() };
        let mut pair = pair(WildConfig { recovery, ..WildConfig::default() }, pipe);
        for end in [0, 1] {
            pair.add(Source::saturated(end, 1, secs(10.0)));
        }
        // Ten slots later, and a cycle for the last acknowledgement.
        pair.run_until(secs(5.0 + 0.02 * 2.0 * 12.0));
        let spent = counter(&pair, 0, "coded_sent");
        if recovery == Recovery::Fec {
            assert!(spent > 100, "{spent} while it was lossy");
        }
        pair.run_until(secs(10.0));
        assert_eq!(counter(&pair, 0, "coded_sent"), spent, "{recovery:?}");
        assert_eq!(pair.status(0).neighbours[0].coding_rate, 0.0);
    }
}

#[test]
fn coding_alone_brings_thirty_percent_loss_to_about_one() {
    let config = WildConfig { recovery: Recovery::Fec, ..WildConfig::default() };
    let mut pair = pair(config, PairConfig::with_loss(0.3));
    let from = secs(2.0);
    pair.add(Source { bytes: 500, from, ..Source::saturated(0, 1, secs(30.0)) });
    pair.run_until(secs(31.0));
    let lost = 1.0 - pair.ledger.received(0, 1).len() as f64 / pair.ledger.sent(0, 1) as f64;
    assert!(lost < 0.03, "{lost}");
    assert!(counter(&pair, 1, "decoded") > 1_000);
    assert_eq!(counter(&pair, 0, "retransmissions"), 0);
    pair.ledger.assert_in_order();
}

#[test]
fn coded_retransmissions_save_rounds() {
    let run = |recovery| {
        let config = WildConfig { recovery, ..WildConfig::default() };
        let mut pair = pair(config, PairConfig::with_loss(0.4));
        saturate(&mut pair, 10.0);
        pair.ledger.assert_in_order();
        (counter(&pair, 1, "decoded"), pair.ledger.longest_delay())
    };
    let (decoded, _) = run(Recovery::FecOnRetransmit);
    assert!(decoded > 100, "{decoded}");
    assert_eq!(run(Recovery::Arq).0, 0);
}

#[test]
fn bursts_bring_coding_in_the_first_round() {
    // Frames are lost in runs of 6 ms, ten times a second.
    let loss = Box::new(|_: &mut Rng, on: &OnAir<'_>| on.at.as_nanos() % 97_000_000 < 8_000_000);
    let mut pair = pair(WildConfig::default(), PairConfig { loss, ..PairConfig::default() });
    saturate(&mut pair, 10.0);
    assert!(counter(&pair, 0, "coded_sent") > 50);
    pair.ledger.assert_in_order();
}

#[test]
fn a_silent_neighbour_is_back_within_a_second() {
    let mut all = Vec::new();
    for seed in 1..=5 {
        let config = PairConfig { seed: Seed(seed), ..PairConfig::with_loss(0.05) };
        let mut pair = pair(WildConfig::default(), config);
        for end in [0, 1] {
            pair.add(Source::saturated(end, 1, secs(30.0)));
        }
        for (from, until) in [(2.0, 2.3), (6.0, 9.0), (15.0, 15.05)] {
            pair.run_until(secs(from));
            pair.set_silent(1, true);
            pair.run_until(secs(until));
            pair.set_silent(1, false);
            pair.run_for(1.0);
            let before = [0, 1].map(|end| pair.ledger.received(end, 1).len());
            assert!([0, 1].iter().all(|end| pair.status(*end).neighbours[0].up));
            pair.run_for(1.0);
            for end in [0, 1] {
                let came = pair.ledger.received(end, 1).len() - before[end];
                // At least 233 in 300 draws.
                assert!(came > 200, "{came} packets in the second after, from end {end}");
                all.push(came);
            }
        }
        pair.ledger.assert_at_most_once();
    }
    let mean = all.iter().sum::<usize>() / all.len();
    assert!(mean > 300, "{mean} packets in a second, in the mean");
}

#[test]
fn a_restarted_neighbour_is_served_within_a_second() {
    let config = WildConfig::default();
    let mut pair = pair(config.clone(), PairConfig::with_loss(0.05));
    for end in [0, 1] {
        pair.add(Source {
            every: Duration::from_millis(4),
            ..Source::saturated(end, 1, secs(20.0))
        });
    }
    pair.run_until(secs(5.0));
    let radio = PairConfig::default().radio;
    let peer = PeerSpec { node: NodeId(1), radio: radio.id };
    pair.replace(1, link(&config, NodeId(2), &radio, peer));
    pair.run_for(1.0);
    let before = [0, 1].map(|end| pair.ledger.received(end, 1).len());
    pair.run_for(2.0);
    for end in [0, 1] {
        let came = pair.ledger.received(end, 1).len() - before[end];
        assert!(came > 400, "{came} packets in two seconds, from end {end}");
    }
    assert_eq!(counter(&pair, 0, "peer_restarts"), 1);
}

#[test]
fn two_nodes_always_find_each_other() {
    for seed in 0..50 {
        let pipe = PairConfig { seed: Seed(seed), ..PairConfig::with_loss(0.3) };
        let mut pair = Pair::build(pipe, |node, radio, peer| {
            let radios = std::slice::from_ref(radio);
            Wild::build(&WildConfig::default(), node, radios, &[peer], Seed(seed))
        });
        pair.run_until(secs(1.0));
        for end in [0, 1] {
            assert!(pair.status(end).neighbours[0].up, "seed {seed}, end {end}");
        }
    }
}

#[test]
fn wrong_clocks_cost_less_than_a_percent() {
    let run = |clocks| {
        let mut pair =
            pair(WildConfig::default(), PairConfig { clocks, ..PairConfig::with_loss(0.1) });
        let rates = saturate(&mut pair, 30.0);
        pair.ledger.assert_in_order();
        rates[0] + rates[1]
    };
    let right = run([Clock::default(); 2]);
    let wrong = run([
        Clock { offset_ns: 1_000_000_000, drift_ppb: 50_000 },
        Clock { offset_ns: 0, drift_ppb: -50_000 },
    ]);
    assert!((wrong / right - 1.0).abs() < 0.01, "{right} and {wrong} Mb/s");
}

#[test]
fn a_neighbour_with_another_slot_length_is_noticed_and_not_followed() {
    let mut pair = Pair::build(PairConfig::default(), |node, radio, peer| {
        let slot_ms = if node == NodeId(1) { 20.0 } else { 30.0 };
        link(&WildConfig { slot_ms, ..WildConfig::default() }, node, radio, peer)
    });
    pair.run_until(secs(3.0));
    for end in [0, 1] {
        assert!(counter(&pair, end, "wrong_slot_length") > 3);
        assert!(!pair.status(end).neighbours[0].up);
    }
}

#[test]
fn a_peer_with_another_version_is_counted_and_named_until_it_is_mended() {
    let mut pair = pair(WildConfig::default(), PairConfig::default());
    pair.run_until(secs(2.0));
    let other: &[u8] = &[0x14; 40];
    pair.inject(1, bytes::Bytes::from_static(other));
    assert_eq!(counter(&pair, 1, "malformed_version"), 1);
    assert_eq!(pair.status(1).neighbours[0].refused.as_deref(), Some("version"));
    pair.run_for(0.2);
    assert_eq!(pair.status(1).neighbours[0].refused, None);
}

#[test]
fn a_neighbour_with_another_link_is_named_while_it_speaks() {
    let mut pair = pair(WildConfig::default(), PairConfig::default());
    pair.set_silent(0, true);
    pair.run_until(secs(2.0));
    pair.inject_as(1, EtherType::IPV4, bytes::Bytes::from_static(&[0x45; 40]));
    let refused = |pair: &Pair<Wild>| pair.status(1).neighbours[0].refused.clone();
    assert_eq!(refused(&pair).as_deref(), Some("link-protocol"));
    assert_eq!(counter(&pair, 1, "malformed_protocol"), 1);
    pair.run_for(11.0);
    assert_eq!(refused(&pair), None);
}

#[test]
fn a_radio_whose_clock_jumps_by_a_second_is_back_in_step() {
    for (loss, back_s) in [(0.0, 0.5), (0.3, 1.0)] {
        for ahead in [1_000_000_000, -1_000_000_000] {
            let clock = Clock { offset_ns: 5_000_000_000, drift_ppb: 0 };
            let clocks = [clock; 2];
            let pipe = PairConfig { clocks, ..PairConfig::with_loss(loss) };
            let mut pair = pair(WildConfig::default(), pipe);
            for end in [0, 1] {
                pair.add(Source::saturated(end, 1, secs(10.0)));
            }
            pair.run_until(secs(3.0));
            pair.set_radio_clock(1, ahead);
            let before = counter(&pair, 1, "stamps");
            pair.run_for(back_s);
            let what = format!("{ahead} ns ahead, loss {loss}");
            assert!(counter(&pair, 1, "stamps_impossible") > 0, "{what}");
            assert!(counter(&pair, 1, "stamps") > before, "{what}");
            let (overlaps, taken) = (pair.overlaps, counter(&pair, 1, "steps_taken"));
            pair.run_for(2.0);
            let error = pair.status(1).neighbours[0].sync_error_ns.expect("stamps came");
            assert!(error.abs() < 267_000, "{what}: {error} ns off");
            assert!(pair.overlaps <= overlaps + 1, "{what}: {} overlaps", pair.overlaps);
            assert_eq!(counter(&pair, 1, "steps_taken"), taken, "{what}: it never fell out");
        }
    }
}

#[test]
fn a_copy_that_somebody_held_up_is_not_followed() {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let tap = Rc::clone(&seen);
    let loss = Box::new(move |_: &mut Rng, on: &OnAir<'_>| {
        if on.from == 0 && on.frame.payload[1] & 1 != 0 {
            tap.borrow_mut().push(on.frame.payload.clone());
        }
        false
    });
    let mut pair = pair(WildConfig::default(), PairConfig { loss, ..PairConfig::default() });
    for end in [0, 1] {
        pair.add(Source::saturated(end, 1, secs(10.0)));
    }
    pair.run_until(secs(2.0));
    let before = pair.ledger.received(0, 1).len();
    for round in 0..50 {
        pair.run_for(0.0371);
        // Of this slot but milliseconds late, or of slots ago.
        let copy = {
            let seen = seen.borrow();
            seen[seen.len() - 1 - round % 4].clone()
        };
        pair.inject(1, copy);
    }
    let stale = counter(&pair, 1, "stale");
    assert!(stale >= 40, "{stale} refused");
    let came = pair.ledger.received(0, 1).len() - before;
    assert!(came > 570, "{came} packets in 1.9 s");
    pair.ledger.assert_at_most_once();
}

#[test]
fn slots_that_follow_the_load_give_one_way_flows_more_than_half() {
    let run = |is_free: bool, ends: &[usize], loss: f64| {
        let (slot_least_ms, slot_most_ms) = (is_free.then_some(5.0), is_free.then_some(35.0));
        let config = WildConfig { slot_least_ms, slot_most_ms, ..WildConfig::default() };
        let mut pair = pair(config, PairConfig::with_loss(loss));
        for end in ends {
            pair.add(Source::saturated(*end, 1, secs(10.0)));
        }
        pair.run_until(secs(10.0));
        pair.ledger.assert_in_order();
        let rate = |end| pair.ledger.received(end, 1).len() as f64 * 12_000.0 / 10.0 / 1e6;
        ([rate(0), rate(1)], pair.overlaps)
    };
    for loss in [0.0, 0.1] {
        let ([fixed, _], _) = run(false, &[0], loss);
        let ([free, _], overlaps) = run(true, &[0], loss);
        println!("loss {loss}: one way {fixed:.2} and {free:.2} Mb/s, {overlaps} overlaps");
        assert!(free > 1.5 * fixed, "{fixed:.2} and {free:.2} Mb/s");
        let (both, _) = run(false, &[0, 1], loss);
        let (both_free, overlaps) = run(true, &[0, 1], loss);
        println!("loss {loss}: both {both:.2?} and {both_free:.2?} Mb/s, {overlaps} overlaps");
        let sum = |rates: [f64; 2]| rates[0] + rates[1];
        assert!(sum(both_free) > 0.95 * sum(both), "{both:?} and {both_free:?}");
        assert!((both_free[0] / both_free[1] - 1.0).abs() < 0.1, "{both_free:?}");
    }
}

#[test]
fn slots_are_short_while_there_is_little_to_send_and_rest_where_there_is_nothing() {
    let config = WildConfig { slot_least_ms: Some(4.0), ..WildConfig::default() };
    let mut pair = pair(config, PairConfig::default());
    let every = Duration::from_millis(100);
    pair.add(Source { every, bytes: 100, from: secs(3.0), ..Source::saturated(0, 1, secs(6.0)) });
    let mut slots_until = |at: f64| {
        pair.run_until(secs(at));
        counter(&pair, 1, "slots")
    };
    let [at_1, at_3, at_4, at_6, at_8, at_10] =
        [1.0, 3.0, 4.0, 6.0, 8.0, 10.0].map(&mut slots_until);
    // Of 40 ms, and of little more than 8 ms while packets come, at both ends.
    let (rest, busy, again) = ((at_3 - at_1) / 2, (at_6 - at_4) / 2, (at_10 - at_8) / 2);
    assert!(
        [rest, again].iter().all(|slots| (24..=25).contains(slots)),
        "{rest}, {again} a second"
    );
    assert!((105..=125).contains(&busy), "{busy} slots a second");
}

#[test]
fn a_full_queue_of_one_flow_leaves_room_to_another() {
    let mut pair = pair(WildConfig::default(), PairConfig::with_loss(0.1));
    pair.add(Source::saturated(0, 1, secs(10.0)));
    let every = Duration::from_millis(20);
    pair.add(Source { every, bytes: 100, from: secs(1.0), ..Source::saturated(0, 2, secs(10.0)) });
    pair.run_until(secs(11.0));
    pair.ledger.assert_in_order();
    assert_eq!(pair.ledger.received(0, 2).len(), 450);
}

#[test]
fn damaged_and_random_frames_are_counted_and_traffic_goes_on() {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let tap = Rc::clone(&seen);
    let loss = Box::new(move |_: &mut Rng, on: &OnAir<'_>| {
        if on.from == 0 && tap.borrow().len() < 200 {
            tap.borrow_mut().push(on.frame.payload.clone());
        }
        false
    });
    let mut pair = pair(WildConfig::default(), PairConfig { loss, ..PairConfig::default() });
    for end in [0, 1] {
        pair.add(Source::saturated(end, 1, secs(6.0)));
    }
    pair.run_until(secs(2.0));
    let mut rng = Seed(5).stream("damage");
    for round in 0..20_000_u64 {
        let mut bytes = seen.borrow()[rng.below(200) as usize].to_vec();
        match round % 3 {
            0 => bytes.truncate(rng.below(bytes.len() as u64) as usize),
            1 => bytes.iter_mut().for_each(|byte| *byte = rng.next_u64() as u8),
            _ => {
                let at = rng.below(28 * 8) as usize;
                bytes[at / 8] ^= 1 << (at % 8);
            }
        }
        if round % 40 == 0 {
            pair.run_for(0.002);
        }
        // A truncated frame with a whole header is what the check sequence of 802.11 is for.
        if round % 3 != 0 || bytes.len() < 28 {
            pair.inject(1, bytes.into());
        }
    }
    let before = pair.ledger.received(0, 1).len();
    pair.run_until(secs(6.0));
    assert!(pair.ledger.received(0, 1).len() > before + 900);
    pair.ledger.assert_at_most_once();
    pair.ledger.assert_in_order();
    let counters = pair.status(1).counters;
    let malformed: u64 =
        counters.iter().filter(|(name, _)| name.starts_with("malformed")).map(|(_, n)| n).sum();
    assert!(malformed > 10_000, "{malformed} counted");
    assert_eq!(counters["peer_restarts"], 0);
}
