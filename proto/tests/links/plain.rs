//! When plain 802.11 takes a neighbour for gone.

use bytes::Bytes;
use farhop_proto::base::{
    Cx, Duration, EtherType, FlowId, FrameDone, FrameDown, FrameOutcome, FrameUp, Instant, Layer,
    NodeId, Packet, PacketUp, RadioId, ReceivedFrame, Room, Seed, TxOptions, UnitId,
};
use farhop_proto::link::Link as _;
use farhop_proto::link::plain::{Plain, PlainConfig};
use farhop_testkit::PairConfig;

fn hello() -> ReceivedFrame {
    ReceivedFrame {
        radio: RadioId(0),
        from: NodeId(2),
        to: None,
        protocol: EtherType::IPV4,
        payload: Bytes::from_static(&[0; 100]),
        started: Instant::ZERO,
        rate: PairConfig::default().radio.rate,
        signal: None,
        bits: 0,
    }
}

/// Has a radio give up so many packets with so many attempts each, so long after the neighbour was
/// heard, and returns whether it is gone then.
fn is_gone_after(packets: u64, attempts: Option<u8>, silence: Duration) -> bool {
    let radio = PairConfig::default().radio;
    let mut plain = Plain::build(&PlainConfig::default(), NodeId(1), &[radio], Seed(1));
    let mut cx = Cx::new(Instant::ZERO);
    plain.handle_rx(&mut cx, FrameUp::Received(hello()));
    while plain.poll_rx(&mut cx).is_some() {}
    let mut cx = Cx::new(Instant::ZERO + silence);
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
    let is_gone = |packets| is_gone_after(packets, None, Duration::from_millis(10));
    assert_eq!([3, 4].map(is_gone), [false, true]);
}

#[test]
fn what_is_tried_less_often_tells_something_once_nothing_is_heard() {
    let is_gone = |packets, seconds| is_gone_after(packets, Some(3), Duration::from_secs(seconds));
    assert_eq!([is_gone(100, 2), is_gone(3, 3), is_gone(4, 3)], [false, false, true]);
}

#[test]
fn a_neighbour_with_another_link_is_named_and_its_frames_go_no_further() {
    let radio = PairConfig::default().radio;
    let mut plain = Plain::build(&PlainConfig::default(), NodeId(1), &[radio], Seed(1));
    let mut cx = Cx::new(Instant::ZERO);
    let mut comes_up = |protocol, payload: &'static [u8]| {
        let frame = ReceivedFrame { protocol, payload: Bytes::from_static(payload), ..hello() };
        plain.handle_rx(&mut cx, FrameUp::Received(frame));
        let comes_up = std::iter::from_fn(|| plain.poll_rx(&mut cx)).count() > 0;
        let status = plain.status(Instant::ZERO);
        (comes_up, status.neighbours[0].refused.clone(), status.counters["malformed_protocol"])
    };
    let refused = Some("link-protocol".into());
    assert_eq!(comes_up(EtherType::FARHOP, &[7; 40]), (false, refused, 1));
    assert_eq!(comes_up(EtherType::IPV4, &[0; 100]), (true, None, 1));
    assert_eq!(comes_up(EtherType::FARHOP, &[]).1, None, "its own frames without a packet");
}
