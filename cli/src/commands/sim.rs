//! `farhop sim`: runs a scenario in virtual time.

use std::cell::{Cell, RefCell};
use std::fs;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use farhop_proto::stack::Seeds;
use farhop_sim::engine::{self, RunError, RunOptions};

use crate::progress::{Bar, tell};
use crate::whole::NewFile;
use crate::{Failure, interrupt, load, report, sweep};

/// Runs a scenario in virtual time, with the simulator's own TCP.
///
/// An interrupted run leaves no report. What --pcap, --trace and --losses recorded until then is
/// kept, and so are the finished runs of a sweep, whose page then says how many are missing.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    farhop sim scenarios/demo.toml\n  \
    farhop sim scenarios/demo.toml --seed 7 --json | jq '.flows[].goodput_mbps'\n  \
    farhop sim scenarios/demo.toml --out out/       report, page and chart in a folder\n  \
    farhop sim scenarios/demo.toml --pcap air.pcapng --at valley\n  \
    farhop sim scenarios/sweep.toml --out sweep/    all runs of a sweep; again goes on")]
pub(crate) struct Options {
    /// The scenario.
    file: PathBuf,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
    /// Write report.json, report.html, flows.svg and Parquet tables into this folder; for a sweep
    /// runs.jsonl, report.html, sweep.svg and the tables. A sweep keeps its finished runs there:
    /// the same command continues with the others, if the program is the same.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Seed to use instead of the scenario's.
    #[arg(long, value_parser = super::seed, allow_negative_numbers = true)]
    seed: Option<u64>,
    /// Write the frames that a node's radios send and receive to a pcapng file, with radiotap
    /// headers. Frames with a wrong checksum are marked; frames that no radio detected are missing.
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// The node to capture at; by default the first in the scenario.
    #[arg(long, value_name = "NODE", requires = "pcap")]
    at: Option<String>,
    /// Write every transmission, and the decisions of the nodes' layers, as JSON lines.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Record which frames the links lost, for playback as a loss of `kind = "trace"`. Collisions
    /// and faults are not recorded: they happen anew when it is played back.
    #[arg(long, value_name = "FILE")]
    losses: Option<PathBuf>,
    /// Runs of a sweep in parallel; by default one for each core.
    #[arg(long, value_name = "N", value_parser = super::how_many, allow_negative_numbers = true)]
    jobs: Option<NonZeroUsize>,
    /// Begin a sweep anew, dropping the runs in its folder.
    #[arg(long, requires = "out")]
    fresh: bool,
    /// Start a sweep without asking, however many runs it has.
    #[arg(long)]
    yes: bool,
}

/// A file that is written during the run.
struct Output<'a> {
    path: &'a Path,
    file: NewFile,
    /// The first error in writing it, because the formats in between lose its text.
    trouble: RefCell<Option<String>>,
}

impl<'a> Output<'a> {
    /// Creates the file of an option, before anything runs.
    fn create(option: &str, path: Option<&'a PathBuf>) -> Result<Option<Self>, Failure> {
        let Some(path) = path else { return Ok(None) };
        if path == Path::new("-") {
            // Standard output is for the report.
            let wrong = format!("{option} - is not standard output");
            let right = format!("{option} takes a file; {option} ./- would be one of that name");
            return Err(Failure::Input(miette::miette!("{wrong}: {right}")));
        }
        let file = NewFile::create(path).map_err(|error| {
            let why = format!("cannot write {}: {error}", path.display());
            let right = "takes a file in a folder that this user may write into";
            Failure::Input(miette::miette!("{why}; {option} {right}"))
        })?;
        Ok(Some(Self { path, file, trouble: RefCell::new(None) }))
    }

    /// Creates the files that are written during a run: --pcap, --trace and --losses.
    fn all(options: &'a Options) -> Result<[Option<Self>; 3], Failure> {
        let wanted =
            [("--pcap", &options.pcap), ("--trace", &options.trace), ("--losses", &options.losses)];
        let mut begun = [None, None, None];
        for (at, (option, path)) in wanted.iter().enumerate() {
            let next = Self::create(option, path.as_ref())?;
            let place = |output: &Option<Self>| output.as_ref()?.file.place().map(Path::to_owned);
            if let (Some(output), Some(here)) = (&next, place(&next))
                && let Some(other) = begun.iter().position(|it| place(it).as_ref() == Some(&here))
            {
                // Only the one that is renamed last would be left.
                let (path, (other, _)) = (output.path.display(), wanted[other]);
                let wrong = format!("{other} and {option} are both to write {path}");
                return Err(Failure::Input(miette::miette!("{wrong}: give each its own file")));
            }
            if place(&next).is_some() && place(&next) == fs::canonicalize(&options.file).ok() {
                let path = options.file.display();
                let wrong = format!("{option} is to write {path}, which is the scenario");
                return Err(Failure::Input(miette::miette!("{wrong}: give {option} another name")));
            }
            if let (Some(dir), Some(here)) = (&options.out, place(&next))
                && report::takes(dir, &here)
            {
                let (path, dir) = (here.display(), dir.display());
                let wrong = format!("{option} and --out {dir} are both to write {path}");
                return Err(Failure::Input(miette::miette!("{wrong}: give {option} another name")));
            }
            begun[at] = next;
        }
        Ok(begun)
    }

