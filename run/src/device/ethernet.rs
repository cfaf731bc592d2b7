//! An Ethernet-like interface: frames with farhop's EtherType, sent as Ethernet broadcasts.
//!
//! | bytes | |
//! |---|---|
//! | 2 | length of what follows: cards pad short frames to 60 bytes, and the padding arrives too |
//! | 8 | the header of `tunnel` |
//! | | the frame of the link |

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use farhop_proto::base::{AccessCategory, EtherType, Frame, FrameOutcome, FrameUp, Instant, Room};
use farhop_proto::wire::ieee80211;

use super::tunnel::{self, Tunnel};
use super::{
    BATCH, Device, DeviceSpec, DeviceStatus, FRAME_BYTES, PacketSocket, RECEIVING, arrived,
    interface, is_too_long, named, passing, unsent,
};

/// Length of an Ethernet header, in bytes.
const ETHERNET_BYTES: usize = 14;
/// Length of the field with the length, in bytes.
const LENGTH_BYTES: usize = 2;
/// What a frame of the link has before it, without the Ethernet header, in bytes.
pub(crate) const HEADER_BYTES: usize = LENGTH_BYTES + tunnel::HEADER_BYTES;

/// An Ethernet-like interface.
#[derive(Debug)]
pub struct Ethernet {
    tunnel: Tunnel,
    interface: String,
    socket: PacketSocket,
    buffer: Vec<u8>,
    out: Vec<u8>,
}

impl Ethernet {
    /// Opens the interface.
    ///
    /// Fails without the right to open raw sockets, or if the interface does not exist.
    pub fn open(interface: &str, spec: DeviceSpec) -> io::Result<Self> {
        let socket = PacketSocket::open(interface, Some(EtherType::FARHOP.0))
            .map_err(|error| named(error, interface))?;
        interface::check_mtu(interface, HEADER_BYTES + spec.longest);
        Ok(Self {
            tunnel: Tunnel::build(spec),
            interface: interface.into(),
            socket,
            buffer: vec![0; FRAME_BYTES],
            out: Vec::with_capacity(FRAME_BYTES),
        })
    }
}

impl Device for Ethernet {
    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn is_gone(&self) -> bool {
        self.socket.is_gone()
    }

    fn receive(&mut self, out: &mut Vec<FrameUp>) -> io::Result<bool> {
        let offset = self.tunnel.spec.clock.realtime_offset();
        for _ in 0..BATCH {
            let arrival = match self.socket.receive(&mut self.buffer) {
                Ok(Some(arrival)) => arrival,
                Ok(None) => return Ok(false),
                Err(error) => {
                    passing(error, &self.interface)?;
                    self.tunnel.count_failed(RECEIVING);
                    return Ok(false);
                }
            };
            if arrival.outgoing {
                continue;
            }
            let host = arrived(arrival.stamp, offset, self.tunnel.spec.clock.now());
            match unpadded(&self.buffer[..arrival.length]) {
                Some(packet) => out.extend(self.tunnel.take(packet, host)),
                None => self.tunnel.count("truncated"),
            }
        }
        Ok(true)
    }

    fn room(&self, now: Instant, access: AccessCategory) -> Room {
        self.tunnel.gate.room(now, access)
    }

    fn send(&mut self, frame: Frame, out: &mut Vec<FrameUp>) -> io::Result<Option<Frame>> {
        let spec = &self.tunnel.spec;
        self.out.clear();
        self.out.extend_from_slice(&[0xff; 6]);
        self.out.extend_from_slice(&ieee80211::address(spec.station()));
        self.out.extend_from_slice(&EtherType::FARHOP.0.to_be_bytes());
        let length = tunnel::HEADER_BYTES + frame.payload.len();
        self.out.extend_from_slice(&(length as u16).to_be_bytes());
        self.tunnel.put(&mut self.out, &frame);
        let clock = self.tunnel.spec.clock;
        if !self.tunnel.gate.is_in_time(clock.now(), &frame) {
            out.push(unsent(&frame, FrameOutcome::Late));
            return Ok(None);
        }
        let sent = self.socket.send(&self.out);
        let after = clock.now();
        match sent {
            Ok(true) => {
                let guard = self.tunnel.spec.guard;
                self.tunnel.gate.on_sent(after, &frame, 0, guard);
            }
            Ok(false) => {
                self.tunnel.gate.on_full(after);
                return Ok(Some(frame));
            }
            Err(error) if is_too_long(&error) => {
                let length = self.out.len() - ETHERNET_BYTES;
                if self.tunnel.gate.on_too_long(after, length) {
                    interface::tell_too_long(&self.interface, length);
                }
                out.push(unsent(&frame, FrameOutcome::TooLong));
            }
            Err(error) => {
                self.tunnel.count_failed(passing(error, &self.interface)?);
                self.tunnel.gate.on_full(after);
                out.push(unsent(&frame, FrameOutcome::Late));
            }
        }
        Ok(None)
    }

    fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        self.tunnel.gate.poll_timeout(now)
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Vec<FrameUp>) {
        while let Some(done) = self.tunnel.gate.poll_done(now) {
            out.push(FrameUp::Done(done));
        }
    }

    fn status(&self) -> DeviceStatus {
        DeviceStatus {
            mtu: interface::mtu(&self.interface).ok(),
            is_up: interface::is_up(&self.interface).ok(),
            ..self.tunnel.status("ethernet", self.interface.clone())
        }
    }
}

/// What an Ethernet frame carries, without its padding; `None` if it is cut off.
fn unpadded(frame: &[u8]) -> Option<&[u8]> {
    let (length, rest) = frame.get(ETHERNET_BYTES..)?.split_first_chunk::<LENGTH_BYTES>()?;
    rest.get(..usize::from(u16::from_be_bytes(*length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_padding_of_a_short_frame_is_not_taken_for_a_part_of_it() {
        let mut frame = vec![0xff; ETHERNET_BYTES];
        frame.extend([0, 3, 7, 8, 9]);
        assert_eq!(unpadded(&frame), Some(&[7, 8, 9][..]));
        frame.resize(60, 0);
        assert_eq!(unpadded(&frame), Some(&[7, 8, 9][..]));
        for end in 0..ETHERNET_BYTES + LENGTH_BYTES + 3 {
            assert_eq!(unpadded(&frame[..end]), None, "{end}");
        }
    }
}
