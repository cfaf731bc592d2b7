//! What is written down of blocks of programs, so that they survive the daemon.

use farhop_proto::base::NodeId;
use farhop_proto::wire::hop::FlowKey;
use serde::{Deserialize, Serialize};

use crate::files::State;

/// Blocks that a program here sends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sending {
    /// Number of their flow at this node.
    pub local: u32,
    /// The destination.
    pub to: NodeId,
    /// The service there; empty for a file.
    pub service: String,
    /// What the program calls the flow: by this it goes on after either of them began anew.
    pub name: String,
    /// The name of the file there, if it is one. Earlier versions did not write it down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_name: Option<String>,
    /// What tells the flow from others of its number, as its first block says. Earlier versions
    /// wrote it down of files alone.
    #[serde(default, alias = "file", skip_serializing_if = "Option::is_none")]
    pub nonce: Option<u64>,
    /// Blocks that were taken of the program, with the first one, which is ours.
    pub taken: u32,
    /// Those that the destination has, with ours; all before this one.
    pub arrived: u32,
    /// Whether the last of those taken ends the flow.
    pub is_finished: bool,
    /// How they stand.
    pub state: State,
    /// Once they are over: how many flows were before them, which are forgotten first.
    #[serde(default)]
    pub over: u64,
}

/// Blocks for a program here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receiving {
    /// The node that sends them.
    pub source: NodeId,
    /// Number of their flow there.
    pub local: u32,
    /// Checksum of the first block, which tells it from other flows of that number.
    pub opened: u32,
    /// What its sender calls the flow when it gives it up.
    #[serde(default)]
    pub nonce: u64,
    /// The service.
    pub service: String,
    /// What the sender calls the flow.
    pub name: String,
    /// Number of the block that is next.
    pub next: u32,
    /// Blocks that the program has confirmed, with the first one, which is not its.
    pub confirmed: u32,
    /// Whether the last one came; it has no bytes of the program.
    pub is_finished: bool,
    /// Whether the sender gave the flow up: what came of it is for the program, and no more comes.
    #[serde(default)]
    pub is_cut: bool,
    /// How they stand: `Fetched` once the program has all.
    pub state: State,
    /// Once they are over: how many flows were before them, which are forgotten first.
    #[serde(default)]
    pub over: u64,
}

impl Sending {
    /// Whether they are a file, which a program pushes.
    pub(super) fn is_file(&self) -> bool {
        self.service.is_empty()
    }

    /// Blocks of the program that were taken.
    pub(super) fn program_blocks(&self) -> u32 {
        self.taken.saturating_sub(1 + u32::from(self.is_finished))
    }
}

impl Receiving {
    /// Their flow.
    pub fn flow(&self) -> FlowKey {
        FlowKey { source: self.source, local: self.local }
    }

    /// What the flow is called here, among all that came.
    pub fn id(&self) -> String {
        format!("{}-{}-{:08x}", self.source.0, self.local, self.opened)
    }

    /// Number of the first block that is not of the program any more.
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
