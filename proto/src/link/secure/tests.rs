//! Layers of several nodes on an air that records, loses and repeats.

mod held_back;

use std::sync::Arc;

use bytes::Bytes;

use super::*;
use crate::base::Seed;
use crate::base::{Bitrate, EtherType, Frame, RadioId, ReceivedFrame, TxOptions, UnitId};
use crate::wire::secure::{Header, Kind, SEAL_BYTES};

fn identity(node: u16) -> Identity {
    Identity::from_secret([node as u8; 32])
}

/// A node with a link that places requested frames at once.
struct Node {
    id: NodeId,
    secure: Secure,
    came: Vec<ReceivedFrame>,
    asked: Vec<Wanted>,
}

impl Node {
    fn new(id: u16, others: &[u16], life: u8, config: &SecurityConfig) -> Self {
        let key = |node: &u16| (NodeId(*node), identity(*node).public());
        let peer = |node: &u16| PeerSpec { node: NodeId(*node), radio: RadioId(0) };
        let mut entropy = [id as u8; 32];
        entropy[0] = life;
        let secure = Secure::build(SecureSpec {
            node: NodeId(id),
            identity: identity(id),
            entropy,
            config: config.clone(),
            peers: others.iter().map(peer).collect(),
            keys: Arc::new(others.iter().map(key).collect()),
        });
        Self { id: NodeId(id), secure, came: Vec::new(), asked: Vec::new() }
    }

    fn counter(&self, name: &str) -> u64 {
        self.secure.status(Instant::ZERO).counters[name]
    }

    fn rejected(&self, reason: &str) -> u64 {
        let rejected = self.secure.status(Instant::ZERO).rejected;
        rejected.get(reason).copied().unwrap_or_default()
    }

    /// How the only neighbour differs.
    fn differs(&self) -> Option<Difference> {
        self.secure.status(Instant::ZERO).peers[0].differs
    }

    fn has_session(&self, with: u16) -> bool {
        let peers = self.secure.status(Instant::ZERO).peers;
        peers.iter().any(|peer| peer.node == NodeId(with) && peer.since.is_some())
    }
}

struct Air {
    now: Instant,
    nodes: Vec<Node>,
    /// Frames under way: time of arrival, sender, receiver, payload.
    flying: VecDeque<(Instant, NodeId, Option<NodeId>, Bytes)>,
    recorded: Vec<(NodeId, Option<NodeId>, Bytes)>,
    rng: crate::base::Rng,
    loss: f64,
    delay: Duration,
    /// The radio by which frames arrive.
    radio: RadioId,
}

impl Air {
    fn new(nodes: Vec<Node>) -> Self {
        let rng = Seed(1).stream("air");
        let now = Instant::ZERO + Duration::from_secs(1);
        Self {
            now,
            nodes,
            flying: VecDeque::new(),
            recorded: Vec::new(),
            rng,
            loss: 0.0,
            delay: Duration::from_micros(300),
            radio: RadioId(0),
        }
    }

    /// Two nodes, 1 and 2.
    fn pair(config: &SecurityConfig) -> Self {
        Self::new(vec![Node::new(1, &[2], 0, config), Node::new(2, &[1], 0, config)])
    }

    fn send(&mut self, from: usize, to: Option<u16>, flow: FlowId, body: &'static [u8]) -> bool {
        let node = &mut self.nodes[from];
        let lane = Lane { to: to.map(NodeId), flow, ..Lane::default() };
        if node.secure.room(lane).is_none() {
            return false;
        }
        let frame = Frame {
            id: UnitId(1),
            radio: RadioId(0),
            to: to.map(NodeId),
            flow,
            protocol: EtherType::FARHOP,
            payload: Bytes::from_static(body),
            options: TxOptions::default(),
        };
        node.secure.handle_tx(&mut Cx::new(self.now), FrameDown::Frame(frame));
        self.settle(from);
        true
    }

