//! Estimates how many units are lost, and derives the parity from it (`loss-tolerant.md` 4.1 and
//! 4.2).

use super::config::{Rfec, Scheme, Settings, Sigma};
use crate::base::Duration;
use crate::link::share;

/// Weight of a packet in the estimate of LL-ARQ, which only displays it.
const ALPHA: f64 = 0.005;
/// At any loss, at least one unit in twenty is assumed to arrive.
const LEAST_SHARE: f64 = 0.05;

/// Moving averages of the fraction of units in a first burst that are lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Estimate {
    alpha: f64,
    sigma: Sigma,
    rfec: Rfec,
    units: f64,
    mean: f64,
    variance: f64,
    samples: u64,
    /// Units of all samples, and how many of these were lost.
    sent: u64,
    lost: u64,
}

impl Estimate {
    pub(super) fn new(settings: &Settings) -> Self {
        let units = f64::from(settings.units);
        let (alpha, sigma, rfec, mean) = match settings.scheme {
            Scheme::Parity { alpha, sigma, rfec, initial_loss } => {
                (alpha, sigma, rfec, initial_loss)
            }
            Scheme::Repeat(_) => (ALPHA, Sigma::Ewma, Rfec::MuSigma, 0.0),
        };
        let variance = mean * (1.0 - mean) / units;
        Self { alpha, sigma, rfec, units, mean, variance, samples: 0, sent: 0, lost: 0 }
    }

    /// Adds a sample: `came` of the `sent` units of a first burst arrived.
    pub(super) fn on_sample(&mut self, came: u8, sent: usize) {
        self.sent += sent as u64;
        self.lost += (sent as u64).saturating_sub(came.into());
        self.samples += 1;
        // The first samples all have the same weight, and the initial estimate counts as one of
        // them: with the weight `alpha` alone, a connection would fail before there is an estimate
        // good enough to open it.
        let weight = self.alpha.max(1.0 / (self.samples + 1) as f64);
        let lost = 1.0 - (f64::from(came) / sent as f64).min(1.0);
        let distance = lost - self.mean;
        self.mean += weight * distance;
        self.variance += weight * (distance * distance - self.variance);
    }

    pub(super) fn mean(&self) -> f64 {
        self.mean
    }

    /// Loss of units over all first bursts so far.
    pub(super) fn loss_so_far(&self) -> Option<f64> {
        share(self.lost, self.sent)
    }

    fn sigma(&self) -> f64 {
        let variance = match self.sigma {
            Sigma::Ewma => self.variance,
            Sigma::Binomial => self.mean * (1.0 - self.mean) / self.units,
        };
        variance.max(0.0).sqrt()
    }

    /// Parity units in a first burst; at least one unit is data.
    pub(super) fn parity(&self) -> u8 {
        let parity = (self.units * (self.mean + self.sigma()) + 0.5).floor();
        parity.min(self.units - 1.0) as u8
    }

    /// Units to send when a report says that `needs` are missing of a block that had `parity` at
    /// first.
    pub(super) fn repair(&self, needs: u8, parity: u8) -> u8 {
        let lost = match self.rfec {
            Rfec::MuSigma => self.mean + self.sigma(),
            Rfec::Mu => self.mean,
        };
        let share = (1.0 - lost).max(LEAST_SHARE);
        let units = (f64::from(needs) / share).ceil() + f64::from(parity);
        units.min(u8::MAX.into()) as u8
    }
}

/// How long feedback takes after the end of a burst: the mean and the mean deviation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Patience(Option<(Duration, Duration)>);

/// Assumed before anything was measured.
const FIRST: Duration = Duration::from_millis(200);
/// Limit of the doubled time.
const LONGEST: Duration = Duration::from_millis(500);
/// Added to what follows from the measurements.
const MARGIN: Duration = Duration::from_millis(1);

impl Patience {
    pub(super) fn on_sample(&mut self, took: Duration) {
        self.0 = Some(match self.0 {
            None => (took, took / 2),
            Some((mean, spread)) => {
                let distance =
                    if took > mean { took.saturating_sub(mean) } else { mean.saturating_sub(took) };
                ((mean * 7 + took) / 8, (spread * 3 + distance) / 4)
            }
        });
    }

    /// How long to wait for feedback before asking for it, after `asked` probes without an answer.
    pub(super) fn time(&self, asked: u32) -> Duration {
        let (mean, spread) = self.0.unwrap_or((FIRST, Duration::ZERO));
        let once = mean + (mean / 4).max(spread * 4) + MARGIN;
        (once * (1 << asked.min(10))).min(LONGEST).max(once)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Phy, PhyKind, RadioSpec, Seed};
    use crate::link::harq::HarqConfig;

    fn wire() -> RadioSpec {
        RadioSpec::of(Phy { kind: PhyKind::Wire, ..Phy::default() })
    }

    fn settled(sigma: Sigma, p: f64) -> Estimate {
        let config = HarqConfig { sigma, ..HarqConfig::default() };
        let mut estimate = Estimate::new(&config.over(&wire()));
        let mut rng = Seed(5).stream("losses");
        for _ in 0..3_000 {
            let came = (0..20).filter(|_| !rng.chance(p)).count();
            estimate.on_sample(came as u8, 20);
        }
        estimate
    }

    #[test]
    fn parity_is_the_expected_loss_and_a_standard_deviation() {
        for sigma in [Sigma::Ewma, Sigma::Binomial] {
            for (p, parity) in [(0.0, 0), (0.1, 3), (0.2, 6), (0.3, 8), (0.4, 10), (0.5, 12)] {
                let estimate = settled(sigma, p);
                let exact = 20.0 * (p + (p * (1.0 - p) / 20.0).sqrt());
                // Where the exact value lies near a half the estimate may fall to either side.
                let distance = f64::from(estimate.parity()) - exact;
                assert!(distance.abs() < 0.8, "{sigma:?} at {p}: {}", estimate.parity());
                assert_eq!((exact + 0.5).floor() as u8, parity);
            }
        }
    }

    #[test]
    fn repair_makes_up_for_its_own_losses() {
        let estimate = settled(Sigma::Binomial, 0.5);
        // 3 / (1 - 0.5 - 0.11) is 7.7.
        assert!((19..=21).contains(&estimate.repair(3, 12)), "{}", estimate.repair(3, 12));
        let mu = Estimate { rfec: Rfec::Mu, ..estimate };
        assert!((17..=19).contains(&mu.repair(3, 12)), "{}", mu.repair(3, 12));
        let hopeless = Estimate { mean: 1.0, ..estimate };
        assert_eq!((hopeless.parity(), hopeless.repair(1, 19)), (19, 39));
    }

    #[test]
    fn the_first_packets_count_as_much_as_each_other() {
        let mut estimate = Estimate::new(&HarqConfig::default().over(&wire()));
        assert_eq!(estimate.parity(), 0);
        (0..4).for_each(|_| estimate.on_sample(12, 20));
        assert!((estimate.mean() - 0.32).abs() < 1e-9, "{}", estimate.mean());
        (0..1_000).for_each(|_| estimate.on_sample(20, 20));
        assert!(estimate.mean() < 0.01, "{}", estimate.mean());
    }

    #[test]
    fn patience_follows_what_feedback_takes_and_doubles() {
        let mut patience = Patience::default();
        assert!(patience.time(0) > FIRST && patience.time(9) == LONGEST);
        (0..50).for_each(|_| patience.on_sample(Duration::from_millis(20)));
        assert_eq!(patience.time(0), Duration::from_millis(26));
        assert_eq!(patience.time(2), Duration::from_millis(104));
    }
}
