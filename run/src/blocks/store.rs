//! What survives the daemon: blocks that pass through, and the records of files and flows. It is a
//! single file of an embedded database; each change is written completely or not at all, whenever
//! the daemon ends.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use bytes::Bytes;
use farhop_proto::base::NodeId;
use farhop_proto::transport::hop::{Durable, HopConfig, Whole};
use farhop_proto::wire::hop::BlockId;
use redb::backends::{FileBackend, InMemoryBackend};
use redb::{
    Database, Key, ReadableDatabase as _, ReadableTable as _, StorageBackend, Table,
    TableDefinition, TableError, TableHandle as _, WriteTransaction,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use self::coding::{decode, encode, id_of, key_of};
pub use self::error::StoreError;
pub(super) use self::make::make_folder;
use self::make::make_if_new;
use self::on_disk::OnDisk;
pub use self::past::PastFlow;
use self::pieces::{Pieced, Pieces};
use crate::files::{Incoming, Outgoing};
use crate::sockets::{Receiving, Sending};

/// Converts each of the database's errors to a [`StoreError`].
macro_rules! kept {
    ($result:expr) => {
        $result.map_err(|error| StoreError::Store(error.into()))?
    };
}

mod coding;
mod error;
mod make;
mod on_disk;
mod past;
mod pieces;

const BLOCKS: Pieced = Pieced::new("blocks", ["blocks-long", "blocks-short"]);
const OUTGOING: TableDefinition<'_, u32, &[u8]> = TableDefinition::new("files-out");
const INCOMING: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("incoming");
const SENDING: TableDefinition<'_, u32, &[u8]> = TableDefinition::new("blocks-out");
const RECEIVING: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("receiving");
const LETTERS: Pieced = Pieced::new("mail", ["mail-long", "mail-short"]);
/// Letters of earlier versions, without checksums.
const BARE_LETTERS: Pieced = Pieced::new("letters", ["letters-long", "letters-short"]);
const NAMES: TableDefinition<'_, u16, &str> = TableDefinition::new("nodes");
/// A table by the number of a flow from here.
type ByFlow<N> = TableDefinition<'static, N, &'static [u8]>;
/// Tables of earlier versions, in which numbers of flows had 16 bits, and those that replace them.
const SHORT: [(ByFlow<u16>, ByFlow<u32>); 2] =
    [(TableDefinition::new("outgoing"), OUTGOING), (TableDefinition::new("sending"), SENDING)];
/// Memory of the database for its pages, in bytes.
const PAGES: usize = 4 << 20;
/// How many bytes more than its contents, and an eighth of them for what finds them, the file may
/// have before it is shrunk.
const SLACK: u64 = 8 << 20;
/// Name of the file.
const FILE: &str = "blocks.redb";

/// Disk space, in bytes, of the store's file in this folder; 0 if there is none.
pub(super) fn file_bytes(dir: &Path) -> u64 {
    fs::metadata(dir.join(FILE)).map_or(0, |file| file.blocks() * 512)
}

/// A file that is written without waiting for the disk.
#[derive(Debug)]
struct Unsynced(FileBackend);

impl StorageBackend for Unsynced {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.0.close()
    }
}

/// A change to the store.
#[derive(Debug)]
pub enum Change {
    /// Store a block.
    Block(Whole),
    /// Delete a block.
    NoBlock(BlockId),
    /// Record a file that is sent from here.
    Outgoing(Outgoing),
    /// Forget it.
    NoOutgoing(u32),
    /// Record a file that arrives here.
    Incoming(Incoming),
    /// Forget it.
    NoIncoming(String),
    /// Record a flow of blocks that a program here sends.
    Sending(Sending),
    /// Forget it.
    NoSending(u32),
    /// Record a flow of blocks for a program here.
    Receiving(Receiving),
    /// Forget it.
    NoReceiving(String),
    /// Store a block for a program here.
    Letter(Whole),
    /// Delete it: the program has it.
    NoLetter(BlockId),
    /// Remember a flow to here that ended.
    Past(PastFlow),
    /// Forget those of a source.
    NoPast(NodeId),
    /// Record the names of all nodes by their numbers, in place of those before.
    Names(BTreeMap<NodeId, String>),
}

/// Opens the database.
pub(super) type Opens = Box<dyn Fn() -> Result<Database, StoreError> + Send>;

