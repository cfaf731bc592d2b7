//! Packets that wait for their first transmission: a FIFO for each flow. Flows of one priority get
//! equal shares of the air time.
//!
//! Each flow has its own limit, so that one flow cannot fill the node (with credits per neighbour
//! alone, opposing flows deadlock). The number of lanes is limited: a new flow reuses the lane that
//! has been idle longest; if none is idle, it is a guest in another flow's lane, whose places its
//! flows share equally. A flow has the class of its newest packet; a guest, that of its lane.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::class::{Choice, Classes};
use super::fair::Line;
use super::habit::Habit;
use super::parts::LEAST as LEAST_PART;
use crate::base::{Duration, FlowId, Instant, Overflow, Packet};
use crate::wire::bundle::{HEAD_BYTES, MOST_RIDERS, Piece, RIDE_BYTES, Ride};
use crate::wire::ip;

/// Longest packet that rides, in bytes: it takes less air time than the gap, the preamble and the
/// headers of a frame of its own. A TCP acknowledgement with all options has half of that.
pub(super) const SHORT_BYTES: usize = 256;

/// The waiting packets to one neighbour.
#[derive(Debug)]
pub(super) struct Queue {
    classes: Classes,
    lanes: Vec<LaneQueue>,
    /// The lane of each flow. A guest has one only while it has packets there.
    by_flow: BTreeMap<FlowId, usize>,
    /// The next number of each flow. They outlive lanes, because the receiver remembers them too.
    numbers: BTreeMap<FlowId, u16>,
    /// Lanes with packets, by level of their class.
    active: Vec<Line>,
    most_lanes: usize,
    len: usize,
    /// Packets that full queues dropped, by class.
    drops: Vec<u64>,
}

#[derive(Debug)]
struct LaneQueue {
    flow: FlowId,
    class: usize,
    habit: Habit,
    packets: VecDeque<Packet>,
    /// Whether it may contain packets of guests.
    has_guests: bool,
    /// How many bytes of the first packet have been sent.
    cut: usize,
    /// How many of the first packets were already waiting at the last [`Queue::mark`].
    aged: usize,
    used: Instant,
    /// The air time that it had been charged when it last had packets.
    had: Duration,
}

impl LaneQueue {
    /// Waiting packets of `flow`, and the number of flows with packets here, counting `flow`.
    fn share(&self, flow: FlowId) -> (usize, usize) {
        if !self.has_guests && flow == self.flow {
            return (self.packets.len(), 1);
        }
        let flows: BTreeSet<FlowId> = self.packets.iter().map(|packet| packet.flow).collect();
        let own = self.packets.iter().filter(|packet| packet.flow == flow).count();
        (own, flows.len() + usize::from(own == 0))
    }

    fn pop(&mut self) -> Option<Packet> {
        self.aged = self.aged.saturating_sub(1);
        self.packets.pop_front()
    }

    /// Removes packets that have aged (TCP only if `tcp_too`). One that was sent in part stays.
    fn expire(&mut self, tcp_too: bool) -> Vec<Packet> {
        let begun = usize::from(self.cut > 0);
        let fresh = self.packets.split_off(self.aged.max(begun).min(self.packets.len()));
        let aged: Vec<Packet> = self.packets.drain(begun.min(self.packets.len())..).collect();
        let is_over = |packet: &Packet| tcp_too || !ip::is_tcp(&packet.payload);
        let (over, kept): (Vec<_>, Vec<_>) = aged.into_iter().partition(is_over);
        self.packets.extend(kept);
        self.packets.extend(fresh);
        over
    }

    /// Places left for a flow if all flows here share `limit` places; each has at least one.
    fn room(&self, flow: FlowId, limit: usize) -> usize {
        let (own, flows) = self.share(flow);
        (limit / flows).max(1).saturating_sub(own)
    }
}

/// Assigns the next number of a flow.
fn number(numbers: &mut BTreeMap<FlowId, u16>, flow: FlowId) -> u16 {
    let next = numbers.entry(flow).or_default();
    let number = *next;
    *next = number.wrapping_add(1);
    number
}

/// A packet (or bundle) that is sent next, and its class.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) packet: Packet,
    /// Its number in the flow.
    pub(super) flow_seq: u16,
    pub(super) class: usize,
}

