//! `farhop proxy` and `farhop exit`: carry TCP connections of other programs over block transport.

use std::net::Shutdown;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use farhop_proto::base::Prefix;
use farhop_run::daemon::query;
use farhop_run::device::os::ask_for_descriptors;
use farhop_run::proxy::{
    Allowed, Entry, Exit, Exits, Forward, Place, Redirect, Rules, Targets, has_route,
};
use farhop_run::sockets::client::Daemon;

use super::daemons::{Wanted, check_node, only, statuses};
use super::print_text;
use crate::progress::tell;
use crate::{Failure, interrupt};

/// How often a waiting command checks for Ctrl-C.
const TICK: Duration = Duration::from_millis(100);

/// Carries TCP connections of other programs over blocks to a node where `farhop exit` runs.
///
/// Programs use it as a SOCKS 5 proxy (--socks), through a port with a fixed target (--forward), or
/// without knowing of it (--transparent, which needs root and nftables). Host names that a SOCKS
/// client sends are resolved at the exit. If the exit is gone, the connection is reset.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    farhop proxy --exit valley --socks 1080        curl --socks5-hostname localhost:1080 URL\n  \
    farhop proxy --exit valley --forward 2222=10.1.2.3:22\n  \
    farhop proxy --exit 10.0.0.0/8=valley --exit gw --transparent\n  \
    farhop proxy --clean                           removes what a killed proxy redirected")]
pub(crate) struct ProxyOptions {
    /// The node that runs the exit, for all targets or for those in PREFIX. Host names use the exit
    /// for all targets, and have none without one. May be given several times.
    #[arg(long, value_name = "[PREFIX=]NODE", required_unless_present = "clean")]
    exit: Vec<String>,
    /// Accept SOCKS 5 clients at this port; from this host only, unless an address is given. May be
    /// given several times.
    #[arg(long, value_name = "[ADDRESS:]PORT")]
    socks: Vec<Place>,
    /// Forward connections to this port to a fixed target. May be given several times.
    #[arg(long, value_name = "[ADDRESS:]PORT=HOST:PORT")]
    forward: Vec<Forward>,
    /// Redirect all TCP connections for which there is an exit, also those that this host routes
    /// for others; but not those to farhop's own network or to this host.
    #[arg(long)]
    transparent: bool,
    /// Remove the redirections that killed proxies left behind, and end.
    #[arg(long)]
    clean: bool,
    /// Most connections at a time.
    #[arg(long, default_value = "512", value_name = "COUNT")]
    #[arg(value_parser = super::how_many, allow_negative_numbers = true)]
    limit: NonZeroUsize,
    #[command(flatten)]
    daemon: DaemonOptions,
}

/// Connects the streams of other nodes' proxies to their targets, until it is interrupted.
///
/// Without --allow every target is allowed, except addresses that only mean something on this host
/// or its local network: loopback, link-local, multicast. With --allow only the given targets are
/// allowed; one of these special addresses then needs a PREFIX of its own, as a wider prefix does
/// not include it.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    farhop exit\n  \
    farhop exit --allow 10.0.0.0/8 --allow any:443\n  \
    farhop exit --allow 127.0.0.1:8080     a server on this host alone")]
pub(crate) struct ExitOptions {
    /// A target to allow; `any` stands for all prefixes. With a port, an IPv6 prefix is in
    /// brackets: `[2001:db8::1]:22`. May be given several times.
    #[arg(long, value_name = "PREFIX[:PORT]")]
    allow: Vec<Allowed>,
    /// Most connections at a time.
    #[arg(long, default_value = "512", value_name = "COUNT")]
    #[arg(value_parser = super::how_many, allow_negative_numbers = true)]
    limit: NonZeroUsize,
    #[command(flatten)]
    daemon: DaemonOptions,
}

/// Selects the daemon that carries the streams.
#[derive(clap::Args)]
struct DaemonOptions {
    /// Node of the daemon to use, if several run here; within `farhop lab exec` by default that
    /// node.
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// Look for the daemon's control socket in this folder only.
    #[arg(long, value_name = "DIR")]
    runtime_dir: Option<PathBuf>,
}

impl DaemonOptions {
    fn wanted(&self) -> Wanted<'_> {
        let (node, runtime_dir) = (self.node.as_deref(), self.runtime_dir.as_deref());
        Wanted { node, lab: None, runtime_dir }
    }

    fn find(&self) -> Result<Daemon, Failure> {
        only(self.wanted()).map(Daemon::at)
    }
}

fn failed(error: &dyn std::fmt::Display) -> Failure {
    Failure::Failed(error.to_string())
}

pub(crate) fn proxy(options: &ProxyOptions) -> Result<(), Failure> {
    interrupt::watch();
    // Before anything else can fail: redirections of a killed proxy lead connections nowhere.
    let removed = Redirect::clean().map_err(|error| failed(&error));
    if options.clean {
        print_text(&format!("tables of killed proxies that were removed: {}", removed?))?;
        return Ok(());
    }
    if options.transparent {
        removed?;
    }
    if options.socks.is_empty() && options.forward.is_empty() && !options.transparent {
        let ways = "--socks PORT, --forward PORT=HOST:PORT or --transparent";
        return Err(Failure::input(format!("nothing to take: give {ways}")));
    }
    let exits = Exits::read(options.exit.iter().map(String::as_str));
    let exits = exits.map_err(|error| Failure::input(error.to_string()))?;
    let daemon = options.daemon.find()?;
    let status = query(daemon.path()).map_err(|error| failed(&error))?;
    check_exits(&exits, &status)?;
    ask_for_descriptors();
    let entry = Entry::build(daemon, exits.clone(), options.limit.get());
    let taken = |what: &dyn std::fmt::Display, error: std::io::Error| {
        Failure::Failed(format!("cannot take connections at {what}: {error}"))
    };
    for place in &options.socks {
        let bound = entry.take_socks(*place).map_err(|error| taken(place, error))?;
        print_text(&format!("SOCKS 5 at {bound}"))?;
    }
    for forward in &options.forward {
        let (place, target) = (forward.place, forward.target.clone());
        let bound = entry.take_forward(forward.clone()).map_err(|error| taken(&place, error))?;
        print_text(&format!("{target} at {bound}"))?;
    }
    let redirect = options.transparent.then(|| redirect(options, &entry, &exits)).transpose()?;
    while !interrupt::has_come() {
        thread::sleep(TICK);
    }
    if redirect.is_some() {
        entry.reset_redirected();
    }
    drop(redirect);
    Err(Failure::Interrupted)
}

