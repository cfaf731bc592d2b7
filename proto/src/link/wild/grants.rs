//! The turns that the middle of a star assigns to its stations.
//!
//! A far station hears the middle later than a near one and is heard later, so its slot seems to
//! begin later by the round-trip propagation delay. The turns of near stations are shifted by the
//! difference.
//!
//! At least half of a slot is kept for packets, and three quarters where frames are aggregated. If
//! the rest has no room for a shortest turn for each station, the stations are served in rounds;
//! those with nothing waiting then have a turn about a quarter as often. Missing stations are
//! invited by name, so that two that arrive at the same time do not collide: many at once while
//! nobody is here or while they have been missing only for a short time; one at a time, and in air
//! time that nobody wants, once they seem to stay away.
//!
//! Where slot lengths may vary, the middle also divides each cycle between its own slot and that of
//! the stations, according to what waits on either side. The length of a cycle stays the same: the
//! stations derive the length of their slot from that of the middle's slot, which every frame
//! tells.

use std::cmp::Reverse;

use super::beacon::BEACON_BYTES;
use super::peer::Peer;
use super::port::{Port, Toward, alone};
use super::shares::{Claim, share};
use super::turns::Turn;
use super::{Settings, Wild, ack_bytes};
use crate::base::{Duration, Instant, RadioSpec};
use crate::wire::wild::{FULL_LENGTH, HEADER_BYTES, TurnEntry, Turns};

/// Cycles for which turns are assigned at once, if each round serves all stations.
const CYCLES: u64 = 4;
/// One round in this many has a turn for a missing station, whatever the others want.
const GUESTS_OF: u32 = 2;
/// A station that was invited less often than this since it is missing may just be arriving.
const COMING: u32 = 8;
/// Together those are invited within one of this many parts of a slot; all others one at a time.
const COMING_OF: u64 = 4;
/// A station with packets waiting is served as if it had waited this many times as long.
const BUSY_WEIGHT: u32 = 4;
/// Up to one turn in this many is for stations whose packets have a higher priority: these have a
/// turn in each round, or in one round of this many if a round has one turn only.
const HURRIED_OF: usize = 2;
/// The shortest turns of all stations may take one of this many parts of a slot, or one of
/// `LEAST_TURNS_OF_MANY` where frames are aggregated. The rest is for packets.
const LEAST_TURNS_OF: u64 = 2;
const LEAST_TURNS_OF_MANY: u64 = 4;
/// Where frames are aggregated, about this many stations at most have turns for packets in a slot:
/// each of them costs a frame that goes by itself, and time after its last transmission.
const AT_ONCE: u64 = 6;
/// Gap between two turns, for frames that take longer than planned.
const GAP: Duration = Duration::from_micros(60);
/// By how much an invitation lets the round-trip delay of a newcomer differ from those of the
/// others (90 km). One invitation in `FAR_OF` permits `FAR_SKEW` (300 km), or a quarter of a slot
/// if that is less.
const NEWCOMER_SKEW: Duration = Duration::from_micros(600);
const FAR_OF: u32 = 4;
const FAR_SKEW: Duration = Duration::from_millis(2);
/// Payload of the frame by which a newcomer makes itself known, in bytes.
const NEWCOMER_BYTES: usize = 200;
/// How late the newcomer's host may be with that frame: 99 of 100 wake-ups are earlier on a machine
/// that does little else. A turn for one frame has no other reserve for it.
const NEWCOMER_LATE: Duration = Duration::from_micros(250);
/// Payload of an acknowledgement, unless the window is wide, in bytes.
const ACK_BYTES: usize = 40;

/// The turns that the middle of a star assigned last.
#[derive(Debug, Default)]
pub(super) struct Grants {
    given: Turns,
    /// The neighbours that have turns, as indices.
    holders: Vec<usize>,
    /// Length of this node's own slots while these turns are valid.
    pub(super) split: Option<Duration>,
    rounds: u32,
    /// The number of cycles for which they were assigned.
    held: u8,
}

/// What the middle of a star knows about the turns of one neighbour.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Served {
    /// Round of its last turn.
    pub(super) round: u32,
    /// Round of its last turn with room for a packet, counting rounds in which it wanted one.
    fed: u32,
    /// Turns that it has had since it was last heard.
    pub(super) unheard: u8,
    /// How many times it was invited since it is missing.
    pub(super) asked: u32,
    /// Frames with packets that arrived from it since turns were last assigned, and their air time.
    frames: u64,
    used: Duration,
}

