//! The daemon: one node's stack on real devices.
//!
//! One thread runs one loop ([`driver`]): it sleeps until a device, the host or a client is ready,
//! or a deadline of the stack has come. A client asks over the control socket ([`control`]) for the
//! state of the daemon ([`DaemonStatus`]).

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use farhop_proto::base::{Duration, Instant, NodeId, Seed};
use farhop_proto::link::secure::{Difference, SecurityConfig};
use farhop_proto::stack::{DeviceConfig, NodeConfig, NodePlan, RadioPlan, Scenario, StackStatus};
use farhop_proto::transport::hop::HopConfig;
use rustix::event::PollFlags;
use serde::Serialize;

use crate::device::card::injected_bytes;
use crate::device::ethernet::{self, Ethernet};
use crate::device::lasting::Lasting;
use crate::device::monitor::Monitor;
use crate::device::signals::{self, Signals};
use crate::device::tun::{self, Tun};
use crate::device::udp::{self, Udp, UdpSpec};
use crate::device::{Clock, Device, DeviceSpec, DeviceStatus, interface, os};
use crate::keys::KeysStatus;
use crate::lateness::WakeupStats;
use crate::sockets::SocketsStatus;

mod blocks;
pub mod client;
pub mod control;
mod differing;
pub mod driver;
mod episodes;
pub mod host;
mod keyring;
mod neighbours;
mod networks;
mod radios;
mod supervisor;
mod upsets;

pub use blocks::{BlockStatus, BlocksStatus, CacheStatus};
pub(crate) use client::is_ours;
pub use client::{
    ControlError, Running, barred, left, list, query, runtime_dir, runtime_dirs, socket_path,
};
use control::{Control, Request};
use driver::{Driver, DriverStats};
use host::HostStatus;
use keyring::Keyring;
pub use keyring::Security;
pub use upsets::Upset;

/// How to run a daemon.
#[derive(Debug)]
pub struct DaemonOptions {
    /// The node.
    pub plan: NodePlan,
    /// Seed of its random draws.
    pub seed: Seed,
    /// The device of each of its radios, in the order of the plan.
    pub devices: Vec<DeviceChoice>,
    /// How its frames are protected; `None`: not at all.
    pub security: Option<Security>,
    /// Name of its TUN interface.
    pub tun: String,
    /// Directory of its control socket; `None`: [`runtime_dir`].
    pub runtime_dir: Option<PathBuf>,
    /// Folder for its state. Without one the daemon keeps nothing, and accepts no blocks.
    pub state_dir: Option<PathBuf>,
    /// Descriptor that ends the daemon once it is readable, as SIGTERM, SIGINT and SIGHUP do.
    pub stop: Option<OwnedFd>,
    /// Whether this is a service: it reports to the service manager, if one started it.
    pub is_service: bool,
}

/// The device under a radio.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceChoice {
    /// A card in monitor mode, or the emulated air behind a veth pair.
    Monitor {
        /// Interface.
        interface: String,
    },
    /// An Ethernet-like interface.
    Ethernet {
        /// Interface.
        interface: String,
    },
    /// A UDP socket.
    Udp(UdpSpec),
}

/// State of a daemon, as `farhop status` shows it.
#[derive(Clone, Debug, Serialize)]
pub struct DaemonStatus {
    /// Name of the node.
    pub name: String,
    /// Number of the node.
    pub node: NodeId,
    /// Version of farhop.
    pub version: &'static str,
    /// Process id.
    pub pid: u32,
    /// How long it has run, in seconds.
    pub uptime_s: f64,
    /// Addresses of its TUN interface.
    pub addresses: Vec<IpAddr>,
    /// Whether it runs under `SCHED_FIFO`.
    pub is_realtime: bool,
    /// Names of all nodes by their numbers.
    pub names: BTreeMap<NodeId, String>,
    /// How late the loop woke up.
    pub wakeups: WakeupStats,
    /// Standstills of the process; `None` if there were none.
    pub stood_still: Option<Upset>,
    /// Changes of the time of day; `None` if there were none.
    pub time_set: Option<Upset>,
    /// Counters of the loop.
    pub driver: DriverStats,
    /// Radios.
    pub devices: Vec<DeviceStatus>,
    /// The TUN interface.
    pub host: Option<HostStatus>,
    /// Keys; `None` if frames are not protected.
    pub keys: Option<KeysStatus>,
    /// Neighbours whose security differs from ours, and how, by their names.
    pub differing: BTreeMap<String, Difference>,
    /// Link, routing, flows.
    pub stack: StackStatus,
    /// Whether blocks are carried, and if not, why.
    pub blocks: BlocksStatus,
    /// Sockets of programs; `None` if no blocks are carried.
    pub sockets: Option<SocketsStatus>,
    /// Processor time so far, in seconds.
    pub cpu_s: f64,
    /// Largest resident memory so far, in kB.
    pub memory_kb: u64,
}

