//! Notices between daemons. Each is a flow of one block, with the reliability of all blocks.
//!
//! * Given up: the destination of a file, a stream or blocks of a program is told that the source
//!   gave them up. Otherwise it keeps what it has of them. For a stream the notice overtakes blocks
//!   that nobody reads.
//! * Hail: a node that was silent is asked whether it is there. That the hail arrives answers it.
//! * Question: a source is asked whether it still sends something that has stood still. A source
//!   that does not know of it refuses the question.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use farhop_proto::base::{Instant, NodeId};
use farhop_proto::transport::hop::{Delivery, Hop, frames_of};
use farhop_proto::wire::hop::{BlockId, FlowKey};
use serde::{Deserialize, Serialize};

use super::opening::{Kind, Opening, front, read};
use super::random;
use crate::files::FileInfo;

/// Most notices on their way to one destination and to all; most that wait, beyond which they are
/// dropped. There is at most one hail and one question for each node, which these limits do not
/// affect.
const TO_ONE: usize = 8;
const NOTICES: usize = 256;
const LATE: usize = 1_024;
/// How many files and flows are remembered whose notices came before their first blocks.
const REMEMBERED: usize = 256;

/// A file, a stream or a flow of blocks, as both of its ends identify it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Consignment {
    /// Number of its flow at the source.
    pub(crate) local: u32,
    /// Tells it from others with the same number.
    pub(crate) nonce: u64,
}

impl Consignment {
    /// What a notice of this kind is about; `None` if the block is invalid.
    pub(super) fn read(kind: Kind, frames: &[Bytes]) -> Option<Self> {
        read(kind, &frames.concat().into()).map(|(what, _)| what)
    }
}

/// Files and flows of blocks that were given up before their first blocks arrived, as the notice
/// may overtake these. The first block is then refused.
#[derive(Debug, Default)]
pub(super) struct GivenUps(VecDeque<(NodeId, Consignment)>);

impl GivenUps {
    pub(super) fn put(&mut self, source: NodeId, what: Consignment) {
        if self.0.len() >= REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back((source, what));
    }

    pub(super) fn has(&self, source: NodeId, what: Consignment) -> bool {
        self.0.contains(&(source, what))
    }

    /// Whether this is the first block of one of them.
    pub(super) fn has_first(&self, delivery: &Delivery) -> bool {
        let BlockId { flow, number } = delivery.id;
        if number > 0 || !self.0.iter().any(|(source, _)| *source == flow.source) {
            return false;
        }
        let block = delivery.frames.concat().into();
        let file = || FileInfo::read(&block).map(|(info, _)| info.nonce);
        let blocks = || read(Kind::Blocks, &block).map(|(Opening { nonce, .. }, _)| nonce);
        let is_one = |nonce| self.has(flow.source, Consignment { local: flow.local, nonce });
        file().or_else(blocks).is_some_and(is_one)
    }
}

/// A hail has no content, but is different each time.
#[derive(Serialize, Deserialize)]
struct Hail {
    nonce: u64,
    /// The run of the daemon that is meant; 0: any.
    #[serde(default)]
    life: u64,
}

/// Which run of the daemon here a hail means; `None`: any.
pub(super) fn meant(frames: &[Bytes]) -> Option<u64> {
    let hail: Option<(Hail, Bytes)> = read(Kind::Hail, &frames.concat().into());
    hail.map(|(hail, _)| hail.life).filter(|life| *life != 0)
}

/// A notice that is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnderWay {
    pub(super) to: NodeId,
    /// What it asks about; `None` if it is no question.
    pub(super) asks: Option<Consignment>,
    /// Which run of the daemon there it hails; 0 if none.
    pub(super) hails: u64,
}

/// Notices that have not arrived yet.
#[derive(Debug, Default)]
pub(super) struct Notices {
    /// By the numbers of their flows.
    under_way: BTreeMap<u32, UnderWay>,
    /// Notices that wait because too many are on their way.
    late: VecDeque<(NodeId, Consignment)>,
}

impl Notices {
    pub(super) fn has(&self, local: u32) -> bool {
        self.under_way.contains_key(&local)
    }

    /// Whether a notice is on its way to a node.
    pub(super) fn has_to(&self, node: NodeId) -> bool {
        self.under_way.values().any(|one| one.to == node)
    }

    /// Whether a question is on its way to a node.
    pub(super) fn asks(&self, node: NodeId) -> bool {
        self.under_way.values().any(|one| one.to == node && one.asks.is_some())
    }

    /// Tells a destination that something was given up; `local` is a free number for the flow.
    pub(super) fn tell(
        &mut self,
        now: Instant,
        hop: &mut Hop,
        (to, what): (NodeId, Consignment),
        (local, frame_bytes): (u32, u16),
    ) {
        if self.has_place(to) {
            let notice = UnderWay { to, asks: None, hails: 0 };
            self.send(now, hop, (notice, front(Kind::GivenUp, &what)), (local, frame_bytes));
        } else if self.late.len() < LATE {
            self.late.push_back((to, what));
        }
    }

