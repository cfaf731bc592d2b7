//! Tables for a terminal: at full width if they fit, else narrower with breaks between words, else
//! in several parts.

use std::io::IsTerminal as _;
use std::ops::Range;

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width};

/// Cells up to this many columns are not broken between words if there is room.
const WHOLE: usize = 24;

/// Assumed width of a terminal that does not report its own, in columns.
const UNKNOWN: usize = 80;

/// A table. Its first column, and columns with sentences, are text, the others right-aligned
/// numbers. In a file it has its full width.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    fit(head, rows, width())
}

/// A text, wrapped between words to the width of the terminal; one line in a file.
pub(crate) fn wrapped(text: &str) -> String {
    width().map_or_else(|| text.to_owned(), |width| break_lines(text, width))
}

/// The width of the terminal at standard output, or `None` if it is no terminal.
fn width() -> Option<usize> {
    std::io::stdout().is_terminal().then(|| known(Table::new().width()))
}

/// The width of a terminal, given the one that it reports.
fn known(said: Option<u16>) -> usize {
    said.map(usize::from).filter(|said| *said > 0).unwrap_or(UNKNOWN)
}

fn break_lines(text: &str, width: usize) -> String {
    let (mut out, mut taken) = (String::new(), 0);
    for word in text.split(' ') {
        let length = word.chars().count();
        let fits = taken + 1 + length <= width;
        if !out.is_empty() {
            out.push(if fits { ' ' } else { '\n' });
        }
        taken = if fits && !out.is_empty() { taken + 1 + length } else { length };
        out += word;
    }
    out
}

fn fit(head: &[&str], rows: &[Vec<String>], width: Option<usize>) -> String {
    let all: Vec<usize> = (0..head.len()).collect();
    let columns: Vec<Column> = all.iter().map(|at| Column::measure(head, rows, *at)).collect();
    let draw = |shown: &[usize], widths| {
        let is_text: Vec<bool> = shown.iter().map(|at| columns[*at].is_text).collect();
        draw(head, rows, shown, &is_text, widths)
    };
    let Some(width) = width else { return draw(&all, None) };
    let mut parts = Vec::new();
    let mut next = 1;
    while parts.is_empty() || next < head.len() {
        let shown = part(&columns, next, width);
        next = shown.end;
        // Each part repeats the first column, which says whose numbers these are.
        let shown: Vec<usize> = (0..1.min(head.len())).chain(shown).collect();
        let beside: Vec<&Column> = shown.iter().map(|at| &columns[*at]).collect();
        parts.push(draw(&shown, Some(share(&beside, width))));
    }
    parts.join("\n")
}

/// Possible widths of a column, in columns of the terminal.
struct Column {
    /// Enough that no word is broken.
    words: usize,
    /// Also that no cell is broken, except sentences.
    cells: usize,
    /// Also that nothing is broken.
    all: usize,
    /// Whether it holds text, not numbers.
    is_text: bool,
}

impl Column {
    fn measure(head: &[&str], rows: &[Vec<String>], at: usize) -> Self {
        let length = |text: &str| text.chars().count();
        let word = |text: &str| text.split_whitespace().map(length).max().unwrap_or(0);
        let cells = || rows.iter().filter_map(|row| row.get(at)).map(String::as_str);
        let most = |of: &dyn Fn(&str) -> usize| cells().map(of).max().unwrap_or(0);
        let words = word(head[at]).max(most(&word)).max(1);
        let whole = |text: &str| Some(length(text)).filter(|length| *length <= WHOLE).unwrap_or(0);
        let longest = most(&length);
        Self {
            words,
            cells: words.max(most(&whole)),
            all: length(head[at]).max(longest),
            is_text: at == 0 || longest > WHOLE,
        }
    }
}

/// The columns from `next` on that fit beside the first; always at least one.
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

/// The widths of adjacent columns, and the padding on both sides of each, besides the one space
/// between them.
type Widths = (Vec<usize>, u16);

/// Distributes a width over columns: each gets its widest word; then, in order, its widest cell if
/// that fits; the rest goes to the columns with the longest texts.
fn share(columns: &[&Column], width: usize) -> Widths {
    let mut widths: Vec<usize> = columns.iter().map(|column| column.words).collect();
    let (count, cells) = (widths.len(), columns.iter().map(|column| column.cells).sum::<usize>());
    // Without padding rather than with broken cells.
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

fn draw(
    head: &[&str],
    rows: &[Vec<String>],
    shown: &[usize],
    is_text: &[bool],
    widths: Option<Widths>,
) -> String {
    let mut table = Table::new();
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.load_style(UTF8_HORIZONTAL_ONLY).set_header(shown.iter().map(|at| head[*at]));
    for row in rows {
        table.add_row(shown.iter().map(|at| &row[*at]));
    }
    for (column, is_text) in table.column_iter_mut().zip(is_text) {
        if !is_text {
            column.set_cell_alignment(CellAlignment::Right);
        }
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

    /// The words of a text, without the lines between rows.
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

    #[test]
    fn a_terminal_that_says_nothing_has_80_columns() {
        assert_eq!([None, Some(0), Some(120)].map(known), [80, 80, 120]);
    }

    #[test]
    fn sentences_begin_at_the_left_and_numbers_end_at_the_right() {
        let row = ["a", "CSMA on one channel, one way, Mb/s", "1.5"].map(str::to_owned);
        let text = fit(&["id", "what", "ours"], &[row.to_vec()], Some(34));
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        assert_eq!(lines[3], " a    CSMA on one channel,    1.5", "{text}");
        assert_eq!(lines[4], "      one way, Mb/s", "{text}");
    }

    #[test]
    fn a_long_line_is_broken_between_its_words() {
        assert_eq!(break_lines("as one way: the air is busy", 11), "as one way:\nthe air is\nbusy");
        assert_eq!(break_lines("unbreakable word", 4), "unbreakable\nword");
        assert_eq!(break_lines("", 4), "");
    }
}
