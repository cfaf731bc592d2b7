//! Checks of the names of nodes.

use std::collections::BTreeMap;

use super::Found;
use crate::base::NodeId;
use crate::stack::scenario::Scenario;

/// Longest name of a node: network interfaces are named after it.
const NAME_LENGTH: usize = 32;
/// Most names that are listed where one of them is expected.
const LISTED: usize = 12;

/// Whether a text can appear in terminals, and in pictures, which are XML.
pub(super) fn can_be_shown(text: &str) -> bool {
    !text.contains(|c: char| c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}'))
}

/// Checks a text that is shown on one line.
pub(super) fn check_shown(found: &mut Found, path: impl Into<String>, text: &str) {
    if !can_be_shown(text) {
        found.add(path, "it has characters that cannot be shown", "letters, digits and signs");
    }
}

/// Checks a name that is passed to commands, of a node or the like. Returns whether it is valid.
pub(super) fn check_name(
    found: &mut Found,
    path: impl FnOnce() -> String,
    name: &str,
    of: &str,
) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    // With a dash in front it would be an option.
    let is_plain = name.chars().all(plain) && !name.starts_with('-');
    let is_good = is_plain && !name.is_empty() && name.len() <= NAME_LENGTH;
    if !is_good {
        let help =
            format!("letters, digits and '-', at most {NAME_LENGTH} of them and no '-' in front");
        found.add(path(), format!("'{name}' cannot be the name of {of}"), help);
    }
    is_good
}

/// All names with their nodes.
pub(super) struct Names<'a> {
    of_nodes: BTreeMap<&'a str, NodeId>,
    /// Whether the list is complete: the nodes of a layout that is wrong are unknown.
    is_whole: bool,
}

impl<'a> Names<'a> {
    /// The names of a scenario whose layouts are expanded. Of two nodes with one name, the first
    /// gets it.
    pub(super) fn of(scenario: &'a Scenario) -> Self {
        let mut names = BTreeMap::new();
        for (number, node) in (1..=u16::MAX).zip(&scenario.node) {
            names.entry(&*node.name).or_insert(NodeId(number));
        }
        // That there are no nodes is a problem of its own, and reported only once.
        let is_whole = !names.is_empty();
        Self { of_nodes: names, is_whole }
    }

    /// The same list, marked as incomplete.
    pub(super) fn but_for_layouts(self) -> Self {
        Self { is_whole: false, ..self }
    }

    pub(super) fn get(&self, name: &str) -> Option<NodeId> {
        self.of_nodes.get(name).copied()
    }

    /// Returns whether a node has this name; if not, that is a problem.
    pub(super) fn check(&self, found: &mut Found, path: String, name: &str) -> bool {
        if self.of_nodes.contains_key(name) {
            return true;
        }
        if !self.is_whole {
            return false;
        }
        let mut by_number: Vec<(NodeId, &str)> =
            self.of_nodes.iter().map(|(name, node)| (*node, *name)).collect();
        by_number.sort_unstable();
        let names: Vec<&str> = by_number.iter().take(LISTED).map(|(_, name)| *name).collect();
        let mut help = format!("one of: {}", names.join(", "));
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
    fn names_are_missed_where_all_are_known() {
        let mut found = Found::default();
        let names = Names { of_nodes: [("a", NodeId(1))].into(), is_whole: true };
        assert!(!names.check(&mut found, "flow[0].from".into(), "b"));
        assert_eq!(found.0[0].help, "one of: a");
        assert!(!names.but_for_layouts().check(&mut found, "flow[0].to".into(), "b"));
        let none = Scenario { node: Vec::new(), ..Scenario::default() };
        assert!(!Names::of(&none).check(&mut found, "flow[0].to".into(), "b"));
        assert_eq!(found.0.len(), 1, "it may be in the layout, and that there are none is told");
    }
}
