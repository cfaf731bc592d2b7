//! The middle of a star, and its stations.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// The middle of a star of four stations, nodes 2 to 5.
fn hub() -> Wild {
    hub_with(&WildConfig::default())
}

fn hub_with(config: &WildConfig) -> Wild {
    hub_of(config, 4)
}

/// The middle of a star of `stations` stations, from node 2 on.
fn hub_of(config: &WildConfig, stations: u16) -> Wild {
    let peer = |node| PeerSpec { node: NodeId(node), radio: RadioId(0) };
    let peers: Vec<PeerSpec> = (2..2 + stations).map(peer).collect();
    let mut wild = Wild::build(config, NodeId(1), &[radio(0, 1)], &peers, Seed(1));
    wild.set_turns(&[Turn::Grants { splits: true }]);
    wild.handle_timeout(&mut Cx::new(Instant::ZERO));
    wild
}

/// As [`turns_by`], with all demands in data frames.
fn turns_for(wild: &mut Wild, here: &[(u16, u8)], cycles: u16) -> Vec<(u16, f64)> {
    let here: Vec<_> = here.iter().map(|(node, demand)| (*node, *demand, Kind::Data)).collect();
    turns_by(wild, &here, cycles)
}

/// As [`turns_from`], over several cycles; returns the turns of the last one.
fn turns_by(wild: &mut Wild, here: &[(u16, u8, Kind)], cycles: u16) -> Vec<(u16, f64)> {
    (0..u64::from(cycles)).map(|cycle| turns_from(wild, here, cycle)).last().expect("a cycle")
}

/// In a cycle, the stations in `here` announce their demand in frames of some kind. Returns the
/// turns that the middle then announces: by node, in parts of a slot.
fn turns_from(wild: &mut Wild, here: &[(u16, u8, Kind)], cycle: u64) -> Vec<(u16, f64)> {
    turns_in(&frames_after(wild, here, cycle)[0])
}

/// The turns that a beacon announces.
fn turns_in(beacon: &Frame) -> Vec<(u16, f64)> {
    let first = decode(&beacon.payload).expect("a frame of ours");
    assert_eq!((first.header.kind, beacon.to), (Kind::Idle, None), "a beacon for all");
    let turns = Turns::read(&first.body.slice(4..)).expect("turns");
    let ends = turns.turns.iter().map(|it| u32::from(it.from) + u32::from(it.length));
    assert!(ends.max() < Some(65_536), "all within the slot");
    let part = |it: &TurnEntry| (it.node, f64::from(it.length) / 65_536.0);
    let mut told: Vec<_> = turns.turns.iter().map(part).collect();
    told.sort_unstable_by_key(|(node, _)| *node);
    told
}

/// What the middle sends in a cycle after these stations were heard.
fn frames_after(wild: &mut Wild, here: &[(u16, u8, Kind)], cycle: u64) -> Vec<Frame> {
    let slot = at(100_000) + T * 2 * cycle;
    for (place, (from, demand, kind)) in here.iter().enumerate() {
        let micros = 1_000 + 700 * place as u32;
        let started = slot + Duration::from_micros(u64::from(micros));
        let (demand, kind) = (*demand, *kind);
        let header = Header { demand, kind, ..data_of(*from, cycle as u16 + 1, micros) };
        comes(wild, (*from, 0), started, &header, true);
    }
    drain(wild, slot + T + WildConfig::default().guard())
}

#[test]
fn a_station_with_much_gets_nearly_the_whole_slot_and_idle_ones_a_short_turn() {
    let told = turns_for(&mut hub(), &[(2, 0), (3, 200), (4, 0), (5, 0)], 9);
    let nodes: Vec<u16> = told.iter().map(|(node, _)| *node).collect();
    assert_eq!(nodes, [2, 3, 4, 5]);
    assert!(told[1].1 > 0.6, "{told:?}");
    let idle = [told[0].1, told[2].1, told[3].1];
    assert!(idle.iter().all(|turn| (0.02..0.1).contains(turn)), "{told:?}");
}

#[test]
fn stations_that_all_have_much_get_the_same() {
    let told = turns_for(&mut hub(), &[(2, 255), (3, 100), (4, 255), (5, 70)], 9);
    assert!(told.iter().all(|(_, turn)| (0.2..0.25).contains(turn)), "{told:?}");
}

