//! Blocks cross rows of nodes.

use proptest::prelude::*;

use super::*;
use crate::transport::hop::bits::Bits;
use crate::transport::hop::block::End;

fn clean(nodes: u16) -> Row {
    Row::new(nodes, small_config(), Harm::default(), 1)
}

#[test]
fn a_file_crosses_five_hops_and_its_source_hears_of_it() {
    let mut row = clean(6);
    let lengths = [8_000, 14_000, 14_000, 14_000, 900];
    assert!(row.send(flow(1), 6, &lengths, MINUTE));
    row.assert_delivered(flow(1), &lengths);
    assert_eq!(row.count(1, "virtual_requests"), 0);
    let held: u64 = (1..=6).map(|node| row.count(node, "blocks_held")).sum();
    assert_eq!(held, 0, "what has arrived is cached no longer");
}

#[test]
fn the_acknowledgement_comes_back_over_as_many_hops_as_a_block_may_make() {
    let mut row = clean(51);
    assert!(row.send(flow(1), 51, &[14_000], Duration::from_secs(4)));
    assert_eq!(row.count(1, "virtual_requests"), 0);
}

#[test]
fn who_asks_for_a_block_that_is_not_answered_for_asks_for_others_too() {
    let config = HopConfig { high_blocks: 4, ahead: Ahead::Always, ..small_config() };
    let mut row = Row::new(3, config, Harm::default(), 1);
    assert!(row.send(flow(1), 3, &[100], MINUTE));
    row.deaf = Some(NodeId(3));
    row.push(flow(1), 1, 3, 14_000, false);
    row.push(flow(1), 2, 3, 14_000, true);
    let later = row.now + Duration::from_secs(3);
    row.run_until(later);
    // The later block is asked for first, and never answered for.
    row.deaf = Some(NodeId(2));
    let first = BlockId { flow: flow(1), number: 1 };
    let block = row.hop(1).blocks.get_mut(&first).expect("it has not arrived");
    assert!(matches!(block.end, End::PassedOn { .. }));
    block.end = End::PassedOn { at: later };
    let mut asked = Vec::new();
    for _ in 0..200 {
        let step = row.now + Duration::from_millis(100);
        row.run_until(step);
        asked.extend(row.hop(1).asking.get(&flow(1)).map(|id| id.number));
    }
    asked.dedup();
    assert_eq!(asked[..4], [2, 1, 2, 1], "{asked:?}");
}

#[test]
fn what_is_under_way_grows_frame_by_frame_and_counts_half_on_the_first_of_two_hops() {
    for (nodes, most) in [(2, 140_000), (3, 70_000)] {
        let config = HopConfig { block_bytes: Some(140_000), ..small_config() };
        let mut row = Row::new(nodes, config, Harm::default(), 1);
        assert!(row.send(flow(1), nodes, &[100], MINUTE));
        assert_eq!(row.hop(1).under_way(flow(1)), 0);
        row.push(flow(1), 1, nodes, 140_000, true);
        let mut seen = BTreeSet::new();
        while row.arrived.len() < 2 {
            seen.insert(row.hop(1).under_way(flow(1)));
            let step = row.now + Duration::from_millis(1);
            row.run_until(step);
        }
        assert!(seen.len() > 20 && seen.last() <= Some(&most), "{seen:?}");
        assert!(seen.last() > Some(&(most * 9 / 10)), "{seen:?}");
        assert_eq!(row.hop(1).under_way(flow(1)), 0);
    }
}

#[test]
fn a_small_block_needs_no_round_trip_before_its_frames() {
    let mut row = clean(2);
    row.push(flow(1), 0, 2, 8_000, true);
    let first = row.now + Duration::from_millis(9);
    row.run_until(first);
    row.assert_delivered(flow(1), &[8_000]);
    assert_eq!(row.acknowledged, 0);
}

#[test]
fn a_small_block_that_did_not_come_at_once_is_acknowledged_frame_by_frame() {
    let mut row = clean(2);
    row.push(flow(1), 0, 2, 8_000, true);
    row.deaf = Some(NodeId(2));
    let later = row.now + Duration::from_millis(30);
    row.run_until(later);
    row.deaf = None;
    let later = row.now + Duration::from_secs(3);
    row.run_until(later);
    row.assert_delivered(flow(1), &[8_000]);
    assert_eq!(row.acknowledged, 6);
}

