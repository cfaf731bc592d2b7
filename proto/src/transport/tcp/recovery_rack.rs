//! Loss recovery as Linux 6 does it: RACK and tail loss probes (RFC 8985), proportional rate
//! reduction (RFC 6937), F-RTO (RFC 5682), undo by timestamps and DSACK (RFC 3522, RFC 3708).
//!
//! Where the RFCs leave a choice this follows `tcp_recovery.c` and `tcp_input.c`: three segments
//! acknowledged out of order mark losses at once as long as no reordering was seen, and after a
//! reduction that had space the window grows with what is delivered. The congestion state CWR is
//! only passed through, as there is no ECN.

use super::config::Recovery;
use super::congestion::Controller;
use super::rtt::RttEstimator;
use super::scoreboard::Segment;
use super::sender::{Cut, DUP_THRESH, Sender, State, TIMER_SLACK, Tally, Timer};
use crate::base::{Duration, Instant};

/// Recoveries for which a wider reordering window is kept (`TCP_RACK_RECOVERY_THRESH`).
const REORDER_PERSIST: u32 = 16;
/// The most reordering, in segments, that is adapted to (`net.ipv4.tcp_max_reordering`).
const MAX_REORDERING: u32 = 300;
const TICK_NANOS: u64 = 1_000_000;

/// State of the recovery: RACK's own, and what can be undone.
#[derive(Clone, Debug)]
pub(super) struct Rack {
    /// The segment sent last among those delivered: when, its end, and its round trip.
    sent: Instant,
    end_seq: u64,
    rtt: Duration,
    advanced: bool,
    window_steps: u32,
    window_persist: u32,
    dsack_seen: bool,
    adjusted_at: u64,
    reordering: u32,
    reordering_seen: bool,
    /// A probe is to be sent.
    pub(super) probe: bool,
    probe_end: Option<u64>,
    probe_resent: bool,
    probe_dsack: bool,
    /// RFC 5682 is under way.
    pub(super) frto: bool,
    /// New data goes before repetitions.
    pub(super) hold: bool,
    undo_marker: Option<u64>,
    /// Retransmissions that were not found needless; none before the first.
    undo_resent: Option<u32>,
    first_resent: Option<Instant>,
    prior_ssthresh: Option<u32>,
    prior_cwnd: u32,
    prr_delivered: u32,
    prr_out: u32,
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
            adjusted_at: 0,
            reordering: DUP_THRESH,
            reordering_seen: false,
            probe: false,
            probe_end: None,
            probe_resent: false,
            probe_dsack: false,
            frto: false,
            hold: false,
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

    /// Takes a delivered segment; behind a hole the echoed timestamp says nothing about it.
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

    /// RFC 8985, 6.2, step 4: the wait for segments that may be reordered.
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
fn is_before_tick(echo: Option<Instant>, time: Instant) -> bool {
    echo.is_some_and(|echo| echo.as_nanos() / TICK_NANOS < time.as_nanos() / TICK_NANOS)
}

impl Sender {
    /// What an acknowledgement means for recovery and window (`tcp_ack`, second half).
    pub(super) fn recover_rack(&mut self, now: Instant, tally: &mut Tally) {
        self.on_overtaken(tally.overtaken);
        self.rack.adapt_window(tally, self.delivered);
        self.on_probe_acked(tally);
        if tally.duplicate || tally.sacked || tally.dsack || self.state != State::Open {
            self.rack.hold = false;
            self.alert(now, tally);
        }
        if self.state == State::Recovery {
            let delivered = (self.delivered - tally.delivered_before) as u32;
            let lost = (self.board.lost_total - tally.lost_before) as u32;
            self.reduce(delivered, lost, tally.una_advanced);
        } else if tally.una_advanced || (self.rack.reordering > DUP_THRESH && tally.sacked) {
            self.grow(now, tally);
        }
    }

    fn on_overtaken(&mut self, overtaken: Option<u64>) {
        let (Some(low), Some(high)) = (overtaken, self.board.highest_sacked().map(|s| s.seq))
        else {
            return;
        };
        if low >= high {
            return;
        }
        let distance = (high - low).div_ceil(u64::from(self.mss)) as u32;
        self.rack.reordering = self.rack.reordering.max(distance.min(MAX_REORDERING));
        self.rack.reordering_seen = true;
        self.counts.reorderings += 1;
    }

