//! A figure of a paper: our lines with error bars, what was published as crosses and broken lines.

use farhop_papers::{Figure, Point, Series};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use super::chart::{Area, COLOURS, Drawn, FONT, INK, Names, legend, style, svg};

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// Draws a figure.
pub(crate) fn draw(figure: &Figure) -> String {
    let names = Names::above(figure.series.len(), 460);
    svg(names.height, |area| draw_on(area, figure, &names))
}

/// What is drawn of the points: a number that is none has no place.
fn points(series: &Series) -> impl Iterator<Item = &Point> + Clone {
    series.points.iter().filter(|point| point.x.is_finite() && point.y.is_finite())
}

fn draw_on(area: &Area<'_>, figure: &Figure, names: &Names) -> Drawn {
    let all = || figure.series.iter().flat_map(points);
    let left = all().map(|point| point.x).fold(f64::INFINITY, f64::min).min(0.0);
    let right = all().map(|point| point.x).fold(left, f64::max);
    let margin = if right > left { (right - left) * 0.03 } else { 1.0 };
    let highest = all().map(|point| point.y + point.deviation).fold(0.0, f64::max);
    let top = if highest > 0.0 { highest / names.left } else { 1.0 };
    let low = all().map(|point| point.y - point.deviation).fold(0.0, f64::min);
    let mut chart = ChartBuilder::on(area)
        .margin(14)
        .caption(&figure.title, (FONT, 17).into_font().color(&INK))
        .x_label_area_size(46)
        .y_label_area_size(60)
        .build_cartesian_2d(left - margin..right + margin, low..top)?;
    let mut mesh = chart.configure_mesh();
    style(&mut mesh);
    mesh.x_desc(&figure.x.0).y_desc(&figure.y.0).draw()?;
    for (index, series) in figure.series.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        if series.published {
            draw_published(&mut chart, series, colour)?;
        } else {
            draw_ours(&mut chart, series, (colour, index >= COLOURS.len()))?;
        }
    }
    legend(&mut chart, SeriesLabelPosition::UpperRight)
}

/// A line in a colour; `is_again` if that was there before, so that its points and dashes tell it
/// from the other.
fn draw_ours(
    chart: &mut Chart<'_, '_>,
    series: &Series,
    (colour, is_again): (RGBColor, bool),
) -> Drawn {
    let bars = points(series).filter(|point| point.deviation > 0.0).map(|point| {
        let (low, high) = (point.y - point.deviation, point.y + point.deviation);
        ErrorBar::new_vertical(point.x, low, point.y, high, colour.filled(), 9)
    });
    chart.draw_series(bars)?;
    let line = points(series).map(|point| (point.x, point.y));
    let stroke = colour.stroke_width(2);
    if is_again {
        let marks = line.clone().map(|at| TriangleMarker::new(at, 6, colour.filled()));
        chart.draw_series(marks)?;
        chart
            .draw_series(DashedLineSeries::new(line, 9, 4, stroke))?
            .label(&series.name)
            .legend(move |(x, y)| TriangleMarker::new((x + 9, y), 6, colour.filled()));
    } else {
        chart.draw_series(line.clone().map(|at| Circle::new(at, 3, colour.filled())))?;
        chart
            .draw_series(LineSeries::new(line, stroke))?
            .label(&series.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], stroke));
    }
    Ok(())
}

fn draw_published(chart: &mut Chart<'_, '_>, series: &Series, colour: RGBColor) -> Drawn {
    let line = points(series).map(|point| (point.x, point.y));
    chart.draw_series(DashedLineSeries::new(line, 6, 5, colour.stroke_width(1)))?;
    chart
        .draw_series(points(series).map(|at| Cross::new((at.x, at.y), 5, colour.stroke_width(2))))?
        .label(format!("published: {}", series.name))
        .legend(move |(x, y)| Cross::new((x + 9, y), 5, colour.stroke_width(2)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_points_stand_beside_ours_and_no_number_breaks_the_chart() {
        let published = Series::published("curve", [(0.0, 7.6), (200.0, 7.6)]);
        let points = vec![
            Point { x: 1.0, y: 7.4, deviation: 0.1 },
            Point { x: 2.0, y: f64::NAN, deviation: 0.0 },
        ];
        let ours = Series { name: "ours".into(), published: false, points };
        let svg = draw(&Figure::new("f", "a figure", "km", "Mb/s", vec![ours, published]));
        assert!(svg.contains("a figure") && svg.contains("published: curve"), "{svg}");
        assert!(!svg.contains("NaN"));
        let line = |name: usize| {
            let points = vec![Point { x: 1.0, y: name as f64, deviation: 0.0 }];
            Series { name: name.to_string(), published: false, points }
        };
        let many = (0..COLOURS.len() + 2).map(line).collect();
        let svg = draw(&Figure::new("f", "many", "x", "y", many));
        assert_eq!(svg.matches("<polygon").count(), 4, "a triangle at the point and in the legend");
        assert!(draw(&Figure::new("f", "nothing", "x", "y", vec![])).contains("nothing"));
    }
}
