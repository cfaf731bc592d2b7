//! The sending half: the window, acknowledgements, timers and what to send next (RFC 9293, 3.8; RFC
//! 5681; RFC 6298), in the order of Linux (`tcp_ack`, `tcp_write_xmit`).
//!
//! Loss recovery is in `recovery_rack.rs` and `recovery_6675.rs`. Linux sends while it handles an
//! acknowledgement; here the caller asks for segments afterwards, one at a time.

use bytes::Bytes;
use serde::Serialize;

use super::buffer::SendBuffer;
use super::config::{Counting, Recovery, TcpConfig, Tick};
use super::congestion::{Acked, AnyController, Controller, NO_THRESHOLD, Sample, Window};
use super::memory::{Held, SendMemory};
use super::recovery_6675::Classic;
use super::recovery_rack::Rack;
use super::rtt::RttEstimator;
use super::scoreboard::Scoreboard;
pub(super) use super::tally::Tally;
use super::transmit::{Burst, Deferral};
use super::{ORIGIN, TICK_NANOS};
use crate::base::{Duration, Instant};

/// Slack of timers that are shorter than a tick of the kernel (`TCP_TIMEOUT_MIN_US`).
pub(super) const TIMER_SLACK: Duration = Duration::from_millis(2);
/// Duplicate acknowledgements, or segments, by which a loss is told from reordering (RFC 5681).
pub(super) const DUP_THRESH: u32 = 3;

/// The states of loss recovery, as Linux names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    Open,
    Disorder,
    /// The window is being reduced because of an ECN mark.
    Cwr,
    Recovery,
    Loss,
}

/// What the sender's only timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// Retransmission time-out.
    Rto,
    /// Tail loss probe.
    Probe,
    /// The reordering window of RACK.
    Reorder,
    /// Zero window probe.
    Persist,
}

/// Counters of the sending half.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SenderCounts {
    pub(super) segments: u64,
    pub(super) retransmissions: u64,
    pub(super) timeouts: u64,
    pub(super) spurious_timeouts: u64,
    pub(super) fast_recoveries: u64,
    pub(super) undone: u64,
    pub(super) probes: u64,
    pub(super) probe_recoveries: u64,
    pub(super) dsacks: u64,
    pub(super) reorderings: u64,
    pub(super) invalid_acks: u64,
    /// Reductions of the window because of marks.
    pub(super) marks: u64,
}

/// An acknowledgement, with its numbers in the 64-bit sequence space.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ack {
    pub(super) number: u64,
    /// Window in bytes.
    pub(super) window: u64,
    pub(super) sacks: [(u64, u64); 4],
    pub(super) sack_count: usize,
    /// Echoed timestamp, as the time at which it was sent.
    pub(super) echo: Option<Instant>,
    /// The segment carried no data and no SYN or FIN.
    pub(super) bare: bool,
    /// It echoes a mark (ECE).
    pub(super) echo_mark: bool,
}

/// A segment to put on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) seq: u64,
    pub(super) length: u32,
    pub(super) fin: bool,
    /// It contains the last byte that there is to send.
    pub(super) push: bool,
    /// It was sent before.
    pub(super) repeated: bool,
}

/// The sending half of one end.
#[derive(Debug)]
pub(super) struct Sender {
    pub(super) recovery: Recovery,
    pub(super) undo: bool,
    /// Whether ECN was agreed on.
    pub(super) ecn: bool,
    counting: Counting,
    pub(super) initial_window: u32,
    max_window: u32,
    pub(super) min_rto: Duration,
    pub(super) tick: Tick,
    initial_rto: Duration,
    pub(super) retries: u32,
    /// Most payload bytes of a segment.
    pub(super) mss: u32,
    pub(super) buffer: SendBuffer,
    pub(super) memory: SendMemory,
    pub(super) board: Scoreboard,
    pub(super) una: u64,
    pub(super) nxt: u64,
    /// The first number outside the peer's window.
    pub(super) window_end: u64,
    pub(super) rtt: RttEstimator,
    pub(super) controller: AnyController,
    pub(super) window: Window,
    pub(super) state: State,
    /// `nxt` when the last recovery began; before the first one, below all that may be lost.
    pub(super) high_seq: u64,
    pub(super) delivered: u64,
    pub(super) timer: Option<(Timer, Instant)>,
    /// Time-outs since the last progress.
    pub(super) timeouts: u32,
    pub(super) rack: Rack,
    pub(super) classic: Classic,
    pub(super) finish: bool,
    pub(super) failed: bool,
    pub(super) persist_probe: bool,
    pub(super) small_end: u64,
    pub(super) cwnd_limited: bool,
    pub(super) max_packets_out: u32,
    pub(super) usage_seq: u64,
    pub(super) used: u32,
    pub(super) used_since: Instant,
    pub(super) last_sent: Instant,
    pub(super) sent_any: bool,
    pub(super) burst: Burst,
    pub(super) deferral: Deferral,
    /// Marks for segments below this number do not reduce the window again.
    pub(super) mark_high: u64,
    /// The next new segment reports that the window was reduced (CWR).
    pub(super) tell_cut: bool,
    pub(super) counts: SenderCounts,
}

