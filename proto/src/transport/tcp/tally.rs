//! What one acknowledgement changes, collected while it is handled (the flags of `tcp_ack`).

use super::scoreboard::Segment;
use crate::base::Instant;

/// What one acknowledgement changed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) una_before: u64,
    pub(super) una_advanced: bool,
    /// Start of the highest segment that was sacked before.
    pub(super) highest_before: u64,
    /// Segments acknowledged cumulatively.
    pub(super) acked: u32,
    pub(super) delivered_before: u64,
    pub(super) lost_before: u64,
    /// Whether a segment that was never retransmitted was acknowledged, cumulatively or by SACK.
    pub(super) original: bool,
    pub(super) resent_acked: bool,
    pub(super) sacked: bool,
    pub(super) dsack: bool,
    pub(super) duplicate: bool,
    /// The acknowledgement came without data.
    pub(super) bare: bool,
    /// The acknowledgement is below an earlier one.
    pub(super) old: bool,
    /// Something was in flight when it came.
    pub(super) outstanding: bool,
    pub(super) resend_lost: bool,
    pub(super) keep_timer: bool,
    pub(super) echo_mark: bool,
    /// Start of the lowest segment that arrived and had been overtaken.
    pub(super) overtaken: Option<u64>,
    pub(super) first_acked: Option<Instant>,
    pub(super) last_acked: Option<Instant>,
    pub(super) first_sacked: Option<Instant>,
    pub(super) last_sacked: Option<Instant>,
    /// Segments that had been delivered when the latest of the delivered segments was sent.
    pub(super) prior_delivered: Option<u64>,
    pub(super) echo: Option<Instant>,
}

impl Tally {
    pub(super) fn on_delivered(&mut self, segment: &Segment) {
        let prior = self.prior_delivered.unwrap_or(0);
        self.prior_delivered = Some(prior.max(segment.delivered));
    }

    pub(super) fn overtake(&mut self, seq: u64) {
        self.overtaken = Some(self.overtaken.map_or(seq, |other| other.min(seq)));
    }
}
