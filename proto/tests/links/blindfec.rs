//! Stories of blind coding.

use bytes::Bytes;
use farhop_proto::base::{
    Cx, Duration, EtherType, FrameUp, Instant, Layer, NodeId, RadioId, ReceivedFrame, Seed,
};
use farhop_proto::link::Link as _;
use farhop_proto::link::blindfec::{BlindFec, BlindFecConfig};
use farhop_proto::link::wild::residual;
use farhop_proto::wire::blindfec::{Header, encode};
use farhop_testkit::{Pair, PairConfig, Source};

fn secs(seconds: f64) -> Instant {
    Instant::ZERO + Duration::from_secs_f64(seconds)
}

/// Loss that is left of a saturated flow, and packets sent.
fn left(config: &BlindFecConfig, loss: f64, every: Duration) -> (f64, usize) {
    let pipe = PairConfig { half_duplex: false, ..PairConfig::with_loss(loss) };
    let mut pair = Pair::build(pipe, |node, radio, _| {
        BlindFec::build(config, node, std::slice::from_ref(radio), Seed(5))
    });
    pair.add(Source { bytes: 300, every, ..Source::saturated(0, 1, secs(30.0)) });
    pair.run_until(secs(31.0));
    let (sent, came) = (pair.ledger.sent(0, 1), pair.ledger.received(0, 1).len());
    (1.0 - came as f64 / sent as f64, sent)
}

#[test]
fn of_eight_packets_in_twelve_frames_as_much_is_lost_as_computed() {
    let (left, sent) = left(&BlindFecConfig::default(), 0.2, Duration::ZERO);
    let expected = residual(8, 12, 0.2);
    assert!((left / expected - 1.0).abs() < 0.15, "{left} of {sent}, {expected} computed");
}

#[test]
fn a_block_that_does_not_fill_up_is_protected_all_the_same() {
    // A packet each 30 ms stands alone in its block: it goes out twice.
    let (left, sent) = left(&BlindFecConfig::default(), 0.2, Duration::from_millis(30));
    assert!((left - 0.04).abs() < 0.02, "{left} of {sent}");
}

#[test]
fn a_neighbour_with_another_link_is_named() {
    let radio = PairConfig::default().radio;
    let mut link = BlindFec::build(&BlindFecConfig::default(), NodeId(1), &[radio], Seed(1));
    let mut cx = Cx::new(Instant::ZERO);
    let mut told = |protocol, payload: Bytes| {
        let frame = ReceivedFrame {
            radio: RadioId(0),
            from: NodeId(2),
            to: Some(NodeId(1)),
            protocol,
            payload,
            started: Instant::ZERO,
            rate: radio.rate,
            signal: None,
            bits: 0,
        };
        link.handle_rx(&mut cx, FrameUp::Received(frame));
        let status = link.status(Instant::ZERO);
        let told = status.neighbours.first().map(|peer| (peer.up, peer.refused.clone()));
        (told, status.counters["malformed"])
    };
    let refused = Some((false, Some("link-protocol".into())));
    let empty = Bytes::new();
    assert_eq!(told(EtherType::FARHOP, empty), (None, 0), "a frame of a layer below");
    assert_eq!(told(EtherType::SEALED, Bytes::from_static(&[7; 40])), (None, 1));
    assert_eq!(told(EtherType::FARHOP, Bytes::from_static(&[0x45; 40])), (refused.clone(), 2));
    let header = Header { incarnation: 1, block: 0, index: 0, k: None };
    let unit = encode(&header, &[0; 40]);
    assert_eq!(told(EtherType::IPV4, unit.clone()), (refused, 3), "a packet by itself");
    assert_eq!(told(EtherType::FARHOP, unit), (Some((true, None)), 3));
}
