//! Messages of Hop, block transport from node to node (`hop.md` 2), after a UDP header.
//!
//! ```text
//! byte 0      version in the upper half, kind in the lower
//! byte 1      flags: 1 virtual retransmission, 2 first block of its flow (SYN), 4 last one (FIN),
//!             8 refused (with an E2E_ACK: RST), 16 sent before the destination accepted the flow
//! byte 2      hops left
//! byte 3      hops made
//! bytes 4-7   flow: the source's number, the lower half of the flow's number there
//! bytes 8-11  block number in the flow, from 0
//! bytes 12-13 frames of the block
//! bytes 14-15 number of the frame (DATA), of the round (BSYN, BACK), or of the reason (RST)
//! bytes 16-17 the upper half of the flow's number at its source
//! bytes 18-21 destination, previous hop
//! bytes 22-23 checksum over header and body (RFC 1071)
//! ```
//!
//! | kind | body |
//! |---|---|
//! | DATA | bytes of the frame |
//! | BSYN | length of the block (4), CRC-32 over it (4) |
//! | BACK | one bit for each frame that has arrived, frame 0 in the highest bit of byte 0 |
//! | E2E_ACK | CRC-32 of the block (4) |
//! | LISTEN | nothing |
//! | CALL | nothing |
//!
//! A flow opens with its first block, which is shorter than 8 KB. The end-to-end acknowledgement of
//! that block is the answer (SYN_ACK), and a refusal of it is an RST. So both are as reliable as
//! blocks.
//!
//! In `hop.md` the number of a flow has 16 bits, and the source appears twice. A flow whose number
//! is reused while a relay or the destination remembers the previous one could not be told from
//! that one. So here the number has 32 bits, and starts anywhere when a node restarts.

use bytes::Bytes;

use super::ip;
use crate::base::NodeId;

/// Version of the format.
pub const VERSION: u8 = 2;
/// Bytes of the header.
pub const HEADER_BYTES: usize = 24;
/// UDP port of messages about blocks, at both ends.
pub const CONTROL_PORT: u16 = 4852;
/// UDP port of the frames of blocks, at both ends.
pub const DATA_PORT: u16 = 4853;

const VIRTUAL: u8 = 1;
const OPENS: u8 = 2;
const FINISHES: u8 = 4;
const REFUSED: u8 = 8;
const EARLY: u8 = 16;

/// A flow of blocks, identified by its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    /// The source.
    pub source: NodeId,
    /// The number of the flow there, which is not reused for a long time.
    pub local: u32,
}

/// A block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId {
    /// The flow.
    pub flow: FlowKey,
    /// The number of the block in the flow.
    pub number: u32,
}

/// The fields of every message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The block.
    pub block: BlockId,
    /// The node that the message is for.
    pub destination: NodeId,
    /// The node that sent this message.
    pub via: NodeId,
    /// Number of frames of the block.
    pub frames: u16,
    /// Hops that the message may still make.
    pub hops_left: u8,
    /// Hops that it has made.
    pub hops_made: u8,
    /// Whether the block is the first of its flow (SYN).
    pub opens: bool,
    /// Whether it is the last one (FIN).
    pub finishes: bool,
    /// Whether the source, when it sent the block, did not know yet that the destination accepts
    /// the flow.
    pub is_early: bool,
}

/// The kind of a message and its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A frame of a block.
    Data {
        /// Index of the frame in the block.
        frame: u16,
        /// Bytes of the frame.
        payload: Bytes,
    },
    /// Asks which frames of a block have arrived (BSYN).
    Request {
        /// The round.
        round: u16,
        /// Whether only the end-to-end acknowledgement is missing (VRETX).
        is_virtual: bool,
        /// Bytes of the block.
        length: u32,
        /// CRC-32 (IEEE 802.3) over them.
        crc: u32,
    },
    /// Says which frames have arrived (BACK).
    Answer {
        /// The round of the request.
        round: u16,
        /// One bit for each frame, the first in the highest bit.
        bits: Bytes,
    },
    /// The destination has the block (E2E_ACK), or refuses its flow (RST).
    Arrived {
        /// CRC-32 of the block, which only nodes that had the block know.
        crc: u32,
        /// Why the flow is refused, if it is.
        refusal: Option<Refusal>,
    },
    /// The sender listens to nodes that have little to send (LISTEN, not in the paper). The block
    /// is one that it got from the addressee.
    Listen,
    /// Packets of a call fail at the sender, or it was told so (CALL, not in the paper). Sent to
    /// all neighbours on one air, which forward it while it may make more hops. There is no block,
    /// and the destination is the sender.
    Call,
}

