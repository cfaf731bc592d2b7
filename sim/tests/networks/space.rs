//! Stories of nodes at places: chains, radios of links, movement, faults, late hosts.

use farhop_sim::engine::Report;

use super::report;

/// A chain in the range model, saturated from end to end.
fn chain(count: u32, more: &str) -> String {
    format!(
        r#"
name = "chain"
duration_s = 4
radio = {{ phy = "802.11b", preamble = "long", ack_rate_mbps = 2 }}
propagation = {{ kind = "range", receive_m = 100, sense_m = 220 }}
layout = [{{ kind = "chain", name = "n", count = {count}, spacing_m = 90 }}]
flow = [{{ from = "n.first", to = "n.last", kind = "udp", size_bytes = 1000 }}]
{more}
"#
    )
}

#[test]
fn the_slowest_rate_is_received_down_to_its_sensitivity_where_energies_add_up() {
    let lost = |rate: &str, signal: f64| {
        let report = report(&format!(
            r#"name = "weak"
            duration_s = 10
            node = [{{ name = "a" }}, {{ name = "b" }}]
            link = [{{ between = ["a", "b"], signal_dbm = {signal} }}]
            flow = [{{ from = "a", to = "b", kind = "udp", rate_mbps = 0.2, size_bytes = 500 }}]
            [radio]
            {rate}
            attempts = 1
            [interference]
            kind = "sinr"
            curve = "logistic"
            [stack.link]
            kind = "plain""#
        ));
        report.flows[0].loss.expect("datagrams are sent")
    };
    for (rate, sensitivity) in [
        ("phy = \"802.11b\"\nrate_mbps = 1", -94.0),
        ("phy = \"802.11b\"\nrate_mbps = 2", -91.0),
        ("phy = \"802.11b\"\nrate_mbps = 11", -85.0),
        ("phy = \"802.11a\"\nrate_mbps = 6", -90.0),
    ] {
        assert!(lost(rate, sensitivity + 1.5) < 0.05, "{rate}");
        assert!(lost(rate, sensitivity - 6.0) > 0.95, "{rate}");
    }
}

#[test]
fn a_chain_carries_less_with_each_hop() {
    let goodput = |count| report(&chain(count, "")).flows[0].goodput_mbps;
    let (one, two, four) = (goodput(2), goodput(3), goodput(5));
    // One hop: 1000 B in 50 + 310 + 966 + 10 + 248 us.
    assert!((one - 5.05).abs() < 0.1, "{one}");
    assert!((2.0..3.0).contains(&two), "{two}");
    assert!((0.5..1.7).contains(&four), "{four}");
}

#[test]
fn a_node_that_is_down_carries_nothing_and_comes_back() {
    let fault = "fault = [{ node = \"n2\", from_s = 1, to_s = 2 }]";
    let report = report(&chain(3, fault));
    let over_time = &report.flows[0].over_time_mbps;
    assert!(over_time[..9].iter().sum::<f64>() > 9.0);
    assert!(over_time[12..19].iter().sum::<f64>() == 0.0, "{over_time:?}");
    assert!(over_time[22..].iter().sum::<f64>() > 9.0);
}

#[test]
fn a_link_between_nodes_at_places_can_be_cut() {
    let fault = "fault = [{ link = [\"n.last\", \"n2\"], from_s = 1, to_s = 4 }]";
    let report = report(&chain(3, fault));
    let over_time = &report.flows[0].over_time_mbps;
    assert!(over_time[..9].iter().sum::<f64>() > 9.0);
    assert!(over_time[12..].iter().sum::<f64>() == 0.0, "{over_time:?}");
}

/// A transmitter and one who walks away from it, out of its range between 5 and 6 s.
const WALK: &str = r#"
name = "walk"
duration_s = 10
propagation = { kind = "range", receive_m = 100, sense_m = 120 }
node = [
    { name = "post", position_m = [0, 0] },
    { name = "walker", path_m = [[0, 50, 0], [10, 150, 0]] },
]
flow = [{ from = "post", to = "walker", kind = "udp", size_bytes = 1000, rate_mbps = 0.5 }]
"#;

