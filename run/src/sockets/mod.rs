//! Sockets over block transport: streams, blocks and datagrams between programs at two nodes.
//!
//! A program asks its daemon for a socket over the control socket, and the connection becomes the
//! socket ([`client`] is the program's end). A stream is two flows of blocks, one each way. The
//! first block of the one names the service; the first block of the other names the flow that it
//! answers, which accepts the stream. A node that does not want the stream refuses the flow. The
//! state of streams and datagrams is only in memory: a daemon that was restarted refuses the flows
//! of streams that it does not know, and so both ends learn of it.
//!
//! There is backpressure from end to end: a daemon reads from a program only what can go out, and
//! acknowledges a block only when the program at the other end has it. So a reader that does not
//! read stops the writer, hop by hop.
//!
//! | file | contents |
//! |---|---|
//! | `client` | sockets for programs |
//! | `wish` | what a program asks for |
//! | `channel` | the connection between a program and its daemon, as records |
//! | `batch` | cuts bytes into blocks |
//! | `streams`, `stream` | all streams of a daemon; one of them |
//! | `silence` | streams whose other end is silent, or was restarted |
//! | `senders`, `receivers` | programs that send blocks, and programs that receive them |
//! | `datagrams` | programs that send and receive datagrams |
//! | `records` | the records of these on disk |
//! | `listeners` | programs that accept streams or blocks |

mod batch;
mod channel;
pub mod client;
mod datagrams;
mod listeners;
mod receivers;
mod records;
mod sender;
mod senders;
mod silence;
mod stream;
mod streams;
mod wish;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;

use bytes::Bytes;
use farhop_proto::base::{Instant, NodeId};
use farhop_proto::transport::hop::{Arrived, Delivery, Hop, HopConfig};
use farhop_proto::wire::hop::{BlockId, FlowKey};
use rustix::event::PollFlags;
use serde::{Deserialize, Serialize};

use self::channel::{Cause, Channel};
use self::datagrams::Datagrams;
use self::listeners::{Listeners, Purpose};
use self::receivers::Receivers;
pub use self::records::{Receiving, Sending};
pub(crate) use self::senders::Cancelled;
use self::senders::{Senders, Wanted};
pub(crate) use self::streams::nobody_takes;
use self::streams::{Refused, Streams};
pub use self::wish::Wish;
use crate::blocks::{Coming, Consignment, Done, Kind as FlowKind, Office, Opening, kind_of, read};
use crate::files::OutgoingStatus;

/// Most sockets at one time.
const SOCKETS: usize = 1_024;
/// Longest name of a service, in bytes.
const SERVICE_BYTES: usize = 64;

/// State of a daemon's sockets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SocketsStatus {
    /// Most sockets at one time.
    pub limit: usize,
    /// Services that programs here listen for, or are bound to.
    pub listening: Vec<String>,
    /// Streams.
    pub streams: Vec<StreamStatus>,
    /// Flows of blocks that programs here send, and that are not finished.
    pub sending: Vec<Sending>,
    /// Flows of blocks for programs here that are not finished.
    pub receiving: Vec<Receiving>,
    /// The counters.
    pub counters: SocketCounters,
}

/// One end of a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamStatus {
    /// Its number here.
    pub id: u32,
    /// The node at its other end.
    pub peer: String,
    /// The service.
    pub service: String,
    /// Its state: "opening", "offered", "open" or "leaving".
    pub state: String,
    /// Bytes that were read from the program here.
    pub sent: u64,
    /// Bytes that were given to the program here.
    pub received: u64,
}

/// Counters of sockets since the daemon began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketCounters {
    /// Streams that were opened, from here and from elsewhere.
    pub opened: u64,
    /// Streams from elsewhere that were refused: no program listened, or too many were waiting.
    pub refused: u64,
    /// Streams that ended otherwise than their programs wanted.
    pub reset: u64,
    /// Of `reset`: the other end was silent for too long, or no program here accepted the stream in
    /// time.
    pub silent: u64,
    /// Of `reset`: the program here did not read while others needed the memory.
    pub unread: u64,
    /// Requests that were refused because there were too many sockets.
    pub over_limit: u64,
    /// Datagrams that were accepted from programs.
    pub datagrams_sent: u64,
    /// Datagrams that were given to programs.
    pub datagrams_received: u64,
    /// Datagrams that are known to be lost, for lack of room or of a receiver; a flow that was
    /// refused or given up counts once.
    pub datagrams_lost: u64,
    /// Bytes of streams that were read from programs.
    pub bytes_sent: u64,
    /// Bytes of streams that were given to programs.
    pub bytes_received: u64,
}

