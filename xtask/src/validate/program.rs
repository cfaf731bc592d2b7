//! Runs whole scenarios with the program: files of `scenarios`, with some values changed.

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

/// Most labs in a row that may be discarded as late.
const LAB_TRIES: u32 = 4;
/// Most labs in a row where other programs must be idle, as a compilation takes some time.
const STILL_TRIES: u32 = 20;
/// How often the memory of a run is read: often, as the peak may come just before its end.
const POLL: Duration = Duration::from_millis(2);
/// The same for a lab, which must not be disturbed.
const LAB_POLL: Duration = Duration::from_millis(100);
/// Processors that other programs may use during a lab in which tens of microseconds matter.
pub(crate) const STILL: f64 = 0.05;
/// The same where they do not matter: any number.
pub(crate) const ANY: f64 = f64::INFINITY;

/// A release build of farhop, and a temporary folder.
pub(crate) struct Program {
    farhop: PathBuf,
    folder: Scratch,
    kept: Option<Kept>,
}

/// Finished labs, kept so that measurements of hours can resume.
struct Kept {
    folder: PathBuf,
    /// SHA-256 of the program: results of another build say nothing about this one.
    program: String,
}

/// The result of a run, and its largest memory in kB.
pub(crate) struct Run {
    /// The report.
    pub(crate) report: Value,
    /// Largest resident set.
    pub(crate) memory_kb: u64,
}

impl Program {
    /// Builds the program.
    pub(crate) fn build() -> Result<Self> {
        Self::at(crate::build::farhop()?)
    }

    /// The program at this path.
    pub(crate) fn at(farhop: PathBuf) -> Result<Self> {
        Ok(Self { farhop, folder: Scratch::new()?, kept: None })
    }

    /// Keeps each finished lab in a folder of this name, until they are forgotten.
    pub(crate) fn keep_labs(&mut self, name: &str) -> Result<()> {
        let folder = crate::build::target().join("validate").join(name);
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let (program, _) = sum_file(&File::open(&self.farhop)?, &mut |_| true)?;
        self.kept = Some(Kept { folder, program });
        Ok(())
    }

    /// Drops the kept labs, after the measurement that needed them is finished.
    pub(crate) fn forget_labs(&self) -> Result<()> {
        self.kept.as_ref().map_or(Ok(()), |kept| Ok(std::fs::remove_dir_all(&kept.folder)?))
    }

    /// Goodput of all flows together, in Mb/s.
    pub(crate) fn goodput(&self, scenario: &Table, seed: u64) -> Result<f64> {
        let report = self.run(scenario, seed)?.report;
        let flows = report["flows"].as_array().context("a report without flows")?;
        flows.iter().map(|flow| flow["goodput_mbps"].as_f64().context("no goodput")).sum()
    }

    /// Runs a scenario in the simulator.
    pub(crate) fn run(&self, scenario: &Table, seed: u64) -> Result<Run> {
        let (said, memory_kb) = self.json("sim", scenario, &[format!("--seed={seed}")])?;
        let report = serde_json::from_str(&said).context("a report that is not JSON")?;
        Ok(Run { report, memory_kb })
    }

    /// Runs a lab until one was in time while other programs used at most `others` processors.
    /// Returns its report, and how many labs before it were discarded.
    pub(crate) fn lab(&self, scenario: &Table, seed: u64, others: f64) -> Result<(Report, u32)> {
        let Some(kept) = &self.kept else { return self.new_lab(scenario, seed, others) };
        let file = kept.file(scenario, seed, others)?;
        // A file that was not written completely counts as none.
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

    /// The JSON output of a command (`sim` or `lab`), and its largest memory in kB.
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
    /// The path of a kept lab.
    fn file(&self, scenario: &Table, seed: u64, others: f64) -> Result<PathBuf> {
        let mut hasher = DefaultHasher::new();
        let what = (&self.program, toml::to_string(scenario)?, seed, others.to_bits());
        what.hash(&mut hasher);
        Ok(self.folder.join(format!("{:016x}.json", hasher.finish())))
    }
}

/// The largest resident set of a process so far, in kB; 0 if it has ended.
fn high_water_kb(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

/// Reads a file of `scenarios`.
pub(crate) fn scenario(root: &Path, name: &str) -> Result<Table> {
    let path = root.join("scenarios").join(name);
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    text.parse().with_context(|| format!("{}", path.display()))
}

/// The first table in a list of tables.
pub(crate) fn first<'a>(scenario: &'a mut Table, list: &str) -> Result<&'a mut Table> {
    let value = scenario.get_mut(list).and_then(|list| list.get_mut(0));
    value.and_then(toml::Value::as_table_mut).with_context(|| format!("no [[{list}]]"))
}

/// The table with this name.
pub(crate) fn table<'a>(scenario: &'a mut Table, name: &str) -> Result<&'a mut Table> {
    let value = scenario.get_mut(name).and_then(toml::Value::as_table_mut);
    value.with_context(|| format!("no [{name}]"))
}

/// Changes a key, which must exist in the file.
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
