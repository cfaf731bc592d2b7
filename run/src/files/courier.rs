//! The courier: decides which block of which file is sent next, and tracks what has arrived.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use bytes::Bytes;
use farhop_proto::base::{Duration, Instant, NodeId};
use farhop_proto::transport::hop::{Arrived, Hop, frames_of};
use farhop_proto::wire::hop::{BlockId, FlowKey, Refusal};

use super::records::{FileInfo, Incoming, Outgoing, State, is_sum, wrong_name};
use super::status::{FilesStatus, IncomingStatus, OutgoingStatus, SendFile};
use crate::blocks::{
    Coming, Consignment, Office, Task, inbox_folder, modified_ns, open_file, random, whole_file,
};

/// Most files from here that are on the list; the oldest finished one makes room for a new one.
const FILES: usize = 256;
/// Most records of files that arrived and are finished.
const REMEMBERED: usize = 1_024;
/// Time after which a block that could not be read is tried again.
const AGAIN: Duration = Duration::from_secs(10);

/// A file that is sent from here.
struct Trip {
    file: Outgoing,
    /// Number of the block that is read next.
    next: u32,
    is_reading: bool,
    /// When to read again, if the block could not be read.
    due: Option<Instant>,
    /// Whether the file is recorded on disk.
    is_kept: bool,
    /// Blocks that arrived before an earlier one.
    early: BTreeSet<u32>,
}

impl Trip {
    /// Whether its next block can be read now.
    fn is_ready(&self, now: Instant) -> bool {
        let is_due = self.due.is_none_or(|due| due <= now);
        self.file.state == State::Moving && !self.is_reading && is_due
    }

    /// Approximate number of bytes, after those that arrived, that are on their way or arrived
    /// before earlier ones.
    fn under_way(&self, office: &Office, hop: &Hop) -> u64 {
        let Self { file, early, .. } = self;
        let early = early.iter().filter_map(|number| file.part(*number));
        let early: u64 = early.map(|part| part.length).sum();
        let bytes = early + hop.under_way(file.flow(office.node));
        bytes.min(file.info.size - file.arrived_bytes())
    }
}

/// The reason for the sender of a file that its destination refused.
fn why_refused(to: &str, refusal: Refusal) -> String {
    match refusal {
        Refusal::Unsaid | Refusal::Unusable => {
            format!("{to} does not take it: its log says why")
        }
        Refusal::Unknown => format!("{to} has lost what came of it: send it again"),
        Refusal::Full => {
            format!("{to} has no place for it beside what waits or is on its way there")
        }
        Refusal::Unwanted => format!("{to} does not take it: nobody there wants it"),
        Refusal::LetGo => format!("{to} does not take it: it was dropped there"),
    }
}

/// When a file of this size was last changed, for programs that do not say.
fn look_at(path: &Path, size: u64) -> Result<u64> {
    let opened = open_file(path);
    let (_, metadata) = opened.with_context(|| format!("cannot read {}", path.display()))?;
    let changed = || format!("{} was changed while its checksum was computed", path.display());
    ensure!(metadata.len() == size, changed());
    Ok(modified_ns(&metadata))
}

/// Whether a file that arrived is finished: no bytes of it are here any more.
fn is_past(file: &&Incoming) -> bool {
    matches!(file.state, State::Fetched | State::Failed(_))
}

/// The files of a daemon.
pub(crate) struct Courier {
    trips: BTreeMap<u32, Trip>,
    /// How many files were sent from here so far.
    sent: u64,
    /// The file of which a block was last read; the next one in the order has its turn first.
    latest: u32,
    /// Finished files, in the order in which they finished; those from before this daemon started
    /// come first, in the order in which they were sent.
    over: VecDeque<u32>,
    incoming: BTreeMap<String, Incoming>,
    /// Finished files, in the order in which they finished; some may be forgotten already.
    incoming_over: VecDeque<String>,
    /// Files that were fetched, until that is recorded on disk.
    fetched: BTreeSet<String>,
}

