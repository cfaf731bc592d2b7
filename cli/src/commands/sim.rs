//! `farhop sim`: a scenario in virtual time.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use farhop_sim::engine::{self, RunError, RunOptions};

use crate::progress::{Bar, tell};
use crate::{Failure, interrupt, load, report, sweep};

/// Runs a scenario in virtual time, with the simulator's own TCP.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    farhop sim scenarios/demo.toml\n  \
    farhop sim scenarios/demo.toml --seed 7 --json | jq '.flows[].goodput_mbps'\n  \
    farhop sim scenarios/demo.toml --out out/       report, page and chart in a folder\n  \
    farhop sim scenarios/demo.toml --pcap air.pcapng --at valley\n  \
    farhop sim scenarios/sweep.toml --out out/      all runs of a sweep; again goes on")]
pub(crate) struct Options {
    /// The scenario.
    file: PathBuf,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
    /// Write report.json, report.html, flows.svg and Parquet tables into this folder; of a sweep
    /// runs.jsonl, report.html, sweep.svg and the tables. A sweep keeps its finished runs there,
    /// and goes on from them when the same program is started again.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Seed in place of the scenario's.
    #[arg(long, value_parser = super::seed)]
    seed: Option<u64>,
    /// Write what the radios of a node hear and send, as pcapng with radiotap headers.
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// The node to capture at; the first if it is not given.
    #[arg(long, value_name = "NODE", requires = "pcap")]
    at: Option<String>,
    /// Write every transmission, and what the layers of the nodes decide, as JSON lines.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write what became of the frames of each link, for a loss of `kind = "trace"`.
    #[arg(long, value_name = "FILE")]
    losses: Option<PathBuf>,
    /// Runs of a sweep at a time; as many as there are cores if it is not given.
    #[arg(long, value_name = "N", value_parser = super::how_many)]
    jobs: Option<NonZeroUsize>,
    /// Begin a sweep anew, whatever its folder holds.
    #[arg(long, requires = "out")]
    fresh: bool,
    /// Start a sweep without asking, however many runs it has.
    #[arg(long)]
    yes: bool,
}

/// What became of the files of a run.
#[derive(Default)]
struct Outputs {
    /// Those that were made.
    made: Vec<PathBuf>,
    /// Why one cannot be written, which formats on the way here do not pass on.
    trouble: Option<String>,
}

/// A file that is made when something is written to it: a run that is refused leaves none.
struct Output<'a> {
    path: &'a Path,
    file: Option<File>,
    all: &'a RefCell<Outputs>,
}

impl<'a> Output<'a> {
    fn at(path: &'a Path, all: &'a RefCell<Outputs>) -> Self {
        Self { path, file: None, all }
    }

    fn attempt<T>(&mut self, act: impl FnOnce(&mut File) -> io::Result<T>) -> io::Result<T> {
        let outcome = match &mut self.file {
            Some(file) => act(file),
            none => File::create(self.path).and_then(|file| {
                self.all.borrow_mut().made.push(self.path.to_owned());
                act(none.insert(file))
            }),
        };
        outcome.inspect_err(|error| {
            let what = format!("cannot write {}: {error}", self.path.display());
            self.all.borrow_mut().trouble.get_or_insert(what);
        })
    }
}

impl Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.attempt(|file| file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.file.is_some() { self.attempt(File::flush) } else { Ok(()) }
    }
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let loaded = load::load(&options.file)?;
    interrupt::watch();
    let scenario = &loaded.scenario;
    scenario.notes().iter().for_each(|note| tell(&format!("note: {note}")));
    if scenario.sweep.is_some() {
        return run_sweep(&loaded, options);
    }
    refuse_for_sweeps(options)?;
    if let Some(why) = engine::refusal(scenario) {
        return Err(loaded.refuse_whole(why));
    }
    let at = options.at.as_ref().unwrap_or(&scenario.node[0].name);
    if scenario.node_id(at).is_none() {
        let names: Vec<&str> = scenario.node.iter().map(|node| node.name.as_str()).collect();
        let wrong = format!("no node '{at}' to capture at; the scenario has {}", names.join(", "));
        return Err(Failure::Input(miette::miette!("{wrong}")));
    }
    if let Some(dir) = &options.out {
        report::prepare_for_run(dir)?;
    }
    let outputs = RefCell::new(Outputs::default());
    let bar = Bar::start(&scenario.name);
    let mut run = RunOptions { seed: options.seed, ..RunOptions::default() };
    if let Some(path) = &options.pcap {
        run.pcap = Some((at.clone(), Box::new(Output::at(path, &outputs))));
    }
    if let Some(path) = &options.trace {
        run.trace = Some(Box::new(Output::at(path, &outputs)));
    }
    if let Some(path) = &options.losses {
        run.losses = Some(Box::new(Output::at(path, &outputs)));
    }
    run.progress = Some(Box::new(|seconds| {
        bar.fill(seconds / scenario.duration_s);
        !interrupt::has_come()
    }));
    let outcome = engine::run(scenario, run);
    bar.end();
    let Outputs { made, trouble } = outputs.into_inner();
    let finished = outcome.map_err(|error| match error {
        RunError::Interrupted => Failure::Interrupted,
        other => Failure::Failed(trouble.unwrap_or_else(|| other.to_string())),
    })?;
    let printed = report::output(&finished, &loaded.text, options.out.as_deref(), options.json);
    made.iter().for_each(|path| tell(&path.display().to_string()));
    printed
}

/// Fails if an option would do nothing, since there is one run.
fn refuse_for_sweeps(options: &Options) -> Result<(), Failure> {
    let given =
        [("--jobs", options.jobs.is_some()), ("--fresh", options.fresh), ("--yes", options.yes)];
    let Some((name, _)) = given.iter().find(|(_, is_given)| *is_given) else { return Ok(()) };
    let file = options.file.display();
    Err(Failure::Input(miette::miette!(
        "{name} is of a sweep, and {file} has no [sweep]: leave {name} out"
    )))
}

fn run_sweep(loaded: &load::Loaded, options: &Options) -> Result<(), Failure> {
    if options.pcap.is_some() || options.trace.is_some() || options.losses.is_some() {
        return Err(Failure::Input(miette::miette!(
            "--pcap, --trace and --losses are of one run: take out the scenario's [sweep]"
        )));
    }
    sweep::run(
        loaded,
        &sweep::Options {
            json: options.json,
            out: options.out.as_ref(),
            seed: options.seed,
            threads: options.jobs.map_or(0, NonZeroUsize::get),
            fresh: options.fresh,
            yes: options.yes,
        },
    )
}
