//! What the kernels of a lab's nodes are told about TCP, and what they cannot be told.
//!
//! Congestion control is set at each socket. SACK, timestamps and ECN are settings of a network
//! namespace: all flows of a node share them. This machine's own settings stay as they are.

use farhop_proto::base::PhyKind;
use farhop_proto::stack::{
    Congestion, FlowConfig, FlowKind, RadioConfig, Scenario, TcpPreset, TcpSettings,
};
use farhop_sim::engine::flow_name;

use super::LabError;

/// A setting of a namespace, and its value.
pub(super) type Setting = (&'static str, &'static str);

/// Refuses radios that the emulated air does not know, and flows that the kernel and the lab's
/// programs cannot run.
pub(super) fn check(scenario: &Scenario) -> Result<(), LabError> {
    if let Some(whose) = unknown_to_air(scenario) {
        return Err(LabError::Refused(format!(
            "{whose}: radios of the lab send each frame by itself, as cards do with frames that \
             are injected: give it aggregate = 1, or use `farhop sim`"
        )));
    }
    if let Some((whose, rate)) = unknown_to_others(scenario) {
        return Err(LabError::Refused(format!(
            "{whose} sends at {rate} Mb/s, which not all radios know, and a radio of the lab sends \
             to all at one bit-rate: give it a lower one, or use `farhop sim`"
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

/// All settings of radios, and whose they are.
fn radios(scenario: &Scenario) -> impl Iterator<Item = (String, RadioConfig)> {
    let all = &scenario.radio;
    let of_nodes = scenario.node.iter().filter_map(|node| {
        let own = node.radio.as_ref()?.over(all);
        Some((format!("the radio of node '{}'", node.name), own))
    });
    let of_links = scenario.link.iter().filter_map(|link| {
        let [a, b] = &link.between;
        let own = link.radio.as_ref()?.over(all);
        Some((format!("the radio between '{a}' and '{b}'"), own))
    });
    std::iter::once(("[radio]".to_owned(), all.clone())).chain(of_nodes).chain(of_links)
}

/// Whose radio puts frames together.
fn unknown_to_air(scenario: &Scenario) -> Option<String> {
    let puts_together =
        |radio: &RadioConfig| matches!(radio.phy, PhyKind::N | PhyKind::Ac) && radio.aggregate > 1;
    radios(scenario).find_map(|(whose, radio)| puts_together(&radio).then_some(whose))
}

/// Whose radio sends at a rate that another one does not know, which knows lower ones of it.
fn unknown_to_others(scenario: &Scenario) -> Option<(String, f64)> {
    let all: Vec<(String, RadioConfig)> = radios(scenario).collect();
    let is_lost = |(_, sender): &&(String, RadioConfig)| {
        let (phy, rate) = (sender.phy(), sender.rate());
        all.iter().any(|(_, receiver)| {
            let theirs = receiver.phy();
            phy.rate_for(&theirs, rate).is_some_and(|known| known != rate)
        })
    };
    let (whose, sender) = all.iter().find(is_lost)?;
    Some((whose.clone(), sender.rate().mbps()))
}

/// The first thing of a flow that the lab does not have.
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

/// Why a lab would refuse the flows of a scenario, if it would.
pub fn refusal(scenario: &Scenario) -> Option<String> {
    check(scenario).err().map(|error| error.to_string())
}

/// What the namespace of a node is told.
///
/// Fails if the flows of the node want different things.
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
    use super::*;

    fn scenario(flows: &[FlowConfig]) -> Scenario {
        let between = |flow: &FlowConfig| FlowConfig {
            from: "hill".into(),
            to: "valley".into(),
            ..flow.clone()
        };
        Scenario { flow: flows.iter().map(between).collect(), ..Scenario::default() }
    }

    fn with(congestion: Congestion) -> FlowConfig {
        FlowConfig { congestion, ..FlowConfig::default() }
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
        let flows = [
            with(Congestion::Westwood),
            FlowConfig { kind: FlowKind::Voip, ..FlowConfig::default() },
            FlowConfig { tcp, ..FlowConfig::default() },
        ];
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
    fn radios_that_would_need_several_rates_are_refused() {
        let text = r#"{ "name": "cell", "duration_s": 1,
            "radio": { "phy": "802.11g", "mixed": true },
            "node": [{ "name": "ap" },
                     { "name": "old", "radio": { "phy": "802.11b", "mixed": false } }] }"#;
        let mut mixed: Scenario = serde_json::from_str(text).expect("a good scenario");
        let error = check(&mixed).expect_err("it is refused").to_string();
        assert!(error.contains("54 Mb/s") && error.lines().count() == 1, "{error}");
        mixed.radio.rate_mbps = Some(11.0);
        assert!(check(&mixed).is_ok());
    }
}
