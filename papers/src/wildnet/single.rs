//! One link under plain 802.11: distance, acknowledgements, collisions and external loss.

use farhop_proto::base::counted;
use farhop_proto::stack::{
    BurstConfig, DriftConfig, InterfererConfig, LossConfig, RadioLinkConfig,
};
use farhop_sim::engine::{FlowReport, Report};

use super::network::Net;
use crate::curve::{Curve, curve, highest, largest_fall, largest_rise, lowest, ours, totals};
use crate::{At, Case, Effort, Estimate, Figure, Findings, Results, Series, Target};

pub(super) const TARGETS: &[Target] = &[
    Target {
        id: "W-F2a",
        title: "UDP one way over distance, with and without MAC acknowledgements",
        cases: f2a_cases,
        judge: f2a,
    },
    Target {
        id: "W-F2b",
        title: "UDP both ways over distance: throughput",
        cases: f2b_cases,
        judge: f2b,
    },
    Target {
        id: "W-F2c",
        title: "UDP both ways over distance: loss",
        cases: f2b_cases,
        judge: f2c,
    },
    Target { id: "W-F4", title: "loss of a link over hours", cases: f4_cases, judge: f4 },
    Target {
        id: "W-F7",
        title: "errors of preambles and of contents beside an interferer",
        cases: f7_cases,
        judge: f7,
    },
];

/// Distances of the published one-way curves, in kilometres.
const ONE_WAY_KM: [f64; 11] =
    [1.0, 20.0, 40.0, 60.0, 80.0, 100.0, 110.0, 116.0, 140.0, 170.0, 200.0];
/// Number of those within reach of the ACK time-out.
const ANSWERED: usize = 7;
/// Retries of the curves with acknowledgements.
const RETRIES: [u8; 3] = [0, 2, 5];

fn f2a_cases(effort: Effort) -> Vec<Case> {
    let mut cases = Vec::new();
    for km in ONE_WAY_KM {
        let net = Net::pair(km).udp(1, 2, None).seconds(effort, 20.0);
        cases.push(net.clone().no_ack().case(format!("f2a/no-ack/{km}")));
        for retries in RETRIES {
            cases.push(net.clone().csma(retries).case(format!("f2a/{retries}/{km}")));
        }
    }
    cases
}

fn f2a(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    let no_ack = totals(results, &ONE_WAY_KM, |km| format!("f2a/no-ack/{km}"));
    found.add("no-ack-least", lowest(&no_ack));
    found.add("no-ack-most", highest(&no_ack));
    let mut series = vec![ours("no acknowledgements", &no_ack)];
    for retries in RETRIES {
        let points = totals(results, &ONE_WAY_KM, |km| format!("f2a/{retries}/{km}"));
        found.add(format!("rise-{retries}"), largest_rise(&points[..ANSWERED]));
        let at = |km: f64| format!("f2a/{retries}/{km}");
        let share = |from: f64, to: f64| {
            results.ratio(|seed| seed.total(&at(to)), |seed| seed.total(&at(from)))
        };
        found.add(format!("share-110-{retries}"), share(1.0, 110.0));
        let Estimate { mean, deviation, seeds } = share(110.0, 140.0);
        let times = f64::from(retries) + 1.0;
        let beyond = Estimate { mean: mean * times, deviation: deviation * times, seeds };
        found.add(format!("beyond-{retries}"), beyond);
        series.push(ours(counted(retries, "retry"), &points));
    }
    series.push(Series::published("no acknowledgements", [(0.0, 7.6), (200.0, 7.6)]));
    let (x, y) = ("distance, km", "received, Mb/s");
    found.figures.push(Figure::new("W-F2a", "UDP one way, 802.11b", x, y, series));
    found
}

/// Distances of the two-way curves, in kilometres.
const BOTH_WAYS_KM: [f64; 7] = [1.0, 10.0, 15.0, 30.0, 60.0, 80.0, 100.0];

fn f2b_cases(effort: Effort) -> Vec<Case> {
    let mut cases = Vec::new();
    for km in BOTH_WAYS_KM {
        let net = Net::pair(km).udp(1, 2, None).udp(2, 1, None).seconds(effort, 60.0);
        cases.push(net.clone().no_ack().case(format!("f2b/no-ack/{km}")));
        cases.push(net.clone().csma(2).case(format!("f2b/2/{km}")));
        cases.push(net.csma(4).case(format!("f2b/4/{km}")));
    }
    cases
}

