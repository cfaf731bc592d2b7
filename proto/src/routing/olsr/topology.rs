//! Topology messages (RFC 3626, sections 3.4 and 9): the neighbours that each node floods, whether
//! a message is believed, and whether it is forwarded.
//!
//! Where nodes have keys, a topology message has its originator's signature and a counter of the
//! messages that the originator has signed. A counter below one that was seen is never accepted, so
//! a replayed recording of a distant node has no effect. A node that restarts begins at 1. The
//! other nodes then flood its newest message once more, from which it learns where to continue. So
//! nothing has to be kept on disk, and no clock has to be right (as in OSPF: RFC 2328, section
//! 13.4).

use std::collections::BTreeMap;

use super::paths::{Cost, Edges};
use crate::base::{AddressPlan, Duration, Instant, NodeId, PublicKey, Seq};
use crate::wire::olsr::{Message, Topology};

use super::super::Signing;

/// Most nodes about which something is kept.
const ORIGINATORS: usize = 4_096;
/// The longest time for which a message is believed, whatever it says.
const MOST_VALIDITY: Duration = Duration::from_secs(1_800);
/// How long the number of a message is remembered at least (DUP_HOLD_TIME, RFC 3626, 18.3), so that
/// a message with a short validity does not travel in circles.
const REMEMBERED: Duration = Duration::from_secs(30);
/// Least time between two answers to old messages of one node, and from its newest message to an
/// answer: some messages are overtaken on their way.
const ANSWER: Duration = Duration::from_secs(3);

/// What is known of one node.
#[derive(Debug)]
struct Originator {
    /// Until when its neighbours are believed. Later only its number is known.
    until: Instant,
    /// Until when it is remembered.
    known_until: Instant,
    /// Its newest message, and how many hops it is meant to go.
    newest: Message,
    reach: u8,
    number: Number,
    /// In order.
    neighbours: Vec<(NodeId, Cost)>,
    /// Whether its newest message was sent on.
    is_sent_on: bool,
    /// When its newest message came, or was last sent as an answer.
    answered: Instant,
}

/// Which of two messages of a node is the newer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    /// By sequence number, modulo 2^16.
    Seq(u16),
    /// By the signed counter.
    Counter(u64),
}

impl Number {
    fn of(message: &Message, topology: &Topology) -> Self {
        topology.counter.map_or(Self::Seq(message.seq), Self::Counter)
    }

    fn is_after(self, other: Self) -> bool {
        match (self, other) {
            (Self::Counter(a), Self::Counter(b)) => a > b,
            (Self::Seq(a), Self::Seq(b)) => is_after(a, b),
            _ => true,
        }
    }
}

/// Whether a sequence number is the newer one, modulo 2^16.
pub(super) fn is_after(seq: u16, other: u16) -> bool {
    // The upper half of a 32-bit number line wraps where these do.
    Seq(u32::from(seq) << 16).is_after(Seq(u32::from(other) << 16))
}

/// The result of checking a topology message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is new: it is believed and forwarded.
    New,
    /// It was here before, and may still be forwarded.
    Again,
    /// It was here before, and was forwarded.
    Seen,
    /// A newer one of its originator is known.
    Old,
    /// It is old too, and the newest one is to be flooded again, so that its originator learns of
    /// it.
    ToAnswer,
    /// It has no signature where there are keys, or one where there are none.
    Unsigned,
    /// Its originator's key is not known.
    NoKey,
    /// The signature is wrong.
    Forged,
    /// Too many nodes are known already.
    TooMany,
    /// The neighbour that forwarded it has sent too many recently.
    TooOften,
}

/// What is known of the network beyond the neighbours.
#[derive(Debug)]
pub(super) struct TopologySet {
    plan: AddressPlan,
    originators: BTreeMap<NodeId, Originator>,
}

impl TopologySet {
    pub(super) fn new(plan: AddressPlan) -> Self {
        Self { plan, originators: BTreeMap::new() }
    }

