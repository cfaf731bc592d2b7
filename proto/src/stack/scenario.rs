//! The scenario file: one description of a network for the simulator, the lab and the daemon.
//!
//! Everything here is data. [`Scenario::problems`] says what is impossible in it;
//! [`crate::stack::plan`] turns it into what each node needs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::config::StackConfig;
use crate::base::{Gap, PhyKind, Preamble, Subnet};

/// A network, its traffic and its faults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Name, for reports.
    pub name: String,
    /// What it shows, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Length of the run, in seconds.
    #[serde(default = "default_duration")]
    pub duration_s: f64,
    /// Seed of all random draws.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// Addresses of the virtual interfaces.
    #[serde(default)]
    pub subnet: Subnet,
    /// Settings of all radios.
    #[serde(default)]
    pub radio: RadioConfig,
    /// The stack of all nodes.
    #[serde(default)]
    pub stack: StackConfig,
    /// How late a host is, for the simulator.
    #[serde(default, skip_serializing_if = "HostConfig::is_default")]
    pub host: HostConfig,
    /// Nodes, numbered from 1 in this order.
    #[serde(default)]
    pub node: Vec<NodeConfig>,
    /// Radio links between two nodes.
    #[serde(default)]
    pub link: Vec<RadioLinkConfig>,
    /// Traffic.
    #[serde(default)]
    pub flow: Vec<FlowConfig>,
    /// Nodes and links that go down and come back.
    #[serde(default)]
    pub fault: Vec<FaultConfig>,
}

fn default_duration() -> f64 {
    20.0
}

fn default_seed() -> u64 {
    1
}

/// Settings of a radio.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RadioConfig {
    /// PHY.
    pub phy: PhyKind,
    /// DSSS preamble.
    pub preamble: Preamble,
    /// Bit-rate of data, in Mb/s; the highest of the PHY if it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_mbps: Option<f64>,
    /// Bit-rate of acknowledgements, in Mb/s; the highest basic rate not above the data if it is
    /// not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_rate_mbps: Option<f64>,
    /// Most transmissions of an acknowledged frame, the first included.
    pub attempts: u8,
    /// How long after a frame's end its acknowledgement may begin to arrive, in microseconds; set
    /// for the longest link of the radio if it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_timeout_us: Option<f64>,
    /// Gap before frames without MAC acknowledgement.
    pub gap: Gap,
    /// Whether the contention window doubles after each failed attempt.
    pub exponential_backoff: bool,
    /// Whether the radio waits for a busy medium; off under `wild` if it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carrier_sense: Option<bool>,
    /// Channel number.
    pub channel: u16,
    /// A frame survives others that are at least this much weaker, in decibels.
    pub capture_db: f64,
    /// Whether the radio reports the end of each frame; without it the daemon goes by air time.
    pub transmit_status: bool,
}

impl Default for RadioConfig {
    fn default() -> Self {
        Self {
            phy: PhyKind::B,
            preamble: Preamble::Short,
            rate_mbps: None,
            ack_rate_mbps: None,
            attempts: 7,
            ack_timeout_us: None,
            gap: Gap::Backoff,
            exponential_backoff: true,
            carrier_sense: None,
            channel: 1,
            capture_db: 10.0,
            transmit_status: true,
        }
    }
}

/// How late a host wakes up and hands its frames to the radio. Each is a list of points of the
/// distribution, `[fraction, microseconds]`, rising; between them it is linear.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HostConfig {
    /// From the time a timer is due to the time the host acts.
    pub wake_us: Vec<[f64; 2]>,
    /// From the time the host hands a frame over to the time the radio has it.
    pub submit_us: Vec<[f64; 2]>,
}

impl HostConfig {
    /// Whether the host is never late.
    pub fn is_default(&self) -> bool {
        self.wake_us.is_empty() && self.submit_us.is_empty()
    }
}

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
    fn is_default(&self) -> bool {
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

/// A radio link between two nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RadioLinkConfig {
    /// The names of its ends.
    pub between: [String; 2],
    /// Length, in kilometres.
    #[serde(default)]
    pub distance_km: f64,
    /// Loss from the first end to the second, and back if `loss_back` is not given.
    #[serde(default)]
    pub loss: LossConfig,
    /// Loss from the second end to the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_back: Option<LossConfig>,
    /// Received power at either end, in dBm.
    #[serde(default = "default_signal")]
    pub signal_dbm: f64,
}

fn default_signal() -> f64 {
    -60.0
}

