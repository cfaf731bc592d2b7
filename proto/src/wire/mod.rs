//! Frame and packet formats, one file for each, with golden bytes beside them.

pub mod blindfec;
pub mod bundle;
pub mod harq;
pub mod hop;
pub mod ieee80211;
pub mod ip;
pub mod olsr;
pub mod radiotap;
pub mod secure;
pub mod tcp;
pub mod udp;
pub mod wild;
