//! What becomes of frames and packets.

use serde::{Deserialize, Serialize};

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FrameOutcome {
    /// Sent; nobody was asked to acknowledge.
    Sent,
    /// Acknowledged, with the bits of the acknowledgement.
    Acked(u16),
    /// Refused by the receiver's link (SAFE), with the bits of the answer.
    Nacked(u16),
    /// Not acknowledged in any attempt.
    Failed,
    /// Taken back before it went on air.
    Cancelled,
    /// Its end would have passed its deadline, so the driver did not send it, or not once more.
    Late,
    /// Longer than the device takes: it was not sent, and would not be if it came again.
    TooLong,
    /// No status came in time; whether it was sent is not known.
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
    /// Sent without asking for an acknowledgement.
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
    /// RED dropped it, long before its queue was full.
    Early,
    /// No route to the destination.
    NoRoute,
    /// Its destination is no address of the network of the nodes.
    Foreign,
    /// Hop limit reached zero.
    HopLimit,
    /// All retries were used.
    Retries,
    /// Not a well-formed unit.
    Malformed,
    /// Longer than the path takes.
    TooLong,
}
