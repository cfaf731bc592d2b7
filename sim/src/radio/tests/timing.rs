//! Single exchanges, exact to the microsecond.

use super::*;
use farhop_proto::base::{Gap, PhyKind, Width};
use farhop_proto::stack::FirstAccess;

/// A 1500-byte packet: 1536 bytes of MPDU, 96 + 1118 us.
const DATA_US: u64 = 1214;
/// 96 + 56 us.
const ACK_US: u64 = 152;

#[test]
fn a_data_frame_and_its_acknowledgement_take_what_the_standard_says() {
    let mut medium = medium(mesh(vec![chip(1), chip(2)], us(5)));
    medium.handle_frame(at(1000), 0, frame(1, Some(2), 1500, TxOptions::default()));
    let reports = run_out(&mut medium);
    // The medium was idle for more than DIFS, so the frame is sent at once. The acknowledgement
    // starts SIFS after the end of the frame at the receiver.
    let reply = 1000 + DATA_US + 5 + 10;
    assert_eq!(on_air(&mut medium), [(0, 1000, 1000 + DATA_US), (1, reply, reply + ACK_US)]);
    let received = receptions(&reports);
    assert_eq!(received.len(), 1);
    assert_eq!((received[0].0, received[0].1), (1, at(1000 + DATA_US + 5)));
    assert_eq!(received[0].2.started, at(1005));
    assert_eq!(received[0].2.from, NodeId(1));
    let (radio, end, done) = dones(&reports)[0];
    assert_eq!((radio, end), (0, at(reply + ACK_US + 5)));
    assert_eq!((done.outcome, done.attempts), (FrameOutcome::Acked(0), 1));
    assert_eq!(done.air_time, us(DATA_US));
}

#[test]
fn an_answer_is_missed_once_the_phy_would_have_told_of_it() {
    // The delay after SIFS and a slot, and before DIFS and the backoff of the next attempt.
    for (kind, width, delay) in [
        (PhyKind::B, Width::Mhz20, 192),
        (PhyKind::A, Width::Mhz20, 25),
        (PhyKind::G, Width::Mhz20, 25),
        (PhyKind::A, Width::Mhz10, 49),
        (PhyKind::A, Width::Mhz5, 97),
    ] {
        let phy = Phy { kind, width, ..Phy::default() };
        let radios = [1, 2].map(|node| ChipConfig::new(NodeId(node), RadioId(0), phy)).to_vec();
        let links = vec![link(0, 1, Duration::ZERO)];
        let mut medium = medium(MediumConfig { radios, links, ..mesh(Vec::new(), us(0)) });
        medium.handle_frame(at(1_000), 0, frame(1, Some(2), 500, TxOptions::default()));
        run_out(&mut medium);
        let sent = on_air(&mut medium);
        let (ends, slot) = (sent.iter().filter(|one| one.0 == 0), phy.slot().as_micros());
        let own: Vec<(u64, u64)> = ends.map(|(_, start, end)| (*start, *end)).collect();
        assert_eq!(own.len(), 7, "nobody hears the answers");
        let waits = own.windows(2).map(|two| two[1].0 - two[0].1);
        let fixed = phy.sifs() + phy.slot() + us(delay) + phy.difs();
        for wait in waits.map(|wait| wait - fixed.as_micros()) {
            assert_eq!(wait % slot, 0, "{kind:?} {width:?}: {wait} us");
        }
    }
}

#[test]
fn a_frame_that_finds_less_than_difs_of_silence_draws_a_backoff() {
    let mut medium = medium(mesh(vec![chip(1), chip(2), chip(3)], us(1)));
    medium.handle_frame(at(1000), 0, frame(1, None, 100, no_ack()));
    let end = 1000 + 96 + (24 + 2 + 8 + 100 + 4) * 8 / 11 + 1;
    medium.handle_frame(at(end + 1 + 49), 2, frame(2, Some(2), 1500, TxOptions::default()));
    run_out(&mut medium);
    let drawn = medium.stats(2).backoff_slots;
    let start = on_air(&mut medium)[1].1;
    // The second draw is the post-backoff of the frame.
    assert!(drawn > 0 && start >= end + 1 + 50);
    assert_eq!((start - end - 1 - 50) % 20, 0);
    // After DIFS of silence a frame is sent at once.
    medium.handle_frame(at(50_000), 0, frame(3, None, 100, no_ack()));
    let end = 50_000 + (end - 1000);
    medium.handle_frame(at(end + 1 + 50), 2, frame(4, Some(2), 1500, TxOptions::default()));
    run_out(&mut medium);
    assert_eq!(on_air(&mut medium)[1].1, end + 1 + 50);
}

