//! What is sent to the neighbours: HELLOs and flooded messages, packed together, and repeated on
//! lossy links (RFC 3626, sections 3.3 and 9.3).

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};

use bytes::Bytes;

use super::paths::Cost;
use super::topology::PARTS;
use super::{Olsr, Timer, links};
use crate::base::{
    AccessCategory, Bitrate, Duration, EtherType, FlowId, Instant, Lane, NodeId, Packet, RadioId,
    RoomBelow, TxOptions,
};
use crate::wire::olsr::{self, Body, Hello, Message, Neighbour, Topology};
use crate::wire::udp;

/// The access category of its messages.
const ACCESS: AccessCategory = AccessCategory::Voice;

/// The flow of its own packets.
pub(super) const FLOW: FlowId = FlowId(u16::MAX - 1);
/// Most bytes of messages in a packet, and of one message, so that no link has to fragment it.
const PACKET_BYTES: usize = 1_300;
/// Most neighbours in a message, so that it fits. If there are more, HELLOs tell of them in turn,
/// and several topology messages are sent at once.
pub(super) const TOLD: usize = 150;
/// Most messages that wait to be sent over a radio.
const PENDING: usize = 256;
/// Most transmissions of a flooded message, and the probability with which all of them may fail to
/// reach a neighbour.
const MOST_REPEATS: u8 = 4;
const LOST_FLOODS: f64 = 0.05;
/// Messages that wait to be sent over one radio.
#[derive(Debug)]
pub(super) struct RadioOut {
    id: RadioId,
    rate: Option<Bitrate>,
    pub(super) owes_hello: bool,
    pub(super) pending: VecDeque<Waiting>,
    /// Messages that are sent once more with the next flush.
    pub(super) repeats: Vec<Waiting>,
    pub(super) may_flush: bool,
    packet_seq: u16,
    /// Index of the neighbour with which the next HELLO begins, if one HELLO has no room for all.
    next_told: usize,
}

impl RadioOut {
    pub(super) fn new(id: RadioId, rate: Option<Bitrate>) -> Self {
        Self {
            id,
            rate,
            owes_hello: false,
            pending: VecDeque::new(),
            repeats: Vec::new(),
            may_flush: false,
            packet_seq: 0,
            next_told: 0,
        }
    }
}

/// A message that is flooded.
#[derive(Clone, Debug)]
pub(super) struct Flooded {
    pub(super) from: NodeId,
    /// The set of messages to which it belongs.
    pub(super) ansn: u16,
    pub(super) seq: u16,
    pub(super) bytes: Bytes,
}

impl Flooded {
    /// Whether it makes another message needless: one of another set, or the same one. A set has
    /// few messages, whose numbers follow each other.
    fn replaces(&self, other: &Self) -> bool {
        let apart = self.seq.wrapping_sub(other.seq).min(other.seq.wrapping_sub(self.seq));
        let is_of_set = self.ansn == other.ansn && usize::from(apart) < PARTS && apart > 0;
        self.from == other.from && !is_of_set
    }
}

/// A flooded message that waits to be sent.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    flooded: Flooded,
    /// How often it still has to be sent.
    left: u8,
}

impl Olsr {
    /// Puts a message of a node's newest set into the next packet of each radio.
    pub(super) fn flood(&mut self, now: Instant, flooded: &Flooded) {
        let left = self.repeats();
        for radio in &mut self.radios {
            radio.pending.retain(|waiting| !flooded.replaces(&waiting.flooded));
            radio.repeats.retain(|waiting| !flooded.replaces(&waiting.flooded));
            if radio.pending.len() >= PENDING {
                radio.pending.pop_front();
                self.counters.overflow += 1;
            }
            radio.pending.push_back(Waiting { flooded: flooded.clone(), left });
        }
        let jitter = self.jitter(self.config.hello() / 4);
        self.set_by(Timer::Flush, now + jitter);
    }

    /// How often a broadcast has to be sent to arrive with high probability at every relay, or at
    /// every neighbour if there is no relay; neighbours that are better reached over another one do
    /// not count. Sent only once, a message hardly ever arrives over many lossy hops.
    fn repeats(&self) -> u8 {
        let is_direct = self.table.is_direct();
        let wanted = |node: NodeId| match self.relays.is_empty() {
            true => is_direct(node),
            false => is_direct(node) && self.relays.contains(&node),
        };
        let wanted = self.neighbours.iter().filter(|(node, _)| wanted(**node));
        let nlq = |(node, (_, radio)): (&NodeId, &(Cost, RadioId))| {
            self.links.get((*node, *radio)).map(links::Link::nlq)
        };
        let missed = 1.0 - f64::from(wanted.filter_map(nlq).min().unwrap_or(u8::MAX)) / 255.0;
        let arrives = |times: &u8| (0..*times).fold(1.0, |all, _| all * missed) <= LOST_FLOODS;
        (1..MOST_REPEATS).find(arrives).unwrap_or(MOST_REPEATS)
    }

