//! `farhop lab`: runs a scenario with real daemons, kernel TCP and an emulated air.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use farhop_proto::stack::Scenario;
use farhop_run::lab::{self, Lab, LabOptions, Progress};
use farhop_sim::engine::Report;
use serde::{Deserialize, Serialize};

use super::{print_json, print_text};
use crate::load::Loaded;
use crate::progress::{Bar, tell};
use crate::whole::NewFolder;
use crate::{Failure, interrupt, load, report};

/// How often a waiting process checks whether it must end.
const LOOK: Duration = Duration::from_millis(100);

/// Builds the network of a scenario from real daemons, and runs its flows over kernel sockets.
///
/// Each node is a network namespace with a daemon and a TUN interface; the radios are connected by
/// an emulated air. Works as root and, where the kernel allows user namespaces, for every user.
///
/// The run starts once the links are up, with slots in step and keys agreed. A lab report therefore
/// leaves that phase out, while `farhop sim` counts it as the beginning of the run.
///
/// If this machine could not keep up with real time, the exit status is 3 and the report says
/// `late`. With --keep the lab stays up even then.
#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:\n  \
        farhop lab scenarios/demo.toml\n  \
        farhop lab scenarios/demo.toml --keep\n  \
        farhop lab exec hill -- ping -c 3 valley\n  \
        farhop lab exec valley -- iperf3 -s\n  \
        farhop lab stop hill\n  \
        farhop lab start hill\n  \
        farhop lab list\n  \
        farhop lab down"
)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Option<Command>,
    /// The scenario.
    #[arg(required = true)]
    file: Option<PathBuf>,
    /// Leave the lab up after its flows have ended.
    #[arg(long)]
    keep: bool,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
    /// Write report.json, report.html, flows.svg and Parquet tables into this folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Seed to use instead of the scenario's.
    #[arg(long, value_parser = super::seed, allow_negative_numbers = true)]
    seed: Option<u64>,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Runs a program in the network of a node.
    #[command(after_help = "Examples:\n  \
        farhop lab exec hill -- ping -c 3 valley\n  \
        farhop lab exec --lab demo-2 valley -- iperf3 -s")]
    Exec {
        /// The lab, by its id or its scenario's name; needed if several running labs have the node.
        #[arg(long, value_name = "NAME")]
        lab: Option<String>,
        /// The node, or `@air` for the air.
        node: String,
        /// The program and its arguments.
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Ends the daemon of a node at once, like a power cut.
    ///
    /// The node stays down until `farhop lab start`; its state on disk and the programs in its
    /// network stay. A daemon that ends in any other way, `kill -9` included, is restarted after a
    /// second, as by an init system.
    #[command(after_help = "Examples:\n  \
        farhop lab stop ridge\n  \
        farhop lab stop --lab demo-2 ridge")]
    Stop(NodeOptions),
    /// Starts the daemon of a node that was stopped.
    #[command(after_help = "Examples:\n  \
        farhop lab start ridge\n  \
        farhop lab start --lab demo-2 ridge")]
    Start(NodeOptions),
    /// Lists the labs.
    #[command(after_help = "Examples:\n  farhop lab list\n  farhop lab list --json | jq '.[].id'")]
    List {
        /// Print the list as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Takes a lab down, with everything that runs in it, and removes what crashed labs left
    /// behind.
    ///
    /// Without a name it takes down the lab that was kept. A lab that is still being built or
    /// running its flows must be named.
    #[command(after_help = "Examples:\n  \
        farhop lab down\n  \
        farhop lab down demo\n  \
        farhop lab down demo-2\n  \
        farhop lab down --all")]
    Down {
        /// The lab, by its id or its scenario's name; needed if several labs are kept.
        name: Option<String>,
        /// Take down all labs, even if several are running.
        #[arg(long, conflicts_with = "name")]
        all: bool,
    },
}

/// Selects a node, and the lab that it is in.
#[derive(clap::Args)]
struct NodeOptions {
    /// The lab, by its id or its scenario's name; needed if several running labs have the node.
    #[arg(long, value_name = "NAME")]
    lab: Option<String>,
    /// The node.
    node: String,
}

impl NodeOptions {
    /// The lab of the node. Within `farhop lab exec` it is by default the lab that this runs in.
    fn find(&self) -> Result<lab::LabState, Failure> {
        match lab::own().filter(|_| self.lab.is_none()) {
            Some((lab, _)) => Ok(lab),
            None => Ok(lab::find_with_node(self.lab.as_deref(), &self.node)?),
        }
    }
}

/// Options of the process of a node, a stranger or the air of a lab.
#[derive(clap::Args)]
pub(crate) struct ChildOptions {
    #[arg(long, default_value = "")]
    node: String,
    #[arg(long)]
    state: PathBuf,
    #[arg(long)]
    parent: u32,
    #[arg(long)]
    seed: u64,
    /// The node starts again: standard input is the network namespace that it had before.
    #[arg(long)]
    again: bool,
}

/// Options of the process that holds a lab with `--keep`.
#[derive(clap::Args)]
pub(crate) struct HoldOptions {
    file: PathBuf,
    #[arg(long)]
    seed: Option<u64>,
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    match &options.command {
        Some(Command::Exec { lab, node, command }) => {
            Err(lab::exec(&lab::find_with_node(lab.as_deref(), node)?, node, command).into())
        }
        Some(Command::Stop(options)) => {
            let (lab, node) = (options.find()?, &options.node);
            lab::stop(&lab, node)?;
            let again = format!("farhop lab start --lab {} {node}", lab.id);
            print_text(&format!("{node} is stopped: `{again}` starts it again"))
        }
        Some(Command::Start(options)) => {
            lab::start(&options.find()?, &options.node)?;
            print_text(&format!("{} is up", options.node))
        }
        Some(Command::List { json }) => list(*json),
        Some(Command::Down { name, all }) => {
            let ids = lab::down(name.as_deref(), *all)?;
            let none = || "no lab of this user was there".into();
            let what = if ids.is_empty() { none() } else { ids.join(", ") };
            print_text(&format!("down: {what}"))?;
            if ids.is_empty() { print_foreign() } else { Ok(()) }
        }
        None => {
            let file = options.file.as_deref().expect("clap asks for it");
            let loaded = load::load_to_run(file)?;
            if loaded.scenario.sweep.is_some() {
                tell(
                    "farhop: the lab leaves [sweep] out and runs the scenario once as it stands; \
                     `farhop sim` runs all of it",
                );
            }
            if let Some(why) = refusal(&loaded.scenario) {
                return Err(loaded.refuse_whole(why));
            }
            if options.keep { keep(options, file, &loaded) } else { run_once(options, &loaded) }
        }
    }
}

/// Why a lab cannot run a scenario on this machine, or `None` if it can.
pub(crate) fn refusal(scenario: &Scenario) -> Option<String> {
    load::simulated_only(scenario, |_| false).or_else(|| lab::refusal(scenario))
}

/// The labs that are up.
fn running() -> Vec<lab::LabState> {
    lab::list().into_iter().filter(lab::LabState::is_alive).collect()
}

/// The options for building a lab, with this program for its processes.
pub(crate) fn lab_options(seed: Option<u64>) -> Result<LabOptions, Failure> {
    Ok(LabOptions { seed, program: std::env::current_exe()? })
}

fn run_once(options: &Options, loaded: &Loaded) -> Result<(), Failure> {
    lab::isolate()?;
    let _folder = prepare(options)?;
    interrupt::watch();
    let bar = Bar::start(&loaded.scenario.name);
    let finished = run_lab(loaded, options.seed, &mut |progress| {
        show(&bar, &loaded.scenario.name, &progress);
        !interrupt::has_come()
    });
    bar.end();
    let finished = finished?;
    output(options, &finished, &loaded.text)?;
    judge(&finished)
}

/// Builds a lab, runs its flows, and takes it down.
pub(crate) fn run_lab(
    loaded: &Loaded,
    seed: Option<u64>,
    watcher: &mut dyn FnMut(Progress) -> bool,
) -> Result<Report, Failure> {
    let (scenario, options) = (&loaded.scenario, lab_options(seed)?);
    let mut lab = Lab::start(scenario, &options, watcher)?;
    let mut finished = lab.run_flows(watcher)?;
    if let Some(adversary) = &mut finished.adversary
        && scenario.adversary.iter().any(|adversary| !adversary.as_noise)
    {
        let goodput: f64 = finished.flows.iter().map(|flow| flow.goodput_mbps).sum();
        let scripts = lab.scripts()?;
        drop(lab);
        let mut lab = Lab::start_beside_noise(scenario, &options, scripts, watcher)?;
        let beside_noise = lab.run_flows(watcher)?;
        let noise = beside_noise.total_mbps();
        let is_late = beside_noise.lateness.as_ref().is_some_and(|lateness| lateness.late);
        adversary.honest_goodput_ratio = (noise > 0.0 && !is_late).then(|| goodput / noise);
        if is_late {
            finished.lateness = beside_noise.lateness;
        }
    }
    Ok(finished)
}

/// Shows the progress of a lab in a bar.
pub(crate) fn show(bar: &Bar, name: &str, progress: &Progress) {
    match progress {
        Progress::Building => bar.say(&format!("{name}: building the network")),
        Progress::Settling => bar.say(&format!("{name}: links find each other")),
        Progress::Running(passed, all) => {
            bar.say(&format!("{name}: flows run"));
            bar.fill(passed / all);
        }
    }
}

/// Creates the folder of the report and checks that it can be written, before the lab is built.
fn prepare(options: &Options) -> Result<Option<NewFolder>, Failure> {
    options.out.as_deref().map(report::prepare_for_run).transpose()
}

fn output(options: &Options, finished: &Report, text: &str) -> Result<(), Failure> {
    report::output(finished, text, options.out.as_deref(), options.json)
}

/// Fails if a run was late; to be called after its report was written.
fn judge(finished: &Report) -> Result<(), Failure> {
    match &finished.lateness {
        Some(lateness) if lateness.late => Err(Failure::Late),
        _ => Ok(()),
    }
}

/// What the holder of a lab tells the process that started it, one JSON line each.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Progress(f64),
    Report(Box<Report>),
    Ready(String),
    Failed(String),
}

