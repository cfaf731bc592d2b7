//! Which targets are run with real daemons too, and what differs there.

use farhop_proto::link::secure::{SecurityConfig, SecurityMode};
use farhop_proto::stack::{Congestion, HostConfig, LinkConfig, Scenario, TcpSettings};

use super::{distance, relays};
use crate::{Case, Effort};

/// Length of a run, in seconds, and of a quick one.
const SECONDS: [f64; 2] = [20.0, 5.0];

/// The runs that a target needs in a lab; empty if none of its rows is measured there.
pub(crate) fn cases(target: &str, quick: bool) -> Vec<Case> {
    let effort = Effort { seeds: 1, quick };
    let all = match target {
        "W-F9b" | "W-F9c" => distance::f9_cases(effort),
        "W-T2" => relays::t2_cases(effort),
        "W-T3" => relays::t3_cases(effort),
        _ => Vec::new(),
    };
    let is_needed = |case: &Case| match target {
        "W-F9b" => case.key.contains("/both/0/"),
        "W-F9c" => case.key.contains("/both/"),
        _ => true,
    };
    let needed = all.into_iter().filter(|case| is_needed(case) && can_run(&case.scenario));
    needed.map(|case| in_lab(case, quick)).collect()
}

/// In a lab a node has one radio, unless the link has slots.
fn can_run(scenario: &Scenario) -> bool {
    let has_slots = matches!(scenario.stack.link, LinkConfig::Wild(_));
    has_slots || scenario.plan_for_flows().nodes.iter().all(|node| node.radios.len() == 1)
}

/// With the kernel's TCP, which a lab cannot set back to that of 2007, hosts that are as late as
/// those of a lab, and without sealing, which the paper did not have.
fn in_lab(case: Case, quick: bool) -> Case {
    let mut scenario = case.scenario;
    scenario.duration_s = SECONDS[usize::from(quick)];
    scenario.security = Some(SecurityConfig { mode: SecurityMode::Off, ..Default::default() });
    let host = serde_json::json!({
        "wake_us": [[0.5, 60], [0.9, 120], [0.99, 900], [0.999, 2500], [1, 4000]]
    });
    scenario.host = serde_json::from_value::<HostConfig>(host).expect("a setting of hosts");
    for flow in &mut scenario.flow {
        (flow.congestion, flow.tcp) = (Congestion::Reno, TcpSettings::default());
    }
    Case::new(format!("lab/{}", case.key), scenario)
}
