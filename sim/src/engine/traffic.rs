//! Traffic: runs the flows of a scenario, each with its application: starts, measures and stops
//! them.

use std::collections::{BTreeMap, BTreeSet};

use farhop_proto::base::{Cx, Duration, Instant, Layer as _, MessageUp, Seed};
use farhop_proto::stack::{FlowConfig, Scenario, Stack};

use super::apps::{self, App, Net};
use super::world::World;
use crate::radio::EventQueue;

/// Port of the first flow; each flow has its own.
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
    /// Bytes delivered in all, before measuring began, and until the flow stopped.
    pub(super) delivered: u64,
    before: u64,
    until_stop: u64,
    /// For each node at which its application writes: the node, and the flow's position among the
    /// writers there.
    places: Vec<(usize, usize)>,
    /// Delivered bytes that closed bins contain.
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

/// The flows whose applications write at one node.
#[derive(Clone, Default)]
struct Writers {
    all: Vec<usize>,
    /// If the node has many flow ends: positions in `all` of the flows that may be able to write,
    /// as an end got more room or the application an event.
    awake: BTreeSet<usize>,
}

/// All flows.
pub(super) struct Traffic<'a> {
    pub(super) flows: Vec<Flow<'a>>,
    /// For each bin of the time series, the bytes that each flow delivered in it.
    pub(super) bins: Vec<Vec<u64>>,
    /// For each node, the flow that owns each of the flow ends of its stack.
    owners: Vec<Vec<usize>>,
    /// For each node, the flows whose applications write there.
    writers: Vec<Writers>,
    /// When each flow next has something to do.
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

    /// When the next flow has something to do.
    pub(super) fn poll_timeout(&self) -> Instant {
        self.dues.peek().map_or(Instant::MAX, |(at, _)| at)
    }

    fn plan_due(&mut self, number: usize) {
        match self.flows[number].poll_timeout() {
            Instant::MAX => self.dues.cancel(number),
            at => self.dues.set(number, at),
        }
    }

    /// Starts, measures and stops flows that are due, and lets their applications act.
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

    /// Lets the sources at a node write as much as their transports have room for.
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

    /// At a node with many flow ends, marks the writers whose ends got more room.
    fn wake_writers(&mut self, node: usize, stack: &mut Stack) {
        while let Some(end) = stack.flows.poll_roomier() {
            let owner = self.owners[node][usize::from(end.0)];
            self.writers[node].awake.extend(self.flows[owner].place(node));
        }
    }

    /// Whether any source at a node can write.
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

    /// Gives events of the flow ends at a node to their applications. Returns whether a source can
    /// write again.
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

    /// Sets the true time of the deliveries that follow.
    pub(super) fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    /// Closes a bin of the time series.
    pub(super) fn close_bin(&mut self, world: &World) {
        let bytes = self.flows.iter_mut().map(|flow| {
            flow.sample(world);
            flow.delivered - std::mem::replace(&mut flow.binned, flow.delivered)
        });
        self.bins.push(bytes.collect());
    }
}

impl Flow<'_> {
    /// When it next has something to do.
    fn poll_timeout(&self) -> Instant {
        let app = self.app.poll_timeout();
        match self.phase {
            Phase::Waiting => self.start,
            Phase::Running => self.measure_from.min(self.stop).min(app),
            Phase::Measured => self.stop.min(app),
            Phase::Over => Instant::MAX,
        }
    }

    /// Its position among the writers at a node, if it is one of them.
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

    /// Whether it has started.
    pub(super) fn has_started(&self) -> bool {
        self.phase > Phase::Waiting
    }

    /// Reads how much the receiving application has got, including what was on its way when the
    /// flow stopped.
    fn sample(&mut self, world: &World) {
        if self.has_started() {
            self.delivered = self.app.delivered(&world.nodes);
        }
        if self.phase < Phase::Over {
            self.until_stop = self.delivered;
        }
    }

    /// Measured payload over the time that it took, in Mb/s. The time ends with the last byte of a
    /// transfer of known length that completed, otherwise when the flow stopped. A transfer that
    /// was complete before measuring began is measured from its start, and so is one that is
    /// delivered all at once.
    pub(super) fn goodput_mbps(&self, end: Instant) -> f64 {
        let until = self.app.completed().unwrap_or(self.stop).min(self.stop).min(end);
        let is_whole = self.app.delivers_at_once() && self.app.completed().is_some();
        let (from, before) = match until <= self.measure_from || is_whole {
            true => (self.start, 0),
            false => (self.measure_from, self.before),
        };
        let span = until.since(from).as_secs_f64();
        let bytes = self.until_stop.saturating_sub(before);
        if span > 0.0 { bytes as f64 * 8.0 / span / 1e6 } else { 0.0 }
    }

    /// How long a transfer of known length took, in seconds; `None` if it did not complete before
    /// the flow stopped.
    pub(super) fn completed_s(&self) -> Option<f64> {
        let completed = self.app.completed().filter(|completed| *completed <= self.stop)?;
        Some(completed.since(self.start).as_secs_f64())
    }
}
