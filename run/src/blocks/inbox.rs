//! Files that arrive at this node, on disk: a `.part` file grows, and is renamed once it is
//! complete and recorded as such.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Error, Result, bail, ensure};
use bytes::Bytes;
use farhop_proto::transport::hop::{Delivery, Durable, HopConfig};
use farhop_proto::wire::hop::{BlockId, FlowKey, Refusal};
use ring::digest::{Context as Digest, SHA256};

use super::store::{Change, Store, make_folder};
use crate::files::{FileInfo, Incoming, State};

/// Bytes that are read at once for a checksum.
const CHUNK: usize = 1 << 18;
/// Most files that are arriving, or that arrived and were not fetched.
const FILES: usize = 4_096;

/// Why a block of a file is refused, where the source is to know the reason.
#[derive(Debug, thiserror::Error)]
enum NotTaken {
    /// There is no space left beside the other files.
    #[error("{0}")]
    NoPlace(String),
    /// Earlier blocks are not here.
    #[error("{0}")]
    Lost(&'static str),
}

/// The refusal for the source, from an error of [`Inbox::take`].
pub(super) fn refusal_of(error: &Error) -> Refusal {
    match error.downcast_ref() {
        Some(NotTaken::NoPlace(_)) => Refusal::Full,
        Some(NotTaken::Lost(_)) => Refusal::Unknown,
        None => Refusal::Unusable,
    }
}

/// The folder of arriving files, in the node's folder. Files that are to be lost with the daemon
/// have a folder of their own, apart from those that were stored with other settings.
pub(crate) fn inbox_folder(node: &Path, durable: Durable) -> PathBuf {
    node.join(if durable == Durable::Memory { "inbox-memory" } else { "inbox" })
}

/// The folder of arriving files, and the files that were not fetched yet.
pub(super) struct Inbox {
    dir: PathBuf,
    durable: Durable,
    disk_bytes: u64,
    incoming: BTreeMap<FlowKey, Incoming>,
    /// Checksums over what has arrived of each file.
    digests: BTreeMap<FlowKey, Digest>,
    /// Sizes in bytes of complete files, by their ids.
    waiting: BTreeMap<String, u64>,
    moves: Vec<Move>,
    /// For each file that took blocks since the last [`Inbox::settle`]: its recorded state, if any.
    before: BTreeMap<FlowKey, Option<Incoming>>,
}

/// What to do with a file of the inbox once that is recorded, by its id.
enum Move {
    /// Rename the part: it is complete.
    Whole(String),
    /// Delete it: it is not needed any more.
    Gone(String),
}

impl Inbox {
    /// Continues with the recorded files, and completes what a crash left half done.
    ///
    /// Fails if the folder cannot be used, or nothing can be recorded.
    pub(super) fn build(
        dir: PathBuf,
        config: &HopConfig,
        store: &Store,
        all: &mut [Incoming],
    ) -> Result<Self> {
        make_folder(&dir)?;
        mend(store, &dir, all)?;
        remove_strays(&dir, config.durable, all)?;
        let moving = all.iter().filter(|file| file.state == State::Moving);
        let incoming = moving.map(|file| (file.flow(), file.clone())).collect();
        let done = all.iter().filter(|file| file.state == State::Done);
        let waiting = done.map(|file| (file.id(), file.info.size)).collect();
        let HopConfig { durable, disk_bytes, .. } = *config;
        let (digests, moves, before) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
        Ok(Self { dir, durable, disk_bytes, incoming, digests, waiting, moves, before })
    }

    /// The bytes of a file are not needed any more.
    pub(super) fn fetched(&mut self, id: String) {
        self.waiting.remove(&id);
        self.moves.push(Move::Gone(id));
    }

    /// Deletes a file that is arriving, and returns its record; `None` if there is none.
    pub(super) fn give_up(&mut self, flow: FlowKey, why: String) -> Option<Incoming> {
        self.before.remove(&flow);
        let mut file = self.incoming.remove(&flow)?;
        self.digests.remove(&flow);
        self.remove_part(&file.id());
        file.state = State::Failed(why);
        Some(file)
    }

