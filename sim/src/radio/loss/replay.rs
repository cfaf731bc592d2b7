//! Plays back a recording of losses by time.

use std::sync::Arc;

use farhop_proto::base::{Duration, Instant};
use farhop_proto::stack::{Fate, LossTrace};

/// A recording that is being played.
#[derive(Clone, Debug)]
pub(super) struct Replay {
    trace: Arc<LossTrace>,
    repeat: bool,
    /// When it begins; nothing is lost before.
    begin: Instant,
    /// Number of entries that have begun.
    passed: usize,
    /// The position in the recording at the last call.
    last: Option<Duration>,
}

impl Replay {
    pub(super) fn new(trace: Arc<LossTrace>, repeat: bool) -> Self {
        Self { trace, repeat, begin: Instant::ZERO, passed: 0, last: None }
    }

    pub(super) fn begin_at(&mut self, begin: Instant) {
        self.begin = begin;
    }

    pub(super) fn fate(&mut self, start: Instant) -> Fate {
        let length = self.trace.length();
        if start < self.begin {
            return Fate::Ok;
        }
        let mut at = start.since(self.begin);
        if at >= length {
            if !self.repeat || length.is_zero() {
                return Fate::Ok;
            }
            at = at % length;
        }
        let last = self.last.replace(at);
        if last.is_some_and(|last| at < last) {
            self.passed = 0;
        }
        let entries = self.trace.entries();
        let begin = |entry: usize| entries.get(entry).map(|(begin, _)| begin.since(Instant::ZERO));
        while begin(self.passed).is_some_and(|begin| begin < at) {
            self.passed += 1;
        }
        // Frames that take no time may be at the same instant, each with an entry of its own.
        if begin(self.passed) == Some(at) {
            self.passed += 1;
        }
        self.passed.checked_sub(1).map_or(Fate::Ok, |entry| entries[entry].1)
    }
}
