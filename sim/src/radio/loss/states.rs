//! Gilbert-Elliott: a good and a bad state, each with its own loss (`radio.md` 5.2).

use farhop_proto::base::{Duration, Instant, Rng};

use super::{assert_probability, exponential};

/// States with exponential sojourn times.
#[derive(Clone, Debug)]
pub(super) struct InTime {
    /// Mean sojourn in the good and in the bad state.
    stays: [Duration; 2],
    losses: [f64; 2],
    /// Whether the state is bad, and until when; drawn at the first frame.
    state: Option<(bool, Instant)>,
}

impl InTime {
    pub(super) fn new(stays: [Duration; 2], losses: [f64; 2]) -> Self {
        losses.iter().for_each(|loss| assert_probability(*loss));
        assert!(stays.iter().all(|stay| !stay.is_zero()), "a stay without length");
        Self { stays, losses, state: None }
    }

    pub(super) fn is_lost(&mut self, at: Instant, rng: &mut Rng) -> bool {
        let loss = self.losses[usize::from(self.is_bad(at, rng))];
        rng.chance(loss)
    }

    fn is_bad(&mut self, at: Instant, rng: &mut Rng) -> bool {
        /// After this many mean cycles the old state is forgotten (e^-32 and less), and a draw from
        /// the long-run distribution replaces the walk through all sojourns in between.
        const FORGOTTEN: u64 = 32;
        let [good, bad] = self.stays;
        let forgotten = (good + bad) * FORGOTTEN;
        let (mut is_bad, mut until) = match self.state {
            Some((is_bad, until)) if at.since(until) < forgotten => (is_bad, until),
            _ => {
                let is_bad = rng.chance(bad.as_secs_f64() / (good + bad).as_secs_f64());
                (is_bad, at + exponential(self.stays[usize::from(is_bad)], rng))
            }
        };
        while until <= at {
            is_bad = !is_bad;
            until += exponential(self.stays[usize::from(is_bad)], rng);
        }
        self.state = Some((is_bad, until));
        is_bad
    }
}

/// States that change from frame to frame.
#[derive(Clone, Debug)]
pub(super) struct ByFrame {
    /// Probabilities of leaving the good and the bad state.
    leaves: [f64; 2],
    losses: [f64; 2],
    is_bad: Option<bool>,
}

impl ByFrame {
    pub(super) fn new(leaves: [f64; 2], losses: [f64; 2]) -> Self {
        losses.iter().for_each(|loss| assert_probability(*loss));
        leaves.iter().for_each(|p| assert_probability(*p));
        assert!(leaves.iter().all(|p| *p > 0.0), "a state that is never left");
        Self { leaves, losses, is_bad: None }
    }

    pub(super) fn is_lost(&mut self, rng: &mut Rng) -> bool {
        let [to_bad, to_good] = self.leaves;
        let is_bad = match self.is_bad {
            None => rng.chance(to_bad / (to_bad + to_good)),
            Some(was_bad) => was_bad != rng.chance(self.leaves[usize::from(was_bad)]),
        };
        self.is_bad = Some(is_bad);
        rng.chance(self.losses[usize::from(is_bad)])
    }
}