    /// The changes since [`Inbox::settle`] could not be recorded: files are again as before. A
    /// fetched file is truncated at once, as its space may be what is missing, and is deleted when
    /// that is recorded. Returns the fetched files that a restart after a crash would recognise.
    pub(super) fn undo(&mut self) -> Vec<String> {
        let mut emptied = Vec::new();
        for one in std::mem::take(&mut self.moves) {
            match one {
                Move::Whole(id) => _ = self.waiting.remove(&id),
                Move::Gone(id) => {
                    match self.empty(&id) {
                        Ok(()) => emptied.push(id.clone()),
                        Err(error) => tracing::error!("the file {id} keeps its room: {error}"),
                    }
                    self.moves.push(Move::Gone(id));
                }
            }
        }
        for (flow, before) in std::mem::take(&mut self.before) {
            // The checksum covers bytes that are not known to be on disk.
            self.digests.remove(&flow);
            let now = self.incoming.remove(&flow);
            match before {
                Some(before) => _ = self.incoming.insert(flow, before),
                None => now.iter().for_each(|file| self.remove_part(&file.id())),
            }
        }
        emptied
    }

    /// Truncates a file that was fetched, and renames it, by which [`mend`] recognises it.
    fn empty(&self, id: &str) -> io::Result<()> {
        let gone = gone_file(&self.dir, id);
        if !gone.exists() {
            fs::rename(self.whole_file(id), &gone)?;
            self.sync_inbox()?;
        }
        File::options().write(true).open(gone)?.set_len(0)
    }

    fn remove_part(&self, id: &str) {
        // There is no part if it could not be made.
        let _ = fs::remove_file(self.part_file(id));
    }

    /// The changes were recorded: renames and deletes files accordingly. After a crash before this,
    /// [`mend`] does so. Returns the files that were fetched.
    pub(super) fn settle(&mut self) -> impl Iterator<Item = String> + use<> {
        self.before.clear();
        let moves = std::mem::take(&mut self.moves);
        for one in &moves {
            let outcome = match one {
                Move::Whole(id) => fs::rename(self.part_file(id), self.whole_file(id)),
                // It has the other name if the first attempt to record this failed.
                Move::Gone(id) => fs::remove_file(self.whole_file(id))
                    .or_else(|_| fs::remove_file(gone_file(&self.dir, id))),
            };
            if let Err(error) = outcome.and_then(|()| self.sync_inbox()) {
                let (Move::Whole(id) | Move::Gone(id)) = one;
                tracing::error!("the file {id} in {}: {error}", self.dir.display());
            }
        }
        moves.into_iter().filter_map(|one| match one {
            Move::Gone(id) => Some(id),
            Move::Whole(_) => None,
        })
    }

    /// Writes a block of a file where it belongs, without recording that.
    pub(super) fn take(&mut self, delivery: &Delivery) -> Result<Incoming> {
        let Delivery { id, shape, frames } = delivery;
        let id = *id;
        let before = self.incoming.get(&id.flow);
        self.before.entry(id.flow).or_insert_with(|| before.cloned());
        let bytes = if id.number == 0 {
            self.open(id, shape.crc, &frames.concat().into())?
        } else {
            frames.concat().into()
        };
        let mut file = self.file_of(id)?;
        let bytes = if file.info.streamed {
            let held = self.held_bytes() + bytes.len() as u64;
            let no_place = NotTaken::NoPlace("disk_bytes are used up".into());
            ensure!(held <= self.disk_bytes, no_place);
            if shape.finishes { file.info.handle_trailer(&bytes)? } else { bytes }
        } else {
            bytes
        };
        let end = file.received + bytes.len() as u64;
        let is_known = !file.info.streamed || shape.finishes;
        ensure!(!is_known || end <= file.info.size, "it is longer than it said");
        let part = self.part_file(&file.id());
        let on_disk = File::options().write(true).read(true).open(&part).context("its part")?;
        let data = on_disk.metadata()?;
        let is_cut = data.is_file() && data.len() < file.received;
        ensure!(!is_cut, NotTaken::Lost("part of what came is gone"));
        // It stays if writing fails: a long file takes seconds to be read again, at each attempt.
        let mut digest = match self.digests.entry(id.flow) {
            Entry::Occupied(digest) => digest.get().clone(),
            Entry::Vacant(place) => place.insert(sum_of(&on_disk, file.received)?).clone(),
        };
        on_disk.write_all_at(&bytes, file.received)?;
        digest.update(&bytes);
        file.received += bytes.len() as u64;
        file.next += 1;
        if shape.finishes {
            ensure!(file.received == file.info.size, "it ends before its end");
            ensure!(
                hex(digest.clone().finish().as_ref()) == file.info.sha256,
                "its checksum is wrong"
            );
            // After a crash the file may have bytes that are not recorded.
            on_disk.set_len(file.info.size)?;
            file.state = State::Done;
        }
        if self.durable == Durable::Fsync {
            on_disk.sync_data()?;
        }
        if file.state == State::Done {
            self.moves.push(Move::Whole(file.id()));
            self.waiting.insert(file.id(), file.info.size);
            self.incoming.remove(&id.flow);
            self.digests.remove(&id.flow);
        } else {
            self.digests.insert(id.flow, digest);
            self.incoming.insert(id.flow, file.clone());
        }
        Ok(file)
    }

