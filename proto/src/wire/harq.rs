//! Frames of `link/harq`: a unit of a packet, a probe, and feedback.
//!
//! All fields are in network byte order. The first byte has the version in its upper half and the
//! kind in its lower half; the next two are the incarnation of the node whose packets the frame is
//! about.
//!
//! Kind 1 is a unit of a packet's first burst, kind 2 one of a later burst:
//!
//! | bytes | field |
//! |---|---|
//! | 3-6 | number of the burst |
//! | 7-10 | number of the block |
//! | 11-12 | distance back to the oldest unfinished block |
//! | 13 | index of the unit: below K data, from K on parity |
//! | 14 | K |
//! | 15 | units of the burst that follow this one |
//! | 16 | padding: zeros at the end of the data |
//! | 17 | protocol of the packet: 4 IPv4, 6 IPv6, 15 farhop's own |
//! | 18.. | the unit |
//!
//! Kind 3 is a probe: a burst without units, with its number (3-6), the oldest unfinished block
//! (7-10) and the oldest burst without a report (11-14). Kind 4 is feedback, a list of reports:
//! number of a burst (4), units of it that arrived (1), units that its block still needs (1; 255
//! unknown, 254 given up), and which of the block's first 32 data units are missing (4).

use bytes::Bytes;

use crate::base::EtherType;

/// Length of the header of a unit, in bytes.
pub const UNIT_HEADER_BYTES: usize = 18;
/// Length of a probe, in bytes.
pub const PROBE_BYTES: usize = 15;
/// Length of feedback without reports, in bytes.
pub const FEEDBACK_HEADER_BYTES: usize = 3;
/// Length of a report, in bytes.
pub const REPORT_BYTES: usize = 10;
/// Most data units of a block.
pub const MAX_DATA: u8 = 32;
/// Most parity units of a block.
pub const MAX_PARITY: u8 = 128;
/// Most blocks from the oldest unfinished one to the newest, both included.
pub const WINDOW: u16 = 1024;
/// In a report: the receiver does not know the block.
pub const UNKNOWN: u8 = 255;
/// In a report: the receiver has moved on without the block.
pub const GIVEN_UP: u8 = 254;

const VERSION: u8 = 1;
const FIRST: u8 = 1;
const AGAIN: u8 = 2;
const PROBE: u8 = 3;
const FEEDBACK: u8 = 4;

/// The header of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Whether it belongs to the first burst of its block.
    pub is_first: bool,
    /// Number of the burst.
    pub burst: u32,
    /// Number of the block.
    pub block: u32,
    /// Distance back to the oldest unfinished block, below [`WINDOW`].
    pub back: u16,
    /// Below `k` data, from `k` on parity.
    pub index: u8,
    /// Data units of the block, at most [`MAX_DATA`].
    pub k: u8,
    /// Units of the burst that follow this one.
    pub left: u8,
    /// Zeros at the end of the data units, at most `k` bytes.
    pub pad: u8,
    /// Protocol of the packet.
    pub protocol: EtherType,
}

/// A probe: a burst without units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Its number.
    pub burst: u32,
    /// The oldest unfinished block.
    pub base: u32,
    /// The oldest burst for which no report arrived.
    pub asks: u32,
}

/// What became of a burst and its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The number of the burst.
    pub burst: u32,
    /// Units of the burst that arrived.
    pub came: u8,
    /// Units that the block still needs; 0 if it is complete, or [`UNKNOWN`] or [`GIVEN_UP`].
    pub needs: u8,
    /// The data units that are missing, the first in the lowest bit.
    pub lacks: u32,
}

/// A decoded frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// A unit and its bytes, at least one.
    Unit(Unit, Bytes),
    /// A probe.
    Probe(Probe),
    /// Reports, at least one.
    Feedback(Vec<Report>),
}

impl Decoded {
    /// The number of the burst and the oldest unfinished block; `None` for feedback.
    pub fn numbers(&self) -> Option<(u32, u32)> {
        match self {
            Self::Unit(unit, _) => Some((unit.burst, unit.block.wrapping_sub(unit.back.into()))),
            Self::Probe(probe) => Some((probe.burst, probe.base)),
            Self::Feedback(_) => None,
        }
    }
}

/// Why bytes are not a frame of this link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// Shorter than necessary, or not a whole number of reports.
    Length,
    /// Another version or kind.
    Kind,
    /// Numbers that are impossible.
    Range,
}

