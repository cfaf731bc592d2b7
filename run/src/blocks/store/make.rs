//! How the file of a store is made: whole, or not at all.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use redb::Database;
use redb::backends::FileBackend;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::{FILE, StoreError};

/// Name of the file until it is made.
const HIDDEN: &str = ".blocks.redb";
/// Bytes at its begin that say what it is, once it is made.
const MARK_BYTES: usize = 9;

/// Makes the file of a store in a folder that has none. It has its own name once it is whole: what
/// is left of one where the daemon was killed is no store, and nothing can be written there.
///
/// Fails if it cannot be written, or another process is about to do the same.
pub(super) fn make_if_new(dir: &Path) -> Result<(), StoreError> {
    let (hidden, path) = (dir.join(HIDDEN), dir.join(FILE));
    let folder = File::open(dir)?;
    // Some file systems have no locks of folders.
    if let Err(Errno::WOULDBLOCK) = flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        return Err(StoreError::Store(redb::Error::DatabaseAlreadyOpen));
    }
    // There is one if the last start did not come to its end.
    let _ = fs::remove_file(&hidden);
    if has_mark(&path)? {
        return Ok(());
    }
    let made = make(&hidden);
    let made = made.and_then(|()| Ok(fs::rename(&hidden, path)?));
    made.inspect_err(|_| _ = fs::remove_file(&hidden))?;
    Ok(folder.sync_all()?)
}

/// Whether a file has something where the store says what it is, which it does last of all. Earlier
/// versions made it under its own name, and may have left one that has nothing there.
fn has_mark(path: &Path) -> io::Result<bool> {
    let mut front = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(MARK_BYTES as u64).read_to_end(&mut front)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => return Err(error),
    };
    Ok(front.iter().any(|byte| *byte != 0))
}

/// Makes a store without anything in it, and waits until it is on the disk.
fn make(path: &Path) -> Result<(), StoreError> {
    let file = File::options().read(true).write(true).create_new(true).open(path)?;
    let on_disk = file.try_clone()?;
    let backend = kept!(FileBackend::new(file));
    drop(kept!(Database::builder().create_with_backend(backend)));
    Ok(on_disk.sync_all()?)
}
