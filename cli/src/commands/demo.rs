//! `farhop demo`: shows the main purpose: real TCP over 80 km, with farhop and without.

use std::path::{Path, PathBuf};

use farhop_proto::link::plain::PlainConfig;
use farhop_proto::link::secure::{SecurityConfig, SecurityMode};
use farhop_proto::stack::{Congestion, LinkConfig, LossConfig, Scenario};
use farhop_run::lab::{self, Progress};
use farhop_sim::engine::Report;
use maud::html;
use serde::Serialize;

use super::lab::run_lab;
use super::{print_json, print_text};
use crate::load::Loaded;
use crate::progress::Bar;
use crate::report::{self, chart, page, save};
use crate::{Failure, interrupt};

/// The scenario from which all runs are derived.
const SCENARIO: &str = include_str!("../../../scenarios/demo.toml");
/// Transmissions of a frame under plain 802.11: the first and two retries, the paper's base case.
const PLAIN_ATTEMPTS: u8 = 3;

/// What a reader must know to understand the table.
const NOTE: &str = "ratio: to plain 802.11 with Reno at the same loss; published: Patra et al., \
    WiLDNet, NSDI 2007. Their radio drew a backoff before each frame (gap = \"backoff\"), this one \
    waits DIFS only, so the slots can carry more here than was published.";

/// Shows what farhop is for: kernel TCP in both directions over an 80 km link, over plain 802.11
/// and over farhop's time slots, without loss and at 10% loss, in real time.
///
/// Takes about two minutes with the default --seconds. Writes a page with tables, charts and the
/// scenario.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    farhop demo\n  \
    farhop demo --json | jq '.runs[] | [.stack, .congestion, .loss, .total_mbps]'\n  \
    farhop demo --seconds 5 --out /tmp/demo")]
pub(crate) struct Options {
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    /// Folder for the page and the chart.
    #[arg(long, value_name = "DIR", default_value = "farhop-out/demo")]
    out: PathBuf,
    /// Length of each run, in seconds (0.5 to 3600).
    #[arg(long, default_value_t = 20.0, value_parser = seconds, allow_negative_numbers = true)]
    seconds: f64,
}

/// One run of the demo.
#[derive(Serialize)]
struct Run {
    /// Link protocol.
    stack: &'static str,
    /// TCP congestion control.
    congestion: &'static str,
    /// Channel loss of every frame, 0 to 1.
    loss: f64,
    forward_mbps: f64,
    backward_mbps: f64,
    total_mbps: f64,
    /// Total goodput relative to plain 802.11 with Reno at the same loss.
    ratio: f64,
    /// Whether both attempts were late, so that the numbers are not valid.
    late: bool,
    /// What the paper says of this case.
    published: &'static str,
    /// The goodput that the paper prints, if it prints one.
    published_mbps: Option<f64>,
    #[serde(skip)]
    report: Report,
}

/// A run, and what the paper prints for it (NSDI 2007, the text on figures 9 and 10; nothing is
/// read off a figure).
struct Case {
    stack: &'static str,
    congestion: Congestion,
    loss: f64,
    published: &'static str,
    published_mbps: Option<f64>,
}

const CASES: [Case; 5] = [
    Case {
        stack: "plain",
        congestion: Congestion::Reno,
        loss: 0.0,
        published: "falls with distance (figure only)",
        published_mbps: None,
    },
    Case {
        stack: "wild",
        congestion: Congestion::Reno,
        loss: 0.0,
        published: "6 Mb/s at all distances; about 2 times plain",
        published_mbps: Some(6.0),
    },
    Case {
        stack: "plain",
        congestion: Congestion::Reno,
        loss: 0.1,
        published: "lower, and falling with distance (figure only)",
        published_mbps: None,
    },
    Case {
        stack: "wild",
        congestion: Congestion::Reno,
        loss: 0.1,
        published: "about 1 Mb/s below no loss; about 2 times plain",
        published_mbps: None,
    },
    Case {
        stack: "plain",
        congestion: Congestion::Bbr,
        loss: 0.1,
        published: "nothing: BBR is younger",
        published_mbps: None,
    },
];