    /// The link places requested frames, and received ones are collected.
    fn settle(&mut self, index: usize) {
        let mut cx = Cx::new(self.now);
        while let Some(unit) = self.nodes[index].secure.poll_tx(&mut cx, &|_| Room::UNLIMITED) {
            let FrameDown::Frame(frame) = unit else { continue };
            let from = self.nodes[index].id;
            self.recorded.push((from, frame.to, frame.payload.clone()));
            if !self.rng.chance(self.loss) {
                self.flying.push_back((self.now + self.delay, from, frame.to, frame.payload));
            }
        }
        let mut wanted = Vec::new();
        while let Some(event) = self.nodes[index].secure.poll_rx(&mut cx) {
            match event {
                FrameUp::Received(frame) => self.nodes[index].came.push(frame),
                FrameUp::Wanted(want) => wanted.push(want),
                _ => {}
            }
        }
        self.nodes[index].asked.extend(&wanted);
        for want in wanted {
            self.send(index, Some(want.to.0), FlowId::CONTROL, b"stamp");
        }
    }

    fn deliver(&mut self, from: NodeId, to: Option<NodeId>, payload: Bytes) {
        for index in 0..self.nodes.len() {
            let id = self.nodes[index].id;
            if id == from || to.is_some_and(|to| to != id) {
                continue;
            }
            let frame = ReceivedFrame {
                radio: self.radio,
                from,
                to,
                protocol: EtherType::SEALED,
                payload: payload.clone(),
                started: self.now,
                rate: Bitrate::from_mbps(11.0),
                signal: None,
                bits: 0,
            };
            self.nodes[index].secure.handle_rx(&mut Cx::new(self.now), FrameUp::Received(frame));
            self.settle(index);
        }
    }

    fn run(&mut self, length: Duration) {
        let end = self.now + length;
        loop {
            let due = self.nodes.iter().filter_map(|node| node.secure.poll_timeout()).min();
            let flying = self.flying.front().map(|(at, ..)| *at);
            let next = due.into_iter().chain(flying).min().unwrap_or(end).max(self.now);
            if next >= end {
                self.now = end;
                return;
            }
            self.now = next;
            if flying.is_some_and(|at| at <= next) {
                let (_, from, to, payload) = self.flying.pop_front().expect("looked at");
                self.deliver(from, to, payload);
            }
            for index in 0..self.nodes.len() {
                self.nodes[index].secure.handle_timeout(&mut Cx::new(next));
                let due = self.nodes[index].secure.poll_timeout().expect("there are neighbours");
                assert!(due > next, "a deadline that does not lie ahead");
                self.settle(index);
            }
        }
    }

    /// Lets node 1 send a frame to node 2. Returns whether it arrived.
    fn reaches(&mut self) -> bool {
        self.nodes[1].came.clear();
        self.send(0, Some(2), FlowId(0), b"data") && {
            self.run(Duration::from_millis(1));
            self.nodes[1].came.iter().any(|frame| &frame.payload[..] == b"data")
        }
    }
}

const SECOND: Duration = Duration::from_secs(1);

fn config() -> SecurityConfig {
    SecurityConfig::default()
}

#[test]
fn two_strangers_to_the_air_agree_on_keys_and_seal_with_24_bytes() {
    let mut air = Air::pair(&config());
    assert!(!air.send(0, Some(2), FlowId(0), b"too early"), "nobody could open it");
    air.run(SECOND);
    assert!(air.nodes[0].has_session(2) && air.nodes[1].has_session(1));
    assert!(air.reaches());
    let (_, _, frame) =
        air.recorded.iter().rev().find(|(from, ..)| *from == NodeId(1)).expect("it");
    assert_eq!(frame.len(), 4 + SEAL_BYTES);
    assert!(air.send(1, Some(1), FlowId(0), b"and back"));
    assert!(air.send(0, None, FlowId(0), b"to all"), "the key for broadcast was told");
    air.run(air.delay * 2);
    assert!(air.nodes[0].came.iter().any(|frame| &frame.payload[..] == b"and back"));
    assert!(air.nodes[1].came.iter().any(|frame| &frame.payload[..] == b"to all"));
    assert_eq!(air.nodes[0].counter("handshakes_done"), 1);
}

#[test]
fn the_answer_brings_the_frame_of_the_link_and_the_first_message_none() {
    let mut air = Air::pair(&config());
    air.run(air.delay * 2);
    assert!(air.nodes[1].came.is_empty(), "{:?}", air.nodes[1].came);
    air.run(air.delay * 2);
    assert_eq!(air.nodes[0].came[0].payload[..], *b"stamp");
}

#[test]
fn half_the_frames_lost_each_way_only_delay_it() {
    for seed in 0..20 {
        let mut air = Air::pair(&config());
        air.rng = Seed(seed).stream("air");
        air.loss = 0.5;
        air.run(SECOND);
        assert!(air.nodes[0].has_session(2) && air.nodes[1].has_session(1), "seed {seed}");
    }
}

