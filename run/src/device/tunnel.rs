//! What `ethernet` and `udp` share: a short header with sender and receiver, and room by air time.
//!
//! | bytes | |
//! |---|---|
//! | 1 | version, 1 |
//! | 1 | radio of the sender |
//! | 2 | sender |
//! | 2 | receiver, or 0xffff for all |
//! | 2 | EtherType of what follows |

use std::collections::BTreeMap;

use bytes::Bytes;
use farhop_proto::base::{EtherType, Frame, FrameUp, Instant, NodeId, RadioId, ReceivedFrame};

use super::{DeviceSpec, DeviceStatus, TxGate, count, of_own_node};

const VERSION: u8 = 1;
const EVERYBODY: u16 = 0xffff;
/// Length of the header, in bytes.
pub(crate) const HEADER_BYTES: usize = 8;

/// The part of such a device that is independent of sockets.
#[derive(Debug)]
pub(super) struct Tunnel {
    pub(super) spec: DeviceSpec,
    pub(super) gate: TxGate,
    frames_received: u64,
    dropped: BTreeMap<&'static str, u64>,
    failed: BTreeMap<&'static str, u64>,
}

impl Tunnel {
    pub(super) fn build(spec: DeviceSpec) -> Self {
        let gate = TxGate::build(spec.radio, false);
        Self { gate, spec, frames_received: 0, dropped: BTreeMap::new(), failed: BTreeMap::new() }
    }

    /// Header of a frame.
    pub(super) fn header(&self, frame: &Frame) -> [u8; HEADER_BYTES] {
        let to = frame.to.map_or(EVERYBODY, |to| to.0);
        let [[a, b], [c, d], [e, f]] =
            [self.spec.node.0, to, frame.protocol.0].map(u16::to_be_bytes);
        [VERSION, self.spec.radio.id.0, a, b, c, d, e, f]
    }

    /// Appends a frame with its header.
    pub(super) fn put(&self, out: &mut Vec<u8>, frame: &Frame) {
        out.extend_from_slice(&self.header(frame));
        out.extend_from_slice(&frame.payload);
    }

    /// Handles a frame with its header; what is no frame of ours is counted.
    pub(super) fn take(&mut self, packet: &[u8], host: Instant) -> Option<FrameUp> {
        match self.decode(packet, host) {
            Ok(event) => {
                self.frames_received += 1;
                Some(event)
            }
            Err(kind) => {
                count(&mut self.dropped, kind);
                None
            }
        }
    }

    fn decode(&self, packet: &[u8], host: Instant) -> Result<FrameUp, &'static str> {
        let (header, payload) = packet.split_at_checked(HEADER_BYTES).ok_or("truncated")?;
        if header[0] != VERSION {
            return Err("version");
        }
        let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let (from, to) = (NodeId(word(2)), word(4));
        let radio = &self.spec.radio;
        if from == self.spec.node {
            return Err(of_own_node(RadioId(header[1]), radio.id));
        }
        if from.0 == 0 || from.0 == EVERYBODY {
            return Err("own-name");
        }
        let frame = ReceivedFrame {
            radio: radio.id,
            from,
            to: (to != EVERYBODY).then_some(NodeId(to)),
            protocol: EtherType(word(6)),
            payload: Bytes::copy_from_slice(payload),
            // A frame here takes no time: the time of arrival is when it would have begun on a
            // radio.
            started: host,
            rate: radio.rate,
            signal: None,
            bits: 0,
        };
        let is_ours = to == EVERYBODY || to == self.spec.node.0;
        Ok(if is_ours { FrameUp::Received(frame) } else { FrameUp::Overheard(frame) })
    }

    pub(super) fn count(&mut self, kind: &'static str) {
        count(&mut self.dropped, kind);
    }

    /// Counts an error of the operating system.
    pub(super) fn count_failed(&mut self, kind: &'static str) {
        count(&mut self.failed, kind);
    }

    pub(super) fn status(&self, kind: &'static str, name: String) -> DeviceStatus {
        DeviceStatus {
            kind,
            name,
            capabilities: [("transmit_status", false), ("hardware_timestamps", false)].into(),
            frames_received: self.frames_received,
            sent: self.gate.stats(),
            dropped: self.dropped.clone(),
            failed: self.failed.clone(),
            ..DeviceStatus::default()
        }
    }
}