/// A loss process. In a file, a number is the loss of each frame by itself.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum LossConfig {
    /// Each frame is lost by itself with probability `p`.
    Bernoulli {
        /// Probability, 0 to 1.
        p: f64,
    },
    /// Two states in continuous time, with a loss of their own.
    GilbertElliott {
        /// Mean stay in the good state, in milliseconds.
        good_ms: f64,
        /// Mean stay in the bad state, in milliseconds.
        bad_ms: f64,
        /// Loss in the good state, 0 to 1.
        good_loss: f64,
        /// Loss in the bad state, 0 to 1.
        bad_loss: f64,
    },
}

impl Default for LossConfig {
    fn default() -> Self {
        Self::Bernoulli { p: 0.0 }
    }
}

impl JsonSchema for LossConfig {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Loss".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        LossForm::json_schema(generator)
    }
}

/// Loss of a link: a number from 0 to 1, or a process.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "it stands for the forms in the schema")]
enum LossForm {
    /// Loss of each frame by itself, 0 to 1.
    Each(f64),
    /// A process with its settings.
    Process(LossProcess),
}

/// A loss process with its settings.
#[derive(Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
enum LossProcess {
    /// Each frame is lost by itself with probability `p`.
    Bernoulli {
        /// Probability, 0 to 1.
        p: f64,
    },
    /// Two states in continuous time, with a loss of their own.
    GilbertElliott {
        /// Mean stay in the good state, in milliseconds.
        good_ms: f64,
        /// Mean stay in the bad state, in milliseconds.
        bad_ms: f64,
        /// Loss in the good state, 0 to 1.
        good_loss: f64,
        /// Loss in the bad state, 0 to 1.
        bad_loss: f64,
    },
}

impl<'de> Deserialize<'de> for LossConfig {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = LossConfig;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(
                    "a loss between 0 and 1, or a table such as { kind = \"bernoulli\", p = 0.1 }",
                )
            }
            fn visit_f64<E>(self, p: f64) -> Result<LossConfig, E> {
                Ok(LossConfig::Bernoulli { p })
            }
            fn visit_i64<E>(self, p: i64) -> Result<LossConfig, E> {
                Ok(LossConfig::Bernoulli { p: p as f64 })
            }
            fn visit_u64<E>(self, p: u64) -> Result<LossConfig, E> {
                Ok(LossConfig::Bernoulli { p: p as f64 })
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                map: A,
            ) -> Result<LossConfig, A::Error> {
                let table = serde::de::value::MapAccessDeserializer::new(map);
                Ok(match LossProcess::deserialize(table)? {
                    LossProcess::Bernoulli { p } => LossConfig::Bernoulli { p },
                    LossProcess::GilbertElliott { good_ms, bad_ms, good_loss, bad_loss } => {
                        LossConfig::GilbertElliott { good_ms, bad_ms, good_loss, bad_loss }
                    }
                })
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// A flow of traffic.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowConfig {
    /// Name, for reports; the ends if it is not given.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Sending node.
    pub from: String,
    /// Receiving node.
    pub to: String,
    /// Transport.
    pub kind: FlowKind,
    /// When it starts, in seconds.
    #[serde(default)]
    pub start_s: f64,
    /// When its source stops, in seconds; the end of the run if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_s: Option<f64>,
    /// Bytes to carry (`tcp`); without it, as many as go until it stops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Offered rate of payload, in Mb/s (`udp`); without it, as much as the link takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_mbps: Option<f64>,
    /// Payload of one datagram, in bytes (`udp`).
    #[serde(default = "default_size")]
    pub size_bytes: usize,
    /// Congestion control (`tcp`).
    #[serde(default)]
    pub congestion: Congestion,
}

fn default_size() -> usize {
    1440
}

/// The transport of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FlowKind {
    /// TCP: the kernel's in the lab, the simulator's own in `sim`.
    #[default]
    Tcp,
    /// UDP at a constant rate.
    Udp,
}

/// TCP congestion control.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Congestion {
    /// NewReno with SACK and RACK-TLP, as today's kernel does it.
    #[default]
    Reno,
    /// NewReno with SACK after RFC 6675, as it was when the systems were published.
    RenoRfc6675,
    /// The kernel's BBR; in the lab only.
    Bbr,
}

/// Something that goes down and comes back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FaultConfig {
    /// The node that is down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The ends of the link that is cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<[String; 2]>,
    /// When it goes down, in seconds.
    pub from_s: f64,
    /// When it comes back, in seconds.
    pub to_s: f64,
}
