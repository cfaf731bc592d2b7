//! 2P, the ancestor of the slotted link (`wildnet.md` 9). All radios of a channel send for a fixed
//! time, tell each neighbour with a marker that they have finished, and then listen until the
//! markers of all neighbours have arrived.
//!
//! A lost marker is replaced by a time-out of 1.25 phases, which delays all nodes that wait for
//! this one in turn. Nothing is acknowledged or repeated. Data has no header of its own; a marker
//! is a frame of `wire/wild`. The original fills its phases with dummy frames; here a phase with
//! little to send simply lasts as long.
//!
//! If both ends time out together, each sends over the other's markers, again and again. From the
//! second time-out in a row on, a random part of up to a quarter phase is therefore added. On a
//! long link such markers may cross and arrive nevertheless, or arrive in a gap while the other
//! sends. They are no answers: a marker counts only while its node listens, and only once the
//! sender's guard can have passed. Otherwise both would keep sending at the same time and never
//! time out.

mod send;
mod status;

use std::collections::{BTreeMap, VecDeque};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::queue::free;
use super::{AirTimes, PeerSpec, bare_packet};
use crate::base::{
    Cx, DropCause, Duration, EtherType, FrameDone, FrameDown, FrameOutcome, FrameUp, Frames,
    Instant, Lane, Layer, NodeId, Packet, PacketDone, PacketOutcome, PacketUp, Packets, RadioId,
    RadioSpec, ReceivedFrame, Rng, Room, RoomBelow, Seed, UnitId, UnitIds,
};
use crate::wire::wild::{HEADER_BYTES, Kind, decode};

/// Configuration of `link/two_p`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TwoPConfig {
    /// Length of a sending phase, in milliseconds.
    pub phase_ms: f64,
    /// How long a node waits for the markers of its neighbours, in phases.
    pub timeout: f64,
    /// Time at the start of each sending phase in which nothing is sent, in milliseconds. It must
    /// exceed the propagation delay of a frame.
    pub guard_ms: f64,
    /// Most packets in the queue to one neighbour.
    pub queue_packets: usize,
}

impl Default for TwoPConfig {
    fn default() -> Self {
        Self { phase_ms: 20.0, timeout: 1.25, guard_ms: 1.5, queue_packets: 64 }
    }
}

impl TwoPConfig {
    /// Length of a sending phase.
    pub fn phase(&self) -> Duration {
        Duration::from_secs_f64(self.phase_ms / 1e3)
    }

    /// Time at the start of a sending phase in which nothing is sent.
    pub fn guard(&self) -> Duration {
        Duration::from_secs_f64(self.guard_ms / 1e3)
    }

    /// How long a node waits for markers.
    pub fn patience(&self) -> Duration {
        self.phase().mul_f64(self.timeout)
    }

    /// How long a node that misses a marker stays idle.
    pub fn idle_after_loss(&self) -> Duration {
        self.patience().saturating_sub(self.phase())
    }
}

/// The shortest duration, so that a wait is never empty.
const SHORTEST: Duration = Duration::from_nanos(1);

/// The link at one node.
#[derive(Debug)]
pub struct TwoP {
    config: TwoPConfig,
    timeout: Instant,
    groups: Vec<Group>,
    peers: Vec<Peer>,
    up: VecDeque<PacketUp>,
    outstanding: VecDeque<Outstanding>,
    ids: UnitIds,
    air: AirTimes,
    counters: Counters,
    drops: BTreeMap<DropCause, u64>,
}

/// The radios of one channel, which change their phases together.
#[derive(Debug)]
struct Group {
    phase: Phase,
    ports: Vec<Port>,
    number: u16,
    /// Time-outs since markers last ended a phase.
    timeouts: u32,
    rng: Rng,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Before the first call.
    New,
    /// Sending (SynTx); frames are sent from `from`, after the guard, to `end`.
    Send { from: Instant, end: Instant },
    /// Listening (SynRx), until the time-out at the latest. A marker that arrives before
    /// `deaf_until` was sent before ours was received.
    Listen { deaf_until: Instant, until: Instant },
}

impl Phase {
    /// Whether a marker that arrives now answers ours.
    fn takes_markers(self, now: Instant) -> bool {
        match self {
            Self::New | Self::Send { .. } => false,
            Self::Listen { deaf_until, .. } => now >= deaf_until,
        }
    }
}

