//! Radios that go down and links that are cut.

use super::*;

#[test]
fn a_radio_that_goes_down_ends_its_frames_and_cuts_what_it_had_on_air() {
    let mut medium = medium(mesh(vec![chip(1), chip(2)], us(3)));
    for id in 1..=3 {
        medium.handle_frame(at(1000), 0, frame(id, Some(2), 1500, TxOptions::default()));
    }
    medium.set_radio_up(at(1500), 0, false);
    assert_eq!(medium.room(0, AccessCategory::BestEffort), 0);
    let reports = run_out(&mut medium);
    assert!(receptions(&reports).is_empty());
    assert_eq!(medium.stats(1).busy, us(500));
    let ends = dones(&reports);
    assert_eq!(ends.len(), 3);
    assert!(
        ends.iter()
            .all(|(_, end, done)| { *end == at(1500) && done.outcome == FrameOutcome::Failed })
    );
    medium.set_radio_up(at(9000), 0, true);
    medium.handle_frame(at(9500), 0, frame(4, Some(2), 1500, TxOptions::default()));
    let reports = run_out(&mut medium);
    assert_eq!(dones(&reports)[0].2.outcome, FrameOutcome::Acked(0));
}

#[test]
fn a_radio_that_comes_back_in_the_middle_of_a_frame_cannot_decode_it() {
    let mut medium = medium(mesh(vec![chip(1), chip(2)], us(3)));
    medium.set_radio_up(at(0), 1, false);
    medium.handle_frame(at(1000), 0, frame(1, Some(2), 1500, no_ack()));
    medium.set_radio_up(at(1500), 1, true);
    medium.handle_frame(at(1600), 1, frame(2, Some(1), 1500, no_ack()));
    let reports = run_out(&mut medium);
    let received = receptions(&reports);
    // It senses the rest of the frame, though, and waits.
    assert_eq!(received.len(), 1);
    assert_eq!(received[0].2.from, NodeId(2));
}

#[test]
fn what_was_on_the_air_when_a_radio_came_up_still_interferes() {
    // Radios 1 and 3 do not hear each other; radio 2 is switched off, or off and on, during a frame
    // of radio 1, and hears that of radio 3 only once it is up.
    for off in [900, 1_200] {
        let links = vec![link(0, 1, us(3)), link(2, 1, us(3))];
        let mut medium = medium(MediumConfig::new((1..=3).map(chip).collect(), links));
        let begin = |medium: &mut Medium| {
            medium.handle_frame(at(1_000), 0, frame(1, Some(2), 1_500, no_ack()));
        };
        if off > 1_000 {
            begin(&mut medium);
        }
        medium.set_radio_up(at(off), 1, false);
        if off < 1_000 {
            begin(&mut medium);
        }
        medium.set_radio_up(at(1_500), 1, true);
        medium.handle_frame(at(1_600), 2, frame(2, Some(2), 100, no_ack()));
        medium.handle_frame(at(5_000), 2, frame(3, Some(2), 100, no_ack()));
        let received = receptions(&run_out(&mut medium));
        let starts: Vec<Instant> = received.iter().map(|received| received.2.started).collect();
        assert_eq!(starts, [at(5_003)], "switched off after {off} us");
    }
}

#[test]
fn a_frame_that_began_while_a_radio_was_down_collides_with_nothing() {
    let mut config = mesh(vec![chip(1), chip(2)], us(3));
    config.interference = super::reception::sinr();
    let mut medium = medium(config);
    medium.set_radio_up(at(0), 1, false);
    medium.handle_frame(at(1_000), 0, frame(1, Some(2), 1_500, no_ack()));
    medium.set_radio_up(at(1_500), 1, true);
    assert!(receptions(&run_out(&mut medium)).is_empty());
    let stats = medium.stats(1);
    assert_eq!((stats.collisions, stats.air_collided), (0, Duration::ZERO));
}

#[test]
fn a_link_that_is_cut_loses_the_frame_on_its_way_and_all_after_it() {
    let mut medium = medium(mesh(vec![chip(1), chip(2)], us(3)));
    medium.handle_frame(at(1000), 0, frame(1, Some(2), 1500, no_ack()));
    medium.set_link_up(at(1500), 0, false);
    medium.handle_frame(at(5000), 0, frame(2, Some(2), 1500, no_ack()));
    assert!(receptions(&run_out(&mut medium)).is_empty());
    medium.set_link_up(at(20_000), 0, true);
    medium.handle_frame(at(20_000), 0, frame(3, Some(2), 1500, no_ack()));
    assert_eq!(receptions(&run_out(&mut medium)).len(), 1);
}

#[test]
fn nodes_whose_links_are_cut_do_not_hear_each_other_over_links_that_come_to_be() {
    let mut medium = medium(MediumConfig::new(vec![chip(1), chip(2)], vec![link(0, 1, us(3))]));
    let heard = |medium: &mut Medium, begin: u64| {
        for radio in 0..2 {
            let other = Some(2 - radio as u16);
            medium.handle_frame(
                at(begin + 5_000 * radio),
                radio as usize,
                frame(1, other, 100, no_ack()),
            );
        }
        receptions(&run_out(medium)).len()
    };
    medium.set_linked(at(0), [NodeId(2), NodeId(1)], false);
    medium.set_links(at(0), 1, &[link(1, 0, us(3))]);
    assert_eq!(heard(&mut medium, 1_000), 0);
    medium.set_linked(at(20_000), [NodeId(1), NodeId(2)], true);
    assert_eq!(heard(&mut medium, 30_000), 2);
}

#[test]
fn what_nobody_hears_leaves_no_place_taken_when_it_is_cut_off() {
    let mut medium = medium(MediumConfig::new(vec![chip(1)], vec![]));
    for turn in 0..10 {
        let begin = 10_000 * turn;
        medium.handle_frame(at(begin), 0, frame(turn, None, 1500, no_ack()));
        medium.set_radio_up(at(begin + 500), 0, false);
        medium.set_radio_up(at(begin + 5_000), 0, true);
        run_out(&mut medium);
    }
    assert_eq!(medium.places_on_air(), 1);
}

#[test]
fn what_is_left_of_an_overlap_when_one_of_the_frames_is_cut_off_still_occupies_the_receiver() {
    // When the second frame begins, its length, and which of the two frames is cut off; the first
    // takes 1.2 ms. The one that was cut off would always have ended last.
    for (start, bytes, cut) in [(1300, 300, 1), (1100, 1500, 2)] {
        let links = (1..4).map(|from| link(from, 0, us(3))).collect();
        let mut medium = medium(MediumConfig::new((1..=4).map(chip).collect(), links));
        medium.handle_frame(at(1000), 1, frame(1, Some(1), 1500, no_ack()));
        medium.handle_frame(at(start), 2, frame(2, Some(1), bytes, no_ack()));
        medium.set_radio_up(at(1400), cut, false);
        medium.handle_frame(at(1500), 3, frame(3, Some(1), 100, no_ack()));
        medium.handle_frame(at(4000), 3, frame(4, Some(1), 100, no_ack()));
        let received = receptions(&run_out(&mut medium));
        let starts: Vec<Instant> = received.iter().map(|received| received.2.started).collect();
        assert_eq!(starts, [at(4003)], "{cut} was cut off");
    }
}
