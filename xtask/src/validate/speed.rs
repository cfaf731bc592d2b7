//! `speed`: simulated seconds per second of wall time, compared with ns-3 in alternating runs.
//!
//! A release build of ns-3 without logging is up to 1.36 times as fast as Debian's: the note of
//! each row also has the ratio to that.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;
use toml::Table;

use super::points::Drivers;
use super::program::{self, Program, set};
use super::{Row, Tolerance, chain, workers};

const GROUP: &str = "speed";
const PAIRS: u64 = 3;
/// Runs of ours in each comparison.
const OURS: usize = 7;
/// Simulated seconds of our runs of the chain: about as long in wall time as those of ns-3, so that
/// the start of the process has as little weight.
const CHAIN_S: f64 = 400.0;
/// How much faster a release build of ns-3 may be.
const RELEASE_BUILD: f64 = 1.36;

struct Race {
    name: &'static str,
    scenario: Table,
    driver: &'static str,
    arguments: [&'static str; 3],
    /// How many times as fast as ns-3 farhop has to be.
    promised: f64,
}

/// The rows of this group.
pub(crate) fn rows(root: &Path) -> Result<Vec<Row>> {
    let drivers = Drivers::build(root)?;
    let program = Program::build()?;
    let races = [
        Race {
            name: "chain of 8 hops",
            scenario: chain::udp(root, 8, false, CHAIN_S)?,
            driver: "chain",
            arguments: ["--hops=8", "--from=5", "--to=20"],
            promised: 50.0,
        },
        Race {
            name: "chain of 16 hops",
            scenario: chain::udp(root, 16, false, CHAIN_S)?,
            driver: "chain",
            arguments: ["--hops=16", "--from=5", "--to=20"],
            promised: 50.0,
        },
        Race {
            name: "grid of 13 x 13, 6 flows",
            scenario: grid(root, false)?,
            driver: "grid",
            arguments: ["--flows=6", "--from=1", "--to=3"],
            promised: 150.0,
        },
        Race {
            name: "grid of 13 x 13, 12 flows",
            scenario: grid(root, true)?,
            driver: "grid",
            arguments: ["--flows=12", "--from=1", "--to=3"],
            promised: 150.0,
        },
    ];
    let bar = workers::bar(GROUP, races.len() * PAIRS as usize);
    let rows = races.iter().map(|race| {
        let pairs = (1..=PAIRS).map(|seed| {
            let ns3 = drivers.run(race.driver, &race.arguments.map(String::from))?;
            let (speed_of_ours, frames) = ours(&program, &race.scenario, seed)?;
            bar.inc(1);
            Ok((speed_of_ours, speed(&ns3)?, frames))
        });
        Ok(race.row(&pairs.collect::<Result<Vec<_>>>()?))
    });
    let rows = rows.collect();
    bar.finish_and_clear();
    rows
}

/// Simulated seconds and frames per second of wall time, the median of several runs: some take less
/// than a tenth of a second, in which the machine may have been busy with something else.
fn ours(program: &Program, scenario: &Table, seed: u64) -> Result<(f64, f64)> {
    let runs = (0..OURS).map(|_| {
        let report = program.run(scenario, seed)?.report;
        Ok((speed(&report)?, frames_per_second(&report)?))
    });
    let (speeds, frames): (Vec<f64>, Vec<f64>) =
        runs.collect::<Result<Vec<_>>>()?.into_iter().unzip();
    Ok((workers::median(&speeds), workers::median(&frames)))
}

impl Race {
    fn row(&self, pairs: &[(f64, f64, f64)]) -> Row {
        let middle = |figure: fn(&(f64, f64, f64)) -> f64| {
            workers::median(&pairs.iter().map(figure).collect::<Vec<_>>())
        };
        let ratio = middle(|(ours, ns3, _)| ours / ns3);
        let note = format!(
            "{:.0} times a release build; {:.1} against {:.2} simulated seconds per second, \
             {:.0} frames on air per second",
            ratio / RELEASE_BUILD,
            middle(|pair| pair.0),
            middle(|pair| pair.1),
            middle(|pair| pair.2),
        );
        Row::new(GROUP, self.name, "times ns-3", (ratio, self.promised), Tolerance::AtLeast)
            .with_note(note)
    }
}

fn grid(root: &Path, is_dense: bool) -> Result<Table> {
    let mut scenario = program::scenario(root, "validate/grid.toml")?;
    if is_dense {
        let flow = program::first(&mut scenario, "flow")?.clone();
        let lines = [2, 4, 6, 8, 10, 12];
        let rows = lines.map(|line| (format!("n{line}-1"), format!("n{line}-13")));
        let columns = lines.map(|line| (format!("n1-{line}"), format!("n13-{line}")));
        let flows = rows.into_iter().chain(columns).enumerate().map(|(index, (from, to))| {
            let mut flow = flow.clone();
            set(&mut flow, "name", format!("{from} {to}"))?;
            set(&mut flow, "start_s", 0.1 + 1e-4 * index as f64)?;
            set(&mut flow, "from", from)?;
            set(&mut flow, "to", to)?;
            Ok(toml::Value::from(flow))
        });
        let flows = flows.collect::<Result<Vec<_>>>()?;
        set(&mut scenario, "flow", flows)?;
    }
    Ok(scenario)
}

fn number(report: &Value, key: &str) -> Result<f64> {
    report[key].as_f64().with_context(|| format!("a report without {key}"))
}

fn speed(report: &Value) -> Result<f64> {
    Ok(number(report, "simulated_s")? / number(report, "wall_s")?)
}

fn frames_per_second(report: &Value) -> Result<f64> {
    Ok(number(report, "frames_on_air")? / number(report, "wall_s")?)
}
