//! Loss recovery as in Linux 6: RACK and tail loss probes (RFC 8985), proportional rate reduction
//! (RFC 6937).
//!
//! Where the RFCs leave a choice this follows `tcp_recovery.c` and `tcp_input.c`: as long as no
//! reordering was seen, three segments acknowledged out of order mark losses at once; and after a
//! reduction that had space, the window grows with what is delivered.

use super::congestion::Controller;
use super::rtt::RttEstimator;
use super::scoreboard::Segment;
use super::sender::{DUP_THRESH, Sender, State, TIMER_SLACK, Tally, Timer};
use crate::base::{Duration, Instant};

/// Recoveries for which a wider reordering window is kept (`TCP_RACK_RECOVERY_THRESH`).
pub(super) const REORDER_PERSIST: u32 = 16;
/// Most reordering, in segments, to which the sender adapts (`net.ipv4.tcp_max_reordering`).
pub(super) const MAX_REORDERING: u32 = 300;
const TICK_NANOS: u64 = 1_000_000;

/// What may be retransmitted after an acknowledgement (`rexmit` of `tcp_ack`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Repeat {
    /// Lost segments, before new data.
    #[default]
    First,
    /// Lost segments, once there is no new data that may be sent.
    AfterNew,
    /// Nothing.
    No,
}

/// State of RACK, and what can be undone.
#[derive(Clone, Debug)]
pub(super) struct Rack {
    /// Of the segment sent last among those delivered: when it was sent, its end, and its
    /// round-trip time.
    pub(super) sent: Instant,
    pub(super) end_seq: u64,
    pub(super) rtt: Duration,
    pub(super) advanced: bool,
    pub(super) window_steps: u32,
    pub(super) window_persist: u32,
    pub(super) dsack_seen: bool,
    /// Segments that were reported by DSACK.
    dsack_segments: u64,
    pub(super) adjusted_at: u64,
    pub(super) reordering: u32,
    pub(super) reordering_seen: bool,
    /// A probe is to be sent.
    pub(super) probe: bool,
    pub(super) probe_end: Option<u64>,
    pub(super) probe_resent: bool,
    pub(super) probe_dsack: bool,
    /// F-RTO (RFC 5682) is under way.
    pub(super) frto: bool,
    pub(super) repeat: Repeat,
    pub(super) undo_marker: Option<u64>,
    /// Retransmissions that were not reported as needless; `None` before the first.
    pub(super) undo_resent: Option<u32>,
    pub(super) first_resent: Option<Instant>,
    pub(super) prior_ssthresh: Option<u32>,
    pub(super) prior_cwnd: u32,
    pub(super) prr_delivered: u32,
    pub(super) prr_out: u32,
}

impl Default for Rack {
    fn default() -> Self {
        Self {
            sent: Instant::ZERO,
            end_seq: 0,
            rtt: Duration::ZERO,
            advanced: false,
            window_steps: 1,
            window_persist: 0,
            dsack_seen: false,
            dsack_segments: 0,
            adjusted_at: 0,
            reordering: DUP_THRESH,
            reordering_seen: false,
            probe: false,
            probe_end: None,
            probe_resent: false,
            probe_dsack: false,
            frto: false,
            repeat: Repeat::First,
            undo_marker: None,
            undo_resent: None,
            first_resent: None,
            prior_ssthresh: None,
            prior_cwnd: 0,
            prr_delivered: 0,
            prr_out: 0,
        }
    }
}

impl Rack {
    /// RFC 8985, 6.2, step 2: takes a segment that was acknowledged cumulatively. If the echoed
    /// timestamp is older than its repetition, it was the original that arrived.
    pub(super) fn on_acked(
        &mut self,
        now: Instant,
        min_rtt: Duration,
        echo: Option<Instant>,
        segment: &Segment,
    ) {
        if !(segment.ever_resent && is_before_tick(echo, segment.sent)) {
            self.on_delivered(now, min_rtt, segment);
        }
    }

