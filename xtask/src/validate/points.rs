//! Points of the comparison with ns-3: those recorded in `bench/ns3/points.csv`, and how to measure
//! others with the drivers of `bench/ns3`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use farhop_proto::base::counted;
use serde_json::Value;

/// One scenario of the comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Point {
    /// This many saturated senders to one receiver.
    Saturation(u16),
    /// A long link: kilometres, whether the slot is tuned to them, whether traffic goes both ways.
    Link(f64, bool, bool),
    /// A UDP flow over this many hops; whether power falls in one step, or with the fourth power.
    ChainUdp(usize, bool),
    /// A TCP transfer over this many hops.
    ChainTcp(usize),
    /// UDP flows across the grid of 13 x 13 nodes: six or, if it is dense, twelve.
    Grid(bool),
}

/// The result of ns-3 at a point, in Mb/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Reference {
    /// The point.
    pub(crate) point: Point,
    /// Lowest of the seeds.
    pub(crate) low: f64,
    /// Median of the seeds.
    pub(crate) median: f64,
    /// Highest of the seeds.
    pub(crate) high: f64,
}

impl Point {
    /// The point in words.
    pub(crate) fn name(self) -> String {
        let hops = |hops| counted(hops, "hop");
        match self {
            Self::Saturation(count) => format!("saturation, senders: {count}"),
            Self::Link(km, is_tuned, both) => {
                let slot = if is_tuned { "tuned" } else { "default slot" };
                let ways = if both { "both ways" } else { "one way" };
                format!("long link, {km} km, {ways}, {slot}")
            }
            Self::ChainUdp(count, is_step) => {
                let radio = if is_step { "step" } else { "pl4" };
                format!("chain, UDP, {radio}, {}", hops(count))
            }
            Self::ChainTcp(count) => format!("chain, TCP, pl4, {}", hops(count)),
            Self::Grid(is_dense) => format!("grid of 13 x 13, {} flows", flows(is_dense)),
        }
    }

    /// The command that runs the driver for this point.
    fn command(self, folder: &Path) -> Command {
        let (program, arguments) = match self {
            Self::Saturation(count) => ("saturation", vec![format!("--n={count}")]),
            Self::Link(km, is_tuned, both) => {
                let (tuned, both) = (u8::from(is_tuned), u8::from(both));
                let arguments = [("km", km.to_string()), ("tuned", tuned.to_string())];
                let mut arguments: Vec<_> =
                    arguments.map(|(name, value)| format!("--{name}={value}")).into();
                arguments.push(format!("--both={both}"));
                ("longlink", arguments)
            }
            Self::ChainUdp(hops, is_step) => {
                let radio = if is_step { "step" } else { "pl4" };
                let hops = format!("--hops={hops}");
                let times = ["--from=20".to_owned(), "--to=50".to_owned()];
                ("chain", [vec![hops, format!("--radio={radio}")], times.to_vec()].concat())
            }
            Self::ChainTcp(hops) => {
                ("chain", vec![format!("--hops={hops}"), "--transport=tcp".to_owned()])
            }
            Self::Grid(is_dense) => ("grid", vec![format!("--flows={}", flows(is_dense))]),
        };
        let mut command = Command::new(folder.join(program));
        command.args(arguments);
        command
    }

    fn parse(kind: &str, x: &str, variant: &str) -> Result<Self> {
        Ok(match kind {
            "saturation" => Self::Saturation(x.parse()?),
            "link" => {
                let (slot, ways) = variant.split_once(' ').context("which slot, which ways?")?;
                Self::Link(x.parse()?, slot == "tuned", ways == "both ways")
            }
            "chain-udp" => Self::ChainUdp(x.parse()?, variant == "step"),
            "chain-tcp" => Self::ChainTcp(x.parse()?),
            "grid" => {
                let found =
                    [false, true].into_iter().find(|is_dense| flows(*is_dense).to_string() == x);
                Self::Grid(found.context("six flows or twelve")?)
            }
            other => bail!("no kind '{other}'"),
        })
    }
}

