//! Nodes: their clocks and devices.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
        /// Own address and port.
        bind: std::net::SocketAddr,
        /// Address and port of each neighbour, by node name.
        peers: BTreeMap<String, std::net::SocketAddr>,
    },
}
