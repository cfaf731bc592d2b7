//! What the simulator promises of whole scenarios: the same trace in every build, the published
//! sums, clocks that may differ, peers that may fall silent.

use std::collections::BTreeSet;

use farhop_proto::base::phy::Gap;
use farhop_proto::link::secure::SecurityConfig;
use farhop_proto::stack::{ClocksConfig, FaultConfig, LinkConfig, LossConfig, Scenario};
use farhop_sim::engine::{Report, RunOptions, run};

/// The hash of scenarios/demo.toml. It stands for every frame and its time: a change of it is a
/// change of what goes on air, and has to be meant. `farhop sim scenarios/demo.toml --json` prints
/// the new one.
const DEMO_HASH: &str = "452271a5e669bfe4";

fn demo(loss: f64) -> Scenario {
    let mut scenario = farhop_testkit::scenario(include_str!("../../../scenarios/demo.toml"));
    scenario.link[0].loss = Some(LossConfig::Bernoulli { p: loss });
    scenario
}

fn simulate(scenario: &Scenario, seed: u64) -> Report {
    run(scenario, RunOptions { seed: Some(seed), ..RunOptions::default() }).expect("it runs")
}

#[test]
fn the_demo_puts_the_same_frames_on_air_in_every_build() {
    let scenario = demo(0.1);
    assert_eq!(simulate(&scenario, 1).trace_hash.as_deref(), Some(DEMO_HASH));
    assert_ne!(simulate(&scenario, 2).trace_hash.as_deref(), Some(DEMO_HASH));
}

#[test]
fn a_trace_tells_what_layers_decided_and_changes_nothing() {
    let mut scenario = demo(0.1);
    (scenario.duration_s, scenario.security) = (2.0, Some(SecurityConfig::default()));
    let mut trace = Vec::new();
    let options = RunOptions { trace: Some(Box::new(&mut trace)), ..RunOptions::default() };
    let traced = run(&scenario, options).expect("it runs");
    let untraced = run(&scenario, RunOptions::default()).expect("it runs");
    assert_eq!(traced.trace_hash, untraced.trace_hash);
    let (mut frames, mut events) = (0, BTreeSet::new());
    for line in trace.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let line: serde_json::Value = serde_json::from_slice(line).expect("a line of JSON");
        match line["event"].as_str() {
            Some(event) => _ = events.insert(event.to_owned()),
            None => frames += u64::from(line["start_us"].is_f64()),
        }
    }
    assert_eq!(frames, traced.frames_on_air);
    for event in ["slot_began", "in_step", "stamp", "lost", "keys_agreed", "window"] {
        assert!(events.contains(event), "no {event} among {events:?}");
    }
}

#[test]
fn the_published_radio_carries_what_was_published() {
    for (loss, sums) in [(0.0, 5.3..=6.2), (0.1, 4.4..=6.2)] {
        let mut scenario = demo(loss);
        scenario.radio.gap = Gap::Backoff;
        let LinkConfig::Wild(wild) = &mut scenario.stack.link else { panic!("the demo is wild") };
        (wild.guard_ms, wild.acks_ride) = (0.5, false);
        let total = simulate(&scenario, 1).total_mbps();
        assert!(sums.contains(&total), "{total:.2} Mb/s at a loss of {loss}, not in {sums:?}");
    }
}

#[test]
fn clocks_that_differ_cost_nothing() {
    for loss in [0.0, 0.1] {
        let mut scenario = demo(loss);
        scenario.duration_s = 60.0;
        let alike = simulate(&scenario, 1).total_mbps();
        for (offset_s, drift_ppm) in [(1.0, 50.0), (-1.0, -50.0)] {
            scenario.node[1].clock.offset_s = offset_s;
            scenario.node[1].clock.drift_ppm = drift_ppm;
            let apart = simulate(&scenario, 1).total_mbps();
            let change = apart / alike - 1.0;
            assert!(
                change.abs() < 0.01,
                "{alike:.3} and {apart:.3} Mb/s with {offset_s} s and {drift_ppm} ppm, loss {loss}"
            );
        }
    }
}

#[test]
fn clocks_of_commodity_cards_cost_nothing() {
    let mut scenario = demo(0.1);
    scenario.duration_s = 60.0;
    let exact = simulate(&scenario, 1).total_mbps();
    scenario.host.clocks = ClocksConfig::Drawn;
    for seed in 1..=4 {
        let drawn = simulate(&scenario, seed).total_mbps();
        assert!((drawn / exact - 1.0).abs() < 0.02, "{exact:.3} and {drawn:.3} Mb/s");
    }
}

#[test]
fn a_peer_that_was_silent_is_back_in_step_within_a_second() {
    const BINS_PER_S: usize = 10;
    for (loss, seed) in [(0.0, 1), (0.0, 2), (0.1, 1), (0.1, 2), (0.1, 3)] {
        let mut scenario = demo(loss);
        scenario.duration_s = 12.0;
        let node = Some("valley".to_owned());
        scenario.fault.push(FaultConfig { node, from_s: 5.0, to_s: 8.0, ..Default::default() });
        let report = simulate(&scenario, seed);
        let mean = |from: usize, to: usize| -> f64 {
            let bins = from * BINS_PER_S..to * BINS_PER_S;
            let sum: f64 =
                report.flows.iter().flat_map(|flow| &flow.over_time_mbps[bins.clone()]).sum();
            sum / ((to - from) * BINS_PER_S) as f64
        };
        let what = format!("loss {loss}, seed {seed}");
        assert!(mean(6, 8) == 0.0, "{what}: it was not silent");
        // In the first second after its return both directions carry again, and in the next two
        // as much as ever.
        for flow in &report.flows {
            let back = flow.over_time_mbps[8 * BINS_PER_S..9 * BINS_PER_S].iter().sum::<f64>();
            assert!(back > 0.0, "{what}: {} is not back", flow.name);
        }
        let (before, after) = (mean(2, 5), mean(9, 11));
        assert!(after > 0.85 * before, "{what}: {before:.2} before, {after:.2} Mb/s after");
    }
}
