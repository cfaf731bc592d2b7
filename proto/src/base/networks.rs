//! Networks behind nodes: addresses that no node has, to which some nodes know the way.

use std::cmp::Reverse;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::addr::AddressPlan;
use super::id::NodeId;
use super::prefix::Prefix;

/// The number of a network in [`Networks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkId(u16);

/// A network, and the nodes whose hosts pass packets on to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// Its addresses.
    pub prefix: Prefix,
    /// The nodes before it, in order.
    pub nodes: Vec<NodeId>,
}

/// The networks behind nodes.
///
/// All nodes know them from their files. Nobody announces a network (HNA: RFC 3626, section 12), so
/// that no node can claim one that the files do not give it. Each packet goes to the nearest node
/// before the longest network that has its destination. Each relay judges by its own routes, and is
/// nearer to that node than the relay before, so no packet travels in circles; unless relays know
/// different states of the network for a moment, until the hop limit.
#[derive(Clone, Debug, Default)]
pub struct Networks {
    plan: AddressPlan,
    /// The longest prefixes first.
    all: Vec<Network>,
}

impl Networks {
    /// Addresses that are never behind a node, and what they are.
    pub const NEVER: [(Prefix, &str); 8] = [
        (Prefix::v4(Ipv4Addr::UNSPECIFIED, 8), "addresses without a meaning"),
        (Prefix::v4(Ipv4Addr::LOCALHOST, 8), "addresses of the host itself"),
        (Prefix::v4(Ipv4Addr::new(169, 254, 0, 0), 16), "addresses of a single wire"),
        (Prefix::v4(Ipv4Addr::new(224, 0, 0, 0), 4), "addresses of multicast groups"),
        (Prefix::v4(Ipv4Addr::new(240, 0, 0, 0), 4), "reserved addresses"),
        (Prefix::v6(Ipv6Addr::UNSPECIFIED, 96), "reserved addresses"),
        (Prefix::v6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10), "addresses of a single wire"),
        (
            Prefix::v6(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8),
            "addresses of multicast groups",
        ),
    ];

    /// These networks, beside the addresses of nodes.
    pub fn build(plan: AddressPlan, behind: impl IntoIterator<Item = (NodeId, Prefix)>) -> Self {
        let mut all: Vec<Network> = Vec::new();
        for (node, prefix) in behind {
            match all.iter_mut().find(|network| network.prefix == prefix) {
                Some(network) if network.nodes.contains(&node) => {}
                Some(network) => network.nodes.push(node),
                None => all.push(Network { prefix, nodes: vec![node] }),
            }
        }
        all.sort_by_key(|network| Reverse(network.prefix.bits()));
        all.iter_mut().for_each(|network| network.nodes.sort());
        Self { plan, all }
    }

    /// The addresses of nodes.
    pub fn plan(&self) -> AddressPlan {
        self.plan
    }

    /// The longest network that has an address, if it is the address of one host beyond the nodes.
    pub fn find(&self, address: IpAddr) -> Option<NetworkId> {
        let is_of_nodes = || self.plan.network(address).contains(address);
        // No packet has an IPv4 address in place of one of IPv6.
        let is_mapped = || address.to_canonical() != address;
        let is_never = || Self::NEVER.iter().any(|(never, _)| never.contains(address));
        let is_of_many = || self.plan.is_of_many(address);
        let is_none = || is_of_nodes() || is_of_many() || is_mapped() || is_never();
        if self.all.is_empty() || is_none() {
            return None;
        }
        let place = self.all.iter().position(|network| network.prefix.contains(address));
        place.map(|place| NetworkId(place as u16))
    }

    /// The nodes before a network.
    pub fn nodes(&self, network: NetworkId) -> &[NodeId] {
        &self.all[usize::from(network.0)].nodes
    }

    /// The networks behind a node.
    pub fn behind(&self, node: NodeId) -> impl Iterator<Item = Prefix> {
        self.of(move |network| network.nodes.contains(&node))
    }

    /// The networks behind other nodes alone.
    pub fn behind_others(&self, node: NodeId) -> impl Iterator<Item = Prefix> {
        self.of(move |network| !network.nodes.contains(&node))
    }

    fn of(&self, is_it: impl Fn(&Network) -> bool) -> impl Iterator<Item = Prefix> {
        self.all.iter().filter(move |network| is_it(network)).map(|network| network.prefix)
    }

    /// All of them, the longest prefixes first.
    pub fn all(&self) -> &[Network] {
        &self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_the_longest_network_but_for_those_of_nodes_and_groups() {
        let behind = [(3, "0.0.0.0/0"), (2, "10.0.0.0/8"), (1, "10.0.0.0/8"), (1, "fd00::/8")];
        let behind = behind.map(|(node, text)| (NodeId(node), text.parse().expect("a prefix")));
        let networks = Networks::build(AddressPlan::default(), behind);
        let nodes = |address: &str| {
            let network = networks.find(address.parse().expect("an address"))?;
            Some(networks.nodes(network).iter().map(|node| node.0).collect::<Vec<_>>())
        };
        assert_eq!(nodes("10.67.0.1"), Some(vec![1, 2]));
        assert_eq!(nodes("192.0.2.1"), Some(vec![3]));
        assert_eq!(nodes("fd01::1"), Some(vec![1]));
        assert_eq!(nodes("2001:db8::1"), None);
        let of_nodes = ["10.66.0.9", "10.66.255.255"];
        let of_many = ["224.0.0.1", "255.255.255.255"];
        let of_a_host_or_wire = ["127.0.0.1", "0.0.0.1", "169.254.169.254", "240.0.0.1", "fe80::1"];
        let mapped = ["::ffff:1.2.3.4"];
        for address in of_nodes.iter().chain(&of_many).chain(&of_a_host_or_wire).chain(&mapped) {
            assert_eq!(nodes(address), None, "{address}");
        }
        assert_eq!(Networks::default().find("192.0.2.1".parse().expect("an address")), None);
    }
}
