//! Nodes: their clocks and devices.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::radio_override::RadioOverride;
use super::space::Position;
use crate::base::{Prefix, PublicKey};

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeConfig {
    /// Name: letters, digits and `-`, at most 32.
    pub name: String,
    /// Error of the node's clock.
    #[serde(default, skip_serializing_if = "ClockConfig::is_default")]
    pub clock: ClockConfig,
    /// The device that `farhop up` uses on this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceConfig>,
    /// The devices of a node with several radios, in place of `device`: first that of the common
    /// radio, if the node has one, then one for each link with a radio of its own, in the order of
    /// the links.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceConfig>,
    /// Networks behind it, to which its host passes packets on: `["192.168.7.0/24"]`, or
    /// `["0.0.0.0/0", "::/0"]` for a node with an uplink. Every other node sends what is for such a
    /// network to the nearest node before it; of several networks that have an address, the one
    /// with the longest prefix counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<Prefix>,
    /// Its public key, as `farhop keys` prints it on that node. A key that is not given here is
    /// trusted with `farhop keys trust`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PublicKey>,
    /// Its position, in metres: `[x, y]` or `[x, y, z]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position_m: Option<Position>,
    /// Path along which it moves, from `position_m` or from the first point on: points `[second, x,
    /// y]` or `[second, x, y, z]`, in metres and in order of time. Between two points it moves
    /// straight and at a constant speed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path_m: Vec<Vec<f64>>,
    /// Settings of its radio that override those of `[radio]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub radio: Option<RadioOverride>,
}

impl NodeConfig {
    /// Its devices, in the order of its radios.
    pub fn all_devices(&self) -> impl Iterator<Item = &DeviceConfig> {
        self.device.iter().chain(&self.devices)
    }

    /// Whether one of its devices is UDP: it runs over a foreign network, whose delay nobody knows.
    pub fn has_udp(&self) -> bool {
        self.all_devices().any(|device| matches!(device, DeviceConfig::Udp { .. }))
    }

    /// Its position at the beginning, in metres: `position_m`, or the first point of its path.
    pub fn place(&self) -> Option<[f64; 3]> {
        let first = || {
            let point = self.path_m.first()?;
            let axis = |index: usize| point.get(index).copied().unwrap_or_default();
            Some([axis(1), axis(2), axis(3)])
        };
        self.position_m.map(|Position(at_m)| at_m).or_else(first)
    }
}

/// Error of a node's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ClockConfig {
    /// Offset from true time at the start, in seconds.
    pub offset_s: f64,
    /// Rate error, in parts per million.
    pub drift_ppm: f64,
}

impl ClockConfig {
    /// Whether it shows the true time.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The device through which a daemon sends frames.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum DeviceConfig {
    /// A Wi-Fi card in monitor mode: 802.11 frames with radiotap headers.
    Monitor {
        /// Interface, for example `mon0`.
        interface: String,
    },
    /// An Ethernet-like interface, with farhop's own EtherType.
    Ethernet {
        /// Interface, for example `eth0`.
        interface: String,
    },
    /// UDP datagrams to known addresses.
    Udp {
        /// Own address and port. An address of fe80::/10 needs the number of its interface, which
        /// `ip link` shows: `[fe80::1%3]:4850`.
        bind: std::net::SocketAddr,
        /// Address and port of each neighbour, by node name.
        peers: BTreeMap<String, std::net::SocketAddr>,
        /// Whether it sends no faster than the radio of the scenario would. Default: only where the
        /// link schedules the air (`wild`, `two-p`).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        paced: Option<bool>,
    },
}

impl DeviceConfig {
    /// The name of the kind in files.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Monitor { .. } => "monitor",
            Self::Ethernet { .. } => "ethernet",
            Self::Udp { .. } => "udp",
        }
    }
}