    /// Takes a delivered segment. While a hole is open, the echoed timestamp says nothing about it.
    pub(super) fn on_delivered(&mut self, now: Instant, min_rtt: Duration, segment: &Segment) {
        let rtt = now.since(segment.sent);
        if segment.ever_resent && rtt < min_rtt {
            return;
        }
        self.advanced = true;
        self.rtt = rtt;
        if (segment.sent, segment.end()) > (self.sent, self.end_seq) {
            (self.sent, self.end_seq) = (segment.sent, segment.end());
        }
    }

    /// RFC 8985, 6.2, step 4: how long to wait for segments that may be reordered.
    fn window(&self, state: State, sacked_out: u32, rtt: &RttEstimator) -> Duration {
        if !self.reordering_seen && (state >= State::Recovery || sacked_out >= self.reordering) {
            return Duration::ZERO;
        }
        let least = Duration::from_nanos(rtt.minimum().as_nanos() / 4);
        let steps = u64::from(self.window_steps);
        Duration::from_nanos(least.as_nanos().saturating_mul(steps)).min(rtt.smoothed())
    }

    fn adapt_window(&mut self, tally: &Tally, delivered: u64) {
        let Some(prior) = tally.prior_delivered.filter(|prior| *prior > 0) else {
            return;
        };
        if prior < self.adjusted_at {
            self.dsack_seen = false;
        }
        if self.dsack_seen {
            self.window_steps = (self.window_steps + 1).min(255);
            self.dsack_seen = false;
            self.adjusted_at = delivered;
            self.window_persist = REORDER_PERSIST;
        } else if self.window_persist == 0 {
            self.window_steps = 1;
        }
    }
}

/// Whether an echoed timestamp is older than the tick of `time`.
pub(super) fn is_before_tick(echo: Option<Instant>, time: Instant) -> bool {
    echo.is_some_and(|echo| echo.as_nanos() / TICK_NANOS < time.as_nanos() / TICK_NANOS)
}

impl Sender {
    /// Handles an acknowledgement for recovery and window (`tcp_ack`, second half).
    pub(super) fn recover_rack(&mut self, now: Instant, tally: &mut Tally) {
        self.on_overtaken(tally.overtaken);
        self.rack.adapt_window(tally, self.delivered);
        self.on_probe_acked(tally);
        let dubious = tally.duplicate || tally.sacked || tally.dsack || tally.echo_mark;
        // With nothing in flight, only a needless retransmission matters.
        let is_alert = tally.outstanding || tally.dsack;
        if is_alert && (dubious || self.state != State::Open) {
            self.rack.repeat = Repeat::First;
            self.alert(now, tally);
        }
        if matches!(self.state, State::Cwr | State::Recovery) {
            let delivered = (self.delivered - tally.delivered_before) as u32;
            let lost = (self.board.lost_total - tally.lost_before) as u32;
            self.reduce(delivered, lost, tally.una_advanced);
        } else if tally.una_advanced || (self.rack.reordering > DUP_THRESH && tally.sacked) {
            self.grow(now, tally);
        }
    }

    pub(super) fn on_overtaken(&mut self, overtaken: Option<u64>) {
        let high = self.board.highest_sacked().map_or(self.una, |s| s.seq);
        let Some(low) = overtaken.filter(|low| *low < high) else {
            return;
        };
        let distance = (high - low).div_ceil(u64::from(self.mss)) as u32;
        self.rack.reordering = self.rack.reordering.max(distance.min(MAX_REORDERING));
        self.rack.reordering_seen = true;
        self.counts.reorderings += 1;
    }

