//! The air's end of a radio's veth pair: frames in, receptions and echoes out.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use farhop_proto::base::{Frame, FrameUp, Instant, UnitId};
use farhop_sim::radio;

use super::port::{AttachSpec, AttachStats, Port};
use crate::device::{BATCH, Clock, PacketSocket, arrived, passing};

/// A frame to be injected, and when the kernel received it.
#[derive(Debug)]
pub(super) struct Injected {
    pub(super) at: Instant,
    pub(super) radio: usize,
    pub(super) what: What,
}

/// Kinds of injected frames.
#[derive(Debug)]
pub(super) enum What {
    /// A node's frame, which is sent by the rules of 802.11.
    Frame(Frame),
    /// A stranger's frame, which is sent at once.
    Hostile(radio::Injected),
}

/// The air's end of one radio.
#[derive(Debug)]
pub struct Attachment {
    socket: PacketSocket,
    port: Port,
    is_gone: bool,
}

impl Attachment {
    /// Opens the interface.
    ///
    /// Fails without the right to open raw sockets, or if the interface does not exist.
    pub fn open(spec: AttachSpec) -> io::Result<Self> {
        let socket = PacketSocket::open(&spec.interface, None)?;
        Ok(Self { socket, port: Port::build(spec), is_gone: false })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether the interface is gone, as when its daemon dies, or down.
    pub(super) fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Opens the interface again if it is there and up; returns whether it is.
    pub(super) fn reopen(&mut self) -> bool {
        if let Ok(socket) = PacketSocket::open(&self.port.spec().interface, None)
            && rustix::net::sockopt::socket_error(&socket) == Ok(Ok(()))
        {
            self.socket = socket;
            self.port.forget();
            self.is_gone = false;
        }
        !self.is_gone
    }

    /// Reads what the daemon has sent. Returns whether there may be more.
    pub(super) fn receive(
        &mut self,
        clock: &Clock,
        radio: usize,
        buffer: &mut [u8],
        into: &mut Vec<Injected>,
    ) -> bool {
        if self.is_gone {
            return false;
        }
        let offset = clock.realtime_offset();
        for _ in 0..BATCH {
            let arrival = match self.socket.receive(buffer) {
                Ok(Some(arrival)) => arrival,
                Ok(None) => return false,
                Err(error) => {
                    self.on_error(error);
                    return false;
                }
            };
            if arrival.outgoing {
                continue;
            }
            let at = arrived(arrival.stamp, offset, clock.now());
            let what = self.port.take(&buffer[..arrival.length]);
            into.extend(what.map(|what| Injected { at, radio, what }));
        }
        true
    }

    /// Notes a frame for which the chip had no room.
    pub(super) fn on_refused(&mut self, id: UnitId) {
        self.port.on_refused(id);
    }

    /// Sends an event of the radio to the daemon.
    pub(super) fn tell(&mut self, event: &FrameUp, antenna: u8) {
        if self.is_gone {
            return;
        }
        let packet = match event {
            FrameUp::Received(frame) | FrameUp::Overheard(frame) => {
                Some(self.port.reception(frame, antenna))
            }
            FrameUp::Done(done) => self.port.echo(done),
            FrameUp::Wanted(_) => None,
        };
        let Some(packet) = packet else { return };
        let sent = self.socket.send(packet);
        let stats = &mut self.port.stats;
        match sent {
            Ok(true) if matches!(event, FrameUp::Done(_)) => stats.echoes_out += 1,
            Ok(true) => stats.receptions_out += 1,
            Ok(false) => stats.not_taken += 1,
            Err(error) => {
                stats.not_taken += 1;
                self.on_error(error);
            }
        }
    }

    fn on_error(&mut self, error: io::Error) {
        let interface = &self.port.spec().interface;
        // An interface that is removed is set down first, and reports nothing more.
        let is_down = error.raw_os_error() == Some(libc::ENETDOWN);
        match passing(error, interface) {
            Ok(kind) if !is_down => self.port.count(kind),
            _ => {
                tracing::warn!(interface, "a radio's interface is gone or down");
                self.is_gone = true;
            }
        }
    }

    /// Counters of the veth.
    pub fn stats(&self) -> AttachStats {
        self.port.stats()
    }
}
