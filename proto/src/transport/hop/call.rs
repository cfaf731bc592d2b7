//! Calls, and all other traffic that is no block, beside blocks.
//!
//! A packet of a call goes before the blocks of its own node. But a node that does not hear its
//! sender may be sending a burst, and begins the next one as soon as that is over: all attempts of
//! the radio are lost in it. TCP fares the same, and would have nothing for minutes. A node whose
//! packets fail therefore tells its neighbours, and they tell theirs. Every node that knows of it
//! sends short bursts with a gap after each. The next hop of the failing packets is also told by
//! itself until it acknowledges, because broadcasts are lost in the same bursts. The paper only has
//! priorities (`hop.md` 2).

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};

use super::Hop;
use super::out::{CONTROL_FLOW, InRadio, Message};
use crate::base::{
    AccessCategory, Bitrate, Datagram, Destination, Duration, Instant, NodeId, Overflow, TxOptions,
};
use crate::wire::hop::{self as wire, BlockId, Body, FlowKey, Header};
use crate::wire::udp;

/// How long a call counts as present after its last sign: messages about it are lost in bursts too.
const LASTS: Duration = Duration::from_secs(10);
/// Time between two messages to the neighbours.
const PERIOD: Duration = Duration::from_millis(500);
/// How often a next hop that does not get the message is told again: for as long as a hidden node
/// may fill the air with bursts.
const TRIES: u8 = 16;
/// The time between messages to the next hop doubles so many times while it acknowledges none. Its
/// acknowledgements may never come in time, as over a link beyond the ACK time-out, where nothing
/// is drowned.
const DOUBLINGS: u32 = 4;
/// How many times neighbours pass the message on: a node that cannot decode what another sends may
/// still drown what that one receives.
const REACH: u8 = 2;
/// Frames of a burst beside a call: 4 ms at 11 Mb/s, while a radio tries a packet for 5 to 8 ms.
pub(super) const FRAMES: u32 = 3;
/// All systems on this link (RFC 1112, appendix I).
const ALL_SYSTEMS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);

/// What a node knows of the calls on one air.
#[derive(Clone, Copy, Debug, Default)]
struct OnAir {
    /// When packets last failed here, or another node said that its own fail.
    latest: Option<Instant>,
    /// When packets last failed here.
    own: Option<Instant>,
    /// When it may tell its neighbours again, and how many more times it had the last message
    /// passed on.
    next: Instant,
    told: u8,
    /// When it may tell a next hop again, and how many such messages in a row were not
    /// acknowledged.
    next_to: Instant,
    unanswered: u32,
}

/// What a node knows of calls, by [air](Hop::air).
#[derive(Debug, Default)]
pub(super) struct Calls(BTreeMap<Option<usize>, OnAir>);

impl Hop {
    /// Whether a call fails nearby on an air, or on one that is not known, so that blocks are to
    /// leave gaps.
    pub(super) fn has_call_on(&self, now: Instant, air: usize) -> bool {
        let is_near =
            |air| self.calls.0.get(&air).is_some_and(|on_air| is_lasting(now, on_air.latest));
        self.config.call_gap_ms > 0.0 && (is_near(Some(air)) || is_near(None))
    }

    /// A next hop does not get packets of a call, or of anything else that is no block.
    pub(super) fn on_drowned(&mut self, now: Instant, to: NodeId) {
        let air = self.air(to);
        self.calls.0.entry(air).or_default().own = Some(now);
        if !self.on_call_nearby(now, to, 0) {
            return;
        }
        let on_air = self.calls.0.entry(air).or_default();
        if on_air.next_to <= now {
            on_air.next_to = now + PERIOD * (1_u64 << on_air.unanswered);
            on_air.unanswered = (on_air.unanswered + 1).min(DOUBLINGS);
            self.queue(Message::CallTo { via: to, tries: 0 });
        }
    }

    /// The next hop has acknowledged the message.
    pub(super) fn on_told(&mut self, now: Instant, via: NodeId) {
        let on_air = self.calls.0.entry(self.air(via)).or_default();
        (on_air.next_to, on_air.unanswered) = (now, 0);
    }

    /// A call fails nearby, on the air to this neighbour; `reach` is how many times this may still
    /// be passed on. Returns whether others are told.
    pub(super) fn on_call_nearby(&mut self, now: Instant, via: NodeId, reach: u8) -> bool {
        let on_air = self.calls.0.entry(self.air(via)).or_default();
        on_air.latest = Some(now);
        let is_own = is_lasting(now, on_air.own);
        let reach = if is_own { Some(REACH) } else { reach.min(REACH).checked_sub(1) };
        let is_news = |reach: &u8| on_air.next <= now || *reach > on_air.told;
        let told = reach.filter(is_news).filter(|_| self.config.call_gap_ms > 0.0);
        if let Some(reach) = told {
            (on_air.next, on_air.told) = (now + PERIOD, reach);
            self.counters.calls_told += 1;
            self.queue(Message::Call { via, reach });
        }
        told.is_some()
    }

    /// A message to the next hop was lost, probably in the bursts that the call is lost in: it is
    /// sent again.
    pub(super) fn tell_again(&mut self, now: Instant, via: NodeId, tries: u8) {
        let on_air = self.calls.0.get(&self.air(via)).copied().unwrap_or_default();
        if tries < TRIES && is_lasting(now, on_air.own) {
            self.queue(Message::CallTo { via, tries: tries + 1 });
        }
    }

    /// The message about a failing call to all who hear what is sent to a neighbour.
    pub(super) fn call_to_all(&mut self, via: NodeId, reach: u8) -> Datagram {
        let message = Message::Call { via, reach };
        self.call(message, (Destination::Around(via), ALL_SYSTEMS), reach, self.sure_rate)
    }

    /// The same to the next hop alone, which has certainly been told once it acknowledges.
    pub(super) fn call_to(&mut self, via: NodeId, tries: u8) -> Datagram {
        let to = (self.destination_of(via), self.plan.ipv4(via));
        self.call(Message::CallTo { via, tries }, to, REACH, None)
    }

    fn call(
        &mut self,
        message: Message,
        (to, address): (Destination, Ipv4Addr),
        reach: u8,
        rate: Option<Bitrate>,
    ) -> Datagram {
        let header = Header {
            block: BlockId { flow: FlowKey { source: self.node, local: 0 }, number: 0 },
            destination: self.node,
            via: self.node,
            frames: 1,
            hops_left: reach,
            hops_made: 0,
            opens: false,
            finishes: false,
            is_early: false,
        };
        let front = wire::encode(&header, &Body::Call);
        let from = SocketAddrV4::new(self.plan.ipv4(self.node), wire::CONTROL_PORT);
        let rate = self.config.control_mbps.map(Bitrate::from_mbps).or(rate);
        let (access, overflow) = (AccessCategory::Voice, Overflow::Wait);
        let options = TxOptions { access, rate, overflow, ..TxOptions::default() };
        let payload =
            udp::encode(from, SocketAddrV4::new(address, wire::CONTROL_PORT), &front, &[]);
        let id = self.next_id(InRadio::Message(message, self.node));
        Datagram { id, to, flow: CONTROL_FLOW, payload, options }
    }
}

fn is_lasting(now: Instant, since: Option<Instant>) -> bool {
    since.is_some_and(|at| now < at + LASTS)
}
