//! The rows as tables for a terminal, and as JSON.

use std::fmt::Write as _;

use anyhow::Result;
use clap::ValueEnum as _;
use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use farhop_proto::base::counted;
use serde_json::json;

use super::{Row, Section};

/// The columns of every table.
pub(crate) const HEAD: [&str; 7] =
    ["what", "unit", "reference", "ours", "difference", "allowed", "ok"];

/// A row as the cells of [`HEAD`].
pub(crate) fn cells(row: &Row) -> [String; 7] {
    [
        row.name.clone(),
        row.unit.to_owned(),
        figure(row.reference),
        figure(row.ours),
        row.difference(),
        row.tolerance.text(),
        if row.ok { "yes" } else { "NO" }.to_owned(),
    ]
}

/// A number with four significant digits, and at most three decimals.
fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        size if size >= 10.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// A group as a table.
pub(crate) fn section(section: &Section) -> String {
    let mut out = format!("\n{}\n", section.group.title());
    match &section.rows {
        Ok(rows) => {
            let mut table = Table::new();
            table.set_content_arrangement(ContentArrangement::Dynamic);
            table.load_style(ASCII_MARKDOWN).set_header(HEAD);
            for row in rows {
                table.add_row(cells(row));
            }
            for column in table.column_iter_mut().skip(2) {
                column.set_cell_alignment(CellAlignment::Right);
            }
            let _ = writeln!(out, "{table}");
            for (note, names) in notes(rows) {
                let _ = writeln!(out, "note on {}: {note}", names.join(", "));
            }
        }
        Err(error) => {
            let _ = writeln!(out, "not measured: {error:#}");
        }
    }
    out
}

/// Each note once, with the names of its rows.
pub(crate) fn notes(rows: &[Row]) -> Vec<(&str, Vec<&str>)> {
    let mut notes: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in rows.iter().filter(|row| !row.note.is_empty()) {
        match notes.iter_mut().find(|(note, _)| *note == row.note) {
            Some((_, names)) => names.push(&row.name),
            None => notes.push((&row.note, vec![&row.name])),
        }
    }
    notes
}

/// The number of rows, and the rows that failed.
pub(crate) fn summary(sections: &[Section]) -> String {
    let rows = || sections.iter().filter_map(|section| section.rows.as_ref().ok()).flatten();
    let (count, bad) = (rows().count(), rows().filter(|row| !row.ok).count());
    let mut out = format!("\n{}, {bad} outside what is allowed\n", counted(count, "row"));
    for row in rows().filter(|row| !row.ok) {
        let _ = writeln!(
            out,
            "  {}: {}: {} {}, reference {} ({} allowed)",
            row.group,
            row.name,
            figure(row.ours),
            row.unit,
            figure(row.reference),
            row.tolerance.text()
        );
    }
    for section in sections {
        if let Err(error) = &section.rows {
            let _ = writeln!(out, "  {}: not measured: {error:#}", name(section));
        }
    }
    out
}

/// All rows and errors, as one JSON object.
pub(crate) fn json(sections: &[Section]) -> Result<String> {
    let rows: Vec<&Row> =
        sections.iter().filter_map(|section| section.rows.as_ref().ok()).flatten().collect();
    let errors = sections.iter().filter_map(|section| {
        let error = section.rows.as_ref().err()?;
        Some(json!({ "group": name(section), "error": format!("{error:#}") }))
    });
    let ok = sections.iter().all(Section::is_ok);
    let errors: Vec<_> = errors.collect();
    Ok(serde_json::to_string_pretty(&json!({ "ok": ok, "rows": rows, "errors": errors }))?)
}

fn name(section: &Section) -> String {
    let value = section.group.to_possible_value().expect("no group is hidden");
    value.get_name().to_owned()
}
