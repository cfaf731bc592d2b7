//! What is impossible in a scenario: each problem with its key and what would be right.

mod adversary;
mod class;
mod fault;
mod flow;
mod hop;
mod link;
mod loss;
mod mac;
mod names;
mod network;
mod phy;
mod relay;
mod routing;
mod security;
mod slots;
mod space;

use std::collections::{BTreeMap, BTreeSet};

use super::config::LinkConfig;
use super::plan::{Search, Topology};
use super::scenario::{
    DelayConfig, FlowConfig, RadioConfig, RadioLinkConfig, RadioOverride, Scenario, Seeds,
    SweepConfig, SweepValue,
};
use flow::check_flow_kind;
use names::Names;
use relay::check_relay;

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

/// Checks a sweep. Whether its keys exist and its values fit shows when they are put in.
fn check_sweep(found: &mut Found, sweep: &SweepConfig) {
    if sweep.seeds.count() == 0 {
        found.add(
            "sweep.seeds",
            "a sweep without seeds runs nothing",
            "a number, or a list of seeds",
        );
    }
    let mut seeds = BTreeSet::new();
    if let Seeds::List(list) = &sweep.seeds
        && let Some(twice) = list.iter().find(|seed| !seeds.insert(**seed))
    {
        found.add("sweep.seeds", format!("the seed {twice} stands there twice"), "each seed once");
    }
    for (index, vary) in sweep.vary.iter().enumerate() {
        if vary.values.is_empty() {
            let path = format!("sweep.vary[{index}].values");
            found.add(path, format!("no values for '{}'", vary.key), "one value or more");
        }
        let mut values = BTreeSet::new();
        let is_known = |value: &SweepValue| {
            // A number is the same with a decimal point and without.
            let number = value.number().map(SweepValue::Number);
            !values.insert(format!("{:?}", number.as_ref().unwrap_or(value)))
        };
        if let Some(place) = vary.values.iter().position(is_known) {
            let path = format!("sweep.vary[{index}].values[{place}]");
            let message = format!("{} stands there twice", vary.values[place]);
            found.add(path, message, "each value once: sweep.seeds repeats runs");
        }
        if ["seed", "sweep"].contains(&vary.key.split(['.', '[']).next().unwrap_or_default()) {
            let path = format!("sweep.vary[{index}].key");
            let message = format!("{} does not vary like this", vary.key);
            found.add(path, message, "sweep.seeds = 5, or a list of seeds");
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
    if sweep.runs().is_none_or(|runs| runs > RUNS) {
        let message = match sweep.runs() {
            Some(runs) => format!("{runs} runs are too many"),
            None => "more runs than can be counted".into(),
        };
        found.add("sweep", message, format!("at most {RUNS}: fewer values and seeds"));
    }
}

/// Most runs of a sweep: for each it is remembered whether it was done.
const RUNS: u64 = 100_000_000;

/// Most nodes: their numbers have 16 bits.
const NODES: usize = 65_000;
/// Most radios of their own that the links of one node may have.
const RADIOS: usize = 64;

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
            self.add(path, format!("{} is not {what}", shown(value)), help);
        }
    }
}

/// A number for people, without hundreds of digits.
pub(super) fn shown(value: f64) -> String {
    let is_plain = value == 0.0 || !value.is_finite() || (1e-9..1e18).contains(&value.abs());
    if is_plain { value.to_string() } else { format!("{value:e}") }
}

impl Scenario {
    /// Everything that is impossible in this scenario; empty if it can be run.
    pub fn problems(&self) -> Vec<Problem> {
        self.topology().err().unwrap_or_default()
    }

