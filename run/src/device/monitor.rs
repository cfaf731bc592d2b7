//! A Wi-Fi card in monitor mode: 802.11 frames with radiotap headers over AF_PACKET.
//!
//! What Linux's mac80211 does with injected frames was measured on `mac80211_hwsim`: every frame
//! carries its rate (else it goes at the lowest), no-ack and retries are never asked for together,
//! copies of type "outgoing" are dropped (else each frame counts twice), and an echo has transmit
//! flags but neither time stamp nor signal. The emulated air speaks the same over a veth pair.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use bytes::Bytes;
use farhop_proto::base::{
    AckPolicy, Bitrate, Duration, Frame, FrameDone, FrameOutcome, FrameUp, Instant, ReceivedFrame,
    Room,
};
use farhop_proto::wire::ieee80211::{self, DataHeader, Station};
use farhop_proto::wire::radiotap::{self, Injection, Radiotap};

use super::{
    Arrival, BATCH, Device, DeviceSpec, DeviceStatus, FRAME_BYTES, PacketSocket, StampFilter,
    TxGate, count, from_realtime, mpdu_bytes, named,
};

/// Check sequence behind a frame, where the driver leaves it.
const FCS_BYTES: usize = 4;

/// A card in monitor mode.
#[derive(Debug)]
pub struct Monitor {
    spec: DeviceSpec,
    interface: String,
    socket: PacketSocket,
    gate: TxGate,
    stamps: StampFilter,
    sequence: u16,
    /// The last sequence number of each station, to know repetitions whose acknowledgement was
    /// lost.
    last: BTreeMap<Station, u16>,
    buffer: Vec<u8>,
    out: Vec<u8>,
    frames_received: u64,
    hardware_stamps: u64,
    dropped: BTreeMap<&'static str, u64>,
}

impl Monitor {
    /// Opens the card.
    ///
    /// Fails without the right to open raw sockets, or if the interface does not exist.
    pub fn open(interface: &str, spec: DeviceSpec) -> io::Result<Self> {
        let socket =
            PacketSocket::open(interface, None).map_err(|error| named(error, interface))?;
        if !spec.transmit_status {
            // Without an echo the send buffer is the card's only word on room: keep it short.
            socket.set_send_buffer(20_000)?;
        }
        Ok(Self {
            gate: TxGate::build(spec.radio, spec.transmit_status),
            spec,
            interface: interface.into(),
            socket,
            stamps: StampFilter::default(),
            sequence: 0,
            last: BTreeMap::new(),
            buffer: vec![0; FRAME_BYTES],
            out: Vec::with_capacity(FRAME_BYTES),
            frames_received: 0,
            hardware_stamps: 0,
            dropped: BTreeMap::new(),
        })
    }

    fn on_packet(
        &mut self,
        arrival: Arrival,
        host: Instant,
    ) -> Result<Option<FrameUp>, &'static str> {
        if arrival.outgoing {
            return Ok(None);
        }
        let packet = &self.buffer[..arrival.length];
        let tap = radiotap::parse(packet).map_err(|error| match error {
            radiotap::DecodeError::Truncated => "radiotap-truncated",
            radiotap::DecodeError::Version => "radiotap-version",
        })?;
        if tap.bad_fcs {
            return Err("check-sequence");
        }
        let end = packet.len().saturating_sub(if tap.has_fcs { FCS_BYTES } else { 0 });
        let mpdu = packet.get(tap.length..end).ok_or("truncated")?;
        let (header, payload) = ieee80211::decode(&Bytes::copy_from_slice(mpdu)).map_err(kind)?;
        if tap.is_echo() {
            let failed = tap.tx_flags.is_some_and(|flags| flags.failed);
            let retries = tap.data_retries.unwrap_or(0);
            let done = self.gate.on_echo(host, header.sequence, failed, retries);
            return Ok(done.map(FrameUp::Done));
        }
        if header.from.0 == self.spec.node {
            return Err("own");
        }
        self.on_data(tap, header, payload, host)
    }

    fn on_data(
        &mut self,
        tap: Radiotap,
        header: DataHeader,
        payload: Bytes,
        host: Instant,
    ) -> Result<Option<FrameUp>, &'static str> {
        let before = self.last.insert(header.from, header.sequence);
        if header.retry && before == Some(header.sequence) {
            return Err("duplicate");
        }
        self.frames_received += 1;
        let rate = tap.rate.unwrap_or(self.spec.radio.rate);
        let frame = ReceivedFrame {
            radio: self.spec.radio.id,
            from: header.from.0,
            to: header.to.map(|(node, _)| node),
            protocol: header.protocol,
            started: self.started(&tap, header.ack, payload.len(), rate, host),
            payload,
            rate,
            signal: tap.signal,
            bits: 0,
        };
        let is_ours = header.to.is_none_or(|to| to == self.spec.station());
        Ok(Some(if is_ours { FrameUp::Received(frame) } else { FrameUp::Overheard(frame) }))
    }

    /// When the frame's preamble began, on the node's clock.
    fn started(
        &mut self,
        tap: &Radiotap,
        ack: AckPolicy,
        payload: usize,
        rate: Bitrate,
        host: Instant,
    ) -> Instant {
        let phy = &self.spec.radio.phy;
        let whole = phy.air_time(mpdu_bytes(ack, payload), rate);
        let Some(tsft) = tap.tsft_us else {
            return host.saturating_sub(whole);
        };
        self.hardware_stamps += 1;
        let plcp = phy.plcp(rate);
        let body = whole.saturating_sub(plcp);
        let first_bit = tsft.wrapping_mul(1_000);
        let offset = self.stamps.offset(first_bit.wrapping_add(body.as_nanos()), host);
        let first_bit = Instant::from_nanos((first_bit as i64).wrapping_add(offset).max(0) as u64);
        first_bit.saturating_sub(plcp)
    }

    /// Writes the frame with its headers into `out`.
    fn encode(&mut self, frame: &Frame) {
        self.sequence = (self.sequence + 1) & 0x0fff;
        let options = &frame.options;
        let attempts = options.attempts.unwrap_or(self.spec.attempts);
        let injection = Injection {
            rate: options.rate.unwrap_or(self.spec.radio.rate),
            retries: match options.ack {
                AckPolicy::NoAck => None,
                AckPolicy::Normal => Some(attempts.saturating_sub(1)),
            },
        };
        self.out.clear();
        radiotap::put_injection(&mut self.out, &injection);
        let header = DataHeader {
            from: self.spec.station(),
            to: frame.to.map(|to| (to, frame.radio)),
            ack: options.ack,
            access: options.access,
            sequence: self.sequence,
            retry: false,
            duration_us: 0,
            protocol: frame.protocol,
        };
        ieee80211::put_data(&mut self.out, &header, &frame.payload);
    }
}

