//! Copies bytes between a TCP connection and a stream, until both directions have ended.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use farhop_proto::base::counted;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use socket2::SockRef;

use crate::sockets::client::StreamSocket;

/// Most bytes that are copied at once.
const CHUNK: usize = 64 << 10;
/// How often refused connections are logged.
const TELL_EVERY: Duration = Duration::from_secs(10);
/// Names of the two halves of a connection in the log.
const TCP: &str = "TCP side";
const STREAM: &str = "radio side";
/// Size of a thread's stack, in bytes.
const STACK: usize = 128 << 10;

/// The connections that are open, up to a limit.
#[derive(Debug)]
pub(super) struct Places {
    taken: Arc<AtomicUsize>,
    limit: usize,
    refused: Refused,
}

/// Logs connections that are refused for one reason: the first at once, and those after it
/// together, once in each span of time.
#[derive(Clone, Debug, Default)]
pub(super) struct Refused(Arc<Mutex<Untold>>);

#[derive(Debug, Default)]
struct Untold {
    /// Refused connections since the last line of the log.
    count: usize,
    /// Whether a thread waits to log them.
    is_awaited: bool,
}

impl Refused {
    /// Counts a refused connection, and logs it at once or later.
    pub(super) fn add(&self, why: impl fmt::Display) {
        if !self.lock().add() {
            return;
        }
        let (later, why) = (self.clone(), why.to_string());
        tell_refused(1, &why);
        let telling = beside(move || {
            while let Some(count) = later.next_span() {
                tell_refused(count, &why);
            }
        });
        if telling.is_err() {
            // Without a thread for later, the next one is logged at once.
            *self.lock() = Untold::default();
        }
    }

    /// Waits for the end of a span. Returns how many were refused in it; `None` if none were: then
    /// the next one is logged at once again.
    fn next_span(&self) -> Option<usize> {
        thread::sleep(TELL_EVERY);
        self.lock().end_span()
    }

    fn lock(&self) -> MutexGuard<'_, Untold> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn tell_refused(count: usize, why: &str) {
    tracing::warn!("{} refused: {why}", counted(count, "connection"));
}

impl Untold {
    /// Counts one. Returns whether to log it at once, and to begin a span.
    fn add(&mut self) -> bool {
        let is_first = !std::mem::replace(&mut self.is_awaited, true);
        self.count += usize::from(!is_first);
        is_first
    }

    fn end_span(&mut self) -> Option<usize> {
        let count = std::mem::take(&mut self.count);
        self.is_awaited = count > 0;
        self.is_awaited.then_some(count)
    }
}

/// A place among the connections, which is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Taken(Arc<AtomicUsize>);

impl Places {
    pub(super) fn new(limit: usize) -> Self {
        Self { taken: Arc::default(), limit, refused: Refused::default() }
    }

