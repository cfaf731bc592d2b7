//! A tree of 24 nodes with long links, all on one channel, on the medium of the simulator: every
//! link finds step and keeps it, and no frame comes to a node that sends or may send.

use farhop_proto::base::{
    Cx, Duration, FrameUp, Instant, Lane, Layer as _, Rng, Room, Seed, Trace, UnitIds,
};
use farhop_proto::link::Link as _;
use farhop_proto::link::wild::{Wild, WildConfig};
use farhop_proto::stack::{LinkConfig, NodePlan, Plan, Scenario};
use farhop_sim::engine::medium_config;
use farhop_sim::radio::{Medium, MediumEvent, TransmissionKind};
use farhop_testkit::oracles::SlotOracle;
use farhop_testkit::{Clock, keep_waiting};

const NODES: usize = 24;

fn secs(seconds: f64) -> Instant {
    Instant::ZERO + Duration::from_secs_f64(seconds)
}

/// A tree, drawn; a radio for each link, at each end, on one channel. Links of 1 to 90 km.
fn scenario(rng: &mut Rng) -> Scenario {
    let mut text = String::from(
        "name = \"tree\"\n[radio]\nphy = \"802.11b\"\npreamble = \"short\"\nrate_mbps = 11\n\
         ack_rate_mbps = 2\ngap = \"difs\"\n[stack.link]\nkind = \"wild\"\nguard_ms = 1.0\n",
    );
    text += &(0..NODES).map(|node| format!("[[node]]\nname = \"{node}\"\n")).collect::<String>();
    for node in 1..NODES {
        // Not all on one: whoever comes may hang on one of the last six.
        let above = node - 1 - rng.below(node.min(6) as u64) as usize;
        let km = 1 + rng.below(90);
        text += &format!(
            "[[link]]\nbetween = [\"{above}\", \"{node}\"]\ndistance_km = {km}\n\
             radio = {{ channel = 1 }}\n"
        );
    }
    farhop_testkit::scenario(&text)
}

/// A node: its link, and the radios of its own by their indices on the medium.
struct Node {
    plan: NodePlan,
    wild: Wild,
    clock: Clock,
    first: usize,
}

fn wild(plan: &NodePlan, seed: Seed) -> Wild {
    let LinkConfig::Wild(config) = &plan.stack.link else { panic!("the scenario says wild") };
    Wild::build(config, plan.node, &plan.radio_specs(), &plan.peers, seed)
}

/// The start of each send slot of a node, of what it decides.
#[derive(Default)]
struct Slots(u32);

impl Trace for Slots {
    fn record(&mut self, _now: Instant, event: &dyn erased_serde::Serialize) {
        let event = serde_json::to_value(event).expect("plain data");
        self.0 += u32::from(event["event"] == "slot_began");
    }
}

/// The tree in motion.
struct Tree {
    medium: Medium,
    nodes: Vec<Node>,
    node_of: Vec<usize>,
    /// By radio: the radio at the other end, and how long light takes.
    others: Vec<(usize, Duration)>,
    oracle: SlotOracle,
    ids: UnitIds,
    rng: Rng,
    /// How many of the frames that bring a stamp are lost.
    loss: f64,
    lives: u64,
    now: Instant,
}

impl Tree {
    fn new(seed: u64, loss: f64) -> Self {
        let mut rng = Seed(seed).stream("tree");
        let scenario = scenario(&mut rng);
        assert_eq!(scenario.problems(), []);
        let plan: Plan = scenario.plan();
        let config = medium_config(&scenario, &plan);
        let mut others = vec![(usize::MAX, Duration::ZERO); config.radios.len()];
        let mut node_of = Vec::new();
        let mut nodes = Vec::new();
        for (index, plan) in plan.nodes.into_iter().enumerate() {
            let first = node_of.len();
            node_of.extend(plan.radios.iter().map(|_| index));
            let offset_ns = rng.below(3_000_000_000);
            let clock = Clock { offset_ns, drift_ppb: rng.below(100_000) as i64 - 50_000 };
            let wild = wild(&plan, Seed(seed * 1_000 + index as u64));
            nodes.push(Node { plan, wild, clock, first });
        }
        for link in &config.links {
            // Radios are heard by all of the other node; a link has one at each end.
            let [from, to] = [link.from, link.to].map(|radio| node_of[radio]);
            let faces = |radio: usize, node: usize| {
                let Node { plan, first, .. } = &nodes[node_of[radio]];
                plan.peers.iter().any(|peer| {
                    first + usize::from(peer.radio.0) == radio
                        && usize::from(peer.node.0) == node + 1
                })
            };
            if faces(link.from, to) && faces(link.to, from) {
                others[link.from] = (link.to, link.delay);
            }
        }
        let mut medium = Medium::new(config, Seed(seed));
        medium.record_transmissions(true);
        let (oracle, ids, now) = (SlotOracle::new(NODES), UnitIds::default(), Instant::ZERO);
        Self { medium, nodes, node_of, others, oracle, ids, rng, loss, lives: 0, now }
    }

