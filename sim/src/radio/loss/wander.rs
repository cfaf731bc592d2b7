//! Losses that change over time: a slow drift with bursts (`radio.md` 5.5), and a modulation around
//! a mean (5.7).
//!
//! The drift is an Ornstein-Uhlenbeck process of the log-odds, clamped at three standard
//! deviations. Its center is set so that frames of the reference length have the configured mean
//! loss.

use farhop_proto::base::{Duration, Instant, Rng};

use super::{Exposed, assert_probability, exponential};

/// Where the drift is clamped, in standard deviations.
const BOUND: f64 = 3.0;

/// A loss that drifts.
#[derive(Clone, Debug, PartialEq)]
pub struct Drift {
    /// Mean loss of frames of the reference length outside of bursts, between 0 and 1 exclusive.
    pub loss: f64,
    /// Standard deviation of the log-odds.
    pub sigma: f64,
    /// Correlation time.
    pub correlation: Duration,
    /// Length in bytes of the frames that `loss` is for; longer ones lose more.
    pub reference_bytes: u32,
    /// Bursts.
    pub burst: Option<Burst>,
}

/// Bursts of loss: exponential times between them, lengths that are uniform on a logarithmic scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Burst {
    /// Mean time from the end of a burst to the start of the next.
    pub gap: Duration,
    /// Shortest burst.
    pub shortest: Duration,
    /// Longest burst.
    pub longest: Duration,
    /// Loss of frames of the reference length during a burst, 0 to 1.
    pub loss: f64,
}

impl Burst {
    fn draw_length(&self, rng: &mut Rng) -> Duration {
        let ratio = self.longest.as_secs_f64() / self.shortest.as_secs_f64();
        self.shortest.mul_f64(libm::pow(ratio, rng.uniform()))
    }

    /// Share of the time in which there is a burst.
    fn share(&self) -> f64 {
        let [shortest, longest, gap] =
            [self.shortest, self.longest, self.gap].map(Duration::as_secs_f64);
        let mean = if longest > shortest {
            (longest - shortest) / libm::log(longest / shortest)
        } else {
            shortest
        };
        mean / (mean + gap)
    }
}

fn odds_to_loss(log_odds: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-log_odds))
}

/// Converts the loss of frames of the reference length to frames of `bytes` bytes.
fn by_length(loss: f64, bytes: u32, reference: u32) -> f64 {
    if bytes == reference {
        return loss;
    }
    1.0 - libm::pow(1.0 - loss, f64::from(bytes) / f64::from(reference.max(1)))
}

impl Drift {
    /// Mean of a function of the loss over the distribution of the drift, by Simpson's rule; the
    /// tails beyond the bound count at the bound.
    fn expect(&self, middle: f64, value: impl Fn(f64) -> f64) -> f64 {
        const STEPS: usize = 200;
        let step = 2.0 * BOUND / STEPS as f64;
        let density = |x: f64| libm::exp(-x * x / 2.0) / libm::sqrt(2.0 * std::f64::consts::PI);
        let at = |x: f64| value(odds_to_loss(middle + self.sigma * x));
        let mut sum = 0.0;
        for index in 0..=STEPS {
            let x = -BOUND + step * index as f64;
            let weight = match index {
                0 | STEPS => 1.0,
                _ if index % 2 == 1 => 4.0,
                _ => 2.0,
            };
            sum += weight * density(x) * at(x);
        }
        let tail = 0.5 * libm::erfc(BOUND / std::f64::consts::SQRT_2);
        sum * step / 3.0 + tail * (at(-BOUND) + at(BOUND))
    }

    /// The log-odds at the center of the drift.
    fn middle(&self) -> f64 {
        let (mut low, mut high) = (-60.0, 60.0);
        for _ in 0..80 {
            let middle = (low + high) / 2.0;
            if self.expect(middle, |loss| loss) < self.loss { low = middle } else { high = middle }
        }
        (low + high) / 2.0
    }

    pub(super) fn mean(&self, bytes: u32) -> f64 {
        let length = |loss: f64| by_length(loss, bytes, self.reference_bytes);
        let calm = self.expect(self.middle(), length);
        let Some(burst) = &self.burst else { return calm };
        let share = burst.share();
        share * length(burst.loss) + (1.0 - share) * calm
    }
}

