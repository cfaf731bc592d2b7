//! The flow ends of a node, and which of them have to be polled.
//!
//! A stack takes a turn for everything that happens at its node, and most of that concerns none of
//! its ends. So an end with nothing to give is not polled again until it is handed something. A few
//! ends are looked at one by one. Many are kept in a tree of what they may have to give, so that an
//! event costs the same however many of them are idle.

use std::cell::Cell;
use std::collections::BTreeMap;

use super::any::AnyTransport;
use crate::base::{Cx, Datagram, FlowId, Instant, Lane, MessageUp, Room, RoomBelow};
use crate::transport::hop::HopPort;
use crate::wire::hop::FlowKey;
use crate::wire::ip;

/// Up to this many ends are looked at one by one.
const FEW: usize = 16;

/// An end may have an event for the application.
const RISE: u8 = 1;
/// An end may have a datagram.
const SINK: u8 = 2;

/// What an end, or a set of ends, may have to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    /// [`RISE`] and [`SINK`]; an end with neither is idle.
    may: u8,
    /// When the timer of an idle end is due, [`Instant::MAX`] if never. Ends that are not idle are
    /// asked for theirs.
    due: Instant,
}

impl State {
    const AWAKE: Self = Self { may: RISE | SINK, due: Instant::MAX };
    const NOTHING: Self = Self { may: 0, due: Instant::MAX };

    fn or(self, other: Self) -> Self {
        Self { may: self.may | other.may, due: self.due.min(other.due) }
    }
}

/// One flow end.
#[derive(Debug)]
struct End {
    transport: AnyTransport,
    /// A datagram for which there was no room. An end that holds one has [`SINK`] set.
    held: Option<Box<Datagram>>,
    /// DSCP that its packets are marked with (RFC 2474); transports leave it at 0.
    dscp: u8,
    state: State,
    /// Whether it is listed among the ends that may have more room.
    is_listed: bool,
}

impl End {
    fn build(transport: AnyTransport, dscp: u8) -> Self {
        Self { transport, held: None, dscp, state: State::AWAKE, is_listed: false }
    }

    fn poll_rx(&mut self, cx: &mut Cx<'_>) -> Option<MessageUp> {
        let Some(event) = self.transport.get_mut().poll_rx(cx) else {
            self.has_no_more(RISE);
            return None;
        };
        // Bytes that were read may have opened a window.
        self.state.may |= SINK;
        Some(event)
    }

    fn poll_tx(&mut self, cx: &mut Cx<'_>, below: &RoomBelow<'_>) -> Option<Datagram> {
        let was_asked = Cell::new(false);
        let is_backpressured = self.transport.is_backpressured();
        let room = |lane: Lane| {
            if !is_backpressured {
                return Room::UNLIMITED;
            }
            was_asked.set(true);
            below(lane)
        };
        let Some(mut datagram) = self.transport.get_mut().poll_tx(cx, &room) else {
            // A transport that did not ask for room has nothing to send; it does not wait for room.
            if !was_asked.get() {
                self.has_no_more(SINK);
            }
            return None;
        };
        if self.dscp > 0 {
            datagram.payload = ip::with_dscp(datagram.payload, self.dscp);
        }
        Some(datagram)
    }

    fn has_no_more(&mut self, what: u8) {
        self.state.may &= !what;
        if self.state.may == 0 {
            self.state.due = self.timer();
        }
    }

    fn timer(&self) -> Instant {
        self.transport.get().poll_timeout().unwrap_or(Instant::MAX)
    }

    #[inline]
    fn poll_timeout(&self) -> Instant {
        if self.state.may > 0 { self.timer() } else { self.state.due }
    }
}

/// The flow ends of a node, in the order in which they were added.
#[derive(Debug)]
pub(super) struct Ends {
    all: Vec<End>,
    /// What all ends together may have to give. It may claim too much until all were polled.
    together: State,
    many: Option<Box<Many>>,
}

/// What is kept in addition when there are many ends.
#[derive(Debug, Default)]
struct Many {
    /// A binary tree: each node has what the ends below it may have to give. The root is 1, the
    /// children of `n` are `2 n` and `2 n + 1`, and the ends are the second half.
    tree: Vec<State>,
    /// The ends that accept packets of a flow, by the flow's id as [`ip::flow`] computes it.
    by_flow: BTreeMap<FlowId, Vec<usize>>,
    /// The ends that may have more room for messages than the application knows.
    roomier: Vec<usize>,
}

