//! When data is acknowledged.

use super::receiver::Pace;
use super::*;

/// Linux with so many quick acknowledgements at first, and an application that does not read pushed
/// data.
fn unpushed(quick: u32) -> TcpConfig {
    let linux = TcpConfig::linux();
    let delayed_ack = DelayedAck { push: false, quick, ..linux.delayed_ack };
    TcpConfig { delayed_ack, tick: Tick::default(), ..linux }
}

/// A receiver with exact timers and no quick acknowledgements, which gets segments of 100 bytes.
struct Taker {
    receiver: Receiver,
    left: u64,
}

impl Taker {
    fn new(config: &TcpConfig) -> Self {
        let mut receiver = Receiver::build(config);
        receiver.on_syn(Seq(0), true, true);
        Self { receiver, left: ORIGIN + 1 }
    }

    /// The next segment comes in order; returns whether it is acknowledged at once.
    fn take(&mut self, at: Instant, rtt_ms: u64, push: bool) -> bool {
        let rto = Duration::from_millis(rtt_ms + 200);
        let rtt = Duration::from_millis(rtt_ms);
        let pace = Pace { now: at, rto, rtt, echo: None, push };
        self.receiver.on_data(pace, self.left, Bytes::from_static(&[0; 100]), false, |_| {});
        self.left += 100;
        self.receiver.wants_ack()
    }
}

fn at_ms(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

#[test]
fn every_second_segment_is_acknowledged_after_the_quick_phase() {
    let mut pipe = Pipe::new(&windowed(60), at_rate(10.0), 20, 1_000);
    pipe.saturate();
    pipe.run_ms(1_000);
    let (data, acks) = (pipe.ways[0].with_payload, pipe.ways[1].packets);
    pipe.run_ms(1_000);
    let (data, acks) = (pipe.ways[0].with_payload - data, pipe.ways[1].packets - acks);
    assert!(acks * 2 <= data + 4 && acks * 2 + 4 >= data, "{acks} for {data}");
}

#[test]
fn a_single_segment_is_acknowledged_after_40_ms_once_the_quick_phase_is_over() {
    let mut pipe = Pipe::new(&unpushed(16), None, 5, 1_000);
    pipe.run_ms(50);
    for _ in 0..16 {
        pipe.write(b"quick", false);
        pipe.run_ms(11);
        assert_eq!(pipe.ends[0].sender.board.packets_out(), 0);
    }
    pipe.write(b"slow", false);
    pipe.run_ms(46);
    assert_eq!(pipe.ends[0].sender.board.packets_out(), 1);
    pipe.run_ms(7);
    assert_eq!(pipe.ends[0].sender.board.packets_out(), 0);
}

#[test]
fn four_segments_may_share_an_acknowledgement() {
    let mut config = TcpConfig::classic();
    config.delayed_ack.segments = 4;
    let mut pipe = Pipe::new(&config, at_rate(10.0), 20, 1_000);
    pipe.saturate();
    pipe.run_ms(3_000);
    let (data, acks) = (pipe.ways[0].with_payload, pipe.ways[1].packets);
    assert!(acks * 4 <= data + 100, "{acks} for {data}");
}

#[test]
fn segments_that_come_together_share_an_acknowledgement_unless_each_pair_has_its_own() {
    for (singly, expected) in [(false, 1), (true, 3)] {
        let mut config = TcpConfig { initial_window: 10, ..TcpConfig::classic() };
        config.delayed_ack.singly = singly;
        let mut pipe = Pipe::new(&config, None, 5, 1_000);
        pipe.run_ms(50);
        pipe.write(&[0; 6 * 1_448], false);
        let mut cx = Cx::new(pipe.now);
        let all = |end: &mut Tcp, cx: &mut Cx<'_>| {
            let next = || end.poll_tx(cx, &|_| Room::UNLIMITED);
            std::iter::from_fn(next).map(|it| it.payload).collect::<Vec<_>>()
        };
        let segments = all(&mut pipe.ends[0], &mut cx);
        assert_eq!(segments.len(), 6);
        for payload in segments {
            let event = DatagramUp::Received { via: NodeId(9), payload, signal: None };
            pipe.ends[1].handle_rx(&mut cx, event);
        }
        assert_eq!(all(&mut pipe.ends[1], &mut cx).len(), expected, "singly: {singly}");
    }
}

#[test]
fn what_is_pushed_is_acknowledged_at_once_unless_data_is_answered_with_data() {
    // `tcp_cleanup_rbuf`: an application that empties the buffer causes an acknowledgement.
    let quick = |push: bool| DelayedAck { push, ..unpushed(0).delayed_ack };
    for push in [true, false] {
        let mut taker = Taker::new(&TcpConfig { delayed_ack: quick(push), ..unpushed(0) });
        assert!(!taker.take(at_ms(1_000), 5, false));
        taker.receiver.on_ack_sent(at_ms(1_040), false);
        assert_eq!(taker.take(at_ms(1_050), 5, true), push);
        taker.receiver.on_ack_sent(at_ms(1_051), true);
        assert!(!taker.take(at_ms(1_060), 5, true), "this end has answered with data");
    }
}