    /// Takes a place; if none is free, that is logged from time to time.
    pub(super) fn take(&self) -> Option<Taken> {
        let (taken, limit) = (Taken(Arc::clone(&self.taken)), self.limit);
        if self.taken.fetch_add(1, Ordering::Relaxed) < limit {
            return Some(taken);
        }
        self.refused.add(format_args!("--limit allows {limit} at one time"));
        None
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs something in a thread of its own.
///
/// Fails if the system cannot start another thread.
pub(super) fn beside(work: impl FnOnce() + Send + 'static) -> io::Result<thread::JoinHandle<()>> {
    thread::Builder::new().name("proxy".into()).stack_size(STACK).spawn(work)
}

/// Set once a connection is broken off: the reason.
pub(super) type Broken = OnceLock<String>;

/// Copies in both directions until both have ended. If one half breaks off, or this process ends
/// early, the other half is reset, so that nobody takes a part for the whole. To break both halves,
/// set `broken` and end reading from `tcp`.
///
/// Fails if no thread or descriptor is left, or the connection was broken off.
pub(super) fn relay(tcp: TcpStream, stream: StreamSocket, broken: &Arc<Broken>) -> io::Result<()> {
    // Reading from the stream may wait for ever; the daemon ends it if necessary.
    stream.set_read_timeout(None)?;
    tcp.set_read_timeout(None)?;
    tcp.set_nodelay(true)?;
    SockRef::from(&tcp).set_keepalive(true)?;
    // From now on closing it sends a reset, whoever does it.
    SockRef::from(&tcp).set_linger(Some(Duration::ZERO))?;
    let (mut from, mut to) = (tcp.try_clone()?, stream.try_clone()?);
    let why = Arc::clone(broken);
    let other = beside(move || match copy_out(&mut from, &mut to, &why) {
        Ok(()) => {}
        Err(error) => {
            why.get_or_init(|| error.to_string());
            to.reset();
        }
    })?;
    let (mut from, mut to) = (stream, tcp);
    match copy_in(&mut from, &mut to) {
        Ok(()) => drop(to.shutdown(Shutdown::Write)),
        Err(error) => {
            broken.get_or_init(|| error.to_string());
            from.reset();
            // Wakes the reader without sending a FIN.
            let _ = to.shutdown(Shutdown::Read);
        }
    }
    let _ = other.join();
    match broken.get() {
        Some(why) => Err(io::Error::new(io::ErrorKind::ConnectionReset, why.clone())),
        // The last bytes may still be on their way.
        None => SockRef::from(&to).set_linger(None),
    }
}

/// Adds the half of the connection to an error.
fn of(half: &'static str) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{half}: {error}"))
}

/// Copies from TCP to the stream.
fn copy_out(from: &mut TcpStream, to: &mut StreamSocket, broken: &Broken) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let length = from.read(&mut chunk).map_err(of(TCP))?;
        if broken.get().is_some() {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        if length == 0 {
            return to.finish().map_err(of(STREAM));
        }
        wait_for_place(to, from)?;
        to.write_all(&chunk[..length]).map_err(of(STREAM))?;
    }
}

/// Waits until a stream takes more, unless the TCP connection is reset. A connection that ended in
/// both directions cannot be reset any more, and is not waited for.
pub(super) fn wait_for_place(to: &StreamSocket, from: &TcpStream) -> io::Result<()> {
    loop {
        let (place, other) = watch(to, PollFlags::OUT, from, None)?;
        if other.contains(PollFlags::ERR) {
            return Err(of(TCP)(io::ErrorKind::ConnectionReset.into()));
        }
        if !place.is_empty() || other.contains(PollFlags::HUP) {
            return Ok(());
        }
    }
}

/// Waits until `one` is ready for `wanted`, either has an error, or the time is over; returns the
/// events of both.
pub(super) fn watch(
    one: impl AsFd,
    wanted: PollFlags,
    other: impl AsFd,
    limit: Option<Duration>,
) -> io::Result<(PollFlags, PollFlags)> {
    let nothing_but_errors = PollFlags::empty();
    let limit = limit.map(|limit| Timespec {
        tv_sec: limit.as_secs() as i64,
        tv_nsec: limit.subsec_nanos().into(),
    });
    let mut both = [PollFd::new(&one, wanted), PollFd::new(&other, nothing_but_errors)];
    loop {
        match poll(&mut both, limit.as_ref()) {
            Ok(_) => return Ok((both[0].revents(), both[1].revents())),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Copies from the stream to TCP.
fn copy_in(from: &mut StreamSocket, to: &mut TcpStream) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let length = from.read(&mut chunk).map_err(of(STREAM))?;
        if length == 0 {
            return Ok(());
        }
        let done = write_beside(to, &chunk[..length], from).map_err(of(TCP))?;
        if done < length {
            // What is left of the stream here is little by now, and tells how the stream ended. If
            // it was broken off, bytes that TCP has not taken are useless.
            let mut rest = chunk[done..length].to_vec();
            from.read_to_end(&mut rest).map_err(of(STREAM))?;
            return to.write_all(&rest).map_err(of(TCP));
        }
    }
}

/// Writes bytes to TCP. Returns how many were taken: all, unless the daemon closed its end of the
/// stream while TCP had no room.
fn write_beside(to: &TcpStream, bytes: &[u8], stream: &StreamSocket) -> io::Result<usize> {
    let mut done = 0;
    while done < bytes.len() {
        match send(to, &bytes[done..], SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(length) => done += length,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let (place, other) = watch(to, PollFlags::OUT, stream, None)?;
                if place.is_empty() && other.intersects(PollFlags::HUP | PollFlags::ERR) {
                    return Ok(done);
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_refused_is_told_of_at_once_and_the_others_at_the_end_of_their_span() {
        let mut untold = Untold::default();
        assert_eq!([untold.add(), untold.add(), untold.add()], [true, false, false]);
        assert_eq!(untold.end_span(), Some(2));
        assert!(!untold.add());
        assert_eq!([untold.end_span(), untold.end_span()], [Some(1), None]);
        assert!(untold.add(), "after a span without any");
    }
}
