//! Pure protocol code: no clock, no socket, no thread, no ambient randomness.
//!
//! `base < wire < {link, routing, transport} < stack`; the three in braces do not see each other.

#![forbid(unsafe_code)]

pub mod base;
pub mod link;
pub mod routing;
pub mod stack;
pub mod transport;
pub mod wire;
