//! Whether a daemon carries blocks: where it keeps them, or why it cannot.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::{io, thread};

use anyhow::Context as _;
use farhop_proto::base::{Duration, Instant};
use farhop_proto::stack::NodePlan;
use farhop_proto::transport::hop::{Hop, HopConfig};

use super::super::blocks::BlocksStatus;
use super::Driver;
use crate::blocks::{Exchange, Store, StoreError};
use crate::device::os;
use crate::sockets::SocketsStatus;

/// How long after a failure the store of blocks is tried again.
const OPEN_AGAIN: Duration = Duration::from_secs(20);
/// How often to look whether a thread has opened it.
const LOOK: Duration = Duration::from_millis(500);

/// Why no blocks are carried.
#[derive(Debug)]
pub(super) struct NoBlocks {
    why: String,
    /// When to try again, or to look at `opening`; `None` if that cannot help.
    again: Option<Instant>,
    /// The outcome of a thread that opens the store.
    opening: Option<Receiver<Result<Store, StoreError>>>,
}

impl Driver {
    /// Keeps blocks and files in the folder `dir`. To be called before the first turn, as it may
    /// take long. Without a usable folder no blocks are carried: they must not be acknowledged if
    /// they are not safe.
    ///
    /// Fails if the folder cannot be used.
    pub fn keep_blocks(&mut self, dir: Option<&Path>, plan: &NodePlan) -> anyhow::Result<()> {
        let Some((dir, config)) = dir.zip(self.hop_config()) else {
            let why = "there is no folder to keep them in".into();
            self.no_blocks = Some(NoBlocks { why, again: None, opening: None });
            return Ok(());
        };
        let store = Store::open(dir, &config);
        self.keep_in(store, dir, plan)
    }

    /// Tries the same again after a failure, when [`Driver::is_due_to_keep`]. A thread opens the
    /// store, so that the loop does not wait for a disk or file server that does not answer; `None`
    /// is returned until it has done so. The loop reads what is in it, once it is open.
    pub fn keep_again(&mut self, dir: &Path, plan: &NodePlan) -> Option<anyhow::Result<()>> {
        let config = self.hop_config()?;
        let no_blocks = self.no_blocks.as_mut()?;
        no_blocks.again = Some(self.clock.now() + LOOK);
        let Some(opening) = &no_blocks.opening else {
            no_blocks.opening = open_aside(dir.into(), config).ok();
            return None;
        };
        let store = match opening.try_recv() {
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => {
                Err(io::Error::other("the thread that opened it has ended").into())
            }
            Ok(store) => store,
        };
        Some(self.keep_in(store, dir, plan))
    }

    /// Carries blocks, with this store in the folder `dir`.
    fn keep_in(
        &mut self,
        store: Result<Store, StoreError>,
        dir: &Path,
        plan: &NodePlan,
    ) -> anyhow::Result<()> {
        let now = self.clock.now();
        // Only opening is tried again: after that, blocks of the store may have been given to
        // `hop`, and they cannot be given to it twice.
        let again = store.is_err().then(|| now + OPEN_AGAIN);
        self.stack.flows.carry_blocks(true);
        let hop = self.stack.flows.hop_outside().context("this node has no transport for them");
        let opened = store.map_err(anyhow::Error::from);
        let built = opened.and_then(|store| Exchange::build(store, dir, plan, now, hop?));
        let error = match built {
            Ok(exchange) => {
                (self.exchange, self.no_blocks) = (Some(exchange), None);
                // Timers of the exchange that are due since the clock began do not count as late.
                self.turned = None;
                return Ok(());
            }
            Err(error) => error,
        };
        self.stack.flows.carry_blocks(false);
        self.no_blocks = Some(NoBlocks { why: format!("{error:#}"), again, opening: None });
        Err(error)
    }

    /// Configuration of the machine for blocks, which then carries none; `None` without a machine.
    fn hop_config(&mut self) -> Option<HopConfig> {
        self.stack.flows.carry_blocks(true);
        let config = self.stack.flows.hop_outside().map(|hop| hop.config().clone());
        self.stack.flows.carry_blocks(false);
        config
    }

    /// Why no blocks are carried; `None` if they are.
    pub fn no_blocks(&self) -> Option<&str> {
        self.no_blocks.as_ref().map(|no| no.why.as_str())
    }

    /// Whether to call [`Driver::keep_again`].
    pub fn is_due_to_keep(&self) -> bool {
        self.due_to_keep().is_some_and(|due| due <= self.clock.now())
    }

    /// When to call it again.
    pub(super) fn due_to_keep(&self) -> Option<Instant> {
        self.no_blocks.as_ref().and_then(|no| no.again)
    }

    /// The exchange and the machine whose blocks it moves. The next turn comes at once.
    pub fn blocks(&mut self) -> Option<(&mut Exchange, &mut Hop)> {
        self.is_cut = true;
        Some((self.exchange.as_mut()?, self.stack.flows.hop_outside()?))
    }

    /// Whether blocks are carried, and what is wrong.
    pub fn blocks_status(&self) -> BlocksStatus {
        let exchange = self.exchange.as_ref();
        let trouble = exchange.map_or(self.no_blocks(), Exchange::trouble);
        BlocksStatus { are_carried: exchange.is_some(), trouble: trouble.map(str::to_owned) }
    }

    /// State of the sockets; `None` if no blocks are carried.
    pub fn sockets(&self) -> Option<SocketsStatus> {
        self.exchange.as_ref().map(Exchange::sockets)
    }
}

/// Opens a store in a thread of its own.
///
/// Fails if the system cannot start another thread.
fn open_aside(dir: PathBuf, config: HopConfig) -> io::Result<Receiver<Result<Store, StoreError>>> {
    let (report, opened) = mpsc::channel();
    thread::Builder::new().name("store".into()).spawn(move || {
        // The daemon's loop may be a realtime thread by now; this one must not be.
        os::be_like_others();
        // Nobody waits for it once the daemon has ended.
        let _ = report.send(Store::open(&dir, &config));
    })?;
    Ok(opened)
}
