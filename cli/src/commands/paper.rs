//! `farhop paper`: repeats the experiments of a paper.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Instant;

use farhop_papers::{Effort, Outcome, PAPERS, Paper, Row, Runs, Target, lab};
use farhop_proto::base::counted;

use super::paper_runs::{self, UntilDone};
use super::{paper_lab, print_json, print_text};
use crate::progress::Bar;
use crate::whole::NewFolder;
use crate::{Failure, interrupt, report};

/// Seeds of each run without `--quick`.
const SEEDS: usize = 10;
/// Seeds of each run with `--quick`.
const QUICK_SEEDS: usize = 2;

/// File of a paper's report in its folder.
const REPORT: &str = "paper.json";

/// Runs of each case in a lab, unless `--seeds` or `--quick` says otherwise.
const LAB_RUNS: usize = 5;

/// Repeats the experiments of a paper and compares its results with ours.
///
/// Every table, figure and number is a row: the published value, ours with its deviation over
/// seeds, and the band in which ours must lie. Exit status 1 if a row is outside its band. After
/// Ctrl-C the same command continues with the runs that are not done.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    farhop paper                              the papers\n  \
    farhop paper wildnet --quick              shorter runs of fewer seeds, in a minute\n  \
    farhop paper wildnet --out wildnet/       every row, and a page with every figure\n  \
    farhop paper wildnet --lab --out wildnet/ some rows with real daemons too\n  \
    farhop paper hop --out hop/               the same of Hop: some minutes\n  \
    farhop paper wildnet --only W-F9b --json | jq '.rows[] | select(.ok | not)'")]
pub(crate) struct Options {
    /// The paper; without it all papers are listed.
    name: Option<String>,
    /// Make shorter runs, with fewer seeds.
    #[arg(long)]
    quick: bool,
    /// Print the rows as JSON.
    #[arg(long)]
    json: bool,
    /// Write paper.html, paper.json and the figures into this folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Only this target: W-F9b, or W-F9 for all whose id begins with it. May be given several
    /// times.
    #[arg(long, value_name = "ID")]
    only: Vec<String>,
    /// Also run W-F9b, W-F9c, W-T2 and W-T3 with real daemons over an emulated air, 20 s each and
    /// five times (or as often as --seeds says; with --quick once, for 5 s). Finished runs are kept
    /// and not repeated.
    #[arg(long)]
    lab: bool,
    /// Tolerate rows that are known to be outside their band; only other rows give exit status 1.
    #[arg(long)]
    known: bool,
    /// Seeds of each run; 10 by default, 2 with --quick.
    #[arg(long, value_name = "N")]
    #[arg(value_parser = super::whole::<u16>(1..=1000), allow_negative_numbers = true)]
    seeds: Option<u16>,
    /// Runs in parallel; by default one for each core.
    #[arg(long, value_name = "N", value_parser = super::how_many, allow_negative_numbers = true)]
    jobs: Option<NonZeroUsize>,
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let Some(name) = &options.name else { return list(options) };
    let paper = find(name)?;
    let targets = chosen(paper, &options.only)?;
    if options.lab {
        refuse_without_lab(paper, &targets)?;
    }
    let seeds = options.seeds.map_or(if options.quick { QUICK_SEEDS } else { SEEDS }, usize::from);
    let effort = Effort { seeds, quick: options.quick };
    let _folder = options.out.as_deref().map(|dir| prepare(dir, paper)).transpose()?;
    interrupt::watch();
    let begun = Instant::now();
    let threads = options.jobs.map_or(0, NonZeroUsize::get);
    let dir = paper_runs::folder(options.out.as_deref(), paper);
    let mut kept = UntilDone::open(&dir);
    let mut outcomes = make(paper, &targets, effort, threads, &mut kept)?;
    if options.lab {
        let repeats = options.seeds.map_or(if options.quick { 1 } else { LAB_RUNS }, usize::from);
        let effort = Effort { seeds: repeats, ..effort };
        paper_lab::put_beside(paper, &mut outcomes, effort, &dir, (threads, &mut kept))?;
    }
    kept.end();
    let wall_s = begun.elapsed().as_secs_f64();
    let rows: Vec<&Row> = outcomes.iter().flat_map(|outcome| &outcome.rows).collect();
    let missed = rows.iter().filter(|row| !row.ok).count();
    let known = rows.iter().filter(|row| !row.ok && row.known).count();
    let open = rows.iter().filter(|row| row.band.is_open()).count();
    let apart = rows.iter().filter(|row| row.lab_ok == Some(false)).count();
    let tables: Vec<_> = outcomes.iter().flat_map(|outcome| &outcome.tables).collect();
    let json = serde_json::json!({
        "paper": paper.name, "version": env!("CARGO_PKG_VERSION"), "quick": options.quick,
        "seeds": seeds, "wall_s": wall_s, "missed": missed, "apart": apart,
        "rows": rows, "tables": tables,
    });
    let write = |dir: &PathBuf| write(dir, paper, &outcomes, &json, effort);
    let written = options.out.as_ref().map_or(Ok(()), write);
    if options.json {
        print_json(&json)?;
    } else {
        print_text(&report::paper::text(&outcomes))?;
        let known = if known > 0 { format!(" ({known} of them known)") } else { String::new() };
        let open = if open > 0 { format!(", {open} without a band") } else { String::new() };
        print_text(&format!(
            "{}, {missed} outside their band{known}{open}; {wall_s:.0} s, {}",
            counted(rows.len(), "row"),
            counted(seeds, "seed")
        ))?;
        if options.lab {
            let apart = counted(apart, "row");
            print_text(&format!("{apart} in which lab and sim are apart by more than 10%"))?;
        }
    }
    written?;
    if let Some(dir) = options.out.as_ref().filter(|_| !options.json) {
        print_text(&dir.join("paper.html").display().to_string())?;
    }
    let pardoned = if options.known { known } else { 0 };
    let why = why_outside(options.quick, missed, known, options.known);
    end(missed - pardoned, &why, apart, rows.len())
}

