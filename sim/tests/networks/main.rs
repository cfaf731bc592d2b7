//! Whole networks in the simulator. One program: each one more would be linked by itself.

mod adversary;
mod aggregates;
mod air_time;
mod applications;
mod blocks;
mod classes;
mod harq;
mod hidden;
mod keys;
mod lesser;
mod losses;
mod mac;
mod olsr;
mod promises;
mod queues;
mod relayed;
mod slots;
mod space;
mod stars;
mod tree;
mod wires;

use farhop_sim::engine::{Report, RunOptions, run};

/// What came of a scenario that has no problems.
fn report(text: &str) -> Report {
    let scenario = farhop_testkit::scenario(text);
    assert_eq!(scenario.problems(), []);
    run(&scenario, RunOptions::default()).expect("a run")
}
