//! Many flows at once on the testbed.

use std::collections::BTreeMap;

use farhop_proto::base::{Rng, Seed};
use farhop_proto::stack::{FlowKind, RoutingConfig, Scenario, VoipConfig};
use farhop_proto::transport::hop::{Ahead, HopConfig, NextHop, Withhold};
use farhop_sim::engine::{FlowReport, NodeReport, Report};

use super::network::{self, CALIBRATED, Carrier, FILE, Net, file, jain, kbps, mean_kbps, names};
use super::testbed::{self, hops, name, pairs};
use crate::curve::{Curve, ours};
use crate::{At, Case, Effort, Estimate, Figure, Findings, Places, Results, Series, Target};

pub(super) const TARGETS: &[Target] = &[
    Target { id: "H-F9a", title: "30 flows of two hops or more", cases: f9_cases, judge: f9a },
    Target { id: "H-F9b", title: "30 flows: gain by hops", cases: f9_cases, judge: f9b },
    Target { id: "H-F9c", title: "30 flows: who is starved", cases: f9_cases, judge: f9c },
    Target { id: "H-T1", title: "30 flows: fairness by hops", cases: f9_cases, judge: t1 },
    Target { id: "H-F10", title: "what each part brings", cases: f10_cases, judge: f10 },
    Target { id: "H-F11", title: "30 flows of web sizes", cases: f11_cases, judge: f11 },
    Target { id: "H-T2", title: "seven senders to one", cases: t2_cases, judge: t2 },
    Target { id: "H-T3", title: "ten flows over OLSR", cases: t3_cases, judge: t3 },
    Target { id: "H-T5", title: "a call beside five flows", cases: t5_cases, judge: t5 },
];

/// How much time files between far nodes get, in seconds. The paper does not print it. It is chosen
/// only by what the paper prints of the baselines in H-T1 and H-F9c: an index of 0.06 for DTN, so
/// two files of 30 must have arrived, 0.35 and 0.32 for TCP and stitched TCP, and a third of TCP's
/// flows with next to nothing.
const F9_S: f64 = 500.0;

/// Draws the ends of all flows of a scenario anew, from pairs that are `least` to `most` hops
/// apart.
fn draw_ends(scenario: &mut Scenario, seed: u64, least: u8, most: u8) {
    let all = pairs(least, most);
    let mut rng = Seed(seed).stream("ends");
    for flow in &mut scenario.flow {
        let pair = all[below(&mut rng, all.len())];
        [flow.from, flow.to] = names(pair);
        flow.name = format!("{} to {}", flow.from, flow.to);
    }
}

fn below(rng: &mut Rng, count: usize) -> usize {
    ((rng.uniform() * count as f64) as usize).min(count - 1)
}

fn draw_far(scenario: &mut Scenario, seed: u64) {
    draw_ends(scenario, seed, 2, u8::MAX);
}

fn with_flows(net: Net, count: usize, carrier: Carrier, bytes: Option<u64>) -> Net {
    let [a, b] = names(testbed::CORNERS);
    net.with(|scenario| {
        for _ in 0..count {
            scenario.flow.push(file(carrier, &a, &b, bytes));
        }
    })
}

/// Files between nodes that are two or more hops apart, once `draw_far` has drawn their ends.
fn far_files(count: usize, carrier: Carrier) -> Net {
    with_flows(Net::testbed(), count, carrier, Some(FILE)).for_s(F9_S)
}

fn f9_key(carrier: Carrier) -> String {
    format!("f9/{}", carrier.name())
}

/// Hop with nodes that answer the neighbour with the strongest signal first: the paper calls both
/// this and the weighted draw by signal its default (`hop.md` 7).
const F9_BEST: &str = "f9/best";

fn f9_cases(_: Effort) -> Vec<Case> {
    let case = |carrier| far_files(30, carrier).case(f9_key(carrier));
    let best = far_files(30, Carrier::Hop).blocks(|hop| hop.withhold = Withhold::BestLink);
    let cases = Carrier::ALL.map(case).into_iter().chain([best.case(F9_BEST)]);
    cases.map(|case| case.vary(draw_far)).collect()
}

/// The same flows with our default settings of blocks, and with TCP.
pub(super) const PRODUCT: [&str; 2] = ["f9/product", "f9/tcp"];