#[test]
fn a_backoff_that_ends_before_a_signal_is_noticed_ends_in_a_collision() {
    // Two broadcasts DIFS apart (each with 100 bytes), and a frame of another radio that may begin
    // 2 us after that radio hears the second, as its slot is 1 us longer.
    let starts = |cca: u64| {
        let patient = ChipConfig { slot: us(21), cca: us(cca), gap: Gap::Difs, ..chip(2) };
        let radios = vec![ChipConfig { gap: Gap::Difs, ..chip(1) }, patient];
        let mut medium = medium(mesh(radios, us(1)));
        medium.handle_frame(at(1000), 0, frame(1, None, 100, no_ack()));
        medium.handle_frame(at(1000), 0, frame(2, None, 100, no_ack()));
        medium.handle_frame(at(1100), 1, frame(3, None, 100, no_ack()));
        run_out(&mut medium);
        on_air(&mut medium).into_iter().map(|(radio, start, _)| (radio, start)).collect::<Vec<_>>()
    };
    let length = 96 + ((24 + 2 + 8 + 100 + 4) * 8_u64).div_ceil(11);
    let second = 1000 + length + 50;
    let heard = second + 1;
    assert_eq!(starts(4), [(0, 1000), (0, second), (1, heard + 2)]);
    assert_eq!(starts(2), [(0, 1000), (0, second), (1, heard + 2)]);
    let later = heard + length + 52;
    assert_eq!(starts(0), [(0, 1000), (0, second), (1, later)]);
    assert_eq!(starts(1), [(0, 1000), (0, second), (1, later)]);
}

/// Time from the end of a relay's acknowledgement to the packet that it passes on, beyond DIFS.
fn relay_waits(first_access: FirstAccess, seed: u64) -> u64 {
    let radios = [1, 2, 3].map(|node| ChipConfig { first_access, ..chip(node) });
    let mut medium = Medium::new(mesh(radios.to_vec(), us(1)), Seed(seed));
    medium.record_transmissions(true);
    medium.handle_frame(at(1000), 0, frame(1, Some(2), 1500, TxOptions::default()));
    let arrival = at(1000 + DATA_US + 1);
    medium.handle_timeout(arrival);
    medium.handle_frame(arrival, 1, frame(2, Some(3), 1500, TxOptions::default()));
    run_out(&mut medium);
    let sent = on_air(&mut medium);
    let (ack_end, start) = (sent[1].2, sent[2].1);
    start - ack_end - 50
}

#[test]
fn a_relay_draws_before_it_passes_a_packet_on_unless_idle_for_a_moment_is_enough() {
    // The medium is idle when the packet arrives, but not for DIFS, as the acknowledgement follows.
    let waits = |access| (0..20).map(move |seed| relay_waits(access, seed));
    assert!(waits(FirstAccess::AfterGap).all(|wait| wait % 20 == 0));
    assert!(waits(FirstAccess::AfterGap).sum::<u64>() > 20 * 100);
    assert!(waits(FirstAccess::WhenIdle).all(|wait| wait == 0));
}

