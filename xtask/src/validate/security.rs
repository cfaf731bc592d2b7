//! The cost of sealing, and attacks by strangers in the air: on the link of `scenarios/demo.toml`
//! and that of `scenarios/adversary.toml`, in the simulator and in the lab.
//!
//! The speed of sealing and opening compared with the library itself is in `cargo bench`; how soon
//! two nodes that know each other agree on keys is in the simulator's tests.

use std::path::Path;

use anyhow::{Context as _, Result};
use farhop_proto::base::counted;
use farhop_sim::engine::{AdversaryReport, Report};
use serde::Deserialize as _;
use toml::{Table, Value};

use super::program::{self, ANY, Program, first, set, table};
use super::{Row, Tolerance, workers};

const GROUP: &str = "security";
/// Slot lengths over which the cost is averaged, in milliseconds: the loss of a frame in a slot is
/// a step, which single lengths would over- or understate.
const SLOTS_MS: std::ops::RangeInclusive<i64> = 15..=25;
/// Share of the time in which the stranger sends, and length of the full run in seconds.
const ATTACKS: [(f64, f64); 3] = [(0.1, 9_000.0), (0.3, 9_000.0), (0.6, 6_000.0)];
/// Runs into which each attack is divided, each with its own seed, to see how much they differ.
const SEEDS: u64 = 5;
/// Hostile frames in all attacks in the simulator, and in the one in the lab.
const FRAMES: f64 = 10e6;
const LAB_FRAMES: f64 = 20e3;
/// Length of the attack in the lab in seconds, at a duty of 0.3.
const LAB_ATTACK_S: f64 = 70.0;
/// Least goodput under attack, relative to goodput beside noise.
const HONEST: f64 = 0.95;
/// Most memory of a process of the lab, in MB.
const MEMORY_MB: f64 = 30.0;
/// How many times shorter the quick form is; where little goodput is left, less would say nothing.
const QUICK: f64 = 5.0;

/// The rows of this group, which need the rights of a lab; the full form takes most of an hour.
pub(crate) fn rows(quick: bool, root: &Path) -> Result<Vec<Row>> {
    let program = Program::build()?;
    let mut rows = attacks(&program, root, if quick { QUICK } else { 1.0 })?;
    rows.extend(lab_attack(
        &program,
        root,
        // TCP differs by a tenth between shorter runs.
        if quick { LAB_ATTACK_S / 2.0 } else { LAB_ATTACK_S },
    )?);
    rows.push(cost(&program, root, "lab", if quick { 2.0 } else { 20.0 })?);
    rows.push(cost(&program, root, "sim", if quick { 5.0 } else { 20.0 })?);
    Ok(rows)
}

/// Attacks by strangers in the simulator.
fn attacks(program: &Program, root: &Path, shorter: f64) -> Result<Vec<Row>> {
    let runs = ATTACKS.iter().flat_map(|attack| (1..=SEEDS).map(move |seed| (*attack, seed)));
    let results = workers::map("attacks", &runs.collect::<Vec<_>>(), |((duty, seconds), seed)| {
        let seconds = seconds / shorter / SEEDS as f64;
        let run = program.run(&attack(root, *duty, seconds)?, *seed)?;
        Report::deserialize(run.report).context("a report that is not understood")
    });
    let reports = results.into_iter().collect::<Result<Vec<Report>>>()?;
    let mut rows = Vec::new();
    let mut sent = 0;
    for (reports, (duty, _)) in reports.chunks(SEEDS as usize).zip(ATTACKS) {
        rows.extend(judged(&format!("sim, {:.0}% of the time", duty * 100.0), reports)?);
        sent += frames(reports)?;
    }
    let figures = (sent as f64, FRAMES / shorter);
    rows.push(Row::new(GROUP, "sim: hostile frames", "frames", figures, Tolerance::AtLeast));
    Ok(rows)
}

/// An attack by a stranger on daemons in the lab.
fn lab_attack(program: &Program, root: &Path, seconds: f64) -> Result<Vec<Row>> {
    let scenario = attack(root, 0.3, seconds / SEEDS as f64)?;
    let lab = |seed| Ok(program.lab(&scenario, seed, ANY)?.0);
    let reports = (1..=SEEDS).map(lab).collect::<Result<Vec<Report>>>()?;
    let mut rows = judged("lab, 30% of the time", &reports)?;
    let sent = (frames(&reports)? as f64, LAB_FRAMES * seconds / LAB_ATTACK_S);
    rows.push(Row::new(GROUP, "lab: hostile frames", "frames", sent, Tolerance::AtLeast));
    let lateness = reports.iter().filter_map(|report| report.lateness.as_ref());
    let processes = lateness.flat_map(|lateness| &lateness.processes);
    let memory_kb = processes.filter_map(|process| process.memory_kb).max();
    let memory = (memory_kb.context("no memory")? as f64 * 1.024e-3, MEMORY_MB);
    rows.push(Row::new(GROUP, "lab: largest process", "MB", memory, Tolerance::AtMost));
    Ok(rows)
}

