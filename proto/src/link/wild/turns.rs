//! Turns within a slot, where several neighbours share one radio.
//!
//! A radio with one neighbour sends in the whole of its slot. If a radio has several neighbours,
//! they send one after the other. At the middle of a star, the radio itself decides who may answer
//! when, based on how much each of them said that it could send. Where stars overlap, as in a row
//! of nodes with one radio each, a slot is split into fixed parts, because nobody knows the needs
//! of all.
//!
//! Turns are counted from the start of the holder's slot. How the middle of a star assigns them is
//! in `grants`.

use super::beacon::BEACON_BYTES;
use super::grants::{Grants, packet_turn};
use super::peer::Peer;
use super::port::{Port, Toward};
use super::slots::{Phase, Slots};
use super::{Settings, Wild, ack_bytes};
use crate::base::{Duration, Instant, RadioSpec};
use crate::wire::wild::{FULL_LENGTH, HEADER_BYTES, Header, Turns, UNIT_HEAD_BYTES};

/// A station that does not hear the middle of its star sends in one of this many slots.
const ALONE_OF: u64 = 4;
/// A radio that misses a neighbour begins some slots at a random time. If it has only a part of
/// each slot, one in this many of them has a beacon outside of that part, and nothing else.
const BEACON_OF: u64 = 4;

/// Slots of a pair are shortened until neither side has had anything to send for this long.
const REST: Duration = Duration::from_secs(1);

/// When a radio may send within the slot of its node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Turn {
    /// In the whole slot.
    #[default]
    Whole,
    /// In one of several equal parts of the slot.
    Part {
        /// The part, from 0.
        index: u8,
        /// The number of parts.
        count: u8,
    },
    /// In the whole slot, and it tells its neighbours when they may send: it is the middle of a
    /// star.
    Grants {
        /// Whether the lengths of the star's slots may vary: none of its nodes has another radio on
        /// the channel.
        splits: bool,
    },
    /// When its only neighbour, the middle of a star, permits it.
    Granted,
}

impl Turn {
    /// Whether the radio is the middle of a star.
    pub(super) fn is_middle(self) -> bool {
        matches!(self, Self::Grants { .. })
    }
}

/// A part of a slot, relative to its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: Duration,
    pub(super) until: Duration,
}

/// The state of turns at one radio.
#[derive(Debug, Default)]
pub(super) struct PortTurns {
    pub(super) turn: Turn,
    /// The turn that the middle of the star gave this node, and until when it is valid.
    own: Option<(Span, Instant)>,
    /// The turns that this node gives its neighbours.
    pub(super) grants: Grants,
}

impl Port {
    /// Whether a frame may be given to the radio now.
    pub(super) fn is_open(&self, now: Instant) -> bool {
        self.opens <= now && now < self.closes
    }

    /// A send slot begins: sets when this radio may send in it. `is_joined` tells whether the radio
    /// hears a neighbour that is in step with it, and `misses_some` whether it misses one.
    pub(super) fn on_slot(
        &mut self,
        now: Instant,
        slots: &mut Slots,
        settings: &Settings,
        (is_joined, misses_some): (bool, bool),
    ) {
        let mut span = self.span(now, slots, settings, is_joined);
        if let Some(span) = &mut span
            && misses_some
        {
            self.move_for_missing(now, slots, settings, span);
        }
        let at = |offset: Duration| slots.start() + offset;
        (self.opens, self.closes) =
            span.map_or((now, now), |span| (at(span.from), at(span.until).min(slots.end())));
        self.busy_until = self.opens.max(now);
        self.on_air_until = self.busy_until;
        self.is_stamped = false;
        self.since_beacon = self.since_beacon.saturating_add(1);
        self.on_turns_begin();
    }

    /// A radio that misses a neighbour begins some slots late. If it has only a part of each slot,
    /// it may never reach the neighbour in that part: sometimes it then has time for a beacon
    /// anywhere in its slot instead.
    fn move_for_missing(
        &self,
        now: Instant,
        slots: &mut Slots,
        settings: &Settings,
        span: &mut Span,
    ) {
        let (Turn::Whole | Turn::Part { .. }) = self.turns.turn else { return };
        if !slots.draws_to_move(now) {
            return;
        }
        if self.turns.turn != Turn::Whole && slots.draws(BEACON_OF) {
            let beacon = self.to(Toward::All).unacknowledged(HEADER_BYTES + BEACON_BYTES);
            let length = (beacon + settings.overhead) * 2;
            let most = slots.own().saturating_sub(settings.guard + length);
            let from = settings.guard + slots.drawn(most);
            *span = Span { from, until: from + length };
        } else {
            span.from += slots.drawn(span.until.saturating_sub(span.from) * 3 / 4);
        }
    }

