//! What clients ask of files and of the block cache.

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

/// Whether a daemon carries blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BlocksStatus {
    /// Whether it does.
    pub are_carried: bool,
    /// Why it does not, or why it can keep none at present, and so acknowledges none.
    pub trouble: Option<String>,
}

/// What the block cache of a daemon holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CacheStatus {
    /// Where it is.
    pub folder: String,
    /// Memory that it may take, in bytes.
    pub memory_limit: u64,
    /// Disk that it may take, in bytes.
    pub disk_limit: u64,
    /// What the file with the blocks takes of the disk, in bytes. It grows with them and with
    /// blocks for programs here, and shrinks when nothing was to be done for a while.
    #[serde(default)]
    pub file_bytes: u64,
    /// Blocks on their way.
    pub waiting: Vec<BlockStatus>,
    /// Blocks that the next node has, kept for the case that it loses them.
    pub cached: Vec<BlockStatus>,
}

/// A block in the cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BlockStatus {
    /// Number of the node where it began.
    pub source: u16,
    /// Number of its flow there.
    pub flow: u32,
    /// Number in the flow.
    pub number: u32,
    /// Number of the node that it is for.
    pub destination: u16,
    /// Bytes.
    pub bytes: u32,
}

/// Has blocks kept in the folder of a daemon. Where that fails its node carries all the rest, and
/// the log says why.
///
/// Fails if another daemon has that folder when this one starts: both would not be meant.
pub(super) fn keep(driver: &mut Driver, options: &DaemonOptions) -> Result<()> {
    let dir = options.state_dir.as_ref().map(|dir| dir.join(&options.plan.name));
    let before = driver.no_blocks().map(str::to_owned);
    match driver.keep_blocks(dir.as_deref(), &options.plan) {
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

/// Tells of what is kept beside this node's for nodes that the scenario does not have, as after one
/// was given another name.
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

/// Whether another daemon has the folder.
fn is_held(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(StoreError::Held { .. }))
}

/// What those are told who want something of blocks where none are carried.
fn no_blocks(driver: &Driver) -> String {
    let why = driver.no_blocks().unwrap_or("nothing is kept here");
    format!("this daemon carries no blocks: {why}")
}

/// Answers what concerns blocks.
///
/// Fails if nothing is kept here, or the request cannot be done.
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

/// Makes the connection of a program a socket; where no blocks are carried it hears so.
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
