//! UDP flows that measure a path: a source with a constant rate or a saturating one, and a sink
//! that measures loss, one-way delay and jitter (RFC 3550, A.8).
//!
//! Each payload begins with its number and the time it was sent, on the sender's clock, both as
//! 64-bit big-endian numbers. At a constant rate this is the time it was due, so that the delay
//! includes a host that is late. The samples contain the offset between the clocks.

mod made;
mod source;

use std::net::SocketAddrV4;

use bytes::Bytes;

pub use self::made::{Made, under_way};
use self::source::Source;
use super::tcp::FlowEnd;
use super::{Transport, TransportStatus};
use crate::base::{
    Bitrate, Cx, Datagram, DatagramUp, Datagrams, Destination, Duration, FlowId, Instant, Lane,
    Layer, Message, MessageUp, Messages, Overflow, Room, RoomBelow, TxOptions, UnitIds, named,
};
use crate::wire::{ip, udp};

/// Bytes of the shortest payload: number and time.
pub const LEAST_BYTES: usize = 16;
/// Most delay samples that are kept; beyond that, every second one is kept, then every fourth, and
/// so on.
const MAX_SAMPLES: usize = 1 << 18;
/// Numbers below the highest within which a repeated datagram is recognised.
const REPEAT_WINDOW: u64 = 4_096;
static FILL: [u8; 1 << 16] = [0; 1 << 16];

/// The role and settings of a UDP flow end.
#[derive(Clone, Debug, PartialEq)]
pub enum UdpConfig {
    /// Sends.
    Source {
        /// Payload rate; `None` sends as much as there is room for.
        rate: Option<Bitrate>,
        /// Payload of a datagram, in bytes; at least [`LEAST_BYTES`].
        size: usize,
        /// Payload bytes after which it ends; `None` for no end.
        bytes: Option<u64>,
    },
    /// Receives and measures.
    Sink,
}

/// Measurements of a sink for one datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// One-way delay in microseconds, including the offset between the clocks of both ends.
    pub delay_us: i64,
    /// Jitter so far (RFC 3550, 6.4.1), in microseconds.
    pub jitter_us: u32,
    /// When it arrived on the sink's clock, in hundredths of a second.
    pub at_cs: u32,
}

/// One end of a UDP flow.
#[derive(Debug)]
pub struct Udp {
    end: FlowEnd,
    wire_flow: FlowId,
    role: Role,
    has_said_connected: bool,
    ids: UnitIds,
    malformed: u64,
}

#[derive(Debug)]
enum Role {
    Source(Source),
    Sink(Sink),
}

/// Counters and measurements of a sink.
#[derive(Debug)]
struct Sink {
    received: u64,
    received_bytes: u64,
    duplicates: u64,
    reordered: u64,
    /// One more than the highest number.
    expected: u64,
    /// The first number that counts since the measurement began, and how many of these arrived.
    from: u64,
    counted: u64,
    /// Whether number `n` arrived is bit `n % REPEAT_WINDOW`, for the latest numbers. The vector is
    /// only as long as needed so far.
    seen: Vec<u64>,
    samples: Vec<Sample>,
    stride: u64,
    last_transit: Option<i64>,
    jitter_ns: f64,
}

impl Udp {
    /// Reads something of each part, so that it is in the cache.
    pub(crate) fn fetch(&self) -> u64 {
        let role = match &self.role {
            Role::Source(source) => source.left,
            Role::Sink(sink) => sink.received ^ sink.seen.last().map_or(0, |word| *word),
        };
        role ^ self.malformed ^ u64::from(self.end.local.port())
    }

    /// One end of a flow.
    ///
    /// Panics if the payload of a source is shorter than [`LEAST_BYTES`] or longer than 65,507.
    pub fn build(config: UdpConfig, end: FlowEnd) -> Self {
        let role = match config {
            UdpConfig::Source { rate, size, bytes } => {
                assert!((LEAST_BYTES..=65_507).contains(&size), "a payload of {size} bytes");
                Role::Source(Source::build(rate, size, bytes))
            }
            UdpConfig::Sink => Role::Sink(Sink::new()),
        };
        let wire_flow = ip::flow(&udp::encode(end.local, end.remote, &[], &[]));
        let ids = UnitIds::default();
        Self { end, wire_flow, role, has_said_connected: false, ids, malformed: 0 }
    }

    /// The flow of the packets of this end, as [`ip::flow`] computes it.
    pub fn wire_flow(&self) -> FlowId {
        self.wire_flow
    }

    /// Samples of a sink in the order of arrival; of very many, only every 2^n-th.
    pub fn samples(&self) -> &[Sample] {
        match &self.role {
            Role::Source(_) => &[],
            Role::Sink(sink) => &sink.samples,
        }
    }

    /// Ends a source at `now`; a payload that would be due exactly then is not sent.
    pub fn stop(&mut self, now: Instant) {
        if let Role::Source(source) = &mut self.role {
            if source.started {
                source.advance(now.saturating_sub(Duration::from_nanos(1)));
            }
            source.end(now);
        }
    }