    fn is_in_step(&self) -> bool {
        self.nodes.iter().all(|node| {
            let status = node.wild.status(node.clock.local(self.now));
            status.neighbours.iter().all(|peer| peer.up)
        })
    }

    /// A node begins anew: whatever its link knew is gone.
    fn restart(&mut self, node: usize) {
        self.lives += 1;
        let seed = Seed(1_000_000 + self.lives);
        self.nodes[node].wild = wild(&self.nodes[node].plan, seed);
    }

    fn run_until(&mut self, until: Instant) {
        while self.now < until {
            let due = |node: &Node| Some(node.clock.true_time(node.wild.poll_timeout()?));
            let wake = self.nodes.iter().filter_map(due).min().unwrap_or(until);
            let limit = wake.max(self.now).min(until);
            self.now = self.medium.run_ahead(limit).unwrap_or(limit);
            self.medium.handle_timeout(self.now);
            self.turn_all();
            self.watch();
        }
    }

    /// Lets every node act that has something to act on.
    fn turn_all(&mut self) {
        loop {
            let mut touched: Vec<usize> = Vec::new();
            while let Some(event) = self.medium.poll_event() {
                touched.push(self.on_event(event));
            }
            for index in 0..NODES {
                let node = &self.nodes[index];
                let is_due = |due| due <= node.clock.local(self.now);
                if node.wild.poll_timeout().is_some_and(is_due) {
                    self.with(index, |wild, cx| wild.handle_timeout(cx));
                    touched.push(index);
                }
            }
            if touched.is_empty() {
                return;
            }
            touched.sort_unstable();
            touched.dedup();
            touched.into_iter().for_each(|index| self.turn(index));
        }
    }

