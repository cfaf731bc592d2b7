//! The receiving half: reassembly, SACK and DSACK blocks, and when to acknowledge (RFC 9293, 3.10;
//! RFC 2018, 4; RFC 2883; RFC 5681, 4.2), timed as in Linux.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::ORIGIN;
use super::config::{DelayedAck, TcpConfig, Tick};
use crate::base::{Duration, Instant, Seq};
use crate::wire::tcp::{SackBlocks, TIMESTAMPS_BYTES};

/// Duplicate acknowledgements that are sent at once before compression begins.
const FIRST_DUPLICATES: u32 = 3;
/// SACK blocks that certainly fit into an acknowledgement (`TCP_SACK_BLOCKS_EXPECTED`).
const EXPECTED_BLOCKS: usize = 2;
/// Most acknowledgements after a hole that compression holds together.
const MAX_COMPRESSED: u32 = 44;

/// A range of bytes after a hole.
type Island = (u64, u64);

/// Times for the handling of arriving data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) now: Instant,
    pub(super) rto: Duration,
    pub(super) rtt: Duration,
    /// The timestamp that the segment echoes, and how long ago this end sent it.
    pub(super) echo: Option<(u32, Duration)>,
    /// The segment has PSH set.
    pub(super) push: bool,
}

/// The receiving half of one end.
#[derive(Debug)]
pub(super) struct Receiver {
    delayed_ack: DelayedAck,
    tick: Tick,
    sack: bool,
    timestamps: bool,
    window: u64,
    initial: Seq,
    /// The next byte in order.
    next: u64,
    /// The number in the last acknowledgement.
    acked: u64,
    /// The end of the stream, once known.
    end: Option<u64>,
    behind: BTreeMap<u64, Bytes>,
    /// Islands, the one that changed last in front.
    islands: VecDeque<Island>,
    duplicate: Option<Island>,
    largest: u64,
    ack_now: bool,
    /// Data came since the last acknowledgement (`ICSK_ACK_SCHED`).
    is_scheduled: bool,
    delayed: Option<Instant>,
    compressed: Option<Instant>,
    compressed_acks: u32,
    duplicates: u32,
    /// The next byte in order when those were counted.
    duplicates_at: u64,
    /// Time from an acknowledgement to the data that it allowed, by timestamps; zero before the
    /// first.
    round: Duration,
    /// The last echoed timestamp that was measured.
    echo: Option<u32>,
    quick: u32,
    wait: Duration,
    /// Data is being answered with data, which can carry acknowledgements (`pingpong`).
    answers: bool,
    /// The time-out of this end's own data, which limits the wait.
    rto: Duration,
    last_data: Option<Instant>,
    pub(super) counts: ReceiverCounts,
}

/// Counters of the receiving half.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReceiverCounts {
    pub(super) delivered_bytes: u64,
    pub(super) segments: u64,
    pub(super) out_of_order: u64,
    pub(super) duplicates: u64,
    pub(super) outside_window: u64,
}

impl Receiver {
    pub(super) fn build(config: &TcpConfig) -> Self {
        Self {
            delayed_ack: config.delayed_ack,
            tick: config.tick,
            sack: config.sack,
            timestamps: config.timestamps,
            window: config.window_bytes,
            initial: Seq(0),
            next: ORIGIN,
            acked: ORIGIN,
            end: None,
            behind: BTreeMap::new(),
            islands: VecDeque::new(),
            duplicate: None,
            largest: 0,
            ack_now: false,
            is_scheduled: false,
            delayed: None,
            compressed: None,
            compressed_acks: 0,
            duplicates: 0,
            duplicates_at: ORIGIN,
            round: Duration::ZERO,
            echo: None,
            quick: 0,
            wait: Duration::ZERO,
            answers: false,
            rto: config.initial_rto,
            last_data: None,
            counts: ReceiverCounts::default(),
        }
    }

    /// Starts with the peer's SYN.
    pub(super) fn on_syn(&mut self, initial: Seq, sack: bool, timestamps: bool) {
        self.initial = initial;
        self.next = ORIGIN + 1;
        self.acked = ORIGIN + 1;
        self.sack = sack;
        self.timestamps = timestamps;
    }

