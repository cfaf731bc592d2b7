//! Addresses with a common prefix, such as those of a network.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Addresses with a common prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    address: IpAddr,
    bits: u8,
}

/// Text that is no prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoPrefix(String);

impl fmt::Display for NoPrefix {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let examples = "10.0.0.0/8, 192.0.2.1 and fd00::/8 are prefixes";
        write!(out, "'{}' is no prefix of addresses; {examples}", self.0)
    }
}

impl Prefix {
    /// The first `bits` of an IPv4 address.
    pub const fn v4(address: Ipv4Addr, bits: u8) -> Self {
        Self { address: IpAddr::V4(address), bits }
    }

    /// The first `bits` of an IPv6 address.
    pub const fn v6(address: Ipv6Addr, bits: u8) -> Self {
        Self { address: IpAddr::V6(address), bits }
    }

    /// The address that it was given with.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Its length in bits.
    pub fn bits(&self) -> u8 {
        self.bits
    }

    /// Whether it is a prefix of IPv4.
    pub fn is_ipv4(&self) -> bool {
        self.address.is_ipv4()
    }

    /// The same prefix, given with its first address.
    #[must_use]
    pub fn network(&self) -> Self {
        let address = match self.address {
            IpAddr::V4(own) => Ipv4Addr::from_bits(own.to_bits() & self.mask_v4()).into(),
            IpAddr::V6(own) => Ipv6Addr::from_bits(own.to_bits() & self.mask_v6()).into(),
        };
        Self { address, bits: self.bits }
    }

    /// Whether an address has this prefix; an IPv4-mapped IPv6 address counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                (own.to_bits() ^ other.to_bits()) & self.mask_v4() == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                (own.to_bits() ^ other.to_bits()) & self.mask_v6() == 0
            }
            _ => false,
        }
    }

    /// Whether all addresses of this prefix also have the other.
    pub fn lies_in(&self, other: &Self) -> bool {
        self.bits >= other.bits && other.contains(self.address)
    }

    fn mask_v4(&self) -> u32 {
        u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0)
    }

    fn mask_v6(&self) -> u128 {
        u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0)
    }
}

impl FromStr for Prefix {
    type Err = NoPrefix;

    fn from_str(text: &str) -> Result<Self, NoPrefix> {
        let wrong = || NoPrefix(text.to_owned());
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).map_err(|_| wrong())?;
        if bits > most {
            return Err(wrong());
        }
        // As for the addresses that are compared with it.
        Ok(match address.to_canonical() {
            IpAddr::V4(own) if bits >= most - 32 => {
                Self { address: own.into(), bits: bits - (most - 32) }
            }
            _ => Self { address, bits },
        })
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.address, self.bits)
    }
}

impl Serialize for Prefix {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Prefix {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

impl JsonSchema for Prefix {
    fn schema_name() -> Cow<'static, str> {
        "Prefix".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "Addresses with a common prefix, such as `10.0.0.0/8` or `fd00::/8`.",
            "pattern": "^[0-9a-fA-F:.]+(/[0-9]{1,3})?$"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().expect("a prefix")
    }

    #[test]
    fn an_address_has_a_prefix_or_has_it_not() {
        let has =
            |text: &str, address: &str| prefix(text).contains(address.parse().expect("an address"));
        assert!(has("10.0.0.0/8", "10.255.0.1") && !has("10.0.0.0/8", "11.0.0.1"));
        assert!(has("0.0.0.0/0", "255.255.255.255") && !has("0.0.0.0/0", "::1"));
        assert!(has("::/0", "2001:db8::1") && has("fd00::/8", "fdff::1"));
        assert!(has("192.0.2.1", "192.0.2.1") && !has("192.0.2.1", "192.0.2.2"));
        assert!(has("10.0.0.0/8", "::ffff:10.1.2.3"));
    }

    #[test]
    fn one_lies_in_another_that_is_no_longer_and_contains_it() {
        assert!(prefix("10.1.0.0/16").lies_in(&prefix("10.0.0.0/8")));
        assert!(!prefix("10.0.0.0/8").lies_in(&prefix("10.1.0.0/16")));
        assert!(!prefix("11.1.0.0/16").lies_in(&prefix("10.0.0.0/8")));
        assert_eq!(prefix("::ffff:10.0.0.0/104"), prefix("10.0.0.0/8"));
    }

    #[test]
    fn the_network_has_no_bits_behind_the_prefix() {
        let cases = [("10.1.2.3/8", "10.0.0.0/8"), ("10.1.2.3/0", "0.0.0.0/0")];
        for (given, network) in cases.into_iter().chain([("fd00:1:2::3/32", "fd00:1::/32")]) {
            assert_eq!(prefix(given).network(), prefix(network));
        }
    }

    #[test]
    fn what_is_none_is_refused_with_examples() {
        for text in ["", "10.0.0.0/33", "fd00::/129", "10.0.0/8", "10.0.0.0/x", "name"] {
            let said = text.parse::<Prefix>().expect_err(text).to_string();
            assert!(said.contains("no prefix of addresses") && said.contains("fd00::/8"), "{said}");
        }
    }
}
