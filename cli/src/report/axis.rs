//! The axes of charts: the positions of their marks, and the labels.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;

/// Most marks on an axis of numbers.
const MARKS: usize = 11;
/// Decades on an axis of sizes from which on only powers of ten have marks.
const DECADES: usize = 3;
/// Most decimals of a label.
const MOST_DECIMALS: usize = 6;

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Axis {
    /// Numbers, written with as many decimals as their step needs.
    Numbers(Range<f64>),
    /// Whole numbers, with marks only at whole numbers.
    Counts(Range<f64>),
    /// Sizes in bytes, on a logarithmic scale.
    Sizes(Range<f64>),
    /// Names at 0, 1, 2 and so on.
    Names(Vec<String>),
}

impl Axis {
    /// An axis for these numbers, with a little room at either end.
    pub(super) fn around(numbers: impl Iterator<Item = f64>) -> Self {
        let Range { start, end } = span(numbers);
        if end > start {
            let room = (end - start) * 0.04;
            return Self::Numbers(start - room..end + room);
        }
        // What is never negative has no marks there.
        let least = if start < 0.0 { start - 1.0 } else { (start - 1.0).max(0.0) };
        Self::Numbers(least..end + 1.0)
    }

    /// An axis for these whole numbers, with room of half a step at either end.
    pub(super) fn around_counts(counts: impl Iterator<Item = f64>) -> Self {
        let Range { start, end } = span(counts);
        Self::Counts(start - 0.5..end + 0.5)
    }

    /// An axis for these sizes, with a little room at either end.
    pub(super) fn around_sizes(sizes: impl Iterator<Item = f64>) -> Self {
        let Range { start, end } = span(sizes.filter(|size| *size > 0.0));
        let start = start.max(1.0);
        Self::Sizes(start / 1.3..end.max(start) * 1.3)
    }

    fn marks(&self) -> Vec<f64> {
        match self {
            Self::Numbers(range) => marks_of_numbers(range),
            Self::Counts(range) => {
                marks_of_numbers(range).into_iter().filter(|mark| mark.fract() == 0.0).collect()
            }
            Self::Sizes(range) => marks_of_sizes(range),
            Self::Names(names) => (0..names.len()).map(|index| index as f64).collect(),
        }
    }
}

/// The range of these numbers; 0 to 0 if there are none.
fn span(numbers: impl Iterator<Item = f64>) -> Range<f64> {
    let of_both = |range: Option<Range<f64>>, it: f64| {
        let range = range.unwrap_or(it..it);
        Some(range.start.min(it)..range.end.max(it))
    };
    numbers.fold(None, of_both).unwrap_or(0.0..0.0)
}

fn marks_of_numbers(range: &Range<f64>) -> Vec<f64> {
    RangedCoordf64::from(range.clone()).key_points(MARKS)
}

fn marks_of_sizes(range: &Range<f64>) -> Vec<f64> {
    let decades = (0..16).map(|power| 10_f64.powi(power));
    let inside = |size: &f64| range.contains(size);
    let marks: Vec<f64> = decades.clone().filter(inside).collect();
    if marks.len() >= DECADES {
        return marks;
    }
    decades.flat_map(|decade| [1.0, 2.0, 5.0].map(|part| part * decade)).filter(inside).collect()
}

/// The fewest decimals with which these marks are exact, up to `MOST_DECIMALS`.
fn decimals(marks: &[f64]) -> usize {
    let are_enough = |digits: &usize| {
        let scaled = |mark: &f64| mark * 10_f64.powi(*digits as i32);
        marks.iter().map(scaled).all(|mark| (mark - mark.round()).abs() < 1e-6)
    };
    (0..MOST_DECIMALS).find(are_enough).unwrap_or(MOST_DECIMALS)
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let place = |value: f64| if matches!(self, Self::Sizes(_)) { value.log10() } else { value };
        let range = self.range();
        RangedCoordf64::from(place(range.start)..place(range.end)).map(&place(*value), limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.marks()
    }

    fn range(&self) -> Range<f64> {
        match self {
            Self::Numbers(range) | Self::Counts(range) | Self::Sizes(range) => range.clone(),
            Self::Names(names) => -0.5..names.len().max(1) as f64 - 0.5,
        }
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        match self {
            Self::Numbers(_) | Self::Counts(_) => {
                let digits = decimals(&self.marks());
                let unit = 10_f64.powi(digits as i32);
                // Adding 0 turns a negative zero into a positive one.
                format!("{:.digits$}", (value * unit).round() / unit + 0.0)
            }
            Self::Sizes(_) if *value >= 1e6 => format!("{} MB", value / 1e6),
            Self::Sizes(_) if *value >= 1e3 => format!("{} KB", value / 1e3),
            Self::Sizes(_) => format!("{value} B"),
            Self::Names(names) => names.get(value.round() as usize).cloned().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(axis: &Axis) -> Vec<String> {
        axis.marks().iter().map(|mark| axis.format_ext(mark)).collect()
    }

    #[test]
    fn marks_have_as_many_decimals_as_their_step_needs() {
        assert_eq!(written(&Axis::Numbers(-0.01..0.21))[..3], ["0.00", "0.02", "0.04"]);
        assert_eq!(written(&Axis::Numbers(0.0..200.0))[..3], ["0", "20", "40"]);
        let around_nothing = written(&Axis::Numbers(-0.4..0.4));
        assert!(around_nothing.contains(&"0.0".into()), "{around_nothing:?}");
        assert!(!around_nothing.contains(&"-0.0".into()), "{around_nothing:?}");
    }

    #[test]
    fn counts_are_marked_at_whole_numbers_from_the_least_on() {
        let hops = Axis::around_counts([2.0, 5.0].into_iter());
        assert_eq!(written(&hops), ["2", "3", "4", "5"]);
        let ranks = written(&Axis::around_counts([1.0, 30.0].into_iter()));
        assert!(!ranks.contains(&"0".into()) && ranks.contains(&"30".into()), "{ranks:?}");
    }

    #[test]
    fn sizes_are_marked_by_decades_or_within_them() {
        let wide = Axis::around_sizes([1e3, 1e7].into_iter());
        assert_eq!(written(&wide), ["1 KB", "10 KB", "100 KB", "1 MB", "10 MB"]);
        let narrow = Axis::around_sizes([1e3, 8e3].into_iter());
        assert_eq!(written(&narrow), ["1 KB", "2 KB", "5 KB", "10 KB"]);
        let [a, b, c] = [1e3, 1e4, 1e5].map(|size| wide.map(&size, (0, 1_000)));
        assert!((b - a).abs_diff(c - b) <= 1, "each decade is as long: {a} {b} {c}");
        assert!(Axis::around_sizes(std::iter::empty()).range().start > 0.0);
    }

    #[test]
    fn names_stand_at_whole_numbers_and_nothing_else_does() {
        let names = Axis::Names(vec!["TCP".into(), "Hop".into()]);
        assert_eq!(written(&names), ["TCP", "Hop"]);
        assert_eq!(names.range(), -0.5..1.5);
    }
}
