//! Relays: nodes with several radios, on the same channel and on different ones.

use farhop_sim::engine::Report;

use super::network::Net;
use crate::curve::{curve, ours};
use crate::{At, Case, Effort, Figure, Findings, Results, Target};

pub(super) const TARGETS: &[Target] = &[
    Target {
        id: "W-F3a",
        title: "a relay at rising load by channel separation: throughput",
        cases: f3_cases,
        judge: f3a,
    },
    Target {
        id: "W-F3b",
        title: "a relay at rising load by channel separation: loss",
        cases: f3_cases,
        judge: f3b,
    },
    Target { id: "W-N1", title: "one node sends to two at once", cases: n1_cases, judge: n1 },
    Target { id: "W-T2", title: "indoor chains on one channel", cases: t2_cases, judge: t2 },
    Target {
        id: "W-N8",
        title: "what is left of the raw capacity over four nodes",
        cases: n8_cases,
        judge: n8,
    },
    Target { id: "W-T3", title: "the outdoor chain K - P - M", cases: t3_cases, judge: t3 },
];

/// Lengths of M - P and P - K, in kilometres: assumed, as the paper has the chain on its map
/// without numbers.
const OUTDOOR_KM: [f64; 2] = [5.0, 5.0];
/// Distance between the two channels of the relay.
const SEPARATIONS: [u16; 5] = [0, 1, 2, 3, 4];
/// Offered rates, in Mb/s.
const F3_MBPS: [f64; 7] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];

fn f3_key(separation: u16, mbps: f64) -> String {
    format!("f3/{separation}/{mbps}")
}

fn f3_cases(effort: Effort) -> Vec<Case> {
    let case = |separation: u16, mbps: f64| {
        let net = Net::chain(&OUTDOOR_KM).channels(&[1, 1 + separation]).csma(2);
        net.udp(1, 3, Some(mbps)).seconds(effort, 60.0).case(f3_key(separation, mbps))
    };
    SEPARATIONS.iter().flat_map(|s| F3_MBPS.map(|mbps| case(*s, mbps))).collect()
}

/// Rows of both parts of Fig. 3, for a number of a report at an offered rate: the differences
/// between successive separations at the highest load.
fn f3(
    results: &Results,
    number: impl Fn(&Report, f64) -> f64,
    target: &str,
    (what, y): (&str, &str),
) -> Findings {
    let mut found = Findings::default();
    let last = F3_MBPS[F3_MBPS.len() - 1];
    let at = |seed: At<'_>, separation: u16| number(seed.report(&f3_key(separation, last)), last);
    for separation in &SEPARATIONS[..4] {
        let less = results.over_seeds(|seed| at(seed, *separation) - at(seed, separation + 1));
        found.add(format!("step-{separation}"), less);
    }
    let lines = SEPARATIONS.map(|separation| {
        let at = |mbps| results.of(&f3_key(separation, mbps), |report| number(report, mbps));
        let points = curve(&F3_MBPS, at);
        ours(format!("separation {separation}"), &points)
    });
    let title = format!("UDP from M over P to K under CSMA, {what}");
    found.figures.push(Figure::new(target, &title, "offered, Mb/s", y, lines.to_vec()));
    found
}

fn f3a(_: Effort, results: &Results) -> Findings {
    let mut found =
        f3(results, |report, _| report.total_mbps(), "W-F3a", ("throughput", "received, Mb/s"));
    // 5 Mb/s is less than one hop can carry, so without interference all of it arrives.
    let carried = |seed: At<'_>| seed.total(&f3_key(4, 5.0)) / 5.0;
    found.add("apart", results.over_seeds(carried));
    found
}

fn f3b(_: Effort, results: &Results) -> Findings {
    let lost = |report: &Report, mbps: f64| (1.0 - report.total_mbps() / mbps).max(0.0) * 100.0;
    f3(results, lost, "W-F3b", ("loss", "lost of what was offered, %"))
}

fn n1_cases(effort: Effort) -> Vec<Case> {
    let case = |separation: u16| {
        let net = Net::chain(&OUTDOOR_KM).channels(&[1, 1 + separation]).no_ack();
        let net = net.udp(2, 1, None).udp(2, 3, None).seconds(effort, 60.0);
        net.case(format!("n1/{separation}"))
    };
    vec![case(0), case(4)]
}