/// The store of a daemon.
pub struct Store {
    /// `None` after an attempt to open it again failed.
    database: Option<Database>,
    opens: Opens,
    /// Its file; `None` for a store in memory.
    file: Option<OnDisk>,
    /// What was stored when the file was last shrunk, and what the file had after it, in bytes.
    shrunk: (u64, u64),
}

impl Store {
    /// Opens the store in a folder; makes the folder and the store if there is none.
    ///
    /// Fails if another process has the store open, or it cannot be read or written.
    pub fn open(dir: &Path, config: &HopConfig) -> Result<Self, StoreError> {
        make_folder(dir)?;
        // It has blocks of others, and folders of earlier versions were readable by all.
        if let Err(error) = fs::set_permissions(dir, fs::Permissions::from_mode(0o700)) {
            tracing::warn!(dir = %dir.display(), "others may read what is kept here: {error}");
        }
        let (folder, path, durable) = (dir.to_owned(), dir.join(FILE), config.durable);
        let is_file = durable != Durable::Memory;
        let opens = move || {
            let file = || {
                make_if_new(&folder)?;
                Ok::<_, StoreError>(File::options().read(true).write(true).open(&path)?)
            };
            let mut builder = Database::builder();
            builder.set_cache_size(PAGES);
            let database = match durable {
                Durable::Fsync => builder.create_with_backend(kept!(FileBackend::new(file()?))),
                Durable::PageCache => {
                    builder.create_with_backend(Unsynced(kept!(FileBackend::new(file()?))))
                }
                Durable::Memory => builder.create_with_backend(InMemoryBackend::new()),
            };
            Ok(kept!(database))
        };
        let store = Self::build(Box::new(opens));
        let store = store.map_err(|error| error.on_open(&dir.join(FILE)))?;
        let on_disk = || OnDisk::build(dir);
        Ok(Self { file: is_file.then(on_disk).transpose()?, ..store })
    }

    /// Whether a folder has a store.
    pub fn is_in(dir: &Path) -> bool {
        dir.join(FILE).is_file()
    }

    pub(super) fn build(opens: Opens) -> Result<Self, StoreError> {
        let store = Self { database: Some(opens()?), opens, file: None, shrunk: (u64::MAX, 0) };
        store.change(&[])?;
        store.lengthen()?;
        Ok(store)
    }

    /// Converts the tables of an earlier version.
    fn lengthen(&self) -> Result<(), StoreError> {
        let read = kept!(self.database()?.begin_read());
        let tables: Vec<_> = kept!(read.list_tables()).collect();
        kept!(read.close());
        for (short, long) in SHORT {
            if !tables.iter().any(|table| table.name() == short.name()) {
                continue;
            }
            let write = kept!(self.database()?.begin_write());
            {
                let mut to = kept!(write.open_table(long));
                for entry in kept!(kept!(write.open_table(short)).iter()) {
                    let (local, record) = kept!(entry);
                    drop(kept!(to.insert(u32::from(local.value()), record.value())));
                }
            }
            kept!(write.delete_table(short));
            kept!(write.commit());
        }
        Ok(())
    }

    /// Opens the database again: after an error of the disk it does nothing more.
    ///
    /// Fails if it still cannot be written, or its file is gone: a new store would not have what
    /// the daemon has promised to keep.
    pub fn open_again(&mut self) -> Result<(), StoreError> {
        self.look()?;
        // The open database has a lock on its file.
        self.database = None;
        self.database = Some((self.opens)().map_err(|error| self.while_open(error))?);
        self.changed()
    }

    /// The database has written, or tried to.
    fn changed(&self) -> Result<(), StoreError> {
        self.file.as_ref().map_or(Ok(()), OnDisk::changed)
    }

    fn look(&self) -> Result<(), StoreError> {
        self.file.as_ref().map_or(Ok(()), OnDisk::look)
    }

    fn while_open(&self, error: StoreError) -> StoreError {
        match &self.file {
            Some(file) => error.while_open(&file.path()),
            None => error,
        }
    }

