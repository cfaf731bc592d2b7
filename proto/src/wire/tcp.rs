//! TCP segments in IPv4 packets: header, checksum and the options in use (RFC 9293, 3.1 and 3.2;
//! RFC 7323, 2 and 3; RFC 2018, 2 and 3).
//!
//! As in Linux, an option with an impossible length ends the parsing of options, and the segment is
//! still valid. Urgent data is not supported.

use std::net::SocketAddrV4;

use bytes::Bytes;

use super::ip;
use crate::base::Seq;

/// Length of a TCP header without options, in bytes.
pub const HEADER_BYTES: usize = 20;
/// Length of the timestamps option with its padding, in bytes.
pub const TIMESTAMPS_BYTES: usize = 12;
/// Most SACK blocks that one segment can carry.
pub const MAX_SACK_BLOCKS: usize = 4;
const MAX_HEADER_BYTES: usize = 60;

/// Control bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Self = Self(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// Reset the connection.
    pub const RST: Self = Self(0x04);
    /// Push.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgement number is valid.
    pub const ACK: Self = Self(0x10);
    /// Echo of a congestion mark (RFC 3168).
    pub const ECE: Self = Self(0x40);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Self = Self(0x80);

    /// Whether all bits of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// These bits and those of `other`.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The blocks of a SACK option: left edge, and the sequence number after the last byte received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks {
    blocks: [(Seq, Seq); MAX_SACK_BLOCKS],
    count: usize,
}

impl SackBlocks {
    /// Adds a block; ignored if there are four.
    pub fn push(&mut self, left: Seq, right: Seq) {
        if self.count < MAX_SACK_BLOCKS {
            self.blocks[self.count] = (left, right);
            self.count += 1;
        }
    }

    /// Bytes of the option, with its padding.
    pub fn option_bytes(&self) -> u32 {
        if self.count > 0 { 4 + 8 * self.count as u32 } else { 0 }
    }

    /// As many of the first blocks as fit into an option of `bytes`.
    pub fn within(mut self, bytes: u32) -> Self {
        self.count = self.count.min((bytes.saturating_sub(4) / 8) as usize);
        self
    }

    /// The blocks in the order of the option.
    pub fn as_slice(&self) -> &[(Seq, Seq)] {
        &self.blocks[..self.count]
    }
}

/// The options of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Maximum segment size that the sender accepts, without options.
    pub mss: Option<u16>,
    /// Window scale, at most 14.
    pub window_scale: Option<u8>,
    /// SACK is permitted.
    pub sack_permitted: bool,
    /// Timestamp value and echo reply.
    pub timestamps: Option<(u32, u32)>,
    /// SACK blocks.
    pub sack: SackBlocks,
}

/// A TCP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Source port.
    pub source: u16,
    /// Destination port.
    pub destination: u16,
    /// Sequence number of the first byte.
    pub seq: Seq,
    /// Next sequence number expected.
    pub ack: Seq,
    /// Control bits.
    pub flags: Flags,
    /// Window as in the header, not scaled.
    pub window: u16,
    /// Options.
    pub options: Options,
}

/// Why a packet is not a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Not a whole IPv4 packet with TCP.
    NotTcp,
    /// Shorter than its header says.
    Truncated,
    /// The checksum is wrong.
    Checksum,
}

impl Options {
    /// Length on the wire with padding, in bytes; a multiple of four.
    pub fn wire_bytes(&self) -> usize {
        let mut bytes = 0;
        bytes += if self.mss.is_some() { 4 } else { 0 };
        bytes += if self.window_scale.is_some() { 4 } else { 0 };
        bytes += if self.timestamps.is_some() { TIMESTAMPS_BYTES } else { 0 };
        // With timestamps, "SACK permitted" replaces their padding, as in Linux.
        bytes += if self.sack_permitted && self.timestamps.is_none() { 4 } else { 0 };
        bytes + self.sack.option_bytes() as usize
    }