    /// A needless repetition was reported.
    pub(super) fn on_dsack(&mut self, block: (u64, u64), tally: &mut Tally) {
        self.counts.dsacks += 1;
        tally.dsack = true;
        self.rack.dsack_seen = true;
        let segments = (block.1.saturating_sub(block.0)).div_ceil(u64::from(self.mss)).max(1);
        let ours = self.rack.undo_marker.is_some_and(|marker| block.1 > marker);
        if let Some(left) = self.rack.undo_resent.as_mut().filter(|_| ours && self.undo) {
            *left = left.saturating_sub(segments.min(64) as u32);
        }
        self.rack.probe_dsack |= self.rack.probe_resent && self.rack.probe_end == Some(block.1);
    }

    /// RFC 8985, 7.4: whether a probe repaired a loss.
    fn on_probe_acked(&mut self, tally: &Tally) {
        let dsack = std::mem::take(&mut self.rack.probe_dsack);
        let Some(end) = self.rack.probe_end.filter(|end| self.una >= *end) else {
            return;
        };
        let plain_duplicate = !tally.una_advanced && !tally.sacked && tally.duplicate;
        if !self.rack.probe_resent || dsack || plain_duplicate {
            self.rack.probe_end = None;
        } else if self.una > end {
            self.rack.probe_end = None;
            self.counts.probe_recoveries += 1;
            self.begin_reduction();
            self.window.cwnd = self.window.ssthresh;
            self.keep_open();
        }
    }

    /// `tcp_fastretrans_alert`.
    fn alert(&mut self, now: Instant, tally: &mut Tally) {
        if self.state == State::Open {
            self.rack.first_resent = None;
        } else if self.una >= self.high_seq && self.state == State::Recovery {
            self.undo_recovery();
            self.end_reduction();
        }
        match self.state {
            State::Recovery => {
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
            }
            State::Open | State::Disorder => {
                self.undo_dsack();
                self.find_losses(now, tally);
            }
        }
        if self.board.lost_out == 0 {
            self.keep_open();
        } else {
            self.enter_recovery();
        }
    }

    fn find_losses(&mut self, now: Instant, tally: &mut Tally) {
        if !std::mem::take(&mut self.rack.advanced) {
            return;
        }
        let resent = self.board.resent_out;
        if let Some(wait) = self.mark_late(now) {
            self.timer = Some((Timer::Reorder, now + wait + TIMER_SLACK));
            tally.keep_timer = true;
        }
        tally.resend_lost |= self.board.resent_out < resent;
    }

    /// RFC 8985, 6.2, step 5: marks what was sent long enough before a delivered segment;
    /// returns how long the others are to be waited for.
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
        let before = self.board.in_flight();
        let wait = self.mark_late(now);
        if self.board.in_flight() != before && self.state != State::Recovery {
            self.enter_recovery();
            self.reduce(1, 0, false);
        }
        match wait {
            Some(wait) => self.timer = Some((Timer::Reorder, now + wait + TIMER_SLACK)),
            None => {
                // The time-out counts from the head's transmission, as this timer replaced it.
                self.timer = Some((Timer::Reorder, now));
                self.rearm_rto(now);
            }
        }
    }

    fn enter_recovery(&mut self) {
        self.counts.fast_recoveries += 1;
        self.begin_undo();
        self.rack.prior_ssthresh = Some(self.current_threshold());
        self.begin_reduction();
        self.state = State::Recovery;
    }

    fn begin_undo(&mut self) {
        self.rack.undo_marker = Some(self.una);
        let resent = self.board.resent_out;
        self.rack.undo_resent = (resent > 0).then_some(resent);
    }

    fn begin_reduction(&mut self) {
        self.high_seq = self.nxt;
        self.rack.probe_end = None;
        self.window.count = 0;
        self.rack.prior_cwnd = self.window.cwnd;
        self.rack.prr_delivered = 0;
        self.rack.prr_out = 0;
        self.window.ssthresh = self.controller.threshold(self.window.cwnd);
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
        if self.rack.undo_marker.is_some() {
            self.window.cwnd = self.window.ssthresh;
        }
    }

