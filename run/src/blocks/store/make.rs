//! Makes the file of a store, completely or not at all.

use std::fs::{self, File};
use std::io::{self, BufReader, Read as _};
use std::ops::ControlFlow;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use redb::Database;
use redb::backends::FileBackend;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::{FILE, StoreError};

/// Name of the file until it is complete.
const HIDDEN: &str = ".blocks.redb";
/// Length of the mark at the beginning of a complete file.
const MARK_BYTES: usize = 9;

/// Makes a folder for this user only, and its missing parents. All of them survive a power cut.
pub(in crate::blocks) fn make_folder(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    let above = dir.parent().filter(|above| !above.as_os_str().is_empty());
    above.map_or(Ok(()), make_folder)?;
    match fs::DirBuilder::new().mode(0o700).create(dir) {
        // Somebody else has just made it.
        Err(_) if dir.is_dir() => {}
        made => made?,
    }
    File::open(above.unwrap_or(Path::new(".")))?.sync_all()
}

/// Makes the file of a store, if the folder has none. The file gets its final name only when it is
/// complete: what is left if the daemon is killed in between could not be opened as a store.
///
/// Fails if the file cannot be written, or another process is just making it.
pub(super) fn make_if_new(dir: &Path) -> Result<(), StoreError> {
    let (hidden, path) = (dir.join(HIDDEN), dir.join(FILE));
    let folder = File::open(dir)?;
    // Some file systems cannot lock folders.
    if let Err(Errno::WOULDBLOCK) = flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        return Err(StoreError::Store(redb::Error::DatabaseAlreadyOpen));
    }
    // There is one if the last attempt was interrupted.
    let _ = fs::remove_file(&hidden);
    if is_there(&path)? {
        return Ok(());
    }
    let made = make(&hidden);
    let made = made.and_then(|()| Ok(fs::rename(&hidden, path)?));
    made.inspect_err(|_| _ = fs::remove_file(&hidden))?;
    Ok(folder.sync_all()?)
}

/// Whether there is a store. A file of nothing but zeros does not count: an earlier version, which
/// wrote it under its final name, was killed, or somebody emptied the file.
///
/// Fails if there is data, but zeros where the mark should be: the database would overwrite all of
/// it.
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

/// Makes an empty store, and waits until it is on the disk.
fn make(path: &Path) -> Result<(), StoreError> {
    let file = File::options().read(true).write(true).create_new(true).open(path)?;
    let on_disk = file.try_clone()?;
    let backend = kept!(FileBackend::new(file));
    drop(kept!(Database::builder().create_with_backend(backend)));
    Ok(on_disk.sync_all()?)
}