impl Courier {
    /// Continues with these files.
    pub(crate) fn build(outgoing: Vec<Outgoing>, incoming: Vec<Incoming>) -> Self {
        let trip = |file: Outgoing| {
            let (is_reading, due, is_kept, early) = (false, None, true, BTreeSet::new());
            (file.local, Trip { next: file.arrived, file, is_reading, due, is_kept, early })
        };
        let is_over = |file: &&Outgoing| file.state != State::Moving;
        let mut outgoing = outgoing;
        // The numbers of files do not tell their age.
        outgoing.sort_by_key(Outgoing::age);
        Self {
            sent: outgoing.last().map_or(0, |file| file.before + 1),
            over: outgoing.iter().filter(is_over).map(|file| file.local).collect(),
            trips: outgoing.into_iter().map(trip).collect(),
            latest: 0,
            incoming_over: incoming.iter().filter(is_past).map(Incoming::id).collect(),
            incoming: incoming.into_iter().map(|file| (file.id(), file)).collect(),
            fetched: BTreeSet::new(),
        }
    }

    /// Asks the clerk to read the blocks for which the machine has room.
    pub(crate) fn turn(&mut self, office: &Office, now: Instant, hop: &mut Hop) {
        let mut trips: Vec<&mut Trip> = self.trips.values_mut().collect();
        let next = trips.partition_point(|trip| trip.file.local <= self.latest);
        trips.rotate_left(next);
        for trip in trips {
            // From now on it waits for room, which no timer brings.
            trip.due = trip.due.filter(|due| *due > now);
            if trip.is_ready(now)
                && let Some(part) = trip.file.part(trip.next)
                && hop.reserve(now, trip.file.flow(office.node), part.bytes())
            {
                self.latest = trip.file.local;
                trip.is_reading = true;
                office.ask(Task::Read(Box::new(trip.file.clone()), trip.next, part));
                trip.next += 1;
            }
        }
    }

    /// Whether this is the number of a file from here.
    pub(crate) fn has(&self, local: u32) -> bool {
        self.trips.contains_key(&local)
    }

    /// Notes the present state of a file that arrives here.
    pub(crate) fn on_stands(&mut self, office: &Office, file: Incoming) {
        if is_past(&&file) {
            self.incoming_over.push_back(file.id());
        }
        self.incoming.insert(file.id(), file);
        self.forget_old(office);
    }

    /// The state of a file that is sent from here was recorded.
    pub(crate) fn on_noted(&mut self, local: u32) {
        if let Some(trip) = self.trips.get_mut(&local) {
            trip.is_kept = true;
        }
    }

    /// The state could not be recorded. If the file itself is recorded it continues, and would only
    /// repeat more blocks after a crash.
    pub(crate) fn on_not_noted(&mut self, office: &Office, hop: &mut Hop, local: u32) {
        if self.trips.get(&local).is_some_and(|trip| !trip.is_kept) {
            let why = "the daemon here cannot keep it; its status says why";
            self.fail(office, hop, local, why.to_owned());
        }
    }

    /// A block of a file that is sent from here was read.
    pub(crate) fn on_read(
        &mut self,
        office: &Office,
        now: Instant,
        hop: &mut Hop,
        (local, number): (u32, u32),
        (bytes, is_last): (Bytes, bool),
    ) {
        let Some(trip) = self.trips.get_mut(&local) else { return };
        trip.is_reading = false;
        if trip.file.state != State::Moving {
            return;
        }
        let flow = trip.file.flow(office.node);
        let frames = frames_of(&bytes, usize::from(office.config.frame_bytes));
        hop.push(now, BlockId { flow, number }, trip.file.to, is_last, frames);
    }

    /// The block could not be read, and is tried again later. Until then its memory is free for
    /// others.
    pub(crate) fn on_not_read(
        &mut self,
        office: &Office,
        now: Instant,
        hop: &mut Hop,
        (local, number): (u32, u32),
    ) {
        let Some(trip) = self.trips.get_mut(&local) else { return };
        (trip.is_reading, trip.next, trip.due) = (false, number, Some(now + AGAIN));
        hop.release(trip.file.flow(office.node));
    }

    /// Ends a file that is sent from here, with this reason.
    fn fail(&mut self, office: &Office, hop: &mut Hop, local: u32, why: String) {
        let is_moving = |trip: &&mut Trip| trip.file.state == State::Moving;
        let Some(trip) = self.trips.get_mut(&local).filter(is_moving) else { return };
        self.over.push_back(local);
        tracing::warn!(path = %trip.file.path.display(), "not sent: {why}");
        trip.file.state = State::Failed(why);
        trip.is_reading = false;
        hop.abandon(trip.file.flow(office.node));
        let file = Box::new(trip.file.clone());
        office.ask(Task::Note(file));
    }

