//! What becomes of frames and packets.

use serde::{Deserialize, Serialize};

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FrameOutcome {
    /// Sent; no acknowledgement was expected.
    Sent,
    /// Acknowledged, with the bits of the acknowledgement.
    Acked(u16),
    /// Refused by the receiver's link (SAFE), with the bits of the answer.
    Nacked(u16),
    /// Not acknowledged in any attempt.
    Failed,
    /// Cancelled before it was on air.
    Cancelled,
    /// Its end would have passed its deadline, so the driver did not send it, or did not retry.
    Late,
    /// Longer than the device accepts: it was not sent, and never can be.
    TooLong,
    /// No status arrived in time; whether it was sent is unknown.
    Unknown,
}

impl FrameOutcome {
    /// Whether the frame went out, as far as is known.
    pub const fn went_out(self) -> bool {
        !matches!(self, Self::Cancelled | Self::Late | Self::TooLong)
    }
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PacketOutcome {
    /// The neighbour has it.
    Delivered,
    /// Sent without an acknowledgement being expected.
    Sent,
    /// Given up.
    Failed,
}

/// Why a unit was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DropCause {
    /// A queue was full.
    QueueFull,
    /// RED dropped it before the queue was full.
    Early,
    /// No route to the destination.
    NoRoute,
    /// Its destination is neither the address of a node nor in a network behind one.
    Foreign,
    /// The hop limit reached zero.
    HopLimit,
    /// All retries failed.
    Retries,
    /// Not a well-formed unit.
    Malformed,
    /// Longer than the path allows.
    TooLong,
}
