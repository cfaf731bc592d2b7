//! What can be wrong with a store.

use std::io;
use std::path::{Path, PathBuf};

/// Why something could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store itself.
    #[error("the block cache: {0}")]
    Store(redb::Error),
    /// What is there is something else, or broken.
    #[error(
        "{} cannot be read as a block cache ({error}): move it away, and a new one is made",
        path.display()
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: redb::Error,
    },
    /// What is there was changed by somebody else while it was open.
    #[error(
        "{} was damaged ({error}): move it away and start the daemon anew, which makes a new one",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: redb::Error,
    },
    /// Somebody took it away while it was open.
    #[error(
        "{} is gone: put it back, or start the daemon anew, which makes a new one", path.display()
    )]
    Gone {
        /// The file.
        path: PathBuf,
    },
    /// Another daemon has it open.
    #[error(
        "another daemon keeps its blocks in {}: give each a folder of its own with --state",
        dir.display()
    )]
    Held {
        /// The folder of the node.
        dir: PathBuf,
    },
    /// The system.
    #[error("the folder of the block cache: {0}")]
    Io(io::Error),
}

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl StoreError {
    /// Whether it only says that there was another error before.
    pub(in crate::blocks) fn is_consequence(&self) -> bool {
        matches!(self, Self::Store(redb::Error::PreviousIo))
    }

    /// What an error says of a file that is being opened.
    pub(super) fn on_open(self, path: &Path) -> Self {
        match self {
            Self::Store(error) if is_of_content(&error) => {
                Self::Unreadable { path: path.to_owned(), error }
            }
            Self::Store(redb::Error::DatabaseAlreadyOpen) => {
                Self::Held { dir: path.parent().unwrap_or(path).to_owned() }
            }
            other => other,
        }
    }

    /// The same, of a file that is open: it was right when that was done.
    pub(super) fn while_open(self, path: &Path) -> Self {
        match self {
            Self::Store(error) if is_of_content(&error) => {
                Self::Damaged { path: path.to_owned(), error }
            }
            other => other,
        }
    }
}

/// Whether an error is of what stands in the file.
fn is_of_content(error: &redb::Error) -> bool {
    use io::ErrorKind::{InvalidData, UnexpectedEof};
    match error {
        redb::Error::Corrupted(_) | redb::Error::UpgradeRequired(_) => true,
        redb::Error::Io(error) => [InvalidData, UnexpectedEof].contains(&error.kind()),
        _ => false,
    }
}
