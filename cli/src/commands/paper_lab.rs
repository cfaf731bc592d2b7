//! The runs of a paper that take place in a lab: one after the other, each in a process of its own,
//! kept in a folder so that they can be taken up again.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use farhop_papers::{Case, Effort, Outcome, Paper, Runs, lab};
use farhop_proto::stack::Scenario;
use farhop_sim::engine::Report;
use serde::{Deserialize, Serialize};

use super::lab::end;
use crate::progress::Bar;
use crate::sweep::program_sum;
use crate::{Failure, interrupt};

/// Attempts at a run that reports itself as late.
const ATTEMPTS: usize = 2;
/// How often a run is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// File of the runs that are done.
const RUNS: &str = "lab-runs.jsonl";

/// A run that is done.
#[derive(Serialize, Deserialize)]
struct Line {
    /// The case, as a scenario file.
    scenario: String,
    seed: u64,
    /// SHA-256 of the program: what another one did says nothing of this one.
    #[serde(default)]
    program: String,
    report: Report,
}

/// Where the runs are kept: with what is written, or else where programs keep such things.
pub(super) fn folder(out: Option<&Path>, paper: &Paper) -> PathBuf {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = || std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
    match out {
        Some(out) => out.to_owned(),
        None => cache().unwrap_or_else(std::env::temp_dir).join("farhop").join(paper.name),
    }
}

/// Makes all runs that some targets need of a lab, and puts what came of them beside their rows.
pub(super) fn put_beside(
    paper: &Paper,
    outcomes: &mut [Outcome],
    effort: Effort,
    dir: &Path,
    threads: usize,
) -> Result<(), Failure> {
    let mut cases: BTreeMap<String, Case> = BTreeMap::new();
    for outcome in outcomes.iter() {
        let of_target = lab::cases(paper, outcome.target.id, effort.quick);
        cases.extend(of_target.into_iter().map(|case| (case.key.clone(), case)));
    }
    let cases: Vec<Case> = cases.into_values().collect();
    let sim = Runs::new(cases.clone(), effort.seeds).run(threads, &|_| !interrupt::has_come());
    let sim = sim.map_err(|_| Failure::Interrupted)?.into_reports();
    let mut store = Store::open(dir, program_sum()?)?;
    let bar = Bar::start("runs in the lab");
    let reports = store.run_all(&cases, effort.seeds, &bar);
    bar.end();
    let reports = reports?;
    for outcome in outcomes {
        lab::put_beside(paper, outcome, effort, &reports, &sim);
    }
    Ok(())
}

/// The runs that are done, and the file that they are in.
struct Store {
    dir: PathBuf,
    file: File,
    program: String,
    done: Vec<Line>,
}

impl Store {
    /// Opens a folder, or makes it. Lines that are no runs of this program count for nothing.
    fn open(dir: &Path, program: String) -> Result<Self, Failure> {
        let fail = |error: std::io::Error| {
            Failure::Failed(format!("cannot keep runs in {}: {error}", dir.display()))
        };
        fs::create_dir_all(dir).map_err(fail)?;
        let path = dir.join(RUNS);
        let file = OpenOptions::new().create(true).append(true).read(true).open(path);
        let mut file = file.map_err(fail)?;
        let mut done = Vec::new();
        let mut is_whole = true;
        for line in BufReader::new(&file).split(b'\n') {
            let line = line.map_err(fail)?;
            let run = serde_json::from_slice::<Line>(&line).ok();
            is_whole = run.is_some();
            done.extend(run.filter(|run| run.program == program));
        }
        if !is_whole {
            // Somebody ended in the middle of a line: the next one begins anew.
            file.write_all(b"\n").map_err(fail)?;
        }
        Ok(Self { dir: dir.to_owned(), file, program, done })
    }

    /// The reports of all runs, by case: those that are known, and the others one after the other.
    fn run_all(
        &mut self,
        cases: &[Case],
        repeats: usize,
        bar: &Bar,
    ) -> Result<BTreeMap<String, Vec<Report>>, Failure> {
        let mut reports: BTreeMap<String, Vec<Report>> = BTreeMap::new();
        let all = (cases.len() * repeats) as f64;
        // Every case once, then every case again: who ends it early has something of each.
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

    /// The report of one run; nothing if it was late each time.
    fn run(&mut self, scenario: &Scenario, seed: u64) -> Result<Option<Report>, Failure> {
        let text = toml::to_string(scenario).expect("a scenario can be written");
        let is_it = |line: &&Line| line.seed == seed && line.scenario == text;
        if let Some(line) = self.done.iter().find(is_it) {
            return Ok(Some(line.report.clone()));
        }
        for _ in 0..ATTEMPTS {
            let report = run_in_lab(&self.dir, &text, seed)?;
            if report.lateness.as_ref().is_some_and(|lateness| lateness.late) {
                continue;
            }
            let program = self.program.clone();
            let line = Line { scenario: text, seed, program, report: report.clone() };
            let mut bytes = serde_json::to_vec(&line).expect("a report is plain data");
            bytes.push(b'\n');
            self.file.write_all(&bytes)?;
            self.done.push(line);
            return Ok(Some(report));
        }
        Ok(None)
    }
}

/// Files of a run that takes place, which go when it is over.
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
            // What was never made cannot be removed.
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
            // It takes down what it has built, and that is waited for.
            end(&child);
            child.wait()?;
            return Err(Failure::Interrupted);
        }
        std::thread::sleep(LOOK);
    };
    if interrupt::has_come() {
        return Err(Failure::Interrupted);
    }
    if !status.success() {
        let said = fs::read_to_string(err).unwrap_or_default();
        return Err(Failure::Failed(format!("a run in the lab failed: {}", said.trim())));
    }
    let report = serde_json::from_slice(&fs::read(out)?);
    report.map_err(|error| Failure::Failed(format!("a run in the lab left no report: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(seed: u64, program: &str) -> String {
        let report = Report { seed, ..Report::default() };
        let line = Line { scenario: "name = \"x\"".into(), seed, program: program.into(), report };
        serde_json::to_string(&line).expect("plain data")
    }

    #[test]
    fn runs_that_are_done_are_known_again_and_half_a_line_is_not() {
        let dir = tempfile_dir("runs");
        let now = "now";
        let text = [line(1, now), line(2, "before"), line(3, now)[..40].to_owned()].join("\n");
        fs::write(dir.join(RUNS), text).expect("a file");
        let mut store = Store::open(&dir, now.into()).ok().expect("a folder");
        let seeds: Vec<u64> = store.done.iter().map(|line| line.seed).collect();
        store.file.write_all(format!("{}\n", line(4, now)).as_bytes()).expect("room");
        let again = Store::open(&dir, now.into()).ok().expect("a folder");
        let seeds_again: Vec<u64> = again.done.iter().map(|line| line.seed).collect();
        fs::remove_dir_all(&dir).expect("it was there");
        assert_eq!((seeds, seeds_again), (vec![1], vec![1, 4]));
    }

    #[test]
    fn runs_are_kept_with_what_is_written() {
        let paper = &farhop_papers::PAPERS[0];
        assert_eq!(folder(Some(Path::new("out")), paper), Path::new("out"));
        assert!(folder(None, paper).ends_with("farhop/wildnet"));
    }

    fn tempfile_dir(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("farhop-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a folder");
        dir
    }
}