#[test]
fn an_answer_on_a_long_way_is_still_known_when_its_keys_are_used() {
    for millis in [20, 38, 60, 150] {
        let mut air = Air::pair(&config());
        air.delay = Duration::from_millis(millis);
        air.run(SECOND * 8);
        for (us, them) in [(0, 2), (1, 1)] {
            assert!(air.send(us, Some(them), FlowId(0), b"data"), "{millis} ms: no keys");
        }
        air.run(air.delay * 2);
        for node in &air.nodes {
            let has_come = node.came.iter().any(|frame| &frame.payload[..] == b"data");
            assert!(has_come, "{millis} ms: {:?} has other keys", node.id);
        }
    }
}

#[test]
fn two_of_whom_each_took_an_answer_that_the_other_forgot_begin_again() {
    let mut air = Air::pair(&config());
    air.delay = Duration::from_millis(3);
    let both = |air: &Air| air.nodes[0].has_session(2) && air.nodes[1].has_session(1);
    while !both(&air) {
        assert!(air.now < Instant::ZERO + SECOND * 10, "each has an answer some time");
        air.run(Duration::from_micros(500));
        for node in &mut air.nodes {
            node.secure.peers.iter_mut().for_each(|peer| peer.pending.clear());
        }
    }
    assert!(!air.reaches(), "their keys differ");
    air.run(SECOND * 5);
    air.delay = Duration::from_micros(300);
    assert!(air.reaches());
}

#[test]
fn recordings_of_a_whole_life_change_nothing_after_a_restart_of_both() {
    let mut air = Air::pair(&config());
    air.loss = 0.3;
    air.run(SECOND * 400);
    for _ in 0..50 {
        air.send(0, Some(2), FlowId(0), b"data");
        air.send(1, None, FlowId(0), b"beacon");
    }
    let old = std::mem::take(&mut air.recorded);
    assert!(old.len() > 120, "{}", old.len());
    // Node 2 is alone, so that no honest handshake hides the effect of the recordings.
    let mut air = Air::new(vec![Node::new(2, &[1], 1, &config())]);
    air.run(SECOND);
    for (from, to, payload) in old.iter().chain(&old) {
        air.deliver(*from, *to, payload.clone());
        air.run(Duration::from_millis(20));
    }
    let node = &air.nodes[0];
    assert_eq!(node.counter("opened"), 0);
    assert_eq!(node.counter("handshakes_done"), 0);
    assert!(node.came.is_empty() && !node.has_session(1));
    assert!(node.rejected("handshake-replayed") > 0 && node.rejected("no-key") > 0);
}

#[test]
fn recorded_answers_do_not_spoil_the_handshakes_that_are_under_way() {
    let is = |kind, payload: &Bytes| Header::decode(payload).is_ok_and(|head| head.kind == kind);
    // A recording from both nodes for each epoch that a first message can have.
    let mut old: BTreeMap<(NodeId, u8), Bytes> = BTreeMap::new();
    for life in 0..=255 {
        let mut air = Air::pair(&config());
        air.nodes = vec![Node::new(1, &[2], life, &config()), Node::new(2, &[1], life, &config())];
        air.loss = 0.8;
        air.run(SECOND);
        let all = air.recorded.into_iter();
        let answers = all.filter(|(.., payload)| is(Kind::Response, payload));
        old.extend(answers.map(|(from, _, payload)| ((from, payload[1]), payload)));
    }
    let mut air = Air::pair(&config());
    air.nodes = vec![Node::new(1, &[2], 77, &config()), Node::new(2, &[1], 78, &config())];
    let (mut seen, mut spoiled) = (0, 0);
    // Before either begins again.
    for _ in 0..80 {
        air.run(Duration::from_micros(100));
        let new = air.recorded.split_off(seen);
        air.recorded.extend(new.iter().cloned());
        seen = air.recorded.len();
        for (from, _, payload) in new {
            let other = NodeId(3 - from.0);
            let answer = old.get(&(other, payload[1])).filter(|_| is(Kind::Init, &payload));
            if let Some(answer) = answer {
                spoiled += 1;
                air.deliver(other, Some(from), answer.clone());
            }
        }
    }
    let forged: u64 = air.nodes.iter().map(|node| node.rejected("handshake-forged")).sum();
    assert!(spoiled > 0 && forged >= spoiled, "{forged} of {spoiled}");
    assert!(air.nodes[0].has_session(2), "{spoiled} recordings keep the two apart");
    assert!(air.reaches());
}

