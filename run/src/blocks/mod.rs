//! Blocks on their way between the machine of a node, the disk, and files and sockets.
//!
//! A block that passes through is stored before it is acknowledged. A block for this node is first
//! put where it belongs: into its file, into the store, or to the program that reads the stream. A
//! thread of its own (`clerk`) reads and writes the disk, and writes the changes of several tasks
//! to the store (`store`) at once. The first block of a flow says what the flow is for (`opening`).

mod clerk;
mod disk;
mod inbox;
mod late;
mod notice;
mod opening;
mod overdue;
mod renumbered;
mod restore;
mod store;
mod task;
#[cfg(test)]
mod tests;
mod trouble;

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use anyhow::{Context as _, Result, ensure};
use farhop_proto::base::{Instant, NodeId};
use farhop_proto::stack::NodePlan;
use farhop_proto::transport::hop::{Arrived, Delivery, Durable, Hop, HopConfig, Keep};
use farhop_proto::wire::hop::{BlockId, FlowKey, Refusal};
use ring::rand::{SecureRandom as _, SystemRandom};
use rustix::event::{EventfdFlags, PollFlags, eventfd};

use self::clerk::Clerk;
pub use self::disk::{modified_ns, open_file};
use self::inbox::Inbox;
pub(crate) use self::inbox::{inbox_folder, whole_file};
pub use self::inbox::{sum_bytes, sum_file};
pub(crate) use self::notice::Consignment;
use self::notice::{GivenUps, Notices, UnderWay, meant};
pub(crate) use self::opening::{FIRST_BYTES, Kind, Opening, front, kind_of, read};
pub(crate) use self::overdue::Coming;
use self::overdue::Overdue;
pub use self::store::{Change, PastFlow, Store, StoreError};
pub(crate) use self::task::{Done, Task};
use crate::files::{Courier, FilesStatus, SendFile};
use crate::sockets::{Sockets, SocketsStatus, Wish};

/// What everything that moves blocks shares.
pub(crate) struct Office {
    pub(crate) node: NodeId,
    pub(crate) names: BTreeMap<NodeId, String>,
    pub(crate) dir: PathBuf,
    pub(crate) config: HopConfig,
    tasks: Sender<Task>,
}

impl Office {
    /// Gives the clerk a task.
    pub(crate) fn ask(&self, task: Task) {
        self.tasks.send(task).expect("the clerk ends after this");
    }

    /// The number of the node with this name.
    ///
    /// Fails if there is no such node, or it is this one.
    pub(crate) fn node_of(&self, name: &str) -> Result<NodeId> {
        let known = self.names.iter().find(|(_, known)| **known == name);
        let (node, _) = known.with_context(|| {
            let names: Vec<_> = self.names.values().map(String::as_str).collect();
            format!("no node '{name}' in the scenario; it has {}", names.join(", "))
        })?;
        ensure!(*node != self.node, "'{name}' is this node");
        Ok(*node)
    }

    /// The name of a node.
    pub(crate) fn name(&self, node: NodeId) -> String {
        self.names.get(&node).cloned().unwrap_or_else(|| format!("node {}", node.0))
    }

    /// The key of a flow that begins here.
    pub(crate) fn flow(&self, local: u32) -> FlowKey {
        FlowKey { source: self.node, local }
    }
}

/// Moves the blocks of a daemon between the machine, the clerk, files and sockets.
pub struct Exchange {
    office: Office,
    done: Receiver<Done>,
    wake: Arc<OwnedFd>,
    courier: Courier,
    sockets: Sockets,
    notices: Notices,
    given_up: GivenUps,
    overdue: Overdue,
    numbers: Numbers,
    /// Why nothing can be stored at present; `None` if it can.
    trouble: Option<String>,
}

/// How much of the memory for blocks the store takes, for its pages and what is being written.
const STORE_BYTES: u64 = 6 << 20;
/// Why a file is dropped: its sender gave it up.
const GIVEN_UP: &str = "its sender gave it up";
/// Why a file is dropped: its sender knows nothing of it any more.
const FORGOTTEN: &str = "its sender has lost it";

