//! The thread that reads and writes: the loop of a daemon must not wait for a disk.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::UNIX_EPOCH;

use anyhow::{Context as _, Result, bail, ensure};
use bytes::Bytes;
use farhop_proto::transport::hop::{Delivery, Durable, HopConfig, Whole};
use farhop_proto::wire::hop::{BlockId, FlowKey};
use ring::digest::{Context as Digest, SHA256};

use super::store::{Change, Store};
use crate::files::{FileInfo, Incoming, Outgoing, Part, State};
use crate::sockets::{Receiving, Sending};

/// Bytes read at once where a file is gone through.
const CHUNK: usize = 1 << 18;
/// Files that come, or came and were not fetched, at most.
const FILES: usize = 4_096;
/// Tasks of which the changes are written together.
const TOGETHER: usize = 64;

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Task {
    /// Keep a block.
    Keep(Whole),
    /// Keep it no longer.
    Drop(BlockId),
    /// Read it.
    Get(BlockId),
    /// Take a block of a file that comes here.
    Deliver(Delivery),
    /// Read a block of a file that is sent from here.
    Read(Box<Outgoing>, u32, Part),
    /// Write down how a file stands that is sent from here.
    Note(Box<Outgoing>),
    /// Forget a file that was sent from here.
    Forget(u16),
    /// Let go of the bytes of a file that came here.
    Fetched(Box<Incoming>),
    /// Forget a file that came here.
    ForgetIncoming(String),
    /// A file that comes here was given up by its sender.
    GiveUp(FlowKey),
    /// Keep a block that a program here sends.
    Hold(Box<(Whole, Sending)>),
    /// One of them has arrived, or is given up.
    Sent(BlockId, Box<Sending>),
    /// Forget blocks that were sent from here.
    ForgetSending(u16),
    /// Keep a block for a program here.
    Letter(Box<(Delivery, Receiving)>),
    /// Read one of them.
    Fetch(BlockId),
    /// A program has one of them.
    Confirm(BlockId, Box<Receiving>),
    /// Forget blocks for a program here.
    ForgetReceiving(Box<Receiving>),
}

/// What was done.
#[derive(Debug)]
pub(crate) enum Done {
    /// A block is kept.
    Kept(BlockId),
    /// It cannot be.
    NotKept(BlockId),
    /// A block that is kept was read, if it could be.
    Got(BlockId, Option<Whole>),
    /// A block of a file that comes here is safe.
    Accepted(BlockId, Incoming),
    /// The file cannot be taken.
    Refused(BlockId),
    /// A file that came here, as it stands now.
    Stands(Incoming),
    /// A block of a file that is sent from here.
    Read(u16, u32, Bytes, bool),
    /// It cannot be read, and why.
    Unreadable(u16, String),
    /// A block that a program here sends is kept.
    Held(Whole),
    /// It cannot be, with the number of its flow.
    NotHeld(u16),
    /// A block for a program here is kept.
    Letter(BlockId),
    /// It cannot be.
    NoLetter(BlockId),
    /// It was read.
    Fetched(BlockId, Option<Bytes>),
}

/// The thread's own things.
pub(super) struct Clerk {
    store: Store,
    inbox: PathBuf,
    config: HopConfig,
    incoming: BTreeMap<FlowKey, Incoming>,
    /// Sums over what is here of files that come.
    digests: BTreeMap<FlowKey, Digest>,
    /// Bytes of all files in the inbox that are whole.
    waiting: BTreeMap<String, u64>,
}

impl Clerk {
    pub(super) fn build(
        store: Store,
        inbox: PathBuf,
        config: HopConfig,
        all: &[Incoming],
    ) -> Result<Self> {
        fs::create_dir_all(&inbox)?;
        let moving = all.iter().filter(|file| file.state == State::Moving);
        let incoming = moving.map(|file| (file.flow(), file.clone())).collect();
        let done = all.iter().filter(|file| file.state == State::Done);
        let waiting = done.map(|file| (file.id(), file.info.size)).collect();
        Ok(Self { store, inbox, config, incoming, digests: BTreeMap::new(), waiting })
    }

