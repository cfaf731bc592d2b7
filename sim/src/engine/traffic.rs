//! Traffic: the flows of a scenario, each with its application, started, measured and stopped.

use std::collections::{BTreeMap, BTreeSet};

use farhop_proto::base::{Cx, Duration, Instant, Layer as _, MessageUp, Seed};
use farhop_proto::stack::{FlowConfig, Scenario, Stack};

use super::apps::{self, App, Net};
use super::world::World;
use crate::radio::EventQueue;

/// First port of the flows; each has one of its own.
const FIRST_PORT: u16 = 5001;

/// One flow of the scenario.
pub(super) struct Flow<'a> {
    pub(super) config: &'a FlowConfig,
    pub(super) app: Box<dyn App>,
    from: usize,
    to: usize,
    pub(super) start: Instant,
    measure_from: Instant,
    pub(super) stop: Instant,
    phase: Phase,
    /// Bytes delivered, those of them before measuring began, and those until it stopped.
    pub(super) delivered: u64,
    before: u64,
    until_stop: u64,
    /// Where it stands among the writers of the nodes that its application writes at.
    places: Vec<(usize, usize)>,
    /// Of the bytes delivered, those in closed bins.
    binned: u64,
}

/// Where a flow is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Waiting,
    Running,
    Measured,
    Over,
}

/// The flows that have an end at a node and an application that writes.
#[derive(Clone, Default)]
struct Writers {
    all: Vec<usize>,
    /// Where the node has many flow ends, the places in `all` of those that may be able to write:
    /// an end has got more room, or the application was told something.
    awake: BTreeSet<usize>,
}

/// All flows.
pub(super) struct Traffic<'a> {
    pub(super) flows: Vec<Flow<'a>>,
    /// For each bin of the series over time, the bytes that each flow delivered in it.
    pub(super) bins: Vec<Vec<u64>>,
    /// For each node, the flow that owns each of the flow ends of its stack.
    owners: Vec<Vec<usize>>,
    /// For each node, the flows that have an end there and an application that writes.
    writers: Vec<Writers>,
    /// When each flow has something to do.
    dues: EventQueue,
    now: Instant,
}

impl<'a> Traffic<'a> {
    pub(super) fn build(scenario: &'a Scenario, seed: Seed) -> Self {
        let nodes = scenario.node.iter().enumerate();
        let places: BTreeMap<&str, usize> =
            nodes.map(|(index, node)| (node.name.as_str(), index)).collect();
        let index = |name: &str| *places.get(name).expect("the scenario has no problems");
        let at = |secs: f64| Instant::ZERO + Duration::from_secs_f64(secs);
        let flow = |(number, config): (usize, &'a FlowConfig)| {
            let start = at(config.start_s);
            let measure_from = config.measure_from_s.or(scenario.measure_from_s);
            Flow {
                app: apps::build(config, number, seed, &index),
                from: index(&config.from),
                to: index(&config.to),
                start,
                measure_from: measure_from.map_or(start, |secs| at(secs).max(start)),
                stop: at(config.stop_s.unwrap_or(scenario.duration_s)),
                phase: Phase::Waiting,
                delivered: 0,
                before: 0,
                until_stop: 0,
                places: Vec::new(),
                binned: 0,
                config,
            }
        };
        let flows: Vec<Flow> = scenario.flow.iter().enumerate().map(flow).collect();
        let mut traffic = Self {
            dues: EventQueue::new(flows.len()),
            flows,
            bins: Vec::new(),
            owners: vec![Vec::new(); scenario.node.len()],
            writers: vec![Writers::default(); scenario.node.len()],
            now: Instant::ZERO,
        };
        for number in 0..traffic.flows.len() {
            traffic.plan_due(number);
        }
        traffic
    }

    /// The next time at which a flow has something to do.
    pub(super) fn poll_timeout(&self) -> Instant {
        self.dues.peek().map_or(Instant::MAX, |(at, _)| at)
    }

    fn plan_due(&mut self, number: usize) {
        match self.flows[number].poll_timeout() {
            Instant::MAX => self.dues.cancel(number),
            at => self.dues.set(number, at),
        }
    }

    /// Starts, measures and stops what is due, and lets applications act.
    pub(super) fn handle_timeout(&mut self, now: Instant, world: &mut World) {
        self.now = now;
        while let Some((_, number)) = self.dues.peek().filter(|(at, _)| *at <= now) {
            let flow = &mut self.flows[number];
            let mut net = Net {
                world,
                owners: &mut self.owners,
                flow: number,
                now,
                from: flow.from,
                to: flow.to,
                port: FIRST_PORT + number as u16,
                dscp: flow.config.dscp(),
            };
            flow.advance(&mut net);
            for node in [flow.from, flow.to].into_iter().chain(flow.app.relays()) {
                let writers = &mut self.writers[node];
                if flow.app.writes() && flow.place(node).is_none() {
                    flow.places.push((node, writers.all.len()));
                    writers.all.push(number);
                }
                if net.world.nodes[node].stack.flows.are_many() {
                    writers.awake.extend(flow.place(node));
                }
            }
            self.plan_due(number);
        }
    }

