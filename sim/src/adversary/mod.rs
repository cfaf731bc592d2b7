//! Strangers: what the `[[adversary]]` entries of a scenario send, and when.
//!
//! A [`Stranger`] gets the frames that its radio hears, and decides what to send next. It knows no
//! medium and no stack, so the simulator and the lab use the same one. The gap after each frame is
//! drawn from an exponential distribution in proportion to that frame, so that its share of air
//! time is the `duty` of the scenario. Its memory is bounded.
//!
//! [`Script`] repeats recorded transmissions without their contents: noise of the same times,
//! lengths and rates, for comparison.

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

/// A frame that a stranger heard, or that it sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The transmitter that the header names.
    pub from: NodeId,
    /// The receiver, or `None` for broadcast.
    pub to: Option<NodeId>,
    /// EtherType of the payload.
    pub protocol: EtherType,
    /// The bytes that follow the LLC/SNAP header.
    pub payload: Bytes,
    /// Bit-rate.
    pub rate: Bitrate,
}

/// A frame that a stranger sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shot {
    /// Its kind of attack; `None` for a script, which only makes noise.
    pub kind: Option<AdversaryKind>,
    /// The frame.
    pub frame: Record,
    /// Air time.
    pub air_time: Duration,
}

/// Air time of a frame without acknowledgement.
fn air_time(phy: &Phy, payload: usize, rate: Bitrate) -> Duration {
    phy.air_time(mpdu_bytes(true, payload), rate)
}
