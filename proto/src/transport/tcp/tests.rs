//! Two ends joined by a pipe in virtual time, with delay, a bottleneck, a queue and loss.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use proptest::prelude::*;

use super::*;
use crate::base::{Bitrate, NodeId, Seed};

const FLOW: FlowId = FlowId(7);

/// A packet that enters the pipe.
struct Shot {
    /// How many packets with payload went this way before.
    number: u64,
    payload: usize,
    /// How many packets repeated old numbers so far, if this one does; else 0.
    repeated: u64,
    now: Instant,
}

/// What becomes of a packet: nothing, an added delay, no arrival before some time, or loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Pass,
    Late(Duration),
    Until(Instant),
    Lost,
}

struct Direction {
    rate: Option<Bitrate>,
    delay: Duration,
    queue: usize,
    fate: Box<dyn FnMut(&Shot) -> Fate>,
    leaving: VecDeque<Instant>,
    packets: u64,
    with_payload: u64,
    repeated: u64,
    highest: Option<Seq>,
    overflows: u64,
}

impl Direction {
    fn new(rate: Option<Bitrate>, delay: Duration, queue: usize) -> Self {
        Self {
            rate,
            delay,
            queue,
            fate: Box::new(|_| Fate::Pass),
            leaving: VecDeque::new(),
            packets: 0,
            with_payload: 0,
            repeated: 0,
            highest: None,
            overflows: 0,
        }
    }

    /// When the packet arrives, if it does.
    fn carry(&mut self, now: Instant, packet: &[u8]) -> Option<Instant> {
        let (header, range) = tcp::decode(packet).expect("we send whole segments");
        let old = self.highest.is_some_and(|seq| !header.seq.is_after(seq)) && !range.is_empty();
        self.repeated += u64::from(old);
        if !old && !range.is_empty() {
            self.highest = Some(header.seq);
        }
        let shot = Shot {
            number: self.with_payload,
            payload: range.len(),
            repeated: if old { self.repeated } else { 0 },
            now,
        };
        self.packets += 1;
        self.with_payload += u64::from(!range.is_empty());
        let fate = (self.fate)(&shot);
        if fate == Fate::Lost {
            return None;
        }
        while self.leaving.front().is_some_and(|at| *at <= now) {
            self.leaving.pop_front();
        }
        if self.leaving.len() >= self.queue {
            self.overflows += 1;
            return None;
        }
        let mut at = now;
        if let Some(rate) = self.rate {
            at = self.leaving.back().map_or(now, |last| now.max(*last));
            at += rate.time(packet.len() as u64);
            self.leaving.push_back(at);
        }
        match fate {
            Fate::Late(extra) => Some(at + self.delay + extra),
            Fate::Until(release) => Some((at + self.delay).max(release)),
            Fate::Pass | Fate::Lost => Some(at + self.delay),
        }
    }
}

/// A packet on its way: when it arrives, a number to keep the order, which way, and its bytes.
type Flying = Reverse<(Instant, u64, usize, Bytes)>;

struct Pipe {
    now: Instant,
    ends: [Tcp; 2],
    ways: [Direction; 2],
    flying: BinaryHeap<Flying>,
    number: u64,
    events: [Vec<MessageUp>; 2],
    received: [Vec<u8>; 2],
    keep: bool,
    /// Bytes that the application of end 0 still has to write; `u64::MAX` never ends.
    to_write: u64,
    text: Bytes,
    max_cwnd: u32,
}

fn end(flow: FlowId, own: u8, peer: u8) -> FlowEnd {
    FlowEnd {
        flow,
        to: NodeId(peer.into()),
        local: SocketAddrV4::new([10, 66, 0, own].into(), 5_000),
        remote: SocketAddrV4::new([10, 66, 0, peer].into(), 5_000),
    }
}

impl Pipe {
    fn new(config: &TcpConfig, rate: Option<Bitrate>, delay_ms: u64, queue: usize) -> Self {
        let delay = Duration::from_millis(delay_ms);
        Self {
            now: Instant::from_nanos(5_000_000),
            ends: [
                Tcp::connect(config.clone(), end(FLOW, 1, 2)),
                Tcp::listen(config.clone(), end(FLOW, 2, 1)),
            ],
            ways: [Direction::new(rate, delay, queue), Direction::new(rate, delay, queue)],
            flying: BinaryHeap::new(),
            number: 0,
            events: [Vec::new(), Vec::new()],
            received: [Vec::new(), Vec::new()],
            keep: true,
            to_write: 0,
            text: Bytes::new(),
            max_cwnd: 0,
        }
    }

    fn write(&mut self, bytes: &[u8], finish: bool) {
        let payload = Bytes::copy_from_slice(bytes);
        let message = Message { flow: FLOW, payload, finish };
        self.ends[0].handle_tx(&mut Cx::new(self.now), message);
    }

