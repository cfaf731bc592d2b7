//! The chart of a sweep: goodput of all flows against the first key, a line for each combination of
//! the others, with error bars over the seeds.

use plotters::prelude::SeriesLabelPosition;

use super::axis::Axis;
use super::chart::{Area, Drawn, Names, frame, legend, svg};
use super::lines::{self, Line, Mark};
use super::sweep::Point;

/// Units by the suffixes of keys.
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

/// Draws the points of a sweep over these keys.
pub(super) fn draw(title: &str, keys: &[String], points: &[Point]) -> String {
    let axis = axis(points);
    let lines = of(&axis, keys, points);
    let names = Names::above(lines::count_names(&lines), 420);
    svg(names.height, |area| draw_on(area, (title, keys), axis, &lines, &names))
}

/// An axis of numbers if all values of the first key are numbers, else of names.
fn axis(points: &[Point]) -> Axis {
    let numbers: Option<Vec<f64>> =
        points.iter().map(|point| point.numbers.first().copied().flatten()).collect();
    if let Some(numbers) = numbers.filter(|numbers| !numbers.is_empty()) {
        return Axis::around(numbers.into_iter());
    }
    let mut words: Vec<String> = Vec::new();
    for point in points {
        let word = point.values.first().cloned().unwrap_or_default();
        if !words.contains(&word) {
            words.push(word);
        }
    }
    Axis::Names(words)
}

fn place(axis: &Axis, point: &Point) -> f64 {
    let Axis::Names(words) = axis else {
        return point.numbers[0].expect("an axis of numbers");
    };
    let word = point.values.first().map_or("", String::as_str);
    words.iter().position(|other| other == word).unwrap_or(0) as f64
}

/// A line for each combination of the other keys, sorted along the axis, because the values in the
/// file may have any order.
fn of(axis: &Axis, keys: &[String], points: &[Point]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for point in points {
        let values = keys.iter().zip(&point.values).skip(1);
        let values: Vec<String> = values.map(|(key, value)| format!("{key} = {value}")).collect();
        let (name, half) = (values.join(", "), point.total.half_width.unwrap_or(0.0));
        let at = (place(axis, point), point.total.value, half);
        if let Some(line) = lines.iter_mut().find(|line| line.name == name) {
            line.points.push(at);
            continue;
        }
        let joined = !matches!(axis, Axis::Names(_));
        let colour = lines.len();
        lines.push(Line { name, colour, mark: Mark::Dots, joined, points: vec![at] });
    }
    lines.iter_mut().for_each(|line| line.points.sort_by(|a, b| a.0.total_cmp(&b.0)));
    lines
}

/// The label of the axis of a key: its name and unit in words, if its suffix says the unit, and the
/// key itself.
fn words(axis: &Axis, key: &str) -> String {
    let field = key.rsplit('.').next().unwrap_or(key);
    let unit = UNITS.iter().find_map(|(end, unit)| Some((field.strip_suffix(end)?, *unit)));
    let is_loss = field.ends_with("loss") || field.starts_with("loss_");
    let is_number = !matches!(axis, Axis::Names(_));
    match unit.or(is_loss.then_some((field, "0 to 1"))).filter(|_| is_number) {
        Some((name, unit)) => format!("{}, {unit} ({key})", name.replace('_', " ")),
        None => key.to_owned(),
    }
}

fn draw_on(
    area: &Area<'_>,
    (title, keys): (&str, &[String]),
    x: Axis,
    lines: &[Line],
    names: &Names,
) -> Drawn {
    let y = Axis::Numbers(0.0..lines::heights(lines).1.max(0.1) / names.left);
    let x_words = keys.first().map_or_else(String::new, |key| words(&x, key));
    let mut chart = frame(area, title, (x, &x_words), (y, "goodput of all flows, Mb/s"))?;
    lines::draw(&mut chart, lines)?;
    if lines::count_names(lines) > 0 {
        legend(&mut chart, SeriesLabelPosition::UpperRight)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sweep::Mean;

    fn point(values: &[&str]) -> Point {
        Point {
            values: values.iter().map(|value| (*value).to_owned()).collect(),
            numbers: values.iter().map(|value| value.parse().ok()).collect(),
            seeds: 1,
            flows: Vec::new(),
            total: Mean { value: 1.0, half_width: None },
        }
    }

    fn keys() -> [String; 2] {
        ["km".into(), "loss".into()]
    }

    #[test]
    fn lines_go_from_left_to_right_and_are_named_with_their_keys() {
        let points = ["80", "1", "20"].map(|km| point(&[km, "0.1"]));
        let lines = of(&axis(&points), &keys(), &points);
        let places: Vec<f64> = lines[0].points.iter().map(|at| at.0).collect();
        assert_eq!((lines[0].name.as_str(), places), ("loss = 0.1", vec![1.0, 20.0, 80.0]));
    }

    #[test]
    fn more_lines_than_colours_have_other_marks_and_more_than_those_are_counted() {
        let lines = |count: usize| -> Vec<Point> {
            (0..count).map(|loss| point(&["1", &loss.to_string()])).collect()
        };
        let svg = draw("few", &keys(), &lines(9));
        assert!(svg.contains("loss = 8") && !svg.contains("more"), "{svg}");
        assert_eq!(svg.matches("<polygon").count(), 4, "two points and their names");
        let svg = draw("many", &keys(), &lines(16));
        assert!(svg.contains("loss = 13") && !svg.contains("loss = 14"), "{svg}");
        assert!(svg.contains("and 2 more"), "{svg}");
    }

    #[test]
    fn words_stand_side_by_side_and_one_key_needs_no_names() {
        let points = ["plain", "wild"].map(|link| point(&[link]));
        assert_eq!(axis(&points), Axis::Names(vec!["plain".into(), "wild".into()]));
        let lines = of(&axis(&points), &keys()[..1], &points);
        assert_eq!((lines.len(), lines::count_names(&lines), lines[0].joined), (1, 0, false));
    }

    #[test]
    fn an_axis_says_what_its_numbers_are_where_the_key_does() {
        let numbers = Axis::Numbers(0.0..1.0);
        for (key, title) in [
            ("link[0].distance_km", "distance, km (link[0].distance_km)"),
            ("stack.link.slot_least_ms", "slot least, ms (stack.link.slot_least_ms)"),
            ("radio.power_dbm", "power, dBm (radio.power_dbm)"),
            ("link[1].loss", "loss, 0 to 1 (link[1].loss)"),
            ("duration_s", "duration, s (duration_s)"),
            ("stack.link.units", "stack.link.units"),
            ("stack.link", "stack.link"),
        ] {
            assert_eq!(words(&numbers, key), title);
        }
        let names = Axis::Names(vec!["bursts".into()]);
        assert_eq!(words(&names, "link[1].loss"), "link[1].loss");
    }
}
