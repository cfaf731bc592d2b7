//! The file with a node's own key: kind and version on the first line, the secret in base64 (RFC
//! 4648, section 4) on the second.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use farhop_proto::base::Identity;
use ring::rand::{SecureRandom as _, SystemRandom};

use super::{KeysError, file};

/// The first line up to the version.
const KIND: &str = "farhop private key, version ";
/// The version that this program writes.
const VERSION: u32 = 1;
/// Most bytes that are read: files of ours are shorter.
const LONGEST: u64 = 4096;
/// Length of the secret in base64, in characters.
const SECRET_SIGNS: usize = 44;

/// Prefix of the name of an unfinished key file.
pub(super) const UNFINISHED: &str = ".unfinished-key-";

/// 32 random bytes from the operating system.
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

/// Writes a new key, completely or not at all; an existing one is not replaced. To be called under
/// the folder's lock.
pub(super) fn write_new(dir: &Path, path: &Path) -> Result<(), KeysError> {
    let identity = Identity::from_secret(random());
    let text = format!("{KIND}{VERSION}\n{}\n", STANDARD.encode(identity.secret()));
    let fail = |error| KeysError::Unwritable { dir: dir.into(), error };
    // The file is made with permissions for this user alone.
    let mut file = file::unfinished(dir, UNFINISHED).map_err(fail)?;
    file.write_all(text.as_bytes()).map_err(fail)?;
    file.as_file().sync_all().map_err(fail)?;
    match file.persist_noclobber(path) {
        Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => Err(fail(error.error)),
        _ => File::open(dir).and_then(|dir| dir.sync_all()).map_err(fail),
    }
}