    /// A source that always has more.
    fn saturate(&mut self) {
        self.to_write = u64::MAX;
        self.text = Bytes::from_static(&[0x5a; 16_384]);
        self.keep = false;
    }

    fn settle(&mut self) {
        let mut cx = Cx::new(self.now);
        for side in 0..2 {
            loop {
                if side == 0 && self.to_write > 0 && !self.ends[0].room(Lane::default()).is_none() {
                    let take = self.to_write.min(self.text.len() as u64) as usize;
                    let payload = self.text.slice(..take);
                    self.to_write -= if self.to_write == u64::MAX { 0 } else { take as u64 };
                    let finish = self.to_write == 0;
                    self.ends[0].handle_tx(&mut cx, Message { flow: FLOW, payload, finish });
                }
                let Some(datagram) = self.ends[side].poll_tx(&mut cx, &|_| Room::UNLIMITED) else {
                    break;
                };
                assert_eq!(datagram.flow, ip::flow(&datagram.payload));
                if let Some(at) = self.ways[side].carry(self.now, &datagram.payload) {
                    self.number += 1;
                    self.flying.push(Reverse((at, self.number, 1 - side, datagram.payload)));
                }
            }
            while let Some(event) = self.ends[side].poll_rx(&mut cx) {
                match event {
                    MessageUp::Received { payload, .. } if self.keep => {
                        self.received[side].extend_from_slice(&payload);
                    }
                    MessageUp::Received { .. } => {}
                    event => self.events[side].push(event),
                }
            }
            // Too slow for the long measurements, which keep nothing.
            assert!(!self.keep || self.ends[side].sender.board.is_consistent());
        }
        self.max_cwnd = self.max_cwnd.max(self.ends[0].cwnd());
    }

    /// Runs until `until`, or until nothing is left to happen.
    fn run(&mut self, until: Instant) {
        loop {
            self.settle();
            let arrival = self.flying.peek().map(|Reverse(next)| next.0);
            let timers = self.ends.iter().filter_map(Tcp::poll_timeout);
            let Some(next) = timers.chain(arrival).min().filter(|next| *next <= until) else {
                self.now = until;
                return;
            };
            self.now = self.now.max(next);
            let mut cx = Cx::new(self.now);
            for end in &mut self.ends {
                end.handle_timeout(&mut cx);
                assert!(end.poll_timeout().is_none_or(|due| due > self.now));
            }
            while self.flying.peek().is_some_and(|Reverse(next)| next.0 <= self.now) {
                let Reverse((.., side, payload)) = self.flying.pop().expect("it was there");
                assert!(
                    self.ends[side].accepts(&payload) && !self.ends[1 - side].accepts(&payload)
                );
                let via = NodeId(9);
                self.ends[side].handle_rx(&mut cx, DatagramUp::Received { via, payload });
            }
        }
    }

    fn run_ms(&mut self, ms: u64) {
        self.run(self.now + Duration::from_millis(ms));
    }

    fn count(&self, side: usize, name: &str) -> u64 {
        self.ends[side].status().counters[name]
    }
}

fn text(length: usize, seed: u64) -> Vec<u8> {
    let mut random = Seed(seed).stream("text");
    (0..length).map(|_| random.next_u64() as u8).collect()
}

/// Linux with a receive window of so many segments, which a queue can hold.
fn windowed(segments: u64) -> TcpConfig {
    TcpConfig { window_bytes: segments * 1_448, ..TcpConfig::linux() }
}

fn at_rate(mbps: f64) -> Option<Bitrate> {
    Some(Bitrate::from_mbps(mbps))
}

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
    assert_eq!(pipe.ways[0].packets, 7);
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
        let event = DatagramUp::Received { via: NodeId(1), payload };
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
        seed in any::<u64>(), loss in 0.0..0.05_f64, burst in 1_u64..6, recovery in 0..3,
    ) {
        let config = match recovery {
            0 => TcpConfig::linux(),
            1 => TcpConfig::classic(),
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
        let event = DatagramUp::Received { via: NodeId(1), payload };
        pipe.ends[0].handle_rx(&mut Cx::new(pipe.now), event);
        pipe.run_ms(3_000);
    }
}

