//! The loop of the air: arrivals in the order of their times, the model between them, what it
//! reports to the daemons.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;

use farhop_proto::base::{Bitrate, Duration, FrameDown, FrameUp, Instant, RadioId, Seed};
use farhop_proto::stack::{Plan, Scenario};
use farhop_sim::radio::{ChipStats, Medium};
use rustix::event::{PollFd, PollFlags, poll};
use serde::{Deserialize, Serialize};

use super::attach::{AttachSpec, AttachStats, Attachment, Injected};
use crate::device::{Clock, FRAME_BYTES, os, timespec};
use crate::lateness::{WakeupStats, Wakeups};

/// Bursts of arrivals taken in before the model runs on.
const BURSTS: usize = 16;

/// What the air is made of.
pub struct AirOptions<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// Seed in place of the scenario's.
    pub seed: u64,
    /// Radios in the order of the plan, with the interfaces that lead to them.
    pub radios: Vec<RadioEnd>,
}

/// The interface that leads to a radio.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RadioEnd {
    /// Name of the node.
    pub node: String,
    /// Name of the interface at the air's end.
    pub interface: String,
}

/// A thing that goes down or comes back while the air runs.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// When, on the air's clock.
    pub at: Instant,
    /// Whether it is up from then on.
    pub up: bool,
    /// What.
    pub what: Fault,
}

/// What goes down.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// A radio, by its index.
    Radio(usize),
    /// Both directions of a link, by its index in the scenario.
    Link(usize),
}

/// What the air did so far.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AirStatus {
    /// How late it woke up.
    pub wakeups: WakeupStats,
    /// Processor time so far, in seconds.
    pub cpu_s: f64,
    /// Largest resident memory so far, in kB.
    pub memory_kb: u64,
    /// Frames that went on air.
    pub frames_on_air: u64,
    /// Frames that came so late that the model had passed their time.
    pub late_arrivals: u64,
    /// The worst of them, in microseconds.
    pub worst_arrival_us: f64,
    /// Radios by node: the chip's counters, and those of its veth.
    pub radios: BTreeMap<String, (ChipStats, AttachStats)>,
}

