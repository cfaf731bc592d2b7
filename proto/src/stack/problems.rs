//! What is impossible in a scenario: each problem with its place and what would be right.

mod flow;
mod loss;
mod mac;
mod phy;

use std::collections::BTreeSet;

use super::config::LinkConfig;
use super::scenario::{
    DeviceConfig, FaultConfig, FlowConfig, RadioConfig, RadioLinkConfig, Scenario, SweepConfig,
};
use crate::link::wild::WildConfig;
use flow::check_flow_kind;

/// Something impossible in a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The key, for example `link[1].between[0]`.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub help: String,
}

/// What a sweep lacks. Whether its keys exist and its values fit shows when they are put in.
fn check_sweep(found: &mut Found, sweep: &SweepConfig) {
    if sweep.seeds.count() == 0 {
        found.add(
            "sweep.seeds",
            "a sweep without seeds runs nothing",
            "a number, or a list of seeds",
        );
    }
    for (index, vary) in sweep.vary.iter().enumerate() {
        if vary.values.is_empty() {
            let path = format!("sweep.vary[{index}].values");
            found.add(path, format!("no values for {}", vary.key), "one value or more");
        }
        if sweep.vary[..index].iter().any(|other| other.key == vary.key) {
            let path = format!("sweep.vary[{index}].key");
            found.add(
                path,
                format!("{} varies twice", vary.key),
                "one list of values for each key",
            );
        }
    }
    if sweep.runs().is_none() {
        found.add("sweep", "more runs than can be counted", "fewer values and seeds");
    }
}

/// Longest name of a node: network interfaces are named after it.
const NAME_LENGTH: usize = 32;
/// Nodes that a number of 16 bits can tell apart.
const NODES: usize = 65_000;

/// The problems found so far.
#[derive(Default)]
pub(super) struct Found(pub(super) Vec<Problem>);

impl Found {
    pub(super) fn add(
        &mut self,
        path: impl Into<String>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        let (path, message, help) = (path.into(), message.into(), help.into());
        self.0.push(Problem { path, message, help });
    }

    pub(super) fn number(
        &mut self,
        path: String,
        value: f64,
        range: std::ops::RangeInclusive<f64>,
        what: &str,
    ) {
        if !range.contains(&value) {
            let (low, high) = (range.start(), range.end());
            let help = format!("a number from {low} to {high}");
            self.add(path, format!("{value} is not {what}"), help);
        }
    }
}

impl Scenario {
    /// Everything that is impossible in this scenario; nothing if it can be run.
    pub fn problems(&self) -> Vec<Problem> {
        let mut found = Found(Vec::new());
        found.number(
            "duration_s".into(),
            self.duration_s,
            0.001..=1e7,
            "a length of a run in seconds",
        );
        if let Some(from) = self.measure_from_s.filter(|at| !(0.0..self.duration_s).contains(at)) {
            let message = format!("nothing is left to measure at {from} s");
            found.add("measure_from_s", message, "a time inside the run, before its end");
        }
        check_radio(&mut found, &self.radio);
        check_stack(&mut found, &self.stack.link);
        check_host(&mut found, "wake_us", &self.host.wake_us);
        check_host(&mut found, "submit_us", &self.host.submit_us);
        self.check_nodes(&mut found);
        self.check_links(&mut found);
        for (index, flow) in self.flow.iter().enumerate() {
            self.check_flow(&mut found, index, flow);
        }
        for (index, fault) in self.fault.iter().enumerate() {
            self.check_fault(&mut found, index, fault);
        }
        if let Some(sweep) = &self.sweep {
            check_sweep(&mut found, sweep);
        }
        found.0
    }

    fn check_nodes(&self, found: &mut Found) {
        if self.node.is_empty() {
            found.add("node", "the scenario has no nodes", "at least one [[node]] with a name");
        }
        if self.node.len() > NODES {
            found.add("node", "too many nodes", format!("at most {NODES}"));
        }
        let mut names = BTreeSet::new();
        for (index, node) in self.node.iter().enumerate() {
            let path = format!("node[{index}].name");
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
            let name = &node.name;
            if name.is_empty() || name.len() > NAME_LENGTH || !name.chars().all(plain) {
                let help = format!("letters, digits and '-', at most {NAME_LENGTH} of them");
                found.add(&path, format!("'{name}' cannot be the name of a node"), help);
            }
            if !names.insert(name) {
                found.add(
                    &path,
                    format!("two nodes are called '{name}'"),
                    "a name of its own for each node",
                );
            }
            let offset = node.clock.offset_s;
            found.number(
                format!("node[{index}].clock.offset_s"),
                offset,
                -1e6..=1e6,
                "a clock offset",
            );
            let drift = node.clock.drift_ppm;
            found.number(
                format!("node[{index}].clock.drift_ppm"),
                drift,
                -1000.0..=1000.0,
                "a clock drift in parts per million",
            );
            if let Some(DeviceConfig::Udp { peers, .. }) = &node.device {
                for peer in peers.keys() {
                    self.check_name(found, format!("node[{index}].device.peers.{peer}"), peer);
                }
            }
        }
    }