#[derive(Debug)]
struct Port {
    spec: RadioSpec,
    /// When all frames given down so far will have been sent.
    busy_until: Instant,
    peers: Vec<usize>,
    /// The neighbour whose turn it is, as an index into `peers`.
    turn: usize,
}

#[derive(Debug)]
struct Peer {
    spec: PeerSpec,
    group: usize,
    queue: VecDeque<Packet>,
    /// Whether its marker has arrived since we began to listen.
    has_marked: bool,
    /// Whether our marker of this phase has been given down, or cannot be.
    is_told: bool,
    wanted: bool,
    heard: Option<Instant>,
    /// Whether its last frame belonged to another link protocol.
    has_other_link: bool,
    sent_bytes: u64,
    received_bytes: u64,
}

#[derive(Debug)]
struct Outstanding {
    id: UnitId,
    /// The neighbour, as an index into all neighbours.
    peer: usize,
    /// The packet's id and length, if the frame contains a packet.
    packet: Option<(UnitId, usize)>,
    group: usize,
    is_marker: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    phases: u64,
    timeouts: u64,
    markers_sent: u64,
    markers_heard: u64,
    markers_crossed: u64,
    frames_sent: u64,
    frames_late: u64,
    overheard: u64,
    strangers: u64,
    malformed: u64,
}

impl TwoP {
    /// The link at `node` with its radios and its neighbours.
    ///
    /// Panics if a neighbour is assigned to a radio that the node does not have.
    pub fn build(
        config: &TwoPConfig,
        node: NodeId,
        radios: &[RadioSpec],
        peers: &[PeerSpec],
        seed: Seed,
    ) -> Self {
        let mut channels: Vec<u16> = radios.iter().map(|spec| spec.channel).collect();
        channels.sort_unstable();
        channels.dedup();
        let port = |spec: &RadioSpec| {
            let here = |(_, peer): &(usize, &PeerSpec)| peer.radio == spec.id;
            let peers = peers.iter().enumerate().filter(here).map(|(index, _)| index).collect();
            Port { spec: *spec, busy_until: Instant::ZERO, peers, turn: 0 }
        };
        let group = |channel: &u16| Group {
            phase: Phase::New,
            ports: radios.iter().filter(|spec| spec.channel == *channel).map(port).collect(),
            number: 0,
            timeouts: 0,
            rng: seed.stream(&format!("node/{}/two-p/{channel}", node.0)),
        };
        let groups: Vec<Group> = channels.iter().map(group).collect();
        let place = |index: usize| {
            let has = |group: &Group| group.ports.iter().any(|port| port.peers.contains(&index));
            groups.iter().position(has).expect("a neighbour on a radio of this node")
        };
        let peer = |(index, spec): (usize, &PeerSpec)| Peer {
            spec: *spec,
            group: place(index),
            queue: VecDeque::new(),
            has_marked: false,
            is_told: false,
            wanted: false,
            heard: None,
            has_other_link: false,
            sent_bytes: 0,
            received_bytes: 0,
        };
        let peers = peers.iter().enumerate().map(peer).collect();
        Self {
            config: config.clone(),
            timeout: Instant::ZERO,
            groups,
            peers,
            up: VecDeque::new(),
            outstanding: VecDeque::new(),
            ids: UnitIds::default(),
            air: AirTimes::default(),
            counters: Counters::default(),
            drops: BTreeMap::new(),
        }
    }

    fn peer_index(&self, radio: RadioId, node: NodeId) -> Option<usize> {
        let is_it = |peer: &Peer| (peer.spec.radio, peer.spec.node) == (radio, node);
        self.peers.iter().position(is_it)
    }

    fn peers_of(&self, group: usize) -> impl Iterator<Item = &Peer> {
        self.peers.iter().filter(move |peer| peer.group == group)
    }

    /// Advances the phases to the present.
    fn advance(&mut self, now: Instant) {
        for group in 0..self.groups.len() {
            match self.groups[group].phase {
                Phase::New => {
                    let patience = self.config.patience();
                    let wait = patience.mul_f64(self.groups[group].rng.uniform());
                    let until = now + wait + SHORTEST;
                    self.groups[group].phase = Phase::Listen { deaf_until: now, until };
                }
                Phase::Listen { until, .. } => {
                    let has_peers = self.peers_of(group).next().is_some();
                    if has_peers && self.peers_of(group).all(|peer| peer.has_marked) {
                        self.groups[group].timeouts = 0;
                        self.send(now, group);
                    } else if now >= until {
                        self.counters.timeouts += 1;
                        self.groups[group].timeouts += 1;
                        self.send(now, group);
                    }
                }
                Phase::Send { end, .. } => {
                    if now >= self.latest(end) || self.has_told_all(group) {
                        self.listen(now, group);
                    }
                }
            }
        }
        self.set_timeout(now);
    }