impl DaemonOptions {
    /// The options for one node of a scenario, without keys: a scenario has none.
    ///
    /// Fails if the scenario has no such node, or names no device for it.
    pub fn from_scenario(scenario: &Scenario, name: &str) -> anyhow::Result<Self> {
        let index = scenario.node.iter().position(|node| node.name == name);
        let index = index.with_context(|| {
            let names: Vec<_> = scenario.node.iter().map(|node| node.name.as_str()).collect();
            format!("no node '{name}' in the scenario; it has {}", names.join(", "))
        })?;
        let devices: Vec<_> = scenario.node[index].all_devices().collect();
        anyhow::ensure!(
            !devices.is_empty(),
            "the scenario names no device for node '{name}': add one to it, such as \
             device = {{ kind = \"monitor\", interface = \"mon0\" }}"
        );
        let devices: anyhow::Result<_> =
            devices.into_iter().map(|device| DeviceChoice::from_config(device, scenario)).collect();
        let mut plan = with_blocks(scenario.plan().nodes.swap_remove(index));
        fit_frames(&mut plan, scenario);
        let devices: Vec<DeviceChoice> = devices?;
        let link = &scenario.stack.link;
        if !(link.repairs() || link.has_schedule()) {
            for (radio, device) in plan.radios.iter_mut().zip(&devices) {
                radio.has_air &= !device.takes_all();
            }
        }
        Ok(Self {
            plan,
            seed: Seed(scenario.seed),
            devices,
            security: None,
            tun: tun::NAME.into(),
            runtime_dir: None,
            state_dir: None,
            stop: None,
            is_service: false,
        })
    }
}

impl DeviceChoice {
    fn from_config(config: &DeviceConfig, scenario: &Scenario) -> anyhow::Result<Self> {
        Ok(match config {
            DeviceConfig::Monitor { interface } => Self::Monitor { interface: interface.clone() },
            DeviceConfig::Ethernet { interface } => Self::Ethernet { interface: interface.clone() },
            DeviceConfig::Udp { bind, peers, paced } => {
                let known = |(name, address): (&String, &SocketAddr)| {
                    let node = scenario.node_id(name);
                    Ok((node.with_context(|| format!("no node '{name}'"))?, *address))
                };
                let peers: anyhow::Result<_> = peers.iter().map(known).collect();
                // Slots are planned by air time.
                let is_paced = paced.unwrap_or(scenario.stack.link.has_schedule());
                Self::Udp(UdpSpec { bind: *bind, peers: peers?, is_paced })
            }
        })
    }

    /// Whether it accepts frames as fast as they come, so that another layer has to find the rate.
    fn takes_all(&self) -> bool {
        matches!(self, Self::Udp(udp) if !udp.is_paced)
    }

    /// Warns if the interface is down or of the wrong type.
    fn check(&self) {
        match self {
            Self::Monitor { interface } => interface::check_state(interface, true),
            Self::Ethernet { interface } => interface::check_state(interface, false),
            Self::Udp(_) => {}
        }
    }

    fn open(&self, spec: DeviceSpec) -> std::io::Result<Box<dyn Device>> {
        Ok(match self {
            Self::Monitor { interface } => Box::new(Monitor::open(interface, spec)?),
            Self::Ethernet { interface } => Box::new(Ethernet::open(interface, spec)?),
            Self::Udp(udp) => Box::new(Udp::open(udp, spec)?),
        })
    }
}

/// Makes a node carry blocks even if its scenario has no flow of them.
pub fn with_blocks(mut plan: NodePlan) -> NodePlan {
    plan.hop.get_or_insert_with(|| Arc::new(plan.stack.of_blocks()));
    plan
}

/// The longest packet, in bytes, whose frame fits the MTU of all interfaces of a node: the MTU of
/// its TUN interface.
fn longest_packet(plan: &NodePlan, devices: &[DeviceChoice]) -> u16 {
    let taken = |(device, radio): (&DeviceChoice, &RadioPlan)| {
        let (interface, around) = match device {
            DeviceChoice::Monitor { interface } => (interface, injected_bytes(&radio.spec.phy, 0)),
            DeviceChoice::Ethernet { interface } => (interface, ethernet::HEADER_BYTES),
            DeviceChoice::Udp(_) => return None,
        };
        let usual = usize::from(tun::MTU);
        let longest = around + plan.stack.link.packet_frame(&radio.spec, usual);
        let beyond = longest.saturating_sub(interface::mtu(interface).ok()?);
        // An MTU below this excludes IPv6. Then an interface is set up in a way that nobody can
        // guess.
        let packet = usual.saturating_sub(beyond) as u16;
        (packet >= tun::LEAST_MTU).then_some(packet)
    };
    devices.iter().zip(&plan.radios).filter_map(taken).min().unwrap_or(tun::MTU)
}

