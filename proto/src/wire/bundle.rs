//! Several packets as the body of one, whose EtherType is then [`EtherType::FARHOP`]: of each its
//! EtherType (2), its length (2) and itself, in network byte order.

use bytes::Bytes;

use crate::base::EtherType;

/// Length of what goes before each packet of a bundle, in bytes.
pub const HEAD_BYTES: usize = 4;
/// Bytes of a bundle of packets.
pub fn bytes(packets: &[(EtherType, Bytes)]) -> usize {
    packets.iter().map(|(_, packet)| HEAD_BYTES + packet.len()).sum()
}

/// Several packets as the body of one, whose EtherType is then [`EtherType::FARHOP`]: of each its
/// EtherType (2), its length (2) and itself.
///
/// Panics if one is longer than 64 KiB.
pub fn encode(packets: &[(EtherType, Bytes)]) -> Bytes {
    let mut out = Vec::with_capacity(bytes(packets));
    for (protocol, packet) in packets {
        let length = u16::try_from(packet.len()).expect("a packet that a frame has place for");
        out.extend_from_slice(&protocol.0.to_be_bytes());
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(packet);
    }
    out.into()
}

/// The packets of a bundle; `None` if one is cut off, or is a bundle itself.
pub fn decode(bundle: &Bytes) -> Option<Vec<(EtherType, Bytes)>> {
    let mut rest = bundle.clone();
    let mut packets = Vec::new();
    while !rest.is_empty() {
        let head: [u8; HEAD_BYTES] = *rest.first_chunk()?;
        let _ = rest.split_to(HEAD_BYTES);
        let protocol = EtherType(u16::from_be_bytes([head[0], head[1]]));
        let length = usize::from(u16::from_be_bytes([head[2], head[3]]));
        if protocol == EtherType::FARHOP || length > rest.len() {
            return None;
        }
        packets.push((protocol, rest.split_to(length)));
    }
    Some(packets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_comes_apart_as_it_was_and_a_cut_one_not_at_all() {
        let packet = |text: &'static [u8]| (EtherType::IPV4, Bytes::from_static(text));
        let packets = vec![packet(b"data"), (EtherType::IPV6, Bytes::from_static(b"an ack"))];
        let whole = encode(&packets);
        assert_eq!(whole[..6], [0x08, 0x00, 0, 4, b'd', b'a']);
        assert_eq!(whole.len(), bytes(&packets));
        assert_eq!(decode(&whole), Some(packets));
        for length in 1..whole.len() {
            let is_whole = length == 8;
            assert_eq!(decode(&whole.slice(..length)).is_some(), is_whole, "{length} bytes");
        }
        assert_eq!(decode(&encode(&[(EtherType::FARHOP, whole)])), None);
    }
}