    fn has_told_all(&self, group: usize) -> bool {
        let is_out = |frame: &Outstanding| frame.group == group && frame.is_marker;
        self.peers_of(group).all(|peer| peer.is_told) && !self.outstanding.iter().any(is_out)
    }

    /// Begins to send (SynTx).
    fn send(&mut self, now: Instant, group: usize) {
        self.counters.phases += 1;
        let guard = self.config.guard();
        let state = &mut self.groups[group];
        state.number = state.number.wrapping_add(1);
        state.phase = Phase::Send { from: now + guard, end: now + self.config.phase() };
        for port in &mut state.ports {
            port.busy_until = now;
            self.air.of(port.spec.id, None).guard += guard;
        }
        for peer in self.peers.iter_mut().filter(|peer| peer.group == group) {
            peer.is_told = false;
        }
    }

    /// Begins to listen (SynRx).
    fn listen(&mut self, now: Instant, group: usize) {
        let patience = self.config.patience();
        let most = self.config.idle_after_loss();
        let state = &mut self.groups[group];
        let bump = if state.timeouts > 1 { state.rng.uniform() } else { 0.0 };
        let until = now + patience + most.mul_f64(bump);
        state.phase = Phase::Listen { deaf_until: now + self.config.guard(), until };
        for peer in self.peers.iter_mut().filter(|peer| peer.group == group) {
            peer.has_marked = false;
        }
    }

    fn on_received(&mut self, now: Instant, frame: ReceivedFrame) {
        let Some(index) = self.peer_index(frame.radio, frame.from) else {
            self.counters.strangers += 1;
            return;
        };
        let peer = &mut self.peers[index];
        let is_packet = frame.protocol != EtherType::FARHOP;
        let is_marker = !is_packet
            && decode(&frame.payload).is_ok_and(|decoded| decoded.header.kind == Kind::Marker);
        // An empty frame carried a message of the layer below.
        let is_empty = !is_packet && frame.payload.is_empty();
        peer.has_other_link = !is_packet && !is_marker && !is_empty;
        if peer.has_other_link {
            self.counters.malformed += 1;
            return;
        }
        peer.heard = Some(now);
        if is_marker {
            let is_answer = self.groups[peer.group].phase.takes_markers(now);
            peer.has_marked |= is_answer;
            self.counters.markers_heard += 1;
            self.counters.markers_crossed += u64::from(!is_answer);
        }
        if !is_packet {
            return;
        }
        peer.received_bytes += frame.payload.len() as u64;
        self.up.push_back(bare_packet(frame));
    }

    fn on_done(&mut self, done: FrameDone) {
        let found = self.outstanding.binary_search_by_key(&done.id, |frame| frame.id);
        let Some(frame) = found.ok().and_then(|at| self.outstanding.remove(at)) else { return };
        let is_sent = matches!(done.outcome, FrameOutcome::Sent | FrameOutcome::Unknown);
        self.counters.frames_sent += u64::from(is_sent);
        let is_too_long = done.outcome == FrameOutcome::TooLong;
        self.counters.frames_late += u64::from(!is_sent && !is_too_long);
        let peer = &mut self.peers[frame.peer];
        let air = self.air.of(peer.spec.radio, Some(peer.spec.node));
        *if frame.packet.is_some() { &mut air.data } else { &mut air.acknowledgement } +=
            done.air_time;
        let Some((id, bytes)) = frame.packet else { return };
        peer.sent_bytes += if is_sent { bytes as u64 } else { 0 };
        if is_too_long {
            return self.count_drop(id, DropCause::TooLong);
        }
        let outcome = if is_sent { PacketOutcome::Sent } else { PacketOutcome::Failed };
        let (attempts, air_time) = (done.attempts, done.air_time);
        self.up.push_back(PacketUp::Done(PacketDone { id, outcome, attempts, air_time }));
    }

