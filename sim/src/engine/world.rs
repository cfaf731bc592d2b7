//! The world: all nodes with their stacks on a medium, advanced from event to event.

use farhop_proto::base::{
    AddressPlan, Cx, Duration, FrameDone, FrameDown, FrameOutcome, FrameUp, Instant, Lane, Room,
    Seed, UnitId,
};
use farhop_proto::stack::{Plan, Scenario, Stack};

use super::air::medium_config;
use super::clock::{self, Clock, Quantiles, Stamps};
use super::decisions::Decisions;
use super::host::Host;
use super::hostile::Hostile;
use super::keys;
use super::mobility::Mobility;
use super::traffic::Traffic;
use crate::adversary::{self, Script};
use crate::radio::{EventQueue, FEW, Medium, MediumEvent};

/// One node. There may be very many, so it is kept small.
pub(super) struct Node {
    pub(super) stack: Stack,
    clock: Clock,
    /// `None` if frames are stamped when they come.
    stamps: Option<Box<Stamps>>,
    /// Its radios are the half-open range of these indices on the medium.
    radios: [u32; 2],
    is_due: bool,
    /// Whether its stack must run because something happened.
    has_news: bool,
    /// The deadline of the stack, and the wake-up for it, in true time.
    wake: Option<(Instant, Instant)>,
    /// `None` if the host is never late.
    host: Option<Box<Host>>,
}

/// The state of the simulated network.
pub(super) struct World {
    pub(super) nodes: Vec<Node>,
    pub(super) medium: Medium,
    /// Address plan of the nodes.
    pub(super) addresses: AddressPlan,
    mobility: Option<Mobility>,
    pub(super) hostile: Option<Box<Hostile>>,
    node_of_radio: Vec<u32>,
    /// Wake-ups by node, in true time.
    wakes: EventQueue,
    due: Vec<usize>,
    wake_delay: Quantiles,
    pub(super) wakeups: u64,
    /// Decisions of the layers; `None` if they are not traced.
    pub(super) decisions: Option<Box<Decisions>>,
}

impl World {
    /// Builds the world of a scenario. With `scripts`, its strangers only repeat those as noise.
    pub(super) fn build(
        scenario: &Scenario,
        plan: Plan,
        seed: Seed,
        scripts: Option<Vec<Script>>,
    ) -> Self {
        let mut nodes = Vec::with_capacity(plan.nodes.len());
        let mut node_of_radio = Vec::new();
        let mut config = medium_config(scenario, &plan);
        let mobility = Mobility::build(scenario, &plan, &config, seed);
        let mut strangers = adversary::place(scenario, &plan, &mut config, scripts.is_some());
        for stranger in &mut strangers {
            stranger.setup.old_key = keys::old_key(&plan, seed);
        }
        let hostile = Hostile::build(strangers, scripts, seed);
        let all_keys = keys::of_all(&plan, seed);
        let wake_delay = Quantiles::build(scenario.host.wake_us.points());
        // The links are in the medium's configuration now, and there may be very many of them.
        drop(plan.hops);
        for (index, node) in plan.nodes.into_iter().enumerate() {
            let first_radio = node_of_radio.len() as u32;
            node_of_radio.extend(node.radios.iter().map(|_| index as u32));
            let mut stack = Stack::build(&node, seed);
            if let Some(secure) = keys::secure(&node, seed, all_keys.as_ref()) {
                stack.set_security(secure);
            }
            let overhear = is_told_overheard(&stack, hostile.is_some());
            for radio in &mut config.radios[first_radio as usize..node_of_radio.len()] {
                radio.overhear = overhear;
            }
            nodes.push(Node {
                stack,
                clock: Clock::build(&clock::of_node(scenario, index, node.node, seed)),
                stamps: Stamps::build(scenario, node.node, seed).map(Box::new),
                radios: [first_radio, node_of_radio.len() as u32],
                is_due: false,
                has_news: false,
                wake: None,
                host: Host::build(&node, !wake_delay.is_zero(), seed),
            });
        }
        let mut world = Self {
            medium: Medium::new(config, seed),
            addresses: AddressPlan(scenario.subnet),
            mobility,
            hostile,
            wakes: EventQueue::new(nodes.len()),
            nodes,
            node_of_radio,
            due: Vec::new(),
            wake_delay,
            wakeups: 0,
            decisions: None,
        };
        for node in 0..world.nodes.len() {
            world.mark_due(node);
        }
        world
    }

    /// Runs the medium alone until a radio reports something, a node wakes up or moves, a stranger
    /// sends, or `limit` is reached. Returns the true time of that, for [`Self::advance`].
    pub(super) fn run_ahead(&mut self, limit: Instant) -> Instant {
        let wake = self.wakes.next_at().unwrap_or(Instant::MAX);
        let moves = self.mobility.as_ref().map_or(Instant::MAX, Mobility::poll_timeout);
        let shot = self.hostile.as_ref().map_or(Instant::MAX, |hostile| hostile.poll_timeout());
        let limit = limit.min(wake).min(moves).min(shot);
        let Some(at) = self.medium.run_ahead(limit) else { return limit };
        let event = self.medium.poll_event().expect("a radio has reported something");
        self.on_medium(at, event);
        at
    }

