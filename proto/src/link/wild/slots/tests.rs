//! The schedule of one node, driven by stamps.

use super::Delta::{Exact, Planned};
use super::*;
use crate::base::Seed;

const T: Duration = Duration::from_millis(20);
const NEAR: NodeId = NodeId(2);
const FAR: NodeId = NodeId(3);

fn slots(name: &str) -> Slots {
    Slots::new(T, Duration::from_millis(1), Seed(1).stream(name))
}

fn at(micros: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(micros)
}

/// A schedule that took over a slot of a neighbour which began at 1 s.
fn in_step() -> Slots {
    let mut slots = slots("in step");
    assert_eq!(slots.advance(Instant::ZERO), None);
    let stamp =
        slots.on_stamp(at(1_001_500), (NEAR, at(1_001_000)), Exact(Duration::from_millis(1)), 0, T);
    // The self-started slot was due long before, but nobody called `advance`.
    assert_eq!(stamp, Stamp::Taken { cut: false });
    slots
}

#[test]
fn a_node_listens_for_four_cycles_and_a_random_time() {
    let mut slots = slots("alone");
    assert_eq!(slots.advance(at(5)), None);
    let wait = slots.start().since(at(5));
    assert!(wait >= T * 8 && wait <= T * 10, "{wait}");
    assert_eq!(slots.advance(slots.due()), Some(SlotEvent::Began));
    let first_end = slots.end();
    assert_eq!(slots.advance(first_end), Some(SlotEvent::Ended));
    assert_eq!(slots.phase(), Phase::Start);
    let again = slots.start().since(first_end);
    assert!(again >= T && again <= T * 3, "{again}");
}

#[test]
fn our_slot_starts_when_the_neighbours_ends() {
    let mut slots = in_step();
    assert_eq!(slots.start(), at(1_020_000));
    assert_eq!(slots.advance(at(1_020_999)), None);
    assert_eq!(slots.advance(at(1_021_000)), Some(SlotEvent::Began));
    assert_eq!(slots.advance(at(1_039_999)), None);
    assert_eq!(slots.advance(at(1_040_000)), Some(SlotEvent::Ended));
    assert_eq!(slots.start(), at(1_060_000));
}

#[test]
fn the_latest_of_two_masters_counts_and_moves_by_a_quarter_slot_at_most() {
    let mut slots = in_step();
    slots.advance(at(1_021_000));
    slots.advance(at(1_040_000));
    let delta = Duration::from_millis(1);
    assert_eq!(
        slots.on_stamp(at(1_041_300), (NEAR, at(1_041_200)), Exact(delta), 0, T),
        Stamp::Held(200_000)
    );
    assert_eq!(
        slots.on_stamp(at(1_041_400), (FAR, at(1_041_100)), Exact(delta), 0, T),
        Stamp::Held(200_000)
    );
    assert_eq!(slots.start(), at(1_060_200));
    assert_eq!(
        slots.on_stamp(at(1_051_000), (NEAR, at(1_050_900)), Exact(delta), 0, T),
        Stamp::Held(9_900_000)
    );
    assert_eq!(slots.start(), at(1_065_000));
}

#[test]
fn a_cycle_takes_the_way_there_and_back_too_where_that_is_expected() {
    let way = Duration::from_micros(267);
    for (expected, beyond) in [(None, 0), (Some(way), 534)] {
        let mut slots = slots("expecting");
        expected.into_iter().for_each(|way| slots.expect(way));
        slots.advance(Instant::ZERO);
        let began = (NEAR, at(1_001_000));
        slots.on_stamp(at(1_001_500), began, Exact(Duration::from_millis(1)), 0, T);
        slots.advance(at(1_021_000));
        slots.advance(at(1_040_000));
        assert_eq!(slots.start(), at(1_060_000 + beyond), "after the first stamp");
    }
}

#[test]
fn a_late_wake_up_uses_what_is_left_or_passes_over() {
    let mut slots = in_step();
    assert_eq!(slots.advance(at(1_039_000)), Some(SlotEvent::Began));
    assert_eq!(slots.advance(at(1_041_000)), Some(SlotEvent::Ended));
    assert_eq!(slots.advance(at(1_130_000)), Some(SlotEvent::Missed(2)));
    assert_eq!(slots.start(), at(1_140_000));
    assert_eq!(slots.number(), 3);
}

#[test]
fn a_stamp_longer_than_the_slot_is_of_another_network() {
    let mut slots = in_step();
    let stamp = slots.on_stamp(
        at(1_041_300),
        (NEAR, at(1_041_200)),
        Exact(Duration::from_millis(21)),
        0,
        T,
    );
    assert_eq!(stamp, Stamp::TooLong);
}

#[test]
fn the_cycle_is_learned_where_the_way_is_long_beside_the_slot() {
    // The round trip over 80 km.
    let (t, way) = (Duration::from_millis(4), Duration::from_micros(534));
    let guard = Duration::from_millis(1);
    let mut slots = Slots::new(t, guard, Seed(1).stream("short"));
    slots.advance(Instant::ZERO);
    let begin = at(1_000_000);
    slots.on_stamp(begin, (NEAR, begin), Exact(Duration::ZERO), 0, t);
    for round in 1..60 {
        slots.advance(slots.due());
        slots.advance(slots.due());
        let heard = begin + (t * 2 + way) * round;
        slots.on_stamp(heard, (NEAR, heard), Exact(Duration::ZERO), 0, t);
    }
    assert!((slots.excess.nanos() - 534_000).abs() < 1_000, "{} ns", slots.excess.nanos());
}

