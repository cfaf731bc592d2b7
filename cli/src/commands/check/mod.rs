//! `farhop check`: whether a scenario is correct, and what it would do.

mod limits;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use farhop_proto::base::{AccessCategory, Duration, PhyKind, RadioSpec, counted};
use farhop_proto::link::secure::SecurityConfig;
use farhop_proto::link::wild::{Recovery, WildConfig};
use farhop_proto::stack::{
    Codec, DeviceConfig, FlowConfig, FlowKind, Hop, LinkConfig, LossConfig, NodeConfig, NodePlan,
    OnOffConfig, Plan, Problem, PropagationKind, RadioLinkConfig, RadioPlan, Scenario, Thresholds,
    VoipConfig,
};
use farhop_sim::engine::{flow_name, transport_name};

use self::limits::{describe_limits, packet_mpdu, radio_at, sender};
use super::up::{IDLE_PSK, READABLE};
use super::{lab, print_text};
use crate::{Failure, load, sweep};

/// Size of a packet in examples and estimates, in bytes.
const PACKET_BYTES: usize = 1500;
/// Most nodes, links and flows that are listed one by one.
const LISTED: usize = 20;

/// Checks a scenario and describes what it would do; exit status 2 if something in it is wrong.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  farhop check scenarios/demo.toml")]
pub(crate) struct Options {
    /// The scenario.
    file: PathBuf,
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let loaded = load::load(&options.file)?;
    let mut text = describe(&loaded.scenario);
    if loaded.scenario.sweep.is_some() {
        let _ = writeln!(text, "sweep: {}", sweep::describe(&loaded)?);
    }
    let scenario = &loaded.scenario;
    if scenario.security.as_ref().is_some_and(SecurityConfig::is_readable) {
        let _ = writeln!(text, "security: {READABLE}");
    }
    if let Some(off) = scenario.security.as_ref().filter(|security| !security.is_on()) {
        let _ =
            writeln!(text, "security: OFF: whoever is in range can read, forge and replay frames");
        if off.psk.is_some() {
            let _ = writeln!(text, "security: {IDLE_PSK}");
        }
    }
    for note in scenario.notes() {
        let _ = writeln!(text, "note: {note}");
    }
    if let Some(Problem { message, help, .. }) = farhop_sim::engine::refusal(scenario) {
        let _ = writeln!(text, "farhop sim would refuse it: {message}: {help}");
    }
    if let Some(why) = lab::refusal(scenario) {
        let _ = writeln!(text, "farhop lab would refuse it: {why}");
    }
    print_text(text.trim_end())?;
    Ok(())
}

/// What a scenario would do, as text.
pub(crate) fn describe(scenario: &Scenario) -> String {
    let plan = scenario.plan_for_flows();
    let mut out = format!(
        "{}: {} s, seed {}, link {}, routing {}\n",
        scenario.name,
        scenario.duration_s,
        scenario.seed,
        scenario.stack.link.name(),
        scenario.stack.routing.name()
    );
    if !scenario.description.is_empty() {
        let _ = writeln!(out, "{}", scenario.description);
    }
    for node in plan.nodes.iter().take(LISTED) {
        out += &describe_node(scenario, node);
    }
    out += &more(plan.nodes.len(), "node");
    if scenario.propagation_kind() != PropagationKind::Links {
        out += &describe_air(scenario, &plan);
    }
    if scenario.has_movers() && scenario.stack.link.has_schedule() {
        out +=
            "  nodes move: slots serve the neighbours that each has at the start, and no others\n";
    }
    let radios = || plan.nodes.iter().flat_map(|node| node.radios.iter().map(move |it| (node, it)));
    let on_air = radios().find(|(_, radio)| is_on_air(radio));
    if let Some((node, radio)) = on_air.or_else(|| radios().next()) {
        out += &describe_radio(radio, &node.stack.link);
    }
    if let LinkConfig::Plain(_) = scenario.stack.link
        && scenario.node.iter().any(NodeConfig::has_udp)
    {
        out += "  that is for `sim` and `lab`: over udp `up` sends as fast as the path takes it, \
                and repeats nothing\n";
    }
    for (link, hops) in scenario.link.iter().zip(plan.hops.chunks(2)).take(LISTED) {
        let RadioSpec { phy, rate, .. } = radio_at(&plan, hops[0].from).spec;
        out += &describe_link(link, hops, &margin(scenario, &plan, &hops[0]));
        let is_wire = phy.kind == PhyKind::Wire;
        out += &if is_wire { format!("  a wire of {rate}\n") } else { String::new() };
        if !is_wire && hops.iter().all(|hop| !hop.usable) {
            out += "  carries nothing: too weak, or its ends share no rate or channel\n";
        } else if !is_wire {
            out += &describe_limits(&plan, link, hops);
        }
    }
    out += &more(scenario.link.len(), "link");
    describe_traffic(&mut out, scenario);
    out
}

