//! What can be wrong with addresses: those of all nodes, and those of UDP devices.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use super::Found;
use super::names::Names;
use crate::base::{AddressPlan, Subnet};
use crate::stack::scenario::{DeviceConfig, NodeConfig};

pub(super) fn check_subnet(found: &mut Found, subnet: Subnet) {
    let Subnet { ipv4, ipv6 } = subnet;
    if let Some(what) = not_for_hosts_v4(ipv4) {
        let help = "a network of your own, for example \"10.66.0.0\" or \"172.16.0.0\"";
        found.add("subnet.ipv4", format!("{ipv4} {what}: no node can have them"), help);
    } else if let network = Ipv4Addr::from_bits(ipv4.to_bits() & 0xffff_0000)
        && network != ipv4
    {
        let bits = 32 - AddressPlan::IPV4_PREFIX;
        let message = format!("{ipv4} is no network: its last {bits} bits are the node's number");
        found.add("subnet.ipv4", message, format!("\"{network}\""));
    }
    if let Some(what) = not_for_hosts_v6(ipv6) {
        let help = "a network of your own, for example \"fd66:6172:686f:70::\"";
        found.add("subnet.ipv6", format!("{ipv6} {what}: no node can have them"), help);
    } else if let network = Ipv6Addr::from_bits(ipv6.to_bits() & !u128::from(u64::MAX))
        && network != ipv6
    {
        let bits = 128 - AddressPlan::IPV6_PREFIX;
        let message = format!("{ipv6} is no network: its last {bits} bits are the node's");
        found.add("subnet.ipv6", message, format!("\"{network}\""));
    }
}

/// Why the kernel gives an interface no such address, or sends nothing there.
fn not_for_hosts_v4(network: Ipv4Addr) -> Option<&'static str> {
    match network.octets()[0] {
        0 => Some("has addresses without a meaning (0.0.0.0/8)"),
        127 => Some("has addresses of the host itself (127.0.0.0/8)"),
        224..=239 => Some("has addresses of multicast groups (224.0.0.0/4)"),
        240.. => Some("has reserved addresses (240.0.0.0/4)"),
        _ => None,
    }
}

fn not_for_hosts_v6(network: Ipv6Addr) -> Option<&'static str> {
    let first = network.segments()[0];
    if first >> 8 == 0 {
        return Some("has reserved addresses (::/8)");
    }
    // Every interface has this network, so it leads to none of them.
    if network.is_unicast_link_local() {
        return Some("has addresses of a single wire (fe80::/10)");
    }
    network.is_multicast().then_some("has addresses of multicast groups (ff00::/8)")
}

/// Checks the devices of the node at `path`.
pub(super) fn check_devices(found: &mut Found, path: &str, node: &NodeConfig, names: &Names<'_>) {
    let of_one = node.device.iter().map(|device| (format!("{path}.device"), device));
    let of_many = node.devices.iter().enumerate();
    let of_many = of_many.map(|(index, device)| (format!("{path}.devices[{index}]"), device));
    for (path, device) in of_one.chain(of_many) {
        let DeviceConfig::Udp { bind, peers, .. } = device else { continue };
        if bind.port() == 0 {
            let message = "with the port 0 the system takes one that no peer can know";
            let example = SocketAddr::new(bind.ip(), 4850);
            let help = format!("the port that the peers send to, for example \"{example}\"");
            found.add(format!("{path}.bind"), message, help);
        }
        for (peer, address) in peers {
            let path = format!("{path}.peers.{peer}");
            if !names.check(found, path.clone(), peer) {
                continue;
            }
            if *peer == node.name {
                let message = format!("'{peer}' is no neighbour of itself");
                found.add(path, message, "the other nodes that it reaches, not this one");
            } else if let Some((message, help)) = unreachable(*bind, *address) {
                found.add(path, format!("{address} {message}"), help);
            }
        }
    }
}

