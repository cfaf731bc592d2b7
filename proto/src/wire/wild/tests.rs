//! Golden frames in both directions, and bytes that are not frames.

use super::*;
use proptest::prelude::*;

fn header() -> Header {
    Header {
        kind: Kind::Data,
        flags: flag::FIRST_IN_SLOT | flag::IN_ORDER,
        flow: FlowId(0x1234),
        seq: Seq(0x0a0b_0c0d),
        flow_seq: 0x5678,
        attempt: 2,
        slot: 0x9abc,
        delta_us: 0x01_e240,
        incarnation: 0x77,
        coded: Some(Coded { block: 0x4321, index: 3, k: 10 }),
        base_offset: 5,
        protocol: EtherType::IPV4,
        cluster: 0x2a,
        length: FULL_LENGTH,
        demand: 9,
    }
}

fn ack() -> BulkAck {
    let bits = Bytes::from_static(&[0b1000_0001, 0b0000_0010]);
    BulkAck { cum: Seq(7), nbits: 10, bits, slot: 3, received: 13 }
}

#[test]
fn a_frame_has_these_bytes() {
    let frame = encode(&header(), &ack().encode(), b"ip");
    assert_eq!(frame.len(), HEADER_BYTES + 12 + 2);
    let golden: [u8; 45] = [
        0x21, 0x07, 0x12, 0x34, 0x0a, 0x0b, 0x0c, 0x0d, 0x56, 0x78, 2, 12, 0x9a, 0xbc, //
        0xcc, 0x31, 0x01, 0xe2, 0x40, 0x77, 0x43, 0x21, 3, 10, 0, 5, 0x08, 0x00, 0x2a, 64, //
        9,  //
        0, 0, 0, 7, 0, 10, 0x81, 0x02, 0, 3, 0, 13, b'i', b'p',
    ];
    assert_eq!(frame[..], golden);
    let back = decode(&frame).expect("a whole frame");
    let expected = Header { flags: header().flags | flag::HAS_ACK, ..header() };
    assert_eq!(back.header, expected);
    assert_eq!(back.header.base(), Seq(0x0a0b_0c08));
    assert_eq!(back.ack, Some(ack()));
    assert_eq!(back.body[..], *b"ip");
}

#[test]
fn turns_have_these_bytes() {
    let turn = |node, from, length| TurnEntry { node, from, length };
    let turns = Turns { cycles: 4, turns: vec![turn(7, 0, 0x4000), turn(0xffff, 0x4000, 0x100)] };
    let mut bytes = Vec::new();
    turns.put(&mut bytes);
    let golden = [4, 0, 7, 0, 0, 0x40, 0, 0xff, 0xff, 0x40, 0, 1, 0];
    assert_eq!(bytes, golden);
    assert_eq!(Turns::read(&bytes.into()), Some(turns));
    assert_eq!(Turns::read(&Bytes::copy_from_slice(&golden[..12])), None);
    assert_eq!(Turns::read(&Bytes::new()), None);
}

#[test]
fn the_checksum_is_that_of_the_catalogue() {
    assert_eq!(crc16(b"123456789"), 0x29b1);
}

#[test]
fn acknowledgement_bits_cross_byte_borders_and_the_wrap() {
    let cum = Seq(u32::MAX - 3);
    let ack = BulkAck { cum, ..ack() };
    let frame = encode(&header(), &ack.encode(), b"");
    let back = decode(&frame).expect("a whole frame").ack.expect("an acknowledgement");
    let got: Vec<u32> = (1..=12).filter(|step| back.has(cum.add(*step))).collect();
    assert_eq!(got, [1, 8, 10]);
    assert!(back.has(cum) && back.has(cum.sub(1000)));
    assert!(!back.has(cum.add(11)), "beyond the valid bits");
}

#[test]
fn a_unit_tells_all_of_its_packet() {
    let head = UnitHead { seq: Seq(9), flow: FlowId(4), flow_seq: 8, protocol: EtherType::IPV6 };
    let mut unit = encode_unit(&head, b"payload");
    unit.resize(40, 0);
    assert_eq!(decode_unit(&unit.into()), Some((head, Bytes::from_static(b"payload"))));
    assert_eq!(decode_unit(&Bytes::from_static(&[0xff; 12])), None);
}

#[test]
fn what_is_wrong_has_a_name() {
    let good = encode(&header(), &ack().encode(), b"ip");
    let changed = |at: usize, byte: u8| {
        let mut frame = good.to_vec();
        frame[at] = byte;
        decode(&frame.into()).expect_err("a damaged frame")
    };
    assert_eq!(changed(0, 0x11), DecodeError::Version);
    assert_eq!(changed(0, 0x2f), DecodeError::Kind);
    assert_eq!(changed(11, 200), DecodeError::Short);
    assert_eq!(changed(5, 0), DecodeError::Checksum);
    assert_eq!(changed(36, 0), DecodeError::Checksum);
    assert_eq!(decode(&good.slice(..30)), Err(DecodeError::Short));
    let parity = Header { kind: Kind::Fec, ..header() };
    assert_eq!(decode(&encode(&parity, &[], b"")), Err(DecodeError::Coded));
    assert_eq!(decode(&encode(&header(), &[0; 9], b"")), Err(DecodeError::Ack));
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        let _ = decode(&Bytes::from(bytes.clone()));
        let _ = decode_unit(&Bytes::from(bytes));
    }

    #[test]
    fn one_flipped_bit_of_the_header_is_noticed(at in 0usize..43, bit in 0u8..8) {
        let mut frame = encode(&header(), &ack().encode(), b"ip").to_vec();
        frame[at] ^= 1 << bit;
        prop_assert!(decode(&frame.into()).is_err());
    }
}
