//! What is impossible in adversaries.

use super::space::{POWERS_DBM, check_numbers};
use super::{Found, Names, names};
use crate::base::{NodeId, PhyKind};
use crate::stack::plan::Topology;
use crate::stack::scenario::{AdversaryConfig, Scenario};

/// Checks the adversaries of a scenario whose layouts are expanded.
pub(super) fn check_adversaries(found: &mut Found, names: &Names<'_>, scenario: &Scenario) {
    for (index, adversary) in scenario.adversary.iter().enumerate() {
        let path = format!("adversary[{index}]");
        check_name(found, &path, names, &scenario.adversary[..index], &adversary.name);
        check_place(found, &path, names, scenario, adversary);
        let duty = adversary.duty;
        found.number(format!("{path}.duty"), duty, 0.0..=1.0, "a share of the air time");
        if adversary.kinds.is_empty() {
            let help = "one kind or more, or no key at all for every kind";
            found.add(format!("{path}.kinds"), "an adversary that sends nothing", help);
        }
        let from = adversary.from_s;
        let inside = 0.0..=scenario.duration_s;
        found.number(format!("{path}.from_s"), from, inside, "a time inside the run");
        if let Some(to) = adversary.to_s.filter(|to| to.is_nan() || *to <= from) {
            let message = format!("it ends at {to} s, before it begins");
            found.add(format!("{path}.to_s"), message, format!("a time after from_s, {from} s"));
        }
    }
}

/// Checks that there is a radio where adversaries are, because they hear and send by radio.
pub(super) fn check_radios(
    found: &mut Found,
    names: &Names<'_>,
    scenario: &Scenario,
    topology: &Topology,
) {
    for (index, adversary) in scenario.adversary.iter().enumerate() {
        let near = adversary.near.as_ref().and_then(|near| names.get(near));
        let is_there = |node: NodeId| near.is_none_or(|near| near == node);
        let mut radios = topology.radios().filter(|(node, _)| is_there(*node));
        if radios.all(|(_, radio)| radio.phy == PhyKind::Wire) {
            let message = "there are wires only around it, and it hears and sends by radio";
            let help = "near = \"...\" with a node that has a radio";
            found.add(format!("adversary[{index}]"), message, help);
        }
    }
}

fn check_name(
    found: &mut Found,
    path: &str,
    names: &Names<'_>,
    before: &[AdversaryConfig],
    name: &str,
) {
    let path = format!("{path}.name");
    let is_taken = || names.get(name).is_some() || before.iter().any(|other| other.name == name);
    if names::check_name(found, || path.clone(), name, "an adversary") && is_taken() {
        let help = "a name of its own for each node and adversary";
        found.add(path, format!("'{name}' is the name of something else"), help);
    }
}

fn check_place(
    found: &mut Found,
    path: &str,
    names: &Names<'_>,
    scenario: &Scenario,
    adversary: &AdversaryConfig,
) {
    if let Some(near) = &adversary.near {
        names.check(found, format!("{path}.near"), near);
    }
    if let Some(signal) = adversary.signal_dbm {
        found.number(format!("{path}.signal_dbm"), signal, POWERS_DBM, "a power in dBm");
    }
    if scenario.has_movers() {
        let help = "nodes that stand still";
        found.add(path, "an adversary does not follow nodes that move", help);
    }
    let Some(position) = &adversary.position_m else { return };
    let path = format!("{path}.position_m");
    check_numbers(found, &path, &position.0);
    if adversary.near.is_some() {
        found.add(path, "it stands beside a node and at a place", "either near or position_m");
    } else if !scenario.node.iter().any(|node| node.place().is_some()) {
        let help = "near = \"NODE\", or nodes with places";
        found.add(path, "a place means nothing where no node has one", help);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(adversary: &str) -> Vec<String> {
        let text = format!(
            r#"{{
                "name": "x",
                "node": [{{ "name": "a" }}, {{ "name": "b" }}],
                "link": [{{ "between": ["a", "b"] }}],
                "adversary": [{{ {adversary} }}]
            }}"#
        );
        let scenario: Scenario = serde_json::from_str(&text).expect("a file");
        scenario.problems().into_iter().map(|problem| problem.path).collect()
    }

    #[test]
    fn an_adversary_that_can_be_has_no_problems() {
        assert_eq!(problems(r#""name": "eve", "duty": 0.3"#), [""; 0]);
        let all = r#""name": "eve", "near": "a", "duty": 1, "kinds": ["flood"], "from_s": 1"#;
        assert_eq!(problems(all), [""; 0]);
    }

    #[test]
    fn a_stranger_needs_a_radio_where_it_is() {
        let problems = |near: Option<&str>, wire: &str| {
            let scenario = serde_json::json!({
                "name": "x",
                "node": [{ "name": "a" }, { "name": "b" }, { "name": "c" }],
                "link": [
                    { "between": ["a", "b"], "radio": { "phy": "wire" } },
                    { "between": ["b", "c"], "radio": { "phy": wire } },
                ],
                "adversary": [{ "name": "eve", "duty": 0.3, "near": near }],
            });
            let scenario: Scenario = serde_json::from_value(scenario).expect("a file");
            scenario.problems().into_iter().map(|problem| problem.path).collect::<Vec<_>>()
        };
        assert_eq!(problems(None, "802.11b"), [""; 0]);
        assert_eq!(problems(Some("b"), "802.11b"), [""; 0]);
        assert_eq!(problems(Some("a"), "802.11b"), ["adversary[0]"]);
        assert_eq!(problems(None, "wire"), ["adversary[0]"]);
    }

    #[test]
    fn what_cannot_be_is_found_at_its_key() {
        for (adversary, key) in [
            (r#""name": "a", "duty": 0.3"#, "name"),
            (r#""name": "", "duty": 0.3"#, "name"),
            (r#""name": "eve", "duty": 1.3"#, "duty"),
            (r#""name": "eve", "duty": 0.3, "near": "c""#, "near"),
            (r#""name": "eve", "duty": 0.3, "kinds": []"#, "kinds"),
            (r#""name": "eve", "duty": 0.3, "from_s": 21"#, "from_s"),
            (r#""name": "eve", "duty": 0.3, "from_s": 2, "to_s": 2"#, "to_s"),
            (r#""name": "eve", "duty": 0.3, "position_m": [1, 2]"#, "position_m"),
        ] {
            assert_eq!(problems(adversary), [format!("adversary[0].{key}")], "{adversary}");
        }
    }

    #[test]
    fn an_unknown_kind_is_answered_with_the_known_ones() {
        let text = r#"{ "name": "eve", "duty": 0.3, "kinds": ["floods"] }"#;
        let error = serde_json::from_str::<AdversaryConfig>(text).expect_err("no such kind");
        assert!(error.to_string().contains("bit-flip"), "{error}");
    }
}
