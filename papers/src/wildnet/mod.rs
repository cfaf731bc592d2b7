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

use serde::Deserialize;

pub(crate) use self::lab::cases as lab_cases;
use crate::{Expected, Paper, Target};

/// The paper.
pub(crate) const PAPER: Paper = Paper {
    name: "wildnet",
    title: "WiLDNet: Design and Implementation of High Performance WiFi Based Long Distance \
            Networks (NSDI 2007)",
    targets,
    expected,
    calibration: network::CALIBRATION,
};

const ROWS: &str = include_str!("rows.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rows {
    row: Vec<Expected>,
}

fn expected() -> Vec<Expected> {
    let rows: Rows = toml::from_str(ROWS).expect("a test reads it");
    rows.row
}

fn targets() -> Vec<Target> {
    let limit = &[distance::LIMIT];
    let one = [single::TARGETS, distance::TARGETS, knobs::TARGETS, numbers::TARGETS].concat();
    let more = [relays::TARGETS, ripple::TARGETS, snoop::TARGETS, beyond::TARGETS].concat();
    [&one, &more, &limit[..]].concat()
}
