//! `farhop sim` of a scenario with a `[sweep]`: makes all its runs on all cores, and resumes where
//! an earlier command stopped.

mod points;
mod store;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use farhop_proto::base::counted;
use farhop_proto::stack::Scenario;
use farhop_sim::engine::{self, Many, RunError, RunOptions};

use self::points::Points;
pub(crate) use self::points::Values;
pub(crate) use self::store::{Line, program_sum};
use self::store::{MadeBy, Place, Store};
use crate::commands::print_text;
use crate::load::Loaded;
use crate::progress::{Bar, tell};
use crate::{Failure, interrupt, report};

/// Most runs that start without a question.
const MANY: u64 = 1_000;
/// Longest trial of one run, from which the time of all is estimated.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often Ctrl-C is checked while waiting for an answer.
const LOOK: Duration = Duration::from_millis(100);

/// How to run a sweep.
pub(crate) struct Options<'a> {
    pub(crate) json: bool,
    pub(crate) out: Option<&'a PathBuf>,
    pub(crate) seed: Option<u64>,
    pub(crate) threads: usize,
    /// Drop the runs in the folder, and begin anew.
    pub(crate) fresh: bool,
    /// Start without asking, however many runs there are.
    pub(crate) yes: bool,
}

/// What the sweep of a scenario would do, as text.
///
/// Fails if one of its keys does not exist or a value does not fit there.
pub(crate) fn describe(loaded: &Loaded) -> Result<String, Failure> {
    Ok(Points::build(loaded, None)?.describe())
}

/// Whether a folder holds the runs of a sweep.
pub(crate) fn holds_runs(dir: &Path) -> bool {
    Store::is_in(dir)
}

/// A finished run, with only what is needed of all runs at once.
pub(crate) struct Finished {
    /// The names of the flows, in the order of the scenario; `goodputs` has theirs, in Mb/s.
    pub(crate) names: Arc<[String]>,
    pub(crate) goodputs: Vec<f64>,
    /// What all flows together delivered over the whole run, in Mb/s.
    pub(crate) carried: f64,
    /// Length of the run.
    pub(crate) seconds: f64,
    /// Where the whole report is in the file of the runs, if it is kept.
    place: Option<Place>,
}

/// Runs the sweep of a scenario.
pub(crate) fn run(loaded: &Loaded, options: &Options<'_>) -> Result<(), Failure> {
    let points = Points::build(loaded, options.seed)?;
    options.out.map_or(Ok(()), |dir| report::refuse_run(dir))?;
    let mut finished = Runs { json: options.json.then(Default::default), ..Runs::default() };
    let open = |finished: &mut Runs| {
        let open = |dir: &PathBuf| -> Result<_, Failure> {
            let folder = report::prepare(dir)?;
            Ok((open_store(dir, loaded, &points, options.fresh, finished)?, folder))
        };
        options.out.map(open).transpose()
    };
    // An existing folder is opened before the question, which then counts only the missing runs.
    // With a new folder or --fresh, a refused sweep must leave nothing there and drop nothing.
    let goes_on = !options.fresh && options.out.is_some_and(|dir| Store::is_in(dir));
    let store = if goes_on { open(&mut finished)? } else { None };
    let left = points.runs() - finished.runs.len() as u64;
    if !finished.runs.is_empty() {
        let (there, runs) = (finished.runs.len(), counted(points.runs(), "run"));
        tell(&format!("{there} of {runs} were there already; --fresh makes all of them anew"));
    }
    let is_left = |index: &u64| !finished.runs.contains_key(index);
    if left > MANY && !options.yes {
        ask(&points, left, (0..points.runs()).filter(is_left), options.threads)?;
    }
    let todo: Vec<u64> = (0..points.runs()).filter(is_left).collect();
    let mut store = if goes_on { store } else { open(&mut finished)? };
    if let Some(dir) = options.out.filter(|_| !todo.is_empty()) {
        // Whatever happens, nothing of other runs is to be found beside these.
        report::sweep::remove(dir);
    }
    let outcome = run_all(&loaded.scenario, &points, &todo, options, &mut |index, line| {
        let Some(line) = line else { return finished.skip(index) };
        let text = serde_json::to_string(&line).expect("a report is plain data");
        let place = store.as_mut().map(|(store, _)| store.add(&text)).transpose()?;
        finished.add(index, &line, place, || text)
    });
    finished.print_rest()?;
    let by_point = finished.by_point(&points);
    if let (Some(dir), Some((store, _))) = (options.out, &store)
        && !by_point.is_empty()
    {
        let refused = outcome.as_ref().ok().and_then(Option::as_ref);
        let all = points.runs() - refused.map_or(0, |refused| refused.runs as u64);
        report::sweep::write(dir, &loaded.scenario, &by_point, all, &loaded.text)?;
        if outcome.is_ok() {
            write_tables(dir, store, &finished)?;
        }
    }
    if let Err(Failure::Interrupted) = outcome {
        say_what_is_kept(options.out, finished.runs.len(), points.runs());
    }
    let refused = outcome?;
    if !options.json {
        report::sweep::print(&loaded.scenario, &by_point, options.out)?;
    }
    refused.map_or(Ok(()), |Refused { runs, first }| {
        let runs = counted(runs, "run");
        Err(Failure::Failed(format!("{runs} cannot be made; the first of them: {first}")))
    })
}