fn describe_node(scenario: &Scenario, node: &NodePlan) -> String {
    let (ipv4, ipv6) = (node.addresses.ipv4(node.node), node.addresses.ipv6(node.node));
    let mut out = format!("node {}: {ipv4}, {ipv6}", node.name);
    if node.radios.len() > 1 {
        let _ = write!(out, "; {}", counted(node.radios.len(), "radio"));
    }
    if let LinkConfig::Plain(_) = scenario.stack.link {
        out += &describe_timeouts(node);
    }
    out += &describe_devices(scenario, &node.name);
    for prefix in node.networks.behind(node.node) {
        let _ = write!(out, "; {prefix} is behind it");
    }
    out.push('\n');
    out
}

/// A line that counts what a long list leaves out.
fn more(all: usize, what: &str) -> String {
    match all.checked_sub(LISTED) {
        Some(left) if left > 0 => format!("and {}\n", counted(left, &format!("more {what}"))),
        _ => String::new(),
    }
}

/// The propagation model, and how many nodes hear each other.
fn describe_air(scenario: &Scenario, plan: &Plan) -> String {
    let degrees: Vec<usize> = plan.nodes.iter().map(|node| node.peers.len()).collect();
    let sum: usize = degrees.iter().sum();
    let (least, most) = (degrees.iter().min(), degrees.iter().max());
    format!(
        "air: {}; {}, in reach of each other {}, a radio is heard in {}\n  neighbours of a node: \
         {} to {}, {:.1} on average\n",
        scenario.propagation_kind().name(),
        counted(degrees.len(), "node"),
        counted(sum / 2, "pair"),
        counted(plan.hops.len(), "direction"),
        least.copied().unwrap_or_default(),
        most.copied().unwrap_or_default(),
        sum as f64 / degrees.len().max(1) as f64,
    )
}

/// How much a flow sends.
fn describe_sending(flow: &FlowConfig) -> String {
    let rate = || match flow.rate_mbps {
        Some(rate) => format!("{rate} Mb/s in {} B", flow.size_bytes),
        None => "as much as goes".into(),
    };
    match flow.kind {
        FlowKind::Tcp | FlowKind::Hop | FlowKind::Relayed => {
            flow.bytes.map_or_else(|| "as much as goes".into(), |bytes| counted(bytes, "byte"))
        }
        FlowKind::Udp => rate(),
        FlowKind::OnOff => {
            let OnOffConfig { on_s, off_s, exponential } = flow.on_off.unwrap_or_default();
            let mean = if exponential { " in the mean" } else { "" };
            format!("{} for {on_s} s and nothing for {off_s} s{mean}", rate())
        }
        FlowKind::Web => {
            format!("pages, read for {} s in the mean", flow.web.unwrap_or_default().think_s)
        }
        FlowKind::Voip => {
            let VoipConfig { codec, playout_ms, .. } = flow.voip.unwrap_or_default();
            let (bytes, packet_ms) = (codec.packet_bytes(), Codec::PACKET_S * 1e3);
            format!("a call of {bytes} B every {packet_ms} ms, played up to {playout_ms} ms late")
        }
    }
}

fn describe_traffic(out: &mut String, scenario: &Scenario) {
    for flow in scenario.flow.iter().take(LISTED) {
        let what = describe_sending(flow);
        let stop = flow.stop_s.unwrap_or(scenario.duration_s);
        let mark = match flow.dscp() {
            0 => String::new(),
            dscp => format!(", DSCP {dscp} ({})", word(AccessCategory::of_dscp(dscp))),
        };
        let _ = writeln!(
            out,
            "flow {}: {} from {} to {}, {what}{mark}, {} s to {stop} s",
            flow_name(flow),
            transport_name(flow),
            flow.from,
            flow.to,
            flow.start_s
        );
    }
    *out += &more(scenario.flow.len(), "flow");
    for fault in &scenario.fault {
        let what = match (&fault.node, &fault.link) {
            (Some(node), _) => format!("node {node}"),
            (None, Some([a, b])) => format!("link {a} - {b}"),
            (None, None) => continue,
        };
        let _ = writeln!(out, "fault: {what} is down from {} s to {} s", fault.from_s, fault.to_s);
    }
}

