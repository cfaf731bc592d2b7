//! Counters of radios.

use std::collections::BTreeMap;

use farhop_proto::base::{Duration, Name, NodeId, RadioId};
use serde::{Deserialize, Serialize};

/// Counters of one radio since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChipStats {
    /// Frames of the node that have ended, with any outcome.
    pub frames: u64,
    /// Frames that were sent without asking for an acknowledgement.
    pub sent: u64,
    /// Frames that were acknowledged.
    pub acknowledged: u64,
    /// Frames that the receiver's link refused.
    pub refused: u64,
    /// Frames that were not acknowledged in any attempt.
    pub failures: u64,
    /// Frames that ended because they could not be sent before their deadline.
    pub late: u64,
    /// Frames taken back before they were on air.
    pub cancelled: u64,
    /// Transmissions of data frames, the first and the repeated ones.
    pub attempts: u64,
    /// Transmissions after the first of a frame.
    pub retries: u64,
    /// Acknowledgements sent.
    pub acks_sent: u64,
    /// Acknowledgements that were due while the radio was transmitting, and so not sent.
    pub acks_suppressed: u64,
    /// Acknowledgements received in time.
    pub acks_received: u64,
    /// Acknowledgements and block acknowledgements received when none was awaited any more.
    pub acks_late: u64,
    /// Data frames for this node received without error, duplicates not included.
    pub received: u64,
    /// Data frames for others received without error.
    pub overheard: u64,
    /// Copies of a frame that was received before; acknowledged, not delivered.
    pub duplicates: u64,
    /// Frames that overlapped with another at this receiver and were lost.
    pub collisions: u64,
    /// Frames that were lost because this radio, or another one of its node, was transmitting.
    pub missed: u64,
    /// Weaker frames that the reception of a stronger one survived.
    pub captures: u64,
    /// Frames that a driver dropped after the card had received them.
    pub driver_drops: u64,
    /// Transmissions whose preamble the loss process of their link destroyed.
    pub lost_preambles: u64,
    /// Frames that the loss process of their link destroyed.
    pub lost: u64,
    /// RTS sent.
    pub rts_sent: u64,
    /// CTS sent, to others and to oneself.
    pub cts_sent: u64,
    /// CTS received in time.
    pub cts_received: u64,
    /// RTS that no CTS answered.
    pub cts_missing: u64,
    /// RTS of others that nothing followed, so that their NAV was reset.
    pub nav_resets: u64,
    /// Attempts that collided inside the radio: a higher access category sent at that moment.
    pub internal_collisions: u64,
    /// Exchanges that continued a TXOP without contention.
    pub bursts: u64,
    /// A-MPDUs sent.
    pub aggregates: u64,
    /// Frames in them, repeated ones included.
    pub aggregated: u64,
    /// Block acknowledgements sent.
    pub block_acks_sent: u64,
    /// Block acknowledgements received in time.
    pub block_acks_received: u64,
    /// Requests for a block acknowledgement sent.
    pub block_ack_requests: u64,
    /// Air time of own data transmissions.
    pub air_data: Duration,
    /// The part of it that repeated transmissions took.
    pub air_retries: Duration,
    /// Air time of own acknowledgements.
    pub air_ack: Duration,
    /// Air time of own RTS, CTS and block acknowledgement requests.
    pub air_control: Duration,
    /// Air time of the frames in `collisions` and `missed`.
    pub air_collided: Duration,
    /// Time in which the medium was busy, own transmissions included; finished busy periods only.
    pub busy: Duration,
    /// Backoff slots drawn.
    pub backoff_slots: u64,
    /// Backoff slots drawn, as a duration.
    pub backoff: Duration,
}

