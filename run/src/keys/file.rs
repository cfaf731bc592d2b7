//! Opens files of a folder of keys: only regular files that nobody but root and the user of this
//! process can change. Of the folders on the path only the last is checked.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use tempfile::NamedTempFile;

use super::KeysError;

/// Permissions that others must not have for a secret file.
pub(super) const SECRET: u32 = 0o077;
/// Permissions that others must not have for a file that everybody may read.
pub(super) const PUBLIC: u32 = 0o022;
/// The sticky bit: only their owners can remove and rename files in such a folder.
pub(super) const STICKY: u32 = 0o1000;

/// Length of the random part of an unfinished file's name, after the prefix.
const RANDOM_SIGNS: usize = 6;

/// Opens a file of a folder of keys; `None` if there is none. `closed` are the permissions that
/// others must not have. For a link all of this holds for the file that it leads to.
/// Fails if it is no regular file or a dangling link, or if others can change it.
pub(super) fn open(path: &Path, closed: u32) -> Result<Option<File>, KeysError> {
    check_folder(path.parent().expect("a file in a folder"), 0)?;
    let fail = |error| KeysError::Unreadable { path: path.into(), error };
    let kind = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return match fs::symlink_metadata(path) {
                Ok(found) if found.is_symlink() => Err(KeysError::LooseLink { path: path.into() }),
                // It was made in this moment.
                Ok(_) => open(path, closed),
                Err(_) => Ok(None),
            };
        }
        found => kind(&found.map_err(fail)?),
    };
    if let Some(kind) = kind {
        return Err(KeysError::NoFile { path: path.into(), kind });
    }
    // If it was replaced by something else in between, opening that must not block.
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

/// Makes a file in a folder, for this user alone, that gets its final name when it is complete.
pub(super) fn unfinished(dir: &Path, prefix: &str) -> io::Result<NamedTempFile> {
    tempfile::Builder::new().prefix(prefix).rand_bytes(RANDOM_SIGNS).tempfile_in(dir)
}

/// Removes the files of [`unfinished`] that a killed process left. Only the holder of the folder's
/// lock may do so, as they are made under it.
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
            // If it cannot be removed it does no harm.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The path with all links resolved; unchanged if nothing is there.
pub(super) fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.into())
}

/// Fails if others than root and the user of this process own a folder or can write to it. They may
/// write to it if its mode has a bit of `unless`. A folder that does not exist passes.
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

/// What it is, if it is no regular file.
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
