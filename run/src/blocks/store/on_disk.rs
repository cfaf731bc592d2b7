//! The file of a store that is open, as it stands in its folder.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::{FILE, StoreError};

/// The file of a store.
pub(super) struct OnDisk {
    /// Its folder.
    pub(super) dir: PathBuf,
    /// How long a block from here is.
    pub(super) block_bytes: u64,
    /// The numbers of its file system and of itself there.
    number: (u64, u64),
}

impl OnDisk {
    /// The one in a folder.
    ///
    /// Fails if there is none.
    pub(super) fn build(dir: &Path, block_bytes: u64) -> io::Result<Self> {
        let number = number(&dir.join(FILE))?;
        Ok(Self { dir: dir.to_owned(), block_bytes, number })
    }

    /// Where it is, or was.
    pub(super) fn path(&self) -> PathBuf {
        self.dir.join(FILE)
    }

    /// Whether the file that is open is the one that a daemon would find there: what is written
    /// into another one is gone with this process.
    ///
    /// Fails if it is not.
    pub(super) fn look(&self) -> Result<(), StoreError> {
        let path = self.path();
        match number(&path) {
            Ok(number) if number == self.number => Ok(()),
            Ok(_) => Err(StoreError::Gone { path }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(StoreError::Gone { path }),
            Err(error) => Err(error.into()),
        }
    }
}

/// What tells a file from others.
fn number(path: &Path) -> io::Result<(u64, u64)> {
    let data = fs::metadata(path)?;
    Ok((data.dev(), data.ino()))
}
