//! Frames of `link/wild`: a header of 31 bytes, a bulk acknowledgement, a body (`wildnet.md` 2, 3).
//!
//! All fields are in network byte order:
//!
//! | bytes | field |
//! |---|---|
//! | 0 | version (upper four bits), kind |
//! | 1 | flags |
//! | 2-3 | flow |
//! | 4-7 | link sequence; in frames without data the next one that will be assigned |
//! | 8-9 | flow sequence |
//! | 10 | attempt, 0 for the first transmission |
//! | 11 | length of the acknowledgement after the header |
//! | 12-13 | slot number of the sender |
//! | 14-15 | CRC-16/CCITT-FALSE of header and acknowledgement, taken with this field zero |
//! | 16-18 | from the start of the sender's slot to the start of the preamble, in microseconds |
//! | 19 | incarnation of the sender |
//! | 20-21 | code block |
//! | 22 | index in the block: below K data, from K on parity |
//! | 23 | K: data packets of the block, 0 if the frame is not coded |
//! | 24-25 | link sequence minus the first one that the sender may still repeat |
//! | 26-27 | EtherType of the body |
//! | 28 | cluster: the nodes that are in step with the sender have the same number |
//! | 29 | length of the sender's slot, in 64ths of the configured one |
//! | 30 | what the sender could fill in one slot, in 64ths of the configured one |
//!
//! Differences from `wildnet.md`: the stamp has 24 bits (16.7 s; a slot is at most 80 ms), and the
//! byte saved is the incarnation, which identifies a neighbour that restarted. N is not sent,
//! because the parity matrix does not depend on it. The acknowledgement gives the slot that it
//! counts instead of the number of frames that were expected, because retransmissions leave no gap
//! in the sequence, and the sender knows best what it sent. The flags for the last frame of a slot,
//! or of a packet, are left out, because nobody would read them.
//!
//! A body with farhop's own EtherType is a bundle of packets (`bundle`).
//!
//! In a data frame of a coded block, K is the most that the block may hold; only the parity frames
//! know how many it holds in the end.

use bytes::Bytes;

use crate::base::{EtherType, FlowId, Seq};

/// Length of the header, in bytes.
pub const HEADER_BYTES: usize = 31;
/// The configured length of a slot, in the unit of [`Header::length`].
pub const FULL_LENGTH: u8 = 64;
/// Most bits of one bulk acknowledgement, and so the largest window.
pub const MAX_ACK_BITS: usize = (u8::MAX as usize - ACK_FIXED_BYTES) * 8;
/// Length of the part of a coded unit before its payload, in bytes.
pub const UNIT_HEAD_BYTES: usize = 12;

const VERSION: u8 = 2;
const ACK_FIXED_BYTES: usize = 10;
const CHECKSUM_AT: usize = 14;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A packet.
    Data,
    /// Parity of a code block.
    Fec,
    /// A bulk acknowledgement by itself.
    Ack,
    /// A slot beacon, to all. The body is the slot length in microseconds (32 bits), and then who
    /// may answer when, see [`Turns`].
    Idle,
    /// End of a 2P phase; reserved.
    Marker,
}

impl Kind {
    const fn code(self) -> u8 {
        match self {
            Self::Data => 1,
            Self::Fec => 2,
            Self::Ack => 3,
            Self::Idle => 4,
            Self::Marker => 5,
        }
    }

    const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::Data,
            2 => Self::Fec,
            3 => Self::Ack,
            4 => Self::Idle,
            5 => Self::Marker,
            _ => return None,
        })
    }
}

/// Flag bits.
pub mod flag {
    /// First frame of the sender's slot on this radio; the stamp is valid.
    pub const FIRST_IN_SLOT: u8 = 1;
    /// A bulk acknowledgement follows the header.
    pub const HAS_ACK: u8 = 2;
    /// The flow sequence is valid, for delivery in order; in parity: for all packets of its block.
    pub const IN_ORDER: u8 = 4;
    /// The sender reassembles parts of packets, and accepts packets of other flows in a bundle.
    pub const TAKES_PARTS: u8 = 64;
    /// The sender recently had packets for this neighbour in a class with a higher priority.
    pub const HURRIES: u8 = 128;
}

/// Position of a frame in its code block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coded {
    /// The block.
    pub block: u16,
    /// Below K data, from K on parity.
    pub index: u8,
    /// K; in data frames the most that it may become.
    pub k: u8,
}