pub(super) fn for_product(_: Effort) -> Vec<Case> {
    let [hop, tcp] = [Carrier::Hop, Carrier::Tcp].map(|carrier| far_files(30, carrier));
    [hop.product().case(PRODUCT[0]), tcp.case(PRODUCT[1])].map(|case| case.vary(draw_far)).to_vec()
}

fn flow_hops(flow: &FlowReport) -> u8 {
    let number = |name: &str| name[1..].parse().expect("t and a number");
    hops(number(&flow.from), number(&flow.to))
}

fn f9_of(at: At<'_>, carrier: Carrier) -> &Report {
    at.report(&f9_key(carrier))
}

fn f9a(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    let of = |at: At<'_>, carrier| mean_kbps(f9_of(at, carrier)).max(1e-3);
    let step = |more, less| results.ratio(|at| of(at, more), |at| of(at, less));
    let gains = Carrier::OTHERS.map(|other| step(Carrier::Hop, other));
    for (other, gain) in Carrier::OTHERS.iter().zip(gains) {
        found.add(other.name(), gain);
    }
    found.add("tcp-stitched", step(Carrier::Tcp, Carrier::Stitched));
    found.add("stitched-dtn", step(Carrier::Stitched, Carrier::Dtn));
    let means = Carrier::ALL.map(|carrier| results.over_seeds(|at| of(at, carrier)));
    let (title, all) = ("30 flows of two hops or more", Carrier::ALL.map(Carrier::title));
    found.figures.push(network::goodputs("H-F9a", title, &all, means));
    let printed = [(0.0, 2.0), (1.0, 4.0), (2.0, 8.0)];
    found.figures.push(network::gains("H-F9a", title, &all[1..], gains, printed));
    found.tables.push(whom_they_hear(results));
    found
}

/// A table of 30 flows by the way of withholding.
fn whom_they_hear(results: &Results) -> crate::Table {
    let ways = [("drawn by signal", f9_key(Carrier::Hop)), ("best link", F9_BEST.into())];
    let rows = ways.map(|(name, key)| {
        let of = |number: &dyn Fn(&Report) -> f64| results.over_seeds(|at| number(at.report(&key)));
        let tcp = |at: At<'_>| mean_kbps(f9_of(at, Carrier::Tcp)).max(1e-3);
        let gain = results.ratio(|at| mean_kbps(at.report(&key)), tcp);
        let all = [of(&mean_kbps), gain, of(&starved), of(&fairness)];
        let cells = all.map(|all| format!("{:.2} ({:.2})", all.mean, all.deviation));
        [name.to_owned()].into_iter().chain(cells).collect()
    });
    let head = ["whom nodes hear", "goodput, kb/s", "over TCP", "below 5% of the mean, %", "Jain"];
    crate::Table {
        title: "30 flows by withholding".into(),
        head: head.map(str::to_owned).to_vec(),
        rows: rows.to_vec(),
        note: "The rows of H-F9 and H-T1 are those of the draw by signal. The Jain index is that \
               of goodputs times hops."
            .into(),
    }
}

/// Mean goodput of the flows by their number of hops, over all seeds; five and more hops count as
/// five.
fn by_hops(results: &Results, carrier: Carrier) -> BTreeMap<u8, f64> {
    let mut sums: BTreeMap<u8, (f64, f64)> = BTreeMap::new();
    results.each_seed(|at| {
        for flow in &f9_of(at, carrier).flows {
            let sum = sums.entry(flow_hops(flow).min(5)).or_default();
            *sum = (sum.0 + kbps(flow), sum.1 + 1.0);
        }
    });
    sums.into_iter().map(|(hops, (sum, count))| (hops, sum / count)).collect()
}

