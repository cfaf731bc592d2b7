//! Checks of the application and the transport of a flow.

use super::super::plan::Topology;
use super::super::scenario::{Congestion, FlowConfig, FlowKind, Scenario};
use super::Found;

/// Checks everything that does not depend on other parts of the scenario.
pub(super) fn check_flow_kind(found: &mut Found, path: &str, flow: &FlowConfig) {
    if flow.bytes == Some(0) {
        let help = "at least 1, or leave it out to send until the end";
        found.add(format!("{path}.bytes"), "a flow of no bytes", help);
    }
    let size = flow.size_bytes as f64;
    found.number(
        format!("{path}.size_bytes"),
        size,
        16.0..=1472.0,
        "a size of a datagram in bytes",
    );
    if let Some(rate) = flow.rate_mbps {
        found.number(format!("{path}.rate_mbps"), rate, 1e-6..=1e5, "a rate in Mb/s");
    }
    if let Some(dscp) = flow.dscp {
        found.number(format!("{path}.dscp"), dscp.into(), 0.0..=63.0, "a code point (DSCP)");
    }
    check_keys(found, path, flow);
    check_tcp(found, &format!("{path}.tcp"), flow);
    check_applications(found, path, flow);
}

/// Checks the shortest path of a flow, for which no shorter one appears later.
/// `weak` returns the signal from one end at the other and the one that is needed, if it is weaker.
pub(super) fn check_way(
    found: &mut Found,
    index: usize,
    flow: &FlowConfig,
    hops: Option<u16>,
    weak: &dyn Fn() -> Option<(f64, f64)>,
) {
    let FlowConfig { from, to, kind, .. } = flow;
    let path = format!("flow[{index}].to");
    let Some(hops) = hops else {
        if let Some((signal, needed)) = weak() {
            let message = format!(
                "of '{from}' {signal:.1} dBm come to '{to}', and its radio needs {needed:.1} dBm"
            );
            let help = "more power or gain, a lower bit-rate, a shorter link, or nodes between";
            return found.add(path, message, help);
        }
        let help = "a chain of links between them over which both can be received";
        return found.add(path, format!("no links lead from '{from}' to '{to}'"), help);
    };
    let what = if *kind == FlowKind::Hop { "blocks" } else { "packets" };
    if let Some(most) = flow.most_hops().filter(|most| hops > u16::from(*most)) {
        let message = format!("'{from}' and '{to}' are {hops} hops apart: {what} live for {most}");
        found.add(path, message, format!("a way of at most {most} hops"));
    }
}

/// Most flows of a scenario: each has a port of its own.
const FLOWS: u64 = 60_000;

/// Finds more flows than there are ports.
pub(super) fn check_count(found: &mut Found, scenario: &Scenario) {
    let of = |flow: &FlowConfig| flow.random.as_ref().map_or(1, |random| random.count);
    let all = scenario.flow.iter().map(of).fold(0, u64::saturating_add);
    if all > FLOWS {
        found.add(
            "flow",
            format!("{all} flows have no ports of their own"),
            format!("{FLOWS} or fewer"),
        );
    }
}

/// Checks that random flows found enough ends.
pub(super) fn check_drawn(found: &mut Found, scenario: &Scenario, topology: &Topology) {
    if scenario.flow.iter().all(|flow| flow.random.is_none()) {
        return;
    }
    for (index, drawn) in scenario.drawn(topology).into_iter().enumerate() {
        let flow = &scenario.flow[index];
        let Some(random) = flow.random.as_ref().filter(|random| random.count > drawn as u64) else {
            continue;
        };
        let most = random.hops.into_iter().chain(flow.most_hops()).min();
        let near = most.map(|most| format!(", at most {most} hops apart")).unwrap_or_default();
        let has_relays = flow.relay.as_ref().is_some_and(|relay| !relay.at.is_empty());
        let others = if has_relays { ", beside the relays" } else { "" };
        found.add(
            format!("flow[{index}].random"),
            format!("ends were found for {drawn} of {} flows only", random.count),
            format!("two nodes or more that links join{near}{others}"),
        );
    }
}

/// Checks for keys that belong to flows of another kind.
fn check_keys(found: &mut Found, path: &str, flow: &FlowConfig) {
    let kind = flow.kind;
    let paced = matches!(kind, FlowKind::Udp | FlowKind::OnOff);
    let with_tcp = kind.is_tcp();
    let carries_files = matches!(kind, FlowKind::Tcp | FlowKind::Hop | FlowKind::Relayed);
    let keys = [
        ("bytes", flow.bytes.is_some(), carries_files, "kind = \"tcp\", \"hop\" or \"relayed\""),
        ("rate_mbps", flow.rate_mbps.is_some(), paced, "kind = \"udp\" or \"on-off\""),
        ("congestion", flow.congestion != Congestion::default(), with_tcp, "kind = \"tcp\""),
        ("tcp", !flow.tcp.is_default(), with_tcp, "kind = \"tcp\" or \"web\""),
        ("on_off", flow.on_off.is_some(), kind == FlowKind::OnOff, "kind = \"on-off\""),
        ("web", flow.web.is_some(), kind == FlowKind::Web, "kind = \"web\""),
        ("voip", flow.voip.is_some(), kind == FlowKind::Voip, "kind = \"voip\""),
        ("dscp", flow.dscp.is_some(), kind != FlowKind::Hop, "a kind other than \"hop\""),
        ("relay", flow.relay.is_some(), kind == FlowKind::Relayed, "kind = \"relayed\""),
    ];
    for (key, given, fits, right) in keys {
        if given && !fits {
            let message = format!("a flow of kind \"{}\" has no {key}", kind.name());
            found.add(format!("{path}.{key}"), message, format!("{right}, or no {key}"));
        }
    }
}

