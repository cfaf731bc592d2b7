//! Whether a daemon carries blocks: where they are kept, and why they are not.

use std::path::Path;

use farhop_proto::base::{Duration, Instant};
use farhop_proto::stack::NodePlan;
use farhop_proto::transport::hop::Hop;

use super::super::blocks::BlocksStatus;
use super::Driver;
use crate::blocks::{Exchange, Store};
use crate::sockets::SocketsStatus;

/// After so long it is tried once more to open what blocks are kept in.
const OPEN_AGAIN: Duration = Duration::from_secs(20);

/// Why no blocks are carried.
#[derive(Debug)]
pub(super) struct NoBlocks {
    why: String,
    /// When it is due that this is tried to be changed, if it can be.
    again: Option<Instant>,
}

impl Driver {
    /// Has blocks and files kept in a folder; to be called before the first turn, and once more
    /// when [`Driver::is_due_to_keep`]. Without a folder, or where it cannot be used, no blocks are
    /// carried: what would be acknowledged is not safe.
    ///
    /// Fails if it cannot be used.
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
        // What the machine was told of it after that cannot be told once more.
        let again = store.is_err().then(|| self.clock.now() + OPEN_AGAIN);
        let opened = store.map_err(anyhow::Error::from);
        match opened.and_then(|store| Exchange::build(store, dir, plan, now, hop)) {
            Ok(exchange) => {
                (self.exchange, self.no_blocks) = (Some(exchange), None);
                // What is due of it since time began is not late.
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

    /// Why no blocks are carried, if that was to be so.
    pub fn no_blocks(&self) -> Option<&str> {
        self.no_blocks.as_ref().map(|no| no.why.as_str())
    }

    /// Whether [`Driver::keep_blocks`] may do now what it could not do before.
    pub fn is_due_to_keep(&self) -> bool {
        self.due_to_keep().is_some_and(|due| due <= self.clock.now())
    }

    /// When that is so.
    pub(super) fn due_to_keep(&self) -> Option<Instant> {
        self.no_blocks.as_ref().and_then(|no| no.again)
    }

    /// Who moves blocks, and the machine that they belong to; what follows comes at once.
    pub fn blocks(&mut self) -> Option<(&mut Exchange, &mut Hop)> {
        self.is_cut = true;
        Some((self.exchange.as_mut()?, self.stack.flows.hop_outside()?))
    }

    /// Whether blocks are carried, and what is wrong with that.
    pub fn blocks_status(&self) -> BlocksStatus {
        let exchange = self.exchange.as_ref();
        let trouble = exchange.map_or(self.no_blocks(), Exchange::trouble);
        BlocksStatus { are_carried: exchange.is_some(), trouble: trouble.map(str::to_owned) }
    }

    /// What is known of sockets; nothing where no blocks are carried.
    pub fn sockets(&self) -> Option<SocketsStatus> {
        self.exchange.as_ref().map(Exchange::sockets)
    }
}
