//! IEEE 802.11 data frames with LLC/SNAP, as farhop sends and accepts them (802.11-2007, 7.1 and
//! 7.2; RFC 1042).
//!
//! Ad-hoc form: ToDS and FromDS are zero, address 1 is the receiver, address 2 the transmitter,
//! address 3 a constant BSSID. A node's MAC address is derived from its number, so that no address
//! resolution is needed: `02:66:68:RR:NN:NN`, locally administered, with radio and node. Frames
//! without MAC acknowledgement are QoS data with the no-ack policy. The radio adds the check
//! sequence.

use bytes::Bytes;

use crate::base::phy::{DATA_HEADER_BYTES, LLC_SNAP_BYTES, QOS_CONTROL_BYTES};
use crate::base::{AccessCategory, AckPolicy, EtherType, NodeId, RadioId};

/// First bytes of all addresses: locally administered.
const PREFIX: [u8; 3] = [0x02, 0x66, 0x68];
/// Address 3 of all frames (BSSID).
const CELL: [u8; 6] = [0x02, 0x66, 0x68, 0xff, 0xff, 0xff];
const BROADCAST: [u8; 6] = [0xff; 6];
/// LLC/SNAP up to the EtherType (RFC 1042).
const SNAP: [u8; 6] = [0xaa, 0xaa, 0x03, 0, 0, 0];

const TYPE_DATA: u8 = 0x08;
const SUBTYPE_QOS: u8 = 0x80;
const FLAG_RETRY: u8 = 0x08;
const QOS_NO_ACK: u8 = 0x20;

/// An end of a frame: a node and one of its radios.
pub type Station = (NodeId, RadioId);

/// The fields of the MAC header of a data frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataHeader {
    /// Transmitter.
    pub from: Station,
    /// Receiver, or `None` for broadcast.
    pub to: Option<Station>,
    /// Whether a MAC acknowledgement is expected.
    pub ack: AckPolicy,
    /// Access category. A best-effort frame with acknowledgement does not carry it.
    pub access: AccessCategory,
    /// Sequence number, 12 bits.
    pub sequence: u16,
    /// Whether the frame is a retransmission.
    pub retry: bool,
    /// The Duration field, in microseconds.
    pub duration_us: u16,
    /// What the payload is.
    pub protocol: EtherType,
}

/// Why bytes are not a data frame of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DecodeError {
    /// Shorter than its headers.
    Truncated,
    /// Not a data frame of protocol version 0 between stations of a cell.
    NotData,
    /// A data frame of another network.
    Foreign,
    /// Encrypted by the MAC, fragmented, or without LLC/SNAP header.
    Unsupported,
}

/// The MAC address of a station.
pub fn address((node, radio): Station) -> [u8; 6] {
    let [high, low] = node.0.to_be_bytes();
    [PREFIX[0], PREFIX[1], PREFIX[2], radio.0, high, low]
}

/// The station that has a MAC address.
pub fn station(address: &[u8]) -> Option<Station> {
    match *address {
        [a, b, c, radio, high, low] if [a, b, c] == PREFIX && address != CELL => {
            Some((NodeId(u16::from_be_bytes([high, low])), RadioId(radio)))
        }
        _ => None,
    }
}

/// Appends a data frame, from the MAC header to the payload: QoS data if it has an access category
/// other than best effort or no acknowledgement, which only QoS data can express.
pub fn put_data(out: &mut Vec<u8>, header: &DataHeader, payload: &[u8]) {
    let is_qos = header.ack == AckPolicy::NoAck || header.access != AccessCategory::BestEffort;
    put(out, header, is_qos, payload);
}

/// Appends a QoS data frame, with acknowledgement or without.
pub fn put_qos_data(out: &mut Vec<u8>, header: &DataHeader, payload: &[u8]) {
    put(out, header, true, payload);
}

fn put(out: &mut Vec<u8>, header: &DataHeader, is_qos: bool, payload: &[u8]) {
    out.push(TYPE_DATA | if is_qos { SUBTYPE_QOS } else { 0 });
    out.push(if header.retry { FLAG_RETRY } else { 0 });
    out.extend_from_slice(&header.duration_us.to_le_bytes());
    out.extend_from_slice(&header.to.map_or(BROADCAST, address));
    out.extend_from_slice(&address(header.from));
    out.extend_from_slice(&CELL);
    out.extend_from_slice(&(header.sequence << 4).to_le_bytes());
    if is_qos {
        let policy = if header.ack == AckPolicy::NoAck { QOS_NO_ACK } else { 0 };
        out.extend_from_slice(&[policy | traffic_id(header.access), 0]);
    }
    out.extend_from_slice(&SNAP);
    out.extend_from_slice(&header.protocol.0.to_be_bytes());
    out.extend_from_slice(payload);
}

