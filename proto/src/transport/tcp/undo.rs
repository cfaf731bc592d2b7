//! Time-outs, and taking back what was needless: F-RTO (RFC 5682), timestamps (RFC 3522, RFC 4015)
//! and DSACK (RFC 3708), as `tcp_enter_loss`, `tcp_process_loss` and the `tcp_try_undo_*` do it.

use super::config::Recovery;
use super::congestion::Controller;
use super::recovery_rack::{REORDER_PERSIST, is_before_tick};
use super::sender::{Sender, State, Tally};
use crate::base::Instant;

impl Sender {
    /// The retransmission time-out: marks what is lost and cuts the window (`tcp_enter_loss`).
    pub(super) fn enter_loss(&mut self, now: Instant) {
        if self.board.front().is_some_and(|head| head.sacked) {
            self.board.forget_sacks();
        }
        let rack = self.recovery == Recovery::RackTlp;
        let head = self.board.first_id();
        for id in head..self.board.end_id() {
            // With RACK, what was sent within the last round trip is not lost yet.
            let segment = self.board.get(id);
            let recent = rack && id != head && now.since(segment.sent) < self.rack.rtt;
            if !segment.sacked && !recent {
                self.board.mark_lost(id);
            }
        }
        let fresh = self.state < State::Recovery;
        let whole = self.state <= State::Disorder;
        if whole || self.una >= self.high_seq || (self.state == State::Loss && self.timeouts == 0) {
            self.rack.prior_ssthresh = Some(self.current_threshold());
            self.rack.prior_cwnd = self.window.cwnd;
            let basis = self.reduction_basis();
            self.window.ssthresh = self.controller.threshold(basis, self.mss);
            self.begin_undo();
        }
        self.controller.on_timeout();
        self.note_reduction();
        self.window.cwnd = self.board.in_flight() + 1;
        self.window.count = 0;
        self.state = State::Loss;
        self.high_seq = self.nxt;
        self.rack.probe = false;
        self.rack.probe_end = None;
        self.rack.hold = false;
        self.rack.frto = rack && self.undo && (fresh || self.timeouts > 0);
    }

    /// `tcp_process_loss`: F-RTO, undo, or the end of a time-out's recovery.
    pub(super) fn on_ack_in_loss(&mut self, tally: &Tally) {
        let recovered = self.una >= self.high_seq;
        if tally.una_advanced && self.may_undo(Some(tally)) {
            return self.undo_loss();
        }
        if self.rack.frto {
            if tally.original && self.undo {
                return self.undo_loss();
            }
            if self.nxt > self.high_seq {
                self.rack.frto &= !(tally.sacked || tally.duplicate);
            } else if tally.una_advanced && !recovered {
                self.high_seq = self.nxt;
                if self.has_sendable() {
                    self.rack.hold = true;
                    return;
                }
                self.rack.frto = false;
            }
        }
        if recovered {
            self.undo_recovery();
        }
    }

    fn undo_loss(&mut self) {
        self.counts.spurious_timeouts += 1;
        self.undo_reduction(true);
        self.timeouts = 0;
        self.rack.frto = false;
        self.state = State::Open;
    }

    /// Whether what was repeated in this episode turned out to have arrived.
    fn may_undo(&self, tally: Option<&Tally>) -> bool {
        self.undo
            && self.rack.undo_marker.is_some()
            && (self.rack.undo_resent == Some(0)
                || tally.is_some_and(|tally| self.was_delayed(tally)))
    }

    fn was_delayed(&self, tally: &Tally) -> bool {
        self.rack.first_resent.is_some_and(|first| is_before_tick(tally.echo, first))
    }

    fn undo_reduction(&mut self, unmark: bool) {
        if unmark {
            self.board.unmark_lost();
        }
        if let Some(before) = self.rack.prior_ssthresh {
            self.window.cwnd = self.controller.undone(&self.window, self.rack.prior_cwnd);
            self.window.ssthresh = self.window.ssthresh.max(before);
        }
        self.rack.undo_marker = None;
        self.rack.advanced = true;
        self.counts.undone += 1;
    }

    pub(super) fn undo_recovery(&mut self) {
        if self.may_undo(None) {
            self.undo_reduction(false);
        } else {
            self.rack.window_persist = self.rack.window_persist.saturating_sub(1);
        }
        self.state = State::Open;
    }

    /// Returns whether nothing more is to be done with this acknowledgement.
    pub(super) fn undo_partial(&mut self, tally: &Tally) -> bool {
        if !(self.undo && self.rack.undo_marker.is_some() && self.was_delayed(tally)) {
            return false;
        }
        self.on_overtaken(Some(tally.una_before));
        if self.board.resent_out > 0 {
            return true;
        }
        self.undo_reduction(true);
        self.keep_open();
        false
    }

    pub(super) fn undo_dsack(&mut self) -> bool {
        if !self.may_undo(None) {
            return false;
        }
        self.rack.window_persist = (self.rack.window_persist + 1).min(REORDER_PERSIST);
        self.undo_reduction(false);
        true
    }
}
