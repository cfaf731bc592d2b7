//! `farhop check`: whether a scenario can be run, and what it would do.

use std::fmt::Write as _;
use std::path::PathBuf;

use farhop_proto::base::Duration;
use farhop_proto::base::phy::{DATA_HEADER_BYTES, FCS_BYTES, LLC_SNAP_BYTES};
use farhop_proto::stack::{FlowKind, LinkConfig, LossConfig, NodePlan, RadioLinkConfig, Scenario};
use farhop_sim::engine::{flow_name, transport_name};

use super::print_text;
use crate::{Failure, load};

/// Checks a scenario and says what it would do; exit status 2 if something in it is wrong.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  farhop check scenarios/demo.toml")]
pub(crate) struct Options {
    /// The scenario.
    file: PathBuf,
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let loaded = load::load(&options.file)?;
    print_text(describe(&loaded.scenario).trim_end());
    Ok(())
}

/// What a scenario would do, for people.
pub(crate) fn describe(scenario: &Scenario) -> String {
    let plan = scenario.plan();
    let mut out = format!(
        "{}: {} s, seed {}, link {}, routing fixed\n",
        scenario.name,
        scenario.duration_s,
        scenario.seed,
        scenario.stack.link.name()
    );
    if !scenario.description.is_empty() {
        let _ = writeln!(out, "{}", scenario.description);
    }
    for node in &plan.nodes {
        let (ipv4, ipv6) = (node.addresses.ipv4(node.node), node.addresses.ipv6(node.node));
        let _ = writeln!(out, "node {}: {ipv4}, {ipv6}", node.name);
    }
    if let Some(node) = plan.nodes.first() {
        out += &describe_radio(node, &scenario.stack.link);
    }
    for link in &scenario.link {
        out += &describe_link(link);
    }
    for flow in &scenario.flow {
        let what = match (flow.kind, flow.bytes, flow.rate_mbps) {
            (FlowKind::Tcp, Some(bytes), _) => format!("{bytes} bytes"),
            (FlowKind::Udp, _, Some(rate)) => format!("{rate} Mb/s in {} B", flow.size_bytes),
            _ => "as much as goes".into(),
        };
        let stop = flow.stop_s.unwrap_or(scenario.duration_s);
        let _ = writeln!(
            out,
            "flow {}: {} from {} to {}, {what}, {} s to {stop} s",
            flow_name(flow),
            transport_name(flow),
            flow.from,
            flow.to,
            flow.start_s
        );
    }
    for fault in &scenario.fault {
        let what = match (&fault.node, &fault.link) {
            (Some(node), _) => format!("node {node}"),
            (None, Some([a, b])) => format!("link {a} - {b}"),
            (None, None) => continue,
        };
        let _ = writeln!(out, "fault: {what} is down from {} s to {} s", fault.from_s, fault.to_s);
    }
    out
}

fn describe_radio(node: &NodePlan, link: &LinkConfig) -> String {
    let radio = &node.radios[0];
    let spec = &radio.spec;
    let phy = serde_json::to_value(spec.phy.kind).unwrap_or_default();
    let mpdu = DATA_HEADER_BYTES + LLC_SNAP_BYTES + 1500 + FCS_BYTES;
    let mut out = format!(
        "radio: {} at {}, ACK at {}; a packet of 1500 B is {} us on air\n",
        phy.as_str().unwrap_or_default(),
        spec.rate,
        radio.ack_rate,
        spec.phy.air_time(mpdu, spec.rate).as_micros()
    );
    match link {
        LinkConfig::Plain(plain) => {
            let _ = writeln!(
                out,
                "plain: CSMA/CA, {} attempts, ACK time-out {} us, queue of {} packets",
                radio.config.attempts,
                radio.ack_timeout.as_micros(),
                plain.queue_packets
            );
        }
        LinkConfig::Wild(wild) => {
            let usable = wild.slot().saturating_sub(wild.guard());
            let frame = spec.unacknowledged(1500 + farhop_proto::wire::wild::HEADER_BYTES);
            let _ = writeln!(
                out,
                "wild: slots of {} ms with a guard of {} ms: {} packets of 1500 B a slot; \
                 {} retries",
                wild.slot_ms,
                wild.guard_ms,
                usable.div_duration(frame),
                wild.retries
            );
        }
    }
    out
}

fn describe_link(link: &RadioLinkConfig) -> String {
    let [a, b] = &link.between;
    let delay: Duration = link.propagation();
    let loss = match link.loss_back {
        Some(back) => format!("loss {} there, {} back", loss(&link.loss), loss(&back)),
        None => format!("loss {}", loss(&link.loss)),
    };
    let micros = delay.as_nanos() as f64 / 1e3;
    format!("link {a} - {b}: {} km ({micros:.1} us), {loss}\n", link.distance_km)
}

fn loss(loss: &LossConfig) -> String {
    match loss {
        LossConfig::Bernoulli { p } => format!("{} %", p * 100.0),
        LossConfig::GilbertElliott { good_ms, bad_ms, good_loss, bad_loss } => {
            let share = bad_ms / (good_ms + bad_ms);
            let mean = share * bad_loss + (1.0 - share) * good_loss;
            format!("{:.1} % in bursts of {bad_ms} ms", mean * 100.0)
        }
    }
}
