//! Networks behind nodes, as far as the host is concerned: its routes to those behind other nodes,
//! and whether it passes packets on to those behind its own.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};

use farhop_proto::base::Prefix;
use farhop_proto::stack::NodePlan;
use rtnetlink::RouteMessageBuilder;

use super::DeviceChoice;
use crate::netlink;

/// Metric of the routes: higher than others usually have, so that a host that has a way of its own
/// to a network keeps it.
const METRIC: u32 = 1_000_000;

/// Makes routes over `interface` to the networks behind other nodes. The kernel removes them with
/// the interface, and also once somebody sets it down.
pub(super) fn add_routes(interface: &str, plan: &NodePlan) {
    for prefix in plan.networks.behind_others(plan.node) {
        if let Err(error) = add_route(interface, prefix) {
            tracing::warn!("{interface}: no route to {prefix}, behind another node: {error}");
        }
    }
}

fn add_route(interface: &str, prefix: Prefix) -> io::Result<()> {
    let link = netlink::index(interface)?;
    let route = RouteMessageBuilder::<IpAddr>::new().output_interface(link).priority(METRIC);
    let route = route.destination_prefix(prefix.address(), prefix.bits());
    let route = route.map_err(io::Error::other)?.build();
    netlink::ask(async |handle| handle.route().add(route).execute().await)
}

/// Where the node's own `udp` devices send.
pub(super) fn underlay(devices: &[DeviceChoice]) -> BTreeSet<SocketAddr> {
    let peers = |device: &DeviceChoice| match device {
        DeviceChoice::Udp(udp) => udp.peers.values().copied().map(as_sent).collect(),
        _ => Vec::new(),
    };
    devices.iter().flat_map(peers).collect()
}

/// The address that packets for a socket have: one of IPv4 may be written as one of IPv6.
fn as_sent(peer: SocketAddr) -> SocketAddr {
    SocketAddr::new(peer.ip().to_canonical(), peer.port())
}

/// Warns if the host does not pass packets on to the networks behind this node.
pub(super) fn check_forwarding(plan: &NodePlan) {
    for is_ipv4 in [true, false] {
        let behind = plan.networks.behind(plan.node).find(|prefix| prefix.is_ipv4() == is_ipv4);
        let (file, name, more) = match is_ipv4 {
            true => ("/proc/sys/net/ipv4/ip_forward", "net.ipv4.ip_forward", ""),
            false => (
                "/proc/sys/net/ipv6/conf/all/forwarding",
                "net.ipv6.conf.all.forwarding",
                " (first set `accept_ra` of the uplink to 2, or its route is gone)",
            ),
        };
        let is_off = fs::read_to_string(file).is_ok_and(|text| text.trim() == "0");
        if let Some(prefix) = behind.filter(|_| is_off) {
            tracing::warn!(
                "this host passes no packets on, so {prefix} behind it cannot be reached: `sysctl \
                 -w {name}=1` changes that{more}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_of_ipv4_is_recognised_however_its_address_is_written() {
        let sent = |text: &str| as_sent(text.parse().expect("an address")).to_string();
        assert_eq!(sent("[::ffff:192.0.2.7]:4850"), "192.0.2.7:4850");
        assert_eq!(sent("192.0.2.7:4850"), "192.0.2.7:4850");
        assert_eq!(sent("[2001:db8::7]:4850"), "[2001:db8::7]:4850");
    }
}
