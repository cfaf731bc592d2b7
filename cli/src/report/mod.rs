//! The report of a run as text, as a page and as a chart.

use std::path::{Path, PathBuf};

use farhop_sim::engine::Report;

use crate::Failure;
use crate::commands::{print_json, print_text};
use crate::sweep::{Line, holds_runs};
use crate::whole::{self, NewFolder};

mod axis;
pub(crate) mod chart;
pub(crate) mod columns;
mod detail;
mod lines;
pub(crate) mod page;
pub(crate) mod paper;
mod paper_chart;
pub(crate) mod sweep;
mod sweep_chart;
mod table;
mod text;

pub(crate) use table::table;
pub(crate) use text::lateness_line;

/// The files of a report besides its tables: JSON for programs, the chart, and a page with both.
const FILES: [&str; 3] = ["report.json", "flows.svg", "report.html"];

/// Writes the files of a report and its Parquet tables into a folder.
pub(crate) fn write(dir: &Path, report: &Report, scenario: &str) -> Result<(), Failure> {
    let series = chart::over_time(&report.scenario, &report.flows);
    let json = serde_json::to_string_pretty(report).expect("a report is plain data");
    let page = page::report(report, &series, scenario);
    for (name, text) in FILES.into_iter().zip([json, series, page]) {
        save(dir, name, &text)?;
    }
    let line = Line { point: Default::default(), report: report.clone() };
    columns::write(dir, &mut |on| on(&line))
}

/// Whether a report in a folder would overwrite `place`, an absolute path without links.
pub(crate) fn takes(dir: &Path, place: &Path) -> bool {
    let mut names = FILES.into_iter().chain(columns::tables().map(|table| table.name));
    names.any(|name| whole::follow(&dir.join(name)).is_ok_and(|own| own == place))
}

/// Writes a file into a folder, which is created if it does not exist.
pub(crate) fn save(dir: &Path, name: &str, text: &str) -> Result<PathBuf, Failure> {
    let path = dir.join(name);
    let fail = |error| Failure::Failed(format!("cannot write {}: {error}", path.display()));
    std::fs::create_dir_all(dir).map_err(fail)?;
    whole::write(&path, text.as_bytes()).map_err(fail)?;
    Ok(path)
}

/// Creates a folder and tests that it can be written, before a run whose results go there: hours of
/// work must not be lost over a wrong name. A new folder is removed again if it stays empty.
pub(crate) fn prepare(dir: &Path) -> Result<NewFolder, Failure> {
    let mut parts = dir.ancestors().filter(|part| !part.as_os_str().is_empty());
    if let Some(file) = parts.find(|part| part.exists()).filter(|part| !part.is_dir()) {
        let file = file.display();
        let wrong = format!("{file} is a file, not a folder: --out takes a folder");
        return Err(Failure::input(wrong.to_string()));
    }
    let trial = dir.join(format!(".trial-{}", std::process::id()));
    let outcome = NewFolder::create(dir)
        .and_then(|folder| std::fs::write(&trial, "trial\n").map(|()| folder));
    // The trial file may not exist.
    let _ = std::fs::remove_file(&trial);
    outcome.map_err(|error| {
        let why = format!("cannot write into {}: {error}", dir.display());
        let right = "--out takes a folder that this user may write into, with room";
        Failure::Input(miette::miette!("{why}; {right}"))
    })
}

/// Creates and tests the folder of a single run.
///
/// Fails as [`prepare`] does, and if the files of a sweep would be overwritten.
pub(crate) fn prepare_for_run(dir: &Path) -> Result<NewFolder, Failure> {
    if holds_runs(dir) {
        let wrong = "holds the runs of a sweep, whose report this run would overwrite";
        let dir = dir.display();
        return Err(Failure::Input(miette::miette!("{dir} {wrong}: choose another folder")));
    }
    prepare(dir)
}

/// Fails if a folder holds the files of a single run, among which a sweep would put its own.
pub(crate) fn refuse_run(dir: &Path) -> Result<(), Failure> {
    if !dir.join(FILES[0]).exists() {
        return Ok(());
    }
    let wrong = "holds the report of a single run, which this sweep would mix with its own";
    let dir = dir.display();
    Err(Failure::Input(miette::miette!("{dir} {wrong}: choose another folder")))
}

/// Writes a report into a folder, if one is given, and prints it even if writing failed.
pub(crate) fn output(
    report: &Report,
    scenario: &str,
    out: Option<&Path>,
    json: bool,
) -> Result<(), Failure> {
    let written = out.map_or(Ok(()), |dir| write(dir, report, scenario));
    if json {
        print_json(report)?;
    } else {
        print_text(text::report(report).trim_end())?;
        if let Some(dir) = out.filter(|_| written.is_ok()) {
            print_text(&dir.join("report.html").display().to_string())?;
        }
    }
    written
}
