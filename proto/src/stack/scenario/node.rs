//! Nodes: their clocks and devices.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::radio_override::RadioOverride;
use super::space::Position;
use crate::base::PublicKey;

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeConfig {
    /// Name: letters, digits and `-`, at most 32.
    pub name: String,
    /// The clock of the node against the true time.
    #[serde(default, skip_serializing_if = "ClockConfig::is_default")]
    pub clock: ClockConfig,
    /// The device that `farhop up` uses on this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceConfig>,
    /// The devices of a node with several radios, in the place of `device`: in the order of the
    /// links in which it is named; first of all that of the common radio, if it has one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceConfig>,
    /// Its public key, as `farhop keys` prints it on that node. Nodes that say nothing are trusted
    /// with `farhop keys trust`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PublicKey>,
    /// Where it stands, in metres: `[x, y]` or `[x, y, z]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position_m: Option<Position>,
    /// Where it moves, from its position on or from the first point: points `[second, x, y]` or
    /// `[second, x, y, z]` in rising order of time, straight and steady between two of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path_m: Vec<Vec<f64>>,
    /// Settings of its radio that differ from `[radio]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub radio: Option<RadioOverride>,
}

impl NodeConfig {
    /// Its devices, in the order of its radios.
    pub fn all_devices(&self) -> impl Iterator<Item = &DeviceConfig> {
        self.device.iter().chain(&self.devices)
    }

    /// Whether it speaks over a network of others, of which nobody knows how far it leads.
    pub fn has_udp(&self) -> bool {
        self.all_devices().any(|device| matches!(device, DeviceConfig::Udp { .. }))
    }

    /// Where it stands at the beginning, in metres: its position, or the first point of its path.
    pub fn place(&self) -> Option<[f64; 3]> {
        let first = || {
            let point = self.path_m.first()?;
            let axis = |index: usize| point.get(index).copied().unwrap_or_default();
            Some([axis(1), axis(2), axis(3)])
        };
        self.position_m.map(|Position(at_m)| at_m).or_else(first)
    }
}

/// A node's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ClockConfig {
    /// Its offset at the start, in seconds.
    pub offset_s: f64,
    /// Its rate error, in parts per million.
    pub drift_ppm: f64,
}

impl ClockConfig {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The device under a daemon.
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
        /// Own address and port; one of fe80::/10 with the number of its interface, which `ip link`
        /// shows: `[fe80::1%3]:4850`.
        bind: std::net::SocketAddr,
        /// Address and port of each neighbour, by node name.
        peers: BTreeMap<String, std::net::SocketAddr>,
        /// Whether it sends no faster than the radio of the scenario would; only where the link
        /// plans the air (`wild`), if it is not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        paced: Option<bool>,
    },
}

impl DeviceConfig {
    /// What the file calls it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Monitor { .. } => "monitor",
            Self::Ethernet { .. } => "ethernet",
            Self::Udp { .. } => "udp",
        }
    }
}
