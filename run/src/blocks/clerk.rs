//! The clerk: a thread that reads and writes the disk, as the daemon's loop must not wait for it.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Error;
use farhop_proto::transport::hop::{Delivery, Whole};
use farhop_proto::wire::hop::{BlockId, FlowKey};

use super::disk::{may_pass, read};
use super::inbox::{Inbox, refusal_of};
use super::late::{AGAIN, Late};
use super::store::{Change, Store, StoreError};
use super::task::{Done, Task};
use super::trouble::Trouble;
use crate::device::os;
use crate::files::{Incoming, Outgoing, Part, State};
use crate::sockets::Sending;

/// Most tasks whose changes are written together.
const TOGETHER: usize = 64;
/// How many bytes of blocks are enough for one commit. The space of blocks that it deletes can only
/// be used again after it, so the file grows by this much beyond what it holds.
const ENOUGH_BYTES: u64 = 4 << 20;
/// How long the clerk must have been idle before it shrinks the store's file.
const QUIET: Duration = Duration::from_secs(10);

/// How long a file may be unreadable before it is given up.
const UNREAD: Duration = Duration::from_mins(5);

/// The state of the thread.
pub(super) struct Clerk {
    store: Store,
    inbox: Inbox,
    /// Changes that could not be written, and still must be.
    owed: Vec<Change>,
    /// For each flow from here, the block that could not be stored, until the next is to be.
    /// Records that were made before that became known still say that it was taken.
    lost: BTreeMap<u32, u32>,
    /// Blocks for this node that will be tried again.
    late: Late,
    /// Since when files from here have been unreadable, by the numbers of their flows.
    unread: BTreeMap<u32, Instant>,
    /// Whether to open the store again: after an error it does nothing more.
    has_failed: bool,
    trouble: Trouble,
}

impl Clerk {
    pub(super) fn new(store: Store, inbox: Inbox) -> Self {
        let (owed, lost, late) = (Vec::new(), BTreeMap::new(), Late::default());
        let (unread, trouble) = (BTreeMap::new(), Trouble::default());
        Self { store, inbox, owed, lost, late, unread, has_failed: false, trouble }
    }

    /// The records of flows of blocks from here.
    #[cfg(test)]
    pub(super) fn sending(&self) -> Vec<Sending> {
        self.store.sending().expect("it can be read")
    }

    /// Starts the thread, which writes to `bell` when it has finished something. Returns the
    /// channels for tasks and for results. The thread ends when that for tasks is closed.
    ///
    /// Fails if the system cannot start another thread.
    pub(super) fn start(self, bell: Arc<OwnedFd>) -> io::Result<(Sender<Task>, Receiver<Done>)> {
        let ((tasks, todo), (report, done)) = (mpsc::channel(), mpsc::channel());
        thread::Builder::new().name("blocks".into()).spawn(move || {
            // The daemon's loop may be a realtime thread by now; this one must not be.
            os::be_like_others();
            self.run(&todo, &report, &bell);
        })?;
        Ok((tasks, done))
    }

    /// Carries out tasks until the channel is closed.
    fn run(mut self, tasks: &Receiver<Task>, done: &Sender<Done>, bell: &OwnedFd) {
        while let Some(mut together) = self.next_tasks(tasks) {
            let mut bytes: u64 = together.iter().map(Task::stored_bytes).sum();
            while together.len() < TOGETHER
                && bytes < ENOUGH_BYTES
                && let Ok(task) = tasks.try_recv()
            {
                bytes += task.stored_bytes();
                together.push(task);
            }
            let performed = self.perform(together);
            let news = self.trouble.news().map(Done::Trouble);
            for done_now in performed.into_iter().chain(news) {
                if done.send(done_now).is_err() {
                    return;
                }
            }
            // This fails only if the daemon has not read the bell for very long.
            let _ = rustix::io::write(bell.as_fd(), &1_u64.to_ne_bytes());
        }
    }