    /// Who hears whom with all layouts expanded, or everything that is impossible.
    pub(super) fn topology(&self) -> Result<Topology, Vec<Problem>> {
        let mut found = Found(Vec::new());
        self.check_words(&mut found);
        self.check_times(&mut found);
        network::check_subnet(&mut found, self.subnet);
        check_radio(&mut found, &self.radio);
        security::check_security(&mut found, self);
        link::check_stack(&mut found, &self.stack, &self.radio);
        routing::check_routing(&mut found, self);
        check_delay(&mut found, "host.wake_us", &self.host.wake_us);
        let is_placed = space::check_space(&mut found, self);
        let placed = match is_placed {
            true => self.with_placed_nodes(),
            false => Self { layout: Vec::new(), ..self.clone() },
        };
        space::check_laid_out(&mut found, self, &placed);
        let names = Names::of(&placed);
        let names = if is_placed { names } else { names.but_for_layouts() };
        self.check_nodes(&mut found, &placed);
        self.check_links(&mut found, &names, &placed);
        let topology = check_crowd(&mut found, &placed);
        if let Some(topology) = &topology {
            network::check_radios(&mut found, &placed, &names, topology);
        }
        let has_slots = matches!(self.stack.link, LinkConfig::Wild(_) | LinkConfig::TwoP(_));
        if let Some(topology) = topology.as_ref().filter(|_| has_slots) {
            slots::check_phases(&mut found, &placed, &names, topology);
        }
        let mut search = Search::default();
        for (index, flow) in placed.flow.iter().enumerate() {
            self.check_flow(&mut found, index, flow, &names);
            if let (Some(topology), Some(from), Some(to)) =
                (&topology, names.get(&flow.from), names.get(&flow.to))
                && from != to
                && !self.may_join_later()
            {
                let hops = topology.hops(&mut search, from, to);
                let weak = || topology.weakness(from, to);
                flow::check_way(&mut found, index, flow, hops, &weak);
            }
        }
        let joined = |a: &str, b: &str| placed.are_joined(topology.as_ref(), &names, a, b);
        fault::check_faults(&mut found, &names, &placed, &joined);
        adversary::check_adversaries(&mut found, &names, &placed);
        if let Some(topology) = &topology {
            adversary::check_radios(&mut found, &names, &placed, topology);
        }
        if let Some(sweep) = &self.sweep {
            check_sweep(&mut found, sweep);
        }
        flow::check_count(&mut found, self);
        if let Some(topology) = topology.as_ref().filter(|_| found.0.is_empty()) {
            flow::check_drawn(&mut found, self, topology);
        }
        match topology {
            Some(topology) if found.0.is_empty() => Ok(topology),
            _ => Err(found.0),
        }
    }

    /// Checks the texts of the scenario, which reach terminals and pictures.
    fn check_words(&self, found: &mut Found) {
        names::check_shown(found, "name", &self.name);
        let line = self.description.lines().find(|line| !names::can_be_shown(line));
        names::check_shown(found, "description", line.unwrap_or_default());
    }

    fn check_times(&self, found: &mut Found) {
        let what = "a length of a run in seconds";
        found.number("duration_s".into(), self.duration_s, 0.001..=1e7, what);
        if let Some(from) = self.measure_from_s.filter(|at| !(0.0..self.duration_s).contains(at)) {
            let message = format!("nothing is left to measure at {from} s");
            found.add("measure_from_s", message, "a time inside the run, before its end");
        }
    }

    /// Whether a fault can name the link between two nodes.
    fn are_joined(&self, topology: Option<&Topology>, names: &Names<'_>, a: &str, b: &str) -> bool {
        let joins = |link: &RadioLinkConfig| {
            let [first, second] = link.between.each_ref().map(|name| &**name);
            (first, second) == (a, b) || (second, first) == (a, b)
        };
        let hear = |topology: &Topology| match (names.get(a), names.get(b)) {
            (Some(a), Some(b)) => topology.hear_each_other(a, b),
            _ => false,
        };
        self.link.iter().any(joins) || topology.is_some_and(hear)
    }

