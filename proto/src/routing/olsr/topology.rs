//! What is flooded (RFC 3626, sections 3.4 and 9): each node's own set of neighbours, who may have
//! said it, and whether it goes on.
//!
//! Where nodes have keys a topology message carries its originator's signature and the number of
//! messages that it has signed. A lower number than one that was seen is never believed, so that a
//! recording of a far node does nothing. A node that was started anew begins at 1 and learns from
//! the newest of its own messages, which the others flood once more, where to go on: nothing has to
//! be kept on a disk for it, and no clock has to be right (as OSPF does it: RFC 2328, section
//! 13.4).

use std::collections::BTreeMap;

use super::paths::{Cost, Edges};
use crate::base::{AddressPlan, Duration, Instant, NodeId, PublicKey, Seq};
use crate::wire::olsr::{Message, Topology};

use super::super::Signing;

/// Nodes of which something is known, at most.
const ORIGINATORS: usize = 4_096;
/// The longest time that a message is believed, whatever it says.
const MOST_VALIDITY: Duration = Duration::from_secs(1_800);
/// How long the number of a message is remembered at least (DUP_HOLD_TIME, RFC 3626, 18.3): however
/// short it is to be believed, it must not go in circles.
const REMEMBERED: Duration = Duration::from_secs(30);
/// Least time between two answers to old messages of one node, and from its newest message to an
/// answer: some messages overtake others on their way.
const ANSWER: Duration = Duration::from_secs(3);

/// What is known of one node.
#[derive(Debug)]
struct Originator {
    /// Until when its neighbours are believed. Later only its number is.
    until: Instant,
    /// Until when it is not forgotten.
    known_until: Instant,
    /// Its newest message, and how many hops that is meant to go.
    newest: Message,
    reach: u8,
    number: Number,
    /// In the order of the neighbours.
    neighbours: Vec<(NodeId, Cost)>,
    /// Whether its newest message was sent on.
    is_sent_on: bool,
    /// When its newest message came, or it was last answered with that.
    answered: Instant,
}

/// Which of two messages of a node is the newer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    /// By the sequence number, modulo 2^16.
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

/// What becomes of a topology message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is new: to be believed, and sent on.
    New,
    /// It was here, and may still be sent on.
    Again,
    /// It was here, and it was sent on.
    Seen,
    /// Its originator has said newer things.
    Old,
    /// Old as well, and the newest is to be flooded once more, so that its originator learns it.
    ToAnswer,
    /// No signature where there are keys, or one where there are none.
    Unsigned,
    /// Its originator's key is not known.
    NoKey,
    /// The signature is wrong.
    Forged,
    /// Nothing is kept of so many nodes.
    TooMany,
    /// Whoever brought it has brought too much of late.
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

    /// What a message of a node is worth; `signing` is what it must be signed for. Looks at the
    /// signature last.
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
            // Without a counter, numbers of a node of which nothing is believed prove nothing.
            Some(known) if topology.counter.is_none() && known.until <= now => Verdict::New,
            // Without a counter that proves something only of what comes from itself: in order.
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

    /// Believes a message that was judged new. Returns whether the network is another now.
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

    /// The newest message of a node that is so many hops away, for the next hop. Its TTL is not
    /// signed, and whoever sends it first could end it: with a signature the counter stops loops,
    /// and it goes as far as its originator meant.
    pub(super) fn to_send_on(&self, from: NodeId, hops: Option<u8>) -> Option<bytes::Bytes> {
        let Originator { newest, number, reach, .. } = self.originators.get(&from)?;
        match number {
            Number::Counter(_) => {
                hops.is_none_or(|hops| hops < *reach).then(|| newest.forwarded_anew())
            }
            Number::Seq(_) => (newest.ttl > 1).then(|| newest.forwarded()),
        }
    }

    /// The newest message of a node came once more: it may have come a shorter way now. Nothing
    /// else is taken from it, as nobody has looked at what it says.
    pub(super) fn see_again(&mut self, from: NodeId, ttl: u8, hops: u8) {
        let known = self.originators.get_mut(&from);
        if let Some(known) = known.filter(|known| known.newest.ttl < ttl) {
            (known.newest.ttl, known.newest.hops) = (ttl, hops);
        }
    }

    /// Notes that the newest message of a node was sent on.
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

    /// Stops to believe what is too old. Returns whether there was any.
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

    /// What each node says of its neighbours.
    pub(super) fn edges(&self) -> Edges<'_> {
        self.originators.iter().map(|(node, known)| (*node, &known.neighbours[..])).collect()
    }
}
