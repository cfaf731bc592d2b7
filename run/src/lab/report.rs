//! Makes the report of a run from the statuses of a lab's processes.

use std::io;

use farhop_proto::base::{Duration, NodeId};
use farhop_proto::stack::{Scenario, StackStatus};
use farhop_sim::engine::{
    AdversaryReport, Counters, Distribution, FlowReport, Lateness, LinkTimes, OWN_NAME,
    ProcessLateness, Report, add_rejected, flow_name, node_report, transport_name,
};
use farhop_sim::radio::{ChipStats, LinkAir};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::stranger::StrangerStatus;
use super::traffic::{BIN, Measured};
use super::{Doing as _, LabError};
use crate::air::AirStatus;
use crate::lateness::WakeupStats;

/// The report of a run. `before` and `after` are the statuses of the air and of the nodes, in this
/// order, at its beginning and its end.
pub(super) fn build(
    scenario: &Scenario,
    flows: Vec<Measured>,
    before: &[Value],
    after: &[Value],
) -> Result<Report, LabError> {
    let (air_before, air): (AirStatus, AirStatus) = (read(&before[0])?, read(&after[0])?);
    let [stacks_before, stacks] = [before, after].map(|all| {
        let stacks = all[1..].iter().map(|status| read::<StackStatus>(&status["stack"]));
        stacks.collect::<Result<Vec<_>, _>>()
    });
    let (stacks_before, stacks) = (stacks_before?, stacks?);
    let mut report = Report {
        scenario: scenario.name.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
        driver: "lab".into(),
        simulated_s: scenario.duration_s,
        frames_on_air: air.frames_on_air.saturating_sub(air_before.frames_on_air),
        lateness: Some(Lateness {
            answers_us: air.answers_us,
            ..lateness(scenario, before, after)?
        }),
        ..Report::default()
    };
    for (config, measured) in scenario.flow.iter().zip(flows) {
        report.flows.push(flow_report(config, measured));
    }
    let chip = |node: usize| -> ChipStats {
        let name = &scenario.node[node].name;
        let is_of = |radio: &str| radio.split('/').next() == Some(name);
        let radios = air.radios.iter().filter(|(radio, _)| is_of(radio));
        radios.fold(ChipStats::default(), |sum, (_, (chip, _))| sum.plus(chip))
    };
    // Air times since the run began; daemons were up before.
    let times: LinkTimes = air.links.iter().map(|link| since(*link, &air_before.links)).collect();
    for (index, mut stack) in stacks.into_iter().enumerate() {
        let name = &scenario.node[index].name;
        report.nodes.push(node_report(name, &stack, &chip(index)));
        let [from, until] =
            [before, after].map(|all| all[index + 1]["uptime_s"].as_f64().unwrap_or_default());
        // A daemon that was restarted began to count anew.
        let is_same = until > from;
        if is_same {
            stack.link.air = stack.link.air.since(&stacks_before[index].link.air);
        }
        let span = Duration::from_secs_f64(if is_same { until - from } else { until });
        for neighbour in &stack.link.neighbours {
            let to = &scenario.node[usize::from(neighbour.node.0) - 1].name;
            let own = NodeId(index as u16 + 1);
            report.links.push(times.link_report(own, (name, to), &stack.link, neighbour, span));
        }
    }
    Ok(report)
}

/// The air time on a link since an earlier state of all links.
fn since(link: LinkAir, before: &[LinkAir]) -> LinkAir {
    let is_it = |other: &&LinkAir| (other.from, other.to) == (link.from, link.to);
    let Some(before) = before.iter().find(is_it) else { return link };
    LinkAir {
        answered: link.answered.saturating_sub(before.answered),
        collided: link.collided.saturating_sub(before.collided),
        ..link
    }
}

/// What the strangers did in a run; `before` and `after` are as in [`build`]. `accepted` counts
/// frames that nodes accepted from the second antenna, to which the air assigns what strangers make
/// up.
pub(super) fn adversary(
    strangers: &[StrangerStatus],
    before: &[Value],
    after: &[Value],
) -> Result<AdversaryReport, LabError> {
    let (air_before, air): (AirStatus, AirStatus) = (read(&before[0])?, read(&after[0])?);
    let by_antenna = |antenna: usize| {
        let of = |status: &Value| read::<Vec<u64>>(&status["driver"]["believed_by_antenna"]);
        after[1..].iter().map(|status| Ok(of(status)?[antenna])).sum::<Result<u64, LabError>>()
    };
    let stacks: Vec<StackStatus> =
        after[1..].iter().map(|status| read(&status["stack"])).collect::<Result<_, _>>()?;
    let (mut by_kind, mut rejected) = (Counters::new(), Counters::new());
    stacks.iter().for_each(|stack| add_rejected(&mut rejected, stack));
    let own_name: u64 = after[1..].iter().map(|node| of_devices(node, "dropped", OWN_NAME)).sum();
    if own_name > 0 {
        rejected.insert(OWN_NAME.into(), own_name);
    }
    for (kind, count) in strangers.iter().flat_map(|stranger| &stranger.by_kind) {
        *by_kind.entry(kind.clone().into()).or_default() += count;
    }
    Ok(AdversaryReport {
        sent: air.hostile.sent - air_before.hostile.sent,
        accepted: by_antenna(1)?,
        relayed: by_antenna(2)?,
        by_kind,
        rejected,
        honest_goodput_ratio: None,
    })
}

