//! The files that a scenario names, relative to its folder.

use std::collections::BTreeMap;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fs, io};

use farhop_run::files::sum_bytes;

/// The byte order mark with which some programs begin a text.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// The contents of files that a scenario names, relative to a folder. Each file is read only once,
/// so that all runs of a sweep see the same.
#[derive(Debug)]
pub(crate) struct Files {
    folder: PathBuf,
    texts: Mutex<BTreeMap<String, Result<Arc<str>, String>>>,
}

impl Files {
    /// The files of a folder; none is read yet.
    pub(crate) fn of(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), texts: Mutex::default() }
    }

    /// The path of a file.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The content of a file, or why it cannot be read.
    pub(super) fn text(&self, name: &str) -> Result<Arc<str>, String> {
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        let read = || read_text(&self.path(name)).map(Arc::from).map_err(|error| error.to_string());
        texts.entry(name.to_owned()).or_insert_with(read).clone()
    }

    /// SHA-256 of each file that was read, by its name.
    pub(crate) fn sums(&self) -> BTreeMap<String, String> {
        let texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        let read = texts.iter().filter_map(|(name, text)| Some((name, text.as_ref().ok()?)));
        read.map(|(name, text)| (name.clone(), sum_bytes(text.as_bytes()))).collect()
    }
}

/// Reads a text file, without a byte order mark.
pub(super) fn read_text(path: &Path) -> io::Result<String> {
    // Reading a device may never end.
    if fs::metadata(path).is_ok_and(|found| found.file_type().is_char_device()) {
        return Err(io::Error::other("it is a device"));
    }
    let mut text = fs::read_to_string(path)?;
    if text.starts_with(BYTE_ORDER_MARK) {
        text.drain(..BYTE_ORDER_MARK.len_utf8());
    }
    Ok(text)
}
