//! Transmissions: everything that radios put on the air.

use bytes::Bytes;
use farhop_proto::base::phy::{
    ACK_BYTES, BLOCK_ACK_BYTES, BLOCK_ACK_REQUEST_BYTES, RTS_BYTES, mpdu_bytes,
};
use farhop_proto::base::{AccessCategory, Bitrate, Duration, EtherType, Instant, NodeId, UnitId};

/// One transmission of a radio.
#[derive(Clone, Debug)]
pub struct Transmission {
    /// Index of the transmitting radio.
    pub radio: usize,
    /// Its node.
    pub from: NodeId,
    /// When its preamble starts.
    pub start: Instant,
    /// When it ends.
    pub end: Instant,
    /// Bit-rate.
    pub rate: Bitrate,
    /// The Duration field: how long the medium is reserved after the end.
    pub nav: Duration,
    /// Its kind and contents.
    pub kind: TransmissionKind,
}

/// Kind and contents of a transmission.
#[derive(Clone, Debug)]
pub enum TransmissionKind {
    /// A data frame.
    Data {
        /// The sender's id of the frame.
        id: UnitId,
        /// Receiver, or `None` for broadcast.
        to: Option<NodeId>,
        /// EtherType of the payload.
        protocol: EtherType,
        /// The bytes that follow the LLC/SNAP header.
        payload: Bytes,
        /// Whether an acknowledgement is asked for.
        wants_ack: bool,
        /// Sequence number of the MAC header, 12 bits.
        sequence: u16,
        /// Which transmission of the frame it is, from 1.
        attempt: u8,
        /// Access category of QoS data, which has sequence numbers of its own; `None` for other
        /// data.
        access: Option<AccessCategory>,
        /// Start of the sender's window, if the frame falls under a block acknowledgement
        /// agreement.
        window: Option<u16>,
    },
    /// Several data frames to one receiver.
    Ampdu {
        /// Receiver.
        to: NodeId,
        /// Access category of all of them.
        access: AccessCategory,
        /// The frames, in the order of their numbers.
        mpdus: Vec<Mpdu>,
        /// Start of the sender's window. It is not sent in reality: the receiver learns it when the
        /// agreement is set up, which is not modelled.
        window: u16,
    },
    /// An acknowledgement.
    Ack(Answer),
    /// RTS: announces data.
    Rts {
        /// Receiver.
        to: NodeId,
    },
    /// CTS: clears a station to send, or its own sender (CTS-to-self).
    Cts(Answer),
    /// Tells which of the last frames have arrived.
    BlockAck {
        /// The receiver, and the other contents of every answer.
        answer: Answer,
        /// Access category of the frames.
        access: AccessCategory,
        /// Sequence number of the first frame in the map.
        start: u16,
        /// A bit for each frame that has arrived, the first in the lowest bit.
        map: u64,
    },
    /// Moves the receiver's window, and asks for a block acknowledgement.
    BlockAckRequest {
        /// Receiver.
        to: NodeId,
        /// Access category of the frames.
        access: AccessCategory,
        /// Sequence number of the first frame that may still come.
        start: u16,
    },
}

/// The contents of every answer.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// Index of the radio that is answered.
    pub to_radio: usize,
    /// The node of that radio.
    pub to: NodeId,
    /// SAFE's control field.
    pub bits: u16,
    /// Whether data is accepted.
    pub accept: bool,
}

/// One frame of an A-MPDU.
#[derive(Clone, Debug)]
pub struct Mpdu {
    /// The sender's id of the frame.
    pub id: UnitId,
    /// EtherType of the payload.
    pub protocol: EtherType,
    /// The bytes that follow the LLC/SNAP header.
    pub payload: Bytes,
    /// Sequence number of the MAC header, 12 bits.
    pub sequence: u16,
    /// Which transmission of the frame it is, from 1.
    pub attempt: u8,
    /// Length with header and check sequence.
    pub bytes: usize,
    /// From the start of the transmission to the first of its symbols.
    pub from: Duration,
    /// From the start of the transmission to the end of the last of its symbols.
    pub until: Duration,
}

impl Transmission {
    /// The frames of an A-MPDU; empty for any other transmission.
    pub fn mpdus(&self) -> &[Mpdu] {
        match &self.kind {
            TransmissionKind::Ampdu { mpdus, .. } => mpdus,
            _ => &[],
        }
    }

