//! The source of a flow: payloads at a constant rate, or as many as there is room for.

use std::collections::VecDeque;

use super::{LEAST_BYTES, Made};
use crate::base::{Bitrate, Duration, Instant};

/// Payloads that wait for room below before the source at a constant rate drops.
pub(super) const MAX_BACKLOG: u64 = 64;
/// Payloads that a source without a rate gives at one moment; then it rests. What is below it may
/// drop all that it takes, as where there is no route, and never be full.
pub(super) const MOST_AT_ONCE: u32 = 1_024;
const REST: Duration = Duration::from_millis(1);

/// What a source is at.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) rate: Option<Bitrate>,
    pub(super) size: usize,
    /// Payload bytes still to send.
    pub(super) left: u64,
    /// When the next payload is due; without a rate the end of a rest.
    pub(super) due: Instant,
    /// Payloads given at one moment, where there is no rate.
    at_once: (Instant, u32),
    pub(super) started: bool,
    /// While it is paused: how long after that ends the next payload is due.
    pub(super) paused: Option<Duration>,
    /// When the first payload that waits for room was due, and those behind it.
    pub(super) ready: Option<Instant>,
    later: VecDeque<Instant>,
    pub(super) next: u64,
    pub(super) made: Made,
    pub(super) sent_bytes: u64,
    pub(super) sent: u64,
    pub(super) overflows: u64,
    pub(super) dropped_below: u64,
}

impl Source {
    /// A source that has not begun.
    pub(super) fn build(rate: Option<Bitrate>, size: usize, bytes: Option<u64>) -> Self {
        Self {
            rate,
            size,
            left: bytes.unwrap_or(u64::MAX),
            due: Instant::MAX,
            at_once: (Instant::ZERO, 0),
            started: false,
            paused: None,
            ready: None,
            later: VecDeque::new(),
            next: 0,
            made: Made::default(),
            sent_bytes: 0,
            sent: 0,
            overflows: 0,
            dropped_below: 0,
        }
    }

    /// Makes due payloads ready; those beyond the backlog are lost here.
    pub(super) fn advance(&mut self, now: Instant) {
        let Some(rate) = self.rate.filter(|_| self.paused.is_none()) else { return };
        if !self.started {
            (self.started, self.due) = (true, now);
        }
        while self.due <= now && self.left > 0 {
            self.left = self.left.saturating_sub(self.size as u64);
            if self.ready.is_none() {
                self.ready = Some(self.due);
            } else if self.backlog() < MAX_BACKLOG {
                self.later.push_back(self.due);
            } else {
                self.overflows += 1;
                self.next += 1;
                self.made.note(self.due, self.next);
            }
            self.due += rate.time(self.size as u64);
        }
        if self.left == 0 {
            self.due = Instant::MAX;
        }
    }

    /// Payloads that will be lost here once somebody looks, of those due by a time: a source
    /// without room is not asked.
    pub(super) fn overdue(&self, at: Instant) -> u64 {
        let Some(rate) = self.rate.filter(|_| self.due <= at) else { return 0 };
        let step = rate.time(self.size as u64);
        let due = at.since(self.due).div_duration(step) + 1;
        due.saturating_sub(MAX_BACKLOG - self.backlog())
    }

    /// Payloads that wait for room.
    fn backlog(&self) -> u64 {
        u64::from(self.ready.is_some()) + self.later.len() as u64
    }

    pub(super) fn is_ready(&self) -> bool {
        match self.rate {
            Some(_) => self.ready.is_some(),
            None => self.left > 0 && self.paused.is_none() && self.due == Instant::MAX,
        }
    }

    /// Counts what a source without a rate gives at one moment, and has it rest if that is much.
    fn count_at_once(&mut self, now: Instant) {
        let (at, count) = self.at_once;
        let count = if at == now { count + 1 } else { 1 };
        self.at_once = (now, count);
        if count >= MOST_AT_ONCE {
            self.due = now + REST;
        }
    }

    /// Sends nothing more. What waits for room is lost.
    pub(super) fn end(&mut self, now: Instant) {
        let lost = self.backlog();
        self.overflows += lost;
        self.next += lost;
        self.made.note(now, self.next);
        (self.left, self.ready, self.due) = (0, None, Instant::MAX);
        self.later.clear();
    }

    pub(super) fn take(&mut self, now: Instant) -> [u8; LEAST_BYTES] {
        let mut sent = now;
        if let Some(due) = self.ready.take() {
            (sent, self.ready) = (due, self.later.pop_front());
        } else {
            self.left = self.left.saturating_sub(self.size as u64);
            self.count_at_once(now);
        }
        let mut front = [0; LEAST_BYTES];
        front[..8].copy_from_slice(&self.next.to_be_bytes());
        front[8..].copy_from_slice(&sent.as_nanos().to_be_bytes());
        self.next += 1;
        self.made.note(now, self.next);
        self.sent += 1;
        self.sent_bytes += self.size as u64;
        front
    }
}
