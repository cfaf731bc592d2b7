//! One radio: the plan of what it still has to send, and when that will be complete.

use std::collections::BTreeMap;

use super::Settings;
use super::class::Precedence;
use super::clock::RadioClock;
use super::fair::Line;
use super::turns::PortTurns;
use crate::base::phy::AmpduSize;
use crate::base::{
    AccessCategory, AckPolicy, Bitrate, Duration, Instant, Phy, RadioSpec, TxOptions,
};

/// Where frames are filled with parts, the radio is given this much air time ahead: a frame on air
/// and one that waits. With a whole slot ahead, packets that arrive during the slot would find no
/// room in it.
const AHEAD: Duration = Duration::from_millis(3);

/// The addressee of a frame, and how the frame is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Toward {
    /// All neighbours.
    All,
    /// One neighbour, by its index; the frame goes by itself.
    Alone(usize),
    /// One neighbour; the frame may be aggregated with others.
    Many(usize),
}

impl Toward {
    /// For a frame to a neighbour or to all, with or without packets.
    pub(super) fn of(peer: Option<usize>, has_packets: bool) -> Self {
        match peer {
            None => Self::All,
            Some(peer) if has_packets => Self::Many(peer),
            Some(peer) => Self::Alone(peer),
        }
    }
}

/// One radio.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) spec: RadioSpec,
    /// How it sends to neighbours with another kind of radio or another rate, by their index, and
    /// the PHY with which these receive.
    toward: BTreeMap<usize, (RadioSpec, Phy)>,
    /// How it sends a frame that all neighbours are to receive.
    toward_all: RadioSpec,
    /// Planned time: when all frames given down so far will have been sent.
    pub(super) busy_until: Instant,
    /// The earliest time at which they could have been sent, without any gaps.
    pub(super) on_air_until: Instant,
    /// Air time planned for the frames that have not come back.
    pub(super) planned: Duration,
    /// When the radio may send within the slot of its node.
    pub(super) opens: Instant,
    pub(super) closes: Instant,
    pub(super) turns: PortTurns,
    pub(super) clock: RadioClock,
    /// Whether a frame of this slot has carried the stamp.
    pub(super) is_stamped: bool,
    /// Slots since its last beacon.
    pub(super) since_beacon: u16,
    /// Longest payload after LLC/SNAP that the device is believed to accept, in bytes.
    pub(super) longest: usize,
    /// Neighbours on this radio, as indices.
    pub(super) peers: Line,
    /// Whose turn it is among the priorities, over all neighbours together.
    pub(super) precedence: Precedence,
    /// The neighbour that last had a frame of a higher priority, outside the turns.
    pub(super) favoured: usize,
    /// The A-MPDU to which the next frame may be added, and the neighbour that it is for.
    open: Option<(usize, AmpduSize)>,
    /// The neighbour whose turn is not over: more frames for it may go in the same transmission.
    has_turn: Option<usize>,
    /// The last neighbour to which a frame has gone in this slot.
    served: Option<usize>,
    /// Whether packets waited when the slot began and none has been sent.
    pub(super) is_owed: bool,
}

impl Port {
    pub(super) fn build(spec: RadioSpec, settings: &Settings) -> Self {
        Self {
            spec,
            toward: BTreeMap::new(),
            toward_all: spec,
            busy_until: Instant::ZERO,
            on_air_until: Instant::ZERO,
            planned: Duration::ZERO,
            opens: Instant::ZERO,
            closes: Instant::ZERO,
            turns: PortTurns::default(),
            clock: RadioClock::default(),
            is_stamped: false,
            since_beacon: 0,
            longest: usize::MAX,
            peers: Line::default(),
            precedence: Precedence::new(settings.classes.levels(), settings.slot),
            favoured: 0,
            open: None,
            has_turn: None,
            served: None,
            is_owed: false,
        }
    }

    /// Sets how the radio sends to a neighbour (`spec`), and the PHY with which that neighbour
    /// receives (`theirs`). Frames for all neighbours are sent at the highest rate that all can
    /// decode and that does not exceed the rate to any of them.
    pub(super) fn set_toward(&mut self, peer: usize, spec: RadioSpec, theirs: Phy) {
        self.toward.insert(peer, (spec, theirs));
        let phy = &self.spec.phy;
        let slowest = self.toward.values().map(|(spec, _)| spec.rate).min();
        let most = slowest.map_or(self.spec.rate, |rate| rate.min(self.spec.rate));
        let is_known = |rate: &Bitrate| self.toward.values().all(|(_, it)| it.decodes(phy, *rate));
        let width = self.toward.values().map(|(_, it)| it.width).min().unwrap_or(phy.width);
        let older = phy.legacy_rates().iter().map(|rate| phy.narrowed(*rate, width));
        let known = phy.rates().iter().copied().chain(older).filter(is_known);
        let rate = known.clone().filter(|rate| *rate <= most).max().or(known.min());
        self.toward_all.rate = rate.unwrap_or(most);
    }

