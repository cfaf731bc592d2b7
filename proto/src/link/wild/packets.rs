//! Chooses which packet is sent, new or again, and what is coded (`wildnet.md` 7.2, 12).

use bytes::Bytes;

use super::port::Toward;
use super::queue::Taken;
use super::riders::BUNDLE_BYTES;
use super::send::{Content, What, lane};
use super::sender::Terms;
use super::{Recovery, Wild, retries_of};
use crate::base::{Duration, Frame, Instant, RoomBelow};
use crate::link::code::Encoder;
use crate::wire::wild::{Coded, HEADER_BYTES, Kind, UNIT_HEAD_BYTES, UnitHead, flag};

/// How many flows are searched for a packet that still fits into the slot.
const FLOWS_TRIED: usize = 4;

/// For this many cycles after a packet of a higher priority, another one is expected.
const HURRIED_CYCLES: u64 = 10;

/// A block is closed this long before its parity would no longer fit beside one more packet: a
/// host may wake up late for it.
pub(super) const WAKES_LATE: Duration = Duration::from_micros(500);

/// A packet that is sent, for the first time or again.
struct Data {
    what: What,
    head: UnitHead,
    class: usize,
    attempt: u8,
    payload: Bytes,
    /// Air time to reserve for parity, if the packet is coded.
    parity_air: Option<Duration>,
}

impl Wild {
    /// A packet of a priority that is served first now, to whichever neighbour. It does not count
    /// as a turn of that neighbour, so that its other packets do not gain by it.
    pub(super) fn before_turns(
        &mut self,
        now: Instant,
        place: (usize, usize),
        below: &RoomBelow<'_>,
    ) -> Option<Frame> {
        let port = self.port(place);
        if port.peers.len() < 2 {
            return None;
        }
        let mut levels = port.precedence.favoured();
        levels.find_map(|level| {
            let port = self.port(place);
            let waits = |index: &usize| {
                let peer = &self.peers[*index];
                let has = peer.has_data_of(level) || self.parity_of(*index, level).is_some();
                has && peer.is_up && !below(lane(peer)).is_none()
            };
            let mut waiting: Vec<usize> = port.peers.iter().copied().filter(waits).collect();
            waiting.sort_unstable_by_key(|index| (*index <= port.favoured, *index));
            waiting.into_iter().find_map(|index| {
                let class = self.parity_of(index, level);
                let parity = class.and_then(|class| self.parity(now, (index, class)));
                let frame = parity.or_else(|| self.of_level(now, index, level))?;
                self.port_mut(place).favoured = index;
                Some(frame)
            })
        })
    }

    /// Whether there are packets of a higher priority for a neighbour, or were some lately.
    pub(super) fn is_hurried(&self, now: Instant, index: usize) -> bool {
        let (peer, lowest) = (&self.peers[index], self.settings.classes.levels() - 1);
        let until = peer.hurried.map(|at| at + self.settings.slot * 2 * HURRIED_CYCLES);
        until.is_some_and(|until| now < until) || (0..lowest).any(|level| peer.has_data_of(level))
    }

    /// A packet of the priority whose turn it is, repeated or new.
    pub(super) fn of_classes(&mut self, now: Instant, index: usize) -> Option<Frame> {
        let mut levels = self.port(self.peers[index].place).precedence.order();
        levels.find_map(|level| self.of_level(now, index, level))
    }

    fn of_level(&mut self, now: Instant, index: usize, level: usize) -> Option<Frame> {
        let frame = self.repeat(now, index, level).or_else(|| self.first(now, index, level))?;
        if level + 1 < self.settings.classes.levels() {
            self.peers[index].hurried = Some(now);
        }
        let place = self.peers[index].place;
        let air = self.frame_air(index)(frame.payload.len().saturating_sub(HEADER_BYTES));
        self.port_mut(place).precedence.on_frame(level, air);
        Some(frame)
    }

    /// Air time of a frame to a neighbour by its bytes after the header, as one of several such
    /// frames.
    pub(super) fn frame_air(&self, index: usize) -> impl Fn(usize) -> Duration + use<> {
        let spec = *self.port(self.peers[index].place).to(Toward::Many(index));
        let overhead = self.settings.overhead;
        move |bytes| spec.share(HEADER_BYTES + bytes) + overhead
    }

