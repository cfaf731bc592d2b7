//! Files that appear under their name only when they are complete: until then they have a temporary
//! name in the same folder. If the program is killed the temporary file stays, as nobody else can
//! tell whether it is still in use.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The number in the next temporary name.
static NEXT: AtomicU32 = AtomicU32::new(0);
/// Most symbolic links that are followed one after another, as in the kernel.
const LINKS: usize = 40;

/// A file that is being written. An existing file of its name stays until [`NewFile::keep`];
/// without that call nothing is left of the new one.
#[derive(Debug)]
pub(crate) struct NewFile {
    file: File,
    /// The temporary name and the final one; `None` for what is written in place.
    names: Option<(PathBuf, PathBuf)>,
}

impl NewFile {
    /// Creates a file. A pipe or a device is written in place, as nothing can replace it.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        // A symbolic link stays, and its target is replaced.
        let place = follow(path)?;
        // An open descriptor such as `/dev/stdout` leads to a file that others write too.
        let is_open = ["/dev/std", "/dev/fd/", "/proc/"];
        let is_open =
            path.to_str().is_some_and(|path| is_open.iter().any(|it| path.starts_with(it)));
        let is_other = match fs::metadata(&place) {
            Ok(data) => !data.is_file(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            // For example, the name is too long: renaming would fail at the end.
            Err(error) => return Err(error),
        };
        if is_open || is_other || place.file_name().is_none() {
            return Ok(Self { file: File::create(path)?, names: None });
        }
        let (file, new) = create_beside(&place)?;
        Ok(Self { file, names: Some((new, place)) })
    }

    /// The path that the file will have; `None` for what is written in place.
    pub(crate) fn place(&self) -> Option<&Path> {
        self.names.as_ref().map(|(_, place)| place.as_path())
    }

    /// Renames the file to its final name. If that fails its contents, which may have taken hours,
    /// stay under the temporary name, which the error mentions.
    pub(crate) fn keep(mut self) -> io::Result<()> {
        let Some((new, place)) = self.names.take() else { return Ok(()) };
        // Sync first: otherwise a crash could leave the final name with incomplete contents.
        let kept = self.file.sync_all().and_then(|()| fs::rename(&new, &place));
        kept.map_err(|error| {
            let told = format!("{error}; what was written is in {}", new.display());
            io::Error::new(error.kind(), told)
        })
    }
}

/// The path of a file that may not exist yet, with symbolic links resolved.
pub(crate) fn follow(path: &Path) -> io::Result<PathBuf> {
    let mut place = path.to_owned();
    for _ in 0..LINKS {
        if let Ok(whole) = fs::canonicalize(&place) {
            return Ok(whole);
        }
        let dir = place.parent().filter(|dir| !dir.as_os_str().is_empty());
        let dir = dir.unwrap_or(Path::new("."));
        match (fs::read_link(&place), place.file_name()) {
            (Ok(target), _) => place = dir.join(target),
            // The same folder must have the same path, whichever way leads there.
            (Err(_), Some(name)) => {
                return Ok(fs::canonicalize(dir).map_or(place.clone(), |dir| dir.join(name)));
            }
            (Err(_), None) => return Ok(place),
        }
    }
    fs::canonicalize(path)
}

/// Creates a temporary file beside a path. It is never an existing file: neither that of another
/// run with the same output, nor one of the user's.
fn create_beside(place: &Path) -> io::Result<(File, PathBuf)> {
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let new = place.with_file_name(format!(".farhop-{}-{number}.new", std::process::id()));
        match File::create_new(&new) {
            // A killed program with the same process id has left it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            outcome => return Ok((outcome?, new)),
        }
    }
}

impl Write for &NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&self.file).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&self.file).flush()
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some((new, _)) = &self.names {
            // Where even that fails, the file is left as after a kill.
            let _ = fs::remove_file(new);
        }
    }
}

/// Writes a file, completely or not at all.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = NewFile::create(path)?;
    file.write_all(bytes)?;
    file.keep()
}

/// A folder for results. If it was created for them and stays empty, it is removed again.
#[derive(Debug)]
#[must_use = "without anything in it, it goes when this is dropped"]
pub(crate) struct NewFolder {
    /// The folders that were created, the innermost first.
    made: Vec<PathBuf>,
}

