//! All streams of a daemon.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::BorrowedFd;

use bytes::Bytes;
use farhop_proto::base::{Instant, NodeId};
use farhop_proto::transport::hop::{Arrived, Delivery, Hop, HopConfig};
use farhop_proto::wire::hop::{FlowKey, Refusal};
use rustix::event::PollFlags;

use super::batch::Batch;
use super::channel::{BLOCK_BYTES, Cause, Channel, Kind};
use super::listeners::{Listeners, Purpose};
use super::silence::look_after;
use super::stream::{Heard, Stage, Stream};
use super::{SocketCounters, StreamStatus, is_service, offer};
use crate::blocks::{self, Consignment, Kind as FlowKind, Office, Opening, front, random};

/// Most streams that wait to be accepted: as many as an exit has connections by default.
const OFFERS: usize = 512;
/// Waiting bytes of all streams together from which on each stream may queue less.
const WAITING_BYTES: usize = 32 << 20;
/// What a stream may queue then, in bytes.
const LEAST_BYTES: usize = 16 << 10;

/// All streams of a daemon.
pub(super) struct Streams {
    block_bytes: usize,
    pub(super) all: BTreeMap<u32, Stream>,
    by_flow: BTreeMap<FlowKey, u32>,
    /// Streams that have something to do.
    pub(super) todo: BTreeSet<u32>,
    /// First blocks of streams that wait to be accepted, with the program's bytes in them.
    offers: BTreeMap<u32, (Delivery, Bytes)>,
    /// When to look for silent streams again.
    look: Option<Instant>,
    /// When each node with streams was last heard, as of the last look.
    pub(super) heard: BTreeMap<NodeId, Instant>,
    /// Drawn when this daemon began, and told at the beginning of each stream.
    pub(super) life: u64,
    /// Silent nodes that no stream can probe, and which run of their daemons is meant.
    pub(super) silent: BTreeMap<NodeId, u64>,
    /// Whether a program has sent more than was handled in the last turn.
    pub(super) is_cut: bool,
    /// Streams that were given up here while blocks of them were on their way.
    given_up: Vec<(NodeId, Consignment)>,
    waiting: usize,
    /// Bytes sent and received by streams that have ended.
    passed: (u64, u64),
}

/// A connection that does not become a stream, and why.
pub(super) type Refused = (Channel, String);

