//! A swarm: random networks of block machines, with every kind of fault, and oracles.
//!
//! | file | contents |
//! |---|---|
//! | `plan` | what is drawn: the links, the flows, and the faults with their times |
//! | `node` | a machine with its disk and its applications, as a daemon has them |
//! | `air` | time, and what happens to datagrams |
//!
//! During faults every block is delivered at most once, in order and unchanged, and no bound is
//! exceeded. Once all nodes and links are back, everything that was sent arrives, and then nobody
//! sends any more.

mod air;
mod node;
mod plan;

use std::fmt;

pub use plan::{Fault, FlowPlan, Plan};

/// What happened in a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Blocks that were sent and arrived.
    pub blocks: u64,
    /// Datagrams that were sent to a single neighbour.
    pub datagrams: u64,
    /// How often nodes restarted.
    pub restarts: u64,
    /// Time from the last fault until everything had arrived, in seconds.
    pub recovery_s: f64,
}

/// Why a run failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed, which repeats the run.
    pub seed: u64,
    /// The time of the failure, in seconds.
    pub at_s: f64,
    /// What went wrong.
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

/// Like [`run`], and also returns the last events.
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
