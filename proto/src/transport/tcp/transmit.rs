//! What a sender transmits next: retransmissions, new data, and whether the window was used (RFC
//! 5681, 4.1; RFC 1122, 4.2.3.4; RFC 7661 in spirit), in the order of `tcp_write_xmit`.

use super::config::Recovery;
use super::congestion::Controller;
use super::recovery_rack::Repeat;
use super::sender::{Cut, Sender, State, Timer};
use crate::base::{Duration, Instant};

/// Most bytes that Linux hands to the host's queue as one packet (`GSO_LEGACY_MAX_SIZE`).
const BURST_BYTES: u32 = 65_536;
/// Time whose bytes at the pacing rate are handed over as one packet (`sk_pacing_shift`).
const PACED_MICROS: u64 = 977;
/// Each of these in the minimum round-trip time halves the bytes that are added on a short path
/// (`net.ipv4.tcp_tso_rtt_log`).
const SHORT_MICROS: u64 = 512;

/// Time between two readings of the clock.
const CLOCK: Duration = Duration::from_micros(1);
/// A burst is deferred only if another was sent this recently, and only for this long.
const DEFERRED: Duration = Duration::from_millis(1);

/// What happens to a small segment while another is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Small {
    /// It waits (Nagle).
    Held,
    /// It is sent (`TCP_NAGLE_OFF`).
    Sent,
}

/// Whether a short burst may wait for the next acknowledgement, to become a longer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deferral {
    Allowed,
    /// The next burst is sent whatever its length.
    SkippedOnce,
    /// A burst waits until an acknowledgement, a timer or the application causes another try.
    Waiting {
        /// Whether the congestion window holds it back, and not the peer's.
        fills_window: bool,
    },
}

/// Segments that are handed to the host's queue as one packet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Burst {
    at: Instant,
    length: u32,
    left: u32,
}

impl Sender {
    /// Whether a segment without data is to ask for the peer's window.
    pub(super) fn take_persist_probe(&mut self) -> bool {
        std::mem::take(&mut self.persist_probe)
    }

    /// Whether there is certainly nothing to send.
    pub(super) fn is_idle(&self) -> bool {
        !(self.rack.probe || self.sent_any || self.persist_probe)
            && self.board.lost_out == 0
            && !self.has_more()
            && self.state != State::Recovery
    }

    /// The next segment that may be sent; `options` are the bytes that SACK blocks take from a full
    /// one.
    pub(super) fn next_segment(&mut self, now: Instant, options: u32) -> Option<Cut> {
        if self.rack.probe {
            self.rack.probe = false;
            if let Some(cut) = self.cut_probe(now, options) {
                return Some(cut);
            }
        }
        let limited = self.board.in_flight() >= self.send_window();
        let mut cut = if limited {
            None
        } else {
            let repeated = self.cut_retransmission(now);
            repeated.or_else(|| self.cut_new(now, options, Small::Held))
        };
        // F-RTO wanted new data, and none may be sent (`tcp_xmit_recovery`).
        if cut.is_none() && self.rack.repeat == Repeat::AfterNew && self.nxt <= self.high_seq {
            (self.rack.repeat, self.rack.frto) = (Repeat::First, false);
            cut = if limited { None } else { self.cut_retransmission(now) };
        }
        if cut.is_none() {
            let limited = limited || self.deferral == Deferral::Waiting { fills_window: true };
            if limited || self.sent_any {
                self.validate_window(now, limited);
            }
            self.check_space();
        }
        cut
    }

    /// Nothing more may be sent now: perhaps the application can write again. In Linux only
    /// acknowledgements cause this check.
    pub(super) fn check_space(&mut self) {
        let is_filled = self.board.in_flight() >= self.window.cwnd;
        let window = self.window.cwnd.max(self.rack.reordering + 1);
        self.memory.check_space(self.held(), (!is_filled).then_some(window));
    }

    /// The window in use, with limited transmit (RFC 3042; with SACK it follows by itself).
    fn send_window(&self) -> u32 {
        match self.recovery {
            Recovery::NewReno => self.window.cwnd + self.classic.limited_transmit(self.state),
            _ => self.window.cwnd,
        }
    }

    fn cut_retransmission(&mut self, now: Instant) -> Option<Cut> {
        if self.state < State::Recovery {
            return None;
        }
        match self.rack.repeat {
            Repeat::First => {}
            Repeat::No => return None,
            // F-RTO sends new data first; if there is none, it falls back to retransmission.
            Repeat::AfterNew if self.nxt > self.high_seq || self.has_sendable() => return None,
            Repeat::AfterNew => (self.rack.repeat, self.rack.frto) = (Repeat::First, false),
        }
        let id = match self.board.next_waiting() {
            Some(id) => id,
            None => self.rescue()?,
        };
        Some(self.resend(now, id))
    }

