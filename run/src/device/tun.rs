//! The virtual interface of a node, which exchanges IP packets with the host's own stack.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, BorrowedFd};

use bytes::Bytes;
use farhop_proto::base::{AddressPlan, NodeId};
use serde::Serialize;
use tun_rs::{DeviceBuilder, SyncDevice};

use super::named;

/// Largest IP packet, in bytes, that every link of farhop carries in one frame.
pub const MTU: u16 = 1500;
/// Smallest MTU that IPv6 permits (RFC 8200, section 5).
pub const LEAST_MTU: u16 = 1280;
/// How many packets of the host may wait in the kernel: as many as a TCP window releases at once,
/// when the acknowledgements of a slot have come. All are read as soon as there is time, so that no
/// queue builds up. The default of 500 is less than fast radios send in a slot.
const BURST: u32 = 4_096;
/// Default name of the interface.
pub const NAME: &str = "farhop0";
/// Longest name of an interface, in bytes (`IFNAMSIZ` without the terminating zero).
const NAME_BYTES: usize = 15;

/// Counters of the interface.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct TunStats {
    /// IP packets from the host.
    pub from_host: u64,
    /// IP packets to the host.
    pub to_host: u64,
    /// IP packets that the host refused.
    pub refused: u64,
}

/// The virtual interface.
pub struct Tun {
    device: SyncDevice,
    name: String,
    buffer: Vec<u8>,
    stats: TunStats,
}

impl Tun {
    /// Makes the interface, gives it the node's addresses and an MTU of `mtu`, and sets it up.
    ///
    /// Fails if the name is not valid, there is no `/dev/net/tun`, or the right to use it is
    /// missing.
    pub fn open(name: &str, node: NodeId, plan: AddressPlan, mtu: u16) -> io::Result<Self> {
        check_name(name)?;
        let device = DeviceBuilder::new()
            .name(name)
            .mtu(mtu)
            .ipv4(plan.ipv4(node), AddressPlan::IPV4_PREFIX, None)
            .build_sync()
            .map_err(|error| explain(error, name))?;
        // Otherwise the kernel removes the address when the interface is set down. Without IPv6
        // there is no such file.
        let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/keep_addr_on_down"), "1");
        if let Err(error) = device.add_address_v6(plan.ipv6(node), AddressPlan::IPV6_PREFIX) {
            tracing::warn!("{name}: only IPv4, for it takes no address of IPv6 ({error})");
        }
        // In a lab of an ordinary user nobody may do this.
        let _ = device.set_tx_queue_len(BURST);
        device.set_nonblocking(true)?;
        Ok(Self { device, name: name.into(), buffer: vec![0; 65_536], stats: TunStats::default() })
    }

    /// Descriptor to wait on until the host has sent something.
    pub fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor belongs to `self.device`, which lives as long as the borrow.
        unsafe { BorrowedFd::borrow_raw(self.device.as_raw_fd()) }
    }

    /// The host's next IP packet, if there is one.
    pub fn receive(&mut self) -> io::Result<Option<Bytes>> {
        match self.device.recv(&mut self.buffer) {
            Ok(length) => {
                self.stats.from_host += 1;
                Ok(Some(Bytes::copy_from_slice(&self.buffer[..length])))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(named(error, &self.name)),
        }
    }

    /// Gives the host an IP packet.
    pub fn send(&mut self, packet: &[u8]) {
        match self.device.send(packet) {
            Ok(_) => self.stats.to_host += 1,
            // It is no IP packet, or the interface is down: nothing to be done about it here.
            Err(_) => self.stats.refused += 1,
        }
    }

    /// Name of the interface.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Counters of the interface.
    pub fn stats(&self) -> TunStats {
        self.stats
    }
}

/// Refuses names that no interface can have (`dev_valid_name`), and those that the kernel would
/// replace by a name of its own.
pub fn check_name(name: &str) -> io::Result<()> {
    let is_wrong = |c: char| c.is_whitespace() || c.is_control() || "/:%".contains(c);
    let what = match name {
        "" => "it is empty",
        "." | ".." => "it is a folder",
        _ if name.len() > NAME_BYTES => "it is too long",
        _ if name.contains(is_wrong) => "it has a character that no such name has",
        _ => return Ok(()),
    };
    let help = format!(
        "at most {NAME_BYTES} bytes without white space, '/', ':' and '%', for example '{NAME}'"
    );
    let message = format!("'{}' cannot be the name of an interface, {what}", name.escape_debug());
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{message}: {help}")))
}

