//! Sockets over blocks: streams, blocks and datagrams between programs of two nodes.
//!
//! A program asks for a socket over the control socket, and the connection becomes the socket
//! ([`client`] is the program's end). A stream is two flows of blocks, one each way: the first block
//! of the one says which service it is for, and the first block of the other names that flow, which
//! accepts it. Who does not want it refuses the flow. Streams and datagrams live in memory: a
//! daemon that began anew refuses what belongs to streams that it does not know, and so both ends
//! hear of it.
//!
//! Nothing is read of a program that cannot go out, and no block is acknowledged that the program
//! of the other end was not given: a reader that does not read stops the writer, hop by hop.
//!
//! | file | what stands there |
//! |---|---|
//! | `client` | the sockets of a program |
//! | `channel` | the connection between a program and its daemon, as records |
//! | `batch` | bytes become blocks |
//! | `streams`, `stream` | all streams of a daemon; one of them |
//! | `listeners` | programs that take connections |

mod batch;
mod channel;
pub mod client;
mod listeners;
mod stream;
mod streams;

use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;

use farhop_proto::base::Instant;
use farhop_proto::transport::hop::{Arrived, Delivery, Hop, HopConfig};
use farhop_proto::wire::hop::FlowKey;
use rustix::event::PollFlags;
use serde::{Deserialize, Serialize};

use self::channel::{Cause, Channel};
use self::listeners::Listeners;
use self::streams::Streams;
use crate::blocks::Office;

/// Sockets at one time.
const SOCKETS: usize = 1_024;
/// Longest name of a service, in bytes.
const SERVICE_BYTES: usize = 64;

/// Which socket a program wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "socket", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Wish {
    /// A stream to a service of a node.
    Connect {
        /// The node.
        to: String,
        /// The service.
        service: String,
    },
    /// To hear of streams to a service of this node.
    Listen {
        /// The service.
        service: String,
    },
    /// A stream that a listener heard of.
    Accept {
        /// Its number.
        id: u16,
    },
}

/// What a daemon knows of its sockets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SocketsStatus {
    /// Sockets that there may be at most.
    pub limit: usize,
    /// Services that programs here listen for.
    pub listening: Vec<String>,
    /// Streams.
    pub streams: Vec<StreamStatus>,
    /// What was counted.
    pub counters: SocketCounters,
}

/// A stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamStatus {
    /// Its number here.
    pub id: u16,
    /// The node at its other end.
    pub peer: String,
    /// The service.
    pub service: String,
    /// How it stands: "opening", "offered", "open" or "leaving".
    pub state: String,
    /// Bytes of the program here that went out.
    pub sent: u64,
    /// Bytes that the program here was given.
    pub received: u64,
}

/// What was counted of sockets since the daemon began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketCounters {
    /// Streams that were connected, from here and from elsewhere.
    pub opened: u64,
    /// Streams that nobody here took.
    pub refused: u64,
    /// Streams that did not end as their programs wanted.
    pub reset: u64,
    /// Those of them whose other end was silent for too long.
    pub silent: u64,
    /// Requests of programs that were refused because there were too many sockets.
    pub over_limit: u64,
    /// Bytes of programs that went out.
    pub bytes_sent: u64,
    /// Bytes that programs were given.
    pub bytes_received: u64,
}

/// All sockets of a daemon.
pub(crate) struct Sockets {
    listeners: Listeners,
    streams: Streams,
    counters: SocketCounters,
}

impl Sockets {
    pub(crate) fn build(config: &HopConfig) -> Self {
        let (listeners, counters) = (Listeners::default(), SocketCounters::default());
        Self { listeners, streams: Streams::build(config), counters }
    }

