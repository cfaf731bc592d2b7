//! TCP settings of a lab's nodes, and scenarios that a lab cannot run.
//!
//! Congestion control is set for each socket. SACK, timestamps and ECN are settings of a network
//! namespace, which all flows of a node share. This machine's own settings are not changed.

use farhop_proto::base::{Bitrate, NodeId, RadioId};
use farhop_proto::stack::{
    Congestion, FlowConfig, FlowKind, LinkConfig, Plan, RadioPlan, Scenario, TcpPreset, TcpSettings,
};
use farhop_sim::engine::flow_name;

use super::{LabError, room};

/// A sysctl of a network namespace, and its value.
pub(super) type Setting = (&'static str, &'static str);

/// Refuses radios that the emulated air does not support, and flows that the kernel and the lab's
/// programs cannot run.
///
/// Panics if the scenario has problems.
pub(super) fn check(scenario: &Scenario) -> Result<(), LabError> {
    let plan = scenario.plan_for_flows();
    if let Some(node) = unknown_to_air(&plan) {
        return Err(LabError::Refused(format!(
            "node '{node}': radios of the lab send each frame by itself, as cards do with frames \
             that are injected: give its radio aggregate = 1, or use `farhop sim`"
        )));
    }
    if let Some((rate, sender, receiver)) = unknown_to_neighbour(&plan, &scenario.stack.link) {
        return Err(LabError::Refused(format!(
            "node '{sender}' sends at {rate}, which '{receiver}' does not know, and a radio of the \
             lab sends to all at one bit-rate: give it a lower one, or use `farhop sim`"
        )));
    }
    for flow in &scenario.flow {
        if let Some(what) = unknown_to_kernel(flow) {
            let name = flow_name(flow);
            let only = "it is in the simulator only: use `farhop sim`";
            return Err(LabError::Refused(format!("flow '{name}': the lab has no {what}; {only}")));
        }
    }
    for node in &scenario.node {
        settings(scenario, &node.name)?;
    }
    Ok(())
}

/// The name of a node whose radio aggregates frames.
fn unknown_to_air(plan: &Plan) -> Option<&str> {
    let puts_together = |radio: &RadioPlan| radio.spec.aggregate > 1;
    plan.nodes.iter().find(|node| node.radios.iter().any(puts_together)).map(|node| &*node.name)
}

/// A bit-rate of a radio that one of its neighbours cannot receive, and the names of both nodes. It
/// does not matter with a schedule, which sets the rate of each frame.
fn unknown_to_neighbour<'a>(
    plan: &'a Plan,
    link: &LinkConfig,
) -> Option<(Bitrate, &'a str, &'a str)> {
    plan.hops.iter().filter(|hop| hop.usable).find_map(|hop| {
        // Numbers begin with 1. This avoids a search, as there may be very many hops.
        let node = |(node, _): (NodeId, RadioId)| &plan.nodes[usize::from(node.0) - 1];
        let (sender, receiver) = (node(hop.from), node(hop.to));
        let sends = &sender.radios[usize::from(hop.from.1.0)].spec;
        let hears = &receiver.radios[usize::from(hop.to.1.0)].spec;
        if link.has_schedule_over(sends.phy.kind) {
            return None;
        }
        let known = sends.phy.rate_for(&hears.phy, sends.rate)?;
        (known != sends.rate).then_some((sends.rate, &*sender.name, &*receiver.name))
    })
}

/// The first property of a flow that the lab does not support.
fn unknown_to_kernel(flow: &FlowConfig) -> Option<String> {
    if !matches!(flow.kind, FlowKind::Tcp | FlowKind::Udp | FlowKind::Hop) {
        return Some(format!("flow of kind \"{}\"", flow.kind.name()));
    }
    if flow.congestion == Congestion::Westwood {
        return Some("TCP Westwood+".into());
    }
    if let Some(preset) = flow.tcp.preset.filter(|preset| *preset != TcpPreset::Linux) {
        return Some(format!("TCP preset {preset:?}"));
    }
    let switches = TcpSettings {
        preset: flow.tcp.preset,
        sack: flow.tcp.sack,
        timestamps: flow.tcp.timestamps,
        ecn: flow.tcp.ecn,
        ..TcpSettings::default()
    };
    (flow.tcp != switches).then(|| "TCP settings other than sack, timestamps and ecn".into())
}

/// Why a lab would refuse this scenario; `None` if it would run it.
///
/// Panics if the scenario has problems.
pub fn refusal(scenario: &Scenario) -> Option<String> {
    room::check(scenario).and_then(|()| check(scenario)).err().map(|error| error.to_string())
}

