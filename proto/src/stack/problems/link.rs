//! Checks of the settings of links.

use super::Found;
use super::hop::check_hop;
use super::loss::check_loss;
use crate::link::blindfec::BlindFecConfig;
use crate::link::harq::{ArqConfig, HarqConfig};
use crate::link::queue::QueueConfig;
use crate::link::snoop::SnoopConfig;
use crate::link::two_p::TwoPConfig;
use crate::link::wild::WildConfig;
use crate::stack::config::{LinkConfig, StackConfig};
use crate::stack::scenario::{LinkOverhead, RadioConfig, RadioLinkConfig, Scenario};

/// Checks what a `[[link]]` says about itself.
pub(super) fn check_radio_link(
    found: &mut Found,
    path: &str,
    scenario: &Scenario,
    link: &RadioLinkConfig,
) {
    if let Some(length) = link.distance_km {
        let what = "a distance in kilometres";
        found.number(format!("{path}.distance_km"), length, 0.0..=1000.0, what);
    }
    let what = "a delay in milliseconds";
    found.number(format!("{path}.delay_ms"), link.delay_ms, 0.0..=1e5, what);
    if let Some(signal) = link.signal_dbm {
        found.number(
            format!("{path}.signal_dbm"),
            signal,
            -120.0..=30.0,
            "a received power in dBm",
        );
    }
    if let Some(rate) = link.rate_mbps {
        let path = format!("{path}.rate_mbps");
        if !matches!(scenario.stack.link, LinkConfig::Wild(_)) {
            let help = "kind = \"wild\", a rate_control, or a radio of the link's own";
            found.add(&*path, "this link sends to all neighbours at one rate", help);
        }
        found.number(path, rate, 1e-3..=1e6, "a rate in Mb/s");
    }
    for (key, loss) in [("loss", &link.loss), ("loss_back", &link.loss_back)] {
        if let Some(loss) = loss {
            check_loss(found, &format!("{path}.{key}"), loss, scenario.duration_s);
        }
    }
}

/// Checks the link protocol and the layers around it.
pub(super) fn check_stack(found: &mut Found, stack: &StackConfig, radio: &RadioConfig) {
    if let Some(snoop) = &stack.snoop {
        check_snoop(found, snoop);
    }
    if let Some(hop) = &stack.hop {
        check_hop(found, hop);
    }
    check_wires(found, stack);
    if radio.link_overhead != LinkOverhead::Counted && !stack.link.has_units() {
        let message = format!("frames of `{}` have nothing that could be free", stack.link.name());
        let help = "leave it out, or kind = \"harq\" or \"arq\" in [stack.link]";
        found.add("radio.link_overhead", message, help);
    }
    match &stack.link {
        LinkConfig::Plain(plain) => {
            check_queue(found, "stack.link", plain.queue_packets, &plain.queue);
        }
        LinkConfig::Wild(wild) => check_wild(found, wild),
        LinkConfig::BlindFec(blind) => check_blindfec(found, blind),
        LinkConfig::Harq(harq) => check_harq(found, harq),
        LinkConfig::Arq(arq) => check_arq(found, arq),
        LinkConfig::TwoP(two_p) => check_two_p(found, two_p),
    }
}

/// Checks the queue of wires beside radios with slots; elsewhere wires have the link of all radios.
fn check_wires(found: &mut Found, stack: &StackConfig) {
    let Some(wires) = &stack.wires else { return };
    check_queue(found, "stack.wires", wires.queue_packets.unwrap_or(1), &wires.queue);
    if !stack.link.has_schedule() {
        let message = format!("wires have the link of all radios, '{}'", stack.link.name());
        found.add("stack.wires", message, "settings of it in [stack.link]");
    }
}

fn check_queue(found: &mut Found, at: &str, packets: usize, queue: &QueueConfig) {
    let what = "a queue length in packets";
    found.number(format!("{at}.queue_packets"), packets as f64, 1.0..=1e6, what);
    let QueueConfig::Red(red) = queue else { return };
    let path = |key: &str| format!("{at}.queue.{key}");
    found.number(path("min_packets"), red.min_packets, 0.0..=1e6, "a length in packets");
    found.number(path("weight"), red.weight, 1e-6..=1.0, "a weight of the length in the mean");
    found.number(path("max_p"), red.max_p, 1e-6..=1.0, "a probability");
    let range = red.min_packets + 0.1..=1e6;
    found.number(path("max_packets"), red.max_packets, range, "a length above min_packets");
    if red.min_packets >= packets as f64 {
        let message = format!("RED never acts, for the queue is full with {packets}");
        found.add(path("min_packets"), message, "less than `queue_packets`");
    }
}

