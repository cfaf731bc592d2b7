//! The parts of IPv4 and IPv6 that forwarding needs (RFC 791, RFC 8200), and writing headers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::Bytes;

use crate::base::{AccessCategory, FlowId};

/// Hop limit of our packets (RFC 1700).
pub const HOPS: u8 = 64;
/// Length of an IPv4 header without options, in bytes.
pub const IPV4_HEADER_BYTES: usize = 20;
/// Length of an IPv6 header, in bytes.
pub const IPV6_HEADER_BYTES: usize = 40;
/// IP protocol number of TCP.
pub const TCP: u8 = 6;
/// IP protocol number of UDP.
pub const UDP: u8 = 17;

/// The destination address of a packet; `None` if the IP header is incomplete.
pub fn destination(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 if packet.len() >= IPV4_HEADER_BYTES => Some(ipv4_at(packet, 16).into()),
        6 if packet.len() >= IPV6_HEADER_BYTES => Some(ipv6_at(packet, 24).into()),
        _ => None,
    }
}

/// The source address of a packet; `None` if the IP header is incomplete.
pub fn source(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 if packet.len() >= IPV4_HEADER_BYTES => Some(ipv4_at(packet, 12).into()),
        6 if packet.len() >= IPV6_HEADER_BYTES => Some(ipv6_at(packet, 8).into()),
        _ => None,
    }
}

fn ipv4_at(packet: &[u8], at: usize) -> Ipv4Addr {
    let octets: [u8; 4] = packet[at..at + 4].try_into().expect("four bytes");
    octets.into()
}

fn ipv6_at(packet: &[u8], at: usize) -> Ipv6Addr {
    let octets: [u8; 16] = packet[at..at + 16].try_into().expect("sixteen bytes");
    octets.into()
}

/// Protocol and payload of a packet; `None` if it is cut short, or an IPv4 fragment other than the
/// first. IPv6 extension headers are not skipped: the protocol is that of the first one.
pub fn payload(packet: &[u8]) -> Option<(u8, &[u8])> {
    match packet.first()? >> 4 {
        4 if packet.len() >= IPV4_HEADER_BYTES => {
            let header = usize::from(packet[0] & 0x0f) * 4;
            let total = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
            let fragment = u16::from_be_bytes([packet[6], packet[7]]) & 0x1fff;
            if header < IPV4_HEADER_BYTES || fragment != 0 {
                return None;
            }
            Some((packet[9], packet.get(header..total)?))
        }
        6 if packet.len() >= IPV6_HEADER_BYTES => {
            let length = usize::from(u16::from_be_bytes([packet[4], packet[5]]));
            Some((packet[6], packet.get(IPV6_HEADER_BYTES..IPV6_HEADER_BYTES + length)?))
        }
        _ => None,
    }
}

/// Whether a packet is a TCP segment.
pub fn is_tcp(packet: &[u8]) -> bool {
    payload(packet).is_some_and(|(protocol, _)| protocol == TCP)
}

/// Whether a packet is a pure TCP acknowledgement: no data, no SYN, FIN or RST.
pub fn is_bare_ack(packet: &[u8]) -> bool {
    let Some((TCP, segment)) = payload(packet) else { return false };
    let header = segment.get(12).map_or(0, |byte| usize::from(byte >> 4) * 4);
    let flags = segment.get(13).map_or(0, |byte| byte & 0x3f);
    segment.len() == header && flags == 0x10
}

/// The ECN field of an IP header (RFC 3168, 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotEct,
    /// ECN-capable, codepoint 1.
    Ect1,
    /// ECN-capable, codepoint 0.
    Ect0,
    /// Congestion experienced.
    Ce,
}

/// The ECN field of a packet; [`Ecn::NotEct`] if it is not IP.
pub fn ecn(packet: &[u8]) -> Ecn {
    let bits = match packet {
        [first, second, ..] if first >> 4 == 4 => second & 3,
        [first, second, ..] if first >> 4 == 6 => (second >> 4) & 3,
        _ => 0,
    };
    match bits {
        0 => Ecn::NotEct,
        1 => Ecn::Ect1,
        2 => Ecn::Ect0,
        _ => Ecn::Ce,
    }
}