impl Streams {
    pub(super) fn build(config: &HopConfig) -> Self {
        Self {
            block_bytes: (config.bytes_of_block() as usize).min(BLOCK_BYTES),
            all: BTreeMap::new(),
            by_flow: BTreeMap::new(),
            todo: BTreeSet::new(),
            offers: BTreeMap::new(),
            look: None,
            heard: BTreeMap::new(),
            life: random().unwrap_or_default(),
            silent: BTreeMap::new(),
            is_cut: false,
            given_up: Vec::new(),
            waiting: 0,
            passed: (0, 0),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    pub(super) fn has(&self, flow: FlowKey) -> bool {
        self.by_flow.contains_key(&flow)
    }

    pub(super) fn has_local(&self, local: u32) -> bool {
        self.all.contains_key(&local)
    }

    pub(super) fn sources(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let limit = self.limit();
        self.all.values().filter_map(move |stream| source(stream, limit))
    }

    pub(super) fn set_ready(&mut self, ready: &mut dyn Iterator<Item = bool>) {
        let limit = self.limit();
        for (local, stream) in &mut self.all {
            let is_watched = source(stream, limit).is_some_and(|(_, flags)| !flags.is_empty());
            if !is_watched || !ready.next().unwrap_or(false) {
                continue;
            }
            self.todo.insert(*local);
            let reads = stream.ours.waiting() < limit;
            let Some(channel) = &mut stream.channel else { continue };
            channel.set_ready(true);
            if !reads && channel.is_hung_up() {
                let waited = stream.ours.waiting();
                stream.handle_hangup();
                self.waiting = (self.waiting + stream.ours.waiting()).saturating_sub(waited);
            }
        }
    }

    /// How many bytes of a stream may wait.
    fn limit(&self) -> usize {
        if self.waiting < WAITING_BYTES { self.block_bytes } else { LEAST_BYTES }
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        // Streams in `todo` wait for room, which no timer brings.
        let waits = self.all.iter().filter(|(local, _)| !self.todo.contains(local));
        let batches = waits.filter_map(|(_, stream)| stream.ours.poll_timeout());
        batches.chain(self.look).min()
    }

    pub(super) fn is_called(&self) -> bool {
        !self.todo.is_empty()
    }

    /// Opens a stream for a program.
    pub(super) fn connect(
        &mut self,
        office: &Office,
        now: Instant,
        channel: Channel,
        (to, service): (&str, &str),
        local: u32,
    ) -> Result<(), Refused> {
        let peer = match office.node_of(to) {
            Ok(peer) if is_service(service) => peer,
            Ok(_) => return Err((channel, format!("'{service}' is no name for a service"))),
            Err(error) => return Err((channel, format!("{error:#}"))),
        };
        let mut stream = open((peer, service), None, Stage::Opening, now, self.life);
        stream.channel = Some(channel);
        self.insert(office, now, local, stream);
        Ok(())
    }

    fn insert(&mut self, office: &Office, now: Instant, local: u32, stream: Stream) {
        self.all.insert(local, stream);
        self.todo.insert(local);
        self.look.get_or_insert(now + look_after(office.config.silence()));
    }

    /// Gives an offered stream to a program.
    pub(super) fn accept(
        &mut self,
        now: Instant,
        mut channel: Channel,
        id: u32,
        counters: &mut SocketCounters,
    ) -> Result<(), Refused> {
        let stream = self.all.get_mut(&id).filter(|stream| stream.stage == Stage::Offered);
        let Some((stream, (first, bytes))) = stream.zip(self.offers.remove(&id)) else {
            return Err((channel, "whoever wanted this stream does not want it any more".into()));
        };
        counters.opened += 1;
        channel.say(Kind::Opened, serde_json::json!({ "id": id }).to_string());
        (stream.channel, stream.stage, stream.heard) = (Some(channel), Stage::Open, now);
        stream.give_first(&first, bytes);
        self.todo.insert(id);
        Ok(())
    }

    /// The streams to a service that wait to be accepted, and the nodes that they come from.
    pub(super) fn offered(&self, service: &str) -> Vec<(u32, NodeId)> {
        let is_one = |stream: &Stream| stream.stage == Stage::Offered && stream.service == service;
        let all = self.all.iter().filter(|(_, stream)| is_one(stream));
        all.map(|(id, stream)| (*id, stream.peer)).collect()
    }

    /// A listener refuses a stream.
    pub(super) fn refuse(
        &mut self,
        now: Instant,
        hop: &mut Hop,
        id: &str,
        counters: &mut SocketCounters,
    ) {
        if let Some(id) = id.parse().ok().filter(|id| self.offers.contains_key(id)) {
            counters.refused += 1;
            self.end(now, hop, id, (Cause::Refused, ""));
        }
    }

    /// The first block of a flow arrived.
    pub(super) fn on_opening(
        &mut self,
        office: &Office,
        now: Instant,
        hop: &mut Hop,
        (delivery, local): (Delivery, u32),
        listeners: &mut Listeners,
        counters: &mut SocketCounters,
    ) {
        let (id, peer) = (delivery.id, delivery.id.flow.source);
        let block = Bytes::from(delivery.frames.concat());
        let mut is_full = self.offers.len() >= OFFERS;
        let taken = match blocks::read::<Opening>(FlowKind::Stream, &block) {
            Some((Opening { answers: Some(answered), nonce, life, .. }, bytes)) => {
                self.on_answer(office, now, (answered, nonce, life), &delivery, bytes, counters)
            }
            Some((Opening { service, nonce, life, .. }, bytes)) if !is_full => {
                let own = self.life;
                is_full = listeners.is_full(Purpose::Streams, &service);
                !is_full
                    && listeners.find(Purpose::Streams, &service).is_some_and(|listener| {
                        let answers = Some(id.flow.local);
                        let mut stream = open((peer, &service), answers, Stage::Offered, now, own);
                        (stream.theirs, stream.nonces[1]) = (Some(id.flow), nonce);
                        stream.life = life;
                        self.by_flow.insert(id.flow, local);
                        self.offers.insert(local, (delivery, bytes));
                        self.insert(office, now, local, stream);
                        listener.say(Kind::Incoming, offer(local, &office.name(peer)));
                        true
                    })
            }
            _ => false,
        };
        if !taken {
            counters.refused += 1;
            hop.refuse(now, id, if is_full { Refusal::Full } else { Refusal::Unwanted });
        }
    }

    /// The other end answers a stream that was opened here. Returns whether there is such a stream.
    fn on_answer(
        &mut self,
        office: &Office,
        now: Instant,
        (local, nonce, life): (u32, u64, u64),
        first: &Delivery,
        bytes: Bytes,
        counters: &mut SocketCounters,
    ) -> bool {
        let peer = first.id.flow.source;
        let is_one = |stream: &&mut Stream| stream.stage == Stage::Opening && stream.peer == peer;
        let Some(stream) = self.all.get_mut(&local).filter(is_one) else { return false };
        counters.opened += 1;
        let opened = serde_json::json!({ "id": local, "to": office.name(peer) });
        if let Some(channel) = &mut stream.channel {
            channel.say(Kind::Opened, opened.to_string());
        }
        (stream.stage, stream.theirs, stream.heard) = (Stage::Open, Some(first.id.flow), now);
        (stream.nonces[1], stream.life) = (nonce, life);
        stream.give_first(first, bytes);
        self.by_flow.insert(first.id.flow, local);
        self.todo.insert(local);
        true
    }

    /// A further block of a flow arrived.
    pub(super) fn on_delivery(
        &mut self,
        now: Instant,
        hop: &mut Hop,
        delivery: Delivery,
        counters: &mut SocketCounters,
    ) {
        let id = delivery.id;
        let local = self.by_flow.get(&id.flow).copied();
        let Some((local, stream)) =
            local.and_then(|local| Some((local, self.all.get_mut(&local)?)))
        else {
            return hop.refuse(now, id, Refusal::Unknown);
        };
        self.todo.insert(local);
        match stream.handle_block(now, delivery) {
            Heard::Bytes => {}
            Heard::Reset => {
                hop.accept(now, id);
                counters.reset += 1;
                self.end(now, hop, local, (Cause::Broken, "the other end broke it off"));
            }
            Heard::Nonsense => {
                counters.reset += 1;
                let why = "the other end speaks in another way";
                self.end(now, hop, local, (Cause::Broken, why));
            }
        }
    }

    /// The other end gave a stream up: it ends at once, even if bytes of it are unread. Returns
    /// whether there is such a stream.
    pub(super) fn on_given_up(
        &mut self,
        now: Instant,
        hop: &mut Hop,
        (source, what): (NodeId, Consignment),
        counters: &mut SocketCounters,
    ) -> bool {
        let local = self.by_flow.get(&FlowKey { source, local: what.local }).copied();
        let is_it = |local: &u32| self.all[local].nonces[1] == what.nonce;
        let Some(local) = local.filter(is_it) else { return false };
        counters.reset += 1;
        self.end(now, hop, local, (Cause::Broken, "the other end broke it off"));
        true
    }

    /// Streams that were given up here, to be reported to their other ends.
    pub(super) fn take_given_up(&mut self) -> Vec<(NodeId, Consignment)> {
        std::mem::take(&mut self.given_up)
    }

    /// The other end has a block of a stream, or refuses its flow.
    pub(super) fn on_arrived(
        &mut self,
        now: Instant,
        hop: &mut Hop,
        arrived: Arrived,
        counters: &mut SocketCounters,
    ) {
        let local = arrived.id.flow.local;
        let Some(stream) = self.all.get_mut(&local) else { return };
        (stream.heard, stream.is_probing) = (now, false);
        stream.ours.handle_arrived();
        self.todo.insert(local);
        if let Some(refusal) = arrived.refusal {
            let (cause, why) = match stream.stage {
                Stage::Opening if refusal == Refusal::Full => {
                    (Cause::Refused, "too many streams wait there".to_owned())
                }
                Stage::Opening => (Cause::Refused, nobody_takes(&stream.service)),
                _ => (Cause::Broken, "the other end is gone".to_owned()),
            };
            let peer = stream.peer;
            counters.reset += u64::from(stream.stage == Stage::Open);
            self.end(now, hop, local, (cause, &why));
            self.probe_one(peer);
        }
    }

    /// Ends a stream: tells its program and its other end.
    pub(super) fn end(
        &mut self,
        now: Instant,
        hop: &mut Hop,
        local: u32,
        (cause, why): (Cause, &str),
    ) {
        let Some(mut stream) = self.remove(local) else { return };
        stream.tell(cause, why);
        stream.refuse(now, hop);
        hop.abandon(FlowKey { source: hop.node(), local });
    }

    fn remove(&mut self, local: u32) -> Option<Stream> {
        let stream = self.all.remove(&local)?;
        self.offers.remove(&local);
        self.todo.remove(&local);
        if let Some(flow) = stream.theirs {
            self.by_flow.remove(&flow);
        }
        self.waiting -= stream.ours.waiting().min(self.waiting);
        self.passed.0 += stream.sent;
        self.passed.1 += stream.received;
        Some(stream)
    }

    /// Moves bytes between programs and the machine.
    pub(super) fn turn(
        &mut self,
        office: &Office,
        now: Instant,
        hop: &mut Hop,
        counters: &mut SocketCounters,
    ) {
        if self.look.is_some_and(|look| look <= now) {
            self.look_for_silent(office, now, hop, counters);
            let next = now + look_after(office.config.silence());
            self.look = (!self.all.is_empty()).then_some(next);
        }
        let is_due = |stream: &Stream| stream.ours.poll_timeout().is_some_and(|due| due <= now);
        let due = self.all.iter().filter(|(_, stream)| is_due(stream)).map(|(local, _)| *local);
        self.todo.extend(due.collect::<Vec<_>>());
        self.is_cut = false;
        for local in std::mem::take(&mut self.todo) {
            self.move_bytes(office, now, hop, local, counters);
        }
    }

    fn move_bytes(
        &mut self,
        office: &Office,
        now: Instant,
        hop: &mut Hop,
        local: u32,
        counters: &mut SocketCounters,
    ) {
        let place = self.limit();
        let Some(stream) = self.all.get_mut(&local) else { return };
        let waited = stream.ours.waiting();
        let sizes = (self.block_bytes, usize::from(office.config.frame_bytes));
        stream.write(now, hop);
        stream.take(now, place);
        if std::mem::take(&mut stream.is_broken) {
            counters.reset += 1;
            // The other end would learn of the reset only after it has read all that is on its way.
            if stream.ours.is_flying() {
                self.given_up.push((stream.peer, Consignment { local, nonce: stream.nonces[0] }));
            }
        }
        let is_waiting = stream.push(now, hop, office.flow(local), sizes);
        // The bytes that were pushed made room for more.
        self.is_cut |= stream.take(now, place);
        stream.write(now, hop);
        self.waiting = (self.waiting + stream.ours.waiting()).saturating_sub(waited);
        let has_more =
            stream.channel.as_ref().is_some_and(Channel::is_ready) && stream.ours.waiting() < place;
        if stream.is_over() {
            stream.refuse(now, hop);
            self.remove(local);
        } else if is_waiting || has_more {
            self.todo.insert(local);
        }
    }

    /// Bytes sent and received so far.
    pub(super) fn bytes(&self) -> (u64, u64) {
        let add =
            |(sent, received), stream: &Stream| (sent + stream.sent, received + stream.received);
        self.all.values().fold(self.passed, add)
    }

    pub(super) fn status(&self, office: &Office) -> Vec<StreamStatus> {
        let status = |(id, stream): (&u32, &Stream)| StreamStatus {
            id: *id,
            peer: office.name(stream.peer),
            service: stream.service.clone(),
            state: stream.stage.name().into(),
            sent: stream.sent,
            received: stream.received,
        };
        self.all.iter().map(status).collect()
    }
}

/// What to wait on for a stream that may queue `limit` bytes. Without room for more, a hangup of
/// its program still wakes the loop.
fn source(stream: &Stream, limit: usize) -> Option<(BorrowedFd<'_>, PollFlags)> {
    let reads = stream.ours.waiting() < limit;
    let channel = stream.channel.as_ref()?;
    let (fd, mut flags) = channel.source(reads);
    flags.set(PollFlags::RDHUP, !reads && !channel.is_over());
    Some((fd, flags))
}

/// A new stream, whose first block names the service or the flow that it answers.
fn open(
    (peer, service): (NodeId, &str),
    answers: Option<u32>,
    stage: Stage,
    now: Instant,
    life: u64,
) -> Stream {
    let nonce = random().unwrap_or_default();
    let told = if answers.is_some() { "" } else { service };
    let opening = Opening { service: told.into(), answers, nonce, life, ..Opening::default() };
    let ours = Batch::new(front(FlowKind::Stream, &opening));
    let mut stream = Stream::new(peer, service, stage, ours, now);
    stream.nonces[0] = nonce;
    stream
}

/// The reason for a program whose stream was refused because nobody listens or there is no room.
pub(crate) fn nobody_takes(service: &str) -> String {
    format!("nobody takes streams for '{service}' there")
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

    use farhop_proto::base::{AddressPlan, Duration, Seed};

    use super::*;

    #[test]
    fn what_a_program_that_broke_off_has_left_waits_no_more() {
        let config = HopConfig::default();
        let mut streams = Streams::build(&config);
        let mut stream = open((NodeId(3), "web"), None, Stage::Open, Instant::ZERO, 0);
        let (socket, program) = UnixStream::pair().expect("two sockets");
        socket.set_nonblocking(true).expect("it can be");
        stream.channel = Some(Channel::new(socket, b""));
        stream.ours.write(Instant::ZERO, &vec![0; WAITING_BYTES]);
        streams.waiting = stream.ours.waiting();
        streams.all.insert(1, stream);
        assert_eq!(streams.limit(), LEAST_BYTES);
        drop(program);
        streams.set_ready(&mut std::iter::repeat(true));
        assert_eq!(streams.all[&1].ours.waiting(), 0, "nobody wants it");
        assert_eq!(streams.limit(), config.bytes_of_block() as usize);
    }

    #[test]
    fn a_program_that_has_sent_much_is_heard_in_parts_and_no_part_is_asked_for_in_vain() {
        let cases: [(usize, &[bool]); 3] =
            [(63, &[false]), (64, &[true, false]), (200, &[true, true, true, false])];
        for (records, right) in cases {
            let mut stream = open((NodeId(3), "web"), None, Stage::Open, Instant::ZERO, 0);
            let (socket, mut program) = UnixStream::pair().expect("two sockets");
            socket.set_nonblocking(true).expect("it can be");
            stream.channel = Some(Channel::new(socket, b""));
            let record = [&Kind::Data.head(1)[..], b"x"].concat();
            program.write_all(&record.repeat(records)).expect("room");
            let has_more: Vec<bool> =
                right.iter().map(|_| stream.take(Instant::ZERO, usize::MAX)).collect();
            assert_eq!((&has_more[..], stream.ours.waiting()), (right, records));
        }
    }

    #[test]
    fn of_two_runs_of_a_daemon_the_one_is_asked_for_that_was_heard_before_the_other() {
        let (rng, plan) = (Seed(1).stream("hop"), AddressPlan::default());
        let mut hop = Hop::build(HopConfig::default(), NodeId(1), plan, None, rng);
        let (office, _asked) = Office::of_test();
        let mut streams = Streams::build(&HopConfig::default());
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        // Two of the first run, one that does not say, one of the second, and one of another node.
        for (local, peer, life) in [(1, 3, 7), (2, 3, 7), (3, 3, 0), (4, 3, 9), (5, 4, 7)] {
            let heard = at(if life == 9 { 101 } else { 100 });
            let mut stream = open((NodeId(peer), "web"), None, Stage::Open, heard, 0);
            stream.life = life;
            streams.all.insert(local, stream);
        }
        let counters = &mut SocketCounters::default();
        let mut asks = |streams: &mut Streams, now| {
            streams.look_for_silent(&office, at(now), &mut hop, counters);
            streams.take_silent().into_iter().collect::<Vec<_>>()
        };
        assert_eq!(asks(&mut streams, 102), [(NodeId(3), 7)]);
        // It is there, so the other one is asked for.
        streams.on_there(at(102), NodeId(3), 7);
        assert_eq!(asks(&mut streams, 103), [(NodeId(3), 9)]);
        let counters = &mut SocketCounters::default();
        streams.on_over(at(103), &mut hop, (NodeId(3), 9), counters);
        assert_eq!(streams.all.keys().copied().collect::<Vec<_>>(), [1, 2, 3, 5]);
        assert_eq!(counters.reset, 1);
    }

    #[test]
    fn what_was_heard_of_a_node_stands_when_the_stream_ends_that_it_came_by() {
        let mut streams = Streams::build(&HopConfig::default());
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let mut insert = |local, stage, heard| {
            let stream = open((NodeId(3), "web"), None, stage, at(heard), 0);
            streams.all.insert(local, stream);
        };
        insert(1, Stage::Open, 0);
        insert(2, Stage::Open, 70);
        // Nothing was heard of its other end yet.
        insert(3, Stage::Opening, 90);
        streams.note_heard();
        assert_eq!(streams.heard[&NodeId(3)], at(70));
        streams.remove(2);
        streams.note_heard();
        assert_eq!(streams.heard[&NodeId(3)], at(70));
        streams.remove(1);
        streams.note_heard();
        assert!(streams.heard.is_empty());
    }
}