/// Runs of which the values do not fit together.
struct Refused {
    runs: usize,
    /// Why the first of them cannot be made.
    first: String,
}

/// Opens the folder of a sweep, and adds its finished runs to `finished`.
fn open_store(
    dir: &Path,
    loaded: &Loaded,
    points: &Points,
    fresh: bool,
    finished: &mut Runs,
) -> Result<Store, Failure> {
    let made_by = MadeBy::this(points.sums())?;
    Store::open(dir, &loaded.text, &made_by, fresh, &mut |line, place| {
        let index = points.index(&line.point, line.report.seed);
        match index.filter(|index| !finished.runs.contains_key(index)) {
            Some(index) => {
                let text = || serde_json::to_string(&line).expect("a report is plain data");
                finished.add(index, &line, Some(place), text)
            }
            // A run of another --seed, or of values that the sweep no longer has.
            None => Ok(()),
        }
    })
}

/// Writes the tables of all finished runs, reading the runs one by one.
fn write_tables(dir: &Path, store: &Store, finished: &Runs) -> Result<(), Failure> {
    let bar = Bar::start("tables");
    let mut round = 0;
    let outcome = report::columns::write(dir, &mut |on| {
        let count = finished.runs.len();
        for (place, run) in finished.runs.values().enumerate() {
            if interrupt::has_come() {
                return Err(Failure::Interrupted);
            }
            bar.fill((round * count + place) as f64 / (2 * count) as f64);
            if let Some(place) = run.place {
                on(&store.line(place)?)?;
            }
        }
        round += 1;
        Ok(())
    });
    bar.end();
    outcome
}

/// The finished runs by their index, and what of them was printed.
#[derive(Default)]
struct Runs {
    runs: BTreeMap<u64, Finished>,
    /// The next run to print and the lines that wait: they are printed in the order of the runs,
    /// not in that in which they end.
    json: Option<(u64, BTreeMap<u64, Option<String>>)>,
    /// The flows of the last run: nearly all runs have the same ones and share them.
    names: Arc<[String]>,
}

impl Runs {
    fn add(
        &mut self,
        index: u64,
        line: &Line,
        place: Option<Place>,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        let flows = &line.report.flows;
        if !self.names.iter().eq(flows.iter().map(|flow| &flow.name)) {
            self.names = flows.iter().map(|flow| flow.name.clone()).collect();
        }
        let run = Finished {
            names: Arc::clone(&self.names),
            goodputs: flows.iter().map(|flow| flow.goodput_mbps).collect(),
            carried: line.report.carried_mbps(),
            seconds: line.report.simulated_s,
            place,
        };
        self.runs.insert(index, run);
        self.print(index, || Some(text()))
    }

    /// Leaves out a run that cannot be made.
    fn skip(&mut self, index: u64) -> Result<(), Failure> {
        self.print(index, || None)
    }

    /// Prints the line of a run, if it has one, as soon as those of all runs before it are printed.
    fn print(&mut self, index: u64, text: impl FnOnce() -> Option<String>) -> Result<(), Failure> {
        let Some((next, waiting)) = &mut self.json else { return Ok(()) };
        waiting.insert(index, text());
        while let Some(text) = waiting.remove(next) {
            text.as_deref().map_or(Ok(()), print_text)?;
            *next += 1;
        }
        Ok(())
    }

    /// Prints the lines that wait for others that never came.
    fn print_rest(&mut self) -> Result<(), Failure> {
        let waiting = self.json.take().map(|(_, waiting)| waiting).unwrap_or_default();
        waiting.values().flatten().try_for_each(|text| print_text(text))
    }

    /// The runs of each point, in the order of the sweep.
    fn by_point(&self, points: &Points) -> Vec<(Values, Vec<&Finished>)> {
        let mut by_point: Vec<(Values, Vec<&Finished>)> = Vec::new();
        let mut last = None;
        for (index, run) in &self.runs {
            if last.replace(index / points.seeds()) != Some(index / points.seeds()) {
                by_point.push((points.values(*index), Vec::new()));
            }
            by_point.last_mut().expect("one was begun").1.push(run);
        }
        by_point
    }
}