    /// Processes everything that is due at the true time `now`, and lets the nodes react.
    pub(super) fn advance(&mut self, now: Instant, traffic: &mut Traffic<'_>) {
        self.medium.handle_timeout(now);
        if let Some(hostile) = &mut self.hostile {
            hostile.handle_timeout(now, &mut self.medium);
        }
        if let Some(mobility) = self.mobility.as_mut().filter(|moving| moving.poll_timeout() <= now)
        {
            mobility.handle_timeout(now, &mut self.medium);
        }
        while let Some((_, node)) = self.wakes.take_due(now) {
            self.wakeups += 1;
            self.fetch(node);
            self.mark_due(node);
        }
        loop {
            while let Some(event) = self.medium.poll_event() {
                self.on_medium(now, event);
            }
            let Some(index) = self.due.pop() else { break };
            self.turn_node(index, now, traffic);
        }
    }

    /// Makes a node run at the current time, for example because one of its flows starts.
    pub(super) fn mark_due(&mut self, node: usize) {
        self.nodes[node].has_news = true;
        self.visit(node);
    }

    fn visit(&mut self, node: usize) {
        if !self.nodes[node].is_due {
            self.nodes[node].is_due = true;
            self.due.push(node);
        }
    }

    /// Touches the state that a turn of a node needs, so that the cache misses overlap.
    fn fetch(&self, index: usize) {
        if self.nodes.len() > FEW {
            let node = &self.nodes[index];
            let radio = node.radios().next().map_or(0, |first| self.medium.fetch_for_frame(first));
            std::hint::black_box(node.stack.fetch() ^ radio ^ u64::from(node.has_news));
        }
    }

    fn on_medium(&mut self, now: Instant, event: MediumEvent) {
        if self.hostile.is_some() {
            self.on_medium_beside_strangers(now, event);
        } else {
            self.on_event(now, event);
        }
    }

    /// Handles an event of the radio of a stranger or a node, and notes whether a node accepted a
    /// stranger's frame.
    fn on_medium_beside_strangers(&mut self, now: Instant, event: MediumEvent) {
        let hostile = self.hostile.as_mut().expect("the caller has looked");
        let (FrameUp::Received(frame) | FrameUp::Overheard(frame)) = &event.event else {
            if event.radio < self.node_of_radio.len() {
                self.on_event(now, event);
            }
            return;
        };
        let Some(index) = self.node_of_radio.get(event.radio).copied() else {
            return hostile.handle_heard(now, event.radio, frame);
        };
        let index = index as usize;
        // A real radio drops such a frame too, as it would be a copy of what it sent itself.
        if usize::from(frame.from.0) == index + 1 {
            return hostile.on_own_name();
        }
        let Some(before) = self.nodes[index].stack.believed() else {
            hostile.on_heard_without_keys(frame);
            return self.on_event(now, event);
        };
        let heard = hostile.on_heard_by(index, frame);
        self.on_event(now, event);
        let has_believed = self.nodes[index].stack.believed() != Some(before);
        if let (Some(hostile), true) = (&mut self.hostile, has_believed) {
            hostile.on_believed(heard);
        }
    }

    fn on_event(&mut self, now: Instant, mut event: MediumEvent) {
        let index = self.node_of_radio[event.radio] as usize;
        self.fetch(index);
        let node = &mut self.nodes[index];
        let trace = self.decisions.as_deref_mut().map(|decisions| decisions.of(index, now));
        let mut cx = Cx::with_trace(node.clock.local(now), trace);
        if let FrameUp::Received(frame) | FrameUp::Overheard(frame) = &mut event.event {
            let stamp = |stamps: &mut Stamps| stamps.of(frame.started, now);
            let started = node.stamps.as_deref_mut().map_or(frame.started, stamp);
            frame.started = node.clock.local(started);
        }
        node.has_news |= node.stack.handle_frame(&mut cx, event.event);
        self.visit(index);
    }

    fn turn_node(&mut self, index: usize, now: Instant, traffic: &mut Traffic<'_>) {
        let node = &mut self.nodes[index];
        node.is_due = false;
        if !std::mem::take(&mut node.has_news) {
            // Wake-ups at the same time fire in the order of the last events at their nodes.
            return self.set_wake(index);
        }
        let trace = self.decisions.as_deref_mut().map(|decisions| decisions.of(index, now));
        let mut cx = Cx::with_trace(node.clock.local(now), trace);
        if node.wake.is_some_and(|(_, wake)| wake <= now) {
            node.wake = None;
            node.stack.handle_timeout(&mut cx);
        }
        loop {
            traffic.feed(index, &mut cx, &mut node.stack);
            node.stack.turn(&mut cx);
            if !traffic.collect(index, &mut cx, &mut node.stack) {
                break;
            }
        }
        self.send_frames(index, now);
        self.plan_wake(index, now);
    }

