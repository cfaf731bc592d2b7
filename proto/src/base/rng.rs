//! Random numbers: one generator for each component, derived from the seed of the run by name.
//!
//! Another component does not disturb the draws of the others, and the generator (PCG XSL RR 128/64
//! MCG) gives the same numbers on every machine.

use rand_core::Rng as _;
use rand_core::SeedableRng;
use rand_pcg::Pcg64Mcg;

/// The seed of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(pub u64);

/// The random numbers of one component.
#[derive(Clone, Debug)]
pub struct Rng(Pcg64Mcg);

impl Seed {
    /// The stream of the component `name`, for example `"node/7/link"`.
    pub fn stream(self, name: &str) -> Rng {
        // FNV-1a over the name, then SplitMix64 to spread the bits over the 128 bits of the state.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in self.0.to_le_bytes().iter().chain(name.as_bytes()) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        let mut state = [0; 16];
        for half in state.chunks_exact_mut(8) {
            hash = hash.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = hash;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            half.copy_from_slice(&(mixed ^ (mixed >> 31)).to_le_bytes());
        }
        Rng(Pcg64Mcg::from_seed(state))
    }
}

impl Rng {
    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A uniform number in `0..bound` (multiply-shift; the bias is below 2^-32 for `u32`).
    ///
    /// Panics if `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "an empty range has no member");
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A uniform number in `0.0..1.0`, from the upper 53 bits.
    pub fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
    }

    /// True with probability `p`. Always draws exactly once, so that `p` does not shift the stream.
    pub fn chance(&mut self, p: f64) -> bool {
        self.uniform() < p
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_pinned_on_every_machine() {
        let mut stream = Seed(1).stream("node/7/link");
        let draws: Vec<u64> = (0..3).map(|_| stream.next_u64()).collect();
        let mut again = Seed(1).stream("node/7/link");
        assert_eq!(draws, (0..3).map(|_| again.next_u64()).collect::<Vec<_>>());
        assert_ne!(draws[0], Seed(2).stream("node/7/link").next_u64());
        assert_ne!(draws[0], Seed(1).stream("node/8/link").next_u64());
    }

    #[test]
    fn uniform_draws_have_the_right_mean() {
        let mut stream = Seed(9).stream("mean");
        let mean = (0..100_000).map(|_| stream.uniform()).sum::<f64>() / 1e5;
        assert!((mean - 0.5).abs() < 0.005, "mean {mean}");
    }
}
