//! Sockets of datagrams.

use std::io;
use std::time::Duration;

use super::{Daemon, Line, SocketError};
use crate::sockets::Wish;
use crate::sockets::channel::Kind;
use crate::sockets::datagrams::{DATAGRAM_BYTES, address, split};

/// Sends and receives datagrams, as UDP does: each by itself, without guarantee of delivery.
///
/// They are batched as the bytes of streams are, and those from one service to another arrive in
/// order. A datagram to a service that nobody is bound to is lost.
#[derive(Debug)]
pub struct DatagramSocket {
    line: Line,
}

/// A datagram that was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The node that it comes from.
    pub from: String,
    /// The service that sent it, to which an answer goes.
    pub service: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl DatagramSocket {
    /// Binds a socket to a service of this node; only one program at a time can.
    ///
    /// Fails if no daemon runs, or another program is bound to the service.
    pub fn bind(daemon: &Daemon, service: &str) -> Result<Self, SocketError> {
        let mut line = daemon.ask(Wish::Bind { service: service.into() }, &[])?;
        line.wait_until_open()?;
        Ok(Self { line })
    }

    /// Sends a datagram to a service of a node.
    ///
    /// Fails if the datagram is longer than 65,507 bytes or a name than 255, or the daemon is gone.
    pub fn send_to(&mut self, node: &str, service: &str, bytes: &[u8]) -> Result<(), SocketError> {
        if bytes.len() > DATAGRAM_BYTES || node.len() > 255 || service.len() > 255 {
            return Err(SocketError::Io(io::ErrorKind::InvalidInput.into()));
        }
        let record = [&address(node, service)[..], bytes].concat();
        Ok(self.line.put(Kind::Data, &record)?)
    }

    /// Sends at once all that was written.
    ///
    /// Fails if the daemon is gone.
    pub fn flush(&mut self) -> Result<(), SocketError> {
        Ok(self.line.put(Kind::Flush, &[])?)
    }

    /// Waits for the next datagram.
    ///
    /// Fails if the daemon is gone, or nothing came within the read timeout.
    pub fn receive(&mut self) -> Result<Datagram, SocketError> {
        loop {
            let (kind, payload) = self.line.record()?;
            if kind == Kind::Data
                && let Some((from, service, bytes)) = split(payload.into())
            {
                return Ok(Datagram { from, service, bytes: bytes.to_vec() });
            }
        }
    }

    /// How long [`DatagramSocket::receive`] may wait; `None` is for ever.
    ///
    /// Fails if the time is zero.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.line.socket.set_read_timeout(timeout)
    }

    /// A second handle, so that one thread can receive while another sends.
    ///
    /// Fails if no descriptor is left.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { line: Line { socket: self.line.socket.try_clone()? } })
    }
}
