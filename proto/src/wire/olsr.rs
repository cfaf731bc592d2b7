//! Packets of OLSR (RFC 3626, sections 3.3, 6.1 and 9.1) with the link-quality extension of olsrd.
//!
//! All fields are in network byte order. A packet is `length (2), packet sequence number (2)` and
//! messages; it travels in UDP, port 698. A message:
//!
//! | bytes | field |
//! |---|---|
//! | 0 | type: 201 LQ_HELLO, 202 LQ_TC, 212 LQ_TC with a signature |
//! | 1 | validity time: C * (1 + a/16) * 2^b, C = 1/16 s, a in the upper four bits |
//! | 2-3 | length, including this header |
//! | 4-7 | IPv4 address of the originator |
//! | 8 | TTL |
//! | 9 | hop count |
//! | 10-11 | message sequence number |
//!
//! LQ_HELLO continues with `reserved (2), interval (1), willingness (1)` and groups of neighbours:
//! `link code (1), reserved (1), length of the group (2)`, then for each neighbour `address (4), LQ
//! (1), NLQ (1), reserved (2)`. LQ_TC continues with `ANSN (2), reach (1), reserved (1)` and
//! neighbours in the same form; a signed one ends with `counter (8), signature (64)`. LQ is the
//! share of the neighbour's HELLOs that arrived here, NLQ the share of ours that arrived there, as
//! the neighbour reports; 255 is all. The reach is the TTL that the originator wrote, where nobody
//! can change it; olsrd has a reserved byte there, which is 0.
//!
//! The signature is Ed25519 over [`SIGNED_FOR`] and the message from its first byte to the counter,
//! in which TTL and hop count, which change on the way, are taken as zero. Type 212 is farhop's
//! own: RFC 3626, section 18, leaves 128 to 255 to private use.

use std::net::Ipv4Addr;

use bytes::Bytes;

use crate::base::{Duration, Identity, PublicKey, SIGNATURE_BYTES};

/// The UDP port (RFC 3626, section 3.1).
pub const PORT: u16 = 698;
/// Prefix of what is signed for a topology message, so that the signature has no other use.
pub const SIGNED_FOR: &[u8] = b"farhop olsr tc 1";

const PACKET_HEADER: usize = 4;
const MESSAGE_HEADER: usize = 12;
const NEIGHBOUR_BYTES: usize = 8;
const SEAL: usize = 8 + SIGNATURE_BYTES;

const LQ_HELLO: u8 = 201;
const LQ_TC: u8 = 202;
const SIGNED_TC: u8 = 212;

/// A link or a neighbour in a message, as its other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Its address.
    pub address: Ipv4Addr,
    /// Share of the neighbour's HELLOs that arrive, of 255.
    pub lq: u8,
    /// Share of HELLOs to the neighbour that arrive, of 255, as it reported; 0 if it reported none.
    pub nlq: u8,
}

/// State of a neighbour in a HELLO (RFC 3626, section 6.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkCode {
    /// Not heard by this radio, but a neighbour heard in both directions by another one.
    Neighbour,
    /// Heard by this radio, but it does not say that it hears us.
    Asymmetric,
    /// As asymmetric, and a neighbour heard in both directions by another radio.
    AsymmetricNeighbour,
    /// Heard in both directions.
    Symmetric,
    /// Heard in both directions, and asked to forward what this node floods (MPR).
    Relay,
}

impl LinkCode {
    /// Neighbour type in bits 2 and 3, link type in bits 0 and 1.
    const fn byte(self) -> u8 {
        match self {
            Self::Neighbour => 1 << 2,
            Self::Asymmetric => 1,
            Self::AsymmetricNeighbour => 1 << 2 | 1,
            Self::Symmetric => 1 << 2 | 2,
            Self::Relay => 2 << 2 | 2,
        }
    }