/// The header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the frame is.
    pub kind: Kind,
    /// See [`flag`]; `HAS_ACK` is set by [`encode`].
    pub flags: u8,
    /// The flow.
    pub flow: FlowId,
    /// Link sequence.
    pub seq: Seq,
    /// Flow sequence.
    pub flow_seq: u16,
    /// 0 for the first transmission.
    pub attempt: u8,
    /// Slot number of the sender.
    pub slot: u16,
    /// From the start of the slot to the start of the preamble, in microseconds, below 2^24. Exact
    /// with `FIRST_IN_SLOT`; otherwise as planned before gaps were drawn, or 0 if unknown.
    pub delta_us: u32,
    /// Incarnation of the sender.
    pub incarnation: u8,
    /// Code block, if coded.
    pub coded: Option<Coded>,
    /// `seq` minus the first sequence that the sender may still repeat.
    pub base_offset: u16,
    /// EtherType of the body.
    pub protocol: EtherType,
    /// The nodes that are in step with each other have the same number.
    pub cluster: u8,
    /// Length of the sender's slot, in units of the configured one over [`FULL_LENGTH`].
    pub length: u8,
    /// What the sender could fill, in the same unit. The largest value means that much or more.
    pub demand: u8,
}

impl Header {
    /// The first sequence that the sender may still repeat.
    pub const fn base(&self) -> Seq {
        self.seq.sub(self.base_offset as u32)
    }

    /// Whether a flag is set.
    pub const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// A bulk acknowledgement: last sequence received in order (32 bits), number of bits (16 bits), the
/// bits (bit `i` is bit `i % 8` of byte `i / 8`, counted from the lowest), slot (16 bits), frames
/// (16 bits).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkAck {
    /// Up to this sequence, everything arrived or was given up by its sender.
    pub cum: Seq,
    /// Number of valid bits.
    pub nbits: u16,
    /// Bit `i` says whether `cum + 1 + i` arrived.
    pub bits: Bytes,
    /// The last slot of the addressee from which a frame arrived.
    pub slot: u16,
    /// Number of frames for this node that arrived in that slot.
    pub received: u16,
}

impl BulkAck {
    /// Whether a sequence is acknowledged.
    pub fn has(&self, seq: Seq) -> bool {
        let steps = seq.distance(self.cum);
        if steps <= 0 {
            return true;
        }
        let bit = (steps - 1) as usize;
        bit < usize::from(self.nbits) && self.bits[bit / 8] & (1 << (bit % 8)) != 0
    }

    /// The bytes on the wire. Panics if it has more than [`MAX_ACK_BITS`] bits.
    pub fn encode(&self) -> Bytes {
        let bytes = usize::from(self.nbits).div_ceil(8);
        assert!(usize::from(self.nbits) <= MAX_ACK_BITS, "an acknowledgement that is too long");
        let mut out = Vec::with_capacity(ACK_FIXED_BYTES + bytes);
        out.extend_from_slice(&self.cum.0.to_be_bytes());
        out.extend_from_slice(&self.nbits.to_be_bytes());
        out.extend_from_slice(&self.bits[..bytes]);
        out.extend_from_slice(&self.slot.to_be_bytes());
        out.extend_from_slice(&self.received.to_be_bytes());
        out.into()
    }

    fn decode(record: &Bytes) -> Result<Self, DecodeError> {
        if record.len() < ACK_FIXED_BYTES {
            return Err(DecodeError::Ack);
        }
        let nbits = u16_at(record, 4);
        let bytes = usize::from(nbits).div_ceil(8);
        if record.len() != ACK_FIXED_BYTES + bytes {
            return Err(DecodeError::Ack);
        }
        Ok(Self {
            cum: Seq(u32_at(record, 0)),
            nbits,
            bits: record.slice(6..6 + bytes),
            slot: u16_at(record, 6 + bytes),
            received: u16_at(record, 8 + bytes),
        })
    }
}

/// Why bytes are not a frame of this link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DecodeError {
    /// Shorter than its header and acknowledgement.
    Short,
    /// Another version.
    Version,
    /// An unknown kind.
    Kind,
    /// The checksum does not match.
    Checksum,
    /// The acknowledgement is inconsistent, or does not match its flag.
    Ack,
    /// An impossible code block, or parity outside one.
    Coded,
}

