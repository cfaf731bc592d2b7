//! Outdated copies, full disks and full caches: nothing blocks for ever.

use super::*;

fn later(row: &mut Row, ms: u64) {
    let end = row.now + Duration::from_millis(ms);
    row.run_until(end);
}

/// A complete block of one frame, for node `to`, as a node may have stored it.
fn kept(id: BlockId, to: u16, bytes: &[u8]) -> Whole {
    let shape = Shape {
        destination: NodeId(to),
        frames: 1,
        length: bytes.len() as u32,
        crc: crc32fast::hash(bytes),
        hops_left: 40,
        hops_made: 2,
        opens: id.number == 0,
        finishes: false,
        is_early: false,
    };
    Whole { id, shape, frames: vec![bytes.to_vec().into()] }
}

fn is_silent(row: &mut Row) -> bool {
    let sent = |row: &mut Row| (1..=3).map(|node| row.count(node, "requests")).sum::<u64>();
    later(row, 2_000);
    let before = sent(row);
    later(row, 10_000);
    sent(row) == before
}

#[test]
fn a_copy_whose_way_leads_back_to_its_source_is_not_offered_for_ever() {
    let mut row = Row::new(3, small_config(), Harm::default(), 1);
    // Node 3 has a block of node 2 for node 1, which arrived long ago over another route.
    let key = FlowKey { source: NodeId(2), local: 1 };
    let now = row.now;
    row.hop(3).restore(now, kept(BlockId { flow: key, number: 4 }, 1, b"old"));
    assert!(is_silent(&mut row));
    assert_eq!(row.count(3, "blocks_passed_on"), 1);
}

#[test]
fn a_relay_tells_those_who_come_late_that_a_block_is_over() {
    let mut row = Row::new(4, small_config(), Harm::default(), 1);
    assert!(row.send(flow(1), 4, &[100, 9_000], Duration::from_secs(60)));
    assert_eq!(row.count(3, "blocks_held"), 0, "it was told and let go");
    // Node 2 restarted with what it had stored, and was not told.
    let (now, id) = (row.now, BlockId { flow: flow(1), number: 1 });
    let bytes = text(id, 9_000);
    let frames = frames_of(&bytes, 1_400);
    let shape = Shape {
        frames: frames.len() as u16,
        length: 9_000,
        crc: crc32fast::hash(&bytes),
        opens: false,
        finishes: true,
        is_early: false,
        ..kept(id, 4, b"").shape
    };
    row.restart(2);
    row.hop(2).restore(now, Whole { id, shape, frames });
    let received = row.count(3, "frames_received");
    assert!(is_silent(&mut row));
    assert_eq!(row.count(3, "frames_received"), received, "nothing crossed twice");
}

#[test]
fn a_block_that_was_given_before_the_disk_was_full_is_not_forgotten() {
    let mut row = Row::new(2, small_config(), Harm::default(), 1);
    row.nodes.iter_mut().for_each(Hop::keep_blocks);
    assert!(row.send(flow(1), 2, &[100], Duration::from_secs(60)));
    row.push(flow(1), 2, 2, 900, false);
    later(&mut row, 100);
    let Some(Keep::Put(whole)) = row.hop(2).poll_keep() else { panic!("it came too early") };
    row.push(flow(1), 1, 2, 900, false);
    later(&mut row, 8);
    let now = row.now;
    row.hop(2).handle_not_kept(now, whole.id);
    later(&mut row, 20_000);
    row.assert_delivered(flow(1), &[100, 900, 900]);
    assert_eq!(row.arrived.len(), 3, "the source hears of all three");
}

#[test]
fn what_the_next_hop_has_may_be_acknowledged_though_no_disk_has_it_here() {
    let mut row = Row::new(4, small_config(), Harm::default(), 1);
    assert!(row.send(flow(1), 4, &[100], Duration::from_secs(60)));
    row.hop(2).keep_blocks();
    row.deaf = Some(NodeId(4));
    let before = row.count(1, "blocks_passed_on");
    row.push(flow(1), 1, 4, 9_000, true);
    later(&mut row, 1_000);
    assert_eq!(row.count(1, "blocks_passed_on"), before + 1);
}