fn kind(error: ieee80211::DecodeError) -> &'static str {
    match error {
        ieee80211::DecodeError::Truncated => "truncated",
        ieee80211::DecodeError::NotData => "not-data",
        ieee80211::DecodeError::Foreign => "foreign",
        ieee80211::DecodeError::Unsupported => "unsupported",
    }
}

/// A frame that was not sent.
pub(super) fn unsent(frame: &Frame) -> FrameUp {
    FrameUp::Done(FrameDone {
        id: frame.id,
        outcome: FrameOutcome::Late,
        attempts: 0,
        air_time: Duration::ZERO,
    })
}

impl Device for Monitor {
    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn receive(&mut self, out: &mut Vec<FrameUp>) -> io::Result<()> {
        let offset = self.spec.clock.realtime_offset();
        for _ in 0..BATCH {
            let received = self.socket.receive(&mut self.buffer);
            let Some(arrival) = received.map_err(|error| named(error, &self.interface))? else {
                break;
            };
            let now = || self.spec.clock.now();
            let host = arrival.stamp.map_or_else(now, |stamp| from_realtime(stamp, offset));
            match self.on_packet(arrival, host) {
                Ok(event) => out.extend(event),
                Err(kind) => count(&mut self.dropped, kind),
            }
        }
        Ok(())
    }

    fn room(&self, now: Instant) -> Room {
        self.gate.room(now)
    }

    fn send(&mut self, frame: Frame, out: &mut Vec<FrameUp>) -> io::Result<()> {
        self.encode(&frame);
        let now = self.spec.clock.now();
        if !self.gate.is_in_time(now, &frame) {
            out.push(unsent(&frame));
            return Ok(());
        }
        if self.socket.send(&self.out).map_err(|error| named(error, &self.interface))? {
            let after = self.spec.clock.now();
            self.gate.on_sent(after, &frame, self.sequence, self.spec.guard);
        } else {
            self.gate.on_full(now);
            out.push(unsent(&frame));
        }
        Ok(())
    }

    fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        self.gate.poll_timeout(now)
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Vec<FrameUp>) {
        while let Some(done) = self.gate.poll_done(now) {
            out.push(FrameUp::Done(done));
        }
    }

    fn status(&self) -> DeviceStatus {
        DeviceStatus {
            kind: "monitor",
            name: self.interface.clone(),
            capabilities: [
                ("transmit_status", self.spec.transmit_status),
                ("hardware_timestamps", self.hardware_stamps > 0),
            ]
            .into(),
            frames_received: self.frames_received,
            hardware_stamps: self.hardware_stamps,
            clock_jumps: self.stamps.jumps(),
            sent: self.gate.stats(),
            dropped: self.dropped.clone(),
        }
    }
}