/// All sockets of a daemon.
pub(crate) struct Sockets {
    listeners: Listeners,
    streams: Streams,
    senders: Senders,
    receivers: Receivers,
    datagrams: Datagrams,
    counters: SocketCounters,
}

impl Sockets {
    /// Continues these flows of blocks. The store at this node, `node`, still has the blocks
    /// `kept`.
    pub(crate) fn build(
        config: &HopConfig,
        (node, kept): (NodeId, &BTreeSet<BlockId>),
        sending: Vec<Sending>,
        receiving: Vec<Receiving>,
    ) -> Self {
        Self {
            listeners: Listeners::default(),
            streams: Streams::build(config),
            senders: Senders::build(sending, node, kept),
            receivers: Receivers::build(receiving),
            datagrams: Datagrams::default(),
            counters: SocketCounters::default(),
        }
    }

    /// Descriptors to wait on.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let all = self.listeners.sources().chain(self.streams.sources());
        let all = all.chain(self.senders.sources()).chain(self.receivers.sources());
        let all = all.chain(self.datagrams.sources());
        // Polled without events, a program that hangs up would still wake the loop, for ever.
        all.filter(|(_, flags)| !flags.is_empty())
    }

    /// Notes which of the sources are ready; in the same order.
    pub(crate) fn set_ready(&mut self, ready: &[bool]) {
        let mut ready = ready.iter().copied();
        self.listeners.set_ready(&mut ready);
        self.streams.set_ready(&mut ready);
        self.senders.set_ready(&mut ready);
        self.receivers.set_ready(&mut ready);
        self.datagrams.set_ready(&mut ready);
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let all = [
            self.streams.poll_timeout(),
            self.senders.poll_timeout(),
            self.datagrams.poll_timeout(),
        ];
        all.into_iter().flatten().min()
    }

    /// Whether [`Sockets::turn`] has something to do.
    pub(crate) fn is_called(&self, now: Instant) -> bool {
        self.has_more()
            || self.streams.is_called()
            || self.senders.is_called()
            || self.receivers.is_called()
            || self.datagrams.is_called()
            || self.poll_timeout().is_some_and(|due| due <= now)
    }

    /// Whether some program has sent more than was handled in the last turn.
    pub(crate) fn has_more(&self) -> bool {
        self.listeners.is_called() || self.streams.is_cut || self.receivers.is_cut
    }

    /// Whether a flow from another node belongs to a socket.
    pub(crate) fn has(&self, flow: FlowKey) -> bool {
        self.streams.has(flow) || self.receivers.has(flow) || self.datagrams.has(flow)
    }

    /// Whether the flow with this number from this node belongs to a socket.
    pub(crate) fn has_local(&self, local: u32) -> bool {
        let is_stream = self.streams.has_local(local);
        is_stream || self.senders.has_local(local) || self.datagrams.has_local(local)
    }

    /// Moves bytes between programs and the machine. `spare` is a number for one new flow.
    pub(crate) fn turn(&mut self, office: &Office, now: Instant, hop: &mut Hop, spare: u32) {
        self.listeners.turn();
        for (purpose, id) in self.listeners.take_refused() {
            match purpose {
                Purpose::Streams => self.streams.refuse(now, hop, &id, &mut self.counters),
                Purpose::Blocks => self.receivers.refuse(office, now, hop, &id),
            }
        }
        self.streams.turn(office, now, hop, &mut self.counters);
        self.senders.turn(office, now, hop);
        self.receivers.turn(office);
        self.datagrams.turn(office, now, hop, Some(spare), &mut self.counters);
    }

    /// The clerk is done with a block of a program.
    pub(crate) fn on_done(&mut self, office: &Office, now: Instant, hop: &mut Hop, done: Done) {
        match done {
            Done::Held(whole) => self.senders.on_held(office, now, hop, whole),
            Done::NotHeld(local) => self.senders.on_not_held(office, hop, local),
            Done::Letter(id) => {
                self.receivers.on_kept(office, now, hop, id, &mut self.listeners);
            }
            Done::Fetched(id, block) => self.receivers.on_fetched(id, block),
            _ => unreachable!("all others concern no socket"),
        }
    }

    /// Silent nodes that must be asked whether they are there, as no stream can ask them, and which
    /// run of their daemons is meant; 0: any.
    pub(crate) fn take_silent(&mut self) -> BTreeMap<NodeId, u64> {
        self.streams.take_silent()
    }

    /// Streams and files that were given up here, to be reported to their other ends.
    pub(crate) fn take_given_up(&mut self) -> Vec<(NodeId, Consignment)> {
        let mut given_up = self.streams.take_given_up();
        given_up.extend(self.senders.take_given_up());
        given_up
    }

    /// The node at the other end gave up a flow. Returns whether it is a stream or a flow of blocks
    /// that is known here.
    pub(crate) fn on_given_up(
        &mut self,
        office: &Office,
        now: Instant,
        hop: &mut Hop,
        given_up: (NodeId, Consignment),
    ) -> bool {
        self.streams.on_given_up(now, hop, given_up, &mut self.counters)
            || self.receivers.on_given_up(office, now, hop, given_up)
    }

    /// The flows of blocks that are still coming in.
    pub(crate) fn coming(&self) -> impl Iterator<Item = Coming> {
        self.receivers.coming()
    }

    /// Whether this node sends, or sent, this flow of blocks.
    pub(crate) fn sends(&self, what: Consignment) -> bool {
        self.senders.sends(what)
    }

    /// A node answered that it is there, and this run of its daemon, if that is not 0.
    pub(crate) fn on_there(&mut self, now: Instant, node: NodeId, life: u64) {
        self.streams.on_there(now, node, life);
    }

    /// The number of this run of the daemon.
    pub(crate) fn life(&self) -> u64 {
        self.streams.life
    }

    /// This run of a node's daemon is over.
    pub(crate) fn on_over(&mut self, now: Instant, hop: &mut Hop, over: (NodeId, u64)) {
        self.streams.on_over(now, hop, over, &mut self.counters);
    }

    /// Gives up a flow of blocks that a program here sends; `None` if there is no such flow.
    pub(crate) fn cancel(
        &mut self,
        office: &Office,
        hop: &mut Hop,
        local: u32,
    ) -> Option<Cancelled> {
        let cancelled = self.senders.under_way(local)?;
        self.senders.fail(office, hop, local, "it was cancelled".into());
        Some(cancelled)
    }

    /// The destination has a block from here, or refuses its flow.
    pub(crate) fn on_arrived(
        &mut self,
        office: &Office,
        now: Instant,
        hop: &mut Hop,
        arrived: Arrived,
    ) {
        if self.senders.has_local(arrived.id.flow.local) {
            self.senders.on_arrived(office, hop, arrived);
        } else if self.datagrams.has_local(arrived.id.flow.local) {
            self.datagrams.on_arrived(hop, arrived, &mut self.counters);
        } else {
            self.streams.on_arrived(now, hop, arrived, &mut self.counters);
        }
    }

    /// A block arrived; `local` is a number for a socket that it may open.
    pub(crate) fn on_delivery(
        &mut self,
        office: &Office,
        now: Instant,
        hop: &mut Hop,
        delivery: Delivery,
        local: u32,
    ) {
        let (streams, listeners) = (&mut self.streams, &mut self.listeners);
        match (delivery.id.number, kind_of(&delivery.frames)) {
            (0, Some(FlowKind::Blocks)) => {
                self.receivers.on_opening(office, now, hop, delivery, listeners);
            }
            (0, Some(FlowKind::Datagrams)) => {
                self.datagrams.on_opening(office, now, hop, &delivery, &mut self.counters);
            }
            (0, _) => {
                let arrived = (delivery, local);
                streams.on_opening(office, now, hop, arrived, listeners, &mut self.counters);
            }
            _ if self.receivers.has(delivery.id.flow) => {
                self.receivers.on_delivery(now, hop, delivery);
            }
            _ if self.datagrams.has(delivery.id.flow) => {
                self.datagrams.on_delivery(office, now, hop, delivery, &mut self.counters);
            }
            _ => streams.on_delivery(now, hop, delivery, &mut self.counters),
        }
    }

    /// Turns the connection of a program into a socket, with the number `local` if it needs one.
    pub(crate) fn open(
        &mut self,
        office: &Office,
        now: Instant,
        (program, rest): (UnixStream, &[u8]),
        wish: Wish,
        local: u32,
    ) {
        let channel = Channel::new(program, rest);
        let all = [self.streams.count(), self.listeners.count(), self.senders.count()];
        let others = self.receivers.count() + self.datagrams.count();
        let is_full = all.iter().sum::<usize>() + others >= SOCKETS;
        let is_new = match &wish {
            Wish::Accept { .. } | Wish::TakeBlocks { .. } => false,
            // Its flow counts already.
            Wish::SendBlocks { to, service, name } => {
                !self.senders.knows(office, to, service, name)
            }
            Wish::Push { to, name, .. } => !self.senders.knows(office, to, "", name),
            _ => true,
        };
        let opened = if is_full && is_new {
            self.counters.over_limit += 1;
            Err((channel, format!("there are {SOCKETS} sockets already")))
        } else {
            self.grant(office, now, channel, wish, local)
        };
        if let Err((mut channel, why)) = opened {
            channel.say_no(Cause::Refused, &why);
        }
    }

    fn grant(
        &mut self,
        office: &Office,
        now: Instant,
        channel: Channel,
        wish: Wish,
        local: u32,
    ) -> Result<(), Refused> {
        let channel = match wish.record_bytes() {
            Some(most) => channel.with_records_of(most),
            None => channel,
        };
        match wish {
            Wish::Connect { to, service } => {
                self.streams.connect(office, now, channel, (&to, &service), local)
            }
            Wish::Listen { service } => {
                let channel = self.listeners.add(channel, Purpose::Streams, &service)?;
                for (id, from) in self.streams.offered(&service) {
                    channel.say(channel::Kind::Incoming, offer(id, &office.name(from)));
                }
                Ok(())
            }
            Wish::Accept { id } => self.streams.accept(now, channel, id, &mut self.counters),
            Wish::SendBlocks { to, service, name } => {
                let wanted = Wanted { to: &to, service: &service, name: &name, file: None };
                self.senders.open(office, channel, &wanted, local)
            }
            Wish::Push { to, file, name } => {
                let wanted = Wanted { to: &to, service: "", name: &name, file: Some(&file) };
                self.senders.open(office, channel, &wanted, local)
            }
            Wish::ListenBlocks { service } => {
                let channel = self.listeners.add(channel, Purpose::Blocks, &service)?;
                for offer in self.receivers.offers(office, &service) {
                    channel.say(channel::Kind::Incoming, offer);
                }
                Ok(())
            }
            Wish::Bind { service } => self.datagrams.bind(channel, service),
            Wish::TakeBlocks { id } => self.receivers.accept(channel, &id),
        }
    }

    /// Files that are being pushed from here.
    pub(crate) fn pushed(&self, office: &Office) -> impl Iterator<Item = OutgoingStatus> {
        self.senders.pushed(office)
    }

    pub(crate) fn status(&self, office: &Office) -> SocketsStatus {
        let (bytes_sent, bytes_received) = self.streams.bytes();
        SocketsStatus {
            limit: SOCKETS,
            listening: [self.listeners.services(), self.datagrams.services().cloned().collect()]
                .concat(),
            streams: self.streams.status(office),
            sending: self.senders.moving().cloned().collect(),
            receiving: self.receivers.moving().cloned().collect(),
            counters: SocketCounters { bytes_sent, bytes_received, ..self.counters },
        }
    }
}