    /// Waits for a task, or until blocks are to be tried again. Returns what to do first, which may
    /// be nothing; `None` once the channel is closed.
    fn next_tasks(&mut self, tasks: &Receiver<Task>) -> Option<Vec<Task>> {
        // Whether a full disk has room again is also found out by writing.
        let patience = self.patience().or(self.trouble.is_on().then_some(AGAIN));
        let next = match tasks.recv_timeout(patience.unwrap_or(QUIET)) {
            Err(RecvTimeoutError::Timeout) if patience.is_none() => {
                self.shrink();
                Some(tasks.recv().ok()?)
            }
            Err(RecvTimeoutError::Timeout) => None,
            task => Some(task.ok()?),
        };
        let mut first = self.late.take_due();
        first.extend(next);
        Some(first)
    }

    /// How long the clerk may wait for a task; `None`: for ever. It must not wait long with owed
    /// changes, which may make the room that others need.
    pub(super) fn patience(&self) -> Option<Duration> {
        let owed = (!self.owed.is_empty()).then_some(AGAIN);
        self.late.patience().into_iter().chain(owed).min()
    }

    /// Tries the late blocks again.
    #[cfg(test)]
    pub(super) fn perform_late(&mut self) -> Vec<Done> {
        let late = self.late.take();
        self.perform(late)
    }

    /// Why nothing can be stored, if that changed.
    #[cfg(test)]
    pub(super) fn trouble(&mut self) -> Option<String> {
        self.trouble.news().flatten()
    }

    /// Shrinks the store's file while there is nothing else to do.
    fn shrink(&mut self) {
        if let Err(error) = self.store.shrink() {
            tracing::warn!("the file of the block cache stays as large as it is: {error}");
            self.has_failed = true;
        }
    }

    /// Carries out tasks, and writes the changes that they make together.
    pub(super) fn perform(&mut self, tasks: Vec<Task>) -> Vec<Done> {
        if self.has_failed
            && let Err(error) = self.store.open_again()
        {
            // Then reading and writing fail below.
            self.on_failed(&error, error.is_consequence());
        }
        let mut done = Vec::new();
        // First and alone: changes that free space must not depend on those that need it.
        if !self.owed.is_empty() {
            match self.store.change(&self.owed) {
                Ok(()) => {
                    self.owed.clear();
                    done.extend(self.inbox.settle().map(Done::LetGo));
                }
                Err(error) => self.on_failed(&error, error.is_consequence()),
            }
        }
        let mut changes = std::mem::take(&mut self.owed);
        for task in tasks {
            match task {
                Task::Keep(whole) => {
                    done.push(Done::Kept(whole.id));
                    changes.push(Change::Block(whole));
                }
                Task::Drop(id) => changes.push(Change::NoBlock(id)),
                Task::Get(id) => {
                    let whole = self.store.block(id);
                    done.push(Done::Got(id, read_back(whole)));
                }
                Task::Deliver(_) | Task::Letter(_) => {
                    if let Some(task) = self.late.behind(task) {
                        self.on_delivery(task, &mut changes, &mut done);
                    }
                }
                Task::Read(file, number, part) => done.push(self.read(&file, number, &part)),
                Task::Note(file) => {
                    done.push(Done::Noted(file.local));
                    changes.push(Change::Outgoing(*file));
                }
                Task::Forget(local) => changes.push(Change::NoOutgoing(local)),
                Task::Fetched(file) => {
                    self.inbox.fetched(file.id());
                    changes.push(Change::Incoming(*file));
                }
                Task::ForgetIncoming(file) => {
                    changes.extend(file.past().map(Change::Past));
                    changes.push(Change::NoIncoming(file.id()));
                }
                Task::GiveUp(flow, why) => {
                    self.give_up(flow, why.into(), &mut changes, &mut done);
                }
                other => self.on_socket(other, &mut changes, &mut done),
            }
        }
        self.write_down(changes, done)
    }

    /// Reads a block of a file that is sent from here. An error that may be temporary, as when a
    /// file server is away, fails the file only if it lasts.
    fn read(&mut self, file: &Outgoing, number: u32, part: &Part) -> Done {
        let local = file.local;
        let error = match read(file, part) {
            Ok(bytes) => {
                self.unread.remove(&local);
                return Done::Read(local, number, bytes, part.is_last);
            }
            Err(error) => error,
        };
        let since = self.unread.entry(local).or_insert_with(Instant::now);
        if may_pass(&error) && since.elapsed() < UNREAD {
            tracing::warn!(path = %file.path.display(), "a block of a file waits: {error:#}");
            return Done::NotRead(local, number);
        }
        self.unread.remove(&local);
        Done::Unreadable(local, format!("{}: {error:#}", file.path.display()))
    }

