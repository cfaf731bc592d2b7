//! TCP over one long link: slots compared with CSMA, over distance and loss.

use farhop_proto::base::counted;

use super::network::{KM_PER_US, Net};
use crate::curve::{
    Curve, crossing, curve, highest, in_percent, largest_rise, lowest, ours, totals,
};
use crate::{At, Case, Effort, Estimate, Figure, Findings, Results, Series, Table, Target};

pub(super) const TARGETS: &[Target] = &[
    Target {
        id: "W-F5",
        title: "TCP both ways under CSMA at 10% loss: retries over distance",
        cases: f5_cases,
        judge: f5,
    },
    Target { id: "W-F9a", title: "TCP one way over distance", cases: f9_cases, judge: f9a },
    Target { id: "W-F9b", title: "TCP both ways over distance", cases: f9_cases, judge: f9b },
    Target {
        id: "W-F9c",
        title: "TCP both ways over distance at 10% loss",
        cases: f9_cases,
        judge: f9c,
    },
    Target { id: "W-T1", title: "outdoor links", cases: t1_cases, judge: t1 },
    Target { id: "W-F10", title: "TCP both ways at 80 km over loss", cases: f10_cases, judge: f10 },
];

/// Retries of Fig. 5.
const RETRIES: [u8; 6] = [0, 1, 2, 4, 6, 10];
const F5_KM: [f64; 5] = [1.0, 20.0, 50.0, 80.0, 105.0];

fn f5_cases(effort: Effort) -> Vec<Case> {
    let case = |km: f64, retries: u8| {
        let net = Net::pair(km).loss(0.1).csma(retries).tcp_both().seconds(effort, 60.0);
        net.case(format!("f5/{retries}/{km}"))
    };
    F5_KM.iter().flat_map(|km| RETRIES.map(|retries| case(*km, retries))).collect()
}

fn f5(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    let curves = RETRIES.map(|r| (r, totals(results, &F5_KM, |km| format!("f5/{r}/{km}"))));
    let last = F5_KM.len() - 1;
    let shares: Curve = curves
        .iter()
        .map(|(retries, curve)| {
            let share = curve[last].1.mean / curve[0].1.mean;
            (f64::from(*retries), Estimate::exact(share))
        })
        .collect();
    found.add("declines", highest(&shares));
    let rest = curves[1..].iter().map(|(_, curve)| curve[0].1.mean).fold(f64::MAX, f64::min);
    found.add("none-worst", Estimate::exact(curves[0].1[0].1.mean / rest));
    let is_above = |a: usize, b: usize, at: usize| curves[a].1[at].1.mean > curves[b].1[at].1.mean;
    let pairs = (0..RETRIES.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
    let crossed = pairs.filter(|(a, b)| is_above(*a, *b, 0) && !is_above(*a, *b, last)).count();
    found.add("crossings", Estimate::exact(crossed as f64));
    let series = curves.iter().map(|(r, curve)| ours(counted(r, "retry"), curve)).collect();
    let (x, y) = ("distance, km", "TCP both ways, Mb/s");
    found.figures.push(Figure::new("W-F5", "TCP both ways under CSMA at 10% loss", x, y, series));
    found
}

/// Distances of Fig. 9, in kilometres.
pub(super) const F9_KM: [f64; 12] =
    [1.0, 10.0, 20.0, 35.0, 50.0, 65.0, 80.0, 95.0, 105.0, 116.0, 140.0, 200.0];

/// One case of Fig. 9; `way` is `one` or `both`.
fn f9_case(effort: Effort, link: &str, way: &str, loss: f64, km: f64) -> Case {
    let net = Net::pair(km).loss(loss).seconds(effort, 60.0);
    let net = if way == "one" { net.tcp(1, 2) } else { net.tcp_both() };
    let net = if link == "wild" { net.wild() } else { net.csma(2) };
    net.case(f9_key(link, way, loss, km))
}

/// The name of a case of Fig. 9.
pub(super) fn f9_key(link: &str, way: &str, loss: f64, km: f64) -> String {
    format!("f9/{link}/{way}/{loss}/{km}")
}

pub(super) fn f9_cases(effort: Effort) -> Vec<Case> {
    let mut cases = Vec::new();
    for km in F9_KM {
        for link in ["wild", "csma"] {
            for (way, loss) in [("one", 0.0), ("both", 0.0), ("both", 0.1)] {
                cases.push(f9_case(effort, link, way, loss, km));
            }
        }
    }
    cases
}

/// Both curves of a part of Fig. 9: the slotted link, then CSMA.
fn f9_curves(results: &Results, way: &str, loss: f64) -> [Curve; 2] {
    ["wild", "csma"].map(|link| totals(results, &F9_KM, |km| f9_key(link, way, loss, km)))
}

/// The names of the two links in figures.
const WILDNET: &str = "WiLDNet";
const CSMA: &str = "CSMA, 2 retries";

fn f9_figure(id: &str, title: &str, curves: &[Curve; 2], mut published: Vec<Series>) -> Figure {
    let mut series = vec![ours(WILDNET, &curves[0]), ours(CSMA, &curves[1])];
    series.append(&mut published);
    Figure::new(id, title, "distance, km", "TCP, Mb/s", series)
}

/// The smallest ratio of the slotted link to CSMA over the distances that `far` selects.
fn least_ratio(results: &Results, way: &str, loss: f64, far: impl Fn(f64) -> bool) -> Estimate {
    let ratio = |km: f64| {
        let of = |seed: At<'_>, link| seed.total(&f9_key(link, way, loss, km));
        // CSMA may carry nothing; it then counts as 1 bit/s. What was not measured stays so.
        let csma = |seed: At<'_>| match of(seed, "csma") {
            nothing if nothing < 1e-6 => 1e-6,
            carried => carried,
        };
        results.ratio(|seed| of(seed, "wild"), csma)
    };
    let far: Vec<f64> = F9_KM.into_iter().filter(|km| far(*km)).collect();
    lowest(&curve(&far, ratio))
}

