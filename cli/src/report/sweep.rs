//! The report of a sweep: mean and confidence interval over the seeds of each point, as a table, a
//! chart and a page.

use std::path::{Path, PathBuf};

use farhop_proto::base::counted;
use farhop_proto::stack::Scenario;
use maud::html;

use super::{page, save, sweep_chart, table};
use crate::Failure;
use crate::commands::print_text;
use crate::sweep::{Finished, Values};

/// Mean of a quantity over the seeds of a point, with the half width of its 95% confidence
/// interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Mean {
    pub(crate) value: f64,
    /// `None` with fewer than two seeds.
    pub(crate) half_width: Option<f64>,
}

impl Mean {
    fn of(samples: &[f64]) -> Self {
        let count = samples.len() as f64;
        let value = samples.iter().sum::<f64>() / count;
        let squares: f64 = samples.iter().map(|sample| (sample - value).powi(2)).sum();
        let half_width = (samples.len() > 1)
            .then(|| student_t(samples.len() - 1) * (squares / (count - 1.0) / count).sqrt());
        Self { value, half_width }
    }
}

impl std::fmt::Display for Mean {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.2}", self.value)?;
        self.half_width.map_or(Ok(()), |width| write!(f, " ± {width:.2}"))
    }
}

/// The 97.5% quantile of Student's t distribution with this many degrees of freedom.
fn student_t(freedom: usize) -> f64 {
    const FIRST: [f64; 10] =
        [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    // The Cornish-Fisher expansion around the normal distribution, good to 0.1% from 10 on.
    let z: f64 = 1.959_964;
    let n = freedom as f64;
    let series = z
        + (z.powi(3) + z) / (4.0 * n)
        + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * n * n);
    FIRST.get(freedom - 1).copied().unwrap_or(series)
}

/// A point of the sweep with the mean goodput of each flow.
pub(crate) struct Point {
    /// Values of the sweep's keys, in the sweep's order.
    pub(crate) values: Vec<String>,
    pub(crate) numbers: Vec<Option<f64>>,
    pub(crate) seeds: usize,
    /// Goodput of each flow in Mb/s, in the order of the scenario.
    pub(crate) flows: Vec<Mean>,
    /// What all flows delivered over the whole run, in Mb/s.
    pub(crate) total: Mean,
}

/// The finished runs of each point of a sweep, in its order.
type Runs<'a> = [(Values, Vec<&'a Finished>)];

fn keys(scenario: &Scenario) -> Vec<String> {
    scenario.sweep.iter().flat_map(|sweep| &sweep.vary).map(|vary| vary.key.clone()).collect()
}

/// The points of a sweep with their means.
fn points(scenario: &Scenario, runs: &Runs<'_>) -> Vec<Point> {
    let keys = keys(scenario);
    let of_point = |(values, runs): &(Values, Vec<&Finished>)| {
        let goodput =
            |flow: usize| -> Vec<f64> { runs.iter().map(|run| run.goodputs[flow]).collect() };
        let totals: Vec<f64> = runs.iter().map(|run| run.carried).collect();
        Point {
            values: keys.iter().map(|key| values[key].to_string()).collect(),
            numbers: keys.iter().map(|key| values[key].number()).collect(),
            seeds: runs.len(),
            flows: (0..runs[0].goodputs.len()).map(|flow| Mean::of(&goodput(flow))).collect(),
            total: Mean::of(&totals),
        }
    };
    runs.iter().map(of_point).collect()
}

/// The flows with a column of their own: none unless there are several, and the same in all runs.
fn columns_of<'a>(runs: &'a Runs<'_>) -> &'a [String] {
    let mut all = runs.iter().flat_map(|(_, runs)| runs).map(|run| &run.names);
    let first = all.next();
    first
        .filter(|first| first.len() > 1 && all.all(|names| names == *first))
        .map_or(&[], |names| &**names)
}

fn head(keys: Vec<String>, flows: &[String]) -> Vec<String> {
    let mut head = keys;
    head.push("seeds".into());
    head.extend(flows.iter().map(|name| format!("{name}, Mb/s")));
    head.push("all flows, Mb/s".into());
    head
}

