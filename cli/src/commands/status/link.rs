//! The status of a link and of its neighbours, as text.

use std::fmt::Write as _;

use farhop_proto::base::counted;
use serde_json::Value;

use super::list;

/// The link: its slots, its neighbours, and its counters.
pub(super) fn describe_link(status: &Value, earlier: Option<&Value>) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let link = &status["stack"]["link"];
    let mut out = format!("  link {}", text(&link["kind"]));
    let slots = link["slots"].as_array().map_or(&[][..], Vec::as_slice);
    for slot in slots {
        let millis = |key: &str| number(&slot[key]) / 1e6;
        match slots.len() {
            1 => out.push_str(": "),
            _ => {
                let _ = write!(out, "\n    radio {} on {}: ", slot["radio"], slot["channel"]);
            }
        }
        let _ = write!(
            out,
            "slot {} of {:.1} ms, {} for another {:.1} ms",
            slot["number"],
            millis("length_ns"),
            text(&slot["phase"]),
            millis("ends_in_ns")
        );
    }
    out.push('\n');
    for neighbour in link["neighbours"].as_array().into_iter().flatten() {
        out += &describe_neighbour(neighbour, status, &rates(status, neighbour, earlier));
    }
    list(&mut out, "  drops", &link["drops"]);
    list(&mut out, "  counters", &link["counters"]);
    out
}

/// Throughput to and from a neighbour since an earlier status, or else since the start.
fn rates(status: &Value, neighbour: &Value, earlier: Option<&Value>) -> String {
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let neighbours = earlier.and_then(|earlier| earlier["stack"]["link"]["neighbours"].as_array());
    let same = |other: &&Value| other["node"] == neighbour["node"];
    let before = neighbours.and_then(|neighbours| neighbours.iter().find(same));
    let start = before.and(earlier).map_or(0.0, |earlier| number(&earlier["uptime_s"]));
    let seconds = (number(&status["uptime_s"]) - start).max(1e-3);
    let [out, back] = ["sent_bytes", "received_bytes"].map(|key| {
        let bytes = number(&neighbour[key]) - before.map_or(0.0, |before| number(&before[key]));
        bytes * 8.0 / seconds / 1e6
    });
    let span = if before.is_some() { "now" } else { "on average" };
    format!("{out:.2} Mb/s out and {back:.2} in {span}")
}

/// What block transport measured on routes whose capacity no layer reports.
pub(super) fn describe_paths(status: &Value) -> String {
    let mut out = String::new();
    for path in status["stack"]["paths"].as_array().into_iter().flatten() {
        let name = status["names"][path["node"].to_string()].as_str().unwrap_or("?");
        let [most, loss] = ["most_mbps", "loss"].map(|key| path[key].as_f64().unwrap_or(0.0));
        let round_trip = path["round_trip_ns"].as_f64();
        let round_trip =
            round_trip.map_or(String::new(), |ns| format!(", {:.1} ms there and back", ns / 1e6));
        let loss = loss * 100.0;
        let _ = writeln!(
            out,
            "  blocks to {name}: at most {most:.1} Mb/s, loss {loss:.1} %{round_trip}"
        );
    }
    out
}

/// A neighbour not heard for this long is silent; one that is down but heard more recently may be
/// out of step.
const SILENT_S: f64 = 1.0;
/// A neighbour that is not down, but was not heard for this long, may be gone: on links that send
/// only when there is data, silence alone takes no neighbour down.
const UNHEARD_S: f64 = 10.0;

/// Whether the key of a node was revoked here and not replaced.
pub(super) fn is_revoked(status: &Value, node: &Value) -> bool {
    let has = |all: &Value, is: &dyn Fn(&Value) -> bool| {
        all.as_array().is_some_and(|all| all.iter().any(is))
    };
    let name = &status["names"][node.to_string()];
    let has_key = |peer: &Value| peer["node"] == *node && !peer["key"].is_null();
    has(&status["keys"]["revoked"], &|revoked| revoked == name)
        && !has(&status["stack"]["security"]["peers"], &has_key)
}

