//! `harq`: LL-HARQ on the abstract link of its paper, compared with Table I; LL-ARQ, compared with
//! what follows from the model (`loss-tolerant.md` 3 and 4).
//!
//! The link is that of `scenarios/harq.toml` with other losses. The estimates settle in the first
//! seconds: the counts of a run of that length are subtracted from those of a longer one with the
//! same seed.

use std::path::Path;

use anyhow::{Context as _, Result};
use farhop_proto::link::harq::{ArqConfig, Resend};
use farhop_proto::stack::{LinkConfig, LossConfig, Scenario};
use farhop_sim::engine::{Report, RunOptions, run};

use super::{Row, Tolerance, workers};

const GROUP: &str = "harq";
/// Time until the estimates have settled, in seconds.
const SETTLED_S: f64 = 4.0;
/// Bytes of a packet, and of its payload.
const PACKET: f64 = 1040.0;
const PAYLOAD: f64 = 1012.0;
/// Propagation delay, in milliseconds.
const DELAY_MS: f64 = 10.0;

/// A column of Table I: loss, and goodput, throughput, PFEC, RFEC, wasted PFEC, wasted RFEC in
/// Mb/s, latency in milliseconds.
const TABLE: [(f64, [f64; 7]); 6] = [
    (0.0, [9.96, 9.99, 0.02, 0.00, 0.02, 0.00, 10.97]),
    (0.1, [8.05, 9.98, 1.48, 0.39, 0.61, 0.26, 13.83]),
    (0.2, [6.71, 9.99, 2.90, 0.36, 1.04, 0.23, 13.26]),
    (0.3, [5.61, 9.99, 3.77, 0.59, 1.03, 0.33, 13.80]),
    (0.4, [4.58, 9.98, 4.60, 0.80, 1.02, 0.38, 14.67]),
    (0.5, [3.59, 9.99, 5.40, 0.98, 1.00, 0.39, 15.05]),
];
/// Loss, and goodput of LL-ARQ that repeats all units, in Mb/s.
const ARQ: [(f64, f64); 5] = [(0.1, 4.80), (0.2, 3.66), (0.3, 2.87), (0.4, 2.26), (0.5, 1.76)];

/// The rows of this group.
pub(crate) fn rows(quick: bool, root: &Path) -> Result<Vec<Row>> {
    let path = root.join("scenarios/harq.toml");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let scenario: Scenario = toml::from_str(&text)?;
    let seconds = if quick { 16.0 } else { 96.0 };
    let mut points: Vec<(LinkConfig, f64)> =
        TABLE.iter().map(|(loss, _)| (scenario.stack.link.clone(), *loss)).collect();
    let arq = |resend| LinkConfig::Arq(ArqConfig { resend, ..ArqConfig::default() });
    points.extend(ARQ.iter().map(|(loss, _)| (arq(Resend::All), *loss)));
    points.extend(ARQ.iter().map(|(loss, _)| (arq(Resend::Missing), *loss)));
    let counted =
        workers::map(GROUP, &points, |(link, loss)| Counted::new(&scenario, link, *loss, seconds));
    let counted: Vec<Counted> = counted.into_iter().collect::<Result<_>>()?;
    let (harq, arq) = counted.split_at(TABLE.len());
    let (all, missing) = arq.split_at(ARQ.len());
    let mut rows = Vec::new();
    for ((loss, published), ours) in TABLE.iter().zip(harq) {
        rows.extend(table_rows(*loss, published, ours));
    }
    for ((loss, goodput), ours) in ARQ.iter().zip(all) {
        let name = format!("LL-ARQ, all units again, loss {loss}: goodput");
        let pair = (ours.goodput(), *goodput);
        rows.push(Row::new(GROUP, name, "Mb/s", pair, Tolerance::Relative(0.03)));
    }
    for ((loss, _), ours) in ARQ.iter().zip(missing) {
        let name = format!("LL-ARQ, missing units again, loss {loss}: goodput");
        let pair = (ours.goodput(), 10.0 * (1.0 - loss));
        rows.push(Row::new(GROUP, name, "Mb/s", pair, Tolerance::Relative(0.02)));
    }
    Ok(rows)
}