    /// Whether both directions are heard, by any radio.
    pub const fn is_symmetric(self) -> bool {
        !matches!(self, Self::Asymmetric)
    }
}

/// A HELLO: who is heard by the radio that sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Time between the sender's HELLOs.
    pub interval: Duration,
    /// Willingness to relay: 0 never, 3 default, 7 always.
    pub willingness: u8,
    /// The neighbours and their states.
    pub neighbours: Vec<(LinkCode, Neighbour)>,
}

/// A topology message: the neighbours of its originator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Number of this set of neighbours, modulo 2^16.
    pub ansn: u16,
    /// Hops that the message is meant to make.
    pub reach: u8,
    /// The neighbours.
    pub neighbours: Vec<Neighbour>,
    /// Number of topology messages that the originator has signed, this one included; `None`
    /// without a signature.
    pub counter: Option<u64>,
}

/// The content of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// For neighbours.
    Hello(Hello),
    /// For all nodes.
    Topology(Topology),
    /// A kind that is unknown here.
    Other,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// How long the message is valid.
    pub validity: Duration,
    /// Who wrote it.
    pub originator: Ipv4Addr,
    /// Hops that it may still make.
    pub ttl: u8,
    /// Hops that it has made.
    pub hops: u8,
    /// Sequence number among the messages of its originator, modulo 2^16.
    pub seq: u16,
    /// The content.
    pub body: Body,
    /// The bytes as received; empty in a message that is to be encoded.
    pub bytes: Bytes,
}

/// Why bytes are not a packet of OLSR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// Shorter or longer than its length field says.
    Length,
    /// A message that is cut off, or whose parts do not fit into it.
    Message,
}

/// A packet of messages that are already encoded.
///
/// Panics if they do not fit into 64 KiB.
pub fn packet(seq: u16, messages: &[Bytes]) -> Vec<u8> {
    let length = PACKET_HEADER + messages.iter().map(Bytes::len).sum::<usize>();
    let mut out = Vec::with_capacity(length);
    let length = u16::try_from(length).expect("a packet that fits into an IP packet");
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&seq.to_be_bytes());
    messages.iter().for_each(|message| out.extend_from_slice(message));
    out
}

/// Decodes the messages of a packet.
///
/// # Errors
///
/// A packet with a malformed part is rejected as a whole.
pub fn decode(packet: &Bytes) -> Result<Vec<Message>, DecodeError> {
    let length = field(packet, 0).ok_or(DecodeError::Length)?;
    if usize::from(length) != packet.len() {
        return Err(DecodeError::Length);
    }
    let mut messages = Vec::new();
    let mut rest = packet.slice(PACKET_HEADER.min(packet.len())..);
    while !rest.is_empty() {
        let length = usize::from(field(&rest, 2).ok_or(DecodeError::Message)?);
        if length < MESSAGE_HEADER || length > rest.len() {
            return Err(DecodeError::Message);
        }
        messages.push(message(rest.split_to(length)).ok_or(DecodeError::Message)?);
    }
    Ok(messages)
}

fn field(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).map(|two| u16::from_be_bytes([two[0], two[1]]))
}

fn message(bytes: Bytes) -> Option<Message> {
    let body = &bytes[MESSAGE_HEADER..];
    let body = match bytes[0] {
        LQ_HELLO => Body::Hello(hello(body)?),
        LQ_TC => Body::Topology(topology(body, None)?),
        SIGNED_TC => {
            let (front, seal) = body.split_at_checked(body.len().checked_sub(SEAL)?)?;
            let counter = seal.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
            Body::Topology(topology(front, counter)?)
        }
        _ => Body::Other,
    };
    Some(Message {
        validity: time(bytes[1]),
        originator: Ipv4Addr::new(bytes[4], bytes[5], bytes[6], bytes[7]),
        ttl: bytes[8],
        hops: bytes[9],
        seq: field(&bytes, 10)?,
        body,
        bytes,
    })
}

