//! Checks of addresses, those of all nodes and those of UDP devices, and of the interfaces of
//! devices.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use super::Found;
use super::names::Names;
use crate::base::{AddressPlan, Networks, NodeId, RadioId, Subnet, counted};
use crate::stack::plan::Topology;
use crate::stack::scenario::{DeviceConfig, NodeConfig, Scenario};

/// Most networks behind nodes: each packet for one is compared with all of them.
const NETWORKS: usize = 1_024;

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

/// Why the kernel does not give such addresses to an interface, or sends nothing to them.
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
    // Every interface has this network, so no route leads to one of them.
    if network.is_unicast_link_local() {
        return Some("has addresses of a single wire (fe80::/10)");
    }
    network.is_multicast().then_some("has addresses of multicast groups (ff00::/8)")
}

/// Checks the networks behind nodes.
pub(super) fn check_networks(found: &mut Found, scenario: &Scenario) {
    let plan = AddressPlan(scenario.subnet);
    let count: usize = scenario.node.iter().map(|node| node.networks.len()).sum();
    if count > NETWORKS {
        let message = format!("{count} networks are behind nodes");
        found.add("node", message, format!("at most {NETWORKS}: put them together"));
    }
    for (index, node) in scenario.node.iter().enumerate() {
        for (place, prefix) in node.networks.iter().enumerate() {
            let path = format!("node[{index}].networks[{place}]");
            let network = prefix.network();
            let unusable = Networks::NEVER.iter().find(|(range, _)| prefix.lies_in(range));
            if network != *prefix {
                let message = format!("{prefix} is no network: it has bits behind its prefix");
                found.add(path, message, format!("\"{network}\""));
            } else if let Some((_, what)) = unusable {
                let message = format!("{prefix} has {what}: no packet goes to them over nodes");
                found.add(path, message, "a network of hosts, for example \"192.168.7.0/24\"");
            } else if prefix.lies_in(&plan.network(network.address())) {
                let message = format!("{prefix} lies in the network that the nodes have");
                let help = "another network, or another `subnet` for the nodes";
                found.add(path, message, help);
            } else if node.networks[..place].contains(prefix) {
                let message = format!("'{}' has {prefix} twice", node.name);
                found.add(path, message, "each network once");
            }
        }
    }
}

/// The devices of the node at `path`, with their own paths, in the order of its radios.
fn devices<'a>(path: &str, node: &'a NodeConfig) -> Vec<(String, &'a DeviceConfig)> {
    let of_one = node.device.iter().map(|device| (format!("{path}.device"), device));
    let of_many = node.devices.iter().enumerate();
    let of_many = of_many.map(|(index, device)| (format!("{path}.devices[{index}]"), device));
    of_one.chain(of_many).collect()
}

/// Whether two sockets of one host cannot be open at the same time.
fn collide(a: SocketAddr, b: SocketAddr) -> bool {
    let has_any = a.ip().is_unspecified() || b.ip().is_unspecified();
    let is_one = a.ip() == b.ip() || has_any && a.is_ipv4() == b.is_ipv4();
    a.port() != 0 && a.port() == b.port() && is_one
}

