//! Between the machine of a node and the [clerk](super::clerk): which block of which file is next,
//! and what the destination has.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use anyhow::{Context as _, Result, ensure};
use farhop_proto::base::{Instant, NodeId};
use farhop_proto::stack::NodePlan;
use farhop_proto::transport::hop::{Arrived, Hop, HopConfig, Keep, frames_of};
use farhop_proto::wire::hop::BlockId;
use ring::rand::{SecureRandom as _, SystemRandom};
use rustix::event::{EventfdFlags, eventfd};
use serde::{Deserialize, Serialize};

use super::clerk::{Clerk, Done, Task, modified_ns, whole_file};
use super::records::{FileInfo, Incoming, Outgoing, State, is_name};
use super::store::Store;

/// Files on their way from here, and files that came and were not fetched, at most.
const FILES: usize = 256;
/// Files that came and are over, of which something is kept.
const REMEMBERED: usize = 1_024;

/// What a client wants sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SendFile {
    /// Where the file is.
    pub path: PathBuf,
    /// The node that it is for.
    pub to: String,
    /// Its name there.
    pub name: String,
    /// Its length in bytes.
    pub size: u64,
    /// SHA-256 over its bytes, in hexadecimal.
    pub sha256: String,
}

/// A file that is sent from here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutgoingStatus {
    /// Number here.
    pub id: u16,
    /// Where it is.
    pub path: PathBuf,
    /// The destination.
    pub to: String,
    /// Its name there.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Bytes that the destination has.
    pub arrived: u64,
    /// How it stands.
    pub state: State,
}

/// A file that comes or came here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IncomingStatus {
    /// Name among all that came.
    pub id: String,
    /// The sender.
    pub from: String,
    /// What the file is.
    pub info: FileInfo,
    /// Bytes that are here.
    pub received: u64,
    /// How it stands.
    pub state: State,
    /// Where it is, once it is whole.
    pub path: PathBuf,
}

/// All files of a daemon.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FilesStatus {
    /// Sent from here.
    pub outgoing: Vec<OutgoingStatus>,
    /// For here.
    pub incoming: Vec<IncomingStatus>,
}

/// A file that is sent from here.
struct Trip {
    file: Outgoing,
    /// The block that is read next.
    next: u32,
    is_reading: bool,
    /// Blocks that arrived before others.
    early: BTreeSet<u32>,
}

/// The files of a daemon.
pub struct Courier {
    node: NodeId,
    names: BTreeMap<NodeId, String>,
    dir: PathBuf,
    config: HopConfig,
    tasks: Sender<Task>,
    done: Receiver<Done>,
    wake: Arc<OwnedFd>,
    trips: BTreeMap<u16, Trip>,
    incoming: BTreeMap<String, Incoming>,
    next_local: u16,
}

impl Courier {
    /// Opens what a node keeps in `dir`, and has its machine go on from there.
    ///
    /// Fails if the folder cannot be used, or another daemon uses it.
    pub fn open(dir: &Path, plan: &NodePlan, now: Instant, hop: &mut Hop) -> Result<Self> {
        let config = hop.config().clone();
        let store = Store::open(dir, &config)?;
        let incoming = store.incoming()?;
        let outgoing = store.outgoing()?;
        for file in &incoming {
            // Those that failed are refused as unknown.
            if !matches!(file.state, State::Failed(_)) {
                hop.restore_arrivals(now, file.flow(), file.opened, file.next);
            }
        }
        hop.keep_blocks();
        store.blocks()?.into_iter().for_each(|whole| hop.restore(now, whole));
        let inbox = dir.join("inbox");
        let clerk = Clerk::build(store, inbox, config.clone(), &incoming)?;
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let wake = Arc::new(wake);
        let (tasks, todo) = mpsc::channel();
        let (report, done) = mpsc::channel();
        let bell = Arc::clone(&wake);
        let thread = thread::Builder::new().name("blocks".into());
        thread.spawn(move || clerk.run(&todo, &report, &bell))?;
        let trip = |file: Outgoing| {
            (
                file.local,
                Trip { next: file.arrived, file, is_reading: false, early: BTreeSet::new() },
            )
        };
        Ok(Self {
            node: plan.node,
            names: plan.names(),
            dir: dir.into(),
            config,
            tasks,
            done,
            wake,
            trips: outgoing.into_iter().map(trip).collect(),
            incoming: incoming.into_iter().map(|file| (file.id(), file)).collect(),
            next_local: random()? as u16,
        })
    }

