//! Records of flows of blocks, on disk so that the flows survive the daemon.

use farhop_proto::base::NodeId;
use farhop_proto::wire::hop::FlowKey;
use serde::{Deserialize, Serialize};

use crate::blocks::PastFlow;
use crate::files::State;

/// A flow of blocks that a program here sends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sending {
    /// Number of the flow at this node.
    pub local: u32,
    /// The destination.
    pub to: NodeId,
    /// The service there; empty for a file.
    pub service: String,
    /// The program's name for the flow. By it a restarted program continues.
    pub name: String,
    /// Name of the file at its destination; `None` for blocks, and in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_name: Option<String>,
    /// Tells the flow from others with the same number; it is in the first block. Earlier versions
    /// recorded it only for files.
    #[serde(default, alias = "file", skip_serializing_if = "Option::is_none")]
    pub nonce: Option<u64>,
    /// Number of blocks that were taken, including the first, which is the daemon's.
    pub taken: u32,
    /// Number of the blocks before the first that the destination does not have, including the
    /// daemon's.
    pub arrived: u32,
    /// Whether the last block taken ends the flow.
    pub is_finished: bool,
    /// State of the flow.
    pub state: State,
    /// Of a finished flow: how many finished before it. The lowest are forgotten first.
    #[serde(default)]
    pub over: u64,
}

/// A flow of blocks for a program here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receiving {
    /// The source node.
    pub source: NodeId,
    /// Number of the flow at the source.
    pub local: u32,
    /// Checksum of the first block, which tells the flow from others with the same number.
    pub opened: u32,
    /// The number by which its sender names the flow when giving it up.
    #[serde(default)]
    pub nonce: u64,
    /// The service.
    pub service: String,
    /// The sender's name for the flow.
    pub name: String,
    /// Number of the next block.
    pub next: u32,
    /// Number of blocks that the program has confirmed, including the first, which is not the
    /// program's.
    pub confirmed: u32,
    /// Whether the last block arrived; it has no bytes of the program.
    pub is_finished: bool,
    /// Whether the sender gave the flow up: the program still gets the blocks that arrived.
    #[serde(default)]
    pub is_cut: bool,
    /// State of the flow: `Fetched` once the program has everything.
    pub state: State,
    /// Of a finished flow: how many finished before it. The lowest are forgotten first.
    #[serde(default)]
    pub over: u64,
}

impl Sending {
    /// A flow to node 3, of which this many blocks were taken and have arrived.
    #[cfg(test)]
    pub(crate) fn of_test(local: u32, (taken, arrived): (u32, u32)) -> Self {
        Self {
            local,
            to: NodeId(3),
            service: "mail".into(),
            name: local.to_string(),
            file_name: None,
            nonce: Some(1),
            taken,
            arrived,
            is_finished: false,
            state: State::Moving,
            over: 0,
        }
    }

    /// Whether it is the flow of this name to a service of a node.
    pub(super) fn is(&self, to: NodeId, service: &str, name: &str) -> bool {
        self.to == to && self.service == service && self.name == name
    }

    /// Whether it is a file that a program pushes.
    pub(super) fn is_file(&self) -> bool {
        self.service.is_empty()
    }

    /// Whether it was given up.
    pub(crate) fn is_failed(&self) -> bool {
        matches!(self.state, State::Failed(_))
    }

    /// Number of the program's blocks that were taken.
    pub(super) fn program_blocks(&self) -> u32 {
        self.taken.saturating_sub(1 + u32::from(self.is_finished))
    }
}

impl Receiving {
    /// The key of the flow.
    pub fn flow(&self) -> FlowKey {
        FlowKey { source: self.source, local: self.local }
    }

    /// Id of the flow at this node.
    pub fn id(&self) -> String {
        format!("{}-{}-{:08x}", self.source.0, self.local, self.opened)
    }

    /// What is remembered of it without its record; `None` if more of it may come.
    pub(crate) fn past(&self) -> Option<PastFlow> {
        let is_past = self.state != State::Moving || self.is_cut || self.is_finished;
        let is_refused = matches!(self.state, State::Failed(_));
        is_past.then(|| PastFlow { flow: self.flow(), opened: self.opened, is_refused })
    }

    /// Number after the last block that is for the program, so far.
    pub(super) fn end(&self) -> u32 {
        self.next - u32::from(self.is_finished)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_earlier_versions_wrote_can_be_read() {
        let sending = r#"{"local":7,"to":3,"service":"mail","name":"job","taken":2,"arrived":1,
            "is_finished":false,"state":"moving"}"#;
        let receiving = r#"{"source":3,"local":7,"opened":9,"service":"mail","name":"job",
            "next":2,"confirmed":1,"is_finished":false,"state":"moving"}"#;
        let sending: Sending = serde_json::from_str(sending).expect("it is one");
        let receiving: Receiving = serde_json::from_str(receiving).expect("it is one");
        assert_eq!((sending.over, receiving.over), (0, 0));
    }
}