    /// Writes what the sources at a node have and their transports have room for.
    pub(super) fn feed(&mut self, node: usize, cx: &mut Cx<'_>, stack: &mut Stack) {
        if !stack.flows.are_many() {
            for number in &self.writers[node].all {
                self.flows[*number].app.feed(node, cx, stack);
            }
            return;
        }
        self.wake_writers(node, stack);
        let writers = &mut self.writers[node];
        while let Some(place) = writers.awake.pop_first() {
            self.flows[writers.all[place]].app.feed(node, cx, stack);
        }
    }

    /// Finds those among many writers at a node that may be able to write.
    fn wake_writers(&mut self, node: usize, stack: &mut Stack) {
        while let Some(end) = stack.flows.poll_roomier() {
            let owner = self.owners[node][usize::from(end.0)];
            self.writers[node].awake.extend(self.flows[owner].place(node));
        }
    }

    /// Whether a source at a node can write.
    fn can_feed(&mut self, node: usize, stack: &mut Stack) -> bool {
        if !stack.flows.are_many() {
            let mut all = self.writers[node].all.iter();
            return all.any(|number| self.flows[*number].app.can_feed(node, stack));
        }
        self.wake_writers(node, stack);
        let Writers { all, awake } = &mut self.writers[node];
        while let Some(place) = awake.first() {
            if self.flows[all[*place]].app.can_feed(node, stack) {
                return true;
            }
            awake.pop_first();
        }
        false
    }

    /// Takes what came for the applications at a node. Returns whether a source can write again.
    pub(super) fn collect(&mut self, node: usize, cx: &mut Cx<'_>, stack: &mut Stack) -> bool {
        while let Some(event) = stack.flows.poll_rx(cx) {
            let (MessageUp::Connected(end)
            | MessageUp::Received { flow: end, .. }
            | MessageUp::Finished(end)
            | MessageUp::Reset(end)) = &event;
            let owner = self.owners[node][usize::from(end.0)];
            let flow = &mut self.flows[owner];
            let before = flow.poll_timeout();
            flow.app.on_event(node, self.now, &event);
            if stack.flows.are_many() {
                self.writers[node].awake.extend(flow.place(node));
            }
            if flow.poll_timeout() != before {
                self.plan_due(owner);
            }
        }
        self.can_feed(node, stack)
    }

    /// Sets the true time that deliveries are counted at.
    pub(super) fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    /// Closes a bin of the series over time.
    pub(super) fn close_bin(&mut self, world: &World) {
        let bytes = self.flows.iter_mut().map(|flow| {
            flow.sample(world);
            flow.delivered - std::mem::replace(&mut flow.binned, flow.delivered)
        });
        self.bins.push(bytes.collect());
    }
}

impl Flow<'_> {
    /// When it has something to do.
    fn poll_timeout(&self) -> Instant {
        let app = self.app.poll_timeout();
        match self.phase {
            Phase::Waiting => self.start,
            Phase::Running => self.measure_from.min(self.stop).min(app),
            Phase::Measured => self.stop.min(app),
            Phase::Over => Instant::MAX,
        }
    }

    /// Where it stands among the writers at a node, if it is one of them.
    fn place(&self, node: usize) -> Option<usize> {
        self.places.iter().find(|(at, _)| *at == node).map(|(_, place)| *place)
    }

    fn advance(&mut self, net: &mut Net<'_>) {
        if self.phase == Phase::Waiting {
            self.phase = Phase::Running;
            self.app.start(net);
        }
        if self.phase == Phase::Running && self.measure_from <= net.now {
            self.sample(net.world);
            self.before = self.delivered;
            self.phase = Phase::Measured;
            self.app.begin_measure(net);
        }
        if self.stop <= net.now {
            self.sample(net.world);
            self.phase = Phase::Over;
            self.app.stop(net);
        } else if self.app.poll_timeout() <= net.now {
            self.app.handle_timeout(net);
        }
    }

    /// Whether it has begun.
    pub(super) fn has_started(&self) -> bool {
        self.phase > Phase::Waiting
    }

    /// Reads what the receiving end has given to its application: also what was on its way when
    /// the flow stopped.
    fn sample(&mut self, world: &World) {
        if self.has_started() {
            self.delivered = self.app.delivered(&world.nodes);
        }
        if self.phase < Phase::Over {
            self.until_stop = self.delivered;
        }
    }

    /// Measured payload over the time that it took, in Mb/s: until its last byte if it had a number
    /// of them and all came, else until it stopped. What was over before measuring began is
    /// measured from its start.
    pub(super) fn goodput_mbps(&self, end: Instant) -> f64 {
        let until = self.app.completed().unwrap_or(self.stop).min(self.stop).min(end);
        let (from, before) = match until <= self.measure_from {
            true => (self.start, 0),
            false => (self.measure_from, self.before),
        };
        let span = until.since(from).as_secs_f64();
        let bytes = self.until_stop.saturating_sub(before);
        if span > 0.0 { bytes as f64 * 8.0 / span / 1e6 } else { 0.0 }
    }

    /// How long a file took, in seconds.
    pub(super) fn completed_s(&self) -> Option<f64> {
        let completed = self.app.completed().filter(|completed| *completed <= self.stop)?;
        Some(completed.since(self.start).as_secs_f64())
    }
}
