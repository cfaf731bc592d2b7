//! What Snoop remembers of one direction of a connection.

use std::collections::VecDeque;

use crate::base::{Duration, Instant, Packet, Seq};

/// After this many retransmissions of a segment in a row without a new acknowledgement, the repair
/// is left to the ends of the connection.
const MOST_REPEATS: u32 = 10;

/// Whether an acknowledgement is passed on, and which segments are repeated.
#[derive(Debug)]
pub(super) struct Verdict {
    /// Whether it is passed on to the sender.
    pub(super) goes_on: bool,
    /// The segments to repeat, oldest first.
    pub(super) again: Vec<Packet>,
}

impl Verdict {
    fn pass() -> Self {
        Self { goes_on: true, again: Vec::new() }
    }
}

/// A segment that has not been acknowledged.
#[derive(Debug)]
struct Cached {
    seq: Seq,
    end: Seq,
    packet: Packet,
    /// When it was last given to the link.
    sent: Option<Instant>,
    repeats: u32,
    /// Whether it has arrived, behind a hole.
    is_sacked: bool,
}

/// One direction of one connection.
#[derive(Debug)]
pub(super) struct Flow {
    cache: VecDeque<Cached>,
    most: usize,
    acked: Option<Seq>,
    /// The receive window in the last acknowledgement.
    window: Option<u16>,
    /// End of what had been sent when a loss was noticed. A new acknowledgement below it shows the
    /// next hole at once; segments sent later may still be on their way (RFC 6582, 3.2).
    recover: Option<Seq>,
    rtt: Option<Duration>,
    least: Duration,
    pub(super) used: Instant,
}

impl Flow {
    pub(super) fn new(most: usize, least: Duration) -> Self {
        Self {
            cache: VecDeque::new(),
            most,
            acked: None,
            window: None,
            recover: None,
            rtt: None,
            least,
            used: Instant::ZERO,
        }
    }

    /// A segment is sent to the neighbour. If the sender repeats a cached one, that counts as a
    /// repeat.
    pub(super) fn on_data(&mut self, now: Instant, seq: Seq, end: Seq, packet: &Packet) {
        self.used = now;
        if self.acked.is_some_and(|acked| !end.is_after(acked)) {
            return;
        }
        let place = self.cache.iter().position(|cached| !cached.seq.is_before(seq));
        let cached =
            Cached { seq, end, packet: packet.clone(), sent: None, repeats: 0, is_sacked: false };
        match place {
            Some(place) if self.cache[place].seq == seq => {
                let repeats = self.cache[place].repeats;
                self.cache[place] = Cached { repeats: repeats + 1, ..cached };
            }
            _ if self.cache.len() >= self.most => {}
            Some(place) => self.cache.insert(place, cached),
            None => self.cache.push_back(cached),
        }
    }

    /// A segment is given to the link: its time is measured from here.
    pub(super) fn on_sent(&mut self, now: Instant, seq: Seq) {
        if let Some(cached) = self.cache.iter_mut().find(|cached| cached.seq == seq) {
            cached.sent = Some(now);
        }
    }

    /// Evaluates an acknowledgement from the neighbour, with its SACK blocks and its receive
    /// window. `is_bare` if it contains no data.
    pub(super) fn on_ack(
        &mut self,
        now: Instant,
        ack: Seq,
        sacks: &[(Seq, Seq)],
        window: u16,
        is_bare: bool,
    ) -> Verdict {
        self.used = now;
        // Without a SACK option, a duplicate shows a loss only if it does not update the window.
        // With one, it does not if the option only reports data that arrived twice.
        let is_update = self.window.replace(window) != Some(window);
        let tells_of_hole = match sacks {
            [] => !is_update,
            blocks => blocks.iter().any(|(_, right)| right.is_after(ack)),
        };
        let before = self.acked.unwrap_or_else(|| ack.sub(1));
        for cached in &mut self.cache {
            let within = |(left, right): &(Seq, Seq)| {
                !cached.seq.is_before(*left) && !cached.end.is_after(*right)
            };
            cached.is_sacked |= sacks.iter().any(within);
        }
        if ack.is_after(before) {
            self.acked = Some(ack);
            self.forget(now, ack);
            if self.recover.is_some_and(|recover| !ack.is_before(recover)) {
                self.recover = None;
            }
            let is_hole = self.recover.is_some() && self.has_first(ack);
            let again = if is_hole { self.holes(now) } else { Vec::new() };
            return Verdict { goes_on: true, again };
        }
        if ack.is_before(before) || !is_bare || !tells_of_hole || !self.has_first(ack) {
            return Verdict::pass();
        }
        if self.cache[0].repeats >= MOST_REPEATS {
            return Verdict::pass();
        }
        Verdict { goes_on: false, again: self.holes(now) }
    }

