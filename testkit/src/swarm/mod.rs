//! A swarm: networks of block machines drawn by lot, with all the harm that can be done to them,
//! and oracles.
//!
//! | file | what stands there |
//! |---|---|
//! | `plan` | what is drawn: who is linked with whom, what is sent, what goes wrong and when |
//! | `node` | a machine with its disk and its applications, as a daemon has them |
//! | `air` | time, and what happens to datagrams |
//!
//! While there is harm every block is delivered at most once, in order and unchanged, and no bound
//! is passed. When all nodes and links are back, all that was sent arrives, and then nobody sends
//! anything any more.

mod air;
mod node;
mod plan;

use std::fmt;

pub use plan::{Fault, FlowPlan, Plan};

/// What a run of a swarm did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Blocks that were sent and came.
    pub blocks: u64,
    /// Datagrams on the air.
    pub datagrams: u64,
    /// Times that a node began anew.
    pub restarts: u64,
    /// How long it took after the last fault until all had come, in seconds.
    pub recovery_s: f64,
}

/// What went wrong in a run.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed of the run, which does it again.
    pub seed: u64,
    /// When, in seconds.
    pub at_s: f64,
    /// What.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {} at {:.3} s: {}", self.seed, self.at_s, self.what)
    }
}

/// Draws a network and runs it to its end.
///
/// # Errors
///
/// An oracle was not satisfied.
pub fn run(seed: u64) -> Result<Outcome, Box<Failure>> {
    run_with(seed, false).0
}

/// The same, with the last things that happened in it.
pub fn replay(seed: u64) -> (Result<Outcome, Box<Failure>>, Vec<String>) {
    run_with(seed, true)
}

fn run_with(seed: u64, has_log: bool) -> (Result<Outcome, Box<Failure>>, Vec<String>) {
    let plan = Plan::draw(seed);
    let mut air = air::Air::build(&plan, seed);
    if has_log {
        air.keep_log();
    }
    let (outcome, at_s) = (air.run(), air.now_s());
    let outcome = outcome.map_err(|what| Box::new(Failure { seed, at_s, what }));
    (outcome, air.log())
}

#[cfg(test)]
mod tests {
    #[test]
    fn networks_drawn_by_lot_deliver_every_block_once() {
        for seed in 1..=40 {
            let outcome = super::run(seed).unwrap_or_else(|failure| panic!("{failure}"));
            assert!(outcome.blocks > 0);
        }
    }
}
