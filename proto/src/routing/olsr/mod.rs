//! OLSR: every node knows the network and uses the routes with the fewest expected transmissions
//! (RFC 3626 with the link-quality extension of olsrd: ETX, all neighbours in topology messages).
//!
//! HELLOs tell each neighbour which nodes are heard and how well (`links`). Topology messages tell
//! all other nodes (`topology`); they are forwarded by relays, which each node chooses among its
//! neighbours (`relays`). Routes are computed from both (`paths`). Messages are broadcast over each
//! radio.
//!
//! Differences from the RFC:
//!
//! - There is no hysteresis, and neighbours are held longer, because the quality of a link says
//!   more.
//! - Flooded messages are repeated on lossy links, and most of them go a few hops only, as in olsrd
//!   (fish eye).
//! - All nodes flood all their neighbours (TC_REDUNDANCY 2), because the fewest transmissions are
//!   not always over relays.
//! - A link counts only if both of its ends report it, so that a node cannot draw traffic by a lie
//!   about another.
//! - Routes are computed at most once every `recompute_s`, so that they do not flutter, except when
//!   the link reports that a neighbour is gone.
//! - Nodes have one address, so there are no MID messages. Networks behind nodes are in the file of
//!   each node and not announced (HNA). Messages of other kinds are not forwarded.
//!
//! Transports keep the last next hop that they were told, for flows whose data waits until a node
//! can be reached again.

mod config;
mod flood;
mod links;
mod paths;
mod receive;
mod relays;
mod topology;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use serde::Serialize;

pub use self::config::OlsrConfig;
use self::flood::RadioOut;
use self::links::Links;
use self::paths::Cost;
use self::topology::TopologySet;
use super::forward::{Forwarder, NextHop, Routes};
use super::{NeighbourStatus, Routing, RoutingStatus, Signing};
use crate::base::{
    AddressPlan, Bitrate, Cx, Datagram, DatagramUp, Datagrams, Duration, Instant, Lane, Layer,
    Limit, Networks, NodeId, Packet, PacketUp, Packets, PublicKey, RadioId, Rng, Room, RoomBelow,
    Seed, named,
};

/// What each timer is for.
#[derive(Clone, Copy, Debug)]
enum Timer {
    Hello,
    Topology,
    /// Flooded messages that wait are sent.
    Flush,
    Compute,
}

const TIMERS: usize = 4;

/// The protocol at one node.
#[derive(Debug)]
pub struct Olsr {
    config: OlsrConfig,
    signing: Option<Signing>,
    rng: Rng,
    radios: Vec<RadioOut>,
    links: Links,
    topology: TopologySet,
    relays: Vec<NodeId>,
    table: Table,
    forwarder: Forwarder,
    timers: [Option<Instant>; TIMERS],
    is_born: bool,
    message_seq: u16,
    ansn: u16,
    /// Number of messages that were signed.
    signed: u64,
    /// Neighbours in the last topology message.
    told: Vec<NodeId>,
    told_at: Instant,
    /// How many topology messages in a row were early because neighbours came or went, and whether
    /// the next one is.
    hasty: u32,
    is_hasty: bool,
    /// The next one corrects what others know from before a restart.
    is_news: bool,
    computed: Option<Instant>,
    /// Neighbours with which the routes were computed.
    neighbours: BTreeMap<NodeId, (Cost, RadioId)>,
    /// Limits how many old messages are answered with the newest one of their originator.
    answers: Limit,
    counters: Counters,
}

/// Routes in use, and what else is known of next hops.
#[derive(Debug, Default)]
struct Table {
    routes: BTreeMap<NodeId, (NextHop, Cost)>,
    /// Radios to neighbours, including neighbours that were lost.
    direct: BTreeMap<NodeId, NextHop>,
    /// Former routes to nodes that have none now.
    last_known: BTreeMap<NodeId, NextHop>,
}

impl Table {
    /// Whether a neighbour is best reached directly, as far as is known.
    fn is_direct(&self) -> impl Fn(NodeId) -> bool + '_ {
        move |node| self.routes.get(&node).is_none_or(|(hop, _)| hop.via == node)
    }
}

impl Routes for Table {
    fn to_node(&self, node: NodeId) -> Option<NextHop> {
        self.routes.get(&node).map(|route| route.0)
    }

    fn to_neighbour(&self, node: NodeId) -> Option<NextHop> {
        self.direct.get(&node).copied()
    }

