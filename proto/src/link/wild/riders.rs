//! TCP acknowledgements and short packets that ride in the frames of other packets: most of their
//! cost in frames of their own is preamble and gap.
//!
//! The content of such a frame is a bundle, which is one packet to the rest of the link: it is
//! numbered, coded, repeated and acknowledged as a whole. A rider does not wait for the packets
//! that its host waits for, but for earlier ones of its own flow. TCP acknowledgements do not even
//! wait for these: a bare acknowledgement that is early or late only acknowledges less than it
//! could.

use std::collections::BTreeMap;

use super::Wild;
use super::config::InOrder;
use super::parts::largest;
use super::port::Toward;
use super::queue::{Host, SHORT_BYTES, Taken};
use crate::base::{Duration, EtherType, Instant, Packet, PacketDone, UnitId};
use crate::wire::bundle::{self, MOST_RIDERS, Piece, RIDE_BYTES, Ride};

/// Longest bundle, in bytes: its frame then fits wherever a frame with a full packet does.
pub(super) const BUNDLE_BYTES: usize = 1_700;

/// Which packets ride with which host.
#[derive(Debug, Default)]
pub(super) struct Riders(BTreeMap<UnitId, Vec<UnitId>>);

impl Riders {
    /// The riders of a packet that has ended. They have the same outcome.
    pub(super) fn end(&mut self, done: &PacketDone) -> impl Iterator<Item = PacketDone> + use<> {
        let done = *done;
        let riders = self.0.remove(&done.id).unwrap_or_default();
        riders.into_iter().map(move |id| PacketDone { id, air_time: Duration::ZERO, ..done })
    }
}

impl Wild {
    /// Lets waiting acknowledgements and short packets ride with a packet that is sent, or with the
    /// pieces sent in its name, as long as the frame fits and its bundle has at most `most` bytes.
    /// `ack` is the length of the link's own acknowledgement in the frame.
    pub(super) fn board(
        &mut self,
        now: Instant,
        index: usize,
        (ack, most): (usize, usize),
        taken: &mut Taken,
        mut pieces: Vec<Piece>,
    ) {
        let is_alone = pieces.is_empty();
        if is_alone {
            let Packet { protocol, payload, .. } = &taken.packet;
            pieces.push(Piece::whole(*protocol, payload.clone()));
        }
        // All copies of a broadcast have the same id, so their riders could not be told apart.
        let is_copy = self.copies.is_one(taken.packet.id);
        let can_ride = self.settings.acks_ride && self.peers[index].takes_parts;
        let rides = can_ride && self.settings.in_order != InOrder::Link && !is_copy;
        let length = bundle::bytes(&pieces);
        let riders = match rides {
            true => self.riders_for(now, index, taken, (ack, length, most)),
            false => Vec::new(),
        };
        if riders.is_empty() && is_alone {
            return;
        }
        if !riders.is_empty() {
            self.counters.acks_ridden += riders.len() as u64;
            let ids = riders.iter().map(|(rider, _)| rider.id).collect();
            self.riders.0.insert(taken.packet.id, ids);
        }
        let piece = |(rider, ride): (Packet, Ride)| Piece {
            ride: Some(ride),
            ..Piece::whole(rider.protocol, rider.payload)
        };
        pieces.extend(riders.into_iter().map(piece));
        taken.packet.protocol = EtherType::FARHOP;
        taken.packet.payload = bundle::encode(&pieces);
    }

    /// Removes from the queue what fits besides `length` bytes and may ride with `taken`.
    fn riders_for(
        &mut self,
        now: Instant,
        index: usize,
        taken: &Taken,
        (ack, mut length, most_bytes): (usize, usize, usize),
    ) -> Vec<(Packet, Ride)> {
        let place = self.peers[index].place;
        let mut riders = Vec::new();
        let beside = self.reserved(place, None);
        let frame = self.frame_air(index);
        let more_air = |bytes: usize| frame(bytes).saturating_sub(frame(0));
        while riders.len() < MOST_RIDERS && self.peers[index].queue.len() > 0 {
            let fits = |more: usize| {
                let bytes = length + RIDE_BYTES + more;
                bytes <= most_bytes
                    && self.fits(now, (place, Toward::Many(index)), ack + bytes, beside)
                    && self.fits_any_slot(index, bytes)
            };
            let most = largest(SHORT_BYTES, fits);
            let copies = &self.copies;
            let is_copy = |packet: &Packet| copies.is_one(packet.id);
            let host = Host { packet: &taken.packet, class: taken.class, is_copy: &is_copy };
            let queue = &mut self.peers[index].queue;
            let Some(rider) = queue.take_rider(most, &host, more_air) else { break };
            length += RIDE_BYTES + rider.0.payload.len();
            riders.push(rider);
        }
        riders
    }
}
