//! What a sweep keeps in its folder, so that it can be taken up again: the scenario, and a line of
//! JSON for each finished run.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use farhop_proto::stack::SweepValue;
use farhop_sim::engine::Report;
use serde::{Deserialize, Serialize};

use super::points::Run;
use crate::Failure;

/// File of the finished runs.
pub(super) const RUNS: &str = "runs.jsonl";
/// File of the scenario that they belong to.
const SCENARIO: &str = "scenario.toml";

/// One finished run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Line {
    /// The values of the sweep's keys.
    pub(crate) point: BTreeMap<String, SweepValue>,
    /// What came of it.
    #[serde(flatten)]
    pub(crate) report: Report,
}

impl Line {
    pub(super) fn is_of(&self, run: &Run) -> bool {
        self.point == run.point && self.report.seed == run.seed
    }
}

/// The folder of a sweep.
pub(super) struct Store {
    dir: PathBuf,
    file: File,
}

impl Store {
    /// Opens a folder, or makes it, with the runs that are finished there. A line that was cut off
    /// is taken away.
    ///
    /// Fails if it holds runs of another scenario or of another version, unless they are to go.
    pub(super) fn open(
        dir: &Path,
        scenario: &str,
        fresh: bool,
    ) -> Result<(Self, Vec<Line>), Failure> {
        let fail = |error: std::io::Error| {
            Failure::Failed(format!("cannot keep runs in {}: {error}", dir.display()))
        };
        fs::create_dir_all(dir).map_err(fail)?;
        let path = dir.join(RUNS);
        if fresh {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(fail(error));
                }
                _ => {}
            }
        }
        let file = OpenOptions::new().read(true).append(true).create(true).open(&path);
        let mut file = file.map_err(fail)?;
        let (lines, good) = read(&file).map_err(fail)?;
        let known = fs::read_to_string(dir.join(SCENARIO)).unwrap_or_default();
        let version = env!("CARGO_PKG_VERSION");
        let foreign = lines.iter().find(|line| line.report.version != version);
        if !lines.is_empty() && (known != scenario || foreign.is_some()) {
            let whose = foreign.map_or_else(
                || "another scenario".to_owned(),
                |line| format!("version {}", line.report.version),
            );
            return Err(Failure::Input(miette::miette!(
                "{} holds {} runs of {whose}: choose another folder, or --fresh to drop them",
                dir.display(),
                lines.len()
            )));
        }
        fs::write(dir.join(SCENARIO), scenario).map_err(fail)?;
        file.set_len(good).map_err(fail)?;
        file.seek(SeekFrom::End(0)).map_err(fail)?;
        Ok((Self { dir: dir.to_owned(), file }, lines))
    }

    /// Adds a finished run.
    pub(super) fn add(&mut self, line: &str) -> Result<(), Failure> {
        self.file.write_all(format!("{line}\n").as_bytes()).map_err(|error| {
            Failure::Failed(format!("cannot write {}: {error}", self.dir.join(RUNS).display()))
        })
    }
}

/// The lines that are whole, and how many bytes they take.
fn read(file: &File) -> std::io::Result<(Vec<Line>, u64)> {
    let mut reader = BufReader::new(file);
    let mut lines = Vec::new();
    let mut good = 0;
    let mut text = String::new();
    loop {
        text.clear();
        let bytes = reader.read_line(&mut text)?;
        let whole = text.strip_suffix('\n').and_then(|line| serde_json::from_str(line).ok());
        let Some(line) = whole else { return Ok((lines, good)) };
        lines.push(line);
        good += bytes as u64;
    }
}
