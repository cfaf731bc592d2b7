//! Runs and what came of them.

use std::collections::BTreeMap;

use farhop_proto::stack::Scenario;
use farhop_sim::engine::{FlowReport, Many, Report};

use crate::estimate::Estimate;

/// A scenario that is run with several seeds.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name; cases of one name are one.
    pub key: String,
    /// What is run.
    pub scenario: Scenario,
    /// What differs from seed to seed beside the draws of the run.
    pub vary: fn(&mut Scenario, u64),
}

fn vary_nothing(_: &mut Scenario, _: u64) {}

impl Case {
    /// A scenario under a name.
    pub fn new(key: impl Into<String>, scenario: Scenario) -> Self {
        let key = key.into();
        let scenario = Scenario { name: key.clone(), ..scenario };
        Self { key, scenario, vary: vary_nothing }
    }

    /// The same, and something else with each seed.
    pub fn vary(self, vary: fn(&mut Scenario, u64)) -> Self {
        Self { vary, ..self }
    }

    /// What is run with a seed.
    pub fn with_seed(&self, seed: u64) -> Scenario {
        let mut scenario = self.scenario.clone();
        (self.vary)(&mut scenario, seed);
        scenario
    }
}

/// All runs of some targets, each once.
#[derive(Debug)]
pub struct Runs {
    cases: Vec<Case>,
    seeds: usize,
}

/// Somebody ended the runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;

impl Runs {
    /// The runs of these cases; those of one name are made once.
    ///
    /// Panics if two scenarios have one name.
    pub fn new(cases: impl IntoIterator<Item = Case>, seeds: usize) -> Self {
        let mut by_key: BTreeMap<String, Case> = BTreeMap::new();
        for case in cases {
            let known = by_key.entry(case.key.clone()).or_insert_with(|| case.clone());
            assert_eq!(known.scenario, case.scenario, "two scenarios called {}", case.key);
        }
        let mut cases: Vec<Case> = by_key.into_values().collect();
        // The longest first, so that none is left alone on one core at the end.
        cases.sort_by(|a, b| b.scenario.duration_s.total_cmp(&a.scenario.duration_s));
        Self { cases, seeds: seeds.max(1) }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.cases.len() * self.seeds
    }

    /// Makes them on so many threads, all cores if it is zero. `progress` is told the finished
    /// fraction now and then; everything ends when it returns false.
    ///
    /// Panics if a scenario cannot be run, which tests of every paper rule out.
    pub fn run(
        self,
        threads: usize,
        progress: &(dyn Fn(f64) -> bool + Sync),
    ) -> Result<Results, Interrupted> {
        let seeds = self.seeds;
        let job = |index: usize| {
            let seed = (index % seeds) as u64 + 1;
            (self.cases[index / seeds].with_seed(seed), seed)
        };
        let all: f64 = self.cases.iter().map(|case| case.scenario.duration_s).sum();
        let all = all * seeds as f64;
        let progress = |seconds: f64| progress(seconds / all);
        let many = Many { runs: self.count(), threads, job: &job, progress: &progress };
        let mut reports: Vec<Option<Report>> = vec![None; self.count()];
        many.run(&mut |index, outcome| {
            reports[index] = Some(outcome.expect("every scenario of a paper is tested"));
        });
        let mut reports: Vec<Report> = reports.into_iter().flatten().collect();
        if reports.len() < self.count() {
            return Err(Interrupted);
        }
        let mut results = Results { reports: BTreeMap::new(), seeds };
        for case in self.cases {
            let rest = reports.split_off(seeds);
            results.reports.insert(case.key, std::mem::replace(&mut reports, rest));
        }
        Ok(results)
    }
}

/// What came of all runs.
#[derive(Clone, Debug, Default)]
pub struct Results {
    reports: BTreeMap<String, Vec<Report>>,
    seeds: usize,
}

/// The results of one seed.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    results: &'a Results,
    seed: usize,
}

impl Results {
    /// Reports that somebody else has, by the names of their cases: of each the first so many as all
    /// have. Cases without any give what is no number.
    pub(crate) fn of_reports(mut reports: BTreeMap<String, Vec<Report>>) -> Self {
        let seeds = reports.values().map(Vec::len).filter(|count| *count > 0).min().unwrap_or(1);
        let flow = FlowReport { goodput_mbps: f64::NAN, ..FlowReport::default() };
        let nothing = Report { flows: vec![flow], ..Report::default() };
        reports.values_mut().for_each(|of_case| of_case.resize(seeds, nothing.clone()));
        Self { reports, seeds }
    }

    /// The reports, by the names of their cases.
    pub fn into_reports(self) -> BTreeMap<String, Vec<Report>> {
        self.reports
    }

    /// A number of each seed's runs, over all seeds.
    pub fn over_seeds(&self, number: impl Fn(At<'_>) -> f64) -> Estimate {
        let values: Vec<f64> =
            (0..self.seeds).map(|seed| number(At { results: self, seed })).collect();
        Estimate::of(&values)
    }

    /// Looks at the results of each seed, in their order.
    pub fn each_seed<'a>(&'a self, mut look: impl FnMut(At<'a>)) {
        (0..self.seeds).for_each(|seed| look(At { results: self, seed }));
    }

    /// A number of the report of one case, over all seeds.
    pub fn of(&self, key: &str, number: impl Fn(&Report) -> f64) -> Estimate {
        self.over_seeds(|at| number(at.report(key)))
    }

    /// Something of the report of a case with the first seed.
    pub fn first<T>(&self, key: &str, of: impl Fn(&Report) -> T) -> T {
        of(At { results: self, seed: 0 }.report(key))
    }

    /// Goodput of all flows of a case, in Mb/s.
    pub fn total(&self, key: &str) -> Estimate {
        self.of(key, Report::total_mbps)
    }
}

impl<'a> At<'a> {
    /// The report of a case.
    ///
    /// Panics if there was no such case.
    pub fn report(self, key: &str) -> &'a Report {
        let reports = self.results.reports.get(key);
        &reports.unwrap_or_else(|| panic!("nothing was run as {key}"))[self.seed]
    }

    /// Goodput of all flows of a case, in Mb/s.
    pub fn total(self, key: &str) -> f64 {
        self.report(key).total_mbps()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(key: &str, seconds: f64) -> Case {
        let text = "name = \"x\"\nnode = [{ name = \"a\" }, { name = \"b\" }]\n\
                    flow = [{ from = \"a\", to = \"b\", kind = \"udp\" }]\n\
                    link = [{ between = [\"a\", \"b\"] }]\n";
        let mut scenario: Scenario = toml::from_str(text).expect("a good scenario");
        scenario.duration_s = seconds;
        Case::new(key, scenario)
    }

    #[test]
    fn a_case_of_two_targets_runs_once_and_with_every_seed() {
        let runs = Runs::new([case("b", 0.2), case("a", 0.1), case("b", 0.2)], 3);
        assert_eq!(runs.count(), 6);
        let results = runs.run(2, &|_| true).expect("nobody ends it");
        let seconds = results.of("a", |report| report.simulated_s).mean;
        assert!((seconds - 0.1).abs() < 1e-9, "{seconds}");
        let seeds = results.of("b", |report| report.seed as f64);
        assert_eq!((seeds.mean, seeds.seeds), (2.0, 3));
        assert!(results.total("b").mean > 5.0);
    }

    #[test]
    fn whoever_is_told_the_progress_can_end_it() {
        let runs = Runs::new([case("a", 5.0)], 4);
        assert_eq!(runs.run(1, &|fraction| fraction < 0.3).err(), Some(Interrupted));
    }
}
