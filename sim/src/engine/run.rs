//! One run of a scenario in virtual time, from start to report.

use std::fmt;
use std::io::{self, Write};
use std::time::Instant as WallClock;

use farhop_proto::base::{Duration, Instant, NodeId, Seed};
use farhop_proto::stack::{Congestion, Problem, Scenario};

use super::capture::{Capture, TraceWriter};
use super::losses::LossRecorder;
use super::measure;
use super::report::Report;
use super::slots::SlotErrors;
use super::traffic::Traffic;
use super::world::World;
use crate::adversary::Script;

/// Called with the simulated time in seconds; returns whether the run should go on.
pub type Progress<'a> = Box<dyn FnMut(f64) -> bool + 'a>;

/// Options of a run: its seed and what to write. Files of an interrupted run are complete up to the
/// time of the interruption.
#[derive(Default)]
pub struct RunOptions<'a> {
    /// Seed instead of the scenario's.
    pub seed: Option<u64>,
    /// Node to capture at, and where to write what its radios hear and send, as pcapng with
    /// radiotap headers. Frames that failed their check are marked; frames that no radio locked on
    /// to are left out.
    pub pcap: Option<(String, Box<dyn Write + 'a>)>,
    /// Where to write every transmission and every decision of a layer, as JSON lines.
    pub trace: Option<Box<dyn Write + 'a>>,
    /// Where to write the fate of the frames of each link, as a recording to be played back.
    pub losses: Option<Box<dyn Write + 'a>>,
    /// Called with the simulated time in seconds now and then; the run ends early if it returns
    /// false.
    pub progress: Option<Progress<'a>>,
}

/// Why a run did not take place or did not finish.
#[derive(Debug)]
pub enum RunError {
    /// The scenario needs something that only the lab has.
    LabOnly(Problem),
    /// It was one of many, and left out.
    LeftOut,
    /// The node to capture at does not exist.
    NoSuchNode(String),
    /// Writing failed.
    Io(io::Error),
    /// The progress callback ended the run.
    Interrupted,
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LabOnly(Problem { message, help, .. }) => write!(f, "{message}: {help}"),
            Self::LeftOut => write!(f, "it was left out"),
            Self::NoSuchNode(name) => write!(f, "there is no node '{name}' to capture at"),
            Self::Io(error) => write!(f, "cannot write: {error}"),
            Self::Interrupted => write!(f, "interrupted"),
        }
    }
}

impl std::error::Error for RunError {}

impl From<io::Error> for RunError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Longest run with time series bins of a tenth of a second, in seconds.
const FINE_BINS_S: f64 = 120.0;
/// Most bins of one flow, as all of them are kept in memory: a longer run has bins of a second, or
/// longer ones if it takes more than four hours.
const MOST_BINS: f64 = 14_400.0;
/// Most bins of all flows together; with more flows, bins are longer.
const MOST_CELLS: f64 = 250_000.0;
/// The longest simulated time between two calls of the progress callback, in seconds.
const LOOK_S: f64 = 1.0;

/// Bin length of the time series, in seconds: 1, 2 or 5 times a power of ten.
fn bin_s(duration_s: f64, flows: usize) -> f64 {
    let least = if duration_s <= FINE_BINS_S { 0.1 } else { 1.0 };
    let most = MOST_BINS.min(MOST_CELLS / flows.max(1) as f64);
    let whole = (0..).flat_map(|power| [1.0, 2.0, 5.0].map(|step| step * 10_f64.powi(power)));
    let mut lengths = [0.1, 0.2, 0.5].into_iter().chain(whole);
    let enough = lengths.find(|length| *length >= least && duration_s / length <= most);
    enough.expect("lengths grow without an end")
}

/// Why the simulator cannot run a scenario that has no other problems; `None` if it can.
pub fn refusal(scenario: &Scenario) -> Option<Problem> {
    let bbr = scenario.flow.iter().position(|flow| flow.congestion == Congestion::Bbr)?;
    Some(Problem {
        path: format!("flow[{bbr}].congestion"),
        message: "BBR is in the lab only".into(),
        help: "use `farhop lab`, or another congestion".into(),
    })
}

