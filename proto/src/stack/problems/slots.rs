//! Checks for networks in which time slots cannot work.

use std::collections::BTreeSet;

use super::Found;
use super::names::Names;
use crate::base::{Duration, NodeId, PhyKind};
use crate::link::two_p::TwoPConfig;
use crate::link::wild::WildConfig;
use crate::stack::config::LinkConfig;
use crate::stack::plan::{Topology, channels_that_help};
use crate::stack::scenario::{PACKET_BYTES, RadioConfig, RadioLinkConfig, Scenario};

/// Checks for rings of an odd number of nodes on one channel, where two neighbours would always
/// send at the same time, and everything else that slots need.
pub(super) fn check_phases(
    found: &mut Found,
    scenario: &Scenario,
    names: &Names<'_>,
    topology: &Topology,
) {
    for ring in topology.odd_rings() {
        let name = |node: &NodeId| scenario.node_name(*node).expect("a node of the scenario");
        let mut around: Vec<&str> = ring.nodes.iter().map(name).collect();
        around.push(around[0]);
        let message = format!(
            "'{}' cannot split the ring {} on channel {} into two that take turns",
            scenario.stack.link.name(),
            around.join(" - "),
            ring.channel
        );
        let is_in = |link: &RadioLinkConfig| {
            let ends = link.between.each_ref().map(|name| names.get(name));
            ends.iter().all(|end| end.is_some_and(|end| ring.nodes.contains(&end)))
                && channel_of(scenario, link) == Some(ring.channel)
        };
        let path = match scenario.link.iter().rposition(is_in) {
            Some(index) => format!("link[{index}]"),
            None => "stack.link".to_owned(),
        };
        found.add(path, message, help(scenario, names, ring.channel));
    }
    check_overlaps(found, scenario, topology);
    match &scenario.stack.link {
        LinkConfig::Wild(wild) => {
            let room = wild.slot_least().as_millis_f64() - wild.guard_ms - wild.overhead_us / 1e3;
            let key = wild.slot_least_ms.map_or("slot_ms", |_| "slot_least_ms");
            check_room(found, scenario, topology, (key, room));
            check_parts(found, wild, topology);
            check_ways(found, scenario, wild, topology);
        }
        LinkConfig::TwoP(two_p) => {
            let room = two_p.phase_ms - two_p.guard_ms;
            check_room(found, scenario, topology, ("phase_ms", room));
            check_markers(found, scenario, two_p, topology);
        }
        _ => {}
    }
}

/// Checks that a packet of each radio fits into a slot.
fn check_room(
    found: &mut Found,
    scenario: &Scenario,
    topology: &Topology,
    (key, room): (&str, f64),
) {
    let aired = topology.radios().filter(|(_, radio)| radio.phy != PhyKind::Wire);
    let all = aired.map(|(node, radio)| (node, radio.packet_on_air()));
    let slowed = topology.slowed().map(|(node, radio)| (node, radio.packet_on_air()));
    let all = all.chain(slowed).map(|(node, air)| (node, air.as_millis_f64()));
    let Some((node, air)) = all.max_by(|a, b| a.1.total_cmp(&b.1)) else { return };
    if air > room {
        let name = scenario.node_name(node).expect("a node of the scenario");
        let message = format!(
            "a packet of {PACKET_BYTES} bytes takes '{name}' {air:.1} ms on air, the mean gap \
             before it with it; the guard leaves {room:.1} ms"
        );
        let help = "a longer slot, a shorter guard, or a higher rate";
        found.add(format!("stack.link.{key}"), message, help);
    }
}

/// Checks that slots are long enough to follow those of the farthest neighbour.
fn check_ways(found: &mut Found, scenario: &Scenario, wild: &WildConfig, topology: &Topology) {
    let Some((node, way)) = topology.longest_way() else { return };
    let shortest = WildConfig::shortest_over(way);
    let (key, what) = match (shortest > wild.slot(), shortest > wild.slot_least()) {
        (true, _) => ("slot_ms", "a slot"),
        (false, true) => ("slot_least_ms", "the shortest slot"),
        (false, false) => return,
    };
    let name = scenario.node_name(node).expect("a node of the scenario");
    let message = format!(
        "the way to the farthest neighbour of '{name}' and back takes {:.1} ms, more than half of \
         {what}: the two would not stay in step",
        (way * 2).as_millis_f64()
    );
    let help = format!("at least {}", (shortest.as_millis_f64() * 10.0).ceil() / 10.0);
    found.add(format!("stack.link.{key}"), message, help);
}