fn check_wild(found: &mut Found, wild: &WildConfig) {
    let path = |key: &str| format!("stack.link.{key}");
    let slots = 1.0..=1000.0;
    found.number(
        path("slot_ms"),
        wild.slot_ms,
        slots.clone(),
        "a length of a slot in milliseconds",
    );
    // With an impossible slot, nothing else can be checked against it.
    if slots.contains(&wild.slot_ms) {
        check_slots(found, wild);
    }
    found.number(path("target_loss"), wild.target_loss, 1e-9..=0.5, "a loss that may remain");
    found.number(
        path("block_packets"),
        wild.block_packets.into(),
        1.0..=64.0,
        "a number of packets in a code block",
    );
    if let Some(queue) = wild.queue_packets {
        found.number(path("queue_packets"), queue as f64, 1.0..=1e5, "a queue length in packets");
    }
    found.number(path("overhead_us"), wild.overhead_us, 0.0..=1e5, "a time in microseconds");
    if let Some(bytes) = wild.frame_bytes {
        let range = 600.0..=2304.0;
        found.number(path("frame_bytes"), bytes.into(), range, "a length of frames in bytes");
    }
    if let Some(window) = wild.window_packets {
        found.number(path("window_packets"), window.into(), 1.0..=1920.0, "a window in packets");
    }
    super::class::check_classes(found, wild);
}

/// Checks what depends on the lengths of slots.
fn check_slots(found: &mut Found, wild: &WildConfig) {
    let path = |key: &str| format!("stack.link.{key}");
    if let Some(least) = wild.slot_least_ms {
        let range = wild.slot_ms / 8.0..=wild.slot_ms;
        found.number(path("slot_least_ms"), least, range, "a length for the shortest slot");
    }
    if let Some(most) = wild.slot_most_ms {
        let range = wild.slot_ms..=wild.slot_ms * 1.875;
        found.number(path("slot_most_ms"), most, range, "a length for the longest slot");
        if most > wild.slot_ms && wild.slot_least_ms.is_some_and(|least| least >= wild.slot_ms) {
            let message = "a slot is only longer than slot_ms by what the other one is shorter";
            found.add(path("slot_most_ms"), message, "a slot_least_ms that is less than slot_ms");
        }
    }
    if !(wild.guard_ms >= 0.0 && wild.guard_ms < wild.slot_least().as_millis_f64()) {
        let message = format!(
            "a guard of {} ms leaves nothing of a slot of {} ms",
            wild.guard_ms,
            wild.slot_least().as_millis_f64()
        );
        found.add(
            path("guard_ms"),
            message,
            "at least 0 and less than the shortest slot; 1 to 2 suits most hosts",
        );
    }
}

pub(super) fn check_two_p(found: &mut Found, two_p: &TwoPConfig) {
    let path = |key: &str| format!("stack.link.{key}");
    let (phases, what) = (4.0..=1000.0, "a length of a phase in milliseconds");
    found.number(path("phase_ms"), two_p.phase_ms, phases.clone(), what);
    let what = "a time-out in phases, longer than one";
    found.number(path("timeout"), two_p.timeout, 1.01..=100.0, what);
    if phases.contains(&two_p.phase_ms) {
        let what = "a guard that leaves room for a packet and the markers";
        found.number(path("guard_ms"), two_p.guard_ms, 0.0..=two_p.phase_ms - 4.0, what);
    }
    let queue = two_p.queue_packets as f64;
    found.number(path("queue_packets"), queue, 1.0..=1e5, "a queue length in packets");
}

