//! What is impossible in the settings of the links that are baselines.

use super::Found;
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