impl Served {
    /// A frame with a packet arrived from the neighbour, which took `air`.
    pub(super) fn on_packet(&mut self, air: Duration) {
        self.frames += 1;
        self.used += air;
    }
}

/// What the neighbours of the middle of a star need in a cycle.
struct Needs {
    /// The neighbours that get turns, in the order of their turns.
    here: Vec<usize>,
    /// The number of neighbours that are here, with or without a turn.
    all: usize,
    /// The missing neighbours; the one that was invited longest ago is the first.
    away: Vec<usize>,
    /// How many of them are invited, whatever the others want.
    guests: usize,
    /// The number of rounds in which all are served once.
    rounds: u64,
    /// `latest` tells how much later than this node's slot ends the slot of the farthest neighbour
    /// begins, in nanoseconds; `far` is the same, at least 0. For the nearest neighbour it is less
    /// by `skew`.
    latest: i64,
    far: Duration,
    skew: Duration,
    /// What each of `here` must have and could use of the slot.
    claims: Vec<Claim>,
    /// The time that each of `away` needs to make itself known.
    invitations: Vec<Duration>,
}

impl Needs {
    /// The part of a slot that is not for the neighbours that are here.
    fn fixed(&self, settings: &Settings, guests: usize) -> Duration {
        // The distance of guests is unknown: the first may be nearer than all others.
        let far = if guests > 0 { self.far } else { Duration::ZERO };
        settings.guard + self.skew + far + self.invitations[..guests].iter().copied().sum()
    }

    /// The total that the neighbours that are here could use.
    fn asked(&self) -> Duration {
        self.claims.iter().map(|claim| claim.wanted.max(claim.least)).sum()
    }

    /// How many of the missing neighbours are invited within `slot`.
    fn guests(&self, settings: &Settings, slot: Duration) -> usize {
        let spare = slot.saturating_sub(self.fixed(settings, 0) + self.far + self.asked());
        let spare = if self.here.is_empty() { spare } else { spare / 2 };
        let fit = in_line(&self.invitations, spare);
        let most = self.away.len().min(Turns::MOST - self.here.len());
        let is_few = self.guests == 0 && self.away.len() <= self.all;
        if is_few { 0 } else { fit.max(self.guests).min(most) }
    }
}

/// How many of these invitations fit into `time`, one after the other.
fn in_line(invitations: &[Duration], time: Duration) -> usize {
    let taken = invitations.iter().scan(Duration::ZERO, |taken, invitation| {
        *taken += *invitation;
        Some(*taken)
    });
    taken.take_while(|taken| *taken <= time).count()
}

impl Peer {
    /// How much of a turn the neighbour could fill. This is the demand that it announces, in units
    /// of `unit`, with its acknowledgements `beside`; or one and a half times the air time that it
    /// used in each of the last `cycles` cycles, because traffic varies. A neighbour that sends
    /// little in each cycle has nothing waiting at the end of a turn, but still needs the next
    /// turn.
    fn wanted(&self, unit: Duration, beside: Duration, cycles: u64) -> Duration {
        let is_steady = self.served.frames >= cycles;
        let used = if is_steady { self.served.used * 3 / (2 * cycles) } else { Duration::ZERO };
        match (unit * u64::from(self.demand)).max(used) {
            Duration::ZERO => Duration::ZERO,
            packets => packets + beside,
        }
    }
}

/// The turn for a packet that the middle of a star gives to a radio: it holds a full packet and the
/// acknowledgement of a window of `window` packets.
pub(super) fn packet_turn(spec: &RadioSpec, settings: &Settings, window: usize) -> Duration {
    let bytes = super::FULL_PACKET_BYTES + ACK_BYTES.max(ack_bytes(window));
    alone(spec, HEADER_BYTES + bytes) + settings.overhead
}

/// The time that a turn needs besides the shares of its packets: acknowledgements ride where there
/// are packets; and where frames are aggregated, the first frame of a turn goes by itself. `packet`
/// is a turn for one packet.
fn beside_packets(spec: &RadioSpec, overhead: Duration, packet: Duration) -> Duration {
    let full = spec.share(HEADER_BYTES + super::FULL_PACKET_BYTES) + overhead;
    let first = match spec.aggregates() {
        true => spec.unacknowledged(HEADER_BYTES) + overhead,
        false => Duration::ZERO,
    };
    packet.saturating_sub(full) + first
}

impl Port {
    /// Longest air time of the beacon with which the middle of a star opens its slot.
    pub(super) fn opening(&self, settings: &Settings) -> Duration {
        let bytes = BEACON_BYTES + Turns::bytes(self.peers.len().min(Turns::MOST));
        self.to(Toward::All).unacknowledged(HEADER_BYTES + bytes) + settings.overhead
    }
}