/// Runs a scenario in virtual time. A scenario with strangers runs a second time with noise in
/// their place, for the goodput ratio in [`Report::adversary`]; the rest of the report is that of
/// the first run.
///
/// Panics if the scenario has [`Scenario::problems`].
pub fn run(scenario: &Scenario, mut options: RunOptions<'_>) -> Result<Report, RunError> {
    let wall = WallClock::now();
    if let Some(why) = refusal(scenario) {
        return Err(RunError::LabOnly(why));
    }
    let seed = options.seed.unwrap_or(scenario.seed);
    let mut progress = options.progress.take();
    let (mut report, scripts) = run_once(scenario, seed, options, &mut progress, None)?;
    if let Some(adversary) = &mut report.adversary
        && scenario.adversary.iter().any(|adversary| !adversary.as_noise)
    {
        let goodput: f64 = report.flows.iter().map(|flow| flow.goodput_mbps).sum();
        // The callback sees the run at its end, and can still stop it.
        let end = scenario.duration_s;
        let mut progress: Option<Progress<'_>> =
            progress.as_mut().map(|progress| Box::new(|_| progress(end)) as _);
        let nothing = RunOptions::default();
        let (noise, _) = run_once(scenario, seed, nothing, &mut progress, Some(scripts))?;
        let beside_noise = noise.total_mbps();
        adversary.honest_goodput_ratio = (beside_noise > 0.0).then(|| goodput / beside_noise);
    }
    report.wall_s = wall.elapsed().as_secs_f64();
    Ok(report)
}

/// Runs a scenario once; with `scripts`, strangers only repeat those as noise. Also returns what
/// the strangers sent.
fn run_once<'a>(
    scenario: &Scenario,
    seed: u64,
    options: RunOptions<'a>,
    progress: &mut Option<Progress<'a>>,
    scripts: Option<Vec<Script>>,
) -> Result<(Report, Vec<Script>), RunError> {
    let plan = scenario.plan_for_flows();
    let scenario = &*scenario.expanded();
    let mut run = Run {
        traffic: Traffic::build(scenario, Seed(seed)),
        faults: Faults::build(scenario),
        bin: Duration::from_secs_f64(bin_s(scenario.duration_s, scenario.flow.len())),
        next_bin: Instant::ZERO,
        look: Duration::from_secs_f64(bin_s(scenario.duration_s, 1).min(LOOK_S)),
        next_look: Instant::ZERO,
        end: Instant::ZERO + Duration::from_secs_f64(scenario.duration_s),
        capture: match options.pcap {
            Some((name, out)) => {
                let node = plan.node(&name).ok_or(RunError::NoSuchNode(name))?;
                Some(Capture::build(out, node, &plan)?)
            }
            None => None,
        },
        trace: options.trace.map(|out| TraceWriter::build(out, scenario, &plan)),
        losses: match options.losses {
            Some(out) => Some(LossRecorder::build(out, &plan)?),
            None => None,
        },
        slots: SlotErrors::build(&plan),
        progress,
    };
    run.next_bin += run.bin;
    run.next_look += run.look;
    let mut world = World::build(scenario, plan, Seed(seed), scripts);
    world.medium.record_transmissions(run.capture.is_some() || run.trace.is_some());
    world.medium.record_arrivals(run.capture.as_ref().map(Capture::node));
    world.decisions = run.trace.is_some().then(Box::default);
    world.medium.record_fates(run.losses.is_some());
    let outcome = run.run_until_end(&mut world);
    match outcome {
        Ok(()) => run.finish_files(run.end)?,
        Err(RunError::Interrupted) => run.finish_files(run.next_look - run.look)?,
        Err(_) => {}
    }
    outcome?;
    let scripts = world.hostile.as_mut().map(|hostile| hostile.take_scripts());
    let mut report =
        measure::report(scenario, world, &run.traffic, run.slots.as_ref(), (run.end, run.bin));
    report.seed = seed;
    Ok((report, scripts.unwrap_or_default()))
}

struct Run<'a, 'b, 'c> {
    traffic: Traffic<'c>,
    faults: Faults,
    bin: Duration,
    next_bin: Instant,
    /// Simulated time between two calls of the progress callback.
    look: Duration,
    next_look: Instant,
    end: Instant,
    capture: Option<Capture<'b>>,
    trace: Option<TraceWriter<'b>>,
    losses: Option<LossRecorder<'b>>,
    slots: Option<SlotErrors>,
    progress: &'a mut Option<Progress<'b>>,
}