#[test]
fn whoever_walks_away_is_lost_where_the_range_ends() {
    let report = report(WALK);
    let over_time = &report.flows[0].over_time_mbps;
    assert!(over_time[..49].iter().all(|mbps| *mbps > 0.0), "{over_time:?}");
    assert!(over_time[52..].iter().all(|mbps| *mbps == 0.0), "{over_time:?}");
}

#[test]
fn who_walks_near_a_receiver_disturbs_it() {
    // The walker talks to its own post and comes by at the middle of the run.
    let text = r#"
name = "passing"
duration_s = 6
radio = { carrier_sense = false, attempts = 1 }
propagation = { kind = "range", receive_m = 100, sense_m = 120 }
node = [
    { name = "a", position_m = [0, 0] },
    { name = "b", position_m = [90, 0] },
    { name = "walker", path_m = [[0, 400, 0], [2, 400, 0], [3, 180, 0], [4, 180, 0]] },
    { name = "post", position_m = [270, 0] },
]
[[link]]
between = ["walker", "post"]
[[flow]]
from = "a"
to = "b"
kind = "udp"
size_bytes = 1000
rate_mbps = 3
[[flow]]
from = "walker"
to = "post"
kind = "udp"
size_bytes = 1000
rate_mbps = 3
"#;
    let report = report(text);
    let over_time = &report.flows[0].over_time_mbps;
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let (before, after) = (mean(&over_time[2..19]), mean(&over_time[35..]));
    assert!(after < 0.8 * before, "{before} before, {after} after");
}

#[test]
fn radios_of_their_own_on_channels_apart_do_not_wait_for_each_other() {
    let goodput = |channel: u16| {
        let text = format!(
            r#"
name = "relay"
duration_s = 3
node = [{{ name = "a" }}, {{ name = "b" }}, {{ name = "c" }}]
link = [
    {{ between = ["a", "b"], radio = {{ channel = 1 }} }},
    {{ between = ["b", "c"], radio = {{ channel = {channel} }} }},
]
flow = [{{ from = "a", to = "c", kind = "udp", size_bytes = 1000 }}]
"#
        );
        report(&text).flows[0].goodput_mbps
    };
    let (apart, same) = (goodput(6), goodput(1));
    assert!(apart > 1.5 * same, "{apart} Mb/s apart, {same} Mb/s on one channel");
}

#[test]
fn a_gateway_has_a_radio_and_a_wire() {
    let report = report(include_str!("../../../scenarios/gateway.toml"));
    let goodput = report.flows[0].goodput_mbps;
    assert!((1.0..10.0).contains(&goodput), "{goodput}");
}

#[test]
fn frames_leave_a_real_host_late_and_in_order() {
    let text = |departure: &str| {
        format!(
            r#"
name = "late"
duration_s = 3
radio = {{ departure = {departure} }}
node = [{{ name = "a" }}, {{ name = "b" }}]
link = [{{ between = ["a", "b"] }}]
flow = [{{ from = "a", to = "b", kind = "udp", size_bytes = 1000, rate_mbps = 1 }}]
fault = [{{ node = "a", from_s = 1, to_s = 1.2 }}]
"#
        )
    };
    let (none, injected) = (report(&text("\"none\"")), report(&text("\"injected\"")));
    let p99 = |report: &Report| report.flows[0].delay_ms.as_ref().expect("a delay").p99;
    assert!(p99(&injected) > p99(&none) + 0.06, "{} and {}", p99(&none), p99(&injected));
    let constant = report(&text("[[1, 500]]"));
    let p50 = |report: &Report| report.flows[0].delay_ms.as_ref().expect("a delay").p50;
    assert!((p50(&constant) - p50(&none) - 0.5).abs() < 0.1);
}

#[test]
fn the_same_file_and_seed_give_the_same_run() {
    for file in [
        include_str!("../../../scenarios/mesh-random.toml"),
        include_str!("../../../scenarios/grid.toml"),
    ] {
        let (first, second) = (report(file), report(file));
        assert!(first.trace_hash.is_some() && first.trace_hash == second.trace_hash);
        assert!(first.flows.iter().any(|flow| flow.goodput_mbps > 0.0));
    }
}