#[test]
fn of_the_first_cycles_the_longest_counts() {
    // The neighbour continues with two slots, hears us once and is early again; then a host reports
    // a stamp 2 ms late.
    let mut slots = in_step();
    let mut ideal = at(1_040_000);
    for (way, learned) in [(0, 0), (534, 534), (0, 400), (2_000, 800), (1_334, 1_334)] {
        slots.advance(slots.due());
        slots.advance(slots.due());
        ideal += Duration::from_micros(way);
        slots.on_stamp(ideal, (NEAR, ideal), Exact(Duration::ZERO), 0, T);
        assert_eq!(slots.excess.nanos() / 1_000, learned);
        ideal += T * 2;
    }
}

#[test]
fn a_lost_stamp_costs_no_step_once_the_cycle_is_learned() {
    let mut slots = in_step();
    let way = Duration::from_micros(534);
    let cycle = T * 2 + way;
    for round in 0..60 {
        assert_eq!(slots.advance(slots.due()), Some(SlotEvent::Began));
        assert_eq!(slots.advance(slots.due()), Some(SlotEvent::Ended));
        let ideal = at(1_020_000) + cycle * (round + 1);
        if round < 40 || round % 3 == 0 {
            let heard = ideal.saturating_sub(T) + Duration::from_millis(1);
            slots.on_stamp(heard, (NEAR, heard), Exact(Duration::from_millis(1)), 0, T);
        }
        if round > 30 {
            let error = slots.start().signed_since(ideal).abs();
            assert!(error < 10_000, "{error} ns off in round {round}");
        }
    }
}

#[test]
fn between_unequal_ways_the_far_one_counts_even_where_its_stamp_is_lost() {
    // A hill, and a neighbour at a round trip of 200 km.
    let (way, none) = (Duration::from_micros(1_334), Duration::ZERO);
    let mut slots = in_step();
    let cycle = T * 2 + way;
    for round in 0..60 {
        slots.advance(slots.due());
        slots.advance(slots.due());
        let near = at(1_020_000) + cycle * round + T;
        slots.on_stamp(near, (NEAR, near), Exact(none), 0, T);
        let far = near + way;
        if round < 40 || round % 3 == 0 {
            slots.on_stamp(far, (FAR, far), Exact(none), 0, T);
        }
        if round > 30 {
            let error = slots.start().signed_since(far + T).abs();
            assert!(error < 10_000, "{error} ns off in round {round}");
        }
    }
    assert!((slots.excess.nanos() - 1_334_000).abs() < 10_000, "{} ns", slots.excess.nanos());
}

#[test]
fn a_planned_stamp_tells_of_a_cluster_to_follow_and_counts_until_an_exact_one_comes() {
    let (ms, us) = (Duration::from_millis, Duration::from_micros);
    let mut slots = in_step();
    slots.cluster = 5;
    let began = at(1_025_000);
    let told = |slots: &mut Slots, after, delta, cluster| {
        let heard = began + after;
        slots.on_stamp(heard + us(300), (NEAR, heard), delta, cluster, T)
    };
    // From nodes in step with us, and from nodes that follow us, it says nothing new.
    assert_eq!(told(&mut slots, ms(8), Planned(ms(7)), 5), Stamp::Planned);
    assert_eq!(told(&mut slots, ms(8), Planned(ms(7)), 6), Stamp::Planned);
    assert_eq!(slots.start(), at(1_020_000));
    assert_eq!(told(&mut slots, ms(8), Planned(ms(7)), 4), Stamp::Taken { cut: false });
    assert_eq!((slots.cluster(), slots.start()), (4, began + ms(21)));
    assert_eq!(told(&mut slots, ms(12), Planned(ms(12)), 4), Stamp::Held(-1_000_000));
    assert_eq!(slots.start(), began + ms(20));
    // The next exact one is off by more than a quarter of a slot, but counts in full; then the
    // schedule is exact.
    assert_eq!(slots.advance(slots.due()), Some(SlotEvent::Began));
    assert_eq!(slots.advance(slots.due()), Some(SlotEvent::Ended));
    let held = told(&mut slots, ms(48), Exact(us(500)), 4);
    assert_eq!((held, slots.start()), (Stamp::Held(7_500_000), began + us(67_500)));
    assert_eq!(told(&mut slots, ms(52), Planned(ms(7)), 4), Stamp::Planned);
    assert_eq!(slots.excess.nanos(), 0);
    // The learned cycle stays more exact than a planned time for long.
    let long = ms(40) * (STALE_CYCLES + 2);
    assert_eq!(told(&mut slots, long, Planned(ms(7)), 4), Stamp::Planned);
}

#[test]
fn who_is_not_in_step_waits_for_an_exact_stamp() {
    let mut slots = slots("newcomer");
    assert_eq!(slots.advance(Instant::ZERO), None);
    let heard = (NEAR, at(20_000));
    let mut told = |delta| slots.on_stamp(at(20_300), heard, delta, 3, T);
    assert_eq!(told(Planned(Duration::from_millis(4))), Stamp::Planned);
    assert_eq!(told(Exact(Duration::from_millis(4))), Stamp::Taken { cut: false });
}
