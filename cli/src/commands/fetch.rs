//! Puts a file that arrived for this node into a folder of the user's choice.
//!
//! A file is copied under a hidden name, which is then renamed to its own. Once it was reported to
//! the user, it has both names (hard links) until the daemon has recorded on disk that it was
//! fetched: a command that finds it with two names knows that it was reported. It may be reported
//! twice if a command is killed between reporting it and making the second name, or on a file
//! system without hard links. Several nodes of a host may put files into one folder: the hidden
//! name has the number of the node.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use farhop_run::files::{IncomingStatus, NAME_BYTES, is_id, sum_file};
use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};

/// The longest end of a name that counts as its extension, with the dot, in bytes.
const KIND_BYTES: usize = 8;

/// A file that was put into a folder. While this exists, its locks keep other commands from
/// fetching the file; one that waited then finds that the daemon no longer offers it.
pub(super) struct Placed {
    /// Where the file is, or `None` if a killed command has already reported it.
    pub(super) place: Option<PathBuf>,
    dir: PathBuf,
    part: PathBuf,
    _locks: [File; 2],
}

impl Placed {
    /// Syncs the folder, so that the file's name is on disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        File::open(&self.dir)?.sync_all()
    }

    /// Marks the file as reported, by its second name.
    pub(super) fn mark(&self) {
        if let Some(place) = &self.place {
            let _ = fs::hard_link(place, &self.part);
        }
    }

    /// Removes the hidden name, as all is done.
    pub(super) fn end(self) {
        // What cannot be removed is a stray, and is removed with others.
        let _ = fs::remove_file(self.part);
    }
}

/// Puts a file that arrived for a node into a folder, under a name that no other file has. It
/// appears whole or not at all. `None` if another command is doing this, or has done it.
pub(super) fn fetch(node: u16, file: &IncomingStatus, dir: &Path) -> io::Result<Option<Placed>> {
    let mut whole = File::open(&file.path).map_err(|error| at(Path::new(&file.path), &error))?;
    if !is_locked(&whole)? || !is_there(&whole, &file.path) {
        return Ok(None);
    }
    let (dir, part) = (dir.to_owned(), dir.join(part_name(node, &file.id)));
    let copy = open(&part, File::options().write(true).create(true).truncate(false));
    let mut copy = copy.map_err(|error| at(&dir, &error))?;
    if !is_locked(&copy)? || !is_there(&copy, &part) {
        return Ok(None);
    }
    if copy.metadata()?.nlink() > 1 {
        if has(&part, file) {
            return Ok(Some(Placed { place: None, dir, part, _locks: [whole, copy] }));
        }
        // The copy has another hard link or was changed, but not by farhop: leave it to its owner.
        fs::remove_file(&part)?;
        return Ok(None);
    }
    let in_dir = |error: io::Error| at(&dir, &error);
    let copied = copy
        .set_len(0)
        .and_then(|()| io::copy(&mut whole, &mut copy))
        .and_then(|_| copy.sync_all());
    let placed = copied
        .map_err(in_dir)
        .and_then(|()| if has(&part, file) { Ok(()) } else { Err(changed(file)) })
        .and_then(|()| place(file, &dir, &part, copy).map_err(in_dir));
    match placed {
        Ok((place, copy)) => {
            Ok(Some(Placed { place: Some(place), dir, part, _locks: [whole, copy] }))
        }
        Err(error) => {
            let _ = fs::remove_file(&part);
            Err(error)
        }
    }
}

/// An error with the path at which it occurred.
fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Removes copies from a folder that killed commands of a node left behind. Copies of files that
/// still wait are kept, as their state matters to [`fetch`]; copies in the making are locked, and
/// so kept too. Copies for other nodes are kept, because it is not known here which of their files
/// wait.
///
/// Fails if the folder cannot be read, or a copy cannot be removed.
pub(super) fn remove_strays(dir: &Path, node: u16, waiting: &[IncomingStatus]) -> io::Result<()> {
    let mut outcome = Ok(());
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(id) = name.to_str().and_then(|name| id_of_part(node, name)) else { continue };
        if !waiting.iter().any(|file| file.id == id) {
            // A copy that cannot be removed does not keep the others.
            outcome = outcome.and(remove_stray(&entry.path()));
        }
    }
    outcome
}