    fn nearest(&self, nodes: &[NodeId]) -> Option<NodeId> {
        let cost = |node: &NodeId| self.routes.get(node).map(|(_, cost)| (*cost, *node));
        nodes.iter().filter_map(cost).min().map(|(_, node)| node)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    hellos_sent: u64,
    hellos_received: u64,
    topologies_sent: u64,
    topologies_received: u64,
    topologies_new: u64,
    sent_on: u64,
    answered: u64,
    malformed: u64,
    false_name: u64,
    unsigned: u64,
    no_key: u64,
    forged: u64,
    too_many: u64,
    overflow: u64,
    computed: u64,
}

/// A decision, for the trace.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
enum OlsrEvent {
    /// The next hop to a node changes.
    Route { to: NodeId, via: NodeId, hops: u8, etx: f64 },
    /// There is no route to a node any more.
    RouteLost { to: NodeId },
}

impl Olsr {
    /// The protocol at `node`, with its radios and the bit-rate of its messages on each; `None`
    /// leaves the bit-rate to the link.
    pub fn build(
        config: &OlsrConfig,
        node: NodeId,
        plan: AddressPlan,
        radios: &[(RadioId, Option<Bitrate>)],
        seed: Seed,
    ) -> Self {
        Self {
            config: config.clone(),
            signing: None,
            rng: seed.stream(&format!("node/{}/olsr", node.0)),
            radios: radios.iter().map(|&(id, rate)| RadioOut::new(id, rate)).collect(),
            links: Links::new(node, plan, config),
            topology: TopologySet::new(plan),
            relays: Vec::new(),
            table: Table::default(),
            forwarder: Forwarder::new(node, plan),
            timers: [Some(Instant::ZERO), None, None, None],
            is_born: false,
            message_seq: 0,
            ansn: 0,
            signed: 0,
            told: Vec::new(),
            told_at: Instant::ZERO,
            hasty: 0,
            is_hasty: false,
            is_news: false,
            computed: None,
            neighbours: BTreeMap::new(),
            answers: Limit::new(8, Duration::from_millis(500)),
            counters: Counters::default(),
        }
    }

    fn node(&self) -> NodeId {
        self.forwarder.node
    }

    fn own_address(&self) -> Ipv4Addr {
        self.forwarder.plan().ipv4(self.forwarder.node)
    }

    fn set(&mut self, timer: Timer, at: Instant) {
        self.timers[timer as usize] = Some(at);
    }

    /// Sets a timer, unless it is due earlier already.
    fn set_by(&mut self, timer: Timer, at: Instant) {
        let due = self.timers[timer as usize].map_or(at, |due| due.min(at));
        self.set(timer, due);
    }

    fn take(&mut self, timer: Timer, now: Instant) -> bool {
        let slot = &mut self.timers[timer as usize];
        slot.take_if(|due| *due <= now).is_some()
    }

    /// A random part of a time, so that neighbours do not send at once.
    fn jitter(&mut self, most: Duration) -> Duration {
        Duration::from_nanos(1 + self.rng.below(most.as_nanos().max(1)))
    }

    fn next_seq(&mut self) -> u16 {
        self.message_seq = self.message_seq.wrapping_add(1);
        self.message_seq
    }

    fn on_hello_due(&mut self, now: Instant) {
        self.links.expire(now);
        if self.topology.expire(now) {
            self.want_computed(now);
        }
        self.on_links_changed(now);
        for radio in &mut self.radios {
            (radio.owes_hello, radio.may_flush) = (true, true);
        }
        let interval = self.config.hello();
        let next = now + interval - self.jitter(interval / 4);
        self.set(Timer::Hello, next);
    }

    /// Computes the routes, and reports those that changed.
    fn on_compute_due(&mut self, cx: &mut Cx<'_>) {
        self.computed = Some(cx.now);
        self.counters.computed += 1;
        let best = self.links.best(cx.now);
        let routes = paths::shortest(self.node(), &best, &self.topology.edges());
        for (node, (_, radio)) in &best {
            let hop = NextHop { via: *node, radio: *radio, hops: 1 };
            self.table.direct.insert(*node, hop);
        }
        for (to, (hop, cost)) in &routes {
            let before = self.table.routes.get(to).map(|route| route.0);
            self.table.last_known.remove(to);
            if before == Some(*hop) {
                continue;
            }
            let (to, NextHop { via, radio, hops }) = (*to, *hop);
            let etx = cost.etx();
            cx.emit(|| OlsrEvent::Route { to, via, hops, etx });
            self.forwarder.up.push_back(DatagramUp::NextHop { dst: to, via, radio, hops });
        }
        self.neighbours = best;
        let before = std::mem::replace(&mut self.table.routes, routes);
        for (to, (hop, _)) in before {
            if !self.table.routes.contains_key(&to) {
                cx.emit(|| OlsrEvent::RouteLost { to });
                self.table.last_known.insert(to, hop);
            }
        }
    }
}

impl Layer for Olsr {
    type Above = Datagrams;
    type Below = Packets;