    /// Judges a message of a node; `signing` has the keys for its signature, which is checked last.
    pub(super) fn judge(
        &self,
        now: Instant,
        (from, via): (NodeId, NodeId),
        (message, topology): (&Message, &Topology),
        signing: Option<&Signing>,
        may_check: &mut dyn FnMut() -> bool,
    ) -> Verdict {
        let key: Option<&PublicKey> = match (signing, topology.counter) {
            (None, None) => None,
            (Some(signing), Some(_)) => match signing.keys.get(&from) {
                Some(key) => Some(key),
                None => return Verdict::NoKey,
            },
            _ => return Verdict::Unsigned,
        };
        let number = Number::of(message, topology);
        let verdict = match self.originators.get(&from) {
            None if self.originators.len() >= ORIGINATORS => return Verdict::TooMany,
            None => Verdict::New,
            Some(known) if number == known.number => {
                return if known.is_sent_on { Verdict::Seen } else { Verdict::Again };
            }
            Some(known) if number.is_after(known.number) => Verdict::New,
            // Without a counter, an old number proves nothing once the node's message has expired.
            Some(known) if topology.counter.is_none() && known.until <= now => Verdict::New,
            // Without a counter, it is proof only if it comes from the node itself, and so in
            // order.
            Some(known)
                if (key.is_some() || via == from) && now.since(known.answered) >= ANSWER =>
            {
                Verdict::ToAnswer
            }
            Some(_) => return Verdict::Old,
        };
        match key {
            Some(_) if !may_check() => Verdict::TooOften,
            Some(key) if !message.is_signed_by(key) => Verdict::Forged,
            _ => verdict,
        }
    }

    /// Stores a message that was judged new. Returns whether the network has changed.
    pub(super) fn take(
        &mut self,
        now: Instant,
        from: NodeId,
        message: Message,
        topology: &Topology,
    ) -> bool {
        let edge = |neighbour: &crate::wire::olsr::Neighbour| {
            let node = self.plan.node(neighbour.address.into())?;
            Some((node, Cost::of(neighbour.lq, neighbour.nlq)?))
        };
        let mut neighbours: Vec<(NodeId, Cost)> =
            topology.neighbours.iter().filter_map(edge).collect();
        neighbours.sort_unstable();
        neighbours.dedup_by_key(|edge| edge.0);
        let known = self.originators.get(&from);
        let changed = known.is_none_or(|known| known.neighbours != neighbours);
        let validity = message.validity.min(MOST_VALIDITY);
        let originator = Originator {
            until: now + validity,
            known_until: now + validity.max(REMEMBERED),
            number: Number::of(&message, topology),
            newest: message,
            reach: topology.reach,
            neighbours,
            is_sent_on: false,
            answered: now,
        };
        self.originators.insert(from, originator);
        changed
    }

    /// The newest message of a node, ready to be forwarded; `hops` is the distance to that node.
    /// Its TTL is not signed, so the first forwarder could end the flooding. A signed message
    /// therefore goes as far as its originator meant, and its counter prevents loops.
    pub(super) fn to_send_on(&self, from: NodeId, hops: Option<u8>) -> Option<bytes::Bytes> {
        let Originator { newest, number, reach, .. } = self.originators.get(&from)?;
        match number {
            Number::Counter(_) => {
                hops.is_none_or(|hops| hops < *reach).then(|| newest.forwarded_anew())
            }
            Number::Seq(_) => (newest.ttl > 1).then(|| newest.forwarded()),
        }
    }

    /// The newest message of a node came again, perhaps over a shorter route. Only TTL and hops are
    /// taken from this copy, because the rest was not checked.
    pub(super) fn see_again(&mut self, from: NodeId, ttl: u8, hops: u8) {
        let known = self.originators.get_mut(&from);
        if let Some(known) = known.filter(|known| known.newest.ttl < ttl) {
            (known.newest.ttl, known.newest.hops) = (ttl, hops);
        }
    }

    /// Notes that the newest message of a node was forwarded.
    pub(super) fn set_sent_on(&mut self, from: NodeId) {
        if let Some(known) = self.originators.get_mut(&from) {
            known.is_sent_on = true;
        }
    }

    /// The newest message of a node, to be flooded once more.
    pub(super) fn answer(&mut self, now: Instant, from: NodeId) -> Option<&Message> {
        let known = self.originators.get_mut(&from)?;
        known.answered = now;
        Some(&known.newest)
    }

    /// Drops what is too old to be believed. Returns whether there was any.
    pub(super) fn expire(&mut self, now: Instant) -> bool {
        let mut has_expired = false;
        self.originators.retain(|_, known| {
            if known.until <= now && !known.neighbours.is_empty() {
                known.neighbours.clear();
                has_expired = true;
            }
            known.known_until > now || matches!(known.number, Number::Counter(_))
        });
        has_expired
    }

    /// Forgets all nodes but these.
    pub(super) fn retain(&mut self, is_kept: impl Fn(NodeId) -> bool) {
        self.originators.retain(|node, _| is_kept(*node));
    }

    /// Neighbours that each node reports.
    pub(super) fn edges(&self) -> Edges<'_> {
        self.originators.iter().map(|(node, known)| (*node, &known.neighbours[..])).collect()
    }
}