impl Many {
    /// Adds a new end, or one that replaces an old one.
    fn enter(&mut self, index: usize, end: &mut End) {
        if index >= self.tree.len() / 2 {
            self.widen();
        }
        self.set(index, end.state);
        self.list(index, end);
        if let Some(flow) = end.transport.get().accepted_flow() {
            self.by_flow.entry(flow).or_default().push(index);
        }
    }

    /// Forgets which packets an end accepts.
    fn leave(&mut self, index: usize, end: &End) {
        let flow = end.transport.get().accepted_flow();
        if let Some(same) = flow.and_then(|flow| self.by_flow.get_mut(&flow)) {
            same.retain(|other| *other != index);
        }
    }

    /// Makes room for twice as many ends.
    fn widen(&mut self) {
        let old = self.tree.len() / 2;
        let width = (2 * old).max(FEW);
        let mut tree = vec![State::NOTHING; 2 * width];
        tree[width..][..old].copy_from_slice(&self.tree[old..]);
        self.tree = tree;
        for place in (1..width).rev() {
            self.tree[place] = self.below(place);
        }
    }

    #[inline(never)]
    fn note(&mut self, index: usize, end: &mut End, is_roomier: bool) {
        self.set(index, end.state);
        if is_roomier {
            self.list(index, end);
        }
    }

    fn list(&mut self, index: usize, end: &mut End) {
        if !std::mem::replace(&mut end.is_listed, true) {
            self.roomier.push(index);
        }
    }

    fn below(&self, place: usize) -> State {
        self.tree[2 * place].or(self.tree[2 * place + 1])
    }

    fn set(&mut self, index: usize, mut state: State) {
        let mut place = self.tree.len() / 2 + index;
        while self.tree[place] != state {
            self.tree[place] = state;
            place /= 2;
            if place == 0 {
                break;
            }
            state = self.below(place);
        }
    }

    /// The first end, from `from` on, for which `has` holds. For several ends together, `has` must
    /// hold exactly if it holds for one of them.
    #[inline(never)]
    fn next(&self, from: usize, has: impl Fn(&State) -> bool) -> Option<usize> {
        let width = self.tree.len() / 2;
        let mut place = width + from;
        while !has(self.tree.get(place)?) {
            // What is to the right of it, or of its nearest ancestor that is a left child.
            place = (place + 1) >> (place + 1).trailing_zeros();
            if place == 1 {
                return None;
            }
        }
        while place < width {
            place *= 2;
            place += usize::from(!has(&self.tree[place]));
        }
        Some(place - width)
    }

    /// See [`Ends::next_to_sink`].
    #[inline(never)]
    fn next_to_sink(&self, after: usize, last: usize) -> Option<usize> {
        let next = |from| self.next(from, |state| state.may & SINK > 0);
        match next(after + 1) {
            Some(index) if after >= last => Some(index),
            None if after >= last => next(0).filter(|index| *index <= last),
            later => later.filter(|index| *index <= last),
        }
    }

    fn poll_timeout(&self, ends: &[End]) -> Instant {
        let (mut due, mut from) = (self.tree[1].due, 0);
        while let Some(index) = self.next(from, |state| state.may > 0) {
            due = due.min(ends[index].poll_timeout());
            from = index + 1;
        }
        due
    }
}

