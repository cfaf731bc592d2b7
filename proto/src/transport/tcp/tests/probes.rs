//! Tail loss probes.

use super::*;

#[test]
fn a_lost_tail_is_repaired_by_a_probe() {
    let mut pipe = Pipe::new(&TcpConfig::linux(), at_rate(10.0), 20, 100);
    pipe.ways[0].fate = lose(&[9]);
    pipe.write(&text(10 * 1_448, 1), false);
    pipe.run_ms(390);
    assert_eq!(pipe.received[1].len(), 10 * 1_448);
    assert_eq!((pipe.count(0, "loss_probes"), pipe.count(0, "timeouts")), (1, 0));
    // The next acknowledgement reveals that the probe repaired a loss, which halves the window.
    let before = pipe.ends[0].cwnd();
    pipe.write(b"more", false);
    pipe.run_ms(100);
    assert_eq!(pipe.count(0, "loss_probe_recoveries"), 1);
    assert!(pipe.ends[0].cwnd() <= before / 2);
}

#[test]
fn a_lost_tail_of_many_segments_is_repaired_after_the_probe_by_sack() {
    let mut pipe = Pipe::new(&TcpConfig::linux(), at_rate(10.0), 20, 100);
    pipe.ways[0].fate = lose(&[5, 6, 7, 8, 9]);
    pipe.write(&text(10 * 1_448, 1), false);
    pipe.run_ms(500);
    assert_eq!(pipe.received[1].len(), 10 * 1_448);
    assert_eq!((pipe.count(0, "loss_probes"), pipe.count(0, "timeouts")), (1, 0));
}

#[test]
fn without_probes_a_lost_tail_costs_a_time_out() {
    let mut pipe = Pipe::new(&TcpConfig::classic(), at_rate(10.0), 20, 100);
    pipe.ways[0].fate = lose(&[9]);
    pipe.write(&text(10 * 1_448, 1), false);
    pipe.run_ms(2_000);
    assert_eq!(pipe.received[1].len(), 10 * 1_448);
    assert_eq!((pipe.count(0, "timeouts"), pipe.count(0, "loss_probes")), (1, 0));
}

/// Ten segments, of which the last is lost, and the first `losses` repetitions of it; returns the
/// times of the repetitions.
fn lost_tail(pipe: &mut Pipe, losses: u64, ms: u64) -> Vec<Instant> {
    let times = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let seen = times.clone();
    pipe.ways[0].fate = Box::new(move |shot| {
        if shot.repeated > 0 {
            seen.borrow_mut().push(shot.now);
        }
        let again = (1..=losses).contains(&shot.repeated);
        if again || (shot.payload > 0 && shot.number == 9) { Fate::Lost } else { Fate::Pass }
    });
    pipe.write(&text(10 * 1_448, 1), false);
    pipe.run_ms(ms);
    times.borrow().clone()
}

#[test]
fn after_a_probe_a_whole_time_out_is_waited() {
    // `tcp_send_loss_probe` sets the time-out from the probe on, not from the head's transmission.
    let mut pipe = Pipe::new(&TcpConfig::linux(), at_rate(10.0), 20, 100);
    let times = lost_tail(&mut pipe, 1, 900);
    assert_eq!((pipe.count(0, "loss_probes"), pipe.count(0, "timeouts")), (1, 1));
    let wait = times[1].since(times[0]);
    let whole = Duration::from_millis(240)..Duration::from_millis(300);
    assert!(whole.contains(&wait), "{wait:?}");
}

#[test]
fn a_probe_counts_once_in_flight_and_keeps_the_state_until_it_is_acknowledged() {
    // `__tcp_retransmit_skb` does not change the count of retransmissions; `tcp_any_retrans_done`
    // looks at the head.
    let mut pipe = Pipe::new(&TcpConfig::linux(), at_rate(10.0), 20, 100);
    lost_tail(&mut pipe, 1, 420);
    let now = pipe.now;
    let sender = &mut pipe.ends[0].sender;
    assert_eq!((sender.counts.probes, sender.counts.timeouts), (1, 0));
    assert_eq!((sender.board.resent_out, sender.board.in_flight()), (0, 1));
    sender.keep_open();
    assert_eq!(sender.state, sender::State::Disorder);
    assert!(!sender.schedule_probe(now, true), "there is none in disorder");
}
