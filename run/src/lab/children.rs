//! The processes of a lab: one for each node, with its daemon, and the air.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration as StdDuration, Instant as WallClock};

use anyhow::{Context as _, Result, bail};
use farhop_proto::base::{Duration, Prefix, Seed};
use farhop_proto::link::secure::SecurityConfig;
use farhop_proto::stack::{FaultConfig, NodePlan, Plan, Scenario};
use rustix::event::PollFlags;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use std::os::fd::AsFd as _;

use super::state::{Namespace, SCENARIO_FILE};
use super::{hosts, keys, network, recordings, stranger};
use crate::air::{Air, AirOptions, Change, Fault, RadioEnd};
use crate::daemon::control::{Control, Request};
use crate::daemon::{self, DaemonOptions, DeviceChoice, Security};
use crate::device::signals::Signals;
use crate::device::{os, tun};
use crate::keys::NodeKeys;

/// How long a node waits for each of its radios. The lab hands radios over one node after the
/// other, and ends its nodes if it gives up.
const PATIENCE: StdDuration = StdDuration::from_secs(60);
/// Name of the air among the processes of a lab; no node can have this name.
pub(super) const AIR: &str = "@air";

/// Name of a radio's interface until its node renames it; `radio` is its number among all radios.
pub(super) fn far_end(radio: usize) -> String {
    format!("far{radio}")
}

/// Name of the air's end of a radio's veth pair; `radio` is its number among all radios.
pub(super) fn near_end(radio: usize) -> String {
    format!("air{radio}")
}

/// All radios of a network, with the interfaces at the air's end, in the order of the plan.
pub(super) fn radio_ends(plan: &Plan) -> Vec<RadioEnd> {
    let radios = plan
        .nodes
        .iter()
        .flat_map(|node| node.radios.iter().map(move |radio| (node.name.clone(), radio.spec.id.0)));
    let end = |(number, (node, radio))| RadioEnd { node, radio, interface: near_end(number) };
    radios.enumerate().map(end).collect()
}

/// File in which a node records its namespace.
pub(super) fn ready_file(dir: &Path, node: &str) -> PathBuf {
    dir.join(format!("{node}.ready"))
}

pub(super) fn read_scenario(dir: &Path) -> Result<Scenario> {
    let file = dir.join(SCENARIO_FILE);
    let text = fs::read(&file).with_context(|| file.display().to_string())?;
    let mut scenario = serde_json::from_slice(&text).with_context(|| file.display().to_string())?;
    recordings::stand_in(&mut scenario);
    Ok(scenario)
}

/// Runs a node: makes a network namespace, or, if `again`, enters the node's earlier one, which is
/// on standard input; waits for its radios; and runs the daemon.
///
/// Fails if the parent is dead, a radio does not come, or the daemon fails.
pub fn run_node(dir: &Path, name: &str, parent: u32, seed: u64, again: bool) -> Result<()> {
    os::die_with_parent(parent)?;
    match again {
        true => {
            let namespace = std::io::stdin();
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                .context("cannot enter the network namespace that the node had")?;
        }
        false => {
            os::unshare(UnshareFlags::NEWNET).context("cannot make a network namespace")?;
        }
    }
    let scenario = read_scenario(dir)?;
    let plan = scenario.plan();
    let index = plan.nodes.iter().position(|node| node.name == name);
    let index = index.with_context(|| format!("no node '{name}' in the scenario"))?;
    network::take_up_loopback()?;
    // All hosts of a lab behave alike, whatever this machine's defaults are, and learn nothing from
    // one flow for the next.
    network::set_sysctl("net/ipv4/tcp_congestion_control", "reno")?;
    let _ = network::set_sysctl("net/ipv4/tcp_no_metrics_save", "1");
    for (key, value) in hosts::settings(&scenario, name)? {
        network::set_sysctl(key, value)?;
    }
    let behind: Vec<_> = plan.nodes[index].networks.behind(plan.nodes[index].node).collect();
    if behind.iter().any(Prefix::is_ipv4) {
        network::set_sysctl("net/ipv4/ip_forward", "1")?;
    }
    if !behind.iter().all(Prefix::is_ipv4) {
        // On a kernel without IPv6 there is nothing to pass on.
        let _ = network::set_sysctl("net/ipv6/conf/all/forwarding", "1");
    }
    // The existence of this file tells the lab that the namespace exists and the radios can be
    // moved in.
    let namespace = serde_json::to_vec(&Namespace::own()?).expect("plain data");
    let ready = ready_file(dir, name);
    let new = ready.with_extension("new");
    fs::write(&new, namespace)?;
    fs::rename(&new, &ready)?;
    let ends = radio_ends(&plan);
    let own = ends.iter().enumerate().filter(|(_, end)| end.node == name);
    let mut devices = Vec::new();
    for (number, end) in own {
        let interface = format!("radio{}", end.radio);
        take_radio(&far_end(number), &interface)?;
        devices.push(DeviceChoice::Monitor { interface });
    }
    let plan = daemon::with_blocks(plan.nodes[index].clone());
    daemon::run(DaemonOptions {
        security: security(&scenario, &plan, dir)?,
        plan,
        seed: Seed(seed),
        devices,
        tun: tun::NAME.into(),
        runtime_dir: Some(dir.into()),
        state_dir: Some(dir.join("kept")),
        stop: None,
        is_service: false,
    })
}

