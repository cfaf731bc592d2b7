//! Long values in pieces that fill pages of the database. The database gives a value that is longer
//! than a page a power of two of pages: a block of 1 MiB and its header had 2 MiB on disk.

use redb::{ReadTransaction, ReadableTableMetadata as _, Table, TableDefinition, WriteTransaction};

use super::StoreError;

/// Bytes of a page of the database.
const PAGE_BYTES: usize = 4_096;
/// Pages of a long piece and of a short one. With long ones, writing takes half the time.
const PAGES: [usize; 2] = [16, 1];
/// Bytes of the longest key of a piece: source, flow, block and piece.
const KEY_BYTES: usize = 2 + 4 + 4 + 4;
/// Bytes beside a piece in its pages: their header, where the key and the value end, and the key.
const BESIDE_BYTES: usize = 4 + 2 * 4 + KEY_BYTES;

/// A table by the ids of blocks.
type Bytewise = TableDefinition<'static, &'static [u8], &'static [u8]>;

/// The tables of values by the ids of blocks.
pub(super) struct Pieced {
    /// The rest of each value beside its pieces. Values of earlier versions are in this table
    /// alone, and so are values without pieces.
    pub(super) rests: Bytewise,
    /// The long pieces and the short ones.
    pieces: [Bytewise; 2],
}

impl Pieced {
    pub(super) const fn new(rests: &'static str, pieces: [&'static str; 2]) -> Self {
        let [long, short] = pieces;
        let pieces = [TableDefinition::new(long), TableDefinition::new(short)];
        Self { rests: TableDefinition::new(rests), pieces }
    }

    pub(super) fn open<'a>(&self, write: &'a WriteTransaction) -> Result<Pieces<'a>, StoreError> {
        let [long, short] = self.pieces;
        let pieces = [kept!(write.open_table(long)), kept!(write.open_table(short))];
        Ok(Pieces { rests: kept!(write.open_table(self.rests)), pieces })
    }

    /// A value; `None` if there is none.
    pub(super) fn value(
        &self,
        read: &ReadTransaction,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let rests = kept!(read.open_table(self.rests));
        let rest = kept!(rests.get(key));
        rest.map(|rest| self.joined(read, key, rest.value())).transpose()
    }

    /// The whole of a value, of which this is the rest.
    pub(super) fn joined(
        &self,
        read: &ReadTransaction,
        key: &[u8],
        rest: &[u8],
    ) -> Result<Vec<u8>, StoreError> {
        let (first, last) = (key_of(key, 0), key_of(key, u32::MAX));
        let mut value = Vec::new();
        for table in self.pieces {
            let table = kept!(read.open_table(table));
            for piece in kept!(table.range(&first[..]..=&last[..])) {
                let (at, piece) = kept!(piece);
                // Numbers of flows have two bytes or four: pieces of others may lie between.
                if at.value().len() == first.len() {
                    value.extend_from_slice(piece.value());
                }
            }
        }
        value.extend_from_slice(rest);
        Ok(value)
    }

    /// About how much disk space the values have.
    pub(super) fn page_bytes(&self, read: &ReadTransaction) -> Result<u64, StoreError> {
        let mut pages = kept!(kept!(read.open_table(self.rests)).len());
        for (table, each) in self.pieces.into_iter().zip(PAGES) {
            pages += kept!(kept!(read.open_table(table)).len()) * each as u64;
        }
        Ok(pages * PAGE_BYTES as u64)
    }
}

/// The tables of values in an open transaction.
pub(super) struct Pieces<'a> {
    rests: Table<'a, &'static [u8], &'static [u8]>,
    pieces: [Table<'a, &'static [u8], &'static [u8]>; 2],
}

impl Pieces<'_> {
    /// Stores a value in place of any other with its key.
    pub(super) fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.remove(key)?;
        let mut rest = value;
        for (table, pages) in self.pieces.iter_mut().zip(PAGES) {
            let pieces = rest.chunks_exact(pages * PAGE_BYTES - BESIDE_BYTES);
            rest = pieces.remainder();
            for (number, piece) in (0..).zip(pieces) {
                drop(kept!(table.insert(&key_of(key, number)[..], piece)));
            }
        }
        drop(kept!(self.rests.insert(key, rest)));
        Ok(())
    }

    /// Deletes a value, if there is one.
    pub(super) fn remove(&mut self, key: &[u8]) -> Result<(), StoreError> {
        if kept!(self.rests.remove(key)).is_none() {
            return Ok(());
        }
        for table in &mut self.pieces {
            let mut number = 0;
            while kept!(table.remove(&key_of(key, number)[..])).is_some() {
                number += 1;
            }
        }
        Ok(())
    }
}

/// The key of a piece.
fn key_of(key: &[u8], number: u32) -> Vec<u8> {
    [key, &number.to_be_bytes()].concat()
}