    /// Whether moving nodes may find a route that does not exist at the start. Links with slots
    /// know only the neighbours of the start.
    pub(super) fn may_join_later(&self) -> bool {
        self.stack.routing.floods() && self.has_movers() && !self.stack.link.has_schedule()
    }

    fn check_nodes(&self, found: &mut Found, placed: &Self) {
        if placed.node.is_empty() && self.layout.is_empty() {
            let help = "at least one [[node]] with a name, or a [[layout]]";
            found.add("node", "the scenario has no nodes", help);
        }
        if self.node.len() > NODES {
            found.add("node", "too many nodes", format!("at most {NODES}"));
        }
        let mut names = BTreeSet::new();
        for (index, node) in placed.node.iter().enumerate() {
            let path = || match index < self.node.len() {
                true => format!("node[{index}].name"),
                false => format!("layout[{}].name", self.layout_of(index)),
            };
            let name = &node.name;
            names::check_name(found, path, name, "a node");
            if !names.insert(name) {
                let message = format!("two nodes are called '{name}'");
                found.add(path(), message, "a name of its own for each node");
                // One is enough: layouts with the same name have thousands of names in common.
                if index >= self.node.len() {
                    break;
                }
            }
        }
        let names = Names::of(placed);
        for (index, node) in self.node.iter().enumerate() {
            let (offset, drift) = (node.clock.offset_s, node.clock.drift_ppm);
            let path = format!("node[{index}]");
            let key = format!("{path}.clock.offset_s");
            found.number(key, offset, -1e6..=1e6, "a clock offset");
            let what = "a clock drift in parts per million";
            found.number(format!("{path}.clock.drift_ppm"), drift, -1000.0..=1000.0, what);
            if let Some(radio) = &node.radio {
                check_override(found, &format!("{path}.radio"), radio, &self.radio);
            }
            network::check_devices(found, &path, node, &names);
        }
        network::check_networks(found, self);
    }

    /// The layout that a node comes from.
    fn layout_of(&self, node: usize) -> usize {
        let ends = |count: usize| {
            let part = Self { layout: self.layout[..count].to_vec(), ..self.clone() };
            part.with_placed_nodes().node.len()
        };
        (0..self.layout.len()).find(|index| node < ends(index + 1)).unwrap_or_default()
    }

