//! The simulator's TCP compared with the kernel's, over the emulated air of the lab.
//!
//! Each point is one lab with several pairs of nodes, which share nothing but the host. Each pair
//! has one saturated connection over a link of 802.11b on which frames are sent once, so that TCP
//! meets the loss. The pairs are the runs; the same scenario runs in the simulator with other
//! seeds, and the means over all runs are compared. A lab that was late, or during which other
//! programs were busy, is discarded and repeated: compiling beside it, even at the lowest priority,
//! takes a fifth of the goodput over 40 km.
//!
//! All points together take hours of an otherwise idle machine. So the kernel's results are kept in
//! `bench/kernel/points.csv`, and `--labs N` repeats the N oldest measurements, each of which is
//! written to the file as soon as it is done.
//!
//! Single runs differ by up to a fifth where nearly all of their time is spent in a few time-outs.
//! So labs are added until the standard error of the kernel's mean is small compared with the
//! distance of the difference from the tolerance: otherwise chance would decide on which side it
//! lies. A difference far from the tolerance needs no more labs, however much its runs differ; the
//! error is beside each row. Seeds of the simulator are added by the same rule.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use farhop_proto::base::counted;
use farhop_proto::stack::Scenario;
use farhop_sim::engine::{self, Report, RunOptions};
use toml::Table;

use super::program::{Program, STILL};
use super::{Row, Tolerance, document, workers};

const GROUP: &str = "kernel";
/// The file of the kernel's results.
const FILE: &str = "bench/kernel/points.csv";
/// The comment at the start of the file.
const HEAD: &str = "# Goodput that TCP of Linux gave in labs of farhop, in Mb/s: mean of all \
    runs and its standard error,\n# and how many labs were late or not still. Written by `cargo \
    xtask validate --only kernel --labs N`.\n# answers: how long \
    hosts took to answer a frame, as quantile:microseconds; the simulator's hosts take as long.\n\
    congestion,km,loss,mbps,error,runs,refused,day,commit,processor,answers\n";
/// Largest relative difference of the simulator from the kernel.
const TOLERANCE: f64 = 0.10;
/// Pairs in a lab, each of which is a run of the kernel.
const PAIRS: u32 = 5;
/// Least and most runs of the simulator, each with all pairs and a seed of its own.
const SEEDS_LEAST: u64 = 10;
const SEEDS: u64 = 60;
/// Least labs of a point: five runs say little about their spread.
const LABS_LEAST: u64 = 2;
/// How many standard errors the difference has to be from the tolerance, on either side.
const CLEAR: f64 = 2.0;
/// Most labs of a point, not counting discarded ones.
const LABS: u64 = 40;
/// How long a host takes to answer a frame, through the daemon, the TUN interface, the kernel, and
/// back: `[quantile, microseconds]`. Over 40 km it decides when a frame is on air before the other
/// side can hear it. It depends on the machine, so each point has that of its own labs; this one is
/// for points that are not measured yet.
const ANSWERS: [[f64; 2]; 10] = [
    [0.0, 30.0],
    [0.05, 57.0],
    [0.25, 70.0],
    [0.5, 81.0],
    [0.75, 98.0],
    [0.9, 117.0],
    [0.95, 128.0],
    [0.99, 180.0],
    [0.999, 600.0],
    [1.0, 1600.0],
];
/// How late a timer fires on a host of the lab, measured on the air's process.
const WAKE: &str = "[[0, 1], [0.05, 10], [0.25, 23], [0.5, 28], [0.75, 32], [0.9, 36], \
                    [0.99, 60], [0.999, 150], [1, 1400]]";

/// A point of the comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    congestion: &'static str,
    km: f64,
    loss: f64,
}

/// The kernel's result at a point.
#[derive(Clone, Debug, PartialEq)]
struct Kernel {
    point: Point,
    mbps: f64,
    error: f64,
    runs: usize,
    refused: u32,
    day: String,
    commit: String,
    processor: String,
    answers: Vec<[f64; 2]>,
}

