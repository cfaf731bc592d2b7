//! `cargo xtask conformance`: compares the simulator with the lab, on the same scenarios.
//!
//! Each scenario runs several times in the lab (real daemons, kernel TCP, the air in real time) and
//! as often in `sim` with the same seeds. The sum of the flows' goodput, averaged over the runs,
//! must agree within 10%. A lab run that reports itself as late is repeated.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use farhop_proto::base::counted;
use farhop_run::lab::has_report;
use serde::Serialize;
use serde_json::Value;

use crate::build;

/// Pauses before the repetitions of a late lab run: by then whatever kept the machine busy for a
/// moment, or other users of its host for minutes, is over.
const RESTS: [Duration; 3] =
    [Duration::from_secs(5), Duration::from_secs(30), Duration::from_secs(90)];
/// Largest relative difference of `sim` from the lab.
const TOLERANCE: f64 = 0.10;

/// Options of the command.
#[derive(Args)]
pub(crate) struct Options {
    /// Print the rows as JSON.
    #[arg(long)]
    json: bool,
    /// Make two runs of each scenario instead of five, side by side.
    #[arg(long)]
    quick: bool,
    /// Number of runs of each scenario in the lab, and in `sim`.
    #[arg(long)]
    runs: Option<u64>,
    /// Folder of the scenarios.
    #[arg(long, default_value = "scenarios/conformance")]
    scenarios: PathBuf,
}

/// The result of one scenario.
#[derive(Serialize)]
struct Row {
    scenario: String,
    lab_mbps: f64,
    lab_deviation_mbps: f64,
    sim_mbps: f64,
    sim_deviation_mbps: f64,
    ratio: f64,
    late_runs: usize,
    ok: bool,
}

/// Runs all scenarios; fails if one is outside the tolerance.
pub(crate) fn run(options: &Options) -> Result<()> {
    let farhop = build::farhop()?;
    let runs = options.runs.unwrap_or(if options.quick { 2 } else { 5 });
    let mut rows = Vec::new();
    for file in scenarios(&options.scenarios)? {
        rows.push(compare(&farhop, &file, runs, if options.quick { 2 } else { 1 })?);
        if !options.json {
            print_row(rows.last().expect("just pushed"), rows.len() == 1);
        }
    }
    if options.json {
        println!("{}", serde_json::to_string_pretty(&serde_json::json!({ "rows": rows }))?);
    }
    let bad = rows.iter().filter(|row| !row.ok).count();
    ensure!(bad == 0, "{bad} of {} apart by more than 10%", counted(rows.len(), "scenario"));
    Ok(())
}

fn scenarios(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)
        .with_context(|| format!("no scenarios in {}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    ensure!(!files.is_empty(), "no scenarios in {}", folder.display());
    Ok(files)
}

/// Compares the runs of a scenario, of which `at_once` are in the lab side by side at first.
fn compare(farhop: &Path, file: &Path, runs: u64, at_once: usize) -> Result<Row> {
    let mut lab = Vec::new();
    let mut sim = Vec::new();
    let mut late_runs = 0;
    for seeds in (1..=runs).collect::<Vec<_>>().chunks(at_once) {
        for (seed, mut report) in seeds.iter().zip(labs(farhop, file, seeds)?) {
            for rest in RESTS {
                if !is_late(&report) {
                    break;
                }
                thread::sleep(rest);
                report = self::report(farhop, "lab", file, *seed)?;
            }
            if is_late(&report) {
                // A late run says nothing. At least two runs must be on time.
                late_runs += 1;
                continue;
            }
            lab.push(total_mbps(&report)?);
            sim.push(total_mbps(&self::report(farhop, "sim", file, *seed)?)?);
        }
    }
    ensure!(lab.len() >= 2, "{}: only {} lab runs were on time", file.display(), lab.len());
    let ((lab_mbps, lab_deviation_mbps), (sim_mbps, sim_deviation_mbps)) = (mean(&lab), mean(&sim));
    let ratio = sim_mbps / lab_mbps;
    Ok(Row {
        scenario: file.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        lab_mbps,
        lab_deviation_mbps,
        sim_mbps,
        sim_deviation_mbps,
        ratio,
        late_runs,
        ok: (ratio - 1.0).abs() <= TOLERANCE,
    })
}

/// The reports of labs that run side by side.
fn labs(farhop: &Path, file: &Path, seeds: &[u64]) -> Result<Vec<Value>> {
    thread::scope(|scope| {
        let start = |seed: &u64| {
            let seed = *seed;
            scope.spawn(move || report(farhop, "lab", file, seed))
        };
        let labs: Vec<_> = seeds.iter().map(start).collect();
        labs.into_iter().map(|lab| lab.join().expect("it does not panic")).collect()
    })
}

fn report(farhop: &Path, driver: &str, file: &Path, seed: u64) -> Result<Value> {
    let mut command = Command::new(farhop);
    command.arg(driver).arg(file).arg("--json").arg("--seed").arg(seed.to_string());
    let out = command.output().context("farhop does not run")?;
    if !has_report(out.status) {
        bail!("farhop {driver} {}: {}", file.display(), String::from_utf8_lossy(&out.stderr));
    }
    serde_json::from_slice(&out.stdout).context("a report that is not JSON")
}

fn is_late(report: &Value) -> bool {
    report["lateness"]["late"].as_bool().unwrap_or(false)
}

fn total_mbps(report: &Value) -> Result<f64> {
    let flows = report["flows"].as_array().context("a report without flows")?;
    let rates = flows.iter().map(|flow| flow["goodput_mbps"].as_f64().context("no goodput"));
    rates.sum()
}

/// Mean and standard deviation.
fn mean(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (count - 1.0).max(1.0)).sqrt())
}

fn print_row(row: &Row, first: bool) {
    if first {
        println!("sum of all flows, Mb/s, mean (deviation)");
        println!("{:<16} {:>14} {:>14} {:>8}  within 10%", "scenario", "lab", "sim", "sim/lab");
    }
    let pair = |mean: f64, deviation: f64| format!("{mean:.2} ({deviation:.2})");
    println!(
        "{:<16} {:>14} {:>14} {:>8.3}  {}{}",
        row.scenario,
        pair(row.lab_mbps, row.lab_deviation_mbps),
        pair(row.sim_mbps, row.sim_deviation_mbps),
        row.ratio,
        if row.ok { "yes" } else { "NO" },
        if row.late_runs > 0 { format!("  ({} late)", row.late_runs) } else { String::new() },
    );
}
