//! Builds a lab, waits until it is in step, runs its flows, and takes it down.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration as StdDuration, Instant as WallClock};

use farhop_proto::link::secure::SecurityConfig;
use farhop_proto::stack::{AdversaryConfig, Scenario};
use farhop_sim::adversary::Sent;
use farhop_sim::engine::{AdversaryReport, Report};
use serde_json::Value;

use super::awake::Awake;
use super::children::{AIR, far_end, near_end, radio_ends, ready_file};
use super::revive::Absence;
use super::state::{LabState, Process, SCENARIO_FILE, new_dir};
use super::stranger::{self, StrangerStatus};
use super::{
    Doing as _, LAB_VARIABLE, LabError, hosts, keys, names, network, others, recordings, report,
    room, traffic,
};
use crate::daemon::client::ask;
use crate::daemon::control::Request;
use crate::daemon::{query, socket_path};

/// How long each step may take while processes start and links get in step.
const PATIENCE: StdDuration = StdDuration::from_secs(15);
/// How often to check a condition that the lab waits for.
const TICK: StdDuration = StdDuration::from_millis(20);

/// Options for building a lab.
#[derive(Clone, Debug)]
pub struct LabOptions {
    /// Seed, in place of the scenario's.
    pub seed: Option<u64>,
    /// Path of this program: its hidden commands are the processes of the lab.
    pub program: PathBuf,
}

/// Progress of a lab, for people who wait.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// Processes and interfaces are made.
    Building,
    /// The links get in step.
    Settling,
    /// The flows run: seconds passed, and seconds in total.
    Running(f64, f64),
}

/// Called with the progress; the lab ends early if it returns false.
pub(super) type Watcher<'a> = &'a mut dyn FnMut(Progress) -> bool;

/// What each stranger of a lab has sent.
pub type Scripts = Vec<Vec<Sent>>;

/// A lab that is held by this process.
#[derive(Debug)]
pub struct Lab {
    scenario: Scenario,
    seed: u64,
    pub(super) state: LabState,
    pub(super) dir: PathBuf,
    pub(super) children: Vec<(String, Child)>,
    /// Path of this program.
    program: PathBuf,
    /// The network namespaces of the nodes, kept open so that they outlive their daemons.
    pub(super) namespaces: Vec<fs::File>,
    /// Daemons that have ended and are not back yet.
    pub(super) away: BTreeMap<String, Absence>,
    /// How many times daemons were started again.
    pub(super) again: u64,
    /// Number of radios of all nodes together.
    radios: usize,
    /// What the strangers repeat as noise; `None` if they are real strangers.
    scripts: Option<Scripts>,
}

