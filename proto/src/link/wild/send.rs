//! Chooses the next frame and builds it (`wildnet.md` 3, 5.1, 7.2, 12).
//!
//! The order in each slot: acknowledgements to neighbours for which nothing else waits; parity of
//! closed blocks; retransmissions, the oldest first; new packets, neighbours in turn; an
//! acknowledgement if no data fits and none has been sent; and a beacon if nothing else was sent.

use super::peer::Peer;
use super::port::{Port, Toward};
use super::riders::BUNDLE_BYTES;
use super::{InOrder, Wild, WildConfig, ack_bytes};
use crate::base::phy::LLC_SNAP_BYTES;
use crate::base::{
    Cx, Duration, EtherType, FlowId, Frame, Instant, Lane, RadioSpec, RoomBelow, Seq, UnitId,
};
use crate::wire::wild::{Coded, HEADER_BYTES, Header, Kind, UNIT_HEAD_BYTES, encode, flag};

/// A frame that was given down and has not come back.
#[derive(Debug)]
pub(super) struct Outstanding {
    pub(super) id: UnitId,
    pub(super) place: (usize, usize),
    pub(super) peer: Option<usize>,
    pub(super) slot: u16,
    pub(super) had_stamp: bool,
    pub(super) what: What,
    /// Length of its payload after LLC/SNAP.
    pub(super) bytes: usize,
    /// Air time that was planned for it, including gap and overhead.
    pub(super) planned: Duration,
    /// Whether it was charged to its neighbour's turn.
    pub(super) is_turn: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    First(Seq),
    Repeat(Seq),
    Parity,
    Control,
    /// For the layer below, which adds this many bytes.
    Carrier(usize),
}

impl What {
    pub(super) fn is_of_packets(self) -> bool {
        !matches!(self, Self::Control | Self::Carrier(_))
    }
}

/// The content of a frame, without what depends on the slot.
pub(super) struct Content<'a> {
    pub(super) kind: Kind,
    pub(super) what: What,
    pub(super) peer: Option<usize>,
    pub(super) flow: FlowId,
    pub(super) flow_seq: u16,
    pub(super) seq: Seq,
    pub(super) attempt: u8,
    pub(super) flags: u8,
    pub(super) coded: Option<Coded>,
    pub(super) protocol: EtherType,
    pub(super) ack: &'a [u8],
    pub(super) body: &'a [u8],
}

impl Wild {
    /// The next frame of one radio, if any fits into the slot.
    pub(super) fn next_frame(
        &mut self,
        cx: &mut Cx<'_>,
        place: (usize, usize),
        below: &RoomBelow<'_>,
    ) -> Option<Frame> {
        if !self.has_place(cx.now, place) {
            return None;
        }
        self.port_mut(place).pass_on(cx.now);
        if let Some(frame) = self.opening_beacon(cx.now, place, below) {
            return Some(frame);
        }
        if let Some(frame) = self.carrier(cx.now, place, below) {
            return Some(frame);
        }
        let frame = match self.groups[place.0].slots.is_in_step(cx.now) {
            true => self
                .before_turns(cx.now, place, below)
                .or_else(|| self.in_turn(cx.now, place, below))
                .or_else(|| self.told_again(cx.now, place, below)),
            false => None,
        };
        frame.or_else(|| self.beacon(cx.now, place, below))
    }

    /// Whether anything fits into the rest of the slot: no frame is shorter than a bare header.
    fn has_place(&self, now: Instant, place: (usize, usize)) -> bool {
        let fits = |toward| self.fits(now, (place, toward), 0, Duration::ZERO);
        self.port(place).peers.iter().any(|peer| fits(Toward::Many(*peer))) || fits(Toward::All)
    }

    fn may_go(&self, index: usize, below: &RoomBelow<'_>) -> bool {
        let peer = &self.peers[index];
        peer.is_up && !below(lane(peer)).is_none()
    }