#[test]
fn an_older_block_passes_the_brake() {
    let mut row = Row::new(3, small_config(), Harm::default(), 1);
    assert!(row.send(flow(1), 3, &[100], Duration::from_secs(60)));
    row.deaf = Some(NodeId(3));
    row.push(flow(1), 2, 3, 9_000, false);
    later(&mut row, 2_000);
    assert_eq!(row.count(2, "blocks_held"), 1, "H = 1: it is full");
    row.push(flow(1), 1, 3, 9_000, false);
    later(&mut row, 2_000);
    assert_eq!(row.count(2, "blocks_held"), 2, "the destination may wait for this one");
    row.push(flow(1), 3, 3, 9_000, false);
    later(&mut row, 2_000);
    assert_eq!(row.count(2, "blocks_held"), 2, "not for that one");
}

#[test]
fn what_begins_here_is_there_again_though_the_memory_was_made_less() {
    let config = HopConfig { memory_bytes: 1_000, ..small_config() };
    let mut row = Row::new(2, config, Harm::default(), 1);
    let now = row.now;
    for number in 0..4 {
        let id = BlockId { flow: flow(1), number };
        row.hop(1).restore(now, kept(id, 2, &text(id, 900)));
    }
    assert_eq!(row.hop(1).waiting(now).count(), 4, "their programs do not have them any more");
}

#[test]
fn a_cache_that_is_full_makes_room_for_what_begins_here() {
    let config = HopConfig { memory_bytes: 60_000, ..small_config() };
    let mut row = Row::new(3, config, Harm::default(), 1);
    row.deaf = Some(NodeId(1));
    // Nobody tells node 2 that these have arrived, so it keeps them.
    for local in 1..=5 {
        row.push(flow(local), 0, 3, 8_000, false);
        later(&mut row, 3_000);
    }
    let own = FlowKey { source: NodeId(2), local: 1 };
    row.deaf = None;
    row.nodes[0] = row.machine(1);
    assert!(row.has_room(2, own, 8_000));
    assert!(row.send(own, 3, &[8_000, 14_000, 14_000], Duration::from_secs(60)));
}

#[test]
fn parts_whose_senders_are_gone_make_room_for_what_begins_here() {
    let config = HopConfig { memory_bytes: 60_000, ..small_config() };
    let mut row = Row::new(3, config, Harm { loss: 0.4, ..Harm::default() }, 1);
    let own = FlowKey { source: NodeId(2), local: 1 };
    for local in 1..=3 {
        row.push(flow(local), 0, 3, 14_000, false);
        later(&mut row, 15);
        row.restart(1);
    }
    assert!(!row.has_room(2, own, 14_000), "they may go on yet");
    later(&mut row, 5_000);
    assert!(row.has_room(2, own, 14_000));
    assert!(row.send(own, 3, &[14_000; 4], MINUTE));
}

#[test]
fn a_relay_lets_go_of_blocks_for_a_node_that_never_comes_back() {
    let mut row =
        Row::new(3, HopConfig { relay_hours: 0.01, ..small_config() }, Harm::default(), 1);
    row.deaf = Some(NodeId(3));
    row.push(flow(1), 0, 3, 100, true);
    row.push(flow(2), 0, 2, 100, true);
    later(&mut row, 1_000);
    row.restart(1);
    later(&mut row, 34_000);
    assert_eq!(row.count(2, "blocks_held"), 1);
    later(&mut row, 2_000);
    assert_eq!((row.count(2, "blocks_held"), row.count(2, "expired")), (0, 1));
}

#[test]
fn all_that_passes_can_be_let_go_of_and_comes_again_if_its_source_wants_it() {
    let mut row = Row::new(3, small_config(), Harm::default(), 1);
    row.deaf = Some(NodeId(3));
    row.push(flow(1), 0, 3, 100, true);
    later(&mut row, 1_000);
    let now = row.now;
    assert_eq!(row.hop(2).clear_cache(now, false), 0, "it waits for its next hop");
    assert_eq!(row.hop(2).clear_cache(now, true), 1);
    row.deaf = None;
    later(&mut row, 30_000);
    row.assert_delivered(flow(1), &[100]);
}

