//! Whole scenarios through the program: files of `scenarios`, with counts changed.

use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use farhop_run::files::sum_file;
use farhop_run::lab::has_report;
use farhop_sim::engine::Report;
use serde_json::Value;
use toml::Table;

use crate::scratch::Scratch;

/// Labs that may be late, one after the other.
const LAB_TRIES: u32 = 4;
/// The same where others must be still: who compiles something will be done some time.
const STILL_TRIES: u32 = 20;
/// How often a run is asked for its memory: so that what it needs at its end is seen.
const POLL: Duration = Duration::from_millis(2);
/// The same beside a lab, which is not to be disturbed.
const LAB_POLL: Duration = Duration::from_millis(100);
/// Processors that others may keep busy beside a lab of which tens of microseconds matter.
pub(crate) const STILL: f64 = 0.05;
/// The same where they do not matter.
pub(crate) const ANY: f64 = f64::INFINITY;

/// farhop in release form, and a place for files that goes away with it.
pub(crate) struct Program {
    farhop: PathBuf,
    folder: Scratch,
    kept: Option<Kept>,
}

/// Labs that are done, so that measurements of hours go on where they were ended.
struct Kept {
    folder: PathBuf,
    /// SHA-256 of the program: what another one did says nothing of this one.
    program: String,
}

/// What a run said, and the most memory that it had, in kB.
pub(crate) struct Run {
    /// The report.
    pub(crate) report: Value,
    /// Largest resident set.
    pub(crate) memory_kb: u64,
}

impl Program {
    /// Builds it.
    pub(crate) fn build() -> Result<Self> {
        Self::at(crate::build::farhop()?)
    }

    /// The program at a place.
    pub(crate) fn at(farhop: PathBuf) -> Result<Self> {
        Ok(Self { farhop, folder: Scratch::new()?, kept: None })
    }

    /// Keeps each lab that is done, in a folder of this name, until they are forgotten.
    pub(crate) fn keep_labs(&mut self, name: &str) -> Result<()> {
        let folder = crate::build::target().join("validate").join(name);
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let (program, _) = sum_file(&File::open(&self.farhop)?, &mut |_| true)?;
        self.kept = Some(Kept { folder, program });
        Ok(())
    }

    /// All that was wanted of them is known: the next measurement begins anew.
    pub(crate) fn forget_labs(&self) -> Result<()> {
        self.kept.as_ref().map_or(Ok(()), |kept| Ok(std::fs::remove_dir_all(&kept.folder)?))
    }

    /// Goodput of all flows together, in Mb/s.
    pub(crate) fn goodput(&self, scenario: &Table, seed: u64) -> Result<f64> {
        let report = self.run(scenario, seed)?.report;
        let flows = report["flows"].as_array().context("a report without flows")?;
        flows.iter().map(|flow| flow["goodput_mbps"].as_f64().context("no goodput")).sum()
    }

    /// One run.
    pub(crate) fn run(&self, scenario: &Table, seed: u64) -> Result<Run> {
        let (said, memory_kb) = self.json("sim", scenario, &[format!("--seed={seed}")])?;
        let report = serde_json::from_str(&said).context("a report that is not JSON")?;
        Ok(Run { report, memory_kb })
    }

    /// A lab that was in time, beside which others kept at most `others` processors busy, and how
    /// many before it were not so: those are not believed.
    pub(crate) fn lab(&self, scenario: &Table, seed: u64, others: f64) -> Result<(Report, u32)> {
        let Some(kept) = &self.kept else { return self.new_lab(scenario, seed, others) };
        let file = kept.file(scenario, seed, others)?;
        // One that was not written to its end is made again.
        let known = std::fs::read(&file).ok().and_then(|text| serde_json::from_slice(&text).ok());
        if let Some(known) = known {
            return Ok(known);
        }
        let lab = self.new_lab(scenario, seed, others)?;
        std::fs::write(&file, serde_json::to_vec(&lab)?)?;
        Ok(lab)
    }

    fn new_lab(&self, scenario: &Table, seed: u64, others: f64) -> Result<(Report, u32)> {
        let tries = if others < ANY { STILL_TRIES } else { LAB_TRIES };
        for refused in 0..tries {
            let (said, _) = self.json("lab", scenario, &[format!("--seed={seed}")])?;
            let report: Report =
                serde_json::from_str(&said).context("a report that is not understood")?;
            let lateness = report.lateness.as_ref().context("a lab that was not timed")?;
            if !lateness.late && lateness.others_cpu.is_some_and(|busy| busy <= others) {
                return Ok((report, refused));
            }
        }
        bail!(
            "{tries} labs in a row were late, or other programs kept more than {others} of a \
             processor busy: this machine is too busy to compare with"
        );
    }