fn f9b(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    let [hop, tcp] = [Carrier::Hop, Carrier::Tcp].map(|carrier| by_hops(results, carrier));
    let gain = |hops: &u8| {
        let at = |of: &BTreeMap<u8, f64>| of.get(hops).copied().unwrap_or(f64::NAN);
        at(&hop) / at(&tcp)
    };
    found.add("two", Estimate::exact(gain(&2)));
    found.add("five-two", Estimate::exact(gain(&5) - gain(&2)));
    let points = hop.keys().map(|hops| (f64::from(*hops), Estimate::exact(gain(hops))));
    let printed = Series::published("Hop over TCP", [(2.0, 1.8), (5.0, 2.8)]);
    let series = vec![Series::ours("Hop over TCP", points), printed];
    let title = "30 flows, gain by the length of the path";
    let figure = Figure::new("H-F9b", title, "hops", "gain", series);
    found.figures.push(figure.over(Places::Counts));
    found
}

/// The share of flows with less than 5% of the mean goodput, in percent.
pub(super) fn starved(report: &Report) -> f64 {
    let least = mean_kbps(report) * 0.05;
    let few = report.flows.iter().filter(|flow| kbps(flow) < least).count();
    few as f64 / report.flows.len() as f64 * 100.0
}

fn f9c(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    for carrier in [Carrier::Tcp, Carrier::Hop] {
        found.add(carrier.name(), results.over_seeds(|at| starved(f9_of(at, carrier))));
    }
    let sorted = |carrier: Carrier| -> Curve {
        let nth = |index: usize| {
            results.over_seeds(|at| {
                let mut all: Vec<f64> = f9_of(at, carrier).flows.iter().map(kbps).collect();
                all.sort_by(f64::total_cmp);
                all[index]
            })
        };
        (0..30).map(|index| (index as f64 + 1.0, nth(index))).collect()
    };
    let lines = Carrier::ALL.map(|carrier| ours(carrier.title(), &sorted(carrier)));
    let title = "30 flows, goodput of each, sorted";
    let figure = Figure::new("H-F9c", title, "rank of the flow", "goodput, kb/s", lines.to_vec());
    found.figures.push(figure.over(Places::Counts));
    found
}

/// Jain's index of goodput times hops (`hop.md` 13).
pub(super) fn fairness(report: &Report) -> f64 {
    let share = |flow: &FlowReport| kbps(flow) * f64::from(flow_hops(flow));
    jain(&report.flows.iter().map(share).collect::<Vec<f64>>())
}

fn t1(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    let of = |at: At<'_>, carrier| fairness(f9_of(at, carrier));
    for carrier in Carrier::ALL {
        found.add(carrier.name(), results.over_seeds(|at| of(at, carrier)));
    }
    let ratio = |a, b| results.ratio(|at| of(at, a), |at| of(at, b).max(1e-9));
    found.add("hop-tcp", ratio(Carrier::Hop, Carrier::Tcp));
    found.add("tcp-stitched", ratio(Carrier::Tcp, Carrier::Stitched));
    found.add("stitched-dtn", ratio(Carrier::Stitched, Carrier::Dtn));
    found
}

/// Hop without either part, with withholding, and with both.
const PARTS: [&str; 3] = ["basic", "withholding", "both"];
/// Their names in the legend.
const PARTS_NAMES: [&str; 3] = ["basic Hop", "with withholding", "with back-pressure as well"];
const F10_FLOWS: [usize; 3] = [1, 10, 30];

fn f10_cases(_: Effort) -> Vec<Case> {
    let set = |hop: &mut HopConfig, part: &str| {
        hop.ahead = Ahead::Always;
        // Not in the paper, so not one of the parts that are compared here.
        hop.yields = false;
        hop.withhold = if part == "basic" { Withhold::Never } else { hop.withhold };
        hop.high_blocks = if part == "both" { hop.high_blocks } else { 1_000 };
    };
    let case = |part: &str, count: usize| {
        let net = far_files(count, Carrier::Hop).blocks(|hop| set(hop, part));
        net.case(format!("f10/{part}/{count}")).vary(draw_far)
    };
    PARTS.iter().flat_map(|part| F10_FLOWS.map(|count| case(part, count))).collect()
}

