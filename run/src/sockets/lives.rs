//! Which run of a daemon is heard. Each draws a number when it begins, and tells it at the
//! beginning of each stream. Streams are only in memory, so those with an earlier run are over.

use std::collections::{BTreeMap, VecDeque};

use farhop_proto::base::NodeId;

use crate::blocks::random;

/// Earlier runs of a node that are remembered: a word of one may come late.
const PAST: usize = 8;

/// What a number says about its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Run {
    /// It is the run that was heard last, or says nothing, as those of earlier versions.
    Present,
    /// It began since.
    New,
    /// It is over.
    Past,
}

/// The run of this daemon, and those of others.
#[derive(Debug)]
pub(super) struct Lives {
    pub(super) own: u64,
    /// Of each node the newest first.
    of: BTreeMap<NodeId, VecDeque<u64>>,
}

impl Lives {
    pub(super) fn build() -> Self {
        Self { own: random().unwrap_or_default(), of: BTreeMap::new() }
    }

    /// Notes the number of a node.
    pub(super) fn hear(&mut self, node: NodeId, life: u64) -> Run {
        if life == 0 {
            return Run::Present;
        }
        let known = self.of.entry(node).or_default();
        match known.iter().position(|other| *other == life) {
            Some(0) => return Run::Present,
            Some(_) => return Run::Past,
            None => {}
        }
        known.push_front(life);
        known.truncate(PAST);
        if known.len() == 1 { Run::Present } else { Run::New }
    }

    /// The number of a node's present run, as far as it is known; else 0.
    pub(super) fn of(&self, node: NodeId) -> u64 {
        self.of.get(&node).and_then(|known| known.front().copied()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_earlier_run_said_and_comes_late_is_known() {
        let (mut lives, node) = (Lives::build(), NodeId(3));
        assert_eq!(lives.of(node), 0);
        let heard = [7, 7, 0, 9, 7, 9, 11].map(|life| lives.hear(node, life));
        let right =
            [Run::Present, Run::Present, Run::Present, Run::New, Run::Past, Run::Present, Run::New];
        assert_eq!(heard, right);
        assert_eq!((lives.of(node), lives.hear(node, 9)), (11, Run::Past));
        assert_eq!(lives.hear(NodeId(4), 9), Run::Present, "another node");
    }
}
