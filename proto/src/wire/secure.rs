//! The format of sealed frames: what follows LLC/SNAP under [`EtherType::SEALED`].
//!
//! ```text
//! byte 0     version in the upper half, kind in the lower
//! byte 1     key epoch, as the receiver numbers its keys (broadcast: as the sender does)
//! bytes 2-7  counter, big-endian                         not in handshake messages
//!            body
//! 16 bytes   tag
//! ```
//!
//! The nonce of the AEAD is six zeros and the counter. The associated data are the eight bytes of
//! the header and the numbers of sender and receiver (two bytes each; all ones for broadcast); in
//! the readable form the body as well. Handshake messages have a header of two bytes, a Noise
//! message and one or two HMACs, see `link/secure`. `docs/wire.md` specifies all of this, with test
//! vectors.
//!
//! A *unit* is a part of a packet that its sender sealed as a whole ([`Kind::Cut`]): a header of
//! two bytes, with kind 8, the body unchanged, and a tag of four bytes.
//!
//! [`EtherType::SEALED`]: crate::base::EtherType::SEALED

use crate::base::{EtherType, NodeId};

/// Version of the format.
pub const VERSION: u8 = 1;
/// Length of the header of a frame that is sealed under a key, in bytes.
pub const HEADER_BYTES: usize = 8;
/// Length of the header of handshake messages, in bytes.
pub const HANDSHAKE_HEADER_BYTES: usize = 2;
/// Length of the tag, in bytes.
pub const TAG_BYTES: usize = 16;
/// Bytes that sealing adds to a frame: the header, and the tag after the body.
pub const SEAL_BYTES: usize = HEADER_BYTES + TAG_BYTES;
/// The first byte of a unit.
pub const UNIT: u8 = VERSION << 4 | 8;
/// Length of the header of a unit, in bytes: its first byte and the key epoch.
pub const UNIT_HEADER_BYTES: usize = 2;
/// Length of the tag of a unit, in bytes.
pub const UNIT_TAG_BYTES: usize = 4;
/// Bytes that a unit has in addition to its body.
pub const UNIT_SEAL_BYTES: usize = UNIT_HEADER_BYTES + UNIT_TAG_BYTES;
/// The kinds of a packet that goes in units, encrypted and readable. It is never a frame.
const CUT: [u8; 2] = [9, 10];
/// The bit of a kind which says that the body is readable.
const READABLE: u8 = 8;
/// The receiver's number for broadcast.
const EVERYBODY: u16 = u16::MAX;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// First message of a handshake.
    Init,
    /// The answer to it.
    Response,
    /// In place of an answer: a cookie that the next first message must contain.
    Cookie,
    /// For one receiver: messages about keys, and a frame of a link or nothing.
    Carrier,
    /// For one receiver: a frame of a link.
    Link,
    /// For one receiver: an IP packet.
    Packet,
    /// For all: a frame of a link.
    LinkToAll,
    /// For all: an IP packet.
    PacketToAll,
    /// A packet for one receiver that goes in units. It is not a frame, so that whoever collects
    /// the units cannot make a frame of them.
    Cut,
}

impl Kind {
    /// All kinds of frames, in the order of their codes.
    pub const ALL: [Self; 8] = [
        Self::Init,
        Self::Response,
        Self::Cookie,
        Self::Carrier,
        Self::Link,
        Self::Packet,
        Self::LinkToAll,
        Self::PacketToAll,
    ];

    /// The kind of a frame by the protocol of its payload; `None` if there is none for that
    /// protocol.
    pub fn of(protocol: EtherType, to: Option<NodeId>) -> Option<Self> {
        Some(match (protocol, to) {
            (EtherType::FARHOP, Some(_)) => Self::Link,
            (EtherType::IPV4 | EtherType::IPV6, Some(_)) => Self::Packet,
            (EtherType::FARHOP, None) => Self::LinkToAll,
            (EtherType::IPV4 | EtherType::IPV6, None) => Self::PacketToAll,
            _ => return None,
        })
    }

    /// The protocol of the body; an IP packet says its version itself. `None` if the body is
    /// invalid.
    pub fn protocol(self, body: &[u8]) -> Option<EtherType> {
        match self {
            Self::Packet | Self::PacketToAll => match body.first()? >> 4 {
                4 => Some(EtherType::IPV4),
                6 => Some(EtherType::IPV6),
                _ => None,
            },
            Self::Cut => match body.first()? >> 4 {
                VERSION => Some(EtherType::FARHOP),
                4 => Some(EtherType::IPV4),
                6 => Some(EtherType::IPV6),
                _ => None,
            },
            _ => Some(EtherType::FARHOP),
        }
    }

