//! Snoop compared with the slotted link: TCP repair at the sender of each hop.

use farhop_proto::link::snoop::SnoopConfig;
use farhop_proto::link::wild::Retries;

use super::network::{CALIBRATED, Net};
use crate::curve::{crossing, in_percent, lowest, ours, totals};
use crate::{At, Case, Effort, Figure, Findings, Results, Target};

pub(super) const TARGETS: &[Target] =
    &[Target { id: "W-N5", title: "Snoop, over CSMA and over slots", cases, judge }];

const KM: f64 = 80.0;
const LOSS: [f64; 7] = [0.0, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3];
/// Index of the first loss at which the slotted link is compared: from here on there is something
/// to repair.
const LOSSY: usize = 3;
const LINKS: [(&str, &str); 6] = [
    ("wild", "WiLDNet"),
    ("csma", "CSMA, 2 retries"),
    ("csma-0", "CSMA, no retries"),
    ("snoop-csma", "Snoop over CSMA, 2 retries"),
    ("snoop-csma-0", "Snoop over CSMA, no retries"),
    ("snoop-wild", "Snoop over slots, no retries"),
];
fn key(link: &str, loss: f64) -> String {
    format!("n5/{link}/{loss}")
}

fn with_snoop(net: Net) -> Net {
    let queue_packets = CALIBRATED.limits.queue_packets;
    let config = SnoopConfig { queue_packets, ..SnoopConfig::default() };
    net.with(|scenario| scenario.stack.snoop = Some(config))
}

fn cases(effort: Effort) -> Vec<Case> {
    let case = |loss: f64, link: &str| {
        let net = Net::pair(KM).loss(loss).tcp_both().seconds(effort, 60.0);
        let net = match link {
            "wild" => net.wild(),
            "csma" => net.csma(2),
            "csma-0" => net.csma(0),
            "snoop-csma" => with_snoop(net.csma(2)),
            "snoop-csma-0" => with_snoop(net.csma(0)),
            _ => with_snoop(net.wild_with(|wild| wild.retries = Retries::Fixed(0))),
        };
        net.case(key(link, loss))
    };
    LOSS.iter().flat_map(|loss| LINKS.map(|(link, _)| case(*loss, link))).collect()
}

fn judge(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    let of = |link: &str| totals(results, &LOSS, |loss| key(link, loss));
    for snoop in ["snoop-csma", "snoop-csma-0", "snoop-wild"] {
        let ratio = |loss: f64| {
            let of = |seed: At<'_>, link| seed.total(&key(link, loss)).max(1e-6);
            results.ratio(|seed| of(seed, "wild"), |seed| of(seed, snoop))
        };
        let ratios: Vec<_> = LOSS[LOSSY..].iter().map(|loss| (*loss, ratio(*loss))).collect();
        found.add(format!("over-{snoop}"), lowest(&ratios));
    }
    // Without retries, only Snoop repairs anything.
    let csma = of("csma-0");
    let percent = |mut at: crate::Estimate| {
        at.mean *= 100.0;
        at
    };
    found.add("crossing", percent(crossing(&of("snoop-csma-0"), &csma)));
    let series = LINKS.map(|(link, name)| ours(name, &in_percent(&of(link)))).to_vec();
    let (x, y) = ("loss, %", "TCP both ways, Mb/s");
    found.figures.push(Figure::new("W-N5", "TCP both ways with Snoop, 80 km", x, y, series));
    found
}
