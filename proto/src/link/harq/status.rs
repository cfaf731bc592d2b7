//! The status of the link.

use super::config::Scheme;
use super::receiver::{Got, Receiver};
use super::sender::Sent;
use super::{Harq, Key, Peer};
use crate::base::{Instant, named};
use crate::link::{Link, LinkStatus, NeighbourStatus, OTHER_LINK, queue::Red};

/// Counters of the link, over all neighbours.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub(super) units_sent: u64,
    /// Bytes of units without their headers: of data, of parity in first bursts, and of later
    /// bursts.
    pub(super) data_bytes: u64,
    pub(super) pfec_bytes: u64,
    pub(super) rfec_bytes: u64,
    pub(super) feedback_sent: u64,
    pub(super) probes_sent: u64,
    pub(super) frames_not_sent: u64,
    pub(super) not_sealed: u64,
    pub(super) overheard: u64,
    pub(super) malformed: u64,
    pub(super) other_incarnation: u64,
}

impl Link for Harq {
    fn heeds_overheard(&self) -> bool {
        false
    }

    fn heeded(&self) -> u64 {
        let of = |peer: &Peer| {
            peer.sender.heeded + peer.receiver.as_ref().map_or(0, |receiver| receiver.got.heeded)
        };
        self.peers.values().map(of).sum()
    }

    fn status(&self, now: Instant) -> LinkStatus {
        let neighbour = |(key, peer): (&Key, &Peer)| self.neighbour_status(*key, peer, now);
        let of = |get: fn(&Got) -> u64| -> u64 {
            let receivers = self.peers.values().filter_map(|peer| peer.receiver.as_ref());
            receivers.map(|receiver| get(&receiver.got)).sum()
        };
        let sent =
            |get: fn(&Sent) -> u64| self.peers.values().map(|peer| get(&peer.sender.sent)).sum();
        let red = |of: fn(&Red) -> u64| {
            self.radios.iter().filter_map(|queue| queue.red.as_ref().map(of)).sum()
        };
        let counters = &self.counters;
        LinkStatus {
            kind: self.kind.into(),
            slots: Vec::new(),
            neighbours: self.peers.iter().map(neighbour).collect(),
            air: self.air.clone(),
            counters: named([
                ("units_sent", counters.units_sent),
                ("data_bytes", counters.data_bytes),
                ("pfec_bytes", counters.pfec_bytes),
                ("rfec_bytes", counters.rfec_bytes),
                ("pfec_wasted_bytes", of(|got| got.surplus[0])),
                ("rfec_wasted_bytes", of(|got| got.surplus[1])),
                ("packets_delivered", sent(|sent| sent.delivered)),
                ("packets_failed", sent(|sent| sent.failed)),
                ("bursts_of_packets", sent(|sent| sent.bursts)),
                ("packets_received", of(|got| got.packets)),
                ("decoded", of(|got| got.decoded)),
                ("decode_us", of(|got| got.decode_us)),
                ("order_us", of(|got| got.order_us)),
                ("refused", of(|got| got.refused)),
                ("late", of(|got| got.late)),
                ("impatient", of(|got| got.impatient)),
                ("malformed", counters.malformed + of(|got| got.malformed)),
                ("other_incarnation", counters.other_incarnation),
                ("feedback_sent", counters.feedback_sent),
                ("probes_sent", counters.probes_sent),
                ("frames_not_sent", counters.frames_not_sent),
                ("not_sealed", counters.not_sealed),
                ("overheard", counters.overheard),
                ("red_marked", red(|red| red.marked)),
                ("red_dropped", red(|red| red.dropped)),
            ]),
            drops: self.drops.clone(),
        }
    }
}

impl Harq {
    fn neighbour_status(&self, (radio, node): Key, peer: &Peer, now: Instant) -> NeighbourStatus {
        let waiting = self.radios.iter().flat_map(|queue| &queue.waiting);
        let waiting = waiting.filter(|packet| packet.to == Some(node) && packet.radio == radio);
        let estimate = &peer.sender.estimate;
        let settings = peer.sender.settings;
        let parity = match settings.scheme {
            Scheme::Parity { .. } => f64::from(estimate.parity()),
            Scheme::Repeat(_) => 0.0,
        };
        NeighbourStatus {
            kind: None,
            node,
            radio,
            up: peer.heard.is_some() && !peer.is_gone,
            heard_ago: peer.heard.map(|heard| now.since(heard)),
            sync_error_ns: None,
            loss: Some(estimate.mean()),
            loss_so_far: estimate.loss_so_far(),
            coding_rate: parity / (f64::from(settings.units) - parity),
            has_bursts: None,
            classes: Vec::new(),
            queue_packets: waiting.count() + peer.sender.len(),
            sent_bytes: peer.sender.sent.bytes,
            received_bytes: peer
                .receiver
                .as_ref()
                .map_or(0, |receiver: &Receiver| receiver.got.bytes),
            signal_dbm: peer.signal.map(|signal| signal.as_f64()),
            refused: peer.has_other_link.then(|| OTHER_LINK.into()),
        }
    }
}
