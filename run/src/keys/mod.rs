//! Keys of this host: a folder with the node's own key, and the keys of other nodes that it trusts.
//!
//! ```text
//! DIR/key       own private key, for this user alone
//! DIR/trusted   a line for each key of others, with comments
//! DIR/daemon    the daemon that runs with this key, and its control socket
//! ```
//!
//! The folder and its files must belong to root or the user of the process, and nobody else may be
//! able to change them. `key` and `trusted` may be symbolic links.
//!
//! While it runs, a daemon holds a lock on `key`. A process that makes a key or changes `trusted`
//! locks the folder where that file really is, even if it is reached by a link. Files are replaced
//! completely or not at all; unfinished ones of a process that was killed are removed by the next.
//! A process that changes a file tells the daemon, which then reads it again.

mod error;
mod file;
mod held;
mod nodes;
mod own;
mod trusted;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use farhop_proto::base::{Identity, PublicKey};
use rustix::fs::{FlockOperation, flock};

pub use error::KeysError;
pub use held::{Held, Told};
pub use nodes::{KeysStatus, NodeKeys};
pub use own::random;
pub use trusted::{Entry, Trust, Trusted};

/// Permissions of a new file with trusted keys, which are not secret.
const TRUSTED_MODE: u32 = 0o644;
/// How long to wait for the lock of a folder, and how often to try.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);
const LOCK_TICK: Duration = Duration::from_millis(20);
/// Prefix of the name of an unfinished file with trusted keys.
const UNFINISHED: &str = ".unfinished-trusted-";

/// A folder of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    dir: PathBuf,
}

impl Store {
    /// The keys in a folder; by default in this user's: `/etc/farhop` for root, else `farhop` in
    /// `XDG_CONFIG_HOME` or `~/.config`. The folder need not exist yet.
    ///
    /// Fails if the user has no such folder, or a file is in the way.
    pub fn open(dir: Option<&Path>) -> Result<Self, KeysError> {
        let dir = dir.map_or_else(default_dir, |dir| Ok(dir.into()))?;
        // A daemon may be told of the folder later, by a process that runs in another one.
        let dir = std::path::absolute(&dir)
            .map_err(|error| KeysError::Unreadable { path: dir, error })?;
        match dir.ancestors().find(|part| part.exists()).filter(|part| !part.is_dir()) {
            Some(file) => Err(KeysError::NoFolderThere { path: file.into() }),
            None => Ok(Self { dir }),
        }
    }

    /// Path of the folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Path of the file with the own key.
    pub fn key_file(&self) -> PathBuf {
        self.dir.join("key")
    }

    /// Path of the file with the keys of others.
    pub fn trusted_file(&self) -> PathBuf {
        self.dir.join("trusted")
    }

    /// The own key; `None` if there is none yet.
    ///
    /// Fails if the file is invalid, or others can read or change it.
    pub fn own(&self) -> Result<Option<Identity>, KeysError> {
        Ok(own::read(&self.key_file())?.map(|(identity, _)| identity))
    }

    /// The own key; makes it if there is none. Returns whether it was made.
    ///
    /// Fails as [`Store::own`] does, and if the folder cannot be written.
    pub fn own_or_new(&self) -> Result<(Identity, bool), KeysError> {
        if let Some(identity) = self.own()? {
            // If another process has the lock, unfinished files are removed some other time.
            if let Ok(dir) = File::open(&self.dir)
                && flock(&dir, FlockOperation::NonBlockingLockExclusive).is_ok()
            {
                file::remove_unfinished(&self.dir, own::UNFINISHED);
            }
            return Ok((identity, false));
        }
        self.make_dir()?;
        let _lock = lock(&self.dir)?;
        file::remove_unfinished(&self.dir, own::UNFINISHED);
        own::write_new(&self.dir, &self.key_file())?;
        let identity = self.own()?.ok_or_else(|| KeysError::Missing { dir: self.dir.clone() })?;
        Ok((identity, true))
    }

