//! What happens once in a cycle: a send slot begins, silent neighbours are noticed, and packets
//! that waited too long are dropped.

use super::slots::{SILENT_CYCLES, STALE_CYCLES};
use super::status::WildEvent;
use super::turns::Turn;
use super::{Group, Wild};
use crate::base::{Cx, PacketUp};
use crate::link::PeerSpec;

impl Group {
    /// Tells the schedule what is known of a cycle before anything was heard: with one neighbour,
    /// how far that is, or how far it can be where nodes move.
    pub(super) fn expect_cycle(&mut self, neighbours: usize) {
        if let ([port], 1) = (&self.ports[..], neighbours) {
            self.slots.expect(port.spec.way);
        }
    }
}

impl Wild {
    /// A send slot begins: the guard is over.
    pub(super) fn on_slot_began(&mut self, cx: &mut Cx<'_>, group: usize) {
        for port in 0..self.groups[group].ports.len() {
            self.give_turns(cx.now, (group, port));
        }
        if self.groups[group].slots.is_in_step(cx.now) {
            self.set_lengths(cx.now, group);
        }
        let slots = &self.groups[group].slots;
        let (number, until, channel) = (slots.number(), slots.end(), self.groups[group].channel);
        self.counters.slots += 1;
        cx.emit(|| WildEvent::SlotBegan { channel, number });
        for port in 0..self.groups[group].ports.len() {
            let Group { slots, ports, .. } = &mut self.groups[group];
            self.air.of(ports[port].spec.id, None).guard += self.settings.guard;
            let is_up = |index: &usize| self.peers[*index].is_up;
            let is_joined = ports[port].peers.iter().any(is_up);
            let misses_some = !ports[port].peers.iter().all(is_up);
            ports[port].on_slot(cx.now, slots, &self.settings, (is_joined, misses_some));
        }
        for index in 0..self.peers.len() {
            let place = self.peers[index].place;
            if place.0 == group {
                let sharers = self.port(place).peers.len();
                self.peers[index].on_slot(number, until, sharers);
            }
        }
        self.on_cycle(cx, group);
    }

    /// A send slot begins that this node spends listening.
    pub(super) fn on_slot_listened(&mut self, cx: &mut Cx<'_>, group: usize) {
        self.counters.slots_listened += 1;
        self.on_cycle(cx, group);
    }

    fn on_cycle(&mut self, cx: &mut Cx<'_>, group: usize) {
        let mut is_missing = false;
        for index in 0..self.peers.len() {
            if self.peers[index].place.0 == group {
                self.on_peer_cycle(cx, index);
                // A neighbour that is heard but not in step with us may not hear us.
                let peer = &self.peers[index];
                is_missing |= !peer.is_up || self.is_silent(cx.now, peer, STALE_CYCLES);
            }
        }
        // The middle of a star need not give up slots of its own to hear a station: a station that
        // is not in step with the middle, and has no other radio on the channel, sends in random
        // slots.
        let is_middle = self.sole_turn(group) == Some(Turn::Grants { splits: true });
        self.groups[group].slots.set_missing(is_missing && !is_middle);
    }

    /// Once in a cycle for each neighbour: checks for silence, and drops what waited too long.
    fn on_peer_cycle(&mut self, cx: &mut Cx<'_>, index: usize) {
        let is_gone = self.is_silent(cx.now, &self.peers[index], SILENT_CYCLES);
        let peer = &mut self.peers[index];
        if peer.is_up && is_gone {
            peer.is_up = false;
            let PeerSpec { node, radio } = peer.spec;
            self.up.push_back(PacketUp::Neighbour { node, radio, up: false });
            self.drop_copies(index);
        }
        self.expire(cx.now, index);
        let mut done = Vec::new();
        let lost = self.peers[index].sender.on_cycle(cx.now, &mut done);
        self.end(done);
        let to = self.peers[index].spec.node;
        if lost > 0 {
            cx.emit(|| WildEvent::Lost { to, packets: lost });
        }
        let mut out = Vec::new();
        self.peers[index].receiver.on_cycle(cx.now, &mut out);
        self.give_up(index, out);
    }
}