/// The air.
pub struct Air {
    clock: Clock,
    medium: Medium,
    ends: Vec<Attachment>,
    names: Vec<String>,
    rates: Vec<Bitrate>,
    sequences: Vec<u16>,
    /// How far the model has run.
    model: Instant,
    arrivals: Vec<Injected>,
    buffer: Vec<u8>,
    changes: Vec<Change>,
    wakeups: Wakeups,
    late_arrivals: u64,
    worst_arrival: Duration,
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
        let ends = attach_all(options, &plan, seed)?;
        let rates = plan.nodes.iter().flat_map(|node| node.radios.iter().map(|r| r.spec.rate));
        let medium = farhop_sim::engine::medium_config(scenario, &plan);
        Ok(Self {
            names: options.radios.iter().map(|end| end.node.clone()).collect(),
            rates: rates.collect(),
            sequences: vec![0; ends.len()],
            medium: Medium::new(medium, seed),
            ends,
            model: clock.now(),
            arrivals: Vec::new(),
            buffer: vec![0; FRAME_BYTES],
            changes: Vec::new(),
            wakeups: Wakeups::build(Duration::from_millis(1)),
            late_arrivals: 0,
            worst_arrival: Duration::ZERO,
            clock,
        })
    }

    /// The air's clock.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Adds a change that is to come.
    pub fn plan_change(&mut self, change: Change) {
        self.changes.push(change);
        // The next one stands last.
        self.changes.sort_by_key(|change| std::cmp::Reverse(change.at));
    }

    /// Sleeps until something has come or is due, and acts on it. Returns whether one of `others`
    /// is ready.
    ///
    /// Fails if an interface is gone.
    pub fn step(&mut self, others: &[(BorrowedFd<'_>, PollFlags)]) -> io::Result<bool> {
        let others_ready = self.sleep(others)?;
        for _ in 0..BURSTS {
            if !self.receive()? {
                break;
            }
        }
        let now = self.clock.now();
        self.run_model(now);
        self.report()?;
        Ok(others_ready)
    }

    fn sleep(&mut self, others: &[(BorrowedFd<'_>, PollFlags)]) -> io::Result<bool> {
        let now = self.clock.now();
        let due = self.next_due();
        let ends = self.ends.iter().map(|end| PollFd::from_borrowed_fd(end.fd(), PollFlags::IN));
        let more = others.iter().map(|(fd, events)| PollFd::from_borrowed_fd(*fd, *events));
        let mut fds: Vec<PollFd<'_>> = ends.chain(more).collect();
        let timeout = (due != Instant::MAX).then(|| timespec(due.since(now)));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(0) => self.wakeups.on_timer(due, self.clock.now()),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(fds[self.ends.len()..].iter().any(|fd| !fd.revents().is_empty()))
    }

    fn next_due(&self) -> Instant {
        let change = self.changes.last().map_or(Instant::MAX, |change| change.at);
        self.medium.poll_timeout().unwrap_or(Instant::MAX).min(change)
    }

    fn receive(&mut self) -> io::Result<bool> {
        let mut more = false;
        for (radio, end) in self.ends.iter_mut().enumerate() {
            more |= end.receive(&self.clock, radio, &mut self.buffer, &mut self.arrivals)?;
        }
        Ok(more)
    }

    /// Runs the model to `now`, with every arrival at its own time.
    fn run_model(&mut self, now: Instant) {
        let mut arrivals = std::mem::take(&mut self.arrivals);
        arrivals.sort_by_key(|arrival| arrival.at);
        for injected in arrivals.drain(..) {
            let behind = self.model.since(injected.at);
            if !behind.is_zero() {
                self.late_arrivals += 1;
                self.worst_arrival = self.worst_arrival.max(behind);
            }
            let at = injected.at.max(self.model);
            self.run_changes(at);
            self.medium.handle_timeout(at);
            self.model = at;
            if self.medium.room(injected.radio) == 0 {
                self.ends[injected.radio].on_queue_full(injected.frame.id);
            } else {
                self.medium.handle_frame(at, injected.radio, FrameDown::Frame(injected.frame));
            }
        }
        self.arrivals = arrivals;
        self.run_changes(now);
        self.medium.handle_timeout(now.max(self.model));
        self.model = now.max(self.model);
    }

    fn run_changes(&mut self, until: Instant) {
        while let Some(change) = self.changes.pop_if(|change| change.at <= until) {
            let at = change.at.max(self.model);
            match change.what {
                Fault::Radio(radio) => self.medium.set_radio_up(at, radio, change.up),
                Fault::Link(link) => {
                    for direction in [2 * link, 2 * link + 1] {
                        self.medium.set_link_up(at, direction, change.up);
                    }
                }
            }
            self.model = at;
        }
    }

    fn report(&mut self) -> io::Result<()> {
        while let Some(event) = self.medium.poll_event() {
            let radio = event.radio;
            match event.event {
                FrameUp::Received(frame) | FrameUp::Overheard(frame) => {
                    self.sequences[radio] = (self.sequences[radio] + 1) & 0x0fff;
                    self.ends[radio].deliver(&frame, self.sequences[radio])?;
                }
                FrameUp::Done(done) => self.ends[radio].echo(&done, self.rates[radio])?,
            }
        }
        Ok(())
    }

    /// What the air did so far.
    pub fn status(&self) -> AirStatus {
        let radio = |(index, end): (usize, &Attachment)| {
            (self.names[index].clone(), (self.medium.stats(index), end.stats()))
        };
        let usage = os::usage();
        AirStatus {
            cpu_s: usage.cpu_s,
            memory_kb: usage.memory_kb,
            wakeups: self.wakeups.stats(),
            frames_on_air: self.medium.frames_on_air(),
            late_arrivals: self.late_arrivals,
            worst_arrival_us: self.worst_arrival.as_nanos() as f64 / 1e3,
            radios: self.ends.iter().enumerate().map(radio).collect(),
        }
    }
}

/// Opens the interface of every radio. Their clocks begin at a random time, as those of cards do.
fn attach_all(options: &AirOptions<'_>, plan: &Plan, seed: Seed) -> io::Result<Vec<Attachment>> {
    let mut ends = Vec::new();
    for end in &options.radios {
        let node = plan
            .node(&end.node)
            .ok_or_else(|| io::Error::other(format!("the scenario has no node '{}'", end.node)))?;
        let radio = &node.radios[0];
        let clock = options.scenario.node[usize::from(node.node.0) - 1].clock;
        let mut rng = seed.stream(&format!("air/{}/clock", node.node.0));
        let random = rng.below(1_000_000_000_000) as i64;
        ends.push(Attachment::open(AttachSpec {
            interface: end.interface.clone(),
            station: (node.node, RadioId(0)),
            phy: radio.spec.phy,
            channel: radio.spec.channel,
            has_echo: radio.config.transmit_status,
            clock_offset: random + (clock.offset_s * 1e9) as i64,
            clock_ppb: (clock.drift_ppm * 1e3) as i64,
        })?);
    }
    Ok(ends)
}
