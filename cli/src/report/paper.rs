//! The rows and figures of a paper: as text and as one page.

use farhop_papers::{Band, Effort, Estimate, Outcome, Paper, Row, Table};
use farhop_proto::base::counted;
use maud::{Markup, html};

use super::table::wrapped;
use super::{page as html_page, paper_chart};

pub(crate) use super::paper_chart::draw;

/// Numbers below this, and deviations below this part of the mean, are rounding errors.
const NOISE: f64 = 1e-9;

/// A number with its significant digits.
fn number(value: f64) -> String {
    match value.abs() {
        v if v.is_nan() => "none".into(),
        // A rounding error.
        v if v < NOISE => "0.00".into(),
        v if v >= 1000.0 => format!("{value:.0}"),
        v if v >= 100.0 => format!("{value:.1}"),
        v if v >= 0.1 => format!("{value:.2}"),
        v if v >= 0.001 => format!("{value:.4}"),
        _ => format!("{value:.1e}"),
    }
}

/// The mean of an estimate, with its deviation if there are several seeds.
fn measured(it: Estimate) -> String {
    let mean = number(it.mean);
    if it.seeds < 2 || it.mean.is_nan() {
        return mean;
    }
    let is_noise = it.deviation < it.mean.abs() * NOISE;
    format!("{mean} ({})", number(if is_noise { 0.0 } else { it.deviation }))
}

fn band(band: Band) -> String {
    match (band.low, band.high) {
        (Some(low), Some(high)) => format!("{} to {}", number(low), number(high)),
        (Some(low), None) => format!("at least {}", number(low)),
        (None, Some(high)) => format!("at most {}", number(high)),
        (None, None) => "any".into(),
    }
}

fn verdict(row: &Row) -> &'static str {
    if row.unmeasured {
        return "not measured";
    }
    match (row.ok, row.known) {
        (true, _) if row.band.is_open() => "no band",
        (true, _) => "ok",
        (false, true) => "OUTSIDE, known",
        (false, false) => "OUTSIDE",
    }
}

/// All rows and tables as text.
pub(crate) fn text(outcomes: &[Outcome]) -> String {
    let cells = |row: &Row| {
        let texts = [&row.id, &row.what, &row.published].map(String::clone);
        let [id, what, published] = texts;
        vec![id, what, published, measured(row.ours), band(row.band), verdict(row).to_owned()]
    };
    let rows: Vec<_> = outcomes.iter().flat_map(|outcome| &outcome.rows).map(cells).collect();
    // Some targets are tables without rows to judge.
    let mut out = if rows.is_empty() { String::new() } else { super::table(&HEAD, &rows) };
    for row in outcomes.iter().flat_map(|outcome| &outcome.rows).filter(|row| !row.ok) {
        if !row.note.is_empty() {
            out.push('\n');
            out += &wrapped(&format!("{}, {}: {}", row.id, row.what, row.note));
        }
    }
    if let Some(table) = lab_table(outcomes) {
        out += &format!("\n\n{}\n{}\n{}", table.title, text_table(&table), wrapped(&table.note));
    }
    for table in outcomes.iter().flat_map(|outcome| &outcome.tables) {
        out += &format!("\n\n{}\n{}", table.title, text_table(table));
        if !table.note.is_empty() {
            out.push('\n');
            out += &wrapped(&table.note);
        }
    }
    out.trim_start().to_owned()
}

fn text_table(table: &Table) -> String {
    let head: Vec<&str> = table.head.iter().map(String::as_str).collect();
    super::table(&head, &table.rows)
}

/// The rows that were also measured with real daemons, if any.
fn lab_table(outcomes: &[Outcome]) -> Option<Table> {
    let rows = outcomes.iter().flat_map(|outcome| &outcome.rows);
    let cells = |row: &Row| {
        let (lab, sim) = row.lab.zip(row.lab_sim)?;
        let verdict = match row.lab_ok {
            Some(true) => "within 10%",
            Some(false) => "APART",
            None => "",
        };
        let ratio = match row.lab_ok {
            Some(_) => format!("{:.3}", sim.mean / lab.mean),
            None => String::new(),
        };
        let texts = [row.id.clone(), row.what.clone(), measured(lab), measured(sim), ratio];
        Some([&texts[..], &[verdict.to_owned(), band(row.band)]].concat())
    };
    let rows: Vec<Vec<String>> = rows.filter_map(cells).collect();
    let head = ["target", "what", "lab", "sim", "sim/lab", "verdict", "the paper's band"];
    (!rows.is_empty()).then(|| Table {
        title: "With real daemons over the emulated air".into(),
        head: head.map(str::to_owned).to_vec(),
        rows,
        note: "Both with the kernel's TCP in place of the paper's, which a lab cannot be given; \
               runs of 20 s, of 5 s where it has to be quick."
            .into(),
    })
}