/// What to say of rows outside their band, some of which are known to be, and may be tolerated.
fn why_outside(is_quick: bool, missed: usize, known: usize, are_pardoned: bool) -> String {
    let chance = if is_quick { "; short runs of few seeds may be so by chance" } else { "" };
    match (missed - known, known) {
        (_, 0) => chance.into(),
        (_, known) if are_pardoned => format!(", beside {known} that are known{chance}"),
        (0, _) => ", all known, for the reasons in the report: --known lets them pass".into(),
        (_, known) => format!(", {known} of them known{chance}"),
    }
}

/// The outcome, given the number of rows outside their band and of rows where lab and sim differ.
fn end(missed: usize, why: &str, apart: usize, all: usize) -> Result<(), Failure> {
    let all = counted(all, "row");
    match (missed, apart) {
        (0, 0) => Ok(()),
        (0, _) => Err(Failure::Failed(format!("lab and sim are apart in {apart} of {all}"))),
        _ => Err(Failure::Failed(format!("{missed} of {all} outside their band{why}"))),
    }
}

/// Creates the folder of a paper and checks that it can be written.
///
/// Fails as [`report::prepare`] does, and if the report of another paper would be overwritten.
fn prepare(dir: &Path, paper: &Paper) -> Result<NewFolder, Failure> {
    let before = std::fs::read(dir.join(REPORT)).unwrap_or_default();
    let before: serde_json::Value = serde_json::from_slice(&before).unwrap_or_default();
    match before["paper"].as_str().filter(|name| *name != paper.name) {
        None => report::prepare(dir),
        Some(name) => Err(Failure::Input(miette::miette!(
            "{} holds the report of '{name}', which that of '{}' would overwrite: choose another \
             folder",
            dir.display(),
            paper.name
        ))),
    }
}

fn list(options: &Options) -> Result<(), Failure> {
    let given = [
        ("--quick", options.quick),
        ("--out", options.out.is_some()),
        ("--only", !options.only.is_empty()),
        ("--lab", options.lab),
        ("--known", options.known),
        ("--seeds", options.seeds.is_some()),
        ("--jobs", options.jobs.is_some()),
    ];
    if let Some((option, _)) = given.iter().find(|(_, is_given)| *is_given) {
        let names: Vec<&str> = PAPERS.iter().map(|paper| paper.name).collect();
        let right = format!("right would be: farhop paper {} {option}", names.join("|"));
        return Err(Failure::Input(miette::miette!(
            "{option} is of a paper, and none is named; {right}"
        )));
    }
    if options.json {
        let of = |paper: &Paper| {
            let targets = (paper.targets)();
            let targets =
                targets.iter().map(|it| serde_json::json!({ "id": it.id, "title": it.title }));
            let targets: Vec<serde_json::Value> = targets.collect();
            serde_json::json!({ "name": paper.name, "title": paper.title, "targets": targets })
        };
        return print_json(
            &serde_json::json!({ "papers": PAPERS.iter().map(of).collect::<Vec<_>>() }),
        );
    }
    for paper in PAPERS {
        let targets = counted((paper.targets)().len(), "target");
        print_text(&format!("{:<10} {}; {targets}", paper.name, paper.title))?;
    }
    Ok(())
}