    fn span(
        &self,
        now: Instant,
        slots: &mut Slots,
        settings: &Settings,
        is_joined: bool,
    ) -> Option<Span> {
        let whole = Span { from: settings.guard, until: slots.own() };
        if !slots.is_in_step(now) {
            return Some(whole);
        }
        match self.turns.turn {
            Turn::Whole | Turn::Grants { .. } => Some(whole),
            Turn::Part { index, count } => {
                let part = settings.slot / u64::from(count);
                let from = part * u64::from(index);
                Some(Span { from: from + settings.guard, until: from + part })
            }
            // Either this station is in step with others than the middle of its star, which has yet
            // to hear of them; or it does not hear the middle for a while, and others of the star
            // have their turns.
            Turn::Granted if !is_joined => slots.draws(ALONE_OF).then_some(whole),
            Turn::Granted => self.turns.own.filter(|(_, until)| now < *until).map(|(span, _)| span),
        }
    }

    /// The part of a slot that this radio is sure to have if it asks for it. `window` is the number
    /// of packets in its window.
    pub(super) fn surest(&self, settings: &Settings, window: usize) -> Duration {
        // A radio whose turns are granted has one neighbour.
        let middle = self.peers.get(0).map_or(Toward::All, Toward::Many);
        let part = |parts: u8| (settings.slot / u64::from(parts)).saturating_sub(settings.guard);
        match self.turns.turn {
            Turn::Whole => part(1),
            Turn::Part { count, .. } => part(count),
            Turn::Grants { .. } => part(1).saturating_sub(self.opening(settings)),
            Turn::Granted => part(1).min(packet_turn(self.to(middle), settings, window)),
        }
    }
}

impl Wild {
    /// Sets when each radio may send, in the order of their numbers. Without this call all radios
    /// may send in their whole slots.
    ///
    /// Panics if a radio has no turn.
    pub fn set_turns(&mut self, turns: &[Turn]) {
        for group in &mut self.groups {
            for port in &mut group.ports {
                port.turns.turn = turns[usize::from(port.spec.id.0)];
            }
        }
    }

    /// The radio that a neighbour sends with, at its rate towards this node.
    pub(super) fn radio_of(&self, peer: &Peer) -> RadioSpec {
        peer.radio.as_ref().map_or(self.port(peer.place).spec, |radio| **radio)
    }

    /// Applies the turns that the only neighbour of a radio assigns. They arrived in its slot,
    /// which is `length` long.
    pub(super) fn on_turns(
        &mut self,
        now: Instant,
        place: (usize, usize),
        length: Duration,
        turns: &Turns,
    ) {
        let (slot, own) = (self.settings.slot, self.node.0);
        let port = self.port_mut(place);
        if port.turns.turn != Turn::Granted {
            return;
        }
        // The first slot with these turns begins at most one slot from now, and each cycle takes
        // two.
        let until = now + slot * 2 * u64::from(turns.cycles);
        let ours = (slot * 2).saturating_sub(length).as_nanos();
        let part = |fraction: u16| Duration::from_nanos((ours * u64::from(fraction)) >> 16);
        let turn = turns.turns.iter().find(|turn| turn.node == own);
        port.turns.own = turn.map(|turn| {
            let (from, length) = (part(turn.from), part(turn.length));
            (Span { from, until: from + length }, until)
        });
    }

    /// Length of the send slot that begins. Normally it is as long as the waiting packets need, up
    /// to what the neighbours leave of a cycle, and at least `slot` if there is enough to send. It
    /// is also `slot` if nobody has had anything to send for a while, which saves beacons. In a
    /// star its middle decides.
    pub(super) fn own_length(&self, now: Instant, group: usize) -> Duration {
        let Settings { slot, least, most, .. } = self.settings;
        let ports = &self.groups[group].ports;
        match self.sole_turn(group) {
            Some(Turn::Grants { .. }) => return ports[0].turns.grants.split.unwrap_or(slot),
            Some(Turn::Granted) => {
                return (slot * 2).saturating_sub(self.groups[group].slots.theirs());
            }
            Some(Turn::Whole | Turn::Part { .. }) | None => {}
        }
        let is_equal = least == most || ports.iter().any(|port| port.turns.turn != Turn::Whole);
        let is_at_rest = |index: &usize| {
            let used = self.peers[*index].used;
            used.is_none_or(|at| now.since(at) > REST)
        };
        if is_equal || ports.iter().flat_map(|port| port.peers.iter()).all(is_at_rest) {
            return slot;
        }
        let unit = slot / u64::from(FULL_LENGTH);
        let units = |port: &Port| -> u64 {
            port.peers.iter().map(|index| u64::from(self.demand_of(*index))).sum()
        };
        let spent = self.spent(now, group);
        let wanted = spent + unit * ports.iter().map(units).max().unwrap_or(0);
        let is_owed = ports.iter().any(|port| port.is_owed);
        let wanted = if is_owed { wanted.max(slot) } else { wanted };
        let left = (slot * 2).saturating_sub(self.groups[group].slots.theirs());
        let length = wanted.min(left.min(most).max(slot)).max(least);
        let full = u64::from(FULL_LENGTH);
        slot * (length * full).as_nanos().div_ceil(slot.as_nanos()) / full
    }