#[test]
fn a_flood_of_recorded_first_messages_puts_the_cookie_in_force_and_nobody_out() {
    let mut old = Vec::new();
    for life in 10..90 {
        let mut air = Air::new(vec![Node::new(1, &[2], life, &config())]);
        air.run(Duration::from_millis(100));
        old.append(&mut air.recorded);
    }
    assert!(old.len() > 400, "{}", old.len());
    let mut air = Air::new(vec![Node::new(2, &[1], 0, &config())]);
    air.run(SECOND);
    for round in 0..2_000 {
        let (from, to, payload) = old[round % old.len()].clone();
        air.deliver(from, to, payload);
        air.run(Duration::from_millis(1));
    }
    let answered = air.nodes[0].counter("handshakes_answered");
    assert!(answered < 20, "{answered} recordings were worth an answer");
    assert!(air.nodes[0].counter("cookies_sent") < 50);
    air.nodes.push(Node::new(1, &[2], 1, &config()));
    for round in 0..2_000 {
        let (from, to, payload) = old[round % old.len()].clone();
        air.deliver(from, to, payload);
        air.run(Duration::from_millis(1));
    }
    assert!(air.nodes[0].has_session(1) && air.nodes[1].has_session(2));
}

#[test]
fn keys_are_replaced_after_two_minutes_without_a_gap() {
    let mut air = Air::pair(&config());
    air.run(SECOND);
    let begun = air.nodes[0].counter("handshakes_begun");
    for _ in 0..360 {
        air.run(SECOND);
        assert!(air.reaches());
    }
    assert_eq!(air.nodes[0].counter("handshakes_done"), 4);
    assert_eq!(air.nodes[1].counter("sessions_expired"), 0);
    assert!(air.nodes[0].counter("handshakes_begun") <= begun + 3);
    // Renewed under keys: nothing that a stranger could take for a handshake.
    let init = |payload: &Bytes| Header::decode(payload).is_ok_and(|head| head.kind == Kind::Init);
    let open = air.recorded.iter().filter(|(.., payload)| init(payload)).count() as u64;
    assert_eq!(open, begun);
}

#[test]
fn both_ends_may_renew_at_once_over_a_long_way() {
    let mut crossed = 0;
    for later in 0..40 {
        let mut air = Air::pair(&config());
        air.delay = Duration::from_millis(300);
        air.run(SECOND * 110);
        let before = air.nodes.iter().map(|node| node.counter("handshakes_done")).sum::<u64>();
        // An outage in which both would have renewed.
        air.loss = 1.0;
        air.run(SECOND * 25 + Duration::from_millis(later * 25));
        air.loss = 0.0;
        air.run(SECOND * 3);
        let done = air.nodes.iter().map(|node| node.counter("handshakes_done")).sum::<u64>();
        crossed += u64::from(done - before > 1);
        for _ in 0..10 {
            air.nodes.iter_mut().for_each(|node| node.came.clear());
            assert!(air.send(0, Some(2), FlowId(0), b"there"));
            assert!(air.send(1, Some(1), FlowId(0), b"back"));
            air.run(SECOND);
            let has = |node: &Node, body: &[u8]| node.came.iter().any(|it| it.payload == body);
            assert!(has(&air.nodes[1], b"there") && has(&air.nodes[0], b"back"), "{later}");
        }
    }
    assert!(crossed > 0, "it never happened");
}

#[test]
fn recorded_first_messages_put_off_no_renewal_and_no_meeting() {
    let mut air = Air::pair(&config());
    air.loss = 1.0;
    air.run(SECOND * 400);
    let is_init =
        |payload: &Bytes| Header::decode(payload).is_ok_and(|head| head.kind == Kind::Init);
    let mut old = std::mem::take(&mut air.recorded);
    old.retain(|(.., payload)| is_init(payload));
    assert!(old.len() > 1_000, "more than are remembered: {}", old.len());
    let mut recordings = old.iter().cycle();
    let mut replays = |air: &mut Air, length: Duration| {
        for _ in 0..length.as_micros() / 50_000 {
            let (from, to, payload) = recordings.next().expect("some");
            air.deliver(*from, *to, payload.clone());
            air.run(Duration::from_millis(50));
        }
    };
    replays(&mut air, SECOND * 20);
    assert!(!air.nodes[0].has_session(2));
    air.loss = 0.0;
    replays(&mut air, SECOND * 3);
    assert!(air.nodes[0].has_session(2) && air.nodes[1].has_session(1), "they meet");
    replays(&mut air, SECOND * 400);
    let expired: u64 = air.nodes.iter().map(|node| node.counter("sessions_expired")).sum();
    assert_eq!(expired, 0, "every session was renewed in time");
    assert!(air.reaches());
}