fn f9a(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    let curves = f9_curves(results, "one", 0.0);
    let [wild, csma] = &curves;
    found.add("least", lowest(wild));
    found.add("most", highest(wild));
    let variation = (highest(wild).mean - lowest(wild).mean) / highest(wild).mean;
    found.add("variation", Estimate::exact(variation * 100.0));
    found.add("crossover", crossing(csma, wild));
    let of = |seed: At<'_>, km| seed.total(&f9_key("csma", "one", 0.0, km));
    found.add("collapse", results.ratio(|seed| of(seed, 140.0), |seed| of(seed, 105.0)));
    let published = vec![
        Series::published("WiLDNet outdoors", [(8.0, 3.65), (45.0, 3.10), (65.0, 2.98)])
            .beside(WILDNET),
        Series::published("CSMA outdoors", [(8.0, 5.03), (45.0, 3.62), (65.0, 2.80)]).beside(CSMA),
    ];
    found.figures.push(f9_figure("W-F9a", "TCP one way over distance", &curves, published));
    found
}

fn f9b(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    let curves = f9_curves(results, "both", 0.0);
    found.add("least", lowest(&curves[0]));
    found.add("most", highest(&curves[0]));
    found.add("csma-rise", largest_rise(&curves[1]));
    found.add("ratio-65", least_ratio(results, "both", 0.0, |km| km == 65.0));
    found.add("ratio-100", least_ratio(results, "both", 0.0, |km| km > 100.0));
    let published = vec![
        Series::published(WILDNET, [(0.0, 6.0), (200.0, 6.0)]),
        Series::published("CSMA outdoors", [(8.0, 4.95), (45.0, 3.52), (65.0, 0.68)]).beside(CSMA),
    ];
    found.figures.push(f9_figure("W-F9b", "TCP both ways over distance", &curves, published));
    found
}

fn f9c(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    let curves = f9_curves(results, "both", 0.1);
    let clear = f9_curves(results, "both", 0.0);
    let cost: Curve = curves[0]
        .iter()
        .zip(&clear[0])
        .map(|((km, lossy), (_, clear))| (*km, Estimate::exact(clear.mean - lossy.mean)))
        .collect();
    found.add("cost-least", lowest(&cost));
    found.add("cost-most", highest(&cost));
    let variation = (highest(&curves[0]).mean - lowest(&curves[0]).mean) / highest(&curves[0]).mean;
    found.add("variation", Estimate::exact(variation * 100.0));
    found.add("csma-rise", largest_rise(&curves[1]));
    found.add("ratio-65", least_ratio(results, "both", 0.1, |km| km == 65.0));
    found.add("ratio-100", least_ratio(results, "both", 0.1, |km| km > 100.0));
    let published = vec![Series::published(WILDNET, [(0.0, 5.0), (200.0, 5.0)])];
    found.figures.push(f9_figure(
        "W-F9c",
        "TCP both ways over distance, 10% loss",
        &curves,
        published,
    ));
    found
}

/// Name, length in kilometres and loss of the outdoor links.
const OUTDOOR: [(&str, f64, f64); 3] =
    [("b-r", 8.0, 0.034), ("p-s", 45.0, 0.026), ("ghana", 65.0, 0.01)];

fn t1_cases(effort: Effort) -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, km, loss) in OUTDOOR {
        let net = Net::pair(km).loss(loss).seconds(effort, 30.0);
        for (way, net) in [("one", net.clone().tcp(1, 2)), ("both", net.tcp_both())] {
            cases.push(net.clone().csma(2).case(format!("t1/{name}/csma/{way}")));
            cases.push(net.wild().case(format!("t1/{name}/wild/{way}")));
        }
    }
    cases
}