/// The differentiated services code point of a packet (RFC 2474, 3); `None` if it is not IP.
pub fn dscp(packet: &[u8]) -> Option<u8> {
    match packet {
        [first, second, ..] if first >> 4 == 4 => Some(second >> 2),
        [first, second, ..] if first >> 4 == 6 => Some((first & 0x0f) << 2 | second >> 6),
        _ => None,
    }
}

/// Whether a packet belongs to a call: its DSCP asks for the access category of voice.
pub fn is_of_call(packet: &[u8]) -> bool {
    dscp(packet).map(AccessCategory::of_dscp) == Some(AccessCategory::Voice)
}

/// Source and destination port of TCP or UDP; `None` if the packet has none.
pub fn ports(packet: &[u8]) -> Option<[u16; 2]> {
    match payload(packet)? {
        (TCP | UDP, [a, b, c, d, ..]) => {
            Some([u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])])
        }
        _ => None,
    }
}

/// The packet with another ECN field and a correct header checksum; copied only if it is shared. A
/// packet without a complete IP header is returned unchanged.
pub fn with_ecn(packet: Bytes, ecn: Ecn) -> Bytes {
    let bits = match ecn {
        Ecn::NotEct => 0,
        Ecn::Ect1 => 1,
        Ecn::Ect0 => 2,
        Ecn::Ce => 3,
    };
    with_class(packet, 0x03, bits)
}

/// The packet with another DSCP, whose lower six bits count; otherwise as [`with_ecn`].
pub fn with_dscp(packet: Bytes, dscp: u8) -> Bytes {
    with_class(packet, 0xfc, dscp << 2)
}

/// The packet with the bits of `mask` in its TOS field or traffic class replaced by `bits`.
fn with_class(packet: Bytes, mask: u8, bits: u8) -> Bytes {
    let mut packet = Vec::from(packet);
    match packet.first().map(|first| first >> 4) {
        Some(4) if packet.len() >= IPV4_HEADER_BYTES => {
            let (old, new) = (packet[1], (packet[1] & !mask) | bits);
            packet[1] = new;
            // RFC 1624, 3: HC' = ~(~HC + ~m + m'), in ones' complement.
            let sum = u32::from(!u16::from_be_bytes([packet[10], packet[11]]));
            let sum = sum + (0xffff - u32::from(old)) + u32::from(new);
            packet[10..12].copy_from_slice(&(!folded(u64::from(sum))).to_be_bytes());
        }
        Some(6) if packet.len() >= IPV6_HEADER_BYTES => {
            // The traffic class spans two bytes.
            packet[0] = (packet[0] & !(mask >> 4)) | (bits >> 4);
            packet[1] = (packet[1] & !(mask << 4)) | (bits << 4);
        }
        _ => {}
    }
    packet.into()
}

/// The flow of a packet: a hash of protocol, addresses and ports, never 0 or [`FlowId::CONTROL`]. 0
/// if the packet is not IP.
pub fn flow(packet: &[u8]) -> FlowId {
    const START: u32 = 0x811c_9dc5;
    let hash = match packet.first().map(|first| first >> 4) {
        Some(4) if packet.len() >= IPV4_HEADER_BYTES => fnv(START, &packet[12..20]),
        Some(6) if packet.len() >= IPV6_HEADER_BYTES => fnv(START, &packet[8..40]),
        _ => return FlowId(0),
    };
    let hash = match payload(packet) {
        Some((protocol @ (TCP | UDP), body)) if body.len() >= 4 => {
            fnv(fnv(hash, &body[..4]), &[protocol])
        }
        Some((protocol, _)) => fnv(hash, &[protocol]),
        None => fnv(hash, &[0]),
    };
    FlowId((((hash >> 16) ^ hash) as u16).clamp(1, FlowId::CONTROL.0 - 1))
}

