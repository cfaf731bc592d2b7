//! Files, and blocks of programs, of which nothing comes any more.
//!
//! Their source is asked whether it still sends them. One that has lost its store knows nothing of
//! them, and nothing else would tell: a partition may last longer than any time-out, and then what
//! is here must not go.

use std::collections::BTreeMap;

use farhop_proto::base::{Duration, Instant, NodeId};
use farhop_proto::wire::hop::FlowKey;

use super::notice::Consignment;

/// So long nothing may come of one until its source is asked, and before it is asked again.
const OVERDUE: Duration = Duration::from_secs(60);
/// How often they are looked at. A source is asked of one at a time.
const LOOK: Duration = Duration::from_secs(15);

/// Something that comes here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coming {
    pub(crate) flow: FlowKey,
    /// What tells it from others of that number.
    pub(crate) nonce: u64,
    /// Number of the block that is next.
    pub(crate) next: u32,
}

impl Coming {
    fn consignment(&self) -> Consignment {
        Consignment { local: self.flow.local, nonce: self.nonce }
    }
}

/// How long nothing has come of what comes here.
#[derive(Debug, Default)]
pub(super) struct Overdue {
    /// How each stood, and since when, or when its source was asked of it.
    since: BTreeMap<FlowKey, (Coming, Instant)>,
    /// When they are looked at again.
    due: Instant,
}

impl Overdue {
    /// When they are to be looked at: also where nothing comes, for nobody says when that changes.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Looks at all that comes. Returns the sources to be asked, each of what it has sent nothing
    /// of for longest.
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
