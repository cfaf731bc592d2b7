//! TCP of the kernel from end to end, with the kernel forwarding in the middle.

use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::place::{Guarded, Place, WIRES, wait_for};
use super::usage::{Cost, Meter};

/// Sends this many bytes.
///
/// Fails if `iperf3` is missing.
pub(super) fn measure(place: &Place, bytes: u64) -> Result<Cost> {
    let mut server = place.command(2, &["iperf3", "-s", "-1"]);
    let server = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let _server = Guarded(server.context("iperf3 does not run")?);
    let listening = ["ss", "-Hltn", "sport", "=", ":5201"];
    wait_for("iperf3", || Ok(!place.command(2, &listening).output()?.stdout.is_empty()))?;
    let (to, bytes) = (WIRES[1][1], bytes.to_string());
    let meter = Meter::start(None)?;
    let out = place.command(0, &["iperf3", "-J", "-c", to, "-n", &bytes]).output()?;
    let said: Value = serde_json::from_slice(&out.stdout).context("iperf3 says nothing")?;
    let received = said["end"]["sum_received"]["bytes"].as_u64().unwrap_or(0);
    ensure!(out.status.success() && received > 0, "iperf3: {}", said["error"]);
    meter.stop(received)
}
