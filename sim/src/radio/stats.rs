//! What one radio has counted.

use farhop_proto::base::Duration;
use serde::Serialize;

/// Counters of one radio since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ChipStats {
    /// Frames of the node that came to their end, whatever it was.
    pub frames: u64,
    /// Frames that were sent without asking for an acknowledgement.
    pub sent: u64,
    /// Frames that were acknowledged.
    pub acknowledged: u64,
    /// Frames that the receiver's link refused.
    pub refused: u64,
    /// Frames that were not acknowledged in any attempt.
    pub failures: u64,
    /// Frames given back because they could not end before their deadline.
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
    /// Acknowledgements received when none was awaited any more.
    pub acks_late: u64,
    /// Data frames for this node received without error, duplicates not included.
    pub received: u64,
    /// Data frames for others received without error.
    pub overheard: u64,
    /// Copies of a frame that was received before; acknowledged, not delivered.
    pub duplicates: u64,
    /// Frames that overlapped with another at this receiver and were lost.
    pub collisions: u64,
    /// Frames that were lost because this radio was transmitting while they arrived.
    pub missed: u64,
    /// Weaker frames that the reception of a stronger one outlived.
    pub captures: u64,
    /// Frames that the loss process of their link destroyed.
    pub lost: u64,
    /// Own time on air with data.
    pub air_data: Duration,
    /// Own time on air with acknowledgements.
    pub air_ack: Duration,
    /// Air time of the frames in `collisions` and `missed`.
    pub air_collided: Duration,
    /// Time with a signal at the antenna, own transmissions included; of finished busy periods.
    pub busy: Duration,
    /// Backoff slots drawn.
    pub backoff_slots: u64,
    /// Backoff drawn, as time.
    pub backoff: Duration,
}
