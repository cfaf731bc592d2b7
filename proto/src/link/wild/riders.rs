//! Acknowledgements of TCP that ride in the frame of another packet: most of what they cost by
//! themselves is preamble and gap.
//!
//! The frame's packet is then a bundle, one packet to the rest of the link: numbered, coded,
//! repeated and acknowledged as a whole. Its riders have no place in the order of their flows;
//! a bare acknowledgement that comes early or late only says less than it could.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::Wild;
use super::config::InOrder;
use super::queue::Taken;
use crate::base::{Duration, EtherType, Instant, PacketDone, UnitId};
use crate::wire::bundle::{self, HEAD_BYTES};

/// Riders in a frame, at most.
const MOST: usize = 4;
/// Longest bundle, in bytes, so that a frame fits where one of a full packet does.
const BUNDLE_BYTES: usize = 1_700;

/// Which packets ride with which.
#[derive(Debug, Default)]
pub(super) struct Riders(BTreeMap<UnitId, Vec<UnitId>>);

impl Riders {
    /// The riders of a packet that has ended, which have ended as it has.
    pub(super) fn end(&mut self, done: &PacketDone) -> impl Iterator<Item = PacketDone> + use<> {
        let done = *done;
        let riders = self.0.remove(&done.id).unwrap_or_default();
        riders.into_iter().map(move |id| PacketDone { id, air_time: Duration::ZERO, ..done })
    }
}

impl Wild {
    /// Lets acknowledgements that wait ride with a packet that goes out, as far as the frame
    /// still fits with them. `ack` is the length of the link's own acknowledgement in it.
    pub(super) fn board(&mut self, now: Instant, index: usize, ack: usize, taken: &mut Taken) {
        let place = self.peers[index].place;
        // All copies of a broadcast have one name, by which riders could not be told apart.
        let is_copy = self.copies.is_one(taken.packet.id);
        if !self.settings.acks_ride || self.settings.in_order == InOrder::Link || is_copy {
            return;
        }
        let mut riders = Vec::new();
        let mut length = HEAD_BYTES + taken.packet.payload.len();
        let beside = self.reserved(place, None);
        while riders.len() < MOST && self.peers[index].queue.len() > 0 {
            let left = BUNDLE_BYTES.saturating_sub(length + HEAD_BYTES);
            let fits = |more: usize| {
                let bytes = length + HEAD_BYTES + more;
                self.fits(now, place, ack + bytes, beside)
                    && self.fits_any_slot(&self.peers[index], bytes)
            };
            // The longest bare acknowledgement has two headers with all their options.
            let most = [60, 80, 120].into_iter().rev().find(|more| *more <= left && fits(*more));
            let queue = &mut self.peers[index].queue;
            let Some(rider) = most.and_then(|most| queue.take_bare_ack(most)) else { break };
            length += HEAD_BYTES + rider.payload.len();
            riders.push(rider);
        }
        if riders.is_empty() {
            return;
        }
        self.counters.acks_ridden += riders.len() as u64;
        self.riders.0.insert(taken.packet.id, riders.iter().map(|rider| rider.id).collect());
        let all = std::iter::once(&taken.packet).chain(&riders);
        let packets: Vec<_> = all.map(|it| (it.protocol, it.payload.clone())).collect();
        taken.packet.protocol = EtherType::FARHOP;
        taken.packet.payload = bundle::encode(&packets);
    }
}

/// The packets of one that came up: itself, or those of a bundle. Of one that is malformed none.
pub(super) fn split(protocol: EtherType, payload: Bytes) -> Vec<(EtherType, Bytes)> {
    if protocol != EtherType::FARHOP {
        return vec![(protocol, payload)];
    }
    bundle::decode(&payload).unwrap_or_default()
}
