//! An oracle for nodes that take turns on one channel: no frame may arrive at a node while it
//! sends, or in the part of its own slot in which it may send.
//!
//! It is told transmissions, send slots and arrivals, in true time, and judges an arrival once
//! everything that could overlap it has been told.

use std::collections::VecDeque;

use farhop_proto::base::{Duration, Instant};

/// How long spans are kept after their end.
const MEMORY: Duration = Duration::from_secs(1);

/// A span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    from: Instant,
    until: Instant,
}

impl Span {
    fn overlaps(&self, other: &Self) -> bool {
        self.from < other.until && other.from < self.until
    }
}

/// A frame that arrived at a forbidden time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its sender and its receiver.
    pub ends: [usize; 2],
    /// When it began to arrive.
    pub at: Instant,
    /// Why that was forbidden.
    pub why: Why,
}

/// Why a frame must not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The receiver was sending.
    Sending,
    /// The receiver was allowed to send: it was its slot.
    OwnSlot,
}

/// The oracle.
#[derive(Debug)]
pub struct SlotOracle {
    sent: Vec<VecDeque<Span>>,
    slots: Vec<VecDeque<Span>>,
    arrivals: VecDeque<([usize; 2], Span)>,
    /// Frames that arrived at a forbidden time.
    pub faults: Vec<Fault>,
    /// Number of frames judged.
    pub judged: u64,
}

impl SlotOracle {
    /// An oracle for this many nodes.
    pub fn new(nodes: usize) -> Self {
        Self {
            sent: vec![VecDeque::new(); nodes],
            slots: vec![VecDeque::new(); nodes],
            arrivals: VecDeque::new(),
            faults: Vec::new(),
            judged: 0,
        }
    }

    /// Records a transmission of a node.
    pub fn on_transmission(&mut self, node: usize, from: Instant, until: Instant) {
        remember(&mut self.sent[node], Span { from, until });
    }

    /// Records a time in which a node may send.
    pub fn on_slot(&mut self, node: usize, from: Instant, until: Instant) {
        remember(&mut self.slots[node], Span { from, until });
    }

    /// Records the arrival of a frame; `ends` are its sender and its receiver.
    pub fn on_arrival(&mut self, ends: [usize; 2], from: Instant, until: Instant) {
        self.arrivals.push_back((ends, Span { from, until }));
    }

    /// Judges all arrivals that ended before `now`; everything that happened until then has been
    /// told.
    pub fn judge_until(&mut self, now: Instant) {
        while let Some((ends, span)) = self.arrivals.front().copied() {
            if span.until >= now {
                return;
            }
            self.arrivals.pop_front();
            self.judged += 1;
            let hits = |spans: &VecDeque<Span>| spans.iter().any(|other| other.overlaps(&span));
            let to = ends[1];
            let why = match (hits(&self.sent[to]), hits(&self.slots[to])) {
                (true, _) => Why::Sending,
                (false, true) => Why::OwnSlot,
                (false, false) => continue,
            };
            self.faults.push(Fault { ends, at: span.from, why });
        }
    }
}

fn remember(spans: &mut VecDeque<Span>, span: Span) {
    while spans.front().is_some_and(|old| old.until + MEMORY < span.from) {
        spans.pop_front();
    }
    spans.push_back(span);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn a_frame_is_judged_by_what_its_receiver_did_meanwhile() {
        let mut oracle = SlotOracle::new(2);
        oracle.on_slot(1, at(10), at(20));
        oracle.on_arrival([0, 1], at(8), at(10));
        oracle.on_arrival([0, 1], at(19), at(21));
        oracle.on_transmission(1, at(30), at(32));
        oracle.on_arrival([0, 1], at(29), at(31));
        oracle.judge_until(at(21));
        assert_eq!((oracle.judged, oracle.faults.len()), (1, 0), "the others may still change");
        oracle.judge_until(at(40));
        let faults: Vec<_> = oracle.faults.iter().map(|fault| (fault.at, fault.why)).collect();
        assert_eq!(faults, [(at(19), Why::OwnSlot), (at(29), Why::Sending)]);
    }
}
