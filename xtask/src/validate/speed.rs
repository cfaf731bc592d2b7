//! `speed`: simulated seconds per second of wall time, compared with ns-3 in alternating runs.
//!
//! A release build of ns-3 without logging is up to 1.36 times as fast as Debian's: the note of
//! each row also has the ratio to that. A second row of each race says whether both simulated the
//! same traffic.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;
use toml::Table;

use super::points::Drivers;
use super::program::Program;
use super::{Row, Tolerance, chain, grid, workers};

const GROUP: &str = "speed";
const PAIRS: u64 = 3;
/// Runs of ours in each comparison.
const OURS: usize = 7;
/// Simulated seconds of our runs of the chain: about as long in wall time as those of ns-3, so that
/// the start of the process has as little weight.
const CHAIN_S: f64 = 400.0;
/// How far the frames on air in a simulated second may be from those of ns-3.
const TRAFFIC: f64 = 0.10;
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
            scenario: grid::scenario(root, false)?,
            driver: "grid",
            arguments: ["--flows=6", "--from=1", "--to=3"],
            promised: 150.0,
        },
        Race {
            name: "grid of 13 x 13, 12 flows",
            scenario: grid::scenario(root, true)?,
            driver: "grid",
            arguments: ["--flows=12", "--from=1", "--to=3"],
            promised: 150.0,
        },
    ];
    let bar = workers::bar(GROUP, races.len() * PAIRS as usize);
    let rows = races.iter().map(|race| {
        let pairs = (1..=PAIRS).map(|seed| {
            let ns3 = drivers.run(race.driver, &race.arguments.map(String::from))?;
            let ours = ours(&program, &race.scenario, seed)?;
            bar.inc(1);
            Ok(Pair { ours, ns3: Pace::of(&ns3)? })
        });
        let pairs = pairs.collect::<Result<Vec<_>>>()?;
        Ok([race.row(&pairs), race.traffic(&pairs)])
    });
    let rows: Result<Vec<[Row; 2]>> = rows.collect();
    bar.finish_and_clear();
    Ok(rows?.into_iter().flatten().collect())
}

/// How a run went.
#[derive(Clone, Copy)]
struct Pace {
    /// Simulated seconds per second of wall time.
    speed: f64,
    /// Frames on air per simulated second.
    frames: f64,
}

impl Pace {
    fn of(report: &Value) -> Result<Self> {
        let number = |key| report[key].as_f64().with_context(|| format!("a report without {key}"));
        let simulated_s = number("simulated_s")?;
        let speed = simulated_s / number("wall_s")?;
        Ok(Self { speed, frames: number("frames_on_air")? / simulated_s })
    }
}

struct Pair {
    ours: Pace,
    ns3: Pace,
}

/// The median speed of several runs: some take less than a tenth of a second, in which the machine
/// may have been busy with something else.
fn ours(program: &Program, scenario: &Table, seed: u64) -> Result<Pace> {
    let runs = (0..OURS).map(|_| Pace::of(&program.run(scenario, seed)?.report));
    let runs = runs.collect::<Result<Vec<_>>>()?;
    let speeds: Vec<f64> = runs.iter().map(|run| run.speed).collect();
    Ok(Pace { speed: workers::median(&speeds), ..runs[0] })
}

impl Race {
    fn row(&self, pairs: &[Pair]) -> Row {
        let ratio = middle(pairs, |pair| pair.ours.speed / pair.ns3.speed);
        let note = format!(
            "{:.0} times a release build; {:.1} against {:.2} simulated seconds per second, \
             {:.0} frames on air per second",
            ratio / RELEASE_BUILD,
            middle(pairs, |pair| pair.ours.speed),
            middle(pairs, |pair| pair.ns3.speed),
            middle(pairs, |pair| pair.ours.speed * pair.ours.frames),
        );
        Row::new(GROUP, self.name, "times ns-3", (ratio, self.promised), Tolerance::AtLeast)
            .with_note(note)
    }

    fn traffic(&self, pairs: &[Pair]) -> Row {
        let of = [middle(pairs, |pair| pair.ours.frames), middle(pairs, |pair| pair.ns3.frames)];
        let name = format!("{}: frames on air", self.name);
        Row::new(GROUP, name, "frames/s", of.into(), Tolerance::Relative(TRAFFIC))
    }
}

fn middle(pairs: &[Pair], figure: fn(&Pair) -> f64) -> f64 {
    workers::median(&pairs.iter().map(figure).collect::<Vec<_>>())
}