    /// Whether a packet of `bytes` bytes to a neighbour fits into an empty phase of its radio.
    fn fits_a_phase(&self, index: usize, bytes: usize) -> bool {
        let peer = &self.peers[index];
        let here = |port: &&Port| port.peers.contains(&index);
        let port = self.groups[peer.group].ports.iter().find(here).expect("its radio");
        let markers = port.spec.unacknowledged(HEADER_BYTES) * port.peers.len() as u64;
        self.config.guard() + port.spec.unacknowledged(bytes) + markers <= self.config.phase()
    }

    fn count_drop(&mut self, id: UnitId, cause: DropCause) {
        *self.drops.entry(cause).or_default() += 1;
        self.up.push_back(PacketUp::Dropped { id, cause });
    }

    /// Sets the time of the next call.
    fn set_timeout(&mut self, now: Instant) {
        let due = (0..self.groups.len()).map(|group| self.due(now, group)).min();
        self.timeout = due.unwrap_or(Instant::MAX);
    }

    /// When a group must be advanced again.
    fn due(&self, now: Instant, group: usize) -> Instant {
        match self.groups[group].phase {
            Phase::New => Instant::ZERO,
            Phase::Listen { until, .. } => until,
            Phase::Send { from, end } => {
                let ports = &self.groups[group].ports;
                let markers = ports.iter().map(|port| self.marker_time(port));
                let marker = markers.max().unwrap_or_default();
                let times = [from, end.saturating_sub(marker), end, self.latest(end)];
                let next = times.into_iter().filter(|time| *time > now).min();
                next.expect("a phase that is over has ended")
            }
        }
    }

    /// When a phase ends even if frames are outstanding: a radio that never reports must not block
    /// all.
    fn latest(&self, end: Instant) -> Instant {
        end + self.config.idle_after_loss().max(Duration::from_millis(1))
    }
}

impl Layer for TwoP {
    type Above = Packets;
    type Below = Frames;

    fn handle_rx(&mut self, cx: &mut Cx<'_>, event: FrameUp) {
        match event {
            FrameUp::Received(frame) => self.on_received(cx.now, frame),
            FrameUp::Overheard(_) => self.counters.overheard += 1,
            FrameUp::Done(done) => self.on_done(done),
            FrameUp::Wanted(wanted) => {
                if let Some(index) = self.peer_index(wanted.radio, wanted.to) {
                    self.peers[index].wanted = true;
                }
            }
        }
        self.advance(cx.now);
    }

    fn poll_rx(&mut self, _cx: &mut Cx<'_>) -> Option<PacketUp> {
        self.up.pop_front()
    }

    /// Free places in the queue to a neighbour; none for broadcast and for unknown neighbours.
    fn room(&self, lane: Lane) -> Room {
        let index = lane.to.and_then(|node| self.peer_index(lane.radio, node));
        let queue = |index: usize| &self.peers[index].queue;
        let free = |index| free(self.config.queue_packets, queue(index), lane);
        index.map_or(Room::NONE, |index| Room::units(free(index)))
    }

    fn handle_tx(&mut self, _cx: &mut Cx<'_>, packet: Packet) {
        let Some(index) = packet.to.and_then(|node| self.peer_index(packet.radio, node)) else {
            return self.count_drop(packet.id, DropCause::NoRoute);
        };
        if !self.fits_a_phase(index, packet.payload.len()) {
            return self.count_drop(packet.id, DropCause::TooLong);
        }
        if self.room(packet.lane()).is_none() {
            return self.count_drop(packet.id, DropCause::QueueFull);
        }
        self.peers[index].queue.push_back(packet);
    }

    fn poll_tx(&mut self, cx: &mut Cx<'_>, below: &RoomBelow<'_>) -> Option<FrameDown> {
        self.advance(cx.now);
        for group in 0..self.groups.len() {
            for port in 0..self.groups[group].ports.len() {
                if let Some(frame) = self.next_frame(cx.now, (group, port), below) {
                    self.set_timeout(cx.now);
                    return Some(FrameDown::Frame(frame));
                }
            }
        }
        // A neighbour that no marker can be sent to does not delay the end of the phase.
        self.advance(cx.now);
        None
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Some(self.timeout)
    }

    fn handle_timeout(&mut self, cx: &mut Cx<'_>) {
        self.advance(cx.now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_marker_costs_a_quarter_of_a_phase() {
        let config = TwoPConfig::default();
        assert_eq!(config.patience(), Duration::from_millis(25));
        assert_eq!(config.idle_after_loss(), Duration::from_millis(5));
    }
}