    /// Air time for the parity of open blocks and for waiting parity on a radio, except that of the
    /// open block of one class of one neighbour.
    pub(super) fn reserved(
        &self,
        place: (usize, usize),
        except: Option<(usize, usize)>,
    ) -> Duration {
        let of = |index: &usize| {
            let class = except.filter(|(peer, _)| peer == index).map_or(usize::MAX, |(_, it)| it);
            self.peers[*index].reserved(class)
        };
        self.port(place).peers.iter().map(of).sum()
    }

    /// The class of a level that has parity waiting for a neighbour.
    fn parity_of(&self, index: usize, level: usize) -> Option<usize> {
        let is_one = |class: &usize| self.settings.classes.get(*class).level == level;
        self.peers[index].classes_with_parity().find(is_one)
    }

    /// Parity that waits for a neighbour, of whatever class.
    pub(super) fn any_parity(&mut self, now: Instant, index: usize) -> Option<Frame> {
        let class = self.peers[index].classes_with_parity().next()?;
        self.parity(now, (index, class))
    }

    fn parity(&mut self, now: Instant, (index, class): (usize, usize)) -> Option<Frame> {
        let place = self.peers[index].place;
        let (coded, unit) = self.peers[index].codes[class].parity.front()?.clone();
        let ack = self.peers[index].ack();
        if !self.fits(now, (place, Toward::Many(index)), ack.len() + unit.len(), Duration::ZERO) {
            return None;
        }
        let code = &mut self.peers[index].codes[class];
        code.parity.pop_front();
        code.on_parity_frame();
        let share = self.frame_air(index)(unit.len());
        let code = &mut self.peers[index].codes[class];
        code.waiting_air = match code.parity.is_empty() {
            true => Duration::ZERO,
            false => code.waiting_air.saturating_sub(share),
        };
        self.counters.coded_sent += 1;
        let mut content = self.control(Kind::Fec, Some(index), &ack, &unit);
        (content.what, content.coded) = (What::Parity, Some(coded));
        content.flags = self.order_flag(class);
        Some(self.give(now, place, content))
    }

    /// Finds a place in the open block for a packet of `bytes` bytes. Returns the air time that
    /// parity then needs, and what the slot has left beside both; none if the frame and all its
    /// parity do not fit.
    fn coded_place(
        &self,
        now: Instant,
        (index, class): (usize, usize),
        bytes: usize,
    ) -> Option<(Duration, Duration)> {
        let peer = &self.peers[index];
        let block = peer.codes[class].block.as_ref();
        let parity = peer.sender.estimate.parity(class, block.map_or(0, Encoder::len) + 1);
        let longest = block.map_or(UNIT_HEAD_BYTES + bytes, |block| block.longest_with(bytes));
        let own = self.frame_air(index)(longest) * parity as u64;
        let beside = own + self.reserved(peer.place, Some((index, class)));
        let left = self.left(now, (peer.place, Toward::Many(index)), bytes, beside)?;
        Some((own, left))
    }

    /// For how long the open block of a class still has room for one more packet as long as its
    /// longest, if nothing else is sent. None if it has none, or if no block is open.
    fn stays_open(&self, now: Instant, (index, class): (usize, usize)) -> Option<Duration> {
        let block = self.peers[index].codes[class].block.as_ref()?;
        let bytes = block.longest_with(0).saturating_sub(UNIT_HEAD_BYTES);
        let (_, left) = self.coded_place(now, (index, class), bytes)?;
        (left >= WAKES_LATE).then(|| left.saturating_sub(WAKES_LATE))
    }

    /// When the first of the open blocks of a radio is to be closed because of the time that its
    /// parity needs.
    pub(super) fn closing(&self, now: Instant, place: (usize, usize)) -> Option<Instant> {
        let port = self.port(place);
        let idle = port.busy_until.max(now);
        let of = |index: usize| (0..self.peers[index].codes.len()).map(move |class| (index, class));
        let blocks = port.peers.iter().flat_map(|index| of(*index));
        let left = blocks.filter_map(|block| self.stays_open(now, block)).min()?;
        Some(idle + left + Duration::from_nanos(1))
    }

    /// Adds a packet to the open block.
    fn put_into_block(
        &mut self,
        (index, class): (usize, usize),
        head: &UnitHead,
        payload: &[u8],
        air: Duration,
    ) -> Coded {
        let most = self.settings.block;
        let peer = &mut self.peers[index];
        let code = &mut peer.codes[class];
        let block = code.open(&mut peer.next_block);
        let coded = Coded { block: block.id, index: block.len() as u8, k: most as u8 };
        block.push(head, payload);
        let is_full = block.len() == most;
        code.open_air = air;
        if is_full {
            code.close(&peer.sender.estimate);
        }
        coded
    }