/// Reno with SACK and RACK-TLP, NewReno without SACK, and CUBIC, at three distances.
fn points() -> Vec<Point> {
    let mut points = Vec::new();
    for congestion in ["reno", "newreno", "cubic"] {
        for km in [1.0, 40.0, 100.0] {
            let losses = [0.0, 0.01, 0.03, 0.05].into_iter();
            points.extend(losses.map(|loss| Point { congestion, km, loss }));
        }
    }
    points
}

/// The rows of this group. First measures `labs` points, which needs the rights of a lab.
pub(crate) fn rows(labs: usize, root: &Path) -> Result<Vec<Row>> {
    let points = points();
    let mut kept = kept(root)?;
    let ours = workers::map(GROUP, &points, |point| {
        point.ours(kept.iter().find(|kernel| kernel.point == *point))
    });
    let mut ours: Vec<f64> = ours.into_iter().collect::<Result<_>>()?;
    if labs > 0 {
        measure(labs, &points, &mut ours, &mut kept, root)?;
    }
    let row = |(point, ours): (&Point, f64)| {
        let kernel = kept.iter().find(|kernel| kernel.point == *point).with_context(|| {
            format!("{FILE} has nothing for {}: --labs 1 measures it", point.name())
        })?;
        Ok(kernel.row(ours))
    };
    points.iter().zip(ours).map(row).collect()
}

/// Measures the points with the oldest measurements, those without any first.
fn measure(
    count: usize,
    points: &[Point],
    ours: &mut [f64],
    kept: &mut Vec<Kernel>,
    root: &Path,
) -> Result<()> {
    let day = |point: &Point| {
        let known = kept.iter().find(|kernel| kernel.point == *point);
        known.map_or(String::new(), |kernel| kernel.day.clone())
    };
    let mut wanted: Vec<(String, Point, &mut f64)> =
        points.iter().zip(ours).map(|(point, ours)| (day(point), *point, ours)).collect();
    wanted.sort_by(|one, other| one.0.cmp(&other.0));
    wanted.truncate(count);
    let program = Program::build()?;
    let bar = workers::bar(GROUP, wanted.len());
    for (_, point, ours) in wanted {
        let kernel = point.kernel(&program, ours)?;
        bar.inc(1);
        let (name, mbps) = (point.name(), kernel.mbps);
        workers::tell(&bar, &format!("{name}: {ours:.3} beside {mbps:.3} Mb/s"));
        kept.retain(|known| known.point != point);
        kept.push(kernel);
        write(kept, root)?;
    }
    bar.finish_and_clear();
    Ok(())
}

/// Reads the kernel's recorded results.
fn kept(root: &Path) -> Result<Vec<Kernel>> {
    let path = root.join(FILE);
    let text = match std::fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text.with_context(|| format!("cannot read {}", path.display()))?,
    };
    let lines = text.lines().enumerate().filter(|(_, line)| !line.starts_with('#')).skip(1);
    let parsed = lines.map(|(index, line)| {
        parse(line).with_context(|| format!("{}:{}: {line}", path.display(), index + 1))
    });
    parsed.collect()
}

fn parse(line: &str) -> Result<Kernel> {
    let cells: Vec<&str> = line.split(',').collect();
    let [congestion, km, loss, mbps, error, runs, refused, day, commit, processor, answers] =
        cells[..]
    else {
        bail!("eleven columns are wanted");
    };
    let (km, loss) = (km.parse()?, loss.parse()?);
    let is_it =
        |point: &Point| point.congestion == congestion && (point.km, point.loss) == (km, loss);
    Ok(Kernel {
        point: points().into_iter().find(is_it).context("no such point")?,
        mbps: mbps.parse()?,
        error: error.parse()?,
        runs: runs.parse()?,
        refused: refused.parse()?,
        day: day.to_owned(),
        commit: commit.to_owned(),
        processor: processor.to_owned(),
        answers: answers.split(' ').map(parse_answer).collect::<Result<_>>()?,
    })
}

fn parse_answer(text: &str) -> Result<[f64; 2]> {
    let (quantile, us) = text.split_once(':').context("quantile:microseconds")?;
    Ok([quantile.parse()?, us.parse()?])
}