#[test]
fn nodes_that_part_for_hours_meet_again_by_themselves() {
    let mut air = Air::pair(&config());
    air.run(SECOND);
    air.loss = 1.0;
    air.run(SECOND * 3_600 * 3);
    assert!(!air.nodes[0].has_session(2) && !air.nodes[1].has_session(1));
    air.loss = 0.5;
    air.run(SECOND * 30);
    air.loss = 0.0;
    air.run(SECOND);
    assert!(air.reaches());
}

#[test]
fn a_node_that_restarts_is_met_again_at_once() {
    for (index, id, other) in [(0, 1, 2), (1, 2, 1)] {
        let mut air = Air::pair(&config());
        air.run(SECOND * 10);
        air.nodes[index] = Node::new(id, &[other], 1, &config());
        air.run(SECOND * 3);
        assert!(air.reaches(), "after a restart of {id}");
    }
}

#[test]
fn a_revoked_node_is_cut_off_at_once_and_does_not_read_on() {
    let nodes = [(1, [2, 3]), (2, [1, 3]), (3, [1, 2])];
    let mut air = Air::new(nodes.map(|(id, others)| Node::new(id, &others, 0, &config())).into());
    air.run(SECOND * 2);
    assert!(air.send(0, None, FlowId(0), b"for both"));
    air.run(air.delay * 2);
    let heard = |air: &Air, index: usize, what: &[u8]| {
        air.nodes[index].came.iter().any(|frame| frame.payload[..] == *what)
    };
    assert!(heard(&air, 1, b"for both") && heard(&air, 2, b"for both"));
    let keys = [(NodeId(2), identity(2).public())].into();
    air.nodes[0].secure.set_keys(&mut Cx::new(air.now), &keys);
    air.settle(0);
    assert!(!air.nodes[0].has_session(3));
    let opened = air.nodes[0].counter("opened");
    air.send(2, Some(1), FlowId(0), b"still me");
    air.run(SECOND * 5);
    assert!(!heard(&air, 0, b"still me") && !air.nodes[0].has_session(3));
    assert!(air.nodes[0].rejected("not-trusted") > 0);
    assert!(air.nodes[0].counter("opened") < opened + 10, "the other neighbour's confirmation");
    assert!(air.send(0, None, FlowId(0), b"for one"));
    air.run(air.delay * 2);
    assert!(heard(&air, 1, b"for one") && !heard(&air, 2, b"for one"));
}

#[test]
fn who_was_met_and_is_gone_does_not_read_on_once_it_is_revoked() {
    let nodes = [(1, 2), (2, 1), (3, 1)];
    let mut air = Air::new(nodes.map(|(id, other)| Node::new(id, &[other], 0, &config())).into());
    let trust = |air: &mut Air, ids: &[u16]| {
        let keys = ids.iter().map(|id| (NodeId(*id), identity(*id).public())).collect();
        air.nodes[0].secure.set_keys(&mut Cx::new(air.now), &keys);
        air.settle(0);
    };
    trust(&mut air, &[2, 3]);
    air.run(SECOND * 5);
    assert!(air.nodes[0].has_session(3));
    air.nodes.pop();
    air.run(session::EXPIRES_AFTER + SECOND * 100);
    assert_eq!(air.nodes[0].secure.peers.len(), 1, "it is forgotten");
    let known = |air: &Air| air.nodes[0].secure.broadcast.secret;
    let before = known(&air);
    trust(&mut air, &[2]);
    assert_ne!(known(&air), before);
}