/// Settings for the network namespace of a node.
///
/// Fails if its flows need different values.
pub(super) fn settings(scenario: &Scenario, node: &str) -> Result<Vec<Setting>, LabError> {
    let mut found: Vec<Setting> = Vec::new();
    let here =
        |flow: &&FlowConfig| flow.kind == FlowKind::Tcp && (flow.from == node || flow.to == node);
    for flow in scenario.flow.iter().filter(here) {
        let config = flow.tcp_config();
        let bit = |on: bool| if on { "1" } else { "0" };
        let wanted = [
            ("net/ipv4/tcp_sack", bit(config.sack)),
            ("net/ipv4/tcp_timestamps", bit(config.timestamps)),
            ("net/ipv4/tcp_ecn", bit(config.ecn)),
        ];
        for setting in wanted {
            match found.iter().find(|known| known.0 == setting.0) {
                Some(known) if known.1 != setting.1 => {
                    return Err(LabError::Refused(format!(
                        "node '{node}': its TCP flows differ in sack, timestamps or ecn, which in \
                         the lab are settings of a whole node"
                    )));
                }
                Some(_) => {}
                None => found.push(setting),
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use farhop_proto::base::PhyKind;

    use super::*;

    fn scenario(flows: &[FlowConfig]) -> Scenario {
        let text = r#"{ "name": "two", "duration_s": 1,
            "node": [{ "name": "hill" }, { "name": "valley" }],
            "link": [{ "between": ["hill", "valley"], "distance_km": 1 }] }"#;
        let two: Scenario = serde_json::from_str(text).expect("a good scenario");
        Scenario { flow: flows.to_vec(), ..two }
    }

    fn flow(kind: &str) -> FlowConfig {
        let text = format!(r#"{{ "from": "hill", "to": "valley", "kind": "{kind}" }}"#);
        serde_json::from_str(&text).expect("a good flow")
    }

    fn with(congestion: Congestion) -> FlowConfig {
        FlowConfig { congestion, ..flow("tcp") }
    }

    #[test]
    fn newreno_switches_sack_off_in_its_nodes() {
        let newreno = scenario(&[with(Congestion::Newreno)]);
        let found = settings(&newreno, "valley").expect("nothing differs");
        assert!(found.contains(&("net/ipv4/tcp_sack", "0")));
        assert!(settings(&newreno, "elsewhere").expect("nothing").is_empty());
        let both = scenario(&[with(Congestion::Newreno), with(Congestion::Cubic)]);
        assert!(settings(&both, "hill").is_err());
    }

    #[test]
    fn what_the_kernel_lacks_is_refused_in_one_line() {
        let tcp = TcpSettings { initial_window: Some(2), ..TcpSettings::default() };
        let flows = [with(Congestion::Westwood), flow("voip"), FlowConfig { tcp, ..flow("tcp") }];
        for flow in flows {
            let error = check(&scenario(&[flow])).expect_err("it is refused").to_string();
            assert!(error.contains("farhop sim") && error.lines().count() == 1, "{error}");
        }
        assert!(check(&scenario(&[with(Congestion::Cubic)])).is_ok());
    }

    #[test]
    fn radios_that_put_frames_together_are_refused() {
        let mut fast = scenario(&[]);
        fast.radio.phy = PhyKind::N;
        let error = check(&fast).expect_err("it is refused").to_string();
        assert!(error.contains("aggregate = 1") && error.lines().count() == 1, "{error}");
        fast.radio.aggregate = 1;
        assert!(check(&fast).is_ok());
    }

    #[test]
    fn radios_that_do_not_hear_each_other_have_rates_of_their_own() {
        let text = r#"{ "name": "two", "duration_s": 1, "radio": { "phy": "802.11n" },
            "node": [{ "name": "a" }, { "name": "b" }, { "name": "c" }],
            "link": [{ "between": ["a", "b"], "distance_km": 1, "radio": { "aggregate": 1 } },
                     { "between": ["b", "c"], "distance_km": 1,
                       "radio": { "phy": "802.11ac", "width_mhz": 80, "aggregate": 1,
                                  "channel": 2 } }] }"#;
        let mut apart: Scenario = serde_json::from_str(text).expect("a good scenario");
        assert!(check(&apart).is_ok(), "no radio is as [radio] says");
        apart.link[1].radio = None;
        let error = check(&apart).expect_err("it is refused").to_string();
        assert!(error.contains("'b'") && error.contains("aggregate = 1"), "{error}");
    }

    #[test]
    fn radios_that_would_need_several_rates_are_refused() {
        let text = r#"{ "name": "cell", "duration_s": 1,
            "radio": { "phy": "802.11g", "mixed": true },
            "node": [{ "name": "ap" },
                     { "name": "old", "radio": { "phy": "802.11b", "mixed": false } }],
            "link": [{ "between": ["ap", "old"], "distance_km": 0.1 }] }"#;
        let mut mixed: Scenario = serde_json::from_str(text).expect("a good scenario");
        let error = check(&mixed).expect_err("it is refused").to_string();
        assert!(error.contains("54 Mb/s") && error.lines().count() == 1, "{error}");
        mixed.stack.link = LinkConfig::Wild(Default::default());
        assert!(check(&mixed).is_ok(), "it names the rate of each frame");
        mixed.stack.link = LinkConfig::default();
        mixed.radio.rate_mbps = Some(11.0);
        assert!(check(&mixed).is_ok());
    }
}
