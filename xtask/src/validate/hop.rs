//! `hop`: `farhop send` compared with `curl` over TCP of the kernel, over the same emulated air.
//!
//! Real daemons carry both: blocks for `farhop send`, and IP packets, with seven attempts of the
//! radio for each, for `curl` and a web server. The ratio is to CUBIC; the result of BBR is beside
//! it. The air is that of the scenario; the loss is in the name of the row.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use indicatif::ProgressBar;
use toml::Table;

use super::program::{Program, Standing};
use super::workers::{self, median};
use super::{Row, Tolerance};
use crate::scratch::Scratch;

const GROUP: &str = "hop";
/// Runs of each case, of which the median counts.
const RUNS: u64 = 3;
/// How long before the end of the lab `curl` ends, to tell how much it has got.
const EARLIER: Duration = Duration::from_secs(2);
/// How often to look whether the web server answers.
const SOON: Duration = Duration::from_millis(50);
/// Port of the web server.
const PORT: &str = "8000";
/// Name of the file that is sent.
const FILE: &str = "file";

/// A scenario, and how many times as fast as `curl` with CUBIC `farhop send` has to be.
struct Case {
    name: &'static str,
    hops: u32,
    /// Length of the lab.
    seconds: u32,
    /// Length of the file, which `farhop send` sends in about two thirds of the time.
    megabytes: u32,
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
        seconds: 24,
        megabytes: 12,
        loss: "0.2",
        faults: "",
        settings: "",
        least: 1.0,
    },
    Case {
        name: "one hop, 20% lost behind the MAC acknowledgement",
        hops: 1,
        seconds: 30,
        megabytes: 16,
        loss: "{ kind = \"driver\", q = 0.2 }",
        faults: "",
        settings: "",
        least: 5.0,
    },
    Case {
        name: "five hops of 90 m, no loss",
        hops: 5,
        seconds: 60,
        megabytes: 8,
        loss: "0",
        faults: "",
        settings: "",
        least: 1.4,
    },
    Case {
        name: "five hops of 90 m, 30% of the frames lost on every hop",
        hops: 5,
        seconds: 150,
        megabytes: 16,
        loss: "0.3",
        faults: "",
        settings: "pipeline = false\n",
        least: 3.0,
    },
    Case {
        name: "five hops, nodes 3, 4 and 5 down in turn for 30 s each",
        hops: 5,
        seconds: 180,
        megabytes: 4,
        loss: "0",
        faults: PARTITIONS,
        settings: "high_blocks = 100\n",
        least: f64::INFINITY,
    },
];

/// At any time some node on the route is down. What gets across does so in the second round.
const PARTITIONS: &str = "\
    [[fault]]\nnode = \"n3\"\nfrom_s = 0\nto_s = 30\n\
    [[fault]]\nnode = \"n4\"\nfrom_s = 30\nto_s = 60\n\
    [[fault]]\nnode = \"n5\"\nfrom_s = 60\nto_s = 90\n\
    [[fault]]\nnode = \"n3\"\nfrom_s = 90\nto_s = 120\n\
    [[fault]]\nnode = \"n4\"\nfrom_s = 120\nto_s = 150\n\
    [[fault]]\nnode = \"n5\"\nfrom_s = 150\nto_s = 180\n";

/// The rows of this group, which need the rights of a lab. The quick form has the first three
/// cases, with one run each.
pub(crate) fn rows(quick: bool) -> Result<Vec<Row>> {
    let mut program = Program::build()?;
    let (count, runs) = if quick { (3, 1) } else { (CASES.len(), RUNS) };
    if !quick {
        program.keep_labs(GROUP)?;
    }
    let cases = &CASES[..count];
    let labs = cases.iter().map(|case| 2 * case.runs(runs) + 1).sum::<u64>();
    let bar = workers::bar(GROUP, labs as usize);
    let rows = cases.iter().map(|case| case.rows(&program, runs, &bar));
    let rows = rows.collect::<Result<Vec<_>>>()?;
    bar.finish_and_clear();
    program.forget_labs()?;
    Ok(rows.into_iter().flatten().collect())
}

impl Case {
    /// How many runs it has, if others have this many.
    fn runs(&self, runs: u64) -> u64 {
        // A partition takes minutes, and its result is yes or no.
        if self.faults.is_empty() { runs } else { 1 }
    }

    fn rows(&self, program: &Program, runs: u64, bar: &ProgressBar) -> Result<Vec<Row>> {
        let runs = self.runs(runs);
        let folder = Scratch::new()?;
        self.write_file(folder.path())?;
        let folder = folder.path().to_str().context("a path in UTF-8")?;
        let of = (program, bar);
        let sent = self.goodput(of, "send", runs, &|lab| self.send(lab, folder))?;
        let curl = |congestion, runs| {
            self.goodput(of, congestion, runs, &|lab| self.curl(lab, folder, congestion))
        };
        let (cubic, bbr) = (curl("cubic", runs)?, curl("bbr", 1)?);
        let note = format!(
            "farhop send {sent:.3} Mb/s, curl {cubic:.3} with CUBIC and {bbr:.3} with BBR; \
             BBR: x {:.2}",
            sent / bbr
        );
        let row = |what, unit, figures, tolerance| {
            Row::new(GROUP, format!("{}: {what}", self.name), unit, figures, tolerance)
        };
        Ok(match self.least.is_infinite() {
            true => vec![
                row("farhop send", "Mb/s", (sent, 0.01), Tolerance::AtLeast).with_note(note),
                row("curl, with CUBIC or BBR", "Mb/s", (cubic.max(bbr), 0.0), Tolerance::AtMost),
            ],
            false => {
                let figures = (sent / cubic, self.least);
                vec![
                    row("farhop send over curl, CUBIC", "x", figures, Tolerance::AtLeast)
                        .with_note(note),
                ]
            }
        })
    }