impl Exchange {
    /// Lets the machine of a node continue with what the store in `dir` has.
    ///
    /// Fails if the store cannot be read, or the folder cannot be used.
    pub fn build(
        store: Store,
        dir: &Path,
        plan: &NodePlan,
        now: Instant,
        hop: &mut Hop,
    ) -> Result<Self> {
        let config = hop.config().clone();
        renumbered::let_go(&store, plan.node, &plan.names())?;
        let (mut incoming, outgoing) = (store.incoming()?, store.outgoing()?);
        let inbox = inbox::inbox_folder(dir, config.durable);
        let inbox = Inbox::build(inbox, &config, &store, &mut incoming)?;
        let (mut sending, receiving) = (store.sending()?, store.receiving()?);
        restore::arrivals(now, hop, store.past()?, (&incoming, &receiving));
        if config.durable != Durable::Memory {
            // With blocks in memory alone, the machine's own copy is the one that is kept.
            hop.keep_blocks();
            hop.leave_memory(STORE_BYTES.min(config.memory_bytes / 8));
        }
        let kept = restore::blocks(&store, now, hop, (plan.node, &mut sending))?;
        let wake = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        let (tasks, done) = Clerk::new(store, inbox).start(Arc::clone(&wake))?;
        let (node, names, dir) = (plan.node, plan.names(), dir.into());
        let sockets = Sockets::build(&config, (plan.node, &kept), sending, receiving);
        Ok(Self {
            office: Office { node, names, dir, config, tasks },
            done,
            wake,
            courier: Courier::build(outgoing, incoming),
            sockets,
            notices: Notices::default(),
            given_up: GivenUps::default(),
            overdue: Overdue::default(),
            numbers: Numbers(random()? as u32),
            trouble: None,
        })
    }

    /// Descriptor that is readable when the clerk has finished something.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Descriptors of programs with sockets to wait on.
    pub fn sources(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        self.sockets.sources()
    }

    /// Notes which of the sources are ready; in the same order.
    pub fn set_ready(&mut self, ready: &[bool]) {
        self.sockets.set_ready(ready);
    }

    /// When [`Exchange::turn`] is due even if nothing happens.
    pub fn poll_timeout(&self) -> Instant {
        let due = [self.courier.poll_timeout(), self.sockets.poll_timeout()];
        due.into_iter().flatten().fold(self.overdue.due(), Instant::min)
    }

    /// Whether some program has sent more than was handled in the last [`Exchange::turn`].
    pub fn has_more(&self) -> bool {
        self.sockets.has_more()
    }

    /// Whether [`Exchange::turn`] has something to do, apart from what the machine has to say.
    pub fn is_called(&self, now: Instant) -> bool {
        let has_clerk_done = rustix::io::read(self.wake.as_fd(), &mut [0; 8]).is_ok();
        let looks = self.overdue.due() <= now;
        looks || has_clerk_done || self.courier.has_outgoing(now) || self.sockets.is_called(now)
    }

    /// Moves blocks between the machine, the disk and programs.
    pub fn turn(&mut self, now: Instant, hop: &mut Hop) {
        while let Ok(done) = self.done.try_recv() {
            self.on_done(now, hop, done);
        }
        while let Some(arrived) = hop.poll_arrived() {
            self.on_arrived(now, hop, arrived);
        }
        while let Some(delivery) = hop.poll_delivery() {
            self.on_delivery(now, hop, delivery);
        }
        self.courier.turn(&self.office, now, hop);
        let spare = self.free_local();
        self.sockets.turn(&self.office, now, hop, spare);
        if !self.sockets.has_local(spare) {
            // The number was not needed.
            self.numbers = Numbers(spare);
        }
        for given_up in self.sockets.take_given_up() {
            self.tell(now, hop, Some(given_up));
        }
        for (node, life) in self.sockets.take_silent() {
            if !self.notices.has_to(node) {
                let flow = (self.free_local(), self.office.config.frame_bytes);
                self.notices.hail(now, hop, (node, life), flow);
            }
        }
        if self.overdue.due() <= now {
            self.ask_for_overdue(now, hop);
        }
        while let Some(keep) = hop.poll_keep() {
            self.office.ask(match keep {
                Keep::Put(whole) => Task::Keep(whole),
                Keep::Drop(id) => Task::Drop(id),
                Keep::Get(id) => Task::Get(id),
            });
        }
    }

    fn on_done(&mut self, now: Instant, hop: &mut Hop, done: Done) {
        let office = &self.office;
        match done {
            Done::Kept(id) => hop.handle_kept(id),
            Done::NotKept(id) => hop.handle_not_kept(now, id),
            Done::Got(id, whole) => hop.handle_got(now, id, whole),
            Done::Accepted(id, file) => {
                let flow = file.flow();
                let is_given_up = self.given_up.has(file.source, file.as_consignment());
                self.courier.on_stands(office, file);
                hop.accept(now, id);
                if is_given_up {
                    self.give_up(now, hop, flow, GIVEN_UP);
                }
            }
            Done::Refused(id, why) => hop.refuse(now, id, why),
            Done::Trouble(why) => self.trouble = why,
            Done::Stands(file) => self.courier.on_stands(office, file),
            Done::LetGo(id) => self.courier.on_let_go(office, id),
            Done::Noted(local) => self.courier.on_noted(local),
            Done::NotNoted(local) => self.courier.on_not_noted(office, hop, local),
            Done::Read(local, number, bytes, is_last) => {
                self.courier.on_read(office, now, hop, (local, number), (bytes, is_last));
            }
            Done::NotRead(local, number) => {
                self.courier.on_not_read(office, now, hop, (local, number));
            }
            Done::Unreadable(local, why) => {
                let given_up = self.courier.give_up(office, hop, local, why);
                self.tell(now, hop, given_up);
            }
            other => self.sockets.on_done(office, now, hop, other),
        }
    }

