//! `farhop status`: the state of running daemons.

mod link;
mod time;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use farhop_proto::base::{PublicKey, counted};
use farhop_proto::link::secure::Difference;
use farhop_run::device::interface::enough_mtu;
use serde::Deserialize as _;
use serde_json::Value;

use self::link::{describe_link, describe_paths};
use self::time::describe_upsets;
use super::daemons::{Wanted, is_of_one, statuses_and_silent, tell_of_dead};
use super::{Terminal, has_reader, print_json, print_text, terminal};
use crate::progress::tell;
use crate::{Failure, interrupt};

/// Clears a terminal and moves to its first line.
const CLEAR: &str = "\x1b[2J\x1b[H";

/// Shows the state of running daemons: all on this host, labs included.
///
/// Within `farhop lab exec` it shows the daemon of that node; with --lab or --runtime-dir those
/// selected by them.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    farhop status\n  \
    farhop status hill --json | jq '.stack.link.neighbours'\n  \
    farhop status --lab demo\n  \
    farhop status --watch")]
pub(crate) struct Options {
    /// Show only this node.
    node: Option<String>,
    /// The same as an option, like in other commands.
    #[arg(long = "node", value_name = "NODE", hide = true, conflicts_with = "node")]
    named: Option<String>,
    /// Print JSON: one object if a single node is selected (also by `lab exec`), else a list.
    #[arg(long)]
    json: bool,
    /// Print the state again every second until interrupted.
    #[arg(long)]
    watch: bool,
    /// Show only the nodes of this lab, given by its id or its scenario's name.
    #[arg(long, value_name = "NAME")]
    lab: Option<String>,
    /// Look for control sockets in this folder only.
    #[arg(long, value_name = "DIR")]
    runtime_dir: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    interrupt::watch();
    let wanted = Wanted {
        node: options.node.as_deref().or(options.named.as_deref()),
        lab: options.lab.as_deref(),
        runtime_dir: options.runtime_dir.as_deref(),
    };
    let is_of_node = is_of_one(wanted);
    tell_of_dead(wanted);
    let mut before: Vec<Value> = Vec::new();
    loop {
        let found = statuses_and_silent(wanted);
        let found = if before.is_empty() { found } else { found.map_err(Failure::into_failed) };
        let (statuses, silent) = match found {
            // A daemon that restarts is soon back.
            Err(Failure::Failed(why)) if options.watch && !before.is_empty() => {
                tell(&format!("farhop: {why}"));
                if !waits_a_second() {
                    return Ok(());
                }
                continue;
            }
            found => found?,
        };
        let draws = options.watch && !options.json && matches!(terminal(), Terminal::Screen);
        if !draws {
            silent.iter().for_each(|silent| tell(&format!("farhop: {silent}")));
        }
        if options.json {
            match (is_of_node, statuses.as_slice()) {
                (true, [status]) => print_json(status)?,
                _ => print_json(&statuses)?,
            }
        } else {
            let text = describe_all(&statuses, &before);
            if draws {
                let text = [vec![text.trim_end().to_owned()], silent].concat().join("\n");
                print_text(&format!("{CLEAR}{text}"))?;
            } else {
                print_text(text.trim_end())?;
            }
        }
        before = statuses;
        if !options.watch {
            return Ok(());
        }
        if !waits_a_second() {
            return Ok(());
        }
    }
}

/// Waits for a second. Returns false if the command is to end: it is interrupted, or nobody reads
/// its output any more.
fn waits_a_second() -> bool {
    (0..10).all(|_| {
        std::thread::sleep(Duration::from_millis(100));
        !interrupt::has_come() && has_reader()
    })
}

/// All statuses as text, with rates since the `before` statuses, or else since the start.
pub(super) fn describe_all(statuses: &[Value], before: &[Value]) -> String {
    let earlier = |status: &Value| before.iter().find(|earlier| earlier["pid"] == status["pid"]);
    let texts: Vec<String> =
        statuses.iter().map(|status| describe(status, earlier(status))).collect();
    texts.join("\n")
}

