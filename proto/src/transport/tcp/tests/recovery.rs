//! Losses, reordering and time-outs, and which reductions are undone.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use super::*;

#[test]
fn rack_repairs_a_single_loss_in_one_round_trip_without_a_time_out() {
    let mut pipe = Pipe::new(&TcpConfig::linux(), at_rate(10.0), 20, 100);
    pipe.ways[0].fate = lose(&[12]);
    pipe.write(&text(60 * 1_448, 1), true);
    pipe.run_ms(400);
    assert_eq!(pipe.received[1].len(), 60 * 1_448);
    assert_eq!(pipe.count(0, "retransmissions"), 1);
    assert_eq!(pipe.count(0, "fast_recoveries"), 1);
    assert_eq!(pipe.count(0, "timeouts"), 0);
}

#[test]
fn a_lost_retransmission_is_found_without_a_time_out() {
    let mut pipe = Pipe::new(&windowed(800), at_rate(20.0), 20, 2_000);
    pipe.saturate();
    pipe.run_ms(160);
    // The segment that is sent 5 from now is lost, and so is its retransmission, the first packet
    // that is sent twice.
    let lost = pipe.ways[0].with_payload + 5;
    pipe.ways[0].fate =
        Box::new(
            move |shot| {
                if shot.number == lost || shot.repeated == 1 { Fate::Lost } else { Fate::Pass }
            },
        );
    pipe.run_ms(600);
    assert_eq!(pipe.count(0, "timeouts"), 0);
    assert_eq!(pipe.count(0, "retransmissions"), 2);
    assert_eq!(pipe.ends[0].sender.board.lost_out, 0);
}

#[test]
fn a_spurious_time_out_is_undone() {
    for timestamps in [true, false] {
        let mss = if timestamps { 1_448 } else { 1_460 };
        let config = TcpConfig { timestamps, mss, ..TcpConfig::linux() };
        let mut pipe = Pipe::new(&config, at_rate(10.0), 20, 1_000);
        pipe.saturate();
        pipe.run_ms(300);
        let before = pipe.ends[0].cwnd();
        // For 1.5 s the path holds all packets back, then it delivers them in order.
        let release = pipe.now + Duration::from_millis(1_500);
        pipe.ways[0].fate = Box::new(move |_| Fate::Until(release));
        pipe.run_ms(2_000);
        assert!(pipe.count(0, "timeouts") >= 1);
        assert!(pipe.count(0, "spurious_timeouts") >= 1, "timestamps {timestamps}");
        assert!(pipe.count(0, "retransmissions") <= 4, "{}", pipe.count(0, "retransmissions"));
        assert!(pipe.ends[0].cwnd() >= before, "{} < {before}", pipe.ends[0].cwnd());
    }
}

#[test]
fn a_real_time_out_is_not_undone() {
    let mut pipe = Pipe::new(&TcpConfig::linux(), at_rate(10.0), 20, 1_000);
    pipe.saturate();
    pipe.run_ms(300);
    let until = pipe.now + Duration::from_millis(600);
    pipe.ways[0].fate =
        Box::new(move |shot| if shot.now < until { Fate::Lost } else { Fate::Pass });
    pipe.run_ms(2_000);
    assert!(pipe.count(0, "timeouts") >= 1);
    assert_eq!(pipe.count(0, "spurious_timeouts"), 0);
    assert!(pipe.ends[0].sender.window.ssthresh < 1_000);
}

#[test]
fn prr_sends_on_while_it_reduces() {
    let mut pipe = Pipe::new(&windowed(200), at_rate(10.0), 40, 1_000);
    pipe.saturate();
    pipe.run_ms(1_000);
    let window = pipe.ends[0].cwnd();
    let lost = pipe.ways[0].with_payload + 1;
    pipe.ways[0].fate =
        Box::new(move |shot| if shot.number == lost { Fate::Lost } else { Fate::Pass });
    while pipe.ends[0].sender.state != sender::State::Recovery {
        pipe.run_ms(1);
        assert!(pipe.now < Instant::from_nanos(20_000_000_000));
    }
    let before = pipe.ways[0].with_payload;
    while pipe.ends[0].sender.state == sender::State::Recovery {
        pipe.run_ms(1);
    }
    let sent = pipe.ways[0].with_payload - before;
    let half = u64::from(window / 2);
    assert!(sent * 10 >= half * 8, "{sent} segments sent in recovery, half a window is {half}");
    assert_eq!(pipe.count(0, "timeouts"), 0);
    assert_eq!(pipe.ends[0].cwnd(), pipe.ends[0].sender.window.ssthresh);
}

