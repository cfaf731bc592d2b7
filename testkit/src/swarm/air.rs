//! The event loop of a swarm, and the fate of its datagrams.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use farhop_proto::base::{
    AckPolicy, Cx, Datagram, DatagramUp, Destination, Duration, Instant, NodeId, PacketDone,
    PacketOutcome, RadioId, Rng, Room, Seed, UnitId,
};
use farhop_proto::transport::hop::HopConfig;
use farhop_proto::wire::hop::{self, BlockId, Body, FlowKey, Refusal};
use farhop_proto::wire::udp;

use super::Outcome;
use super::node::Node;
use super::plan::{Fault, Plan};

/// Probability that a lost message is reported as drowned, as if it met a packet of a call.
const CALL: f64 = 0.02;
/// Air time of a message, and of a frame of a block.
const MESSAGE: Duration = Duration::from_micros(300);
const FRAME: Duration = Duration::from_micros(1_000);
/// Longest delay from a fault to the new routes, in milliseconds.
const ROUTES: u64 = 4_000;
/// Time limit for everything to arrive after the last fault.
const PATIENCE: Duration = Duration::from_secs(1_200);
/// Time limit after that until nobody sends any more.
const SILENCE: Duration = Duration::from_secs(300);
/// How often bounds are checked.
const LOOK: Duration = Duration::from_millis(500);
/// Events kept in the log.
const LOG: usize = 400;
/// Most blocks that a machine may hold.
const BLOCKS: u64 = 2_048;

enum Event {
    Arrives { to: usize, via: NodeId, packet: Bytes },
    Done { at: usize, life: u32, id: UnitId, outcome: PacketOutcome },
    Disk { at: usize, life: u32 },
    Fault(Fault),
    Routes,
    Sway,
    Look,
    Begin,
}

pub(super) struct Air<'a> {
    plan: &'a Plan,
    config: &'a HopConfig,
    now: Instant,
    nodes: Vec<Node>,
    /// For each link, the number of faults that keep it down.
    down: Vec<u32>,
    /// For each node, the number of faults that keep it down.
    away: Vec<u32>,
    busy_until: Vec<Instant>,
    events: BTreeMap<(Instant, u64), Event>,
    count: u64,
    rng: Rng,
    lengths: BTreeMap<FlowKey, Vec<usize>>,
    outcome: Outcome,
    last_sent: Instant,
    /// The last events, if wanted.
    log: Option<VecDeque<String>>,
}

impl<'a> Air<'a> {
    pub(super) fn build(plan: &'a Plan, seed: u64) -> Self {
        let of = |node: NodeId| {
            plan.flows.iter().filter(|flow| flow.key.source == node).cloned().collect()
        };
        let node = |index: u16| {
            let (id, clock) = (NodeId(index + 1), plan.clocks[usize::from(index)]);
            Node::build(id, &plan.config, of(id), clock)
        };
        let nodes = usize::from(plan.nodes);
        let mut air = Self {
            plan,
            config: &plan.config,
            now: Instant::ZERO,
            nodes: (0..plan.nodes).map(node).collect(),
            down: vec![0; plan.links.len()],
            away: vec![0; nodes],
            busy_until: vec![Instant::ZERO; nodes],
            events: BTreeMap::new(),
            count: 0,
            rng: Seed(seed).stream("air"),
            lengths: plan.flows.iter().map(|flow| (flow.key, flow.lengths.clone())).collect(),
            outcome: Outcome::default(),
            last_sent: Instant::ZERO,
            log: None,
        };
        for (at, fault) in &plan.faults {
            air.expect(*at, Event::Fault(*fault));
        }
        plan.flows.iter().for_each(|flow| air.expect(flow.begins, Event::Begin));
        plan.sways.iter().for_each(|at| air.expect(*at, Event::Sway));
        [Instant::ZERO, plan.healed].into_iter().for_each(|at| air.expect(at, Event::Routes));
        air.expect(Instant::ZERO, Event::Look);
        air
    }