fn f10(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    let of =
        |at: At<'_>, part: &str, count: usize| mean_kbps(at.report(&format!("f10/{part}/{count}")));
    let gain = |more: &str, less: &str, count: usize| {
        results.ratio(|at| of(at, more, count), |at| of(at, less, count).max(1e-3))
    };
    for count in F10_FLOWS {
        found.add(format!("withholding-{count}"), gain("withholding", "basic", count));
    }
    found.add("pressure-30", gain("both", "withholding", 30));
    let line = |(part, name): (&str, &str)| {
        let points = F10_FLOWS.map(|count| (count as f64, gain(part, "basic", count)));
        ours(name, &points)
    };
    let printed = [
        Series::published(PARTS_NAMES[1], [(1.0, 1.0), (10.0, 2.0), (30.0, 2.5)]),
        Series::published(PARTS_NAMES[2], [(30.0, 3.0)]),
    ];
    let series = PARTS.into_iter().zip(PARTS_NAMES).map(line).chain(printed).collect();
    let title = "what withholding and back-pressure bring";
    let figure = Figure::new("H-F10", title, "flows", "goodput over that of basic Hop", series);
    found.figures.push(figure.over(Places::Counts));
    found
}

/// Sizes of a web mix: 35% up to 10 KB, 60% up to 100 KB, the rest up to 1 MB, uniform in each
/// class.
fn draw_web(scenario: &mut Scenario, seed: u64) {
    draw_ends(scenario, seed, 1, u8::MAX);
    let mut rng = Seed(seed).stream("sizes");
    for flow in &mut scenario.flow {
        let (class, part) = (rng.uniform(), rng.uniform());
        let (least, most) = match class {
            small if small < 0.35 => (1e3, 1e4),
            middle if middle < 0.95 => (1e4, 1e5),
            _ => (1e5, 1e6),
        };
        flow.bytes = Some((least + part * (most - least)) as u64);
        flow.start_s = (rng.uniform() * WEB_S * 1e3).floor() / 1e3;
    }
}

/// The flows of the web mix start within this time, in seconds.
const WEB_S: f64 = 5.0;

fn f11_cases(_: Effort) -> Vec<Case> {
    let case = |carrier: Carrier| {
        let net = with_flows(Net::testbed(), 30, carrier, Some(1)).for_s(180.0);
        net.case(format!("f11/{}", carrier.name())).vary(draw_web)
    };
    vec![case(Carrier::Hop), case(Carrier::Tcp)]
}

/// Classes of file sizes that are counted together, in bytes.
const CLASSES: [(&str, u64, u64); 3] =
    [("small", 0, 10_000), ("middle", 10_000, 20_000), ("large", 20_000, u64::MAX)];

fn f11(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    let mut gains: Vec<Vec<f64>> = vec![Vec::new(); CLASSES.len()];
    let mut points = Vec::new();
    let mut seed = 0;
    results.each_seed(|at| {
        seed += 1;
        let mut drawn = f11_cases(Effort { seeds: 1, quick: true })[0].with_seed(seed);
        let sizes = drawn.flow.drain(..).map(|flow| flow.bytes.unwrap_or_default());
        let [hop, tcp] = ["f11/hop", "f11/tcp"].map(|key| &at.report(key).flows);
        for ((size, hop), tcp) in sizes.zip(hop).zip(tcp) {
            let gain = kbps(hop) / kbps(tcp).max(1e-3);
            let class = CLASSES.iter().position(|(_, from, to)| (*from..*to).contains(&size));
            gains[class.expect("a class for every size")].push(gain);
            points.push((size as f64, Estimate::exact(gain)));
        }
    });
    for ((key, _, _), gains) in CLASSES.iter().zip(&mut gains) {
        gains.sort_by(f64::total_cmp);
        let median = gains.get(gains.len() / 2).copied().unwrap_or(f64::NAN);
        found.add(*key, Estimate::exact(median));
    }
    // The paper prints two ranges: 6 to 16 below 10 KB, 4 to 7 up to 20 KB.
    let ends =
        |[small, middle]: [f64; 2]| [(1e3, small), (1e4, small), (1e4, middle), (2e4, middle)];
    let series = vec![
        Series::ours("each flow", points).scattered(),
        Series::published("least", ends([6.0, 4.0])).beside("each flow"),
        Series::published("most", ends([16.0, 7.0])).beside("each flow"),
    ];
    let title = "30 flows of web sizes, gain of each";
    let figure = Figure::new("H-F11", title, "size of the file", "Hop over TCP", series);
    found.figures.push(figure.over(Places::Sizes));
    found
}

