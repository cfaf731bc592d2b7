//! Flows over the kernel's TCP: each end is an ordinary program with a socket.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration as StdDuration, Instant as WallClock};

use farhop_proto::stack::{Congestion, FlowConfig};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use socket2::SockRef;

use super::{CHUNK, LOOK, Shared, is_pause, tos};
use crate::device::os;

/// How long connecting may fail before the flow does; time-outs do not count.
const CONNECT: StdDuration = StdDuration::from_secs(10);

pub(super) fn receiver(
    config: &FlowConfig,
    address: SocketAddr,
    shared: &Shared,
) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port()))?;
    // Connections inherit it, from their first packet on.
    SockRef::from(&listener).set_tos_v4(tos(config))?;
    listener.set_nonblocking(true)?;
    let begin = WallClock::now();
    let mut stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(error) if is_pause(&error) => thread::sleep(StdDuration::from_millis(5)),
            Err(error) => return Err(error),
        }
        if shared.stop.load(Ordering::Relaxed) {
            return Ok(());
        }
    };
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(LOOK))?;
    end_at_once(&stream)?;
    let mut buffer = vec![0; CHUNK];
    while !shared.stop.load(Ordering::Relaxed) {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => {
                let total = shared.delivered.fetch_add(length as u64, Ordering::Relaxed);
                if config.bytes.is_some_and(|bytes| total + length as u64 >= bytes) {
                    let nanos = begin.elapsed().as_nanos() as u64;
                    shared.finished.store(nanos.max(1), Ordering::Relaxed);
                }
            }
            Err(error) if is_pause(&error) => {}
            // The sender was stopped while bytes were on their way.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

pub(super) fn sender(config: &FlowConfig, address: SocketAddr, shared: &Shared) -> io::Result<()> {
    let Some(mut stream) = connect(config, address, shared)? else { return Ok(()) };
    stream.set_nonblocking(true)?;
    end_at_once(&stream)?;
    let zeros = vec![0; CHUNK];
    let mut left = config.bytes.unwrap_or(u64::MAX);
    while left > 0 && !shared.stop.load(Ordering::Relaxed) {
        match stream.write(&zeros[..left.min(CHUNK as u64) as usize]) {
            Ok(length) => {
                left -= length as u64;
                shared.sent.fetch_add(length as u64, Ordering::Relaxed);
            }
            // A blocking write that times out would make the kernel send data that it holds back.
            Err(error) if is_pause(&error) => wait_for_room(&stream)?,
            // The receiver noticed first that the flow's time is over.
            Err(_) if shared.stop.load(Ordering::Relaxed) => return Ok(()),
            Err(error) => return Err(error),
        }
        let again = os::tcp_retransmissions(stream.as_fd()).unwrap_or(0);
        shared.retransmissions.store(again, Ordering::Relaxed);
    }
    if left > 0 {
        return Ok(());
    }
    stream.shutdown(std::net::Shutdown::Write)?;
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(LOOK))?;
    // The receiver closes the connection once it has everything.
    while !shared.stop.load(Ordering::Relaxed) {
        let again = os::tcp_retransmissions(stream.as_fd()).unwrap_or(0);
        shared.retransmissions.store(again, Ordering::Relaxed);
        match stream.read(&mut [0; 1]) {
            Err(error) if is_pause(&error) => {}
            _ => break,
        }
    }
    Ok(())
}

/// Waits until a connection takes more, or for [`LOOK`].
fn wait_for_room(stream: &TcpStream) -> io::Result<()> {
    let limit = Timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as i64 };
    match poll(&mut [PollFd::new(stream, PollFlags::OUT)], Some(&limit)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Makes closing reset the connection. Bytes in its buffers at the end of a flow's time are
/// useless, and a socket that went on delivering them would hold its namespace, with the interfaces
/// in it, for minutes after the lab.
fn end_at_once(stream: &TcpStream) -> io::Result<()> {
    SockRef::from(stream).set_linger(Some(StdDuration::ZERO))
}

/// Connects with the flow's congestion control; `None` if the flow was stopped before.
fn connect(
    config: &FlowConfig,
    address: SocketAddr,
    shared: &Shared,
) -> io::Result<Option<TcpStream>> {
    let name: &[u8] = match config.congestion {
        Congestion::Bbr => b"bbr",
        // A namespace's default cannot be set to it, but a socket of the namespace's root can.
        Congestion::Cubic => b"cubic",
        _ => b"reno",
    };
    let limit = WallClock::now() + CONNECT;
    loop {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
        socket.set_tcp_congestion(name).map_err(|error| {
            let name = String::from_utf8_lossy(name);
            io::Error::new(error.kind(), format!("this kernel has no TCP {name}: {error}"))
        })?;
        socket.set_tos_v4(tos(config))?;
        match socket.connect_timeout(&address.into(), StdDuration::from_secs(3)) {
            Ok(()) => return Ok(Some(socket.into())),
            Err(_) if shared.stop.load(Ordering::Relaxed) => return Ok(None),
            // The link is down at present: the flow waits, as it does in the simulator.
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
            Err(error) if WallClock::now() > limit => return Err(error),
            // Nobody listens yet.
            Err(_) => thread::sleep(StdDuration::from_millis(20)),
        }
    }
}
