//! `farhop sim` of a scenario with a `[sweep]`: all its runs on all cores, taken up where they were
//! left.

mod points;
mod store;

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use farhop_proto::stack::Scenario;
use farhop_sim::engine::{self, Many, Report, RunOptions};

use self::points::Points;
use self::store::Store;
use crate::commands::print_text;
use crate::load::Loaded;
use crate::progress::Bar;
use crate::{Failure, interrupt, report};

pub(crate) use store::Line;

/// Runs that start without a question.
const MANY: u64 = 1_000;

/// How to run a sweep.
pub(crate) struct Options<'a> {
    pub(crate) json: bool,
    pub(crate) out: Option<&'a PathBuf>,
    pub(crate) seed: Option<u64>,
    pub(crate) threads: usize,
    /// Begin anew what the folder holds.
    pub(crate) fresh: bool,
    /// Do not ask, however many runs there are.
    pub(crate) yes: bool,
}

/// What the sweep of a scenario would do, for people.
///
/// Fails if a key of it does not exist or a value does not fit there.
pub(crate) fn describe(loaded: &Loaded) -> Result<String, Failure> {
    Ok(Points::build(loaded, None)?.describe())
}

/// Runs the sweep of a scenario.
pub(crate) fn run(loaded: &Loaded, options: &Options<'_>) -> Result<(), Failure> {
    let points = Points::build(loaded, options.seed)?;
    // First: a sweep that is refused leaves nothing in its folder.
    if points.runs() > MANY && !options.yes {
        ask(&points, options.threads)?;
    }
    let (mut store, done) = match options.out {
        Some(dir) => {
            let (store, done) = Store::open(dir, &loaded.text, options.fresh)?;
            (Some(store), done)
        }
        None => (None, Vec::new()),
    };
    let mut finished = Runs::build(&points, done, options.json)?;
    let todo: Vec<u64> =
        (0..points.runs()).filter(|index| !finished.lines.contains_key(index)).collect();
    let outcome = run_all(&loaded.scenario, &points, &todo, options, &mut |index, line| {
        let text = serde_json::to_string(&line).expect("a report is plain data");
        if let Some(store) = &mut store {
            store.add(&text)?;
        }
        finished.add(index, line, text)
    });
    let lines: Vec<Line> = finished.lines.into_values().collect();
    if let Some(dir) = options.out
        && !lines.is_empty()
    {
        report::sweep::write(dir, &loaded.scenario, &lines, &loaded.text)?;
    }
    if let Err(Failure::Interrupted) = outcome {
        say_what_is_kept(options.out, lines.len(), points.runs());
    }
    outcome?;
    if !options.json {
        report::sweep::print(&loaded.scenario, &lines, options.out)?;
    }
    Ok(())
}

/// What is finished, by its place, and what of it was printed.
struct Runs {
    lines: BTreeMap<u64, Line>,
    /// Lines to be printed, in the order of the runs, whatever the order in which they end.
    unprinted: Option<(u64, BTreeMap<u64, String>)>,
}

impl Runs {
    fn build(points: &Points, done: Vec<Line>, json: bool) -> Result<Self, Failure> {
        let mut runs = Self { lines: BTreeMap::new(), unprinted: json.then(Default::default) };
        let mut open: Vec<u64> = (0..points.runs()).collect();
        for line in done {
            // Finished runs stand nearly in the order in which they were begun.
            let place = open.iter().position(|index| line.is_of(&points.run(*index)));
            if let Some(place) = place {
                let index = open.remove(place);
                let text = serde_json::to_string(&line).expect("a report is plain data");
                runs.add(index, line, text)?;
            }
        }
        Ok(runs)
    }

    fn add(&mut self, index: u64, line: Line, text: String) -> Result<(), Failure> {
        self.lines.insert(index, line);
        let Some((next, waiting)) = &mut self.unprinted else { return Ok(()) };
        waiting.insert(index, text);
        while let Some(text) = waiting.remove(next) {
            print_text(&text)?;
            *next += 1;
        }
        Ok(())
    }
}

fn run_all(
    scenario: &Scenario,
    points: &Points,
    todo: &[u64],
    options: &Options<'_>,
    finished: &mut (dyn FnMut(u64, Line) -> Result<(), Failure> + Send),
) -> Result<(), Failure> {
    let bar = Bar::start(&format!("{}: {} runs", scenario.name, todo.len()));
    let total = scenario.duration_s * todo.len() as f64;
    let trouble = std::sync::Mutex::new(None);
    let job = |place: usize| {
        let run = points.scenario(todo[place]).unwrap_or_else(|failure| {
            // What runs in its place ends at once, and is not kept.
            if let Ok(mut trouble) = trouble.lock() {
                trouble.get_or_insert(failure);
            }
            scenario.clone()
        });
        (run, points.run(todo[place]).seed)
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
        let result = outcome.map_err(|error| Failure::Failed(error.to_string())).and_then(
            |report: Report| {
                let point = points.run(todo[place]).point;
                finished(todo[place], Line { point, report })
            },
        );
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
        _ => Ok(()),
    }
}

/// Says how many runs there are and how long they take, from the first one, and asks.
fn ask(points: &Points, threads: usize) -> Result<(), Failure> {
    let scenario = points.scenario(0)?;
    let begun = Instant::now();
    let progress = |_| !interrupt::has_come() && begun.elapsed().as_secs() < 20;
    let options = RunOptions { progress: Some(Box::new(progress)), ..RunOptions::default() };
    let length = match engine::run(&scenario, options) {
        Ok(report) => report.wall_s,
        Err(engine::RunError::Interrupted) if !interrupt::has_come() => {
            begun.elapsed().as_secs_f64()
        }
        Err(engine::RunError::Interrupted) => return Err(Failure::Interrupted),
        Err(error) => return Err(Failure::Failed(error.to_string())),
    };
    let job = |_: usize| unreachable!("it is only asked for its threads");
    let many = Many { runs: usize::MAX, threads, job: &job, progress: &|_| true };
    let seconds = length * points.runs() as f64 / many.threads() as f64;
    let what = format!(
        "this sweep has {} runs, about {} on {} threads",
        points.runs(),
        duration(seconds),
        many.threads()
    );
    if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
        return Err(Failure::Input(miette::miette!("{what}: --yes starts it")));
    }
    eprint!("{what}. Start it? [y/N] ");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::Interrupted),
    }
}

/// A time, as people say it.
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
    match out.map(|dir| Path::new(dir).join(store::RUNS)) {
        Some(file) => eprintln!(
            "{finished} of {runs} runs are kept in {}; the same command goes on from there",
            file.display()
        ),
        None => eprintln!("{finished} of {runs} runs were finished; --out DIR would keep them"),
    }
}
