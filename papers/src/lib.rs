//! The published experiments that farhop reproduces: for each paper its scenarios, its figures, and
//! the bands in which our results must lie (`targets.md`).
//!
//! A paper is a list of targets. Each target names the runs that it needs, and reads its rows from
//! their reports. The runs of all targets are done together on all cores, each only once.

#![forbid(unsafe_code)]

mod curve;
mod estimate;
mod figure;
pub mod hop;
pub mod lab;
mod results;
mod row;
pub mod wildnet;

pub use estimate::Estimate;
pub use figure::{Axis, Figure, Places, Point, Series, Source, Table};
pub use results::{At, Case, Interrupted, Kept, Results, Runs};
pub use row::{Band, Expected, Row};

use serde::Deserialize;

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Runs of each case, with seeds from 1 on.
    pub seeds: usize,
    /// Shorter runs, for a check between changes.
    pub quick: bool,
}

impl Effort {
    /// The length of a run that takes `full` seconds in the paper: a sixth in quick runs, but at
    /// least 4 s.
    pub fn seconds(self, full: f64) -> f64 {
        if self.quick { (full / 6.0).max(4.0) } else { full }
    }
}

/// One table, figure or number of a paper.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its number in the list of targets, for example `W-F9b`.
    pub id: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// The runs that it needs.
    pub cases: fn(Effort) -> Vec<Case>,
    /// Reads its findings from the results of these runs.
    pub judge: fn(Effort, &Results) -> Findings,
}

/// For targets that have no runs of their own.
pub(crate) fn no_cases(_: Effort) -> Vec<Case> {
    Vec::new()
}

/// What a target found in its runs.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// The measured numbers, each with the key of its row.
    pub measured: Vec<(String, Estimate)>,
    /// Its figures.
    pub figures: Vec<Figure>,
    /// Tables of numbers that have no band.
    pub tables: Vec<Table>,
}

/// A paper.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    /// Its short name on the command line.
    pub name: &'static str,
    /// Its title, and where it appeared.
    pub title: &'static str,
    /// Its targets, in their order.
    pub targets: fn() -> Vec<Target>,
    /// The text of the file with the rows of all targets: what was published, and the bands.
    pub rows: &'static str,
    /// The text of the file with the constants of its hardware, which hold for all rows.
    pub calibration: &'static str,
}

/// All papers.
pub const PAPERS: &[Paper] = &[wildnet::PAPER, hop::PAPER];

/// The findings of one target beside what was published.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The target.
    pub target: Target,
    /// Its rows.
    pub rows: Vec<Row>,
    /// Its figures.
    pub figures: Vec<Figure>,
    /// Tables of numbers that have no band.
    pub tables: Vec<Table>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rows {
    row: Vec<Expected>,
}

impl Paper {
    /// The rows of all targets: what was published, and the bands.
    pub fn expected(&self) -> Vec<Expected> {
        let rows: Rows = toml::from_str(self.rows).expect("a test reads it");
        rows.row
    }

    /// Judges some of its targets by the results of their runs.
    ///
    /// Panics if a target measures something that no row expects, or the other way round.
    pub fn judge(&self, targets: &[Target], effort: Effort, results: &Results) -> Vec<Outcome> {
        let expected = self.expected();
        let judge = |target: &Target| {
            let Findings { measured, figures, tables } = (target.judge)(effort, results);
            let of_target = expected.iter().filter(|expected| expected.id == target.id);
            let row = |expected: &Expected| {
                let found = measured.iter().find(|(key, _)| *key == expected.key);
                let (_, ours) = found.unwrap_or_else(|| {
                    panic!("{} measures nothing for {}", expected.id, expected.key)
                });
                Row::judge(expected, *ours, effort)
            };
            let rows: Vec<Row> = of_target.map(row).collect();
            assert_eq!(rows.len(), measured.len(), "{} measures more than its rows", target.id);
            Outcome { target: *target, rows, figures, tables }
        };
        targets.iter().map(judge).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_belongs_to_a_target_and_every_target_has_rows() {
        for paper in PAPERS {
            let (targets, expected) = ((paper.targets)(), paper.expected());
            for row in &expected {
                assert!(targets.iter().any(|target| target.id == row.id), "{}", row.id);
            }
            let mut ids: Vec<&str> = targets.iter().map(|target| target.id).collect();
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), targets.len(), "no two targets of one number");
        }
    }

    #[test]
    fn all_scenarios_of_all_targets_can_be_run() {
        let effort = Effort { seeds: 1, quick: true };
        for target in PAPERS.iter().flat_map(|paper| (paper.targets)()) {
            for case in (target.cases)(effort) {
                assert_eq!(case.with_seed(1).problems(), [], "{} {}", target.id, case.key);
            }
        }
    }

    #[test]
    fn quick_runs_are_shorter_but_not_too_short() {
        let quick = Effort { seeds: 2, quick: true };
        assert_eq!([quick.seconds(60.0), quick.seconds(20.0)], [10.0, 4.0]);
        assert_eq!(Effort { quick: false, ..quick }.seconds(60.0), 60.0);
    }
}
