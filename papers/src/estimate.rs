//! A number that was measured several times.

use serde::Serialize;

/// Mean and standard deviation over seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Mean.
    pub mean: f64,
    /// Sample standard deviation; 0 for a single value.
    pub deviation: f64,
    /// Number of values; 1 if nothing is random.
    pub seeds: usize,
}

impl Estimate {
    /// The estimate from values of equal runs.
    ///
    /// Panics without values.
    pub fn of(values: &[f64]) -> Self {
        assert!(!values.is_empty(), "an estimate of nothing");
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = if values.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 };
        Self { mean, deviation, seeds: values.len() }
    }

    /// How many times the mean of some values is that of others of the same seeds; its deviation is
    /// that of the seeds around this ratio.
    ///
    /// Panics without values.
    pub fn ratio(over: &[f64], under: &[f64]) -> Self {
        let [above, below] = [over, under].map(|values| Self::of(values).mean);
        let ratio = above / below;
        let rest: Vec<f64> =
            over.iter().zip(under).map(|(over, under)| (over - ratio * under) / below).collect();
        Self { mean: ratio, ..Self::of(&rest) }
    }

    /// A number that is computed, without deviation.
    pub fn exact(value: f64) -> Self {
        Self { mean: value, deviation: 0.0, seeds: 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deviation_is_that_of_a_sample() {
        let found = Estimate::of(&[1.0, 2.0, 3.0]);
        assert_eq!((found.mean, found.deviation, found.seeds), (2.0, 1.0, 3));
        assert_eq!(Estimate::of(&[7.0]).deviation, 0.0);
    }

    #[test]
    fn a_ratio_is_that_of_the_means_so_a_seed_with_next_to_nothing_does_not_decide_it() {
        let found = Estimate::ratio(&[10.0, 10.0], &[4.9, 0.1]);
        assert!((found.mean - 4.0).abs() < 1e-9, "{found:?}");
        assert!((found.deviation - 2.4 * 4.0 / 2.5 * 2.0_f64.sqrt()).abs() < 1e-9, "{found:?}");
        let even = Estimate::ratio(&[2.0, 4.0, 6.0], &[1.0, 2.0, 3.0]);
        assert_eq!((even.mean, even.deviation, even.seeds), (2.0, 0.0, 3));
    }
}
