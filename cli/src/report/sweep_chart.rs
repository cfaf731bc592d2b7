//! The chart of a sweep: goodput of all flows against the first key, a line for each combination of
//! the others, with error bars over the seeds.

use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use super::chart::{Area, COLOURS, Drawn, FONT, INK, Names, legend, style, svg};
use super::sweep::Point;

/// What the ends of keys say of their units.
const UNITS: [(&str, &str); 15] = [
    ("_bytes", "bytes"),
    ("_blocks", "blocks"),
    ("_db", "dB"),
    ("_dbi", "dBi"),
    ("_dbm", "dBm"),
    ("_hours", "hours"),
    ("_km", "km"),
    ("_m", "m"),
    ("_mbps", "Mb/s"),
    ("_mhz", "MHz"),
    ("_ms", "ms"),
    ("_packets", "packets"),
    ("_ppm", "ppm"),
    ("_s", "s"),
    ("_us", "µs"),
];

/// A line of the chart: its name, and for each point x, mean and half width of the error bar.
type Series = (String, Vec<(f64, f64, f64)>);

/// Draws the points of a sweep over these keys.
pub(super) fn draw(title: &str, keys: &[String], points: &[Point]) -> String {
    let axis = Axis::build(points);
    let series = series(&axis, points);
    let is_named = series.iter().any(|(name, _)| !name.is_empty());
    let count = if is_named { series.len().min(COLOURS.len()) } else { 0 };
    let names = Names::above(count, 420);
    svg(names.height, |area| {
        let highest = series.iter().flat_map(|(_, line)| line).map(|(_, mean, half)| mean + half);
        let top = highest.fold(0.1, f64::max) / names.left;
        draw_on(area, (title, keys), &axis, &series, (top, is_named))
    })
}

/// Where points stand on the axis: at their numbers, or side by side with their words.
struct Axis {
    words: Option<Vec<String>>,
    range: std::ops::Range<f64>,
}

impl Axis {
    fn build(points: &[Point]) -> Self {
        let numbers: Option<Vec<f64>> =
            points.iter().map(|point| point.numbers.first().copied().flatten()).collect();
        if let Some(numbers) = numbers.filter(|numbers| !numbers.is_empty()) {
            let low = numbers.iter().copied().fold(f64::INFINITY, f64::min);
            let high = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let margin = if high > low { (high - low) * 0.04 } else { 1.0 };
            return Self { words: None, range: low - margin..high + margin };
        }
        let mut words: Vec<String> = Vec::new();
        for point in points {
            let word = point.values.first().cloned().unwrap_or_default();
            if !words.contains(&word) {
                words.push(word);
            }
        }
        let range = -0.5..words.len() as f64 - 0.5;
        Self { words: Some(words), range }
    }

    fn place(&self, point: &Point) -> f64 {
        match &self.words {
            None => point.numbers[0].expect("an axis of numbers"),
            Some(words) => {
                let word = point.values.first().map_or("", String::as_str);
                words.iter().position(|other| other == word).unwrap_or(0) as f64
            }
        }
    }

    /// What stands below the axis of a key: what its numbers are, in words, if it says so itself,
    /// and where it is in the scenario.
    fn title(&self, key: &str) -> String {
        let field = key.rsplit('.').next().unwrap_or(key);
        let unit = UNITS.iter().find_map(|(end, unit)| Some((field.strip_suffix(end)?, *unit)));
        let is_loss = field.ends_with("loss") || field.starts_with("loss_");
        match unit.or(is_loss.then_some((field, "0 to 1"))).filter(|_| self.words.is_none()) {
            Some((name, unit)) => format!("{}, {unit} ({key})", name.replace('_', " ")),
            None => key.to_owned(),
        }
    }

    fn label(&self, at: f64) -> String {
        match &self.words {
            None => {
                let text = format!("{at:.3}");
                text.trim_end_matches('0').trim_end_matches('.').to_owned()
            }
            Some(words) if (at - at.round()).abs() < 1e-6 && at > -0.5 => {
                words.get(at.round() as usize).cloned().unwrap_or_default()
            }
            Some(_) => String::new(),
        }
    }
}

fn series(axis: &Axis, points: &[Point]) -> Vec<Series> {
    let mut series: Vec<Series> = Vec::new();
    for point in points {
        let name = point.values.get(1..).unwrap_or_default().join(", ");
        let half = point.total.half_width.unwrap_or(0.0);
        let at = (axis.place(point), point.total.value, half);
        match series.iter_mut().find(|(other, _)| *other == name) {
            Some((_, line)) => line.push(at),
            None => series.push((name, vec![at])),
        }
    }
    series
}

fn draw_on(
    area: &Area<'_>,
    (title, keys): (&str, &[String]),
    axis: &Axis,
    series: &[Series],
    (top, is_named): (f64, bool),
) -> Drawn {
    let mut chart = ChartBuilder::on(area)
        .margin(14)
        .caption(title, (FONT, 17).into_font().color(&INK))
        .x_label_area_size(46)
        .y_label_area_size(56)
        .build_cartesian_2d(axis.range.clone(), 0.0..top)?;
    let label = |at: &f64| axis.label(*at);
    let mut mesh = chart.configure_mesh();
    style(&mut mesh);
    mesh.x_desc(keys.first().map_or_else(String::new, |key| axis.title(key)))
        .x_label_formatter(&label)
        .y_desc("goodput of all flows, Mb/s");
    if let Some(words) = &axis.words {
        mesh.x_labels(2 * words.len() + 1);
    }
    mesh.draw()?;
    draw_series(&mut chart, axis, series, is_named)?;
    if is_named {
        legend(&mut chart, SeriesLabelPosition::UpperRight)?;
    }
    Ok(())
}

/// The chart while it is drawn.
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

fn draw_series(chart: &mut Chart<'_, '_>, axis: &Axis, series: &[Series], is_named: bool) -> Drawn {
    for (index, (name, line)) in series.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let bars = line.iter().filter(|(_, _, half)| *half > 0.0).map(|(x, mean, half)| {
            ErrorBar::new_vertical(*x, mean - half, *mean, mean + half, colour.filled(), 9)
        });
        chart.draw_series(bars)?;
        let dots = line.iter().map(|(x, mean, _)| Circle::new((*x, *mean), 3, colour.filled()));
        chart.draw_series(dots)?;
        let path: Vec<(f64, f64)> = if axis.words.is_some() {
            vec![]
        } else {
            line.iter().map(|at| (at.0, at.1)).collect()
        };
        let drawn = chart.draw_series(LineSeries::new(path, colour.stroke_width(2)))?;
        if is_named && index < COLOURS.len() {
            drawn.label(name).legend(move |(x, y)| Circle::new((x + 9, y), 4, colour.filled()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_says_what_its_numbers_are_where_the_key_does() {
        let axis = |words| Axis { words, range: 0.0..1.0 };
        for (key, title) in [
            ("link[0].distance_km", "distance, km (link[0].distance_km)"),
            ("stack.link.slot_least_ms", "slot least, ms (stack.link.slot_least_ms)"),
            ("radio.power_dbm", "power, dBm (radio.power_dbm)"),
            ("link[1].loss", "loss, 0 to 1 (link[1].loss)"),
            ("duration_s", "duration, s (duration_s)"),
            ("stack.link.units", "stack.link.units"),
            ("stack.link", "stack.link"),
        ] {
            assert_eq!(axis(None).title(key), title);
        }
        assert_eq!(axis(Some(vec!["bursts".into()])).title("link[1].loss"), "link[1].loss");
    }
}
