//! What a sweep keeps in its folder so that it can resume: the scenario, what else the runs depend
//! on, and a JSON line for each finished run.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use farhop_proto::base::counted;
use farhop_run::files::sum_file;
use farhop_sim::engine::Report;
use serde::{Deserialize, Serialize};

use super::points::Values;
use crate::{Failure, locked, whole};

/// File of the finished runs.
pub(super) const RUNS: &str = "runs.jsonl";
/// File of the scenario of the runs.
const SCENARIO: &str = "scenario.toml";
/// File of what else the runs depend on.
const MADE_BY: &str = "made-by.json";
/// Advice for a folder that holds something else.
const ELSE: &str = "choose another folder, or --fresh to drop them";

/// One finished run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Line {
    /// The values of the sweep's keys.
    pub(crate) point: Values,
    /// The run's report.
    #[serde(flatten)]
    pub(crate) report: Report,
}

/// What the runs depend on besides their scenario: if any of it differs, so may the results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct MadeBy {
    version: String,
    /// SHA-256 of the program.
    program: String,
    /// SHA-256 of the files that the scenario names.
    files: BTreeMap<String, String>,
}

impl MadeBy {
    /// This program, and the given files with their SHA-256.
    pub(super) fn this(files: BTreeMap<String, String>) -> Result<Self, Failure> {
        let (version, program) = (env!("CARGO_PKG_VERSION").into(), program_sum()?);
        Ok(Self { version, program, files })
    }

    /// How the origin of the runs of `other` differs from this one, if it does.
    fn differs(&self, other: &Self) -> Option<String> {
        if self.version != other.version && !other.version.is_empty() {
            return Some(format!("version {}", other.version));
        }
        if self.program != other.program {
            return Some("another build of farhop".into());
        }
        // A sweep may have got or lost a value that names a file.
        let changed = |(name, sum): &(&String, &String)| {
            other.files.get(*name).is_some_and(|before| before != *sum)
        };
        self.files.iter().find(changed).map(|(name, _)| format!("another {name}"))
    }
}

/// SHA-256 of the running program, even if another file has its path by now.
pub(crate) fn program_sum() -> Result<String, Failure> {
    Ok(sum_file(&File::open("/proc/self/exe")?, &mut |_| true)?.0)
}

/// Where the line of a run is in the file, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    at: u64,
    bytes: usize,
}

/// The folder of a sweep, locked against other programs. If no run is finished, the files that were
/// created there are removed on drop.
pub(super) struct Store {
    dir: PathBuf,
    file: File,
    end: u64,
    /// Files that did not exist before; the locked one is last, since nobody else creates the
    /// others while it exists.
    made: Vec<PathBuf>,
}

impl Drop for Store {
    fn drop(&mut self) {
        if self.end == 0 {
            // Leftovers of an empty sweep do no harm.
            let _ = self.made.iter().try_for_each(fs::remove_file);
        }
    }
}

impl Store {
    /// Whether a folder holds runs.
    pub(super) fn is_in(dir: &Path) -> bool {
        fs::metadata(dir.join(RUNS)).is_ok_and(|file| file.len() > 0)
    }

    /// Opens or creates a folder, and calls `found` with each finished run. An incomplete last line
    /// is removed.
    ///
    /// Fails if another program works in the folder. Without `fresh`, also if its runs are not of
    /// this sweep or this program.
    pub(super) fn open(
        dir: &Path,
        scenario: &str,
        made_by: &MadeBy,
        fresh: bool,
        found: &mut dyn FnMut(Line, Place) -> Result<(), Failure>,
    ) -> Result<Self, Failure> {
        let fail = |error: io::Error| {
            Failure::Failed(format!("cannot keep runs in {}: {error}", dir.display()))
        };
        refuse_foreign_scenario(dir, scenario)?;
        fs::create_dir_all(dir).map_err(fail)?;
        let path = dir.join(RUNS);
        let file = locked::alone(&path, &mut locked::open).map_err(fail)?;
        // Only after locking: before, another program may have had these files, and removed them.
        let is_new = |other: &PathBuf| !other.exists();
        let made = [SCENARIO, MADE_BY].map(|name| dir.join(name)).into_iter().filter(is_new);
        let is_empty = file.metadata().map_err(fail)?.len() == 0;
        let made = made.chain(is_empty.then_some(path)).collect();
        if fresh {
            file.set_len(0).map_err(fail)?;
        }
        let mut store = Self { dir: dir.to_owned(), file, end: 0, made };
        let mut made_by = made_by.clone();
        if store.file.metadata().map_err(fail)?.len() > 0 {
            // What a file was on which runs depend that this sweep does not name stays known.
            let before = store.refuse_foreign_runs(scenario, &made_by)?;
            for (name, sum) in before.files {
                made_by.files.entry(name).or_insert(sum);
            }
        }
        store.read(found)?;
        let made_by = serde_json::to_string_pretty(&made_by).expect("it is plain data");
        put(&dir.join(MADE_BY), &(made_by + "\n")).map_err(fail)?;
        put(&dir.join(SCENARIO), scenario).map_err(fail)?;
        store.file.set_len(store.end).map_err(fail)?;
        store.file.seek(SeekFrom::End(0)).map_err(fail)?;
        Ok(store)
    }

