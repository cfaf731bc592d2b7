//! The file with a node's own key: its kind and version on the first line, the secret in base64
//! (RFC 4648, section 4) on the second.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use farhop_proto::base::Identity;
use ring::rand::{SecureRandom as _, SystemRandom};

use super::{KeysError, file};

/// What the first line begins with; the version follows.
const KIND: &str = "farhop private key, version ";
/// The version that is written here.
const VERSION: u32 = 1;
/// A file that is longer is none of ours, in bytes.
const LONGEST: u64 = 4096;
/// The secret in base64, in signs.
const SECRET_SIGNS: usize = 44;

/// What the name begins with of a key that is not whole yet.
pub(super) const UNFINISHED: &str = ".unfinished-key-";

/// 32 bytes from the randomness of the system.
pub fn random() -> [u8; 32] {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).expect("Linux has randomness once it has booted");
    bytes
}

/// Reads the key; `None` if there is no file.
pub(super) fn read(path: &Path) -> Result<Option<(Identity, File)>, KeysError> {
    let Some(mut file) = file::open(path, file::SECRET)? else { return Ok(None) };
    let mut bytes = Vec::new();
    let read = (&mut file).take(LONGEST).read_to_end(&mut bytes);
    read.map_err(|error| KeysError::Unreadable { path: path.into(), error })?;
    Ok(Some((parse(path, &bytes)?, file)))
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Identity, KeysError> {
    let path = || path.to_owned();
    let text = &*String::from_utf8_lossy(bytes);
    let (head, rest) = text.split_once('\n').unwrap_or((text, ""));
    let Some(version) = head.trim_end().strip_prefix(KIND) else {
        let is_begun = KIND.starts_with(text);
        let error = if is_begun {
            KeysError::Short { path: path() }
        } else {
            KeysError::Foreign { path: path() }
        };
        return Err(error);
    };
    match version.parse() {
        Ok(VERSION) => {}
        Ok(version) => return Err(KeysError::Newer { path: path(), version }),
        Err(_) if version.is_empty() => return Err(KeysError::Short { path: path() }),
        Err(_) => return Err(KeysError::Foreign { path: path() }),
    }
    let secret = rest.trim_end();
    if secret.len() < SECRET_SIGNS {
        return Err(KeysError::Short { path: path() });
    }
    let secret = STANDARD.decode(secret).ok().and_then(|secret| secret.try_into().ok());
    secret.map(Identity::from_secret).ok_or_else(|| KeysError::Damaged { path: path() })
}

/// Writes a new key, whole or not at all; leaves one that is there alone. To be called under the
/// lock of the folder.
pub(super) fn write_new(dir: &Path, path: &Path) -> Result<(), KeysError> {
    let identity = Identity::from_secret(random());
    let text = format!("{KIND}{VERSION}\n{}\n", STANDARD.encode(identity.secret()));
    let fail = |error| KeysError::Unwritable { dir: dir.into(), error };
    // It is made for this user alone.
    let mut file = file::unfinished(dir, UNFINISHED).map_err(fail)?;
    file.write_all(text.as_bytes()).map_err(fail)?;
    file.as_file().sync_all().map_err(fail)?;
    match file.persist_noclobber(path) {
        Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => Err(fail(error.error)),
        _ => File::open(dir).and_then(|dir| dir.sync_all()).map_err(fail),
    }
}