    /// Does tasks until nobody can give any more.
    pub(super) fn run(mut self, tasks: &Receiver<Task>, done: &Sender<Done>, wake: &Arc<OwnedFd>) {
        while let Ok(first) = tasks.recv() {
            let more = std::iter::from_fn(|| tasks.try_recv().ok()).take(TOGETHER - 1);
            let together: Vec<Task> = std::iter::once(first).chain(more).collect();
            for done_now in self.perform(together) {
                if done.send(done_now).is_err() {
                    return;
                }
            }
            // It fails only if nobody has looked for very long.
            let _ = rustix::io::write(wake.as_fd(), &1_u64.to_ne_bytes());
        }
    }

    /// Does some tasks, and writes down what follows from them together.
    pub(super) fn perform(&mut self, tasks: Vec<Task>) -> Vec<Done> {
        let (mut changes, mut done) = (Vec::new(), Vec::new());
        for task in tasks {
            match task {
                Task::Keep(whole) => {
                    done.push(Done::Kept(whole.id));
                    changes.push(Change::Block(whole));
                }
                Task::Drop(id) => changes.push(Change::NoBlock(id)),
                Task::Get(id) => {
                    let whole = self.store.block(id);
                    let whole =
                        whole.inspect_err(|error| tracing::error!("a block is gone: {error}"));
                    done.push(Done::Got(id, whole.ok().flatten()));
                }
                Task::Deliver(delivery) => self.on_delivery(delivery, &mut changes, &mut done),
                Task::Read(file, number, part) => done.push(match read(&file, &part) {
                    Ok(bytes) => Done::Read(file.local, number, bytes, part.is_last),
                    Err(error) => Done::Unreadable(file.local, format!("{error:#}")),
                }),
                Task::Note(file) => changes.push(Change::Outgoing(*file)),
                Task::Forget(local) => changes.push(Change::NoOutgoing(local)),
                Task::Fetched(file) => {
                    let _ = fs::remove_file(self.whole_file(&file.id()));
                    self.waiting.remove(&file.id());
                    changes.push(Change::Incoming(*file));
                }
                Task::ForgetIncoming(id) => changes.push(Change::NoIncoming(id)),
                Task::GiveUp(flow) => {
                    let why = "its sender gave it up".to_owned();
                    self.give_up(flow, why, &mut changes, &mut done);
                }
                other => self.on_socket(other, &mut changes, &mut done),
            }
        }
        if let Err(error) = self.store.change(&changes) {
            tracing::error!("nothing can be kept, so nothing is acknowledged: {error}");
            done = done.into_iter().filter_map(undone).collect();
        }
        done
    }

    /// What concerns blocks of programs.
    fn on_socket(&mut self, task: Task, changes: &mut Vec<Change>, done: &mut Vec<Done>) {
        match task {
            Task::Hold(held) => {
                let (whole, record) = *held;
                changes.push(Change::Block(whole.clone()));
                changes.push(Change::Sending(record));
                done.push(Done::Held(whole));
            }
            Task::Sent(id, record) => {
                changes.push(Change::NoBlock(id));
                changes.push(Change::Sending(*record));
            }
            Task::ForgetSending(local) => changes.push(Change::NoSending(local)),
            Task::Letter(letter) => {
                let (Delivery { id, shape, frames }, record) = *letter;
                // The first and the last have nothing for the program.
                if id.number > 0 && !shape.finishes {
                    changes.push(Change::Letter(id, frames.concat().into()));
                }
                changes.push(Change::Receiving(record));
                done.push(Done::Letter(id));
            }
            Task::Fetch(id) => {
                let letter = self.store.letter(id);
                let letter =
                    letter.inspect_err(|error| tracing::error!("a block is gone: {error}"));
                done.push(Done::Fetched(id, letter.ok().flatten()));
            }
            Task::Confirm(id, record) => {
                changes.push(Change::NoLetter(id));
                changes.push(Change::Receiving(*record));
            }
            Task::ForgetReceiving(record) => {
                let flow = record.flow();
                let letters = record.confirmed..record.next;
                let letters = letters.map(|number| Change::NoLetter(BlockId { flow, number }));
                changes.extend(letters);
                changes.push(Change::NoReceiving(record.id()));
            }
            _ => unreachable!("the caller has taken all others"),
        }
    }

