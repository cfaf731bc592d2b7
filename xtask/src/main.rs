//! Checks and measurements of farhop that are not tests: `cargo xtask COMMAND`.
//!
//! Each command is a module; `main` only selects it.

#![forbid(unsafe_code)]

mod bench;
mod build;
mod conformance;
mod forward;
mod profile;
mod scratch;
mod swarm;
mod tidy;
mod validate;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};

/// Checks and measurements of farhop that are not tests.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measures the speed and the cost that farhop promises.
    Bench(bench::Options),
    /// Compares the simulator with the lab, scenario by scenario.
    Conformance(conformance::Options),
    /// Measures what it costs a daemon to forward blocks between two `udp` devices.
    Forward(forward::Options),
    /// Counts how often farhop takes each branch, for the optimisation of release builds.
    Profile,
    /// Runs random networks of block machines, with faults and oracles.
    Swarm(swarm::Options),
    /// Checks the ranks of crates and modules, sizes, names and leftovers.
    Tidy,
    /// Compares the simulator with theory, with ns-3 and with the kernel.
    Validate(validate::Options),
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    scratch::watch()?;
    match arguments.command {
        Command::Bench(options) => bench::run(&options).map(|()| ExitCode::SUCCESS),
        Command::Conformance(options) => conformance::run(&options).map(|()| ExitCode::SUCCESS),
        Command::Forward(options) => forward::run(&options).map(|()| ExitCode::SUCCESS),
        Command::Profile => profile::run(&workspace()?).map(|()| ExitCode::SUCCESS),
        Command::Swarm(options) => swarm::run(&options).map(|()| ExitCode::SUCCESS),
        Command::Tidy => tidy::run(&workspace()?),
        Command::Validate(options) => validate::run(&options, &workspace()?),
    }
}

/// The folder of the workspace, which is the parent of this crate's.
fn workspace() -> anyhow::Result<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(own.parent().context("xtask has to stand in the workspace")?.to_owned())
}