/// Checks the devices of the node at `path`.
pub(super) fn check_devices(found: &mut Found, path: &str, node: &NodeConfig, names: &Names<'_>) {
    let mut binds: Vec<(String, SocketAddr)> = Vec::new();
    let mut interfaces: Vec<(String, &str)> = Vec::new();
    for (path, device) in devices(path, node) {
        let (bind, peers) = match device {
            DeviceConfig::Udp { bind, peers, .. } => (bind, peers),
            DeviceConfig::Monitor { interface } | DeviceConfig::Ethernet { interface } => {
                if let Some((other, _)) = interfaces.iter().find(|(_, taken)| taken == interface) {
                    let message = format!("'{interface}' is that of {other} already");
                    let help = "an interface of its own: each radio is a device";
                    found.add(format!("{path}.interface"), message, help);
                }
                interfaces.push((path, interface));
                continue;
            }
        };
        if let Some((other, taken)) = binds.iter().find(|(_, taken)| collide(*taken, *bind)) {
            let message = format!("{bind} is taken by {other}, whose `bind` is {taken}");
            found.add(format!("{path}.bind"), message, "an address or a port of its own");
        }
        binds.push((path.clone(), *bind));
        if bind.port() == 0 {
            let message = "with the port 0 the system takes one that no peer can know";
            let example = SocketAddr::new(bind.ip(), 4850);
            let help = format!("the port that the peers send to, for example \"{example}\"");
            found.add(format!("{path}.bind"), message, help);
        }
        if let Some((message, help)) = without_interface(*bind) {
            found.add(format!("{path}.bind"), format!("{bind} {message}"), help);
        }
        for (peer, address) in peers {
            let path = format!("{path}.peers.{peer}");
            if !names.check(found, path.clone(), peer) {
                continue;
            }
            if *peer == node.name {
                let message = format!("'{peer}' is no neighbour of itself");
                found.add(path, message, "the other nodes that it reaches, not this one");
            } else if let Some((other, _)) = peers.iter().find(|(_, taken)| *taken == address)
                && other != peer
            {
                let message = format!("{address} is that of '{other}' already");
                found.add(path, message, "the address and port that this node has as its `bind`");
            } else if let Some((message, help)) = unreachable(*bind, *address) {
                found.add(path, format!("{address} {message}"), help);
            }
        }
    }
}

/// Checks that each node with devices has one for each of its radios, and that the peers of UDP
/// devices are the neighbours that their radios reach.
pub(super) fn check_radios(
    found: &mut Found,
    scenario: &Scenario,
    names: &Names<'_>,
    topology: &Topology,
) {
    const ORDER: &str = "devices stand in the order of the radios: that of the links without a \
                         `radio`, if there are any, then one for each link with one";
    for ((index, node), number) in scenario.node.iter().enumerate().zip(1..) {
        let (id, path) = (NodeId(number), format!("node[{index}]"));
        let devices = devices(&path, node);
        if devices.is_empty() {
            continue;
        }
        let radios = topology.radios_of(id);
        if devices.len() != radios {
            let key = if node.devices.is_empty() { "device" } else { "devices" };
            let (have, want) = (counted(devices.len(), "device"), counted(radios, "radio"));
            let message = format!("'{}' has {have} and {want}", node.name);
            let help = format!("{}; {ORDER}", counted(radios, "device"));
            found.add(format!("{path}.{key}"), message, help);
            continue;
        }
        // Nodes that move have other neighbours later.
        let is_still = !scenario.may_join_later();
        for ((path, device), radio) in devices.into_iter().zip(0..).filter(|_| is_still) {
            check_kinds(found, (&path, device), (id, RadioId(radio)), (scenario, topology));
            let DeviceConfig::Udp { peers, .. } = device else { continue };
            let reached: BTreeSet<NodeId> = topology.reached(id, RadioId(radio)).collect();
            let given = peers.keys().filter_map(|peer| names.get(peer));
            if given.collect::<BTreeSet<NodeId>>() == reached {
                continue;
            }
            let reached: Vec<&str> =
                reached.iter().filter_map(|peer| scenario.node_name(*peer)).collect();
            let given: Vec<&str> = peers.keys().map(|peer| &**peer).collect();
            let list = |names: &[&str]| match names {
                [] => "nobody".to_owned(),
                names => names.join(", "),
            };
            let help = match reached.as_slice() {
                [] => "a [[link]] with each peer".to_owned(),
                names => format!("the address of {}; {ORDER}", names.join(" and of ")),
            };
            let (reached, given) = (list(&reached), list(&given));
            let message = format!("its radio reaches {reached}, and its peers are {given}");
            found.add(format!("{path}.peers"), message, help);
        }
    }
}