/// The packet in whose frame other packets ride.
pub(super) struct Host<'a> {
    pub(super) packet: &'a Packet,
    pub(super) class: usize,
    /// Whether a packet is one of several copies of a broadcast.
    pub(super) is_copy: &'a dyn Fn(&Packet) -> bool,
}

impl Host<'_> {
    /// Whether a packet may ride: it is a TCP acknowledgement, or it is short and has the same
    /// requirements as its host, because it is repeated and given up together with the host.
    fn takes(&self, lane: &LaneQueue, packet: &Packet) -> bool {
        let terms = |it: &Packet| (it.options.ack, it.options.attempts);
        let is_like_it = lane.class == self.class && terms(packet) == terms(self.packet);
        let is_short = packet.payload.len() <= SHORT_BYTES && !(self.is_copy)(packet);
        ip::is_bare_ack(&packet.payload)
            || (is_like_it && is_short && packet.flow != self.packet.flow)
    }
}

/// A piece of a packet that is sent.
#[derive(Debug)]
pub(super) struct Cut {
    pub(super) packet: Packet,
    pub(super) piece: Piece,
}

/// From this many waiting packets of all flows on, each flow may have only `IN_A_CROWD`.
const CROWD: usize = 16_384;
const IN_A_CROWD: usize = 64;

impl Queue {
    /// A queue for at most `most_lanes` flows.
    pub(super) fn new(classes: Classes, most_lanes: usize) -> Self {
        let (lanes, by_flow, numbers) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        let active = (0..classes.levels()).map(|_| Line::default()).collect();
        let drops = vec![0; classes.all().len()];
        let most_lanes = most_lanes.max(1);
        Self { classes, lanes, by_flow, numbers, active, most_lanes, len: 0, drops }
    }

    /// Queue limit of a flow of this class whose newest packet is `newest`. It is lower where very
    /// many packets wait: all flows together must not fill the memory of a node.
    fn limit(&self, class: usize, newest: Option<&Packet>) -> usize {
        let class = self.classes.get(class);
        let is_tcp = newest.is_some_and(|packet| ip::is_tcp(&packet.payload));
        let limit = if is_tcp { class.queue.min(class.tcp_queue) } else { class.queue };
        if self.len < CROWD { limit } else { limit.min(IN_A_CROWD) }
    }

    /// Waiting packets of all flows.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// All levels of the classes.
    pub(super) fn levels(&self) -> std::ops::Range<usize> {
        0..self.active.len()
    }

    /// Whether any flow of a level has packets.
    pub(super) fn has(&self, level: usize) -> bool {
        !self.active[level].is_empty()
    }

    /// Waiting packets of a class.
    pub(super) fn waiting(&self, class: usize) -> usize {
        let lanes = self.lanes.iter().filter(|lane| lane.class == class);
        lanes.map(|lane| lane.packets.len()).sum()
    }

    /// Packets of a class that were dropped because a queue was full.
    pub(super) fn drops(&self, class: usize) -> u64 {
        self.drops[class]
    }

    /// Places left for a flow; always one if a new packet replaces the oldest.
    pub(super) fn room(&self, flow: FlowId, overflow: Overflow) -> usize {
        match self.lane_of(flow) {
            Some(lane) => {
                let lane = &self.lanes[lane];
                let class = self.classes.get(lane.class);
                let left = lane.room(flow, self.limit(lane.class, lane.packets.back()));
                let has_one = class.drops_oldest || overflow == Overflow::DropHead;
                left.max(usize::from(has_one))
            }
            None if self.has_free_lane() => self.limit(0, None),
            None => usize::from(self.takes_guests()),
        }
    }

    /// The lane of a flow, if it has one.
    fn lane_of(&self, flow: FlowId) -> Option<usize> {
        let index = *self.by_flow.get(&flow)?;
        let lane = &self.lanes[index];
        let has_it = || lane.has_guests && lane.packets.iter().any(|packet| packet.flow == flow);
        (lane.flow == flow || has_it()).then_some(index)
    }

    /// Whether a flow without a lane may become a guest.
    fn takes_guests(&self) -> bool {
        self.len < 2 * self.most_lanes * self.classes.get(0).queue
    }

    /// Whether a new flow gets a lane of its own: a new one, or one without packets.
    fn has_free_lane(&self) -> bool {
        self.active.iter().map(Line::len).sum::<usize>() < self.most_lanes
    }