/// How long recovery from three losses in one window takes, in ms, and its retransmissions.
fn three_losses(config: &TcpConfig) -> (u64, u64) {
    let mut pipe = Pipe::new(config, at_rate(10.0), 50, 1_000);
    pipe.ways[0].fate = lose(&[30, 32, 34]);
    pipe.saturate();
    let mut recovering = 0;
    for _ in 0..4_000 {
        pipe.run_ms(1);
        recovering += u64::from(pipe.ends[0].sender.state == sender::State::Recovery);
    }
    assert_eq!((pipe.count(0, "timeouts"), pipe.count(0, "fast_recoveries")), (0, 1));
    (recovering, pipe.count(0, "retransmissions"))
}

#[test]
fn sack_repairs_three_losses_in_one_round_trip_and_newreno_one_each() {
    let (sack, sack_resent) = three_losses(&TcpConfig::classic());
    let (reno, reno_resent) = three_losses(&newreno());
    assert_eq!((sack_resent, reno_resent), (3, 3));
    // A round trip is 100 ms and what the queue adds.
    assert!((100..=200).contains(&sack), "SACK recovers for {sack} ms");
    assert!(reno >= 2 * sack + 50, "NewReno recovers for {reno} ms, SACK for {sack} ms");
}

#[test]
fn reordering_is_learnt_and_then_costs_nothing() {
    let mut pipe = Pipe::new(&windowed(200), at_rate(20.0), 20, 1_000);
    pipe.saturate();
    // Each fiftieth segment overtaken by six others; later ones must not be repeated.
    pipe.ways[0].fate = Box::new(|shot| {
        let hit = shot.payload > 0 && shot.number % 50 == 49;
        if hit { Fate::Late(Duration::from_micros(4_000)) } else { Fate::Pass }
    });
    pipe.run_ms(3_000);
    let early = pipe.count(0, "retransmissions");
    assert!(pipe.count(0, "reorderings") > 0);
    pipe.run_ms(3_000);
    assert_eq!(pipe.count(0, "retransmissions"), early);
    assert_eq!(pipe.count(0, "timeouts"), 0);
}

#[test]
fn linux_without_sack_repairs_a_loss_without_a_time_out_and_halves_once() {
    let config = TcpConfig { sack: false, ..windowed(60) };
    let mut pipe = Pipe::new(&config, at_rate(10.0), 20, 1_000);
    pipe.ways[0].fate = lose(&[700, 705, 710]);
    pipe.saturate();
    pipe.run_ms(3_000);
    assert_eq!((pipe.count(0, "timeouts"), pipe.count(0, "loss_probes")), (0, 0));
    assert_eq!((pipe.count(0, "fast_recoveries"), pipe.count(0, "retransmissions")), (1, 3));
    assert_eq!(pipe.ends[0].sender.board.assumed, 0);
    let mbps = pipe.ends[1].delivered_bytes() as f64 * 8e-6 / 3.0;
    assert!(mbps > 8.5, "{mbps} Mb/s");
}

/// A sender in the midst of its work, and the time.
fn busy(config: &TcpConfig) -> (Pipe, Instant) {
    let mut pipe = Pipe::new(config, at_rate(10.0), 20, 1_000);
    pipe.saturate();
    pipe.run_ms(1_000);
    let now = pipe.now;
    (pipe, now)
}

#[test]
fn after_a_time_out_what_was_sent_of_late_is_not_lost_yet_with_sack_only() {
    // `tcp_timeout_mark_lost` goes by the round trip of RACK, which without SACK is never measured.
    for sack in [true, false] {
        let (mut pipe, now) = busy(&TcpConfig { sack, ..windowed(60) });
        let sender = &mut pipe.ends[0].sender;
        let out = sender.board.packets_out();
        sender.enter_loss(now);
        let lost = sender.board.lost_out;
        assert!(out > 30);
        assert_eq!(lost, if sack { 1 } else { out });
    }
}

