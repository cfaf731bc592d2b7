//! Files, and flows of blocks, to this node that stand still.
//!
//! Their source is asked whether it still sends them. A source that has lost its store knows
//! nothing of them, and would never say so by itself. A time-out cannot replace the question: a
//! partition may last longer, and must not cost what is here.

use std::collections::BTreeMap;

use farhop_proto::base::{Duration, Instant, NodeId};
use farhop_proto::wire::hop::FlowKey;

use super::notice::Consignment;

/// How long one must have stood still before its source is asked, and asked again.
const OVERDUE: Duration = Duration::from_secs(60);
/// How often they are checked. Each source is asked about one of them at a time.
const LOOK: Duration = Duration::from_secs(15);

/// A file or a flow of blocks that is arriving.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coming {
    pub(crate) flow: FlowKey,
    /// Tells it from others with the same number.
    pub(crate) nonce: u64,
    /// Number of the next block.
    pub(crate) next: u32,
}

impl Coming {
    fn consignment(&self) -> Consignment {
        Consignment { local: self.flow.local, nonce: self.nonce }
    }
}

/// Notes since when each has stood still.
#[derive(Debug, Default)]
pub(super) struct Overdue {
    /// The last state of each, and since when it has been so, or when its source was last asked.
    since: BTreeMap<FlowKey, (Coming, Instant)>,
    /// When they are checked again.
    due: Instant,
}

impl Overdue {
    /// When to check. Also when nothing is arriving, as nothing tells when that changes.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Checks all that is arriving. Returns the sources to be asked, each about what has stood
    /// still for longest.
    pub(super) fn look(
        &mut self,
        now: Instant,
        coming: impl Iterator<Item = Coming>,
    ) -> BTreeMap<NodeId, Consignment> {
        self.due = now + LOOK;
        let before = std::mem::take(&mut self.since);
        for it in coming {
            let known = before
                .get(&it.flow)
                .filter(|(was, _)| (was.nonce, was.next) == (it.nonce, it.next));
            self.since.insert(it.flow, *known.unwrap_or(&(it, now)));
        }
        let mut overdue: Vec<(FlowKey, Instant)> =
            self.since.iter().map(|(flow, (_, since))| (*flow, *since)).collect();
        overdue.retain(|(_, since)| *since + OVERDUE <= now);
        overdue.sort_by_key(|(_, since)| *since);
        let mut asked = BTreeMap::new();
        for (flow, _) in overdue {
            let (it, since) = self.since.get_mut(&flow).expect("it was there");
            asked.entry(flow.source).or_insert_with(|| {
                *since = now;
                it.consignment()
            });
        }
        asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coming(source: u16, local: u32, next: u32) -> Coming {
        let flow = FlowKey { source: NodeId(source), local };
        Coming { flow, nonce: u64::from(local), next }
    }

    #[test]
    fn a_source_is_asked_of_what_has_stood_still_for_longest_and_of_each_in_its_turn() {
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let mut overdue = Overdue::default();
        let mut look = |seconds, all: &[Coming]| -> Vec<(u16, u32)> {
            let asked = overdue.look(at(seconds), all.iter().copied());
            asked.into_iter().map(|(source, what)| (source.0, what.local)).collect()
        };
        let first = [coming(1, 7, 0), coming(2, 7, 3)];
        assert!(look(100, &first).is_empty());
        // The second of node 1 is younger, and that of node 2 goes on.
        let then = [coming(1, 7, 0), coming(1, 8, 0), coming(2, 7, 4)];
        assert!(look(115, &then).is_empty());
        assert!(look(159, &then).is_empty());
        assert_eq!(look(175, &then), [(1, 7), (2, 7)]);
        assert_eq!(look(190, &then), [(1, 8)]);
        assert!(look(205, &then).is_empty());
        assert_eq!(look(235, &then), [(1, 7), (2, 7)]);
        // Another one has its number now.
        let other = [Coming { nonce: 1, ..coming(1, 7, 0) }];
        assert!(look(300, &other).is_empty());
        assert_eq!(look(360, &other), [(1, 7)]);
        assert!(look(500, &[]).is_empty());
    }
}
