//! What shares the queue of a node with a source that takes each free place of it.

use farhop_sim::engine::Report;

use super::report;

/// Three nodes in a row: a saturating source and a call in the middle, 100 kb/s that pass there.
fn row(link: &str) -> Report {
    report(&format!(
        r#"
        name = "row"
        duration_s = 8
        measure_from_s = 2
        radio = {{ phy = "802.11g", rate_mbps = 24 }}
        stack = {{ link = {{ kind = "{link}" }} }}
        node = [{{ name = "a" }}, {{ name = "b" }}, {{ name = "c" }}]
        link = [{{ between = ["a", "b"] }}, {{ between = ["b", "c"] }}]
        flow = [
            {{ from = "b", to = "c", kind = "udp" }},
            {{ from = "b", to = "c", kind = "voip" }},
            {{ from = "a", to = "c", kind = "udp", rate_mbps = 0.1, size_bytes = 200 }},
        ]"#
    ))
}

/// One flow that sends as much as there is room for.
fn saturated(stack: &str) -> Report {
    report(&format!(
        r#"
        name = "saturated"
        duration_s = 20
        stack = {stack}
        node = [{{ name = "a" }}, {{ name = "b" }}]
        link = [{{ between = ["a", "b"] }}]
        flow = [{{ from = "a", to = "b", kind = "udp" }}]"#
    ))
}

#[test]
fn who_takes_each_free_place_leaves_some_to_calls_and_to_what_passes() {
    for link in ["plain", "arq", "harq", "blindfec", "two-p", "wild"] {
        let report = row(link);
        let [full, call, passing] = &report.flows[..] else { panic!("three flows") };
        assert!(full.goodput_mbps > 0.5, "{link}: {} Mb/s", full.goodput_mbps);
        for flow in [call, passing] {
            let loss = flow.loss.expect("a loss");
            assert!(loss < 0.25, "{link}: {} loses {loss}", flow.name);
        }
    }
}

#[test]
fn a_call_overtakes_nothing_that_has_to_come_in_its_order() {
    for link in ["arq", "harq", "blindfec"] {
        let report = report(&format!(
            r#"
            name = "call"
            duration_s = 8
            radio = {{ phy = "802.11a", edca = true }}
            stack.link.kind = "{link}"
            node = [{{ name = "a" }}, {{ name = "b" }}]
            link = [{{ between = ["a", "b"] }}]
            flow = [
                {{ from = "a", to = "b", kind = "udp" }},
                {{ from = "a", to = "b", kind = "voip" }},
            ]"#
        ));
        let loss = report.flows[0].loss;
        assert!(loss.is_some_and(|loss| loss < 0.001), "{link}: {loss:?}");
    }
}

#[test]
fn what_waits_for_a_dead_neighbour_leaves_room_for_what_goes_to_a_living_one() {
    let kinds = ["arq\", units = 2", "harq\", units = 2", "blindfec\"", "wild\""];
    for link in kinds.map(|kind| format!("{{ kind = \"{kind} }}")) {
        let report = report(&format!(
            r#"
            name = "dead"
            duration_s = 8
            radio.phy = "802.11a"
            stack.link = {link}
            node = [{{ name = "a" }}, {{ name = "b" }}, {{ name = "c" }}]
            link = [{{ between = ["b", "a"] }}, {{ between = ["b", "c"] }}]
            flow = [
                {{ from = "b", to = "a", kind = "udp" }},
                {{ from = "b", to = "c", kind = "udp" }},
            ]
            fault = [{{ node = "c", from_s = 0, to_s = 8 }}]"#
        ));
        // The air has 8 to 15 Mb/s; where the dead one's packets fill the queue 1.5 were left.
        let mbps = report.flows[0].goodput_mbps;
        assert!(mbps > 5.0, "{link}: {mbps} Mb/s");
    }
}

#[test]
fn a_source_without_a_rate_is_judged_as_often_as_packets_leave() {
    for link in ["plain", "harq"] {
        let report =
            saturated(&format!("{{ link = {{ kind = \"{link}\", queue.kind = \"red\" }} }}"));
        let came = report.flows[0].delivered_bytes / 1472;
        let dropped = report.nodes[0].drops["early"];
        assert!(came > 1_000 && (1..2 * came).contains(&dropped), "{dropped} dropped, {came} came");
    }
}

#[test]
fn a_source_without_a_rate_waits_for_its_route() {
    let report = saturated("{ routing = { kind = \"olsr\" } }");
    let flow = &report.flows[0];
    assert!(flow.delivered_bytes > 1_000_000, "{} bytes", flow.delivered_bytes);
    assert!(flow.loss.is_some_and(|loss| loss < 0.001), "{:?}", flow.loss);
    assert_eq!(report.nodes[0].drops.get("no-route"), Some(&1));
}

/// At 2 Mb/s what stands in the queues of a row of nodes is seconds of it: a lost packet is not
/// there sooner.
#[test]
fn tcp_over_a_slow_row_does_not_stand_still_for_long() {
    let report = report(
        r#"
        name = "slow"
        duration_s = 40
        radio = { phy = "802.11b", rate_mbps = 2 }
        stack = { link = { kind = "wild" } }
        node = [{ name = "a" }, { name = "b" }, { name = "c" }, { name = "d" }]
        link = [
            { between = ["a", "b"], distance_km = 20 },
            { between = ["b", "c"], distance_km = 20 },
            { between = ["c", "d"], distance_km = 20 },
        ]
        flow = [
            { from = "a", to = "d", kind = "tcp" },
            { from = "d", to = "a", kind = "tcp" },
        ]"#,
    );
    for flow in &report.flows {
        // The first second has none before the slow start.
        let bins = flow.over_time_mbps.iter().skip((1.0 / flow.bin_s).ceil() as usize);
        let spells = bins.copied().collect::<Vec<f64>>();
        let longest = spells.split(|mbps| *mbps > 0.0).map(<[f64]>::len).max().unwrap_or(0);
        let still_s = longest as f64 * flow.bin_s;
        assert!(flow.goodput_mbps > 0.13 && still_s < 2.5, "{}: {still_s} s", flow.goodput_mbps);
    }
}

/// The queue of a flow that is no TCP has place for many short packets, at low rates too.
#[test]
fn a_burst_of_short_datagrams_waits_at_a_low_rate() {
    let report = report(
        r#"
        name = "burst"
        duration_s = 20
        radio = { phy = "802.11b", rate_mbps = 1 }
        stack = { link = { kind = "wild" } }
        node = [{ name = "a" }, { name = "b" }]
        link = [{ between = ["a", "b"], distance_km = 10 }]

        [[flow]]
        from = "a"
        to = "b"
        kind = "on-off"
        size_bytes = 200
        rate_mbps = 0.45
        on_off = { on_s = 0.06, off_s = 0.94, exponential = false }
        "#,
    );
    assert_eq!(report.flows[0].loss, Some(0.0));
}