    /// Calls the link of a node, and tells the oracle if a send slot begins.
    fn with<T>(&mut self, index: usize, call: impl FnOnce(&mut Wild, &mut Cx<'_>) -> T) -> T {
        let Node { wild, clock, .. } = &mut self.nodes[index];
        let mut slots = Slots::default();
        let mut cx = Cx::with_trace(clock.local(self.now), Some(&mut slots));
        let result = call(wild, &mut cx);
        if slots.0 > 0 {
            let config = WildConfig::default();
            let open = config.slot().saturating_sub(Duration::from_millis(1));
            self.oracle.on_slot(index, self.now, self.now + open);
        }
        result
    }

    fn on_event(&mut self, MediumEvent { radio, event, .. }: MediumEvent) -> usize {
        let index = self.node_of[radio];
        let clock = self.nodes[index].clock;
        let event = match event {
            FrameUp::Received(mut frame) => {
                let has_stamp = frame.payload[1] & 1 != 0;
                if has_stamp && self.rng.chance(self.loss) {
                    return index;
                }
                frame.started = clock.local(frame.started);
                FrameUp::Received(frame)
            }
            FrameUp::Overheard(_) => return index,
            other => other,
        };
        self.with(index, |wild, cx| wild.handle_rx(cx, event));
        index
    }

    fn turn(&mut self, index: usize) {
        loop {
            while self.with(index, |wild, cx| wild.poll_rx(cx)).is_some() {}
            let peers = self.nodes[index].plan.peers.clone();
            let mut ids = std::mem::take(&mut self.ids);
            self.with(index, |wild, cx| keep_waiting(wild, cx, &peers, &mut ids));
            self.ids = ids;
            let first = self.nodes[index].first;
            let mut slots = Slots::default();
            let Node { wild, clock, .. } = &mut self.nodes[index];
            let mut cx = Cx::with_trace(clock.local(self.now), Some(&mut slots));
            let medium = &self.medium;
            let room = |lane: Lane| {
                Room::units(medium.room(first + usize::from(lane.radio.0), lane.access))
            };
            let Some(unit) = wild.poll_tx(&mut cx, &room) else { return };
            assert_eq!(slots.0, 0, "slots begin when they are due");
            let farhop_proto::base::FrameDown::Frame(mut frame) = unit else {
                panic!("only frames are sent here")
            };
            frame.options.deadline = frame.options.deadline.map(|at| clock.true_time(at));
            let radio = first + usize::from(frame.radio.0);
            let unit = farhop_proto::base::FrameDown::Frame(frame);
            self.medium.handle_frame(self.now, radio, unit);
        }
    }

    /// Tells the oracle what goes on air, and of each frame when it comes to its neighbour.
    fn watch(&mut self) {
        while let Some(transmission) = self.medium.poll_transmission() {
            let (start, end) = (transmission.start, transmission.end);
            let from = self.node_of[transmission.radio];
            self.oracle.on_transmission(from, start, end);
            let (other, delay) = self.others[transmission.radio];
            assert!(matches!(transmission.kind, TransmissionKind::Data { .. }), "frames alone");
            let ends = [from, self.node_of[other]];
            self.oracle.on_arrival(ends, start + delay, end + delay);
        }
        self.oracle.judge_until(self.now.offset(-1_000_000));
    }

    /// How long it takes from now until all links are in step, looked at every 100 ms.
    fn in_step_within(&mut self, most: f64) -> f64 {
        let from = self.now;
        for tenth in 1..=(most * 10.0) as u32 {
            let after = f64::from(tenth) / 10.0;
            self.run_until(from + Duration::from_secs_f64(after));
            if self.is_in_step() {
                return after;
            }
        }
        panic!("not in step within {most} s");
    }

    /// Runs on for so long; the frames judged meanwhile and those that must not have come.
    fn judge_for(&mut self, seconds: f64) -> (u64, usize) {
        let (judged, faults) = (self.oracle.judged, self.oracle.faults.len());
        self.run_until(self.now + Duration::from_secs_f64(seconds));
        (self.oracle.judged - judged, self.oracle.faults.len() - faults)
    }
}

#[test]
fn a_tree_of_24_nodes_finds_step_and_no_frame_comes_to_a_node_that_may_send() {
    for seed in 1..=3 {
        let mut tree = Tree::new(seed, 0.05);
        let found = tree.in_step_within(8.0);
        tree.judge_for(1.0);
        let (judged, faults) = tree.judge_for(2.0);
        println!("seed {seed}: in step after {found} s, {judged} frames, {faults} faults");
        assert!(tree.is_in_step() && judged > 15_000, "{judged}");
        let last = tree.oracle.faults.len() - faults;
        assert_eq!(faults, 0, "seed {seed}: {:?}", &tree.oracle.faults[last..]);
    }
}

#[test]
fn any_node_of_the_tree_may_begin_anew() {
    let mut tree = Tree::new(4, 0.05);
    tree.in_step_within(8.0);
    tree.judge_for(1.0);
    for node in 0..NODES {
        tree.restart(node);
        tree.run_until(tree.now + Duration::from_secs_f64(0.1));
        let found = tree.in_step_within(3.0);
        let (_, disturbed) = tree.judge_for(1.0);
        let (judged, faults) = tree.judge_for(1.0);
        println!("node {node}: back after {found} s, {disturbed} faults meanwhile, then {judged}");
        assert!(tree.is_in_step(), "after the restart of {node}");
        assert_eq!(faults, 0, "after the restart of {node}");
    }
}

#[test]
fn slots_that_are_out_of_step_do_not_escape_the_oracle() {
    let mut tree = Tree::new(5, 0.05);
    tree.in_step_within(8.0);
    tree.judge_for(1.0);
    assert_eq!(tree.judge_for(0.5).1, 0);
    // The clock of a node jumps by half a slot, and its slots with it.
    tree.nodes[7].clock.offset_ns += 10_000_000;
    let (_, faults) = tree.judge_for(0.1);
    assert!(faults > 10, "{faults} in 2 cycles");
    tree.judge_for(0.5);
    assert_eq!(tree.judge_for(0.5).1, 0, "back in step");
    // And where no stamp comes at all, nobody finds step.
    let mut tree = Tree::new(6, 1.0);
    let (judged, faults) = tree.judge_for(4.0);
    println!("without stamps: {faults} of {judged} frames");
    assert!(!tree.is_in_step() && faults * 4 > judged as usize);
    assert!(tree.now == secs(4.0));
}