/// Why a destination refuses a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No reason, or one that is unknown here.
    Unsaid = 0,
    /// It knows nothing of what came before: it lost or forgot it.
    Unknown = 1,
    /// As much as is allowed is under way to it, or waits there.
    Full = 2,
    /// No program there accepts it.
    Unwanted = 3,
    /// What arrived cannot be accepted; the log of that node says why.
    Unusable = 4,
    /// Someone there, or its source, dropped it.
    LetGo = 5,
}

impl Refusal {
    const SAID: [Self; 5] =
        [Self::Unknown, Self::Full, Self::Unwanted, Self::Unusable, Self::LetGo];

    fn of(number: u16) -> Self {
        let is_it = |one: &Self| *one as u16 == number;
        Self::SAID.into_iter().find(is_it).unwrap_or(Self::Unsaid)
    }
}

/// Why bytes are not a message of Hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// It ends early.
    Truncated,
    /// Another version.
    Version,
    /// A kind that does not exist.
    Kind,
    /// The checksum is wrong.
    Checksum,
    /// Fields that contradict each other.
    Contradiction,
}

impl Body {
    const fn kind(&self) -> u8 {
        match self {
            Self::Data { .. } => 1,
            Self::Request { .. } => 2,
            Self::Answer { .. } => 3,
            Self::Arrived { .. } => 4,
            Self::Listen => 5,
            Self::Call => 6,
        }
    }
}

/// Bytes of a bit map for this many frames.
pub const fn bits_bytes(frames: u16) -> usize {
    (frames as usize).div_ceil(8)
}

/// Header and body of a message. The bytes of a frame are not included: they follow.
pub fn encode(header: &Header, body: &Body) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES + 128);
    let (flags, number) = match body {
        Body::Data { frame, .. } => (0, *frame),
        Body::Request { round, is_virtual, .. } => (u8::from(*is_virtual) * VIRTUAL, *round),
        Body::Answer { round, .. } => (0, *round),
        Body::Arrived { refusal, .. } => {
            refusal.map_or((0, 0), |refusal| (REFUSED, refusal as u16))
        }
        Body::Listen | Body::Call => (0, 0),
    };
    let mark = |is_so, flag| if is_so { flag } else { 0 };
    let marks = mark(header.opens, OPENS) | mark(header.finishes, FINISHES);
    let marks = marks | mark(header.is_early, EARLY);
    let BlockId { flow, number: block } = header.block;
    let [high, low] = [(block >> 16) as u16, block as u16];
    let [source, to, via] = [flow.source.0, header.destination.0, header.via.0];
    let (local, local_high) = (flow.local as u16, (flow.local >> 16) as u16);
    let words = [source, local, high, low, header.frames, number, local_high, to, via, 0];
    let mut front = [0; HEADER_BYTES];
    front[..4].copy_from_slice(&[
        VERSION << 4 | body.kind(),
        flags | marks,
        header.hops_left,
        header.hops_made,
    ]);
    for (place, word) in front[4..].chunks_exact_mut(2).zip(words) {
        place.copy_from_slice(&word.to_be_bytes());
    }
    out.extend_from_slice(&front);
    let rest: &[u8] = match body {
        Body::Data { payload, .. } => payload,
        Body::Request { length, crc, .. } => {
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(&crc.to_be_bytes());
            &[]
        }
        Body::Answer { bits, .. } => {
            out.extend_from_slice(bits);
            &[]
        }
        Body::Arrived { crc, .. } => {
            out.extend_from_slice(&crc.to_be_bytes());
            &[]
        }
        Body::Listen | Body::Call => &[],
    };
    let sum = ip::checksum(u32::from(!ip::checksum(0, rest)), &out);
    out[22..24].copy_from_slice(&sum.to_be_bytes());
    out
}

