//! Frames of `link/blindfec`: a header of 6 bytes and a coded unit.
//!
//! All fields are in network byte order:
//!
//! | bytes | field |
//! |---|---|
//! | 0 | version (upper four bits), kind: 1 data, 2 parity |
//! | 1 | incarnation of the sender |
//! | 2-3 | block |
//! | 4 | index in the block: below K data, from K on parity |
//! | 5 | K, in parity; 0 in data, whose block may still grow |
//!
//! The unit of data is that of `wire/wild`, with the index in place of the link sequence; the unit
//! of parity is a sum of those.

use bytes::Bytes;

/// Length of the header, in bytes.
pub const HEADER_BYTES: usize = 6;

const VERSION: u8 = 1;
const DATA: u8 = 1;
const PARITY: u8 = 2;

/// The header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Incarnation of the sender.
    pub incarnation: u8,
    /// The block.
    pub block: u16,
    /// Below K data, from K on parity.
    pub index: u8,
    /// K of parity; `None` for data.
    pub k: Option<u8>,
}

/// Why bytes are not a frame of this link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// Shorter than the header.
    Short,
    /// Another version or kind.
    Kind,
    /// Parity inside the data of its block, or data with a K.
    Index,
}

/// The bytes of a frame.
pub fn encode(header: &Header, unit: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(HEADER_BYTES + unit.len());
    let kind = if header.k.is_some() { PARITY } else { DATA };
    out.push(VERSION << 4 | kind);
    out.push(header.incarnation);
    out.extend_from_slice(&header.block.to_be_bytes());
    out.extend_from_slice(&[header.index, header.k.unwrap_or(0)]);
    out.extend_from_slice(unit);
    out.into()
}

/// Decodes a frame. Never panics, whatever the bytes are.
///
/// # Errors
///
/// Why the bytes are not a frame of this link.
pub fn decode(frame: &Bytes) -> Result<(Header, Bytes), DecodeError> {
    if frame.len() < HEADER_BYTES {
        return Err(DecodeError::Short);
    }
    let (index, k) = (frame[4], frame[5]);
    let k = match frame[0] {
        byte if byte == VERSION << 4 | DATA && k == 0 => None,
        byte if byte == VERSION << 4 | PARITY && k > 0 && index >= k => Some(k),
        byte if byte >> 4 == VERSION && [DATA, PARITY].contains(&(byte & 15)) => {
            return Err(DecodeError::Index);
        }
        _ => return Err(DecodeError::Kind),
    };
    let block = u16::from_be_bytes([frame[2], frame[3]]);
    let header = Header { incarnation: frame[1], block, index, k };
    Ok((header, frame.slice(HEADER_BYTES..)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_bytes_are_those_of_the_table() {
        let data = Header { incarnation: 7, block: 0x1234, index: 3, k: None };
        assert_eq!(encode(&data, b"ab")[..], [0x11, 7, 0x12, 0x34, 3, 0, b'a', b'b']);
        let parity = Header { index: 9, k: Some(8), ..data };
        assert_eq!(encode(&parity, b"c")[..], [0x12, 7, 0x12, 0x34, 9, 8, b'c']);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refused = |bytes: &'static [u8]| decode(&Bytes::from_static(bytes)).err();
        assert_eq!(refused(&[0x11, 7, 0, 0, 3]), Some(DecodeError::Short));
        assert_eq!(refused(&[0x21, 7, 0, 0, 3, 0]), Some(DecodeError::Kind));
        assert_eq!(refused(&[0x12, 7, 0, 0, 3, 8]), Some(DecodeError::Index));
        assert_eq!(refused(&[0x11, 7, 0, 0, 3, 8]), Some(DecodeError::Index));
    }

    proptest! {
        #[test]
        fn what_decodes_encodes_to_the_same_bytes(bytes: Vec<u8>) {
            let bytes = Bytes::from(bytes);
            if let Ok((header, unit)) = decode(&bytes) {
                prop_assert_eq!(encode(&header, &unit), bytes);
            }
        }
    }
}