/// Tells a program why it gets no socket at present: what it had open may go on later.
pub(crate) fn refuse(program: UnixStream, why: &str) {
    Channel::new(program, &[]).say_no(Cause::Broken, why);
}

/// The message to a listener about a new stream.
fn offer(id: u32, from: &str) -> Vec<u8> {
    serde_json::json!({ "id": id, "from": from }).to_string().into_bytes()
}

/// The description in the first block of a flow, and the bytes after it; `None` if the block is
/// invalid, or a name in it is.
fn read_opening(kind: FlowKind, block: &Bytes) -> Option<(Opening, Bytes)> {
    let is_fit = |name: &str| name.is_empty() || is_service(name);
    let read = read::<Opening>(kind, block);
    read.filter(|(opening, _)| is_fit(&opening.service) && is_fit(&opening.name))
}

/// Whether a string is a valid name of a service.
fn is_service(name: &str) -> bool {
    !name.is_empty() && name.len() <= SERVICE_BYTES && !name.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_all_sockets_in_use_a_flow_can_still_be_continued() {
        let (mut office, _asked) = Office::of_test();
        office.names.insert(NodeId(3), "valley".into());
        let records = (0..SOCKETS as u32).map(|local| Sending::of_test(local, (1, 1))).collect();
        let own = (office.node, &BTreeSet::new());
        let mut sockets = Sockets::build(&HopConfig::default(), own, records, Vec::new());
        let mut answer = |name: &str| {
            let (socket, program) = UnixStream::pair().expect("two sockets");
            program.set_nonblocking(true).expect("it can be");
            let (to, service) = ("valley".into(), "mail".into());
            let wish = Wish::SendBlocks { to, service, name: name.into() };
            sockets.open(&office, Instant::ZERO, (socket, &[]), wish, 9_999);
            let mut program = Channel::new(program, b"");
            program.set_ready(true);
            program.poll_record().map(|(kind, _)| kind)
        };
        assert_eq!(answer("7"), Some(channel::Kind::Opened));
        assert_eq!(answer("new"), Some(channel::Kind::Reset));
    }
}