/// What another model of two nodes yields for Fig. 2b and 2c, whose numbers are not printed:
/// throughput in Mb/s and loss in percent at each distance with 2 retries; loss in percent over
/// distance without acknowledgements and with 4 retries.
const COMPUTED_MBPS: [f64; 7] = [7.3, 6.5, 6.1, 5.2, 4.0, 3.5, 3.2];
const COMPUTED_LOSS: [f64; 7] = [0.0, 0.2, 0.6, 2.6, 8.6, 13.0, 16.0];
const COMPUTED_NO_ACK: [(f64, f64); 5] =
    [(0.0, 3.0), (10.0, 14.0), (30.0, 45.0), (60.0, 69.0), (100.0, 82.0)];
const COMPUTED_4: [(f64, f64); 2] = [(60.0, 1.4), (100.0, 3.4)];

/// The curves of Fig. 2b and 2c, each with the key of its cases.
const BOTH_WAYS: [(&str, &str); 3] =
    [("no-ack", "no acknowledgements"), ("2", "2 retries"), ("4", "4 retries")];

fn f2b(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    let of = |name: &str| totals(results, &BOTH_WAYS_KM, |km| format!("f2b/{name}/{km}"));
    found.add("rise", largest_rise(&of("2")));
    let share = |seed: At<'_>| seed.total("f2b/2/100") / seed.total("f2b/2/1");
    found.add("share-100", results.over_seeds(share));
    let mut series = BOTH_WAYS.map(|(name, title)| ours(title, &of(name))).to_vec();
    let computed = BOTH_WAYS_KM.into_iter().zip(COMPUTED_MBPS);
    series.push(Series::computed(BOTH_WAYS[1].1, computed));
    let (x, y) = ("distance, km", "received at both ends, Mb/s");
    found.figures.push(Figure::new("W-F2b", "throughput of UDP both ways, 802.11b", x, y, series));
    found
}

/// Mean loss of the flows of a report, in percent.
fn loss_percent(report: &Report) -> f64 {
    let losses: Vec<f64> = report.flows.iter().filter_map(|flow| flow.loss).collect();
    losses.iter().sum::<f64>() / losses.len() as f64 * 100.0
}

fn f2c(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    let of = |name: &str| {
        curve(&BOTH_WAYS_KM, |km| results.of(&format!("f2b/{name}/{km}"), loss_percent))
    };
    let two = of("2");
    found.add("fall", largest_fall(&two));
    found.add("at-10", two[1].1);
    found.add("at-100", two[6].1);
    let mut series = BOTH_WAYS.map(|(name, title)| ours(title, &of(name))).to_vec();
    let two = BOTH_WAYS_KM.into_iter().zip(COMPUTED_LOSS).collect::<Vec<_>>();
    let computed = [COMPUTED_NO_ACK.to_vec(), two, COMPUTED_4.to_vec()];
    let computed = BOTH_WAYS.iter().zip(computed);
    series.extend(computed.map(|((_, title), points)| Series::computed(*title, points)));
    let (x, y) = ("distance, km", "loss, %");
    found.figures.push(Figure::new("W-F2c", "loss of UDP both ways, 802.11b", x, y, series));
    found
}

/// A loss that wanders around a mean, with bursts from a millisecond to a minute: 5.45 s each on
/// average, so that they take 4.3% of the time and add 3.5 percentage points.
fn urban(mean: f64) -> LossConfig {
    let burst = BurstConfig { every_s: 120.0, loss: 0.8, ..BurstConfig::default() };
    let drift = DriftConfig {
        loss: mean,
        sigma: 0.5,
        correlation_s: 20.0,
        reference_bytes: 1504,
        burst: Some(burst),
    };
    LossConfig::Drift(drift)
}

fn f4_cases(effort: Effort) -> Vec<Case> {
    let net = Net::pair(45.0).no_ack().udp(1, 2, Some(1.0)).udp(2, 1, Some(1.0));
    let net = net.with(|scenario| {
        scenario.duration_s = if effort.quick { 3_600.0 } else { 14_400.0 };
        // Otherwise both ends would always send at the same moment, and their frames would collide.
        scenario.flow[1].start_s = F4_SHIFT_S;
        let links = std::mem::take(&mut scenario.link);
        let urban = |link| RadioLinkConfig {
            loss: Some(urban(F4_LOSS[0])),
            loss_back: Some(urban(F4_LOSS[1])),
            ..link
        };
        scenario.link = links.into_iter().map(urban).collect();
    });
    vec![net.case("f4")]
}