    fn has_place(&self, to: NodeId) -> bool {
        let to_one = self.under_way.values().filter(|one| one.to == to).count();
        to_one < TO_ONE && self.under_way.len() < NOTICES
    }

    /// The first of the waiting notices that can be sent now.
    pub(super) fn next_late(&mut self) -> Option<(NodeId, Consignment)> {
        let at = self.late.iter().position(|(to, _)| self.has_place(*to))?;
        self.late.remove(at)
    }

    /// Hails a node to which no notice is on its way; `local` is a free number for the flow.
    pub(super) fn hail(
        &mut self,
        now: Instant,
        hop: &mut Hop,
        (to, life): (NodeId, u64),
        (local, frame_bytes): (u32, u16),
    ) {
        let hail = Hail { nonce: random().unwrap_or_default(), life };
        let notice = UnderWay { to, asks: None, hails: life };
        self.send(now, hop, (notice, front(Kind::Hail, &hail)), (local, frame_bytes));
    }

    /// Asks a source, to which no question is on its way, whether it still sends something; `local`
    /// is a free number for the flow.
    pub(super) fn ask(
        &mut self,
        now: Instant,
        hop: &mut Hop,
        (to, what): (NodeId, Consignment),
        (local, frame_bytes): (u32, u16),
    ) {
        let notice = UnderWay { to, asks: Some(what), hails: 0 };
        self.send(now, hop, (notice, front(Kind::Asks, &what)), (local, frame_bytes));
    }

    fn send(
        &mut self,
        now: Instant,
        hop: &mut Hop,
        (notice, block): (UnderWay, Vec<u8>),
        (local, frame_bytes): (u32, u16),
    ) {
        let to = notice.to;
        self.under_way.insert(local, notice);
        let flow = FlowKey { source: hop.node(), local };
        let frames = frames_of(&Bytes::from(block), usize::from(frame_bytes));
        hop.push(now, BlockId { flow, number: 0 }, to, true, frames);
    }

    /// A block from here arrived, or was refused. Returns the notice if it was one.
    pub(super) fn end(&mut self, local: u32) -> Option<UnderWay> {
        self.under_way.remove(&local)
    }
}

#[cfg(test)]
mod tests {
    use farhop_proto::base::{AddressPlan, Seed};
    use farhop_proto::transport::hop::HopConfig;

    use super::*;

    #[test]
    fn a_notice_says_which_file_and_is_no_file_itself() {
        let what = Consignment { local: 7, nonce: u64::MAX };
        let block = Bytes::from(front(Kind::GivenUp, &what));
        let read = |frames: &[Bytes]| Consignment::read(Kind::GivenUp, frames);
        assert_eq!(read(&frames_of(&block, 10)), Some(what));
        assert_eq!(Consignment::read(Kind::Asks, &frames_of(&block, 10)), None);
        assert!(crate::files::FileInfo::read(&block).is_none());
        assert_eq!(read(&[block.slice(..block.len() - 1)]), None);
    }

    #[test]
    fn a_hail_says_which_run_of_a_daemon_it_means_and_those_of_earlier_versions_mean_any() {
        let hail = |text: &str| {
            let front = [&[Kind::Hail as u8, 0, text.len() as u8], text.as_bytes()].concat();
            meant(&[front.into()])
        };
        assert_eq!(meant(&[front(Kind::Hail, &Hail { nonce: 7, life: 9 }).into()]), Some(9));
        assert_eq!([hail(r#"{"nonce":7}"#), hail("{}"), hail("")], [None; 3]);
    }

    #[test]
    fn a_node_that_is_away_takes_no_notice_from_others_and_all_can_be_hailed() {
        let (plan, rng) = (AddressPlan::default(), Seed(1).stream("hop"));
        let mut hop = Hop::build(HopConfig::default(), NodeId(1), plan, None, rng);
        let (mut notices, now) = (Notices::default(), Instant::ZERO);
        let what = Consignment { local: 7, nonce: 1 };
        for local in 0..100 {
            notices.tell(now, &mut hop, (NodeId(2), what), (local, 1_400));
        }
        notices.tell(now, &mut hop, (NodeId(3), what), (100, 1_400));
        assert!(notices.has(100), "the other node hears");
        assert_eq!(notices.under_way.len(), TO_ONE + 1);
        for local in 101..500 {
            notices.tell(now, &mut hop, (NodeId(local as u16), what), (local, 1_400));
        }
        assert_eq!(notices.under_way.len(), NOTICES);
        notices.hail(now, &mut hop, (NodeId(1_000), 9), (1_000, 1_400));
        assert!(notices.has_to(NodeId(1_000)) && !notices.asks(NodeId(1_000)));
        notices.ask(now, &mut hop, (NodeId(1_000), what), (1_001, 1_400));
        assert!(notices.asks(NodeId(1_000)));
        let asked = UnderWay { to: NodeId(1_000), asks: Some(what), hails: 0 };
        assert_eq!(notices.end(1_001), Some(asked));
        assert_eq!(notices.next_late(), None, "nothing has come");
        [0, 1_000].iter().for_each(|local| _ = notices.end(*local));
        assert_eq!(notices.next_late(), Some((NodeId(2), what)), "a place is free");
    }
}
