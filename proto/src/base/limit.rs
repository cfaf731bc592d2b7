//! A rate limit: a token bucket.

use crate::base::{Duration, Instant};

/// A token bucket: it allows a burst, and then a rate.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    most: u32,
    every: Duration,
    tokens: u32,
    /// When the last token was added.
    filled: Instant,
}

impl Limit {
    /// A full bucket of `most` tokens. One token returns in each period `every`.
    pub const fn new(most: u32, every: Duration) -> Self {
        Self { most, every, tokens: most, filled: Instant::ZERO }
    }

    /// Sets the period in which one token returns. The tokens in the bucket stay.
    pub fn set_every(&mut self, every: Duration) {
        self.every = every;
    }

    /// Takes a token, if there is one.
    pub fn take(&mut self, now: Instant) -> bool {
        let come = now.since(self.filled).as_nanos() / self.every.as_nanos();
        if come >= u64::from(self.most - self.tokens) {
            self.tokens = self.most;
            self.filled = now;
        } else {
            self.tokens += come as u32;
            self.filled += self.every * come;
        }
        let has = self.tokens > 0;
        self.tokens -= u32::from(has);
        has
    }

    /// Fills the bucket.
    pub fn fill(&mut self) {
        self.tokens = self.most;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_allowed_and_then_a_rate() {
        let mut limit = Limit::new(3, Duration::from_millis(100));
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let taken = (0..10).filter(|_| limit.take(at(5_000))).count();
        assert_eq!(taken, 3);
        assert!(!limit.take(at(5_099)) && limit.take(at(5_100)) && !limit.take(at(5_150)));
        assert!(limit.take(at(5_200)));
        limit.set_every(Duration::from_millis(10));
        assert!(limit.take(at(5_210)) && !limit.take(at(5_210)), "no more than had come back");
        limit.fill();
        assert!(limit.take(at(5_210)));
    }
}
