//! Temporary folders, which are removed when the command ends, also by a signal.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tempfile::TempDir;

/// The folders in use.
static FOLDERS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Attempts to remove a folder: programs that the same signal ends may still write into it.
const ATTEMPTS: u32 = 20;

/// What shells add to the number of a signal for the exit status.
const BY_SIGNAL: i32 = 128;

/// A temporary folder, removed on drop.
pub(crate) struct Scratch(TempDir);

impl Scratch {
    /// Creates an empty folder.
    pub(crate) fn new() -> Result<Self> {
        let folder = TempDir::with_prefix("farhop-").context("no folder for temporary files")?;
        folders().insert(folder.path().to_owned());
        Ok(Self(folder))
    }

    /// The path of the folder.
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        folders().remove(self.0.path());
    }
}

/// From now on SIGINT, SIGTERM and SIGHUP remove the folders and end this program and its children,
/// for example a lab.
pub(crate) fn watch() -> Result<()> {
    let wanted = [SIGINT, SIGTERM, SIGHUP];
    let mut signals = Signals::new(wanted).context("signals cannot be watched")?;
    thread::spawn(move || {
        let Some(signal) = signals.forever().next() else { return };
        end_children_of(std::process::id());
        folders().iter().for_each(|folder| remove(folder));
        std::process::exit(BY_SIGNAL + signal);
    });
    Ok(())
}

/// Sends SIGTERM to the children of a process.
fn end_children_of(parent: u32) {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in processes {
        let name = process.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let stat = fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        // The state and the parent follow the name of the program, which may contain spaces and
        // brackets.
        let of = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
        if let Some(pid) = Pid::from_raw(pid).filter(|_| of == Some(&*parent.to_string())) {
            let _ = kill_process(pid, Signal::TERM);
        }
    }
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
    use std::io::Read as _;
    use std::process::{Command, Stdio};
    use std::time::Instant;

    #[test]
    fn what_a_program_has_started_ends() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 100; echo $?"]).stdout(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        let start = Instant::now();
        while shell.try_wait().unwrap().is_none() && start.elapsed() < Duration::from_secs(20) {
            end_children_of(shell.id());
            thread::sleep(Duration::from_millis(20));
        }
        let mut said = String::new();
        shell.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said.trim(), "143", "sleep was asked to end, the shell was not");
    }

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
