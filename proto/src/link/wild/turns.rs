//! Turns within a slot, where several neighbours share one radio.
//!
//! A radio with one neighbour sends in the whole of its slot. The neighbours of a radio that has
//! several send one after the other: at the middle of a star the radio itself says who may answer
//! when, by what each said it could fill; where stars overlap, as in a row of nodes with one radio
//! each, a slot is split into fixed parts, because nobody knows the wishes of all.
//!
//! Turns are counted from the start of the slot of whoever has them. That start is later by the
//! way there and back for a far neighbour than for a near one, so the middle moves the turns of
//! the near ones on by the difference.
//!
//! Where slots may have other lengths, the middle of a star splits each cycle between its own slot
//! and that of its neighbours, by what waits on either side, when it gives turns out. A cycle stays
//! as long as it is: the neighbours know their slot from the length of the middle's, which every
//! frame tells.

use super::peer::Peer;
use super::slots::{Phase, Slots};
use super::{Port, Settings, Wild};
use crate::base::{Duration, Instant};
use crate::wire::wild::{FULL_LENGTH, HEADER_BYTES, Header, TurnEntry, Turns};

/// Cycles for which turns are given out at once.
const CYCLES: u8 = 4;
/// One time in so many there is a turn for whoever has none, while somebody is missing.
const OPEN_OF: u32 = 2;
/// Between two turns, for frames that are longer than planned.
const GAP: Duration = Duration::from_micros(60);
/// By so much may the ways of a newcomer and of the others differ (90 km, there and back).
const NEWCOMER_SKEW: Duration = Duration::from_micros(600);
/// Payload of a frame by which a newcomer makes itself known.
const NEWCOMER_BYTES: usize = 200;
/// Payload of an acknowledgement by itself.
const ACK_BYTES: usize = 40;

/// When a radio may send within the slot of its node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Turn {
    /// All the time.
    #[default]
    Whole,
    /// In one of so many parts.
    Part {
        /// The part, from 0.
        index: u8,
        /// How many there are.
        count: u8,
    },
    /// All the time, and it tells its neighbours when they may.
    Grants,
    /// When its only neighbour says so.
    Granted,
}

/// A part of a slot, from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: Duration,
    pub(super) until: Duration,
}

/// The turns of one radio.
#[derive(Debug, Default)]
pub(super) struct PortTurns {
    pub(super) turn: Turn,
    /// What the middle of the star gave this node, and until when that holds.
    own: Option<(Span, Instant)>,
    /// The turn of whoever has none.
    open: Option<(Span, Instant)>,
    /// What this node gave its neighbours, and how long its own slots are while that holds.
    given: Turns,
    split: Option<Duration>,
    rounds: u32,
}

/// What the neighbours of the middle of a star need of a cycle.
struct Needs<'a> {
    /// Those who get turns.
    here: Vec<&'a Peer>,
    /// By so much the farthest hears later than the nearest, there and back.
    skew: Duration,
    /// The turn of newcomers.
    open: Option<Duration>,
    /// What each must have.
    least: Duration,
    /// What each could fill.
    wanted: Vec<Duration>,
}

impl Needs<'_> {
    /// What is not for those who are here.
    fn fixed(&self, settings: &Settings) -> Duration {
        settings.guard + self.skew + self.open.unwrap_or(Duration::ZERO)
    }
}

impl Port {
    /// Whether a frame may be given down now.
    pub(super) fn is_open(&self, now: Instant) -> bool {
        self.opens <= now && now < self.closes
    }

    /// A send slot begins: from when to when this radio may send in it.
    pub(super) fn on_slot(&mut self, now: Instant, slots: &mut Slots, settings: &Settings) {
        let span = self.span(now, slots, settings);
        let at = |offset: Duration| slots.start() + offset;
        (self.opens, self.closes) =
            span.map_or((now, now), |span| (at(span.from), at(span.until).min(slots.end())));
        self.busy_until = self.opens.max(now);
        self.on_air_until = self.busy_until;
        self.is_stamped = false;
    }

    fn span(&self, now: Instant, slots: &mut Slots, settings: &Settings) -> Option<Span> {
        let whole = Span { from: settings.guard, until: slots.own() };
        if !slots.is_in_step(now) {
            return Some(whole);
        }
        let holds = |turn: &(Span, Instant)| (now < turn.1).then_some(turn.0);
        match self.turns.turn {
            Turn::Whole | Turn::Grants => Some(whole),
            Turn::Part { index, count } => {
                let part = settings.slot / u64::from(count);
                let from = part * u64::from(index);
                Some(Span { from: from + settings.guard, until: from + part })
            }
            Turn::Granted => match self.turns.own.as_ref().and_then(holds) {
                Some(span) => Some(span),
                // Of two newcomers one should be heard sooner or later.
                None => self.turns.open.as_ref().and_then(holds).filter(|_| slots.draws(2)),
            },
        }
    }

