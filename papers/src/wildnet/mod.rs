//! WiLDNet, NSDI 2007: long links in time slots (`wildnet.md`; targets W-* of `targets.md`).

mod beyond;
mod distance;
mod knobs;
mod lab;
mod network;
mod numbers;
mod relays;
mod ripple;
mod single;
mod snoop;

pub(crate) use self::lab::cases as lab_cases;
use crate::{Paper, Target};

/// The paper.
pub(crate) const PAPER: Paper = Paper {
    name: "wildnet",
    title: "WiLDNet: Design and Implementation of High Performance WiFi Based Long Distance \
            Networks (NSDI 2007)",
    targets,
    rows: include_str!("rows.toml"),
    calibration: network::CALIBRATION,
};

fn targets() -> Vec<Target> {
    let limit = &[distance::LIMIT];
    let one = [single::TARGETS, distance::TARGETS, knobs::TARGETS, numbers::TARGETS].concat();
    let more = [relays::TARGETS, ripple::TARGETS, snoop::TARGETS, beyond::TARGETS].concat();
    [&one, &more, &limit[..]].concat()
}
