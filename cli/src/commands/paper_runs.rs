//! Finished runs of a paper, kept in a file so that an interrupted command can resume.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use farhop_papers::{Kept, Paper};
use farhop_proto::base::counted;
use farhop_proto::stack::Scenario;
use farhop_sim::engine::Report;
use serde::{Deserialize, Serialize};

use crate::locked;
use crate::progress::tell;
use crate::sweep::program_sum;

/// A finished run, as a line of the file.
#[derive(Serialize, Deserialize)]
struct Line {
    /// The case, as a scenario file.
    scenario: String,
    seed: u64,
    /// SHA-256 of the program: runs of another build say nothing about this one.
    #[serde(default)]
    program: String,
    report: Report,
}

/// Identifies a run: its scenario as TOML, and its seed.
type Run = (String, u64);

fn run_of(scenario: &Scenario, seed: u64) -> Run {
    (toml::to_string(scenario).expect("a scenario can be written"), seed)
}

/// Where runs are kept: in the output folder if there is one, else in the user's cache folder.
pub(super) fn folder(out: Option<&Path>, paper: &Paper) -> PathBuf {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = || std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
    match out {
        Some(out) => out.to_owned(),
        None => cache().unwrap_or_else(std::env::temp_dir).join("farhop").join(paper.name),
    }
}

/// The finished runs and their file.
pub(super) struct Store {
    path: PathBuf,
    file: File,
    program: String,
    done: BTreeMap<Run, Report>,
    /// The folders that were created for it, the innermost first.
    made: Vec<PathBuf>,
}

impl Store {
    /// Opens or creates a file in a folder. Lines that are no runs of this program are ignored.
    pub(super) fn open(dir: &Path, name: &str) -> Result<Self, String> {
        let program = program_sum().map_err(|_| "cannot read this program itself")?;
        Self::open_for(dir, name, program)
    }

    fn open_for(dir: &Path, name: &str, program: String) -> Result<Self, String> {
        let fail = |error: io::Error| format!("cannot keep runs in {}: {error}", dir.display());
        // A folder of ours in the user's cache may have been created by an interrupted command.
        let is_ours = |dir: &Path| dir.parent().is_some_and(|above| above.ends_with("farhop"));
        let is_made = |dir: &&Path| is_ours(dir) || (!dir.exists() && dir.parent().is_some());
        let made = dir.ancestors().take_while(is_made).map(Path::to_owned).collect();
        let path = dir.join(name);
        let file = locked::shared(&path).map_err(fail)?;
        let mut store = Self { path, file, program, done: BTreeMap::new(), made };
        if !store.read().map_err(fail)? {
            // A command was killed while writing a line: start a new one.
            store.file.write_all(b"\n").map_err(fail)?;
        }
        Ok(store)
    }

    /// Reads the runs of this program that are in the file. Returns whether its last line is whole.
    fn read(&mut self) -> io::Result<bool> {
        let mut is_whole = true;
        self.file.seek(SeekFrom::Start(0))?;
        for line in BufReader::new(&self.file).split(b'\n') {
            let run = serde_json::from_slice::<Line>(&line?).ok();
            is_whole = run.is_some();
            if let Some(run) = run.filter(|run| run.program == self.program) {
                self.done.insert((run.scenario, run.seed), run.report);
            }
        }
        Ok(is_whole)
    }

    /// Removes the file, and the folders that were created for it if they are empty, unless another
    /// farhop works with it, or it has other runs than those that were `wanted`.
    fn remove(mut self, wanted: &BTreeSet<Run>) {
        let is_alone = self.file.try_lock().is_ok();
        // Another farhop may have added some since it was opened.
        let is_read = self.read().is_ok();
        if is_alone && is_read && self.done.keys().all(|run| wanted.contains(run)) {
            // Leftovers do no harm.
            let _ = fs::remove_file(&self.path);
            let _ = self.made.iter().try_for_each(fs::remove_dir);
        }
    }

    /// The report of a run, if it is finished.
    pub(super) fn get(&self, scenario: &Scenario, seed: u64) -> Option<&Report> {
        self.done.get(&run_of(scenario, seed))
    }

    /// Adds a finished run.
    pub(super) fn add(
        &mut self,
        scenario: &Scenario,
        seed: u64,
        report: &Report,
    ) -> Result<(), String> {
        let (run, program) = (run_of(scenario, seed), self.program.clone());
        let line = Line { scenario: run.0.clone(), seed, program, report: report.clone() };
        let mut bytes = serde_json::to_vec(&line).expect("a report is plain data");
        bytes.push(b'\n');
        let written = self.file.write_all(&bytes);
        written.map_err(|error| format!("cannot write {}: {error}", self.path.display()))?;
        self.done.insert(run, line.report);
        Ok(())
    }
}

/// Runs in the simulator, kept only until all runs that were wanted are finished: they can be
/// repeated.
pub(super) struct UntilDone {
    /// `None` if runs cannot be kept, which does not stop them.
    store: Option<Store>,
    wanted: BTreeSet<Run>,
}

/// File of the simulator's runs.
const RUNS: &str = "paper-runs.jsonl";