    /// The destination has a block of a file, or refuses the file. A refusing destination is also
    /// told that the file is given up, as it may have lost what it had, and could begin anew with
    /// blocks that a relay still has.
    pub(crate) fn on_arrived(
        &mut self,
        office: &Office,
        hop: &mut Hop,
        arrived: Arrived,
    ) -> Option<(NodeId, Consignment)> {
        let (local, number) = (arrived.id.flow.local, arrived.id.number);
        let trip = self.trips.get_mut(&local)?;
        if trip.file.state != State::Moving {
            return None;
        }
        if let Some(refusal) = arrived.refusal {
            let why = why_refused(&trip.file.to_name, refusal);
            return self.give_up(office, hop, local, why);
        }
        trip.early.insert(number);
        while trip.early.remove(&trip.file.arrived) {
            trip.file.arrived += 1;
        }
        if trip.file.part(trip.file.arrived).is_none() {
            trip.file.state = State::Done;
            self.over.push_back(local);
        }
        let file = Box::new(trip.file.clone());
        office.ask(Task::Note(file));
        None
    }

    /// Starts to send a file, with a free number for its flow.
    ///
    /// Fails if there is no such node or file, or too many files are being sent.
    pub(crate) fn send(&mut self, office: &Office, local: u32, wanted: SendFile) -> Result<()> {
        let SendFile { path, to, name, size, sha256, modified_ns: before } = wanted;
        let node = office.node_of(&to)?;
        if let Some(wrong) = wrong_name(&name) {
            bail!("{wrong}; give another one behind {to}:");
        }
        ensure!(path.is_absolute(), "{} is not a full path", path.display());
        // Whether it is still that file is seen with each block, by the clerk: a file server that
        // is away would stop the loop here.
        let modified_ns = before.map_or_else(|| look_at(&path, size), Ok)?;
        ensure!(is_sum(&sha256), "a SHA-256 has 64 hexadecimal digits");
        if self.trips.len() >= FILES {
            let over = self.over.pop_front();
            let over = over.with_context(|| {
                format!(
                    "{FILES} files are on their way already: wait for some of them, or give some \
                     up with `farhop send --cancel`"
                )
            })?;
            self.trips.remove(&over);
            office.ask(Task::Forget(over));
        }
        let nonce = random()?;
        let file = Outgoing {
            local,
            before: self.sent,
            path,
            modified_ns,
            info: FileInfo { name, size, sha256, nonce, streamed: false },
            to: node,
            to_name: to,
            block_bytes: office.config.bytes_of_block(),
            arrived: 0,
            state: State::Moving,
        };
        office.ask(Task::Note(Box::new(file.clone())));
        let (is_reading, due, is_kept, early) = (false, None, false, BTreeSet::new());
        let trip = Trip { file, next: 0, is_reading, due, is_kept, early };
        self.trips.insert(local, trip);
        self.sent += 1;
        Ok(())
    }

    /// Gives up a file that is sent from here; returns its destination, and its name in notices.
    ///
    /// Fails if no file with this number is being sent.
    pub(crate) fn cancel(
        &mut self,
        office: &Office,
        hop: &mut Hop,
        id: u32,
    ) -> Result<(NodeId, Consignment)> {
        if let Some(given_up) = self.give_up(office, hop, id, "it was cancelled".into()) {
            return Ok(given_up);
        }
        ensure!(self.has(id), "no file {id} is on its way");
        bail!("file {id} is over; `farhop cache drop {id}` takes it out of the list")
    }

    /// Forgets a file that was sent from here and is finished.
    ///
    /// Fails if there is none with this number, or it is still being sent.
    fn forget_sent(&mut self, office: &Office, id: u32) -> Result<()> {
        let trip = self
            .trips
            .get(&id)
            .with_context(|| format!("no file {id} that is over was sent from here"))?;
        let is_over = trip.file.state != State::Moving;
        ensure!(is_over, "file {id} is on its way; `farhop send --cancel {id}` gives it up");
        self.trips.remove(&id);
        self.over.retain(|over| *over != id);
        office.ask(Task::Forget(id));
        Ok(())
    }

    /// Gives up a file with this reason; `None` if no file with this number is being sent.
    pub(crate) fn give_up(
        &mut self,
        office: &Office,
        hop: &mut Hop,
        id: u32,
        why: String,
    ) -> Option<(NodeId, Consignment)> {
        let moving = self.trips.get(&id).filter(|trip| trip.file.state == State::Moving);
        let file = &moving?.file;
        let what = (file.to, Consignment { local: id, nonce: file.info.nonce });
        self.fail(office, hop, id, why);
        Some(what)
    }