fn check_tcp(found: &mut Found, path: &str, flow: &FlowConfig) {
    let tcp = &flow.tcp;
    let checks = [
        (
            "segment_bytes",
            tcp.segment_bytes.map(|n| n as f64),
            64.0..=1_460.0,
            "a segment in bytes",
        ),
        ("delayed_ack", tcp.delayed_ack.map(f64::from), 1.0..=64.0, "a number of segments"),
        ("delayed_ack_ms", tcp.delayed_ack_ms, 1.0..=500.0, "a delay in milliseconds"),
        (
            "initial_window",
            tcp.initial_window.map(f64::from),
            1.0..=1_000.0,
            "a window in segments",
        ),
        ("max_window", tcp.max_window.map(f64::from), 1.0..=1e6, "a window in segments"),
        ("min_rto_ms", tcp.min_rto_ms, 1.0..=60_000.0, "a time-out in milliseconds"),
        (
            "receive_window_bytes",
            tcp.receive_window_bytes.map(|n| n as f64),
            1_460.0..=1e9,
            "a window in bytes",
        ),
        (
            "send_buffer_bytes",
            tcp.send_buffer_bytes.map(|n| n as f64),
            1_460.0..=1e9,
            "a buffer in bytes",
        ),
    ];
    for (key, value, range, what) in checks {
        if let Some(value) = value {
            found.number(format!("{path}.{key}"), value, range, what);
        }
    }
    let has_timestamps = tcp.config(flow.congestion).timestamps;
    if has_timestamps && tcp.segment_bytes.is_some_and(|bytes| bytes > 1_448) {
        let message = "with timestamps the packet would be longer than 1,500 bytes";
        found.add(format!("{path}.segment_bytes"), message, "at most 1448, or timestamps = false");
    }
}

fn check_applications(found: &mut Found, path: &str, flow: &FlowConfig) {
    let times = [
        ("on_off.on_s", flow.on_off.map(|on_off| on_off.on_s), 1e-3..=1e6),
        ("on_off.off_s", flow.on_off.map(|on_off| on_off.off_s), 1e-3..=1e6),
        ("web.think_s", flow.web.map(|web| web.think_s), 1e-3..=1e6),
        ("web.parse_s", flow.web.map(|web| web.parse_s), 0.0..=1e3),
        ("voip.playout_ms", flow.voip.map(|voip| voip.playout_ms), 0.0..=1e4),
        ("voip.coding_ms", flow.voip.map(|voip| voip.coding_ms), 0.0..=1e3),
        ("voip.extra_ms", flow.voip.map(|voip| voip.extra_ms), 0.0..=1e4),
    ];
    for (key, value, range) in times {
        if let Some(value) = value {
            found.number(format!("{path}.{key}"), value, range, "a length of time");
        }
    }
    if let Some(web) = flow.web {
        let (connections, request) = (web.connections.into(), web.request_bytes.into());
        let key = format!("{path}.web.connections");
        found.number(key, connections, 1.0..=64.0, "a number of connections");
        let key = format!("{path}.web.request_bytes");
        found.number(key, request, 1.0..=65_536.0, "a size of a request in bytes");
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::scenario::{OnOffConfig, TcpSettings, WebConfig};
    use super::*;

    fn paths(flow: &FlowConfig) -> Vec<String> {
        let flow = FlowConfig { size_bytes: 1_440, ..flow.clone() };
        let mut found = Found::default();
        check_flow_kind(&mut found, "flow[0]", &flow);
        found.0.into_iter().map(|problem| problem.path).collect()
    }

    #[test]
    fn ways_that_are_longer_than_packets_live_are_refused() {
        let said = |kind, hops| {
            let mut found = Found::default();
            let flow = FlowConfig { kind, ..FlowConfig::default() };
            check_way(&mut found, 0, &flow, Some(hops), &|| None);
            found.0.pop().map(|problem| problem.message)
        };
        for (kind, most) in [(FlowKind::Udp, 64), (FlowKind::Tcp, 64), (FlowKind::Hop, 50)] {
            assert_eq!(said(kind, most), None, "{kind:?}");
            let message = said(kind, most + 1).expect("too far");
            assert!(message.contains(&format!("{} hops apart", most + 1)), "{message}");
        }
        assert_eq!(said(FlowKind::Relayed, 200), None);
    }

    #[test]
    fn keys_of_other_kinds_are_refused() {
        let flow = FlowConfig {
            kind: FlowKind::Udp,
            bytes: Some(1),
            congestion: Congestion::Cubic,
            web: Some(WebConfig::default()),
            ..FlowConfig::default()
        };
        assert_eq!(paths(&flow), ["flow[0].bytes", "flow[0].congestion", "flow[0].web"]);
    }

    #[test]
    fn impossible_settings_are_found_where_they_stand() {
        let tcp = TcpSettings {
            segment_bytes: Some(1_460),
            delayed_ack: Some(0),
            ..TcpSettings::default()
        };
        let flow = FlowConfig { tcp, ..FlowConfig::default() };
        assert_eq!(paths(&flow), ["flow[0].tcp.delayed_ack", "flow[0].tcp.segment_bytes"]);
        let on_off = Some(OnOffConfig { on_s: f64::NAN, ..OnOffConfig::default() });
        let flow = FlowConfig { kind: FlowKind::OnOff, on_off, ..FlowConfig::default() };
        assert_eq!(paths(&flow), ["flow[0].on_off.on_s"]);
    }
}