    /// Whether it belongs to a handshake, and is not under a key.
    pub fn is_handshake(self) -> bool {
        self <= Self::Cookie
    }

    /// Whether it is a broadcast.
    pub fn is_to_all(self) -> bool {
        matches!(self, Self::LinkToAll | Self::PacketToAll)
    }
}

/// The header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the frame is.
    pub kind: Kind,
    /// Whether the body is only authenticated, not encrypted.
    pub is_readable: bool,
    /// The number of the key.
    pub epoch: u8,
    /// The number of the frame under its key, below 2^48; 0 for handshake messages.
    pub counter: u64,
}

/// Why bytes are not a sealed frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// Shorter than header and tag.
    Short,
    /// Another version.
    Version,
    /// A kind that cannot be readable.
    Kind,
}

impl Header {
    /// The bytes before a body that is under a key.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = self.counter.to_be_bytes();
        out[..2].copy_from_slice(&self.encode_short());
        out
    }

    /// The bytes before a handshake message.
    pub fn encode_short(&self) -> [u8; HANDSHAKE_HEADER_BYTES] {
        let code = match self.kind {
            Kind::Cut => CUT[usize::from(self.is_readable)],
            kind if self.is_readable => kind as u8 | READABLE,
            kind => kind as u8,
        };
        [VERSION << 4 | code, self.epoch]
    }

    /// Decodes the header of a packet that went in units. Its body is not authenticated yet.
    pub fn decode_cut(packet: &[u8]) -> Result<Self, DecodeError> {
        let Some(([first, epoch, counter @ ..], _)) = packet.split_first_chunk::<HEADER_BYTES>()
        else {
            return Err(DecodeError::Short);
        };
        if packet.len() < SEAL_BYTES {
            return Err(DecodeError::Short);
        }
        let is_readable = *first == VERSION << 4 | CUT[1];
        if !is_readable && *first != VERSION << 4 | CUT[0] {
            return Err(DecodeError::Kind);
        }
        let counter = counter.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        Ok(Self { kind: Kind::Cut, is_readable, epoch: *epoch, counter })
    }

    /// Decodes the header of a frame. Its body is not authenticated yet.
    pub fn decode(frame: &[u8]) -> Result<Self, DecodeError> {
        let [first, epoch, rest @ ..] = frame else { return Err(DecodeError::Short) };
        if first >> 4 != VERSION {
            return Err(DecodeError::Version);
        }
        let kind = Kind::ALL[usize::from(first & 7)];
        let is_readable = first & READABLE != 0;
        if kind <= Kind::Carrier && is_readable {
            return Err(DecodeError::Kind);
        }
        let counter = match kind.is_handshake() {
            true => 0,
            false if frame.len() < SEAL_BYTES => return Err(DecodeError::Short),
            false => rest[..6].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
        };
        Ok(Self { kind, is_readable, epoch: *epoch, counter })
    }
}

