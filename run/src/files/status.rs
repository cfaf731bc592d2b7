//! What clients ask of files and are told of them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::records::{FileInfo, State};

/// What a client wants sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SendFile {
    /// Where the file is.
    pub path: PathBuf,
    /// The node that it is for.
    pub to: String,
    /// Its name there.
    pub name: String,
    /// Its length in bytes.
    pub size: u64,
    /// SHA-256 over its bytes, in hexadecimal.
    pub sha256: String,
    /// When it was last changed before that was computed, in nanoseconds since 1970. Clients before
    /// did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_ns: Option<u64>,
}

/// A file that is sent from here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutgoingStatus {
    /// Number here.
    pub id: u32,
    /// Where it is; nowhere if a program pushes it.
    pub path: PathBuf,
    /// The destination.
    pub to: String,
    /// Its name there.
    pub name: String,
    /// Bytes; none while they come from a program that pushes them.
    pub size: u64,
    /// Whether a program pushes it, so that its length comes at its end. Daemons before did not
    /// list such files.
    #[serde(default)]
    pub streamed: bool,
    /// Bytes that the destination has; of a file that is pushed about.
    pub arrived: u64,
    /// Bytes behind them that are on their way or came before others, about. Daemons before did
    /// not say.
    #[serde(default)]
    pub under_way: u64,
    /// Whether it is written down, so that it goes on whatever ends. Daemons before did not say.
    #[serde(default = "said_nothing")]
    pub is_kept: bool,
    /// How it stands.
    pub state: State,
}

fn said_nothing() -> bool {
    true
}

/// A file that comes or came here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IncomingStatus {
    /// Name among all that came.
    pub id: String,
    /// The sender.
    pub from: String,
    /// What the file is.
    pub info: FileInfo,
    /// Bytes that are here.
    pub received: u64,
    /// How it stands.
    pub state: State,
    /// Where it is, once it is whole.
    pub path: PathBuf,
}

/// All files of a daemon.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FilesStatus {
    /// Number of the node that they are of. Daemons before did not say: it is 0 then.
    #[serde(default)]
    pub node: u16,
    /// Sent from here: the older first, and then those that programs push.
    pub outgoing: Vec<OutgoingStatus>,
    /// For here.
    pub incoming: Vec<IncomingStatus>,
}
