//! Curves with estimates over seeds, and numbers that describe them.

use crate::{Estimate, Findings, Results, Series};

/// A curve: places along the x axis, and what was measured there.
pub(crate) type Curve = Vec<(f64, Estimate)>;

/// Measures `number` at each place.
pub(crate) fn curve(at: &[f64], number: impl Fn(f64) -> Estimate) -> Curve {
    at.iter().map(|x| (*x, number(*x))).collect()
}

/// The total goodput over places, each of which has a case with the name `key` gives.
pub(crate) fn totals(results: &Results, at: &[f64], key: impl Fn(f64) -> String) -> Curve {
    curve(at, |x| results.total(&key(x)))
}

/// The largest of some numbers; NaN if one of them is NaN, or there are none.
pub(crate) fn largest(numbers: impl IntoIterator<Item = f64>) -> f64 {
    let larger = |a: f64, b: f64| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) };
    numbers.into_iter().reduce(larger).unwrap_or(f64::NAN)
}

/// The largest step up of a curve; negative if it falls everywhere, NaN if a point is NaN.
pub(crate) fn largest_rise(curve: &[(f64, Estimate)]) -> Estimate {
    let rise = |pair: &[(f64, Estimate)]| pair[1].1.mean - pair[0].1.mean;
    Estimate::exact(largest(curve.windows(2).map(rise)))
}

/// The largest step down of a curve; negative if it rises everywhere, NaN if a point is NaN.
pub(crate) fn largest_fall(curve: &[(f64, Estimate)]) -> Estimate {
    let fall = |pair: &[(f64, Estimate)]| pair[0].1.mean - pair[1].1.mean;
    Estimate::exact(largest(curve.windows(2).map(fall)))
}

/// The lowest point of a curve; one that is NaN, if there is any.
pub(crate) fn lowest(curve: &[(f64, Estimate)]) -> Estimate {
    farthest(curve, |a, b| a <= b)
}

/// The highest point of a curve; one that is NaN, if there is any.
pub(crate) fn highest(curve: &[(f64, Estimate)]) -> Estimate {
    farthest(curve, |a, b| a >= b)
}

fn farthest(curve: &[(f64, Estimate)], is_farther: fn(f64, f64) -> bool) -> Estimate {
    let points = curve.iter().map(|point| point.1);
    let farther = |a: Estimate, b: Estimate| {
        if a.mean.is_nan() || is_farther(a.mean, b.mean) { a } else { b }
    };
    points.reduce(farther).expect("a curve has points")
}

/// Where a curve first falls below another, interpolated linearly between two points; NaN if it
/// never does.
pub(crate) fn crossing(falling: &[(f64, Estimate)], other: &[(f64, Estimate)]) -> Estimate {
    let above = |index: usize| falling[index].1.mean - other[index].1.mean;
    let Some(after) = (1..falling.len()).find(|i| above(*i) <= 0.0 && above(i - 1) > 0.0) else {
        let is_above = (0..falling.len()).all(|index| above(index) > 0.0);
        return Estimate::exact(if is_above { f64::INFINITY } else { f64::NAN });
    };
    let (left, right) = (falling[after - 1].0, falling[after].0);
    let part = above(after - 1) / (above(after - 1) - above(after));
    Estimate::exact(left + (right - left) * part)
}

impl Findings {
    /// Adds a measurement for the row with this key.
    pub(crate) fn add(&mut self, key: impl Into<String>, ours: Estimate) {
        self.measured.push((key.into(), ours));
    }
}

/// Converts the x axis from fractions to percent, for drawing.
pub(crate) fn in_percent(curve: &[(f64, Estimate)]) -> Curve {
    curve.iter().map(|(fraction, at)| (fraction * 100.0, *at)).collect()
}

/// Our curve as a series of a figure.
pub(crate) fn ours(name: impl Into<String>, curve: &[(f64, Estimate)]) -> Series {
    Series::ours(name, curve.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(values: &[f64]) -> Curve {
        values.iter().enumerate().map(|(x, y)| (x as f64 * 10.0, Estimate::exact(*y))).collect()
    }

    #[test]
    fn steps_are_between_neighbours() {
        let curve = line(&[5.0, 3.0, 3.5, 1.0]);
        assert_eq!(largest_rise(&curve).mean, 0.5);
        assert_eq!(largest_fall(&curve).mean, 2.5);
        assert_eq!((lowest(&curve).mean, highest(&curve).mean), (1.0, 5.0));
    }

    #[test]
    fn what_was_not_measured_is_not_left_out() {
        for place in 0..3 {
            let mut values = [5.0, 3.0, 1.0];
            values[place] = f64::NAN;
            let curve = line(&values);
            let found = [largest_rise, largest_fall, lowest, highest].map(|of| of(&curve).mean);
            assert!(found.iter().all(|number| number.is_nan()), "{place}: {found:?}");
        }
        assert!(largest([]).is_nan());
    }

    #[test]
    fn fractions_are_drawn_as_percents() {
        let curve = in_percent(&[(0.05, Estimate::exact(3.0))]);
        assert_eq!((curve[0].0, curve[0].1.mean), (5.0, 3.0));
    }

    #[test]
    fn two_lines_cross_where_they_are_equal() {
        assert_eq!(crossing(&line(&[4.0, 2.0, 0.0]), &line(&[3.0; 3])).mean, 5.0);
        assert_eq!(crossing(&line(&[4.0, 3.5]), &line(&[3.0; 2])).mean, f64::INFINITY);
        assert!(crossing(&line(&[2.0, 2.5]), &line(&[3.0; 2])).mean.is_nan());
    }
}
