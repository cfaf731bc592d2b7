//! `determinism`: the same file and seed give the same trace hash, in debug and release builds, and
//! with one and two workers.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use toml::Table;

use super::program::{self, Program};
use super::{Row, Tolerance, chain, workers};

const GROUP: &str = "determinism";
/// Seeds of the sweeps.
const SEEDS: i64 = 4;

/// The rows of this group.
pub(crate) fn rows(root: &Path) -> Result<Vec<Row>> {
    let release = Program::build()?;
    let debug = Program::at(crate::build::farhop_debug()?)?;
    let shipped = |file: &str, seconds: f64| -> Result<Table> {
        let mut scenario = program::scenario(root, file)?;
        program::set(&mut scenario, "duration_s", seconds)?;
        Ok(scenario)
    };
    let scenarios = [
        ("chain, UDP", chain::udp(root, 6, false, 5.0)?),
        ("chain, TCP", chain::tcp(root, 3, 5.0)?),
        ("grid", shipped("validate/grid.toml", 1.5)?),
        ("slots over 80 km", shipped("demo.toml", 10.0)?),
        ("802.11n, EDCA, A-MPDU, calls", shipped("categories.toml", 3.0)?),
        ("shadowing and walkers", shipped("mesh-random.toml", 5.0)?),
        ("wire and gateway", shipped("gateway.toml", 5.0)?),
        ("a node that goes down, OLSR", program::scenario(root, "olsr.toml")?),
    ];
    let bar = workers::bar(GROUP, scenarios.len());
    let mut rows = Vec::new();
    for (name, scenario) in scenarios {
        let hashes = [&release, &release, &debug].map(|program| {
            let report = program.run(&scenario, 1)?.report;
            hash(&report)
        });
        let distinct: BTreeSet<String> = hashes.into_iter().collect::<Result<_>>()?;
        rows.push(row(format!("{name}: twice in release, once in debug"), distinct.len(), 1));
        let [one, two] = [1, 2].map(|jobs| sweep(&release, &scenario, jobs));
        let both: BTreeSet<_> = [one?, two?].into_iter().collect();
        rows.push(row(format!("{name}: sweep with 1 and 2 workers"), both.len(), 1));
        let seeds: BTreeSet<_> = both.iter().flatten().collect();
        let name = format!("{name}: each of {SEEDS} seeds");
        rows.push(row(name, seeds.len(), SEEDS as usize));
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(rows)
}

fn row(name: String, ours: usize, reference: usize) -> Row {
    let pair = (ours as f64, reference as f64);
    Row::new(GROUP, name, "different hashes", pair, Tolerance::Absolute(0.0))
}

/// The hashes of all runs, by seed.
fn sweep(program: &Program, scenario: &Table, jobs: usize) -> Result<Vec<String>> {
    let mut scenario = scenario.clone();
    let seeds = Table::from_iter([("seeds".to_owned(), toml::Value::from(SEEDS))]);
    scenario.insert("sweep".into(), seeds.into());
    let (said, _) = program.json("sim", &scenario, &[format!("--jobs={jobs}")])?;
    let runs = said.lines().map(|line| {
        let report: Value = serde_json::from_str(line).context("a run that is not JSON")?;
        let seed = report["seed"].as_u64().context("a run without a seed")?;
        Ok((seed, hash(&report)?))
    });
    let mut runs = runs.collect::<Result<Vec<_>>>()?;
    ensure!(runs.len() == SEEDS as usize, "{} runs in place of {SEEDS}", runs.len());
    runs.sort();
    Ok(runs.into_iter().map(|(_, hash)| hash).collect())
}

fn hash(report: &Value) -> Result<String> {
    Ok(report["trace_hash"].as_str().context("a report without a trace hash")?.to_owned())
}