/// The rows of a column of Table I.
fn table_rows(loss: f64, published: &[f64; 7], ours: &Counted) -> Vec<Row> {
    let [data, pfec, rfec] = ["data_bytes", "pfec_bytes", "rfec_bytes"].map(|of| ours.mbps(of));
    let wasted = ["pfec_wasted_bytes", "rfec_wasted_bytes"].map(|of| ours.mbps(of));
    let [goodput, throughput, pfec_then, rfec_then, pfec_wasted, rfec_wasted, latency] = *published;
    let small = 0.05;
    // Tolerances are shares of the published value; for values near zero they are in Mb/s.
    let band = |share: f64, of: f64| match of < small {
        true => Tolerance::Absolute(small),
        false => Tolerance::Relative(share),
    };
    let rfec_band = if loss == 0.1 { 0.2 } else { 0.15 };
    let row = |what: &str, unit, pair, tolerance| {
        Row::new(GROUP, format!("LL-HARQ, loss {loss}: {what}"), unit, pair, tolerance)
    };
    vec![
        row("goodput", "Mb/s", (ours.goodput(), goodput), Tolerance::Relative(0.03)),
        row("throughput", "Mb/s", (data + pfec + rfec, throughput), Tolerance::Relative(0.03)),
        row("PFEC", "Mb/s", (pfec, pfec_then), band(0.05, pfec_then)),
        row("RFEC", "Mb/s", (rfec, rfec_then), band(rfec_band, rfec_then)),
        row("PFEC wasted", "Mb/s", (wasted[0], pfec_wasted), band(0.12, pfec_wasted)),
        row("RFEC wasted", "Mb/s", (wasted[1], rfec_wasted), band(0.2, rfec_wasted)),
        row("latency", "ms", (ours.latency_ms(), latency), Tolerance::Relative(0.08)),
        row("residual loss", "%", (ours.residual(), 0.005), Tolerance::AtMost),
        row("bursts of a packet", "", (ours.attempts(), 2.0), Tolerance::AtMost),
    ]
}

/// The counts after the estimates had settled.
struct Counted {
    reports: [Report; 2],
    seconds: f64,
}

impl Counted {
    fn new(scenario: &Scenario, link: &LinkConfig, loss: f64, seconds: f64) -> Result<Self> {
        let mut scenario = Scenario { measure_from_s: None, ..scenario.clone() };
        let place = scenario.link.first_mut().context("a scenario without links")?;
        place.loss = Some(LossConfig::Bernoulli { p: loss });
        scenario.stack.link = link.clone();
        let report = |duration_s| {
            run(&Scenario { duration_s, ..scenario.clone() }, RunOptions::default())
                .map_err(|error| anyhow::anyhow!("{error:?}"))
        };
        Ok(Self { reports: [report(SETTLED_S)?, report(SETTLED_S + seconds)?], seconds })
    }

    fn count(&self, name: &str) -> f64 {
        let links = |report: &Report| -> u64 {
            report.nodes.iter().map(|node| node.layers["link"][name]).sum()
        };
        (links(&self.reports[1]) - links(&self.reports[0])) as f64
    }

    fn mbps(&self, name: &str) -> f64 {
        self.count(name) * 8e-6 / self.seconds
    }

    /// Goodput of packets with their headers, as in the table.
    fn goodput(&self) -> f64 {
        let [before, after] = self.reports.each_ref().map(|report| report.flows[0].delivered_bytes);
        (after - before) as f64 * PACKET / PAYLOAD * 8e-6 / self.seconds
    }

    /// Latency until a packet can be decoded, not until it is delivered in order.
    fn latency_ms(&self) -> f64 {
        DELAY_MS + self.count("decode_us") / self.count("packets_received") / 1e3
    }

    fn packets(&self) -> f64 {
        self.count("packets_delivered") + self.count("packets_failed")
    }

    fn residual(&self) -> f64 {
        self.count("packets_failed") / self.packets() * 100.0
    }

    fn attempts(&self) -> f64 {
        self.count("bursts_of_packets") / self.packets()
    }
}
