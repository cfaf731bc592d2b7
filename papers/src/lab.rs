//! The second column: some runs are repeated with real daemons over an emulated air.
//!
//! Nothing here starts a lab: the caller gets the runs from [`cases`], runs them in a lab, and
//! hands in their reports. They are compared with the simulator under the same scenarios and not
//! with what was published, as a lab has the TCP of today's kernel.

use std::collections::BTreeMap;

use farhop_sim::engine::Report;

use crate::row::Band;
use crate::{Case, Effort, Estimate, Outcome, Paper, Results, Row, wildnet};

/// How far the simulator may be from the lab, relative to the lab.
pub const TOLERANCE: f64 = 0.10;
/// What precedes the name of the case in the name of its run.
const PREFIX: &str = "lab/";

/// The runs that a target needs in a lab; empty if none of its rows is measured there.
pub fn cases(paper: &Paper, target: &str, quick: bool) -> Vec<Case> {
    if paper.name == wildnet::PAPER.name { wildnet::lab_cases(target, quick) } else { Vec::new() }
}

/// Adds the results of a lab, and of the simulator with the same scenarios, to the rows of a
/// target. Reports are found by the names of their runs.
pub fn put_beside(
    paper: &Paper,
    outcome: &mut Outcome,
    effort: Effort,
    lab: &BTreeMap<String, Vec<Report>>,
    sim: &BTreeMap<String, Vec<Report>>,
) {
    let of_target: Vec<String> =
        cases(paper, outcome.target.id, effort.quick).into_iter().map(|case| case.key).collect();
    if of_target.is_empty() {
        return;
    }
    // Runs that a lab cannot do have no reports, and rows that need them get no second column.
    let all: Vec<String> =
        (outcome.target.cases)(effort).into_iter().map(|case| case.key).collect();
    let results = |reports: &BTreeMap<String, Vec<Report>>| {
        let of = |key: &String| {
            let found = reports.get(&format!("{PREFIX}{key}"));
            (key.clone(), found.cloned().unwrap_or_default())
        };
        Results::of_reports(all.iter().map(of).collect())
    };
    let measure = |reports| (outcome.target.judge)(effort, &results(reports)).measured;
    let (in_lab, in_sim) = (measure(lab), measure(sim));
    let expected = paper.expected();
    let rows = expected.iter().filter(|row| row.id == outcome.target.id);
    for (row, expected) in outcome.rows.iter_mut().zip(rows) {
        let find =
            |all: &[(String, _)]| all.iter().find(|(key, _)| *key == expected.key).map(|it| it.1);
        row.set_lab(expected, find(&in_lab), find(&in_sim));
    }
    outcome.rows.push(row_of_cases(outcome.target.id, &of_target, lab, sim));
}

/// A row that compares all cases one by one, so that none hides behind the least or the mean of
/// several. It fails too if a case has no run that was in time.
fn row_of_cases(
    target: &str,
    cases: &[String],
    lab: &BTreeMap<String, Vec<Report>>,
    sim: &BTreeMap<String, Vec<Report>>,
) -> Row {
    let mean = |reports: Option<&Vec<Report>>| {
        let reports = reports.map(Vec::as_slice).unwrap_or_default();
        let total =
            |report: &Report| report.flows.iter().map(|flow| flow.goodput_mbps).sum::<f64>();
        reports.iter().map(total).sum::<f64>() / reports.len() as f64
    };
    let ratios = cases.iter().map(|key| (key, mean(sim.get(key)) / mean(lab.get(key))));
    let apart = |ratio: f64| if ratio.is_nan() { f64::INFINITY } else { (ratio - 1.0).abs() };
    let furthest = ratios.max_by(|a, b| apart(a.1).total_cmp(&apart(b.1)));
    let (note, furthest) = furthest.map_or((String::new(), f64::NAN), |(key, ratio)| {
        let case = key.strip_prefix(PREFIX).unwrap_or(key);
        (format!("it is {case}"), ratio)
    });
    Row {
        id: target.to_owned(),
        what: format!(
            "goodput of each of {} cases, simulator over lab, furthest from 1",
            cases.len()
        ),
        published: "not in the paper".into(),
        ours: Estimate::exact(furthest),
        band: Band::default(),
        ok: true,
        unmeasured: false,
        note,
        known: false,
        lab: Some(Estimate::exact(1.0)),
        lab_sim: Some(Estimate::exact(furthest)),
        lab_ok: Some(apart(furthest) <= TOLERANCE),
    }
}