impl Sender {
    pub(super) fn build(config: &TcpConfig) -> Self {
        let start = ORIGIN + 1;
        let initial_window = config.initial_window.min(config.max_window);
        let window = Window { cwnd: initial_window, ssthresh: NO_THRESHOLD, count: 0 };
        Self {
            recovery: config.recovery_with(config.sack),
            undo: config.undo,
            ecn: false,
            counting: config.counting,
            initial_window,
            max_window: config.max_window,
            min_rto: config.min_rto,
            tick: config.tick,
            initial_rto: config.initial_rto,
            retries: config.retries,
            mss: config.mss as u32,
            buffer: SendBuffer::new(start),
            memory: SendMemory::new(config.send_buffer_bytes, config.send_buffer_grows),
            board: Scoreboard::new(),
            una: start,
            nxt: start,
            window_end: start,
            rtt: RttEstimator::build(config),
            controller: AnyController::build(config),
            window,
            state: State::Open,
            high_seq: start - 1,
            delivered: 0,
            timer: None,
            timeouts: 0,
            rack: Rack::default(),
            classic: Classic::default(),
            finish: false,
            failed: false,
            persist_probe: false,
            small_end: start,
            cwnd_limited: false,
            max_packets_out: 0,
            usage_seq: start,
            used: 0,
            used_since: Instant::ZERO,
            last_sent: Instant::ZERO,
            sent_any: false,
            burst: Burst::default(),
            deferral: Deferral::Allowed,
            mark_high: start,
            tell_cut: false,
            counts: SenderCounts::default(),
        }
    }

    /// Starts once the handshake is done. `syn_lost` reduces the initial window to one segment (RFC
    /// 5681, 3.1).
    pub(super) fn on_established(&mut self, now: Instant, window: u64, syn_lost: bool) {
        self.window_end = self.una + window;
        self.used_since = now;
        if syn_lost {
            self.window.cwnd = 1;
        }
    }

    /// Takes bytes of the application.
    pub(super) fn write(&mut self, bytes: Bytes) {
        // If nothing waits before it, it is sent at once (`tcp_push_one`).
        self.deferral = if self.unsent() > 0 { Deferral::Allowed } else { Deferral::SkippedOnce };
        self.buffer.push(bytes);
        self.memory.on_written(self.held());
    }

    /// Bytes that the application may write now.
    pub(super) fn room(&self) -> u64 {
        self.memory.room(self.held())
    }

    pub(super) fn held(&self) -> Held {
        let (bytes, unsent) = (self.buffer.len(), self.unsent());
        Held { bytes, unsent, packets: self.board.packets }
    }

    /// Ends the stream behind what is in the buffer.
    pub(super) fn finish(&mut self) {
        self.finish = true;
        self.deferral = Deferral::SkippedOnce;
    }

    pub(super) fn is_finishing(&self) -> bool {
        self.finish
    }

    /// Whether the peer has everything, including the end of the stream.
    pub(super) fn is_done(&self) -> bool {
        self.finish && self.una > self.buffer.end()
    }

    /// Whether the peer did not answer for too long.
    pub(super) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Whether it behaves like Linux, with SACK or without.
    pub(super) fn is_linux(&self) -> bool {
        matches!(self.recovery, Recovery::RackTlp | Recovery::LinuxReno)
    }

    /// Bytes that wait for their first transmission.
    pub(super) fn unsent(&self) -> u64 {
        self.buffer.end().saturating_sub(self.nxt)
    }

