//! The thread that reads and writes: the loop of a daemon must not wait for a disk.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Error;
use bytes::Bytes;
use farhop_proto::transport::hop::{Delivery, Whole};
use farhop_proto::wire::hop::{BlockId, FlowKey, Refusal};

use super::disk::{may_pass, read};
use super::inbox::{Inbox, refusal_of};
use super::late::{AGAIN, Late};
use super::store::{Change, Store, StoreError};
use super::trouble::Trouble;
use crate::device::os;
use crate::files::{Incoming, Outgoing, Part, State};
use crate::sockets::{Receiving, Sending};

/// Tasks of which the changes are written together.
const TOGETHER: usize = 64;
/// After so long without a task the store's file is looked at.
const QUIET: Duration = Duration::from_secs(10);

/// After so long in which it could not be read a file is given up.
const UNREAD: Duration = Duration::from_mins(5);

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
    Forget(u32),
    /// Let go of the bytes of a file that came here.
    Fetched(Box<Incoming>),
    /// Forget a file that came here.
    ForgetIncoming(String),
    /// A file that comes here is given up, and why.
    GiveUp(FlowKey, &'static str),
    /// Keep a block that a program here sends.
    Hold(Box<(Whole, Sending)>),
    /// One of them has arrived, or is given up.
    Sent(BlockId, Box<Sending>),
    /// Forget blocks that were sent from here.
    ForgetSending(u32),
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
    Refused(BlockId, Refusal),
    /// A file that came here, as it stands now.
    Stands(Incoming),
    /// It is written down that a file that came here was fetched.
    LetGo(String),
    /// How a file stands that is sent from here is written down.
    Noted(u32),
    /// It cannot be.
    NotNoted(u32),
    /// A block of a file that is sent from here.
    Read(u32, u32, Bytes, bool),
    /// It cannot be read now.
    NotRead(u32, u32),
    /// It cannot be read, also later, and why.
    Unreadable(u32, String),
    /// A block that a program here sends is kept.
    Held(Whole),
    /// It cannot be, with the number of its flow.
    NotHeld(u32),
    /// A block for a program here is kept.
    Letter(BlockId),
    /// It was read.
    Fetched(BlockId, Option<Bytes>),
    /// Why nothing can be kept from now on; nothing if it can.
    Trouble(Option<String>),
}

/// The thread's own things.
pub(super) struct Clerk {
    store: Store,
    inbox: Inbox,
    /// Changes that could not be written down, and must be.
    owed: Vec<Change>,
    /// The block of each flow from here that could not be kept, until its next one comes. Whoever
    /// gave it may still say that it was taken.
    lost: BTreeMap<u32, u32>,
    /// Blocks that are tried again later.
    late: Late,
    /// Since when files that are sent from here cannot be read, by the numbers of their flows.
    unread: BTreeMap<u32, Instant>,
    /// Whether the store is to be opened again: after an error it does nothing more.
    has_failed: bool,
    trouble: Trouble,
}

impl Clerk {
    pub(super) fn new(store: Store, inbox: Inbox) -> Self {
        let (owed, lost, late) = (Vec::new(), BTreeMap::new(), Late::default());
        let (unread, trouble) = (BTreeMap::new(), Trouble::default());
        Self { store, inbox, owed, lost, late, unread, has_failed: false, trouble }
    }

    /// What is written of blocks from here.
    #[cfg(test)]
    pub(super) fn sending(&self) -> Vec<Sending> {
        self.store.sending().expect("it can be read")
    }

    /// Starts the thread, which rings the bell when it has done something. Returns where tasks go
    /// and where it says what was done. It ends when nobody can give it any more.
    ///
    /// Fails if the machine has no thread left.
    pub(super) fn start(self, bell: Arc<OwnedFd>) -> io::Result<(Sender<Task>, Receiver<Done>)> {
        let ((tasks, todo), (report, done)) = (mpsc::channel(), mpsc::channel());
        thread::Builder::new().name("blocks".into()).spawn(move || {
            // The loop that makes it may be punctual by now.
            os::be_like_others();
            self.run(&todo, &report, &bell);
        })?;
        Ok((tasks, done))
    }

    /// Does tasks until nobody can give any more.
    fn run(mut self, tasks: &Receiver<Task>, done: &Sender<Done>, bell: &OwnedFd) {
        while let Some(mut together) = self.next_tasks(tasks) {
            let more = std::iter::from_fn(|| tasks.try_recv().ok()).take(TOGETHER - 1);
            together.extend(more);
            let performed = self.perform(together);
            let news = self.trouble.news().map(Done::Trouble);
            for done_now in performed.into_iter().chain(news) {
                if done.send(done_now).is_err() {
                    return;
                }
            }
            // It fails only if nobody has looked for very long.
            let _ = rustix::io::write(bell.as_fd(), &1_u64.to_ne_bytes());
        }
    }