    /// Whether this file is, or was, sent from here, and not given up.
    pub(crate) fn sends(&self, what: Consignment) -> bool {
        let is_it = |file: &Outgoing| {
            file.info.nonce == what.nonce && !matches!(file.state, State::Failed(_))
        };
        self.trips.get(&what.local).is_some_and(|trip| is_it(&trip.file))
    }

    /// The files that are arriving here.
    pub(crate) fn coming(&self) -> impl Iterator<Item = Coming> {
        let moving = self.incoming.values().filter(|file| file.state == State::Moving);
        moving.map(|file| Coming { flow: file.flow(), nonce: file.info.nonce, next: file.next })
    }

    /// The flow of this file, if it is arriving here from that node.
    pub(crate) fn flow_of(&self, source: NodeId, what: Consignment) -> Option<FlowKey> {
        let is_it = |file: &&Incoming| {
            let is_moving = file.state == State::Moving && file.source == source;
            is_moving && (file.local, file.info.nonce) == (what.local, what.nonce)
        };
        self.incoming.values().find(is_it).map(Incoming::flow)
    }

    /// Drops a file that arrived here, the record of one that failed, or, given by its number, the
    /// record of one that was sent from here and is finished. A file that is still arriving is left
    /// to the caller, who gets its flow.
    ///
    /// Fails if there is no file with this id, or it is still being sent from here.
    pub(crate) fn drop_file(&mut self, office: &Office, id: &str) -> Result<Option<FlowKey>> {
        if let Ok(local) = id.parse() {
            return self.forget_sent(office, local).map(|()| None);
        }
        match self.incoming.get(id).map(|file| (&file.state, file.flow())) {
            Some((State::Moving, flow)) => return Ok(Some(flow)),
            Some((State::Failed(_), _)) => {
                let file = self.incoming.remove(id);
                file.into_iter().for_each(|file| office.ask(Task::ForgetIncoming(Box::new(file))));
            }
            Some((State::Done, _)) => _ = self.fetched(office, id)?,
            Some((State::Fetched, _)) | None => bail!("no file {id} comes or waits here"),
        }
        Ok(None)
    }

    /// Notes that a file was fetched: its bytes can be deleted. Returns whether this is recorded on
    /// disk. Until it is, the call must be repeated: a daemon that ended before would give the file
    /// once more.
    ///
    /// Fails if there is no file with this id.
    pub(crate) fn fetched(&mut self, office: &Office, id: &str) -> Result<bool> {
        let is_it = |file: &&mut Incoming| matches!(file.state, State::Done | State::Fetched);
        let file = self.incoming.get_mut(id).filter(is_it);
        let file = file.with_context(|| format!("no file {id} waits here"))?;
        if file.state == State::Done {
            file.state = State::Fetched;
            self.fetched.insert(id.to_owned());
            office.ask(Task::Fetched(Box::new(file.clone())));
        }
        Ok(!self.fetched.contains(id))
    }

    /// The record that a file was fetched is on disk.
    pub(crate) fn on_let_go(&mut self, office: &Office, id: String) {
        if self.fetched.remove(&id) {
            self.incoming_over.push_back(id);
            self.forget_old(office);
        }
    }

    /// Some finished files are remembered, so that their senders can be answered again.
    fn forget_old(&mut self, office: &Office) {
        while self.incoming_over.len() > REMEMBERED
            && let Some(id) = self.incoming_over.pop_front()
        {
            if self.incoming.get(&id).as_ref().is_some_and(is_past)
                && let Some(file) = self.incoming.remove(&id)
            {
                office.ask(Task::ForgetIncoming(Box::new(file)));
            }
        }
    }

    /// All files.
    pub(crate) fn status(&self, office: &Office, hop: &Hop) -> FilesStatus {
        let mut trips: Vec<&Trip> = self.trips.values().collect();
        trips.sort_by_key(|trip| trip.file.age());
        let outgoing = trips.into_iter().map(|trip @ Trip { file, .. }| OutgoingStatus {
            streamed: false,
            is_kept: trip.is_kept,
            under_way: trip.under_way(office, hop),
            id: file.local,
            path: file.path.clone(),
            to: file.to_name.clone(),
            name: file.info.name.clone(),
            size: file.info.size,
            arrived: file.arrived_bytes(),
            state: file.state.clone(),
        });
        // Until it is recorded that a file was fetched, it may have to be given once more.
        let is_listed =
            |file: &&Incoming| file.state != State::Fetched || self.fetched.contains(&file.id());
        let inbox = inbox_folder(&office.dir, office.config.durable);
        let incoming = self.incoming.values().filter(is_listed).map(|file| IncomingStatus {
            id: file.id(),
            from: match &*file.from {
                "" => office.name(file.source),
                from => from.to_owned(),
            },
            info: file.info.clone(),
            received: file.received,
            state: file.state.clone(),
            path: whole_file(&inbox, &file.id()),
        });
        let (outgoing, incoming) = (outgoing.collect(), incoming.collect());
        FilesStatus { node: office.node.0, outgoing, incoming }
    }

