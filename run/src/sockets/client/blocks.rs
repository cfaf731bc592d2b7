//! Sockets of blocks, for programs that must not lose one.

use std::io;
use std::time::Duration;

use serde::Deserialize;

use super::{Daemon, Line, SocketError};
use crate::daemon::ControlError;
use crate::daemon::client::ask;
use crate::daemon::control::Request;
use crate::sockets::Wish;
use crate::sockets::channel::Kind;

/// Sends blocks to a service of a node, each delivered once and in order.
///
/// A block that was taken goes its way whatever becomes of this program, of the daemons and of
/// their hosts. A program that began anew opens the flow again by its name, and goes on with the
/// block that [`BlockSender::next`] names.
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

/// What a daemon says of a flow.
#[derive(Deserialize)]
struct Opened {
    id: u32,
    next: u32,
    finished: bool,
    block_bytes: usize,
}

impl BlockSender {
    /// Opens the flow of this name to a service of a node, or goes on with it.
    ///
    /// Fails if no daemon runs, there is no such node, or it refused the flow.
    pub fn open(daemon: &Daemon, to: &str, service: &str, name: &str) -> Result<Self, SocketError> {
        let (to, service, name) = (to.into(), service.into(), name.into());
        Self::ask(daemon, Wish::SendBlocks { to, service, name })
    }

    /// The same for a file, which `farhop receive` fetches there: its bytes cut into blocks.
    pub(crate) fn push(
        daemon: &Daemon,
        to: &str,
        file: &str,
        name: &str,
    ) -> Result<Self, SocketError> {
        let (to, file, name) = (to.into(), file.into(), name.into());
        Self::ask(daemon, Wish::Push { to, file, name })
    }

    fn ask(daemon: &Daemon, wish: Wish) -> Result<Self, SocketError> {
        let mut line = daemon.ask(wish, &[])?;
        let text = line.wait_until_open()?;
        let Opened { id, next, finished: is_finished, block_bytes } =
            serde_json::from_slice(&text).map_err(io::Error::from)?;
        let (arrived, has_arrived) = (0, false);
        let daemon = daemon.clone();
        Ok(Self { daemon, line, id, next, arrived, is_finished, has_arrived, block_bytes })
    }

    /// Number of the block that is next; all before it were taken.
    pub fn next(&self) -> u32 {
        self.next
    }

    /// Bytes of a block at most.
    pub fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// Blocks of which it is known that the other end has them, or keeps them for its program.
    pub fn arrived(&self) -> u32 {
        self.arrived
    }

    /// Whether the flow was finished, by this program or before it began anew.
    pub fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// Sends a block; returns its number once it is taken. It waits while the ones before it do not
    /// go on.
    ///
    /// Fails if the flow was refused or given up, or the daemon is gone: then it is not known
    /// whether the block was taken, and [`BlockSender::open`] tells.
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

    /// Gives the daemon a block; [`BlockSender::next`] is another once it is taken.
    pub(crate) fn begin(&mut self, block: &[u8]) -> Result<(), SocketError> {
        assert!(!self.is_finished, "nothing comes behind the end");
        assert!(block.len() <= self.block_bytes, "a block of at most {} bytes", self.block_bytes);
        let record = [&self.next.to_be_bytes(), block].concat();
        Ok(self.line.put(Kind::Data, &record)?)
    }

    /// Whether all blocks have arrived, and no more come.
    pub(crate) fn has_arrived(&self) -> bool {
        self.has_arrived
    }

    /// Hears of the daemon, if it says something soon.
    pub(crate) fn hear_within(&mut self, limit: Duration) -> Result<(), SocketError> {
        if self.line.is_readable(limit)? { self.hear() } else { Ok(()) }
    }

    /// Says that no more blocks come.
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
    /// Panics if it was not finished.
    pub fn wait_until_arrived(&mut self) -> Result<(), SocketError> {
        assert!(self.is_finished, "it has an end");
        while !self.has_arrived {
            self.hear()?;
        }
        Ok(())
    }

    /// Gives the flow up, with what was taken and has not gone on.
    ///
    /// Fails if the daemon is gone, or all has arrived.
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

/// Hears of blocks for a service of this node.
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
    /// Listens for a service; one program can. Flows that were begun before are told of again.
    ///
    /// Fails if no daemon runs, or another program listens for it.
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

    /// Takes a flow.
    ///
    /// Fails if it is over.
    pub fn accept(&self, incoming: &IncomingBlocks) -> Result<BlockReceiver, SocketError> {
        let mut line = self.daemon.ask(Wish::TakeBlocks { id: incoming.id.clone() }, &[])?;
        line.wait_until_open()?;
        Ok(BlockReceiver { line })
    }

    /// Does not take a flow, and forgets what came of it: its sender hears so.
    ///
    /// Fails if the daemon is gone.
    pub fn refuse(&mut self, incoming: &IncomingBlocks) -> Result<(), SocketError> {
        Ok(self.line.put(Kind::Refuse, incoming.id.as_bytes())?)
    }
}

impl IncomingBlocks {
    /// The node that it comes from.
    pub fn from(&self) -> &str {
        &self.from
    }

    /// What its sender calls it.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Receives blocks, in order.
///
/// A block is given again, to the next one that takes the flow, until it was confirmed. A program
/// that must have each once keeps the number of the last one with what it makes of it.
#[derive(Debug)]
pub struct BlockReceiver {
    line: Line,
}

impl BlockReceiver {
    /// Waits for the next block, and tells its number; nothing behind the last one. At most two are
    /// given that are not [confirmed](Self::confirm).
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

    /// The block with this number is safe with the program: the daemon forgets it.
    ///
    /// Fails if the daemon is gone.
    pub fn confirm(&mut self, number: u32) -> Result<(), SocketError> {
        Ok(self.line.put(Kind::Confirm, &number.to_be_bytes())?)
    }
}
