//! farhop on an operating system: devices, the daemon, sockets for programs, the emulated air and
//! the lab. The protocols (`farhop-proto`) and the simulator (`farhop-sim`) do without one.

pub mod air;
pub mod blocks;
pub mod daemon;
pub mod device;
pub mod files;
pub mod keys;
pub mod lab;
pub mod lateness;
mod netlink;
pub mod proxy;
pub mod sockets;