    fn attempt<T>(&self, outcome: io::Result<T>) -> io::Result<T> {
        outcome.inspect_err(|error| {
            let what = format!("cannot write {}: {error}", self.path.display());
            self.trouble.borrow_mut().get_or_insert(what);
        })
    }
}

impl Write for &Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.attempt((&self.file).write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.attempt((&self.file).flush())
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
    if let Some(why) = engine::refusal(&loaded.written()) {
        return Err(loaded.refuse(vec![why]));
    }
    let at = options.at.as_ref().unwrap_or(&scenario.node[0].name);
    if scenario.node_id(at).is_none() {
        let names: Vec<&str> = scenario.node.iter().map(|node| node.name.as_str()).collect();
        let wrong = format!("no node '{at}' to capture at; the scenario has {}", names.join(", "));
        return Err(Failure::Input(miette::miette!("{wrong}")));
    }
    refuse_own_folder(options)?;
    let _folder = options.out.as_deref().map(report::prepare_for_run).transpose()?;
    let [pcap, trace, losses] = Output::all(options)?;
    let bar = Bar::start(&scenario.name);
    let reached = Cell::new(0.0);
    let outcome = engine::run(
        scenario,
        RunOptions {
            seed: options.seed,
            pcap: pcap.as_ref().map(|pcap| (at.clone(), Box::new(pcap) as _)),
            trace: trace.as_ref().map(|trace| Box::new(trace) as _),
            losses: losses.as_ref().map(|losses| Box::new(losses) as _),
            progress: Some(Box::new(|seconds| {
                bar.fill(seconds / scenario.duration_s);
                reached.set(seconds);
                !interrupt::has_come()
            })),
        },
    );
    bar.end();
    let outputs = [pcap, trace, losses].into_iter().flatten();
    match outcome {
        Ok(finished) => {
            let kept = keep(outputs, "");
            let (out, json) = (options.out.as_deref(), options.json);
            let printed = report::output(&finished, &loaded.text, out, json);
            kept.and(printed)
        }
        Err(RunError::Interrupted) => {
            // What was recorded until the interruption is valid.
            let (reached, all) = (reached.get(), scenario.duration_s);
            keep(outputs, &format!(": the first {reached:.1} s of {all} s"))?;
            Err(Failure::Interrupted)
        }
        Err(other) => {
            let mut troubles = outputs.filter_map(|output| output.trouble.into_inner());
            Err(Failure::Failed(troubles.next().unwrap_or_else(|| other.to_string())))
        }
    }
}

/// Gives the files their names and reports their paths, with `what` behind each. If one cannot get
/// its name, the others still get theirs.
fn keep<'a>(outputs: impl Iterator<Item = Output<'a>>, what: &str) -> Result<(), Failure> {
    let mut first = None;
    for Output { path, file, .. } in outputs {
        let path = path.display();
        match file.keep() {
            Ok(()) => tell(&format!("{path}{what}")),
            Err(error) => {
                let trouble = format!("cannot write {path}: {error}");
                match &first {
                    None => first = Some(trouble),
                    // The message says where the data is.
                    Some(_) => tell(&format!("farhop: {trouble}")),
                }
            }
        }
    }
    first.map_or(Ok(()), |trouble| Err(Failure::Failed(trouble)))
}

/// Fails if the report would overwrite the scenario.
fn refuse_own_folder(options: &Options) -> Result<(), Failure> {
    let (Some(dir), Ok(file)) = (&options.out, fs::canonicalize(&options.file)) else {
        return Ok(());
    };
    if !report::takes(dir, &file) {
        return Ok(());
    }
    let (file, dir) = (options.file.display(), dir.display());
    let wrong = format!("--out {dir} is to write {file}, which is the scenario");
    Err(Failure::Input(miette::miette!("{wrong}: give --out another folder")))
}

/// Fails if an option for sweeps is given for a scenario without one.
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
    let seeds = loaded.scenario.sweep.as_ref().map(|sweep| &sweep.seeds);
    if options.seed.is_some() && matches!(seeds, Some(Seeds::List(_))) {
        return Err(Failure::Input(miette::miette!(
            "the scenario names the seeds of its runs (sweep.seeds): leave --seed out"
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
