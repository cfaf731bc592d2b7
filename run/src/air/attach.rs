//! One radio's end of a veth pair: frames in, receptions and echoes out.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use bytes::Bytes;
use farhop_proto::base::{
    AckPolicy, FlowId, Frame, FrameDone, FrameOutcome, Instant, Phy, RadioId, ReceivedFrame,
    TxOptions, UnitId,
};
use farhop_proto::wire::ieee80211::{self, DataHeader, Station};
use farhop_proto::wire::radiotap::{self, Echo, Reception};
use serde::{Deserialize, Serialize};

use crate::device::{BATCH, Clock, FRAME_BYTES, PacketSocket, count, from_realtime};

/// Frames whose echo is still to come that a radio keeps at most.
const ECHOES: usize = 64;

/// What passed one radio's veth.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachStats {
    /// Frames from the daemon.
    pub frames_in: u64,
    /// Receptions handed to the daemon.
    pub receptions_out: u64,
    /// Echoes handed to the daemon.
    pub echoes_out: u64,
    /// Frames for which the chip's queue had no room.
    pub queue_full: u64,
    /// What came and was no frame to inject, by kind.
    pub dropped: BTreeMap<String, u64>,
}

/// A frame to be injected, and when the kernel got it.
#[derive(Debug)]
pub(super) struct Injected {
    pub(super) at: Instant,
    pub(super) radio: usize,
    pub(super) frame: Frame,
}

/// One radio's end.
#[derive(Debug)]
pub struct Attachment {
    socket: PacketSocket,
    station: Station,
    phy: Phy,
    channel: u16,
    has_echo: bool,
    /// How far the radio's clock is ahead of the air's, in nanoseconds, and its rate error in
    /// billionths.
    clock_offset: i64,
    clock_ppb: i64,
    /// Frames at the chip, with the bytes that their echo repeats.
    waiting: VecDeque<(UnitId, Bytes)>,
    next_id: u64,
    out: Vec<u8>,
    stats: AttachStats,
    kinds: BTreeMap<&'static str, u64>,
}

/// What an attachment must know of its radio.
#[derive(Clone, Debug)]
pub struct AttachSpec {
    /// Name of the interface at this end.
    pub interface: String,
    /// Node and radio.
    pub station: Station,
    /// PHY.
    pub phy: Phy,
    /// Channel number.
    pub channel: u16,
    /// Whether the sender hears what became of its frames.
    pub has_echo: bool,
    /// How far the radio's clock is ahead of the air's at its start, in nanoseconds.
    pub clock_offset: i64,
    /// Its rate error, in billionths.
    pub clock_ppb: i64,
}

impl Attachment {
    /// Opens the interface.
    ///
    /// Fails without the right to open raw sockets, or if the interface does not exist.
    pub fn open(spec: AttachSpec) -> io::Result<Self> {
        Ok(Self {
            socket: PacketSocket::open(&spec.interface, None)?,
            station: spec.station,
            phy: spec.phy,
            channel: spec.channel,
            has_echo: spec.has_echo,
            clock_offset: spec.clock_offset,
            clock_ppb: spec.clock_ppb,
            waiting: VecDeque::new(),
            next_id: 0,
            out: Vec::with_capacity(FRAME_BYTES),
            stats: AttachStats::default(),
            kinds: BTreeMap::new(),
        })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Reads what the daemon has sent. Returns whether there may be more.
    pub(super) fn receive(
        &mut self,
        clock: &Clock,
        radio: usize,
        buffer: &mut [u8],
        into: &mut Vec<Injected>,
    ) -> io::Result<bool> {
        let offset = clock.realtime_offset();
        for _ in 0..BATCH {
            let Some(arrival) = self.socket.receive(buffer)? else { return Ok(false) };
            if arrival.outgoing {
                continue;
            }
            let at =
                arrival.stamp.map_or_else(|| clock.now(), |stamp| from_realtime(stamp, offset));
            match self.decode(&buffer[..arrival.length]) {
                Ok(frame) => {
                    self.stats.frames_in += 1;
                    into.push(Injected { at, radio, frame });
                }
                Err(kind) => count(&mut self.kinds, kind),
            }
        }
        Ok(true)
    }

    /// A frame as mac80211 would understand it: the rate, no-ack and retries of its radiotap
    /// header, the rest from its MAC header.
    fn decode(&mut self, packet: &[u8]) -> Result<Frame, &'static str> {
        let tap = radiotap::parse(packet).map_err(|_| "radiotap")?;
        let mpdu = Bytes::copy_from_slice(packet.get(tap.length..).ok_or("truncated")?);
        let (header, payload) = ieee80211::decode(&mpdu).map_err(|_| "not-data")?;
        if header.from != self.station {
            return Err("foreign-sender");
        }
        self.next_id += 1;
        let id = UnitId(self.next_id);
        let no_ack = header.ack == AckPolicy::NoAck || tap.tx_flags.is_some_and(|tx| tx.no_ack);
        if self.has_echo {
            self.waiting.push_back((id, mpdu));
            if self.waiting.len() > ECHOES {
                self.waiting.pop_front();
            }
        }
        Ok(Frame {
            id,
            radio: self.station.1,
            to: header.to.map(|(node, _)| node),
            flow: FlowId(0),
            protocol: header.protocol,
            payload,
            options: TxOptions {
                access: header.access,
                ack: if no_ack { AckPolicy::NoAck } else { AckPolicy::Normal },
                rate: tap.rate,
                attempts: Some(tap.data_retries.unwrap_or(0).saturating_add(1)),
                ..TxOptions::default()
            },
        })
    }