    fn check_name(&self, found: &mut Found, path: String, name: &str) {
        if !self.node.iter().any(|node| node.name == name) {
            let names: Vec<&str> = self.node.iter().map(|node| node.name.as_str()).collect();
            found.add(
                path,
                format!("there is no node '{name}'"),
                format!("one of: {}", names.join(", ")),
            );
        }
    }

    fn check_links(&self, found: &mut Found) {
        let mut pairs = BTreeSet::new();
        for (index, link) in self.link.iter().enumerate() {
            let path = format!("link[{index}]");
            for (end, name) in link.between.iter().enumerate() {
                self.check_name(found, format!("{path}.between[{end}]"), name);
            }
            let [a, b] = &link.between;
            if a == b {
                found.add(
                    format!("{path}.between"),
                    format!("a link from '{a}' to itself"),
                    "two different nodes",
                );
            }
            if !pairs.insert(if a < b { (a, b) } else { (b, a) }) {
                found.add(
                    format!("{path}.between"),
                    format!("a second link between '{a}' and '{b}'"),
                    "one [[link]] for each pair of nodes",
                );
            }
            check_link(found, &path, link, self.duration_s);
        }
    }

    fn check_flow(&self, found: &mut Found, index: usize, flow: &FlowConfig) {
        let path = format!("flow[{index}]");
        self.check_name(found, format!("{path}.from"), &flow.from);
        self.check_name(found, format!("{path}.to"), &flow.to);
        if flow.from == flow.to {
            found.add(
                format!("{path}.to"),
                format!("a flow from '{}' to itself", flow.to),
                "another node",
            );
        } else if self.node_id(&flow.from).is_some() && self.node_id(&flow.to).is_some() {
            let from = self.node_id(&flow.from).expect("just seen");
            let to = self.node_id(&flow.to).expect("just seen");
            if !self.next_hops(from).contains_key(&to) {
                let message = format!("no links lead from '{}' to '{}'", flow.from, flow.to);
                found.add(
                    format!("{path}.to"),
                    message,
                    "a chain of [[link]] entries between them",
                );
            }
        }
        check_flow_kind(found, &path, flow);
        let start = flow.start_s;
        found.number(
            format!("{path}.start_s"),
            start,
            0.0..=self.duration_s,
            "a time inside the run",
        );
        let stop = flow.stop_s.unwrap_or(self.duration_s);
        if !(stop > flow.start_s && stop <= self.duration_s) {
            let help = format!("a time after start_s, at most {} s", self.duration_s);
            found.add(format!("{path}.stop_s"), format!("the flow cannot stop at {stop} s"), help);
        }
        if let Some(from) = flow.measure_from_s.filter(|from| !(start..stop).contains(from)) {
            let message = format!("nothing of the flow is left to measure at {from} s");
            let help = format!("a time from start_s, {start} s, and before it stops, at {stop} s");
            found.add(format!("{path}.measure_from_s"), message, help);
        }
    }

    fn check_fault(&self, found: &mut Found, index: usize, fault: &FaultConfig) {
        let path = format!("fault[{index}]");
        match (&fault.node, &fault.link) {
            (Some(node), None) => self.check_name(found, format!("{path}.node"), node),
            (None, Some(ends)) => {
                let [a, b] = ends;
                let same = |link: &RadioLinkConfig| {
                    link.between == [a.clone(), b.clone()] || link.between == [b.clone(), a.clone()]
                };
                if !self.link.iter().any(same) {
                    found.add(
                        format!("{path}.link"),
                        format!("there is no link between '{a}' and '{b}'"),
                        "the ends of a [[link]]",
                    );
                }
            }
            _ => found.add(
                &path,
                "a fault needs one thing that goes down",
                "either node = \"name\" or link = [\"a\", \"b\"]",
            ),
        }
        if !(fault.from_s >= 0.0 && fault.to_s > fault.from_s) {
            found.add(
                format!("{path}.to_s"),
                format!("down from {} s to {} s is no span of time", fault.from_s, fault.to_s),
                "0 <= from_s < to_s",
            );
        }
    }
}

fn check_radio(found: &mut Found, radio: &RadioConfig) {
    phy::check_phy(found, radio);
    mac::check_mac(found, radio);
    found.number(
        "radio.attempts".into(),
        radio.attempts.into(),
        1.0..=255.0,
        "a number of transmissions",
    );
    if let Some(timeout) = radio.ack_timeout_us {
        found.number(
            "radio.ack_timeout_us".into(),
            timeout,
            1.0..=1e5,
            "an ACK time-out in microseconds",
        );
    }
    found.number("radio.capture_db".into(), radio.capture_db, 0.0..=200.0, "a ratio in decibels");
    found.number("radio.channel".into(), radio.channel.into(), 1.0..=233.0, "a channel");
}