    /// How much of the send slot that begins is over: the guard, or more if the node woke up late.
    pub(super) fn spent(&self, now: Instant, group: usize) -> Duration {
        now.since(self.groups[group].slots.start()).max(self.settings.guard)
    }

    /// Sets the length of the send slot that begins, and of the neighbours' slot after it where
    /// this node decides that.
    pub(super) fn set_lengths(&mut self, now: Instant, group: usize) {
        let (own, sole) = (self.own_length(now, group), self.sole_turn(group));
        for port in 0..self.groups[group].ports.len() {
            let waits = |index: &usize| self.demand_of(*index) > 0;
            let waits = self.port((group, port)).peers.iter().any(waits);
            self.port_mut((group, port)).is_owed = waits;
        }
        let slots = &mut self.groups[group].slots;
        slots.set_own(own);
        if sole.is_some_and(Turn::is_middle) {
            slots.set_theirs(self.settings.slot * 2 - own);
        }
    }

    /// The turn of the only radio of a channel; none if several radios share the channel, because
    /// none of them can decide the length of their slots alone.
    pub(super) fn sole_turn(&self, group: usize) -> Option<Turn> {
        match &self.groups[group].ports[..] {
            [port] => Some(port.turns.turn),
            _ => None,
        }
    }

    /// The middle of a star has changed the length of its slot; the length of this node's next slot
    /// changes with it.
    pub(super) fn follow_length(&mut self, now: Instant, group: usize) {
        let is_granted = self.sole_turn(group) == Some(Turn::Granted);
        if is_granted && self.groups[group].slots.phase() == Phase::Receive {
            let own = self.own_length(now, group);
            self.groups[group].slots.set_own(own);
        }
    }

    /// The slot length in a header.
    pub(super) fn length_of(&self, header: &Header) -> Duration {
        self.settings.slot * u64::from(header.length) / u64::from(FULL_LENGTH)
    }

    /// Length of the current send slot, in the unit of the header.
    pub(super) fn length_units(&self, group: usize) -> u8 {
        let slot = self.settings.slot.as_nanos();
        let own = self.groups[group].slots.own() * u64::from(FULL_LENGTH);
        let units = (own.as_nanos() + slot / 2) / slot;
        u8::try_from(units).expect("a slot of less than four times its length")
    }

    /// Air time of all that waits for a neighbour, with an acknowledgement and the parity of
    /// packets that only coding repairs, in the unit of the header.
    pub(super) fn demand(&self, index: usize) -> u8 {
        let (peer, air) = (&self.peers[index], self.frame_air(index));
        let (waiting, lost) = (peer.queue.len(), peer.sender.lost());
        if waiting + lost == 0 {
            return 0;
        }
        // Packets that were cut to fill a frame are repeated at that length.
        let front = peer.queue.front().map_or(0, |packet| packet.payload.len());
        let mean = peer.sender.lost_bytes().div_ceil(lost.max(1));
        let ack = air(ack_bytes(peer.sender.limit())).saturating_sub(air(0));
        let parity = peer.sender.estimate.parity_alone(waiting);
        let coded = air(UNIT_HEAD_BYTES + front) * parity as u64;
        let all = air(front) * waiting as u64 + air(mean) * lost as u64 + coded + ack;
        let unit = self.settings.slot / u64::from(FULL_LENGTH);
        let units = all.as_nanos().div_ceil(unit.as_nanos().max(1));
        u8::try_from(units).unwrap_or(u8::MAX)
    }

    /// The same; 0 for a neighbour that is gone.
    pub(super) fn demand_of(&self, index: usize) -> u8 {
        if self.peers[index].is_up { self.demand(index) } else { 0 }
    }

    /// The demand that a frame announces; a beacon announces that of all neighbours of its radio.
    /// If a station's packets are too long for its turn, a beacon is its only means to ask for a
    /// longer one.
    pub(super) fn demand_told(&self, place: (usize, usize), peer: Option<usize>) -> u8 {
        let of = |index: &usize| self.demand_of(*index);
        match peer {
            Some(index) => self.demand(index),
            None => self.port(place).peers.iter().map(of).fold(0, u8::saturating_add),
        }
    }

    /// A neighbour in step sent a stamp: averages how much later than the end of this node's slot
    /// the neighbour's slot began.
    pub(super) fn on_lag(&mut self, index: usize, began: Instant) {
        let (group, _) = self.peers[index].place;
        let slots = &self.groups[group].slots;
        let lag = began.signed_since(slots.sent_from() + slots.own());
        if lag.unsigned_abs() < self.settings.slot.as_nanos() {
            let known = &mut self.peers[index].lag;
            *known = Some(known.map_or(lag, |known| known + (lag - known) / 4));
        }
    }
}
