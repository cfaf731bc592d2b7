//! A flow end of block transport: bytes of an application become blocks, and blocks become bytes.

use std::collections::VecDeque;
use std::net::SocketAddrV4;

use bytes::{Bytes, BytesMut};

use crate::base::{
    Cx, Datagram, DatagramUp, Datagrams, Duration, FlowId, Instant, Lane, Layer, Message,
    MessageUp, Messages, NodeId, Room, RoomBelow, named,
};
use crate::transport::{Transport, TransportStatus};
use crate::wire::hop::{BlockId, FlowKey};

use super::block::SMALL_BYTES;
use super::{Arrived, Delivery, HopConfig};

/// A block is closed this long after its first byte, even if it is not full (`hop.md` 9).
const BATCH: Duration = Duration::from_millis(500);

/// Which end of a flow it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Blocks begin here.
    Source,
    /// They end here.
    Sink,
}

/// One end of a flow of blocks. [`crate::stack::Flows`] moves blocks between it and the machine of
/// its node.
#[derive(Debug)]
pub struct HopPort {
    id: FlowId,
    role: Role,
    key: FlowKey,
    peer: NodeId,
    block_bytes: usize,
    frame_bytes: usize,
    /// Bytes of the block that is being filled, and since when there have been any.
    filling: BytesMut,
    since: Option<Instant>,
    /// A block that waits for the machine to have room, and whether it is the last.
    ready: Option<(Bytes, bool)>,
    /// Nothing more will be written.
    is_finished: bool,
    /// The last block was closed.
    is_closed: bool,
    /// The destination has refused the flow.
    is_refused: bool,
    next: u32,
    up: VecDeque<MessageUp>,
    /// Blocks that have arrived.
    arrived: u32,
    sent_bytes: u64,
    acked_bytes: u64,
    delivered_bytes: u64,
}

impl HopPort {
    /// The end with the name `id` of the flow `key`; `peer` is the node of the other end.
    pub fn build(config: &HopConfig, id: FlowId, role: Role, key: FlowKey, peer: NodeId) -> Self {
        Self {
            id,
            role,
            key,
            peer,
            block_bytes: config.bytes_of_block() as usize,
            frame_bytes: usize::from(config.frame_bytes),
            filling: BytesMut::new(),
            since: None,
            ready: None,
            is_finished: false,
            is_closed: false,
            is_refused: false,
            next: 0,
            arrived: 0,
            up: VecDeque::from([MessageUp::Connected(id)]),
            sent_bytes: 0,
            acked_bytes: 0,
            delivered_bytes: 0,
        }
    }

    /// The flow, if blocks begin here.
    pub fn source_of(&self) -> Option<FlowKey> {
        (self.role == Role::Source).then_some(self.key)
    }

    /// The flow, if blocks end here.
    pub fn sink_of(&self) -> Option<FlowKey> {
        (self.role == Role::Sink).then_some(self.key)
    }

    /// The flow and the bytes of the block that waits for the machine to have room.
    pub fn waiting(&self) -> Option<(FlowKey, usize)> {
        self.ready.as_ref().map(|(block, _)| (self.key, block.len()))
    }

    /// Gives the next block for the machine, which has room for it: its id, its destination,
    /// whether it is the last, and its frames.
    pub fn poll_block(&mut self) -> Option<(BlockId, NodeId, bool, Vec<Bytes>)> {
        let (block, is_last) = self.ready.take()?;
        let id = BlockId { flow: self.key, number: self.next };
        self.next += 1;
        self.sent_bytes += block.len() as u64;
        let frames = frames_of(&block, self.frame_bytes);
        self.close();
        Some((id, self.peer, is_last, frames))
    }

    /// Takes a complete block.
    pub fn handle_delivery(&mut self, delivery: Delivery) {
        for payload in delivery.frames.into_iter().filter(|payload| !payload.is_empty()) {
            self.delivered_bytes += payload.len() as u64;
            self.up.push_back(MessageUp::Received { flow: self.id, payload });
        }
        if delivery.shape.finishes {
            self.up.push_back(MessageUp::Finished(self.id));
        }
    }

    /// The destination has accepted a block, or refuses the flow.
    pub fn handle_arrived(&mut self, arrived: Arrived) {
        if arrived.refusal.is_some() {
            (self.ready, self.since, self.is_finished, self.is_closed) = (None, None, true, true);
            self.filling.clear();
            // Each block on its way is refused separately; the reset is reported once.
            if !std::mem::replace(&mut self.is_refused, true) {
                self.up.push_back(MessageUp::Reset(self.id));
            }
            return;
        }
        self.acked_bytes += u64::from(arrived.bytes);
        self.arrived += 1;
        // The last block may be empty, so bytes do not tell.
        if self.is_closed && self.ready.is_none() && self.arrived == self.next {
            self.up.push_back(MessageUp::Finished(self.id));
        }
    }

