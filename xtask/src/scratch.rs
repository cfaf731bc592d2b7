//! Folders for the files of a command. They go away with it, also when a signal ends it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tempfile::TempDir;

/// Those that are in use.
static FOLDERS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Attempts at removing a folder in which programs that the same signal ends may still write.
const ATTEMPTS: u32 = 20;

/// What a shell says of a program that Ctrl-C has ended.
const INTERRUPTED: i32 = 130;

/// A folder that goes away with it.
pub(crate) struct Scratch(TempDir);

impl Scratch {
    /// A new one, empty.
    pub(crate) fn new() -> Result<Self> {
        let folder = TempDir::with_prefix("farhop-").context("no folder for temporary files")?;
        folders().insert(folder.path().to_owned());
        Ok(Self(folder))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        folders().remove(self.0.path());
    }
}

/// From now on SIGINT, SIGTERM and SIGHUP end the program without leaving folders.
pub(crate) fn watch() -> Result<()> {
    let end = || {
        folders().iter().for_each(|folder| remove(folder));
        std::process::exit(INTERRUPTED);
    };
    ctrlc::set_handler(end).context("signals cannot be watched")
}

fn remove(folder: &Path) {
    for _ in 0..ATTEMPTS {
        if fs::remove_dir_all(folder).is_ok() || !folder.exists() {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
}

fn folders() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    FOLDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_its_user_and_at_a_signal() {
        let (used, left) = (Scratch::new().unwrap(), Scratch::new().unwrap());
        let (one, other) = (used.path().to_owned(), left.path().to_owned());
        fs::write(other.join("file"), "text").unwrap();
        drop(used);
        assert!(!one.exists() && !folders().contains(&one));
        assert!(folders().contains(&other), "a signal would find it");
        remove(&other);
        assert!(!other.exists());
    }
}
