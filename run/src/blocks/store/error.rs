//! Errors of the store.

use std::io;
use std::path::{Path, PathBuf};

/// Why something could not be stored.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// An error of the database.
    #[error("the block cache: {0}")]
    Store(redb::Error),
    /// The file is no store, or damaged.
    #[error(
        "{} cannot be read as a block cache ({error}): move it away, and a new one is made",
        path.display()
    )]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong with it.
        error: redb::Error,
    },
    /// The file was changed by another program while it was open.
    #[error(
        "{} was damaged ({error}): move it away and start the daemon anew, which makes a new one",
        path.display()
    )]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong with it.
        error: redb::Error,
    },
    /// The file was removed while it was open.
    #[error(
        "{} is gone: put it back, or start the daemon anew, which makes a new one", path.display()
    )]
    Gone {
        /// Path of the file.
        path: PathBuf,
    },
    /// The file was made shorter while it was open.
    #[error(
        "{} was cut: move it away and start the daemon anew, which makes a new one", path.display()
    )]
    Cut {
        /// Path of the file.
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
    /// An error of the operating system.
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

    /// Makes an error more specific for a file that is being opened.
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

    /// Makes an error more specific for an open file: its content was right when it was opened.
    pub(super) fn while_open(self, path: &Path) -> Self {
        match self {
            Self::Store(error) if is_of_content(&error) => {
                Self::Damaged { path: path.to_owned(), error }
            }
            other => other,
        }
    }
}

/// Whether an error comes from the content of the file.
fn is_of_content(error: &redb::Error) -> bool {
    use io::ErrorKind::{InvalidData, UnexpectedEof};
    match error {
        redb::Error::Corrupted(_) | redb::Error::UpgradeRequired(_) => true,
        redb::Error::Io(error) => [InvalidData, UnexpectedEof].contains(&error.kind()),
        _ => false,
    }
}
