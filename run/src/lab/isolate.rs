//! Isolates the lab: a network namespace of its own and, for an ordinary user, a user namespace
//! around it.

use std::fs;

use rustix::thread::UnshareFlags;

use super::{LabError, RUNTIME_DIR};
use crate::device::os;

/// Moves this process into a network namespace of its own, so that nothing of the host is touched.
/// For an ordinary user this happens in a new user namespace, in which it is permitted.
///
/// Must be called before the process has other threads. Fails with a sentence on what the kernel
/// refuses and what to do.
pub fn isolate() -> Result<(), LabError> {
    let uid = rustix::process::geteuid().as_raw();
    let gid = rustix::process::getegid().as_raw();
    // As root of a user namespace it must use the same folder as the user who takes the lab down.
    RUNTIME_DIR.get_or_init(crate::daemon::runtime_dir);
    if uid == 0 {
        return os::unshare(UnshareFlags::NEWNET).map_err(|error| {
            LabError::Refused(format!(
                "cannot make a network namespace ({error}): in a container, start it with the \
                 capability SYS_ADMIN"
            ))
        });
    }
    os::unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNET).map_err(|error| {
        LabError::Refused(format!(
            "the kernel does not let ordinary users make namespaces ({error}): run farhop as root, \
             or allow it with `sysctl kernel.unprivileged_userns_clone=1` (Debian) or \
             `sysctl kernel.apparmor_restrict_unprivileged_userns=0` (Ubuntu)"
        ))
    })?;
    let map = |file: &str, text: String| {
        fs::write(format!("/proc/self/{file}"), text).map_err(|error| {
            LabError::Refused(format!(
                "cannot become root of the new user namespace ({file}: {error}): run farhop as root"
            ))
        })
    };
    map("setgroups", "deny".into())?;
    map("uid_map", format!("0 {uid} 1"))?;
    map("gid_map", format!("0 {gid} 1"))?;
    check_tun()
}

/// Checks that daemons will be able to open the TUN device, before anything is built.
fn check_tun() -> Result<(), LabError> {
    let open = fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun");
    open.map(drop).map_err(|error| {
        LabError::Refused(format!(
            "this user may not open /dev/net/tun ({error}): run farhop as root, or as root once \
             `chmod 0666 /dev/net/tun`, as most distributions have it"
        ))
    })
}