    fn send_frames(&mut self, index: usize, now: Instant) {
        let node = &mut self.nodes[index];
        let first = node.radios[0] as usize;
        let trace = self.decisions.as_deref_mut().map(|decisions| decisions.of(index, now));
        let mut cx = Cx::with_trace(node.clock.local(now), trace);
        while let Some((radio, frame)) = node.host.as_mut().and_then(|host| host.poll_frame(now)) {
            match frame {
                // The radio went down while the frame was on its way from the host.
                FrameDown::Frame(frame)
                    if self.medium.room(first + radio, frame.options.access) == 0 =>
                {
                    node.stack.handle_frame(&mut cx, FrameUp::Done(not_sent(frame.id)));
                }
                other => self.medium.handle_frame(now, first + radio, other),
            }
        }
        loop {
            let (medium, host) = (&self.medium, node.host.as_deref());
            let below = |lane: Lane| {
                let radio = usize::from(lane.radio.0);
                let on_their_way = host.map_or(0, |host| host.frames(radio));
                Room::units(medium.room(first + radio, lane.access).saturating_sub(on_their_way))
            };
            let Some(frame) = node.stack.poll_frame(&mut cx, &below) else { break };
            let frame = on_true_time(frame, &node.clock);
            let radio = radio_of(&frame);
            match &mut node.host {
                Some(host) if host.delays(radio) => host.handle_frame(now, radio, frame),
                _ => self.medium.handle_frame(now, first + radio, frame),
            }
        }
        // A frame that left may have made room in the layers above.
        node.stack.turn(&mut cx);
    }

    fn plan_wake(&mut self, index: usize, now: Instant) {
        let node = &mut self.nodes[index];
        let deadline = node.stack.poll_timeout().map(|due| node.clock.true_time(due));
        match (deadline, node.wake) {
            (None, _) => node.wake = None,
            (Some(due), Some((planned, _))) if planned == due => {}
            (Some(due), _) => {
                let late = match &mut node.host {
                    Some(host) if !self.wake_delay.is_zero() => {
                        self.wake_delay.at(host.rng.uniform())
                    }
                    _ => Duration::ZERO,
                };
                // A timer may be due already, after another for which the host has not woken up.
                node.wake = Some((due, (due + late).max(now)));
            }
        }
        self.set_wake(index);
    }

    fn set_wake(&mut self, index: usize) {
        let wake = self.nodes[index].next_wake();
        if wake == Instant::MAX {
            self.wakes.cancel(index);
        } else {
            self.wakes.set(index, wake);
        }
    }
}

impl Node {
    /// The true time of the next wake-up, for a timer or for a frame on its way to a radio.
    fn next_wake(&self) -> Instant {
        let timer = self.wake.map_or(Instant::MAX, |(_, wake)| wake);
        self.host.as_ref().map_or(timer, |host| host.poll_timeout().min(timer))
    }

    /// The local time of the node at a true time.
    pub(super) fn local(&self, now: Instant) -> Instant {
        self.clock.local(now)
    }

    /// The first true time at which the node's local time is at least `local`.
    pub(super) fn true_time(&self, local: Instant) -> Instant {
        self.clock.true_time(local)
    }

    /// The indices of the node's radios on the medium.
    pub(super) fn radios(&self) -> std::ops::Range<usize> {
        self.radios[0] as usize..self.radios[1] as usize
    }
}

/// Whether the radios of a node report frames for others. With strangers they always do, to see
/// what a node makes of each frame.
pub(super) fn is_told_overheard(stack: &Stack, has_strangers: bool) -> bool {
    stack.heeds_overheard() || has_strangers
}

/// The outcome of a frame that no radio had room for.
fn not_sent(id: UnitId) -> FrameDone {
    FrameDone { id, outcome: FrameOutcome::Failed, attempts: 0, air_time: Duration::ZERO }
}

fn radio_of(frame: &FrameDown) -> usize {
    match frame {
        FrameDown::Frame(frame) => usize::from(frame.radio.0),
        FrameDown::ReplyState { radio, .. } => usize::from(radio.0),
        FrameDown::Cancel(_) => 0,
    }
}

/// Converts the times of a frame to true time, the only time that the medium knows.
fn on_true_time(frame: FrameDown, clock: &Clock) -> FrameDown {
    match frame {
        FrameDown::Frame(mut frame) => {
            let options = &mut frame.options;
            options.not_before = options.not_before.map(|at| clock.true_time(at));
            options.deadline = options.deadline.map(|at| clock.true_time(at));
            FrameDown::Frame(frame)
        }
        other => other,
    }
}
