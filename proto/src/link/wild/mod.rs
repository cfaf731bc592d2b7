//! WiLDNet's link: time slots, bulk acknowledgement, adaptive erasure coding (`wildnet.md`).

mod config;

pub use config::{InOrder, Recovery, WildConfig};