    fn on_delivery(&mut self, delivery: Delivery, changes: &mut Vec<Change>, done: &mut Vec<Done>) {
        let (id, flow) = (delivery.id, delivery.id.flow);
        match self.take(delivery) {
            Ok(file) => {
                changes.push(Change::Incoming(file.clone()));
                done.push(Done::Accepted(id, file));
            }
            Err(error) => {
                let why = format!("{error:#}");
                tracing::warn!(source = flow.source.0, "a file is refused: {why}");
                done.push(Done::Refused(id));
                self.give_up(flow, why, changes, done);
            }
        }
    }

    /// Lets go of what is here of a file.
    fn give_up(
        &mut self,
        flow: FlowKey,
        why: String,
        changes: &mut Vec<Change>,
        done: &mut Vec<Done>,
    ) {
        self.digests.remove(&flow);
        if let Some(mut file) = self.incoming.remove(&flow) {
            let _ = fs::remove_file(self.part_file(&file.id()));
            file.state = State::Failed(why);
            changes.push(Change::Incoming(file.clone()));
            done.push(Done::Stands(file));
        }
    }

    /// Writes a block of a file where it belongs.
    fn take(&mut self, delivery: Delivery) -> Result<Incoming> {
        let Delivery { id, shape, frames } = delivery;
        let bytes = if id.number == 0 {
            self.open(id, shape.crc, &frames.concat().into())?
        } else {
            frames.concat().into()
        };
        let file = self.incoming.get(&id.flow).context("nothing is known of it")?;
        ensure!(file.next == id.number, "block {} came in place of {}", id.number, file.next);
        let mut file = file.clone();
        let bytes = if file.info.streamed {
            let held = self.held_bytes() + bytes.len() as u64;
            ensure!(held <= self.config.disk_bytes, "disk_bytes are used up");
            if shape.finishes { file.info.handle_trailer(&bytes)? } else { bytes }
        } else {
            bytes
        };
        let end = file.received + bytes.len() as u64;
        let is_known = !file.info.streamed || shape.finishes;
        ensure!(!is_known || end <= file.info.size, "it is longer than it said");
        let part = self.part_file(&file.id());
        let on_disk = File::options().write(true).read(true).open(&part).context("its part")?;
        let mut digest = match self.digests.remove(&id.flow) {
            Some(digest) => digest,
            None => sum_of(&on_disk, file.received)?,
        };
        on_disk.write_all_at(&bytes, file.received)?;
        digest.update(&bytes);
        file.received += bytes.len() as u64;
        file.next += 1;
        if shape.finishes {
            ensure!(file.received == file.info.size, "it ends before its end");
            ensure!(
                hex(digest.clone().finish().as_ref()) == file.info.sha256,
                "its checksum is wrong"
            );
            // Of what came before a crash more may be there than is known.
            on_disk.set_len(file.info.size)?;
            file.state = State::Done;
        }
        if self.config.durable == Durable::Fsync {
            on_disk.sync_data()?;
        }
        if file.state == State::Done {
            fs::rename(&part, self.whole_file(&file.id()))?;
            self.sync_inbox()?;
            self.waiting.insert(file.id(), file.info.size);
            self.incoming.remove(&id.flow);
        } else {
            self.digests.insert(id.flow, digest);
            self.incoming.insert(id.flow, file.clone());
        }
        Ok(file)
    }

