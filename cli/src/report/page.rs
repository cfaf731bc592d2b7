//! The report as one self-contained HTML page.

use farhop_proto::base::counted;
use farhop_sim::engine::{LinkReport, Report};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{detail, text};

const STYLE: &str = "
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff; max-width: 62rem;
  margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2rem }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto;
  font-size: .9rem }
th, td { padding: .3rem .7rem; text-align: right; border-bottom: 1px solid #ddd;
  white-space: nowrap }
th:first-child, td:first-child, th.text { text-align: left } th { border-bottom: 2px solid #888 }
.text { text-align: left; white-space: normal } figure { margin: 1rem 0 }
svg { max-width: 100%; height: auto } .late { color: #b00020; font-weight: 600 }
pre { background: #f5f5f5; padding: 1rem; overflow-x: auto; font-size: .85rem }
.note { color: #555; font-size: .9rem } summary { cursor: pointer; margin: .4rem 0 }";

/// A page with a title and a body.
pub(crate) fn page(title: &str, body: &Markup) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body { (body) }
        }
    }
    .into_string()
}

/// A chart in a page.
pub(crate) fn figure(svg: &str) -> Markup {
    // The XML declaration is not allowed inside HTML.
    let start = svg.find("<svg").unwrap_or(0);
    html! { figure { (PreEscaped(&svg[start..])) } }
}

/// The processor and the kernel of this machine.
pub(crate) fn machine() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let model = model.map_or("processor", |(_, name)| name.trim());
    format!("{model}, {}, Linux {}", counted(cores, "core"), kernel.trim())
}

/// The page of one report.
pub(crate) fn report(report: &Report, series: &str, scenario: &str) -> String {
    let late = report.lateness.as_ref().is_some_and(|lateness| lateness.late);
    let body = html! {
        h1 { (report.scenario) }
        p.note {
            (report.driver) ", farhop " (report.version) ", seed " (report.seed) ", "
            (report.simulated_s) " s, " (counted(report.frames_on_air, "frame")) " on air"
            "; " (machine())
        }
        @if late {
            p.late { "This run was late: it is not valid." }
        }
        @if !report.flows.is_empty() { (figure(series)) }
        @if report.flows.iter().any(|flow| flow.transport.contains("tcp")) {
            p.note {
                "TCP delivers in order: what waits behind a hole comes at once when it is filled, "
                "as a peak behind a gap."
            }
        }
        @if report.flows.iter().any(|flow| flow.transport.contains("hop")) {
            p.note {
                "A block counts once it is whole, all its bytes at that moment: as a peak, far "
                "above what the radio sends."
            }
        }
        h2 { "Flows" }
        (flows(report))
        @for line in report.flows.iter().filter_map(text::remark) {
            p.note { (line) }
        }
        h2 { "Air time" }
        p.note { "What the radio of the sender spends on this neighbour, and on its others." }
        @if !report.links.is_empty() { (detail::air_chart(&report.links)) }
        (links(&report.links))
        (detail::beliefs(&report.links))
        @if report.nodes.iter().any(|node| !node.drops.is_empty()) {
            h2 { "Drops" }
            table {
                tr { th { "node" } th { "cause" } th { "units" } }
                @for node in &report.nodes {
                    @for (cause, count) in &node.drops {
                        tr { td { (node.name) } td { (cause) } td { (count) } }
                    }
                }
            }
        }
        @if let Some(lateness) = &report.lateness { (detail::punctuality(lateness)) }
        (detail::counters(&report.nodes))
        h2 { "Scenario" }
        pre { (scenario) }
    };
    page(&report.scenario, &body)
}

fn flows(report: &Report) -> Markup {
    html! {
        table {
            tr {
                th { "flow" } th { "transport" } th { "goodput, Mb/s" } th { "sent again" }
                th { "loss, %" } th { "delay p50 / p95 / p99, ms" } th { "jitter p50 / p95, ms" }
            }
            @for flow in &report.flows {
                tr {
                    td { (flow.name) } td { (flow.transport) }
                    td { (format!("{:.2}", flow.goodput_mbps)) }
                    td { @if let Some(count) = flow.retransmissions { (count) } @else { "-" } }
                    td { (flow.loss.map_or("-".into(), |loss| format!("{:.2}", loss * 100.0))) }
                    td {
                        @if let Some(delay) = flow.delay_ms {
                            (format!("{:.1} / {:.1} / {:.1}", delay.p50, delay.p95, delay.p99))
                        } @else { "-" }
                    }
                    td {
                        @if let Some(jitter) = flow.jitter_ms {
                            (format!("{:.1} / {:.1}", jitter.p50, jitter.p95))
                        } @else { "-" }
                    }
                }
            }
        }
        p.note { "All flows: " (text::all_flows(report)) "." }
    }
}

fn links(links: &[LinkReport]) -> Markup {
    let percent = |share: f64| format!("{:.1}", share * 100.0);
    html! {
        table {
            tr {
                th { "share of the time, %" }
                @for (name, _, _) in detail::USES { th { (name) } }
            }
            @for link in links {
                tr {
                    td { (link.from) " to " (link.to) " (" (link.protocol) ")" }
                    @for (_, _, share) in detail::USES { td { (percent(share(&link.air))) } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farhop_sim::engine::FlowReport;

    #[test]
    fn a_page_has_every_flow_and_the_scenario_and_escapes_both() {
        let flow = FlowReport { name: "a <b> c".into(), ..FlowReport::default() };
        let finished = Report { flows: vec![flow], ..Report::default() };
        let page = report(&finished, "<?xml?><svg></svg>", "name = \"<x>\"");
        assert!(page.contains("a &lt;b&gt; c"));
        assert!(page.contains("name = \"&lt;x&gt;\"") || page.contains("&lt;x&gt;"));
        assert!(page.contains("All flows: 0.00 MB"));
        assert!(page.contains("<svg></svg>") && !page.contains("<?xml"));
    }
}