    pub(super) fn has_sendable(&self) -> bool {
        self.has_more() && self.nxt < self.window_end
    }

    /// Retransmits a segment.
    pub(super) fn resend(&mut self, now: Instant, id: u64) -> Cut {
        self.board.on_resent(id, now, self.delivered);
        self.on_resent(now);
        if id == self.board.first_id() && !matches!(self.timer, Some((Timer::Reorder, _))) {
            self.arm(Timer::Rto, now, self.rtt.rto());
        }
        self.repetition(now, id)
    }

    /// Describes a retransmitted segment.
    pub(super) fn repetition(&mut self, now: Instant, id: u64) -> Cut {
        let segment = *self.board.get(id);
        self.counts.retransmissions += 1;
        self.last_sent = now;
        let push = segment.end() >= self.nxt;
        let (seq, length, fin) = (segment.seq, segment.length, segment.fin);
        Cut { seq, length, fin, push, repeated: true }
    }

    /// Cuts new data from the buffer, as far as the peer's window allows and, if small segments are
    /// held, Nagle's rule.
    pub(super) fn cut_new(&mut self, now: Instant, options: u32, small: Small) -> Option<Cut> {
        if !self.has_sendable() {
            return None;
        }
        let unsent = self.unsent();
        let full = u64::from(self.mss.saturating_sub(options).max(1));
        let length = unsent.min(full).min(self.window_end - self.nxt);
        let is_new_burst = self.burst.left == 0 || self.burst.at != now;
        // A segment that is short because of the peer's window waits for more of it (RFC 9293,
        // 3.8.6.2.1), unless nothing is in flight that could bring that, or Linux has it in a
        // burst.
        if length < unsent.min(full) && self.board.packets_out() > 0 && is_new_burst {
            return None;
        }
        let fin = self.finish && length == unsent && self.nxt + length < self.window_end;
        // Minshall's form of Nagle's rule: at most one small segment in flight.
        let is_held = small == Small::Held
            && self.rack.repeat != Repeat::AfterNew
            && self.small_end > self.una;
        if length < full && !fin && is_held {
            return None;
        }
        self.restart_after_idle(now);
        if is_new_burst && small == Small::Held && self.defers(now, full) {
            return None;
        }
        let ends_burst = self.ends_burst(now, full, length < full);
        let push = length == unsent || ends_burst;
        let cut = Cut { seq: self.nxt, length: length as u32, fin, push, repeated: false };
        let first = self.board.packets_out() == 0;
        if first && self.counts.segments > 0 {
            self.controller.on_restart(now, now.since(self.last_sent));
        }
        let segment = (cut.seq, cut.length, fin);
        // Linux reads its clock again between retransmissions and new data.
        let sent = if self.is_linux() { now + CLOCK } else { now };
        self.board.push(segment, sent, self.delivered, !is_new_burst);
        self.nxt += length + u64::from(fin);
        if length < full {
            self.small_end = self.nxt;
        }
        self.counts.segments += 1;
        self.last_sent = now;
        self.sent_any = true;
        self.on_new_sent();
        if first || matches!(self.timer, Some((Timer::Probe, _))) {
            self.rearm_rto(now);
        }
        self.schedule_probe(now, false);
        Some(cut)
    }

    /// Whether a burst waits now, or has been waiting since something last happened.
    fn defers(&mut self, now: Instant, full: u64) -> bool {
        self.deferral = match self.deferral {
            Deferral::Waiting { .. } => return true,
            Deferral::SkippedOnce => Deferral::Allowed,
            Deferral::Allowed if self.should_defer(now, full) => {
                let fills_window = self.free_bytes() < self.window_end - self.nxt;
                Deferral::Waiting { fills_window }
            }
            Deferral::Allowed => Deferral::Allowed,
        };
        self.deferral != Deferral::Allowed
    }

    /// What the congestion window leaves free, in bytes of full segments.
    fn free_bytes(&self) -> u64 {
        let free = self.window.cwnd.saturating_sub(self.board.in_flight());
        u64::from(free) * u64::from(self.mss)
    }