    /// How the radio sends to a neighbour or to all.
    pub(super) fn to(&self, toward: Toward) -> &RadioSpec {
        match toward {
            Toward::All => &self.toward_all,
            Toward::Alone(peer) | Toward::Many(peer) => {
                self.toward.get(&peer).map_or(&self.spec, |(spec, _)| spec)
            }
        }
    }

    /// Whether enough was given down for now. More is requested when some of it has been sent.
    pub(super) fn is_ahead(&self, now: Instant, settings: &Settings) -> bool {
        settings.frame_bytes.is_some()
            && self.planned > Duration::ZERO
            && self.busy_until.since(now) > AHEAD
    }

    /// Whether the next frame may be aggregated. The first frame of a slot goes by itself and only
    /// once: if the card repeated it, its stamp would be wrong.
    fn joins(&self, toward: Toward) -> bool {
        matches!(toward, Toward::Many(_)) && self.to(toward).aggregates() && self.is_stamped
    }

    /// The time by which the next frame must have been sent. Behind aggregated frames, time is kept
    /// for a request that tells the neighbour which of them will not be repeated: until then its
    /// card holds back the frames that follow those.
    fn deadline(&self, toward: Toward) -> Instant {
        let joins = self.joins(toward);
        let request = if joins { self.to(toward).block_ack_request() } else { Duration::ZERO };
        self.closes.saturating_sub(request)
    }

    /// The time by which the plan, including the next frame, must be complete. The answer to the
    /// last transmission may still be on its way when the slot ends: it arrives before the first
    /// frame of whoever sends next.
    pub(super) fn limit(&self, toward: Toward) -> Instant {
        let joins = self.joins(toward);
        let way = if joins { self.to(toward).there_and_back() } else { Duration::ZERO };
        self.deadline(toward) + way
    }

    /// Planned time after a further frame with `bytes` bytes of payload after LLC/SNAP.
    pub(super) fn after(
        &self,
        now: Instant,
        toward: Toward,
        bytes: usize,
        overhead: Duration,
    ) -> Instant {
        let open = self.joined(now, toward, bytes);
        self.busy_until.max(now) + self.added(open, toward, bytes) + overhead
    }

    /// What a frame adds to the planned air time; it is added to the open A-MPDU if there is one.
    fn added(&self, open: Option<AmpduSize>, toward: Toward, bytes: usize) -> Duration {
        let spec = self.to(toward);
        if !self.joins(toward) {
            return spec.unacknowledged(bytes);
        }
        let before = open.map_or(Duration::ZERO, |before| spec.aggregated(before));
        spec.aggregated(with(spec, open, bytes)).saturating_sub(before)
    }

    /// The A-MPDU to which a frame is added; none if it starts a new one.
    fn joined(&self, now: Instant, toward: Toward, bytes: usize) -> Option<AmpduSize> {
        let (to, size) = self.open.filter(|_| self.busy_until > now)?;
        (toward == Toward::Many(to) && self.to(toward).has_room(size, bytes)).then_some(size)
    }

    /// The neighbour that is asked for the next frame in the given place, and its turn. The
    /// neighbour whose turn is not over comes first, because the frames of one transmission go to
    /// one neighbour.
    pub(super) fn asked(&self, place: usize) -> Option<(usize, usize)> {
        let first = self.has_turn.and_then(|peer| self.peers.turn_of(peer));
        let turn = match first {
            Some(first) if place == 0 => first,
            Some(first) if place <= first => place - 1,
            _ => place,
        };
        Some((turn, self.peers.get(turn)?))
    }

    /// A frame of `bytes` bytes to the neighbour at `turn` was given down, for which `air` is
    /// planned. `first` is the first turn before it that has something to send. The first frame of
    /// a slot goes by itself, and the frames that are aggregated follow it.
    pub(super) fn on_turn(
        &mut self,
        now: Instant,
        (turn, first): (usize, usize),
        (bytes, air): (usize, Duration),
        was_stamped: bool,
    ) {
        let Some(peer) = self.peers.get(turn) else { return };
        if self.has_turn == Some(peer) {
            self.peers.charge(turn, air);
        } else {
            self.peers.serve(turn, air, first);
        }
        let opens = self.to(Toward::Many(peer)).aggregates() && !was_stamped;
        self.has_turn = (opens || self.goes_on(now, peer, bytes)).then_some(peer);
    }

    /// Ends the turn of a neighbour whose frames have all been sent.
    pub(super) fn pass_on(&mut self, now: Instant) {
        if self.busy_until <= now {
            (self.open, self.has_turn) = (None, None);
        }
    }