    /// Readable when the clerk has done something.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Whether the clerk has done something since this was last asked.
    pub fn is_called(&self) -> bool {
        rustix::io::read(self.wake.as_fd(), &mut [0; 8]).is_ok()
    }

    /// Moves blocks between the machine and the disk.
    pub fn turn(&mut self, now: Instant, hop: &mut Hop) {
        while let Ok(done) = self.done.try_recv() {
            self.on_done(now, hop, done);
        }
        while let Some(arrived) = hop.poll_arrived() {
            self.on_arrived(hop, arrived);
        }
        while let Some(delivery) = hop.poll_delivery() {
            self.ask(Task::Deliver(delivery));
        }
        while let Some(keep) = hop.poll_keep() {
            self.ask(match keep {
                Keep::Put(whole) => Task::Keep(whole),
                Keep::Drop(id) => Task::Drop(id),
            });
        }
        let node = self.node;
        let mut tasks = Vec::new();
        for trip in self.trips.values_mut() {
            let is_moving = trip.file.state == State::Moving;
            if is_moving
                && !trip.is_reading
                && hop.has_room(trip.file.flow(node))
                && let Some(part) = trip.file.part(trip.next)
            {
                trip.is_reading = true;
                tasks.push(Task::Read(Box::new(trip.file.clone()), trip.next, part));
                trip.next += 1;
            }
        }
        tasks.into_iter().for_each(|task| self.ask(task));
    }

    fn ask(&self, task: Task) {
        self.tasks.send(task).expect("the clerk ends after this");
    }

    fn on_done(&mut self, now: Instant, hop: &mut Hop, done: Done) {
        match done {
            Done::Kept(id) => hop.handle_kept(id),
            Done::NotKept(id) => hop.handle_not_kept(id),
            Done::Accepted(id, file) => {
                self.incoming.insert(file.id(), file);
                hop.accept(now, id);
            }
            Done::Refused(id) => hop.refuse(now, id),
            Done::Stands(file) => {
                self.incoming.insert(file.id(), file);
                self.forget_old();
            }
            Done::Read(local, number, bytes, is_last) => {
                let Some(trip) = self.trips.get_mut(&local) else { return };
                trip.is_reading = false;
                let flow = trip.file.flow(self.node);
                let frames = frames_of(&bytes, usize::from(self.config.frame_bytes));
                hop.push(now, BlockId { flow, number }, trip.file.to, is_last, frames);
            }
            Done::Unreadable(local, why) => self.fail(hop, local, why),
        }
    }

    fn fail(&mut self, hop: &mut Hop, local: u16, why: String) {
        let Some(trip) = self.trips.get_mut(&local) else { return };
        tracing::warn!(path = %trip.file.path.display(), "not sent: {why}");
        trip.file.state = State::Failed(why);
        trip.is_reading = false;
        hop.abandon(trip.file.flow(self.node));
        let file = Box::new(trip.file.clone());
        self.ask(Task::Note(file));
    }

    fn on_arrived(&mut self, hop: &mut Hop, arrived: Arrived) {
        let (local, number) = (arrived.id.flow.local, arrived.id.number);
        let Some(trip) = self.trips.get_mut(&local) else { return };
        if trip.file.state != State::Moving {
            return;
        }
        if arrived.is_refused {
            let why = format!("{} does not take it; its log says why", trip.file.to_name);
            return self.fail(hop, local, why);
        }
        trip.early.insert(number);
        while trip.early.remove(&trip.file.arrived) {
            trip.file.arrived += 1;
        }
        if trip.file.part(trip.file.arrived).is_none() {
            trip.file.state = State::Done;
        }
        let file = Box::new(trip.file.clone());
        self.ask(Task::Note(file));
    }