    /// Whether a block is to be read as soon as the machine has room.
    pub(crate) fn has_outgoing(&self, now: Instant) -> bool {
        self.trips.values().any(|trip| trip.is_ready(now))
    }

    /// When a block that could not be read is tried again.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let moving = self.trips.values().filter(|trip| trip.file.state == State::Moving);
        moving.filter_map(|trip| trip.due).min()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use farhop_proto::base::{AddressPlan, Seed};
    use farhop_proto::transport::hop::HopConfig;

    use super::*;

    /// A file of 9 bytes that arrived.
    fn incoming() -> Incoming {
        let (source, local, opened) = (NodeId(3), 7, 1);
        let (name, sha256, from) = ("map.png".into(), "ab".into(), String::new());
        let info = FileInfo { name, size: 9, sha256, nonce: 1, streamed: false };
        let (received, next, state) = (9, 1, State::Done);
        Incoming { source, from, local, opened, info, received, next, state }
    }

    /// A file of 5 MB that is sent from here.
    fn outgoing(local: u32, before: u64, state: State) -> Outgoing {
        Outgoing {
            local,
            before,
            path: "/map.png".into(),
            modified_ns: 0,
            info: FileInfo { size: 5_000_000, ..incoming().info },
            to: NodeId(3),
            to_name: "valley".into(),
            block_bytes: 100_000,
            arrived: 0,
            state,
        }
    }

    /// A file of 9 bytes to be sent to `valley`.
    fn wanted(path: PathBuf, name: &str) -> SendFile {
        let (to, name, sha256) = ("valley".into(), name.into(), "ab".repeat(32));
        SendFile { path, to, name, size: 9, sha256, modified_ns: None }
    }

    fn hop(config: HopConfig) -> Hop {
        let rng = Seed(1).stream("courier");
        Hop::build(config, NodeId(1), AddressPlan::default(), None, rng)
    }

    #[test]
    fn while_a_block_cannot_be_read_its_memory_is_for_others() {
        let (mut office, asked) = Office::of_test();
        let most = u64::from(office.config.bytes_of_block()) * 5 / 2;
        office.config = HopConfig { memory_bytes: most, ..office.config };
        let mut hop = hop(office.config.clone());
        // The first block is short.
        let file = |local| Outgoing {
            block_bytes: office.config.bytes_of_block(),
            arrived: 1,
            ..outgoing(local, 0, State::Moving)
        };
        let mut courier = Courier::build(vec![file(1), file(2)], Vec::new());
        let turn = |courier: &mut Courier, hop: &mut Hop, now| {
            courier.turn(&office, now, hop);
            let read = |task| match task {
                Task::Read(file, number, _) => Some((file.local, number)),
                _ => None,
            };
            asked.try_iter().filter_map(read).collect::<Vec<_>>()
        };
        let (start, later) = (Instant::ZERO, Instant::ZERO + AGAIN);
        assert_eq!(turn(&mut courier, &mut hop, start), [(1, 1)], "there is memory for one");
        courier.on_not_read(&office, start, &mut hop, (1, 1));
        assert_eq!(turn(&mut courier, &mut hop, start), [(2, 1)]);
        courier.on_not_read(&office, start, &mut hop, (2, 1));
        assert!(turn(&mut courier, &mut hop, start).is_empty() && !courier.has_outgoing(start));
        assert_eq!(courier.poll_timeout(), Some(later));
        assert_eq!(turn(&mut courier, &mut hop, later), [(1, 1)]);
    }

    #[test]
    fn files_are_listed_and_forgotten_by_their_age_whatever_their_numbers() {
        let (mut office, asked) = Office::of_test();
        office.names.insert(NodeId(3), "valley".into());
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("map.png");
        std::fs::write(&path, b"all of it").expect("a file");
        let files = (0..FILES as u32).map(|at| outgoing(1_000 - at, at.into(), State::Done));
        let mut courier = Courier::build(files.rev().collect(), Vec::new());
        courier.send(&office, 7, wanted(path, "map.png")).expect("the oldest makes room");
        let forgotten = |task| match task {
            Task::Forget(local) => Some(local),
            _ => None,
        };
        assert_eq!(asked.try_iter().find_map(forgotten), Some(1_000));
        let listed = courier.status(&office, &hop(office.config.clone())).outgoing;
        let numbers: Vec<u32> = listed.iter().map(|file| file.id).collect();
        let right = (1..FILES as u32).map(|at| 1_000 - at).chain([7]);
        assert_eq!(numbers, right.collect::<Vec<_>>());
    }

