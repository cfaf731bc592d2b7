//! Strangers in the air: what `[[adversary]]` of a scenario sends, and when.
//!
//! A [`Stranger`] is told what its radio hears and says what goes out next. It knows no medium and
//! no stack, so that the simulator and the lab drive the same one. It sends at times of its own
//! draws: each gap is exponential around the frame before it, so that the share of the time on air
//! is the `duty` asked for. What it remembers is bounded.
//!
//! [`Script`] repeats a list of transmissions with nothing in them: the same times, lengths and
//! rates as mere noise, for comparison.

mod forge;
mod genuine;
mod memory;
mod place;
mod revoked;
mod script;
mod source;
mod stranger;
mod under_way;

use bytes::Bytes;
use farhop_proto::base::phy::mpdu_bytes;
use farhop_proto::base::{Bitrate, Duration, EtherType, NodeId, Phy};
use farhop_proto::stack::AdversaryKind;

pub use genuine::Genuine;
pub use place::{Placed, place};
pub use revoked::OldKey;
pub use script::{Script, Sent};
pub use source::Source;
pub use stranger::{Setup, Stranger};
pub use under_way::UnderWay;

/// A frame as a stranger heard it, or as it sends one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The transmitter that the header names.
    pub from: NodeId,
    /// The receiver, or `None` for broadcast.
    pub to: Option<NodeId>,
    /// What the payload is.
    pub protocol: EtherType,
    /// What follows the LLC/SNAP header.
    pub payload: Bytes,
    /// Bit-rate.
    pub rate: Bitrate,
}

/// A frame that a stranger sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shot {
    /// What it is meant to do; nothing of a script, which only makes noise.
    pub kind: Option<AdversaryKind>,
    /// The frame.
    pub frame: Record,
    /// How long it is on air.
    pub air_time: Duration,
}

/// How long a frame without acknowledgement is on air.
fn air_time(phy: &Phy, payload: usize, rate: Bitrate) -> Duration {
    phy.air_time(mpdu_bytes(true, payload), rate)
}
