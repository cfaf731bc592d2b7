//! The far end: accepts streams and connects to their targets.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use farhop_proto::base::{AddressPlan, NodeId, Subnet};
use serde::Deserialize;
use socket2::{Domain, Protocol, Socket, Type};

use super::MARK;
use super::relay::{Places, Taken, beside, relay};
use super::rules::Rules;
use super::target::{Answer, Ask, Failed, SERVICE, Target, line, read_line};
use crate::daemon::query;
use crate::sockets::client::{Daemon, SocketError, StreamListener, StreamSocket};

/// How long connecting to an address may take.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long each read may wait for the request of a new stream.
const ASK_WAIT: Duration = Duration::from_secs(60);

/// An exit.
#[derive(Debug)]
pub struct Exit {
    listener: StreamListener,
    reach: Arc<Reach>,
    places: Places,
}

/// What an exit can connect to.
#[derive(Debug)]
struct Reach {
    rules: Rules,
    /// The nodes of the network, which need no DNS.
    nodes: BTreeMap<String, Ipv4Addr>,
}

/// What a daemon's status says about the network.
#[derive(Deserialize)]
struct Network {
    /// Addresses of its node. The first shows those of all nodes: they differ by their numbers.
    addresses: Vec<IpAddr>,
    names: BTreeMap<u16, String>,
}

impl Network {
    fn nodes(&self) -> BTreeMap<String, Ipv4Addr> {
        let Some(IpAddr::V4(ipv4)) = self.addresses.first().copied() else {
            return BTreeMap::new();
        };
        let plan = AddressPlan(Subnet { ipv4, ..Subnet::default() });
        let of = |(number, name): (&u16, &String)| (name.clone(), plan.ipv4(NodeId(*number)));
        self.names.iter().map(of).collect()
    }
}

impl Exit {
    /// The exit of a node, for at most `limit` connections.
    ///
    /// Fails if no daemon runs, or the node has an exit already.
    pub fn open(daemon: &Daemon, rules: Rules, limit: usize) -> Result<Self, SocketError> {
        let listener = StreamListener::bind(daemon, SERVICE)?;
        // Without an answer, names of nodes are resolved like any others.
        let status = query(daemon.path()).ok();
        let network: Option<Network> = status.and_then(|it| serde_json::from_value(it).ok());
        let nodes = network.map(|network| network.nodes()).unwrap_or_default();
        Ok(Self { listener, reach: Arc::new(Reach { rules, nodes }), places: Places::new(limit) })
    }

    /// Accepts the next stream, and serves it in a thread of its own.
    ///
    /// Fails if the daemon is gone.
    pub fn serve_next(&mut self) -> Result<(), SocketError> {
        let incoming = self.listener.next_incoming()?;
        let Some(place) = self.places.take() else {
            self.listener.refuse(&incoming)?;
            return Ok(());
        };
        // Not in the thread, as only the listener can refuse a stream that cannot be accepted.
        let stream = match incoming.accept(&[]) {
            Ok(stream) => stream,
            Err(error) => {
                tracing::warn!(from = incoming.from(), "refused: {error}");
                self.listener.refuse(&incoming)?;
                return Ok(());
            }
        };
        let (from, reach) = (incoming.from().to_owned(), Arc::clone(&self.reach));
        beside(move || serve(stream, &from, &reach, place)).map(drop).or_else(|error| {
            tracing::warn!("a connection is not served: {error}");
            Ok(())
        })
    }

    /// A handle that ends [`Exit::serve_next`] when it is shut down.
    ///
    /// Fails if no descriptor is left.
    pub fn handle(&self) -> io::Result<std::os::unix::net::UnixStream> {
        self.listener.handle()
    }
}

fn serve(stream: StreamSocket, from: &str, reach: &Reach, place: Taken) {
    if let Err(error) = serve_one(stream, from, reach) {
        tracing::debug!(from, "a connection failed: {error}");
    }
    drop(place);
}

