//! Frame and packet formats, one file each, with golden bytes beside them.

pub mod ip;
pub mod tcp;
pub mod udp;
