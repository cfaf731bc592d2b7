//! What the host that runs a test can do.

use std::fmt::Display;
use std::fs;
use std::path::Path;

/// Says why a test is not run on this host. The caller returns then.
///
/// Panics if the host can run it: then what is missing is a fault of ours, and the test must not
/// pass. So nothing is skipped as root on a host with TUN devices, as in CI.
pub fn skip(why: impl Display) {
    assert!(!can_make_networks(), "this host can run it, but: {why}");
    println!("skipped: {why}");
}

/// Whether this process may make network namespaces and TUN interfaces: with `CAP_NET_ADMIN` and
/// `CAP_SYS_ADMIN` (capabilities(7)).
fn can_make_networks() -> bool {
    const NEEDED: u64 = 1 << 12 | 1 << 21;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    effective.is_some_and(|mask| mask & NEEDED == NEEDED) && Path::new("/dev/net/tun").exists()
}
