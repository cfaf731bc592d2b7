//! Network interfaces over netlink: veth pairs, and settings inside namespaces.

use std::fs;
use std::io;

use rtnetlink::{Handle, LinkUnspec, LinkVeth};

use super::{Doing as _, LabError};
use crate::device::FRAME_BYTES;
use crate::netlink::{self, index};

/// Runs netlink requests on this thread, and waits for them.
fn with_netlink<T>(
    what: &str,
    requests: impl AsyncFnOnce(Handle) -> Result<T, rtnetlink::Error>,
) -> Result<T, LabError> {
    netlink::ask(requests).doing(what)
}

/// Whether an interface exists.
pub(super) fn exists(interface: &str) -> bool {
    index(interface).is_ok()
}

/// Makes a veth pair: `near` stays here and is set up, `far` is moved to the namespace of process
/// `pid`.
pub(super) fn add_veth(near: &str, far: &str, pid: u32) -> Result<(), LabError> {
    let refused = |error: LabError| match error {
        LabError::Io { error, .. } => LabError::Refused(format!(
            "cannot make a veth pair ({error}): load the module `veth`, and run farhop as root \
             where user namespaces have no rights"
        )),
        other => other,
    };
    with_netlink("make a veth pair", async |handle: Handle| {
        handle.link().add(LinkVeth::new(near, far).build()).execute().await
    })
    .map_err(refused)?;
    quieten(near);
    let near_index = index(near).doing(near)?;
    let far_index = index(far).doing(far)?;
    with_netlink("move the end of a veth pair", async |handle: Handle| {
        let far = LinkUnspec::new_with_index(far_index).setns_by_pid(pid);
        handle.link().set(far.build()).execute().await?;
        let near = LinkUnspec::new_with_index(near_index).mtu(FRAME_BYTES as u32).arp(false).up();
        handle.link().set(near.build()).execute().await
    })
}

/// Removes a veth pair by its near end. The kernel does so too once both namespaces are gone, but
/// possibly after the next lab of this process needs the name.
pub(super) fn remove_veth(near: &str) -> Result<(), LabError> {
    let Ok(link) = index(near) else { return Ok(()) };
    with_netlink("remove a veth pair", async |handle: Handle| {
        handle.link().del(link).execute().await
    })
}

/// Renames the radio's end of a veth pair, which is in this namespace, and sets it up.
pub(super) fn take_up_radio(arrived: &str, name: &str) -> Result<(), LabError> {
    let link = index(arrived).doing(arrived)?;
    quieten(arrived);
    with_netlink("take up the radio's interface", async |handle: Handle| {
        let rename = LinkUnspec::new_with_index(link).name(name).build();
        handle.link().set(rename).execute().await?;
        let up = LinkUnspec::new_with_index(link).mtu(FRAME_BYTES as u32).arp(false).up().build();
        handle.link().set(up).execute().await
    })
}

/// Sets up the loopback interface of this namespace.
pub(super) fn take_up_loopback() -> Result<(), LabError> {
    let lo = index("lo").doing("lo")?;
    with_netlink("take up the loopback interface", async |handle: Handle| {
        handle.link().set(LinkUnspec::new_with_index(lo).up().build()).execute().await
    })
}

/// Keeps the host's own stack from sending on an interface that carries 802.11 frames.
fn quieten(interface: &str) {
    // On a kernel without IPv6 there is nothing to switch off.
    let _ = set_sysctl(&format!("net/ipv6/conf/{interface}/disable_ipv6"), "1");
}

/// Sets a sysctl of this network namespace.
pub(super) fn set_sysctl(key: &str, value: &str) -> io::Result<()> {
    let path = format!("/proc/sys/{key}");
    fs::write(&path, value).map_err(|error| {
        let is_closed = matches!(
            error.kind(),
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied
        );
        let right =
            if is_closed { ": a container needs a writable /proc/sys for a lab" } else { "" };
        io::Error::new(error.kind(), format!("{path}: {error}{right}"))
    })
}
