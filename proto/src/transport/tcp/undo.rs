//! Time-outs, and undoing needless reductions: F-RTO (RFC 5682), timestamps (RFC 3522, RFC 4015)
//! and DSACK (RFC 3708), as in `tcp_enter_loss`, `tcp_process_loss` and the `tcp_try_undo_*`.

use super::config::Recovery;
use super::congestion::Controller;
use super::recovery_rack::{REORDER_PERSIST, Repeat, is_before_tick};
use super::sender::{DUP_THRESH, Sender, State, Tally};
use crate::base::Instant;

impl Sender {
    /// The retransmission time-out: marks lost segments and reduces the window (`tcp_enter_loss`).
    pub(super) fn enter_loss(&mut self, now: Instant) {
        if self.board.front().is_some_and(|head| head.sacked) {
            self.board.forget_sacks();
        }
        let rack = matches!(self.recovery, Recovery::RackTlp | Recovery::LinuxReno);
        let timed = self.recovery == Recovery::RackTlp;
        self.board.assumed = 0;
        let head = self.board.first_id();
        for id in head..self.board.end_id() {
            // With RACK, segments that were sent within the last round trip are not lost yet.
            let segment = self.board.get(id);
            let recent = timed && id != head && now.since(segment.sent) < self.rack.rtt;
            if !segment.sacked && !recent {
                self.board.mark_lost(id);
            }
        }
        if self.state <= State::Disorder && self.board.sacked_out >= DUP_THRESH {
            self.rack.reordering = self.rack.reordering.min(DUP_THRESH);
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
        self.rack.repeat = Repeat::First;
        self.rack.frto = rack && self.undo && (fresh || self.timeouts > 0);
    }

    /// `tcp_process_loss`: F-RTO, undo, or the end of a time-out's recovery.
    pub(super) fn on_ack_in_loss(&mut self, tally: &Tally) {
        let recovered = self.una >= self.high_seq;
        if tally.una_advanced && self.may_undo(tally) {
            return self.undo_loss(false);
        }
        if self.rack.frto {
            if tally.original && self.undo {
                return self.undo_loss(true);
            }
            if self.nxt > self.high_seq {
                let duplicate = tally.duplicate && !tally.dsack;
                self.rack.frto &= !(tally.sacked || duplicate);
            } else if tally.una_advanced && !recovered {
                self.high_seq = self.nxt;
                if self.has_sendable() {
                    self.rack.repeat = Repeat::AfterNew;
                    return;
                }
                self.rack.frto = false;
            }
        }
        if recovered {
            return self.undo_recovery(tally);
        }
        if self.nxt > self.high_seq && tally.duplicate {
            self.assume_arrived(true);
        } else if tally.una_advanced {
            self.board.assumed = 0;
        }
    }

    /// Undoes a time-out. Without SACK, only F-RTO is proof enough to leave the recovery.
    fn undo_loss(&mut self, by_frto: bool) {
        self.counts.spurious_timeouts += 1;
        self.undo_reduction(true);
        self.timeouts = 0;
        if self.is_held_at_end() {
            self.forget_repetitions();
        } else if by_frto || !self.is_linux_reno() {
            self.rack.frto = false;
            self.state = State::Open;
        }
    }

    /// Forgets when retransmission began, once nothing in flight was retransmitted.
    pub(super) fn forget_repetitions(&mut self) {
        if !self.board.has_repeated() {
            self.rack.first_resent = None;
        }
    }

    /// Whether all that was retransmitted in this episode turned out to have arrived before.
    fn may_undo(&self, tally: &Tally) -> bool {
        self.undo
            && self.rack.undo_marker.is_some()
            && (self.rack.undo_resent == Some(0) || self.was_delayed(tally))
    }

    /// `tcp_packet_delayed`: whether the arrived segment was sent before the first retransmission,
    /// if there was one.
    fn was_delayed(&self, tally: &Tally) -> bool {
        match self.rack.first_resent {
            Some(first) => is_before_tick(tally.echo, first),
            None => !(self.is_linux_reno() && self.una >= self.high_seq),
        }
    }

    fn undo_reduction(&mut self, unmark: bool) {
        if unmark {
            self.board.unmark_lost();
        }
        if let Some(before) = self.rack.prior_ssthresh {
            self.window.cwnd = self.controller.undone(&self.window, self.rack.prior_cwnd);
            if before > self.window.ssthresh {
                self.window.ssthresh = before;
                // The peer is not told of a reduction that was undone.
                self.tell_cut = false;
            }
        }
        self.rack.undo_marker = None;
        self.rack.advanced = true;
        self.counts.undone += 1;
    }

    pub(super) fn undo_recovery(&mut self, tally: &Tally) {
        if self.may_undo(tally) {
            self.undo_reduction(false);
        } else {
            self.rack.window_persist = self.rack.window_persist.saturating_sub(1);
        }
        if self.is_held_at_end() {
            self.forget_repetitions();
        } else {
            self.state = State::Open;
        }
    }

    /// Undoes a reduction at a partial acknowledgement of an original. Returns whether nothing more
    /// is to be done with this acknowledgement: while retransmissions are in flight, a late
    /// original only allows new data.
    pub(super) fn undo_partial(&mut self, tally: &Tally) -> bool {
        if !(self.undo && self.rack.undo_marker.is_some() && self.was_delayed(tally)) {
            return false;
        }
        self.on_overtaken(Some(tally.una_before));
        if self.board.resent_out > 0 {
            self.rack.repeat = Repeat::No;
            return true;
        }
        self.forget_repetitions();
        self.undo_reduction(true);
        self.keep_open();
        false
    }

    pub(super) fn undo_dsack(&mut self) -> bool {
        let needless = self.undo && self.rack.undo_resent == Some(0);
        if !(needless && self.rack.undo_marker.is_some()) {
            return false;
        }
        self.rack.window_persist = (self.rack.window_persist + 1).min(REORDER_PERSIST);
        self.undo_reduction(false);
        true
    }
}
