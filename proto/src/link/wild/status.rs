//! Counters, trace events and the status of the link.

use std::collections::BTreeMap;

use serde::Serialize;

use super::class::Class;
use super::slots::Phase;
use super::{Group, Peer, Port, Wild};
use crate::base::{Instant, Name, NodeId, named};
use crate::link::{ClassStatus, Codes, LinkStatus, NeighbourStatus, SlotStatus};
use crate::wire::wild::DecodeError;

/// Counters of the link; those of one neighbour are with its sender and receiver.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub(super) slots: u64,
    pub(super) slots_missed: u64,
    pub(super) slots_cut: u64,
    pub(super) slots_listened: u64,
    pub(super) stamps: u64,
    pub(super) stamps_foreign: u64,
    pub(super) stale: u64,
    pub(super) stamps_impossible: u64,
    pub(super) steps_taken: u64,
    pub(super) frames_sent: u64,
    pub(super) frames_late: u64,
    pub(super) frames_too_long: u64,
    pub(super) unknown_done: u64,
    pub(super) retransmissions: u64,
    pub(super) coded_sent: u64,
    pub(super) acks_ridden: u64,
    pub(super) frames_filled: u64,
    pub(super) beacons: u64,
    pub(super) carriers: u64,
    pub(super) overheard: u64,
    pub(super) strangers: u64,
    pub(super) strange: u64,
    pub(super) restarts: u64,
    pub(super) wrong_slot_length: u64,
    pub(super) malformed_protocol: u64,
    pub(super) malformed_turns: u64,
    malformed_short: u64,
    malformed_version: u64,
    malformed_kind: u64,
    malformed_checksum: u64,
    malformed_ack: u64,
    malformed_coded: u64,
}

impl Counters {
    pub(super) fn on_malformed(&mut self, error: DecodeError) {
        let counter = match error {
            DecodeError::Short => &mut self.malformed_short,
            DecodeError::Version => &mut self.malformed_version,
            DecodeError::Kind => &mut self.malformed_kind,
            DecodeError::Checksum => &mut self.malformed_checksum,
            DecodeError::Ack => &mut self.malformed_ack,
            DecodeError::Coded => &mut self.malformed_coded,
        };
        *counter += 1;
    }

    fn by_name(&self) -> BTreeMap<Name, u64> {
        named([
            ("slots", self.slots),
            ("slots_missed", self.slots_missed),
            ("slots_cut", self.slots_cut),
            ("slots_listened", self.slots_listened),
            ("stamps", self.stamps),
            ("stamps_foreign", self.stamps_foreign),
            ("stale", self.stale),
            ("stamps_impossible", self.stamps_impossible),
            ("steps_taken", self.steps_taken),
            ("frames_sent", self.frames_sent),
            ("frames_late", self.frames_late),
            ("frames_too_long", self.frames_too_long),
            ("frames_unknown_done", self.unknown_done),
            ("retransmissions", self.retransmissions),
            ("coded_sent", self.coded_sent),
            ("acks_ridden", self.acks_ridden),
            ("frames_filled", self.frames_filled),
            ("beacons", self.beacons),
            ("carriers", self.carriers),
            ("overheard", self.overheard),
            ("strangers", self.strangers),
            ("strange_incarnation", self.strange),
            ("peer_restarts", self.restarts),
            ("wrong_slot_length", self.wrong_slot_length),
            ("malformed_protocol", self.malformed_protocol),
            ("malformed_turns", self.malformed_turns),
            ("malformed_short", self.malformed_short),
            ("malformed_version", self.malformed_version),
            ("malformed_kind", self.malformed_kind),
            ("malformed_checksum", self.malformed_checksum),
            ("malformed_ack", self.malformed_ack),
            ("malformed_coded", self.malformed_coded),
        ])
    }
}

/// Events for the trace.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum WildEvent {
    /// A send slot began.
    SlotBegan { channel: u16, number: u16 },
    /// The schedule took over that of a neighbour.
    InStep { from: NodeId },
    /// A stamp asked for a correction.
    Stamp { from: NodeId, error_ns: i64 },
    /// All frames of a neighbour are refused, because it is configured differently.
    Refused { from: NodeId, why: &'static str },
    /// Packets were found lost.
    Lost { to: NodeId, packets: usize },
}