const HEAD: [&str; 6] = ["target", "what", "published", "ours (deviation)", "band", "verdict"];

/// The page of a paper.
pub(crate) fn page(paper: &Paper, outcomes: &[Outcome], effort: Effort) -> String {
    let all: Vec<&Row> = outcomes.iter().flat_map(|outcome| &outcome.rows).collect();
    let missed = all.iter().filter(|row| !row.ok).count();
    let body = html! {
        h1 { (paper.title) }
        p.note {
            "farhop " (env!("CARGO_PKG_VERSION")) ", in the simulator, "
            (counted(effort.seeds, "seed")) " a run" @if effort.quick { ", quick: short runs" }
            "; " (html_page::machine())
        }
        p {
            (counted(all.len(), "row")) ", "
            @if missed > 0 { span.late { (missed) " outside their band" } }
            @else { "all inside their band" }
            ". Ours is the mean over the seeds, with the standard deviation in brackets."
        }
        @for outcome in outcomes {
            h2 id=(outcome.target.id) { (outcome.target.id) ": " (outcome.target.title) }
            @for figure in &outcome.figures { (html_page::figure(&paper_chart::draw(figure))) }
            (rows(&outcome.rows))
            @for table in &outcome.tables { (plain_table(table)) }
        }
        @if let Some(table) = lab_table(outcomes) { (plain_table(&table)) }
        h2 { "Calibration" }
        p.note { "The constants of the paper's boards, one set for all rows." }
        pre { (paper.calibration) }
    };
    html_page::page(paper.title, &body)
}

fn rows(rows: &[Row]) -> Markup {
    html! {
        @if !rows.is_empty() {
            table {
                tr { @for (index, head) in HEAD[1..].iter().enumerate() {
                    th.text[index == 1] { (head) }
                } }
                @for row in rows {
                    tr {
                        td { (row.what) } td.text { (row.published) } td { (measured(row.ours)) }
                        td { (band(row.band)) }
                        td.late[!row.ok] { (verdict(row)) }
                    }
                    @if !row.note.is_empty() { tr { td.text.note colspan="5" { (row.note) } } }
                }
            }
        }
    }
}

fn plain_table(table: &Table) -> Markup {
    html! {
        h3 { (table.title) }
        table {
            tr { @for head in &table.head { th { (head) } } }
            @for row in &table.rows { tr { @for cell in row { td { (cell) } } } }
        }
        @if !table.note.is_empty() { p.note { (table.note) } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farhop_papers::Expected;

    fn row(mean: f64) -> Row {
        row_of(mean, false)
    }

    fn row_of(mean: f64, quick: bool) -> Row {
        let expected = Expected {
            id: "W-F0".into(),
            key: "k".into(),
            what: "rate, <Mb/s>".into(),
            published: "3".into(),
            low: Some(2.5),
            high: None,
            note: "why".into(),
            known: String::new(),
            known_at: None,
            loose: false,
            long: true,
        };
        let ours = Estimate { mean, deviation: 0.012, seeds: 3 };
        Row::judge(&expected, ours, Effort { seeds: 3, quick })
    }

    #[test]
    fn a_row_outside_its_band_says_so_and_why() {
        assert_eq!((measured(row(3.0).ours).as_str(), verdict(&row(3.0))), ("3.00 (0.0120)", "ok"));
        assert_eq!(band(row(2.0).band), "at least 2.50");
        assert_eq!(verdict(&row(2.0)), "OUTSIDE");
        assert_eq!(
            [false, true].map(|quick| verdict(&row_of(f64::NAN, quick))),
            ["OUTSIDE", "not measured"]
        );
        let shown = rows(&[row(2.0)]).into_string();
        assert!(shown.contains(">verdict</th>"), "{shown}");
        assert!(shown.contains("rate, &lt;Mb/s&gt;") && shown.contains("why"), "{shown}");
    }

    #[test]
    fn numbers_keep_the_digits_that_say_something() {
        let shown = [1234.5, 99.5, 0.123, 0.0123, 0.000_012, 0.0].map(number);
        assert_eq!(shown, ["1234", "99.50", "0.12", "0.0123", "1.2e-5", "0.00"]);
        let rounded = [-1e-17, 3e-16].map(number);
        assert_eq!(rounded, ["0.00", "0.00"]);
        let noisy = Estimate { mean: 5.21, deviation: 7.5e-15, seeds: 2 };
        assert_eq!(measured(noisy), "5.21 (0.00)");
    }
}
