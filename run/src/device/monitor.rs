//! A Wi-Fi card in monitor mode: 802.11 frames with radiotap headers over AF_PACKET.
//!
//! How Linux's mac80211 handles injected frames was measured with `mac80211_hwsim`. Every frame
//! carries its rate (otherwise the lowest is used), and never asks for no-ack and retries together.
//! Copies of type "outgoing" are dropped (otherwise each frame counts twice). An echo has transmit
//! flags, but neither time stamp nor signal. The emulated air behaves in the same way over a veth
//! pair.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use farhop_proto::base::{
    AccessCategory, Frame, FrameOutcome, FrameUp, Instant, ReceivedFrame, Room,
};

use super::card::{Card, injected_bytes};
use super::{
    BATCH, Device, DeviceSpec, DeviceStatus, FRAME_BYTES, PacketSocket, RECEIVING, arrived,
    interface, is_too_long, named, passing, unsent,
};

/// A card in monitor mode.
#[derive(Debug)]
pub struct Monitor {
    card: Card,
    interface: String,
    socket: PacketSocket,
    buffer: Vec<u8>,
}

impl Monitor {
    /// Opens the card.
    ///
    /// Fails without the right to open raw sockets, or if the interface does not exist.
    pub fn open(interface: &str, spec: DeviceSpec) -> io::Result<Self> {
        let socket = PacketSocket::open(interface, None).map_err(|error| {
            let error = named(error, interface);
            if interface::mtu(interface).is_ok() {
                return error;
            }
            let make = format!("iw phy phy0 interface add {interface} type monitor");
            io::Error::new(error.kind(), format!("{error} (`{make}` makes one of the first card)"))
        })?;
        if !spec.transmit_status {
            // Without echoes only the send buffer tells whether there is room: keep it short.
            socket.set_send_buffer(20_000)?;
        }
        interface::check_mtu(interface, injected_bytes(&spec.radio.phy, spec.longest));
        Ok(Self {
            card: Card::build(spec),
            interface: interface.into(),
            socket,
            buffer: vec![0; FRAME_BYTES],
        })
    }
}

impl Device for Monitor {
    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn is_gone(&self) -> bool {
        self.socket.is_gone()
    }

    fn receive(&mut self, out: &mut Vec<FrameUp>) -> io::Result<bool> {
        self.card.begin_turn();
        let clock = self.card.spec.clock;
        let offset = clock.realtime_offset();
        for _ in 0..BATCH {
            let arrival = match self.socket.receive(&mut self.buffer) {
                Ok(Some(arrival)) => arrival,
                Ok(None) => return Ok(false),
                Err(error) => {
                    passing(error, &self.interface)?;
                    self.card.count_failed(RECEIVING);
                    return Ok(false);
                }
            };
            if arrival.outgoing {
                continue;
            }
            let host = arrived(arrival.stamp, offset, clock.now());
            out.extend(self.card.take(&self.buffer[..arrival.length], host));
        }
        Ok(true)
    }

    fn antenna(&self, frame: &ReceivedFrame) -> u8 {
        self.card.antenna(frame)
    }

    fn room(&self, now: Instant, access: AccessCategory) -> Room {
        self.card.gate.room(now, access)
    }

    fn send(&mut self, frame: Frame, out: &mut Vec<FrameUp>) -> io::Result<Option<Frame>> {
        let clock = self.card.spec.clock;
        if !self.card.gate.is_in_time(clock.now(), &frame) {
            out.push(unsent(&frame, FrameOutcome::Late));
            return Ok(None);
        }
        let (bytes, sequence) = self.card.encode(&frame);
        let length = bytes.len();
        let sent = self.socket.send(bytes);
        let after = clock.now();
        match sent {
            Ok(true) => {
                let guard = self.card.spec.guard;
                self.card.gate.on_sent(after, &frame, sequence, guard);
            }
            Ok(false) => {
                self.card.gate.on_full(after);
                return Ok(Some(frame));
            }
            Err(error) if is_too_long(&error) => {
                if self.card.gate.on_too_long(after, length) {
                    interface::tell_too_long(&self.interface, length);
                }
                out.push(unsent(&frame, FrameOutcome::TooLong));
            }
            Err(error) => {
                self.card.count_failed(passing(error, &self.interface)?);
                self.card.gate.on_full(after);
                out.push(unsent(&frame, FrameOutcome::Late));
            }
        }
        Ok(None)
    }

    fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        self.card.gate.poll_timeout(now)
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Vec<FrameUp>) {
        while let Some(done) = self.card.gate.poll_done(now) {
            out.push(FrameUp::Done(done));
        }
    }

    fn status(&self) -> DeviceStatus {
        let card = &self.card;
        DeviceStatus {
            kind: "monitor",
            name: self.interface.clone(),
            capabilities: [
                ("transmit_status", card.spec.transmit_status),
                ("hardware_timestamps", card.hardware_stamps() > 0),
            ]
            .into(),
            frames_received: card.frames_received(),
            hardware_stamps: card.hardware_stamps(),
            clock_jumps: card.clock_jumps(),
            sent: card.gate.stats(),
            mtu: interface::mtu(&self.interface).ok(),
            is_up: interface::is_up(&self.interface).ok(),
            dropped: card.dropped().clone(),
            failed: card.failed().clone(),
            ..DeviceStatus::default()
        }
    }
}
