//! `cargo xtask swarm`: random networks of block machines, with faults and oracles.
//!
//! Each seed is one network ([`farhop_testkit::swarm`]). For a seed that fails, the command that
//! repeats it is printed.

use anyhow::{Result, ensure};
use clap::Args;
use farhop_proto::base::counted;
use farhop_testkit::swarm;

use crate::validate::workers;

/// Options of the command.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask swarm                       2,000 networks, about a minute\n  \
    cargo xtask swarm --seed 17             one again, with what was drawn")]
pub(crate) struct Options {
    /// Number of networks.
    #[arg(long, default_value_t = 2_000, conflicts_with = "seed")]
    count: u64,
    /// Seed of the first network.
    #[arg(long, default_value_t = 1, conflicts_with = "seed")]
    from: u64,
    /// Run only this seed, and print what was drawn and the last events.
    #[arg(long)]
    seed: Option<u64>,
}

/// Runs the networks; fails if an oracle was not satisfied.
pub(crate) fn run(options: &Options) -> Result<()> {
    if let Some(seed) = options.seed {
        println!("{:#?}", swarm::Plan::draw(seed));
        let (outcome, log) = swarm::replay(seed);
        log.iter().for_each(|line| println!("{line}"));
        println!("{:#?}", outcome.map_err(|failure| anyhow::anyhow!("{failure}"))?);
        return Ok(());
    }
    let seeds: Vec<u64> = (options.from..options.from + options.count).collect();
    let results = workers::map("networks", &seeds, |seed| swarm::run(*seed));
    let mut failures = 0;
    let (mut blocks, mut datagrams, mut restarts, mut recovery) = (0, 0, 0, Vec::new());
    for result in results {
        match result {
            Ok(outcome) => {
                blocks += outcome.blocks;
                datagrams += outcome.datagrams;
                restarts += outcome.restarts;
                recovery.push(outcome.recovery_s);
            }
            Err(failure) => {
                failures += 1;
                println!("{failure}\n  again: cargo xtask swarm --seed {}", failure.seed);
            }
        }
    }
    recovery.sort_by(f64::total_cmp);
    let longest = recovery.last().copied().unwrap_or(f64::NAN);
    println!(
        "{}: {}, each delivered once, in order and unchanged; {}, {}; after the last fault all \
         had come in {:.1} s (median) and {longest:.1} s (longest)",
        counted(recovery.len(), "network"),
        counted(blocks, "block"),
        counted(datagrams, "datagram"),
        counted(restarts, "restart"),
        workers::median(&recovery),
    );
    ensure!(failures == 0, "{} failed", counted(failures, "network"));
    Ok(())
}
