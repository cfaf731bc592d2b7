//! RTS, CTS and the time that they reserve.

use super::*;
use crate::radio::{AcParams, TransmissionKind};
use farhop_proto::base::PhyKind;
use farhop_proto::stack::Protection;

/// Air time of a 1500-byte packet, of its acknowledgement or CTS, and of an RTS, with the short
/// preamble.
const DATA_US: u64 = 1214;
const ACK_US: u64 = 152;
const RTS_US: u64 = 176;
/// The time that an RTS reserves.
const NAV_US: u64 = 10 + ACK_US + 10 + DATA_US + 10 + ACK_US;

fn announcing(node: u16) -> ChipConfig {
    ChipConfig { rts_threshold: Some(500), ..chip(node) }
}

fn radios(count: u16) -> Vec<ChipConfig> {
    (1..=count).map(announcing).collect()
}

#[test]
fn a_long_frame_is_announced_and_answered_to_the_microsecond() {
    let mut medium = medium(mesh(radios(2), us(5)));
    medium.handle_frame(at(1000), 0, frame(1, Some(2), 1500, TxOptions::default()));
    let reports = run_out(&mut medium);
    let cts = 1000 + RTS_US + 5 + 10;
    let data = cts + ACK_US + 5 + 10;
    let ack = data + DATA_US + 5 + 10;
    let sent: Vec<_> = std::iter::from_fn(|| medium.poll_transmission()).collect();
    let seen: Vec<_> = sent.iter().map(|tx| (tx.name(), tx.start, tx.end, tx.nav)).collect();
    let expected = [
        ("rts", 1000, RTS_US, NAV_US),
        ("cts", cts, ACK_US, NAV_US - 10 - ACK_US),
        ("data", data, DATA_US, 10 + ACK_US),
        ("ack", ack, ACK_US, 0),
    ];
    assert_eq!(
        seen,
        expected
            .map(|(name, start, length, nav)| { (name, at(start), at(start + length), us(nav)) })
    );
    let (_, end, done) = dones(&reports)[0];
    assert_eq!((end, done.attempts), (at(ack + ACK_US + 5), 1));
    assert_eq!(done.air_time, us(RTS_US + DATA_US));
    let stats = (medium.stats(0), medium.stats(1));
    assert_eq!((stats.0.rts_sent, stats.0.cts_received, stats.1.cts_sent), (1, 1, 1));
    assert_eq!(stats.0.air_control + stats.1.air_control, us(RTS_US + ACK_US));
}

#[test]
fn a_frame_up_to_the_threshold_is_not_announced() {
    let mut medium = medium(mesh(radios(2), us(5)));
    // 464 bytes of payload make an MPDU of 500.
    for (id, bytes) in [(1, 464), (2, 465)] {
        medium.handle_frame(at(1000), 0, frame(id, Some(2), bytes, TxOptions::default()));
    }
    run_out(&mut medium);
    let sent: Vec<_> = std::iter::from_fn(|| medium.poll_transmission()).collect();
    let names: Vec<_> = sent.iter().map(|tx| tx.name()).collect();
    assert_eq!(names, ["data", "ack", "rts", "cts", "data", "ack"]);
}

/// When radio 2 sends the frame that it gets at `given`, if it hears only one of the two ends of an
/// exchange.
fn third_station(hears: usize, given: u64) -> u64 {
    let pairs = [(0, 1), (1, 0), (hears, 2)];
    let links = pairs.map(|(from, to)| link(from, to, Duration::ZERO)).to_vec();
    let mut medium = medium(MediumConfig::new(radios(3), links));
    medium.handle_frame(at(1000), 0, frame(1, Some(2), 1500, TxOptions::default()));
    medium.handle_frame(at(given), 2, frame(2, None, 100, no_ack()));
    run_out(&mut medium);
    on_air(&mut medium).iter().find(|air| air.0 == 2).expect("it was sent").1
}

#[test]
fn who_hears_only_one_end_keeps_silent_until_the_exchange_is_over() {
    let end = 1000 + RTS_US + NAV_US;
    // At these times there is nothing on the air that it could sense.
    let cts_end = 1000 + RTS_US + 10 + ACK_US;
    for (hears, given) in [(0, 1000 + RTS_US + 20), (1, cts_end + 400)] {
        let start = third_station(hears, given);
        let waited = start - end;
        assert!(start >= end + 50 && (waited - 50).is_multiple_of(20), "{hears}: {start}, {end}");
    }
}