    /// Floods the node's own neighbours.
    pub(super) fn on_topology_due(&mut self, now: Instant) {
        let interval = self.config.tc();
        let next = now + interval - self.jitter(interval / 4);
        self.set(Timer::Topology, next);
        let best = self.links.best(now);
        if best.is_empty() && self.told.is_empty() {
            return;
        }
        let mut order: Vec<(Cost, NodeId, RadioId)> =
            best.iter().map(|(node, (cost, radio))| (*cost, *node, *radio)).collect();
        order.sort_unstable();
        let neighbour = |(_, node, radio): &(Cost, NodeId, RadioId)| {
            let link = self.links.get((*node, *radio)).expect("it is one of the best");
            let address = self.forwarder.plan().ipv4(*node);
            Neighbour { address, lq: link.lq(), nlq: link.nlq() }
        };
        let neighbours: Vec<Neighbour> = order.iter().map(neighbour).collect();
        self.told = best.into_keys().collect();
        self.hasty = if std::mem::take(&mut self.is_hasty) { self.hasty + 1 } else { 0 };
        self.told_at = now;
        self.ansn = self.ansn.wrapping_add(1);
        // News goes to all nodes; what keeps coming and going is sent as far as other messages.
        let is_news = std::mem::take(&mut self.is_news) || self.hasty == 1;
        let reach = if is_news { u8::MAX } else { self.config.reach(self.ansn) };
        if neighbours.is_empty() {
            return self.flood_neighbours(now, reach, Vec::new());
        }
        for part in neighbours.chunks(TOLD) {
            self.flood_neighbours(now, reach, part.to_vec());
        }
    }

    /// Floods a message of the newest set.
    fn flood_neighbours(&mut self, now: Instant, reach: u8, neighbours: Vec<Neighbour>) {
        if self.signing.is_some() {
            self.signed += 1;
        }
        let counter = self.signing.is_some().then_some(self.signed);
        let topology = Topology { ansn: self.ansn, reach, neighbours, counter };
        let validity = self.config.tc_validity();
        let message = self.message(validity, reach, Body::Topology(topology));
        let bytes = message.encode(self.signing.as_ref().map(|signing| &signing.identity));
        self.counters.topologies_sent += 1;
        let (from, ansn, seq) = (self.node(), self.ansn, message.seq);
        self.flood(now, &Flooded { from, ansn, seq, bytes });
    }

    fn message(&mut self, validity: Duration, ttl: u8, body: Body) -> Message {
        let (originator, seq) = (self.own_address(), self.next_seq());
        Message { validity, originator, ttl, hops: 0, seq, body, bytes: Bytes::new() }
    }

    /// The next packet of messages for a radio that has room.
    pub(super) fn poll_messages(&mut self, now: Instant, below: &RoomBelow<'_>) -> Option<Packet> {
        let is_ready = |radio: &RadioOut| {
            let lane = Lane { radio: radio.id, flow: FLOW, access: ACCESS, ..Lane::default() };
            radio.may_flush && !below(lane).is_none()
        };
        let index = self.radios.iter().position(is_ready)?;
        let mut messages = Vec::new();
        let has_hello = std::mem::take(&mut self.radios[index].owes_hello);
        if has_hello {
            messages.push(self.hello(now, index));
        }
        let radio = &mut self.radios[index];
        let mut length = messages.iter().map(Bytes::len).sum::<usize>();
        while let Some(next) = radio.pending.front()
            && (messages.is_empty() || length + next.flooded.bytes.len() <= PACKET_BYTES)
        {
            let next = radio.pending.pop_front().expect("it is in front");
            length += next.flooded.bytes.len();
            messages.push(next.flooded.bytes.clone());
            if next.left > 1 {
                radio.repeats.push(Waiting { left: next.left - 1, ..next });
            }
        }
        radio.may_flush = !radio.pending.is_empty();
        let has_repeats = !radio.repeats.is_empty();
        radio.packet_seq = radio.packet_seq.wrapping_add(1);
        let payload = olsr::packet(radio.packet_seq, &messages);
        let (id, rate) = (radio.id, radio.rate);
        if has_repeats {
            self.set_by(Timer::Flush, now + self.config.hello() / 4);
        }
        let from = SocketAddrV4::new(self.own_address(), olsr::PORT);
        let to = SocketAddrV4::new(Ipv4Addr::BROADCAST, olsr::PORT);
        Some(Packet {
            id: self.forwarder.transit_id(),
            radio: id,
            to: None,
            flow: FLOW,
            protocol: EtherType::IPV4,
            payload: udp::encode(from, to, &payload, &[]),
            // Links must not repeat lost HELLOs, whose losses are counted.
            options: TxOptions {
                access: ACCESS,
                rate,
                attempts: has_hello.then_some(1),
                ..TxOptions::default()
            },
            order: None,
        })
    }

    fn hello(&mut self, now: Instant, index: usize) -> Bytes {
        let radio = &mut self.radios[index];
        let mut neighbours = self.links.told(now, radio.id, &self.relays);
        if neighbours.len() > TOLD {
            // A neighbour that is in no HELLO has no link (6.2).
            let first = radio.next_told % neighbours.len();
            neighbours.rotate_left(first);
            radio.next_told = first + TOLD;
        }
        neighbours.truncate(TOLD);
        neighbours.sort_by_key(|(_, neighbour)| std::cmp::Reverse(neighbour.lq));
        let interval = self.config.hello();
        let hello = Hello { interval, willingness: self.config.willingness, neighbours };
        self.counters.hellos_sent += 1;
        self.message(interval * u64::from(self.config.hello_hold), 1, Body::Hello(hello))
            .encode(None)
    }
}
