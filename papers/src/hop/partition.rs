//! A path of five hops that is never complete: three of its nodes are down in turn.

use farhop_proto::stack::FaultConfig;
use farhop_proto::transport::hop::Ahead;

use super::network::{Carrier, Net, kbps, names};
use super::testbed::{CORNERS, name, path};
use crate::{At, Case, Effort, Figure, Findings, Results, Series, Target};

pub(super) const TARGETS: &[Target] =
    &[Target { id: "H-T4", title: "partitions: H of 1 and of 100", cases, judge }];

/// Time before the first node goes down, in seconds, in which the connection is set up.
const BEFORE_S: f64 = 20.0;
/// Time after the first failure in which what is still on its way beyond it arrives, in seconds.
const SETTLED_S: f64 = 5.0;
/// How long each node is down, in seconds.
const DOWN_S: f64 = 60.0;
/// Time from the first failure to the end of the run, in seconds.
const MEASURED_S: f64 = 900.0;

/// H, and which blocks it counts: as in the paper, or by our default.
const CASES: [(&str, u32, Ahead); 3] =
    [("h1", 1, Ahead::Always), ("h100", 100, Ahead::Gone), ("always", 100, Ahead::Always)];

fn partitioned(carrier: Carrier) -> Net {
    let [a, b] = names(CORNERS);
    let nodes = path(CORNERS[0], CORNERS[1]);
    let end = BEFORE_S + MEASURED_S;
    Net::testbed().stream(carrier, [&a, &b]).for_s(end).with(|scenario| {
        // What is still on its way beyond the first failure does not count.
        scenario.measure_from_s = Some(BEFORE_S + SETTLED_S);
        let mut from_s = BEFORE_S;
        // The third, fourth and fifth of six nodes.
        for node in nodes[2..5].iter().cycle() {
            if from_s >= end {
                break;
            }
            let to_s = (from_s + DOWN_S).min(end);
            let node = Some(name(*node));
            scenario.fault.push(FaultConfig { node, from_s, to_s, ..FaultConfig::default() });
            from_s = to_s;
        }
    })
}

fn cases(_: Effort) -> Vec<Case> {
    let hop = |(key, high, ahead): (&str, u32, Ahead)| {
        let net = partitioned(Carrier::Hop).blocks(|hop| {
            (hop.high_blocks, hop.ahead) = (high, ahead);
        });
        net.case(format!("t4/{key}"))
    };
    let tcp = partitioned(Carrier::Tcp).case("t4/tcp");
    CASES.into_iter().map(hop).chain([tcp]).collect()
}

fn judge(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    let of = |at: At<'_>, key: &str| kbps(&at.report(&format!("t4/{key}")).flows[0]);
    let all = |key: &str| results.over_seeds(|at| of(at, key));
    // The paper's H counts all waiting blocks, whether the next hop is up or not.
    found.add("gain", results.ratio(|at| of(at, "always"), |at| of(at, "h1").max(1e-9)));
    found.add("h1", all("h1"));
    found.add("tcp", all("tcp"));
    let bars = ["h1", "h100", "always", "tcp"].map(all);
    let printed = Series::published("goodput", [(0.0, 40.0), (2.0, 281.0), (3.0, 0.0)]);
    let series = vec![Series::named("goodput", bars), printed];
    let names = ["Hop, H = 1", "H = 100, next hop gone", "H = 100, always", "TCP"];
    let figure = Figure::new("H-T4", "partitions by H", "", "goodput, kb/s", series);
    found.figures.push(figure.over_names(&names));
    found
}
