//! Flows that ended here and made room for others. A source that has missed the acknowledgement of
//! the last block asks again, whenever it can; nothing may then be delivered twice.

use std::collections::{BTreeMap, VecDeque};

use super::receive::Arrivals;
use crate::base::{Instant, NodeId};
use crate::wire::hop::{FlowKey, Refusal};

/// Most flows of one source that are remembered: the flows of others do not drive them out.
pub const PAST_OF_ONE: usize = 4_096;
/// Most flows that are remembered in all, each with 12 bytes.
pub const PAST_IN_ALL: usize = 65_536;

/// What is known of a flow that is over.
#[derive(Clone, Copy, Debug)]
struct PastFlow {
    local: u32,
    opened: u32,
    refusal: Option<Refusal>,
}

/// The flows of each source, the oldest first.
#[derive(Debug, Default)]
pub(super) struct PastFlows {
    of: BTreeMap<NodeId, VecDeque<PastFlow>>,
    count: usize,
}

impl PastFlows {
    /// Remembers a flow, unless nothing came of it that could be delivered twice.
    pub(super) fn put(&mut self, flow: FlowKey, arrivals: &Arrivals) {
        let Arrivals { opened, refusal, is_over, .. } = *arrivals;
        if !is_over || refusal == Some(Refusal::Unknown) {
            return;
        }
        let own = self.of.get(&flow.source).map_or(0, VecDeque::len);
        if own >= PAST_OF_ONE {
            self.drop_oldest(flow.source);
        } else if self.count >= PAST_IN_ALL {
            let largest = self.of.iter().max_by_key(|(_, flows)| flows.len());
            largest.map(|(source, _)| *source).into_iter().for_each(|of| self.drop_oldest(of));
        }
        let past = PastFlow { local: flow.local, opened, refusal };
        self.of.entry(flow.source).or_default().push_back(past);
        self.count += 1;
    }

    fn drop_oldest(&mut self, source: NodeId) {
        let Some(flows) = self.of.get_mut(&source) else { return };
        self.count -= usize::from(flows.pop_front().is_some());
        if flows.is_empty() {
            self.of.remove(&source);
        }
    }

    /// Takes a flow out. `opened` is the checksum of the first block that is asked about, if it is
    /// the first: with another one, the source uses the number for a new flow.
    pub(super) fn take(
        &mut self,
        now: Instant,
        flow: FlowKey,
        opened: Option<u32>,
    ) -> Option<Arrivals> {
        let flows = self.of.get_mut(&flow.source)?;
        let at = flows.iter().rposition(|past| past.local == flow.local)?;
        let past = flows.remove(at)?;
        self.count -= 1;
        if flows.is_empty() {
            self.of.remove(&flow.source);
        }
        let is_same = opened.is_none_or(|opened| opened == past.opened);
        is_same.then(|| Arrivals::over(past.opened, past.refusal, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_drives_out_only_its_own_and_the_sum_is_limited() {
        let mut past = PastFlows::default();
        let flow = |source, local| FlowKey { source: NodeId(source), local };
        let put = |past: &mut PastFlows, source, local| {
            past.put(flow(source, local), &Arrivals::over(local, None, Instant::ZERO));
        };
        put(&mut past, 1, 7);
        (0..5_000).for_each(|local| put(&mut past, 2, local));
        assert_eq!(past.count, 1 + PAST_OF_ONE);
        for source in 3..100 {
            (0..4_000).for_each(|local| put(&mut past, source, local));
        }
        assert_eq!(past.count, PAST_IN_ALL);
        assert_eq!(past.of.values().map(VecDeque::len).sum::<usize>(), PAST_IN_ALL);
        let found = past.take(Instant::ZERO, flow(1, 7), Some(7)).map(|flow| flow.accepted);
        assert_eq!(found, Some(u32::MAX));
        assert!(past.take(Instant::ZERO, flow(1, 7), Some(7)).is_none(), "it was taken");
        assert_eq!(past.count, PAST_IN_ALL - 1);
    }
}
