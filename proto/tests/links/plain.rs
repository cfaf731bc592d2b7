//! When plain 802.11 takes a neighbour for gone.

use bytes::Bytes;
use farhop_proto::base::{
    Cx, Duration, EtherType, FlowId, FrameDone, FrameDown, FrameOutcome, FrameUp, Instant, Layer,
    NodeId, Packet, PacketUp, RadioId, Room, Seed, TxOptions, UnitId,
};
use farhop_proto::link::plain::{Plain, PlainConfig};
use farhop_testkit::PairConfig;

/// Has a radio give up so many packets with so many attempts each, and returns whether the
/// neighbour is gone then.
fn is_gone_after(packets: u64, attempts: Option<u8>) -> bool {
    let radio = PairConfig::default().radio;
    let mut plain = Plain::build(&PlainConfig::default(), NodeId(1), &[radio], Seed(1));
    let mut cx = Cx::new(Instant::ZERO);
    let mut is_gone = false;
    for id in 1..=packets {
        let packet = Packet {
            id: UnitId(id),
            radio: RadioId(0),
            to: Some(NodeId(2)),
            flow: FlowId(1),
            protocol: EtherType::IPV4,
            payload: Bytes::from_static(&[0; 100]),
            options: TxOptions { attempts, ..TxOptions::default() },
            order: None,
        };
        plain.handle_tx(&mut cx, packet);
        let frame = plain.poll_tx(&mut cx, &|_| Room::UNLIMITED);
        let Some(FrameDown::Frame(frame)) = frame else { panic!("{frame:?}") };
        let done = FrameDone {
            id: frame.id,
            outcome: FrameOutcome::Failed,
            attempts: attempts.unwrap_or(7),
            air_time: Duration::from_millis(1),
        };
        plain.handle_rx(&mut cx, FrameUp::Done(done));
        while let Some(event) = plain.poll_rx(&mut cx) {
            is_gone |= matches!(event, PacketUp::Neighbour { node: NodeId(2), up: false, .. });
        }
    }
    is_gone
}

#[test]
fn a_neighbour_that_does_not_get_what_the_radio_tries_as_often_as_it_can_is_gone() {
    assert_eq!([3, 4].map(|packets| is_gone_after(packets, None)), [false, true]);
}

#[test]
fn what_is_tried_less_often_tells_nothing() {
    assert!(!is_gone_after(100, Some(3)));
}