/// A drift over time.
#[derive(Clone, Debug)]
pub(super) struct Drifting {
    model: Drift,
    middle: f64,
    /// Distance from the center in standard deviations before clamping, and its time.
    place: f64,
    at: Instant,
    loss: f64,
    /// Whether there is a burst now, and until when this lasts.
    is_burst: bool,
    until: Instant,
}

impl Drifting {
    pub(super) fn new(model: &Drift, rng: &mut Rng) -> Self {
        assert!(model.loss > 0.0 && model.loss < 1.0, "a mean loss of {}", model.loss);
        assert!(!model.correlation.is_zero(), "a drift without memory");
        let mut until = Instant::MAX;
        let mut is_burst = false;
        if let Some(burst) = &model.burst {
            assert_probability(burst.loss);
            assert!(!burst.gap.is_zero() && !burst.shortest.is_zero(), "bursts without length");
            is_burst = rng.chance(burst.share());
            let rest = if is_burst { burst.draw_length(rng) } else { exponential(burst.gap, rng) };
            until = Instant::ZERO + rest;
        }
        let (middle, place) = (model.middle(), normal(rng));
        let mut drifting = Self {
            model: model.clone(),
            middle,
            place,
            at: Instant::ZERO,
            loss: 0.0,
            is_burst,
            until,
        };
        drifting.settle();
        drifting
    }

    fn settle(&mut self) {
        let place = self.place.clamp(-BOUND, BOUND);
        self.loss = odds_to_loss(self.middle + self.model.sigma * place);
    }

    fn advance(&mut self, now: Instant, rng: &mut Rng) {
        // Steps shorter than this part of the correlation time make no difference.
        const STEPS: u64 = 256;
        let span = now.since(self.at);
        if span * STEPS >= self.model.correlation {
            let kept = libm::exp(-span.as_secs_f64() / self.model.correlation.as_secs_f64());
            self.place = kept * self.place + libm::sqrt(1.0 - kept * kept) * normal(rng);
            self.at = now;
            self.settle();
        }
        let Some(burst) = &self.model.burst else { return };
        while self.until <= now {
            self.is_burst = !self.is_burst;
            let stay =
                if self.is_burst { burst.draw_length(rng) } else { exponential(burst.gap, rng) };
            self.until += stay.max(Duration::from_nanos(1));
        }
    }

    pub(super) fn is_lost(&mut self, frame: &Exposed, rng: &mut Rng) -> bool {
        self.advance(frame.start, rng);
        let loss = match &self.model.burst {
            Some(burst) if self.is_burst => burst.loss,
            _ => self.loss,
        };
        rng.chance(by_length(loss, frame.bytes, self.model.reference_bytes))
    }
}

/// A standard normal random number (Box and Muller).
fn normal(rng: &mut Rng) -> f64 {
    let radius = libm::sqrt(-2.0 * libm::log(1.0 - rng.uniform()));
    radius * libm::cos(2.0 * std::f64::consts::PI * rng.uniform())
}

/// A loss that is drawn anew at equal intervals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Modulated {
    /// Mean loss.
    pub loss: f64,
    /// Largest distance from the mean, as a share of it.
    pub spread: f64,
    /// Time from one draw to the next.
    pub period: Duration,
    /// Whether it alternates between the two ends; otherwise it is drawn uniformly between them.
    pub is_square: bool,
}

/// A modulation over time.
#[derive(Clone, Debug)]
pub(super) struct Modulation {
    model: Modulated,
    /// The period that `loss` is for.
    drawn: Option<u64>,
    loss: f64,
}

impl Modulation {
    pub(super) fn new(model: &Modulated) -> Self {
        assert_probability(model.loss * (1.0 - model.spread));
        assert_probability(model.loss * (1.0 + model.spread));
        assert!(!model.period.is_zero(), "a modulation without period");
        Self { model: *model, drawn: None, loss: 0.0 }
    }

    pub(super) fn is_lost(&mut self, at: Instant, rng: &mut Rng) -> bool {
        let period = at.since(Instant::ZERO).div_duration(self.model.period);
        if self.drawn != Some(period) {
            self.drawn = Some(period);
            let place = match self.model.is_square {
                true if period.is_multiple_of(2) => 1.0,
                true => -1.0,
                false => 2.0 * rng.uniform() - 1.0,
            };
            self.loss = self.model.loss * (1.0 + self.model.spread * place);
        }
        rng.chance(self.loss)
    }
}