    pub(super) fn has_more(&self) -> bool {
        self.unsent() > 0 || (self.finish && self.nxt == self.buffer.end())
    }

    /// Handles an acknowledgement; returns false if it is for something never sent.
    pub(super) fn on_ack(&mut self, now: Instant, ack: &Ack) -> bool {
        if ack.number > self.nxt {
            self.counts.invalid_acks += 1;
            return false;
        }
        self.deferral = Deferral::Allowed;
        let old = ack.number < self.una;
        let number = ack.number.max(self.una);
        // The right edge never moves back (RFC 9293, 3.8.6, asks senders to be robust against
        // that).
        let grown = !old && ack.number + ack.window > self.window_end;
        self.window_end = self.window_end.max(if old { 0 } else { ack.number + ack.window });
        let outstanding = self.board.packets_out() > 0;
        let mut tally = Tally {
            una_before: self.una,
            una_advanced: number > self.una,
            highest_before: self.board.highest_sacked().map_or(self.una, |s| s.seq),
            delivered_before: self.delivered,
            lost_before: self.board.lost_total,
            duplicate: outstanding && ack.bare && !old && !grown && number == self.una,
            bare: ack.bare,
            old,
            outstanding,
            echo: ack.echo,
            echo_mark: ack.echo_mark && self.ecn && !old,
            ..Tally::default()
        };
        if !matches!(self.recovery, Recovery::NewReno | Recovery::LinuxReno) && ack.sack_count > 0 {
            self.on_sacks(now, ack, &mut tally);
        }
        if tally.una_advanced {
            self.on_advance(now, number, &mut tally);
            self.take_assumed(tally.acked);
            // Without SACK, an original cannot be told from its repetition.
            tally.original &= !(tally.resent_acked && self.is_linux_reno());
        }
        let sampled = self.sample_rtt(now, &tally);
        let restart =
            !tally.keep_timer && (tally.acked > 0 || self.sack_is_of_before(&tally, sampled));
        self.on_echo_classic(&tally);
        match self.recovery {
            Recovery::RackTlp | Recovery::LinuxReno => self.recover_rack(now, &mut tally),
            Recovery::Rfc6675 => self.recover_6675(now, &tally),
            Recovery::NewReno => self.recover_newreno(now, &tally),
        }
        if restart && !tally.keep_timer {
            self.restart_timer(now);
        }
        if self.has_more() && self.board.packets_out() == 0 && self.window_end <= self.nxt {
            self.start_persist(now);
        }
        if self.is_idle() {
            self.check_space();
        }
        true
    }

    fn on_sacks(&mut self, now: Instant, ack: &Ack, tally: &mut Tally) {
        let blocks = &ack.sacks[..ack.sack_count];
        let first = blocks[0];
        let inside = blocks.get(1).is_some_and(|b| b.0 <= first.0 && first.1 <= b.1);
        let is_dsack = first.0 < ack.number || inside;
        if is_dsack {
            self.on_dsack(first, tally);
        }
        // In sequence order (`tcp_sacktag_write_queue`): the last delivered segment gives the
        // round-trip time by which losses are judged.
        let mut ranges = ack.sacks;
        let ranges = &mut ranges[usize::from(is_dsack)..ack.sack_count];
        ranges.sort_unstable_by_key(|range| range.0);
        for (left, right) in &*ranges {
            let left = (*left).max(self.una);
            if left >= *right || *right > self.nxt {
                continue;
            }
            let (rack, counts, high_seq) = (&mut self.rack, &mut self.delivered, self.high_seq);
            let min_rtt = self.rtt.minimum();
            self.board.on_sack(left, *right, |segment| {
                tally.sacked = true;
                *counts += 1;
                tally.on_delivered(segment);
                rack.on_delivered(now, min_rtt, segment);
                if !segment.ever_resent {
                    tally.first_sacked.get_or_insert(segment.sent);
                    tally.last_sacked = Some(segment.sent);
                    tally.original |= segment.end() <= high_seq;
                    if segment.seq < tally.highest_before {
                        tally.overtake(segment.seq);
                    }
                }
            });
        }
    }