/// Whether a radio uses the air, and is not the end of a wire.
fn is_on_air(radio: &RadioPlan) -> bool {
    radio.spec.phy.kind != PhyKind::Wire
}

/// The devices that `farhop up` would use for a node.
fn describe_devices(scenario: &Scenario, node: &str) -> String {
    let node = scenario.node.iter().find(|other| other.name == node);
    let devices = node.into_iter().flat_map(NodeConfig::all_devices);
    let name = |device: &DeviceConfig| match device {
        DeviceConfig::Monitor { interface } => format!("; {interface} in monitor mode"),
        DeviceConfig::Ethernet { interface } => format!("; {interface}"),
        DeviceConfig::Udp { bind, .. } => format!("; udp {bind}"),
    };
    devices.map(name).collect()
}

/// The ACK time-outs of a node's radios. On wires nothing is acknowledged.
fn describe_timeouts(node: &NodePlan) -> String {
    let radios = node.radios.iter().filter(|radio| is_on_air(radio));
    let micros: BTreeSet<u64> = radios.map(|radio| radio.ack_timeout.as_micros()).collect();
    let micros: Vec<String> = micros.iter().map(u64::to_string).collect();
    match micros.is_empty() {
        true => String::new(),
        false => format!("; ACK time-out {} us", micros.join(" and ")),
    }
}

/// The PHY, the rates and the air time of a packet of a radio.
fn describe_card(radio: &RadioPlan, link: &LinkConfig) -> String {
    let RadioPlan { spec, ack_rate, .. } = radio;
    let mac_ack = matches!(link, LinkConfig::Plain(plain) if plain.mac_ack);
    format!(
        "radio: {} at {}, ACK at {ack_rate}; a packet of {PACKET_BYTES} B is {} us on air\n",
        word(spec.phy.kind),
        spec.rate,
        spec.phy.air_time(packet_mpdu(radio, mac_ack, PACKET_BYTES), spec.rate).as_micros()
    )
}

fn describe_units(link: &str, units: u8, attempts: u8) -> String {
    let (units, bursts) = (counted(units, "unit"), counted(attempts, "burst"));
    format!("{link}: {units} of a packet, at most {bursts}\n")
}

/// A radio and the settings of its link. A wire is described with its link.
fn describe_radio(radio: &RadioPlan, link: &LinkConfig) -> String {
    let spec = &radio.spec;
    let mut out = match is_on_air(radio) {
        true => describe_card(radio, link),
        false if link.has_schedule() => return String::new(),
        false => String::new(),
    };
    match link {
        LinkConfig::Plain(plain) if !is_on_air(radio) => {
            let _ = writeln!(out, "plain: queue of {}", counted(plain.queue_packets, "packet"));
        }
        LinkConfig::Plain(plain) => {
            let _ = writeln!(
                out,
                "plain: CSMA/CA, {}, queue of {}",
                counted(radio.config.attempts, "attempt"),
                counted(plain.queue_packets, "packet")
            );
        }
        LinkConfig::BlindFec(blind) => {
            let _ = writeln!(
                out,
                "blindfec: {} of every {}, nothing is acknowledged",
                counted(blind.all_packets, "frame"),
                counted(blind.data_packets, "packet")
            );
        }
        LinkConfig::Harq(harq) => {
            out += &describe_units("harq", harq.units_over(spec), harq.attempts);
        }
        LinkConfig::Arq(arq) => out += &describe_units("arq", arq.units_over(spec), arq.attempts),
        LinkConfig::TwoP(two_p) => {
            let _ = writeln!(
                out,
                "two-p: phases of {} ms, a lost marker costs {} ms, nothing is repeated",
                two_p.phase_ms,
                two_p.idle_after_loss().as_millis_f64()
            );
        }
        LinkConfig::Wild(wild) => {
            let recovery = match wild.recovery {
                Recovery::Fec => "coding only, nothing is sent twice".to_owned(),
                other => format!("{}, recovery {}", counted(wild.retries, "retry"), word(other)),
            };
            let filled = wild.frame_bytes.map(|bytes| format!(", frames filled up to {bytes} B"));
            let _ = writeln!(
                out,
                "wild: slots of {} with a guard of {} ms, {} of {PACKET_BYTES} B a slot{}, \
                 {recovery}",
                slots(wild),
                wild.guard_ms,
                counted(wild.packets_a_slot(spec, wild.slot(), PACKET_BYTES), "packet"),
                filled.unwrap_or_default(),
            );
            describe_classes(&mut out, wild);
        }
    }
    out
}

