//! Classes of flows on a long lossy link under `wild`. Flows have the ports 5001, 5002, .. in their
//! order.

use farhop_sim::engine::{Distribution, FlowReport, RunOptions, run};

/// 80 km of 802.11b with a loss of `p` for each frame, these settings of the link, these flows.
fn flows(secs: u32, p: f64, link: &str, flows: &str) -> Vec<FlowReport> {
    let text = format!(
        "name = \"classes\"\nduration_s = {secs}\n\
         node = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n\
         link = [{{ between = [\"a\", \"b\"], distance_km = 80, loss = {p} }}]\n\
         [radio]\nphy = \"802.11b\"\npreamble = \"short\"\nrate_mbps = 11\n\
         [stack.link]\nkind = \"wild\"\n{link}\n{flows}"
    );
    let scenario = farhop_testkit::scenario(&text);
    assert_eq!(scenario.problems(), []);
    run(&scenario, RunOptions::default()).expect("it runs").flows
}

fn flow(from: &str, to: &str, text: &str) -> String {
    format!("[[flow]]\nfrom = \"{from}\"\nto = \"{to}\"\n{text}\n")
}

fn class(name: &str, port: u16, text: &str) -> String {
    format!("[[stack.link.class]]\nname = \"{name}\"\nport = {port}\n{text}\n")
}

/// 50 packets of 100 bytes a second.
const PROBE: &str = "kind = \"udp\"\nrate_mbps = 0.04\nsize_bytes = 100\nstart_s = 2";

fn delay(flow: &FlowReport) -> Distribution {
    flow.delay_ms.expect("packets came")
}

#[test]
fn a_realtime_probe_beside_two_transfers_waits_a_slot_longer_at_most() {
    let voice = class("voice", 5001, "preset = \"realtime\"");
    let transfers = flow("a", "b", "kind = \"tcp\"") + &flow("b", "a", "kind = \"tcp\"");
    for p in [0.0, 0.1] {
        let probe = flow("a", "b", PROBE);
        // Alone in slots as long as those of the transfers: it has shorter ones by itself.
        let equal = format!("slot_least_ms = 20\n{voice}");
        let alone = delay(&flows(20, p, &equal, &probe)[0]);
        let beside = flows(20, p, &voice, &(probe.clone() + &transfers));
        let with = delay(&beside[0]);
        assert!(with.p50 <= alone.p50 + 20.0, "{} ms, alone {} ms, at {p}", with.p50, alone.p50);
        assert!(with.p95 <= alone.p95 + 20.0, "{} ms, alone {} ms, at {p}", with.p95, alone.p95);
        assert!(beside[0].loss.expect("udp") < 0.01, "{:?} at {p}", beside[0].loss);
        assert!(beside[1].goodput_mbps > 2.0 && beside[2].goodput_mbps > 2.0);
        // The same probe in the class of all others waits behind what TCP has queued.
        let common = delay(&flows(20, p, "", &(probe + &transfers))[0]);
        assert!(common.p95 > with.p95, "{} ms without a class, {} with", common.p95, with.p95);
    }
}

#[test]
fn each_class_loses_what_its_retries_leave() {
    let retries = ["0", "1", "2", "\"auto\"\ntarget_loss = 0.05", "\"auto\"\ntarget_loss = 0.01"];
    let left = [0.3, 0.09, 0.027, 0.05, 0.01];
    let classes: String = retries
        .iter()
        .zip(5001..)
        .map(|(n, port)| class(&format!("c{port}"), port, &format!("retries = {n}")))
        .collect();
    let source = "kind = \"udp\"\nrate_mbps = 0.15\nsize_bytes = 200\nstart_s = 2\nstop_s = 38";
    let found = flows(
        40,
        0.3,
        &format!("recovery = \"arq\"\n{classes}"),
        &flow("a", "b", source).repeat(5),
    );
    for (number, (flow, left)) in found.iter().zip(left).enumerate() {
        let sent = flow.sent_bytes as f64 / 200.0;
        let sigma = (left * (1.0 - left) / sent).sqrt();
        let loss = flow.loss.expect("udp");
        if number < 3 {
            // A lost acknowledgement is repaired by the next, so only lost data counts.
            assert!((loss - left).abs() < 4.0 * sigma, "{loss} instead of {left} in {number}");
        } else {
            assert!(loss < left + 4.0 * sigma, "{loss} is over {left} in {number}");
        }
    }
}

