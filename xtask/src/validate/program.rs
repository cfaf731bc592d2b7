//! Runs whole scenarios with the program: files of `scenarios`, with some values changed.

use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use farhop_run::files::sum_file;
use farhop_run::lab::has_report;
use farhop_sim::engine::Report;
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tempfile::TempDir;
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
        self.once((scenario, seed, others.to_bits(), "flows"), || {
            in_time(others, || {
                let (said, _) = self.json("lab", scenario, &[format!("--seed={seed}")])?;
                Ok((said, ()))
            })
            .map(|(report, (), refused)| (report, refused))
        })
    }

    /// Runs a lab until one was in time, with programs in its nodes: `run`, which has the name
    /// `what`, starts them while the lab stands and returns what they achieved.
    pub(crate) fn lab_with(
        &self,
        scenario: &Table,
        seed: u64,
        what: &str,
        run: &dyn Fn(&Standing<'_>) -> Result<f64>,
    ) -> Result<f64> {
        self.once((scenario, seed, ANY.to_bits(), what), || {
            let measured = in_time(ANY, || {
                let process = self.start("lab", scenario, &[format!("--seed={seed}")])?;
                let standing = Standing::wait(&self.farhop, scenario, process)?;
                let achieved = run(&standing)?;
                Ok((standing.process.end(LAB_POLL)?.0, achieved))
            });
            measured.map(|(_, achieved, _)| achieved)
        })
    }

    /// The outcome of a lab, or that of an earlier measurement that was interrupted.
    fn once<T: Serialize + DeserializeOwned>(
        &self,
        what: (&Table, u64, u64, &str),
        measure: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let Some(kept) = &self.kept else { return measure() };
        let file = kept.file(what)?;
        // A file that was not written completely counts as none.
        let known = std::fs::read(&file).ok().and_then(|text| serde_json::from_slice(&text).ok());
        if let Some(known) = known {
            return Ok(known);
        }
        let measured = measure()?;
        std::fs::write(&file, serde_json::to_vec(&measured)?)?;
        Ok(measured)
    }

    /// The JSON output of a command (`sim` or `lab`), and its largest memory in kB.
    pub(crate) fn json(
        &self,
        command: &'static str,
        scenario: &Table,
        arguments: &[String],
    ) -> Result<(String, u64)> {
        let poll = if command == "lab" { LAB_POLL } else { POLL };
        self.start(command, scenario, arguments)?.end(poll)
    }

    fn start(
        &self,
        command: &'static str,
        scenario: &Table,
        arguments: &[String],
    ) -> Result<Process> {
        let folder = tempfile::tempdir_in(self.folder.path())?;
        let [file, out, errors] =
            ["scenario.toml", "out", "errors"].map(|name| folder.path().join(name));
        std::fs::write(&file, toml::to_string(scenario)?)?;
        let mut process = Command::new(&self.farhop);
        process.arg(command).arg(&file).arg("--json").args(arguments).stdin(Stdio::null());
        process.stdout(File::create(&out)?).stderr(File::create(&errors)?);
        let child = process.spawn().context("farhop does not run")?;
        let what = format!("farhop {command}, scenario {}", scenario["name"]);
        Ok(Process { child, folder, what })
    }
}

/// A command that runs. It is ended when this is dropped.
struct Process {
    child: Child,
    folder: TempDir,
    what: String,
}

impl Process {
    /// Waits until it ends. Returns its output, and its largest memory in kB.
    fn end(mut self, poll: Duration) -> Result<(String, u64)> {
        let mut memory_kb = 0;
        let status = loop {
            memory_kb = memory_kb.max(high_water_kb(self.child.id()));
            match self.child.try_wait()? {
                Some(status) => break status,
                None => std::thread::sleep(poll),
            }
        };
        ensure!(has_report(status), "{}: {}", self.what, self.said("errors")?.trim());
        Ok((self.said("out")?, memory_kb))
    }

    fn said(&self, file: &str) -> Result<String> {
        Ok(std::fs::read_to_string(self.folder.path().join(file))?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait()
            && let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
        {
            // So that a lab takes its interfaces with it.
            let _ = kill_process(pid, Signal::TERM);
            let _ = self.child.wait();
        }
    }
}

/// A lab that stands: programs can be started in its nodes. They end with it.
pub(crate) struct Standing<'a> {
    farhop: &'a Path,
    lab: String,
    process: Process,
    until: Instant,
}