/// For how much longer than the way of a marker a node of 2P has to wait: hosts wake up late.
const MARKER_LATE: Duration = Duration::from_micros(500);

/// Checks that the farthest neighbour's marker is waited for, and that one that was sent before
/// this node's own arrived does not count as the answer to it.
fn check_markers(found: &mut Found, scenario: &Scenario, two_p: &TwoPConfig, topology: &Topology) {
    let Some((node, way)) = topology.longest_way() else { return };
    let name = scenario.node_name(node).expect("a node of the scenario");
    let ms = |time: Duration| (time.as_millis_f64() * 100.0).ceil() / 100.0;
    let wanted = way * 2 + MARKER_LATE;
    if way >= two_p.guard() && !way.is_zero() {
        let message = format!(
            "a frame is {} ms on its way to the farthest neighbour of '{name}', not shorter than \
             the guard: two nodes whose markers cross would both go on sending",
            ms(way)
        );
        found.add("stack.link.guard_ms", message, format!("more than {}", ms(way)));
    } else if wanted > two_p.idle_after_loss() {
        let message = format!(
            "the way to the farthest neighbour of '{name}' and back takes {} ms, and a marker is \
             waited for only {} ms longer than a phase",
            ms(way * 2),
            ms(two_p.idle_after_loss())
        );
        let least = 1.0 + wanted.as_secs_f64() / two_p.phase().as_secs_f64();
        let help = format!("at least {}", (least * 100.0).ceil() / 100.0);
        found.add("stack.link.timeout", message, help);
    }
}

/// Checks for radios of one node whose channels overlap but are not the same: each would have its
/// own slots, and send while the other receives.
fn check_overlaps(found: &mut Found, scenario: &Scenario, topology: &Topology) {
    let mut told = BTreeSet::new();
    for (node, first, second) in topology.overlaps() {
        let name = scenario.node_name(node).expect("a node of the scenario");
        let [(from, _), (to, wide)] = [first, second].map(|radio| (radio.channel, radio.width_mhz));
        if !told.insert([from.min(to), from.max(to)]) {
            continue;
        }
        let message = format!(
            "radios of '{name}' on channels {from} and {to} disturb each other, and '{}' would \
             have them take turns apart",
            scenario.stack.link.name()
        );
        let is_one = |link: &RadioLinkConfig| {
            link.between.iter().any(|end| end == name) && channel_of(scenario, link) == Some(to)
        };
        let path = match scenario.link.iter().rposition(is_one) {
            Some(index) => format!("link[{index}].radio.channel"),
            None => "radio.channel".to_owned(),
        };
        let apart = (first.width_mhz + wide).div_ceil(10);
        found.add(path, message, format!("{from}, or a channel at least {apart} from it"));
    }
}

/// Checks that a packet fits into the shortest part of a slot, where radios with common receivers
/// have one part each.
fn check_parts(found: &mut Found, wild: &WildConfig, topology: &Topology) {
    let parts = topology.parts().into_iter().filter(|(count, _)| *count > 1);
    let mut parts = parts.map(|(count, radio)| {
        let room = wild.slot_ms / f64::from(count) - wild.guard_ms - wild.overhead_us / 1e3;
        (count, radio.packet_on_air().as_millis_f64(), room)
    });
    if let Some((count, air, room)) = parts.find(|(_, air, room)| air > room) {
        let message = format!(
            "{count} radios with common receivers take turns in a slot: a packet of {PACKET_BYTES} \
             bytes is {air:.1} ms on air; the guard leaves {room:.1} ms of a part"
        );
        let help = "a longer slot, a shorter guard, a higher rate, or another channel for some \
                    of the links";
        found.add("stack.link.slot_ms", message, help);
    }
}

/// The settings of the radios of a link.
fn radio_of(scenario: &Scenario, link: &RadioLinkConfig) -> RadioConfig {
    let own = link.radio.as_ref().map(|radio| radio.over(&scenario.radio));
    own.unwrap_or_else(|| scenario.radio.clone())
}

