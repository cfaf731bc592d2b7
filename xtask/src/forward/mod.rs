//! `cargo xtask forward`: measures what it costs a daemon to forward blocks between two `udp`
//! devices.
//!
//! Three network namespaces are joined in a row by veth pairs with the usual MTU, with a daemon in
//! each. A stream of blocks goes from a program at the first to one at the last; the result is the
//! processor time of the daemon in the middle, user and system. TCP of the kernel through the same
//! middle namespace is measured for comparison. The kernel forwards in soft interrupts, which are
//! charged to no process, so the two can be compared only by the time of the whole machine: it is
//! given for both, and is meaningful only on an otherwise idle machine.

mod daemons;
mod kernel;
mod place;
mod usage;

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args;
use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use self::daemons::{Kept, Mode};
use self::place::Place;
use self::usage::Cost;
use crate::build;

/// Gigabits that a daemon has to forward per second of its processor time.
const PROMISED: f64 = 1.0;
/// Bits of a gigabit.
const GIGA: f64 = 1e9;

/// Options of the command.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask forward\n  \
    cargo xtask forward --megabytes 50 --only off    for a profiler\n  \
    cargo xtask forward --only encrypt --kept fsync  as daemons do by default\n  \
    cargo xtask forward --radio 'phy = \"802.11ac\"'   paced like a radio")]
pub(crate) struct Options {
    /// Print the rows as JSON.
    #[arg(long)]
    json: bool,
    /// Bytes that each row sends, in millions.
    #[arg(long, default_value_t = 400)]
    megabytes: u64,
    /// Measure only this row.
    #[arg(long)]
    only: Option<Mode>,
    /// Where the daemons keep blocks in this row.
    #[arg(long, default_value = "memory", requires = "only")]
    kept: Kept,
    /// An additional line for the radio of the scenario.
    #[arg(long, default_value = "")]
    radio: String,
    /// Bytes of a block in a frame; by default what daemons choose. Datagrams longer than the MTU
    /// are sent one by one, in fragments.
    #[arg(long)]
    frame_bytes: Option<u16>,
    /// Use this farhop instead of building one.
    #[arg(long)]
    program: Option<PathBuf>,
}

/// The cost of one way of forwarding.
#[derive(Serialize)]
struct Row {
    name: String,
    /// Rate of the transfer, in which both ends share the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    mbps: Option<f64>,
    /// Processor time of the forwarder, user and system; `None` if no process forwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    user_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_s: Option<f64>,
    /// Gigabits per second of that time.
    #[serde(skip_serializing_if = "Option::is_none")]
    gb_per_cpu_s: Option<f64>,
    /// Gigabits per second of processor time of the whole machine, both ends included.
    #[serde(skip_serializing_if = "Option::is_none")]
    gb_per_machine_s: Option<f64>,
    /// Memory of the forwarder: its peak, and before the transfer.
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_mb: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idle_mb: Option<f64>,
    /// Memory limit for blocks of the forwarder.
    #[serde(skip_serializing_if = "Option::is_none")]
    budget_mb: Option<f64>,
    /// Whether the promises on speed and memory are kept; `None` if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    ok: Option<bool>,
}

impl Row {
    fn new(name: impl Into<String>, cost: &Cost) -> Self {
        let gigabits = cost.bytes as f64 * 8.0 / GIGA;
        Self {
            name: name.into(),
            mbps: (gigabits > 0.0).then_some(gigabits * 1e3 / cost.wall_s),
            user_s: None,
            system_s: None,
            gb_per_cpu_s: None,
            gb_per_machine_s: (gigabits > 0.0).then_some(gigabits / cost.machine_s),
            peak_mb: None,
            idle_mb: None,
            budget_mb: None,
            ok: None,
        }
    }

    fn with_memory(self, cost: &Cost, budget: u64) -> Self {
        let megabytes = |bytes: u64| Some(bytes as f64 / 1e6);
        Self {
            peak_mb: megabytes(cost.peak_bytes),
            idle_mb: megabytes(cost.idle_bytes),
            budget_mb: megabytes(budget),
            ..self
        }
    }

    fn of_daemon((mode, kept): (Mode, Kept), cost: &Cost, budget: u64) -> Self {
        let gigabits = cost.bytes as f64 * 8.0 / GIGA;
        let per_second = gigabits / (cost.user_s + cost.system_s);
        Self {
            user_s: Some(cost.user_s),
            system_s: Some(cost.system_s),
            gb_per_cpu_s: Some(per_second),
            ok: Some(per_second >= PROMISED && is_within(cost, budget)),
            ..Self::new(title(mode, kept), cost).with_memory(cost, budget)
        }
    }
}

/// The name of a row.
fn title(mode: Mode, kept: Kept) -> String {
    let kept = match kept {
        Kept::Memory => "",
        Kept::PageCache => ", kept in files",
        Kept::Fsync => ", kept on disk",
    };
    format!("{}{kept}", mode.title())
}

/// Whether the forwarder kept to its memory limit.
fn is_within(cost: &Cost, budget: u64) -> bool {
    cost.peak_bytes <= cost.idle_bytes + budget
}

/// Runs all rows; fails if a promise is not kept.
pub(crate) fn run(options: &Options) -> Result<()> {
    let farhop = options.program.clone().map_or_else(build::farhop, Ok)?;
    let modes = match options.only {
        Some(mode) => vec![(mode, options.kept)],
        None => {
            let in_memory = Mode::ALL.map(|mode| (mode, Kept::Memory));
            let on_disk = [Mode::Off, Mode::Encrypt].map(|mode| (mode, Kept::Fsync));
            in_memory.into_iter().chain(on_disk).collect()
        }
    };
    let bytes = options.megabytes * 1_000_000;
    let own =
        options.frame_bytes.map_or_else(String::new, |bytes| format!("frame_bytes = {bytes}\n"));
    let mut rows = Vec::new();
    for mode in modes {
        let place = Place::build()?;
        let (cost, budget) =
            daemons::measure(&farhop, &place, mode, (&options.radio, &own), bytes)?;
        rows.push(Row::of_daemon(mode, &cost, budget));
    }
    if options.only.is_none() {
        let (cost, budget) = daemons::fill(&farhop, &Place::build()?)?;
        let full = Row::new("blocks for a node that is gone", &cost).with_memory(&cost, budget);
        rows.push(Row { ok: Some(is_within(&cost, budget)), ..full });
        let cost = kernel::measure(&Place::build()?, bytes * 4)?;
        rows.push(Row::new("TCP, forwarded by the kernel", &cost));
    }
    if options.json {
        println!("{}", serde_json::to_string_pretty(&serde_json::json!({ "rows": rows }))?);
    } else {
        println!("{}", table(&rows));
    }
    let is_kept = rows.iter().all(|row| row.ok != Some(false));
    ensure!(is_kept, "a promise is not kept on this machine");
    Ok(())
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN).set_header([
        "forwarded",
        "Mb/s",
        "user s",
        "system s",
        "Gb per CPU s",
        "Gb per machine s",
        "peak MB",
        "idle MB",
        "budget MB",
        "ok",
    ]);
    let figure =
        |value: Option<f64>| value.map_or_else(|| "-".into(), |value| format!("{value:.2}"));
    for row in rows {
        let verdict = match row.ok {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "",
        };
        table.add_row([
            row.name.clone(),
            figure(row.mbps),
            figure(row.user_s),
            figure(row.system_s),
            figure(row.gb_per_cpu_s),
            figure(row.gb_per_machine_s),
            figure(row.peak_mb),
            figure(row.idle_mb),
            figure(row.budget_mb),
            verdict.to_owned(),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
