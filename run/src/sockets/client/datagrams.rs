//! Sockets of datagrams.

use std::io;
use std::time::Duration;

use super::{Daemon, Line, SocketError};
use crate::sockets::Wish;
use crate::sockets::channel::Kind;
use crate::sockets::datagrams::{DATAGRAM_BYTES, address, split};

/// Sends and receives datagrams, as UDP does: each by itself, and none of them sure.
///
/// They are batched as the bytes of streams are, and those from one service to another come in
/// order. What goes to somebody who is not there is lost.
#[derive(Debug)]
pub struct DatagramSocket {
    line: Line,
}

/// A datagram that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The node that it comes from.
    pub from: String,
    /// The service there, to which an answer goes.
    pub service: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl DatagramSocket {
    /// A socket for what comes for a service of this node; one program can have it.
    ///
    /// Fails if no daemon runs, or another program has the service.
    pub fn bind(daemon: &Daemon, service: &str) -> Result<Self, SocketError> {
        let mut line = daemon.ask(Wish::Bind { service: service.into() }, &[])?;
        line.wait_until_open()?;
        Ok(Self { line })
    }

    /// Sends a datagram to a service of a node.
    ///
    /// Fails if it is longer than 65,507 bytes, or the daemon is gone.
    pub fn send_to(&mut self, node: &str, service: &str, bytes: &[u8]) -> Result<(), SocketError> {
        if bytes.len() > DATAGRAM_BYTES || node.len() > 255 || service.len() > 255 {
            return Err(SocketError::Io(io::ErrorKind::InvalidInput.into()));
        }
        let record = [&address(node, service)[..], bytes].concat();
        Ok(self.line.put(Kind::Data, &record)?)
    }

    /// Has all that was sent go out at once.
    ///
    /// Fails if the daemon is gone.
    pub fn flush(&mut self) -> Result<(), SocketError> {
        Ok(self.line.put(Kind::Flush, &[])?)
    }

    /// Waits for the next datagram.
    ///
    /// Fails if the daemon is gone, or nothing came within the time that was set.
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

    /// How long [`DatagramSocket::receive`] waits; for ever if it is not set.
    ///
    /// Fails if the time is zero.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.line.socket.set_read_timeout(timeout)
    }

    /// A second handle, so that one can receive while the other sends.
    ///
    /// Fails if the system has no more descriptors.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { line: Line { socket: self.line.socket.try_clone()? } })
    }
}
