//! The daemon that runs with a key: one at a time, and how others tell it that keys have changed.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration as StdDuration, Instant as WallClock};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::{KeysError, KeysStatus, Store, own};
use crate::daemon::ControlError;
use crate::daemon::client::ask;
use crate::daemon::control::Request;

/// How long a lock is tried for: who looks whether it is held holds it for a moment.
const PATIENCE: StdDuration = StdDuration::from_millis(500);
/// How often it is tried.
const TICK: StdDuration = StdDuration::from_millis(20);

/// Who runs with the key of a folder.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Holder {
    node: String,
    socket: PathBuf,
}

/// The lock of a daemon on the key that it runs with; the kernel takes it back when the process
/// ends, however it ends.
#[derive(Debug)]
pub struct Held {
    _key: File,
    file: PathBuf,
}

impl Drop for Held {
    fn drop(&mut self) {
        // One that stays is known by its socket, behind which nobody listens.
        let _ = fs::remove_file(&self.file);
    }
}

/// A daemon that was told, and what it makes of it.
#[derive(Debug)]
pub struct Told {
    /// Its node.
    pub node: String,
    /// The keys that it has now.
    pub keys: KeysStatus,
}

impl Store {
    pub(super) fn holder_file(&self) -> PathBuf {
        self.dir.join("daemon")
    }

    fn holder(&self) -> Option<Holder> {
        serde_json::from_slice(&fs::read(self.holder_file()).ok()?).ok()
    }

    /// Takes the key for a daemon, whose control socket is open already, so that changes after
    /// this are told to it.
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
        let holder = Holder { node: node.into(), socket: socket.into() };
        let text = serde_json::to_vec(&holder).expect("plain data");
        let written = fs::write(self.holder_file(), text);
        if let Err(error) = written {
            // A folder that cannot be written does not change either.
            let is_read_only = error.kind() == io::ErrorKind::ReadOnlyFilesystem;
            if !is_read_only {
                return Err(KeysError::Unwritable { dir: self.dir.clone(), error });
            }
        }
        Ok(Held { _key: key, file: self.holder_file() })
    }

    /// Tells the daemon that runs with this key to read the folder anew; `None` if none runs.
    ///
    /// Fails if it does not answer, or refuses what it has read.
    pub fn tell(&self) -> Result<Option<Told>, ControlError> {
        self.ask_holder(Request::Keys {})
    }

    /// Asks the daemon that runs with this key what keys it has; `None` if none runs.
    ///
    /// Fails if it does not answer.
    pub fn ask(&self) -> Result<Option<Told>, ControlError> {
        self.ask_holder(Request::KeysInUse {})
    }

    fn ask_holder(&self, request: Request) -> Result<Option<Told>, ControlError> {
        let Some(Holder { node, socket }) = self.holder() else { return Ok(None) };
        let answer = match ask(&socket, request) {
            // It has ended without a farewell, or begins just now and reads the folder by itself.
            Err(ControlError::NotRunning { .. }) if !self.is_held() => return Ok(None),
            answer => answer?,
        };
        let keys = serde_json::from_value(answer);
        let keys =
            keys.map_err(|error| ControlError::Answer { path: socket, reason: error.to_string() })?;
        Ok(Some(Told { node, keys }))
    }

    /// Whether a daemon runs with this key.
    fn is_held(&self) -> bool {
        let Ok(key) = File::open(self.key_file()) else { return false };
        flock(&key, FlockOperation::NonBlockingLockShared).is_err()
    }
}
