//! Opening a file of the folder: only a plain file, that nobody else than root and the user of
//! this process can change. Of folders only its own is looked at.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use tempfile::NamedTempFile;

use super::KeysError;

/// What others than the owner must not be allowed in a file that is nobody else's matter.
pub(super) const SECRET: u32 = 0o077;
/// What they must not be allowed in one that everybody may read.
pub(super) const PUBLIC: u32 = 0o022;
/// The sticky bit: files in such a folder are removed and renamed by their owners alone.
pub(super) const STICKY: u32 = 0o1000;

/// Signs behind the prefix of a file that is not whole yet.
const RANDOM_SIGNS: usize = 6;

/// Opens a file of a folder of keys; `None` if there is none. `closed` are the permissions that
/// others must not have. Where the name is a link, all of it holds for what it leads to.
///
/// Fails if it is no plain file, a link to nothing, or if others can change it.
pub(super) fn open(path: &Path, closed: u32) -> Result<Option<File>, KeysError> {
    check_folder(path.parent().expect("a file in a folder"), 0)?;
    let fail = |error| KeysError::Unreadable { path: path.into(), error };
    let kind = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return match fs::symlink_metadata(path) {
                Ok(found) if found.is_symlink() => Err(KeysError::LooseLink { path: path.into() }),
                // Someone has just made it.
                Ok(_) => open(path, closed),
                Err(_) => Ok(None),
            };
        }
        found => kind(&found.map_err(fail)?),
    };
    if let Some(kind) = kind {
        return Err(KeysError::NoFile { path: path.into(), kind });
    }
    // Should something else be there by now, it is not waited for.
    let options = OFlags::NONBLOCK | OFlags::NOCTTY;
    let options = i32::try_from(options.bits()).expect("flags of open(2)");
    let file = OpenOptions::new().read(true).custom_flags(options).open(path).map_err(fail)?;
    let found = file.metadata().map_err(fail)?;
    if let Some(kind) = self::kind(&found) {
        return Err(KeysError::NoFile { path: path.into(), kind });
    }
    let real = real(path);
    check_owner(&real, &found)?;
    let mode = found.mode() & 0o7777;
    if mode & closed != 0 {
        let path = real;
        return Err(match closed {
            SECRET => KeysError::Open { path, mode },
            _ => KeysError::Writable { path, mode },
        });
    }
    if real != path {
        check_folder(real.parent().expect("a file in a folder"), STICKY)?;
    }
    Ok(Some(file))
}

/// Makes a file for this user alone in a folder, that is to get its name when it is whole.
pub(super) fn unfinished(dir: &Path, prefix: &str) -> io::Result<NamedTempFile> {
    tempfile::Builder::new().prefix(prefix).rand_bytes(RANDOM_SIGNS).tempfile_in(dir)
}

/// Removes the files of [`unfinished`] that somebody left who was killed. Only who holds the lock
/// of the folder may do that: it is under this lock that they are made.
pub(super) fn remove_unfinished(dir: &Path, prefix: &str) {
    let us = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let random = name.to_str().and_then(|name| name.strip_prefix(prefix));
        let is_ours = random.is_some_and(|random| {
            random.len() == RANDOM_SIGNS && random.bytes().all(|sign| sign.is_ascii_alphanumeric())
        });
        let is_ours =
            is_ours && entry.metadata().is_ok_and(|found| found.is_file() && found.uid() == us);
        if is_ours {
            // It is in nobody's way where it cannot be removed.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Where the links of a name lead to; the name itself if there is nothing.
pub(super) fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.into())
}

/// Fails if others than root and the user of this process own a folder or can write there. A bit
/// of `unless` in its mode allows them to write. One that is not there is nobody's.
pub(super) fn check_folder(dir: &Path, unless: u32) -> Result<(), KeysError> {
    let found = match fs::metadata(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(|error| KeysError::Unreadable { path: dir.into(), error })?,
    };
    check_owner(dir, &found)?;
    let mode = found.mode() & 0o7777;
    if mode & PUBLIC != 0 && mode & unless == 0 {
        return Err(KeysError::Writable { path: dir.into(), mode });
    }
    Ok(())
}

fn check_owner(path: &Path, found: &Metadata) -> Result<(), KeysError> {
    let (owner, us) = (found.uid(), rustix::process::geteuid().as_raw());
    if owner != 0 && owner != us {
        return Err(KeysError::Owner { path: path.into(), owner, us });
    }
    Ok(())
}

/// What it is, if it is no plain file.
fn kind(found: &Metadata) -> Option<&'static str> {
    let kind = found.file_type();
    Some(match kind {
        _ if kind.is_file() => return None,
        _ if kind.is_dir() => "a folder",
        _ if kind.is_fifo() => "a named pipe",
        _ if kind.is_socket() => "a socket",
        _ => "a device",
    })
}