/// How much later the second flow starts, in seconds: half the time between two packets.
const F4_SHIFT_S: f64 = 0.005_76;
/// Loss outside of bursts in either direction; with bursts it is 10 and 20%.
const F4_LOSS: [f64; 2] = [0.068, 0.173];

/// Loss of a flow of 1 Mb/s in spans of `span_s` seconds, without the first span.
fn losses_over_time(flow: &FlowReport, span_s: f64) -> Vec<f64> {
    let bins = (span_s / flow.bin_s).round().max(1.0) as usize;
    let loss = |chunk: &[f64]| 1.0 - chunk.iter().sum::<f64>() / chunk.len() as f64;
    flow.over_time_mbps.chunks_exact(bins).skip(1).map(|chunk| loss(chunk).max(0.0)).collect()
}

fn f4(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    for (index, key) in ["there", "back"].into_iter().enumerate() {
        let loss = move |report: &Report| report.flows[index].loss.unwrap_or(f64::NAN) * 100.0;
        found.add(key, results.of("f4", loss));
        let bursts = move |report: &Report| {
            let seconds = losses_over_time(&report.flows[index], 1.0);
            seconds.iter().filter(|loss| **loss > 0.6).count() as f64 / seconds.len() as f64 * 1e3
        };
        found.add(format!("bursts-{key}"), results.of("f4", bursts));
        let calm = move |report: &Report| {
            let mut minutes = losses_over_time(&report.flows[index], 60.0);
            minutes.sort_by(f64::total_cmp);
            minutes[minutes.len() / 10] * 100.0
        };
        found.add(format!("calm-{key}"), results.of("f4", calm));
    }
    let line = |index: usize, name: &str| {
        let minutes = results.first("f4", |report| losses_over_time(&report.flows[index], 60.0));
        let point = |(minute, loss): (usize, f64)| (minute as f64, Estimate::exact(loss * 100.0));
        Series::ours(name, minutes.into_iter().enumerate().map(point))
    };
    let series = vec![line(0, "S to P"), line(1, "P to S")];
    let (x, y) = ("minute", "loss, %");
    found.figures.push(Figure::new("W-F4", "loss of 1 Mb/s by the minute", x, y, series));
    found
}

/// Load of the interferer, in Mb/s.
const INTERFERER_MBPS: [f64; 5] = [0.1, 0.25, 0.5, 0.75, 1.0];

/// Load of the link, in Mb/s. Its packet interval is no multiple of the interferer's, as real
/// clocks drift.
const F7_MBPS: f64 = 1.987;

fn f7_cases(effort: Effort) -> Vec<Case> {
    let case = |load_mbps: f64| {
        let interferer = InterfererConfig { load_mbps, ..InterfererConfig::default() };
        let net = Net::pair(10.0).no_ack().udp(1, 2, Some(F7_MBPS)).seconds(effort, 60.0);
        let net = net.with(|s| s.link[0].loss = Some(LossConfig::Interferer(interferer)));
        net.case(format!("f7/{load_mbps}"))
    };
    INTERFERER_MBPS.map(case).to_vec()
}

fn f7(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    let key = |load: f64| format!("f7/{load}");
    let loss = curve(&INTERFERER_MBPS, |load| results.of(&key(load), loss_percent));
    let share = |report: &Report| {
        let radio = &report.nodes[1].layers["radio"];
        radio["lost_preambles"] as f64 / radio["lost"] as f64 * 100.0
    };
    let preambles: Curve = curve(&INTERFERER_MBPS, |load| results.of(&key(load), share));
    found.add("loss-fall", largest_fall(&loss));
    let ends = |seed: At<'_>| share(seed.report(&key(1.0))) - share(seed.report(&key(0.1)));
    found.add("preambles-rise", results.over_seeds(ends));
    found.add("preambles-least", lowest(&preambles));
    let series = vec![ours("frames lost, %", &loss), ours("of these by preamble, %", &preambles)];
    let (x, y) = ("load of the interferer, Mb/s", "%");
    found.figures.push(Figure::new("W-F7", "errors beside an interferer", x, y, series));
    found
}
