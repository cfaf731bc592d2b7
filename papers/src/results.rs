//! The runs of cases, and their results.

use std::collections::BTreeMap;

use farhop_proto::stack::Scenario;
use farhop_sim::engine::{FlowReport, Many, Report};

use crate::estimate::Estimate;

/// A scenario that is run with several seeds.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name; cases with the same name are one.
    pub key: String,
    /// What is run.
    pub scenario: Scenario,
    /// Changes the scenario for each seed, in addition to the random draws of the run.
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

    /// With a change of the scenario for each seed.
    pub fn vary(self, vary: fn(&mut Scenario, u64)) -> Self {
        Self { vary, ..self }
    }

    /// The scenario for a seed.
    pub fn with_seed(&self, seed: u64) -> Scenario {
        let mut scenario = self.scenario.clone();
        (self.vary)(&mut scenario, seed);
        scenario
    }
}

/// All runs of some targets, each done once.
#[derive(Debug)]
pub struct Runs {
    cases: Vec<Case>,
    seeds: usize,
}

/// Storage for finished runs, so that an interrupted set of runs can be continued.
pub trait Kept: Send {
    /// The report of a run, if it is stored.
    fn get(&mut self, scenario: &Scenario, seed: u64) -> Option<Report>;

    /// Stores the report of a run.
    fn add(&mut self, scenario: &Scenario, seed: u64, report: &Report);
}

/// Stores nothing.
impl Kept for () {
    fn get(&mut self, _: &Scenario, _: u64) -> Option<Report> {
        None
    }

    fn add(&mut self, _: &Scenario, _: u64, _: &Report) {}
}

/// The progress callback ended the runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;

impl Runs {
    /// The runs of these cases; cases with the same name are run once.
    ///
    /// Panics if two different scenarios have the same name.
    pub fn new(cases: impl IntoIterator<Item = Case>, seeds: usize) -> Self {
        let mut by_key: BTreeMap<String, Case> = BTreeMap::new();
        for case in cases {
            let known = by_key.entry(case.key.clone()).or_insert_with(|| case.clone());
            assert_eq!(known.scenario, case.scenario, "two scenarios called {}", case.key);
        }
        let mut cases: Vec<Case> = by_key.into_values().collect();
        // The longest first, so that none runs alone on one core at the end.
        cases.sort_by(|a, b| b.scenario.duration_s.total_cmp(&a.scenario.duration_s));
        Self { cases, seeds: seeds.max(1) }
    }

    /// Number of runs.
    pub fn count(&self) -> usize {
        self.cases.len() * self.seeds
    }