    /// The keys of others.
    ///
    /// Fails if the file cannot be read, others can change it, or a line is invalid.
    pub fn trusted(&self) -> Result<Trusted, KeysError> {
        let path = self.trusted_file();
        let Some(mut file) = file::open(&path, file::PUBLIC)? else {
            return Ok(Trusted::default());
        };
        let mut bytes = Vec::new();
        if let Err(error) = file.read_to_end(&mut bytes) {
            return Err(KeysError::Unreadable { path, error });
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = 1 + good.iter().filter(|byte| **byte == b'\n').count();
            let reason = "this is no text in UTF-8: write the line anew, or remove it".into();
            KeysError::Line { path: path.clone(), line, reason }
        })?;
        Trusted::parse(&path, &text)
    }

    /// Trusts a key, under the name of its node if that is given; a revoked key only if `again`.
    /// Returns its entry, and whether anything changed.
    ///
    /// Fails if it is the own key or was revoked, if it has another name or the name has another
    /// key, and if the folder cannot be written.
    pub fn trust(
        &self,
        key: PublicKey,
        name: Option<&str>,
        again: bool,
    ) -> Result<(Entry, bool), KeysError> {
        if self.own()?.is_some_and(|own| own.public() == key) {
            let (fingerprint, dir) = (key.fingerprint(), self.dir.clone());
            return Err(KeysError::Own { fingerprint, dir });
        }
        self.change(|trusted| trusted.trust(key, name, again))
    }

    /// Revokes a key, which `who` gives by its name, its line or its fingerprint. `known` are keys
    /// that a daemon has from elsewhere. Returns its entry, and whether anything changed.
    ///
    /// Fails if no such key is known, or the folder cannot be written.
    pub fn revoke(
        &self,
        who: &str,
        known: &BTreeMap<String, PublicKey>,
    ) -> Result<(Entry, bool), KeysError> {
        self.change(|trusted| trusted.revoke(who, known))
    }

    /// Changes the keys of others under the lock of their folder.
    fn change(
        &self,
        change: impl Fn(&mut Trusted) -> Result<(Entry, bool), KeysError>,
    ) -> Result<(Entry, bool), KeysError> {
        if !self.dir.exists() {
            // A change that is refused must not make the folder.
            change(&mut Trusted::default())?;
        }
        self.make_dir()?;
        let real = file::real(&self.trusted_file());
        let dir = real.parent().expect("a file in a folder");
        let _lock = lock(dir)?;
        file::remove_unfinished(dir, UNFINISHED);
        let mut trusted = self.trusted()?;
        let (entry, is_news) = change(&mut trusted)?;
        if is_news {
            self.write_trusted(&trusted.text())?;
        }
        Ok((entry, is_news))
    }

    /// Replaces the file with the keys of others, or the file that it links to.
    fn write_trusted(&self, text: &str) -> Result<(), KeysError> {
        let path = file::real(&self.trusted_file());
        let dir = path.parent().expect("a file in a folder");
        let write = || {
            let mode = fs::metadata(&path).map_or(TRUSTED_MODE, |file| file.permissions().mode());
            let mut file = file::unfinished(dir, UNFINISHED)?;
            file.write_all(text.as_bytes())?;
            file.as_file().set_permissions(fs::Permissions::from_mode(mode & 0o777))?;
            file.as_file().sync_all()?;
            file.persist(&path).map_err(|error| error.error)?;
            File::open(dir)?.sync_all()
        };
        write().map_err(|error| KeysError::Unwritable { dir: dir.into(), error })
    }

    /// Makes the folder if it does not exist.
    fn make_dir(&self) -> Result<(), KeysError> {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.dir);
        made.map_err(|error| KeysError::Unwritable { dir: self.dir.clone(), error })?;
        file::check_folder(&self.dir, 0)
    }
}

/// Locks a folder; others hold the lock only for a moment.
///
/// Fails if some other program keeps it: whoever can read the folder can lock it.
fn lock(dir: &Path) -> Result<File, KeysError> {
    let fail = |error| KeysError::Unwritable { dir: dir.into(), error };
    let lock = File::open(dir).map_err(fail)?;
    let limit = Instant::now() + LOCK_PATIENCE;
    while let Err(error) = flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        if error != rustix::io::Errno::WOULDBLOCK {
            return Err(fail(error.into()));
        }
        if Instant::now() > limit {
            let said = "another program keeps it locked (`fuser -v` on it says which)";
            return Err(fail(io::Error::new(io::ErrorKind::WouldBlock, said)));
        }
        thread::sleep(LOCK_TICK);
    }
    Ok(lock)
}

fn default_dir() -> Result<PathBuf, KeysError> {
    if rustix::process::geteuid().is_root() {
        return Ok("/etc/farhop".into());
    }
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let config = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")));
    config.map(|config| config.join("farhop")).ok_or(KeysError::NoFolder)
}
