//! Machines over an air that loses, repeats and reorders.

mod absent;
mod bad_input;
mod call;
mod chain;
mod gap;
mod held;
mod listen;
mod parked;
mod path;
mod radios;
mod safety;
mod schedule;
mod stale;
mod too_long;
mod ways;
mod wires;

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::base::{
    AckPolicy, Datagram, Destination, Duration, FlowId, PacketDone, Room, Seed, UnitId as Unit,
};

/// What the air does to a datagram.
#[derive(Clone, Copy, Debug, Default)]
struct Harm {
    loss: f64,
    repeat: f64,
    /// How much longer one may take than another, in milliseconds.
    spread_ms: u64,
    /// Whether it is a wire, on which nobody acknowledges anything, and its delay in milliseconds.
    wire_ms: Option<u64>,
    /// The bottleneck of the path, if devices accept everything at once.
    narrow: Option<Narrow>,
}

/// A bottleneck, which datagrams pass one after the other, while some wait.
#[derive(Clone, Copy, Debug)]
struct Narrow {
    /// Time that a datagram takes.
    each: Duration,
    /// Datagrams that may wait.
    queue: u64,
}

enum Event {
    Arrives(NodeId, Datagram),
    Done(Unit, PacketOutcome),
    TooLong(Unit),
}

/// A row of nodes, 1 to n, each in reach of the next.
struct Row {
    config: HopConfig,
    now: Instant,
    nodes: Vec<Hop>,
    harm: Harm,
    events: BTreeMap<(Instant, u64), (usize, Event)>,
    count: u64,
    rng: Rng,
    /// Blocks of the flow that its source has given to its node.
    pushed: usize,
    /// Blocks that were given to applications.
    delivered: Vec<(BlockId, Vec<u8>)>,
    arrived: Vec<Arrived>,
    /// When each frame of a block was given to the radio of node 1.
    first_frames: Vec<Instant>,
    /// Frames of blocks that went with MAC acknowledgement.
    acknowledged: usize,
    /// Messages to a next hop.
    messages: usize,
    /// A node that hears nothing.
    deaf: Option<NodeId>,
    /// A node for which links keep all, and tell nothing of it.
    kept_for: Option<NodeId>,
    /// Two neighbours that do not hear each other.
    cut: Option<[NodeId; 2]>,
    /// Until when the bottleneck from and to a node is busy.
    busy: BTreeMap<(usize, NodeId), Instant>,
    /// Datagrams that found no room in a bottleneck.
    drowned: usize,
    /// The longest datagram that devices take, in bytes.
    longest: usize,
    /// Longer datagrams are lost on their way, in bytes.
    longest_that_comes: Option<usize>,
    /// Datagrams that devices did not take.
    refused: usize,
    /// Flows that no application takes.
    unwanted: BTreeSet<FlowKey>,
    /// Whether applications take blocks and do not accept them yet.
    is_slow: bool,
}

const MINUTE: Duration = Duration::from_secs(60);

/// Small blocks, so that tests are short: ten frames.
fn small_config() -> HopConfig {
    HopConfig { block_bytes: Some(14_000), ..HopConfig::default() }
}

fn flow(local: u32) -> FlowKey {
    FlowKey { source: NodeId(1), local }
}

/// The bytes of a block, all different from those of others.
fn text(id: BlockId, length: usize) -> Bytes {
    let seed = u64::from(id.number) << 20 | u64::from(id.flow.local);
    let byte = |at: usize| (seed.wrapping_mul(0x9e37_79b9) >> (at % 29)) as u8 ^ at as u8;
    (0..length).map(byte).collect()
}

impl Row {
    fn new(nodes: u16, config: HopConfig, harm: Harm, seed: u64) -> Self {
        let mut row = Self {
            config,
            now: Instant::ZERO,
            nodes: Vec::new(),
            harm,
            events: BTreeMap::new(),
            count: 0,
            pushed: 0,
            rng: Seed(seed).stream("air"),
            delivered: Vec::new(),
            arrived: Vec::new(),
            first_frames: Vec::new(),
            acknowledged: 0,
            messages: 0,
            deaf: None,
            kept_for: None,
            cut: None,
            busy: BTreeMap::new(),
            drowned: 0,
            longest: usize::MAX,
            longest_that_comes: None,
            refused: 0,
            unwanted: BTreeSet::new(),
            is_slow: false,
        };
        for node in 1..=nodes {
            row.nodes.push(row.machine(node));
        }
        (1..=nodes).for_each(|node| row.tell_routes(node, nodes));
        row
    }

    fn machine(&self, node: u16) -> Hop {
        let rng = Seed(u64::from(node)).stream("hop");
        Hop::build(self.config.clone(), NodeId(node), AddressPlan::default(), None, rng)
    }