/// Parses the length of a run, in seconds.
fn seconds(text: &str) -> Result<f64, String> {
    let read = text.parse().ok().filter(|seconds| (0.5..=3600.0).contains(seconds));
    read.ok_or_else(|| "right would be: a number from 0.5 to 3600".into())
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    lab::isolate()?;
    let _folder = report::prepare(&options.out)?;
    interrupt::watch();
    let bar = Bar::start("80 km");
    let outcome = run_all(options, &bar);
    bar.end();
    let runs = outcome?;
    // The results are printed even if the page cannot be written.
    let page = write(&options.out, &runs);
    if options.json {
        print_json(&serde_json::json!({
            "runs": runs, "seconds": options.seconds, "version": env!("CARGO_PKG_VERSION"),
            "machine": page::machine(), "page": page.as_ref().ok(),
        }))?;
        return page.map(drop);
    }
    print_text(&table(&runs))?;
    print_text(NOTE)?;
    print_text(&page?.display().to_string())
}

fn run_all(options: &Options, bar: &Bar) -> Result<Vec<Run>, Failure> {
    let mut runs: Vec<Run> = Vec::new();
    for (index, case) in CASES.iter().enumerate() {
        let scenario = scenario(case, options.seconds);
        let name = format!("run {} of {}: {}", index + 1, CASES.len(), scenario.name);
        let (report, late) = run_on_time(&scenario, &name, index, bar)?;
        let [forward_mbps, backward_mbps] = [0, 1].map(|flow| report.flows[flow].goodput_mbps);
        let total_mbps = forward_mbps + backward_mbps;
        let base = runs
            .iter()
            .find(|run| run.stack == "plain" && run.congestion == "reno" && run.loss == case.loss);
        let ratio = total_mbps / base.map_or(total_mbps, |base| base.total_mbps);
        bar.line(&format!("{name}: {total_mbps:.2} Mb/s{}", if late { ", late" } else { "" }));
        runs.push(Run {
            stack: case.stack,
            congestion: if case.congestion == Congestion::Bbr { "bbr" } else { "reno" },
            loss: case.loss,
            forward_mbps,
            backward_mbps,
            total_mbps,
            ratio,
            late,
            published: case.published,
            published_mbps: case.published_mbps,
            report,
        });
    }
    Ok(runs)
}

/// Runs a scenario, once more if the first run was late. Also returns whether the last was late.
fn run_on_time(
    scenario: &Scenario,
    name: &str,
    index: usize,
    bar: &Bar,
) -> Result<(Report, bool), Failure> {
    let loaded = Loaded {
        scenario: scenario.clone(),
        text: String::new(),
        name: scenario.name.clone(),
        folder: PathBuf::new(),
    };
    let mut late = false;
    for attempt in 1..=2 {
        let again = if attempt > 1 { ", again (it was late)" } else { "" };
        let report = run_lab(&loaded, None, &mut |progress| {
            bar.say(&format!("{name}{again}"));
            if let Progress::Running(passed, all) = progress {
                bar.fill((index as f64 + passed / all) / CASES.len() as f64);
            }
            !interrupt::has_come()
        })?;
        late = report.lateness.as_ref().is_some_and(|lateness| lateness.late);
        if !late || attempt == 2 {
            return Ok((report, late));
        }
    }
    unreachable!("the second attempt returns ({late})")
}

fn scenario(case: &Case, seconds: f64) -> Scenario {
    let mut scenario: Scenario = toml::from_str(SCENARIO).expect("the scenario is checked in CI");
    let control = if case.congestion == Congestion::Bbr { "BBR" } else { "Reno" };
    let loss = format!("{} % loss", case.loss * 100.0);
    scenario.name = format!("{}, {control}, {loss}", case.stack);
    scenario.duration_s = seconds;
    scenario.link[0].loss = Some(LossConfig::Bernoulli { p: case.loss });
    if case.stack == "plain" {
        scenario.stack.link = LinkConfig::Plain(PlainConfig::default());
        scenario.radio.attempts = PLAIN_ATTEMPTS;
        // The baseline is bare Wi-Fi, which seals nothing.
        scenario.security =
            Some(SecurityConfig { mode: SecurityMode::Off, ..SecurityConfig::default() });
    }
    for flow in &mut scenario.flow {
        flow.congestion = case.congestion;
    }
    scenario
}