fn code_of(protocol: EtherType) -> Option<u8> {
    Some(match protocol {
        EtherType::IPV4 => 4,
        EtherType::IPV6 => 6,
        EtherType::FARHOP => 15,
        _ => return None,
    })
}

/// Whether packets of this protocol can be carried.
pub fn is_carried(protocol: EtherType) -> bool {
    code_of(protocol).is_some()
}

fn start(kind: u8, incarnation: u16, bytes: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes);
    out.push(VERSION << 4 | kind);
    out.extend_from_slice(&incarnation.to_be_bytes());
    out
}

/// The bytes of a unit.
///
/// Panics if its protocol is not [carried](is_carried).
pub fn encode_unit(incarnation: u16, unit: &Unit, body: &[u8]) -> Bytes {
    let kind = if unit.is_first { FIRST } else { AGAIN };
    let mut out = start(kind, incarnation, UNIT_HEADER_BYTES + body.len());
    out.extend_from_slice(&unit.burst.to_be_bytes());
    out.extend_from_slice(&unit.block.to_be_bytes());
    out.extend_from_slice(&unit.back.to_be_bytes());
    let code = code_of(unit.protocol).expect("checked where the packet was taken");
    out.extend_from_slice(&[unit.index, unit.k, unit.left, unit.pad, code]);
    out.extend_from_slice(body);
    out.into()
}

/// The bytes of a probe.
pub fn encode_probe(incarnation: u16, probe: &Probe) -> Bytes {
    let mut out = start(PROBE, incarnation, PROBE_BYTES);
    for number in [probe.burst, probe.base, probe.asks] {
        out.extend_from_slice(&number.to_be_bytes());
    }
    out.into()
}

/// The bytes of feedback to the node with this incarnation.
pub fn encode_feedback(incarnation: u16, reports: &[Report]) -> Bytes {
    let bytes = FEEDBACK_HEADER_BYTES + REPORT_BYTES * reports.len();
    let mut out = start(FEEDBACK, incarnation, bytes);
    for report in reports {
        out.extend_from_slice(&report.burst.to_be_bytes());
        out.extend_from_slice(&[report.came, report.needs]);
        out.extend_from_slice(&report.lacks.to_be_bytes());
    }
    out.into()
}

/// Decodes a frame, and the incarnation that it is about. Never panics, whatever the bytes are.
///
/// # Errors
///
/// Why the bytes are not a frame of this link.
pub fn decode(frame: &Bytes) -> Result<(u16, Decoded), DecodeError> {
    let Some(([first, high, low], rest)) = frame.split_first_chunk::<3>() else {
        return Err(DecodeError::Length);
    };
    if first >> 4 != VERSION {
        return Err(DecodeError::Kind);
    }
    let decoded = match first & 15 {
        kind @ (FIRST | AGAIN) => decode_unit(kind == FIRST, frame)?,
        PROBE => {
            let rest: &[u8; 12] = rest.try_into().map_err(|_| DecodeError::Length)?;
            let [burst, base, asks] = [0, 4, 8].map(|at| number(rest, at));
            Decoded::Probe(Probe { burst, base, asks })
        }
        FEEDBACK => {
            let (reports, over) = rest.as_chunks::<REPORT_BYTES>();
            if reports.is_empty() || !over.is_empty() {
                return Err(DecodeError::Length);
            }
            Decoded::Feedback(reports.iter().map(decode_report).collect())
        }
        _ => return Err(DecodeError::Kind),
    };
    Ok((u16::from_be_bytes([*high, *low]), decoded))
}

fn number(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte))
}

fn decode_report(bytes: &[u8; REPORT_BYTES]) -> Report {
    let (burst, lacks) = (number(bytes, 0), number(bytes, 6));
    Report { burst, came: bytes[4], needs: bytes[5], lacks }
}