    /// Removes cumulatively acknowledged segments (`tcp_clean_rtx_queue`).
    fn on_advance(&mut self, now: Instant, number: u64, tally: &mut Tally) {
        while let Some(segment) = self.board.pop_acked(number) {
            tally.acked += 1;
            if segment.ever_resent {
                tally.resent_acked = true;
            } else if !segment.sacked {
                tally.first_acked.get_or_insert(segment.sent);
                tally.last_acked = Some(segment.sent);
                tally.original |= segment.end() <= self.high_seq;
                if segment.seq < tally.highest_before {
                    tally.overtake(segment.seq);
                }
            }
            if !segment.sacked {
                self.delivered += 1;
                tally.on_delivered(&segment);
                self.rack.on_acked(now, self.rtt.minimum(), tally.echo, &segment);
            }
        }
        self.una = number;
        self.board.trim_ranges(number);
        self.buffer.release(number);
        self.timeouts = 0;
    }

    /// Takes a round-trip sample, never from a retransmitted segment (Karn) unless its timestamp
    /// tells which transmission was acknowledged.
    fn sample_rtt(&mut self, now: Instant, tally: &Tally) -> bool {
        let clean = tally.first_acked.filter(|_| !tally.resent_acked);
        let oldest = clean.or(tally.first_sacked);
        let latest = match clean {
            Some(_) => tally.last_acked,
            None => tally.last_sacked,
        };
        let latest = latest.map(|latest| now.since(latest));
        if let Some(latest) = latest {
            self.rtt.on_minimum(now, latest);
        }
        // An acknowledgement that was overtaken says nothing about the path now (`tcp_ack`,
        // `old_ack`), nor does a segment of data that acknowledges nothing new.
        if !tally.old && (tally.una_advanced || tally.bare || tally.sacked) {
            let (una, nxt, mss) = (self.una, self.nxt, self.mss);
            self.controller
                .on_sample(&mut self.window, &Sample { now, rtt: latest, una, nxt, mss });
        }
        let echo = tally.echo.filter(|_| tally.acked > 0);
        let Some(sent) = oldest.or(echo) else {
            return false;
        };
        if oldest.is_none() {
            // A round-trip time from an echoed timestamp counts for the minimum too, in whole ticks
            // of its clock (`tcp_ack_update_rtt`).
            let ticks = (now.since(sent).as_nanos() / TICK_NANOS).max(1);
            let sample = Duration::from_nanos(ticks * TICK_NANOS);
            self.rtt.on_minimum(now, sample);
            self.rtt.on_sample(sample, self.una, self.nxt);
            return true;
        }
        self.rtt.on_sample(now.since(sent), self.una, self.nxt);
        true
    }

    /// Whether a SACK gave a round-trip sample from a segment that was sent before the head's last
    /// transmission. Then the time-out restarts, as in Linux (`tcp_clean_rtx_queue`). Segments that
    /// were sent later could put it off for ever. By RFC 6298 no SACK restarts it.
    fn sack_is_of_before(&self, tally: &Tally, sampled: bool) -> bool {
        let (Some(first), Some(head)) = (tally.first_sacked, self.board.front()) else {
            return false;
        };
        self.recovery == Recovery::RackTlp && sampled && first < head.sent
    }

    /// Grows the window (`tcp_cong_avoid`); called where recovery does not set it.
    pub(super) fn grow(&mut self, now: Instant, tally: &Tally) {
        let delivered = (self.delivered - tally.delivered_before) as u32;
        let limited = self.cwnd_limited
            || (self.window.in_slow_start() && self.window.cwnd < 2 * self.max_packets_out);
        // Linux grows the window on acknowledgements with marks too (`tcp_may_raise_cwnd`): marks
        // cut the window where they are new, and are echoed for long while holes are repaired.
        let is_marked = tally.echo_mark && !self.is_of_linux();
        if delivered == 0 || !limited || is_marked {
            return;
        }
        let segments = match self.counting {
            Counting::Segments => delivered,
            Counting::Acks => 1,
        };
        self.controller.on_acked(&mut self.window, &Acked { now, segments });
        self.window.cwnd = self.window.cwnd.min(self.max_window);
    }

    /// The threshold to remember when the window is reduced or unused.
    pub(super) fn current_threshold(&self) -> u32 {
        if matches!(self.state, State::Cwr | State::Recovery) {
            return self.window.ssthresh;
        }
        self.window.ssthresh.max(self.window.cwnd / 2 + self.window.cwnd / 4)
    }

    /// The time-out before the first sample.
    pub(super) fn initial_rto(&self) -> Duration {
        self.initial_rto
    }
}
