//! The simulator's TCP against the kernel's, over the emulated air of the lab.
//!
//! Each point is one lab: pairs of nodes far from each other in everything but the host, each with
//! one saturated connection over a link of 802.11b on which frames are sent once, so that TCP meets
//! the loss. The pairs are the runs; the same scenario runs in the simulator with other seeds. The
//! means over all of them are compared. A lab that was late, or beside which other programs were
//! busy, is built again and not believed: compiling beside it, at the lowest priority, takes a
//! fifth of the goodput over 40 km. Labs that are done are kept until all are, so that who ends
//! the full form goes on with it later.
//!
//! Single runs differ by up to a fifth where nearly all of their time goes into a few time-outs, so
//! labs are added until the standard error of the kernel's mean is small beside how far the
//! difference is from the tolerance: else chance would decide on which side it lies. What is far
//! from it needs no more, however much its runs differ; the error stands beside each row.

use anyhow::{Context as _, Result};
use farhop_proto::base::counted;
use farhop_proto::stack::Scenario;
use farhop_sim::engine::{self, Report, RunOptions};
use toml::Table;

use super::program::{ANY, Program, STILL};
use super::{Row, Tolerance, workers};

const GROUP: &str = "kernel";
/// How far the simulator may be from the kernel.
const TOLERANCE: f64 = 0.10;
/// Pairs in a lab: runs of the kernel.
const PAIRS: u32 = 5;
/// Runs of the simulator for each of them.
const SEEDS: u64 = 10;
/// Labs of a point at least: a spread of five runs says little of itself.
const LABS_LEAST: u64 = 2;
/// So many standard errors the difference should be from the tolerance, on either side.
const CLEAR: f64 = 2.0;
/// Labs of a point at most, the late ones not counted.
const LABS: u64 = 16;
/// How long a host of the lab takes to react, measured on the clock of the air: from the end of a
/// data frame or a TCP acknowledgement to the arrival of the frame that answers it, by way of the
/// daemon, the TUN interface, the kernel, and back; those that the kernel held back on purpose left
/// out. Over 40 km it decides when a frame is on air before the other side can hear it.
const DEPARTURE: &str = "[[0, 30], [0.05, 57], [0.25, 70], [0.5, 81], [0.75, 98], [0.9, 117], \
                         [0.95, 128], [0.99, 180], [0.999, 600], [1, 1600]]";
/// How late a timer fires on a host of the lab: that of the air's process, measured likewise.
const WAKE: &str = "[[0, 1], [0.05, 10], [0.25, 23], [0.5, 28], [0.75, 32], [0.9, 36], \
                    [0.99, 60], [0.999, 150], [1, 1400]]";

/// One point.
#[derive(Clone, Copy)]
struct Point {
    congestion: &'static str,
    km: f64,
    loss: f64,
}

/// Reno with SACK and RACK-TLP, NewReno without SACK, and CUBIC, at three distances.
///
/// Needs the rights that a lab needs. The quick form has two points of each at one distance.
pub(crate) fn rows(quick: bool) -> Result<Vec<Row>> {
    let mut program = Program::build()?;
    if !quick {
        program.keep_labs(GROUP)?;
    }
    let distances: &[f64] = if quick { &[1.0] } else { &[1.0, 40.0, 100.0] };
    let losses: &[f64] = if quick { &[0.0, 0.03] } else { &[0.0, 0.01, 0.03, 0.05] };
    let mut points = Vec::new();
    for congestion in ["reno", "newreno", "cubic"] {
        for &km in distances {
            points.extend(losses.iter().map(|&loss| Point { congestion, km, loss }));
        }
    }
    let bar = workers::bar(GROUP, points.len());
    let rows = points.iter().map(|point| {
        let row = point.row(&program, quick)?;
        bar.inc(1);
        workers::tell(
            &bar,
            &format!("{}: {:.3} beside {:.3} Mb/s", row.name, row.ours, row.reference),
        );
        Ok(row)
    });
    let rows: Vec<Row> = rows.collect::<Result<_>>()?;
    bar.finish_and_clear();
    program.forget_labs()?;
    Ok(rows)
}

impl Point {
    fn row(self, program: &Program, quick: bool) -> Result<Row> {
        let text = self.scenario(if quick { 10 } else { 40 });
        let scenario: Scenario = toml::from_str(&text).context("the scenario of a point")?;
        let mut ours = Vec::new();
        for seed in 1..=SEEDS {
            let options = RunOptions { seed: Some(seed), ..RunOptions::default() };
            ours.extend(goodputs(&engine::run(&scenario, options)?));
        }
        let ours = mean(&ours);
        let table: Table = text.parse().context("the scenario of a point")?;
        let (most, others) = if quick { (1, ANY) } else { (LABS, STILL) };
        let (mut runs, mut late) = (Vec::new(), 0);
        for seed in 1..=most {
            let (report, late_before) = program.lab(&table, seed, others)?;
            runs.extend(goodputs(&report));
            late += late_before;
            if seed >= LABS_LEAST && is_settled(ours, mean(&runs), standard_error(&runs)) {
                break;
            }
        }
        let Self { congestion, km, loss } = self;
        let name = format!("{congestion}, {km} km, loss {loss}");
        let kernel = mean(&runs);
        let error = standard_error(&runs) / kernel * 100.0;
        let (runs, late) = (counted(runs.len(), "run"), counted(late, "lab"));
        let note = format!("{runs}, +- {error:.1}%; {late} late or not still");
        let figures = (ours, kernel);
        let row = Row::new(GROUP, name, "Mb/s", figures, Tolerance::Relative(TOLERANCE));
        Ok(row.with_note(note))
    }

    fn scenario(self, seconds: u32) -> String {
        let Self { congestion, km, loss } = self;
        let mut text = format!(
            "name = \"kernel\"\nduration_s = {seconds}\nmeasure_from_s = 2\nsecurity = \"off\"\n\
             [radio]\nphy = \"802.11b\"\npreamble = \"short\"\nrate_mbps = 11\n\
             ack_rate_mbps = 2\nattempts = 1\ndeparture = {DEPARTURE}\n\
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

/// Whether more runs of the kernel would hardly change on which side of the tolerance `ours` lies.
fn is_settled(ours: f64, kernel: f64, standard_error: f64) -> bool {
    let (ratio, error) = (ours / kernel, standard_error / kernel);
    let from_edge = ((ratio - 1.0).abs() - TOLERANCE).abs();
    from_edge >= CLEAR * error * ratio
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Of the mean of independent values.
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
    fn the_standard_error_is_that_of_the_mean() {
        assert!((mean(&[1.0, 2.0, 3.0]) - 2.0).abs() < 1e-12);
        assert!((standard_error(&[1.0, 2.0, 3.0]) - (1.0_f64 / 3.0).sqrt()).abs() < 1e-12);
    }
}
