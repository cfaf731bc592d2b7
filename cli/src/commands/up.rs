//! `farhop up`: the daemon of one node.

use std::path::PathBuf;

use farhop_proto::link::secure::SecurityConfig;
use farhop_proto::stack::{DeviceConfig, Scenario};
use farhop_run::daemon::{self, DaemonOptions, Security};
use farhop_run::device::tun::check_name;
use farhop_run::files::state_dir;
use farhop_run::keys::{KeysStatus, NodeKeys, Store};

use crate::progress::tell;
use crate::{Failure, load};

/// What users are told of a security mode that only authenticates.
pub(crate) const READABLE: &str =
    "frames are authenticated, but whoever is in range can READ every frame (authenticate-only)";

/// What users are told of a shared key that has no effect.
pub(crate) const IDLE_PSK: &str =
    "the `psk` does NOTHING where security is off: take `mode = \"off\"` out, or the psk";

/// Runs the daemon of one node of a scenario until it is stopped.
///
/// Needs the right to create a TUN interface and, except for `udp` devices, to open raw sockets.
/// The first start creates the node's key. Frames are encrypted, and accepted only from nodes whose
/// keys are in the scenario or were trusted with `farhop keys trust`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    farhop up scenarios/up-udp.toml --node left\n  \
    farhop up link.toml --node hill --tun wlan-hill\n  \
    farhop up link.toml --node hill --keys /etc/farhop-hill\n\n\
SIGTERM, Ctrl-C and SIGHUP end it: the last comes when the session closes that started it,\n\
unless `nohup` or systemd started it. Nothing is reloaded: changed keys hold at once, and a\n\
changed scenario is another network, for which it is started anew. Put new nodes behind the\n\
others in it: what is kept here for or from a node that has another place then is given up.")]
pub(crate) struct Options {
    /// The scenario.
    file: PathBuf,
    /// The node of the scenario that this host is.
    #[arg(long)]
    node: String,
    /// Name of the TUN interface.
    #[arg(long, default_value = farhop_run::device::tun::NAME, value_parser = interface)]
    tun: String,
    /// Folder of the keys; by default /etc/farhop for root, else ~/.config/farhop.
    #[arg(long, value_name = "DIR")]
    keys: Option<PathBuf>,
    /// Folder of blocks and files in transit; by default /var/lib/farhop for root, else
    /// ~/.local/state/farhop.
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Folder for the control socket; by default /run/farhop for root, else
    /// $XDG_RUNTIME_DIR/farhop.
    #[arg(long, value_name = "DIR")]
    runtime_dir: Option<PathBuf>,
}

/// Parses the name of an interface.
fn interface(text: &str) -> Result<String, String> {
    check_name(text).map(|()| text.to_owned()).map_err(|error| error.to_string())
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let loaded = load::load_to_run(&options.file)?;
    let scenario = &loaded.scenario;
    // Unlike radios, UDP sockets do not disturb each other.
    let is_socket = |device: &DeviceConfig| matches!(device, DeviceConfig::Udp { .. });
    let only = load::simulated_only(scenario, |node| {
        node.all_devices().next().is_some() && node.all_devices().all(is_socket)
    });
    if let Some(why) = only {
        return Err(loaded.refuse_whole(why));
    }
    let mut daemon = DaemonOptions::from_scenario(scenario, &options.node)
        .map_err(|error| loaded.refuse_whole(format!("{error:#}")))?;
    daemon.security = security(options, scenario, &daemon)?;
    daemon.is_service = true;
    daemon.tun.clone_from(&options.tun);
    daemon.runtime_dir.clone_from(&options.runtime_dir);
    // Absolute, because clients that ask the daemon for it have other working directories.
    let state = std::path::absolute(options.state.clone().unwrap_or_else(state_dir));
    let told = |error| Failure::Failed(format!("--state: {error}"));
    daemon.state_dir = Some(state.map_err(told)?);
    Ok(daemon::run(daemon)?)
}

/// The keys of this node. Tells the user what to know about them and about the security mode.
fn security(
    options: &Options,
    scenario: &Scenario,
    daemon: &DaemonOptions,
) -> Result<Option<Security>, Failure> {
    let Some(config) = scenario.security.clone().filter(SecurityConfig::is_on) else {
        tell(&format!(
            "farhop: SECURITY IS OFF, as {} says: whoever is in range can read every frame, and \
             forge every frame",
            options.file.display()
        ));
        if scenario.security.as_ref().is_some_and(|off| off.psk.is_some()) {
            tell(&format!("farhop: {IDLE_PSK}"));
        }
        return Ok(None);
    };
    if config.is_readable() {
        tell(&format!("farhop: {READABLE}"));
    }
    let store = Store::open(options.keys.as_deref())?;
    let (identity, is_new) = store.own_or_new()?;
    let key = identity.public();
    let keys = NodeKeys::build(scenario, &daemon.plan, store);
    let status = keys.read(key)?;
    let made = if is_new { "made a new key" } else { "the key is" };
    tell(&format!("farhop: {made} in {}, fingerprint {}", status.folder, key.fingerprint()));
    for line in advice(&status, options) {
        tell(&format!("farhop: {line}"));
    }
    Ok(Some(Security { config, identity, keys }))
}

/// What the user must do so that this node and its neighbours accept each other's frames.
fn advice(status: &KeysStatus, options: &Options) -> Vec<String> {
    let mut lines = Vec::new();
    let folder = options.keys.as_ref().map(|dir| format!(" --keys {}", dir.display()));
    let folder = folder.unwrap_or_default();
    if let Some(first) = status.missing.first() {
        lines.push(format!(
            "no key is known of {}: `farhop keys` there prints it, and `farhop keys \
             trust{folder} LINE --name {first}` here trusts it, also while this runs",
            status.missing.join(", ")
        ));
    }
    if !status.revoked.is_empty() {
        lines.push(format!(
            "the scenario's key of {} was revoked here and is not used: put the new one there, or \
             `farhop keys trust{folder} LINE --name {}`, with --again if it is the old one",
            status.revoked.join(", "),
            status.revoked[0]
        ));
    }
    lines
}