    /// Most bytes of the block that is being filled. The first one is small, so that it is sent
    /// together with its request, and opening the flow costs no extra round trip.
    fn limit(&self) -> usize {
        let is_first = self.next == 0 && self.ready.is_none();
        let small = SMALL_BYTES as usize - 1;
        if is_first { small.min(self.block_bytes) } else { self.block_bytes }
    }

    /// Closes the block that is being filled if it is full, or if nothing more will come.
    fn close(&mut self) {
        let limit = self.limit();
        let is_last = self.is_finished && self.filling.len() <= limit;
        if self.ready.is_none() && !self.is_closed && (is_last || self.filling.len() >= limit) {
            let length = self.filling.len().min(limit);
            self.ready = Some((self.filling.split_to(length).freeze(), is_last));
            self.is_closed = is_last;
            self.since = self.since.filter(|_| !self.filling.is_empty());
        }
    }
}

/// The frames of a block: at least one, which is empty if the block is.
pub fn frames_of(block: &Bytes, frame_bytes: usize) -> Vec<Bytes> {
    let frame = |at: usize| block.slice(at..block.len().min(at + frame_bytes));
    (0..block.len().max(1)).step_by(frame_bytes).map(frame).collect()
}

impl Layer for HopPort {
    type Above = Messages;
    type Below = Datagrams;

    /// Ignores it: datagrams are for the machine.
    fn handle_rx(&mut self, _cx: &mut Cx<'_>, _event: DatagramUp) {}

    fn poll_rx(&mut self, _cx: &mut Cx<'_>) -> Option<MessageUp> {
        self.up.pop_front()
    }

    fn room(&self, _lane: Lane) -> Room {
        let is_open = self.role == Role::Source && !self.is_finished;
        Room::units(usize::from(is_open && self.filling.len() < self.block_bytes))
    }

    fn handle_tx(&mut self, cx: &mut Cx<'_>, message: Message) {
        self.since.get_or_insert(cx.now);
        self.filling.extend_from_slice(&message.payload);
        self.is_finished |= message.finish;
        self.close();
    }

    fn poll_tx(&mut self, _cx: &mut Cx<'_>, _below: &RoomBelow<'_>) -> Option<Datagram> {
        None
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.since.filter(|_| self.ready.is_none()).map(|since| since + BATCH)
    }

    fn handle_timeout(&mut self, cx: &mut Cx<'_>) {
        if self.poll_timeout().is_some_and(|due| due <= cx.now) {
            self.since = None;
            self.ready = Some((self.filling.split().freeze(), false));
        }
    }
}

impl Transport for HopPort {
    /// Never: packets are for the machine.
    fn accepts(&self, _packet: &[u8]) -> bool {
        false
    }

    fn accepted_flow(&self) -> Option<FlowId> {
        None
    }

    fn delivered_bytes(&self) -> u64 {
        self.delivered_bytes
    }

    fn status(&self) -> TransportStatus {
        TransportStatus {
            kind: "hop".into(),
            sent_bytes: self.sent_bytes,
            acked_bytes: self.acked_bytes,
            delivered_bytes: self.delivered_bytes,
            counters: named([("blocks", u64::from(self.next))]),
        }
    }
}

/// The key of a flow, whose number at its source is the port of that end.
pub fn key_of(source: NodeId, socket: SocketAddrV4) -> FlowKey {
    FlowKey { source, local: socket.port().into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_finished_once_and_only_when_its_last_block_has_arrived_though_that_is_empty() {
        let key = FlowKey { source: NodeId(1), local: 1 };
        let mut port =
            HopPort::build(&HopConfig::default(), FlowId(0), Role::Source, key, NodeId(2));
        let mut arrived = Vec::new();
        let mut cx = Cx::new(Instant::ZERO);
        let message = |payload: &'static [u8], finish| {
            let payload = Bytes::from_static(payload);
            Message { flow: FlowId(0), payload, finish }
        };
        port.handle_tx(&mut cx, message(b"all of it", false));
        let mut cx = Cx::new(Instant::ZERO + BATCH);
        port.handle_timeout(&mut cx);
        for is_last in [false, true] {
            let (id, _, last, frames) = port.poll_block().expect("a block");
            assert_eq!(last, is_last);
            let bytes = frames.iter().map(Bytes::len).sum::<usize>() as u32;
            arrived.push(Arrived { id, bytes, refusal: None });
            port.handle_tx(&mut cx, message(b"", true));
        }
        let mut finished = 0;
        for (count, one) in arrived.into_iter().enumerate() {
            port.handle_arrived(one);
            let events = std::iter::from_fn(|| port.poll_rx(&mut cx));
            finished += events.filter(|up| matches!(up, MessageUp::Finished(_))).count();
            assert_eq!(finished, count);
        }
    }
}