impl NewFolder {
    /// Creates a folder with its parents, unless it exists.
    pub(crate) fn create(dir: &Path) -> io::Result<Self> {
        let is_new = |part: &&Path| !part.as_os_str().is_empty() && !part.exists();
        let made = dir.ancestors().take_while(is_new).map(Path::to_owned).collect();
        // From here on they are removed on drop, also if only some can be created.
        let folder = Self { made };
        fs::create_dir_all(dir)?;
        Ok(folder)
    }
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        // A folder with something in it cannot be removed, nor can its parents.
        let _ = self.made.iter().try_for_each(fs::remove_dir);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileTypeExt as _, symlink};

    use super::*;

    #[test]
    fn what_had_the_name_before_stays_until_the_new_file_is_whole() {
        let dir = tempfile::tempdir().expect("a folder");
        let (path, link) = (dir.path().join("a.json"), dir.path().join("link"));
        write(&path, b"old").expect("room");
        symlink("a.json", &link).expect("a link");
        let read = || fs::read_to_string(&path).expect("it is there");
        let count = || fs::read_dir(dir.path()).expect("a folder").count();
        let begin = |path: &Path| {
            let mut file = NewFile::create(path).expect("room");
            file.write_all(b"half").expect("room");
            file
        };
        drop(begin(&path));
        assert_eq!((read().as_str(), count()), ("old", 2));
        let file = begin(&link);
        assert_eq!(read(), "old");
        file.keep().expect("it can be renamed");
        assert_eq!((read().as_str(), count()), ("half", 2));
        assert!(fs::symlink_metadata(&link).is_ok_and(|data| data.is_symlink()));
    }

    #[test]
    fn files_with_one_name_do_not_meet_and_no_other_file_is_touched() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("y");
        let next = NEXT.load(Ordering::Relaxed);
        // The temporary names to come, and some more in case other tests take a few.
        for number in next..next + 50 {
            let taken = format!(".farhop-{}-{number}.new", std::process::id());
            symlink("victim", dir.path().join(taken)).expect("a link");
        }
        let begin = || NewFile::create(&path).expect("room");
        let (mut one, mut other) = (begin(), begin());
        one.write_all(b"one").expect("room");
        other.write_all(b"other").expect("room");
        one.keep().expect("it can be renamed");
        assert_eq!(fs::read(&path).expect("it is there"), b"one");
        other.keep().expect("it can be renamed");
        assert_eq!(fs::read(&path).expect("it is there"), b"other");
        assert!(!dir.path().join("victim").exists());
    }

    #[test]
    fn a_name_may_be_as_long_as_names_are_and_one_that_is_longer_is_refused_at_once() {
        let dir = tempfile::tempdir().expect("a folder");
        write(&dir.path().join("n".repeat(255)), b"all").expect("room");
        assert!(NewFile::create(&dir.path().join("n".repeat(256))).is_err());
    }

    #[test]
    fn a_link_to_what_is_not_there_yet_is_followed() {
        let dir = tempfile::tempdir().expect("a folder");
        let (first, second) = (dir.path().join("first"), dir.path().join("second"));
        fs::create_dir(dir.path().join("inner")).expect("room");
        symlink("second", &first).expect("a link");
        symlink("inner/target", &second).expect("a link");
        write(&first, b"all").expect("room");
        assert!(fs::symlink_metadata(&first).is_ok_and(|data| data.is_symlink()));
        let target = fs::read(dir.path().join("inner/target")).expect("it is there");
        assert_eq!(target, b"all");
        symlink("circle", dir.path().join("circle")).expect("a link");
        assert!(NewFile::create(&dir.path().join("circle")).is_err());
    }

    #[test]
    fn what_cannot_have_its_name_stays_and_it_is_said_where() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("a");
        let mut file = NewFile::create(&path).expect("room");
        file.write_all(b"hours of it").expect("room");
        // No file can take the place of a folder.
        fs::create_dir(&path).expect("room");
        let error = file.keep().expect_err("it cannot be renamed").to_string();
        let (_, left) = error.split_once("what was written is in ").expect("it says where");
        assert_eq!(fs::read(left).expect("it is there"), b"hours of it");
    }

    #[test]
    fn a_device_stays_what_it_is() {
        write(Path::new("/dev/null"), b"nothing").expect("it takes all");
        let kind = fs::metadata("/dev/null").expect("it is there").file_type();
        assert!(kind.is_char_device());
    }

    #[test]
    fn a_folder_goes_again_unless_something_is_put_there() {
        let dir = tempfile::tempdir().expect("a folder");
        let (outer, inner) = (dir.path().join("a"), dir.path().join("a/b"));
        drop(NewFolder::create(&inner).expect("room"));
        assert!(!outer.exists());
        let folder = NewFolder::create(&inner).expect("room");
        fs::write(outer.join("file"), "mine").expect("room");
        drop(folder);
        assert!(outer.exists() && !inner.exists());
        drop(NewFolder::create(&outer).expect("it is there"));
        assert!(outer.exists());
        assert!(NewFolder::create(&outer.join("file/deeper")).is_err());
    }
}
