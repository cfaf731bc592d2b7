//! The near end: accepts connections of TCP programs, and asks an exit to connect to their targets.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::relay::{Broken, Places, Refused, Taken, beside, relay, watch};
use super::rules::{Exits, NotUnderstood};
use super::socks;
use super::target::{Answer, Ask, Failed, SERVICE, Target, line, read_line};
use crate::sockets::client::{Daemon, SocketError, StreamSocket};
use crate::sockets::nobody_takes;

/// How long each read and write may take until the client has named its target.
const HANDSHAKE: Duration = Duration::from_secs(30);
/// How long an exit may take to connect, once it has accepted the stream.
const ANSWER: Duration = Duration::from_secs(120);
/// How long a refused client may take to read the answer.
const HEAR: Duration = Duration::from_secs(1);
/// Most bytes that are read from it meanwhile.
const HEAR_BYTES: u64 = 64 << 10;
/// How long resetting all connections may take.
const RESET: Duration = Duration::from_secs(1);
/// How many connections the kernel queues until they are accepted.
const BACKLOG: i32 = 128;

/// Where to listen: `PORT` on the loopback address, or `ADDRESS:PORT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(pub SocketAddr);

impl FromStr for Place {
    type Err = NotUnderstood;

    fn from_str(text: &str) -> Result<Self, NotUnderstood> {
        let port = text.parse().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let wrong = |_| NotUnderstood(format!("'{text}' is neither PORT nor ADDRESS:PORT"));
        port.or_else(|_| text.parse()).map(Self).map_err(wrong)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0)
    }
}

/// A port whose connections all have the same target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// Where to listen.
    pub place: Place,
    /// The target.
    pub target: Target,
}

impl FromStr for Forward {
    type Err = NotUnderstood;

    fn from_str(text: &str) -> Result<Self, NotUnderstood> {
        let (place, target) = text.split_once('=').ok_or_else(|| {
            NotUnderstood(format!("'{text}' has no '='; 2222=10.1.2.3:22 is a forward"))
        })?;
        Ok(Self { place: place.parse()?, target: target.parse()? })
    }
}

/// What determines the target of a connection.
#[derive(Clone, Debug)]
enum Way {
    /// The client, by SOCKS.
    Socks,
    /// The port at which it was accepted.
    Fixed(Target),
    /// The destination that it had before it was redirected.
    Original,
}

/// An entry, which listens at any number of places.
#[derive(Debug)]
pub struct Entry {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    daemon: Daemon,
    exits: Exits,
    places: Places,
    /// Clients that do not speak SOCKS 5.
    foreign: Refused,
    redirected: Mutex<Redirected>,
}

/// The redirected connections that are open.
#[derive(Debug, Default)]
struct Redirected {
    next: u64,
    open: BTreeMap<u64, Open>,
}

/// A redirected connection.
#[derive(Debug)]
struct Open {
    client: TcpStream,
    /// The stream to the exit, once there is one.
    stream: Option<StreamSocket>,
    /// Tells that it is broken.
    broken: Arc<Broken>,
}

impl Open {
    fn break_off(&self) {
        self.broken.get_or_init(|| "the proxy ends".into());
        // Wakes whoever waits for the exit, or for place on the way to it.
        self.stream.iter().for_each(StreamSocket::reset);
        // Wakes the reader. A FIN would make the client believe that it has everything.
        let _ = self.client.shutdown(Shutdown::Read);
    }
}

/// Keeps a redirected connection in the list while it is served.
struct Kept<'a> {
    all: &'a Mutex<Redirected>,
    key: u64,
}

impl Kept<'_> {
    /// Notes the stream to the exit.
    fn set_stream(&self, stream: &StreamSocket) -> io::Result<()> {
        let mut all = lock(self.all);
        let Some(open) = all.open.get_mut(&self.key) else { return Ok(()) };
        open.stream = Some(stream.try_clone()?);
        if open.broken.get().is_some() {
            open.break_off();
        }
        Ok(())
    }
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        lock(self.all).open.remove(&self.key);
    }
}