    /// The segment to repeat because no acknowledgement arrived for too long.
    pub(super) fn on_timeout(&mut self, now: Instant) -> Option<Packet> {
        if self.due() > now {
            return None;
        }
        self.repeat(now, 0)
    }

    /// When the first segment will have waited too long.
    pub(super) fn due(&self) -> Instant {
        let first = self.cache.front().filter(|first| first.repeats < MOST_REPEATS);
        let due =
            |first: &Cached| Some(first.sent? + self.patience() * u64::from(first.repeats + 1));
        first.and_then(due).unwrap_or(Instant::MAX)
    }

    fn patience(&self) -> Duration {
        self.rtt.map_or(self.least * 5, |rtt| (rtt * 2).max(self.least))
    }

    fn has_first(&self, seq: Seq) -> bool {
        self.cache.front().is_some_and(|first| first.seq == seq)
    }

    /// The segments to repeat: the first one, and the missing ones before one that has arrived.
    /// Duplicates continue until the repeated segments have arrived, so each is repeated only once
    /// in its time.
    fn holes(&mut self, now: Instant) -> Vec<Packet> {
        let patience = self.patience();
        let last = self.cache.iter().rposition(|cached| cached.is_sacked).unwrap_or(1);
        let is_missing = |cached: &Cached| {
            let is_due = |sent| cached.repeats == 0 || now.since(sent) >= patience;
            let is_due = cached.sent.is_some_and(is_due);
            !cached.is_sacked && cached.repeats < MOST_REPEATS && is_due
        };
        let of = |index: &usize| self.cache.get(*index).is_some_and(is_missing);
        let missing: Vec<usize> = (0..last).filter(of).collect();
        missing.into_iter().filter_map(|index| self.repeat(now, index)).collect()
    }

    fn repeat(&mut self, now: Instant, index: usize) -> Option<Packet> {
        let sent = self.cache.iter().rfind(|cached| cached.sent.is_some());
        self.recover = self.recover.or(sent.map(|sent| sent.end));
        let cached = self.cache.get_mut(index)?;
        (cached.sent, cached.repeats) = (Some(now), cached.repeats + 1);
        Some(cached.packet.clone())
    }