    /// A frame to `peer` has been sent. It took `more` air time than planned, because the card
    /// repeated it.
    pub(super) fn on_gone(&mut self, peer: usize, more: Duration) {
        self.served = Some(peer);
        if let Some(turn) = self.peers.turn_of(peer).filter(|_| !more.is_zero()) {
            self.peers.charge(turn, more);
        }
    }

    /// A frame to `peer`, with or without packets, was not sent before the end of its slot: `air`
    /// of its charge is returned.
    pub(super) fn on_late(&mut self, peer: usize, has_packets: bool, air: Duration) {
        self.peers.give_back(peer, air);
        self.is_owed |= has_packets && self.served != Some(peer);
    }

    /// A slot begins.
    pub(super) fn on_turns_begin(&mut self) {
        (self.open, self.has_turn, self.served) = (None, None, None);
    }

    /// Whether another frame of `bytes` bytes to `peer` would be added to the open A-MPDU.
    pub(super) fn goes_on(&self, now: Instant, peer: usize, bytes: usize) -> bool {
        self.joined(now, Toward::Many(peer), bytes).is_some()
    }

    /// A frame of `bytes` bytes is given down; returns the air time that is planned for it.
    pub(super) fn take(
        &mut self,
        now: Instant,
        toward: Toward,
        bytes: usize,
        overhead: Duration,
    ) -> Duration {
        let open = self.joined(now, toward, bytes);
        let air = self.added(open, toward, bytes);
        self.open = match toward {
            Toward::Many(peer) if self.joins(toward) => {
                Some((peer, with(self.to(toward), open, bytes)))
            }
            _ => None,
        };
        self.is_stamped = true;
        let planned = air + overhead;
        self.busy_until = self.busy_until.max(now) + planned;
        self.planned += planned;
        let gap = if open.is_none() { self.spec.mean_gap() } else { Duration::ZERO };
        self.on_air_until = self.on_air_until.max(now) + air.saturating_sub(gap);
        planned
    }

    /// How the radio sends a frame of this slot: not after the slot's end, and only once. The card
    /// repeats missing frames of an aggregate.
    pub(super) fn options(&self, toward: Toward) -> TxOptions {
        let joins = self.joins(toward);
        TxOptions {
            access: AccessCategory::BestEffort,
            ack: if joins { AckPolicy::Normal } else { AckPolicy::NoAck },
            rate: Some(self.to(toward).rate),
            attempts: (!joins).then_some(1),
            deadline: Some(self.deadline(toward)),
            ..TxOptions::default()
        }
    }

    /// When the preamble of the next frame, of `bytes` bytes, is expected on air; none if it is
    /// added to an A-MPDU that has begun.
    pub(super) fn begins(&self, now: Instant, toward: Toward, bytes: usize) -> Option<Instant> {
        let is_first = !self.joins(toward) || self.joined(now, toward, bytes).is_none();
        is_first.then(|| now.max(self.busy_until) + self.gap_of_next(now))
    }

    /// The gap before the next frame; its mean if gaps are random. The first frame of a slot finds
    /// that the medium has been idle for longer and is sent at once: any rest of the radio's last
    /// backoff has been counted down.
    fn gap_of_next(&self, now: Instant) -> Duration {
        let is_at_once = !self.is_stamped && self.busy_until <= now;
        if is_at_once { Duration::ZERO } else { self.spec.mean_gap() }
    }
}

/// Air time that a frame with `bytes` bytes of payload after LLC/SNAP needs in a slot or turn in
/// which nothing else is sent.
pub(super) fn alone(spec: &RadioSpec, bytes: usize) -> Duration {
    if !spec.aggregates() {
        return spec.unacknowledged(bytes);
    }
    let transmission = spec.aggregated(with(spec, None, bytes));
    transmission.saturating_sub(spec.there_and_back()) + spec.block_ack_request()
}

/// An A-MPDU of a radio, or a new one, with one more frame.
fn with(spec: &RadioSpec, open: Option<AmpduSize>, bytes: usize) -> AmpduSize {
    let mut size = open.unwrap_or_else(|| spec.phy.ampdu(spec.rate));
    size.push(spec.mpdu_bytes(bytes));
    size
}

#[cfg(test)]
mod tests {
    use super::super::WildConfig;
    use super::*;
    use crate::base::{Phy, PhyKind};

    /// A radio of 802.11n in the midst of a slot.
    fn port(aggregate: u8) -> Port {
        let phy = Phy { kind: PhyKind::N, ..Phy::default() };
        let spec = RadioSpec { aggregate, ..RadioSpec::of(phy) };
        let closes = Instant::ZERO + Duration::from_millis(20);
        Port {
            is_stamped: true,
            closes,
            ..Port::build(spec, &Settings::new(&WildConfig::default()))
        }
    }