#[test]
fn the_middle_of_a_star_splits_a_cycle_by_what_waits_on_either_side() {
    let (slot_least_ms, slot_most_ms) = (Some(5.0), Some(35.0));
    let config = WildConfig { slot_least_ms, slot_most_ms, ..WildConfig::default() };
    // Packets waiting at the middle, demand of each of two stations, and the range of the length.
    for (waiting, demand, least, most) in
        [(0, 0, 64, 64), (0, 255, 16, 16), (60, 0, 90, 112), (60, 255, 64, 64), (8, 255, 16, 48)]
    {
        let mut wild = hub_with(&config);
        let here = [(2, demand, Kind::Data), (3, demand, Kind::Data)];
        (1..=waiting).for_each(|id| offers(&mut wild, 2, id));
        turns_by(&mut wild, &here, 1);
        let length = wild.groups[0].slots.own().div_duration(T / 64);
        println!("{waiting} packets, demand {demand}: {length} of 64");
        assert!((least..=most).contains(&length), "{waiting}, {demand}: {length}");
        let theirs = wild.groups[0].slots.theirs();
        assert_eq!(wild.groups[0].slots.own() + theirs, T * 2, "a cycle stays as it is");
    }
}

#[test]
fn whoever_is_missing_is_asked_by_name() {
    let told = turns_for(&mut hub(), &[(2, 255), (3, 255), (4, 255)], 5);
    let (node, turn) = told[3];
    assert!(node == 5 && (0.01..0.1).contains(&turn), "{told:?}");
    let told = turns_for(&mut hub(), &[(2, 255), (3, 255), (4, 255), (5, 255)], 9);
    assert!(told[3].1 > 0.2, "it was heard and has as much as the others: {told:?}");
}

#[test]
fn while_nobody_is_here_many_are_asked_at_once() {
    let mut wild = hub_of(&WildConfig::default(), 50);
    let told = turns_for(&mut wild, &[(2, 0)], 5);
    assert!(told.len() >= 7, "{told:?}");
    let mut asked: BTreeSet<u16> = BTreeSet::new();
    for cycle in 5..65 {
        asked.extend(turns_from(&mut wild, &[(2, 0, Kind::Data)], cycle).iter().map(|it| it.0));
    }
    assert_eq!(asked.len(), 50, "each of them within three seconds");
}

#[test]
fn however_many_stations_there_are_each_has_a_turn_and_half_of_the_slot_is_for_packets() {
    let packet = radio(0, 1).unacknowledged(HEADER_BYTES + FULL_PACKET_BYTES);
    let packet = packet.as_millis_f64() / T.as_millis_f64();
    for stations in [12, 25, 60, 100] {
        let mut wild = hub_of(&WildConfig::default(), stations);
        wild.peers.iter_mut().for_each(|peer| (peer.is_up, peer.demand) = (true, 255));
        let (mut turns, mut fed) = (BTreeMap::new(), BTreeMap::new());
        let cycles = 400;
        for cycle in 0..cycles {
            // All are heard, whatever their turns.
            wild.peers.iter_mut().for_each(|peer| peer.heard = Some(at(100_000) + T * 2 * cycle));
            let told = turns_from(&mut wild, &[(2, 255, Kind::Data)], cycle);
            let large = told.iter().filter(|(_, turn)| *turn >= packet);
            let of_packets: f64 = large.clone().map(|(_, turn)| turn).sum();
            assert!(of_packets > 0.3, "{stations} stations, cycle {cycle}: {told:?}");
            large.for_each(|(node, _)| *fed.entry(*node).or_insert(0) += 1);
            told.iter().for_each(|(node, _)| *turns.entry(*node).or_insert(0) += 1);
        }
        let range = |count: &BTreeMap<u16, u32>| {
            (count.len(), *count.values().min().unwrap_or(&0), *count.values().max().unwrap_or(&0))
        };
        println!("{stations}: turns {:?}, with packets {:?}", range(&turns), range(&fed));
        for (all, least, most) in [range(&turns), range(&fed)] {
            assert!(all == usize::from(stations) && most <= least + least / 2);
        }
    }
}