    /// Length of a single frame with header and check sequence; `None` for an A-MPDU.
    pub(super) fn mpdu_bytes(&self) -> Option<usize> {
        Some(match &self.kind {
            TransmissionKind::Data { payload, access, .. } => {
                mpdu_bytes(access.is_some(), payload.len())
            }
            TransmissionKind::Ampdu { .. } => return None,
            TransmissionKind::Ack(_) | TransmissionKind::Cts(_) => ACK_BYTES,
            TransmissionKind::Rts { .. } => RTS_BYTES,
            TransmissionKind::BlockAck { .. } => BLOCK_ACK_BYTES,
            TransmissionKind::BlockAckRequest { .. } => BLOCK_ACK_REQUEST_BYTES,
        })
    }

    /// The receiver that the header names, or `None` for broadcast.
    pub fn to(&self) -> Option<NodeId> {
        match &self.kind {
            TransmissionKind::Data { to, .. } => *to,
            TransmissionKind::Ampdu { to, .. }
            | TransmissionKind::Rts { to }
            | TransmissionKind::BlockAckRequest { to, .. } => Some(*to),
            TransmissionKind::Ack(answer)
            | TransmissionKind::Cts(answer)
            | TransmissionKind::BlockAck { answer, .. } => Some(answer.to),
        }
    }

    /// Whether it carries data for a node, or broadcast data.
    pub(super) fn is_data_for(&self, node: NodeId) -> bool {
        let is_data =
            matches!(self.kind, TransmissionKind::Data { .. } | TransmissionKind::Ampdu { .. });
        is_data && self.to().is_none_or(|to| to == node)
    }

    /// Whether it is for a node, and no answer to a frame of that node.
    pub(super) fn is_asked_of(&self, node: NodeId) -> bool {
        let is_answer = matches!(
            self.kind,
            TransmissionKind::Ack(_) | TransmissionKind::Cts(_) | TransmissionKind::BlockAck { .. }
        );
        !is_answer && self.to() == Some(node)
    }

    /// Its name in traces.
    pub const fn name(&self) -> &'static str {
        match &self.kind {
            TransmissionKind::Data { .. } => "data",
            TransmissionKind::Ampdu { .. } => "a-mpdu",
            TransmissionKind::Ack(_) => "ack",
            TransmissionKind::Rts { .. } => "rts",
            TransmissionKind::Cts(_) => "cts",
            TransmissionKind::BlockAck { .. } => "block-ack",
            TransmissionKind::BlockAckRequest { .. } => "block-ack-request",
        }
    }

    /// A number that differs between different contents, for the trace hash.
    pub(super) fn fingerprint(&self) -> u64 {
        let answered = |answer: &Answer| {
            (answer.to_radio as u64) << 32 | u64::from(answer.bits) << 1 | u64::from(answer.accept)
        };
        match &self.kind {
            TransmissionKind::Data { sequence, attempt, payload, .. } => {
                u64::from(*sequence) << 8 | u64::from(*attempt) | (payload.len() as u64) << 32
            }
            TransmissionKind::Ampdu { mpdus, .. } => mpdus.iter().fold(1 << 62, |sum, mpdu| {
                let own = u64::from(mpdu.sequence) << 8 | u64::from(mpdu.attempt);
                (sum ^ own ^ (mpdu.bytes as u64) << 32).rotate_left(7)
            }),
            TransmissionKind::Ack(answer) => 1 << 63 | answered(answer),
            TransmissionKind::Rts { to } => 5 << 60 | u64::from(to.0),
            TransmissionKind::Cts(answer) => 3 << 62 | answered(answer),
            TransmissionKind::BlockAck { answer, start, map, .. } => {
                (7 << 61 | answered(answer) ^ u64::from(*start)) ^ map.rotate_left(13)
            }
            TransmissionKind::BlockAckRequest { to, start, .. } => {
                3 << 60 | u64::from(to.0) << 16 | u64::from(*start)
            }
        }
    }

    /// Releases the payload once nobody can receive it any more. Returns the emptied list of frames
    /// for reuse.
    pub(super) fn forget_payload(&mut self) -> Option<Vec<Mpdu>> {
        match &mut self.kind {
            TransmissionKind::Data { payload, .. } => {
                *payload = Bytes::new();
                None
            }
            TransmissionKind::Ampdu { mpdus, .. } => {
                mpdus.clear();
                Some(std::mem::take(mpdus))
            }
            _ => None,
        }
    }
}