/// Shortens the frames of blocks so that a sealed one fits the usual MTU, if any node has a `udp`
/// or `ethernet` device and the scenario leaves the size of frames at its default.
fn fit_frames(plan: &mut NodePlan, scenario: &Scenario) {
    let is_wire = |device: &DeviceConfig| !matches!(device, DeviceConfig::Monitor { .. });
    let has_wire = scenario.node.iter().flat_map(NodeConfig::all_devices).any(is_wire);
    let is_sealed = scenario.security.as_ref().is_none_or(SecurityConfig::is_on);
    if let Some(hop) = plan.hop.as_mut().filter(|_| has_wire && is_sealed)
        && hop.frame_bytes == HopConfig::default().frame_bytes
    {
        Arc::make_mut(hop).frame_bytes = udp::SEALED_FRAME_BYTES;
    }
}

/// What the device of a radio has to know; `mtu` is that of the TUN interface.
pub fn device_spec(plan: &NodePlan, radio: &RadioPlan, clock: Clock, mtu: u16) -> DeviceSpec {
    let of_block = plan.hop.as_ref().map_or(0, |hop| hop.datagram_bytes());
    let packet = usize::from(mtu).max(of_block);
    DeviceSpec {
        node: plan.node,
        radio: radio.spec,
        guard: guard(plan),
        transmit_status: radio.config.transmit_status,
        attempts: radio.config.attempts,
        longest: plan.stack.link.longest_frame(&radio.spec, packet),
        clock,
    }
}

/// Guard of a node's slots; zero if its link has no slots.
fn guard(plan: &NodePlan) -> Duration {
    plan.slot().map_or(Duration::ZERO, |(_, guard)| guard)
}

/// Makes the interface of a node, and its routes.
fn connect_host(driver: &mut Driver, options: &DaemonOptions, mtu: u16) -> anyhow::Result<()> {
    let DaemonOptions { tun, plan, .. } = options;
    driver.set_host(Box::new(Tun::open(tun, plan.node, plan.addresses, mtu)?));
    driver.set_underlay(networks::underlay(&options.devices));
    networks::add_routes(tun, plan);
    if options.is_service {
        networks::check_forwarding(plan);
        tun::check_mtu(tun, mtu);
        tun::check_routes(tun, plan.addresses);
    }
    Ok(())
}

/// Runs a node until SIGTERM, SIGINT, SIGHUP or `options.stop`, and cleans up.
///
/// Fails if a daemon with that name, key or state folder runs already, if a device or the TUN
/// interface cannot be opened, or once the TUN interface is gone.
pub fn run(mut options: DaemonOptions) -> anyhow::Result<()> {
    let security = options.security.take();
    let plan = &options.plan;
    anyhow::ensure!(
        options.devices.len() == plan.radios.len(),
        "node '{}' has {} radios and {} devices",
        plan.name,
        plan.radios.len(),
        options.devices.len()
    );
    tun::check_name(&options.tun)?;
    os::ask_for_descriptors();
    let signals = Signals::take().context("cannot take over signals")?;
    let dir = options.runtime_dir.clone().unwrap_or_else(runtime_dir);
    let mut control = Control::open(&dir, &plan.name)?;
    let clock = Clock::start();
    let mut driver = Driver::build(plan, options.seed, clock);
    let socket = socket_path(&dir, &plan.name);
    let open = |security| Keyring::open(security, plan, &socket, &mut driver);
    let mut keyring = security.map(open).transpose()?;
    let mtu = longest_packet(plan, &options.devices);
    for (choice, radio) in options.devices.iter().zip(&plan.radios) {
        let (choice, spec) = (choice.clone(), device_spec(plan, radio, clock, mtu));
        // In a lab the interfaces lead to the emulated air.
        let is_checked = options.is_service;
        let open = move || {
            let device = choice.open(spec.clone())?;
            // A card that comes back may be in another mode.
            if is_checked {
                choice.check();
            }
            Ok(device)
        };
        let device = Lasting::open(clock, Box::new(open));
        let device =
            device.with_context(|| format!("cannot open the device of node '{}'", plan.name))?;
        driver.add_radio(radio.spec.id, Box::new(device));
    }
    blocks::keep(&mut driver, &options)?;
    connect_host(&mut driver, &options, mtu)?;
    // Last, because opening devices takes long and blocks.
    let is_realtime = os::ask_for_punctuality();
    tracing::info!(node = plan.name, realtime = is_realtime, "up");
    if options.is_service {
        let names = driver.devices().into_iter().map(|device| device.name);
        supervisor::tell_ready(&plan.name, &names.collect::<Vec<_>>());
    }
    let mut serving = Serving { options: &options, keyring: keyring.as_mut(), is_realtime };
    let outcome = serve(&mut serving, &mut driver, &mut control, &signals);
    if options.is_service {
        supervisor::tell_stopping(&plan.name);
    }
    outcome?;
    tracing::info!(node = plan.name, "down");
    Ok(())
}

