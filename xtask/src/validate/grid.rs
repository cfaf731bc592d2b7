//! The grid of 13 x 13 nodes as a scenario, for the comparison with ns-3.

use std::path::Path;

use anyhow::Result;
use toml::Table;

use super::program::{self, set};

/// Flows across the grid: six or, if it is dense, twelve.
pub(crate) fn scenario(root: &Path, is_dense: bool) -> Result<Table> {
    let mut scenario = program::scenario(root, "validate/grid.toml")?;
    if is_dense {
        let flow = program::first(&mut scenario, "flow")?.clone();
        let lines = [2, 4, 6, 8, 10, 12];
        let rows = lines.map(|line| (format!("n{line}-1"), format!("n{line}-13")));
        let columns = lines.map(|line| (format!("n1-{line}"), format!("n13-{line}")));
        let flows = rows.into_iter().chain(columns).enumerate().map(|(index, (from, to))| {
            let mut flow = flow.clone();
            set(&mut flow, "name", format!("{from} {to}"))?;
            set(&mut flow, "start_s", 0.1 + 1e-4 * index as f64)?;
            set(&mut flow, "from", from)?;
            set(&mut flow, "to", to)?;
            Ok(toml::Value::from(flow))
        });
        let flows = flows.collect::<Result<Vec<_>>>()?;
        set(&mut scenario, "flow", flows)?;
    }
    Ok(scenario)
}
