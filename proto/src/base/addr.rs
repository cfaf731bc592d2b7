//! The address plan: the IP addresses of a node follow from its number, so that no protocol has to
//! resolve addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::id::NodeId;
use super::prefix::Prefix;

/// The network that the virtual interfaces of all nodes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Subnet {
    /// IPv4 network address, with a prefix of 16 bits; the last 16 bits of an address are the
    /// node's number.
    pub ipv4: Ipv4Addr,
    /// IPv6 network address, with a prefix of 64 bits; the last 16 bits of an address are the
    /// node's number.
    pub ipv6: Ipv6Addr,
}

impl Default for Subnet {
    fn default() -> Self {
        Self {
            ipv4: Ipv4Addr::new(10, 66, 0, 0),
            ipv6: Ipv6Addr::new(0xfd66, 0x6172, 0x686f, 0x70, 0, 0, 0, 0),
        }
    }
}

/// Converts node numbers into addresses and back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressPlan(pub Subnet);

impl AddressPlan {
    /// Length of the IPv4 prefix.
    pub const IPV4_PREFIX: u8 = 16;
    /// Length of the IPv6 prefix.
    pub const IPV6_PREFIX: u8 = 64;

    /// IPv4 address of a node.
    pub fn ipv4(&self, node: NodeId) -> Ipv4Addr {
        Ipv4Addr::from_bits((self.0.ipv4.to_bits() & 0xffff_0000) | u32::from(node.0))
    }

    /// IPv6 address of a node.
    pub fn ipv6(&self, node: NodeId) -> Ipv6Addr {
        let prefix = self.0.ipv6.to_bits() & !u128::from(u64::MAX);
        Ipv6Addr::from_bits(prefix | u128::from(node.0))
    }

    /// The node that has this address, if it is one of a node.
    pub fn node(&self, addr: IpAddr) -> Option<NodeId> {
        let node = match addr {
            IpAddr::V4(addr) => NodeId(addr.to_bits() as u16),
            IpAddr::V6(addr) => NodeId(addr.to_bits() as u16),
        };
        let own = match addr {
            IpAddr::V4(addr) => addr == self.ipv4(node),
            IpAddr::V6(addr) => addr == self.ipv6(node),
        };
        (own && node.0 != 0).then_some(node)
    }

    /// The network of the nodes, of the IP version that an address has.
    pub fn network(&self, like: IpAddr) -> Prefix {
        match like {
            IpAddr::V4(_) => Prefix::v4(self.0.ipv4, Self::IPV4_PREFIX),
            IpAddr::V6(_) => Prefix::v6(self.0.ipv6, Self::IPV6_PREFIX),
        }
    }

    /// Whether this address is a broadcast or multicast address and not that of one node.
    pub fn is_of_many(&self, addr: IpAddr) -> bool {
        let is_broadcast =
            |addr: Ipv4Addr| [Ipv4Addr::BROADCAST, self.ipv4(NodeId(u16::MAX))].contains(&addr);
        addr.is_multicast() || matches!(addr, IpAddr::V4(addr) if is_broadcast(addr))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lead_back_to_their_node() {
        let plan = AddressPlan::default();
        for node in [NodeId(1), NodeId(255), NodeId(256), NodeId(65_000)] {
            assert_eq!(plan.node(plan.ipv4(node).into()), Some(node));
            assert_eq!(plan.node(plan.ipv6(node).into()), Some(node));
        }
        assert_eq!(plan.ipv4(NodeId(258)), Ipv4Addr::new(10, 66, 1, 2));
        assert_eq!(plan.node(Ipv4Addr::new(10, 67, 0, 1).into()), None);
        assert_eq!(plan.node(Ipv4Addr::new(10, 66, 0, 0).into()), None);
        assert_eq!(plan.node("ff02::2".parse().expect("an address")), None);
    }
}