    /// Notes a frame that found the chip's queue full. mac80211 drops it without a word.
    pub(super) fn on_queue_full(&mut self, id: UnitId) {
        self.stats.queue_full += 1;
        self.waiting.retain(|(waiting, _)| *waiting != id);
    }

    /// Hands the daemon a frame that its radio received.
    pub(super) fn deliver(&mut self, frame: &ReceivedFrame, sequence: u16) -> io::Result<()> {
        let first_bit = frame.started + self.phy.plcp(frame.rate);
        self.out.clear();
        let reception = Reception {
            tsft_us: self.radio_time(first_bit) / 1_000,
            rate: frame.rate,
            channel: self.channel,
            signal: frame.signal,
        };
        radiotap::put_reception(&mut self.out, &reception);
        let header = DataHeader {
            from: (frame.from, RadioId(0)),
            to: frame.to.map(|to| (to, RadioId(0))),
            ack: AckPolicy::NoAck,
            access: farhop_proto::base::AccessCategory::default(),
            sequence,
            retry: false,
            duration_us: 0,
            protocol: frame.protocol,
        };
        ieee80211::put_data(&mut self.out, &header, &frame.payload);
        self.stats.receptions_out += 1;
        self.socket.send(&self.out).map(drop)
    }

    /// Tells the daemon what became of a frame.
    pub(super) fn echo(
        &mut self,
        done: &FrameDone,
        rate: farhop_proto::base::Bitrate,
    ) -> io::Result<()> {
        let Some(at) = self.waiting.iter().position(|(id, _)| *id == done.id) else {
            return Ok(());
        };
        let Some((_, mpdu)) = self.waiting.remove(at) else { return Ok(()) };
        self.out.clear();
        let failed = !matches!(done.outcome, FrameOutcome::Acked(_));
        let retries = done.attempts.saturating_sub(1);
        radiotap::put_echo(&mut self.out, &Echo { rate, failed, retries });
        self.out.extend_from_slice(&mpdu);
        self.stats.echoes_out += 1;
        self.socket.send(&self.out).map(drop)
    }

    /// A time of the air on the radio's own clock, in nanoseconds.
    fn radio_time(&self, at: Instant) -> u64 {
        let nanos = at.as_nanos() as i128;
        let drift = nanos * i128::from(self.clock_ppb) / 1_000_000_000;
        (nanos + drift + i128::from(self.clock_offset)).max(0) as u64
    }

    /// What passed.
    pub fn stats(&self) -> AttachStats {
        let dropped = self.kinds.iter().map(|(kind, count)| ((*kind).to_owned(), *count)).collect();
        AttachStats { dropped, ..self.stats.clone() }
    }
}