#[test]
fn stations_with_nothing_to_send_are_served_more_rarely() {
    let mut wild = hub_of(&WildConfig::default(), 60);
    wild.peers.iter_mut().for_each(|peer| peer.is_up = true);
    let mut turns: BTreeMap<u16, u32> = BTreeMap::new();
    for cycle in 0..200 {
        wild.peers.iter_mut().for_each(|peer| peer.heard = Some(at(100_000) + T * 2 * cycle));
        let told = turns_from(&mut wild, &[(2, 255, Kind::Data)], cycle);
        told.iter().for_each(|(node, _)| *turns.entry(*node).or_default() += 1);
    }
    let idle: Vec<u32> = (3..62).map(|node| turns[&node]).collect();
    println!("busy {}, idle {idle:?}", turns[&2]);
    assert!(idle.iter().all(|it| *it > 20 && 5 * it < 2 * turns[&2]), "{turns:?}");
}

#[test]
fn a_station_that_hurries_leaves_turns_to_others_even_if_a_round_has_only_one() {
    for (places, of_hurried) in [(1, 20..=24), (2, 40..=40), (3, 40..=40)] {
        let mut wild = hub_of(&WildConfig::default(), 5);
        wild.peers.iter_mut().for_each(|peer| (peer.is_up, peer.demand) = (true, 255));
        wild.peers[0].hurries = true;
        let mut turns = [0; 5];
        for round in 1..=40 {
            let (mut here, _) = wild.by_waiting(wild.port((0, 0)), round);
            wild.take_places(&mut here, places, round);
            assert_eq!(here.len(), places);
            for index in here {
                turns[index] += 1;
                wild.peers[index].served.round = round;
            }
        }
        println!("{places} of 5 in a round: {turns:?}");
        assert!(of_hurried.contains(&turns[0]), "{turns:?}");
        assert!(turns[1..].iter().all(|it| *it >= 4), "{turns:?}");
    }
}

#[test]
fn a_station_that_has_no_turn_is_not_gone() {
    let mut wild = hub_of(&WildConfig::default(), 60);
    wild.peers.iter_mut().for_each(|peer| (peer.is_up, peer.heard) = (true, Some(at(100_000))));
    turns_from(&mut wild, &[(2, 255, Kind::Data)], 0);
    let late = at(100_000) + T * 2 * 12;
    let silent =
        |wild: &Wild| wild.peers.iter().filter(|peer| wild.is_silent(late, peer, 8)).count();
    assert_eq!(silent(&wild), 0);
    wild.peers[7].served.unheard = 9;
    assert_eq!(silent(&wild), 1);
    wild.set_turns(&[Turn::Whole]);
    assert_eq!(silent(&wild), 60, "without turns all had their chance");
}

#[test]
fn what_came_is_acknowledged_at_once_and_what_is_known_rarely() {
    let mut wild = hub_of(&WildConfig::default(), 20);
    let stations: Vec<_> = (2..22).map(|node| (node, 0, Kind::Data)).collect();
    let acks = |wild: &mut Wild, stations: &[(u16, u8, Kind)], cycle: u64| {
        frames_after(wild, stations, cycle)
            .iter()
            .filter(|frame| {
                decode(&frame.payload).expect("a frame of ours").header.kind == Kind::Ack
            })
            .count()
    };
    assert_eq!(acks(&mut wild, &stations, 0), 20);
    let silent: Vec<_> = (2..22).map(|node| (node, 0, Kind::Idle)).collect();
    let idle: Vec<usize> = (1..20).map(|cycle| acks(&mut wild, &silent, cycle)).collect();
    assert!(idle[4..].iter().all(|acks| (4..=6).contains(acks)), "{idle:?}");
}

