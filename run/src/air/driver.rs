//! The loop of the air: it reads frames, runs the model over them, and sends the model's events to
//! the daemons.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;

use farhop_proto::base::{Duration, Instant, Seed};
use farhop_proto::stack::{Plan, Scenario};
use farhop_sim::adversary;
use farhop_sim::radio::{ChipConfig, ChipStats, LinkAir, Medium};
use rustix::event::{PollFd, PollFlags, poll};
use serde::{Deserialize, Serialize};

use super::attach::{Attachment, Injected};
use super::hostile::HostileStats;
use super::paced::{Change, Fault, Paced};
use super::port::{AttachSpec, AttachStats};
use crate::device::{Clock, FRAME_BYTES, os, timespec};
use crate::lateness::{WakeupStats, Wakeups};

/// Most bursts of frames that are read before the model runs.
const BURSTS: usize = 16;
/// How often to check whether an interface that is gone has come back.
const LOOK: Duration = Duration::from_millis(100);

/// How to set up the air.
pub struct AirOptions<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// Seed, which replaces the scenario's.
    pub seed: u64,
    /// Interfaces of the radios, in the order of the plan.
    pub radios: Vec<RadioEnd>,
    /// Interfaces of the strangers, in the order of the scenario.
    pub strangers: Vec<RadioEnd>,
    /// Whether frames of strangers are noise, which nobody can decode.
    pub as_noise: bool,
}

/// The interface that leads to a radio.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RadioEnd {
    /// Name of the node.
    pub node: String,
    /// Number of the radio at its node.
    pub radio: u8,
    /// Name of the interface at the air's end.
    pub interface: String,
}

impl RadioEnd {
    /// Name of the node, with the number of the radio if that is not the first.
    pub fn name(&self) -> String {
        match self.radio {
            0 => self.node.clone(),
            radio => format!("{}/{radio}", self.node),
        }
    }
}

/// State and counters of the air.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AirStatus {
    /// How late it woke up.
    pub wakeups: WakeupStats,
    /// Processor time so far, in seconds.
    pub cpu_s: f64,
    /// Largest resident memory so far, in kB.
    pub memory_kb: u64,
    /// Frames that were sent on the air.
    pub frames_on_air: u64,
    /// Frames that came after the model had passed their time.
    pub late_arrivals: u64,
    /// How late the worst of them was, in microseconds.
    pub worst_arrival_us: f64,
    /// How long hosts took to answer a frame: points `[quantile, microseconds]`.
    pub answers_us: Vec<[f64; 2]>,
    /// Counters of strangers' frames.
    pub hostile: HostileStats,
    /// Counters of the chips and of their veths, by [`RadioEnd::name`].
    pub radios: BTreeMap<String, (ChipStats, AttachStats)>,
    /// Air time by link.
    pub links: Vec<LinkAir>,
}

/// The air.
pub struct Air {
    clock: Clock,
    model: Paced,
    ends: Vec<Attachment>,
    /// Whether each end is lost: its interface is gone, and its radio switched off.
    lost: Vec<bool>,
    /// When to look for lost interfaces again.
    look: Instant,
    names: Vec<String>,
    arrivals: Vec<Injected>,
    buffer: Vec<u8>,
    wakeups: Wakeups,
}

impl Air {
    /// The air of a scenario, attached to its radios.
    ///
    /// Fails if an interface is missing or cannot be opened.
    pub fn open(options: &AirOptions<'_>) -> io::Result<Self> {
        let clock = Clock::start();
        let scenario = options.scenario;
        let plan = scenario.plan();
        let seed = Seed(options.seed);
        let mut ends = attach_all(options, &plan, seed)?;
        let mut medium = farhop_sim::engine::medium_config(scenario, &plan);
        let strangers = adversary::place(scenario, &plan, &mut medium, options.as_noise);
        for (stranger, interface) in strangers.iter().zip(&options.strangers) {
            ends.push(attach_stranger(&medium.radios[stranger.radio], interface)?);
        }
        Ok(Self {
            names: options.radios.iter().chain(&options.strangers).map(RadioEnd::name).collect(),
            model: Paced::build(
                Medium::new(medium, seed),
                clock.now(),
                strangers.first().map(|stranger| stranger.radio),
            ),
            lost: vec![false; ends.len()],
            look: Instant::MAX,
            ends,
            arrivals: Vec::new(),
            buffer: vec![0; FRAME_BYTES],
            wakeups: Wakeups::build(Duration::from_millis(1)),
            clock,
        })
    }

    /// The air's clock.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Begins to play back recordings of losses; before that they cause no loss.
    pub fn begin_recordings(&mut self) {
        self.model.begin_recordings(self.clock.now());
    }

    /// Adds a change for later.
    pub fn plan_change(&mut self, change: Change) {
        self.model.plan_change(change);
    }

