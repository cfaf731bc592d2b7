//! Frames with a stamp and no packet: beacons, and carriers for the layer below.

use super::Wild;
use super::port::Toward;
use super::send::{What, lane};
use super::turns::Turn;
use crate::base::{Cx, Duration, FlowId, Frame, Instant, Lane, RoomBelow, Wanted};
use crate::wire::wild::Kind;

/// A slot in this many begins with a beacon whatever waits: only beacons tell how long a node's
/// slots are meant to be. The middle of a star has one in each slot, and its stations hear that.
const BEACON_EVERY: u16 = 128;
/// Bytes of a beacon after its header, before turns: the slot length.
pub(super) const BEACON_BYTES: usize = 4;

impl Wild {
    /// A beacon that opens a slot: for several neighbours if it assigns turns, or if other frames
    /// are sealed, so that only their addressee can read their stamp; and from time to time.
    pub(super) fn opening_beacon(
        &mut self,
        now: Instant,
        place: (usize, usize),
        below: &RoomBelow<'_>,
    ) -> Option<Frame> {
        let group = &self.groups[place.0];
        let neighbours: usize = group.ports.iter().map(|port| port.peers.len()).sum();
        let is_sealed = self.port(place).spec.seal_bytes > 0;
        let gives_turns = !self.given_turns(place).is_empty();
        let port = self.port(place);
        let is_due = port.since_beacon >= BEACON_EVERY && port.turns.turn != Turn::Granted;
        if gives_turns || is_due || (is_sealed && neighbours > 1) {
            self.beacon(now, place, below)
        } else {
            None
        }
    }

    /// The layer below wants a frame to be sent.
    pub(super) fn on_wanted(&mut self, cx: &mut Cx<'_>, wanted: Wanted) {
        let Some(index) = self.peer_index(wanted.radio, wanted.to) else { return };
        self.peers[index].wanted = Some(wanted);
        let group = self.peers[index].place.0;
        if wanted.is_answer && self.groups[group].slots.begin(cx.now) {
            self.on_slot_began(cx, group);
            self.set_timeout(cx.now);
        }
    }

    /// A beacon for one neighbour, to which the layer below adds its message. It is sent in step or
    /// not, because the message may be needed to get in step.
    pub(super) fn carrier(
        &mut self,
        now: Instant,
        place: (usize, usize),
        below: &RoomBelow<'_>,
    ) -> Option<Frame> {
        for turn in 0..self.port(place).peers.len() {
            let Some(index) = self.port(place).peers.get(turn) else { break };
            let Some(wanted) = self.peers[index].wanted else { continue };
            let lane = Lane { flow: FlowId::CONTROL, ..lane(&self.peers[index]) };
            let (to, bytes) = ((place, Toward::Alone(index)), BEACON_BYTES + wanted.bytes);
            if !self.fits(now, to, bytes, Duration::ZERO) || below(lane).is_none() {
                continue;
            }
            self.peers[index].wanted = None;
            let slot_us = (self.settings.slot.as_micros() as u32).to_be_bytes();
            self.counters.carriers += 1;
            let mut content = self.control(Kind::Idle, Some(index), &[], &slot_us);
            content.what = What::Carrier(wanted.bytes);
            return Some(self.give(now, place, content));
        }
        None
    }

    pub(super) fn beacon(
        &mut self,
        now: Instant,
        place: (usize, usize),
        below: &RoomBelow<'_>,
    ) -> Option<Frame> {
        let radio = self.port(place).spec.id;
        let lane = Lane { radio, ..Lane::default() };
        let turns = self.given_turns(place);
        let bytes = BEACON_BYTES + turns.len();
        let to_all = (place, Toward::All);
        if self.port(place).is_stamped || !self.fits(now, to_all, bytes, Duration::ZERO) {
            return None;
        }
        if below(lane).is_none() {
            return None;
        }
        let mut body = (self.settings.slot.as_micros() as u32).to_be_bytes().to_vec();
        body.extend(turns);
        self.counters.beacons += 1;
        self.port_mut(place).since_beacon = 0;
        let content = self.control(Kind::Idle, None, &[], &body);
        Some(self.give(now, place, content))
    }
}