    #[test]
    fn a_file_that_is_over_can_be_taken_out_of_the_list_and_one_on_its_way_not() {
        let (office, asked) = Office::of_test();
        let mut hop = hop(office.config.clone());
        let failed = State::Failed("it was cancelled".into());
        let files = vec![outgoing(7, 0, failed), outgoing(8, 1, State::Moving)];
        let mut courier = Courier::build(files, Vec::new());
        let said = courier.cancel(&office, &mut hop, 7).expect_err("it is over").to_string();
        assert!(said.contains("`farhop cache drop 7`"), "{said}");
        let mut said = |id| courier.drop_file(&office, id).err().map(|error| error.to_string());
        assert_eq!(said("7"), None);
        assert_eq!(said("7"), Some("no file 7 that is over was sent from here".into()));
        assert!(said("8").is_some_and(|why| why.contains("`farhop send --cancel 8`")));
        assert!(matches!(asked.try_iter().collect::<Vec<_>>()[..], [Task::Forget(7)]));
        let left = courier.status(&office, &hop).outgoing;
        assert_eq!(left.iter().map(|file| file.id).collect::<Vec<_>>(), [8]);
    }

    #[test]
    fn whoever_refuses_a_file_is_told_once_that_it_is_given_up() {
        let (office, _asked) = Office::of_test();
        let mut hop = hop(office.config.clone());
        let mut courier = Courier::build(vec![outgoing(7, 0, State::Moving)], Vec::new());
        let id = BlockId { flow: office.flow(7), number: 3 };
        let mut on = |refusal| {
            let arrived = Arrived { id, bytes: 0, refusal };
            courier.on_arrived(&office, &mut hop, arrived)
        };
        assert!(on(None).is_none(), "it takes a block");
        let (to, what) = on(Some(Refusal::LetGo)).expect("a notice");
        assert_eq!((to, what.local, what.nonce), (NodeId(3), 7, 1));
        assert!(on(Some(Refusal::Unknown)).is_none(), "it is over");
        let state = &courier.status(&office, &hop).outgoing[0].state;
        let State::Failed(why) = state else { panic!("{state:?}") };
        assert!(why.ends_with(" does not take it: it was dropped there"), "{why}");
    }

    #[test]
    fn a_name_that_is_none_is_refused_with_what_names_may_be() {
        let (mut office, _asked) = Office::of_test();
        office.names.insert(NodeId(3), "valley".into());
        let mut courier = Courier::build(Vec::new(), Vec::new());
        let wanted = wanted("/map.png".into(), ".map");
        let refused = courier.send(&office, 1, wanted).expect_err("it is hidden").to_string();
        let right = "'.map' is no name for a file: a name has 1 to 255 bytes, no '/', no control \
                     character, none that turns the direction of writing, and no leading dot; \
                     give another one behind valley:";
        assert_eq!(refused, right);
    }

    #[test]
    fn a_file_is_fetched_once_that_is_written_down() {
        let (office, asked) = Office::of_test();
        let (mut courier, id) = (Courier::build(Vec::new(), vec![incoming()]), incoming().id());
        let fetched = |courier: &mut Courier| courier.fetched(&office, &id).ok();
        let hop = hop(office.config.clone());
        let states = |courier: &Courier| -> Vec<State> {
            let incoming = courier.status(&office, &hop).incoming;
            incoming.into_iter().map(|file| file.state).collect()
        };
        assert_eq!(fetched(&mut courier), Some(false));
        // Another process that fetches must see it: after a crash the file waits again.
        assert_eq!(states(&courier), [State::Fetched]);
        assert_eq!(fetched(&mut courier), Some(false));
        assert_eq!(asked.try_iter().count(), 1);
        courier.on_let_go(&office, id.clone());
        assert_eq!(states(&courier), []);
        assert_eq!(fetched(&mut courier), Some(true));
        assert!(courier.drop_file(&office, &id).is_err());
        assert_eq!(asked.try_iter().count(), 0);
    }
}