#[test]
fn the_reordering_timer_is_set_by_acknowledgements_only() {
    // `tcp_rack_reo_timeout`: what is not late when it fires is left to the time-out.
    let (mut pipe, now) = busy(&windowed(60));
    let sender = &mut pipe.ends[0].sender;
    (sender.rack.sent, sender.rack.rtt) = (now, Duration::from_secs(9));
    sender.on_reorder_timer(now);
    assert!(matches!(sender.timer, Some((sender::Timer::Rto, _))), "{:?}", sender.timer);
    assert_eq!(sender.board.lost_out, 0);
}

#[test]
fn a_cut_is_undone_when_the_segment_that_ends_recovery_was_only_late() {
    // `tcp_try_undo_recovery` believes the timestamp, before the peer tells of the repetition.
    let mut pipe = Pipe::new(&TcpConfig::linux(), at_rate(10.0), 20, 100);
    pipe.ways[0].fate = Box::new(|shot| {
        let hit = shot.number == 25 && shot.repeated == 0;
        if hit { Fate::Late(Duration::from_millis(30)) } else { Fate::Pass }
    });
    pipe.write(&text(30 * 1_448, 1), false);
    while pipe.count(0, "undone_reductions") == 0 {
        pipe.run_ms(1);
        assert!(pipe.now < Instant::from_nanos(300_000_000));
    }
    assert_eq!((pipe.count(0, "fast_recoveries"), pipe.count(0, "timeouts")), (1, 0));
    assert_eq!(pipe.count(0, "dsacks"), 0);
}

#[test]
fn without_sack_a_needless_time_out_is_undone_but_its_recovery_goes_on() {
    // `tcp_try_undo_loss` opens the state for SACK and for F-RTO only.
    for sack in [true, false] {
        let (mut pipe, now) = busy(&TcpConfig { sack, ..windowed(60) });
        let sender = &mut pipe.ends[0].sender;
        let before = sender.window.cwnd;
        sender.enter_loss(now);
        sender.rack.undo_resent = Some(0);
        sender.on_ack_in_loss(&sender::Tally { una_advanced: true, ..Default::default() });
        let state = if sack { sender::State::Open } else { sender::State::Loss };
        assert_eq!((sender.state, sender.board.lost_out), (state, 0));
        assert_eq!(sender.window.cwnd, before);
    }
}

/// A bare acknowledgement of all up to `number`.
fn bare_ack(number: u64) -> sender::Ack {
    let window = 1 << 30;
    sender::Ack {
        number,
        window,
        sacks: [(0, 0); 4],
        sack_count: 0,
        echo: None,
        bare: true,
        echo_mark: false,
    }
}

#[test]
fn without_sack_duplicates_of_a_time_outs_recovery_are_forgotten_when_it_ends() {
    // `tcp_fastretrans_alert` falls from `TCP_CA_Loss` into the case of the other states.
    let (mut pipe, now) = busy(&TcpConfig { sack: false, ..windowed(60) });
    let sender = &mut pipe.ends[0].sender;
    sender.enter_loss(now);
    let end = sender.high_seq;
    sender.window_end += 1 << 20;
    while sender.nxt < end + 20 * 1_448 {
        sender.window.cwnd += 30;
        sender.next_segment(now, 0).expect("there is more to send");
    }
    sender.on_ack(now, &bare_ack(end - 1_448));
    (0..5).for_each(|_| assert!(sender.on_ack(now, &bare_ack(end - 1_448))));
    assert_eq!((sender.state, sender.board.assumed), (sender::State::Loss, 5));
    sender.on_ack(now, &bare_ack(end + 1_448));
    // They still indicate a loss, but do not reduce what is in flight any further.
    assert_eq!((sender.state, sender.board.assumed), (sender::State::Recovery, 0));
}

#[test]
fn without_sack_more_duplicates_than_segments_set_what_counts_as_reordering() {
    // `tcp_check_reno_reordering` sets it, be it higher or lower than before.
    let (mut pipe, now) = busy(&TcpConfig { sack: false, ..windowed(60) });
    let sender = &mut pipe.ends[0].sender;
    let una = sender.nxt - 2 * 1_448;
    sender.on_ack(now, &bare_ack(una));
    assert_eq!(sender.board.packets_out(), 2);
    (0..2).for_each(|_| assert!(sender.on_ack(now, &bare_ack(una))));
    assert_eq!(sender.rack.reordering, 2);
}