#[cfg(test)]
mod tests {
    use farhop_sim::engine::FlowReport;

    use super::*;
    fn report(mbps: f64) -> Report {
        let flow = FlowReport { goodput_mbps: mbps, ..FlowReport::default() };
        Report { flows: vec![flow], ..Report::default() }
    }

    /// The rows of a target whose runs all gave one goodput in the lab and another in the
    /// simulator.
    fn rows(target: &str, in_lab: f64, in_sim: f64) -> Vec<Row> {
        let effort = Effort { seeds: 1, quick: true };
        let paper = &wildnet::PAPER;
        let target = (paper.targets)().into_iter().find(|it| it.id == target).expect("a target");
        let all = |mbps: f64| -> BTreeMap<String, Vec<Report>> {
            let keys = cases(paper, target.id, true).into_iter().map(|case| case.key);
            keys.map(|key| (key, vec![report(mbps); 2])).collect()
        };
        let expected = paper.expected();
        let of_target = expected.iter().filter(|row| row.id == target.id);
        let rows = of_target.map(|row| Row::judge(row, Estimate::exact(1.0), effort)).collect();
        let mut outcome = Outcome { target, rows, figures: Vec::new(), tables: Vec::new() };
        put_beside(paper, &mut outcome, effort, &all(in_lab), &all(in_sim));
        outcome.rows
    }

    #[test]
    fn four_targets_of_wildnet_have_runs_in_the_lab_that_can_be_run() {
        let paper = &wildnet::PAPER;
        for (target, runs) in [("W-F9b", 24), ("W-F9c", 48), ("W-T2", 12), ("W-T3", 4), ("W-N4", 0)]
        {
            let cases = cases(paper, target, true);
            assert_eq!(cases.len(), runs, "{target}");
            for case in cases {
                assert_eq!(case.scenario.problems(), [], "{}", case.key);
            }
        }
    }

    #[test]
    fn the_lab_is_held_against_the_simulator() {
        let near = rows("W-F9b", 5.0, 5.2);
        let of = |row: &Row| (row.lab.map(|lab| lab.mean), row.lab_ok);
        assert_eq!(of(&near[0]), (Some(5.0), Some(true)));
        assert_eq!(of(&near[2]), (Some(0.0), None), "a rise of nothing is held against nothing");
        assert_eq!(near.last().and_then(|row| row.lab_ok), Some(true));
        let far = rows("W-F9b", 5.0, 6.0);
        assert_eq!(of(&far[0]), (Some(5.0), Some(false)));
        assert_eq!(far.last().and_then(|row| row.lab_ok), Some(false));
    }

    #[test]
    fn one_case_that_differs_or_was_never_in_time_is_enough() {
        let keys: Vec<String> = (0..4).map(|key| key.to_string()).collect();
        let all = |mbps: [f64; 4]| -> BTreeMap<String, Vec<Report>> {
            keys.iter().cloned().zip(mbps.map(|mbps| vec![report(mbps)])).collect()
        };
        let (lab, sim) = (all([1.0, 2.0, 3.0, 4.0]), all([1.0, 2.1, 3.0, 3.5]));
        let row = row_of_cases("W-F9b", &keys, &lab, &sim);
        assert_eq!((row.ours.mean, row.lab_ok), (0.875, Some(false)));
        assert_eq!(row_of_cases("W-F9b", &keys[..3], &lab, &sim).lab_ok, Some(true));
        let some = lab.into_iter().skip(1).collect();
        assert_eq!(row_of_cases("W-F9b", &keys[..3], &some, &sim).lab_ok, Some(false));
    }

    #[test]
    fn what_a_lab_cannot_run_has_no_second_column() {
        let rows = rows("W-T3", 5.0, 5.0);
        let with = rows.iter().filter(|row| row.lab.is_some()).map(|row| row.what.as_str());
        let with: Vec<&str> = with.collect();
        assert_eq!(with.len(), 7, "{with:?}");
        assert!(with[..6].iter().all(|what| what.starts_with("WiLDNet")), "{with:?}");
    }
}
