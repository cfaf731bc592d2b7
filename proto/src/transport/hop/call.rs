//! Calls beside blocks.
//!
//! A packet of a call goes before the blocks of its own node, but a node that does not hear its
//! sender may be in the midst of a burst, and begins the next one as soon as that is over: all
//! tries of the radio are lost in it. A node whose packets of a call fail therefore tells its
//! neighbours, they tell theirs, and whoever knows of it sends short bursts and leaves the air
//! alone after each of them. The paper has priorities alone (`hop.md`, 2).

use std::net::{Ipv4Addr, SocketAddrV4};

use super::Hop;
use super::out::{CONTROL_FLOW, InRadio, Message};
use crate::base::{AccessCategory, Bitrate, Datagram, Destination, Duration, Instant, TxOptions};
use crate::wire::hop::{self as wire, BlockId, Body, FlowKey, Header};
use crate::wire::udp;

/// How long there is a call after the last of it: messages about it are lost in bursts too.
const LASTS: Duration = Duration::from_secs(10);
/// From one message to the neighbours to the next.
const PERIOD: Duration = Duration::from_millis(500);
/// Neighbours pass it on so many times: who cannot read what a node sends may still drown what it
/// receives.
const REACH: u8 = 2;
/// Frames of a burst beside a call: 4 ms at 11 Mb/s, and a radio tries a packet for 5 to 8 ms.
pub(super) const FRAMES: u32 = 3;
/// All systems on this link (RFC 1112, appendix I).
const ALL_SYSTEMS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);

/// What a node knows of calls.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// When it had the last packet of one, or was told of one.
    latest: Option<Instant>,
    /// When it had the last packet of one.
    own: Option<Instant>,
    /// When it may tell its neighbours again.
    next: Instant,
}

impl Hop {
    /// Whether a call passes here or nearby, and blocks are to leave it gaps.
    pub(super) fn has_call(&self, now: Instant) -> bool {
        self.config.call_gap_ms > 0.0 && self.calls.latest.is_some_and(|at| now < at + LASTS)
    }

    /// The next hop of a call does not get a packet of it.
    pub(super) fn on_call_fails(&mut self, now: Instant) {
        self.calls.own = Some(now);
        self.on_call_nearby(now, 0);
    }

    /// A call passes nearby, and neighbours are to be told if anything is left of its reach.
    pub(super) fn on_call_nearby(&mut self, now: Instant, reach: u8) {
        self.calls.latest = Some(now);
        let is_own = self.calls.own.is_some_and(|at| now < at + LASTS);
        let reach = if is_own { Some(REACH) } else { reach.min(REACH).checked_sub(1) };
        if let Some(reach) = reach.filter(|_| self.has_call(now) && self.calls.next <= now) {
            self.calls.next = now + PERIOD;
            self.counters.calls_told += 1;
            self.queue(Message::Call { reach });
        }
    }

    /// The message of that to all neighbours.
    pub(super) fn call_message(&mut self, reach: u8) -> Datagram {
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
        let to = SocketAddrV4::new(ALL_SYSTEMS, wire::CONTROL_PORT);
        let options = TxOptions {
            access: AccessCategory::Voice,
            rate: self.config.control_mbps.map(Bitrate::from_mbps).or(self.sure_rate),
            ..TxOptions::default()
        };
        Datagram {
            id: self.next_id(InRadio::Message(Message::Call { reach }, self.node)),
            to: Destination::Around,
            flow: CONTROL_FLOW,
            payload: udp::encode(from, to, &front, &[]),
            options,
        }
    }
}