    /// Adds a packet. Returns the packet that has no room: the new one, or the oldest of its flow
    /// if the class or the packet demands it. Otherwise a relay would lose the last packets of each
    /// slot, and with TCP the same packet again whenever it is repeated.
    pub(super) fn push(&mut self, packet: Packet, now: Instant) -> Option<Packet> {
        let choice = self.classes.choose(&packet);
        let flow = packet.flow;
        let is_known = self.lane_of(flow).is_some() || self.has_free_lane();
        if !is_known && !self.takes_guests() {
            self.drops[choice.class] += 1;
            return Some(packet);
        }
        let index = if is_known { self.lane(flow) } else { self.lane_as_guest(flow, choice) };
        if self.lanes[index].flow == flow {
            let class = self.class_now(index, choice, &packet, now);
            self.set_class(index, class);
        }
        let class = self.lanes[index].class;
        let limit = self.limit(class, Some(&packet));
        let is_head = packet.options.overflow == Overflow::DropHead;
        let is_any = self.classes.get(class).drops_oldest;
        let lane = &mut self.lanes[index];
        lane.used = now;
        lane.has_guests = lane.flow != flow || (lane.has_guests && !lane.packets.is_empty());
        let is_full = lane.room(flow, limit) == 0;
        self.drops[class] += u64::from(is_full);
        if is_full && !(is_any || is_head) {
            return Some(packet);
        }
        if lane.packets.is_empty() {
            // What a transport sends after another flow's last packet does not overtake that.
            let line = &mut self.active[self.classes.get(class).level];
            line.join_behind_first(index, lane.had);
        }
        lane.packets.push_back(packet);
        if is_full {
            // What was sent in part stays. A packet in transit replaces only others in transit.
            let mut places = usize::from(lane.cut > 0)..lane.packets.len();
            let is_like_it = |it: &Packet| is_any || it.options.overflow == Overflow::DropHead;
            let may_go = |it: &Packet| it.flow == flow && is_like_it(it);
            let oldest = places.find(|at| may_go(&lane.packets[*at]))?;
            lane.aged -= usize::from(oldest < lane.aged);
            return lane.packets.remove(oldest);
        }
        self.len += 1;
        None
    }

    /// The class of a lane whose newest packet is `packet`.
    fn class_now(&mut self, index: usize, choice: Choice, packet: &Packet, now: Instant) -> usize {
        if !choice.is_auto {
            return choice.class;
        }
        let manner = self.lanes[index].habit.on_packet(now, packet);
        choice.class + manner as usize
    }

    fn set_class(&mut self, index: usize, class: usize) {
        let lane = &mut self.lanes[index];
        let before = std::mem::replace(&mut lane.class, class);
        let [before, after] = [before, class].map(|class| self.classes.get(class).level);
        if before != after {
            // The air time that it was charged at another level means nothing here.
            lane.had = Duration::ZERO;
        }
        if before != after && !lane.packets.is_empty() {
            let turn = self.active[before].turn_of(index);
            turn.and_then(|turn| self.active[before].leave(turn));
            self.active[after].join_behind_first(index, Duration::ZERO);
        }
    }

    fn lane(&mut self, flow: FlowId) -> usize {
        if let Some(index) = self.lane_of(flow) {
            return index;
        }
        let index = if self.lanes.len() < self.most_lanes {
            let (packets, habit) = (VecDeque::new(), Habit::default());
            let (class, has_guests, cut, aged) = (0, false, 0, 0);
            let (used, had) = (Instant::ZERO, Duration::ZERO);
            let lane = LaneQueue { flow, class, habit, packets, has_guests, cut, aged, used, had };
            self.lanes.push(lane);
            self.lanes.len() - 1
        } else {
            let idle = self.lanes.iter().enumerate().filter(|(_, lane)| lane.packets.is_empty());
            let (index, lane) = idle.min_by_key(|(_, lane)| lane.used).expect("an idle lane");
            self.by_flow.remove(&lane.flow);
            let lane = &mut self.lanes[index];
            (lane.flow, lane.habit, lane.had) = (flow, Habit::default(), Duration::ZERO);
            index
        };
        self.by_flow.insert(flow, index);
        index
    }