    /// Pauses a source from `now` on, until it is resumed. Payloads that were due before are still
    /// sent.
    pub fn pause(&mut self, now: Instant) {
        if let Role::Source(source) = &mut self.role {
            source.advance(now);
            let rest = if source.started { source.due.since(now) } else { Duration::ZERO };
            (source.paused, source.due) = (Some(rest), Instant::MAX);
        }
    }

    /// Resumes a source that was paused: the rest of the time to its next payload continues, so
    /// that it keeps its rate over many pauses.
    pub fn resume(&mut self, now: Instant) {
        if let Role::Source(source) = &mut self.role
            && let Some(rest) = source.paused.take()
            && source.started
        {
            source.due = now + rest;
        }
    }

    /// How many datagrams a source had made by a time, or slightly fewer: those that were sent, and
    /// those that were lost in the source because there was no room.
    pub fn made_by(&self, at: Instant) -> u64 {
        match &self.role {
            Role::Source(source) => source.made.by(at) + source.overdue(at),
            Role::Sink(_) => 0,
        }
    }

    /// Starts the measurement of a sink anew: samples count from now on, and loss from number
    /// `from` on.
    pub fn begin_measure(&mut self, from: u64) {
        if let Role::Sink(sink) = &mut self.role {
            (sink.from, sink.counted) = (from, 0);
            sink.samples.clear();
            sink.stride = 1;
        }
    }

    /// How many of the measured datagrams arrived at a sink, and how many there were: up to number
    /// `made`, of which the sink may not know, and all that arrived beyond it.
    pub fn measured(&self, made: u64) -> (u64, u64) {
        match &self.role {
            Role::Source(_) => (0, 0),
            Role::Sink(sink) => {
                let all = sink.expected.max(made).saturating_sub(sink.from);
                (sink.counted, all.max(sink.counted))
            }
        }
    }

    /// Jitter of a sink (RFC 3550, 6.4.1).
    pub fn jitter(&self) -> Duration {
        match &self.role {
            Role::Source(_) => Duration::ZERO,
            Role::Sink(sink) => Duration::from_nanos(sink.jitter_ns as u64),
        }
    }

    /// Datagrams that found no room when they were due, as in a full interface queue.
    pub(crate) fn refused(&self) -> u64 {
        match &self.role {
            Role::Source(source) => source.overflows,
            Role::Sink(_) => 0,
        }
    }

    /// Datagrams that are missing at a sink, up to the highest number that arrived.
    pub fn lost(&self) -> u64 {
        match &self.role {
            Role::Source(_) => 0,
            Role::Sink(sink) => sink.expected.saturating_sub(sink.received),
        }
    }

    fn on_received(&mut self, now: Instant, packet: &Bytes) {
        let Role::Sink(sink) = &mut self.role else { return };
        let payload = match udp::decode(packet) {
            Ok((_, range)) if range.len() >= LEAST_BYTES => &packet[range],
            _ => {
                self.malformed += 1;
                return;
            }
        };
        let word = |at: usize| {
            let bytes: [u8; 8] = payload[at..at + 8].try_into().expect("eight bytes");
            u64::from_be_bytes(bytes)
        };
        sink.on_payload(now, word(0), word(8), payload.len() as u64);
    }
}

impl Sink {
    fn new() -> Self {
        Self {
            received: 0,
            received_bytes: 0,
            duplicates: 0,
            reordered: 0,
            expected: 0,
            from: 0,
            counted: 0,
            seen: Vec::new(),
            samples: Vec::new(),
            stride: 1,
            last_transit: None,
            jitter_ns: 0.0,
        }
    }

    fn on_payload(&mut self, now: Instant, number: u64, sent: u64, length: u64) {
        if !self.is_new(number) {
            self.duplicates += 1;
            return;
        }
        self.received += 1;
        self.counted += u64::from(number >= self.from);
        self.received_bytes += length;
        let transit = now.signed_since(Instant::from_nanos(sent));
        if let Some(last) = self.last_transit.replace(transit) {
            let change = transit.saturating_sub(last).unsigned_abs() as f64;
            self.jitter_ns += (change - self.jitter_ns) / 16.0;
        }
        if self.received.is_multiple_of(self.stride) {
            let jitter_us = (self.jitter_ns / 1e3) as u32;
            let at_cs = (now.as_nanos() / 10_000_000) as u32;
            self.samples.push(Sample { delay_us: transit / 1_000, jitter_us, at_cs });
            if self.samples.len() >= MAX_SAMPLES {
                let mut index = 0;
                self.samples.retain(|_| {
                    index += 1;
                    index % 2 == 0
                });
                self.stride *= 2;
            }
        }
    }