    fn tell_routes(&mut self, node: u16, nodes: u16) {
        for dst in (1..=nodes).filter(|dst| *dst != node) {
            let via = NodeId(if dst > node { node + 1 } else { node - 1 });
            let (radio, hops) = (RadioId(0), dst.abs_diff(node) as u8);
            let event = DatagramUp::NextHop { dst: NodeId(dst), via, radio, hops };
            self.hop(node).handle_rx(&mut Cx::new(Instant::ZERO), event);
        }
    }

    fn hop(&mut self, node: u16) -> &mut Hop {
        &mut self.nodes[usize::from(node) - 1]
    }

    fn has_room(&self, node: u16, flow: FlowKey, length: usize) -> bool {
        self.nodes[usize::from(node) - 1].has_room(self.now, flow, length)
    }

    fn count(&mut self, node: u16, name: &str) -> u64 {
        self.hop(node).counters()[name]
    }

    /// The node loses all that it knows.
    fn restart(&mut self, node: u16) {
        let (index, nodes) = (usize::from(node) - 1, self.nodes.len() as u16);
        self.nodes[index] = self.machine(node);
        self.events.retain(|_, (at, event)| *at != index || matches!(event, Event::Arrives(..)));
        self.tell_routes(node, nodes);
    }

    fn push(&mut self, flow: FlowKey, number: u32, to: u16, length: usize, is_last: bool) {
        let id = BlockId { flow, number };
        let frames = frames_of(&text(id, length), usize::from(self.config.frame_bytes));
        let now = self.now;
        self.hop(flow.source.0).push(now, id, NodeId(to), is_last, frames);
    }

    /// Sends blocks of these lengths as there is room, for this long at most. Returns whether the
    /// source knows that all have arrived.
    fn send(&mut self, flow: FlowKey, to: u16, lengths: &[usize], limit: Duration) -> bool {
        self.pushed = 0;
        self.send_more(flow, to, lengths, limit)
    }

    /// Continues the only flow.
    fn send_on(&mut self, lengths: &[usize], to: u16, limit: Duration) -> bool {
        self.send_more(flow(1), to, lengths, limit)
    }

    fn send_more(&mut self, flow: FlowKey, to: u16, lengths: &[usize], limit: Duration) -> bool {
        let end = self.now + limit;
        loop {
            while let Some(length) = lengths.get(self.pushed).copied()
                && self.has_room(flow.source.0, flow, length)
            {
                let next = self.pushed;
                self.push(flow, next as u32, to, length, next + 1 == lengths.len());
                self.pushed += 1;
            }
            let arrived = self.arrived.iter().filter(|one| one.id.flow == flow).count();
            if arrived == lengths.len() || self.now >= end {
                return arrived == lengths.len();
            }
            let step = self.now + Duration::from_millis(20);
            self.run_until(step);
        }
    }

    fn run_until(&mut self, end: Instant) {
        loop {
            self.settle();
            let event = self.events.first_key_value().map(|(key, _)| key.0);
            let timer = self.nodes.iter().filter_map(Hop::poll_timeout).min();
            let next = event.into_iter().chain(timer).min().unwrap_or(end);
            if next > end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            for node in &mut self.nodes {
                node.handle_timeout(&mut Cx::new(self.now));
                let due = node.poll_timeout();
                assert!(due.is_none_or(|due| due > self.now), "a deadline that does not lie ahead");
            }
            while let Some(entry) = self.events.first_entry().filter(|one| one.key().0 <= self.now)
            {
                let (index, event) = entry.remove();
                self.happens(index, event);
            }
            if next == end {
                self.settle();
                return;
            }
        }
    }

    fn happens(&mut self, index: usize, event: Event) {
        let event = match event {
            Event::Arrives(via, datagram) => {
                assert!(Hop::accepts(&datagram.payload));
                DatagramUp::Received { via, payload: datagram.payload, signal: None }
            }
            Event::Done(id, outcome) => {
                DatagramUp::Done(PacketDone { id, outcome, attempts: 1, air_time: Duration::ZERO })
            }
            Event::TooLong(id) => DatagramUp::Dropped { id, cause: DropCause::TooLong },
        };
        self.nodes[index].handle_rx(&mut Cx::new(self.now), event);
        self.settle();
    }

    fn settle(&mut self) {
        let now = self.now;
        for index in 0..self.nodes.len() {
            let mut cx = Cx::new(now);
            while let Some(datagram) = self.nodes[index].poll_tx(&mut cx, &|_| Room::UNLIMITED) {
                self.transmit(index, datagram);
            }
            while let Some(delivery) = self.nodes[index].poll_delivery() {
                if self.unwanted.contains(&delivery.id.flow) {
                    self.nodes[index].refuse(now, delivery.id, Refusal::Unwanted);
                    continue;
                }
                self.delivered.push((delivery.id, delivery.frames.concat()));
                if !self.is_slow {
                    self.nodes[index].accept(now, delivery.id);
                }
            }
            while let Some(arrived) = self.nodes[index].poll_arrived() {
                self.arrived.push(arrived);
            }
        }
    }

