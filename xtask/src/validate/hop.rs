//! `hop`: files in blocks compared with TCP of the kernel, over the same emulated air.
//!
//! Real daemons carry both: blocks over the sockets of their daemons, TCP over plain IP with seven
//! attempts of the radio. The ratio is to CUBIC; the result of BBR is beside it. The air is that of
//! the scenario; the loss is in the name of the row.

use anyhow::{Context as _, Result};
use farhop_sim::engine::Report;
use toml::Table;

use super::program::{ANY, Program};
use super::workers::median;
use super::{Row, Tolerance};

const GROUP: &str = "hop";
/// Runs of each case, of which the median counts.
const RUNS: u64 = 3;

/// A scenario, and how many times as fast as CUBIC blocks have to be.
struct Case {
    name: &'static str,
    hops: u32,
    seconds: u32,
    /// The loss of every link, in TOML.
    loss: &'static str,
    /// The faults, in TOML.
    faults: &'static str,
    settings: &'static str,
    least: f64,
}

const CASES: [Case; 5] = [
    Case {
        name: "one hop, 20% of the frames lost on the air",
        hops: 1,
        seconds: 20,
        loss: "0.2",
        faults: "",
        settings: "",
        least: 1.0,
    },
    Case {
        name: "one hop, 20% lost behind the MAC acknowledgement",
        hops: 1,
        seconds: 30,
        loss: "{ kind = \"driver\", q = 0.2 }",
        faults: "",
        settings: "",
        least: 5.0,
    },
    Case {
        name: "five hops of 90 m, no loss",
        hops: 5,
        seconds: 60,
        loss: "0",
        faults: "",
        settings: "",
        least: 1.4,
    },
    Case {
        name: "five hops of 90 m, 30% of the frames lost on every hop",
        hops: 5,
        // In 90 s only ten blocks arrive, so that one more or less would be a tenth.
        seconds: 300,
        loss: "0.3",
        faults: "",
        settings: "pipeline = false\n",
        least: 3.0,
    },
    Case {
        name: "five hops, nodes 3, 4 and 5 down in turn for a minute each",
        hops: 5,
        seconds: 360,
        loss: "0",
        faults: PARTITIONS,
        settings: "high_blocks = 100\n",
        least: f64::INFINITY,
    },
];

/// At any time some node on the route is down.
const PARTITIONS: &str = "\
    [[fault]]\nnode = \"n3\"\nfrom_s = 0\nto_s = 60\n\
    [[fault]]\nnode = \"n4\"\nfrom_s = 60\nto_s = 120\n\
    [[fault]]\nnode = \"n5\"\nfrom_s = 120\nto_s = 180\n\
    [[fault]]\nnode = \"n3\"\nfrom_s = 180\nto_s = 240\n\
    [[fault]]\nnode = \"n4\"\nfrom_s = 240\nto_s = 300\n\
    [[fault]]\nnode = \"n5\"\nfrom_s = 300\nto_s = 360\n";

/// The rows of this group, which need the rights of a lab. The quick form has the first three
/// cases, with one run each.
pub(crate) fn rows(quick: bool) -> Result<Vec<Row>> {
    let mut program = Program::build()?;
    let (count, runs) = if quick { (3, 1) } else { (CASES.len(), RUNS) };
    if !quick {
        program.keep_labs(GROUP)?;
    }
    let rows = CASES[..count].iter().map(|case| case.rows(&program, runs));
    let rows = rows.collect::<Result<Vec<_>>>()?;
    program.forget_labs()?;
    Ok(rows.into_iter().flatten().collect())
}

impl Case {
    fn rows(&self, program: &Program, runs: u64) -> Result<Vec<Row>> {
        // A partition takes minutes, and its result is yes or no.
        let runs = if self.faults.is_empty() { runs } else { 1 };
        let blocks = self.goodput(program, "kind = \"hop\"", runs)?;
        let cubic = self.goodput(program, "kind = \"tcp\"\ncongestion = \"cubic\"", runs)?;
        let bbr = self.goodput(program, "kind = \"tcp\"\ncongestion = \"bbr\"", 1)?;
        let note = format!(
            "blocks {blocks:.3}, CUBIC {cubic:.3}, BBR {bbr:.3} Mb/s; BBR: x {:.2}",
            blocks / bbr
        );
        let row = |what, unit, figures, tolerance| {
            Row::new(GROUP, format!("{}: {what}", self.name), unit, figures, tolerance)
        };
        Ok(match self.least.is_infinite() {
            true => vec![
                row("blocks", "Mb/s", (blocks, 0.01), Tolerance::AtLeast).with_note(note),
                row("TCP, with CUBIC or BBR", "Mb/s", (cubic.max(bbr), 0.0), Tolerance::AtMost),
            ],
            false => {
                let figures = (blocks / cubic, self.least);
                vec![row("blocks over CUBIC", "x", figures, Tolerance::AtLeast).with_note(note)]
            }
        })
    }

    /// The median goodput of some runs, in Mb/s.
    fn goodput(&self, program: &Program, flow: &str, runs: u64) -> Result<f64> {
        let table: Table = self.scenario(flow).parse().context("the scenario of a case")?;
        let mut all = Vec::new();
        for seed in 1..=runs {
            let (report, _): (Report, u32) = program.lab(&table, seed, ANY)?;
            all.push(report.flows[0].goodput_mbps);
        }
        Ok(median(&all))
    }

    fn scenario(&self, flow: &str) -> String {
        let Self { hops, seconds, loss, faults, settings, .. } = self;
        let mut text = format!(
            "name = \"hop-{hops}\"\nduration_s = {seconds}\n\
             [radio]\nphy = \"802.11b\"\npreamble = \"long\"\nrate_mbps = 11\nack_rate_mbps = 2\n\
             attempts = 7\nlong_attempts = 7\nedca = true\n\
             access = {{ background = {{ txop_us = 8160 }} }}\n\
             [propagation]\nkind = \"range\"\nreceive_m = 100\nsense_m = 220\n\
             [stack.link]\nkind = \"plain\"\n[stack.hop]\n{settings}\
             [[layout]]\nkind = \"chain\"\nname = \"n\"\ncount = {}\nspacing_m = 90\n\
             [[flow]]\nfrom = \"n.first\"\nto = \"n.last\"\n{flow}\n{faults}",
            hops + 1
        );
        for hop in 1..=*hops {
            let next = hop + 1;
            text += &format!("[[link]]\nbetween = [\"n{hop}\", \"n{next}\"]\nloss = {loss}\n");
        }
        text
    }
}