#[test]
fn who_counts_far_ahead_in_the_name_of_another_silences_it_for_a_session_at_most() {
    let mut air = Air::pair(&config());
    air.run(SECOND * 2);
    let hears = |air: &mut Air| {
        air.nodes[1].came.clear();
        assert!(air.send(0, None, FlowId(0), b"to all"));
        air.run(air.delay * 2);
        !air.nodes[1].came.is_empty()
    };
    assert!(hears(&mut air));
    let (from, to, old) = air.recorded.last().expect("the broadcast").clone();
    let sent = std::mem::replace(&mut air.nodes[0].secure.broadcast.sent, (1 << 48) - 1);
    assert!(hears(&mut air), "a third one that has the key seals as well");
    air.nodes[0].secure.broadcast.sent = sent;
    assert!(!hears(&mut air) && air.nodes[1].rejected("replayed") == 1);
    air.run(session::REKEY_AFTER + session::GRACE);
    assert!(hears(&mut air));
    // Counters from before the new session stay refused.
    air.nodes[1].came.clear();
    air.deliver(from, to, old);
    assert!(air.nodes[1].came.is_empty());
}

#[test]
fn messages_go_by_all_radios_and_answers_by_the_one_that_was_asked() {
    let mut air = Air::pair(&config());
    air.loss = 1.0;
    air.run(SECOND * 3);
    assert!(air.nodes[0].asked.iter().all(|want| want.radio == RadioId(0)));
    let is_init =
        |payload: &Bytes| Header::decode(payload).is_ok_and(|head| head.kind == Kind::Init);
    let mut recorded = air.recorded.iter();
    let init = recorded.find(|(from, _, payload)| *from == NodeId(2) && is_init(payload));
    let (from, to, init) = init.expect("it has begun").clone();
    air.nodes[0].asked.clear();
    air.radio = RadioId(1);
    air.deliver(from, to, init);
    let answers = air.nodes[0].asked.iter().filter(|want| want.is_answer);
    assert_eq!(answers.map(|want| want.radio).collect::<Vec<_>>(), [RadioId(1)]);
    assert_eq!(air.nodes[0].secure.peers[0].ways, [RadioId(0)], "anybody can send a first message");
    // Once a frame of the neighbour was opened, its radio is a way to it.
    air.loss = 0.0;
    air.run(SECOND * 5);
    assert!(air.nodes[0].has_session(2));
    air.nodes[0].asked.clear();
    air.loss = 1.0;
    air.run(session::EXPIRES_AFTER + SECOND);
    let by = |radio| air.nodes[0].asked.iter().filter(|want| want.radio == RadioId(radio)).count();
    assert!(by(0) > 20 && by(0).abs_diff(by(1)) <= 1, "{} and {}", by(0), by(1));
}

#[test]
fn who_comes_into_reach_later_becomes_a_neighbour_if_it_is_trusted() {
    let mut air = Air::new(vec![
        Node::new(1, &[2], 0, &config()),
        Node::new(2, &[1], 0, &config()),
        Node::new(3, &[1], 0, &config()),
    ]);
    air.run(SECOND * 2);
    assert!(!air.nodes[0].has_session(3) && air.nodes[0].rejected("not-trusted") > 0);
    let keys = [2, 3].map(|id| (NodeId(id), identity(id).public())).into();
    air.nodes[0].secure.set_keys(&mut Cx::new(air.now), &keys);
    air.settle(0);
    air.run(SECOND * 5);
    assert!(air.nodes[0].has_session(3) && air.nodes[0].has_session(2));
}

#[test]
fn a_frame_in_the_name_of_a_node_that_is_not_there_costs_a_few_handshakes() {
    let mut air = Air::pair(&config());
    air.run(SECOND * 2);
    let keys = [2, 3].map(|id| (NodeId(id), identity(id).public())).into();
    air.nodes[0].secure.set_keys(&mut Cx::new(air.now), &keys);
    air.settle(0);
    let before = air.nodes[0].counter("handshakes_begun");
    air.deliver(NodeId(3), None, Bytes::from_static(&[9; 60]));
    air.run(SECOND * 100);
    let begun = air.nodes[0].counter("handshakes_begun") - before;
    assert!((1..=25).contains(&begun), "{begun}");
    assert_eq!(air.nodes[0].secure.peers.len(), 1, "it is forgotten");
    assert!(air.nodes[0].has_session(2) && air.reaches());
    // If it comes after all, it is met.
    air.nodes.push(Node::new(3, &[1], 0, &config()));
    air.run(SECOND * 5);
    assert!(air.nodes[0].has_session(3));
}