#[test]
fn without_anything_in_flight_duplicates_mean_nothing() {
    // `tcp_ack` looks no further then. A listening end gets one with the last segment of the
    // handshake.
    let (mut pipe, now) = busy(&TcpConfig { sack: false, ..windowed(60) });
    let sender = &mut pipe.ends[0].sender;
    let end = sender.nxt;
    sender.on_ack(now, &bare_ack(end));
    let before = (sender.rack.reordering, sender.rack.reordering_seen);
    (0..3).for_each(|_| assert!(sender.on_ack(now, &bare_ack(end))));
    assert_eq!((sender.rack.reordering, sender.rack.reordering_seen), before);
}

#[test]
fn the_end_of_a_stream_behind_a_hole_is_acknowledged_selectively() {
    let mut pipe = Pipe::new(&TcpConfig::linux(), at_rate(10.0), 20, 100);
    // After the lost segment, only the last segment of the stream follows.
    pipe.ways[0].fate = lose(&[1]);
    pipe.write(&text(3 * 1_448, 1), true);
    pipe.run_ms(250);
    assert_eq!(pipe.received[1].len(), 3 * 1_448);
    let counts = ["retransmissions", "loss_probes", "timeouts"].map(|name| pipe.count(0, name));
    assert_eq!(counts, [1, 0, 0]);
}

#[test]
fn what_is_left_of_the_window_waits_until_it_is_a_segment() {
    // 65,535 bytes are 45 segments and a rest.
    let mut pipe = Pipe::new(&TcpConfig::classic(), at_rate(100.0), 20, 1_000);
    let sizes = Rc::new(RefCell::new(BTreeSet::new()));
    let seen = Rc::clone(&sizes);
    pipe.ways[0].fate = Box::new(move |shot| {
        seen.borrow_mut().insert(shot.payload);
        Fate::Pass
    });
    pipe.saturate();
    pipe.run_ms(2_000);
    assert_eq!(sizes.borrow().len(), 2, "segments, and what has no payload: {sizes:?}");
}

#[test]
fn a_late_original_within_a_recovery_lets_new_data_go_and_no_more_repetitions() {
    // `tcp_try_undo_partial` while repetitions are out; the next acknowledgement lets them go on.
    let (mut pipe, now) = busy(&windowed(60));
    let sender = &mut pipe.ends[0].sender;
    let (head, una) = (sender.board.first_id(), sender.una);
    for id in head..head + 4 {
        sender.board.mark_lost(id);
    }
    sender.begin_undo();
    sender.begin_reduction();
    sender.state = sender::State::Recovery;
    sender.resend(now, head);
    sender.resend(now, head + 1);
    let late =
        sender::Ack { echo: Some(Instant::from_nanos(900_000_000)), ..bare_ack(una + 1_448) };
    let mut next_is_repeated = |ack: &sender::Ack| {
        assert!(sender.on_ack(now, ack));
        sender.window.cwnd = sender.board.in_flight() + 9;
        sender.next_segment(now, 0).expect("there is more to send").repeated
    };
    assert!(!next_is_repeated(&late));
    assert!(next_is_repeated(&bare_ack(una + 1_448)));
}

#[test]
fn newreno_takes_duplicates_for_a_loss_only_above_the_end_of_a_time_out() {
    // RFC 6582, 3.2: at its end they may be caused by needless retransmissions.
    let (mut pipe, now) = busy(&newreno());
    let sender = &mut pipe.ends[0].sender;
    sender.enter_loss(now);
    let end = sender.high_seq;
    sender.on_ack(now, &bare_ack(end));
    sender.window.cwnd = 9;
    while sender.next_segment(now, 0).is_some() {}
    (0..4).for_each(|_| assert!(sender.on_ack(now, &bare_ack(end))));
    assert_eq!(sender.state, sender::State::Open);
    sender.on_ack(now, &bare_ack(end + 1_448));
    (0..3).for_each(|_| assert!(sender.on_ack(now, &bare_ack(end + 1_448))));
    assert_eq!(sender.state, sender::State::Recovery);
}

#[test]
fn newreno_repairs_the_loss_of_the_very_first_segment_without_a_time_out() {
    let config = TcpConfig { initial_window: 10, ..newreno() };
    let mut pipe = Pipe::new(&config, at_rate(10.0), 20, 100);
    pipe.ways[0].fate = lose(&[0]);
    pipe.write(&text(8 * 1_448, 1), false);
    pipe.run_ms(3_000);
    assert_eq!((pipe.count(0, "timeouts"), pipe.count(0, "fast_recoveries")), (0, 1));
}