impl Ends {
    /// None yet.
    pub(super) fn new() -> Self {
        Self { all: Vec::new(), together: State::NOTHING, many: None }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &AnyTransport> {
        self.all.iter().map(|end| &end.transport)
    }

    pub(super) fn get(&self, index: usize) -> Option<&AnyTransport> {
        self.all.get(index).map(|end| &end.transport)
    }

    /// Adds an end whose packets are marked with a DSCP.
    pub(super) fn add(&mut self, transport: AnyTransport, dscp: u8) {
        let index = self.all.len();
        self.all.push(End::build(transport, dscp));
        self.together = State::AWAKE;
        if let Some(many) = &mut self.many {
            many.enter(index, &mut self.all[index]);
        } else if self.all.len() > FEW {
            let mut many = Box::<Many>::default();
            for (index, end) in self.all.iter_mut().enumerate() {
                many.enter(index, end);
            }
            self.many = Some(many);
        }
    }

    /// Replaces an end. Panics if there is no such end.
    pub(super) fn replace(&mut self, index: usize, transport: AnyTransport, dscp: u8) {
        let end = self.all.get_mut(index).expect("an end to be replaced");
        let old = std::mem::replace(end, End::build(transport, dscp));
        self.together = State::AWAKE;
        if let Some(many) = &mut self.many {
            many.leave(index, &old);
            end.is_listed = old.is_listed;
            many.enter(index, end);
        }
    }

    /// An end that is handed something, after which it may have something to give.
    pub(super) fn wake(&mut self, index: usize) -> Option<&mut AnyTransport> {
        self.all.get_mut(index)?.state = State::AWAKE;
        self.together = State::AWAKE;
        self.note(index, true);
        Some(&mut self.all[index].transport)
    }

    /// Notes that the state of an end has changed, and perhaps its room for messages.
    #[inline]
    fn note(&mut self, index: usize, is_roomier: bool) {
        if let Some(many) = &mut self.many {
            many.note(index, &mut self.all[index], is_roomier);
        }
    }

    /// The first end, from `from` on, for which `has` holds; see [`Many::next`].
    #[inline]
    fn next(&self, from: usize, has: impl Fn(&State) -> bool) -> Option<usize> {
        match &self.many {
            None => (from..self.all.len()).find(|index| has(&self.all[*index].state)),
            Some(many) => many.next(from, has),
        }
    }

    /// Sums up what the ends may have to give. Call it after all that may have something were
    /// polled.
    pub(super) fn sum_up(&mut self) {
        self.together = match &self.many {
            None => self.all.iter().fold(State::NOTHING, |sum, end| sum.or(end.state)),
            Some(many) => many.tree[1],
        };
    }

    /// Whether an end may have a datagram.
    #[inline]
    pub(super) fn may_sink(&self) -> bool {
        self.together.may & SINK > 0
    }

    /// The first end after `after`, up to `last`, that may have a datagram. The order is cyclic.
    #[inline]
    pub(super) fn next_to_sink(&self, after: usize, last: usize) -> Option<usize> {
        if let Some(many) = &self.many {
            return many.next_to_sink(after, last);
        }
        let mut index = after;
        loop {
            index = if index + 1 < self.all.len() { index + 1 } else { 0 };
            if self.all[index].state.may & SINK > 0 {
                return Some(index);
            }
            if index == last {
                return None;
            }
        }
    }

    /// The end that accepts a packet. `latest`, the end that accepted the packet before, is asked
    /// first.
    pub(super) fn accepting(&self, packet: &[u8], latest: usize) -> Option<usize> {
        let accepts = |index: &usize| self.all[*index].transport.get().accepts(packet);
        let count = self.all.len();
        let Some(many) = &self.many else {
            return (latest..count).chain(0..latest).find(accepts);
        };
        if accepts(&latest) {
            return Some(latest);
        }
        let same = many.by_flow.get(&ip::flow(packet))?.iter().copied();
        same.filter(accepts).min_by_key(|index| (index + count - latest) % count)
    }

    /// Gives the next event for the application.
    #[inline]
    pub(super) fn poll_rx(&mut self, cx: &mut Cx<'_>) -> Option<MessageUp> {
        if self.together.may & RISE > 0 { self.poll_awake(cx) } else { None }
    }

    #[inline(never)]
    fn poll_awake(&mut self, cx: &mut Cx<'_>) -> Option<MessageUp> {
        let mut from = 0;
        while let Some(index) = self.next(from, |state| state.may & RISE > 0) {
            if let Some(event) = self.all[index].poll_rx(cx) {
                self.together.may |= SINK;
                self.note(index, false);
                return Some(event);
            }
            self.note(index, false);
            from = index + 1;
        }
        self.sum_up();
        None
    }

    /// Gives the next datagram of an end.
    pub(super) fn poll_tx(
        &mut self,
        index: usize,
        cx: &mut Cx<'_>,
        below: &RoomBelow<'_>,
    ) -> Option<Datagram> {
        let datagram = self.all[index].poll_tx(cx, below);
        // An end without a datagram may have found out that its application can write again.
        self.note(index, true);
        datagram
    }

    /// Takes the datagram of an end for which there was no room before.
    pub(super) fn take_held(&mut self, index: usize) -> Option<Datagram> {
        self.all[index].held.take().map(|datagram| *datagram)
    }

    /// Keeps a datagram of an end for which there is no room.
    pub(super) fn hold(&mut self, index: usize, datagram: Datagram) {
        self.all[index].held = Some(Box::new(datagram));
    }

    /// Drops all datagrams that are held. Returns their number.
    pub(super) fn drop_held(&mut self) -> u64 {
        let (mut from, mut dropped) = (0, 0);
        while let Some(index) = self.next(from, |state| state.may & SINK > 0) {
            dropped += u64::from(self.all[index].held.take().is_some());
            from = index + 1;
        }
        dropped
    }

    /// When [`Ends::handle_timeout`] is next due.
    #[inline]
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let due = if self.together.may > 0 { self.first_due() } else { self.together.due };
        (due < Instant::MAX).then_some(due)
    }

