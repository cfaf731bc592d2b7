//! Access categories: bursts, internal collisions, shares of the air.

use farhop_testkit::oracles::edca::{Category, outcomes};

use super::*;
use crate::radio::AcParams;

/// 802.11b with the long preamble at 11 Mb/s, and categories as modified by `change`.
fn station(node: u16, change: impl Fn(&mut [AcParams; 4])) -> ChipConfig {
    let chip = ChipConfig::new(NodeId(node), RadioId(0), Phy::default());
    let mut categories = AcParams::all(&chip.phy);
    change(&mut categories);
    ChipConfig { edca: Some(categories), ..chip }
}

fn of(access: AccessCategory) -> TxOptions {
    TxOptions { access, ..TxOptions::default() }
}

/// A 1500-byte packet with QoS control: 192 us and 1538 bytes at 11 Mb/s.
const QOS_US: u64 = 1311;
/// 14 bytes at 2 Mb/s.
const ACK_US: u64 = 248;

#[test]
fn the_categories_have_the_parameters_of_the_standard() {
    let row = |access, phy: &Phy| {
        let AcParams { aifsn, cw_min, cw_max, txop } = AcParams::of(access, phy);
        (aifsn, cw_min, cw_max, txop.as_micros())
    };
    let b = Phy::default();
    let a = Phy { kind: farhop_proto::base::PhyKind::A, ..b };
    assert_eq!(row(AccessCategory::Voice, &b), (2, 7, 15, 3264));
    assert_eq!(row(AccessCategory::Video, &b), (2, 15, 31, 6016));
    assert_eq!(row(AccessCategory::BestEffort, &b), (3, 31, 1023, 0));
    assert_eq!(row(AccessCategory::Background, &b), (7, 31, 1023, 0));
    assert_eq!(row(AccessCategory::Voice, &a), (2, 3, 7, 1504));
    assert_eq!(row(AccessCategory::Video, &a), (2, 7, 15, 3008));
}

#[test]
fn six_frames_of_1500_bytes_fit_into_the_longest_txop() {
    let burst = |categories: &mut [AcParams; 4]| categories[1].txop = AcParams::MOST_TXOP;
    let mut medium = medium(mesh(vec![station(1, burst), station(2, burst)], us(3)));
    for id in 1..=8 {
        medium.handle_frame(at(1000), 0, frame(id, Some(2), 1500, no_ack()));
    }
    run_out(&mut medium);
    let starts: Vec<u64> = on_air(&mut medium).iter().map(|air| air.1).collect();
    let step = QOS_US + 10;
    assert_eq!(starts[..6], [0, 1, 2, 3, 4, 5].map(|place| 1000 + place * step));
    // A seventh would end after 8160 us: it contends, AIFS and whole slots later.
    let end = starts[5] + QOS_US;
    assert!(starts[6] >= end + 70 && (starts[6] - end - 70).is_multiple_of(20), "{starts:?}");
    assert_eq!(starts[7], starts[6] + step);
    assert_eq!(medium.stats(0).bursts, 6);
}

#[test]
fn with_acknowledgements_five_fit_and_their_durations_cover_the_next() {
    let burst = |categories: &mut [AcParams; 4]| categories[1].txop = AcParams::MOST_TXOP;
    let mut medium = medium(mesh(vec![station(1, burst), station(2, burst)], Duration::ZERO));
    let together = TxOptions { not_before: Some(at(1000)), ..TxOptions::default() };
    for id in 1..=6 {
        medium.handle_frame(at(500), 0, frame(id, Some(2), 1500, together));
    }
    run_out(&mut medium);
    let sent: Vec<_> = std::iter::from_fn(|| medium.poll_transmission()).collect();
    let step = QOS_US + 10 + ACK_US + 10;
    for place in 0..5 {
        let data = &sent[place * 2];
        assert_eq!(data.start, at(1000 + place as u64 * step));
        let next = if place < 4 { step } else { 0 };
        assert_eq!(data.nav, us(10 + ACK_US + next), "{place}");
        assert_eq!(sent[place * 2 + 1].nav, us(next), "{place}");
    }
    let end = 1000 + 5 * step - 10;
    let waited = sent[10].start.as_nanos() / 1000 - end;
    assert!(waited >= 70 && (waited - 70).is_multiple_of(20), "{waited}");
}

#[test]
fn without_a_txop_each_frame_contends() {
    let mut medium = medium(mesh(vec![station(1, |_| ()), station(2, |_| ())], us(3)));
    for id in 1..=4 {
        medium.handle_frame(at(1000), 0, frame(id, Some(2), 500, no_ack()));
    }
    run_out(&mut medium);
    for pair in on_air(&mut medium).windows(2) {
        let waited = pair[1].1 - pair[0].2;
        assert!(waited >= 70 && (waited - 70).is_multiple_of(20), "{waited}");
    }
    assert_eq!(medium.stats(0).bursts, 0);
}

#[test]
fn of_two_categories_that_are_ready_together_the_higher_one_sends() {
    let mut medium = medium(mesh(vec![station(1, |_| ()), station(2, |_| ())], Duration::ZERO));
    let at_once = |access| TxOptions { not_before: Some(at(1000)), ..of(access) };
    let orders = [AccessCategory::Background, AccessCategory::Voice];
    for (id, access) in (1..).zip(orders) {
        medium.handle_frame(at(500), 0, frame(id, Some(2), 1500, at_once(access)));
    }
    let reports = run_out(&mut medium);
    let air = on_air(&mut medium);
    let end = 1000 + QOS_US + 10 + ACK_US;
    assert_eq!(air[..2], [(0, 1000, 1000 + QOS_US), (1, end - ACK_US, end)]);
    // The other function now has a window of 63, and an AIFS of seven slots.
    let waited = air[2].1 - end;
    assert!(waited >= 150 && (waited - 150).is_multiple_of(20), "{waited}");
    assert!((waited - 150) / 20 <= 63, "{waited}");
    let ends: Vec<_> =
        dones(&reports).iter().map(|(_, _, done)| (done.id.0, done.attempts)).collect();
    assert_eq!(ends, [(2, 1), (1, 1)]);
    assert_eq!(medium.stats(0).internal_collisions, 1);
}

