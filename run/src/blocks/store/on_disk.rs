//! Checks that the file of an open store is still the one in its folder, and that nobody cut it.

use std::cell::Cell;
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
    /// Its length after the last change, in bytes. Where it was cut and is then written to, the
    /// database would read zeros as its own.
    length: Cell<u64>,
}

impl OnDisk {
    /// The file of the store in a folder.
    ///
    /// Fails if there is none.
    pub(super) fn build(dir: &Path) -> io::Result<Self> {
        let file = fs::metadata(dir.join(FILE))?;
        let length = Cell::new(file.len());
        Ok(Self { dir: dir.to_owned(), number: number(&file), length })
    }

    /// Path of the file, even if it is gone.
    pub(super) fn path(&self) -> PathBuf {
        self.dir.join(FILE)
    }

    /// Checks that the open file is the one that a daemon would find in the folder, and has not
    /// become shorter since [`Self::changed`]. What is written to any other is lost with this
    /// process.
    ///
    /// Fails with [`StoreError::Gone`] or [`StoreError::Cut`] if it is not.
    pub(super) fn look(&self) -> Result<(), StoreError> {
        let file = self.find()?;
        if file.len() < self.length.get() {
            return Err(StoreError::Cut { path: self.path() });
        }
        Ok(())
    }

    /// The database has written to the file, which may have made it shorter. Checks that it was the
    /// one in the folder.
    ///
    /// Fails with [`StoreError::Gone`] if it was not.
    pub(super) fn changed(&self) -> Result<(), StoreError> {
        self.length.set(self.find()?.len());
        Ok(())
    }

    fn find(&self) -> Result<fs::Metadata, StoreError> {
        let path = self.path();
        match fs::metadata(&path) {
            Ok(file) if number(&file) == self.number => Ok(file),
            Ok(_) => Err(StoreError::Gone { path }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(StoreError::Gone { path }),
            Err(error) => Err(error.into()),
        }
    }
}

/// Device and inode numbers of a file.
fn number(file: &fs::Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}
