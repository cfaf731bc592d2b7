//! Five hops, from corner to corner of the testbed and in a chain.

use super::network::{self, Carrier, FILE, Net, kbps, names};
use super::testbed::CORNERS;
use crate::curve::highest;
use crate::{At, Case, Effort, Estimate, Findings, Results, Target};

pub(super) const TARGETS: &[Target] = &[
    Target { id: "H-F7b", title: "five hops, corner to corner", cases: f7b_cases, judge: f7b },
    Target { id: "H-X1", title: "a relay fails in a block", cases: x1_cases, judge: x1 },
];

fn f7b_cases(_: Effort) -> Vec<Case> {
    let [a, b] = names(CORNERS);
    let case = |carrier: Carrier| {
        let net = Net::testbed().file(carrier, [&a, &b], FILE).for_s(900.0);
        net.case(format!("f7b/{}", carrier.name()))
    };
    Carrier::ALL.map(case).to_vec()
}

fn f7b(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    let of = |at: At<'_>, carrier: Carrier| {
        kbps(&at.report(&format!("f7b/{}", carrier.name())).flows[0])
    };
    let gains =
        Carrier::OTHERS.map(|other| results.ratio(|at| of(at, Carrier::Hop), |at| of(at, other)));
    for (other, gain) in Carrier::OTHERS.iter().zip(gains) {
        found.add(other.name(), gain);
    }
    let dtn_over = |other| results.ratio(|at| of(at, Carrier::Dtn), |at| of(at, other));
    // Over the lower one of them.
    let of_both = [(0.0, dtn_over(Carrier::Tcp)), (1.0, dtn_over(Carrier::Stitched))];
    found.add("dtn-lowest", highest(&of_both));
    let means = Carrier::ALL.map(|carrier| results.over_seeds(|at| of(at, carrier)));
    let (title, all) = ("five hops, corner to corner", Carrier::ALL.map(Carrier::title));
    found.figures.push(network::goodputs("H-F7b", title, &all, means));
    let printed = [(0.0, 4.0), (1.0, 4.0), (2.0, 4.0)];
    found.figures.push(network::gains("H-F7b", title, &all[1..], gains, printed));
    found
}

/// When the fourth of the six nodes fails and when it recovers, in seconds.
const FAILS: [f64; 2] = [12.0, 22.0];

fn x1_cases(_: Effort) -> Vec<Case> {
    let net = Net::chain(5, 0.0).file(Carrier::Hop, ["n1", "n6"], FILE / 2).for_s(120.0);
    let net = net.with(|scenario| {
        scenario.fault.push(farhop_proto::stack::FaultConfig {
            node: Some("n4".into()),
            from_s: FAILS[0],
            to_s: FAILS[1],
            ..Default::default()
        });
        // Relays pass on whole blocks only, so that it is known which hops were complete.
        scenario.stack.hop.as_mut().expect("every net has it").pipeline = Some(false);
    });
    vec![net.case("x1")]
}

fn x1(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    let came =
        results.of("x1", |report| report.flows[0].delivered_bytes as f64 / FILE as f64 * 2.0);
    found.add("came", came);
    // The hops before the node that failed had completed their blocks.
    let again = |at: At<'_>| {
        let count = |node: usize, name| at.report("x1").nodes[node].layers["hop"][name] as f64;
        // A block that is taken twice, or whose frames come after it was let go, is a repetition
        // too: the destination has needed each frame once.
        let needed = count(5, "frames_received");
        let of = |node| {
            let [again, unknown] = ["frames_again", "frames_unknown"].map(|name| count(node, name));
            again + unknown + (count(node, "frames_received") - needed).abs()
        };
        of(1) + of(2)
    };
    found.add("again", results.over_seeds(again));
    let asked = results.of("x1", |report| report.nodes[0].layers["hop"]["virtual_requests"] as f64);
    found.add("virtual", Estimate { ..asked });
    found
}
