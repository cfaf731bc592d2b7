//! Series of points in a chart, with error bars and lines.

use plotters::prelude::*;

use super::chart::{COLOURS, Chart, Drawn};

/// The marks of a series, which tell it from others of its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// Dots and a solid line.
    Dots,
    /// Crosses and a dashed line: values that others measured.
    Crosses,
}

/// A series.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// Its name in the legend; empty if it needs none.
    pub(super) name: String,
    /// Index of its colour. Beyond the last colour they repeat, with other marks.
    pub(super) colour: usize,
    pub(super) mark: Mark,
    /// Whether a line joins its points.
    pub(super) joined: bool,
    /// x, y and half of the error bar of each point.
    pub(super) points: Vec<(f64, f64, f64)>,
}

impl Line {
    fn has_name(&self) -> bool {
        !self.name.is_empty() && self.colour < 2 * COLOURS.len()
    }
}

/// Radius of a point, in pixels.
const DOT: i32 = 3;
/// Half the width of the caps of an error bar, in pixels.
const CAP: i32 = 4;

/// The number of lines of these series in the legend, with one for all that are left out.
pub(super) fn count_names(lines: &[Line]) -> usize {
    let named = lines.iter().filter(|line| line.has_name()).count();
    named + usize::from(count_left_out(lines) > 0)
}

/// The number of series left out of the legend, because their colour and marks are not unique.
fn count_left_out(lines: &[Line]) -> usize {
    lines.iter().filter(|line| !line.name.is_empty() && !line.has_name()).count()
}

/// The range of the y axis, with error bars; it includes 0.
///
/// If no measured value is negative the quantity cannot be, and error bars end at 0.
pub(super) fn heights(lines: &[Line]) -> (f64, f64) {
    let floor = floor(lines);
    let all = || lines.iter().flat_map(|line| &line.points);
    let low = all().map(|(_, y, half)| (y - half).max(floor)).fold(0.0, f64::min);
    (low, all().map(|(_, y, half)| y + half).fold(0.0, f64::max))
}

fn floor(lines: &[Line]) -> f64 {
    let is_below = |point: &(f64, f64, f64)| point.1 < 0.0;
    let any = lines.iter().flat_map(|line| &line.points).any(is_below);
    if any { f64::NEG_INFINITY } else { 0.0 }
}

/// Draws series, and hands their names to the legend.
pub(super) fn draw(chart: &mut Chart<'_, '_>, lines: &[Line]) -> Drawn {
    let floor = floor(lines);
    for line in lines {
        draw_bars(chart, line, floor)?;
        draw_joint(chart, line)?;
        draw_marks(chart, line)?;
    }
    let left_out = count_left_out(lines);
    if left_out > 0 {
        let nothing = LineSeries::new([], TRANSPARENT);
        chart.draw_series(nothing)?.label(format!("and {left_out} more"));
    }
    Ok(())
}

fn colour(line: &Line) -> RGBColor {
    COLOURS[line.colour % COLOURS.len()]
}

/// Whether the colour of a series repeats that of an earlier one.
fn is_again(line: &Line) -> bool {
    line.colour >= COLOURS.len()
}

fn draw_bars(chart: &mut Chart<'_, '_>, line: &Line, floor: f64) -> Drawn {
    let stroke = colour(line).stroke_width(1);
    let height = |x, y| chart.backend_coord(&(x, y)).1;
    // An error bar smaller than the point would only make the point look larger.
    let is_seen = |(x, y, half): &(f64, f64, f64)| height(*x, *y) - height(*x, y + half) > DOT;
    let seen: Vec<(f64, f64, f64)> = line.points.iter().copied().filter(is_seen).collect();
    let stem = |(x, y, half): &(f64, f64, f64)| {
        PathElement::new([(*x, (y - half).max(floor)), (*x, y + half)], stroke)
    };
    chart.draw_series(seen.iter().map(stem))?;
    let ends = seen.iter().flat_map(|(x, y, half)| [(*x, (y - half).max(floor)), (*x, y + half)]);
    let cap = |end| EmptyElement::at(end) + PathElement::new([(-CAP, 0), (CAP, 0)], stroke);
    chart.draw_series(ends.map(cap))?;
    Ok(())
}

fn draw_joint(chart: &mut Chart<'_, '_>, line: &Line) -> Drawn {
    let path = line.points.iter().filter(|_| line.joined).map(|(x, y, _)| (*x, *y));
    let colour = colour(line);
    match line.mark {
        Mark::Crosses => {
            chart.draw_series(DashedLineSeries::new(path, 6, 5, colour.stroke_width(1)))?
        }
        Mark::Dots if is_again(line) => {
            chart.draw_series(DashedLineSeries::new(path, 9, 4, colour.stroke_width(2)))?
        }
        Mark::Dots => chart.draw_series(LineSeries::new(path, colour.stroke_width(2)))?,
    };
    Ok(())
}

fn draw_marks(chart: &mut Chart<'_, '_>, line: &Line) -> Drawn {
    let places = line.points.iter().map(|(x, y, _)| (*x, *y));
    let colour = colour(line);
    let named = line.has_name();
    match line.mark {
        Mark::Crosses => {
            let mark = move |at| Cross::new(at, 5, colour.stroke_width(2));
            let drawn = chart.draw_series(places.map(mark))?;
            if named {
                let mark = move |(x, y)| Cross::new((x + 9, y), 5, colour.stroke_width(2));
                drawn.label(&line.name).legend(mark);
            }
        }
        Mark::Dots if is_again(line) => {
            let mark = move |at| TriangleMarker::new(at, 6, colour.filled());
            let drawn = chart.draw_series(places.map(mark))?;
            if named {
                let mark = move |(x, y)| TriangleMarker::new((x + 9, y), 6, colour.filled());
                drawn.label(&line.name).legend(mark);
            }
        }
        Mark::Dots => {
            let mark = move |at| Circle::new(at, DOT, colour.filled());
            let drawn = chart.draw_series(places.map(mark))?;
            if named {
                let mark = move |(x, y)| Circle::new((x + 9, y), DOT + 1, colour.filled());
                drawn.label(&line.name).legend(mark);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(colour: usize, points: &[(f64, f64, f64)]) -> Line {
        let points = points.to_vec();
        Line { name: colour.to_string(), colour, mark: Mark::Dots, joined: true, points }
    }

    #[test]
    fn error_bars_go_below_nothing_only_where_something_was_measured_there() {
        assert_eq!(heights(&[line(0, &[(1.0, 1.0, 2.0), (2.0, 5.0, 0.0)])]), (0.0, 5.0));
        assert_eq!(heights(&[line(0, &[(1.0, 1.0, 2.0), (2.0, -0.5, 0.0)])]), (-1.0, 3.0));
        assert_eq!(heights(&[]), (0.0, 0.0));
    }

    #[test]
    fn names_are_as_many_as_there_are_marks_to_tell_lines_apart_and_one_for_the_rest() {
        let lines = |count: usize| -> Vec<Line> { (0..count).map(|i| line(i, &[])).collect() };
        let counts = [3, 14, 15, 30].map(|count| count_names(&lines(count)));
        assert_eq!(counts, [3, 14, 15, 15]);
    }
}
