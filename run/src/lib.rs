//! farhop on an operating system: the only crate that touches it.

pub mod air;
pub mod blocks;
pub mod daemon;
pub mod device;
pub mod files;
pub mod keys;
pub mod lab;
pub mod lateness;
pub mod proxy;
pub mod sockets;
