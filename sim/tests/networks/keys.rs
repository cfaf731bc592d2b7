//! What sealing costs in whole scenarios, and how soon two who know each other share keys.

use farhop_proto::link::secure::{CookieUse, SecurityConfig};
use farhop_proto::stack::{LinkConfig, LossConfig, Scenario};
use farhop_sim::engine::{RunOptions, run};

fn demo() -> Scenario {
    farhop_testkit::scenario(include_str!("../../../scenarios/demo.toml"))
}

/// Bytes of the three messages of a handshake: init, response with a beacon, cookie.
const HANDSHAKE: [u64; 3] = [163, 116, 62];

/// When both nodes had sent a frame under the new keys, in seconds; nothing if that did not
/// happen. What is sealed has another length than every message of a handshake.
fn agreed_s(scenario: &Scenario, seed: u64) -> Option<f64> {
    let mut trace = Vec::new();
    let options =
        RunOptions { seed: Some(seed), trace: Some(Box::new(&mut trace)), ..RunOptions::default() };
    run(scenario, options).expect("it runs");
    let lines: Vec<serde_json::Value> = trace
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).expect("a line of JSON"))
        .collect();
    let first = |node: u64| {
        let is_sealed = |line: &&serde_json::Value| {
            let bytes = line["payload_bytes"].as_u64();
            line["from"] == node && bytes.is_some_and(|bytes| !HANDSHAKE.contains(&bytes))
        };
        lines.iter().find(is_sealed)?["start_us"].as_f64()
    };
    Some(first(1)?.max(first(2)?) / 1e6)
}

/// Two silent nodes at 80 km, half of the frames lost each way: the sorted times.
fn times(cookie: CookieUse) -> Vec<f64> {
    let mut scenario = demo();
    scenario.duration_s = 5.0;
    scenario.flow.clear();
    scenario.link[0].loss = Some(LossConfig::Bernoulli { p: 0.5 });
    scenario.security = Some(SecurityConfig { cookie, ..SecurityConfig::default() });
    let mut times: Vec<f64> =
        (1..=300).map(|seed| agreed_s(&scenario, seed).unwrap_or(f64::INFINITY)).collect();
    times.sort_by(f64::total_cmp);
    times
}

#[test]
fn two_silent_nodes_share_keys_within_half_a_second() {
    for (cookie, median_s, p99_s) in
        [(CookieUse::UnderLoad, 0.5, 2.0), (CookieUse::Always, 1.0, 4.0)]
    {
        let times = times(cookie);
        let (median, p99) = (times[times.len() / 2], times[times.len() * 99 / 100]);
        println!("{cookie:?}: median {median:.3} s, p99 {p99:.3} s");
        assert!(median <= median_s && p99 <= p99_s, "{cookie:?}: {median:.3} s and {p99:.3} s");
    }
}

#[test]
fn sealing_costs_less_than_two_and_a_half_percent() {
    let mean = |security: Option<SecurityConfig>| -> f64 {
        let sums = (15..=25).map(|slot_ms| {
            let mut scenario = demo();
            scenario.security = security.clone();
            let LinkConfig::Wild(wild) = &mut scenario.stack.link else { panic!("it is wild") };
            wild.slot_ms = f64::from(slot_ms);
            run(&scenario, RunOptions::default()).expect("it runs").total_mbps()
        });
        sums.sum::<f64>() / 11.0
    };
    let (clear, sealed) = (mean(None), mean(Some(SecurityConfig::default())));
    let cost = 1.0 - sealed / clear;
    println!("{clear:.3} Mb/s in the clear, {sealed:.3} sealed: {:.2} %", cost * 100.0);
    assert!((0.0..=0.025).contains(&cost), "{clear:.3} and {sealed:.3} Mb/s");
}

/// Three in a star, all links of one kind; the third may be off.
fn star(kind: &str, is_sealed: bool, is_third_off: bool) -> Vec<f64> {
    let fault = "[[fault]]\nnode = \"c\"\nfrom_s = 0\nto_s = 10\n";
    let text = format!(
        "name = \"star\"\nduration_s = 10\nmeasure_from_s = 2\n\
         node = [{{ name = \"hub\" }}, {{ name = \"a\" }}, {{ name = \"c\" }}]\n\
         link = [{{ between = [\"hub\", \"c\"], distance_km = 2 }}, \
                 {{ between = [\"hub\", \"a\"], distance_km = 5 }}]\n\
         flow = [{{ from = \"hub\", to = \"a\", kind = \"udp\", rate_mbps = 0.2 }}, \
                 {{ from = \"a\", to = \"hub\", kind = \"udp\", rate_mbps = 0.2, \
                    start_s = 0.01 }}, \
                 {{ from = \"hub\", to = \"c\", kind = \"udp\", rate_mbps = 0.2 }}]\n\
         [stack.link]\nkind = \"{kind}\"\n{}",
        if is_third_off { fault } else { "" }
    );
    let mut scenario = farhop_testkit::scenario(&text);
    assert_eq!(scenario.problems(), []);
    scenario.security = is_sealed.then(SecurityConfig::default);
    let report = run(&scenario, RunOptions::default()).expect("it runs");
    report.flows.iter().map(|flow| flow.goodput_mbps).collect()
}

#[test]
fn every_link_carries_its_traffic_under_keys() {
    for kind in ["plain", "wild", "two-p", "harq", "blindfec"] {
        let (clear, sealed) = (star(kind, false, false), star(kind, true, false));
        println!("{kind}: {clear:.2?} Mb/s in the clear, {sealed:.2?} sealed");
        for (clear, sealed) in clear.iter().zip(&sealed) {
            assert!(*clear > 0.18 && *sealed > 0.9 * clear, "{kind}");
        }
        let without = star(kind, true, true);
        println!("{kind}: {without:.2?} Mb/s beside one that is off");
        let has_enough = without[..2].iter().all(|mbps| *mbps > 0.15);
        assert!(has_enough && without[2] == 0.0, "{kind}: {without:?}");
    }
}

#[test]
fn keys_are_agreed_on_however_long_the_way_is() {
    // A satellite, and one by way of another.
    for (delay_ms, most_s) in [(300, 2.0), (600, 3.0)] {
        let report = super::report(&format!(
            "name = \"far\"\nduration_s = 10\nradio.phy = \"wire\"\nsecurity = \"encrypt\"\n\
             node = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n\
             link = [{{ between = [\"a\", \"b\"], delay_ms = {delay_ms} }}]\n\
             [[flow]]\nfrom = \"a\"\nto = \"b\"\nkind = \"udp\"\nrate_mbps = 0.1\n\
             size_bytes = 200\n"
        ));
        let flow = &report.flows[0];
        let first = flow.over_time_mbps.iter().position(|mbps| *mbps > 0.0);
        let first_s = first.map(|bin| bin as f64 * flow.bin_s);
        println!("{delay_ms} ms each way: first packet after {first_s:?} s");
        assert!(first_s.is_some_and(|first_s| first_s < most_s), "{delay_ms} ms: {first_s:?}");
    }
}
