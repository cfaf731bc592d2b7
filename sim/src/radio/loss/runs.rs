//! Runs of lost frames with a measured distribution of lengths (`radio.md` 5.3). The runs of frames
//! that arrive between them are geometric, with the mean that yields the configured loss.

use std::sync::Arc;

use farhop_proto::base::Rng;

/// A distribution of runs of lost frames, and the long-run loss.
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorRuns {
    /// The share of runs that are no longer than 1, 2, 3 ... frames; the last is 1.
    shares: Vec<f64>,
    loss: f64,
    /// Mean length of a run of frames that arrive.
    good_mean: f64,
}

impl ErrorRuns {
    /// Runs with `[length, share of runs no longer than that]` at each of the points, interpolated
    /// linearly, and a long-run loss.
    ///
    /// `None` if the points do not rise to a share of 1, the loss is not from 0 to below 1, or the
    /// runs are so short that this loss would leave less than one frame between two of them.
    pub fn new(points: &[(u32, f64)], loss: f64) -> Option<Self> {
        let rises = points.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
        let first = points.first().is_some_and(|(length, share)| *length > 0 && *share >= 0.0);
        let is_whole =
            points.last().is_some_and(|(length, share)| *share == 1.0 && *length <= 1 << 20);
        if !rises || !first || !is_whole || !(0.0..1.0).contains(&loss) {
            return None;
        }
        let mut shares = Vec::new();
        let mut before = (0, 0.0);
        for (length, share) in points {
            for at in before.0 + 1..=*length {
                let part = f64::from(at - before.0) / f64::from(length - before.0);
                shares.push(before.1 + part * (share - before.1));
            }
            before = (*length, *share);
        }
        let mean: f64 = 1.0 + shares.iter().map(|share| 1.0 - share).sum::<f64>();
        let good_mean = if loss > 0.0 { mean * (1.0 - loss) / loss } else { f64::INFINITY };
        // At the limit the mean is 1, except for rounding.
        (good_mean >= 1.0 - 1e-6).then(|| Self { shares, loss, good_mean: good_mean.max(1.0) })
    }

    /// The long-run loss.
    pub fn loss(&self) -> f64 {
        self.loss
    }

    fn draw_bad(&self, rng: &mut Rng) -> u64 {
        let u = rng.uniform();
        self.shares.partition_point(|share| *share <= u) as u64 + 1
    }

    fn draw_good(&self, rng: &mut Rng) -> u64 {
        if self.loss == 0.0 {
            return u64::MAX;
        }
        let u = 1.0 - rng.uniform();
        // If all runs have one frame, the logarithm is minus infinity and the quotient is zero.
        let stay = libm::log1p(-1.0 / self.good_mean);
        ((libm::log(u) / stay) as u64).saturating_add(1)
    }
}

/// The sequence of runs.
#[derive(Clone, Debug)]
pub(super) struct Runs {
    model: Arc<ErrorRuns>,
    is_bad: bool,
    /// Frames left of the current run; `None` before the first.
    left: Option<u64>,
}

impl Runs {
    pub(super) fn new(model: Arc<ErrorRuns>) -> Self {
        Self { model, is_bad: false, left: None }
    }

    pub(super) fn is_lost(&mut self, rng: &mut Rng) -> bool {
        let left = match self.left {
            Some(0) => {
                self.is_bad = !self.is_bad;
                self.draw(rng)
            }
            Some(left) => left,
            None => {
                self.is_bad = rng.chance(self.model.loss);
                self.draw(rng)
            }
        };
        self.left = Some(left - 1);
        self.is_bad
    }

    fn draw(&self, rng: &mut Rng) -> u64 {
        if self.is_bad { self.model.draw_bad(rng) } else { self.model.draw_good(rng) }
    }
}
