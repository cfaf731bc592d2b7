//! Errors with keys: each message says in a sentence what is wrong, where, and what to do.

use std::io;
use std::path::{Path, PathBuf};

use super::file::STICKY;

/// What to do if something cannot be read or written.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "nothing was changed there: make room, or name another folder with --keys"
        }
        io::ErrorKind::PermissionDenied => {
            "run as the user who owns it, or name another folder with --keys"
        }
        _ => "put that right, or name another folder with --keys",
    }
}

/// Why a folder of keys cannot be used, or not in this way.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// No environment variable tells where the keys are.
    #[error("neither XDG_CONFIG_HOME nor HOME is set: name a folder for keys with --keys")]
    NoFolder,
    /// A file is where the folder, or one above it, should be.
    #[error("{} is a file: --keys takes the folder of the keys, which is made if it is not \
        there", path.display())]
    NoFolderThere {
        /// The file.
        path: PathBuf,
    },
    /// The folder cannot be written.
    #[error("cannot write in {}: {error}; {}", dir.display(), remedy(error))]
    Unwritable {
        /// The folder.
        dir: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// A file cannot be read.
    #[error("cannot read {}: {error}; {}", path.display(), remedy(error))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// The file of the own key is cut short.
    #[error("{} is cut short: put it back from a copy, or remove it, and `farhop keys` makes a \
        new key, which all neighbours must then trust", path.display())]
    Short {
        /// The file.
        path: PathBuf,
    },
    /// The own key is no valid base64 of 32 bytes.
    #[error("{} is damaged: its second line is not 32 bytes in base64; put it back from a copy, \
        or remove it, and `farhop keys` makes a new key, which all neighbours must then trust",
        path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// Others can read or change the own key.
    #[error("{} is open to others (mode {mode:04o}): `chmod 600 {}`, and if somebody else may \
        have read it, remove it, and `farhop keys` makes a new key", path.display(),
        path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Others can change a file or folder.
    #[error("others can change {} (mode {mode:04o}): {}", path.display(),
        how_to_close(path, *mode))]
    Writable {
        /// The file or folder.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The file or folder belongs to another user, who can change it.
    #[error("{} belongs to user {owner}, who can change it: run as that user, or let all of a \
        folder that is for keys alone belong to user {us} (`chown -R {us} FOLDER`), or name \
        another folder with --keys", path.display())]
    Owner {
        /// The file or folder.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// The user of this process.
        us: u32,
    },
    /// It is no regular file.
    #[error("{} is {kind} and no file: move it away, or name another folder with --keys",
        path.display())]
    NoFile {
        /// The path.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// It is a dangling link.
    #[error("{} is a link to what is not there: put that back, or remove the link", path.display())]
    LooseLink {
        /// The link.
        path: PathBuf,
    },
    /// A newer farhop made the own key.
    #[error("{} is of version {version}, and this farhop knows version 1: use the newer farhop, or \
        another folder with --keys", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// The file of the own key is something else.
    #[error("{} is not a key of farhop: move it away, or name another folder with --keys",
        path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// There is no own key yet.
    #[error("there is no key in {}: `farhop keys` makes one", dir.display())]
    Missing {
        /// The folder.
        dir: PathBuf,
    },
    /// A line of the trusted keys is invalid.
    #[error("{}, line {line}: {reason}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The name is not valid for a node.
    #[error("'{name}' is not the name of a node: letters, digits and '-', at most 32 of them")]
    Name {
        /// The name.
        name: String,
    },
    /// The key would have two names.
    #[error(
        "the key {fingerprint} has two names, '{name}' and '{other}': a node has one; \
        `farhop keys revoke {name}` first, if '{other}' is right"
    )]
    KeyTwice {
        /// The key.
        fingerprint: String,
        /// The name that it has.
        name: String,
        /// The name that it was to get.
        other: String,
    },
    /// The name would have two keys.
    #[error(
        "'{name}' has the key {fingerprint} already, and {other} is another: if the node has \
        a new key, `farhop keys revoke {name}` first"
    )]
    NameTwice {
        /// The name.
        name: String,
        /// The key that it has.
        fingerprint: String,
        /// The key that it was to get.
        other: String,
    },
    /// The key was revoked, and the user did not say `--again`.
    #[error("the key {fingerprint}{} was revoked{}: a node that was stolen gets a new key; if this \
        one is safe after all, `farhop keys trust` with --again",
        if name == fingerprint { String::new() } else { format!(" of '{name}'") },
        if since.is_empty() { String::new() } else { format!(" on {since}") })]
    WasRevoked {
        /// The key.
        fingerprint: String,
        /// The node that had it, or the fingerprint.
        name: String,
        /// The day on which it was revoked; empty if unknown.
        since: String,
    },
    /// The own key was to be trusted as that of another node.
    #[error("the key {fingerprint} is this node's own (in {}): trust it on the neighbours; two \
        nodes with one key do not work", dir.display())]
    Own {
        /// The key.
        fingerprint: String,
        /// The folder with the own key.
        dir: PathBuf,
    },
    /// Another daemon on this host runs with this key.
    #[error("{} runs with the key in {} already: give each node a folder of its own with --keys",
        by.as_ref().map_or("another daemon".into(), |name| format!("the daemon of '{name}'")),
        dir.display())]
    Held {
        /// The node of the other daemon, if known.
        by: Option<String>,
        /// The folder.
        dir: PathBuf,
    },
    /// The scenario gives this node another key than its own.
    #[error("the scenario says that '{name}' has the key {scenario}, but the key in {} is {own}: \
        put the line of `farhop keys` into the scenario, or name the right folder with --keys",
        dir.display())]
    OwnDiffers {
        /// This node.
        name: String,
        /// The fingerprint in the scenario.
        scenario: String,
        /// The fingerprint of the own key.
        own: String,
        /// The folder.
        dir: PathBuf,
    },
    /// The key of another node is trusted under the name of this one.
    #[error(
        "the key {fingerprint} is trusted as '{name}', which is this node itself: most likely \
        --node or --keys is of another node ({} holds this key); if they are right, `farhop keys \
        revoke {name} --keys {}` and trust it under the name of its own node",
        dir.display(), dir.display()
    )]
    OwnName {
        /// This node.
        name: String,
        /// The trusted key.
        fingerprint: String,
        /// The folder.
        dir: PathBuf,
    },
    /// The scenario and the trusted keys give a node different keys.
    #[error("'{name}' has the key {scenario} in the scenario and {trusted} in {}: `farhop keys \
        revoke` the wrong one of the two, by its fingerprint", path.display())]
    Contradiction {
        /// The node.
        name: String,
        /// The fingerprint in the scenario.
        scenario: String,
        /// The fingerprint among the trusted keys.
        trusted: String,
        /// The file with the trusted keys.
        path: PathBuf,
    },
    /// No key has this name, line or fingerprint.
    #[error(
        "no trusted key of '{who}': `farhop keys list` shows them; what only a scenario \
        names is revoked by its whole line"
    )]
    Unknown {
        /// What was asked for.
        who: String,
    },
}

impl KeysError {
    /// Whether the error lasts until somebody corrects the folder or its contents, so that trying
    /// again does not help. Errors in a command, and another running daemon, do not count.
    pub fn is_of_folder(&self) -> bool {
        use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
        match self {
            Self::Unwritable { error, .. } | Self::Unreadable { error, .. } => {
                matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem)
            }
            Self::NoFolder
            | Self::NoFolderThere { .. }
            | Self::Short { .. }
            | Self::Damaged { .. }
            | Self::Open { .. }
            | Self::Writable { .. }
            | Self::Owner { .. }
            | Self::NoFile { .. }
            | Self::LooseLink { .. }
            | Self::Newer { .. }
            | Self::Foreign { .. }
            | Self::Line { .. }
            | Self::OwnDiffers { .. }
            | Self::OwnName { .. }
            | Self::Contradiction { .. } => true,
            Self::Missing { .. }
            | Self::Name { .. }
            | Self::KeyTwice { .. }
            | Self::NameTwice { .. }
            | Self::WasRevoked { .. }
            | Self::Own { .. }
            | Self::Held { .. }
            | Self::Unknown { .. } => false,
        }
    }
}

/// What to do about a file or folder that others can change.
fn how_to_close(path: &Path, mode: u32) -> String {
    if mode & STICKY != 0 {
        return "it is for all, so name another folder with --keys".into();
    }
    let close = format!(
        "`chmod go-w {}`, and look with `farhop keys list` that nobody has",
        path.display()
    );
    match path.is_dir() {
        true => format!("if it is for keys alone {close}; else name another folder with --keys"),
        false => close,
    }
}