#[test]
fn authenticate_only_is_readable_and_does_not_mix_with_encryption() {
    let ham = SecurityConfig { mode: SecurityMode::AuthenticateOnly, ..config() };
    let mut air = Air::pair(&ham);
    air.run(SECOND);
    assert!(air.reaches());
    let (.., frame) = air.recorded.last().expect("the frame");
    assert!(frame.windows(4).any(|part| part == b"data"));
    let mut air = Air::new(vec![Node::new(1, &[2], 0, &ham), Node::new(2, &[1], 0, &config())]);
    air.run(SECOND * 3);
    assert!(!air.nodes[0].has_session(2) && air.nodes[1].rejected("other-mode") > 0);
    assert_eq!([0, 1].map(|node| air.nodes[node].differs()), [Some(Difference::Mode); 2]);
}

#[test]
fn a_neighbour_that_began_anew_with_another_mode_is_told_long_before_the_session_ends() {
    let ham = SecurityConfig { mode: SecurityMode::AuthenticateOnly, ..config() };
    let mut air = Air::pair(&ham);
    air.run(SECOND * 2);
    assert!(air.reaches());
    air.nodes[1] = Node::new(2, &[1], 1, &config());
    air.run(SECOND * 10);
    assert!(air.nodes[0].has_session(2), "it is as good as new");
    assert_eq!(air.nodes[0].differs(), Some(Difference::Mode));
    assert_eq!(air.nodes[1].differs(), None, "nothing has come of the other yet");
    assert!(air.send(0, Some(2), FlowId(0), b"data under the old session"));
    air.run(SECOND);
    assert_eq!(air.nodes[1].differs(), Some(Difference::Mode));
}

#[test]
fn who_sends_in_the_clear_is_told_from_others_until_keys_are_shared() {
    let mut air = Air::pair(&config());
    let clear = |air: &mut Air| {
        let frame = ReceivedFrame {
            radio: RadioId(0),
            from: NodeId(2),
            to: Some(NodeId(1)),
            protocol: EtherType::FARHOP,
            payload: Bytes::from_static(b"a beacon"),
            started: air.now,
            rate: Bitrate::from_mbps(11.0),
            signal: None,
            bits: 0,
        };
        let mut cx = Cx::new(air.now);
        air.nodes[0].secure.handle_rx(&mut cx, FrameUp::Received(frame));
    };
    assert_eq!(air.nodes[0].differs(), None);
    clear(&mut air);
    assert_eq!(air.nodes[0].differs(), Some(Difference::Clear));
    let later = air.now + SECOND * 60;
    assert_eq!(air.nodes[0].secure.status(later).peers[0].differs, None, "nobody says so now");
    air.run(SECOND * 3);
    assert!(air.nodes[0].has_session(2));
    assert_eq!(air.nodes[0].differs(), None);
    clear(&mut air);
    assert_eq!(air.nodes[0].differs(), None, "a stranger: the neighbour shares our keys");
}

#[test]
fn a_stranger_gets_no_answer_whatever_it_sends() {
    let mut air = Air::new(vec![Node::new(1, &[2], 0, &config())]);
    air.loss = 1.0;
    air.run(SECOND);
    let mut rng = Seed(7).stream("stranger");
    let sent = air.nodes[0].counter("handshakes_answered");
    for _ in 0..20_000 {
        let length = 2 + rng.below(300) as usize;
        let mut bytes: Vec<u8> = (0..length).map(|_| rng.next_u64() as u8).collect();
        bytes[0] = 0x10 | bytes[0] & 0x0f;
        let to = (bytes[0] & 7 < 6).then_some(NodeId(1));
        air.deliver(NodeId(2), to, bytes.into());
    }
    assert_eq!(air.nodes[0].counter("opened"), 0);
    assert_eq!(air.nodes[0].counter("handshakes_answered"), sent);
    assert_eq!(air.nodes[0].counter("cookies_sent"), 0);
    assert!(air.nodes[0].came.is_empty());
}

#[test]
fn a_shared_key_is_needed_where_one_is_set() {
    let psk = Some("MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=".to_owned());
    let with = SecurityConfig { psk, ..config() };
    let mut air = Air::pair(&with);
    air.run(SECOND);
    assert!(air.reaches());
    let mut air = Air::new(vec![Node::new(1, &[2], 0, &with), Node::new(2, &[1], 0, &config())]);
    air.run(SECOND * 3);
    assert!(!air.nodes[0].has_session(2) && air.nodes[1].rejected("handshake-forged") > 0);
}
