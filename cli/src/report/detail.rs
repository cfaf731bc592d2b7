//! The details behind the numbers of a report, for its page: the uses of the air, how late
//! processes were, and every counter.

use farhop_sim::engine::{AirReport, Lateness, LinkReport, NodeReport};
use maud::{Markup, html};

/// A use of the air: name, colour, share.
pub(super) type Use = (&'static str, &'static str, fn(&AirReport) -> f64);

/// The uses of the air in the order of lists and bars, with colours that people with any colour
/// vision can tell apart (Okabe and Ito, 2008).
pub(super) const USES: [Use; 8] = [
    ("data", "#0072b2", |air| air.data),
    ("again", "#d55e00", |air| air.retransmission),
    ("coding", "#009e73", |air| air.coding),
    ("ack", "#cc79a7", |air| air.acknowledgement),
    ("guard", "#e69f00", |air| air.guard),
    ("collision", "#505050", |air| air.collision),
    ("to others", "#a6cee3", |air| air.others),
    ("not sending", "#e8e8e8", |air| air.idle),
];

/// Size of the chart of air time, in its own units: width of a full bar, of what is right of it,
/// and of the widest letter of a name.
const ACROSS: f64 = 650.0;
const RIGHT: f64 = 20.0;
const LETTER: f64 = 8.0;
const BAR: f64 = 24.0;
const STEP: f64 = 36.0;
const LEGEND: f64 = 40.0;
const SCALE: f64 = 40.0;

/// Most links that are shown: those whose senders used most air time for them.
const BARS: usize = 40;

/// The share of time that the sender of a link used for it.
fn busy(link: &LinkReport) -> f64 {
    let uses = USES.iter().filter(|(name, ..)| !["to others", "not sending"].contains(name));
    uses.map(|(_, _, share)| share(&link.air)).sum()
}

/// The links whose senders used most air time for them, in the order of the scenario.
pub(super) fn busiest(links: &[LinkReport]) -> Vec<&LinkReport> {
    let mut order: Vec<usize> = (0..links.len()).collect();
    order.sort_by(|a, b| busy(&links[*b]).total_cmp(&busy(&links[*a])));
    order.truncate(BARS);
    order.sort_unstable();
    order.into_iter().map(|index| &links[index]).collect()
}

/// Where the entries of the legend begin: each is as wide as its name.
fn legend() -> impl Iterator<Item = f64> {
    USES.iter().scan(0.0, |x, (name, ..)| {
        let begins = *x;
        *x += 36.0 + 7.0 * name.len() as f64;
        Some(begins)
    })
}

fn name(link: &LinkReport) -> String {
    format!("{} to {}", link.from, link.to)
}

/// The uses of air time in each direction of each link, as stacked bars.
pub(super) fn air_chart(all: &[LinkReport]) -> Markup {
    let links = busiest(all);
    let left_out = all.len() - links.len();
    let longest = links.iter().map(|link| name(link).chars().count()).max().unwrap_or(0);
    let names = 20.0 + LETTER * longest as f64;
    let foot = LEGEND + STEP * links.len() as f64;
    let width = names + ACROSS + RIGHT;
    let view = format!("0 0 {width} {}", foot + SCALE);
    html! {
        figure {
            svg viewBox=(view) width=(width) role="img" aria-label="Shares of air time"
                font-family="sans-serif" font-size="13" fill="#282828" {
                rect width="100%" height="100%" fill="#fff" {}
                @for ((name, colour, _), x) in USES.iter().zip(legend()) {
                    @let x = names + x;
                    rect x=(x) y="8" width="14" height="14" fill=(colour) {}
                    text x=(x + 20.0) y="20" { (name) }
                }
                @for (index, link) in links.iter().enumerate() {
                    @let y = LEGEND + STEP * index as f64;
                    text x=(names - 10.0) y=(y + BAR * 0.7) text-anchor="end" {
                        (name(link))
                    }
                    @for (start, share, name, colour) in stacked(&link.air) {
                        rect x=(tenths(names + start * ACROSS)) y=(y) height=(BAR)
                            width=(tenths(share * ACROSS)) fill=(colour) {
                            title { (name) ": " (format!("{:.1} %", share * 100.0)) }
                        }
                    }
                }
                @for percent in [0_u32, 25, 50, 75, 100] {
                    @let x = names + f64::from(percent) / 100.0 * ACROSS;
                    text x=(x) y=(foot + 14.0) text-anchor="middle" { (percent) }
                }
                text x=(names + ACROSS / 2.0) y=(foot + 33.0) text-anchor="middle" {
                    "share of the time of the run, %"
                }
            }
            @if left_out > 0 {
                figcaption.note {
                    "The " (BARS) " links whose senders used most of the time for them, and "
                    (left_out) " more without a bar."
                }
            }
        }
    }
}

/// The parts of a bar that are not zero: start, share, name, colour.
fn stacked(air: &AirReport) -> Vec<(f64, f64, &'static str, &'static str)> {
    let mut start = 0.0;
    let mut parts = Vec::new();
    for (name, colour, share) in USES {
        let share = share(air).clamp(0.0, 1.0 - start);
        if share > 0.0 {
            parts.push((start, share, name, colour));
        }
        start += share;
    }
    parts
}

