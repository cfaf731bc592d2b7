//! Frames that are filled with packets and parts of packets. The fixed costs of a frame, preamble
//! and gap, are thus shared by more bytes, and no air time is left at the end of a slot because no
//! whole packet fits.
//!
//! The content of one frame is a bundle, which is one packet to the rest of the link. All its
//! packets belong to one flow whose packets are delivered in order: parts therefore arrive in the
//! order in which they were cut, and the numbers of the flow show when a bundle is missing.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::Wild;
use super::config::InOrder;
use super::port::Toward;
use super::queue::{Cut, Taken};
use crate::base::phy::LLC_SNAP_BYTES;
use crate::base::{
    Duration, EtherType, FlowId, Instant, Packet, PacketDone, PacketOutcome, UnitId,
};
use crate::wire::bundle::{self, Piece};
use crate::wire::wild::HEADER_BYTES;

/// Shortest part, in bytes, unless it is the rest of a packet.
pub(super) const LEAST: usize = 120;
/// Most flows of a neighbour with an incomplete packet.
const MOST_OPEN: usize = 256;
/// Longest packet, in bytes.
const LONGEST: usize = 65_535;

/// Which packets are in which bundles.
#[derive(Debug, Default)]
pub(super) struct Parts {
    bundles: BTreeMap<UnitId, Vec<UnitId>>,
    packets: BTreeMap<UnitId, Spread>,
    made: u64,
}

/// A packet whose parts are spread over bundles.
#[derive(Debug)]
struct Spread {
    /// Bundles with parts of it whose outcome is open.
    left: u32,
    /// Whether its last part has been sent.
    is_all_out: bool,
    /// Its outcome so far.
    done: PacketDone,
}

impl Parts {
    /// Records the content of a new bundle; returns the bundle's id.
    pub(super) fn begin(&mut self, cuts: &[Cut]) -> UnitId {
        // Ids of packets are counted upwards from 0.
        let bundle = UnitId(u64::MAX - self.made);
        self.made += 1;
        for cut in cuts {
            let done = PacketDone {
                id: cut.packet.id,
                outcome: PacketOutcome::Delivered,
                attempts: 0,
                air_time: Duration::ZERO,
            };
            let spread = Spread { left: 0, is_all_out: false, done };
            let spread = self.packets.entry(cut.packet.id).or_insert(spread);
            spread.left += 1;
            spread.is_all_out |= !cut.piece.goes_on;
        }
        self.bundles.insert(bundle, cuts.iter().map(|cut| cut.packet.id).collect());
        bundle
    }

    /// A bundle or a packet of its own has ended. For a bundle, the packets that have ended with it
    /// are added to `out`.
    pub(super) fn end(&mut self, done: PacketDone, out: &mut Vec<PacketDone>) {
        let Some(packets) = self.bundles.remove(&done.id) else {
            self.packets.remove(&done.id);
            return out.push(done);
        };
        for (place, id) in packets.iter().enumerate() {
            let Some(spread) = self.packets.get_mut(id) else { continue };
            spread.left -= 1;
            spread.done.attempts = spread.done.attempts.max(done.attempts);
            if place == 0 {
                spread.done.air_time += done.air_time;
            }
            if done.outcome != PacketOutcome::Delivered {
                spread.done.outcome = done.outcome;
            }
            if spread.left == 0 && spread.is_all_out {
                out.push(spread.done);
                self.packets.remove(id);
            }
        }
    }
}

/// Joins the parts that arrive from a neighbour.
#[derive(Debug, Default)]
pub(super) struct Joiner {
    open: BTreeMap<FlowId, Open>,
    /// Number of parts received.
    taken: u64,
    /// Parts that were discarded because the rest of their packet is missing.
    pub(super) torn: u64,
}

#[derive(Debug)]
struct Open {
    /// The flow number of the bundle that continues it.
    next: u16,
    /// When its last part arrived, as a count of parts.
    at: u64,
    protocol: EtherType,
    bytes: Vec<u8>,
}

