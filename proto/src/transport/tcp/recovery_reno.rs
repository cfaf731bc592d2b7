//! Linux without SACK: NewReno (RFC 6582) with an assumed number of arrived segments.
//!
//! Where RFC 6582 inflates the window for each duplicate acknowledgement, Linux subtracts a segment
//! from those in flight (`tcp_add_reno_sack`) and reduces the window in proportion, as with SACK.
//! There are no tail loss probes. Duplicates below the end of the last recovery do not begin a new
//! one.

use super::config::Recovery;
use super::recovery_rack::MAX_REORDERING;
use super::sender::{Sender, State, Tally};

impl Sender {
    pub(super) fn is_linux_reno(&self) -> bool {
        self.recovery == Recovery::LinuxReno
    }

    /// A duplicate means that one more segment has arrived after a hole.
    pub(super) fn assume_arrived(&mut self, duplicate: bool) {
        if !duplicate || !self.is_linux_reno() {
            return;
        }
        let before = self.board.assumed;
        self.board.assumed += 1;
        self.limit_assumed(0);
        self.delivered += u64::from(self.board.assumed.saturating_sub(before));
    }

    /// `acked` segments were acknowledged cumulatively. All but the head were assumed to have
    /// arrived, and those that counted as delivered then do not count again
    /// (`tcp_remove_reno_sacks`).
    pub(super) fn take_assumed(&mut self, acked: u32) {
        if acked == 0 || !self.is_linux_reno() {
            return;
        }
        let fresh = acked.saturating_sub(self.board.assumed).max(1);
        self.delivered -= u64::from(acked - fresh);
        self.board.assumed = self.board.assumed.saturating_sub(acked - 1);
        self.limit_assumed(acked);
    }

    /// No more segments can have arrived than were sent: what looks like more was reordering
    /// (`tcp_check_reno_reordering`).
    fn limit_assumed(&mut self, addend: u32) {
        let out = self.board.packets_out();
        let holes = self.board.lost_out.max(1).min(out);
        if self.board.assumed + holes > out {
            self.board.assumed = out - holes;
            // Set, not raised: with few segments in flight, two duplicates may then indicate a
            // loss.
            self.rack.reordering = (out + addend).min(MAX_REORDERING);
            self.rack.reordering_seen = true;
        }
    }

    /// `tcp_newreno_mark_lost`: marks the head after enough duplicates, or after a partial
    /// acknowledgement.
    pub(super) fn mark_head_lost(&mut self, tally: &Tally) {
        let enough = self.state < State::Recovery && self.board.assumed >= self.rack.reordering;
        let partial = self.state == State::Recovery && tally.una_advanced;
        let head = self.board.first_id();
        if (enough || partial) && head < self.board.end_id() && !self.board.get(head).lost {
            self.board.mark_lost(head);
        }
    }

    /// Whether recovery lasts until something above its end is acknowledged, so that duplicates
    /// caused by its retransmissions do not begin another one.
    pub(super) fn is_held_at_end(&self) -> bool {
        self.is_linux_reno() && self.una == self.high_seq
    }
}
