//! Overlap, capture and half duplex at one receiver (`radio.md` 4.1).

use super::*;
use crate::radio::Interference;
use farhop_proto::base::PhyKind;
use farhop_proto::stack::{CurveConfig, SinrSettings};

/// Radios 0 and 1 reach radio 2 with these signals, and do not hear each other.
fn hidden(signals: [i32; 2]) -> Medium {
    let links = [0, 1]
        .map(|from| AirLink { signal: Dbm::new(signals[from]), ..link(from, 2, Duration::ZERO) });
    medium(MediumConfig::new([1, 2, 3].map(chip).to_vec(), links.to_vec()))
}

fn heard(medium: &mut Medium, starts: [u64; 2]) -> Vec<u16> {
    let mut order = [0, 1];
    order.sort_by_key(|radio| starts[*radio]);
    for radio in order {
        medium.handle_frame(at(starts[radio]), radio, frame(1, Some(3), 500, no_ack()));
    }
    let reports = run_out(medium);
    receptions(&reports).iter().map(|(_, _, frame)| frame.from.0).collect()
}

#[test]
fn frames_that_overlap_at_a_receiver_are_both_lost() {
    let mut medium = hidden([-60, -60]);
    assert_eq!(heard(&mut medium, [1000, 1300]), [0_u16; 0]);
    assert_eq!(medium.stats(2).collisions, 2);
}

#[test]
fn frames_one_after_the_other_are_both_received() {
    assert_eq!(heard(&mut hidden([-60, -60]), [1000, 2000]), [1, 2]);
}

#[test]
fn the_first_frame_survives_one_that_is_ten_decibels_weaker() {
    let mut medium = hidden([-60, -70]);
    assert_eq!(heard(&mut medium, [1000, 1300]), [1]);
    assert_eq!(medium.stats(2).captures, 1);
    assert_eq!(heard(&mut hidden([-60, -69]), [1000, 1300]), [0_u16; 0]);
}

#[test]
fn a_stronger_frame_that_comes_later_does_not_capture() {
    assert_eq!(heard(&mut hidden([-60, -30]), [1000, 1300]), [0_u16; 0]);
}

#[test]
fn a_third_frame_cannot_use_a_receiver_that_a_collision_occupies() {
    let links = [0, 1, 2].map(|from| link(from, 3, Duration::ZERO)).to_vec();
    let mut medium = medium(MediumConfig::new([1, 2, 3, 4].map(chip).to_vec(), links));
    // 488 us each: the first ends at 1488, the second at 1788.
    for (radio, start) in [(0, 1000), (1, 1300), (2, 1500)] {
        medium.handle_frame(at(start), radio, frame(1, Some(4), 500, no_ack()));
    }
    assert!(receptions(&run_out(&mut medium)).is_empty());
    assert_eq!(medium.stats(3).collisions, 3);
}

#[test]
fn a_radio_that_transmits_hears_nothing() {
    // They start 100 us after each other, and hear each other only 300 us later.
    let mut medium = medium(mesh(vec![chip(1), chip(2)], us(300)));
    medium.handle_frame(at(1000), 0, frame(1, Some(2), 500, no_ack()));
    medium.handle_frame(at(1100), 1, frame(1, Some(1), 500, no_ack()));
    assert!(receptions(&run_out(&mut medium)).is_empty());
    assert_eq!((medium.stats(0).missed, medium.stats(1).missed), (1, 1));
}

#[test]
fn a_radio_that_starts_to_transmit_loses_what_it_was_receiving() {
    let deaf = ChipConfig { carrier_sense: false, ..chip(2) };
    let mut medium = medium(mesh(vec![chip(1), deaf], us(3)));
    medium.handle_frame(at(1000), 0, frame(1, Some(2), 500, no_ack()));
    medium.handle_frame(at(1100), 1, frame(1, Some(1), 500, no_ack()));
    assert!(receptions(&run_out(&mut medium)).is_empty());
    assert_eq!(on_air(&mut medium)[1].1, 1100);
    assert_eq!((medium.stats(0).missed, medium.stats(1).missed), (1, 1));
}

#[test]
fn a_frame_too_weak_to_decode_still_keeps_the_medium_busy() {
    let mut config = mesh(vec![chip(1), chip(2)], Duration::ZERO);
    for radio in &mut config.radios {
        radio.receive_threshold = Dbm::new(-59);
    }
    let mut medium = medium(config);
    medium.handle_frame(at(1000), 0, frame(1, None, 500, no_ack()));
    medium.handle_frame(at(1100), 1, frame(1, None, 500, no_ack()));
    assert!(receptions(&run_out(&mut medium)).is_empty());
    let air = on_air(&mut medium);
    assert!(air[1].1 >= air[0].2 + 50, "{air:?}");
}