impl Joiner {
    /// The packets that are complete with what was delivered: the packet itself, or packets of a
    /// bundle. None if the bundle is malformed.
    pub(super) fn take(
        &mut self,
        flow: FlowId,
        flow_seq: u16,
        protocol: EtherType,
        payload: Bytes,
    ) -> Option<Vec<(EtherType, Bytes)>> {
        if self.open.get(&flow).is_some_and(|open| open.next != flow_seq) {
            // A bundle in between was given up.
            self.open.remove(&flow);
            self.torn += 1;
        }
        if protocol != EtherType::FARHOP {
            return Some(vec![(protocol, payload)]);
        }
        let mut whole = Vec::new();
        // Pieces that ride were delivered separately.
        for piece in bundle::decode(&payload)?.into_iter().filter(|piece| piece.ride.is_none()) {
            if piece.is_whole() {
                whole.push((piece.protocol, piece.bytes));
                continue;
            }
            let open = match piece.is_rest {
                true => self.open.remove(&flow).filter(|open| open.fits(&piece)),
                false => Some(Open { next: 0, at: 0, protocol: piece.protocol, bytes: Vec::new() }),
            };
            let Some(mut open) = open else {
                self.torn += 1;
                continue;
            };
            open.bytes.extend_from_slice(&piece.bytes);
            self.taken += 1;
            if !piece.goes_on {
                whole.push((open.protocol, open.bytes.into()));
                continue;
            }
            (open.next, open.at) = (flow_seq.wrapping_add(1), self.taken);
            self.torn += u64::from(self.open.insert(flow, open).is_some());
            if self.open.len() > MOST_OPEN {
                self.forget_oldest();
            }
        }
        Some(whole)
    }

    /// Discards the packet that has waited longest: if its flow has ended, the rest never arrives.
    fn forget_oldest(&mut self) {
        let oldest = self.open.iter().min_by_key(|(_, open)| open.at).map(|(flow, _)| *flow);
        if let Some(flow) = oldest {
            self.open.remove(&flow);
            self.torn += 1;
        }
    }

    /// The neighbour has restarted.
    pub(super) fn clear(&mut self) {
        self.open.clear();
    }
}

impl Open {
    fn fits(&self, piece: &Piece) -> bool {
        self.protocol == piece.protocol && self.bytes.len() + piece.bytes.len() <= LONGEST
    }
}

/// The largest number up to `most` for which `holds` is true; 0 if it is true for none. If it is
/// true for a number, it must be true for all smaller ones.
pub(super) fn largest(most: usize, holds: impl Fn(usize) -> bool) -> usize {
    if holds(most) {
        return most;
    }
    let (mut low, mut high) = (0, most);
    while high - low > 1 {
        let middle = usize::midpoint(low, high);
        if holds(middle) { low = middle } else { high = middle }
    }
    low
}

impl Wild {
    /// Whether packets of a class to a neighbour are sent in bundles of parts.
    pub(super) fn cuts(&self, index: usize, class: usize) -> bool {
        self.settings.frame_bytes.is_some()
            && self.settings.in_order != InOrder::Link
            && self.peers[index].takes_parts
            && self.settings.classes.get(class).is_ordered
    }

