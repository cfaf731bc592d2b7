//! The radio model and the discrete-event simulator of farhop.

#![forbid(unsafe_code)]

pub mod adversary;
pub mod engine;
pub mod radio;
