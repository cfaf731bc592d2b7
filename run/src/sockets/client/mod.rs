//! Sockets for programs: streams, blocks and datagrams between nodes, over block transport.
//!
//! ```no_run
//! use std::io::{Read as _, Write as _};
//! use farhop_run::sockets::client::{Daemon, StreamSocket};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let daemon = Daemon::of_node("hill");
//! let mut stream = StreamSocket::connect(&daemon, "valley", "echo", b"hello")?;
//! stream.finish()?;
//! let mut answer = String::new();
//! stream.read_to_string(&mut answer)?;
//! # Ok(())
//! # }
//! ```

mod blocks;
mod datagrams;

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde::Deserialize;

pub(crate) use self::blocks::LOOK;
pub use self::blocks::{BlockListener, BlockReceiver, BlockSender, IncomingBlocks};
pub use self::datagrams::{Datagram, DatagramSocket};
use super::Wish;
use super::channel::{Cause, HEAD_BYTES, Kind, RECORD_BYTES, STREAM_BYTES};
use crate::daemon::control::Request;
use crate::daemon::{ControlError, client, runtime_dir, socket_path};

/// Most bytes that can go along with the request for a stream, which saves a round trip.
pub const FIRST_BYTES: usize = 7_000;

/// The daemon that a program asks for sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Daemon {
    path: PathBuf,
}

impl Daemon {
    /// The daemon of a node on this host. For a node of a lab use [`Daemon::at`].
    pub fn of_node(name: &str) -> Self {
        Self { path: socket_path(&runtime_dir(), name) }
    }

    /// The daemon behind a control socket.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Path of its control socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Asks for a socket; `first` is sent right after the request.
    fn ask(&self, wish: Wish, first: &[u8]) -> Result<Line, SocketError> {
        let told = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                SocketError::NoDaemon { path: self.path.clone() }
            }
            io::ErrorKind::WouldBlock => {
                let error = ControlError::Silent { path: self.path.clone() };
                SocketError::Silent(error.to_string())
            }
            _ => SocketError::Io(error),
        };
        let mut socket = client::connect(&self.path, client::PATIENCE).map_err(told)?;
        let mut request = serde_json::to_vec(&Request::Socket(wish)).map_err(io::Error::from)?;
        request.push(b'\n');
        request.extend_from_slice(first);
        socket.write_all(&request).map_err(told)?;
        Ok(Line { socket })
    }
}

/// Why a socket was refused or closed.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// No daemon listens at the control socket.
    #[error("no daemon runs behind {}", path.display())]
    NoDaemon {
        /// The control socket.
        path: PathBuf,
    },
    /// The daemon or the other end refused it.
    #[error("{0}")]
    Refused(String),
    /// The daemon did not answer, or the other end was silent for too long.
    #[error("{0}")]
    Silent(String),
    /// It was broken off: by the other end, or because a daemon ended.
    #[error("{0}")]
    Broken(String),
    /// The operating system reported an error.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<SocketError> for io::Error {
    fn from(error: SocketError) -> Self {
        match error {
            SocketError::NoDaemon { .. } => Self::new(io::ErrorKind::NotConnected, error),
            SocketError::Refused(_) => Self::new(io::ErrorKind::ConnectionRefused, error),
            SocketError::Silent(_) => Self::new(io::ErrorKind::TimedOut, error),
            SocketError::Broken(_) => Self::new(io::ErrorKind::ConnectionReset, error),
            SocketError::Io(error) => error,
        }
    }
}

/// Exchanges records with the daemon.
#[derive(Debug)]
struct Line {
    socket: UnixStream,
}

impl Line {
    fn put(&mut self, kind: Kind, payload: &[u8]) -> io::Result<()> {
        let mut record = Vec::with_capacity(HEAD_BYTES + payload.len());
        record.extend(kind.head(payload.len()));
        record.extend_from_slice(payload);
        self.socket.write_all(&record)
    }

