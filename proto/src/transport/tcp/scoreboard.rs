//! What a sender knows of each segment in flight (RFC 6675, 3; RFC 8985, 5.2).
//!
//! Segments are kept in sequence order. Those that may still arrive are also linked in the order of
//! their last transmission (the thread), in which RACK looks at them. So neither an acknowledgement
//! nor a search for losses costs more than the segments that it changes.

use std::collections::{BTreeSet, VecDeque};

use crate::base::Instant;

/// The id of a segment: its place in the order of first transmission.
pub(super) type SegmentId = u64;
const NONE: SegmentId = u64::MAX;

/// One segment in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    /// Number of its first byte.
    pub(super) seq: u64,
    /// Payload in bytes.
    pub(super) length: u32,
    /// Whether it ends the stream.
    pub(super) fin: bool,
    /// When it was last transmitted.
    pub(super) sent: Instant,
    /// Segments that had been delivered when it was last transmitted.
    pub(super) delivered: u64,
    /// The peer has reported that it has the segment.
    pub(super) sacked: bool,
    /// Its last transmission counts as lost.
    pub(super) lost: bool,
    /// A retransmission is in flight.
    pub(super) resent: bool,
    /// It was retransmitted at least once.
    pub(super) ever_resent: bool,
    /// It is in one packet with the segment before it.
    joined: bool,
    threaded: bool,
    before: SegmentId,
    after: SegmentId,
}

impl Segment {
    /// The number behind the segment.
    pub(super) fn end(&self) -> u64 {
        self.seq + u64::from(self.length) + u64::from(self.fin)
    }
}

/// All segments in flight.
#[derive(Debug)]
pub(super) struct Scoreboard {
    segments: VecDeque<Segment>,
    first: SegmentId,
    /// Ends of the thread by transmission time.
    oldest: SegmentId,
    newest: SegmentId,
    /// Lost segments that are not retransmitted yet.
    waiting: BTreeSet<SegmentId>,
    /// Ranges that the peer has acknowledged selectively, in order and disjoint.
    ranges: Vec<(u64, u64)>,
    highest_sacked: SegmentId,
    pub(super) sacked_out: u32,
    pub(super) lost_out: u32,
    pub(super) resent_out: u32,
    /// Segments that must have arrived by the count of duplicate acknowledgements, without SACK; it
    /// is not known which.
    pub(super) assumed: u32,
    /// Segments that were ever marked lost.
    pub(super) lost_total: u64,
    /// Packets, of one or more segments, that contain all these segments.
    pub(super) packets: u32,
}

impl Scoreboard {
    pub(super) fn new() -> Self {
        Self {
            segments: VecDeque::new(),
            first: 0,
            oldest: NONE,
            newest: NONE,
            waiting: BTreeSet::new(),
            ranges: Vec::new(),
            highest_sacked: 0,
            sacked_out: 0,
            lost_out: 0,
            resent_out: 0,
            assumed: 0,
            lost_total: 0,
            packets: 0,
        }
    }

    /// Segments sent and not acknowledged cumulatively.
    pub(super) fn packets_out(&self) -> u32 {
        self.segments.len() as u32
    }

    /// Segments believed to be in the network (RFC 6675, "pipe").
    pub(super) fn in_flight(&self) -> u32 {
        (self.packets_out() + self.resent_out)
            .saturating_sub(self.sacked_out + self.lost_out + self.assumed)
    }

    pub(super) fn get(&self, id: SegmentId) -> &Segment {
        &self.segments[(id - self.first) as usize]
    }

    fn get_mut(&mut self, id: SegmentId) -> &mut Segment {
        &mut self.segments[(id - self.first) as usize]
    }

    pub(super) fn front(&self) -> Option<&Segment> {
        self.segments.front()
    }

    pub(super) fn first_id(&self) -> SegmentId {
        self.first
    }

    pub(super) fn end_id(&self) -> SegmentId {
        self.first + self.segments.len() as u64
    }

    /// The first lost segment that waits for its retransmission.
    pub(super) fn next_waiting(&self) -> Option<SegmentId> {
        self.waiting.first().copied()
    }