fn lock(all: &Mutex<Redirected>) -> MutexGuard<'_, Redirected> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Entry {
    /// An entry that does not listen yet, for at most `limit` connections.
    pub fn build(daemon: Daemon, exits: Exits, limit: usize) -> Self {
        let (places, redirected) = (Places::new(limit), Mutex::default());
        let foreign = Refused::default();
        Self { shared: Arc::new(Shared { daemon, exits, places, foreign, redirected }) }
    }

    /// Resets all redirected connections, and waits for at most a second until that is done. Once
    /// the redirection is removed, a reset would not reach the clients any more.
    pub fn reset_redirected(&self) {
        let until = Instant::now() + RESET;
        // New connections may arrive in the meantime.
        while self.shared.break_redirected() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Listens for SOCKS clients at a place. Returns the address.
    ///
    /// Fails if the place is not free.
    pub fn take_socks(&self, place: Place) -> io::Result<SocketAddr> {
        self.listen(place.0, Way::Socks)
    }

    /// Listens for connections to a fixed target. Returns the address.
    ///
    /// Fails if the place is not free.
    pub fn take_forward(&self, forward: Forward) -> io::Result<SocketAddr> {
        self.listen(forward.place.0, Way::Fixed(forward.target))
    }

    /// Listens for redirected connections. Returns the port to which they must be redirected.
    ///
    /// Fails if no port is free.
    pub fn take_redirected(&self) -> io::Result<u16> {
        let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
        let bound = self.listen(any, Way::Original);
        let only_4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        bound.or_else(|_| self.listen(only_4, Way::Original)).map(|bound| bound.port())
    }

    fn listen(&self, place: SocketAddr, way: Way) -> io::Result<SocketAddr> {
        let socket = Socket::new(Domain::for_address(place), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        if place.is_ipv6() {
            socket.set_only_v6(!place.ip().is_unspecified())?;
        }
        socket.bind(&place.into())?;
        socket.listen(BACKLOG)?;
        let listener: TcpListener = socket.into();
        let bound = listener.local_addr()?;
        let shared = Arc::clone(&self.shared);
        beside(move || shared.take_all(&listener, &way))?;
        Ok(bound)
    }
}

impl Shared {
    fn take_all(self: &Arc<Self>, listener: &TcpListener, way: &Way) {
        loop {
            let client = match listener.accept() {
                Ok((client, _)) => client,
                Err(error) => {
                    // Out of descriptors: some will be free again.
                    tracing::warn!("a connection is not taken: {error}");
                    std::thread::sleep(Duration::from_millis(100));
                    continue;
                }
            };
            let Some(place) = self.places.take() else {
                reset(client);
                continue;
            };
            let (shared, way) = (Arc::clone(self), way.clone());
            if let Err(error) = beside(move || shared.serve(client, &way, place)) {
                tracing::warn!("a connection is not served: {error}");
            }
        }
    }

    fn serve(&self, client: TcpStream, way: &Way, place: Taken) {
        match self.serve_one(client, way) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => self.foreign.add(error),
            Err(error) => tracing::debug!("a connection failed: {error}"),
            Ok(()) => {}
        }
        drop(place);
    }

    fn serve_one(&self, mut client: TcpStream, way: &Way) -> io::Result<()> {
        client.set_read_timeout(Some(HANDSHAKE))?;
        client.set_write_timeout(Some(HANDSHAKE))?;
        if !matches!(way, Way::Socks) {
            // Should the proxy be killed now, an end of the stream would pass for an empty answer.
            SockRef::from(&client).set_linger(Some(Duration::ZERO))?;
        }
        let target = match way {
            Way::Socks => socks::read_request(&mut client).inspect_err(|_| let_hear(&client))?,
            Way::Fixed(target) => target.clone(),
            Way::Original => Target::Address(original_target(&client)?),
        };
        client.set_write_timeout(None)?;
        let broken = Arc::default();
        let is_redirected = matches!(way, Way::Original);
        let kept = is_redirected.then(|| self.keep(&client, &broken)).transpose()?;
        let is_socks = matches!(way, Way::Socks);
        match self.connect(&target, &client, kept.as_ref()) {
            Ok((stream, bound)) => {
                if is_socks {
                    socks::tell_connected(&mut client, Some(bound))?;
                }
                if let Err(why) = relay(client, stream, &broken) {
                    tracing::info!(%target, "broken off: {why}");
                }
                Ok(())
            }
            Err((failed, why)) => {
                tracing::info!(%target, "not connected: {why}");
                if is_socks {
                    socks::tell_failed(&mut client, failed)?;
                    client.flush()?;
                    let_hear(&client);
                    return Ok(());
                }
                reset(client);
                Ok(())
            }
        }
    }

    /// Breaks off all redirected connections; returns whether there were any.
    fn break_redirected(&self) -> bool {
        let redirected = lock(&self.redirected);
        redirected.open.values().for_each(Open::break_off);
        !redirected.open.is_empty()
    }

    /// Puts a redirected connection on the list, so that it can be broken off.
    fn keep(&self, client: &TcpStream, broken: &Arc<Broken>) -> io::Result<Kept<'_>> {
        let mut redirected = lock(&self.redirected);
        let key = redirected.next;
        redirected.next += 1;
        let (client, broken) = (client.try_clone()?, Arc::clone(broken));
        redirected.open.insert(key, Open { client, stream: None, broken });
        Ok(Kept { all: &self.redirected, key })
    }

    /// Opens a stream to an exit that is connected to the target; returns it with the target's
    /// address.
    fn connect(
        &self,
        target: &Target,
        client: &TcpStream,
        kept: Option<&Kept<'_>>,
    ) -> Result<(StreamSocket, SocketAddr), (Failed, String)> {
        let exit = match target {
            Target::Address(address) => self.exits.of_address(address.ip()),
            Target::Name(..) => self.exits.of_names(),
        };
        let exit = exit.ok_or_else(|| (Failed::NoExit, format!("no exit for {target}")))?;
        let refused = |error: SocketError| match error {
            SocketError::Silent(_) => (Failed::Unreachable, format!("exit {exit}: {error}")),
            _ => (Failed::NoExit, no_exit(exit, &error)),
        };
        let told = |error: io::Error| (Failed::of(&error), format!("exit {exit}: {error}"));
        let ask = line(&Ask { connect: target.to_string() });
        let stream = StreamSocket::begin(&self.daemon, exit, SERVICE, &ask);
        let mut stream = stream.map_err(refused)?;
        kept.map_or(Ok(()), |kept| kept.set_stream(&stream)).map_err(told)?;
        // No limit here: the daemon gives up by itself.
        wait_for_word(&stream, client, None).map_err(told)?;
        stream.wait_until_open().map_err(refused)?;
        wait_for_word(&stream, client, Some(ANSWER)).map_err(told)?;
        stream.set_read_timeout(Some(ANSWER)).map_err(told)?;
        match read_line(&mut stream).map_err(told)? {
            Answer::Connected(bound) => Ok((stream, bound)),
            Answer::Failed(failed) => Err((failed, format!("exit {exit}: {failed}"))),
        }
    }
}