    /// Writes the options in the order of Linux, and returns the length of the header with them.
    fn put(&self, out: &mut [u8; MAX_HEADER_BYTES]) -> usize {
        let mut at = HEADER_BYTES;
        let mut put = |bytes: &[u8]| {
            out[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        if let Some(mss) = self.mss {
            let [high, low] = mss.to_be_bytes();
            put(&[2, 4, high, low]);
        }
        match (self.sack_permitted, self.timestamps.is_some()) {
            (true, true) => put(&[4, 2]),
            (true, false) => put(&[1, 1, 4, 2]),
            (false, true) => put(&[1, 1]),
            (false, false) => {}
        }
        if let Some((value, echo)) = self.timestamps {
            put(&[8, 10]);
            put(&value.to_be_bytes());
            put(&echo.to_be_bytes());
        }
        if let Some(scale) = self.window_scale {
            put(&[1, 3, 3, scale]);
        }
        if self.sack.count > 0 {
            put(&[1, 1, 5, 2 + 8 * self.sack.count as u8]);
            for (left, right) in self.sack.as_slice() {
                put(&left.0.to_be_bytes());
                put(&right.0.to_be_bytes());
            }
        }
        at
    }

    fn read(mut bytes: &[u8]) -> Self {
        let mut options = Self::default();
        loop {
            match *bytes {
                [] | [0, ..] => return options,
                [1, ..] => bytes = &bytes[1..],
                [kind, length, ..] if length >= 2 && usize::from(length) <= bytes.len() => {
                    let (option, rest) = bytes.split_at(usize::from(length));
                    options.read_one(kind, &option[2..]);
                    bytes = rest;
                }
                _ => return options,
            }
        }
    }

    fn read_one(&mut self, kind: u8, body: &[u8]) {
        let word =
            |at: usize| u32::from_be_bytes([body[at], body[at + 1], body[at + 2], body[at + 3]]);
        match (kind, body.len()) {
            (2, 2) => self.mss = Some(u16::from_be_bytes([body[0], body[1]])),
            (3, 1) => self.window_scale = Some(body[0].min(14)),
            (4, 0) => self.sack_permitted = true,
            (8, 8) => self.timestamps = Some((word(0), word(4))),
            (5, length) if length % 8 == 0 => {
                for at in (0..length).step_by(8) {
                    self.sack.push(Seq(word(at)), Seq(word(at + 4)));
                }
            }
            _ => {}
        }
    }
}

/// Builds the IPv4 packet of one segment; `length` is the total length of all slices of `payload`.
///
/// Panics if the packet would be 64 KiB or longer.
pub fn encode<'a>(
    source: SocketAddrV4,
    destination: SocketAddrV4,
    header: &Header,
    payload: impl Iterator<Item = &'a [u8]>,
    length: usize,
) -> Bytes {
    let mut front = [0; MAX_HEADER_BYTES];
    let front_bytes = header.options.put(&mut front);
    front[0..2].copy_from_slice(&source.port().to_be_bytes());
    front[2..4].copy_from_slice(&destination.port().to_be_bytes());
    front[4..8].copy_from_slice(&header.seq.0.to_be_bytes());
    front[8..12].copy_from_slice(&header.ack.0.to_be_bytes());
    front[12] = (front_bytes as u8 / 4) << 4;
    front[13] = header.flags.0;
    front[14..16].copy_from_slice(&header.window.to_be_bytes());
    let body = front_bytes + length;
    let mut packet = Vec::with_capacity(ip::IPV4_HEADER_BYTES + body);
    let (from, to) = (*source.ip(), *destination.ip());
    ip::put_ipv4(&mut packet, from, to, ip::TCP, body);
    packet.extend_from_slice(&front[..front_bytes]);
    payload.for_each(|slice| packet.extend_from_slice(slice));
    assert_eq!(packet.len(), ip::IPV4_HEADER_BYTES + body, "the payload is as long as said");
    let pseudo = ip::pseudo_header(from, to, ip::TCP, body);
    let sum = ip::checksum(pseudo, &packet[ip::IPV4_HEADER_BYTES..]);
    packet[ip::IPV4_HEADER_BYTES + 16..ip::IPV4_HEADER_BYTES + 18]
        .copy_from_slice(&sum.to_be_bytes());
    packet.into()
}

/// Decodes an IPv4 packet with a TCP segment: its header, and the range of the payload in the
/// packet.
///
/// # Errors
///
/// What is wrong with the packet.
pub fn decode(packet: &[u8]) -> Result<(Header, std::ops::Range<usize>), Malformed> {
    let Some((ip::TCP, segment)) = ip::payload(packet) else {
        return Err(Malformed::NotTcp);
    };
    let (Some(std::net::IpAddr::V4(source)), Some(std::net::IpAddr::V4(destination))) =
        (ip::source(packet), ip::destination(packet))
    else {
        return Err(Malformed::NotTcp);
    };
    if segment.len() < HEADER_BYTES {
        return Err(Malformed::Truncated);
    }
    let front = usize::from(segment[12] >> 4) * 4;
    if front < HEADER_BYTES || front > segment.len() {
        return Err(Malformed::Truncated);
    }
    let pseudo = ip::pseudo_header(source, destination, ip::TCP, segment.len());
    if ip::checksum(pseudo, segment) != 0 {
        return Err(Malformed::Checksum);
    }
    let short = |at: usize| u16::from_be_bytes([segment[at], segment[at + 1]]);
    let long = |at: usize| (u32::from(short(at)) << 16) | u32::from(short(at + 2));
    let header = Header {
        source: short(0),
        destination: short(2),
        seq: Seq(long(4)),
        ack: Seq(long(8)),
        flags: Flags(segment[13]),
        window: short(14),
        options: Options::read(&segment[HEADER_BYTES..front]),
    };
    let start = usize::from(packet[0] & 0x0f) * 4;
    Ok((header, start + front..start + segment.len()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A SYN of Linux 6.18 from 127.0.0.1:39964 to 127.0.0.1:7777 (MSS, SACK permitted,
    /// timestamps, window scale), caught on the loopback interface. The kernel leaves the TCP
    /// checksum to the device there: these are its bytes with that sum filled in.
    const LINUX_SYN: [u8; 60] = [
        0x45, 0x00, 0x00, 0x3c, 0xae, 0x5f, 0x40, 0x00, 0x40, 0x06, 0x8e, 0x5a, 0x7f, 0x00, 0x00,
        0x01, 0x7f, 0x00, 0x00, 0x01, 0x9c, 0x1c, 0x1e, 0x61, 0x0c, 0x03, 0x3d, 0x9e, 0x00, 0x00,
        0x00, 0x00, 0xa0, 0x02, 0xff, 0xd7, 0x19, 0x4f, 0x00, 0x00, 0x02, 0x04, 0xff, 0xd7, 0x04,
        0x02, 0x08, 0x0a, 0xa6, 0x73, 0x8c, 0x1d, 0x00, 0x00, 0x00, 0x00, 0x01, 0x03, 0x03, 0x0a,
    ];

    fn linux_header() -> Header {
        Header {
            source: 39_964,
            destination: 7_777,
            seq: Seq(0x0c03_3d9e),
            ack: Seq(0),
            flags: Flags::SYN,
            window: 65_495,
            options: Options {
                mss: Some(65_495),
                window_scale: Some(10),
                sack_permitted: true,
                timestamps: Some((0xa673_8c1d, 0)),
                sack: SackBlocks::default(),
            },
        }
    }

    #[test]
    fn a_syn_of_linux_is_read() {
        let (header, payload) = decode(&LINUX_SYN).expect("a whole segment");
        assert_eq!(header, linux_header());
        assert!(payload.is_empty());
    }

    #[test]
    fn our_syn_has_the_bytes_of_linux() {
        let source = "127.0.0.1:39964".parse().expect("an address");
        let destination = "127.0.0.1:7777".parse().expect("an address");
        let packet = encode(source, destination, &linux_header(), std::iter::empty(), 0);
        // All but the identification of the IP header and its checksum.
        assert_eq!(packet[..4], LINUX_SYN[..4]);
        assert_eq!(packet[6..10], LINUX_SYN[6..10]);
        assert_eq!(packet[12..], LINUX_SYN[12..]);
    }

    #[test]
    fn a_changed_bit_is_found() {
        for at in 20..60 {
            let mut packet = LINUX_SYN;
            packet[at] ^= 1;
            assert!(decode(&packet).is_err(), "byte {at}");
        }
    }

    #[test]
    fn segments_cut_short_are_refused() {
        for length in 0..60 {
            assert!(decode(&LINUX_SYN[..length]).is_err());
        }
    }

    /// Puts `options` behind a bare ACK, with a right checksum.
    fn with_options(options: &[u8], payload: &[u8]) -> Vec<u8> {
        let mut packet = LINUX_SYN[..40].to_vec();
        packet.extend_from_slice(options);
        packet.extend_from_slice(payload);
        let length = packet.len() as u16;
        packet[2..4].copy_from_slice(&length.to_be_bytes());
        packet[32] = ((HEADER_BYTES + options.len()) as u8 / 4) << 4;
        packet[36..38].fill(0);
        let (from, to) = ([127, 0, 0, 1].into(), [127, 0, 0, 1].into());
        let pseudo = ip::pseudo_header(from, to, ip::TCP, packet.len() - 20);
        let sum = ip::checksum(pseudo, &packet[20..]);
        packet[36..38].copy_from_slice(&sum.to_be_bytes());
        packet
    }

    proptest! {
        #[test]
        fn any_options_are_read_without_panic(
            words in proptest::collection::vec(any::<[u8; 4]>(), 0..=10),
            payload in proptest::collection::vec(any::<u8>(), 0..30),
        ) {
            let packet = with_options(&words.concat(), &payload);
            let (header, range) = decode(&packet).expect("the checksum is right");
            prop_assert!(header.options.sack.as_slice().len() <= MAX_SACK_BLOCKS);
            prop_assert_eq!(&packet[range], &payload[..]);
        }

        #[test]
        fn any_bytes_are_read_without_panic(
            packet in proptest::collection::vec(any::<u8>(), 0..90),
        ) {
            let _ = decode(&packet);
        }

        #[test]
        fn segments_read_back(
            seq in any::<u32>(), ack in any::<u32>(), window in any::<u16>(),
            stamps in any::<Option<(u32, u32)>>(),
            blocks in proptest::collection::vec(any::<(u32, u32)>(), 0..=3),
            payload in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            let mut options = Options { timestamps: stamps, ..Options::default() };
            blocks.iter().for_each(|(l, r)| options.sack.push(Seq(*l), Seq(*r)));
            let header = Header {
                source: 1, destination: 2, seq: Seq(seq), ack: Seq(ack), flags: Flags::ACK, window,
                options,
            };
            let source = "10.66.0.1:1".parse().expect("an address");
            let destination = "10.66.0.2:2".parse().expect("an address");
            let slices = payload.chunks(7);
            let packet = encode(source, destination, &header, slices, payload.len());
            let (read, range) = decode(&packet).expect("whole");
            prop_assert_eq!(read, header);
            prop_assert_eq!(packet.len(), 40 + options.wire_bytes() + payload.len());
            prop_assert_eq!(&packet[range], &payload[..]);
        }
    }
}
