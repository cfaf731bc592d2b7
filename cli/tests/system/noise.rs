//! A million frames of rubbish on a daemon's radio while traffic goes on.

use serde_json::Value;

use crate::place::{Place, stderr};

/// Frames of rubbish.
const FRAMES: &str = "1000000";
/// By how much the daemon may grow, in kB.
const GROWTH_KB: u64 = 2_000;

fn memory_kb(status: &Value) -> u64 {
    status["memory_kb"].as_u64().expect("a number")
}

/// Frames that the device and the link dropped, and how many kinds of them there were.
fn dropped(status: &Value) -> (u64, usize) {
    let device = status["devices"][0]["dropped"].as_object().expect("counters");
    let link = status["stack"]["link"]["counters"].as_object().expect("counters");
    let malformed = link.iter().filter(|(name, _)| name.starts_with("malformed"));
    let counts: Vec<u64> = device
        .iter()
        .chain(malformed)
        .filter_map(|(_, count)| count.as_u64())
        .filter(|count| *count > 0)
        .collect();
    (counts.iter().sum(), counts.len())
}

#[test]
#[ignore = "system: a million frames"]
fn a_daemon_stands_a_million_frames_of_rubbish() {
    let place = Place::new("noise");
    if !place.keep(&place.scenario("noise", 0.0, None)) {
        return;
    }
    // What a daemon needs once is not growth: some traffic and some rubbish come first.
    place.assert_ping("10.66.0.2", "10");
    let noise = ["lab-noise", "--interface", "air1", "--count"];
    let farhop = env!("CARGO_BIN_EXE_farhop");
    let rubbish = |count| [&[farhop], &noise[..], &[count]].concat();
    let out = place.exec("@air", &rubbish("10000"));
    assert!(out.status.success(), "{}", stderr(&out));
    let before = place.status("valley");

    let mut ping = place.spawn("hill", &["ping", "-n", "-i", "0.05", "10.66.0.2"]);
    let out = place.exec("@air", &rubbish(FRAMES));
    assert!(out.status.success(), "{}", stderr(&out));
    assert!(!ping.has_ended());
    drop(ping);

    let after = place.status("valley");
    assert_eq!(after["pid"], before["pid"], "another daemon");
    let carried = |status: &Value| status["host"]["to_host"].as_u64().expect("a number");
    assert!(carried(&after) > carried(&before) + 20, "no traffic in the rubbish");
    let growth = memory_kb(&after).saturating_sub(memory_kb(&before));
    assert!(growth < GROWTH_KB, "grew by {growth} kB");
    let (frames, kinds) = dropped(&after);
    println!("{frames} frames of {kinds} kinds dropped, grew by {growth} kB");
    // The kernel's own queue before the daemon may overflow: what it drops is not seen here.
    assert!(frames > 100_000 && kinds >= 10, "{frames} frames of {kinds} kinds: {after:#}");
    place.assert_ping("10.66.0.2", "20");
}