    /// The number of a byte, from its sequence number on the wire.
    pub(super) fn place(&self, seq: Seq) -> u64 {
        self.next.wrapping_add_signed(i64::from(seq.distance(self.wire(self.next))))
    }

    fn wire(&self, place: u64) -> Seq {
        self.initial.add(place.wrapping_sub(ORIGIN) as u32)
    }

    /// The number in an acknowledgement now.
    pub(super) fn ack(&self) -> Seq {
        self.wire(self.next)
    }

    /// The number in the last acknowledgement.
    pub(super) fn acked(&self) -> u64 {
        self.acked
    }

    /// The receive window, in bytes.
    pub(super) fn window(&self) -> u64 {
        self.window
    }

    /// Whether all bytes and the end of the stream are here.
    pub(super) fn is_finished(&self) -> bool {
        self.end.is_some_and(|end| self.next > end)
    }

    /// Whether a segment may belong to the window, or repeat what came before.
    pub(super) fn is_acceptable(&self, left: u64, right: u64) -> bool {
        right + self.window >= self.next && left <= self.next + self.window
    }

    /// Takes the payload of a segment (`fin` if the stream ends after it), and passes what is now
    /// in order to `deliver`.
    pub(super) fn on_data(
        &mut self,
        pace: Pace,
        left: u64,
        payload: Bytes,
        fin: bool,
        mut deliver: impl FnMut(Bytes),
    ) {
        self.counts.segments += 1;
        self.is_scheduled = true;
        let right = left + payload.len() as u64;
        if fin && right <= self.next + self.window {
            self.end = Some(right);
        }
        if right + u64::from(fin) <= self.next || left > self.next + self.window {
            return self.on_useless(left, right + u64::from(fin));
        }
        self.largest = self.largest.max(payload.len() as u64);
        self.time_round(pace, payload.len() as u64);
        let had_hole = !self.islands.is_empty();
        if left > self.next {
            self.keep(left, payload, fin);
            return self.schedule(pace, false);
        }
        self.time_data(pace);
        if left < self.next && !payload.is_empty() {
            self.duplicate = Some((left, self.next.min(right)));
        }
        let skip = (self.next - left) as usize;
        self.take(payload.slice(skip.min(payload.len())..), &mut deliver);
        self.take_behind(&mut deliver);
        if self.end == Some(self.next) {
            self.next += 1;
            self.ack_now = true;
            self.islands.clear();
        }
        let filled = had_hole && self.islands.is_empty();
        self.schedule(pace, filled);
    }

    /// Answers a segment of which nothing counts, and reports which of its bytes were here before
    /// (`tcp_send_dupack`).
    pub(super) fn on_refused(&mut self, left: u64, right: u64) {
        self.ack_now = true;
        if left < right && left < self.next {
            self.counts.segments += 1;
            self.on_useless(left, right.min(self.next));
        }
    }

    /// A repetition, or bytes outside the window: reported at once.
    fn on_useless(&mut self, left: u64, right: u64) {
        if left > self.next + self.window {
            self.counts.outside_window += 1;
        } else if right > left {
            self.counts.duplicates += 1;
            self.duplicate = Some((left, right));
        }
        self.enter_quick(self.delayed_ack.quick);
        self.ack_now = true;
    }

    fn take(&mut self, bytes: Bytes, deliver: &mut impl FnMut(Bytes)) {
        if !bytes.is_empty() {
            self.next += bytes.len() as u64;
            self.counts.delivered_bytes += bytes.len() as u64;
            deliver(bytes);
        }
    }

    fn take_behind(&mut self, deliver: &mut impl FnMut(Bytes)) {
        while let Some(entry) = self.behind.first_entry().filter(|e| *e.key() <= self.next) {
            let (left, bytes) = entry.remove_entry();
            let skip = ((self.next - left) as usize).min(bytes.len());
            self.take(bytes.slice(skip..), deliver);
        }
        let next = self.next;
        self.islands.retain(|island| island.1 > next);
    }