    /// The highest segment that was acknowledged selectively, if there is one.
    pub(super) fn highest_sacked(&self) -> Option<&Segment> {
        (self.sacked_out > 0).then(|| self.get(self.highest_sacked))
    }

    /// Adds a segment that is transmitted for the first time; `joined` if it is in one packet with
    /// the one before.
    pub(super) fn push(
        &mut self,
        (seq, length, fin): (u64, u32, bool),
        now: Instant,
        delivered: u64,
        joined: bool,
    ) {
        let id = self.end_id();
        let joined = joined && !self.segments.is_empty();
        self.packets += u32::from(!joined);
        self.segments.push_back(Segment {
            seq,
            length,
            fin,
            sent: now,
            delivered,
            sacked: false,
            lost: false,
            resent: false,
            ever_resent: false,
            joined,
            threaded: false,
            before: NONE,
            after: NONE,
        });
        self.thread(id);
    }

    /// Notes a retransmission.
    pub(super) fn on_resent(&mut self, id: SegmentId, now: Instant, delivered: u64) {
        self.waiting.remove(&id);
        self.unthread(id);
        self.split(id);
        self.split(id + 1);
        let segment = self.get_mut(id);
        segment.sent = now;
        segment.delivered = delivered;
        segment.ever_resent = true;
        let again = std::mem::replace(&mut segment.resent, true);
        self.resent_out += u32::from(!again);
        self.thread(id);
    }

    /// A segment, if it is there, becomes the first of a packet.
    fn split(&mut self, id: SegmentId) {
        if id < self.end_id() && std::mem::take(&mut self.get_mut(id).joined) {
            self.packets += 1;
        }
    }

    /// Notes a retransmission that probes the path: the segment still counts once in flight.
    pub(super) fn on_probed(&mut self, id: SegmentId, now: Instant, delivered: u64) {
        self.split(id);
        self.split(id + 1);
        let segment = self.get_mut(id);
        segment.sent = now;
        segment.delivered = delivered;
        segment.ever_resent = true;
        if segment.threaded {
            self.unthread(id);
            self.thread(id);
        }
    }

    /// Whether something in flight was certainly retransmitted (`tcp_any_retrans_done`).
    pub(super) fn has_repeated(&self) -> bool {
        self.resent_out > 0 || self.front().is_some_and(|head| head.ever_resent)
    }

    /// Notes that the last transmission of a segment was lost; returns whether that was a
    /// retransmission.
    pub(super) fn mark_lost(&mut self, id: SegmentId) -> bool {
        let segment = self.get_mut(id);
        if segment.sacked {
            return false;
        }
        let again = std::mem::take(&mut segment.resent);
        let first = !std::mem::replace(&mut segment.lost, true);
        self.resent_out -= u32::from(again);
        self.lost_out += u32::from(first);
        self.lost_total += u64::from(first || again);
        self.unthread(id);
        self.waiting.insert(id);
        again
    }

    fn mark_sacked(&mut self, id: SegmentId) -> Segment {
        let before = *self.get(id);
        let segment = self.get_mut(id);
        segment.sacked = true;
        segment.lost = false;
        segment.resent = false;
        self.sacked_out += 1;
        self.resent_out -= u32::from(before.resent);
        if before.lost {
            self.lost_out -= 1;
            self.waiting.remove(&id);
        }
        if self.sacked_out == 1 || id > self.highest_sacked {
            self.highest_sacked = id;
        }
        self.unthread(id);
        before
    }

    /// Removes the first segment if it ends at or before `until`; shortens it if it straddles that.
    pub(super) fn pop_acked(&mut self, until: u64) -> Option<Segment> {
        let front = self.segments.front_mut()?;
        if front.end() > until {
            let cut = until.saturating_sub(front.seq).min(u64::from(front.length));
            front.seq += cut;
            front.length -= cut as u32;
            return None;
        }
        let id = self.first;
        self.unthread(id);
        self.waiting.remove(&id);
        // The rest of its packet is still one packet.
        self.split(id + 1);
        self.packets -= 1;
        let segment = self.segments.pop_front().expect("it was looked at");
        self.first += 1;
        self.sacked_out -= u32::from(segment.sacked);
        self.lost_out -= u32::from(segment.lost);
        self.resent_out -= u32::from(segment.resent);
        Some(segment)
    }

