//! Flows of traffic.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::random_ends::RandomEnds;
/// A flow of traffic.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowConfig {
    /// Name, for reports; the ends if it is not given.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Sending node. `NAME.first` and `NAME.last` are the ends of a layout.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub from: String,
    /// Receiving node.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub to: String,
    /// In the place of `from` and `to`: many flows with random ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub random: Option<RandomEnds>,
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
