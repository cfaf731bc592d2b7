//! The radio model: 802.11 chips, the air between them, and what gets lost in it (`radio.md` 1, 2,
//! 4, 5, 7, 8).
//!
//! [`Medium`] is a discrete-event model of its own that knows nothing of nodes and stacks: frames
//! go in with [`Medium::handle_frame`], what the radios report comes out of
//! [`Medium::poll_event`], and between them time passes in steps to [`Medium::poll_timeout`]. The
//! same object runs in virtual time and paced by a clock. All times are true time.
//!
//! What is modelled, each to the nanosecond of the arithmetic in [`farhop_proto::base::phy`]:
//! - DCF: DIFS and EIFS, backoff that freezes and resumes, post-backoff, the contention window,
//!   acknowledgements after SIFS, the time-out for them, retries, duplicates, NAV;
//! - EDCA: four access categories with internal collisions, and TXOPs; RTS and CTS, and a CTS to
//!   oneself before OFDM; A-MPDUs with block acknowledgements, whose frames go up in order;
//! - the choice of the bit-rate per neighbour;
//! - frames without acknowledgement after a gap of choice, and radios without carrier sense;
//! - propagation: a frame begins and ends at each hearer after the delay of its link, so that
//!   carrier sense comes late and an acknowledgement may come too late;
//! - reception: half duplex, and the threshold capture of ns-2 (`radio.md` 4.1): a frame survives
//!   a later one that is weaker by `capture_db`, any other overlap destroys both, and the receiver
//!   is occupied until the later end;
//! - wires, whose frames follow each other at the rate of the line;
//! - loss processes on each direction of each link, for data and acknowledgements alike.
//!
//! Choices where the sheet is open: the interframe space after a missing acknowledgement begins
//! when the sender notices (as IEEE 802.11-2012 9.19.2.3 has it), which is the time-out
//! and the PHY's delay to tell of a frame after the frame's end. A frame hit in its first 4 us was
//! never locked on to. A frame is addressed to the first radio of the node that the transmitter has
//! a link to.

mod access;
mod aggregate;
mod air;
mod chip;
mod config;
mod edcaf;
mod error;
mod exchange;
mod heard;
mod inject;
mod links;
mod loss;
mod medium;
mod plan;
mod power;
mod queue;
mod rate;
mod reception;
mod recipient;
mod respond;
mod stats;
#[cfg(test)]
mod tests;
mod transmission;
mod wire;

pub use config::{AcParams, AirLink, ChipConfig, EifsRule, Interference, MediumConfig};
pub use heard::Arrival;
pub use inject::Injected;
pub use loss::{
    Burst, Drift, ErrorRuns, Exposed, Fate, FateRecord, Interferer, LossModel, LossProcess,
    Modulated,
};
pub(crate) use medium::FEW;
pub use medium::{Medium, MediumEvent};
pub use queue::EventQueue;
pub use stats::{ChipStats, LinkAir};
pub use transmission::{Answer, Mpdu, Transmission, TransmissionKind};