/// A status as text, with rates since an earlier one, or else since the start.
fn describe(status: &Value, earlier: Option<&Value>) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let uptime = number(&status["uptime_s"]).max(1e-3);
    let lab = status["lab"].as_str().map_or(String::new(), |lab| format!(" (lab {lab})"));
    let (name, pid) = (text(&status["name"]), &status["pid"]);
    let mut out = format!("{name}{lab}: up for {uptime:.0} s, process {pid}\n");
    let host = &status["host"];
    let addresses: Vec<String> =
        status["addresses"].as_array().into_iter().flatten().map(text).collect();
    let _ = writeln!(
        out,
        "  {}: {}; {} from the host, {} to it",
        text(&host["name"]),
        addresses.join(", "),
        counted(&host["from_host"], "packet"),
        host["to_host"]
    );
    out += &describe_flows(&status["stack"]["flows"]);
    for device in status["devices"].as_array().into_iter().flatten() {
        let sent = &device["sent"];
        let _ = writeln!(
            out,
            "  {} ({}): {} sent, {} received, {} late, {} outside their slot",
            text(&device["name"]),
            text(&device["kind"]),
            counted(&sent["frames_sent"], "frame"),
            device["frames_received"],
            sent["frames_late"],
            sent["frames_outside_slot"]
        );
        if device["is_gone"] == true {
            out.push_str("    its interface is gone: it is opened again when it is back\n");
        } else if device["is_up"] == false {
            let name = text(&device["name"]);
            let _ = writeln!(out, "    its interface is DOWN: `ip link set dev {name} up`");
        }
        out += &describe_too_long(device);
        list(&mut out, "    refused by the system", &device["failed"]);
        list(&mut out, "    no frames for us", &device["dropped"]);
        if let Some(from) = device["last_stranger"].as_str() {
            let _ = writeln!(
                out,
                "    stranger: the last came from {from}, the address of no neighbour here"
            );
        }
        out += describe_own_name(&device["dropped"]);
    }
    out += &describe_security(status);
    out += &describe_link(status, earlier);
    out += &describe_paths(status);
    out += &describe_routing(status);
    out += &describe_blocks(&status["blocks"]);
    out += &describe_sockets(&status["sockets"]);
    out += &describe_upsets(status);
    out + &describe_wakeups(&status["wakeups"])
}

/// The frames that a device rejected as too long, and what to do if it would still reject them.
fn describe_too_long(device: &Value) -> String {
    let number = |value: &Value| value.as_u64().unwrap_or(0) as usize;
    let sent = &device["sent"];
    if number(&sent["frames_too_long"]) == 0 {
        return String::new();
    }
    let frames = counted(&sent["frames_too_long"], "frame");
    let (longest, now) = (number(&sent["longest_not_taken"]), number(&device["mtu"]));
    if now >= longest {
        return format!("    {frames} not sent while its MTU was below the {now} of now\n");
    }
    let wanted = enough_mtu(longest);
    let name = device["name"].as_str().unwrap_or_default();
    format!(
        "    {frames} NOT SENT, longer than its MTU: `ip link set dev {name} mtu {wanted}`, or \
         send shorter packets\n"
    )
}

/// Packets from or to the host that were dropped.
fn describe_flows(flows: &Value) -> String {
    let kinds = [
        ("queue_full", "beyond the room of the link"),
        ("no_node", "for addresses that neither a node nor a network has"),
        ("host_full", "that the host did not take in time"),
    ];
    let count = |key: &str| flows[key].as_u64().filter(|count| *count > 0);
    let dropped = kinds.iter().filter_map(|(key, what)| Some(format!("{} {what}", count(key)?)));
    let dropped: Vec<String> = dropped.collect();
    if dropped.is_empty() {
        return String::new();
    }
    format!("    packets dropped: {}\n", dropped.join(", "))
}