    /// Forgets ranges below the cumulative acknowledgement.
    pub(super) fn trim_ranges(&mut self, una: u64) {
        if self.ranges.first().is_some_and(|first| first.0 < una) {
            self.ranges.retain(|range| range.1 > una);
        }
    }

    /// Takes a SACK block, and passes each segment that it newly covers to `newly`, as it was
    /// before.
    pub(super) fn on_sack(&mut self, left: u64, right: u64, mut newly: impl FnMut(&Segment)) {
        let at = self.ranges.partition_point(|range| range.1 < left);
        if self.ranges.get(at).is_some_and(|range| range.0 <= left && range.1 >= right) {
            return;
        }
        let mut merged = (left, right);
        let mut end = at;
        while let Some(range) = self.ranges.get(end).filter(|range| range.0 <= right) {
            merged = (merged.0.min(range.0), merged.1.max(range.1));
            end += 1;
        }
        // The walk starts after the first old range, so that a growing block costs only what is
        // new.
        let start = match self.ranges.get(at) {
            Some(range) if at < end && range.0 <= left => range.1,
            _ => left,
        };
        self.ranges.splice(at..end, [merged]);
        let mut id = self.find(start);
        while id < self.end_id() && self.get(id).seq < right {
            let segment = self.get(id);
            if !segment.sacked && segment.seq >= merged.0 && segment.end() <= merged.1 {
                newly(&self.mark_sacked(id));
            }
            id += 1;
        }
    }

    /// The first segment that ends after `seq`.
    fn find(&self, seq: u64) -> SegmentId {
        self.first + self.segments.partition_point(|segment| segment.end() <= seq) as u64
    }

    /// The segment with the `count`th highest number among those acknowledged selectively.
    pub(super) fn sacked_from_top(&self, count: u32) -> Option<SegmentId> {
        let mut left = count.checked_sub(1).filter(|_| self.sacked_out >= count)?;
        let mut id = self.highest_sacked;
        while left > 0 {
            id -= 1;
            left -= u32::from(self.get(id).sacked);
        }
        Some(id)
    }

    /// Forgets all selective acknowledgements: the peer has revoked them.
    pub(super) fn forget_sacks(&mut self) {
        self.ranges.clear();
        self.sacked_out = 0;
        self.segments.iter_mut().for_each(|segment| segment.sacked = false);
        self.rethread();
    }

    /// Takes back all marks of loss.
    pub(super) fn unmark_lost(&mut self) {
        self.lost_out = 0;
        self.waiting.clear();
        self.segments.iter_mut().for_each(|segment| segment.lost = false);
        self.rethread();
    }

    /// The segment in flight that was transmitted longest ago.
    pub(super) fn oldest(&self) -> Option<SegmentId> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    /// The segment in flight that was transmitted after `id`.
    pub(super) fn sent_after(&self, id: SegmentId) -> Option<SegmentId> {
        let after = self.get(id).after;
        (after != NONE).then_some(after)
    }

    fn thread(&mut self, id: SegmentId) {
        let newest = std::mem::replace(&mut self.newest, id);
        if newest == NONE {
            self.oldest = id;
        } else {
            self.get_mut(newest).after = id;
        }
        let segment = self.get_mut(id);
        segment.threaded = true;
        segment.before = newest;
        segment.after = NONE;
    }

    fn unthread(&mut self, id: SegmentId) {
        let segment = self.get_mut(id);
        if !std::mem::take(&mut segment.threaded) {
            return;
        }
        let (before, after) = (segment.before, segment.after);
        if before == NONE {
            self.oldest = after;
        } else {
            self.get_mut(before).after = after;
        }
        if after == NONE {
            self.newest = before;
        } else {
            self.get_mut(after).before = before;
        }
    }