    /// Gives unused space of the file back to the file system: it grows with the most that was
    /// stored at one time, and does not shrink by itself. This takes as long as writing all that is
    /// stored.
    ///
    /// Fails if the store cannot be read or written.
    pub fn shrink(&mut self) -> Result<(), StoreError> {
        let Some(OnDisk { dir, .. }) = &self.file else { return Ok(()) };
        let read = kept!(self.database()?.begin_read());
        let held = [BLOCKS, LETTERS, BARE_LETTERS].iter().map(|one| one.page_bytes(&read));
        let held = held.sum::<Result<u64, _>>()?;
        kept!(read.close());
        let bytes = file_bytes(dir);
        let (held_before, bytes_before) = self.shrunk;
        // What could not be shrunk last time, because values of earlier versions take twice their
        // bytes, or because of how pages are filled, cannot be now.
        let is_futile = held >= held_before && bytes <= bytes_before + SLACK;
        if let Some(database) = &mut self.database
            && bytes > held + held / 8 + SLACK
            && !is_futile
        {
            kept!(database.compact());
            self.changed()?;
            self.shrunk = (held, file_bytes(dir));
        }
        Ok(())
    }

    fn database(&self) -> Result<&Database, StoreError> {
        self.database.as_ref().ok_or(StoreError::Store(redb::Error::PreviousIo))
    }

    /// Makes all changes or none. Once this returns they are as safe as the `durable` setting says.
    ///
    /// Fails if they cannot be written, or the file was removed, replaced or cut.
    pub fn change(&self, changes: &[Change]) -> Result<(), StoreError> {
        self.look()?;
        let outcome = self.commit(changes).map_err(|error| self.while_open(error));
        let is_there = self.changed();
        outcome.and(is_there)
    }

    fn commit(&self, changes: &[Change]) -> Result<(), StoreError> {
        let write = kept!(self.database()?.begin_write());
        {
            let mut tables = Tables {
                blocks: BLOCKS.open(&write)?,
                outgoing: kept!(write.open_table(OUTGOING)),
                incoming: kept!(write.open_table(INCOMING)),
                sending: kept!(write.open_table(SENDING)),
                receiving: kept!(write.open_table(RECEIVING)),
                letters: LETTERS.open(&write)?,
                bare_letters: BARE_LETTERS.open(&write)?,
                write: &write,
            };
            changes.iter().try_for_each(|change| tables.change(change))?;
        }
        kept!(write.commit());
        Ok(())
    }

    /// Passes each stored block to `see`, one at a time. Unreadable blocks, which were
    /// acknowledged, are named in the log, and returned.
    ///
    /// Fails if the store cannot be read.
    pub fn each_block(&self, mut see: impl FnMut(Whole)) -> Result<Vec<BlockId>, StoreError> {
        let mut unreadable = Vec::new();
        let read = kept!(self.database()?.begin_read());
        let table = kept!(read.open_table(BLOCKS.rests));
        for entry in kept!(table.iter()) {
            let (key, rest) = kept!(entry);
            let whole = decode(key.value(), &BLOCKS.joined(&read, key.value(), rest.value())?);
            match whole.filter(Whole::is_right) {
                Some(whole) => see(whole),
                None => {
                    tracing::error!(key = ?key.value(), "a block is gone: it cannot be read");
                    unreadable.extend(id_of(key.value()));
                }
            }
        }
        Ok(unreadable)
    }

    /// A stored block; `None` if there is none, or it is unreadable.
    ///
    /// Fails if the store cannot be read.
    pub fn block(&self, id: BlockId) -> Result<Option<Whole>, StoreError> {
        let read = kept!(self.database()?.begin_read());
        let key = key_of(id);
        Ok(BLOCKS.value(&read, &key)?.and_then(|value| decode(&key, &value)))
    }

    /// A stored block for a program here; `None` if there is none, or its bytes are wrong.
    ///
    /// Fails if the store cannot be read.
    pub fn letter(&self, id: BlockId) -> Result<Option<Bytes>, StoreError> {
        let (read, key) = (kept!(self.database()?.begin_read()), key_of(id));
        let Some(value) = LETTERS.value(&read, &key)? else {
            return Ok(BARE_LETTERS.value(&read, &key)?.map(Bytes::from));
        };
        let whole = decode(&key, &value).filter(Whole::is_right);
        if whole.is_none() {
            tracing::error!(?id, "a block for a program here is damaged");
        }
        Ok(whole.map(|whole| whole.frames.concat().into()))
    }

    /// All flows of blocks that programs here send.
    ///
    /// Fails if the store cannot be read.
    pub fn sending(&self) -> Result<Vec<Sending>, StoreError> {
        self.records(SENDING)
    }

    /// All flows of blocks for programs here.
    ///
    /// Fails if the store cannot be read.
    pub fn receiving(&self) -> Result<Vec<Receiving>, StoreError> {
        self.records(RECEIVING)
    }