fn describe_neighbour(neighbour: &Value, status: &Value, rates: &str) -> String {
    let name = status["names"][neighbour["node"].to_string()].as_str().unwrap_or("?");
    let queued = counted(&neighbour["queue_packets"], "packet");
    if is_revoked(status, &neighbour["node"]) {
        return format!("  neighbour {name}: CUT OFF, its key is revoked, {queued} queued\n");
    }
    let is_up = neighbour["up"] == true;
    // It is heard, but none of its frames counts.
    let is_refused = !neighbour["refused"].is_null();
    let heard_ago_s = neighbour["heard_ago_ns"].as_f64().map(|ago| ago / 1e9);
    // Unless all that was sent to it was lost: `plain` sends nothing without data.
    let is_untried = neighbour["loss"].as_f64().is_none_or(|loss| loss < 1.0);
    let is_plain = status["stack"]["link"]["kind"] == "plain";
    let is_new = heard_ago_s.is_none() && is_plain && is_untried;
    let word = match heard_ago_s.filter(|ago| *ago >= UNHEARD_S) {
        Some(ago) if is_up => format!("last heard {ago:.0} s ago"),
        _ if is_up && is_refused => "heard".into(),
        _ if is_up => "up".into(),
        _ if is_new => "no data yet".into(),
        _ => "DOWN".into(),
    };
    let mut out = format!("  neighbour {name}: {word}");
    if let Some(why) = neighbour["refused"].as_str() {
        // Some other link protocols look like another version of this one.
        let or = if why == "version" { ", or another link-protocol" } else { "" };
        let _ = write!(out, ", REFUSED: it has another {why}{or}");
    }
    // What was measured while it was heard is soon out of date.
    let most_s = if is_up { UNHEARD_S } else { SILENT_S };
    let is_heard = heard_ago_s.map_or(is_up, |ago| ago < most_s);
    let _ = match heard_ago_s {
        _ if is_up || is_new || is_refused => Ok(()),
        _ if is_heard => write!(out, ", but heard"),
        Some(ago) => write!(out, ", last heard {ago:.0} s ago"),
        None => write!(out, ", never heard"),
    };
    if let Some(error) = neighbour["sync_error_ns"].as_f64().filter(|_| is_heard) {
        let _ = write!(out, ", slot corrected by {:.1} us", error / 1e3);
    }
    let signal = neighbour["signal_dbm"].as_f64().filter(|_| is_heard);
    let signal = signal.map_or(String::new(), |signal| format!(", {signal} dBm"));
    if !is_up {
        let _ = writeln!(out, ", {queued} queued{signal}");
        return out;
    }
    if let Some(loss) = neighbour["loss"].as_f64() {
        let bursts = if neighbour["has_bursts"] == true { " in bursts" } else { "" };
        let _ = write!(out, ", loss {:.1} %{bursts}", loss * 100.0);
    }
    let _ = write!(
        out,
        ", {:.2} coded per data frame, {queued} queued, {rates}{signal}",
        neighbour["coding_rate"].as_f64().unwrap_or_default()
    );
    out.push('\n');
    for class in neighbour["classes"].as_array().into_iter().flatten() {
        out += &describe_class(class);
    }
    out
}

/// The settings of a class of flows as they are now, and its queue.
fn describe_class(class: &Value) -> String {
    let preset = class["preset"].as_str().map_or(String::new(), |preset| format!(" ({preset})"));
    let coding = match class["codes"].as_str() {
        Some("new") => format!("{} parity for a full block", class["parity"]),
        Some("again") => format!("{} parity for a full block of repeats", class["parity"]),
        _ => "no coding".into(),
    };
    format!(
        "    class {}{preset}: {}, {coding}; {} queued, {} under way, {} dropped, {} given up\n",
        class["name"].as_str().unwrap_or("?"),
        counted(&class["retries"], "retry"),
        counted(&class["queue_packets"], "packet"),
        class["unfinished_packets"],
        class["dropped"],
        class["abandoned"]
    )
}
