//! What survives the daemon: blocks of others, and what is known of files on their way. One file
//! of an embedded store; each change is there whole or not at all, whenever the daemon ends.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use bytes::Bytes;
use farhop_proto::base::NodeId;
use farhop_proto::transport::hop::{Durable, HopConfig, Shape, Whole, frames_of};
use farhop_proto::wire::hop::{BlockId, FlowKey};
use redb::backends::{FileBackend, InMemoryBackend};
use redb::{
    Database, Key, ReadableDatabase as _, ReadableTable as _, ReadableTableMetadata as _,
    StorageBackend, Table, TableDefinition, TableError, TableHandle as _, WriteTransaction,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use self::error::StoreError;
use self::make::make_if_new;
use self::on_disk::OnDisk;
use crate::files::{Incoming, Outgoing};
use crate::sockets::{Receiving, Sending};

/// Turns each of the store's errors into one.
macro_rules! kept {
    ($result:expr) => {
        $result.map_err(|error| StoreError::Store(error.into()))?
    };
}

mod error;
mod make;
mod on_disk;

const BLOCKS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("blocks");
const OUTGOING: TableDefinition<'_, u32, &[u8]> = TableDefinition::new("files-out");
const INCOMING: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("incoming");
const SENDING: TableDefinition<'_, u32, &[u8]> = TableDefinition::new("blocks-out");
const RECEIVING: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("receiving");
const LETTERS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("letters");
const NAMES: TableDefinition<'_, u16, &str> = TableDefinition::new("nodes");
/// Values by the number of a flow from here.
type ByFlow<N> = TableDefinition<'static, N, &'static [u8]>;
/// What earlier versions had in the place of some tables: numbers of flows had 16 bits.
const SHORT: [(ByFlow<u16>, ByFlow<u32>); 2] =
    [(TableDefinition::new("outgoing"), OUTGOING), (TableDefinition::new("sending"), SENDING)];
/// Memory of the store for its own pages.
const PAGES: usize = 4 << 20;
/// What the file of a store may have that it does not need.
const SLACK: u64 = 8 << 20;
/// Name of that file.
const FILE: &str = "blocks.redb";
/// Bytes of what stands before the bytes of a block.
const FRONT_BYTES: usize = 17;

/// What the file of a store in this folder takes of the disk; nothing if there is none.
pub(super) fn file_bytes(dir: &Path) -> u64 {
    fs::metadata(dir.join(FILE)).map_or(0, |file| file.blocks() * 512)
}

/// A file that is written and never waited for.
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

/// A change to what is kept.
#[derive(Debug)]
pub enum Change {
    /// A block is to be kept.
    Block(Whole),
    /// It is not any more.
    NoBlock(BlockId),
    /// A file that is sent from here.
    Outgoing(Outgoing),
    /// It is forgotten.
    NoOutgoing(u32),
    /// A file that comes here.
    Incoming(Incoming),
    /// It is forgotten.
    NoIncoming(String),
    /// Blocks that a program here sends.
    Sending(Sending),
    /// They are forgotten.
    NoSending(u32),
    /// Blocks for a program here.
    Receiving(Receiving),
    /// They are forgotten.
    NoReceiving(String),
    /// One of them.
    Letter(BlockId, Bytes),
    /// The program has it.
    NoLetter(BlockId),
    /// The names of all nodes by their numbers, and no others.
    Names(BTreeMap<NodeId, String>),
}

/// What opens the file of a store.
pub(super) type Opens = Box<dyn Fn() -> Result<Database, StoreError> + Send>;

/// The store of a daemon.
pub struct Store {
    /// None while it could not be opened again.
    database: Option<Database>,
    opens: Opens,
    /// Its file, if it has one.
    file: Option<OnDisk>,
}

impl Store {
    /// Opens the store in a folder, which is made if there is none.
    ///
    /// Fails if another process has it, or it cannot be read or written.
    pub fn open(dir: &Path, config: &HopConfig) -> Result<Self, StoreError> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        // Blocks of others are in it, and folders of earlier versions could be read by all.
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
        let on_disk = || OnDisk::build(dir, config.bytes_of_block().into());
        Ok(Self { file: is_file.then(on_disk).transpose()?, ..store })
    }

    /// Whether there is one in a folder.
    pub fn is_in(dir: &Path) -> bool {
        dir.join(FILE).is_file()
    }

    pub(super) fn build(opens: Opens) -> Result<Self, StoreError> {
        let store = Self { database: Some(opens()?), opens, file: None };
        store.change(&[])?;
        store.lengthen()?;
        Ok(store)
    }

    /// Takes over what an earlier version wrote.
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

    /// Opens it anew: the database does nothing more after an error of the disk.
    ///
    /// Fails if it still cannot be written, or is not there any more: a new one would know nothing
    /// of what the daemon has said.
    pub fn open_again(&mut self) -> Result<(), StoreError> {
        self.look()?;
        // It has a lock on its file.
        self.database = None;
        self.database = Some((self.opens)().map_err(|error| self.while_open(error))?);
        Ok(())
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

    /// Gives the system back what the file has and hardly needs: it grows with what was kept at one
    /// time, and does not shrink by itself. That takes as long as writing all that is kept.
    ///
    /// Fails if it cannot be read or written.
    pub fn shrink(&mut self) -> Result<(), StoreError> {
        let Some(OnDisk { dir, block_bytes, .. }) = &self.file else { return Ok(()) };
        let read = kept!(self.database()?.begin_read());
        let blocks = kept!(kept!(read.open_table(BLOCKS)).len());
        let letters = kept!(kept!(read.open_table(LETTERS)).len());
        kept!(read.close());
        let held = (blocks + letters) * block_bytes;
        if let Some(database) = &mut self.database
            && file_bytes(dir) > 2 * held + SLACK
        {
            kept!(database.compact());
        }
        Ok(())
    }

    fn database(&self) -> Result<&Database, StoreError> {
        self.database.as_ref().ok_or(StoreError::Store(redb::Error::PreviousIo))
    }

    /// Makes changes, all or none. When this returns they are as safe as the settings say.
    ///
    /// Fails if they cannot be written, or the file is not there any more.
    pub fn change(&self, changes: &[Change]) -> Result<(), StoreError> {
        self.look()?;
        self.commit(changes).map_err(|error| self.while_open(error))?;
        self.look()
    }

    fn commit(&self, changes: &[Change]) -> Result<(), StoreError> {
        let write = kept!(self.database()?.begin_write());
        {
            let mut tables = Tables {
                blocks: kept!(write.open_table(BLOCKS)),
                outgoing: kept!(write.open_table(OUTGOING)),
                incoming: kept!(write.open_table(INCOMING)),
                sending: kept!(write.open_table(SENDING)),
                receiving: kept!(write.open_table(RECEIVING)),
                letters: kept!(write.open_table(LETTERS)),
                write: &write,
            };
            changes.iter().try_for_each(|change| tables.change(change))?;
        }
        kept!(write.commit());
        Ok(())
    }

    /// Shows all blocks that are kept, one after the other. One that is not readable is left out.
    ///
    /// Fails if the store cannot be read.
    pub fn each_block(&self, mut see: impl FnMut(Whole)) -> Result<(), StoreError> {
        let read = kept!(self.database()?.begin_read());
        let table = kept!(read.open_table(BLOCKS));
        for entry in kept!(table.iter()) {
            let (key, value) = kept!(entry);
            decode(key.value(), value.value()).into_iter().for_each(&mut see);
        }
        Ok(())
    }

    /// A block that is kept; nothing if there is none, or it is not readable.
    ///
    /// Fails if the store cannot be read.
    pub fn block(&self, id: BlockId) -> Result<Option<Whole>, StoreError> {
        let read = kept!(self.database()?.begin_read());
        let table = kept!(read.open_table(BLOCKS));
        let key = key_of(id);
        let found = kept!(table.get(&key[..]));
        Ok(found.and_then(|value| decode(&key, value.value())))
    }

    /// A block for a program here.
    ///
    /// Fails if the store cannot be read.
    pub fn letter(&self, id: BlockId) -> Result<Option<Bytes>, StoreError> {
        let read = kept!(self.database()?.begin_read());
        let table = kept!(read.open_table(LETTERS));
        let found = kept!(table.get(&key_of(id)[..]));
        Ok(found.map(|value| Bytes::copy_from_slice(value.value())))
    }

    /// All blocks that programs here send, by their flows.
    ///
    /// Fails if the store cannot be read.
    pub fn sending(&self) -> Result<Vec<Sending>, StoreError> {
        self.records(SENDING)
    }

    /// All blocks for programs here, by their flows.
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

    /// All files that come or came here.
    ///
    /// Fails if the store cannot be read.
    pub fn incoming(&self) -> Result<Vec<Incoming>, StoreError> {
        self.records(INCOMING)
    }

    /// The names of all nodes by their numbers, as they were written down last; none if they
    /// never were.
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

    /// All of a table that can be read; what cannot is left out.
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

/// The tables, while they are changed.
struct Tables<'a> {
    /// For one that hardly ever is.
    write: &'a WriteTransaction,
    blocks: Table<'a, &'static [u8], &'static [u8]>,
    outgoing: Table<'a, u32, &'static [u8]>,
    incoming: Table<'a, &'static str, &'static [u8]>,
    sending: Table<'a, u32, &'static [u8]>,
    receiving: Table<'a, &'static str, &'static [u8]>,
    letters: Table<'a, &'static [u8], &'static [u8]>,
}

impl Tables<'_> {
    fn change(&mut self, change: &Change) -> Result<(), StoreError> {
        match change {
            Change::Block(whole) => {
                let (key, value) = (key_of(whole.id), encode(whole));
                drop(kept!(self.blocks.insert(&key[..], &value[..])));
            }
            Change::NoBlock(id) => drop(kept!(self.blocks.remove(&key_of(*id)[..]))),
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
            Change::Letter(id, block) => {
                drop(kept!(self.letters.insert(&key_of(*id)[..], &block[..])));
            }
            Change::NoLetter(id) => drop(kept!(self.letters.remove(&key_of(*id)[..]))),
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

/// The key of a block: source, number of the flow, number. That of the flow had two bytes in
/// earlier versions, and has where that is enough.
fn key_of(id: BlockId) -> Vec<u8> {
    let mut key = id.flow.source.0.to_be_bytes().to_vec();
    match u16::try_from(id.flow.local) {
        Ok(local) => key.extend(local.to_be_bytes()),
        Err(_) => key.extend(id.flow.local.to_be_bytes()),
    }
    key.extend(id.number.to_be_bytes());
    key
}

/// The block with this key; `None` if there can be none.
fn id_of(key: &[u8]) -> Option<BlockId> {
    let (source, rest) = key.split_first_chunk()?;
    let (local, number) = rest.split_last_chunk()?;
    let local = match *local {
        [c, d] => u32::from_be_bytes([0, 0, c, d]),
        _ => u32::from_be_bytes(local.try_into().ok()?),
    };
    let flow = FlowKey { source: NodeId(u16::from_be_bytes(*source)), local };
    Some(BlockId { flow, number: u32::from_be_bytes(*number) })
}

/// A block's shape and bytes, as they are kept.
fn encode(whole: &Whole) -> Vec<u8> {
    let Whole { shape, frames, .. } = whole;
    let mut out = Vec::with_capacity(FRONT_BYTES + shape.length as usize);
    out.extend(shape.destination.0.to_be_bytes());
    out.extend(shape.frames.to_be_bytes());
    out.extend(shape.length.to_be_bytes());
    out.extend(shape.crc.to_be_bytes());
    let frame_bytes = frames.first().map_or(0, Bytes::len) as u16;
    out.extend([shape.hops_left, shape.hops_made]);
    let marks = [shape.opens, shape.finishes, shape.is_early];
    out.push(marks.iter().rev().fold(0, |bits, mark| bits << 1 | u8::from(*mark)));
    out.extend(frame_bytes.to_be_bytes());
    frames.iter().for_each(|frame| out.extend_from_slice(frame));
    out
}

/// Reads a block; `None` if it is not what was written.
fn decode(key: &[u8], value: &[u8]) -> Option<Whole> {
    let short = |bytes: &[u8], at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let long =
        |bytes: &[u8], at| u32::from(short(bytes, at)) << 16 | u32::from(short(bytes, at + 2));
    let id = id_of(key)?;
    let rest = Bytes::copy_from_slice(value.get(FRONT_BYTES..)?);
    let shape = Shape {
        destination: NodeId(short(value, 0)),
        frames: short(value, 2),
        length: long(value, 4),
        crc: long(value, 8),
        hops_left: value[12],
        hops_made: value[13],
        opens: value[14] & 1 != 0,
        finishes: value[14] & 2 != 0,
        is_early: value[14] & 4 != 0,
    };
    let frames = frames_of(&rest, usize::from(short(value, 15)).max(1));
    let is_whole = frames.len() == usize::from(shape.frames) && rest.len() as u32 == shape.length;
    is_whole.then_some(Whole { id, shape, frames })
}