#[test]
fn backoff_freezes_while_the_medium_is_busy_and_resumes_after_difs() {
    let mut medium = medium(mesh(vec![chip(1), chip(2), chip(3)], Duration::ZERO));
    // Two frames of radio 0 without a pause: the second waits for the post-backoff of the first.
    medium.handle_frame(at(1000), 0, frame(1, Some(2), 1500, TxOptions::default()));
    medium.handle_frame(at(1000), 0, frame(2, Some(2), 1500, TxOptions::default()));
    let exchange_end = 1000 + DATA_US + 10 + ACK_US;
    medium.handle_timeout(at(exchange_end + 51));
    let start = medium.poll_timeout().expect("a backoff is under way").as_nanos() / 1000;
    let slots = (start - exchange_end - 50) / 20;
    assert!(slots >= 2, "this seed draws {slots} slots: choose another");
    // Radio 2 has been idle long enough to send at once, in the second slot of radio 0.
    medium.handle_frame(at(exchange_end + 50 + 25), 2, frame(3, None, 100, no_ack()));
    run_out(&mut medium);
    let air = on_air(&mut medium);
    assert_eq!((air[2].0, air[2].1), (2, exchange_end + 75));
    // One whole slot had passed; the others follow DIFS after the interruption.
    assert_eq!((air[3].0, air[3].1), (0, air[2].2 + 50 + (slots - 1) * 20));
}

#[test]
fn frames_without_acknowledgement_keep_the_gap_of_choice() {
    let length = 96 + (24 + 2 + 8 + 500 + 4_u64) * 8 / 11 + 1;
    for (gap, expected) in [(Gap::Difs, 50), (Gap::Sifs, 10)] {
        let radios = vec![ChipConfig { gap, ..chip(1) }, chip(2)];
        let mut medium = medium(mesh(radios, us(3)));
        for id in 1..=3 {
            medium.handle_frame(at(1000), 0, frame(id, Some(2), 500, no_ack()));
        }
        let reports = run_out(&mut medium);
        let step = length + expected;
        let starts = [1000, 1000 + step, 1000 + 2 * step];
        assert_eq!(on_air(&mut medium), starts.map(|start| (0, start, start + length)));
        let ends = dones(&reports);
        assert_eq!(ends.len(), 3);
        for ((_, end, done), start) in ends.into_iter().zip(starts) {
            assert_eq!((end, done.outcome), (at(start + length), FrameOutcome::Sent));
            assert_eq!((done.attempts, done.air_time), (1, us(length)));
        }
        assert_eq!(medium.stats(0).backoff_slots, 0);
    }
}

#[test]
fn a_frame_in_error_costs_the_hearer_eifs() {
    let mut config = mesh(vec![chip(1), chip(2), chip(3)], Duration::ZERO);
    for link in &mut config.links {
        if link.from == 0 {
            link.loss = LossModel::Bernoulli { p: 1.0 };
        }
    }
    let mut medium = medium(config);
    medium.handle_frame(at(1000), 0, frame(1, None, 100, no_ack()));
    medium.handle_frame(at(1010), 2, frame(2, None, 100, no_ack()));
    run_out(&mut medium);
    let slots = medium.stats(2).backoff_slots;
    let air = on_air(&mut medium);
    // One of the draws is the post-backoff of the frame itself.
    let waited = air[1].1 - air[0].2;
    assert!(
        waited >= 364 && (waited - 364).is_multiple_of(20) && (waited - 364) / 20 <= slots,
        "{waited}"
    );
}

#[test]
fn an_overheard_frame_reserves_the_medium_for_its_acknowledgement() {
    // Radio 2 hears radio 0 but not radio 1, whose acknowledgement it would destroy.
    let radios = vec![chip(1), chip(2), chip(3)];
    let pairs = [(0, 1), (1, 0), (0, 2), (2, 0), (2, 1)];
    let links = pairs.map(|(from, to)| link(from, to, Duration::ZERO)).to_vec();
    let mut medium = medium(MediumConfig::new(radios, links));
    medium.handle_frame(at(1000), 0, frame(1, Some(2), 1500, TxOptions::default()));
    medium.handle_frame(at(1100), 2, frame(2, None, 100, no_ack()));
    run_out(&mut medium);
    let reserved = 1000 + DATA_US + 10 + ACK_US;
    let start = on_air(&mut medium).iter().find(|air| air.0 == 2).expect("it was sent").1;
    assert!(start >= reserved + 50 && (start - reserved - 50).is_multiple_of(20), "{start}");
    assert_eq!(medium.stats(2).overheard, 1);
}

