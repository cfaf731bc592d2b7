//! Pure protocol code: no clock, no socket, no thread, no ambient randomness.
//!
//! `base < wire < {link, routing, transport} < stack`: each uses only what is to its left, and the
//! three in braces do not use each other.

#![forbid(unsafe_code)]

pub mod base;
pub mod link;
pub mod routing;
pub mod stack;
pub mod transport;
pub mod wire;
