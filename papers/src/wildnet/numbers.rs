//! Numbers from the text: constants that follow from a standard or from the design, and how well
//! the slots of two nodes are aligned.

use farhop_proto::base::{Phy, PhyKind};
use farhop_proto::link::wild::LOSS_SLOTS;
use farhop_proto::stack::{ClockConfig, RadioConfig};
use farhop_sim::engine::Report;

use super::network::{CALIBRATED, KM_PER_US, Net};
use crate::curve::{curve, highest, in_percent, ours};
use crate::{Case, Effort, Estimate, Figure, Findings, Results, Target, no_cases};

pub(super) const TARGETS: &[Target] = &[
    Target { id: "W-N3", title: "distance without collisions", cases: no_cases, judge: n3 },
    Target { id: "W-N4", title: "the end of the ACK time-out", cases: n4_cases, judge: n4 },
    Target { id: "W-N7", title: "how fast coding reacts", cases: no_cases, judge: n7 },
    Target { id: "W-X1", title: "error of the start of slots", cases: x1_cases, judge: x1 },
];

/// Two ends do not collide as long as propagation between them takes less than DIFS.
fn n3(_: Effort, _: &Results) -> Findings {
    let mut found = Findings::default();
    for (key, phy) in [("b", PhyKind::B), ("a", PhyKind::A), ("g", PhyKind::G)] {
        let phy: Phy = RadioConfig { phy, ..RadioConfig::default() }.phy();
        let km = phy.difs().as_nanos() as f64 / 1e3 * KM_PER_US;
        found.add(format!("{key}-km"), Estimate::exact(km));
    }
    found
}

/// Distances around the reach of the ACK time-out, in kilometres.
const N4_KM: [f64; 2] = [110.0, 111.0];

fn n4_cases(effort: Effort) -> Vec<Case> {
    let case = |km: f64| {
        let net = Net::pair(km).udp(1, 2, None).csma(2).seconds(effort, 20.0);
        net.case(format!("n4/{km}"))
    };
    N4_KM.map(case).to_vec()
}

fn n4(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    let phy = CALIBRATED.radio.phy();
    let timeout = CALIBRATED.limits.ack_timeout_us;
    found.add("timeout", Estimate::exact(timeout));
    let way_us = (timeout - phy.sifs().as_nanos() as f64 / 1e3) / 2.0;
    found.add("distance", Estimate::exact(way_us * KM_PER_US));
    let acked = |report: &Report| {
        let radio = &report.nodes[0].layers["radio"];
        radio["acknowledged"] as f64 / radio["frames"].max(1) as f64
    };
    found.add("acked-110", results.of("n4/110", acked));
    found.add("acked-111", results.of("n4/111", acked));
    found
}

fn n7(_: Effort, _: &Results) -> Findings {
    let mut found = Findings::default();
    // Slots of 10 ms as in the text; the peer's slots lie in between.
    found.add("reaction", Estimate::exact(LOSS_SLOTS as f64 * 2.0 * 10.0));
    found
}

/// Loss of all frames, including those with stamps.
const X1_LOSS: [f64; 6] = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5];
const X1_KM: f64 = 80.0;
/// How much faster and slower than true time the clocks run (`wildnet.md` 5: 20 ppm).
const X1_PPM: f64 = 20.0;

fn x1_cases(effort: Effort) -> Vec<Case> {
    let case = |loss: f64| {
        let net = Net::pair(X1_KM).loss(loss).tcp_both().wild().seconds(effort, 60.0);
        let net = net.with(|scenario| {
            scenario.node[0].clock = ClockConfig { offset_s: 0.7, drift_ppm: X1_PPM };
            scenario.node[1].clock = ClockConfig { offset_s: -0.4, drift_ppm: -X1_PPM };
        });
        net.case(format!("x1/{loss}"))
    };
    X1_LOSS.map(case).to_vec()
}

/// The largest error of both directions by true time, in microseconds; NaN if one end was never in
/// step.
fn slot_error(report: &Report) -> f64 {
    let errors: Vec<f64> = report.links.iter().filter_map(|link| link.slot_error_us).collect();
    if errors.len() < 2 {
        return f64::NAN;
    }
    errors.into_iter().fold(0.0, f64::max)
}

fn x1(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    let errors = curve(&X1_LOSS, |loss| results.largest(&format!("x1/{loss}"), slot_error));
    found.add("error", highest(&errors));
    let series = vec![ours("the largest of all runs", &in_percent(&errors))];
    let (x, y) = ("loss, %", "error of a slot's start, us");
    let title = "slots of 20 ms at 80 km, clocks 40 ppm apart";
    found.figures.push(Figure::new("W-X1", title, x, y, series));
    found
}
