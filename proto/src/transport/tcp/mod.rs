//! TCP (RFC 9293) with SACK, timestamps and window scaling, on real encoded segments.
//!
//! By default it behaves like Linux 6 with Reno: see `sender.rs` and `recovery_rack.rs`. CUBIC,
//! Westwood+, ECN and Linux without SACK have files of their own. For reproductions there are RFC
//! 6675 and NewReno (RFC 6582), see `recovery_6675.rs`. Not implemented: urgent data, simultaneous
//! open, a timer for TIME-WAIT (an end answers repetitions for ever, as its ports are never used
//! again), and keep-alive.

use std::collections::VecDeque;
use std::net::SocketAddrV4;

use bytes::Bytes;

use super::{Transport, TransportStatus};
use crate::base::{
    Cx, Datagram, DatagramUp, Datagrams, Destination, Duration, FlowId, Instant, Lane, Layer,
    Message, MessageUp, Messages, Room, RoomBelow, Seq, TxOptions, UnitIds, named,
};
use crate::wire::ip::{self, Ecn};
use crate::wire::tcp::{self, Flags, Header, Options, SackBlocks, TIMESTAMPS_BYTES};

mod arrival;
mod buffer;
mod config;
mod congestion;
mod cubic;
mod ecn;
mod memory;
mod probe;
mod receiver;
mod recovery_6675;
mod recovery_rack;
mod recovery_reno;
mod rtt;
mod scoreboard;
mod sender;
mod tally;
#[cfg(test)]
mod tests;
mod timers;
mod trace;
mod transmit;
mod undo;
mod westwood;

pub use config::{Congestion, Counting, DelayedAck, FlowEnd, Recovery, TcpConfig, Tick};
use ecn::Marks;
use receiver::Receiver;
use sender::{Cut, Sender};

/// The number of a SYN in the 64-bit sequence space in which both halves count.
const ORIGIN: u64 = 1 << 32;
/// Most bytes that one message is taken to hold.
const MESSAGE_BYTES: u64 = 64 << 10;
/// Most acknowledgements that wait to leave; further ones are merged.
const MOST_ANSWERS: usize = 64;
const TICK_NANOS: u64 = 1_000_000;

/// State of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Listen,
    SynSent,
    SynReceived,
    /// Established, until both directions have ended.
    Open,
    Done,
    Failed,
}

/// The handshake of one end.
#[derive(Clone, Copy, Debug, Default)]
struct Handshake {
    to_send: bool,
    sent: Option<Instant>,
    tries: u32,
    due: Option<Instant>,
}

/// Segments that were refused, by reason.
#[derive(Clone, Copy, Debug, Default)]
struct Refused {
    malformed: u64,
    old_timestamps: u64,
    outside_window: u64,
    resets: u64,
}

/// One end of a connection.
#[derive(Debug)]
pub struct Tcp {
    config: TcpConfig,
    end: FlowEnd,
    phase: Phase,
    handshake: Handshake,
    sender: Sender,
    receiver: Receiver,
    initial: Seq,
    timestamps: bool,
    sack: bool,
    marks: Marks,
    window_scale: u8,
    peer_scale: u8,
    /// The peer's timestamp to echo.
    recent: u32,
    /// A reset to send: its sequence number, and its acknowledgement number if it has one.
    reset: Option<(Seq, Option<Seq>)>,
    wire_flow: FlowId,
    up: VecDeque<MessageUp>,
    /// Acknowledgements that leave before anything else.
    answers: VecDeque<Bytes>,
    ids: UnitIds,
    refused: Refused,
}

impl Tcp {
    /// The end that opens the connection, with the first call of `poll_tx`.
    pub fn connect(config: TcpConfig, end: FlowEnd) -> Self {
        let mut tcp = Self::build(config, end, Phase::SynSent);
        tcp.handshake.to_send = true;
        tcp
    }

    /// The end that waits for the other.
    pub fn listen(config: TcpConfig, end: FlowEnd) -> Self {
        Self::build(config, end, Phase::Listen)
    }

    fn build(mut config: TcpConfig, end: FlowEnd, phase: Phase) -> Self {
        config.tick = config.tick.of_host(end.local.ip().to_bits());
        let mut window_scale = 0;
        while window_scale < 14 && config.window_bytes >> window_scale > 65_535 {
            window_scale += 1;
        }
        let header = Header::default();
        let packet = tcp::encode(end.local, end.remote, &header, std::iter::empty(), 0);
        let wire_flow = ip::flow(&packet);
        // This number need not be hard to guess: the ports keep the two ends apart, and the clock
        // keeps one connection apart from the next (`poll_syn`).
        let mix = end.local.ip().to_bits() ^ (u32::from(end.local.port()) << 16);
        Self {
            sender: Sender::build(&config),
            receiver: Receiver::build(&config),
            initial: Seq(mix.wrapping_mul(0x9e37_79b1)),
            timestamps: config.timestamps,
            sack: config.sack,
            marks: Marks::default(),
            window_scale,
            peer_scale: 0,
            recent: 0,
            reset: None,
            wire_flow,
            up: VecDeque::new(),
            answers: VecDeque::new(),
            ids: UnitIds::default(),
            refused: Refused::default(),
            handshake: Handshake::default(),
            config,
            end,
            phase,
        }
    }

