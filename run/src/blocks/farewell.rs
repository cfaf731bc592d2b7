//! Telling destinations of files that were given up at their source: a flow of one block, which
//! has the reliability of all others. Until it has come the destination keeps what it has of the
//! file, and so it does if the source ends before.

use std::collections::BTreeSet;

use bytes::Bytes;
use farhop_proto::base::{Instant, NodeId};
use farhop_proto::transport::hop::{Hop, frames_of};
use farhop_proto::wire::hop::{BlockId, FlowKey};
use serde::{Deserialize, Serialize};

use super::opening::{Kind, front, read};

/// Farewells on their way; of more files given up at one time their destinations hear nothing.
const FAREWELLS: usize = 64;

/// A file that was given up, as its destination knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GivenUp {
    /// Number of its flow at the source.
    pub(crate) local: u16,
    /// What tells it from other files of that number.
    pub(crate) nonce: u64,
}

impl GivenUp {
    /// What the block of a farewell says; `None` if it says nothing.
    pub(super) fn read(frames: &[Bytes]) -> Option<Self> {
        read(Kind::GivenUp, &frames.concat().into()).map(|(what, _)| what)
    }
}

/// Farewells of which nobody has said yet that they came, by the numbers of their flows.
#[derive(Debug, Default)]
pub(super) struct Farewells(BTreeSet<u16>);

impl Farewells {
    pub(super) fn has(&self, local: u16) -> bool {
        self.0.contains(&local)
    }

    /// Tells a destination of a file, by a flow with a number that is free.
    pub(super) fn say(
        &mut self,
        now: Instant,
        hop: &mut Hop,
        (to, what): (NodeId, GivenUp),
        local: u16,
        frame_bytes: u16,
    ) {
        if self.0.len() >= FAREWELLS {
            return;
        }
        self.0.insert(local);
        let flow = FlowKey { source: hop.node(), local };
        let block = Bytes::from(front(Kind::GivenUp, &what));
        let frames = frames_of(&block, usize::from(frame_bytes));
        hop.push(now, BlockId { flow, number: 0 }, to, true, frames);
    }

    /// A block of ours has come, or is refused. Returns whether it was a farewell.
    pub(super) fn end(&mut self, local: u16) -> bool {
        self.0.remove(&local)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_farewell_says_which_file_and_is_no_file_itself() {
        let what = GivenUp { local: 7, nonce: u64::MAX };
        let block = Bytes::from(front(Kind::GivenUp, &what));
        assert_eq!(GivenUp::read(&frames_of(&block, 10)), Some(what));
        assert!(crate::files::FileInfo::read(&block).is_none());
        assert_eq!(GivenUp::read(&[block.slice(..block.len() - 1)]), None);
    }
}
