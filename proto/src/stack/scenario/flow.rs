//! Flows of traffic.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::random_ends::RandomEnds;
use super::relay::{Onward, RelayConfig};
use super::tcp::{Congestion, TcpSettings};
use crate::transport::hop;
use crate::transport::tcp::TcpConfig;
use crate::wire::ip;

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
    /// Bytes to carry (`tcp`, `hop` and `relayed`, a file); without it, as many as go until it
    /// stops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Offered rate of payload, in Mb/s (`udp`, and `on-off` while it sends); without it, as much
    /// as the link takes. The simulator's source then waits for room in its node. A lab's cannot:
    /// it sends at the rate of the radio, its node drops what is too much, and the report of a lab
    /// has no loss of such a flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_mbps: Option<f64>,
    /// Payload of one datagram, in bytes (`udp`, `on-off`).
    #[serde(default = "default_size")]
    pub size_bytes: usize,
    /// Differentiated services code point of its packets in both directions, 0 to 63 (not `hop`):
    /// 46 for `voip` and 0 for all others if it is not given. It decides on the access category
    /// where radios have `edca`, as RFC 8325 says, and on the class of a `wild` link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<u8>,
    /// From when on goodput, loss and delay are measured, in seconds; from the start of the flow
    /// if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measure_from_s: Option<f64>,
    /// Congestion control (`tcp`, `web`, `relayed`).
    #[serde(default)]
    pub congestion: Congestion,
    /// Settings of TCP that differ from the preset (`tcp`, `web`, `relayed`).
    #[serde(default, skip_serializing_if = "TcpSettings::is_default")]
    pub tcp: TcpSettings,
    /// When an `on-off` flow sends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_off: Option<OnOffConfig>,
    /// The pages of a `web` flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub web: Option<WebConfig>,
    /// The call of a `voip` flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub voip: Option<VoipConfig>,
    /// The relays of a `relayed` flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay: Option<RelayConfig>,
}

fn default_size() -> usize {
    1440
}

/// The application of a flow and its transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FlowKind {
    /// TCP: the kernel's in the lab, the simulator's own in `sim`.
    #[default]
    Tcp,
    /// UDP at a constant rate, or as much as the link takes.
    Udp,
    /// UDP that sends for some time, then is silent for some time, and so on.
    OnOff,
    /// Pages of a main object and embedded ones, each over a TCP connection of its own from the
    /// reader (`to`) to the server (`from`), with times of reading between.
    Web,
    /// A call in one direction over UDP, with its E-model score.
    Voip,
    /// Blocks, made reliable hop by hop.
    Hop,
    /// A TCP connection for each hop, and applications that pass on what comes; in the simulator.
    Relayed,
}

impl FlowKind {
    /// The name, as files write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::OnOff => "on-off",
            Self::Web => "web",
            Self::Voip => "voip",
            Self::Hop => "hop",
            Self::Relayed => "relayed",
        }
    }

    /// Whether it goes over TCP.
    pub const fn is_tcp(self) -> bool {
        matches!(self, Self::Tcp | Self::Web | Self::Relayed)
    }
}

impl FlowConfig {
    /// Whether it goes in blocks, all the way or behind a relay.
    pub fn has_blocks(&self) -> bool {
        let behind = self.relay.as_ref().is_some_and(|relay| relay.onward == Onward::Hop);
        self.kind == FlowKind::Hop || behind
    }

    /// Most hops between its ends: what it is made of lives no longer. None where each hop is a
    /// connection of its own.
    pub(in crate::stack) const fn most_hops(&self) -> Option<u8> {
        match self.kind {
            FlowKind::Relayed => None,
            FlowKind::Hop => Some(hop::HOPS),
            _ => Some(ip::HOPS),
        }
    }

    /// What its packets are marked with: calls ask for expedited forwarding (RFC 4594, 4.1).
    pub fn dscp(&self) -> u8 {
        self.dscp.unwrap_or(if self.kind == FlowKind::Voip { 46 } else { 0 })
    }

    /// The TCP settings of the flow.
    pub fn tcp_config(&self) -> TcpConfig {
        self.tcp.config(self.congestion)
    }
}

/// When an `on-off` flow sends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OnOffConfig {
    /// How long it sends, in seconds.
    pub on_s: f64,
    /// How long it is silent, in seconds.
    pub off_s: f64,
    /// Both times are means of exponential distributions, else they are fixed.
    pub exponential: bool,
}

impl Default for OnOffConfig {
    fn default() -> Self {
        Self { on_s: 1.0, off_s: 1.0, exponential: true }
    }
}

/// The pages of a `web` flow. Sizes are those of 3GPP TR 25.892, A.3.2: lognormal for main and
/// embedded objects, Pareto for the number of embedded ones.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WebConfig {
    /// Mean time of reading between two pages, exponential, in seconds.
    pub think_s: f64,
    /// Mean time from the main object to the requests of the embedded ones, exponential, in
    /// seconds.
    pub parse_s: f64,
    /// Connections at a time for embedded objects.
    pub connections: u32,
    /// Bytes of a request.
    pub request_bytes: u32,
}

impl Default for WebConfig {
    fn default() -> Self {
        Self { think_s: 30.0, parse_s: 0.13, connections: 4, request_bytes: 350 }
    }
}

/// The call of a `voip` flow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct VoipConfig {
    /// Codec.
    pub codec: Codec,
    /// How much later than the fastest packet one may come and still be played, in milliseconds.
    pub playout_ms: f64,
    /// Coding, packetisation and look-ahead, in milliseconds.
    pub coding_ms: f64,
    /// Delay outside of the simulated network, in milliseconds.
    pub extra_ms: f64,
}

impl Default for VoipConfig {
    fn default() -> Self {
        Self { codec: Codec::G729, playout_ms: 60.0, coding_ms: 25.0, extra_ms: 0.0 }
    }
}

/// A voice codec that sends a packet each 20 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Codec {
    /// G.711 with loss concealment: 64 kb/s.
    G711,
    /// G.729: 8 kb/s.
    #[default]
    G729,
}

impl Codec {
    /// Time between packets, in seconds.
    pub const PACKET_S: f64 = 0.02;

    /// Payload of a packet over UDP: speech and an RTP header of 12 bytes.
    pub const fn packet_bytes(self) -> usize {
        match self {
            Self::G711 => 160 + 12,
            Self::G729 => 20 + 12,
        }
    }
}
