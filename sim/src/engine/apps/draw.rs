//! Random draws from the distributions that applications use.

use farhop_proto::base::{Duration, Rng};

/// A time from an exponential distribution with this mean, in seconds.
pub(super) fn exponential(rng: &mut Rng, mean_s: f64) -> Duration {
    Duration::from_secs_f64(-mean_s * libm::log(1.0 - rng.uniform()))
}

/// A lognormal number, drawn again until it lies in `range`.
pub(super) fn lognormal(
    rng: &mut Rng,
    mu: f64,
    sigma: f64,
    range: std::ops::RangeInclusive<f64>,
) -> f64 {
    loop {
        // Box and Muller.
        let radius = libm::sqrt(-2.0 * libm::log(1.0 - rng.uniform()));
        let normal = radius * libm::cos(std::f64::consts::TAU * rng.uniform());
        let drawn = libm::exp(mu + sigma * normal);
        if range.contains(&drawn) {
            return drawn;
        }
    }
}

/// A Pareto number of at least `least`, clamped to `most`.
pub(super) fn pareto(rng: &mut Rng, shape: f64, least: f64, most: f64) -> f64 {
    (least / libm::pow(1.0 - rng.uniform(), 1.0 / shape)).min(most)
}

#[cfg(test)]
mod tests {
    use farhop_proto::base::Seed;

    use super::*;

    fn mean(draws: u32, mut draw: impl FnMut(&mut Rng) -> f64) -> f64 {
        let mut rng = Seed(5).stream("draws");
        (0..draws).map(|_| draw(&mut rng)).sum::<f64>() / f64::from(draws)
    }

    #[test]
    fn means_are_right() {
        let found = mean(100_000, |rng| exponential(rng, 30.0).as_secs_f64());
        assert!((found / 30.0 - 1.0).abs() < 0.02, "{found}");
        // exp(mu + sigma^2 / 2), nothing cut off.
        let found = mean(100_000, |rng| lognormal(rng, 1.0, 0.5, 0.0..=1e9));
        assert!((found / libm::exp(1.125) - 1.0).abs() < 0.02, "{found}");
        // a k / (a - 1) with a light tail.
        let found = mean(100_000, |rng| pareto(rng, 4.0, 3.0, 1e9));
        assert!((found / 4.0 - 1.0).abs() < 0.02, "{found}");
    }
}
