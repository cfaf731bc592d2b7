//! Tasks for the [clerk](super::clerk), and their results.

use bytes::Bytes;
use farhop_proto::transport::hop::{Delivery, Whole};
use farhop_proto::wire::hop::{BlockId, FlowKey, Refusal};

use crate::files::{Incoming, Outgoing, Part};
use crate::sockets::{Receiving, Sending};

/// A task for the clerk.
#[derive(Debug)]
pub(crate) enum Task {
    /// Store a block that passes through.
    Keep(Whole),
    /// Delete it.
    Drop(BlockId),
    /// Read it.
    Get(BlockId),
    /// Write a block of a file that arrives here.
    Deliver(Delivery),
    /// Read a block of a file that is sent from here.
    Read(Box<Outgoing>, u32, Part),
    /// Record the state of a file that is sent from here.
    Note(Box<Outgoing>),
    /// Forget a file that was sent from here.
    Forget(u32),
    /// Delete the bytes of a file that arrived here.
    Fetched(Box<Incoming>),
    /// Forget a file that arrived here, but that it did.
    ForgetIncoming(Box<Incoming>),
    /// Give up a file that arrives here, for this reason.
    GiveUp(FlowKey, &'static str),
    /// Store a block that a program here sends.
    Hold(Box<(Whole, Sending)>),
    /// Delete one of these: it has arrived, or was given up.
    Sent(BlockId, Box<Sending>),
    /// Forget a flow of blocks that was sent from here.
    ForgetSending(u32),
    /// Store a block for a program here.
    Letter(Box<(Delivery, Receiving)>),
    /// Read one of these.
    Fetch(BlockId),
    /// Delete one of these: the program has it.
    Confirm(BlockId, Box<Receiving>),
    /// Forget a flow of blocks for a program here, but that it ended.
    ForgetReceiving(Box<Receiving>),
}

impl Task {
    /// How many bytes of a block it adds to the store.
    pub(super) fn stored_bytes(&self) -> u64 {
        let shape = match self {
            Self::Keep(whole) => whole.shape,
            Self::Hold(held) => held.0.shape,
            Self::Letter(letter) => letter.0.shape,
            _ => return 0,
        };
        shape.length.into()
    }
}

/// The result of a task.
#[derive(Debug)]
pub(crate) enum Done {
    /// A block is stored.
    Kept(BlockId),
    /// A block could not be stored.
    NotKept(BlockId),
    /// A stored block; `None` if it could not be read.
    Got(BlockId, Option<Whole>),
    /// A block of a file that arrives here is safe.
    Accepted(BlockId, Incoming),
    /// The file is refused.
    Refused(BlockId, Refusal),
    /// The present state of a file that arrived here.
    Stands(Incoming),
    /// The record that a file was fetched is on disk, or a restart would recognise it.
    LetGo(String),
    /// The state of a file that is sent from here is recorded.
    Noted(u32),
    /// The state of a file could not be recorded.
    NotNoted(u32),
    /// A block of a file from here: the numbers of its flow and its own, its bytes, if it is last.
    Read(u32, u32, Bytes, bool),
    /// The block cannot be read now.
    NotRead(u32, u32),
    /// The file cannot be read at all, for this reason.
    Unreadable(u32, String),
    /// A block that a program here sends is stored.
    Held(Whole),
    /// A block of this flow could not be stored.
    NotHeld(u32),
    /// A block for a program here is stored.
    Letter(BlockId),
    /// A block for a program here; `None` if it could not be read.
    Fetched(BlockId, Option<Bytes>),
    /// Why nothing can be stored from now on; `None` if it can again.
    Trouble(Option<String>),
}
