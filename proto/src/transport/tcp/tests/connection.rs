//! How connections begin, carry bytes and end.

use proptest::prelude::*;

use super::*;

#[test]
fn a_handshake_connects_both_ends_in_one_and_a_half_round_trips() {
    let mut pipe = Pipe::new(&TcpConfig::linux(), None, 10, 100);
    pipe.run_ms(21);
    assert!(matches!(pipe.events[0][..], [MessageUp::Connected(FLOW)]));
    assert!(pipe.events[1].is_empty());
    pipe.run_ms(10);
    assert!(matches!(pipe.events[1][..], [MessageUp::Connected(FLOW)]));
    assert_eq!(pipe.ends[0].srtt(), Duration::from_millis(20));
    assert_eq!((pipe.ways[0].packets, pipe.ways[1].packets), (2, 1));
    assert_eq!(pipe.ends[0].poll_timeout(), None);
}

#[test]
fn a_lost_syn_is_sent_again_after_a_second() {
    let mut pipe = Pipe::new(&TcpConfig::linux(), None, 10, 100);
    let mut first = true;
    pipe.ways[0].fate =
        Box::new(move |_| if std::mem::take(&mut first) { Fate::Lost } else { Fate::Pass });
    pipe.run_ms(1_000);
    assert!(pipe.events[0].is_empty());
    pipe.run_ms(60);
    assert!(matches!(pipe.events[0][..], [MessageUp::Connected(FLOW)]));
    assert_eq!(pipe.count(0, "syn_retransmissions"), 1);
    let measured = pipe.ends[0].srtt().as_millis_f64();
    assert!((19.0..=21.0).contains(&measured), "the timestamp tells which one was answered");
}

#[test]
fn without_timestamps_a_lost_syn_makes_the_next_time_out_three_seconds() {
    let config = TcpConfig { timestamps: false, ..TcpConfig::linux() };
    let mut pipe = Pipe::new(&config, None, 10, 100);
    let mut first = true;
    pipe.ways[0].fate =
        Box::new(move |_| if std::mem::take(&mut first) { Fate::Lost } else { Fate::Pass });
    pipe.run_ms(1_100);
    assert!(matches!(pipe.events[0][..], [MessageUp::Connected(FLOW)]));
    let [rtt, rto] = [pipe.ends[0].srtt(), pipe.ends[0].sender.rtt.rto()];
    assert_eq!([rtt, rto], [Duration::ZERO, Duration::from_secs(3)]);
}

#[test]
fn where_both_ends_send_and_repeat_no_packet_is_too_long() {
    let mut pipe = Pipe::new(&TcpConfig::linux(), at_rate(10.0), 10, 100);
    let bytes = text(200_000, 3);
    pipe.write(&bytes, false);
    let message = Message { flow: FLOW, payload: bytes.clone().into(), finish: false };
    pipe.ends[1].handle_tx(&mut Cx::new(pipe.now), message);
    for way in &mut pipe.ways {
        let is_lost = |shot: &Shot| shot.payload > 0 && shot.number % 7 == 3;
        way.fate = Box::new(move |shot| if is_lost(shot) { Fate::Lost } else { Fate::Pass });
    }
    pipe.run_ms(120_000);
    assert_eq!([0, 1].map(|side| pipe.received[side].len()), [200_000; 2]);
    assert!(pipe.received == [bytes.clone(), bytes]);
}

#[test]
fn an_answered_connection_is_reset_only_by_the_next_number() {
    let mut pipe = Pipe::new(&TcpConfig::linux(), None, 10, 100);
    pipe.ways[1].fate = Box::new(|_| Fate::Lost);
    pipe.run_ms(15);
    for (ahead, phase) in [(99, Phase::SynReceived), (0, Phase::Listen)] {
        let seq = pipe.ends[1].receiver.ack().add(ahead);
        let header = Header { seq, flags: Flags::RST, ..pipe.ends[0].header() };
        let payload = pipe.ends[0].encode(&header, None);
        let event = DatagramUp::Received { via: NodeId(1), payload, signal: None };
        pipe.ends[1].handle_rx(&mut Cx::new(pipe.now), event);
        assert_eq!(pipe.ends[1].phase, phase);
    }
}

#[test]
fn both_directions_end_in_order() {
    let mut pipe = Pipe::new(&TcpConfig::linux(), at_rate(10.0), 10, 100);
    pipe.write(b"hello", true);
    pipe.run_ms(500);
    assert_eq!(pipe.received[1], b"hello");
    for side in 0..2 {
        assert!(matches!(pipe.events[side][1..], [MessageUp::Finished(FLOW)]), "{side}");
        assert!(pipe.ends[side].is_finished());
        assert_eq!(pipe.ends[side].poll_timeout(), None);
    }
    let status = pipe.ends[0].status();
    assert_eq!((status.sent_bytes, status.acked_bytes), (5, 5));
    assert_eq!(pipe.ends[1].delivered_bytes(), 5);
}