fn tenths(value: f64) -> String {
    format!("{value:.1}")
}

/// What the ends of each link have estimated of it.
pub(super) fn beliefs(links: &[LinkReport]) -> Markup {
    html! {
        @if links.iter().any(|link| link.loss.is_some() || link.sync_error_us.is_some()) {
            h2 { "What each sender sees of its link" }
            table {
                tr { th { "link" } th { "loss, %" } th { "last correction of the slot, us" } }
                @for link in links {
                    tr {
                        td { (link.from) " to " (link.to) }
                        td { (number(link.loss.map(|loss| loss * 100.0))) }
                        td { (number(link.sync_error_us)) }
                    }
                }
            }
        }
    }
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.1}"))
}

/// How late each process of a lab was, and whether that was too late.
pub(super) fn punctuality(lateness: &Lateness) -> Markup {
    html! {
        h2 { "Punctuality" }
        p.late[lateness.late] {
            @if lateness.late { "This run was late: it is not valid. " } @else { "On time. " }
            @if lateness.slots > 0 {
                (lateness.slots_overrun) " of " (lateness.slots) " send slots were overrun. "
            }
            "A run is valid with at most 1 % of a process's wake-ups later than 1 ms and 0.1 % of "
            "the slots overrun."
            @if let Some(others) = lateness.others_cpu {
                " Other programs kept " (format!("{others:.2}")) " of a processor busy: what "
                "computes beside a lab makes its hosts react later, which this rule does not see."
            }
        }
        table {
            tr {
                th { "process" } th { "wake-ups" } th { "later than 1 ms" }
                th { "later than the guard" } th { "worst, ms" } th { "processor, s" }
                th { "memory, MB" }
            }
            @for process in &lateness.processes {
                tr {
                    td { (process.name) } td { (process.wakeups) }
                    td { (process.late_1ms) } td { (process.late_guard) }
                    td { (format!("{:.2}", process.worst_us / 1e3)) }
                    td { (number(process.cpu_s)) }
                    td { (number(process.memory_kb.map(|kb| kb as f64 / 1024.0))) }
                }
            }
        }
    }
}

/// Every counter of every layer of every node that is not zero, folded away.
pub(super) fn counters(nodes: &[NodeReport]) -> Markup {
    html! {
        h2 { "Counters" }
        @for node in nodes {
            details {
                summary { (node.name) }
                table {
                    tr { th { "layer" } th.text { "counter" } th { "count" } }
                    @for (layer, counters) in &node.layers {
                        @for (name, count) in counters.iter().filter(|(_, count)| **count > 0) {
                            tr { td { (layer) } td.text { (name) } td { (count) } }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_bar_stand_behind_each_other_and_fill_it() {
        let air = AirReport { data: 0.4, guard: 0.1, idle: 0.5, ..AirReport::default() };
        let parts = stacked(&air);
        let starts: Vec<f64> = parts.iter().map(|part| part.0).collect();
        assert_eq!(starts, [0.0, 0.4, 0.5]);
        let sum: f64 = parts.iter().map(|part| part.1).sum();
        assert!((sum - 1.0).abs() < 1e-9);
    }

    #[test]
    fn shares_of_more_than_all_do_not_leave_the_chart() {
        let air = AirReport { data: 0.9, coding: 0.9, idle: 0.1, ..AirReport::default() };
        let end = stacked(&air).last().map(|part| part.0 + part.1);
        assert!(end.is_some_and(|end| (end - 1.0).abs() < 1e-9));
    }

    #[test]
    fn names_and_units_are_in_the_chart() {
        let link = LinkReport {
            from: "hill".into(),
            to: "valley".into(),
            air: AirReport { data: 0.25, idle: 0.75, ..AirReport::default() },
            ..LinkReport::default()
        };
        let chart = air_chart(&[link]).into_string();
        for word in ["hill to valley", "data: 25.0 %", "share of the time of the run, %"] {
            assert!(chart.contains(word), "no {word} in {chart}");
        }
    }

    fn link(from: &str, data: f64) -> LinkReport {
        let air = AirReport { data, idle: 1.0 - data, ..AirReport::default() };
        LinkReport { from: from.into(), to: "valley".into(), air, ..LinkReport::default() }
    }

    #[test]
    fn long_names_have_their_place_left_of_the_bars() {
        let start = |name: &str| -> f64 {
            let chart = air_chart(&[link(name, 1.0)]).into_string();
            let (_, x) = chart
                .split_once("text-anchor=\"end\"")
                .map_or(("", ""), |at| at.0.rsplit_once("text x=\"").expect("a name has a place"));
            x.split('"').next().expect("it ends").parse().expect("a number")
        };
        assert!(start("a-hill-with-a-very-long-name") - start("hill") >= 24.0 * 7.5);
    }

    #[test]
    fn only_the_busiest_of_many_links_have_bars() {
        let links: Vec<LinkReport> =
            (0..60).map(|index| link(&format!("n{index}"), f64::from(index % 50) / 50.0)).collect();
        let chart = air_chart(&links).into_string();
        assert!(chart.contains("20 more without a bar"), "{chart}");
        assert!(chart.contains("n49 to") && !chart.contains("n5 to"), "{chart}");
        assert!(!air_chart(&links[..40]).into_string().contains("more without"));
    }
}