    /// Writes changes, and returns the results of their tasks.
    fn write_down(&mut self, changes: Vec<Change>, mut done: Vec<Done>) -> Vec<Done> {
        let outcome = self.store.change(&changes);
        self.has_failed = outcome.is_err();
        match outcome {
            Ok(()) => {
                done.extend(self.inbox.settle().map(Done::LetGo));
                self.late.end(true);
                if let Some(line) = self.trouble.on_kept(Instant::now()) {
                    tracing::info!("{line}");
                }
                done
            }
            Err(error) => {
                self.on_failed(&error, error.is_consequence());
                for change in changes.into_iter().filter_map(|change| owed(change, &done)) {
                    owe(&mut self.owed, change);
                }
                self.undo(done)
            }
        }
    }

    /// Notes that something could not be stored.
    fn on_failed(&mut self, error: &impl std::fmt::Display, is_consequence: bool) {
        if let Some(line) = self.trouble.on_failed(Instant::now(), error, is_consequence) {
            tracing::error!("{line}");
        }
    }

    /// The results of tasks whose changes could not be written. Blocks for this node are tried
    /// again later.
    fn undo(&mut self, done: Vec<Done>) -> Vec<Done> {
        let emptied = self.inbox.undo().into_iter();
        self.late.end(false);
        let mut left: Vec<Done> = emptied.map(Done::LetGo).collect();
        for done in done {
            match done {
                Done::Accepted(..) | Done::Letter(_) => {}
                Done::Held(Whole { id, .. }) => {
                    self.lost.insert(id.flow.local, id.number);
                    left.push(Done::NotHeld(id.flow.local));
                }
                other => left.push(undone(other)),
            }
        }
        left
    }

    /// Carries out a task that concerns blocks of programs.
    fn on_socket(&mut self, task: Task, changes: &mut Vec<Change>, done: &mut Vec<Done>) {
        match task {
            Task::Hold(held) => {
                let (whole, record) = *held;
                self.lost.remove(&record.local);
                changes.push(Change::Block(whole.clone()));
                changes.push(Change::Sending(record));
                done.push(Done::Held(whole));
            }
            Task::Sent(id, record) => {
                changes.push(Change::NoBlock(id));
                let lost = self.lost.get(&record.local).copied();
                changes.extend(without(*record, lost).map(Change::Sending));
            }
            Task::ForgetSending(local) => {
                self.lost.remove(&local);
                changes.push(Change::NoSending(local));
            }
            Task::Fetch(id) => {
                let letter = self.store.letter(id);
                done.push(Done::Fetched(id, read_back(letter)));
            }
            Task::Confirm(id, record) => {
                changes.push(Change::NoLetter(id));
                changes.push(Change::Receiving(self.late.on_confirmed(*record)));
            }
            Task::ForgetReceiving(record) => {
                let flow = record.flow();
                self.late.forget(flow);
                let letters = record.confirmed..record.next;
                let letters = letters.map(|number| Change::NoLetter(BlockId { flow, number }));
                changes.extend(letters);
                changes.extend(record.past().map(Change::Past));
                changes.push(Change::NoReceiving(record.id()));
            }
            _ => unreachable!("the caller has taken all others"),
        }
    }

    /// Writes a block for this node.
    fn on_delivery(&mut self, task: Task, changes: &mut Vec<Change>, done: &mut Vec<Done>) {
        match &task {
            Task::Deliver(delivery) => match self.inbox.take(delivery) {
                Ok(file) => {
                    changes.push(Change::Incoming(file.clone()));
                    done.push(Done::Accepted(delivery.id, file));
                }
                Err(error) => return self.on_not_taken(task, &error, changes, done),
            },
            Task::Letter(letter) => {
                let (Delivery { id, shape, frames }, record) = &**letter;
                // The first and the last block have no bytes for the program.
                if id.number > 0 && !shape.finishes {
                    let (id, shape, frames) = (*id, *shape, frames.clone());
                    changes.push(Change::Letter(Whole { id, shape, frames }));
                }
                changes.push(Change::Receiving(record.clone()));
                done.push(Done::Letter(*id));
            }
            _ => unreachable!("the caller has taken all others"),
        }
        self.late.begin(task);
    }

