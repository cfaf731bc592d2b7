//! Whether a daemon carries blocks: where it keeps them, or why it cannot.

use std::path::Path;

use farhop_proto::base::{Duration, Instant};
use farhop_proto::stack::NodePlan;
use farhop_proto::transport::hop::Hop;

use super::super::blocks::BlocksStatus;
use super::Driver;
use crate::blocks::{Exchange, Store};
use crate::sockets::SocketsStatus;

/// How long after a failure the store of blocks is tried again.
const OPEN_AGAIN: Duration = Duration::from_secs(20);

/// Why no blocks are carried.
#[derive(Debug)]
pub(super) struct NoBlocks {
    why: String,
    /// When to try again; `None` if that cannot help.
    again: Option<Instant>,
}

impl Driver {
    /// Keeps blocks and files in the folder `dir`. To be called before the first turn, and again
    /// when [`Driver::is_due_to_keep`]. Without a usable folder no blocks are carried: they must
    /// not be acknowledged if they are not safe.
    ///
    /// Fails if the folder cannot be used.
    pub fn keep_blocks(&mut self, dir: Option<&Path>, plan: &NodePlan) -> anyhow::Result<()> {
        let now = self.clock.now();
        self.stack.flows.carry_blocks(true);
        let Some((dir, hop)) = dir.zip(self.stack.flows.hop_outside()) else {
            self.stack.flows.carry_blocks(false);
            let why = "there is no folder to keep them in".into();
            self.no_blocks = Some(NoBlocks { why, again: None });
            return Ok(());
        };
        let store = Store::open(dir, hop.config());
        // Only opening is tried again: after that, blocks of the store may have been given to
        // `hop`, and they cannot be given to it twice.
        let again = store.is_err().then(|| self.clock.now() + OPEN_AGAIN);
        let opened = store.map_err(anyhow::Error::from);
        match opened.and_then(|store| Exchange::build(store, dir, plan, now, hop)) {
            Ok(exchange) => {
                (self.exchange, self.no_blocks) = (Some(exchange), None);
                // Timers of the exchange that are due since the clock began do not count as late.
                self.begun = None;
                Ok(())
            }
            Err(error) => {
                self.stack.flows.carry_blocks(false);
                self.no_blocks = Some(NoBlocks { why: format!("{error:#}"), again });
                Err(error)
            }
        }
    }

    /// Why no blocks are carried; `None` if they are.
    pub fn no_blocks(&self) -> Option<&str> {
        self.no_blocks.as_ref().map(|no| no.why.as_str())
    }

    /// Whether to call [`Driver::keep_blocks`] again after a failure.
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
