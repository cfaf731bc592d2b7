//! Beyond the paper: blocks with our default settings, compared with what the air could carry and,
//! over five hops of 90 m, with today's CUBIC at the usual seven attempts.

use farhop_proto::link::plain::PlainConfig;
use farhop_proto::stack::{
    AccessConfig, Congestion, DriverConfig, FlowConfig, FlowKind, LinkConfig, LossConfig, Scenario,
};

use super::many::{self, fairness, starved};
use super::network::{Carrier, Mac, Net, mean_kbps};
use crate::curve::{curve, highest, ours};
use crate::{At, Case, Effort, Figure, Findings, Places, Results, Target};

pub(super) const TARGETS: &[Target] =
    &[Target { id: "H-BEYOND", title: "beyond the paper, as it is by default", cases, judge }];

/// Payload of a full datagram, in bytes.
const DATAGRAM: usize = 1_472;
/// Sizes of small files, in bytes.
const SMALL: [u64; 4] = [1_000, 2_000, 4_000, 8_000];

/// UDP under the conditions of block frames: in the background category, without MAC
/// acknowledgement, in TXOPs.
fn udp(rate_mbps: Option<f64>) -> Net {
    Net::pair(0.0).with(|scenario| {
        let background = scenario.radio.access.background.clone();
        let access = AccessConfig { aifsn: Some(7), ..background };
        scenario.radio.access.best_effort = access;
        scenario.stack.link =
            LinkConfig::Plain(PlainConfig { mac_ack: false, ..PlainConfig::default() });
        scenario.flow.push(FlowConfig {
            from: "n1".into(),
            to: "n2".into(),
            kind: FlowKind::Udp,
            size_bytes: DATAGRAM,
            rate_mbps,
            ..FlowConfig::default()
        });
    })
}

fn settled(scenario: &mut Scenario) {
    scenario.measure_from_s = Some(2.0);
}

fn one_hop(key: &str, loss: LossConfig) -> Case {
    let net = Net::pair(0.0).product().stream(Carrier::Hop, ["n1", "n2"]).with(|scenario| {
        scenario.link[0].loss = Some(loss);
        settled(scenario);
    });
    // A megabyte takes seconds on this link.
    net.for_s(180.0).case(format!("beyond/{key}"))
}

/// Loss on each of the five hops.
const FIVE: [(&str, f64); 2] = [("clean", 0.0), ("lossy", 0.3)];

fn five(carrier: Carrier, (key, loss): (&str, f64)) -> Case {
    let net = Net::chain(5, loss).product().mac(Mac::Default).stream(carrier, ["n1", "n6"]);
    let net = net.with(|scenario| {
        (scenario.radio.attempts, scenario.radio.long_attempts) = (7, 7);
        for flow in scenario.flow.iter_mut().filter(|flow| flow.kind == FlowKind::Tcp) {
            (flow.congestion, flow.tcp) = (Congestion::Cubic, Default::default());
        }
    });
    net.for_s(300.0).case(format!("beyond/five/{}/{key}", carrier.name()))
}

fn cases(effort: Effort) -> Vec<Case> {
    let driver = LossConfig::Driver(DriverConfig { q: 0.5, ack: true, loss: Box::default() });
    let mut cases = vec![
        udp(None).with(settled).seconds(effort, 60.0).case("beyond/udp"),
        udp(Some(0.1)).with(settled).for_s(20.0).case("beyond/udp-alone"),
        one_hop("none", LossConfig::default()),
        one_hop("air", LossConfig::Bernoulli { p: 0.5 }),
        one_hop("driver", driver),
    ];
    for bytes in SMALL {
        let net = Net::pair(0.0).product().file(Carrier::Hop, ["n1", "n2"], bytes).for_s(10.0);
        cases.push(net.case(format!("beyond/small/{bytes}")));
    }
    for hops in FIVE {
        cases.extend([Carrier::Hop, Carrier::Tcp].map(|carrier| five(carrier, hops)));
    }
    cases.extend(many::for_product(effort));
    cases
}

/// How much longer a small file takes than its datagrams sent one after the other, in round-trip
/// times of a datagram.
fn small(at: At<'_>, bytes: u64) -> f64 {
    let delay = at.report("beyond/udp-alone").flows[0].delay_ms.map_or(f64::NAN, |all| all.mean);
    let datagrams = bytes.div_ceil(DATAGRAM as u64) as f64;
    let took = at.report(&format!("beyond/small/{bytes}")).flows[0].completed_s;
    (took.map_or(f64::NAN, |took| took * 1e3) - datagrams * delay) / (2.0 * delay)
}

fn judge(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    for (key, share) in [("none", 1.0), ("air", 0.5), ("driver", 0.5)] {
        let carried = |at: At<'_>| at.total(&format!("beyond/{key}"));
        let part = results.ratio(carried, |at| at.total("beyond/udp") * share);
        found.add(if key == "none" { "clean" } else { key }, part);
    }
    let sizes = SMALL.map(|bytes| bytes as f64);
    let longer = curve(&sizes, |bytes| results.over_seeds(|at| small(at, bytes as u64)));
    found.add("small", highest(&longer));
    let [hop, tcp] = many::PRODUCT;
    let of = |key: &'static str| move |at: At<'_>| mean_kbps(at.report(key)).max(1e-3);
    found.add("gain", results.ratio(of(hop), of(tcp)));
    found.add("fairness", results.of(hop, fairness));
    found.add("starved", results.of(hop, starved));
    for (key, _) in FIVE {
        let of = |at: At<'_>, carrier: Carrier| {
            at.total(&format!("beyond/five/{}/{key}", carrier.name()))
        };
        let gain = results.ratio(|at| of(at, Carrier::Hop), |at| of(at, Carrier::Tcp).max(1e-6));
        found.add(format!("five-{key}"), gain);
    }
    let (x, y) = ("size of the file", "longer than UDP, round trips");
    let series = vec![ours("by default", &longer)];
    let figure = Figure::new("H-BEYOND", "small files over one hop", x, y, series);
    found.figures.push(figure.over(Places::Sizes));
    found
}
