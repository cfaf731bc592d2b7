//! Which frame is next, and how it is built (`wildnet.md` 3, 5.1, 7.2, 12).
//!
//! In each slot: acknowledgements by themselves to neighbours for whom nothing else is there,
//! parity of closed blocks, retransmissions oldest first, new packets in turn, and a beacon if
//! nothing else was sent.

use super::peer::Peer;
use super::status::WildEvent;
use super::{Group, Port, Wild};
use crate::base::{
    AccessCategory, AckPolicy, Cx, Duration, EtherType, FlowId, Frame, FrameDone, FrameOutcome,
    Instant, Lane, PacketUp, RoomBelow, Seq, TxOptions, UnitId,
};
use crate::wire::wild::{Coded, FULL_LENGTH, HEADER_BYTES, Header, Kind, encode, flag};

/// A frame that was given down and has not come back.
#[derive(Debug)]
pub(super) struct Outstanding {
    id: UnitId,
    place: (usize, usize),
    peer: Option<usize>,
    slot: u16,
    had_stamp: bool,
    what: What,
    /// Air time that was planned for it, with gap and overhead.
    planned: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    First(Seq),
    Repeat(Seq),
    Parity,
    Control,
    /// For a layer below, which puts so many bytes in.
    Carrier(usize),
}