fn keep(options: &Options, file: &Path, loaded: &Loaded) -> Result<(), Failure> {
    let _folder = prepare(options)?;
    let mut holder = Process::new(std::env::current_exe()?);
    holder.arg("lab-hold").arg(file);
    if let Some(seed) = options.seed {
        holder.args(["--seed", &seed.to_string()]);
    }
    let holder = holder.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = holder.spawn()?;
    interrupt::watch();
    let bar = Bar::start(&loaded.scenario.name);
    let mut finished = None;
    let outcome = hear_out(&mut child, &bar, &mut finished);
    bar.end();
    if outcome.is_err() {
        // The holder takes down what it has built: wait for that.
        end(&child);
        child.wait()?;
    }
    let id = outcome?;
    let finished = finished.filter(|report| !report.flows.is_empty());
    if let Some(finished) = &finished {
        output(options, finished, &loaded.text)?;
    }
    if !options.json {
        let which = if running().len() > 1 { format!("--lab {id} ") } else { String::new() };
        print_text(&format!(
            "lab {id} is up: `farhop lab exec {which}NODE -- CMD` runs a program in it, `farhop \
             lab down {id}` takes it down"
        ))?;
    }
    finished.map_or(Ok(()), |finished| judge(&finished))
}

/// Follows the output of a lab's holder until the lab is up; returns the lab's id.
fn hear_out(
    holder: &mut Child,
    bar: &Bar,
    finished: &mut Option<Box<Report>>,
) -> Result<String, Failure> {
    let out = holder.stdout.take().expect("it was asked for");
    let (sender, words) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            // Lines that are not ours are ignored.
            let Ok(word) = serde_json::from_str::<Word>(&line) else { continue };
            if sender.send(word).is_err() {
                return;
            }
        }
    });
    loop {
        let word = words.recv_timeout(LOOK);
        if interrupt::has_come() {
            return Err(Failure::Interrupted);
        }
        match word {
            Ok(Word::Progress(part)) => bar.fill(part),
            Ok(Word::Report(report)) => *finished = Some(report),
            Ok(Word::Ready(id)) => return Ok(id),
            Ok(Word::Failed(what)) => return Err(Failure::Failed(what)),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(Failure::Failed("the lab ended without a word".into()));
            }
        }
    }
}

