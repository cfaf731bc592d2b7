//! The parameters of the slotted link: coding, retries and slot length (`wildnet.md` 8).

use farhop_proto::link::wild::{Recovery, Retries};
use farhop_sim::engine::{FlowReport, Report};

use super::network::Net;
use crate::curve::{
    Curve, curve, highest, in_percent, largest, largest_fall, largest_rise, ours, totals,
};
use crate::{At, Case, Effort, Estimate, Figure, Findings, Results, Series, Target};

pub(super) const TARGETS: &[Target] = &[
    Target { id: "W-F11", title: "jitter of UDP with coding", cases: f11_cases, judge: f11 },
    Target {
        id: "W-F12",
        title: "delay and final loss by retries, 60 km",
        cases: f12_cases,
        judge: f12,
    },
    Target {
        id: "W-F13",
        title: "throughput by length of slot, 60 km",
        cases: f13_cases,
        judge: f13,
    },
    Target { id: "W-F14", title: "delay by length of slot, 60 km", cases: f14_cases, judge: f14 },
    Target { id: "W-F15", title: "cost of coding over loss", cases: f15_cases, judge: f15 },
];

/// Offered rates of Fig. 11, in Mb/s. At 25% loss, the link can carry no more together with its
/// parity.
const F11_MBPS: [f64; 5] = [0.5, 0.75, 1.0, 1.25, 1.5];
const F11_LOSS: [f64; 2] = [0.0, 0.25];

fn f11_cases(effort: Effort) -> Vec<Case> {
    let case = |mbps: f64, loss: f64| {
        let net = Net::pair(20.0).loss(loss).udp(1, 2, Some(mbps)).seconds(effort, 60.0);
        let net = net.wild_with(|wild| {
            wild.recovery = Recovery::Fec;
        });
        net.case(format!("f11/{loss}/{mbps}"))
    };
    F11_MBPS.iter().flat_map(|mbps| F11_LOSS.map(|loss| case(*mbps, loss))).collect()
}

fn jitter(report: &Report) -> f64 {
    report.flows[0].jitter_ms.map_or(f64::NAN, |jitter| jitter.mean)
}

fn f11(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    let of = |loss: f64| curve(&F11_MBPS, |mbps| results.of(&format!("f11/{loss}/{mbps}"), jitter));
    let [clear, lossy] = F11_LOSS.map(of);
    let above = clear.iter().zip(&lossy).map(|(clear, lossy)| lossy.1.mean - clear.1.mean);
    found.add("lossy-above", Estimate::exact(above.fold(f64::INFINITY, f64::min)));
    found.add("rise-0", largest_rise(&clear));
    found.add("rise-25", largest_rise(&lossy));
    found.add("most-25", highest(&lossy));
    let series = vec![ours("no loss", &clear), ours("25% loss", &lossy)];
    let (x, y) = ("offered, Mb/s", "jitter, ms");
    found.figures.push(Figure::new("W-F11", "jitter of UDP with coding", x, y, series));
    found
}

const F12_LOSS: [f64; 5] = [0.1, 0.2, 0.3, 0.4, 0.5];
const F12_RETRIES: [f64; 6] = [0.0, 1.0, 2.0, 4.0, 7.0, 10.0];
/// Final losses from this one on are judged.
const F12_LEAST: f64 = 1e-3;
/// A run is so long that this many packets are lost over all seeds: the count is then accurate to
/// 5%. In quick runs, only final losses with as many are judged.
const F12_ENOUGH: f64 = 400.0;
/// Packets that are sent in the last seconds may be under way at the end, and count for nothing.
const F12_LAST_S: f64 = 5.0;
/// 1440-byte datagrams per second at 1 Mb/s.
const DATAGRAMS_A_SECOND: f64 = 86.8;

/// For how long packets are counted, in seconds.
fn f12_seconds(effort: Effort, loss: f64, retries: f64) -> f64 {
    let expected = loss.powf(retries + 1.0);
    if effort.quick || expected < F12_LEAST {
        return 60.0;
    }
    (F12_ENOUGH / (expected * DATAGRAMS_A_SECOND * effort.seeds as f64)).max(60.0).ceil()
}

fn f12_cases(effort: Effort) -> Vec<Case> {
    let case = |loss: f64, retries: f64| {
        let net = Net::pair(60.0).loss(loss).udp(1, 2, Some(1.0)).with(|scenario| {
            let stop_s = f12_seconds(effort, loss, retries) + 1.0;
            scenario.flow[0].stop_s = Some(stop_s);
            scenario.duration_s = stop_s + F12_LAST_S;
        });
        let net = net.wild_with(|wild| {
            wild.recovery = Recovery::Arq;
            wild.retries = Retries::Fixed(retries as u8);
        });
        net.case(f12_key(loss, retries))
    };
    F12_LOSS.iter().flat_map(|loss| F12_RETRIES.map(|retries| case(*loss, retries))).collect()
}