fn row(run: &Run) -> Vec<String> {
    vec![
        format!("{} / {} / {} %", run.stack, run.congestion, run.loss * 100.0),
        format!("{:.2}", run.forward_mbps),
        format!("{:.2}", run.backward_mbps),
        format!("{:.2}", run.total_mbps),
        format!("{:.2}", run.ratio),
        run.published_mbps.map_or("-".into(), |mbps| format!("{mbps:.1}")),
        run.published.to_owned(),
        if run.late { "LATE".into() } else { String::new() },
    ]
}

const HEAD: [&str; 8] = [
    "link / TCP / loss",
    "there Mb/s",
    "back Mb/s",
    "total Mb/s",
    "ratio",
    "published Mb/s",
    "what the paper says",
    "remark",
];

fn table(runs: &[Run]) -> String {
    report::table(&HEAD, &runs.iter().map(row).collect::<Vec<_>>())
}

/// Writes the chart and the page, and returns the path of the page.
fn write(dir: &Path, runs: &[Run]) -> Result<PathBuf, Failure> {
    let bar = |run: &Run| chart::Bar {
        label: vec![
            format!("{}{}", run.stack, if run.late { " (LATE)" } else { "" }),
            format!("{}, {} % loss", run.congestion, run.loss * 100.0),
        ],
        parts: [run.forward_mbps, run.backward_mbps],
        published: run.published_mbps,
    };
    let bars: Vec<chart::Bar> = runs.iter().map(bar).collect();
    let title = "TCP both ways over 80 km of 802.11b at 11 Mb/s";
    let bars = chart::bars(title, ["there", "back"], &bars);
    save(dir, "demo.svg", &bars)?;
    let json = serde_json::json!({ "runs": runs });
    save(dir, "demo.json", &serde_json::to_string_pretty(&json).expect("plain data"))?;
    let body = html! {
        h1 { (title) }
        p {
            "Two real daemons with kernel TCP over an emulated radio link of 80 km. "
            b { "plain" } " is 802.11 with CSMA/CA, its ACK time-out set for the distance, 2 "
            "retries. " b { "wild" } " is farhop's link: time slots of 20 ms, bulk "
            "acknowledgements, adaptive coding. "
            "The loss applies to every frame, acknowledgements too. "
            "The frames of farhop's runs are encrypted and authenticated; those of the baselines, "
            "which stand for bare Wi-Fi, are not."
        }
        p.note { "farhop " (env!("CARGO_PKG_VERSION")) "; " (page::machine()) "; seed "
            (runs.first().map_or(0, |run| run.report.seed)) }
        (page::figure(&bars))
        table {
            tr { @for (index, head) in HEAD.iter().enumerate() {
                th.text[index == 6] { (head) }
            } }
            @for run in runs {
                tr { @for (index, cell) in row(run).iter().enumerate() {
                    td.text[index == 6].late[index == 7] { (cell) }
                } }
            }
        }
        p.note { (NOTE) " BBR is what a modern host would do without farhop." }
        @for run in runs {
            h2 { (run.report.scenario) }
            (page::figure(&chart::over_time(&run.report.scenario, &run.report.flows)))
            @if let Some(lateness) = &run.report.lateness {
                p.note { (report::lateness_line(lateness)) }
            }
        }
        h2 { "Scenario" }
        p.note { "As it is for wild; the runs change link, loss and congestion control." }
        pre { (SCENARIO) }
    };
    save(dir, "demo.html", &page::page(title, &body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_of_the_table_has_a_heading() {
        assert!(HEAD.iter().all(|name| !name.is_empty()), "{HEAD:?}");
    }
}