    fn check_links(&self, found: &mut Found, names: &Names<'_>, placed: &Self) {
        let mut pairs = BTreeSet::new();
        let mut radios: BTreeMap<&String, usize> = BTreeMap::new();
        for (index, link) in placed.link.iter().enumerate() {
            let path = format!("link[{index}]");
            for (end, name) in link.between.iter().enumerate() {
                names.check(found, format!("{path}.between[{end}]"), name);
                *radios.entry(name).or_default() += usize::from(link.radio.is_some());
                if radios[name] == RADIOS + 1 {
                    let message = format!("'{name}' has more than {RADIOS} radios");
                    found.add(format!("{path}.radio"), message, "fewer links with a radio");
                }
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
            link::check_radio_link(found, &path, self, link);
            if let Some(radio) = &link.radio {
                check_override(found, &format!("{path}.radio"), radio, &self.radio);
            }
        }
    }

    fn check_flow(&self, found: &mut Found, index: usize, flow: &FlowConfig, names: &Names<'_>) {
        let path = format!("flow[{index}]");
        let mut start = flow.start_s;
        if let Some(random) = &flow.random {
            if !(flow.from.is_empty() && flow.to.is_empty()) {
                let message = "a flow has ends of its own or random ones, not both";
                found.add(format!("{path}.random"), message, "no from and to, or no random");
            }
            let count = random.count as f64;
            found.number(format!("{path}.random.count"), count, 1.0..=1e5, "a number of flows");
            let key = format!("{path}.random.start_within_s");
            found.number(key, random.start_within_s, 0.0..=1e7, "a time in seconds");
            start += random.start_within_s;
            let is_layout = |name: &String| self.layout.iter().any(|layout| layout.name() == name);
            if let Some(among) = random.among.as_ref().filter(|name| !is_layout(name)) {
                let message = format!("there is no layout '{among}'");
                found.add(format!("{path}.random.among"), message, "the name of a [[layout]]");
            }
        } else if flow.from.is_empty() || flow.to.is_empty() {
            let help = "from = \"a\" and to = \"b\", or random = { count = 10 }";
            found.add(&path, "a flow needs two ends", help);
        } else {
            names.check(found, format!("{path}.from"), &flow.from);
            names.check(found, format!("{path}.to"), &flow.to);
            if flow.from == flow.to {
                let message = format!("a flow from '{}' to itself", flow.to);
                found.add(format!("{path}.to"), message, "another node");
            }
        }
        names::check_shown(found, format!("{path}.name"), &flow.name);
        check_flow_kind(found, &path, flow);
        check_relay(found, &path, flow, names);
        self.check_times_of(found, &path, flow, start);
    }

    /// Checks when a flow runs, which may start as late as `start`, and when its measurement
    /// begins.
    fn check_times_of(&self, found: &mut Found, path: &str, flow: &FlowConfig, start: f64) {
        let stop = flow.stop_s.unwrap_or(self.duration_s);
        // If the duration is wrong, no time can be checked against it.
        if self.duration_s > 0.0 {
            let inside = 0.0..=self.duration_s;
            let has_end = flow.stop_s.is_some() || inside.contains(&start);
            found.number(format!("{path}.start_s"), start, inside, "a time inside the run");
            if has_end && !(stop > start && stop <= self.duration_s) {
                let help = format!("a time after start_s, at most {} s", self.duration_s);
                let message = format!("the flow cannot stop at {stop} s");
                found.add(format!("{path}.stop_s"), message, help);
            }
        }
        if let Some(from) = flow.measure_from_s.filter(|from| !(start..stop).contains(from)) {
            let message = format!("nothing of the flow is left to measure at {from} s");
            let help = format!("a time from start_s, {start} s, and before it stops, at {stop} s");
            found.add(format!("{path}.measure_from_s"), message, help);
        }
        // A file that is complete before the measurement begins is measured all the same.
        let is_cut = flow.stop_s.is_some() && flow.bytes.is_none();
        let of_all = self.measure_from_s.filter(|_| flow.measure_from_s.is_none() && is_cut);
        if let Some(from) = of_all.filter(|from| *from >= stop) {
            let message = format!("it stops at {stop} s, and measure_from_s is {from} s");
            let help = "a later end, or a measure_from_s of its own";
            found.add(format!("{path}.stop_s"), message, help);
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
    check_power(found, radio);
}

/// Checks settings that override those of `[radio]`, under their own path.
fn check_override(found: &mut Found, path: &str, radio: &RadioOverride, base: &RadioConfig) {
    let mut of_base = Found(Vec::new());
    check_radio(&mut of_base, base);
    let mut own = Found(Vec::new());
    check_radio(&mut own, &radio.with_phy_of(base));
    if own.0.is_empty() && of_base.0.is_empty() {
        check_radio(&mut own, &radio.over(base));
    }
    let under = |problem: Problem| {
        let path = problem.path.replacen("radio", path, 1);
        Problem { path, ..problem }
    };
    found.0.extend(own.0.into_iter().map(under));
}

/// Checks powers, gains and thresholds, and how late the host is.
fn check_power(found: &mut Found, radio: &RadioConfig) {
    let powers = [
        ("tx_power_dbm", radio.tx_power_dbm),
        ("receive_dbm", radio.receive_dbm),
        ("sense_dbm", radio.sense_dbm),
        ("floor_dbm", radio.floor_dbm),
    ];
    for (key, power) in powers {
        if let Some(power) = power {
            found.number(format!("radio.{key}"), power, -200.0..=60.0, "a power in dBm");
        }
    }
    let gain = radio.antenna_gain_dbi;
    found.number("radio.antenna_gain_dbi".into(), gain, -50.0..=60.0, "a gain in dBi");
    let loss = radio.cable_loss_db;
    found.number("radio.cable_loss_db".into(), loss, 0.0..=100.0, "a loss in decibels");
    if let Some(slot) = radio.slot_us {
        found.number("radio.slot_us".into(), slot, 1.0..=1e5, "a slot time in microseconds");
    }
    // Any frame lasts longer.
    let most = "microseconds, at most 15, as the standard allows";
    found.number("radio.cca_us".into(), radio.cca_us, 0.0..=15.0, most);
    check_delay(found, "radio.departure", &radio.departure);
}

/// Who hears whom, which can be computed only if nothing was wrong so far.
fn check_crowd(found: &mut Found, placed: &Scenario) -> Option<Topology> {
    if !found.0.is_empty() {
        return None;
    }
    let topology = Some(Topology::build(placed)).filter(|topology| !topology.is_crowded());
    if topology.is_none() {
        found.add(
            "propagation",
            format!("more than {} pairs of nodes hear each other", Topology::MOST_HOPS / 2),
            "fewer nodes, more room between them, or a higher radio.floor_dbm",
        );
    }
    topology
}

fn check_delay(found: &mut Found, path: &str, delay: &DelayConfig) {
    let points = delay.points();
    let rising = points.windows(2).all(|pair| pair[0][0] < pair[1][0] && pair[0][1] <= pair[1][1]);
    let inside = points
        .iter()
        .all(|[part, micros]| (0.0..=1.0).contains(part) && (0.0..=1e7).contains(micros));
    if !rising || !inside {
        let help = "points [fraction, microseconds] that rise, for example \
                    [[0.5, 50], [0.99, 1000], [1, 4000]]";
        found.add(path, "not a distribution", help);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::{LossConfig, NodeConfig, Position, RoutingConfig};

    fn good() -> Scenario {
        let node = |name: &str| NodeConfig { name: name.into(), ..NodeConfig::default() };
        let between = ["hill".to_owned(), "valley".to_owned()];
        Scenario {
            name: "test".into(),
            duration_s: 20.0,
            node: vec![node("hill"), node("valley")],
            link: vec![RadioLinkConfig { between, ..RadioLinkConfig::default() }],
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
        scenario.link[0].distance_km = Some(-80.0);
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
    fn numbers_are_shown_in_few_digits() {
        let all = [0.0, -80.0, 0.001, 1e300, -3e-300, f64::NAN];
        assert_eq!(all.map(shown), ["0", "-80", "0.001", "1e300", "-3e-300", "NaN"]);
    }

    #[test]
    fn numbers_that_are_none_are_refused() {
        let mut scenario = good();
        scenario.link[0].loss = Some(LossConfig::Bernoulli { p: f64::NAN });
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

    #[test]
    fn a_flow_needs_no_path_at_the_start_to_who_comes_into_reach_later() {
        let mut scenario = good();
        scenario.link.clear();
        for (node, x) in scenario.node.iter_mut().zip([0.0, 1e6]) {
            node.position_m = Some(Position([x, 0.0, 0.0]));
        }
        scenario.node[1].path_m = vec![vec![10.0, 100.0, 0.0]];
        // Fixed routes are those at the start.
        assert_eq!(paths(&scenario), ["flow[0].to"]);
        scenario.stack.routing = RoutingConfig::Olsr(Default::default());
        assert_eq!(paths(&scenario), [""; 0]);
        scenario.stack.link = LinkConfig::Wild(Default::default());
        assert_eq!(paths(&scenario), ["flow[0].to"], "slots are for the neighbours of the start");
        scenario.stack.link = LinkConfig::default();
        // Where nobody moves nothing changes.
        scenario.node[1].path_m.clear();
        assert_eq!(paths(&scenario), ["flow[0].to"]);
    }
}
