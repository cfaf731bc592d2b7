//! Bundles: several packets, or parts of packets, as one body with EtherType [`EtherType::FARHOP`].
//!
//! Each piece has its EtherType (2), its length (2) and its bytes; fields are in network byte
//! order. The three highest bits of the length are flags. The highest two mark parts of packets:
//! the piece continues the open packet of its flow, and the packet continues in the next bundle.
//! The third marks a rider, a packet of another flow: before its bytes come its flow (2) and, if
//! the highest bit is also set, its number in that flow (2).

use bytes::{BufMut as _, Bytes};

use crate::base::{EtherType, FlowId};

/// Length of the head of each piece, in bytes.
pub const HEAD_BYTES: usize = 4;
/// Largest length of the head of a rider, in bytes.
pub const RIDE_BYTES: usize = HEAD_BYTES + 4;
/// Most riders in a bundle. Each may have to wait in a flow of its own, so a neighbour that sends
/// more could make this node hold far more than a window of frames.
pub const MOST_RIDERS: usize = 4;
/// Length bit: the piece continues the open packet; for a rider: it has a number.
const REST: u16 = 0x8000;
/// Length bit: the packet continues in the next bundle.
const OPEN: u16 = 0x4000;
/// Length bit: a rider.
const RIDES: u16 = 0x2000;

/// A packet, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// EtherType of the packet.
    pub protocol: EtherType,
    /// Its bytes.
    pub bytes: Bytes,
    /// Whether the piece continues the packet that the previous bundle of the flow left open.
    pub is_rest: bool,
    /// Whether the packet continues in the next bundle of the flow.
    pub goes_on: bool,
    /// The flow of a rider, if the piece is one; it is then a whole packet.
    pub ride: Option<Ride>,
}

/// Flow and number of a rider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ride {
    /// Its flow.
    pub flow: FlowId,
    /// Its number in the flow, if it must wait for those before it.
    pub number: Option<u16>,
}

impl Piece {
    /// A packet as a whole.
    pub const fn whole(protocol: EtherType, bytes: Bytes) -> Self {
        Self { protocol, bytes, is_rest: false, goes_on: false, ride: None }
    }

    /// Bytes that the piece takes in a bundle.
    fn length(&self) -> usize {
        let number = |ride: Ride| if ride.number.is_some() { 4 } else { 2 };
        HEAD_BYTES + self.ride.map_or(0, number) + self.bytes.len()
    }

    /// Whether it is a whole packet.
    pub const fn is_whole(&self) -> bool {
        !self.is_rest && !self.goes_on
    }
}

/// Length of a bundle of these pieces, in bytes.
pub fn bytes(pieces: &[Piece]) -> usize {
    pieces.iter().map(Piece::length).sum()
}

/// Encodes a bundle.
///
/// Panics if a piece is 8 KiB or longer.
pub fn encode(pieces: &[Piece]) -> Bytes {
    let mut out = Vec::with_capacity(bytes(pieces));
    for piece in pieces {
        let length = u16::try_from(piece.bytes.len()).expect("what a frame has place for");
        assert!(length & (REST | OPEN | RIDES) == 0, "what a frame has place for");
        let number = piece.ride.and_then(|ride| ride.number);
        let rest = if piece.is_rest || number.is_some() { REST } else { 0 };
        let open = if piece.goes_on { OPEN } else { 0 };
        let rides = if piece.ride.is_some() { RIDES } else { 0 };
        out.put_u16(piece.protocol.0);
        out.put_u16(length | rest | open | rides);
        if let Some(ride) = piece.ride {
            out.put_u16(ride.flow.0);
        }
        if let Some(number) = number {
            out.put_u16(number);
        }
        out.extend_from_slice(&piece.bytes);
    }
    out.into()
}

/// Decodes a bundle; `None` if a piece is cut off, is a bundle itself, or may not ride.
pub fn decode(bundle: &Bytes) -> Option<Vec<Piece>> {
    let mut rest = bundle.clone();
    let mut pieces = Vec::new();
    let mut riders = 0;
    while !rest.is_empty() {
        let protocol = EtherType(take_word(&mut rest)?);
        let word = take_word(&mut rest)?;
        let (mut is_rest, goes_on) = (word & REST != 0, word & OPEN != 0);
        let mut ride = None;
        if word & RIDES != 0 {
            let flow = FlowId(take_word(&mut rest)?);
            let number = if is_rest { Some(take_word(&mut rest)?) } else { None };
            (is_rest, ride) = (false, Some(Ride { flow, number }));
            riders += 1;
        }
        let length = usize::from(word & !(REST | OPEN | RIDES));
        let is_part_that_rides = ride.is_some() && goes_on;
        let is_wrong = protocol == EtherType::FARHOP || is_part_that_rides;
        if is_wrong || length > rest.len() || riders > MOST_RIDERS {
            return None;
        }
        pieces.push(Piece { protocol, bytes: rest.split_to(length), is_rest, goes_on, ride });
    }
    Some(pieces)
}

fn take_word(rest: &mut Bytes) -> Option<u16> {
    let word = u16::from_be_bytes(*rest.first_chunk()?);
    let _ = rest.split_to(2);
    Some(word)
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

    #[test]
    fn what_rides_says_whose_it_is() {
        let rides = |flow, number| Piece {
            ride: Some(Ride { flow: FlowId(flow), number }),
            ..Piece::whole(EtherType::IPV4, Bytes::from_static(b"xyz"))
        };
        let pieces = vec![rides(5, None), rides(258, Some(7))];
        let whole = encode(&pieces);
        assert_eq!(whole[..9], [8, 0, 0x20, 3, 0, 5, b'x', b'y', b'z']);
        assert_eq!(whole[9..], [8, 0, 0xa0, 3, 1, 2, 0, 7, b'x', b'y', b'z']);
        assert_eq!((whole.len(), decode(&whole)), (bytes(&pieces), Some(pieces)));
        assert_eq!(decode(&whole.slice(..14)), None);
        let part = [8, 0, 0x60, 3, 0, 5, b'x', b'y', b'z'];
        assert_eq!(decode(&Bytes::copy_from_slice(&part)), None, "a part does not ride");
        let most = vec![rides(5, Some(0)); MOST_RIDERS];
        assert_eq!(decode(&encode(&most)), Some(most));
        assert_eq!(decode(&encode(&vec![rides(5, Some(0)); MOST_RIDERS + 1])), None);
    }
}