    #[inline(never)]
    fn first_due(&self) -> Instant {
        match &self.many {
            None => self.all.iter().map(End::poll_timeout).fold(Instant::MAX, Instant::min),
            Some(many) => many.poll_timeout(&self.all),
        }
    }

    /// Fires every timer that is due. Returns whether there was one.
    pub(super) fn handle_timeout(&mut self, cx: &mut Cx<'_>) -> bool {
        let (mut from, mut has_fired, now) = (0, false, cx.now);
        while let Some(index) = self.next(from, |state| state.may > 0 || state.due <= now) {
            if self.all[index].poll_timeout() <= now {
                self.wake(index).expect("it was found").get_mut().handle_timeout(cx);
                has_fired = true;
            }
            from = index + 1;
        }
        has_fired
    }

    /// Whether there are so many ends that [`Ends::poll_roomier`] lists them.
    pub(super) fn are_many(&self) -> bool {
        self.many.is_some()
    }

    /// Gives the next end that may have more room for messages than when it was given last.
    pub(super) fn poll_roomier(&mut self) -> Option<usize> {
        let index = self.many.as_mut()?.roomier.pop()?;
        self.all[index].is_listed = false;
        Some(index)
    }

    /// The port of an end, if it is one of a flow of blocks.
    pub(super) fn port(&mut self, index: usize) -> Option<&mut HopPort> {
        match &mut self.all[index].transport {
            AnyTransport::Hop(port) => Some(port),
            AnyTransport::Tcp(_) | AnyTransport::Udp(_) => None,
        }
    }

    /// Notes that the machine for flows of blocks took a block from an end.
    pub(super) fn on_block_taken(&mut self, index: usize) {
        self.note(index, true);
    }

