//! Bytes of a connection to a stream and back, until both ways have ended.

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

/// Bytes copied at once.
const CHUNK: usize = 64 << 10;
/// How long refused connections are counted before they are told of.
const TELL_EVERY: Duration = Duration::from_secs(10);
/// The halves of a connection, as the log has them.
const TCP: &str = "TCP side";
const STREAM: &str = "radio side";
/// Memory for the stack of a thread.
const STACK: usize = 128 << 10;

/// Connections at one time, and a limit to them.
#[derive(Debug)]
pub(super) struct Places {
    taken: Arc<AtomicUsize>,
    limit: usize,
    refused: Refused,
}

/// Connections that are refused for one reason. The first is told of at once, and those of each
/// span after that together.
#[derive(Clone, Debug, Default)]
pub(super) struct Refused(Arc<Mutex<Untold>>);

#[derive(Debug, Default)]
struct Untold {
    /// Those since that was last told.
    count: usize,
    /// Whether somebody waits to tell of them.
    is_awaited: bool,
}

impl Refused {
    /// One more.
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
            // Without threads nobody waits: the next is told of at once.
            *self.lock() = Untold::default();
        }
    }

    /// Waits for the end of a span. Returns how many were refused in it; with none the next is told
    /// of at once again.
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
    /// One more. Returns whether it is to be told of at once, and the span of others begins.
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

/// A place among the connections, free again when it is dropped.
#[derive(Debug)]
pub(super) struct Taken(Arc<AtomicUsize>);

impl Places {
    pub(super) fn new(limit: usize) -> Self {
        Self { taken: Arc::default(), limit, refused: Refused::default() }
    }

    /// A place, if there is one; where there is none the log says so now and then.
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

/// Runs something beside the rest.
///
/// Fails if the system has no more threads.
pub(super) fn beside(work: impl FnOnce() + Send + 'static) -> io::Result<thread::JoinHandle<()>> {
    thread::Builder::new().name("proxy".into()).stack_size(STACK).spawn(work)
}

/// Why a connection was broken off before both ways had ended, once it was.
pub(super) type Broken = OnceLock<String>;

/// Copies both ways until both have ended. A half that breaks off resets the other, and so does the
/// end of this process before: nobody takes a part for the whole. Whoever sets `broken` and ends
/// what is read of `tcp` breaks both.
///
/// Fails if the system has no more threads or descriptors, or the connection was broken off.
pub(super) fn relay(tcp: TcpStream, stream: StreamSocket, broken: &Arc<Broken>) -> io::Result<()> {
    // A read of the stream may wait for ever; what ends it is the daemon.
    stream.set_read_timeout(None)?;
    tcp.set_read_timeout(None)?;
    tcp.set_nodelay(true)?;
    SockRef::from(&tcp).set_keepalive(true)?;
    // To close it is a reset from now on, whoever does it.
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
            // Only the reader is to wake up, and to send nothing.
            let _ = to.shutdown(Shutdown::Read);
        }
    }
    let _ = other.join();
    match broken.get() {
        Some(why) => Err(io::Error::new(io::ErrorKind::ConnectionReset, why.clone())),
        // What was written last may be under way still.
        None => SockRef::from(&to).set_linger(None),
    }
}

/// Says which half of a connection an error is of.
fn of(half: &'static str) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{half}: {error}"))
}

/// From TCP to the stream.
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

/// Waits until a stream takes more, as long as the connection that the bytes are of is not reset.
/// One that has ended both ways cannot be any more, and is not waited for.
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

/// Waits until something is `wanted` of one, is wrong with either, or the time is over; says what
/// of which.
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

/// From the stream to TCP.
fn copy_in(from: &mut StreamSocket, to: &mut TcpStream) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let length = from.read(&mut chunk).map_err(of(STREAM))?;
        if length == 0 {
            return Ok(());
        }
        let done = write_beside(to, &chunk[..length], from).map_err(of(TCP))?;
        if done < length {
            // What is here of the stream is little by now, and says how it ended: broken off, what
            // the other side of TCP has not taken is of no use.
            let mut rest = chunk[done..length].to_vec();
            from.read_to_end(&mut rest).map_err(of(STREAM))?;
            return to.write_all(&rest).map_err(of(TCP));
        }
    }
}

/// Writes bytes to TCP. Returns how many were taken: all, unless the daemon closed its end of the
/// stream while TCP had no place.
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
