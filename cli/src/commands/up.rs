//! `farhop up`: the daemon of one node.

use std::path::PathBuf;

use farhop_run::daemon::{self, DaemonOptions};

use crate::{Failure, load};

/// Runs the daemon of one node of a scenario until it is stopped.
///
/// Needs the right to make a TUN interface and, except for `udp` devices, to open raw sockets.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    farhop up mesh.toml --node hill\n  \
    farhop up mesh.toml --node hill --tun wlan-hill\n\n\
Frames are not encrypted or authenticated yet: do not run it where strangers can reach the radio.")]
pub(crate) struct Options {
    /// The scenario.
    file: PathBuf,
    /// The node that this host is.
    #[arg(long)]
    node: String,
    /// Name of the TUN interface.
    #[arg(long, default_value = farhop_run::device::tun::NAME)]
    tun: String,
    /// Folder for the control socket.
    #[arg(long, value_name = "DIR")]
    runtime_dir: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let loaded = load::load(&options.file)?;
    load::refuse_for_devices(&loaded.scenario)?;
    let mut daemon =
        DaemonOptions::from_scenario(&loaded.scenario, &options.node).map_err(|error| {
            Failure::Input(miette::miette!("{}: {error:#}", options.file.display()))
        })?;
    daemon.tun.clone_from(&options.tun);
    daemon.runtime_dir.clone_from(&options.runtime_dir);
    Ok(daemon::run(daemon)?)
}