#[test]
fn a_station_whose_packets_are_too_long_for_its_turn_acknowledges_and_asks_for_a_longer_one() {
    let peer = PeerSpec { node: NodeId(2), radio: RadioId(0) };
    let mut wild = Wild::build(&WildConfig::default(), NodeId(1), &[radio(0, 1)], &[peer], Seed(1));
    wild.set_turns(&[Turn::Granted]);
    wild.handle_timeout(&mut Cx::new(Instant::ZERO));
    comes(&mut wild, (2, 0), at(101_000), &data_of(2, 1, 1_000), true);
    (1..=20).for_each(|id| offers(&mut wild, 2, id));
    let turn = TurnEntry { node: 1, from: 0x2000, length: 0x0c00 };
    let now = at(103_000);
    wild.on_turns(now, (0, 0), T, &Turns { cycles: 4, turns: vec![turn] });
    let opens = at(100_000) + T + T / 8;
    let frames = [drain(&mut wild, opens.offset(-500_000)), drain(&mut wild, opens)].concat();
    assert_eq!(frames.len(), 1);
    let header = decode(&frames[0].payload).expect("a frame of ours").header;
    assert_eq!((header.kind, frames[0].to), (Kind::Ack, Some(NodeId(2))));
    assert!(header.demand > FULL_LENGTH, "20 packets take more than a slot: {}", header.demand);
}

#[test]
fn what_a_beacon_asks_for_counts() {
    let silent = [(4, 0, Kind::Data), (5, 0, Kind::Data)];
    let stations = [&[(2, 255, Kind::Data), (3, 200, Kind::Idle)], &silent[..]].concat();
    let told = turns_by(&mut hub(), &stations, 9);
    let [long, short] = [told[1].1, told[2].1];
    assert!(told[0].1 > 0.3 && long > 0.3 && short < 0.1, "{told:?}");
}

#[test]
fn bundles_of_a_station_fit_into_the_shortest_turn_for_a_packet() {
    let config = WildConfig { frame_bytes: Some(2_304), ..WildConfig::default() };
    let peer = PeerSpec { node: NodeId(2), radio: RadioId(0) };
    let mut wild = Wild::build(&config, NodeId(1), &[radio(0, 1)], &[peer], Seed(1));
    wild.set_turns(&[Turn::Granted]);
    wild.handle_timeout(&mut Cx::new(Instant::ZERO));
    comes(&mut wild, (2, 0), at(101_000), &data_of(2, 1, 1_000), true);
    (1..=20).for_each(|id| offers(&mut wild, 2, id));
    let turn = TurnEntry { node: 1, from: 0x2000, length: 0xd000 };
    wild.on_turns(at(103_000), (0, 0), T, &Turns { cycles: 4, turns: vec![turn] });
    let frames = drain(&mut wild, at(100_000) + T + T / 8);
    let longest = frames.iter().map(|frame| frame.payload.len()).max().expect("frames");
    let full = HEADER_BYTES + FULL_PACKET_BYTES;
    assert!((full..=full + 40).contains(&longest), "{longest}");
}

#[test]
fn what_waits_at_the_middle_of_a_star_fits_beside_its_beacon() {
    let (slot_least_ms, slot_most_ms) = (Some(2.0), Some(38.0));
    let mut wild = hub_with(&WildConfig { slot_least_ms, slot_most_ms, ..WildConfig::default() });
    offers(&mut wild, 2, 1);
    let frames = frames_after(&mut wild, &[(2, 255, Kind::Data), (3, 255, Kind::Data)], 0);
    assert!(wild.groups[0].slots.own() < T / 4, "{}", wild.groups[0].slots.own());
    let is_data =
        |frame: &&Frame| decode(&frame.payload).expect("a frame of ours").header.kind == Kind::Data;
    assert_eq!(frames.iter().filter(is_data).count(), 1);
}

#[test]
fn whoever_is_far_away_is_asked_early_enough_at_times() {
    let mut wild = hub();
    let latest = (0..200).filter_map(|cycle| {
        let beacon = frames_after(&mut wild, &[(2, 0, Kind::Data)], cycle).remove(0);
        let body = decode(&beacon.payload).expect("a frame of ours").body;
        let turns = Turns::read(&body.slice(4..)).expect("turns").turns;
        let turn = turns.iter().find(|turn| turn.node == 3)?;
        Some(u32::from(turn.from) + u32::from(turn.length))
    });
    let latest: BTreeSet<u32> = latest.collect();
    let left = |end: &u32| f64::from(65_536 - end) / 65_536.0 * T.as_millis_f64();
    let (early, late) = (latest.first().map(left), latest.last().map(left));
    assert!(early > Some(2.0) && late < Some(1.0), "{early:?} and {late:?} ms before the end");
}
