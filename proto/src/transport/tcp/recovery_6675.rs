//! Loss recovery from before RACK: RFC 6675 with SACK, RFC 6582 without.
//!
//! RFC 6675 counts segments here, not bytes, as all full ones are alike. With SACK, limited
//! transmit (RFC 3042) follows from the pipe; for NewReno it is added. After a time-out,
//! retransmission starts at the first missing segment, and what SACK reported is kept (RFC 6675,
//! 5.1).

use super::config::Recovery;
use super::congestion::Controller;
use super::sender::{DUP_THRESH, Sender, State, Tally};
use crate::base::Instant;

/// State of both recoveries.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Classic {
    duplicates: u32,
    /// All missing segments below this one have been marked.
    marked: u64,
    /// The rescue retransmission of this recovery was used.
    rescued: bool,
}

impl Classic {
    /// Segments that may be sent beyond the window for the first two duplicates.
    pub(super) fn limited_transmit(&self, state: State) -> u32 {
        if state < State::Recovery { self.duplicates.min(2) } else { 0 }
    }
}

impl Sender {
    /// What counts as the window before a loss: the congestion window in Linux, at most the flight
    /// in the RFCs.
    pub(super) fn reduction_basis(&self) -> u32 {
        match self.recovery {
            Recovery::RackTlp | Recovery::LinuxReno => self.window.cwnd,
            _ => self.window.cwnd.min(self.board.packets_out()),
        }
    }

    /// RFC 6675, 5.
    pub(super) fn recover_6675(&mut self, now: Instant, tally: &Tally) {
        let classic = &mut self.classic;
        if tally.una_advanced {
            classic.duplicates = 0;
        } else {
            classic.duplicates += u32::from(tally.sacked);
        }
        if self.state >= State::Recovery && self.una >= self.high_seq {
            self.leave_recovery();
        } else if self.state == State::Recovery {
            self.mark_below_sacked();
        } else if self.state == State::Loss {
            // RFC 5681, 3.1: an acknowledgement that only reports blocks does not open the window.
            if tally.una_advanced {
                self.grow(now, tally);
            }
        } else if tally.sacked && self.is_head_lost() {
            self.enter_fast_recovery();
            self.mark_below_sacked();
            self.window.cwnd = self.window.ssthresh;
        } else if tally.una_advanced {
            self.grow(now, tally);
        }
    }

    fn is_head_lost(&self) -> bool {
        self.classic.duplicates >= DUP_THRESH || self.board.sacked_out >= DUP_THRESH
    }

    fn enter_fast_recovery(&mut self) {
        self.counts.fast_recoveries += 1;
        self.window.ssthresh = self.controller.threshold(self.reduction_basis(), self.mss);
        self.note_reduction();
        self.window.count = 0;
        self.state = State::Recovery;
        self.high_seq = self.nxt;
        self.classic.rescued = false;
        self.classic.marked = self.board.first_id();
        self.board.mark_lost(self.board.first_id());
    }

    fn leave_recovery(&mut self) {
        if self.state == State::Recovery {
            self.window.cwnd = self.window.ssthresh;
            if self.recovery == Recovery::NewReno {
                // RFC 6582, 3.2, step 3: no burst when the window was inflated.
                let flight = self.board.packets_out().max(1);
                self.window.cwnd = self.window.cwnd.min(flight + 1);
            }
        }
        self.state = State::Open;
        self.classic.duplicates = 0;
    }

    /// `IsLost`: segments below three that have arrived.
    fn mark_below_sacked(&mut self) {
        let Some(third) = self.board.sacked_from_top(DUP_THRESH) else {
            return;
        };
        for id in self.classic.marked.max(self.board.first_id())..third {
            if !self.board.get(id).sacked && !self.board.get(id).lost {
                self.board.mark_lost(id);
            }
        }
        self.classic.marked = self.classic.marked.max(third);
    }

    /// `NextSeg`, rules 3 and 4: without new data, a missing segment below the highest SACK, and
    /// once the last segment of all.
    pub(super) fn rescue(&mut self) -> Option<u64> {
        let idle = self.recovery == Recovery::Rfc6675
            && self.state == State::Recovery
            && !self.has_sendable();
        if !idle {
            return None;
        }
        let highest = self.board.highest_sacked()?.seq;
        let from = self.classic.marked.max(self.board.first_id());
        for id in from..self.board.end_id() {
            let segment = self.board.get(id);
            if segment.seq >= highest {
                break;
            }
            self.classic.marked = id + 1;
            if !segment.sacked && !segment.lost && !segment.ever_resent {
                self.board.mark_lost(id);
                return Some(id);
            }
        }
        let last = self.board.end_id() - 1;
        let segment = self.board.get(last);
        if self.classic.rescued || segment.sacked || segment.ever_resent {
            return None;
        }
        self.classic.rescued = true;
        Some(last)
    }

    /// RFC 6582, 3.2, with a timer that each partial acknowledgement restarts ("slow but steady").
    pub(super) fn recover_newreno(&mut self, now: Instant, tally: &Tally) {
        match (self.state, tally.una_advanced) {
            (State::Recovery | State::Loss, true) if self.una >= self.high_seq => {
                self.leave_recovery();
            }
            (State::Recovery, true) => {
                let deflated = self.window.cwnd.saturating_sub(tally.acked);
                self.window.cwnd = (deflated + u32::from(tally.acked > 0)).max(1);
                self.mark_head();
            }
            (State::Recovery, false) => self.window.cwnd += u32::from(tally.duplicate),
            (State::Loss, true) => self.grow(now, tally),
            (State::Loss, false) => {}
            (_, true) => {
                self.classic.duplicates = 0;
                self.grow(now, tally);
            }
            (_, false) if tally.duplicate && self.board.packets_out() > 0 => {
                self.classic.duplicates += 1;
                // RFC 6582, 3.2, step 2: until more than `recover` is acknowledged, duplicates may
                // be caused by retransmissions, also after a time-out.
                if self.classic.duplicates == DUP_THRESH && self.una > self.high_seq {
                    self.enter_fast_recovery();
                    self.window.cwnd = self.window.ssthresh + DUP_THRESH;
                }
            }
            (_, false) => {}
        }
    }

    fn mark_head(&mut self) {
        let head = self.board.first_id();
        if head < self.board.end_id() && !self.board.get(head).resent {
            self.board.mark_lost(head);
        }
    }
}
