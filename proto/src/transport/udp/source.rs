//! The source of a UDP flow: payloads at a constant rate, or as many as there is room for.
//!
//! At a constant rate, a payload that finds no room when it is due is lost, as in a full interface
//! queue: nothing waits here before the queue of the link.

use std::collections::VecDeque;

use super::{LEAST_BYTES, Made};
use crate::base::{Bitrate, Duration, Instant};

/// Payloads that a source without a rate gives at one moment before it rests: the layer below may
/// drop all that it takes, for example because it is too long for the link, and so never be full.
pub(super) const MOST_AT_ONCE: u32 = 1_024;
const REST: Duration = Duration::from_millis(1);

/// State of a source.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) rate: Option<Bitrate>,
    pub(super) size: usize,
    /// Payload bytes still to send.
    pub(super) left: u64,
    /// When the next payload is due; without a rate, the end of a rest.
    pub(super) due: Instant,
    /// Payloads given at one moment, if there is no rate.
    at_once: (Instant, u32),
    pub(super) started: bool,
    /// While it is paused: time from the end of the pause to the next payload.
    pub(super) paused: Option<Duration>,
    /// Due times of the payloads that are ready to be sent.
    due_now: VecDeque<Instant>,
    /// A payload at a constant rate found no room. The source need not wake up for more: those that
    /// become due before there is room are lost.
    pub(super) is_blocked: bool,
    pub(super) next: u64,
    pub(super) made: Made,
    pub(super) sent_bytes: u64,
    pub(super) sent: u64,
    pub(super) overflows: u64,
}

impl Source {
    /// A source that has not started.
    pub(super) fn build(rate: Option<Bitrate>, size: usize, bytes: Option<u64>) -> Self {
        Self {
            rate,
            size,
            left: bytes.unwrap_or(u64::MAX),
            due: Instant::MAX,
            at_once: (Instant::ZERO, 0),
            started: false,
            paused: None,
            due_now: VecDeque::new(),
            is_blocked: false,
            next: 0,
            made: Made::default(),
            sent_bytes: 0,
            sent: 0,
            overflows: 0,
        }
    }

    /// Makes due payloads ready; after there was no room, those due before `now` are lost.
    pub(super) fn advance(&mut self, now: Instant) {
        let Some(rate) = self.rate.filter(|_| self.paused.is_none()) else { return };
        if !self.started {
            (self.started, self.due) = (true, now);
        }
        while self.due <= now && self.left > 0 {
            self.left = self.left.saturating_sub(self.size as u64);
            match self.is_blocked && self.due < now {
                true => self.lose(self.due, 1),
                false => self.due_now.push_back(self.due),
            }
            self.due += rate.time(self.size as u64);
        }
        if self.left == 0 {
            self.due = Instant::MAX;
        }
    }

    /// There is no room: payloads that are due are lost, and those that become due until there is
    /// room.
    pub(super) fn block(&mut self, now: Instant) {
        self.lose(now, self.due_now.len() as u64);
        self.due_now.clear();
        self.is_blocked = true;
    }

    fn lose(&mut self, at: Instant, count: u64) {
        self.overflows += count;
        self.next += count;
        self.made.note(at, self.next);
    }

    /// Payloads due by `at` that will count as lost once there is room again: a source without room
    /// is not polled.
    pub(super) fn overdue(&self, at: Instant) -> u64 {
        let is_late = self.is_blocked && self.due <= at;
        let Some(rate) = self.rate.filter(|_| is_late) else { return 0 };
        at.since(self.due).div_duration(rate.time(self.size as u64)) + 1
    }

    pub(super) fn is_ready(&self) -> bool {
        match self.rate {
            Some(_) => !self.due_now.is_empty(),
            None => self.left > 0 && self.paused.is_none() && self.due == Instant::MAX,
        }
    }

    /// Counts the payloads that a source without a rate gives at one moment, and makes it rest
    /// after many.
    fn count_at_once(&mut self, now: Instant) {
        let (at, count) = self.at_once;
        let count = if at == now { count + 1 } else { 1 };
        self.at_once = (now, count);
        if count >= MOST_AT_ONCE {
            self.due = now + REST;
        }
    }

    /// Sends nothing more. Payloads that were due and not sent are lost.
    pub(super) fn end(&mut self, now: Instant) {
        self.block(now);
        (self.left, self.due) = (0, Instant::MAX);
    }

    pub(super) fn take(&mut self, now: Instant) -> [u8; LEAST_BYTES] {
        let mut sent = now;
        if let Some(due) = self.due_now.pop_front() {
            sent = due;
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
