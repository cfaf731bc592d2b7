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
}