#[test]
fn a_relay_passes_on_what_it_has_before_all_of_it_is_there() {
    let config = HopConfig { block_bytes: Some(140_000), pipeline: Some(true), ..small_config() };
    let mut row = Row::new(3, config, Harm::default(), 1);
    assert!(row.send(flow(1), 3, &[100], MINUTE));
    row.push(flow(1), 1, 3, 140_000, true);
    while row.count(2, "frames_received") < 60 {
        let step = row.now + Duration::from_millis(1);
        row.run_until(step);
    }
    assert!(row.count(3, "frames_received") > 30, "{}", row.count(3, "frames_received"));
}

#[test]
fn a_relay_that_has_not_passed_on_its_block_takes_no_other() {
    let mut row = clean(3);
    assert!(row.send(flow(1), 3, &[100, 100], MINUTE));
    // Node 3 starts anew without memory for blocks: it takes no more of them.
    row.nodes.pop();
    row.nodes.push(Hop::build(
        HopConfig { memory_bytes: 1, ..small_config() },
        NodeId(3),
        AddressPlan::default(),
        None,
        Seed(1).stream("full"),
    ));
    row.push(flow(1), 2, 3, 14_000, false);
    row.push(flow(1), 3, 3, 14_000, false);
    row.push(flow(1), 4, 3, 14_000, true);
    let later = row.now + Duration::from_secs(3);
    row.run_until(later);
    assert_eq!(row.count(2, "blocks_held"), 1, "H is 1");
    assert!(row.count(2, "held_back") > 0);
    assert!(!row.has_room(1, flow(1), 14_000), "and the brake has come back to the source");
}

fn stores_much() -> HopConfig {
    HopConfig { high_blocks: 100, ..small_config() }
}

#[test]
fn a_relay_stores_blocks_for_a_neighbour_that_is_gone_and_passes_them_on_when_it_is_back() {
    let mut row = Row::new(3, stores_much(), Harm::default(), 1);
    assert!(row.send(flow(1), 3, &[100], MINUTE));
    row.deaf = Some(NodeId(3));
    let lengths = [14_000; 20];
    (1..=20).for_each(|number| row.push(flow(1), number, 3, 14_000, number == 20));
    let later = row.now + Duration::from_secs(10);
    row.run_until(later);
    assert_eq!(row.count(2, "blocks_held"), 20);
    assert_eq!(row.count(1, "blocks_passed_on"), 21);
    row.deaf = None;
    let later = row.now + Duration::from_secs(10);
    row.run_until(later);
    row.assert_delivered(flow(1), &[&[100][..], &lengths].concat());
}

#[test]
fn a_flow_goes_on_behind_a_first_block_whose_destination_is_out_of_reach() {
    let mut row = Row::new(4, stores_much(), Harm::default(), 1);
    row.deaf = Some(NodeId(3));
    row.push(flow(1), 0, 4, 100, false);
    let lengths = [14_000; 5];
    (1..=5).for_each(|number| row.push(flow(1), number, 4, 14_000, number == 5));
    let later = row.now + Duration::from_secs(20);
    row.run_until(later);
    assert_eq!(row.count(2, "blocks_held"), 6, "they wait where the way ends");
    // The source is gone by the time the way is free: nothing has to come back to it.
    row.deaf = Some(NodeId(1));
    let later = row.now + Duration::from_secs(10);
    row.run_until(later);
    row.assert_delivered(flow(1), &[&[100][..], &lengths].concat());
}

#[test]
fn an_early_block_waits_for_the_one_that_opens_its_flow() {
    let mut row = Row::new(3, stores_much(), Harm::default(), 1);
    // Node 2 has the second block of a flow of which node 3 has heard nothing.
    let (now, id) = (row.now, BlockId { flow: flow(1), number: 1 });
    let mut whole = Whole::build(id, NodeId(3), true, vec![text(id, 900)]);
    whole.shape.is_early = true;
    row.hop(2).restore(now, whole);
    let later = row.now + Duration::from_secs(10);
    row.run_until(later);
    assert_eq!((row.delivered.len(), row.count(3, "blocks_refused")), (0, 0));
    row.push(flow(1), 0, 3, 100, false);
    let later = row.now + Duration::from_secs(10);
    row.run_until(later);
    row.assert_delivered(flow(1), &[100, 900]);
}