    /// Rebuilds the thread, for the rare events that bring segments back into it.
    fn rethread(&mut self) {
        (self.oldest, self.newest) = (NONE, NONE);
        let mut ids = Vec::with_capacity(self.segments.len());
        for id in self.first..self.end_id() {
            let segment = self.get_mut(id);
            segment.threaded = false;
            if !segment.sacked && (!segment.lost || segment.resent) {
                ids.push((segment.sent, id));
            }
        }
        ids.sort_unstable();
        ids.into_iter().for_each(|(_, id)| self.thread(id));
    }

    /// Whether counters and marks agree; for tests.
    #[cfg(test)]
    pub(super) fn is_consistent(&self) -> bool {
        let count = |f: fn(&Segment) -> bool| {
            self.segments.iter().filter(|segment| f(segment)).count() as u32
        };
        let threaded = std::iter::successors(self.oldest(), |id| self.sent_after(*id)).count();
        let waiting = count(|s| s.lost && !s.resent) as usize;
        count(|s| s.sacked) == self.sacked_out
            && count(|s| s.lost) == self.lost_out
            && count(|s| s.resent) == self.resent_out
            && waiting == self.waiting.len()
            && count(|s| s.threaded) as usize == threaded
            && count(|s| s.threaded == (s.sacked || (s.lost && !s.resent))) == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn board(segments: u64) -> Scoreboard {
        let mut board = Scoreboard::new();
        for k in 0..segments {
            board.push((1 + 100 * k, 100, false), Instant::from_nanos(k), 0, false);
        }
        board
    }

    #[test]
    fn a_growing_block_shows_only_what_is_new() {
        let mut board = board(10);
        let mut seen = Vec::new();
        board.on_sack(201, 301, |s| seen.push(s.seq));
        board.on_sack(201, 401, |s| seen.push(s.seq));
        board.on_sack(201, 401, |s| seen.push(s.seq));
        board.on_sack(601, 701, |s| seen.push(s.seq));
        board.on_sack(101, 801, |s| seen.push(s.seq));
        assert_eq!(seen, [201, 301, 601, 101, 401, 501, 701]);
        assert_eq!((board.sacked_out, board.in_flight()), (7, 3));
        assert_eq!(board.sacked_from_top(3), Some(5));
        assert!(board.is_consistent());
    }

    #[test]
    fn a_retransmission_goes_to_the_end_of_the_thread() {
        let mut board = board(3);
        assert!(!board.mark_lost(0));
        assert_eq!((board.in_flight(), board.next_waiting()), (2, Some(0)));
        board.on_resent(0, Instant::from_nanos(9), 0);
        assert_eq!((board.in_flight(), board.next_waiting()), (3, None));
        assert_eq!(board.oldest(), Some(1));
        assert_eq!(board.sent_after(2), Some(0));
        assert!(board.mark_lost(0));
        assert!(board.is_consistent());
    }

    proptest! {
        #[test]
        fn counters_and_marks_agree_after_anything(
            steps in proptest::collection::vec((0_u8..7, 0_u64..12, 1_u64..5), 0..60),
        ) {
            let mut board = board(8);
            let mut now = 100;
            for (step, a, b) in steps {
                now += 1;
                let id = board.first_id() + a % u64::from(board.packets_out().max(1));
                let some = id < board.end_id();
                let base = board.front().map_or(1, |s| s.seq);
                match step {
                    0 => { let seq = 1 + 100 * board.end_id();
                        board.push((seq, 100, false), Instant::from_nanos(now), 0, false); }
                    1 if some && !board.get(id).sacked => { board.mark_lost(id); }
                    2 if some && !board.get(id).sacked => {
                        board.on_resent(id, Instant::from_nanos(now), 0); }
                    3 => { let end = 1 + 100 * board.end_id();
                        let left = (base + 100 * a + 37).min(end);
                        board.on_sack(left, (left + 100 * b).min(end), |_| {}); }
                    4 => { let end = 1 + 100 * board.end_id();
                        let until = (base + 55 * b).min(end);
                        while board.pop_acked(until).is_some() {}
                        board.trim_ranges(until); }
                    5 if a == 0 => board.unmark_lost(),
                    6 if a == 0 => board.forget_sacks(),
                    _ => {}
                }
                prop_assert!(board.is_consistent());
            }
        }
    }
}
