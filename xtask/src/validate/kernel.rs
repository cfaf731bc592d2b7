//! The simulator's TCP against the kernel's, over the emulated air of the lab.
//!
//! Each point is one lab: pairs of nodes far from each other in everything but the host, each with
//! one saturated connection over a link of 802.11b on which frames are sent once, so that TCP meets
//! the loss. The pairs are the runs; the same scenario runs in the simulator with other seeds. The
//! sums over all of them are compared. A lab that was late is built again and not believed.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use farhop_proto::stack::Scenario;
use farhop_sim::engine::{self, Report, RunOptions};

use super::{Row, Tolerance};
use crate::build;

/// How far the simulator may be from the kernel.
const TOLERANCE: f64 = 0.10;
/// Pairs in a lab: runs of the kernel.
const PAIRS: u32 = 5;
/// Runs of the simulator for each of them.
const SEEDS: u64 = 5;
/// Labs that may be late before a point counts as not measured.
const TRIES: u32 = 4;

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
    let farhop = build::farhop()?;
    let distances: &[f64] = if quick { &[1.0] } else { &[1.0, 40.0, 100.0] };
    let losses: &[f64] = if quick { &[0.0, 0.03] } else { &[0.0, 0.01, 0.03, 0.05] };
    let seconds = if quick { 10 } else { 40 };
    let folder = std::env::temp_dir().join(format!("farhop-kernel-{}", std::process::id()));
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let mut rows = Vec::new();
    for congestion in ["reno", "newreno", "cubic"] {
        for &km in distances {
            for &loss in losses {
                let point = Point { congestion, km, loss };
                rows.push(point.row(&farhop, &folder, seconds)?);
            }
        }
    }
    fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    Ok(rows)
}

impl Point {
    fn row(self, farhop: &Path, folder: &Path, seconds: u32) -> Result<Row> {
        let text = self.scenario(seconds);
        let file = folder.join("kernel.toml");
        fs::write(&file, &text).with_context(|| file.display().to_string())?;
        let (kernel, late) = lab(farhop, &file)?;
        let scenario: Scenario = toml::from_str(&text).context("the scenario of a point")?;
        let mut ours = 0.0;
        for seed in 1..=SEEDS {
            let options = RunOptions { seed: Some(seed), ..RunOptions::default() };
            ours += engine::run(&scenario, options)?.total_mbps() / SEEDS as f64;
        }
        let Self { congestion, km, loss } = self;
        let name = format!("{congestion}, {km} km, loss {loss}");
        let row = Row::new("kernel", name, "Mb/s", (ours, kernel), Tolerance::Relative(TOLERANCE));
        Ok(if late > 0 { row.with_note(format!("{late} labs were late")) } else { row })
    }

    fn scenario(self, seconds: u32) -> String {
        let Self { congestion, km, loss } = self;
        let mut text = format!(
            "name = \"kernel\"\nduration_s = {seconds}\nmeasure_from_s = 2\n\
             [radio]\nphy = \"802.11b\"\npreamble = \"short\"\nrate_mbps = 11\n\
             ack_rate_mbps = 2\nattempts = 1\n\
             [host]\nwake_us = [[0.5, 60], [0.9, 120], [0.99, 900], [0.999, 2500], [1, 4000]]\n\
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

/// The sum of the kernel's goodput over all pairs, in Mb/s, and how many labs were late.
fn lab(farhop: &Path, file: &Path) -> Result<(f64, u32)> {
    for late in 0..TRIES {
        let out = Command::new(farhop).arg("lab").arg(file).arg("--json").output();
        let out = out.context("farhop does not run")?;
        if !out.status.success() {
            bail!("farhop lab: {}", String::from_utf8_lossy(&out.stderr));
        }
        let report: Report =
            serde_json::from_slice(&out.stdout).context("a report that is not understood")?;
        if !report.lateness.as_ref().is_some_and(|lateness| lateness.late) {
            return Ok((report.total_mbps(), late));
        }
    }
    bail!("{TRIES} labs in a row were late: this machine is too busy to compare with");
}