/// A message about keys between two nodes that share keys, before the frame in a [`Kind::Carrier`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said<'a> {
    /// A first message of a handshake.
    Init(&'a [u8]),
    /// Its answer.
    Response(&'a [u8]),
    /// The sender's key for broadcast.
    BroadcastKey {
        /// The sender's number for it.
        epoch: u8,
        /// The first counter that is valid, below 2^48.
        first: u64,
        /// The key.
        secret: &'a [u8; 32],
    },
    /// The receiver's broadcast key with this number has arrived.
    BroadcastAck(u8),
}

impl<'a> Said<'a> {
    /// Appends code, length and message.
    ///
    /// Panics if a message is longer than 65,535 bytes.
    pub fn append(&self, out: &mut Vec<u8>) {
        let mut put = |code: u8, parts: &[&[u8]]| {
            let length: usize = parts.iter().map(|part| part.len()).sum();
            let length = u16::try_from(length).expect("a message of at most 65,535 bytes");
            out.push(code);
            out.extend_from_slice(&length.to_be_bytes());
            parts.iter().for_each(|part| out.extend_from_slice(part));
        };
        match self {
            Self::Init(message) => put(1, &[message]),
            Self::Response(message) => put(2, &[message]),
            Self::BroadcastKey { epoch, first, secret } => {
                put(3, &[&[*epoch], &first.to_be_bytes()[2..], &secret[..]]);
            }
            Self::BroadcastAck(epoch) => put(4, &[&[*epoch]]),
        }
    }

    fn decode(code: u8, message: &'a [u8]) -> Option<Self> {
        Some(match (code, message) {
            (1, _) => Self::Init(message),
            (2, _) => Self::Response(message),
            (3, [epoch, rest @ ..]) => {
                let (first, secret) = rest.split_first_chunk::<6>()?;
                let first = first.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
                Self::BroadcastKey { epoch: *epoch, first, secret: secret.try_into().ok()? }
            }
            (4, [epoch]) => Self::BroadcastAck(*epoch),
            _ => return None,
        })
    }
}

/// Decodes the body of a carrier: the messages about keys, and the frame of the link. `None` if it
/// is not well formed.
pub fn decode_carrier(body: &[u8]) -> Option<(Vec<Said<'_>>, &[u8])> {
    let (length, rest) = body.split_first_chunk::<2>()?;
    let (mut said, frame) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    let mut all = Vec::new();
    while let Some(([code, high, low], behind)) = said.split_first_chunk::<3>() {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let (message, behind) = behind.split_at_checked(length)?;
        all.push(Said::decode(*code, message)?);
        said = behind;
    }
    said.is_empty().then_some((all, frame))
}

/// Sender and receiver in the form in which they are authenticated.
pub fn ends(from: NodeId, to: Option<NodeId>) -> [u8; 4] {
    let [a, b] = from.0.to_be_bytes();
    let [c, d] = to.map_or(EVERYBODY, |to| to.0).to_be_bytes();
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_has_these_bytes() {
        let header = Header { kind: Kind::Packet, is_readable: true, epoch: 7, counter: 0x10203 };
        assert_eq!(header.encode(), [0x1d, 7, 0, 0, 0, 1, 2, 3]);
        let mut frame = header.encode().to_vec();
        frame.resize(SEAL_BYTES, 0);
        assert_eq!(Header::decode(&frame), Ok(header));
        assert_eq!(Header::decode(&frame[..SEAL_BYTES - 1]), Err(DecodeError::Short));
        assert_eq!(Header::decode(&[]), Err(DecodeError::Short));
        assert_eq!(Header::decode(&[0x25, 0]), Err(DecodeError::Version));
        assert_eq!(Header::decode(&[0x1b; 40]), Err(DecodeError::Kind));
    }

    #[test]
    fn what_is_said_about_keys_comes_back() {
        let secret = &[9; 32];
        let said = [
            Said::Init(b"init"),
            Said::Response(b""),
            Said::BroadcastKey { epoch: 3, first: 0x0102_0304_0506, secret },
            Said::BroadcastAck(4),
        ];
        let mut body = vec![0, 0];
        said.iter().for_each(|said| said.append(&mut body));
        let length = (body.len() as u16 - 2).to_be_bytes();
        body[..2].copy_from_slice(&length);
        body.extend_from_slice(b"frame");
        assert_eq!(decode_carrier(&body), Some((said.to_vec(), &b"frame"[..])));
        assert_eq!(decode_carrier(&[0, 3, 4, 0, 1]), None, "longer than the body");
        assert_eq!(decode_carrier(&[0, 4, 9, 0, 1, 0]), None, "no such code");
        assert_eq!(decode_carrier(&[0, 1, 4]), None, "cut short");
        assert_eq!(decode_carrier(&[]), None);
    }

    #[test]
    fn a_cut_packet_is_no_frame_and_no_frame_is_a_cut_packet() {
        for is_readable in [false, true] {
            let header = Header { kind: Kind::Cut, is_readable, epoch: 3, counter: 0x10203 };
            let mut bytes = header.encode().to_vec();
            bytes.resize(SEAL_BYTES, 0);
            assert_eq!(Header::decode_cut(&bytes), Ok(header));
            assert_eq!(Header::decode(&bytes), Err(DecodeError::Kind));
            assert_eq!(Header::decode_cut(&bytes[..SEAL_BYTES - 1]), Err(DecodeError::Short));
            let frame = Header { kind: Kind::Packet, ..header }.encode();
            bytes[..HEADER_BYTES].copy_from_slice(&frame);
            assert_eq!(Header::decode_cut(&bytes), Err(DecodeError::Kind));
        }
        assert_eq!(Header::decode(&[UNIT; 40]), Err(DecodeError::Kind));
        assert_eq!(Kind::Cut.protocol(&[0x11]), Some(EtherType::FARHOP));
        assert_eq!(Kind::Cut.protocol(&[0x75]), None);
    }

    #[test]
    fn every_kind_comes_back() {
        for kind in Kind::ALL {
            let header = Header { kind, is_readable: false, epoch: 255, counter: 0 };
            let mut frame = header.encode().to_vec();
            frame.resize(SEAL_BYTES, 0);
            assert_eq!(Header::decode(&frame), Ok(header));
        }
    }
}
