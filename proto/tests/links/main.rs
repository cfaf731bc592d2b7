//! Links and what they keep, without a simulator. One program: each one more would be linked by
//! itself.

mod airtime_ns3;
mod blindfec;
mod harq;
mod link_laws;
mod plain;
mod too_long;
mod two_p;
mod wild;
mod wild_tree;
