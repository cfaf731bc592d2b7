//! Messages and frames on their way to the radio.

use std::net::SocketAddrV4;
use std::ops::Bound;

use super::block::Shape;
use super::{Hop, NextHop, OURS};
use crate::base::{
    AccessCategory, AckPolicy, Bitrate, Cx, Datagram, Destination, FlowId, Instant, Lane, NodeId,
    Overflow, PacketOutcome, RadioId, RoomBelow, TxOptions, UnitId,
};
use crate::wire::hop::{self as wire, BlockId, Body, Header, Refusal};
use crate::wire::udp;

/// Most messages that may wait to be sent; others are dropped, and asked for again.
const MESSAGES: usize = 1_024;
/// Turns of frames that the radio may hold.
const TURNS_IN_RADIO: u32 = 2;
/// How often the destination's acknowledgement is sent again to a hop that does not take it: for as
/// long as a hidden node may fill the air with bursts. A lost one costs the wait for a virtual
/// request.
const ARRIVED_TRIES: u8 = 16;
/// Attempts of the radio for a request of a transfer: more of them would not outlast a burst of a
/// hidden node, which loses a frame to each attempt. The request is repeated a little later
/// (`reach`). Requests for small blocks that somebody waits for are few, and have all attempts of
/// the radio.
const REQUEST_ATTEMPTS: u8 = 3;
/// The lane of messages about blocks, and of small blocks where a link has long queues; and the
/// lane of other frames of blocks.
pub(super) const CONTROL_FLOW: FlowId = FlowId(wire::CONTROL_PORT);
const DATA_FLOW: FlowId = FlowId(wire::DATA_PORT);

/// A message that waits to be sent. Its content is made when it leaves, so that answers are up to
/// date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    Request { block: BlockId },
    Answer { block: BlockId, to: NodeId, round: u16, shape: Shape },
    Arrived { block: BlockId, shape: Shape, refusal: Option<Refusal>, tries: u8 },
    Listen { block: BlockId, to: NodeId, shape: Shape },
    Call { via: NodeId, reach: u8 },
    CallTo { via: NodeId, tries: u8 },
}

impl Message {
    /// Whether two messages say the same: an acknowledgement of a destination may come back in a
    /// loop, and from several neighbours.
    pub(super) fn says(self, other: Self) -> bool {
        let key = |message: Self| match message {
            Self::Arrived { block, shape, refusal, .. } => Some((block, shape.crc, refusal)),
            _ => None,
        };
        self == other || key(self).is_some_and(|this| key(other) == Some(this))
    }

    /// The same message, with its tries counted anew.
    pub(super) fn anew(self) -> Self {
        match self {
            Self::Arrived { block, shape, refusal, .. } => {
                Self::Arrived { block, shape, refusal, tries: 0 }
            }
            other => other,
        }
    }
}

/// A datagram of ours that the radio has.
#[derive(Clone, Copy, Debug)]
pub(super) enum InRadio {
    /// A frame of a block, over this radio to this neighbour.
    Frame(BlockId, RadioId, NodeId),
    Message(Message, NodeId),
}

/// A datagram before it has its headers.
struct Content<'a> {
    to: NodeId,
    port: u16,
    /// Its lane.
    flow: FlowId,
    options: TxOptions,
    front: &'a [u8],
    rest: &'a [u8],
}

impl Hop {
    /// The next datagram, on a lane with room.
    pub fn poll_tx(&mut self, cx: &mut Cx<'_>, below: &RoomBelow<'_>) -> Option<Datagram> {
        while let Some(message) = self.next_message(below) {
            if let Some(datagram) = self.message(message) {
                return Some(datagram);
            }
        }
        let mut next = self.outlets.keys().next().copied();
        while let Some(radio) = next {
            let frame = self.poll_frame(cx.now, radio, below);
            if frame.is_some() {
                return frame;
            }
            let others = (Bound::Excluded(radio), Bound::Unbounded);
            next = self.outlets.range(others).next().map(|(radio, _)| *radio);
        }
        None
    }

