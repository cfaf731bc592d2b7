//! How the file of a store is made: whole, or not at all.

use std::fs::{self, File};
use std::io::{self, BufReader, Read as _};
use std::ops::ControlFlow;
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
    if is_there(&path)? {
        return Ok(());
    }
    let made = make(&hidden);
    let made = made.and_then(|()| Ok(fs::rename(&hidden, path)?));
    made.inspect_err(|_| _ = fs::remove_file(&hidden))?;
    Ok(folder.sync_all()?)
}

/// Whether there is a store. A file of nothing but zeros is none: an earlier version, which made it
/// under its own name, was killed, or somebody emptied it.
///
/// Fails if there is something, but not where a store says what it is: the store would begin anew
/// over all of it.
fn is_there(path: &Path) -> Result<bool, StoreError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let mut bytes = BufReader::new(file).bytes();
    let first = bytes.try_fold(0, |count, byte| match byte {
        Ok(0) => ControlFlow::Continue(count + 1),
        byte => ControlFlow::Break(byte.map(|_| count)),
    });
    match first.break_value().transpose()? {
        Some(zeros) if zeros < MARK_BYTES => Ok(true),
        Some(_) => {
            let error = redb::Error::Corrupted("it begins with zeros".into());
            Err(StoreError::Unreadable { path: path.to_owned(), error })
        }
        None => {
            tracing::warn!("nothing is in {}: a new block cache is made there", path.display());
            Ok(false)
        }
    }
}

/// Makes a store without anything in it, and waits until it is on the disk.
fn make(path: &Path) -> Result<(), StoreError> {
    let file = File::options().read(true).write(true).create_new(true).open(path)?;
    let on_disk = file.try_clone()?;
    let backend = kept!(FileBackend::new(file));
    drop(kept!(Database::builder().create_with_backend(backend)));
    Ok(on_disk.sync_all()?)
}
