//! `farhop check`: whether a scenario can be run, and what it would do.

use std::fmt::Write as _;
use std::path::PathBuf;

use farhop_proto::base::Duration;
use farhop_proto::base::phy::{ACK_BYTES, DATA_HEADER_BYTES, FCS_BYTES, LLC_SNAP_BYTES};
use farhop_proto::link::wild::WildConfig;
use farhop_proto::stack::{
    FlowKind, LinkConfig, LossConfig, NodePlan, RadioLinkConfig, RadioPlan, Scenario,
};
use farhop_proto::wire::wild::HEADER_BYTES;
use farhop_sim::engine::{flow_name, transport_name};

use super::print_text;
use crate::{Failure, load};

/// Size of a packet in examples and limits.
const PACKET_BYTES: usize = 1500;

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
        let _ = write!(out, "node {}: {ipv4}, {ipv6}", node.name);
        if let LinkConfig::Plain(_) = scenario.stack.link {
            let _ = write!(out, "; ACK time-out {} us", node.radios[0].ack_timeout.as_micros());
        }
        out.push('\n');
    }
    if let Some(node) = plan.nodes.first() {
        out += &describe_radio(node, &scenario.stack.link);
    }
    for link in &scenario.link {
        out += &describe_link(link);
        if let Some(node) = plan.nodes.first() {
            out += &describe_limit(link, &node.radios[0], &scenario.stack.link);
        }
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
    let mpdu = DATA_HEADER_BYTES + LLC_SNAP_BYTES + PACKET_BYTES + FCS_BYTES;
    let mut out = format!(
        "radio: {} at {}, ACK at {}; a packet of {PACKET_BYTES} B is {} us on air\n",
        phy.as_str().unwrap_or_default(),
        spec.rate,
        radio.ack_rate,
        spec.phy.air_time(mpdu, spec.rate).as_micros()
    );
    match link {
        LinkConfig::Plain(plain) => {
            let _ = writeln!(
                out,
                "plain: CSMA/CA, {} attempts, queue of {} packets",
                radio.config.attempts, plain.queue_packets
            );
        }
        LinkConfig::Wild(wild) => {
            let _ = writeln!(
                out,
                "wild: slots of {} ms with a guard of {} ms, {} packets of {PACKET_BYTES} B \
                 a slot, {} retries",
                wild.slot_ms,
                wild.guard_ms,
                packets_a_slot(wild, radio),
                wild.retries
            );
        }
    }
    out
}

/// Packets of full size that fit into a send slot.
fn packets_a_slot(wild: &WildConfig, radio: &RadioPlan) -> u64 {
    let frame = radio.spec.unacknowledged(PACKET_BYTES + HEADER_BYTES);
    let overhead = Duration::from_secs_f64(wild.overhead_us / 1e6);
    wild.slot().saturating_sub(wild.guard()).div_duration(frame + overhead)
}

/// The most that a link can carry when nothing is lost and nobody else is on the air.
fn describe_limit(link: &RadioLinkConfig, radio: &RadioPlan, config: &LinkConfig) -> String {
    let there_and_back = link.propagation() * 2;
    let (packets, time, way) = match config {
        LinkConfig::Wild(wild) => {
            (packets_a_slot(wild, radio), wild.slot() * 2 + there_and_back, "each way")
        }
        LinkConfig::Plain(_) => {
            let phy = &radio.spec.phy;
            let backoff = phy.slot() * u64::from(phy.contention_window().0) / 2;
            let mpdu = DATA_HEADER_BYTES + LLC_SNAP_BYTES + PACKET_BYTES + FCS_BYTES;
            let data = phy.air_time(mpdu, radio.spec.rate);
            let ack = phy.sifs() + phy.air_time(ACK_BYTES, radio.ack_rate);
            (1, phy.difs() + backoff + data + ack + there_and_back, "one way at a time")
        }
    };
    let bits = packets as f64 * PACKET_BYTES as f64 * 8.0;
    let mbps = bits / (time.as_nanos() as f64 / 1e3);
    format!("  at most {mbps:.2} Mb/s {way}, in packets of {PACKET_BYTES} B and without loss\n")
}

fn describe_link(link: &RadioLinkConfig) -> String {
    let [a, b] = &link.between;
    let delay: Duration = link.propagation();
    let loss = match &link.loss_back {
        Some(back) => format!("loss {} there, {} back", loss(&link.loss), loss(back)),
        None => format!("loss {}", loss(&link.loss)),
    };
    let micros = delay.as_nanos() as f64 / 1e3;
    format!("link {a} - {b}: {} km ({micros:.1} us), {loss}\n", link.distance_km)
}

fn loss(config: &LossConfig) -> String {
    match config {
        LossConfig::Bernoulli { p } => format!("{} %", p * 100.0),
        LossConfig::GilbertElliott { good_ms, bad_ms, good_loss, bad_loss } => {
            let share = bad_ms / (good_ms + bad_ms);
            let mean = share * bad_loss + (1.0 - share) * good_loss;
            format!("{:.1} % in bursts of {bad_ms} ms", mean * 100.0)
        }
        LossConfig::BernoulliUnits { p, unit_bytes } => {
            format!("{} % of units of {unit_bytes} bytes", p * 100.0)
        }
        LossConfig::GilbertElliottFrames { to_bad, to_good, good_loss, bad_loss } => {
            let share = to_bad / (to_bad + to_good);
            let mean = share * bad_loss + (1.0 - share) * good_loss;
            format!("{:.1} % in bursts of {:.1} frames", mean * 100.0, 1.0 / to_good)
        }
        LossConfig::Runs(runs) => format!("{} % in measured runs", runs.loss * 100.0),
        LossConfig::Interferer(interferer) => {
            format!("by an interferer of {} Mb/s", interferer.load_mbps)
        }
        LossConfig::Drift(drift) => format!("{} % that drifts", drift.loss * 100.0),
        LossConfig::Modulated(modulated) => {
            format!("{} % modulated by {}", modulated.loss * 100.0, modulated.spread)
        }
        LossConfig::Trace(trace) => format!("of the recording {}", trace.file),
        LossConfig::Driver(driver) => {
            format!("{}, and {} % in the driver", loss(&driver.loss), driver.q * 100.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(link: &str, km: u32) -> String {
        let text = format!(
            "name = \"x\"\nstack.link = {{ kind = \"{link}\" }}\nradio.gap = \"difs\"\n\
             node = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n[[link]]\n\
             between = [\"a\", \"b\"]\ndistance_km = {km}\n"
        );
        describe(&toml::from_str(&text).expect("a good scenario"))
    }

    #[test]
    fn plain_waits_for_each_acknowledgement() {
        // 50 us DIFS, 310 us backoff, 1214 us data, 10 us SIFS, 152 us ACK, 534 us there and back.
        let said = described("plain", 80);
        assert!(said.contains("at most 5.29 Mb/s one way"), "{said}");
        assert!(described("plain", 8).contains("at most 6.71 Mb/s"), "{said}");
        assert!(said.contains("ACK time-out 563 us"), "{said}");
    }

    #[test]
    fn slots_cost_half_and_a_guard_but_no_distance() {
        for (km, limit) in [(1, "4.20"), (80, "4.14")] {
            let said = described("wild", km);
            assert!(said.contains(&format!("at most {limit} Mb/s each way")), "{said}");
        }
    }
}