    /// The file whose next block this is.
    fn file_of(&self, id: BlockId) -> Result<Incoming> {
        let unknown = NotTaken::Lost("nothing is known of it");
        let file = self.incoming.get(&id.flow).ok_or(unknown)?;
        ensure!(file.next == id.number, "block {} came in place of {}", id.number, file.next);
        Ok(file.clone())
    }

    /// Reads the first block of a file, and makes the file. Returns the block's bytes of the file.
    fn open(&mut self, id: BlockId, opened: u32, block: &Bytes) -> Result<Bytes> {
        let (info, rest) = FileInfo::read(block).context("its first block says nothing")?;
        // Its first block may be tried again, as the disk was full.
        let own = self.incoming.get(&id.flow);
        let own_bytes = own.map_or(0, |file| file.info.size.max(file.received));
        let held = self.held_bytes() - own_bytes;
        if held.saturating_add(info.size) > self.disk_bytes {
            bail!(NotTaken::NoPlace(format!(
                "'{}' has {} bytes, and of disk_bytes = {} are {held} taken",
                info.name, info.size, self.disk_bytes
            )));
        }
        let files = self.incoming.len() + self.waiting.len() - usize::from(own.is_some());
        if files >= FILES {
            let why = format!("{files} files are here already, and nobody fetches them");
            bail!(NotTaken::NoPlace(why));
        }
        let (source, local) = (id.flow.source, id.flow.local);
        let (received, next, state) = (0, 0, State::Moving);
        let from = String::new();
        let file = Incoming { source, from, local, opened, info, received, next, state };
        if let Some(old) = self.incoming.remove(&id.flow) {
            self.remove_part(&old.id());
        }
        self.digests.remove(&id.flow);
        let part = self.part_file(&file.id());
        self.make(&part).with_context(|| part.display().to_string())?;
        self.sync_inbox()?;
        self.incoming.insert(id.flow, file);
        Ok(rest)
    }

    /// Makes a file, and its folder if that was removed. Any other error counts as one of the disk,
    /// so that the block is tried again.
    fn make(&self, part: &Path) -> io::Result<()> {
        let made = File::create(part).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => fs::create_dir(&self.dir).and_then(|()| File::create(part)),
            _ => Err(error),
        });
        made.map(drop).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => io::Error::other("its folder is gone"),
            _ => error,
        })
    }

    /// Bytes of all files that are here, with those that are still to come.
    fn held_bytes(&self) -> u64 {
        let moving = self.incoming.values().map(|file| file.info.size.max(file.received));
        moving.chain(self.waiting.values().copied()).sum()
    }

    /// Syncs the folder, so that the names of files are as safe as their bytes.
    fn sync_inbox(&self) -> io::Result<()> {
        if self.durable == Durable::Fsync {
            File::open(&self.dir)?.sync_all()?;
        }
        Ok(())
    }

    fn part_file(&self, id: &str) -> PathBuf {
        part_file(&self.dir, id)
    }

    fn whole_file(&self, id: &str) -> PathBuf {
        whole_file(&self.dir, id)
    }
}