/// What a daemon needs to answer requests.
struct Serving<'a> {
    options: &'a DaemonOptions,
    keyring: Option<&'a mut Keyring>,
    is_realtime: bool,
}

fn serve(
    serving: &mut Serving<'_>,
    driver: &mut Driver,
    control: &mut Control,
    signals: &Signals,
) -> anyhow::Result<()> {
    let start = driver.now();
    let stop = serving.options.stop.as_ref();
    loop {
        let others_ready = {
            let ends = [Some(signals.as_fd()), stop.map(AsFd::as_fd)];
            let ends = ends.into_iter().flatten().map(|fd| (fd, PollFlags::IN));
            let others: Vec<_> = ends.chain(control.sources()).collect();
            driver.wait(&others)?
        };
        driver.turn()?;
        if driver.is_due_to_keep() {
            blocks::keep(driver, serving.options)?;
        }
        control.keep();
        if !others_ready {
            continue;
        }
        if let Some(signal) = signals.poll()? {
            tracing::info!("{} ends this daemon", signals::name(signal));
            return Ok(());
        }
        if stop.is_some_and(is_readable) {
            return Ok(());
        }
        let wished = control.serve(&mut |request| {
            let answer = serving.answer(driver, start, request);
            answer.unwrap_or_else(|error| serde_json::json!({ "error": format!("{error:#}") }))
        });
        wished.into_iter().for_each(|wished| blocks::open_socket(driver, wished));
    }
}

impl Serving<'_> {
    fn answer(
        &mut self,
        driver: &mut Driver,
        start: Instant,
        request: Request,
    ) -> anyhow::Result<serde_json::Value> {
        let no_keys = "frames are not protected here (security = \"off\"): keys change nothing";
        Ok(match request {
            Request::Status {} => {
                serde_json::to_value(self.status(driver, driver.now().since(start)))?
            }
            Request::Keys {} => {
                let keyring = self.keyring.as_mut().context(no_keys)?;
                serde_json::to_value(keyring.refresh(driver)?)?
            }
            Request::KeysInUse {} => {
                serde_json::to_value(self.keyring.as_ref().context(no_keys)?.status())?
            }
            Request::Send(_)
            | Request::Cancel { .. }
            | Request::Files {}
            | Request::Fetched { .. }
            | Request::Drop { .. }
            | Request::Cache {}
            | Request::ClearCache { .. } => blocks::answer(driver, request)?,
            Request::Socket(_) | Request::Begin {} | Request::Script {} => {
                anyhow::bail!("only the air of a lab and strangers are asked that")
            }
        })
    }

    fn status(&self, driver: &Driver, uptime: Duration) -> DaemonStatus {
        let plan = &self.options.plan;
        let usage = os::usage();
        DaemonStatus {
            name: plan.name.clone(),
            node: plan.node,
            version: env!("CARGO_PKG_VERSION"),
            pid: std::process::id(),
            uptime_s: uptime.as_secs_f64(),
            addresses: vec![
                plan.addresses.ipv4(plan.node).into(),
                plan.addresses.ipv6(plan.node).into(),
            ],
            is_realtime: self.is_realtime,
            names: plan.names(),
            wakeups: driver.wakeups(),
            stood_still: driver.standstills(),
            time_set: driver.settings(),
            driver: driver.stats(),
            devices: driver.devices(),
            host: driver.host(),
            keys: self.keyring.as_ref().map(|keyring| keyring.status().clone()),
            differing: driver.differing(),
            stack: driver.stack_status(),
            blocks: driver.blocks_status(),
            sockets: driver.sockets(),
            cpu_s: usage.cpu_s,
            memory_kb: usage.memory_kb,
        }
    }
}

fn is_readable(fd: &impl AsFd) -> bool {
    let mut fds = [rustix::event::PollFd::new(fd, PollFlags::IN)];
    rustix::event::poll(&mut fds, Some(&rustix::event::Timespec::default()))
        .is_ok_and(|ready| ready > 0)
}
