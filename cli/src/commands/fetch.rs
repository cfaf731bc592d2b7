//! Puts files that came for this node where their user wants them.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use farhop_run::files::{IncomingStatus, NAME_BYTES, sum_file};
use rustix::fs::{CWD, RenameFlags, renameat_with};

/// Puts a file that came into a folder, under a name that no other file has. It appears whole or
/// not at all. `None` if another command does so just now.
pub(super) fn fetch(file: &IncomingStatus, dir: &Path) -> io::Result<Option<PathBuf>> {
    let part = dir.join(format!(".{}.part", file.id));
    let mut copy = File::options().write(true).create(true).truncate(false).open(&part)?;
    match copy.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let own = copy.metadata()?;
    if own.nlink() != 1 || fs::metadata(&part).map_or(true, |there| there.ino() != own.ino()) {
        // Whoever had it has given it its name, and may have been ended before it lost this one.
        if own.nlink() > 1 {
            fs::remove_file(&part)?;
        }
        return Ok(None);
    }
    let place = copy
        .set_len(0)
        .and_then(|()| io::copy(&mut File::open(&file.path)?, &mut copy))
        .and_then(|_| copy.sync_all())
        .and_then(|()| place(file, dir, &part));
    if place.is_err() {
        let _ = fs::remove_file(&part);
    }
    place.map(Some)
}

/// Gives the copy of a file its name.
fn place(file: &IncomingStatus, dir: &Path, part: &Path) -> io::Result<PathBuf> {
    for number in 1.. {
        let place = dir.join(numbered(&file.info.name, number));
        match rename_to_new(part, &place) {
            Ok(()) => {}
            // It was fetched before, and the daemon was not told any more.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && has(&place, file) => {
                fs::remove_file(part)?;
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(error),
        }
        File::open(dir)?.sync_all()?;
        return Ok(place);
    }
    unreachable!("one of the numbers is free")
}

/// A name with a number, no longer than names may be.
fn numbered(name: &str, number: u32) -> String {
    if number == 1 {
        return name.to_owned();
    }
    let end = format!(".{number}");
    let most = name.floor_char_boundary(NAME_BYTES - end.len());
    format!("{}{end}", &name[..most])
}

/// Gives a file another name, unless there is a file of that name.
fn rename_to_new(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Ok(()) => fs::remove_file(from),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        // Some file systems have no links, and some not this.
        Err(_) => Ok(renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?),
    }
}

/// Whether a place holds just this file.
fn has(place: &Path, file: &IncomingStatus) -> bool {
    let is_as_long = |data: fs::Metadata| data.is_file() && data.len() == file.info.size;
    let sum = || sum_file(&File::open(place).ok()?, &mut |_| true).ok();
    fs::symlink_metadata(place).is_ok_and(is_as_long)
        && sum().is_some_and(|(sha256, _)| sha256 == file.info.sha256)
}

#[cfg(test)]
mod tests {
    use farhop_run::files::{FileInfo, State, sum_bytes};

    use super::*;

    #[test]
    fn of_two_that_fetch_into_one_folder_neither_spoils_what_the_other_has() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("whole");
        fs::write(&path, b"all of it").expect("a file");
        let info = FileInfo {
            name: "map.png".into(),
            size: 9,
            sha256: sum_bytes(b"all of it"),
            nonce: 1,
            streamed: false,
        };
        let (id, from, state) = ("1-2-3".to_owned(), "hill".into(), State::Done);
        let file = IncomingStatus { id, from, info, received: 9, state, path };
        let into = dir.path().join("in");
        fs::create_dir(&into).expect("a folder");
        let part = into.join(".1-2-3.part");
        // The other one copies.
        let other = File::create(&part).expect("a part");
        other.lock().expect("a lock");
        assert_eq!(fetch(&file, &into).expect("no error"), None);
        drop(other);
        let placed = fetch(&file, &into).expect("no error").expect("a place");
        assert_eq!(fs::read(&placed).expect("it is there"), b"all of it");
        // It was ended between the two names of what it had copied.
        fs::hard_link(&placed, &part).expect("a second name");
        assert_eq!(fetch(&file, &into).expect("no error"), None);
        assert_eq!(fs::read(&placed).expect("it is there"), b"all of it");
        assert_eq!(fetch(&file, &into).expect("no error"), Some(placed));
        assert_eq!(fs::read_dir(&into).expect("a folder").count(), 1);
    }

    #[test]
    fn a_number_makes_no_name_longer_than_names_may_be() {
        assert_eq!(numbered("map", 1), "map");
        assert_eq!(numbered("map", 12), "map.12");
        let long = "ä".repeat(127) + "b";
        assert_eq!(long.len(), NAME_BYTES);
        assert_eq!(numbered(&long, 1), long);
        assert_eq!(numbered(&long, 2), "ä".repeat(126) + ".2");
    }
}
