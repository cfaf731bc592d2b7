//! Flows of blocks in the lab: a program at each end, over the block sockets of its daemon.

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Instant as WallClock;

use farhop_proto::stack::FlowConfig;

use super::traffic::Shared;
use crate::daemon::socket_path;
use crate::sockets::client::{BlockListener, BlockSender, Daemon, SocketError};

/// The daemons at the two ends of a flow of blocks, and its names there.
#[derive(Clone, Debug)]
pub(super) struct Ends {
    from: Daemon,
    to: Daemon,
    /// Name of the destination node.
    node: String,
    service: String,
}

impl Ends {
    /// The ends of flow number `index` of the scenario; `dir` has the control sockets of the lab.
    pub(super) fn build(config: &FlowConfig, index: usize, dir: &Path) -> Self {
        let daemon = |name: &str| Daemon::at(socket_path(dir, name));
        Self {
            from: daemon(&config.from),
            to: daemon(&config.to),
            node: config.to.clone(),
            service: format!("flow-{index}"),
        }
    }
}

/// Sends blocks until the flow's time is over, or all its bytes are sent.
pub(super) fn send(config: &FlowConfig, ends: &Ends, shared: &Shared) -> io::Result<()> {
    let outcome = (|| {
        let mut sender = BlockSender::open(&ends.from, &ends.node, &ends.service, &ends.service)?;
        let block = vec![0; sender.block_bytes()];
        let mut left = config.bytes.unwrap_or(u64::MAX);
        while left > 0 && !shared.stop.load(Ordering::Relaxed) {
            let length = left.min(block.len() as u64);
            sender.send(&block[..length as usize])?;
            shared.sent.fetch_add(length, Ordering::Relaxed);
            left -= length;
        }
        sender.finish()
    })();
    settle(outcome, shared)
}

/// Receives blocks until the flow or the daemon ends.
pub(super) fn receive(config: &FlowConfig, ends: &Ends, shared: &Shared) -> io::Result<()> {
    let begin = WallClock::now();
    let outcome = (|| {
        let mut listener = BlockListener::bind(&ends.to, &ends.service)?;
        let incoming = listener.next_incoming()?;
        let mut receiver = listener.accept(&incoming)?;
        while let Some((number, block)) = receiver.receive()? {
            let before = shared.delivered.fetch_add(block.len() as u64, Ordering::Relaxed);
            if config.bytes.is_some_and(|bytes| before + block.len() as u64 >= bytes) {
                let nanos = begin.elapsed().as_nanos() as u64;
                shared.finished.store(nanos.max(1), Ordering::Relaxed);
            }
            receiver.confirm(number)?;
        }
        Ok(())
    })();
    settle(outcome, shared)
}

/// Ignores errors after the flow's time is over: the lab is being taken down.
fn settle(outcome: Result<(), SocketError>, shared: &Shared) -> io::Result<()> {
    match outcome {
        Err(_) if shared.stop.load(Ordering::Relaxed) => Ok(()),
        other => Ok(other?),
    }
}