    /// The lane in which a flow becomes a guest: one of its class, if there is any.
    fn lane_as_guest(&mut self, flow: FlowId, choice: Choice) -> usize {
        let is_like_it = |index: &usize| choice.entries().contains(&self.lanes[*index].class);
        let like_it: Vec<usize> = (0..self.lanes.len()).filter(is_like_it).collect();
        let number = usize::from(flow.0);
        let index = match like_it.len() {
            0 => number % self.lanes.len(),
            many => like_it[number % many],
        };
        self.by_flow.insert(flow, index);
        index
    }

    /// The packet that would be sent first.
    pub(super) fn front(&self) -> Option<&Packet> {
        let lane = self.active.iter().find_map(|line| line.get(0))?;
        self.lanes[lane].packets.front()
    }

    /// The first packet of the flow that is `turn` places behind the level's next, and its class.
    pub(super) fn peek(&self, level: usize, turn: usize) -> Option<(&Packet, usize)> {
        let lane = &self.lanes[self.active[level].get(turn)?];
        Some((lane.packets.front()?, lane.class))
    }

    /// Removes a packet of at most `bytes` bytes that may ride with `host`, and returns it with its
    /// number in its flow. A TCP acknowledgement has no number, and may overtake waiting packets of
    /// its flow. `air` is the time that so many more bytes take in a frame.
    pub(super) fn take_rider(
        &mut self,
        bytes: usize,
        host: &Host<'_>,
        air: impl Fn(usize) -> Duration,
    ) -> Option<(Packet, Ride)> {
        let is_fit = |index: &usize| {
            let lane = &self.lanes[*index];
            let front = lane.packets.front().filter(|_| lane.cut == 0);
            front.is_some_and(|it| it.payload.len() <= bytes && host.takes(lane, it))
        };
        let (level, turn) = self
            .active
            .iter()
            .enumerate()
            .find_map(|(level, lanes)| Some((level, lanes.iter().position(is_fit)?)))?;
        let index = self.active[level].get(turn)?;
        let lane = &mut self.lanes[index];
        let packet = lane.pop()?;
        let number =
            (!ip::is_bare_ack(&packet.payload)).then(|| number(&mut self.numbers, packet.flow));
        self.active[level].charge(turn, air(packet.payload.len()));
        self.let_wait(index);
        self.len -= 1;
        let class = self.classes.get(self.lanes[index].class);
        let number = number.filter(|_| class.is_ordered);
        let ride = Ride { flow: packet.flow, number };
        Some((packet, ride))
    }

    /// Removes all packets that satisfy a condition, of whatever flow.
    pub(super) fn remove_all(&mut self, is_like: impl Fn(&Packet) -> bool) -> Vec<Packet> {
        let mut removed = Vec::new();
        for lane in &mut self.lanes {
            let (out, left): (Vec<_>, Vec<_>) =
                std::mem::take(&mut lane.packets).into_iter().partition(&is_like);
            (lane.packets, lane.aged) = (left.into(), 0);
            removed.extend(out);
        }
        self.count_out(removed)
    }

    /// Marks the packets that wait now.
    pub(super) fn mark(&mut self) {
        self.lanes.iter_mut().for_each(|lane| lane.aged = lane.packets.len());
    }

    /// Removes all packets that were already waiting at the last mark, those of TCP only if
    /// `tcp_too`, and marks those that remain.
    pub(super) fn expire(&mut self, tcp_too: bool) -> Vec<Packet> {
        let expired = self.lanes.iter_mut().flat_map(|lane| lane.expire(tcp_too)).collect();
        self.mark();
        self.count_out(expired)
    }

    /// Accounts for removed packets: lanes that have become empty leave the line.
    fn count_out(&mut self, removed: Vec<Packet>) -> Vec<Packet> {
        (0..self.lanes.len()).for_each(|index| self.let_wait(index));
        self.len -= removed.len();
        removed
    }

    /// A lane that has become empty leaves the line; the air time it was charged is kept.
    fn let_wait(&mut self, index: usize) {
        let level = self.classes.get(self.lanes[index].class).level;
        if self.lanes[index].packets.is_empty()
            && let Some(turn) = self.active[level].turn_of(index)
            && let Some((_, had)) = self.active[level].leave(turn)
        {
            self.lanes[index].had = had;
        }
    }

