//! Broadcast over a link that sends to one neighbour at a time: a copy to each of them.
//!
//! The link's own repairs then work for each copy. The packet ends when the last of its copies has.

use std::collections::BTreeMap;

use crate::base::UnitId;

/// Packets of which there are several copies.
#[derive(Debug, Default)]
pub(super) struct Copies(BTreeMap<UnitId, usize>);

impl Copies {
    /// Notes how many copies there are of a packet.
    pub(super) fn begin(&mut self, id: UnitId, count: usize) {
        if count > 1 {
            self.0.insert(id, count);
        }
    }

    /// Notes the end of a packet or a copy. Returns whether the whole packet has ended.
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
