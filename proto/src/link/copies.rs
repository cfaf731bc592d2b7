//! Broadcast over a link that sends to one neighbour at a time: each neighbour gets a copy.
//!
//! The link's own repairs then apply to each copy. The packet ends when its last copy has ended.

use std::collections::BTreeMap;

use crate::base::UnitId;

/// Packets with several copies, and how many of these have not ended.
#[derive(Debug, Default)]
pub(super) struct Copies(BTreeMap<UnitId, usize>);

impl Copies {
    /// Records the number of copies of a packet.
    pub(super) fn begin(&mut self, id: UnitId, count: usize) {
        if count > 1 {
            self.0.insert(id, count);
        }
    }

    /// Whether a packet has several copies.
    pub(super) fn is_one(&self, id: UnitId) -> bool {
        self.0.contains_key(&id)
    }

    /// Records the end of a packet or a copy. Returns whether the packet as a whole has ended.
    pub(super) fn has_ended(&mut self, id: UnitId) -> bool {
        let Some(left) = self.0.get_mut(&id) else { return true };
        *left -= 1;
        let is_last = *left == 0;
        if is_last {
            self.0.remove(&id);
        }
        is_last
    }
}
