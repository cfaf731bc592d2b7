//! Recordings of TCP receivers of a Linux kernel in farhop's lab, replayed into ours: it has to
//! acknowledge what the kernel acknowledged, and when it did (`bench/kernel/record.sh`).
//!
//! The windows of these recordings do not grow, because Linux acknowledges a segment at once when
//! its window grows (`tcp_grow_window`): ours have their largest size from the start.

use std::collections::VecDeque;

use super::super::config::DelayedAck;
use super::super::receiver::{Pace, Receiver};
use super::super::rtt::RttEstimator;
use super::*;

/// How much earlier or later a timer of the kernel may fire: a tick.
const GRAIN: Duration = Duration::from_millis(5);

/// An acknowledgement: its number, and its islands.
type Told = (u64, Vec<(u64, u64)>);

/// Our receiver in the place of the kernel's.
struct Replay {
    receiver: Receiver,
    rtt: RttEstimator,
    /// What it sent and the recording has not shown yet.
    sent: VecDeque<Told>,
}

impl Replay {
    fn poll(&mut self, at: Instant) {
        if self.receiver.wants_ack() {
            let blocks = self.receiver.sack_blocks();
            let block = |(left, right): &(Seq, Seq)| (u64::from(left.0), u64::from(right.0));
            let blocks = blocks.as_slice().iter().map(block).collect();
            self.sent.push_back((u64::from(self.receiver.ack().0), blocks));
            self.receiver.on_ack_sent(at, false);
        }
    }

    /// Lets its timers run until `at`.
    fn run_until(&mut self, at: Instant) {
        while let Some(due) = self.receiver.poll_timeout().filter(|due| *due + GRAIN <= at) {
            self.receiver.handle_timeout(due);
            self.poll(due);
        }
    }

    fn on_data(&mut self, at: Instant, [left, bytes, echo, push]: [u64; 4]) {
        let ago = at.since(Instant::from_nanos(echo * TICK_NANOS));
        let echo = Some((echo as u32, ago.max(Duration::from_nanos(TICK_NANOS))));
        let (rto, rtt) = (self.rtt.rto(), self.rtt.smoothed());
        let pace = Pace { now: at, rto, rtt, echo, push: push == 1 };
        let left = self.receiver.place(Seq(left as u32));
        let right = left + bytes;
        if right < self.receiver.acked() {
            self.receiver.on_refused(left, right);
        } else {
            self.receiver.on_data(pace, left, Bytes::from(vec![0; bytes as usize]), false, |_| {});
        }
        self.poll(at);
    }

    /// The kernel sent this. If a timer of ours is about to send it, it fires now.
    fn on_kernel(&mut self, at: Instant, told: &Told) -> Result<(), String> {
        let is_due = |due: &Instant| *due <= at + GRAIN;
        if self.sent.is_empty() && self.receiver.poll_timeout().as_ref().is_some_and(is_due) {
            let due = self.receiver.poll_timeout().expect("it is due");
            self.receiver.handle_timeout(due.max(at));
            self.poll(at);
        }
        match self.sent.pop_front() {
            Some(ours) if ours == *told => Ok(()),
            ours => Err(format!("ours {ours:?}, the kernel's {told:?}")),
        }
    }
}

/// Replays a recording. Returns how many acknowledgements it has.
fn replay(config: &TcpConfig, text: &str) -> Result<usize, String> {
    let mut replay = Replay {
        receiver: Receiver::build(config),
        rtt: RttEstimator::build(config),
        sent: VecDeque::new(),
    };
    replay.receiver.on_syn(Seq(0), config.sack, true);
    let mut acknowledgements = 0;
    for (place, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |index: usize| words[index].parse::<u64>().expect("a number");
        let at = Instant::from_nanos(number(0) * 1_000);
        replay.run_until(at);
        let outcome = match words[1] {
            "S" => {
                let round = Duration::from_micros(number(2));
                replay.rtt.on_sample(round, ORIGIN, ORIGIN);
                Ok(())
            }
            "D" if !replay.sent.is_empty() => Err(format!("ours alone: {:?}", replay.sent)),
            "D" => {
                replay.on_data(at, [2, 3, 4, 5].map(number));
                Ok(())
            }
            "A" => {
                acknowledgements += 1;
                let end = |text: &str| text.parse::<u64>().expect("a number");
                let block = |text: &&str| {
                    let (left, right) = text.split_once('-').expect("two ends");
                    (end(left), end(right))
                };
                replay.on_kernel(at, &(number(2), words[3..].iter().map(block).collect()))
            }
            other => panic!("'{other}' is no kind of line"),
        };
        outcome
            .map_err(|why| format!("line {}, {line}: {why}\n{:?}", place + 1, replay.receiver))?;
    }
    Ok(acknowledgements)
}

#[test]
fn a_receiver_acknowledges_over_40_km_what_linux_does() {
    let text = include_str!("kernel/receiver-newreno-40km.txt");
    let config = TcpConfig { sack: false, ..TcpConfig::linux() };
    assert_eq!(replay(&config, text), Ok(1466));
    // Without quick acknowledgements, or with other delays, it would not match.
    let quick = DelayedAck { quick: 15, ..config.delayed_ack };
    assert!(replay(&TcpConfig { delayed_ack: quick, ..config.clone() }, text).is_err());
    let slow = DelayedAck { min: Duration::from_millis(60), ..config.delayed_ack };
    assert!(replay(&TcpConfig { delayed_ack: slow, ..config }, text).is_err());
}