/// The length of slots.
fn slots(wild: &WildConfig) -> String {
    let (least, most) = (wild.slot_least(), wild.slot_most());
    match least == most {
        true => format!("{} ms", wild.slot_ms),
        false => {
            let [least, most] = [least, most].map(Duration::as_millis_f64);
            format!("{} ms, or of {least} to {most} ms by what waits,", wild.slot_ms)
        }
    }
}

/// The classes of a link, in the order in which they are matched.
fn describe_classes(out: &mut String, wild: &WildConfig) {
    for class in &wild.class {
        let own = [
            class.retries.map(|retries| counted(retries, "retry")),
            class.in_order.map(|order| format!("order {}", word(order))),
            class.recovery.map(|recovery| format!("recovery {}", word(recovery))),
            class.target_loss.map(|target| format!("target loss {target}")),
            class.queue_packets.map(|packets| format!("queue of {}", counted(packets, "packet"))),
            class.priority.map(|priority| format!("priority {priority}")),
        ];
        let own: Vec<String> = own.into_iter().flatten().collect();
        let _ = write!(
            out,
            "class {}: {}, {}",
            class.name,
            class.describe_match(),
            class.preset.name()
        );
        let _ = match own.as_slice() {
            [] => writeln!(out),
            own => writeln!(out, " with {}", own.join(", ")),
        };
    }
}

/// A setting as it is written in files.
fn word(setting: impl serde::Serialize) -> String {
    let word = serde_json::to_value(setting).unwrap_or_default();
    word.as_str().unwrap_or_default().to_owned()
}

/// How strong the signal of a hop is, and how much more that is than needed, where signals weaken
/// with distance.
fn margin(scenario: &Scenario, plan: &Plan, hop: &Hop) -> String {
    use PropagationKind::{FreeSpace, LogDistance, TwoRay};
    let radio = radio_at(plan, hop.to);
    let weakens = matches!(scenario.propagation_kind(), FreeSpace | LogDistance | TwoRay);
    if !weakens || !is_on_air(radio) {
        return String::new();
    }
    let signal = hop.signal.as_f64();
    let Thresholds { receive, data, .. } = radio.thresholds;
    let needed = match sender(plan, hop).spec {
        // What depends on the rate depends on that of the hop.
        RadioSpec { phy, rate, .. } if data > receive => phy.sensitivity_dbm(rate),
        _ => data,
    };
    let more = signal - needed;
    let word = if more < 0.0 { "less" } else { "more" };
    format!(", {signal:.1} dBm, {:.1} dB {word} than needed", more.abs())
}

fn describe_link(link: &RadioLinkConfig, hops: &[Hop], margin: &str) -> String {
    let [a, b] = &link.between;
    let loss = match link.loss_back {
        Some(_) => format!("loss {} there, {} back", loss(&hops[0].loss), loss(&hops[1].loss)),
        None => format!("loss {}", loss(&hops[0].loss)),
    };
    let most = link.rate_mbps.map(|rate| format!(", at most {rate} Mb/s")).unwrap_or_default();
    let micros = hops[0].delay.as_nanos() as f64 / 1e3;
    match link.distance_km {
        Some(length) => {
            format!("link {a} - {b}: {length} km ({micros:.1} us), {loss}{most}{margin}\n")
        }
        None => format!("link {a} - {b}: {micros:.1} us, {loss}{most}{margin}\n"),
    }
}

/// A share in percent, rounded so that floating-point errors do not show.
fn percent(share: f64) -> f64 {
    (share * 1e9).round() / 1e7
}

