//! Many runs on all cores, each on a single thread, so that its result is the same as alone.

use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use farhop_proto::stack::Scenario;

use super::report::Report;
use super::run::{RunError, RunOptions, run};

/// A number of runs to be done.
pub struct Many<'a> {
    /// How many there are.
    pub runs: usize,
    /// Threads to run on; 0 means one for each core.
    pub threads: usize,
    /// The scenario and the seed of the run with this index; `None` leaves it out, and its result
    /// is [`RunError::LeftOut`].
    pub job: &'a (dyn Fn(usize) -> Option<(Scenario, u64)> + Sync),
    /// Called now and then with the simulated time of all runs together, in seconds; if it returns
    /// false, all runs end early.
    pub progress: &'a (dyn Fn(f64) -> bool + Sync),
}

/// Called with the index and the result of each run that ends.
pub type Finished<'a> = dyn FnMut(usize, Result<Report, RunError>) + Send + 'a;

impl Many<'_> {
    /// The number of threads that it runs on.
    pub fn threads(&self) -> usize {
        let cores = || thread::available_parallelism().map_or(1, NonZero::get);
        let wanted = if self.threads == 0 { cores() } else { self.threads };
        wanted.clamp(1, self.runs.max(1))
    }

    /// Does all runs, started in their order, and passes each to `finished` when it ends, one at a
    /// time. Runs that are interrupted are left out.
    pub fn run(&self, finished: &mut Finished<'_>) {
        let next = AtomicUsize::new(0);
        let simulated_ms = AtomicU64::new(0);
        let finished = Mutex::new(finished);
        let work = || {
            while let index = next.fetch_add(1, Ordering::Relaxed)
                && index < self.runs
            {
                let outcome = self.run_one(index, &simulated_ms);
                if matches!(outcome, Err(RunError::Interrupted)) {
                    return;
                }
                let mut finished = finished.lock().expect("nobody panics while handing over");
                finished(index, outcome);
            }
        };
        thread::scope(|scope| {
            for _ in 1..self.threads() {
                scope.spawn(work);
            }
            work();
        });
    }

    fn run_one(&self, index: usize, simulated_ms: &AtomicU64) -> Result<Report, RunError> {
        let (scenario, seed) = (self.job)(index).ok_or(RunError::LeftOut)?;
        let mut told = 0;
        let progress = |seconds: f64| {
            let now = (seconds * 1e3) as u64;
            let before = simulated_ms.fetch_add(now - told, Ordering::Relaxed);
            let sum = before + now - told;
            told = now;
            (self.progress)(sum as f64 / 1e3)
        };
        let progress: Option<Box<dyn FnMut(f64) -> bool + '_>> = Some(Box::new(progress));
        run(&scenario, RunOptions { seed: Some(seed), progress, ..RunOptions::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(threads: usize) -> Vec<String> {
        let scenario = farhop_testkit::scenario(include_str!("../../../scenarios/demo.toml"));
        let length = Scenario { duration_s: 2.0, ..scenario };
        let job = |index: usize| Some((length.clone(), index as u64));
        let many = Many { runs: 5, threads, job: &job, progress: &|_| true };
        let mut hashes = vec![String::new(); 5];
        many.run(&mut |index, outcome| {
            hashes[index] = outcome.expect("it runs").trace_hash.expect("the simulator hashes");
        });
        hashes
    }

    #[test]
    fn runs_are_the_same_on_one_thread_and_on_two() {
        let alone = hashes(1);
        assert_eq!(alone, hashes(2));
        assert_ne!(alone[0], alone[1]);
    }

    #[test]
    fn an_early_end_hands_over_what_was_finished() {
        let scenario = farhop_testkit::scenario(include_str!("../../../scenarios/demo.toml"));
        let length = Scenario { duration_s: 1.0, ..scenario };
        let job = |index: usize| (index != 1).then(|| (length.clone(), index as u64));
        let many = Many { runs: 50, threads: 1, job: &job, progress: &|seconds| seconds < 3.5 };
        let mut finished = Vec::new();
        many.run(&mut |index, outcome| finished.push((index, outcome.is_ok())));
        assert_eq!(
            finished,
            [(0, true), (1, false), (2, true), (3, true)],
            "the second was left out"
        );
    }
}
