//! Flows to this node that ended and whose records are gone, in short. A source that has missed the
//! acknowledgement of the last block may ask about it after a restart of this node too; nothing may
//! then be delivered twice.

use farhop_proto::base::NodeId;
use farhop_proto::transport::hop::{PAST_IN_ALL, PAST_OF_ONE};
use farhop_proto::wire::hop::FlowKey;
use redb::{
    ReadTransaction, ReadableTable, ReadableTableMetadata as _, Table, TableDefinition, TableError,
    WriteTransaction,
};

use super::StoreError;

/// By the source and a number that grows with each of its flows: the flow's number there, the
/// checksum of its first block, and whether it was refused.
const PAST: TableDefinition<'_, (u16, u64), (u32, u32, bool)> = TableDefinition::new("past");

type Past<'a> = Table<'a, (u16, u64), (u32, u32, bool)>;

/// A flow to this node that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastFlow {
    /// The flow.
    pub flow: FlowKey,
    /// Checksum of its first block, which tells it from others with the same number.
    pub opened: u32,
    /// Whether it was refused. Otherwise all of it was accepted.
    pub is_refused: bool,
}

/// Adds a flow. If there are too many of its source, the oldest of that source is forgotten, and if
/// there are too many in all, the oldest of the source that has most.
pub(super) fn put(write: &WriteTransaction, past: PastFlow) -> Result<(), StoreError> {
    let PastFlow { flow: FlowKey { source, local }, opened, is_refused } = past;
    let mut table = kept!(write.open_table(PAST));
    let span = span_of(&table, source.0)?;
    let next = span.map_or(0, |(_, last)| last + 1);
    if let Some((first, last)) = span
        && last - first + 1 >= PAST_OF_ONE as u64
    {
        drop(kept!(table.remove((source.0, first))));
    } else if kept!(table.len()) >= PAST_IN_ALL as u64
        && let Some(oldest) = oldest_of_largest(&table)?
    {
        drop(kept!(table.remove(oldest)));
    }
    drop(kept!(table.insert((source.0, next), (local, opened, is_refused))));
    Ok(())
}

/// Forgets all flows of a source.
pub(super) fn forget(write: &WriteTransaction, source: NodeId) -> Result<(), StoreError> {
    let mut table = kept!(write.open_table(PAST));
    kept!(table.retain_in((source.0, 0)..=(source.0, u64::MAX), |_, _| false));
    Ok(())
}

/// All flows; of each source the oldest first.
pub(super) fn all(read: &ReadTransaction) -> Result<Vec<PastFlow>, StoreError> {
    let table = match read.open_table(PAST) {
        Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
        table => kept!(table),
    };
    let mut all = Vec::new();
    for entry in kept!(table.iter()) {
        let (key, value) = kept!(entry);
        let ((source, _), (local, opened, is_refused)) = (key.value(), value.value());
        let flow = FlowKey { source: NodeId(source), local };
        all.push(PastFlow { flow, opened, is_refused });
    }
    Ok(all)
}

/// The first and the last number of a source; `None` if it has none. There are no gaps between.
fn span_of(table: &Past<'_>, source: u16) -> Result<Option<(u64, u64)>, StoreError> {
    let mut range = kept!(table.range((source, 0)..=(source, u64::MAX)));
    let Some(first) = range.next() else { return Ok(None) };
    let first = kept!(first).0.value().1;
    let last = range.next_back().transpose();
    Ok(Some((first, kept!(last).map_or(first, |(key, _)| key.value().1))))
}

/// The key of the oldest flow of the source that has most.
fn oldest_of_largest(table: &Past<'_>) -> Result<Option<(u16, u64)>, StoreError> {
    let mut largest: Option<(u64, (u16, u64))> = None;
    let mut from = Some((0, 0));
    while let Some(start) = from {
        let found = kept!(table.range(start..)).next().transpose();
        let Some((source, first)) = kept!(found).map(|(key, _)| key.value()) else { break };
        let length = span_of(table, source)?.map_or(0, |(first, last)| last - first + 1);
        if largest.is_none_or(|(most, _)| length > most) {
            largest = Some((length, (source, first)));
        }
        from = source.checked_add(1).map(|next| (next, 0));
    }
    Ok(largest.map(|(_, oldest)| oldest))
}