fn check_stack(found: &mut Found, link: &LinkConfig) {
    match link {
        LinkConfig::Plain(plain) => {
            let queue = plain.queue_packets as f64;
            found.number(
                "stack.link.queue_packets".into(),
                queue,
                1.0..=1e6,
                "a queue length in packets",
            );
        }
        LinkConfig::Wild(wild) => check_wild(found, wild),
    }
}

fn check_wild(found: &mut Found, wild: &WildConfig) {
    let path = |key: &str| format!("stack.link.{key}");
    found.number(path("slot_ms"), wild.slot_ms, 1.0..=1000.0, "a length of a slot in milliseconds");
    if !(wild.guard_ms >= 0.0 && wild.guard_ms < wild.slot_ms) {
        let message = format!(
            "a guard of {} ms leaves nothing of a slot of {} ms",
            wild.guard_ms, wild.slot_ms
        );
        found.add(
            path("guard_ms"),
            message,
            "at least 0 and less than slot_ms; 1 to 2 suits most hosts",
        );
    }
    found.number(path("target_loss"), wild.target_loss, 1e-9..=0.5, "a loss that may remain");
    found.number(
        path("block_packets"),
        wild.block_packets.into(),
        1.0..=64.0,
        "a number of packets in a code block",
    );
    found.number(
        path("queue_packets"),
        wild.queue_packets as f64,
        1.0..=1e5,
        "a queue length in packets",
    );
    found.number(path("overhead_us"), wild.overhead_us, 0.0..=1e5, "a time in microseconds");
    if let Some(window) = wild.window_packets {
        found.number(path("window_packets"), window.into(), 1.0..=1920.0, "a window in packets");
    }
}

fn check_host(found: &mut Found, key: &str, points: &[[f64; 2]]) {
    let rising = points.windows(2).all(|pair| pair[0][0] < pair[1][0] && pair[0][1] <= pair[1][1]);
    let inside = points
        .iter()
        .all(|[part, micros]| (0.0..=1.0).contains(part) && (0.0..=1e7).contains(micros));
    if !rising || !inside {
        let help = "points [fraction, microseconds] that rise, for example \
                    [[0.5, 50], [0.99, 1000], [1, 4000]]";
        found.add(format!("host.{key}"), "not a distribution", help);
    }
}

fn check_link(found: &mut Found, path: &str, link: &RadioLinkConfig, duration_s: f64) {
    found.number(
        format!("{path}.distance_km"),
        link.distance_km,
        0.0..=1000.0,
        "a distance in kilometres",
    );
    found.number(
        format!("{path}.signal_dbm"),
        link.signal_dbm,
        -120.0..=30.0,
        "a received power in dBm",
    );
    loss::check_loss(found, &format!("{path}.loss"), &link.loss, duration_s);
    if let Some(loss) = &link.loss_back {
        loss::check_loss(found, &format!("{path}.loss_back"), loss, duration_s);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::{LossConfig, NodeConfig};

    fn good() -> Scenario {
        let node = |name: &str| NodeConfig { name: name.into(), ..NodeConfig::default() };
        let between = ["hill".to_owned(), "valley".to_owned()];
        Scenario {
            name: "test".into(),
            duration_s: 20.0,
            node: vec![node("hill"), node("valley")],
            link: vec![RadioLinkConfig {
                between,
                signal_dbm: -60.0,
                ..RadioLinkConfig::default()
            }],
            flow: vec![FlowConfig {
                from: "hill".into(),
                to: "valley".into(),
                size_bytes: 1440,
                ..FlowConfig::default()
            }],
            ..Scenario::default()
        }
    }

    fn paths(scenario: &Scenario) -> Vec<String> {
        scenario.problems().into_iter().map(|problem| problem.path).collect()
    }

    #[test]
    fn a_good_scenario_has_no_problems() {
        assert_eq!(good().problems(), []);
    }

    #[test]
    fn each_impossible_value_is_found_where_it_stands() {
        let mut scenario = good();
        scenario.link[0].distance_km = -80.0;
        scenario.radio.rate_mbps = Some(7.0);
        scenario.node[1].name = "hill".into();
        scenario.flow[0].to = "nowhere".into();
        let expected = [
            "radio.rate_mbps",
            "node[1].name",
            "link[0].between[1]",
            "link[0].distance_km",
            "flow[0].to",
        ];
        assert_eq!(paths(&scenario), expected);
    }

    #[test]
    fn numbers_that_are_none_are_refused() {
        let mut scenario = good();
        scenario.link[0].loss = LossConfig::Bernoulli { p: f64::NAN };
        scenario.duration_s = f64::INFINITY;
        let found = paths(&scenario);
        assert!(found.contains(&"link[0].loss".to_owned()), "{found:?}");
        assert!(found.contains(&"duration_s".to_owned()), "{found:?}");
    }

    #[test]
    fn a_flow_needs_a_path() {
        let mut scenario = good();
        scenario.link.clear();
        assert_eq!(paths(&scenario), ["flow[0].to"]);
    }
}
