//! Three network namespaces in a row. Each is held by a process that ends with this one, and the
//! namespace with it.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

/// The nodes, from west to east.
pub(super) const NODES: [&str; 3] = ["west", "middle", "east"];
/// Addresses of the two wires, each at its western and its eastern end.
pub(super) const WIRES: [[&str; 2]; 2] =
    [["192.0.2.1", "192.0.2.2"], ["198.51.100.1", "198.51.100.2"]];

/// Time limit for anything that should take a moment.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that is ended when this is dropped.
pub(super) struct Guarded(pub(super) Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The namespaces, joined by veth pairs.
pub(super) struct Place {
    holders: [Guarded; 3],
}

impl Place {
    /// Creates the namespaces, with routes from end to end.
    ///
    /// Fails if the kernel refuses.
    pub(super) fn build() -> Result<Self> {
        let place = Self { holders: [hold()?, hold()?, hold()?] };
        for node in 0..3 {
            place.ip(node, "link set lo up")?;
        }
        for (wire, [near, far]) in WIRES.iter().enumerate() {
            let there = place.holders[wire + 1].0.id();
            place.ip(wire, &format!("link add toeast type veth peer name towest netns {there}"))?;
            for (node, interface, address) in [(wire, "toeast", near), (wire + 1, "towest", far)] {
                place.ip(node, &format!("addr add {address}/24 dev {interface}"))?;
                place.ip(node, &format!("link set {interface} up"))?;
            }
        }
        place.ip(0, &format!("route add default via {}", WIRES[0][1]))?;
        place.ip(2, &format!("route add default via {}", WIRES[1][0]))?;
        let mut forward = place.command(1, &["sysctl", "-qw", "net.ipv4.ip_forward=1"]);
        ensure!(forward.status()?.success(), "the middle does not forward");
        Ok(place)
    }

    /// A command in the namespace of a node.
    pub(super) fn command(&self, node: usize, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.holders[node].0.id().to_string(), "--net"]).args(words);
        command.stdin(Stdio::null());
        command
    }

    fn ip(&self, node: usize, words: &str) -> Result<()> {
        let words: Vec<&str> = ["ip"].into_iter().chain(words.split_whitespace()).collect();
        let out = self.command(node, &words).output().context("nsenter does not run")?;
        let said = String::from_utf8_lossy(&out.stderr);
        ensure!(out.status.success(), "{}: {}", words.join(" "), said.trim());
        Ok(())
    }
}

/// Starts a process in a network namespace of its own.
fn hold() -> Result<Guarded> {
    let own = fs::read_link("/proc/self/ns/net").context("/proc is not mounted")?;
    let mut holder = Command::new("unshare");
    let words = ["--net", "setpriv", "--pdeathsig", "KILL", "sleep", "infinity"];
    let child = holder.args(words).stdin(Stdio::null()).spawn().context("unshare does not run")?;
    let mut holder = Guarded(child);
    let theirs = format!("/proc/{}/ns/net", holder.0.id());
    wait_for("a network namespace", || {
        ensure!(holder.0.try_wait()?.is_none(), "no network namespace: run it as root");
        Ok(fs::read_link(&theirs).is_ok_and(|theirs| theirs != own))
    })?;
    Ok(holder)
}

/// Waits until a condition holds.
///
/// Fails if the condition cannot be checked, or takes too long.
pub(super) fn wait_for(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let begun = Instant::now();
    while !is_so()? {
        if begun.elapsed() > PATIENCE {
            bail!("{what} has not come in {} s", PATIENCE.as_secs());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