fn loss(config: &LossConfig) -> String {
    match config {
        LossConfig::Bernoulli { p } => format!("{} %", percent(*p)),
        LossConfig::GilbertElliott { good_ms, bad_ms, good_loss, bad_loss } => {
            let share = bad_ms / (good_ms + bad_ms);
            let mean = share * bad_loss + (1.0 - share) * good_loss;
            format!("{:.1} % in bursts of {bad_ms} ms", mean * 100.0)
        }
        LossConfig::BernoulliUnits { p, unit_bytes } => {
            format!("{} % of units of {unit_bytes} bytes", percent(*p))
        }
        LossConfig::GilbertElliottFrames { to_bad, to_good, good_loss, bad_loss } => {
            let share = to_bad / (to_bad + to_good);
            let mean = share * bad_loss + (1.0 - share) * good_loss;
            format!("{:.1} % in bursts of {:.1} frames", mean * 100.0, 1.0 / to_good)
        }
        LossConfig::Runs(runs) => format!("{} % in measured runs", percent(runs.loss)),
        LossConfig::Interferer(interferer) => {
            format!("by an interferer of {} Mb/s", interferer.load_mbps)
        }
        LossConfig::Drift(drift) => format!("{} % that drifts", percent(drift.loss)),
        LossConfig::Modulated(modulated) => {
            format!("{} % modulated by {}", percent(modulated.loss), modulated.spread)
        }
        LossConfig::Trace(trace) => format!("of the recording {}", trace.file),
        LossConfig::ByRate(losses) => {
            let of_rate =
                |(mbps, of_rate): &(f64, LossConfig)| format!("{} at {mbps} Mb/s", loss(of_rate));
            losses.rates.iter().map(of_rate).collect::<Vec<_>>().join(", ")
        }
        LossConfig::Driver(driver) => {
            format!("{}, and {} % in the driver", loss(&driver.loss), percent(driver.q))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(link: &str, km: u32) -> String {
        described_with(&format!("kind = \"{link}\""), km)
    }

    fn described_with(link: &str, km: u32) -> String {
        let text = format!(
            "name = \"x\"\nstack.link = {{ {link} }}\nradio.gap = \"difs\"\n\
             node = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n[[link]]\n\
             between = [\"a\", \"b\"]\ndistance_km = {km}\n"
        );
        describe(&toml::from_str(&text).expect("a good scenario"))
    }

    #[test]
    fn losses_are_told_as_they_were_written() {
        let of = |p, unit_bytes| loss(&LossConfig::BernoulliUnits { p, unit_bytes });
        assert_eq!(of(0.0606, 250), "6.06 % of units of 250 bytes");
        assert_eq!(loss(&LossConfig::Bernoulli { p: 0.07 }), "7 %");
        assert_eq!(loss(&LossConfig::Bernoulli { p: 1e-6 }), "0.0001 %");
    }

    #[test]
    fn devices_are_told_and_what_a_radio_has_that_they_have_not() {
        let text = "name = \"x\"\nstack.link = { kind = \"plain\" }\n\
                    [[node]]\nname = \"a\"\n[node.device]\nkind = \"udp\"\n\
                    bind = \"10.0.0.1:4850\"\npeers = { b = \"10.0.0.2:4850\" }\n\
                    [[node]]\nname = \"b\"\n\
                    [[node]]\nname = \"c\"\ndevice = { kind = \"monitor\", interface = \"mon0\" }\n\
                    [[node]]\nname = \"d\"\n\
                    [[link]]\nbetween = [\"a\", \"b\"]\n[[link]]\nbetween = [\"c\", \"d\"]\n";
        let said = describe(&toml::from_str(text).expect("a good scenario"));
        assert!(
            said.contains("; udp 10.0.0.1:4850\n") && said.contains("; mon0 in monitor mode\n")
        );
        assert!(said.contains("over udp `up` sends as fast"), "{said}");
        assert!(!described("plain", 8).contains("over udp"));
    }

    #[test]
    fn plain_waits_for_each_acknowledgement() {
        // 50 us DIFS, 310 us backoff, 1214 us data, 10 us SIFS, 152 us ACK, 534 us there and back.
        let said = described("plain", 80);
        assert!(said.contains("about 5.29 Mb/s one way"), "{said}");
        assert!(described("plain", 8).contains("about 6.71 Mb/s"), "{said}");
        assert!(said.contains("ACK time-out 563 us"), "{said}");
    }

    /// The description of a link between radios with these keys.
    fn described_between(a: &str, b: &str) -> String {
        let text = format!(
            "name = \"x\"\nstack.link = {{ kind = \"plain\" }}\n\
             node = [{{ name = \"a\", radio = {{ {a} }} }}, \
             {{ name = \"b\", radio = {{ {b} }} }}]\n[[link]]\nbetween = [\"a\", \"b\"]\n"
        );
        let scenario: Scenario = toml::from_str(&text).expect("a good scenario");
        assert_eq!(scenario.problems(), []);
        describe(&scenario)
    }

    /// The limit of such a link.
    fn limit_between(a: &str, b: &str) -> String {
        let said = described_between(a, b);
        let (_, limit) = said.split_once("about ").expect("a limit");
        limit.split_once(" in packets").expect("what follows it").0.to_owned()
    }

    #[test]
    fn each_direction_between_two_phys_has_the_rate_that_its_receiver_knows() {
        // To and from a radio of b everything is sent at 11 Mb/s, as between two of them.
        let (b, g) = ("", "phy = \"802.11g\", mixed = true, rate_mbps = 54");
        for (first, second) in [(b, b), (b, g), (g, b)] {
            assert_eq!(limit_between(first, second), "6.91 Mb/s one way at a time,");
        }
        // To a radio of a: 34 us DIFS, 67 us backoff, 252 us data at 54 Mb/s, 16 us SIFS, 28 us
        // ACK. From it: 2072 us data at 6 Mb/s, and 44 us ACK.
        let (a, n) = ("phy = \"802.11a\", rate_mbps = 6", "phy = \"802.11n\"");
        let said = limit_between(n, a);
        assert_eq!(said, "30.19 Mb/s from a to b, 5.37 Mb/s from b to a, one way at a time,");
        let said = limit_between(a, n);
        assert_eq!(said, "5.37 Mb/s from a to b, 30.19 Mb/s from b to a, one way at a time,");
        assert!(described_between(n, b).contains("  carries nothing: "), "of another band");
    }

    #[test]
    fn what_is_not_acknowledged_has_the_gap_of_its_radio() {
        // 50 us DIFS, 1215 us data.
        let said = described_with("kind = \"plain\", mac_ack = false", 1);
        assert!(said.contains("about 9.49 Mb/s one way"), "{said}");
    }

    #[test]
    fn radios_that_choose_their_rates_have_no_estimate() {
        let of = |radio: &str| {
            let text = format!(
                "name = \"x\"\nradio = {{ {radio} }}\n\
                 node = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n\
                 link = [{{ between = [\"a\", \"b\"] }}]\n"
            );
            describe(&toml::from_str(&text).expect("a good scenario"))
        };
        assert!(of("").contains("  about 6.91 Mb/s"));
        assert!(!of("rate_control = \"arf\"").contains("in packets of 1500 B"));
    }

    #[test]
    fn slots_cost_half_and_a_guard_but_no_distance() {
        for (km, limit) in [(1, "4.20"), (80, "4.14")] {
            let said = described("wild", km);
            assert!(said.contains(&format!("about {limit} Mb/s each way")), "{said}");
        }
    }

    #[test]
    fn a_link_with_a_rate_of_its_own_carries_what_that_allows() {
        let text = "name = \"x\"\nstack.link = { kind = \"wild\" }\n\
                    node = [{ name = \"a\" }, { name = \"b\" }]\n\
                    link = [{ between = [\"a\", \"b\"], distance_km = 1, rate_mbps = 2 }]\n";
        let said = describe(&toml::from_str(text).expect("a good scenario"));
        // Two packets a slot, each 6.6 ms.
        assert!(said.contains(", at most 2 Mb/s\n  about 0.60 Mb/s each way"), "{said}");
    }

    #[test]
    fn what_movement_may_do_to_slots_is_told() {
        let of = |link: &str, path: &str| {
            let text = format!(
                "name = \"x\"\nstack.link = {{ kind = \"{link}\" }}\n\
                 node = [{{ name = \"a\", position_m = [0, 0] }}, \
                 {{ name = \"b\", position_m = [9, 0]{path} }}]\n"
            );
            describe(&toml::from_str(&text).expect("a good scenario")).contains("nodes move: ")
        };
        let path = ", path_m = [[5, 50, 0]]";
        assert!(of("wild", path));
        assert!(!of("wild", "") && !of("plain", path));
    }

    #[test]
    fn a_wire_has_no_slots() {
        let of = |link: &str, beyond: &str| {
            let text = format!(
                "name = \"x\"\nstack.link = {{ kind = \"{link}\" }}\n\
                 node = [{{ name = \"a\" }}, {{ name = \"b\" }}, {{ name = \"c\" }}]\n[[link]]\n\
                 between = [\"a\", \"b\"]\nradio = {{ phy = \"wire\", rate_mbps = 10 }}\n\
                 [[link]]\nbetween = [\"b\", \"c\"]\n{beyond}"
            );
            describe(&toml::from_str(&text).expect("a good scenario"))
        };
        let said = of("wild", "");
        assert_eq!(said.matches("  about").count(), 1, "{said}");
        assert!(said.contains("radio: 802.11b at 11 Mb/s"), "{said}");
        assert!(said.contains("  a wire of 10 Mb/s\nlink b - c"), "{said}");
        assert!(said.contains("  about 3.30 Mb/s each way"), "{said}");
        let said = of("wild", "radio = { phy = \"wire\" }\n");
        assert!(!said.contains("slots of"), "{said}");
        let said = of("plain", "");
        assert!(said.contains("radio: 802.11b at 11 Mb/s"), "{said}");
        assert_eq!(said.matches("ACK time-out").count(), 2, "not at the end of the wire: {said}");
        let said = of("plain", "radio = { phy = \"wire\" }\n");
        assert!(said.contains("plain: queue of 50 packets") && !said.contains("ACK"), "{said}");
    }

    #[test]
    fn a_phase_of_two_p_has_a_marker_for_each_neighbour_of_either_end() {
        let packets = |neighbours: u32| {
            let nodes: String =
                (0..neighbours).map(|n| format!("{{ name = \"n{n}\" }},")).collect();
            let links: String = (0..neighbours)
                .map(|n| format!("[[link]]\nbetween = [\"n{n}\", \"mast\"]\n"))
                .collect();
            let text = format!(
                "name = \"x\"\nstack.link = {{ kind = \"two-p\" }}\nradio.gap = \"difs\"\n\
                 node = [{{ name = \"mast\" }}, {nodes}]\n{links}"
            );
            let said = describe(&toml::from_str(&text).expect("a good scenario"));
            let (_, limit) = said.split_once("about ").expect("a limit");
            let mbps: f64 = limit.split(' ').next().expect("a number").parse().expect("a number");
            (mbps * 40e3 / 12e3).round()
        };
        // A packet of 1,500 bytes takes 1.3 ms of 18.5 ms, and a marker a fifth of one.
        assert_eq!(packets(1) - packets(11), 2.0);
    }

    #[test]
    fn slots_that_follow_the_demand_carry_more_one_way() {
        // 26 packets in 33.5 ms of every 40 ms.
        let said = described_with("kind = \"wild\", slot_least_ms = 5, slot_most_ms = 35", 1);
        assert!(said.contains("about 4.20 Mb/s each way, or 7.80 Mb/s one way"), "{said}");
        assert!(said.contains("slots of 20 ms, or of 5 to 35 ms by what waits, with a"), "{said}");
        let said = described_with("kind = \"wild\", slot_least_ms = 5", 1);
        assert!(said.contains("slots of 20 ms, or of 5 to 20 ms by what waits, with a"), "{said}");
        let said = described("wild", 1);
        assert!(said.contains("slots of 20 ms, or of 4 to 20 ms by what waits, with a"), "{said}");
        let said = described_with("kind = \"wild\", slot_least_ms = 20", 1);
        assert!(said.contains("slots of 20 ms with a guard"), "{said}");
    }

    #[test]
    fn frames_that_are_filled_carry_parts_of_packets() {
        let text = "name = \"x\"\nstack.link = { kind = \"wild\", frame_bytes = 2304 }\n\
                    radio = { phy = \"802.11a\" }\n\
                    node = [{ name = \"a\" }, { name = \"b\" }]\n\
                    link = [{ between = [\"a\", \"b\"], distance_km = 10 }]\n";
        let said = describe(&toml::from_str(text).expect("a good scenario"));
        // sim has 17.6; packet by packet it has 15.3.
        assert!(said.contains("about 17.76 Mb/s each way"), "{said}");
        assert!(said.contains("a slot, frames filled up to 2304 B, "), "{said}");
    }

    #[test]
    fn slots_of_radios_that_send_many_frames_in_a_transmission_hold_as_many() {
        let of = |radio: &str| {
            let text = format!(
                "name = \"x\"\nstack.link = {{ kind = \"wild\" }}\nradio = {{ {radio} }}\n\
                 node = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n[[link]]\n\
                 between = [\"a\", \"b\"]\n"
            );
            describe(&toml::from_str(&text).expect("a good scenario"))
        };
        // 28 MPDUs of 1,572 bytes with their delimiters take 5.46 ms at 65 Mb/s, and a 34 us DIFS,
        // 67.5 us backoff, 16 us SIFS and a 32 us answer; a single frame takes 333 us, a request
        // 249 us. In 18.5 ms: a single frame, three times 28, and 4 in the rest.
        let said = of("phy = \"802.11n\"");
        assert!(said.contains("89 packets of 1500 B a slot"), "{said}");
        assert!(said.contains("about 26.70 Mb/s each way"), "{said}");
        assert!(of("phy = \"802.11n\", aggregate = 1").contains("55 packets of 1500 B a slot"));
    }

    #[test]
    fn what_a_radio_waits_and_announces_counts() {
        let of = |radio: &str| {
            let text = format!(
                "name = \"x\"\nradio = {{ {radio} }}\n\
                 node = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n[[link]]\n\
                 between = [\"a\", \"b\"]\ndistance_km = 20\n"
            );
            describe(&toml::from_str(&text).expect("a good scenario"))
        };
        let a = "phy = \"802.11a\", rate_mbps = 54";
        // 248 us for 1,500 bytes, 16 SIFS, 28 for the answer, 133.4 of propagation. Before that 34
        // DIFS and 67.5 backoff; or SIFS, 2 and 7.5 slots of 50; or SIFS, AIFSN 5 and 15.5 slots.
        let mbps = |before: f64, beside: f64| {
            let all = before + 248.0 + 16.0 + 28.0 + 133.4 + beside;
            12_000.0 / all
        };
        for (more, right) in [
            ("", mbps(101.5, 0.0)),
            (", slot_us = 50", mbps(16.0 + 100.0 + 375.0, 0.0)),
            (
                ", edca = true, access.best_effort = { aifsn = 5, cw_min = 31 }",
                // With two bytes of QoS control it has a symbol more.
                mbps(16.0 + 45.0 + 15.5 * 9.0, 4.0),
            ),
            // RTS and CTS of 28 us each at 24 Mb/s, two SIFS, and propagation there and back.
            (", rts_threshold = 1000", mbps(101.5, 28.0 * 2.0 + 32.0 + 133.4)),
            (", rts_threshold = 2000", mbps(101.5, 0.0)),
        ] {
            let said = of(&format!("{a}{more}"));
            let (_, limit) = said.split_once("about ").expect("a limit");
            let found: f64 = limit.split(' ').next().expect("a word").parse().expect("a number");
            assert!((found - right).abs() < 0.02, "{more}: {right} is right: {said}");
        }
        let said = of(&format!("{a}, ack_timeout_us = 100"));
        assert!(said.contains("no acknowledgement comes in time: 100 us are waited"), "{said}");
        assert!(said.contains("SIFS take 149 us") && !said.contains("about"), "{said}");
    }

    #[test]
    fn the_txop_and_the_queue_bound_what_goes_together() {
        let of = |radio: &str, queue: &str| {
            let text = format!(
                "name = \"x\"\nradio = {{ {radio} }}\nstack.link = {{ kind = \"plain\" {queue} }}\n\
                 node = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n[[link]]\n\
                 between = [\"a\", \"b\"]\ndistance_km = 2\n"
            );
            let said = describe(&toml::from_str(&text).expect("a good scenario"));
            let (_, limit) = said.split_once("about ").expect("a limit");
            limit.split(' ').next().expect("a word").parse::<f64>().expect("a number")
        };
        let n = "phy = \"802.11n\", edca = true, access.best_effort.txop_us =";
        // 43 us AIFS, 67.5 backoff, 36 preamble, symbols of 4 us for the MPDUs of 1,544 bytes, 16
        // SIFS, 32 for the block acknowledgement, 13.3 of propagation.
        for (txop, mpdus, symbols) in [(500.0, 2.0, 96.0), (2_000.0, 10.0, 476.0)] {
            let right = mpdus * 12_000.0 / (43.0 + 67.5 + 36.0 + symbols * 4.0 + 48.0 + 13.3);
            let found = of(&format!("{n} {txop}"), "");
            assert!((found - right).abs() < 0.1, "{txop}: {found}, and {right} is right");
        }
        let ac = "phy = \"802.11ac\", width_mhz = 80, streams = 2";
        assert!((of(ac, ", queue_packets = 5") - 209.2).abs() < 0.5, "as the simulator has it");
        // CTS to oneself precedes each frame of a TXOP, RTS and CTS only the first.
        let g = "phy = \"802.11g\", mixed = true, edca = true, access.best_effort.txop_us = 3000";
        let cts = of(&format!("{g}, protection = \"cts-to-self\""), "");
        let rts = of(&format!("{g}, rts_threshold = 100"), "");
        assert!((cts - 21.86).abs() < 0.05 && (rts - 31.23).abs() < 0.05, "{cts} {rts}");
    }
}