    /// Keeps bytes after a hole, and the end of the stream, which has a number like a byte.
    fn keep(&mut self, left: u64, mut payload: Bytes, fin: bool) {
        self.counts.out_of_order += 1;
        let data = (left + payload.len() as u64).min(self.next + self.window);
        let right = data + u64::from(fin && self.end == Some(data));
        if right <= left {
            self.ack_now = true;
            return;
        }
        payload.truncate((data - left) as usize);
        let touches = |other: &Island| other.1 >= left && other.0 <= right;
        let place = self.islands.iter().position(touches).unwrap_or(self.islands.len());
        // An island that is held together with others could otherwise not be reported any more
        // (`tcp_sack_compress_send_ack`).
        self.ack_now |= self.compressed.is_some() && place >= EXPECTED_BLOCKS;
        let mut island = (left, right);
        let mut overlap = None;
        self.islands.retain(|other| {
            let apart = !touches(other);
            if !apart {
                if other.0 < right && other.1 > left {
                    overlap = Some((left.max(other.0), right.min(other.1)));
                }
                island = (island.0.min(other.0), island.1.max(other.1));
            }
            apart
        });
        self.islands.push_front(island);
        if overlap.is_some() {
            self.counts.duplicates += 1;
            self.duplicate = overlap;
        }
        if overlap != Some((left, right)) && !payload.is_empty() {
            let longer = |old: &Bytes| old.len() >= payload.len();
            if !self.behind.get(&left).is_some_and(longer) {
                self.behind.insert(left, payload);
            }
        }
    }

    /// Measures how fast data arrives, for the delay of acknowledgements (`tcp_event_data_recv`).
    fn time_data(&mut self, Pace { now, rto, .. }: Pace) {
        let min = self.delayed_ack.min;
        match self.last_data.replace(now) {
            None => {
                self.wait = min;
                self.quicken(self.delayed_ack.quick);
            }
            Some(last) => {
                let gap = now.since(last);
                if gap <= min / 2 {
                    self.wait = self.wait / 2 + min / 2;
                } else if gap < self.wait {
                    self.wait = (self.wait / 2 + gap).min(rto);
                } else if gap > rto {
                    self.quicken(self.delayed_ack.quick);
                }
            }
        }
    }

    /// Measures a round trip by the timestamp that data echoes (`tcp_rcv_rtt_measure_ts`,
    /// `tcp_rcv_rtt_update`).
    fn time_round(&mut self, pace: Pace, length: u64) {
        let Some((echo, ago)) = pace.echo else { return };
        if length < self.largest || self.echo.replace(echo) == Some(echo) {
            return;
        }
        let is_less = self.round.is_zero() || ago < self.round;
        self.round = if is_less { ago } else { (self.round * 7 + ago) / 8 };
    }

    /// The next acknowledgements are not delayed (`tcp_enter_quickack_mode`).
    fn enter_quick(&mut self, most: u32) {
        self.answers = false;
        self.wait = self.delayed_ack.min;
        self.quicken(most);
    }

    /// The same, without changing whether data counts as answered with data (`tcp_incr_quickack`).
    fn quicken(&mut self, most: u32) {
        let half_window = self.window / (2 * self.largest.max(536));
        let most = u64::from(most).min(half_window.max(2));
        self.quick = self.quick.max(most as u32);
    }

    /// Decides when to acknowledge what just came (`__tcp_ack_snd_check`).
    fn schedule(&mut self, pace: Pace, filled: bool) {
        let segments = u64::from(self.delayed_ack.segments.saturating_sub(1));
        let many = self.next - self.acked > self.largest * segments;
        // The application reads pushed data at once, and emptying the buffer sends an
        // acknowledgement (`tcp_cleanup_rbuf`), which would otherwise wait to go with an answer.
        let taken = pace.push && self.delayed_ack.push && self.islands.is_empty();
        if many || filled || (!self.answers && (self.quick > 0 || taken)) {
            self.ack_now = true;
        } else if self.islands.is_empty() {
            self.delay(pace);
        } else {
            self.compress(pace);
        }
    }