    /// Notes a number, and returns whether it is new; numbers that are too old to tell count as
    /// repeated.
    fn is_new(&mut self, number: u64) -> bool {
        let bit = |number: u64| ((number % REPEAT_WINDOW / 64) as usize, 1 << (number % 64));
        if number >= self.expected {
            let words = (number / 64 + 1).min(REPEAT_WINDOW / 64) as usize;
            self.seen.resize(words.max(self.seen.len()), 0);
            let fresh = self.expected.max(number.saturating_sub(REPEAT_WINDOW - 1));
            for skipped in fresh..number {
                let (word, mask) = bit(skipped);
                self.seen[word] &= !mask;
            }
            // No sender reaches this number; it would make the count of missing datagrams useless.
            self.expected = number.saturating_add(1);
        } else if self.expected - number > REPEAT_WINDOW {
            return false;
        } else {
            let (word, mask) = bit(number);
            if self.seen[word] & mask != 0 {
                return false;
            }
            self.reordered += 1;
        }
        let (word, mask) = bit(number);
        self.seen[word] |= mask;
        true
    }
}

impl Layer for Udp {
    type Above = Messages;
    type Below = Datagrams;

    fn handle_rx(&mut self, cx: &mut Cx<'_>, event: DatagramUp) {
        match event {
            DatagramUp::Received { payload, .. } => self.on_received(cx.now, &payload),
            DatagramUp::Done(_)
            | DatagramUp::Dropped { .. }
            | DatagramUp::Drowned(_)
            | DatagramUp::NextHop { .. } => {}
        }
    }

    fn poll_rx(&mut self, _cx: &mut Cx<'_>) -> Option<MessageUp> {
        let is_new = !std::mem::replace(&mut self.has_said_connected, true);
        is_new.then_some(MessageUp::Connected(self.end.flow))
    }

    /// The source makes its own payloads, and takes nothing from above.
    fn room(&self, _lane: Lane) -> Room {
        Room::NONE
    }

    fn handle_tx(&mut self, _cx: &mut Cx<'_>, _message: Message) {
        panic!("a UDP flow has no room for messages");
    }

    fn poll_tx(&mut self, cx: &mut Cx<'_>, below: &RoomBelow<'_>) -> Option<Datagram> {
        let Role::Source(source) = &mut self.role else {
            return None;
        };
        let lane = Lane { flow: self.wire_flow, ..Lane::default() };
        if source.is_blocked {
            if below(lane).is_none() {
                return None;
            }
            source.advance(cx.now);
            source.is_blocked = false;
        } else if !source.started || source.is_ready() {
            source.advance(cx.now);
        }
        if !source.is_ready() {
            return None;
        }
        if below(lane).is_none() {
            if source.rate.is_some() {
                source.block(cx.now);
            }
            return None;
        }
        let front = source.take(cx.now);
        let overflow = if source.rate.is_none() { Overflow::Wait } else { Overflow::DropTail };
        let rest = &FILL[..source.size - LEAST_BYTES];
        Some(Datagram {
            id: self.ids.next_id(),
            to: Destination::End(self.end.to),
            flow: self.wire_flow,
            payload: udp::encode(self.end.local, self.end.remote, &front, rest),
            options: TxOptions { overflow, ..TxOptions::default() },
        })
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match &self.role {
            Role::Source(source) if !source.is_blocked && source.due < Instant::MAX => {
                Some(source.due)
            }
            _ => None,
        }
    }

    fn handle_timeout(&mut self, cx: &mut Cx<'_>) {
        if let Role::Source(source) = &mut self.role
            && source.due <= cx.now
            && !source.is_blocked
        {
            match source.rate {
                Some(_) => source.advance(cx.now),
                None => source.due = Instant::MAX,
            }
        }
    }
}

impl Transport for Udp {
    fn accepts(&self, packet: &[u8]) -> bool {
        let address = |socket: &SocketAddrV4| (*socket.ip()).into();
        let Some((ip::UDP, datagram)) = ip::payload(packet) else {
            return false;
        };
        let ports = [self.end.remote.port().to_be_bytes(), self.end.local.port().to_be_bytes()];
        datagram.get(..4) == Some(ports.as_flattened())
            && ip::source(packet) == Some(address(&self.end.remote))
            && ip::destination(packet) == Some(address(&self.end.local))
    }

    fn accepted_flow(&self) -> Option<FlowId> {
        Some(ip::flow(&udp::encode(self.end.remote, self.end.local, &[], &[])))
    }

    fn delivered_bytes(&self) -> u64 {
        match &self.role {
            Role::Source(_) => 0,
            Role::Sink(sink) => sink.received_bytes,
        }
    }

    fn status(&self) -> TransportStatus {
        let mut status = TransportStatus { kind: "udp".into(), ..TransportStatus::default() };
        match &self.role {
            Role::Source(source) => {
                status.sent_bytes = source.sent_bytes + source.overflows * source.size as u64;
                status.counters =
                    named([("segments", source.sent), ("overflows", source.overflows)]);
            }
            Role::Sink(sink) => {
                status.delivered_bytes = sink.received_bytes;
                status.counters = named([
                    ("received_segments", sink.received),
                    ("lost", self.lost()),
                    ("duplicates", sink.duplicates),
                    ("out_of_order", sink.reordered),
                    ("jitter_us", self.jitter().as_micros()),
                    ("malformed", self.malformed),
                ]);
            }
        }
        status
    }
}

#[cfg(test)]
mod tests;