/// Waits for the interface of a radio, renames it, and sets it up.
fn take_radio(far: &str, interface: &str) -> Result<()> {
    let limit = WallClock::now() + PATIENCE;
    while !network::exists(far) {
        if WallClock::now() > limit {
            bail!("the lab did not hand over the radio");
        }
        std::thread::sleep(StdDuration::from_millis(5));
    }
    Ok(network::take_up_radio(far, interface)?)
}

/// The security of a node, with the key that the lab made for it.
fn security(scenario: &Scenario, plan: &NodePlan, dir: &Path) -> Result<Option<Security>> {
    let Some(config) = scenario.security.clone().filter(SecurityConfig::is_on) else {
        return Ok(None);
    };
    let store = keys::store(dir, &plan.name)?;
    let identity = store.own()?.context("the lab has made no key")?;
    Ok(Some(Security { config, identity, keys: NodeKeys::build(scenario, plan, store) }))
}

/// Runs the air between the nodes of a lab.
///
/// Fails if the parent is dead or an interface is missing.
pub fn run_air(dir: &Path, parent: u32, seed: u64) -> Result<()> {
    os::die_with_parent(parent)?;
    let mut scenario = read_scenario(dir)?;
    recordings::read(dir, &mut scenario)?;
    let radios = radio_ends(&scenario.plan());
    let owners: Vec<String> = radios.iter().map(|end| end.node.clone()).collect();
    let signals = Signals::take().context("cannot take over signals")?;
    let end = |(index, other): (usize, &farhop_proto::stack::AdversaryConfig)| RadioEnd {
        node: other.name.clone(),
        radio: 0,
        interface: stranger::near_end(index),
    };
    let strangers: Vec<RadioEnd> = scenario.adversary.iter().enumerate().map(end).collect();
    // If there are scripts, the strangers are only noise.
    let as_noise = strangers.iter().any(|end| stranger::script_file(dir, &end.node).exists());
    let options = AirOptions { scenario: &scenario, seed, radios, strangers, as_noise };
    let mut air = Air::open(&options)?;
    let mut control = Control::open(dir, AIR)?;
    os::ask_for_punctuality();
    loop {
        let ready = {
            let signal = [(signals.as_fd(), PollFlags::IN)];
            let others: Vec<_> = signal.into_iter().chain(control.sources()).collect();
            air.step(&others)?
        };
        if !ready {
            continue;
        }
        if signals.poll()?.is_some() {
            return Ok(());
        }
        control.serve(&mut |request| match request {
            Request::Status {} => serde_json::to_value(air.status())
                .unwrap_or_else(|error| serde_json::json!({ "error": error.to_string() })),
            Request::Begin {} => {
                air.begin_recordings();
                plan_faults(&mut air, &scenario, &owners);
                serde_json::json!({})
            }
            _ => {
                serde_json::json!({ "error": "the air has neither keys nor blocks" })
            }
        });
    }
}

/// Plans the scenario's faults: their times count from the beginning of the run, which is now.
fn plan_faults(air: &mut Air, scenario: &Scenario, owners: &[String]) {
    let begin = air.now();
    for fault in &scenario.fault {
        let what = affected(scenario, fault, owners);
        for (secs, up) in [(fault.from_s, false), (fault.to_s, true)] {
            let at = begin + Duration::from_secs_f64(secs);
            what.iter().for_each(|what| air.plan_change(Change { at, up, what: *what }));
        }
    }
}

/// What a fault affects. `owners` are the nodes of the radios.
fn affected(scenario: &Scenario, fault: &FaultConfig, owners: &[String]) -> Vec<Fault> {
    if let Some(name) = &fault.node {
        let radios = owners.iter().enumerate().filter(|(_, owner)| *owner == name);
        return radios.map(|(radio, _)| Fault::Radio(radio)).collect();
    }
    let plan = scenario.plan();
    let number = |name: &String| plan.node(name).map(|node| node.node);
    match fault.link.as_ref().map(|ends| ends.each_ref().map(number)) {
        Some([Some(a), Some(b)]) => vec![Fault::Link([a.min(b), a.max(b)])],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use farhop_proto::base::NodeId;

    use super::*;

    #[test]
    fn links_that_the_file_lists_and_those_that_follow_from_positions_are_cut_alike() {
        let begin = "name = 'three'\nduration_s = 10\n[[node]]\nname = 'a'\nposition_m = [0, 0]\n\
                     [[node]]\nname = 'b'\nposition_m = [50, 0]\n";
        let fault = "[[fault]]\nlink = ['b', 'a']\nfrom_s = 1\nto_s = 2\n\
                     [[fault]]\nnode = 'b'\nfrom_s = 3\nto_s = 4\n";
        let of_positions = "[propagation]\nkind = 'range'\nreceive_m = 100\nsense_m = 220\n";
        let listed = "[[link]]\nbetween = ['a', 'b']\ndistance_km = 1\n";
        for how in [of_positions, listed] {
            let scenario = farhop_testkit::scenario(&[begin, how, fault].concat());
            let owners = ["a", "b", "b"].map(String::from);
            let what: Vec<_> =
                scenario.fault.iter().map(|fault| affected(&scenario, fault, &owners)).collect();
            let link = vec![Fault::Link([NodeId(1), NodeId(2)])];
            assert_eq!(what, [link, vec![Fault::Radio(1), Fault::Radio(2)]], "{how}");
        }
    }
}
