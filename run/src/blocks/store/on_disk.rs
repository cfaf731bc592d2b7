//! Checks that the file of an open store is still the one in its folder.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::{FILE, StoreError};

/// The file of a store.
pub(super) struct OnDisk {
    /// Folder of the file.
    pub(super) dir: PathBuf,
    /// Device and inode numbers of the file.
    number: (u64, u64),
}

impl OnDisk {
    /// The file of the store in a folder.
    ///
    /// Fails if there is none.
    pub(super) fn build(dir: &Path) -> io::Result<Self> {
        let number = number(&dir.join(FILE))?;
        Ok(Self { dir: dir.to_owned(), number })
    }

    /// Path of the file, even if it is gone.
    pub(super) fn path(&self) -> PathBuf {
        self.dir.join(FILE)
    }

    /// Checks that the open file is the one that a daemon would find in the folder. What is written
    /// to any other is lost with this process.
    ///
    /// Fails with [`StoreError::Gone`] if it is not.
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

/// Device and inode numbers of a file.
fn number(path: &Path) -> io::Result<(u64, u64)> {
    let data = fs::metadata(path)?;
    Ok((data.dev(), data.ino()))
}
