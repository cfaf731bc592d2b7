//! Files that are locked while they are in use, and that their user may remove.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// How often to open a file that another farhop removes each time.
const ATTEMPTS: usize = 10;

/// Opens a file to read it and append to it; creates it if there is none.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).append(true).create(true).open(path)
}

/// Opens a file of runs, and locks it for this program alone.
///
/// Fails if another program has locked it.
pub(crate) fn alone(
    path: &Path,
    open: &mut dyn FnMut(&Path) -> io::Result<File>,
) -> io::Result<File> {
    held(path, open, |file| match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::Error(error)) => Err(error),
        Err(TryLockError::WouldBlock) => {
            Err(io::Error::other("another farhop makes the runs of a sweep there"))
        }
    })
}

/// Opens a file in a folder that may not exist yet, and locks it for all programs that share it.
pub(crate) fn shared(path: &Path) -> io::Result<File> {
    let mut open = |path: &Path| {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        open(path)
    };
    held(path, &mut open, File::lock_shared)
}

/// Opens and locks a file that has its name even then: its former user may have removed it after
/// it was opened here, and what is written to it would be lost.
fn held(
    path: &Path,
    open: &mut dyn FnMut(&Path) -> io::Result<File>,
    lock: impl Fn(&File) -> io::Result<()>,
) -> io::Result<File> {
    let key = |data: fs::Metadata| (data.dev(), data.ino());
    let mut failed = io::Error::other("another farhop removes it again and again");
    for _ in 0..ATTEMPTS {
        let file = match open(path) {
            // Its folder may have been removed at this moment.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                failed = error;
                continue;
            }
            file => file?,
        };
        lock(&file)?;
        if fs::metadata(path).map(key).ok() == Some(key(file.metadata()?)) {
            return Ok(file);
        }
    }
    Err(failed)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_file_that_was_removed_before_it_was_locked_is_opened_anew() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("runs.jsonl");
        let mut opened = 0;
        let mut file = alone(&path, &mut |path| {
            let file = super::open(path)?;
            opened += 1;
            match opened {
                // The other program, which had no run, ends.
                1 => fs::remove_file(path)?,
                // Another program creates it anew.
                2 => fs::remove_file(path).and_then(|()| fs::write(path, ""))?,
                _ => {}
            }
            Ok(file)
        })
        .expect("it is free");
        assert_eq!(opened, 3);
        file.write_all(b"a run\n").expect("room");
        assert_eq!(fs::read(&path).expect("it is there"), b"a run\n");
        assert!(alone(&path, &mut super::open).is_err(), "it is locked");
    }
}