    /// Removes the packet that [`Self::peek`] shows; `air` is the time of a frame by its bytes.
    pub(super) fn take(
        &mut self,
        level: usize,
        turn: usize,
        air: impl Fn(usize) -> Duration,
    ) -> Option<Taken> {
        let index = self.active[level].get(turn)?;
        let lane = &mut self.lanes[index];
        let packet = lane.pop()?;
        lane.cut = 0;
        let class = lane.class;
        let flow_seq = number(&mut self.numbers, packet.flow);
        self.active[level].serve(turn, air(packet.payload.len()), 0);
        self.let_wait(index);
        self.len -= 1;
        Some(Taken { packet, flow_seq, class })
    }

    /// Whether a part of the packet that [`Self::peek`] shows has been sent.
    pub(super) fn is_cut(&self, level: usize, turn: usize) -> bool {
        self.active[level].get(turn).is_some_and(|lane| self.lanes[lane].cut > 0)
    }

    /// Bytes of packets that could ride with the packet at `turn`, of other flows; at most as many
    /// packets as may ride in a frame.
    pub(super) fn rider_bytes(&self, level: usize, turn: usize) -> usize {
        let Some(own) = self.active[level].get(turn).map(|lane| &self.lanes[lane]) else {
            return 0;
        };
        let Some(packet) = own.packets.front() else { return 0 };
        let host = Host { packet, class: own.class, is_copy: &|_| false };
        let lanes = self.active.iter().flat_map(Line::iter).map(|lane| &self.lanes[*lane]);
        let lanes = lanes.filter(|lane| lane.flow != own.flow && lane.cut == 0);
        let all = lanes.flat_map(|lane| {
            let packets = lane.packets.iter().take(MOST_RIDERS);
            packets.take_while(|packet| host.takes(lane, packet))
        });
        all.take(MOST_RIDERS).map(|packet| RIDE_BYTES + packet.payload.len()).sum()
    }

    /// Removes as much of the flow at `turn` as a bundle of `most` bytes holds, possibly only a
    /// part of the last packet, and assigns one number in its flow to it; none if too little fits.
    /// Packets for which `is_single` holds go by themselves. `air` is the time of a frame with so
    /// many bytes.
    pub(super) fn cut(
        &mut self,
        (level, turn): (usize, usize),
        most: usize,
        is_single: impl Fn(&Packet) -> bool,
        air: impl Fn(usize) -> Duration,
    ) -> Option<(Vec<Cut>, u16, usize)> {
        let index = self.active[level].get(turn)?;
        let lane = &mut self.lanes[index];
        let (mut cuts, mut room) = (Vec::new(), most);
        while let Some(packet) = lane.packets.front() {
            let first: Option<&Cut> = cuts.first();
            let terms = |it: &Packet| (it.flow, it.options.ack, it.options.attempts, is_single(it));
            if first.is_some_and(|it| is_single(packet) || terms(&it.packet) != terms(packet)) {
                break;
            }
            let left = packet.payload.len() - lane.cut;
            let least = if is_single(packet) { left } else { left.min(LEAST_PART) };
            if room < HEAD_BYTES + least {
                break;
            }
            let length = left.min(room - HEAD_BYTES);
            let bytes = packet.payload.slice(lane.cut..lane.cut + length);
            let (is_rest, goes_on) = (lane.cut > 0, length < left);
            let piece = Piece { is_rest, goes_on, ..Piece::whole(packet.protocol, bytes) };
            cuts.push(Cut { packet: packet.clone(), piece });
            room -= HEAD_BYTES + length;
            if goes_on {
                lane.cut += length;
                break;
            }
            lane.cut = 0;
            lane.pop();
            self.len -= 1;
        }
        let flow_seq = number(&mut self.numbers, cuts.first()?.packet.flow);
        let class = lane.class;
        self.active[level].serve(turn, air(most - room), 0);
        self.let_wait(index);
        Some((cuts, flow_seq, class))
    }
}

#[cfg(test)]
mod tests {
    use super::super::class::UsualQueue;
    use super::super::classify::{ClassConfig, Preset};
    use super::super::config::WildConfig;
    use super::super::tests;
    use super::*;
    use crate::base::{TxOptions, UnitId};
    use crate::wire::ip;
    use bytes::Bytes;
    use std::net::Ipv4Addr;