/// Makes the files of an inbox agree with their records, after a crash between the two.
fn mend(store: &Store, inbox: &Path, files: &mut [Incoming]) -> Result<()> {
    let (mut changes, mut emptied) = (Vec::new(), Vec::new());
    for file in files {
        let (part, whole) = (part_file(inbox, &file.id()), whole_file(inbox, &file.id()));
        let gone = gone_file(inbox, &file.id());
        match file.state {
            State::Moving => {}
            State::Done if gone.exists() => {
                file.state = State::Fetched;
                changes.push(Change::Incoming(file.clone()));
                emptied.push(gone);
            }
            State::Done => {
                if !whole.exists() && fs::rename(part, whole).is_err() {
                    file.state = State::Failed("its bytes are gone".into());
                    changes.push(Change::Incoming(file.clone()));
                }
            }
            State::Fetched | State::Failed(_) => {
                // Usually there is none: only if the daemon ended before it was deleted.
                let _ = [part, whole, gone].map(fs::remove_file);
            }
        }
    }
    store.change(&changes)?;
    // If this fails they are deleted at the next start.
    emptied.into_iter().for_each(|gone| _ = fs::remove_file(gone));
    Ok(())
}

/// Deletes files without a record: parts that a crash left. Complete files stay: for their senders
/// they have arrived, so their records can only be missing because the store was removed. But with
/// `durable` in memory they are meant to be lost with the daemon, and are deleted too.
fn remove_strays(inbox: &Path, durable: Durable, files: &[Incoming]) -> io::Result<()> {
    let paths = |id: String| [part_file, whole_file, gone_file].map(|path| path(inbox, &id));
    let known: BTreeSet<PathBuf> = files.iter().map(Incoming::id).flat_map(paths).collect();
    for entry in fs::read_dir(inbox)? {
        let path = entry?.path();
        let ends = ["part", "whole", "gone"];
        let is_one = path.extension().is_some_and(|end| ends.iter().any(|one| end == *one));
        if !is_one || known.contains(&path) {
            continue;
        }
        if durable != Durable::Memory && path.extension().is_some_and(|end| end == "whole") {
            tracing::warn!(
                "{} came whole and was not fetched, and nothing is known of it any more: it stays \
                 there until somebody takes it away",
                path.display()
            );
            continue;
        }
        fs::remove_file(path)?;
    }
    Ok(())
}

fn part_file(inbox: &Path, id: &str) -> PathBuf {
    inbox.join(format!("{id}.part"))
}

/// Path of a complete file.
pub(crate) fn whole_file(inbox: &Path, id: &str) -> PathBuf {
    inbox.join(format!("{id}.whole"))
}

/// Path of a fetched file whose record does not say so yet.
fn gone_file(inbox: &Path, id: &str) -> PathBuf {
    inbox.join(format!("{id}.gone"))
}

/// The checksum of the first bytes of a file, to which more can be added.
fn sum_of(file: &File, length: u64) -> Result<Digest> {
    let mut digest = Digest::new(&SHA256);
    let mut rest = io::Read::take(file, length);
    let mut chunk = vec![0; CHUNK];
    let mut done = 0;
    while done < length {
        let got = rest.read(&mut chunk)?;
        ensure!(got > 0, "part of what came is gone");
        digest.update(&chunk[..got]);
        done += got as u64;
    }
    Ok(digest)
}

/// SHA-256 of a file in hexadecimal, and its length in bytes. `watcher` is given the bytes done so
/// far, and stops the work by returning false.
///
/// Fails if the file cannot be read, or the watcher stops it.
pub fn sum_file(file: &File, watcher: &mut dyn FnMut(u64) -> bool) -> Result<(String, u64)> {
    let mut digest = Digest::new(&SHA256);
    let mut chunk = vec![0; CHUNK];
    let (mut done, mut file) = (0, file);
    loop {
        let got = file.read(&mut chunk)?;
        if got == 0 {
            return Ok((hex(digest.finish().as_ref()), done));
        }
        digest.update(&chunk[..got]);
        done += got as u64;
        ensure!(watcher(done), "interrupted");
    }
}

/// SHA-256 of bytes in hexadecimal.
pub fn sum_bytes(bytes: &[u8]) -> String {
    hex(ring::digest::digest(&SHA256, bytes).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
