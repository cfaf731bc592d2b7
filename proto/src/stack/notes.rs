//! What is possible in a scenario and hardly meant: it runs, and whoever wrote it is told.

use super::scenario::{PropagationKind, RadioConfig, Scenario};

impl Scenario {
    /// What to tell about a scenario without problems, a line each.
    pub fn notes(&self) -> Vec<String> {
        let all = std::iter::once(("radio".to_owned(), self.radio.clone()));
        let own = self.node.iter().filter_map(|node| {
            let radio = node.radio.as_ref()?;
            Some((format!("radio of node {}", node.name), radio.over(&self.radio)))
        });
        all.chain(own).filter_map(|(whose, radio)| self.deafness(&whose, &radio)).collect()
    }

    /// A radio that waits for less than it can receive sends over frames for others.
    fn deafness(&self, whose: &str, radio: &RadioConfig) -> Option<String> {
        // Where links say who hears whom, signals are as strong as they say.
        let by_signal =
            !matches!(self.propagation_kind(), PropagationKind::Links | PropagationKind::Fixed);
        let thresholds = self.thresholds(radio);
        let (sense, data) = (thresholds.sense, thresholds.data);
        (by_signal && sense > data).then(|| {
            format!(
                "{whose}: sense_dbm of {sense:.1} lies above the {data:.1} dBm down to which data \
                 can be decoded; frames between them do not make the medium busy"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes(radio: &str, node: &str) -> Vec<String> {
        let text = format!(
            r#"{{ "name": "x", "radio": {{ "rate_mbps": 1 {radio} }},
                 "propagation": {{ "kind": "free-space" }},
                 "node": [{{ "name": "a", "position_m": [0, 0] {node} }}] }}"#
        );
        let scenario: Scenario = serde_json::from_str(&text).expect("a good scenario");
        scenario.notes()
    }

    #[test]
    fn who_senses_less_than_it_decodes_is_told() {
        assert_eq!(notes("", "").len(), 0);
        assert_eq!(notes(r#", "receive_dbm": -80, "sense_dbm": -80"#, "").len(), 0);
        let told = notes(r#", "receive_dbm": -80, "sense_dbm": -70"#, "");
        assert!(told[0].starts_with("radio: sense_dbm of -70.0 lies above the -80.0 dBm"));
        let told = notes("", r#", "radio": { "sense_dbm": -40 }"#);
        assert!(told.len() == 1 && told[0].starts_with("radio of node a"), "{told:?}");
    }
}