    /// What a command (`sim` or `lab`) prints as JSON, and the most memory that it had.
    pub(crate) fn json(
        &self,
        command: &str,
        scenario: &Table,
        arguments: &[String],
    ) -> Result<(String, u64)> {
        let folder = tempfile::tempdir_in(self.folder.path())?;
        let [file, out, errors] =
            ["scenario.toml", "out", "errors"].map(|name| folder.path().join(name));
        std::fs::write(&file, toml::to_string(scenario)?)?;
        let mut process = Command::new(&self.farhop);
        process.arg(command).arg(&file).arg("--json").args(arguments).stdin(Stdio::null());
        process.stdout(File::create(&out)?).stderr(File::create(&errors)?);
        let mut child = process.spawn().context("farhop does not run")?;
        let poll = if command == "lab" { LAB_POLL } else { POLL };
        let mut memory_kb = 0;
        let status = loop {
            memory_kb = memory_kb.max(high_water_kb(child.id()));
            match child.try_wait()? {
                Some(status) => break status,
                None => std::thread::sleep(poll),
            }
        };
        if !has_report(status) {
            let name = &scenario["name"];
            bail!(
                "farhop {command}, scenario {name}: {}",
                std::fs::read_to_string(&errors)?.trim()
            );
        }
        Ok((std::fs::read_to_string(&out)?, memory_kb))
    }
}

impl Kept {
    /// Where a lab is kept.
    fn file(&self, scenario: &Table, seed: u64, others: f64) -> Result<PathBuf> {
        let mut hasher = DefaultHasher::new();
        let what = (&self.program, toml::to_string(scenario)?, seed, others.to_bits());
        what.hash(&mut hasher);
        Ok(self.folder.join(format!("{:016x}.json", hasher.finish())))
    }
}

/// The largest resident set of a process so far, in kB; 0 of one that is gone.
fn high_water_kb(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

/// A file of `scenarios`.
pub(crate) fn scenario(root: &Path, name: &str) -> Result<Table> {
    let path = root.join("scenarios").join(name);
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    text.parse().with_context(|| format!("{}", path.display()))
}

/// The first table of a list of tables.
pub(crate) fn first<'a>(scenario: &'a mut Table, list: &str) -> Result<&'a mut Table> {
    let value = scenario.get_mut(list).and_then(|list| list.get_mut(0));
    value.and_then(toml::Value::as_table_mut).with_context(|| format!("no [[{list}]]"))
}

/// A table by its name.
pub(crate) fn table<'a>(scenario: &'a mut Table, name: &str) -> Result<&'a mut Table> {
    let value = scenario.get_mut(name).and_then(toml::Value::as_table_mut);
    value.with_context(|| format!("no [{name}]"))
}

/// Changes a key that the file has to have.
pub(crate) fn set(table: &mut Table, key: &str, value: impl Into<toml::Value>) -> Result<()> {
    ensure!(table.contains_key(key), "the scenario does not say '{key}'");
    table.insert(key.to_owned(), value.into());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_there_can_be_changed() {
        let mut scenario: Table = "name = 'x'\n[[layout]]\ncount = 5\n".parse().unwrap();
        let layout = first(&mut scenario, "layout").unwrap();
        set(layout, "count", 9).unwrap();
        assert!(set(layout, "cuont", 9).is_err());
        assert!(first(&mut scenario, "flow").is_err());
        assert_eq!(scenario["layout"][0]["count"].as_integer(), Some(9));
    }

    #[test]
    fn a_lab_is_known_again_by_all_that_it_hangs_on() {
        let kept = |program: &str| Kept { folder: "x".into(), program: program.into() };
        let one: Table = "name = 'one'".parse().unwrap();
        let other: Table = "name = 'other'".parse().unwrap();
        let file =
            |program, scenario, seed, others| kept(program).file(scenario, seed, others).unwrap();
        let it = file("a", &one, 1, ANY);
        assert_eq!(file("a", &one, 1, ANY), it);
        for another in [
            file("b", &one, 1, ANY),
            file("a", &other, 1, ANY),
            file("a", &one, 2, ANY),
            file("a", &one, 1, STILL),
        ] {
            assert_ne!(another, it);
        }
    }

    #[test]
    fn some_memory_was_needed_to_come_here() {
        assert!(high_water_kb(std::process::id()) > 100);
    }
}