    /// The median goodput of some runs, in Mb/s.
    fn goodput(
        &self,
        (program, bar): (&Program, &ProgressBar),
        what: &str,
        runs: u64,
        run: &dyn Fn(&Standing<'_>) -> Result<f64>,
    ) -> Result<f64> {
        let table: Table = self.scenario().parse().context("the scenario of a case")?;
        let all = (1..=runs).map(|seed| {
            let achieved = program.lab_with(&table, seed, what, run);
            bar.inc(1);
            achieved
        });
        Ok(median(&all.collect::<Result<Vec<_>>>()?))
    }

    fn first_and_last(&self) -> (String, String) {
        ("n1".into(), format!("n{}", self.hops + 1))
    }

    fn bytes(&self) -> u64 {
        u64::from(self.megabytes) * 1_000_000
    }

    /// The file that is sent, in this folder.
    fn write_file(&self, folder: &Path) -> Result<()> {
        // Zeros: nothing on the way compresses.
        Ok(File::create(folder.join(FILE))?.set_len(self.bytes())?)
    }

    /// The goodput of `farhop send`, until it says that the file has arrived, in Mb/s; none if the
    /// lab ended before.
    fn send(&self, lab: &Standing<'_>, folder: &str) -> Result<f64> {
        let ((first, last), file) = (self.first_and_last(), format!("{folder}/{FILE}"));
        let begun = Instant::now();
        let out = lab.farhop(&first, &["send", &file, &last])?.output()?;
        let took = begun.elapsed().as_secs_f64();
        Ok(if out.status.success() { self.bytes() as f64 * 8e-6 / took } else { 0.0 })
    }

    /// The goodput of `curl` until it has the file or the lab is about to end, in Mb/s.
    fn curl(&self, lab: &Standing<'_>, folder: &str, congestion: &str) -> Result<f64> {
        let (first, last) = self.first_and_last();
        // In a namespace this is the one way to every kind of congestion control.
        let route = ["ip", "route", "change", "10.66.0.0/16", "dev", "farhop0", "proto", "kernel"];
        let choice = ["scope", "link", "src", "10.66.0.1", "congctl", congestion];
        let chosen = lab.program(&first, &[&route[..], &choice].concat()).output()?;
        ensure!(chosen.status.success(), "{}", String::from_utf8_lossy(&chosen.stderr));
        let serve = ["python3", "-m", "http.server", PORT, "-d", folder];
        let mut server = lab.program(&first, &serve);
        let mut server = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let url = format!("http://10.66.0.1:{PORT}/{FILE}");
        while !lab.program(&first, &["curl", "-sfI", &url]).output()?.status.success() {
            ensure!(server.try_wait()?.is_none(), "the web server has ended");
            std::thread::sleep(SOON);
        }
        let most = lab.left().saturating_sub(EARLIER).as_secs().max(1).to_string();
        let told = "%{size_download} %{time_total}";
        let fetch = ["curl", "-s", "-o", "/dev/null", "-m", &most, "-w", told, &url];
        let out = lab.program(&last, &fetch).output()?;
        server.kill()?;
        server.wait()?;
        let said = String::from_utf8_lossy(&out.stdout);
        let figures = said.split_once(' ').context("curl does not say how much it has got")?;
        let (bytes, seconds): (f64, f64) = (figures.0.parse()?, figures.1.parse()?);
        Ok(bytes * 8e-6 / seconds)
    }

    fn scenario(&self) -> String {
        let Self { hops, seconds, loss, faults, settings, .. } = self;
        // Its name is that of the lab, beside which there may be others.
        let mut text = format!(
            "name = \"hop-{hops}-{}\"\nduration_s = {seconds}\n\
             [radio]\nphy = \"802.11b\"\npreamble = \"long\"\nrate_mbps = 11\nack_rate_mbps = 2\n\
             attempts = 7\nlong_attempts = 7\nedca = true\n\
             access = {{ background = {{ txop_us = 8160 }} }}\n\
             [propagation]\nkind = \"range\"\nreceive_m = 100\nsense_m = 220\n\
             [stack.link]\nkind = \"plain\"\n[stack.hop]\n{settings}\
             [[layout]]\nkind = \"chain\"\nname = \"n\"\ncount = {}\nspacing_m = 90\n{faults}",
            std::process::id(),
            hops + 1
        );
        for hop in 1..=*hops {
            let next = hop + 1;
            text += &format!("[[link]]\nbetween = [\"n{hop}\", \"n{next}\"]\nloss = {loss}\n");
        }
        text
    }
}