    /// All files that are sent from here.
    ///
    /// Fails if the store cannot be read.
    pub fn outgoing(&self) -> Result<Vec<Outgoing>, StoreError> {
        self.records(OUTGOING)
    }

    /// All files that arrive here, or arrived.
    ///
    /// Fails if the store cannot be read.
    pub fn incoming(&self) -> Result<Vec<Incoming>, StoreError> {
        self.records(INCOMING)
    }

    /// Flows to here that ended and whose records are gone; of each source the oldest first.
    ///
    /// Fails if the store cannot be read.
    pub fn past(&self) -> Result<Vec<PastFlow>, StoreError> {
        let read = kept!(self.database()?.begin_read());
        past::all(&read)
    }

    /// The names of all nodes by their numbers, as last recorded; empty if they never were.
    ///
    /// Fails if the store cannot be read.
    pub fn names(&self) -> Result<BTreeMap<NodeId, String>, StoreError> {
        let read = kept!(self.database()?.begin_read());
        let mut names = BTreeMap::new();
        let table = match read.open_table(NAMES) {
            Err(TableError::TableDoesNotExist(_)) => return Ok(names),
            table => kept!(table),
        };
        for entry in kept!(table.iter()) {
            let (node, name) = kept!(entry);
            names.insert(NodeId(node.value()), name.value().to_owned());
        }
        Ok(names)
    }

    /// All records of a table; unreadable ones are skipped.
    fn records<K: Key + 'static, T: DeserializeOwned>(
        &self,
        table: TableDefinition<'_, K, &'static [u8]>,
    ) -> Result<Vec<T>, StoreError> {
        let read = kept!(self.database()?.begin_read());
        let table = kept!(read.open_table(table));
        let mut all = Vec::new();
        for entry in kept!(table.iter()) {
            all.extend(serde_json::from_slice(kept!(entry).1.value()).ok());
        }
        Ok(all)
    }
}

/// The tables of an open transaction.
struct Tables<'a> {
    /// For tables that are seldom changed.
    write: &'a WriteTransaction,
    blocks: Pieces<'a>,
    outgoing: Table<'a, u32, &'static [u8]>,
    incoming: Table<'a, &'static str, &'static [u8]>,
    sending: Table<'a, u32, &'static [u8]>,
    receiving: Table<'a, &'static str, &'static [u8]>,
    letters: Pieces<'a>,
    bare_letters: Pieces<'a>,
}

impl Tables<'_> {
    fn change(&mut self, change: &Change) -> Result<(), StoreError> {
        match change {
            Change::Block(whole) => {
                self.blocks.insert(&key_of(whole.id), &encode(whole))?;
            }
            Change::NoBlock(id) => self.blocks.remove(&key_of(*id))?,
            Change::Outgoing(file) => {
                drop(kept!(self.outgoing.insert(file.local, &text_of(file)[..])));
            }
            Change::NoOutgoing(local) => drop(kept!(self.outgoing.remove(local))),
            Change::Incoming(file) => {
                drop(kept!(self.incoming.insert(&*file.id(), &text_of(file)[..])));
            }
            Change::NoIncoming(id) => drop(kept!(self.incoming.remove(&**id))),
            Change::Sending(flow) => {
                drop(kept!(self.sending.insert(flow.local, &text_of(flow)[..])));
            }
            Change::NoSending(local) => drop(kept!(self.sending.remove(local))),
            Change::Receiving(flow) => {
                drop(kept!(self.receiving.insert(&*flow.id(), &text_of(flow)[..])));
            }
            Change::NoReceiving(id) => drop(kept!(self.receiving.remove(&**id))),
            Change::Letter(whole) => {
                self.letters.insert(&key_of(whole.id), &encode(whole))?;
            }
            Change::NoLetter(id) => {
                self.letters.remove(&key_of(*id))?;
                self.bare_letters.remove(&key_of(*id))?;
            }
            Change::Past(flow) => past::put(self.write, *flow)?,
            Change::NoPast(source) => past::forget(self.write, *source)?,
            Change::Names(names) => {
                let mut table = kept!(self.write.open_table(NAMES));
                kept!(table.retain(|_, _| false));
                for (node, name) in names {
                    drop(kept!(table.insert(node.0, &**name)));
                }
            }
        }
        Ok(())
    }
}

fn text_of(record: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(record).expect("plain data")
}