/// A decoded frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// The header.
    pub header: Header,
    /// The acknowledgement, if there is one.
    pub ack: Option<BulkAck>,
    /// The rest.
    pub body: Bytes,
}

/// The bytes of a frame; `ack` is an encoded [`BulkAck`] or empty.
///
/// Panics if the stamp does not fit into 24 bits or the acknowledgement into 255 bytes.
pub fn encode(header: &Header, ack: &[u8], body: &[u8]) -> Bytes {
    assert!(header.delta_us < 1 << 24, "a stamp beyond 24 bits");
    let ack_bytes = u8::try_from(ack.len()).expect("an acknowledgement of at most 255 bytes");
    let mut out = Vec::with_capacity(HEADER_BYTES + ack.len() + body.len());
    let has_ack = if ack.is_empty() { 0 } else { flag::HAS_ACK };
    let coded = header.coded.unwrap_or(Coded { block: 0, index: 0, k: 0 });
    out.push(VERSION << 4 | header.kind.code());
    out.push(header.flags & !flag::HAS_ACK | has_ack);
    out.extend_from_slice(&header.flow.0.to_be_bytes());
    out.extend_from_slice(&header.seq.0.to_be_bytes());
    out.extend_from_slice(&header.flow_seq.to_be_bytes());
    out.push(header.attempt);
    out.push(ack_bytes);
    out.extend_from_slice(&header.slot.to_be_bytes());
    out.extend_from_slice(&[0; 2]);
    out.extend_from_slice(&header.delta_us.to_be_bytes()[1..]);
    out.push(header.incarnation);
    out.extend_from_slice(&coded.block.to_be_bytes());
    out.extend_from_slice(&[coded.index, coded.k]);
    out.extend_from_slice(&header.base_offset.to_be_bytes());
    out.extend_from_slice(&header.protocol.0.to_be_bytes());
    out.extend_from_slice(&[header.cluster, header.length, header.demand]);
    out.extend_from_slice(ack);
    let checksum = crc16(&out);
    out[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&checksum.to_be_bytes());
    out.extend_from_slice(body);
    out.into()
}

/// Decodes a frame. Never panics, whatever the bytes are.
pub fn decode(frame: &Bytes) -> Result<Decoded, DecodeError> {
    if frame.len() < HEADER_BYTES {
        return Err(DecodeError::Short);
    }
    if frame[0] >> 4 != VERSION {
        return Err(DecodeError::Version);
    }
    let kind = Kind::from_code(frame[0] & 0x0f).ok_or(DecodeError::Kind)?;
    let body_at = HEADER_BYTES + usize::from(frame[11]);
    if frame.len() < body_at {
        return Err(DecodeError::Short);
    }
    let crc = crc16_update(0xffff, &frame[..CHECKSUM_AT]);
    let crc = crc16_update(crc16_update(crc, &[0; 2]), &frame[CHECKSUM_AT + 2..body_at]);
    if crc != u16_at(frame, CHECKSUM_AT) {
        return Err(DecodeError::Checksum);
    }
    let flags = frame[1];
    if (flags & flag::HAS_ACK != 0) != (frame[11] != 0) {
        return Err(DecodeError::Ack);
    }
    let ack = match frame[11] {
        0 => None,
        _ => Some(BulkAck::decode(&frame.slice(HEADER_BYTES..body_at))?),
    };
    let coded = coded_at(frame, kind)?;
    let header = Header {
        kind,
        flags,
        flow: FlowId(u16_at(frame, 2)),
        seq: Seq(u32_at(frame, 4)),
        flow_seq: u16_at(frame, 8),
        attempt: frame[10],
        slot: u16_at(frame, 12),
        delta_us: u32_at(frame, 16) >> 8,
        incarnation: frame[19],
        coded,
        base_offset: u16_at(frame, 24),
        protocol: EtherType(u16_at(frame, 26)),
        cluster: frame[28],
        length: frame[29],
        demand: frame[30],
    };
    Ok(Decoded { header, ack, body: frame.slice(body_at..) })
}

fn coded_at(frame: &Bytes, kind: Kind) -> Result<Option<Coded>, DecodeError> {
    let coded = Coded { block: u16_at(frame, 20), index: frame[22], k: frame[23] };
    match (kind, coded.k) {
        (Kind::Fec, 0) => Err(DecodeError::Coded),
        (Kind::Fec, k) if coded.index < k => Err(DecodeError::Coded),
        (Kind::Data, k) if k != 0 && coded.index >= k => Err(DecodeError::Coded),
        (_, 0) => Ok(None),
        _ => Ok(Some(coded)),
    }
}