/// Checks that a device is of the kind of its neighbours' devices. Of two that differ, the one at
/// the later node is reported.
fn check_kinds(
    found: &mut Found,
    (path, device): (&str, &DeviceConfig),
    (id, radio): (NodeId, RadioId),
    (scenario, topology): (&Scenario, &Topology),
) {
    for neighbour in topology.reached(id, radio).filter(|neighbour| neighbour.0 < id.0) {
        let node = &scenario.node[usize::from(neighbour.0) - 1];
        let theirs = (0..).zip(node.all_devices());
        let meets = |radio| topology.reached(neighbour, RadioId(radio)).any(|node| node == id);
        let other = theirs.filter(|(radio, _)| meets(*radio)).map(|(_, device)| device.kind());
        if let Some(other) = other.into_iter().find(|other| *other != device.kind()) {
            let message = format!("it never meets '{}', whose device is {other}", node.name);
            let help = format!("kind = \"{other}\", or \"{}\" at both ends", device.kind());
            found.add(format!("{path}.kind"), message, help);
        }
    }
}

/// Why the kernel does not know through which interface to reach such an address, and what would be
/// right. Each interface has addresses of fe80::/10 (RFC 4291, section 2.5.6), so the interface
/// must be given by its number (RFC 4007, section 11).
fn without_interface(address: SocketAddr) -> Option<(String, String)> {
    let SocketAddr::V6(v6) = address else { return None };
    if !v6.ip().is_unicast_link_local() || v6.scope_id() != 0 {
        return None;
    }
    let right = SocketAddrV6::new(*v6.ip(), v6.port(), 0, 3);
    let message = "is of a single wire (fe80::/10), and does not say of which".to_owned();
    let help = format!(
        "\"{right}\", where 3 is the number that `ip link` has before the interface; or an address \
         that is valid beyond the wire"
    );
    Some((message, help))
}

