//! Answers to requests about files and the block cache.

use anyhow::{Context as _, Result};
use farhop_proto::transport::hop::{HopConfig, Shape};
use farhop_proto::wire::hop::BlockId;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::DaemonOptions;
use super::control::{Request, Wished};
use super::driver::Driver;
use crate::blocks::{Store, StoreError};
use crate::sockets::refuse;

/// Whether a daemon carries blocks, and if not, why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BlocksStatus {
    /// Whether it carries blocks.
    pub are_carried: bool,
    /// Why it carries none, or why it cannot store any at present, and so acknowledges none.
    pub trouble: Option<String>,
}

/// Contents of a daemon's block cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CacheStatus {
    /// Folder of the cache.
    pub folder: String,
    /// Limit of its memory, in bytes.
    pub memory_limit: u64,
    /// Limit of its disk space, in bytes.
    pub disk_limit: u64,
    /// Disk space of the file with the blocks, in bytes. Besides the blocks that the limit counts,
    /// it has those of programs here, a few per cent to find them, and up to about 8 MiB that the
    /// next blocks use. It shrinks once nothing was to be done for a while.
    #[serde(default)]
    pub file_bytes: u64,
    /// Blocks that wait to be passed on.
    pub waiting: Vec<BlockStatus>,
    /// Blocks that the next node has, kept in case it loses them.
    pub cached: Vec<BlockStatus>,
}

/// A block in the cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BlockStatus {
    /// Number of its source node.
    pub source: u16,
    /// Number of its flow at the source.
    pub flow: u32,
    /// Its number in the flow.
    pub number: u32,
    /// Number of its destination node.
    pub destination: u16,
    /// Its length in bytes.
    pub bytes: u32,
}

/// Opens the store of blocks in the daemon's folder. If that fails the node carries everything but
/// blocks, and the log says why.
///
/// Fails if another daemon has the folder when this one starts: two daemons of one node are a
/// mistake.
pub(super) fn keep(driver: &mut Driver, options: &DaemonOptions) -> Result<()> {
    let dir = options.state_dir.as_ref().map(|dir| dir.join(&options.plan.name));
    let before = driver.no_blocks().map(str::to_owned);
    let kept = match (&before, &dir) {
        (Some(_), Some(dir)) => driver.keep_again(dir, &options.plan),
        _ => Some(driver.keep_blocks(dir.as_deref(), &options.plan)),
    };
    let Some(kept) = kept else { return Ok(()) };
    match kept {
        Ok(()) if before.is_some() => tracing::info!("blocks are carried now"),
        Ok(()) => tell_of_others(options),
        Err(error) if before.is_none() && is_held(&error) => return Err(error),
        Err(error) if driver.no_blocks() != before.as_deref() => {
            let dir = dir.unwrap_or_default();
            tracing::error!(
                "no blocks are carried: nothing can be kept in {}: {error:#}",
                dir.display()
            );
        }
        _ => {}
    }
    Ok(())
}

/// Logs which folders beside this node's hold the state of nodes that are not in the scenario, as
/// after a node was renamed.
fn tell_of_others(options: &DaemonOptions) {
    let Some(dir) = &options.state_dir else { return };
    let names = options.plan.names();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_node = names.values().any(|known| name == **known);
        if !is_node && Store::is_in(&entry.path()) {
            tracing::info!(
                "{} has what was kept for another node than those of this scenario: if it is of no \
                 use, remove it",
                entry.path().display()
            );
        }
    }
}

/// Whether another daemon holds the folder.
fn is_held(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(StoreError::Held { .. }))
}

/// The answer to requests about blocks when none are carried.
fn no_blocks(driver: &Driver) -> String {
    let why = driver.no_blocks().unwrap_or("nothing is kept here");
    format!("this daemon carries no blocks: {why}")
}

/// Answers a request about blocks.
///
/// Fails if no blocks are carried, or the request cannot be carried out.
pub(super) fn answer(driver: &mut Driver, request: Request) -> Result<Value> {
    let (now, why) = (driver.now(), no_blocks(driver));
    let (exchange, hop) = driver.blocks().context(why)?;
    Ok(match request {
        Request::Send(wanted) => json!({ "id": exchange.send(wanted)? }),
        Request::Cancel { id } => {
            exchange.cancel(now, hop, id)?;
            json!({ "id": id })
        }
        Request::Files {} => serde_json::to_value(exchange.files(hop))?,
        Request::Fetched { id } => {
            let is_kept = exchange.fetched(&id)?;
            json!({ "id": id, "is_kept": is_kept })
        }
        Request::Drop { id } => {
            exchange.drop_file(now, hop, &id)?;
            json!({ "id": id })
        }
        Request::ClearCache { all } => json!({ "cleared": hop.clear_cache(now, all) }),
        _ => {
            let HopConfig { memory_bytes, disk_bytes, .. } = *hop.config();
            serde_json::to_value(CacheStatus {
                folder: exchange.dir().display().to_string(),
                memory_limit: memory_bytes,
                disk_limit: disk_bytes,
                file_bytes: exchange.file_bytes(),
                waiting: hop.waiting(now).map(status).collect(),
                cached: hop.cached(now).map(status).collect(),
            })?
        }
    })
}

/// Turns the connection of a program into a socket, or refuses if no blocks are carried.
pub(super) fn open_socket(driver: &mut Driver, wished: Wished) {
    let (now, why) = (driver.now(), no_blocks(driver));
    let Wished { stream, rest, wish } = wished;
    match driver.blocks() {
        Some((exchange, _)) => exchange.open_socket(now, stream, &rest, wish),
        None => refuse(stream, &why),
    }
}

fn status((id, shape): (&BlockId, &Shape)) -> BlockStatus {
    BlockStatus {
        source: id.flow.source.0,
        flow: id.flow.local,
        number: id.number,
        destination: shape.destination.0,
        bytes: shape.length,
    }
}