    fn take(port: &mut Port, peer: usize, frames: usize) {
        for _ in 0..frames {
            let after = port.after(Instant::ZERO, Toward::Many(peer), 1500, Duration::ZERO);
            port.take(Instant::ZERO, Toward::Many(peer), 1500, Duration::ZERO);
            assert_eq!(port.busy_until, after);
        }
    }

    fn many(port: &Port, frames: usize) -> Duration {
        let spec = &port.spec;
        spec.aggregated(spec.phy.longest_ampdu(spec.mpdu_bytes(1500), spec.rate, frames))
    }

    #[test]
    fn frames_of_a_neighbour_are_planned_as_they_go_many_in_a_transmission() {
        let mut port = port(64);
        take(&mut port, 0, 28);
        assert_eq!(port.planned, many(&port, 28));
        assert!(!port.goes_on(Instant::ZERO, 0, 1500), "it is full");
        take(&mut port, 0, 2);
        assert!(port.goes_on(Instant::ZERO, 0, 1500));
        take(&mut port, 1, 3);
        assert_eq!(port.planned, many(&port, 28) + many(&port, 2) + many(&port, 3));
        // Once it has been sent, the next frame begins another one.
        let left = port.busy_until;
        assert!(port.goes_on(left.offset(-1), 1, 1500) && !port.goes_on(left, 1, 1500));
        assert_eq!(port.after(left, Toward::Many(1), 1500, Duration::ZERO), left + many(&port, 1));
    }

    #[test]
    fn what_is_stamped_or_for_all_goes_by_itself_and_once() {
        let mut port = port(64);
        let repeats = |port: &Port, toward| {
            let TxOptions { ack, attempts, deadline, .. } = port.options(toward);
            assert_eq!(deadline, Some(port.deadline(toward)));
            (ack == AckPolicy::Normal, attempts)
        };
        assert_eq!(repeats(&port, Toward::Many(0)), (true, None));
        assert_eq!(repeats(&port, Toward::All), (false, Some(1)));
        let request = port.spec.block_ack_request();
        assert_eq!(port.closes.since(port.deadline(Toward::Many(0))), request);
        assert_eq!([port.deadline(Toward::All), port.limit(Toward::All)], [port.closes; 2]);
        port.spec.way = Duration::from_micros(70);
        let back = port.limit(Toward::Many(0)).since(port.deadline(Toward::Many(0)));
        assert_eq!((back, port.limit(Toward::All)), (port.spec.way * 2, port.closes));
        port.spec.way = Duration::ZERO;
        port.is_stamped = false;
        assert_eq!(repeats(&port, Toward::Many(0)), (false, Some(1)));
        let single = port.spec.unacknowledged(1500);
        assert_eq!(port.take(Instant::ZERO, Toward::Many(0), 1500, Duration::ZERO), single);
        // Whatever comes first in a turn fits into the time that a single frame is said to need.
        assert!(
            alone(&port.spec, 1500) >= single
                && alone(&port.spec, 1500) >= many(&port, 1) + request
        );
    }

    #[test]
    fn what_is_for_all_goes_at_a_rate_that_all_know_in_whatever_order_they_come() {
        let single = Phy { kind: PhyKind::N, ..Phy::default() };
        let own = RadioSpec::of(Phy { streams: 2, ..single });
        let old = RadioSpec::of(Phy { kind: PhyKind::A, ..Phy::default() });
        let like_it = own.toward(&own, Some(Bitrate::from_mbps(30.0))).expect("a rate");
        let older = own.toward(&old, Some(Bitrate::from_mbps(24.0))).expect("a rate");
        let slowest = own.toward(&RadioSpec::of(single), Some(Bitrate::from_mbps(7.0)));
        let ways = [(like_it, own.phy), (older, old.phy), (slowest.expect("a rate"), single)];
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
            let mut port = Port::build(own, &Settings::new(&WildConfig::default()));
            for peer in order {
                port.set_toward(peer, ways[peer].0, ways[peer].1);
            }
            let all = port.to(Toward::All).rate;
            assert!(ways.iter().all(|(_, phy)| phy.decodes(&own.phy, all)), "{all}");
            assert_eq!(all.mbps(), 6.0);
            assert_eq!(port.to(Toward::Alone(1)).rate.mbps(), 24.0);
            assert_eq!(port.to(Toward::Many(0)).rate.mbps(), 26.0);
        }
    }

    #[test]
    fn a_radio_that_sends_one_frame_at_a_time_is_planned_so() {
        let mut port = port(1);
        take(&mut port, 0, 5);
        assert_eq!(port.planned, port.spec.unacknowledged(1500) * 5);
        assert_eq!(alone(&port.spec, 1500), port.spec.unacknowledged(1500));
        assert_eq!(port.options(Toward::Many(0)).ack, AckPolicy::NoAck);
        assert!(!port.goes_on(Instant::ZERO, 0, 1500));
    }
}