    /// A needless retransmission was reported (`tcp_dsack_seen`): one more segment has arrived. If
    /// there was reordering, it may have been taken for a loss. If there are more reports than
    /// retransmissions, the network has duplicated segments, and the reports mean nothing.
    pub(super) fn on_dsack(&mut self, block: (u64, u64), tally: &mut Tally) {
        self.counts.dsacks += 1;
        let segments = (block.1.saturating_sub(block.0)).div_ceil(u64::from(self.mss)).max(1);
        self.rack.probe_dsack |= self.rack.probe_resent && self.rack.probe_end == Some(block.1);
        self.rack.dsack_segments += segments;
        if self.rack.dsack_segments > self.counts.retransmissions {
            return;
        }
        tally.dsack = true;
        self.delivered += if self.is_linux() { segments } else { 0 };
        let is_probe = segments == 1 && self.rack.probe_end == Some(block.1);
        self.rack.dsack_seen |= self.rack.reordering_seen && !is_probe;
        let ours = self.rack.undo_marker.is_some_and(|marker| block.1 > marker);
        if let Some(left) = self.rack.undo_resent.as_mut().filter(|_| ours && self.undo) {
            *left = left.saturating_sub(segments.min(64) as u32);
        }
        // The original and its retransmission have both arrived: it was overtaken, not lost.
        let ids = self.board.first_id()..self.board.end_id();
        let twice = ids.map(|id| self.board.get(id)).find(|segment| {
            let is_inside = block.0 <= segment.seq && segment.end() <= block.1;
            is_inside && segment.sacked && segment.ever_resent
        });
        if let Some(segment) = twice {
            tally.overtake(segment.seq);
        }
    }

    /// `tcp_fastretrans_alert`.
    fn alert(&mut self, now: Instant, tally: &mut Tally) {
        if tally.echo_mark {
            // The network itself has reported congestion: there is nothing to undo.
            self.rack.prior_ssthresh = None;
        }
        if self.state == State::Open {
            self.rack.first_resent = None;
        } else if self.una > self.high_seq && self.state == State::Cwr {
            // Above, not at: only then has the peer heard of the reduction.
            self.end_reduction();
            self.state = State::Open;
        } else if self.una >= self.high_seq && self.state == State::Recovery {
            self.board.assumed = 0;
            self.undo_recovery(tally);
            if self.is_held_at_end() {
                return;
            }
            self.end_reduction();
        }
        match self.state {
            State::Recovery => {
                self.assume_arrived(tally.duplicate && !tally.una_advanced);
                if tally.una_advanced && self.undo_partial(tally) {
                    return;
                }
                if self.undo_dsack() {
                    self.keep_open();
                }
                self.find_losses(now, tally);
                if self.state == State::Recovery {
                    return;
                }
            }
            State::Loss => {
                self.on_ack_in_loss(tally);
                self.find_losses(now, tally);
                if !(self.state == State::Open || tally.resend_lost) {
                    return;
                }
                self.look_outside_recovery(now, tally);
            }
            State::Cwr | State::Open | State::Disorder => self.look_outside_recovery(now, tally),
        }
        if self.board.lost_out > 0 {
            return self.enter_recovery(tally.echo_mark);
        }
        if tally.echo_mark {
            self.enter_cwr();
        }
        if self.state != State::Cwr {
            self.keep_open();
        }
    }

    /// Looks for losses outside recovery, or when the recovery after a time-out is over.
    fn look_outside_recovery(&mut self, now: Instant, tally: &mut Tally) {
        if tally.una_advanced {
            self.board.assumed = 0;
        }
        self.assume_arrived(tally.duplicate);
        if self.state <= State::Disorder {
            self.undo_dsack();
        }
        self.find_losses(now, tally);
    }

    fn find_losses(&mut self, now: Instant, tally: &mut Tally) {
        if self.is_linux_reno() {
            return self.mark_head_lost(tally);
        }
        if !std::mem::take(&mut self.rack.advanced) {
            return;
        }
        let resent = self.board.resent_out;
        if let Some(wait) = self.mark_late(now) {
            self.arm(Timer::Reorder, now, wait + TIMER_SLACK);
            tally.keep_timer = true;
        }
        tally.resend_lost |= self.board.resent_out < resent;
    }

    /// RFC 8985, 6.2, step 5: marks segments that were sent long enough before a delivered one;
    /// returns how long to wait for the others.
    fn mark_late(&mut self, now: Instant) -> Option<Duration> {
        let window = self.rack.window(self.state, self.board.sacked_out, &self.rtt);
        let patience = self.rack.rtt + window;
        let mut wait = None;
        let mut next = self.board.oldest();
        while let Some(id) = next {
            let segment = self.board.get(id);
            if (segment.sent, segment.end()) >= (self.rack.sent, self.rack.end_seq) {
                break;
            }
            let left = patience.saturating_sub(now.since(segment.sent));
            next = self.board.sent_after(id);
            if left.is_zero() {
                self.board.mark_lost(id);
            } else {
                wait = wait.max(Some(left));
            }
        }
        wait
    }