    /// Air time at 1 MB/s, plus half a millisecond per frame.
    fn air(bytes: usize) -> Duration {
        Duration::from_micros(500 + bytes as u64)
    }

    fn plain(limit: usize, most_lanes: usize) -> Queue {
        let config = WildConfig { queue_packets: Some(limit), ..WildConfig::default() };
        Queue::new(Classes::build(&config), most_lanes)
    }

    /// A queue with `preset` for port 7.
    fn with_class(preset: Preset) -> Queue {
        let class = ClassConfig { port: Some(7), preset, ..ClassConfig::default() };
        let config = WildConfig { class: vec![class], ..WildConfig::default() };
        Queue::new(Classes::build(&config), 8)
    }

    fn datagram(id: u64, flow: u16, port: u8, bytes: usize) -> Packet {
        let mut payload = Vec::new();
        let (src, dst) = (Ipv4Addr::new(10, 66, 0, 1), Ipv4Addr::new(10, 66, 0, 2));
        ip::put_ipv4(&mut payload, src, dst, ip::UDP, bytes);
        payload.extend_from_slice(&[0, 1, 0, port]);
        payload.resize(payload.len() + bytes - 4, 0);
        Packet { payload: payload.into(), ..packet(id, flow) }
    }

    /// Removes all waiting packets, the first levels first.
    fn drain(queue: &mut Queue) -> Vec<u64> {
        let levels = 0..queue.active.len();
        let next = || levels.clone().find_map(|level| queue.take(level, 0, air));
        std::iter::from_fn(next).map(|taken| taken.packet.id.0).collect()
    }

    fn packet(id: u64, flow: u16) -> Packet {
        Packet { id: UnitId(id), flow: FlowId(flow), ..tests::packet(Bytes::new()) }
    }

    fn push(queue: &mut Queue, id: u64, flow: u16) -> bool {
        queue.push(packet(id, flow), Instant::from_nanos(id)).is_none()
    }