    /// The next datagram with a frame, if this radio has room for one.
    fn poll_frame(
        &mut self,
        now: Instant,
        radio: RadioId,
        below: &RoomBelow<'_>,
    ) -> Option<Datagram> {
        if !self.outlets[&radio].has_turns() {
            return None;
        }
        let to = self.first_of(radio);
        let has_room = |flow| !below(Lane { flow, to, ..Lane::default() }).is_none();
        let turns = TURNS_IN_RADIO * u32::from(self.config.turn_frames);
        let most = self.below.frames.get(&radio).map_or(turns, |frames| turns.max(*frames));
        let frames = self.outlets[&radio].frames - self.away.frames(radio);
        let is_busy = frames >= most || !has_room(DATA_FLOW);
        let air = self.air_of(radio);
        // Small blocks, for which somebody waits, go past what a link has for its next slots.
        let is_full = match is_busy && self.below.repairs {
            true => frames >= 2 * most || !has_room(CONTROL_FLOW),
            false => is_busy || air.is_some_and(|air| self.is_burst_full(now, air)),
        };
        if is_full {
            return None;
        }
        let (block, frame) = self.next_frame(now, radio, is_busy)?;
        if let Some(air) = air {
            self.before_frame(now, air, block);
        }
        Some(self.frame(now, radio, block, frame))
    }

    pub(super) fn queue(&mut self, message: Message) {
        if self.messages.iter().any(|other| other.says(message)) {
            return;
        }
        if self.messages.len() < MESSAGES {
            self.messages.push_back(message);
        } else {
            self.counters.messages_dropped += 1;
        }
    }

    /// A datagram of ours has left the radio, or was given up.
    pub(super) fn on_out(&mut self, now: Instant, id: UnitId, outcome: PacketOutcome) {
        match self.in_radio.remove(&id) {
            Some(InRadio::Frame(block, radio, to)) => {
                self.outlets.entry(radio).or_default().frames -= 1;
                self.away.on_end(now, (radio, to), outcome);
                if let Some(air) = self.air_of(radio).filter(|air| self.frames_on(*air) == 0) {
                    self.on_air_idle(now, air);
                }
                self.on_frame_out(now, block);
            }
            Some(InRadio::Message(message, to)) => {
                self.on_message_out(to, outcome);
                self.after_message(now, message, to, outcome);
            }
            None => {}
        }
    }

    /// A datagram of ours is longer than a device takes.
    pub(super) fn on_too_long(&mut self, now: Instant, id: UnitId) {
        if let Some(InRadio::Frame(block, _, to)) = self.in_radio.get(&id).copied() {
            self.counters.frames_too_long += 1;
            self.put_off(now, block, to);
        }
        self.on_out(now, id, PacketOutcome::Failed);
    }

    fn after_message(
        &mut self,
        now: Instant,
        message: Message,
        to: NodeId,
        outcome: PacketOutcome,
    ) {
        match message {
            Message::Request { block } => self.on_request_out(now, block, to, outcome),
            Message::Arrived { block, shape, refusal, tries }
                if outcome == PacketOutcome::Failed =>
            {
                let is_moved = self.addressee(message).is_some_and(|next| next != to);
                let message = |tries| Message::Arrived { block, shape, refusal, tries };
                match tries < ARRIVED_TRIES {
                    _ if is_moved => self.queue(message(0)),
                    true => self.queue(message(tries + 1)),
                    // From then on one try at a time.
                    false => self.strand(now, message(ARRIVED_TRIES), to),
                }
            }
            Message::CallTo { via, tries } if outcome == PacketOutcome::Failed => {
                self.tell_again(now, via, tries);
            }
            Message::CallTo { via, .. } if outcome == PacketOutcome::Delivered => {
                self.on_told(now, via);
            }
            Message::Answer { .. } if outcome == PacketOutcome::Sent => {
                self.on_answer_out(now, message, to);
            }
            // Whoever misses an answer asks again.
            Message::Answer { .. }
            | Message::Arrived { .. }
            | Message::Listen { .. }
            | Message::Call { .. }
            | Message::CallTo { .. } => {}
        }
    }