    /// Whether a burst waits for the next acknowledgement, which allows a longer one
    /// (`tcp_tso_should_defer`): it would be less than a third of the window, something was sent
    /// just before, and the acknowledgement is not far. Linux does not defer the rest of one of its
    /// packets; where those end is not known here.
    fn should_defer(&self, now: Instant, full: u64) -> bool {
        let is_recent = self.counts.segments > 0 && now.since(self.last_sent) <= DEFERRED;
        if !self.is_linux() || self.state >= State::Recovery || !is_recent {
            return false;
        }
        let Some(head) = self.board.front().filter(|_| self.unsent() > full) else { return false };
        let mss = u64::from(self.mss);
        let limit = self.free_bytes().min(self.window_end - self.nxt);
        let whole = (self.window_end - self.una).min(u64::from(self.window.cwnd) * mss);
        let is_worth_it = limit >= u64::from(self.burst_limit()) * mss || limit >= whole / 3;
        let srtt = self.rtt.smoothed();
        let is_far = (head.sent + srtt).since(now) > DEFERRED.min(srtt / 2);
        let ends_stream = self.finish && self.unsent() <= limit;
        !(is_worth_it || is_far || ends_stream)
    }

    /// Whether a new segment ends a burst of several: Linux hands the burst to the host's queue as
    /// one packet, and sets PSH in its last segment (`__tcp_transmit_skb`).
    fn ends_burst(&mut self, now: Instant, full: u64, is_small: bool) -> bool {
        if !self.is_linux() {
            return false;
        }
        if self.burst.left == 0 || self.burst.at != now {
            // Half a window at most (`tcp_cwnd_test`), with at least one for a probe.
            let free = self.send_window().saturating_sub(self.board.in_flight());
            let half = (self.send_window() / 2).max(1);
            let inside = self.window_end - self.nxt;
            // The last segment may be the rest of the window (`tcp_mss_split_point`).
            let inside = match self.small_end > self.una {
                true => inside / full,
                false => inside.div_ceil(full),
            };
            let most = self.burst_limit().min(free).min(half);
            let length = u64::from(most).min(inside).max(1) as u32;
            self.burst = Burst { at: now, left: length, length };
        }
        self.burst.left = if is_small { 0 } else { self.burst.left - 1 };
        self.burst.left == 0 && self.burst.length > 1
    }

    /// Most segments that are handed over as one packet: what the pacing rate sends in a
    /// millisecond, and more where the path is short (`tcp_tso_autosize`).
    fn burst_limit(&self) -> u32 {
        let srtt = self.rtt.smoothed().as_micros();
        if srtt == 0 {
            return BURST_BYTES / self.mss.max(1);
        }
        let in_start = self.window.cwnd < self.window.ssthresh / 2;
        let percent = if in_start { 200 } else { 120 };
        let window = self.window.cwnd.max(self.board.packets_out());
        let window_bytes = u64::from(window) * u64::from(self.mss);
        let per_ms = window_bytes * percent / 100 * PACED_MICROS / srtt;
        let halvings = self.rtt.minimum().as_micros() / SHORT_MICROS;
        let short = BURST_BYTES.checked_shr(halvings.min(u32::MAX.into()) as u32).unwrap_or(0);
        let bytes = (per_ms + u64::from(short)).min(BURST_BYTES.into()) as u32;
        (bytes / self.mss.max(1)).max(2)
    }

    /// Remembers whether the window was the limit (`tcp_cwnd_validate`, RFC 7661 in spirit).
    fn validate_window(&mut self, now: Instant, limited: bool) {
        self.sent_any = false;
        let out = self.board.packets_out();
        if self.una >= self.usage_seq
            || limited
            || (!self.cwnd_limited && out > self.max_packets_out)
        {
            (self.cwnd_limited, self.max_packets_out, self.usage_seq) = (limited, out, self.nxt);
        }
        let slow_start = self.window.in_slow_start();
        if self.cwnd_limited || (slow_start && self.window.cwnd < 2 * self.max_packets_out) {
            (self.used, self.used_since) = (0, now);
            return;
        }
        self.used = self.used.max(out);
        if now.since(self.used_since) >= self.rtt.rto() {
            let used = self.used.max(self.initial_window);
            if self.state == State::Open && used < self.window.cwnd && self.unsent() == 0 {
                self.window.ssthresh = self.current_threshold();
                self.window.cwnd = (self.window.cwnd + used) / 2;
            }
            (self.used, self.used_since) = (0, now);
        }
    }

    /// Halves the window for each time-out during which the flow was idle (RFC 5681, 4.1).
    fn restart_after_idle(&mut self, now: Instant) {
        let rto = self.rtt.rto();
        let mut idle = now.since(self.last_sent);
        if self.board.packets_out() > 0 || self.counts.segments == 0 || idle <= rto {
            return;
        }
        self.window.ssthresh = self.current_threshold();
        let least = self.initial_window.min(self.window.cwnd);
        while idle > rto && self.window.cwnd > least {
            self.window.cwnd = (self.window.cwnd / 2).max(least);
            idle -= rto;
        }
        (self.used, self.used_since) = (0, now);
    }
}