#[test]
fn a_copy_is_acknowledged_but_not_delivered() {
    let mut config = mesh(vec![chip(1), chip(2)], us(3));
    config.links[1].loss = LossModel::Bernoulli { p: 0.5 };
    let mut medium = medium(config);
    for id in 0..40 {
        medium.handle_frame(at(1000), 0, frame(id, Some(2), 500, TxOptions::default()));
    }
    let reports = run_out(&mut medium);
    assert_eq!(receptions(&reports).len(), 40);
    let (sender, receiver) = (medium.stats(0), medium.stats(1));
    assert!(receiver.duplicates > 20);
    assert_eq!(receiver.duplicates, sender.retries);
    assert_eq!(receiver.acks_sent, sender.attempts);
    assert_eq!(sender.lost, sender.attempts - sender.acks_received);
}

#[test]
fn each_radio_of_a_node_hears_but_one_of_them_is_addressed() {
    let second = ChipConfig { radio: RadioId(1), ..chip(2) };
    let mut medium = medium(mesh(vec![chip(1), chip(2), second], us(3)));
    medium.handle_frame(at(1000), 0, frame(1, Some(2), 500, TxOptions::default()));
    let reports = run_out(&mut medium);
    assert_eq!(receptions(&reports).len(), 1);
    assert_eq!(dones(&reports)[0].2.attempts, 1);
    assert_eq!((medium.stats(1).acks_sent, medium.stats(2).acks_sent), (1, 0));
}

#[test]
fn radios_on_different_channels_do_not_hear_each_other() {
    let other = ChipConfig { channel: 6, ..chip(2) };
    let mut medium = medium(mesh(vec![chip(1), other], us(3)));
    medium.handle_frame(at(1000), 0, frame(1, Some(2), 500, no_ack()));
    assert!(receptions(&run_out(&mut medium)).is_empty());
    assert_eq!(medium.stats(1).busy, Duration::ZERO);
}

#[test]
fn frames_that_only_touch_are_both_received() {
    // The second was sent first, over the longer way: its edges come first in the queue.
    let length = 488;
    let links = vec![link(0, 2, us(1)), link(1, 2, us(2000))];
    let mut medium = medium(MediumConfig::new([1, 2, 3].map(chip).to_vec(), links));
    medium.handle_frame(at(1000), 1, frame(1, Some(3), 500, no_ack()));
    medium.handle_frame(at(3000 - 1 - length), 0, frame(1, Some(3), 500, no_ack()));
    let reports = run_out(&mut medium);
    assert_eq!(on_air(&mut medium)[1], (0, 3000 - 1 - length, 3000 - 1));
    let order: Vec<_> = receptions(&reports).iter().map(|(_, at, f)| (*at, f.from.0)).collect();
    assert_eq!(order, [(at(3000), 1), (at(3000 + length), 2)]);
}

#[test]
fn a_signal_too_weak_to_decode_destroys_what_comes_after_it_from_the_first_moment_on() {
    // Radio 0 is only sensed; nothing has happened at the receiver before.
    let mut config = MediumConfig::new(
        [1, 2, 3].map(chip).to_vec(),
        [-70, -64]
            .iter()
            .enumerate()
            .map(|(from, dbm)| AirLink { signal: Dbm::new(*dbm), ..link(from, 2, us(1)) })
            .collect(),
    );
    config.radios[2].receive_threshold = Dbm::new(-65);
    let mut medium = medium(config);
    assert_eq!(heard(&mut medium, [1000, 1300]), [0_u16; 0]);
    assert_eq!(medium.stats(2).collisions, 1);
}

pub(super) fn sinr() -> Interference {
    Interference::Sinr(SinrSettings {
        noise_dbm: Some(-94.0),
        preamble_db: Some(4.0),
        preamble_min_dbm: Some(-101.0),
        curve: CurveConfig::default(),
    })
}

#[test]
fn what_comes_in_the_silence_behind_ofdm_at_2_4_ghz_destroys_nothing() {
    let phy = Phy { kind: PhyKind::G, ..Phy::default() };
    let passes = |before_end: u64| {
        let radios = [1, 2, 3].map(|node| ChipConfig::new(NodeId(node), RadioId(0), phy)).to_vec();
        let links = vec![link(0, 1, Duration::ZERO), link(2, 1, Duration::ZERO)];
        let mut medium = medium(MediumConfig { radios, links, interference: sinr() });
        medium.handle_frame(at(1_000), 0, frame(1, Some(2), 1500, no_ack()));
        let end = 1_000 + phy.air_time(1500 + 38, Bitrate::from_100kbps(540)).as_micros();
        medium.handle_frame(at(end - before_end), 2, frame(2, None, 100, no_ack()));
        let reports = run_out(&mut medium);
        assert_eq!(on_air(&mut medium)[0].2, end);
        receptions(&reports).len() == 1
    };
    assert!(passes(5));
    assert!(!passes(14));
}

#[test]
fn a_frame_that_was_missed_has_not_collided() {
    let mut config = mesh(vec![chip(1), ChipConfig { carrier_sense: false, ..chip(2) }], us(3));
    config.interference = sinr();
    let mut medium = medium(config);
    medium.handle_frame(at(1_000), 0, frame(1, Some(2), 500, no_ack()));
    medium.handle_frame(at(1_100), 1, frame(1, Some(1), 500, no_ack()));
    run_out(&mut medium);
    let stats = [0, 1].map(|radio| (medium.stats(radio).missed, medium.stats(radio).collisions));
    assert_eq!(stats, [(1, 0), (1, 0)]);
}