    /// Open, or disorder while segments are missing (`tcp_try_keep_open`).
    fn keep_open(&mut self) {
        let missing = self.board.sacked_out + self.board.lost_out + self.board.resent_out > 0;
        if self.board.resent_out == 0 {
            self.rack.first_resent = None;
        }
        let state = if missing { State::Disorder } else { State::Open };
        if state != self.state {
            self.state = state;
            self.high_seq = self.nxt;
        }
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

    fn undo_recovery(&mut self) {
        if self.may_undo(None) {
            self.undo_reduction(false);
        } else {
            self.rack.window_persist = self.rack.window_persist.saturating_sub(1);
        }
        self.state = State::Open;
    }

    /// Returns whether nothing more is to be done with this acknowledgement.
    fn undo_partial(&mut self, tally: &Tally) -> bool {
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

    fn undo_dsack(&mut self) -> bool {
        if !self.may_undo(None) {
            return false;
        }
        self.rack.window_persist = (self.rack.window_persist + 1).min(REORDER_PERSIST);
        self.undo_reduction(false);
        true
    }

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
        if fresh || self.una >= self.high_seq || (self.state == State::Loss && self.timeouts == 0) {
            self.rack.prior_ssthresh = Some(self.current_threshold());
            self.rack.prior_cwnd = self.window.cwnd;
            let basis = self.reduction_basis();
            self.window.ssthresh = self.controller.threshold(basis);
            self.begin_undo();
        }
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
    fn on_ack_in_loss(&mut self, tally: &Tally) {
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

    /// Sets a probe timer where there is to be one (RFC 8985, 7.2); returns whether it did.
    pub(super) fn schedule_probe(&mut self, now: Instant, advancing: bool) -> bool {
        let out = self.board.packets_out();
        let recovering = self.state != State::Open;
        if self.recovery != Recovery::RackTlp || out == 0 || recovering {
            return false;
        }
        let srtt = self.rtt.smoothed();
        let mut wait = match srtt.is_zero() {
            true => self.initial_rto(),
            false => srtt * 2 + if out == 1 { self.min_rto } else { TIMER_SLACK },
        };
        let rto = self.rtt.rto();
        let head = self.board.front().map_or(now, |head| head.sent);
        let until_rto = if advancing { rto } else { (head + rto).since(now) };
        if !until_rto.is_zero() {
            wait = wait.min(until_rto);
        }
        self.timer = Some((Timer::Probe, now + wait));
        true
    }

    pub(super) fn on_probe_timer(&mut self, now: Instant) {
        self.rack.probe = self.rack.probe_end.is_none() && self.board.packets_out() > 0;
        self.rearm_after_probe(now);
    }

    /// The time-out counts from the head's last transmission, not from now.
    fn rearm_after_probe(&mut self, now: Instant) {
        self.timer = Some((Timer::Probe, now));
        self.rearm_rto(now);
    }

    /// The probe: new data if there is some, else the last segment again (RFC 8985, 7.3).
    pub(super) fn cut_probe(&mut self, now: Instant, options: u32) -> Option<Cut> {
        self.rack.probe_resent = false;
        let cut = self.cut_new(now, options).or_else(|| {
            let last = self.board.end_id().checked_sub(1).filter(|id| *id >= self.board.first_id());
            let id = last.filter(|id| !self.board.get(*id).sacked)?;
            self.rack.probe_resent = true;
            Some(self.resend(now, id))
        })?;
        self.rearm_after_probe(now);
        self.rack.probe_end = Some(self.nxt);
        self.counts.probes += 1;
        Some(cut)
    }

    /// Notes a retransmission for undo and the reduction.
    pub(super) fn on_resent(&mut self, now: Instant) {
        self.rack.first_resent.get_or_insert(now);
        self.rack.undo_resent = Some(self.rack.undo_resent.unwrap_or(0) + 1);
        self.on_new_sent();
    }

    /// Notes a segment sent, for the reduction.
    pub(super) fn on_new_sent(&mut self) {
        self.rack.prr_out += u32::from(self.state == State::Recovery);
    }
}
