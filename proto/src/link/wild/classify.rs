//! The configuration of a class of flows, and which packets it selects.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::config::{InOrder, Recovery, Retries};
use crate::base::{EtherType, Packet};
use crate::wire::ip;

/// A class of flows with values of its own. A flow belongs to the first class that it matches: all
/// of `dscp`, `port` and `address` that are given must match. Flows that no class selects have the
/// values of the link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClassConfig {
    /// Name, as the status shows it.
    pub name: String,
    /// Differentiated services code point of the IP header, 0 to 63.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<u8>,
    /// Port of TCP or UDP, at either end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Address at either end, or a range of addresses such as `10.66.0.0/24`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<AddressRange>,
    /// The need that the class serves. It sets all the following values that are not given.
    #[serde(default)]
    pub preset: Preset,
    /// Most retransmissions of a packet, or `auto`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<Retries>,
    /// Whether packets wait for earlier ones of their flow at the receiver: `flow` or `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_order: Option<InOrder>,
    /// When erasure coding is used, besides retransmission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
    /// Loss that may remain after recovery, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_loss: Option<f64>,
    /// Packets of one flow that may wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_packets: Option<usize>,
    /// Classes with a higher priority are served first, until they have had half a slot of air time
    /// more than the lowest one; then all take turns. The default class has priority 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
}

/// The need that a class serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// The values of the link.
    #[default]
    Bulk,
    /// Retransmission until at most 0.1% is lost; priority 1.
    Interactive,
    /// Retransmission until at most the link's target loss is left, as far as 150 ms permit; no
    /// order; a queue of 8 packets that drops the oldest one; priority 2.
    Realtime,
    /// `interactive`, `bulk` or `realtime`, according to the size and rate of each flow's packets.
    Auto,
}

impl Preset {
    /// The name, as in configuration files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bulk => "bulk",
            Self::Interactive => "interactive",
            Self::Realtime => "realtime",
            Self::Auto => "auto",
        }
    }
}

impl ClassConfig {
    /// Whether the class selects a packet.
    pub(super) fn takes(&self, packet: &Packet) -> bool {
        if !matches!(packet.protocol, EtherType::IPV4 | EtherType::IPV6) {
            return false;
        }
        let bytes = &packet.payload[..];
        self.dscp.is_none_or(|dscp| ip::dscp(bytes) == Some(dscp))
            && self
                .port
                .is_none_or(|port| ip::ports(bytes).is_some_and(|ends| ends.contains(&port)))
            && self.address.is_none_or(|range| {
                let ends = [ip::source(bytes), ip::destination(bytes)];
                ends.into_iter().flatten().any(|address| range.contains(address))
            })
    }

    /// Whether it selects every packet that `other` selects.
    pub fn covers(&self, other: &Self) -> bool {
        let within = |range: AddressRange| other.address.is_some_and(|other| range.covers(other));
        self.dscp.is_none_or(|dscp| other.dscp == Some(dscp))
            && self.port.is_none_or(|port| other.port == Some(port))
            && self.address.is_none_or(within)
    }

    /// What it matches, as text for people.
    pub fn describe_match(&self) -> String {
        let parts = [
            self.dscp.map(|dscp| format!("DSCP {dscp}")),
            self.port.map(|port| format!("port {port}")),
            self.address.map(|range| format!("address {range}")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() { "everything".into() } else { parts.join(" and ") }
    }
}

/// An IP address, or all addresses that share its first bits; written as `10.66.0.3` or
/// `10.66.0.0/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    address: IpAddr,
    bits: u8,
}

impl AddressRange {
    /// Whether an address is in the range.
    pub fn contains(&self, address: IpAddr) -> bool {
        let differs = match (self.address, address) {
            (IpAddr::V4(ours), IpAddr::V4(other)) => {
                u128::from(ours.to_bits() ^ other.to_bits()) << 96
            }
            (IpAddr::V6(ours), IpAddr::V6(other)) => ours.to_bits() ^ other.to_bits(),
            _ => return false,
        };
        differs.leading_zeros() >= u32::from(self.bits)
    }

