//! Checks of faults.

use std::collections::BTreeMap;

use super::{Found, Names};
use crate::stack::scenario::{FaultConfig, Scenario};

/// The shortest fault, in seconds: a shorter one might begin and end at the same nanosecond.
const LEAST_S: f64 = 1e-6;

/// Checks the faults of a scenario whose layouts are expanded.
pub(super) fn check_faults(
    found: &mut Found,
    names: &Names<'_>,
    scenario: &Scenario,
    joined: &dyn Fn(&str, &str) -> bool,
) {
    // For each node or link, the spans in which it is down, with the index of the fault.
    let mut spans: BTreeMap<String, Vec<(f64, f64, usize)>> = BTreeMap::new();
    for (index, fault) in scenario.fault.iter().enumerate() {
        let path = format!("fault[{index}]");
        let thing = check_thing(found, names, &path, fault, joined);
        let (from, to) = (fault.from_s, fault.to_s);
        if !(from >= 0.0 && to - from >= LEAST_S && to.is_finite()) {
            let message = format!("down from {from} s to {to} s is no span of time");
            found.add(
                format!("{path}.to_s"),
                message,
                "0 <= from_s < to_s, by a microsecond or more",
            );
            continue;
        }
        let Some(thing) = thing else { continue };
        let others = spans.entry(thing.clone()).or_default();
        if let Some((start, end, other)) =
            others.iter().find(|(start, end, _)| from < *end && *start < to)
        {
            let message = format!(
                "{thing} is down from {from} s to {to} s, and from {start} s to {end} s by \
                 fault[{other}]: these overlap"
            );
            let help = format!(
                "one fault from {} s to {} s, or spans that do not overlap",
                from.min(*start),
                to.max(*end)
            );
            found.add(format!("{path}.from_s"), message, help);
        }
        others.push((from, to, index));
    }
}

/// The node or link that goes down, by name; `None` if it does not exist.
fn check_thing(
    found: &mut Found,
    names: &Names<'_>,
    path: &str,
    fault: &FaultConfig,
    joined: &dyn Fn(&str, &str) -> bool,
) -> Option<String> {
    match (&fault.node, &fault.link) {
        (Some(node), None) => {
            names.check(found, format!("{path}.node"), node).then(|| format!("node '{node}'"))
        }
        (None, Some([a, b])) => {
            if !joined(a, b) {
                let message = format!("there is no link between '{a}' and '{b}'");
                found.add(format!("{path}.link"), message, "the ends of a [[link]]");
                return None;
            }
            let (a, b) = if a < b { (a, b) } else { (b, a) };
            Some(format!("link '{a}' - '{b}'"))
        }
        _ => {
            let help = "either node = \"name\" or link = [\"a\", \"b\"]";
            found.add(path, "a fault needs one thing that goes down", help);
            None
        }
    }
}
