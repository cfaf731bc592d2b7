//! Sockets of blocks, for programs that must not lose any.

use std::io;
use std::time::Duration;

use serde::Deserialize;

use super::{Daemon, Line, SocketError};
use crate::daemon::ControlError;
use crate::daemon::client::ask;
use crate::daemon::control::Request;
use crate::sockets::Wish;
use crate::sockets::channel::Kind;

/// How often a program that waits for its daemon is asked whether to go on.
pub(crate) const LOOK: Duration = Duration::from_millis(200);

/// Sends blocks to a service of a node, each delivered once and in order.
///
/// A block that was taken is delivered whatever becomes of this program, the daemons and their
/// hosts. A program that was restarted opens the flow again by its name, and continues with block
/// [`BlockSender::next`].
#[derive(Debug)]
pub struct BlockSender {
    daemon: Daemon,
    line: Line,
    id: u32,
    next: u32,
    arrived: u32,
    is_finished: bool,
    has_arrived: bool,
    block_bytes: usize,
}

/// The daemon's message about a flow.
#[derive(Deserialize)]
struct Opened {
    id: u32,
    next: u32,
    finished: bool,
    block_bytes: usize,
}

impl BlockSender {
    /// Opens the flow of this name to a service of a node, or continues it. Where no program
    /// listens for the service, the blocks wait until one does.
    ///
    /// Fails if no daemon runs, there is no such node, or it refused the flow.
    pub fn open(daemon: &Daemon, to: &str, service: &str, name: &str) -> Result<Self, SocketError> {
        let (to, service, name) = (to.into(), service.into(), name.into());
        let line = daemon.ask(Wish::SendBlocks { to, service, name }, &[])?;
        Self::opened(daemon, line)
    }

    /// Opens a flow for a file, which `farhop receive` fetches at the other node; the blocks are
    /// its bytes. While the daemon does not answer, as where its disk does not, `goes_on` is asked
    /// every so often, and may end it.
    pub(crate) fn push(
        daemon: &Daemon,
        (to, file, name): (&str, &str, &str),
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<Self, SocketError> {
        let (to, file, name) = (to.into(), file.into(), name.into());
        let line = daemon.ask(Wish::Push { to, file, name }, &[])?;
        while !line.is_readable(LOOK)? {
            if !goes_on() {
                return Err(SocketError::Broken("interrupted".into()));
            }
        }
        Self::opened(daemon, line)
    }

    fn opened(daemon: &Daemon, mut line: Line) -> Result<Self, SocketError> {
        let text = line.wait_until_open()?;
        let Opened { id, next, finished: is_finished, block_bytes } =
            serde_json::from_slice(&text).map_err(io::Error::from)?;
        let (arrived, has_arrived) = (0, false);
        let daemon = daemon.clone();
        Ok(Self { daemon, line, id, next, arrived, is_finished, has_arrived, block_bytes })
    }

    /// Number of the next block; all before it were taken.
    pub fn next(&self) -> u32 {
        self.next
    }

    /// Most bytes of a block.
    pub fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// How many blocks, from the first, are known to be stored at the destination.
    pub fn arrived(&self) -> u32 {
        self.arrived
    }

    /// Whether the flow was finished, also if that was before a restart.
    pub fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// Sends a block; returns its number once it is taken. Waits while there is no room because
    /// earlier blocks are not passed on.
    ///
    /// Fails if the flow was refused or given up, or the daemon is gone. Then the block may or may
    /// not have been taken: [`BlockSender::next`] tells after the flow is opened again.
    ///
    /// Panics if the flow is finished, or the block is too long.
    pub fn send(&mut self, block: &[u8]) -> Result<u32, SocketError> {
        let number = self.next;
        self.begin(block)?;
        while self.next == number {
            self.hear()?;
        }
        Ok(number)
    }

    /// Gives the daemon a block; once it is taken [`BlockSender::next`] increases.
    pub(crate) fn begin(&mut self, block: &[u8]) -> Result<(), SocketError> {
        assert!(!self.is_finished, "nothing comes behind the end");
        assert!(block.len() <= self.block_bytes, "a block of at most {} bytes", self.block_bytes);
        let record = [&self.next.to_be_bytes(), block].concat();
        Ok(self.line.put(Kind::Data, &record)?)
    }

    /// Whether the flow is finished and all its blocks have arrived.
    pub(crate) fn has_arrived(&self) -> bool {
        self.has_arrived
    }

    /// Handles a record of the daemon, if one comes within the time limit.
    pub(crate) fn hear_within(&mut self, limit: Duration) -> Result<(), SocketError> {
        if self.line.is_readable(limit)? { self.hear() } else { Ok(()) }
    }

    /// Finishes the flow: no more blocks follow.
    ///
    /// Fails if the daemon is gone.
    pub fn finish(&mut self) -> Result<(), SocketError> {
        self.finish_with(&[])
    }

    pub(crate) fn finish_with(&mut self, trailer: &[u8]) -> Result<(), SocketError> {
        if !self.is_finished {
            self.is_finished = true;
            self.line.put(Kind::Finish, trailer)?;
        }
        Ok(())
    }

    /// Waits until all blocks have arrived.
    ///
    /// Fails if the flow was refused or given up, or the daemon is gone.
    ///
    /// Panics if the flow was not finished.
    pub fn wait_until_arrived(&mut self) -> Result<(), SocketError> {
        assert!(self.is_finished, "it has an end");
        while !self.has_arrived {
            self.hear()?;
        }
        Ok(())
    }

    /// Gives the flow up, with the blocks that were taken and have not arrived.
    ///
    /// Fails if the daemon is gone, or all blocks have arrived.
    pub fn cancel(self) -> Result<(), ControlError> {
        ask(self.daemon.path(), Request::Cancel { id: self.id }).map(drop)
    }

    fn hear(&mut self) -> Result<(), SocketError> {
        let (kind, payload) = self.line.record()?;
        let number = || payload.get(..4).map(|n| u32::from_be_bytes([n[0], n[1], n[2], n[3]]));
        match kind {
            Kind::Taken if number() == Some(self.next) => self.next += 1,
            Kind::Arrived => self.arrived = number().unwrap_or(self.arrived),
            Kind::Finish => self.has_arrived = true,
            _ => {}
        }
        Ok(())
    }
}

/// Listens for flows of blocks to a service of this node.
#[derive(Debug)]
pub struct BlockListener {
    daemon: Daemon,
    line: Line,
}

/// A flow of blocks that a program at another node sends.
#[derive(Clone, Debug, Deserialize)]
pub struct IncomingBlocks {
    id: String,
    from: String,
    name: String,
}

impl BlockListener {
    /// Listens for a service; only one program at a time can. Unfinished flows are announced again.
    ///
    /// Fails if no daemon runs, or another program listens for the service.
    pub fn bind(daemon: &Daemon, service: &str) -> Result<Self, SocketError> {
        let mut line = daemon.ask(Wish::ListenBlocks { service: service.into() }, &[])?;
        line.wait_until_open()?;
        Ok(Self { daemon: daemon.clone(), line })
    }