    /// The flow of the packets of this end, as [`ip::flow`] computes it.
    pub fn wire_flow(&self) -> FlowId {
        self.wire_flow
    }

    /// Congestion window, in segments.
    pub fn cwnd(&self) -> u32 {
        self.sender.window.cwnd
    }

    /// Smoothed round-trip time; zero before the first sample.
    pub fn srtt(&self) -> Duration {
        self.sender.rtt.smoothed()
    }

    /// Whether both directions have ended in order.
    pub fn is_finished(&self) -> bool {
        self.phase == Phase::Done
    }

    fn wire(&self, place: u64) -> Seq {
        self.initial.add(place.wrapping_sub(ORIGIN) as u32)
    }

    /// The number in our own stream of a number on the wire.
    fn place(&self, seq: Seq) -> u64 {
        let una = self.sender.una;
        una.wrapping_add_signed(i64::from(seq.distance(self.wire(una))))
    }

    fn timestamp(&self, now: Instant) -> u32 {
        (now.as_nanos() / TICK_NANOS) as u32
    }

    /// The time at which this end sent an echoed timestamp.
    fn echoed(&self, now: Instant, echo: u32) -> Option<Instant> {
        let ago = self.timestamp(now).wrapping_sub(echo);
        let ticks = (now.as_nanos() / TICK_NANOS).checked_sub(u64::from(ago))?;
        Some(Instant::from_nanos(ticks * TICK_NANOS))
    }

    /// The next packet, if the lane below has room.
    fn poll_packet(&mut self, now: Instant) -> Option<Bytes> {
        if let Some((seq, ack)) = self.reset.take() {
            let flags = if ack.is_some() { Flags::RST.with(Flags::ACK) } else { Flags::RST };
            let header = Header { seq, ack: ack.unwrap_or_default(), flags, ..self.header() };
            return Some(self.encode(&header, None));
        }
        match self.phase {
            Phase::SynSent | Phase::SynReceived => self.poll_syn(now),
            Phase::Open | Phase::Done if !self.answers.is_empty() => self.answers.pop_front(),
            Phase::Open | Phase::Done => self.poll_segment(now),
            Phase::Listen | Phase::Failed => None,
        }
    }

    fn poll_syn(&mut self, now: Instant) -> Option<Bytes> {
        if !std::mem::take(&mut self.handshake.to_send) {
            return None;
        }
        if self.handshake.tries == 0 {
            // RFC 9293, 3.4.1: a clock that counts each 4 us.
            self.initial = self.initial.add((now.as_nanos() / 4_000) as u32);
        }
        self.handshake.sent = Some(now);
        self.handshake.tries += 1;
        let doubled = (self.handshake.tries - 1).saturating_sub(self.syn_linear());
        let wait = self.config.initial_rto * (1 << doubled.min(16));
        self.handshake.due = Some(now + wait.min(self.config.max_rto));
        let answer = self.phase == Phase::SynReceived;
        let flags = if answer { Flags::SYN.with(Flags::ACK) } else { Flags::SYN };
        let echo = if answer { self.recent } else { 0 };
        let extra = if self.config.timestamps { TIMESTAMPS_BYTES } else { 0 };
        let header = Header {
            seq: self.initial,
            ack: if answer { self.receiver.ack() } else { Seq(0) },
            flags: flags.with(self.marks.syn_flags(self.config.ecn, answer)),
            window: self.receiver.window().min(65_535) as u16,
            options: Options {
                mss: Some((self.config.mss + extra).min(65_535) as u16),
                window_scale: Some(self.window_scale),
                sack_permitted: self.sack,
                timestamps: self.timestamps.then_some((self.timestamp(now), echo)),
                sack: SackBlocks::default(),
            },
            ..self.header()
        };
        Some(self.encode(&header, None))
    }

