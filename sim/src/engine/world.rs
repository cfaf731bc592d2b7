//! The world: nodes with their stacks on a medium, driven by the earliest event.

use farhop_proto::base::{
    Bitrate, Cx, Duration, FrameDown, FrameUp, Instant, Lane, Rng, Room, Seed,
};
use farhop_proto::stack::{NodePlan, Plan, Scenario, Stack};

use super::clock::{Clock, Quantiles};
use super::losses::loss_model;
use super::mac;
use super::traffic::Traffic;
use crate::radio::{AirLink, ChipConfig, EventQueue, Medium, MediumConfig, MediumEvent};

/// One node.
pub(super) struct Node {
    pub(super) plan: NodePlan,
    pub(super) stack: Stack,
    clock: Clock,
    first_radio: usize,
    /// The deadline of the stack that the wake-up stands for, and the wake-up, in true time.
    wake: Option<(Instant, Instant)>,
    rng: Rng,
    submitted: Vec<(Instant, FrameDown)>,
    last_submit: Instant,
    is_due: bool,
}

/// The network in motion.
pub(super) struct World {
    pub(super) nodes: Vec<Node>,
    pub(super) medium: Medium,
    node_of_radio: Vec<usize>,
    /// Wake-ups by node, in true time.
    wakes: EventQueue,
    due: Vec<usize>,
    wake_delay: Quantiles,
    submit_delay: Quantiles,
    pub(super) wakeups: u64,
}

impl World {
    pub(super) fn build(scenario: &Scenario, plan: &Plan, seed: Seed) -> Self {
        let mut nodes = Vec::with_capacity(plan.nodes.len());
        let mut node_of_radio = Vec::new();
        for (index, node) in plan.nodes.iter().enumerate() {
            let first_radio = node_of_radio.len();
            node_of_radio.extend(node.radios.iter().map(|_| index));
            nodes.push(Node {
                plan: node.clone(),
                stack: Stack::build(node, seed),
                clock: Clock::build(&scenario.node[index].clock),
                first_radio,
                wake: None,
                rng: seed.stream(&format!("node/{}/host", node.node.0)),
                submitted: Vec::new(),
                last_submit: Instant::ZERO,
                is_due: false,
            });
        }
        let mut world = Self {
            medium: Medium::new(medium_config(scenario, plan), seed),
            nodes,
            node_of_radio,
            wakes: EventQueue::new(plan.nodes.len()),
            due: Vec::new(),
            wake_delay: Quantiles::build(&scenario.host.wake_us),
            submit_delay: Quantiles::build(&scenario.host.submit_us),
            wakeups: 0,
        };
        for node in 0..world.nodes.len() {
            world.mark_due(node);
        }
        world
    }

    /// The true time of the next event.
    pub(super) fn poll_timeout(&self) -> Instant {
        let medium = self.medium.poll_timeout().unwrap_or(Instant::MAX);
        self.wakes.next_at().map_or(medium, |wake| medium.min(wake))
    }