    /// Starts the log.
    pub(super) fn keep_log(&mut self) {
        self.log = Some(VecDeque::new());
    }

    /// Takes the log.
    pub(super) fn log(&mut self) -> Vec<String> {
        self.log.take().into_iter().flatten().collect()
    }

    fn note(&mut self, what: impl FnOnce() -> String) {
        let at_s = self.now_s();
        if let Some(log) = &mut self.log {
            if log.len() >= LOG {
                log.pop_front();
            }
            log.push_back(format!("{at_s:10.4} {}", what()));
        }
    }

    pub(super) fn now_s(&self) -> f64 {
        self.now.as_secs_f64()
    }

    fn expect(&mut self, at: Instant, event: Event) {
        self.count += 1;
        self.events.insert((at, self.count), event);
    }

    /// Runs until everything has arrived and nobody sends any more, or an oracle is not satisfied.
    pub(super) fn run(&mut self) -> Result<Outcome, String> {
        let begun = self.plan.flows.iter().map(|flow| flow.begins).max();
        let healed = self.plan.healed.max(begun.expect("something is sent"));
        let mut done_at = None;
        loop {
            self.settle()?;
            if done_at.is_none() && self.now >= healed && self.nodes.iter().all(Node::is_done) {
                done_at = Some(self.now);
                self.outcome.recovery_s = self.now.since(healed).as_secs_f64();
            }
            match done_at {
                None if self.now > healed + PATIENCE => return Err(self.stuck()),
                Some(at) if self.now > at + SILENCE => return self.ended(),
                _ => {}
            }
            self.step()?;
        }
    }

    fn stuck(&self) -> String {
        let all: Vec<String> = self.nodes.iter().map(Node::describe).collect();
        format!("all is well for {PATIENCE:?}, and not all has arrived:\n{}", all.join("\n"))
    }

    fn ended(&mut self) -> Result<Outcome, String> {
        if self.last_sent + Duration::from_secs(30) > self.now {
            let all: Vec<String> = self.nodes.iter().map(Node::describe).collect();
            return Err(format!("all has arrived, and there is no silence:\n{}", all.join("\n")));
        }
        let sent: u64 = self.plan.flows.iter().map(|flow| flow.lengths.len() as u64).sum();
        if self.outcome.blocks != sent {
            return Err(format!("{} blocks of {sent} were delivered", self.outcome.blocks));
        }
        Ok(self.outcome)
    }

    fn step(&mut self) -> Result<(), String> {
        let event = self.events.first_key_value().map(|(key, _)| key.0);
        let timer = |node: &Node| node.hop.poll_timeout().map(|local| node.global(local));
        let timers = self.nodes.iter().filter(|node| node.is_up).filter_map(timer);
        let next = timers.chain(event).min().expect("someone always looks");
        self.now = self.now.max(next);
        for node in &mut self.nodes {
            let local = node.local(self.now);
            if node.is_up && node.hop.poll_timeout().is_some_and(|due| due <= local) {
                node.hop.handle_timeout(&mut Cx::new(local));
                if node.hop.poll_timeout().is_some_and(|due| due <= local) {
                    return Err(format!("node {} is due again at once", node.id.0));
                }
            }
        }
        while let Some(entry) = self.events.first_entry().filter(|one| one.key().0 <= self.now) {
            let event = entry.remove();
            self.happens(event)?;
        }
        Ok(())
    }