/// A control frame other than an acknowledgement (802.11-2012 8.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Announces data.
    Rts,
    /// Reserves the air for a station. It does not say who sends it.
    Cts,
    /// A frame has arrived. It does not say where.
    Ack,
    /// Which frames have arrived from a number on (compressed form).
    BlockAck {
        /// Access category of the frames.
        access: AccessCategory,
        /// Sequence number of the first frame in the map.
        start: u16,
        /// A bit for each frame, the first in the lowest bit.
        map: u64,
    },
    /// Requests a block acknowledgement from a number on.
    BlockAckRequest {
        /// Access category of the frames.
        access: AccessCategory,
        /// Sequence number of the first frame.
        start: u16,
    },
}

/// Appends a control frame without its check sequence.
pub fn put_control(
    out: &mut Vec<u8>,
    control: &Control,
    from: Station,
    to: Station,
    duration_us: u16,
) {
    /// Compressed map, and immediate acknowledgement.
    const COMPRESSED: u16 = 0x0004;
    let block = |access| COMPRESSED | u16::from(traffic_id(access)) << 12;
    let subtype = match control {
        Control::Rts => 0xb4,
        Control::Cts => 0xc4,
        Control::Ack => 0xd4,
        Control::BlockAck { .. } => 0x94,
        Control::BlockAckRequest { .. } => 0x84,
    };
    out.extend_from_slice(&[subtype, 0]);
    out.extend_from_slice(&duration_us.to_le_bytes());
    out.extend_from_slice(&address(to));
    if !matches!(control, Control::Cts | Control::Ack) {
        out.extend_from_slice(&address(from));
    }
    match *control {
        Control::Rts | Control::Cts | Control::Ack => {}
        Control::BlockAck { access, start, map } => {
            out.extend_from_slice(&block(access).to_le_bytes());
            out.extend_from_slice(&(start << 4).to_le_bytes());
            out.extend_from_slice(&map.to_le_bytes());
        }
        Control::BlockAckRequest { access, start } => {
            out.extend_from_slice(&block(access).to_le_bytes());
            out.extend_from_slice(&(start << 4).to_le_bytes());
        }
    }
}

/// Decodes a data frame; the payload shares the bytes of the frame.
pub fn decode(frame: &Bytes) -> Result<(DataHeader, Bytes), DecodeError> {
    let control = frame.get(..2).ok_or(DecodeError::Truncated)?;
    // Protocol version 0, type data, no null data, no ToDS or FromDS.
    if control[0] & 0x7f != TYPE_DATA || control[1] & 0x03 != 0 {
        return Err(DecodeError::NotData);
    }
    let is_qos = control[0] & SUBTYPE_QOS != 0;
    let mac = DATA_HEADER_BYTES + if is_qos { QOS_CONTROL_BYTES } else { 0 };
    if frame.len() < mac + LLC_SNAP_BYTES {
        return Err(DecodeError::Truncated);
    }
    let from = station(&frame[10..16]).ok_or(DecodeError::Foreign)?;
    let to = match &frame[4..10] {
        to if to == BROADCAST => None,
        to => Some(station(to).ok_or(DecodeError::Foreign)?),
    };
    let sequence = u16::from_le_bytes([frame[22], frame[23]]);
    let is_fragment = control[1] & 0x04 != 0 || sequence & 0x000f != 0;
    if is_fragment || control[1] & 0x40 != 0 || frame[mac..mac + 6] != SNAP {
        return Err(DecodeError::Unsupported);
    }
    let qos = if is_qos { frame[DATA_HEADER_BYTES] } else { 0 };
    let header = DataHeader {
        from,
        to,
        ack: if qos & 0x60 == QOS_NO_ACK { AckPolicy::NoAck } else { AckPolicy::Normal },
        access: access(qos & 0x07),
        sequence: sequence >> 4,
        retry: control[1] & FLAG_RETRY != 0,
        duration_us: u16::from_le_bytes([frame[2], frame[3]]),
        protocol: EtherType(u16::from_be_bytes([frame[mac + 6], frame[mac + 7]])),
    };
    Ok((header, frame.slice(mac + LLC_SNAP_BYTES..)))
}