#[test]
fn a_relay_takes_blocks_one_by_one_while_the_next_hop_takes_them() {
    let mut row = Row::new(4, stores_much(), Harm::default(), 1);
    assert!(row.send(flow(1), 4, &[100], MINUTE));
    (1..=20).for_each(|number| row.push(flow(1), number, 4, 14_000, number == 20));
    let mut most = 0;
    while row.delivered.len() < 21 {
        let step = row.now + Duration::from_millis(5);
        row.run_until(step);
        let now = row.now;
        let held = row.hop(2).waiting(now).count();
        most = most.max(held);
        assert!(row.now < Instant::ZERO + MINUTE);
    }
    assert_eq!(most, 1, "the first hop leaves the air to the later ones");
}

#[test]
fn a_source_hears_what_came_while_its_neighbour_was_gone() {
    let mut row = Row::new(4, stores_much(), Harm::default(), 1);
    assert!(row.send(flow(1), 4, &[100], MINUTE));
    (1..=3).for_each(|number| row.push(flow(1), number, 4, 14_000, number == 3));
    while row.count(1, "blocks_passed_on") < 4 {
        let step = row.now + Duration::from_millis(1);
        row.run_until(step);
    }
    row.deaf = Some(NodeId(1));
    let later = row.now + Duration::from_secs(30);
    row.run_until(later);
    assert_eq!((row.delivered.len(), row.arrived.len() < 4), (4, true));
    row.deaf = None;
    let later = row.now + Duration::from_secs(3);
    row.run_until(later);
    assert_eq!(row.arrived.len(), 4);
}

#[test]
fn one_of_two_senders_waits_until_the_other_is_done() {
    let mut row = clean(3);
    let back = FlowKey { source: NodeId(3), local: 1 };
    for (key, length) in [(flow(1), 100), (back, 100)] {
        assert!(row.send(key, 2, &[length], MINUTE));
    }
    row.push(flow(1), 1, 2, 14_000, true);
    row.push(back, 1, 2, 14_000, true);
    let mut most = 0;
    while row.delivered.len() < 4 {
        let step = row.now + Duration::from_millis(1);
        row.run_until(step);
        most = most.max(row.count(2, "blocks_held"));
        assert!(row.now < Instant::ZERO + MINUTE);
    }
    assert_eq!(most, 1);
    assert!(row.count(2, "withheld") > 0);
}

#[test]
fn the_furthest_in_its_spell_or_the_one_with_least_goes_first_and_short_blocks_beside_it() {
    let mut row = clean(2);
    let asks = |number, length: usize| {
        let id = BlockId { flow: flow(1 + number), number };
        let shape = Whole::build(id, NodeId(2), false, frames_of(&text(id, length), 1_400)).shape;
        let (via, round, is_virtual) = (NodeId(1), 1, false);
        let (signal_db, since, heard) = (10.0, Instant::ZERO, Instant::ZERO);
        Waiting { block: id, via, round, is_virtual, shape, signal_db, since, heard }
    };
    let hop = row.hop(2);
    hop.waiting = vec![asks(1, 14_000), asks(15, 14_000), asks(17, 14_000), asks(2, 3_500)];
    assert_eq!(hop.furthest(&[0, 1, 2, 3]), [1, 3]);
    assert_eq!(hop.furthest(&[0, 2]), [0, 2]);
    assert_eq!(hop.least(&[0, 1, 2, 3]), [0, 3]);
    assert_eq!(hop.least(&[1, 2]), [1]);
    hop.waiting[0].shape.hops_made = 1;
    hop.waiting[1].shape.hops_made = 2;
    assert_eq!(hop.furthest(&[0, 1, 2, 3]), [2, 3], "fewer hops before further in the spell");
    hop.waiting[2].shape.hops_made = 1;
    assert_eq!(hop.furthest(&[0, 1, 2]), [0, 2]);
    assert_eq!(hop.least(&[0, 1, 2]), [0]);
    hop.config.spell_blocks = 0;
    assert_eq!(hop.preferred(&[0, 1, 2, 3]), [0, 1, 2, 3], "the paper's choice is among all");
}