    /// Handles a block that a file cannot take: if only the disk fails it is tried again later.
    fn on_not_taken(
        &mut self,
        task: Task,
        error: &Error,
        changes: &mut Vec<Change>,
        done: &mut Vec<Done>,
    ) {
        let Task::Deliver(Delivery { id, .. }) = &task else { return };
        let (id, source) = (*id, id.flow.source.0);
        if is_of_disk(error) {
            self.on_failed(&format!("a file that comes: {error:#}"), false);
            return self.late.put(task);
        }
        let why = format!("{error:#}");
        tracing::warn!(source, "a file is refused: {why}");
        done.push(Done::Refused(id, refusal_of(error)));
        self.give_up(id.flow, why, changes, done);
    }

    /// Deletes what is here of a file.
    fn give_up(
        &mut self,
        flow: FlowKey,
        why: String,
        changes: &mut Vec<Change>,
        done: &mut Vec<Done>,
    ) {
        self.late.forget(flow);
        if let Some(file) = self.inbox.give_up(flow, why) {
            changes.push(Change::Incoming(file.clone()));
            done.push(Done::Stands(file));
        }
    }
}

/// A stored block, if it could be read. Errors are logged, unless they follow from an earlier one.
fn read_back<T>(found: Result<Option<T>, StoreError>) -> Option<T> {
    let told = |error: &StoreError| {
        if !error.is_consequence() {
            tracing::error!("a block is gone: {error}");
        }
    };
    found.inspect_err(told).ok().flatten()
}

/// What must still be written of a change that failed, if the tasks in `undone` are undone:
/// deletions, ends, and what was sent or confirmed; but not blocks, and records only up to the
/// block that was lost. Owed changes cannot outnumber the blocks and records in the store.
fn owed(change: Change, undone: &[Done]) -> Option<Change> {
    match change {
        Change::Block(_) | Change::Letter(_) => None,
        Change::Outgoing(Outgoing { state: State::Moving, .. }) => None,
        Change::Incoming(Incoming { state: State::Moving | State::Done, .. }) => None,
        Change::Sending(record) => {
            let lost = undone.iter().find_map(|done| match done {
                Done::Held(whole) if whole.id.flow.local == record.local => Some(whole.id.number),
                _ => None,
            });
            without(record, lost).map(Change::Sending)
        }
        Change::Receiving(mut record) => {
            let lost = undone.iter().find_map(|done| match done {
                Done::Letter(id) if id.flow == record.flow() => Some(id.number),
                _ => None,
            });
            record.is_finished &= lost.is_none();
            record.next = record.next.min(lost.unwrap_or(u32::MAX));
            (record.next > 0).then_some(Change::Receiving(record))
        }
        other => Some(other),
    }
}

/// Adds a change to those that are owed. A record takes the place of an earlier one of its flow: it
/// may be tried very often.
fn owe(owed: &mut Vec<Change>, change: Change) {
    let is_same = |other: &Change| match (other, &change) {
        (Change::Sending(one), Change::Sending(other)) => one.local == other.local,
        (Change::Receiving(one), Change::Receiving(other)) => one.id() == other.id(),
        _ => false,
    };
    match owed.iter().position(is_same) {
        Some(at) => owed[at] = change,
        None => owed.push(change),
    }
}

/// The record of a flow from here without the block `lost`, if there is one; `None` if no block was
/// taken before it.
fn without(mut record: Sending, lost: Option<u32>) -> Option<Sending> {
    let Some(lost) = lost.filter(|lost| *lost < record.taken) else { return Some(record) };
    (record.taken, record.is_finished) = (lost, false);
    (lost > 0).then_some(record)
}

/// The result of a task whose changes could not be written.
fn undone(done: Done) -> Done {
    match done {
        Done::Kept(id) => Done::NotKept(id),
        Done::Noted(local) => Done::NotNoted(local),
        other => other,
    }
}

/// Whether the cause of an error is the disk, and not that a file is missing or has changed.
fn is_of_disk(error: &Error) -> bool {
    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    kind.is_some_and(|kind| kind != io::ErrorKind::NotFound)
}