    /// Waits for the next flow.
    ///
    /// Fails if the daemon is gone.
    pub fn next_incoming(&mut self) -> Result<IncomingBlocks, SocketError> {
        loop {
            if let (Kind::Incoming, text) = self.line.record()? {
                return Ok(serde_json::from_slice(&text).map_err(io::Error::from)?);
            }
        }
    }

    /// Takes a flow, from another program if one has it.
    ///
    /// Fails if the flow is finished.
    pub fn accept(&self, incoming: &IncomingBlocks) -> Result<BlockReceiver, SocketError> {
        let mut line = self.daemon.ask(Wish::TakeBlocks { id: incoming.id.clone() }, &[])?;
        line.wait_until_open()?;
        Ok(BlockReceiver { line })
    }

    /// Refuses a flow: deletes what arrived of it, and tells its sender.
    ///
    /// Fails if the daemon is gone.
    pub fn refuse(&mut self, incoming: &IncomingBlocks) -> Result<(), SocketError> {
        Ok(self.line.put(Kind::Refuse, incoming.id.as_bytes())?)
    }
}

impl IncomingBlocks {
    /// Name of the node that it comes from.
    pub fn from(&self) -> &str {
        &self.from
    }

    /// Its sender's name for the flow.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Receives the blocks of a flow, in order.
///
/// Until a block is confirmed it is given again to each program that takes the flow. A program that
/// must handle each block exactly once stores its number together with the result.
#[derive(Debug)]
pub struct BlockReceiver {
    line: Line,
}

impl BlockReceiver {
    /// Waits for the next block and its number; `None` after the last. At most two blocks are given
    /// before they are [confirmed](Self::confirm).
    ///
    /// Fails if the daemon is gone, or another program has taken the flow.
    pub fn receive(&mut self) -> Result<Option<(u32, Vec<u8>)>, SocketError> {
        loop {
            match self.line.record()? {
                (Kind::Data, mut block) if block.len() >= 4 => {
                    let rest = block.split_off(4);
                    let number = u32::from_be_bytes([block[0], block[1], block[2], block[3]]);
                    return Ok(Some((number, rest)));
                }
                (Kind::Finish, _) => return Ok(None),
                _ => {}
            }
        }
    }

    /// Says that the program has stored the block with this number: the daemon deletes it.
    ///
    /// Fails if the daemon is gone.
    pub fn confirm(&mut self, number: u32) -> Result<(), SocketError> {
        Ok(self.line.put(Kind::Confirm, &number.to_be_bytes())?)
    }
}