    /// Takes the outcome of a message. After one that the radio gave up, the next goes at the other
    /// bit-rate: the surest one, or the radio's own again.
    fn on_message_out(&mut self, to: NodeId, outcome: PacketOutcome) {
        match outcome {
            PacketOutcome::Sent => {
                self.unacknowledged.insert(to);
                return;
            }
            PacketOutcome::Delivered => {
                self.unsure.remove(&to);
                if let Some(reach) = self.reach.get_mut(&to) {
                    reach.refusing = None;
                }
            }
            PacketOutcome::Failed if !self.unsure.remove(&to) => _ = self.unsure.insert(to),
            PacketOutcome::Failed => {}
        }
        self.unacknowledged.remove(&to);
    }

    /// The bit-rate of the next message to a neighbour; `None` leaves it to the radio.
    fn message_rate(&self, to: NodeId) -> Option<Bitrate> {
        let sure = || self.sure_rate.filter(|_| self.unsure.contains(&to));
        self.config.control_mbps.map(Bitrate::from_mbps).or_else(sure)
    }

    /// Takes the first message for which there is room. A message to a neighbour without a route is
    /// lost. One neighbour that is gone has at most one message on its way, so that a link that
    /// keeps them has room for those to others.
    fn next_message(&mut self, below: &RoomBelow<'_>) -> Option<Message> {
        let mut closed: Vec<NodeId> = Vec::new();
        let may_go = |message: &Message| {
            let Some(to) = self.addressee(*message) else { return true };
            if closed.contains(&to) {
                return false;
            }
            let lane = Lane { flow: CONTROL_FLOW, to: Some(to), ..Lane::default() };
            let is_enough = self.is_gone(to) && self.is_on_its_way(to);
            let may_go = !is_enough && !below(lane).is_none();
            if !may_go {
                closed.push(to);
            }
            may_go
        };
        let at = self.messages.iter().position(may_go)?;
        self.messages.remove(at)
    }

    /// Whether the radio has a message to a neighbour.
    fn is_on_its_way(&self, to: NodeId) -> bool {
        let mut sent = self.in_radio.values();
        sent.any(|sent| matches!(sent, InRadio::Message(_, other) if *other == to))
    }

    /// Whether a message to a neighbour that is gone waits or is on its way. Others would fill the
    /// queue, and each is repeated in any case.
    pub(super) fn is_tried(&self, to: NodeId) -> bool {
        let waits = || self.messages.iter().any(|message| self.addressee(*message) == Some(to));
        self.is_gone(to) && (self.is_on_its_way(to) || waits())
    }

    /// The neighbour that a message goes to; `None` if the message is no longer useful.
    pub(super) fn addressee(&self, message: Message) -> Option<NodeId> {
        match message {
            Message::Request { block } => Some(self.blocks.get(&block)?.transfer.as_ref()?.via),
            Message::Arrived { block, .. } => self.ways.newest(block.flow.source),
            Message::Answer { to, .. } | Message::Listen { to, .. } => Some(to),
            Message::Call { via, .. } | Message::CallTo { via, .. } => Some(via),
        }
    }

    /// The datagram of a message, unless the message has become pointless.
    fn message(&mut self, message: Message) -> Option<Datagram> {
        let (block, to, shape, body) = match message {
            Message::Request { block } => self.request(block)?,
            Message::Answer { block, to, round, shape } => {
                let bits = self.bits_of(block, shape)?;
                self.counters.answers += 1;
                (block, to, shape, Body::Answer { round, bits })
            }
            Message::Arrived { block, shape, refusal, .. } => {
                let to = self.ways.newest(block.flow.source)?;
                (block, to, shape, Body::Arrived { crc: shape.crc, refusal })
            }
            Message::Listen { block, to, shape } => (block, to, shape, Body::Listen),
            Message::Call { via, reach } => return Some(self.call_to_all(via, reach)),
            Message::CallTo { via, tries } => return Some(self.call_to(via, tries)),
        };
        let is_urgent = shape.is_urgent(block.number);
        let is_of_transfer =
            matches!(message, Message::Request { .. }) && (!is_urgent || self.is_gone(to));
        let options = TxOptions {
            access: AccessCategory::Voice,
            ack: AckPolicy::Normal,
            rate: self.message_rate(to),
            attempts: is_of_transfer.then_some(REQUEST_ATTEMPTS),
            ..TxOptions::default()
        };
        let front = wire::encode(&self.header(block, shape), &body);
        let (port, flow, rest) = (wire::CONTROL_PORT, CONTROL_FLOW, &[]);
        let content = Content { to, port, flow, options, front: &front, rest };
        Some(self.datagram(content, InRadio::Message(message, to)))
    }