    /// What to wait on.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let all = self.listeners.sources().chain(self.streams.sources());
        // The end of a program that nothing is wanted of would wake the loop for ever.
        all.filter(|(_, flags)| !flags.is_empty())
    }

    /// Which of those are ready, in their order.
    pub(crate) fn set_ready(&mut self, ready: &[bool]) {
        let mut ready = ready.iter().copied();
        self.listeners.set_ready(&mut ready);
        self.streams.set_ready(&mut ready);
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.streams.poll_timeout()
    }

    /// Whether [`Sockets::turn`] has something to do.
    pub(crate) fn is_called(&self, now: Instant) -> bool {
        self.listeners.is_called()
            || self.streams.is_called()
            || self.poll_timeout().is_some_and(|due| due <= now)
    }

    /// Whether a flow from elsewhere belongs to a socket.
    pub(crate) fn has(&self, flow: FlowKey) -> bool {
        self.streams.has(flow)
    }

    /// Whether a flow from here with this number does.
    pub(crate) fn has_local(&self, local: u16) -> bool {
        self.streams.has_local(local)
    }

    /// Moves bytes between programs and the machine.
    pub(crate) fn turn(&mut self, office: &Office, now: Instant, hop: &mut Hop) {
        self.listeners.turn();
        for id in self.listeners.take_refused() {
            self.streams.refuse(now, hop, id, &mut self.counters);
        }
        self.streams.turn(office, now, hop, &mut self.counters);
    }

    /// The other end of a flow has a block, or refuses the flow.
    pub(crate) fn on_arrived(&mut self, now: Instant, hop: &mut Hop, arrived: Arrived) {
        self.streams.on_arrived(now, hop, arrived, &mut self.counters);
    }

    /// A block came; `local` is a number for a socket that it may make.
    pub(crate) fn on_delivery(
        &mut self,
        office: &Office,
        now: Instant,
        hop: &mut Hop,
        delivery: Delivery,
        local: u16,
    ) {
        let (streams, listeners) = (&mut self.streams, &mut self.listeners);
        if delivery.id.number > 0 {
            return streams.on_delivery(now, hop, delivery, &mut self.counters);
        }
        streams.on_opening(office, now, hop, (delivery, local), listeners, &mut self.counters);
    }

    /// Makes the connection of a program a socket, with the number `local` if it needs one.
    pub(crate) fn open(
        &mut self,
        office: &Office,
        now: Instant,
        (program, rest): (UnixStream, &[u8]),
        wish: Wish,
        local: u16,
    ) {
        let channel = Channel::new(program, rest);
        let sockets = self.streams.count() + self.listeners.count();
        let opened = if sockets >= SOCKETS && !matches!(wish, Wish::Accept { .. }) {
            self.counters.over_limit += 1;
            Err((channel, format!("there are {SOCKETS} sockets already")))
        } else {
            match wish {
                Wish::Connect { to, service } => {
                    self.streams.connect(office, now, channel, (&to, &service), local)
                }
                Wish::Listen { service } => self.listeners.add(channel, &service).map(|channel| {
                    for (id, from) in self.streams.offered(&service) {
                        channel.say(channel::Kind::Incoming, offer(id, &office.name(from)));
                    }
                }),
                Wish::Accept { id } => self.streams.accept(now, channel, id, &mut self.counters),
            }
        };
        if let Err((mut channel, why)) = opened {
            channel.say_no(Cause::Refused, &why);
        }
    }

    pub(crate) fn status(&self, office: &Office) -> SocketsStatus {
        let (bytes_sent, bytes_received) = self.streams.bytes();
        SocketsStatus {
            limit: SOCKETS,
            listening: self.listeners.services(),
            streams: self.streams.status(office),
            counters: SocketCounters { bytes_sent, bytes_received, ..self.counters },
        }
    }
}

/// Tells a program that there is no socket for it.
pub(crate) fn refuse(program: UnixStream, why: &str) {
    Channel::new(program, &[]).say_no(Cause::Refused, why);
}

/// What a listener is told of a stream that somebody wants.
fn offer(id: u16, from: &str) -> Vec<u8> {
    serde_json::json!({ "id": id, "from": from }).to_string().into_bytes()
}

/// Whether a service may have this name.
fn is_service(name: &str) -> bool {
    !name.is_empty() && name.len() <= SERVICE_BYTES && !name.chars().any(char::is_control)
}
