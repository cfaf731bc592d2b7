//! Checks of the classes of a link.

use super::Found;
use super::names::check_shown;
use crate::link::wild::{ClassConfig, InOrder, WildConfig};

/// Most classes of a link.
const MOST: usize = 32;
/// Highest priority.
const MOST_PRIORITY: f64 = 7.0;

pub(super) fn check_classes(found: &mut Found, wild: &WildConfig) {
    if wild.class.len() > MOST {
        let message = format!("{} classes are too many", wild.class.len());
        found.add("stack.link.class", message, format!("at most {MOST}"));
    }
    if !wild.class.is_empty() && wild.in_order == InOrder::Link {
        let message = "'link' makes the flows of all classes wait for each other";
        found.add("stack.link.in_order", message, "'flow' or 'none' beside classes");
    }
    for (index, class) in wild.class.iter().enumerate() {
        let path = format!("stack.link.class[{index}]");
        check_names(found, &path, class, &wild.class[..index]);
        check_match(found, &path, class, &wild.class[..index]);
        check_values(found, &path, class);
    }
}

fn check_names(found: &mut Found, path: &str, class: &ClassConfig, earlier: &[ClassConfig]) {
    let path = format!("{path}.name");
    let name = &class.name;
    check_shown(found, &path, name);
    if name.is_empty() {
        found.add(path, "a class without a name", "a word, for the status");
    } else if name == "default" {
        let help = "another name; the values of the link itself are the default";
        found.add(path, "'default' is the class of what no class takes", help);
    } else if earlier.iter().any(|other| other.name == *name) {
        found.add(path, format!("two classes are named '{name}'"), "a name of its own for each");
    }
}

fn check_match(found: &mut Found, path: &str, class: &ClassConfig, earlier: &[ClassConfig]) {
    if let Some(dscp) = class.dscp {
        found.number(format!("{path}.dscp"), dscp.into(), 0.0..=63.0, "a code point (DSCP)");
    }
    if let Some(port) = class.port {
        found.number(format!("{path}.port"), port.into(), 1.0..=65_535.0, "a port");
    }
    if class.dscp.is_none() && class.port.is_none() && class.address.is_none() {
        let help = "dscp, port or address; what holds for all flows stands in [stack.link]";
        found.add(path, format!("class '{}' does not say what it matches", class.name), help);
    } else if let Some(other) = earlier.iter().find(|other| other.covers(class)) {
        let message =
            format!("class '{}' never matches: '{}' before it takes all", class.name, other.name);
        found.add(path, message, "the narrower class first");
    }
}

fn check_values(found: &mut Found, path: &str, class: &ClassConfig) {
    let key = |key: &str| format!("{path}.{key}");
    if class.in_order == Some(InOrder::Link) {
        let message = "'link' would make the flows of other classes wait for this one";
        found.add(key("in_order"), message, "'flow' or 'none'");
    }
    if let Some(target) = class.target_loss {
        found.number(key("target_loss"), target, 1e-9..=0.5, "a loss that may remain");
    }
    if let Some(packets) = class.queue_packets {
        let what = "a queue length in packets";
        found.number(key("queue_packets"), packets as f64, 1.0..=1e5, what);
    }
    if let Some(priority) = class.priority {
        found.number(key("priority"), priority.into(), 0.0..=MOST_PRIORITY, "a priority");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(classes: &str) -> Vec<String> {
        let wild: WildConfig = serde_json::from_str(classes).expect("a form that can be read");
        let mut found = Found::default();
        check_classes(&mut found, &wild);
        found.0.into_iter().map(|found| format!("{}: {}", found.path, found.message)).collect()
    }

    #[test]
    fn good_classes_have_no_problems() {
        let classes = r#"{"retries": "auto", "class": [
            {"name": "voice", "dscp": 46, "preset": "realtime"},
            {"name": "shell", "port": 22, "preset": "interactive", "retries": 4},
            {"name": "camera", "address": "10.66.3.0/24", "in_order": "none", "priority": 7}
        ]}"#;
        assert_eq!(said(classes), [""; 0]);
    }

    #[test]
    fn each_impossible_value_is_found_where_it_stands() {
        let classes = r#"{"class": [
            {"name": "voice", "dscp": 64},
            {"name": "voice", "port": 0, "target_loss": 2, "queue_packets": 0, "priority": 9},
            {"name": "default", "address": "10.66.0.1", "in_order": "link"},
            {"name": ""}
        ]}"#;
        assert_eq!(
            said(classes),
            [
                "stack.link.class[0].dscp: 64 is not a code point (DSCP)",
                "stack.link.class[1].name: two classes are named 'voice'",
                "stack.link.class[1].port: 0 is not a port",
                "stack.link.class[1].target_loss: 2 is not a loss that may remain",
                "stack.link.class[1].queue_packets: 0 is not a queue length in packets",
                "stack.link.class[1].priority: 9 is not a priority",
                "stack.link.class[2].name: 'default' is the class of what no class takes",
                "stack.link.class[2].in_order: 'link' would make the flows of other classes wait \
                 for this one",
                "stack.link.class[3].name: a class without a name",
                "stack.link.class[3]: class '' does not say what it matches",
            ]
        );
    }

    #[test]
    fn a_class_that_can_never_match_is_found() {
        let classes = r#"{"in_order": "link", "class": [
            {"name": "all", "address": "10.0.0.0/8"},
            {"name": "one", "address": "10.66.0.1", "port": 22}
        ]}"#;
        assert_eq!(
            said(classes),
            [
                "stack.link.in_order: 'link' makes the flows of all classes wait for each other",
                "stack.link.class[1]: class 'one' never matches: 'all' before it takes all",
            ]
        );
    }

    #[test]
    fn a_number_of_retries_is_a_number_or_auto() {
        let read = |retries: &str| {
            serde_json::from_str::<WildConfig>(&format!("{{\"retries\": {retries}}}"))
                .map_err(|error| error.to_string())
        };
        let write = |config: &WildConfig| {
            serde_json::to_value(config).expect("written")["retries"].to_string()
        };
        for retries in ["0", "255", "\"auto\""] {
            assert_eq!(write(&read(retries).expect("read")), retries);
        }
        for retries in ["256", "-1", "\"many\"", "1.5"] {
            let error = read(retries).expect_err("refused");
            assert!(error.contains("a number from 0 to 255, or \"auto\""), "{error}");
        }
    }
}
