//! `cargo xtask bench`: checks the speed and the cost that farhop promises, on whole scenarios.
//!
//! `sim`: simulated seconds per second of wall time, on 60 s of the demo's busiest scenario. `lab`:
//! processor time and memory of the air and the daemons while the demo's link is saturated.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use farhop_run::lab::has_report;
use serde::Serialize;
use serde_json::Value;

use crate::build;

/// Options of the command.
#[derive(Args)]
pub(crate) struct Options {
    /// Print the rows as JSON.
    #[arg(long)]
    json: bool,
    /// Measure only the simulator.
    #[arg(long)]
    sim_only: bool,
    /// Runs of the simulator, of which the median counts.
    #[arg(long, default_value_t = 5)]
    runs: usize,
}

#[derive(Serialize)]
struct Row {
    name: &'static str,
    unit: &'static str,
    promised: f64,
    measured: f64,
    ok: bool,
}

/// Measures everything; fails if a promise is not kept.
pub(crate) fn run(options: &Options) -> Result<()> {
    let farhop = build::farhop()?;
    let scenario = Path::new("scenarios/bench/busiest.toml");
    let mut rows = vec![simulator(&farhop, scenario, options.runs)?];
    if !options.sim_only {
        rows.extend(lab(&farhop, scenario)?);
    }
    if options.json {
        println!("{}", serde_json::to_string_pretty(&serde_json::json!({ "rows": rows }))?);
    } else {
        for row in &rows {
            let verdict = if row.ok { "kept" } else { "NOT KEPT" };
            let Row { name, unit, promised, measured, .. } = row;
            println!("{name:<44} {measured:>8.2} {unit}, promised {promised} {unit}: {verdict}");
        }
    }
    ensure!(rows.iter().all(|row| row.ok), "a promise is not kept on this machine");
    Ok(())
}

fn simulator(farhop: &Path, scenario: &Path, runs: usize) -> Result<Row> {
    let mut speeds = Vec::new();
    for _ in 0..runs.max(1) {
        let report = report(farhop, "sim", scenario)?;
        let number = |key: &str| report[key].as_f64().with_context(|| format!("no {key}"));
        speeds.push(number("simulated_s")? / number("wall_s")?);
    }
    speeds.sort_by(f64::total_cmp);
    let measured = speeds[speeds.len() / 2];
    let name = "sim: simulated time over wall time, busiest";
    Ok(Row { name, unit: "times", promised: 200.0, measured, ok: measured >= 200.0 })
}

fn lab(farhop: &Path, scenario: &Path) -> Result<Vec<Row>> {
    let report = report(farhop, "lab", scenario)?;
    ensure!(report["lateness"]["late"] == false, "the lab was late: nothing is measured");
    let seconds = report["simulated_s"].as_f64().context("no length of the run")?;
    let processes = report["lateness"]["processes"].as_array().context("no processes")?;
    let sum: f64 = processes.iter().filter_map(|process| process["cpu_s"].as_f64()).sum();
    let daemons = processes.iter().filter(|process| process["name"] != "air");
    let memory = daemons.filter_map(|process| process["memory_kb"].as_f64()).fold(0.0, f64::max);
    let cores = sum / seconds;
    // In KiB, as the kernel counts.
    let megabytes = memory * 1.024e-3;
    ensure!(cores > 0.0 && megabytes > 0.0, "the lab does not say what its processes used");
    Ok(vec![
        Row {
            name: "lab: two daemons and the air together",
            unit: "cores",
            promised: 1.0,
            measured: cores,
            ok: cores < 1.0,
        },
        Row {
            name: "lab: the largest daemon",
            unit: "MB",
            promised: 30.0,
            measured: megabytes,
            ok: megabytes < 30.0,
        },
    ])
}

fn report(farhop: &Path, driver: &str, scenario: &Path) -> Result<Value> {
    let out = Command::new(farhop).arg(driver).arg(scenario).arg("--json").output()?;
    let said = String::from_utf8_lossy(&out.stderr);
    ensure!(has_report(out.status), "farhop {driver} {}: {said}", scenario.display());
    serde_json::from_slice(&out.stdout).context("a report that is not JSON")
}