fn t1(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    for (name, ..) in OUTDOOR {
        for (link, way) in [("csma", "one"), ("csma", "both"), ("wild", "one"), ("wild", "both")] {
            found.add(
                format!("{name}-{link}-{way}"),
                results.total(&format!("t1/{name}/{link}/{way}")),
            );
        }
        let of = |seed: At<'_>, link| seed.total(&format!("t1/{name}/{link}/both"));
        let gain = results.ratio(|seed| of(seed, "wild"), |seed| of(seed, "csma"));
        found.add(format!("{name}-gain"), gain);
    }
    found
}

/// Losses of Fig. 10.
pub(super) const F10_LOSS: [f64; 6] = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5];

fn f10_cases(effort: Effort) -> Vec<Case> {
    let mut cases = Vec::new();
    for loss in F10_LOSS {
        let net = Net::pair(80.0).loss(loss).tcp_both().seconds(effort, 60.0);
        cases.push(net.clone().csma(2).case(format!("f10/csma/{loss}")));
        cases.push(net.wild().case(format!("f10/wild/{loss}")));
    }
    cases
}

fn f10(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    let of = |link: &str| totals(results, &F10_LOSS, |loss| format!("f10/{link}/{loss}"));
    let (wild, csma) = (of("wild"), of("csma"));
    let gains = curve(&F10_LOSS[..4], |loss| {
        let of = |seed: At<'_>, link| seed.total(&format!("f10/{link}/{loss}"));
        results.ratio(|seed| of(seed, "wild"), |seed| of(seed, "csma").max(1e-6))
    });
    for (loss, gain) in &gains {
        found.add(format!("ratio-{:.0}", loss * 100.0), *gain);
    }
    found.add("wild-rise", largest_rise(&wild));
    found.add("csma-rise", largest_rise(&csma));
    let series = vec![ours(WILDNET, &in_percent(&wild)), ours(CSMA, &in_percent(&csma))];
    let (x, y) = ("loss, %", "TCP both ways, Mb/s");
    let title = "TCP both ways over loss, 80 km";
    found.figures.push(Figure::new("W-F10", title, x, y, series));
    let name = "WiLDNet over CSMA";
    // The paper prints only that it is about twice as much up to 30%, and no goodput.
    let printed = Series::published(name, [(0.0, 2.0), (30.0, 2.0)]);
    let series = vec![ours(name, &in_percent(&gains)), printed];
    let title = "gain of WiLDNet over CSMA, 80 km";
    found.figures.push(Figure::new("W-F10", title, x, "gain", series).further("gain"));
    found
}

/// The distances and losses of the table of limits.
const LIMIT_KM: [f64; 4] = [1.0, 35.0, 65.0, 80.0];
const LIMIT_LOSS: [f64; 4] = [0.0, 0.1, 0.2, 0.3];

/// The most that both directions of a slotted link could carry together, in Mb/s: the bit-rate,
/// less losses, less the time that propagation takes.
pub(super) fn limit_mbps(km: f64, loss: f64, slot_ms: f64) -> f64 {
    let slot_us = slot_ms * 1e3;
    11.0 * (1.0 - loss) * slot_us / (slot_us + km / KM_PER_US)
}

pub(super) const LIMIT: Target = Target {
    id: "W-LIMIT",
    title: "fraction of the limit: goodput / (11 Mb/s x (1 - loss) x T / (T + p))",
    cases: limit_cases,
    judge: limit,
};

fn limit_cases(effort: Effort) -> Vec<Case> {
    let case = |km: f64, loss: f64| {
        let net = Net::pair(km).loss(loss).tcp_both().wild().seconds(effort, 60.0);
        net.case(format!("limit/{loss}/{km}"))
    };
    LIMIT_KM.iter().flat_map(|km| LIMIT_LOSS.map(|loss| case(*km, loss))).collect()
}

fn limit(_: Effort, results: &Results) -> Findings {
    let slot_ms = super::network::CALIBRATED.wild.slot_ms;
    let cell = |km: f64, loss: f64| {
        let goodput = results.total(&format!("limit/{loss}/{km}"));
        format!("{:.3}", goodput.mean / limit_mbps(km, loss, slot_ms))
    };
    let row = |km: &f64| {
        let cells = LIMIT_LOSS.map(|loss| cell(*km, loss));
        [vec![format!("{km} km")], cells.to_vec()].concat()
    };
    let names = LIMIT_LOSS.map(|loss| format!("{:.0}% loss", loss * 100.0));
    let table = Table {
        title: "TCP both ways, as calibrated for the paper's boards, over the limit".into(),
        head: [vec!["distance".into()], names.to_vec()].concat(),
        rows: LIMIT_KM.iter().map(row).collect(),
        note: "T is the slot, p the time of one way. The limit knows no headers, no gaps and no \
               preambles."
            .into(),
    };
    Findings { tables: vec![table], ..Findings::default() }
}
