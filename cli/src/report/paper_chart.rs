//! The figures of a paper: our points with error bars, published ones as crosses and dashed lines.

use farhop_papers::{Figure, Places, Point, Series, Source};
use plotters::prelude::SeriesLabelPosition;

use super::axis::Axis;
use super::chart::{Area, Drawn, Names, frame, legend, svg};
use super::lines::{self, Line, Mark};

/// Draws a figure.
pub(crate) fn draw(figure: &Figure) -> String {
    let lines = of(figure);
    let names = Names::above(lines::count_names(&lines), 460);
    svg(names.height, |area| draw_on(area, figure, &lines, &names))
}

/// The points that can be drawn: those with finite coordinates.
fn points(series: &Series) -> impl Iterator<Item = &Point> + Clone {
    series.points.iter().filter(|point| point.x.is_finite() && point.y.is_finite())
}

/// The colour of each series: one that is not ours has the colour of ours to compare it with.
fn colours(series: &[Series]) -> Vec<usize> {
    let ours = || series.iter().filter(|series| series.source == Source::Ours);
    let mut next = 0;
    let mut alone = ours().count();
    let new = |count: &mut usize| {
        *count += 1;
        *count - 1
    };
    let of = |one: &Series| match one.source {
        Source::Ours => new(&mut next),
        _ => ours().position(|other| other.name == one.curve).unwrap_or_else(|| new(&mut alone)),
    };
    series.iter().map(of).collect()
}

fn of(figure: &Figure) -> Vec<Line> {
    let has_names = matches!(figure.places, Places::Names(_));
    let line = |(series, colour): (&Series, usize)| {
        let (name, mark) = match series.source {
            Source::Ours => (series.name.clone(), Mark::Dots),
            Source::Published => (format!("published: {}", series.name), Mark::Crosses),
            Source::Computed => (format!("computed: {}", series.name), Mark::Crosses),
        };
        let points = points(series).map(|point| (point.x, point.y, point.deviation)).collect();
        Line { name, colour, mark, joined: series.joined && !has_names, points }
    };
    figure.series.iter().zip(colours(&figure.series)).map(line).collect()
}

/// The x axis.
fn axis(figure: &Figure) -> Axis {
    let places = || figure.series.iter().flat_map(points).map(|point| point.x);
    match &figure.places {
        Places::FromZero => Axis::around(places().chain([0.0])),
        Places::Counts => Axis::around_counts(places()),
        Places::Sizes => Axis::around_sizes(places()),
        Places::Names(names) => Axis::Names(names.clone()),
    }
}

fn draw_on(area: &Area<'_>, figure: &Figure, lines: &[Line], names: &Names) -> Drawn {
    let (low, highest) = lines::heights(lines);
    let top = if highest > low { low + (highest - low) / names.left } else { low + 1.0 };
    let (x, y) =
        ((axis(figure), figure.x.0.as_str()), (Axis::Numbers(low..top), figure.y.0.as_str()));
    let mut chart = frame(area, &figure.title, x, y)?;
    lines::draw(&mut chart, lines)?;
    legend(&mut chart, SeriesLabelPosition::UpperRight)
}

#[cfg(test)]
mod tests {
    use plotters::coord::ranged1d::Ranged;

    use super::*;
    use crate::report::chart::COLOURS;

    fn ours(name: &str, points: &[(f64, f64)]) -> Series {
        let points = points.iter().map(|(x, y)| Point { x: *x, y: *y, deviation: 0.1 });
        Series { points: points.collect(), ..Series::ours(name, []) }
    }

    #[test]
    fn published_points_stand_beside_ours_and_no_number_breaks_the_chart() {
        let published = Series::published("curve", [(0.0, 7.6), (200.0, 7.6)]);
        let ours = ours("ours", &[(1.0, 7.4), (2.0, f64::NAN)]);
        let svg = draw(&Figure::new("W-F0", "a figure", "km", "Mb/s", vec![ours, published]));
        assert!(svg.contains("W-F0: a figure") && svg.contains("published: curve"), "{svg}");
        assert!(!svg.contains("NaN"));
        assert!(draw(&Figure::new("f", "nothing", "x", "y", vec![])).contains("nothing"));
    }

    #[test]
    fn many_lines_are_told_apart_by_their_marks() {
        let line = |name: usize| ours(&name.to_string(), &[(1.0, name as f64)]);
        let many = (0..COLOURS.len() + 2).map(line).collect();
        let svg = draw(&Figure::new("f", "many", "x", "y", many));
        assert_eq!(svg.matches("<polygon").count(), 4, "a triangle at the point and in the legend");
    }

    #[test]
    fn what_was_published_has_the_colour_of_its_own_curve() {
        let series = [
            Series::published("B", []),
            Series::published("A outdoors", []).beside("A"),
            Series::published("of neither", []),
            ours("A", &[]),
            ours("B", &[]),
        ];
        assert_eq!(colours(&series), [1, 0, 2, 0, 1]);
    }

    #[test]
    fn names_stand_under_points_that_nothing_joins() {
        let series = || vec![ours("goodput", &[(0.0, 1.0), (1.0, 2.0)])];
        let figure = || Figure::new("f", "two", "protocol", "kb/s", series());
        let svg = draw(&figure().over_names(&["split TCP", "Hop"]));
        assert!(svg.contains("\nsplit TCP\n") && svg.contains("\nHop\n"), "{svg}");
        assert!(of(&figure())[0].joined && !of(&figure().over_names(&["a", "b"]))[0].joined);
    }

    #[test]
    fn an_axis_begins_at_nothing_only_where_that_means_something() {
        let line = || vec![ours("gain", &[(2.0, 1.0), (5.0, 2.0)])];
        let start = |places| {
            let figure = Figure::new("f", "t", "hops", "gain", line()).over(places);
            axis(&figure).range().start
        };
        assert!(start(Places::FromZero) <= 0.0 && start(Places::Counts) > 1.0);
        let sizes = vec![ours("gain", &[(1e3, 1.0), (1e7, 2.0)])];
        let svg = draw(&Figure::new("f", "t", "size", "gain", sizes).over(Places::Sizes));
        assert!(svg.contains("\n1 KB\n") && svg.contains("\n10 MB\n"), "{svg}");
    }
}