fn serve_one(mut stream: StreamSocket, from: &str, reach: &Reach) -> io::Result<()> {
    stream.set_read_timeout(Some(ASK_WAIT))?;
    let Ask { connect } = read_line(&mut stream)?;
    let target: Result<Target, _> = connect.parse();
    let connected = target.map_err(|_| Failed::Other).and_then(|to| connect_to(&to, reach));
    let answer = match &connected {
        Ok((_, address)) => Answer::Connected(*address),
        Err(failed) => Answer::Failed(*failed),
    };
    io::Write::write_all(&mut stream, &line(&answer))?;
    match connected {
        Ok((tcp, address)) => {
            tracing::debug!(from, to = connect, %address, "connected");
            if let Err(why) = relay(tcp, stream, &Arc::default()) {
                tracing::info!(from, to = connect, "broken off: {why}");
            }
            Ok(())
        }
        Err(failed) => {
            tracing::info!(from, to = connect, "not connected: {failed}");
            stream.finish()?;
            // The entry ends the stream.
            io::copy(&mut stream, &mut io::sink()).map(drop)
        }
    }
}

/// The node that a host name means. Case does not matter in host names (RFC 4343), which browsers
/// write in lower case, nor does a final dot. Nodes whose names differ only by case must be written
/// exactly.
fn node_of(nodes: &BTreeMap<String, Ipv4Addr>, host: &str) -> Option<Ipv4Addr> {
    let host = host.strip_suffix('.').unwrap_or(host);
    let mut alike = nodes.iter().filter(|(name, _)| name.eq_ignore_ascii_case(host));
    let only = || alike.next().filter(|_| alike.next().is_none()).map(|(_, node)| node);
    nodes.get(host).or_else(only).copied()
}

/// Connects to the first address of a target that accepts.
fn connect_to(target: &Target, reach: &Reach) -> Result<(TcpStream, SocketAddr), Failed> {
    let addresses: Vec<SocketAddr> = match target {
        Target::Address(address) => vec![*address],
        Target::Name(name, port) => match node_of(&reach.nodes, name) {
            Some(node) => vec![SocketAddr::new(node.into(), *port)],
            None => {
                let found = (name.as_str(), *port).to_socket_addrs();
                found.map_err(|_| Failed::NoSuchName)?.collect()
            }
        },
    };
    let mut failed = Failed::NoSuchName;
    for address in addresses {
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        if !reach.rules.allow(address.ip(), address.port()) {
            failed = Failed::NotAllowed;
            continue;
        }
        match connect(address) {
            Ok(tcp) => return Ok((tcp, address)),
            Err(error) => failed = Failed::of(&error),
        }
    }
    Err(failed)
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let domain = match address.ip() {
        IpAddr::V4(_) => Domain::IPV4,
        IpAddr::V6(_) => Domain::IPV6,
    };
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    // Without the privilege to set a mark, nothing is redirected here either.
    let _ = socket.set_mark(MARK);
    socket.connect_timeout(&address.into(), PATIENCE)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_known_by_what_the_status_of_one_says() {
        let status = serde_json::json!({
            "name": "hill", "addresses": ["10.99.0.2", "fd00::2"],
            "names": { "1": "valley", "2": "hill", "300": "town" }
        });
        let network: Network = serde_json::from_value(status).expect("a status");
        let nodes = network.nodes();
        assert_eq!(nodes["valley"], Ipv4Addr::new(10, 99, 0, 1));
        assert_eq!(nodes["town"], Ipv4Addr::new(10, 99, 1, 44));
        assert_eq!(nodes.len(), 3);
    }

    #[test]
    fn nodes_are_known_however_their_names_are_written() {
        let address = |last| Ipv4Addr::new(10, 99, 0, last);
        let names = [("Hill", 1), ("valley", 2), ("Lake", 3), ("lake", 4)];
        let nodes = names.map(|(name, last)| (name.to_owned(), address(last))).into();
        for (host, last) in [("hill", 1), ("HILL", 1), ("Hill.", 1), ("Valley", 2), ("lake", 4)] {
            assert_eq!(node_of(&nodes, host), Some(address(last)), "{host}");
        }
        assert_eq!(node_of(&nodes, "LAKE"), None, "it may be either");
        assert_eq!([node_of(&nodes, "hil"), node_of(&nodes, ".")], [None; 2]);
    }
}
