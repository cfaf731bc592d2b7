//! The runs of a paper in a lab: one after the other, each in a process of its own, and kept in a
//! folder so that an interrupted command can resume.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use farhop_papers::{Case, Effort, Outcome, Paper, Runs, lab};
use farhop_proto::stack::Scenario;
use farhop_run::lab::has_report;
use farhop_sim::engine::Report;

use super::lab::end;
use super::paper_runs::{Store, UntilDone};
use crate::progress::Bar;
use crate::{Failure, interrupt};

/// Attempts at a run that is late.
const ATTEMPTS: usize = 2;
/// How often the process of a run is checked.
const LOOK: Duration = Duration::from_millis(100);
/// File of the finished runs.
const RUNS: &str = "lab-runs.jsonl";

/// Makes the lab runs that the targets need, and adds their results to the rows.
pub(super) fn put_beside(
    paper: &Paper,
    outcomes: &mut [Outcome],
    effort: Effort,
    dir: &Path,
    (threads, kept): (usize, &mut UntilDone),
) -> Result<(), Failure> {
    let mut cases: BTreeMap<String, Case> = BTreeMap::new();
    for outcome in outcomes.iter() {
        let of_target = lab::cases(paper, outcome.target.id, effort.quick);
        cases.extend(of_target.into_iter().map(|case| (case.key.clone(), case)));
    }
    let cases: Vec<Case> = cases.into_values().collect();
    let bar = Bar::start("the same in the simulator");
    let sim = Runs::new(cases.clone(), effort.seeds).run(threads, kept, &|fraction| {
        bar.fill(fraction);
        !interrupt::has_come()
    });
    bar.end();
    let sim = sim.map_err(|_| Failure::Interrupted)?.into_reports();
    let mut runs = LabRuns { dir, store: Store::open(dir, RUNS).map_err(Failure::Failed)? };
    let bar = Bar::start("runs in the lab");
    let reports = runs.run_all(&cases, effort.seeds, &bar);
    bar.end();
    if matches!(reports, Err(Failure::Interrupted)) {
        runs.store.say_what_is_kept();
    }
    let reports = reports?;
    for outcome in outcomes {
        lab::put_beside(paper, outcome, effort, &reports, &sim);
    }
    Ok(())
}

/// The lab runs, finished and still to be made.
struct LabRuns<'a> {
    dir: &'a Path,
    store: Store,
}

impl LabRuns<'_> {
    /// The reports of all runs, by case; those not finished yet are made one after the other.
    fn run_all(
        &mut self,
        cases: &[Case],
        repeats: usize,
        bar: &Bar,
    ) -> Result<BTreeMap<String, Vec<Report>>, Failure> {
        let mut reports: BTreeMap<String, Vec<Report>> = BTreeMap::new();
        let all = (cases.len() * repeats) as f64;
        // All cases once, then all again: if it is interrupted, there is a result for each.
        for repeat in 0..repeats {
            for (index, case) in cases.iter().enumerate() {
                bar.say(&case.key);
                bar.fill((repeat * cases.len() + index) as f64 / all);
                let seed = repeat as u64 + 1;
                match self.run(&case.with_seed(seed), seed)? {
                    Some(report) => reports.entry(case.key.clone()).or_default().push(report),
                    None => bar.line(&format!("{}, seed {seed}: late, and left out", case.key)),
                }
            }
        }
        Ok(reports)
    }

    /// The report of one run, or `None` if every attempt was late.
    fn run(&mut self, scenario: &Scenario, seed: u64) -> Result<Option<Report>, Failure> {
        if let Some(report) = self.store.get(scenario, seed) {
            return Ok(Some(report.clone()));
        }
        let text = toml::to_string(scenario).expect("a scenario can be written");
        for _ in 0..ATTEMPTS {
            let report = run_in_lab(self.dir, &text, seed)?;
            if report.lateness.as_ref().is_some_and(|lateness| lateness.late) {
                continue;
            }
            self.store.add(scenario, seed, &report).map_err(Failure::Failed)?;
            return Ok(Some(report));
        }
        Ok(None)
    }
}

/// The files of a run in progress, removed when it ends.
struct Scratch([PathBuf; 3]);

impl Scratch {
    fn new(dir: &Path) -> Self {
        let name = |ending: &str| dir.join(format!(".run-{}.{ending}", std::process::id()));
        Self(["toml", "json", "err"].map(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        for file in &self.0 {
            // A file that was never created cannot be removed.
            let _ = fs::remove_file(file);
        }
    }
}

/// Runs a scenario in a lab, in a process of its own because a process can be isolated only once.
fn run_in_lab(dir: &Path, text: &str, seed: u64) -> Result<Report, Failure> {
    let scratch = Scratch::new(dir);
    let [scenario, out, err] = &scratch.0;
    fs::write(scenario, text)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("lab").arg(scenario).args(["--json", "--seed", &seed.to_string()]);
    command.stdin(Stdio::null()).stdout(File::create(out)?).stderr(File::create(err)?);
    let mut child = command.spawn()?;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if interrupt::has_come() {
            // The lab takes down what it has built: wait for that.
            end(&child);
            child.wait()?;
            return Err(Failure::Interrupted);
        }
        std::thread::sleep(LOOK);
    };
    if interrupt::has_come() {
        return Err(Failure::Interrupted);
    }
    if !has_report(status) {
        let said = fs::read_to_string(err).unwrap_or_default();
        return Err(Failure::Failed(format!("a run in the lab failed: {}", said.trim())));
    }
    let report = serde_json::from_slice(&fs::read(out)?);
    report.map_err(|error| Failure::Failed(format!("a run in the lab left no report: {error}")))
}
