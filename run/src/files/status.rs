//! Requests of clients about files, and the answers.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::records::{FileInfo, State};

/// A request to send a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SendFile {
    /// Absolute path of the file.
    pub path: PathBuf,
    /// Name of the destination.
    pub to: String,
    /// Name of the file at its destination.
    pub name: String,
    /// Its length in bytes.
    pub size: u64,
    /// SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
    /// When the file was last changed before its checksum was computed, in nanoseconds since 1970.
    /// Earlier clients did not send this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_ns: Option<u64>,
}

/// A file that is sent from here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutgoingStatus {
    /// Number of the file at this node.
    pub id: u32,
    /// Path of the file; empty if a program pushes it.
    pub path: PathBuf,
    /// Name of the destination.
    pub to: String,
    /// Name of the file at its destination.
    pub name: String,
    /// Its length in bytes; 0 while a program is pushing it.
    pub size: u64,
    /// Whether a program pushes it, so that its length is known only at its end. Earlier daemons
    /// did not list such files.
    #[serde(default)]
    pub streamed: bool,
    /// Bytes that the destination has; approximate for a pushed file.
    pub arrived: u64,
    /// Approximate number of bytes after these that are on their way, or that arrived before
    /// earlier ones. Earlier daemons did not send this.
    #[serde(default)]
    pub under_way: u64,
    /// Whether it is recorded on disk, so that it continues after any restart. Earlier daemons did
    /// not send this.
    #[serde(default = "said_nothing")]
    pub is_kept: bool,
    /// Its state.
    pub state: State,
}

fn said_nothing() -> bool {
    true
}

/// A file that arrives, or arrived, here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IncomingStatus {
    /// Its id at this node.
    pub id: String,
    /// Name of its sender.
    pub from: String,
    /// Its description.
    pub info: FileInfo,
    /// Bytes that have arrived.
    pub received: u64,
    /// Its state.
    pub state: State,
    /// Path of the file once it is complete.
    pub path: PathBuf,
}

/// All files of a daemon.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FilesStatus {
    /// Number of the node. Earlier daemons did not send this: then it is 0.
    #[serde(default)]
    pub node: u16,
    /// Files that are sent from here: the oldest first, pushed files last.
    pub outgoing: Vec<OutgoingStatus>,
    /// Files for this node.
    pub incoming: Vec<IncomingStatus>,
}
