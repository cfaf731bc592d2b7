//! What the plain link knows of a neighbour, and when the neighbour counts as gone.

use crate::base::{Dbm, Duration, Instant, NodeId, RadioId};
use crate::link::{NeighbourStatus, OTHER_LINK, share};

/// After this many failed packets in a row, a neighbour of which nothing is heard counts as gone.
const GONE: u8 = 4;
/// Packets that failed with fewer attempts than the radio has count only if nothing was heard for
/// this long. They may all have met one burst of a node that the neighbour hears and this one does
/// not. By that time, a HELLO of routing is missing as well.
const SILENT: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Neighbour {
    pub(super) heard: Option<Instant>,
    pub(super) acknowledged: Option<Instant>,
    pub(super) signal: Option<Dbm>,
    pub(super) sent_bytes: u64,
    pub(super) received_bytes: u64,
    pub(super) attempts: u64,
    pub(super) delivered: u64,
    /// Packets in a row that failed in all attempts of the radio, while nothing was heard of the
    /// neighbour; and packets that failed in fewer attempts.
    pub(super) failures: u8,
    short_failures: u8,
    /// Attempts of the former.
    failed_attempts: u32,
    pub(super) is_gone: bool,
    /// Whether its last frame belonged to another link protocol.
    pub(super) has_other_link: bool,
}

/// Two packets in a row that failed, in so many attempts together, are no coincidence. With fewer
/// attempts they may have met the ordinary losses of the link: a radio that tries each packet only
/// once loses two in a row all the time.
const DROWNED: u8 = 2;
const DROWNED_ATTEMPTS: u32 = 8;
/// The same for a single packet of a call.
pub(super) const CALL_ATTEMPTS: u8 = 4;

impl Neighbour {
    /// When it last gave a sign of life: a frame or an acknowledgement.
    pub(super) fn last_sign(&self) -> Option<Instant> {
        self.heard.max(self.acknowledged)
    }

    /// Whether it has given a sign of life, and has not counted as gone since.
    pub(super) fn is_up(&self) -> bool {
        self.last_sign().is_some() && !self.is_gone
    }

    /// A packet to it failed in so many attempts. Returns whether it counts as gone from now on.
    pub(super) fn on_failed(&mut self, now: Instant, attempts: u8, is_tried_fully: bool) -> bool {
        let failures = if is_tried_fully { &mut self.failures } else { &mut self.short_failures };
        *failures = failures.saturating_add(1);
        self.failed_attempts += if is_tried_fully { u32::from(attempts) } else { 0 };
        let is_silent = self.heard.is_none_or(|heard| heard + SILENT <= now);
        let short = if is_silent { self.short_failures } else { 0 };
        let is_gone = self.failures.saturating_add(short) >= GONE;
        is_gone && !std::mem::replace(&mut self.is_gone, is_gone)
    }

    /// Whether no packet reaches it, though it does not count as gone.
    pub(super) fn is_drowned(&self) -> bool {
        self.failures >= DROWNED && self.failed_attempts >= DROWNED_ATTEMPTS && !self.is_gone
    }

    /// Its status, with the key of the neighbour and the number of packets queued for it.
    pub(super) fn status(
        &self,
        now: Instant,
        (node, radio): (NodeId, RadioId),
        queue_packets: usize,
    ) -> NeighbourStatus {
        let loss = share(self.attempts - self.delivered, self.attempts);
        NeighbourStatus {
            kind: None,
            node,
            radio,
            up: self.is_up(),
            heard_ago: self.last_sign().map(|sign| now.since(sign)),
            sync_error_ns: None,
            loss,
            loss_so_far: loss,
            coding_rate: 0.0,
            has_bursts: None,
            classes: Vec::new(),
            queue_packets,
            sent_bytes: self.sent_bytes,
            received_bytes: self.received_bytes,
            signal_dbm: self.signal.map(|signal| signal.as_f64()),
            refused: self.has_other_link.then(|| OTHER_LINK.into()),
        }
    }

    /// It is there. Returns whether it counted as gone.
    pub(super) fn end_failures(&mut self) -> bool {
        (self.failures, self.short_failures, self.failed_attempts) = (0, 0, 0);
        std::mem::take(&mut self.is_gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_acknowledges_is_there_and_one_that_is_gone_is_not_up() {
        let start = Instant::ZERO;
        let mut neighbour = Neighbour::default();
        assert!(!neighbour.is_up());
        neighbour.acknowledged = Some(start + SILENT);
        neighbour.heard = Some(start);
        assert!(neighbour.is_up());
        assert_eq!(neighbour.last_sign(), Some(start + SILENT));
        for _ in 0..GONE {
            neighbour.on_failed(start + SILENT, 7, true);
        }
        assert!(!neighbour.is_up());
        neighbour.end_failures();
        assert!(neighbour.is_up());
    }

    #[test]
    fn two_packets_that_fail_in_a_row_are_drowned_unless_they_were_tried_little() {
        for (attempts, packets, is_drowned) in
            [(7, 1, false), (7, 2, true), (4, 2, true), (1, 3, false)]
        {
            let mut neighbour = Neighbour::default();
            (0..packets).for_each(|_| _ = neighbour.on_failed(Instant::ZERO, attempts, true));
            assert_eq!(neighbour.is_drowned(), is_drowned, "{packets} in {attempts} attempts each");
            neighbour.end_failures();
            neighbour.on_failed(Instant::ZERO, attempts, true);
            assert!(!neighbour.is_drowned(), "one reached it in between");
        }
    }
}