    /// Waits for the next task, or until those that could not be done are due. Returns what is to
    /// be done first; nothing once nobody can give any more.
    fn next_tasks(&mut self, tasks: &Receiver<Task>) -> Option<Vec<Task>> {
        // Also whether a disk has room again is found by writing.
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

    /// After how long something is done though there is no task; nothing if nothing waits. What is
    /// owed may make the room that others wait for.
    pub(super) fn patience(&self) -> Option<Duration> {
        let owed = (!self.owed.is_empty()).then_some(AGAIN);
        self.late.patience().into_iter().chain(owed).min()
    }

    /// Does what could not be done before.
    #[cfg(test)]
    pub(super) fn perform_late(&mut self) -> Vec<Done> {
        let late = self.late.take();
        self.perform(late)
    }

    /// Why nothing can be kept, if that is news.
    #[cfg(test)]
    pub(super) fn trouble(&mut self) -> Option<String> {
        self.trouble.news().flatten()
    }

    /// Makes the store's file smaller, while nothing is to be done.
    fn shrink(&mut self) {
        if let Err(error) = self.store.shrink() {
            tracing::warn!("the file of the block cache stays as large as it is: {error}");
            self.has_failed = true;
        }
    }

    /// Does some tasks, and writes down what follows from them together.
    pub(super) fn perform(&mut self, tasks: Vec<Task>) -> Vec<Done> {
        if self.has_failed
            && let Err(error) = self.store.open_again()
        {
            // What is read fails then, and what is to be written.
            self.on_failed(&error, error.is_consequence());
        }
        let mut done = Vec::new();
        // Alone at first: what makes room must not wait for what needs it.
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
                Task::ForgetIncoming(id) => changes.push(Change::NoIncoming(id)),
                Task::GiveUp(flow, why) => {
                    self.give_up(flow, why.into(), &mut changes, &mut done);
                }
                other => self.on_socket(other, &mut changes, &mut done),
            }
        }
        self.write_down(changes, done)
    }

    /// Reads a block of a file that is sent from here. What may pass, as when a file server is
    /// away, gives no file up for a while.
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

    /// Makes changes, and returns what was done then.
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
                self.owed.extend(changes.into_iter().filter_map(|change| owed(change, &done)));
                self.undo(done)
            }
        }
    }

    /// Nothing can be kept.
    fn on_failed(&mut self, error: &impl std::fmt::Display, is_consequence: bool) {
        if let Some(line) = self.trouble.on_failed(Instant::now(), error, is_consequence) {
            tracing::error!("{line}");
        }
    }

    /// What is left of what was done if it could not be written down. Blocks for this node are
    /// tried again later.
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

    /// What concerns blocks of programs.
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
                changes.push(Change::NoReceiving(record.id()));
            }
            _ => unreachable!("the caller has taken all others"),
        }
    }

    /// A block for this node.
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
                // The first and the last have nothing for the program.
                if id.number > 0 && !shape.finishes {
                    changes.push(Change::Letter(*id, frames.concat().into()));
                }
                changes.push(Change::Receiving(record.clone()));
                done.push(Done::Letter(*id));
            }
            _ => unreachable!("the caller has taken all others"),
        }
        self.late.begin(task);
    }

    /// A block of a file that cannot be taken: later it can, if the disk is all that is wrong.
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

    /// Lets go of what is here of a file.
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

/// A block that is kept. Where the store could not be opened that was told already.
fn read_back<T>(found: Result<Option<T>, StoreError>) -> Option<T> {
    let told = |error: &StoreError| {
        if !error.is_consequence() {
            tracing::error!("a block is gone: {error}");
        }
    };
    found.inspect_err(told).ok().flatten()
}

/// What must be written down of a change that could not be, if all this was not done: what is no
/// longer kept, what is over, and what was sent or confirmed, without the block that was to be kept
/// with it. There is no more of it than the store has blocks and records.
fn owed(change: Change, undone: &[Done]) -> Option<Change> {
    match change {
        Change::Block(_) | Change::Letter(..) => None,
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

/// How blocks from here stand without one that was taken and is lost, if there is one; `None` if
/// none was taken before it.
fn without(mut record: Sending, lost: Option<u32>) -> Option<Sending> {
    let Some(lost) = lost.filter(|lost| *lost < record.taken) else { return Some(record) };
    (record.taken, record.is_finished) = (lost, false);
    (lost > 0).then_some(record)
}

/// What is left of something that could not be written down.
fn undone(done: Done) -> Done {
    match done {
        Done::Kept(id) => Done::NotKept(id),
        Done::Noted(local) => Done::NotNoted(local),
        other => other,
    }
}

/// Whether something failed because the disk did, and not because what is there is not as it was.
fn is_of_disk(error: &Error) -> bool {
    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    kind.is_some_and(|kind| kind != io::ErrorKind::NotFound)
}