    /// What the runs in the folder depend on. Fails if that is anything else than what the new ones
    /// do.
    fn refuse_foreign_runs(&self, scenario: &str, made_by: &MadeBy) -> Result<MadeBy, Failure> {
        let known = fs::read_to_string(self.dir.join(SCENARIO)).unwrap_or_default();
        let before = fs::read_to_string(self.dir.join(MADE_BY)).unwrap_or_default();
        let before: MadeBy = serde_json::from_str(&before).unwrap_or_default();
        let whose = match is_same_but_for_sweep(&known, scenario) {
            true => made_by.differs(&before),
            false => Some("another scenario".into()),
        };
        let Some(whose) = whose else { return Ok(before) };
        let count = BufReader::new(&self.file).split(b'\n').count();
        let dir = self.dir.display();
        Err(Failure::Input(miette::miette!(
            "{dir} holds {} of {whose}: {ELSE}",
            counted(count, "run")
        )))
    }

    /// Calls `found` with each complete line.
    fn read(
        &mut self,
        found: &mut dyn FnMut(Line, Place) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.file.seek(SeekFrom::Start(0))?;
        let mut reader = BufReader::new(&self.file);
        let mut text = Vec::new();
        for number in 1.. {
            text.clear();
            let bytes = reader.read_until(b'\n', &mut text)?;
            let Some(line) = text.strip_suffix(b"\n") else { break };
            let line = serde_json::from_slice(line).map_err(|error| {
                let path = self.dir.join(RUNS);
                let path = path.display();
                Failure::Input(miette::miette!(
                    "line {number} of {path} is no run ({error}), so its runs are not used: {ELSE}"
                ))
            })?;
            found(line, Place { at: self.end, bytes })?;
            self.end += bytes as u64;
        }
        Ok(())
    }

    /// Adds a finished run.
    pub(super) fn add(&mut self, line: &str) -> Result<Place, Failure> {
        self.file.write_all(format!("{line}\n").as_bytes()).map_err(|error| {
            Failure::Failed(format!("cannot write {}: {error}", self.dir.join(RUNS).display()))
        })?;
        let place = Place { at: self.end, bytes: line.len() + 1 };
        self.end += place.bytes as u64;
        Ok(place)
    }

    /// Reads a finished run again.
    pub(super) fn line(&self, place: Place) -> Result<Line, Failure> {
        let mut text = vec![0; place.bytes];
        self.file.read_exact_at(&mut text, place.at)?;
        let line = serde_json::from_slice(&text);
        line.map_err(|error| Failure::Failed(format!("a run that was kept is gone: {error}")))
    }
}

/// Whether runs of one scenario are also runs of the other, given the same values of the sweep's
/// keys and the same seed. The values and seeds of the sweep itself may differ.
fn is_same_but_for_sweep(known: &str, scenario: &str) -> bool {
    let of_runs = |text: &str| {
        let mut table = text.parse::<toml::Table>().ok()?;
        table.remove("sweep");
        Some(table)
    };
    known == scenario || of_runs(known).is_some_and(|known| Some(known) == of_runs(scenario))
}

/// Writes a file atomically, unless it has this content: without it, finished runs belong to
/// nothing.
fn put(path: &Path, text: &str) -> io::Result<()> {
    if fs::read(path).is_ok_and(|known| known == text.as_bytes()) {
        return Ok(());
    }
    whole::write(path, text.as_bytes())
}

/// Fails if the folder has a scenario file that no sweep has put there.
fn refuse_foreign_scenario(dir: &Path, scenario: &str) -> Result<(), Failure> {
    let path = dir.join(SCENARIO);
    let is_ours = dir.join(MADE_BY).exists() || Store::is_in(dir);
    let is_free = match fs::read(&path) {
        Ok(known) => is_ours || known == scenario.as_bytes(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    if is_free {
        return Ok(());
    }
    let path = path.display();
    Err(Failure::Input(miette::miette!("{path} would be overwritten: choose another folder")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_for_a_sweep_without_a_run_goes_again_and_nothing_else_does() {
        let dir = tempfile::tempdir().expect("a folder");
        let open = || {
            let made_by = MadeBy::default();
            Store::open(dir.path(), "name", &made_by, false, &mut |_, _| Ok(()))
        };
        let left = || fs::read_dir(dir.path()).expect("a folder").count();
        drop(open().unwrap_or_else(|_| panic!("it is free")));
        assert_eq!(left(), 0);
        fs::write(dir.path().join(RUNS), "no run\n").expect("room");
        assert!(open().is_err());
        assert_eq!(fs::read(dir.path().join(RUNS)).expect("it is there"), b"no run\n");
    }

    #[test]
    fn a_sweep_may_name_more_files_or_fewer_but_none_that_has_changed() {
        let of = |files: &[(&str, &str)]| MadeBy {
            files: files.iter().map(|(name, sum)| ((*name).into(), (*sum).into())).collect(),
            ..MadeBy::default()
        };
        let dir = tempfile::tempdir().expect("a folder");
        let line = Line { point: Values::new(), report: Report::default() };
        let line = serde_json::to_string(&line).expect("plain data");
        fs::write(dir.path().join(RUNS), line + "\n").expect("room");
        let goes_on = |files: &[(&str, &str)]| {
            Store::open(dir.path(), "name", &of(files), false, &mut |_, _| Ok(())).is_ok()
        };
        fs::write(dir.path().join(SCENARIO), "name").expect("room");
        assert!(goes_on(&[("a", "1")]) && goes_on(&[("a", "1"), ("b", "1")]) && goes_on(&[]));
        assert!(!goes_on(&[("a", "2")]), "its runs are of another");
        assert!(goes_on(&[("b", "1"), ("c", "1")]));
    }
}
