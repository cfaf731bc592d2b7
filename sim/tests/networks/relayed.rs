//! TCP from hop to hop through applications on relays.

use farhop_sim::engine::{FlowReport, Report, RunOptions, run};

/// Runs flows over a row of nodes from `a` to `d`, 802.11b, each in reach of its neighbours only.
fn over_three_hops(secs: u32, keys: &str, flows: &str) -> Report {
    let text = format!(
        "name = \"relayed\"\nduration_s = {secs}\n{keys}\n\
         node = [{{ name = \"a\" }}, {{ name = \"b\" }}, {{ name = \"c\" }}, {{ name = \"d\" }}]\n\
         link = [{{ between = [\"a\", \"b\"] }}, {{ between = [\"b\", \"c\"] }}, \
         {{ between = [\"c\", \"d\"] }}]\n\
         [radio]\nphy = \"802.11b\"\nrate_mbps = 11\n{flows}"
    );
    let scenario = farhop_testkit::scenario(&text);
    assert_eq!(scenario.problems(), []);
    run(&scenario, RunOptions::default()).expect("it runs")
}

fn relayed(text: &str) -> String {
    format!("[[flow]]\nfrom = \"a\"\nkind = \"relayed\"\n{text}\n")
}

fn one(secs: u32, text: &str) -> FlowReport {
    over_three_hops(secs, "", &relayed(text)).flows.remove(0)
}

#[test]
fn a_file_is_stitched_together_of_a_connection_for_each_hop() {
    let report = over_three_hops(60, "", &relayed("to = \"d\"\nbytes = 1000000"));
    let flow = &report.flows[0];
    assert_eq!((flow.delivered_bytes, flow.sent_bytes), (1_000_000, 1_000_000));
    assert!(flow.completed_s.is_some());
    assert_eq!(flow.transport, "relayed tcp/reno");
    // Every packet is for a neighbour, so that no node forwards any.
    for node in &report.nodes {
        assert_eq!(node.layers["routing"]["forwarded"], 0, "{}", node.name);
    }
}

#[test]
fn what_has_no_end_flows_until_it_is_stopped() {
    let flow = one(30, "to = \"d\"\nstop_s = 20");
    assert!(flow.goodput_mbps > 0.3, "{}", flow.goodput_mbps);
    let late: f64 = flow.over_time_mbps[280..].iter().sum();
    assert_eq!(late, 0.0, "the relays have passed on what they had");
}

#[test]
fn a_file_that_is_stopped_stops() {
    let flow = one(30, "to = \"d\"\nbytes = 100000000\nstop_s = 10");
    assert!(flow.over_time_mbps[..100].iter().sum::<f64>() > 0.0);
    let late: f64 = flow.over_time_mbps[200..].iter().sum();
    assert_eq!(late, 0.0, "the relays have passed on what they had");
}

#[test]
fn a_stream_goes_on_once_a_relay_is_back_that_was_down_for_longer_than_tcp_waits() {
    let fault = "fault = [{ node = \"c\", from_s = 0, to_s = 200 }]";
    let text = relayed("to = \"d\"\nbytes = 100000");
    let flow = over_three_hops(400, fault, &text).flows.remove(0);
    let took = flow.completed_s.expect("it came whole");
    assert!(took > 200.0, "{took}");
}

#[test]
fn a_bundle_that_comes_while_all_is_measured_took_as_long_as_it_did() {
    let text = relayed("to = \"b\"\nbytes = 1000000\nrelay = { mode = \"bundle\" }");
    let flow = over_three_hops(30, "measure_from_s = 1.0", &text).flows.remove(0);
    let took = flow.completed_s.expect("it came whole");
    assert!(took > 1.2, "{took}");
    assert!((flow.goodput_mbps - 8.0 / took).abs() < 0.01, "{}", flow.goodput_mbps);
}

#[test]
fn a_bundle_goes_on_only_when_all_of_it_is_there() {
    let took = |to: &str| {
        let relay = "relay = { mode = \"bundle\" }";
        let flow = one(60, &format!("to = \"{to}\"\nbytes = 1000000\n{relay}"));
        assert_eq!((flow.delivered_bytes, flow.sent_bytes), (1_000_000, 1_000_000));
        flow.completed_s.expect("it came whole")
    };
    let hop = took("b");
    for (to, hops) in [("c", 2.0), ("d", 3.0)] {
        let ratio = took(to) / hop;
        assert!((ratio / hops - 1.0).abs() < 0.1, "{ratio} for {hops} hops");
    }
}

#[test]
fn a_bundle_that_has_not_come_whole_counts_for_nothing() {
    let flow = one(2, "to = \"b\"\nbytes = 10000000\nrelay = { mode = \"bundle\" }");
    assert_eq!((flow.delivered_bytes, flow.goodput_mbps), (0, 0.0));
}

#[test]
fn a_slow_disk_holds_a_bundle_up() {
    let took = |speed: f64| {
        let relay = format!("relay = {{ mode = \"bundle\", storage_mb_per_s = {speed} }}");
        one(60, &format!("to = \"c\"\nbytes = 1000000\n{relay}")).completed_s.expect("it came")
    };
    // Ten seconds for a megabyte, most of them after the second in which it came.
    assert!(took(0.1) > took(20.0) + 7.0);
}

#[test]
fn a_connection_is_split_at_the_relay_that_is_named() {
    let report = over_three_hops(60, "", &relayed("to = \"d\"\nrelay = { at = [\"b\"] }"));
    let forwarded = |node: usize| report.nodes[node].layers["routing"]["forwarded"];
    assert_eq!(forwarded(1), 0);
    assert!(forwarded(2) > 100, "c is on the way of the second connection");
    assert!(report.flows[0].goodput_mbps > 0.3);
}

#[test]
fn a_bundle_waits_for_a_neighbour_that_is_down() {
    let fault = "fault = [{ node = \"c\", from_s = 0, to_s = 30 }]";
    let text = relayed("to = \"d\"\nbytes = 100000\nrelay = { mode = \"bundle\" }");
    let flow = over_three_hops(200, fault, &text).flows.remove(0);
    let took = flow.completed_s.expect("it came whole");
    assert!(took > 30.0, "{took}");
}

#[test]
fn behind_a_proxy_a_file_goes_in_blocks() {
    let relay = "relay = { at = [\"b\"], onward = \"hop\" }";
    let report =
        over_three_hops(60, "", &relayed(&format!("to = \"d\"\nbytes = 2000000\n{relay}")));
    let flow = &report.flows[0];
    assert_eq!(flow.delivered_bytes, 2_000_000);
    assert!(flow.completed_s.is_some());
    let blocks = |node: usize| report.nodes[node].layers["hop"]["blocks_passed_on"];
    assert!(blocks(0) == 0 && blocks(1) >= 3, "{} {}", blocks(0), blocks(1));
}