    /// Whether a packet may be sent: `None` if it does not fit. If it is to be coded, the air time
    /// to reserve for parity.
    fn admit(
        &self,
        now: Instant,
        (index, class): (usize, usize),
        bytes: usize,
        codes: bool,
    ) -> Option<Option<Duration>> {
        let peer = &self.peers[index];
        if codes {
            if let Some((air, _)) = self.coded_place(now, (index, class), bytes) {
                return Some(Some(air));
            }
            // A packet that does not fit together with its parity waits until the parity of the
            // open block has been sent; if only coding repairs it, also for the next slot.
            if peer.codes[class].block.is_some() || self.is_worth_waiting((index, class), bytes) {
                return None;
            }
        }
        let beside = self.reserved(peer.place, None);
        self.fits(now, (peer.place, Toward::Many(index)), bytes, beside).then_some(None)
    }

    /// Whether a packet that only coding repairs would fit with its parity, and one more frame,
    /// into a turn like this one, or into what a radio is sure to get if it asks.
    fn is_worth_waiting(&self, (index, class): (usize, usize), bytes: usize) -> bool {
        let peer = &self.peers[index];
        let frames = peer.sender.estimate.parity(class, 1) as u64 + 2;
        let air = self.frame_air(index)(UNIT_HEAD_BYTES + bytes);
        let is_alone = self.settings.classes.get(class).rules.recovery == Recovery::Fec;
        let port = self.port(peer.place);
        let sure = port.surest(&self.settings, peer.sender.limit());
        is_alone && air * frames <= port.closes.since(port.opens).max(sure)
    }

    fn repeat(&mut self, now: Instant, index: usize, level: usize) -> Option<Frame> {
        if self.peers[index].sender.oldest_lost(level).is_none() {
            return self.close_blocks(now, index, level, true);
        }
        let ack = self.peers[index].ack();
        let sender = &mut self.peers[index].sender;
        let (seq, entry) = sender.oldest_lost(level)?;
        let (packet, flow_seq, class) = (&entry.packet, entry.flow_seq, entry.class);
        let (flow, protocol, payload) = (packet.flow, packet.protocol, packet.payload.clone());
        let attempt = entry.attempts;
        let codes = sender.estimate.codes_again(class);
        let bytes = ack.len() + payload.len();
        let Some(parity_air) = self.admit(now, (index, class), bytes, codes) else {
            return self.close_blocks(now, index, level, true);
        };
        let until = self.groups[self.peers[index].place.0].slots.end();
        self.peers[index].sender.repeat(seq, until);
        // No attempt so far: the first transmission was never sent.
        let what = if attempt == 0 { What::First(seq) } else { What::Repeat(seq) };
        self.counters.retransmissions += u64::from(attempt > 0);
        let head = UnitHead { seq, flow, flow_seq, protocol };
        let data = Data { what, head, class, attempt, payload, parity_air };
        Some(self.data(now, index, data, &ack))
    }

    fn first(&mut self, now: Instant, index: usize, level: usize) -> Option<Frame> {
        let peer = &mut self.peers[index];
        if !peer.queue.has(level) {
            return self.close_late_blocks(now, index, level);
        }
        if !peer.sender.has_room(level) {
            return self.close_blocks(now, index, level, false);
        }
        let ack = peer.ack();
        for turn in 0..FLOWS_TRIED {
            let peer = &self.peers[index];
            let Some((packet, class)) = peer.queue.peek(level, turn) else { break };
            let codes = peer.sender.estimate.codes_new(class);
            // Copies of broadcasts are never cut, and may be longer than a filled frame.
            let is_filled = !codes && self.cuts(index, class) && !self.copies.is_one(packet.id);
            if is_filled || peer.queue.is_cut(level, turn) {
                let Some(taken) = self.fill(now, index, (level, turn), ack.len()) else { continue };
                return Some(self.send_new(now, (index, level), taken, None, &ack));
            }
            let bytes = ack.len() + packet.payload.len();
            let Some(parity_air) = self.admit(now, (index, class), bytes, codes) else { continue };
            let air = self.frame_air(index);
            let taken = self.peers[index].queue.take(level, turn, air);
            let mut taken = taken.expect("what was there");
            if parity_air.is_none() {
                let most = BUNDLE_BYTES.min(self.longest_body(index));
                self.board(now, index, (ack.len(), most), &mut taken, Vec::new());
            }
            return Some(self.send_new(now, (index, level), taken, parity_air, &ack));
        }
        self.close_blocks(now, index, level, false)
    }

