//! The status of the link.

use super::{Group, Peer, Phase, Port, TwoP};
use crate::base::{Instant, named};
use crate::link::{Link, LinkStatus, NeighbourStatus, OTHER_LINK, SlotStatus};

impl Link for TwoP {
    fn heeds_overheard(&self) -> bool {
        false
    }

    fn status(&self, now: Instant) -> LinkStatus {
        let counters = &self.counters;
        LinkStatus {
            kind: "two-p".into(),
            slots: self.slot_statuses(now),
            neighbours: self.peers.iter().map(|peer| neighbour_status(peer, now)).collect(),
            air: self.air.clone(),
            counters: named([
                ("phases", counters.phases),
                ("timeouts", counters.timeouts),
                ("markers_sent", counters.markers_sent),
                ("markers_heard", counters.markers_heard),
                ("markers_crossed", counters.markers_crossed),
                ("frames_sent", counters.frames_sent),
                ("frames_late", counters.frames_late),
                ("overheard", counters.overheard),
                ("strangers", counters.strangers),
                ("malformed", counters.malformed),
            ]),
            drops: self.drops.clone(),
        }
    }
}

impl TwoP {
    fn slot_statuses(&self, now: Instant) -> Vec<SlotStatus> {
        let ports =
            self.groups.iter().flat_map(|group| group.ports.iter().map(move |port| (group, port)));
        ports.map(|(group, port)| self.slot_status(group, port, now)).collect()
    }

    fn slot_status(&self, group: &Group, port: &Port, now: Instant) -> SlotStatus {
        let (phase, end) = match group.phase {
            Phase::New => ("start", now),
            Phase::Listen { until, .. } => ("receive", until),
            Phase::Send { from, .. } if now < from => ("guard", from),
            Phase::Send { end, .. } => ("send", end),
        };
        SlotStatus {
            radio: port.spec.id,
            channel: port.spec.channel,
            cluster: 0,
            phase: phase.into(),
            number: group.number,
            ends_in: end.since(now),
            length: self.config.phase(),
        }
    }
}

fn neighbour_status(peer: &Peer, now: Instant) -> NeighbourStatus {
    NeighbourStatus {
        kind: None,
        node: peer.spec.node,
        radio: peer.spec.radio,
        up: peer.heard.is_some(),
        heard_ago: peer.heard.map(|heard| now.since(heard)),
        sync_error_ns: None,
        loss: None,
        loss_so_far: None,
        coding_rate: 0.0,
        has_bursts: None,
        classes: Vec::new(),
        queue_packets: peer.queue.len(),
        sent_bytes: peer.sent_bytes,
        received_bytes: peer.received_bytes,
        signal_dbm: None,
        refused: peer.has_other_link.then(|| OTHER_LINK.into()),
    }
}
