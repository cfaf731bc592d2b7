//! The radio model: 802.11 chips, the air between them, and the losses on it (`radio.md` 1, 2, 4,
//! 5, 7, 8).
//!
//! [`Medium`] is a self-contained discrete-event model that knows nothing of nodes and stacks:
//! frames go in through [`Medium::handle_frame`], reports of the radios come out of
//! [`Medium::poll_event`], and the caller advances time step by step to [`Medium::poll_timeout`].
//! The same object runs in virtual time or paced by a clock. All times are true time.
//!
//! Modelled, with the timing arithmetic of [`farhop_proto::base::phy`] in nanoseconds:
//! - DCF: DIFS and EIFS, backoff that freezes and resumes, post-backoff, the contention window,
//!   acknowledgements after SIFS, the acknowledgement time-out, retries, duplicates, NAV;
//! - EDCA: four access categories with internal collisions, and TXOPs; RTS and CTS, and CTS-to-self
//!   before OFDM; A-MPDUs with block acknowledgements, whose frames are delivered in order;
//! - rate control for each neighbour;
//! - frames without acknowledgement after a configurable gap, and radios without carrier sense;
//! - propagation: a frame begins and ends at each hearer after the delay of its link, so carrier
//!   sense reacts late and an acknowledgement may arrive too late;
//! - reception: half duplex, and either the threshold capture of ns-2 (`radio.md` 4.1) or summed
//!   interference (4.2), see [`Interference`];
//! - wires, whose frames follow each other at the rate of the line;
//! - loss processes on each direction of each link, for data and acknowledgements alike.
//!
//! Choices where `radio.md` leaves things open: the interframe space after a missing
//! acknowledgement begins when the sender notices that it is missing (as in IEEE 802.11-2012
//! 9.19.2.3), which is the acknowledgement time-out plus the PHY's rx-start delay after the end of
//! the frame. The receiver never locked on to a frame that was hit in its first 4 us. Frames for a
//! node are addressed to the first of its radios that the transmitter has a link to on its channel.

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