impl<'a> Standing<'a> {
    /// Waits until the lab of this process stands.
    fn wait(farhop: &'a Path, scenario: &Table, process: Process) -> Result<Self> {
        let (name, length) = (scenario["name"].as_str(), &scenario["duration_s"]);
        let lab = name.context("a scenario without a name")?.to_owned();
        let seconds = length.as_integer().and_then(|seconds| seconds.try_into().ok());
        let length = Duration::from_secs(seconds.context("whole seconds")?);
        let mut standing = Self { farhop, lab, process, until: Instant::now() };
        while standing.process.child.try_wait()?.is_none() {
            if standing.is_ready()? {
                standing.until = Instant::now() + length;
                return Ok(standing);
            }
            std::thread::sleep(LAB_POLL);
        }
        // It ended before it stood: with an error, which this tells.
        standing.process.end(LAB_POLL)?;
        bail!("the lab '{}' never stood", standing.lab)
    }

    /// Whether its links are up, so that its run has begun.
    fn is_ready(&self) -> Result<bool> {
        let listed = Command::new(self.farhop).args(["lab", "list", "--json"]).output()?;
        let listed: Value = serde_json::from_slice(&listed.stdout).context("a list of labs")?;
        let mut labs = listed.as_array().context("a list of labs")?.iter();
        Ok(labs.any(|lab| lab["scenario"] == *self.lab && lab["ready"] == true))
    }

    /// A program in the network of a node.
    pub(crate) fn program(&self, node: &str, words: &[&str]) -> Command {
        let mut command = Command::new(self.farhop);
        command.args(["lab", "exec", "--lab", &self.lab, node, "--"]).args(words);
        command.stdin(Stdio::null());
        command
    }

    /// `farhop` itself in the network of a node.
    pub(crate) fn farhop(&self, node: &str, words: &[&str]) -> Result<Command> {
        let farhop = self.farhop.to_str().context("a path in UTF-8")?;
        Ok(self.program(node, &[&[farhop], words].concat()))
    }

    /// How long the lab will stand.
    pub(crate) fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

/// Runs labs until one was in time while other programs used at most `others` processors. Returns
/// its report, what it gave beside that, and how many labs before it were discarded.
fn in_time<T>(
    others: f64,
    mut run: impl FnMut() -> Result<(String, T)>,
) -> Result<(Report, T, u32)> {
    let tries = if others < ANY { STILL_TRIES } else { LAB_TRIES };
    for refused in 0..tries {
        let (said, beside) = run()?;
        let report: Report =
            serde_json::from_str(&said).context("a report that is not understood")?;
        let lateness = report.lateness.as_ref().context("a lab that was not timed")?;
        if !lateness.late && lateness.others_cpu.is_some_and(|busy| busy <= others) {
            return Ok((report, beside, refused));
        }
    }
    bail!(
        "{tries} labs in a row were late, or other programs kept more than {others} of a \
         processor busy: this machine is too busy to compare with"
    );
}

impl Kept {
    /// The path of a kept lab: its scenario, its seed, how busy other programs may be, and what ran
    /// in it.
    fn file(&self, (scenario, seed, others, what): (&Table, u64, u64, &str)) -> Result<PathBuf> {
        let mut hasher = DefaultHasher::new();
        // Its name may be that of one process.
        let mut scenario = scenario.clone();
        scenario.remove("name");
        (&self.program, toml::to_string(&scenario)?, seed, others, what).hash(&mut hasher);
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
        let one: Table = "name = 'one'\nduration_s = 1".parse().unwrap();
        let again: Table = "name = 'again'\nduration_s = 1".parse().unwrap();
        let other: Table = "name = 'one'\nduration_s = 2".parse().unwrap();
        let file = |program, scenario, seed, others: f64, what| {
            kept(program).file((scenario, seed, others.to_bits(), what)).unwrap()
        };
        let it = file("a", &one, 1, ANY, "flows");
        assert_eq!(file("a", &again, 1, ANY, "flows"), it);
        for another in [
            file("b", &one, 1, ANY, "flows"),
            file("a", &other, 1, ANY, "flows"),
            file("a", &one, 2, ANY, "flows"),
            file("a", &one, 1, STILL, "flows"),
            file("a", &one, 1, ANY, "curl"),
        ] {
            assert_ne!(another, it);
        }
    }

    #[test]
    fn some_memory_was_needed_to_come_here() {
        assert!(high_water_kb(std::process::id()) > 100);
    }
}
