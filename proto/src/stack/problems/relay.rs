//! Checks of the relays of a flow.

use super::super::scenario::{FlowConfig, Onward, RelayMode};
use super::Found;
use super::names::Names;

pub(super) fn check_relay(found: &mut Found, path: &str, flow: &FlowConfig, names: &Names<'_>) {
    let Some(relay) = &flow.relay else { return };
    let segment = f64::from(relay.segment_bytes);
    let key = format!("{path}.relay.segment_bytes");
    found.number(key, segment, 64.0..=1e6, "a length of a segment in bytes");
    let key = format!("{path}.relay.storage_mb_per_s");
    found.number(key, relay.storage_mb_per_s, 1e-3..=1e5, "a speed in megabytes per second");
    if relay.mode == RelayMode::Bundle && flow.bytes.is_none() {
        let help = "bytes = 10_000_000, or mode = \"stream\" to pass on without an end";
        found.add(format!("{path}.bytes"), "a bundle without a length", help);
    }
    if relay.onward == Onward::Hop && (relay.mode != RelayMode::Stream || relay.at.len() != 1) {
        let help = "mode = \"stream\" and at = [\"gateway\"]";
        found.add(format!("{path}.relay.onward"), "blocks begin at one relay that copies", help);
    }
    for (index, name) in relay.at.iter().enumerate() {
        let key = format!("{path}.relay.at[{index}]");
        let others = relay.at[..index].iter().chain([&flow.from, &flow.to]);
        if names.check(found, key.clone(), name) && others.into_iter().any(|other| other == name) {
            let message = format!("'{name}' is on the way already");
            found.add(key, message, "a node between the ends of the flow, once");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::scenario::{FlowKind, NodeConfig, RelayConfig, Scenario};
    use super::*;

    fn paths(relay: RelayConfig, bytes: Option<u64>) -> Vec<String> {
        let node = |name: &str| NodeConfig { name: name.into(), ..NodeConfig::default() };
        let node = ["a", "b", "c"].map(node).to_vec();
        let scenario = Scenario { node, ..Scenario::default() };
        let (from, to, kind) = ("a".into(), "c".into(), FlowKind::Relayed);
        let relay = Some(relay);
        let flow = FlowConfig { from, to, kind, bytes, relay, ..FlowConfig::default() };
        let mut found = Found::default();
        check_relay(&mut found, "flow[0]", &flow, &Names::of(&scenario));
        found.0.into_iter().map(|problem| problem.path).collect()
    }

    #[test]
    fn a_bundle_needs_a_length() {
        let relay = RelayConfig { mode: RelayMode::Bundle, ..RelayConfig::default() };
        assert_eq!(paths(relay.clone(), None), ["flow[0].bytes"]);
        assert_eq!(paths(relay, Some(1)), [""; 0]);
        assert_eq!(paths(RelayConfig::default(), None), [""; 0]);
    }

    #[test]
    fn blocks_begin_at_one_relay() {
        let relay = RelayConfig { onward: Onward::Hop, ..RelayConfig::default() };
        assert_eq!(paths(relay.clone(), None), ["flow[0].relay.onward"]);
        assert_eq!(paths(RelayConfig { at: vec!["b".into()], ..relay }, None), [""; 0]);
    }

    #[test]
    fn a_relay_is_a_node_between_the_ends() {
        let at = ["b", "a", "nowhere", "b"].map(str::to_owned).to_vec();
        let wrong = [1, 2, 3].map(|index| format!("flow[0].relay.at[{index}]"));
        assert_eq!(paths(RelayConfig { at, ..RelayConfig::default() }, None), wrong);
    }
}