fn hello(body: &[u8]) -> Option<Hello> {
    let (front, mut groups) = body.split_at_checked(4)?;
    let mut all = Vec::new();
    while !groups.is_empty() {
        let code = match *groups.first()? {
            // Link types "unspecified", "asymmetric" and "symmetric", combined with the neighbour
            // type; a lost link says nothing.
            code if code & 3 == 0 && code >> 2 != 0 => Some(LinkCode::Neighbour),
            code if code & 3 == 1 && matches!(code >> 2, 1 | 2) => {
                Some(LinkCode::AsymmetricNeighbour)
            }
            code if code & 3 == 1 => Some(LinkCode::Asymmetric),
            code if code & 3 == 2 && code >> 2 == 2 => Some(LinkCode::Relay),
            code if code & 3 == 2 => Some(LinkCode::Symmetric),
            _ => None,
        };
        let (group, rest) = groups.split_at_checked(usize::from(field(groups, 2)?))?;
        let found = neighbours(group.get(4..)?)?;
        all.extend(code.into_iter().flat_map(|code| found.iter().map(move |at| (code, *at))));
        groups = rest;
    }
    Some(Hello { interval: time(front[2]), willingness: front[3], neighbours: all })
}

fn topology(body: &[u8], counter: Option<u64>) -> Option<Topology> {
    let (ansn, neighbours) = (field(body, 0)?, neighbours(body.get(4..)?)?);
    let reach = if body[2] == 0 { u8::MAX } else { body[2] };
    Some(Topology { ansn, reach, neighbours, counter })
}

fn neighbours(bytes: &[u8]) -> Option<Vec<Neighbour>> {
    let entry = |at: &[u8]| Neighbour {
        address: Ipv4Addr::new(at[0], at[1], at[2], at[3]),
        lq: at[4],
        nlq: at[5],
    };
    let chunks = bytes.chunks_exact(NEIGHBOUR_BYTES);
    chunks.remainder().is_empty().then(|| chunks.map(entry).collect())
}

/// Decodes a time of one byte (RFC 3626, section 18.3).
fn time(byte: u8) -> Duration {
    let (a, b) = (u64::from(byte >> 4), u32::from(byte & 15));
    // In units of 1/256 s: a sixteenth of C, which is 1/16 s.
    Duration::from_nanos(((16 + a) << b) * (1_000_000_000 / 256))
}

/// The shortest one-byte time that is not shorter than `wanted`, or else the longest.
fn time_byte(wanted: Duration) -> u8 {
    let all = (0..16).flat_map(|b| (0..16).map(move |a| a << 4 | b));
    all.into_iter().find(|byte| time(*byte) >= wanted).unwrap_or(0xff)
}