    /// The end of a flow of blocks on the side that `key` selects. It is handed something, and may
    /// then have an event.
    pub(super) fn wake_port(
        &mut self,
        flow: FlowKey,
        key: fn(&HopPort) -> Option<FlowKey>,
    ) -> Option<&mut HopPort> {
        let is_it = |end: &End| match &end.transport {
            AnyTransport::Hop(port) => key(port) == Some(flow),
            AnyTransport::Tcp(_) | AnyTransport::Udp(_) => false,
        };
        let index = self.all.iter().position(is_it)?;
        self.together.may |= RISE;
        let state = &mut self.all[index].state;
        *state = State { may: state.may | RISE, due: Instant::MAX };
        self.note(index, true);
        self.port(index)
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddrV4;

    use super::*;
    use crate::base::{Bitrate, DatagramUp, NodeId, Rng, Seed};
    use crate::transport::tcp::FlowEnd;
    use crate::transport::udp::{Udp, UdpConfig};

    const COUNT: usize = 100;

    fn flow_end(index: usize) -> FlowEnd {
        let socket = |node: u8| SocketAddrV4::new([10, 66, 0, node].into(), 4_000 + index as u16);
        FlowEnd { flow: FlowId(0), to: NodeId(2), local: socket(1), remote: socket(2) }
    }

    fn udp(config: UdpConfig, index: usize) -> AnyTransport {
        AnyTransport::Udp(Box::new(Udp::build(config, flow_end(index))))
    }

    fn sources() -> Ends {
        let mut ends = Ends::new();
        for index in 0..COUNT {
            let rate = Some(Bitrate::from_mbps(0.01 * (1 + index % 7) as f64));
            ends.add(udp(UdpConfig::Source { rate, size: 100, bytes: None }, index), 0);
        }
        ends
    }

    fn assert_as_one_by_one(ends: &Ends, rng: &mut Rng) {
        let by_one = |from: usize, has: &dyn Fn(&State) -> bool| {
            (from..COUNT).find(|index| has(&ends.all[*index].state))
        };
        let (from, last) = (rng.below(COUNT as u64) as usize, rng.below(COUNT as u64) as usize);
        let sinks = |state: &State| state.may & SINK > 0;
        assert_eq!(
            ends.next(from, |state| state.may & RISE > 0),
            by_one(from, &|state| state.may & RISE > 0)
        );
        let behind =
            (from + 1..).map(|index| index % COUNT).take((last + COUNT - from - 1) % COUNT + 1);
        let mut behind = behind.filter(|index| sinks(&ends.all[*index].state));
        assert_eq!(ends.next_to_sink(from, last), behind.next());
        let first = ends.all.iter().map(End::poll_timeout).min();
        assert_eq!(ends.poll_timeout(), first.filter(|due| *due < Instant::MAX));
        assert!(ends.all.iter().all(|end| end.state.may & !ends.together.may == 0));
    }

    #[test]
    fn many_are_asked_as_if_one_by_one() {
        let (mut ends, mut rng) = (sources(), Seed(1).stream("ends"));
        let (mut now, mut sent, mut fired) = (Instant::ZERO, 0, 0);
        for _ in 0..20_000 {
            let index = rng.below(COUNT as u64) as usize;
            let mut cx = Cx::new(now);
            match rng.below(6) {
                0 => match ends.wake(index) {
                    Some(AnyTransport::Udp(source)) if rng.chance(0.5) => source.pause(now),
                    Some(AnyTransport::Udp(source)) => source.resume(now),
                    _ => panic!("a source"),
                },
                1 => drop(ends.poll_rx(&mut cx)),
                2 | 3 => {
                    let has_room = rng.chance(0.7);
                    let below = |_| if has_room { Room::UNLIMITED } else { Room::NONE };
                    let mut at = index;
                    while let Some(next) = ends.next_to_sink(at, index) {
                        sent += usize::from(ends.poll_tx(next, &mut cx, &below).is_some());
                        at = next;
                        if next == index {
                            ends.sum_up();
                            break;
                        }
                    }
                }
                _ => {
                    now = ends.poll_timeout().unwrap_or(now).max(now);
                    let due = ends.all.iter().filter(|end| end.poll_timeout() <= now).count();
                    assert_eq!(ends.handle_timeout(&mut Cx::new(now)), due > 0);
                    assert!(ends.poll_timeout().is_none_or(|due| due > now));
                    fired += due;
                }
            }
            assert_as_one_by_one(&ends, &mut rng);
        }
        assert!(sent > 1_000 && fired > 1_000, "{sent} sent, {fired} fired");
    }

    /// A datagram to the end with these ports.
    fn packet_to(index: usize) -> bytes::Bytes {
        let FlowEnd { local, remote, .. } = flow_end(index);
        crate::wire::udp::encode(remote, local, &[0; 16], &[])
    }

    #[test]
    fn each_packet_comes_to_its_end_among_many() {
        let mut ends = Ends::new();
        for index in 0..COUNT {
            ends.add(udp(UdpConfig::Sink, index), 0);
        }
        for index in 0..COUNT {
            assert_eq!(ends.accepting(&packet_to(index), index * 31 % COUNT), Some(index));
        }
        assert_eq!(ends.accepting(&packet_to(COUNT), 0), None);
        ends.replace(7, udp(UdpConfig::Sink, COUNT), 0);
        assert_eq!(ends.accepting(&packet_to(7), 0), None);
        assert_eq!(ends.accepting(&packet_to(COUNT), 0), Some(7));
        // Of two for the same packets, the first behind the latest.
        ends.replace(50, udp(UdpConfig::Sink, COUNT), 0);
        assert_eq!(
            [0, 8, 51].map(|latest| ends.accepting(&packet_to(COUNT), latest)),
            [7, 50, 7].map(Some)
        );
    }

    #[test]
    fn those_that_may_have_room_are_told_once() {
        let mut ends = sources();
        let all = |ends: &mut Ends| std::iter::from_fn(|| ends.poll_roomier()).collect::<Vec<_>>();
        assert_eq!(all(&mut ends).len(), COUNT);
        let received = DatagramUp::Drowned(NodeId(2));
        for index in [3, 70, 3] {
            let end = ends.wake(index).expect("an end");
            end.get_mut().handle_rx(&mut Cx::new(Instant::ZERO), received.clone());
        }
        assert_eq!(all(&mut ends), [70, 3]);
        assert!(all(&mut ends).is_empty());
    }
}