    /// Takes a file to be sent; returns its number here.
    ///
    /// Fails if there is no such node or file, or too many are on their way.
    pub fn send(&mut self, wanted: SendFile) -> Result<u16> {
        let SendFile { path, to, name, size, sha256 } = wanted;
        let known = self.names.iter().find(|(_, known)| **known == to);
        let node = *known
            .with_context(|| {
                let names: Vec<_> = self.names.values().map(String::as_str).collect();
                format!("no node '{to}' in the scenario; it has {}", names.join(", "))
            })?
            .0;
        ensure!(node != self.node, "'{to}' is this node");
        ensure!(is_name(&name), "'{name}' is no name for a file; give another one behind {to}:");
        ensure!(path.is_absolute(), "{} is not a full path", path.display());
        let file = File::open(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let metadata = file.metadata()?;
        ensure!(metadata.len() == size, "{} was changed", path.display());
        if self.trips.len() >= FILES {
            let is_over = |trip: &Trip| trip.file.state != State::Moving;
            let over = self.trips.iter().find(|(_, trip)| is_over(trip)).map(|(local, _)| *local);
            let over = over.with_context(|| format!("{FILES} files are on their way already"))?;
            self.trips.remove(&over);
            self.ask(Task::Forget(over));
        }
        while self.trips.contains_key(&self.next_local) {
            self.next_local = self.next_local.wrapping_add(1);
        }
        let local = self.next_local;
        self.next_local = local.wrapping_add(1);
        let nonce = random()?;
        let file = Outgoing {
            local,
            path,
            modified_ns: modified_ns(&metadata),
            info: FileInfo { name, size, sha256, nonce },
            to: node,
            to_name: to,
            block_bytes: self.config.block_bytes,
            arrived: 0,
            state: State::Moving,
        };
        self.ask(Task::Note(Box::new(file.clone())));
        let trip = Trip { file, next: 0, is_reading: false, early: BTreeSet::new() };
        self.trips.insert(local, trip);
        Ok(local)
    }

    /// Gives up a file that is sent from here.
    ///
    /// Fails if there is none of that number under way.
    pub fn cancel(&mut self, hop: &mut Hop, id: u16) -> Result<()> {
        let is_moving = |trip: &Trip| trip.file.state == State::Moving;
        ensure!(self.trips.get(&id).is_some_and(is_moving), "no file {id} is on its way");
        self.fail(hop, id, "it was cancelled".into());
        Ok(())
    }

    /// A file that came was fetched: its bytes are not needed here any more.
    ///
    /// Fails if there is none of that name.
    pub fn fetched(&mut self, id: &str) -> Result<()> {
        let file = self.incoming.get_mut(id).filter(|file| file.state == State::Done);
        let file = file.with_context(|| format!("no file {id} waits here"))?;
        file.state = State::Fetched;
        let file = Box::new(file.clone());
        self.ask(Task::Fetched(file));
        self.forget_old();
        Ok(())
    }

    /// Of files that are over something is kept, so that their senders can be told again.
    fn forget_old(&mut self) {
        let is_over = |file: &Incoming| matches!(file.state, State::Fetched | State::Failed(_));
        let over: Vec<String> =
            self.incoming.values().filter(|f| is_over(f)).map(Incoming::id).collect();
        for id in over.into_iter().skip(REMEMBERED) {
            self.incoming.remove(&id);
            self.ask(Task::ForgetIncoming(id));
        }
    }

    /// All files.
    pub fn status(&self) -> FilesStatus {
        let name = |node: NodeId| {
            self.names.get(&node).cloned().unwrap_or_else(|| format!("node {}", node.0))
        };
        let outgoing = self.trips.values().map(|Trip { file, .. }| OutgoingStatus {
            id: file.local,
            path: file.path.clone(),
            to: file.to_name.clone(),
            name: file.info.name.clone(),
            size: file.info.size,
            arrived: file.arrived_bytes(),
            state: file.state.clone(),
        });
        let is_listed = |file: &&Incoming| file.state != State::Fetched;
        let incoming = self.incoming.values().filter(is_listed).map(|file| IncomingStatus {
            id: file.id(),
            from: name(file.source),
            info: file.info.clone(),
            received: file.received,
            state: file.state.clone(),
            path: whole_file(&self.dir.join("inbox"), &file.id()),
        });
        FilesStatus { outgoing: outgoing.collect(), incoming: incoming.collect() }
    }

    /// Where blocks and files are kept.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether something is to be read for the machine as soon as it has room.
    pub fn has_outgoing(&self) -> bool {
        self.trips.values().any(|trip| trip.file.state == State::Moving && !trip.is_reading)
    }
}

/// A number that nobody can foresee.
fn random() -> Result<u64> {
    let mut bytes = [0; 8];
    let drawn = SystemRandom::new().fill(&mut bytes);
    ensure!(drawn.is_ok(), "the system has no random numbers");
    Ok(u64::from_ne_bytes(bytes))
}