    fn poll_segment(&mut self, now: Instant) -> Option<Bytes> {
        let sack = self.receiver.sack_blocks();
        let cut = self.sender.next_segment(now, sack.option_bytes());
        let probe = cut.is_none() && self.sender.take_persist_probe();
        if cut.is_none() && !probe && !self.receiver.wants_ack() {
            return None;
        }
        let place = match &cut {
            Some(cut) => cut.seq,
            // A probe repeats an acknowledged number, so that the peer must answer.
            None if probe => self.sender.una - 1,
            None => self.sender.nxt,
        };
        let mut flags = Flags::ACK.with(self.marks.ack_flags());
        if let Some(cut) = &cut {
            flags = if cut.push && cut.length > 0 { flags.with(Flags::PSH) } else { flags };
            flags = if cut.fin { flags.with(Flags::FIN) } else { flags };
            if !cut.repeated && cut.length > 0 && std::mem::take(&mut self.sender.tell_cut) {
                flags = flags.with(Flags::CWR);
            }
        }
        // What is repeated was cut to a full segment when there was less to report.
        let taken = cut.as_ref().filter(|cut| cut.repeated).map_or(0, |cut| cut.length);
        let part = sack.within(self.sender.mss.saturating_sub(taken));
        let header = self.acknowledging(now, place, flags, part);
        if part == sack {
            self.receiver.on_ack_sent(now, cut.is_some_and(|cut| cut.length > 0));
        }
        Some(self.encode(&header, cut))
    }

    fn acknowledging(&self, now: Instant, place: u64, flags: Flags, sack: SackBlocks) -> Header {
        let stamp = self.timestamp(now);
        Header {
            seq: self.wire(place),
            ack: self.receiver.ack(),
            flags,
            window: (self.receiver.window() >> self.window_scale).min(65_535) as u16,
            options: Options {
                timestamps: self.timestamps.then_some((stamp, self.recent)),
                sack,
                ..Options::default()
            },
            ..self.header()
        }
    }

    /// Writes an acknowledgement that is owed before the next segment is handled, where each
    /// segment is acknowledged by itself: it is not merged with the one that will be owed for the
    /// next.
    fn answer_singly(&mut self, now: Instant) {
        let is_owed = self.config.delayed_ack.singly && self.receiver.wants_ack();
        if is_owed && self.phase == Phase::Open && self.answers.len() < MOST_ANSWERS {
            self.acknowledge(now);
        }
    }

    /// Writes an acknowledgement without data.
    fn acknowledge(&mut self, now: Instant) {
        let flags = Flags::ACK.with(self.marks.ack_flags());
        let sack = self.receiver.sack_blocks();
        let header = self.acknowledging(now, self.sender.nxt, flags, sack);
        self.receiver.on_ack_sent(now, false);
        self.answers.push_back(self.encode(&header, None));
    }

    fn header(&self) -> Header {
        let (source, destination) = (self.end.local.port(), self.end.remote.port());
        Header { source, destination, ..Header::default() }
    }

    fn encode(&self, header: &Header, cut: Option<Cut>) -> Bytes {
        let (local, remote) = (self.end.local, self.end.remote);
        match cut.filter(|cut| cut.length > 0) {
            Some(cut) => {
                let length = cut.length as usize;
                let slices = self.sender.buffer.slices(cut.seq, length);
                let packet = tcp::encode(local, remote, header, slices, length);
                // RFC 3168, 6.1.5: repetitions go without.
                let carries = self.marks.agreed && !cut.repeated;
                if carries { ip::with_ecn(packet, Ecn::Ect0) } else { packet }
            }
            None => tcp::encode(local, remote, header, std::iter::empty(), 0),
        }
    }

    /// Time-outs of a SYN after which the wait does not double. That of a SYN+ACK doubles from the
    /// first one on (`tcp_retransmit_timer`, `tcp_write_timeout`).
    fn syn_linear(&self) -> u32 {
        if self.phase == Phase::SynSent { self.config.syn_linear } else { 0 }
    }

    fn on_handshake_timeout(&mut self) {
        self.handshake.due = None;
        if self.handshake.tries > self.config.syn_retries + self.syn_linear() {
            self.fail();
        } else {
            self.handshake.to_send = true;
        }
    }

    fn wants_tx(&self) -> bool {
        self.reset.is_some()
            || self.handshake.to_send
            || (matches!(self.phase, Phase::Open | Phase::Done)
                && (!self.answers.is_empty()
                    || self.receiver.wants_ack()
                    || !self.sender.is_idle()))
    }
}

impl Layer for Tcp {
    type Above = Messages;
    type Below = Datagrams;

    fn handle_rx(&mut self, cx: &mut Cx<'_>, event: DatagramUp) {
        if let DatagramUp::Received { payload, .. } = event {
            let before = self.window_state();
            self.answer_singly(cx.now);
            self.on_segment(cx.now, &payload);
            self.trace_window(cx, before);
        }
    }

    fn poll_rx(&mut self, _cx: &mut Cx<'_>) -> Option<MessageUp> {
        self.up.pop_front()
    }