#[test]
fn of_those_that_wait_the_oldest_the_best_or_one_drawn_by_signal_is_heard() {
    let mut row = clean(2);
    let asks = |number: u32, signal_db: f64, ms: u64| {
        let id = BlockId { flow: flow(number), number };
        let shape = Whole::build(id, NodeId(2), false, frames_of(&text(id, 14_000), 1_400)).shape;
        let since = Instant::ZERO + Duration::from_millis(ms);
        let (via, round, is_virtual, heard) = (NodeId(1), 1, false, since);
        Waiting { block: id, via, round, is_virtual, shape, signal_db, since, heard }
    };
    let hop = row.hop(2);
    hop.waiting = vec![asks(1, 10.0, 2), asks(2, 30.0, 3), asks(3, 20.0, 1), asks(4, 60.0, 0)];
    // The last one may not be heard now.
    let mut heard = |withhold| {
        hop.config.withhold = withhold;
        let mut heard = [0; 4];
        (0..6_000).filter_map(|_| hop.choose(&[0, 1, 2])).for_each(|index| heard[index] += 1);
        heard
    };
    assert_eq!(heard(Withhold::Fifo), [0, 0, 6_000, 0]);
    assert_eq!(heard(Withhold::BestLink), [0, 6_000, 0, 0]);
    let drawn = heard(Withhold::WeightedSignal);
    for (count, expected) in drawn.into_iter().zip([1_000_i32, 3_000, 2_000, 0]) {
        assert!((count - expected).abs() <= 150, "{drawn:?}");
    }
    assert_eq!(drawn[3], 0);
    assert_eq!(hop.choose(&[]), None);
}

#[test]
fn a_premature_timeout_sends_no_frame_twice() {
    let config = HopConfig { end_to_end_s: 0.003, ..small_config() };
    let mut row = Row::new(4, config, Harm::default(), 1);
    let lengths = [100, 14_000, 14_000];
    assert!(row.send(flow(1), 4, &lengths, MINUTE));
    row.assert_delivered(flow(1), &lengths);
    assert!(row.count(1, "virtual_requests") > 0);
    let sent: u64 = (1..=4).map(|node| row.count(node, "frames_sent")).sum();
    assert_eq!(sent, 3 * 21, "21 frames over three hops");
}

#[test]
fn what_a_relay_lost_is_sent_again_from_the_last_node_that_has_it() {
    let mut row = clean(4);
    assert!(row.send(flow(1), 4, &[100], MINUTE));
    row.push(flow(1), 1, 4, 14_000, true);
    while row.count(2, "blocks_passed_on") < 2 {
        let step = row.now + Duration::from_millis(1);
        row.run_until(step);
    }
    row.restart(3);
    let later = row.now + Duration::from_secs(10);
    row.run_until(later);
    row.assert_delivered(flow(1), &[100, 14_000]);
    assert_eq!(row.count(1, "frames_sent"), 11, "the first hop needed no frame again");
}

#[test]
fn a_small_block_that_a_relay_lost_is_sent_again() {
    let mut row = clean(3);
    row.deaf = Some(NodeId(3));
    row.push(flow(1), 0, 3, 100, true);
    let later = row.now + Duration::from_secs(1);
    row.run_until(later);
    assert_eq!(row.count(1, "blocks_passed_on"), 1);
    row.restart(2);
    row.deaf = None;
    let later = row.now + Duration::from_secs(6);
    row.run_until(later);
    row.assert_delivered(flow(1), &[100]);
}

#[test]
fn a_sender_holds_back_where_hardly_anything_comes() {
    let pauses = |loss: f64, yields: bool| {
        let config = HopConfig { yields, block_bytes: Some(140_000), ..small_config() };
        let mut row = Row::new(2, config, Harm { loss, ..Harm::default() }, 1);
        assert!(row.send(flow(1), 2, &[100, 140_000], MINUTE * 600));
        row.count(1, "pauses")
    };
    assert!(pauses(0.9, true) > 0);
    assert_eq!(pauses(0.9, false), 0);
    assert_eq!(pauses(0.5, true), 0, "losses by chance are no reason");
}