    /// Takes what fills a frame from the flow that is `turn` places behind the next one; none if
    /// too little fits.
    pub(super) fn fill(
        &mut self,
        now: Instant,
        index: usize,
        (level, turn): (usize, usize),
        ack: usize,
    ) -> Option<Taken> {
        let place = self.peers[index].place;
        let port = self.port(place);
        let most = usize::from(self.settings.frame_bytes?)
            .saturating_sub(LLC_SNAP_BYTES + HEADER_BYTES + ack + port.spec.seal_bytes)
            .min(self.longest_body(index));
        // A frame that fills a slot to its end would pass it if the radio draws a longer gap.
        let spec = self.port(place).spec;
        let beside = self.reserved(place, None) + spec.gap_spread();
        // When it is repeated, it must fit into the shortest turn that this node may be given.
        let most = largest(most, |bytes| self.fits_any_slot(index, bytes));
        let fits = |bytes: usize| self.fits(now, (place, Toward::Many(index)), ack + bytes, beside);
        let room = largest(most, fits);
        if room < most && self.port(place).planned > Duration::ZERO {
            // The room for the last frame is known exactly once those before it have been sent.
            return None;
        }
        let air = self.frame_air(index);
        let peer = &mut self.peers[index];
        let riders = if self.settings.acks_ride { peer.queue.rider_bytes(level, turn) } else { 0 };
        let kept = riders.min(room / 4);
        let copies = &self.copies;
        let is_one = |packet: &Packet| copies.is_one(packet.id);
        let (cuts, flow_seq, class) = peer.queue.cut((level, turn), room - kept, is_one, air)?;
        let mut packet = cuts[0].packet.clone();
        let is_alone = cuts.len() == 1 && cuts[0].piece.is_whole();
        let pieces: Vec<Piece> = if is_alone {
            Vec::new()
        } else {
            packet.id = self.parts.begin(&cuts);
            self.counters.frames_filled += 1;
            cuts.into_iter().map(|cut| cut.piece).collect()
        };
        let mut taken = Taken { packet, flow_seq, class };
        self.board(now, index, (ack, room), &mut taken, pieces);
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{RadioId, TxOptions};

    fn piece(text: &'static [u8], is_rest: bool, goes_on: bool) -> Piece {
        Piece { is_rest, goes_on, ..Piece::whole(EtherType::IPV4, Bytes::from_static(text)) }
    }

    fn came(joiner: &mut Joiner, flow_seq: u16, pieces: &[Piece]) -> Vec<Vec<u8>> {
        let bundle = bundle::encode(pieces);
        let whole = joiner.take(FlowId(1), flow_seq, EtherType::FARHOP, bundle);
        whole.expect("a bundle").into_iter().map(|(_, packet)| packet.to_vec()).collect()
    }

    #[test]
    fn a_packet_is_whole_when_its_last_part_has_come() {
        let mut joiner = Joiner::default();
        let first = [piece(b"one", false, false), piece(b"tw", false, true)];
        assert_eq!(came(&mut joiner, 65_535, &first), [b"one"]);
        assert!(came(&mut joiner, 0, &[piece(b"o and ", true, true)]).is_empty());
        let last = [piece(b"more", true, false), piece(b"three", false, false)];
        assert_eq!(came(&mut joiner, 1, &last), [&b"two and more"[..], b"three"]);
        assert_eq!((joiner.torn, joiner.open.len()), (0, 0));
    }

    #[test]
    fn of_too_many_open_packets_the_oldest_is_given_up() {
        let mut joiner = Joiner::default();
        let mut comes = |flow: usize, seq: u16, piece: Piece| {
            let bundle = bundle::encode(&[piece]);
            let whole = joiner.take(FlowId(flow as u16), seq, EtherType::FARHOP, bundle);
            whole.expect("a bundle").len()
        };
        for flow in 0..=MOST_OPEN {
            assert_eq!(comes(flow, 0, piece(b"be", false, true)), 0);
        }
        let end = || piece(b"gin", true, false);
        assert_eq!(comes(0, 1, end()), 0, "flows that ended had made room for none");
        assert_eq!([comes(1, 1, end()), comes(MOST_OPEN, 1, end())], [1, 1]);
        assert_eq!(joiner.open.len(), MOST_OPEN - 2);
    }

    #[test]
    fn parts_of_two_packets_are_never_one() {
        let mut joiner = Joiner::default();
        came(&mut joiner, 7, &[piece(b"begin", false, true)]);
        // The bundle with number 8 was given up.
        let after = [piece(b"end", true, false), piece(b"next", false, false)];
        assert_eq!(came(&mut joiner, 9, &after), [b"next"]);
        assert_eq!(joiner.torn, 2, "the begin and the end");
        came(&mut joiner, 10, &[piece(b"begin", false, true)]);
        joiner.clear();
        assert!(came(&mut joiner, 11, &[piece(b"end", true, false)]).is_empty());
    }

    #[test]
    fn a_packet_ends_when_all_bundles_with_parts_of_it_have() {
        let mut parts = Parts::default();
        let packet = |id| Packet {
            id: UnitId(id),
            radio: RadioId(0),
            to: None,
            flow: FlowId(1),
            protocol: EtherType::IPV4,
            payload: Bytes::new(),
            options: TxOptions::default(),
            order: None,
        };
        let cut =
            |id, is_rest, goes_on| Cut { packet: packet(id), piece: piece(b"", is_rest, goes_on) };
        let first = parts.begin(&[cut(1, false, false), cut(2, false, true)]);
        let second = parts.begin(&[cut(2, true, false), cut(3, false, true)]);
        let third = parts.begin(&[cut(3, true, false)]);
        let mut end = |id, outcome| {
            let mut out = Vec::new();
            let (attempts, air_time) = (1, Duration::from_micros(5));
            parts.end(PacketDone { id, outcome, attempts, air_time }, &mut out);
            out.iter().map(|done| (done.id.0, done.outcome)).collect::<Vec<_>>()
        };
        let (came, failed) = (PacketOutcome::Delivered, PacketOutcome::Failed);
        assert!(end(second, came).is_empty(), "the begin of 2 is still out, and the end of 3");
        assert_eq!(end(first, failed), [(1, failed), (2, failed)]);
        assert_eq!(end(third, came), [(3, came)]);
        assert_eq!(end(UnitId(9), came), [(9, came)], "a packet by itself");
        assert!(parts.bundles.is_empty() && parts.packets.is_empty());
    }

    #[test]
    fn the_largest_that_holds_is_found() {
        for limit in [0, 1, 77, 2_199, 2_200] {
            assert_eq!(largest(2_200, |number| number <= limit), limit);
        }
    }
}