#[test]
fn a_neighbour_that_is_gone_is_asked_a_few_times_a_second_for_however_many_flows() {
    const FLOWS: u32 = 300;
    let mut row = Row::new(2, small_config(), Harm::default(), 1);
    row.deaf = Some(NodeId(2));
    (1..=FLOWS).for_each(|local| row.push(flow(local), 0, 2, 900, true));
    later(&mut row, 60_000);
    let asked = row.count(1, "requests");
    later(&mut row, 60_000);
    // Each of them alone asks every second and a half.
    let a_second = (row.count(1, "requests") - asked) as f64 / 60.0;
    assert!((5.0..30.0).contains(&a_second), "{a_second} a second, of {FLOWS} flows");
    row.deaf = None;
    later(&mut row, 15_000);
    assert_eq!(row.delivered.len(), FLOWS as usize, "as soon as it is back");
}

#[test]
fn what_waits_for_a_neighbour_that_is_gone_goes_another_way_as_soon_as_there_is_one() {
    const FLOWS: u32 = 300;
    let mut row = Row::new(3, small_config(), Harm::default(), 1);
    row.deaf = Some(NodeId(2));
    (1..=FLOWS).for_each(|local| row.push(flow(local), 0, 3, 900, true));
    later(&mut row, 60_000);
    assert!(row.delivered.is_empty());
    let now = row.now;
    for (node, other) in [(1, 3), (3, 1)] {
        let route = DatagramUp::NextHop {
            dst: NodeId(other),
            via: NodeId(other),
            radio: RadioId(0),
            hops: 1,
        };
        row.hop(node).handle_rx(&mut Cx::new(now), route);
    }
    later(&mut row, 15_000);
    assert_eq!(row.delivered.len(), FLOWS as usize);
}

#[test]
fn of_a_next_hop_that_a_transfer_is_new_to_nothing_is_known() {
    // The first one answers for a part of a block, gets frames of it, and is then silent.
    let mut row = Row::new(3, small_config(), Harm { loss: 0.3, ..Harm::default() }, 1);
    row.push(flow(1), 0, 3, 14_000, true);
    let id = BlockId { flow: flow(1), number: 0 };
    let transfer = |row: &mut Row| {
        let transfer = row.hop(1).blocks[&id].transfer.as_ref();
        transfer.map(|it| (it.via, it.is_answered, it.sent.count()))
    };
    let is_under_way = |it: &Option<(NodeId, bool, u16)>| matches!(it, Some((_, true, 1..)));
    while !is_under_way(&transfer(&mut row)) {
        later(&mut row, 1);
    }
    row.deaf = Some(NodeId(2));
    later(&mut row, 60_000);
    let (now, via) = (row.now, NodeId(3));
    let route = DatagramUp::NextHop { dst: NodeId(3), via, radio: RadioId(0), hops: 1 };
    row.hop(1).handle_rx(&mut Cx::new(now), route);
    assert_eq!(transfer(&mut row), Some((via, false, 0)));
}

#[test]
fn acknowledgements_go_where_routing_has_it_though_blocks_keep_to_their_way() {
    let mut row = Row::new(3, small_config(), Harm::default(), 1);
    let hop = row.hop(2);
    let (now, source, radio) = (Instant::ZERO, NodeId(1), RadioId(0));
    assert_eq!(hop.take_way(now, source), Some(NodeId(1)));
    hop.on_route(now, source, Route { via: NodeId(3), hops: 2 }, radio);
    assert_eq!(hop.next_hop(source), Some(NodeId(1)), "a block has just taken it");
    assert_eq!(hop.ways.newest(source), Some(NodeId(3)));
    let block = BlockId { flow: flow(1), number: 0 };
    let Whole { shape, .. } = Whole::build(block, NodeId(2), true, vec![Bytes::from_static(&[1])]);
    hop.queue(Message::Arrived { block, shape, refusal: None, tries: 0 });
    let sent = hop.poll_tx(&mut Cx::new(now), &|_| Room::UNLIMITED).expect("an acknowledgement");
    assert_eq!(sent.to, Destination::NextHop(NodeId(3)));
}
