//! Packets that wait for their first transmission: a FIFO for each flow, served in turn.
//!
//! Each flow has its own limit, so that one flow cannot fill the node (credits for the neighbour
//! alone let opposing flows lock up). Lanes are bounded; the oldest idle one is reused.

use std::collections::{BTreeMap, VecDeque};

use crate::base::{FlowId, Instant, Packet};

/// The waiting packets to one neighbour.
#[derive(Debug)]
pub(super) struct Queue {
    lanes: Vec<LaneQueue>,
    by_flow: BTreeMap<FlowId, usize>,
    active: VecDeque<usize>,
    most_lanes: usize,
    limit: usize,
    len: usize,
}

#[derive(Debug)]
struct LaneQueue {
    flow: FlowId,
    packets: VecDeque<Packet>,
    next_flow_seq: u16,
    used: Instant,
}

impl Queue {
    /// At most `limit` packets in each of at most `most_lanes` flows.
    pub(super) fn new(limit: usize, most_lanes: usize) -> Self {
        let (lanes, by_flow, active) = (Vec::new(), BTreeMap::new(), VecDeque::new());
        Self { lanes, by_flow, active, most_lanes: most_lanes.max(1), limit, len: 0 }
    }

    /// Waiting packets of all flows.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Places left for a flow.
    pub(super) fn room(&self, flow: FlowId) -> usize {
        match self.by_flow.get(&flow) {
            Some(lane) => self.limit.saturating_sub(self.lanes[*lane].packets.len()),
            // A new flow takes a lane that is free or idle; active lanes are those with packets.
            None if self.active.len() < self.most_lanes => self.limit,
            None => 0,
        }
    }

    /// Takes a packet; gives it back if there is no room for its flow.
    pub(super) fn push(&mut self, packet: Packet, now: Instant) -> Result<(), Packet> {
        if self.room(packet.flow) == 0 {
            return Err(packet);
        }
        let index = self.lane(packet.flow);
        let lane = &mut self.lanes[index];
        lane.used = now;
        if lane.packets.is_empty() {
            self.active.push_back(index);
        }
        lane.packets.push_back(packet);
        self.len += 1;
        Ok(())
    }

    fn lane(&mut self, flow: FlowId) -> usize {
        if let Some(index) = self.by_flow.get(&flow) {
            return *index;
        }
        let index = if self.lanes.len() < self.most_lanes {
            let packets = VecDeque::new();
            self.lanes.push(LaneQueue { flow, packets, next_flow_seq: 0, used: Instant::ZERO });
            self.lanes.len() - 1
        } else {
            let idle = self.lanes.iter().enumerate().filter(|(_, lane)| lane.packets.is_empty());
            let (index, lane) = idle.min_by_key(|(_, lane)| lane.used).expect("an idle lane");
            self.by_flow.remove(&lane.flow);
            let lane = &mut self.lanes[index];
            lane.flow = flow;
            lane.next_flow_seq = 0;
            index
        };
        self.by_flow.insert(flow, index);
        index
    }

    /// The packet whose flow is `turn` places behind the one whose turn it is.
    pub(super) fn peek(&self, turn: usize) -> Option<&Packet> {
        self.lanes[*self.active.get(turn)?].packets.front()
    }

    /// Takes out what [`Self::peek`] showed, with its number in the flow.
    pub(super) fn take(&mut self, turn: usize) -> Option<(Packet, u16)> {
        let index = self.active.remove(turn)?;
        let lane = &mut self.lanes[index];
        let packet = lane.packets.pop_front()?;
        let flow_seq = lane.next_flow_seq;
        lane.next_flow_seq = flow_seq.wrapping_add(1);
        if !lane.packets.is_empty() {
            self.active.push_back(index);
        }
        self.len -= 1;
        Some((packet, flow_seq))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{EtherType, NodeId, RadioId, TxOptions, UnitId};
    use bytes::Bytes;

    fn packet(id: u64, flow: u16) -> Packet {
        Packet {
            id: UnitId(id),
            radio: RadioId(0),
            to: Some(NodeId(2)),
            flow: FlowId(flow),
            protocol: EtherType::IPV4,
            payload: Bytes::new(),
            options: TxOptions::default(),
            order: None,
        }
    }

    fn push(queue: &mut Queue, id: u64, flow: u16) -> bool {
        queue.push(packet(id, flow), Instant::from_nanos(id)).is_ok()
    }

    #[test]
    fn flows_take_turns_and_are_numbered_by_themselves() {
        let mut queue = Queue::new(4, 8);
        for (id, flow) in [(1, 1), (2, 1), (3, 1), (4, 2), (5, 3)] {
            assert!(push(&mut queue, id, flow));
        }
        let order: Vec<_> =
            std::iter::from_fn(|| queue.take(0)).map(|(packet, seq)| (packet.id.0, seq)).collect();
        assert_eq!(order, [(1, 0), (4, 0), (5, 0), (2, 1), (3, 2)]);
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn a_full_flow_leaves_room_to_the_others() {
        let mut queue = Queue::new(2, 8);
        assert!(push(&mut queue, 1, 1) && push(&mut queue, 2, 1));
        assert_eq!(queue.room(FlowId(1)), 0);
        assert!(!push(&mut queue, 3, 1));
        assert_eq!(queue.room(FlowId(2)), 2);
    }

    #[test]
    fn the_oldest_idle_lane_is_reused() {
        let mut queue = Queue::new(2, 2);
        assert!(push(&mut queue, 1, 1) && push(&mut queue, 2, 2));
        assert_eq!(queue.room(FlowId(3)), 0, "no lane is idle");
        assert_eq!(queue.take(0).map(|(packet, _)| packet.id.0), Some(1));
        assert!(push(&mut queue, 3, 3));
        assert_eq!(queue.take(1).map(|(packet, seq)| (packet.id.0, seq)), Some((3, 0)));
        assert_eq!(queue.lanes.len(), 2);
    }
}