impl Message {
    /// The bytes of the message. A topology message with a counter is signed by `signer`.
    ///
    /// Panics if the kind is unknown, if the message is longer than 64 KiB, or if it has a counter
    /// and there is no signer.
    pub fn encode(&self, signer: Option<&Identity>) -> Bytes {
        let (kind, body) = match &self.body {
            Body::Hello(hello) => (LQ_HELLO, hello.encode()),
            Body::Topology(topology) if topology.counter.is_some() => {
                (SIGNED_TC, topology.encode())
            }
            Body::Topology(topology) => (LQ_TC, topology.encode()),
            Body::Other => panic!("a message that says nothing"),
        };
        let length =
            MESSAGE_HEADER + body.len() + if kind == SIGNED_TC { SIGNATURE_BYTES } else { 0 };
        let length = u16::try_from(length).expect("a message that fits into a packet");
        let mut out = Vec::with_capacity(usize::from(length));
        out.extend_from_slice(&[kind, time_byte(self.validity)]);
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&self.originator.octets());
        out.extend_from_slice(&[self.ttl, self.hops]);
        out.extend_from_slice(&self.seq.to_be_bytes());
        out.extend_from_slice(&body);
        if kind == SIGNED_TC {
            let signer = signer.expect("whoever counts what it signs has a key");
            let signature = signer.sign(&what_is_signed(&out));
            out.extend_from_slice(&signature);
        }
        out.into()
    }

    /// The same bytes after one hop.
    pub fn forwarded(&self) -> Bytes {
        self.with_hops(self.ttl.saturating_sub(1), self.hops.saturating_add(1))
    }

    /// The same bytes as if after one hop, to be flooded again by another node.
    pub fn forwarded_anew(&self) -> Bytes {
        self.with_hops(u8::MAX, 1)
    }

    fn with_hops(&self, ttl: u8, hops: u8) -> Bytes {
        let mut out = self.bytes.to_vec();
        (out[8], out[9]) = (ttl, hops);
        out.into()
    }

    /// Whether the holder of a key signed the message.
    pub fn is_signed_by(&self, key: &PublicKey) -> bool {
        let Some(end) = self.bytes.len().checked_sub(SIGNATURE_BYTES) else { return false };
        let (message, signature) = self.bytes.split_at(end);
        let signature = signature.try_into().expect("split there");
        self.bytes[0] == SIGNED_TC && key.has_signed(&what_is_signed(message), signature)
    }
}

/// The bytes that are signed: a message without its signature, with TTL and hop count zero.
fn what_is_signed(message: &[u8]) -> Vec<u8> {
    let mut out = SIGNED_FOR.to_vec();
    out.extend_from_slice(message);
    let hops = SIGNED_FOR.len() + 8;
    out[hops..hops + 2].fill(0);
    out
}

impl Hello {
    fn encode(&self) -> Vec<u8> {
        let mut out = vec![0, 0, time_byte(self.interval), self.willingness];
        let mut sorted = self.neighbours.clone();
        sorted.sort_by_key(|(code, _)| *code);
        for group in sorted.chunk_by(|a, b| a.0 == b.0) {
            let length = (4 + group.len() * NEIGHBOUR_BYTES) as u16;
            out.extend_from_slice(&[group[0].0.byte(), 0]);
            out.extend_from_slice(&length.to_be_bytes());
            group.iter().for_each(|(_, neighbour)| neighbour.put(&mut out));
        }
        out
    }
}

impl Topology {
    fn encode(&self) -> Vec<u8> {
        let mut out = self.ansn.to_be_bytes().to_vec();
        out.extend_from_slice(&[self.reach, 0]);
        self.neighbours.iter().for_each(|neighbour| neighbour.put(&mut out));
        out.extend(self.counter.into_iter().flat_map(u64::to_be_bytes));
        out
    }
}