    /// Whether the daemon sends something within the time limit.
    fn is_readable(&self, limit: Duration) -> io::Result<bool> {
        let limit =
            Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&limit)) {
            Err(Errno::INTR) => Ok(false),
            ready => Ok(ready? > 0),
        }
    }

    /// Kind and length of the next record. A record that ends the socket is an error.
    fn head(&mut self) -> Result<(Kind, usize), SocketError> {
        let mut head = [0; HEAD_BYTES];
        self.socket.read_exact(&mut head).map_err(gone)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let kind = Kind::from_byte(head[0]).filter(|_| length <= RECORD_BYTES);
        let kind = kind.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        if kind == Kind::Reset {
            let payload = self.payload(length)?;
            let why = String::from_utf8_lossy(payload.get(1..).unwrap_or_default()).into_owned();
            return Err(match payload.first() {
                Some(cause) if *cause == Cause::Refused as u8 => SocketError::Refused(why),
                Some(cause) if *cause == Cause::Silent as u8 => SocketError::Silent(why),
                _ => SocketError::Broken(why),
            });
        }
        Ok((kind, length))
    }

    fn payload(&mut self, length: usize) -> Result<Vec<u8>, SocketError> {
        let mut payload = vec![0; length];
        self.socket.read_exact(&mut payload).map_err(gone)?;
        Ok(payload)
    }

    fn record(&mut self) -> Result<(Kind, Vec<u8>), SocketError> {
        let (kind, length) = self.head()?;
        Ok((kind, self.payload(length)?))
    }

    /// Waits until the socket is open; returns the daemon's message about it.
    fn wait_until_open(&mut self) -> Result<Vec<u8>, SocketError> {
        match self.record()? {
            (Kind::Opened, text) => Ok(text),
            (kind, _) => Err(SocketError::Broken(format!("the daemon answers with {kind:?}"))),
        }
    }
}

/// The daemon closed the connection without a reason.
fn gone(error: io::Error) -> SocketError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
            SocketError::Broken("the daemon of this node is gone".into())
        }
        _ => SocketError::Io(error),
    }
}

/// A stream of bytes to and from a program at another node, like a TCP connection.
///
/// Writes are batched: a block goes out at once while nothing of the stream is on its way, else
/// after half a second, when it is a megabyte long, or when [`Write::flush`] is called. A stream
/// that is dropped before [`StreamSocket::finish`] is broken off, and the other end learns of it.
#[derive(Debug)]
pub struct StreamSocket {
    line: Line,
    /// Bytes of the current record that were not read yet.
    left: usize,
    is_ended: bool,
    is_finished: Arc<AtomicBool>,
}

impl StreamSocket {
    /// Connects to a service of a node. Up to [`FIRST_BYTES`] of `first` go along with the request.
    /// Returns once the other end has accepted.
    ///
    /// Fails if no daemon runs, the service refuses, or the other end is silent for too long.
    pub fn connect(
        daemon: &Daemon,
        to: &str,
        service: &str,
        first: &[u8],
    ) -> Result<Self, SocketError> {
        let wish = Wish::Connect { to: to.into(), service: service.into() };
        Self::open(daemon, wish, first)
    }

    /// Connects without waiting for the other end: nothing can be read or written before
    /// [`StreamSocket::wait_until_open`]. All of `first` must fit into the request.
    pub(crate) fn begin(
        daemon: &Daemon,
        to: &str,
        service: &str,
        first: &[u8],
    ) -> Result<Self, SocketError> {
        assert!(first.len() <= FIRST_BYTES, "at most {FIRST_BYTES} bytes");
        Self::ask(daemon, Wish::Connect { to: to.into(), service: service.into() }, first)
    }

    /// Waits until the other end has accepted.
    pub(crate) fn wait_until_open(&mut self) -> Result<(), SocketError> {
        self.line.wait_until_open().map(drop)
    }

    fn ask(daemon: &Daemon, wish: Wish, first: &[u8]) -> Result<Self, SocketError> {
        let mut record = Kind::Data.head(first.len()).to_vec();
        record.extend_from_slice(first);
        let line = daemon.ask(wish, &record)?;
        Ok(Self { line, left: 0, is_ended: false, is_finished: Arc::new(AtomicBool::new(false)) })
    }

    fn open(daemon: &Daemon, wish: Wish, first: &[u8]) -> Result<Self, SocketError> {
        let (now, later) = first.split_at(first.len().min(FIRST_BYTES));
        let mut stream = Self::ask(daemon, wish, now)?;
        stream.wait_until_open()?;
        stream.write_all(later)?;
        Ok(stream)
    }