    #[test]
    fn flows_take_turns_and_are_numbered_by_themselves() {
        let mut queue = plain(4, 8);
        for (id, flow) in [(1, 1), (2, 1), (3, 1), (4, 2), (5, 3)] {
            assert!(push(&mut queue, id, flow));
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.take(0, 0, air))
            .map(|it| (it.packet.id.0, it.flow_seq))
            .collect();
        assert_eq!(order, [(1, 0), (4, 0), (5, 0), (2, 1), (3, 2)]);
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn of_what_passes_through_a_full_flow_loses_the_oldest() {
        let mut queue = plain(2, 8);
        let options = TxOptions { overflow: Overflow::DropHead, ..TxOptions::default() };
        let mut offer = |id| {
            let lost = queue.push(Packet { options, ..packet(id, 1) }, Instant::ZERO);
            lost.map(|lost| lost.id.0)
        };
        assert_eq!([1, 2, 3, 4].map(&mut offer), [None, None, Some(1), Some(2)]);
        let room = [Overflow::DropTail, Overflow::DropHead].map(|it| queue.room(FlowId(1), it));
        assert_eq!((room, queue.len(), queue.drops(0)), ([0, 1], 2, 2));
        assert_eq!(drain(&mut queue), [3, 4]);
    }

    #[test]
    fn a_flow_of_tcp_has_the_shorter_queue_unless_somebody_says_how_long_it_is() {
        let tcp = |id| {
            let mut payload = datagram(id, 1, 7, 60).payload.to_vec();
            payload[9] = 6;
            Packet { payload: payload.into(), ..packet(id, 1) }
        };
        let mut classes = Classes::build(&WildConfig::default());
        classes.set_usual_queue(UsualQueue { packets: 4, of_tcp: 2 });
        let taken = |queue: &mut Queue, all: [Packet; 5]| {
            let at = Instant::ZERO;
            all.into_iter().filter(|packet| queue.push(packet.clone(), at).is_none()).count()
        };
        let datagrams = || [1, 2, 3, 4, 5].map(|id| datagram(id, 1, 7, 60));
        let mut queue = Queue::new(classes.clone(), 8);
        assert_eq!(taken(&mut queue, [1, 2, 3, 4, 5].map(tcp)), 2);
        assert_eq!(queue.room(FlowId(1), Overflow::DropTail), 0);
        assert_eq!(taken(&mut Queue::new(classes, 8), datagrams()), 4);
        assert_eq!(taken(&mut plain(3, 8), [1, 2, 3, 4, 5].map(tcp)), 3);
    }

    #[test]
    fn a_full_flow_leaves_room_to_the_others() {
        let mut queue = plain(2, 8);
        assert!(push(&mut queue, 1, 1) && push(&mut queue, 2, 1));
        assert_eq!(queue.room(FlowId(1), Overflow::DropTail), 0);
        assert!(!push(&mut queue, 3, 1));
        assert_eq!(queue.room(FlowId(2), Overflow::DropTail), 2);
    }

    #[test]
    fn the_oldest_idle_lane_is_reused() {
        let mut queue = plain(2, 2);
        assert!(push(&mut queue, 1, 1) && push(&mut queue, 2, 2));
        assert_eq!(queue.take(0, 0, air).map(|taken| taken.packet.id.0), Some(1));
        assert!(push(&mut queue, 3, 3));
        let taken = queue.take(0, 1, air).expect("the newcomer");
        assert_eq!((taken.packet.id.0, taken.flow_seq), (3, 0));
        assert_eq!(queue.lanes.len(), 2);
    }

    #[test]
    fn a_flow_whose_lane_another_had_goes_on_with_its_numbers() {
        let mut queue = plain(4, 1);
        let mut number = |id, flow| {
            assert!(push(&mut queue, id, flow));
            queue.take(0, 0, air).expect("what was there").flow_seq
        };
        assert_eq!([number(1, 1), number(2, 1), number(3, 2), number(4, 1)], [0, 1, 0, 2]);
        assert_eq!(number(5, 2), 1);
    }

    #[test]
    fn where_no_lane_is_idle_a_flow_is_a_guest_and_has_its_part() {
        let mut queue = plain(4, 1);
        for id in 1..=4 {
            assert!(push(&mut queue, id, 1));
        }
        assert_eq!(
            (queue.room(FlowId(1), Overflow::DropTail), queue.room(FlowId(2), Overflow::DropTail)),
            (0, 1)
        );
        assert!(push(&mut queue, 5, 2) && push(&mut queue, 6, 2));
        assert_eq!(queue.room(FlowId(2), Overflow::DropTail), 0, "two of four places");
        assert!(!push(&mut queue, 7, 2) && !push(&mut queue, 7, 1));
        let next = || queue.take(0, 0, air);
        let order: Vec<_> = std::iter::from_fn(next)
            .map(|it| (it.packet.id.0, it.packet.flow.0, it.flow_seq))
            .collect();
        assert_eq!(order, [(1, 1, 0), (2, 1, 1), (3, 1, 2), (4, 1, 3), (5, 2, 0), (6, 2, 1)]);
        // The lane is idle: it now belongs to the former guest, whose numbers continue.
        assert!(push(&mut queue, 8, 2) && queue.room(FlowId(2), Overflow::DropTail) == 3);
        assert_eq!(queue.take(0, 0, air).map(|taken| taken.flow_seq), Some(2));
    }

    #[test]
    fn a_bundle_holds_packets_of_one_flow() {
        let mut queue = plain(4, 1);
        assert!(push(&mut queue, 1, 1) && push(&mut queue, 2, 2));
        let (cuts, _, _) = queue.cut((0, 0), 2_000, |_| false, air).expect("a bundle");
        assert_eq!((cuts.len(), queue.len()), (1, 1));
    }

    #[test]
    fn a_realtime_flow_keeps_its_newest_packets() {
        let mut queue = with_class(Preset::Realtime);
        let dropped: Vec<u64> = (1..=11)
            .filter_map(|id| queue.push(datagram(id, 1, 7, 100), Instant::ZERO))
            .map(|packet| packet.id.0)
            .collect();
        assert_eq!(dropped, [1, 2, 3]);
        assert_eq!((queue.len(), queue.waiting(1), queue.drops(1)), (8, 8, 3));
        assert!(queue.room(FlowId(1), Overflow::DropTail) > 0, "it takes what is new");
        assert_eq!(drain(&mut queue), [4, 5, 6, 7, 8, 9, 10, 11]);
    }

    #[test]
    fn levels_have_turns_and_limits_of_their_own() {
        let mut queue = with_class(Preset::Interactive);
        for (id, flow, port) in [(1, 1, 9), (2, 1, 9), (3, 2, 7), (4, 3, 9), (5, 2, 7)] {
            assert!(queue.push(datagram(id, flow, port, 100), Instant::ZERO).is_none());
        }
        assert_eq!(drain(&mut queue), [3, 5, 1, 4, 2]);
    }

    #[test]
    fn what_waited_twice_expires_and_what_has_begun_to_go_out_does_not() {
        let mut queue = plain(8, 4);
        let ids = |gone: Vec<Packet>| gone.iter().map(|packet| packet.id.0).collect::<Vec<_>>();
        (1..=3).for_each(|id| assert!(push(&mut queue, id, 1)));
        queue.push(datagram(4, 2, 7, 1_000), Instant::ZERO);
        queue.mark();
        push(&mut queue, 5, 1);
        // One packet is sent, and a part of another.
        assert_eq!(queue.take(0, 0, air).expect("it waits").packet.id, UnitId(1));
        queue.cut((0, 0), 600, |_| false, air).expect("a part fits");
        assert_eq!(ids(queue.expire(true)), [2, 3]);
        assert_eq!((ids(queue.expire(true)), queue.len()), (vec![5], 1));
        let (rest, ..) = queue.cut((0, 0), 1_000, |_| false, air).expect("the rest fits");
        assert!(rest[0].piece.is_rest && queue.len() == 0);
        assert!(ids(queue.expire(true)).is_empty() && push(&mut queue, 6, 1));
    }

    #[test]
    fn packets_of_tcp_stay_where_others_expire() {
        let mut queue = plain(8, 1);
        let tcp = |id| {
            let mut payload = Vec::new();
            let (src, dst) = (Ipv4Addr::new(10, 66, 0, 1), Ipv4Addr::new(10, 66, 0, 2));
            ip::put_ipv4(&mut payload, src, dst, ip::TCP, 20);
            payload.resize(payload.len() + 20, 0);
            Packet { payload: payload.into(), ..packet(id, 1) }
        };
        for packet in [datagram(1, 1, 7, 60), tcp(2), datagram(3, 1, 7, 60), tcp(4)] {
            assert!(queue.push(packet, Instant::ZERO).is_none());
        }
        queue.mark();
        let ids = |gone: Vec<Packet>| gone.iter().map(|packet| packet.id.0).collect::<Vec<_>>();
        assert_eq!(ids(queue.expire(false)), [1, 3]);
        assert!(queue.expire(false).is_empty() && queue.len() == 2);
        assert_eq!((ids(queue.expire(true)), queue.len()), (vec![2, 4], 0));
    }

    #[test]
    fn a_flow_of_another_priority_begins_there_as_if_it_had_had_nothing() {
        let mut queue = with_class(Preset::Auto);
        // Small packets that arrive one by one have been charged much air at the first level.
        for id in 1..=100 {
            queue.push(datagram(id, 1, 7, 60), Instant::from_nanos(id * 50_000_000));
            let taken = queue.levels().find_map(|level| queue.take(level, 0, air));
            assert!(taken.is_some(), "it waits");
        }
        let late = Instant::from_nanos(6_000_000_000);
        queue.push(datagram(500, 2, 9, 1_400), late);
        let mut comes = |id| queue.push(datagram(id, 1, 7, 1_400), late);
        assert!((200..220).all(|id| comes(id).is_none()));
        let bulk = queue.levels().last().expect("a level");
        assert_eq!(queue.take(bulk, 0, air).map(|taken| taken.packet.id.0), Some(500));
        assert_eq!(queue.take(bulk, 0, air).map(|taken| taken.packet.id.0), Some(200));
    }

    #[test]
    fn a_flow_that_turns_to_bulk_goes_behind_the_others_with_all_it_has() {
        let mut queue = with_class(Preset::Auto);
        for id in 1..=9 {
            queue.push(datagram(id, 1, 7, 1_400), Instant::ZERO);
        }
        queue.push(datagram(20, 2, 7, 60), Instant::ZERO);
        assert_eq!(queue.peek(1, 0).map(|(packet, _)| packet.id.0), Some(1));
        queue.push(datagram(10, 1, 7, 1_400), Instant::ZERO);
        assert_eq!((queue.waiting(1), queue.waiting(2)), (1, 10));
        assert_eq!(drain(&mut queue)[..3], [20, 1, 2]);
    }
}