#[test]
fn without_an_answer_the_announcement_is_repeated_up_to_the_short_limit() {
    let links = vec![link(0, 1, us(1))];
    let mut medium = medium(MediumConfig::new(radios(2), links));
    medium.handle_frame(at(1000), 0, frame(1, Some(2), 1500, TxOptions::default()));
    let reports = run_out(&mut medium);
    let done = dones(&reports)[0].2;
    // The frame itself was never sent: it counts as one attempt, however often it was announced.
    assert_eq!((done.outcome, done.attempts), (FrameOutcome::Failed, 1));
    let stats = medium.stats(0);
    assert_eq!((stats.rts_sent, stats.cts_missing, stats.attempts), (7, 7, 0));
    let own: Vec<_> = on_air(&mut medium).into_iter().filter(|air| air.0 == 0).collect();
    assert!(own.iter().all(|air| air.2 - air.1 == RTS_US), "{own:?}");
    // The time-out is SIFS, a slot and a PLCP header; then DIFS and whole slots.
    for pair in own.windows(2) {
        let waited = pair[1].1 - pair[0].2;
        assert!(waited >= 176 && (waited - 176).is_multiple_of(20), "{waited}");
    }
}

#[test]
fn announced_data_without_an_acknowledgement_is_given_up_at_the_long_limit() {
    let mut medium = medium(mesh(radios(2), us(1)));
    medium.handle_frame(at(1000), 0, frame(1, Some(2), 1500, TxOptions::default()));
    let mut data_end = Instant::ZERO;
    while let Some(now) = medium.poll_timeout() {
        medium.handle_timeout(now);
        // The link is cut while data is on the air, so that only RTS and CTS get through.
        while let Some(sent) = medium.poll_transmission() {
            if matches!(sent.kind, TransmissionKind::Data { .. }) {
                data_end = sent.end + us(1);
            }
        }
        medium.set_link_up(now, 0, now >= data_end);
    }
    let stats = medium.stats(0);
    assert_eq!((stats.attempts, stats.rts_sent, stats.cts_received), (4, 4, 4));
    assert_eq!((stats.failures, stats.acks_received), (1, 0));
}

#[test]
fn what_was_reserved_is_given_free_when_nothing_follows_the_announcement() {
    // Radio 1 is off: nobody answers.
    let mut medium = medium(mesh(radios(3), Duration::ZERO));
    medium.set_radio_up(at(0), 1, false);
    let once = TxOptions { attempts: Some(1), ..TxOptions::default() };
    medium.handle_frame(at(1000), 0, frame(1, Some(2), 1500, once));
    medium.handle_frame(at(1100), 2, frame(2, None, 100, no_ack()));
    run_out(&mut medium);
    let start = on_air(&mut medium).iter().find(|air| air.0 == 2).expect("it was sent").1;
    // The NAV is reset two SIFS, a CTS and two slots after the RTS; then DIFS and whole slots.
    let free = 1000 + RTS_US + 2 * 10 + ACK_US + 2 * 20;
    assert!(start >= free + 50 && (start - free - 50).is_multiple_of(20), "{start}");
    assert!(start < 1000 + RTS_US + NAV_US, "{start}");
    assert_eq!(medium.stats(2).nav_resets, 1);
}

#[test]
fn who_is_bound_to_silence_does_not_answer_an_announcement() {
    // Radio 1 hears the exchange of 2 and 3, which radio 0 does not.
    let pairs = [(0, 1), (1, 0), (2, 3), (3, 2), (2, 1), (1, 2)];
    let links = pairs.map(|(from, to)| link(from, to, Duration::ZERO)).to_vec();
    let mut medium = medium(MediumConfig::new(radios(4), links));
    medium.handle_frame(at(1000), 2, frame(1, Some(4), 1500, TxOptions::default()));
    // In the pause before the CTS, which radio 1 does not hear.
    let once = TxOptions { attempts: Some(1), ..TxOptions::default() };
    let given = 1000 + RTS_US + 5;
    medium.handle_frame(at(given), 0, frame(2, Some(2), 1500, once));
    let reports = run_out(&mut medium);
    let outcome =
        |id| dones(&reports).iter().find(|done| done.2.id.0 == id).map(|done| done.2.outcome);
    assert_eq!(outcome(1), Some(FrameOutcome::Acked(0)));
    assert_eq!(outcome(2), Some(FrameOutcome::Failed));
    assert_eq!(medium.stats(1).cts_sent, 0);
}

