//! What radios put on the air.

use bytes::Bytes;
use farhop_proto::base::phy::{
    ACK_BYTES, BLOCK_ACK_BYTES, BLOCK_ACK_REQUEST_BYTES, RTS_BYTES, mpdu_bytes,
};
use farhop_proto::base::{AccessCategory, Bitrate, Duration, EtherType, Instant, NodeId, UnitId};

/// What a radio puts on the air.
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
    /// The Duration field: how long after its end the medium is spoken for.
    pub nav: Duration,
    /// What it is.
    pub kind: TransmissionKind,
}

/// What a transmission is.
#[derive(Clone, Debug)]
pub enum TransmissionKind {
    /// A data frame.
    Data {
        /// The sender's name for it.
        id: UnitId,
        /// Receiver, or `None` for broadcast.
        to: Option<NodeId>,
        /// What the payload is.
        protocol: EtherType,
        /// What follows the LLC/SNAP header.
        payload: Bytes,
        /// Whether an acknowledgement is asked for.
        wants_ack: bool,
        /// Sequence number of the MAC header, 12 bits.
        sequence: u16,
        /// Which transmission of the frame it is, from 1.
        attempt: u8,
        /// Access category of QoS data, which has numbers of its own.
        access: Option<AccessCategory>,
        /// Where the window of the block acknowledgement agreement begins that the frame falls
        /// under, if there is one.
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
        /// Where the sender's window begins. It is not on the air: the receiver takes it for what
        /// the agreement began with, which is not modelled.
        window: u16,
    },
    /// An acknowledgement.
    Ack(Answer),
    /// Announces data.
    Rts {
        /// Receiver.
        to: NodeId,
    },
    /// Leaves the air to a station.
    Cts(Answer),
    /// Which of the last frames have arrived.
    BlockAck {
        /// To whom, and what it carries besides.
        answer: Answer,
        /// Access category of the frames.
        access: AccessCategory,
        /// Number of the first frame that the map tells of.
        start: u16,
        /// A bit for each frame, the first in the lowest.
        map: u64,
    },
    /// Moves the receiver's window, and asks for a block acknowledgement.
    BlockAckRequest {
        /// Receiver.
        to: NodeId,
        /// Access category of the frames.
        access: AccessCategory,
        /// Number of the first frame that may still come.
        start: u16,
    },
}

/// What every answer says.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// Index of the radio that it is for.
    pub to_radio: usize,
    /// The node of that radio.
    pub to: NodeId,
    /// SAFE's control field.
    pub bits: u16,
    /// Whether data is accepted.
    pub accept: bool,
}

/// One frame of several in a transmission.
#[derive(Clone, Debug)]
pub struct Mpdu {
    /// The sender's name for it.
    pub id: UnitId,
    /// What the payload is.
    pub protocol: EtherType,
    /// What follows the LLC/SNAP header.
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
    /// The frames of an A-MPDU; nothing for any other transmission.
    pub fn mpdus(&self) -> &[Mpdu] {
        match &self.kind {
            TransmissionKind::Ampdu { mpdus, .. } => mpdus,
            _ => &[],
        }
    }

    /// Length of its one frame with header and check sequence; nothing for an A-MPDU.
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

    /// Whether it has data for a node, or for all.
    pub(super) fn is_data_for(&self, node: NodeId) -> bool {
        let is_data =
            matches!(self.kind, TransmissionKind::Data { .. } | TransmissionKind::Ampdu { .. });
        is_data && self.to().is_none_or(|to| to == node)
    }

    /// What it is called in traces.
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

    /// A number that differs where what is on the air does.
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

    /// Lets go of the payload, when nobody can receive it any more. Gives back the list of frames,
    /// so that it can serve again.
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