/// Why there is no stream to an exit, for the log.
fn no_exit(exit: &str, error: &SocketError) -> String {
    match error {
        SocketError::Refused(why) if *why == nobody_takes(SERVICE) => {
            format!("no `farhop exit` runs at {exit}, or it has no room for more connections")
        }
        _ => format!("exit {exit}: {error}"),
    }
}

/// Waits until there is something to read from a stream. Meanwhile nobody else would notice that
/// the client left; a client that only shut down its sending side is still there.
///
/// Fails if the client left, or the time is over.
fn wait_for_word(
    stream: &StreamSocket,
    client: &TcpStream,
    limit: Option<Duration>,
) -> io::Result<()> {
    let (word, client) = watch(stream, PollFlags::IN, client, limit)?;
    if client.intersects(PollFlags::ERR | PollFlags::HUP) {
        return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the client has left"));
    }
    if word.is_empty() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
}

/// The destination of a connection before nftables redirected it.
fn original_target(client: &TcpStream) -> io::Result<SocketAddr> {
    let own = client.local_addr()?;
    let socket = SockRef::from(client);
    let original = match own.ip().to_canonical() {
        IpAddr::V4(_) => socket.original_dst_v4(),
        IpAddr::V6(_) => socket.original_dst_v6(),
    };
    let original = original?.as_socket().ok_or(io::ErrorKind::InvalidData)?;
    let own = SocketAddr::new(own.ip().to_canonical(), own.port());
    if original == own {
        let what = "it was not redirected here, but meant this port";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    Ok(original)
}

/// Gives a client time to read its answer. Closing a connection with unread input would reset it,
/// and the client would lose the answer.
fn let_hear(client: &TcpStream) {
    let _ = client.shutdown(Shutdown::Write);
    let _ = client.set_read_timeout(Some(HEAR));
    let _ = io::copy(&mut client.take(HEAR_BYTES), &mut io::sink());
}

/// Closes a connection with a reset.
fn reset(client: TcpStream) {
    let _ = SockRef::from(&client).set_linger(Some(Duration::ZERO));
    drop(client);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_without_an_exit_is_named_and_what_is_to_run_there() {
        let refused = SocketError::Refused(nobody_takes(SERVICE));
        let right = "no `farhop exit` runs at valley, or it has no room for more connections";
        assert_eq!(no_exit("valley", &refused), right);
        let other = SocketError::Refused("no node 'valley'".into());
        assert_eq!(no_exit("valley", &other), "exit valley: no node 'valley'");
    }

    #[test]
    fn a_port_alone_is_of_this_host_alone() {
        let forward: Forward = "2222=10.1.2.3:22".parse().expect("a forward");
        assert_eq!(forward.place.to_string(), "127.0.0.1:2222");
        assert_eq!(forward.target.to_string(), "10.1.2.3:22");
        let forward: Forward = "[::]:80=example.org:8080".parse().expect("a forward");
        assert_eq!(forward.place.to_string(), "[::]:80");
        for text in ["2222", "x=10.1.2.3:22", "2222=10.1.2.3", "99999=a:1"] {
            assert!(text.parse::<Forward>().is_err(), "{text}");
        }
    }
}