    /// Fires everything that is due at the true time `now`, and lets the nodes act on it.
    pub(super) fn advance(&mut self, now: Instant, traffic: &mut Traffic) {
        self.medium.handle_timeout(now);
        while let Some((at, node)) = self.wakes.peek()
            && at <= now
        {
            self.wakes.cancel(node);
            self.wakeups += 1;
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

    /// Has a node act at the current time, for example because a flow of it starts.
    pub(super) fn mark_due(&mut self, node: usize) {
        if !self.nodes[node].is_due {
            self.nodes[node].is_due = true;
            self.due.push(node);
        }
    }

    fn on_medium(&mut self, now: Instant, event: MediumEvent) {
        let index = self.node_of_radio[event.radio];
        let node = &mut self.nodes[index];
        let mut cx = Cx::new(node.clock.local(now));
        let event = match event.event {
            FrameUp::Received(mut frame) => {
                frame.started = node.clock.local(frame.started);
                FrameUp::Received(frame)
            }
            FrameUp::Overheard(mut frame) => {
                frame.started = node.clock.local(frame.started);
                FrameUp::Overheard(frame)
            }
            done => done,
        };
        node.stack.handle_frame(&mut cx, event);
        self.mark_due(index);
    }

    fn turn_node(&mut self, index: usize, now: Instant, traffic: &mut Traffic) {
        let node = &mut self.nodes[index];
        node.is_due = false;
        let mut cx = Cx::new(node.clock.local(now));
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
        self.plan_wake(index);
    }

    fn send_frames(&mut self, index: usize, now: Instant) {
        let node = &mut self.nodes[index];
        let first = node.first_radio;
        for (at, frame) in node.submitted.extract_if(.., |(at, _)| *at <= now) {
            debug_assert!(at <= now);
            self.medium.handle_frame(now, first + radio_of(&frame), frame);
        }
        let mut cx = Cx::new(node.clock.local(now));
        loop {
            let medium = &self.medium;
            let waiting = node.submitted.len();
            let below = |lane: Lane| {
                let room = medium.room(first + usize::from(lane.radio.0), lane.access);
                Room::units(room.saturating_sub(waiting))
            };
            let Some(frame) = node.stack.poll_frame(&mut cx, &below) else { break };
            let frame = on_true_time(frame, &node.clock);
            if self.submit_delay.is_zero() {
                self.medium.handle_frame(now, first + radio_of(&frame), frame);
            } else {
                // Frames do not overtake each other on their way to the radio.
                let at = now + self.submit_delay.at(node.rng.uniform());
                node.last_submit = node.last_submit.max(at);
                node.submitted.push((node.last_submit, frame));
            }
        }
        // A frame that left may have made room above: the next turn starts from there.
        node.stack.turn(&mut cx);
    }

    fn plan_wake(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        let deadline = node.stack.poll_timeout().map(|due| node.clock.true_time(due));
        match (deadline, node.wake) {
            (None, _) => node.wake = None,
            (Some(due), Some((planned, _))) if planned == due => {}
            (Some(due), _) => {
                let late = if self.wake_delay.is_zero() {
                    Duration::ZERO
                } else {
                    self.wake_delay.at(node.rng.uniform())
                };
                node.wake = Some((due, due + late));
            }
        }
        let wake = node.next_wake();
        if wake == Instant::MAX {
            self.wakes.cancel(index);
        } else {
            self.wakes.set(index, wake);
        }
    }
}

impl Node {
    /// The true time of the next wake-up by a timer or a frame on its way to the radio.
    fn next_wake(&self) -> Instant {
        let timer = self.wake.map_or(Instant::MAX, |(_, wake)| wake);
        self.submitted.first().map_or(timer, |(at, _)| timer.min(*at))
    }

    /// The node's own time.
    pub(super) fn local(&self, now: Instant) -> Instant {
        self.clock.local(now)
    }

    /// The indices of the node's radios on the medium.
    pub(super) fn radios(&self) -> std::ops::Range<usize> {
        self.first_radio..self.first_radio + self.plan.radios.len()
    }
}

fn radio_of(frame: &FrameDown) -> usize {
    match frame {
        FrameDown::Frame(frame) => usize::from(frame.radio.0),
        FrameDown::ReplyState { radio, .. } => usize::from(radio.0),
        FrameDown::Cancel(_) => 0,
    }
}

/// The medium knows only the true time.
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

/// The radios and the air between them, as a scenario describes them.
pub fn medium_config(scenario: &Scenario, plan: &Plan) -> MediumConfig {
    let mut radios = Vec::new();
    for node in &plan.nodes {
        for radio in &node.radios {
            radios.push(ChipConfig {
                rate: radio.spec.rate,
                ack_rate: radio.config.ack_rate_mbps.map(Bitrate::from_mbps),
                ack_timeout: radio.ack_timeout,
                gap: radio.spec.gap,
                exponential_backoff: radio.config.exponential_backoff,
                carrier_sense: radio.carrier_sense,
                channel: radio.spec.channel,
                capture_db: radio.config.capture_db,
                ..mac::chip(&radio.config, node.node, &radio.spec)
            });
        }
    }
    let index = |end: (farhop_proto::base::NodeId, farhop_proto::base::RadioId)| {
        let same = |chip: &ChipConfig| (chip.node, chip.radio) == end;
        radios.iter().position(same).expect("a plan names only radios that it has")
    };
    let links = plan.hops.iter().map(|hop| {
        let link = &scenario.link[hop.link];
        let back = link.loss_back.as_ref().filter(|_| hop.back);
        AirLink {
            from: index(hop.from),
            to: index(hop.to),
            delay: hop.delay,
            signal: farhop_proto::base::Dbm::from_f64(link.signal_dbm),
            loss: loss_model(back.unwrap_or(&link.loss)),
        }
    });
    let links = links.collect();
    MediumConfig::new(radios, links)
}