/// The result of an attack, from runs that differ by their seeds.
fn judged(what: &str, reports: &[Report]) -> Result<Vec<Row>> {
    let adversaries = reports.iter().map(adversary).collect::<Result<Vec<_>>>()?;
    let taken = (adversaries.iter().map(|one| one.accepted).sum::<u64>() as f64, 0.0);
    let ratios: Vec<f64> = adversaries.iter().filter_map(|one| one.honest_goodput_ratio).collect();
    let honest = mean(&ratios);
    let squares: Vec<f64> = ratios.iter().map(|ratio| (ratio - honest).powi(2)).collect();
    let deviation = (squares.iter().sum::<f64>() / (squares.len() as f64 - 1.0)).sqrt();
    let left: Vec<f64> = reports.iter().map(Report::total_mbps).collect();
    let note = format!(
        "the mean of {}, with a deviation of {deviation:.3}; {:.2} Mb/s are left under attack",
        counted(ratios.len(), "run"),
        mean(&left)
    );
    let name = format!("{what}: hostile frames that were taken");
    let taken = Row::new(GROUP, name, "frames", taken, Tolerance::AtMost);
    let name = format!("{what}: goodput over that beside noise");
    let honest = Row::new(GROUP, name, "times", (honest, HONEST), Tolerance::AtLeast);
    Ok(vec![taken, honest.with_note(note)])
}

/// The mean; NaN if there are no values.
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The number of hostile frames in all runs.
fn frames(reports: &[Report]) -> Result<u64> {
    reports.iter().map(|report| Ok(adversary(report)?.sent)).sum()
}

fn adversary(report: &Report) -> Result<&AdversaryReport> {
    report.adversary.as_ref().context("a report without an adversary")
}

fn attack(root: &Path, duty: f64, seconds: f64) -> Result<Table> {
    let mut scenario = program::scenario(root, "adversary.toml")?;
    set(&mut scenario, "duration_s", seconds)?;
    set(first(&mut scenario, "adversary")?, "duty", duty)?;
    Ok(scenario)
}

/// The goodput that sealing costs, averaged over slot lengths.
fn cost(program: &Program, root: &Path, driver: &str, seconds: f64) -> Result<Row> {
    let modes = ["off", "encrypt"];
    let bar = workers::bar(driver, SLOTS_MS.count() * modes.len());
    let mut sums = [0.0; 2];
    for slot_ms in SLOTS_MS {
        // Alternating, so that disturbances of the machine affect both.
        for (sum, mode) in sums.iter_mut().zip(modes) {
            let mut scenario = program::scenario(root, "demo.toml")?;
            set(&mut scenario, "duration_s", seconds)?;
            let link = table(&mut scenario, "stack")?.get_mut("link").and_then(Value::as_table_mut);
            set(link.context("no [stack.link]")?, "slot_ms", slot_ms)?;
            let security = Table::from_iter([("mode".to_owned(), Value::from(mode))]);
            scenario.insert("security".into(), security.into());
            *sum += match driver {
                "lab" => program.lab(&scenario, 1, ANY)?.0.total_mbps(),
                _ => program.goodput(&scenario, 1)?,
            };
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let lengths = SLOTS_MS.count() as f64;
    let [clear, sealed] = sums.map(|sum| sum / lengths);
    let most = if driver == "lab" { 6.0 } else { 2.5 };
    let name = format!("{driver}: goodput that sealing costs, slots of 15 to 25 ms");
    let figures = ((1.0 - sealed / clear) * 100.0, most);
    let note = format!("{clear:.2} Mb/s in the clear, {sealed:.2} sealed");
    Ok(Row::new(GROUP, name, "%", figures, Tolerance::AtMost).with_note(note))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attack_is_judged_by_the_mean_of_its_runs_and_says_how_far_they_differ() {
        let run = |accepted, honest_goodput_ratio| Report {
            adversary: Some(AdversaryReport {
                accepted,
                honest_goodput_ratio,
                ..AdversaryReport::default()
            }),
            ..Report::default()
        };
        let rows = judged("sim", &[run(0, Some(0.9)), run(2, Some(1.1)), run(1, None)])
            .expect("all have a stranger");
        assert_eq!((rows[0].ours, (rows[1].ours * 100.0).round()), (3.0, 100.0));
        let right = "the mean of 2 runs, with a deviation of 0.141; ";
        assert!(rows[1].note.starts_with(right), "{}", rows[1].note);
    }
}