    fn frame(&mut self, now: Instant, radio: RadioId, id: BlockId, frame: u16) -> Datagram {
        let block = self.blocks.get_mut(&id).expect("it has the frame");
        block.used = now;
        let (shape, payload) = (block.shape, block.data[usize::from(frame)].clone());
        let transfer = block.transfer.as_mut().expect("it is under way");
        if transfer.sent.count() == 0 {
            transfer.began = now;
        }
        transfer.sent.set(frame);
        transfer.in_radio += 1;
        let is_late = shape.is_small() && transfer.round > 1;
        let to = transfer.via;
        self.outlets.entry(radio).or_default().frames += 1;
        self.away.on_frame(now, (radio, to), self.below.cycle.unwrap_or_default());
        self.counters.frames_sent += 1;
        self.on_path_frame(now, to);
        // A small block that did not come at once is acknowledged by the link, as messages are: it
        // opens a flow, or somebody waits for it, and it is no burst that acknowledgements would
        // break.
        let options = match is_late {
            true => TxOptions { access: AccessCategory::BestEffort, ..TxOptions::default() },
            // Losses are repaired by the link, so its acknowledgements and attempts stay as they
            // are.
            false if self.below.repairs => {
                TxOptions { access: AccessCategory::Background, ..TxOptions::default() }
            }
            false => TxOptions {
                access: AccessCategory::Background,
                ack: AckPolicy::NoAck,
                attempts: Some(1),
                burst: true,
                ..TxOptions::default()
            },
        };
        let body = Body::Data { frame, payload: payload.clone() };
        let front = wire::encode(&self.header(id, shape), &body);
        let flow = if self.below.repairs && shape.is_small() { CONTROL_FLOW } else { DATA_FLOW };
        let port = wire::DATA_PORT;
        let content = Content { to, port, flow, options, front: &front, rest: &payload };
        self.datagram(content, InRadio::Frame(id, radio, to))
    }

    fn header(&self, block: BlockId, shape: Shape) -> Header {
        Header {
            block,
            destination: shape.destination,
            via: self.node,
            frames: shape.frames,
            hops_left: shape.hops_left,
            hops_made: shape.hops_made,
            opens: shape.opens,
            finishes: shape.finishes,
            is_early: shape.is_early,
        }
    }

    /// Gives an id to a datagram, and remembers it until its outcome is known.
    pub(super) fn next_id(&mut self, what: InRadio) -> UnitId {
        let id = UnitId(self.ids.next_id().0 | OURS);
        self.in_radio.insert(id, what);
        id
    }

    /// How a datagram is addressed to a next hop.
    pub(super) fn destination_of(&self, to: NodeId) -> Destination {
        match self.config.next_hop {
            NextHop::Raw => Destination::NextHop(to),
            NextHop::Ip => Destination::End(to),
        }
    }

    fn datagram(&mut self, content: Content<'_>, what: InRadio) -> Datagram {
        let Content { to, port, flow, options, front, rest } = content;
        let id = self.next_id(what);
        let socket = |node| SocketAddrV4::new(self.plan.ipv4(node), port);
        let payload = udp::encode(socket(self.node), socket(to), front, rest);
        let to = self.destination_of(to);
        let options = TxOptions { overflow: Overflow::Wait, ..options };
        Datagram { id, to, flow, payload, options }
    }
}