impl ChipStats {
    /// Every counter by its name; times in microseconds.
    pub fn counters(&self) -> BTreeMap<Name, u64> {
        // In the order of their names, so that the map has nothing to sort.
        let counters = [
            ("acknowledged", self.acknowledged),
            ("acks_late", self.acks_late),
            ("acks_received", self.acks_received),
            ("acks_sent", self.acks_sent),
            ("acks_suppressed", self.acks_suppressed),
            ("aggregated", self.aggregated),
            ("aggregates", self.aggregates),
            ("air_ack_us", self.air_ack.as_micros()),
            ("air_collided_us", self.air_collided.as_micros()),
            ("air_control_us", self.air_control.as_micros()),
            ("air_data_us", self.air_data.as_micros()),
            ("air_retries_us", self.air_retries.as_micros()),
            ("attempts", self.attempts),
            ("backoff_slots", self.backoff_slots),
            ("backoff_us", self.backoff.as_micros()),
            ("block_ack_requests", self.block_ack_requests),
            ("block_acks_received", self.block_acks_received),
            ("block_acks_sent", self.block_acks_sent),
            ("bursts", self.bursts),
            ("busy_us", self.busy.as_micros()),
            ("cancelled", self.cancelled),
            ("captures", self.captures),
            ("collisions", self.collisions),
            ("cts_missing", self.cts_missing),
            ("cts_received", self.cts_received),
            ("cts_sent", self.cts_sent),
            ("driver_drops", self.driver_drops),
            ("duplicates", self.duplicates),
            ("failures", self.failures),
            ("frames", self.frames),
            ("internal_collisions", self.internal_collisions),
            ("late", self.late),
            ("lost", self.lost),
            ("lost_preambles", self.lost_preambles),
            ("missed", self.missed),
            ("nav_resets", self.nav_resets),
            ("overheard", self.overheard),
            ("received", self.received),
            ("refused", self.refused),
            ("retries", self.retries),
            ("rts_sent", self.rts_sent),
            ("sent", self.sent),
        ];
        counters.into_iter().map(|(name, count)| (Name::Borrowed(name), count)).collect()
    }

    /// Sums of the counters of two radios.
    pub fn plus(mut self, other: &Self) -> Self {
        let mine = [
            (&mut self.frames, other.frames),
            (&mut self.sent, other.sent),
            (&mut self.acknowledged, other.acknowledged),
            (&mut self.refused, other.refused),
            (&mut self.failures, other.failures),
            (&mut self.late, other.late),
            (&mut self.cancelled, other.cancelled),
            (&mut self.attempts, other.attempts),
            (&mut self.retries, other.retries),
            (&mut self.acks_sent, other.acks_sent),
            (&mut self.acks_suppressed, other.acks_suppressed),
            (&mut self.acks_received, other.acks_received),
            (&mut self.acks_late, other.acks_late),
            (&mut self.received, other.received),
            (&mut self.overheard, other.overheard),
            (&mut self.duplicates, other.duplicates),
            (&mut self.collisions, other.collisions),
            (&mut self.missed, other.missed),
            (&mut self.captures, other.captures),
            (&mut self.lost, other.lost),
            (&mut self.lost_preambles, other.lost_preambles),
            (&mut self.driver_drops, other.driver_drops),
            (&mut self.backoff_slots, other.backoff_slots),
            (&mut self.rts_sent, other.rts_sent),
            (&mut self.cts_sent, other.cts_sent),
            (&mut self.cts_received, other.cts_received),
            (&mut self.cts_missing, other.cts_missing),
            (&mut self.nav_resets, other.nav_resets),
            (&mut self.internal_collisions, other.internal_collisions),
            (&mut self.bursts, other.bursts),
            (&mut self.aggregates, other.aggregates),
            (&mut self.aggregated, other.aggregated),
            (&mut self.block_acks_sent, other.block_acks_sent),
            (&mut self.block_acks_received, other.block_acks_received),
            (&mut self.block_ack_requests, other.block_ack_requests),
        ];
        for (mine, other) in mine {
            *mine += other;
        }
        self.air_data += other.air_data;
        self.air_retries += other.air_retries;
        self.air_ack += other.air_ack;
        self.air_control += other.air_control;
        self.air_collided += other.air_collided;
        self.busy += other.busy;
        self.backoff += other.backoff;
        self
    }
}

/// Air time on a link that the outcomes of its frames do not include.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkAir {
    /// The sending node and its radio.
    pub from: (NodeId, RadioId),
    /// The receiving node and its radio.
    pub to: (NodeId, RadioId),
    /// Air time of the receiver's answers to frames over the link.
    pub answered: Duration,
    /// Air time of frames for the receiver that collided there.
    pub collided: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_of_a_radio_is_explained() {
        let text = include_str!("../../../docs/counters.md");
        let (_, radios) = text.split_once("## Radios of the simulator").expect("they have a part");
        for name in ChipStats::default().counters().keys() {
            assert!(radios.contains(&format!("| `{name}` |")), "{name}");
        }
    }
}
