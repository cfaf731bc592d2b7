//! The shared vocabulary: time, names, units, randomness, the layer interface and what crosses it.

mod addr;
mod boundary;
mod id;
mod identity;
mod layer;
mod limit;
mod networks;
mod outcome;
pub mod phy;
mod prefix;
mod rng;
mod seq;
mod time;
mod trace;
mod units;
mod words;

pub use addr::{AddressPlan, Subnet};
pub use boundary::*;
pub use id::*;
pub use identity::{Identity, KeyError, LINE_PREFIX, PublicKey, SIGNATURE_BYTES};
pub use layer::*;
pub use limit::Limit;
pub use networks::{Network, NetworkId, Networks};
pub use outcome::{DropCause, FrameOutcome, PacketOutcome};
pub use phy::{
    AckRate, Band, Contention, Gap, GuardInterval, Phy, PhyKind, Preamble, RadioSpec, Width,
};
pub use prefix::{NoPrefix, Prefix};
pub use rng::{Rng, Seed};
pub use seq::Seq;
pub use time::{Duration, Instant, sooner};
pub use trace::Trace;
pub use units::{Bitrate, Dbm};
pub use words::counted;