/// Makes the runs, and returns those that cannot be made, if there are any.
fn run_all(
    scenario: &Scenario,
    points: &Points,
    todo: &[u64],
    options: &Options<'_>,
    finished: &mut (dyn FnMut(u64, Option<Line>) -> Result<(), Failure> + Send),
) -> Result<Option<Refused>, Failure> {
    let bar = Bar::start(&format!("{}: {}", scenario.name, counted(todo.len(), "run")));
    let total: f64 = todo.iter().map(|index| points.seconds(*index)).sum();
    let trouble = Mutex::new(None);
    let refused = Mutex::new(BTreeMap::new());
    let job = |place: usize| match points.scenario(todo[place]) {
        Ok(run) => Some((run, points.seed(todo[place]))),
        Err(why) => {
            refused.lock().expect("nobody panics with it").insert(place, why);
            None
        }
    };
    let is_over = || interrupt::has_come() || trouble.lock().is_ok_and(|it| it.is_some());
    let progress = |seconds: f64| {
        bar.fill(seconds / total);
        !is_over()
    };
    let many = Many { runs: todo.len(), threads: options.threads, job: &job, progress: &progress };
    many.run(&mut |place, outcome| {
        if trouble.lock().is_ok_and(|it| it.is_some()) {
            return;
        }
        let line = |report| Some(Line { point: points.values(todo[place]), report });
        let result = match outcome {
            Ok(report) => finished(todo[place], line(report)),
            Err(RunError::LeftOut) => finished(todo[place], None),
            Err(error) => Err(Failure::Failed(error.to_string())),
        };
        if let Err(failure) = result
            && let Ok(mut trouble) = trouble.lock()
        {
            trouble.get_or_insert(failure);
        }
    });
    bar.end();
    match trouble.into_inner() {
        Ok(Some(failure)) => Err(failure),
        _ if interrupt::has_come() => Err(Failure::Interrupted),
        _ => {
            let refused = refused.into_inner().expect("nobody panics with it");
            let runs = refused.len();
            Ok(refused.into_values().next().map(|first| Refused { runs, first }))
        }
    }
}

/// Tells how many runs are left and how long they will take, estimated from the first, and asks.
fn ask(
    points: &Points,
    left: u64,
    mut todo: impl Iterator<Item = u64>,
    threads: usize,
) -> Result<(), Failure> {
    let can_run = |index: &u64| points.scenario(*index).is_ok();
    // Where none can, there is nothing to ask.
    let Some(first) = todo.find(can_run) else { return Ok(()) };
    let length = length_of(points, first)?;
    let job = |_: usize| unreachable!("it is only asked for its threads");
    let many = Many { runs: usize::MAX, threads, job: &job, progress: &|_| true };
    let seconds = length * left as f64 / many.threads() as f64;
    let of_all = if left < points.runs() { " left" } else { "" };
    let what = format!(
        "this sweep has {}{of_all}, about {} on {}",
        counted(left, "run"),
        duration(seconds),
        counted(many.threads(), "thread")
    );
    if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
        return Err(Failure::Input(miette::miette!("{what}: --yes starts it")));
    }
    // The user can answer even if the question cannot be printed.
    let _ = write!(std::io::stderr(), "{what}. Start it? [y/N] ");
    match answer()?.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::Interrupted),
    }
}

/// How long a run takes, in seconds. A long run is only begun, and its length extrapolated.
fn length_of(points: &Points, index: u64) -> Result<f64, Failure> {
    let scenario = points.scenario(index).map_err(Failure::Failed)?;
    let (begun, reached) = (Instant::now(), Cell::new(0.0_f64));
    let progress = |seconds: f64| {
        reached.set(seconds);
        !interrupt::has_come() && begun.elapsed() < PATIENCE
    };
    let options = RunOptions { progress: Some(Box::new(progress)), ..RunOptions::default() };
    match engine::run(&scenario, options) {
        Ok(report) => Ok(report.wall_s),
        Err(engine::RunError::Interrupted) if !interrupt::has_come() => {
            let done = (reached.get() / scenario.duration_s).clamp(1e-9, 1.0);
            Ok(begun.elapsed().as_secs_f64() / done)
        }
        Err(engine::RunError::Interrupted) => Err(Failure::Interrupted),
        Err(error) => Err(Failure::Failed(error.to_string())),
    }
}

/// A line from the user. It is read in a thread, so that this one notices Ctrl-C.
fn answer() -> Result<String, Failure> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut answer = String::new();
        let read = std::io::stdin().read_line(&mut answer);
        // After Ctrl-C nobody waits for it any more.
        let _ = sender.send(read.map(|_| answer));
    });
    loop {
        match receiver.recv_timeout(LOOK) {
            Ok(answer) => return Ok(answer?),
            Err(mpsc::RecvTimeoutError::Timeout) if !interrupt::has_come() => {}
            Err(_) => return Err(Failure::Interrupted),
        }
    }
}

/// A length of time in a readable unit.
fn duration(seconds: f64) -> String {
    let (value, unit) = match seconds {
        ..120.0 => (seconds, "s"),
        ..7_200.0 => (seconds / 60.0, "min"),
        ..172_800.0 => (seconds / 3_600.0, "h"),
        _ => (seconds / 86_400.0, "days"),
    };
    format!("{value:.0} {unit}")
}

fn say_what_is_kept(out: Option<&PathBuf>, finished: usize, runs: u64) {
    let out = out.filter(|_| finished > 0);
    match out.map(|dir| Path::new(dir).join(store::RUNS)) {
        Some(file) => tell(&format!(
            "{finished} of {} kept in {}; the same command goes on from there",
            counted(runs, "run"),
            file.display()
        )),
        None => {
            let runs = counted(runs, "run");
            let keep = if finished > 0 { "; --out DIR would keep them" } else { "" };
            tell(&format!("{finished} of {runs} finished{keep}"));
        }
    }
}