    /// The next frame to the neighbour whose turn it is, or to the next one that has a frame that
    /// fits.
    fn in_turn(
        &mut self,
        now: Instant,
        place: (usize, usize),
        below: &RoomBelow<'_>,
    ) -> Option<Frame> {
        let mut first = None;
        for asked in 0..self.port(place).peers.len() {
            let (turn, index) = self.port(place).asked(asked)?;
            if !self.may_go(index, below) {
                continue;
            }
            if !self.peers[index].is_told()
                && let Some(frame) = self.ack_alone(now, index, false)
            {
                self.on_ack_alone(place, turn, first);
                return Some(frame);
            }
            if self.peers[index].has_data() {
                first.get_or_insert(turn);
            }
            let was_stamped = self.port(place).is_stamped;
            let data = self.any_parity(now, index).or_else(|| self.of_classes(now, index));
            if let Some(frame) = data {
                let sent = self.outstanding.back_mut().expect("it has just gone down");
                sent.is_turn = true;
                let size = (sent.bytes, sent.planned);
                let turns = (turn, first.unwrap_or(turn));
                self.port_mut(place).on_turn(now, turns, size, was_stamped);
                return Some(frame);
            }
            if let Some(frame) = self.ack_alone(now, index, true) {
                return Some(frame);
            }
        }
        None
    }

    /// A further copy of an acknowledgement. Packets to others come first, because some may fit
    /// into the slot only before it.
    fn told_again(
        &mut self,
        now: Instant,
        place: (usize, usize),
        below: &RoomBelow<'_>,
    ) -> Option<Frame> {
        (0..self.port(place).peers.len()).find_map(|turn| {
            let peers = &self.port(place).peers;
            let index = peers.get(turn).filter(|peer| self.may_go(*peer, below))?;
            let frame = self.ack_alone(now, index, false)?;
            self.on_ack_alone(place, turn, None);
            Some(frame)
        })
    }

    /// An acknowledgement was sent to the neighbour at `turn`. Its air time is charged: if the slot
    /// has no room for those of all neighbours, others are first in the next slot.
    fn on_ack_alone(&mut self, place: (usize, usize), turn: usize, first: Option<usize>) {
        let sent = self.outstanding.back_mut().expect("it has just gone down");
        sent.is_turn = true;
        let air = sent.planned;
        self.port_mut(place).peers.serve(turn, air, first.unwrap_or(turn));
    }

    pub(super) fn port(&self, place: (usize, usize)) -> &Port {
        &self.groups[place.0].ports[place.1]
    }

    pub(super) fn port_mut(&mut self, place: (usize, usize)) -> &mut Port {
        &mut self.groups[place.0].ports[place.1]
    }

    /// Whether a frame to a neighbour or to all, with `bytes` bytes after the header, and `beside`
    /// of air time after it, fit into the slot.
    pub(super) fn fits(
        &self,
        now: Instant,
        toward: ((usize, usize), Toward),
        bytes: usize,
        beside: Duration,
    ) -> bool {
        self.left(now, toward, bytes, beside).is_some()
    }

    /// What is left of the slot after both; none if they do not fit.
    pub(super) fn left(
        &self,
        now: Instant,
        (place, toward): ((usize, usize), Toward),
        bytes: usize,
        beside: Duration,
    ) -> Option<Duration> {
        let overhead = self.settings.overhead;
        let end = self.port(place).after(now, toward, HEADER_BYTES + bytes, overhead) + beside;
        let limit = self.port(place).limit(toward);
        (end <= limit).then(|| limit.since(end))
    }

    fn ack_alone(&mut self, now: Instant, index: usize, fits_nothing: bool) -> Option<Frame> {
        let peer = &mut self.peers[index];
        if !peer.wants_ack_alone(fits_nothing) {
            return None;
        }
        let ack = peer.ack();
        let beside = self.reserved(self.peers[index].place, None);
        let by_itself = (self.peers[index].place, Toward::Alone(index));
        if ack.is_empty() || !self.fits(now, by_itself, ack.len(), beside) {
            return None;
        }
        self.peers[index].acks.alone -= 1;
        let content = self.control(Kind::Ack, Some(index), &ack, &[]);
        Some(self.give(now, self.peers[index].place, content))
    }

