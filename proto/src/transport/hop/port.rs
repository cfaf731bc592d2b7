//! The end of a flow of blocks: bytes of an application become blocks, and blocks become bytes.

use std::collections::VecDeque;
use std::net::SocketAddrV4;

use bytes::{Bytes, BytesMut};

use crate::base::{
    Cx, Datagram, DatagramUp, Datagrams, Duration, FlowId, Instant, Lane, Layer, Message,
    MessageUp, Messages, NodeId, Room, RoomBelow, named,
};
use crate::transport::{Transport, TransportStatus};
use crate::wire::hop::{BlockId, FlowKey};

use super::{Delivery, HopConfig};

/// After this time a block is closed however much is in it (`hop.md` 9).
const BATCH: Duration = Duration::from_millis(500);

/// Which end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Blocks begin here.
    Source,
    /// They end here.
    Sink,
}

/// The end of a flow of blocks. What passes between it and the machine of its node is moved by
/// [`crate::stack::Flows`].
#[derive(Debug)]
pub struct HopPort {
    id: FlowId,
    role: Role,
    key: FlowKey,
    peer: NodeId,
    block_bytes: usize,
    frame_bytes: usize,
    /// What was written of the block that is being filled, and since when.
    filling: BytesMut,
    since: Option<Instant>,
    /// A block that waits for the machine to have room.
    ready: Option<Bytes>,
    is_finished: bool,
    next: u32,
    up: VecDeque<MessageUp>,
    sent_bytes: u64,
    acked_bytes: u64,
    delivered_bytes: u64,
}

impl HopPort {
    /// The end with the name `id`, of the flow that its source, `key.source`, gave a number;
    /// `peer` is the node of the other end.
    pub fn build(config: &HopConfig, id: FlowId, role: Role, key: FlowKey, peer: NodeId) -> Self {
        Self {
            id,
            role,
            key,
            peer,
            block_bytes: config.block_bytes as usize,
            frame_bytes: usize::from(config.frame_bytes),
            filling: BytesMut::new(),
            since: None,
            ready: None,
            is_finished: false,
            next: 0,
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

    /// Gives the next block to the machine, which has room for it: its number, the node that it is
    /// for, and its frames.
    pub fn poll_block(&mut self) -> Option<(BlockId, NodeId, Vec<Bytes>)> {
        let block = self.ready.take()?;
        let id = BlockId { flow: self.key, number: self.next };
        self.next += 1;
        self.sent_bytes += block.len() as u64;
        let frames = (0..block.len()).step_by(self.frame_bytes);
        let frame = |at: usize| block.slice(at..block.len().min(at + self.frame_bytes));
        let frames = frames.map(frame).collect();
        self.close();
        Some((id, self.peer, frames))
    }

    /// Takes a block that came whole.
    pub fn handle_delivery(&mut self, delivery: Delivery) {
        for payload in delivery.frames {
            self.delivered_bytes += payload.len() as u64;
            self.up.push_back(MessageUp::Received { flow: self.id, payload });
        }
    }

    /// The destination has so many bytes more.
    pub fn on_arrived(&mut self, bytes: u64) {
        self.acked_bytes += bytes;
        if self.is_finished && self.is_empty() && self.acked_bytes == self.sent_bytes {
            self.up.push_back(MessageUp::Finished(self.id));
        }
    }

    fn is_empty(&self) -> bool {
        self.filling.is_empty() && self.ready.is_none()
    }

    /// Closes the block that is being filled if it is full, or if nothing more will come.
    fn close(&mut self) {
        let is_full = self.filling.len() >= self.block_bytes;
        if self.ready.is_none() && (is_full || self.is_finished) && !self.filling.is_empty() {
            let length = self.filling.len().min(self.block_bytes);
            self.ready = Some(self.filling.split_to(length).freeze());
            self.since = self.since.filter(|_| !self.filling.is_empty());
        }
    }
}

impl Layer for HopPort {
    type Above = Messages;
    type Below = Datagrams;

    /// Datagrams are the machine's.
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
            self.ready = Some(self.filling.split().freeze());
        }
    }
}

impl Transport for HopPort {
    /// Packets are the machine's.
    fn accepts(&self, _packet: &[u8]) -> bool {
        false
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

/// The number of a flow at its source: the port of its end.
pub fn key_of(source: NodeId, socket: SocketAddrV4) -> FlowKey {
    FlowKey { source, local: socket.port() }
}