    /// Whether all addresses of `other` are in the range.
    fn covers(&self, other: Self) -> bool {
        self.bits <= other.bits && self.contains(other.address)
    }
}

impl FromStr for AddressRange {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let help = "an IP address, or a range of them such as 10.66.0.0/24";
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| help)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).map_err(|_| help)?;
        if bits <= most { Ok(Self { address, bits }) } else { Err(help) }
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.address, self.bits) {
            (IpAddr::V4(address), 32) => address.fmt(f),
            (IpAddr::V6(address), 128) => address.fmt(f),
            (address, bits) => write!(f, "{address}/{bits}"),
        }
    }
}

impl Serialize for AddressRange {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for AddressRange {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|what| {
            serde::de::Error::invalid_value(serde::de::Unexpected::Str(&text), &what)
        })
    }
}

impl JsonSchema for AddressRange {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "AddressRange".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        String::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use bytes::Bytes;

    use super::super::tests;
    use super::*;

    fn packet(dscp: u8, ports: [u8; 4]) -> Packet {
        let mut payload = Vec::new();
        let (src, dst) = (Ipv4Addr::new(10, 66, 0, 1), Ipv4Addr::new(10, 66, 0, 2));
        ip::put_ipv4(&mut payload, src, dst, ip::UDP, 8);
        payload[1] = dscp << 2;
        payload.extend_from_slice(&ports);
        payload.extend_from_slice(&[0, 8, 0, 0]);
        tests::packet(payload)
    }

    fn range(text: &str) -> Option<AddressRange> {
        Some(text.parse().expect("a range"))
    }

    #[test]
    fn all_that_is_given_must_match_at_either_end() {
        let voice = packet(46, [0, 7, 0, 9]);
        let class = ClassConfig { dscp: Some(46), port: Some(9), ..ClassConfig::default() };
        assert!(class.takes(&voice));
        assert!(ClassConfig { port: Some(7), ..class.clone() }.takes(&voice));
        assert!(!ClassConfig { port: Some(8), ..class.clone() }.takes(&voice));
        assert!(!class.takes(&packet(0, [0, 7, 0, 9])));
        assert!(ClassConfig { address: range("10.66.0.1"), ..class.clone() }.takes(&voice));
        assert!(ClassConfig { address: range("10.66.0.0/30"), ..class.clone() }.takes(&voice));
        assert!(!ClassConfig { address: range("10.66.0.3"), ..class.clone() }.takes(&voice));
        assert!(!ClassConfig { address: range("fd00::/8"), ..class.clone() }.takes(&voice));
        let beacon = Packet { protocol: EtherType::FARHOP, ..voice };
        assert!(!class.takes(&beacon), "what is no IP packet has no class");
        assert!(!class.takes(&Packet { payload: Bytes::new(), ..packet(46, [0; 4]) }));
    }

    #[test]
    fn a_range_is_written_as_it_is_read() {
        for text in ["10.66.0.3", "10.66.0.0/24", "fd66::/16", "fd66::1", "0.0.0.0/0"] {
            assert_eq!(range(text).expect("read").to_string(), text);
        }
        for text in ["", "hill", "10.66.0.3/33", "10.66.0.3/", "10.66.0/24", "::/129"] {
            assert!(text.parse::<AddressRange>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_wider_class_covers_a_narrower_one() {
        let wide = ClassConfig { address: range("10.66.0.0/16"), ..ClassConfig::default() };
        let narrow = ClassConfig { address: range("10.66.7.0/24"), port: Some(22), ..wide.clone() };
        assert!(wide.covers(&narrow) && wide.covers(&wide));
        assert!(!narrow.covers(&wide));
        assert!(!wide.covers(&ClassConfig { port: Some(22), ..ClassConfig::default() }));
    }
}
