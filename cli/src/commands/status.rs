//! `farhop status`: what running daemons are doing.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use farhop_run::daemon::{self, runtime_dir};
use farhop_run::lab;
use serde_json::Value;

use super::{print_json, print_text};
use crate::{Failure, interrupt};

/// Shows what the daemons on this host are doing, those of labs included.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    farhop status\n  \
    farhop status hill --json | jq '.stack.link.neighbours'\n  \
    farhop status --watch")]
pub(crate) struct Options {
    /// Only this node.
    node: Option<String>,
    /// Print it as JSON: one object for a node, else a list.
    #[arg(long)]
    json: bool,
    /// Print it again every second until it is interrupted.
    #[arg(long)]
    watch: bool,
    /// Folder of the control socket.
    #[arg(long, value_name = "DIR")]
    runtime_dir: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    interrupt::watch();
    loop {
        let statuses = statuses(options)?;
        if options.json {
            match (&options.node, statuses.as_slice()) {
                (Some(_), [status]) => print_json(status)?,
                _ => print_json(&statuses)?,
            }
        } else {
            let texts: Vec<String> = statuses.iter().map(describe).collect();
            print_text(texts.join("\n").trim_end());
        }
        if !options.watch {
            return Ok(());
        }
        for _ in 0..10 {
            if interrupt::has_come() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

fn statuses(options: &Options) -> Result<Vec<Value>, Failure> {
    let dir = options.runtime_dir.clone().unwrap_or_else(runtime_dir);
    let labs = lab::list().into_iter().filter(lab::LabState::is_alive).map(|lab| lab.dir());
    let mut running: Vec<_> =
        [dir].into_iter().chain(labs).flat_map(|dir| daemon::list(&dir)).collect();
    // The air of a lab has a socket too, but is no node.
    running.retain(|daemon| !daemon.name.starts_with('@'));
    if let Some(node) = &options.node {
        running.retain(|daemon| daemon.name == *node);
    }
    if running.is_empty() {
        let who = options
            .node
            .as_deref()
            .map_or("no daemon".into(), |node| format!("no daemon for '{node}'"));
        return Err(Failure::Failed(format!(
            "{who} is running: start one with `farhop up FILE --node NAME` or \
             `farhop lab FILE --keep`"
        )));
    }
    let query = |daemon: &daemon::Running| {
        daemon::query(&daemon.path).map_err(|error| Failure::Failed(error.to_string()))
    };
    running.iter().map(query).collect()
}

/// A status, for people.
fn describe(status: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let uptime = number(&status["uptime_s"]).max(1e-3);
    let mut out =
        format!("{}: up for {uptime:.0} s, process {}\n", text(&status["name"]), status["pid"]);
    let host = &status["host"];
    let addresses: Vec<String> =
        status["addresses"].as_array().into_iter().flatten().map(text).collect();
    let _ = writeln!(
        out,
        "  {}: {}; {} packets from the host, {} to it",
        text(&host["name"]),
        addresses.join(", "),
        host["from_host"],
        host["to_host"]
    );
    for device in status["devices"].as_array().into_iter().flatten() {
        let sent = &device["sent"];
        let _ = writeln!(
            out,
            "  {} ({}): {} frames sent, {} received, {} late, {} outside their slot",
            text(&device["name"]),
            text(&device["kind"]),
            sent["frames_sent"],
            device["frames_received"],
            sent["frames_late"],
            sent["frames_outside_slot"]
        );
        list(&mut out, "    no frames for us", &device["dropped"]);
    }
    let link = &status["stack"]["link"];
    let _ = write!(out, "  link {}", text(&link["kind"]));
    if let Some(slot) = link.get("slot").filter(|slot| slot.is_object()) {
        let millis = |key: &str| number(&slot[key]) / 1e6;
        let _ = write!(
            out,
            ": slot {} of {:.1} ms, {} for another {:.1} ms",
            slot["number"],
            millis("length"),
            text(&slot["phase"]),
            millis("ends_in")
        );
    }
    out.push('\n');
    for neighbour in link["neighbours"].as_array().into_iter().flatten() {
        out += &describe_neighbour(neighbour, &status["peers"], uptime);
    }
    list(&mut out, "  drops", &link["drops"]);
    list(&mut out, "  counters", &link["counters"]);
    let wakeups = &status["wakeups"];
    let _ = writeln!(
        out,
        "  wake-ups: {} by timer, {} later than 1 ms, worst {:.0} us",
        wakeups["timer"],
        wakeups["late_1ms"],
        number(&wakeups["worst_us"])
    );
    out
}

fn describe_neighbour(neighbour: &Value, names: &Value, uptime: f64) -> String {
    let mbps = |key: &str| neighbour[key].as_f64().unwrap_or(0.0) * 8.0 / uptime / 1e6;
    let mut out = format!(
        "  neighbour {}: {}",
        names[neighbour["node"].to_string()].as_str().unwrap_or("?"),
        if neighbour["up"] == true { "up" } else { "DOWN" }
    );
    if let Some(error) = neighbour["sync_error_ns"].as_f64() {
        let _ = write!(out, ", slot corrected by {:.1} us", error / 1e3);
    }
    if let Some(loss) = neighbour["loss"].as_f64() {
        let _ = write!(out, ", loss {:.1} %", loss * 100.0);
    }
    let _ = write!(
        out,
        ", {} coded per data frame, {} packets queued, {:.2} Mb/s out and {:.2} in on average",
        neighbour["coding_rate"],
        neighbour["queue_packets"],
        mbps("sent_bytes"),
        mbps("received_bytes")
    );
    if let Some(signal) = neighbour["signal_dbm"].as_f64() {
        let _ = write!(out, ", {signal} dBm");
    }
    out.push('\n');
    out
}

/// A line with the counters that are not zero.
fn list(out: &mut String, what: &str, counters: &Value) {
    let counters = counters.as_object().into_iter().flatten();
    let counted: Vec<String> = counters
        .filter(|(_, count)| count.as_u64().is_some_and(|count| count > 0))
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    if !counted.is_empty() {
        let _ = writeln!(out, "{what}: {}", counted.join(", "));
    }
}
