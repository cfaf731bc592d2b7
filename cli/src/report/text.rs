//! The report as text: tables for a terminal.

use std::fmt::Write as _;

use farhop_proto::base::counted;
use farhop_sim::engine::{
    AdversaryReport, Counters, FlowReport, Lateness, ObjectsReport, Report, VoipReport,
};

use super::detail;
use super::table::table;

/// A report as text.
pub(super) fn report(report: &Report) -> String {
    let mut out = format!(
        "{} ({}, farhop {}, seed {}): {:.1} s in {:.2} s",
        report.scenario,
        report.driver,
        report.version,
        report.seed,
        report.simulated_s,
        report.wall_s
    );
    if report.driver == "sim" {
        let speed = report.simulated_s / report.wall_s.max(1e-9);
        let times = counted(format_args!("{speed:.0}"), "time");
        let _ = write!(out, ", {times} real time");
    }
    let _ = writeln!(out, "; {} on air", counted(report.frames_on_air, "frame"));
    if let Some(lateness) = &report.lateness {
        out += &lateness_line(lateness);
    }
    if let Some(adversary) = &report.adversary {
        out += &adversary_line(adversary);
    }
    out += &flows(report);
    out += &links(report);
    for node in &report.nodes {
        if !node.drops.is_empty() {
            let _ = writeln!(out, "drops at {}: {}", node.name, counters(&node.drops));
        }
    }
    out
}

/// What strangers did, in one line.
fn adversary_line(adversary: &AdversaryReport) -> String {
    let AdversaryReport { sent, accepted, by_kind, .. } = adversary;
    let ratio = adversary.honest_goodput_ratio.map_or_else(String::new, |ratio| {
        format!("; goodput {:.0} % of that beside as much noise, in this run", ratio * 100.0)
    });
    format!(
        "strangers sent {} ({}), of which {accepted} got in{ratio}\n",
        counted(sent, "frame"),
        counters(by_kind)
    )
}

fn flows(report: &Report) -> String {
    let head = [
        "flow",
        "transport",
        "goodput Mb/s",
        "sent again",
        "loss",
        "delay p50/p95/p99 ms",
        "jitter p50/p95 ms",
    ];
    let rows = report.flows.iter().map(|flow| {
        let none = || "-".to_owned();
        vec![
            flow.name.clone(),
            flow.transport.clone(),
            format!("{:.2}", flow.goodput_mbps),
            flow.retransmissions.map_or_else(none, |count| count.to_string()),
            flow.loss.map_or_else(none, |loss| format!("{:.2} %", loss * 100.0)),
            flow.delay_ms.map_or_else(none, |delay| {
                format!("{:.1} / {:.1} / {:.1}", delay.p50, delay.p95, delay.p99)
            }),
            flow.jitter_ms
                .map_or_else(none, |jitter| format!("{:.1} / {:.1}", jitter.p50, jitter.p95)),
        ]
    });
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return "no flows\n".into();
    }
    let mut out = table(&head, &rows) + "\n";
    for line in report.flows.iter().filter_map(remark) {
        out += &line;
        out.push('\n');
    }
    let _ = writeln!(out, "all flows: {}", all_flows(report));
    out
}

/// The total of all flows over the whole run: the goodputs of flows that ran at different times
/// cannot be added.
pub(super) fn all_flows(report: &Report) -> String {
    let bytes: u64 = report.flows.iter().map(|flow| flow.delivered_bytes).sum();
    let (seconds, rate) = (report.simulated_s, report.carried_mbps());
    format!("{:.2} MB in the {seconds:.1} s of the run, {rate:.2} Mb/s", bytes as f64 / 1e6)
}

/// The result of a flow for its application in one line, if it is more than a rate.
pub(super) fn remark(flow: &FlowReport) -> Option<String> {
    let name = &flow.name;
    if let Some(call) = &flow.voip {
        let VoipReport { mos, r_factor, loss, delay_ms, .. } = call;
        return Some(format!(
            "{name}: MOS {mos:.2} (R {r_factor:.0}), {:.1} % not played, {delay_ms:.0} ms from \
             mouth to ear",
            loss * 100.0
        ));
    }
    if let Some(objects) = &flow.objects {
        let ObjectsReport { count, failed, pages, page_ms, .. } = objects;
        let times = page_ms.map_or(String::new(), |page| {
            format!(", p50/p95 {:.2} / {:.2} s each", page.p50 / 1e3, page.p95 / 1e3)
        });
        return Some(format!(
            "{name}: {}{times}; {}, {failed} more failed",
            counted(pages, "page"),
            counted(count, "object")
        ));
    }
    match (flow.completed_s, flow.file_bytes) {
        (Some(seconds), _) => Some(format!("{name}: all there after {seconds:.2} s")),
        (None, Some(bytes)) if flow.delivered_bytes < bytes => {
            Some(format!("{name}: not all there: {}", part(flow.delivered_bytes, bytes)))
        }
        (None, Some(_)) => Some(format!("{name}: all there only after it stopped")),
        (None, None) => None,
    }
}

/// Some of all bytes, as text; `bytes` is less than `all`.
fn part(bytes: u64, all: u64) -> String {
    if all < 1_000_000 {
        return format!("{bytes} of {}", counted(all, "byte"));
    }
    // Truncated, so that an incomplete transfer does not look complete.
    let [bytes, all] = [bytes, all].map(|bytes| (bytes / 10_000) as f64 / 100.0);
    format!("{bytes:.2} of {all:.2} MB")
}