/// Continues an FNV-1a hash.
#[inline]
fn fnv(hash: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// The packet for the next hop, with its hop limit decremented; `None` if that is used up. Copied
/// only if it is shared.
pub fn forwarded(packet: Bytes) -> Option<Bytes> {
    let is_ipv4 = match packet.first()? >> 4 {
        4 if packet.len() >= IPV4_HEADER_BYTES => true,
        6 if packet.len() >= IPV6_HEADER_BYTES => false,
        _ => return None,
    };
    let place = if is_ipv4 { 8 } else { 7 };
    if packet[place] <= 1 {
        return None;
    }
    let mut packet = Vec::from(packet);
    packet[place] -= 1;
    if is_ipv4 {
        // RFC 1624: the checksum grows by as much as the word it covers shrinks, and is never
        // 0xffff.
        let sum = u32::from(u16::from_be_bytes([packet[10], packet[11]])) + 0x0100;
        let sum = sum + u32::from(sum >= 0xffff);
        packet[10..12].copy_from_slice(&(sum as u16).to_be_bytes());
    }
    Some(packet.into())
}

/// Writes an IPv4 header with its checksum for a body of `body` bytes.
pub fn put_ipv4(out: &mut Vec<u8>, src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, body: usize) {
    let total = u16::try_from(IPV4_HEADER_BYTES + body).expect("an IPv4 packet below 64 KiB");
    let at = out.len();
    out.extend_from_slice(&[0x45, 0]);
    out.extend_from_slice(&total.to_be_bytes());
    out.extend_from_slice(&[0, 0, 0x40, 0, HOPS, protocol, 0, 0]);
    out.extend_from_slice(&src.octets());
    out.extend_from_slice(&dst.octets());
    let sum = checksum(0, &out[at..]);
    out[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
}

/// The Internet checksum (RFC 1071) of `bytes`, starting from the sum `initial`.
///
/// It adds words of 32 bits in little-endian order and swaps the bytes at the end (RFC 1071, 2
/// (B)): a full segment costs well under 0.1 us.
pub fn checksum(initial: u32, bytes: &[u8]) -> u16 {
    let mut sum = 0_u64;
    let mut words = bytes.chunks_exact(4);
    for word in &mut words {
        sum += u64::from(u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    }
    let mut last = [0; 4];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    sum += u64::from(u32::from_le_bytes(last));
    let sum = u64::from(folded(sum).swap_bytes()) + u64::from(initial);
    !folded(sum)
}

fn folded(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The sum of the IPv4 pseudo-header, from which a TCP or UDP checksum starts.
pub fn pseudo_header(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, length: usize) -> u32 {
    let half = |addr: Ipv4Addr| (addr.to_bits() >> 16) + (addr.to_bits() & 0xffff);
    half(src) + half(dst) + u32::from(protocol) + length as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ICMP echo request from 10.66.0.1 to 10.66.0.2 as the Linux kernel sent it.
    const PING: [u8; 28] = [
        0x45, 0x00, 0x00, 0x1c, 0x1c, 0x46, 0x40, 0x00, 0x40, 0x01, 0x0a, 0x13, 0x0a, 0x42, 0x00,
        0x01, 0x0a, 0x42, 0x00, 0x02, 0x08, 0x00, 0xf7, 0xff, 0x00, 0x00, 0x00, 0x00,
    ];

    #[test]
    fn forwarding_keeps_the_header_checksum_right() {
        let mut packet = PING.to_vec();
        packet[10..12].fill(0);
        let sum = checksum(0, &packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        let next = forwarded(packet.into()).expect("hops left");
        assert_eq!(next[8], 63);
        assert_eq!(checksum(0, &next[..20]), 0);
    }

    #[test]
    fn the_ecn_field_is_changed_and_nothing_else() {
        let mut sound = PING.to_vec();
        sound[10..12].fill(0);
        let sum = checksum(0, &sound[..20]);
        sound[10..12].copy_from_slice(&sum.to_be_bytes());
        for tos in 0..=255_u8 {
            let mut packet = sound.clone();
            packet[1] = tos;
            packet[10..12].fill(0);
            let sum = checksum(0, &packet[..20]);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
            let marked = with_ecn(packet.clone().into(), Ecn::Ce);
            assert_eq!((ecn(&marked), marked[1]), (Ecn::Ce, tos | 3));
            assert_eq!(checksum(0, &marked[..20]), 0);
            assert_eq!(marked[2..10], packet[2..10]);
            assert_eq!(marked[12..], packet[12..]);
        }
        let mut six = [0; 40];
        six[..2].copy_from_slice(&[0x6a, 0x5c]);
        assert_eq!(ecn(&six), Ecn::Ect1);
        let marked = with_ecn(Bytes::copy_from_slice(&six), Ecn::Ce);
        assert_eq!((ecn(&marked), marked[1]), (Ecn::Ce, 0x7c));
        assert_eq!(with_ecn(Bytes::from_static(b"E"), Ecn::Ce), &b"E"[..]);
    }

    #[test]
    fn the_code_point_is_changed_and_nothing_else() {
        let mut packet = Vec::new();
        let (src, dst) = (Ipv4Addr::new(10, 66, 0, 1), Ipv4Addr::new(10, 66, 0, 2));
        put_ipv4(&mut packet, src, dst, UDP, 0);
        let packet = with_ecn(packet.into(), Ecn::Ect0);
        for code in 0..64 {
            let marked = with_dscp(packet.clone(), code);
            assert_eq!((dscp(&marked), ecn(&marked)), (Some(code), Ecn::Ect0));
            assert_eq!(checksum(0, &marked[..20]), 0);
            assert_eq!((&marked[2..10], &marked[12..]), (&packet[2..10], &packet[12..]));
        }
        let mut six = [0; 40];
        six[..2].copy_from_slice(&[0x65, 0x5c]);
        let marked = with_dscp(Bytes::copy_from_slice(&six), 46);
        assert_eq!((dscp(&marked), ecn(&marked)), (Some(46), Ecn::Ect1));
        assert_eq!(marked[..2], [0x6b, 0x9c]);
    }

    #[test]
    fn the_last_hop_is_not_forwarded() {
        let mut packet = PING.to_vec();
        packet[8] = 1;
        assert_eq!(forwarded(packet.into()), None);
    }

    #[test]
    fn flows_differ_by_port_and_are_never_zero() {
        let mut packet = Vec::new();
        let (src, dst) = (Ipv4Addr::new(10, 66, 0, 1), Ipv4Addr::new(10, 66, 0, 2));
        put_ipv4(&mut packet, src, dst, UDP, 8);
        packet.extend_from_slice(&[0, 1, 0, 2, 0, 8, 0, 0]);
        let first = flow(&packet);
        packet[21] = 9;
        assert_ne!(first, flow(&packet));
        assert_ne!(first, FlowId(0));
        assert_eq!(flow(&[0; 40]), FlowId(0));
        assert_eq!(checksum(0, &packet[..20]), 0);
        assert_eq!(payload(&packet), Some((UDP, &packet[20..])));
        assert_eq!(ports(&packet), Some([9, 2]));
        assert_eq!(ports(&PING), None);
    }

    #[test]
    fn the_code_point_stands_above_the_ecn_field_in_both_versions() {
        let mut packet = PING;
        packet[1] = 46 << 2 | 3;
        assert_eq!(dscp(&packet), Some(46));
        // Version 6, traffic class 0xb9: it lies across two bytes.
        assert_eq!(dscp(&[0x6b, 0x90, 0, 0]), Some(46));
        assert_eq!(dscp(&[0x00, 0xb8]), None);
    }

    #[test]
    fn headers_cut_short_are_refused() {
        for length in 0..20 {
            assert_eq!(destination(&PING[..length]), None);
            assert_eq!(payload(&PING[..length]), None);
        }
        assert_eq!(payload(&PING[..27]), None);
    }
}