    fn on_arrived(&mut self, now: Instant, hop: &mut Hop, arrived: Arrived) {
        if let Some(UnderWay { to, asks, hails }) = self.notices.end(arrived.id.flow.local) {
            let next = self.notices.next_late();
            self.tell(now, hop, next);
            if let Some(what) = asks.filter(|_| arrived.refusal == Some(Refusal::Unknown)) {
                let source = to.0;
                tracing::info!(source, "what came is let go of: its sender knows nothing of it");
                self.let_go(now, hop, (to, what), FORGOTTEN);
            }
            if hails != 0 && arrived.refusal == Some(Refusal::Unknown) {
                return self.sockets.on_over(now, hop, (to, hails));
            }
            return self.sockets.on_there(now, to, hails);
        }
        if self.courier.has(arrived.id.flow.local) {
            let given_up = self.courier.on_arrived(&self.office, hop, arrived);
            self.tell(now, hop, given_up);
        } else {
            self.sockets.on_arrived(&self.office, now, hop, arrived);
        }
    }

    fn on_delivery(&mut self, now: Instant, hop: &mut Hop, delivery: Delivery) {
        if delivery.id.number == 0 && kind_of(&delivery.frames) == Some(Kind::GivenUp) {
            return self.on_given_up(now, hop, &delivery);
        }
        if delivery.id.number == 0 && kind_of(&delivery.frames) == Some(Kind::Hail) {
            let own = self.sockets.life();
            return match meant(&delivery.frames).is_none_or(|life| life == own) {
                true => hop.accept(now, delivery.id),
                false => hop.refuse(now, delivery.id, Refusal::Unknown),
            };
        }
        if delivery.id.number == 0 && kind_of(&delivery.frames) == Some(Kind::Asks) {
            return self.on_asked(now, hop, &delivery);
        }
        let is_file = match delivery.id.number {
            0 => kind_of(&delivery.frames).is_none_or(|kind| kind == Kind::File),
            _ => !self.sockets.has(delivery.id.flow),
        };
        if self.given_up.has_first(&delivery) {
            hop.refuse(now, delivery.id, Refusal::LetGo);
        } else if is_file {
            self.office.ask(Task::Deliver(delivery));
        } else {
            let local = if delivery.id.number == 0 { self.free_local() } else { 0 };
            self.sockets.on_delivery(&self.office, now, hop, delivery, local);
        }
    }

    /// The source of a file, a stream or a flow of blocks to here gave it up.
    fn on_given_up(&mut self, now: Instant, hop: &mut Hop, delivery: &Delivery) {
        let source = delivery.id.flow.source;
        if let Some(what) = Consignment::read(Kind::GivenUp, &delivery.frames)
            && !self.let_go(now, hop, (source, what), GIVEN_UP)
        {
            self.given_up.put(source, what);
        }
        hop.accept(now, delivery.id);
    }

    /// Accepts no more of something that a node sends here. Returns whether it is known here.
    fn let_go(
        &mut self,
        now: Instant,
        hop: &mut Hop,
        (source, what): (NodeId, Consignment),
        why: &'static str,
    ) -> bool {
        if self.sockets.on_given_up(&self.office, now, hop, (source, what)) {
            return true;
        }
        let flow = self.courier.flow_of(source, what);
        if let Some(flow) = flow {
            self.give_up(now, hop, flow, why);
        }
        flow.is_some()
    }

    /// Asks sources whether they still send what has stood still here.
    fn ask_for_overdue(&mut self, now: Instant, hop: &mut Hop) {
        let coming = self.courier.coming().chain(self.sockets.coming());
        for ask in self.overdue.look(now, coming) {
            if !self.notices.asks(ask.0) {
                let flow = (self.free_local(), self.office.config.frame_bytes);
                self.notices.ask(now, hop, ask, flow);
            }
        }
    }

    /// A node asks whether something is still being sent to it from here.
    fn on_asked(&self, now: Instant, hop: &mut Hop, delivery: &Delivery) {
        let is_known = Consignment::read(Kind::Asks, &delivery.frames)
            .is_none_or(|what| self.courier.sends(what) || self.sockets.sends(what));
        if is_known {
            hop.accept(now, delivery.id);
        } else {
            hop.refuse(now, delivery.id, Refusal::Unknown);
        }
    }

