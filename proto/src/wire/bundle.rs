//! Several packets, or parts of them, as the body of one, whose EtherType is then
//! [`EtherType::FARHOP`]: of each its EtherType (2), its length (2) and itself, in network byte
//! order. The two highest bits of the length tell a part: that it goes on where the one before of
//! its flow ended, and that it goes on in the next.

use bytes::Bytes;

use crate::base::EtherType;

/// Length of what goes before each piece of a bundle, in bytes.
pub const HEAD_BYTES: usize = 4;
/// Bit of a length: the piece goes on with the packet that was open.
const REST: u16 = 0x8000;
/// Bit of a length: the packet goes on.
const OPEN: u16 = 0x4000;

/// A packet, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// EtherType of the packet.
    pub protocol: EtherType,
    /// Its bytes.
    pub bytes: Bytes,
    /// Whether it goes on with the packet that the bundle before of the same flow left open.
    pub is_rest: bool,
    /// Whether the packet goes on in the next bundle of the flow.
    pub goes_on: bool,
}

impl Piece {
    /// A packet as a whole.
    pub const fn whole(protocol: EtherType, bytes: Bytes) -> Self {
        Self { protocol, bytes, is_rest: false, goes_on: false }
    }

    /// Whether it is all of a packet.
    pub const fn is_whole(&self) -> bool {
        !self.is_rest && !self.goes_on
    }
}

/// Bytes of a bundle of pieces.
pub fn bytes(pieces: &[Piece]) -> usize {
    pieces.iter().map(|piece| HEAD_BYTES + piece.bytes.len()).sum()
}

/// The bytes on the wire.
///
/// Panics if a piece is 16 KiB long or longer.
pub fn encode(pieces: &[Piece]) -> Bytes {
    let mut out = Vec::with_capacity(bytes(pieces));
    for piece in pieces {
        let length = u16::try_from(piece.bytes.len()).expect("what a frame has place for");
        assert!(length & (REST | OPEN) == 0, "what a frame has place for");
        let rest = if piece.is_rest { REST } else { 0 };
        let open = if piece.goes_on { OPEN } else { 0 };
        out.extend_from_slice(&piece.protocol.0.to_be_bytes());
        out.extend_from_slice(&(length | rest | open).to_be_bytes());
        out.extend_from_slice(&piece.bytes);
    }
    out.into()
}

/// The pieces of a bundle; `None` if one is cut off, or is a bundle itself.
pub fn decode(bundle: &Bytes) -> Option<Vec<Piece>> {
    let mut rest = bundle.clone();
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let head: [u8; HEAD_BYTES] = *rest.first_chunk()?;
        let _ = rest.split_to(HEAD_BYTES);
        let protocol = EtherType(u16::from_be_bytes([head[0], head[1]]));
        let word = u16::from_be_bytes([head[2], head[3]]);
        let length = usize::from(word & !(REST | OPEN));
        if protocol == EtherType::FARHOP || length > rest.len() {
            return None;
        }
        let (is_rest, goes_on) = (word & REST != 0, word & OPEN != 0);
        pieces.push(Piece { protocol, bytes: rest.split_to(length), is_rest, goes_on });
    }
    Some(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_comes_apart_as_it_was_and_a_cut_one_not_at_all() {
        let piece = |text: &'static [u8]| Piece::whole(EtherType::IPV4, Bytes::from_static(text));
        let ack = Piece::whole(EtherType::IPV6, Bytes::from_static(b"an ack"));
        let pieces = vec![piece(b"data"), ack];
        let whole = encode(&pieces);
        assert_eq!(whole[..6], [0x08, 0x00, 0, 4, b'd', b'a']);
        assert_eq!(whole.len(), bytes(&pieces));
        assert_eq!(decode(&whole), Some(pieces));
        for length in 1..whole.len() {
            let is_whole = length == 8;
            assert_eq!(decode(&whole.slice(..length)).is_some(), is_whole, "{length} bytes");
        }
        let inner = Piece::whole(EtherType::FARHOP, whole);
        assert_eq!(decode(&encode(&[inner])), None);
    }

    #[test]
    fn parts_say_where_they_belong() {
        let bytes = Bytes::from_static(b"xyz");
        let part = |is_rest, goes_on| Piece {
            is_rest,
            goes_on,
            ..Piece::whole(EtherType::IPV4, bytes.clone())
        };
        let pieces = vec![part(true, false), part(false, false), part(false, true)];
        let whole = encode(&pieces);
        let words = [2, 9, 16].map(|at| [whole[at], whole[at + 1]]);
        assert_eq!(words, [[0x80, 3], [0, 3], [0x40, 3]]);
        assert_eq!(decode(&whole), Some(pieces));
    }
}