    /// Reads what a first block says, and makes the file. Returns what is in the block of it.
    fn open(&mut self, id: BlockId, opened: u32, block: &Bytes) -> Result<Bytes> {
        let (info, rest) = FileInfo::read(block).context("its first block says nothing")?;
        let held = self.held_bytes();
        if held.saturating_add(info.size) > self.config.disk_bytes {
            bail!(
                "'{}' has {} bytes, and of disk_bytes = {} are {held} taken",
                info.name,
                info.size,
                self.config.disk_bytes
            );
        }
        let files = self.incoming.len() + self.waiting.len();
        ensure!(files < FILES, "{files} files are here already, and nobody fetches them");
        let (source, local) = (id.flow.source, id.flow.local);
        let (received, next, state) = (0, 0, State::Moving);
        let file = Incoming { source, local, opened, info, received, next, state };
        if let Some(old) = self.incoming.remove(&id.flow) {
            let _ = fs::remove_file(self.part_file(&old.id()));
        }
        self.digests.remove(&id.flow);
        let part = self.part_file(&file.id());
        File::create(&part).with_context(|| part.display().to_string())?;
        self.sync_inbox()?;
        self.incoming.insert(id.flow, file);
        Ok(rest)
    }

    /// Bytes of files that are here, or will be.
    fn held_bytes(&self) -> u64 {
        let moving = self.incoming.values().map(|file| file.info.size.max(file.received));
        moving.chain(self.waiting.values().copied()).sum()
    }

    /// The names of files are on disk like their bytes.
    fn sync_inbox(&self) -> io::Result<()> {
        if self.config.durable == Durable::Fsync {
            File::open(&self.inbox)?.sync_all()?;
        }
        Ok(())
    }

    fn part_file(&self, id: &str) -> PathBuf {
        self.inbox.join(format!("{id}.part"))
    }

    fn whole_file(&self, id: &str) -> PathBuf {
        whole_file(&self.inbox, id)
    }
}

/// Where a file is that came whole.
pub(crate) fn whole_file(inbox: &Path, id: &str) -> PathBuf {
    inbox.join(format!("{id}.whole"))
}

/// What is left of what was done if it could not be written down.
fn undone(done: Done) -> Option<Done> {
    match done {
        Done::Kept(id) => Some(Done::NotKept(id)),
        Done::Accepted(id, _) => Some(Done::Refused(id)),
        Done::Held(whole) => Some(Done::NotHeld(whole.id.flow.local)),
        Done::Letter(id) => Some(Done::NoLetter(id)),
        other => Some(other),
    }
}

fn read(file: &Outgoing, part: &Part) -> Result<Bytes> {
    let on_disk = File::open(&file.path)?;
    let metadata = on_disk.metadata()?;
    let is_same = metadata.len() == file.info.size && modified_ns(&metadata) == file.modified_ns;
    ensure!(is_same, "{} was changed while it was sent", file.path.display());
    let mut bytes = part.front.clone();
    let front = bytes.len();
    bytes.resize(front + part.length as usize, 0);
    on_disk.read_exact_at(&mut bytes[front..], part.offset)?;
    Ok(bytes.into())
}

/// When a file was last changed, in nanoseconds since 1970.
pub fn modified_ns(metadata: &fs::Metadata) -> u64 {
    let since = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| since.as_nanos() as u64)
}

/// The sum over the first bytes of a file, to be gone on with.
fn sum_of(file: &File, length: u64) -> Result<Digest> {
    let mut digest = Digest::new(&SHA256);
    let mut rest = io::Read::take(file, length);
    let mut chunk = vec![0; CHUNK];
    let mut done = 0;
    while done < length {
        let got = rest.read(&mut chunk)?;
        ensure!(got > 0, "part of what came is gone");
        digest.update(&chunk[..got]);
        done += got as u64;
    }
    Ok(digest)
}

/// SHA-256 of a file in hexadecimal, and its length; `watcher` hears of the bytes done and ends it
/// by returning false.
///
/// Fails if the file cannot be read, or the watcher ends it.
pub fn sum_file(file: &File, watcher: &mut dyn FnMut(u64) -> bool) -> Result<(String, u64)> {
    let mut digest = Digest::new(&SHA256);
    let mut chunk = vec![0; CHUNK];
    let (mut done, mut file) = (0, file);
    loop {
        let got = file.read(&mut chunk)?;
        if got == 0 {
            return Ok((hex(digest.finish().as_ref()), done));
        }
        digest.update(&chunk[..got]);
        done += got as u64;
        ensure!(watcher(done), "interrupted");
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