    /// Deletes a file that is arriving, and accepts no more of it.
    fn give_up(&self, now: Instant, hop: &mut Hop, flow: FlowKey, why: &'static str) {
        hop.refuse(now, BlockId { flow, number: u32::MAX }, Refusal::LetGo);
        self.office.ask(Task::GiveUp(flow, why));
    }

    /// Drops a file. If it came here, or is still arriving, it is deleted, and its sender is told
    /// that it is refused whenever it asks. If it was sent from here and is finished, the record of
    /// it is removed.
    ///
    /// Fails if there is no file with this id, or it is still being sent from here.
    pub fn drop_file(&mut self, now: Instant, hop: &mut Hop, id: &str) -> Result<()> {
        if let Some(flow) = self.courier.drop_file(&self.office, id)? {
            tracing::info!(%id, "a file that comes here is dropped, as somebody asked");
            self.give_up(now, hop, flow, "it was dropped here");
        }
        Ok(())
    }

    /// A number that no flow from here has.
    fn free_local(&mut self) -> u32 {
        let (courier, notices, sockets) = (&self.courier, &self.notices, &self.sockets);
        self.numbers
            .next(|local| courier.has(local) || notices.has(local) || sockets.has_local(local))
    }

    /// Starts to send a file; returns its number.
    ///
    /// Fails if there is no such node or file, or too many files are being sent.
    pub fn send(&mut self, wanted: SendFile) -> Result<u32> {
        let local = self.free_local();
        self.courier.send(&self.office, local, wanted)?;
        Ok(local)
    }

    /// Gives up a file, or a flow of blocks, that is sent from here, and tells its destination.
    ///
    /// Fails if nothing with this number is being sent.
    pub fn cancel(&mut self, now: Instant, hop: &mut Hop, id: u32) -> Result<()> {
        let told = match self.sockets.cancel(&self.office, hop, id) {
            Some(cancelled) => cancelled.told,
            None => Some(self.courier.cancel(&self.office, hop, id)?),
        };
        self.tell(now, hop, told);
        Ok(())
    }

    /// Tells the destination of a file or a stream, if there is one to tell, that it was given up.
    fn tell(&mut self, now: Instant, hop: &mut Hop, given_up: Option<(NodeId, Consignment)>) {
        if let Some(given_up) = given_up {
            let flow = (self.free_local(), self.office.config.frame_bytes);
            self.notices.tell(now, hop, given_up, flow);
        }
    }

    /// Notes that a file was fetched: its bytes can be deleted. Returns whether this is on disk; if
    /// not, the call must be repeated.
    ///
    /// Fails if there is no file with this id.
    pub fn fetched(&mut self, id: &str) -> Result<bool> {
        self.courier.fetched(&self.office, id)
    }

    /// State of all files.
    pub fn files(&self, hop: &Hop) -> FilesStatus {
        let mut files = self.courier.status(&self.office, hop);
        files.outgoing.extend(self.sockets.pushed(&self.office));
        files
    }

    /// State of all sockets.
    pub fn sockets(&self) -> SocketsStatus {
        self.sockets.status(&self.office)
    }

    /// Turns the connection of a program into a socket. Errors are reported to the program.
    pub(crate) fn open_socket(
        &mut self,
        now: Instant,
        program: UnixStream,
        rest: &[u8],
        wish: Wish,
    ) {
        let local = self.free_local();
        self.sockets.open(&self.office, now, (program, rest), wish, local);
    }

    /// Why nothing can be stored, and so acknowledged, at present; `None` if it can.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Folder of the blocks and files.
    pub fn dir(&self) -> &Path {
        &self.office.dir
    }

    /// Size of the file with the blocks on disk, which may be more than its contents need.
    pub fn file_bytes(&self) -> u64 {
        store::file_bytes(&self.office.dir)
    }
}

/// Draws numbers for flows from here, starting from the given one. They begin at random and are not
/// used again before all others: relays and destinations may remember a flow for long, and would
/// take a new one with its number for more of it.
struct Numbers(u32);

impl Numbers {
    fn next(&mut self, is_taken: impl Fn(u32) -> bool) -> u32 {
        loop {
            let local = self.0;
            self.0 = local.wrapping_add(1);
            if !is_taken(local) {
                return local;
            }
        }
    }
}

/// A random number that nobody can predict.
pub(crate) fn random() -> Result<u64> {
    let mut bytes = [0; 8];
    let drawn = SystemRandom::new().fill(&mut bytes);
    ensure!(drawn.is_ok(), "the system has no random numbers");
    Ok(u64::from_ne_bytes(bytes))
}