#[test]
fn a_class_that_is_served_first_leaves_half_of_the_air_to_the_others() {
    let greedy = class("greedy", 5001, "priority = 7");
    let udp = |rate| flow("a", "b", &format!("kind = \"udp\"\nrate_mbps = {rate}"));
    let found = flows(10, 0.0, &greedy, &(udp(8) + &udp(8)));
    let (first, other) = (found[0].goodput_mbps, found[1].goodput_mbps);
    assert!((other / first - 1.0).abs() < 0.1, "{first} and {other} Mb/s");
    let alone = flows(10, 0.0, &greedy, &udp(8))[0].goodput_mbps;
    assert!(alone > 0.97 * (first + other), "{alone} Mb/s when nobody else wants any");
}

#[test]
fn what_a_flow_does_decides_in_a_class_that_chooses_by_itself() {
    let auto =
        "[[stack.link.class]]\nname = \"any\"\naddress = \"10.66.0.0/16\"\npreset = \"auto\"";
    let transfers = flow("a", "b", "kind = \"tcp\"").repeat(2);
    let traffic = flow("a", "b", PROBE) + &transfers;
    let chosen = delay(&flows(15, 0.1, auto, &traffic)[0]);
    let common = delay(&flows(15, 0.1, "", &traffic)[0]);
    assert!(chosen.p50 < common.p50, "{} ms, without classes {} ms", chosen.p50, common.p50);
}

/// A star of twelve stations over 5 km, with a class for calls and these flows.
fn star(radio: &str, loss: f64, flows: &str) -> Vec<FlowReport> {
    let stations: String = (1..=12)
        .map(|n| {
            format!(
                "[[node]]\nname = \"s{n}\"\n[[link]]\nbetween = [\"m\", \"s{n}\"]\n\
                 distance_km = 5\nloss = {loss}\n"
            )
        })
        .collect();
    let text = format!(
        "name = \"star\"\nduration_s = 12\n[radio]\n{radio}\n[stack.link]\nkind = \"wild\"\n\
         class = [{{ name = \"calls\", dscp = 46, preset = \"realtime\" }}]\n\
         [[node]]\nname = \"m\"\n{stations}{flows}"
    );
    let scenario = farhop_testkit::scenario(&text);
    assert_eq!(scenario.problems(), []);
    run(&scenario, RunOptions::default()).expect("it runs").flows
}

#[test]
fn calls_of_a_station_do_not_wait_for_the_transfers_of_all_others() {
    let call = "kind = \"voip\"\nstart_s = 4";
    let calls = flow("m", "s1", call) + &flow("s1", "m", call);
    let udp = "kind = \"udp\"\nstart_s = 2";
    let all = |n| flow("m", &format!("s{n}"), udp) + &flow(&format!("s{n}"), "m", udp);
    let transfers: String = (2..=12).map(all).collect();
    for radio in ["phy = \"802.11b\"\nrate_mbps = 11", "phy = \"802.11n\"\naggregate = 32"] {
        let found = star(radio, 0.0, &(calls.clone() + &transfers));
        for call in &found[..2] {
            let (loss, delay) = (call.loss.expect("udp"), delay(call));
            assert!(loss < 0.01 && delay.p95 < 42.0, "{radio}: {loss}, {delay:?}");
        }
        let least = found[2..].iter().map(|flow| flow.goodput_mbps).fold(f64::MAX, f64::min);
        assert!(least > 0.1, "{radio}: nobody starves, {least} Mb/s");
    }
}

#[test]
fn what_a_card_repeats_does_not_keep_a_call_from_being_repeated() {
    let radio = "phy = \"802.11ac\"\nwidth_mhz = 80\nmcs = 8\naggregate = 64";
    let call = "kind = \"voip\"\nstart_s = 4";
    let calls = flow("m", "s1", call) + &flow("s1", "m", call);
    let transfers = flow("m", "s1", "kind = \"tcp\"") + &flow("s1", "m", "kind = \"tcp\"");
    for call in &star(radio, 0.1, &(calls + &transfers))[..2] {
        let loss = call.loss.expect("udp");
        assert!(loss < 0.015, "{loss} of {} bytes", call.sent_bytes);
    }
}