/// The user priority used for an access category (802.11-2007, table 9-1).
const fn traffic_id(access: AccessCategory) -> u8 {
    match access {
        AccessCategory::Background => 1,
        AccessCategory::BestEffort => 0,
        AccessCategory::Video => 5,
        AccessCategory::Voice => 6,
    }
}

const fn access(traffic_id: u8) -> AccessCategory {
    match traffic_id {
        1 | 2 => AccessCategory::Background,
        4 | 5 => AccessCategory::Video,
        6 | 7 => AccessCategory::Voice,
        _ => AccessCategory::BestEffort,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: DataHeader = DataHeader {
        from: (NodeId(1), RadioId(0)),
        to: Some((NodeId(0x1234), RadioId(2))),
        ack: AckPolicy::NoAck,
        access: AccessCategory::Voice,
        sequence: 0xabc,
        retry: true,
        duration_us: 162,
        protocol: EtherType::IPV4,
    };

    /// QoS data from node 1 to radio 2 of node 0x1234, field by field after 802.11-2007, 7.2.2.
    const QOS_DATA: [u8; 36] = [
        0x88, 0x08, // QoS data, retry
        0xa2, 0x00, // duration 162 us
        0x02, 0x66, 0x68, 0x02, 0x12, 0x34, // receiver
        0x02, 0x66, 0x68, 0x00, 0x00, 0x01, // transmitter
        0x02, 0x66, 0x68, 0xff, 0xff, 0xff, // cell
        0xc0, 0xab, // sequence 0xabc, fragment 0
        0x26, 0x00, // user priority 6, no ack
        0xaa, 0xaa, 0x03, 0x00, 0x00, 0x00, 0x08, 0x00, // LLC/SNAP, IPv4
        0xde, 0xad,
    ];

    #[test]
    fn a_data_frame_has_the_bytes_of_the_standard() {
        let mut out = Vec::new();
        put_data(&mut out, &HEADER, &[0xde, 0xad]);
        assert_eq!(out, QOS_DATA);
        let (header, payload) = decode(&out.into()).expect("a frame of ours");
        assert_eq!((header, &payload[..]), (HEADER, &[0xde, 0xad][..]));
    }

    #[test]
    fn an_acknowledged_broadcast_comes_back_as_it_went() {
        let header = DataHeader {
            to: None,
            ack: AckPolicy::Normal,
            access: AccessCategory::BestEffort,
            ..HEADER
        };
        let mut out = Vec::new();
        put_data(&mut out, &header, b"x");
        assert_eq!(out.len(), 24 + 8 + 1);
        assert_eq!(decode(&out.into()).map(|(header, _)| header), Ok(header));
    }

    #[test]
    fn an_acknowledged_frame_keeps_its_access_category() {
        use AccessCategory::{Background, BestEffort, Video, Voice};
        for (access, qos_bytes) in [(BestEffort, 0), (Background, 2), (Video, 2), (Voice, 2)] {
            let header = DataHeader { ack: AckPolicy::Normal, access, ..HEADER };
            let mut out = Vec::new();
            put_data(&mut out, &header, b"x");
            assert_eq!(out.len(), 24 + qos_bytes + 8 + 1);
            assert_eq!(decode(&out.into()).map(|(header, _)| header), Ok(header));
        }
    }

    #[test]
    fn what_is_not_ours_is_told_apart() {
        let with = |at: usize, byte: u8| {
            let mut bytes = QOS_DATA;
            bytes[at] = byte;
            decode(&Bytes::copy_from_slice(&bytes)).expect_err("not a frame of ours")
        };
        assert_eq!(with(0, 0x80), DecodeError::NotData, "a beacon");
        assert_eq!(with(0, 0xc8), DecodeError::NotData, "QoS null");
        assert_eq!(with(1, 0x01), DecodeError::NotData, "to an access point");
        assert_eq!(with(1, 0x40), DecodeError::Unsupported, "encrypted by the MAC");
        assert_eq!(with(22, 0xc1), DecodeError::Unsupported, "a fragment");
        assert_eq!(with(12, 0x69), DecodeError::Foreign, "another transmitter");
        for length in 0..34 {
            let cut = Bytes::copy_from_slice(&QOS_DATA[..length]);
            assert_eq!(decode(&cut), Err(DecodeError::Truncated));
        }
    }
}
