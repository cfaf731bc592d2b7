//! What the report says of the air time of each link.

use farhop_sim::engine::{AirReport, Report};

use super::report;

fn air(report: &Report, from: &str, to: &str) -> AirReport {
    let link = report.links.iter().find(|link| (&*link.from, &*link.to) == (from, to));
    link.expect("the link").air
}

fn assert_whole(report: &Report) {
    for link in &report.links {
        let sum = link.air.used() + link.air.idle;
        assert!((sum - 1.0).abs() < 1e-9, "{} to {}: {:?}", link.from, link.to, link.air);
    }
}

#[test]
fn of_a_radio_with_two_neighbours_each_has_its_own_and_the_other_is_others() {
    let report = report(
        r#"
name = "star"
duration_s = 4
stack.link = { kind = "wild" }
node = [{ name = "mast" }, { name = "north" }, { name = "south" }]
link = [
    { between = ["mast", "north"], distance_km = 5 },
    { between = ["mast", "south"], distance_km = 5 },
]
flow = [{ from = "mast", to = "north", kind = "udp", rate_mbps = 2 }]
"#,
    );
    assert_whole(&report);
    let (north, south) = (air(&report, "mast", "north"), air(&report, "mast", "south"));
    assert!(north.data > 0.15 && south.data == 0.0, "{north:?} {south:?}");
    assert!(south.others >= north.data && north.others < 0.05, "{north:?} {south:?}");
    assert_eq!(north.guard, south.guard);
}

#[test]
fn each_of_two_radios_of_a_node_has_all_the_time() {
    let report = report(
        r#"
name = "relay"
duration_s = 4
stack.link = { kind = "wild" }
node = [{ name = "village" }, { name = "hill" }, { name = "town" }]
link = [
    { between = ["village", "hill"], distance_km = 5, radio = { channel = 1 } },
    { between = ["hill", "town"], distance_km = 5, radio = { channel = 1 } },
]
flow = [
    { from = "hill", to = "village", kind = "udp", size_bytes = 1400 },
    { from = "hill", to = "town", kind = "udp", size_bytes = 1400 },
]
"#,
    );
    assert_whole(&report);
    for to in ["village", "town"] {
        let link = air(&report, "hill", to);
        assert!((0.3..0.5).contains(&link.data) && link.others < 1e-3, "{to}: {link:?}");
        assert!(link.idle > 0.4, "{to}: {link:?}");
    }
}

#[test]
fn what_collides_is_charged_to_the_link_it_was_for() {
    let report = report(
        r#"
name = "hidden"
duration_s = 4
radio = { phy = "802.11b", preamble = "long", ack_rate_mbps = 2 }
propagation = { kind = "range", receive_m = 100, sense_m = 120 }
layout = [{ kind = "chain", name = "n", count = 4, spacing_m = 90 }]
flow = [
    { from = "n1", to = "n2", kind = "udp", size_bytes = 1400 },
    { from = "n4", to = "n3", kind = "udp", size_bytes = 1400 },
    { from = "n3", to = "n2", kind = "udp", size_bytes = 1400 },
]
"#,
    );
    assert_whole(&report);
    // Between n1 and n3, which do not hear each other, much collides at n2.
    let (first, third) = (air(&report, "n1", "n2"), air(&report, "n3", "n2"));
    assert!(first.collision > 0.05 && third.collision > 0.05, "{first:?} {third:?}");
    // n2 sends nothing but acknowledgements, to those who sent to it, so that nothing of its own
    // collides, however much n1 and n3 hear at one time.
    for to in ["n1", "n3"] {
        let back = air(&report, "n2", to);
        assert!(back.acknowledgement > 0.0, "{to}: {back:?}");
        assert_eq!((back.data, back.collision), (0.0, 0.0), "{to}: {back:?}");
    }
    let (to_first, to_third) = (air(&report, "n2", "n1"), air(&report, "n2", "n3"));
    assert!((to_first.others - to_third.acknowledgement).abs() < 1e-12);
}

#[test]
fn answers_are_charged_to_who_sends_them() {
    let shares = |threshold: &str| {
        let report = report(&format!(
            r#"
name = "announced"
duration_s = 2
radio = {{ {threshold} }}
node = [{{ name = "a" }}, {{ name = "b" }}]
link = [{{ between = ["a", "b"], distance_km = 1 }}]
flow = [{{ from = "a", to = "b", kind = "udp", rate_mbps = 1 }}]
"#
        ));
        assert_whole(&report);
        (air(&report, "a", "b").data, air(&report, "b", "a").acknowledgement)
    };
    let (alone, ack) = shares("");
    let (announced, answers) = shares("rts_threshold = 100");
    // An RTS has 20 bytes and a CTS 14, as an acknowledgement.
    assert!((answers / ack - 2.0).abs() < 0.01, "{ack} {answers}");
    let more = (announced - alone) / ack;
    assert!(more > 1.0 && more < 1.5, "{alone} {announced} {ack}");
}

#[test]
fn announcements_that_nobody_answers_are_no_lost_frames() {
    // Two that do not hear each other announce what they have for the one between them.
    let report = report(
        r#"
name = "hidden"
duration_s = 5
radio = { phy = "802.11b", preamble = "long", ack_rate_mbps = 2, rts_threshold = 500 }
propagation = { kind = "range", receive_m = 100, sense_m = 120 }
layout = [{ kind = "chain", name = "n", count = 3, spacing_m = 90 }]
flow = [{ from = "n1", to = "n2", kind = "udp" }, { from = "n3", to = "n2", kind = "udp" }]
"#,
    );
    let count = |of: &str| -> u64 {
        let layers = report.nodes.iter().flat_map(|node| node.layers.values());
        layers.filter_map(|counters| counters.get(of)).sum()
    };
    let (announced, arrived) = (count("rts_sent"), count("acknowledged"));
    assert!(announced > arrived + 100, "{announced} {arrived}");
    for link in report.links.iter().filter(|link| link.to == "n2") {
        assert!(link.loss.is_some_and(|loss| loss < 0.03), "{:?}", link.loss);
    }
}
