//! Hop, NSDI 2009: blocks that are made reliable hop by hop (`hop.md`; targets H-* of
//! `targets.md`).

mod beyond;
mod five_hops;
mod gateway;
mod many;
mod network;
mod numbers;
mod one_hop;
mod partition;
mod testbed;

use crate::{Paper, Target};

/// The paper.
pub(crate) const PAPER: Paper = Paper {
    name: "hop",
    title: "Block-switched Networks: A New Paradigm for Wireless Transport (NSDI 2009)",
    targets,
    rows: include_str!("rows.toml"),
    calibration: network::CALIBRATION,
};

fn targets() -> Vec<Target> {
    let few = [numbers::TARGETS, one_hop::TARGETS, five_hops::TARGETS, partition::TARGETS].concat();
    [&few[..], many::TARGETS, gateway::TARGETS, beyond::TARGETS].concat()
}