#[test]
fn nobody_there_resets_the_flow_after_the_last_syn() {
    let mut pipe = Pipe::new(&TcpConfig::linux(), None, 10, 100);
    pipe.ways[0].fate = Box::new(|_| Fate::Lost);
    pipe.run_ms(200_000);
    assert!(matches!(pipe.events[0][..], [MessageUp::Reset(FLOW)]));
    assert_eq!(pipe.ways[0].packets, 11, "six that double, and four before them");
}

/// Seconds at which this end sends its SYN, or its SYN+ACK, when nothing comes back.
fn handshake_at(config: &TcpConfig, side: usize) -> Vec<u64> {
    let mut pipe = Pipe::new(config, None, 0, 100);
    pipe.ways[side].fate = Box::new(|_| Fate::Lost);
    if side == 1 {
        // Only one SYN, so that no other causes an answer.
        let mut first = true;
        pipe.ways[0].fate =
            Box::new(move |_| if std::mem::take(&mut first) { Fate::Pass } else { Fate::Lost });
    }
    let (mut sent, mut times) = (0, Vec::new());
    for tenth in 0..250 {
        pipe.run_ms(100);
        if pipe.ways[side].packets > sent {
            sent = pipe.ways[side].packets;
            times.push((tenth + 1) / 10);
        }
    }
    times
}

#[test]
fn who_opens_waits_a_second_five_times_as_linux_does_and_who_answers_once() {
    assert_eq!(handshake_at(&TcpConfig::linux(), 0), [0, 1, 2, 3, 4, 5, 7, 11, 19]);
    assert_eq!(handshake_at(&TcpConfig::linux(), 1), [0, 1, 3, 7, 15]);
    assert_eq!(handshake_at(&TcpConfig::classic(), 0), [0, 3, 9, 21]);
}

#[test]
fn a_peer_that_vanishes_fails_the_flow_after_all_retries() {
    let mut pipe = Pipe::new(&TcpConfig { retries: 4, ..TcpConfig::linux() }, None, 10, 100);
    pipe.run_ms(100);
    pipe.ways[0].fate = Box::new(|_| Fate::Lost);
    pipe.write(b"anybody?", false);
    pipe.run_ms(60_000);
    assert!(matches!(pipe.events[0][1..], [MessageUp::Reset(FLOW)]));
    assert_eq!(pipe.ends[0].room(Lane::default()), Room::NONE);
}

#[test]
fn a_reset_must_carry_the_next_number() {
    let mut pipe = Pipe::new(&TcpConfig::linux(), None, 10, 100);
    pipe.run_ms(100);
    let forge = |pipe: &mut Pipe, seq: Seq| {
        let header = Header { seq, flags: Flags::RST, ..pipe.ends[0].header() };
        let payload = pipe.ends[0].encode(&header, None);
        let event = DatagramUp::Received { via: NodeId(1), payload, signal: None };
        pipe.ends[1].handle_rx(&mut Cx::new(pipe.now), event);
    };
    let next = pipe.ends[1].receiver.ack();
    forge(&mut pipe, next.add(99));
    assert_eq!(pipe.ends[1].phase, Phase::Open);
    forge(&mut pipe, next);
    assert_eq!(pipe.ends[1].phase, Phase::Failed);
}

