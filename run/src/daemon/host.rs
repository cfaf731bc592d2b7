//! The port to the host's IP stack: the TUN interface, or a socket pair instead of it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;

use bytes::Bytes;
use serde::Serialize;

use crate::device::tun::{Tun, TunStats};

/// Largest IP packet that a socket pair carries, in bytes.
const PACKET_BYTES: usize = 65_536;

/// Source and destination of the host's IP packets.
pub trait Host {
    /// Descriptor to wait on until the host has sent something.
    fn fd(&self) -> BorrowedFd<'_>;

    /// Takes the host's next IP packet, if there is one.
    ///
    /// Fails if the port is gone.
    fn receive(&mut self) -> io::Result<Option<Bytes>>;

    /// Gives the host an IP packet; if the host refuses it, that is counted.
    fn send(&mut self, packet: &[u8]);

    /// Counters of the port.
    fn status(&self) -> HostStatus;
}

/// Counters of the port to the host.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HostStatus {
    /// Name of the interface.
    pub name: String,
    /// The counters.
    #[serde(flatten)]
    pub stats: TunStats,
}

impl Host for Tun {
    fn fd(&self) -> BorrowedFd<'_> {
        Self::fd(self)
    }

    fn receive(&mut self) -> io::Result<Option<Bytes>> {
        Self::receive(self)
    }

    fn send(&mut self, packet: &[u8]) {
        Self::send(self, packet);
    }

    fn status(&self) -> HostStatus {
        HostStatus { name: self.name().into(), stats: self.stats() }
    }
}

/// One end of a socket pair; each datagram is an IP packet. It is for programs with their own IP
/// stack, and for tests.
#[derive(Debug)]
pub struct SocketHost {
    socket: UnixDatagram,
    buffer: Vec<u8>,
    stats: TunStats,
}

impl SocketHost {
    /// The port at one end of a pair.
    ///
    /// Fails if the socket cannot be made non-blocking.
    pub fn new(socket: UnixDatagram) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self { socket, buffer: vec![0; PACKET_BYTES], stats: TunStats::default() })
    }
}

impl Host for SocketHost {
    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn receive(&mut self) -> io::Result<Option<Bytes>> {
        match self.socket.recv(&mut self.buffer) {
            Ok(length) => {
                self.stats.from_host += 1;
                Ok(Some(Bytes::copy_from_slice(&self.buffer[..length])))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn send(&mut self, packet: &[u8]) {
        match self.socket.send(packet) {
            Ok(_) => self.stats.to_host += 1,
            Err(_) => self.stats.refused += 1,
        }
    }

    fn status(&self) -> HostStatus {
        HostStatus { name: "socket".into(), stats: self.stats }
    }
}