#[test]
fn a_frame_waits_for_its_time_and_is_given_back_when_it_would_be_late() {
    let radios = vec![ChipConfig { gap: Gap::Difs, ..chip(1) }, chip(2)];
    let mut medium = medium(mesh(radios, us(3)));
    let length = 96 + (24 + 2 + 8 + 500 + 4_u64) * 8 / 11 + 1;
    let waits = TxOptions { not_before: Some(at(5000)), ..no_ack() };
    let fits = TxOptions { deadline: Some(at(5000 + 50 + 2 * length)), ..no_ack() };
    let late = TxOptions { deadline: Some(at(5000 + 100 + 3 * length - 1)), ..no_ack() };
    medium.handle_frame(at(1000), 0, frame(1, Some(2), 500, waits));
    medium.handle_frame(at(1000), 0, frame(2, Some(2), 500, fits));
    medium.handle_frame(at(1000), 0, frame(3, Some(2), 500, late));
    medium.handle_frame(at(1000), 0, frame(4, Some(2), 500, no_ack()));
    let reports = run_out(&mut medium);
    let second = 5000 + length + 50;
    let third = second + length + 50;
    let starts: Vec<u64> = on_air(&mut medium).iter().map(|air| air.1).collect();
    assert_eq!(starts, [5000, second, third]);
    let outcomes: Vec<_> =
        dones(&reports).iter().map(|(_, at, done)| (done.id.0, *at, done.outcome)).collect();
    assert_eq!(
        outcomes,
        [
            (1, at(5000 + length), FrameOutcome::Sent),
            (2, at(second + length), FrameOutcome::Sent),
            (3, at(third), FrameOutcome::Late),
            (4, at(third + length), FrameOutcome::Sent),
        ]
    );
    assert_eq!(medium.stats(0).late, 1);
}

#[test]
fn only_frames_that_were_not_on_air_can_be_taken_back() {
    let mut medium = medium(mesh(vec![chip(1), chip(2)], us(3)));
    for id in 1..=3 {
        medium.handle_frame(at(1000), 0, frame(id, Some(2), 500, TxOptions::default()));
    }
    assert_eq!(medium.room(0, AccessCategory::BestEffort), 47);
    medium.handle_timeout(at(1001));
    for id in [1, 2, 9] {
        medium.handle_frame(at(1001), 0, FrameDown::Cancel(UnitId(id)));
    }
    let reports = run_out(&mut medium);
    let outcomes: Vec<_> =
        dones(&reports).iter().map(|(_, _, done)| (done.id.0, done.outcome)).collect();
    let acked = FrameOutcome::Acked(0);
    assert_eq!(outcomes, [(2, FrameOutcome::Cancelled), (1, acked), (3, acked)]);
    assert_eq!(receptions(&reports).len(), 2);
}

#[test]
fn the_chip_answers_with_the_bits_and_the_refusal_of_its_link() {
    let mut medium = medium(mesh(vec![chip(1), chip(2)], us(3)));
    let state = |bits, accept| FrameDown::ReplyState { radio: RadioId(0), bits, accept };
    medium.handle_frame(at(500), 1, state(7, false));
    medium.handle_frame(at(1000), 0, frame(1, Some(2), 500, TxOptions::default()));
    let reports = run_out(&mut medium);
    assert_eq!(dones(&reports)[0].2.outcome, FrameOutcome::Nacked(7));
    assert!(receptions(&reports).is_empty());
    medium.handle_frame(at(9000), 1, state(9, true));
    medium.handle_frame(at(9000), 0, frame(2, Some(2), 500, TxOptions::default()));
    let reports = run_out(&mut medium);
    assert_eq!(dones(&reports)[0].2.outcome, FrameOutcome::Acked(9));
    assert_eq!(receptions(&reports).len(), 1);
}

#[test]
fn broadcast_goes_at_the_lowest_rate_once() {
    let mut medium = medium(mesh(vec![chip(1), chip(2), chip(3)], us(3)));
    medium.handle_frame(at(1000), 0, frame(1, None, 100, TxOptions::default()));
    let reports = run_out(&mut medium);
    let length = 192 + (24 + 8 + 100 + 4) * 8;
    assert_eq!(on_air(&mut medium), [(0, 1000, 1000 + length)]);
    assert_eq!(receptions(&reports).len(), 2);
    assert_eq!(dones(&reports)[0].2.outcome, FrameOutcome::Sent);
}