/// The table of a sweep: its header, and a row for each point.
fn rows(scenario: &Scenario, runs: &Runs<'_>) -> (Vec<String>, Vec<Vec<String>>) {
    let flows = columns_of(runs);
    let head = head(keys(scenario), flows);
    let row = |point: &Point| {
        let mut row = point.values.clone();
        row.push(point.seeds.to_string());
        row.extend(point.flows.iter().take(flows.len()).map(Mean::to_string));
        row.push(point.total.to_string());
        row
    };
    (head, points(scenario, runs).iter().map(row).collect())
}

/// How long the runs are, as text: a key of the sweep may be the length.
fn lengths(runs: &Runs<'_>) -> String {
    let all = runs.iter().flat_map(|(_, runs)| runs).map(|run| run.seconds);
    let (least, most) = all.fold((f64::INFINITY, 0.0_f64), |(least, most), seconds| {
        (least.min(seconds), most.max(seconds))
    });
    if least < most { format!(" of {least} to {most} s") } else { format!(" of {most} s") }
}

/// Writes the chart and the page of a sweep into its folder.
pub(crate) fn write(
    dir: &Path,
    scenario: &Scenario,
    runs: &Runs<'_>,
    all: u64,
    text: &str,
) -> Result<(), Failure> {
    let (head, rows) = rows(scenario, runs);
    let count: usize = runs.iter().map(|(_, runs)| runs.len()).sum();
    let missing = all.saturating_sub(count as u64);
    let title = match missing {
        0 => scenario.name.clone(),
        _ => format!("{}: {count} of {all} runs", scenario.name),
    };
    let svg = sweep_chart::draw(&title, &keys(scenario), &points(scenario, runs));
    let body = html! {
        h1 { (title) }
        @if missing > 0 {
            p { "Without " (counted(missing, "run")) ", which the same command goes on with." }
        }
        p.note {
            (counted(count, "run")) (lengths(runs)) ", farhop "
            (env!("CARGO_PKG_VERSION")) "; mean and 95% confidence over the seeds; "
            (page::machine())
        }
        (page::figure(&svg))
        table {
            tr { @for name in &head { th { (name) } } }
            @for row in &rows { tr { @for cell in row { td { (cell) } } } }
        }
        h2 { "Scenario" }
        pre { (text) }
    };
    save(dir, "sweep.svg", &svg)?;
    save(dir, "report.html", &page::page(&title, &body))?;
    Ok(())
}

/// Removes what [`write()`] and [`super::columns::write`] have written before.
pub(crate) fn remove(dir: &Path) {
    for name in ["sweep.svg", "report.html"].into_iter().chain(super::columns::names()) {
        // Mostly there is none.
        let _ = std::fs::remove_file(dir.join(name));
    }
}

/// Prints the table of a sweep, and the path of its page.
pub(crate) fn print(
    scenario: &Scenario,
    runs: &Runs<'_>,
    out: Option<&PathBuf>,
) -> Result<(), Failure> {
    let (head, rows) = rows(scenario, runs);
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    print_text(&table(&head, &rows))?;
    if runs.iter().any(|(_, runs)| runs.len() > 1) {
        print_text("±: the mean is that near, with 95 % confidence")?;
    }
    if let Some(dir) = out {
        print_text(&dir.join("report.html").display().to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_of_a_rate_has_its_unit() {
        let head = head(vec!["loss".into()], &["forward".into(), "backward".into()]);
        let expected = ["loss", "seeds", "forward, Mb/s", "backward, Mb/s", "all flows, Mb/s"];
        assert_eq!(head, expected);
    }

    #[test]
    fn a_mean_has_the_confidence_of_its_seeds() {
        // Sample deviation 1, three seeds: 4.303 / sqrt(3).
        let mean = Mean::of(&[1.0, 2.0, 3.0]);
        assert_eq!(mean.value, 2.0);
        assert!((mean.half_width.expect("three seeds") - 2.484).abs() < 1e-3);
        assert_eq!(Mean::of(&[5.0]).half_width, None);
        assert!((student_t(10) - 2.228).abs() < 1e-9 && (student_t(20) - 2.086).abs() < 2e-3);
    }
}