/// What the shares of the air time are.
const SHARES: &str = "data: sent first; again: repeated; coding: parity; ack: of the MAC and the \
                      link; guard: of slots; collision:\ndestroyed at the receiver; to others: \
                      to the radio's other neighbours; not sending: listens, waits, has nothing\n\
                      loss seen: of what the link sends, after the card's own repetitions";

fn links(report: &Report) -> String {
    let head = [
        "air time of the sender, %",
        "data",
        "again",
        "coding",
        "ack",
        "guard",
        "collision",
        "to others",
        "not sending",
        "loss seen",
        "slot corrected",
    ];
    let shown = detail::busiest(&report.links);
    let left_out = report.links.len() - shown.len();
    let rows = shown.into_iter().map(|link| {
        let air = &link.air;
        let mut row = vec![format!("{} to {} ({})", link.from, link.to, link.protocol)];
        let shares = [
            air.data,
            air.retransmission,
            air.coding,
            air.acknowledgement,
            air.guard,
            air.collision,
            air.others,
            air.idle,
        ];
        row.extend(shares.map(|share| format!("{:.1}", share * 100.0)));
        row.push(link.loss.map_or("-".into(), |loss| format!("{:.1} %", loss * 100.0)));
        row.push(link.sync_error_us.map_or("-".into(), |error| format!("{error:.1} us")));
        row
    });
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return String::new();
    }
    let mut out = table(&head, &rows) + "\n" + SHARES + "\n";
    if left_out > 0 {
        let rest = counted(left_out, "direction");
        let _ = writeln!(out, "these use the most; --json and --out have {rest} more");
    }
    out
}

/// How punctual a lab was, in one line.
pub(crate) fn lateness_line(lateness: &Lateness) -> String {
    let process = |process: &farhop_sim::engine::ProcessLateness| {
        let share = process.late_1ms as f64 * 100.0 / process.wakeups.max(1) as f64;
        format!("{} {share:.2} % (worst {:.1} ms)", process.name, process.worst_us / 1e3)
    };
    let processes: Vec<String> = lateness.processes.iter().map(process).collect();
    let verdict = if lateness.late { "LATE, not valid" } else { "on time" };
    let others = lateness.others_cpu.map_or_else(String::new, |others| {
        format!("; other programs kept {others:.2} of a processor busy")
    });
    let slots = match lateness.slots {
        0 => String::new(),
        slots => format!("; {} of {} overrun", lateness.slots_overrun, counted(slots, "slot")),
    };
    format!("{verdict}: wake-ups later than 1 ms: {}{slots}{others}\n", processes.join(", "))
}

fn counters(counters: &Counters) -> String {
    let each: Vec<String> =
        counters.iter().map(|(name, count)| format!("{name} {count}")).collect();
    each.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_that_ran_one_after_the_other_are_not_added_as_if_together() {
        let flow = |goodput_mbps, delivered_bytes| FlowReport {
            goodput_mbps,
            delivered_bytes,
            ..FlowReport::default()
        };
        let flows = vec![flow(1.08, 3_000_000), flow(0.35, 675_000)];
        let report = Report { simulated_s: 60.0, flows, ..Report::default() };
        let text = super::report(&report);
        let line = text.lines().find(|line| line.starts_with("all flows"));
        assert_eq!(line, Some("all flows: 3.67 MB in the 60.0 s of the run, 0.49 Mb/s"));
    }

    #[test]
    fn a_file_that_did_not_come_whole_is_told_of() {
        let flow = |delivered_bytes, file_bytes, completed_s| FlowReport {
            name: "map".into(),
            delivered_bytes,
            file_bytes,
            completed_s,
            ..FlowReport::default()
        };
        let said = |delivered, file, completed| remark(&flow(delivered, file, completed));
        assert_eq!(said(8_000_000, None, None), None);
        let expected = Some("map: all there after 3.00 s".into());
        assert_eq!(said(8_000_000, Some(8_000_000), Some(3.0)), expected);
        let expected = Some("map: not all there: 2.10 of 8.00 MB".into());
        assert_eq!(said(2_100_000, Some(8_000_000), None), expected);
        let expected = Some("map: not all there: 7.99 of 8.00 MB".into());
        assert_eq!(said(7_999_999, Some(8_000_000), None), expected);
        let expected = Some("map: not all there: 0 of 500 bytes".into());
        assert_eq!(said(0, Some(500), None), expected);
        let expected = Some("map: all there only after it stopped".into());
        assert_eq!(said(500, Some(500), None), expected);
    }

    #[test]
    fn what_was_not_compared_with_noise_is_not_told_of_it() {
        let adversary = |honest_goodput_ratio| AdversaryReport {
            sent: 7,
            by_kind: Counters::from([("replay".into(), 7)]),
            honest_goodput_ratio,
            ..AdversaryReport::default()
        };
        let said = "strangers sent 7 frames (replay 7), of which 0 got in";
        assert_eq!(adversary_line(&adversary(None)), format!("{said}\n"));
        let more = "; goodput 97 % of that beside as much noise, in this run\n";
        assert_eq!(adversary_line(&adversary(Some(0.97))), format!("{said}{more}"));
    }
}