    /// Sleeps until a frame has come or something is due, and handles it. Returns whether one of
    /// `others` is ready.
    ///
    /// The radio of an interface that is gone is switched off until an interface of that name is
    /// back.
    pub fn step(&mut self, others: &[(BorrowedFd<'_>, PollFlags)]) -> io::Result<bool> {
        let others_ready = self.sleep(others)?;
        for _ in 0..BURSTS {
            if !self.receive() {
                break;
            }
        }
        let now = self.clock.now();
        let ends = &mut self.ends;
        self.model.run(&mut self.arrivals, now, &mut |radio, id| ends[radio].on_refused(id));
        while let Some((event, antenna)) = self.model.poll_event() {
            self.ends[event.radio].tell(&event.event, antenna);
        }
        self.switch_off_lost(now);
        if self.look <= now {
            self.switch_on_found(now);
        }
        Ok(others_ready)
    }

    fn sleep(&mut self, others: &[(BorrowedFd<'_>, PollFlags)]) -> io::Result<bool> {
        let now = self.clock.now();
        let due = self.model.poll_timeout().min(self.look);
        // An interface that is gone is an error that its socket has for ever.
        let ends = self.ends.iter().filter(|end| !end.is_gone());
        let ends = ends.map(|end| PollFd::from_borrowed_fd(end.fd(), PollFlags::IN));
        let more = others.iter().map(|(fd, events)| PollFd::from_borrowed_fd(*fd, *events));
        let mut fds: Vec<PollFd<'_>> = ends.chain(more).collect();
        let first_other = fds.len() - others.len();
        let timeout = (due != Instant::MAX).then(|| timespec(due.since(now)));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // Frames may wait by then too, above all if it is very late.
        let now = self.clock.now();
        if due <= now {
            self.wakeups.on_timer(due, now);
        }
        Ok(fds[first_other..].iter().any(|fd| !fd.revents().is_empty()))
    }

    fn receive(&mut self) -> bool {
        let mut more = false;
        for (radio, end) in self.ends.iter_mut().enumerate() {
            more |= end.receive(&self.clock, radio, &mut self.buffer, &mut self.arrivals);
        }
        more
    }

    fn switch_off_lost(&mut self, now: Instant) {
        for (radio, end) in self.ends.iter().enumerate() {
            if end.is_gone() && !self.lost[radio] {
                self.lost[radio] = true;
                self.look = now + LOOK;
                self.model.plan_change(Change { at: now, up: false, what: Fault::Radio(radio) });
            }
        }
    }

    fn switch_on_found(&mut self, now: Instant) {
        for (radio, end) in self.ends.iter_mut().enumerate() {
            if self.lost[radio] && end.reopen() {
                self.lost[radio] = false;
                self.model.plan_change(Change { at: now, up: true, what: Fault::Radio(radio) });
            }
        }
        let is_any_lost = self.lost.contains(&true);
        self.look = if is_any_lost { now + LOOK } else { Instant::MAX };
    }

    /// State and counters of the air.
    pub fn status(&self) -> AirStatus {
        let radio = |(index, end): (usize, &Attachment)| {
            (self.names[index].clone(), (self.model.medium().stats(index), end.stats()))
        };
        let usage = os::usage();
        let late = self.model.late();
        AirStatus {
            cpu_s: usage.cpu_s,
            memory_kb: usage.memory_kb,
            wakeups: self.wakeups.stats(),
            hostile: self.model.hostile(),
            frames_on_air: self.model.medium().frames_on_air(),
            late_arrivals: late.count,
            answers_us: self.model.answers().points(),
            worst_arrival_us: late.worst.as_nanos() as f64 / 1e3,
            radios: self.ends.iter().enumerate().map(radio).collect(),
            links: self.model.medium().links_air().collect(),
        }
    }
}

/// Opens the interface of each radio. The radios' clocks start at random times, as those of cards
/// do.
fn attach_all(options: &AirOptions<'_>, plan: &Plan, seed: Seed) -> io::Result<Vec<Attachment>> {
    let mut ends = Vec::new();
    for end in &options.radios {
        let node = plan
            .node(&end.node)
            .ok_or_else(|| io::Error::other(format!("the scenario has no node '{}'", end.node)))?;
        let radio = &node.radios[usize::from(end.radio)];
        let clock = options.scenario.node[usize::from(node.node.0) - 1].clock;
        let name = match end.radio {
            0 => format!("air/{}/clock", node.node.0),
            radio => format!("air/{}/clock/{radio}", node.node.0),
        };
        let mut rng = seed.stream(&name);
        let random = rng.below(1_000_000_000_000) as i64;
        ends.push(Attachment::open(AttachSpec {
            interface: end.interface.clone(),
            station: (node.node, radio.spec.id),
            phy: radio.spec.phy,
            channel: radio.spec.channel,
            has_echo: radio.config.transmit_status,
            clock_offset: random + (clock.offset_s * 1e9) as i64,
            clock_ppb: (clock.drift_ppm * 1e3) as i64,
            is_stranger: false,
        })?);
    }
    Ok(ends)
}

/// Opens the interface of a stranger, whose radio in the medium is `radio`.
fn attach_stranger(radio: &ChipConfig, end: &RadioEnd) -> io::Result<Attachment> {
    Attachment::open(AttachSpec {
        interface: end.interface.clone(),
        station: (radio.node, radio.radio),
        phy: radio.phy,
        channel: radio.channel,
        has_echo: false,
        clock_offset: 0,
        clock_ppb: 0,
        is_stranger: true,
    })
}