    fn happens(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Arrives { to, via, packet } => {
                let signal = None;
                self.tell(to, DatagramUp::Received { via, payload: packet, signal });
            }
            Event::Done { at, life, id, outcome } if self.nodes[at].life == life => {
                let (attempts, air_time) = (1, Duration::ZERO);
                self.tell(at, DatagramUp::Done(PacketDone { id, outcome, attempts, air_time }));
            }
            Event::Disk { at, life } if self.nodes[at].life == life => {
                self.nodes[at].is_writing = false;
                let delivered = self.nodes[at].on_disk_done(self.now, &self.lengths)?;
                self.outcome.blocks += u64::from(delivered.is_some());
            }
            Event::Fault(fault) => self.on_fault(fault),
            Event::Routes => self.tell_routes(),
            Event::Sway => self.sway(),
            Event::Look => {
                self.look()?;
                self.expect(self.now + LOOK, Event::Look);
            }
            Event::Begin | Event::Done { .. } | Event::Disk { .. } => {}
        }
        Ok(())
    }

    fn tell(&mut self, at: usize, event: DatagramUp) {
        let node = &mut self.nodes[at];
        if node.is_up {
            let local = node.local(self.now);
            node.hop.handle_rx(&mut Cx::new(local), event);
        }
    }

    fn on_fault(&mut self, fault: Fault) {
        self.note(|| format!("{fault:?}"));
        let index = |node: NodeId| usize::from(node.0) - 1;
        match fault {
            Fault::Crash(node) => {
                self.away[index(node)] += 1;
                self.nodes[index(node)].crash();
            }
            Fault::Restart(node) => {
                self.away[index(node)] -= 1;
                if self.away[index(node)] == 0 {
                    self.nodes[index(node)].begin(self.now);
                    self.outcome.restarts += 1;
                }
            }
            Fault::Down(link) => self.down[link] += 1,
            Fault::Up(link) => self.down[link] -= 1,
            Fault::Full(node) => self.nodes[index(node)].disk.is_full = true,
            Fault::Free(node) => self.nodes[index(node)].disk.is_full = false,
        }
        let later = Duration::from_millis(self.rng.below(ROUTES));
        self.expect(self.now + later, Event::Routes);
    }

    /// Tells each node the next hop to all nodes that it can reach now; for others it keeps the
    /// last one.
    fn tell_routes(&mut self) {
        for from in 0..self.nodes.len() {
            for (to, (via, hops)) in self.ways_from(from) {
                let dst = NodeId(to as u16 + 1);
                // Neighbours are divided between two radios.
                let radio = RadioId((via.0 % 2) as u8);
                self.tell(from, DatagramUp::NextHop { dst, via, radio, hops });
            }
        }
    }

    /// Tells some nodes random next hops.
    fn sway(&mut self) {
        let nodes = self.nodes.len();
        for from in 0..nodes {
            let near: Vec<usize> = self.neighbours(from).collect();
            for to in 0..nodes {
                if to == from || near.is_empty() || self.rng.chance(0.7) {
                    continue;
                }
                let via = NodeId(near[self.rng.below(near.len() as u64) as usize] as u16 + 1);
                let (dst, radio) = (NodeId(to as u16 + 1), RadioId((via.0 % 2) as u8));
                let hops = 1 + self.rng.below(nodes as u64) as u8;
                self.note(|| format!("{}: to {} by {}", from + 1, dst.0, via.0));
                self.tell(from, DatagramUp::NextHop { dst, via, radio, hops });
            }
        }
    }

    fn neighbours(&self, of: usize) -> impl Iterator<Item = usize> {
        let links = self.plan.links.iter().zip(&self.down);
        links.filter(|(_, down)| **down == 0).filter_map(move |((a, b, _), _)| {
            let (a, b) = (usize::from(a.0) - 1, usize::from(b.0) - 1);
            (a == of).then_some(b).or((b == of).then_some(a))
        })
    }

    /// Next hop and number of hops to every node that can be reached.
    fn ways_from(&self, from: usize) -> BTreeMap<usize, (NodeId, u8)> {
        let mut ways = BTreeMap::new();
        let (mut seen, mut next) = (BTreeSet::from([from]), VecDeque::new());
        next.push_back((from, None, 0));
        while let Some((at, first, hops)) = next.pop_front() {
            for to in self.neighbours(at).collect::<Vec<_>>() {
                if self.nodes[to].is_up && seen.insert(to) {
                    let first = first.unwrap_or(NodeId(to as u16 + 1));
                    ways.insert(to, (first, hops + 1));
                    next.push_back((to, Some(first), hops + 1));
                }
            }
        }
        ways
    }

    /// Moves everything that can move without time passing.
    fn settle(&mut self) -> Result<(), String> {
        for at in 0..self.nodes.len() {
            if !self.nodes[at].is_up {
                continue;
            }
            let mut cx = Cx::new(self.nodes[at].local(self.now));
            loop {
                for arrived in self.nodes[at].turn(self.now) {
                    self.check_arrived(arrived.id.flow, arrived.id.number, arrived.refusal)?;
                }
                let node = &mut self.nodes[at];
                let Some(datagram) = node.hop.poll_tx(&mut cx, &|_| Room::UNLIMITED) else { break };
                self.transmit(at, datagram);
            }
            let node = &mut self.nodes[at];
            if node.has_task() && !node.is_writing {
                node.is_writing = true;
                let life = node.life;
                let takes = self.plan.disk.mul_f64(self.rng.uniform());
                self.expect(self.now + takes, Event::Disk { at, life });
            }
        }
        Ok(())
    }

    /// Oracle: a block whose arrival was reported to its source is on the destination's disk.
    fn check_arrived(
        &self,
        flow: FlowKey,
        number: u32,
        refusal: Option<Refusal>,
    ) -> Result<(), String> {
        let plan = self.plan.flows.iter().find(|plan| plan.key == flow);
        let to = plan.ok_or_else(|| format!("{flow:?} was never sent"))?.to;
        let disk = &self.nodes[usize::from(to.0) - 1].disk;
        let has = disk.incoming.get(&flow).is_some_and(|(_, next)| *next > number);
        if let Some(why) = refusal {
            return Err(format!("block {number} of {flow:?} was refused: {why:?}"));
        }
        let fault = || format!("block {number} of {flow:?} was acknowledged and is not there");
        if has { Ok(()) } else { Err(fault()) }
    }

    fn transmit(&mut self, at: usize, datagram: Datagram) {
        let Destination::NextHop(to) = datagram.to else {
            return self.transmit_around(at, &datagram);
        };
        let is_frame = datagram.options.ack == AckPolicy::NoAck;
        let begin = self.busy_until[at].max(self.now);
        let done = begin + if is_frame { FRAME } else { MESSAGE };
        self.busy_until[at] = done;
        (self.last_sent, self.outcome.datagrams) = (self.now, self.outcome.datagrams + 1);
        let loss = self.loss(at, usize::from(to.0) - 1);
        let is_lost = loss.is_none_or(|loss| self.rng.chance(loss));
        // The radio's acknowledgement may be lost as well.
        let is_failed = is_lost || self.rng.chance(loss.unwrap_or(1.0));
        let link = self.link(at, usize::from(to.0) - 1);
        let is_acknowledged = link.is_some_and(|link| self.plan.acknowledged[link]);
        let outcome = match is_failed {
            _ if is_frame || !is_acknowledged => PacketOutcome::Sent,
            true => PacketOutcome::Failed,
            false => PacketOutcome::Delivered,
        };
        let fate = if is_lost { " (lost)" } else { "" };
        self.note(|| format!("{} > {}: {}{fate}", at + 1, to.0, words(&datagram.payload)));
        let life = self.nodes[at].life;
        self.expect(done, Event::Done { at, life, id: datagram.id, outcome });
        if is_lost && !is_frame && self.rng.chance(CALL) {
            let local = self.nodes[at].local(self.now);
            self.nodes[at].hop.handle_rx(&mut Cx::new(local), DatagramUp::Drowned(to));
        }
        self.arrive(at, to, done, is_lost, &datagram.payload);
    }

    /// Sends a message to all neighbours.
    fn transmit_around(&mut self, at: usize, datagram: &Datagram) {
        let done = self.busy_until[at].max(self.now) + MESSAGE;
        self.busy_until[at] = done;
        self.note(|| format!("{} > all: {}", at + 1, words(&datagram.payload)));
        let (id, life) = (datagram.id, self.nodes[at].life);
        self.expect(done, Event::Done { at, life, id, outcome: PacketOutcome::Sent });
        for to in self.neighbours(at).collect::<Vec<_>>() {
            let is_lost = self.loss(at, to).is_none_or(|loss| self.rng.chance(loss));
            self.arrive(at, NodeId(to as u16 + 1), done, is_lost, &datagram.payload);
        }
    }

    /// Delivers a datagram unless it is lost, perhaps twice or corrupted.
    fn arrive(&mut self, at: usize, to: NodeId, done: Instant, is_lost: bool, payload: &Bytes) {
        let copies = u64::from(!is_lost) * (1 + u64::from(self.rng.chance(self.plan.repeat)));
        for _ in 0..copies {
            let arrives = done + self.plan.spread.mul_f64(self.rng.uniform());
            let mut packet = payload.clone();
            if self.rng.chance(self.plan.corrupt) {
                let mut bytes = packet.to_vec();
                let place = self.rng.below(bytes.len() as u64) as usize;
                bytes[place] ^= 1 << self.rng.below(8);
                packet = bytes.into();
            }
            let (to, via) = (usize::from(to.0) - 1, NodeId(at as u16 + 1));
            self.expect(arrives, Event::Arrives { to, via, packet });
        }
    }

    /// The index of the link between two nodes.
    fn link(&self, a: usize, b: usize) -> Option<usize> {
        let is_between = |(x, y, _): &(NodeId, NodeId, f64)| {
            let (x, y) = (usize::from(x.0) - 1, usize::from(y.0) - 1);
            (x, y) == (a, b) || (x, y) == (b, a)
        };
        self.plan.links.iter().position(is_between)
    }

    /// The loss between two nodes; `None` if nothing gets through.
    fn loss(&self, a: usize, b: usize) -> Option<f64> {
        let link = self.link(a, b)?;
        (self.down[link] == 0 && self.nodes[b].is_up).then_some(self.plan.links[link].2)
    }

    /// Oracle: no machine exceeds its bounds.
    fn look(&self) -> Result<(), String> {
        for node in self.nodes.iter().filter(|node| node.is_up) {
            let counters = node.hop.counters();
            let (blocks, memory) = (counters["blocks_held"], counters["memory_held"]);
            if blocks > BLOCKS || memory > self.config.memory_bytes {
                let node = node.id.0;
                return Err(format!("node {node} holds {blocks} blocks and {memory} bytes"));
            }
        }
        Ok(())
    }
}

/// A message as a line of the log.
fn words(packet: &Bytes) -> String {
    let message = udp::decode(packet).map(|(_, range)| packet.slice(range));
    let decoded = message.ok().and_then(|message| hop::decode(&message).ok());
    let Some((header, body)) = decoded else { return "not a message".into() };
    let BlockId { flow, number } = header.block;
    let block = format!("{}.{}.{number} for {}", flow.source.0, flow.local, header.destination.0);
    let what = match body {
        Body::Data { frame, .. } => format!("frame {frame} of {}", header.frames),
        Body::Request { round, is_virtual: true, .. } => format!("virtual request, round {round}"),
        Body::Request { round, .. } => format!("request, round {round}"),
        Body::Answer { round, bits } => {
            let have: u32 = bits.iter().map(|byte| byte.count_ones()).sum();
            format!("answer, round {round}: {have} of {}", header.frames)
        }
        Body::Arrived { refusal: Some(why), .. } => format!("refused: {why:?}"),
        Body::Arrived { refusal: None, .. } => "arrived".into(),
        Body::Listen => "listens".into(),
        Body::Call => "a call fails".into(),
    };
    format!("{block}: {what}, {} hops made", header.hops_made)
}