    pub(super) fn on_reorder_timer(&mut self, now: Instant) {
        self.rack.repeat = Repeat::First;
        let (before, lost) = (self.board.in_flight(), self.board.lost_total);
        // Segments that are not late yet are left to the next acknowledgement or the time-out.
        let _ = self.mark_late(now);
        if self.board.in_flight() != before && self.state != State::Recovery {
            self.enter_recovery(false);
            self.reduce(1, (self.board.lost_total - lost) as u32, false);
        }
        // This timer replaced the time-out, which counts from the head's transmission.
        self.timer = Some((Timer::Reorder, now));
        self.rearm_rto(now);
    }

    fn enter_recovery(&mut self, marked: bool) {
        self.counts.fast_recoveries += 1;
        self.forget_repetitions();
        self.begin_undo();
        self.rack.prior_ssthresh = None;
        // A window that is being reduced for a mark is not reduced again for a loss in it.
        if self.state != State::Cwr {
            self.rack.prior_ssthresh = Some(self.current_threshold()).filter(|_| !marked);
            self.begin_reduction();
        }
        self.state = State::Recovery;
    }

    pub(super) fn begin_undo(&mut self) {
        self.rack.undo_marker = Some(self.una);
        let probed = self.rack.probe_end.is_some() && self.rack.probe_resent;
        let resent = self.board.resent_out + u32::from(probed);
        self.rack.undo_resent = (resent > 0).then_some(resent);
    }

    pub(super) fn begin_reduction(&mut self) {
        self.high_seq = self.nxt;
        self.rack.probe_end = None;
        self.window.count = 0;
        self.rack.prior_cwnd = self.window.cwnd;
        self.rack.prr_delivered = 0;
        self.rack.prr_out = 0;
        self.window.ssthresh = self.controller.threshold(self.window.cwnd, self.mss);
        self.note_reduction();
    }

    /// RFC 6937: the window while it is being reduced.
    fn reduce(&mut self, delivered: u32, lost: u32, una_advanced: bool) {
        if delivered == 0 {
            return;
        }
        let flight = self.board.in_flight();
        let threshold = self.window.ssthresh;
        self.rack.prr_delivered += delivered;
        let (got, out) = (self.rack.prr_delivered, self.rack.prr_out);
        let send = if flight > threshold {
            let share = (u64::from(threshold) * u64::from(got))
                .div_ceil(u64::from(self.rack.prior_cwnd.max(1))) as u32;
            share.saturating_sub(out)
        } else {
            let catch_up = got.saturating_sub(out).max(delivered);
            (catch_up + u32::from(una_advanced && lost == 0)).min(threshold - flight)
        };
        self.window.cwnd = flight + send.max(u32::from(out == 0));
    }

    fn end_reduction(&mut self) {
        if self.rack.undo_marker.is_some() || self.state == State::Cwr {
            self.window.cwnd = self.window.ssthresh;
        }
    }

    /// Open, or disorder while segments are missing (`tcp_try_keep_open`).
    pub(super) fn keep_open(&mut self) {
        let board = &self.board;
        let missing = board.sacked_out + board.assumed + board.lost_out > 0;
        let repeated = board.has_repeated();
        self.forget_repetitions();
        let state = if missing || repeated { State::Disorder } else { State::Open };
        if state != self.state {
            self.state = state;
            self.high_seq = self.nxt;
        }
    }

    /// Notes a retransmission for undo and the reduction.
    pub(super) fn on_resent(&mut self, now: Instant) {
        self.rack.first_resent.get_or_insert(now);
        self.rack.undo_resent = Some(self.rack.undo_resent.unwrap_or(0) + 1);
        self.on_new_sent();
    }

    /// Notes that a segment was sent, for the reduction.
    pub(super) fn on_new_sent(&mut self) {
        let reducing = matches!(self.state, State::Cwr | State::Recovery);
        self.rack.prr_out += u32::from(reducing);
    }
}
