//! Constants, and the control frames of a block.

use farhop_proto::routing::olsr::OlsrConfig;
use farhop_proto::stack::Codec;
use farhop_proto::transport::hop::{BATCH, HOPS, HopConfig, SMALL_BYTES};
use farhop_sim::engine::Report;

use super::network::{CALIBRATED, Carrier, FILE, Net};
use crate::{At, Case, Effort, Estimate, Findings, Results, Target, no_cases};

pub(super) const TARGETS: &[Target] = &[
    Target { id: "H-F2", title: "control frames of a block", cases: f2_cases, judge: f2 },
    Target { id: "H-F5", title: "the states of a block", cases: f2_cases, judge: f5 },
    Target { id: "H-N3", title: "constants", cases: no_cases, judge: n3 },
    Target { id: "H-X2", title: "what control costs in air", cases: f2_cases, judge: x2 },
];

/// Blocks of a megabyte over one hop without losses, and TCP for comparison.
fn f2_cases(_: Effort) -> Vec<Case> {
    let case = |carrier: Carrier| {
        let net = Net::pair(0.0).file(carrier, ["n1", "n2"], FILE).for_s(60.0);
        net.case(format!("f2/{}", carrier.name()))
    };
    vec![case(Carrier::Hop), case(Carrier::Tcp)]
}

fn sum(report: &Report, layer: &str, counter: &str) -> f64 {
    let of = |node: &farhop_sim::engine::NodeReport| {
        node.layers.get(layer).and_then(|all| all.get(counter)).copied().unwrap_or_default()
    };
    report.nodes.iter().map(of).sum::<u64>() as f64
}

fn megabytes(report: &Report) -> f64 {
    report.flows[0].delivered_bytes as f64 / f64::from(1 << 20)
}

/// Control messages of blocks and MAC acknowledgements, per megabyte.
fn of_hop(report: &Report) -> f64 {
    let messages = sum(report, "hop", "requests") + sum(report, "hop", "answers");
    (messages + sum(report, "radio", "acks_sent")) / megabytes(report)
}

/// TCP acknowledgements and MAC acknowledgements, per megabyte.
fn of_tcp(report: &Report) -> f64 {
    let segments = report.nodes[1].layers["flows"]["sent"] as f64;
    (segments + sum(report, "radio", "acks_sent")) / megabytes(report)
}

fn f2(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    found.add("hop", results.of("f2/hop", of_hop));
    found.add("tcp", results.of("f2/tcp", of_tcp));
    let hop = |at: At<'_>| of_hop(at.report("f2/hop"));
    found.add("ratio", results.ratio(hop, |at| of_tcp(at.report("f2/tcp"))));
    found
}

fn f5(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    // Each block has a request before its frames and one after them. So has the first one, which
    // is small: its frames follow the first request at once.
    let blocks = |report: &Report| sum(report, "hop", "blocks_delivered");
    let requests = |report: &Report| sum(report, "hop", "requests") / (blocks(report) * 2.0);
    found.add("requests", results.of("f2/hop", requests));
    let again = |report: &Report| sum(report, "hop", "frames_again");
    found.add("again", results.of("f2/hop", again));
    found
}

fn n3(_: Effort, _: &Results) -> Findings {
    let mut found = Findings::default();
    let txop = CALIBRATED.radio.access.background.txop_us.unwrap_or_default();
    let product = HopConfig::default();
    for (key, value) in [
        ("txop", f64::from(txop)),
        ("high", f64::from(CALIBRATED.hop.high_blocks)),
        ("low", f64::from(CALIBRATED.hop.low_blocks)),
        ("high-product", f64::from(product.high_blocks)),
        ("turn", f64::from(CALIBRATED.hop.turn_frames)),
        ("voice", Codec::PACKET_S * 1e3),
        ("hops", f64::from(HOPS)),
        ("small", f64::from(SMALL_BYTES)),
        ("batch", BATCH.as_secs_f64()),
        ("recompute", OlsrConfig::default().recompute_s),
    ] {
        found.add(key, Estimate::exact(value));
    }
    found
}

fn x2(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    // Air time that is not spent on frames of blocks; these all take equally long, but for the last
    // one.
    let share = |report: &Report| {
        let frame_us = CALIBRATED
            .radio
            .phy()
            .air_time(
                usize::from(CALIBRATED.hop.frame_bytes) + FRONT_BYTES,
                CALIBRATED.radio.rate(),
            )
            .as_nanos() as f64
            / 1e3;
        let data = sum(report, "hop", "frames_sent") * frame_us;
        let air = sum(report, "radio", "air_data_us") + sum(report, "radio", "air_ack_us");
        (air - data) / air * 100.0
    };
    found.add("share", results.of("f2/hop", share));
    found
}

/// MAC header, LLC and check sequence; IP and UDP headers; the header of blocks.
const FRONT_BYTES: usize = 36 + 28 + 24;