fn f12_key(loss: f64, retries: f64) -> String {
    format!("f12/{loss}/{retries}")
}

fn mean_delay(flow: &FlowReport) -> f64 {
    flow.delay_ms.map_or(f64::NAN, |delay| delay.mean)
}

fn f12(effort: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    let (mut delays, mut jitters, mut losses) = (Vec::new(), Vec::new(), Vec::new());
    let mut errors = Vec::new();
    let mut series = Vec::new();
    for loss in F12_LOSS {
        let of = |number: &dyn Fn(&Report) -> f64| {
            curve(&F12_RETRIES, |retries| results.of(&f12_key(loss, retries), number))
        };
        let delay = of(&|report| mean_delay(&report.flows[0]));
        let left = of(&|report| report.flows[0].loss.unwrap_or(f64::NAN));
        let jitter = of(&jitter);
        // Once nothing is left to be repaired, more retries change nothing; differences of a
        // thousandth of the delay are noise.
        delays.push(largest_fall(&delay).mean);
        jitters.push(largest_fall(&jitter).mean);
        losses.push(largest_rise(&left).mean);
        for (retries, left) in &left {
            let expected = loss.powf(retries + 1.0);
            let seconds = f12_seconds(effort, loss, *retries);
            let lost = expected * DATAGRAMS_A_SECOND * seconds * left.seeds as f64;
            if expected >= F12_LEAST && (lost >= F12_ENOUGH || !effort.quick) {
                errors.push((left.mean / expected - 1.0).abs());
            }
        }
        let points =
            delay.iter().zip(&left).map(|((_, delay), (_, left))| (left.mean * 100.0, *delay));
        let mut points: Vec<(f64, Estimate)> = points.collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        series.push(Series::ours(format!("{:.0}% on the channel", loss * 100.0), points));
    }
    found.add("delay-fall", Estimate::exact(largest(delays)));
    found.add("loss-rise", Estimate::exact(largest(losses)));
    found.add("final-loss", Estimate::exact(largest(errors)));
    found.add("jitter-fall", Estimate::exact(largest(jitters)));
    let (x, y) = ("final loss, %", "delay, ms");
    found.figures.push(Figure::new(
        "W-F12",
        "delay by final loss, 0 to 10 retries, 1 Mb/s over 60 km",
        x,
        y,
        series,
    ));
    found
}

const F13_MS: [f64; 6] = [5.0, 10.0, 20.0, 30.0, 50.0, 80.0];

fn f13_cases(effort: Effort) -> Vec<Case> {
    let mut cases = Vec::new();
    for slot_ms in F13_MS {
        let net = Net::pair(60.0).seconds(effort, 60.0);
        let udp = net.clone().udp(1, 2, None);
        for (name, net) in [
            ("udp", udp.clone()),
            ("udp-both", udp.udp(2, 1, None)),
            ("tcp", net.clone().tcp(1, 2)),
            ("both", net.tcp_both()),
        ] {
            let net = net.wild_with(|wild| wild.slot_ms = slot_ms);
            cases.push(net.case(format!("f13/{name}/{slot_ms}")));
        }
    }
    cases
}

fn f13(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    let of = |name: &str| totals(results, &F13_MS, |slot_ms| format!("f13/{name}/{slot_ms}"));
    let udp = of("udp");
    found.add("udp-fall", largest_fall(&udp));
    found.add("udp-both-fall", largest_fall(&of("udp-both")));
    for name in ["udp", "udp-both", "tcp", "both"] {
        let at = |slot_ms: f64| format!("f13/{name}/{slot_ms}");
        let ratio = results.ratio(|seed| seed.total(&at(80.0)), |seed| seed.total(&at(20.0)));
        found.add(format!("{name}-80"), ratio);
    }
    for name in ["udp", "udp-both"] {
        let at = |slot_ms: f64| format!("f13/{name}/{slot_ms}");
        let small = results.ratio(|seed| seed.total(&at(5.0)), |seed| seed.total(&at(20.0)));
        found.add(format!("{name}-5"), small);
    }
    let names = [
        ("udp", "UDP one way"),
        ("udp-both", "UDP both ways"),
        ("tcp", "TCP one way"),
        ("both", "TCP both ways"),
    ];
    let series = names.map(|(name, title)| ours(title, &of(name))).to_vec();
    let (x, y) = ("slot, ms", "received, Mb/s");
    found.figures.push(Figure::new("W-F13", "throughput by length of slot, 60 km", x, y, series));
    found
}

const F14_MS: [f64; 4] = [10.0, 20.0, 40.0, 80.0];
const F14_LOSS: [f64; 4] = [0.0, 0.1, 0.3, 0.5];