impl Wild {
    /// Assigns new turns if the last ones have expired. To be called at the start of a slot, before
    /// its length is determined.
    pub(super) fn give_turns(&mut self, now: Instant, place: (usize, usize)) {
        if !self.port(place).turns.turn.is_middle() {
            return;
        }
        let given = &mut self.port_mut(place).turns.grants.given;
        given.cycles = given.cycles.saturating_sub(1);
        if given.cycles == 0 {
            self.give_new_turns(now, place);
        }
        for at in 0..self.port(place).turns.grants.holders.len() {
            let index = self.port(place).turns.grants.holders[at];
            let served = &mut self.peers[index].served;
            served.unheard = served.unheard.saturating_add(1);
        }
    }

    fn give_new_turns(&mut self, now: Instant, place: (usize, usize)) {
        let needs = self.needs(place);
        let split = self.split(now, place, &needs);
        let slot = self.settings.slot * 2 - split;
        let guests = needs.guests(&self.settings, slot);
        let left = slot.saturating_sub(needs.fixed(&self.settings, guests));
        let shares = share(left, &needs.claims, self.port(place).turns.grants.rounds);
        let turns = self.turns(&needs, guests, &shares, slot);
        let cycles = (CYCLES / needs.rounds).max(1);
        let grants = &mut self.port_mut(place).turns.grants;
        grants.rounds = grants.rounds.wrapping_add(1);
        let round = grants.rounds;
        grants.split = Some(split);
        grants.given = Turns { cycles: cycles as u8, turns };
        grants.held = cycles as u8;
        grants.holders = [&needs.here, &needs.away[..guests]].concat();
        for index in &needs.away[..guests] {
            let served = &mut self.peers[*index].served;
            (served.round, served.asked) = (round, served.asked.wrapping_add(1));
        }
        for (place, index) in needs.here.iter().enumerate() {
            let Claim { paying, wanted, .. } = needs.claims[place];
            let peer = &mut self.peers[*index];
            let waited = u64::from(round.wrapping_sub(peer.served.round));
            let waited = waited.min(needs.rounds * u64::from(BUSY_WEIGHT));
            let apart = if needs.rounds > 1 { waited.max(needs.rounds) * cycles } else { 1 };
            peer.sender.set_cycle(self.settings.slot * 2 * apart);
            peer.served.round = round;
            (peer.served.frames, peer.served.used) = (0, Duration::ZERO);
            if !wanted.is_zero() && shares[place] >= wanted.min(paying) {
                peer.served.fed = round;
            }
        }
    }

    /// The turns that are valid now, encoded for a beacon; empty if this node assigns none.
    pub(super) fn given_turns(&self, place: (usize, usize)) -> Vec<u8> {
        let turns = &self.port(place).turns;
        let mut out = Vec::new();
        if turns.turn.is_middle() {
            turns.grants.given.put(&mut out);
        }
        out
    }

    /// Whether a neighbour has not been heard for `cycles` cycles although it had turns in them.
    pub(super) fn is_silent(&self, now: Instant, peer: &Peer, cycles: u64) -> bool {
        let patience = self.settings.slot * 2 * cycles;
        // The last of its turns may still lie ahead.
        let had_turns = u64::from(peer.served.unheard) > cycles;
        let was_asked = had_turns || !self.port(peer.place).turns.turn.is_middle();
        was_asked && peer.heard.is_none_or(|heard| now.since(heard) > patience)
    }