    /// Sends a packet that was taken from the queue.
    fn send_new(
        &mut self,
        now: Instant,
        (index, level): (usize, usize),
        taken: Taken,
        parity_air: Option<Duration>,
        ack: &[u8],
    ) -> Frame {
        let peer = &mut self.peers[index];
        let Taken { packet, flow_seq, class } = taken;
        let (flow, protocol) = (packet.flow, packet.protocol);
        let (payload, most_retries) = (packet.payload.clone(), retries_of(&packet));
        let until = self.groups[peer.place.0].slots.end();
        let terms = Terms { flow_seq, class, level, most_retries, until };
        let seq = peer.sender.push(packet, terms);
        let (what, head) = (What::First(seq), UnitHead { seq, flow, flow_seq, protocol });
        let data = Data { what, head, class, attempt: 0, payload, parity_air };
        self.data(now, index, data, ack)
    }

    /// Closes the open blocks of a level that are filled by retransmissions (`again`) or by new
    /// packets, because nothing can be added to them in this slot, and sends their parity.
    fn close_blocks(
        &mut self,
        now: Instant,
        index: usize,
        level: usize,
        again: bool,
    ) -> Option<Frame> {
        let estimate = &self.peers[index].sender.estimate;
        let is_one = |class: &usize| match again {
            true => estimate.codes_again(*class),
            false => estimate.codes_new(*class),
        };
        let classes = self.open_blocks(index, level).filter(is_one).collect();
        self.close(now, index, classes)
    }

    /// The same for blocks of new packets of which none waits: each stays open, for packets that
    /// come while the node sends, as long as the slot has time for one of them and its parity.
    fn close_late_blocks(&mut self, now: Instant, index: usize, level: usize) -> Option<Frame> {
        // Nearly always there is none, and this is asked of each neighbour at each turn.
        self.open_blocks(index, level).next()?;
        let estimate = &self.peers[index].sender.estimate;
        let is_late = |class: &usize| {
            estimate.codes_new(*class) && self.stays_open(now, (index, *class)).is_none()
        };
        let classes: Vec<usize> = self.open_blocks(index, level).filter(is_late).collect();
        if classes.is_empty() {
            // An A-MPDU that has ended, or frames that took less time than planned, move the end.
            self.wake_to_close(now, self.peers[index].place);
        }
        self.close(now, index, classes)
    }

    /// Has the link wake up when the first of the open blocks of a radio is to be closed.
    fn wake_to_close(&mut self, now: Instant, place: (usize, usize)) {
        if let Some(closing) = self.closing(now, place) {
            self.timeout = self.timeout.min(closing);
        }
    }

    /// The classes of a level that have an open block.
    fn open_blocks(&self, index: usize, level: usize) -> impl Iterator<Item = usize> {
        let codes = self.peers[index].codes.iter().enumerate();
        let is_of_level = move |class: usize| self.settings.classes.get(class).level == level;
        let open = codes.filter(move |(class, code)| code.block.is_some() && is_of_level(*class));
        open.map(|(class, _)| class)
    }

    fn close(&mut self, now: Instant, index: usize, classes: Vec<usize>) -> Option<Frame> {
        let peer = &mut self.peers[index];
        let is_any = !classes.is_empty();
        classes.into_iter().for_each(|class| peer.codes[class].close(&peer.sender.estimate));
        if is_any { self.any_parity(now, index) } else { None }
    }

    fn order_flag(&self, class: usize) -> u8 {
        if self.settings.classes.get(class).is_ordered { flag::IN_ORDER } else { 0 }
    }

    fn data(&mut self, now: Instant, index: usize, data: Data, ack: &[u8]) -> Frame {
        let Data { what, head, class, attempt, payload, parity_air } = data;
        let coded = parity_air.map(|air| self.put_into_block((index, class), &head, &payload, air));
        let (place, is_coded) = (self.peers[index].place, coded.is_some());
        self.peers[index].codes[class].on_data_frame();
        let content = Content {
            kind: Kind::Data,
            what,
            peer: Some(index),
            flow: head.flow,
            flow_seq: head.flow_seq,
            seq: head.seq,
            attempt,
            flags: self.order_flag(class),
            coded,
            protocol: head.protocol,
            ack,
            body: &payload,
        };
        let frame = self.give(now, place, content);
        if is_coded {
            self.wake_to_close(now, place);
        }
        frame
    }
}
