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
    /// Name in reports. Default: the names of its ends.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Sending node. `NAME.first` and `NAME.last` are the first and the last node of the layout
    /// `NAME`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub from: String,
    /// Receiving node, named in the same way.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub to: String,
    /// Many flows with random ends, in place of `from` and `to`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub random: Option<RandomEnds>,
    /// Application and transport.
    pub kind: FlowKind,
    /// When it starts, in seconds from the start of the run.
    #[serde(default)]
    pub start_s: f64,
    /// When its source stops, in seconds from the start of the run. Default: the end of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_s: Option<f64>,
    /// Bytes to transfer (`tcp`, `hop`, `relayed`). Default: the source sends until the flow stops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Offered rate of payload, in Mb/s (`udp`; `on-off` while it sends). Default: as much as the
    /// link takes. In the simulator such a source waits for room in its node. In a lab it cannot
    /// wait: it sends at the rate of the radio, its node drops the excess, and the report shows no
    /// loss for the flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_mbps: Option<f64>,
    /// Payload of one datagram, in bytes (`udp`, `on-off`).
    #[serde(default = "default_size")]
    pub size_bytes: usize,
    /// Differentiated services code point (DSCP) of its packets in both directions, 0 to 63; not
    /// for `hop`. Default: 46 for `voip`, 0 for all others. It selects the access category where
    /// radios have `edca` (RFC 8325), and the class of a `wild` link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<u8>,
    /// When the measurement of goodput, loss and delay begins, in seconds from the start of the
    /// run. Default: the scenario's `measure_from_s`, or else the start of the flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measure_from_s: Option<f64>,
    /// Congestion control (`tcp`, `web`, `relayed`).
    #[serde(default)]
    pub congestion: Congestion,
    /// TCP settings that differ from the preset (`tcp`, `web`, `relayed`).
    #[serde(default, skip_serializing_if = "TcpSettings::is_default")]
    pub tcp: TcpSettings,
    /// On and off times of an `on-off` flow.
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
    /// TCP: the kernel's in the lab, the simulator's own in `farhop sim`.
    #[default]
    Tcp,
    /// UDP at a constant rate, or as fast as the link takes it.
    Udp,
    /// UDP that alternates between sending and silence.
    OnOff,
    /// Web pages: a main object, then embedded ones, each over a TCP connection of its own from the
    /// reader (`to`) to the server (`from`), with reading times between pages.
    Web,
    /// A voice call in one direction over UDP, rated by the E-model.
    Voip,
    /// Blocks, made reliable hop by hop.
    Hop,
    /// TCP connections from relay to relay, and applications on the relays that pass the data on;
    /// simulator only.
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

    /// Whether it runs over TCP.
    pub const fn is_tcp(self) -> bool {
        matches!(self, Self::Tcp | Self::Web | Self::Relayed)
    }
}

impl FlowConfig {
    /// Whether it sends blocks: all the way, or from a relay on.
    pub fn has_blocks(&self) -> bool {
        let behind = self.relay.as_ref().is_some_and(|relay| relay.onward == Onward::Hop);
        self.kind == FlowKind::Hop || behind
    }

    /// Most hops between its ends: the hop limit of its packets or blocks. `None` where each hop is
    /// a connection of its own.
    pub(in crate::stack) const fn most_hops(&self) -> Option<u8> {
        match self.kind {
            FlowKind::Relayed => None,
            FlowKind::Hop => Some(hop::HOPS),
            _ => Some(ip::HOPS),
        }
    }

    /// DSCP of its packets; by default calls ask for expedited forwarding (RFC 4594, 4.1).
    pub fn dscp(&self) -> u8 {
        self.dscp.unwrap_or(if self.kind == FlowKind::Voip { 46 } else { 0 })
    }

    /// The TCP settings of the flow.
    pub fn tcp_config(&self) -> TcpConfig {
        self.tcp.config(self.congestion)
    }
}

/// On and off times of an `on-off` flow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OnOffConfig {
    /// How long it sends, in seconds.
    pub on_s: f64,
    /// How long it is silent, in seconds.
    pub off_s: f64,
    /// Whether both times are means of exponential distributions; else they are fixed.
    pub exponential: bool,
}

impl Default for OnOffConfig {
    fn default() -> Self {
        Self { on_s: 1.0, off_s: 1.0, exponential: true }
    }
}

/// Pages of a `web` flow. Object sizes are those of 3GPP TR 25.892, A.3.2: lognormal for main and
/// embedded objects, Pareto for the number of embedded objects in a page.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WebConfig {
    /// Mean reading time between two pages, in seconds (exponential).
    pub think_s: f64,
    /// Mean time from the main object to the requests for the embedded ones, in seconds
    /// (exponential).
    pub parse_s: f64,
    /// Parallel connections for embedded objects.
    pub connections: u32,
    /// Size of a request, in bytes.
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
    /// Playout buffer, in milliseconds: a packet later than the fastest one by more than this is
    /// lost.
    pub playout_ms: f64,
    /// Delay of coding, packetisation and look-ahead, in milliseconds.
    pub coding_ms: f64,
    /// Delay outside the simulated network, in milliseconds.
    pub extra_ms: f64,
}

impl Default for VoipConfig {
    fn default() -> Self {
        Self { codec: Codec::G729, playout_ms: 60.0, coding_ms: 25.0, extra_ms: 0.0 }
    }
}

/// A voice codec with a packet every 20 ms.
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

    /// Payload of a packet over UDP, in bytes: speech and an RTP header of 12 bytes.
    pub const fn packet_bytes(self) -> usize {
        match self {
            Self::G711 => 160 + 12,
            Self::G729 => 20 + 12,
        }
    }
}