    /// Sets the timer of a delayed acknowledgement (`tcp_send_delayed_ack`). It waits no longer
    /// than a round trip, if that is known.
    fn delay(&mut self, pace: Pace) {
        let DelayedAck { min, max, .. } = self.delayed_ack;
        let most = if pace.rtt.is_zero() { max } else { max.min(pace.rtt.max(min)) };
        let wait = self.wait.clamp(min, most);
        let due = self.tick.due(pace.now, wait);
        // An acknowledgement that is about to be sent goes at once.
        self.ack_now |= self.delayed.is_some_and(|old| old <= pace.now + wait / 4);
        self.delayed = Some(self.delayed.map_or(due, |old| old.min(due)));
        self.rto = pace.rto;
    }

    fn compress(&mut self, pace: Pace) {
        if self.duplicates_at != self.next {
            (self.duplicates_at, self.duplicates) = (self.next, 0);
        }
        let known = [pace.rtt, self.round].into_iter().filter(|rtt| !rtt.is_zero());
        let rtt = known.min().unwrap_or_default();
        let delay = (rtt / 20).min(self.delayed_ack.compression);
        if self.duplicates < FIRST_DUPLICATES
            || delay.is_zero()
            || !self.sack
            || self.compressed_acks >= MAX_COMPRESSED
        {
            self.duplicates += 1;
            self.ack_now = true;
            return;
        }
        self.compressed_acks += 1;
        self.compressed.get_or_insert(pace.now + delay + self.delayed_ack.compression_slack);
    }

    /// Asks for an acknowledgement at once.
    pub(super) fn request_ack(&mut self) {
        self.ack_now = true;
    }

    /// The sender is to hear of a mark: this acknowledgement and the next are sent at once.
    pub(super) fn on_mark(&mut self) {
        self.enter_quick(2);
        self.ack_now = true;
    }

    pub(super) fn wants_ack(&self) -> bool {
        self.ack_now
    }

    /// Notes that a segment with an acknowledgement leaves, with data of this end or without.
    pub(super) fn on_ack_sent(&mut self, now: Instant, has_data: bool) {
        let is_recent = self.last_data.is_some_and(|last| now.since(last) < self.wait);
        self.answers |= has_data && is_recent;
        self.acked = self.next;
        self.ack_now = false;
        self.delayed = None;
        self.compressed = None;
        self.compressed_acks = 0;
        self.duplicate = None;
        // Answers to segments of which nothing counts do not use up quick acknowledgements
        // (`tcp_dec_quickack_mode`).
        if std::mem::take(&mut self.is_scheduled) && self.quick > 0 {
            self.quick -= 1;
            if self.quick == 0 {
                self.wait = self.delayed_ack.min;
            }
        }
    }

    /// The SACK blocks to send now: a duplicate first, then the islands, the latest first.
    pub(super) fn sack_blocks(&self) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        if !self.sack || (self.islands.is_empty() && self.duplicate.is_none()) {
            return blocks;
        }
        let most = if self.timestamps { (40 - TIMESTAMPS_BYTES - 4) / 8 } else { 4 };
        for island in self.duplicate.iter().chain(&self.islands).take(most) {
            blocks.push(self.wire(island.0), self.wire(island.1));
        }
        blocks
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        match (self.delayed, self.compressed) {
            (Some(delayed), Some(compressed)) => Some(delayed.min(compressed)),
            (delayed, compressed) => delayed.or(compressed),
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if self.poll_timeout().is_some_and(|due| due <= now) {
            if self.delayed.is_some_and(|due| due <= now) {
                // The wait was in vain: next time it is longer, or answers with data are no longer
                // expected.
                let longer = (self.wait * 2).min(self.rto);
                self.wait = if self.answers { self.delayed_ack.min } else { longer };
                self.answers = false;
            }
            (self.delayed, self.compressed) = (None, None);
            self.ack_now = true;
        }
    }
}
