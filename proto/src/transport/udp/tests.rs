//! A source and a sink, tested alone.

use super::source::MOST_AT_ONCE;
use super::*;
use crate::base::NodeId;

fn end(own: u8, peer: u8) -> FlowEnd {
    FlowEnd {
        flow: FlowId(3),
        to: NodeId(peer.into()),
        local: SocketAddrV4::new([10, 66, 0, own].into(), 4_000),
        remote: SocketAddrV4::new([10, 66, 0, peer].into(), 4_000),
    }
}

fn source(rate: Option<Bitrate>, bytes: Option<u64>) -> Udp {
    Udp::build(UdpConfig::Source { rate, size: 1_000, bytes }, end(1, 2))
}

fn at_ms(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

/// All packets of a source within `ms` milliseconds, with when they were sent.
fn packets(udp: &mut Udp, ms: u64) -> Vec<(Instant, Bytes)> {
    let mut packets = Vec::new();
    let mut now = Instant::ZERO;
    while now <= at_ms(ms) {
        let mut cx = Cx::new(now);
        udp.handle_timeout(&mut cx);
        while let Some(datagram) = udp.poll_tx(&mut cx, &|_| Room::UNLIMITED) {
            assert_eq!(datagram.flow, ip::flow(&datagram.payload));
            packets.push((now, datagram.payload));
        }
        match udp.poll_timeout() {
            Some(due) => {
                assert!(due > now);
                now = due;
            }
            None => break,
        }
    }
    packets
}

fn receive(sink: &mut Udp, now: Instant, payload: &Bytes) {
    assert!(sink.accepts(payload));
    let event = DatagramUp::Received { via: NodeId(1), payload: payload.clone(), signal: None };
    sink.handle_rx(&mut Cx::new(now), event);
}

#[test]
fn a_paused_source_is_silent_and_goes_on_where_it_was() {
    // At the rate one each 8 ms, of which 8 are left when it is paused.
    for (rate, waits) in [(Some(Bitrate::from_mbps(1.0)), true), (None, false)] {
        let mut udp = source(rate, None);
        let take = |udp: &mut Udp, ms| {
            let mut cx = Cx::new(at_ms(ms));
            udp.handle_timeout(&mut cx);
            udp.poll_tx(&mut cx, &|_| Room::UNLIMITED).is_some()
        };
        assert!(take(&mut udp, 0));
        udp.pause(at_ms(0));
        assert_eq!((take(&mut udp, 20), udp.poll_timeout()), (false, None));
        udp.resume(at_ms(50));
        assert_eq!(take(&mut udp, 57), !waits);
        assert!(take(&mut udp, 58));
    }
}

#[test]
fn loss_counts_from_when_measuring_began() {
    let sent = packets(&mut source(Some(Bitrate::from_mbps(1.0)), None), 159);
    let mut sink = Udp::build(UdpConfig::Sink, end(2, 1));
    receive(&mut sink, at_ms(1), &sent[5].1);
    // Three more are on their way.
    sink.begin_measure(9);
    assert_eq!((sink.measured(9), sink.samples().len()), ((0, 0), 0));
    for number in [7, 9, 11] {
        receive(&mut sink, at_ms(2), &sent[number].1);
    }
    assert_eq!((sink.measured(0), sink.samples().len(), sink.lost()), ((2, 3), 3, 8));
    assert_eq!(sink.measured(20), (2, 11), "those that followed the last one count too");
}

#[test]
fn a_source_knows_how_many_it_had_made_by_when() {
    let mut made = Made::default();
    let ms = |count: u64| at_ms(count * 5);
    for count in 1..=40_000 {
        made.note(ms(count), count);
    }
    assert_eq!((made.count(), made.by(ms(50_000)), made.by(ms(0))), (40_000, 40_000, 0));
    for count in [1, 300, 20_000, 39_999] {
        let found = made.by(ms(count));
        assert!(found <= count && found + 400 > count, "{found} of {count}");
    }
    // Nothing more is made: all is known.
    assert_eq!(made.by(ms(40_000)), 40_000);
}

#[test]
fn a_constant_rate_is_kept() {
    // 1,000 bytes at 1 Mb/s: one each 8 ms, the first at once.
    let mut udp = source(Some(Bitrate::from_mbps(1.0)), None);
    let sent = packets(&mut udp, 79);
    assert_eq!(sent.len(), 10);
    assert_eq!(sent[9].0, at_ms(72));
    assert_eq!(sent[0].1.len(), 1_028);
}

#[test]
fn a_source_ends_after_its_bytes() {
    let mut udp = source(Some(Bitrate::from_mbps(1.0)), Some(3_000));
    assert_eq!(packets(&mut udp, 1_000).len(), 3);
    assert_eq!(udp.poll_timeout(), None);
    let mut backlogged = source(None, Some(5_000));
    assert_eq!(packets(&mut backlogged, 0).len(), 5);
}

#[test]
fn a_source_without_a_rate_rests_where_all_that_it_gives_is_taken() {
    let mut udp = source(None, None);
    let sent = packets(&mut udp, 2);
    assert_eq!(sent.len(), 3 * MOST_AT_ONCE as usize);
    assert_eq!(sent[sent.len() - 1].0, at_ms(2));
}

#[test]
fn what_finds_no_room_when_it_is_due_is_lost() {
    let mut udp = source(Some(Bitrate::from_mbps(1.0)), None);
    let blocked = |udp: &mut Udp, now| {
        let mut cx = Cx::new(now);
        udp.handle_timeout(&mut cx);
        udp.poll_tx(&mut cx, &|_| Room::NONE).is_none()
    };
    assert!(blocked(&mut udp, Instant::ZERO) && blocked(&mut udp, at_ms(8_000)));
    // Nobody has to ask any more: what is lost meanwhile counts as made.
    assert_eq!(udp.poll_timeout(), None);
    assert_eq!(udp.made_by(at_ms(8_000)), 1_001);
    assert_eq!(udp.made_by(at_ms(16_000)), 2_001);
    let mut cx = Cx::new(at_ms(8_001));
    assert!(udp.poll_tx(&mut cx, &|_| Room::UNLIMITED).is_none());
    assert_eq!(udp.status().counters["overflows"], 1_001);
    assert_eq!(udp.poll_timeout(), Some(at_ms(8_008)));
    cx.now = at_ms(8_008);
    udp.handle_timeout(&mut cx);
    let datagram = udp.poll_tx(&mut cx, &|_| Room::UNLIMITED).expect("the next one");
    let mut sink = Udp::build(UdpConfig::Sink, end(2, 1));
    receive(&mut sink, at_ms(8_009), &datagram.payload);
    assert_eq!(sink.samples()[0].delay_us, 1_000);
}

#[test]
fn what_is_due_as_room_appears_goes() {
    let mut udp = source(Some(Bitrate::from_mbps(1.0)), None);
    let mut cx = Cx::new(Instant::ZERO);
    assert!(udp.poll_tx(&mut cx, &|_| Room::NONE).is_none());
    cx.now = at_ms(16);
    assert!(udp.poll_tx(&mut cx, &|_| Room::UNLIMITED).is_some());
    assert!(udp.poll_tx(&mut cx, &|_| Room::UNLIMITED).is_none());
    assert_eq!(udp.status().counters["overflows"], 2);
}

#[test]
fn what_a_late_host_has_made_due_goes_together() {
    let mut udp = source(Some(Bitrate::from_mbps(1.0)), None);
    assert_eq!(packets(&mut udp, 0).len(), 1);
    let mut cx = Cx::new(at_ms(25));
    udp.handle_timeout(&mut cx);
    for _ in 0..3 {
        assert!(udp.poll_tx(&mut cx, &|_| Room::UNLIMITED).is_some());
    }
    assert!(udp.poll_tx(&mut cx, &|_| Room::UNLIMITED).is_none());
    assert_eq!(udp.status().counters["overflows"], 0);
}

#[test]
fn what_has_not_gone_when_a_source_is_stopped_is_lost() {
    let mut udp = source(Some(Bitrate::from_mbps(1.0)), None);
    let mut cx = Cx::new(Instant::ZERO);
    assert!(udp.poll_tx(&mut cx, &|_| Room::UNLIMITED).is_some());
    cx.now = at_ms(80);
    udp.handle_timeout(&mut cx);
    udp.stop(at_ms(80));
    assert_eq!((udp.made_by(at_ms(1_000)), udp.status().counters["overflows"]), (11, 10));
    assert!(udp.poll_tx(&mut cx, &|_| Room::UNLIMITED).is_none());
}

#[test]
fn what_is_due_at_the_very_end_is_not_made() {
    let mut udp = source(Some(Bitrate::from_mbps(1.0)), None);
    assert_eq!(packets(&mut udp, 72).len(), 10, "from 0 on, each 8 ms");
    udp.stop(at_ms(80));
    assert_eq!((udp.made_by(at_ms(1_000)), udp.status().counters["overflows"]), (10, 0));
    let mut silent = source(Some(Bitrate::from_mbps(1.0)), None);
    silent.stop(at_ms(80));
    assert_eq!(silent.made_by(at_ms(1_000)), 0, "it had not begun");
}

#[test]
fn who_is_lost_is_known_the_sooner_the_sooner_others_come() {
    for (delays_ms, ms) in [(&[][..], 1_000), (&[0.05, -3.0], 20), (&[5.0, 40.0, 10.0], 80)] {
        assert_eq!(under_way(delays_ms), Duration::from_millis(ms), "{delays_ms:?}");
    }
}

#[test]
fn a_sink_finds_loss_repetition_and_reordering() {
    let sent = packets(&mut source(Some(Bitrate::from_mbps(1.0)), None), 79);
    let mut sink = Udp::build(UdpConfig::Sink, end(2, 1));
    for number in [0, 1, 4, 3, 4, 9, 0] {
        receive(&mut sink, sent[9].0, &sent[number].1);
    }
    let status = sink.status();
    assert_eq!(sink.lost(), 5);
    assert_eq!(status.counters["duplicates"], 2);
    assert_eq!(status.counters["out_of_order"], 1);
    assert_eq!(status.delivered_bytes, 5_000);
}

#[test]
fn a_sink_measures_delay_and_jitter() {
    let sent = packets(&mut source(Some(Bitrate::from_mbps(1.0)), None), 400);
    let mut sink = Udp::build(UdpConfig::Sink, end(2, 1));
    // The delay goes to and fro between 10 and 14 ms: the jitter tends to 4 ms.
    for (number, (at, packet)) in sent.iter().enumerate() {
        let delay = Duration::from_millis(if number % 2 == 0 { 10 } else { 14 });
        receive(&mut sink, *at + delay, packet);
    }
    let delays: Vec<i64> = sink.samples().iter().map(|sample| sample.delay_us).collect();
    assert_eq!(delays[..2], [10_000, 14_000]);
    assert_eq!(delays.len(), sent.len());
    let jitter = sink.jitter().as_millis_f64();
    assert!((3.8..=4.0).contains(&jitter), "{jitter} ms");
}

#[test]
fn samples_are_thinned_and_never_unbounded() {
    let mut sink = Sink::new();
    for number in 0..600_000 {
        sink.on_payload(Instant::from_nanos(number * 1_000), number, 0, 100);
    }
    assert!(sink.samples.len() < MAX_SAMPLES && sink.samples.len() > MAX_SAMPLES / 4);
    assert_eq!((sink.received, sink.stride), (600_000, 4));
}

#[test]
fn what_is_no_payload_of_ours_is_counted() {
    let mut sink = Udp::build(UdpConfig::Sink, end(2, 1));
    let short = udp::encode(end(1, 2).local, end(1, 2).remote, b"hi", &[]);
    receive(&mut sink, Instant::ZERO, &short);
    assert_eq!(sink.status().counters["malformed"], 1);
    assert!(!sink.accepts(&short[..20]));
}