    /// Does all runs that are not in `kept`, on `threads` threads (0: all cores). `progress` is
    /// called with the finished fraction now and then; if it returns false, everything ends.
    ///
    /// Panics if a scenario cannot be run, which tests of every paper rule out.
    pub fn run(
        self,
        threads: usize,
        kept: &mut dyn Kept,
        progress: &(dyn Fn(f64) -> bool + Sync),
    ) -> Result<Results, Interrupted> {
        let seeds = self.seeds;
        let of = |index: usize| {
            let seed = (index % seeds) as u64 + 1;
            (self.cases[index / seeds].with_seed(seed), seed)
        };
        let mut reports: Vec<Option<Report>> = (0..self.count())
            .map(|index| {
                let (scenario, seed) = of(index);
                kept.get(&scenario, seed)
            })
            .collect();
        let mut left: Vec<usize> =
            (0..self.count()).filter(|index| reports[*index].is_none()).collect();
        // All cases with the first seed, then with the next, and so on: a simulated second takes
        // far longer in some cases than in others, and in this order the time that is left can be
        // estimated from what was done.
        left.sort_by_key(|index| index % seeds);
        let seconds = |index: usize| self.cases[index / seeds].scenario.duration_s;
        let all: f64 = (0..self.count()).map(seconds).sum();
        let before = all - left.iter().map(|index| seconds(*index)).sum::<f64>();
        let progress = |seconds: f64| progress((before + seconds) / all);
        let job = |place: usize| Some(of(left[place]));
        let many = Many { runs: left.len(), threads, job: &job, progress: &progress };
        many.run(&mut |place, outcome| {
            let report = outcome.expect("every scenario of a paper is tested");
            let (scenario, seed) = of(left[place]);
            kept.add(&scenario, seed, &report);
            reports[left[place]] = Some(report);
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

/// The reports of all runs.
#[derive(Clone, Debug, Default)]
pub struct Results {
    reports: BTreeMap<String, Vec<Report>>,
    seeds: usize,
}

/// The reports of one seed.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    results: &'a Results,
    seed: usize,
}

impl Results {
    /// Takes existing reports, by the names of their cases. Of each case it uses as many as every
    /// case with reports has. Cases without reports yield NaN.
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

    /// A number that is computed for each seed, as an estimate over all seeds.
    pub fn over_seeds(&self, number: impl Fn(At<'_>) -> f64) -> Estimate {
        let values: Vec<f64> =
            (0..self.seeds).map(|seed| number(At { results: self, seed })).collect();
        Estimate::of(&values)
    }

    /// How many times one number is another, as the papers print it: both as means over all seeds.
    pub fn ratio(&self, over: impl Fn(At<'_>) -> f64, under: impl Fn(At<'_>) -> f64) -> Estimate {
        let all = |number: &dyn Fn(At<'_>) -> f64| -> Vec<f64> {
            (0..self.seeds).map(|seed| number(At { results: self, seed })).collect()
        };
        Estimate::ratio(&all(&over), &all(&under))
    }

    /// Calls `look` with the results of each seed, in their order.
    pub fn each_seed<'a>(&'a self, mut look: impl FnMut(At<'a>)) {
        (0..self.seeds).for_each(|seed| look(At { results: self, seed }));
    }

    /// A number from the reports of one case, over all seeds.
    pub fn of(&self, key: &str, number: impl Fn(&Report) -> f64) -> Estimate {
        self.over_seeds(|at| number(at.report(key)))
    }

    /// The largest value of a number over the reports of one case.
    pub fn largest(&self, key: &str, number: impl Fn(&Report) -> f64) -> Estimate {
        let mut largest = f64::NEG_INFINITY;
        self.each_seed(|at| {
            let value = number(at.report(key));
            // A NaN stays.
            largest = if value > largest || value.is_nan() { value } else { largest };
        });
        Estimate::exact(largest)
    }

    /// Something from the report of a case with the first seed.
    pub fn first<T>(&self, key: &str, of: impl Fn(&Report) -> T) -> T {
        of(At { results: self, seed: 0 }.report(key))
    }

    /// Total goodput of all flows of a case, in Mb/s.
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

    /// Total goodput of all flows of a case, in Mb/s.
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
        let results = runs.run(2, &mut (), &|_| true).expect("nobody ends it");
        let seconds = results.of("a", |report| report.simulated_s).mean;
        assert!((seconds - 0.1).abs() < 1e-9, "{seconds}");
        let seeds = results.of("b", |report| report.seed as f64);
        assert_eq!((seeds.mean, seeds.seeds), (2.0, 3));
        assert!(results.total("b").mean > 5.0);
    }

    /// Runs by the names of their scenarios and their seeds.
    #[derive(Default)]
    struct InMemory(BTreeMap<(String, u64), Report>);

    impl Kept for InMemory {
        fn get(&mut self, scenario: &Scenario, seed: u64) -> Option<Report> {
            self.0.get(&(scenario.name.clone(), seed)).cloned()
        }

        fn add(&mut self, scenario: &Scenario, seed: u64, report: &Report) {
            let before = self.0.insert((scenario.name.clone(), seed), report.clone());
            assert!(before.is_none(), "no run is made twice");
        }
    }

    #[test]
    fn whoever_is_told_the_progress_can_end_it_and_what_was_done_is_not_made_again() {
        let runs = || Runs::new([case("a", 5.0), case("b", 5.0)], 2);
        let mut kept = InMemory::default();
        let ended = runs().run(1, &mut kept, &|fraction| fraction < 0.6);
        assert_eq!((ended.err(), kept.0.len()), (Some(Interrupted), 2));
        let least = std::sync::Mutex::new(1.0_f64);
        let progress = |fraction: f64| {
            let mut least = least.lock().expect("nobody panics");
            *least = least.min(fraction);
            true
        };
        let again = runs().run(1, &mut kept, &progress).expect("nobody ends it");
        assert!(*least.lock().expect("nobody panics") >= 0.5, "half was done");
        let at_once = runs().run(1, &mut (), &|_| true).expect("nobody ends it");
        for key in ["a", "b"] {
            assert_eq!(again.total(key).mean, at_once.total(key).mean);
        }
    }
}
