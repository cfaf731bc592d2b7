//! Frames that a stranger on the way holds back and delivers late.

use super::*;

fn kind_of(frame: &Bytes) -> Option<Kind> {
    Header::decode(frame).ok().map(|header| header.kind)
}

/// Takes the next carrier from one node to another off the air.
fn keep_back(air: &mut Air, from: NodeId, to: NodeId) -> Bytes {
    for _ in 0..100_000 {
        air.run(Duration::from_micros(100));
        let is_it = |(_, sender, receiver, frame): &(_, NodeId, Option<NodeId>, Bytes)| {
            (*sender, *receiver) == (from, Some(to)) && kind_of(frame) == Some(Kind::Carrier)
        };
        if let Some(at) = air.flying.iter().position(is_it) {
            return air.flying.remove(at).expect("found there").3;
        }
    }
    panic!("no carrier in ten seconds");
}

/// Lets node 1 send to all. Returns whether node 2 receives it.
fn hears(air: &mut Air, body: &'static [u8]) -> bool {
    air.nodes[1].came.clear();
    assert!(air.send(0, None, FlowId(0), body));
    air.run(air.delay * 2);
    air.nodes[1].came.iter().any(|frame| frame.payload[..] == *body)
}

#[test]
fn an_old_key_for_broadcast_told_late_does_not_come_back() {
    let nodes = [(1, [2, 3]), (2, [1, 3]), (3, [1, 2])];
    let mut air = Air::new(nodes.map(|(id, others)| Node::new(id, &others, 0, &config())).into());
    let kept = keep_back(&mut air, NodeId(1), NodeId(2));
    air.run(SECOND * 2);
    assert!(hears(&mut air, b"old"));
    let is_old = |(from, to, frame): &&(NodeId, Option<NodeId>, Bytes)| {
        *from == NodeId(1) && to.is_none() && kind_of(frame) == Some(Kind::LinkToAll)
    };
    let old: Vec<Bytes> = air.recorded.iter().filter(is_old).map(|it| it.2.clone()).collect();
    assert!(!old.is_empty());
    // Node 3 is stolen: its thief knows the broadcast key of node 1, which node 1 therefore renews.
    let key = |node: u16| (NodeId(node), identity(node).public());
    for (index, other) in [(0, 2), (1, 1)] {
        air.nodes[index].secure.set_keys(&mut Cx::new(air.now), &[key(other)].into());
        air.settle(index);
    }
    air.run(SECOND * 60);
    assert!(hears(&mut air, b"new"));
    air.deliver(NodeId(1), Some(NodeId(2)), kept);
    air.nodes[1].came.clear();
    old.iter().for_each(|frame| air.deliver(NodeId(1), None, frame.clone()));
    assert!(air.nodes[1].came.is_empty(), "the key of before is used again");
    assert!(hears(&mut air, b"new still"));
}

#[test]
fn a_confirmation_of_a_life_before_does_not_stand_for_the_one_that_began_anew() {
    let mut air = Air::pair(&config());
    // The last of these carriers confirms the key of node 1.
    let mut kept = keep_back(&mut air, NodeId(2), NodeId(1));
    while air.now < Instant::ZERO + SECOND * 2 {
        kept = keep_back(&mut air, NodeId(2), NodeId(1));
    }
    air.run(SECOND * 3);
    assert!(hears(&mut air, b"all"));
    air.nodes[1] = Node::new(2, &[1], 9, &config());
    air.nodes[1].secure.handle_timeout(&mut Cx::new(air.now));
    air.settle(1);
    // It is back, and what node 1 tells it under the keys of its new life is lost at first.
    let mut is_lost = false;
    while !is_lost {
        air.run(Duration::from_micros(100));
        let under_way = air.flying.len();
        air.flying.retain(|(_, from, _, frame)| {
            *from == NodeId(2) || kind_of(frame) != Some(Kind::Carrier)
        });
        is_lost = air.nodes[1].has_session(1) && air.flying.len() < under_way;
    }
    assert!(air.nodes[0].secure.peers[0].owes_key);
    air.deliver(NodeId(2), Some(NodeId(1)), kept);
    assert!(air.nodes[0].secure.peers[0].owes_key, "it stands for the new life");
    air.run(SECOND);
    assert!(hears(&mut air, b"all again"));
}

#[test]
fn a_recorded_answer_is_work_once() {
    let mut air = Air::new(vec![Node::new(1, &[2], 77, &config())]);
    air.run(SECOND * 100);
    let begun = &air.nodes[0].secure.peers[0].begun;
    let begun: Vec<u8> = begun.iter().map(|begun| begun.epoch).collect();
    // Both meet in other lives until an answer has the epoch of a handshake in this one.
    let answer = (0..=255).find_map(|life| {
        let mut air = Air::pair(&config());
        air.nodes = [(1, 2), (2, 1)].map(|(id, to)| Node::new(id, &[to], life, &config())).into();
        air.run(SECOND);
        let mut answers = air.recorded.into_iter().filter(|(from, _, frame)| {
            *from == NodeId(2) && kind_of(frame) == Some(Kind::Response)
        });
        answers.find(|(.., frame)| begun.contains(&frame[1])).map(|(.., frame)| frame)
    });
    let answer = answer.expect("one of so many");
    let rejected = |air: &Air| air.nodes[0].secure.status(air.now).rejected;
    for _ in 0..3 {
        air.deliver(NodeId(2), Some(NodeId(1)), answer.clone());
    }
    let rejected = rejected(&air);
    assert_eq!(rejected["handshake-forged"], 1, "{rejected:?}");
    assert_eq!(rejected["handshake-replayed"], 2, "{rejected:?}");
}

#[test]
fn what_came_while_a_host_slept_is_not_older_than_a_key_may_be() {
    let mut air = Air::pair(&config());
    air.run(SECOND * 2);
    assert!(air.send(0, Some(2), FlowId(0), b"kept"));
    let (.., frame) = air.flying.pop_back().expect("it is on its way");
    air.nodes[1].came.clear();
    // No timer of the receiver fires meanwhile.
    air.now += session::EXPIRES_AFTER + SECOND;
    air.deliver(NodeId(1), Some(NodeId(2)), frame);
    assert!(air.nodes[1].came.is_empty());
}

#[test]
fn keys_for_broadcast_are_told_where_both_began_at_once() {
    for (seed, delay_ms) in (0..10).flat_map(|seed| [(seed, 1), (seed, 20), (seed, 150)]) {
        let nodes = vec![Node::new(1, &[2], seed, &config()), Node::new(2, &[1], seed, &config())];
        let mut air = Air::new(nodes);
        air.delay = Duration::from_millis(delay_ms);
        // Both have begun often when the first of it comes through.
        air.loss = 1.0;
        air.run(SECOND * 3);
        air.loss = 0.0;
        air.run(SECOND * 5);
        for index in [0, 1] {
            air.nodes[index].secure.renew_broadcast(air.now);
            air.nodes[index].secure.set_timeout(air.now);
            air.nodes[index].secure.handle_timeout(&mut Cx::new(air.now));
            air.settle(index);
        }
        air.run(SECOND * 2);
        for (from, to) in [(0, 1), (1, 0)] {
            air.nodes[to].came.clear();
            assert!(air.send(from, None, FlowId(0), b"new"));
            air.run(air.delay * 2);
            let came = &air.nodes[to].came;
            let is_there = came.iter().any(|frame| &frame.payload[..] == b"new");
            assert!(is_there, "seed {seed}, {delay_ms} ms, from {from}");
        }
    }
}