impl Lab {
    /// Builds the lab of a scenario and waits until all links are in step.
    ///
    /// This process must be [isolated](super::isolate()). Fails if the network is too large for
    /// this machine, the kernel refuses something, a process ends, or a step such as getting in
    /// step takes longer than 15 s; then nothing is left behind. Panics if the scenario has
    /// problems.
    pub fn start(
        scenario: &Scenario,
        options: &LabOptions,
        watcher: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<Self, LabError> {
        Self::start_with(scenario, options, None, watcher)
    }

    /// Builds a lab with noise in place of the strangers: they only repeat what they once sent.
    pub fn start_beside_noise(
        scenario: &Scenario,
        options: &LabOptions,
        scripts: Scripts,
        watcher: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<Self, LabError> {
        Self::start_with(scenario, options, Some(scripts), watcher)
    }

    fn start_with(
        scenario: &Scenario,
        options: &LabOptions,
        scripts: Option<Scripts>,
        watcher: Watcher<'_>,
    ) -> Result<Self, LabError> {
        room::check(scenario)?;
        hosts::check(scenario)?;
        let (id, dir) = new_dir(&scenario.name)?;
        let own = Process::find(std::process::id());
        let holder = own.ok_or_else(|| LabError::NotFound("/proc is not mounted".into()))?;
        let state = LabState {
            id,
            scenario: scenario.name.clone(),
            holder,
            air: None,
            nodes: Vec::new(),
            namespaces: Vec::new(),
            ready: false,
            kept: false,
        };
        let mut lab = Self {
            scenario: scenario.clone(),
            seed: options.seed.unwrap_or(scenario.seed),
            state,
            dir,
            children: Vec::new(),
            program: options.program.clone(),
            namespaces: Vec::new(),
            away: BTreeMap::new(),
            again: 0,
            radios: 0,
            scripts,
        };
        lab.state.save()?;
        keys::make(&mut lab.scenario, &lab.dir)?;
        lab.tell(watcher, Progress::Building)?;
        lab.build(watcher)?;
        lab.wait_until_in_step(watcher)?;
        lab.state.ready = true;
        lab.state.save()?;
        Ok(lab)
    }

    fn build(&mut self, watcher: Watcher<'_>) -> Result<(), LabError> {
        let file = self.dir.join(SCENARIO_FILE);
        let text = serde_json::to_vec(&self.scenario).expect("a scenario is plain data");
        fs::write(&file, text).doing(file.display().to_string())?;
        names::write(&self.dir, &self.scenario.plan()).doing("the names of the nodes")?;
        recordings::write(&self.dir, &mut self.scenario)?;
        let names: Vec<String> = self.scenario.node.iter().map(|node| node.name.clone()).collect();
        for name in &names {
            let child = self.spawn(name, &["lab-node", "--node", name], Stdio::null())?;
            self.state.nodes.push((name.clone(), child));
        }
        self.radios = radio_ends(&self.scenario.plan()).len();
        for (index, name) in names.iter().enumerate() {
            let ready = ready_file(&self.dir, name);
            self.wait("the namespace of a node", watcher, |_| ready.exists())?;
            let text = fs::read(&ready).doing(ready.display().to_string())?;
            let namespace = serde_json::from_slice(&text).map_err(std::io::Error::other);
            self.state.namespaces.push(namespace.doing(ready.display().to_string())?);
            self.check_children()?;
            let pid = self.state.nodes[index].1.pid;
            let namespace = format!("/proc/{pid}/ns/net");
            self.namespaces.push(fs::File::open(&namespace).doing(namespace)?);
            self.hand_over_radios(name, pid)?;
        }
        self.build_strangers()?;
        self.state.air = Some(self.spawn(AIR, &["lab-air"], Stdio::null())?);
        self.state.save()
    }

    /// The radios of a node: their numbers among all radios, and the interfaces at the air's end.
    pub(super) fn radios_of(&self, name: &str) -> Vec<(usize, String)> {
        let ends = radio_ends(&self.scenario.plan()).into_iter().enumerate();
        let own = ends.filter(|(_, end)| end.node == name);
        own.map(|(number, end)| (number, end.interface)).collect()
    }

    /// Makes the interfaces of a node's radios, in the namespace of the process `pid`.
    pub(super) fn hand_over_radios(&self, name: &str, pid: u32) -> Result<(), LabError> {
        let mut radios = self.radios_of(name).into_iter();
        radios.try_for_each(|(number, near)| network::add_veth(&near, &far_end(number), pid))
    }

    /// Starts a process for each stranger, in the lab's own namespace: it has nothing but its
    /// radio.
    fn build_strangers(&mut self) -> Result<(), LabError> {
        for index in 0..self.scenario.adversary.len() {
            let name = self.scenario.adversary[index].name.clone();
            if let Some(scripts) = &self.scripts {
                let file = stranger::script_file(&self.dir, &name);
                let text = serde_json::to_vec(&scripts[index]).expect("plain data");
                fs::write(&file, text).doing(file.display().to_string())?;
            }
            let (near, far) = (stranger::near_end(index), stranger::far_end(index));
            network::add_veth(&near, &far, std::process::id())?;
            self.spawn(&name, &["lab-stranger", "--node", &name], Stdio::null())?;
        }
        Ok(())
    }

    pub(super) fn log(&self, name: &str) -> Result<fs::File, LabError> {
        let log = self.dir.join(format!("{name}.log"));
        let file = fs::File::options().create(true).append(true).open(&log);
        file.doing(log.display().to_string())
    }

    pub(super) fn spawn(
        &mut self,
        name: &str,
        words: &[&str],
        input: Stdio,
    ) -> Result<Process, LabError> {
        let file = self.log(name)?;
        let copy = file.try_clone().doing(name)?;
        // A daemon that is started again must not draw the same random numbers.
        let seed = self.seed.wrapping_add(self.again);
        let child = Command::new(&self.program)
            .args(words)
            .arg("--state")
            .arg(&self.dir)
            .args(["--parent", &std::process::id().to_string()])
            .args(["--seed", &seed.to_string()])
            .env(LAB_VARIABLE, self.state.mark())
            // Ctrl-C must reach only the lab, which ends its processes in its own order.
            .process_group(0)
            .stdin(input)
            .stdout(file)
            .stderr(copy)
            .spawn()
            .doing(self.program.display().to_string())?;
        let pid = child.id();
        self.children.push((name.into(), child));
        Process::find(pid).ok_or_else(|| self.ended(name, "at once"))
    }

    fn wait_until_in_step(&mut self, watcher: Watcher<'_>) -> Result<(), LabError> {
        self.tell(watcher, Progress::Settling)?;
        let sockets: Vec<PathBuf> =
            self.state.nodes.iter().map(|(name, _)| socket_path(&self.dir, name)).collect();
        let air = socket_path(&self.dir, AIR);
        self.wait("the air", watcher, |_| air.exists())?;
        let names = self.scenario.adversary.iter().map(|stranger| &stranger.name);
        let strangers: Vec<PathBuf> = names.map(|name| socket_path(&self.dir, name)).collect();
        self.wait("strangers", watcher, |_| strangers.iter().all(|socket| socket.exists()))?;
        let has_slots = self.scenario.stack.link.has_schedule();
        let is_sealed = self.scenario.security.as_ref().is_some_and(SecurityConfig::is_on);
        let behind = |socket: &PathBuf| {
            let status = query(socket).ok()?;
            behind(&status["stack"], has_slots, is_sealed)
        };
        let outcome = self.wait("all links in step", watcher, |_| {
            sockets.iter().all(|socket| behind(socket).is_some_and(|behind| behind.is_empty()))
        });
        outcome.map_err(|error| match error {
            LabError::TooSlow(_) => {
                let names = self.state.nodes.iter().map(|(name, _)| name.as_str()).collect();
                let each: Vec<_> = sockets.iter().map(behind).collect();
                let (seconds, links) = (PATIENCE.as_secs(), name_links(names, &each));
                LabError::TooSlow(format!("not in step after {seconds} s: {links}"))
            }
            other => other,
        })
    }

    /// Waits for a condition, as long as all processes live and nobody interrupts.
    fn wait(
        &mut self,
        what: &str,
        watcher: Watcher<'_>,
        mut is_done: impl FnMut(&Self) -> bool,
    ) -> Result<(), LabError> {
        let limit = WallClock::now() + PATIENCE;
        while !is_done(self) {
            self.tell(watcher, Progress::Settling)?;
            self.check_children()?;
            if WallClock::now() > limit {
                let seconds = PATIENCE.as_secs();
                return Err(LabError::TooSlow(format!("{what}: not there after {seconds} s")));
            }
            std::thread::sleep(TICK);
        }
        Ok(())
    }

    fn tell(&self, watcher: Watcher<'_>, progress: Progress) -> Result<(), LabError> {
        if watcher(progress) { Ok(()) } else { Err(LabError::Interrupted) }
    }

    /// Fails if a process of the lab has ended.
    pub fn check_children(&mut self) -> Result<(), LabError> {
        let ended = |(name, child): &mut (String, Child)| match child.try_wait() {
            Ok(None) => None,
            Ok(Some(status)) => Some((name.clone(), status.to_string())),
            Err(error) => Some((name.clone(), error.to_string())),
        };
        match self.children.iter_mut().find_map(ended) {
            Some((name, how)) => Err(self.ended(&name, &how)),
            None => Ok(()),
        }
    }

    fn ended(&self, name: &str, how: &str) -> LabError {
        let log = fs::read_to_string(self.dir.join(format!("{name}.log"))).unwrap_or_default();
        let said = format!("{how}; its last words: {}", last_words(&log));
        LabError::Ended { name: name.into(), said }
    }

    /// Runs the flows of the scenario, and returns the report.
    ///
    /// Fails if a flow cannot run or a process of the lab ends.
    pub fn run_flows(
        &mut self,
        watcher: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<Report, LabError> {
        self.report_flows(watcher).or_else(|error| match error {
            // Ctrl-C in a terminal may have ended processes too.
            LabError::Interrupted => Err(error),
            // A process that has ended explains all other errors.
            _ => self.check_children().and(Err(error)),
        })
    }

    /// Tells the air and the strangers that the run begins: the times of faults, of recorded losses
    /// and of attacks count from now. [`Lab::run_flows`] does this itself.
    ///
    /// Fails if one of them does not answer.
    pub fn begin(&self) -> Result<(), LabError> {
        let strangers = self.scenario.adversary.iter().map(|stranger| stranger.name.as_str());
        for name in [AIR].into_iter().chain(strangers) {
            ask(&socket_path(&self.dir, name), Request::Begin {})
                .map_err(std::io::Error::other)
                .doing(format!("tell {name} that the run begins"))?;
        }
        Ok(())
    }

    fn report_flows(
        &mut self,
        watcher: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<Report, LabError> {
        let _awake = Awake::keep();
        let others_before = others::cpu_s(&self.state);
        let wall = WallClock::now();
        let before = self.statuses()?;
        self.begin()?;
        let scenario = self.scenario.clone();
        let pids = self.state.nodes.iter().map(|(_, process)| process.pid).collect();
        let dir = self.dir.clone();
        let nodes = traffic::Nodes { pids, dir: &dir };
        let flows = traffic::run(&scenario, &nodes, &mut |elapsed| {
            self.tell(watcher, Progress::Running(elapsed, scenario.duration_s))?;
            self.check_children()
        })?;
        let after = self.statuses()?;
        let mut report = report::build(&scenario, flows, &before, &after)?;
        report.adversary = self.adversary(&before, &after)?;
        report.seed = self.seed;
        report.wall_s = wall.elapsed().as_secs_f64();
        if let Some(lateness) = &mut report.lateness {
            let others = (others::cpu_s(&self.state) - others_before).max(0.0);
            lateness.others_cpu = Some(others / report.wall_s);
        }
        Ok(report)
    }

    fn strangers(&self) -> Result<Vec<StrangerStatus>, LabError> {
        let ask = |stranger: &AdversaryConfig| {
            let status = query(&socket_path(&self.dir, &stranger.name));
            let status = status.map_err(std::io::Error::other).doing(&stranger.name)?;
            report::read(&status)
        };
        self.scenario.adversary.iter().map(ask).collect()
    }

    /// What each stranger has sent, for repeating it as noise.
    ///
    /// Fails if a stranger does not answer, or cannot write its file.
    pub fn scripts(&self) -> Result<Scripts, LabError> {
        let script = |stranger: &AdversaryConfig| {
            let name = &stranger.name;
            let answer = ask(&socket_path(&self.dir, name), Request::Script {});
            answer.map_err(std::io::Error::other).doing(name)?;
            let file = stranger::sent_file(&self.dir, name);
            let text = fs::read(&file).doing(file.display().to_string())?;
            serde_json::from_slice(&text).map_err(std::io::Error::other).doing(name)
        };
        self.scenario.adversary.iter().map(script).collect()
    }

    fn adversary(
        &self,
        before: &[Value],
        after: &[Value],
    ) -> Result<Option<AdversaryReport>, LabError> {
        match self.strangers()? {
            none if none.is_empty() => Ok(None),
            strangers => report::adversary(&strangers, before, after).map(Some),
        }
    }

    /// The statuses of the air and of the nodes, in this order.
    fn statuses(&self) -> Result<Vec<Value>, LabError> {
        let nodes = self.state.nodes.iter().map(|(name, _)| name.as_str());
        let ask = |name: &str| {
            query(&socket_path(&self.dir, name)).map_err(std::io::Error::other).doing(name)
        };
        [AIR].into_iter().chain(nodes).map(ask).collect()
    }

    /// The recorded state of the lab.
    pub fn state(&self) -> &LabState {
        &self.state
    }
}

impl Drop for Lab {
    /// Takes the lab down, with everything that runs in it.
    fn drop(&mut self) {
        super::programs::end_programs(&self.state);
        for (_, child) in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        for index in 0..self.scenario.adversary.len() {
            let _ = network::remove_veth(&stranger::near_end(index));
        }
        for index in 0..self.radios {
            // It may be gone already, with the namespace of its other end.
            let _ = network::remove_veth(&near_end(index));
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// The neighbours, by number, with which a node is not in step or has no session keys; `None` if
/// its status does not tell.
fn behind(stack: &Value, has_slots: bool, is_sealed: bool) -> Option<Vec<u64>> {
    let of = |list: &Value, is_so: fn(&Value) -> bool| -> Option<Vec<u64>> {
        let list = list.as_array()?.iter().filter(|one| is_so(one));
        list.map(|one| one["node"].as_u64()).collect()
    };
    let mut behind = Vec::new();
    if has_slots {
        behind.extend(of(&stack["link"]["neighbours"], |link| link["up"] != true)?);
    }
    if is_sealed {
        behind.extend(of(&stack["security"]["peers"], |peer| peer["since"].is_null())?);
    }
    Some(behind)
}

/// Names the links of nodes that are [`behind`], and the nodes that do not answer.
fn name_links(names: Vec<&str>, each: &[Option<Vec<u64>>]) -> String {
    /// Most links that are named; the rest is counted.
    const NAMED: usize = 8;
    let mut links = BTreeSet::new();
    for (number, behind) in (1..).zip(each) {
        match behind {
            Some(behind) => {
                links.extend(behind.iter().map(|other| (number.min(*other), number.max(*other))));
            }
            None => {
                links.insert((number, number));
            }
        }
    }
    let name = |number: u64| names.get(number as usize - 1).copied().unwrap_or("?");
    let tell = |(a, b): &(u64, u64)| match a == b {
        true => format!("{}, which does not answer", name(*a)),
        false => format!("{} and {}", name(*a), name(*b)),
    };
    let told: Vec<String> = links.iter().take(NAMED).map(tell).collect();
    let rest = links.len() - told.len();
    let rest = if rest > 0 { format!("; and {rest} more") } else { String::new() };
    told.join("; ") + &rest
}

/// The last lines of a log. If it ends with a panic, the lines that say where and why, without the
/// backtrace.
fn last_words(log: &str) -> String {
    let is_said = |line: &&str| !line.starts_with("note: ");
    let lines = log.lines().take_while(|line| *line != "stack backtrace:").filter(is_said);
    let lines: Vec<&str> = lines.collect();
    let is_panic = |line: &&str| line.starts_with("thread ") && line.contains(" panicked at ");
    let from = lines.iter().position(is_panic).unwrap_or(lines.len().saturating_sub(3));
    let last: Vec<&str> = lines[from..].iter().take(3).copied().collect();
    if last.is_empty() { "nothing".into() } else { last.join(" | ") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn links_that_are_not_in_step_are_named_once() {
        let stack = json!({
            "link": { "neighbours": [{ "node": 1, "up": true }, { "node": 3, "up": false }] },
            "security": { "peers": [{ "node": 1, "since": null }, { "node": 3, "since": 5 }] }
        });
        assert_eq!(behind(&stack, true, false), Some(vec![3]));
        assert_eq!(behind(&stack, true, true), Some(vec![3, 1]));
        assert_eq!(behind(&stack, false, false), Some(vec![]));
        assert_eq!(behind(&json!({}), true, false), None);
        let names = vec!["hill", "ridge", "valley"];
        let each = [Some(vec![]), Some(vec![3]), Some(vec![2])];
        assert_eq!(name_links(names.clone(), &each), "ridge and valley");
        let each = [None, Some(vec![3]), Some(vec![2])];
        let said = "hill, which does not answer; ridge and valley";
        assert_eq!(name_links(names, &each), said);
        let many = [Some((2..13).collect())];
        assert!(name_links(vec!["mast"; 12], &many).ends_with("mast and mast; and 3 more"));
    }

    #[test]
    fn the_last_words_of_a_panic_are_where_and_why_it_was() {
        let log = "one\ntwo\nthree\nfour\n";
        assert_eq!(last_words(log), "two | three | four");
        let panic = "thread 'main' (7) panicked at run/src/air/mod.rs:1:2:";
        let frames =
            "stack backtrace:\n   0: __rustc::rust_begin_unwind\n             at x.rs:5:5\n";
        let log = format!("{log}\n{panic}\nno air\n{frames}note: Some details are omitted\n");
        assert_eq!(last_words(&log), format!("{panic} | no air"));
        assert_eq!(last_words(""), "nothing");
    }
}
