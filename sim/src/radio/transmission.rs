//! What radios put on the air.

use bytes::Bytes;
use farhop_proto::base::{Bitrate, Duration, EtherType, Instant, NodeId, UnitId};

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
        /// The Duration field: how long after its end the medium is spoken for.
        nav: Duration,
    },
    /// An acknowledgement.
    Ack {
        /// Index of the radio whose frame it acknowledges.
        to_radio: usize,
        /// The node of that radio.
        to: NodeId,
        /// SAFE's control field.
        bits: u16,
        /// Whether the data was accepted.
        accept: bool,
    },
}

impl Transmission {
    /// Lets go of the payload, when nobody can receive it any more.
    pub(super) fn forget_payload(&mut self) {
        if let TransmissionKind::Data { payload, .. } = &mut self.kind {
            *payload = Bytes::new();
        }
    }
}
