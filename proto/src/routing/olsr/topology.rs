//! Topology messages (RFC 3626, sections 3.4 and 9): the neighbours that each node floods, whether
//! a message is believed, and whether it is forwarded.
//!
//! A node with more neighbours than fit into one message sends several with one ANSN, a set (9.1).
//! What they tell adds up, and a message with another ANSN begins a new set. The RFC then forgets
//! the former set at once. Here what the former set told stays until as many messages of the new
//! one have come: otherwise half of the routes would be lost for a moment at each new set.
//!
//! Where nodes have keys, a topology message has its originator's signature and a counter of the
//! messages that the originator has signed. A counter below one that was seen is never accepted, so
//! a replayed recording of a distant node has no effect. A node that restarts begins at 1. The
//! other nodes then flood its newest message once more, from which it learns where to continue. So
//! nothing has to be kept on disk, and no clock has to be right (as in OSPF: RFC 2328, section
//! 13.4).

use std::collections::BTreeMap;

use super::flood::{Flooded, TOLD};
use super::links::LINKS;
use super::paths::{Cost, Edges};
use crate::base::{AddressPlan, Duration, Instant, NodeId, PublicKey, Seq};
use crate::wire::olsr::{Body, Message, Neighbour, Topology};

use super::super::Signing;

/// Most nodes about which something is kept. With keys, more are refused: what is known of their
/// numbers protects from recordings. Without keys, anybody can invent nodes, so a new one takes the
/// place of another.
const ORIGINATORS: usize = 4_096;
/// Most messages of a set: as many as a node with the most links sends.
pub(super) const PARTS: usize = LINKS.div_ceil(TOLD);
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
    /// Until when its neighbours are believed. Later only its numbers are known.
    until: Instant,
    /// Until when it is remembered.
    known_until: Instant,
    /// The neighbour over which its newest message came first, and when.
    via: NodeId,
    came: Instant,
    ansn: u16,
    /// The messages of its newest set, the newest one last.
    set: Vec<Part>,
    /// What the former set told, while the newest is incomplete, and in how many messages.
    former: (Vec<(NodeId, Cost)>, usize),
    /// All neighbours that are believed, in order.
    neighbours: Vec<(NodeId, Cost)>,
    /// When its newest message came, or was last sent as an answer.
    answered: Instant,
}

/// A message of a set.
#[derive(Debug)]
struct Part {
    number: Number,
    message: Message,
    /// How many hops it is meant to go.
    reach: u8,
    /// Whether it was sent on.
    is_sent_on: bool,
}

impl Originator {
    fn newest(&self) -> &Part {
        self.set.last().expect("a node is known by a message")
    }

    fn part(&self, number: Number) -> Option<&Part> {
        self.set.iter().find(|part| part.number == number)
    }

    fn part_mut(&mut self, number: Number) -> Option<&mut Part> {
        self.set.iter_mut().find(|part| part.number == number)
    }

    /// Whether a message belongs to the newest set, which is still believed; the newest one may
    /// have overtaken it. The numbers of a set follow each other, so no recording of an earlier set
    /// passes.
    fn is_missing(&self, now: Instant, number: Number, ansn: u16) -> bool {
        let is_of_set = ansn == self.ansn && self.newest().number.is_near(number);
        is_of_set && self.set.len() < PARTS && self.until > now
    }
}

/// Which of two messages of a node is the newer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    /// By sequence number, modulo 2^16.
    Seq(u16),
    /// By the signed counter.
    Counter(u64),
}

impl Number {
    pub(super) fn of(message: &Message, topology: &Topology) -> Self {
        topology.counter.map_or(Self::Seq(message.seq), Self::Counter)
    }

    fn is_after(self, other: Self) -> bool {
        match (self, other) {
            (Self::Counter(a), Self::Counter(b)) => a > b,
            (Self::Seq(a), Self::Seq(b)) => is_after(a, b),
            _ => true,
        }
    }