/// Refuses exits that the daemon with this status can never reach: nodes that are not in its
/// scenario, and its own node.
fn check_exits(exits: &Exits, status: &serde_json::Value) -> Result<(), Failure> {
    exits.nodes().try_for_each(|node| check_node(node, status))
}

fn redirect(options: &ProxyOptions, entry: &Entry, exits: &Exits) -> Result<Redirect, Failure> {
    let port = entry.take_redirected()?;
    let targets = targets(options, exits)?;
    for process in Redirect::others().map_err(|error| failed(&error))? {
        tell(&format!(
            "farhop: process {process} redirects TCP of this host too: connections that both mean \
             go to one of them, whichever"
        ));
    }
    let redirect = Redirect::install(port, &targets);
    let redirect = redirect.map_err(|error| failed(&error))?;
    print_text(&format!("TCP is redirected to port {port}"))?;
    // One public address (TEST-NET-1) stands for all of them.
    let world = || vec![("192.0.2.1".parse::<Prefix>().expect("an address"), "default".to_owned())];
    let named = || exits.prefixes().into_iter().map(|it| (it, it.to_string())).collect();
    for (prefix, name) in if exits.has_default() { world() } else { named() } {
        if !has_route(&prefix) {
            tell(&format!(
                "farhop: this host has no route to all of {name}; where it has none, the kernel \
                 refuses connections before they can be redirected: `ip route add {name} dev lo` \
                 is enough"
            ));
        }
    }
    Ok(redirect)
}

/// To what connections are redirected: prefixes that have an exit of their own, and with a default
/// exit all others. The exceptions have routes and need no proxy: nodes, and networks behind nodes
/// unless they have an exit of their own, or all addresses.
fn targets(options: &ProxyOptions, exits: &Exits) -> Result<Targets, Failure> {
    let status = statuses(options.daemon.wanted())?;
    let addresses = status.first().map(|status| status["addresses"].clone()).unwrap_or_default();
    let network = |address: &serde_json::Value| {
        let address: std::net::IpAddr = address.as_str()?.parse().ok()?;
        let bits = if address.is_ipv4() { 16 } else { 64 };
        format!("{address}/{bits}").parse().ok()
    };
    let networks = status.first().map(|status| status["stack"]["routing"]["networks"].clone());
    let networks = networks.unwrap_or_default();
    let prefix = |network: &serde_json::Value| network["network"].as_str()?.parse().ok();
    let behind = networks.as_array().into_iter().flatten().filter_map(prefix);
    let behind = behind.filter(|prefix: &Prefix| prefix.bits() > 0).collect();
    Ok(Targets {
        never: addresses.as_array().into_iter().flatten().filter_map(network).collect(),
        named: exits.prefixes(),
        others_except: exits.has_default().then_some(behind),
    })
}

pub(crate) fn exit(options: &ExitOptions) -> Result<(), Failure> {
    interrupt::watch();
    ask_for_descriptors();
    let daemon = options.daemon.find()?;
    let rules = Rules { allowed: options.allow.clone() };
    let exit =
        Exit::open(&daemon, rules.clone(), options.limit.get()).map_err(|error| failed(&error))?;
    print_text("connections are taken")?;
    let mut exit = Some(exit);
    loop {
        let Some(mut open) = exit.take() else { break };
        let handle = open.handle()?;
        let serving = thread::spawn(move || while open.serve_next().is_ok() {});
        while !interrupt::has_come() && !serving.is_finished() {
            thread::sleep(TICK);
        }
        // The exit may wait for the daemon for ever: end that.
        let _ = handle.shutdown(Shutdown::Both);
        let _ = serving.join();
        exit = again(&daemon, &rules, options.limit.get());
    }
    Err(Failure::Interrupted)
}

/// Opens the exit again at a restarted daemon; `None` if an interruption comes first.
fn again(daemon: &Daemon, rules: &Rules, limit: usize) -> Option<Exit> {
    while !interrupt::has_come() {
        if let Ok(exit) = Exit::open(daemon, rules.clone(), limit) {
            return Some(exit);
        }
        thread::sleep(TICK);
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_exit_is_another_node_of_the_scenario() {
        let status = json!({ "name": "a", "names": { "1": "a", "2": "b", "10": "c" } });
        let said = |exit: &[&str]| {
            let exits = Exits::read(exit.iter().copied()).expect("exits");
            match check_exits(&exits, &status) {
                Err(Failure::Input(why)) => why.to_string(),
                Err(_) => "another failure".into(),
                Ok(()) => String::new(),
            }
        };
        assert_eq!(said(&["b", "10.0.0.0/8=c"]), "");
        assert_eq!(said(&["b", "10.0.0.0/8=d"]), "no node 'd' in the scenario; it has a, b, c");
        assert_eq!(said(&["a"]), "'a' is this node");
    }
}
