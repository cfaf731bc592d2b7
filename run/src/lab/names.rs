//! Names of nodes for programs inside a lab: they see a file of hosts that has these names too.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use farhop_proto::stack::Plan;
use rustix::mount::{MountPropagationFlags, mount_bind, mount_change};
use rustix::thread::UnshareFlags;

use crate::device::os;

/// The host's file of names.
const HOSTS: &str = "/etc/hosts";
/// The name of the file in the folder of a lab.
const FILE: &str = "hosts";

/// Writes the file into the folder of a lab: its nodes, then what the host's own file has. Programs
/// need the `localhost` of that file, whatever a node is called.
pub(super) fn write(dir: &Path, plan: &Plan) -> io::Result<()> {
    let mut text = String::new();
    for node in plan.nodes.iter().filter(|node| node.name != "localhost") {
        let (ipv4, ipv6) = (node.addresses.ipv4(node.node), node.addresses.ipv6(node.node));
        let _ = writeln!(text, "{ipv4} {name}\n{ipv6} {name}", name = node.name);
    }
    text += &fs::read_to_string(HOSTS).unwrap_or_default();
    fs::write(dir.join(FILE), text)
}

/// Shows the file to this process, and to what it starts, in place of the host's.
///
/// Fails if the system does not let it, or has no file of hosts.
pub(super) fn show(dir: &Path) -> io::Result<()> {
    os::unshare(UnshareFlags::NEWNS)?;
    // What the host mounts later is seen inside, but not the other way around.
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    Ok(mount_bind(dir.join(FILE), HOSTS)?)
}
