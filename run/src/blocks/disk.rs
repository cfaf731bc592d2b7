//! Files on disk that are sent from here.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::UNIX_EPOCH;

use anyhow::{Error, Result, ensure};
use bytes::Bytes;
use rustix::fs::OFlags;

use crate::files::{Outgoing, Part};

/// Whether an error in reading a file may be temporary.
pub(super) fn may_pass(error: &Error) -> bool {
    use io::ErrorKind::{InvalidInput, NotFound, PermissionDenied, UnexpectedEof};
    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    let lasting = [InvalidInput, NotFound, PermissionDenied, UnexpectedEof];
    kind.is_some_and(|kind| !lasting.contains(&kind))
}

/// Reads a block of a file that is sent from here.
///
/// Fails if it cannot be read, or was changed.
pub(super) fn read(file: &Outgoing, part: &Part) -> Result<Bytes> {
    let (on_disk, metadata) = open_file(&file.path)?;
    let is_same = metadata.len() == file.info.size && modified_ns(&metadata) == file.modified_ns;
    ensure!(is_same, "it was changed while it was sent");
    let mut bytes = part.front.clone();
    let front = bytes.len();
    bytes.resize(front + part.length as usize, 0);
    on_disk.read_exact_at(&mut bytes[front..], part.offset)?;
    Ok(bytes.into())
}

/// Opens a regular file for reading. Anything else is refused without waiting: a pipe, for example,
/// might never answer.
///
/// Fails if it is no regular file, or cannot be read.
pub fn open_file(path: &Path) -> io::Result<(File, fs::Metadata)> {
    let flags = OFlags::NONBLOCK.bits() as i32;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file"));
    }
    Ok((file, metadata))
}

/// When a file was last changed, in nanoseconds since 1970.
pub fn modified_ns(metadata: &fs::Metadata) -> u64 {
    let since = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| since.as_nanos() as u64)
}