fn write(kept: &[Kernel], root: &Path) -> Result<()> {
    let path = root.join(FILE);
    std::fs::create_dir_all(path.parent().expect("it lies in a folder"))?;
    std::fs::write(&path, text(kept)).with_context(|| format!("cannot write {}", path.display()))
}

/// The text of the file, in the order of the points.
fn text(kept: &[Kernel]) -> String {
    let mut text = HEAD.to_owned();
    for point in points() {
        for kernel in kept.iter().filter(|kernel| kernel.point == point) {
            let Point { congestion, km, loss } = point;
            let Kernel { mbps, error, runs, refused, day, commit, processor, .. } = kernel;
            let answers = kernel.answers.iter().map(|[quantile, us]| format!("{quantile}:{us}"));
            let answers = answers.collect::<Vec<_>>().join(" ");
            let _ = writeln!(
                text,
                "{congestion},{km},{loss},{mbps:.4},{error:.4},{runs},{refused},{day},{commit},\
                 {processor},{answers}"
            );
        }
    }
    text
}

impl Kernel {
    fn row(&self, ours: f64) -> Row {
        let (runs, late) = (counted(self.runs, "run"), counted(self.refused, "lab"));
        let error = self.error / self.mbps * 100.0;
        let note = format!(
            "{runs}, +- {error:.1}%; {late} late or not still; {} ({}), {}",
            self.day, self.commit, self.processor
        );
        let figures = (ours, self.mbps);
        let tolerance = Tolerance::Relative(TOLERANCE);
        Row::new(GROUP, self.point.name(), "Mb/s", figures, tolerance).with_note(note)
    }
}

impl Point {
    fn name(self) -> String {
        let Self { congestion, km, loss } = self;
        format!("{congestion}, {km} km, loss {loss}")
    }

    /// The simulator's mean. Seeds are added until chance does not decide the comparison with the
    /// kernel's result, if that is known.
    fn ours(self, kernel: Option<&Kernel>) -> Result<f64> {
        let answers = kernel.map_or(&ANSWERS[..], |kernel| &kernel.answers);
        let scenario: Scenario =
            toml::from_str(&self.scenario(answers)).context("the scenario of a point")?;
        let mut ours = Vec::new();
        for seed in 1..=SEEDS {
            let options = RunOptions { seed: Some(seed), ..RunOptions::default() };
            ours.extend(goodputs(&engine::run(&scenario, options)?));
            let is_known = kernel
                .is_none_or(|kernel| is_settled(mean(&ours), kernel.mbps, standard_error(&ours)));
            if seed >= SEEDS_LEAST && is_known {
                break;
            }
        }
        Ok(mean(&ours))
    }

    /// Measures the kernel. Labs are added until chance does not decide the comparison with the
    /// simulator, whose hosts are as fast as those of these labs. `ours` is its result with other
    /// hosts, and is replaced.
    fn kernel(self, program: &Program, ours: &mut f64) -> Result<Kernel> {
        let table: Table = self.scenario(&ANSWERS).parse().context("the scenario of a point")?;
        let (mut runs, mut refused, mut answers) = (Vec::new(), 0, Vec::new());
        for seed in 1.. {
            let (report, refused_before) = program.lab(&table, seed, STILL)?;
            runs.extend(goodputs(&report));
            refused += refused_before;
            answers.push(report.lateness.context("a lab without lateness")?.answers_us);
            let is_settled = |ours| is_settled(ours, mean(&runs), standard_error(&runs));
            if seed < LABS && (seed < LABS_LEAST || !is_settled(*ours)) {
                continue;
            }
            let kernel = Kernel {
                point: self,
                mbps: mean(&runs),
                error: standard_error(&runs),
                runs: runs.len(),
                refused,
                day: document::day(),
                commit: document::commit(),
                processor: document::processor().replace(',', " "),
                answers: mean_of_points(&answers),
            };
            *ours = self.ours(Some(&kernel))?;
            if seed == LABS || is_settled(*ours) {
                return Ok(kernel);
            }
        }
        unreachable!("the loop ends by itself")
    }