    fn handle_rx(&mut self, cx: &mut Cx<'_>, event: PacketUp) {
        match event {
            PacketUp::Received(packet) => self.on_received(cx, packet),
            PacketUp::Neighbour { node, radio, up: false } => self.on_lost(cx.now, (node, radio)),
            event => self.forwarder.handle_rx(event, &self.table),
        }
    }

    fn poll_rx(&mut self, _cx: &mut Cx<'_>) -> Option<DatagramUp> {
        self.forwarder.up.pop_front()
    }

    fn room(&self, lane: Lane) -> Room {
        self.forwarder.room(lane, &self.table)
    }

    fn handle_tx(&mut self, _cx: &mut Cx<'_>, datagram: Datagram) {
        self.forwarder.handle_tx(datagram, &self.table);
    }

    fn poll_tx(&mut self, cx: &mut Cx<'_>, below: &RoomBelow<'_>) -> Option<Packet> {
        self.poll_messages(cx.now, below).or_else(|| self.forwarder.poll_tx(below))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.timers.iter().flatten().min().copied()
    }

    fn handle_timeout(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now;
        if !std::mem::replace(&mut self.is_born, true) {
            let soon = self.jitter(self.config.hello() / 2);
            self.set(Timer::Hello, now + soon);
            let later = self.jitter(self.config.tc());
            self.set(Timer::Topology, now + later);
            return;
        }
        if self.take(Timer::Hello, now) {
            self.on_hello_due(now);
        }
        if self.take(Timer::Topology, now) {
            self.on_topology_due(now);
        }
        if self.take(Timer::Flush, now) {
            for radio in &mut self.radios {
                radio.pending.extend(radio.repeats.drain(..));
                radio.may_flush |= !radio.pending.is_empty();
            }
        }
        if self.take(Timer::Compute, now) {
            self.on_compute_due(cx);
        }
    }
}

impl Routing for Olsr {
    fn set_networks(&mut self, networks: Arc<Networks>) {
        self.forwarder.set_networks(networks);
    }

    fn set_signing(&mut self, signing: Signing) {
        self.signing = Some(signing);
    }

    fn set_keys(&mut self, cx: &mut Cx<'_>, keys: &BTreeMap<NodeId, PublicKey>) {
        let Some(signing) = &mut self.signing else { return };
        let is_as_before = |node: NodeId| signing.keys.get(&node) == keys.get(&node);
        self.topology.retain(|node| keys.contains_key(&node) && is_as_before(node));
        self.links.retain(|node| keys.contains_key(&node) && is_as_before(node));
        self.table.direct.retain(|node, _| keys.contains_key(node) && is_as_before(*node));
        signing.keys = Arc::new(keys.clone());
        self.on_links_changed(cx.now);
        self.on_compute_due(cx);
    }

    fn status(&self, now: Instant) -> RoutingStatus {
        let counters = &self.counters;
        let neighbour =
            |((node, radio), link): ((NodeId, RadioId), &links::Link)| NeighbourStatus {
                node,
                radio,
                lq: f64::from(link.lq()) / 255.0,
                nlq: f64::from(link.nlq()) / 255.0,
                etx: link.cost().filter(|_| link.is_symmetric(now)).map(Cost::etx),
                is_relay: self.relays.contains(&node),
            };
        let routes = self.table.routes.iter().map(|(to, (hop, cost))| (to, hop, Some(cost.etx())));
        let mut status = self.forwarder.status("olsr", &self.table, routes);
        status.last_known = self.table.last_known.keys().copied().collect();
        status.neighbours = self.links.all().map(neighbour).collect();
        status.counters = named([
            ("hellos_sent", counters.hellos_sent),
            ("hellos_received", counters.hellos_received),
            ("topologies_sent", counters.topologies_sent),
            ("topologies_received", counters.topologies_received),
            ("topologies_new", counters.topologies_new),
            ("sent_on", counters.sent_on),
            ("answered", counters.answered),
            ("malformed", counters.malformed),
            ("false_name", counters.false_name),
            ("unsigned", counters.unsigned),
            ("no_key", counters.no_key),
            ("forged", counters.forged),
            ("too_many", counters.too_many),
            ("overflow", counters.overflow),
            ("computed", counters.computed),
        ]);
        status
    }
}

#[cfg(test)]
mod tests;