/// Warns if the interface's MTU is smaller than usual.
pub(crate) fn check_mtu(name: &str, mtu: u16) {
    if mtu < MTU {
        tracing::warn!(
            "{name} takes packets of {mtu} bytes only, for a device takes no longer frames: other \
             nodes should have the same MTU, or this one `ip link set dev INTERFACE mtu 2304` \
             before it starts"
        );
    }
}

/// Warns of routes of other interfaces within the subnet of the nodes: packets for a node could go
/// there unnoticed.
pub(crate) fn check_routes(name: &str, plan: AddressPlan) {
    let table = fs::read_to_string("/proc/net/route").unwrap_or_default();
    for (interface, network, bits) in routes_within(&table, name, plan) {
        let own = plan.0.ipv4;
        tracing::warn!(
            "{interface} has a route to {network}/{bits}, which lies within the network of the \
             nodes ({own}/{}): what is for nodes may go there. Give the nodes another network, \
             with `subnet = {{ ipv4 = \"10.201.0.0\" }}` in the file of all, or {interface} \
             another address",
            AddressPlan::IPV4_PREFIX
        );
    }
}

/// Interface, network and prefix length of those routes in a `/proc/net/route` that take packets
/// for nodes: their prefixes are as long as that of the nodes' subnet, or longer.
fn routes_within(table: &str, name: &str, plan: AddressPlan) -> Vec<(String, Ipv4Addr, u32)> {
    let number = |field: &&str| u32::from_str_radix(field, 16).ok().map(u32::from_be);
    let own_mask = u32::MAX << (32 - u32::from(AddressPlan::IPV4_PREFIX));
    let own = u32::from(plan.0.ipv4) & own_mask;
    let route = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [network, mask] = [1, 7].map(|at| fields.get(at).and_then(number));
        let (network, mask, interface) = (network?, mask?, *fields.first()?);
        let is_within = mask >= own_mask && network & own_mask == own;
        (is_within && interface != name)
            .then(|| (interface.to_owned(), network.into(), mask.leading_ones()))
    };
    table.lines().skip(1).filter_map(route).collect()
}

fn explain(error: io::Error, name: &str) -> io::Error {
    let help = match error.kind() {
        io::ErrorKind::NotFound => {
            "there is no /dev/net/tun: load the module `tun`, or make the device with \
             `mknod /dev/net/tun c 10 200`"
        }
        io::ErrorKind::PermissionDenied => {
            "no right to make a TUN interface: run as root, with CAP_NET_ADMIN, and with \
             /dev/net/tun readable and writable"
        }
        // The kernel's error if the interface is no TUN.
        io::ErrorKind::InvalidInput => {
            "another interface has that name already, which is no TUN: choose another name"
        }
        io::ErrorKind::ResourceBusy => "the name is taken: is another farhop running here?",
        _ => "cannot make the TUN interface",
    };
    io::Error::new(error.kind(), format!("{name}: {help} ({error})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_of_others_within_the_network_of_the_nodes_are_found() {
        // As a kernel on a little-endian processor prints it: the bytes of addresses in reverse
        // order.
        let table = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\n\
            eth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\n\
            eth0\t0000420A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\n\
            farhop0\t0000420A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\n\
            eth1\t0007420A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\n\
            eth2\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\n\
            eth3\t0000430A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\n\
            broken\n";
        let plan = AddressPlan(farhop_proto::base::Subnet {
            ipv4: Ipv4Addr::new(10, 66, 0, 0),
            ..farhop_proto::base::Subnet::default()
        });
        let found = routes_within(table, "farhop0", plan);
        let expected = [("eth0", [10, 66, 0, 0], 16), ("eth1", [10, 66, 7, 0], 24)];
        assert_eq!(found, expected.map(|(name, at, bits)| (name.into(), at.into(), bits)));
    }

    #[test]
    fn a_name_that_no_interface_can_have_is_refused_with_words() {
        for good in ["farhop0", "fifteen-bytes-0", "wan.7"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", "sixteen-bytes-00", "a/b", "a b", "tun%d", "..", "a:1"] {
            let said = check_name(bad).expect_err(bad).to_string();
            assert!(said.contains("cannot be the name") && said.contains(NAME), "{said}");
        }
    }
}
