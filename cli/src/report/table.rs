//! Tables on a terminal: as wide as they want if that fits, else narrower with breaks between
//! words, else in several parts.

use std::ops::Range;

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width};

/// Columns of a cell that is not broken between its words if there is room.
const WHOLE: usize = 24;

/// A table whose first column is text and whose others are numbers. In a file it is as wide as it
/// wants.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    fit(head, rows, Table::new().width().map(usize::from))
}

fn fit(head: &[&str], rows: &[Vec<String>], width: Option<usize>) -> String {
    let all: Vec<usize> = (0..head.len()).collect();
    let columns: Vec<Column> = all.iter().map(|at| Column::measure(head, rows, *at)).collect();
    let Some(width) = width else { return draw(head, rows, &all, None) };
    let mut parts = Vec::new();
    let mut next = 1;
    while parts.is_empty() || next < head.len() {
        let shown = part(&columns, next, width);
        next = shown.end;
        // Every part says again whose numbers these are.
        let shown: Vec<usize> = (0..1.min(head.len())).chain(shown).collect();
        let columns: Vec<&Column> = shown.iter().map(|at| &columns[*at]).collect();
        parts.push(draw(head, rows, &shown, Some(share(&columns, width))));
    }
    parts.join("\n")
}

/// Widths of a column.
struct Column {
    /// No word is broken.
    words: usize,
    /// No cell is broken either, unless it is a sentence.
    cells: usize,
    /// Nothing is.
    all: usize,
}

impl Column {
    fn measure(head: &[&str], rows: &[Vec<String>], at: usize) -> Self {
        let length = |text: &str| text.chars().count();
        let word = |text: &str| text.split_whitespace().map(length).max().unwrap_or(0);
        let cells = || rows.iter().filter_map(|row| row.get(at)).map(String::as_str);
        let most = |of: &dyn Fn(&str) -> usize| cells().map(of).max().unwrap_or(0);
        let words = word(head[at]).max(most(&word)).max(1);
        let whole = |text: &str| Some(length(text)).filter(|length| *length <= WHOLE).unwrap_or(0);
        Self { words, cells: words.max(most(&whole)), all: length(head[at]).max(most(&length)) }
    }
}

/// The columns from `next` on that fit beside the first: one at least, and never none.
fn part(columns: &[Column], next: usize, width: usize) -> Range<usize> {
    let (mut taken, mut end) = (columns.first().map_or(0, |first| first.words), next);
    while let Some(column) = columns.get(end)
        && (end == next || taken + 1 + column.words <= width)
    {
        taken += 1 + column.words;
        end += 1;
    }
    next..end
}

/// The widths of columns that stand side by side, and the spaces on both sides of each, beside the
/// one that is between them anyway.
type Widths = (Vec<usize>, u16);

/// What each column has of a width: first its words, then its cells, then those have the rest whose
/// texts are the longest.
fn share(columns: &[&Column], width: usize) -> Widths {
    let mut widths: Vec<usize> = columns.iter().map(|column| column.words).collect();
    let (count, cells) = (widths.len(), columns.iter().map(|column| column.cells).sum::<usize>());
    // Rather close together than broken.
    let padding = u16::from(cells + 3 * count - 1 <= width);
    let taken = widths.iter().sum::<usize>() + count - 1 + 2 * usize::from(padding) * count;
    let mut left = width.saturating_sub(taken);
    for (own, column) in widths.iter_mut().zip(columns) {
        let more = column.cells - *own;
        if more <= left {
            (*own, left) = (column.cells, left - more);
        }
    }
    while left > 0
        && let Some(at) = (0..widths.len()).max_by_key(|at| columns[*at].all - widths[*at])
        && widths[at] < columns[at].all
    {
        (widths[at], left) = (widths[at] + 1, left - 1);
    }
    (widths, padding)
}

fn draw(head: &[&str], rows: &[Vec<String>], shown: &[usize], widths: Option<Widths>) -> String {
    let mut table = Table::new();
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.load_style(UTF8_HORIZONTAL_ONLY).set_header(shown.iter().map(|at| head[*at]));
    for row in rows {
        table.add_row(shown.iter().map(|at| &row[*at]));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    if let Some((widths, padding)) = widths {
        for (column, width) in table.column_iter_mut().zip(widths) {
            let width = width as u16 + 2 * padding;
            column.set_padding((padding, padding));
            column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width)));
        }
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: [&str; 4] = ["link of a node", "collision", "slot corrected", "what is said of it"];

    fn rows() -> Vec<Vec<String>> {
        let row = ["hill to valley (wild)", "37.6", "12.7 us", "about two times as much as before"];
        vec![row.map(str::to_owned).to_vec(); 2]
    }

    /// Words of a text, without the lines between rows.
    fn words(text: &str) -> Vec<&str> {
        text.split_whitespace().filter(|word| !word.contains(['─', '═'])).collect()
    }

    #[test]
    fn a_table_is_never_wider_than_its_terminal_and_breaks_no_word() {
        let rows = rows();
        let wide = fit(&HEAD, &rows, None);
        let known = words(&wide);
        for width in 22..110 {
            let text = fit(&HEAD, &rows, Some(width));
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(width), "{width}\n{text}");
            assert!(words(&text).iter().all(|word| known.contains(word)), "{width}\n{text}");
            assert!(known.iter().all(|word| words(&text).contains(word)), "{width}\n{text}");
        }
        assert_eq!(fit(&HEAD, &rows, Some(200)), wide);
    }

    #[test]
    fn what_does_not_fit_follows_below_with_the_first_column_again() {
        let rows = rows();
        let heads = |width| fit(&HEAD, &rows, Some(width)).matches('═').count() / width;
        assert_eq!([heads(60), heads(30)], [1, 2]);
        assert_eq!(fit(&HEAD, &rows, Some(30)).matches("(wild)").count(), 4);
        assert!(fit(&HEAD[..1], &rows, Some(1)).contains('h'));
    }

    #[test]
    fn columns_stand_closer_before_a_cell_is_broken() {
        let rows = [["call", "10.6 / 45.3", "13.0 / 19.1"].map(str::to_owned).to_vec()];
        let text = fit(&["flow", "delay p50/p95 ms", "jitter p50/p95 ms"], &rows, Some(28));
        assert!(text.contains("call 10.6 / 45.3 13.0 / 19.1"), "{text}");
    }
}