/// What goes into a frame besides what the slot adds.
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
    /// A send slot begins: the guard is over.
    pub(super) fn on_slot_began(&mut self, cx: &mut Cx<'_>, group: usize) {
        let slots = &self.groups[group].slots;
        let (number, until, channel) = (slots.number(), slots.end(), self.groups[group].channel);
        self.counters.slots += 1;
        self.air.guard += self.settings.guard;
        cx.emit(|| WildEvent::SlotBegan { channel, number });
        for port in 0..self.groups[group].ports.len() {
            let Group { slots, ports, .. } = &mut self.groups[group];
            ports[port].on_slot(cx.now, slots, &self.settings);
            self.give_turns((group, port));
        }
        for index in 0..self.peers.len() {
            if self.peers[index].place.0 == group {
                self.peers[index].on_slot(number, until);
            }
        }
        self.on_cycle(cx, group);
    }

    /// A send slot begins in which this node listens.
    pub(super) fn on_slot_listened(&mut self, cx: &mut Cx<'_>, group: usize) {
        self.counters.slots_listened += 1;
        self.on_cycle(cx, group);
    }

    fn on_cycle(&mut self, cx: &mut Cx<'_>, group: usize) {
        let patience = self.settings.slot * 2 * super::slots::STALE_CYCLES;
        let mut is_missing = false;
        for index in 0..self.peers.len() {
            if self.peers[index].place.0 == group {
                self.on_peer_cycle(cx, index);
                let heard = self.peers[index].heard;
                is_missing |= heard.is_none_or(|heard| cx.now.since(heard) > patience);
            }
        }
        self.groups[group].slots.set_missing(is_missing);
    }

    /// The next frame of one radio, if there is one that fits into the slot.
    pub(super) fn next_frame(
        &mut self,
        cx: &mut Cx<'_>,
        place: (usize, usize),
        below: &RoomBelow<'_>,
    ) -> Option<Frame> {
        // Nothing shorter than a bare header exists.
        if !self.fits(cx.now, place, 0, Duration::ZERO) {
            return None;
        }
        if let Some(frame) = self.opening_beacon(cx.now, place, below) {
            return Some(frame);
        }
        if let Some(frame) = self.carrier(cx.now, place, below) {
            return Some(frame);
        }
        let may_send = self.groups[place.0].slots.is_in_step(cx.now);
        for turn in 0..self.port(place).peers.len() {
            let index = self.port(place).peers[turn];
            if !(may_send && self.peers[index].is_up) || below(lane(&self.peers[index])).is_none() {
                continue;
            }
            let frame = self
                .ack_alone(cx.now, index)
                .or_else(|| self.parity(cx.now, index))
                .or_else(|| self.of_classes(cx.now, index));
            if frame.is_some() {
                self.port_mut(place).peers.rotate_left(turn + 1);
                return frame;
            }
        }
        self.beacon(cx.now, place, below)
    }

    pub(super) fn port(&self, place: (usize, usize)) -> &Port {
        &self.groups[place.0].ports[place.1]
    }

    pub(super) fn port_mut(&mut self, place: (usize, usize)) -> &mut Port {
        &mut self.groups[place.0].ports[place.1]
    }

    /// Whether a frame with `bytes` bytes behind the header, and `beside` of air time after it,
    /// end within the slot.
    pub(super) fn fits(
        &self,
        now: Instant,
        place: (usize, usize),
        bytes: usize,
        beside: Duration,
    ) -> bool {
        let overhead = self.settings.overhead;
        let end = self.port(place).after(now, HEADER_BYTES + bytes, overhead) + beside;
        end <= self.port(place).closes
    }

    fn ack_alone(&mut self, now: Instant, index: usize) -> Option<Frame> {
        let peer = &mut self.peers[index];
        if !peer.wants_ack_alone() {
            return None;
        }
        let ack = peer.ack();
        let beside = self.reserved(self.peers[index].place, None);
        if ack.is_empty() || !self.fits(now, self.peers[index].place, ack.len(), beside) {
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

    /// Builds the frame and notes that it is under way.
    pub(super) fn give(
        &mut self,
        now: Instant,
        place: (usize, usize),
        content: Content<'_>,
    ) -> Frame {
        let incarnation = self.incarnation(now);
        let slots = &self.groups[place.0].slots;
        let (slot, cluster) = (slots.number(), slots.cluster());
        let demand = content.peer.map_or(0, |index| self.demand(&self.peers[index]));
        let overhead = self.settings.overhead;
        let port = self.port(place);
        let deadline = port.closes;
        let carried = if let What::Carrier(bytes) = content.what { Some(bytes) } else { None };
        let had_stamp = !port.is_stamped || carried.is_some();
        let on_air = now.max(port.busy_until) + port.spec.mean_gap();
        let delta_us = on_air.since(slots.start()).as_micros() as u32;
        let base = content.peer.map_or(content.seq, |index| self.peers[index].sender.base());
        let header = Header {
            kind: content.kind,
            flags: content.flags | if had_stamp { flag::FIRST_IN_SLOT } else { 0 },
            flow: content.flow,
            seq: content.seq,
            flow_seq: content.flow_seq,
            attempt: content.attempt,
            slot,
            delta_us: if had_stamp { delta_us } else { 0 },
            incarnation,
            coded: content.coded,
            base_offset: content.seq.distance(base) as u16,
            protocol: content.protocol,
            cluster,
            length: FULL_LENGTH,
            demand,
        };
        let payload = encode(&header, content.ack, content.body);
        let id = self.ids.next_id();
        let to = content.peer.map(|index| self.peers[index].spec.node);
        let port = self.port_mut(place);
        let planned = port.take(now, payload.len() + carried.unwrap_or_default(), overhead);
        let (radio, rate) = (port.spec.id, port.spec.rate);
        if let Some(index) = content.peer {
            let peer = &mut self.peers[index];
            peer.sender.on_frame();
            peer.acks.left -= u8::from(!content.ack.is_empty());
        }
        let (peer, what) = (content.peer, content.what);
        self.outstanding.push_back(Outstanding { id, place, peer, slot, had_stamp, what, planned });
        let options = TxOptions {
            access: AccessCategory::BestEffort,
            ack: AckPolicy::NoAck,
            rate: Some(rate),
            attempts: Some(1),
            deadline: Some(deadline),
            ..TxOptions::default()
        };
        let flow = if carried.is_some() { FlowId::CONTROL } else { FlowId(0) };
        Frame { id, radio, to, flow, protocol: EtherType::FARHOP, payload, options }
    }

    /// The end of a frame of ours.
    pub(super) fn on_done(&mut self, cx: &mut Cx<'_>, done: FrameDone) {
        // Frames come back nearly always in the order in which they were given down.
        let found = self.outstanding.binary_search_by_key(&done.id, |frame| frame.id);
        let Some(frame) = found.ok().and_then(|at| self.outstanding.remove(at)) else {
            self.counters.unknown_done += 1;
            return;
        };
        // A radio that draws its gaps is often done sooner than planned: that air is used. Where it
        // takes longer, the deadline of the next frame tells.
        let port = self.port_mut(frame.place);
        port.planned = port.planned.saturating_sub(frame.planned);
        // A radio that reports before the frame can have been on air must not fill the slot twice.
        port.busy_until = port.busy_until.min((cx.now + port.planned).max(port.on_air_until));
        if matches!(done.outcome, FrameOutcome::Late | FrameOutcome::Cancelled) {
            return self.on_late(frame);
        }
        self.counters.frames_sent += 1;
        let share = match frame.what {
            What::First(_) => &mut self.air.data,
            What::Repeat(_) => &mut self.air.retransmission,
            What::Parity => &mut self.air.coding,
            What::Control | What::Carrier(_) => &mut self.air.acknowledgement,
        };
        *share += done.air_time;
        if let (Some(index), What::First(seq) | What::Repeat(seq)) = (frame.peer, frame.what) {
            self.peers[index].sender.on_sent(seq, done.air_time);
        }
    }

    fn on_late(&mut self, frame: Outstanding) {
        self.counters.frames_late += 1;
        let slots = &self.groups[frame.place.0].slots;
        if frame.had_stamp && slots.number() == frame.slot {
            self.port_mut(frame.place).is_stamped = false;
        }
        let Some(index) = frame.peer else { return };
        let sender = &mut self.peers[index].sender;
        sender.on_frame_late(frame.slot);
        if let What::First(seq) | What::Repeat(seq) = frame.what {
            sender.on_late(seq);
        }
    }

    /// Once in a cycle for each neighbour: silence, and what waited too long.
    fn on_peer_cycle(&mut self, cx: &mut Cx<'_>, index: usize) {
        let silence = self.settings.slot * 2 * super::slots::SILENT_CYCLES;
        let peer = &mut self.peers[index];
        if peer.is_up && peer.heard.is_none_or(|heard| cx.now.since(heard) > silence) {
            peer.is_up = false;
            let node = peer.spec.node;
            self.up.push_back(PacketUp::Neighbour { node, up: false });
        }
        let mut done = Vec::new();
        let lost = self.peers[index].sender.on_cycle(cx.now, &mut done);
        self.up.extend(done.into_iter().map(PacketUp::Done));
        let to = self.peers[index].spec.node;
        if lost > 0 {
            cx.emit(|| WildEvent::Lost { to, packets: lost });
        }
        let mut out = Vec::new();
        self.peers[index].receiver.on_cycle(cx.now, &mut out);
        self.give_up(index, out);
    }
}

impl Port {
    /// A frame with `bytes` bytes goes down; the air time that is planned for it.
    fn take(&mut self, now: Instant, bytes: usize, overhead: Duration) -> Duration {
        self.is_stamped = true;
        let planned = self.spec.unacknowledged(bytes) + overhead;
        self.busy_until = self.busy_until.max(now) + planned;
        self.planned += planned;
        let air = planned.saturating_sub(self.spec.mean_gap() + overhead);
        self.on_air_until = self.on_air_until.max(now) + air;
        planned
    }
}

/// The lane of the frames to a neighbour: all in one flow, because their order is chosen here.
pub(super) fn lane(peer: &Peer) -> Lane {
    Lane { radio: peer.spec.radio, to: Some(peer.spec.node), ..Lane::default() }
}