    fn needs(&self, place: (usize, usize)) -> Needs {
        let Settings { slot, guard, .. } = self.settings;
        let port = self.port(place);
        let round = port.turns.grants.rounds.wrapping_add(1);
        let peer = |index: &usize| &self.peers[*index];
        let (mut here, away) = self.by_waiting(port, round);
        // Lags may be negative: a node may count a gap in its stamp for which the first frame of a
        // slot does not wait, so that its slot seems to begin earlier by that gap.
        let lags = here.iter().map(|index| peer(index).lag.unwrap_or(0));
        let (near, far) = (lags.clone().min().unwrap_or(0), lags.max().unwrap_or(0));
        let skew = Duration::from_nanos(far.abs_diff(near));
        let radio = |index: &usize| self.radio_of(peer(index));
        let least_of = |index: &usize| self.least_turn(*index);
        let window = port.peers.iter().map(|index| peer(index).sender.limit()).max();
        let window = window.unwrap_or(0);
        let packet_of = |index: &usize| packet_turn(&radio(index), &self.settings, window) + GAP;
        let room = slot.saturating_sub(guard + skew);
        let invitation = |index: &usize| self.invitation(*index) + self.newcomer_skew(*index);
        let invitations: Vec<Duration> = away.iter().map(invitation).collect();
        let latest = far;
        let far = Duration::from_nanos(far.max(0).unsigned_abs());
        let is_due = here.is_empty() || round.is_multiple_of(GUESTS_OF);
        let is_coming = |index: &&usize| peer(index).served.asked < COMING;
        let coming = away.iter().filter(is_coming).count();
        let coming = coming.min(in_line(&invitations, slot / COMING_OF)).max(1).min(away.len());
        let invited: Duration = invitations[..coming].iter().copied().sum();
        let for_guests = if away.is_empty() { Duration::ZERO } else { invited + far };
        let longest = |of: &dyn Fn(&usize) -> Duration| here.iter().map(of).max();
        let least = longest(&least_of).unwrap_or(GAP);
        let packet = longest(&packet_of).unwrap_or(least);
        let beside_packet = room.saturating_sub(packet.saturating_sub(least) + for_guests);
        let is_many = here.iter().any(|index| radio(index).aggregates());
        let part = if is_many { LEAST_TURNS_OF_MANY } else { LEAST_TURNS_OF };
        let most = (room / part).min(beside_packet).div_duration(least).max(1);
        let rounds = (here.len() as u64).div_ceil(most).max(1);
        let all = here.len();
        self.take_places(&mut here, (most as usize).min(Turns::MOST - 1), round);
        let claim = |index: &usize| self.claim(*index, room, window);
        Needs {
            guests: if is_due { coming } else { 0 },
            rounds,
            latest,
            far,
            skew,
            claims: here.iter().map(claim).collect(),
            invitations,
            here,
            all,
            away,
        }
    }

    /// What a neighbour could use of a slot with `room` for turns. `window` is the widest window of
    /// all neighbours, in packets.
    fn claim(&self, index: usize, room: Duration, window: usize) -> Claim {
        let Settings { slot, overhead, frame_bytes, .. } = self.settings;
        let peer = &self.peers[index];
        let radio = self.radio_of(peer);
        let packet = packet_turn(&radio, &self.settings, window);
        let (first, is_many) = (packet + GAP, radio.aggregates());
        let held = self.port(peer.place).turns.grants.held.max(1);
        let unit = slot / u64::from(FULL_LENGTH);
        let beside = beside_packets(&radio, overhead, first);
        Claim {
            least: self.least_turn(index),
            paying: if is_many { first.max(room / AT_ONCE) } else { first },
            packet: if is_many || frame_bytes.is_some() { Duration::ZERO } else { packet },
            wanted: peer.wanted(unit, beside, held.into()),
        }
    }

    /// The neighbours that are here, and the missing ones; those that have waited longest come
    /// first.
    pub(super) fn by_waiting(&self, port: &Port, round: u32) -> (Vec<usize>, Vec<usize>) {
        let peer = |index: &usize| &self.peers[*index];
        let waited = |index: &usize| {
            let it = peer(index);
            let is_busy = it.demand > 0 || it.queue.len() > 0 || it.sender.unfinished() > 0;
            let waited = round.wrapping_sub(it.served.round);
            waited.saturating_mul(if is_busy { BUSY_WEIGHT } else { 1 })
        };
        let (mut here, mut away): (Vec<usize>, Vec<usize>) =
            port.peers.iter().partition(|index| peer(index).is_up);
        here.sort_by_key(|index| (Reverse(waited(index)), self.turned(*index, round)));
        away.sort_by_key(|index| (peer(index).served.round, self.turned(*index, round)));
        (here, away)
    }

    /// Keeps as many of the neighbours that are here as there are places, the longest waiting
    /// first.
    pub(super) fn take_places(&self, here: &mut Vec<usize>, places: usize, round: u32) {
        let peer = |index: &usize| &self.peers[*index];
        let hurries = here.iter().copied().filter(|index| peer(index).hurries);
        let most = match places {
            1 => usize::from(round.is_multiple_of(HURRIED_OF as u32)),
            _ => places / HURRIED_OF,
        };
        let hurried: Vec<usize> = hurries.take(most).collect();
        let is_hurried = |index: &usize| hurried.contains(index);
        here.sort_by_key(|index| !is_hurried(index));
        here.truncate(places);
        // If not all can have a packet, the one whose last packet was longest ago comes first.
        here.sort_by_key(|index| {
            (!is_hurried(index), peer(index).served.fed, self.turned(*index, round))
        });
    }