fn n1(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    found.add("same", results.total("n1/0"));
    found.add("apart", results.total("n1/4"));
    found.add("ratio", results.ratio(|seed| seed.total("n1/4"), |seed| seed.total("n1/0")));
    found
}

/// Numbers of nodes in the indoor chains.
const INDOOR: [usize; 3] = [2, 3, 4];
/// Flows of a chain: from end to end, back, and both.
const WAYS: [&str; 3] = ["there", "back", "both"];

/// Adds the flows of one of the ways between the ends of a chain.
fn with_flows(net: Net, nodes: usize, way: &str) -> Net {
    match way {
        "there" => net.tcp(1, nodes),
        "back" => net.tcp(nodes, 1),
        _ => net.tcp_both(),
    }
}

pub(super) fn t2_cases(effort: Effort) -> Vec<Case> {
    let case = |nodes: usize, way: &str| {
        let hops = nodes - 1;
        let net = Net::chain(&vec![0.0; hops]).channels(&vec![1; hops]);
        let net = with_flows(net, nodes, way).seconds(effort, 60.0);
        let csma = net.clone().csma(2).case(t2_key("csma", nodes, way));
        [csma, net.wild().case(t2_key("wild", nodes, way))]
    };
    INDOOR.iter().flat_map(|nodes| WAYS.map(|way| case(*nodes, way)).concat()).collect()
}

fn t2_key(link: &str, nodes: usize, way: &str) -> String {
    format!("t2/{link}/{nodes}/{way}")
}

fn t2(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    for nodes in INDOOR {
        for (link, way) in ["csma", "wild"].iter().flat_map(|link| WAYS.map(|way| (link, way))) {
            found.add(format!("{link}-{nodes}-{way}"), results.total(&t2_key(link, nodes, way)));
        }
        let gain = |way: &str| {
            let of = |seed: At<'_>, link| seed.total(&t2_key(link, nodes, way));
            results.ratio(|seed| of(seed, "wild"), |seed| of(seed, "csma"))
        };
        if nodes > 2 {
            found.add(format!("gain-{nodes}-both"), gain("both"));
        }
        if nodes == 3 {
            found.add("gain-3-there", gain("there"));
        }
    }
    found
}

fn n8_cases(effort: Effort) -> Vec<Case> {
    let raw = Net::pair(0.0).udp(1, 2, None).no_ack().seconds(effort, 20.0).case("n8/raw");
    let chain = t2_cases(effort).into_iter().filter(|case| case.key == t2_key("wild", 4, "both"));
    chain.chain([raw]).collect()
}

fn n8(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    let chain = |seed: At<'_>| seed.total(&t2_key("wild", 4, "both"));
    found.add("part", results.ratio(chain, |seed| seed.total("n8/raw")));
    found
}

pub(super) fn t3_cases(effort: Effort) -> Vec<Case> {
    let case = |channels: &[u16], name: &str, way: &str| {
        let net = with_flows(Net::chain(&OUTDOOR_KM).channels(channels), 3, way);
        let net = net.seconds(effort, 60.0);
        let csma = net.clone().csma(2).case(format!("t3/csma/{name}/{way}"));
        [csma, net.wild().case(format!("t3/wild/{name}/{way}"))]
    };
    let of =
        |name, channels: [u16; 2]| ["there", "both"].map(|way| case(&channels, name, way)).concat();
    [of("same", [1, 1]), of("different", [1, 6])].concat()
}

fn t3(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    let key = |link: &str, name: &str, way: &str| format!("t3/{link}/{name}/{way}");
    for (link, way) in [("csma", "there"), ("csma", "both"), ("wild", "there"), ("wild", "both")] {
        for name in ["same", "different"] {
            found.add(format!("{link}-{name}-{way}"), results.total(&key(link, name, way)));
        }
        // A chain may carry nothing; a NaN, which was not measured, stays.
        let of = |seed: At<'_>, name| match seed.total(&key(link, name, way)) {
            nothing if nothing < 1e-6 => 1e-6,
            total => total,
        };
        let ratio = results.ratio(|seed| of(seed, "different"), |seed| of(seed, "same"));
        found.add(format!("{link}-ratio-{way}"), ratio);
    }
    let of = |seed: At<'_>, link| seed.total(&key(link, "same", "both"));
    found.add("gain", results.ratio(|seed| of(seed, "wild"), |seed| of(seed, "csma")));
    found
}