/// Asks a process to end (SIGTERM).
pub(crate) fn end(child: &Child) {
    let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(pid) = pid {
        // It may have ended by itself.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
}

/// Builds a lab, runs its flows, and holds it until a signal ends this process.
pub(crate) fn run_holder(options: &HoldOptions) -> Result<(), Failure> {
    let say = |word: Word| {
        let line = serde_json::to_string(&word).expect("words are plain data");
        // The process that started this one may have gone.
        let _ = writeln!(std::io::stdout(), "{line}");
    };
    let outcome = hold(options, &say).map_err(Failure::into_failed);
    if let Err(Failure::Failed(what)) = &outcome {
        say(Word::Failed(what.clone()));
    }
    outcome
}

fn hold(options: &HoldOptions, say: &dyn Fn(Word)) -> Result<(), Failure> {
    let loaded = load::load_to_run(&options.file)?;
    lab::isolate()?;
    interrupt::watch();
    let goes_on = || !interrupt::has_come();
    let mut lab = Lab::start(&loaded.scenario, &lab_options(options.seed)?, &mut |_| goes_on())?;
    if !loaded.scenario.flow.is_empty() {
        let report = lab.run_flows(&mut |progress| {
            if let Progress::Running(passed, all) = progress {
                say(Word::Progress(passed / all));
            }
            goes_on()
        })?;
        say(Word::Report(Box::new(report)));
    } else {
        lab.begin()?;
    }
    // From here on the lab outlives its terminal: Ctrl-C there must not reach it.
    let _ = rustix::process::setsid();
    lab.keep()?;
    say(Word::Ready(lab.state().id.clone()));
    while !interrupt::has_come() {
        lab.revive();
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// A lab in the JSON list.
#[derive(Serialize)]
struct Listed<'a> {
    #[serde(flatten)]
    lab: &'a lab::LabState,
    /// Whether its holder is alive.
    alive: bool,
    /// Nodes whose daemons died; `@air` is the air.
    died: Vec<&'a str>,
    /// Nodes that were stopped with `farhop lab stop`.
    stopped: Vec<&'a str>,
}

fn list(json: bool) -> Result<(), Failure> {
    let labs = lab::list();
    if json {
        let listed = labs.iter().map(|lab| Listed {
            lab,
            alive: lab.is_alive(),
            died: lab.died(),
            stopped: lab.stopped(),
        });
        return print_json(&listed.collect::<Vec<_>>());
    }
    if labs.is_empty() {
        print_text("no labs")?;
    }
    for lab in labs {
        let nodes: Vec<&str> = lab.nodes.iter().map(|(name, _)| name.as_str()).collect();
        let died = lab.died();
        let state = match (lab.is_alive(), lab.kept) {
            (true, true) if !died.is_empty() => &format!("up, but DEAD in it: {}", died.join(", ")),
            (true, true) => "up",
            (true, false) => "being built or running its flows",
            (false, _) => &format!("dead: `farhop lab down {}` removes what it left", lab.id),
        };
        let stopped = match lab.stopped() {
            none if none.is_empty() => String::new(),
            some => format!("; stopped: {}", some.join(", ")),
        };
        print_text(&format!("{}: {state}; nodes {}{stopped}", lab.id, nodes.join(", ")))?;
    }
    print_foreign()
}

/// Prints a line for each lab of another user.
fn print_foreign() -> Result<(), Failure> {
    lab::foreign().iter().try_for_each(|lab| print_text(&lab.to_string()))
}

pub(crate) fn run_node(options: &ChildOptions) -> Result<(), Failure> {
    let ChildOptions { node, state, parent, seed, again } = options;
    Ok(lab::run_node(state, node, *parent, *seed, *again)?)
}

pub(crate) fn run_stranger(options: &ChildOptions) -> Result<(), Failure> {
    let ChildOptions { node, state, parent, seed, .. } = options;
    Ok(lab::run_stranger(state, node, *parent, *seed)?)
}

pub(crate) fn run_air(options: &ChildOptions) -> Result<(), Failure> {
    Ok(lab::run_air(&options.state, options.parent, options.seed)?)
}