#[test]
fn requests_that_overtook_their_frames_do_not_add_up_to_a_pause() {
    for nodes in [2, 3] {
        // Of two datagrams that are sent one after another the second may come first.
        let harm = Harm { spread_ms: 5, ..Harm::default() };
        let mut row = Row::new(nodes, small_config(), harm, 1);
        for local in 1..=100 {
            assert!(row.send(flow(local), nodes, &[100], MINUTE));
        }
        assert_eq!(row.count(1, "pauses"), 0);
    }
}

#[test]
fn losses_by_chance_are_told_from_bursts_of_somebody_hidden() {
    let round = |comes: &dyn Fn(u16) -> bool| {
        let mut theirs = Bits::none(750);
        (0..750).filter(|frame| comes(*frame)).for_each(|frame| _ = theirs.set(frame));
        pace::Round::of(&Bits::all(750), &theirs)
    };
    let mut rng = Seed(1).stream("losses");
    let mut lots: Vec<f64> = (0..750).map(|_| rng.uniform()).collect();
    let by_chance = round(&|frame| lots[usize::from(frame)] < 0.2);
    assert!(by_chance.is_by_chance());
    // One in five of 150 bursts of five comes through.
    let in_bursts = round(&|frame| lots[usize::from(frame / 5)] < 0.2);
    assert!(!in_bursts.is_by_chance());
    lots.iter_mut().for_each(|lot| *lot *= 4.0);
    assert!(!round(&|frame| lots[usize::from(frame)] < 0.2).is_by_chance(), "hardly any");
}

#[test]
fn turns_follow_delivery_under_proportional_fairness() {
    let share = |schedule| {
        let config =
            HopConfig { schedule, turn_frames: 2, block_bytes: Some(140_000), ..small_config() };
        let mut row = Row::new(3, config, Harm::default(), 1);
        let keys = [1, 3].map(|to| (FlowKey { source: NodeId(2), local: to.into() }, to));
        for (key, to) in keys {
            assert!(row.send(key, to, &[100], MINUTE));
        }
        row.hop(2).delivery = BTreeMap::from([(NodeId(1), 1.0), (NodeId(3), 0.25)]);
        keys.into_iter().for_each(|(key, to)| row.push(key, 1, to, 140_000, true));
        let later = row.now + Duration::from_millis(90);
        row.run_until(later);
        [1, 3].map(|node| row.count(node, "frames_received") as f64)
    };
    let [a, b] = share(Schedule::RoundRobin);
    assert!((a - b).abs() <= 8.0, "{a} and {b}");
    let [a, b] = share(Schedule::ProportionalFair);
    assert!(a > 3.0 * b && b > 0.0, "{a} and {b}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_block_comes_once_and_unchanged_whatever_happens_on_the_way(
        seed: u64,
        loss in 0.0..0.6,
        repeat in 0.0..0.2,
        spread_ms in 0..20_u64,
        nodes in 2..5_u16,
        lengths in prop::collection::vec(1..14_000_usize, 1..6),
        restarts in prop::collection::vec((1..8_000_u64, 0..3_u16), 0..3),
        high_blocks in 1..4_u32,
    ) {
        let mut lengths = lengths;
        lengths[0] %= 8_000;
        let config = HopConfig { high_blocks, ..small_config() };
        let harm = Harm { loss, repeat, spread_ms, ..Harm::default() };
        let mut row = Row::new(nodes, config, harm, seed);
        for (at, relay) in restarts {
            let limit = Instant::from_nanos(at * 1_000_000).since(row.now);
            row.send_on(&lengths, nodes, limit);
            if nodes > 2 {
                row.restart(2 + relay % (nodes - 2));
            }
        }
        prop_assert!(row.send_on(&lengths, nodes, Duration::from_secs(600)), "it goes on");
        row.assert_delivered(flow(1), &lengths);
        for node in 1..=nodes {
            prop_assert_eq!(row.count(node, "contradictions"), 0);
            prop_assert_eq!(row.count(node, "malformed"), 0);
        }
    }
}