#[test]
fn mixed_802_11g_reserves_the_air_for_ofdm_in_a_way_that_802_11b_understands() {
    let phy = Phy { kind: PhyKind::G, mixed: true, ..Phy::default() };
    let chip = |node| ChipConfig {
        protection: Protection::CtsToSelf,
        ..ChipConfig::new(NodeId(node), RadioId(0), phy)
    };
    let mut medium = medium(mesh(vec![chip(1), chip(2)], Duration::ZERO));
    medium.handle_frame(at(1000), 0, frame(1, Some(2), 1500, TxOptions::default()));
    let slow = TxOptions { rate: Some(Bitrate::from_100kbps(110)), ..TxOptions::default() };
    medium.handle_frame(at(1000), 0, frame(2, Some(2), 1500, slow));
    run_out(&mut medium);
    let sent: Vec<_> = std::iter::from_fn(|| medium.poll_transmission()).collect();
    let names: Vec<_> = sent.iter().map(|tx| tx.name()).collect();
    assert_eq!(names, ["cts", "data", "ack", "data", "ack"]);
    // A CTS of 14 bytes at 2 Mb/s with the long preamble; data at 54 Mb/s with the signal
    // extension, 254 us; an acknowledgement of 34 us.
    assert_eq!((sent[0].end, sent[0].rate.mbps()), (at(1248), 2.0));
    assert_eq!((sent[1].start, sent[1].end), (at(1258), at(1258 + 254)));
    assert_eq!(sent[0].nav, us(10 + 254 + 10 + 34));
}

/// Radios with an RTS threshold and the longest TXOP in best effort.
fn bursts(count: u16, phy: Phy) -> Vec<ChipConfig> {
    let radio = |node| {
        let mut categories = AcParams::all(&phy);
        categories[AccessCategory::BestEffort as usize].txop = AcParams::MOST_TXOP;
        let usual = ChipConfig::new(NodeId(node), RadioId(0), phy);
        ChipConfig { edca: Some(categories), rts_threshold: Some(500), ..usual }
    };
    (1..=count).map(radio).collect()
}

fn names(medium: &mut Medium) -> Vec<&'static str> {
    std::iter::from_fn(|| medium.poll_transmission()).map(|sent| sent.name()).collect()
}

#[test]
fn each_receiver_of_a_txop_answers_whoever_holds_it() {
    let mut medium = medium(mesh(bursts(3, Phy::default()), us(1)));
    let together = TxOptions { not_before: Some(at(1_000)), ..TxOptions::default() };
    for id in 1..=4 {
        medium.handle_frame(at(500), 0, frame(id, Some(2 + id as u16 % 2), 1500, together));
    }
    run_out(&mut medium);
    assert_eq!(names(&mut medium), ["rts", "cts", "data", "ack"].repeat(4));
    assert_eq!(medium.stats(0).cts_missing, 0);
}

#[test]
fn what_no_duration_field_told_of_is_announced() {
    // The second comes while the first is on the air.
    let mut medium = medium(mesh(bursts(2, Phy::default()), Duration::ZERO));
    medium.handle_frame(at(1_000), 0, frame(1, Some(2), 1500, TxOptions::default()));
    medium.handle_frame(at(2_000), 0, frame(2, Some(2), 1500, TxOptions::default()));
    run_out(&mut medium);
    assert_eq!(names(&mut medium), ["rts", "cts", "data", "ack"].repeat(2));
}

#[test]
fn an_aggregate_behind_a_lone_frame_is_announced() {
    let phy = Phy { kind: PhyKind::N, ..Phy::default() };
    let mut medium = medium(mesh(bursts(2, phy), Duration::ZERO));
    medium.handle_frame(at(1_000), 0, frame(1, Some(2), 1500, TxOptions::default()));
    for id in 2..9 {
        medium.handle_frame(at(1_001), 0, frame(id, Some(2), 1500, TxOptions::default()));
    }
    run_out(&mut medium);
    assert_eq!(names(&mut medium)[..6], ["rts", "cts", "data", "ack", "rts", "cts"]);
}

#[test]
fn who_is_bound_by_a_later_exchange_does_not_answer_the_holder_of_the_first() {
    // a and b do not hear each other; c hears a and d, which b sends to.
    let [a, x, c, d, b] = [0, 1, 2, 3, 4];
    let pairs = [(a, x), (a, c), (c, d), (d, b)];
    let both = |(from, to)| [link(from, to, Duration::ZERO), link(to, from, Duration::ZERO)];
    let links = pairs.into_iter().flat_map(both).collect();
    let mut medium = medium(MediumConfig::new(radios(5), links));
    let slow = TxOptions { rate: Some(Bitrate::from_100kbps(10)), ..TxOptions::default() };
    medium.handle_frame(at(1_000), a, frame(1, Some(2), 1500, TxOptions::default()));
    medium.handle_frame(at(1_000), b, frame(2, Some(4), 1500, slow));
    medium.handle_frame(at(1_100), a, frame(3, Some(3), 1500, TxOptions::default()));
    run_out(&mut medium);
    let sent = on_air(&mut medium);
    let data_end = sent.iter().filter(|sent| sent.0 == b).map(|sent| sent.2).nth(1);
    let data_end = data_end.expect("an RTS, and data behind it");
    let first = sent.iter().find(|sent| sent.0 == c).expect("c answers in the end");
    assert!(data_end > 10_000 && first.1 > data_end, "{first:?} before {data_end}");
}