    /// Forgets acknowledged segments. Measures the round-trip time by the last one if it was sent
    /// once.
    fn forget(&mut self, now: Instant, ack: Seq) {
        while self.cache.front().is_some_and(|first| !first.end.is_after(ack)) {
            let Some(first) = self.cache.pop_front() else { return };
            if let Some(sent) = first.sent
                && first.repeats == 0
                && first.end == ack
            {
                let sample = now.since(sent);
                self.rtt = Some(self.rtt.map_or(sample, |rtt| (rtt * 7 + sample) / 8));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{EtherType, FlowId, NodeId, RadioId, TxOptions, UnitId};
    use bytes::Bytes;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn packet(id: u64) -> Packet {
        Packet {
            id: UnitId(id),
            radio: RadioId(0),
            to: Some(NodeId(2)),
            flow: FlowId(1),
            protocol: EtherType::IPV4,
            payload: Bytes::new(),
            options: TxOptions::default(),
            order: None,
        }
    }

    /// Segments of 100 bytes from 0 on, sent 1 ms apart.
    fn flow(segments: u32) -> Flow {
        let mut flow = Flow::new(64, Duration::from_millis(40));
        for index in 0..segments {
            let seq = Seq(index * 100);
            flow.on_data(at(0), seq, seq.add(100), &packet(index.into()));
            flow.on_sent(at(index.into()), seq);
        }
        flow
    }

    fn ack(flow: &mut Flow, ms: u64, ack: u32, sacks: &[(u32, u32)]) -> (bool, Vec<u64>) {
        let sacks: Vec<(Seq, Seq)> = sacks.iter().map(|(a, b)| (Seq(*a), Seq(*b))).collect();
        let Verdict { goes_on, again } = flow.on_ack(at(ms), Seq(ack), &sacks, 1000, true);
        (goes_on, again.iter().map(|packet| packet.id.0).collect())
    }

    #[test]
    fn a_duplicate_acknowledgement_brings_the_segment_once_and_stays_here() {
        let mut flow = flow(5);
        assert_eq!(ack(&mut flow, 10, 100, &[]), (true, vec![]));
        assert_eq!(ack(&mut flow, 11, 100, &[]), (false, vec![1]));
        assert_eq!(ack(&mut flow, 12, 100, &[]), (false, vec![]));
        let with_data = flow.on_ack(at(13), Seq(100), &[], 1000, false);
        assert!(with_data.goes_on, "it has data");
    }

    #[test]
    fn all_holes_before_what_has_arrived_are_filled_at_once() {
        let mut flow = flow(6);
        ack(&mut flow, 10, 100, &[]);
        assert_eq!(ack(&mut flow, 11, 100, &[(200, 300), (400, 500)]), (false, vec![1, 3]));
        assert_eq!(ack(&mut flow, 12, 100, &[(200, 300), (400, 600)]), (false, vec![]));
    }

    #[test]
    fn an_acknowledgement_up_to_the_next_hole_brings_that_too() {
        let mut flow = flow(5);
        ack(&mut flow, 10, 100, &[]);
        ack(&mut flow, 11, 100, &[]);
        assert_eq!(ack(&mut flow, 20, 300, &[]), (true, vec![3]));
        assert_eq!(ack(&mut flow, 30, 500, &[]), (true, vec![]));
        assert_eq!(flow.due(), Instant::MAX, "nothing is left");
    }

    #[test]
    fn what_is_sent_after_a_loss_was_noticed_is_no_hole() {
        let mut flow = flow(5);
        let later = |flow: &mut Flow, ms: u64, segments: std::ops::Range<u32>| {
            for index in segments {
                let seq = Seq(index * 100);
                flow.on_data(at(ms), seq, seq.add(100), &packet(index.into()));
            }
        };
        ack(&mut flow, 10, 100, &[]);
        later(&mut flow, 10, 5..8);
        assert_eq!(ack(&mut flow, 11, 100, &[]), (false, vec![1]));
        (5..8).for_each(|index| flow.on_sent(at(12), Seq(index * 100)));
        // Everything sent before has arrived, and the rest is on its way.
        assert_eq!(ack(&mut flow, 15, 500, &[]), (true, vec![]));
        assert_eq!(ack(&mut flow, 16, 600, &[]), (true, vec![]));
        assert_eq!(ack(&mut flow, 17, 600, &[]), (false, vec![6]), "that is a new loss");
    }

    #[test]
    fn a_window_or_a_copy_is_no_hole() {
        let mut flow = flow(5);
        ack(&mut flow, 10, 100, &[]);
        let update = flow.on_ack(at(11), Seq(100), &[], 2000, true);
        assert!(update.goes_on && update.again.is_empty());
        assert_eq!(ack(&mut flow, 12, 100, &[(0, 100)]), (true, vec![]), "that came twice");
    }

    #[test]
    fn silence_brings_the_first_segment_and_each_time_takes_longer() {
        let mut flow = flow(2);
        assert_eq!(flow.due(), at(200), "nothing was measured so far");
        assert!(flow.on_timeout(at(199)).is_none());
        assert_eq!(flow.on_timeout(at(200)).map(|packet| packet.id.0), Some(0));
        assert_eq!(flow.due(), at(600));
    }

    #[test]
    fn what_still_waits_to_be_sent_is_not_repeated() {
        let mut flow = flow(1);
        flow.on_data(at(5), Seq(100), Seq(200), &packet(1));
        assert_eq!(ack(&mut flow, 10, 100, &[]), (true, vec![]));
        assert_eq!(flow.due(), Instant::MAX);
        flow.on_sent(at(300), Seq(100));
        assert_eq!(flow.due(), at(340));
    }

    #[test]
    fn what_is_not_remembered_is_left_to_the_ends() {
        let mut flow = flow(2);
        ack(&mut flow, 10, 200, &[]);
        assert_eq!(ack(&mut flow, 11, 200, &[]), (true, vec![]));
    }
}
