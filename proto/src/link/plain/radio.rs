//! The packets of one radio: one row, with a count for each queue.

use std::collections::VecDeque;

use super::super::lacks_only_keys;
use super::super::queue::{QueueConfig, Red, places};
use super::{PlainConfig, USUAL};
use crate::base::{
    AccessCategory, Instant, Lane, NodeId, Packet, RadioId, RadioSpec, RoomBelow, Seed,
};

/// The packets that one radio sends. They stand in one row, in the order of arrival; how many
/// belong to each access category is counted.
#[derive(Debug)]
pub(super) struct RadioQueue {
    pub(super) radio: RadioId,
    /// Whether each access category has its own queue; otherwise there is one for all.
    edca: bool,
    pub(super) waiting: VecDeque<Packet>,
    /// Neighbours to which the layer below wants a frame to be sent.
    pub(super) wanted: VecDeque<NodeId>,
    /// Packets of each queue: those that wait here and those in the chip.
    lengths: [u32; AccessCategory::COUNT],
    /// Those of them whose source does not wait for room.
    others: [u32; AccessCategory::COUNT],
    /// One for each queue.
    red: Vec<Red>,
}

impl RadioQueue {
    pub(super) fn build(config: &PlainConfig, node: NodeId, spec: &RadioSpec, seed: Seed) -> Self {
        let queues = if spec.edca { AccessCategory::COUNT } else { 1 };
        let red = match config.queue {
            QueueConfig::DropTail => Vec::new(),
            QueueConfig::Red(red) => {
                let name = |queue: usize| match queue {
                    0 => format!("node/{}/red/{}", node.0, spec.id.0),
                    _ => format!("node/{}/red/{}/{queue}", node.0, spec.id.0),
                };
                let build = |queue| Red::build(red, seed.stream(&name(queue)));
                (0..queues).map(build).collect()
            }
        };
        Self {
            radio: spec.id,
            edca: spec.edca,
            waiting: VecDeque::with_capacity(USUAL),
            wanted: VecDeque::new(),
            lengths: [0; AccessCategory::COUNT],
            others: [0; AccessCategory::COUNT],
            red,
        }
    }

    /// The queue of an access category.
    fn queue_of(&self, access: AccessCategory) -> usize {
        if self.edca { access as usize } else { 0 }
    }

    /// Free places on a lane, in a queue of at most `limit` packets.
    pub(super) fn places(&self, limit: usize, lane: Lane) -> usize {
        let queue = self.queue_of(lane.access);
        if self.red.get(queue).is_some_and(|red| red.holds_back(lane)) {
            return 0;
        }
        let [length, others] = [self.lengths, self.others].map(|of| of[queue] as usize);
        places(limit, length, || others, lane)
    }

    pub(super) fn length(&self, access: AccessCategory) -> usize {
        self.lengths[self.queue_of(access)] as usize
    }

    /// Whether nothing waits to be given to the chip.
    pub(super) fn has_nothing(&self) -> bool {
        self.waiting.is_empty() && self.wanted.is_empty()
    }

    /// Whether queues other than that of an access category have packets.
    fn has_others(&self, access: AccessCategory) -> bool {
        let own = self.queue_of(access);
        self.lengths.iter().enumerate().any(|(queue, length)| queue != own && *length > 0)
    }

    /// Index of the next packet: 0, unless that packet lacks keys, or its access category has no
    /// room in the chip.
    pub(super) fn next_place(&self, below: &RoomBelow<'_>) -> Option<usize> {
        let front = self.waiting.front()?.lane();
        if !below(front).is_none() {
            return Some(0);
        }
        let lacks_keys = lacks_only_keys(below, front);
        if !lacks_keys && !self.has_others(front.access) {
            return None;
        }
        self.waiting
            .iter()
            .map(Packet::lane)
            .position(|lane| (lacks_keys || lane.access != front.access) && !below(lane).is_none())
    }

    /// The RED state of an access category's queue; none if the queue is drop-tail.
    pub(super) fn red_of(&mut self, access: AccessCategory) -> Option<&mut Red> {
        let own = self.queue_of(access);
        self.red.get_mut(own)
    }

    /// The RED state of all queues.
    pub(super) fn reds(&self) -> &[Red] {
        &self.red
    }

    pub(super) fn reds_mut(&mut self) -> &mut [Red] {
        &mut self.red
    }

    /// Appends a packet.
    pub(super) fn push(&mut self, packet: Packet) {
        self.on_entered(packet.options.access, packet.options.overflow.waits());
        self.waiting.push_back(packet);
    }

    /// Counts a packet that is now queued here or in the chip.
    pub(super) fn on_entered(&mut self, access: AccessCategory, waits: bool) {
        let queue = self.queue_of(access);
        self.lengths[queue] += 1;
        self.others[queue] += u32::from(!waits);
    }

    /// The chip has finished with a packet that was counted.
    pub(super) fn on_left(&mut self, now: Instant, access: AccessCategory, waits: bool) {
        let queue = self.queue_of(access);
        self.lengths[queue] -= 1;
        self.others[queue] -= u32::from(!waits);
        let length = self.lengths[queue] as usize;
        if let Some(red) = self.red.get_mut(queue) {
            red.on_left(now, length);
        }
    }

    /// Removes the first packet if it lacks keys and the packets of its queue take more than half
    /// of the limit.
    pub(super) fn pop_without_keys(
        &mut self,
        limit: usize,
        below: &RoomBelow<'_>,
    ) -> Option<Packet> {
        // This is called often, and seldom goes beyond the next line.
        let front = self.waiting.front().filter(|_| 2 * self.waiting.len() > limit)?.lane();
        let own = self.queue_of(front.access);
        let is_own = |packet: &&Packet| self.queue_of(packet.options.access) == own;
        if !lacks_only_keys(below, front) || 2 * self.waiting.iter().filter(is_own).count() <= limit
        {
            return None;
        }
        let packet = self.waiting.pop_front()?;
        self.lengths[own] -= 1;
        self.others[own] -= u32::from(!packet.options.overflow.waits());
        Some(packet)
    }
}