pub(super) fn check_snoop(found: &mut Found, snoop: &SnoopConfig) {
    let path = |key: &str| format!("stack.snoop.{key}");
    let what = "a time-out in milliseconds";
    found.number(path("timeout_ms"), snoop.timeout_ms, 1.0..=60_000.0, what);
    for (key, packets) in [
        ("cache_packets", Some(snoop.cache_packets)),
        ("queue_packets", Some(snoop.queue_packets)),
        ("depth_packets", snoop.depth_packets),
    ] {
        let Some(packets) = packets else { continue };
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

fn check_harq(found: &mut Found, harq: &HarqConfig) {
    let path = |key: &str| format!("stack.link.{key}");
    let what = "a number of units of a packet, of which one is data at least";
    if let Some(units) = harq.units {
        found.number(path("units"), units.into(), 2.0..=32.0, what);
    }
    let what = "a number of bursts of a packet, the first included";
    found.number(path("attempts"), harq.attempts.into(), 1.0..=15.0, what);
    found.number(path("alpha"), harq.alpha, 1e-4..=1.0, "a weight of a packet in the estimate");
    found.number(path("initial_loss"), harq.initial_loss, 0.0..=0.9, "a loss of units");
    check_queue(found, "stack.link", harq.queue_packets, &harq.queue);
}

fn check_arq(found: &mut Found, arq: &ArqConfig) {
    let path = |key: &str| format!("stack.link.{key}");
    if let Some(units) = arq.units {
        found.number(path("units"), units.into(), 1.0..=32.0, "a number of units of a packet");
    }
    let what = "a number of bursts of a packet, the first included";
    found.number(path("attempts"), arq.attempts.into(), 1.0..=255.0, what);
    check_queue(found, "stack.link", arq.queue_packets, &arq.queue);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::PhyKind;
    use crate::stack::config::WiresConfig;

    fn problems(link: LinkConfig, radio: &RadioConfig) -> Vec<(String, String)> {
        let mut found = Found(Vec::new());
        check_stack(&mut found, &StackConfig { link, ..StackConfig::default() }, radio);
        found.0.into_iter().map(|problem| (problem.path, problem.message)).collect()
    }

    #[test]
    fn wires_have_a_link_of_their_own_where_radios_have_slots() {
        let paths = |link: LinkConfig, queue_packets: usize| {
            let queue_packets = Some(queue_packets);
            let wires = Some(WiresConfig { queue_packets, ..WiresConfig::default() });
            let mut found = Found(Vec::new());
            let stack = StackConfig { link, wires, ..StackConfig::default() };
            check_stack(&mut found, &stack, &RadioConfig::default());
            found.0.into_iter().map(|problem| problem.path).collect::<Vec<_>>()
        };
        let wild = || LinkConfig::Wild(WildConfig::default());
        assert!(paths(wild(), 20).is_empty());
        assert_eq!(paths(wild(), 0), ["stack.wires.queue_packets"]);
        assert_eq!(paths(LinkConfig::default(), 20), ["stack.wires"]);
    }

    #[test]
    fn units_that_cannot_be_are_refused_with_what_they_are() {
        let radio = RadioConfig::default();
        assert_eq!(problems(LinkConfig::Harq(HarqConfig::default()), &radio), []);
        assert_eq!(problems(LinkConfig::Arq(ArqConfig::default()), &radio), []);
        let harq = HarqConfig { units: Some(1), attempts: 0, alpha: 0.0, ..HarqConfig::default() };
        let words = [
            ("units", "1 is not a number of units of a packet, of which one is data at least"),
            ("attempts", "0 is not a number of bursts of a packet, the first included"),
            ("alpha", "0 is not a weight of a packet in the estimate"),
        ];
        let words = words.map(|(key, words)| (format!("stack.link.{key}"), words.to_owned()));
        assert_eq!(problems(LinkConfig::Harq(harq), &radio), words);
        let arq = ArqConfig { units: Some(33), queue_packets: 0, ..ArqConfig::default() };
        let paths: Vec<String> =
            problems(LinkConfig::Arq(arq), &radio).into_iter().map(|(path, _)| path).collect();
        assert_eq!(paths, ["stack.link.units", "stack.link.queue_packets"]);
    }

    #[test]
    fn of_a_slot_that_cannot_be_nothing_else_is_said() {
        let radio = RadioConfig::default();
        for slot_ms in [0.0, -3.0, f64::NAN, 2000.0] {
            let least = Some(2.0);
            let wild = WildConfig { slot_ms, slot_least_ms: least, ..WildConfig::default() };
            let paths = problems(LinkConfig::Wild(wild), &radio).into_iter().map(|(path, _)| path);
            assert_eq!(paths.collect::<Vec<_>>(), ["stack.link.slot_ms"], "{slot_ms}");
        }
        let (slot_least_ms, slot_most_ms) = (Some(20.0), Some(35.0));
        let wild = WildConfig { slot_least_ms, slot_most_ms, ..WildConfig::default() };
        let paths = problems(LinkConfig::Wild(wild), &radio).into_iter().map(|(path, _)| path);
        assert_eq!(paths.collect::<Vec<_>>(), ["stack.link.slot_most_ms"]);
        let wild = WildConfig { slot_ms: 5.0, guard_ms: 5.0, ..WildConfig::default() };
        let paths = problems(LinkConfig::Wild(wild), &radio).into_iter().map(|(path, _)| path);
        assert_eq!(paths.collect::<Vec<_>>(), ["stack.link.guard_ms"]);
    }

    #[test]
    fn free_overhead_needs_a_link_that_has_any() {
        let link_overhead = LinkOverhead::Free;
        let radio = RadioConfig { phy: PhyKind::Wire, link_overhead, ..RadioConfig::default() };
        assert_eq!(problems(LinkConfig::Harq(HarqConfig::default()), &radio), []);
        let (path, message) = problems(LinkConfig::default(), &radio).remove(0);
        assert_eq!(path, "radio.link_overhead");
        assert_eq!(message, "frames of `plain` have nothing that could be free");
    }
}
