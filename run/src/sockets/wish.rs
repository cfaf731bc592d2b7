//! What a program asks for when it asks for a socket.

use serde::{Deserialize, Serialize};

use super::{channel, datagrams};

/// Which socket a program wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "socket", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Wish {
    /// A stream to a service of a node.
    Connect {
        /// The node.
        to: String,
        /// The service.
        service: String,
    },
    /// Listen for streams to a service of this node.
    Listen {
        /// The service.
        service: String,
    },
    /// Accept a stream that a listener was told of.
    Accept {
        /// Number of the stream.
        id: u32,
    },
    /// Send blocks to a service of a node, or continue to.
    SendBlocks {
        /// The node.
        to: String,
        /// The service.
        service: String,
        /// The program's name for the flow.
        name: String,
    },
    /// Send a file whose length is not known yet, or continue to.
    Push {
        /// The node.
        to: String,
        /// Name of the file at its destination.
        file: String,
        /// The program's name for the flow.
        name: String,
    },
    /// Listen for flows of blocks to a service of this node.
    ListenBlocks {
        /// The service.
        service: String,
    },
    /// Send datagrams, and receive those for a service of this node.
    Bind {
        /// The service.
        service: String,
    },
    /// Take a flow of blocks that a listener was told of.
    TakeBlocks {
        /// Id of the flow at this node.
        id: String,
    },
}

impl Wish {
    /// Longest record of a program with this socket; `None` if it has little to say.
    pub(super) fn record_bytes(&self) -> Option<usize> {
        match self {
            Self::Connect { .. } | Self::Accept { .. } => Some(channel::STREAM_BYTES),
            Self::SendBlocks { .. } | Self::Push { .. } => Some(channel::RECORD_BYTES),
            Self::Bind { .. } => Some(datagrams::RECORD_BYTES),
            Self::Listen { .. } | Self::ListenBlocks { .. } | Self::TakeBlocks { .. } => None,
        }
    }
}