    /// The longest time that this radio may ever have to send in one slot.
    pub(super) fn longest(&self, settings: &Settings) -> Duration {
        let parts = if let Turn::Part { count, .. } = self.turns.turn { count } else { 1 };
        (settings.slot / u64::from(parts)).saturating_sub(settings.guard)
    }
}

impl Wild {
    /// Sets when each radio may send; without it all may all the time.
    ///
    /// Panics if there are not as many turns as radios.
    pub fn set_turns(&mut self, turns: &[Turn]) {
        let ports = || self.groups.iter().flat_map(|group| &group.ports);
        assert_eq!(ports().count(), turns.len(), "a turn for each radio");
        for group in &mut self.groups {
            for port in &mut group.ports {
                port.turns.turn = turns[usize::from(port.spec.id.0)];
            }
        }
    }

    /// Takes the turns that the only neighbour of a radio gives out, in whose slot of `length` they
    /// came.
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
        // The slot that these turns are of begins within a slot, and each cycle takes two.
        let until = now + slot * 2 * u64::from(turns.cycles);
        let ours = (slot * 2).saturating_sub(length).as_nanos();
        let part = |fraction: u16| Duration::from_nanos((ours * u64::from(fraction)) >> 16);
        let find = |node: u16| {
            let turn = turns.turns.iter().find(|turn| turn.node == node)?;
            let (from, length) = (part(turn.from), part(turn.length));
            Some((Span { from, until: from + length }, until))
        };
        port.turns.own = find(own);
        port.turns.open = find(Turns::OPEN);
    }

    /// Gives out turns anew, if the last ones are over. To be called at the start of a slot, before
    /// its length is asked for.
    pub(super) fn give_turns(&mut self, place: (usize, usize)) {
        if self.port(place).turns.turn != Turn::Grants {
            return;
        }
        let given = &mut self.port_mut(place).turns.given;
        given.cycles = given.cycles.saturating_sub(1);
        if given.cycles > 0 {
            return;
        }
        let needs = self.needs(place);
        let split = self.split(place, &needs);
        let turns = self.turns(place, needs, self.settings.slot * 2 - split);
        let port = &mut self.port_mut(place).turns;
        port.rounds = port.rounds.wrapping_add(1);
        port.split = Some(split);
        port.given = Turns { cycles: CYCLES, turns };
    }

    /// The turns that hold, for a beacon; empty where none are given.
    pub(super) fn given_turns(&self, place: (usize, usize)) -> Vec<u8> {
        let turns = &self.port(place).turns;
        let mut out = Vec::new();
        if turns.turn == Turn::Grants {
            turns.given.put(&mut out);
        }
        out
    }

    fn needs(&self, place: (usize, usize)) -> Needs<'_> {
        let port = self.port(place);
        let rounds = port.turns.rounds as usize;
        let (here, away): (Vec<&Peer>, Vec<&Peer>) =
            port.peers.iter().map(|index| &self.peers[*index]).partition(|peer| peer.is_up);
        let mut here = here;
        // Whoever comes first has the best of what is left over: each in its turn.
        here.sort_by_key(|peer| peer.spec.node);
        let first = rounds % here.len().max(1);
        here.rotate_left(first);
        here.truncate(Turns::MOST - 1);
        let lags = || here.iter().map(|peer| peer.lag.unwrap_or(0));
        let (near, far) = (lags().min().unwrap_or(0), lags().max().unwrap_or(0));
        let air = |bytes| port.spec.unacknowledged(HEADER_BYTES + bytes) + self.settings.overhead;
        let is_open =
            !away.is_empty() && (here.is_empty() || port.turns.rounds.is_multiple_of(OPEN_OF));
        let unit = self.settings.slot / u64::from(FULL_LENGTH);
        Needs {
            skew: Duration::from_nanos(far.abs_diff(near)),
            open: is_open.then(|| air(NEWCOMER_BYTES) + NEWCOMER_SKEW),
            least: air(ACK_BYTES) * 2 + GAP,
            wanted: here.iter().map(|peer| unit * u64::from(peer.demand)).collect(),
            here,
        }
    }

    /// How long the slots of the middle of a star are to be: each side has as much of a cycle as it
    /// can fill, and half of it where both can fill more.
    fn split(&self, place: (usize, usize), needs: &Needs<'_>) -> Duration {
        let Settings { slot, least, most, guard, .. } = self.settings;
        if least == most || self.sole_turn(place.0).is_none() {
            return slot;
        }
        let port = self.port(place);
        let units = |index: &usize| u64::from(self.demand(&self.peers[*index]));
        let unit = slot / u64::from(FULL_LENGTH);
        let ours = guard + unit * port.peers.iter().map(units).sum::<u64>();
        let bare = needs.fixed(&self.settings) + needs.least * needs.here.len() as u64;
        let theirs = needs.wanted.iter().fold(bare, |sum, wanted| sum + *wanted);
        let cycle = slot * 2;
        let split = if ours > slot {
            ours.min(cycle - theirs.min(slot))
        } else if theirs > slot {
            ours.max(cycle.saturating_sub(theirs))
        } else {
            slot
        };
        let shortest = |least: Duration| least.max(cycle.saturating_sub(most)).min(slot);
        let split = split.clamp(shortest(least), cycle - shortest(least.max(bare)));
        unit * split.div_duration(unit)
    }

    fn turns(&self, place: (usize, usize), needs: Needs<'_>, slot: Duration) -> Vec<TurnEntry> {
        let Needs { here, open, least, wanted, .. } = &needs;
        let port = self.port(place);
        let frame = port.spec.unacknowledged(HEADER_BYTES + super::FULL_PACKET_BYTES);
        let left = slot.saturating_sub(needs.fixed(&self.settings));
        let shares = share(left, *least, frame + self.settings.overhead + GAP, wanted);
        let far = here.iter().map(|peer| peer.lag.unwrap_or(0)).max().unwrap_or(0);
        let mut entries = Vec::with_capacity(here.len() + 1);
        let mut from = self.settings.guard;
        let fraction = |time: Duration| {
            u16::try_from((time.as_nanos() << 16) / slot.as_nanos()).unwrap_or(u16::MAX)
        };
        for (peer, share) in here.iter().zip(shares) {
            let later = Duration::from_nanos(far.abs_diff(peer.lag.unwrap_or(far)));
            let length = share.saturating_sub(GAP);
            let node = peer.spec.node.0;
            entries.push(TurnEntry {
                node,
                from: fraction(from + later),
                length: fraction(length),
            });
            from += share;
        }
        if let Some(open) = open {
            // Where a newcomer is, nobody knows: it may come late by its way there and back.
            let length = fraction(open.saturating_sub(NEWCOMER_SKEW));
            entries.push(TurnEntry { node: Turns::OPEN, from: fraction(from), length });
        }
        entries
    }

    /// How long the send slot that begins is to be: as long as what waits takes, up to what the
    /// neighbours leave of a cycle; always as long as it is configured, if there is enough. In a
    /// star it is what its middle says.
    pub(super) fn own_length(&self, group: usize) -> Duration {
        let Settings { slot, least, most, guard, .. } = self.settings;
        let ports = &self.groups[group].ports;
        match self.sole_turn(group) {
            Some(Turn::Grants) => return ports[0].turns.split.unwrap_or(slot),
            Some(Turn::Granted) => {
                return (slot * 2).saturating_sub(self.groups[group].slots.theirs());
            }
            Some(Turn::Whole | Turn::Part { .. }) | None => {}
        }
        if least == most || ports.iter().any(|port| port.turns.turn != Turn::Whole) {
            return slot;
        }
        let unit = slot / u64::from(FULL_LENGTH);
        let units = |port: &Port| -> u64 {
            port.peers.iter().map(|index| u64::from(self.demand(&self.peers[*index]))).sum()
        };
        let wanted = guard + unit * ports.iter().map(units).max().unwrap_or(0);
        let left = (slot * 2).saturating_sub(self.groups[group].slots.theirs());
        let length = wanted.min(left.min(most).max(slot)).max(least);
        let full = u64::from(FULL_LENGTH);
        slot * (length * full).as_nanos().div_ceil(slot.as_nanos()) / full
    }

    /// Sets the lengths of the send slot that begins, and of the one that follows it where they are
    /// this node's to say.
    pub(super) fn set_lengths(&mut self, group: usize) {
        let (own, sole) = (self.own_length(group), self.sole_turn(group));
        let slots = &mut self.groups[group].slots;
        slots.set_own(own);
        if sole == Some(Turn::Grants) {
            slots.set_theirs(self.settings.slot * 2 - own);
        }
    }

    /// The turn of the only radio of a channel: the lengths of slots that several radios share
    /// are not for one of them to say.
    fn sole_turn(&self, group: usize) -> Option<Turn> {
        match &self.groups[group].ports[..] {
            [port] => Some(port.turns.turn),
            _ => None,
        }
    }

    /// The slot of the middle of a star has another length: so has that of this node, which has not
    /// begun.
    pub(super) fn follow_length(&mut self, group: usize) {
        let is_granted = self.sole_turn(group) == Some(Turn::Granted);
        if is_granted && self.groups[group].slots.phase() == Phase::Receive {
            let own = self.own_length(group);
            self.groups[group].slots.set_own(own);
        }
    }

    /// A length as a header tells it.
    pub(super) fn length_of(&self, header: &Header) -> Duration {
        self.settings.slot * u64::from(header.length) / u64::from(FULL_LENGTH)
    }

    /// Length of the current send slot, for a header.
    pub(super) fn length_units(&self, group: usize) -> u8 {
        let slot = self.settings.slot.as_nanos();
        let own = self.groups[group].slots.own() * u64::from(FULL_LENGTH);
        let units = (own.as_nanos() + slot / 2) / slot;
        u8::try_from(units).expect("a slot of less than four times its length")
    }

    /// What could be sent to a neighbour, in the unit of the header.
    pub(super) fn demand(&self, peer: &Peer) -> u8 {
        let port = self.port(peer.place);
        let bytes = peer.queue.front().map_or(super::FULL_PACKET_BYTES, |p| p.payload.len());
        let frames = (peer.queue.len() + peer.sender.lost()) as u64;
        let air = port.spec.unacknowledged(HEADER_BYTES + bytes) + self.settings.overhead;
        let unit = self.settings.slot / u64::from(FULL_LENGTH);
        let units = (air * frames).as_nanos().div_ceil(unit.as_nanos().max(1));
        u8::try_from(units).unwrap_or(u8::MAX)
    }

    /// What a frame says of that: a beacon, of all neighbours of its radio together. A station
    /// whose packets are too long for its turn has nothing else to ask for a longer one with.
    pub(super) fn demand_told(&self, place: (usize, usize), peer: Option<usize>) -> u8 {
        let of = |index: &usize| self.demand(&self.peers[*index]);
        match peer {
            Some(index) => of(&index),
            None => self.port(place).peers.iter().map(of).fold(0, u8::saturating_add),
        }
    }

    /// The neighbour of a radio that is its node's only one there is in step again: how much later
    /// than the middle's own slot ended its slot began.
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

