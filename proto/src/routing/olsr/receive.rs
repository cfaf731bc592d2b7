//! What is received from the neighbours: HELLOs, and what others flood (RFC 3626, section 3.4).

use std::net::Ipv4Addr;

use super::topology::{Number, Verdict, is_after};
use super::{Olsr, Timer, relays};
use crate::base::{Cx, Duration, EtherType, Instant, NodeId, PacketUp, RadioId, ReceivedPacket};
use crate::routing::Signing;
use crate::wire::olsr::{self, Body, Hello, Message, Topology};
use crate::wire::{ip, udp};

/// Most neighbours in a message that is accepted: more than any node sends.
const MOST_HEARD: usize = 256;
/// Most doublings of the time between early topology messages.
const MOST_HASTY: u32 = 6;
/// Least time between two topology messages of a node whose neighbours come and go. It doubles with
/// each early one, because nodes at the edge of radio range come and go all the time.
const LEAST_TC: Duration = Duration::from_secs(1);

impl Olsr {
    pub(super) fn on_received(&mut self, cx: &mut Cx<'_>, packet: ReceivedPacket) {
        let Some(messages) = messages(&packet) else {
            return self.forwarder.handle_rx(PacketUp::Received(packet), &self.table);
        };
        let Ok(messages) = messages else {
            self.counters.malformed += 1;
            return;
        };
        let mut has_hello = false;
        for message in messages {
            // A packet proves the arrival of one HELLO only.
            let is_hello = matches!(message.body, Body::Hello(_));
            if is_hello && std::mem::replace(&mut has_hello, true) {
                self.counters.overflow += 1;
                continue;
            }
            self.on_message(cx.now, (packet.from, packet.radio), message);
        }
    }

    fn on_message(&mut self, now: Instant, key: (NodeId, RadioId), message: Message) {
        let Some(from) = self.forwarder.plan().node(message.originator.into()) else {
            self.counters.malformed += 1;
            return;
        };
        // A message that has made no hop must come from its originator.
        if from != key.0 && (message.hops == 0 || matches!(message.body, Body::Hello(_))) {
            self.counters.false_name += 1;
            return;
        }
        match &message.body {
            Body::Hello(hello) if hello.neighbours.len() <= MOST_HEARD => {
                self.on_hello(now, key, hello, message.validity);
            }
            Body::Topology(topology) if topology.neighbours.len() <= MOST_HEARD => {
                let topology = topology.clone();
                self.on_topology(now, key, from, message, &topology);
            }
            Body::Hello(_) | Body::Topology(_) => self.counters.too_many += 1,
            Body::Other => self.counters.malformed += 1,
        }
    }

    fn on_hello(
        &mut self,
        now: Instant,
        key: (NodeId, RadioId),
        hello: &Hello,
        validity: Duration,
    ) {
        self.counters.hellos_received += 1;
        if self.links.get_mut(key).is_some_and(|link| !link.hellos.take(now)) {
            self.counters.overflow += 1;
            return;
        }
        if !self.links.on_hello(now, key, hello, validity) {
            self.counters.too_many += 1;
            return;
        }
        self.on_links_changed(now);
    }

    /// The link reports that a neighbour no longer answers (RFC 3626, section 13).
    pub(super) fn on_lost(&mut self, now: Instant, key: (NodeId, RadioId)) {
        if self.links.forget(key) {
            self.on_links_changed(now);
            // Packets to it are lost until the routes change, and other nodes may send to it over
            // this one.
            self.set_by(Timer::Compute, now);
            self.tell_soon(now);
        }
    }

    /// Chooses relays anew, and sends a topology message soon if the neighbours have changed since
    /// the last.
    pub(super) fn on_links_changed(&mut self, now: Instant) {
        let (node, coverage) = (self.node(), self.config.relays);
        self.relays = relays::choose(&self.links, now, node, coverage, self.table.is_direct());
        let best = self.links.best(now);
        if !best.keys().eq(self.told.iter()) {
            self.tell_soon(now);
        }
        if best != self.neighbours {
            self.want_computed(now);
        }
    }

    /// Sends the next topology message early.
    fn tell_soon(&mut self, now: Instant) {
        let soon = self.jitter(self.config.hello() / 4);
        let wait = (LEAST_TC * (1 << self.hasty.min(MOST_HASTY))).min(self.config.tc());
        let at = (self.told_at + wait).max(now + soon);
        if self.timers[Timer::Topology as usize].is_none_or(|due| at < due) {
            self.set(Timer::Topology, at);
            self.is_hasty = true;
        }
    }