    fn transmit(&mut self, index: usize, datagram: Datagram) {
        let from = NodeId(index as u16 + 1);
        if datagram.payload.len() > self.longest {
            self.refused += 1;
            return self.plan(self.now, index, Event::TooLong(datagram.id));
        }
        let Destination::NextHop(to) = datagram.to else {
            let done = self.now + Duration::from_millis(self.count_of(index) + 1);
            self.plan(done, index, Event::Done(datagram.id, PacketOutcome::Delivered));
            let is_neighbour = |other: &usize| other.abs_diff(index) == 1;
            for other in (0..self.nodes.len()).filter(is_neighbour) {
                self.plan(done, other, Event::Arrives(from, datagram.clone()));
            }
            return;
        };
        if self.kept_for == Some(to) {
            return;
        }
        let is_acknowledged = datagram.options.ack == AckPolicy::Normal;
        self.acknowledged += usize::from(is_acknowledged && datagram.flow == FlowId(DATA_PORT));
        self.messages += usize::from(datagram.flow != FlowId(DATA_PORT));
        if from == NodeId(1) && datagram.flow == FlowId(DATA_PORT) {
            self.first_frames.push(self.now);
        }
        if let Some(narrow) = self.harm.narrow {
            return self.squeeze(index, to, datagram, narrow);
        }
        // A millisecond each, one after another.
        let after = self.count_of(index) + 1;
        let done = self.now + Duration::from_millis(after);
        let is_cut = self.cut.is_some_and(|ends| ends.contains(&from) && ends.contains(&to));
        let is_lost = self.rng.uniform() < self.harm.loss || self.deaf == Some(to) || is_cut;
        let outcome = match self.harm.wire_ms {
            Some(_) => PacketOutcome::Sent,
            None if is_lost => PacketOutcome::Failed,
            None => PacketOutcome::Delivered,
        };
        self.plan(done, index, Event::Done(datagram.id, outcome));
        let is_repeated = !is_lost && self.rng.uniform() < self.harm.repeat;
        let copies = u64::from(!is_lost) + u64::from(is_repeated);
        for _ in 0..copies {
            let spread = self.rng.uniform() * (self.harm.spread_ms as f64 + 0.1);
            let delay = Duration::from_millis(self.harm.wire_ms.unwrap_or_default());
            let at = done + delay + Duration::from_micros((spread * 1e3) as u64);
            self.plan(at, usize::from(to.0) - 1, Event::Arrives(from, datagram.clone()));
        }
    }

    /// A device takes a datagram at once, and the path drops the excess.
    fn squeeze(&mut self, index: usize, to: NodeId, datagram: Datagram, narrow: Narrow) {
        let from = NodeId(index as u16 + 1);
        self.plan(self.now, index, Event::Done(datagram.id, PacketOutcome::Sent));
        let busy = self.busy.entry((index, to)).or_default();
        let begin = (*busy).max(self.now);
        if begin.since(self.now).div_duration(narrow.each) > narrow.queue {
            self.drowned += 1;
            return;
        }
        *busy = begin + narrow.each;
        let at = *busy + Duration::from_millis(self.harm.wire_ms.unwrap_or_default());
        let is_too_long = self.longest_that_comes.is_some_and(|most| datagram.payload.len() > most);
        if self.rng.uniform() >= self.harm.loss && !is_too_long {
            self.plan(at, usize::from(to.0) - 1, Event::Arrives(from, datagram));
        }
    }

    /// Datagrams of a node that are still to be sent.
    fn count_of(&self, index: usize) -> u64 {
        let is_own =
            |(at, event): &&(usize, Event)| *at == index && matches!(event, Event::Done(..));
        self.events.values().filter(is_own).count() as u64
    }

    fn plan(&mut self, at: Instant, index: usize, event: Event) {
        self.count += 1;
        self.events.insert((at, self.count), (index, event));
    }

    /// Fails unless these blocks came, each once, in order and as they were written.
    fn assert_delivered(&self, flow: FlowKey, lengths: &[usize]) {
        let of_flow = self.delivered.iter().filter(|(id, _)| id.flow == flow);
        let wanted = (0..).zip(lengths).map(|(number, length)| (BlockId { flow, number }, *length));
        let wanted: Vec<_> = wanted.map(|(id, length)| (id, text(id, length).to_vec())).collect();
        assert!(of_flow.eq(wanted.iter()), "blocks of {flow:?} are missing or came changed");
    }
}
