//! Losses that a run recorded are played back to the next one; each bit-rate can have its own.

use std::sync::Arc;

use farhop_proto::base::PhyKind;
use farhop_proto::stack::{
    ByRateConfig, DriftConfig, DriverConfig, FlowKind, LinkConfig, LossConfig, LossTrace,
    RateControl, Scenario, TraceConfig,
};
use farhop_sim::engine::{RunOptions, run};

fn scenario(loss: LossConfig) -> Scenario {
    let text = r#"{
        "name": "two", "duration_s": 3,
        "node": [{ "name": "hill" }, { "name": "valley" }],
        "link": [{ "between": ["hill", "valley"], "distance_km": 10 }],
        "flow": [{ "from": "hill", "to": "valley", "kind": "udp" },
                 { "from": "valley", "to": "hill", "kind": "tcp" }]
    }"#;
    let mut scenario: Scenario = serde_json::from_str(text).expect("a good scenario");
    assert!(matches!(scenario.stack.link, LinkConfig::Plain(_)));
    assert_eq!(scenario.flow[0].kind, FlowKind::Udp);
    scenario.link[0].loss = loss.into();
    scenario
}

/// A fifth of the frames, which wanders from second to second.
fn drift() -> LossConfig {
    LossConfig::Drift(DriftConfig {
        loss: 0.2,
        sigma: 1.0,
        correlation_s: 0.5,
        reference_bytes: 1500,
        burst: None,
    })
}

/// The trace hash of a run and what became of its frames.
fn record(scenario: &Scenario) -> (String, String) {
    let mut losses = Vec::new();
    let options = RunOptions { losses: Some(Box::new(&mut losses)), ..RunOptions::default() };
    let report = run(scenario, options).expect("a run");
    (report.trace_hash.expect("a hash"), String::from_utf8(losses).expect("text"))
}

fn replay(text: &str, link: &str) -> LossConfig {
    let recording = LossTrace::parse(text, Some(link)).expect("a recording");
    LossConfig::Trace(TraceConfig {
        file: "losses.csv".into(),
        link: Some(link.into()),
        repeat: false,
        recording: Some(Arc::new(recording)),
    })
}

#[test]
fn a_recording_brings_the_same_losses_back() {
    let (hash, text) = record(&scenario(drift()));
    assert!(text.lines().filter(|line| line.ends_with(",crc")).count() > 50);
    assert_eq!(text.lines().filter(|line| line.ends_with(",end")).count(), 2);
    let mut again = scenario(replay(&text, "hill>valley"));
    again.link[0].loss_back = Some(replay(&text, "valley>hill"));
    // Another seed for all that the radio draws would bring other times: it is the same one.
    let (replayed, text_again) = record(&again);
    assert_eq!(replayed, hash);
    assert_eq!(text_again, text);
    let (without, _) = record(&scenario(LossConfig::default()));
    assert_ne!(without, hash);
}

#[test]
fn short_frames_of_one_aggregate_each_have_their_fate_back() {
    // TCP acknowledgements of which two to four begin within one symbol.
    let mut original = scenario(LossConfig::Bernoulli { p: 0.2 });
    original.radio.phy = PhyKind::N;
    original.radio.width_mhz = 40;
    original.radio.streams = 2;
    original.flow.remove(0);
    let (hash, text) = record(&original);
    let mut again = original.clone();
    again.link[0].loss = replay(&text, "hill>valley").into();
    again.link[0].loss_back = Some(replay(&text, "valley>hill"));
    let (replayed, text_again) = record(&again);
    assert_eq!(text_again, text);
    assert_eq!(replayed, hash);
}

