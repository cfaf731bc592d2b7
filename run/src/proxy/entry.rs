//! The near end: takes connections of TCP programs and asks an exit for what they want.

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

/// How long a client may take to say what it wants.
const HANDSHAKE: Duration = Duration::from_secs(30);
/// How long an exit may take to connect, once it has taken the stream.
const ANSWER: Duration = Duration::from_secs(120);
/// How long a client that was refused may take to hear that.
const HEAR: Duration = Duration::from_secs(1);
/// Bytes that are read of it meanwhile, at most.
const HEAR_BYTES: u64 = 64 << 10;
/// How long resetting connections may take.
const RESET: Duration = Duration::from_secs(1);
/// Connections that the kernel keeps until they are taken.
const BACKLOG: i32 = 128;

/// Where connections are taken: `PORT` of this host alone, or `ADDRESS:PORT`.
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

/// A port of which all connections have the same target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// Where they are taken.
    pub place: Place,
    /// What they are to.
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

/// What says where a connection goes.
#[derive(Clone, Debug)]
enum Way {
    /// The client, by SOCKS.
    Socks,
    /// The port.
    Fixed(Target),
    /// The address that the client wanted before it was redirected.
    Original,
}

/// An entry, at any number of places.
#[derive(Debug)]
pub struct Entry {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    daemon: Daemon,
    exits: Exits,
    places: Places,
    /// Clients that speak no SOCKS 5.
    foreign: Refused,
    redirected: Mutex<Redirected>,
}

/// Redirected connections that are open.
#[derive(Debug, Default)]
struct Redirected {
    next: u64,
    /// The client's side of each, and what tells that it is broken.
    open: BTreeMap<u64, (TcpStream, Arc<Broken>)>,
}

/// A redirected connection as long as it is served.
struct Kept<'a> {
    all: &'a Mutex<Redirected>,
    key: u64,
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
    /// An entry without places, for at most `limit` connections.
    pub fn build(daemon: Daemon, exits: Exits, limit: usize) -> Self {
        let (places, redirected) = (Places::new(limit), Mutex::default());
        let foreign = Refused::default();
        Self { shared: Arc::new(Shared { daemon, exits, places, foreign, redirected }) }
    }

    /// Resets all redirected connections, and waits until that is done, for a second at most.
    /// Once they are not redirected any more, nothing that is sent reaches their clients.
    pub fn reset_redirected(&self) {
        let until = Instant::now() + RESET;
        // Others may come meanwhile.
        while self.shared.break_redirected() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Takes SOCKS clients at a place. Returns where that is.
    ///
    /// Fails if it is not free.
    pub fn take_socks(&self, place: Place) -> io::Result<SocketAddr> {
        self.listen(place.0, Way::Socks)
    }

    /// Takes connections to one target.
    ///
    /// Fails if the place is not free.
    pub fn take_forward(&self, forward: Forward) -> io::Result<SocketAddr> {
        self.listen(forward.place.0, Way::Fixed(forward.target))
    }

    /// Takes redirected connections. Returns the port that they are to be redirected to.
    ///
    /// Fails if the system has no more ports.
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
                    // No descriptors: they come back.
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
        let target = match way {
            Way::Socks => socks::read_request(&mut client).inspect_err(|_| let_hear(&client))?,
            Way::Fixed(target) => target.clone(),
            Way::Original => Target::Address(original_target(&client)?),
        };
        client.set_write_timeout(None)?;
        let broken = Arc::default();
        let is_redirected = matches!(way, Way::Original);
        let _kept = is_redirected.then(|| self.keep(&client, &broken)).transpose()?;
        let is_socks = matches!(way, Way::Socks);
        match self.connect(&target, &client) {
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
                    return client.flush();
                }
                reset(client);
                Ok(())
            }
        }
    }

    /// Breaks the redirected connections that are open; returns whether there were any.
    fn break_redirected(&self) -> bool {
        let redirected = lock(&self.redirected);
        for (client, broken) in redirected.open.values() {
            broken.get_or_init(|| "the proxy ends".into());
            // Wakes who reads; a FIN would tell the client that it has all.
            let _ = client.shutdown(Shutdown::Read);
        }
        !redirected.open.is_empty()
    }

    /// Remembers a redirected connection, so that it can be broken.
    fn keep(&self, client: &TcpStream, broken: &Arc<Broken>) -> io::Result<Kept<'_>> {
        let mut redirected = lock(&self.redirected);
        let key = redirected.next;
        redirected.next += 1;
        redirected.open.insert(key, (client.try_clone()?, Arc::clone(broken)));
        Ok(Kept { all: &self.redirected, key })
    }

    /// A stream to an exit that is connected to the target, and the address that it has there.
    fn connect(
        &self,
        target: &Target,
        client: &TcpStream,
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
        // The daemon gives up by itself.
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

/// Why there is no stream to an exit.
fn no_exit(exit: &str, error: &SocketError) -> String {
    match error {
        SocketError::Refused(why) if *why == nobody_takes(SERVICE) => {
            format!("no `farhop exit` runs at {exit}, or it has no room for more connections")
        }
        _ => format!("exit {exit}: {error}"),
    }
}

/// Waits until a stream says something. Nobody else hears that the client has left meanwhile; one
/// that only says nothing more is still there.
///
/// Fails if it has left, or the time is over.
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

/// Where a connection went before nftables redirected it.
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

/// Waits until a client has heard what it was told: to close a connection of which something was
/// not read resets it, and what was written is lost.
fn let_hear(client: &TcpStream) {
    let _ = client.shutdown(Shutdown::Write);
    let _ = client.set_read_timeout(Some(HEAR));
    let _ = io::copy(&mut client.take(HEAR_BYTES), &mut io::sink());
}

/// Closes a connection as broken.
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