/// Why datagrams from `bind` never come to and fro a peer, and what would be right. They are known
/// by the very address that they come from.
fn unreachable(bind: SocketAddr, peer: SocketAddr) -> Option<(String, String)> {
    let is_broadcast = |ip: Ipv4Addr| ip == Ipv4Addr::BROADCAST;
    let ip = peer.ip();
    let is_none = ip.is_unspecified() || ip.is_multicast();
    let is_none = is_none || matches!(peer, SocketAddr::V4(v4) if is_broadcast(*v4.ip()));
    let theirs = "the address and port in that node's own `bind`";
    if peer.port() == 0 {
        return Some(("has the port 0, which nothing is sent to".into(), theirs.into()));
    }
    if is_none {
        return Some(("is not the address of one host".into(), theirs.into()));
    }
    if peer == bind {
        return Some(("is this node's own `bind`".into(), theirs.into()));
    }
    if peer.is_ipv4() != bind.is_ipv4() {
        let (other, own) = if bind.is_ipv4() { ("IPv6", "IPv4") } else { ("IPv4", "IPv6") };
        let message = format!("is of {other}, and `bind` of {own} ({bind})");
        return Some((message, format!("an address of {own}, or a `bind` of {other}")));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::Scenario;

    fn subnet_problems(ipv4: &str, ipv6: &str) -> Vec<(String, String)> {
        let (ipv4, ipv6) = (ipv4.parse().expect("IPv4"), ipv6.parse().expect("IPv6"));
        let mut found = Found::default();
        check_subnet(&mut found, Subnet { ipv4, ipv6 });
        found.0.into_iter().map(|problem| (problem.path, problem.help)).collect()
    }

    #[test]
    fn networks_that_no_node_can_have_are_refused() {
        for ipv4 in ["127.0.0.0", "224.0.0.0", "0.0.0.0", "255.255.0.0", "240.1.0.0"] {
            let found = subnet_problems(ipv4, "fd00::");
            assert_eq!(found.len(), 1, "{ipv4}");
            assert_eq!(found[0].0, "subnet.ipv4");
        }
        for ipv6 in ["ff02::", "::1", "::", "fe80::", "::ffff:10.66.0.0"] {
            let found = subnet_problems("10.66.0.0", ipv6);
            assert_eq!(found.len(), 1, "{ipv6}");
            assert_eq!(found[0].0, "subnet.ipv6");
        }
        for (ipv4, ipv6) in [("10.66.0.0", "fd66::"), ("172.16.0.0", "2001:db8:0:1::")] {
            assert_eq!(subnet_problems(ipv4, ipv6), []);
        }
    }

    #[test]
    fn a_network_has_no_bits_of_nodes() {
        let of = |path: &str, help: &str| (path.to_owned(), help.to_owned());
        let expected = [of("subnet.ipv4", "\"10.66.0.0\""), of("subnet.ipv6", "\"fd66:0:0:7::\"")];
        assert_eq!(subnet_problems("10.66.5.7", "fd66:0:0:7::9"), expected);
    }

    /// What is said of the devices of 'left', with these peers.
    fn peer_problems(bind: &str, peers: &[(&str, &str)]) -> Vec<(String, String)> {
        let address = |text: &str| text.parse().expect("an address");
        let peers = peers.iter().map(|(name, at)| ((*name).to_owned(), address(at))).collect();
        let device = DeviceConfig::Udp { bind: address(bind), peers, paced: None };
        let node = |name: &str| NodeConfig { name: name.into(), ..NodeConfig::default() };
        let node =
            vec![NodeConfig { devices: vec![device], ..node("left") }, node("right"), node("up")];
        let scenario = Scenario { node, ..Scenario::default() };
        let mut found = Found::default();
        check_devices(&mut found, "node[0]", &scenario.node[0], &Names::of(&scenario));
        found.0.into_iter().map(|problem| (problem.path, problem.message)).collect()
    }

    #[test]
    fn a_port_that_no_peer_can_know_is_refused() {
        let found = peer_problems("[2001:db8::1]:0", &[]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].0, "node[0].devices[0].bind");
    }

    #[test]
    fn peers_that_can_never_answer_are_refused() {
        let good = [("right", "192.0.2.2:4850"), ("up", "192.0.2.1:4851")];
        assert_eq!(peer_problems("192.0.2.1:4850", &good), []);
        for bad in ["192.0.2.1:4850", "[2001:db8::1]:4850", "192.0.2.2:0", "0.0.0.0:1"] {
            let found = peer_problems("192.0.2.1:4850", &[("right", bad)]);
            assert_eq!(found.len(), 1, "{bad}");
            assert_eq!(found[0].0, "node[0].devices[0].peers.right");
        }
        let found = peer_problems("[::1]:4850", &[("right", "192.0.2.1:4850")]);
        assert!(found[0].1.contains("is of IPv4, and `bind` of IPv6"), "{found:?}");
        let found = peer_problems("192.0.2.1:4850", &[("left", "192.0.2.9:4850")]);
        assert_eq!(found[0].1, "'left' is no neighbour of itself");
    }
}