pub(super) fn read<T: DeserializeOwned>(value: &Value) -> Result<T, LabError> {
    T::deserialize(value).map_err(io::Error::other).doing("a status that is not understood")
}

fn flow_report(config: &farhop_proto::stack::FlowConfig, measured: Measured) -> FlowReport {
    let mut before = 0;
    let over_time = measured.bins.iter().map(|total| {
        let bytes = total - before;
        before = *total;
        bytes as f64 * 8.0 / BIN.as_secs_f64() / 1e6
    });
    let mut report = FlowReport {
        name: flow_name(config),
        from: config.from.clone(),
        to: config.to.clone(),
        transport: transport_name(config),
        sent_bytes: measured.sent_bytes,
        delivered_bytes: measured.delivered_bytes,
        goodput_mbps: goodput_mbps(&measured),
        file_bytes: config.bytes,
        completed_s: measured.completed_s,
        retransmissions: measured.retransmissions,
        start_s: config.start_s,
        bin_s: BIN.as_secs_f64(),
        over_time_mbps: over_time.collect(),
        ..FlowReport::default()
    };
    if let Some(mut udp) = measured.udp {
        // A source without a rate sends more than its own node accepts, and no socket tells how
        // much that was: so it is not known what the network lost.
        report.loss = config.rate_mbps.and_then(|_| udp.loss());
        report.delay_ms = Distribution::of(&mut udp.delays_ms);
        report.jitter_ms = Distribution::of(&mut udp.jitters_ms);
    }
    report
}

fn goodput_mbps(measured: &Measured) -> f64 {
    let bytes = measured.delivered_bytes.saturating_sub(measured.before_bytes);
    if measured.span_s > 0.0 { bytes as f64 * 8.0 / measured.span_s / 1e6 } else { 0.0 }
}

/// Sum of a counter over the devices of a node.
fn of_devices(node: &Value, part: &str, count: &str) -> u64 {
    let devices = node["devices"].as_array().into_iter().flatten();
    devices.filter_map(|device| device[part][count].as_u64()).sum()
}

/// How late the processes were between the two statuses.
fn lateness(scenario: &Scenario, before: &[Value], after: &[Value]) -> Result<Lateness, LabError> {
    let mut processes = Vec::new();
    let names = ["air"].into_iter().chain(scenario.node.iter().map(|node| node.name.as_str()));
    for ((name, before), after) in names.zip(before).zip(after) {
        let (first, last): (WakeupStats, WakeupStats) =
            (read(&before["wakeups"])?, read(&after["wakeups"])?);
        let cpu = |status: &Value| status["cpu_s"].as_f64();
        processes.push(ProcessLateness {
            name: name.into(),
            wakeups: last.timer - first.timer,
            late_1ms: last.late_1ms - first.late_1ms,
            late_guard: last.late_guard - first.late_guard,
            late_1s: last.late_1s - first.late_1s,
            // The worst of the process's whole life: maxima have no difference.
            worst_us: last.worst_us,
            cpu_s: cpu(after).zip(cpu(before)).map(|(after, before)| after - before),
            memory_kb: after["memory_kb"].as_u64(),
        });
    }
    let sum = |statuses: &[Value], of: &dyn Fn(&Value) -> u64| statuses[1..].iter().map(of).sum();
    let between = |of: &dyn Fn(&Value) -> u64| {
        let (last, first): (u64, u64) = (sum(after, of), sum(before, of));
        last - first
    };
    let slots = |status: &Value| status["stack"]["link"]["counters"]["slots"].as_u64().unwrap_or(0);
    let overrun = |status: &Value| of_devices(status, "sent", "slots_overrun");
    let (slots, overrun) = (between(&slots), between(&overrun));
    Ok(Lateness::judge(processes, slots, overrun, scenario.duration_s))
}

#[cfg(test)]
mod tests {
    use farhop_proto::stack::{FlowConfig, FlowKind};

    use super::*;
    use crate::lab::traffic::UdpMeasured;

    #[test]
    fn what_a_node_does_not_take_of_a_source_without_a_rate_is_no_loss() {
        let report = |rate_mbps| {
            let mut udp = UdpMeasured::default();
            (udp.expected, udp.received) = (1_000, 90);
            let config = FlowConfig { kind: FlowKind::Udp, rate_mbps, ..FlowConfig::default() };
            flow_report(&config, Measured { udp: Some(udp), ..Measured::default() })
        };
        assert_eq!(report(Some(2.0)).loss, Some(0.91));
        assert_eq!(report(None).loss, None);
    }
}
