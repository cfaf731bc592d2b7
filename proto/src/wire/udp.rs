//! UDP datagrams in IPv4 packets (RFC 768).

use std::net::SocketAddrV4;
use std::ops::Range;

use bytes::Bytes;

use super::ip;

/// Length of a UDP header, in bytes.
pub const HEADER_BYTES: usize = 8;

/// Ports of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Source port.
    pub source: u16,
    /// Destination port.
    pub destination: u16,
}

/// Why a packet is not a UDP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Not a whole IPv4 packet with UDP.
    NotUdp,
    /// Its length field is impossible.
    Truncated,
    /// The checksum is wrong.
    Checksum,
}

/// Builds the IPv4 packet of one datagram, with `front` and then `rest` as payload.
///
/// Panics if the packet would be 64 KiB or longer.
pub fn encode(source: SocketAddrV4, destination: SocketAddrV4, front: &[u8], rest: &[u8]) -> Bytes {
    let body = HEADER_BYTES + front.len() + rest.len();
    let (from, to) = (*source.ip(), *destination.ip());
    let mut packet = Vec::with_capacity(ip::IPV4_HEADER_BYTES + body);
    ip::put_ipv4(&mut packet, from, to, ip::UDP, body);
    packet.extend_from_slice(&source.port().to_be_bytes());
    packet.extend_from_slice(&destination.port().to_be_bytes());
    packet.extend_from_slice(&(body as u16).to_be_bytes());
    packet.extend_from_slice(&[0, 0]);
    packet.extend_from_slice(front);
    packet.extend_from_slice(rest);
    let pseudo = ip::pseudo_header(from, to, ip::UDP, body);
    // A checksum of zero means "none", so a sum of zero is sent in its other form.
    let sum = match ip::checksum(pseudo, &packet[ip::IPV4_HEADER_BYTES..]) {
        0 => 0xffff,
        sum => sum,
    };
    packet[ip::IPV4_HEADER_BYTES + 6..ip::IPV4_HEADER_BYTES + 8]
        .copy_from_slice(&sum.to_be_bytes());
    packet.into()
}

/// The ports of an IPv4 packet with a UDP datagram, even if the rest of it is wrong.
pub fn header(packet: &[u8]) -> Option<Header> {
    let (protocol, datagram) = ip::payload(packet)?;
    let is_udp = packet[0] >> 4 == 4 && protocol == ip::UDP && datagram.len() >= HEADER_BYTES;
    let short = |at: usize| u16::from_be_bytes([datagram[at], datagram[at + 1]]);
    is_udp.then(|| Header { source: short(0), destination: short(2) })
}

/// Decodes an IPv4 packet with a UDP datagram: its header, and the range of the payload in the
/// packet.
///
/// # Errors
///
/// What is wrong with the packet.
pub fn decode(packet: &[u8]) -> Result<(Header, Range<usize>), Malformed> {
    let Some((ip::UDP, datagram)) = ip::payload(packet) else {
        return Err(Malformed::NotUdp);
    };
    let (Some(std::net::IpAddr::V4(source)), Some(std::net::IpAddr::V4(destination))) =
        (ip::source(packet), ip::destination(packet))
    else {
        return Err(Malformed::NotUdp);
    };
    if datagram.len() < HEADER_BYTES {
        return Err(Malformed::Truncated);
    }
    let short = |at: usize| u16::from_be_bytes([datagram[at], datagram[at + 1]]);
    let length = usize::from(short(4));
    if length < HEADER_BYTES || length > datagram.len() {
        return Err(Malformed::Truncated);
    }
    let pseudo = ip::pseudo_header(source, destination, ip::UDP, length);
    if short(6) != 0 && ip::checksum(pseudo, &datagram[..length]) != 0 {
        return Err(Malformed::Checksum);
    }
    let start = usize::from(packet[0] & 0x0f) * 4;
    let header = Header { source: short(0), destination: short(2) };
    Ok((header, start + HEADER_BYTES..start + length))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A datagram "hi\n" from 127.0.0.1:40000 to 127.0.0.1:9, laid out by hand after RFC 768.
    #[test]
    fn a_datagram_reads_back_and_its_checksum_is_kept() {
        let source = "127.0.0.1:40000".parse().expect("an address");
        let destination = "127.0.0.1:9".parse().expect("an address");
        let packet = encode(source, destination, b"hi", b"\n");
        assert_eq!(&packet[20..26], &[0x9c, 0x40, 0x00, 0x09, 0x00, 0x0b]);
        // 0x9c40 + 9 + 11 + 0x6869 + 0x0a00 + 2 * (0x7f00 + 1) + 17 + 11, carries folded.
        assert_eq!(&packet[26..28], &[0xf3, 0x22]);
        let (header, range) = decode(&packet).expect("whole");
        assert_eq!(header, Header { source: 40_000, destination: 9 });
        assert_eq!(&packet[range], b"hi\n");
        let mut broken = packet.to_vec();
        broken[29] ^= 0x10;
        assert_eq!(decode(&broken), Err(Malformed::Checksum));
        for length in 0..packet.len() {
            assert!(decode(&packet[..length]).is_err());
        }
    }
}