/// The rows of Table 2.
const T2: [&str; 4] = ["best", "weighted", "tcp", "rts"];

fn t2_cases(effort: Effort) -> Vec<Case> {
    let (point, near) = testbed::access_point();
    let case = |what: &str| {
        let carrier =
            if ["best", "weighted"].contains(&what) { Carrier::Hop } else { Carrier::Tcp };
        let net = Net::testbed().blocks(|hop| {
            hop.withhold =
                if what == "best" { Withhold::BestLink } else { Withhold::WeightedSignal };
        });
        let net = net.with(|scenario| {
            scenario.radio.rts_threshold = (what == "rts").then_some(500);
            for sender in &near {
                scenario.flow.push(file(carrier, &name(*sender), &name(point), Some(FILE)));
            }
        });
        net.seconds(effort, 600.0).case(format!("t2/{what}"))
    };
    T2.map(case).to_vec()
}

/// Mean goodput of the files, and fairness (`hop.md` 13).
fn t2(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    let of = |at: At<'_>, what: &str| mean_kbps(at.report(&format!("t2/{what}")));
    let index = |at: At<'_>, what: &str| {
        let flows = &at.report(&format!("t2/{what}")).flows;
        jain(&flows.iter().map(kbps).collect::<Vec<f64>>())
    };
    let ratio = |a: &str, b: &str| results.ratio(|at| of(at, a), |at| of(at, b).max(1e-3));
    found.add("best-tcp", ratio("best", "tcp"));
    found.add("best-weighted", ratio("best", "weighted"));
    found.add("weighted-tcp", ratio("weighted", "tcp"));
    found.add("tcp-rts", ratio("tcp", "rts"));
    found.add("weighted-rts", ratio("weighted", "rts"));
    found.add("fairness", results.over_seeds(|at| index(at, "weighted") - index(at, "best")));
    let means = T2.map(|what| results.over_seeds(|at| of(at, what)));
    let printed = [(0.0, 2_177.0), (1.0, 1_279.0), (2.0, 955.0), (3.0, 743.0)];
    let name = "mean of seven";
    let series = vec![Series::named(name, means), Series::published(name, printed)];
    let names = ["Hop, best link", "Hop, weighted", "TCP", "TCP with RTS"];
    let figure = Figure::new("H-T2", "seven senders to one", "", "goodput, kb/s", series);
    found.figures.push(figure.over_names(&names));
    found
}

/// Flows start when OLSR has converged, at this time in seconds.
const CONVERGED_S: f64 = 60.0;

fn t3_cases(effort: Effort) -> Vec<Case> {
    let case = |what: &str| {
        let carrier = if what == "tcp" { Carrier::Tcp } else { Carrier::Hop };
        let net = with_flows(Net::testbed(), 10, carrier, Some(FILE)).with(|scenario| {
            scenario.stack.routing = RoutingConfig::Olsr(CALIBRATED.olsr.clone());
            scenario.flow.iter_mut().for_each(|flow| flow.start_s = CONVERGED_S);
            scenario.duration_s = CONVERGED_S + effort.seconds(600.0);
        });
        let next_hop = if what == "ip" { NextHop::Ip } else { NextHop::Raw };
        let net = net.blocks(|hop| hop.next_hop = next_hop);
        net.case(format!("t3/{what}")).vary(draw_far)
    };
    ["hop", "ip", "tcp"].map(case).to_vec()
}

/// Share of the transfers of a block to its next hop in which another node had to forward frames,
/// in percent.
fn passed_on(report: &Report) -> f64 {
    let sum = |counter: &str| -> u64 {
        let of = |node: &NodeReport| node.layers.get("hop")?.get(counter).copied();
        report.nodes.iter().filter_map(of).sum()
    };
    sum("blocks_forwarded") as f64 / sum("blocks_passed_on").max(1) as f64 * 100.0
}

fn t3(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    let of = |at: At<'_>, what: &str| mean_kbps(at.report(&format!("t3/{what}"))).max(1e-3);
    // The printed numbers were measured with an IP address as the next hop (`hop.md` 9).
    found.add("gain", results.ratio(|at| of(at, "ip"), |at| of(at, "tcp")));
    let fair = |at: At<'_>| fairness(at.report("t3/ip")) - fairness(at.report("t3/tcp"));
    found.add("fairness", results.over_seeds(fair));
    found.add("forwarded", results.of("t3/ip", passed_on));
    found.add("raw", results.ratio(|at| of(at, "hop"), |at| of(at, "ip")));
    found
}

