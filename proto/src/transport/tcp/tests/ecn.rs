//! Explicit congestion notification.

use super::*;

/// Marks packets with payload when `hit` says so, and counts what was marked.
struct Marker {
    hit: fn(u64) -> bool,
    marked: u64,
}

/// Runs a saturated connection of `config` in which packets that can be marked are.
fn marked(config: &TcpConfig, hit: fn(u64) -> bool, ms: u64) -> (Pipe, Marker) {
    let mut pipe = Pipe::new(config, at_rate(10.0), 20, 1_000);
    pipe.saturate();
    let mut marker = Marker { hit, marked: 0 };
    let end = pipe.now + Duration::from_millis(ms);
    while pipe.now < end {
        let before = pipe.number;
        pipe.run_ms(1);
        let shots = std::mem::take(&mut pipe.flying).into_sorted_vec();
        for Reverse((at, number, side, payload)) in shots {
            let can = ip::ecn(&payload) == Ecn::Ect0 && number > before;
            let payload = if can && (marker.hit)(number) {
                marker.marked += 1;
                ip::with_ecn(payload, Ecn::Ce)
            } else {
                payload
            };
            pipe.flying.push(Reverse((at, number, side, payload)));
        }
    }
    (pipe, marker)
}

#[test]
fn a_mark_cuts_the_window_once_per_window_and_nothing_is_repeated() {
    let bases = [windowed(60), TcpConfig { window_bytes: 60 * 1_448, ..newreno() }];
    for base in bases {
        let config = TcpConfig { ecn: true, ..base };
        // Twice, many packets in a row are marked, all of one window.
        let hit = |number| number % 2_000 > 1_000 && number % 2_000 <= 1_040;
        let (mut pipe, marker) = marked(&config, hit, 3_000);
        pipe.run_ms(300);
        let (got, cuts) = (pipe.count(1, "marks_received"), pipe.count(0, "marks_obeyed"));
        assert!(marker.marked >= 20, "{}", marker.marked);
        assert_eq!(got, marker.marked);
        assert_eq!(cuts, 2, "for {got} marks");
        assert_eq!((pipe.count(0, "retransmissions"), pipe.count(0, "timeouts")), (0, 0));
        assert!(!pipe.ends[1].marks.ack_flags().has(Flags::ECE), "it was told of the cut");
        assert!(pipe.ends[0].sender.window.ssthresh < 60);
    }
}

#[test]
fn without_ecn_at_one_end_nothing_can_be_marked() {
    for (here, there) in [(true, false), (false, true), (true, true)] {
        let config = |ecn| TcpConfig { ecn, ..TcpConfig::linux() };
        let mut pipe = Pipe::new(&config(here), at_rate(10.0), 20, 100);
        pipe.ends[1] = Tcp::listen(config(there), end(FLOW, 2, 1));
        pipe.run_ms(100);
        assert_eq!(pipe.ends[0].marks.agreed, here && there);
        assert_eq!(pipe.ends[1].marks.agreed, here && there);
    }
}

#[test]
fn data_outside_the_window_marks_nothing_and_a_first_mark_is_told_twice() {
    let config = TcpConfig { ecn: true, ..windowed(60) };
    let mut pipe = Pipe::new(&config, None, 5, 100);
    pipe.run_ms(50);
    pipe.write(&[0; 1_448], false);
    let take = |pipe: &mut Pipe| {
        let sent = pipe.ends[0].poll_tx(&mut Cx::new(pipe.now), &|_| Room::UNLIMITED);
        ip::with_ecn(sent.expect("there is room").payload, Ecn::Ce)
    };
    let give = |pipe: &mut Pipe, payload: &Bytes| {
        let via = NodeId(9);
        let event = DatagramUp::Received { via, payload: payload.clone(), signal: None };
        pipe.ends[1].handle_rx(&mut Cx::new(pipe.now), event);
    };
    let first = take(&mut pipe);
    give(&mut pipe, &first);
    assert_eq!(pipe.count(1, "marks_received"), 1);
    assert!(pipe.ends[1].receiver.wants_ack() && pipe.ends[1].marks.ack_flags().has(Flags::ECE));
    pipe.run_ms(50);
    give(&mut pipe, &first);
    assert_eq!(pipe.count(1, "marks_received"), 1, "a copy of it counts for nothing");
}