impl Wild {
    pub(super) fn link_status(&self, now: Instant) -> LinkStatus {
        let mut counters = self.counters.by_name();
        for peer in &self.peers {
            let (sent, got) = (&peer.sender.counters, &peer.receiver.counters);
            for (name, count) in [
                ("acks", sent.acks),
                ("acks_refused", sent.acks_refused),
                ("abandoned", sent.abandoned),
                ("duplicates", got.duplicates),
                ("beyond_window", got.beyond_window),
                ("skipped", got.skipped),
                ("decoded", got.decoded),
                ("impatient", got.impatient),
                ("parts_torn", peer.joiner.torn),
            ] {
                *counters.entry(name.into()).or_default() += count;
            }
        }
        LinkStatus {
            kind: "wild".into(),
            slots: self.slot_statuses(now),
            neighbours: self.peers.iter().map(|peer| self.neighbour_status(peer, now)).collect(),
            air: self.air.clone(),
            counters,
            drops: self.drops.clone(),
        }
    }

    /// The slots of each radio, and the neighbours that are in step on it.
    pub(super) fn slots_in_step(&self, now: Instant) -> Vec<(SlotStatus, Vec<NodeId>)> {
        let is_up = |peer: &&Peer| peer.is_up && self.groups[peer.place.0].slots.is_in_step(now);
        let peers_of = |slot: &SlotStatus| {
            let peers = self.peers.iter().filter(|peer| peer.spec.radio == slot.radio);
            peers.filter(is_up).map(|peer| peer.spec.node).collect()
        };
        let slots = self.slot_statuses(now).into_iter();
        slots.map(|slot| (slot.clone(), peers_of(&slot))).collect()
    }

    fn slot_statuses(&self, now: Instant) -> Vec<SlotStatus> {
        let ports =
            self.groups.iter().flat_map(|group| group.ports.iter().map(move |port| (group, port)));
        let mut all: Vec<SlotStatus> =
            ports.map(|(group, port)| self.slot_status(group, port, now)).collect();
        all.sort_by_key(|slot| slot.radio);
        all
    }

    fn slot_status(&self, group: &Group, port: &Port, now: Instant) -> SlotStatus {
        let slots = &group.slots;
        let (phase, end) = match slots.phase() {
            Phase::Send => ("send", slots.end()),
            _ if now >= slots.start() => ("guard", slots.due()),
            Phase::Start => ("start", slots.start()),
            Phase::Receive => ("receive", slots.start()),
        };
        SlotStatus {
            radio: port.spec.id,
            channel: group.channel,
            cluster: slots.cluster(),
            phase: phase.into(),
            number: slots.number(),
            ends_in: end.since(now),
            length: slots.own(),
        }
    }

    fn neighbour_status(&self, peer: &Peer, now: Instant) -> NeighbourStatus {
        let is_in_step = self.groups[peer.place.0].slots.is_in_step(now);
        NeighbourStatus {
            kind: None,
            node: peer.spec.node,
            radio: peer.spec.radio,
            up: peer.is_up && is_in_step,
            heard_ago: peer.heard.map(|heard| now.since(heard)),
            sync_error_ns: peer.sync_error,
            loss: peer.sender.estimate.loss(),
            loss_so_far: peer.sender.estimate.loss_so_far(),
            coding_rate: peer.coding_rate(),
            has_bursts: Some(peer.sender.estimate.is_bursty()),
            classes: self.class_statuses(peer),
            queue_packets: peer.queue.len() + peer.sender.unfinished(),
            sent_bytes: peer.sender.counters.delivered_bytes,
            received_bytes: peer.received_bytes,
            signal_dbm: peer.signal.map(|signal| signal.as_f64()),
            refused: peer.refused_now(now).map(|refused| refused.name().into()),
        }
    }

    fn class_statuses(&self, peer: &Peer) -> Vec<ClassStatus> {
        let estimate = &peer.sender.estimate;
        let classes = self.settings.classes.all().iter().enumerate();
        let status = |(index, class): (usize, &Class)| ClassStatus {
            name: class.name.clone().into(),
            preset: class.preset.map(|preset| preset.name().into()),
            queue_packets: peer.queue.waiting(index),
            unfinished_packets: peer.sender.unfinished_of(index),
            retries: estimate.retries(index),
            codes: match (estimate.codes_new(index), estimate.codes_again(index)) {
                (true, _) => Codes::New,
                (_, true) => Codes::Again,
                _ => Codes::Nothing,
            },
            parity: estimate.full_parity(index),
            dropped: peer.queue.drops(index),
            abandoned: peer.sender.abandoned[index],
        };
        classes.map(status).collect()
    }
}
