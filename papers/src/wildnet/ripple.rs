//! 2P compared with the slotted link: what a lost marker costs, and which nodes it affects.

use farhop_proto::link::two_p::TwoPConfig;
use farhop_proto::stack::LossConfig;
use farhop_sim::engine::Report;

use super::network::{CALIBRATED, Net};
use crate::curve::{Curve, curve, in_percent, ours};
use crate::{At, Case, Effort, Estimate, Figure, Findings, Results, Target, no_cases};

pub(super) const TARGETS: &[Target] = &[
    Target { id: "W-N6", title: "what a lost marker of 2P costs", cases: no_cases, judge: n6 },
    Target {
        id: "W-X2",
        title: "how the loss on one link spreads, in 2P and in slots",
        cases: x2_cases,
        judge: x2,
    },
    Target {
        id: "W-X3",
        title: "2P, slots and CSMA on a chain of one channel",
        cases: x3_cases,
        judge: x3,
    },
];

fn n6(_: Effort, _: &Results) -> Findings {
    let mut found = Findings::default();
    let two_p = TwoPConfig { phase_ms: 20.0, ..TwoPConfig::default() };
    found.add("patience", Estimate::exact(two_p.timeout));
    found.add("idle", Estimate::exact(two_p.idle_after_loss().as_millis_f64()));
    found
}

/// Loss of one link; the first case has none.
const LOSS: [f64; 4] = [0.0, 0.05, 0.1, 0.2];
const SHAPES: [&str; 2] = ["chain", "tree"];
/// The links, and their names in figures.
const LINKS: [(&str, &str); 2] = [("two-p", "2P"), ("wild", "WiLDNet")];
/// Length of each link in kilometres: nearly zero, so that idle time is caused by markers alone.
const X2_KM: f64 = 0.1;

/// Five nodes in a chain, or as a tree: one with three neighbours, one of which has a further one.
/// The first link loses frames.
fn five(shape: &str, loss: f64) -> Net {
    let net = Net::chain(&[X2_KM; 4]).channels(&[1; 4]);
    net.with(|scenario| {
        if shape == "tree" {
            // n1 - n2, and n3, n4 at n2; n5 at n4.
            scenario.link[2].between = ["n2".into(), "n4".into()];
            scenario.link[3].between = ["n4".into(), "n5".into()];
        }
        scenario.link[0].loss = Some(LossConfig::Bernoulli { p: loss });
    })
}

fn x2_key(link: &str, shape: &str, loss: f64) -> String {
    format!("x2/{link}/{shape}/{loss}")
}

fn x2_cases(effort: Effort) -> Vec<Case> {
    let mut cases = Vec::new();
    for (shape, loss) in SHAPES.iter().flat_map(|shape| LOSS.map(|loss| (*shape, loss))) {
        // A little traffic is enough: the length of phases and slots does not depend on it.
        let net = five(shape, loss).udp(1, 5, Some(0.2)).seconds(effort, 60.0);
        let net = net.with(|scenario| scenario.duration_s = scenario.duration_s.max(20.0));
        cases.push(net.clone().two_p().case(x2_key("two-p", shape, loss)));
        cases.push(net.wild().case(x2_key("wild", shape, loss)));
    }
    cases
}

/// Send phases or send slots per second and node.
fn rate(report: &Report) -> f64 {
    let count = |node: &farhop_sim::engine::NodeReport| {
        let link = &node.layers["link"];
        link.get("phases").or(link.get("slots")).copied().unwrap_or_default() as f64
    };
    report.nodes.iter().map(count).sum::<f64>() / report.nodes.len() as f64 / report.simulated_s
}

/// Idle time for each send phase, in milliseconds: the time beyond the send phases of a node and of
/// its neighbours. Negative if phases are shorter than configured.
fn idle_ms(report: &Report) -> f64 {
    500.0 / rate(report) - CALIBRATED.wild.slot_ms
}

fn x2(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    let most = 0.25 * CALIBRATED.wild.slot_ms;
    let mut series = Vec::new();
    for shape in SHAPES {
        for (link, name) in LINKS {
            let idle: Curve = curve(&LOSS, |loss| results.of(&x2_key(link, shape, loss), idle_ms));
            series.push(ours(format!("{name}, {shape}"), &in_percent(&idle)));
        }
        for loss in &LOSS[1..] {
            let more = |seed: At<'_>| {
                let idle = |loss| idle_ms(seed.report(&x2_key("two-p", shape, loss)));
                (idle(*loss) - idle(0.0)) / (loss * most)
            };
            found.add(format!("two-p-{shape}-{:.0}", loss * 100.0), results.over_seeds(more));
        }
        let slots = |seed: At<'_>| {
            let of = |loss| rate(seed.report(&x2_key("wild", shape, loss)));
            of(LOSS[3]) / of(LOSS[0])
        };
        found.add(format!("wild-{shape}"), results.over_seeds(slots));
    }
    let (x, y) = ("loss of one link, %", "idle beyond the nominal slot, ms");
    found.figures.push(Figure::new("W-X2", "idle time of five nodes on one channel", x, y, series));
    found
}

const X3_LINKS: [(&str, &str); 3] = [("csma", "CSMA"), LINKS[0], LINKS[1]];

fn x3_cases(effort: Effort) -> Vec<Case> {
    let case = |loss: f64| {
        let net = Net::chain(&[0.0; 3]).channels(&[1; 3]).loss(loss);
        let net = net.udp(1, 4, None).udp(4, 1, None).seconds(effort, 60.0);
        let [csma, two_p, wild] = [net.clone().csma(2), net.clone().two_p(), net.wild()];
        let nets = X3_LINKS.into_iter().zip([csma, two_p, wild]);
        nets.map(|((link, _), net)| net.case(x3_key(link, loss))).collect::<Vec<Case>>()
    };
    LOSS.into_iter().flat_map(case).collect()
}

fn x3_key(link: &str, loss: f64) -> String {
    format!("x3/{link}/{loss}")
}

fn x3(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    let ratio = |over: &str, under: &str, loss: f64| {
        let of = |seed: At<'_>, link| seed.total(&x3_key(link, loss));
        results.ratio(|seed| of(seed, over), |seed| of(seed, under).max(1e-6))
    };
    found.add("wild-clear", ratio("wild", "csma", 0.0));
    found.add("two-p-clear", ratio("two-p", "csma", 0.0));
    for loss in &LOSS[1..] {
        found.add(format!("below-{:.0}", loss * 100.0), ratio("two-p", "wild", *loss));
    }
    let line = |(link, name): (&str, &str)| {
        ours(name, &in_percent(&curve(&LOSS, |loss| results.total(&x3_key(link, loss)))))
    };
    let series = X3_LINKS.map(line).to_vec();
    let (x, y) = ("loss of every link, %", "UDP both ways, Mb/s");
    found.figures.push(Figure::new(
        "W-X3",
        "UDP both ways through four nodes on one channel",
        x,
        y,
        series,
    ));
    found
}