/// Carries random bytes over a pipe with loss and compares them.
fn carries_all(config: &TcpConfig, seed: u64, loss: f64, burst: u64, length: usize) {
    let mut pipe = Pipe::new(config, at_rate(10.0), 15, 40);
    for side in 0..2 {
        let mut random = Seed(seed).stream(if side == 0 { "there" } else { "back" });
        let mut bad = 0;
        pipe.ways[side].fate = Box::new(move |_| {
            if bad > 0 {
                bad -= 1;
                return Fate::Lost;
            }
            let hit = random.chance(loss / burst as f64);
            let late = random.chance(loss / 5.0);
            bad = if hit { burst - 1 } else { 0 };
            match (hit, late) {
                (true, _) => Fate::Lost,
                (_, true) => Fate::Late(Duration::from_micros(4_300)),
                _ => Fate::Pass,
            }
        });
    }
    let sent = text(length, seed);
    let mut from = 0;
    let mut random = Seed(seed).stream("pieces");
    while from < sent.len() {
        let to = (from + 1 + random.below(9_000) as usize).min(sent.len());
        while pipe.ends[0].room(Lane::default()).is_none() {
            pipe.run_ms(20);
            assert!(pipe.now < Instant::from_nanos(600_000_000_000), "it stands still");
        }
        pipe.write(&sent[from..to], to == sent.len());
        from = to;
    }
    pipe.run_ms(300_000);
    assert!(pipe.received[1] == sent, "{} of {}", pipe.received[1].len(), sent.len());
    assert!(matches!(pipe.events[1][1..], [MessageUp::Finished(FLOW)]));
    assert!(matches!(pipe.events[0][1..], [MessageUp::Finished(FLOW)]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn bytes_arrive_in_order_exactly_once(
        seed in any::<u64>(), loss in 0.0..0.05_f64, burst in 1_u64..6, recovery in 0..4,
    ) {
        let config = match recovery {
            0 => TcpConfig::linux(),
            1 => TcpConfig::classic(),
            2 => TcpConfig { sack: false, ..TcpConfig::linux() },
            _ => TcpConfig { timestamps: false, mss: 1_460, ..newreno() },
        };
        carries_all(&config, seed, loss, burst, 150_000);
    }

    #[test]
    fn any_packet_is_taken_without_panic(
        flags in any::<u8>(), seq in -3_000_i32..3_000, ack in -3_000_i32..3_000,
        window in any::<u16>(), length in 0_usize..100,
        blocks in proptest::collection::vec((-3_000_i32..9_000, -3_000_i32..9_000), 0..4),
    ) {
        let mut pipe = Pipe::new(&TcpConfig::linux(), None, 10, 100);
        pipe.write(&text(5_000, 1), false);
        pipe.run_ms(35);
        let base = pipe.ends[1].sender.una;
        let place = |from: Seq, by: i32| Seq(from.0.wrapping_add(by as u32));
        let una = pipe.ends[0].wire(pipe.ends[0].sender.una);
        let mut sack = SackBlocks::default();
        blocks.iter().for_each(|(l, r)| sack.push(place(una, *l), place(una, *r)));
        let header = Header {
            seq: place(pipe.ends[1].wire(base), seq), ack: place(una, ack), flags: Flags(flags),
            window,
            options: Options { timestamps: Some((40, 30)), sack, ..Options::default() },
            ..pipe.ends[1].header()
        };
        let junk = text(length, 2);
        let (from, to) = (pipe.ends[1].end.local, pipe.ends[1].end.remote);
        let payload = tcp::encode(from, to, &header, std::iter::once(&junk[..]), length);
        let event = DatagramUp::Received { via: NodeId(1), payload, signal: None };
        pipe.ends[0].handle_rx(&mut Cx::new(pipe.now), event);
        pipe.run_ms(3_000);
    }
}

#[test]
fn an_application_limited_flow_does_not_grow_its_window() {
    let mut pipe = Pipe::new(&TcpConfig::linux(), at_rate(100.0), 20, 1_000);
    for _ in 0..200 {
        pipe.write(&text(2_000, 1), false);
        pipe.run_ms(10);
    }
    // Two round trips of what the application writes, not the hundreds that slow start would have
    // reached.
    assert!(pipe.max_cwnd <= 24, "{}", pipe.max_cwnd);
}

#[test]
fn the_send_buffer_is_bounded() {
    let mut pipe = Pipe::new(&TcpConfig::linux(), None, 10, 100);
    let mut written = 0;
    while !pipe.ends[0].room(Lane::default()).is_none() {
        pipe.write(&[0; 65_536], false);
        written += 65_536;
    }
    assert_eq!(written, 65_536, "the first write overfills what Linux begins with");
    let config = TcpConfig { send_buffer_grows: false, ..TcpConfig::linux() };
    let mut pipe = Pipe::new(&config, None, 10, 100);
    while !pipe.ends[0].room(Lane::default()).is_none() {
        pipe.write(&[0; 65_536], false);
        written += 65_536;
    }
    assert_eq!(written - 65_536, config.unsent_bytes);
}

#[test]
fn a_window_smaller_than_a_segment_is_used() {
    let config = TcpConfig { window_bytes: 500, ..TcpConfig::linux() };
    let mut pipe = Pipe::new(&config, None, 5, 100);
    pipe.write(&text(20_000, 1), true);
    pipe.run_ms(20_000);
    assert_eq!(pipe.received[1], text(20_000, 1));
}

#[test]
fn the_handshake_ends_with_a_bare_acknowledgement_though_data_waits() {
    let mut pipe = Pipe::new(&TcpConfig::linux(), None, 5, 100);
    pipe.saturate();
    pipe.run_ms(11);
    let (packets, with_payload) = (pipe.ways[0].packets, pipe.ways[0].with_payload);
    assert_eq!((packets, with_payload), (12, 10), "SYN, the acknowledgement, the first window");
    pipe.run_ms(5);
    let round = pipe.ends[1].srtt();
    assert_eq!(round, Duration::from_millis(10), "the peer's only measurement");
}