impl Neighbour {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.address.octets());
        out.extend_from_slice(&[self.lq, self.nlq, 0, 0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn neighbour(node: u8) -> Neighbour {
        Neighbour { address: Ipv4Addr::new(10, 66, 0, node), lq: 255, nlq: 128 }
    }

    fn message(body: Body) -> Message {
        let originator = Ipv4Addr::new(10, 66, 0, 1);
        let validity = Duration::from_secs(6);
        Message { validity, originator, ttl: 1, hops: 0, seq: 7, body, bytes: Bytes::new() }
    }

    fn read(bytes: Bytes) -> Message {
        let packet = packet(1, &[bytes]).into();
        decode(&packet).expect("a packet of ours").pop().expect("its message")
    }

    fn hello() -> Message {
        let interval = Duration::from_secs(2);
        let neighbours =
            vec![(LinkCode::Asymmetric, neighbour(3)), (LinkCode::Relay, neighbour(2))];
        message(Body::Hello(Hello { interval, willingness: 3, neighbours }))
    }

    fn topology(counter: Option<u64>) -> Message {
        let neighbours = vec![neighbour(2), neighbour(3)];
        message(Body::Topology(Topology { ansn: 5, reach: 8, neighbours, counter }))
    }

    #[test]
    fn a_hello_has_the_bytes_of_the_standard() {
        let packet = packet(9, &[hello().encode(None)]);
        #[rustfmt::skip]
        assert_eq!(packet, [
            0, 44, 0, 9,
            201, 0x86, 0, 40, 10, 66, 0, 1, 1, 0, 0, 7,
            0, 0, 0x05, 3,
            1, 0, 0, 12, 10, 66, 0, 3, 255, 128, 0, 0,
            10, 0, 0, 12, 10, 66, 0, 2, 255, 128, 0, 0,
        ]);
        let read = read(hello().encode(None));
        assert_eq!(Message { bytes: Bytes::new(), ..read }, hello());
    }

    #[test]
    fn times_of_one_byte_are_those_of_the_standard() {
        // RFC 3626, section 18.3, gives these for its own intervals.
        let seconds = |byte| time(byte).as_secs_f64();
        assert_eq!((seconds(0x05), seconds(0x86), seconds(0xe7)), (2.0, 6.0, 15.0));
        for byte in 0..=255 {
            assert_eq!(time(time_byte(time(byte))), time(byte));
        }
    }

    #[test]
    fn a_signature_survives_the_way_and_nothing_else() {
        let (signer, other) = (Identity::from_secret([1; 32]), Identity::from_secret([2; 32]));
        let sent = read(topology(Some(40)).encode(Some(&signer)));
        assert!(sent.is_signed_by(&signer.public()));
        assert!(!sent.is_signed_by(&other.public()));
        let later = read(sent.forwarded());
        assert_eq!((later.ttl, later.hops), (0, 1));
        assert!(later.is_signed_by(&signer.public()));
        for at in (0..sent.bytes.len()).filter(|at| ![2, 3, 8, 9].contains(at)) {
            let mut bytes = sent.bytes.to_vec();
            bytes[at] ^= 1;
            let packet = packet(1, &[bytes.into()]).into();
            for forged in decode(&packet).unwrap_or_default() {
                assert!(!forged.is_signed_by(&signer.public()), "byte {at}");
            }
        }
    }

    #[test]
    fn the_documented_message_is_made_again() {
        let document = include_str!("../../../docs/wire.md");
        let line = document.lines().find_map(|line| line.strip_prefix("topology = "));
        let Body::Topology(said) = topology(Some(40)).body else { unreachable!("it is one") };
        let neighbours = said.neighbours.iter().map(|at| Neighbour { lq: 255, nlq: 128, ..*at });
        let said = Topology { neighbours: neighbours.collect(), ..said };
        let validity = Duration::from_secs(15);
        let message = Message { validity, ttl: 255, ..message(Body::Topology(said)) };
        let bytes = message.encode(Some(&Identity::from_secret([1; 32])));
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(Some(&*hex), line);
    }

    #[test]
    fn a_message_without_a_signature_is_signed_by_nobody() {
        let key = Identity::from_secret([1; 32]).public();
        assert!(!read(topology(None).encode(None)).is_signed_by(&key));
        assert!(!read(hello().encode(None)).is_signed_by(&key));
    }

    #[test]
    fn packets_that_are_cut_or_lie_about_their_length_are_refused() {
        let whole: Bytes = packet(1, &[hello().encode(None), topology(None).encode(None)]).into();
        assert_eq!(decode(&whole).map(|messages| messages.len()), Ok(2));
        for length in 0..whole.len() {
            assert_eq!(decode(&whole.slice(..length)), Err(DecodeError::Length));
            let mut cut = whole[..length].to_vec();
            if length >= PACKET_HEADER {
                cut[..2].copy_from_slice(&(length as u16).to_be_bytes());
                let is_between = [PACKET_HEADER, PACKET_HEADER + 40].contains(&length);
                assert_eq!(decode(&cut.into()).is_ok(), is_between, "{length} bytes");
            }
        }
    }
}
