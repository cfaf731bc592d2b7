//! Builds the report from the state of a world at its end.

use std::collections::BTreeMap;

use farhop_proto::base::{DropCause, Duration, Instant, NodeId};
use farhop_proto::stack::{FlowKind, Scenario, StackStatus};

use super::air_time::LinkTimes;
use super::report::{Counters, FlowReport, LinkReport, NodeReport, Report};
use super::slots::SlotErrors;
use super::traffic::{Flow, Traffic};
use super::world::{Node, World, is_told_overheard};
use crate::radio::{ChipStats, Medium};

/// Builds the report, and frees the world piece by piece meanwhile: of a large network, both
/// together would need much memory.
pub(super) fn report(
    scenario: &Scenario,
    world: World,
    traffic: &Traffic<'_>,
    slots: Option<&SlotErrors>,
    (end, bin): (Instant, Duration),
) -> Report {
    let World { nodes: ends, medium, wakeups, hostile, .. } = world;
    let run = end.since(Instant::ZERO);
    let chips: Vec<ChipStats> = ends.iter().map(|node| chip_stats(&medium, node)).collect();
    let times: LinkTimes = medium.links_air().collect();
    let report = Report {
        scenario: scenario.name.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
        driver: "sim".into(),
        simulated_s: run.as_secs_f64(),
        events: medium.events() + wakeups,
        frames_on_air: medium.frames_on_air(),
        trace_hash: Some(format!("{:016x}", medium.trace_hash())),
        ..Report::default()
    };
    drop(medium);
    let flows = traffic.flows.iter().enumerate().map(|(index, flow)| {
        let mbps = |(number, bytes): (u64, &Vec<u64>)| {
            // The last bin may be shorter than the others.
            let length = (end - (Instant::ZERO + bin * number)).min(bin);
            bytes[index] as f64 * 8.0 / length.as_secs_f64() / 1e6
        };
        let over_time_mbps = (0..).zip(&traffic.bins).map(mbps).collect();
        FlowReport { over_time_mbps, bin_s: bin.as_secs_f64(), ..flow_report(flow, &ends, end) }
    });
    let flows = flows.collect();
    let mut adversary = hostile.map(|hostile| hostile.report());
    let mut links = Vec::new();
    let mut nodes = Vec::with_capacity(ends.len());
    for ((node, end_node), chip) in scenario.node.iter().zip(ends).zip(&chips) {
        let mut status = end_node.stack.status(end_node.local(end));
        let own = NodeId(nodes.len() as u16 + 1);
        if !is_told_overheard(&end_node.stack, adversary.is_some()) {
            *status.link.counters.entry("overheard".into()).or_default() += chip.overheard;
        }
        drop(end_node);
        if let Some(adversary) = &mut adversary {
            add_rejected(&mut adversary.rejected, &status);
        }
        nodes.push(node_report(&node.name, &status, chip));
        for neighbour in &status.link.neighbours {
            let to = scenario.node_name(neighbour.node).unwrap_or_default();
            let names = (node.name.as_str(), to);
            let link = times.link_report(own, names, &status.link, neighbour, run);
            let error = slots.and_then(|slots| slots.of(own, neighbour.node));
            let slot_error_us = error.map(|error| error.as_secs_f64() * 1e6);
            links.push(LinkReport { slot_error_us, ..link });
        }
    }
    Report { flows, links, nodes, adversary, ..report }
}

/// Adds a node's counts of frames that its keys refused, by reason.
pub fn add_rejected(sum: &mut Counters, status: &StackStatus) {
    for (reason, count) in status.security.iter().flat_map(|security| &security.rejected) {
        *sum.entry(reason.clone()).or_default() += count;
    }
}

/// Sums of the counters of all radios of a node.
fn chip_stats(medium: &Medium, node: &Node) -> ChipStats {
    node.radios().fold(ChipStats::default(), |sum, radio| sum.plus(&medium.stats(radio)))
}

fn flow_report(flow: &Flow<'_>, nodes: &[Node], end: Instant) -> FlowReport {
    let mut report = FlowReport {
        name: flow_name(flow.config),
        from: flow.config.from.clone(),
        to: flow.config.to.clone(),
        transport: transport_name(flow.config),
        delivered_bytes: flow.delivered,
        goodput_mbps: flow.goodput_mbps(end),
        file_bytes: flow.config.bytes,
        completed_s: flow.completed_s(),
        start_s: flow.config.start_s,
        ..FlowReport::default()
    };
    if flow.has_started() {
        flow.app.report(nodes, end, &mut report);
    }
    report
}

/// The name of a flow in reports.
pub fn flow_name(config: &farhop_proto::stack::FlowConfig) -> String {
    if config.name.is_empty() {
        format!("{} to {}", config.from, config.to)
    } else {
        config.name.clone()
    }
}

/// The transport of a flow and its congestion control, in reports.
pub fn transport_name(config: &farhop_proto::stack::FlowConfig) -> String {
    match config.kind {
        FlowKind::Hop => "hop".into(),
        FlowKind::Relayed => format!("relayed tcp/{}", config.congestion.name()),
        kind if kind.is_tcp() => format!("tcp/{}", config.congestion.name()),
        _ => "udp".into(),
    }
}

/// The report of one node: its drops, and the counters of its layers.
pub fn node_report(name: &str, status: &StackStatus, chip: &ChipStats) -> NodeReport {
    let mut drops = Counters::new();
    for (cause, count) in status.link.drops.iter().chain(&status.routing.drops) {
        *drops.entry(cause_name(*cause).into()).or_default() += count;
    }
    let flows = status.flows;
    for (cause, count) in [
        ("queue-full", flows.queue_full),
        ("no-node", flows.no_node),
        ("host-full", flows.host_full),
    ] {
        *drops.entry(cause.into()).or_default() += count;
    }
    drops.retain(|_, count| *count > 0);
    let link = status.link.counters.iter().map(|(name, count)| (name.clone(), *count));
    let mut routing = Counters::from([("forwarded".into(), status.routing.forwarded)]);
    let counters = status.routing.counters.iter();
    routing.extend(counters.map(|(name, count)| (name.clone(), *count)));
    let top = [("sent", flows.sent), ("received", flows.received)];
    // Only real hosts send multicast, so the counter is left out if it is zero.
    let groups = Some(("multicast", flows.multicast)).filter(|(_, count)| *count > 0);
    let top = top.into_iter().chain(groups);
    let mut layers = BTreeMap::from([
        ("link".into(), link.collect()),
        ("routing".into(), routing),
        ("flows".into(), top.map(|(name, count)| (name.into(), count)).collect()),
        ("radio".into(), chip.counters()),
    ]);
    if let Some(security) = &status.security {
        let rejected = security.rejected.iter();
        let rejected =
            rejected.map(|(reason, count)| (format!("rejected {reason}").into(), *count));
        let counters = security.counters.iter().map(|(name, count)| (name.clone(), *count));
        layers.insert("security".into(), counters.chain(rejected).collect());
    }
    if let Some(hop) = &status.hop {
        let counters = hop.iter().map(|(name, count)| (name.clone(), *count));
        layers.insert("hop".into(), counters.collect());
    }
    NodeReport { name: name.into(), drops, layers }
}

fn cause_name(cause: DropCause) -> &'static str {
    match cause {
        DropCause::QueueFull => "queue-full",
        DropCause::Early => "early",
        DropCause::NoRoute => "no-route",
        DropCause::Foreign => "foreign",
        DropCause::HopLimit => "hop-limit",
        DropCause::Retries => "retries",
        DropCause::Malformed => "malformed",
        DropCause::TooLong => "too-long",
    }
}