fn decode_unit(is_first: bool, frame: &Bytes) -> Result<Decoded, DecodeError> {
    if frame.len() <= UNIT_HEADER_BYTES {
        return Err(DecodeError::Length);
    }
    let protocol = match frame[17] {
        4 => EtherType::IPV4,
        6 => EtherType::IPV6,
        15 => EtherType::FARHOP,
        _ => return Err(DecodeError::Range),
    };
    let unit = Unit {
        is_first,
        burst: number(frame, 3),
        block: number(frame, 7),
        back: u16::from_be_bytes([frame[11], frame[12]]),
        index: frame[13],
        k: frame[14],
        left: frame[15],
        pad: frame[16],
        protocol,
    };
    let has_index = unit.index.saturating_sub(unit.k) < MAX_PARITY;
    let has_k = (1..=MAX_DATA).contains(&unit.k);
    if !has_index || !has_k || unit.pad > unit.k || unit.back >= WINDOW {
        return Err(DecodeError::Range);
    }
    Ok(Decoded::Unit(unit, frame.slice(UNIT_HEADER_BYTES..)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UNIT: Unit = Unit {
        is_first: true,
        burst: 0x0102_0304,
        block: 0x0506_0708,
        back: 0x0123,
        index: 17,
        k: 17,
        left: 2,
        pad: 9,
        protocol: EtherType::IPV4,
    };

    #[test]
    fn the_bytes_are_those_of_the_tables() {
        let unit = [0x11, 0xab, 0xcd, 1, 2, 3, 4, 5, 6, 7, 8, 1, 0x23, 17, 17, 2, 9, 4, b'u'];
        assert_eq!(encode_unit(0xabcd, &UNIT, b"u")[..], unit);
        let again = Unit { is_first: false, protocol: EtherType::FARHOP, ..UNIT };
        let bytes = encode_unit(0xabcd, &again, b"u");
        assert_eq!((bytes[0], bytes[17]), (0x12, 15));
        let probe = Probe { burst: 1, base: 2, asks: 3 };
        let bytes = [0x13, 0xab, 0xcd, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3];
        assert_eq!(encode_probe(0xabcd, &probe)[..], bytes);
        let report = Report { burst: 0x0a0b_0c0d, came: 18, needs: 2, lacks: 0x8001 };
        let bytes = [0x14, 0xab, 0xcd, 10, 11, 12, 13, 18, 2, 0, 0, 0x80, 1];
        assert_eq!(encode_feedback(0xabcd, &[report])[..], bytes);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let bytes = encode_unit(7, &UNIT, b"u");
        let with = |at: usize, byte: u8| {
            let mut changed = bytes.to_vec();
            changed[at] = byte;
            decode(&changed.into()).err()
        };
        assert_eq!(with(0, 0x21), Some(DecodeError::Kind));
        assert_eq!(with(0, 0x15), Some(DecodeError::Kind));
        for (at, byte) in [(14, 0), (14, 33), (16, 18), (11, 4), (17, 5), (13, 145)] {
            assert_eq!(with(at, byte), Some(DecodeError::Range), "byte {at}");
        }
        assert_eq!(with(13, 144), None);
        assert_eq!(decode(&bytes.slice(..18)).err(), Some(DecodeError::Length));
        assert_eq!(decode(&Bytes::from_static(&[0x14, 0, 0])).err(), Some(DecodeError::Length));
        assert_eq!(decode(&Bytes::from_static(&[0x13, 0, 0])).err(), Some(DecodeError::Length));
    }

    /// The bytes of a decoded frame.
    fn encode(incarnation: u16, decoded: &Decoded) -> Bytes {
        match decoded {
            Decoded::Unit(unit, body) => encode_unit(incarnation, unit, body),
            Decoded::Probe(probe) => encode_probe(incarnation, probe),
            Decoded::Feedback(reports) => encode_feedback(incarnation, reports),
        }
    }

    proptest! {
        #[test]
        fn what_decodes_encodes_to_the_same_bytes(kind in 0x11_u8..0x15, bytes: Vec<u8>) {
            let bytes = Bytes::from([&[kind][..], &bytes].concat());
            if let Ok((incarnation, decoded)) = decode(&bytes) {
                prop_assert_eq!(encode(incarnation, &decoded), bytes);
            }
        }

        #[test]
        fn a_row_of_reports_comes_back(incarnation: u16, numbers: Vec<(u32, u8, u8, u32)>) {
            let report = |(burst, came, needs, lacks)| Report { burst, came, needs, lacks };
            let reports: Vec<Report> = numbers.into_iter().map(report).collect();
            let bytes = encode_feedback(incarnation, &reports);
            match decode(&bytes) {
                Ok(decoded) => prop_assert_eq!(decoded, (incarnation, Decoded::Feedback(reports))),
                Err(_) => prop_assert!(reports.is_empty()),
            }
        }
    }
}
