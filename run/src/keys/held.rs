//! The daemon that runs with a key: only one at a time; and how it is told that keys have changed.

use std::fs::{self, File};
use std::io;
use std::path::{self, Path, PathBuf};
use std::time::{Duration as StdDuration, Instant as WallClock};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::{KeysError, KeysStatus, Store, file, own};
use crate::daemon::ControlError;
use crate::daemon::client::ask;
use crate::daemon::control::Request;

/// How long to try for a lock: a process that checks whether it is held holds it for a moment.
const PATIENCE: StdDuration = StdDuration::from_millis(500);
/// How often to try.
const TICK: StdDuration = StdDuration::from_millis(20);

/// The daemon that runs with the key of a folder.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Holder {
    node: String,
    socket: PathBuf,
}

/// A daemon's lock on its key. The kernel releases it when the process ends, however it ends.
#[derive(Debug)]
pub struct Held {
    _key: File,
    file: PathBuf,
    note: Vec<u8>,
}

impl Drop for Held {
    fn drop(&mut self) {
        // The key may have been replaced, and another daemon may run with the new one.
        if fs::read(&self.file).is_ok_and(|note| note == self.note) {
            // If the file stays, nobody listens at the socket that it names.
            let _ = fs::remove_file(&self.file);
        }
    }
}

/// A daemon that was told of a change, and its answer.
#[derive(Debug)]
pub struct Told {
    /// Name of its node.
    pub node: String,
    /// The keys that it uses now.
    pub keys: KeysStatus,
}

impl Store {
    pub(super) fn holder_file(&self) -> PathBuf {
        self.dir.join("daemon")
    }

    fn holder(&self) -> Option<Holder> {
        serde_json::from_slice(&fs::read(self.holder_file()).ok()?).ok()
    }

    /// Claims the key for a daemon. Its control socket must be open already, so that it is told of
    /// all changes from now on.
    ///
    /// Fails if there is no key, or another daemon runs with it.
    pub fn hold(&self, node: &str, socket: &Path) -> Result<Held, KeysError> {
        let path = self.key_file();
        let missing = || KeysError::Missing { dir: self.dir.clone() };
        let (_, key) = own::read(&path)?.ok_or_else(missing)?;
        let limit = WallClock::now() + PATIENCE;
        while let Err(error) = flock(&key, FlockOperation::NonBlockingLockExclusive) {
            if error != rustix::io::Errno::WOULDBLOCK {
                return Err(KeysError::Unreadable { path, error: error.into() });
            }
            if WallClock::now() > limit {
                let by = self.holder().map(|holder| holder.node);
                return Err(KeysError::Held { by, dir: self.dir.clone() });
            }
            std::thread::sleep(TICK);
        }
        // Others may look for the socket from another working directory.
        let socket = path::absolute(socket).unwrap_or_else(|_| socket.into());
        let holder = Holder { node: node.into(), socket };
        let note = serde_json::to_vec(&holder).expect("plain data");
        if let Err(error) = fs::write(self.holder_file(), &note) {
            // In a read-only file system the keys do not change either, until it is made writable.
            if error.kind() != io::ErrorKind::ReadOnlyFilesystem {
                return Err(KeysError::Unwritable { dir: self.dir.clone(), error });
            }
            let dir = self.dir.display();
            tracing::warn!("{dir} cannot be written: this daemon is not told if its keys change");
        }
        Ok(Held { _key: key, file: self.holder_file(), note })
    }

    /// Tells the daemon that runs with this key to read the folder again; `None` if none runs.
    ///
    /// Fails if it does not answer, or refuses the keys that it has read.
    pub fn tell(&self) -> Result<Option<Told>, ControlError> {
        self.ask_holder(Request::Keys {})
    }

    /// Asks the daemon that runs with this key which keys it uses; `None` if none runs.
    ///
    /// Fails if it does not answer.
    pub fn ask(&self) -> Result<Option<Told>, ControlError> {
        self.ask_holder(Request::KeysInUse {})
    }

    fn ask_holder(&self, request: Request) -> Result<Option<Told>, ControlError> {
        let Some(Holder { node, socket }) = self.running()? else { return Ok(None) };
        let answer = match ask(&socket, request) {
            // It was killed, or is just starting and will read the folder by itself.
            Err(ControlError::NotRunning { .. }) if !self.is_held() => return Ok(None),
            answer => answer?,
        };
        let keys = serde_json::from_value(answer);
        let keys: KeysStatus =
            keys.map_err(|error| ControlError::Answer { path: socket, reason: error.to_string() })?;
        // The one that wrote the note was killed, and another listens where it did.
        let real = |dir: &Path| fs::canonicalize(dir).ok();
        let is_ours = real(Path::new(&keys.folder)) == real(&self.dir);
        Ok(is_ours.then_some(Told { node, keys }))
    }

    /// The daemon that runs, or ran, with this key; `None` if there is none.
    ///
    /// Fails if a daemon holds the key, but does not say which one it is.
    fn running(&self) -> Result<Option<Holder>, ControlError> {
        let limit = WallClock::now() + PATIENCE;
        loop {
            let holder = self.holder();
            if holder.is_some() || !self.is_held() {
                return Ok(holder);
            }
            // A daemon that is just starting will write the file in a moment.
            if WallClock::now() > limit {
                let file = self.holder_file();
                let reason = format!("which daemon that is does not stand in {}", file.display());
                return Err(ControlError::Refused { reason });
            }
            std::thread::sleep(TICK);
        }
    }

    /// Whether a daemon runs with this key.
    fn is_held(&self) -> bool {
        let Ok(Some(key)) = file::open(&self.key_file(), file::SECRET) else { return false };
        flock(&key, FlockOperation::NonBlockingLockShared).is_err()
    }
}