    pub(super) fn control<'a>(
        &self,
        kind: Kind,
        peer: Option<usize>,
        ack: &'a [u8],
        body: &'a [u8],
    ) -> Content<'a> {
        let seq = peer.map_or(Seq(0), |index| self.peers[index].sender.next());
        Content {
            kind,
            what: What::Control,
            peer,
            flow: FlowId(0),
            flow_seq: 0,
            seq,
            attempt: 0,
            flags: 0,
            coded: None,
            protocol: EtherType::FARHOP,
            ack,
            body,
        }
    }

    /// The flags that do not depend on the content of a frame.
    fn flags(&self, now: Instant, is_first: bool, peer: Option<usize>) -> u8 {
        let first = if is_first { flag::FIRST_IN_SLOT } else { 0 };
        let is_hurried = peer.is_some_and(|index| self.is_hurried(now, index));
        let hurries = if is_hurried { flag::HURRIES } else { 0 };
        flag::TAKES_PARTS | first | hurries
    }

    /// Builds the frame and records that it is outstanding.
    pub(super) fn give(
        &mut self,
        now: Instant,
        place: (usize, usize),
        content: Content<'_>,
    ) -> Frame {
        let incarnation = self.incarnation(now);
        let slots = &self.groups[place.0].slots;
        let (slot, cluster, start) = (slots.number(), slots.cluster(), slots.start());
        let demand = self.demand_told(place, content.peer);
        let overhead = self.settings.overhead;
        let port = self.port(place);
        let carried = if let What::Carrier(bytes) = content.what { Some(bytes) } else { None };
        // A carrier always has a stamp, which the layer below may deliver with its message. After
        // an acknowledgement, which is sent twice, a neighbour needs no time.
        let toward = Toward::of(content.peer, content.what.is_of_packets());
        let options = port.options(toward);
        let had_stamp = !port.is_stamped || carried.is_some();
        let bytes = HEADER_BYTES + content.ack.len() + content.body.len();
        let begins = port.begins(now, toward, bytes).unwrap_or(start);
        let base = content.peer.map_or(content.seq, |index| self.peers[index].sender.base());
        let header = Header {
            kind: content.kind,
            flags: content.flags | self.flags(now, had_stamp, content.peer),
            flow: content.flow,
            seq: content.seq,
            flow_seq: content.flow_seq,
            attempt: content.attempt,
            slot,
            delta_us: begins.since(start).as_micros() as u32,
            incarnation,
            coded: content.coded,
            base_offset: content.seq.distance(base) as u16,
            protocol: content.protocol,
            cluster,
            length: self.length_units(place.0),
            demand,
        };
        let payload = encode(&header, content.ack, content.body);
        let id = self.ids.next_id();
        let to = content.peer.map(|index| self.peers[index].spec.node);
        let port = self.port_mut(place);
        port.is_owed &= !content.what.is_of_packets();
        let bytes = payload.len();
        let planned = port.take(now, toward, bytes + carried.unwrap_or_default(), overhead);
        let radio = port.spec.id;
        if let Some(index) = content.peer {
            let is_told = !content.ack.is_empty();
            self.peers[index].on_given(now, carried.is_none(), is_told);
        }
        let (peer, what) = (content.peer, content.what);
        let is_turn = false;
        let frame = Outstanding { id, place, peer, slot, had_stamp, what, bytes, planned, is_turn };
        self.outstanding.push_back(frame);
        let flow = if carried.is_some() { FlowId::CONTROL } else { FlowId(0) };
        Frame { id, radio, to, flow, protocol: EtherType::FARHOP, payload, options }
    }
}

impl WildConfig {
    /// Payload after LLC/SNAP, without a seal, of the longest frame with packets of up to `packet`
    /// bytes.
    pub fn longest_frame(&self, radio: &RadioSpec, packet: usize) -> usize {
        let rides = self.acks_ride && self.in_order != InOrder::Link;
        let single = self.single_frame(radio, packet.max(if rides { BUNDLE_BYTES } else { 0 }));
        let ack = self.most_ack_bytes(radio);
        // When a frame is repeated it may carry an acknowledgement that it did not carry at first.
        let filled = usize::from(self.frame_bytes.unwrap_or(0)) + ack;
        single.max(filled.saturating_sub(LLC_SNAP_BYTES + radio.seal_bytes))
    }

    /// The same for a frame with one packet, or a bundle, of `body` bytes.
    pub(crate) fn single_frame(&self, radio: &RadioSpec, body: usize) -> usize {
        HEADER_BYTES + self.most_ack_bytes(radio) + UNIT_HEAD_BYTES + body
    }

    fn most_ack_bytes(&self, radio: &RadioSpec) -> usize {
        ack_bytes(self.window(radio))
    }
}

/// The lane of the frames to a neighbour. All are in one flow, because their order is chosen here.
pub(super) fn lane(peer: &Peer) -> Lane {
    Lane { radio: peer.spec.radio, to: Some(peer.spec.node), ..Lane::default() }
}
