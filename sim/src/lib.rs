//! The radio model and the discrete-event simulator.

#![forbid(unsafe_code)]

pub mod adversary;
pub mod engine;
pub mod radio;