/// Node 1 of a row, which reaches the nodes beyond node 2 over it.
fn first_node() -> Hop {
    let (plan, rate) = (AddressPlan::default(), Bitrate::from_mbps(1.0));
    let rng = Seed(1).stream("hop");
    let mut hop = Hop::build(small_config(), NodeId(1), plan, Some(rate), rng);
    for dst in [2, 3] {
        let event = DatagramUp::NextHop {
            dst: NodeId(dst),
            via: NodeId(2),
            radio: RadioId(0),
            hops: dst as u8 - 1,
        };
        hop.handle_rx(&mut Cx::new(Instant::ZERO), event);
    }
    hop
}

fn push_large(hop: &mut Hop, number: u32, to: u16) {
    let id = BlockId { flow: flow(1), number };
    hop.push(Instant::ZERO, id, NodeId(to), false, frames_of(&text(id, 9_000), 1_400));
}

#[test]
fn what_the_radio_gave_up_is_followed_by_a_message_at_the_surest_bit_rate() {
    let mut hop = first_node();
    push_large(&mut hop, 0, 3);
    let (mut now, mut rates) = (Instant::ZERO, Vec::new());
    for outcome in [PacketOutcome::Failed, PacketOutcome::Delivered, PacketOutcome::Delivered] {
        let request = hop.poll_tx(&mut Cx::new(now), &|_| Room::UNLIMITED).expect("it asks");
        rates.push(request.options.rate.map(|rate| rate.mbps()));
        let done = PacketDone { id: request.id, outcome, attempts: 1, air_time: Duration::ZERO };
        hop.handle_rx(&mut Cx::new(now), DatagramUp::Done(done));
        now = hop.poll_timeout().expect("it asks again");
        hop.handle_timeout(&mut Cx::new(now));
    }
    assert_eq!(rates, [None, Some(1.0), None]);
}

#[test]
fn a_relay_is_asked_for_one_block_until_it_takes_it() {
    let asked = |to: u16| {
        let mut hop = first_node();
        (0..2).for_each(|number| push_large(&mut hop, number, to));
        std::iter::from_fn(|| hop.poll_tx(&mut Cx::new(Instant::ZERO), &|_| Room::UNLIMITED))
            .count()
    };
    assert_eq!((asked(3), asked(2)), (1, 2));
}

#[test]
fn part_of_a_block_goes_on_where_the_hops_do_not_share_the_air() {
    let took = [[0, 0], [0, 1]].map(|airs| {
        let mut row = clean(3);
        row.hop(2).set_airs([NodeId(1), NodeId(3)].into_iter().zip(airs).collect());
        row.push(flow(1), 0, 3, 14_000, true);
        while row.count(2, "frames_sent") == 0 {
            assert!(row.now < Instant::ZERO + MINUTE, "nothing goes on");
            let next = row.now + Duration::from_micros(100);
            row.run_until(next);
        }
        row.count(2, "frames_received")
    });
    let frames = 14_000_u64.div_ceil(u64::from(small_config().frame_bytes));
    assert_eq!(took[0], frames, "all of it is there");
    assert!(took[1] < frames, "{} of {frames} were there", took[1]);
}

#[test]
fn large_blocks_come_from_one_neighbour_at_a_time_over_each_air() {
    let withheld = [[0, 0], [0, 1]].map(|airs| {
        let mut row = clean(3);
        row.hop(2).set_airs([NodeId(1), NodeId(3)].into_iter().zip(airs).collect());
        row.push(flow(1), 0, 2, 14_000, true);
        let other = FlowKey { source: NodeId(3), local: 1 };
        row.push(other, 0, 2, 14_000, true);
        let later = row.now + Duration::from_secs(3);
        row.run_until(later);
        row.assert_delivered(flow(1), &[14_000]);
        row.assert_delivered(other, &[14_000]);
        row.count(2, "withheld")
    });
    assert!(withheld[0] > 0, "one waits for the other");
    assert_eq!(withheld[1], 0);
}