/// Five flows over three hops, and a call over three.
fn draw_three(scenario: &mut Scenario, seed: u64) {
    draw_ends(scenario, seed, 3, 3);
}

fn t5_cases(effort: Effort) -> Vec<Case> {
    let case = |carrier: Carrier| {
        let net = with_flows(Net::testbed(), 5, carrier, None).with(|scenario| {
            let mut call = file(Carrier::Tcp, "t1", "t2", None);
            call.kind = FlowKind::Voip;
            call.congestion = Default::default();
            call.tcp = Default::default();
            call.voip = Some(VoipConfig { extra_ms: 30.0, ..VoipConfig::default() });
            scenario.flow.push(call);
        });
        // As long as the other tables, as a block counts only once it is complete.
        net.seconds(effort, 600.0).case(format!("t5/{}", carrier.name())).vary(draw_three)
    };
    vec![case(Carrier::Hop), case(Carrier::Tcp)]
}

fn t5(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    let key = |carrier: Carrier| format!("t5/{}", carrier.name());
    let goodput = |at: At<'_>, carrier| {
        at.report(&key(carrier)).flows[..5].iter().map(kbps).sum::<f64>() / 5.0
    };
    let call = |at: At<'_>, carrier| at.report(&key(carrier)).flows[5].voip.unwrap_or_default();
    let tcp = |at: At<'_>| goodput(at, Carrier::Tcp).max(1e-3);
    found.add("gain", results.ratio(|at| goodput(at, Carrier::Hop), tcp));
    let drop = |at: At<'_>| call(at, Carrier::Tcp).mos - call(at, Carrier::Hop).mos;
    found.add("mos", results.over_seeds(drop));
    let mean = |at: At<'_>, carrier| {
        at.report(&key(carrier)).flows[5].delay_ms.map_or(f64::NAN, |delay| delay.mean)
    };
    let later = |at: At<'_>| mean(at, Carrier::Hop) - mean(at, Carrier::Tcp);
    found.add("delay", results.over_seeds(later));
    found.add("tcp-mos", results.over_seeds(|at| call(at, Carrier::Tcp).mos));
    let rows = [Carrier::Hop, Carrier::Tcp].map(|carrier| {
        let of = |number: &dyn Fn(At<'_>) -> f64| {
            let all = results.over_seeds(number);
            format!("{:.2} ({:.2})", all.mean, all.deviation)
        };
        vec![
            carrier.title().to_owned(),
            of(&|at| goodput(at, carrier)),
            of(&|at| mean(at, carrier)),
            of(&|at| call(at, carrier).loss * 100.0),
            of(&|at| call(at, carrier).mos),
            of(&|at| mos_paper(call(at, carrier).delay_ms, call(at, carrier).loss)),
        ]
    });
    let printed = [
        ["Hop, printed", "266", "76.4", "0.1", "", "4.27"],
        ["TCP, printed", "136", "59.3", "0.07", "", "4.36"],
    ];
    let printed = printed.map(|row| row.map(str::to_owned).to_vec());
    let head = ["", "goodput, kb/s", "network delay, ms", "not played, %", "MOS", "MOS as printed"];
    found.tables.push(crate::Table {
        title: "A call beside five flows".into(),
        head: head.map(str::to_owned).to_vec(),
        rows: rows.into_iter().chain(printed).collect(),
        note: "MOS as printed leaves out the constant 11 of the formula, as the paper's numbers \
               do."
        .into(),
    });
    found
}

/// The score that the paper's code must have computed (`hop.md` 12).
fn mos_paper(delay_ms: f64, loss: f64) -> f64 {
    let late = (delay_ms - 177.3).max(0.0);
    let r = 94.2 - 0.024 * delay_ms - 0.11 * late - 40.0 * (1.0 + 10.0 * loss).ln();
    let r = r.clamp(0.0, 100.0);
    1.0 + 0.035 * r + 7e-6 * r * (r - 60.0) * (100.0 - r)
}