/// Loses the packets with payload of these numbers, once each.
fn lose(numbers: &'static [u64]) -> Box<dyn FnMut(&Shot) -> Fate> {
    Box::new(|shot| {
        let hit = shot.payload > 0 && numbers.contains(&shot.number);
        if hit { Fate::Lost } else { Fate::Pass }
    })
}

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
fn a_lost_tail_is_repaired_by_a_probe() {
    let mut pipe = Pipe::new(&TcpConfig::linux(), at_rate(10.0), 20, 100);
    pipe.ways[0].fate = lose(&[9]);
    pipe.write(&text(10 * 1_448, 1), false);
    pipe.run_ms(390);
    assert_eq!(pipe.received[1].len(), 10 * 1_448);
    assert_eq!((pipe.count(0, "loss_probes"), pipe.count(0, "timeouts")), (1, 0));
    // The next acknowledgement tells that the probe repaired a loss, which costs half the window.
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
fn a_lost_retransmission_is_found_without_a_time_out() {
    let mut pipe = Pipe::new(&windowed(800), at_rate(20.0), 20, 2_000);
    pipe.saturate();
    pipe.run_ms(160);
    // The segment that leaves 5 from now, and its repetition, which is the first packet that is
    // sent twice: both are lost.
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
        // For 600 ms the path holds everything back, then lets it go in order.
        let release = pipe.now + Duration::from_millis(600);
        pipe.ways[0].fate = Box::new(move |_| Fate::Until(release));
        pipe.run_ms(900);
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
    let mut pipe = Pipe::new(&TcpConfig::linux(), None, 5, 1_000);
    pipe.run_ms(50);
    for _ in 0..16 {
        pipe.write(b"quick", false);
        pipe.run_ms(11);
        assert_eq!(pipe.ends[0].sender.board.packets_out(), 0);
    }
    pipe.write(b"slow", false);
    pipe.run_ms(44);
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

fn newreno() -> TcpConfig {
    TcpConfig { sack: false, recovery: Recovery::NewReno, ..TcpConfig::classic() }
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
fn without_probes_a_lost_tail_costs_a_time_out() {
    let mut pipe = Pipe::new(&TcpConfig::classic(), at_rate(10.0), 20, 100);
    pipe.ways[0].fate = lose(&[9]);
    pipe.write(&text(10 * 1_448, 1), false);
    pipe.run_ms(2_000);
    assert_eq!(pipe.received[1].len(), 10 * 1_448);
    assert_eq!((pipe.count(0, "timeouts"), pipe.count(0, "loss_probes")), (1, 0));
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

/// Goodput over `secs` seconds after one of warm-up, in Mb/s.
fn goodput(pipe: &mut Pipe, secs: u64) -> f64 {
    pipe.run_ms(1_000);
    let before = pipe.ends[1].delivered_bytes();
    pipe.run_ms(secs * 1_000);
    (pipe.ends[1].delivered_bytes() - before) as f64 * 8e-6 / secs as f64
}

#[test]
fn a_pipe_of_10_mbps_and_40_ms_is_kept_full() {
    for config in [TcpConfig::linux(), TcpConfig::classic()] {
        let mut pipe = Pipe::new(&config, at_rate(10.0), 20, 64);
        pipe.saturate();
        let got = goodput(&mut pipe, 20);
        assert!(got >= 9.0, "{got} Mb/s with {:?}", config.recovery);
        assert!(pipe.count(0, "timeouts") <= 1);
    }
}

#[test]
fn goodput_follows_the_inverse_root_of_the_loss() {
    // Mathis et al. (1997): MSS/RTT * C/sqrt(p), C = sqrt(3/2) when each segment is acknowledged
    // and sqrt(3/4) with delayed acknowledgements counted as one; Linux counts segments. Random
    // loss and recovery take a part of that: a band of -35% to +15% is accepted.
    let run = |p: f64| -> f64 {
        let mut pipe = Pipe::new(&TcpConfig::linux(), at_rate(1_000.0), 25, 10_000);
        pipe.saturate();
        let mut random = Seed(4).stream("mathis");
        pipe.ways[0].fate =
            Box::new(move |_| if random.chance(p) { Fate::Lost } else { Fate::Pass });
        goodput(&mut pipe, 60)
    };
    for p in [0.0025_f64, 0.01] {
        let model = 1_448.0 * 8e-6 / 0.05 * (1.5 / p).sqrt();
        let got = run(p);
        assert!((0.65..1.15).contains(&(got / model)), "{got} Mb/s at {p}, model {model}");
    }
}

#[test]
fn an_application_limited_flow_does_not_grow_its_window() {
    let mut pipe = Pipe::new(&TcpConfig::linux(), at_rate(100.0), 20, 1_000);
    for _ in 0..200 {
        pipe.write(&text(2_000, 1), false);
        pipe.run_ms(10);
    }
    // Two round trips of what it writes, not the hundreds that slow start would have reached.
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
    assert_eq!(written, TcpConfig::linux().unsent_bytes);
}

#[test]
fn a_window_smaller_than_a_segment_is_used() {
    let config = TcpConfig { window_bytes: 500, ..TcpConfig::linux() };
    let mut pipe = Pipe::new(&config, None, 5, 100);
    pipe.write(&text(20_000, 1), true);
    pipe.run_ms(20_000);
    assert_eq!(pipe.received[1], text(20_000, 1));
}

/// Segments a second through both ends, in wall time: `cargo test --release -p farhop-proto
/// segments_per_second -- --ignored --nocapture`, timed from outside.
#[test]
#[ignore = "a measurement"]
fn segments_per_second() {
    for loss in [0.0, 0.01] {
        let mut pipe = Pipe::new(&TcpConfig::linux(), at_rate(400.0), 5, 300);
        pipe.saturate();
        let mut random = Seed(4).stream("speed");
        pipe.ways[0].fate =
            Box::new(move |_| if random.chance(loss) { Fate::Lost } else { Fate::Pass });
        pipe.run_ms(60_000);
        println!("loss {loss}: {} segments", pipe.ways[0].with_payload);
    }
}

/// Mean goodput in Mb/s, and mean smoothed round-trip time in ms, of some runs with loss on the
/// data's way only.
fn measured(mbps: f64, delay_ms: u64, loss: f64, secs: u64, seeds: u64) -> (f64, f64) {
    let (mut bytes, mut rtt) = (0.0, 0.0);
    for seed in 0..seeds {
        let mut pipe = Pipe::new(&TcpConfig::linux(), at_rate(mbps), delay_ms, 64);
        pipe.saturate();
        let mut random = Seed(seed).stream("loss");
        pipe.ways[0].fate = Box::new(move |shot| {
            let hit = random.chance(loss) && shot.payload > 0;
            if hit { Fate::Lost } else { Fate::Pass }
        });
        for _ in 0..secs {
            pipe.run_ms(1_000);
            rtt += pipe.ends[0].srtt().as_millis_f64();
        }
        bytes += pipe.ends[1].delivered_bytes() as f64;
    }
    let total = (secs * seeds) as f64;
    (bytes * 8e-6 / total, rtt / total)
}

#[test]
fn goodput_is_that_of_the_kernel() {
    // Linux 6.18, Reno, iperf3 between two namespaces over TUN devices with an emulator of this
    // pipe in user space (10 Mb/s, 2 x 20 ms, 64 packets, random loss of data). Means of one run of
    // 20 s, one and one of 100 s, two of 75 s (3.07 and 3.26), and three of 75 to 100 s (1.50,
    // 1.57, 1.64). Long means of ours, as its runs differ as much.
    for (loss, kernel, secs) in [
        (0.0, 9.606, 20),
        (0.001, 8.436, 100),
        (0.005, 4.756, 100),
        (0.01, 3.162, 200),
        (0.03, 1.569, 200),
    ] {
        let (got, rtt) = measured(10.0, 20, loss, secs, 2);
        let off = got / kernel - 1.0;
        println!("loss {loss}: {got:.3} Mb/s, kernel {kernel}, off {off:+.3}, {rtt:.1} ms");
        assert!(off.abs() <= 0.10, "{got} Mb/s at loss {loss}, the kernel {kernel}");
    }
}

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
fn each_controller_fills_a_clean_path() {
    for congestion in [Congestion::Reno, Congestion::Cubic, Congestion::Westwood] {
        let config = TcpConfig { congestion, ..TcpConfig::linux() };
        let mut pipe = Pipe::new(&config, at_rate(10.0), 20, 64);
        pipe.saturate();
        pipe.run_ms(20_000);
        let mbps = pipe.ends[1].delivered_bytes() as f64 * 8e-6 / 20.0;
        assert!(mbps > 9.2, "{congestion:?}: {mbps} Mb/s");
    }
}

#[test]
fn westwood_keeps_more_of_its_window_than_reno_under_random_loss() {
    let run = |congestion| {
        let config = TcpConfig { congestion, ..TcpConfig::linux() };
        let mut pipe = Pipe::new(&config, at_rate(10.0), 50, 200);
        pipe.saturate();
        let mut random = Seed(3).stream("loss");
        pipe.ways[0].fate =
            Box::new(move |_| if random.chance(0.005) { Fate::Lost } else { Fate::Pass });
        pipe.run_ms(60_000);
        pipe.ends[1].delivered_bytes() as f64 * 8e-6 / 60.0
    };
    let (reno, westwood) = (run(Congestion::Reno), run(Congestion::Westwood));
    assert!(westwood > 1.3 * reno, "Westwood+ {westwood} Mb/s, Reno {reno} Mb/s");
}

#[test]
fn hystart_leaves_slow_start_before_the_queue_overflows() {
    let run = |congestion| {
        let config = TcpConfig { congestion, ..TcpConfig::linux() };
        let mut pipe = Pipe::new(&config, at_rate(20.0), 40, 130);
        pipe.saturate();
        pipe.run_ms(700);
        pipe.ways[0].overflows
    };
    assert!(run(Congestion::Reno) > 20);
    assert_eq!(run(Congestion::Cubic), 0);
}
