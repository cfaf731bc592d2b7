//! Two ends joined by a pipe in virtual time, with delay, a bottleneck, a queue and loss.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::*;
use crate::base::{Bitrate, NodeId, Seed};

mod acks;
mod connection;
mod ecn;
mod kernel;
mod kernel_receiver;
mod probes;
mod rates;
mod recovery;

const FLOW: FlowId = FlowId(7);

/// A packet that enters the pipe.
struct Shot {
    /// How many packets with payload went this way before.
    number: u64,
    payload: usize,
    push: bool,
    /// How many packets have repeated old numbers so far, including this one; 0 if this one does
    /// not.
    repeated: u64,
    now: Instant,
}

/// What happens to a packet: nothing, an added delay, no arrival before some time, or loss.
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
        assert!(packet.len() <= 1_500, "{} bytes", packet.len());
        let (header, range) = tcp::decode(packet).expect("we send whole segments");
        let old = self.highest.is_some_and(|seq| !header.seq.is_after(seq)) && !range.is_empty();
        self.repeated += u64::from(old);
        if !old && !range.is_empty() {
            self.highest = Some(header.seq);
        }
        let shot = Shot {
            number: self.with_payload,
            payload: range.len(),
            push: header.flags.has(Flags::PSH),
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

    /// A source that always has more to send.
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
                self.ends[side]
                    .handle_rx(&mut cx, DatagramUp::Received { via, payload, signal: None });
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

/// Linux with a receive window of so many segments, which fit into a queue.
fn windowed(segments: u64) -> TcpConfig {
    TcpConfig { window_bytes: segments * 1_448, ..TcpConfig::linux() }
}

fn at_rate(mbps: f64) -> Option<Bitrate> {
    Some(Bitrate::from_mbps(mbps))
}

/// Loses the packets with payload that have these numbers, once each.
fn lose(numbers: &'static [u64]) -> Box<dyn FnMut(&Shot) -> Fate> {
    Box::new(|shot| {
        let hit = shot.payload > 0 && numbers.contains(&shot.number);
        if hit { Fate::Lost } else { Fate::Pass }
    })
}

fn newreno() -> TcpConfig {
    TcpConfig { sack: false, recovery: Recovery::NewReno, ..TcpConfig::classic() }
}
