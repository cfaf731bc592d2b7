//! From the state of a world at its end to the report.

use std::collections::BTreeMap;

use farhop_proto::base::{DropCause, Duration, Instant};
use farhop_proto::link::{LinkStatus, NeighbourStatus};
use farhop_proto::stack::{Scenario, StackStatus};

use super::report::{
    AdversaryReport, AirReport, Counters, FlowReport, LinkReport, NodeReport, Report,
};
use super::traffic::{Flow, Traffic};
use super::world::{Node, World};
use crate::radio::ChipStats;

pub(super) fn report(
    scenario: &Scenario,
    world: &World,
    traffic: &Traffic,
    end: Instant,
    bin: Duration,
) -> Report {
    let states: Vec<StackStatus> =
        world.nodes.iter().map(|node| node.stack.status(node.local(end))).collect();
    let run = end.since(Instant::ZERO);
    let chips: Vec<ChipStats> = world.nodes.iter().map(|node| chip_stats(world, node)).collect();
    let mut links = Vec::new();
    let mut nodes = Vec::new();
    for ((node, status), chip) in world.nodes.iter().zip(&states).zip(&chips) {
        nodes.push(node_report(&node.plan.name, status, chip));
        for neighbour in &status.link.neighbours {
            let to = scenario.node_name(neighbour.node).unwrap_or_default();
            let peer = &chips[usize::from(neighbour.node.0) - 1];
            let air = air_report(&status.link, chip, peer, run);
            links.push(link_report(&node.plan.name, to, &status.link.kind, neighbour, air));
        }
    }
    Report {
        scenario: scenario.name.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
        driver: "sim".into(),
        simulated_s: run.as_secs_f64(),
        events: world.medium.events() + world.wakeups,
        frames_on_air: world.medium.frames_on_air(),
        flows: traffic.flows.iter().map(|flow| flow_report(flow, world, end, bin)).collect(),
        links,
        nodes,
        adversary: world
            .hostile
            .as_ref()
            .map(|hostile| AdversaryReport { rejected: rejected(&states), ..hostile.report() }),
        ..Report::default()
    }
}

/// The frames that the keys of all nodes refused, by reason.
pub fn rejected(states: &[StackStatus]) -> Counters {
    let mut sum = Counters::new();
    for (reason, count) in states.iter().flat_map(|state| &state.security).flat_map(|s| &s.rejected)
    {
        *sum.entry(reason.clone()).or_default() += count;
    }
    sum
}

/// The counters of all radios of a node together.
fn chip_stats(world: &World, node: &Node) -> ChipStats {
    node.radios().fold(ChipStats::default(), |sum, radio| sum.plus(&world.medium.stats(radio)))
}

fn flow_report(flow: &Flow, world: &World, end: Instant, bin: Duration) -> FlowReport {
    let mut before = 0;
    let mbps = |bytes: u64| bytes as f64 * 8.0 / bin.as_secs_f64() / 1e6;
    let over_time = flow.bins.iter().map(|total| {
        let bytes = total - before;
        before = *total;
        mbps(bytes)
    });
    let mut report = FlowReport {
        name: flow_name(&flow.config),
        from: flow.config.from.clone(),
        to: flow.config.to.clone(),
        transport: transport_name(&flow.config),
        delivered_bytes: flow.delivered,
        goodput_mbps: flow.goodput_mbps(end),
        completed_s: flow.completed_s(),
        start_s: flow.config.start_s,
        bin_s: bin.as_secs_f64(),
        over_time_mbps: over_time.collect(),
        ..FlowReport::default()
    };
    if flow.has_started() {
        flow.app.report(world, end, &mut report);
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

/// The transport of a flow with its congestion control, in reports.
pub fn transport_name(config: &farhop_proto::stack::FlowConfig) -> String {
    if config.kind.is_tcp() { format!("tcp/{}", config.congestion.name()) } else { "udp".into() }
}

/// One direction of a link as the sender's link protocol and radio saw it.
pub fn link_report(
    from: &str,
    to: &str,
    protocol: &str,
    neighbour: &NeighbourStatus,
    air: AirReport,
) -> LinkReport {
    LinkReport {
        from: from.into(),
        to: to.into(),
        protocol: protocol.into(),
        loss_estimate: neighbour.loss,
        sync_error_us: neighbour.sync_error_ns.map(|nanos| nanos as f64 / 1e3),
        air,
    }
}

/// Shares of a run's time that a radio spent. What collided is not counted as data as well.
pub fn air_report(
    link: &LinkStatus,
    chip: &ChipStats,
    peer: &ChipStats,
    run: Duration,
) -> AirReport {
    let share = |span: Duration| span.as_secs_f64() / run.as_secs_f64();
    let planned = link.air;
    let collided = share(peer.air_collided);
    let parts = [planned.data, planned.retransmission, planned.coding].map(share);
    let sum: f64 = parts.iter().sum();
    let intact = if sum > 0.0 { (1.0 - collided / sum).max(0.0) } else { 1.0 };
    let air = AirReport {
        data: parts[0] * intact,
        retransmission: parts[1] * intact,
        coding: parts[2] * intact,
        acknowledgement: share(planned.acknowledgement + chip.air_ack),
        guard: share(planned.guard),
        collision: collided.min(sum),
        idle: 0.0,
    };
    let used = air.data
        + air.retransmission
        + air.coding
        + air.acknowledgement
        + air.guard
        + air.collision;
    AirReport { idle: (1.0 - used).max(0.0), ..air }
}

/// One node's counters.
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
    let top = [("sent", flows.sent), ("received", flows.received)];
    let layers = BTreeMap::from([
        ("link".into(), link.collect()),
        ("routing".into(), Counters::from([("forwarded".into(), status.routing.forwarded)])),
        ("flows".into(), top.map(|(name, count)| (name.into(), count)).into()),
        ("radio".into(), chip.counters()),
    ]);
    NodeReport { name: name.into(), drops, layers }
}

fn cause_name(cause: DropCause) -> &'static str {
    match cause {
        DropCause::QueueFull => "queue-full",
        DropCause::NoRoute => "no-route",
        DropCause::HopLimit => "hop-limit",
        DropCause::Retries => "retries",
        DropCause::Malformed => "malformed",
        DropCause::TooLong => "too-long",
    }
}