    /// The scenario with hosts that take this long to answer a frame. A lab has its own.
    fn scenario(self, answers: &[[f64; 2]]) -> String {
        let Self { congestion, km, loss } = self;
        let mut text = format!(
            "name = \"kernel\"\nduration_s = 40\nmeasure_from_s = 2\nsecurity = \"off\"\n\
             [radio]\nphy = \"802.11b\"\npreamble = \"short\"\nrate_mbps = 11\n\
             ack_rate_mbps = 2\nattempts = 1\ndeparture = {answers:?}\n\
             [host]\nwake_us = {WAKE}\n\
             [stack.link]\nkind = \"plain\"\nqueue_packets = 50\n"
        );
        for pair in 0..PAIRS {
            text += &format!(
                "[[node]]\nname = \"a{pair}\"\n[[node]]\nname = \"b{pair}\"\n\
                 [[link]]\nbetween = [\"a{pair}\", \"b{pair}\"]\ndistance_km = {km}\n\
                 loss = {loss}\n\
                 [[flow]]\nfrom = \"a{pair}\"\nto = \"b{pair}\"\nkind = \"tcp\"\n\
                 congestion = \"{congestion}\"\n"
            );
        }
        text
    }
}

fn goodputs(report: &Report) -> impl Iterator<Item = f64> {
    report.flows.iter().map(|flow| flow.goodput_mbps)
}

/// The mean of several distributions with the same quantiles.
fn mean_of_points(all: &[Vec<[f64; 2]>]) -> Vec<[f64; 2]> {
    let first = all.first().cloned().unwrap_or_default();
    let us =
        |index: usize| all.iter().filter_map(move |points| points.get(index)).map(|point| point[1]);
    let mean = |index: usize| (mean(&us(index).collect::<Vec<_>>()) * 10.0).round() / 10.0;
    first.iter().enumerate().map(|(index, [quantile, _])| [*quantile, mean(index)]).collect()
}

/// Whether more runs, given the standard error of either mean, would hardly move `ours` to the
/// other side of the tolerance.
fn is_settled(ours: f64, kernel: f64, standard_error: f64) -> bool {
    let (ratio, error) = (ours / kernel, standard_error / kernel);
    let from_edge = ((ratio - 1.0).abs() - TOLERANCE).abs();
    from_edge >= CLEAR * error * ratio
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The standard error of the mean of independent values.
fn standard_error(values: &[f64]) -> f64 {
    let (mean, count) = (mean(values), values.len() as f64);
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (squares / (count - 1.0) / count).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_at_the_edge_is_settled_by_more_runs() {
        assert!(is_settled(1.02, 1.0, 0.03), "far from the edge");
        assert!(!is_settled(1.02, 1.0, 0.05), "two of its errors from it");
        for at_the_edge in [0.88, 0.92, 1.08, 1.12] {
            assert!(!is_settled(at_the_edge, 1.0, 0.02), "{at_the_edge}");
            assert!(is_settled(at_the_edge, 1.0, 0.005), "{at_the_edge}");
        }
        assert!(is_settled(1.2, 1.0, 0.02), "surely outside");
    }

    #[test]
    fn what_is_written_is_read_again() {
        let kernel = |point: &Point| Kernel {
            point: *point,
            mbps: 1.25,
            error: 0.0125,
            runs: 10,
            refused: 3,
            day: "2026-11-24".into(),
            commit: "abc".into(),
            processor: "a processor".into(),
            answers: vec![[0.0, 30.5], [1.0, 1600.0]],
        };
        let kept: Vec<Kernel> = points().iter().map(kernel).collect();
        let root = tempfile::tempdir().unwrap();
        assert!(super::kept(root.path()).unwrap().is_empty());
        write(&kept, root.path()).unwrap();
        assert_eq!(super::kept(root.path()).unwrap(), kept);
        for line in ["reno,1,0,1,1", "reno,2,0,1.0,0.1,10,0,day,commit,cpu,0:1"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn the_standard_error_is_that_of_the_mean() {
        assert!((mean(&[1.0, 2.0, 3.0]) - 2.0).abs() < 1e-12);
        assert!((standard_error(&[1.0, 2.0, 3.0]) - (1.0_f64 / 3.0).sqrt()).abs() < 1e-12);
    }
}
