//! Files that have their name once they are whole: they are written under another one beside it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file that is written. Until it is kept, what had its name before stays, and if it never is,
/// nothing is left of it.
#[derive(Debug)]
pub(crate) struct NewFile {
    file: File,
    /// The name that it has meanwhile, and that which it gets; `None` for what is not replaced.
    names: Option<(PathBuf, PathBuf)>,
}

impl NewFile {
    /// Begins a file. A pipe or a device is written itself: nothing can take its place.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        // A link stays one, and is followed.
        let place = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        // What is open already, as `/dev/stdout`, leads to a file that somebody else writes too.
        let is_open = ["/dev/std", "/dev/fd/", "/proc/"];
        let is_open =
            path.to_str().is_some_and(|path| is_open.iter().any(|it| path.starts_with(it)));
        let is_other = is_open || fs::metadata(&place).is_ok_and(|data| !data.is_file());
        let name = place.file_name().filter(|_| !is_other);
        let Some(name) = name else { return Ok(Self { file: File::create(path)?, names: None }) };
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(".new");
        let new = place.with_file_name(hidden);
        Ok(Self { file: File::create(&new)?, names: Some((new, place)) })
    }

    /// Gives it its name.
    pub(crate) fn keep(mut self) -> io::Result<()> {
        let Some((new, place)) = &self.names else { return Ok(()) };
        fs::rename(new, place)?;
        self.names = None;
        Ok(())
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
            // Where even that fails, the next of its name takes its place.
            let _ = fs::remove_file(new);
        }
    }
}

/// Writes a file, whole or not at all.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = NewFile::create(path)?;
    file.write_all(bytes)?;
    file.keep()
}

/// A folder for results. If it was made for them and nothing is put there, it goes again.
#[derive(Debug)]
#[must_use = "without anything in it, it goes when this is dropped"]
pub(crate) struct NewFolder {
    /// Those that were made, the innermost first.
    made: Vec<PathBuf>,
}

impl NewFolder {
    /// Makes a folder that is not there yet, with those above it.
    pub(crate) fn create(dir: &Path) -> io::Result<Self> {
        let is_new = |part: &&Path| !part.as_os_str().is_empty() && !part.exists();
        let made = dir.ancestors().take_while(is_new).map(Path::to_owned).collect();
        // From here on they go, also if only some of them can be made.
        let folder = Self { made };
        fs::create_dir_all(dir)?;
        Ok(folder)
    }
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        // One with something in it cannot be removed, nor can those around it.
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