fn f14_cases(_: Effort) -> Vec<Case> {
    let case = |loss: f64, slot_ms: f64| {
        let net = Net::pair(60.0).loss(loss).udp(1, 2, Some(1.0)).settled();
        let net = net.wild_with(|wild| {
            wild.slot_ms = slot_ms;
            wild.recovery = Recovery::Arq;
        });
        net.case(format!("f14/{loss}/{slot_ms}"))
    };
    F14_LOSS.iter().flat_map(|loss| F14_MS.map(|slot_ms| case(*loss, slot_ms))).collect()
}

fn f14(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    let mean = |report: &Report| mean_delay(&report.flows[0]);
    let of =
        |loss: f64| curve(&F14_MS, |slot_ms| results.of(&format!("f14/{loss}/{slot_ms}"), mean));
    let curves = F14_LOSS.map(of);
    let falls = curves.iter().map(|curve| largest_fall(curve).mean);
    found.add("slot-fall", Estimate::exact(largest(falls)));
    let by_loss = (0..F14_MS.len()).map(|at| {
        let across: Curve =
            F14_LOSS.iter().zip(&curves).map(|(loss, curve)| (*loss, curve[at].1)).collect();
        largest_fall(&across).mean
    });
    found.add("loss-fall", Estimate::exact(largest(by_loss)));
    let ratios: Vec<(f64, Estimate)> = F14_LOSS
        .iter()
        .map(|loss| {
            let of = |seed: At<'_>, slot: u8| mean(seed.report(&format!("f14/{loss}/{slot}")));
            (*loss, results.ratio(|seed| of(seed, 80), |seed| of(seed, 20)))
        })
        .collect();
    found.add("ratio-least", crate::curve::lowest(&ratios));
    found.add("ratio-most", highest(&ratios));
    let names = F14_LOSS.map(|loss| format!("{:.0}% loss", loss * 100.0));
    let series = names.into_iter().zip(&curves).map(|(name, curve)| ours(name, curve)).collect();
    let (x, y) = ("slot, ms", "delay, ms");
    found.figures.push(Figure::new(
        "W-F14",
        "delay by length of slot, 1 Mb/s over 60 km, 10 retries",
        x,
        y,
        series,
    ));
    found
}

const F15_LOSS: [f64; 5] = [0.1, 0.2, 0.3, 0.4, 0.5];
const F15_TARGET: [f64; 3] = [0.10, 0.05, 0.01];
/// Packets of a block.
const F15_BLOCK: usize = 10;
/// Slot length at which 1 Mb/s fills a block: 10 packets are offered in a cycle of two slots.
const F15_SLOT_MS: f64 = 58.0;

fn f15_cases(_: Effort) -> Vec<Case> {
    let case = |target: f64, loss: f64| {
        let net = Net::pair(20.0).loss(loss).udp(1, 2, Some(1.0)).settled();
        let net = net.wild_with(|wild| {
            wild.recovery = Recovery::Fec;
            wild.slot_ms = F15_SLOT_MS;
            wild.target_loss = target;
            wild.block_packets = F15_BLOCK as u8;
        });
        net.case(format!("f15/{target}/{loss}"))
    };
    F15_TARGET.iter().flat_map(|target| F15_LOSS.map(|loss| case(*target, loss))).collect()
}

/// Overhead at each loss, by target loss: computed for the published experiment, whose curves are
/// lost.
const F15_OVERHEAD: [[f64; 5]; 3] =
    [[0.0, 0.3, 0.6, 1.0, 1.5], [0.2, 0.5, 0.8, 1.2, 1.7], [0.4, 0.7, 1.0, 1.5, 2.2]];

fn f15(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    let mut series = Vec::new();
    for (target, published) in F15_TARGET.into_iter().zip(F15_OVERHEAD) {
        let percent = target * 100.0;
        // Parity frames for each packet of the flow, over the whole run.
        let overhead = |report: &Report| {
            let layers = &report.nodes[0].layers;
            layers["link"]["coded_sent"] as f64 / layers["flows"]["sent"] as f64
        };
        let overheads =
            curve(&F15_LOSS, |loss| results.of(&format!("f15/{target}/{loss}"), overhead));
        for (loss, overhead) in &overheads {
            found.add(format!("overhead-{percent:.0}-{:.0}", loss * 100.0), *overhead);
        }
        let left = curve(&F15_LOSS, |loss| {
            let left = |report: &Report| report.flows[0].loss.unwrap_or(f64::NAN) / target;
            results.of(&format!("f15/{target}/{loss}"), left)
        });
        found.add(format!("left-{percent:.0}"), highest(&left));
        series.push(ours(format!("at most {percent:.0}% left"), &in_percent(&overheads)));
        let points = F15_LOSS.map(|loss| loss * 100.0).into_iter().zip(published);
        series.push(Series::computed(format!("at most {percent:.0}% left"), points));
    }
    let (x, y) = ("loss on the channel, %", "parity for each data packet");
    found.figures.push(Figure::new("W-F15", "cost of coding, blocks of 10", x, y, series));
    found
}
