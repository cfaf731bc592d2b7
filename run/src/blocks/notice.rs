//! What daemons tell each other beside what programs send: each notice is a flow of one block,
//! which has the reliability of all others.
//!
//! The destination of a file that was given up at its source hears so. Until then it keeps what it
//! has of the file, and so it does if the source ends before. That of a stream which was broken off
//! hears so past what nobody has read there. And a node that nothing was heard of
//! is hailed: that a hail arrives says that it is there.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use farhop_proto::base::{Instant, NodeId};
use farhop_proto::transport::hop::{Delivery, Hop, frames_of};
use farhop_proto::wire::hop::{BlockId, FlowKey};
use serde::{Deserialize, Serialize};

use super::opening::{Kind, front, read};
use super::random;
use crate::files::FileInfo;

/// Notices on their way, to one destination and to all; of more at one time they hear nothing. Of
/// hails there is one for each node at most, and always place for that.
const TO_ONE: usize = 8;
const NOTICES: usize = 256;
/// Files of which notices came first that are remembered.
const REMEMBERED: usize = 256;

/// A file or a stream that was given up, as its destination knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GivenUp {
    /// Number of its flow at the source.
    pub(crate) local: u32,
    /// What tells it from others of that number.
    pub(crate) nonce: u64,
}

impl GivenUp {
    /// What the block of such a notice says; `None` if it says nothing.
    pub(super) fn read(frames: &[Bytes]) -> Option<Self> {
        read(Kind::GivenUp, &frames.concat().into()).map(|(what, _)| what)
    }
}

/// Files that were given up before anything of them came: the notice may have taken a better way
/// than the first block, which is refused then.
#[derive(Debug, Default)]
pub(super) struct GivenUps(VecDeque<(NodeId, GivenUp)>);

impl GivenUps {
    pub(super) fn put(&mut self, source: NodeId, what: GivenUp) {
        if self.0.len() >= REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back((source, what));
    }

    pub(super) fn has(&self, source: NodeId, what: GivenUp) -> bool {
        self.0.contains(&(source, what))
    }

    /// Whether this is the first block of one of them.
    pub(super) fn has_first(&self, delivery: &Delivery) -> bool {
        let BlockId { flow, number } = delivery.id;
        if number > 0 || !self.0.iter().any(|(source, _)| *source == flow.source) {
            return false;
        }
        let info = FileInfo::read(&delivery.frames.concat().into());
        info.is_some_and(|(FileInfo { nonce, .. }, _)| {
            self.has(flow.source, GivenUp { local: flow.local, nonce })
        })
    }
}

/// A hail says nothing, and never the same twice.
#[derive(Serialize)]
struct Hail {
    nonce: u64,
}

/// Notices of which nobody has said yet that they came: the numbers of their flows, and whom they
/// are for.
#[derive(Debug, Default)]
pub(super) struct Notices(BTreeMap<u32, NodeId>);

impl Notices {
    pub(super) fn has(&self, local: u32) -> bool {
        self.0.contains_key(&local)
    }

    /// Whether one is on its way to a node.
    pub(super) fn has_to(&self, node: NodeId) -> bool {
        self.0.values().any(|to| *to == node)
    }

    /// Tells a destination of a file or a stream, by a flow with a number that is free.
    pub(super) fn tell(
        &mut self,
        now: Instant,
        hop: &mut Hop,
        (to, what): (NodeId, GivenUp),
        (local, frame_bytes): (u32, u16),
    ) {
        let to_one = self.0.values().filter(|node| **node == to).count();
        if to_one < TO_ONE && self.0.len() < NOTICES {
            self.send(now, hop, (to, front(Kind::GivenUp, &what)), (local, frame_bytes));
        }
    }

    /// Hails a node to which nothing is on its way, likewise.
    pub(super) fn hail(
        &mut self,
        now: Instant,
        hop: &mut Hop,
        to: NodeId,
        (local, frame_bytes): (u32, u16),
    ) {
        let nonce = random().unwrap_or_default();
        self.send(now, hop, (to, front(Kind::Hail, &Hail { nonce })), (local, frame_bytes));
    }

    fn send(
        &mut self,
        now: Instant,
        hop: &mut Hop,
        (to, block): (NodeId, Vec<u8>),
        (local, frame_bytes): (u32, u16),
    ) {
        self.0.insert(local, to);
        let flow = FlowKey { source: hop.node(), local };
        let frames = frames_of(&Bytes::from(block), usize::from(frame_bytes));
        hop.push(now, BlockId { flow, number: 0 }, to, true, frames);
    }

    /// A block of ours has come, or is refused. Returns whom it was for, if it was a notice.
    pub(super) fn end(&mut self, local: u32) -> Option<NodeId> {
        self.0.remove(&local)
    }
}

#[cfg(test)]
mod tests {
    use farhop_proto::base::{AddressPlan, Seed};
    use farhop_proto::transport::hop::HopConfig;

    use super::*;

    #[test]
    fn a_notice_says_which_file_and_is_no_file_itself() {
        let what = GivenUp { local: 7, nonce: u64::MAX };
        let block = Bytes::from(front(Kind::GivenUp, &what));
        assert_eq!(GivenUp::read(&frames_of(&block, 10)), Some(what));
        assert!(crate::files::FileInfo::read(&block).is_none());
        assert_eq!(GivenUp::read(&[block.slice(..block.len() - 1)]), None);
    }

    #[test]
    fn a_node_that_is_away_takes_no_notice_from_others_and_all_can_be_hailed() {
        let (plan, rng) = (AddressPlan::default(), Seed(1).stream("hop"));
        let mut hop = Hop::build(HopConfig::default(), NodeId(1), plan, None, rng);
        let (mut notices, now) = (Notices::default(), Instant::ZERO);
        let what = GivenUp { local: 7, nonce: 1 };
        for local in 0..100 {
            notices.tell(now, &mut hop, (NodeId(2), what), (local, 1_400));
        }
        notices.tell(now, &mut hop, (NodeId(3), what), (100, 1_400));
        assert!(notices.has(100), "the other node hears");
        assert_eq!(notices.0.len(), TO_ONE + 1);
        for local in 101..500 {
            notices.tell(now, &mut hop, (NodeId(local as u16), what), (local, 1_400));
        }
        assert_eq!(notices.0.len(), NOTICES);
        notices.hail(now, &mut hop, NodeId(1_000), (1_000, 1_400));
        assert!(notices.has_to(NodeId(1_000)));
    }
}