    /// A second handle, so that one thread can read while another writes.
    ///
    /// Fails if no descriptor is left.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            line: Line { socket: self.line.socket.try_clone()? },
            left: self.left,
            is_ended: self.is_ended,
            is_finished: Arc::clone(&self.is_finished),
        })
    }

    /// Ends the sending direction: the other end reads the end of the stream after all that was
    /// written. Reading goes on.
    ///
    /// Fails if the daemon is gone.
    pub fn finish(&mut self) -> io::Result<()> {
        if self.is_finished.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        self.line.put(Kind::Finish, &[])
    }

    /// Breaks the stream off, for all handles.
    pub fn reset(&self) {
        let _ = self.line.socket.shutdown(Shutdown::Both);
    }

    /// How long a read may wait; `None` is for ever. A read that waits for longer fails with
    /// `WouldBlock`; it may be repeated only if it was between two records.
    ///
    /// Fails if the time is zero.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.line.socket.set_read_timeout(timeout)
    }
}

impl AsFd for StreamSocket {
    /// Descriptor to wait on: writable while the daemon takes more, and hung up once the daemon
    /// sends no more.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.line.socket.as_fd()
    }
}

impl Read for StreamSocket {
    /// Reads bytes; returns 0 once the other end has finished.
    ///
    /// Fails with `ConnectionReset` if either end broke the stream off, and with `TimedOut` if the
    /// other end was silent for too long.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.left == 0 && !self.is_ended && !buffer.is_empty() {
            match self.line.head()? {
                (Kind::Data, length) => self.left = length,
                (Kind::Finish, _) => self.is_ended = true,
                (_, length) => drop(self.line.payload(length)?),
            }
        }
        let wanted = buffer.len().min(self.left);
        if wanted == 0 {
            return Ok(0);
        }
        let got = self.line.socket.read(&mut buffer[..wanted])?;
        if got == 0 {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        self.left -= got;
        Ok(got)
    }
}

impl Write for StreamSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let part = &bytes[..bytes.len().min(STREAM_BYTES)];
        if !part.is_empty() {
            self.line.put(Kind::Data, part)?;
        }
        Ok(part.len())
    }

    /// Sends at once what was written.
    fn flush(&mut self) -> io::Result<()> {
        self.line.put(Kind::Flush, &[])
    }
}

/// Listens for streams to a service of this node.
#[derive(Debug)]
pub struct StreamListener {
    daemon: Daemon,
    line: Line,
}

/// A stream that a program at another node opens.
#[derive(Debug)]
pub struct IncomingStream {
    daemon: Daemon,
    id: u32,
    from: String,
}

/// The daemon's message about it.
#[derive(Deserialize)]
struct Offer {
    id: u32,
    from: String,
}

impl StreamListener {
    /// Listens for a service; only one program at a time can.
    ///
    /// Fails if no daemon runs, or another program listens for it.
    pub fn bind(daemon: &Daemon, service: &str) -> Result<Self, SocketError> {
        let mut line = daemon.ask(Wish::Listen { service: service.into() }, &[])?;
        line.wait_until_open()?;
        Ok(Self { daemon: daemon.clone(), line })
    }

    /// Waits for the next stream.
    ///
    /// Fails if the daemon is gone.
    pub fn next_incoming(&mut self) -> Result<IncomingStream, SocketError> {
        loop {
            if let (Kind::Incoming, text) = self.line.record()? {
                let offer: Offer = serde_json::from_slice(&text).map_err(io::Error::from)?;
                let (daemon, Offer { id, from }) = (self.daemon.clone(), offer);
                return Ok(IncomingStream { daemon, id, from });
            }
        }
    }

    /// Refuses a stream, and tells the other end so.
    ///
    /// Fails if the daemon is gone.
    pub fn refuse(&mut self, incoming: &IncomingStream) -> io::Result<()> {
        self.line.put(Kind::Refuse, incoming.id.to_string().as_bytes())
    }

    /// A handle with which another thread can end the listener, by shutting it down.
    ///
    /// Fails if no descriptor is left.
    pub fn handle(&self) -> io::Result<UnixStream> {
        self.line.socket.try_clone()
    }
}

impl IncomingStream {
    /// Name of the node that it comes from.
    pub fn from(&self) -> &str {
        &self.from
    }

    /// Accepts the stream. Up to [`FIRST_BYTES`] of `first` go along with the answer.
    ///
    /// Fails if the stream was given up in the meantime.
    pub fn accept(&self, first: &[u8]) -> Result<StreamSocket, SocketError> {
        StreamSocket::open(&self.daemon, Wish::Accept { id: self.id }, first)
    }
}
