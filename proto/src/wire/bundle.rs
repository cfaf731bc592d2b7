//! Several packets, or parts of them, as the body of one, whose EtherType is then
//! [`EtherType::FARHOP`]: of each its EtherType (2), its length (2) and itself, in network byte
//! order. The two highest bits of the length tell a part: that it goes on where the one before of
//! its flow ended, and that it goes on in the next. The third tells a packet of another flow, which
//! rides: before it stands its flow (2) and, where the highest bit is set too, its number in that
//! (2).

use bytes::{BufMut as _, Bytes};

use crate::base::{EtherType, FlowId};

/// Length of what goes before each piece of a bundle, in bytes.
pub const HEAD_BYTES: usize = 4;
/// Length of what goes before a packet that rides, at most, in bytes.
pub const RIDE_BYTES: usize = HEAD_BYTES + 4;
/// Packets that ride in a bundle, at most. Each may have to wait in a flow of its own, so that a
/// neighbour who sends more could have this node hold far more than a window of frames.
pub const MOST_RIDERS: usize = 4;
/// Bit of a length: the piece goes on with the packet that was open; of a packet that rides, that
/// it has a number.
const REST: u16 = 0x8000;
/// Bit of a length: the packet goes on.
const OPEN: u16 = 0x4000;
/// Bit of a length: the packet is of another flow.
const RIDES: u16 = 0x2000;

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
    /// Where it belongs, if that is not the flow of the bundle; it is whole then.
    pub ride: Option<Ride>,
}

/// Where a packet belongs that rides in the bundle of another flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ride {
    /// Its flow.
    pub flow: FlowId,
    /// Its number in the flow, if it waits for those before it.
    pub number: Option<u16>,
}

impl Piece {
    /// A packet as a whole.
    pub const fn whole(protocol: EtherType, bytes: Bytes) -> Self {
        Self { protocol, bytes, is_rest: false, goes_on: false, ride: None }
    }

    /// Bytes of it in a bundle.
    fn length(&self) -> usize {
        let number = |ride: Ride| if ride.number.is_some() { 4 } else { 2 };
        HEAD_BYTES + self.ride.map_or(0, number) + self.bytes.len()
    }

    /// Whether it is all of a packet.
    pub const fn is_whole(&self) -> bool {
        !self.is_rest && !self.goes_on
    }
}

/// Bytes of a bundle of pieces.
pub fn bytes(pieces: &[Piece]) -> usize {
    pieces.iter().map(Piece::length).sum()
}

/// The bytes on the wire.
///
/// Panics if a piece is 8 KiB long or longer.
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

/// The pieces of a bundle; `None` if one is cut off, or is a bundle itself.
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