#[test]
fn what_drivers_drop_is_played_back_too() {
    for (phy, ack, fate) in [
        (PhyKind::B, true, "dropped"),
        (PhyKind::B, false, "unanswered"),
        (PhyKind::N, true, "dropped"),
        (PhyKind::N, false, "unanswered"),
    ] {
        let loss = Box::new(LossConfig::Bernoulli { p: 0.1 });
        let mut original = scenario(LossConfig::Driver(DriverConfig { q: 0.3, ack, loss }));
        original.radio.phy = phy;
        let (hash, text) = record(&original);
        let count = |fate: &str| text.lines().filter(|line| line.ends_with(fate)).count() as f64;
        let passed = count(",ok") + count(fate);
        assert!(passed > 500.0, "{passed}");
        assert!((count(fate) / passed - 0.3).abs() < 0.06, "{fate} {} of {passed}", count(fate));
        assert!((count(",crc") / (passed + count(",crc")) - 0.1).abs() < 0.04);
        let mut again = original.clone();
        again.link[0].loss = replay(&text, "hill>valley").into();
        again.link[0].loss_back = Some(replay(&text, "valley>hill"));
        assert_eq!(record(&again), (hash, text), "{phy:?} {fate}");
    }
}

fn by_rate(rates: &[(f64, LossConfig)]) -> LossConfig {
    LossConfig::ByRate(ByRateConfig { rates: rates.to_vec() })
}

#[test]
fn a_radio_of_one_bit_rate_has_the_loss_of_that_one() {
    for loss in [LossConfig::Bernoulli { p: 0.2 }, drift()] {
        let with = |loss: &LossConfig| {
            let mut scenario = scenario(loss.clone());
            // Nothing but data is lost: acknowledgements go at another rate.
            scenario.radio.phy = PhyKind::G;
            scenario.radio.rate_mbps = 36.0.into();
            scenario.radio.ack_rate_mbps = 24.0.into();
            scenario.link[0].loss_back = Some(LossConfig::default());
            scenario.flow.remove(1);
            record(&scenario)
        };
        let all = with(&loss);
        let other = LossConfig::Bernoulli { p: 0.9 };
        let own = by_rate(&[(24.0, other.clone()), (36.0, loss), (54.0, other)]);
        assert_eq!(with(&own), all);
        assert!(all.1.contains(",crc"));
    }
}

#[test]
fn bit_rate_control_finds_the_rate_that_brings_most() {
    let p = |p| LossConfig::Bernoulli { p };
    let loss = by_rate(&[(24.0, p(0.0)), (36.0, p(0.1)), (48.0, p(0.7)), (54.0, p(0.97))]);
    let goodput = |mbps: f64, control| {
        let mut scenario = scenario(loss.clone());
        scenario.radio.phy = PhyKind::G;
        scenario.radio.rate_mbps = mbps.into();
        scenario.radio.rate_control = control;
        scenario.flow.remove(1);
        run(&scenario, RunOptions::default()).expect("a run").total_mbps()
    };
    let fixed = [24.0, 36.0, 48.0, 54.0].map(|mbps| goodput(mbps, RateControl::Fixed));
    let [_, best, ..] = fixed;
    assert!(fixed.iter().all(|mbps| *mbps <= best), "{fixed:?}");
    for control in [RateControl::Aarf, RateControl::Minstrel] {
        let found = goodput(54.0, control);
        println!("{control:?}: {found:.1} of {fixed:.1?}");
        assert!(found > 0.8 * best && found < 1.02 * best, "{control:?}: {found} of {fixed:?}");
    }
}

#[test]
fn what_nobody_acknowledges_goes_at_the_lowest_rate_that_a_radio_may_choose() {
    let p = |p| LossConfig::Bernoulli { p };
    let mut scenario = scenario(by_rate(&[(6.0, p(0.0)), (9.0, p(1.0))]));
    scenario.radio.phy = PhyKind::G;
    scenario.flow.remove(1);
    scenario.stack.link =
        serde_json::from_str(r#"{ "kind": "plain", "mac_ack": false }"#).expect("a link");
    for control in [RateControl::Prism, RateControl::Arf, RateControl::Aarf, RateControl::Minstrel]
    {
        scenario.radio.rate_control = control;
        let report = run(&scenario, RunOptions::default()).expect("a run");
        assert!((4.5..5.5).contains(&report.total_mbps()), "{control:?}: {}", report.total_mbps());
        assert_eq!(report.flows[0].loss, Some(0.0), "{control:?}");
    }
}