#[test]
fn a_delayed_acknowledgement_waits_a_round_trip_at_most_where_40_ms_are_less() {
    // `tcp_send_delayed_ack`; data every 30 ms lengthens the wait to 50 ms.
    for (rtt_ms, due_ms) in [(5, 1_070), (45, 1_075), (60, 1_080)] {
        let mut taker = Taker::new(&unpushed(0));
        taker.take(at_ms(1_000), rtt_ms, false);
        taker.receiver.on_ack_sent(at_ms(1_000), false);
        taker.take(at_ms(1_030), rtt_ms, false);
        assert_eq!(taker.receiver.poll_timeout(), Some(at_ms(due_ms)), "{rtt_ms} ms");
    }
}

#[test]
fn waiting_for_nothing_makes_the_next_wait_longer() {
    // `tcp_delack_timer_handler` doubles the wait if it was in vain.
    let mut taker = Taker::new(&unpushed(0));
    taker.take(at_ms(1_000), 150, false);
    assert_eq!(taker.receiver.poll_timeout(), Some(at_ms(1_040)));
    taker.receiver.handle_timeout(at_ms(1_040));
    taker.receiver.on_ack_sent(at_ms(1_040), false);
    taker.take(at_ms(1_100), 150, false);
    // Twice 40 ms, then half of that and the gap between the segments of 100 ms... which is longer
    // than the wait and says nothing.
    assert_eq!(taker.receiver.poll_timeout(), Some(at_ms(1_180)));
}

#[test]
fn each_island_is_told_of_though_acknowledgements_are_held_together() {
    // `tcp_sack_compress_send_ack`: nine islands within the time for which one acknowledgement is
    // held.
    let mut taker = Taker::new(&unpushed(0));
    let start = taker.left;
    let (mut told, mut sent) = (std::collections::BTreeSet::new(), 0);
    for number in 0..12 {
        taker.left += 100;
        let at = at_ms(1_000) + Duration::from_micros(number * 80);
        if taker.take(at, 150, false) {
            told.extend(taker.receiver.sack_blocks().as_slice().iter().map(|block| block.0.0));
            taker.receiver.on_ack_sent(at, false);
            sent += 1;
        }
    }
    let held = taker.receiver.sack_blocks();
    told.extend(held.as_slice().iter().map(|block| block.0.0));
    assert_eq!(told.len(), 12, "of {start}: {told:?}");
    assert!((7..12).contains(&sent), "{sent} acknowledgements at once");
}

#[test]
fn linux_pushes_the_last_segment_of_a_burst() {
    // `__tcp_transmit_skb`: acknowledgements of two segments let out two as one.
    let share = |config: &TcpConfig| {
        let mut pipe = Pipe::new(config, at_rate(10.0), 20, 1_000);
        pipe.saturate();
        pipe.run_ms(1_000);
        let counts = std::rc::Rc::new(std::cell::Cell::new((0, 0)));
        let seen = counts.clone();
        pipe.ways[0].fate = Box::new(move |shot| {
            let (all, pushed) = seen.get();
            seen.set((all + 1, pushed + u32::from(shot.push)));
            Fate::Pass
        });
        pipe.run_ms(1_000);
        let (all, pushed) = counts.get();
        f64::from(pushed) / f64::from(all)
    };
    let linux = share(&windowed(60));
    assert!((0.45..0.55).contains(&linux), "{linux}");
    assert!(share(&TcpConfig { window_bytes: 60 * 1_448, ..TcpConfig::classic() }) < 0.01);
}

#[test]
fn a_segment_whose_timestamp_is_too_old_is_told_as_a_duplicate() {
    // `tcp_send_dupack`, as for any other that came before.
    let mut pipe = Pipe::new(&TcpConfig::linux(), None, 5, 100);
    pipe.run_ms(50);
    pipe.write(&[0; 1_448], false);
    let first = pipe.ends[0].poll_tx(&mut Cx::new(pipe.now), &|_| Room::UNLIMITED);
    let first = DatagramUp::Received {
        via: NodeId(9),
        payload: first.expect("there is room").payload,
        signal: None,
    };
    pipe.ends[1].handle_rx(&mut Cx::new(pipe.now), first.clone());
    pipe.run_ms(50);
    pipe.write(&[0; 1_448], false);
    pipe.run_ms(50);
    let old = pipe.ends[1].receiver.acked();
    pipe.ends[1].handle_rx(&mut Cx::new(pipe.now), first);
    assert_eq!(pipe.count(1, "old_timestamps"), 1);
    let blocks = pipe.ends[1].receiver.sack_blocks();
    let wire = |place| pipe.ends[0].wire(place);
    assert_eq!(blocks.as_slice(), [(wire(old - 2 * 1_448), wire(old - 1_448))]);
}
