//! `growth`: the cost of a reception and of a node as the network grows, on a torus of constant
//! density and load (`scenarios/validate/torus.toml`).

use std::path::Path;

use anyhow::{Context as _, Result};
use toml::{Table, Value};

use super::program::{self, Program, Run, set};
use super::{Row, Tolerance, workers};

const GROUP: &str = "growth";
/// Rows and columns of the networks.
const SIZES: [(i64, i64); 3] = [(10, 10), (25, 40), (100, 100)];
/// Distance between neighbours, in metres.
const SPACING_M: f64 = 90.0;
/// Node-seconds of a timed run, which gives as many receptions at each size.
const NODE_SECONDS: f64 = 100_000.0;
/// Simulated seconds of a run whose memory is measured.
const MEMORY_S: f64 = 10.0;

/// The rows of this group.
pub(crate) fn rows(quick: bool, root: &Path) -> Result<Vec<Row>> {
    let program = Program::build()?;
    let node_seconds = if quick { NODE_SECONDS / 4.0 } else { NODE_SECONDS };
    let repeats = if quick { 1 } else { 3 };
    let bar = workers::bar(GROUP, SIZES.len() * repeats + 2);
    let mut costs = Vec::new();
    for size in SIZES {
        let seconds = node_seconds / (size.0 * size.1) as f64;
        let scenario = torus(root, size, seconds)?;
        let runs = (0..repeats).map(|_| {
            let cost = nanoseconds_per_frame(&program.run(&scenario, 1)?);
            bar.inc(1);
            cost
        });
        costs.push(workers::median(&runs.collect::<Result<Vec<_>>>()?));
    }
    let memory = |size| {
        let memory = program.run(&torus(root, size, MEMORY_S)?, 1)?.memory_kb as f64;
        bar.inc(1);
        Ok::<_, anyhow::Error>(memory)
    };
    let (small, large) = (memory(SIZES[0])?, memory(SIZES[2])?);
    bar.finish_and_clear();
    let note = format!(
        "each frame is heard by 20 nodes; per frame with all its receptions: {}",
        costs.iter().map(|cost| format!("{cost:.0} ns")).collect::<Vec<_>>().join(", ")
    );
    let ratio = |index: usize| (costs[index] / costs[0], 1.5);
    let name = "wall time per reception, 1,000 nodes over 100";
    let middle = Row::new(GROUP, name, "times", ratio(1), Tolerance::AtMost);
    let name = "wall time per reception, 10,000 nodes over 100";
    let whole = Row::new(GROUP, name, "times", ratio(2), Tolerance::AtMost);
    let per_node = (large - small) * 1.024 / 9_900.0;
    let name = "memory of one node more, 100 to 10,000 nodes";
    let memory = Row::new(GROUP, name, "kB", (per_node, 20.0), Tolerance::AtMost);
    Ok(vec![middle.with_note(note.clone()), whole.with_note(note), memory])
}

/// Wall time per frame in ns; a frame has as many receptions at each size.
fn nanoseconds_per_frame(run: &Run) -> Result<f64> {
    let number = |key: &str| run.report[key].as_f64().with_context(|| format!("no {key}"));
    Ok(number("wall_s")? * 1e9 / number("frames_on_air")?)
}

fn torus(root: &Path, (rows, columns): (i64, i64), seconds: f64) -> Result<Table> {
    let mut scenario = program::scenario(root, "validate/torus.toml")?;
    set(&mut scenario, "duration_s", seconds)?;
    let size = vec![Value::from(columns as f64 * SPACING_M), (rows as f64 * SPACING_M).into()];
    set(program::table(&mut scenario, "area")?, "size_m", size)?;
    let layout = program::first(&mut scenario, "layout")?;
    set(layout, "rows", rows)?;
    set(layout, "columns", columns)?;
    let flow = program::first(&mut scenario, "flow")?.clone();
    let nodes = (1..=rows).flat_map(|row| (1..=columns).map(move |column| (row, column)));
    let flows = nodes.enumerate().map(|(index, (row, column))| {
        let mut flow = flow.clone();
        set(&mut flow, "from", format!("n{row}-{column}"))?;
        set(&mut flow, "to", format!("n{row}-{}", column % columns + 1))?;
        // Spreads the starts, so that datagrams of different nodes do not leave at the same time.
        let start = (index as f64 * 0.618_034).fract() * 0.25;
        flow.insert("start_s".into(), start.into());
        Ok(Value::from(flow))
    });
    let flows = flows.collect::<Result<Vec<_>>>()?;
    set(&mut scenario, "flow", flows)?;
    Ok(scenario)
}