impl Run<'_, '_, '_> {
    fn run_until_end(&mut self, world: &mut World) -> Result<(), RunError> {
        loop {
            let limit = self
                .traffic
                .poll_timeout()
                .min(self.faults.poll_timeout())
                .min(self.slots.as_ref().map_or(Instant::MAX, SlotErrors::poll_timeout))
                .min(self.next_look)
                .min(self.end);
            let now = world.run_ahead(limit);
            self.traffic.set_now(now);
            if self.faults.poll_timeout() <= now {
                self.faults.apply(now, world);
            }
            if self.traffic.poll_timeout() <= now {
                self.traffic.handle_timeout(now, world);
            }
            world.advance(now, &mut self.traffic);
            self.record(now, world)?;
            if let Some(slots) = self.slots.as_mut().filter(|slots| slots.poll_timeout() <= now) {
                slots.handle_timeout(now, world);
            }
            if now >= self.next_bin {
                self.next_bin += self.bin;
                self.traffic.close_bin(world);
            }
            if now >= self.next_look {
                self.next_look += self.look;
                let keep_going =
                    self.progress.as_mut().is_none_or(|progress| progress(now.as_secs_f64()));
                if !keep_going {
                    return Err(RunError::Interrupted);
                }
            }
            if now >= self.end {
                if self.next_bin - self.bin < self.end {
                    self.traffic.close_bin(world);
                }
                return Ok(());
            }
        }
    }

    /// Completes the files at the time that the run reached.
    fn finish_files(&mut self, reached: Instant) -> Result<(), RunError> {
        if let Some(losses) = self.losses.take() {
            losses.finish(reached)?;
        }
        if let Some(capture) = self.capture.take() {
            capture.finish(reached)?;
        }
        if let Some(trace) = self.trace.take() {
            trace.finish()?;
        }
        Ok(())
    }

    fn record(&mut self, now: Instant, world: &mut World) -> Result<(), RunError> {
        while let Some(transmission) = world.medium.poll_transmission() {
            if let Some(capture) = &mut self.capture {
                capture.add(&transmission, &world.medium);
            }
            if let Some(trace) = &mut self.trace {
                trace.add(&transmission)?;
            }
        }
        if let Some(capture) = &mut self.capture {
            while let Some(arrival) = world.medium.poll_arrival() {
                capture.on_arrival(arrival);
            }
            capture.write_until(now)?;
        }
        let mut decisions = world.decisions.as_deref_mut();
        while let Some(decision) = decisions.as_mut().and_then(|all| all.poll_decision()) {
            if let Some(trace) = &mut self.trace {
                trace.add_decision(decision)?;
            }
        }
        if let Some(losses) = &mut self.losses {
            while let Some(record) = world.medium.poll_fate() {
                losses.add(&record)?;
            }
        }
        Ok(())
    }
}

/// The times at which nodes and links go down and come back, in reverse order.
struct Faults(Vec<Change>);

struct Change {
    at: Instant,
    up: bool,
    what: Fault,
}

enum Fault {
    Node(usize),
    /// All links between two nodes.
    Link([NodeId; 2]),
}

impl Faults {
    fn build(scenario: &Scenario) -> Self {
        let node = |name: &str| scenario.node_id(name).expect("the scenario has no problems");
        let mut changes = Vec::new();
        for fault in &scenario.fault {
            for (secs, up) in [(fault.from_s, false), (fault.to_s, true)] {
                let what = match (&fault.node, &fault.link) {
                    (Some(name), _) => Fault::Node(usize::from(node(name).0) - 1),
                    (None, ends) => {
                        let [a, b] = ends.as_ref().expect("the scenario has no problems");
                        Fault::Link([node(a), node(b)])
                    }
                };
                let at = Instant::ZERO + Duration::from_secs_f64(secs);
                changes.push(Change { at, up, what });
            }
        }
        // The next change is last. If one outage begins as another ends, the end is applied first.
        changes.sort_by_key(|change| std::cmp::Reverse((change.at, !change.up)));
        Self(changes)
    }

    fn poll_timeout(&self) -> Instant {
        self.0.last().map_or(Instant::MAX, |change| change.at)
    }

    fn apply(&mut self, now: Instant, world: &mut World) {
        while let Some(change) = self.0.pop_if(|change| change.at <= now) {
            match change.what {
                Fault::Node(node) => {
                    for radio in world.nodes[node].radios() {
                        world.medium.set_radio_up(now, radio, change.up);
                    }
                    // Its radios have room again, and no event tells it so.
                    world.mark_due(node);
                }
                Fault::Link(nodes) => world.medium.set_linked(now, nodes, change.up),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_run_has_as_few_bins_as_one_of_hours() {
        let lengths = [20.0, 120.0, 121.0, 14_400.0, 14_401.0, 1e7].map(|run| bin_s(run, 1));
        assert_eq!(lengths, [0.1, 0.1, 1.0, 1.0, 2.0, 1_000.0]);
    }

    #[test]
    fn very_many_flows_have_fewer_bins_each() {
        let lengths = [2_500, 2_501, 10_000, 65_000, 300_000].map(|flows| bin_s(10.0, flows));
        assert_eq!(lengths, [0.1, 0.2, 0.5, 5.0, 20.0]);
        assert_eq!([17, 18, 1_000].map(|flows| bin_s(14_400.0, flows)), [1.0, 2.0, 100.0]);
    }
}
