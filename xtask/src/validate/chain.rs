//! Chains of nodes as scenarios, for the comparison with ns-3.

use std::path::Path;

use anyhow::{Context as _, Result};
use toml::{Table, Value};

use super::program::{self, set};

/// A UDP flow over this many hops, measured in the second half of the run.
pub(crate) fn udp(root: &Path, hops: usize, is_step: bool, length_s: f64) -> Result<Table> {
    let mut scenario = of_hops(root, hops, length_s)?;
    if is_step {
        step(&mut scenario)?;
    }
    Ok(scenario)
}

/// A TCP transfer over this many hops.
pub(crate) fn tcp(root: &Path, hops: usize, length_s: f64) -> Result<Table> {
    let mut scenario = of_hops(root, hops, length_s)?;
    let flow = program::first(&mut scenario, "flow")?;
    for key in ["size_bytes", "rate_mbps"] {
        flow.remove(key).with_context(|| format!("the flow does not say {key}"))?;
    }
    set(flow, "kind", "tcp")?;
    flow.insert("congestion".into(), "newreno".into());
    flow.insert("tcp".into(), Table::from_iter([("preset".to_owned(), Value::from("ns3"))]).into());
    Ok(scenario)
}

fn of_hops(root: &Path, hops: usize, length_s: f64) -> Result<Table> {
    let mut scenario = program::scenario(root, "validate/chain.toml")?;
    set(&mut scenario, "duration_s", length_s)?;
    set(program::first(&mut scenario, "layout")?, "count", hops as i64 + 1)?;
    let flow = program::first(&mut scenario, "flow")?;
    set(flow, "to", format!("n{}", hops + 1))?;
    set(flow, "measure_from_s", length_s / 2.0)?;
    Ok(scenario)
}

/// Makes the received power a step: equal where a frame can be received, half where it can only be
/// sensed.
fn step(scenario: &mut Table) -> Result<()> {
    let propagation: Table =
        "kind = 'range'\nreceive_m = 100\nsense_m = 220\nsignal_dbm = -60\n".parse()?;
    set(scenario, "propagation", propagation)?;
    let radio = program::table(scenario, "radio")?;
    set(radio, "sense_dbm", -63.0)?;
    set(radio, "floor_dbm", -63.001)
}
