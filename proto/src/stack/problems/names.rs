//! The names of nodes.

use std::collections::BTreeMap;

use super::Found;
use crate::base::NodeId;
use crate::stack::scenario::Scenario;

/// Names that are listed where one of them is wanted.
const LISTED: usize = 12;

/// Whether a text can stand in terminals and in pictures, which are XML.
pub(super) fn can_be_shown(text: &str) -> bool {
    !text.contains(|c: char| c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}'))
}

/// Checks a text that is shown on one line.
pub(super) fn check_shown(found: &mut Found, path: impl Into<String>, text: &str) {
    if !can_be_shown(text) {
        found.add(path, "it has characters that cannot be shown", "letters, digits and signs");
    }
}

/// All names with their nodes.
pub(super) struct Names<'a>(BTreeMap<&'a str, NodeId>);

impl<'a> Names<'a> {
    /// The names of a scenario whose layouts are nodes. Of two nodes with one name the first has
    /// it.
    pub(super) fn of(scenario: &'a Scenario) -> Self {
        let mut names = BTreeMap::new();
        for (number, node) in (1..=u16::MAX).zip(&scenario.node) {
            names.entry(&*node.name).or_insert(NodeId(number));
        }
        Self(names)
    }

    pub(super) fn get(&self, name: &str) -> Option<NodeId> {
        self.0.get(name).copied()
    }

    /// Whether there is a node of this name; if not, that is a problem.
    pub(super) fn check(&self, found: &mut Found, path: String, name: &str) -> bool {
        if self.0.contains_key(name) {
            return true;
        }
        let mut by_number: Vec<(NodeId, &str)> =
            self.0.iter().map(|(name, node)| (*node, *name)).collect();
        by_number.sort_unstable();
        let names: Vec<&str> = by_number.iter().take(LISTED).map(|(_, name)| *name).collect();
        let mut help = format!("one of: {}", names.join(", "));
        if names.is_empty() {
            help = "a node of the scenario, which has none yet: add `[[node]]`".into();
        }
        if by_number.len() > LISTED {
            help = format!("{help} and {} more", by_number.len() - LISTED);
        }
        found.add(path, format!("there is no node '{name}'"), help);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_there_are_no_nodes_no_list_of_them_is_given() {
        let mut found = Found::default();
        let names = Names(BTreeMap::new());
        assert!(!names.check(&mut found, "flow[0].from".into(), "a"));
        assert!(found.0[0].help.contains("[[node]]"), "{:?}", found.0);
    }
}