/// The channel of a link; `None` for a wire.
fn channel_of(scenario: &Scenario, link: &RadioLinkConfig) -> Option<u16> {
    let radio = radio_of(scenario, link);
    (radio.phy != PhyKind::Wire).then_some(radio.channel)
}

/// Whether phases exist on all channels once these links are on these channels.
fn is_split_with(scenario: &Scenario, changes: impl Iterator<Item = (usize, u16)>) -> bool {
    let mut changed = scenario.clone();
    for (index, channel) in changes {
        let radio = changed.link[index].radio.take().unwrap_or_default();
        changed.link[index].radio = Some(radio.on_channel(channel));
    }
    let topology = Topology::build(&changed);
    topology.odd_rings().is_empty() && topology.overlaps().is_empty()
}

/// Suggests channels for links.
fn help(scenario: &Scenario, names: &Names<'_>, channel: u16) -> String {
    let mut links = Vec::new();
    let mut indices = Vec::new();
    for (index, link) in scenario.link.iter().enumerate() {
        let ends = link.between.each_ref().map(|name| names.get(name));
        if let ([Some(a), Some(b)], Some(channel)) = (ends, channel_of(scenario, link)) {
            links.push(([a, b], channel));
            indices.push(index);
        }
    }
    let radios = scenario.link.iter().map(|link| radio_of(scenario, link));
    let width_mhz = radios.filter(|radio| radio.channel == channel).map(|radio| radio.width_mhz);
    let choices = channels_that_help(&links, channel, width_mhz.max().unwrap_or(20));
    let helps = |changes: &Vec<(usize, u16)>| {
        let changes = changes.iter().map(|(index, channel)| (indices[*index], *channel));
        is_split_with(scenario, changes)
    };
    let Some(changes) = choices.into_iter().find(helps) else {
        return "radios of their own for the links of the ring, on channels that do not touch, or \
                another link protocol"
            .to_owned();
    };
    let change = |(index, channel): &(usize, u16)| {
        format!("link[{}].radio = {{ channel = {channel} }}", indices[*index])
    };
    changes.iter().map(change).collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use crate::stack::problems::Problem;
    use crate::stack::scenario::Scenario;

    fn ring(links: &[(&str, &str, u16)]) -> Scenario {
        let named = |name: &str| serde_json::json!({ "name": name });
        let link = |(from, to, channel): &(&str, &str, u16)| {
            let radio = serde_json::json!({ "channel": channel });
            serde_json::json!({ "between": [from, to], "radio": radio })
        };
        let scenario = serde_json::json!({
            "name": "ring",
            "stack": { "link": { "kind": "wild" } },
            "node": (["a", "b", "c", "d", "e"].map(named)),
            "link": (links.iter().map(link).collect::<Vec<_>>()),
        });
        serde_json::from_value(scenario).expect("a scenario")
    }

    #[test]
    fn an_odd_ring_on_one_channel_is_refused_with_the_channels_that_solve_it() {
        let links = [("d", "a", 1), ("a", "b", 1), ("b", "c", 1), ("c", "a", 1), ("c", "d", 1)];
        let problems = ring(&links).problems();
        assert_eq!(problems.len(), 1, "{problems:?}");
        let message = "'wild' cannot split the ring";
        assert!(problems[0].message.starts_with(message), "{}", problems[0].message);
        assert!(problems[0].message.contains("on channel 1"), "{}", problems[0].message);
        assert_eq!(problems[0].help, "link[3].radio = { channel = 6 }");
    }

    /// Applies the suggested channels until nothing is reported, or the help suggests none.
    fn follow_help(
        links: &mut [(&str, &str, u16)],
        mut problems: impl FnMut(&[(&str, &str, u16)]) -> Vec<Problem>,
    ) {
        for _ in 0..3 {
            let problems = problems(links);
            let Some(problem) = problems.first() else { return };
            for change in problem.help.split(" and ") {
                let mut numbers = change.split(|c: char| !c.is_ascii_digit());
                let mut number = || numbers.find_map(|n| n.parse::<usize>().ok()).expect("one");
                let (link, channel) = (number(), number());
                links[link].2 = channel as u16;
            }
        }
        panic!("still refused: {:?}", problems(links));
    }

    #[test]
    fn what_the_help_says_helps() {
        // All pairs of four nodes are joined, and all pairs of five.
        for names in [&["a", "b", "c", "d"][..], &["a", "b", "c", "d", "e"]] {
            let mut links = Vec::new();
            for (index, from) in names.iter().enumerate() {
                links.extend(names[index + 1..].iter().map(|to| (*from, *to, 1)));
            }
            follow_help(&mut links, |links| ring(links).problems());
        }
        // Wide channels.
        let mut links = [("a", "b", 42), ("b", "c", 42), ("c", "a", 42)];
        follow_help(&mut links, |links| {
            let mut scenario = ring(links);
            let wide = serde_json::json!({ "phy": "802.11ac", "width_mhz": 80, "channel": 42 });
            scenario.radio = serde_json::from_value(wide).expect("a radio");
            scenario.problems()
        });
    }

    #[test]
    fn channels_that_disturb_others_of_a_node_are_no_help() {
        let links = [("a", "b", 1), ("b", "c", 1), ("c", "a", 1), ("c", "d", 8), ("a", "e", 8)];
        let problems = ring(&links).problems();
        assert!(problems[0].help.starts_with("radios of their own"), "{}", problems[0].help);
    }

    #[test]
    fn parts_of_a_slot_that_hold_no_packet_are_refused() {
        // Stars that overlap: all five radios are received by one of the others.
        let names = ["a", "b", "c", "d", "e"];
        let stations = |slot_ms: f64| {
            let named: Vec<_> = names
                .iter()
                .enumerate()
                .map(|(at, name)| serde_json::json!({ "name": name, "position_m": [at * 400, 0] }))
                .collect();
            let scenario = serde_json::json!({
                "name": "row",
                "radio": { "channel": 1 },
                "propagation": { "kind": "range", "receive_m": 500 },
                "stack": { "link": { "kind": "wild", "slot_ms": slot_ms } },
                "node": named,
            });
            let scenario: Scenario = serde_json::from_value(scenario).expect("a scenario");
            scenario.problems()
        };
        assert_eq!(stations(20.0), []);
        let problems = stations(5.0);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!(problems[0].path, "stack.link.slot_ms");
        let message = "radios with common receivers take turns in a slot";
        assert!(problems[0].message.contains(message), "{}", problems[0].message);
    }

    #[test]
    fn slots_that_hold_no_packet_of_a_radio_are_refused_gap_and_overhead_counted() {
        let problems = |link: serde_json::Value, rate: f64| {
            let scenario = serde_json::json!({
                "name": "x",
                "stack": { "link": link },
                "node": [{ "name": "a" }, { "name": "b" }],
                "link": [{ "between": ["a", "b"], "radio": { "rate_mbps": rate } }],
            });
            let scenario: Scenario = serde_json::from_value(scenario).expect("a scenario");
            scenario.problems().into_iter().map(|problem| problem.path).collect::<Vec<_>>()
        };
        let wild = |key: &str, value: f64| {
            let mut link = serde_json::json!({ "kind": "wild", "slot_ms": 5, "guard_ms": 0.5 });
            link[key] = value.into();
            link
        };
        assert_eq!(problems(wild("guard_ms", 0.5), 11.0), [""; 0]);
        // 1.3 ms on air, and 0.36 of gap.
        assert_eq!(problems(wild("slot_ms", 2.0), 11.0), ["stack.link.slot_ms"]);
        assert_eq!(problems(wild("overhead_us", 4_000.0), 11.0), ["stack.link.slot_ms"]);
        assert_eq!(problems(wild("guard_ms", 0.5), 1.0), ["stack.link.slot_ms"]);
        let two_p = serde_json::json!({ "kind": "two-p", "phase_ms": 4, "guard_ms": 0 });
        assert_eq!(problems(two_p.clone(), 11.0), [""; 0]);
        assert_eq!(problems(two_p, 1.0), ["stack.link.phase_ms"]);
    }

    #[test]
    fn phases_without_time_for_the_way_of_a_marker_are_refused() {
        let problems = |guard_ms: f64, phase_ms: f64, km: f64| {
            let scenario = serde_json::json!({
                "name": "x",
                "stack": {
                    "link": { "kind": "two-p", "phase_ms": phase_ms, "guard_ms": guard_ms }
                },
                "radio": { "rate_mbps": 11, "preamble": "short" },
                "node": [{ "name": "a" }, { "name": "b" }],
                "link": [{ "between": ["a", "b"], "distance_km": km }],
            });
            let scenario: Scenario = serde_json::from_value(scenario).expect("a scenario");
            let problems = scenario.problems().into_iter();
            problems.map(|it| (it.path, it.help)).collect::<Vec<_>>()
        };
        let told = |key: &str, help: &str| vec![(format!("stack.link.{key}"), help.to_owned())];
        assert_eq!(problems(1.5, 20.0, 299.0), []);
        assert_eq!(problems(0.1, 20.0, 31.0), told("guard_ms", "more than 0.11"));
        // Half a millisecond less than a quarter of a phase of 6 ms is the way of 149 km and back.
        assert_eq!(problems(1.5, 6.0, 149.0), []);
        assert_eq!(problems(1.5, 6.0, 240.0), told("timeout", "at least 1.36"));
    }

    #[test]
    fn slots_that_are_short_beside_the_way_are_refused() {
        let problems = |slot_ms: f64, least_ms: Option<f64>, km: f64| {
            let link = serde_json::json!({
                "kind": "wild", "slot_ms": slot_ms, "slot_least_ms": least_ms, "guard_ms": 0.1
            });
            let scenario = serde_json::json!({
                "name": "x",
                "stack": { "link": link },
                "radio": { "rate_mbps": 11, "preamble": "short" },
                "node": [{ "name": "a" }, { "name": "b" }],
                "link": [{ "between": ["a", "b"], "distance_km": km }],
            });
            let scenario: Scenario = serde_json::from_value(scenario).expect("a scenario");
            scenario.problems()
        };
        assert_eq!(problems(2.0, None, 149.0), []);
        for (slot_ms, least_ms, key) in [(2.0, None, "slot_ms"), (16.0, Some(2.0), "slot_least_ms")]
        {
            let far = problems(slot_ms, least_ms, 151.0);
            assert_eq!((far.len(), far[0].path.ends_with(key)), (1, true), "{far:?}");
            assert_eq!(far[0].help, "at least 2.1");
        }
        assert_eq!(problems(2.1, None, 151.0), []);
        assert_eq!(problems(16.0, Some(2.1), 151.0), []);
    }

    #[test]
    fn a_wire_may_be_long_and_slow_beside_slots() {
        let problems = |beyond: serde_json::Value| {
            let scenario = serde_json::json!({
                "name": "gateway",
                "stack": { "link": { "kind": "wild" }, "wires": { "queue_packets": 9 } },
                "node": [{ "name": "a" }, { "name": "b" }, { "name": "c" }],
                "link": [{ "between": ["a", "b"] }, beyond],
            });
            let scenario: Scenario = serde_json::from_value(scenario).expect("a scenario");
            let problems = scenario.problems().into_iter();
            (problems.map(|problem| problem.path).collect::<Vec<_>>(), scenario.notes())
        };
        let radio = serde_json::json!({ "phy": "wire", "rate_mbps": 0.1 });
        let link = |delay_ms: f64| {
            let between = ["b", "c"];
            serde_json::json!({ "between": between, "delay_ms": delay_ms, "radio": radio })
        };
        assert_eq!(problems(link(300.0)), (Vec::new(), Vec::new()));
        let far = serde_json::json!({ "between": ["b", "c"], "delay_ms": 300 });
        assert_eq!(problems(far).0, ["stack.link.slot_ms"]);
    }

    #[test]
    fn channels_of_a_node_that_overlap_are_refused_once() {
        let row = [("a", "b", 1), ("b", "c", 3), ("c", "d", 1), ("d", "e", 5)];
        let problems = ring(&row).problems();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!(problems[0].path, "link[1].radio.channel");
        assert_eq!(problems[0].help, "1, or a channel at least 4 from it");
    }

    #[test]
    fn even_rings_and_rings_over_several_channels_take_turns() {
        let even = [("a", "b", 1), ("b", "c", 1), ("c", "d", 1), ("d", "a", 1)];
        assert_eq!(ring(&even).problems(), []);
        let apart = [("a", "b", 1), ("b", "c", 6), ("c", "a", 1)];
        assert_eq!(ring(&apart).problems(), []);
    }
}
