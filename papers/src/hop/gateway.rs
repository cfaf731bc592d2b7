//! Downloads from a wired server through a gateway.

use farhop_proto::stack::{
    Congestion, FlowConfig, FlowKind, NodeConfig, Onward, RadioLinkConfig, RadioOverride,
    RelayConfig,
};

use super::network::{self, Carrier, FILE, Net, file, mean_kbps};
use super::testbed::{CORNERS, NODES, hops, name};
use crate::curve::{Curve, lowest};
use crate::{At, Case, Effort, Findings, Results, Target};

pub(super) const TARGETS: &[Target] =
    &[Target { id: "H-F12", title: "downloads through a gateway", cases, judge }];

/// The transports of the downloads.
const WAYS: [&str; 4] = ["hop", "tcp", "split", "split-westwood"];
const NAMES: [&str; 4] = ["Hop", "TCP", "split TCP", "split Westwood+"];

/// The gateway, in a corner, and three nodes that are five hops away from it.
fn places() -> (u16, Vec<u16>) {
    let readers = |gateway| (1..=NODES).filter(move |node| hops(gateway, *node) == 5);
    let far = |gateway: &u16| readers(*gateway).count();
    let gateway = CORNERS.into_iter().max_by_key(far).expect("two corners");
    (gateway, readers(gateway).take(3).collect())
}

/// A wire of 100 Mb/s with a round-trip time of 20 ms, without losses.
fn wire(gateway: &str) -> RadioLinkConfig {
    let own = serde_json::json!({ "phy": "wire", "rate_mbps": 100 });
    let own: RadioOverride = serde_json::from_value(own).expect("a setting of radios");
    RadioLinkConfig {
        between: ["server".into(), gateway.into()],
        delay_ms: 10.0,
        radio: Some(own),
        ..RadioLinkConfig::default()
    }
}

fn download(way: &str, gateway: &str, reader: u16) -> FlowConfig {
    let tcp = file(Carrier::Tcp, "server", &name(reader), Some(FILE));
    let relay = |onward| {
        Some(RelayConfig { at: vec![gateway.to_owned()], onward, ..RelayConfig::default() })
    };
    let kind = FlowKind::Relayed;
    match way {
        "hop" => FlowConfig { kind, relay: relay(Onward::Hop), ..tcp },
        "split" => FlowConfig { kind, relay: relay(Onward::Tcp), ..tcp },
        "split-westwood" => {
            let congestion = Congestion::Westwood;
            FlowConfig { kind, relay: relay(Onward::Tcp), congestion, ..tcp }
        }
        _ => tcp,
    }
}

fn cases(_: Effort) -> Vec<Case> {
    let (gateway, readers) = places();
    let gateway = name(gateway);
    let case = |way: &str| {
        let net = Net::testbed().for_s(1_500.0).with(|scenario| {
            scenario.node.push(NodeConfig { name: "server".into(), ..NodeConfig::default() });
            scenario.link.push(wire(&gateway));
            for reader in &readers {
                scenario.flow.push(download(way, &gateway, *reader));
            }
        });
        net.case(format!("f12/{way}"))
    };
    WAYS.map(case).to_vec()
}

fn judge(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    let of = |at: At<'_>, way: &str| mean_kbps(at.report(&format!("f12/{way}")));
    let gain = |way: &str| results.ratio(|at| of(at, "hop"), |at| of(at, way));
    let gains: Curve = (1..WAYS.len()).map(|place| (place as f64, gain(WAYS[place]))).collect();
    // Over the best of them.
    found.add("gain", lowest(&gains));
    let title = "downloads through a gateway";
    let means = WAYS.map(|way| results.over_seeds(|at| of(at, way)));
    found.figures.push(network::goodputs("H-F12", title, &NAMES, means));
    let printed = [(0.0, 1.6), (1.0, 1.6), (2.0, 1.6)];
    found.figures.push(network::gains(
        "H-F12",
        title,
        &NAMES[1..],
        gains.into_iter().map(|at| at.1),
        printed,
    ));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_nodes_read_over_five_hops_each() {
        let (gateway, readers) = places();
        assert_eq!(readers.len(), 3, "around {gateway}");
        assert!(readers.iter().all(|reader| hops(gateway, *reader) == 5));
    }
}