/// Voice with an empty window is ready whenever its interframe space is over.
fn greedy(categories: &mut [AcParams; 4]) {
    categories[3].cw_min = 0;
    categories[3].cw_max = 0;
    categories[1] = categories[3];
}

#[test]
fn a_frame_that_nobody_answers_only_waits_for_the_others_of_its_radio() {
    let mut medium = medium(mesh(vec![station(1, greedy), station(2, greedy)], Duration::ZERO));
    let later = |options| TxOptions { not_before: Some(at(1000)), ..options };
    let access = AccessCategory::BestEffort;
    let once = TxOptions { access, attempts: Some(1), ..no_ack() };
    medium.handle_frame(at(500), 0, frame(0, Some(2), 500, later(once)));
    for id in 1..40 {
        let options = later(of(AccessCategory::Voice));
        medium.handle_frame(at(500), 0, frame(id, Some(2), 500, options));
    }
    let reports = run_out(&mut medium);
    let last = dones(&reports).last().map(|(_, _, done)| (done.id.0, done.outcome));
    assert_eq!(last, Some((0, FrameOutcome::Sent)));
    assert!(medium.stats(0).internal_collisions > 7);
}

#[test]
fn frames_that_never_win_inside_their_radio_are_given_up() {
    let mut medium = medium(mesh(vec![station(1, greedy), station(2, greedy)], Duration::ZERO));
    for id in 0..20 {
        let access = if id == 0 { AccessCategory::BestEffort } else { AccessCategory::Voice };
        let options = TxOptions { not_before: Some(at(1000)), ..of(access) };
        medium.handle_frame(at(500), 0, frame(id, Some(2), 500, options));
    }
    let reports = run_out(&mut medium);
    let lost: Vec<_> = dones(&reports)
        .into_iter()
        .filter(|(_, _, done)| done.outcome == FrameOutcome::Failed)
        .map(|(_, _, done)| (done.id.0, done.attempts))
        .collect();
    assert_eq!(lost, [(0, 0)]);
    assert_eq!(medium.stats(0).internal_collisions, 7);
}

#[test]
fn each_category_has_room_of_its_own() {
    let mut medium = medium(mesh(vec![station(1, |_| ()), station(2, |_| ())], us(1)));
    let room = |medium: &Medium, access| medium.room(0, access);
    for id in 0..50 {
        medium.handle_frame(at(0), 0, frame(id, Some(2), 100, of(AccessCategory::Video)));
    }
    assert_eq!(room(&medium, AccessCategory::Video), 0);
    assert_eq!(room(&medium, AccessCategory::Voice), 50);
}

/// The share of the first of two classes of five saturated stations, as measured and by the model.
/// A class is given by its smallest window and its AIFSN; the largest window is 1023.
fn share(first: (u32, u8), second: (u32, u8)) -> (f64, f64) {
    const COUNT: usize = 5;
    let station = |node: u16, (cw_min, aifsn): (u32, u8)| {
        let params = AcParams { aifsn, cw_min, cw_max: 1023, txop: Duration::ZERO };
        let edca = Some([params; 4]);
        ChipConfig { edca, attempts: 255, overhear: false, ..chip(node) }
    };
    let mut radios: Vec<_> = (0..COUNT).map(|index| station(index as u16 + 1, first)).collect();
    radios.extend((0..COUNT).map(|index| station((COUNT + index) as u16 + 1, second)));
    radios.push(station(2 * COUNT as u16 + 1, second));
    let mut medium = Medium::new(mesh(radios, us(1)), Seed(3));
    let sources: Vec<_> = (0..2 * COUNT)
        .map(|radio| Saturated {
            radio,
            to: 2 * COUNT as u16 + 1,
            bytes: 1500,
            options: TxOptions::default(),
        })
        .collect();
    let tally = saturate(&mut medium, 2 * COUNT + 1, &sources, Duration::from_secs(40));
    let done = |range: std::ops::Range<usize>| -> u64 { tally[range].iter().map(|t| t.done).sum() };
    let ours = done(0..COUNT) as f64 / done(0..2 * COUNT) as f64;
    let category = |(window_min, aifsn): (u32, u8)| Category {
        stations: COUNT as u32,
        window_min,
        window_max: 1023,
        aifsn: u32::from(aifsn),
        attempts: 255,
    };
    (ours, outcomes(&[category(first), category(second)])[0].share)
}

#[test]
fn saturated_categories_share_the_air_as_the_fixed_point_says() {
    for (name, first, second) in [
        ("windows", (15, 2), (31, 2)),
        ("interframe spaces", (31, 2), (31, 4)),
        ("both", (15, 2), (31, 3)),
        ("far apart", (31, 2), (31, 7)),
    ] {
        let (ours, expected) = share(first, second);
        println!("{name}: {ours:.4} ({expected:.4})");
        assert!((ours - expected).abs() < 0.03, "{name}: {ours:.4} instead of {expected:.4}");
    }
}
