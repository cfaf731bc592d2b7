//! Loss processes of a link (`radio.md` 5): which frames arrive but cannot be decoded.
//!
//! One interface, [`LossProcess::lost`]; further processes of the sheet are further variants. The
//! continuous-time Gilbert-Elliott process takes its state at the start of the frame, so that the
//! long-run loss is that of the formula whatever the length of the frames.

use farhop_proto::base::{Duration, Instant, Rng};
use serde::{Deserialize, Serialize};

/// A loss process as a configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LossModel {
    /// Nothing is lost.
    #[default]
    None,
    /// Each frame is lost by itself with probability `p`.
    Bernoulli {
        /// Probability, 0 to 1.
        p: f64,
    },
    /// Two states with exponential stays, each with a loss of its own.
    GilbertElliott {
        /// Mean stay in the good state.
        good: Duration,
        /// Mean stay in the bad state.
        bad: Duration,
        /// Loss of a frame that starts in the good state, 0 to 1.
        good_loss: f64,
        /// Loss of a frame that starts in the bad state, 0 to 1.
        bad_loss: f64,
    },
}

impl LossModel {
    /// The process with its random stream.
    ///
    /// Panics if a probability lies outside 0 to 1 or a mean stay is zero.
    pub fn build(self, rng: Rng) -> LossProcess {
        let is_probability = |p: f64| (0.0..=1.0).contains(&p);
        match self {
            Self::None => {}
            Self::Bernoulli { p } => assert!(is_probability(p), "a loss of {p}"),
            Self::GilbertElliott { good, bad, good_loss, bad_loss } => {
                assert!(is_probability(good_loss), "a loss of {good_loss}");
                assert!(is_probability(bad_loss), "a loss of {bad_loss}");
                assert!(!good.is_zero() && !bad.is_zero(), "a stay without length");
            }
        }
        LossProcess { model: self, rng, state: None }
    }

    /// Long-run share of lost frames.
    pub fn mean(self) -> f64 {
        match self {
            Self::None => 0.0,
            Self::Bernoulli { p } => p,
            Self::GilbertElliott { good, bad, good_loss, bad_loss } => {
                let (good, bad) = (good.as_secs_f64(), bad.as_secs_f64());
                (good_loss * good + bad_loss * bad) / (good + bad)
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct State {
    is_bad: bool,
    until: Instant,
}

/// A loss process at work on one direction of one link.
#[derive(Clone, Debug)]
pub struct LossProcess {
    model: LossModel,
    rng: Rng,
    /// Of the Gilbert-Elliott process, drawn at the first frame.
    state: Option<State>,
}

impl LossProcess {
    /// Whether a frame that starts at `start` and lasts `air` is lost. Calls come in the order of
    /// `start`.
    ///
    /// None of the processes so far depends on `air`; those of `radio.md` 5.4 and 5.5 do.
    pub fn lost(&mut self, start: Instant, air: Duration) -> bool {
        let _ = air;
        match self.model {
            LossModel::None => false,
            LossModel::Bernoulli { p } => self.rng.chance(p),
            LossModel::GilbertElliott { good, bad, good_loss, bad_loss } => {
                let loss = if self.is_bad_at(start, good, bad) { bad_loss } else { good_loss };
                self.rng.chance(loss)
            }
        }
    }

    fn is_bad_at(&mut self, at: Instant, good: Duration, bad: Duration) -> bool {
        /// After so many mean cycles the state is forgotten (e^-32 and less), and a draw from the
        /// long-run distribution replaces a walk through all the stays between.
        const FORGOTTEN: u64 = 32;
        let forgotten = (good + bad) * FORGOTTEN;
        let mut state = match self.state {
            Some(state) if at.since(state.until) < forgotten => state,
            _ => {
                let share = bad.as_secs_f64() / (good + bad).as_secs_f64();
                let is_bad = self.rng.chance(share);
                let stay = self.stay(if is_bad { bad } else { good });
                State { is_bad, until: at + stay }
            }
        };
        while state.until <= at {
            let is_bad = !state.is_bad;
            let stay = self.stay(if is_bad { bad } else { good });
            state = State { is_bad, until: state.until + stay };
        }
        self.state = Some(state);
        state.is_bad
    }

    /// An exponential stay, at least a nanosecond.
    fn stay(&mut self, mean: Duration) -> Duration {
        // 1 - u lies in (0, 1], so that the logarithm is finite.
        let stay = mean.mul_f64(-libm::log(1.0 - self.rng.uniform()));
        stay.max(Duration::from_nanos(1))
    }
}

#[cfg(test)]
mod tests {
    use farhop_proto::base::Seed;

    use super::*;

    const AIR: Duration = Duration::from_millis(1);

    fn losses(model: LossModel, frames: u64, apart: Duration) -> Vec<bool> {
        let mut process = model.build(Seed(3).stream("loss"));
        (0..frames)
            .map(|frame| process.lost(Instant::from_nanos(frame * apart.as_nanos()), AIR))
            .collect()
    }

    fn share(losses: &[bool]) -> f64 {
        losses.iter().filter(|lost| **lost).count() as f64 / losses.len() as f64
    }

    #[test]
    fn bernoulli_loses_its_share() {
        let losses = losses(LossModel::Bernoulli { p: 0.1 }, 400_000, AIR);
        assert!((share(&losses) - 0.1).abs() < 0.002, "{}", share(&losses));
    }

    #[test]
    fn gilbert_elliott_has_the_long_run_loss_and_bursts_of_its_bad_stays() {
        let (good, bad) = (Duration::from_millis(90), Duration::from_millis(10));
        let model = LossModel::GilbertElliott { good, bad, good_loss: 0.0, bad_loss: 1.0 };
        assert!((model.mean() - 0.1).abs() < 1e-12);
        let apart = Duration::from_micros(100);
        let losses = losses(model, 4_000_000, apart);
        assert!((share(&losses) - 0.1).abs() < 0.005, "{}", share(&losses));
        let bursts = losses.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        let burst = losses.iter().filter(|lost| **lost).count() as f64 / bursts as f64;
        // A bad stay of 10 ms covers 100 frames that start 100 us apart; stays between two frames
        // are not seen, so that the bursts that are seen are a little longer.
        assert!((burst / 100.5 - 1.0).abs() < 0.05, "a burst is {burst} frames");
    }

    #[test]
    fn gilbert_elliott_keeps_its_loss_over_long_silences() {
        let (good, bad) = (Duration::from_millis(3), Duration::from_millis(1));
        let model = LossModel::GilbertElliott { good, bad, good_loss: 0.1, bad_loss: 0.9 };
        for apart in [Duration::from_millis(2), Duration::from_secs(60)] {
            let share = share(&losses(model, 200_000, apart));
            assert!((share - 0.3).abs() < 0.006, "{share} with frames {apart} apart");
        }
    }

    #[test]
    fn nothing_is_lost_where_nothing_was_said() {
        assert!(share(&losses(LossModel::None, 100, AIR)) == 0.0);
    }
}
