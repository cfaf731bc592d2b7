//! What is impossible in the settings of the links that are baselines.

use super::Found;
use crate::link::blindfec::BlindFecConfig;
use crate::link::snoop::SnoopConfig;
use crate::link::two_p::TwoPConfig;

pub(super) fn check_two_p(found: &mut Found, two_p: &TwoPConfig) {
    let path = |key: &str| format!("stack.link.{key}");
    let what = "a length of a phase in milliseconds";
    found.number(path("phase_ms"), two_p.phase_ms, 4.0..=1000.0, what);
    let what = "a time-out in phases, longer than one";
    found.number(path("timeout"), two_p.timeout, 1.01..=100.0, what);
    let what = "a guard that leaves room for a packet and the markers";
    found.number(path("guard_ms"), two_p.guard_ms, 0.0..=(two_p.phase_ms - 4.0).max(0.0), what);
    let queue = two_p.queue_packets as f64;
    found.number(path("queue_packets"), queue, 1.0..=1e5, "a queue length in packets");
}

pub(super) fn check_snoop(found: &mut Found, snoop: &SnoopConfig) {
    let path = |key: &str| format!("stack.snoop.{key}");
    let what = "a time-out in milliseconds";
    found.number(path("timeout_ms"), snoop.timeout_ms, 1.0..=60_000.0, what);
    for (key, packets) in [
        ("cache_packets", snoop.cache_packets),
        ("queue_packets", snoop.queue_packets),
        ("depth_packets", snoop.depth_packets),
    ] {
        found.number(path(key), packets as f64, 1.0..=1e5, "a number of packets");
    }
}

pub(super) fn check_blindfec(found: &mut Found, blind: &BlindFecConfig) {
    let path = |key: &str| format!("stack.link.{key}");
    let (data, all) = (f64::from(blind.data_packets), f64::from(blind.all_packets));
    found.number(path("data_packets"), data, 1.0..=64.0, "a number of packets of a block");
    let most = data.max(1.0) * 3.0;
    let what = "a number of frames of a block: its packets, and at most two of parity for each";
    found.number(path("all_packets"), all, data.max(1.0)..=most.max(1.0), what);
    found.number(path("close_ms"), blind.close_ms, 0.1..=10_000.0, "a time in milliseconds");
    let queue = blind.queue_packets as f64;
    found.number(path("queue_packets"), queue, 1.0..=1e5, "a queue length in packets");
}