    /// Order among neighbours that have waited equally long: a different one is first each time.
    fn turned(&self, index: usize, round: u32) -> usize {
        (index + round as usize) % self.peers.len()
    }

    /// The shortest turn that a neighbour may have.
    fn least_turn(&self, index: usize) -> Duration {
        let (spec, bytes) = (self.radio_of(&self.peers[index]), HEADER_BYTES + ACK_BYTES);
        (spec.unacknowledged(bytes) + self.settings.overhead) * 2 + GAP
    }

    /// The time that a missing neighbour needs to make itself known.
    fn invitation(&self, index: usize) -> Duration {
        let spec = self.radio_of(&self.peers[index]);
        let frame = spec.unacknowledged(HEADER_BYTES + NEWCOMER_BYTES);
        frame + self.settings.overhead + NEWCOMER_LATE
    }

    /// By how much the round-trip delay of a missing neighbour may differ in its next turn.
    fn newcomer_skew(&self, index: usize) -> Duration {
        match self.peers[index].served.asked.wrapping_add(1).is_multiple_of(FAR_OF) {
            true => FAR_SKEW.min(self.settings.slot / 4).max(NEWCOMER_SKEW),
            false => NEWCOMER_SKEW,
        }
    }

    /// Length of the middle's own slots. Each side has as much of a cycle as it can fill, or half
    /// of it if both could fill more.
    fn split(&self, now: Instant, place: (usize, usize), needs: &Needs) -> Duration {
        let Settings { slot, least, most, .. } = self.settings;
        let is_free = self.sole_turn(place.0) == Some(Turn::Grants { splits: true });
        if least == most || !is_free || !self.groups[place.0].slots.is_in_step(now) {
            return slot;
        }
        let port = self.port(place);
        let units = |index: &usize| u64::from(self.demand_of(*index));
        let unit = slot / u64::from(FULL_LENGTH);
        let opening = self.spent(now, place.0) + port.opening(&self.settings);
        let opening = opening.as_nanos().div_ceil(unit.as_nanos());
        let ours = unit * (opening + port.peers.iter().map(units).sum::<u64>());
        let fixed = needs.fixed(&self.settings, needs.guests);
        let bare = fixed + needs.claims.iter().map(|claim| claim.least).sum();
        let theirs = fixed + needs.asked();
        let cycle = slot * 2;
        let split = if ours > slot {
            ours.min(cycle - theirs.min(slot))
        } else if theirs > slot {
            ours.max(cycle.saturating_sub(theirs))
        } else {
            slot
        };
        let shortest = |least: Duration| {
            let least = least.max(cycle.saturating_sub(most)).min(slot);
            // A slot need not be a whole number of units.
            (unit * least.as_nanos().div_ceil(unit.as_nanos())).min(slot)
        };
        let split = unit * split.div_duration(unit);
        split.clamp(shortest(least), cycle - shortest(least.max(bare)))
    }

    /// The turns within `slot`: those of the neighbours that are here, with their `shares`, then
    /// those of `guests` invited neighbours.
    fn turns(
        &self,
        needs: &Needs,
        guests: usize,
        shares: &[Duration],
        slot: Duration,
    ) -> Vec<TurnEntry> {
        let mut entries = Vec::with_capacity(needs.here.len() + guests);
        let mut from = self.settings.guard;
        let fraction = |time: Duration| {
            u16::try_from((time.as_nanos() << 16).div_ceil(slot.as_nanos())).unwrap_or(u16::MAX)
        };
        let mut add = |index: &usize, from: Duration, length: Duration| {
            let node = self.peers[*index].spec.node.0;
            entries.push(TurnEntry { node, from: fraction(from), length: fraction(length) });
        };
        for (index, share) in needs.here.iter().zip(shares) {
            // A neighbour whose distance is unknown yet counts as the nearest one: its turn then
            // starts after everybody's end, and the stamp in it tells the distance.
            let nearest = needs.latest - needs.skew.as_nanos() as i64;
            let lag = self.peers[*index].lag.unwrap_or(nearest);
            let sooner = Duration::from_nanos(needs.latest.abs_diff(lag));
            add(index, from + sooner, share.saturating_sub(GAP));
            from += *share;
        }
        // Frames of guests may arrive this much later.
        from += needs.far;
        for (index, invitation) in needs.away[..guests].iter().zip(&needs.invitations) {
            // The distance of a guest is unknown: it may be late by its round-trip delay.
            add(index, from, invitation.saturating_sub(self.newcomer_skew(*index)));
            from += *invitation;
        }
        entries
    }
}