/// What is wrong with block transport, if anything.
fn describe_blocks(blocks: &Value) -> String {
    let Some(trouble) = blocks["trouble"].as_str() else { return String::new() };
    match blocks["are_carried"].as_bool() {
        Some(true) => {
            format!("  BLOCKS CANNOT BE KEPT, and those are not acknowledged: {trouble}\n")
        }
        _ => format!("  NO BLOCKS, and so no files and no sockets, are carried: {trouble}\n"),
    }
}

/// Sockets of programs, if there are or were any.
fn describe_sockets(sockets: &Value) -> String {
    let count = |key: &str| sockets[key].as_array().map_or(0, Vec::len);
    let services: Vec<&str> =
        sockets["listening"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let is_used = |value: &Value| value.as_u64() != Some(0);
    let counters = sockets["counters"].as_object();
    if services.is_empty() && !counters.is_some_and(|all| all.values().any(is_used)) {
        return String::new();
    }
    let mut out = format!(
        "  sockets: {}, {} of blocks out and {} in, of {}",
        counted(count("streams"), "stream"),
        counted(count("sending"), "flow"),
        count("receiving"),
        sockets["limit"]
    );
    if !services.is_empty() {
        let _ = write!(out, "; listening: {}", services.join(", "));
    }
    out.push('\n');
    list(&mut out, "    counters", &sockets["counters"]);
    out
}

/// Neighbours and routes, if a routing protocol finds them; in any case its drops.
fn describe_routing(status: &Value) -> String {
    let routing = &status["stack"]["routing"];
    let kind = routing["kind"].as_str().unwrap_or("?");
    if kind == "fixed" {
        let mut out = String::new();
        describe_networks(&mut out, status, "  ");
        list(&mut out, "  dropped by routing", &routing["drops"]);
        return out + &describe_foreign(routing);
    }
    let name = |node: &Value| status["names"][node.to_string()].as_str().unwrap_or("?");
    let share = |value: &Value| value.as_f64().unwrap_or(0.0) * 100.0;
    let mut out = format!("  routing {kind}\n");
    for neighbour in routing["neighbours"].as_array().into_iter().flatten() {
        let _ = write!(
            out,
            "    {} heard by radio {}: {:.0} % of its messages arrive, {:.0} % of ours",
            name(&neighbour["node"]),
            neighbour["radio"],
            share(&neighbour["lq"]),
            share(&neighbour["nlq"])
        );
        match neighbour["etx"].as_f64() {
            Some(etx) => {
                let _ = writeln!(out, ", {etx:.2} transmissions a packet");
            }
            None => out.push_str(", DOES NOT HEAR US\n"),
        }
    }
    for route in routing["routes"].as_array().into_iter().flatten() {
        let hops = counted(route["hops"].as_u64().unwrap_or(0), "hop");
        let (to, via) = (name(&route["to"]), name(&route["via"]));
        let _ = write!(out, "    to {to} by {via}, {hops}");
        if let Some(etx) = route["etx"].as_f64() {
            let _ = write!(out, ", {etx:.2} transmissions");
        }
        out.push('\n');
    }
    let lost: Vec<&str> =
        routing["last_known"].as_array().into_iter().flatten().map(name).collect();
    if !lost.is_empty() {
        let _ = writeln!(out, "    NO ROUTE any more to {}", lost.join(", "));
    }
    describe_networks(&mut out, status, "    ");
    list(&mut out, "    drops", &routing["drops"]);
    out + &describe_foreign(routing)
}

/// The networks behind nodes, and over which node packets for them go.
fn describe_networks(out: &mut String, status: &Value, indent: &str) {
    let routing = &status["stack"]["routing"];
    for network in routing["networks"].as_array().into_iter().flatten() {
        let (prefix, node) = (network["network"].as_str().unwrap_or("?"), &network["before"]);
        let name = status["names"][node.to_string()].as_str();
        let _ = match name {
            Some(_) if *node == status["node"] => {
                writeln!(out, "{indent}{prefix} is behind this node")
            }
            Some(name) => writeln!(out, "{indent}to {prefix} by {name}"),
            None => writeln!(out, "{indent}NO ROUTE to {prefix}"),
        };
    }
}

/// The destination of packets that came from a neighbour with another network.
fn describe_foreign(routing: &Value) -> String {
    let Some(to) = routing["foreign"].as_str() else { return String::new() };
    format!(
        "  PACKETS FOR {to} came from a neighbour: no node or network has such an address here\n"
    )
}

fn describe_wakeups(wakeups: &Value) -> String {
    format!(
        "  wake-ups: {} by timer, {} later than 1 ms, worst {:.0} us\n",
        wakeups["timer"],
        wakeups["late_1ms"],
        wakeups["worst_us"].as_f64().unwrap_or(0.0)
    )
}

/// How frames are protected, and the state of each neighbour's key.
fn describe_security(status: &Value) -> String {
    let security = &status["stack"]["security"];
    let mode = match security["mode"].as_str() {
        Some("encrypt") => "frames are encrypted",
        Some("authenticate-only") => "frames are authenticated, but READABLE by everybody",
        _ => {
            let off = "  SECURITY IS OFF: whoever is in range can read and forge every frame\n";
            return off.to_owned() + &describe_differing(status);
        }
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut out = format!("  {mode} ({}); own key ", text(&security["cipher"]));
    let _ = writeln!(out, "{}", text(&security["fingerprint"]));
    let seconds = |value: &Value| value.as_f64().map(|nanos| nanos / 1e9);
    for peer in security["peers"].as_array().into_iter().flatten() {
        let name = &status["names"][peer["node"].to_string()];
        let _ = write!(out, "  key of {}: ", name.as_str().unwrap_or("?"));
        let key = peer["key"].as_str().and_then(|key| key.parse::<PublicKey>().ok());
        let Some(key) = key else {
            let what = match link::is_revoked(status, &peer["node"]) {
                true => "REVOKED, a new one is taken by",
                false => "NOT TRUSTED yet:",
            };
            let name = name.as_str().unwrap_or("NODE");
            let _ = writeln!(out, "{what} `farhop keys trust LINE --name {name}`");
            continue;
        };
        out += &key.fingerprint();
        match seconds(&peer["since"]) {
            Some(since) => {
                let _ = write!(out, ", agreed for {since:.0} s");
            }
            None => out += ", NOT AGREED with it now",
        }
        if let Some(ago) = seconds(&peer["last_handshake"]) {
            let _ = write!(out, ", last handshake {ago:.0} s ago");
        }
        out.push('\n');
        list(&mut out, "    rejected from it", &peer["rejected"]);
    }
    list(&mut out, "  rejected in all", &security["rejected"]);
    out += &describe_differing(status);
    for (name, what) in [("unused", "trusted, but no node here"), ("revoked", "revoked here")] {
        let names = status["keys"][name].as_array().into_iter().flatten().map(text);
        let names: Vec<String> = names.collect();
        if !names.is_empty() {
            let _ = writeln!(out, "  {what}: {}", names.join(", "));
        }
    }
    out
}

/// The neighbours whose security settings differ.
fn describe_differing(status: &Value) -> String {
    let all = status["differing"].as_object().into_iter().flatten();
    // A daemon of another version may report differences unknown here.
    let all = all.filter_map(|(name, how)| Some((name, Difference::deserialize(how).ok()?)));
    all.map(|(name, how)| format!("  NOT HEARD: {name} {}\n", how.words())).collect()
}

/// What to do about frames sent in this node's own name. Nodes are numbered in the order of the
/// scenario file.
fn describe_own_name(dropped: &Value) -> &'static str {
    match dropped["own-name"].as_u64() {
        None | Some(0) => "",
        Some(_) => {
            "    own-name: somebody sends as this node. Is another daemon started with its --node, \
             or has a neighbour's file its [[node]] in another order?\n"
        }
    }
}

/// A line with the counters that are not zero, or nothing.
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

#[cfg(test)]
mod tests {
    use farhop_proto::base::Identity;
    use serde_json::json;

    use super::*;

    fn status(uptime_s: f64, sent_bytes: u64) -> Value {
        json!({
            "name": "hill", "pid": 7, "uptime_s": uptime_s, "names": { "2": "valley" },
            "addresses": ["10.66.0.1"],
            "host": { "name": "farhop0", "from_host": 3, "to_host": 4 },
            "stack": { "link": {
                "kind": "wild",
                "slots": [{
                    "radio": 0, "channel": 1, "number": 9, "phase": "send",
                    "length_ns": 20_000_000, "ends_in_ns": 5_000_000
                }],
                "neighbours": [{
                    "node": 2, "up": true, "sync_error_ns": 1500, "loss": 0.1, "coding_rate": 0.5,
                    "queue_packets": 12, "sent_bytes": sent_bytes, "received_bytes": 0,
                    "classes": [{
                        "name": "default", "retries": 10, "codes": "new", "parity": 4,
                        "queue_packets": 9, "unfinished_packets": 3, "dropped": 5, "abandoned": 0
                    }, {
                        "name": "voice", "preset": "realtime", "retries": 1, "codes": "nothing",
                        "parity": 0, "queue_packets": 1, "unfinished_packets": 0, "dropped": 0,
                        "abandoned": 2
                    }]
                }],
                "drops": { "queue-full": 5, "no-route": 0 },
                "counters": {}
            }, "routing": { "kind": "fixed", "drops": { "queue-full": 8 } } },
            "wakeups": { "timer": 10, "late_1ms": 1, "worst_us": 1200.0 }
        })
    }

    #[test]
    fn a_neighbour_is_named_with_its_step_loss_coding_and_queue() {
        let said = describe(&status(10.0, 1_250_000), None);
        for word in [
            "hill: up for 10 s",
            "slot 9 of 20.0 ms, send for another 5.0 ms",
            "neighbour valley: up, slot corrected by 1.5 us, loss 10.0 %, 0.50 coded",
            "12 packets queued, 1.00 Mb/s out and 0.00 in on average",
            "class default: 10 retries, 4 parity for a full block; 9 packets queued, 3 under way, \
             5 dropped, 0 given up\n",
            "class voice (realtime): 1 retry, no coding; 1 packet queued",
            "drops: queue-full 5\n",
            "dropped by routing: queue-full 8\n",
        ] {
            assert!(said.contains(word), "no '{word}' in {said}");
        }
    }

    #[test]
    fn keys_are_told_for_each_neighbour_and_no_keys_are_shouted_about() {
        let mut status = status(10.0, 0);
        status["differing"] = json!({ "valley": "sealed" });
        let said = describe(&status, None);
        assert!(said.contains("SECURITY IS OFF: whoever is in range"), "{said}");
        let right = "NOT HEARD: valley sends sealed frames, and security is off here\n";
        assert!(said.contains(right), "{said}");
        status["differing"] = json!({ "moor": "what is not known yet", "valley": "mode" });
        let valley = Identity::from_secret([2; 32]).public();
        status["stack"]["security"] = json!({
            "mode": "encrypt", "cipher": "chacha20-poly1305", "fingerprint": "aa-bb",
            "peers": [{
                "node": 2, "key": valley, "since": 7_000_000_000_u64,
                "last_handshake": 6_600_000_000_u64, "rejected": { "replayed": 3, "forged": 0 }
            }],
            "rejected": { "replayed": 3, "stranger": 9 }, "counters": {}
        });
        let said = describe(&status, None);
        let peer = format!(
            "key of valley: {}, agreed for 7 s, last handshake 7 s ago\n    rejected from it: \
             replayed 3\n",
            valley.fingerprint()
        );
        for words in [
            "frames are encrypted (chacha20-poly1305); own key aa-bb\n",
            &peer,
            "rejected in all: replayed 3, stranger 9\n",
            "  NOT HEARD: valley has another security mode",
        ] {
            assert!(said.contains(words), "no '{words}' in {said}");
        }
        status["stack"]["security"]["mode"] = json!("authenticate-only");
        status["stack"]["security"]["peers"][0]["since"] = Value::Null;
        let said = describe(&status, None);
        assert!(said.contains("READABLE") && said.contains("NOT AGREED"), "{said}");
        status["stack"]["security"]["peers"][0]["key"] = Value::Null;
        let said = describe(&status, None);
        assert!(said.contains("key of valley: NOT TRUSTED yet: `farhop keys trust"), "{said}");
        status["keys"] = json!({ "unused": [], "revoked": ["valley"] });
        let said = describe(&status, None);
        assert!(said.contains("key of valley: REVOKED") && !said.contains("NOT TRUSTED"), "{said}");
        assert!(
            said.contains("neighbour valley: CUT OFF, its key is revoked, 12 packets"),
            "{said}"
        );
    }

    #[test]
    fn a_neighbour_that_is_down_is_told_by_when_it_was_heard_and_by_nothing_that_is_old() {
        let mut status = status(10.0, 1_250_000);
        let neighbour = &mut status["stack"]["link"]["neighbours"][0];
        neighbour["up"] = json!(false);
        neighbour["heard_ago_ns"] = json!(12_400_000_000_u64);
        let said = describe(&status, None);
        let line = "  neighbour valley: DOWN, last heard 12 s ago, 12 packets queued\n  drops:";
        assert!(said.contains(line), "{said}");
        status["stack"]["link"]["neighbours"][0]["heard_ago_ns"] = Value::Null;
        let said = describe(&status, None);
        assert!(said.contains("valley: DOWN, never heard, 12 packets queued\n"), "{said}");
        status["stack"]["link"]["neighbours"][0]["refused"] = json!("slot-length");
        let said = describe(&status, None);
        let line = "valley: DOWN, REFUSED: it has another slot-length, 12 packets queued\n";
        assert!(said.contains(line), "{said}");
        status["stack"]["link"]["neighbours"][0]["refused"] = Value::Null;
        status["stack"]["link"]["kind"] = json!("plain");
        let said = describe(&status, None);
        assert!(said.contains("valley: no data yet, 12 packets queued\n"), "{said}");
        let tried = status["stack"]["link"]["neighbours"][0]["loss"].take();
        status["stack"]["link"]["neighbours"][0]["loss"] = json!(1.0);
        let said = describe(&status, None);
        assert!(said.contains("valley: DOWN, never heard"), "{said}");
        status["stack"]["link"]["neighbours"][0]["loss"] = tried;
        status["stack"]["link"]["kind"] = json!("wild");
        // A neighbour out of step is heard, and its signal is needed to align an antenna.
        let neighbour = &mut status["stack"]["link"]["neighbours"][0];
        neighbour["heard_ago_ns"] = json!(20_000_000);
        neighbour["signal_dbm"] = json!(-71.5);
        let said = describe(&status, None);
        let line = "valley: DOWN, but heard, slot corrected by";
        assert!(said.contains(line) && said.contains("queued, -71.5 dBm\n"), "{said}");
    }

    #[test]
    fn a_neighbour_that_is_not_down_but_silent_is_not_called_up() {
        let mut status = status(40.0, 1_250_000);
        let neighbour = &mut status["stack"]["link"]["neighbours"][0];
        neighbour["heard_ago_ns"] = json!(9_900_000_000_u64);
        neighbour["signal_dbm"] = json!(-71.5);
        let said = describe(&status, None);
        assert!(said.contains("valley: up,") && said.contains("-71.5 dBm"), "{said}");
        status["stack"]["link"]["neighbours"][0]["heard_ago_ns"] = json!(28_300_000_000_u64);
        let said = describe(&status, None);
        let line = "neighbour valley: last heard 28 s ago, loss 10.0 %, 0.50 coded per data frame, \
                    12 packets queued, 0.25 Mb/s out and 0.00 in on average\n";
        assert!(said.contains(line), "{said}");
    }

    #[test]
    fn what_the_host_offered_in_vain_is_told_if_there_is_some() {
        let mut status = status(10.0, 0);
        status["stack"]["flows"] = json!({ "sent": 9, "queue_full": 0, "host_full": 0 });
        assert!(!describe(&status, None).contains("dropped:"));
        status["stack"]["flows"] = json!({ "queue_full": 7, "no_node": 2, "host_full": 0 });
        let said = describe(&status, None);
        let line = "4 to it\n    packets dropped: 7 beyond the room of the link, 2 for addresses \
                    that neither a node nor a network has\n";
        assert!(said.contains(line), "{said}");
    }

    #[test]
    fn frames_that_are_too_long_are_told_with_what_to_do() {
        let mut status = status(10.0, 0);
        let sent = json!({ "frames_sent": 5, "frames_too_long": 1, "longest_not_taken": 1_600 });
        let device = json!({ "name": "mon0", "kind": "monitor", "sent": sent, "mtu": 1_500 });
        status["devices"] = json!([device]);
        let said = describe(&status, None);
        let line = "    1 frame NOT SENT, longer than its MTU: `ip link set dev mon0 mtu 2304`";
        assert!(said.contains(line), "{said}");
        status["devices"][0]["sent"]["longest_not_taken"] = json!(2_900);
        assert!(describe(&status, None).contains("dev mon0 mtu 2900`"));
        status["devices"][0]["mtu"] = json!(3_000);
        status["devices"][0]["is_up"] = json!(false);
        let said = describe(&status, None);
        assert!(said.contains("    its interface is DOWN: `ip link set dev mon0 up`\n"), "{said}");
        let line = "    1 frame not sent while its MTU was below the 3000 of now\n";
        assert!(said.contains(line), "{said}");
        status["devices"][0]["sent"]["frames_too_long"] = json!(0);
        assert!(!describe(&status, None).contains("MTU"));
        status["devices"][0]["failed"] = json!({ "interface-down": 3, "receiving": 1 });
        let said = describe(&status, None);
        let line = "    refused by the system: interface-down 3, receiving 1\n";
        assert!(said.contains(line), "{said}");
        assert!(!said.contains("own-name"));
        status["devices"][0]["dropped"] = json!({ "own-name": 76 });
        let said = describe(&status, None);
        assert!(said.contains("    own-name: somebody sends as this node. Is another"), "{said}");
    }

    #[test]
    fn what_is_wrong_with_blocks_is_told_with_the_reason() {
        let mut status = status(10.0, 0);
        status["blocks"] = json!({ "are_carried": true, "trouble": null });
        assert!(!describe(&status, None).contains("BLOCK"));
        status["blocks"]["trouble"] = json!("the block cache: full");
        let said = describe(&status, None);
        let line =
            "  BLOCKS CANNOT BE KEPT, and those are not acknowledged: the block cache: full\n";
        assert!(said.contains(line), "{said}");
        status["blocks"]["are_carried"] = json!(false);
        let said = describe(&status, None);
        let line =
            "  NO BLOCKS, and so no files and no sockets, are carried: the block cache: full\n";
        assert!(said.contains(line), "{said}");
    }

    #[test]
    fn what_blocks_know_of_a_path_is_told_where_there_is_one() {
        let mut status = status(10.0, 0);
        assert!(!describe(&status, None).contains("blocks to"));
        let path = json!({ "node": 2, "most_mbps": 24.06, "loss": 0.02, "round_trip_ns": 20.5e6 });
        status["stack"]["paths"] = json!([path]);
        let said = describe(&status, None);
        let right = "  blocks to valley: at most 24.1 Mb/s, loss 2.0 %, 20.5 ms there and back\n";
        assert!(said.contains(right), "{said}");
        status["stack"]["paths"][0]["round_trip_ns"] = Value::Null;
        assert!(describe(&status, None).contains("loss 2.0 %\n"));
    }

    #[test]
    fn a_second_look_tells_the_rate_of_now() {
        let said = describe(&status(11.0, 1_500_000), Some(&status(10.0, 1_250_000)));
        assert!(said.contains("2.00 Mb/s out and 0.00 in now"), "{said}");
    }
}