impl Store {
    /// Tells how many runs are kept, after an interruption.
    pub(super) fn say_what_is_kept(&self) {
        let (done, path) = (counted(self.done.len(), "run"), self.path.display());
        tell(&format!("{done} kept in {path}; the same command goes on from there"));
    }
}

impl UntilDone {
    /// Opens the runs kept in a folder.
    pub(super) fn open(dir: &Path) -> Self {
        let store = Store::open(dir, RUNS).map_err(|error| warn(&error)).ok();
        Self { store, wanted: BTreeSet::new() }
    }

    /// Tells how many of all runs are kept.
    pub(super) fn say_what_is_kept(&self, runs: usize) {
        let Some(store) = &self.store else { return };
        let done = self.wanted.iter().filter(|run| store.done.contains_key(*run)).count();
        tell(&format!(
            "{done} of {} kept in {}; the same command goes on from there",
            counted(runs, "run"),
            store.path.display()
        ));
    }

    /// All wanted runs are finished. Removes the file, unless it has other runs of this program.
    pub(super) fn end(self) {
        let Some(store) = self.store else { return };
        store.remove(&self.wanted);
    }
}

impl Kept for UntilDone {
    fn get(&mut self, scenario: &Scenario, seed: u64) -> Option<Report> {
        self.wanted.insert(run_of(scenario, seed));
        self.store.as_ref()?.get(scenario, seed).cloned()
    }

    fn add(&mut self, scenario: &Scenario, seed: u64, report: &Report) {
        if let Some(store) = &mut self.store
            && let Err(error) = store.add(scenario, seed, report)
        {
            warn(&error);
            self.store = None;
        }
    }
}

/// Reports that runs cannot be kept; they are made nevertheless.
fn warn(error: &str) {
    tell(&format!("{error}; after Ctrl-C all begins anew"));
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
        let open = || Store::open_for(&dir, RUNS, now.into()).expect("a folder");
        let seeds = |store: &Store| store.done.keys().map(|run| run.1).collect::<Vec<_>>();
        let mut store = open();
        let before = seeds(&store);
        store.file.write_all(format!("{}\n", line(4, now)).as_bytes()).expect("room");
        let after = seeds(&open());
        fs::remove_dir_all(&dir).expect("it was there");
        assert_eq!((before, after), (vec![1], vec![1, 4]));
    }

    #[test]
    fn the_file_goes_with_the_last_run_that_was_wanted_unless_it_has_others() {
        let dir = tempfile_dir("until-done");
        let scenario = |name: &str| {
            let text = format!("name = \"{name}\"\nnode = [{{ name = \"a\" }}]\n");
            toml::from_str::<Scenario>(&text).expect("a good scenario")
        };
        let (one, other) = (scenario("one"), scenario("other"));
        let mut runs = UntilDone::open(&dir);
        assert!(runs.get(&one, 1).is_none() && runs.get(&other, 1).is_none());
        runs.add(&one, 1, &Report { seed: 1, ..Report::default() });
        // The first command is interrupted; the next wants only other runs.
        drop(runs);
        let mut less = UntilDone::open(&dir);
        assert!(less.get(&other, 1).is_none());
        less.end();
        let mut again = UntilDone::open(&dir);
        let known = again.get(&one, 1).map(|report| report.seed);
        again.end();
        let left = fs::read_dir(&dir).expect("a folder").count();
        fs::remove_dir_all(&dir).expect("it was there");
        assert_eq!((known, left), (Some(1), 0));
    }

    #[test]
    fn what_another_command_keeps_or_has_kept_meanwhile_stays() {
        let dir = tempfile_dir("beside");
        let text = "name = \"x\"\nnode = [{ name = \"a\" }]\n";
        let scenario: Scenario = toml::from_str(text).expect("a good scenario");
        let is_there = || dir.join(RUNS).exists();
        let (first, mut second) = (UntilDone::open(&dir), UntilDone::open(&dir));
        first.end();
        assert!(is_there(), "the second works with it");
        let third = UntilDone::open(&dir);
        second.add(&scenario, 1, &Report::default());
        // It is interrupted.
        drop(second);
        third.end();
        assert!(is_there(), "it has a run that the third did not want");
        fs::remove_dir_all(&dir).expect("it was there");
    }

    #[test]
    fn folders_that_were_made_for_runs_go_with_them_unless_something_else_is_there() {
        let dir = tempfile_dir("made");
        let at = dir.join("farhop/wildnet");
        UntilDone::open(&at).end();
        let is_gone = !dir.join("farhop").exists();
        // As if another command had been interrupted.
        fs::create_dir_all(&at).expect("room");
        UntilDone::open(&at).end();
        assert!(!at.exists(), "it stays where one was interrupted");
        let runs = UntilDone::open(&at);
        fs::write(dir.join("farhop/other"), "").expect("a file");
        runs.end();
        let left = (at.exists(), dir.join("farhop/other").exists());
        fs::remove_dir_all(&dir).expect("it was there");
        assert_eq!((is_gone, left), (true, (false, true)));
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