    pub(super) fn want_computed(&mut self, now: Instant) {
        let at = self.computed.map_or(now, |at| at + self.config.recompute());
        self.set_by(Timer::Compute, at.max(now));
    }

    fn on_topology(
        &mut self,
        now: Instant,
        key: (NodeId, RadioId),
        from: NodeId,
        message: Message,
        topology: &Topology,
    ) {
        self.counters.topologies_received += 1;
        let Some(link) = self.links.get_mut(key).filter(|link| link.is_symmetric(now)) else {
            return;
        };
        let is_relay = link.selects_us_until > now;
        if from == self.forwarder.node {
            return self.on_own(now, key, &message, topology);
        }
        let signing = self.signing.as_ref();
        let mut may_check = || link.checks.take(now);
        let said = (&message, topology);
        let number = Number::of(&message, topology);
        let verdict = self.topology.judge(now, (from, key.0), said, signing, &mut may_check);
        match verdict {
            Verdict::New => {
                self.counters.topologies_new += 1;
                let routes = &self.table.routes;
                self.topology.make_room(from, |node| routes.contains_key(&node));
                if self.topology.take(now, (from, key.0), message, topology) {
                    self.want_computed(now);
                }
                self.send_on(now, (from, number), is_relay);
            }
            Verdict::Again => {
                self.topology.see_again((from, number), message.ttl, message.hops);
                self.send_on(now, (from, number), is_relay);
            }
            Verdict::ToAnswer if !self.answers.take(now) => self.counters.overflow += 1,
            Verdict::ToAnswer => {
                self.counters.answered += 1;
                let newest = self.topology.answer(now, from);
                newest.into_iter().for_each(|newest| self.flood(now, &newest));
            }
            Verdict::Seen | Verdict::Old => {}
            Verdict::Unsigned => self.counters.unsigned += 1,
            Verdict::NoKey => self.counters.no_key += 1,
            Verdict::Forged => self.counters.forged += 1,
            Verdict::TooMany => self.counters.too_many += 1,
            Verdict::TooOften => self.counters.overflow += 1,
        }
    }

    /// Forwards the stored message of a node, which was checked: a later copy may have been
    /// altered.
    fn send_on(&mut self, now: Instant, which: (NodeId, Number), is_relay: bool) {
        let hops = self.table.routes.get(&which.0).map(|(hop, _)| hop.hops);
        let message = self.topology.to_send_on(which, hops).filter(|_| is_relay);
        let Some(message) = message else { return };
        self.counters.sent_on += 1;
        self.topology.set_sent_on(which);
        self.flood(now, &message);
    }

    /// Handles a message of this node that another one forwarded. If it is from before a restart,
    /// it tells at which number to continue.
    fn on_own(
        &mut self,
        now: Instant,
        key: (NodeId, RadioId),
        message: &Message,
        topology: &Topology,
    ) {
        let Some(counter) = topology.counter else {
            if self.signing.is_none() && is_after(message.seq, self.message_seq) {
                self.message_seq = message.seq;
                // A node that repeats this with ever higher numbers is not answered each time.
                self.set_by(Timer::Topology, now.max(self.told_at + LEAST_TC));
                self.is_news = true;
            }
            return;
        };
        if counter <= self.signed {
            return;
        }
        if self.links.get_mut(key).is_none_or(|link| !link.checks.take(now)) {
            self.counters.overflow += 1;
            return;
        }
        let is_ours = |signing: &Signing| message.is_signed_by(&signing.identity.public());
        if self.signing.as_ref().is_some_and(is_ours) {
            self.signed = counter;
            self.set_by(Timer::Topology, now);
            self.is_news = true;
        } else {
            self.counters.forged += 1;
        }
    }
}

/// The OLSR messages in a packet; `None` if it has something else.
pub(super) fn messages(packet: &ReceivedPacket) -> Option<Result<Vec<Message>, olsr::DecodeError>> {
    if packet.protocol != EtherType::IPV4
        || ip::destination(&packet.payload) != Some(Ipv4Addr::BROADCAST.into())
    {
        return None;
    }
    let (header, range) = udp::decode(&packet.payload).ok()?;
    (header.destination == olsr::PORT).then(|| olsr::decode(&packet.payload.slice(range)))
}
