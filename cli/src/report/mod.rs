//! The report of a run as text, as a page and as a chart.

use std::path::{Path, PathBuf};

use farhop_sim::engine::Report;

use crate::Failure;
use crate::commands::print_text;
use crate::sweep::Line;

pub(crate) mod chart;
pub(crate) mod columns;
mod detail;
pub(crate) mod page;
pub(crate) mod paper;
mod paper_chart;
pub(crate) mod sweep;
mod sweep_chart;
mod text;

pub(crate) use text::{lateness_line, table};

/// Writes report.json, flows.svg, report.html and Parquet tables into a folder.
pub(crate) fn write(dir: &Path, report: &Report, scenario: &str) -> Result<(), Failure> {
    let series = chart::over_time(&report.scenario, &report.flows);
    let json = serde_json::to_string_pretty(report).expect("a report is plain data");
    save(dir, "report.json", &json)?;
    save(dir, "flows.svg", &series)?;
    save(dir, "report.html", &page::report(report, &series, scenario))?;
    let line = Line { point: Default::default(), report: report.clone() };
    columns::write(dir, &mut |on| on(&line))
}

/// Writes a file into a folder, which is made if it is not there.
pub(crate) fn save(dir: &Path, name: &str, text: &str) -> Result<PathBuf, Failure> {
    let path = dir.join(name);
    let fail = |error| Failure::Failed(format!("cannot write {}: {error}", path.display()));
    std::fs::create_dir_all(dir).map_err(fail)?;
    std::fs::write(&path, text).map_err(fail)?;
    Ok(path)
}

/// Prints a report for people, and where its page is.
pub(crate) fn print(report: &Report, out: &Option<PathBuf>) -> Result<(), Failure> {
    print_text(text::report(report).trim_end())?;
    if let Some(dir) = out {
        print_text(&dir.join("report.html").display().to_string())?;
    }
    Ok(())
}
