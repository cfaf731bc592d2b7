//! `farhop sim`: a scenario in virtual time.

use std::fs::File;
use std::path::PathBuf;

use farhop_sim::engine::{self, RunError, RunOptions};

use super::print_json;
use crate::progress::Bar;
use crate::{Failure, interrupt, load, report};

/// Runs a scenario in virtual time, with the simulator's own TCP.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    farhop sim scenarios/demo.toml\n  \
    farhop sim scenarios/demo.toml --seed 7 --json | jq '.flows[].goodput_mbps'\n  \
    farhop sim scenarios/demo.toml --out out/       report, page and chart in a folder\n  \
    farhop sim scenarios/demo.toml --pcap air.pcapng --at valley")]
pub(crate) struct Options {
    /// The scenario.
    file: PathBuf,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
    /// Write report.json, report.html and flows.svg into this folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Seed in place of the scenario's.
    #[arg(long)]
    seed: Option<u64>,
    /// Write what is on air at a node, as pcapng with radiotap headers.
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// The node to capture at; the first if it is not given.
    #[arg(long, value_name = "NODE", requires = "pcap")]
    at: Option<String>,
    /// Write every transmission, as JSON lines.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let loaded = load::load(&options.file)?;
    interrupt::watch();
    let scenario = &loaded.scenario;
    let create = |path: &PathBuf| {
        File::create(path).map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))
    };
    let bar = Bar::start(&scenario.name);
    let mut run = RunOptions { seed: options.seed, ..RunOptions::default() };
    if let Some(path) = &options.pcap {
        let node = options.at.clone().unwrap_or_else(|| scenario.node[0].name.clone());
        run.pcap = Some((node, Box::new(create(path)?)));
    }
    if let Some(path) = &options.trace {
        run.trace = Some(Box::new(create(path)?));
    }
    run.progress = Some(Box::new(|seconds| {
        bar.fill(seconds / scenario.duration_s);
        !interrupt::has_come()
    }));
    let outcome = engine::run(scenario, run);
    bar.end();
    let finished = outcome.map_err(|error| match error {
        RunError::Interrupted => Failure::Interrupted,
        other => Failure::Failed(other.to_string()),
    })?;
    if let Some(dir) = &options.out {
        report::write(dir, &finished, &loaded.text)?;
    }
    if options.json { print_json(&finished) } else { report::print(&finished, &options.out) }
}