/// The flows across the grid.
fn flows(is_dense: bool) -> u8 {
    if is_dense { 12 } else { 6 }
}

/// Reads the recorded results of ns-3.
pub(crate) fn kept(root: &Path) -> Result<Vec<Reference>> {
    let path = root.join("bench/ns3/points.csv");
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.starts_with('#')).skip(1);
    let parsed = lines.map(|(index, line)| {
        parse(line).with_context(|| format!("{}:{}: {line}", path.display(), index + 1))
    });
    parsed.collect()
}

fn parse(line: &str) -> Result<Reference> {
    let cells: Vec<&str> = line.split(',').collect();
    let [kind, x, variant, low, median, high, _seeds, _source] = cells[..] else {
        bail!("eight columns are wanted");
    };
    let point = Point::parse(kind, x, variant)?;
    let (low, median, high) = (low.parse()?, median.parse()?, high.parse()?);
    ensure!(low <= median && median <= high, "low, median, high have to rise");
    Ok(Reference { point, low, median, high })
}

/// The folder of the compiled drivers.
pub(crate) struct Drivers(PathBuf);

impl Drivers {
    /// Compiles the drivers with the installed ns-3.
    pub(crate) fn build(root: &Path) -> Result<Self> {
        ensure!(
            Path::new("/usr/include/ns3/wifi-module.h").exists(),
            "ns-3 is not installed; on Debian: sudo apt-get install libns3-dev g++ make"
        );
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), Into::into);
        let folder = std::path::absolute(target)?.join("ns3");
        let mut make = Command::new("make");
        make.arg("--silent").arg("-C").arg(root.join("bench/ns3"));
        let out = make.arg(format!("OUT={}", folder.display())).output().context("no make")?;
        let said = String::from_utf8_lossy(&out.stderr);
        ensure!(out.status.success(), "the drivers of ns-3 do not build: {said}");
        Ok(Self(folder))
    }

    /// Measures a point with ns-3.
    pub(crate) fn measure(&self, point: Point) -> Result<Reference> {
        let seeds = if matches!(point, Point::ChainTcp(_)) { 5 } else { 1 };
        let mut rates = Vec::new();
        for seed in 1..=seeds {
            let report = run(point.command(&self.0).arg(format!("--seed={seed}")))?;
            rates.push(report["goodput_mbps"].as_f64().context("a driver without goodput")?);
        }
        rates.sort_by(f64::total_cmp);
        let median = rates[rates.len() / 2];
        Ok(Reference { point, low: rates[0], median, high: rates[rates.len() - 1] })
    }

    /// Runs a driver with any arguments.
    pub(crate) fn run(&self, program: &str, arguments: &[String]) -> Result<Value> {
        run(Command::new(self.0.join(program)).args(arguments))
    }
}

fn run(command: &mut Command) -> Result<Value> {
    let out = command.output().with_context(|| format!("{command:?}"))?;
    let said = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "{command:?}: {said}");
    serde_json::from_slice(&out.stdout).with_context(|| format!("{command:?} gave no JSON"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_file_is_a_point_and_three_figures() {
        let reference = parse("link,20,tuned both ways,3.4,3.447,3.5,3,driver").unwrap();
        assert_eq!(reference.point, Point::Link(20.0, true, true));
        assert_eq!((reference.low, reference.median, reference.high), (3.4, 3.447, 3.5));
    }

    #[test]
    fn a_line_that_makes_no_sense_is_refused() {
        for line in [
            "link,20,tuned both ways,3.4,3.447,3.5,3",
            "teleport,20,,1,1,1,1,sheet",
            "saturation,many,,1,1,1,1,sheet",
            "saturation,5,,2,1,1,1,sheet",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn what_is_kept_can_be_read() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        assert!(kept(root).unwrap().len() >= 29);
    }
}