fn remove_stray(part: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(part).is_ok_and(|data| data.is_file()) {
        return Ok(());
    }
    let copy = match open(part, File::options().write(true)) {
        // Its command has just renamed it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        copy => copy?,
    };
    if is_locked(&copy)? && is_there(&copy, part) {
        fs::remove_file(part)?;
    }
    Ok(())
}

/// Opens a file in a folder that others may write to: fails for a symbolic link, which may lead
/// elsewhere, and for a pipe, on which the command would hang.
fn open(path: &Path, options: &mut fs::OpenOptions) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = options.custom_flags(flags.bits().cast_signed()).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other(format!("{} is no file", path.display()))),
    }
}

/// The error for a file that no longer has the contents that arrived: the daemon discarded it
/// during the copy, or it was damaged.
fn changed(file: &IncomingStatus) -> io::Error {
    let IncomingStatus { id, path, .. } = file;
    let why = format!(
        "the bytes in {} are no longer those that came; `farhop cache drop {id}` lets go of them",
        path.display()
    );
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// The hidden name of the copy of a file for a node.
fn part_name(node: u16, id: &str) -> String {
    format!(".{node}-{id}.part")
}

fn id_of_part(node: u16, name: &str) -> Option<&str> {
    let id = name.strip_prefix(&format!(".{node}-")).and_then(|rest| rest.strip_suffix(".part"));
    id.filter(|id| is_id(id))
}

/// Whether an open file still has this path.
fn is_there(file: &File, path: &Path) -> bool {
    let own = file.metadata().map(|own| (own.dev(), own.ino()));
    let there = fs::symlink_metadata(path).map(|there| (there.dev(), there.ino()));
    own.is_ok_and(|own| there.is_ok_and(|there| own == there))
}

/// Locks a file until it is closed; returns false if another command has locked it.
fn is_locked(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Renames the copy of a file to its own name. Returns its path, and the file to keep open.
fn place(
    file: &IncomingStatus,
    dir: &Path,
    part: &Path,
    copy: File,
) -> io::Result<(PathBuf, File)> {
    for number in 1.. {
        let place = dir.join(numbered(&file.info.name, number));
        match give_name(part, &place) {
            Ok(()) => return Ok((place, copy)),
            // A file with the same contents is already there.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && has(&place, file) => {
                fs::remove_file(part)?;
                let there = open(&place, File::options().read(true))?;
                return Ok((place, there));
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    unreachable!("one of the numbers is free")
}

/// A name with a number, no longer than `NAME_BYTES`.
fn numbered(name: &str, number: u32) -> String {
    if number == 1 {
        return name.to_owned();
    }
    // The number goes before the extension, by which programs recognise the type.
    let (stem, kind) = match name.rfind('.') {
        Some(at) if at > 0 && name.len() - at <= KIND_BYTES => name.split_at(at),
        _ => (name, ""),
    };
    let end = format!("-{number}{kind}");
    let most = stem.floor_char_boundary(NAME_BYTES - end.len());
    format!("{}{end}", &stem[..most])
}

/// Renames a file, unless the new name exists.
fn give_name(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE).map_err(io::Error::from) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        // Some file systems lack NOREPLACE, but most of them have hard links.
        Err(_) => fs::hard_link(from, to).and_then(|()| fs::remove_file(from)),
    }
}

/// Whether a path is a file with the contents of this one.
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

    /// The node that files came for.
    const NODE: u16 = 7;

    /// A file that waits in a folder, and a folder to put it into.
    fn waiting(dir: &Path) -> (IncomingStatus, PathBuf) {
        let path = dir.join("whole");
        fs::write(&path, b"all of it").expect("a file");
        let info = FileInfo {
            name: "map.png".into(),
            size: 9,
            sha256: sum_bytes(b"all of it"),
            nonce: 1,
            streamed: false,
        };
        let (id, from, state) = ("1-2-00000003".to_owned(), "hill".into(), State::Done);
        let into = dir.join("in");
        fs::create_dir(&into).expect("a folder");
        (IncomingStatus { id, from, info, received: 9, state, path }, into)
    }

    /// Puts the file there like a command; returns its path if that command is to report it.
    fn put(file: &IncomingStatus, into: &Path) -> Option<PathBuf> {
        let placed = fetch(NODE, file, into).expect("no error")?;
        let place = placed.place.clone();
        placed.end();
        place
    }

    #[test]
    fn of_two_that_fetch_into_one_folder_neither_spoils_what_the_other_has() {
        let dir = tempfile::tempdir().expect("a folder");
        let (file, into) = waiting(dir.path());
        let part = into.join(".7-1-2-00000003.part");
        // Another command is copying the file.
        let other = File::create(&part).expect("a part");
        other.lock().expect("a lock");
        assert_eq!(put(&file, &into), None);
        drop(other);
        let place = put(&file, &into).expect("a place");
        assert_eq!(fs::read(&place).expect("it is there"), b"all of it");
        // As if it arrived again.
        assert_eq!(put(&file, &into), Some(place));
        assert_eq!(fs::read_dir(&into).expect("a folder").count(), 1);
    }

    #[test]
    fn of_two_that_fetch_one_file_the_second_waits_and_finds_it_gone() {
        let dir = tempfile::tempdir().expect("a folder");
        let (file, into) = waiting(dir.path());
        let placed = fetch(NODE, &file, &into).expect("no error").expect("a place");
        let elsewhere = dir.path().join("elsewhere");
        fs::create_dir(&elsewhere).expect("a folder");
        // The daemon has not recorded yet that it was fetched.
        assert_eq!((put(&file, &into), put(&file, &elsewhere)), (None, None));
        fs::remove_file(&file.path).expect("the daemon lets go of it");
        placed.end();
        assert!(fetch(NODE, &file, &elsewhere).is_err());
        assert_eq!(fs::read_dir(&elsewhere).expect("a folder").count(), 0);
    }

    #[test]
    fn a_file_of_which_a_killed_command_has_told_is_not_told_of_again() {
        let dir = tempfile::tempdir().expect("a folder");
        let (file, into) = waiting(dir.path());
        // The second time a file with the same contents is there.
        for _ in 0..2 {
            // A command that is killed before it reports the file leaves no mark.
            drop(fetch(NODE, &file, &into).expect("no error"));
            assert_eq!(fs::read_dir(&into).expect("a folder").count(), 1);
            let placed = fetch(NODE, &file, &into).expect("no error").expect("it is there");
            assert_eq!(placed.place, Some(into.join("map.png")));
            placed.mark();
            drop(placed);
            assert_eq!(fs::read_dir(&into).expect("a folder").count(), 2);
            remove_strays(&into, NODE, std::slice::from_ref(&file)).expect("no error");
            let placed = fetch(NODE, &file, &into).expect("no error").expect("it is there");
            assert_eq!(placed.place, None);
            placed.end();
            let place = into.join("map.png");
            assert_eq!(fs::read(place).expect("it is there"), b"all of it");
            assert_eq!(fs::read_dir(&into).expect("a folder").count(), 1);
        }
    }

    #[test]
    fn what_is_no_longer_what_came_is_not_fetched() {
        let dir = tempfile::tempdir().expect("a folder");
        let (file, into) = waiting(dir.path());
        // Emptied by the daemon, and damaged on its disk.
        for bytes in [&b""[..], b"all of IT"] {
            fs::write(&file.path, bytes).expect("room");
            let error = fetch(NODE, &file, &into).err().expect("an error");
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            assert!(error.to_string().contains("cache drop 1-2-00000003"), "{error}");
            assert_eq!(fs::read_dir(&into).expect("a folder").count(), 0);
        }
    }

    #[test]
    fn no_link_and_no_pipe_is_opened_in_the_place_of_a_copy() {
        let dir = tempfile::tempdir().expect("a folder");
        let (file, into) = waiting(dir.path());
        let (part, elsewhere) = (into.join(".7-1-2-00000003.part"), dir.path().join("elsewhere"));
        std::os::unix::fs::symlink(&elsewhere, &part).expect("a link");
        assert!(fetch(NODE, &file, &into).is_err() && !elsewhere.exists());
        fs::remove_file(&part).expect("the link");
        rustix::fs::mknodat(CWD, &part, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .expect("a pipe");
        assert!(fetch(NODE, &file, &into).is_err());
        remove_strays(&into, NODE, &[]).expect("a pipe is no stray");
    }

    #[test]
    fn a_folder_that_takes_no_file_is_named() {
        let dir = tempfile::tempdir().expect("a folder");
        let (file, _) = waiting(dir.path());
        let error = fetch(NODE, &file, Path::new("/proc")).err().expect("nobody can write there");
        assert!(error.to_string().starts_with("/proc: "), "{error}");
    }

    #[test]
    fn some_of_a_file_that_somebody_gave_a_name_is_not_all_of_it() {
        let dir = tempfile::tempdir().expect("a folder");
        let (file, into) = waiting(dir.path());
        let (part, backup) = (into.join(".7-1-2-00000003.part"), dir.path().join("backup"));
        fs::write(&part, b"all o").expect("a part");
        fs::hard_link(&part, &backup).expect("a second name");
        assert_eq!(put(&file, &into), None);
        assert_eq!(put(&file, &into), Some(into.join("map.png")));
        assert_eq!(fs::read(backup).expect("it is there"), b"all o");
    }

    #[test]
    fn copies_that_a_killed_command_left_are_removed_and_nothing_else() {
        let dir = tempfile::tempdir().expect("a folder");
        let kept = [".7-1-2-00000004.part", ".7-1-2-4.part", ".notes.part", "7-1-2-00000003.part"];
        for name in
            kept.into_iter().chain([".7-1-2-00000003.part", ".7-65535-4294967295-89abcdef.part"])
        {
            fs::write(dir.path().join(name), b"some").expect("a file");
        }
        // Another command is making this copy.
        let living = File::open(dir.path().join(kept[0])).expect("it is there");
        living.lock().expect("a lock");
        remove_strays(dir.path(), NODE, &[]).expect("no error");
        let mut left: Vec<_> = fs::read_dir(dir.path())
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        left.sort();
        assert_eq!(left, kept);
    }

    #[test]
    fn what_a_killed_command_of_another_node_left_there_is_its_own_to_see_to() {
        let dir = tempfile::tempdir().expect("a folder");
        let (file, into) = waiting(dir.path());
        let placed = fetch(NODE, &file, &into).expect("no error").expect("a place");
        placed.mark();
        drop(placed);
        // Which files wait for the other node is not known.
        for other in [1, 77] {
            remove_strays(&into, other, &[]).expect("no error");
        }
        let placed = fetch(NODE, &file, &into).expect("no error").expect("it is there");
        assert_eq!(placed.place, None, "it is not told of again");
        drop(placed);
        remove_strays(&into, NODE, &[]).expect("no error");
        assert_eq!(fs::read_dir(&into).expect("a folder").count(), 1);
    }

    #[test]
    fn a_number_makes_no_name_longer_than_names_may_be() {
        assert_eq!(numbered("map", 1), "map");
        assert_eq!(numbered("map", 12), "map-12");
        assert_eq!(numbered("map.png", 2), "map-2.png");
        assert_eq!(numbered(".profile", 2), ".profile-2");
        assert_eq!(numbered("v1.of what it was", 2), "v1.of what it was-2");
        let long = "ä".repeat(127) + "b";
        assert_eq!(long.len(), NAME_BYTES);
        assert_eq!(numbered(&long, 1), long);
        assert_eq!(numbered(&long, 2), "ä".repeat(126) + "-2");
    }
}
