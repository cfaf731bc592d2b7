//! Routes that nodes find by themselves, over the radio model.

use farhop_proto::link::secure::SecurityConfig;
use farhop_proto::routing::olsr::OlsrConfig;
use farhop_proto::stack::{FlowConfig, FlowKind, LinkConfig, RoutingConfig, Scenario};
use farhop_sim::engine::{Report, RunOptions, run};

fn scenario(text: &str) -> Scenario {
    let scenario = farhop_testkit::scenario(text);
    assert!(scenario.problems().is_empty(), "{:?}", scenario.problems());
    scenario
}

fn report(scenario: &Scenario) -> Report {
    let report = run(scenario, RunOptions::default()).expect("it runs");
    println!("{:.3} Mb/s, loss {:?}", report.total_mbps(), report.flows[0].loss);
    report
}

fn two_rows() -> Scenario {
    scenario(include_str!("../../../scenarios/olsr.toml"))
}

fn counted(report: &Report, layer: &str, name: &str) -> u64 {
    report.nodes.iter().map(|node| node.layers[layer].get(name).copied().unwrap_or(0)).sum()
}

#[test]
fn traffic_goes_around_a_node_that_is_down() {
    // Of the 70 s of the flow 30 s would be lost without another way, and 15 s by HELLOs alone.
    // When the fault is noticed depends on what is sent just then.
    let mut losses: Vec<f64> = (1..=5)
        .map(|seed| {
            let report = report(&Scenario { seed, ..two_rows() });
            report.flows[0].loss.expect("datagrams are counted")
        })
        .collect();
    losses.sort_by(f64::total_cmp);
    assert!(losses[0] > 0.001 && losses[2] < 0.06 && losses[4] < 0.16, "{losses:?}");
}

/// Blocks keep to a way that they have taken, and acknowledgements of the others' blocks must not
/// wait for that: they went to the node that was down until it was back.
#[test]
fn blocks_both_ways_go_around_a_node_that_is_down() {
    let mut rows = two_rows();
    rows.duration_s = 120.0;
    rows.fault[0].to_s = 115.0;
    let blocks = |from: &str, to: &str, bytes| FlowConfig {
        from: from.into(),
        to: to.into(),
        bytes,
        start_s: 20.0,
        kind: FlowKind::Hop,
        size_bytes: 1_000,
        ..FlowConfig::default()
    };
    rows.flow = vec![blocks("a", "c", None), blocks("c", "a", Some(300_000))];
    let report = report(&rows);
    assert!(report.flows[0].goodput_mbps > 3.4, "{} Mb/s", report.flows[0].goodput_mbps);
}

#[test]
fn without_keys_nothing_is_signed_and_with_keys_everything_is() {
    let open = [report(&two_rows())];
    let sealed = [1, 2, 3, 4, 5, 6, 7, 8].map(|seed| {
        let security = Some(SecurityConfig::default());
        report(&Scenario { seed, security, ..two_rows() })
    });
    for report in open.iter().chain(&sealed) {
        assert!(counted(report, "routing", "topologies_new") > 300);
        assert_eq!(counted(report, "routing", "forged"), 0);
        assert_eq!(counted(report, "routing", "unsigned"), 0);
    }
    // 1 to 7%, by what the nodes draw.
    let losses = sealed.iter().map(|report| report.flows[0].loss.expect("datagrams are counted"));
    let loss = losses.sum::<f64>() / sealed.len() as f64;
    assert!(loss < 0.05, "{loss}");
}

#[test]
fn routes_over_links_with_slots_are_found_too() {
    let mut chain = scenario(include_str!("../../../scenarios/relay.toml"));
    assert!(matches!(chain.stack.link, LinkConfig::Wild(_)));
    let given = report(&chain).total_mbps();
    chain.stack.routing = RoutingConfig::Olsr(OlsrConfig::default());
    chain.duration_s += 20.0;
    chain.flow.iter_mut().for_each(|flow| flow.start_s += 20.0);
    chain.measure_from_s = Some(chain.measure_from_s.unwrap_or(0.0) + 20.0);
    let found = report(&chain).total_mbps();
    assert!(found > 0.95 * given, "{found} against {given} Mb/s");
}

#[test]
fn routes_go_over_neighbours_that_data_reaches() {
    // Data at 24 Mb/s is heard over one of these distances, the lowest rate over two.
    let text = "name = \"row\"\nduration_s = 60\nradio = { phy = \"802.11g\", rate_mbps = 24 }\n\
                stack.routing = { kind = \"olsr\" }\n\
                layout = [{ kind = \"chain\", name = \"n\", count = 5, spacing_m = 100 }]\n\
                propagation = { kind = \"log-distance\" }\n\
                [[flow]]\nfrom = \"n.first\"\nto = \"n.last\"\nkind = \"udp\"\nrate_mbps = 0.1\n\
                start_s = 20\n";
    let loss = report(&scenario(text)).flows[0].loss.expect("datagrams are counted");
    assert!(loss < 0.02, "{loss}");
}