    /// Room in the send buffer, in messages of 64 KB; the last may overfill it by itself.
    fn room(&self, _lane: Lane) -> Room {
        let buffer = &self.sender.buffer;
        if self.phase == Phase::Failed || self.sender.is_finishing() || buffer.is_full() {
            return Room::NONE;
        }
        let room = self.sender.room();
        let unsent = self.config.unsent_bytes.saturating_sub(self.sender.unsent());
        Room::units(room.min(unsent).div_ceil(MESSAGE_BYTES) as usize)
    }

    fn handle_tx(&mut self, _cx: &mut Cx<'_>, message: Message) {
        assert!(!self.sender.is_finishing(), "nothing follows the last message");
        self.sender.write(message.payload);
        if message.finish {
            self.sender.finish();
        }
    }

    fn poll_tx(&mut self, cx: &mut Cx<'_>, below: &RoomBelow<'_>) -> Option<Datagram> {
        if !self.wants_tx() || below(Lane { flow: self.wire_flow, ..Lane::default() }).is_none() {
            return None;
        }
        let payload = self.poll_packet(cx.now)?;
        Some(Datagram {
            id: self.ids.next_id(),
            to: Destination::End(self.end.to),
            flow: self.wire_flow,
            payload,
            options: TxOptions::default(),
        })
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let timers = [
            self.handshake.due,
            self.sender.timer.map(|timer| timer.1),
            self.receiver.poll_timeout(),
        ];
        match self.phase {
            Phase::Failed => None,
            _ => timers.into_iter().flatten().min(),
        }
    }

    fn handle_timeout(&mut self, cx: &mut Cx<'_>) {
        let before = self.window_state();
        if self.handshake.due.is_some_and(|due| due <= cx.now) {
            self.on_handshake_timeout();
        }
        self.receiver.handle_timeout(cx.now);
        self.sender.handle_timeout(cx.now);
        self.trace_window(cx, before);
        if self.sender.has_failed() && self.phase != Phase::Failed {
            // The peer is told nothing of it, as it has not answered anything before
            // (`tcp_write_err`).
            self.fail();
        }
    }
}

impl Transport for Tcp {
    fn accepts(&self, packet: &[u8]) -> bool {
        let address = |socket: &SocketAddrV4| (*socket.ip()).into();
        let Some((ip::TCP, segment)) = ip::payload(packet) else {
            return false;
        };
        let ports = [self.end.remote.port().to_be_bytes(), self.end.local.port().to_be_bytes()];
        segment.get(..4) == Some(ports.as_flattened())
            && ip::source(packet) == Some(address(&self.end.remote))
            && ip::destination(packet) == Some(address(&self.end.local))
    }

    fn accepted_flow(&self) -> Option<FlowId> {
        let (header, nothing) = (Header::default(), std::iter::empty());
        Some(ip::flow(&tcp::encode(self.end.remote, self.end.local, &header, nothing, 0)))
    }

    fn delivered_bytes(&self) -> u64 {
        self.receiver.counts.delivered_bytes
    }

    fn status(&self) -> TransportStatus {
        let (sender, receiver) = (&self.sender, &self.receiver);
        let (sent, got, refused) = (&sender.counts, &receiver.counts, &self.refused);
        let until = |place: u64| place.min(sender.buffer.end()) - (ORIGIN + 1);
        TransportStatus {
            kind: "tcp".into(),
            sent_bytes: until(sender.nxt),
            acked_bytes: until(sender.una),
            delivered_bytes: got.delivered_bytes,
            counters: named([
                ("segments", sent.segments),
                ("retransmissions", sent.retransmissions),
                ("timeouts", sent.timeouts),
                ("spurious_timeouts", sent.spurious_timeouts),
                ("fast_recoveries", sent.fast_recoveries),
                ("undone_reductions", sent.undone),
                ("loss_probes", sent.probes),
                ("loss_probe_recoveries", sent.probe_recoveries),
                ("dsacks", sent.dsacks),
                ("reorderings", sent.reorderings),
                ("invalid_acks", sent.invalid_acks),
                ("syn_retransmissions", u64::from(self.handshake.tries.saturating_sub(1))),
                ("cwnd", u64::from(sender.window.cwnd)),
                ("ssthresh", u64::from(sender.window.ssthresh)),
                ("srtt_us", sender.rtt.smoothed().as_micros()),
                ("rto_us", sender.rtt.rto().as_micros()),
                ("received_segments", got.segments),
                ("out_of_order", got.out_of_order),
                ("duplicates", got.duplicates),
                ("malformed", refused.malformed),
                ("old_timestamps", refused.old_timestamps),
                ("outside_window", refused.outside_window + got.outside_window),
                ("resets", refused.resets),
                ("marks_received", self.marks.received),
                ("marks_obeyed", sent.marks),
            ]),
        }
    }
}