/// Who may answer when in the slot that follows: part of the beacon of a node with several
/// neighbours on one radio.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turns {
    /// Number of cycles in which this is valid, this one included.
    pub cycles: u8,
    /// The turns.
    pub turns: Vec<TurnEntry>,
}

/// One turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnEntry {
    /// The node.
    pub node: u16,
    /// Start of the turn, in 65,536ths of the node's slot, which is what the slot of the beacon
    /// leaves of a cycle.
    pub from: u16,
    /// Length of the turn, in 65,536ths of the slot.
    pub length: u16,
}

impl Turns {
    /// Most turns of one beacon.
    pub const MOST: usize = 200;

    /// Length of a list of this many turns on the wire.
    pub const fn bytes(turns: usize) -> usize {
        1 + 6 * turns
    }

    /// Appends the bytes on the wire: cycles (8 bits); then for each turn node, start and length
    /// (16 bits each).
    pub fn put(&self, out: &mut Vec<u8>) {
        out.push(self.cycles);
        for turn in &self.turns {
            for field in [turn.node, turn.from, turn.length] {
                out.extend_from_slice(&field.to_be_bytes());
            }
        }
    }

    /// Reads what [`Self::put`] wrote; `None` if it is not well formed.
    pub fn read(bytes: &Bytes) -> Option<Self> {
        let cycles = *bytes.first()?;
        if !(bytes.len() - 1).is_multiple_of(6) || bytes.len() > Self::bytes(Self::MOST) {
            return None;
        }
        let turn = |at: usize| TurnEntry {
            node: u16_at(bytes, at),
            from: u16_at(bytes, at + 2),
            length: u16_at(bytes, at + 4),
        };
        let turns = (1..bytes.len()).step_by(6).map(turn).collect();
        Some(Self { cycles, turns })
    }
}

/// The part of a packet that is coded beside its payload, so that a decoded packet is complete:
/// link sequence (32 bits), flow, flow sequence, EtherType, length of the payload (16 bits each).
/// The payload follows, and zeros up to the longest unit of the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitHead {
    /// Link sequence.
    pub seq: Seq,
    /// The flow.
    pub flow: FlowId,
    /// Flow sequence.
    pub flow_seq: u16,
    /// EtherType of the payload.
    pub protocol: EtherType,
}

/// The coded unit of a packet. Panics if the payload is longer than 65,535 bytes.
pub fn encode_unit(head: &UnitHead, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).expect("a payload of at most 65,535 bytes");
    let mut out = Vec::with_capacity(UNIT_HEAD_BYTES + payload.len());
    out.extend_from_slice(&head.seq.0.to_be_bytes());
    out.extend_from_slice(&head.flow.0.to_be_bytes());
    out.extend_from_slice(&head.flow_seq.to_be_bytes());
    out.extend_from_slice(&head.protocol.0.to_be_bytes());
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(payload);
    out
}

/// The packet in a decoded unit; `None` if its length exceeds the unit.
pub fn decode_unit(unit: &Bytes) -> Option<(UnitHead, Bytes)> {
    if unit.len() < UNIT_HEAD_BYTES {
        return None;
    }
    let end = UNIT_HEAD_BYTES + usize::from(u16_at(unit, 10));
    if end > unit.len() {
        return None;
    }
    let head = UnitHead {
        seq: Seq(u32_at(unit, 0)),
        flow: FlowId(u16_at(unit, 4)),
        flow_seq: u16_at(unit, 6),
        protocol: EtherType(u16_at(unit, 8)),
    };
    Some((head, unit.slice(UNIT_HEAD_BYTES..end)))
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

const CRC_TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { crc << 1 ^ 0x1021 } else { crc << 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

fn crc16(bytes: &[u8]) -> u16 {
    crc16_update(0xffff, bytes)
}

fn crc16_update(crc: u16, bytes: &[u8]) -> u16 {
    bytes.iter().fold(crc, |crc, byte| crc << 8 ^ CRC_TABLE[usize::from((crc >> 8) as u8 ^ *byte)])
}

#[cfg(test)]
mod tests;