fn find(name: &str) -> Result<&'static Paper, Failure> {
    PAPERS.iter().find(|paper| paper.name == name).ok_or_else(|| {
        let names: Vec<&str> = PAPERS.iter().map(|paper| paper.name).collect();
        Failure::Input(miette::miette!(
            "there is no paper '{name}'; there are: {}",
            names.join(", ")
        ))
    })
}

/// The selected targets: all if none were named. A whole id selects that target only.
fn chosen(paper: &Paper, only: &[String]) -> Result<Vec<Target>, Failure> {
    let all = (paper.targets)();
    for wanted in only {
        if !all.iter().any(|target| target.id.starts_with(wanted.as_str())) {
            let ids: Vec<&str> = all.iter().map(|target| target.id).collect();
            return Err(Failure::Input(miette::miette!(
                "{} has no target '{wanted}'; it has {}",
                paper.name,
                ids.join(", ")
            )));
        }
    }
    let is_wanted = |target: &Target| {
        let exact = only.iter().any(|wanted| *wanted == target.id);
        let exists = |wanted: &String| all.iter().any(|other| *wanted == other.id);
        let begins = |wanted: &String| !exists(wanted) && target.id.starts_with(wanted.as_str());
        only.is_empty() || exact || only.iter().any(begins)
    };
    Ok(all.iter().filter(|target| is_wanted(target)).copied().collect())
}

/// Fails if none of the targets has lab runs, so that `--lab` would do nothing.
fn refuse_without_lab(paper: &Paper, targets: &[Target]) -> Result<(), Failure> {
    let has_lab = |paper: &Paper, id: &str| !lab::cases(paper, id, true).is_empty();
    if targets.iter().any(|target| has_lab(paper, target.id)) {
        return Ok(());
    }
    let of_paper = |paper: &'static Paper| {
        let targets = (paper.targets)().into_iter().filter(|target| has_lab(paper, target.id));
        targets.map(|target| format!("{} {}", paper.name, target.id))
    };
    let right: Vec<String> = PAPERS.iter().flat_map(of_paper).collect();
    let right = right.join(", ");
    let wrong = format!("--lab does nothing for what was chosen of {}", paper.name);
    Err(Failure::Input(miette::miette!("{wrong}; with runs in a lab there are: {right}")))
}

fn make(
    paper: &Paper,
    targets: &[Target],
    effort: Effort,
    threads: usize,
    kept: &mut UntilDone,
) -> Result<Vec<Outcome>, Failure> {
    let runs = Runs::new(targets.iter().flat_map(|target| (target.cases)(effort)), effort.seeds);
    let count = runs.count();
    let bar = Bar::start(&format!("{}: {}", paper.name, counted(count, "run")));
    let results = runs.run(threads, kept, &|fraction| {
        bar.fill(fraction);
        !interrupt::has_come()
    });
    bar.end();
    let Ok(results) = results else {
        kept.say_what_is_kept(count);
        return Err(Failure::Interrupted);
    };
    Ok(paper.judge(targets, effort, &results))
}

fn write(
    dir: &Path,
    paper: &Paper,
    outcomes: &[Outcome],
    json: &serde_json::Value,
    effort: Effort,
) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(json).expect("plain data");
    report::save(dir, REPORT, &text)?;
    for figure in outcomes.iter().flat_map(|outcome| &outcome.figures) {
        report::save(dir, &format!("{}.svg", figure.name), &report::paper::draw(figure))?;
    }
    report::save(dir, "paper.html", &report::paper::page(paper, outcomes, effort))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_are_known_are_told_from_those_that_count() {
        assert_eq!(why_outside(false, 3, 0, false), "");
        assert_eq!(why_outside(false, 3, 1, false), ", 1 of them known");
        assert_eq!(why_outside(false, 3, 1, true), ", beside 1 that are known");
        assert!(why_outside(true, 3, 3, false).starts_with(", all known"));
        assert!(why_outside(true, 3, 1, false).contains("1 of them known; short runs"));
    }

    fn ids(only: &[&str]) -> Vec<&'static str> {
        let only: Vec<String> = only.iter().map(|id| (*id).to_owned()).collect();
        let found = chosen(&PAPERS[0], &only).ok().expect("there are such targets");
        found.iter().map(|target| target.id).collect()
    }

    #[test]
    fn a_target_is_chosen_by_its_number_or_by_how_it_begins() {
        assert_eq!(ids(&["W-F9b"]), ["W-F9b"]);
        assert_eq!(ids(&["W-F9"]), ["W-F9a", "W-F9b", "W-F9c"]);
        assert_eq!(ids(&["W-X1"]), ["W-X1"]);
        assert!(chosen(&PAPERS[0], &["W-F99".to_owned()]).is_err());
    }
}