/// Splits a time among those who want something of it: `least` for each, at most what it wants
/// beside, in equal parts, or in parts of `frame` to the first ones; what nobody wants goes to all.
fn share(left: Duration, least: Duration, frame: Duration, wanted: &[Duration]) -> Vec<Duration> {
    let all = wanted.len() as u64;
    if all == 0 {
        return Vec::new();
    }
    let least = least.min(left / all);
    let mut left = left.saturating_sub(least * all);
    let mut shares = vec![least; wanted.len()];
    let mut open: Vec<usize> = (0..wanted.len()).filter(|at| !wanted[*at].is_zero()).collect();
    if left < frame * open.len() as u64 {
        open.truncate(left.div_duration(frame) as usize);
    }
    while !open.is_empty() {
        let part = left / open.len() as u64;
        let before = open.len();
        open.retain(|at| {
            let is_content = wanted[*at] <= part;
            if is_content {
                shares[*at] += wanted[*at];
                left = left.saturating_sub(wanted[*at]);
            }
            !is_content
        });
        if open.len() == before {
            open.iter().for_each(|at| shares[*at] += part);
            left = left.saturating_sub(part * before as u64);
            break;
        }
    }
    shares.iter_mut().for_each(|share| *share += left / all);
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn whoever_wants_little_gets_it_and_the_others_share_the_rest() {
        let shares = share(ms(18), ms(1), ms(2), &[ms(1), ms(60), ms(60)]);
        assert_eq!(shares, [ms(2), ms(8), ms(8)]);
    }

    #[test]
    fn what_nobody_wants_is_for_all() {
        let micros = Duration::from_micros;
        let shares = share(ms(18), ms(1), ms(2), &[ms(0), ms(3)]);
        assert_eq!(shares, [micros(7_500), micros(10_500)]);
    }

    #[test]
    fn where_not_all_can_send_a_packet_the_first_ones_do() {
        let shares = share(ms(9), ms(1), ms(2), &[ms(9); 5]);
        assert_eq!(shares, [ms(3), ms(3), ms(1), ms(1), ms(1)]);
    }
}