/// Why datagrams cannot go from `bind` to a peer and back, and what would be right. A peer is
/// identified by the exact address that its datagrams come from.
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
    without_interface(peer)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::stack::scenario::{RadioLinkConfig, RadioOverride};

    fn subnet_problems(ipv4: &str, ipv6: &str) -> Vec<(String, String)> {
        let (ipv4, ipv6) = (ipv4.parse().expect("IPv4"), ipv6.parse().expect("IPv6"));
        let mut found = Found::default();
        check_subnet(&mut found, Subnet { ipv4, ipv6 });
        found.0.into_iter().map(|problem| (problem.path, problem.help)).collect()
    }

    #[test]
    fn devices_of_two_kinds_never_meet() {
        let problems = |first: serde_json::Value| {
            let scenario: Scenario = serde_json::from_value(serde_json::json!({
                "name": "kinds",
                "duration_s": 1,
                "node": [
                    { "name": "a", "device": first },
                    { "name": "b", "device": { "kind": "ethernet", "interface": "eth0" } },
                    { "name": "c" },
                ],
                "link": [{ "between": ["a", "b"] }, { "between": ["b", "c"] }],
            }))
            .expect("a scenario");
            scenario.problems().into_iter().map(|problem| problem.path).collect::<Vec<_>>()
        };
        let monitor = serde_json::json!({ "kind": "monitor", "interface": "mon0" });
        assert_eq!(problems(monitor), ["node[1].device.kind"]);
        let ethernet = serde_json::json!({ "kind": "ethernet", "interface": "eth0" });
        assert!(problems(ethernet).is_empty());
    }

    #[test]
    fn networks_that_cannot_be_behind_a_node_are_refused() {
        let problems = |networks: &[&str]| {
            let networks = networks.iter().map(|text| text.parse().expect("a prefix")).collect();
            let node = vec![NodeConfig { name: "a".into(), networks, ..NodeConfig::default() }];
            let mut found = Found::default();
            check_networks(&mut found, &Scenario { node, ..Scenario::default() });
            found.0.into_iter().map(|problem| (problem.path, problem.help)).collect::<Vec<_>>()
        };
        let good = ["192.168.7.0/24", "0.0.0.0/0", "::/0", "0.0.0.0/1", "10.0.0.0/8", "fd00::/8"];
        assert_eq!(problems(&good), []);
        assert_eq!(problems(&["64:ff9b::/96"]), [], "NAT64");
        let path = "node[0].networks[0]".to_owned();
        let right = (path.clone(), "\"192.168.7.0/24\"".to_owned());
        assert_eq!(problems(&["192.168.7.1/24"]), [right]);
        for bad in ["10.66.7.0/24", "10.66.0.0/16", "127.0.0.0/8", "224.0.0.0/4", "fe80::/10"] {
            let found = problems(&[bad]);
            assert_eq!(found.len(), 1, "{bad}");
            assert_eq!(found[0].0, path);
        }
        let twice = problems(&["192.168.7.0/24", "192.168.7.0/24"]);
        assert_eq!(twice[0].0, "node[0].networks[1]");
        let many: Vec<String> =
            (0..=NETWORKS).map(|n| format!("172.{}.{}.0/24", n / 256, n % 256)).collect();
        assert_eq!(problems(&many.iter().map(String::as_str).collect::<Vec<_>>())[0].0, "node");
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

    /// The problems of the device of 'left' with these peers.
    fn peer_problems(bind: &str, peers: &[(&str, &str)]) -> Vec<(String, String)> {
        let address = |text: &str| text.parse().expect("an address");
        let peers = peers.iter().map(|(name, at)| ((*name).to_owned(), address(at))).collect();
        device_problems(vec![DeviceConfig::Udp { bind: address(bind), peers, paced: None }])
    }

    /// The problems of devices of 'left' at these addresses, without peers.
    fn bind_problems(binds: &[&str]) -> Vec<(String, String)> {
        let device = |bind: &&str| DeviceConfig::Udp {
            bind: bind.parse().expect("an address"),
            peers: BTreeMap::new(),
            paced: None,
        };
        device_problems(binds.iter().map(device).collect())
    }

    fn device_problems(devices: Vec<DeviceConfig>) -> Vec<(String, String)> {
        let node = |name: &str| NodeConfig { name: name.into(), ..NodeConfig::default() };
        let node = vec![NodeConfig { devices, ..node("left") }, node("right"), node("up")];
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
        let twice = [("right", "192.0.2.2:4850"), ("up", "192.0.2.2:4850")];
        let found = peer_problems("192.0.2.1:4850", &twice);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].0.ends_with("peers.up") && found[0].1.contains("of 'right'"), "{found:?}");
        let found = peer_problems("192.0.2.1:4850", &[("left", "192.0.2.9:4850")]);
        assert_eq!(found[0].1, "'left' is no neighbour of itself");
    }

    /// 'mid' between 'left' and 'right', with the devices of 'mid' as pairs of a `bind` and a peer;
    /// each link has a radio of its own, or all have one.
    fn problems_of_mid(devices: &[(&str, &str)], has_own_radios: bool) -> Vec<(String, String)> {
        let device = |(bind, peers): &(&str, &str)| DeviceConfig::Udp {
            bind: bind.parse().expect("an address"),
            peers: peers
                .split(' ')
                .zip(1..)
                .map(|(name, host)| (name.to_owned(), ([192, 0, 2, host], 4850).into()))
                .collect(),
            paced: None,
        };
        let node = |name: &str| NodeConfig { name: name.into(), ..NodeConfig::default() };
        let mid = NodeConfig { devices: devices.iter().map(device).collect(), ..node("mid") };
        let link = |other: &str| RadioLinkConfig {
            between: ["mid".to_owned(), other.to_owned()],
            radio: has_own_radios.then(RadioOverride::default),
            ..RadioLinkConfig::default()
        };
        let scenario = Scenario {
            duration_s: 1.0,
            node: vec![node("left"), mid, node("right")],
            link: vec![link("left"), link("right")],
            ..Scenario::default()
        };
        let problems = scenario.problems().into_iter();
        problems.map(|problem| (problem.path, problem.message)).collect()
    }

    #[test]
    fn a_node_has_a_device_for_each_of_its_radios() {
        let (one, other) = ("10.0.0.1:4850", "10.0.1.1:4850");
        assert_eq!(problems_of_mid(&[(one, "left"), (other, "right")], true), []);
        assert_eq!(problems_of_mid(&[(one, "left right")], false), []);
        assert_eq!(problems_of_mid(&[], true), []);
        let of = |message: &str| vec![("node[1].devices".to_owned(), message.to_owned())];
        let found = problems_of_mid(&[(one, "left"), (other, "right")], false);
        assert_eq!(found, of("'mid' has 2 devices and 1 radio"));
        let found = problems_of_mid(&[(one, "left right")], true);
        assert_eq!(found, of("'mid' has 1 device and 2 radios"));
    }

    #[test]
    fn devices_of_a_node_have_addresses_of_their_own() {
        for (one, other) in [
            ("10.0.0.1:4850", "10.0.0.1:4850"),
            ("0.0.0.0:4850", "10.0.0.1:4850"),
            ("[fd00::1]:4850", "[::]:4850"),
        ] {
            let found = bind_problems(&[one, other]);
            assert_eq!(found.len(), 1, "{one} {other}: {found:?}");
            assert_eq!(found[0].0, "node[0].devices[1].bind");
        }
        assert_eq!(bind_problems(&["10.0.0.1:4850", "10.0.0.1:4851"]), []);
        assert_eq!(bind_problems(&["10.0.0.1:4850", "10.0.0.2:4850"]), []);
    }

    #[test]
    fn an_address_of_a_wire_says_which_interface_leads_to_it() {
        let found = peer_problems("[fe80::1]:4850", &[("right", "[fe80::2]:4850")]);
        let paths: Vec<&str> = found.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, ["node[0].devices[0].bind", "node[0].devices[0].peers.right"]);
        let said = "[fe80::1]:4850 is of a single wire (fe80::/10), and does not say of which";
        assert_eq!(found[0].1, said);
        assert_eq!(peer_problems("[fe80::1%2]:4850", &[("right", "[fe80::2%2]:4850")]), []);
        assert_eq!(peer_problems("[fd00::1]:4850", &[("right", "[fd00::2]:4850")]), []);
        let (_, help) = without_interface("[fe80::1]:4850".parse().expect("one")).expect("refused");
        assert!(help.starts_with("\"[fe80::1%3]:4850\", where 3 is the number"), "{help}");
    }

    #[test]
    fn peers_are_the_neighbours_over_the_radio_of_their_device() {
        let (one, other) = ("10.0.0.1:4850", "10.0.1.1:4850");
        let of = |device: usize, message: &str| {
            (format!("node[1].devices[{device}].peers"), message.to_owned())
        };
        let expected = [
            of(0, "its radio reaches left, and its peers are right"),
            of(1, "its radio reaches right, and its peers are left"),
        ];
        assert_eq!(problems_of_mid(&[(one, "right"), (other, "left")], true), expected);
        let expected = [of(0, "its radio reaches left, right, and its peers are left")];
        assert_eq!(problems_of_mid(&[(one, "left")], false), expected);
    }

    #[test]
    fn an_interface_is_the_device_of_one_radio() {
        let monitor = |name: &str| DeviceConfig::Monitor { interface: name.into() };
        let ethernet = |name: &str| DeviceConfig::Ethernet { interface: name.into() };
        for other in [monitor("mon0"), ethernet("mon0")] {
            let found = device_problems(vec![monitor("mon0"), ethernet("eth0"), other]);
            let message = "'mon0' is that of node[0].devices[0] already";
            assert_eq!(found, [("node[0].devices[2].interface".to_owned(), message.to_owned())]);
        }
        assert_eq!(device_problems(vec![monitor("mon0"), monitor("mon1")]), []);
    }
}