    /// Whether both can be of one set.
    fn is_near(self, other: Self) -> bool {
        match (self, other) {
            (Self::Counter(a), Self::Counter(b)) => a.abs_diff(b) < PARTS as u64,
            (Self::Seq(a), Self::Seq(b)) => {
                usize::from(a.wrapping_sub(b).min(b.wrapping_sub(a))) < PARTS
            }
            _ => false,
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
        let known = self.originators.get(&from);
        if let Some(part) = known.and_then(|known| known.part(number)) {
            return if part.is_sent_on { Verdict::Seen } else { Verdict::Again };
        }
        let verdict = match known {
            None if key.is_some() && self.originators.len() >= ORIGINATORS => {
                return Verdict::TooMany;
            }
            None => Verdict::New,
            Some(known) if number.is_after(known.newest().number) => Verdict::New,
            Some(known) if known.is_missing(now, number, topology.ansn) => Verdict::New,
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

    /// Makes room for a node that is not known yet. One of those that came over the neighbour that
    /// brought the most has to go: rather one without a route, and the one that has not been heard
    /// of for longest. So invented nodes displace other invented ones first, and then what the
    /// busiest neighbour brings.
    pub(super) fn make_room(&mut self, from: NodeId, has_route: impl Fn(NodeId) -> bool) {
        if self.originators.len() < ORIGINATORS || self.originators.contains_key(&from) {
            return;
        }
        let mut brought: BTreeMap<NodeId, usize> = BTreeMap::new();
        for known in self.originators.values() {
            *brought.entry(known.via).or_default() += 1;
        }
        let most = brought.iter().max_by_key(|(_, count)| **count).map(|(via, _)| *via);
        let of_most = self.originators.iter().filter(|(_, known)| Some(known.via) == most);
        let oldest = of_most.min_by_key(|(node, known)| (has_route(**node), known.came));
        if let Some(node) = oldest.map(|(node, _)| *node) {
            self.originators.remove(&node);
        }
    }

    /// Stores a message that was judged new, and that a neighbour brought. Returns whether the
    /// network has changed.
    pub(super) fn take(
        &mut self,
        now: Instant,
        (from, via): (NodeId, NodeId),
        message: Message,
        topology: &Topology,
    ) -> bool {
        let part = Part {
            number: Number::of(&message, topology),
            reach: topology.reach,
            is_sent_on: false,
            message,
        };
        let validity = part.message.validity.min(MOST_VALIDITY);
        let mut known = self.originators.remove(&from);
        let before = known.as_mut().map(|known| std::mem::take(&mut known.neighbours));
        let mut set = Vec::new();
        let mut former = (Vec::new(), 0);
        match known {
            Some(known) if known.is_missing(now, part.number, topology.ansn) => {
                (set, former) = (known.set, known.former);
            }
            Some(known) if known.set.len() > 1 && known.until > now => {
                former = (self.told(&known.set), known.set.len())
            }
            _ => {}
        }
        let place = set.iter().position(|at: &Part| at.number.is_after(part.number));
        set.insert(place.unwrap_or(set.len()), part);
        if set.len() >= former.1 {
            former = (Vec::new(), 0);
        }
        // The first of two entries of a node stays.
        let mut neighbours = self.told(&set);
        neighbours.extend(&former.0);
        neighbours.sort_by_key(|edge| edge.0);
        neighbours.dedup_by_key(|edge| edge.0);
        let changed = before.as_ref() != Some(&neighbours);
        let originator = Originator {
            until: now + validity,
            known_until: now + validity.max(REMEMBERED),
            via,
            came: now,
            ansn: topology.ansn,
            set,
            former,
            neighbours,
            answered: now,
        };
        self.originators.insert(from, originator);
        changed
    }

    /// What the messages of a set tell, in order; of two entries of a node, the better one.
    fn told(&self, set: &[Part]) -> Vec<(NodeId, Cost)> {
        let edge = |neighbour: &Neighbour| {
            let node = self.plan.node(neighbour.address.into())?;
            Some((node, Cost::of(neighbour.lq, neighbour.nlq)?))
        };
        let all = set.iter().filter_map(|part| match &part.message.body {
            Body::Topology(topology) => Some(&topology.neighbours),
            Body::Hello(_) | Body::Other => None,
        });
        let mut told: Vec<(NodeId, Cost)> = all.flatten().filter_map(edge).collect();
        told.sort_unstable();
        told.dedup_by_key(|edge| edge.0);
        told
    }

    /// A message of a node's newest set, ready to be forwarded; `hops` is the distance to that
    /// node. Its TTL is not signed, so the first forwarder could end the flooding. A signed message
    /// therefore goes as far as its originator meant, and its counter prevents loops.
    pub(super) fn to_send_on(
        &self,
        (from, number): (NodeId, Number),
        hops: Option<u8>,
    ) -> Option<Flooded> {
        let known = self.originators.get(&from)?;
        let ansn = known.ansn;
        let Part { message, reach, .. } = known.part(number)?;
        let bytes = match number {
            Number::Counter(_) => {
                hops.is_none_or(|hops| hops < *reach).then(|| message.forwarded_anew())
            }
            Number::Seq(_) => (message.ttl > 1).then(|| message.forwarded()),
        };
        Some(Flooded { from, ansn, seq: message.seq, bytes: bytes? })
    }

    /// A message of the newest set came again, perhaps over a shorter route. Only TTL and hops are
    /// taken from this copy, because the rest was not checked.
    pub(super) fn see_again(&mut self, (from, number): (NodeId, Number), ttl: u8, hops: u8) {
        let part = self.originators.get_mut(&from).and_then(|known| known.part_mut(number));
        if let Some(part) = part.filter(|part| part.message.ttl < ttl) {
            (part.message.ttl, part.message.hops) = (ttl, hops);
        }
    }

    /// Notes that a message of the newest set was forwarded.
    pub(super) fn set_sent_on(&mut self, (from, number): (NodeId, Number)) {
        let part = self.originators.get_mut(&from).and_then(|known| known.part_mut(number));
        if let Some(part) = part {
            part.is_sent_on = true;
        }
    }

    /// The newest message of a node, to be flooded once more.
    pub(super) fn answer(&mut self, now: Instant, from: NodeId) -> Option<Flooded> {
        let known = self.originators.get_mut(&from)?;
        known.answered = now;
        let message = &known.newest().message;
        let (seq, bytes) = (message.seq, message.forwarded_anew());
        Some(Flooded { from, ansn: known.ansn, seq, bytes })
    }

    /// Drops what is too old to be believed. Returns whether there was any.
    pub(super) fn expire(&mut self, now: Instant) -> bool {
        let mut has_expired = false;
        self.originators.retain(|_, known| {
            if known.until <= now && !known.neighbours.is_empty() {
                known.neighbours.clear();
                known.former = (Vec::new(), 0);
                has_expired = true;
            }
            known.known_until > now || matches!(known.newest().number, Number::Counter(_))
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

#[cfg(test)]
mod tests {
    use std::ops::RangeInclusive;
    use std::sync::Arc;

    use bytes::Bytes;

    use super::*;
    use crate::base::Identity;
    use crate::wire::olsr;

    /// A topology message of a node, as received.
    fn message(
        node: u16,
        (ansn, number): (u16, u16),
        neighbours: RangeInclusive<u16>,
        signer: Option<&Identity>,
    ) -> Message {
        let plan = AddressPlan::default();
        let neighbour = |node| Neighbour { address: plan.ipv4(NodeId(node)), lq: 255, nlq: 255 };
        let neighbours = neighbours.map(neighbour).collect();
        let counter = signer.map(|_| u64::from(number));
        let message = Message {
            validity: Duration::from_secs(60),
            originator: plan.ipv4(NodeId(node)),
            ttl: 8,
            hops: 0,
            seq: number,
            body: Body::Topology(Topology { ansn, reach: 8, neighbours, counter }),
            bytes: Bytes::new(),
        };
        let packet = olsr::packet(1, &[message.encode(signer)]).into();
        olsr::decode(&packet).expect("a packet of ours").pop().expect("its message")
    }

    fn hear(
        set: &mut TopologySet,
        (seconds, via): (u64, NodeId),
        message: Message,
        signing: Option<&Signing>,
    ) -> Verdict {
        let Body::Topology(topology) = message.body.clone() else { unreachable!("it is one") };
        let now = Instant::ZERO + Duration::from_secs(seconds);
        let from = set.plan.node(message.originator.into()).expect("a node of the plan");
        let said = (&message, &topology);
        let verdict = set.judge(now, (from, via), said, signing, &mut || true);
        if verdict == Verdict::New {
            set.make_room(from, |node| node.0 < 1_000);
            set.take(now, (from, via), message, &topology);
        }
        verdict
    }

    fn signing() -> Signing {
        let identity = Identity::from_secret([1; 32]);
        let keys = [(NodeId(1), identity.public())].into();
        Signing { identity, keys: Arc::new(keys) }
    }

    /// What is believed of node 1.
    fn told(set: &TopologySet) -> Vec<u16> {
        set.edges()[&NodeId(1)].iter().map(|edge| edge.0.0).collect()
    }

    #[test]
    fn messages_of_one_set_add_up_in_any_order() {
        let signing = signing();
        for signing in [None, Some(&signing)] {
            let signer = signing.map(|signing| &signing.identity);
            let parts = [(10, 2..=151), (11, 152..=202)];
            for order in [[0, 1], [1, 0]] {
                let mut set = TopologySet::new(AddressPlan::default());
                let part = |at: usize| {
                    let (number, neighbours) = parts[at].clone();
                    message(1, (5, number), neighbours, signer)
                };
                for at in order {
                    assert_eq!(hear(&mut set, (1, NodeId(1)), part(at), signing), Verdict::New);
                }
                assert_eq!(told(&set), (2..=202).collect::<Vec<_>>());
                for at in order {
                    let again = part(at);
                    let Body::Topology(said) = &again.body else { unreachable!("it is one") };
                    let which = (NodeId(1), Number::of(&again, said));
                    let sent_on = set.to_send_on(which, None).expect("it has hops left");
                    assert_eq!((sent_on.ansn, sent_on.seq), (5, again.seq));
                    assert_eq!(
                        hear(&mut set, (1, NodeId(1)), again.clone(), signing),
                        Verdict::Again
                    );
                    set.set_sent_on(which);
                    assert_eq!(hear(&mut set, (1, NodeId(1)), again, signing), Verdict::Seen);
                }
                let newest = set.answer(Instant::ZERO, NodeId(1)).expect("it is known");
                assert_eq!(newest.seq, 11);
            }
        }
    }

    #[test]
    fn a_new_set_replaces_the_former_when_it_is_complete_or_over() {
        let signing = signing();
        let mut set = TopologySet::new(AddressPlan::default());
        let mut hear = |numbers, neighbours| {
            let said = message(1, numbers, neighbours, Some(&signing.identity));
            let verdict = hear(&mut set, (1, NodeId(1)), said, Some(&signing));
            (verdict, told(&set))
        };
        let all = |range: RangeInclusive<u16>| (Verdict::New, range.collect::<Vec<_>>());
        hear((5, 10), 2..=151);
        assert_eq!(hear((5, 11), 152..=202), all(2..=202));
        assert_eq!(hear((6, 12), 3..=152), all(2..=202), "half of it is still to come");
        assert_eq!(hear((6, 13), 153..=202), all(3..=202));
        assert_eq!(hear((5, 11), 152..=202).0, Verdict::Old);
        // An earlier set had this ANSN too, before all numbers had been used.
        assert_eq!(hear((6, 11), 2..=202).0, Verdict::Old);
        assert_eq!(hear((6, 14), 2..=2), all(2..=202), "a third message begins a set");
        assert_eq!(hear((7, 15), 3..=9), all(3..=9));
        hear((8, 16), 2..=151);
        hear((8, 17), 152..=202);
        assert_eq!(hear((9, 18), 3..=9), all(2..=202));
        assert_eq!(hear((10, 20), 3..=9), all(3..=9));
    }

    #[test]
    fn a_neighbour_that_brings_invented_nodes_displaces_only_what_it_brings() {
        let mut set = TopologySet::new(AddressPlan::default());
        let (liar, other) = (NodeId(2), NodeId(3));
        let mut bring = |via, node, seconds| {
            let said = message(node, (1, 1), 1..=1, None);
            assert_eq!(hear(&mut set, (seconds, via), said, None), Verdict::New, "{node}");
            set.originators.keys().map(|node| node.0).collect::<Vec<_>>()
        };
        // 1 to 999 have routes, and 1 to 9 come over the liar too.
        (1..=9).for_each(|node| _ = bring(liar, node, 0));
        (10..=59).for_each(|node| _ = bring(other, node, 0));
        let most = ORIGINATORS as u16;
        (0..most).for_each(|at| _ = bring(liar, 2_000 + at, 1 + u64::from(at)));
        let known = bring(other, 60, 10_000);
        assert_eq!(known.len(), ORIGINATORS);
        assert_eq!(known[..60], (1..=60).collect::<Vec<_>>());
        assert_eq!(known[60], 2_000 + 60, "those that came first are gone");
    }

    #[test]
    fn with_keys_no_number_is_forgotten_to_make_room() {
        let signing = signing();
        let mut set = TopologySet::new(AddressPlan::default());
        let via = NodeId(2);
        for node in 2..2 + ORIGINATORS as u16 {
            let said = message(node, (1, 1), 1..=1, None);
            assert_eq!(hear(&mut set, (1, via), said, None), Verdict::New);
        }
        let said = message(1, (1, 1), 2..=2, Some(&signing.identity));
        assert_eq!(hear(&mut set, (1, via), said, Some(&signing)), Verdict::TooMany);
    }
}