/// Decodes a message.
///
/// # Errors
///
/// What is wrong with it.
pub fn decode(message: &Bytes) -> Result<(Header, Body), Malformed> {
    if message.len() < HEADER_BYTES {
        return Err(Malformed::Truncated);
    }
    if message[0] >> 4 != VERSION {
        return Err(Malformed::Version);
    }
    if ip::checksum(0, message) != 0 {
        return Err(Malformed::Checksum);
    }
    let rest = &message[HEADER_BYTES..];
    let short = |at: usize| u16::from_be_bytes([message[at], message[at + 1]]);
    let long = |at: usize| u32::from(short(at)) << 16 | u32::from(short(at + 2));
    let local = u32::from(short(16)) << 16 | u32::from(short(6));
    let flow = FlowKey { source: NodeId(short(4)), local };
    let header = Header {
        block: BlockId { flow, number: long(8) },
        destination: NodeId(short(18)),
        via: NodeId(short(20)),
        frames: short(12),
        hops_left: message[2],
        hops_made: message[3],
        opens: message[1] & OPENS != 0,
        finishes: message[1] & FINISHES != 0,
        is_early: message[1] & EARLY != 0,
    };
    if header.frames == 0 {
        return Err(Malformed::Contradiction);
    }
    let number = short(14);
    let body = match message[0] & 0x0f {
        1 if number < header.frames => {
            Body::Data { frame: number, payload: message.slice(HEADER_BYTES..) }
        }
        2 if rest.len() == 8 => Body::Request {
            round: number,
            is_virtual: message[1] & VIRTUAL != 0,
            length: long(HEADER_BYTES),
            crc: long(HEADER_BYTES + 4),
        },
        3 if rest.len() == bits_bytes(header.frames) => {
            Body::Answer { round: number, bits: message.slice(HEADER_BYTES..) }
        }
        4 if rest.len() == 4 => {
            let is_refused = message[1] & REFUSED != 0;
            let refusal = is_refused.then(|| Refusal::of(number));
            Body::Arrived { crc: long(HEADER_BYTES), refusal }
        }
        5 if rest.is_empty() => Body::Listen,
        6 if rest.is_empty() => Body::Call,
        1..=6 => return Err(Malformed::Contradiction),
        _ => return Err(Malformed::Kind),
    };
    Ok((header, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        let flow = FlowKey { source: NodeId(3), local: 0x0001_1389 };
        Header {
            block: BlockId { flow, number: 7 },
            destination: NodeId(9),
            via: NodeId(4),
            frames: 10,
            hops_left: 49,
            hops_made: 1,
            opens: false,
            finishes: true,
            is_early: false,
        }
    }

    fn written(body: &Body) -> Bytes {
        let mut out = encode(&header(), body);
        if let Body::Data { payload, .. } = body {
            out.extend(payload);
        }
        out.into()
    }

    #[test]
    fn an_end_to_end_acknowledgement_stands_on_the_wire_as_written_by_hand() {
        let found = written(&bodies()[5]);
        let golden =
            [0x24, 0x0c, 49, 1, 0, 3, 0x13, 0x89, 0, 0, 0, 7, 0, 10, 0, 2, 0, 1, 0, 9, 0, 4];
        assert_eq!(found[..22], golden);
        assert_eq!(found[24..], [0xcb, 0xf4, 0x39, 0x26]);
    }

    fn bodies() -> [Body; 8] {
        [
            Body::Data { frame: 9, payload: Bytes::from_static(b"odd") },
            Body::Data { frame: 0, payload: Bytes::from_static(b"even") },
            Body::Request { round: 2, is_virtual: true, length: 13_000, crc: 0xcbf4_3926 },
            Body::Answer { round: 2, bits: Bytes::from_static(&[0b1010_0000, 0b0100_0000]) },
            Body::Arrived { crc: 0xcbf4_3926, refusal: None },
            Body::Arrived { crc: 0xcbf4_3926, refusal: Some(Refusal::Full) },
            Body::Listen,
            Body::Call,
        ]
    }

    #[test]
    fn a_request_stands_on_the_wire_as_written_by_hand() {
        let request = bodies()[2].clone();
        let golden =
            [0x22, 0x05, 49, 1, 0, 3, 0x13, 0x89, 0, 0, 0, 7, 0, 10, 0, 2, 0, 1, 0, 9, 0, 4];
        let found = written(&request);
        assert_eq!(found[..22], golden);
        assert_eq!(found[24..], [0, 0, 0x32, 0xc8, 0xcb, 0xf4, 0x39, 0x26]);
        assert_eq!(ip::checksum(0, &found), 0, "a plain sum over all of it");
    }

    #[test]
    fn messages_read_back() {
        for body in bodies() {
            assert_eq!(decode(&written(&body)), Ok((header(), body)));
        }
    }

    #[test]
    fn what_is_cut_or_changed_is_none() {
        for body in bodies() {
            let whole = written(&body);
            for length in 0..whole.len() {
                assert!(decode(&whole.slice(..length)).is_err(), "{body:?} cut to {length}");
            }
            for bit in 0..whole.len() * 8 {
                let mut other = whole.to_vec();
                other[bit / 8] ^= 1 << (bit % 8);
                assert!(decode(&other.into()).is_err(), "{body:?} with bit {bit} changed");
            }
        }
    }

    #[test]
    fn bits_of_another_length_are_none() {
        let answer = Body::Answer { round: 1, bits: Bytes::from_static(&[0xff; 3]) };
        assert_eq!(decode(&written(&answer)), Err(Malformed::Contradiction));
    }
}
